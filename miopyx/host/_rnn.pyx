# cython: cdivision=True
"""Recurrent layers on the host, in float64; kernels/layers/rnn.h has the formulas.

A task has as many sequences as a tile has rows, and goes through their steps; of the gradients of parameters it has as
many rows of a matrix.
"""

from libc.math cimport exp, tanh
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._dropout cimport DROPOUT_PLACES, least_of, scale_of
from miopyx.problem._rnn cimport (
    RNN_CX, RNN_CY, RNN_DCX, RNN_DHX, RNN_DW, RNN_DX, RNN_DY, RNN_GRU, RNN_HX, RNN_HY, RNN_LSTM, RNN_PACKED, RNN_RELU,
    RNN_RESERVE, RNN_SEQUENCES, RNN_STATES, RNN_TABLE, RNN_W, RNN_X, RNN_Y, rnn_bias, rnn_gates, rnn_has, rnn_layer_t,
    rnn_matrix, rnn_reserve, rnn_width,
)
from miopyx.values._types cimport MX_RNN_GET, mx_rnn_problem
from ._common cimport ALLOC_FAILED, at_most, ceil_div
from ._dropout cimport mx_philox, mx_take_mask, mx_tell_places
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks

cdef enum:
    CHUNK = 256            # rows that gradients of parameters take at a time


cdef struct rnn_t:
    const mx_rnn_problem* p
    void** slots
    const int32_t* table       # NULL where all steps have the same rows
    int64_t type, width        # of an element
    int64_t gates, lines       # lines: rows of a matrix
    int64_t layer, wide        # wide: numbers that go into the layer, 0 where it skips
    rnn_layer_t at
    double* below              # rows x wide: what goes into the layer, or the gradient of that
    double* above              # rows x (dirs x hidden): what comes out
    double* packed[2]          # the layer's matrices, for each direction
    double* bias[2]            # lines of the input's, then of the state's
    int64_t panel              # numbers of a panel of `packed`
    int64_t blocks
    double* scratch
    int64_t scratch_size


cdef inline int64_t within(int64_t number, int64_t most) noexcept nogil:
    return 0 if number < 0 else at_most(number, most)


cdef inline int64_t first_row(const rnn_t* h, int64_t t) noexcept nogil:
    # A table is memory of the caller's: whatever it holds, no row lies outside of the tensors.
    return within(h.table[t], h.p.rows) if h.table != NULL else t * h.p.batch


cdef inline int64_t rows_of(const rnn_t* h, int64_t t) noexcept nogil:
    if t < 0 or t >= h.p.steps:
        return 0
    if h.table == NULL:
        return h.p.batch
    return within(<int64_t> h.table[t + 1] - h.table[t], at_most(h.p.batch, h.p.rows - first_row(h, t)))


cdef inline int64_t sequence_of(const rnn_t* h, int64_t rank) noexcept nogil:
    return within(h.table[h.p.steps + 1 + rank], h.p.batch - 1) if h.p.ranked else rank


cdef inline int64_t outer_row(const rnn_t* h, int64_t t, int64_t rank) noexcept nogil:
    """The row of x and y."""
    if h.p.layout == RNN_PACKED:
        return first_row(h, t) + rank
    if h.p.layout == RNN_SEQUENCES:
        return sequence_of(h, rank) * h.p.x.len[1] + t
    return t * h.p.batch + sequence_of(h, rank)


cdef inline void load(const rnn_t* h, int slot, int64_t bytes, int64_t at, double* row, int64_t n) noexcept nogil:
    kernels.load_row(<const char*> h.slots[slot] + bytes, h.type, at, 1, row, n)


cdef inline void store(const rnn_t* h, int slot, int64_t bytes, int64_t at, const double* row,
                       int64_t n) noexcept nogil:
    kernels.store_row(<char*> h.slots[slot] + bytes, h.type, at, 1, row, n)


cdef inline double logistic(double x) noexcept nogil:
    return 1 / (1 + exp(-x))


cdef inline int64_t state_at(const rnn_t* h, int64_t dir, int64_t rank) noexcept nogil:
    """The element of a state's tensor."""
    return ((h.layer * h.p.dirs + dir) * h.p.batch + sequence_of(h, rank)) * h.p.hidden


cdef void load_state(const rnn_t* h, int slot, int64_t dir, int64_t rank, double* row) noexcept nogil:
    if rnn_has(h.p, slot):
        load(h, slot, 0, state_at(h, dir, rank), row, h.p.hidden)
    else:
        memset(row, 0, h.p.hidden * sizeof(double))


cdef int prepare(rnn_t* h, const void* problem, void** slots) noexcept nogil:
    memset(h, 0, sizeof(rnn_t))
    h.p, h.slots = <const mx_rnn_problem*> problem, slots
    h.table = <const int32_t*> slots[RNN_TABLE] if h.p.uneven else NULL
    h.type, h.width = h.p.x.type, type_size(<int> h.p.x.type)
    h.gates = rnn_gates(h.p.mode)
    h.lines = h.gates * h.p.hidden
    h.blocks = ceil_div(h.p.batch, kernels.mr)
    return 0


cdef int enter(rnn_t* h, int64_t layer) noexcept nogil:
    h.layer = layer
    h.wide = 0 if h.p.skip and layer == 0 else rnn_width(h.p, layer)
    if h.p.training:
        rnn_reserve(h.p, layer, &h.at)
    return 0


# Forward


cdef void pack_lines(void* context, int64_t task, int worker) noexcept nogil:
    """A panel of the rows of the matrices, column by column: those of the input, then those of the state."""
    cdef const rnn_t* h = <const rnn_t*> context
    cdef int64_t dir = task % h.p.dirs, number = task // h.p.dirs, nr = kernels.nr, line, i, k
    cdef double* panel = h.packed[dir] + number * h.panel
    cdef double* row = h.scratch + worker * h.scratch_size
    memset(panel, 0, h.panel * sizeof(double))
    for i in range(at_most(nr, h.lines - number * nr)):
        line = number * nr + i
        load(h, RNN_W, 0, rnn_matrix(h.p, h.layer, dir, False) + line * h.wide, row, h.wide)
        load(h, RNN_W, 0, rnn_matrix(h.p, h.layer, dir, True) + line * h.p.hidden, row + h.wide, h.p.hidden)
        for k in range(h.wide + h.p.hidden):
            panel[k * nr + i] = row[k]


cdef void cell(const rnn_t* h, const double* x, const double* s, const double* xb, const double* sb, double* state,
               double* c, double* gate, double* q) noexcept nogil:
    """One step of one sequence: `x` and `s` are products of the input and the state, `gate` and `q` what is kept."""
    cdef int64_t n = h.p.hidden, u
    cdef double a
    for u in range(n):
        if h.p.mode == RNN_LSTM:
            gate[u] = logistic(x[u] + s[u] + xb[u] + sb[u])
            gate[n + u] = logistic(x[n + u] + s[n + u] + xb[n + u] + sb[n + u])
            gate[2 * n + u] = logistic(x[2 * n + u] + s[2 * n + u] + xb[2 * n + u] + sb[2 * n + u])
            gate[3 * n + u] = tanh(x[3 * n + u] + s[3 * n + u] + xb[3 * n + u] + sb[3 * n + u])
            c[u] = gate[n + u] * c[u] + gate[u] * gate[3 * n + u]
            state[u] = gate[2 * n + u] * tanh(c[u])
        elif h.p.mode == RNN_GRU:
            gate[u] = logistic(x[u] + s[u] + xb[u] + sb[u])
            gate[n + u] = logistic(x[n + u] + s[n + u] + xb[n + u] + sb[n + u])
            q[u] = s[2 * n + u] + sb[2 * n + u]
            gate[2 * n + u] = tanh(x[2 * n + u] + xb[2 * n + u] + gate[n + u] * q[u])
            state[u] = (1 - gate[u]) * gate[2 * n + u] + gate[u] * state[u]
        else:
            a = x[u] + s[u] + xb[u] + sb[u]
            state[u] = (0 if a <= 0 else a) if h.p.mode == RNN_RELU else tanh(a)


cdef void forward_task(void* context, int64_t task, int worker) noexcept nogil:
    cdef const rnn_t* h = <const rnn_t*> context
    cdef const mx_rnn_problem* p = h.p
    cdef int64_t mr = kernels.mr, nr = kernels.nr, hidden = p.hidden, lines = h.lines, dir = task % p.dirs
    cdef int64_t first = task // p.dirs * mr, count = at_most(mr, p.batch - first), steps = h.wide + hidden
    cdef int64_t i, k, t, n, at, number, row, room = ceil_div(lines, nr) * nr
    cdef double* mine = h.scratch + worker * h.scratch_size
    cdef double* panel = mine                  # steps x mr
    cdef double* tile = panel + steps * mr     # mr x nr
    cdef double* x = tile + mr * nr            # of each sequence: the products of the input,
    cdef double* s = x + mr * room             # of the state
    cdef double* state = s + mr * room         # mr x hidden
    cdef double* c = state + mr * hidden
    cdef double* gate = c + mr * hidden        # lines, of one sequence
    cdef double* q = gate + lines              # hidden
    cdef double* line = q + hidden             # steps
    for i in range(count):
        load_state(h, RNN_HX, dir, first + i, state + i * hidden)
        load_state(h, RNN_CX, dir, first + i, c + i * hidden)
    for k in range(p.steps):
        t = p.steps - 1 - k if dir else k
        n = at_most(count, rows_of(h, t) - first)
        if n <= 0:
            continue
        row = first_row(h, t) + first
        memset(panel, 0, steps * mr * sizeof(double))
        for i in range(n):
            if h.layer > 0:
                memcpy(line, h.below + (row + i) * h.wide, h.wide * sizeof(double))
            elif h.wide > 0:
                load(h, RNN_X, 0, outer_row(h, t, first + i) * p.input, line, p.input)
            for at in range(h.wide):
                panel[at * mr + i] = line[at]
            for at in range(hidden):
                panel[(h.wide + at) * mr + i] = state[i * hidden + at]
        for number in range(room // nr):
            kernels.multiply(<int> mr, <int> nr, h.wide, panel, h.packed[dir] + number * h.panel, tile, 0)
            for i in range(n):
                memcpy(x + i * room + number * nr, tile + i * nr, nr * sizeof(double))
            kernels.multiply(<int> mr, <int> nr, hidden, panel + h.wide * mr,
                             h.packed[dir] + number * h.panel + h.wide * nr, tile, 0)
            for i in range(n):
                memcpy(s + i * room + number * nr, tile + i * nr, nr * sizeof(double))
        for i in range(n):
            if h.layer == 0 and p.skip:
                load(h, RNN_X, 0, outer_row(h, t, first + i) * p.input, x + i * room, hidden)
                for number in range(1, h.gates):
                    memcpy(x + i * room + number * hidden, x + i * room, hidden * sizeof(double))
            cell(h, x + i * room, s + i * room, h.bias[dir], h.bias[dir] + lines, state + i * hidden, c + i * hidden,
                 gate, q)
            at = (row + i) * p.dirs * hidden + dir * hidden
            memcpy(h.above + at, state + i * hidden, hidden * sizeof(double))
            if p.training:
                at = dir * p.rows + row + i
                if h.gates > 1:
                    store(h, RNN_RESERVE, h.at.gates, at * lines, gate, lines)
                if p.mode == RNN_LSTM:
                    store(h, RNN_RESERVE, h.at.cells, at * hidden, c + i * hidden, hidden)
                if p.mode == RNN_GRU:
                    store(h, RNN_RESERVE, h.at.hidden, at * hidden, q, hidden)
    for i in range(count):
        if rnn_has(p, RNN_HY):
            store(h, RNN_HY, 0, state_at(h, dir, first + i), state + i * hidden, hidden)
        if rnn_has(p, RNN_CY):
            store(h, RNN_CY, 0, state_at(h, dir, first + i), c + i * hidden, hidden)


cdef void drop_between(const rnn_t* h) noexcept nogil:
    """Of a layer's output, which is kept as it is, what the next layer gets; kernels/layers/dropout.h."""
    cdef const mx_rnn_problem* p = h.p
    cdef uint64_t* states = <uint64_t*> h.slots[RNN_STATES]
    cdef uint64_t seed = states[0], masks = mx_take_mask(states, p.evolves) - seed
    cdef uint8_t* mask = <uint8_t*> h.slots[RNN_RESERVE] + h.at.mask
    cdef uint32_t least = <uint32_t> least_of(p.dropout)
    cdef double scale = scale_of(p.dropout)
    cdef uint32_t words[4]
    cdef int64_t i
    for i in range(p.rows * p.dirs * p.hidden):
        if i % 4 == 0:
            mx_philox(<uint64_t> (i // 4), masks, seed, words)
        mask[i] = words[i % 4] >> 8 >= least
        h.above[i] = h.above[i] * scale if mask[i] else 0
    if p.evolves:
        mx_tell_places(states, DROPOUT_PLACES)


cdef void clear_padding(const rnn_t* h, int slot, int64_t vector) noexcept nogil:
    """Zeros where padded sequences have no step."""
    cdef const mx_rnn_problem* p = h.p
    cdef int64_t longest = p.x.len[1] if p.layout == RNN_SEQUENCES else p.x.len[0], t, rank
    if p.layout == RNN_PACKED:
        return
    for t in range(longest):
        for rank in range(rows_of(h, t), p.batch):
            memset(<char*> h.slots[slot] + outer_row(h, t, rank) * vector * h.width, 0, vector * h.width)


cdef int host_rnn_forward(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef rnn_t h
    cdef const mx_rnn_problem* p = <const mx_rnn_problem*> problem
    cdef int64_t mr = kernels.mr, nr = kernels.nr, widest, panels, layer, t, rank, cells, d
    cdef double* memory
    cdef double* swap
    cdef unsigned arithmetic
    cdef int width
    prepare(&h, problem, slots)
    cells = p.rows * p.dirs * p.hidden
    panels = ceil_div(h.lines, nr)
    widest = (p.dirs * p.hidden if p.dirs * p.hidden > p.input else p.input) + p.hidden
    h.scratch_size = widest * (mr + 1) + mr * nr + 2 * mr * panels * nr + 2 * mr * p.hidden + h.lines + p.hidden
    width = acquire_threads(2.0 * p.rows * p.layers * h.lines * widest, threads)
    memory = <double*> malloc((2 * cells + p.dirs * (panels * widest * nr + 2 * h.lines)
                               + width * h.scratch_size) * sizeof(double))
    if memory == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    h.below, h.above, h.packed[0] = memory, memory + cells, memory + 2 * cells
    h.packed[1] = h.packed[0] + (p.dirs - 1) * panels * widest * nr
    h.bias[0] = h.packed[0] + p.dirs * panels * widest * nr
    h.bias[1] = h.bias[0] + (p.dirs - 1) * 2 * h.lines
    h.scratch = h.bias[0] + p.dirs * 2 * h.lines
    for layer in range(p.layers):
        enter(&h, layer)
        h.panel = (h.wide + p.hidden) * nr
        for d in range(p.dirs):
            if p.bias:
                load(&h, RNN_W, 0, rnn_bias(p, layer, d, False), h.bias[d], h.lines)
                load(&h, RNN_W, 0, rnn_bias(p, layer, d, True), h.bias[d] + h.lines, h.lines)
            else:
                memset(h.bias[d], 0, 2 * h.lines * sizeof(double))
        run_tasks(pack_lines, &h, p.dirs * panels, width)
        run_tasks(forward_task, &h, p.dirs * h.blocks, width)
        if layer == p.layers - 1:
            for t in range(p.steps):
                for rank in range(rows_of(&h, t)):
                    store(&h, RNN_Y, 0, outer_row(&h, t, rank) * p.dirs * p.hidden,
                          h.above + (first_row(&h, t) + rank) * p.dirs * p.hidden, p.dirs * p.hidden)
        elif p.training:
            store(&h, RNN_RESERVE, h.at.output, 0, h.above, cells)
            if p.dropout > 0:
                drop_between(&h)
                store(&h, RNN_RESERVE, h.at.dropped, 0, h.above, cells)
        swap = h.below
        h.below, h.above = h.above, swap
    clear_padding(&h, RNN_Y, p.dirs * p.hidden)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(memory)
    return 0


# Backward data


cdef void pack_columns(void* context, int64_t task, int worker) noexcept nogil:
    """A panel of the columns of a matrix, row by row; first those of the state's, then those of the input's."""
    cdef const rnn_t* h = <const rnn_t*> context
    cdef int64_t dir = task % h.p.dirs, number = task // h.p.dirs, nr = kernels.nr, hidden = h.p.hidden
    cdef int64_t panels = ceil_div(hidden, nr), k, n
    cdef bint recurrent = number < panels
    cdef int64_t columns = hidden if recurrent else h.wide, first = (number if recurrent else number - panels) * nr
    cdef double* panel = h.packed[dir] + number * h.panel
    n = at_most(nr, columns - first)
    memset(panel, 0, h.panel * sizeof(double))
    for k in range(h.lines):
        load(h, RNN_W, 0, rnn_matrix(h.p, h.layer, dir, recurrent) + k * columns + first, panel + k * nr, n)


cdef void cell_gradient(const rnn_t* h, const double* gate, const double* q, const double* c, const double* before,
                        const double* y, double* dh, double* dc, double* delta, double* dq) noexcept nogil:
    """One step of one sequence backward.

    `c` is the cell, `before` the cell (LSTM) or state (GRU) of the step before.  `dh` becomes what goes on to the
    state of the step before besides the products of `delta`, `dc` the gradient of its cell.
    """
    cdef int64_t n = h.p.hidden, u
    cdef double a, r
    for u in range(n):
        if h.p.mode == RNN_LSTM:
            a = tanh(c[u])
            r = dc[u] + dh[u] * gate[2 * n + u] * (1 - a * a)
            delta[2 * n + u] = dh[u] * a * gate[2 * n + u] * (1 - gate[2 * n + u])
            delta[u] = r * gate[3 * n + u] * gate[u] * (1 - gate[u])
            delta[n + u] = r * before[u] * gate[n + u] * (1 - gate[n + u])
            delta[3 * n + u] = r * gate[u] * (1 - gate[3 * n + u] * gate[3 * n + u])
            dc[u], dh[u] = r * gate[n + u], 0
        elif h.p.mode == RNN_GRU:
            delta[u] = dh[u] * (before[u] - gate[2 * n + u]) * gate[u] * (1 - gate[u])
            a = dh[u] * (1 - gate[u]) * (1 - gate[2 * n + u] * gate[2 * n + u])
            delta[2 * n + u] = a
            delta[n + u] = a * q[u] * gate[n + u] * (1 - gate[n + u])
            dq[u] = a * gate[n + u]
            dh[u] *= gate[u]
        else:
            delta[u] = (dh[u] if y[u] > 0 else 0) if h.p.mode == RNN_RELU else dh[u] * (1 - y[u] * y[u])
            dh[u] = 0


cdef void load_before(const rnn_t* h, int64_t dir, int64_t t, int64_t rank, double* row) noexcept nogil:
    """The cell (LSTM) or state of the step before t in a direction's time."""
    cdef const mx_rnn_problem* p = h.p
    cdef int64_t before = t + 1 if dir else t - 1, at
    if rank >= rows_of(h, before):
        load_state(h, RNN_CX if p.mode == RNN_LSTM else RNN_HX, dir, rank, row)
        return
    at = first_row(h, before) + rank
    if p.mode == RNN_LSTM:
        load(h, RNN_RESERVE, h.at.cells, (dir * p.rows + at) * p.hidden, row, p.hidden)
    else:
        load_output(h, dir, before, rank, row)


cdef void load_output(const rnn_t* h, int64_t dir, int64_t t, int64_t rank, double* row) noexcept nogil:
    """A direction's part of the layer's output."""
    cdef const mx_rnn_problem* p = h.p
    if h.layer == p.layers - 1:
        load(h, RNN_Y, 0, outer_row(h, t, rank) * p.dirs * p.hidden + dir * p.hidden, row, p.hidden)
    else:
        load(h, RNN_RESERVE, h.at.output, (first_row(h, t) + rank) * p.dirs * p.hidden + dir * p.hidden, row, p.hidden)


cdef void data_task(void* context, int64_t task, int worker) noexcept nogil:
    cdef const rnn_t* h = <const rnn_t*> context
    cdef const mx_rnn_problem* p = h.p
    cdef int64_t mr = kernels.mr, nr = kernels.nr, hidden = p.hidden, lines = h.lines
    cdef int64_t first = task * mr, count = at_most(mr, p.batch - first), panels = ceil_div(hidden, nr)
    cdef int64_t i, j, k, t, n, at, dir, number, row, wide = rnn_width(p, h.layer)
    cdef double* mine = h.scratch + worker * h.scratch_size
    cdef double* panel = mine                  # lines x mr, for the input
    cdef double* inner = panel + lines * mr    # likewise, for the state
    cdef double* tile = inner + lines * mr     # mr x nr
    cdef double* dh = tile + mr * nr           # mr x hidden
    cdef double* dc = dh + mr * hidden
    cdef double* gate = dc + mr * hidden       # lines, of one sequence
    cdef double* delta = gate + lines
    cdef double* q = delta + lines             # hidden
    cdef double* dq = q + hidden
    cdef double* c = dq + hidden
    cdef double* before = c + hidden
    cdef double* y = before + hidden
    for dir in range(p.dirs):
        for i in range(count):
            load_state(h, RNN_HY, dir, first + i, dh + i * hidden)
            load_state(h, RNN_CY, dir, first + i, dc + i * hidden)
        for k in range(p.steps):
            t = k if dir else p.steps - 1 - k
            n = at_most(count, rows_of(h, t) - first)
            if n <= 0:
                continue
            row = first_row(h, t) + first
            memset(panel, 0, 2 * lines * mr * sizeof(double))
            for i in range(n):
                at = dir * p.rows + row + i
                if h.gates > 1:
                    load(h, RNN_RESERVE, h.at.gates, at * lines, gate, lines)
                if p.mode == RNN_LSTM:
                    load(h, RNN_RESERVE, h.at.cells, at * hidden, c, hidden)
                if p.mode == RNN_GRU:
                    load(h, RNN_RESERVE, h.at.hidden, at * hidden, q, hidden)
                if h.gates > 1:
                    load_before(h, dir, t, first + i, before)
                else:
                    load_output(h, dir, t, first + i, y)
                for j in range(hidden):
                    dh[i * hidden + j] += h.above[(row + i) * p.dirs * hidden + dir * hidden + j]
                cell_gradient(h, gate, q, c, before, y, dh + i * hidden, dc + i * hidden, delta, dq)
                store(h, RNN_RESERVE, h.at.deltas, at * lines, delta, lines)
                if p.mode == RNN_GRU:
                    store(h, RNN_RESERVE, h.at.hidden_deltas, at * hidden, dq, hidden)
                for j in range(lines):
                    panel[j * mr + i] = inner[j * mr + i] = delta[j]
                if p.mode == RNN_GRU:
                    for j in range(hidden):
                        inner[(2 * hidden + j) * mr + i] = dq[j]
                if h.wide == 0:
                    for j in range(lines):
                        h.below[(row + i) * wide + j % hidden] += delta[j]
            for number in range(panels):
                kernels.multiply(<int> mr, <int> nr, lines, inner, h.packed[dir] + number * h.panel, tile, 0)
                for i in range(n):
                    for j in range(at_most(nr, hidden - number * nr)):
                        dh[i * hidden + number * nr + j] += tile[i * nr + j]
            for number in range(ceil_div(h.wide, nr)):
                kernels.multiply(<int> mr, <int> nr, lines, panel, h.packed[dir] + (panels + number) * h.panel, tile,
                                 0)
                for i in range(n):
                    for j in range(at_most(nr, h.wide - number * nr)):
                        h.below[(row + i) * h.wide + number * nr + j] += tile[i * nr + j]
        for i in range(count):
            if rnn_has(p, RNN_DHX):
                store(h, RNN_DHX, 0, state_at(h, dir, first + i), dh + i * hidden, hidden)
            if rnn_has(p, RNN_DCX):
                store(h, RNN_DCX, 0, state_at(h, dir, first + i), dc + i * hidden, hidden)


cdef int host_rnn_data(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef rnn_t h
    cdef const mx_rnn_problem* p = <const mx_rnn_problem*> problem
    cdef int64_t mr = kernels.mr, nr = kernels.nr, widest, panels, layer, t, rank, cells, size, i
    cdef const uint8_t* mask
    cdef double* memory
    cdef double* swap
    cdef double scale = scale_of(p.dropout)
    cdef unsigned arithmetic
    cdef int width
    prepare(&h, problem, slots)
    widest = p.dirs * p.hidden if p.dirs * p.hidden > p.input else p.input
    cells = p.rows * widest
    panels = ceil_div(p.hidden, nr) + ceil_div(widest, nr)
    h.panel = h.lines * nr
    h.scratch_size = 2 * h.lines * mr + mr * nr + 2 * mr * p.hidden + 2 * h.lines + 5 * p.hidden
    width = acquire_threads(2.0 * p.rows * p.layers * h.lines * (widest + p.hidden), threads)
    memory = <double*> malloc((2 * cells + p.dirs * panels * h.panel + width * h.scratch_size) * sizeof(double))
    if memory == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    h.below, h.above, h.packed[0] = memory, memory + cells, memory + 2 * cells
    h.packed[1] = h.packed[0] + (p.dirs - 1) * panels * h.panel
    h.scratch = h.packed[0] + p.dirs * panels * h.panel
    for t in range(p.steps):
        for rank in range(rows_of(&h, t)):
            load(&h, RNN_DY, 0, outer_row(&h, t, rank) * p.dirs * p.hidden,
                 h.above + (first_row(&h, t) + rank) * p.dirs * p.hidden, p.dirs * p.hidden)
    for layer in range(p.layers - 1, -1, -1):
        enter(&h, layer)
        size = rnn_width(p, layer)
        memset(h.below, 0, p.rows * size * sizeof(double))
        run_tasks(pack_columns, &h, p.dirs * (ceil_div(p.hidden, nr) + ceil_div(h.wide, nr)), width)
        run_tasks(data_task, &h, h.blocks, width)
        if layer == 0:
            for t in range(p.steps):
                for rank in range(rows_of(&h, t)):
                    store(&h, RNN_DX, 0, outer_row(&h, t, rank) * size,
                          h.below + (first_row(&h, t) + rank) * size, size)
        elif p.dropout > 0:
            rnn_reserve(p, layer - 1, &h.at)
            mask = <const uint8_t*> slots[RNN_RESERVE] + h.at.mask
            for i in range(p.rows * size):
                h.below[i] = h.below[i] * scale if mask[i] else 0
        swap = h.below
        h.below, h.above = h.above, swap
    clear_padding(&h, RNN_DX, p.input)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(memory)
    return 0


# Backward weights


cdef void weights_task(void* context, int64_t task, int worker) noexcept nogil:
    """Some rows of both matrices of a direction, and their biases."""
    cdef const rnn_t* h = <const rnn_t*> context
    cdef const mx_rnn_problem* p = h.p
    cdef int64_t mr = kernels.mr, nr = kernels.nr, hidden = p.hidden, dir = task % p.dirs
    cdef int64_t first = task // p.dirs * mr, count = at_most(mr, h.lines - first), columns = h.wide + hidden
    cdef int64_t t = 0, rank = 0, chunk, i, j, k, row, n, at, number, inputs = ceil_div(h.wide, nr)
    cdef int64_t panels = inputs + ceil_div(hidden, nr)
    cdef bint mixed = p.mode == RNN_GRU and first + count > 2 * hidden
    cdef rnn_layer_t under
    cdef double* mine = h.scratch + worker * h.scratch_size
    cdef double* panel = mine                          # CHUNK x mr
    cdef double* inner = panel + CHUNK * mr            # likewise, for the state's matrix
    cdef double* other = inner + CHUNK * mr            # panels of CHUNK x nr: inputs, then states
    cdef double* tile = other + panels * CHUNK * nr
    cdef double* sums = tile + mr * nr                 # panels x mr x nr
    cdef double* bias = sums + panels * mr * nr        # 2 x mr
    cdef double* line = bias + 2 * mr                  # columns
    cdef double* deltas = line + columns + hidden      # mr, and hidden of the other ones
    memset(sums, 0, (panels * mr * nr + 2 * mr) * sizeof(double))
    memset(other, 0, panels * CHUNK * nr * sizeof(double))
    if h.layer > 0:
        rnn_reserve(p, h.layer - 1, &under)
    for k in range(ceil_div(p.rows, CHUNK)):
        chunk = k * CHUNK
        n = at_most(CHUNK, p.rows - chunk)
        memset(panel, 0, 2 * CHUNK * mr * sizeof(double))
        for row in range(n):
            while t < p.steps and rank >= rows_of(h, t):
                rank = 0
                t += 1
            if t == p.steps:
                break
            at = dir * p.rows + chunk + row
            load(h, RNN_RESERVE, h.at.deltas, at * h.lines + first, deltas, count)
            for i in range(count):
                panel[row * mr + i] = inner[row * mr + i] = deltas[i]
            if mixed:
                load(h, RNN_RESERVE, h.at.hidden_deltas, at * hidden, deltas, hidden)
                for i in range(count):
                    if first + i >= 2 * hidden:
                        inner[row * mr + i] = deltas[first + i - 2 * hidden]
            if h.layer > 0:
                load(h, RNN_RESERVE, under.dropped, (chunk + row) * h.wide, line, h.wide)
            elif h.wide > 0:
                load(h, RNN_X, 0, outer_row(h, t, rank) * h.wide, line, h.wide)
            for j in range(h.wide):
                other[(j // nr * CHUNK + row) * nr + j % nr] = line[j]
            if rank < rows_of(h, t + 1 if dir else t - 1):
                load_output(h, dir, t + 1 if dir else t - 1, rank, line)
            else:
                load_state(h, RNN_HX, dir, rank, line)
            for j in range(hidden):
                other[((inputs + j // nr) * CHUNK + row) * nr + j % nr] = line[j]
            for i in range(count):
                bias[i] += panel[row * mr + i]
                bias[mr + i] += inner[row * mr + i]
            rank += 1
        for number in range(panels):
            kernels.multiply(<int> mr, <int> nr, n, panel if number < inputs else inner, other + number * CHUNK * nr,
                             tile, 0)
            for i in range(mr * nr):
                sums[number * mr * nr + i] += tile[i]
    for i in range(count):
        for j in range(h.wide):
            line[j] = sums[(j // nr * mr + i) * nr + j % nr]
        store(h, RNN_DW, 0, rnn_matrix(p, h.layer, dir, False) + (first + i) * h.wide, line, h.wide)
        for j in range(hidden):
            line[j] = sums[((inputs + j // nr) * mr + i) * nr + j % nr]
        store(h, RNN_DW, 0, rnn_matrix(p, h.layer, dir, True) + (first + i) * hidden, line, hidden)
    if p.bias:
        store(h, RNN_DW, 0, rnn_bias(p, h.layer, dir, False) + first, bias, count)
        store(h, RNN_DW, 0, rnn_bias(p, h.layer, dir, True) + first, bias + mr, count)


cdef int host_rnn_weights(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef rnn_t h
    cdef const mx_rnn_problem* p = <const mx_rnn_problem*> problem
    cdef int64_t mr = kernels.mr, nr = kernels.nr, widest, panels, layer
    cdef unsigned arithmetic
    cdef int width
    prepare(&h, problem, slots)
    widest = p.dirs * p.hidden if p.dirs * p.hidden > p.input else p.input
    panels = ceil_div(widest, nr) + ceil_div(p.hidden, nr)
    h.scratch_size = (2 * CHUNK * mr + panels * (CHUNK * nr + mr * nr) + mr * nr + 2 * mr + widest + 3 * p.hidden + mr)
    width = acquire_threads(2.0 * p.rows * p.layers * h.lines * (widest + p.hidden), threads)
    h.scratch = <double*> malloc(width * h.scratch_size * sizeof(double))
    if h.scratch == NULL:
        release_threads(width)
        return ALLOC_FAILED
    arithmetic = default_arithmetic()
    for layer in range(p.layers):
        enter(&h, layer)
        run_tasks(weights_task, &h, p.dirs * ceil_div(h.lines, mr), width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    free(h.scratch)
    return 0


cdef int host_rnn_copy(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_rnn_problem* p = <const mx_rnn_problem*> problem
    cdef int64_t width = type_size(<int> p.x.type)
    if p.what == MX_RNN_GET:
        memcpy(slots[RNN_Y], <char*> slots[RNN_W] + p.start * width, p.count * width)
    else:
        memcpy(<char*> slots[RNN_DW] + p.start * width, slots[RNN_X], p.count * width)
    return 0
