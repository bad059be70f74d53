/* A tile of a matrix product in a CPU's registers: sums[ROWS][V] = or += sum over k of a[k][ROWS] * panel[k][V].
 *
 * The file that includes this defines ACC, VEC (ACC elements in a vector), ROWS and N_VECTORS; 8 x 3 sums, a row of the
 * panel and an element of a fill 32 registers, 6 x 2 or 4 x 3 fill 16.  The panel has ALL_VECTORS vectors a step, of
 * which V = 1 ... N_VECTORS are computed, and sums ALL_VECTORS vectors a row.
 *
 * multiply(V, add, sums, a, a_row, a_step, panel, depth): `a` has a stride of a_row from row to row, and of a_step
 * from one k to the next.  The sums begin at 0 or, with add, where they are.  They are taken along k in order, whatever
 * V and the tile's shape.
 */
#ifndef ROWS
#define ROWS 8
#endif
#ifndef N_VECTORS
#define N_VECTORS 3
#endif
#ifndef ALL_VECTORS
#define ALL_VECTORS N_VECTORS
#endif
#if ROWS < 1
#error "ROWS out of range"
#endif
#include "conv/cpu/counts.h"
#include "conv/cpu/register_tile.h"

typedef MX_JOIN(ACC, VEC) vec;

#define DEFINE_MULTIPLY(V)                                                                                        \
    NOINLINE void multiply_##V(bool add, vec *restrict sums, __global const ACC *restrict a, long a_row,          \
                               long a_step, const vec *restrict panel, long depth)                                \
    {                                                                                                             \
        vec s[ROWS][V];                                                                                           \
        FOR_TILE(ROWS, V, s[i][j] = add ? MX_JOIN(vload, VEC)(i * ALL_VECTORS + j, (ACC *)sums) : (vec)((ACC)0);) \
        _Pragma("unroll 2") for (long k = 0; k < depth; k++, a += a_step, panel += ALL_VECTORS)                   \
        {                                                                                                         \
            vec b[V];                                                                                             \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                         \
                b[j] = panel[j];                                                                                  \
            OUTER_PRODUCT(ROWS, V, s, a[i * a_row], b[j])                                                         \
        }                                                                                                         \
        FOR_TILE(ROWS, V, sums[i * ALL_VECTORS + j] = s[i][j];)                                                   \
    }
FOR_COUNTS(DEFINE_MULTIPLY)

static inline void multiply(int V, bool add, vec *restrict sums, __global const ACC *restrict a, long a_row,
                            long a_step, const vec *restrict panel, long depth)
{
#define MULTIPLY_CASE(V)                                         \
    case V:                                                      \
        multiply_##V(add, sums, a, a_row, a_step, panel, depth); \
        break;
    switch (V) {
        FOR_COUNTS(MULTIPLY_CASE)
    }
}
