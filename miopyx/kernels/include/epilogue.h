/* What becomes of a convolution's result between the accumulator and memory.
 *
 *   plainly     y = alpha result + beta y
 *   EPILOGUE    y = act(scale (alpha result + bias - mean) / sqrt(variance + epsilon) + shift + beta z)
 *
 * A kernel that ends its parameters with EPILOGUE_KERNEL_PARAMS and stores as this page says applies both.  It begins
 * with EPILOGUE_BEGIN and hands EPILOGUE_ARGS to functions that take EPILOGUE_PARAMS.  OF_FILTER(k), in an inner block, says
 * whose results follow; OF_FILTERS(k, count) likewise of neighbouring filters in the lanes of a vector.  Then a
 * result v is stored as FINAL_RESULT(SCALED_RESULT(v) + beta * OLD_RESULT(T, p)[...]), where beta is not 0, else without
 * the second term; STORE_ONE and STORE_FIRST do that for a number and for the first lanes of a vector.
 * Without EPILOGUE these are alpha and beta and no more.  The host adds arguments and definitions
 * (solvers/conv/_epilogue.pyx):
 *
 *   EPILOGUE     the activation, a miopenActivationMode_t
 *   RESULT_TYPE  of y and z
 *   FUSED_Z      there is a z, which lies as y does; else beta is 0
 *   BIAS_TYPE    there is a bias of this type, a number of each filter
 *   NORM_TYPE    there is a batch norm, whose scale, shift, mean and variance have this type
 *
 * Vectors have V_LANES numbers, VEC unless a file says otherwise.  After include/common.h.
 */
#ifdef EPILOGUE
#define ACTIVATION EPILOGUE
#include "include/functions.h"
#include "include/activation.h"

typedef struct {
#ifdef FUSED_Z
    __global const STORAGE(RESULT_TYPE) *z, *y; /* where both begin */
#endif
#ifdef BIAS_TYPE
    __global const STORAGE(BIAS_TYPE) *bias;
#endif
#ifdef NORM_TYPE
    __global const STORAGE(NORM_TYPE) *scale, *shift, *mean, *variance;
    SCALAR epsilon;
#endif
    SCALAR a, b, c; /* the activation's alpha, beta and gamma */
    V scale_of, shift_of; /* of OF_FILTER or OF_FILTERS: a result r is scale r + shift before z is added */
    ACC scale_one, shift_one; /* of OF_FILTER */
} mx_epilogue;

#ifdef FUSED_Z
/* No work-item reads another's z: where z is y each element is read before it is written, whatever restrict says. */
#define MX_Z_PARAMS , __global const STORAGE(RESULT_TYPE) *restrict fused_z, long fused_z_offset
#define MX_Z_BEGIN(Y, y_offset) epilogue_.z = fused_z + fused_z_offset, epilogue_.y = (Y) + (y_offset);
#define OLD_RESULT(T, p) (epilogue->z + ((p) - epilogue->y))
#else
#define MX_Z_PARAMS
#define MX_Z_BEGIN(y, y_offset)
#define OLD_RESULT(T, p) (p)
#endif
#ifdef BIAS_TYPE
#define MX_BIAS_PARAMS , __global const STORAGE(BIAS_TYPE) *fused_bias, long fused_bias_offset
#define MX_BIAS_BEGIN epilogue_.bias = fused_bias + fused_bias_offset;
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
    epilogue_.scale = fused_scale + fused_scale_offset, epilogue_.shift = fused_shift + fused_shift_offset,    \
    epilogue_.mean = fused_mean + fused_mean_offset, epilogue_.variance = fused_variance + fused_variance_offset, \
    epilogue_.epsilon = fused_epsilon;
#else
#define MX_NORM_PARAMS
#define MX_NORM_BEGIN
#endif
#define EPILOGUE_MORE                                                                                        \
    MX_Z_PARAMS MX_BIAS_PARAMS MX_NORM_PARAMS, const SCALAR fused_a, const SCALAR fused_b, const SCALAR fused_c
#define EPILOGUE_BEGIN(y, y_offset)                                 \
    mx_epilogue epilogue_;                                          \
    MX_Z_BEGIN(y, y_offset)                                         \
    MX_BIAS_BEGIN                                                   \
    MX_NORM_BEGIN                                                   \
    epilogue_.a = fused_a, epilogue_.b = fused_b, epilogue_.c = fused_c; \
    const mx_epilogue *const epilogue = &epilogue_;
#define EPILOGUE_PARAMS const SCALAR alpha, const SCALAR beta, const mx_epilogue *const epilogue
#define EPILOGUE_ARGS alpha, beta, epilogue

#ifdef NORM_TYPE
/* What batch norm multiplies a filter's results by. */
static inline ACC mx_gain(const mx_epilogue *const epilogue, long k)
{
    return (ACC)LOAD(NORM_TYPE)(epilogue->scale, k) /
           sqrt((ACC)LOAD(NORM_TYPE)(epilogue->variance, k) + (ACC)epilogue->epsilon);
}
#endif

static inline ACC mx_result_scale(EPILOGUE_PARAMS, long k)
{
#ifdef NORM_TYPE
    return (ACC)alpha * mx_gain(epilogue, k);
#else
    return (ACC)alpha;
#endif
}

static inline ACC mx_result_shift(EPILOGUE_PARAMS, long k)
{
    ACC shift = 0;
#ifdef BIAS_TYPE
    shift = (ACC)LOAD(BIAS_TYPE)(epilogue->bias, k);
#endif
#ifdef NORM_TYPE
    shift = (shift - (ACC)LOAD(NORM_TYPE)(epilogue->mean, k)) * mx_gain(epilogue, k) +
            (ACC)LOAD(NORM_TYPE)(epilogue->shift, k);
#endif
    return shift;
}

static inline mx_epilogue mx_of_filter(EPILOGUE_PARAMS, long k)
{
    mx_epilogue own = *epilogue;
    own.scale_one = mx_result_scale(EPILOGUE_ARGS, k), own.shift_one = mx_result_shift(EPILOGUE_ARGS, k);
    own.scale_of = (V)own.scale_one, own.shift_of = (V)own.shift_one;
    return own;
}

#if V_LANES > 1
/* Filters k, k + 1, ..., of which there are `count`. */
static inline mx_epilogue mx_of_filters(EPILOGUE_PARAMS, long k, long count)
{
    mx_epilogue own = *epilogue;
    ACC scales[V_LANES], shifts[V_LANES];
    own.scale_of = (V)((ACC)alpha), own.shift_of = (V)((ACC)0);
#if defined(BIAS_TYPE) && !defined(NORM_TYPE) && V_LANES == VEC
    if (count >= V_LANES) {
        own.shift_of = VJOIN(MX_JOIN(convert_, ACC))(VLOAD(BIAS_TYPE)(epilogue->bias, k));
        return own;
    }
#endif
#if defined(BIAS_TYPE) || defined(NORM_TYPE)
    for (int i = 0; i < V_LANES; i++) {
        scales[i] = mx_result_scale(EPILOGUE_ARGS, i < count ? k + i : k);
        shifts[i] = mx_result_shift(EPILOGUE_ARGS, i < count ? k + i : k);
    }
    own.scale_of = VJOIN(vload)(0, scales), own.shift_of = VJOIN(vload)(0, shifts);
#endif
    return own;
}
#define OF_FILTERS(k, count)                                                 \
    const mx_epilogue of_filters_ = mx_of_filters(EPILOGUE_ARGS, k, count);  \
    const mx_epilogue *const epilogue = &of_filters_;
#endif
#define OF_FILTER(k)                                                \
    const mx_epilogue of_filter_ = mx_of_filter(EPILOGUE_ARGS, k);  \
    const mx_epilogue *const epilogue = &of_filter_;

static inline V mx_final(V v, const mx_epilogue *const epilogue)
{
    return mx_activation(v, epilogue->a, epilogue->b, epilogue->c,
                         MX_TYPE(RESULT_TYPE) == MX_TYPE_half ? (ACC)1e-4f : (ACC)1e-6f);
}

#if V_LANES == 1
#define mx_final_one mx_final
#else
static inline ACC mx_final_one(ACC v, const mx_epilogue *const epilogue)
{
    ACC lane[V_LANES];
    VJOIN(vstore)(mx_final((V)v, epilogue), 0, lane);
    return lane[0];
}
#endif

#define SCALED_RESULT(v) ((v) * epilogue->scale_of + epilogue->shift_of)
#define FINAL_RESULT(v) mx_final(v, epilogue)
/* Of a number that was scaled before. */
#define STORE_SCALED(T, p, i, scaled)                                                       \
    do {                                                                                    \
        ACC value_ = (scaled);                                                              \
        if (beta != 0)                                                                      \
            value_ += (ACC)beta * (ACC)LOAD(T)(OLD_RESULT(T, p), i);                        \
        STORE(T)(p, i, mx_final_one(value_, epilogue));                                     \
    } while (0)
#define STORE_ONE(T, p, i, result) \
    STORE_SCALED(T, p, i, (ACC)(result) * epilogue->scale_one + epilogue->shift_one)
#define STORE_FIRST(T, p, v, count)                                                         \
    do {                                                                                    \
        ACC lane_[V_LANES];                                                                 \
        VJOIN(vstore)(SCALED_RESULT(v), 0, lane_);                                          \
        for (int i_ = 0; i_ < V_LANES && beta != 0; i_++)                                   \
            if (i_ < (count))                                                               \
                lane_[i_] += (ACC)beta * (ACC)LOAD(T)(OLD_RESULT(T, p), i_);                \
        VJOIN(vstore)(FINAL_RESULT(VJOIN(vload)(0, lane_)), 0, lane_);                      \
        for (int i_ = 0; i_ < V_LANES; i_++)                                                \
            if (i_ < (count))                                                               \
                STORE(T)(p, i_, lane_[i_]);                                                 \
    } while (0)

#else

#define EPILOGUE_MORE
#define EPILOGUE_BEGIN(y, y_offset)
#define EPILOGUE_PARAMS const SCALAR alpha, const SCALAR beta
#define EPILOGUE_ARGS alpha, beta
#define OLD_RESULT(T, p) (p)
#define OF_FILTER(k)
#define OF_FILTERS(k, count)
#define SCALED_RESULT(v) ((ACC)alpha * (v))
#define FINAL_RESULT(v) (v)
#define STORE_ONE(T, p, i, result) STORE_MIXED(T, p, i, result, alpha, beta)
#define STORE_SCALED STORE_ONE

#endif

/* alpha, beta and what follows them; EPILOGUE_MORE alone where other parameters stand between. */
#define EPILOGUE_KERNEL_PARAMS const SCALAR alpha, const SCALAR beta EPILOGUE_MORE
