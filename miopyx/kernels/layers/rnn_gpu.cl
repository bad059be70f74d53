/* Recurrent layers on GPUs: a step, with the product of the states; layers/rnn.h has the formulas.
 *
 *      lanes: units ->                  A group has ROWS sequences and UNITS units.  A work-item has PER units, of which
 *     +----------------------+          forward all gates, and of their sums every SLICES-th run of RUN terms, for all
 *     |  ROWS x COLS each    |          rows, in registers: a run of a state is broadcast to the lanes and feeds COLS
 *     +----------------------+          sums, a run of a column feeds ROWS.  Then the slices are added up in local
 *                                       memory, CHUNK rows at a time, and a work-item has a row's unit.
 *
 *   rnn_pack            the state's matrices, as panels [k / RUN][COLS][lanes][RUN]
 *   rnn_forward         step `from`
 *   rnn_backward        likewise, in the opposite order; a column is a unit
 *   rnn_backward_end    the gradients of the first states
 *
 * Grid:         (blocks of sequences, panels, directions) of groups of SLICES * UNITS / PER work-items.
 * Local memory: (SLICES * CHUNK + ROWS) * columns numbers.
 * Parameters:   those of layers/rnn.h, below.
 * Bound by:     the caches, where states are long and there are many; else the launch.
 */
#define VEC 1
#ifndef PADDED /* numbers of a state in the workspace, a multiple of RUN */
#define PADDED 64
#endif
#ifndef UNITS /* of a panel */
#define UNITS 8
#endif
#ifndef PER /* units of a work-item */
#define PER 1
#endif
#ifndef SLICES /* parts of the sum */
#define SLICES 8
#endif
#ifndef ROWS /* sequences of a group */
#define ROWS 16
#endif
#ifndef CHUNK /* rows whose slices are added up at once */
#define CHUNK 4
#endif
#ifndef BACKWARD
#define BACKWARD 0
#endif
#ifndef HAS_FIRST
#define HAS_FIRST 0
#endif
#include "layers/rnn.h"
#include "include/group_inline.h"

#define RUN 4
#if BACKWARD
#define PER_UNIT 1
#define STRIDE (GATES * PADDED)
#else
#define PER_UNIT GATES
#define STRIDE PADDED
#endif
#define DEPTH STRIDE
#define LANES (UNITS / PER)
#define COLS (PER * PER_UNIT)
#define COLUMNS (UNITS * PER_UNIT)
#define PANELS ((s.hidden + UNITS - 1) / UNITS)
#define GROUP (SLICES * LANES)
/* Elements of a group's part of the step that a work-item has.  By NVIDIA's compiler few are read before the
 * product, which hides how long that takes; with PoCL results were wrong so, for a reason that was not found. */
#define PAIRS ((ROWS * UNITS + GROUP - 1) / GROUP)
#ifdef __NV_CL_C_VERSION
#define EARLY (PAIRS <= 2)
#else
#define EARLY 0
#endif
#if EARLY
#define READ in[p]
#else
#define READ in
#endif
#define UNROLL (ROWS > 8 ? 1 : ROWS > 4 ? 2 : 4)
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
typedef MX_JOIN(ACC, 4) run_t;
#define IS_double 1
#define IS_float 0
#if MX_JOIN(IS_, ACC) /* a workspace is aligned at 16 bytes, a double4 would want 32 */
#define GET_RUN(p) vload4(0, p)
#define PUT_RUN(p, v) vstore4(v, 0, p)
#else /* vload4 may take a number at a time */
#define GET_RUN(p) (*(__global const run_t *)(p))
#define PUT_RUN(p, v) (*(__local run_t *)(p) = (v))
#endif

KERNEL rnn_pack(__global const STORAGE(T) *w, long w_offset, __global ACC *packed, long packed_offset, const mx_rnn s)
{
    w += w_offset;
    packed += packed_offset;
    const long all = s.dirs * PANELS * DEPTH * COLUMNS;
    for (long at = get_global_id(0); at < all; at += get_global_size(0)) {
        const int term = at % RUN, lane = at / RUN % LANES, j = at / (RUN * LANES) % COLS;
        const long k = at / (RUN * COLUMNS) % (DEPTH / RUN) * RUN + term, number = at / COLUMNS / DEPTH;
        const long u = number % PANELS * UNITS + lane * PER + j / PER_UNIT, g = BACKWARD ? k / PADDED : j % PER_UNIT;
        const long from = BACKWARD ? k % PADDED : k;
        __global const STORAGE(T) *of = w + number / PANELS * GATES * s.hidden * s.hidden + g * s.hidden * s.hidden;
        packed[at] = u < s.hidden && from < s.hidden
                         ? (ACC)LOAD(T)(of, BACKWARD ? from * s.hidden + u : u * s.hidden + from) : 0;
    }
}

/* totals[row][unit][gate]: sums over k.  Of ROWS rows `inside` are read: behind them may be what another group writes. */
GROUP_INLINE void multiply(__local ACC *part, __local ACC *totals, __global const ACC *restrict first, int inside,
                           __global const ACC *restrict panel)
{
    const int me = get_local_id(0), lane = me % LANES, slice = me / LANES;
    ACC sum[ROWS][COLS];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLS; j++)
            sum[i][j] = 0;
#pragma unroll UNROLL
    for (int run = slice; run < DEPTH / RUN; run += SLICES) {
        run_t column[COLS];
#pragma unroll
        for (int j = 0; j < COLS; j++)
            column[j] = GET_RUN(panel + ((run * COLS + j) * LANES + lane) * RUN);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const run_t state = GET_RUN(first + min(i, inside - 1) * STRIDE + run * RUN);
#pragma unroll
            for (int j = 0; j < COLS; j++) {
                sum[i][j] += state.x * column[j].x;
                sum[i][j] += state.y * column[j].y;
                sum[i][j] += state.z * column[j].z;
                sum[i][j] += state.w * column[j].w;
            }
        }
    }
#pragma unroll
    for (int row = 0; row < ROWS; row += CHUNK) {
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            if (row + i < ROWS) {
                __local ACC *to = part + ((slice * CHUNK + i) * LANES + lane) * COLS;
#if COLS % 4 == 0
#pragma unroll
                for (int j = 0; j < COLS; j += 4)
                    PUT_RUN(to + j, (run_t)(sum[row + i][j], sum[row + i][j + 1], sum[row + i][j + 2], sum[row + i][j + 3]));
#else
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    to[j] = sum[row + i][j];
#endif
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = me; e < min(CHUNK, ROWS - row) * COLUMNS; e += GROUP) {
            ACC total = 0;
#pragma unroll 8
            for (int i = 0; i < SLICES; i++)
                total += part[i * CHUNK * COLUMNS + e];
            totals[row * COLUMNS + e] = total;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#define MY_SHARE                                                                                \
    __local ACC part[GROUP * COLS * CHUNK] __attribute__((aligned(32))), totals[ROWS * COLUMNS];\
    const long begin = get_group_id(0) * ROWS, number = get_group_id(1), dir = get_group_id(2); \
    packed += (dir * PANELS + number) * DEPTH * COLUMNS

/* For this work-item's elements of the step. */
#if EARLY
#define FOR_PAIRS                                                                                       \
    _Pragma("unroll") for (int p = 0; p < PAIRS; p++) {                                                 \
        const int e = (int)get_local_id(0) + p * GROUP;                                                 \
        const long u = number * UNITS + e % UNITS, rank = begin + e / UNITS;                            \
        if (e >= inside * UNITS || u >= s.hidden)                                                       \
            continue;
#else
#define FOR_PAIRS                                                                                       \
    for (int e = get_local_id(0); e < inside * UNITS; e += GROUP) {                                     \
        const long u = number * UNITS + e % UNITS, rank = begin + e / UNITS;                            \
        if (u >= s.hidden)                                                                              \
            continue;
#endif
#define END }

#if !BACKWARD
KERNEL rnn_forward(FORWARD_ARGUMENTS)
{
    FORWARD_OFFSETS;
    MY_SHARE;
    const long t = dir ? s.steps - 1 - from : from, rows = ROWS_OF(t), base = FIRST_ROW(t);
    const int inside = (int)min(rows - begin, (long)ROWS);
    if (inside <= 0)
        return; /* the whole group */
#if EARLY
    mx_forward in[PAIRS];
    FOR_PAIRS in[p] = read_forward(gates, x_bias, r_bias, states, s, dir, rank, base + rank, u, from & 1);
    END
#endif
    multiply(part, totals, states + H_STATE(from, dir) + begin * PADDED, inside, packed);
    FOR_PAIRS
        ACC r[GATES];
#if !EARLY
        const mx_forward in = read_forward(gates, x_bias, r_bias, states, s, dir, rank, base + rank, u, from & 1);
#endif
        for (int g = 0; g < GATES; g++)
            r[g] = totals[e * GATES + g];
        write_forward(READ, r, gates, states, y, cells, s, dir, rank, base + rank, u, from & 1);
    END
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
#if EARLY
    mx_backward in[PAIRS];
    FOR_PAIRS in[p] = read_backward(dy, y, gates, cells, first, table, states, s, dir, t, rank, base + rank, u);
    END
#endif
    multiply(part, totals, states + DELTA_STATE(from, dir) + begin * DELTA_ROW, inside, packed);
    FOR_PAIRS
#if !EARLY
        const mx_backward in = read_backward(dy, y, gates, cells, first, table, states, s, dir, t, rank, base + rank, u);
#endif
        write_backward(READ, totals[e], deltas, inner, states, s, dir, rank, base + rank, u, from & 1);
    END
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
        multiply(part, totals, states + DELTA_STATE(odd, dir) + begin * DELTA_ROW, inside, packed);
        FOR_PAIRS if (last_odd(table, s, dir, rank) == odd)
            STORE(T)(dhx, STATE_OF(dir, rank) + u, totals[e] + states[DH_STATE(dir) + rank * s.padded + u]);
        END
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif
