/* Matrix products for GPUs: C[m,n] = alpha * sum over k of A[m,k] * B[k,n] + beta * C[m,n], batched.
 *
 * Shape: any m, n, k, any strides, batches and `reduce` (mx_gemm in conv/gemm_args.h).
 * Grid: one axis, since GPUs limit the others: local SIDE * SIDE, global SIDE * SIDE * tiles, tiles =
 * ceil(n / columns) * ceil(m / rows) * groups * images.
 *
 *         n ->  columns = SIDE * EACH_N
 *       +-----------------------+     A work-group: one tile; a work-item: every SIDE-th row and column of it.
 *     m |  rows = SIDE * EACH_M |     K-slices of DEPTH go through local memory.
 *       +-----------------------+
 *
 * Sums run over all of k and `reduce` in one fixed order, which no size changes.
 * Memory: DEPTH * (SIDE * EACH_M + 1 + SIDE * EACH_N + 1) elements of ACC in local memory.
 * Parameters: those of include/gpu_tile.h; storage types of include/common.h.
 * Bound by: reads of local memory, (EACH_M + EACH_N) for EACH_M * EACH_N multiply-adds; no tensor cores.
 */
#ifndef A_TYPE /* storage types */
#define A_TYPE float
#endif
#ifndef B_TYPE
#define B_TYPE A_TYPE
#endif
#ifndef C_TYPE
#define C_TYPE A_TYPE
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/gemm_args.h"
#include "include/gpu_tile.h"

#if !MX_IS_STORAGE(A_TYPE) || !MX_IS_STORAGE(B_TYPE) || !MX_IS_STORAGE(C_TYPE)
#error "A_TYPE, B_TYPE and C_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_tiled(
    __global const STORAGE(A_TYPE) *restrict A, long a_offset,
    __global const STORAGE(B_TYPE) *restrict B, long b_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gemm g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(C, c_offset);
    __local ACC a_slice[DEPTH * A_PITCH], b_slice[DEPTH * B_PITCH];
    const int item = get_local_id(0), column = item % SIDE, row = item / SIDE;
    const long across = (g.n + COLUMNS - 1) / COLUMNS, down = (g.m + ROWS - 1) / ROWS;
    long tile = get_group_id(0);
    const long n0 = tile % across * COLUMNS;
    tile /= across;
    const long m0 = tile % down * ROWS;
    tile /= down;
    const long group = tile % g.groups, image = tile / g.groups;

    A += a_offset + group * g.a_g + image * g.a_i;
    B += b_offset + group * g.b_g + image * g.b_i;
    C += c_offset;

    /* Work-items with neighbouring numbers load along whichever axis is closer together in memory. */
    const bool a_along_k = g.a_k <= g.a_m, b_along_k = g.b_k < g.b_n;
    const int a_k = a_along_k ? item % DEPTH : item / ROWS, a_m = a_along_k ? item / DEPTH : item % ROWS;
    const int b_k = b_along_k ? item % DEPTH : item / COLUMNS, b_n = b_along_k ? item / DEPTH : item % COLUMNS;
    const int a_k_step = a_along_k ? 0 : ITEMS / ROWS, a_m_step = a_along_k ? ITEMS / DEPTH : 0;
    const int b_k_step = b_along_k ? 0 : ITEMS / COLUMNS, b_n_step = b_along_k ? ITEMS / DEPTH : 0;

    ACC sums[EACH_M][EACH_N];
    clear_tile(sums);
    TILE_OF_TOTALS;
    int terms = 0;
    for (long block = 0; block < g.reduce; block++)
        for (long k0 = 0; k0 < g.k; k0 += DEPTH) {
            if (LONG_SUMS && terms + DEPTH > BLOCK_TERMS) {
                SETTLE_TILE;
                terms = 0;
            }
            terms += DEPTH;
            for (int l = 0; l < ROWS * DEPTH / ITEMS; l++) {
                const int k = a_k + l * a_k_step, m = a_m + l * a_m_step;
                ACC a = 0;
                if (k0 + k < g.k && m0 + m < g.m)
                    a = (ACC)LOAD(A_TYPE)(A, block * g.a_r + (m0 + m) * g.a_m + (k0 + k) * g.a_k);
                a_slice[k * A_PITCH + m] = a;
            }
            for (int l = 0; l < COLUMNS * DEPTH / ITEMS; l++) {
                const int k = b_k + l * b_k_step, n = b_n + l * b_n_step;
                ACC b = 0;
                if (k0 + k < g.k && n0 + n < g.n)
                    b = (ACC)LOAD(B_TYPE)(B, block * g.b_r + (k0 + k) * g.b_k + (n0 + n) * g.b_n);
                b_slice[k * B_PITCH + n] = b;
            }
            add_product(sums, a_slice, b_slice, row, column);
        }
    COMPLETE_TILE;
    const long to = group * g.c_g + image * g.c_i;
#pragma unroll
    for (int i = 0; i < EACH_M; i++) {
        OF_FILTER(group * g.m + min(m0 + row + i * SIDE, g.m - 1))
#pragma unroll
        for (int j = 0; j < EACH_N; j++) {
            const long m = m0 + row + i * SIDE, n = n0 + column + j * SIDE;
            if (m < g.m && n < g.n)
                STORE_ONE(C_TYPE, C, to + m * g.c_m + n * g.c_n, sums[i][j]);
        }
    }
}
