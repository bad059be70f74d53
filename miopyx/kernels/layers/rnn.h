/* What layers/rnn*.cl share: the cells of recurrent layers, and where their numbers lie.
 *
 * With x = W input + bW and r = R h + bR of each gate, s(v) = 1 / (1 + e^-v), h' and c' being the new state and cell:
 *
 *   RELU, TANH   h' = max(0, x + r), tanh(x + r)
 *   LSTM         i, f, o = s(x + r), n = tanh(x + r), c' = f c + i n, h' = o tanh(c')          gates i f o n
 *   GRU          z, g = s(x + r), n = tanh(x + g r), h' = (1 - z) n + z h                     gates z g n
 *
 *   GATES    directions x rows x gates x hidden, T: x, in training h's gates afterwards; likewise the gradients of x
 *   CELLS    directions x rows x hidden, T: c', of GRU r of n; likewise the gradients of the latter
 *   STATES   ACC, in the workspace: h of even and of odd steps, then c, each directions x batch x padded
 *            backward: the gradients of r of even and of odd steps, directions x batch x gates x padded, then what
 *            goes to dh besides their products, and dc, as h
 *            then, with `shares`, the counters of each direction: panels taken of each share, and panels done
 *
 * Sequences are ranked by their lengths: row r of step t is row FIRST_ROW(t) + r.  A state that no step wrote yet is the
 * first one in both places, and a gradient 0, so that sequences that begin later need no rule of their own.
 */
#ifndef T /* storage type */
#define T float
#endif
#ifndef CELL /* miopenRNNMode_t */
#define CELL 2
#endif
#ifndef UNEVEN /* 1: the table says how many rows a step has */
#define UNEVEN 0
#endif
#ifndef RANKED /* 1: the table says which sequence has which rank */
#define RANKED 0
#endif
#ifndef TRAINING
#define TRAINING 0
#endif
#ifndef BIAS
#define BIAS 1
#endif
#include "include/common.h"
#include "include/vectors.h"
#define ACTIVATION 0 /* of the header the logistic function alone is called */
#include "include/activation.h"
#include "layers/rnn_args.h"

#if CELL == 2
#define GATES 4
#elif CELL == 3
#define GATES 3
#else
#define GATES 1
#endif

/* A table is memory of the caller's: whatever it holds, no row lies outside of the tensors. */
#if UNEVEN
#define FIRST_ROW(t) clamp((long)table[t], 0L, s.rows)
#define ROWS_OF(t) \
    ((t) < 0 || (t) >= s.steps ? 0L : clamp((long)table[(t) + 1] - table[t], 0L, min(s.batch, s.rows - FIRST_ROW(t))))
#else
#define FIRST_ROW(t) ((t)*s.batch)
#define ROWS_OF(t) ((t) < 0 || (t) >= s.steps ? 0L : s.batch)
#endif
#if RANKED
#define SEQUENCE(rank) clamp((long)table[s.steps + 1 + (rank)], 0L, s.batch - 1)
#else
#define SEQUENCE(rank) (rank)
#endif
#define RANK(sequence) (RANKED ? clamp((long)table[s.steps + 1 + s.batch + (sequence)], 0L, s.batch - 1) : (sequence))
/* The element of hx where a state begins. */
#define STATE_OF(dir, rank) (((s.first + (dir)) * s.batch + SEQUENCE(rank)) * s.hidden)

/* Places of STATES, for the numbers of a direction. */
#define H_STATE(odd, dir) ((((odd)&1) * s.dirs + (dir)) * s.batch * s.padded)
#define C_STATE(dir) ((2 * s.dirs + (dir)) * s.batch * s.padded)
#define DELTA_ROW (GATES * s.padded)
#define DELTA_STATE(odd, dir) ((((odd)&1) * s.dirs + (dir)) * s.batch * DELTA_ROW)
#define DH_STATE(dir) ((2 * GATES * s.dirs + (dir)) * s.batch * s.padded)
#define DC_STATE(dir) (((2 * GATES + 1) * s.dirs + (dir)) * s.batch * s.padded)

/* Counters are ints in lines of their own; `numbers` of STATES come before them. */
#define COUNTER (64 / (int)sizeof(int))
#define COUNTERS(numbers) ((__global int *)(states + (numbers)*s.dirs * s.batch * s.padded))
#define FORWARD_NUMBERS 3
#define BACKWARD_NUMBERS (2 * GATES + 2)

#define FORWARD_ARGUMENTS                                                                                           \
    __global STORAGE(T) *gates, long gates_offset, __global const ACC *packed, long packed_offset,                  \
    __global ACC *states, long states_offset, __global const STORAGE(T) *x_bias, long x_bias_offset,                \
    __global const STORAGE(T) *r_bias, long r_bias_offset, __global STORAGE(T) *y, long y_offset,                   \
    __global STORAGE(T) *cells, long cells_offset, __global const int *table, long table_offset, const mx_rnn s,    \
    int from, int count
#define FORWARD_OFFSETS            \
    gates += gates_offset;         \
    packed += packed_offset;       \
    states += states_offset;       \
    x_bias += x_bias_offset;       \
    r_bias += r_bias_offset;       \
    y += y_offset;                 \
    cells += cells_offset;         \
    table += table_offset

#define BACKWARD_ARGUMENTS                                                                                          \
    __global const STORAGE(T) *dy, long dy_offset, __global const STORAGE(T) *y, long y_offset,                     \
    __global const STORAGE(T) *gates, long gates_offset, __global const STORAGE(T) *cells, long cells_offset,       \
    __global STORAGE(T) *deltas, long deltas_offset, __global STORAGE(T) *inner, long inner_offset,                 \
    __global const STORAGE(T) *first, long first_offset, __global const ACC *packed, long packed_offset,            \
    __global ACC *states, long states_offset, __global const int *table, long table_offset, const mx_rnn s,         \
    int from, int count
#define BACKWARD_OFFSETS           \
    dy += dy_offset;               \
    y += y_offset;                 \
    gates += gates_offset;         \
    cells += cells_offset;         \
    deltas += deltas_offset;       \
    inner += inner_offset;         \
    first += first_offset;         \
    packed += packed_offset;       \
    states += states_offset;       \
    table += table_offset

/* PoCL's compiler turns vload16 and vstore16 into several of a part where no product is between them. */
#if VEC >= 4
typedef V loose __attribute__((aligned(sizeof(ACC))));
#define GET_ACC(p, at) (*(__global const loose *)((p) + (at)))
#define PUT_ACC(p, at, v) (*(__global loose *)((p) + (at)) = (v))
#elif VEC > 1
#define GET_ACC(p, at) VJOIN(vload)(0, (p) + (at))
#define PUT_ACC(p, at, v) VJOIN(vstore)(v, 0, (p) + (at))
#else
#define GET_ACC(p, at) (p)[at]
#define PUT_ACC(p, at, v) ((p)[at] = (v))
#endif
#if VEC >= 4 && MX_TYPE(T) == MX_TYPE(ACC)
#define GET_WHOLE(p, at) GET_ACC(p, at)
#define PUT_WHOLE(p, at, v) PUT_ACC(p, at, v)
#else
#define GET_WHOLE(p, at) VJOIN(MX_JOIN(convert_, ACC))(VLOAD(T)(p, at))
#define PUT_WHOLE(p, at, v) VSTORE(T)(p, at, v)
#endif

/* VEC numbers, of which the buffer has `left`. */
static inline V get(__global const STORAGE(T) *p, long at, long left)
{
#if VEC > 1
    if (left >= VEC)
        return GET_WHOLE(p, at);
#endif
    return load_lanes(p, at, 1, (int)left, 0);
}

static inline void put(__global STORAGE(T) *p, long at, long left, V value)
{
#if VEC > 1
    if (left >= VEC) {
        PUT_WHOLE(p, at, value);
        return;
    }
#endif
    store_lanes(p, at, 1, (int)left, value);
}

/* v, and 0 in the lanes beyond a state's last number: what is there in the workspace meets zeros of the matrices, which
 * an infinite number would make NaN. */
static inline V inside(V v, long left)
{
#if VEC > 1
    if (left < VEC) {
        ACC lane[VEC];
        VJOIN(vstore)(v, 0, lane);
        for (int i = (int)left; i < VEC; i++)
            lane[i] = 0;
        return VJOIN(vload)(0, lane);
    }
#endif
    return v;
}

/* h' of h, `before`, and c; x becomes the gates, r stays. */
static inline V cell_forward(V *x, const V *r, V before, V *c)
{
#if CELL == 2
    for (int g = 0; g < 3; g++)
        x[g] = mx_logistic(x[g] + r[g]);
    x[3] = mx_tanh(x[3] + r[3]);
    *c = x[1] * *c + x[0] * x[3];
    return x[2] * mx_tanh(*c);
#elif CELL == 3
    x[0] = mx_logistic(x[0] + r[0]);
    x[1] = mx_logistic(x[1] + r[1]);
    x[2] = mx_tanh(x[2] + x[1] * r[2]);
    return (1 - x[0]) * x[2] + x[0] * before;
#elif CELL == 1
    return mx_tanh(x[0] + r[0]);
#else
    const V a = x[0] + r[0];
    return a <= 0 ? (V)0 : a; /* NaN stays NaN */
#endif
}

/* What a step of a row forward reads besides r. */
typedef struct {
    V x[GATES], bias[GATES], c, before;
} mx_forward;

/* Of VEC units from u on what the input gives the gates, and the biases of one kind. */
static inline void read_x(V *x, __global const STORAGE(T) *gates, const mx_rnn s, long dir, long row, long u)
{
    for (int g = 0; g < GATES; g++)
        x[g] = get(gates, (dir * s.rows + row) * GATES * s.hidden + g * s.hidden + u, s.hidden - u);
}

static inline void read_bias(V *to, __global const STORAGE(T) *bias, const mx_rnn s, long dir, long u)
{
    for (int g = 0; g < GATES; g++)
        to[g] = get(bias, (dir * GATES + g) * s.hidden + u, s.hidden - u);
}

/* VEC units from u on. */
static inline mx_forward read_forward(__global const STORAGE(T) *gates, __global const STORAGE(T) *x_bias,
                                      __global const STORAGE(T) *r_bias, __global const ACC *states, const mx_rnn s,
                                      long dir, long rank, long row, long u, int odd)
{
    const long state = rank * s.padded + u;
    mx_forward in;
    read_x(in.x, gates, s, dir, row, u);
#if BIAS
    V bias[GATES];
    read_bias(bias, x_bias, s, dir, u);
    for (int g = 0; g < GATES; g++)
        in.x[g] += bias[g];
    read_bias(in.bias, r_bias, s, dir, u);
#endif
    in.c = (V)0;
#if CELL == 2
    in.c = GET_ACC(states, C_STATE(dir) + state);
#endif
    in.before = GET_ACC(states, H_STATE(odd, dir) + state);
    return in;
}

/* What a step leaves for the next layer and for the gradients: h' of the gates x, of r and of c'. */
static inline void keep_forward(const V *x, const V *r, V h, V c, __global STORAGE(T) *gates, __global STORAGE(T) *y,
                                __global STORAGE(T) *cells, const mx_rnn s, long dir, long row, long u)
{
    const long left = s.hidden - u;
    put(y, row * s.dirs * s.hidden + dir * s.hidden + u, left, h);
#if TRAINING && CELL >= 2
    for (int g = 0; g < GATES; g++)
        put(gates, (dir * s.rows + row) * GATES * s.hidden + g * s.hidden + u, left, x[g]);
    put(cells, (dir * s.rows + row) * s.hidden + u, left, CELL == 2 ? c : r[GATES - 1]);
#endif
}

/* The step; r is R h of each gate. */
static inline void write_forward(mx_forward in, V *r, __global STORAGE(T) *gates, __global ACC *states,
                                 __global STORAGE(T) *y, __global STORAGE(T) *cells, const mx_rnn s, long dir,
                                 long rank, long row, long u, int odd)
{
    const long left = s.hidden - u, state = rank * s.padded + u;
#if BIAS
    for (int g = 0; g < GATES; g++)
        r[g] += in.bias[g];
#endif
    const V h = cell_forward(in.x, r, in.before, &in.c);
#if VEC == 1
    if (left <= 0)
        return;
#endif
    PUT_ACC(states, H_STATE(odd + 1, dir) + state, inside(h, left));
#if CELL == 2
    PUT_ACC(states, C_STATE(dir) + state, inside(in.c, left));
#endif
    keep_forward(in.x, r, h, in.c, gates, y, cells, s, dir, row, u);
}

static inline void step_forward(V *r, __global STORAGE(T) *gates, __global const STORAGE(T) *x_bias,
                                __global const STORAGE(T) *r_bias, __global ACC *states, __global STORAGE(T) *y,
                                __global STORAGE(T) *cells, const mx_rnn s, long dir, long rank, long row, long u, int odd)
{
    const mx_forward in = read_forward(gates, x_bias, r_bias, states, s, dir, rank, row, u, odd);
    write_forward(in, r, gates, states, y, cells, s, dir, rank, row, u, odd);
}

/* What a step of a row backward reads besides the products: dh without them, and the cell or state before the step. */
typedef struct {
    V dh, gate[GATES], before, kept, dc, y;
} mx_backward;

/* VEC units from u on, without dh and dc of the steps that came later. */
static inline mx_backward read_row(__global const STORAGE(T) *dy, __global const STORAGE(T) *y,
                                   __global const STORAGE(T) *gates, __global const STORAGE(T) *cells,
                                   __global const STORAGE(T) *first, __global const int *table, const mx_rnn s, long dir,
                                   long t, long rank, long row, long u)
{
    const long left = s.hidden - u, at = (dir * s.rows + row) * GATES * s.hidden + u;
    const long place = row * s.dirs * s.hidden + dir * s.hidden + u, before_t = dir ? t + 1 : t - 1;
    mx_backward in;
    in.dh = get(dy, place, left);
#if CELL >= 2
    for (int g = 0; g < GATES; g++)
        in.gate[g] = get(gates, at + g * s.hidden, left);
    in.before = (V)0; /* where nothing was given */
    if (rank < ROWS_OF(before_t)) {
        const long before_row = FIRST_ROW(before_t) + rank;
#if CELL == 2
        in.before = get(cells, (dir * s.rows + before_row) * s.hidden + u, left);
#else
        in.before = get(y, before_row * s.dirs * s.hidden + dir * s.hidden + u, left);
#endif
    } else if (HAS_FIRST)
        in.before = get(first, STATE_OF(dir, rank) + u, left);
    in.kept = get(cells, (dir * s.rows + row) * s.hidden + u, left);
#else
    in.y = get(y, place, left);
#endif
    return in;
}

static inline mx_backward read_backward(__global const STORAGE(T) *dy, __global const STORAGE(T) *y,
                                        __global const STORAGE(T) *gates, __global const STORAGE(T) *cells,
                                        __global const STORAGE(T) *first, __global const int *table,
                                        __global const ACC *states, const mx_rnn s, long dir, long t, long rank,
                                        long row, long u)
{
    mx_backward in = read_row(dy, y, gates, cells, first, table, s, dir, t, rank, row, u);
    in.dh += GET_ACC(states, DH_STATE(dir) + rank * s.padded + u);
#if CELL == 2
    in.dc = GET_ACC(states, DC_STATE(dir) + rank * s.padded + u);
#endif
    return in;
}

/* The gradients of r of dh, and what else goes to dh of the step before, `direct`, and to its dc; of GRU `more` is the
 * gradient of n's r, and delta[2] that of its x. */
static inline void cell_backward(const mx_backward *in, V dh, V *delta, V *direct, V *more)
{
    const V *gate = in->gate;
    *direct = *more = (V)0;
#if CELL == 2
    const V tc = mx_tanh(in->kept), dc = in->dc + dh * gate[2] * (1 - tc * tc);
    delta[0] = dc * gate[3] * gate[0] * (1 - gate[0]);
    delta[1] = dc * in->before * gate[1] * (1 - gate[1]);
    delta[2] = dh * tc * gate[2] * (1 - gate[2]);
    delta[3] = dc * gate[0] * (1 - gate[3] * gate[3]);
    *more = dc * gate[1];
#elif CELL == 3
    delta[0] = dh * (in->before - gate[2]) * gate[0] * (1 - gate[0]);
    delta[2] = dh * (1 - gate[0]) * (1 - gate[2] * gate[2]);
    delta[1] = delta[2] * in->kept * gate[1] * (1 - gate[1]);
    *more = delta[2] * gate[1];
    *direct = dh * gate[0];
#else
    delta[0] = CELL == 0 ? (in->y > 0 ? dh : (V)0) : dh * (1 - in->y * in->y);
#endif
}

static inline void keep_backward(const V *delta, V more, __global STORAGE(T) *deltas, __global STORAGE(T) *inner,
                                 const mx_rnn s, long dir, long row, long u)
{
    for (int g = 0; g < GATES; g++)
        put(deltas, (dir * s.rows + row) * GATES * s.hidden + g * s.hidden + u, s.hidden - u, delta[g]);
#if CELL == 3
    put(inner, (dir * s.rows + row) * s.hidden + u, s.hidden - u, more);
#endif
}

/* The step; dh is what the products of the step after it add to its gradient. */
static inline void write_backward(mx_backward in, V dh, __global STORAGE(T) *deltas, __global STORAGE(T) *inner,
                                  __global ACC *states, const mx_rnn s, long dir, long rank, long row, long u, int odd)
{
    const long left = s.hidden - u, state = rank * s.padded + u;
    const long new_row = DELTA_STATE(odd + 1, dir) + rank * DELTA_ROW + u;
    V delta[GATES], direct, more;
    cell_backward(&in, in.dh + dh, delta, &direct, &more);
#if VEC == 1
    if (left <= 0)
        return;
#endif
    keep_backward(delta, more, deltas, inner, s, dir, row, u);
#if CELL == 3
    delta[2] = more;
#endif
    for (int g = 0; g < GATES; g++)
        PUT_ACC(states, new_row + g * s.padded, inside(delta[g], left));
    PUT_ACC(states, DH_STATE(dir) + state, inside(direct, left));
#if CELL == 2
    PUT_ACC(states, DC_STATE(dir) + state, inside(more, left));
#endif
}

static inline void step_backward(V dh, __global const STORAGE(T) *dy, __global const STORAGE(T) *y,
                                 __global const STORAGE(T) *gates, __global const STORAGE(T) *cells,
                                 __global STORAGE(T) *deltas, __global STORAGE(T) *inner,
                                 __global const STORAGE(T) *first, __global const int *table, __global ACC *states,
                                 const mx_rnn s, long dir, long t, long rank, long row, long u, int odd)
{
    const mx_backward in = read_backward(dy, y, gates, cells, first, table, states, s, dir, t, rank, row, u);
    write_backward(in, dh, deltas, inner, states, s, dir, rank, row, u, odd);
}

/* The last step of a sequence backward in its direction, which says where its deltas lie. */
static inline int last_odd(__global const int *table, const mx_rnn s, long dir, long rank)
{
    long length = s.steps;
#if UNEVEN
    for (length = 0; length < s.steps && rank < ROWS_OF(length);)
        length++;
#endif
    return (int)(dir ? length : s.steps) & 1;
}
