"""Operations on elements (GLU, PReLU, soft margin, rotary embeddings, Adam): their problems, and what they walk."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ._slots cimport SlotsProblem, align_right, elements_of, given
from miopyx.values._types cimport (
    MX_ADAM, MX_ADAM_TRANSFORMERS, MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_GLU, MX_GLU_BACKWARD, MX_HALF, MX_INT8,
    MX_INT32, MX_PRELU_BACKWARD, MX_ROPE, MX_ROPE_BACKWARD, MX_SOFT_MARGIN, MX_SOFT_MARGIN_BACKWARD, mx_bias_problem,
    mx_slots_problem, mx_tensor,
)

from miopyx.errors import BadParmError

cdef tuple FLOATING = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE)
cdef str FLOATS = "float16, bfloat16, float32 or float64"
cdef tuple REAL = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE, MX_INT8, MX_INT32)


cdef class ElementsProblem(SlotsProblem):
    """Base of the operations of kernels/layers/elements.h.

    Raises
    ------
    BadParmError
        Where types or lengths do not fit each other.
    MIOpenNotImplementedError
        For other types, and more than five dimensions.
    """


cdef class GLUProblem(ElementsProblem):
    """y = GLU(x), made of (dim, x, y), or its gradient, made of (dim, x, dy, dx)."""

    def __init__(self, int64_t dim, x, y, dx=None):
        cdef bint back = dx is not None
        cdef int axis
        cdef tuple lens
        self.take(GLU_X, x, "inputDesc")
        self.take(GLU_DY, y, "outputGradDesc" if back else "outputDesc", not back)
        if dim < 0 or dim >= self.c.rank[<int> GLU_X]:
            raise BadParmError("axis that is split", "dim", dim, f"0 ... {self.c.rank[<int> GLU_X] - 1}")
        lens = self.lens(GLU_X)
        if lens[dim] % 2:
            raise BadParmError("length that is split", f"inputDesc.lens[{dim}]", lens[dim], "an even number")
        self.require_type(GLU_X, FLOATING, FLOATS)
        if self.c.t[<int> GLU_DY].type != self.c.t[<int> GLU_X].type:
            raise BadParmError("type differs from inputDesc's", self.names[<int> GLU_DY], y.dtype, x.dtype)
        self.require_lens(GLU_DY, lens[:dim] + (lens[dim] // 2,) + lens[dim + 1:], "half of inputDesc's")
        if back:
            self.take(GLU_DX, dx, "inputGradDesc", True)
            self.require_alike(GLU_DX, GLU_X)
        axis = <int> dim if dim < 2 else MX_AXES - <int> self.c.rank[<int> GLU_X] + <int> dim
        self.c.what, self.c.number[0] = MX_GLU_BACKWARD if back else MX_GLU, axis
        self.output = GLU_DX if back else GLU_DY
        self.in_place = 1 << GLU_X if back else 0


cdef class PReLUProblem(ElementsProblem):
    """The gradients of a PReLU for its input and its weights."""

    def __init__(self, x, w, dy, dx, dw):
        cdef int64_t weights
        self.take(PRELU_X, x, "inputDesc")
        self.take(PRELU_W, w, "weightDesc")
        self.take(PRELU_DY, dy, "doutputDesc")
        self.take(PRELU_DX, dx, "dinputDesc", True)
        self.take(PRELU_DW, dw, "dweightDesc", True)
        self.require_type(PRELU_X, FLOATING, FLOATS)
        self.require_type(PRELU_DY, FLOATING, FLOATS)
        if self.c.t[<int> PRELU_W].type != self.c.t[<int> PRELU_X].type:
            raise BadParmError("type differs from inputDesc's", "weightDesc", w.dtype, x.dtype)
        self.require_lens(PRELU_DY, self.lens(PRELU_X), "inputDesc's")
        self.require_alike(PRELU_DX, PRELU_X)
        if self.c.rank[<int> PRELU_W] != 1:
            raise BadParmError("rank of weights", "weightDesc", self.c.rank[<int> PRELU_W], 1)
        weights = self.c.t[<int> PRELU_W].len[0]
        if weights != 1 and (self.c.rank[<int> PRELU_X] < 2 or weights != self.c.t[<int> PRELU_X].len[1]):
            raise BadParmError("number of weights", "weightDesc", weights, "1 or the length of inputDesc's second axis")
        self.require_alike(PRELU_DW, PRELU_W)
        self.c.what, self.output = MX_PRELU_BACKWARD, PRELU_DX
        self.in_place = 1 << PRELU_X | 1 << PRELU_DY

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> PRELU_X]) == 0


cdef class SoftMarginProblem(ElementsProblem):
    """The loss, made of (reduction, x, target, loss), or its gradient, made of (reduction, x, target, dy, dx)."""

    def __init__(self, int reduction, x, target, y, dx=None):
        cdef bint back = dx is not None
        self.take(MARGIN_X, x, "inputDesc")
        self.take(MARGIN_T, target, "targetDesc")
        self.take(MARGIN_DY, y, "doutputDesc" if back else "outputDesc", not back)
        self.require_type(MARGIN_X, FLOATING, FLOATS)
        self.require_alike(MARGIN_T, MARGIN_X)
        if back or reduction == REDUCE_NONE:
            self.require_alike(MARGIN_DY, MARGIN_X)
        else:
            if self.c.t[<int> MARGIN_DY].type != self.c.t[<int> MARGIN_X].type:
                raise BadParmError("type differs from inputDesc's", "outputDesc", y.dtype, x.dtype)
            if reduction == REDUCE_MEAN and self.is_empty():
                raise BadParmError("mean of nothing", "inputDesc", self.lens(MARGIN_X), "elements")
            if elements_of(&self.c.t[<int> MARGIN_DY]) != 1:
                raise BadParmError("elements of a reduced loss", "outputDesc", self.lens(MARGIN_DY), "one element")
        if back:
            self.take(MARGIN_DX, dx, "dinputDesc", True)
            self.require_alike(MARGIN_DX, MARGIN_X)
        self.c.what = MX_SOFT_MARGIN_BACKWARD if back else MX_SOFT_MARGIN
        self.c.number[0] = reduction
        self.output = MARGIN_DX if back else MARGIN_DY
        self.in_place = 1 << MARGIN_X | 1 << MARGIN_T
        if back:
            self.in_place |= 1 << MARGIN_DY

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> MARGIN_X]) == 0


cdef class RoPEProblem(ElementsProblem):
    """Rotary embeddings of x, or with `back` the gradient for x from that for y."""

    def __init__(self, bint back, x, cos, sin, y):
        cdef mx_tensor whole, part
        cdef int axis
        self.take(ROPE_X, x, "dyDesc" if back else "xDesc")
        self.take(ROPE_COS, cos, "cosDesc")
        self.take(ROPE_SIN, sin, "sinDesc")
        self.take(ROPE_Y, y, "dxDesc" if back else "yDesc", True)
        self.require_type(ROPE_X, FLOATING, FLOATS)
        self.require_alike(ROPE_Y, ROPE_X)
        self.require_alike(ROPE_SIN, ROPE_COS)
        if self.c.t[<int> ROPE_COS].type != self.c.t[<int> ROPE_X].type:
            raise BadParmError(f"type differs from {self.names[0]}'s", "cosDesc", cos.dtype, x.dtype)
        whole, part = align_right(&self.c, ROPE_X), align_right(&self.c, ROPE_COS)
        if whole.len[4] % 2:
            raise BadParmError("last length", self.names[0], self.lens(ROPE_X), "an even number")
        for axis in range(MX_AXES):
            if part.len[axis] != whole.len[axis] and (axis == 4 or part.len[axis] != 1):
                raise BadParmError("lengths are not the last ones of x, or 1", "cosDesc", self.lens(ROPE_COS),
                                   self.lens(ROPE_X))
        self.c.what, self.output, self.in_place = MX_ROPE_BACKWARD if back else MX_ROPE, ROPE_Y, 1 << ROPE_X


cdef class AdamProblem(ElementsProblem):
    """A step of Adam.

    Parameters
    ----------
    transformers : bool
        That of Hugging Face's Transformers.
    flags : int
        ADAM_...
    present : dict
        Descriptors by slot.
    names : dict
        What the caller calls them.
    """

    def __init__(self, bint transformers, int flags, dict present, dict names):
        cdef int slot
        for slot, desc in present.items():
            self.take(slot, desc, names[slot], slot >= ADAM_P_OUT and slot <= ADAM_P16 or slot == ADAM_STEP_OUT)
        self.require_type(ADAM_P, FLOATING, FLOATS)
        self.require_type(ADAM_G, FLOATING, FLOATS)
        if ADAM_SCALE not in present and ADAM_FOUND not in present and (
                self.c.t[<int> ADAM_G].type != self.c.t[<int> ADAM_P].type):
            raise BadParmError(f"type differs from {names[<int> ADAM_P]}'s", names[<int> ADAM_G],
                               present[<int> ADAM_G].dtype, present[<int> ADAM_P].dtype)
        for slot in present:
            if slot == ADAM_G:
                self.require_lens(slot, self.lens(ADAM_P), f"{names[<int> ADAM_P]}'s")
            elif slot == ADAM_P16:
                if self.c.t[slot].type != MX_HALF and self.c.t[slot].type != MX_BFLOAT16:
                    raise BadParmError("type of a copy in 16 bits", names[slot], present[slot].dtype,
                                       "float16 or bfloat16")
                self.require_lens(slot, self.lens(ADAM_P), f"{names[<int> ADAM_P]}'s")
            elif slot >= ADAM_SCALE:
                self.require_type(slot, REAL, "int8, int32 or a floating type")
                if elements_of(&self.c.t[slot]) != 1:
                    raise BadParmError("elements of a number", names[slot], self.lens(slot), "one element")
            elif slot != ADAM_P:
                self.require_alike(slot, ADAM_P)
        if ADAM_STEP_OUT in present and self.c.t[<int> ADAM_STEP_OUT].type != self.c.t[<int> ADAM_STEP].type:
            raise BadParmError(f"type differs from {names[<int> ADAM_STEP]}'s", names[<int> ADAM_STEP_OUT],
                               present[<int> ADAM_STEP_OUT].dtype, present[<int> ADAM_STEP].dtype)
        for slot in (ADAM_P, ADAM_M, ADAM_V, ADAM_MOST, ADAM_STEP):  # in place
            out = ADAM_STEP_OUT if slot == ADAM_STEP else ADAM_P_OUT if slot == ADAM_P else slot + ADAM_M_OUT - ADAM_M
            if slot in present and out not in present:
                self.take(slot, present[slot], names[slot], True)
        self.c.what, self.c.flags = MX_ADAM_TRANSFORMERS if transformers else MX_ADAM, flags
        self.output = ADAM_P_OUT if ADAM_P_OUT in present else ADAM_P

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> ADAM_P]) == 0 and not given(&self.c, ADAM_STEP)  # a counter goes on


cdef int _add(operand_t* o, int count, const mx_slots_problem* p, int slot) noexcept nogil:
    o[count].slot, o[count].offset, o[count].t = slot, 0, p.t[slot]
    return count + 1


cdef int _half(operand_t* o, int count, const mx_slots_problem* p, int slot, int axis, int half) noexcept nogil:
    """One half of a slot's tensor along an axis."""
    _add(o, count, p, slot)
    o[count].t.len[axis] //= 2
    o[count].offset = half * o[count].t.len[axis] * o[count].t.stride[axis]
    return count + 1


cdef int _pair(operand_t* o, int count, const mx_slots_problem* p, int slot) noexcept nogil:
    """The elements of even and odd places along the last axis."""
    cdef int odd
    cdef mx_tensor t = align_right(p, slot)
    t.len[4] //= 2
    for odd in range(2):
        o[count + odd].slot, o[count + odd].offset, o[count + odd].t = slot, odd * t.stride[4], t
        o[count + odd].t.stride[4] *= 2
    return count + 2


cdef mx_tensor compact(const mx_tensor* t) noexcept nogil:
    """A tensor of these lengths without gaps, its axes in the same order."""
    cdef mx_tensor c = t[0]
    cdef int64_t step = 1
    cdef int done = 0, axis, best, _i
    for _i in range(MX_AXES):
        best = -1
        for axis in range(MX_AXES - 1, -1, -1):
            if not done >> axis & 1 and (best < 0 or t.stride[axis] < t.stride[best]):
                best = axis
        done |= 1 << best
        c.stride[best] = step
        step *= c.len[best]
    return c


cdef int _terms(operand_t* o, int count) noexcept nogil:
    """What is summed: of the first operand's lengths, in a workspace."""
    o[count].slot, o[count].offset, o[count].t = TERM, 0, compact(&o[0].t)
    o[count].t.type = MX_DOUBLE if o[0].t.type == MX_DOUBLE else MX_FLOAT
    return count + 1


cdef int operands_of(const mx_slots_problem* p, operand_t* operands, int* inputs) noexcept nogil:
    """Write what is walked together, `inputs` that are read and then those that are written; returns how many."""
    cdef operand_t* o = operands
    cdef int axis = <int> p.number[0], n = 0, slot, i
    if p.what == MX_GLU or p.what == MX_GLU_BACKWARD:
        n = _half(o, n, p, GLU_X, axis, 0)
        n = _half(o, n, p, GLU_X, axis, 1)
        if p.what == MX_GLU:
            inputs[0] = n
            return _add(o, n, p, GLU_DY)
        n = _add(o, n, p, GLU_DY)
        inputs[0] = n
        n = _half(o, n, p, GLU_DX, axis, 0)
        return _half(o, n, p, GLU_DX, axis, 1)
    if p.what == MX_PRELU_BACKWARD:
        n = _add(o, n, p, PRELU_X)
        n = _add(o, n, p, PRELU_DY)
        n = _add(o, n, p, PRELU_W)
        for i in range(MX_AXES):
            o[2].t.len[i], o[2].t.stride[i] = 1, 0
        o[2].t.len[1], o[2].t.stride[1] = p.t[<int> PRELU_W].len[0], p.t[<int> PRELU_W].stride[0]
        inputs[0] = n
        n = _add(o, n, p, PRELU_DX)
        return _terms(o, n)
    if p.what == MX_SOFT_MARGIN or p.what == MX_SOFT_MARGIN_BACKWARD:
        n = _add(o, n, p, MARGIN_X)
        n = _add(o, n, p, MARGIN_T)
        if p.what == MX_SOFT_MARGIN:
            inputs[0] = n
            return _add(o, n, p, MARGIN_DY) if p.number[0] == REDUCE_NONE else _terms(o, n)
        n = _add(o, n, p, MARGIN_DY)
        inputs[0] = n
        return _add(o, n, p, MARGIN_DX)
    if p.what == MX_ROPE or p.what == MX_ROPE_BACKWARD:
        n = _pair(o, n, p, ROPE_X)
        n = _pair(o, n, p, ROPE_COS)
        n = _pair(o, n, p, ROPE_SIN)
        inputs[0] = n
        return _pair(o, n, p, ROPE_Y)
    for slot in range(ADAM_MOST + 1):
        if given(p, slot):
            n = _add(o, n, p, slot)
    inputs[0] = n
    n = _add(o, n, p, ADAM_P_OUT if given(p, ADAM_P_OUT) else ADAM_P)
    n = _add(o, n, p, ADAM_M_OUT if given(p, ADAM_M_OUT) else ADAM_M)
    n = _add(o, n, p, ADAM_V_OUT if given(p, ADAM_V_OUT) else ADAM_V)
    if given(p, ADAM_MOST):
        n = _add(o, n, p, ADAM_MOST_OUT if given(p, ADAM_MOST_OUT) else ADAM_MOST)
    if given(p, ADAM_P16):
        n = _add(o, n, p, ADAM_P16)
    return n


cdef int sum_of(const mx_slots_problem* p, mx_bias_problem* sum) noexcept nogil:
    """Write the sum of the terms; returns the slot that it goes to, TERM where nothing is summed."""
    cdef int i, axis
    memset(sum, 0, sizeof(mx_bias_problem))
    if p.what == MX_PRELU_BACKWARD:
        sum.y, sum.b = compact(&p.t[<int> PRELU_X]), p.t[<int> PRELU_DW]
        for i in range(MX_AXES):
            sum.b.len[i], sum.b.stride[i] = 1, 0
        sum.b.len[1], sum.b.stride[1] = p.t[<int> PRELU_DW].len[0], p.t[<int> PRELU_DW].stride[0]
        i = PRELU_DW
    elif p.what == MX_SOFT_MARGIN and p.number[0] != REDUCE_NONE:
        sum.y, sum.b = compact(&p.t[<int> MARGIN_X]), p.t[<int> MARGIN_DY]
        for axis in range(MX_AXES):
            sum.b.len[axis], sum.b.stride[axis] = 1, 0
        i = MARGIN_DY
    else:
        return TERM
    sum.y.type = MX_DOUBLE if sum.y.type == MX_DOUBLE else MX_FLOAT
    return i
