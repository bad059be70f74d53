/* Implicit GEMM for CPU devices: convolutions forward and backward data of packed NCHW, NCW and NCDHW tensors.
 *
 * out[n, row, position] = alpha * sum of filter[row, tap, channel] * in[n, channel, position moved by the tap] + beta *
 * out.  Forward in is x, out is y, rows are filters; backward data in is dy, out is dx, rows are the channels of x.
 * Backward data with strides is one dense convolution a phase: outputs that lie a stride apart see the same taps, and
 * see them next to each other in dy.
 *
 * Shape: any filter, stride, dilation, padding, groups.  Inf and NaN of `in` reach only outputs that depend on them; a
 * filter's Inf or NaN meets the zeros of the padding.
 * pack_filters puts the filter in the order in which it is used, in ACC: [group][row / ROWS][phase][channel / C_BLOCK]
 * [tap of the phase][channel % C_BLOCK][row % ROWS].  The last block of channels is as large as is left; rows of the
 * last block that do not exist are any number.
 *     NDRange: local (1, 1, 1), global (rows of a group / VEC, groups, 1), rounded up.
 * convolve computes a chunk of rows of N_VECTORS vectors of positions, which are numbered through all images.  It packs
 * what they see, a block of the taps and channels at a time, and multiplies it by the rows.
 *     NDRange: local (1, 1, 1), global (phases * tiles * chunks, groups, 1); tiles is the number of vectors of the
 *     first phase's positions divided by N_VECTORS, rounded up, and chunks has at most MAX_ROWS rows each, in blocks of
 *     ROWS.
 * Tuning: C_BLOCK changes the order of the sums, no other definition a bit of the results.
 * Nothing outside of the tensors is read.
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
#ifndef PARTS /* what to build: 1 pack_filters, 2 convolve, 3 both */
#define PARTS 3
#endif
#ifndef BACKWARD /* 1 backward data */
#define BACKWARD 0
#endif
#ifndef PAIRS /* 1: backward data with stride 2 along the rows, where the two phases along them are stored together */
#define PAIRS 0
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
#ifndef MAX_ROWS /* of a work-item */
#define MAX_ROWS 256
#endif
#ifndef C_BLOCK /* channels that a tap has in a row: a block of all taps is written to a core's first cache */
#define C_BLOCK 32
#endif
#ifndef K_BLOCK /* taps and channels that are packed at a time */
#define K_BLOCK 256
#endif
#include "common.h"

#if !MX_IS_STORAGE(IN_TYPE) || !MX_IS_STORAGE(W_TYPE) || !MX_IS_STORAGE(OUT_TYPE)
#error "IN_TYPE, W_TYPE and OUT_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif
#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#if ROWS < 1 || VEC % ROWS != 0 || MAX_ROWS % ROWS != 0 || K_BLOCK < 1
#error "ROWS, MAX_ROWS or K_BLOCK out of range"
#endif

#include "conv_cpu_tile.h"

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
static inline mx_taps taps_of(const mx_conv_problem *p, int axis, long place)
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

/* A tap's phase, as the taps of all phases before it and its own, and its number there. */
typedef struct {
    long before, count, number;
} mx_packed_tap;

static inline mx_packed_tap packed_tap(const mx_conv_problem *p, long tap)
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
#else
static inline mx_taps taps_of(const mx_conv_problem *p, int axis, long place)
{
    const mx_taps taps = {p->w.len[2 + axis], -p->pad[axis], p->dilation[axis], 0};
    return taps;
}
#endif

#if PARTS & 1
#include "conv_cpu_transpose.h"

/* Elements of an array from `at` on, as many as there are of a vector's. */
static inline vec load_filters(__global const STORAGE(W_TYPE) *w, long at, long size)
{
    if (at + VEC <= size)
        return TO_VEC(VLOAD(W_TYPE)(w, at));
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = at + i < size ? (ACC)LOAD(W_TYPE)(w, at + i) : (ACC)0;
    return MX_JOIN(vload, VEC)(0, lanes);
}

/* Write VEC rows of one tap and channel, which begin `depth` blocks of ROWS apart; those of `blocks` blocks. */
static inline void store_rows(__global ACC *to, vec rows, long depth, int blocks)
{
    for (int i = 0; i < VEC / ROWS; i++)
        if (i < blocks)
            MX_JOIN(vstore, ROWS)(MX_JOIN(vload, ROWS)(i, (const ACC *)&rows), 0, to + i * depth * ROWS);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pack_filters(
    __global const STORAGE(W_TYPE) *restrict w, long w_offset,
    __global ACC *restrict packed, long packed_offset, const mx_conv_problem p)
{
    const long taps = p.w.len[2] * p.w.len[3] * p.w.len[4], size = p.w.len[0] * p.w.len[1] * taps;
    const long filters = p.w.len[0] / p.groups, channels = BACKWARD ? filters : p.w.len[1];
    const long rows = BACKWARD ? p.w.len[1] : filters, depth = channels * taps;
    const long row_blocks = (rows + ROWS - 1) / ROWS, row = (long)get_group_id(0) * VEC, group = get_group_id(1);
    const int blocks = (int)min((long)(VEC / ROWS), row_blocks - row / ROWS);
    w += w_offset;
    packed += packed_offset + (group * row_blocks + row / ROWS) * depth * ROWS;
    vec v[VEC];
#if BACKWARD
    if (taps == 1) {
        for (long c = 0; c < channels; c++)
            store_rows(packed + c * ROWS, load_filters(w, (group * filters + c) * rows + row, size), depth, blocks);
        return;
    }
    for (long c0 = 0; c0 < channels; c0 += C_BLOCK) {
        const long some = min(channels - c0, (long)C_BLOCK);
        for (long tap = 0; tap < taps; tap += VEC) {
            const int count = (int)min((long)VEC, taps - tap);
            long place[VEC];
            for (int j = 0; j < count; j++) {
                const mx_packed_tap to = packed_tap(&p, tap + j);
                place[j] = (to.before * channels + to.count * c0 + to.number * some) * ROWS;
            }
            for (long c = 0; c < some; c++) {
                const long from = (group * filters + c0 + c) * rows;
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    v[i] = load_filters(w, (from + min(row + i, rows - 1)) * taps + tap, size);
                transpose(v);
                for (int j = 0; j < count; j++)
                    store_rows(packed + place[j] + c * ROWS, v[j], depth, blocks);
            }
        }
    }
#else
    const long from = group * rows;
    for (long k = 0; k < depth; k += VEC) {
        const int count = (int)min((long)VEC, depth - k);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            v[i] = load_filters(w, (from + min(row + i, rows - 1)) * depth + k, size);
        transpose(v);
        long tap = k % taps, c = k / taps, c0 = c / C_BLOCK * C_BLOCK, some = min(channels - c0, (long)C_BLOCK);
        for (int j = 0; j < count; j++) {
            store_rows(packed + (c0 * taps + tap * some + c - c0) * ROWS, v[j], depth, blocks);
            if (++tap < taps)
                continue;
            tap = 0;
            if (++c == c0 + C_BLOCK) {
                c0 = c;
                some = min(channels - c0, (long)C_BLOCK);
            }
        }
    }
#endif
}

#endif
#if PARTS & 2

TILE_MULTIPLY(multiply, __global, ACC, TILE_PLAIN, __private)

/* Functions that are not inlined keep their vectors out of the registers that the sums are in. */
#define APART __attribute__((noinline)) static

#define WIDTH (VEC * N_VECTORS) /* positions of a tile */
#define PHASES (PAIRS + 1)      /* that a tile computes */
#define FAR (-(1 << 30))        /* a coordinate outside of any image */

/* What the positions of a tile see: the coordinates of each one's place in the input for a tap that moves by nothing,
 * and pieces of a vector that lie together there. */
typedef struct {
    LANE d[WIDTH], h[WIDTH], w[WIDTH];
    int pieces[N_VECTORS + 1];     /* those of vector j are pieces[j] ... pieces[j + 1] - 1 */
    int lanes[WIDTH];              /* of a piece, a bit each */
    long at[WIDTH];                /* where its vector's lane 0 would lie */
    int runs, run_at[WIDTH], run_length[WIDTH]; /* elements of the output that lie together, PHASES for each lane */
    long run_to[WIDTH];
} mx_tile;

#define ALL_LANES ((1 << VEC) - 1)
#define TABLE 16 /* taps of an axis whose lanes are kept */

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

static inline void make_table(int *restrict table, const LANE *restrict coordinates, mx_taps taps, long length,
                              int used)
{
    for (long i = 0; i < min(taps.count, (long)TABLE); i++)
        for (int j = 0; j < used; j++)
            table[i * N_VECTORS + j] = lanes_inside(coordinates + j * VEC, taps.first + i * taps.step, length);
}

static inline int looked_up(const int *table, const LANE *coordinates, mx_taps taps, long length, long tap, int j)
{
    return tap < TABLE ? table[tap * N_VECTORS + j]
                       : lanes_inside(coordinates + j * VEC, taps.first + tap * taps.step, length);
}

/* `count` channels of VEC places in the input that lie STEP apart from `at` on, into one vector of each row of a panel.
 * Lanes that are not in `keep` become 0, or what they were. */
#define FILL(STEP_LOAD)                                                      \
    if (all)                                                                 \
        for (long c = from; c < to; c++)                                     \
            panel[c * N_VECTORS] = STEP_LOAD(at + c * plane);                \
    else if (first)                                                          \
        for (long c = from; c < to; c++)                                     \
            panel[c * N_VECTORS] = keep ? STEP_LOAD(at + c * plane) : (vec)((ACC)0); \
    else                                                                     \
        for (long c = from; c < to; c++)                                     \
            panel[c * N_VECTORS] = keep ? STEP_LOAD(at + c * plane) : panel[c * N_VECTORS];

static inline vec load_even(__global const STORAGE(IN_TYPE) *in, long at)
{
    return (vec)(LOAD_IN(at).even, LOAD_IN(at + VEC).even);
}
#define LOAD_EVEN(at) load_even(in, at)

static inline void fill_lanes(vec *restrict panel, __global const STORAGE(IN_TYPE) *restrict in, long at, long plane,
                              long from, long to, lane_mask keep, bool first, long step)
{
    LANE kept[VEC];
    MX_JOIN(vstore, VEC)(keep, 0, kept);
    for (long c = from; c < to; c++) {
        ACC *lanes = (ACC *)(panel + c * N_VECTORS);
        for (int i = 0; i < VEC; i++)
            if (kept[i])
                lanes[i] = (ACC)LOAD(IN_TYPE)(in, at + c * plane + i * step);
            else if (first)
                lanes[i] = 0;
    }
}

static inline void fill(vec *restrict panel, __global const STORAGE(IN_TYPE) *restrict in, long at, long plane,
                        long count, long size, lane_mask keep, bool all, bool first, long step)
{
    /* Lanes that are not kept may lie outside of the tensor: of the first and last channels of all. */
    const long span = step * VEC;
    long from = 0, to = step <= 2 ? count : 0;
    if (at < 0)
        from = min((plane - 1 - at) / plane, to);
    if (at + (count - 1) * plane + span > size)
        to = min(max((size - span - at + plane) / plane, from), to);
    if (from > 0)
        fill_lanes(panel, in, at, plane, 0, from, keep, first, step);
    if (step == 1) {
        FILL(LOAD_IN)
    } else {
        FILL(LOAD_EVEN)
    }
    if (to < count)
        fill_lanes(panel, in, at, plane, to, count, keep, first, step);
}

/* One tap, which moves by `moved` elements, of `count` channels; of vector j the lanes inside[j] are in the tensor. */
APART void pack_tap(
    vec *restrict panel, const mx_tile *restrict t, int used, const int *restrict inside,
    __global const STORAGE(IN_TYPE) *restrict in, long moved, long plane, long count, long size, long step)
{
    for (int j = 0; j < used; j++) {
        bool first = true;
        for (int i = t->pieces[j]; i < t->pieces[j + 1]; i++) {
            const int keep = inside[j] & t->lanes[i];
            if (keep == 0)
                continue;
            const lane_mask mask = (lane_bits() & (LANE)keep) != 0;
            fill(panel + j, in, t->at[i] + moved, plane, count, size, mask, keep == ALL_LANES, first, step);
            first = false;
        }
        if (first)
            for (long c = 0; c < count; c++)
                panel[c * N_VECTORS + j] = (vec)((ACC)0);
    }
}

/* n elements of the output that lie together. */
APART void store_run(__global STORAGE(OUT_TYPE) *restrict out, const ACC *restrict sums, int n, const SCALAR alpha,
                     const SCALAR beta)
{
    int i = 0;
#if !MX_INTEGER_ACC
    if (beta == 0) {
        for (; i + VEC <= n; i += VEC)
            VSTORE(OUT_TYPE)(out, i, (ACC)alpha * MX_JOIN(vload, VEC)(0, sums + i));
        if (n >= VEC && i < n) { /* some elements twice */
            VSTORE(OUT_TYPE)(out, n - VEC, (ACC)alpha * MX_JOIN(vload, VEC)(0, sums + n - VEC));
            return;
        }
    } else
        for (; i + VEC <= n; i += VEC)
            VSTORE(OUT_TYPE)(out, i, (ACC)alpha * MX_JOIN(vload, VEC)(0, sums + i)
                                     + (ACC)beta * TO_VEC(VLOAD(OUT_TYPE)(out, i)));
#endif
    for (; i < n; i++)
        STORE_MIXED(OUT_TYPE, out, i, sums[i], alpha, beta);
}

/* Find `lanes` positions from `position` on, in a grid q per image: where they read and where they write. */
APART void place_tile(mx_tile *restrict t, long position, int lanes, int used, const long *q,
                      const mx_tensor *restrict x, const mx_tensor *restrict y, const long *in_step,
                      const long *out_step, const long *place)
{
    const long x_h = x->len[4], x_d = x->len[3] * x_h, x_n = x->len[2] * x_d * x->len[1];
    const long y_h = y->len[4], y_d = y->len[3] * y_h, y_n = y->len[2] * y_d * y->len[1];
    long a[4];
    for (int i = 2; i >= 0; i--) {
        a[i] = position % q[i];
        position /= q[i];
    }
    long n = position, at = 0, last_at = 0;
    int piece = -1;
    t->runs = 0;
    for (int l = 0; l < used * VEC; l++) {
        if (l < lanes) {
            const long d = a[0] * in_step[0], h = a[1] * in_step[1], w = a[2] * in_step[2];
            t->d[l] = (LANE)d, t->h[l] = (LANE)h, t->w[l] = (LANE)w;
            at = n * x_n + d * x_d + h * x_h + w - l % VEC * in_step[2];
            const long out_w = a[2] * out_step[2] + place[2];
            const long to = n * y_n + (a[0] * out_step[0] + place[0]) * y_d + (a[1] * out_step[1] + place[1]) * y_h
                            + out_w;
            const int length = PAIRS && out_w + 1 < y->len[4] ? 2 : 1, r = t->runs - 1;
            if (r >= 0 && t->run_to[r] + t->run_length[r] == to && t->run_at[r] + t->run_length[r] == l * PHASES)
                t->run_length[r] += length;
            else {
                t->run_at[r + 1] = l * PHASES, t->run_length[r + 1] = length, t->run_to[r + 1] = to;
                t->runs++;
            }
            a[2]++;
            for (int i = 2; i > 0 && a[i] == q[i]; i--) {
                a[i] = 0;
                a[i - 1]++;
            }
            if (a[0] == q[0]) {
                a[0] = 0;
                n++;
            }
        } else
            t->d[l] = t->h[l] = t->w[l] = FAR;
        if (l % VEC == 0 || (l < lanes && at != last_at)) {
            if (l % VEC == 0)
                t->pieces[l / VEC] = piece + 1;
            piece++;
            t->lanes[piece] = 0;
            t->at[piece] = at;
        }
        t->lanes[piece] |= 1 << l % VEC;
        last_at = at;
    }
    t->pieces[used] = piece + 1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void convolve(
    __global const STORAGE(IN_TYPE) *restrict in, long in_offset,
    __global const ACC *restrict packed, long packed_offset,
    __global STORAGE(OUT_TYPE) *restrict out, long out_offset,
    const mx_conv_problem p, long tiles, long chunks, const SCALAR alpha, const SCALAR beta)
{
#if BACKWARD
    const mx_tensor *x = &p.y, *y = &p.x;
    const long channels = p.w.len[0] / p.groups, rows = p.w.len[1];
    long q[3], place[3], in_step[3] = {1, 1, 1}, out_step[3], phases[3];
    for (int i = 0; i < 3; i++) {
        out_step[i] = p.step[i];
        phases[i] = i == 2 && PAIRS ? 1 : min(p.step[i], y->len[2 + i]);
    }
    const long count = phases[0] * phases[1] * phases[2], phase = (long)get_group_id(0) % count;
    place[2] = phase % phases[2], place[1] = phase / phases[2] % phases[1], place[0] = phase / phases[2] / phases[1];
    for (int i = 0; i < 3; i++)
        q[i] = (y->len[2 + i] - place[i] + out_step[i] - 1) / out_step[i];
#else
    const mx_tensor *x = &p.x, *y = &p.y;
    const long channels = p.w.len[1], rows = p.w.len[0] / p.groups, count = 1;
    const long q[3] = {y->len[2], y->len[3], y->len[4]}, place[3] = {0, 0, 0};
    const long in_step[3] = {p.step[0], p.step[1], p.step[2]}, out_step[3] = {1, 1, 1};
#endif
    const long x_plane = x->len[2] * x->len[3] * x->len[4], y_plane = y->len[2] * y->len[3] * y->len[4];
    const long all_taps = p.w.len[2] * p.w.len[3] * p.w.len[4];
    const long row_blocks = (rows + ROWS - 1) / ROWS, group = get_group_id(1);
    const long tile = (long)get_group_id(0) / count % tiles, chunk = (long)get_group_id(0) / count / tiles;
    const long block0 = chunk * row_blocks / chunks, block1 = (chunk + 1) * row_blocks / chunks;
    const long positions = x->len[0] * q[0] * q[1] * q[2], vectors = (positions + VEC - 1) / VEC;
    const long v0 = tile * vectors / tiles;
    const int used = (int)((tile + 1) * vectors / tiles - v0);
    if (used == 0)
        return;
    const int lanes = (int)min(positions - v0 * VEC, (long)used * VEC);
    const long size = x->len[0] * x->len[1] * x_plane - group * channels * x_plane;

    in += in_offset + group * channels * x_plane;
    out += out_offset + (group * rows + block0 * ROWS) * y_plane;
    packed += packed_offset + (group * row_blocks + block0) * all_taps * channels * ROWS;
    mx_tile t;
    place_tile(&t, v0 * VEC, lanes, used, q, x, y, in_step, out_step, place);

    vec panel[K_BLOCK * N_VECTORS], sums[MAX_ROWS * PHASES * N_VECTORS];
    for (int pair = 0; pair < PHASES; pair++) {
        const mx_taps d = taps_of(&p, 0, place[0]), h = taps_of(&p, 1, place[1]), w = taps_of(&p, 2, place[2] + pair);
        const long before = d.before * p.w.len[3] * p.w.len[4]
                            + d.count * (h.before * p.w.len[4] + h.count * w.before);
        const long taps = d.count * h.count * w.count, depth = taps * channels;
        const long blocks = max((depth + K_BLOCK - 1) / K_BLOCK, 1L);
        int table_d[TABLE * N_VECTORS], table_h[TABLE * N_VECTORS], table_w[TABLE * N_VECTORS];
        make_table(table_d, t.d, d, x->len[2], used);
        make_table(table_h, t.h, h, x->len[3], used);
        make_table(table_w, t.w, w, x->len[4], used);
        const long c_block = taps == 1 ? channels : C_BLOCK; /* of one tap, all blocks make one */
        long c0 = 0, tap = 0, c = 0, here = min(channels, c_block);
        for (long block = 0; block < blocks; block++) {
            const long k0 = block * depth / blocks, k1 = (block + 1) * depth / blocks;
            for (long k = k0; k < k1;) {
                const long some = min(here - c, k1 - k);
                const long tap_d = tap / w.count / h.count, tap_h = tap / w.count % h.count, tap_w = tap % w.count;
                const long at = ((d.first + tap_d * d.step) * x->len[3] + h.first + tap_h * h.step) * x->len[4]
                                + w.first + tap_w * w.step;
                int inside[N_VECTORS];
                for (int j = 0; j < used; j++)
                    inside[j] = looked_up(table_d, t.d, d, x->len[2], tap_d, j)
                                & looked_up(table_h, t.h, h, x->len[3], tap_h, j)
                                & looked_up(table_w, t.w, w, x->len[4], tap_w, j);
                pack_tap(panel + (k - k0) * N_VECTORS, &t, used, inside, in, (c0 + c) * x_plane + at, x_plane, some,
                         size, in_step[2]);
                k += some;
                c += some;
                if (c < here)
                    continue;
                c = 0;
                if (++tap == taps) {
                    tap = 0;
                    c0 += here;
                    here = min(channels - c0, c_block);
                }
            }
            const bool last = block + 1 == blocks && pair + 1 == PHASES;
            for (long i = block0; i < block1; i++) {
                vec *s = sums + (i - block0) * ROWS * PHASES * N_VECTORS;
                multiply(used, block > 0, s + pair * ROWS * N_VECTORS,
                         packed + (((i - block0) * all_taps + before) * channels + k0) * ROWS, panel, k1 - k0);
                if (!last)
                    continue;
                for (long r = 0; r < min((long)ROWS, rows - i * ROWS); r++) {
#if PAIRS
                    vec together[2 * N_VECTORS];
                    for (int j = 0; j < used; j++) {
                        const vec a = s[r * N_VECTORS + j], b = s[(ROWS + r) * N_VECTORS + j];
                        vec low, high;
                        low.even = a.lo, low.odd = b.lo, high.even = a.hi, high.odd = b.hi;
                        together[2 * j] = low, together[2 * j + 1] = high;
                    }
                    const ACC *result = (const ACC *)together;
#else
                    const ACC *result = (const ACC *)(s + r * N_VECTORS);
#endif
                    for (int run = 0; run < t.runs; run++)
                        store_run(out + ((i - block0) * ROWS + r) * y_plane + t.run_to[run], result + t.run_at[run],
                                  t.run_length[run], alpha, beta);
                }
            }
        }
    }
}

#endif
