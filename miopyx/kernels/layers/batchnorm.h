/* What the kernels of batch normalisation share: formulas, definitions, arguments, and how tensors are walked.
 *
 *   training   mean = sum x / m;  variance = sum (x - mean)^2 / m;  y = scale (x - mean) / sqrt(variance + eps) + bias
 *   inference  the same with the mean and the variance that are given
 *   backward   r = 1 / sqrt(variance + eps);  dbias = sum dy;  dscale = sum dy (x - mean) r;
 *              dx = scale r (dy - (dbias + (x - mean) r dscale) / m)
 *   m is how many elements share a mean (MIOpen's batch normalisation page; Ioffe and Szegedy, 2015).
 *
 * With ACTIVATION y is act(scale (x - mean) r + bias), and backward dy is its gradient: the gradient of what is within
 * act, which the formulas above take for dy, is computed from x wherever dy is read (NORM_GRADIENT).
 *
 * Statistics are kept along some axes and taken over the others (bn_walk).  Sums are of differences from a `shift`, the
 * mean of a few elements of the channel; where that turns out to be many deviations away from a block's mean (FAR),
 * squares are summed anew, of differences from the mean.  Blocks are combined by Chan's formula.  So a mean that is
 * large beside the deviation costs no precision: the mean is shift + mean.
 *
 * A kernel takes x (x, dy backward), y (dx), scale, bias, means and variances, see BUFFERS; then, where PARTS is 1, a
 * workspace of ACC:
 *   shift      kept elements
 *   moments    for each part: means, then sums of squares, kept elements each
 *   gradients  for each part: sums of dy, then of dy (x - mean); backward only
 */
#ifndef X_TYPE /* storage type of x, y, dy, dx */
#define X_TYPE float
#endif
#ifndef SCALE_TYPE /* storage types of the parameters */
#define SCALE_TYPE float
#endif
#ifndef BIAS_TYPE
#define BIAS_TYPE float
#endif
#ifndef MEAN_TYPE
#define MEAN_TYPE float
#endif
#ifndef VARIANCE_TYPE
#define VARIANCE_TYPE float
#endif
#ifndef WHAT /* 0 training, 1 inference, 2 backward */
#define WHAT 0
#endif
#ifndef SAVE /* backward: saved statistics are given; -1: an argument says it, which PoCL does not bear beside barriers */
#define SAVE -1
#endif
#ifndef PARTS /* the statistics' axes are cut into parts, and there is a workspace */
#define PARTS 0
#endif
#ifndef PREVIOUS /* training: running statistics are moved from others, which stay */
#define PREVIOUS 0
#endif
#ifndef INVERSE /* inference: the variance is given as 1 / sqrt(variance + epsilon) */
#define INVERSE 0
#endif
/* ACTIVATION is the miopenActivationMode_t of what follows; undefined where nothing does. */
#include "include/common.h"
#ifdef ACTIVATION
#include "include/functions.h"
#include "include/activation.h"
#if ACTIVATION < 1 || ACTIVATION > 10
#error "ACTIVATION must be 1 to 10"
#endif
#endif

/* The squared distance of the shift from the mean, in variances, that costs but a few bits. */
#define FAR 4

#define TRAINING (WHAT == 0)
#define INFERENCE (WHAT == 1)
#define BACKWARD (WHAT == 2)
#if defined(ACTIVATION) && BACKWARD
#define ACTIVATION_BACKWARD 1
#else
#define ACTIVATION_BACKWARD 0
#endif
/* Whether the mean and the variance come with the call. */
#define GIVEN(b) (INFERENCE || (BACKWARD && (SAVE < 0 ? (b)->save : SAVE)))

#if WHAT < 0 || WHAT > 2
#error "WHAT must be 0, 1 or 2"
#endif
#if !MX_IS_STORAGE(X_TYPE) || MX_TYPE(X_TYPE) == MX_TYPE_int8 || MX_TYPE(X_TYPE) == MX_TYPE_int32
#error "X_TYPE must be half, float, double or bfloat16"
#endif

#include "layers/batchnorm_args.h"

#define BUFFER_(CONST, T, name) __global CONST STORAGE(T) *name, long name##_offset
#if BACKWARD
#define OUT 2
#define BUFFERS_1_ \
    BUFFER_(const, X_TYPE, x), BUFFER_(const, X_TYPE, dy), BUFFER_(, X_TYPE, y), BUFFER_(const, SCALE_TYPE, scale), \
        BUFFER_(, SCALE_TYPE, dscale), BUFFER_(, BIAS_TYPE, bias)
#ifdef ACTIVATION
#define BUFFERS_LAST_ , BUFFER_(const, BIAS_TYPE, given_bias)
#endif
#else
#define OUT 1
#define BUFFERS_1_ \
    BUFFER_(const, X_TYPE, x), BUFFER_(, X_TYPE, y), BUFFER_(const, SCALE_TYPE, scale), \
        BUFFER_(const, BIAS_TYPE, bias)
#endif
#if TRAINING
#define BUFFERS_2_                                                                                            \
    BUFFERS_1_, BUFFER_(, MEAN_TYPE, mean), BUFFER_(, VARIANCE_TYPE, variance), BUFFER_(, MEAN_TYPE, saved_mean), \
        BUFFER_(, VARIANCE_TYPE, saved_inv)
#if PREVIOUS
#define BUFFERS_LAST_ , BUFFER_(const, MEAN_TYPE, old_mean), BUFFER_(const, VARIANCE_TYPE, old_variance)
#endif
#else
#define BUFFERS_2_ BUFFERS_1_, BUFFER_(const, MEAN_TYPE, mean), BUFFER_(const, VARIANCE_TYPE, variance)
#endif
#ifndef BUFFERS_LAST_
#define BUFFERS_LAST_
#endif
#if PARTS
#define BUFFERS BUFFERS_2_ BUFFERS_LAST_, __global ACC *space, long space_offset
#else
#define BUFFERS BUFFERS_2_ BUFFERS_LAST_
#endif

/* What follows.  `side` kept values make a unit of work, each unit is cut into `parts`.  Training: `running` and `save`
 * say which statistics are wanted; backward: `save`, that they are given.  Buffers that are not wanted are any others. */
#ifdef ACTIVATION
#define ACTIVATION_NUMBERS_ , const ACC alpha, const ACC beta, const ACC gamma
#else
#define ACTIVATION_NUMBERS_
#endif
#define NUMBERS_OF_A_CALL \
    const bn_walk w, const long side, const long parts, const long running, const long save, const ACC factor, \
        const ACC epsilon ACTIVATION_NUMBERS_

/* The same as one value, for the functions of a kernel: pointers to first elements. */
typedef struct {
    bn_walk w;
    __global const STORAGE(X_TYPE) *x;
    __global STORAGE(X_TYPE) *y; /* dx */
    __global const STORAGE(SCALE_TYPE) *scale;
#if BACKWARD
    __global const STORAGE(X_TYPE) *dy;
    __global STORAGE(SCALE_TYPE) *dscale;
    __global STORAGE(BIAS_TYPE) *bias; /* its gradient */
#ifdef ACTIVATION
    __global const STORAGE(BIAS_TYPE) *given_bias;
#endif
#else
    __global const STORAGE(BIAS_TYPE) *bias;
#endif
#if TRAINING
    __global STORAGE(MEAN_TYPE) *mean;
    __global STORAGE(VARIANCE_TYPE) *variance;
    __global STORAGE(MEAN_TYPE) *saved_mean;
    __global STORAGE(VARIANCE_TYPE) *saved_inv;
#if PREVIOUS
    __global const STORAGE(MEAN_TYPE) *old_mean;
    __global const STORAGE(VARIANCE_TYPE) *old_variance;
#endif
#else
    __global const STORAGE(MEAN_TYPE) *mean;
    __global const STORAGE(VARIANCE_TYPE) *variance;
#endif
#if PARTS
    __global ACC *space;
#endif
    long elements, width; /* that statistics are taken over; of which there are so many */
    long side, parts;
    bool running, save;
    ACC factor, epsilon;
#ifdef ACTIVATION
    ACC alpha, beta, gamma; /* the activation's */
#endif
} bn;

#if BACKWARD
#define BIND_1_ b.dy = dy + dy_offset; b.dscale = dscale + dscale_offset;
#ifdef ACTIVATION
#define BIND_4_ b.given_bias = given_bias + given_bias_offset;
#endif
#else
#define BIND_1_
#endif
#if TRAINING
#define BIND_2_ b.saved_mean = saved_mean + saved_mean_offset; b.saved_inv = saved_inv + saved_inv_offset;
#if PREVIOUS
#define BIND_4_ b.old_mean = old_mean + old_mean_offset; b.old_variance = old_variance + old_variance_offset;
#endif
#else
#define BIND_2_
#endif
#if PARTS
#define BIND_3_ b.space = space + space_offset;
#else
#define BIND_3_
#endif
#ifndef BIND_4_
#define BIND_4_
#endif
#ifdef ACTIVATION
#define BIND_5_ b.alpha = alpha; b.beta = beta; b.gamma = gamma;
#else
#define BIND_5_
#endif
/* Declares b. */
#define BIND                                                                          \
    bn b;                                                                             \
    b.w = w;                                                                          \
    b.x = x + x_offset;                                                               \
    b.y = y + y_offset;                                                               \
    b.scale = scale + scale_offset;                                                   \
    b.bias = bias + bias_offset;                                                      \
    b.mean = mean + mean_offset;                                                      \
    b.variance = variance + variance_offset;                                          \
    BIND_1_ BIND_2_ BIND_3_ BIND_4_ BIND_5_                                   \
    b.elements = w.reduced[0] * w.reduced[1] * w.reduced[2] * w.reduced[3];           \
    b.width = w.kept[0] * w.kept[1] * w.kept[2] * w.kept[3];                          \
    b.side = side;                                                                    \
    b.running = running;                                                              \
    b.save = save;                                                                    \
    b.parts = parts;                                                                  \
    b.factor = factor;                                                                \
    b.epsilon = epsilon;

/* Where number `index` of the first `axes` axes lies.  What is divided by is the length of an axis that has others
 * outside: often there is none. */
static inline long bn_offset(const long *length, int axes, long index, const long *stride)
{
    long at = 0;
    for (int axis = axes - 1; axis > 0; axis--) {
        if (length[axis - 1] == 1)
            return at + index * stride[axis];
        const long next = index / length[axis];
        at += (index - next * length[axis]) * stride[axis];
        index = next;
    }
    return at + index * stride[0];
}

/* Offsets in the workspace. */
#define AT_MOMENTS(part) (b->width * (1 + 2 * (part)))
#define AT_GRADIENTS(part) (b->width * (1 + 2 * b->parts + 2 * (part)))

/* The running statistics that are moved. */
#if PREVIOUS
#define OLD_MEAN(b) ((b)->old_mean)
#define OLD_VARIANCE(b) ((b)->old_variance)
#elif TRAINING
#define OLD_MEAN(b) ((b)->mean)
#define OLD_VARIANCE(b) ((b)->variance)
#endif

/* What the variance that an inference is given stands for. */
#if INVERSE
#define GIVEN_INV(b, variance) (variance)
#else
#define GIVEN_INV(b, variance) (1 / sqrt(fabs((variance) + (b)->epsilon)))
#endif

/* What y is where a batch normalisation gives v. */
#ifdef ACTIVATION
#define EPS_ (MX_TYPE(X_TYPE) == MX_TYPE_half ? (ACC)1e-4f : (ACC)1e-6f)
#define ACTIVATED(b, v) mx_activation(v, (b)->alpha, (b)->beta, (b)->gamma, EPS_)
#else
#define ACTIVATED(b, v) (v)
#endif

/* The gradient of v, which a batch normalisation gave, where the gradient of act(v) is dy. */
#if ACTIVATION_BACKWARD
static inline V bn_gradient(const bn *b, V dy, V v)
{
#if ACTIVATION <= 2 /* LOGISTIC and TANH read what they gave */
    v = ACTIVATED(b, v);
#endif
    return mx_activation_gradient(dy, v, b->alpha, b->beta, b->gamma, EPS_);
}
#define NORM_GRADIENT(b, dy, v) bn_gradient(b, dy, v)
#else
#define NORM_GRADIENT(b, dy, v) (dy)
#endif
