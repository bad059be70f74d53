"""Tensor operations of miopen.h, and the two that MIOpen has without an entry point in its header.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.long cimport PyLong_Check
from libc.math cimport isinf, trunc
from libc.stdint cimport int64_t, uint64_t

from miopyx.values._args cimport to_double, to_flag, to_int64, to_member
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._plan cimport Plan
from miopyx.host._kernels cimport kernels
from miopyx.values._types cimport (
    MX_CAST_TENSOR, MX_INT8, MX_INT32, MX_INT64, MX_OP_TENSOR, MX_SCALARS, MX_SCALE_TENSOR, MX_SET_TENSOR,
    MX_TRANSFORM_TENSOR,
)
from miopyx.problem._tensor_ops cimport (
    TENSOR_A, TENSOR_B, TENSOR_C, TENSOR_CLAMP, TENSOR_COPY, TENSOR_RAW, TensorProblem, copies_only,
)
from ._operation cimport Signature, arg_t, require_handle

from operator import index

from miopyx.errors import BadParmError

# Flags of a call are miopenTensorOp_t, else a problem's TENSOR_...
cdef Signature _OP = Signature(
    MX_OP_TENSOR, lambda flags, a, b, c: TensorProblem(MX_OP_TENSOR, a, b, c, flags),
    ("aDesc", "bDesc", "cDesc"), {"A": TENSOR_A, "B": TENSOR_B, "C": TENSOR_C},
    (("alpha1", 1.0), ("alpha2", 1.0), ("beta", 0.0)))
cdef Signature _SET = Signature(
    MX_SET_TENSOR, lambda flags, y: TensorProblem(MX_SET_TENSOR, None, None, y), ("yDesc",), {"y": TENSOR_C})
cdef Signature _SCALE = Signature(
    MX_SCALE_TENSOR, lambda flags, y: TensorProblem(MX_SCALE_TENSOR, None, None, y), ("yDesc",), {"y": TENSOR_C},
    (("alpha", 1.0),))
cdef Signature _TRANSFORM = Signature(
    MX_TRANSFORM_TENSOR, lambda flags, x, y: TensorProblem(MX_TRANSFORM_TENSOR, x, None, y, 0, flags),
    ("xDesc", "yDesc"), {"x": TENSOR_A, "y": TENSOR_C}, (("alpha", 1.0), ("beta", 0.0)))
cdef Signature _TRANSFORM_COPYING = Signature(  # of types that nothing is computed with
    MX_TRANSFORM_TENSOR, _TRANSFORM.problem_of, ("xDesc", "yDesc"), {"x": TENSOR_A, "y": TENSOR_C})
cdef Signature _COPY = Signature(
    MX_TRANSFORM_TENSOR, _TRANSFORM.problem_of, ("src_desc", "dst_desc"), {"src": TENSOR_A, "dst": TENSOR_C})
cdef Signature _CAST = Signature(
    MX_CAST_TENSOR, lambda flags, src, dst: TensorProblem(MX_CAST_TENSOR, src, None, dst, 0, flags),
    ("src_desc", "dst_desc"), {"src": TENSOR_A, "dst": TENSOR_C}, (("alpha", 1.0),))


def miopenOpTensor(handle, tensorOp, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C):
    """C = op(alpha1 * A, alpha2 * B) + beta * C, element by element.

    op is a + b, a * b, (a < b ? a : b) or (a > b ? a : b) by `tensorOp`, as MIOpen has them, so that of a NaN and a
    number the minimum and the maximum are what stands for b.  Arithmetic is float32, for float64 and int32 float64;
    integers are cut off towards zero and saturate.

    Parameters
    ----------
    handle : Handle
    tensorOp : miopenTensorOp_t
    alpha1, alpha2, beta : float
        With beta 0 the old C is not read.
    aDesc, bDesc, cDesc : TensorDescriptor
        1 to 5 dimensions, any strides and one type: float16, bfloat16, float32, float64, int32 or int8.  A has C's
        lengths; each length of B is C's or 1, along which B is broadcast.
    A, B, C : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  C may be the
        same memory as A, or as a B of its layout.

    Raises
    ------
    UnknownError
        Where A and C differ in their number of elements, B and C in rank or type, where a length of B is neither 1 nor
        C's, and beyond 5 dimensions.
    BadParmError
        For an unknown operation, lengths or types of A that are not C's, overlapping strides of C, and buffers that do
        not fit; nothing was run then.
    MIOpenNotImplementedError
        For other types.
    """
    require_handle(handle)
    cdef int op = to_member(tensorOp, "miopenTensorOp_t", "tensorOp")
    cdef arg_t[3] descriptors = [<arg_t> aDesc, <arg_t> bDesc, <arg_t> cDesc]
    cdef arg_t[3] buffers = [<arg_t> A, <arg_t> B, <arg_t> C]
    cdef double[MX_SCALARS] numbers = [to_double(alpha1, "alpha1"), to_double(alpha2, "alpha2"),
                                       to_double(beta, "beta"), 0, 0, 0, 0, 0]
    _OP.run(handle, descriptors, buffers, numbers, op, 0)


def miopenSetTensor(handle, yDesc, y, alpha):
    """y = alpha, for any strides.

    Parameters
    ----------
    handle : Handle
    yDesc : TensorDescriptor
        float16, bfloat16, float32, float64, int8, int32 or int64; 1 to 5 dimensions.
    y : memory of the handle's device
    alpha : float or int
        Rounded once, to the nearest number of a floating-point type.

    Raises
    ------
    BadParmError
        Where an integer tensor cannot hold alpha, or a floating-point type only as infinity, and for a buffer that does
        not fit.
    UnknownError
        Beyond 5 dimensions.
    MIOpenNotImplementedError
        For other types.
    """
    require_handle(handle)
    cdef TensorDescriptor desc = as_tensor(yDesc, "yDesc")
    cdef arg_t[1] descriptors = [<arg_t> desc], buffers = [<arg_t> y]
    cdef double[MX_SCALARS] numbers = [0, 0, 0, 0, 0, 0, 0, 0]
    _write_bits(alpha, desc.type, numbers)
    _SET.run(handle, descriptors, buffers, numbers, 0, 0)


def miopenScaleTensor(handle, yDesc, y, alpha):
    """y = alpha * y, for any strides.  Integers are cut off towards zero and saturate.

    Parameters
    ----------
    handle : Handle
    yDesc : TensorDescriptor
        float16, bfloat16, float32, float64, int8 or int32; 1 to 5 dimensions.
    y : memory of the handle's device
    alpha : float

    Raises
    ------
    BadParmError
        For other types, and for a buffer that does not fit.
    UnknownError
        Beyond 5 dimensions.
    """
    require_handle(handle)
    cdef arg_t[1] descriptors = [<arg_t> yDesc], buffers = [<arg_t> y]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), 0, 0, 0, 0, 0, 0, 0]
    _SCALE.run(handle, descriptors, buffers, numbers, 0, 0)


def miopenTransformTensor(handle, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * x + beta * y between tensors of equal lengths and any strides, as from NCHW to NHWC.

    With alpha 1 and beta 0 x is copied bit by bit, and y is not read.  int8 tensors of 3 dimensions or more may differ
    in their channels: y's may be the next multiple of 4, and what x has not is 0; or x's are a multiple of 4, and what
    y has not is left out.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        int8 and int64 take 1 and 0 alone.
    xDesc, yDesc : TensorDescriptor
        1 to 5 dimensions and one type: float16, bfloat16, float32, float64, int32, int8 or int64.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  x may be the same
        memory as a y of the same layout.

    Raises
    ------
    UnknownError
        Where ranks, types or lengths differ, for other types, and beyond 5 dimensions.
    BadParmError
        For overlapping strides of y, and buffers that do not fit; nothing was run then.
    MIOpenNotImplementedError
        For int8 and int64 with another alpha or beta.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> xDesc, <arg_t> yDesc], buffers = [<arg_t> x, <arg_t> y]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0, 0, 0, 0, 0]
    cdef int flags = TENSOR_COPY if numbers[0] == 1 and numbers[1] == 0 else 0
    _TRANSFORM.run(handle, descriptors, buffers, numbers, flags, 0)


def copy_tensor(handle, src_desc, src, dst_desc, dst):
    """dst = src, bit by bit, between tensors of equal lengths and any strides.

    Parameters
    ----------
    handle : Handle
    src_desc, dst_desc : TensorDescriptor
        1 to 5 dimensions of any type, both the same.
    src, dst : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.

    Raises
    ------
    BadParmError
        Where lengths or types differ, or a buffer does not fit; nothing was run then.
    UnknownError
        Beyond 5 dimensions.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> src_desc, <arg_t> dst_desc], buffers = [<arg_t> src, <arg_t> dst]
    cdef double[MX_SCALARS] numbers = [1, 0, 0, 0, 0, 0, 0, 0]
    _COPY.run(handle, descriptors, buffers, numbers, TENSOR_COPY | TENSOR_RAW, 0)


def cast_tensor(handle, alpha, clamping, src_desc, src, dst_desc, dst):
    """dst = alpha * src, converted, between tensors of equal lengths and any strides.

    Floating-point results are rounded to nearest even, integers are cut off towards zero; NaN as an integer is 0.
    Arithmetic is float32, float64 where float64 or int32 take part.

    Parameters
    ----------
    handle : Handle
    alpha : float
    clamping : bool
        Whether what is beyond dst's type becomes its nearest finite number.  Without it floating-point types overflow
        to infinity, and integers keep the low bits of the 64-bit integer that the number is cut off to.
    src_desc, dst_desc : TensorDescriptor
        float16, bfloat16, float32, float64, int32 or int8, 1 to 5 dimensions.
    src, dst : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.

    Raises
    ------
    BadParmError
        Where lengths differ, for other types, or a buffer that does not fit; nothing was run then.
    UnknownError
        Beyond 5 dimensions.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> src_desc, <arg_t> dst_desc], buffers = [<arg_t> src, <arg_t> dst]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), 0, 0, 0, 0, 0, 0, 0]
    _CAST.run(handle, descriptors, buffers, numbers, _clamping(clamping), 0)


cdef int _clamping(object clamping) except -1:
    return TENSOR_CLAMP if to_flag(clamping, "clamping") else 0


cdef int _write_bits(object alpha, int data_type, double* scalars) except -1:
    """Write the bits of alpha in a tensor's type as three numbers that a float holds exactly."""
    cdef uint64_t bits = 0
    cdef double value, back
    if data_type == MX_INT8 or data_type == MX_INT32 or data_type == MX_INT64:
        bits = <uint64_t> _integer(alpha, 127 if data_type == MX_INT8 else 2147483647 if data_type == MX_INT32
                                   else 9223372036854775807)
        bits &= 0xff if data_type == MX_INT8 else 0xffffffff if data_type == MX_INT32 else 0xffffffffffffffff
    else:
        value = to_double(alpha, "alpha")
        kernels.store_row(<char*> &bits, data_type, 0, 1, &value, 1)
        kernels.load_row(<const char*> &bits, data_type, 0, 1, &back, 1)
        if isinf(back) and not isinf(value):
            raise BadParmError("beyond the tensor's type", "alpha", alpha, "a finite number of that type")
    scalars[0], scalars[1], scalars[2] = bits & 0x3fffff, bits >> 22 & 0x3fffff, bits >> 44
    return 0


cdef int64_t _integer(object alpha, int64_t limit) except? -1:
    """An integer within -limit - 1 ... limit, which may come as a float."""
    cdef int64_t number
    cdef double real
    if not PyLong_Check(alpha):
        alpha = getattr(alpha, "value", alpha)
        try:
            alpha = index(alpha)
        except TypeError:
            real = to_double(alpha, "alpha")
            if not (-9223372036854775808.0 <= real < 9223372036854775808.0 and real == trunc(real)):
                raise BadParmError("no integer of the tensor's type", "alpha", alpha,
                                   f"{-limit - 1} ... {limit}") from None
            alpha = int(real)
    number = to_int64(alpha, "alpha")
    if number > limit or number < -limit - 1:
        raise BadParmError("no integer of the tensor's type", "alpha", alpha, f"{-limit - 1} ... {limit}")
    return number


def plan_op_tensor(handle, tensor_op, a_desc, b_desc, c_desc):
    """Body of Handle.op_tensor."""
    return _OP.plan(handle, (a_desc, b_desc, c_desc), to_member(tensor_op, "miopenTensorOp_t", "tensor_op"), 0)


def plan_set_tensor(handle, y_desc, alpha):
    """Body of Handle.set_tensor."""
    cdef TensorDescriptor desc = as_tensor(y_desc, "y_desc")
    cdef Plan plan = _SET.plan(handle, (desc,), 0, 0)
    _write_bits(alpha, desc.type, plan.default)
    return plan


def plan_scale_tensor(handle, y_desc):
    """Body of Handle.scale_tensor."""
    return _SCALE.plan(handle, (y_desc,), 0, 0)


def plan_transform_tensor(handle, x_desc, y_desc):
    """Body of Handle.transform_tensor."""
    if copies_only(as_tensor(x_desc, "x_desc").type):
        return _TRANSFORM_COPYING.plan(handle, (x_desc, y_desc), TENSOR_COPY, 0)
    return _TRANSFORM.plan(handle, (x_desc, y_desc), 0, 0)


def plan_copy_tensor(handle, src_desc, dst_desc):
    """Body of Handle.copy_tensor."""
    return _COPY.plan(handle, (src_desc, dst_desc), TENSOR_COPY | TENSOR_RAW, 0)


def plan_cast_tensor(handle, src_desc, dst_desc, clamping):
    """Body of Handle.cast_tensor."""
    return _CAST.plan(handle, (src_desc, dst_desc), _clamping(clamping), 0)


__all__ = ["cast_tensor", "copy_tensor"]
__all__ += [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
