/* What the kernels of batch normalisation share: formulas, definitions, arguments, and how tensors are walked.
 *
 *   training   mean = sum x / m;  variance = sum (x - mean)^2 / m;  y = scale (x - mean) / sqrt(variance + eps) + bias
 *   inference  the same with the mean and the variance that are given
 *   backward   r = 1 / sqrt(variance + eps);  dbias = sum dy;  dscale = sum dy (x - mean) r;
 *              dx = scale r (dy - (dbias + (x - mean) r dscale) / m)
 *   m is how many elements share a mean (MIOpen's batch normalisation page; Ioffe and Szegedy, 2015).
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
#include "include/common.h"

/* The squared distance of the shift from the mean, in variances, that costs but a few bits. */
#define FAR 4

#define TRAINING (WHAT == 0)
#define INFERENCE (WHAT == 1)
#define BACKWARD (WHAT == 2)
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
#else
#define BUFFERS_2_ BUFFERS_1_, BUFFER_(const, MEAN_TYPE, mean), BUFFER_(const, VARIANCE_TYPE, variance)
#endif
#if PARTS
#define BUFFERS BUFFERS_2_, __global ACC *space, long space_offset
#else
#define BUFFERS BUFFERS_2_
#endif

/* What follows.  `side` kept values make a unit of work, each unit is cut into `parts`.  Training: `running` and `save`
 * say which statistics are wanted; backward: `save`, that they are given.  Buffers that are not wanted are any others. */
#define NUMBERS_OF_A_CALL \
    const bn_walk w, const long side, const long parts, const long running, const long save, const ACC factor, \
        const ACC epsilon

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
#else
    __global const STORAGE(BIAS_TYPE) *bias;
#endif
#if TRAINING
    __global STORAGE(MEAN_TYPE) *mean;
    __global STORAGE(VARIANCE_TYPE) *variance;
    __global STORAGE(MEAN_TYPE) *saved_mean;
    __global STORAGE(VARIANCE_TYPE) *saved_inv;
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
} bn;

#if BACKWARD
#define BIND_1_ b.dy = dy + dy_offset; b.dscale = dscale + dscale_offset;
#else
#define BIND_1_
#endif
#if TRAINING
#define BIND_2_ b.saved_mean = saved_mean + saved_mean_offset; b.saved_inv = saved_inv + saved_inv_offset;
#else
#define BIND_2_
#endif
#if PARTS
#define BIND_3_ b.space = space + space_offset;
#else
#define BIND_3_
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
    BIND_1_ BIND_2_ BIND_3_                                                   \
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
