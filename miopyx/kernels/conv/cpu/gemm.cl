/* Matrix products for CPU devices: C[m,n] = alpha * sum over k of A[m,k] * B[k,n] + beta * C[m,n], batched.
 *
 * Shape: any m, n, k, batches and `reduce` (mx_gemm in conv/gemm_args.h).  gemm_nn wants b_n == 1 and c_n == 1, and A
 * has any strides; gemm_nt wants a_k == 1 and b_k == 1, and C has any strides.
 * Grid: local (1, 1, 1), global (blocks of C, groups, images); divisions are rounded up.
 *
 *     gemm_nn   n ->  N_VECTORS * VEC             gemm_nt   n ->  NT_CHUNK
 *             +------------------+                        +------------------+
 *           m | TILE_ROWS        |  M_CHUNK             m | 4 x NT_COLUMNS   |  NT_CHUNK
 *             | TILE_ROWS ...    |                        | dot products ... |
 *             +------------------+                        +------------------+
 *       blocks = m / M_CHUNK * (n / VEC / N_VECTORS)      blocks = m / NT_CHUNK * (n / NT_CHUNK)
 *
 * A work-item, alone in its group, computes a block and sums over all of k and `reduce` in one fixed order, so that
 * results do not depend on the number of cores.
 * Memory: no local memory; a panel of B (K_BLOCK x N_VECTORS vectors) and the sums are private, in a core's caches.
 * Nothing outside the matrices is read: edges are filled with zeros or repeat the last row, and are not stored.
 * Tuning: TILE_ROWS, N_VECTORS, M_CHUNK and K_BLOCK change no bit of gemm_nn's results, NT_COLUMNS and NT_CHUNK none of
 * gemm_nt's.  NT_K_BLOCK changes the order of its sums over several blocks.
 * Bound by: multiply-adds where m and n fill tiles; else copying panels, or memory.
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
#ifndef KERNELS /* what to build: 1 gemm_nn, 2 gemm_nt, 3 both; one alone takes half the compiler's time */
#define KERNELS 3
#endif
#ifndef VEC /* ACC elements in a vector register, 4, 8 or 16; 16 is AVX-512's float */
#define VEC 16
#endif
#ifndef TILE_ROWS /* gemm_nn: rows of a tile; 8 x 3 sums, a row of B and an element of A fit 32 registers, 4 x 3 16 */
#define TILE_ROWS 8
#endif
#ifndef N_VECTORS /* gemm_nn: vectors side by side in a tile, 1 to 4 */
#define N_VECTORS 3
#endif
#ifndef M_CHUNK /* gemm_nn: rows of a work-item, which share one copy of a panel of B */
#define M_CHUNK 64
#endif
#ifndef K_BLOCK /* gemm_nn: depth of that panel */
#define K_BLOCK 256
#endif
#ifndef NT_CHUNK /* gemm_nt: rows and columns of a work-item; a multiple of 4 */
#define NT_CHUNK 32
#endif
#ifndef NT_COLUMNS /* gemm_nt: columns of a tile; 4 x 4 sums, a row of B and one of A take 21 registers, 4 x 3 16 */
#define NT_COLUMNS 4
#endif
#ifndef NT_K_BLOCK /* gemm_nt: how far along k before turning to the next tile; a multiple of VEC */
#define NT_K_BLOCK 512
#endif
#include "include/common.h"
#include "include/epilogue.h"
#include "conv/gemm_args.h"

#if !MX_IS_STORAGE(A_TYPE) || !MX_IS_STORAGE(B_TYPE) || !MX_IS_STORAGE(C_TYPE)
#error "A_TYPE, B_TYPE and C_TYPE must each be a type of include/common.h"
#endif
#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#if N_VECTORS < 1 || N_VECTORS > 4 || TILE_ROWS < 1 || M_CHUNK < 1 || K_BLOCK < 1 || BLOCK_TERMS % K_BLOCK != 0
#error "TILE_ROWS, N_VECTORS, M_CHUNK or K_BLOCK out of range"
#endif
#if NT_CHUNK % 4 != 0 || NT_K_BLOCK % VEC != 0
#error "NT_CHUNK or NT_K_BLOCK out of range"
#endif

/* Rows of a work-item in whole tiles: no chunk gets more when rows are dealt out evenly. */
#define CHUNK_ROWS ((M_CHUNK + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS)

#include "conv/cpu/counts.h"
#include "conv/cpu/register_tile.h"

typedef MX_JOIN(ACC, VEC) vec;
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOAD_VEC MX_JOIN(vload, VEC)
DEFINE_LONG_SUMS(vec)

#if KERNELS & 1

/* The first `count` elements at p, then zeros. */
static inline vec load_first(__global const STORAGE(B_TYPE) *p, long count)
{
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = i < count ? (ACC)LOAD(B_TYPE)(p, i) : (ACC)0;
    return LOAD_VEC(0, lanes);
}

/* sums[TILE_ROWS][N_VECTORS] += A[TILE_ROWS][depth] * panel[depth][N_VECTORS], where the first V vectors count; row[]
 * are offsets. */
#define DEFINE_MULTIPLY(V)                                                                       \
    static inline void multiply_##V(vec *restrict sums, const vec *restrict panel,               \
                                    __global const STORAGE(A_TYPE) *restrict A, const long *row, \
                                    long a_k, long depth)                                        \
    {                                                                                            \
        vec s[TILE_ROWS][V];                                                                     \
        FOR_TILE(TILE_ROWS, V, s[i][j] = sums[i * N_VECTORS + j];)                               \
        for (long k = 0; k < depth; k++, A += a_k, panel += N_VECTORS)                           \
            OUTER_PRODUCT(TILE_ROWS, V, s, (ACC)LOAD(A_TYPE)(A, row[i]), panel[j])               \
        FOR_TILE(TILE_ROWS, V, sums[i * N_VECTORS + j] = s[i][j];)                               \
    }
FOR_COUNTS(DEFINE_MULTIPLY)

/* The columns of a tile in a chunk of rows. */
NOINLINE void tile_nn(__global const STORAGE(A_TYPE) *restrict A, __global const STORAGE(B_TYPE) *restrict B,
                      __global STORAGE(C_TYPE) *restrict C, const mx_gemm *g, long id, long group, long image,
                      EPILOGUE_PARAMS)
{
    /* Chunks of rows and tiles of columns differ by one unit at most, so that the last is no sliver. */
    const long row_blocks = (g->m + TILE_ROWS - 1) / TILE_ROWS, chunks = (g->m + M_CHUNK - 1) / M_CHUNK;
    const long vectors = (g->n + VEC - 1) / VEC, tiles = (vectors + N_VECTORS - 1) / N_VECTORS;
    const long chunk = id % chunks, tile = id / chunks;
    const long m0 = chunk * row_blocks / chunks * TILE_ROWS;
    const long m1 = min((chunk + 1) * row_blocks / chunks * TILE_ROWS, g->m);
    const long v0 = tile * vectors / tiles, n0 = v0 * VEC;
    const int used = (int)((tile + 1) * vectors / tiles - v0);
    const long columns = min(g->n - n0, (long)used * VEC);
    const int whole = (int)(columns / VEC);

    A += group * g->a_g + image * g->a_i + m0 * g->a_m;
    B += group * g->b_g + image * g->b_i + n0;

    const long tile_rows = (m1 - m0 + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    vec panel[K_BLOCK * N_VECTORS], sums[CHUNK_ROWS * N_VECTORS], totals[CHUNK_ROWS * N_VECTORS * 3];
    for (int i = 0; i < CHUNK_ROWS * N_VECTORS; i++)
        sums[i] = (vec)((ACC)0);
    /* Blocks of terms end where they do whatever K_BLOCK is. */
    long terms = 0;
    int settled = 0;
    for (long block = 0; block < g->reduce; block++)
        for (long k0 = 0; k0 < g->k; k0 += K_BLOCK) {
            if (terms > 0 && (k0 == 0 ? terms + min(g->k, (long)BLOCK_TERMS) > BLOCK_TERMS : k0 % BLOCK_TERMS == 0)) {
                settle(settled, sums, totals, tile_rows * N_VECTORS);
                settled++;
                terms = 0;
            }
            terms += min(g->k - k0, (long)K_BLOCK);
            const long depth = min(g->k - k0, (long)K_BLOCK);
            __global const STORAGE(B_TYPE) *b = B + block * g->b_r + k0 * g->b_k;
            for (long k = 0; k < depth; k++, b += g->b_k) {
                for (int j = 0; j < whole; j++)
                    panel[k * N_VECTORS + j] = TO_VEC(VLOAD(B_TYPE)(b, j * VEC));
                if (whole < used)
                    panel[k * N_VECTORS + whole] = load_first(b + whole * VEC, columns - whole * VEC);
            }
            __global const STORAGE(A_TYPE) *a = A + block * g->a_r + k0 * g->a_k;
            for (long m = 0; m0 + m < m1; m += TILE_ROWS) {
                long row[TILE_ROWS];
                for (int i = 0; i < TILE_ROWS; i++)
                    row[i] = min(m + i, m1 - m0 - 1) * g->a_m;
                vec *s = sums + m * N_VECTORS;
#if N_VECTORS > 3
                if (used == 4)
                    multiply_4(s, panel, a, row, g->a_k, depth);
#endif
#if N_VECTORS > 2
                if (used == 3)
                    multiply_3(s, panel, a, row, g->a_k, depth);
#endif
#if N_VECTORS > 1
                if (used == 2)
                    multiply_2(s, panel, a, row, g->a_k, depth);
#endif
                if (used == 1)
                    multiply_1(s, panel, a, row, g->a_k, depth);
            }
        }
    if (settled > 0)
        complete(settled, sums, totals, tile_rows * N_VECTORS);
    long to = group * g->c_g + image * g->c_i + m0 * g->c_m + n0;
    for (long m = 0; m < m1 - m0; m++, to += g->c_m) {
        OF_FILTER(group * g->m + m0 + m)
        const ACC *s = (const ACC *)(sums + m * N_VECTORS);
        for (long n = 0; n < columns; n++)
            STORE_ONE(C_TYPE, C, to + n, s[n]);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_nn(
    __global const STORAGE(A_TYPE) *restrict A, long a_offset,
    __global const STORAGE(B_TYPE) *restrict B, long b_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gemm g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(C, c_offset);
    tile_nn(A + a_offset, B + b_offset, C + c_offset, &g, get_group_id(0), get_group_id(1), get_group_id(2),
            EPILOGUE_ARGS);
}

#endif
#if KERNELS & 2

#define NT_PITCH ((NT_CHUNK + NT_COLUMNS - 1) / NT_COLUMNS * NT_COLUMNS) /* of sums: whole tiles */

/* Halves upon halves: a few steps where adding one lane after the other would cost more than short products do. */
static inline ACC sum_of_lanes(vec v)
{
#if VEC == 16
    const MX_JOIN(ACC, 8) v8 = v.lo + v.hi;
    const MX_JOIN(ACC, 4) v4 = v8.lo + v8.hi;
#elif VEC == 8
    const MX_JOIN(ACC, 4) v4 = v.lo + v.hi;
#else
    const MX_JOIN(ACC, 4) v4 = v;
#endif
    return (v4.s0 + v4.s2) + (v4.s1 + v4.s3);
}

#if MX_TYPE(ACC) == MX_TYPE_double
#define LANE long /* an integer as wide as ACC, as vector conditions want it */
#else
#define LANE int
#endif
typedef MX_JOIN(LANE, VEC) lane_mask;

/* All ones in the last `count` lanes, zeros before. */
static inline lane_mask last_lanes(int count)
{
    LANE lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = i < VEC - count ? 0 : -1;
    return LOAD_VEC(0, lanes);
}

/* s[4][NT_COLUMNS] += the lane-wise products of VEC elements of rows of A and rows of B.  Lanes where keep is 0 do not
 * count: both sides are cleared there, because 0 times an infinity would be NaN. */
#define DOT_STEP(at, KEEP)                                              \
    do {                                                                \
        vec right[NT_COLUMNS];                                          \
        _Pragma("unroll") for (int j = 0; j < NT_COLUMNS; j++)          \
            right[j] = KEEP(TO_VEC(VLOAD(B_TYPE)(row_b[j], at)));       \
        _Pragma("unroll") for (int i = 0; i < 4; i++) {                 \
            const vec left = KEEP(TO_VEC(VLOAD(A_TYPE)(row_a[i], at))); \
            _Pragma("unroll") for (int j = 0; j < NT_COLUMNS; j++)      \
                s[i][j] += left * right[j];                             \
        }                                                               \
    } while (0)
/* Steps in each block of k.  Rows are pointers: compilers would put sums of their offsets into vectors, and take sums of
 * products out of registers for these. */
#define FOR_BLOCKS(STEPS)                                      \
    for (long block = 0; block < blocks; block++) {            \
        __global const STORAGE(A_TYPE) *row_a[4];              \
        __global const STORAGE(B_TYPE) *row_b[NT_COLUMNS];     \
        _Pragma("unroll") for (int i = 0; i < 4; i++)          \
            row_a[i] = A + block * a_r + a[i];                 \
        _Pragma("unroll") for (int j = 0; j < NT_COLUMNS; j++) \
            row_b[j] = B + block * b_r + b[j];                 \
        STEPS;                                                 \
    }
#define KEEP_ALL(v) (v)
#define KEEP_SOME(v) (keep ? (v) : (vec)((ACC)0))

/* sums[4][NT_COLUMNS] += the products of rows of A and rows of B, which start at a[] and b[], over `depth` elements in
 * each of `blocks` blocks, at strides of a_r and b_r.  There are at least VEC elements of a row before its end. */
static inline void dot_tile(vec *restrict sums,
                           __global const STORAGE(A_TYPE) *restrict A, const long *a, long a_r,
                           __global const STORAGE(B_TYPE) *restrict B, const long *b, long b_r,
                           long depth, long blocks)
{
    vec s[4][NT_COLUMNS];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < NT_COLUMNS; j++)
            s[i][j] = sums[i * NT_PITCH + j];
    FOR_BLOCKS(for (long k = 0; k + VEC <= depth; k += VEC) DOT_STEP(k, KEEP_ALL))
    /* The rest, less than a vector, is loaded together with elements before it that were counted already.  A loop of
     * its own: between those of whole vectors the compiler would keep sums in memory for it. */
    if (depth % VEC > 0) {
        const lane_mask keep = last_lanes((int)(depth % VEC));
        FOR_BLOCKS(DOT_STEP(depth - VEC, KEEP_SOME))
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < NT_COLUMNS; j++)
            sums[i * NT_PITCH + j] = s[i][j];
}

/* The same for rows shorter than a vector; blocks go to the lanes in turns. */
static inline void dot_tile_short(vec *restrict sums,
                                  __global const STORAGE(A_TYPE) *restrict A, const long *a, long a_r,
                                  __global const STORAGE(B_TYPE) *restrict B, const long *b, long b_r,
                                  long depth, long blocks)
{
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < NT_COLUMNS; j++) {
            ACC *lanes = (ACC *)(sums + i * NT_PITCH + j);
            for (long block = 0; block < blocks; block++) {
                ACC sum = lanes[block % VEC];
                for (long k = 0; k < depth; k++)
                    sum += (ACC)LOAD(A_TYPE)(A, a[i] + block * a_r + k) * (ACC)LOAD(B_TYPE)(B, b[j] + block * b_r + k);
                lanes[block % VEC] = sum;
            }
        }
}

/* A block of NT_CHUNK rows and columns. */
NOINLINE void tile_nt(__global const STORAGE(A_TYPE) *restrict A, __global const STORAGE(B_TYPE) *restrict B,
                      __global STORAGE(C_TYPE) *restrict C, const mx_gemm *g, long id, long group, long image,
                      EPILOGUE_PARAMS)
{
    const long chunks = (g->m + NT_CHUNK - 1) / NT_CHUNK;
    const long m0 = id % chunks * NT_CHUNK, n0 = id / chunks * NT_CHUNK;
    const long rows = min(g->m - m0, (long)NT_CHUNK), columns = min(g->n - n0, (long)NT_CHUNK);

    A += group * g->a_g + image * g->a_i + m0 * g->a_m;
    B += group * g->b_g + image * g->b_i + n0 * g->b_n;
    const long to = group * g->c_g + image * g->c_i + m0 * g->c_m + n0 * g->c_n;

    /* Whole vectors of partial sums go from one block of k to the next; their lanes are added once, at the end. */
    vec sums[NT_CHUNK * NT_PITCH], totals[NT_CHUNK * NT_PITCH * 3];
    for (int i = 0; i < NT_CHUNK * NT_PITCH; i++)
        sums[i] = (vec)((ACC)0);
    long terms = 0; /* of a lane */
    int settled = 0;
    /* Short rows are taken several blocks at a time, so that the sums of a tile stay in registers for long. */
    const long together = g->k < NT_K_BLOCK ? NT_K_BLOCK / g->k : 1;
    for (long block = 0; block < g->reduce; block += together)
        for (long k0 = 0; k0 < g->k; k0 += NT_K_BLOCK) {
            const long depth = min(g->k - k0, (long)NT_K_BLOCK), blocks = min(g->reduce - block, together);
            const long more = g->k < VEC ? (blocks + VEC - 1) / VEC * depth : (depth + VEC - 1) / VEC * blocks;
            if (terms + more > BLOCK_TERMS) {
                for (long m = 0; m < rows; m++)
                    settle(settled, sums + m * NT_PITCH, totals + m * NT_PITCH * 3, columns);
                settled++;
                terms = 0;
            }
            terms += more;
            for (long m = 0; m < rows; m += 4)
                for (long n = 0; n < columns; n += NT_COLUMNS) {
                    long a[4], b[NT_COLUMNS];
                    for (int i = 0; i < 4; i++)
                        a[i] = block * g->a_r + min(m + i, rows - 1) * g->a_m + k0;
                    for (int j = 0; j < NT_COLUMNS; j++)
                        b[j] = block * g->b_r + min(n + j, columns - 1) * g->b_n + k0;
                    vec *s = sums + m * NT_PITCH + n;
                    if (g->k < VEC)
                        dot_tile_short(s, A, a, g->a_r, B, b, g->b_r, depth, blocks);
                    else
                        dot_tile(s, A, a, g->a_r, B, b, g->b_r, depth, blocks);
                }
        }
    for (long m = 0; m < rows && settled > 0; m++)
        complete(settled, sums + m * NT_PITCH, totals + m * NT_PITCH * 3, columns);
    for (long m = 0; m < rows; m++) {
        OF_FILTER(group * g->m + m0 + m)
        for (long n = 0; n < columns; n++)
            STORE_ONE(C_TYPE, C, to + m * g->c_m + n * g->c_n, sum_of_lanes(sums[m * NT_PITCH + n]));
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_nt(
    __global const STORAGE(A_TYPE) *restrict A, long a_offset,
    __global const STORAGE(B_TYPE) *restrict B, long b_offset,
    __global STORAGE(C_TYPE) *restrict C, long c_offset,
    const mx_gemm g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(C, c_offset);
    tile_nt(A + a_offset, B + b_offset, C + c_offset, &g, get_group_id(0), get_group_id(1), get_group_id(2),
            EPILOGUE_ARGS);
}

#endif
