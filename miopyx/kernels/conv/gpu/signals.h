/* What the kernels of signals share: filters of one row, one input channel a group; after include/common.h.
 *
 * A line is a row of an image, a unit a segment of a line; the units of all lines of a channel are counted, a line's
 * side by side.  In tiles of four columns both x and y are read and written four elements at once wherever a line
 * begins: a tile begins where y is aligned, a chunk where x is.  What lies between the two is known for a line, `shift`,
 * 0 to 3.
 */
#include "conv/gpu/signals_args.h"
#include "conv/gpu/widen.h"
#include "include/group_inline.h"
#include "include/quotient.h"

#define FOURS(n) (((n) + 3) / 4 * 4)
#define REACH ((S - 1) * TAP) /* from the first tap to the last */
#define FLAT FOURS(S) /* from filter to filter in local memory */
/* Four elements as they lie in memory; of 16 bits as words, since compilers take vectors of these apart. */
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define FOUR float4
#define PACKED(a, b, c, d) (float4)(a, b, c, d)
#define FLOATS(v) (v)
#else
#define FOUR uint2
#define PACKED(a, b, c, d) (uint2)((uint)(a) | (uint)(b) << 16, (uint)(c) | (uint)(d) << 16)
#define FLOATS(v)                                                                                                      \
    (float4)(WIDEN((ushort)(v).x), WIDEN((ushort)((v).x >> 16)), WIDEN((ushort)(v).y), WIDEN((ushort)((v).y >> 16)))
#endif
#define WORDS(a, b, c, d) PACKED(NARROW(a), NARROW(b), NARROW(c), NARROW(d))

/* The taps of `count` filters; `odd` tells of one that is not finite: of it the zeros beside a line would make NaN. */
GROUP_INLINE void mx_taps(__local float *to, __local int *odd, __global const STORAGE(X_TYPE) *w, const mx_signal g,
                           int count)
{
    const int id = get_local_id(0);
    if (id == 0)
        *odd = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < count * S; i += GROUP) {
        const int k = i / S, s = i - k * S;
        const float value = LOAD(X_TYPE)(w, k * g.w_k + s * g.w_s);
        to[k * FLAT + s] = value;
        if (!isfinite(value))
            *odd = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* An element of a line, or zero.  Bits are masked, since a choice between a load and zero would become a branch that
 * waits for each. */
static inline float mx_element(__global const STORAGE(X_TYPE) *line, int at, int width)
{
    const float value = LOAD(X_TYPE)(line, clamp(at, 0, width - 1));
    return as_float(as_uint(value) & ((uint)at < (uint)width ? 0xffffffffu : 0u));
}

/* One tap's sum over columns `from` to `to` of dy, without what is outside. */
static float mx_exactly(__global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_signal g,
                        int from, int to, int s, float sum)
{
    for (int q = max(from, 0); q < min(to, g.q); q++) {
        const int at = q * STEP + g.first + s * TAP;
        if ((uint)at < (uint)g.width)
            sum = fma(LOAD(X_TYPE)(x, at), LOAD(X_TYPE)(dy, q), sum);
    }
    return sum;
}

typedef struct {
    int x, y; /* where its line begins, in elements */
    int segment;
} mx_unit;

static inline mx_unit mx_unit_of(int unit, const mx_signal g)
{
    const int line = mx_quotient(unit, g.by_segments), n = mx_quotient(line, g.by_height);
    const int h = line - n * g.height;
    const mx_unit u = {n * g.x_n + h * g.x_h, n * g.y_n + h * g.y_h, unit - line * g.segments};
    return u;
}

#ifdef TILED

/* A work-item's tile: columns of x that four columns of y meet, wherever they begin in a chunk. */
#define WINDOW FOURS(3 + 3 * STEP + REACH + 1)
#define CHUNKS (STEP * (GROUP - 1) + WINDOW / 4) /* of a work-group */
#define HELD ((CHUNKS + GROUP - 1) / GROUP) /* of them that a work-item reads */

typedef struct {
    int x, y;
    int low; /* elements from where x is aligned to where the line begins */
    int q; /* the first column of the first tile */
    int chunk, shift; /* the first one, and where the first tile's first column is in it */
} mx_tiles;

/* `x_low` and `y_low`: elements from where memory is aligned to the channel's first. */
static inline mx_tiles mx_tiles_of(int unit, const mx_signal g, int x_low, int y_low)
{
    const mx_unit u = mx_unit_of(unit, g);
    const int first = u.segment * GROUP, before = (y_low + u.y) & 3, low = (x_low + u.x) & 3;
    const int between = low - before * STEP + g.first;
    const mx_tiles t = {u.x, u.y, low, 4 * first - before, first * STEP + (between >> 2), between & 3};
    return t;
}

/* Four elements of a line, of which those outside are zeros. */
static inline __attribute__((always_inline)) FOUR mx_four(__global const STORAGE(X_TYPE) *line, int at, int width)
{
    FOUR four = (FOUR)(0);
    if (at >= 0 && at + 4 <= width)
        four = *(__global const FOUR *)(line + at);
    else if (at > -4 && at < width) {
        STORAGE(X_TYPE) each[4] = {0, 0, 0, 0};
        if (at >= 0)
            each[0] = line[at];
        if (at >= -1 && at + 1 < width)
            each[1] = line[at + 1];
        if (at >= -2 && at + 2 < width)
            each[2] = line[at + 2];
        if (at + 3 < width)
            each[3] = line[at + 3];
        four = PACKED(each[0], each[1], each[2], each[3]);
    }
    return four;
}

static inline __attribute__((always_inline)) void mx_fetch(FOUR held[HELD], __global const STORAGE(X_TYPE) *x,
                                                           const mx_tiles t, int width)
{
    const int id = get_local_id(0);
#pragma unroll
    for (int j = 0; j < HELD; j++)
        if (id + j * GROUP < CHUNKS)
            held[j] = mx_four(x + t.x, 4 * (t.chunk + id + j * GROUP) - t.low, width);
}

static inline __attribute__((always_inline)) void mx_spread(__local float4 *to, const FOUR held[HELD])
{
    const int id = get_local_id(0);
#pragma unroll
    for (int j = 0; j < HELD; j++)
        if (id + j * GROUP < CHUNKS)
            to[id + j * GROUP] = FLOATS(held[j]);
}

static inline __attribute__((always_inline)) void mx_window(float in[WINDOW], __local const float4 *from)
{
#pragma unroll
    for (int i = 0; i < WINDOW / 4; i++) {
        const float4 four = from[i];
        in[4 * i] = four.x, in[4 * i + 1] = four.y, in[4 * i + 2] = four.z, in[4 * i + 3] = four.w;
    }
}

/* Whatever the shift is, it is a constant where registers are indexed by it. */
#define SHIFTED(shift, call) \
    switch (shift) {         \
    case 0: call(0); break;  \
    case 1: call(1); break;  \
    case 2: call(2); break;  \
    default: call(3);        \
    }
#endif
