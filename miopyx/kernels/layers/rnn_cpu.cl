/* Recurrent layers on CPUs: the steps, each with the product of the states; layers/rnn.h has the formulas.
 *
 *      units ->  VECTORS * VEC          A work-item has some sequences and some panels of units.  Registers: ROWS
 *     +----------------------+          sequences, whose states are broadcast from memory, x VECTORS vectors: the gates
 *     |  ROWS x VECTORS      |          of VEC units, or forward of one gate, and backward, UNITS times VEC of them.
 *     +----------------------+
 *
 *   rnn_pack            the state's matrices, as panels [k][VECTORS * VEC]
 *   rnn_forward         steps from ... from + count - 1
 *   rnn_backward        likewise, in the opposite order
 *   rnn_backward_end    the gradients of the first states
 *
 * Grid:         groups of one work-item.  Sequences do not depend on each other: (blocks of sequences, 1, directions).
 *               SHARED, (1, shares, 1): all groups have a step's panels together, each its share as long as all run,
 *               and wait for each other; one direction comes after the other, so that its matrix may stay in the caches.
 * Local memory: none.
 * Parameters:   those of layers/rnn.h, below.
 * Bound by:     multiply-adds; by the matrices' memory where a core has few sequences.
 */
#ifndef VEC /* ACC numbers in a vector register */
#define VEC 16
#endif
#ifndef UNITS /* vectors of units of a panel */
#define UNITS 1
#endif
#ifndef MANY /* 1: 32 vector registers, 0: 16 */
#define MANY 1
#endif
#ifndef BACKWARD
#define BACKWARD 0
#endif
#ifndef HAS_FIRST /* backward: 1: the first states (LSTM: cells) are given */
#define HAS_FIRST 0
#endif
#ifndef FAR /* 1: the panels of a core do not stay in its cache, so that the next one is fetched ahead */
#define FAR 0
#endif
#ifndef SHARED /* 1: groups share panels, 0: each has sequences of its own */
#define SHARED 0
#endif
#include "layers/rnn.h"
#include "conv/cpu/register_tile.h"

#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
typedef V vec;
/* vload makes the compiler take whole registers, see NOINLINE. */
#if VEC > 1
#define READ(p) VJOIN(vload)(0, p)
#else
#define READ(p) *(p)
#endif
#include "conv/cpu/transpose.h"
#define VECTORS (BACKWARD ? UNITS : UNITS * GATES)
#if BACKWARD || GATES == 1
#define WIDTH UNITS
#else
#define WIDTH GATES
#endif
/* Rows of a tile: as many as registers hold, and fewer, so that what is left is shared out evenly. */
#if WIDTH == 1
#define ROWS_0 (MANY ? 16 : 8)
#define ROWS_1 (MANY ? 12 : 6)
#define ROWS_2 (MANY ? 8 : 4)
#define ROWS_3 (MANY ? 4 : 2)
#elif WIDTH == 2
#define ROWS_0 (MANY ? 12 : 6)
#define ROWS_1 (MANY ? 8 : 4)
#define ROWS_2 (MANY ? 6 : 3)
#define ROWS_3 (MANY ? 3 : 2)
#elif WIDTH == 3
#define ROWS_0 (MANY ? 8 : 4)
#define ROWS_1 (MANY ? 6 : 3)
#define ROWS_2 (MANY ? 4 : 2)
#define ROWS_3 2
#else
#define ROWS_0 (MANY ? 6 : 3)
#define ROWS_1 (MANY ? 5 : 2)
#define ROWS_2 (MANY ? 4 : 2)
#define ROWS_3 2
#endif
#define MOST_ROWS 96 /* whose sums are made at a time; a multiple of ROWS_0 */
#define DEPTH (BACKWARD ? GATES * s.padded : s.padded)
#define LAST_BLOCK ((DEPTH - 1) / BLOCK_TERMS * BLOCK_TERMS) /* where it begins */
#define PANELS ((s.hidden + UNITS * VEC - 1) / (UNITS * VEC))

/* What rows read besides the states comes from far away, a line of each row and gate, so it is asked for before the
 * product: without this the cores wait for it a fifth of the time. */
#define PREFETCH(p) MX_PREFETCH(p, 0)
#if FAR
#define FETCH_NEXT(p) PREFETCH(p)
#else
#define FETCH_NEXT(p)
#endif

/* sums[ROWS][VECTORS] = or += sum over k of a[row][k] panel[k][VECTORS]; a line at every `every` numbers of `next` is
 * fetched meanwhile. */
#define DEFINE_MULTIPLY(NAME, ROWS)                                                                            \
    NOINLINE void NAME(bool add, vec *restrict sums, __global const ACC *restrict first, long stride,          \
                       __global const ACC *restrict panel, long depth, __global const ACC *next, long every)   \
    {                                                                                                          \
        vec t[ROWS][WIDTH];                                                                                    \
        __global const ACC *a[ROWS];                                                                           \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                       \
            a[i] = first + i * stride;                                                                         \
        FOR_TILE(ROWS, WIDTH, t[i][j] = (vec)0;)                                                               \
        for (long k = 0; k < depth; k++) {                                                                     \
            vec b[WIDTH];                                                                                      \
            FETCH_NEXT(next + k * every);                                                                      \
            _Pragma("unroll") for (int j = 0; j < WIDTH; j++)                                                  \
                b[j] = READ(panel + (k * WIDTH + j) * VEC);                                                    \
            OUTER_PRODUCT(ROWS, WIDTH, t, a[i][k], b[j])                                                       \
        }                                                                                                      \
        FOR_TILE(ROWS, WIDTH, sums[i * WIDTH + j] = add ? sums[i * WIDTH + j] + t[i][j] : t[i][j];)            \
    }
DEFINE_MULTIPLY(multiply_0, ROWS_0)
DEFINE_MULTIPLY(multiply_1, ROWS_1)
DEFINE_MULTIPLY(multiply_2, ROWS_2)
DEFINE_MULTIPLY(multiply_3, ROWS_3)
DEFINE_MULTIPLY(multiply_4, 1)

/* The products of MOST_ROWS rows or fewer with a panel, of terms from `begin` on, a multiple of BLOCK_TERMS.
 * All rows pass over BLOCK_TERMS terms before the next ones: both operands' blocks stay in a core's cache.  The tiles
 * share the lines of the panel `next`. */
NOINLINE void multiply(vec *restrict sums, __global const ACC *restrict first, long stride, long rows,
                       __global const ACC *restrict panel, long begin, long depth, __global const ACC *next)
{
    const long every = WIDTH * VEC * ROWS_0 / (rows + ROWS_0 - 1);
    for (long from = begin; from < depth; from += BLOCK_TERMS) {
        const long terms = min(depth - from, (long)BLOCK_TERMS);
        for (long i = 0; i < rows;) {
            const long left = rows - i, tiles = (left + ROWS_0 - 1) / ROWS_0, even = (left + tiles - 1) / tiles;
            const bool add = from > 0;
            vec *to = sums + i * WIDTH;
            __global const ACC *a = first + i * stride + from, *b = panel + from * WIDTH * VEC;
            __global const ACC *then = next + (from + i * terms / rows) * WIDTH * VEC;
            if (even >= ROWS_0) {
                multiply_0(add, to, a, stride, b, terms, then, every);
                i += ROWS_0;
            } else if (even >= ROWS_1) {
                multiply_1(add, to, a, stride, b, terms, then, every);
                i += ROWS_1;
            } else if (even >= ROWS_2) {
                multiply_2(add, to, a, stride, b, terms, then, every);
                i += ROWS_2;
            } else if (even >= ROWS_3) {
                multiply_3(add, to, a, stride, b, terms, then, every);
                i += ROWS_3;
            } else {
                multiply_4(add, to, a, stride, b, terms, then, every);
                i++;
            }
        }
    }
}

#if !BACKWARD
/* VEC rows of w, of which `rows` exist, as columns. */
NOINLINE void pack_rows(__global ACC *to, __global const STORAGE(T) *w, long rows, long hidden, long padded)
{
    for (long k = 0; k < padded; k += VEC) {
        vec a[VEC];
        for (int lane = 0; lane < VEC; lane++)
            a[lane] = lane < rows ? get(w, lane * hidden + k, hidden - k) : (vec)0;
        transpose(a);
        for (int i = 0; i < VEC; i++)
            PUT_ACC(to, (k + i) * WIDTH * VEC, a[i]);
    }
}
#endif

/* w: of each direction (gates * hidden) x hidden. */
KERNEL rnn_pack(__global const STORAGE(T) *w, long w_offset, __global ACC *packed, long packed_offset, const mx_rnn s)
{
    w += w_offset;
    packed += packed_offset;
    const long panels = s.dirs * PANELS, me = get_group_id(0), groups = get_num_groups(0);
    for (long number = me * panels / groups; number < (me + 1) * panels / groups; number++) {
        __global const STORAGE(T) *of = w + number / PANELS * GATES * s.hidden * s.hidden;
        __global ACC *panel = packed + number * DEPTH * WIDTH * VEC;
        const long first = number % PANELS * UNITS * VEC;
#if BACKWARD
        for (int g = 0; g < GATES; g++)
            for (long k = 0; k < s.padded; k++)
                for (int j = 0; j < UNITS; j++) {
                    const long u = first + j * VEC;
                    PUT_ACC(panel, ((g * s.padded + k) * UNITS + j) * VEC,
                            k < s.hidden ? get(of, (g * s.hidden + k) * s.hidden + u, s.hidden - u) : (V)0);
                }
#else
        for (int j = 0; j < WIDTH; j++) {
            const long u = first + (GATES == 1 ? j * VEC : 0), g = GATES == 1 ? 0 : j;
            pack_rows(panel + j * VEC, of + (g * s.hidden + u) * s.hidden, s.hidden - u, s.hidden, s.padded);
        }
#endif
    }
}

#define ROW_GATES(row) (gates + (dir * s.rows + (row)) * GATES * s.hidden)
#define ROW_CELLS(row) (cells + (dir * s.rows + (row)) * s.hidden)
#define ROW_OUT(y, row) ((y) + (row)*s.dirs * s.hidden + dir * s.hidden)
#define FOR_ROWS(low, high)                                                     \
    for (long rank = low; rank < high; rank++)                                  \
        for (long j = 0, u = number * UNITS * VEC; j < UNITS; j++, u += VEC)

#define PANEL(number) (packed + (dir * PANELS + (number)) * DEPTH * WIDTH * VEC)

#if SHARED
#if defined(__has_builtin)
#if __has_builtin(__builtin_ia32_pause)
#define PAUSE() __builtin_ia32_pause()
#endif
#endif
#ifndef PAUSE
#define PAUSE()
#endif

/* A number below `count` that nobody had in this turn, or `count`. */
static inline int take(volatile __global int *taken, uint turn, int count)
{
    const uint limit = (turn + 1) * (uint)count;
    for (int old = *taken;;) {
        if ((int)((uint)old - limit) >= 0)
            return count;
        const int now = atomic_cmpxchg(taken, old, (int)((uint)old + 1));
        if (now == old)
            return (int)((uint)old - limit) + count;
        old = now;
    }
}

/* The next panel of a step: of the group's own, which stay in its core's cache, then one that others have not begun.
 * Every other step begins where the last one ended, at what was read last.  `from` is how many groups were asked. */
static inline long next_panel(volatile __global int *counters, uint turn, long share, long shares, long panels,
                              int *from)
{
    for (; *from < shares; ++*from) {
        const long of = (share + *from) % shares, first = of * panels / shares;
        const int count = (int)((of + 1) * panels / shares - first), i = take(counters + of * COUNTER, turn, count);
        if (i < count)
            return first + (turn & 1 ? count - 1 - i : i);
    }
    return -1;
}

/* Until all panels of the step are done.  Who waits has none left to begin, and whoever began one runs: so this ends,
 * however few groups run at a time.  PoCL's atomics order what lies before and behind them. */
static inline void wait_for_all(volatile __global int *done, int mine, uint turn, long panels)
{
    const uint all = (turn + 1) * (uint)panels;
    for (int now = atomic_add(done, mine) + mine; (int)((uint)now - all) < 0;) {
        PAUSE();
        now = *done;
        if ((int)((uint)now - all) >= 0)
            now = atomic_add(done, 0);
    }
}

#define FOR_DIRECTIONS                                                                                    \
    const long share = get_group_id(1), shares = get_num_groups(1), begin = 0, limit = s.batch;           \
    vec sums[MOST_ROWS * WIDTH];                                                                          \
    for (long dir = 0; dir < s.dirs; dir++)
#define OF_DIRECTION(numbers)                                                                             \
    volatile __global int *counters = COUNTERS(numbers) + dir * (shares + 1) * COUNTER;                   \
    uint turn = 0;
#define FOR_PANELS                                                                                        \
    int asked = 0, mine = 0;                                                                              \
    for (long number; (number = next_panel(counters, turn, share, shares, PANELS, &asked)) >= 0; mine++)
#define NEXT_PANEL clamp(turn & 1 ? number - 1 : number + 1, 0L, PANELS - 1)
#define END_OF_STEP                                                                                       \
    wait_for_all(counters + shares * COUNTER, mine, turn, PANELS);                                        \
    turn++;
#else
#define FOR_DIRECTIONS                                                                                    \
    const long block = get_group_id(0), blocks = get_num_groups(0), dir = get_group_id(2);                \
    const long begin = block * s.batch / blocks, limit = (block + 1) * s.batch / blocks;                  \
    vec sums[MOST_ROWS * WIDTH];
#define OF_DIRECTION(numbers)
#define FOR_PANELS for (long number = 0; number < PANELS; number++)
#define NEXT_PANEL (number + 1 < PANELS ? number + 1 : 0)
#define END_OF_STEP
#endif

#if !BACKWARD
KERNEL rnn_forward(FORWARD_ARGUMENTS)
{
    FORWARD_OFFSETS;
    FOR_DIRECTIONS
    {
        OF_DIRECTION(FORWARD_NUMBERS)
        for (long k = from; k < from + count; k++) {
            const long t = dir ? s.steps - 1 - k : k, end = min(limit, ROWS_OF(t));
            if (begin >= end)
                continue;
            const long base = FIRST_ROW(t);
            FOR_PANELS
                for (long low = begin; low < end; low += MOST_ROWS) {
                    const long high = min(end, low + MOST_ROWS);
                    FOR_ROWS(low, high)
                        for (int g = 0; g < GATES; g++)
                            PREFETCH(ROW_GATES(base + rank) + g * s.hidden + u);
                    multiply(sums, states + H_STATE(k, dir) + low * s.padded, s.padded, high - low, PANEL(number), 0,
                             DEPTH, PANEL(NEXT_PANEL));
                    FOR_ROWS(low, high)
                        if (u < s.hidden)
                            step_forward(sums + (rank - low) * WIDTH + j * GATES, gates, x_bias, r_bias, states, y,
                                         cells, s, dir, rank, base + rank, u, (int)(k & 1));
                }
            END_OF_STEP
        }
    }
}
#else
KERNEL rnn_backward(BACKWARD_ARGUMENTS)
{
    BACKWARD_OFFSETS;
    FOR_DIRECTIONS
    {
        OF_DIRECTION(BACKWARD_NUMBERS)
        for (long k = from; k < from + count; k++) {
            const long t = dir ? k : s.steps - 1 - k, end = min(limit, ROWS_OF(t));
            if (begin >= end)
                continue;
            const long base = FIRST_ROW(t), before = FIRST_ROW(clamp(dir ? t + 1 : t - 1, 0L, s.steps - 1));
            FOR_PANELS
                for (long low = begin; low < end; low += MOST_ROWS) {
                    const long high = min(end, low + MOST_ROWS);
                    __global const ACC *rows = states + DELTA_STATE(k, dir) + low * DELTA_ROW;
                    multiply(sums, rows, DELTA_ROW, high - low, PANEL(number), 0, LAST_BLOCK, PANEL(NEXT_PANEL));
                    FOR_ROWS(low, high)
                    {
                        PREFETCH(ROW_OUT(dy, base + rank) + u);
                        if (CELL != 2)
                            PREFETCH(ROW_OUT(y, (CELL == 3 ? before : base) + rank) + u);
                        else
                            PREFETCH(ROW_CELLS(before + rank) + u);
                        for (int g = 0; CELL >= 2 && g < GATES; g++)
                            PREFETCH(ROW_GATES(base + rank) + g * s.hidden + u);
                        if (CELL >= 2)
                            PREFETCH(ROW_CELLS(base + rank) + u);
                    }
                    multiply(sums, rows, DELTA_ROW, high - low, PANEL(number), LAST_BLOCK, DEPTH, PANEL(NEXT_PANEL));
                    FOR_ROWS(low, high)
                        if (u < s.hidden)
                            step_backward(sums[(rank - low) * WIDTH + j], dy, y, gates, cells, deltas, inner, first,
                                          table, states, s, dir, t, rank, base + rank, u, (int)(k & 1));
                }
            END_OF_STEP
        }
    }
}

/* Grid: (blocks of sequences, shares of panels, directions). */
KERNEL rnn_backward_end(__global STORAGE(T) *dhx, long dhx_offset, __global const ACC *packed, long packed_offset,
                        __global ACC *states, long states_offset, __global const int *table, long table_offset,
                        const mx_rnn s)
{
    dhx += dhx_offset;
    packed += packed_offset;
    states += states_offset;
    table += table_offset;
    const long block = get_group_id(0), blocks = get_num_groups(0), share = get_group_id(1), shares = get_num_groups(1);
    const long dir = get_group_id(2), begin = block * s.batch / blocks, limit = (block + 1) * s.batch / blocks;
    vec sums[MOST_ROWS * WIDTH];
    for (long number = share * PANELS / shares; number < (share + 1) * PANELS / shares; number++)
        for (long low = begin; low < limit;) {
            const int odd = last_odd(table, s, dir, low);
            const long high = UNEVEN ? low + 1 : min(limit, low + MOST_ROWS);
            multiply(sums, states + DELTA_STATE(odd, dir) + low * DELTA_ROW, DELTA_ROW, high - low, PANEL(number), 0,
                     DEPTH, PANEL(number));
            FOR_ROWS(low, high)
                if (u < s.hidden)
                    put(dhx, STATE_OF(dir, rank) + u, s.hidden - u,
                        sums[(rank - low) * WIDTH + j] + GET_ACC(states, DH_STATE(dir) + rank * s.padded + u));
            low = high;
        }
}
#endif
