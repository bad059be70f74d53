"""Tensor operations of miopen.h, and the two that MIOpen has without an entry point in its header.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from libc.math cimport isinf, trunc
from libc.stdint cimport int64_t, uint64_t

from miopyx.values._args cimport to_double, to_flag, to_int64, to_member
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan
from miopyx.host._kernels cimport kernels
from miopyx.values._types cimport (
    MX_CAST_TENSOR, MX_INT8, MX_INT32, MX_INT64, MX_OP_TENSOR, MX_SCALARS, MX_SCALE_TENSOR, MX_SET_TENSOR,
    MX_TRANSFORM_TENSOR,
)
from miopyx.problem._tensor_ops cimport (
    TENSOR_A, TENSOR_B, TENSOR_C, TENSOR_CLAMP, TENSOR_COPY, TENSOR_RAW, TensorProblem, copies_only,
)
from ._operation cimport call_number, launch, plan_of, prepare

from operator import index

from miopyx.errors import BadParmError

cdef tuple _OP_BUFFERS = ("A", "B", "C", "workSpace")
cdef tuple _ONE_BUFFER = ("y", "workSpace")
cdef tuple _TWO_BUFFERS = ("x", "y", "workSpace")
cdef tuple _COPY_BUFFERS = ("src", "dst", "workSpace")


def miopenOpTensor(handle, tensorOp, alpha1, aDesc, A, alpha2, bDesc, B, beta, cDesc, C):
    """C = op(alpha1 * A, alpha2 * B) + beta * C, element by element.

    op is a + b, a * b, (a < b ? a : b) or (a > b ? a : b) by `tensorOp`, so that of a NaN and a number the minimum and
    the maximum are what stands for b.  A has C's lengths; each length of B is C's or 1, along which B is broadcast.
    Tensors have 1 to 5 dimensions, any strides and one type: float16, float32, bfloat16, float64, int32 or int8.
    Arithmetic is float32, for float64 and int32 float64; integers are cut off towards zero and saturate.  C may be the
    same memory as A, or as a B of its layout.  With beta 0 it is not read.

    Raises
    ------
    UnknownError
        Where A and C differ in their number of elements, B and C in rank or type, where a length of B is neither 1 nor
        C's, and beyond 5 dimensions.
    BadParmError
        For an unknown operation, lengths or types of A that are not C's, and overlapping strides of C.
    MIOpenNotImplementedError
        For other types.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor a = as_tensor(aDesc, "aDesc"), b = as_tensor(bDesc, "bDesc"), c = as_tensor(cDesc, "cDesc")
    cdef int op = to_member(tensorOp, "miopenTensorOp_t", "tensorOp")
    cdef uint64_t[3] stamp = [a.stamp, b.stamp, c.stamp]
    cdef int[3] order = [TENSOR_A, TENSOR_B, TENSOR_C]
    cdef PyObject* data[3]
    cdef double[4] scalars = [to_double(alpha1, "alpha1"), to_double(alpha2, "alpha2"), to_double(beta, "beta"), 0]
    cdef Invoker invoker = recall(h, stamp, 3, call_number(MX_OP_TENSOR, op))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_OP_TENSOR, a, b, c, op), stamp, 3, call_number(MX_OP_TENSOR, op))
    data[0], data[1], data[2] = <PyObject*> A, <PyObject*> B, <PyObject*> C
    launch(h, invoker, order, 3, data, _OP_BUFFERS, scalars)


def miopenSetTensor(handle, yDesc, y, alpha):
    """y = alpha, for any strides; float16, float32, bfloat16, float64, int8, int32 or int64.

    alpha is rounded once, to the nearest number of a floating-point type.  Raises BadParmError where an integer tensor
    cannot hold it, or a floating-point type only as infinity.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor desc = as_tensor(yDesc, "yDesc")
    cdef uint64_t[1] stamp = [desc.stamp]
    cdef int[1] order = [TENSOR_C]
    cdef PyObject* data[1]
    cdef double[4] scalars = [0, 0, 0, 0]
    cdef Invoker invoker = recall(h, stamp, 1, call_number(MX_SET_TENSOR, 0))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_SET_TENSOR, None, None, desc), stamp, 1, call_number(MX_SET_TENSOR, 0))
    _write_bits(alpha, desc.type, scalars)
    data[0] = <PyObject*> y
    launch(h, invoker, order, 1, data, _ONE_BUFFER, scalars)


def miopenScaleTensor(handle, yDesc, y, alpha):
    """y = alpha * y, for any strides; float16, float32, bfloat16, float64, int8 or int32, else BadParmError.

    Integers are cut off towards zero and saturate.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor desc = as_tensor(yDesc, "yDesc")
    cdef uint64_t[1] stamp = [desc.stamp]
    cdef int[1] order = [TENSOR_C]
    cdef PyObject* data[1]
    cdef double[4] scalars = [to_double(alpha, "alpha"), 0, 0, 0]
    cdef Invoker invoker = recall(h, stamp, 1, call_number(MX_SCALE_TENSOR, 0))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_SCALE_TENSOR, None, None, desc), stamp, 1,
                          call_number(MX_SCALE_TENSOR, 0))
    data[0] = <PyObject*> y
    launch(h, invoker, order, 1, data, _ONE_BUFFER, scalars)


def miopenTransformTensor(handle, alpha, xDesc, x, beta, yDesc, y):
    """y = alpha * x + beta * y between tensors of equal lengths and any strides, as from NCHW to NHWC.

    Tensors have 1 to 5 dimensions and one type: float16, float32, bfloat16, float64, int32; int8 and int64 with alpha 1
    and beta 0.  Then x is copied bit by bit, and y is not read.  int8 tensors of 3 dimensions or more may differ in
    their channels: y's may be the next multiple of 4, and what x has not is 0; or x's are a multiple of 4, and what y
    has not is left out.  x may be the same memory as a y of the same layout.

    Raises
    ------
    UnknownError
        Where ranks, types or lengths differ, and for other types.
    MIOpenNotImplementedError
        For int8 and int64 with another alpha or beta.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), yd = as_tensor(yDesc, "yDesc")
    cdef uint64_t[2] stamp = [xd.stamp, yd.stamp]
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    cdef PyObject* data[2]
    cdef double[4] scalars = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0]
    cdef int flags = TENSOR_COPY if scalars[0] == 1 and scalars[1] == 0 else 0
    cdef Invoker invoker = recall(h, stamp, 2, call_number(MX_TRANSFORM_TENSOR, flags))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_TRANSFORM_TENSOR, xd, None, yd, 0, flags), stamp, 2,
                          call_number(MX_TRANSFORM_TENSOR, flags))
    data[0], data[1] = <PyObject*> x, <PyObject*> y
    launch(h, invoker, order, 2, data, _TWO_BUFFERS, scalars)


def copy_tensor(handle, src_desc, src, dst_desc, dst):
    """dst = src, bit by bit, between tensors of equal lengths and any strides; 1 to 5 dimensions of any type.

    Raises BadParmError where lengths or types differ.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor a = as_tensor(src_desc, "src_desc"), c = as_tensor(dst_desc, "dst_desc")
    cdef uint64_t[2] stamp = [a.stamp, c.stamp]
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    cdef PyObject* data[2]
    cdef double[4] scalars = [1, 0, 0, 0]
    cdef int flags = TENSOR_COPY | TENSOR_RAW
    cdef Invoker invoker = recall(h, stamp, 2, call_number(MX_TRANSFORM_TENSOR, flags))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_TRANSFORM_TENSOR, a, None, c, 0, flags), stamp, 2,
                          call_number(MX_TRANSFORM_TENSOR, flags))
    data[0], data[1] = <PyObject*> src, <PyObject*> dst
    launch(h, invoker, order, 2, data, _COPY_BUFFERS, scalars)


def cast_tensor(handle, alpha, clamping, src_desc, src, dst_desc, dst):
    """dst = alpha * src, converted, between tensors of equal lengths and any strides.

    Parameters
    ----------
    alpha : float
    clamping : bool
        Whether what is beyond dst's type becomes its nearest finite number.  Without it floating-point types overflow
        to infinity, and integers keep the low bits of the 64-bit integer that the number is cut off to.
    src_desc, dst_desc : TensorDescriptor
        float16, float32, bfloat16, float64, int32 or int8, 1 to 5 dimensions.

    Floating-point results are rounded to nearest even, integers are cut off towards zero; NaN as an integer is 0.
    Arithmetic is float32, float64 where float64 or int32 take part.  Raises BadParmError where lengths differ, and for
    other types.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor a = as_tensor(src_desc, "src_desc"), c = as_tensor(dst_desc, "dst_desc")
    cdef uint64_t[2] stamp = [a.stamp, c.stamp]
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    cdef PyObject* data[2]
    cdef double[4] scalars = [to_double(alpha, "alpha"), 0, 0, 0]
    cdef int flags = _clamping(clamping)
    cdef Invoker invoker = recall(h, stamp, 2, call_number(MX_CAST_TENSOR, flags))
    if invoker is None:
        invoker = prepare(h, TensorProblem(MX_CAST_TENSOR, a, None, c, 0, flags), stamp, 2,
                          call_number(MX_CAST_TENSOR, flags))
    data[0], data[1] = <PyObject*> src, <PyObject*> dst
    launch(h, invoker, order, 2, data, _COPY_BUFFERS, scalars)


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
    cdef TensorDescriptor a = as_tensor(a_desc, "a_desc"), b = as_tensor(b_desc, "b_desc")
    cdef TensorDescriptor c = as_tensor(c_desc, "c_desc")
    cdef int op = to_member(tensor_op, "miopenTensorOp_t", "tensor_op")
    cdef int[3] order = [TENSOR_A, TENSOR_B, TENSOR_C]
    return plan_of(handle, lambda: TensorProblem(MX_OP_TENSOR, a, b, c, op), order, 3, _OP_BUFFERS, (a, b, c),
                   ("a_desc", "b_desc", "c_desc"), (("alpha1", 1.0), ("alpha2", 1.0), ("beta", 0.0)))


def plan_set_tensor(handle, y_desc, alpha):
    """Body of Handle.set_tensor."""
    cdef TensorDescriptor y = as_tensor(y_desc, "y_desc")
    cdef int[1] order = [TENSOR_C]
    cdef double[4] scalars = [0, 0, 0, 0]
    cdef int i
    cdef Plan plan = plan_of(handle, lambda: TensorProblem(MX_SET_TENSOR, None, None, y), order, 1, _ONE_BUFFER, (y,),
                             ("y_desc",), ())
    _write_bits(alpha, y.type, scalars)
    for i in range(MX_SCALARS):
        plan.default[i] = scalars[i]
    return plan


def plan_scale_tensor(handle, y_desc):
    """Body of Handle.scale_tensor."""
    cdef TensorDescriptor y = as_tensor(y_desc, "y_desc")
    cdef int[1] order = [TENSOR_C]
    return plan_of(handle, lambda: TensorProblem(MX_SCALE_TENSOR, None, None, y), order, 1, _ONE_BUFFER, (y,),
                   ("y_desc",), (("alpha", 1.0),))


def plan_transform_tensor(handle, x_desc, y_desc):
    """Body of Handle.transform_tensor."""
    cdef TensorDescriptor x = as_tensor(x_desc, "x_desc"), y = as_tensor(y_desc, "y_desc")
    cdef bint copies = copies_only(x.type)
    cdef int flags = TENSOR_COPY if copies else 0
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    return plan_of(handle, lambda: TensorProblem(MX_TRANSFORM_TENSOR, x, None, y, 0, flags), order, 2, _TWO_BUFFERS,
                   (x, y), ("x_desc", "y_desc"), () if copies else (("alpha", 1.0), ("beta", 0.0)))


def plan_copy_tensor(handle, src_desc, dst_desc):
    """Body of Handle.copy_tensor."""
    cdef TensorDescriptor src = as_tensor(src_desc, "src_desc"), dst = as_tensor(dst_desc, "dst_desc")
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    return plan_of(handle, lambda: TensorProblem(MX_TRANSFORM_TENSOR, src, None, dst, 0, TENSOR_COPY | TENSOR_RAW),
                   order, 2, _COPY_BUFFERS, (src, dst), ("src_desc", "dst_desc"), ())


def plan_cast_tensor(handle, src_desc, dst_desc, clamping):
    """Body of Handle.cast_tensor."""
    cdef TensorDescriptor src = as_tensor(src_desc, "src_desc"), dst = as_tensor(dst_desc, "dst_desc")
    cdef int flags = _clamping(clamping)
    cdef int[2] order = [TENSOR_A, TENSOR_C]
    return plan_of(handle, lambda: TensorProblem(MX_CAST_TENSOR, src, None, dst, 0, flags), order, 2, _COPY_BUFFERS,
                   (src, dst), ("src_desc", "dst_desc"), (("alpha", 1.0),))


__all__ = ["cast_tensor", "copy_tensor"]
__all__ += [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
