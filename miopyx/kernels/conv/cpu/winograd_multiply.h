/* Register tiles of sums for the Winograd kernels: 6 or 4 rows times VECTORS vectors, which cover any even number of
 * rows from 4 on.
 *
 * The including file defines BLOCK, the most rows, and FILTERS, the address space of the vectors.  A_ROW_STEP(row) and
 * A_STEP(row) say how far it is from a row to the next one and along a row, given g.row.
 */
#include "conv/cpu/register_tile.h"

#define POINT_SUMS (BLOCK * VECTORS + 1) /* vectors from a point's sums to the next; odd, to spread them over a cache */

/* sums[R][V] = (more ? sums : 0) + a[R][depth] * b[depth][V]. */
#define DEFINE_MULTIPLY(R, V)                                                                        \
    INLINE void multiply_##R##_##V(vec *restrict sums, __global const ACC *restrict a, long row,     \
                                   FILTERS const ACC *restrict b, long b_step, long depth, int more) \
    {                                                                                                \
        vec s[R][V];                                                                                 \
        FOR_TILE(R, V, s[i][j] = zero_vector();)                                                     \
        for (long k = 0; k < depth; k++, b += b_step) {                                              \
            vec right[V];                                                                            \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                            \
                right[j] = LOAD_ACC(j, b);                                                           \
            OUTER_PRODUCT(R, V, s, a[i * A_ROW_STEP(row) + k * A_STEP(row)], right[j])               \
        }                                                                                            \
        FOR_TILE(R, V, sums[i * VECTORS + j] = more ? sums[i * VECTORS + j] + s[i][j] : s[i][j];)    \
    }
#ifndef A_ROW_STEP
#define A_ROW_STEP(row) (row)
#define A_STEP(row) 1
#endif

/* The same for `rows` rows. */
#define DEFINE_MULTIPLY_ROWS(V)                                                                                 \
    DEFINE_MULTIPLY(6, V)                                                                                       \
    DEFINE_MULTIPLY(4, V)                                                                                       \
    NOINLINE void multiply_rows_##V(vec *restrict sums, __global const ACC *restrict a, long row,               \
                                 FILTERS const ACC *restrict b, long b_step, long depth, long rows, int more)   \
    {                                                                                                           \
        for (long i = 0; i < rows;) {                                                                           \
            const long left = rows - i;                                                                         \
            vec *s = sums + i * VECTORS;                                                                        \
            __global const ACC *p = a + i * A_ROW_STEP(row);                                                    \
            if (left == 6 || left > 8) {                                                                        \
                multiply_6_##V(s, p, row, b, b_step, depth, more);                                              \
                i += 6;                                                                                         \
            } else {                                                                                            \
                multiply_4_##V(s, p, row, b, b_step, depth, more);                                              \
                i += 4;                                                                                         \
            }                                                                                                   \
        }                                                                                                       \
    }
DEFINE_MULTIPLY_ROWS(1)
DEFINE_MULTIPLY_ROWS(2)
#if VECTORS > 2
DEFINE_MULTIPLY_ROWS(3)
DEFINE_MULTIPLY_ROWS(4)
#endif

/* The same for `rows` rows, even and 4 at least, and `used` vectors. */
INLINE void multiply(vec *restrict sums, __global const ACC *restrict a, long row, FILTERS const ACC *restrict b,
                     long b_step, long depth, long rows, int used, int more)
{
#if VECTORS > 2
    if (used == 4)
        multiply_rows_4(sums, a, row, b, b_step, depth, rows, more);
    else if (used == 3)
        multiply_rows_3(sums, a, row, b, b_step, depth, rows, more);
    else
#endif
    if (used == 2)
        multiply_rows_2(sums, a, row, b, b_step, depth, rows, more);
    else
        multiply_rows_1(sums, a, row, b, b_step, depth, rows, more);
}
