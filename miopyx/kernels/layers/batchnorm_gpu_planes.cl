/* Batch normalisation on GPUs where a work-group can hold a channel: its elements stay in registers, so that each is
 * read once.  layers/batchnorm.h has the formulas and the arguments; side and parts are not used.
 *
 *        channel 0 | channel 1 |          A work-group computes CHANNELS channels: where planes are not made of
 *     n  == PLANE ==|== PLANE ==|  TY      vectors, 7 x 7 pixels, say, those of a few neighbouring channels are.
 *     n  == PLANE ==|== PLANE ==|  images  TX = CHANNELS * PLANE / VEC work-items read one image, TY images at a
 *     n  ...                       a time  time, HOLD of them each.
 *
 * Grid:         work-groups of LOCAL >= TX * TY work-items: kept / CHANNELS.
 * Local memory: LOCAL + 4 * CHANNELS elements of ACC, 6 * CHANNELS for gradients of an activation; with CHANNELS > 1
 *               TY * CHANNELS * PLANE more.  The order of the sums is fixed.
 * Parameters:   PLANE, CHANNELS, VEC, TY, HOLD, LOCAL, below.  A plane has PLANE elements; those of all channels follow
 *               one another.
 * Bound by:     memory: x is read once and y written once; registers bound HOLD.
 */
#ifndef PLANE
#define PLANE 49
#endif
#ifndef CHANNELS /* a power of two, VEC at most */
#define CHANNELS 4
#endif
#ifndef VEC
#define VEC 4
#endif
#ifndef TY
#define TY 5
#endif
#ifndef HOLD
#define HOLD 13
#endif
#ifndef LOCAL /* a power of two */
#define LOCAL 256
#endif
#include "layers/batchnorm.h"
#define MX_HELD_TYPE X_TYPE
#include "include/gpu_vectors.h"
#include "include/group_inline.h"

#define COLUMNS (CHANNELS * PLANE)
#define TX (COLUMNS / VEC)
#define SHARE (LOCAL / CHANNELS) /* work-items that sum a channel's columns */
#define FEW 8                    /* sums that a work-item adds up at a time */

MX_PUT(put, X_TYPE)

/* The sum of each channel over all work-items, to `to`. */
GROUP_INLINE void sum_channels(
    const vec_t mine, int column, int row, __local ACC *columns, __local ACC *sums, __local ACC *to)
{
    const int me = (int)get_local_id(0), channel = me / SHARE, part = me % SHARE;
    ACC sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#if CHANNELS == 1
    sum = mx_sum_of_lanes(mine);
#else
    if (row < TY)
        MX_V(vstore)(mine, 0, columns + row * COLUMNS + column * VEC);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < TY * PLANE; i += SHARE) {
        const int at = min(i + part, TY * PLANE - 1);
        const ACC one = columns[at / PLANE * COLUMNS + channel * PLANE + at % PLANE];
        sum += i + part < TY * PLANE ? one : (ACC)0;
    }
#endif
    sums[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int left = SHARE, next; left > 1; left = next) {
        next = max(left / FEW, 1);
        if (part < next) {
            for (int i = next; i < left; i += next)
                sum += sums[me + i];
            sums[me] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (part == 0)
        to[channel] = sums[me];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Each lane's number of its channel. */
static inline __attribute__((always_inline)) vec_t lanes_of(__local const ACC *channels, int column)
{
#if CHANNELS == 1
    return *channels;
#else
    vec_t lanes;
#pragma unroll
    for (int i = 0; i < VEC; i++)
        ((ACC *)&lanes)[i] = channels[min((column * VEC + i) / PLANE, CHANNELS - 1)];
    return lanes;
#endif
}

/* Volatile, or compilers would make one loop of both, of small loads. */
static inline held_t get_pieces(volatile __global const STORAGE(X_TYPE) *p)
{
    MX_RAW(X_TYPE) bits;
#pragma unroll
    for (int i = 0; i < VEC; i++)
        ((STORAGE(X_TYPE) *)&bits)[i] = p[i];
    return MX_AS_HELD(bits);
}

/* A work-item's vectors: all but the last one are always there. */
#define FOR_EACH(i, last)          \
    _Pragma("unroll")              \
    for (int i = 0; i < HOLD; i++) \
        if (i < HOLD - 1 || (last))

static inline void load(held_t held[HOLD], __global const STORAGE(X_TYPE) *p, long step, const bool last,
                        const bool aligned)
{
#pragma unroll
    for (int i = 0; i < HOLD; i++) {
        held[i] = aligned ? *(__global const held_t *)p : get_pieces(p);
        p += i < HOLD - 2 || last ? TY * step : 0;
    }
    mx_anew(held, HOLD); /* words also where they were loaded in pieces */
}

#define LOAD_ALL(held, p, t)                                                        \
    do {                                                                            \
        if (MX_ALIGNED(p))                                                          \
            load(held, (p) + PLACE(t), b.w.reduced_stride[t][2], last, true);       \
        else                                                                        \
            load(held, (p) + PLACE(t), b.w.reduced_stride[t][2], last, false);      \
    } while (0)
#define PLACE(t) (place + min(row, images - 1) * b.w.reduced_stride[t][2])

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bn_planes(BUFFERS, NUMBERS_OF_A_CALL)
{
    __local ACC columns[CHANNELS == 1 ? 1 : TY * COLUMNS], sums[LOCAL];
    __local ACC means[CHANNELS], invs[CHANNELS], firsts[CHANNELS], seconds[CHANNELS]; /* of each channel */
#if ACTIVATION_BACKWARD
    __local ACC scales[CHANNELS], biases[CHANNELS];
#endif
    BIND
    const int me = (int)get_local_id(0), column = me % TX, row = me / TX, images = (int)b.w.reduced[2];
    const INDEX first_channel = (INDEX)get_group_id(0) * CHANNELS;
    const long place = (long)first_channel * PLANE + column * VEC;
    const INDEX c = first_channel + min(me, CHANNELS - 1); /* whose parameters a work-item sees to */
    const bool mine = me < CHANNELS, works = row < TY, last = row + (HOLD - 1) * TY < images;
    held_t held[HOLD];
    LOAD_ALL(held, b.x, 0);
#if BACKWARD
    held_t grad[HOLD];
    LOAD_ALL(grad, b.dy, 1);
#endif
    if (GIVEN(&b)) {
        if (mine) {
            const ACC inv = LOAD(VARIANCE_TYPE)(b.variance, c * b.w.kept_stride[6][3]);
            means[me] = LOAD(MEAN_TYPE)(b.mean, c * b.w.kept_stride[5][3]);
            invs[me] = INFERENCE ? GIVEN_INV(&b, inv) : inv;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if !INFERENCE && SAVE != 1
    {
        /* From the channel's first element, then from the mean. */
        if (mine)
            means[me] = LOAD(X_TYPE)(b.x, c * (long)PLANE);
        barrier(CLK_LOCAL_MEM_FENCE);
        const vec_t shift = lanes_of(means, column);
        vec_t sum = 0;
        FOR_EACH(i, last)
            sum += mx_wide(held[i]) - shift;
        sum_channels(works ? sum : (vec_t)0, column, row, columns, sums, firsts);
        const vec_t off = lanes_of(firsts, column) / (ACC)b.elements;
        sum = 0;
        mx_anew(held, HOLD);
        FOR_EACH(i, last) {
            const vec_t d = (mx_wide(held[i]) - shift) - off;
            sum += d * d;
        }
        sum_channels(works ? sum : (vec_t)0, column, row, columns, sums, seconds);
        if (mine) {
            const ACC squares = seconds[me], inv = 1 / sqrt(squares / (ACC)b.elements + b.epsilon);
            const ACC whole = means[me] + firsts[me] / (ACC)b.elements;
#if TRAINING
            if (b.running) {
                ACC old_mean = 0, old_variance = 0;
                if (b.factor != 1) { /* else the old ones may be anything */
                    old_mean = (1 - b.factor) * LOAD(MEAN_TYPE)(OLD_MEAN(&b), c * b.w.kept_stride[5][3]);
                    old_variance = (1 - b.factor) * LOAD(VARIANCE_TYPE)(OLD_VARIANCE(&b), c * b.w.kept_stride[6][3]);
                }
                const ACC variance = squares / (ACC)max(1L, b.elements - 1);
                STORE(MEAN_TYPE)(b.mean, c * b.w.kept_stride[5][3], old_mean + b.factor * whole);
                STORE(VARIANCE_TYPE)(b.variance, c * b.w.kept_stride[6][3], old_variance + b.factor * variance);
            }
            if (b.save) {
                STORE(MEAN_TYPE)(b.saved_mean, c * b.w.kept_stride[5][3], whole);
                STORE(VARIANCE_TYPE)(b.saved_inv, c * b.w.kept_stride[6][3], inv);
            }
#endif
            firsts[me] /= (ACC)b.elements; /* the mean less the shift */
            invs[me] = inv;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const vec_t shift = lanes_of(means, column), off = lanes_of(firsts, column);
#else
    const vec_t shift = lanes_of(means, column), off = 0;
#endif
#if ACTIVATION_BACKWARD
    /* What the batch normalisation made of x: its gradient is made of that of the activation, both times it is read. */
    if (mine) {
        scales[me] = invs[me] * LOAD(SCALE_TYPE)(b.scale, c * b.w.kept_stride[3][3]);
        biases[me] = LOAD(BIAS_TYPE)(b.given_bias, c * b.w.kept_stride[4][3]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const vec_t scale_of_y = lanes_of(scales, column), plus = lanes_of(biases, column);
#endif
#define GRADIENT(g, d) NORM_GRADIENT(&b, g, (d) * scale_of_y + plus)
#define FROM_MEAN(i) ((mx_wide(held[i]) - shift) - off)
    mx_anew(held, HOLD);
#if BACKWARD
    vec_t sum = 0, other = 0;
    FOR_EACH(i, last) {
        const vec_t each = GRADIENT(mx_wide(grad[i]), FROM_MEAN(i));
        sum += each;
        other += each * FROM_MEAN(i);
    }
    sum_channels(works ? sum : (vec_t)0, column, row, columns, sums, firsts);
    sum_channels(works ? other : (vec_t)0, column, row, columns, sums, seconds);
    if (mine) {
        const ACC inv = invs[me], dscale = seconds[me] * inv;
        STORE(SCALE_TYPE)(b.dscale, c * b.w.kept_stride[3][3], dscale);
        STORE(BIAS_TYPE)(b.bias, c * b.w.kept_stride[4][3], firsts[me]);
        firsts[me] /= (ACC)b.elements;
        seconds[me] = dscale * inv / (ACC)b.elements;
        invs[me] = inv * LOAD(SCALE_TYPE)(b.scale, c * b.w.kept_stride[3][3]);
    }
#else
    barrier(CLK_LOCAL_MEM_FENCE);
    if (mine) {
        invs[me] *= LOAD(SCALE_TYPE)(b.scale, c * b.w.kept_stride[3][3]);
        firsts[me] = LOAD(BIAS_TYPE)(b.bias, c * b.w.kept_stride[4][3]);
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    const vec_t times = lanes_of(invs, column), first = lanes_of(firsts, column);
#if BACKWARD
    const vec_t second = lanes_of(seconds, column);
#endif
    mx_anew(held, HOLD);
#if BACKWARD
    mx_anew(grad, HOLD);
#endif
#if BACKWARD
#define RESULT(i) (times * ((GRADIENT(mx_wide(grad[i]), FROM_MEAN(i)) - first) - FROM_MEAN(i) * second))
#else
#define RESULT(i) ACTIVATED(&b, FROM_MEAN(i) * times + first)
#endif
    const long step = TY * b.w.reduced_stride[OUT][2];
    __global STORAGE(X_TYPE) *to = b.y + PLACE(OUT);
    if (works && MX_ALIGNED(b.y)) {
        FOR_EACH(i, last)
            put(to + i * step, RESULT(i), true);
    } else if (works) {
        FOR_EACH(i, last)
            put(to + i * step, RESULT(i), false);
    }
}
