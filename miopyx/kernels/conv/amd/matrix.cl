/* Convolutions as matrix products on AMD's matrix cores, operands gathered while they are loaded: MFMA of CDNA 2 and 3,
 * WMMA of RDNA 3.  DIRECTION and the matrices are those of conv/gpu/implicit.cl, whose sum_partial adds split sums.
 *
 * Shape: any, up to 2^31 elements a tensor; any strides.
 * Grid: one axis, local WAVE * WAVES_M * WAVES_N, global that * across * down * groups * splits of mx_gather.
 *
 *         n ->  WAVES_N * TILES_N * SIDE
 *       +---------------------------+     A work-group: one tile of C over one split; a wave: TILES_M x TILES_N tiles
 *     m | WAVES_M * TILES_M * SIDE  |     of the instruction, side by side.  K-slices of DEPTH terms wait in registers
 *       +---------------------------+     while the slice before them, in local memory, is multiplied.
 *
 * Sums run in one order.  Pixels outside of the image count as zeros.
 * Memory: (ROWS + COLUMNS) * PITCH elements in local memory; rows of a slice run along k, 16 bytes apart from where they
 * would meet the banks of the next row.
 * Parameters: below and of conv/amd/matrix.h; A_RUN and B_RUN say how many elements of w (dy) and of the image lie side
 * by side, 16 bytes of them or one.
 * Bound by: the gather where runs are single elements, else by the matrix cores.  Written by the manuals, computed
 * by an emulation of its instructions and compiled; nobody has timed it.
 */
#ifndef IMAGE_TYPE /* storage type of both factors: half, bfloat16 or float */
#define IMAGE_TYPE half
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
#ifndef WAVES_M
#define WAVES_M 2
#endif
#ifndef WAVES_N
#define WAVES_N 2
#endif
#ifndef TILES_M
#define TILES_M 2
#endif
#ifndef TILES_N
#define TILES_N 2
#endif
#ifndef DEPTH /* terms of a slice, a multiple of STEP */
#define DEPTH 32
#endif
#ifndef A_RUN
#define A_RUN 1
#endif
#ifndef B_RUN
#define B_RUN 1
#endif
#ifndef LONG_SUMS /* 1: sums of more than BLOCK_TERMS terms have totals */
#define LONG_SUMS 0
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/amd/matrix.h"
#include "conv/gpu/gather.h"

#define ITEMS (WAVE * WAVES_M * WAVES_N)
#define ROWS (WAVES_M * TILES_M * SIDE)
#define COLUMNS (WAVES_N * TILES_N * SIDE)
#define PITCH (DEPTH + 16 / (int)sizeof(ELEMENT))
#define A_EACH (ROWS * DEPTH / A_RUN / ITEMS) /* runs of a work-item */
#define B_EACH (COLUMNS * DEPTH / B_RUN / ITEMS)

#if DEPTH % STEP || ITEMS % DEPTH || ITEMS % ROWS || ITEMS % COLUMNS
#error "WAVES_*, TILES_*, SIDE and DEPTH do not go together"
#endif

/* A run, which lies along the axis that A_ALONG_K or B_ALONG_K says, as it waits in registers, and where it goes. */
#define RUN_OF(n, p, at) MX_JOIN(MX_RUN_, n)(p, at)
#if MX_TYPE(OPERAND) == MX_TYPE(IMAGE_TYPE)
#define MX_RUN_1(p, at) ((p)[at])
#define MX_RUN_4(p, at) vload4(0, (p) + (at))
#define MX_RUN_8(p, at) vload8(0, (p) + (at))
#else /* half that becomes float */
#define MX_RUN_1(p, at) LOAD(IMAGE_TYPE)(p, at)
#define MX_RUN_4(p, at) mx_load_half4((p) + (at))
#endif
#define TYPE_OF_RUN(n) MX_JOIN(MX_JOIN(ELEMENT_, n), _)
#if MX_TYPE(OPERAND) == MX_TYPE_float
#define ELEMENT_1_ float
#define ELEMENT_4_ float4
#else
#define ELEMENT_1_ ushort
#define ELEMENT_8_ ushort8
#endif

#define AT_RUN(run, n, e) MX_JOIN(AT_RUN_, n)(run, e)
#define AT_RUN_1(run, e) (run)
#define AT_RUN_4(run, e) (run)[e] /* clang's: an element of a vector by its number */
#define AT_RUN_8(run, e) (run)[e]

#define STORE_RUN(slice, row, k, run, n, along_k)                                       \
    do {                                                                                \
        if (along_k)                                                                    \
            *(__local TYPE_OF_RUN(n) *)((slice) + (row) * PITCH + (k)) = (run);         \
        else                                                                            \
            for (int e_ = 0; e_ < (n); e_++)                                            \
                (slice)[((row) + e_) * PITCH + (k)] = AT_RUN(run, n, e_);               \
    } while (0)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void conv_matrix(
    __global const STORAGE(IMAGE_TYPE) *restrict image, long image_offset,
    __global const STORAGE(IMAGE_TYPE) *restrict factor, long factor_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gather given, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(C, c_offset);
    __local ELEMENT a_slice[ROWS * PITCH] __attribute__((aligned(16)));
    __local ELEMENT b_slice[COLUMNS * PITCH] __attribute__((aligned(16)));
    const mx_gather *g = &given;
    const int item = get_local_id(0), lane = item % WAVE, wave = item / WAVE;
    const int wave_m = wave % WAVES_M * (TILES_M * SIDE), wave_n = wave / WAVES_M * (TILES_N * SIDE);
    const mx_gather_tile tile = gather_tile((int)get_group_id(0), ROWS, COLUMNS, g);
    const int n0 = tile.n, m0 = tile.m, group = tile.group, split = tile.split;
    const int k_first = tile.first, k_end = tile.end;

    image += image_offset + group * g->i_g;
    factor += factor_offset + g->f_first + group * g->f_g;

    /* A work-item's first run; the next is ITEMS runs further, in another row (along k) or at another k. */
    const int a_k = A_ALONG_K ? item % (DEPTH / A_RUN) * A_RUN : item / (ROWS / A_RUN);
    const int a_m = A_ALONG_K ? item / (DEPTH / A_RUN) : item % (ROWS / A_RUN) * A_RUN;
    const int b_k = B_ALONG_K ? item % (DEPTH / B_RUN) * B_RUN : item / (COLUMNS / B_RUN);
    const int b_n = B_ALONG_K ? item / (DEPTH / B_RUN) : item % (COLUMNS / B_RUN) * B_RUN;
#define A_K(l) (a_k + (A_ALONG_K ? 0 : (l) * (ITEMS / (ROWS / A_RUN))))
#define A_M(l) (a_m + (A_ALONG_K ? (l) * (ITEMS / (DEPTH / A_RUN)) : 0))
#define B_K(l) (b_k + (B_ALONG_K ? 0 : (l) * (ITEMS / (COLUMNS / B_RUN))))
#define B_N(l) (b_n + (B_ALONG_K ? (l) * (ITEMS / (DEPTH / B_RUN)) : 0))
    /* What the columns of its runs of B are: pixels, or channels and taps. */
    int4 place[B_ALONG_K ? B_EACH : 1];
#pragma unroll
    for (int l = 0; l < (B_ALONG_K ? B_EACH : 1); l++) {
        const int n = min(n0 + B_N(l), g->n - 1);
        place[l] = DIRECTION == 2 ? tap_of(n, g) : pixel_of(n, g);
    }

    TYPE_OF_RUN(A_RUN) a_next[A_EACH];
    TYPE_OF_RUN(B_RUN) b_next[B_EACH];
    SUM_VECTOR sums[TILES_M][TILES_N];
#if LONG_SUMS
    SUM_VECTOR totals[TILES_M][TILES_N], rests[TILES_M][TILES_N];
#endif
#pragma unroll
    for (int i = 0; i < TILES_M; i++)
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
            sums[i][j] = 0;
#if LONG_SUMS
            totals[i][j] = 0, rests[i][j] = 0;
#endif
        }

#define TERM_AT(k) (DIRECTION == 2 ? pixel_of(min(k, k_end - 1), g) : tap_of(min(k, k_end - 1), g))
#define LOAD_SLICE(k0)                                                                                           \
    do {                                                                                                         \
        int4 at = (int4)(0);                                                                                     \
        int a_place = 0;                                                                                         \
        _Pragma("unroll") for (int l = 0; l < A_EACH; l++) {                                                     \
            const int k = (k0) + A_K(l), m = m0 + A_M(l);                                                        \
            if (!A_ALONG_K || l == 0) {                                                                          \
                at = TERM_AT(k);                                                                                 \
                a_place = PLACE(at, DIRECTION == 2 ? g->f_n : g->f_c, g->f_at);                                  \
            }                                                                                                    \
            a_next[l] = 0;                                                                                       \
            if (k < k_end && m < g->m)                                                                           \
                a_next[l] = RUN_OF(A_RUN, factor, m * g->f_m + a_place);                                         \
        }                                                                                                        \
        _Pragma("unroll") for (int l = 0; l < B_EACH; l++) {                                                     \
            const int k = (k0) + B_K(l), n = n0 + B_N(l);                                                        \
            if (!B_ALONG_K || l == 0)                                                                            \
                at = TERM_AT(k);                                                                                 \
            const int to = DIRECTION == 2 ? gather_place(at, place[B_ALONG_K ? l : 0], g)                        \
                                          : gather_place(place[B_ALONG_K ? l : 0], at, g);                       \
            b_next[l] = 0;                                                                                       \
            if (k < k_end && n < g->n && to >= 0)                                                                \
                b_next[l] = RUN_OF(B_RUN, image, to);                                                            \
        }                                                                                                        \
    } while (0)

    LOAD_SLICE(k_first);
    for (int k0 = k_first; k0 < k_end; k0 += DEPTH) {
#pragma unroll
        for (int l = 0; l < A_EACH; l++)
            STORE_RUN(a_slice, A_M(l), A_K(l), a_next[l], A_RUN, A_ALONG_K);
#pragma unroll
        for (int l = 0; l < B_EACH; l++)
            STORE_RUN(b_slice, B_N(l), B_K(l), b_next[l], B_RUN, B_ALONG_K);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k0 + DEPTH < k_end)
            LOAD_SLICE(k0 + DEPTH);
#if LONG_SUMS
        if (k0 > k_first && (k0 - k_first) % BLOCK_TERMS == 0)
            for (int i = 0; i < TILES_M; i++)
                for (int j = 0; j < TILES_N; j++) {
                    MX_TWO_SUM(SUM_VECTOR, totals[i][j], rests[i][j], sums[i][j]);
                    sums[i][j] = 0;
                }
#endif
        __local const ELEMENT *a_row = a_slice + (wave_m + COLUMN_OF(lane)) * PITCH + TERM_OF(lane);
        __local const ELEMENT *b_row = b_slice + (wave_n + COLUMN_OF(lane)) * PITCH + TERM_OF(lane);
#pragma unroll
        for (int s = 0; s < DEPTH; s += STEP) {
            PACK_VECTOR a[TILES_M], b[TILES_N];
#pragma unroll
            for (int i = 0; i < TILES_M; i++)
                a[i] = LOAD_PACK(a_row + i * SIDE * PITCH + s);
#pragma unroll
            for (int j = 0; j < TILES_N; j++)
                b[j] = LOAD_PACK(b_row + j * SIDE * PITCH + s);
#pragma unroll
            for (int q = 0; q < PACK / EACH; q++)
#pragma unroll
                for (int i = 0; i < TILES_M; i++)
#pragma unroll
                    for (int j = 0; j < TILES_N; j++)
                        sums[i][j] = MULTIPLY(PART(a[i], q), PART(b[j], q), sums[i][j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if LONG_SUMS
#pragma unroll
    for (int i = 0; i < TILES_M; i++)
#pragma unroll
        for (int j = 0; j < TILES_N; j++) {
            MX_TWO_SUM(SUM_VECTOR, totals[i][j], rests[i][j], sums[i][j]);
            sums[i][j] = MX_TOTAL(totals[i][j], rests[i][j]);
        }
#endif

    C += c_offset + g->c_first + group * g->c_g;
#pragma unroll
    for (int j = 0; j < TILES_N; j++) {
        const int n = n0 + wave_n + j * SIDE + COLUMN_OF(lane);
        if (n >= g->n)
            continue;
        const int4 to = DIRECTION == 2 ? tap_of(n, g) : pixel_of(n, g);
        const int c_place = split * g->c_n + PLACE(to, DIRECTION == 2 ? g->c_c : g->c_n, g->c_at);
#pragma unroll
        for (int i = 0; i < TILES_M; i++)
#pragma unroll
            for (int r = 0; r < SUMS; r++) {
                const int m = m0 + wave_m + i * SIDE + ROW_OF(lane, r);
                if (m >= g->m)
                    continue;
                OF_FILTER((long)group * g->m + m)
                STORE_ONE(C_TYPE, C, m * g->c_m + c_place, sums[i][j][r]);
            }
    }
}
