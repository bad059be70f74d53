/* Recurrent layers on GPUs: a step, with the product of the states; layers/rnn.h has the formulas.
 *
 *      columns: gates x UNITS           A group has ROWS sequences and UNITS units.  A work-item has a column, and of the
 *     +----------------------+          sum every SLICES-th run of RUN terms, for all rows: states are broadcast, the
 *     |  ROWS                |          matrix is read along the columns, both from the caches.  Then the slices are added
 *     +----------------------+          up in local memory, and a work-item has a row's unit.
 *
 *   rnn_pack            the state's matrices, as panels [k][columns]
 *   rnn_forward         step `from`
 *   rnn_backward        likewise, in the opposite order; a column is a unit
 *   rnn_backward_end    the gradients of the first states
 *
 * Grid:         (blocks of sequences, panels, directions) of groups of SLICES * columns work-items.
 * Local memory: SLICES * ROWS * columns numbers.
 * Parameters:   those of layers/rnn.h, below.
 * Bound by:     the caches' latency; the launch, where states are short.
 */
#define VEC 1
#ifndef UNITS /* units of a panel */
#define UNITS 8
#endif
#ifndef SLICES /* parts of the sum */
#define SLICES 8
#endif
#ifndef ROWS /* sequences of a group */
#define ROWS 16
#endif
#ifndef BACKWARD
#define BACKWARD 0
#endif
#ifndef HAS_FIRST
#define HAS_FIRST 0
#endif
#include "layers/rnn.h"

#define RUN 4 /* `padded` is a multiple of it */
#if BACKWARD
#define COLUMNS UNITS
#define PER_UNIT 1
#define DEPTH (GATES * s.padded)
#else
#define COLUMNS (UNITS * GATES)
#define PER_UNIT GATES
#define DEPTH s.padded
#endif
#define PANELS ((s.hidden + UNITS - 1) / UNITS)
#define GROUP (SLICES * COLUMNS)
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define GROUP_INLINE static inline __attribute__((always_inline)) /* it has a barrier */
typedef MX_JOIN(ACC, 4) run_t;

KERNEL rnn_pack(__global const STORAGE(T) *w, long w_offset, __global ACC *packed, long packed_offset, const mx_rnn s)
{
    w += w_offset;
    packed += packed_offset;
    const long all = s.dirs * PANELS * DEPTH * COLUMNS;
    for (long at = get_global_id(0); at < all; at += get_global_size(0)) {
        const long column = at % COLUMNS, k = at / COLUMNS % DEPTH, number = at / COLUMNS / DEPTH;
        const long u = number % PANELS * UNITS + column % UNITS, g = BACKWARD ? k / s.padded : column / UNITS;
        const long from = BACKWARD ? k % s.padded : k;
        __global const STORAGE(T) *of = w + number / PANELS * GATES * s.hidden * s.hidden + g * s.hidden * s.hidden;
        packed[at] = u < s.hidden && from < s.hidden
                         ? (ACC)LOAD(T)(of, BACKWARD ? from * s.hidden + u : u * s.hidden + from) : 0;
    }
}

/* part[slice][row][column]: this work-item's share of the sums; rows beyond `count` repeat the last one. */
GROUP_INLINE void multiply(__local ACC *part, __global const ACC *restrict first, long stride,
                           __global const ACC *restrict panel, long depth, int count)
{
    const int me = get_local_id(0), column = me % COLUMNS, slice = me / COLUMNS;
    ACC sum[ROWS];
    int at[ROWS];
    for (int i = 0; i < ROWS; i++) {
        sum[i] = 0;
        at[i] = (int)(min(i, count - 1) * stride);
    }
    for (int k = slice * RUN; k < depth; k += SLICES * RUN) {
        ACC b[RUN];
        for (int j = 0; j < RUN; j++)
            b[j] = panel[(k + j) * COLUMNS + column];
        for (int i = 0; i < ROWS; i++) {
            const run_t a = vload4(0, first + at[i] + k);
            sum[i] += a.x * b[0] + a.y * b[1] + a.z * b[2] + a.w * b[3];
        }
    }
    for (int i = 0; i < ROWS; i++)
        part[(slice * ROWS + i) * COLUMNS + column] = sum[i];
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline ACC total(__local const ACC *part, int row, int column)
{
    ACC sum = 0;
    for (int slice = 0; slice < SLICES; slice++)
        sum += part[(slice * ROWS + row) * COLUMNS + column];
    return sum;
}

#define MY_SHARE                                                                            \
    __local ACC part[GROUP * ROWS];                                                         \
    const long begin = get_group_id(0) * ROWS, number = get_group_id(1), dir = get_group_id(2); \
    packed += (dir * PANELS + number) * DEPTH * COLUMNS

#if !BACKWARD
KERNEL rnn_forward(FORWARD_ARGUMENTS)
{
    FORWARD_OFFSETS;
    MY_SHARE;
    const long t = dir ? s.steps - 1 - from : from, rows = ROWS_OF(t), base = FIRST_ROW(t);
    const int inside = (int)min(rows - begin, (long)ROWS);
    if (inside <= 0)
        return; /* the whole group */
    multiply(part, states + H_STATE(from, dir) + begin * s.padded, s.padded, packed, DEPTH, inside);
    for (int e = get_local_id(0); e < inside * UNITS; e += GROUP) {
        const int row = e / UNITS, unit = e % UNITS;
        const long u = number * UNITS + unit;
        ACC r[GATES];
        if (u >= s.hidden)
            continue;
        for (int g = 0; g < GATES; g++)
            r[g] = total(part, row, g * UNITS + unit);
        step_forward(r, gates, x_bias, r_bias, states, y, cells, s, dir, begin + row, base + begin + row, u, from & 1);
    }
}
#else
KERNEL rnn_backward(BACKWARD_ARGUMENTS)
{
    BACKWARD_OFFSETS;
    MY_SHARE;
    const long t = dir ? from : s.steps - 1 - from, rows = ROWS_OF(t), base = FIRST_ROW(t);
    const int inside = (int)min(rows - begin, (long)ROWS);
    if (inside <= 0)
        return; /* the whole group */
    multiply(part, states + DELTA_STATE(from, dir) + begin * DELTA_ROW, DELTA_ROW, packed, DEPTH, inside);
    for (int e = get_local_id(0); e < inside * UNITS; e += GROUP) {
        const int row = e / UNITS, unit = e % UNITS;
        const long u = number * UNITS + unit;
        if (u < s.hidden)
            step_backward(total(part, row, unit), dy, y, gates, cells, deltas, inner, first, table, states, s, dir, t,
                          begin + row, base + begin + row, u, from & 1);
    }
}

/* Sequences end at an even or at an odd step: both products are made, and each takes its own. */
KERNEL rnn_backward_end(__global STORAGE(T) *dhx, long dhx_offset, __global const ACC *packed, long packed_offset,
                        __global ACC *states, long states_offset, __global const int *table, long table_offset,
                        const mx_rnn s)
{
    dhx += dhx_offset;
    packed += packed_offset;
    states += states_offset;
    table += table_offset;
    MY_SHARE;
    const int inside = (int)min(s.batch - begin, (long)ROWS);
    for (int odd = 0; odd < 2; odd++) {
        multiply(part, states + DELTA_STATE(odd, dir) + begin * DELTA_ROW, DELTA_ROW, packed, DEPTH, inside);
        for (int e = get_local_id(0); e < inside * UNITS; e += GROUP) {
            const int row = e / UNITS, unit = e % UNITS;
            const long u = number * UNITS + unit, rank = begin + row;
            if (u < s.hidden && last_odd(table, s, dir, rank) == odd)
                STORE(T)(dhx, STATE_OF(dir, rank) + u,
                         total(part, row, unit) + states[DH_STATE(dir) + rank * s.padded + u]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
