"""Dropout: its descriptor and its problems."""

from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from miopyx.values._args cimport raise_unknown, to_double, to_flag, to_int64, to_member
from ._descriptors cimport Descriptor, TensorDescriptor, begin_setting, end_setting, seen
from ._grid cimport fill_grid
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_BYTE, MX_DOUBLE, MX_DROPOUT_BACKWARD, MX_DROPOUT_FORWARD, MX_DROPOUT_STATES, MX_FLOAT,
    MX_HALF, mx_dropout_problem, mx_grid, mx_tensor,
)

from operator import index

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

cdef tuple TYPES = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE)


def _set(DropoutDescriptor desc, p, states, size, seed, use_mask, state_evo, rng_mode):
    desc.set(p, states, size, seed, use_mask, state_evo, rng_mode)


cdef uint64_t _to_seed(object seed) except? 0xFFFFFFFFFFFFFFFF:
    """An unsigned long long."""
    try:
        number = index(seed)
    except TypeError:
        raise BadParmError("no integer", "seed", seed, "0 ... 2^64 - 1") from None
    if not 0 <= number < 1 << 64:
        raise BadParmError("integer out of range", "seed", number, "0 ... 2^64 - 1")
    return number


cdef class DropoutDescriptor(Descriptor):
    """DropoutDescriptor(dropout=None, states=None, state_size=0, seed=0, use_mask=False, state_evo=False,
                         rng_mode=0)\n--\n\n\
    How likely an element is dropped, and where random numbers come from (miopenDropoutDescriptor_t).

    Parameters
    ----------
    dropout : float, optional
        The probability, 0 to 1.  Without it the descriptor is empty, as miopenCreateDropoutDescriptor leaves it.
    states : memory of a handle's device, optional
        The states of the generator, which miopenSetDropoutDescriptor initialises.  The descriptor holds the object.
    state_size : int
        Their bytes.
    seed : int
        0 ... 2^64 - 1.
    use_mask : bool
        Whether the mask is the one that lies in the reserve space.
    state_evo : bool
        Whether each mask that is drawn leaves the states changed, so that the next one is another.
    rng_mode : miopenRNGType_t, optional

    Raises
    ------
    BadParmError
        For a probability, a seed or a member out of range.
    UnknownError
        Where the states are too small.
    """

    def __init__(self, dropout=None, states=None, state_size=0, seed=0, use_mask=False, state_evo=False, rng_mode=0):
        if dropout is not None:
            self.set(dropout, states, state_size, seed, use_mask, state_evo, rng_mode)

    def __cinit__(self, *args, **kwargs):
        self.p = -1

    cdef tuple settings(self):
        if self.p < 0:
            return ()
        if self.states_set is not None:
            raise BadParmError("states are memory of a device, which no copy has", "states", self.states_set, None)
        return ((_set, self.p, None, 0, self.seed_set, self.mask_set, self.evo_set, self.rng_set),)

    cdef int set(self, object p, object states, object size, object seed, object use_mask, object state_evo,
                 object rng_mode) except -1:
        cdef float probability = <float> to_double(p, "dropout")
        cdef int64_t given = to_int64(size, "stateSizeInBytes")
        cdef uint64_t number = _to_seed(seed)
        cdef bint mask = to_flag(use_mask, "use_mask"), evo = to_flag(state_evo, "state_evo")
        cdef int rng = to_member(rng_mode, "miopenRNGType_t", "rng_mode")
        if not 0 <= probability <= 1:
            raise BadParmError("Invalid dropout rate", "dropout", p, "0 ... 1")
        if rng != 0:
            raise_unknown(rng_mode, "miopenRNGType_t", "rng_mode")
        if given < 0 or (states is not None and given < DROPOUT_STATE_BYTES):
            raise UnknownError("Insufficient state size for parallel PRNG", "stateSizeInBytes", given,
                               f">= {DROPOUT_STATE_BYTES}")
        begin_setting(self)
        _old = self.states_set  # goes when the guard does
        self.p, self.states_set, self.seed_set = probability, states, number
        self.mask_set, self.evo_set, self.rng_set = mask, evo, rng
        end_setting(self)
        return 0

    cdef int hold(self) noexcept:
        Py_INCREF(self.states_set)
        return 0

    cdef int require_set(self) except -1:
        if self.p < 0:
            raise BadParmError("dropout descriptor that was never set", "dropoutDesc", self, "a set descriptor")
        return 0

    @property
    def dropout(self):
        """The probability, a float32, None until set."""
        return None if self.p < 0 else self.p

    @property
    def states(self):
        """The memory of the states."""
        return (<DropoutDescriptor> seen(self)).states_set

    @property
    def seed(self):
        return self.seed_set

    @property
    def use_mask(self):
        return self.mask_set

    @property
    def state_evo(self):
        return self.evo_set

    @property
    def rng_mode(self):
        """The miopenRNGType_t."""
        return enums.miopenRNGType_t(self.rng_set)

    cdef str described(self):
        if self.p < 0:
            return "<DropoutDescriptor never set>"
        return (f"DropoutDescriptor({self.p:g}, seed={self.seed_set}, use_mask={self.mask_set}, "
                f"state_evo={self.evo_set})")


cdef int _require(TensorDescriptor desc, str name) except -1:
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim > MX_AXES:
        raise UnknownError("Only support 1D to 5D tensors", name, desc.ndim, f"1 ... {MX_AXES}")
    return 0


cdef DropoutProblem states_problem():
    """The problem of initialising states."""
    cdef DropoutProblem problem = DropoutProblem.__new__(DropoutProblem)
    problem.c.what = MX_DROPOUT_STATES
    problem.raw[DROPOUT_STATES] = DROPOUT_STATE_BYTES
    problem.output, problem.written = DROPOUT_STATES, 1 << DROPOUT_STATES
    return problem


cdef DropoutProblem dropout_problem(int what, int mask, DropoutDescriptor desc, TensorDescriptor noise,
                                    TensorDescriptor x, TensorDescriptor y, str style):
    """The problem of a direction; x and y are dy and dx backward."""
    cdef DropoutProblem problem = DropoutProblem.__new__(DropoutProblem)
    cdef mx_dropout_problem* p = &problem.c
    cdef bint back = what == MX_DROPOUT_BACKWARD
    cdef int axis
    cdef str x_name = f"{'dy' if back else 'x'}{style}", y_name = f"{'dx' if back else 'y'}{style}"
    desc.require_set()
    _require(x, x_name)
    _require(y, y_name)
    _require(noise, "noise_shape")
    if y.lens != x.lens:
        raise UnknownError("Input/Output tensor lengths do not match", y_name, y.lens, x.lens)
    if noise.lens != x.lens:
        raise UnknownError("Only support dropout with regular noise shape currently", "noise_shape", noise.lens,
                           x.lens)
    if y.type != x.type:
        raise UnknownError("Input/Output datatype does not match", y_name, y.dtype, x.dtype)
    if x.type not in TYPES:
        raise MIOpenNotImplementedError("data type of a dropout", x_name, x.dtype,
                                        "float16, bfloat16, float32 or float64")
    require_no_overlap(y, y_name)
    p.what, p.mask, p.evolves = what, mask, not back and mask != DROPOUT_GIVEN and desc.evo_set
    p.p = desc.p
    fill_tensor(&p.x, x)
    fill_tensor(&p.y, y)
    problem.hold(DROPOUT_X, &p.x, x.ndim)
    problem.hold(DROPOUT_Y, &p.y, y.ndim)
    problem.output, problem.written, problem.in_place = DROPOUT_Y, 1 << DROPOUT_Y, 1 << DROPOUT_X
    if mask != DROPOUT_DRAWN:
        problem.kept.type = MX_BYTE
        for axis in range(MX_AXES):
            problem.kept.len[axis] = x.elements if axis == 0 else 1
            problem.kept.stride[axis] = 1
        problem.hold(DROPOUT_MASK, &problem.kept, 1)
    if mask == DROPOUT_KEPT:
        problem.written |= 1 << DROPOUT_MASK
    if mask != DROPOUT_GIVEN:
        problem.raw[DROPOUT_STATES] = DROPOUT_STATE_BYTES
    if p.evolves:
        problem.written |= 1 << DROPOUT_STATES
    return problem


cdef class DropoutProblem(Problem):
    """y = x / (1 - p) where the mask says so, else 0; made by dropout_problem and states_problem."""

    def __cinit__(self, *args, **kwargs):
        memset(&self.c, 0, sizeof(mx_dropout_problem))
        self.data, self.size, self.count = &self.c, sizeof(mx_dropout_problem), 4

    def __repr__(self):
        cdef mx_dropout_problem* p = &self.c
        if p.what == MX_DROPOUT_STATES:
            return "<dropout's states>"
        return (f"<dropout {'forward' if p.what == MX_DROPOUT_FORWARD else 'backward'}, mask "
                f"{('drawn', 'drawn and kept', 'given')[p.mask]}: {tensor_text(&p.x)}>")


cdef int walk_dropout(const mx_dropout_problem* p, mx_grid* grid) noexcept nogil:
    """Write the grid of the elements in the order of their axes.

    Element x of row `line` is number line * row + x, `row` the length of the last axis.
    """
    cdef mx_tensor number = p.x
    cdef const mx_tensor* tensors[3]
    cdef int64_t step = 1
    cdef int axis
    for axis in range(MX_AXES - 1, -1, -1):
        number.stride[axis] = step
        step *= number.len[axis]
    tensors[0], tensors[1], tensors[2] = &number, &p.x, &p.y
    return fill_grid(grid, tensors, 3)
