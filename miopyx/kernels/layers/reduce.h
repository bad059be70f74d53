/* Reductions: what layers/reduce_cpu.cl and layers/reduce_gpu.cl share.
 *
 *   ADD  sum of a           AMAX   maximum of |a|          NORM1  sum of |a|
 *   MUL  product of a       MIN    minimum of a            NORM2  sqrt(sum of a^2)
 *   AVG  sum of a / length  MAX    maximum of a            MUL_NO_ZEROS  product of what is not 0
 *
 *   c = alpha that + beta c; the index of a minimum or maximum counts the reduced elements in the order of their axes,
 *   of equal ones it is the first.
 *
 * Parameters:
 *   OP             miopenReduceTensorOp_t
 *   NANS           what a NaN does, as problem/_reduce.pxd: 0 left out, 1 it is the result, 2 likewise if it is first
 *   VALUE, INDEXED  whether c, and indices, are written
 *   A_TYPE, C_TYPE, VEC, ACC
 *   WHOLE          1: a launch has all numbers of an element of c, 0: it gives parts to the workspace
 */
#ifndef OP
#define OP 0
#endif
#ifndef NANS
#define NANS 1
#endif
#ifndef VALUE
#define VALUE 1
#endif
#ifndef INDEXED
#define INDEXED 0
#endif
#ifndef A_TYPE
#define A_TYPE float
#endif
#ifndef C_TYPE
#define C_TYPE float
#endif
#ifndef WHOLE
#define WHOLE 1
#endif
#include "include/common.h"
#include "layers/reduce_args.h"

#if !MX_IS_STORAGE(A_TYPE) || !MX_IS_STORAGE(C_TYPE) || MX_TYPE(A_TYPE) > MX_TYPE_bfloat16 || \
    MX_TYPE(C_TYPE) > MX_TYPE_bfloat16
#error "A_TYPE and C_TYPE must each be half, float, double or bfloat16"
#endif

#define OP_ADD 0
#define OP_MUL 1
#define OP_MIN 2
#define OP_MAX 3
#define OP_AMAX 4
#define OP_AVG 5
#define OP_NORM1 6
#define OP_NORM2 7
#define OP_MUL_NO_ZEROS 8
#define EXTREME (OP >= OP_MIN && OP <= OP_AMAX)
#define PRODUCT (OP == OP_MUL || OP == OP_MUL_NO_ZEROS)
#define SUM (!EXTREME && !PRODUCT)

/* An integer as wide as ACC: what comparing vectors of ACC gives, and what places are kept in. */
#if MX_TYPE(ACC) == MX_TYPE_double
#define SAME long
#else
#define SAME int
#endif
#define NOWHERE 0x7fffffff /* the place of what nothing was joined to */

/* All of these take numbers and vectors. */
#if PRODUCT
#define IDENTITY ((ACC)1)
#elif OP == OP_MIN
#define IDENTITY ((ACC)INFINITY)
#elif EXTREME
#define IDENTITY (-(ACC)INFINITY)
#else
#define IDENTITY ((ACC)0)
#endif

#if OP == OP_AMAX || OP == OP_NORM1
#define PREPARED(v) fabs(v)
#elif OP == OP_NORM2
#define PREPARED(v) ((v) * (v))
#elif OP == OP_MUL_NO_ZEROS
#define PREPARED(v) ((v) == (ACC)0 ? (ACC)1 : (v))
#else
#define PREPARED(v) (v)
#endif
#if NANS == 0 && !EXTREME
#define COUNTED(v) ((v) == (v) ? (v) : IDENTITY)
#else
#define COUNTED(v) (v)
#endif

#if OP == OP_MIN
#define BEYOND(v, best) ((v) < (best))
#else
#define BEYOND(v, best) ((v) > (best))
#endif
#define SOONER(v, i, best, at) (((v) == (best)) & ((i) < (at)))
#if NANS == 1
#define BETTER(v, best) (BEYOND(v, best) | ((v) != (v)))
/* Comparisons with a NaN are false, so that a best NaN gives way to an earlier one alone. */
#define BETTER_AT(v, i, best, at)                                                                              \
    (BEYOND(v, best) | SOONER(v, i, best, at) | (((v) != (v)) & (((best) == (best)) | ((i) < (at)))))
#else
#define BETTER(v, best) BEYOND(v, best)
#define BETTER_AT(v, i, best, at) (BEYOND(v, best) | SOONER(v, i, best, at))
#endif

/* best and at: the number joined so far and its place; v and i: another one's.  MASK: the type of a comparison. */
#if PRODUCT
#define JOIN(MASK, best, at, v, i) ((best) *= (v))
#elif SUM
#define JOIN(MASK, best, at, v, i) ((best) += (v))
#elif INDEXED
#define JOIN(MASK, best, at, v, i)                     \
    do {                                               \
        const MASK better_ = BETTER_AT(v, i, best, at); \
        (best) = better_ ? (v) : (best);               \
        (at) = better_ ? (i) : (at);                   \
    } while (0)
#else
#define JOIN(MASK, best, at, v, i) ((best) = BETTER(v, best) ? (v) : (best))
#endif

#define ARGUMENTS                                                                                                     \
    __global const STORAGE(A_TYPE) *a, long a_offset, __global STORAGE(C_TYPE) *c, long c_offset, __global int *index, \
        long index_offset, __global ACC *space, long space_offset, const mx_reduce s, const SCALAR alpha,             \
        const SCALAR beta
#define OFFSETS a += a_offset, c += c_offset, index += index_offset, space += space_offset

/* Line `line` of the grid of c's elements: where it begins in each tensor, and places in it. */
#define LINE(line)                                                                                      \
    const long line_at = (line) * s.kept.len[4], a_line = mx_grid_offset(s.kept, 0, line);              \
    const long c_line = VALUE ? mx_grid_offset(s.kept, 1, line) : 0;                                    \
    const long i_line = INDEXED ? mx_grid_offset(s.kept, 2, line) : 0
#define A_AT(x) (a_line + (x) * s.kept.stride[0][4])
#define C_AT(x) (c_line + (x) * s.kept.stride[1][4])
#define INDEX_AT(x) (i_line + (x) * s.kept.stride[2][4])
/* Of its line, element x in part `part` of the workspace, and its place. */
#define PART_AT(x, part) ((part) * s.count + line_at + (x))
#define PLACES ((__global int *)(space + s.parts * s.count))

#if OP == OP_AVG
#define FINISHED(v) ((v) / (ACC)s.length)
#elif OP == OP_NORM2
#define FINISHED(v) sqrt(v)
#else
#define FINISHED(v) (v)
#endif

/* Writes what became of all numbers of one element of c. */
static inline void put(__global const STORAGE(A_TYPE) *a, __global STORAGE(C_TYPE) *c, __global int *index, ACC value,
                       SAME place, ACC alpha, ACC beta)
{
    if (NANS == 2) {
        const ACC first = (ACC)LOAD(A_TYPE)(a, 0);
        if (first != first)
            value = first, place = 0;
    }
    if (VALUE)
        STORE_MIXED(C_TYPE, c, 0, value, alpha, beta);
    if (INDEXED)
        *index = place == NOWHERE ? 0 : (int)place;
}
#define PUT(x, value, place) \
    put(a + A_AT(x), c + C_AT(x), index + INDEX_AT(x), FINISHED(value), place, (ACC)alpha, (ACC)beta)

/* Gives element x of the line, joined of one part's numbers, where it belongs. */
#if WHOLE
#define GIVE(x, value, place, part) PUT(x, value, place)
#else
#define GIVE(x, value, place, part)              \
    do {                                         \
        const long at_ = PART_AT(x, part);       \
        space[at_] = (value);                    \
        if (INDEXED)                             \
            PLACES[at_] = (int)(place);          \
    } while (0)
#endif
