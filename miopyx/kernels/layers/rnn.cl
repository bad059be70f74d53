/* Recurrent layers: what is copied before, between and behind the steps, on all devices; layers/rnn.h.
 *
 *   rnn_begin, rnn_end                     first states to the workspace, last ones from there; counters become 0
 *   rnn_backward_begin, rnn_backward_cells likewise, of gradients
 *   rnn_gather, rnn_scatter                rows of padded sequences, from and to the order of steps
 *   rnn_before                             the states before each step, for the gradients of matrices
 *   rnn_spread, rnn_fold                   a layer that takes its input as it is: to all gates, and the sum back
 *   rnn_copy, rnn_clear                    some of the parameters; zeros
 *
 * Grid:       any number of work-items; on CPUs each has a range of rows, on GPUs elements that lie apart.
 * Parameters: those of layers/rnn.h; ON_CPU.
 * Bound by:   memory.
 */
#define VEC 1
#define HAS_FIRST 0
#ifndef ON_CPU
#define ON_CPU 0
#endif
#ifndef HAS_H /* 1: the states are given or wanted */
#define HAS_H 1
#endif
#ifndef HAS_C
#define HAS_C 1
#endif
#ifndef LAYOUT /* miopenRNNBaseLayout_t of x and y, 2 or 3 */
#define LAYOUT 2
#endif
#include "layers/rnn.h"

/* For each row below `rows` and each i below `width`. */
#if ON_CPU
#define FOR_ALL(rows, width)                                                                                     \
    for (long row = (long)get_global_id(0) * (rows) / get_global_size(0),                                        \
              row_end = ((long)get_global_id(0) + 1) * (rows) / get_global_size(0);                              \
         row < row_end; row++)                                                                                   \
        for (long i = 0; i < (width); i++)
#else
#define FOR_ALL(rows, width)                                                                                     \
    for (long all_ = get_global_id(0), row = all_ / (width), i = all_ % (width); row < (rows);                   \
         all_ += get_global_size(0), row = all_ / (width), i = all_ % (width))
#endif

#define STATE_ARGUMENTS(KIND)                                                                                    \
    __global KIND STORAGE(T) *h, long h_offset, __global KIND STORAGE(T) *c, long c_offset, __global ACC *states,\
    long states_offset, __global const int *table, long table_offset, const mx_rnn s
#define STATE_OFFSETS              \
    h += h_offset;                 \
    c += c_offset;                 \
    states += states_offset;       \
    table += table_offset

#define CLEAR_COUNTERS(numbers)                                                \
    if (get_global_id(0) == 0)                                                 \
        for (long i = 0; s.shares > 0 && i < s.dirs * (s.shares + 1); i++)     \
            COUNTERS(numbers)[i * COUNTER] = 0

__kernel void rnn_begin(STATE_ARGUMENTS(const))
{
    STATE_OFFSETS;
    CLEAR_COUNTERS(FORWARD_NUMBERS);
    FOR_ALL(s.dirs * s.batch, s.padded)
    {
        const long dir = row / s.batch, rank = row % s.batch, from = STATE_OF(dir, rank) + i;
        const bool inside = i < s.hidden;
        const ACC state = HAS_H && inside ? (ACC)LOAD(T)(h, from) : 0;
        states[H_STATE(0, dir) + rank * s.padded + i] = state;
        states[H_STATE(1, dir) + rank * s.padded + i] = state;
#if CELL == 2
        states[C_STATE(dir) + rank * s.padded + i] = HAS_C && inside ? (ACC)LOAD(T)(c, from) : 0;
#endif
    }
}

__kernel void rnn_end(STATE_ARGUMENTS())
{
    STATE_OFFSETS;
    FOR_ALL(s.dirs * s.batch, s.hidden)
    {
        const long dir = row / s.batch, rank = row % s.batch, to = STATE_OF(dir, rank) + i;
        /* Forward in time a sequence ends when it does, backward in time at the first step. */
        const int odd = last_odd(table, s, !dir, rank);
#if HAS_H
        STORE(T)(h, to, states[H_STATE(odd, dir) + rank * s.padded + i]);
#endif
#if HAS_C && CELL == 2
        STORE(T)(c, to, states[C_STATE(dir) + rank * s.padded + i]);
#endif
    }
}

__kernel void rnn_backward_begin(STATE_ARGUMENTS(const))
{
    STATE_OFFSETS;
    CLEAR_COUNTERS(BACKWARD_NUMBERS);
    FOR_ALL(s.dirs * s.batch, s.padded)
    {
        const long dir = row / s.batch, rank = row % s.batch, from = STATE_OF(dir, rank) + i;
        const bool inside = i < s.hidden;
        for (int g = 0; g < GATES; g++) {
            states[DELTA_STATE(0, dir) + rank * DELTA_ROW + g * s.padded + i] = 0;
            states[DELTA_STATE(1, dir) + rank * DELTA_ROW + g * s.padded + i] = 0;
        }
        states[DH_STATE(dir) + rank * s.padded + i] = HAS_H && inside ? (ACC)LOAD(T)(h, from) : 0;
#if CELL == 2
        states[DC_STATE(dir) + rank * s.padded + i] = HAS_C && inside ? (ACC)LOAD(T)(c, from) : 0;
#endif
    }
}

__kernel void rnn_backward_cells(__global STORAGE(T) *c, long c_offset, __global ACC *states, long states_offset,
                                 __global const int *table, long table_offset, const mx_rnn s)
{
    c += c_offset;
    states += states_offset;
    table += table_offset;
    FOR_ALL(s.dirs * s.batch, s.hidden)
    {
        const long dir = row / s.batch, rank = row % s.batch;
        STORE(T)(c, STATE_OF(dir, rank) + i, states[DC_STATE(dir) + rank * s.padded + i]);
    }
}

/* A row of a padded tensor: the row in the order of steps, -1 for none. */
static inline long inner_row(__global const int *table, const mx_rnn s, long row)
{
    const long t = LAYOUT == 3 ? row % s.outer[1] : row / s.outer[1];
    const long sequence = LAYOUT == 3 ? row / s.outer[1] : row % s.outer[1], rank = RANK(sequence);
    return rank < ROWS_OF(t) ? FIRST_ROW(t) + rank : -1;
}

#define ROWS_ARGUMENTS                                                                                          \
    __global const STORAGE(T) *from, long from_offset, __global STORAGE(T) *to, long to_offset,                 \
    __global const int *table, long table_offset, const mx_rnn s, long width
#define ROWS_OFFSETS               \
    from += from_offset;           \
    to += to_offset;               \
    table += table_offset

__kernel void rnn_gather(ROWS_ARGUMENTS)
{
    ROWS_OFFSETS;
    FOR_ALL(s.outer[0] * s.outer[1], width)
    {
        const long inner = inner_row(table, s, row);
        if (inner >= 0)
            to[inner * width + i] = from[row * width + i];
    }
}

__kernel void rnn_scatter(ROWS_ARGUMENTS)
{
    ROWS_OFFSETS;
    FOR_ALL(s.outer[0] * s.outer[1], width)
    {
        const long inner = inner_row(table, s, row);
        to[row * width + i] = inner >= 0 ? from[inner * width + i] : (STORAGE(T))0;
    }
}

/* to: directions x rows x hidden. */
__kernel void rnn_before(__global const STORAGE(T) *y, long y_offset, __global const STORAGE(T) *hx, long hx_offset,
                         __global STORAGE(T) *to, long to_offset, __global const int *table, long table_offset,
                         const mx_rnn s)
{
    y += y_offset;
    hx += hx_offset;
    to += to_offset;
    table += table_offset;
    FOR_ALL(s.dirs * s.steps * s.batch, s.hidden)
    {
        const long dir = row / (s.steps * s.batch), t = row / s.batch % s.steps, rank = row % s.batch;
        const long before = dir ? t + 1 : t - 1;
        if (rank < ROWS_OF(t)) {
            STORAGE(T) value = 0;
            if (rank < ROWS_OF(before))
                value = y[((FIRST_ROW(before) + rank) * s.dirs + dir) * s.hidden + i];
            else if (HAS_H)
                value = hx[STATE_OF(dir, rank) + i];
            to[(dir * s.rows + FIRST_ROW(t) + rank) * s.hidden + i] = value;
        }
    }
}

__kernel void rnn_spread(__global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *gates, long gates_offset,
                         const mx_rnn s)
{
    x += x_offset;
    gates += gates_offset;
    FOR_ALL(s.dirs * s.rows * GATES, s.hidden)
        gates[row * s.hidden + i] = x[row / GATES % s.rows * s.hidden + i];
}

__kernel void rnn_fold(__global const STORAGE(T) *deltas, long deltas_offset, __global STORAGE(T) *dx, long dx_offset,
                       const mx_rnn s)
{
    deltas += deltas_offset;
    dx += dx_offset;
    FOR_ALL(s.rows, s.hidden)
    {
        ACC sum = 0;
        for (long dir = 0; dir < s.dirs; dir++)
            for (int g = 0; g < GATES; g++)
                sum += LOAD(T)(deltas, ((dir * s.rows + row) * GATES + g) * s.hidden + i);
        STORE(T)(dx, row * s.hidden + i, sum);
    }
}

__kernel void rnn_copy(__global const STORAGE(T) *from, long from_offset, __global STORAGE(T) *to, long to_offset,
                       long count)
{
    from += from_offset;
    to += to_offset;
    FOR_ALL(count, 1L)
        to[row + i] = from[row + i];
}

__kernel void rnn_clear(__global STORAGE(T) *to, long to_offset, long count)
{
    to += to_offset;
    FOR_ALL(count, 1L)
        to[row] = 0;
}
