/* Forward convolutions of few channels for CPU devices: packed NCHW, NCW and NCDHW tensors, no groups.
 *
 *     y[n, k, pixel] = alpha * sum over (c, tap) of filter[k, c, tap] * x[n, c, pixel at tap] + beta * y
 *
 * Few channels are not worth a panel for each tile of pixels.  So x is padded once, and each row is split into its
 * columns by their remainder modulo the stride along w: what neighbouring outputs see of a tap are then neighbours,
 * and products take it from there.
 *
 *     split: (rows of a padded image / SPLIT_ROWS, c, n)
 *       x -> [n][c][d][h][phase][pitch] of ACC, column step_w * i + phase of the padded row at i; 0 outside of x
 *     multiply: (rows of an image's output / rows, n, 1)
 *       A work-item: `rows` rows of the output, N_VECTORS at most, all filters.  Tiles are ROWS filters x N_VECTORS
 *       vectors in registers; vectors are numbered through its rows, each is of one row.  The filter is as
 *       conv/cpu/implicit.cl packs it forward, [k / ROWS][c][tap][k % ROWS] of ACC.
 *
 * Grid: local (1, 1, 1).
 * Shape: any filter of BLOCK_TERMS products, stride, dilation, padding.  Inf and NaN of x reach only outputs that depend
 * on them; a filter's Inf or NaN meets the zeros of the padding.
 * Memory: no local memory; sums are private.  A row is so long that what the lanes behind the last output see is in it.
 * With `stream` results go past the caches where beta is 0.
 * Sums are taken over channels and, in each, taps in order, by one accumulator.
 * Bound by: multiply-adds; storing where the filter is small.
 */
#ifndef IN_TYPE /* storage types: half, float, double or bfloat16 */
#define IN_TYPE float
#endif
#ifndef OUT_TYPE
#define OUT_TYPE IN_TYPE
#endif
#ifndef ACC /* type of products and sums */
#define ACC float
#endif
#ifndef VEC /* ACC elements in a vector, 4, 8 or 16 */
#define VEC 8
#endif
#ifndef ROWS /* filters of a tile */
#define ROWS 4
#endif
#ifndef N_VECTORS /* vectors side by side in a tile */
#define N_VECTORS 3
#endif
#ifndef TILES /* that are stored together: runs of whole lines of the cache, which memory takes much faster */
#define TILES 4
#endif
#define STREAM 1 /* where `stream` says so */
#include "include/common.h"
#include "include/epilogue.h"
#include "conv/cpu/register_tile.h"

#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif

typedef MX_JOIN(ACC, VEC) vec;
#define ALL_VECTORS (TILES * N_VECTORS)
#define LOAD_VEC MX_JOIN(vload, VEC)
#define STORE_VEC MX_JOIN(vstore, VEC)
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOAD_IN(at) TO_VEC(VLOAD(IN_TYPE)(from, at))
#define SPLIT_ROWS 8

/* A padded image as it is split. */
typedef struct {
    long depth, height; /* rows that outputs see */
    long phases, pitch; /* remainders, columns of each */
    long row, plane;    /* elements */
} mx_split;

static inline long seen(const mx_conv_problem *p, int axis)
{
    return (p->y.len[2 + axis] - 1) * p->step[axis] + (p->w.len[2 + axis] - 1) * p->dilation[axis] + 1;
}

static inline mx_split split_of(const mx_conv_problem *p)
{
    const long reach = (p->w.len[4] - 1) * p->dilation[2], vectors = (p->y.len[4] + VEC - 1) / VEC;
    mx_split s;
    s.depth = seen(p, 0), s.height = seen(p, 1);
    s.phases = p->step[2], s.pitch = vectors * VEC + reach / p->step[2];
    s.row = s.phases * s.pitch, s.plane = s.depth * s.height * s.row;
    return s;
}

/* Columns begin, begin + step, ... of a row of x, of which there are `width`, to `count` elements. */
NOINLINE void split_row(__global ACC *restrict to, __global const STORAGE(IN_TYPE) *restrict from, long width,
                        long begin, long step, long count)
{
    const long first = begin < 0 ? min((step - 1 - begin) / step, count) : 0;
    const long end = max(first, width > begin ? min((width - begin + step - 1) / step, count) : 0);
    long i = first;
    for (long j = 0; j < first; j++)
        to[j] = 0;
    if (step == 1)
        for (; i + VEC <= end; i += VEC)
            STORE_VEC(LOAD_IN(begin + i), 0, to + i);
    else if (step == 2)
        for (; i + VEC <= end && begin + 2 * (i + VEC) <= width; i += VEC) {
            const long at = begin + 2 * i;
            STORE_VEC((vec)(LOAD_IN(at).even, LOAD_IN(at + VEC).even), 0, to + i);
        }
    for (; i < end; i++)
        to[i] = (ACC)LOAD(IN_TYPE)(from, begin + i * step);
    for (; i < count; i++)
        to[i] = 0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void split(
    __global const STORAGE(IN_TYPE) *restrict x, long x_offset, __global ACC *restrict columns, long columns_offset,
    const mx_conv_problem p)
{
    const mx_split s = split_of(&p);
    const long first = get_group_id(0) * SPLIT_ROWS, end = min(first + SPLIT_ROWS, s.depth * s.height);
    const long image = get_group_id(2) * p.x.len[1] + get_group_id(1), width = p.x.len[4];
    x += x_offset + image * p.x.len[2] * p.x.len[3] * width;
    columns += columns_offset + image * s.plane + first * s.row;
    for (long row = first; row < end; row++) {
        const long d = row / s.height - p.pad[0], h = row % s.height - p.pad[1];
        const bool inside = d >= 0 && d < p.x.len[2] && h >= 0 && h < p.x.len[3];
        for (long phase = 0; phase < s.phases; phase++, columns += s.pitch)
            split_row(columns, x + (inside ? (d * p.x.len[3] + h) * width : 0), inside ? width : 0,
                      phase - p.pad[2], p.step[2], s.pitch);
    }
}

/* A tile: what the vectors see of tap k begins taps[k] behind `at`. */
NOINLINE void multiply_tile(vec *restrict sums, __global const ACC *restrict a, __global const ACC *restrict columns,
                            const int *restrict at, const int *restrict taps, int depth)
{
    __global const ACC *from[N_VECTORS];
    vec s[ROWS][N_VECTORS];
#pragma unroll
    for (int j = 0; j < N_VECTORS; j++)
        from[j] = columns + at[j];
    FOR_TILE(ROWS, N_VECTORS, s[i][j] = (vec)((ACC)0);)
    for (int k = 0; k < depth; k++, a += ROWS) {
        const long tap = taps[k];
        vec b[N_VECTORS];
#pragma unroll
        for (int j = 0; j < N_VECTORS; j++)
            b[j] = LOAD_VEC(0, from[j] + tap);
        OUTER_PRODUCT(ROWS, N_VECTORS, s, a[i], b[j])
    }
    FOR_TILE(ROWS, N_VECTORS, sums[i * ALL_VECTORS + j] = s[i][j];)
}

/* The first `lanes` elements of a vector. */
static inline void store_vector(__global STORAGE(OUT_TYPE) *restrict y, vec sum, int lanes, EPILOGUE_PARAMS)
{
    if (lanes == VEC) {
        vec v = SCALED_RESULT(sum);
        if (beta != 0)
            v += (ACC)beta * TO_VEC(VLOAD(OUT_TYPE)(OLD_RESULT(OUT_TYPE, y), 0));
        VSTORE(OUT_TYPE)(y, 0, FINAL_RESULT(v));
        return;
    }
    ACC lane[VEC];
    STORE_VEC(sum, 0, lane);
    for (int i = 0; i < lanes; i++)
        STORE_ONE(OUT_TYPE, y, i, lane[i]);
}

/* Filters k to k + count of some tiles; with `whole` no vector is the end of a row, and all are neighbours. */
NOINLINE void store_tiles(__global STORAGE(OUT_TYPE) *restrict y, long plane, const vec *restrict sums, long k,
                          int count, const int *restrict to, const int *restrict lanes, int vectors, bool whole,
                          EPILOGUE_PARAMS, bool stream)
{
    for (int i = 0; i < count; i++, y += plane, sums += ALL_VECTORS) {
        OF_FILTER(k + i)
        if (whole && beta == 0) {
            __global STORAGE(OUT_TYPE) *run = y + to[0];
            if (stream && BEFORE_STREAM(run) == 0)
                for (int j = 0; j < vectors; j++)
                    VSTREAM(OUT_TYPE)(run, j * VEC, FINAL_RESULT(SCALED_RESULT(sums[j])));
            else
                for (int j = 0; j < vectors; j++)
                    VSTORE(OUT_TYPE)(run, j * VEC, FINAL_RESULT(SCALED_RESULT(sums[j])));
        } else
            for (int j = 0; j < vectors; j++)
                store_vector(y + to[j], sums[j], lanes[j], EPILOGUE_ARGS);
    }
}

/* Rows first to end of an image's output. */
NOINLINE void multiply_rows(__global const ACC *restrict columns, __global const ACC *restrict a,
                            __global STORAGE(OUT_TYPE) *restrict y, const mx_conv_problem *p, long first, long end,
                            EPILOGUE_PARAMS, bool stream)
{
    const mx_split s = split_of(p);
    const int width = (int)p->y.len[4];
    const long height = p->y.len[3], plane = p->y.len[2] * height * width;
    const int rows = (int)(end - first);
    int taps[BLOCK_TERMS], row_at[N_VECTORS], depth = 0;
    for (int row = 0; row < rows; row++)
        row_at[row] = (int)(((first + row) / height * p->step[0] * s.height + (first + row) % height * p->step[1])
                            * s.row);
    for (long c = 0; c < p->w.len[1]; c++)
        for (long z = 0; z < p->w.len[2]; z++)
            for (long r = 0; r < p->w.len[3]; r++) {
                const long row = (z * p->dilation[0] * s.height + r * p->dilation[1]) * s.row;
                for (long i = 0; i < p->w.len[4]; i++) {
                    const long column = i * p->dilation[2];
                    taps[depth++] = (int)(c * s.plane + row + column % p->step[2] * s.pitch + column / p->step[2]);
                }
            }
    y += first * width;
    for (long k = 0; k < p->w.len[0]; k += ROWS, y += ROWS * plane) {
        int row = 0, w = 0;
        while (row < rows) {
            vec sums[ROWS * ALL_VECTORS];
            int at[ALL_VECTORS], to[ALL_VECTORS], lanes[ALL_VECTORS], vectors = 0;
            bool whole = true;
            for (; vectors < ALL_VECTORS && row < rows; vectors++) {
                at[vectors] = row_at[row] + w;
                to[vectors] = row * width + w;
                lanes[vectors] = min(VEC, width - w);
                whole = whole && w + VEC <= width;
                w += VEC;
                if (w >= width)
                    w = 0, row++;
            }
            for (int j = vectors; j % N_VECTORS != 0; j++) /* the last one again, not stored */
                at[j] = at[j - 1];
            for (int j = 0; j < vectors; j += N_VECTORS)
                multiply_tile(sums + j, a + k * depth, columns, at + j, taps, depth);
            store_tiles(y, plane, sums, k, (int)min((long)ROWS, p->w.len[0] - k), to, lanes, vectors, whole,
                        EPILOGUE_ARGS, stream);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void multiply(
    __global const ACC *restrict columns, long columns_offset, __global const ACC *restrict a, long a_offset,
    __global STORAGE(OUT_TYPE) *restrict y, long y_offset, const mx_conv_problem p, long rows, long stream,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    const long first = get_group_id(0) * rows, n = get_group_id(1), plane = p.y.len[2] * p.y.len[3] * p.y.len[4];
    multiply_rows(columns + columns_offset + n * p.x.len[1] * split_of(&p).plane, a + a_offset,
                  y + y_offset + n * p.y.len[1] * plane, &p, first, min(first + rows, p.y.len[2] * p.y.len[3]),
                  EPILOGUE_ARGS, stream != 0);
}
