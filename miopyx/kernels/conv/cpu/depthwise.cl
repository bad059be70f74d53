/* Depthwise convolutions of tensors with channels last on CPU devices, read without a copy: y = alpha * x w + beta * y,
 * dx from dy, or partial sums of dw.
 *
 * Shape: one or two spatial axes, R x S taps, rows with stride STEP, not dilated; columns with any stride and dilation.
 * BACKWARD: backward data with strides of 1, a convolution of dy with the flipped filter; or with STEP 2 on both axes,
 * an odd filter, R == S, no dilation and pads of R / 2.
 * Grid: local (1, 1, 1).
 *
 *     c ->  VEC lanes                       depthwise_data: (tiles of rows, sets of vectors of channels, images)
 *       TALL rows x 1 column of sums,         a work-item: tile_h rows, all columns, `together` vectors
 *       one load of x serves all TALL       depthwise_weights: (sets of vectors of channels, splits)
 *                                             a work-item: R x S sums of each vector over a split's bands of rows
 *
 * Taps that meet padding at the left and right are left out; above and below it is zeros, which are multiplied too.
 * Memory: no local memory.  Filters come as conv/cpu/grouped_pack.cl writes them; conv/cpu/grouped_sum.cl adds the
 * splits of backward weights.
 * Bound by: loads of x, one for TALL multiply-adds at most; memory where images are large.
 */
#ifndef WEIGHTS /* build depthwise_weights, not depthwise_data */
#define WEIGHTS 0
#endif
#ifndef SUMS /* vectors of sums of backward weights */
#define SUMS 512
#endif
#define MODE CHANNELS
#include "conv/cpu/depthwise.h"

#if SPREAD == 2
#define COLUMNS_READ (HALF + 1)
#else
#define COLUMNS_READ S
#endif
#define ALL_COLUMNS ((1 << COLUMNS_READ) - 1)

/* Bits of the numbers i < count of which start + i * step is in [0, limit). */
static inline int bits_inside(int start, int step, int limit, int count)
{
    int bits = 0;
    for (int i = 0; i < count; i++)
        bits |= (start + i * step >= 0 && start + i * step < limit) << i;
    return bits;
}

#define GET_WHOLE(at) READ(x, at)
#define GET_SOME(at) load_whole(x + (at), room - (at))

#if !WEIGHTS
#if SPREAD == 2
/* s[2 * TALL][2] of one position: x is its first element of dy. */
#define SUM_COLUMN(GET)                                                                             \
    _Pragma("unroll") for (int v = 0; v < COLUMNS_READ; v++)                                        \
        if (column_bits >> v & 1) {                                                                 \
            _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++)                                   \
                if (row_bits >> u & 1) {                                                            \
                    const vec dy = GET(u * x_h + v * x_w);                                          \
                    _Pragma("unroll") for (int j = 0; j < 2 * TALL; j++)                            \
                        _Pragma("unroll") for (int b = 0; b < 2; b++) {                             \
                            const int r = j + HALF - 2 * (u - HALF / 2);                            \
                            const int k = b + HALF - 2 * (v - HALF / 2);                            \
                            if (r >= 0 && r < R && k >= 0 && k < S)                                 \
                                s[2 * j + b] += dy * *(__global const loose *)(w + TAP(r, k) * VEC); \
                        }                                                                           \
                }                                                                                   \
        }
#else
/* s[TALL] of one column: x is its first tap.  A loop over columns, or the compiler loads everything first and has no
 * registers left. */
#define SUM_COLUMN(GET, ROW_TEST, COLUMN_TEST)                                                      \
    _Pragma("unroll 1") for (int v = 0; v < S; v++)                                                 \
        if (COLUMN_TEST) {                                                                          \
            vec a[ROWS_READ];                                                                       \
            _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++)                                   \
                a[u] = (ROW_TEST) ? GET(u * x_h + v * x_w) : (vec)((ACC)0);                         \
            _Pragma("unroll") for (int r = 0; r < R; r++) {                                         \
                const vec tap = *(__global const loose *)(w + TAP(r, v) * VEC);                     \
                _Pragma("unroll") for (int j = 0; j < TALL; j++)                                    \
                    s[j] += a[j * STEP + r] * tap;                                                  \
            }                                                                                       \
        }
#endif

static inline void store_some(__global STORAGE(X_TYPE) *p, vec v, int count, EPILOGUE_PARAMS)
{
#ifdef EPILOGUE
    if (count < VEC) {
        STORE_FIRST(X_TYPE, p, v, count);
        return;
    }
#endif
    v = SCALED_RESULT(v);
    if (count == VEC) {
        if (beta != 0)
            v += (ACC)beta * READ(OLD_RESULT(X_TYPE, p), 0);
        WRITE(p, 0, FINAL_RESULT(v));
    } else {
        ACC lanes[VEC];
        VPUT(v, 0, lanes);
        for (int i = 0; i < count; i++)
            STORE_MIXED(X_TYPE, p, i, lanes[i], 1, beta);
    }
}

NOINLINE void compute_tile(__global const STORAGE(X_TYPE) *restrict in, __global const ACC *restrict packed,
                           __global STORAGE(X_TYPE) *restrict out, const mx_grouped *grouped, int tile, int set,
                           int image, EPILOGUE_PARAMS)
{
    const mx_grouped g = *grouped;
    const int first = set * g.together, end = min(first + g.together, g.groups), begin = tile * g.tile_h;
    const int rows = min(begin + g.tile_h, g.grid_h);
    const long x_h = g.input.h, x_w = g.input.w * g.dilation[2], y_h = g.output.h, y_w = g.output.w;
    out += image * g.output.n;
    for (int t = begin; t < rows; t += TALL) {
        const int top = t * (STEP / SPREAD) + g.first_h + g.least_h;
        const int height = min(TALL * SPREAD, g.output.height - t * SPREAD);
        const int row_bits = bits_inside(top, 1, g.input.height, ROWS_READ);
        for (int q = 0; q < g.grid_w; q++) {
#if SPREAD == 2
            const int left = q + g.least_w, pairs = min(2, g.output.width - 2 * q);
#else
            const int left = q * g.planes.step_w + g.first_w + g.least_w;
#endif
            const int column_bits = bits_inside(left, g.dilation[2], g.input.width, COLUMNS_READ);
            const long at = image * g.input.n + top * g.input.h + left * g.input.w;
            __global STORAGE(X_TYPE) *y = out + SPREAD * (t * y_h + q * y_w);
            for (int c = first; c < end; c++) {
                const int count = min(VEC, g.input.channels - c * VEC);
                OF_FILTERS((long)c * VEC, count)
                __global const ACC *w = packed + (long)c * R * S * VEC;
                __global const STORAGE(X_TYPE) *x = in + at + c * VEC;
                vec s[TALL * SPREAD * SPREAD];
#pragma unroll
                for (int j = 0; j < TALL * SPREAD * SPREAD; j++)
                    s[j] = (vec)((ACC)0);
#if SPREAD == 2
                if (count < VEC) {
                    const long room = g.input.span - at - c * VEC;
                    SUM_COLUMN(GET_SOME)
                } else {
                    SUM_COLUMN(GET_WHOLE)
                }
#pragma unroll
                for (int j = 0; j < 2 * TALL; j++)
#pragma unroll
                    for (int b = 0; b < 2; b++)
                        if (j < height && b < pairs)
                            store_some(y + j * y_h + b * y_w + c * VEC, s[2 * j + b], count, EPILOGUE_ARGS);
#else
                if (count < VEC) {
                    const long room = g.input.span - at - c * VEC;
                    SUM_COLUMN(GET_SOME, row_bits >> u & 1, column_bits >> v & 1)
                    for (int j = 0; j < height; j++)
                        store_some(y + j * y_h + c * VEC, s[j], count, EPILOGUE_ARGS);
                } else if (row_bits == ALL_ROWS && height == TALL) {
                    if (column_bits == ALL_COLUMNS) {
                        SUM_COLUMN(GET_WHOLE, 1, 1)
                    } else {
                        SUM_COLUMN(GET_WHOLE, 1, column_bits >> v & 1)
                    }
#pragma unroll
                    for (int j = 0; j < TALL; j++)
                        store_some(y + j * y_h + c * VEC, s[j], VEC, EPILOGUE_ARGS);
                } else {
                    SUM_COLUMN(GET_WHOLE, row_bits >> u & 1, column_bits >> v & 1)
#pragma unroll
                    for (int j = 0; j < TALL; j++)
                        if (j < height)
                            store_some(y + j * y_h + c * VEC, s[j], VEC, EPILOGUE_ARGS);
                }
#endif
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_data(
    __global const STORAGE(X_TYPE) *restrict in, long in_offset, __global const ACC *restrict packed, long w_offset,
    __global STORAGE(X_TYPE) *restrict out, long out_offset, const mx_grouped g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(out, out_offset);
    compute_tile(in + in_offset, packed + w_offset, out + out_offset, &g, (int)get_group_id(0), (int)get_group_id(1),
                 (int)get_group_id(2), EPILOGUE_ARGS);
}

#else
/* s[R][S] += what column q of TALL rows gives. */
#define ADD_COLUMN(ROW_TEST, COLUMN_TEST, HEIGHT_TEST, GET, GET_DY)                    \
    do {                                                                               \
        vec d[TALL];                                                                   \
        _Pragma("unroll") for (int j = 0; j < TALL; j++)                               \
            if (HEIGHT_TEST)                                                           \
                d[j] = GET_DY(j * y_h);                                                \
        _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++)                          \
            if (ROW_TEST) {                                                            \
                _Pragma("unroll") for (int v = 0; v < S; v++)                          \
                    if (COLUMN_TEST) {                                                 \
                        const vec a = GET(u * x_h + v * x_w);                          \
                        _Pragma("unroll") for (int j = 0; j < TALL; j++)               \
                            if (u >= j * STEP && u < j * STEP + R && (HEIGHT_TEST))    \
                                s[(u - j * STEP) * S + v] += a * d[j];                 \
                    }                                                                  \
            }                                                                          \
    } while (0)
DEFINE_LONG_SUMS(vec)

#define GET_DY_WHOLE(at) READ(y, at)
#define GET_DY_SOME(at) load_whole(y + (at), room_y - (at))

NOINLINE void compute_split(__global const STORAGE(X_TYPE) *restrict in,
                            __global const STORAGE(X_TYPE) *restrict dy, __global ACC *restrict partial,
                            const mx_grouped *grouped, int images, int set, int split)
{
    const mx_grouped g = *grouped;
    vec sums[SUMS], totals[SUMS * 3];
    const int first = set * g.together, end = min(first + g.together, g.groups);
    const long x_h = g.input.h, x_w = g.input.w * g.dilation[2], y_h = g.output.h, y_w = g.output.w;
    const int bands = (g.grid_h + TALL - 1) / TALL;
    /* Long rows are cut into pieces. */
    const int piece = min(g.grid_w, BLOCK_TERMS / TALL), pieces = (g.grid_w + piece - 1) / piece;
    const long units = (long)images * bands * pieces;
    int terms = 0;
    int settled = 0;
    for (int i = 0; i < (end - first) * R * S; i++)
        sums[i] = (vec)((ACC)0);
    for (long unit = units * split / g.splits; unit < units * (split + 1) / g.splits; unit++) {
        const long band = unit / pieces;
        const int image = (int)(band / bands), t = (int)(band % bands) * TALL, height = min(TALL, g.grid_h - t);
        const int top = t * STEP + g.least_h, row_bits = bits_inside(top, 1, g.input.height, ROWS_READ);
        const int q0 = (int)(unit % pieces) * piece, q1 = min(q0 + piece, g.grid_w);
        if (terms > 0 && terms + (q1 - q0) * TALL > BLOCK_TERMS) {
            settle(settled, sums, totals, (end - first) * R * S);
            settled++;
            terms = 0;
        }
        terms += (q1 - q0) * TALL;
        for (int c = first; c < end; c++) {
            const int count = min(VEC, g.input.channels - c * VEC);
            vec s[R * S], *sum = sums + (c - first) * R * S;
#pragma unroll
            for (int i = 0; i < R * S; i++)
                s[i] = sum[i];
            for (int q = q0; q < q1; q++) {
                const int left = q * g.planes.step_w + g.least_w;
                const int column_bits = left >= 0 && left + (S - 1) * g.dilation[2] < g.input.width
                    ? ALL_COLUMNS : bits_inside(left, g.dilation[2], g.input.width, S);
                const long at = image * g.input.n + top * g.input.h + left * g.input.w + c * VEC;
                const long at_y = image * g.output.n + t * y_h + q * y_w + c * VEC;
                __global const STORAGE(X_TYPE) *x = in + at, *y = dy + at_y;
                if (count < VEC) {
                    const long room = g.input.span - at, room_y = g.output.span - at_y;
                    ADD_COLUMN(row_bits >> u & 1, column_bits >> v & 1, j < height, GET_SOME, GET_DY_SOME);
                } else if (row_bits == ALL_ROWS && column_bits == ALL_COLUMNS && height == TALL) {
                    ADD_COLUMN(1, 1, 1, GET_WHOLE, GET_DY_WHOLE);
                } else {
                    ADD_COLUMN(row_bits >> u & 1, column_bits >> v & 1, j < height, GET_WHOLE, GET_DY_WHOLE);
                }
            }
#pragma unroll
            for (int i = 0; i < R * S; i++)
                sum[i] = s[i];
        }
    }
    if (settled > 0)
        complete(settled, sums, totals, (end - first) * R * S);
    partial += ((long)split * g.groups + first) * R * S * VEC;
    for (int i = 0; i < (end - first) * R * S; i++)
        *(__global loose *)(partial + (long)i * VEC) = sums[i];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_weights(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict dy,
    long dy_offset, __global ACC *restrict partial, long partial_offset, const mx_grouped g, int images)
{
    compute_split(x + x_offset, dy + dy_offset, partial + partial_offset, &g, images, (int)get_group_id(0),
                 (int)get_group_id(1));
}
#endif
