/* The gradient of indexing: dx[outer][i][inner] += dy[outer][l][inner], with i the place that the l-th indices name.
 *
 *   getitem_places   place[l], -1 where an index is beyond its axis; then `error` of this tensor becomes -1
 *   getitem_links    for each place a list of the l that name it, from its head on, in the order of l
 *   getitem_add      what the l of a list add to dx, summed before it is rounded
 *
 * So the same sums come in every run.
 * Grid:         getitem_places: any; getitem_links: groups of LOCAL, each has some places; getitem_add: ROWS = 1, CPUs:
 *               any, a work-item has some rows; else a work-item has an element.
 * Local memory: getitem_links, LOCAL > 1: LOCAL numbers.
 * Parameters:   T, INDEX_TYPE, TENSORS, LOCAL, ROWS, VEC, below.
 * Bound by:     memory; getitem_links by one look at all indices for each group.
 */
#ifndef T /* storage type of dy and dx */
#define T float
#endif
#ifndef INDEX_TYPE /* int or long */
#define INDEX_TYPE int
#endif
#ifndef TENSORS /* of indices, 0 to 5 */
#define TENSORS 1
#endif
#ifndef LOCAL
#define LOCAL 1
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef VEC
#define VEC 16
#endif
#include "include/common.h"
#include "layers/rows_args.h"

#define PIECE 256 /* elements of a row that a CPU sums at a time */
#define V MX_JOIN(ACC, VEC)

#define TENSOR(k) __global const INDEX_TYPE *i##k, long o##k
#if TENSORS > 1
#define TENSOR_1 , TENSOR(1)
#else
#define TENSOR_1
#endif
#if TENSORS > 2
#define TENSOR_2 , TENSOR(2)
#else
#define TENSOR_2
#endif
#if TENSORS > 3
#define TENSOR_3 , TENSOR(3)
#else
#define TENSOR_3
#endif
#if TENSORS > 4
#define TENSOR_4 , TENSOR(4)
#else
#define TENSOR_4
#endif

#define LOOK(k)                                                                         \
    do {                                                                                \
        long index = i##k[o##k + l * s.index_stride[k]];                                \
        if (index < 0)                                                                  \
            index += s.len[k];                                                          \
        if (index < 0 || index >= s.len[k]) {                                           \
            error[error_offset + k * s.error_stride] = -1;                              \
            wrong = true;                                                               \
        }                                                                               \
        place = place * s.len[k] + index;                                               \
    } while (0)

#if TENSORS > 0
__kernel void getitem_places(TENSOR(0) TENSOR_1 TENSOR_2 TENSOR_3 TENSOR_4, __global int *error, long error_offset,
                             __global int *space, long space_offset, const mx_getitem_shape s)
{
    for (long l = get_global_id(0); l < s.count; l += get_global_size(0)) {
        bool wrong = false;
        long place = 0;
        LOOK(0);
#if TENSORS > 1
        LOOK(1);
#endif
#if TENSORS > 2
        LOOK(2);
#endif
#if TENSORS > 3
        LOOK(3);
#endif
#if TENSORS > 4
        LOOK(4);
#endif
        space[space_offset + l] = wrong ? -1 : (int)place;
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void getitem_links(__global int *space, long space_offset,
                                                                                 const mx_getitem_shape s)
{
    const long groups = get_num_groups(0), group = get_group_id(0);
    const long from = group * s.places / groups, to = (group + 1) * s.places / groups;
    __global const int *places = space + space_offset;
    __global int *links = space + space_offset + s.links, *heads = space + space_offset + s.heads;
#if LOCAL == 1
    for (long i = from; i < to; i++)
        heads[i] = -1;
    for (long l = s.count - 1; l >= 0; l--)
        if (places[l] >= from && places[l] < to) {
            links[l] = heads[places[l]];
            heads[places[l]] = (int)l;
        }
#else
    __local int few[LOCAL];
    const int me = get_local_id(0);
    for (long i = from + me; i < to; i += LOCAL)
        heads[i] = -1;
    for (long first = (s.count - 1) / LOCAL * LOCAL; first >= 0; first -= LOCAL) {
        const long l = first + me;
        const int place = l < s.count ? places[l] : -1;
        const bool mine = place >= from && place < to;
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        few[me] = place;
        barrier(CLK_LOCAL_MEM_FENCE);
        int next = -1;
        bool is_first = mine;
        if (mine) {
            for (int other = 0; other < me; other++)
                is_first = is_first && few[other] != place;
            for (int other = LOCAL - 1; other > me; other--)
                next = few[other] == place ? other : next;
            links[l] = next >= 0 ? (int)(first + next) : heads[place];
        }
        barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (is_first)
            heads[place] = (int)l;
    }
#endif
}

/* Where a place is in dx. */
static inline long offset_of(const mx_getitem_shape *s, long place)
{
    long at = 0;
    for (int k = TENSORS - 1; k >= 0; k--) {
        at += place % s->len[k] * s->stride[k];
        place /= s->len[k];
    }
    return at;
}

#if TENSORS > 0
#define HEADS const bool head = places[l] >= 0 && heads[places[l]] == (int)l
#define PLACE offset_of(&s, places[l])
#define NEXT(l) links[l]
#else
#define HEADS const bool head = true
#define PLACE 0
#define NEXT(l) -1
#endif

__kernel void getitem_add(__global const STORAGE(T) *dy, long dy_offset, __global STORAGE(T) *dx, long dx_offset,
                          __global const int *space, long space_offset, const mx_getitem_shape s)
{
    __global const int *places = space + space_offset, *links = places + s.links, *heads = places + s.heads;
    const long row = s.inner.len[4];
#if ROWS
    const long units = s.count * s.outer_lines * s.outer.len[4] * s.inner_lines;
    for (long unit = get_global_id(0) * units / get_global_size(0);
         unit < (get_global_id(0) + 1) * units / get_global_size(0); unit++) {
        const long inner = unit % s.inner_lines, outer = unit / s.inner_lines % (s.outer_lines * s.outer.len[4]);
        const long l = unit / s.inner_lines / (s.outer_lines * s.outer.len[4]);
        HEADS;
        if (!head)
            continue;
        const long last = outer % s.outer.len[4], line = outer / s.outer.len[4];
        const long to = dx_offset + PLACE + mx_grid_offset(s.outer, 0, line) + last * s.outer.stride[0][4] +
                        mx_grid_offset(s.inner, 0, inner);
        const long from = dy_offset + mx_grid_offset(s.outer, 1, line) + last * s.outer.stride[1][4] +
                          mx_grid_offset(s.inner, 1, inner);
        const long dx_step = s.inner.stride[0][4], dy_step = s.inner.stride[1][4];
        for (long first = 0; first < row; first += PIECE) {
            const long n = min(row - first, (long)PIECE);
            ACC sum[PIECE], rest[PIECE];
            for (long i = 0; i < n; i++) {
                sum[i] = (ACC)LOAD(T)(dx, to + (first + i) * dx_step);
                rest[i] = 0;
            }
            for (long next = l; next >= 0; next = NEXT(next)) {
                const long at = from + next * s.dy_step + first * dy_step;
                long i = 0;
                if (dy_step == 1)
                    for (; i + VEC <= n; i += VEC) {
                        V total = MX_JOIN(vload, VEC)(0, sum + i), lost = MX_JOIN(vload, VEC)(0, rest + i);
                        MX_TWO_SUM(V, total, lost, MX_JOIN(convert_, V)(VLOAD(T)(dy, at + i)));
                        MX_JOIN(vstore, VEC)(total, 0, sum + i);
                        MX_JOIN(vstore, VEC)(lost, 0, rest + i);
                    }
                for (; i < n; i++)
                    MX_TWO_SUM(ACC, sum[i], rest[i], (ACC)LOAD(T)(dy, at + i * dy_step));
            }
            for (long i = 0; i < n; i++)
                STORE(T)(dx, to + (first + i) * dx_step, MX_TOTAL(sum[i], rest[i]));
        }
    }
#else
    const long inners = row * s.inner_lines, outers = s.outer_lines * s.outer.len[4];
    const long i = get_global_id(0), inner = i % inners, outer = i / inners % outers, l = i / inners / outers;
    if (l >= s.count)
        return;
    HEADS;
    if (!head)
        return;
    const long to = dx_offset + PLACE + mx_grid_offset(s.outer, 0, outer / s.outer.len[4]) +
                    outer % s.outer.len[4] * s.outer.stride[0][4] + mx_grid_offset(s.inner, 0, inner / row) +
                    inner % row * s.inner.stride[0][4];
    const long from = dy_offset + mx_grid_offset(s.outer, 1, outer / s.outer.len[4]) +
                      outer % s.outer.len[4] * s.outer.stride[1][4] + mx_grid_offset(s.inner, 1, inner / row) +
                      inner % row * s.inner.stride[1][4];
    ACC sum = (ACC)LOAD(T)(dx, to), rest = 0;
    for (long next = l; next >= 0; next = NEXT(next))
        MX_TWO_SUM(ACC, sum, rest, (ACC)LOAD(T)(dy, from + next * s.dy_step));
    STORE(T)(dx, to, MX_TOTAL(sum, rest));
#endif
}
