/* A group's tile of a matrix product on GPUs, from slices of both factors in local memory; after include/common.h.
 *
 * A group of SIDE x SIDE work-items owns SIDE * EACH_M rows by SIDE * EACH_N columns of the result, a work-item every
 * SIDE-th row and column of it.  Slices are DEPTH long, in DEPTH * (A_PITCH + B_PITCH) elements of ACC.
 */
#ifndef SIDE /* work-items along each side of a tile, a power of two */
#define SIDE 16
#endif
#ifndef EACH_M /* rows of a work-item, a power of two up to SIDE */
#define EACH_M 4
#endif
#ifndef EACH_N /* columns of a work-item, a power of two up to SIDE */
#define EACH_N 4
#endif
#ifndef DEPTH /* of the slices that are in local memory at a time: a power of two, SIDE / EACH_* to SIDE^2 */
#define DEPTH 16
#endif

#include "include/group_inline.h"

#define ITEMS (SIDE * SIDE)
#define ROWS (SIDE * EACH_M)
#define COLUMNS (SIDE * EACH_N)
#if ITEMS % ROWS || ITEMS % COLUMNS || ITEMS % DEPTH || ROWS * DEPTH % ITEMS || COLUMNS * DEPTH % ITEMS
#error "SIDE, EACH_M, EACH_N and DEPTH do not go together"
#endif
/* One more than a power of two, so that writing a slice along k meets every bank. */
#define A_PITCH (ROWS + 1)
#define B_PITCH (COLUMNS + 1)

static inline void clear_tile(ACC sums[EACH_M][EACH_N])
{
    for (int i = 0; i < EACH_M; i++)
        for (int j = 0; j < EACH_N; j++)
            sums[i][j] = 0;
}

/* Sums of more than BLOCK_TERMS terms, where LONG_SUMS is 1: a tile of totals and what they round away.  They take
 * registers, so programs for shorter sums do without them. */
#ifndef LONG_SUMS
#define LONG_SUMS 0
#endif
#if LONG_SUMS
#define TILE_OF_TOTALS ACC totals[EACH_M][EACH_N], rests[EACH_M][EACH_N]; clear_tile(totals); clear_tile(rests)
#define SETTLE_TILE settle_tile(sums, totals, rests)
#define COMPLETE_TILE complete_tile(sums, totals, rests)
static inline void settle_tile(ACC sums[EACH_M][EACH_N], ACC totals[EACH_M][EACH_N], ACC rests[EACH_M][EACH_N])
{
#pragma unroll
    for (int i = 0; i < EACH_M; i++)
#pragma unroll
        for (int j = 0; j < EACH_N; j++) {
            MX_TWO_SUM(ACC, totals[i][j], rests[i][j], sums[i][j]);
            sums[i][j] = 0;
        }
}

static inline void complete_tile(ACC sums[EACH_M][EACH_N], ACC totals[EACH_M][EACH_N], ACC rests[EACH_M][EACH_N])
{
    settle_tile(sums, totals, rests);
#pragma unroll
    for (int i = 0; i < EACH_M; i++)
#pragma unroll
        for (int j = 0; j < EACH_N; j++)
            sums[i][j] = MX_TOTAL(totals[i][j], rests[i][j]);
}
#else
#define TILE_OF_TOTALS ((void)0)
#define SETTLE_TILE ((void)0)
#define COMPLETE_TILE ((void)0)
#endif

/* sums += the product of the slices, once all work-items have written theirs; then they may be written again. */
GROUP_INLINE void add_product(ACC sums[EACH_M][EACH_N], __local const ACC *a_slice, __local const ACC *b_slice,
                               int row, int column)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < DEPTH; k++) {
        ACC a[EACH_M], b[EACH_N];
#pragma unroll
        for (int i = 0; i < EACH_M; i++)
            a[i] = a_slice[k * A_PITCH + row + i * SIDE];
#pragma unroll
        for (int j = 0; j < EACH_N; j++)
            b[j] = b_slice[k * B_PITCH + column + j * SIDE];
#pragma unroll
        for (int i = 0; i < EACH_M; i++)
#pragma unroll
            for (int j = 0; j < EACH_N; j++)
                sums[i][j] += a[i] * b[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
