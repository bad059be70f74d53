/* Implicit GEMM for CPU devices, forward and backward data of packed NCHW, NCW and NCDHW tensors:
 *
 *     out[n, row, pixel] = alpha * sum over (tap, channel) of filter[row, tap, channel] * in[n, channel, pixel at tap]
 *                          + beta * out
 *
 * Forward in is x, out is y, rows are filters; backward data in is dy, out is dx, rows are the channels of x.
 * Backward data with strides is one dense convolution a phase: every stride-th output meets the same taps, and
 * neighbours of dy.
 * Shape: any filter, stride, dilation, padding, groups.  Inf and NaN of `in` reach only outputs that depend on them; a
 * filter's Inf or NaN meets the zeros of the padding.
 * Grid: local (1, 1, 1).
 *
 *     pixels ->  N_VECTORS * VEC         convolve: (phases * tiles * chunks, groups, 1); pixels are numbered through
 *     +------------------------+         all images, tiles = vectors of the first phase / (TILES * N_VECTORS), up
 *     |  ROWS x N_VECTORS      | chunk   A work-item: a chunk of rows, MAX_ROWS at most (`pairs`: half), TILES wide.
 *     |  vectors in registers  | of rows It packs a panel of K_BLOCK (channel, tap) and multiplies all rows by it.
 *     +------------------------+
 *     pack_filters: (rows of a group / VEC, groups, 1); backward data (channels / PACKED_CHANNELS, groups, 1)
 *       w -> [group][row / ROWS][phase][channel][tap of the phase][row % ROWS] of ACC; rows beyond the last are any
 *       number; `block` is ROWS, 4 or 8
 *
 * With `in_place` the filter is read as it is: forward, if W_TYPE is ACC and a group's rows fill blocks of ROWS.  With
 * `pairs`, backward data with stride 2 along w, both phases along w are stored together.  With `stream` results go past
 * the caches where beta is 0.
 * Memory: no local memory; panel, sums and totals are private.  Nothing outside the tensors is read.
 * int8, ACC int: two neighbours of a sum, channel by channel, are an element of panel and filters, see conv/cpu/pairs.h.
 * Filters have at most K_BLOCK / 2 taps then.
 * Sums are taken over channels and, in each, taps in order.  K_BLOCK changes the last bits of sums of more than
 * BLOCK_TERMS terms, no definition a bit of shorter ones.
 * Bound by: multiply-adds; packing where rows are few; storing where channels are few.
 */
#ifndef IN_TYPE /* storage types */
#define IN_TYPE float
#endif
#ifndef W_TYPE
#define W_TYPE IN_TYPE
#endif
#ifndef OUT_TYPE
#define OUT_TYPE IN_TYPE
#endif
#ifndef ACC /* type of products and sums: double when OUT_TYPE is double, int when IN_TYPE is int8 */
#define ACC float
#endif
#ifndef KERNELS /* what to build: 1 pack_filters, 2 convolve, 3 both */
#define KERNELS 3
#endif
#ifndef BACKWARD /* 1 backward data */
#define BACKWARD 0
#endif
#ifndef VEC /* ACC elements in a vector, 4, 8 or 16 */
#define VEC 16
#endif
#ifndef ROWS /* rows of a tile, a divisor of VEC */
#define ROWS 8
#endif
#ifndef N_VECTORS /* vectors side by side in a tile */
#define N_VECTORS 3
#endif
#ifndef TILES /* that a work-item has side by side */
#define TILES 1
#endif
#ifndef MAX_ROWS /* of a work-item */
#define MAX_ROWS 512
#endif
#ifndef K_BLOCK /* taps and channels that are packed at a time */
#define K_BLOCK 256
#endif
#define STREAM 1 /* where `stream` says so */
#include "include/common.h"
#include "include/epilogue.h"

#if !MX_IS_STORAGE(IN_TYPE) || !MX_IS_STORAGE(W_TYPE) || !MX_IS_STORAGE(OUT_TYPE)
#error "IN_TYPE, W_TYPE and OUT_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif
#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#if (KERNELS & 2) && (ROWS < 1 || VEC % ROWS != 0 || MAX_ROWS % ROWS != 0 || K_BLOCK < 1 || K_BLOCK > BLOCK_TERMS)
#error "ROWS, MAX_ROWS or K_BLOCK out of range"
#endif

#define ALL_VECTORS (TILES * N_VECTORS)
#if MX_INTEGER_ACC
#include "conv/cpu/pairs.h"
#define ELEMENTS(terms) (((terms) + 1) / 2) /* of so many terms of a sum */
#else
#define ELEMENTS(terms) (terms)
#endif
#include "conv/cpu/tile.h"

#if MX_TYPE(ACC) == MX_TYPE_double
#define LANE long /* an integer as wide as ACC, as vector conditions want it */
#else
#define LANE int
#endif
typedef MX_JOIN(LANE, VEC) lane_mask;
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOAD_IN(at) TO_VEC(VLOAD(IN_TYPE)(in, at))

/* The taps along an axis that outputs of one phase see: `count` of them, which move an output's place in the input by
 * first, first + step, ...; `before` taps belong to phases that are packed earlier. */
typedef struct {
    long count, first, step, before;
} mx_taps;

#if BACKWARD
/* Taps t with (place + pad - t dilation) divisible by the stride. */
NOINLINE mx_taps taps_of(const mx_conv_problem *p, int axis, long place)
{
    const long stride = p->step[axis], dilation = p->dilation[axis] % stride, wanted = (place + p->pad[axis]) % stride;
    mx_taps taps = {0, 0, 0, 0};
    long first = 0, rest = 0;
    for (long t = 0; t < p->w.len[2 + axis]; t++) {
        if (rest == wanted) {
            if (taps.count == 0)
                first = t;
            else if (taps.count == 1)
                taps.step = (first - t) * p->dilation[axis] / stride;
            taps.count++;
        }
        taps.before += rest < wanted;
        rest += dilation;
        rest -= rest >= stride ? stride : 0;
    }
    taps.first = (place + p->pad[axis] - first * p->dilation[axis]) / stride;
    return taps;
}
#endif

#if KERNELS & 1
#include "conv/cpu/transpose.h"

#define PACKED_CHANNELS 16 /* that a work-item packs of backward data's filter */

#if BACKWARD
/* A tap's phase, as the taps of all phases before it and its own, and its number there. */
typedef struct {
    long before, count, number;
} mx_packed_tap;

NOINLINE mx_packed_tap packed_tap(const mx_conv_problem *p, long tap)
{
    mx_taps taps[3];
    long number[3];
    for (int axis = 2; axis >= 0; axis--) {
        const long t = tap % p->w.len[2 + axis], stride = p->step[axis];
        tap /= p->w.len[2 + axis];
        /* A place that sees this tap: place + pad = t dilation, up to strides. */
        const long place = (t * p->dilation[axis] % stride + stride - p->pad[axis] % stride) % stride;
        taps[axis] = taps_of(p, axis, place);
        number[axis] = 0;
        for (long u = 0; u < t; u++)
            number[axis] += (t - u) * p->dilation[axis] % stride == 0;
    }
    const mx_packed_tap packed = {
        taps[0].before * p->w.len[3] * p->w.len[4]
            + taps[0].count * (taps[1].before * p->w.len[4] + taps[1].count * taps[2].before),
        taps[0].count * taps[1].count * taps[2].count,
        (number[0] * taps[1].count + number[1]) * taps[2].count + number[2],
    };
    return packed;
}
#endif

/* Elements of an array from `at` on, as many as there are of a vector's. */
NOINLINE vec load_end(__global const STORAGE(W_TYPE) *w, long at, long size)
{
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = at + i < size ? (ACC)LOAD(W_TYPE)(w, at + i) : (ACC)0;
    return MX_JOIN(vload, VEC)(0, lanes);
}

static inline vec load_filters(__global const STORAGE(W_TYPE) *w, long at, long size)
{
    return at + VEC <= size ? TO_VEC(VLOAD(W_TYPE)(w, at)) : load_end(w, at, size);
}

/* Write block i of a vector's rows. */
static inline void store_block(__global ACC *to, const vec *rows, int block, int i)
{
    const ACC *from = (const ACC *)rows + i * block;
#if VEC > 4
    if (block == 8) {
        vstore8(vload8(0, from), 0, to);
        return;
    }
#endif
    vstore4(vload4(0, from), 0, to);
}

/* Write VEC rows of one tap and channel, whose blocks have a stride of `depth` blocks; `blocks` of them. */
static inline void store_rows(__global ACC *to, vec rows, long depth, int blocks, int block)
{
    for (int i = 0; i < blocks; i++)
        store_block(to + i * depth * block, &rows, block, i);
}

/* What work-item `id` packs of a group. */
NOINLINE void pack_some(__global const STORAGE(W_TYPE) *restrict w, __global ACC *restrict packed,
                        const mx_conv_problem *p, int block, long id, long group)
{
    const long taps = p->w.len[2] * p->w.len[3] * p->w.len[4], size = p->w.len[0] * p->w.len[1] * taps;
    const long filters = p->w.len[0] / p->groups, channels = BACKWARD ? filters : p->w.len[1];
    const long rows = BACKWARD ? p->w.len[1] : filters, depth = channels * taps;
    const long row_blocks = (rows + block - 1) / block;
    packed += group * row_blocks * ELEMENTS(depth) * block;
    vec v[VEC];
#if BACKWARD
    /* All rows of a few channels: the filter is read in long runs. */
    const long c0 = id * PACKED_CHANNELS, c1 = min(c0 + PACKED_CHANNELS, channels);
    if (taps == 1) {
        for (long row = 0; row < rows; row += VEC) {
            const int blocks = (int)min((long)(VEC / block), row_blocks - row / block);
            for (long c = c0; c < c1; c++)
                store_rows(packed + (row / block * depth + c) * block,
                           load_filters(w, (group * filters + c) * rows + row, size), depth, blocks, block);
        }
        return;
    }
    for (long tap = 0; tap < taps; tap += VEC) {
        const int count = (int)min((long)VEC, taps - tap);
        long place[VEC], step[VEC];
        for (int j = 0; j < count; j++) {
            const mx_packed_tap to = packed_tap(p, tap + j);
            place[j] = (to.before * channels + to.number) * block;
            step[j] = to.count * block;
        }
        for (long row = 0; row < rows; row += VEC) {
            const int blocks = (int)min((long)(VEC / block), row_blocks - row / block);
            __global ACC *to = packed + row / block * depth * block;
            vec transposed[PACKED_CHANNELS * VEC];
            for (long c = c0; c < c1; c++) {
                const long from = (group * filters + c) * rows;
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    v[i] = load_filters(w, (from + min(row + i, rows - 1)) * taps + tap, size);
                transpose(v);
                for (int j = 0; j < count; j++)
                    transposed[j * PACKED_CHANNELS + c - c0] = v[j];
            }
            /* One run of memory after the other: at the same time they would want the same lines of the cache. */
            for (int i = 0; i < blocks; i++)
                for (int j = 0; j < count; j++)
                    for (long c = c0; c < c1; c++)
                        store_block(to + i * depth * block + place[j] + c * step[j],
                                    transposed + j * PACKED_CHANNELS + c - c0, block, i);
        }
    }
#else
    const long row = id * VEC, from = group * rows;
    const int blocks = (int)min((long)(VEC / block), row_blocks - row / block);
    packed += row / block * ELEMENTS(depth) * block;
    for (long k = 0; k < depth; k += VEC) {
        const int count = (int)min((long)VEC, depth - k);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            v[i] = load_filters(w, (from + min(row + i, rows - 1)) * depth + k, size);
        transpose(v);
#if MX_INTEGER_ACC
        for (int j = 0; j < count; j += 2)
            store_rows(packed + (k + j) / 2 * block, PAIR(v[j], j + 1 < count ? v[j + 1] : (vec)0), ELEMENTS(depth), blocks,
                       block);
#else
        for (int j = 0; j < count; j++)
            store_rows(packed + (k + j) * block, v[j], depth, blocks, block);
#endif
    }
#endif
}


__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pack_filters(
    __global const STORAGE(W_TYPE) *restrict w, long w_offset,
    __global ACC *restrict packed, long packed_offset, const mx_conv_problem p, long block)
{
    pack_some(w + w_offset, packed + packed_offset, &p, (int)block, get_group_id(0), get_group_id(1));
}

#endif
#if KERNELS & 2

DEFINE_LONG_SUMS(vec)

#define WIDTH (VEC * ALL_VECTORS) /* positions of a work-item */
/* Vectors that tiles are multiples of: lines of the cache that are stored whole. */
#define LINE_VECTORS (64 / (int)sizeof(vec))
#define UNIT (ALL_VECTORS % LINE_VECTORS == 0 ? LINE_VECTORS : 1)
#define FAR (-(1 << 30))        /* a coordinate outside of any image */

/* What the positions of a tile see: the coordinates of each one's place in the input for a tap that moves by nothing,
 * and pieces of a vector that are contiguous there. */
typedef struct {
    LANE d[WIDTH], h[WIDTH], w[WIDTH];
    int pieces[ALL_VECTORS + 1];   /* those of vector j are pieces[j] ... pieces[j + 1] - 1 */
    int lanes[WIDTH];              /* of a piece, a bit each */
    long at[WIDTH];                /* where its vector's lane 0 would be */
    int runs, run_at[WIDTH], run_length[WIDTH]; /* contiguous elements of the output */
    long run_to[WIDTH];
} mx_tile;

#define ALL_LANES ((1 << VEC) - 1)
#define AXIS_TAPS 16 /* taps of an axis whose lanes are looked up */
#define FEW 8        /* below so many channels, packing one channel after the other takes less time than one tap */

/* One bit for each lane. */
static inline lane_mask lane_bits(void)
{
    const LANE bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
    return MX_JOIN(vload, VEC)(0, bits);
}

/* The lanes of a vector that are inside of an axis for a tap, as bits. */
static inline int lanes_inside(const LANE *coordinates, long moved, long length)
{
    const lane_mask at = MX_JOIN(vload, VEC)(0, coordinates) + (LANE)moved;
    const lane_mask bits = (at >= 0) & (at < (LANE)length) & lane_bits();
#if VEC == 16
    const MX_JOIN(LANE, 8) b8 = bits.lo | bits.hi;
    const MX_JOIN(LANE, 4) b4 = b8.lo | b8.hi;
#elif VEC == 8
    const MX_JOIN(LANE, 4) b4 = bits.lo | bits.hi;
#else
    const MX_JOIN(LANE, 4) b4 = bits;
#endif
    return (int)(b4.s0 | b4.s1 | b4.s2 | b4.s3);
}

/* What the taps of a block see. */
typedef struct {
    int count;
    long moved[K_BLOCK], least, most; /* how far each moves a place, and the bounds of that */
    int inside[K_BLOCK * ALL_VECTORS]; /* the lanes of each vector that it leaves in the tensor, a bit each */
} mx_tap_block;

/* `count` taps from `from` on. */
NOINLINE void set_tap_block(mx_tap_block *restrict s, const mx_tile *restrict t, int used,
                            const mx_tensor *restrict x, long from, int count, mx_taps d, mx_taps h, mx_taps w)
{
    int in_d[ALL_VECTORS], in_h[ALL_VECTORS], in_w[AXIS_TAPS * ALL_VECTORS];
    for (int i = 0; i < min(w.count, (long)AXIS_TAPS); i++)
        for (int j = 0; j < used; j++)
            in_w[i * ALL_VECTORS + j] = lanes_inside(t->w + j * VEC, w.first + i * w.step, x->len[4]);
    long i_w = from % w.count, i_h = from / w.count % h.count, i_d = from / w.count / h.count;
    s->count = count;
    for (int k = 0; k < count; k++) {
        const long at_d = d.first + i_d * d.step, at_h = h.first + i_h * h.step, at_w = w.first + i_w * w.step;
        const long moved = (at_d * x->len[3] + at_h) * x->len[4] + at_w;
        s->moved[k] = moved;
        s->least = k == 0 ? moved : min(s->least, moved);
        s->most = k == 0 ? moved : max(s->most, moved);
        for (int j = 0; j < used; j++) {
            if (k == 0 || (i_w == 0 && i_h == 0))
                in_d[j] = lanes_inside(t->d + j * VEC, at_d, x->len[2]);
            if (k == 0 || i_w == 0)
                in_h[j] = in_d[j] & lanes_inside(t->h + j * VEC, at_h, x->len[3]);
            s->inside[k * ALL_VECTORS + j] = in_h[j] & (i_w < AXIS_TAPS ? in_w[i_w * ALL_VECTORS + j]
                                                      : lanes_inside(t->w + j * VEC, at_w, x->len[4]));
        }
        if (++i_w == w.count) {
            i_w = 0;
            if (++i_h == h.count) {
                i_h = 0;
                i_d++;
            }
        }
    }
}

/* `count` channels of VEC places in the input, from `at` on at a stride of `step`, into every `row`-th vector.  Lanes
 * that are not in `keep` become 0, or what they were. */
#define FILL(STEP_LOAD)                                                      \
    if (all)                                                                 \
        for (long c = from; c < to; c++)                                     \
            panel[c * row] = STEP_LOAD(at + c * plane);                      \
    else if (first)                                                          \
        for (long c = from; c < to; c++)                                     \
            panel[c * row] = keep ? STEP_LOAD(at + c * plane) : (vec)((ACC)0); \
    else                                                                     \
        for (long c = from; c < to; c++)                                     \
            panel[c * row] = keep ? STEP_LOAD(at + c * plane) : panel[c * row];

static inline vec load_even(__global const STORAGE(IN_TYPE) *in, long at)
{
    return (vec)(LOAD_IN(at).even, LOAD_IN(at + VEC).even);
}
#define LOAD_EVEN(at) load_even(in, at)

static inline void fill_lanes(vec *restrict panel, long row, __global const STORAGE(IN_TYPE) *restrict in, long at,
                              long plane, long from, long to, lane_mask keep, bool first, long step)
{
    LANE kept[VEC];
    MX_JOIN(vstore, VEC)(keep, 0, kept);
    for (long c = from; c < to; c++) {
        ACC *lanes = (ACC *)(panel + c * row);
        for (int i = 0; i < VEC; i++)
            if (kept[i])
                lanes[i] = (ACC)LOAD(IN_TYPE)(in, at + c * plane + i * step);
            else if (first)
                lanes[i] = 0;
    }
}

static inline void fill(vec *restrict panel, long row, __global const STORAGE(IN_TYPE) *restrict in, long at,
                        long plane, long count, long size, lane_mask keep, bool all, bool first, long step)
{
    /* Lanes that are not kept may be outside the tensor: of the first and last channels of all. */
    const long span = step * VEC;
    long from = 0, to = step <= 2 ? count : 0;
    if (at < 0)
        from = min((plane - 1 - at) / plane, to);
    if (at + (count - 1) * plane + span > size)
        to = min(max((size - span - at + plane) / plane, from), to);
    if (from > 0)
        fill_lanes(panel, row, in, at, plane, 0, from, keep, first, step);
    if (step == 1) {
        FILL(LOAD_IN)
    } else {
        FILL(LOAD_EVEN)
    }
    if (to < count)
        fill_lanes(panel, row, in, at, plane, to, count, keep, first, step);
}

/* A piece of a vector, all taps of a channel after the other; places that the lanes not kept see are in the tensor. */
#define FILL_TAPS(STEP_LOAD, OTHER)                                              \
    for (long c = 0; c < count; c++, at += plane)                                \
        for (int k = 0; k < s->count; k++, panel += ALL_VECTORS)                 \
            if ((piece & inside[k * ALL_VECTORS]) == ALL_LANES)                  \
                *panel = STEP_LOAD(at + s->moved[k]);                            \
            else {                                                               \
                const lane_mask keep = (lanes & (LANE)inside[k * ALL_VECTORS]) != 0; \
                *panel = keep ? STEP_LOAD(at + s->moved[k]) : OTHER;             \
            }

static inline void fill_taps(vec *restrict panel, const mx_tap_block *restrict s, const int *restrict inside, int piece,
                             __global const STORAGE(IN_TYPE) *restrict in, long at, long plane, long count, bool first,
                             long step)
{
    const lane_mask lanes = lane_bits() & (LANE)piece;
    if (step == 1) {
        if (first)
            FILL_TAPS(LOAD_IN, (vec)((ACC)0))
        else
            FILL_TAPS(LOAD_IN, *panel)
    } else if (first)
        FILL_TAPS(LOAD_EVEN, (vec)((ACC)0))
    else
        FILL_TAPS(LOAD_EVEN, *panel)
}

/* `count` channels, from that at `from` on, of a block of taps. */
NOINLINE void pack_panel(vec *restrict panel, const mx_tile *restrict t, const mx_tap_block *restrict s, int used,
                         __global const STORAGE(IN_TYPE) *restrict in, long from, long plane, long count, long size,
                         long step)
{
    const long row = s->count * ALL_VECTORS;
    for (int j = 0; j < used; j++) {
        bool first = true;
        for (int i = t->pieces[j]; i < t->pieces[j + 1]; i++, first = false) {
            const long at = from + t->at[i];
            if (s->count > 1 && count < FEW && step <= 2 && at + s->least >= 0
                && at + (count - 1) * plane + s->most + step * VEC <= size) {
                fill_taps(panel + j, s, s->inside + j, t->lanes[i], in, at, plane, count, first, step);
                continue;
            }
            for (int k = 0; k < s->count; k++) {
                const int keep = s->inside[k * ALL_VECTORS + j] & t->lanes[i];
                vec *to = panel + k * ALL_VECTORS + j;
                if (keep != 0)
                    fill(to, row, in, at + s->moved[k], plane, count, size, (lane_bits() & (LANE)keep) != 0,
                         keep == ALL_LANES, first, step);
                else if (first)
                    for (long c = 0; c < count; c++)
                        to[c * row] = (vec)((ACC)0);
            }
        }
    }
}

#if MX_INTEGER_ACC
/* Every other row of the panel joins the one before it. */
static inline void join_pairs(vec *restrict panel, int used, int rows)
{
    for (int k = 0; k < rows; k += 2)
        for (int j = 0; j < used; j++) {
            const vec low = panel[k * ALL_VECTORS + j];
            panel[k / 2 * ALL_VECTORS + j] = PAIR(low, k + 1 < rows ? panel[(k + 1) * ALL_VECTORS + j] : (vec)0);
        }
}
#endif

#define MOST_LINES 64
#define HIDING 4 /* tiles of rows that fetching takes no time beside */
#define FAR_APART (2048 / (int)sizeof(STORAGE(IN_TYPE))) /* elements of a channel; less is seen coming */

/* The lines of the cache that a channel of a tile is packed from, as offsets in the channel; returns how many there
 * are, of the first ones. */
NOINLINE int find_lines(int *restrict lines, const mx_tile *restrict t, const mx_tap_block *restrict s, int used,
                        long step)
{
    const int line = 64 / (int)sizeof(STORAGE(IN_TYPE));
    int count = 0;
    for (int k = 0; k < s->count; k++) {
        if (k > 0 && abs((int)(s->moved[k] - s->moved[k - 1])) < line)
            continue; /* a neighbour in the row */
        long last = LONG_MIN / 2;
        for (int i = 0; i < t->pieces[used]; i++)
            for (int l = 0; l < VEC * (int)step; l += line) {
                const long at = t->at[i] + l;
                if (at - last < line && at >= last)
                    continue;
                if (count == MOST_LINES)
                    return count;
                lines[count++] = (int)(at + s->moved[k] - t->at[0]);
                last = at;
            }
    }
    return count;
}

/* Brings in what `count` channels will be packed from: each is a place of its own, which no processor foresees. */
static inline void fetch_channels(__global const STORAGE(IN_TYPE) *in, long plane, long count,
                                  const int *restrict lines, int line_count)
{
    for (long c = 0; c < count; c++, in += plane)
        for (int i = 0; i < line_count; i++)
            MX_PREFETCH(in + lines[i], 0);
}

/* n contiguous elements of the output. */
static inline void store_run(__global STORAGE(OUT_TYPE) *restrict out, const ACC *restrict sums, int n,
                             EPILOGUE_PARAMS, bool stream)
{
    int i = 0;
#if !MX_INTEGER_ACC
    if (beta == 0) {
        if (stream && BEFORE_STREAM(out) == 0)
            for (; i + VEC <= n; i += VEC)
                VSTREAM(OUT_TYPE)(out, i, FINAL_RESULT(SCALED_RESULT(MX_JOIN(vload, VEC)(0, sums + i))));
        for (; i + VEC <= n; i += VEC)
            VSTORE(OUT_TYPE)(out, i, FINAL_RESULT(SCALED_RESULT(MX_JOIN(vload, VEC)(0, sums + i))));
        if (n >= VEC && i < n) { /* some elements twice */
            VSTORE(OUT_TYPE)(out, n - VEC,
                             FINAL_RESULT(SCALED_RESULT(MX_JOIN(vload, VEC)(0, sums + n - VEC))));
            return;
        }
    } else {
#define WITH_OLD FINAL_RESULT(SCALED_RESULT(MX_JOIN(vload, VEC)(0, sums + i)) \
                              + (ACC)beta * TO_VEC(VLOAD(OUT_TYPE)(OLD_RESULT(OUT_TYPE, out), i)))
#ifdef FUSED_Z /* else what was read is in the caches */
        if (stream && BEFORE_STREAM(out) == 0)
            for (; i + VEC <= n; i += VEC)
                VSTREAM(OUT_TYPE)(out, i, WITH_OLD);
#endif
        for (; i + VEC <= n; i += VEC)
            VSTORE(OUT_TYPE)(out, i, WITH_OLD);
    }
#elif MX_TYPE(OUT_TYPE) == MX_TYPE_int32
    if (alpha == 1 && beta == 0)
        for (; i + VEC <= n; i += VEC)
            MX_JOIN(vstore, VEC)(MX_JOIN(vload, VEC)(0, sums + i), 0, out + i);
#endif
    for (; i < n; i++)
        STORE_ONE(OUT_TYPE, out, i, sums[i]);
}

/* Rows of a tile; k is the first one's filter. */
NOINLINE void store_tile(__global STORAGE(OUT_TYPE) *restrict out, long plane, const vec *restrict sums, int rows,
                         const mx_tile *restrict t, int used, bool pairs, long k, EPILOGUE_PARAMS, bool stream)
{
    vec together[2 * ALL_VECTORS];
    for (int r = 0; r < rows; r++, out += plane, sums += ALL_VECTORS) {
        OF_FILTER(k + r)
        for (int j = 0; pairs && j < used; j++) {
            const vec a = sums[j], b = sums[ROWS * ALL_VECTORS + j];
            vec low, high;
            low.even = a.lo, low.odd = b.lo, high.even = a.hi, high.odd = b.hi;
            together[2 * j] = low, together[2 * j + 1] = high;
        }
        const ACC *result = (const ACC *)(pairs ? together : sums);
        for (int run = 0; run < t->runs; run++)
            store_run(out + t->run_to[run], result + t->run_at[run], t->run_length[run], EPILOGUE_ARGS, stream);
    }
}

/* What store_tile adds to its results: a row is a page of its own, which no processor foresees. */
NOINLINE void fetch_tile(__global const STORAGE(OUT_TYPE) *out, long plane, int rows, const mx_tile *restrict t,
                         EPILOGUE_PARAMS)
{
    for (int r = 0; r < rows; r++, out += plane)
        for (int run = 0; run < t->runs; run++)
            for (int i = 0; i < t->run_length[run]; i += 64 / (int)sizeof(*out))
                MX_PREFETCH(OLD_RESULT(OUT_TYPE, out) + t->run_to[run] + i, 0);
}

/* Find `lanes` positions from `position` on, in a grid q per image: where they read, and where they write, `phases`
 * elements each. */
NOINLINE void place_tile(mx_tile *restrict t, long position, int lanes, int used, const long *q,
                         const mx_tensor *restrict x, const mx_tensor *restrict y, const long *in_step,
                         const long *out_step, const long *place, int phases)
{
    const long x_h = x->len[4], x_d = x->len[3] * x_h, x_n = x->len[2] * x_d * x->len[1];
    const long y_h = y->len[4], y_d = y->len[3] * y_h, y_n = y->len[2] * y_d * y->len[1];
    long a[4];
    for (int i = 2; i >= 0; i--) {
        a[i] = position % q[i];
        position /= q[i];
    }
    const LANE ids[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const lane_mask id = MX_JOIN(vload, VEC)(0, ids);
    long n = position, last_at = 0;
    int piece = -1;
    t->runs = 0;
    for (int l = 0; l < lanes;) { /* what is in one row of the grid and in one vector */
        const int skip = l % VEC;
        const int some = (int)min(min((long)(VEC - skip), q[2] - a[2]), (long)(lanes - l));
        const long d = a[0] * in_step[0], h = a[1] * in_step[1], w = a[2] * in_step[2];
        const long at = n * x_n + d * x_d + h * x_h + w - skip * in_step[2];
        if (skip == 0)
            t->pieces[l / VEC] = piece + 1;
        if (skip == 0 || at != last_at) {
            t->lanes[++piece] = 0;
            t->at[piece] = at;
            last_at = at;
        }
        t->lanes[piece] |= ((1 << some) - 1) << skip;
        const lane_mask here = (id >= (LANE)skip) & (id < (LANE)(skip + some)), far = (lane_mask)((LANE)FAR);
        const lane_mask at_w = (lane_mask)((LANE)w) + (id - (LANE)skip) * (LANE)in_step[2];
#define PLACE(to, coordinate)                                                \
    MX_JOIN(vstore, VEC)(here ? coordinate : skip == 0 ? far : MX_JOIN(vload, VEC)(0, to), 0, to);
        PLACE(t->d + l - skip, (lane_mask)((LANE)d))
        PLACE(t->h + l - skip, (lane_mask)((LANE)h))
        PLACE(t->w + l - skip, at_w)

        const long out_w = a[2] * out_step[2] + place[2];
        long to = n * y_n + (a[0] * out_step[0] + place[0]) * y_d + (a[1] * out_step[1] + place[1]) * y_h + out_w;
        const int step = phases > 1 ? 1 : (int)min(out_step[2], 2L), last = t->runs - 1;
        int length = step > 1 ? 1 : (int)min((long)some * phases, y->len[4] - out_w);
        if (step == 1 && last >= 0 && t->run_to[last] + t->run_length[last] == to
            && t->run_at[last] + t->run_length[last] == l * phases)
            t->run_length[last] += length;
        else
            for (int r = 0; r < (step > 1 ? some : 1); r++, to += out_step[2]) {
                t->run_at[t->runs] = l * phases + r, t->run_length[t->runs] = length, t->run_to[t->runs] = to;
                t->runs++;
            }
        l += some;
        a[2] += some;
        for (int i = 2; i > 0 && a[i] == q[i]; i--) {
            a[i] = 0;
            a[i - 1]++;
        }
        if (a[0] == q[0]) {
            a[0] = 0;
            n++;
        }
    }
    t->pieces[used] = piece + 1;
}

/* The tile and the chunk of rows that number `id` of a group means. */
NOINLINE void convolve_tile(__global const STORAGE(IN_TYPE) *restrict in, __global const ACC *restrict a,
                            __global STORAGE(OUT_TYPE) *restrict out, const mx_conv_problem *p, long id, long group,
                            long tiles, long chunks, bool in_place, bool pairs, bool stream, EPILOGUE_PARAMS)
{
#if BACKWARD
    const mx_tensor *x = &p->y, *y = &p->x;
    const long channels = p->w.len[0] / p->groups, rows = p->w.len[1];
    long q[3], place[3], in_step[3] = {1, 1, 1}, out_step[3], phases[3];
    for (int i = 0; i < 3; i++) {
        out_step[i] = p->step[i];
        phases[i] = i == 2 && pairs ? 1 : min(p->step[i], y->len[2 + i]);
    }
    const long count = phases[0] * phases[1] * phases[2], phase = id % count;
    place[2] = phase % phases[2], place[1] = phase / phases[2] % phases[1], place[0] = phase / phases[2] / phases[1];
    for (int i = 0; i < 3; i++)
        q[i] = (y->len[2 + i] - place[i] + out_step[i] - 1) / out_step[i];
#else
    const mx_tensor *x = &p->x, *y = &p->y;
    const long channels = p->w.len[1], rows = p->w.len[0] / p->groups, count = 1;
    const long q[3] = {y->len[2], y->len[3], y->len[4]}, place[3] = {0, 0, 0};
    const long in_step[3] = {p->step[0], p->step[1], p->step[2]}, out_step[3] = {1, 1, 1};
#endif
    const long x_plane = x->len[2] * x->len[3] * x->len[4], y_plane = y->len[2] * y->len[3] * y->len[4];
    const long all_depth = ELEMENTS(p->w.len[2] * p->w.len[3] * p->w.len[4] * channels);
    const long row_blocks = (rows + ROWS - 1) / ROWS;
    const long tile = id / count % tiles, chunk = id / count / tiles;
    const long block0 = chunk * row_blocks / chunks, block1 = (chunk + 1) * row_blocks / chunks;
    const long positions = x->len[0] * q[0] * q[1] * q[2], vectors = (positions + VEC - 1) / VEC;
    const long units = (vectors + UNIT - 1) / UNIT, v0 = tile * units / tiles * UNIT;
    const int used = (int)(min((tile + 1) * units / tiles * UNIT, vectors) - v0), phases_together = pairs ? 2 : 1;
    if (used == 0)
        return;
    const int lanes = (int)min(positions - v0 * VEC, (long)used * VEC);
    const long size = x->len[0] * x->len[1] * x_plane - group * channels * x_plane;

    in += group * channels * x_plane;
    out += (group * rows + block0 * ROWS) * y_plane;
    a += (group * row_blocks + block0) * ROWS * all_depth;
    const long a_row = in_place ? all_depth : 1, a_step = in_place ? 1 : ROWS;
    mx_tile t;
    place_tile(&t, v0 * VEC, lanes, used, q, x, y, in_step, out_step, place, phases_together);

    vec panel[K_BLOCK * ALL_VECTORS], sums[MAX_ROWS * ALL_VECTORS], totals[MAX_ROWS * ALL_VECTORS * 3];
    for (int pair = 0; pair < phases_together; pair++) {
#if BACKWARD
        const mx_taps d = taps_of(p, 0, place[0]), h = taps_of(p, 1, place[1]), w = taps_of(p, 2, place[2] + pair);
#else
        const mx_taps d = {p->w.len[2], -p->pad[0], p->dilation[0], 0};
        const mx_taps h = {p->w.len[3], -p->pad[1], p->dilation[1], 0};
        const mx_taps w = {p->w.len[4], -p->pad[2], p->dilation[2], 0};
#endif
        const long before = d.before * p->w.len[3] * p->w.len[4]
                            + d.count * (h.before * p->w.len[4] + h.count * w.before);
        const long taps = d.count * h.count * w.count;
        /* A block is of some channels' taps, or some taps of one channel. */
        const long t_blocks = max((taps + K_BLOCK - 1) / K_BLOCK, 1L);
        /* int8: no element is in two blocks, so channels with an odd number of taps stay together by two. */
        const long unit = MX_INTEGER_ACC && taps % 2 != 0 ? 2 : 1, units = (channels + unit - 1) / unit;
        const long c_block = t_blocks > 1 ? 1 : K_BLOCK / max(taps, 1L) / unit * unit;
        const long c_blocks = (units * unit + c_block - 1) / c_block;
#define CHANNELS_BEFORE(i) min((i) * units / c_blocks * unit, channels)
        const long blocks = taps == 0 ? 1 : c_blocks * t_blocks;
        mx_tap_block tap_block;
        int lines[MOST_LINES], line_count = 0;
        long c0 = 0, t0 = 0, k0 = 0, terms = 0;
        int settled = 0;
        for (long block = 0; block < blocks; block++) {
            const long c1 = CHANNELS_BEFORE(block / t_blocks + 1);
            const long t1 = (block % t_blocks + 1) * taps / t_blocks, k1 = k0 + (c1 - c0) * (t1 - t0);
            if (taps > 0) {
                if (block == 0 || t_blocks > 1)
                    set_tap_block(&tap_block, &t, used, x, t0, (int)(t1 - t0), d, h, w);
                if (block == 0 && t_blocks == 1 && channels >= FEW && block1 - block0 >= HIDING && x_plane >= FAR_APART)
                    line_count = find_lines(lines, &t, &tap_block, used, in_step[2]);
                pack_panel(panel, &t, &tap_block, used, in, c0 * x_plane, x_plane, c1 - c0, size, in_step[2]);
#if MX_INTEGER_ACC
                join_pairs(panel, used, (int)(k1 - k0));
#endif
            }
            const bool last = block + 1 == blocks && pair + 1 == phases_together;
            const bool settles = !MX_INTEGER_ACC && terms > 0 && terms + k1 - k0 > BLOCK_TERMS;
            terms = settles ? k1 - k0 : terms + k1 - k0;
            /* The next block's channels, or, at the end, those of the tile beside, which whoever has this one
             * mostly takes next. */
            const bool nothing = line_count == 0 || (block + 1 == blocks && !last);
            const long all = nothing ? 0 : last ? c_block : CHANNELS_BEFORE(block + 2) - c1;
            const long share = (all + block1 - block0 - 1) / (block1 - block0);
            __global const STORAGE(IN_TYPE) *next = in + t.at[0];
            next += last ? (long)used * VEC * in_step[2] : c1 * x_plane;
            long fetched = 0;
            for (long i = block0; i < block1; i++) {
                if (fetched < all) {
                    fetch_channels(next + fetched * x_plane, x_plane, min(share, all - fetched), lines, line_count);
                    fetched += share;
                }
                vec *s = sums + (i - block0) * ROWS * phases_together * ALL_VECTORS;
                const long at = ((i - block0) * phases_together + pair) * ROWS * ALL_VECTORS;
                if (settles)
                    settle(settled, sums + at, totals + 3 * at, ROWS * ALL_VECTORS);
                if (last && beta != 0)
                    fetch_tile(out + (i - block0) * ROWS * y_plane, y_plane, (int)min((long)ROWS, rows - i * ROWS), &t,
                               EPILOGUE_ARGS);
                for (int j = 0; j < used; j += N_VECTORS)
                    multiply(min(used - j, N_VECTORS), block > 0, sums + at + j,
                             a + (i - block0) * ROWS * all_depth + (before * channels + ELEMENTS(k0)) * a_step, a_row,
                             a_step, panel + j, ELEMENTS(k1 - k0));
                if (block + 1 == blocks && settled + settles > 0)
                    complete(settled + settles, sums + at, totals + 3 * at, ROWS * ALL_VECTORS);
                if (!last)
                    continue;
                store_tile(out + (i - block0) * ROWS * y_plane, y_plane, s, (int)min((long)ROWS, rows - i * ROWS), &t,
                           used, pairs, group * rows + i * ROWS, EPILOGUE_ARGS, stream);
            }
            settled += settles;
            k0 = k1;
            t0 = t1 == taps ? 0 : t1;
            c0 = t0 == 0 ? c1 : c0;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void convolve(
    __global const STORAGE(IN_TYPE) *restrict in, long in_offset,
    __global const ACC *restrict a, long a_offset,
    __global STORAGE(OUT_TYPE) *restrict out, long out_offset,
    const mx_conv_problem p, long tiles, long chunks, long in_place, long pairs, long stream, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(out, out_offset);
    convolve_tile(in + in_offset, a + a_offset, out + out_offset, &p, get_group_id(0), get_group_id(1), tiles, chunks,
                  in_place != 0, pairs != 0, stream != 0, EPILOGUE_ARGS);
}

#endif
