"""The gradient of a bias: on the host path and as kernels."""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._bias cimport BiasProblem
from miopyx.host._bias cimport fill_sums, host_bias, mx_bias_sums
from miopyx.values._types cimport MX_AXES, MX_DOUBLE, mx_bias_problem, mx_tensor
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef enum:
    GROUPS = 4             # of a CPU, for each core: they need not end at the same time
    GPU_GROUPS = 8         # for each compute unit
    SIDE_BYTES = 128       # of a row that a group reads
    LANE_GROUPS = 2        # where they read rows of b's elements
    FINISHED = 8           # elements that a group of bias_finish adds up, as in layers/bias.cl
    ITEM = 16              # elements that are worth a work-item of a GPU
    ALONE = 16384          # elements that one group sums as fast as two launches do


cdef class HostBias(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1021, "HostBias", host_bias


cdef class OpenCLBias(OpenCLLayer):
    """On OpenCL devices: one launch, or one for partial sums in the workspace and one that adds them."""

    def __cinit__(self):
        self.id, self.name = 1022, "OpenCLBias"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        cdef mx_bias_sums s
        _cut(&s, dev, &(<BiasProblem> problem).c)
        return _workspace(dev, &s)

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_bias_problem* p = &(<BiasProblem> problem).c
        cdef bint wide = p.y.type == MX_DOUBLE
        steps, workspace = sum_steps(dev, p, Arg.slot_of(SLOT_X, type_size(<int> p.b.type)),
                                     Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)), 0, Arg.alpha(wide), Arg.beta(wide))
        return Solution(steps, workspace)


cdef int64_t _workspace(Device dev, const mx_bias_sums* s) noexcept:
    # A CPU's sums live there in any case.
    if s.parts == 1 and not dev.is_cpu:
        return 0
    return s.parts * s.rest_count * s.k * (8 if dev.fp64 else 4)


cdef tuple sum_steps(Device dev, const mx_bias_problem* p, Arg b, Arg y, int64_t offset, Arg alpha, Arg beta):
    """The launches for the sum of `y` in `b`, and the bytes of workspace behind `offset` that they need."""
    cdef bint wide = p.y.type == MX_DOUBLE
    cdef int64_t local = _local(dev), groups, elements, workspace
    cdef mx_bias_sums s
    cdef dict defines
    _cut(&s, dev, p)
    elements = s.rest_count * s.k
    workspace = _workspace(dev, &s)
    defines = {
        "Y_TYPE": TOKENS[p.y.type], "ACC": "double" if wide or (dev.is_cpu and dev.fp64) else "float",
        "SUM": "double" if dev.fp64 else "float", "SCALAR": "double" if wide else "float",
        "ROWS": 1 if dev.is_cpu else 0, "LOCAL": local,
        "INDEX": "int" if _extent(&p.y) < 1 << 30 else "long",
    }
    if p.b.type != p.y.type:
        defines["B_TYPE"] = TOKENS[p.b.type]
    if not dev.is_cpu:
        vec = _vector(&s, p)
        lanes = s.block > 1 and vec > 1
        defines.update(VEC=vec, LANES=int(lanes), SETS=8 if lanes or vec == 1 else 16 // vec)
    # A kernel that needs no workspace gets b in its place.
    sums = Arg.slot_of(SLOT_WORKSPACE, 8 if dev.fp64 else 4, offset) if workspace else b
    shape = struct_arg(&s, sizeof(s))
    groups = s.parts * s.rest_count * s.blocks
    steps = [Step(KernelSpec("layers/bias.cl", "bias_backward", **defines), (b, y, sums, shape, alpha, beta),
                  (groups * local,), (local,))]
    if s.parts > 1:
        groups = 1 if dev.is_cpu else ceil_div(elements, FINISHED)
        steps.append(Step(KernelSpec("layers/bias.cl", "bias_finish", **defines), (b, sums, shape, alpha, beta),
                          (groups * local,), (local,)))
    return steps, workspace


cdef int64_t _local(Device dev):
    cdef int64_t local = 1 if dev.is_cpu else 256
    while local > dev.max_work_group:  # a power of two, as the kernel's tree wants it
        local //= 2
    return local


cdef int _cut(mx_bias_sums* s, Device dev, const mx_bias_problem* p) noexcept:
    """How a device sums."""
    cdef int64_t groups, wanted, vec, width = 1, size = type_size(<int> p.y.type)
    if dev.is_cpu:
        fill_sums(s, p, GROUPS * dev.compute_units)
        return 0
    fill_sums(s, p, 1)
    vec = _vector(s, p)
    if s.m == 1 and s.k > 1:
        while 2 * width * vec * size <= SIDE_BYTES and width * vec < s.k and width < _local(dev):
            width *= 2
        s.block = width * vec
    else:
        s.block = 1
    s.blocks = ceil_div(s.k, s.block)
    groups = s.rest_count * s.blocks
    wanted = max(1, (LANE_GROUPS if s.block > 1 else GPU_GROUPS) * dev.compute_units // groups)
    if s.block == 1 and s.line_count * s.m <= ALONE:
        wanted = 1
    # No more parts than have something to do.
    wanted = min(wanted, max(1, s.line_count * s.m * s.block // (ITEM * _local(dev))))
    s.parts = min(wanted, s.line_count * (s.m // vec if s.block == 1 else 1))
    return 0


cdef int64_t _vector(const mx_bias_sums* s, const mx_bias_problem* p) noexcept:
    """Neighbours that a work-item of a GPU may read at once: 16 bytes, where every line is made of such.

    They are of m, or where k runs fastest, of k.
    """
    cdef int64_t vec = 16 // type_size(<int> p.y.type)
    cdef bint lanes = s.m == 1 and s.k > 1
    cdef int axis
    if (s.k_y if lanes else s.m_y) != 1:
        return 1
    while vec > 1:
        fits = s.k % vec == 0 if lanes else s.m % vec == 0 and (s.k == 1 or s.k_y % vec == 0)
        for axis in range(4):
            fits = fits and (s.lines.len[axis] == 1 or s.lines.stride[0][axis] % vec == 0)
            fits = fits and (s.rest.len[axis] == 1 or s.rest.stride[0][axis] % vec == 0)
        if fits:
            return vec
        vec //= 2
    return 1


cdef int64_t _extent(const mx_tensor* t) noexcept:
    cdef int64_t last = 1
    cdef int axis
    for axis in range(MX_AXES):
        last += (t.len[axis] - 1) * t.stride[axis]
    return last
