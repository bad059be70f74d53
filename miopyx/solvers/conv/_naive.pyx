"""Direct convolution without any blocking, one work-item an output element: always right, never fast.

Takes every type, layout, stride, rank and group count, needs no workspace; the reference on the device.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport SLOT_W, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FORWARD, MX_INT8, MX_INT32, mx_conv_problem, mx_tensor,
)
from ._base cimport DIRECT, INT_LIMIT, ConvSolver, problem_bytes, spatial_size, sum_terms
from miopyx.solvers._tokens cimport real_token, type_token

cdef int64_t _elements(const mx_tensor* t) noexcept nogil:
    return t.len[0] * t.len[1] * spatial_size(t)


cdef class _DirectNaive(ConvSolver):
    cdef str entry
    cdef str direction_word

    def __cinit__(self):
        self.algorithm = DIRECT
        self.dynamic = self.deterministic = self.last_resort = self.float8 = True

    @property
    def switch(self):
        return f"MIOPEN_DEBUG_CONV_DIRECT_NAIVE_CONV_{self.direction_word}"

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        return None

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return 0.01  # MIOpen's figure

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        if dev.fp64:  # in double
            return sum_terms(p) * (1.0 if p.w.type == MX_DOUBLE else 2.0 ** -29)
        return 2 + sum_terms(p) * 2.0 ** -22    # in float, as a total that keeps what is rounded away

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef const mx_tensor* out = &p.y if self.direction == MX_FORWARD else (
            &p.x if self.direction == MX_BACKWARD_DATA else &p.w)
        cdef int64_t items = _elements(out), group = 256 if dev.is_gpu else 64
        cdef bint integer = p.w.type == MX_INT8
        # alpha and beta scale an int32 in double: float would lose its low bits.
        cdef bint wide = out.type == MX_DOUBLE or (out.type == MX_INT32 and dev.fp64)
        spec = KernelSpec(
            "conv/naive.cl", self.entry, X_TYPE=type_token(p.x.type), W_TYPE=type_token(p.w.type),
            Y_TYPE=type_token(p.y.type), ACC="int" if integer else "double" if dev.fp64 else "float",
            SCALAR=real_token(wide),
            INDEX="int" if max(_elements(&p.x), _elements(&p.w), _elements(&p.y)) < INT_LIMIT - group else "long",
        )
        if group > dev.max_work_group:
            group = dev.max_work_group
        args = (
            Arg.slot_of(SLOT_X, type_size(<int> p.x.type)), Arg.slot_of(SLOT_W, type_size(<int> p.w.type)),
            Arg.slot_of(SLOT_Y, type_size(<int> p.y.type)), Arg.value_of(problem_bytes(p)), Arg.alpha(wide),
            Arg.beta(wide),
        )
        return Solution([Step(spec, args, (up(items, group),), (group,))])


cdef class ConvDirectNaiveConvFwd(_DirectNaive):
    """Naive forward."""

    def __cinit__(self):
        self.id, self.name, self.direction = 85, "ConvDirectNaiveConvFwd", MX_FORWARD
        self.entry, self.direction_word = "conv_naive_forward", "FWD"


cdef class ConvDirectNaiveConvBwd(_DirectNaive):
    """Naive backward data."""

    def __cinit__(self):
        self.id, self.name, self.direction = 86, "ConvDirectNaiveConvBwd", MX_BACKWARD_DATA
        self.entry, self.direction_word = "conv_naive_backward_data", "BWD"


cdef class ConvDirectNaiveConvWrw(_DirectNaive):
    """Naive backward weights."""

    def __cinit__(self):
        self.id, self.name, self.direction = 87, "ConvDirectNaiveConvWrw", MX_BACKWARD_WEIGHTS
        self.entry, self.direction_word = "conv_naive_backward_weights", "WRW"
