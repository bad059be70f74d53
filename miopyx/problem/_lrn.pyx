"""Local response normalisation: its descriptor and its problem."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport checked_mul, raise_unknown, to_double, to_int64, to_member
from ._descriptors cimport Descriptor, TensorDescriptor, begin_setting, end_setting
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_LRN_BACKWARD, MX_LRN_FORWARD, mx_lrn_problem,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

cdef enum:
    WITHIN_CHANNEL = 0
    MAX_N = 0xFFFFFFFF     # unsigned int


def _set(LRNDescriptor desc, mode, n, alpha, beta, k):
    desc.set(mode, n, alpha, beta, k)


cdef class LRNDescriptor(Descriptor):
    """LRNDescriptor(mode=None, n=5, alpha=1e-4, beta=0.75, k=1.0)\n--\n\n\
    Mode, window and coefficients of a local response normalisation (miopenLRNDescriptor_t).

    Parameters
    ----------
    mode : miopenLRNMode_t, optional
        Whether the window runs over channels or over rows and columns.  Without it the descriptor is empty, as
        miopenCreateLRNDescriptor leaves it.
    n : int
        Length of the window, at least 1 where it is used.
    alpha, beta, k : float
        scale = k + alpha / n * (sum of squares), y = x * scale^-beta; k must not be 0 where it is used.

    Raises
    ------
    BadParmError
        For an unknown mode, an n that is no 32-bit unsigned integer, a number that is not finite.
    """

    def __init__(self, mode=None, n=5, alpha=1e-4, beta=0.75, k=1.0):
        if mode is not None:
            self.set(mode, n, alpha, beta, k)

    def __cinit__(self, *args, **kwargs):
        self.mode_set = -1

    cdef tuple settings(self):
        if self.mode_set < 0:
            return ()
        return ((_set, self.mode_set, self.n_set, self.alpha_set, self.beta_set, self.k_set),)

    cdef int set(self, object mode, object n, object alpha, object beta, object k) except -1:
        cdef int number = to_member(mode, "miopenLRNMode_t", "mode")
        cdef int64_t length = to_int64(n, "lrnN")
        cdef double a = to_double(alpha, "lrnAlpha"), b = to_double(beta, "lrnBeta"), c = to_double(k, "lrnK")
        if number < 0 or number > 1:
            raise_unknown(mode, "miopenLRNMode_t", "mode")
        if length < 0 or length > MAX_N:
            raise BadParmError("integer out of range", "lrnN", length, f"0 ... {MAX_N}")
        for name, value in (("lrnAlpha", a), ("lrnBeta", b), ("lrnK", c)):
            if not isfinite(value):
                raise BadParmError("not a finite number", name, value, "a finite number")
        begin_setting(self)
        self.mode_set, self.n_set, self.alpha_set, self.beta_set, self.k_set = number, length, a, b, c
        end_setting(self)
        return 0

    cdef int require_set(self) except -1:
        if self.mode_set < 0:
            raise BadParmError("LRN descriptor that was never set", "lrnDesc", self, "a set descriptor")
        return 0

    @property
    def mode(self):
        """The miopenLRNMode_t, None until set."""
        from miopyx.enums import miopenLRNMode_t

        return None if self.mode_set < 0 else miopenLRNMode_t(self.mode_set)

    @property
    def n(self):
        return self.n_set

    @property
    def alpha(self):
        return self.alpha_set

    @property
    def beta(self):
        return self.beta_set

    @property
    def k(self):
        return self.k_set

    cdef str described(self):
        if self.mode_set < 0:
            return "<LRNDescriptor never set>"
        return (f"LRNDescriptor({self.mode.name!r}, n={self.n_set}, alpha={self.alpha_set}, beta={self.beta_set}, "
                f"k={self.k_set})")


def set_lrn(LRNDescriptor desc not None, mode, n, alpha, beta, k):
    """Body of miopenSetLRNDescriptor."""
    desc.set(mode, n, alpha, beta, k)


cdef int64_t workspace_bytes(TensorDescriptor y) except -1:
    """Bytes of the scales at y's strides: float32, for double tensors float64."""
    y.require_set("yDesc")
    require_plain(y, "yDesc")
    cdef int64_t elements = checked_mul(y.len[0], y.stride[0], "yDesc")  # MIOpen's; less where n is not outermost
    return checked_mul(max(elements, y.space), 8 if y.type == MX_DOUBLE else 4, "yDesc")


cdef class LRNProblem(Problem):
    """Forward (dy and dx None; `save`: scales are wanted) or backward."""

    def __init__(self, LRNDescriptor lrn not None, TensorDescriptor x not None, TensorDescriptor y not None,
                 TensorDescriptor dx=None, TensorDescriptor dy=None, bint save=False):
        cdef mx_lrn_problem* c = &self.c
        cdef bint backward = dx is not None
        cdef TensorDescriptor desc
        lrn.require_set()
        tensors = (("xDesc", x), ("yDesc", y), ("dxDesc", dx), ("dyDesc", dy))[:4 if backward else 2]
        for name, desc in tensors:
            desc.require_set(name)
            require_plain(desc, name)
        if x.type != MX_HALF and x.type != MX_FLOAT and x.type != MX_BFLOAT16 and x.type != MX_DOUBLE:
            raise MIOpenNotImplementedError("data type", "xDesc", x.dtype, "a floating-point type of 16 bits or more")
        if x.ndim != 4 and (x.ndim != 5 or lrn.mode_set == WITHIN_CHANNEL):
            raise UnknownError("rank of a normalisation", "xDesc", x.ndim,
                               "4" if lrn.mode_set == WITHIN_CHANNEL else "4, 5")
        for name, desc in tensors[1:]:
            if desc.type != x.type:
                raise BadParmError("types differ", name, desc.dtype, x.dtype)
            if desc.lens != x.lens:
                raise BadParmError("lengths differ", name, desc.lens, x.lens)
        if lrn.n_set == 0:
            raise UnknownError("Wrong LRN kernel size", "lrnN", lrn.n_set, ">= 1")
        if lrn.k_set == 0:
            raise UnknownError("K is zero", "lrnK", lrn.k_set, "another number than 0")
        memset(c, 0, sizeof(mx_lrn_problem))
        c.what = MX_LRN_BACKWARD if backward else MX_LRN_FORWARD
        c.mode, c.n, c.alpha, c.beta, c.k = lrn.mode_set, lrn.n_set, lrn.alpha_set, lrn.beta_set, lrn.k_set
        c.save = save and not backward
        fill_tensor(&c.x, x)
        fill_tensor(&c.y, y)
        self.hold(LRN_X, &c.x, x.ndim)
        self.hold(LRN_Y, &c.y, x.ndim)
        if backward:
            fill_tensor(&c.dx, dx)
            fill_tensor(&c.dy, dy)
            self.hold(LRN_DX, &c.dx, x.ndim)
            self.hold(LRN_DY, &c.dy, x.ndim)
        if c.save or backward:
            self.raw[LRN_SCALES] = checked_mul(y.space, 8 if y.type == MX_DOUBLE else 4, "yDesc")
        self.output = LRN_DX if backward else LRN_Y
        self.written = 1 << self.output | (1 << LRN_SCALES if c.save else 0)
        require_no_overlap(dx if backward else y, "dxDesc" if backward else "yDesc")

    def __cinit__(self, *args, **kwargs):
        self.data, self.size, self.count = &self.c, sizeof(mx_lrn_problem), LRN_SLOTS

    def __repr__(self):
        cdef mx_lrn_problem* c = &self.c
        return (f"<LRN {'backward' if c.what == MX_LRN_BACKWARD else 'forward'}, "
                f"{'within' if c.mode == WITHIN_CHANNEL else 'across'} channels, n {c.n}: x {tensor_text(&c.x)}>")
