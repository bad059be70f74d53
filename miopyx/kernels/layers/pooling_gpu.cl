/* Pooling on GPUs, both directions.  layers/pooling.h names the definitions.
 *
 * Shape: x and y (dx and dy) of any strides; indices packed in n c d h w order.
 * Ownership, with no atomics; LAST = 1: neighbouring work-items have neighbouring channels, else columns:
 *   pooling_forward_strips     2-D, small windows: a work-item writes ROWS elements of y, one below the other.  It
 *                              reads each row of x once, for all windows that need it.
 *   pooling_forward_wide       2-D, small windows, w contiguous in x and y, rows of x made of aligned vectors of PACK
 *                              elements, of which each gives PACK / STEP_W elements of y: a work-item writes those of
 *                              ROWS rows.
 *   pooling_forward_lanes      2-D, small windows, c contiguous in x and y, which are made of aligned vectors of PACK
 *                              channels: a work-item writes such a vector at ROWS x COLUMNS elements.
 *   pooling_backward_strips    2-D, small windows: a work-item writes ROWS x COLUMNS elements of dx, which begin at a
 *                              multiple of the strides: which windows contain which of them is known beforehand.
 *   pooling_backward_wide      maxima, 2-D, small windows, indices of 8 bits, w contiguous in dx and dy: a work-item
 *                              writes PACK neighbours of ROWS rows of dx, which begin PACK / STEP_W windows of dy.
 *   pooling_backward_lanes     2-D, small windows, c contiguous in dx and dy, which are made of aligned vectors of PACK
 *                              channels, indices of 8 bits: a group has SPAN such vectors of TILE_H x TILE_W blocks of
 *                              ROWS x COLUMNS elements.  Channels run slowest in the indices: the group turns those
 *                              that it needs in local memory.
 *   pooling_backward_spread    averages; one window covers each plane (n, c), dx packed, planes of 4 elements or more:
 *                              a work-item writes 4 neighbours.
 *   pooling_forward_whole      one window covers each plane, no indices, c contiguous and made of vectors as above: a
 *                              group of SPAN x DEEP work-items writes SPAN vectors, of which each work-item reads
 *                              every DEEP-th pixel.
 *   pooling_backward_whole     averages, likewise: a work-item writes a vector.
 *   pooling_forward_elements   a work-item writes one element.
 *   pooling_backward_elements  likewise.
 * Local memory: pooling_..._lanes: an index of each channel and window of a tile; pooling_forward_whole: a vector of
 * each work-item; else none.
 *
 * Every window meets the image.  What lies outside is read at the nearest place inside, so that loads need no branches:
 * for a maximum that is an element of the window anyway, and for a sum its bits are masked.
 */
#ifndef WINDOW_H /* of strips; along w it is WINDOW */
#define WINDOW_H 3
#endif
#ifndef STEP_H
#define STEP_H 1
#endif
#ifndef STEP_W
#define STEP_W 1
#endif
#ifndef PAD_H /* backward; PAD_W of pooling_forward_wide */
#define PAD_H 0
#endif
#ifndef PAD_W
#define PAD_W 0
#endif
#ifndef ROWS /* backward: a multiple of STEP_H */
#define ROWS 4
#endif
#ifndef COLUMNS /* pooling_forward_lanes; backward: a multiple of STEP_W */
#define COLUMNS 2
#endif
#ifndef PAIRED /* pairs of neighbours in dx begin at even places: strides are even */
#define PAIRED 0
#endif
#ifndef LAST
#define LAST 0
#endif
#ifndef PACK /* channels of a vector; for pooling_..._lanes */
#define PACK 8
#endif
#ifndef SPAN /* vectors of a tile; pooling_backward_lanes */
#define SPAN 8
#endif
#ifndef DEEP /* a power of two; pooling_forward_whole */
#define DEEP 32
#endif
#ifndef TILE_H /* blocks */
#define TILE_H 2
#endif
#ifndef TILE_W
#define TILE_W 16
#endif
#ifndef RUN /* 4, 2 or 1: rows of indices are made of such runs, which begin at multiples of it; pooling_..._lanes */
#define RUN 1
#endif
#include "layers/pooling.h"

#define KIND_forward_strips 11
#define KIND_backward_strips 12
#define KIND_backward_spread 13
#define KIND_forward_elements 14
#define KIND_backward_elements 15
#define KIND_forward_lanes 16
#define KIND_backward_lanes 17
#define KIND_forward_whole 18
#define KIND_backward_whole 19
#define KIND_forward_wide 20
#define KIND_backward_wide 21

#define NOTHING (MODE == 0 ? -(ACC)INFINITY : (ACC)0)

/* A value where `mask` is all ones, 0 where it is 0. */
static inline ACC masked(ACC value, LANE mask)
{
    return MX_JOIN(as_, ACC)(MX_JOIN(as_, LANE)(value) & mask);
}

#define FORWARD_BUFFERS                                                                                          \
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset
#define BACKWARD_BUFFERS                                                                                         \
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset

/* Which block of a tensor, `rows` of them along h and `columns` along w, is number `item`. */
typedef struct {
    INDEX n, c, h, w;
} block_t;

static inline block_t block_of(INDEX item, INDEX channels, INDEX rows, INDEX columns)
{
    MX_JOIN(MX_UNSIGNED_, INDEX) rest = item; /* divisions of unsigned numbers are shorter */
    block_t a;
    if (LAST) {
        a.c = rest % channels;
        rest /= channels;
    }
    a.w = rest % columns;
    rest /= columns;
    a.h = rest % rows;
    rest /= rows;
    if (!LAST) {
        a.c = rest % channels;
        rest /= channels;
    }
    a.n = rest;
    return a;
}

#if SAVE
#define FORWARD_ARGUMENTS x, x_offset, y, y_offset, indices, indices_offset
#else
#define FORWARD_ARGUMENTS x, x_offset, y, y_offset
#endif

#if IS_KIND(forward_elements) || IS_KIND(forward_lanes)
static inline void forward_element(FORWARD_BUFFERS,
#if SAVE
                                   __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                   const mx_pooling_problem *p, const mx_place a)
{
    const INDEX d0 = a.d * (INDEX)p->step[0] - (INDEX)p->pad[0], h0 = a.h * (INDEX)p->step[1] - (INDEX)p->pad[1],
                w0 = a.w * (INDEX)p->step[2] - (INDEX)p->pad[2];
    const INDEX d_from = max(d0, (INDEX)0), d_to = min(d0 + (INDEX)p->window[0], (INDEX)p->x.len[2]);
    const INDEX h_from = max(h0, (INDEX)0), h_to = min(h0 + (INDEX)p->window[1], (INDEX)p->x.len[3]);
    const INDEX w_from = max(w0, (INDEX)0), w_to = min(w0 + (INDEX)p->window[2], (INDEX)p->x.len[4]);
    ACC result = NOTHING;
    INDEX found_d = d0, found_h = h0, found_w = w0; /* code 0 of the window */
    x += x_offset + a.n * p->x.stride[0] + a.c * p->x.stride[1];
    for (INDEX d = d_from; d < d_to; d++)
        for (INDEX h = h_from; h < h_to; h++) {
            __global const STORAGE(TYPE) *row = x + d * p->x.stride[2] + h * p->x.stride[3];
            for (INDEX w = w_from; w < w_to; w++) {
                const ACC value = LOAD(TYPE)(row, w * p->x.stride[4]);
                if (MODE != 0) {
                    result += value;
                } else if (value > result) {
                    result = value;
                    found_d = d;
                    found_h = h;
                    found_w = w;
                }
            }
        }
    if (MODE == 1)
        result /= (ACC)((long)(d_to - d_from) * (h_to - h_from) * (w_to - w_from));
    if (MODE == 2)
        result /= (ACC)(p->window[0] * p->window[1] * p->window[2]);
    STORE(TYPE)(y, y_offset + mx_offset(p->y, a.n, a.c, a.d, a.h, a.w), result);
#if SAVE
    const long code = IMAGE ? ((long)found_d * p->x.len[3] + found_h) * p->x.len[4] + found_w
                            : ((found_d - d0) * p->window[1] + found_h - h0) * p->window[2] + found_w - w0;
    indices[indices_offset + index_place(p->y, a.n, a.c, a.d, a.h, a.w)] =
        result > -(ACC)INFINITY ? (INDEX_TYPE)code : (INDEX_TYPE)0;
#endif
}
#endif

#if IS_KIND(forward_strips)
__kernel void pooling_forward_strips(FORWARD_BUFFERS,
#if SAVE
                                     __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                     const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (rows + ROWS - 1) / ROWS, columns);
    if (a.n >= (INDEX)p.y.len[0])
        return;
    x += x_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p.pad[1], w0 = a.w * STEP_W - (INDEX)p.pad[2];
    const INDEX line = (INDEX)p.x.stride[3];
    INDEX column[WINDOW], at[WINDOW];
    LANE there[WINDOW];
#pragma unroll
    for (int k = 0; k < WINDOW; k++) {
        column[k] = min(max(w0 + k, (INDEX)0), width - 1);
        at[k] = column[k] * (INDEX)p.x.stride[4];
        there[k] = column[k] == w0 + k ? -1 : 0;
    }
    ACC result[ROWS];
    INDEX found_h[ROWS], found_w[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        result[r] = NOTHING;
        found_h[r] = found_w[r] = 0;
    }
#pragma unroll
    for (int i = 0; i < (ROWS - 1) * STEP_H + WINDOW_H; i++) {
        const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
        ACC value = NOTHING;
        INDEX found = 0;
#pragma unroll
        for (int k = 0; k < WINDOW; k++) {
            const ACC one = LOAD(TYPE)(x, h * line + at[k]);
            if (MODE != 0) {
                value += masked(one, there[k]);
            } else {
                found = one > value ? column[k] : found;
                value = one > value ? one : value;
            }
        }
        if (MODE != 0)
            value = masked(value, h == h0 + i ? -1 : 0);
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (i >= r * STEP_H && i < r * STEP_H + WINDOW_H) {
                if (MODE != 0) {
                    result[r] += value;
                } else {
                    found_h[r] = value > result[r] ? h : found_h[r];
                    found_w[r] = value > result[r] ? found : found_w[r];
                    result[r] = value > result[r] ? value : result[r];
                }
            }
    }
    y += y_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1] + a.w * p.y.stride[4];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const INDEX h = a.h * ROWS + r, from = h0 + r * STEP_H;
        if (h < rows) {
            if (MODE == 1)
                result[r] /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                                   (min(w0 + WINDOW, width) - max(w0, (INDEX)0)));
            if (MODE == 2)
                result[r] /= (ACC)(WINDOW_H * WINDOW);
            STORE(TYPE)(y, h * p.y.stride[3], result[r]);
#if SAVE
            const INDEX code = IMAGE ? found_h[r] * width + found_w[r]
                                     : (found_h[r] - from) * WINDOW + found_w[r] - w0;
            indices[indices_offset + ((a.n * (long)channels + a.c) * rows + h) * columns + a.w] =
                result[r] > -(ACC)INFINITY ? (INDEX_TYPE)code : (INDEX_TYPE)0;
#endif
        }
    }
}
#endif

#if IS_KIND(forward_lanes) || IS_KIND(backward_lanes) || IS_KIND(forward_whole) || IS_KIND(backward_whole) || \
    IS_KIND(forward_wide) || IS_KIND(backward_wide)
#undef VEC
#if (IS_KIND(forward_wide) || IS_KIND(backward_wide)) && STEP_W == 2 && PACK == 8
#define VEC 4
#elif (IS_KIND(forward_wide) || IS_KIND(backward_wide)) && STEP_W == 2
#define VEC 2
#else
#define VEC PACK
#endif
#include "include/gpu_vectors.h"

MX_GET(get, TYPE)
MX_PUT(put, TYPE)
#endif

#if (IS_KIND(forward_lanes) || IS_KIND(forward_wide)) && SAVE
/* Elements of windows, and where they are: element (i, k) of those that a work-item reads has code i * WINDOW + k, and
 * is tap code - (r * STEP_H * WINDOW + o * STEP_W) of window (r, o).  Of equal ones the first one counts: rows are
 * collected along w, then down.  NaN is never a maximum, and -inf takes the place of what lies outside: where there is
 * nothing above it, tap 0 is left. */
/* NVIDIA compares two numbers of 16 bits at once; of neighbours along w this pays where windows share few. */
#if defined(__NV_CL_C_VERSION) && defined(MX_SM) && VEC > 1 && (IS_KIND(forward_lanes) || STEP_W == 2)
#if MX_SM >= 80 && MX_TYPE(TYPE) == MX_TYPE_half
#define LOWEST 0xfc00fc00u /* -inf twice */
#define PAIR_TYPE "f16x2"
#elif MX_SM >= 90 && MX_TYPE(TYPE) == MX_TYPE_bfloat16
#define LOWEST 0xff80ff80u
#define PAIR_TYPE "bf16x2"
#endif
#endif
#ifdef LOWEST
static inline uint max_of_pairs(const uint a, const uint b)
{
    uint larger;
    asm("max." PAIR_TYPE " %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}
#endif

#ifdef LOWEST
#define PAIRS 1
#define WORDS (IS_KIND(forward_lanes) ? VEC / 2 : 1)
#define TWICE MX_JOIN(TWICE_, VEC)
#define TWICE_2 4
#define TWICE_4 8
#define TWICE_8 16
typedef struct {
    uint value[WORDS], code[WORDS];
} most_t;
#elif IS_KIND(forward_lanes)
#define PAIRS 0
typedef struct {
    vec_t value;
    LANEV code;
} most_t;
#else
#define PAIRS 0
typedef struct {
    ACC value;
    int code;
} most_t;
#endif

static inline most_t most(const most_t a, const most_t b)
{
    most_t c;
#if PAIRS
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        uint above;
        asm("set.gt.u32." PAIR_TYPE " %0, %1, %2;" : "=r"(above) : "r"(b.value[i]), "r"(a.value[i]));
        c.value[i] = max_of_pairs(a.value[i], b.value[i]);
        c.code[i] = (b.code[i] & above) | (a.code[i] & ~above);
    }
#else
    c.value = b.value > a.value ? b.value : a.value;
    c.code = b.value > a.value ? b.code : a.code;
#endif
    return c;
}

/* The maximum of window r of `count` along an axis, whose elements are parts of in[r * step] and the next ones; windows
 * r and r + 1 of three elements have two in common. */
#define MOST(to, r, count, in, part, window, step, common)                   \
    do {                                                                     \
        if ((window) == 3 && (step) == 1 && (r) % 2 == 1) {                  \
            (to) = most(common, (in)[(r) + 2] part);                         \
        } else if ((window) == 3 && (step) == 1 && (r) + 1 < (count)) {      \
            (common) = most((in)[(r) + 1] part, (in)[(r) + 2] part);         \
            (to) = most((in)[r] part, common);                               \
        } else {                                                             \
            (to) = (in)[(r) * (step)] part;                                  \
            _Pragma("unroll") for (int t_ = 1; t_ < (window); t_++)          \
                (to) = most(to, (in)[(r) * (step) + t_] part);               \
        }                                                                    \
    } while (0)

#ifdef LOWEST
/* Two numbers of 16 bits; -inf for NaN and for what lies outside. */
static inline uint pair_of(const uint word, const bool inside)
{
    return max_of_pairs(inside ? word : LOWEST, LOWEST);
}
#endif

#if PAIRS && IS_KIND(forward_lanes)
static inline most_t most_at(const MX_RAW(TYPE) bits, const bool inside, const uint code)
{
    most_t a;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        a.value[i] = pair_of(((const uint *)&bits)[i], inside);
        a.code[i] = code * 0x10001u;
    }
    return a;
}
#elif PAIRS
/* A half of a's and a half of b's. */
static inline uint two_of(const uint a, const bool high_a, const uint b, const bool high_b)
{
    uint two;
    asm("prmt.b32 %0, %1, %2, %3;"
        : "=r"(two) : "r"(a), "r"(b), "r"((high_a ? 0x32u : 0x10u) | (high_b ? 0x7600u : 0x5400u)));
    return two;
}
#else
/* What some bits say; -inf for NaN and for what lies outside. */
static inline vec_t numbers(const MX_RAW(TYPE) bits, const bool inside)
{
    return inside ? fmax(MX_WIDE(TYPE, bits), (vec_t)NOTHING) : (vec_t)NOTHING;
}

#if IS_KIND(forward_lanes)
static inline most_t most_at(const MX_RAW(TYPE) bits, const bool inside, const LANE code)
{
    most_t a;
    a.value = numbers(bits, inside);
    a.code = code;
    return a;
}
#endif
#endif
#endif

#define LOCAL (SPAN * TILE_H * TILE_W) /* of a tile */
#if (IS_KIND(forward_lanes) || IS_KIND(backward_lanes)) && SAVE
/* Indices of 8 bits: channels run slowest in them and fastest in local memory, four by four are turned. */
#define PITCH (SPAN * PACK + 8) /* bytes of a window */
#define CODES MX_JOIN(uchar, PACK)

/* Byte i of word j becomes byte j of word i. */
static inline void turn(uint words[4])
{
    const uint low = 0x00ff00ffu, a = words[0], b = words[1], c = words[2], d = words[3];
    const uint even_1 = (a & low) | (b & low) << 8, odd_1 = (a >> 8 & low) | (b & ~low);
    const uint even_2 = (c & low) | (d & low) << 8, odd_2 = (c >> 8 & low) | (d & ~low);
    words[0] = (even_1 & 0xffffu) | even_2 << 16;
    words[1] = (odd_1 & 0xffffu) | odd_2 << 16;
    words[2] = even_1 >> 16 | (even_2 & ~0xffffu);
    words[3] = odd_1 >> 16 | (odd_2 & ~0xffffu);
}
#endif

/* Rows and columns of x that a work-item of the forward kernels with vectors reads. */
#define DOWN ((ROWS - 1) * STEP_H + WINDOW_H)
#define ACROSS ((COLUMNS - 1) * STEP_W + WINDOW)

#if IS_KIND(forward_lanes)
#if SAVE
#define TILE_ROWS (TILE_H * ROWS)
#define TILE_COLUMNS (TILE_W * COLUMNS)

/* Four neighbours of a row of `columns`, those that are there. */
static inline void put_codes(__global uchar *row, INDEX w, INDEX columns, uint word, const bool runs)
{
    if (runs && RUN == 4) {
        if (w < columns)
            *(__global uint *)(row + w) = word;
    } else if (runs && RUN == 2) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (w + 2 * i < columns)
                *(__global ushort *)(row + w + 2 * i) = (ushort)(word >> 16 * i);
    } else
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (w + i < columns)
                row[w + i] = (uchar)(word >> 8 * i);
}
#define SIZED __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
#else
#define SIZED
#endif
__kernel SIZED void pooling_forward_lanes(FORWARD_BUFFERS,
#if SAVE
                                    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                    const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
#if SAVE
    __local uchar codes[TILE_ROWS * TILE_COLUMNS * PITCH] __attribute__((aligned(8)));
    const int me = (int)get_local_id(0), lane = me % SPAN, block_w = me / SPAN % TILE_W, block_h = me / SPAN / TILE_W;
    const block_t tile = block_of((INDEX)get_group_id(0), (channels / PACK + SPAN - 1) / SPAN,
                                  (rows + TILE_ROWS - 1) / TILE_ROWS, (columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
    const block_t a = {.n = tile.n, .c = tile.c * SPAN + lane, .h = tile.h * TILE_H + block_h,
                       .w = tile.w * TILE_W + block_w};
    const bool mine = a.c * PACK < channels && a.h * ROWS < rows && a.w * COLUMNS < columns;
#else
    const block_t a = block_of((INDEX)get_global_id(0), channels / PACK, (rows + ROWS - 1) / ROWS,
                               (columns + COLUMNS - 1) / COLUMNS);
    const bool mine = a.n < (INDEX)p.y.len[0];
#endif
    if (!MX_ALIGNED(x + x_offset) || !MX_ALIGNED(y + y_offset)) {
        for (INDEX h = a.h * ROWS; mine && h < min(a.h * ROWS + ROWS, rows); h++)
            for (INDEX w = a.w * COLUMNS; w < min(a.w * COLUMNS + COLUMNS, columns); w++)
                for (INDEX c = a.c * PACK; c < (a.c + 1) * PACK; c++) {
                    const mx_place place = {.n = a.n, .c = c, .d = 0, .h = h, .w = w};
                    forward_element(FORWARD_ARGUMENTS, &p, place);
                }
        return;
    }
    if (mine) {
        x += x_offset + a.n * p.x.stride[0] + a.c * PACK;
        y += y_offset + a.n * p.y.stride[0] + a.c * PACK + a.w * COLUMNS * p.y.stride[4];
        const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p.pad[1], w0 = a.w * (COLUMNS * STEP_W) - (INDEX)p.pad[2];
        const INDEX line = (INDEX)p.x.stride[3];
        INDEX at[ACROSS], column[ACROSS];
#pragma unroll
        for (int k = 0; k < ACROSS; k++) {
            column[k] = min(max(w0 + k, (INDEX)0), width - 1);
            at[k] = column[k] * (INDEX)p.x.stride[4];
        }
#if SAVE
        most_t found[DOWN][COLUMNS], result[COLUMNS], common[COLUMNS];
#else
        vec_t found[DOWN][COLUMNS], result[COLUMNS];
#endif
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
#if SAVE
            most_t one[ACROSS], pair;
#pragma unroll
            for (int k = 0; k < ACROSS; k++)
                one[k] = most_at(MX_RAW_LOAD(TYPE, x + h * line + at[k], true), h == h0 + i && column[k] == w0 + k,
                                 i * WINDOW + k);
#pragma unroll
            for (int o = 0; o < COLUMNS; o++)
                MOST(found[i][o], o, COLUMNS, one, , WINDOW, STEP_W, pair);
#else
            vec_t one[ACROSS];
#pragma unroll
            for (int k = 0; k < ACROSS; k++)
                one[k] = get(x + h * line + at[k], true);
#pragma unroll
            for (int o = 0; o < COLUMNS; o++) {
                vec_t value = NOTHING;
#pragma unroll
                for (int k = o * STEP_W; k < o * STEP_W + WINDOW; k++)
                    value = MODE == 0 ? fmax(one[k], value) : value + (column[k] == w0 + k ? one[k] : (vec_t)0);
                found[i][o] = MODE == 0 || h == h0 + i ? value : (vec_t)0;
            }
#endif
            /* Windows whose last row this is. */
            if (i < WINDOW_H - 1 || (i - WINDOW_H + 1) % STEP_H != 0)
                continue;
            const int r = (i - WINDOW_H + 1) / STEP_H;
            const INDEX row = a.h * ROWS + r, from = h0 + r * STEP_H;
#pragma unroll
            for (int o = 0; o < COLUMNS; o++) {
                const INDEX left = w0 + o * STEP_W;
#if SAVE
                MOST(result[o], r, ROWS, found, [o], WINDOW_H, STEP_H, common[o]);
#else
                vec_t value = found[r * STEP_H][o];
#pragma unroll
                for (int t = 1; t < WINDOW_H; t++)
                    value = MODE == 0 ? fmax(value, found[r * STEP_H + t][o]) : value + found[r * STEP_H + t][o];
                if (MODE == 1)
                    value /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                                   (min(left + WINDOW, width) - max(left, (INDEX)0)));
                if (MODE == 2)
                    value /= (ACC)(WINDOW_H * WINDOW);
#endif
                if (row >= rows || a.w * COLUMNS + o >= columns)
                    continue;
                __global STORAGE(TYPE) *to = y + row * p.y.stride[3] + o * p.y.stride[4];
#if SAVE
                const int in_tile = (block_h * ROWS + r) * TILE_COLUMNS + block_w * COLUMNS + o;
                __local CODES *code_to = (__local CODES *)(codes + in_tile * PITCH + lane * PACK);
#endif
#if PAIRS
                MX_RAW_STORE(TYPE, to, *(const MX_RAW(TYPE) *)result[o].value, true);
                *code_to = ((const MX_JOIN(uchar, TWICE) *)result[o].code)->even;
#elif SAVE
                put(to, result[o].value, true);
                *code_to = TO(CODES)(result[o].code);
#else
                put(to, value, true);
#endif
            }
        }
    }
#if SAVE
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool runs = (ulong)(indices + indices_offset) % RUN == 0;
    for (int i = me; i < SPAN * PACK / 4 * TILE_ROWS * (TILE_COLUMNS / 4); i += LOCAL) {
        const int k = i % (TILE_COLUMNS / 4) * 4, row = i / (TILE_COLUMNS / 4) % TILE_ROWS;
        const int channel = i / (TILE_COLUMNS / 4 * TILE_ROWS) * 4;
        const INDEX c = tile.c * (SPAN * PACK) + channel, h = tile.h * TILE_ROWS + row, w = tile.w * TILE_COLUMNS + k;
        uint words[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            words[j] = *(__local const uint *)(codes + (row * TILE_COLUMNS + k + j) * PITCH + channel) -
                       (row % ROWS * (STEP_H * WINDOW) + j % COLUMNS * STEP_W) * 0x01010101u;
        turn(words);
        __global uchar *to = indices + indices_offset + ((tile.n * (long)channels + c) * rows + h) * columns;
        if (h < rows)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (c + j < channels)
                    put_codes(to + j * (rows * columns), w, columns, words[j], runs);
    }
#endif
}
#endif

#if IS_KIND(forward_wide)

/* Elements of x beside the vector that windows meet. */
#define RIGHT (WINDOW - PAD_W - STEP_W > 0 ? WINDOW - PAD_W - STEP_W : 0)
#define ALL_READ (PAD_W + PACK + RIGHT)

#if STEP_W == 1
#define PART(whole, i) (whole)
#else
#define PART(whole, i) ((i) == 0 ? (whole).lo : (whole).hi)
#endif

/* Maxima o and o + OUTPUTS are made together, or each by itself. */
#if SAVE && PAIRS
#define PAIRED_OUTPUTS 1
#define OUTPUTS (VEC / 2)
#else
#define PAIRED_OUTPUTS 0
#define OUTPUTS VEC
#endif

#if SAVE
static inline INDEX_TYPE code_of(const int tap, const bool any, const INDEX from, const INDEX left, const INDEX width)
{
    return (INDEX_TYPE)(!IMAGE ? tap : any ? (from + tap / WINDOW) * width + left + tap % WINDOW : 0);
}
#endif

static inline __attribute__((always_inline)) void forward_wide(
    __global const STORAGE(TYPE) *x, __global STORAGE(TYPE) *y,
#if SAVE
    __global INDEX_TYPE *indices,
#endif
    const mx_pooling_problem *p, const block_t a, const bool aligned)
{
    const INDEX height = (INDEX)p->x.len[3], width = (INDEX)p->x.len[4];
    const INDEX rows = (INDEX)p->y.len[3], columns = (INDEX)p->y.len[4];
    const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p->pad[1], start = a.w * PACK, w0 = start - PAD_W;
    const INDEX line = (INDEX)p->x.stride[3];
#if SAVE
    most_t found[DOWN][OUTPUTS], common[OUTPUTS];
#else
    ACC found[DOWN][OUTPUTS];
#endif
#pragma unroll
    for (int i = 0; i < DOWN; i++) {
        const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
        const bool there = h == h0 + i;
        __global const STORAGE(TYPE) *row = x + h * line;
        MX_JOIN(STORAGE(TYPE), PACK) whole;
        if (aligned)
            whole = *(__global const MX_JOIN(STORAGE(TYPE), PACK) *)(row + start);
        else
            whole = MX_JOIN(vload, PACK)(0, row + start);
#if PAIRED_OUTPUTS
        uint word[ALL_READ];
        bool high[ALL_READ];
#pragma unroll
        for (int k = 0; k < ALL_READ; k++) {
            const INDEX at = w0 + k, kept = min(max(at, (INDEX)0), width - 1);
            const bool in_middle = k >= PAD_W && k < PAD_W + PACK;
            word[k] = in_middle ? ((const uint *)&whole)[(k - PAD_W) / 2] : at == kept ? (uint)row[kept] : LOWEST;
            high[k] = in_middle && (k - PAD_W) % 2;
        }
        most_t one[ALL_READ], pair;
#pragma unroll
        for (int k = 0; k + OUTPUTS * STEP_W < ALL_READ; k++) {
            const int other = k + OUTPUTS * STEP_W;
            one[k].value[0] = pair_of(two_of(word[k], high[k], word[other], high[other]), there);
            one[k].code[0] = (i * WINDOW + k) * 0x10001u;
        }
#else
        vec_t middle[STEP_W];
#pragma unroll
        for (int k = 0; k < STEP_W; k++) {
            const MX_RAW(TYPE) part = PART(whole, k);
#if SAVE
            middle[k] = numbers(part, there);
#else
            middle[k] = MX_WIDE(TYPE, part);
#endif
        }
#if SAVE
        most_t one[ALL_READ], pair;
#else
        ACC one[ALL_READ];
#endif
#pragma unroll
        for (int k = 0; k < ALL_READ; k++) {
            const INDEX at = w0 + k, kept = min(max(at, (INDEX)0), width - 1);
            const bool in_middle = k >= PAD_W && k < PAD_W + PACK;
            const ACC value = in_middle ? ((const ACC *)middle)[k - PAD_W] : LOAD(TYPE)(row, kept);
#if SAVE
            one[k].value = in_middle ? value : there && at == kept ? fmax(value, NOTHING) : NOTHING;
            one[k].code = i * WINDOW + k;
#else
            one[k] = MODE == 0 || in_middle ? value : masked(value, at == kept ? -1 : 0);
#endif
        }
#endif
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
#if SAVE
            MOST(found[i][o], o, OUTPUTS, one, , WINDOW, STEP_W, pair);
#else
            ACC value = NOTHING;
#pragma unroll
            for (int k = o * STEP_W; k < o * STEP_W + WINDOW; k++)
                value = MODE == 0 ? fmax(one[k], value) : value + one[k];
            found[i][o] = MODE == 0 ? value : masked(value, there ? -1 : 0);
#endif
        }
        /* Windows whose last row this is. */
        if (i < WINDOW_H - 1 || (i - WINDOW_H + 1) % STEP_H != 0)
            continue;
        const int r = (i - WINDOW_H + 1) / STEP_H;
        const INDEX to = a.h * ROWS + r, from = h0 + r * STEP_H;
#if SAVE
        INDEX_TYPE codes[VEC] __attribute__((aligned(64)));
#endif
#if PAIRED_OUTPUTS
        uint bits[OUTPUTS];
#else
        vec_t values;
#endif
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            const INDEX left = w0 + o * STEP_W;
#if SAVE
            most_t result;
            MOST(result, r, ROWS, found, [o], WINDOW_H, STEP_H, common[o]);
#endif
#if PAIRED_OUTPUTS
            bits[o] = result.value[0];
            const uint taps = result.code[0] - (r * STEP_H * WINDOW + o * STEP_W) * 0x10001u;
            codes[o] = code_of(taps & 0xffffu, ((bits[o] ^ LOWEST) & 0xffffu) != 0, from, left, width);
            codes[o + OUTPUTS] = code_of(taps >> 16, (bits[o] ^ LOWEST) >> 16 != 0, from, left + OUTPUTS * STEP_W,
                                         width);
#elif SAVE
            ((ACC *)&values)[o] = result.value;
            codes[o] = code_of(result.code - (r * STEP_H * WINDOW + o * STEP_W), result.value > NOTHING, from, left,
                               width);
#else
            ACC value = found[r * STEP_H][o];
#pragma unroll
            for (int t = 1; t < WINDOW_H; t++)
                value = MODE == 0 ? fmax(value, found[r * STEP_H + t][o]) : value + found[r * STEP_H + t][o];
            if (MODE == 1)
                value /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                               (min(left + WINDOW, width) - max(left, (INDEX)0)));
            if (MODE == 2)
                value /= (ACC)(WINDOW_H * WINDOW);
            ((ACC *)&values)[o] = value;
#endif
        }
        if (to >= rows)
            return;
#if PAIRED_OUTPUTS
        MX_RAW(TYPE) raw;
#pragma unroll
        for (int o = 0; o < VEC; o += 2)
            ((uint *)&raw)[o / 2] = two_of(bits[o % OUTPUTS], o >= OUTPUTS, bits[(o + 1) % OUTPUTS], o + 1 >= OUTPUTS);
        MX_RAW_STORE(TYPE, y + to * p->y.stride[3], raw, aligned);
#else
        put(y + to * p->y.stride[3], values, aligned);
#endif
#if SAVE
        if (aligned)
            *(__global MX_V(INDEX_TYPE) *)(indices + to * columns) = *(const MX_V(INDEX_TYPE) *)codes;
        else
            MX_V(vstore)(*(const MX_V(INDEX_TYPE) *)codes, 0, indices + to * columns);
#endif
    }
}

#if SAVE
#define WIDE_BUFFERS x, y, indices
#define WIDE_ALIGNED ((ulong)x % (PACK * sizeof(*x)) == 0 && MX_ALIGNED(y) && MX_ALIGNED(indices))
#else
#define WIDE_BUFFERS x, y
#define WIDE_ALIGNED ((ulong)x % (PACK * sizeof(*x)) == 0 && MX_ALIGNED(y))
#endif

__kernel void pooling_forward_wide(FORWARD_BUFFERS,
#if SAVE
                                   __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                   const mx_pooling_problem p, const long block)
{
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (rows + ROWS - 1) / ROWS, columns / VEC);
    if (a.n >= (INDEX)p.y.len[0])
        return;
    x += x_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    y += y_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1] + a.w * VEC;
#if SAVE
    indices += indices_offset + (a.n * (long)channels + a.c) * rows * columns + a.w * VEC;
#endif
    if (WIDE_ALIGNED)
        forward_wide(WIDE_BUFFERS, &p, a, true);
    else
        forward_wide(WIDE_BUFFERS, &p, a, false);
}
#endif

#if SAVE
#define BACKWARD_ARGUMENTS dy, dy_offset, dx, dx_offset, indices, indices_offset
#else
#define BACKWARD_ARGUMENTS dy, dy_offset, dx, dx_offset
#endif

#if IS_KIND(backward_elements) || IS_KIND(backward_lanes)

typedef struct {
    INDEX from, to;
} range_t;

/* Windows that contain place `at` of an axis, 0 ... 2. */
static inline range_t windows_at(const mx_pooling_problem *p, int axis, INDEX at)
{
    const INDEX step = (INDEX)p->step[axis], first = at + (INDEX)p->pad[axis] - (INDEX)p->window[axis] + 1;
    range_t r;
    r.from = first > 0 ? (first + step - 1) / step : 0;
    r.to = min((at + (INDEX)p->pad[axis]) / step + 1, (INDEX)p->y.len[2 + axis]);
    return r;
}

static inline INDEX elements_in(const mx_pooling_problem *p, int axis, INDEX window)
{
    const INDEX first = window * (INDEX)p->step[axis] - (INDEX)p->pad[axis];
    return MODE == 2 ? (INDEX)p->window[axis]
                     : min(first + (INDEX)p->window[axis], (INDEX)p->x.len[2 + axis]) - max(first, (INDEX)0);
}

static inline void backward_element(BACKWARD_BUFFERS,
#if SAVE
                                    __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                    const mx_pooling_problem *p, const mx_place a)
{
    const range_t on_d = windows_at(p, 0, a.d), on_h = windows_at(p, 1, a.h), on_w = windows_at(p, 2, a.w);
    ACC sum = 0;
    dy += dy_offset + a.n * p->y.stride[0] + a.c * p->y.stride[1];
#if SAVE
    indices += indices_offset + (a.n * p->y.len[1] + a.c) * p->y.len[2] * p->y.len[3] * p->y.len[4];
#endif
    for (INDEX i = on_d.from; i < on_d.to; i++)
        for (INDEX j = on_h.from; j < on_h.to; j++) {
            __global const STORAGE(TYPE) *row = dy + i * p->y.stride[2] + j * p->y.stride[3];
#if SAVE
            __global const INDEX_TYPE *codes = indices + (i * p->y.len[3] + j) * p->y.len[4];
            const long tap_d = a.d + p->pad[0] - i * p->step[0], tap_h = a.h + p->pad[1] - j * p->step[1];
            const long taps = (tap_d * p->window[1] + tap_h) * p->window[2] + a.w + p->pad[2];
            const long image = (a.d * p->x.len[3] + a.h) * p->x.len[4] + a.w;
#else
            const ACC lines = (ACC)((long)elements_in(p, 0, i) * elements_in(p, 1, j));
#endif
            for (INDEX k = on_w.from; k < on_w.to; k++) {
                const ACC value = LOAD(TYPE)(row, k * p->y.stride[4]);
#if SAVE
                const long code = IMAGE ? image : taps - k * p->step[2];
                sum += codes[k] == (INDEX_TYPE)code ? value : (ACC)0;
#else
                sum += value / (lines * (ACC)elements_in(p, 2, k));
#endif
            }
        }
    STORE(TYPE)(dx, dx_offset + mx_offset(p->x, a.n, a.c, a.d, a.h, a.w), sum);
}
#endif

#if IS_KIND(backward_strips) || IS_KIND(backward_lanes) || IS_KIND(backward_wide)

/* Windows with elements of the block, along an axis: how many begin before the block's number of strides, and how many
 * there are in all. */
#define BEFORE_H ((WINDOW_H - 1 - PAD_H) / STEP_H)
#define BEFORE_W ((WINDOW - 1 - PAD_W) / STEP_W)
#define ALONG_H ((ROWS - 1 + PAD_H) / STEP_H + BEFORE_H + 1)
#define ALONG_W ((COLUMNS - 1 + PAD_W) / STEP_W + BEFORE_W + 1)
#endif

#if IS_KIND(backward_strips) || IS_KIND(backward_lanes) || IS_KIND(backward_wide)
#if IS_KIND(backward_lanes)
#define PARTS PACK
typedef vec_t value_t;
#else
#define PARTS 1
typedef ACC value_t;
#endif
#if SAVE
#define NO_TAP 255 /* of indices of 8 bits */
#if PARTS == 1
typedef INDEX_TYPE code_t;
#else
typedef CODES code_t;
#endif

/* Adds a window's value to the element that its code means.  NVIDIA's compiler makes a comparison, a selection and an
 * addition of it where two instructions do. */
static inline void add_if(ACC *sum, const INDEX_TYPE code, const INDEX_TYPE here, const ACC value)
{
#if defined(__NV_CL_C_VERSION) && MX_TYPE(TYPE) != MX_TYPE_double && INDEX_BITS <= 32 && \
    (IS_KIND(backward_lanes) || STEP_W == 1) /* else slower: 45 us for 41 */
    asm("{ .reg .pred here; setp.eq.u32 here, %1, %2; @here add.f32 %0, %0, %3; }"
        : "+f"(*sum) : "r"((uint)code), "r"((uint)here), "f"(value));
#else
    *sum += code == here ? value : (ACC)0;
#endif
}
#else
/* What each element of window (j, k) gets of its value. */
static inline value_t share_of(const mx_pooling_problem *p, const value_t value, const INDEX j, const INDEX k)
{
    const INDEX top = j * STEP_H - PAD_H, left = k * STEP_W - PAD_W;
    if (MODE == 2)
        return value / (ACC)(WINDOW_H * WINDOW);
    return value / (ACC)((min(top + WINDOW_H, (INDEX)p->x.len[3]) - max(top, (INDEX)0)) *
                         (min(left + WINDOW, (INDEX)p->x.len[4]) - max(left, (INDEX)0)));
}
#endif

/* Adds what the elements of a block, which begins at `place` of the image, get of window (j, k) of those it meets. */
static inline void spread(value_t sum[ROWS][COLUMNS], const int j, const int k, const value_t value,
#if SAVE
                          const code_t code,
#endif
                          const INDEX place, const INDEX width)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++) {
            const int tap_h = r + PAD_H + (BEFORE_H - j) * STEP_H, tap_w = s + PAD_W + (BEFORE_W - k) * STEP_W;
            if (tap_h < 0 || tap_h >= WINDOW_H || tap_w < 0 || tap_w >= WINDOW)
                continue;
#if SAVE
            const INDEX_TYPE here = (INDEX_TYPE)(IMAGE ? place + r * width + s : tap_h * WINDOW + tap_w);
#pragma unroll
            for (int i = 0; i < PARTS; i++)
                add_if((ACC *)&sum[r][s] + i, ((const INDEX_TYPE *)&code)[i], here, ((const ACC *)&value)[i]);
#else
            sum[r][s] += value;
#endif
        }
}
#endif

#if IS_KIND(backward_wide)
#define CODES MX_JOIN(uchar, VEC)

static inline __attribute__((always_inline)) void backward_wide(
    __global const STORAGE(TYPE) *dy, __global STORAGE(TYPE) *dx, __global const uchar *indices,
    const mx_pooling_problem *p, const block_t a, const bool aligned)
{
    const INDEX height = (INDEX)p->x.len[3], rows = (INDEX)p->y.len[3], columns = (INDEX)p->y.len[4];
    const INDEX h0 = a.h * ROWS, w0 = a.w * COLUMNS, first = a.w * VEC;
    const INDEX j0 = a.h * (ROWS / STEP_H) - BEFORE_H, k0 = first - BEFORE_W, line = (INDEX)p->y.stride[3];
    ACC sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
        __global const STORAGE(TYPE) *row = dy + h * line;
        __global const uchar *codes = indices + h * columns;
        const vec_t middle = get(row + first, aligned);
        CODES middle_codes;
        if (aligned)
            middle_codes = *(__global const CODES *)(codes + first);
        else
            middle_codes = MX_V(vload)(0, codes + first);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
            ACC value;
            uchar code;
            if (k >= BEFORE_W && k < BEFORE_W + VEC) {
                value = ((const ACC *)&middle)[k - BEFORE_W];
                code = ((const uchar *)&middle_codes)[k - BEFORE_W];
            } else {
                value = LOAD(TYPE)(row, w);
                code = w == k0 + k ? codes[w] : NO_TAP;
            }
            spread(sum, j, k, value, h == j0 + j ? code : NO_TAP, 0, 0);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (h0 + r < height) {
            __global STORAGE(TYPE) *to = dx + (h0 + r) * p->x.stride[3] + w0;
            MX_RAW(TYPE) bits[STEP_W];
#pragma unroll
            for (int i = 0; i < STEP_W; i++) {
                vec_t part;
#pragma unroll
                for (int s = 0; s < VEC; s++)
                    ((ACC *)&part)[s] = sum[r][i * VEC + s];
                MX_JOIN(MX_TO_, TYPE)(bits[i], part);
            }
#if STEP_W == 1
            MX_RAW_STORE(TYPE, to, bits[0], aligned);
#else
            if (aligned)
                *(__global MX_JOIN(STORAGE(TYPE), PACK) *)to = (MX_JOIN(STORAGE(TYPE), PACK))(bits[0], bits[1]);
            else {
                MX_V(vstore)(bits[0], 0, to);
                MX_V(vstore)(bits[1], 1, to);
            }
#endif
        }
}

__kernel void pooling_backward_wide(BACKWARD_BUFFERS, __global const INDEX_TYPE *restrict indices, long indices_offset,
                                    const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4], channels = (INDEX)p.x.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (height + ROWS - 1) / ROWS, width / COLUMNS);
    if (a.n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1];
    dx += dx_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    indices += indices_offset + (a.n * (long)channels + a.c) * p.y.len[3] * p.y.len[4];
    if (MX_ALIGNED(dy) && (ulong)dx % (PACK * sizeof(*dx)) == 0 && (ulong)indices % VEC == 0)
        backward_wide(dy, dx, indices, &p, a, true);
    else
        backward_wide(dy, dx, indices, &p, a, false);
}
#endif

#if IS_KIND(backward_strips)

/* Two neighbours at an even place. */
static inline void store_pair(__global STORAGE(TYPE) *p, long i, ACC low, ACC high)
{
    MX_JOIN(STORAGE(TYPE), 2) bits;
#if MX_TYPE(TYPE) == MX_TYPE_half
    vstore_half2_rte((float2)(low, high), 0, (__private half *)&bits);
#elif MX_TYPE(TYPE) == MX_TYPE_bfloat16
    bits = (ushort2)(mx_to_bfloat16(low), mx_to_bfloat16(high));
#else
    bits = (MX_JOIN(ACC, 2))(low, high);
#endif
    *(__global MX_JOIN(STORAGE(TYPE), 2) *)(p + i) = bits;
}

__kernel void pooling_backward_strips(BACKWARD_BUFFERS,
#if SAVE
                                      __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                      const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (height + ROWS - 1) / ROWS,
                               (width + COLUMNS - 1) / COLUMNS);
    if (a.n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1];
#if SAVE
    indices += indices_offset + (a.n * (long)channels + a.c) * rows * columns;
#endif
    const INDEX h0 = a.h * ROWS, w0 = a.w * COLUMNS;
    const INDEX j0 = a.h * (ROWS / STEP_H) - BEFORE_H, k0 = a.w * (COLUMNS / STEP_W) - BEFORE_W;
    const INDEX line = (INDEX)p.y.stride[3], step = (INDEX)p.y.stride[4];
    ACC sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
            const LANE there = h == j0 + j && w == k0 + k ? -1 : 0;
            const ACC value = masked(LOAD(TYPE)(dy, h * line + w * step), there);
#if SAVE
            spread(sum, j, k, value, indices[h * columns + w], h0 * width + w0, width);
#else
            spread(sum, j, k, share_of(&p, value, h, w), 0, 0);
#endif
        }
    }
    dx += dx_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    const bool pairs = (PAIRED & (COLUMNS == 2) & ((ulong)dx % (2 * sizeof(STORAGE(TYPE))) == 0)) && w0 + 1 < width;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (h0 + r < height) {
            const long at = (h0 + r) * p.x.stride[3];
            if (pairs)
                store_pair(dx, at + w0, sum[r][0], sum[r][COLUMNS - 1]);
            else
#pragma unroll
                for (int s = 0; s < COLUMNS; s++)
                    if (w0 + s < width)
                        STORE(TYPE)(dx, at + (w0 + s) * p.x.stride[4], sum[r][s]);
        }
}
#endif

#if IS_KIND(backward_lanes)

/* Windows of a tile; along w a multiple of four, of which the first LEAD are not asked for. */
#define LEAD ((4 - BEFORE_W % 4) % 4)
#define TILE_J ((TILE_H - 1) * (ROWS / STEP_H) + ALONG_H)
#define TILE_K ((LEAD + (TILE_W - 1) * (COLUMNS / STEP_W) + ALONG_W + 3) / 4 * 4)

#if SAVE
/* Four neighbours of a row of `columns`. */
static inline uint get_codes(__global const uchar *row, INDEX w, INDEX columns, const bool runs)
{
    uint word = 0;
    if (runs && RUN == 4)
        return w >= 0 && w < columns ? *(__global const uint *)(row + w) : NO_TAP * 0x01010101u;
    if (runs && RUN == 2)
#pragma unroll
        for (int i = 0; i < 4; i += 2)
            word |= (w + i >= 0 && w + i < columns ? (uint)*(__global const ushort *)(row + w + i) : NO_TAP * 0x0101u)
                    << 8 * i;
    else
#pragma unroll
        for (int i = 0; i < 4; i++)
            word |= (w + i >= 0 && w + i < columns ? (uint)row[w + i] : NO_TAP) << 8 * i;
    return word;
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pooling_backward_lanes(BACKWARD_BUFFERS,
#if SAVE
                                     __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                     const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const INDEX sets = (channels / PACK + SPAN - 1) / SPAN;
    const INDEX down = (height + TILE_H * ROWS - 1) / (TILE_H * ROWS);
    const INDEX across = (width + TILE_W * COLUMNS - 1) / (TILE_W * COLUMNS);
    INDEX group = (INDEX)get_group_id(0);
    const INDEX set = group % sets;
    group /= sets;
    const INDEX tile_w = group % across * TILE_W;
    group /= across;
    const INDEX tile_h = group % down * TILE_H, n = group / down;
    const int me = (int)get_local_id(0), lane = me % SPAN, block_w = me / SPAN % TILE_W, block_h = me / SPAN / TILE_W;
    const INDEX c = (set * SPAN + lane) * PACK;
    const INDEX h0 = (tile_h + block_h) * ROWS, w0 = (tile_w + block_w) * COLUMNS;
#if SAVE
    __local uchar codes[TILE_J * TILE_K * PITCH] __attribute__((aligned(8)));
    const INDEX first_j = tile_h * (ROWS / STEP_H) - BEFORE_H;
    const INDEX first_k = tile_w * (COLUMNS / STEP_W) - (BEFORE_W + LEAD);
    __global const uchar *from = indices + indices_offset + n * (long)channels * rows * columns;
    const bool runs = (ulong)(indices + indices_offset) % RUN == 0;
    for (int i = me; i < SPAN * PACK / 4 * TILE_J * (TILE_K / 4); i += LOCAL) {
        const int k = i % (TILE_K / 4) * 4, j = i / (TILE_K / 4) % TILE_J, channel = i / (TILE_K / 4 * TILE_J) * 4;
        const INDEX row = first_j + j, first = set * (SPAN * PACK) + channel;
        const INDEX there = row >= 0 && row < rows ? columns : 0;
        uint words[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            words[q] = get_codes(from + (min(first + q, channels - 1) * rows + row) * columns, first_k + k, there,
                                 runs);
        turn(words);
#pragma unroll
        for (int q = 0; q < 4; q++)
            *(__local uint *)(codes + (j * TILE_K + k + q) * PITCH + channel) = words[q];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (c >= channels || h0 >= height || w0 >= width)
        return;
    if (!MX_ALIGNED(dy + dy_offset) || !MX_ALIGNED(dx + dx_offset)) {
        for (INDEX h = h0; h < min(h0 + ROWS, height); h++)
            for (INDEX w = w0; w < min(w0 + COLUMNS, width); w++)
                for (int i = 0; i < PACK; i++) {
                    const mx_place place = {.n = n, .c = c + i, .d = 0, .h = h, .w = w};
                    backward_element(BACKWARD_ARGUMENTS, &p, place);
                }
        return;
    }
    dy += dy_offset + n * p.y.stride[0] + c;
    dx += dx_offset + n * p.x.stride[0] + c;
    const INDEX j0 = (tile_h + block_h) * (ROWS / STEP_H) - BEFORE_H, line = (INDEX)p.y.stride[3];
    const INDEX k0 = (tile_w + block_w) * (COLUMNS / STEP_W) - BEFORE_W, step = (INDEX)p.y.stride[4];
    vec_t sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
        vec_t values[ALONG_W];
#pragma unroll
        for (int k = 0; k < ALONG_W; k++)
            values[k] = get(dy + h * line + min(max(k0 + k, (INDEX)0), columns - 1) * step, true);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
#if SAVE
            const int in_tile = (block_h * (ROWS / STEP_H) + j) * TILE_K + LEAD + block_w * (COLUMNS / STEP_W) + k;
            const CODES code = *(__local const CODES *)(codes + in_tile * PITCH + lane * PACK);
            spread(sum, j, k, values[k], code, h0 * width + w0, width);
#else
            const vec_t value = h == j0 + j && w == k0 + k ? values[k] : (vec_t)0;
            spread(sum, j, k, share_of(&p, value, h, w), 0, 0);
#endif
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            if (h0 + r < height && w0 + s < width)
                put(dx + (h0 + r) * p.x.stride[3] + (w0 + s) * p.x.stride[4], sum[r][s], true);
}
#endif

#if IS_KIND(forward_whole) || IS_KIND(backward_whole)
/* Where pixel i of an image lies. */
static inline INDEX pixel_at(const mx_tensor *x, INDEX i)
{
    const INDEX width = (INDEX)x->len[4], height = (INDEX)x->len[3];
    if (x->len[2] == 1 && x->stride[3] == width * x->stride[4])
        return i * (INDEX)x->stride[4];
    const INDEX row = i / width, d = row / height;
    return d * (INDEX)x->stride[2] + (row - d * height) * (INDEX)x->stride[3] + (i - row * width) * (INDEX)x->stride[4];
}
#endif

#if IS_KIND(forward_whole)
#define COLLECT(a, b) (MODE == 0 ? fmax(a, b) : (a) + (b))

/* Every DEEP-th pixel. */
static inline vec_t collect(__global const STORAGE(TYPE) *x, const mx_tensor *shape, INDEX first, INDEX pixels,
                            const bool aligned)
{
    vec_t mine = NOTHING;
    for (INDEX i = first; i < pixels; i += 8 * DEEP) {
        MX_RAW(TYPE) several[8]; /* asked for before the first is waited for */
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (i + k * DEEP < pixels)
                several[k] = MX_RAW_LOAD(TYPE, x + pixel_at(shape, i + k * DEEP), aligned);
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (i + k * DEEP < pixels)
                mine = COLLECT(mine, MX_WIDE(TYPE, several[k]));
    }
    return mine;
}

__kernel __attribute__((reqd_work_group_size(SPAN * DEEP, 1, 1))) void pooling_forward_whole(
    FORWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    __local vec_t scratch[SPAN * DEEP];
    const int me = (int)get_local_id(0), lane = me % SPAN, row = me / SPAN;
    const INDEX vectors = (INDEX)p.x.len[1] / PACK, sets = (vectors + SPAN - 1) / SPAN;
    const INDEX n = (INDEX)get_group_id(0) / sets, vector = ((INDEX)get_group_id(0) - n * sets) * SPAN + lane;
    const INDEX pixels = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]);
    x += x_offset + n * p.x.stride[0];
    y += y_offset + n * p.y.stride[0];
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y);
    x += min(vector, vectors - 1) * PACK;
    vec_t mine = aligned ? collect(x, &p.x, row, pixels, true) : collect(x, &p.x, row, pixels, false);
    scratch[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = DEEP / 2; half_way > 0; half_way /= 2) {
        if (row < half_way)
            scratch[me] = COLLECT(scratch[me], scratch[me + half_way * SPAN]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row == 0 && vector < vectors) {
        mine = scratch[me];
        if (MODE == 1)
            mine /= (ACC)pixels;
        if (MODE == 2)
            mine /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
        put(y + vector * PACK, mine, aligned);
    }
}
#endif

#if IS_KIND(backward_whole)
__kernel void pooling_backward_whole(BACKWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    const INDEX pixels = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]), vectors = (INDEX)p.x.len[1] / PACK;
    const INDEX item = (INDEX)get_global_id(0), place = item / vectors, c = (item - place * vectors) * PACK;
    const INDEX n = place / pixels;
    if (n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + n * p.y.stride[0];
    dx += dx_offset + n * p.x.stride[0];
    const bool aligned = MX_ALIGNED(dy) && MX_ALIGNED(dx);
    const ACC divisor = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2]) : (ACC)pixels;
    const vec_t value = get(dy + c, aligned) / divisor;
    put(dx + c + pixel_at(&p.x, place - n * pixels), value, aligned);
}
#endif

#if IS_KIND(backward_spread)
__kernel void pooling_backward_spread(BACKWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    const INDEX length = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]), channels = (INDEX)p.x.len[1];
    const INDEX planes = (INDEX)p.x.len[0] * channels, size = planes * length;
    const INDEX i = (INDEX)get_global_id(0) * 4;
    if (i >= size)
        return;
    const INDEX plane = i / length, left = (plane + 1) * length - i, n = plane / channels;
    const INDEX next = min(plane + 1, planes - 1), next_n = next / channels;
    const ACC divisor = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2]) : (ACC)length;
    dy += dy_offset;
    const ACC here = LOAD(TYPE)(dy, n * p.y.stride[0] + (plane - n * channels) * p.y.stride[1]) / divisor;
    const ACC there = LOAD(TYPE)(dy, next_n * p.y.stride[0] + (next - next_n * channels) * p.y.stride[1]) / divisor;
    const MX_JOIN(ACC, 4) values = (MX_JOIN(ACC, 4))(here, left > 1 ? here : there, left > 2 ? here : there,
                                                    left > 3 ? here : there);
    dx += dx_offset + i;
    if (i + 4 <= size && (ulong)dx % (4 * sizeof(STORAGE(TYPE))) == 0) {
        MX_JOIN(STORAGE(TYPE), 4) bits;
#if MX_TYPE(TYPE) == MX_TYPE_half
        vstore_half4_rte(values, 0, (__private half *)&bits);
#elif MX_TYPE(TYPE) == MX_TYPE_bfloat16
        bits = (ushort4)(mx_to_bfloat16(values.x), mx_to_bfloat16(values.y), mx_to_bfloat16(values.z),
                         mx_to_bfloat16(values.w));
#else
        bits = values;
#endif
        *(__global MX_JOIN(STORAGE(TYPE), 4) *)dx = bits;
    } else {
        STORE(TYPE)(dx, 0, values.x);
        if (i + 1 < size)
            STORE(TYPE)(dx, 1, values.y);
        if (i + 2 < size)
            STORE(TYPE)(dx, 2, values.z);
        if (i + 3 < size)
            STORE(TYPE)(dx, 3, values.w);
    }
}
#endif

#if IS_KIND(forward_elements)
__kernel void pooling_forward_elements(FORWARD_BUFFERS,
#if SAVE
                                       __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                       const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item < mx_size(p.y))
        forward_element(FORWARD_ARGUMENTS, &p, mx_place_of(item, p.y));
}
#endif

#if IS_KIND(backward_elements)
__kernel void pooling_backward_elements(BACKWARD_BUFFERS,
#if SAVE
                                        __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                        const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item < mx_size(p.x))
        backward_element(BACKWARD_ARGUMENTS, &p, mx_place_of(item, p.x));
}
#endif
