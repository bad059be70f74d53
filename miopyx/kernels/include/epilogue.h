/* What becomes of a convolution's result between the accumulator and memory.
 *
 *   plainly     y = alpha result + beta y
 *   EPILOGUE    y = act(scale (alpha result + bias - mean) / sqrt(variance + epsilon) + shift + beta z)
 *
 * A kernel whose file takes this in applies both: it ends its parameters with EPILOGUE_KERNEL_PARAMS, begins with
 * EPILOGUE_BEGIN, hands EPILOGUE_ARGS to functions that take EPILOGUE_PARAMS, and stores by STORE_RESULT, or by
 * mx_scaled_result, OLD_RESULT where beta is not 0, and mx_final.  Without EPILOGUE these say alpha and beta and no more.
 * The host adds the arguments and these definitions (solvers/conv/_epilogue.pyx):
 *
 *   EPILOGUE     the activation, a miopenActivationMode_t
 *   RESULT_TYPE  of y and z
 *   FUSED_Z      there is a z, which lies as y does; else beta is 0
 *   BIAS_TYPE    there is a bias of this type, a number of each filter
 *   NORM_TYPE    there is a batch norm, whose scale, shift, mean and variance have this type
 *
 * Vectors of V_LANES have one filter's pixels, or neighbouring filters.  After include/common.h.
 */
#ifdef EPILOGUE
#define ACTIVATION EPILOGUE
#include "include/functions.h"
#include "include/activation.h"

typedef struct {
#ifdef FUSED_Z
    long z; /* bytes from an element of y to that of z */
#endif
#ifdef BIAS_TYPE
    __global const STORAGE(BIAS_TYPE) *bias;
#endif
#ifdef NORM_TYPE
    __global const STORAGE(NORM_TYPE) *scale, *shift, *mean, *variance;
    SCALAR epsilon;
#endif
    SCALAR a, b, c; /* the activation's alpha, beta and gamma */
} mx_epilogue;

#ifdef FUSED_Z
#define MX_Z_PARAMS , __global const STORAGE(RESULT_TYPE) *fused_z, long fused_z_offset
#define MX_Z_BEGIN(y, y_offset) \
    epilogue.z = (__global const char *)(fused_z + fused_z_offset) - (__global const char *)((y) + (y_offset));
#define OLD_RESULT(T, p) ((__global const STORAGE(T) *)((__global const char *)(p) + epilogue.z))
#else
#define MX_Z_PARAMS
#define MX_Z_BEGIN(y, y_offset)
#define OLD_RESULT(T, p) (p)
#endif
#ifdef BIAS_TYPE
#define MX_BIAS_PARAMS , __global const STORAGE(BIAS_TYPE) *fused_bias, long fused_bias_offset
#define MX_BIAS_BEGIN epilogue.bias = fused_bias + fused_bias_offset;
#else
#define MX_BIAS_PARAMS
#define MX_BIAS_BEGIN
#endif
#ifdef NORM_TYPE
#define MX_NORM_PARAMS                                                                                           \
    , __global const STORAGE(NORM_TYPE) *fused_scale, long fused_scale_offset,                                   \
        __global const STORAGE(NORM_TYPE) *fused_shift, long fused_shift_offset,                                 \
        __global const STORAGE(NORM_TYPE) *fused_mean, long fused_mean_offset,                                   \
        __global const STORAGE(NORM_TYPE) *fused_variance, long fused_variance_offset, const SCALAR fused_epsilon
#define MX_NORM_BEGIN                                                                                        \
    epilogue.scale = fused_scale + fused_scale_offset, epilogue.shift = fused_shift + fused_shift_offset,    \
    epilogue.mean = fused_mean + fused_mean_offset, epilogue.variance = fused_variance + fused_variance_offset, \
    epilogue.epsilon = fused_epsilon;
#else
#define MX_NORM_PARAMS
#define MX_NORM_BEGIN
#endif
#define EPILOGUE_KERNEL_PARAMS                                                                                   \
    const SCALAR alpha, const SCALAR beta MX_Z_PARAMS MX_BIAS_PARAMS MX_NORM_PARAMS, const SCALAR fused_a,       \
        const SCALAR fused_b, const SCALAR fused_c
#define EPILOGUE_BEGIN(y, y_offset)                                 \
    mx_epilogue epilogue;                                           \
    MX_Z_BEGIN(y, y_offset)                                         \
    MX_BIAS_BEGIN                                                   \
    MX_NORM_BEGIN                                                   \
    epilogue.a = fused_a, epilogue.b = fused_b, epilogue.c = fused_c;
#define EPILOGUE_PARAMS const SCALAR alpha, const SCALAR beta, const mx_epilogue epilogue
#define EPILOGUE_ARGS alpha, beta, epilogue

/* A filter's result r is scale r + shift before z is added to it. */
static inline ACC mx_result_scale(EPILOGUE_PARAMS, long k)
{
#ifdef NORM_TYPE
    return (ACC)alpha * ((ACC)LOAD(NORM_TYPE)(epilogue.scale, k) /
                         sqrt((ACC)LOAD(NORM_TYPE)(epilogue.variance, k) + (ACC)epilogue.epsilon));
#else
    return (ACC)alpha;
#endif
}

static inline ACC mx_result_shift(EPILOGUE_PARAMS, long k)
{
    ACC shift = 0;
#ifdef BIAS_TYPE
    shift = (ACC)LOAD(BIAS_TYPE)(epilogue.bias, k);
#endif
#ifdef NORM_TYPE
    shift = (shift - (ACC)LOAD(NORM_TYPE)(epilogue.mean, k)) *
                ((ACC)LOAD(NORM_TYPE)(epilogue.scale, k) /
                 sqrt((ACC)LOAD(NORM_TYPE)(epilogue.variance, k) + (ACC)epilogue.epsilon)) +
            (ACC)LOAD(NORM_TYPE)(epilogue.shift, k);
#endif
    return shift;
}

/* Numbers of one filter, or one number. */
static inline V mx_final(V v, const mx_epilogue epilogue)
{
    return mx_activation(v, epilogue.a, epilogue.b, epilogue.c,
                         MX_TYPE(RESULT_TYPE) == MX_TYPE_half ? (ACC)1e-4f : (ACC)1e-6f);
}

#if V_LANES == 1
#define mx_final_one mx_final
#else
static inline ACC mx_final_one(ACC v, const mx_epilogue epilogue)
{
    ACC lane[V_LANES];
    VJOIN(vstore)(mx_final((V)v, epilogue), 0, lane);
    return lane[0];
}

/* Of filters k, k + 1, ..., of which there are `count`. */
static inline V mx_result_scales(EPILOGUE_PARAMS, long k, long count)
{
#ifdef NORM_TYPE
    ACC lane[V_LANES];
    for (int i = 0; i < V_LANES; i++)
        lane[i] = mx_result_scale(EPILOGUE_ARGS, i < count ? k + i : k);
    return VJOIN(vload)(0, lane);
#else
    return (V)((ACC)alpha);
#endif
}

static inline V mx_result_shifts(EPILOGUE_PARAMS, long k, long count)
{
#if defined(BIAS_TYPE) || defined(NORM_TYPE)
    ACC lane[V_LANES];
#if !defined(NORM_TYPE) && V_LANES == VEC
    if (count >= V_LANES)
        return VJOIN(MX_JOIN(convert_, ACC))(VLOAD(BIAS_TYPE)(epilogue.bias, k));
#endif
    for (int i = 0; i < V_LANES; i++)
        lane[i] = mx_result_shift(EPILOGUE_ARGS, i < count ? k + i : k);
    return VJOIN(vload)(0, lane);
#else
    return (V)((ACC)0);
#endif
}
#endif

#define STORE_RESULT(T, p, i, result, alpha, beta, k)                                                                 \
    do {                                                                                                              \
        ACC value_ = mx_result_scale(alpha, beta, epilogue, k) * (ACC)(result) +                                      \
                     mx_result_shift(alpha, beta, epilogue, k);                                                       \
        if ((beta) != 0)                                                                                              \
            value_ += (ACC)(beta) * (ACC)LOAD(T)(OLD_RESULT(T, p), i);                                                \
        STORE(T)(p, i, mx_final_one(value_, epilogue));                                                               \
    } while (0)

#else

#define EPILOGUE_KERNEL_PARAMS const SCALAR alpha, const SCALAR beta
#define EPILOGUE_BEGIN(y, y_offset)
#define EPILOGUE_PARAMS const SCALAR alpha, const SCALAR beta
#define EPILOGUE_ARGS alpha, beta
#define OLD_RESULT(T, p) (p)
#define STORE_RESULT(T, p, i, result, alpha, beta, k) STORE_MIXED(T, p, i, result, alpha, beta)

#endif
