/* Depthwise convolutions of tensors with contiguous rows on CPU devices, read without a copy:
 * y = alpha * x w + beta * y, or dx from dy.
 *
 * Shape: two spatial axes, R x S taps, rows not dilated.  STEP 1: any pads, columns dilated or not.  STEP 2: no
 * dilation; backward data: an odd filter, R == S, with pads of R / 2.
 * Grid: local (1, 1, 1), global (tiles of rows, sets of channels, images).
 *
 *     w ->  VEC lanes                A work-item: tile_h rows of `together` channels, TALL rows x VEC columns at a
 *       TALL rows of sums            time, so that a row of the input is loaded once for all of them.
 *
 * Elements outside the input are zeros, and those are multiplied too.
 * Memory: no local memory; the filter as grouped_pack.cl writes it, or w itself.
 * Bound by: loads of x, unaligned ones for most taps; memory where images are large.
 */
#define MODE ROWS
#include "conv/cpu/depthwise.h"

#if SPREAD == 2
#define COLUMNS_READ (VEC + HALF)
#else
#define COLUMNS_READ (STEP * VEC + (S - 1) * dilation)
#endif
#define SUMS (TALL * SPREAD * SPREAD)

/* The vector of row u that starts v columns behind the tile's first; at the tensor's edge, with zeros for what is
 * outside. */
#define GET_INNER(u, v) READ(x, (u) * x_h + (v))
#define GET_EDGE(u, v) (row_bits >> (u) & 1 ? keep ? READ(x, (u) * x_h + (v)) : (vec)((ACC)0) : (vec)((ACC)0))
#define KEEP_ALL(v)
#define KEEP_INSIDE(v) \
    const lanes_t keep = LANE_NUMBERS >= (lanes_t)(-left - (v)) && LANE_NUMBERS < (lanes_t)(width - left - (v));

#if STEP == 1
/* A loop over columns of taps, or the compiler loads everything first and has no registers left. */
#define SUM_TILE(GET, KEEP)                                                  \
    _Pragma("unroll 1") for (int v = 0; v < S; v++) {                        \
        vec in_rows[ROWS_READ];                                              \
        KEEP(v * dilation)                                                   \
        _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++)                \
            in_rows[u] = GET(u, v * dilation);                               \
        _Pragma("unroll") for (int r = 0; r < R; r++) {                      \
            const vec tap = (vec)(w[TAP(r, v)]);                             \
            _Pragma("unroll") for (int j = 0; j < TALL; j++)                 \
                s[j] += in_rows[j + r] * tap;                                \
        }                                                                    \
    }
#elif !BACKWARD
/* Even columns meet one tap, odd ones the next; a row is done with before the next one is loaded. */
#define SUM_TAPS(GET, KEEP, v, both)                                         \
    _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++) {                  \
        vec even, odd;                                                       \
        {                                                                    \
            KEEP(v)                                                          \
            const vec a = GET(u, v);                                         \
            even.lo = a.even;                                                \
            odd.lo = a.odd;                                                  \
        }                                                                    \
        {                                                                    \
            KEEP((v) + VEC)                                                  \
            const vec a = GET(u, (v) + VEC);                                 \
            even.hi = a.even;                                                \
            odd.hi = a.odd;                                                  \
        }                                                                    \
        _Pragma("unroll") for (int j = 0; j < TALL; j++) {                   \
            const int r = u - 2 * j;                                         \
            if (r >= 0 && r < R) {                                           \
                s[j] += even * (vec)(w[TAP(r, v)]);                          \
                if (both)                                                    \
                    s[j] += odd * (vec)(w[TAP(r, (v) + 1)]);                 \
            }                                                                \
        }                                                                    \
    }
#define SUM_TILE(GET, KEEP)                                                  \
    _Pragma("unroll 1") for (int v = 0; v + 1 < S; v += 2) {                 \
        SUM_TAPS(GET, KEEP, v, 1)                                            \
    }                                                                        \
    if (S % 2) {                                                             \
        SUM_TAPS(GET, KEEP, S - 1, 0)                                        \
    }
#else
#define SUM_TILE(GET, KEEP)                                                                         \
    _Pragma("unroll") for (int v = 0; v <= HALF; v++) {                                             \
        KEEP(v)                                                                                     \
        _Pragma("unroll") for (int u = 0; u < ROWS_READ; u++) {                                     \
            const vec dy = GET(u, v);                                                               \
            _Pragma("unroll") for (int j = 0; j < 2 * TALL; j++)                                    \
                _Pragma("unroll") for (int b = 0; b < 2; b++) {                                     \
                    const int r = j + HALF - 2 * (u - HALF / 2), c = b + HALF - 2 * (v - HALF / 2); \
                    if (r >= 0 && r < R && c >= 0 && c < S)                                         \
                        s[2 * j + b] += dy * (vec)(w[TAP(r, c)]);                                   \
                }                                                                                   \
        }                                                                                           \
    }
#endif

/* The same where vectors would reach beyond the tensor, element by element, in the same order. */
NOINLINE vec load_lanes(__global const STORAGE(X_TYPE) *p, int column, int width)
{
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++) {
        const int c = column + i * (STEP / SPREAD);
        lanes[i] = c >= 0 && c < width ? (ACC)LOAD(X_TYPE)(p, i * (STEP / SPREAD)) : (ACC)0;
    }
    return VGET(0, lanes);
}

NOINLINE void sum_outside(__global const STORAGE(X_TYPE) *x, __global const ACC *w, long x_h, int row_bits,
                          int left, int width, int dilation, vec *s)
{
    for (int j = 0; j < TALL * SPREAD; j++)
        for (int b = 0; b < SPREAD; b++) {
            vec sum = (vec)((ACC)0);
#if SPREAD == 2
            for (int k = S - 1; k >= 0; k--)
                for (int i = R - 1; i >= 0; i--) {
                    if ((j + HALF - i) % 2 != 0 || (b + HALF - k) % 2 != 0)
                        continue;
                    const int u = (j + HALF - i) / 2 + HALF / 2, v = (b + HALF - k) / 2 + HALF / 2;
#else
            for (int pair = 0; pair < S; pair += STEP)
                for (int n = 0; n < R * STEP; n++) {
                    const int i = n / STEP, k = pair + n % STEP, u = j * STEP + i, v = k * dilation;
                    if (k >= S)
                        continue;
#endif
                    if (row_bits >> u & 1)
                        sum += load_lanes(x + u * x_h + v, left + v, width) * (vec)(w[TAP(i, k)]);
                }
            s[j * SPREAD + b] = sum;
        }
}

NOINLINE void compute_tile(__global const STORAGE(X_TYPE) *restrict in, __global const ACC *restrict filters,
                           __global STORAGE(X_TYPE) *restrict out, const mx_grouped *grouped, int tile, int set,
                           int image, EPILOGUE_PARAMS)
{
    const mx_grouped g = *grouped;
    const int first = set * g.together, end = min(first + g.together, g.groups), begin = tile * g.tile_h;
    const int rows = min(begin + g.tile_h, g.grid_h), width = g.input.width, dilation = g.dilation[2];
    const int out_rows = min(rows * SPREAD, g.output.height);
    const long x_h = g.input.h, y_h = g.output.h;
    /* Behind a row, what follows it may be written if it is written again. */
    const bool dense = beta == 0 && y_h == g.output.width, whole = dense && out_rows == g.output.height && begin == 0
        && g.output.c == y_h * g.output.height;
    const bool shift = beta == 0 && g.grid_w >= VEC && g.output.width == SPREAD * g.grid_w;
    for (int c = first; c < end; c++) {
        OF_FILTER(c)
        __global const ACC *w = filters + (long)c * R * S;
        const long base = image * g.input.n + c * g.input.c;
        __global STORAGE(X_TYPE) *plane = out + image * g.output.n + c * g.output.c;
        const long room = whole ? (end - c) * g.output.c : dense ? out_rows * y_h : 0;
        for (int t = begin; t < rows; t += TALL) {
            const int top = t * (STEP / SPREAD) + g.first_h + g.least_h;
            const int from = max(top, 0), to = min(top + ROWS_READ, g.input.height);
            const int row_bits = to <= from ? 0 : ((1 << (to - top)) - 1) & ~((1 << (from - top)) - 1);
            for (int p = (g.grid_w - 1) / VEC * VEC; p >= 0; p -= VEC) {
                const int q = shift ? min(p, g.grid_w - VEC) : p;
                const int left = q * (STEP / SPREAD) + g.first_w + g.least_w;
                const long at = base + top * x_h + left;
                __global const STORAGE(X_TYPE) *x = in + at;
                vec s[SUMS];
#pragma unroll
                for (int j = 0; j < SUMS; j++)
                    s[j] = (vec)((ACC)0);
                if (row_bits == ALL_ROWS && left >= 0 && left + COLUMNS_READ <= width) {
                    SUM_TILE(GET_INNER, KEEP_ALL)
                } else if (base + from * x_h + left >= 0
                           && base + (to - 1) * x_h + left + COLUMNS_READ <= g.input.span) {
                    SUM_TILE(GET_EDGE, KEEP_INSIDE)
                } else {
                    vec sums[SUMS];
                    sum_outside(x, w, x_h, row_bits, left, width, dilation, sums);
#pragma unroll
                    for (int j = 0; j < SUMS; j++)
                        s[j] = sums[j];
                }
                const int count = min(SPREAD * VEC, g.output.width - q * SPREAD);
#pragma unroll
                for (int j = 0; j < TALL * SPREAD; j++) {
                    const int row = t * SPREAD + j;
                    if (row >= out_rows)
                        break;
                    const long behind = row * y_h + q * SPREAD;
                    __global STORAGE(X_TYPE) *y = plane + behind;
                    const bool full = count == SPREAD * VEC || room - behind >= SPREAD * VEC;
#if SPREAD == 1
                    if (full)
                        store_vector(y, s[j], EPILOGUE_ARGS);
                    else
                        store_lanes(y, s[j], count, EPILOGUE_ARGS);
#else
                    const vec even = s[2 * j], odd = s[2 * j + 1];
                    vec lo, hi;
                    lo.even = even.lo;
                    lo.odd = odd.lo;
                    hi.even = even.hi;
                    hi.odd = odd.hi;
                    if (full) {
                        store_vector(y, lo, EPILOGUE_ARGS);
                        store_vector(y + VEC, hi, EPILOGUE_ARGS);
                    } else {
                        store_lanes(y, lo, min(count, VEC), EPILOGUE_ARGS);
                        if (count > VEC)
                            store_lanes(y + VEC, hi, count - VEC, EPILOGUE_ARGS);
                    }
#endif
                }
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_rows(
    __global const STORAGE(X_TYPE) *restrict in, long in_offset, __global const ACC *restrict filters, long w_offset,
    __global STORAGE(X_TYPE) *restrict out, long out_offset, const mx_grouped g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(out, out_offset);
    compute_tile(in + in_offset, filters + w_offset, out + out_offset, &g, (int)get_group_id(0), (int)get_group_id(1),
                 (int)get_group_id(2), EPILOGUE_ARGS);
}
