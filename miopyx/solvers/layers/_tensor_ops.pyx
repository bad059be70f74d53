"""Element-wise operations on tensors: on the host path and as kernels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Solver, Step, is_streamed, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._grid cimport fill_grid, grid_lines
from miopyx.host._tensor_ops cimport host_tensor
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_CAST_TENSOR, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT8, MX_INT32, MX_OP_TENSOR,
    MX_SCALE_TENSOR, MX_SET_TENSOR, MX_TRANSFORM_TENSOR, mx_grid, mx_tensor, mx_tensor_problem,
)
from miopyx.problem._tensor_ops cimport (
    TENSOR_A, TENSOR_B, TENSOR_C, TENSOR_CLAMP, TENSOR_COPY, TENSOR_IN_PLACE, TensorProblem,
)
from ._common cimport NO_ALGORITHM, HostLayer, ceil_div

cdef enum:
    GROUPS = 4             # of a CPU, for each core: they need not end at the same time
    GROUP_BYTES = 1 << 15  # less is not worth another one
    PIECE = 1024           # elements of a piece of a row, at least
    TURN_TILE = 16         # rows and columns that are turned at once
    TURN_BLOCK = 256
    TURN_LONG = 4096
    TILE = 32              # of a GPU
    ITEMS = 4

# layers/tensor_ops.cl's WHAT; miopenTensorOp_t comes first.
cdef enum:
    SCALE = 4
    CAST = 5
    COPY = 6
    FILL = 7

cdef dict ALL_TOKENS = {MX_HALF: "half", MX_FLOAT: "float", MX_DOUBLE: "double", MX_BFLOAT16: "bfloat16",
                        MX_INT32: "int32", MX_INT8: "int8"}


cdef extern from "miopyx/kernels/layers/tensor_ops_args.h" nogil:
    ctypedef struct mx_walk:
        mx_grid g
        int64_t units, pieces, piece

    ctypedef struct mx_turn:
        mx_grid outer
        int64_t rows, columns, c_step, a_step, row_blocks, column_blocks, row_block, column_block, units


cdef int64_t _elements(const mx_tensor* t) noexcept:
    return t.len[0] * t.len[1] * t.len[2] * t.len[3] * t.len[4]


cdef bint _is_wide(const mx_tensor_problem* p) noexcept:
    """Whether float32 does not hold what is computed with."""
    if p.what == MX_SET_TENSOR or p.flags & TENSOR_COPY:
        return False
    return (p.c.type == MX_DOUBLE or p.c.type == MX_INT32
            or (p.what == MX_CAST_TENSOR and (p.a.type == MX_DOUBLE or p.a.type == MX_INT32)))


cdef class HostTensor(HostLayer):
    """Every operation on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1202, "HostTensor", host_tensor

    cpdef str why_not(self, Device dev, Problem problem):
        return None if dev.is_host else "runs on the host path only"


cdef class OpenCLTensor(Solver):
    """Every operation on OpenCL devices, in one launch; a transform that adds channels has one more, which clears them.

    Rows in pieces on CPUs, vectors on GPUs where rows are made of such; tiles where c is contiguous along another axis
    than a.
    """

    def __cinit__(self):
        self.id, self.name, self.algorithm = 1201, "OpenCLTensor", NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        if dev.is_host:
            return "runs on OpenCL devices only"
        if _is_wide(&(<TensorProblem> problem).c) and not dev.fp64:
            return "device has no double precision"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_tensor_problem* p = &(<TensorProblem> problem).c
        cdef mx_tensor a = p.a, c = p.c
        cdef int a_slot = TENSOR_A, what
        cdef int64_t shared = c.len[1]
        if p.what == MX_SET_TENSOR:
            return Solution([_step(dev, p, FILL, NULL, a_slot, &c, TENSOR_C, 0)])
        if p.what == MX_OP_TENSOR:
            what = <int> p.op
        elif p.what == MX_CAST_TENSOR:
            what = CAST
        else:
            what = COPY if p.flags & TENSOR_COPY else SCALE
        if p.what == MX_SCALE_TENSOR or p.flags & TENSOR_IN_PLACE:
            a, a_slot = c, TENSOR_C
        if a.len[1] == c.len[1]:
            return Solution([_step(dev, p, what, &a, a_slot, &c, TENSOR_C, 0)])
        # Channels are added or left out; what is added is zero.
        if a.len[1] > c.len[1]:
            a.len[1] = c.len[1]
            return Solution([_step(dev, p, what, &a, a_slot, &c, TENSOR_C, 0)])
        shared = a.len[1]
        c.len[1] = shared
        first = _step(dev, p, what, &a, a_slot, &c, TENSOR_C, 0)
        c.len[1] = p.c.len[1] - shared
        return Solution([first, _step(dev, p, FILL, NULL, a_slot, &c, TENSOR_C, shared * c.stride[1])])


cdef Step copy_step(Device dev, const mx_tensor* a, int a_slot, const mx_tensor* c, int c_slot, int64_t skipped):
    """The launch that copies a slot's tensor, bit by bit, to another, which begins `skipped` elements in its slot."""
    cdef mx_tensor_problem p
    memset(&p, 0, sizeof(p))
    p.what, p.flags, p.a, p.c = MX_TRANSFORM_TENSOR, TENSOR_COPY, a[0], c[0]
    return _step(dev, &p, COPY, a, a_slot, c, c_slot, skipped)


cdef Step _step(Device dev, const mx_tensor_problem* p, int what, const mx_tensor* a, int a_slot, const mx_tensor* c,
                int c_slot, int64_t skipped):
    """The launch that computes `c`, which begins `skipped` elements behind the problem's."""
    cdef const mx_tensor* tensors[3]
    cdef mx_walk walk
    cdef mx_turn turn
    cdef int i, axis, turned = -1, count = 1
    cdef int64_t width = type_size(<int> c.type), lines, elements, local = 256, groups, vec, most
    cdef int64_t touched
    cdef bint bits = what == COPY or what == FILL, wide = not bits and _is_wide(p), is_run
    tensors[0] = c
    if a != NULL:
        tensors[1], count = a, 2
    if p.what == MX_OP_TENSOR:
        tensors[2], count = &p.b, 3
    memset(&walk, 0, sizeof(walk))
    fill_grid(&walk.g, tensors, count)
    lines = grid_lines(&walk.g)
    elements = lines * walk.g.len[4]
    defines = {"WHAT": what}
    if bits:
        defines["WIDTH"] = width
    else:
        defines.update(A_TYPE=ALL_TOKENS[a.type], C_TYPE=ALL_TOKENS[c.type], ACC="double" if wide else "float",
                       SCALAR="double" if wide else "float")
        if what == CAST:
            defines["CLAMP"] = 1 if p.flags & TENSOR_CLAMP else 0
    args = []
    if a != NULL:
        args.append(Arg.slot_of(a_slot, type_size(<int> a.type)))
    if count == 3:
        args.append(Arg.slot_of(TENSOR_B, width))
    args.append(Arg.slot_of(c_slot, width, skipped * width))
    scalars = []
    if what == FILL:
        scalars = [Arg.scalar_of(i, False) if p.what == MX_SET_TENSOR else Arg.real(0, False) for i in range(3)]
    elif what != COPY:
        scalars = [Arg.scalar_of(i, wide) for i in range(count)]

    if (what == COPY or what == SCALE) and walk.g.stride[0][4] == 1 and walk.g.stride[1][4] != 1:
        for axis in range(MX_AXES - 1):
            if walk.g.len[axis] > 1 and walk.g.stride[1][axis] == 1:
                turned = axis
    if turned >= 0:
        memset(&turn, 0, sizeof(turn))
        turn.outer = walk.g
        turn.rows, turn.c_step = walk.g.len[turned], walk.g.stride[0][turned]
        turn.columns, turn.a_step = walk.g.len[4], walk.g.stride[1][4]
        turn.outer.len[4] = turn.outer.len[turned] = 1
        lines //= turn.rows
        value = struct_arg(&turn, sizeof(turn))
        if not dev.is_cpu:
            if dev.max_work_group < TILE * 8 or dev.local_mem < TILE * (TILE + 1) * 8:
                lines *= turn.rows  # walked instead
            else:
                spec = KernelSpec("layers/tensor_ops.cl", "tensor_turned", TURN=2, **defines)
                return Step(spec, (*args, value, *scalars),
                            (ceil_div(turn.rows, TILE) * TILE, ceil_div(turn.columns, TILE) * 8, lines),
                            (TILE, 8, 1))
        else:
            # A block is walked along rows, tile after tile: c is then visited in strides of c_step, or along columns
            # where it has tiles of one row only, a in strides of a_step.
            if _cost(turn.c_step * width) < _cost(turn.a_step * width):
                turn.row_block, turn.column_block = TURN_BLOCK, TURN_BLOCK
            else:
                turn.row_block, turn.column_block = TURN_TILE, TURN_LONG
            turn.row_blocks = ceil_div(turn.rows, turn.row_block)
            turn.column_blocks = ceil_div(turn.columns, turn.column_block)
            turn.units = lines * turn.row_blocks * turn.column_blocks
            groups = _groups(dev, elements * width * 2, turn.units)
            value = struct_arg(&turn, sizeof(turn))
            spec = KernelSpec("layers/tensor_ops.cl", "tensor_turned", TURN=1, **defines)
            return Step(spec, (*args, value, *scalars), (groups,), (1,))

    # Of c's size: c, a where it is not c, b where it does not broadcast.
    touched = 1 + (a != NULL and a_slot != c_slot) + (count == 3 and _elements(&p.b) == elements)
    walk.pieces, walk.piece, walk.units = 1, walk.g.len[4], lines
    if dev.is_cpu:
        groups = _groups(dev, elements * width * count, elements)
        if lines < 4 * groups:
            walk.piece = max(<int64_t> PIECE, (walk.g.len[4] * lines // (4 * groups) + 63) // 64 * 64)
            walk.pieces = ceil_div(walk.g.len[4], walk.piece)
            walk.units *= walk.pieces
        groups = min(groups, walk.units)
        local = 1
        spec = KernelSpec("layers/tensor_ops.cl", "tensor_rows", ROWS=1, VEC=8 if wide else 16,
                          STREAM=int(is_streamed(dev, elements * width * touched)), **defines)
    else:
        local = min(local, dev.max_work_group)
        vec = _vector(&walk.g, what, a, c, count)
        most = _most(a, c)
        is_run = vec > 0 and vec < most and walk.g.len[4] >= most and _is_run(&walk.g, count)
        if is_run:
            vec = most
        if vec > 1:
            groups = ceil_div(ceil_div(elements, vec), local)
            spec = KernelSpec("layers/tensor_ops.cl", "tensor_wide", WIDE=2 if is_run else 1, VEC=vec, LOCAL=local,
                              DENSE=int(lines == 1 and not is_run and (count < 3 or walk.g.stride[2][4] == 1)),
                              INDEX="int" if elements < 1 << 30 else "long", **defines)
        else:
            groups = ceil_div(elements, local * ITEMS)
            spec = KernelSpec("layers/tensor_ops.cl", "tensor_elements", LOCAL=local, ITEMS=ITEMS,
                              INDEX="int" if elements < 1 << 30 else "long", **defines)
    value = struct_arg(&walk, sizeof(walk))
    return Step(spec, (*args, value, *scalars), (groups * local,), (local,))


cdef int64_t _most(const mx_tensor* a, const mx_tensor* c) noexcept:
    """Elements of 16 bytes of the wider type."""
    return 16 // max(type_size(<int> c.type), 0 if a == NULL else type_size(<int> a.type))


cdef bint _is_floating(const mx_tensor* t) noexcept:
    return t.type != MX_INT8 and t.type != MX_INT32


cdef int64_t _vector(const mx_grid* g, int what, const mx_tensor* a, const mx_tensor* c, int count) noexcept:
    """Neighbours that a work-item of a GPU may take at once: 16 bytes, where every row is made of such; 0: not any."""
    cdef int64_t vec = _most(a, c)
    cdef int t, axis
    if what <= CAST and not (_is_floating(a) and _is_floating(c)):
        return 0
    if what == CAST and (a.type == MX_DOUBLE) != (c.type == MX_DOUBLE):
        return 0
    if g.stride[0][4] != 1 or (a != NULL and g.stride[1][4] != 1) or (count == 3 and g.stride[2][4] > 1):
        return 0
    while vec > 1:
        fits = g.len[4] % vec == 0
        for t in range(count):
            for axis in range(MX_AXES - 1):
                # A number that is not moved along rows may lie anywhere.
                if g.len[axis] > 1 and g.stride[t][4] == 1:
                    fits = fits and g.stride[t][axis] % vec == 0
        if fits:
            return vec
        vec //= 2
    return 1


cdef bint _is_run(const mx_grid* g, int count) noexcept:
    """Whether the first two tensors have their rows one behind the other each."""
    cdef int64_t step = g.len[4]
    cdef int axis
    for axis in range(MX_AXES - 2, -1, -1):
        if g.len[axis] > 1 and (g.stride[0][axis] != step or (count > 1 and g.stride[1][axis] != step)):
            return False
        step *= g.len[axis]
    return True


cdef int64_t _cost(int64_t stride):
    """How bad it is to visit memory in strides of so many bytes: worst where they fall on each other in the cache."""
    return 4 * stride if stride % 1024 == 0 else stride


cdef int64_t _groups(Device dev, int64_t nbytes, int64_t units):
    """How many work-items a CPU gets for so many bytes of traffic and pieces of work."""
    return max(1, min(nbytes // GROUP_BYTES, GROUPS * dev.compute_units, units))
