/* Batch normalisation on GPUs where the planes of a channel are not made of vectors, but those of CHANNELS neighbouring
 * ones together are: 7 x 7 pixels, say.  A group computes CHANNELS of them and holds all of their elements in
 * registers, so that each is read once.
 *
 * A plane has PLANE elements, and those of all channels lie one behind the other; TX = CHANNELS * PLANE / VEC
 * work-items read them for one image, TY images at a time, HOLD of them each.  batchnorm.h describes the arguments;
 * side and parts are not used.  Groups of LOCAL >= TX * TY: kept / CHANNELS.
 * Local memory: TY * CHANNELS * PLANE + LOCAL + 4 * CHANNELS elements of ACC.  The order of the sums is fixed.
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
#include "batchnorm.h"
#include "gpu_vectors.h"

#define COLUMNS (CHANNELS * PLANE)
#define TX (COLUMNS / VEC)
#define SHARE (LOCAL / CHANNELS) /* work-items that sum a channel's columns */

MX_GET(get, X_TYPE)
MX_PUT(put, X_TYPE)

/* The sum of each channel over all work-items, to `to`.  Inlined, or PoCL's threads would share the local memory. */
static inline __attribute__((always_inline)) void sum_channels(
    const vec_t mine, int column, int row, __local ACC *columns, __local ACC *sums, __local ACC *to)
{
    const int me = (int)get_local_id(0), channel = me / SHARE, part = me % SHARE;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row < TY)
        MX_V(vstore)(mine, 0, columns + row * COLUMNS + column * VEC);
    barrier(CLK_LOCAL_MEM_FENCE);
    ACC sum = 0;
    for (int i = 0; i < TY * PLANE; i += SHARE) {
        const int at = min(i + part, TY * PLANE - 1);
        const ACC one = columns[at / PLANE * COLUMNS + channel * PLANE + at % PLANE];
        sum += i + part < TY * PLANE ? one : (ACC)0;
    }
    sums[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = SHARE / 2; half_way > 0; half_way /= 2) {
        if (part < half_way)
            sums[me] += sums[me + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (part == 0)
        to[channel] = sums[me];
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Each lane's number of its channel. */
static inline __attribute__((always_inline)) vec_t lanes_of(__local const ACC *channels, int column)
{
    vec_t lanes;
#pragma unroll
    for (int i = 0; i < VEC; i++)
        ((ACC *)&lanes)[i] = channels[min((column * VEC + i) / PLANE, CHANNELS - 1)];
    return lanes;
}

static inline void load(vec_t held[HOLD], __global const STORAGE(X_TYPE) *p, long step, int row, int images,
                        const bool aligned)
{
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        held[i] = get(p + min(row + i * TY, images - 1) * step, aligned);
}

static inline void store(__global STORAGE(X_TYPE) *p, const vec_t held[HOLD], long step, int row, int images,
                         const bool aligned)
{
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        if (row < TY && row + i * TY < images)
            put(p + (row + i * TY) * step, held[i], aligned);
}

#define LOAD_ALL(held, p, t)                                                            \
    do {                                                                                \
        if (MX_ALIGNED(p))                                                              \
            load(held, (p) + place, b.w.reduced_stride[t][2], row, images, true);       \
        else                                                                            \
            load(held, (p) + place, b.w.reduced_stride[t][2], row, images, false);      \
    } while (0)
#define IS_THERE(i) (row < TY && row + (i) * TY < images)

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bn_planes(BUFFERS, NUMBERS_OF_A_CALL)
{
    __local ACC columns[TY * COLUMNS], sums[LOCAL];
    __local ACC means[CHANNELS], invs[CHANNELS], firsts[CHANNELS], seconds[CHANNELS]; /* of each channel */
    BIND
    const int me = (int)get_local_id(0), column = me % TX, row = me / TX, images = (int)b.w.reduced[2];
    const INDEX first_channel = (INDEX)get_group_id(0) * CHANNELS;
    const long place = (long)first_channel * PLANE + column * VEC;
    const INDEX c = first_channel + min(me, CHANNELS - 1); /* whose parameters a work-item sees to */
    const bool mine = me < CHANNELS;
    vec_t held[HOLD];
    LOAD_ALL(held, b.x, 0);
#if BACKWARD
    vec_t grad[HOLD];
    LOAD_ALL(grad, b.dy, 1);
#endif
    if (GIVEN(&b)) {
        if (mine) {
            const ACC inv = LOAD(VARIANCE_TYPE)(b.variance, c * b.w.kept_stride[6][3]);
            means[me] = LOAD(MEAN_TYPE)(b.mean, c * b.w.kept_stride[5][3]);
            invs[me] = INFERENCE ? 1 / sqrt(fabs(inv + b.epsilon)) : inv;
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
#pragma unroll
        for (int i = 0; i < HOLD; i++)
            sum += IS_THERE(i) ? held[i] - shift : (vec_t)0;
        sum_channels(sum, column, row, columns, sums, firsts);
        const vec_t off = lanes_of(firsts, column) / (ACC)b.elements;
        sum = 0;
#pragma unroll
        for (int i = 0; i < HOLD; i++) {
            const vec_t d = (held[i] - shift) - off;
            sum += IS_THERE(i) ? d * d : (vec_t)0;
        }
        sum_channels(sum, column, row, columns, sums, seconds);
        if (mine) {
            const ACC squares = seconds[me], inv = 1 / sqrt(squares / (ACC)b.elements + b.epsilon);
            const ACC whole = means[me] + firsts[me] / (ACC)b.elements;
#if TRAINING
            if (b.running) {
                ACC old_mean = 0, old_variance = 0;
                if (b.factor != 1) { /* else the old ones may be anything */
                    old_mean = (1 - b.factor) * LOAD(MEAN_TYPE)(b.mean, c * b.w.kept_stride[5][3]);
                    old_variance = (1 - b.factor) * LOAD(VARIANCE_TYPE)(b.variance, c * b.w.kept_stride[6][3]);
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
#pragma unroll
    for (int i = 0; i < HOLD; i++)
        held[i] = (held[i] - shift) - off;
#if BACKWARD
    vec_t sum = 0, other = 0;
#pragma unroll
    for (int i = 0; i < HOLD; i++) {
        sum += IS_THERE(i) ? grad[i] : (vec_t)0;
        other += IS_THERE(i) ? grad[i] * held[i] : (vec_t)0;
    }
    sum_channels(sum, column, row, columns, sums, firsts);
    sum_channels(other, column, row, columns, sums, seconds);
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
#pragma unroll
    for (int i = 0; i < HOLD; i++)
#if BACKWARD
        held[i] = times * ((grad[i] - first) - held[i] * second);
#else
        held[i] = held[i] * times + first;
#endif
    if (MX_ALIGNED(b.y))
        store(b.y + place, held, b.w.reduced_stride[OUT][2], row, images, true);
    else
        store(b.y + place, held, b.w.reduced_stride[OUT][2], row, images, false);
}
