"""Recurrent layers on NVIDIA's tensor cores: all steps of a layer in one launch."""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Step, struct_arg
from miopyx.problem._rnn cimport (
    RNN_CX, RNN_CY, RNN_DCX, RNN_DHX, RNN_HX, RNN_HY, RNN_LSTM, RNN_W, RNNProblem, rnn_gates, rnn_has, rnn_matrix,
)
from miopyx.solvers.conv.nvidia._common cimport has_wgmma
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport MX_DOUBLE, MX_FLOAT, MX_RNN_BACKWARD_DATA, MX_RNN_FORWARD, mx_rnn_problem
from ._common cimport OpenCLLayer
from ._rnn cimport RNNOffer, mx_rnn

from miopyx.database import rates

cdef enum:
    PIECE = 16                 # bytes that a work-item sends at once
    SEGMENT = 4                # pieces of k that a warp takes at once
    LOCAL = 222 << 10          # bytes of local memory of a group
    REGISTERS = 1 << 16        # of all work-items of a group
    MOST_REGISTERS = 255       # of one
    OTHERS = 36                # registers that hold no number of the layer's
    LONGEST = 1 << 14          # units, whose square times the gates has 32 bits

# What a device's file of rates has: how long what a step does takes, by which teams are compared.
cdef struct rates_t:
    double launch              # of a kernel that has one step,
    double product_rate        # in which a compute unit does so many products of floats in a unit of time
    double step                # of cells,
    double pair                # and of each pair of a unit and a sequence that a work-item has
    double warp                # of a group that waits for its warps, for each
    double mma                 # of a product of a warp,
    double chain               # and of one that waits for the one before
    double local_rate          # bytes of local memory in a unit of time
    double memory_rate         # bytes that a group reads from global memory,
    double cache_rate          # and that all do
    double cluster_rate        # bytes that a group sends to a cluster
    double cluster_step        # until a cluster has what was sent
    double memory_step         # until a team that is none has

# What a step of a team does.
cdef struct counts_t:
    double waves               # how often, since not all teams run at once
    double mma, chain          # products of warps of a quarter of a compute unit, and those that wait for each other
    double pairs, warps
    double local               # bytes of local memory
    double streamed, all       # bytes of the matrix that a group reads, and all groups
    double sent                # bytes

# How a layer is shared out, as layers/rnn_nvidia.cl has it.
cdef struct shape_t:
    int64_t team, units, seqs, wm, ks, kept, stored, fragments
    bint cluster
    double time                # 0 where there is none
    counts_t counts

cdef rates_t _none
RATES = tuple(_none)           # their names
cdef dict _given = None

cdef int64_t _only_team = 0, _only_seqs = 0, _most_kept = MOST_REGISTERS, _most_stored = LOCAL
cdef int _only_cluster = -1


def only_teams(int64_t team=0, int64_t seqs=0, int cluster=-1, int64_t kept=MOST_REGISTERS, int64_t stored=LOCAL):
    """Take teams of so many groups and sequences alone, as a cluster or not, and of matrices no more than so many
    fragments of a warp in registers and in local memory; for tests.  No argument: any.
    """
    global _only_team, _only_seqs, _only_cluster, _most_kept, _most_stored
    _only_team, _only_seqs, _only_cluster, _most_kept, _most_stored = team, seqs, cluster, kept, stored


def use_rates(dict given=None):
    """Take these rates on any device; for tests, and while a device's own are measured.  None: the device's."""
    global _given
    _given = given


cdef double _time(const shape_t* at, const rates_t* r) noexcept nogil:
    """How long a step takes."""
    cdef const counts_t* n = &at.counts
    cdef double busy = n.local / r.local_rate + max(n.streamed / r.memory_rate, n.all / r.cache_rate)
    cdef double time = busy + max(n.mma * r.mma, n.chain * r.chain) + (r.step + n.pairs * r.pair) + n.warps * r.warp
    if at.team > 1 and at.cluster:
        time += r.cluster_step + n.sent / r.cluster_rate
    elif at.team > 1:
        time += r.memory_step + n.sent / r.memory_rate
    return time * n.waves


cdef int _compare(shape_t* best, shape_t at, const mx_rnn_problem* p, int64_t cores, const rates_t* by,
                  bint backward) noexcept nogil:
    """Take `at` for `best` where it fits and is faster; wm, ks and kept are chosen here."""
    cdef int64_t size = 4 if p.x.type == MX_FLOAT else 2, parts = 2 if p.x.type == MX_FLOAT else 1
    cdef int64_t products = 3 if p.x.type == MX_FLOAT else 1, gates = rnn_gates(p.mode), nt = at.seqs // 8
    cdef int64_t rows = at.units * (1 if backward else gates), tiles = ceil_div(rows, 16)
    cdef int64_t pieces = at.units * (gates if backward else 1) * size // PIECE, line = at.team * pieces
    cdef int64_t segments = ceil_div(line, SEGMENT), blocks = ceil_div(p.batch, at.seqs) * p.dirs
    cdef int64_t warps = 4, mt, sp, group, pairs, others, streamed, lines, left, at_once
    cdef counts_t* n = &at.counts
    cdef bint direct
    at_once = max(1, cores // at.team)
    if at.cluster and at.team > 1:
        at_once = max(1, at_once - at_once // 8)     # clusters do not cross the border of a GPC
    elif at.team > 1 and blocks > at_once:
        return 0
    n.waves = ceil_div(blocks, at_once)
    while warps <= 16:
        at.wm = 1
        while at.wm <= warps:
            at.ks = warps // at.wm
            mt, sp, group = ceil_div(tiles, at.wm), ceil_div(segments, at.ks), 32 * warps
            at.fragments = mt * sp * 2 * parts
            pairs = ceil_div(at.units * at.seqs, group)
            others = OTHERS + 4 * (mt * nt + nt * parts) + pairs * (4 * gates + 4)
            at.kept = (min(REGISTERS // group, MOST_REGISTERS) - others) // 4
            at.kept = min(at.kept, at.fragments, _most_kept)
            direct = at.team > 1 and not at.cluster and at.wm == 1
            lines = 0 if direct else 2 if at.cluster and at.team > 1 else 1
            left = LOCAL - (lines * at.seqs * (segments * SEGMENT + SEGMENT) * PIECE + at.seqs * pieces * PIECE
                            + at.ks * at.seqs * (tiles * 16 + 4) * 4)
            if at.kept >= 1 and left >= 0 and mt * nt <= 16 and (at.wm == 1 or tiles > at.wm // 2):
                at.stored = min(at.fragments - at.kept, left // (group * PIECE), _most_stored)
                streamed = (at.fragments - at.kept - at.stored) * group * PIECE
                n.local = ((0 if direct else at.wm * at.seqs * line * PIECE) + 2 * at.ks * rows * at.seqs * 4
                           + at.stored * group * PIECE)
                n.streamed, n.all = streamed, streamed * min(at_once, blocks) * at.team
                n.mma, n.chain = warps // 4 * mt * sp * 2 * nt * products, sp * 2 * products
                n.pairs, n.warps, n.sent = pairs, warps, at.seqs * line * PIECE
                at.time = _time(&at, by)
                if best.time == 0 or at.time < best.time:
                    best[0] = at
            at.wm *= 2
        warps *= 2
    return 0


cdef shape_t team_shape(const mx_rnn_problem* p, int64_t cores, const rates_t* by, bint backward) noexcept:
    """The fastest team; its time is 0 where none is possible."""
    cdef shape_t best, at
    cdef int64_t step = PIECE // (4 if p.x.type == MX_FLOAT else 2)
    best.time = 0
    at.seqs = 8
    while at.seqs <= 32:
        if at.seqs > 8 and at.seqs >= 2 * p.batch and _only_seqs == 0:
            break
        if _only_seqs in (0, at.seqs):
            at.team, at.cluster = 1, True
            while at.team <= 16 and _only_cluster != 0:
                at.units = up(ceil_div(p.hidden, at.team), step)
                if (_only_team in (0, at.team) and (at.team - 1) * at.units < p.hidden):
                    _compare(&best, at, p, cores, by, backward)
                at.team *= 2
            at.cluster, at.units = False, step
            while at.units < p.hidden and _only_cluster != 1:
                at.team = ceil_div(p.hidden, at.units)
                if at.team <= cores and _only_team in (0, at.team):
                    _compare(&best, at, p, cores, by, backward)
                at.units += step
        at.seqs *= 2
    return best


cdef double _step_time(const mx_rnn_problem* p, int64_t cores, const rates_t* by) noexcept:
    """How long a step takes that is a launch of its own."""
    return by.launch + <double> p.batch * p.dirs * p.hidden * p.hidden * rnn_gates(p.mode) / (
        by.product_rate * cores)


def team_of(RNNProblem problem not None, int64_t cores, dict given not None):
    """Return how a layer is shared out on a device of so many units by these rates, what a step does, and whether
    that takes less time than a launch a step; None where no team is possible.
    """
    cdef rates_t by = given
    cdef shape_t shape = team_shape(&problem.c, cores, &by, problem.c.what == MX_RNN_BACKWARD_DATA)
    return None if shape.time == 0 else {**shape, "faster": shape.time <= _step_time(&problem.c, cores, &by)}


cdef class NvRNN(OpenCLLayer):
    """All steps of a layer in one launch, by teams of groups that keep the state's matrix."""

    def __cinit__(self):
        self.id, self.name, self.assembly = 1294, "NvRNN", True

    cpdef str why_not(self, Device dev, Problem problem):
        cdef shape_t shape
        return self._choose(dev, &(<RNNProblem> problem).c, &shape)

    cdef str _choose(self, Device dev, const mx_rnn_problem* p, shape_t* shape):
        """Choose the team; what stands against it, or None."""
        cdef rates_t by
        if not has_wgmma(dev) or dev.info.cuda < 0:
            return "needs clusters of Hopper's, which CUDA's driver launches"
        if p.layers == 0 or p.what not in (MX_RNN_FORWARD, MX_RNN_BACKWARD_DATA):
            return "has no steps"
        if p.x.type == MX_DOUBLE:
            return "no tensor cores for double precision"
        if p.hidden > LONGEST:
            return "too many units"
        given = _given if _given is not None else rates.of(dev.info, self.name, RATES)
        if given is None:
            return "no file has rates of the device's family"
        by = given
        shape[0] = team_shape(p, dev.compute_units, &by, p.what == MX_RNN_BACKWARD_DATA)
        if shape.time == 0:
            return "no team has enough groups for the sequences"
        if shape.time > _step_time(p, dev.compute_units, &by):
            return "a launch a step is faster"
        return None

    cpdef object offer(self, Device dev, Problem problem):
        cdef TeamOffer offer = TeamOffer.__new__(TeamOffer)
        cdef str why = self._choose(dev, &(<RNNProblem> problem).c, &offer.shape)
        if why is not None:
            return why
        offer.__init__(self, dev, problem)
        return offer


cdef class TeamOffer(RNNOffer):
    """Layers whose steps are one launch; `NvRNN.offer` sets the shape before it is initialised."""

    cdef shape_t shape
    cdef int64_t blocks, passed, counters, layers_done

    cdef int _prepare(self, bint backward) except -1:
        cdef const mx_rnn_problem* p = self.p
        cdef shape_t at = self.shape
        cdef int64_t line, gates = rnn_gates(p.mode)
        cdef tuple h = (RNN_HX, RNN_CX, RNN_HY, RNN_CY) if not backward else (RNN_HY, RNN_CY, RNN_DHX, RNN_DCX)
        self.layers_done = 0
        self.blocks = ceil_div(p.batch, at.seqs) * p.dirs
        self.defines = self._defines()
        self.defines.update(
            HIDDEN=p.hidden, UNITS=at.units, TEAM=at.team, CLUSTER=int(at.cluster), SEQS=at.seqs, WM=at.wm, KS=at.ks,
            KEPT=at.kept, STORED=at.stored, BACKWARD=int(backward), HAS_H=int(rnn_has(p, h[0])),
            HAS_C=int(rnn_has(p, h[1])), TO_H=int(rnn_has(p, h[2])), TO_C=int(rnn_has(p, h[3])))
        if backward:
            self.defines["HAS_FIRST"] = int(rnn_has(p, RNN_CX if p.mode == RNN_LSTM else RNN_HX))
        if at.team > 1 and not at.cluster:
            line = at.team * at.units * (gates if backward else 1) * self.size
            self.passed = <int64_t> self._space(self.blocks * 2 * at.seqs * line)[1]
            self.counters = <int64_t> self._space(p.layers * self.blocks * 4)[1]
            self.items.append(Step(KernelSpec("layers/rnn_nvidia.cl", "team_clear", **self.defines),
                                   (Arg.slot_of(SLOT_WORKSPACE, 4, self.counters),
                                    Arg.int32(<int> (p.layers * self.blocks))), (256,), (256,)))
        return 0

    cdef tuple _panels(self, bint backward):
        cdef shape_t at = self.shape
        return self._space(self.p.dirs * at.team * at.wm * at.ks * at.fragments * 32 * PIECE)

    cdef Step _pack(self, int64_t layer, tuple panels):
        cdef int64_t groups = ceil_div(self.p.dirs * self.lines * self.p.hidden, 8 * 256)
        return Step(KernelSpec("layers/rnn_nvidia.cl", "team_pack", **self.defines),
                    (Arg.slot_of(RNN_W, self.size, rnn_matrix(self.p, layer, 0, True) * self.size),
                     self._arg(panels, 4), struct_arg(&self.s, sizeof(mx_rnn))), (groups * 256,), (256,))

    cdef int _launch(self, str entry, tuple args, tuple panels) except -1:
        cdef int64_t group = 32 * self.shape.wm * self.shape.ks
        args = (*args, self._arg(panels, 4), Arg.slot_of(SLOT_WORKSPACE, 4, self.passed),
                Arg.slot_of(SLOT_WORKSPACE, 4, self.counters + 4 * self.layers_done * self.blocks), self._table(),
                struct_arg(&self.s, sizeof(mx_rnn)))
        self.layers_done += 1
        self.items.append(Step(KernelSpec("layers/rnn_nvidia.cl", entry, **self.defines), args,
                               (self.shape.team * group, self.blocks // self.p.dirs, self.p.dirs), (group, 1, 1)))
        return 0

    cdef int _steps_forward(self, tuple panels, tuple gates, tuple x_bias, tuple r_bias, tuple output,
                            tuple kept) except -1:
        return self._launch("team_forward", (
            self._arg(gates, self.size), self._arg(x_bias, self.size), self._arg(r_bias, self.size),
            self._arg(output, self.size), self._kept(kept), self._given(RNN_HX), self._given(RNN_CX),
            self._given(RNN_HY), self._given(RNN_CY)), panels)

    cdef int _steps_backward(self, tuple panels, tuple dy, tuple y, tuple gates, tuple cells, tuple deltas,
                             tuple inner) except -1:
        return self._launch("team_backward", (
            self._arg(dy, self.size), self._arg(y, self.size), self._kept(gates), self._kept(cells),
            self._arg(deltas, self.size), self._kept(inner),
            self._given(RNN_CX if self.p.mode == RNN_LSTM else RNN_HX), self._given(RNN_HY), self._given(RNN_CY),
            self._given(RNN_DHX), self._given(RNN_DCX)), panels)
