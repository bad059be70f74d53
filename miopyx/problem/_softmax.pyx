"""Softmax: its descriptor and its two problems."""

from libc.string cimport memset

from miopyx.values._args cimport raise_unknown, to_double, to_member
from ._descriptors cimport Descriptor, TensorDescriptor, begin_setting, check_descriptor, end_setting, next_stamp
from ._grid cimport fill_grid
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, same_layout, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_SOFTMAX_BACKWARD, MX_SOFTMAX_FORWARD, mx_grid, mx_softmax_problem, mx_tensor,
)

from miopyx import enums
from miopyx.errors import BadParmError


cdef int to_algorithm(object algorithm) except -1:
    cdef int number = to_member(algorithm, "miopenSoftmaxAlgorithm_t", "algorithm")
    if number < FAST or number > LOG:
        raise_unknown(algorithm, "miopenSoftmaxAlgorithm_t", "algorithm")
    return number


cdef int to_mode(object mode) except -1:
    cdef int number = to_member(mode, "miopenSoftmaxMode_t", "mode")
    if number < INSTANCE or number > CHANNEL:
        raise_unknown(mode, "miopenSoftmaxMode_t", "mode")
    return number


def _set(SoftmaxDescriptor desc, alpha, beta, algorithm, mode):
    desc.set(alpha, beta, algorithm, mode)


cdef class SoftmaxDescriptor(Descriptor):
    """SoftmaxDescriptor(alpha=1.0, beta=0.0, algorithm=1, mode=1)\n--\n\n\
    Scales, algorithm and mode of a softmax (miopenSoftmaxDescriptor_t).

    Parameters
    ----------
    alpha, beta : float, optional
    algorithm : miopenSoftmaxAlgorithm_t, optional
        Default: ACCURATE.
    mode : miopenSoftmaxMode_t, optional
        Default: CHANNEL.

    Raises
    ------
    BadParmError
        For an unknown algorithm or mode or what is no real number.
    """

    def __init__(self, alpha=1.0, beta=0.0, algorithm=1, mode=1):
        self.set(alpha, beta, algorithm, mode)

    def __cinit__(self, *args, **kwargs):
        self.alpha, self.algorithm_number, self.mode_number = 1.0, ACCURATE, CHANNEL
        self.stamp = next_stamp()

    cdef tuple settings(self):
        return ((_set, self.alpha, self.beta, self.algorithm_number, self.mode_number),)

    cdef int set(self, object alpha, object beta, object algorithm, object mode) except -1:
        cdef double a = to_double(alpha, "alpha"), b = to_double(beta, "beta")
        cdef int number = to_algorithm(algorithm), which = to_mode(mode)
        begin_setting(self)
        self.alpha, self.beta, self.algorithm_number, self.mode_number = a, b, number, which
        end_setting(self)
        return 0

    @property
    def algorithm(self):
        """The miopenSoftmaxAlgorithm_t."""
        from miopyx.enums import miopenSoftmaxAlgorithm_t

        return miopenSoftmaxAlgorithm_t(self.algorithm_number)

    @property
    def mode(self):
        """The miopenSoftmaxMode_t."""
        from miopyx.enums import miopenSoftmaxMode_t

        return miopenSoftmaxMode_t(self.mode_number)

    cdef str described(self):
        return (f"SoftmaxDescriptor(alpha={self.alpha}, beta={self.beta}, algorithm={self.algorithm.name!r}, "
                f"mode={self.mode.name!r})")


cdef SoftmaxDescriptor check_softmax(object desc, str name):
    return <SoftmaxDescriptor> check_descriptor(desc, SoftmaxDescriptor, name)


cdef int _require_alike(TensorDescriptor desc, str name, TensorDescriptor other, str other_name) except -1:
    cdef int i
    desc.require_set(name)
    other.require_set(other_name)
    require_plain(desc, name)
    if desc.ndim < 2 or desc.ndim > MX_AXES:
        raise BadParmError("rank of a softmax", name, desc.ndim, f"2 ... {MX_AXES}")
    if desc.type != other.type:
        raise BadParmError(f"type differs from {other_name}'s", name, desc.dtype, other.dtype)
    if desc.ndim != other.ndim:
        raise BadParmError(f"rank differs from {other_name}'s", name, desc.ndim, other.ndim)
    for i in range(desc.ndim):
        if desc.len[i] != other.len[i]:
            raise BadParmError(f"lengths differ from {other_name}'s", name, desc.lens, other.lens)
    return 0


cdef class SoftmaxProblem(Problem):
    """y = softmax(x), made of (algorithm, mode, x, y), or its gradient, made of (algorithm, mode, y, dy, dx).

    Raises
    ------
    BadParmError
        Where lengths or types differ, or the layouts of y and dy.
    """

    def __init__(self, algorithm, mode, TensorDescriptor first not None, TensorDescriptor second not None,
                 TensorDescriptor third=None):
        self.c.algorithm, self.c.mode = to_algorithm(algorithm), to_mode(mode)
        if third is None:
            self.fill_forward(first, second)
        else:
            self.fill_backward(first, second, third)

    def __cinit__(self, *args):
        self.data, self.size = &self.c, sizeof(mx_softmax_problem)
        memset(&self.c, 0, sizeof(mx_softmax_problem))

    cdef int fill_forward(self, TensorDescriptor x, TensorDescriptor y) except -1:
        _require_alike(x, "xDesc", y, "yDesc")
        _require_alike(y, "yDesc", x, "xDesc")
        require_no_overlap(y, "yDesc")
        self.c.what = MX_SOFTMAX_FORWARD
        fill_tensor(&self.c.x, x)
        fill_tensor(&self.c.y, y)
        self.hold(SOFTMAX_X, &self.c.x, x.ndim)
        self.hold(SOFTMAX_Y, &self.c.y, y.ndim)
        self.count, self.output, self.in_place = 2, SOFTMAX_Y, 1 << SOFTMAX_X
        self.written = 1 << SOFTMAX_Y
        return 0

    cdef int fill_backward(self, TensorDescriptor y, TensorDescriptor dy, TensorDescriptor dx) except -1:
        _require_alike(y, "yDesc", dy, "dyDesc")
        _require_alike(dy, "dyDesc", dx, "dxDesc")
        _require_alike(dx, "dxDesc", dy, "dyDesc")
        require_no_overlap(dx, "dxDesc")
        self.c.what = MX_SOFTMAX_BACKWARD
        fill_tensor(&self.c.y, y)
        fill_tensor(&self.c.dy, dy)
        fill_tensor(&self.c.dx, dx)
        if not same_layout(&self.c.y, &self.c.dy):
            raise BadParmError("strides differ from dyDesc's", "yDesc", y.strides, dy.strides)
        self.hold(SOFTMAX_Y, &self.c.y, y.ndim)
        self.hold(SOFTMAX_DY, &self.c.dy, dy.ndim)
        self.hold(SOFTMAX_DX, &self.c.dx, dx.ndim)
        self.count, self.output, self.in_place = 4, SOFTMAX_DX, 1 << SOFTMAX_DY | 1 << SOFTMAX_Y
        self.written = 1 << SOFTMAX_DX
        return 0

    def __repr__(self):
        cdef mx_softmax_problem* c = &self.c
        word = "forward" if c.what == MX_SOFTMAX_FORWARD else "backward"
        return (f"<softmax {word}, {enums.word_of('miopenSoftmaxAlgorithm_t', c.algorithm)}, "
                f"{enums.word_of('miopenSoftmaxMode_t', c.mode)}: {tensor_text(&c.y)}>")


cdef int split_axes(const mx_softmax_problem* p, mx_grid* inside, mx_grid* outside) noexcept nogil:
    """Write the grid of one set of numbers that sum up to 1, and the grid of the sets.

    The tensors of both are the output, the first input (x or dy), and backward y.  Returns how many there are.
    """
    cdef const mx_tensor* whole[3]
    cdef mx_tensor part[2][3]
    cdef const mx_tensor* parts[2][3]
    cdef int i, axis, which, count = 2 if p.what == MX_SOFTMAX_FORWARD else 3
    if p.what == MX_SOFTMAX_FORWARD:
        whole[0], whole[1], whole[2] = &p.y, &p.x, NULL
    else:
        whole[0], whole[1], whole[2] = &p.dx, &p.dy, &p.y
    for i in range(count):
        for which in range(2):
            part[which][i] = whole[i][0]
            parts[which][i] = &part[which][i]
        for axis in range(MX_AXES):  # axes of the set have length 1 among the sets, and the other way round
            which = 1 if axis == 1 or (axis > 0 and p.mode == INSTANCE) else 0
            part[which][i].len[axis] = 1
    fill_grid(inside, parts[0], count)
    fill_grid(outside, parts[1], count)
    return count
