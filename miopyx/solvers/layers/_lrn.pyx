"""Local response normalisation: on the host path and as kernels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Step
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport fill_grid, grid_lines
from miopyx.host._lrn cimport host_lrn
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, MX_LRN_BACKWARD, mx_grid, mx_lrn_problem, mx_tensor
from miopyx.problem._lrn cimport LRN_DX, LRN_DY, LRN_SCALES, LRN_X, LRN_Y, LRNProblem
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div, struct_arg

cdef enum:
    WITHIN_CHANNEL = 0
    H = 3
    W = 4
    MOST = 16              # the longest window whose terms a CPU's kernel keeps
    UNROLLED = 8           # ... and a GPU's
    BLOCK = 64             # vectors of a work-item's block
    GROUPS = 8             # work-items that a CPU's core should get
    RESIDENT = 1024        # work-items that a GPU's unit has at a time; beyond, parts would come one after the other
    LEAST_ROWS = 16        # of a part


cdef extern from "miopyx/kernels/layers/lrn_args.h" nogil:
    ctypedef struct mx_lrn:
        int64_t rows, before, after, columns, blocks, parts, keep, rows_first
        int64_t column_step[4]
        int64_t row_step[4]
        mx_grid grid


cdef class HostLRN(HostLayer):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1242, "HostLRN", host_lrn


cdef class OpenCLLRN(OpenCLLayer):
    """Either direction on OpenCL devices, in one launch.

    On CPUs by vectors of positions, or of columns within channels; on GPUs by vectors of channels or positions where
    tensors are made of such, else element by element.
    """

    def __cinit__(self):
        self.id, self.name = 1241, "OpenCLLRN"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_lrn_problem* p = &(<LRNProblem> problem).c
        cdef bint backward = p.what == MX_LRN_BACKWARD, wide = p.x.type == MX_DOUBLE, dense
        cdef bint within = p.mode == WITHIN_CHANNEL
        cdef int64_t before = (p.n - 1) // 2, after = p.n - 1 - before, lines, vectors, vector, local, items, wanted
        cdef int64_t width = type_size(<int> p.x.type)
        cdef int unrolled = <int> p.n if dev.is_gpu and p.n <= UNROLLED else 0, count = 4 if backward else 2, i
        cdef const mx_tensor* tensors[4]
        cdef mx_tensor outer[4]
        cdef const mx_tensor* outer_ptr[4]
        cdef mx_lrn a
        tensors[0], tensors[1], tensors[2], tensors[3] = &p.x, &p.y, &p.dx, &p.dy
        memset(&a, 0, sizeof(a))
        # The window moves over rows; what is left of the tensors is the grid.
        axis = H if within else 1
        a.rows = p.x.len[axis]
        a.columns = p.x.len[W] if within else 1
        dense = True
        for i in range(count):
            a.row_step[i] = tensors[i].stride[axis]
            a.column_step[i] = tensors[i].stride[W]
            dense = dense and tensors[i].stride[1] == 1
            outer[i] = tensors[i][0]
            outer[i].len[axis] = 1
            if within:
                outer[i].len[W] = 1
            outer_ptr[i] = &outer[i]
        fill_grid(&a.grid, outer_ptr, count)
        a.keep = dev.is_cpu and p.n <= MOST
        if not a.keep and unrolled == 0:  # no longer than what it can meet
            before, after = min(before, max(a.rows, a.columns) - 1), min(after, max(a.rows, a.columns) - 1)
        a.before, a.after = (after, before) if backward else (before, after)
        a.rows_first = dense and p.x.len[1] > 1
        lines = grid_lines(&a.grid)
        coefficient = (2 * p.alpha * p.beta if backward else p.alpha) / (<double> p.n * p.n if within else p.n)
        # Powers that need no logarithm, where no scale can be zero or below.
        quarters = 4 * p.beta
        power = int(quarters) if quarters in (2, 3, 4) and p.alpha >= 0 and p.k >= 1e-30 else 0
        vector = 8 if wide else 16
        defines = {"T_TYPE": TOKENS[p.x.type], "ACC": "double" if wide else "float", "BACKWARD": int(backward),
                   "SAVE": int(p.save), "N": unrolled, "POWER": power}
        local, file = 1, "layers/lrn.cl"
        if dev.is_cpu:
            wanted = dev.compute_units * GROUPS
            if within:
                entry = "lrn_within"
                lines *= a.grid.len[4]
                a.blocks = ceil_div(a.columns, BLOCK * vector)
                a.parts = max(1, min(ceil_div(wanted, lines * a.blocks), a.rows // (2 * p.n)))
            elif a.rows_first and a.rows >= vector // 2 and a.keep:
                entry = "lrn_rows"
                a.parts = 1
                a.blocks = max(1, min(ceil_div(wanted, lines), a.grid.len[4]))
            else:
                entry = "lrn_planes"
                vectors = ceil_div(a.grid.len[4], vector)
                a.blocks = ceil_div(vectors, BLOCK)
                a.parts = max(1, min(ceil_div(wanted, lines * a.blocks), a.rows // (4 * p.n)))
            items = lines * a.blocks * a.parts
        else:
            vector = 0 if within or unrolled == 0 else _vector(&a, count, width, unrolled)
            lines *= a.grid.len[4]
            a.blocks = a.parts = 1
            items = lines
            if vector > 1 or (vector == 1 and backward and not a.rows_first):
                file = "layers/lrn_gpu.cl"
                defines["VEC"], defines["DOWN"] = vector, int(not a.rows_first)
                if a.rows_first:
                    entry = "lrn_lanes"
                    items *= a.rows // vector
                else:
                    entry = "lrn_down"
                    items //= vector
                    wanted = dev.compute_units * (RESIDENT // 2 if backward and vector > 1 else RESIDENT)
                    a.parts = max(1, min(wanted // items, a.rows // LEAST_ROWS))
                    defines["AHEAD"] = 2 if vector > 1 else 4
                    items *= a.parts
            elif within:
                entry = "lrn_window"
                items *= a.rows * a.columns
            else:
                entry = "lrn_items"
                # Items along channels read what their neighbours read; others go through some channels each.
                a.parts = a.rows if a.rows_first else ceil_div(a.rows, 32)
                items *= a.parts
            if max(items, a.rows) < 1 << 30:
                defines["INDEX"] = "int"
            local = min(256, dev.max_work_group)
            items = ceil_div(items, local) * local
        if file == "layers/lrn.cl":
            defines.update(CPU=int(dev.is_cpu), PLANES=int(entry in ("lrn_planes", "lrn_items")),
                           ROWS=int(entry == "lrn_rows"), WITHIN=int(within))
        if dev.is_cpu:
            defines.update(VEC=vector, BLOCK=BLOCK, MOST=MOST)
        args = [Arg.slot_of(LRN_X, width), Arg.slot_of(LRN_Y, width)]
        if backward:
            args += [Arg.slot_of(LRN_DX, width), Arg.slot_of(LRN_DY, width)]
        if backward or p.save:
            args.append(Arg.slot_of(LRN_SCALES, 8 if wide else 4))
        args.append(struct_arg(&a, sizeof(a)))
        for number in (p.k, coefficient, p.beta):
            args.append(Arg.real(number, wide))
        return Solution([Step(KernelSpec(file, entry, **defines), args, (items,), (local,))])


cdef int64_t _vector(const mx_lrn* a, int count, int64_t width, int n) noexcept:
    """Positions, or channels where these are neighbours, that a work-item of a GPU may take at once: 16 bytes, or of
    positions 4, where all tensors are made of such vectors."""
    cdef int64_t vec = 16 // width if a.rows_first else min(4, 16 // width)
    cdef int t, axis
    while vec > 1:
        fits = (a.rows if a.rows_first else a.grid.len[4]) % vec == 0 and (n <= vec + 1 or not a.rows_first)
        for t in range(count):
            fits = fits and (a.rows_first or a.grid.stride[t][4] == 1)
            fits = fits and (a.row_step[t] == 1 if a.rows_first else a.row_step[t] % vec == 0)
            for axis in range(MX_AXES - 1 + a.rows_first):
                fits = fits and (a.grid.len[axis] == 1 or a.grid.stride[t][axis] % vec == 0)
        if fits:
            return vec
        vec //= 2
    return 1
