/* Multi-margin losses of rows: w[t] / C * sum over classes c other than t of max(0, margin - x[t] + x[c])^p.
 *
 * A target that is no class gives NaN.
 * Grid:         LOCAL = 1, CPUs: any, a work-item has some rows; else GPUs: a work-group of LOCAL for each row.
 * Local memory: LOCAL > 1: LOCAL numbers.
 * Parameters:   T, Y_TYPE, SQUARED, DENSE, LOCAL, VEC, below.
 * Bound by:     memory.
 */
#ifndef T /* storage type of x and weights */
#define T float
#endif
#ifndef Y_TYPE /* of the losses */
#define Y_TYPE T
#endif
#ifndef SQUARED /* p is 2 */
#define SQUARED 0
#endif
#ifndef DENSE /* classes follow one another; needed where VEC is more than 1 */
#define DENSE 1
#endif
#ifndef LOCAL
#define LOCAL 1
#endif
#ifndef VEC
#define VEC 1
#endif
#include "include/common.h"
#include "layers/rows_args.h"

#if VEC == 1
typedef ACC V;
#define GET(i) ((ACC)LOAD(T)(x, (i) * step))
#define SAME(i, c) ((i) == (c))
#define TOTAL_OF(v) (v)
#else
typedef MX_JOIN(ACC, VEC) V;
#define GET(i) MX_JOIN(convert_, MX_JOIN(ACC, VEC))(VLOAD(T)(x, i))
static inline ACC total_of(V v)
{
    ACC lane[VEC], sum = 0;
    MX_JOIN(vstore, VEC)(v, 0, lane);
    for (int i = 0; i < VEC; i++)
        sum += lane[i];
    return sum;
}
#define TOTAL_OF(v) total_of(v)
#endif

static inline ACC term(ACC t)
{
    t = t < 0 ? 0 : t;
    return SQUARED ? t * t : t;
}

static inline V terms(V t)
{
    t = t < (ACC)0 ? (V)0 : t;
    return SQUARED ? t * t : t;
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void margin_rows(
    __global const STORAGE(T) *input, long input_offset, __global const long *target, long target_offset,
    __global const STORAGE(T) *weight, long weight_offset, __global STORAGE(Y_TYPE) *y, long y_offset,
    const mx_margin_shape s, const SCALAR margin)
{
#if LOCAL > 1
    __local ACC lane[LOCAL];
#endif
    const int me = LOCAL == 1 ? 0 : get_local_id(0);
    const long groups = get_num_groups(0), group = get_group_id(0), step = s.x_stride[1];
    for (long n = group * s.rows / groups; n < (group + 1) * s.rows / groups; n++) {
        __global const STORAGE(T) *x = input + input_offset + n * s.x_stride[0];
        const long t = target[target_offset + n * s.target_stride];
        const bool right = t >= 0 && t < s.classes;
        const ACC base = right ? (ACC)margin - (ACC)LOAD(T)(x, t * step) : 0;
        V sum = (V)0, rest = (V)0;
        ACC apart = 0;
        for (long i = (long)me * VEC; i < s.classes;) {
            V some = (V)0;
            for (const long end = min(i + (long)BLOCK_TERMS * LOCAL * VEC, s.classes); i < end; i += LOCAL * VEC) {
                if (i + VEC <= s.classes && (t < i || t >= i + VEC))
                    some += terms(base + GET(i));
                else /* the target, or the end of the row */
                    for (long c = i; c < min(i + VEC, s.classes); c++)
                        if (c != t)
                            apart += term(base + (ACC)LOAD(T)(x, c * step));
            }
            MX_TWO_SUM(V, sum, rest, some);
        }
        ACC all = TOTAL_OF(sum + rest) + apart;
#if LOCAL > 1
        lane[me] = all;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int far = LOCAL / 2; far > 0; far /= 2) {
            if (me < far)
                lane[me] += lane[me + far];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        all = lane[0];
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        if (me == 0)
            STORE(Y_TYPE)(y, y_offset + n * s.y_stride,
                          right ? (ACC)LOAD(T)(weight, weight_offset + t * s.weight_stride) * all / (ACC)s.classes
                                : (ACC)NAN);
    }
}
