"""Layer norm, RMS norm and group norm: their problem."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_NORM_BACKWARD, MX_NORM_FORWARD, mx_layernorm_problem,
    mx_tensor,
)
from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem, fill_tensor, require_plain, tensor_text

from miopyx.errors import BadParmError, MIOpenNotImplementedError

cdef tuple KINDS = ("layer norm", "add and layer norm", "T5 layer norm", "group norm")
cdef dict FORWARD_SLOTS = {"x": LN_X, "x2": LN_X2, "weight": LN_WEIGHT, "bias": LN_BIAS, "y": LN_Y, "mean": LN_MEAN,
                           "rstd": LN_RSTD}
cdef dict BACKWARD_SLOTS = {
    "dy": LN_BACK_DY, "x": LN_BACK_X, "x2": LN_BACK_X2, "weight": LN_BACK_WEIGHT, "mean": LN_BACK_MEAN,
    "rstd": LN_BACK_RSTD, "dx": LN_BACK_DX, "dw": LN_BACK_DW, "db": LN_BACK_DB,
}


cdef int _require(TensorDescriptor desc, str name) except -1:
    """A packed tensor: the last axis runs fastest and there are no gaps."""
    cdef int64_t step = 1
    cdef int axis
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim > MX_AXES:
        raise BadParmError("rank of a norm", name, desc.ndim, f"1 ... {MX_AXES}")
    for axis in range(desc.ndim - 1, -1, -1):
        if desc.len[axis] > 1 and desc.stride[axis] != step:
            raise MIOpenNotImplementedError("tensors of a norm are packed", f"{name}.strides", desc.strides,
                                            f"{step} for axis {axis}")
        step *= max(desc.len[axis], 1)
    return 0


cdef int _require_like(TensorDescriptor desc, str name, TensorDescriptor x, str x_name) except -1:
    """A tensor of x's type and lengths."""
    _require(desc, name)
    if desc.type != x.type:
        raise BadParmError(f"type differs from {x_name}'s", name, desc.dtype, x.dtype)
    if desc.lens != x.lens:
        raise BadParmError(f"lengths differ from {x_name}'s", name, desc.lens, x.lens)
    return 0


cdef int _require_lens(TensorDescriptor desc, str name, TensorDescriptor x, tuple lens) except -1:
    """A tensor of these lengths, axes of length 1 left out, and of x's type or float32."""
    _require(desc, name)
    if [n for n in desc.lens if n != 1] != [n for n in lens if n != 1]:
        raise BadParmError("lengths (ones do not count)", name, desc.lens, lens)
    if desc.type != x.type and desc.type != MX_FLOAT:
        raise BadParmError("type of weights or statistics", name, desc.dtype, f"{x.dtype} or float32")
    return 0


cdef class LayerNormProblem(Problem):
    """One direction of a norm.

    Parameters
    ----------
    what : int
        MX_NORM_FORWARD or MX_NORM_BACKWARD.
    kind : int
        LN_...
    number : int
        Of layer norms the first axis that is normalised; of group norm the number of groups.
    given : dict
        The descriptors of what a call has, by role: x x2 weight bias y mean rstd; backward dy x x2 weight mean rstd dx
        dw db.
    style : str
        What the caller's names of descriptors end in.

    Raises
    ------
    BadParmError
        Where lengths or types do not fit each other, or `number` does not fit x.
    MIOpenNotImplementedError
        For tensors that are not packed, and other types.
    """

    def __init__(self, int what, int kind, int64_t number, dict given not None, str style="Desc"):
        cdef mx_layernorm_problem* c = &self.c
        cdef TensorDescriptor x = given["x"], desc
        cdef bint back = what == MX_NORM_BACKWARD
        cdef dict slots = BACKWARD_SLOTS if back else FORWARD_SLOTS
        cdef str name, role, first
        cdef tuple inner, outer
        cdef int axis
        memset(c, 0, sizeof(mx_layernorm_problem))
        _require(x, f"x{style}")
        c.what, c.rms, c.groups, c.spatial, c.rows, c.length = what, kind == LN_T5, 1, 1, 1, 1
        if x.type not in (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE):
            raise MIOpenNotImplementedError("data type of a norm", f"x{style}", x.dtype,
                                            "float16, bfloat16, float32 or float64")
        if kind == LN_GROUP:
            self._group(x, number)
            inner, outer = (x.len[1],), (x.len[0], number)
        else:
            if kind == LN_T5:
                number = x.ndim - 1
            if number < 0 or number > x.ndim:
                raise BadParmError("first axis that is normalised", "normalized_dim", number, f"0 ... {x.ndim}")
            for axis in range(x.ndim):
                if axis < number:
                    c.rows *= x.len[axis]
                else:
                    c.length *= x.len[axis]
            inner, outer = x.lens[number:], x.lens[:number]
        fill_tensor(&c.x, x)
        for role, desc in given.items():
            name = role + style
            if role in ("x2", "y", "dy", "dx"):
                _require_like(desc, name, x, f"x{style}")
            elif role in ("weight", "bias", "dw", "db"):
                _require_lens(desc, name, x, inner)
            elif role != "x":
                _require_lens(desc, name, x, outer)
        for roles in (("weight", "bias", "dw", "db"), ("mean", "rstd")):  # each of one type
            first = None
            for role in roles:
                if role not in given:
                    continue
                if first is None:
                    first = role
                elif (<TensorDescriptor> given[role]).type != (<TensorDescriptor> given[first]).type:
                    raise BadParmError(f"type differs from {first}{style}'s", role + style, given[role].dtype,
                                       given[first].dtype)
        for role in given:
            self._set(slots[role], given, role)
        if back:
            self.count, self.output, self.in_place = 9, LN_BACK_DX, 1 << LN_BACK_DY | 1 << LN_BACK_X | 1 << LN_BACK_X2
            self.written = (1 << LN_BACK_DX | 1 << LN_BACK_DW | 1 << LN_BACK_DB) & c.has
        else:
            self.count, self.output, self.in_place = 7, LN_Y, 1 << LN_X | 1 << LN_X2
            self.written = (1 << LN_Y | 1 << LN_MEAN | 1 << LN_RSTD) & c.has

    def __cinit__(self, *args, **kwargs):
        self.data, self.size = &self.c, sizeof(mx_layernorm_problem)

    cdef int _group(self, TensorDescriptor x, int64_t groups) except -1:
        """Rows and weights of a group norm."""
        cdef int64_t channels
        cdef int axis
        if x.ndim < 2:
            raise BadParmError("rank of a group norm", "xDesc", x.ndim, f"2 ... {MX_AXES}")
        channels = x.len[1]
        if groups < 1 or channels % groups != 0:
            raise BadParmError("groups do not divide the channels", "num_groups", groups, f"a divisor of {channels}")
        for axis in range(2, x.ndim):
            self.c.spatial *= x.len[axis]
        self.c.groups, self.c.rows = groups, x.len[0] * groups
        self.c.length = channels // groups * self.c.spatial
        return 0

    cdef int _set(self, int slot, dict given, str role) except -1:
        """Let a slot hold the tensor of a role."""
        cdef mx_layernorm_problem* c = &self.c
        cdef TensorDescriptor desc = given[role]
        cdef mx_tensor* tensor = &c.x
        if role in ("weight", "dw"):
            tensor = &c.weight
        elif role in ("bias", "db"):
            tensor = &c.bias
        elif role == "mean":
            tensor = &c.mean
        elif role == "rstd":
            tensor = &c.rstd
        if role != "x":
            fill_tensor(tensor, desc)
        c.has |= 1 << slot
        return self.hold(slot, tensor, desc.ndim)

    def __repr__(self):
        cdef mx_layernorm_problem* c = &self.c
        word = "forward" if c.what == MX_NORM_FORWARD else "backward"
        kind = "RMS norm" if c.rms else "norm"
        return f"<{kind} {word}, {c.rows} rows of {c.length}: {tensor_text(&c.x)}>"
