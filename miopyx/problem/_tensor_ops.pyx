"""Element-wise operations on tensors, as problems: combine, fill, scale, transform and convert.

c is what is computed; a has its lengths, b may have length 1 where c is longer.
"""

from libc.string cimport memset

from miopyx.values._args cimport raise_unknown

from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_CAST_TENSOR, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT8, MX_INT32, MX_INT64, MX_OP_TENSOR,
    MX_SCALE_TENSOR, MX_SET_TENSOR, MX_TRANSFORM_TENSOR, mx_tensor_problem,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

# What the functions call a, b and c.
cdef dict NAMES = {
    MX_OP_TENSOR: ("aDesc", "bDesc", "cDesc"), MX_SET_TENSOR: ("", "", "yDesc"), MX_SCALE_TENSOR: ("", "", "yDesc"),
    MX_TRANSFORM_TENSOR: ("xDesc", "", "yDesc"), MX_CAST_TENSOR: ("src_desc", "", "dst_desc"),
}
cdef dict VERBS = {
    MX_OP_TENSOR: "tensor op", MX_SET_TENSOR: "fill", MX_SCALE_TENSOR: "scale", MX_TRANSFORM_TENSOR: "transform",
    MX_CAST_TENSOR: "cast",
}
cdef tuple OPS = ("add", "mul", "min", "max")
cdef tuple ARITHMETIC = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE, MX_INT32, MX_INT8)


cdef bint copies_only(int data_type) noexcept:
    """Whether a transform of this type must not scale: facts of MIOpen for int8, what double cannot hold for int64."""
    return data_type == MX_INT8 or data_type == MX_INT64


cdef class TensorProblem(Problem):
    """c = f(a, b, c), element by element.

    Parameters
    ----------
    what : int
        MX_OP_TENSOR ... MX_CAST_TENSOR.
    a, b : TensorDescriptor or None
        None where the operation has no use for it.
    c : TensorDescriptor
    op : int
        miopenTensorOp_t of MX_OP_TENSOR.
    flags : int
        TENSOR_...

    Raises
    ------
    MIOpenError
        With the status that the operation has for descriptors that do not fit each other.
    """

    def __init__(self, int what, TensorDescriptor a, TensorDescriptor b, TensorDescriptor c not None, int op=0,
                 int flags=0):
        cdef mx_tensor_problem* p = &self.c
        if what not in NAMES:
            raise BadParmError("unknown operation", "what", what, tuple(NAMES))
        a_name, b_name, c_name = <tuple> NAMES[what]
        if flags & TENSOR_IN_PLACE:
            c_name = "yDesc"
        for desc, name in ((a, a_name), (b, b_name), (c, c_name)):
            if name and (desc is not None or not (name == a_name and flags & TENSOR_IN_PLACE)):
                if desc is None:
                    raise BadParmError("null", name, None, "a TensorDescriptor")
                (<TensorDescriptor> desc).require_set(name)
                require_plain(desc, name)
        if what == MX_OP_TENSOR:
            _check_op(a, b, c, op, c_name)
        elif what == MX_SET_TENSOR:
            if c.type not in ARITHMETIC and c.type != MX_INT64:
                raise MIOpenNotImplementedError("no solver fills this type", c_name, c.dtype, "a plain type")
        elif what == MX_SCALE_TENSOR:
            if c.type not in ARITHMETIC:
                raise BadParmError("type cannot be scaled", c_name, c.dtype, "a floating-point type, int32 or int8")
        elif what == MX_TRANSFORM_TENSOR:
            _check_transform(a, c, flags)
        else:
            _check_cast(a, c)
        if c.ndim > MX_AXES:
            raise UnknownError("too many dimensions", c_name, c.ndim, f"at most {MX_AXES}")
        require_no_overlap(c, c_name)
        memset(p, 0, sizeof(mx_tensor_problem))
        p.what, p.op, p.flags = what, op, flags
        fill_tensor(&p.c, c)
        self.hold(TENSOR_C, &p.c, c.ndim)
        if a is not None:
            fill_tensor(&p.a, a)
            self.hold(TENSOR_A, &p.a, a.ndim)
        if b is not None:
            fill_tensor(&p.b, b)
            self.hold(TENSOR_B, &p.b, b.ndim)

    def __cinit__(self, *args, **kwargs):
        self.data, self.size, self.count = &self.c, sizeof(mx_tensor_problem), 3
        self.output, self.written = TENSOR_C, 1 << TENSOR_C
        self.in_place = 1 << TENSOR_A | 1 << TENSOR_B

    def __repr__(self):
        cdef mx_tensor_problem* p = &self.c
        text = f"{VERBS[p.what]} {OPS[p.op]}" if p.what == MX_OP_TENSOR else VERBS[p.what]
        if self.tensor[TENSOR_A] != NULL:
            text += f": a {tensor_text(&p.a)}"
        if self.tensor[TENSOR_B] != NULL:
            text += f", b {tensor_text(&p.b)}"
        return f"<{text}, c {tensor_text(&p.c)}>"


cdef int _check_op(TensorDescriptor a, TensorDescriptor b, TensorDescriptor c, int op, str c_name) except -1:
    cdef int i
    if op < 0 or op >= len(OPS):
        raise_unknown(op, "miopenTensorOp_t", "tensorOp")
    if a is not None and a.elements != c.elements:
        raise UnknownError("A and C differ in their number of elements", "aDesc", a.elements, c.elements)
    if b.type != c.type:
        raise UnknownError("types differ", "bDesc", b.dtype, c.dtype)
    if c.ndim > MX_AXES:
        raise UnknownError("too many dimensions", c_name, c.ndim, f"at most {MX_AXES}")
    if b.ndim != c.ndim:
        raise UnknownError("ranks differ", "bDesc", b.ndim, c.ndim)
    for i in range(c.ndim):
        if b.len[i] != 1 and b.len[i] != c.len[i]:
            raise UnknownError("length is neither 1 nor C's", f"bDesc.lens[{i}]", b.len[i], f"1 or {c.len[i]}")
    if a is not None:
        if a.type != c.type:
            raise BadParmError("types differ", "aDesc", a.dtype, c.dtype)
        if a.lens != c.lens:
            raise BadParmError("lengths differ", "aDesc", a.lens, c.lens)
    if c.type not in ARITHMETIC:
        raise MIOpenNotImplementedError("no solver computes with this type", c_name, c.dtype,
                                        "a floating-point type, int32 or int8")
    return 0


cdef int _check_transform(TensorDescriptor x, TensorDescriptor y, int flags) except -1:
    cdef int i
    cdef bint channels = x.type == MX_INT8 and x.ndim >= 3
    if flags & TENSOR_RAW:
        if x.type != y.type:
            raise BadParmError("types differ", "dst_desc", y.dtype, x.dtype)
        if x.lens != y.lens:
            raise BadParmError("lengths differ", "dst_desc", y.lens, x.lens)
        return 0
    if x.ndim != y.ndim:
        raise UnknownError("ranks differ", "xDesc", x.ndim, y.ndim)
    if x.type != y.type:
        raise UnknownError("types differ", "xDesc", x.dtype, y.dtype)
    if x.type not in ARITHMETIC and x.type != MX_INT64:
        raise UnknownError("type cannot be transformed", "xDesc", x.dtype, "a plain type")
    for i in range(x.ndim):
        if x.len[i] == y.len[i]:
            continue
        if i != 1 or not channels:
            raise UnknownError("lengths differ", "xDesc", x.lens, y.lens)
        if y.len[1] > x.len[1] and (y.len[1] % 4 or y.len[1] - x.len[1] >= 4):
            raise UnknownError("channels are not padded to a multiple of 4", "yDesc", y.len[1],
                               f"{(x.len[1] + 3) // 4 * 4}")
        if y.len[1] < x.len[1] and x.len[1] % 4:
            raise UnknownError("channels of a padded tensor are no multiple of 4", "xDesc", x.len[1],
                               "a multiple of 4")
    if copies_only(x.type) and not flags & TENSOR_COPY:
        raise MIOpenNotImplementedError("int8 and int64 tensors are copied only", "alpha, beta", "scaled", "1, 0")
    return 0


cdef int _check_cast(TensorDescriptor src, TensorDescriptor dst) except -1:
    for desc, name in ((src, "src_desc"), (dst, "dst_desc")):
        if (<TensorDescriptor> desc).type not in ARITHMETIC:
            raise BadParmError("type cannot be converted", name, desc.dtype, "a floating-point type, int32 or int8")
    if src.lens != dst.lens:
        raise BadParmError("lengths differ", "dst_desc", dst.lens, src.lens)
    return 0


cdef TensorProblem bias_problem(TensorDescriptor b, TensorDescriptor y):
    """The problem of y = alpha (y + b) + beta y: an addition in place."""
    b.require_set("bDesc")
    y.require_set("yDesc")
    require_plain(b, "bDesc")
    require_plain(y, "yDesc")
    if y.ndim > MX_AXES or y.ndim < 2:
        raise UnknownError("rank of a bias operation", "yDesc", y.ndim, f"2 ... {MX_AXES}")
    if y.type == MX_INT32 or y.type == MX_INT8:
        raise MIOpenNotImplementedError("a bias of integers", "yDesc", y.dtype, "a floating-point type")
    return TensorProblem(MX_OP_TENSOR, None, b, y, 0, TENSOR_IN_PLACE)
