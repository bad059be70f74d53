"""Reductions: their descriptor and their problem.

Whichever function asks, a problem has c with the rank of a: the axes where c has length 1 are reduced.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport checked_mul, raise_unknown, to_member
from ._descriptors cimport Descriptor, TensorDescriptor, begin_setting, end_setting, to_data_type
from ._grid cimport fill_grid
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT32, MX_REDUCE, mx_grid, mx_reduce_problem, mx_tensor,
)

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

cdef enum:
    MOST_INDEX = 0x7FFFFFFF
    FLATTENED = 1
    OF_32_BITS = 0

cdef tuple TYPES = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE)
cdef str TYPE_WORDS = "float16, bfloat16, float32 or float64"


def _set(ReduceTensorDescriptor desc, op, comp_type, nan_propagation, indices, indices_type):
    desc.set(op, comp_type, nan_propagation, indices, indices_type)


cdef int _member(object value, str enumeration, str name, int last) except -1:
    cdef int number = to_member(value, enumeration, name)
    if number < 0 or number > last:
        raise_unknown(value, enumeration, name)
    return number


cdef class ReduceTensorDescriptor(Descriptor):
    """ReduceTensorDescriptor(op=None, comp_type=1, nan_propagation=0, indices=0, indices_type=0)\n--\n\n\
    What a reduction does (miopenReduceTensorDescriptor_t).

    Parameters
    ----------
    op : miopenReduceTensorOp_t, optional
        Without it the descriptor is empty, as miopenCreateReduceTensorDescriptor leaves it.
    comp_type : miopenDataType_t, optional
        float64: arithmetic is float64 whatever the tensors are.  Otherwise that of miopenReduceTensor.
    nan_propagation : miopenNanPropagation_t, optional
        Of MIN, MAX and AMAX: whether a NaN becomes the result, or is left out.
    indices : miopenReduceTensorIndices_t, optional
        Of MIN, MAX and AMAX: whether the element's index is wanted, too.
    indices_type : miopenIndicesType_t, optional

    Raises
    ------
    BadParmError
        For what is no member of an enumeration.
    UnknownError
        For indices of another type than 32 bits.
    """

    def __init__(self, op=None, comp_type=MX_FLOAT, nan_propagation=0, indices=0, indices_type=0):
        if op is not None:
            self.set(op, comp_type, nan_propagation, indices, indices_type)

    def __cinit__(self, *args, **kwargs):
        self.op_set, self.comp_type_set = -1, MX_FLOAT

    cdef tuple settings(self):
        if self.op_set < 0:
            return ()
        return ((_set, self.op_set, self.comp_type_set, self.nan_set, self.indices_set, self.indices_type_set),)

    cdef int set(self, object op, object comp_type, object nan_propagation, object indices,
                 object indices_type) except -1:
        cdef int number = _member(op, "miopenReduceTensorOp_t", "reduceTensorOp", REDUCE_MUL_NO_ZEROS)
        cdef int data_type = to_data_type(comp_type, "reduceTensorCompType")
        cdef int nan = _member(nan_propagation, "miopenNanPropagation_t", "reduceTensorNanOpt", 1)
        cdef int wanted = _member(indices, "miopenReduceTensorIndices_t", "reduceTensorIndices", FLATTENED)
        cdef int kind = _member(indices_type, "miopenIndicesType_t", "reduceTensorIndicesType", 3)
        if wanted == FLATTENED and kind != OF_32_BITS:
            raise UnknownError("Only int32 type is supported for ReduceTensor indices.", "reduceTensorIndicesType",
                               kind, "MIOPEN_32BIT_INDICES")
        begin_setting(self)
        self.op_set, self.comp_type_set, self.nan_set = number, data_type, nan
        self.indices_set, self.indices_type_set = wanted, kind
        end_setting(self)
        return 0

    cdef int require_set(self) except -1:
        if self.op_set < 0:
            raise BadParmError("reduction descriptor that was never set", "reduceTensorDesc", self,
                               "a set descriptor")
        return 0

    cdef bint wants_indices(self) noexcept:
        return self.indices_set == FLATTENED and is_extreme(self.op_set)

    @property
    def op(self):
        """The miopenReduceTensorOp_t, None until set."""
        return None if self.op_set < 0 else enums.miopenReduceTensorOp_t(self.op_set)

    @property
    def comp_type(self):
        """The miopenDataType_t of the arithmetic."""
        return enums.miopenDataType_t(self.comp_type_set)

    @property
    def nan_propagation(self):
        """The miopenNanPropagation_t."""
        return enums.miopenNanPropagation_t(self.nan_set)

    @property
    def indices(self):
        """The miopenReduceTensorIndices_t."""
        return enums.miopenReduceTensorIndices_t(self.indices_set)

    @property
    def indices_type(self):
        """The miopenIndicesType_t."""
        return enums.miopenIndicesType_t(self.indices_type_set)

    cdef str described(self):
        if self.op_set < 0:
            return "<ReduceTensorDescriptor never set>"
        return (f"ReduceTensorDescriptor({self.op.name!r}, {enums.TYPE_NAMES[self.comp_type_set]!r}, "
                f"{self.nan_propagation.name!r}, {self.indices.name!r}, {self.indices_type.name!r})")


cdef int _require(TensorDescriptor desc, str name, type error) except -1:
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim > MX_AXES:
        raise error("too many dimensions", name, desc.ndim, f"at most {MX_AXES}")
    if desc.type not in TYPES:
        raise MIOpenNotImplementedError("data type of a reduction", name, desc.dtype, TYPE_WORDS)
    return 0


cdef int64_t _reduced(TensorDescriptor a, TensorDescriptor c, str a_name, str c_name) except -1:
    """Check that c has length 1 or a's, and return how many elements of a become one of c."""
    cdef int64_t count = 1
    cdef bint reduces = False
    cdef int i
    if a.ndim != c.ndim:
        raise UnknownError("ranks differ", c_name, c.ndim, a.ndim)
    for i in range(a.ndim):
        if c.len[i] == 1:
            count, reduces = checked_mul(count, a.len[i], a_name), True
        elif c.len[i] != a.len[i]:
            raise UnknownError("length is neither 1 nor A's", f"{c_name}.lens[{i}]", c.len[i], f"1 or {a.len[i]}")
    if not reduces:
        raise UnknownError("no axis is reduced", f"{c_name}.lens", c.lens, "a length of 1")
    return count


cdef int _require_extreme(int64_t elements, bint indexed, str name) except -1:
    """What has an extreme, and an index of 32 bits."""
    if elements == 0:
        raise BadParmError("an extreme of no elements", name, elements, ">= 1")
    if indexed and elements > MOST_INDEX:
        raise BadParmError("more reduced elements than an index counts", name, elements, f"at most {MOST_INDEX}")
    return 0


cdef int64_t indices_bytes(ReduceTensorDescriptor desc, TensorDescriptor a, TensorDescriptor c) except -1:
    """Bytes of the indices, 0 where none are wanted."""
    desc.require_set()
    a.require_set("aDesc")
    c.require_set("cDesc")
    _reduced(a, c, "aDesc", "cDesc")
    return checked_mul(c.elements, 4, "cDesc") if desc.wants_indices() else 0


cdef ReduceProblem reduce_problem(ReduceTensorDescriptor desc, TensorDescriptor a, TensorDescriptor c, str style):
    """The problem of miopenReduceTensor."""
    cdef ReduceProblem problem = ReduceProblem.__new__(ReduceProblem)
    cdef mx_reduce_problem* p = &problem.c
    cdef str a_name = f"a{style}", c_name = f"c{style}"
    cdef int64_t count, step = 1
    cdef int axis
    desc.require_set()
    _require(a, a_name, UnknownError)
    _require(c, c_name, UnknownError)
    count = _reduced(a, c, a_name, c_name)
    if desc.comp_type_set not in TYPES:
        raise MIOpenNotImplementedError("data type of a reduction", "reduceTensorCompType",
                                        enums.TYPE_NAMES[desc.comp_type_set], TYPE_WORDS)
    if is_extreme(desc.op_set) and c.elements != 0:
        _require_extreme(count, desc.wants_indices(), a_name)
    require_no_overlap(c, c_name)
    p.op = desc.op_set
    p.nan = desc.nan_set if is_extreme(desc.op_set) else REDUCE_NAN_WINS
    p.wide = a.type == MX_DOUBLE or c.type == MX_DOUBLE or desc.comp_type_set == MX_DOUBLE
    fill_tensor(&p.a, a)
    fill_tensor(&p.c, c)
    p.values = p.c
    p.has = 1 << REDUCE_A | 1 << REDUCE_C
    if desc.wants_indices():
        p.has |= 1 << REDUCE_INDEX
        p.index = p.c
        p.index.type = MX_INT32
        if c.space != c.elements:  # where c has gaps they are packed
            for axis in range(MX_AXES - 1, -1, -1):
                p.index.stride[axis] = step
                step *= p.index.len[axis]
        checked_mul(c.elements, 4, c_name)
        p.indices = p.index
    problem._finish(a.ndim, c.ndim, c.ndim if desc.wants_indices() else 0)
    return problem


cdef int _fill_without(mx_tensor* whole, mx_tensor* own, TensorDescriptor desc, str name, TensorDescriptor x,
                       str x_name, int dim) except -1:
    """Write a result that lacks x's axis `dim` as it is, and with that axis, of length 1."""
    cdef int64_t lens[MX_AXES]
    cdef int64_t strides[MX_AXES]
    cdef int i, from_axis = 0, missing = MX_AXES - x.ndim
    wanted = [x.len[i] for i in range(x.ndim) if i != dim] or [1]
    if list(desc.lens) != wanted:
        raise BadParmError(f"lengths are not {x_name}'s without axis {dim}", name, desc.lens, tuple(wanted))
    fill_tensor(own, desc)
    whole.type = desc.type
    for i in range(MX_AXES):
        whole.len[i], whole.stride[i] = 1, 0
    for i in range(x.ndim):
        lens[i], strides[i] = 1, 0
        if i != dim:
            lens[i], strides[i] = desc.len[from_axis], desc.stride[from_axis]
            from_axis += 1
        whole.len[i if i < 2 else i + missing], whole.stride[i if i < 2 else i + missing] = lens[i], strides[i]
    return 0


cdef int _require_dim(int dim, TensorDescriptor x) except -1:
    if dim < 0 or dim >= x.ndim:
        raise BadParmError("no axis of x", "dim", dim, f"0 ... {x.ndim - 1}")
    return 0


cdef ReduceProblem calculation_problem(int op, int nan, int dim, TensorDescriptor x, TensorDescriptor y, str style):
    """The problem of miopenReduceCalculationForward: one axis."""
    cdef ReduceProblem problem = ReduceProblem.__new__(ReduceProblem)
    cdef mx_reduce_problem* p = &problem.c
    cdef str x_name = f"x{style}", y_name = f"reduce{style}"
    _require(x, x_name, BadParmError)
    _require(y, y_name, BadParmError)
    if x.type != y.type:
        raise BadParmError(f"type differs from {x_name}'s", y_name, y.dtype, x.dtype)
    _require_dim(dim, x)
    require_no_overlap(y, y_name)
    p.op, p.nan, p.wide = op, nan, x.type == MX_DOUBLE
    fill_tensor(&p.a, x)
    _fill_without(&p.c, &p.values, y, y_name, x, x_name, dim)
    p.has = 1 << REDUCE_A | 1 << REDUCE_C
    problem._finish(x.ndim, y.ndim, 0)
    return problem


cdef ReduceProblem extreme_problem(int op, int dim, TensorDescriptor x, TensorDescriptor y, TensorDescriptor index,
                                   str style):
    """The problem of miopenReduceExtremeForward: one axis; without a y only the indices are wanted."""
    cdef ReduceProblem problem = ReduceProblem.__new__(ReduceProblem)
    cdef mx_reduce_problem* p = &problem.c
    cdef str x_name = f"x{style}", y_name = f"y{style}", index_name = f"indice{style}"
    _require(x, x_name, BadParmError)
    _require_dim(dim, x)
    p.op, p.nan, p.wide = op, REDUCE_NAN_FIRST, x.type == MX_DOUBLE
    fill_tensor(&p.a, x)
    p.has = 1 << REDUCE_A | 1 << REDUCE_INDEX
    if y is not None:
        _require(y, y_name, BadParmError)
        if x.type != y.type:
            raise BadParmError(f"type differs from {x_name}'s", y_name, y.dtype, x.dtype)
        _fill_without(&p.c, &p.values, y, y_name, x, x_name, dim)
        require_no_overlap(y, y_name)
        p.has |= 1 << REDUCE_C
    index.require_set(index_name)
    require_plain(index, index_name)
    if index.type != MX_INT32:
        raise BadParmError("type of indices", index_name, index.dtype, "int32")
    _fill_without(&p.index, &p.indices, index, index_name, x, x_name, dim)
    require_no_overlap(index, index_name)
    if index.elements != 0:
        _require_extreme(x.len[dim], True, x_name)
    problem._finish(x.ndim, 0 if y is None else y.ndim, index.ndim)
    return problem


cdef class ReduceProblem(Problem):
    """c = alpha op(a) + beta c over some axes of a; made by reduce_problem, calculation_problem and extreme_problem."""

    def __cinit__(self, *args, **kwargs):
        memset(&self.c, 0, sizeof(mx_reduce_problem))
        self.c.what = MX_REDUCE
        self.data, self.size, self.count = &self.c, sizeof(mx_reduce_problem), 3

    cdef int _finish(self, int a_rank, int c_rank, int index_rank) except -1:
        """Say what the slots hold.  `index_rank` is 0 where there are no indices."""
        cdef mx_reduce_problem* p = &self.c
        self.hold(REDUCE_A, &p.a, a_rank)
        self.output = REDUCE_INDEX
        if has(p, REDUCE_C):
            self.hold(REDUCE_C, &p.values, c_rank)
            self.output = REDUCE_C
        if index_rank > 0:
            self.hold(REDUCE_INDEX, &p.indices, index_rank)
        self.written = p.has & ~(1 << REDUCE_A)
        return 0

    cdef bint is_empty(self) noexcept:
        """Whether there is nothing to write; of an a without elements there is a sum."""
        cdef const mx_tensor* t = &self.c.c if has(&self.c, REDUCE_C) else &self.c.index
        cdef int axis
        for axis in range(MX_AXES):
            if t.len[axis] == 0:
                return True
        return False

    def __repr__(self):
        cdef mx_reduce_problem* p = &self.c
        cdef const mx_tensor* c = &p.c if has(p, REDUCE_C) else &p.index
        return (f"<reduce {enums.word_of('miopenReduceTensorOp_t', p.op)}"
                f"{' with indices' if has(p, REDUCE_INDEX) else ''}: {tensor_text(&p.a)} to {tensor_text(c)}>")


cdef int split_reduction(const mx_reduce_problem* p, mx_grid* kept, mx_grid* reduced) noexcept nogil:
    """Write the grid of the elements of c, and the grid of those of a that become one.

    The tensors of the first are a, c and the index, of the second a and its flattened index.
    """
    cdef const mx_tensor* result = &p.c if has(p, REDUCE_C) else &p.index
    cdef mx_tensor stay = p.a, go = p.a, flat = p.a
    cdef mx_tensor none = p.a
    cdef const mx_tensor* tensors[3]
    cdef int64_t step = 1
    cdef int axis
    for axis in range(MX_AXES - 1, -1, -1):
        none.len[axis] = 1
        if result.len[axis] == 1:
            stay.len[axis] = 1
            flat.stride[axis] = step
            step *= flat.len[axis]
        else:
            go.len[axis] = flat.len[axis] = 1
    tensors[0] = &stay
    tensors[1] = &p.c if has(p, REDUCE_C) else &none
    tensors[2] = &p.index if has(p, REDUCE_INDEX) else &none
    fill_grid(kept, tensors, 3)
    tensors[0] = &go
    tensors[1] = &flat if has(p, REDUCE_INDEX) else &none
    fill_grid(reduced, tensors, 2)
    return 0
