/* Matrix products for GPUs: C[m,n] = alpha * sum over k of A[m,k] * B[k,n] + beta * C[m,n], batched.
 *
 * Shape: any m n k, any strides, batches and `reduce` (see mx_gemm in common.h).
 * Ownership: a group of 256 work-items owns a 64 x 64 tile of C, a work-item every 16th row and column of it: its sums
 * run over all of k and `reduce` in one fixed order.
 * NDRange: one axis, since GPUs limit the others: local 256, global 256 * tiles with
 *     tiles = ceil(n / 64) * ceil(m / 64) * groups * images.
 * Local memory: (16 * 65 + 16 * 65) elements of ACC.
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
#ifndef ACC /* type of products and sums: double when C is double, int when A and B are int8 */
#define ACC float
#endif
#include "common.h"

#if !MX_IS_STORAGE(A_TYPE) || !MX_IS_STORAGE(B_TYPE) || !MX_IS_STORAGE(C_TYPE)
#error "A_TYPE, B_TYPE and C_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif

#define SIDE 16 /* work-items along each side of a tile */
#define EACH 4 /* rows and columns of a work-item */
#define TILE (SIDE * EACH)
#define DEPTH 16 /* of the slices of A and B that are in local memory at a time */
#define PITCH (TILE + 1) /* one more than a power of two, so that writing a slice along k meets every bank */

__kernel __attribute__((reqd_work_group_size(SIDE * SIDE, 1, 1))) void gemm_tiled(
    __global const STORAGE(A_TYPE) *restrict A, long a_offset,
    __global const STORAGE(B_TYPE) *restrict B, long b_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gemm g, const SCALAR alpha, const SCALAR beta)
{
    __local ACC a_slice[DEPTH * PITCH], b_slice[DEPTH * PITCH];
    const int item = get_local_id(0), column = item % SIDE, row = item / SIDE;
    const long across = (g.n + TILE - 1) / TILE, down = (g.m + TILE - 1) / TILE;
    long tile = get_group_id(0);
    const long n0 = tile % across * TILE;
    tile /= across;
    const long m0 = tile % down * TILE;
    tile /= down;
    const long group = tile % g.groups, image = tile / g.groups;

    A += a_offset + group * g.a_g + image * g.a_i;
    B += b_offset + group * g.b_g + image * g.b_i;
    C += c_offset + group * g.c_g + image * g.c_i;

    /* Work-items with neighbouring numbers load along whichever axis is closer together in memory. */
    const bool a_along_k = g.a_k <= g.a_m, b_along_k = g.b_k < g.b_n;
    const int a_k = a_along_k ? item % DEPTH : item / TILE, a_m = a_along_k ? item / DEPTH : item % TILE;
    const int b_k = b_along_k ? item % DEPTH : item / TILE, b_n = b_along_k ? item / DEPTH : item % TILE;
    const int a_k_step = a_along_k ? 0 : SIDE * SIDE / TILE, a_m_step = a_along_k ? SIDE * SIDE / DEPTH : 0;
    const int b_k_step = b_along_k ? 0 : SIDE * SIDE / TILE, b_n_step = b_along_k ? SIDE * SIDE / DEPTH : 0;

    ACC sums[EACH][EACH];
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            sums[i][j] = 0;
    for (long block = 0; block < g.reduce; block++)
        for (long k0 = 0; k0 < g.k; k0 += DEPTH) {
            for (int l = 0; l < TILE * DEPTH / (SIDE * SIDE); l++) {
                const int ak = a_k + l * a_k_step, am = a_m + l * a_m_step;
                const int bk = b_k + l * b_k_step, bn = b_n + l * b_n_step;
                ACC a = 0, b = 0;
                if (k0 + ak < g.k && m0 + am < g.m)
                    a = (ACC)LOAD(A_TYPE)(A, block * g.a_r + (m0 + am) * g.a_m + (k0 + ak) * g.a_k);
                if (k0 + bk < g.k && n0 + bn < g.n)
                    b = (ACC)LOAD(B_TYPE)(B, block * g.b_r + (k0 + bk) * g.b_k + (n0 + bn) * g.b_n);
                a_slice[ak * PITCH + am] = a;
                b_slice[bk * PITCH + bn] = b;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int k = 0; k < DEPTH; k++) {
                ACC a[EACH], b[EACH];
#pragma unroll
                for (int i = 0; i < EACH; i++) {
                    a[i] = a_slice[k * PITCH + row + i * SIDE];
                    b[i] = b_slice[k * PITCH + column + i * SIDE];
                }
#pragma unroll
                for (int i = 0; i < EACH; i++)
#pragma unroll
                    for (int j = 0; j < EACH; j++)
                        sums[i][j] += a[i] * b[j];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#pragma unroll
    for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const long m = m0 + row + i * SIDE, n = n0 + column + j * SIDE;
            if (m < g.m && n < g.n)
                STORE_MIXED(C_TYPE, C, m * g.c_m + n * g.c_n, sums[i][j], alpha, beta);
        }
}
