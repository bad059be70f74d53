/* Convolutions as matrix products whose operands are gathered while they are loaded, for any GPU.
 *
 *     DIRECTION 0, 1   C[m, pixel] = sum over (channel, tap) of w[m, channel, tap] * image[channel, pixel and tap]
 *     DIRECTION 2      C[m, (channel, tap)] = sum over pixels of other[m, pixel] * image[channel, pixel and tap]
 *
 * each alpha * C + beta * the old one.  0 is forward (image x, C y), 1 backward data (image dy, C one phase of dx: the
 * positions of equal (position + pad) mod stride, which meet the same taps), 2 backward weights (image x, other dy, C
 * dw), split-K over pixels; sum_partial adds the splits in order.
 * Shape: any, up to 2^31 elements a tensor; any strides.
 * Grid: one axis, local SIDE * SIDE, global SIDE * SIDE * across * down * groups * splits of mx_gather.
 *
 *         n ->  SIDE * EACH_N
 *       +-----------------+     A work-group: one tile of C over one split; a work-item: every SIDE-th row and column.
 *     m |  SIDE * EACH_M  |     K-slices of DEPTH are gathered into local memory.
 *       +-----------------+     sum_partial: a work-item for each element of dw.
 *
 * Sums run in one order.  Pixels outside of the image count as zeros.
 * Memory: DEPTH * (SIDE * EACH_M + 1 + SIDE * EACH_N + 1) elements of ACC in local memory.
 * Parameters: those of include/gpu_tile.h; storage types of include/common.h.
 * Bound by: the gather's arithmetic and reads of local memory; no tensor cores.
 */
#ifndef IMAGE_TYPE /* storage types: of the gathered image, of the other factor, of the result */
#define IMAGE_TYPE float
#endif
#ifndef FACTOR_TYPE
#define FACTOR_TYPE IMAGE_TYPE
#endif
#ifndef C_TYPE
#define C_TYPE IMAGE_TYPE
#endif
#ifndef DIRECTION /* 0, 1 or 2 */
#define DIRECTION 0
#endif
#ifndef CHANNELS_LAST /* the image's channels are contiguous */
#define CHANNELS_LAST 0
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "include/gpu_tile.h"
#include "conv/gpu/gather.h"

static inline ACC gathered(__global const STORAGE(IMAGE_TYPE) *image, int4 pixel, int4 tap, const mx_gather *g)
{
    const int place = gather_place(pixel, tap, g);
    return place < 0 ? (ACC)0 : (ACC)LOAD(IMAGE_TYPE)(image, place);
}

/* Neighbouring work-items store neighbours in memory. */
#define ROWS_CONTIGUOUS (CHANNELS_LAST * (DIRECTION != 2))
#define A_EACH (ROWS * DEPTH / ITEMS)
#define B_EACH (COLUMNS * DEPTH / ITEMS)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_implicit_gpu(
    __global const STORAGE(IMAGE_TYPE) *restrict image, long image_offset,
    __global const STORAGE(FACTOR_TYPE) *restrict factor, long factor_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gather given, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(C, c_offset);
    __local ACC a_slice[DEPTH * A_PITCH], b_slice[DEPTH * B_PITCH];
    const mx_gather *g = &given;
    const int item = get_local_id(0);
    const int column = ROWS_CONTIGUOUS ? item / SIDE : item % SIDE, row = ROWS_CONTIGUOUS ? item % SIDE : item / SIDE;
    const mx_gather_tile tile = gather_tile((int)get_group_id(0), ROWS, COLUMNS, g);
    const int n0 = tile.n, m0 = tile.m, group = tile.group, split = tile.split;
    const int k_first = tile.first, k_end = tile.end;

    image += image_offset + group * g->i_g;
    factor += factor_offset + g->f_first + group * g->f_g;

    const int a_k = A_ALONG_K ? item % DEPTH : item / ROWS, a_m = A_ALONG_K ? item / DEPTH : item % ROWS;
    const int b_k = B_ALONG_K ? item % DEPTH : item / COLUMNS, b_n = B_ALONG_K ? item / DEPTH : item % COLUMNS;
    /* What a work-item's columns of B are: pixels, or channels and taps. */
    int4 place[B_ALONG_K ? B_EACH : 1];
    for (int l = 0; l < (B_ALONG_K ? B_EACH : 1); l++) {
        const int n = min(n0 + b_n + l * (ITEMS / DEPTH), g->n - 1);
        place[l] = DIRECTION == 2 ? tap_of(n, g) : pixel_of(n, g);
    }

    ACC sums[EACH_M][EACH_N];
    clear_tile(sums);
    TILE_OF_TOTALS;
    for (int k0 = k_first; k0 < k_end; k0 += DEPTH) {
        if (LONG_SUMS && k0 > k_first && (k0 - k_first) % BLOCK_TERMS == 0)
            SETTLE_TILE;
        int4 at = (int4)(0);
        int a_place = 0;
#pragma unroll
        for (int l = 0; l < A_EACH; l++) {
            const int k = a_k + (A_ALONG_K ? 0 : l * (ITEMS / ROWS)), m = a_m + (A_ALONG_K ? l * (ITEMS / DEPTH) : 0);
            if (!A_ALONG_K || l == 0) {
                at = DIRECTION == 2 ? pixel_of(min(k0 + k, k_end - 1), g) : tap_of(min(k0 + k, k_end - 1), g);
                a_place = PLACE(at, DIRECTION == 2 ? g->f_n : g->f_c, g->f_at);
            }
            ACC a = 0;
            if (k0 + k < k_end && m0 + m < g->m)
                a = (ACC)LOAD(FACTOR_TYPE)(factor, (m0 + m) * g->f_m + a_place);
            a_slice[k * A_PITCH + m] = a;
        }
#pragma unroll
        for (int l = 0; l < B_EACH; l++) {
            const int k = b_k + (B_ALONG_K ? 0 : l * (ITEMS / COLUMNS));
            const int n = b_n + (B_ALONG_K ? l * (ITEMS / DEPTH) : 0);
            if (!B_ALONG_K || l == 0)
                at = DIRECTION == 2 ? pixel_of(min(k0 + k, k_end - 1), g) : tap_of(min(k0 + k, k_end - 1), g);
            ACC b = 0;
            if (k0 + k < k_end && n0 + n < g->n)
                b = DIRECTION == 2 ? gathered(image, at, place[B_ALONG_K ? l : 0], g)
                                   : gathered(image, place[B_ALONG_K ? l : 0], at, g);
            b_slice[k * B_PITCH + n] = b;
        }
        add_product(sums, a_slice, b_slice, row, column);
    }
    COMPLETE_TILE;
#ifdef EPILOGUE
#pragma unroll
    for (int i = 0; i < EACH_M; i++) {
        OF_FILTER((long)group * g->m + min(m0 + row + i * SIDE, g->m - 1))
#pragma unroll
        for (int j = 0; j < EACH_N; j++)
            sums[i][j] = SCALED_RESULT(sums[i][j]);
    }
#endif
    C += c_offset + g->c_first + group * g->c_g;
#pragma unroll
    for (int j = 0; j < EACH_N; j++) {
        const int n = n0 + column + j * SIDE;
        if (n >= g->n)
            continue;
        const int4 to = DIRECTION == 2 ? tap_of(n, g) : pixel_of(n, g);
        const int c_place = split * g->c_n + PLACE(to, DIRECTION == 2 ? g->c_c : g->c_n, g->c_at);
#pragma unroll
        for (int i = 0; i < EACH_M; i++) {
            const int m = m0 + row + i * SIDE;
            if (m < g->m)
                STORE_SCALED(C_TYPE, C, m * g->c_m + c_place, sums[i][j]);
        }
    }
}

/* w = alpha * the sum of `splits` tensors of its size, packed as k c z r s, in order, + beta * w. */
__kernel void sum_partial(__global const STORAGE(IMAGE_TYPE) *restrict partial, long partial_offset,
                              __global STORAGE(C_TYPE) *restrict w, long w_offset,
                              const mx_tensor shape, long splits, const SCALAR alpha, const SCALAR beta)
{
    const long i = get_global_id(0), size = shape.len[0] * shape.len[1] * shape.len[2] * shape.len[3] * shape.len[4];
    if (i >= size)
        return;
    ACC sum = 0;
    for (long split = 0; split < splits; split++)
        sum += (ACC)LOAD(IMAGE_TYPE)(partial, partial_offset + split * size + i);
    long at = 0, rest = i;
    for (int axis = 4; axis >= 0; axis--) {
        at += rest % shape.len[axis] * shape.stride[axis];
        rest /= shape.len[axis];
    }
    STORE_MIXED(C_TYPE, w, w_offset + at, sum, alpha, beta);
}
