"""Recurrent layers: on the host path, and on OpenCL devices.

The products that need no state, those of inputs and of all gradients of parameters, are convolutions of 1x1 over the
rows of all steps: parts, for which the solvers of convolutions compete.  What remains, a product with the state in
each step, has kernels of its own.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    ARG_SLOT, SLOT_W, SLOT_WORKSPACE, Arg, Device, KernelSpec, Offer, Part, Problem, Solution, Solver, Step, struct_arg,
)
from miopyx.host._rnn cimport host_rnn_copy, host_rnn_data, host_rnn_forward, host_rnn_weights
from miopyx.problem._bias cimport BiasProblem
from miopyx.problem._descriptors cimport ConvolutionDescriptor, TensorDescriptor, type_size
from miopyx.problem._dropout cimport DROPOUT_GIVEN, DROPOUT_KEPT, DropoutDescriptor, dropout_problem
from miopyx.problem._problem cimport fill_conv, problem_of
from miopyx.problem._rnn cimport (
    RNN_CX, RNN_CY, RNN_DCX, RNN_DHX, RNN_DW, RNN_DX, RNN_DY, RNN_GRU, RNN_HX, RNN_HY, RNN_LSTM, RNN_RESERVE,
    RNN_SEQUENCES, RNN_STATES, RNN_STEPS, RNN_TABLE, RNN_W, RNN_X, RNN_Y, RNNProblem, rnn_bias, rnn_gates, rnn_has,
    rnn_layer_t, rnn_matrix, rnn_reserve, rnn_width,
)
from miopyx.values._guard cimport load_int64, store_int64
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_DROPOUT_BACKWARD, MX_DROPOUT_FORWARD, MX_FORWARD,
    MX_RNN_BACKWARD_DATA, MX_RNN_BACKWARD_WEIGHTS, MX_RNN_FORWARD, MX_RNN_GET, mx_conv_problem, mx_rnn_problem,
)
from ._common cimport TOKENS, HostLayer, OpenCLLayer

from miopyx.device.info import core_cache

cdef enum:
    ALIGNED = 256              # bytes, of regions of the workspace
    READING_NEAR = 8           # multiplications and additions that it does while it reads a number from its cache
    READING_FAR = 28           # likewise from beyond; they do not overlap
    WAITING = 1 << 17          # that it does while cores wait for each other
    FETCHING = 6               # sequences from which on panels are fetched ahead
    COUNTER = 64               # bytes of a counter
    SHARES = 4                 # work-groups of a CPU that copies, for each core
    SHARE = 1 << 12            # numbers that are worth another one
    TEAM = 256                 # work-items of a group of a GPU
    RUN = 4                    # terms that a work-item of a GPU reads at once
    MOST_ROWS = 16             # sequences of a group of a GPU
    LOCAL = 32 << 10           # bytes of local memory of a group of a GPU

cdef ConvolutionDescriptor _ONE_BY_ONE = ConvolutionDescriptor((0, 0), (1, 1), (1, 1))


cdef class HostRNN(HostLayer):
    """All directions, and copies of parameters, on the host path."""

    def __cinit__(self):
        self.id, self.name = 1293, "HostRNN"

    cpdef str why_not(self, Device dev, Problem problem):
        return None if dev.is_host else "runs on the host path only"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef Step step = Step(None, (), ())
        cdef int what = (<RNNProblem> problem).c.what
        step.function = (host_rnn_forward if what == MX_RNN_FORWARD else
                         host_rnn_data if what == MX_RNN_BACKWARD_DATA else
                         host_rnn_weights if what == MX_RNN_BACKWARD_WEIGHTS else host_rnn_copy)
        return Solution([step])


cdef class OpenCLRNN(OpenCLLayer):
    """All directions, and copies of parameters, on OpenCL devices."""

    def __cinit__(self):
        self.id, self.name = 1292, "OpenCLRNN"

    cpdef str why_not(self, Device dev, Problem problem):
        if dev.is_host:
            return "runs on OpenCL devices only"
        if (<RNNProblem> problem).c.x.type == MX_DOUBLE and not dev.fp64:
            return "device has no double precision"
        return None

    cpdef object offer(self, Device dev, Problem problem):
        cdef str why = self.why_not(dev, problem)
        return why if why is not None else RNNOffer(self, dev, problem)


cdef tuple _place(int slot, int64_t offset=0):
    """A slot and where in it something begins, in bytes."""
    return slot, offset


cdef int64_t _kept_near = 0


cdef int64_t _core_cache() except -1:
    """Bytes of a matrix that a core of a CPU keeps near: half of its second-level cache, states have the rest."""
    if load_int64(_kept_near) == 0:
        store_int64(_kept_near, core_cache() // 2)
    return load_int64(_kept_near)


cdef int64_t _step_flops(int64_t rows, int64_t numbers, int64_t cores, int64_t size) except -1:
    """What a core of a CPU could do while a step runs: of a matrix of so many numbers, which cores share."""
    cdef int64_t mine = ceil_div(numbers, cores)
    return mine * max(2 * rows, READING_NEAR) + max(0, min(mine, 2 * (mine - _core_cache() // size))) * READING_FAR


cdef int64_t _shared_units(int64_t vectors, int64_t cores) noexcept:
    """Vectors of a panel where cores share the panels: wide ones need fewer loads, narrow ones are dealt out evenly."""
    cdef int64_t units, cost, best = 0, least = 0
    for units, cost in ((4, 20), (2, 21), (1, 24)):  # of a vector in such a tile
        cost *= units * ceil_div(ceil_div(vectors, units), cores)
        if best == 0 or cost < least:
            best, least = units, cost
    return best


cdef class RNNOffer(Offer):
    """What runs in which order: steps, and parts, which become steps when their solutions are known."""

    def __init__(self, Solver solver not None, Device device not None, Problem problem not None):
        Offer.__init__(self, solver, device, problem)
        cdef const mx_rnn_problem* p = &(<RNNProblem> problem).c
        cdef int64_t lanes
        self.p, self.prepared, self.items = p, [], []
        self.size, self.acc = type_size(<int> p.x.type), 8 if p.x.type == MX_DOUBLE else 4
        if p.layers == 0:
            self._copy(_place(RNN_W if p.what == MX_RNN_GET else RNN_X, p.start * self.size
                              if p.what == MX_RNN_GET else 0),
                       _place(RNN_Y if p.what == MX_RNN_GET else RNN_DW, 0 if p.what == MX_RNN_GET
                              else p.start * self.size), p.count, self.items)
            return
        lanes = device.vector_bytes // self.acc if device.is_cpu else 4
        self.gates = rnn_gates(p.mode)
        self.lines = self.gates * p.hidden
        memset(&self.s, 0, sizeof(mx_rnn))
        self.s.hidden, self.s.padded, self.s.dirs, self.s.batch, self.s.steps, self.s.rows = (
            p.hidden, up(p.hidden, lanes), p.dirs, p.batch, p.steps, p.rows)
        self.s.outer[0], self.s.outer[1] = p.x.len[0], p.x.len[1]
        if p.what == MX_RNN_FORWARD:
            self._forward()
        elif p.what == MX_RNN_BACKWARD_DATA:
            self._backward_data()
        else:
            self._backward_weights()
        self.parts = tuple([item for item in self.items if isinstance(item, Part)])

    cdef Solution steps(self, tuple config):
        """All steps; those that prepare parameters come first where no later one reads any."""
        cdef Part part
        cdef list first = list(self.prepared), rest = [], steps
        cdef bint apart = self.p.what == MX_RNN_FORWARD
        cdef int64_t end = self.room, shared = 0
        for part in self.parts:
            apart = apart and _reads_weights_first(part.solution)
        for item in self.items:
            if not isinstance(item, Part):
                rest.append(item)
                continue
            part = item
            steps = part.steps(end if apart else self.room)
            if apart:
                first += steps[:part.solution.constant]
                rest += steps[part.solution.constant:]
                end = up(end + part.solution.workspace, ALIGNED)
            else:
                rest += steps
                shared = max(shared, part.solution.workspace)
        return Solution(first + rest, max(end, self.room + shared), len(first) if apart and rest else 0)

    # Places

    cdef tuple _space(self, int64_t bytes):
        """A new region of the workspace."""
        cdef int64_t at = self.room
        self.room = up(at + bytes, ALIGNED)
        return _place(SLOT_WORKSPACE, at)

    cdef Arg _arg(self, tuple place, int64_t width):
        slot, offset = place
        return Arg.slot_of(slot, width, offset)

    cdef Arg _table(self):
        # What is not there is not touched: the workspace stands in for it.
        return Arg.slot_of(RNN_TABLE, 4) if self.p.uneven else Arg.slot_of(SLOT_WORKSPACE, 4)

    cdef Arg _given(self, int slot):
        return Arg.slot_of(slot if rnn_has(self.p, slot) else SLOT_WORKSPACE, self.size)

    cdef bint _is_padded(self) noexcept:
        """Whether x and y lie in another order than the steps'."""
        return self.p.layout == RNN_SEQUENCES or (self.p.layout == RNN_STEPS and self.p.uneven)

    cdef tuple _moved(self, tuple place, int64_t offset):
        return _place(place[0], <int64_t> place[1] + offset)

    # Launches

    cdef dict _defines(self):
        cdef const mx_rnn_problem* p = self.p
        cdef str real = "double" if self.acc == 8 else "float"
        return {"T": TOKENS[p.x.type], "ACC": real, "SCALAR": real, "CELL": p.mode,
                "UNEVEN": int(p.uneven), "RANKED": int(p.ranked), "TRAINING": int(p.training), "BIAS": int(p.bias)}

    cdef Step _move(self, str entry, tuple args, int64_t numbers, dict more):
        """A launch of layers/rnn.cl that goes over so many numbers."""
        cdef dict defines = self._defines()
        cdef int64_t local = 1, groups
        defines.update(more)
        if self.device.is_cpu:
            defines["ON_CPU"] = 1
            groups = max(1, min(SHARES * self.device.compute_units, numbers // SHARE))
        else:
            local = min(TEAM, self.device.max_work_group)
            groups = max(1, min(ceil_div(numbers, local), 1 << 16))
        return Step(KernelSpec("layers/rnn.cl", entry, **defines), args, (groups * local,), (local,))

    cdef int _copy(self, tuple source, tuple to, int64_t count, list items) except -1:
        items.append(self._move("rnn_copy", (self._arg(source, self.size), self._arg(to, self.size), Arg.int64(count)),
                                count, {}))
        return 0

    cdef int _begin(self, str entry, int h, int c) except -1:
        """First states to the workspace, or last ones from there."""
        cdef const mx_rnn_problem* p = self.p
        self.items.append(self._move(
            entry, (self._given(h), self._given(c), Arg.slot_of(SLOT_WORKSPACE, self.acc, self.states), self._table(),
                    struct_arg(&self.s, sizeof(mx_rnn))), p.dirs * p.batch * p.hidden,
            {"HAS_H": int(rnn_has(p, h)), "HAS_C": int(rnn_has(p, c))}))
        return 0

    cdef int _rows(self, str entry, tuple source, tuple to, int64_t width) except -1:
        """Rows of padded sequences."""
        self.items.append(self._move(
            entry, (self._arg(source, self.size), self._arg(to, self.size), self._table(),
                    struct_arg(&self.s, sizeof(mx_rnn)), Arg.int64(width)),
            self.s.outer[0] * self.s.outer[1] * width, {"LAYOUT": self.p.layout}))
        return 0

    cdef tuple _gathered(self, int slot, int64_t width):
        """Where the rows of x, y or dy lie in the order of steps."""
        cdef tuple place
        if not self._is_padded():
            return _place(slot)
        place = self._space(self.p.rows * width * self.size)
        self._rows("rnn_gather", _place(slot), place, width)
        return place

    cdef tuple _ungathered(self, int slot, int64_t width):
        """Where the rows of y or dx are to lie; `_scatter` brings them to their place."""
        return self._space(self.p.rows * width * self.size) if self._is_padded() else _place(slot)

    cdef int _scatter(self, tuple place, int slot, int64_t width) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef int64_t rows
        if self._is_padded():
            return self._rows("rnn_scatter", place, _place(slot), width)
        rows = p.x.len[0] * p.x.len[1] if p.layout == RNN_STEPS else p.rows
        if rows > p.rows:  # steps that no sequence has
            self.items.append(self._move(
                "rnn_clear", (self._arg(_place(slot, p.rows * width * self.size), self.size),
                              Arg.int64((rows - p.rows) * width)), (rows - p.rows) * width, {}))
        return 0

    cdef int _product(self, int direction, tuple x, int64_t columns, tuple w, tuple y, int64_t lines,
                      double beta) except -1:
        """Of y (rows x lines) = x (rows x columns) by w (lines x columns) transposed: that, dx or dw."""
        cdef mx_conv_problem c
        cdef int64_t rows = self.p.rows
        cdef TensorDescriptor x_desc = _rows_of(self.p.x.type, rows, columns)
        cdef TensorDescriptor y_desc = _rows_of(self.p.x.type, rows, lines)
        cdef TensorDescriptor w_desc = TensorDescriptor(self.p.x.type, (lines, columns, 1, 1),
                                                        (columns, 1, columns, columns))
        fill_conv(&c, direction, x_desc, w_desc, y_desc, _ONE_BY_ONE)
        self.items.append(Part(problem_of(&c), (x, w, y), 1, beta))
        return 0

    cdef int _sums(self, tuple deltas, int64_t lines, tuple to) except -1:
        """The sums of columns."""
        self.items.append(Part(BiasProblem(TensorDescriptor(self.p.x.type, (1, lines, 1, 1)),
                                           _rows_of(self.p.x.type, self.p.rows, lines)), (to, None, deltas)))
        return 0

    cdef int _dropout(self, int what, tuple x, tuple y, tuple mask) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef TensorDescriptor line = TensorDescriptor(p.x.type, (p.rows * p.dirs * p.hidden,))
        cdef bint forward = what == MX_DROPOUT_FORWARD
        cdef DropoutDescriptor desc = DropoutDescriptor(p.dropout, None, 0, 0, False, bool(p.evolves))
        self.items.append(Part(
            dropout_problem(what, DROPOUT_KEPT if forward else DROPOUT_GIVEN, desc, line, line, line, "Desc"),
            (x, y, mask, _place(RNN_STATES) if forward else None)))
        return 0

    # Steps

    cdef dict _shape(self, bint backward, int64_t* grid):
        """What the kernels of steps are built for; `grid`: groups along the sequences and the panels, and how many
        work-items of one."""
        cdef const mx_rnn_problem* p = self.p
        cdef Device dev = self.device
        cdef dict defines = self._defines()
        cdef int64_t width = 1 if backward else self.gates, units, vectors, shared, cores
        defines["BACKWARD"] = int(backward)
        if not dev.is_cpu:
            self._gpu_shape(width, defines, grid)
            return defines
        lanes = dev.vector_bytes // self.acc
        vectors = ceil_div(p.hidden, lanes)
        units = min(4, vectors) if width == 1 else 1
        if units == 3:
            units = 4
        grid[0], grid[1], grid[2] = min(ceil_div(dev.compute_units, p.dirs), p.batch), 1, 1
        self.s.shares, cores = 0, min(dev.compute_units, vectors)
        if cores > 1:
            shared = p.dirs * (_step_flops(p.batch, p.hidden * self.lines, cores, self.acc) + WAITING)
            if shared < _step_flops(ceil_div(p.batch, grid[0]), p.hidden * self.lines, 1, self.acc):
                if width == 1:
                    units = _shared_units(vectors, cores)
                grid[0], grid[1] = 1, min(cores, ceil_div(vectors, units))
                self.s.shares = grid[1]
        defines.update(VEC=lanes, UNITS=units, MANY=int(dev.vector_bytes == 64))
        defines["SHARED"] = int(self.s.shares > 0)
        # Of few sequences the products do not last long enough to fetch anything meanwhile.
        defines["FAR"] = int(p.batch >= FETCHING
                             and p.hidden * self.lines * self.acc > _core_cache() * max(1, self.s.shares))
        return defines

    cdef int _gpu_shape(self, int64_t width, dict defines, int64_t* grid) except -1:
        """That of a GPU: `width` columns for each unit."""
        cdef const mx_rnn_problem* p = self.p
        cdef Device dev = self.device
        cdef int64_t team = min(TEAM, dev.max_work_group), runs = self.s.padded * (self.gates // width) // RUN
        cdef int64_t per = 4 if width == 1 else 1, lanes = 32, least = 4 if width == 1 else 8, rows = 1, slices = 1
        cdef int64_t blocks = ceil_div(3 * dev.compute_units, 2 * p.dirs), chunk
        while rows < min(p.batch, MOST_ROWS * 4 // self.acc):
            rows *= 2
        # Enough groups first by narrower panels, then by fewer sequences, as long as what is read feeds several sums.
        while lanes > least and ceil_div(p.batch, rows) * ceil_div(p.hidden, per * lanes) < blocks:
            lanes //= 2
        while rows > 4 and ceil_div(p.batch, rows) * ceil_div(p.hidden, per * lanes) < blocks:
            rows //= 2
        while slices < runs and 2 * slices * lanes <= team:
            slices *= 2
        chunk = rows
        while chunk > 1 and (slices * chunk + rows) * lanes * per * width * self.acc > min(LOCAL, dev.local_mem):
            chunk = ceil_div(chunk, 2)
        defines.update(PADDED=self.s.padded, UNITS=per * lanes, PER=per, SLICES=slices, ROWS=rows, CHUNK=chunk)
        grid[0], grid[1], grid[2] = ceil_div(p.batch, rows), ceil_div(p.hidden, per * lanes), slices * lanes
        return 0

    cdef int _prepare(self, bint backward) except -1:
        """Decide how the steps run, and give their states room."""
        cdef const mx_rnn_problem* p = self.p
        cdef int64_t counters  # of a CPU, in numbers
        self.defines = self._shape(backward, self.grid)
        if backward:
            self.defines["HAS_FIRST"] = int(rnn_has(p, RNN_CX if p.mode == RNN_LSTM else RNN_HX))
        counters = p.dirs * (self.s.shares + 1) * COUNTER // self.acc if self.s.shares else 0
        self.states = <int64_t> self._space(
            ((2 * self.gates + 2 if backward else 3) * p.dirs * p.batch * self.s.padded + counters) * self.acc)[1]
        return 0

    cdef tuple _panels(self, bint backward):
        """A region for the state's matrices as the steps' kernel reads them."""
        cdef const mx_rnn_problem* p = self.p
        cdef int64_t units = self.defines["UNITS"], depth = self.s.padded * (self.gates if backward else 1)
        cdef int64_t lanes = self.defines["VEC"] if self.device.is_cpu else 1
        return self._space(p.dirs * ceil_div(p.hidden, units * lanes) * units * lanes * depth
                           * (1 if backward else self.gates) * self.acc)

    cdef Step _pack(self, int64_t layer, tuple panels):
        cdef int64_t w = rnn_matrix(self.p, layer, 0, True) * self.size, local, groups
        cdef str file = "layers/rnn_cpu.cl" if self.device.is_cpu else "layers/rnn_gpu.cl"
        local = self.grid[2]
        groups = (SHARES * self.device.compute_units if self.device.is_cpu else
                  ceil_div(self.p.dirs * self.lines * self.p.hidden, local))
        return Step(KernelSpec(file, "rnn_pack", **self.defines),
                    (self._arg(_place(RNN_W, w), self.size), self._arg(panels, self.acc),
                     struct_arg(&self.s, sizeof(mx_rnn))), (groups * local,), (local,))

    cdef int _run(self, str entry, tuple args) except -1:
        """All steps of a layer: one launch on a CPU, where groups can wait for each other, else a launch a step."""
        cdef KernelSpec spec = KernelSpec("layers/rnn_cpu.cl" if self.device.is_cpu else "layers/rnn_gpu.cl", entry,
                                          **self.defines)
        cdef int steps = <int> self.p.steps
        cdef tuple sizes = (self.grid[0] * self.grid[2], self.grid[1], self.p.dirs), local = (self.grid[2], 1, 1)
        if self.device.is_cpu:
            if self.s.shares:
                sizes = (1, self.grid[1], 1)
            self.items.append(Step(spec, (*args, Arg.int32(0), Arg.int32(steps)), sizes, local))
        else:
            self.items.append(Step(spec, (*args, Arg.turn(), Arg.int32(1)), sizes, local, steps))
        return 0

    cdef Arg _kept(self, tuple place):
        """What is not there is not touched: the workspace stands in for it."""
        return Arg.slot_of(SLOT_WORKSPACE, self.size) if place is None else self._arg(place, self.size)

    cdef int _steps_forward(self, tuple panels, tuple gates, tuple x_bias, tuple r_bias, tuple output,
                            tuple kept) except -1:
        """All steps of a layer, its first and last states included."""
        self._begin("rnn_begin", RNN_HX, RNN_CX)
        self._run("rnn_forward", (
            self._arg(gates, self.size), self._arg(panels, self.acc),
            Arg.slot_of(SLOT_WORKSPACE, self.acc, self.states), self._arg(x_bias, self.size),
            self._arg(r_bias, self.size), self._arg(output, self.size), self._kept(kept), self._table(),
            struct_arg(&self.s, sizeof(mx_rnn))))
        if rnn_has(self.p, RNN_HY) or rnn_has(self.p, RNN_CY):
            self._begin("rnn_end", RNN_HY, RNN_CY)
        return 0

    cdef int _forward(self) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef rnn_layer_t at
        cdef int64_t layer, direction, cells = p.rows * p.dirs * p.hidden * self.size
        cdef int64_t first_bias = rnn_bias(p, 0, 0, False)
        cdef tuple gates, output, below, bias = _place(SLOT_WORKSPACE), panels, spaces = (), kept
        if p.bias:
            bias = self._space(2 * p.layers * p.dirs * self.lines * self.size)
            self._copy(_place(RNN_W, first_bias * self.size), bias, 2 * p.layers * p.dirs * self.lines, self.prepared)
        self._prepare(False)
        below = self._gathered(RNN_X, p.input)
        if not p.training:
            gates = self._space(cells * self.gates)
            if p.layers > 1:
                spaces = (self._space(cells), self._space(cells))
        for layer in range(p.layers):
            self.s.first, self.s.input = layer * p.dirs, rnn_width(p, layer)
            panels = self._panels(False)
            self.prepared.append(self._pack(layer, panels))
            if p.training:
                rnn_reserve(p, layer, &at)
                gates = _place(RNN_RESERVE, at.gates)
            if layer == p.layers - 1:
                output = self._ungathered(RNN_Y, p.dirs * p.hidden)
            elif p.training:
                output = _place(RNN_RESERVE, at.output)
            else:
                output = spaces[layer % 2]
            if layer == 0 and p.skip:
                self.items.append(self._move(
                    "rnn_spread", (self._arg(below, self.size), self._arg(gates, self.size),
                                   struct_arg(&self.s, sizeof(mx_rnn))), p.rows * p.dirs * self.lines, {}))
            else:
                for direction in range(p.dirs):
                    self._product(MX_FORWARD, below, self.s.input,
                                  _place(RNN_W, rnn_matrix(p, layer, direction, False) * self.size),
                                  self._moved(gates, direction * p.rows * self.lines * self.size), self.lines, 0)
            kept = None
            if p.training and self.gates > 1:
                kept = _place(RNN_RESERVE, at.cells if p.mode == RNN_LSTM else at.hidden)
            self._steps_forward(
                panels, gates,
                self._moved(bias, (rnn_bias(p, layer, 0, False) - first_bias) * self.size if p.bias else 0),
                self._moved(bias, (rnn_bias(p, layer, 0, True) - first_bias) * self.size if p.bias else 0),
                output, kept)
            below = output
            if p.dropout > 0 and layer < p.layers - 1:
                below = _place(RNN_RESERVE, at.dropped)
                self._dropout(MX_DROPOUT_FORWARD, output, below, _place(RNN_RESERVE, at.mask))
        return self._scatter(output, RNN_Y, p.dirs * p.hidden)

    cdef int _steps_backward(self, tuple panels, tuple dy, tuple y, tuple gates, tuple cells, tuple deltas,
                             tuple inner) except -1:
        """All steps of a layer backward, the gradients of its first and last states included."""
        cdef const mx_rnn_problem* p = self.p
        cdef int first = RNN_CX if p.mode == RNN_LSTM else RNN_HX
        self._begin("rnn_backward_begin", RNN_HY, RNN_CY)
        self._run("rnn_backward", (
            self._arg(dy, self.size), self._arg(y, self.size), self._kept(gates), self._kept(cells),
            self._arg(deltas, self.size), self._kept(inner), self._given(first), self._arg(panels, self.acc),
            Arg.slot_of(SLOT_WORKSPACE, self.acc, self.states), self._table(), struct_arg(&self.s, sizeof(mx_rnn))))
        if rnn_has(p, RNN_DHX):
            self.items.append(Step(
                KernelSpec("layers/rnn_cpu.cl" if self.device.is_cpu else "layers/rnn_gpu.cl", "rnn_backward_end",
                           **self.defines),
                (Arg.slot_of(RNN_DHX, self.size), self._arg(panels, self.acc),
                 Arg.slot_of(SLOT_WORKSPACE, self.acc, self.states), self._table(),
                 struct_arg(&self.s, sizeof(mx_rnn))),
                (self.grid[0] * self.grid[2], self.grid[1], p.dirs), (self.grid[2], 1, 1)))
        if rnn_has(p, RNN_DCX):
            self.items.append(self._move(
                "rnn_backward_cells", (Arg.slot_of(RNN_DCX, self.size),
                                       Arg.slot_of(SLOT_WORKSPACE, self.acc, self.states), self._table(),
                                       struct_arg(&self.s, sizeof(mx_rnn))), p.dirs * p.batch * p.hidden, {}))
        return 0

    cdef int _backward_data(self) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef rnn_layer_t at, under
        cdef int64_t layer, direction, width = p.dirs * p.hidden
        cdef tuple y, output, above, panels, spaces = (), gates, cells, inner
        self._prepare(True)
        above = self._gathered(RNN_DY, width)
        y = self._gathered(RNN_Y, width) if p.mode != RNN_LSTM else _place(SLOT_WORKSPACE)
        if p.layers > 1:
            spaces = (self._space(p.rows * width * self.size), self._space(p.rows * width * self.size))
        panels = self._panels(True)
        for layer in range(p.layers - 1, -1, -1):
            self.s.first, self.s.input = layer * p.dirs, rnn_width(p, layer)
            rnn_reserve(p, layer, &at)
            if layer < p.layers - 1:
                y = _place(RNN_RESERVE, at.output)
            gates = cells = inner = None
            if self.gates > 1:
                gates = _place(RNN_RESERVE, at.gates)
                cells = _place(RNN_RESERVE, at.cells if p.mode == RNN_LSTM else at.hidden)
            if p.mode == RNN_GRU:
                inner = _place(RNN_RESERVE, at.hidden_deltas)
            self.items.append(self._pack(layer, panels))
            self._steps_backward(panels, above, y, gates, cells, _place(RNN_RESERVE, at.deltas), inner)
            output = self._ungathered(RNN_DX, p.input) if layer == 0 else spaces[layer % 2]
            if layer == 0 and p.skip:
                self.items.append(self._move(
                    "rnn_fold", (Arg.slot_of(RNN_RESERVE, self.size, at.deltas), self._arg(output, self.size),
                                 struct_arg(&self.s, sizeof(mx_rnn))), p.rows * p.hidden, {}))
            else:
                for direction in range(p.dirs):
                    self._product(MX_BACKWARD_DATA, output, self.s.input,
                                  _place(RNN_W, rnn_matrix(p, layer, direction, False) * self.size),
                                  _place(RNN_RESERVE, at.deltas + direction * p.rows * self.lines * self.size),
                                  self.lines, direction)
            if p.dropout > 0 and layer > 0:
                rnn_reserve(p, layer - 1, &under)
                self._dropout(MX_DROPOUT_BACKWARD, output, output, _place(RNN_RESERVE, under.mask))
            above = output
        return self._scatter(output, RNN_DX, p.input)

    cdef int _backward_weights(self) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef rnn_layer_t at, under
        cdef int64_t layer, direction, width = p.dirs * p.hidden, deltas, plain, kept
        cdef tuple top = self._gathered(RNN_Y, width), y, below = _place(RNN_X), place
        cdef tuple before = self._space(p.rows * width * self.size)
        if not p.skip:
            below = self._gathered(RNN_X, p.input)
        for layer in range(p.layers):
            self.s.first, self.s.input = layer * p.dirs, rnn_width(p, layer)
            rnn_reserve(p, layer, &at)
            y = top if layer == p.layers - 1 else _place(RNN_RESERVE, at.output)
            if layer > 0:
                rnn_reserve(p, layer - 1, &under)
                below = _place(RNN_RESERVE, under.dropped)
            self.items.append(self._move(
                "rnn_before", (self._arg(y, self.size), self._given(RNN_HX), self._arg(before, self.size),
                               self._table(), struct_arg(&self.s, sizeof(mx_rnn))), p.rows * width,
                {"HAS_H": int(rnn_has(p, RNN_HX))}))
            for direction in range(p.dirs):
                deltas = at.deltas + direction * p.rows * self.lines * self.size
                kept = at.hidden_deltas + direction * p.rows * p.hidden * self.size
                place = self._moved(before, direction * p.rows * p.hidden * self.size)
                if layer > 0 or not p.skip:
                    self._product(MX_BACKWARD_WEIGHTS, below, self.s.input,
                                  self._dw(rnn_matrix(p, layer, direction, False)), _place(RNN_RESERVE, deltas),
                                  self.lines, 0)
                self._product(MX_BACKWARD_WEIGHTS, place, p.hidden, self._dw(rnn_matrix(p, layer, direction, True)),
                              _place(RNN_RESERVE, deltas), self.lines, 0)
                plain = 2 * p.hidden * p.hidden
                if p.mode == RNN_GRU:  # the last gate's product is multiplied by another gate before it is added
                    self._product(MX_BACKWARD_WEIGHTS, place, p.hidden,
                                  self._dw(rnn_matrix(p, layer, direction, True) + plain), _place(RNN_RESERVE, kept),
                                  p.hidden, 0)
                if p.bias:
                    self._sums(_place(RNN_RESERVE, deltas), self.lines, self._dw(rnn_bias(p, layer, direction, False)))
                    self._copy(self._dw(rnn_bias(p, layer, direction, False)),
                               self._dw(rnn_bias(p, layer, direction, True)), self.lines, self.items)
                    if p.mode == RNN_GRU:
                        self._sums(_place(RNN_RESERVE, kept), p.hidden,
                                   self._dw(rnn_bias(p, layer, direction, True) + 2 * p.hidden))
        return 0

    cdef tuple _dw(self, int64_t element):
        return _place(RNN_DW, element * self.size)


cdef TensorDescriptor _rows_of(int64_t type, int64_t rows, int64_t width):
    """Rows of numbers as the pixels of an image, channels last."""
    return TensorDescriptor(type, (1, width, 1, rows), (rows * width, 1, rows * width, width))


cdef bint _reads_weights_first(Solution solution) except -1:
    """Whether only the constant steps of a part read the parameters."""
    cdef Step step
    cdef Arg arg
    for step in solution.steps[solution.constant:]:
        for arg in step.args:
            if arg.kind == ARG_SLOT and arg.slot == SLOT_W:
                return False
    return True
