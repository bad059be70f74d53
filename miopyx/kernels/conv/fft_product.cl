/* Products of spectra for FFT convolutions: C[m][n] = sum over k of A[m][k] * B[k][n], complex, a frequency at a time.
 *
 * B and C have blocks of VEC columns n, real parts before imaginary ones, as conv/fft.h says; elements of A stand
 * alone, an imaginary part VEC behind its real one.  Rows of A are `low` apart within runs of `lanes` of them, and the
 * runs `high`.  Its columns are `a_k` apart within runs of `depth` of them, and the runs `a_run`.
 * With add, C is added to.
 * Ownership: on CPUs a work-item computes a chunk of the rows of C, TILE_ROWS x N_VECTORS complex vectors at a time; on
 * GPUs a group of 16 x 16 computes 16 EACH_M x 16 EACH_N of it.  Sums are taken in one order, that of k.
 * NDRange: CPU: local (1, 1, 1), groups (FREQUENCIES, chunks, groups of channels).
 *     GPU: local (256, 1, 1), groups (FREQUENCIES * tiles of columns, tiles of rows, groups of channels).
 * Local memory on GPUs: DEPTH complex columns of A and rows of B.
 */
#ifndef VEC
#define VEC 16
#endif
#ifndef ON_GPU
#define ON_GPU 0
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 6
#endif
#ifndef N_VECTORS /* 1 or 2 */
#define N_VECTORS 2
#endif
#ifndef EACH_M
#define EACH_M 4
#endif
#ifndef EACH_N
#define EACH_N 2
#endif
#ifndef DEPTH
#define DEPTH 16
#endif
#include "include/common.h"
#include "conv/fft_args.h"

static inline long row_of(const mx_fft_product g, long i)
{
    return g.lanes == 1 ? i * g.high : i / g.lanes * g.high + i % g.lanes * g.low;
}

#if ON_GPU

#define SIDE 16
#define TILE_M (SIDE * EACH_M)
#define TILE_N (SIDE * EACH_N)

__kernel __attribute__((reqd_work_group_size(SIDE *SIDE, 1, 1))) void fft_product(
    __global const ACC *restrict A, long a_offset, __global const ACC *restrict B, long b_offset,
    __global ACC *restrict C, long c_offset, const mx_fft_product g)
{
    const int item = get_local_id(0), column = item % SIDE, line = item / SIDE;
    const long tiles = (g.n + TILE_N - 1) / TILE_N, f = get_group_id(0) / tiles, group = get_group_id(2);
    const long m0 = get_group_id(1) * TILE_M, n0 = get_group_id(0) % tiles * TILE_N;
    __local ACC a_re[DEPTH][TILE_M + 1], a_im[DEPTH][TILE_M + 1], b_re[DEPTH][TILE_N], b_im[DEPTH][TILE_N];
    ACC re[EACH_M][EACH_N], im[EACH_M][EACH_N];

    A += a_offset + f * g.a_f + group * g.a_g;
    B += b_offset + f * g.b_f + group * g.b_g;
    C += c_offset + f * g.c_f + group * g.c_g;
#pragma unroll
    for (int i = 0; i < EACH_M; i++)
#pragma unroll
        for (int j = 0; j < EACH_N; j++)
            re[i][j] = im[i][j] = 0;
    for (long k0 = 0; k0 < g.k; k0 += DEPTH) {
        /* Neighbouring work-items read neighbours in memory: rows where lanes are rows, else columns. */
        for (int i = item; i < DEPTH * TILE_M; i += SIDE * SIDE) {
            const int d = g.lanes > 1 ? i / TILE_M : i % DEPTH, r = g.lanes > 1 ? i % TILE_M : i / DEPTH;
            const long k = k0 + d, m = m0 + r;
            const bool inside = k < g.k && m < g.m;
            const long at = inside ? row_of(g, m) + k / g.depth * g.a_run + k % g.depth * g.a_k : 0;
            a_re[d][r] = inside ? A[at] : (ACC)0;
            a_im[d][r] = inside ? A[at + VEC] : (ACC)0;
        }
        for (int i = item; i < DEPTH * TILE_N; i += SIDE * SIDE) {
            const long k = k0 + i / TILE_N, n = n0 + i % TILE_N;
            const bool inside = k < g.k && n < g.n;
            const long at = inside ? k * g.b_k + n / VEC * 2 * VEC + n % VEC : 0;
            b_re[i / TILE_N][i % TILE_N] = inside ? B[at] : (ACC)0;
            b_im[i / TILE_N][i % TILE_N] = inside ? B[at + VEC] : (ACC)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = 0; d < DEPTH; d++) {
            ACC x[EACH_N], y[EACH_N];
#pragma unroll
            for (int j = 0; j < EACH_N; j++)
                x[j] = b_re[d][j * SIDE + column], y[j] = b_im[d][j * SIDE + column];
#pragma unroll
            for (int i = 0; i < EACH_M; i++) {
                const ACC p = a_re[d][i * SIDE + line], q = a_im[d][i * SIDE + line];
#pragma unroll
                for (int j = 0; j < EACH_N; j++) {
                    re[i][j] += p * x[j];
                    re[i][j] -= q * y[j];
                    im[i][j] += p * y[j];
                    im[i][j] += q * x[j];
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (int i = 0; i < EACH_M; i++)
#pragma unroll
        for (int j = 0; j < EACH_N; j++) {
            const long m = m0 + i * SIDE + line, n = n0 + j * SIDE + column;
            if (m >= g.m || n >= g.n)
                continue;
            __global ACC *c = C + m * g.c_m + n / VEC * 2 * VEC + n % VEC;
            c[0] = g.add ? c[0] + re[i][j] : re[i][j];
            c[VEC] = g.add ? c[VEC] + im[i][j] : im[i][j];
        }
}

#else

typedef MX_JOIN(ACC, VEC) vec;
#define LOAD_VEC MX_JOIN(vload, VEC)
#define STORE_VEC MX_JOIN(vstore, VEC)

/* V complex vectors of TILE_ROWS rows; row[] are where the rows of A begin.  Not inline: PoCL makes kernels several
 * times. */
#define DEFINE_MULTIPLY(V)                                                                                      \
    NOINLINE void multiply_##V(__global const ACC *restrict A, const long *row,      \
                                    __global const ACC *restrict B, __global ACC *restrict C, long rows,        \
                                    const mx_fft_product *product)                                              \
    {                                                                                                           \
        const mx_fft_product g = *product;                                                                      \
        vec re[TILE_ROWS][V], im[TILE_ROWS][V];                                                                 \
        __global const ACC *a[TILE_ROWS];                                                                       \
        _Pragma("unroll") for (int i = 0; i < TILE_ROWS; i++) {                                                 \
            a[i] = A + row[i];                                                                                  \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                       \
                re[i][j] = im[i][j] = (vec)((ACC)0);                                                            \
        }                                                                                                       \
        long start = 0;                                                                                         \
        for (long k0 = 0; k0 < g.k; k0 += g.depth, start += g.a_run) {                                          \
            const long depth = min(g.depth, g.k - k0);                                                          \
            long at = start;                                                                                    \
            _Pragma("unroll 2") for (long k = 0; k < depth; k++, at += g.a_k, B += g.b_k)                       \
            {                                                                                                   \
                vec x[V], y[V];                                                                                 \
                _Pragma("unroll") for (int j = 0; j < V; j++)                                                   \
                    x[j] = LOAD_VEC(2 * j, B), y[j] = LOAD_VEC(2 * j + 1, B);                                   \
                _Pragma("unroll") for (int i = 0; i < TILE_ROWS; i++) {                                         \
                    const vec p = (vec)(a[i][at]), q = (vec)(a[i][at + VEC]);                                   \
                    _Pragma("unroll") for (int j = 0; j < V; j++) {                                             \
                        re[i][j] += p * x[j];                                                                   \
                        im[i][j] += p * y[j];                                                                   \
                        re[i][j] -= q * y[j];                                                                   \
                        im[i][j] += q * x[j];                                                                   \
                    }                                                                                           \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
        _Pragma("unroll") for (int i = 0; i < TILE_ROWS; i++)                                                   \
            if (i < rows) {                                                                                     \
                _Pragma("unroll") for (int j = 0; j < V; j++) {                                                 \
                    __global ACC *c = C + i * g.c_m + 2 * j * VEC;                                              \
                    if (g.add) {                                                                                \
                        re[i][j] += LOAD_VEC(0, c);                                                             \
                        im[i][j] += LOAD_VEC(1, c);                                                             \
                    }                                                                                           \
                    STORE_VEC(re[i][j], 0, c);                                                                  \
                    STORE_VEC(im[i][j], 1, c);                                                                  \
                }                                                                                               \
            }                                                                                                   \
    }
DEFINE_MULTIPLY(1)
#if N_VECTORS > 1
DEFINE_MULTIPLY(2)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fft_product(
    __global const ACC *restrict A, long a_offset, __global const ACC *restrict B, long b_offset,
    __global ACC *restrict C, long c_offset, const mx_fft_product g)
{
    const long f = get_group_id(0), chunk = get_group_id(1), group = get_group_id(2);
    const long tiles = (g.m + TILE_ROWS - 1) / TILE_ROWS, blocks = (g.n + VEC - 1) / VEC;
    const long m0 = chunk * tiles / g.chunks * TILE_ROWS, m1 = min((chunk + 1) * tiles / g.chunks * TILE_ROWS, g.m);

    A += a_offset + f * g.a_f + group * g.a_g;
    B += b_offset + f * g.b_f + group * g.b_g;
    C += c_offset + f * g.c_f + group * g.c_g;
    for (long n = 0; n < blocks; n += N_VECTORS)
        for (long m = m0; m < m1; m += TILE_ROWS) {
            const long rows = min(m1 - m, (long)TILE_ROWS);
            long row[TILE_ROWS];
            for (int i = 0; i < TILE_ROWS; i++)
                row[i] = row_of(g, m + min((long)i, rows - 1));
#if N_VECTORS > 1
            if (n + 1 < blocks) {
                multiply_2(A, row, B + 2 * n * VEC, C + m * g.c_m + 2 * n * VEC, rows, &g);
                continue;
            }
#endif
            multiply_1(A, row, B + 2 * n * VEC, C + m * g.c_m + 2 * n * VEC, rows, &g);
        }
}

#endif
