"""Reductions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._handle cimport Handle
from miopyx.engine._plan cimport Plan
from miopyx.values._args cimport raise_unknown, to_double, to_int, to_int64, to_member
from miopyx.problem._descriptors cimport as_tensor, check_descriptor
from miopyx.values._types cimport MX_REDUCE, MX_SCALARS
from miopyx.problem._reduce cimport (
    REDUCE_A, REDUCE_ADD, REDUCE_C, REDUCE_INDEX, REDUCE_MAX, REDUCE_MIN, REDUCE_MUL, ReduceTensorDescriptor, as_reduce,
    calculation_problem, extreme_problem, indices_bytes, reduce_problem,
)
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._descriptors import destroy

# Flags of a call: which function it is, the axis, what the function calls its operation, and what a NaN does.
cdef enum:
    CALCULATION = 1 << 16
    EXTREME = 1 << 17
    WITHOUT_Y = 1 << 18    # the indices alone are wanted
    AXIS = 8               # the axis' first bit
    AXES = 5
    NANS = 4               # this bit: miopenReduceCalculationNanPropagation_t
    OPERATION = 15
    NO_INDICES = 1 << 2    # among the buffers of miopenReduceTensor

cdef enum:                 # miopenReduceCalculationOp_t and miopenReduceExtremeOp_t
    PROD = 1
    CALCULATION_SUM = 2
    ARGMIN = 1
    ARGMAX = 2
    MIN = 3
    MAX = 4

cdef tuple _SCALES = (("alpha", 1.0), ("beta", 0.0))


def _calculation(int flags, x, y, str style="Desc"):
    cdef int op = flags & OPERATION
    return calculation_problem(REDUCE_MUL if op == PROD else REDUCE_ADD, flags >> NANS & 1, flags >> AXIS & 7, x, y,
                               style)


def _extreme(int flags, x, y, index, str style="Desc"):
    cdef int op = flags & OPERATION
    return extreme_problem(REDUCE_MIN if op == ARGMIN or op == MIN else REDUCE_MAX, flags >> AXIS & 7, x, y, index,
                           style)


cdef Signature _TENSOR = Signature(
    MX_REDUCE, lambda flags, desc, a, c: reduce_problem(desc, a, c, "Desc"), ("reduceTensorDesc", "aDesc", "cDesc"),
    {"A": REDUCE_A, "C": REDUCE_C, "indices": REDUCE_INDEX}, _SCALES, first=ReduceTensorDescriptor, optional=1)
cdef Signature _CALCULATION = Signature(
    MX_REDUCE, _calculation, ("xDesc", "reduceDesc"), {"x": REDUCE_A, "y": REDUCE_C})
cdef Signature _EXTREME = Signature(
    MX_REDUCE, _extreme, ("xDesc", "yDesc", "indiceDesc"), {"x": REDUCE_A, "y": REDUCE_C, "indice": REDUCE_INDEX})
cdef Signature _INDICES = Signature(
    MX_REDUCE, lambda flags, x, index: _extreme(flags, x, None, index), ("xDesc", "indiceDesc"),
    {"x": REDUCE_A, "indice": REDUCE_INDEX})


def miopenCreateReduceTensorDescriptor():
    """Return an empty ReduceTensorDescriptor."""
    return ReduceTensorDescriptor()


def miopenDestroyReduceTensorDescriptor(reduceTensorDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    reduceTensorDesc : ReduceTensorDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(reduceTensorDesc, ReduceTensorDescriptor, "reduceTensorDesc")


def miopenSetReduceTensorDescriptor(reduceTensorDesc, reduceTensorOp, reduceTensorCompType, reduceTensorNanOpt,
                                    reduceTensorIndices, reduceTensorIndicesType):
    """Set what a reduction does.

    Parameters
    ----------
    reduceTensorDesc : ReduceTensorDescriptor
    reduceTensorOp : miopenReduceTensorOp_t
    reduceTensorCompType : miopenDataType_t
        float64: arithmetic is float64.  float16, bfloat16 and float32 are float32; of other types is none.
    reduceTensorNanOpt : miopenNanPropagation_t
        Of MIN, MAX and AMAX: whether a NaN becomes the result, or is left out.
    reduceTensorIndices : miopenReduceTensorIndices_t
        Of MIN, MAX and AMAX: whether indices are wanted, too; the other operations have none.
    reduceTensorIndicesType : miopenIndicesType_t
        With indices 32 bits alone.

    Raises
    ------
    BadParmError
        For what is no member of an enumeration.
    UnknownError
        For indices of another type.  The descriptor stays as it was.
    """
    cdef ReduceTensorDescriptor desc = check_descriptor(reduceTensorDesc, ReduceTensorDescriptor, "reduceTensorDesc")
    desc.set(
        reduceTensorOp, reduceTensorCompType, reduceTensorNanOpt, reduceTensorIndices, reduceTensorIndicesType)


def miopenGetReduceTensorDescriptor(reduceTensorDesc):
    """Return what a reduction does.

    Parameters
    ----------
    reduceTensorDesc : ReduceTensorDescriptor

    Returns
    -------
    (reduceTensorOp, reduceTensorCompType, reduceTensorNanOpt, reduceTensorIndices, reduceTensorIndicesType)
        As miopenSetReduceTensorDescriptor took them.

    Raises
    ------
    BadParmError
        For anything but a ReduceTensorDescriptor that was set and not destroyed.
    """
    cdef ReduceTensorDescriptor desc = as_reduce(reduceTensorDesc, "reduceTensorDesc").copied()  # of one moment
    desc.require_set()
    return desc.op, desc.comp_type, desc.nan_propagation, desc.indices, desc.indices_type


def miopenGetReductionIndicesSize(handle, reduceTensorDesc, aDesc, cDesc):
    """Return the bytes of the indices that miopenReduceTensor writes: 4 for each element of C, 0 where it writes none.

    Parameters
    ----------
    handle : Handle
    reduceTensorDesc : ReduceTensorDescriptor
    aDesc, cDesc : TensorDescriptor

    Returns
    -------
    int

    Raises
    ------
    UnknownError
        Where a length of C is neither 1 nor A's, or none is 1.
    BadParmError
        For descriptors that were not set.
    """
    require_handle(handle)
    (<Handle> handle).require_alive()
    return indices_bytes(as_reduce(reduceTensorDesc, "reduceTensorDesc"), as_tensor(aDesc, "aDesc"),
                         as_tensor(cDesc, "cDesc"))


def miopenGetReductionWorkspaceSize(handle, reduceTensorDesc, aDesc, cDesc):
    """Return the bytes of workspace that miopenReduceTensor needs.

    Parameters
    ----------
    handle : Handle
    reduceTensorDesc : ReduceTensorDescriptor
    aDesc, cDesc : TensorDescriptor

    Returns
    -------
    int

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenReduceTensor.
    """
    require_handle(handle)
    cdef arg_t[3] descriptors = [<arg_t> reduceTensorDesc, <arg_t> aDesc, <arg_t> cDesc]
    return _TENSOR.workspace_of(handle, descriptors, 0)


def miopenReduceTensor(handle, reduceTensorDesc, indices, indicesSizeInBytes, workspace, workspaceSizeInBytes, alpha,
                       aDesc, A, beta, cDesc, C):
    """C = alpha * op(A) + beta * C, where op goes over the axes along which C has length 1.

        ADD  sum of a            AVG  the mean of a     MIN, MAX, AMAX  the least a, the largest a, the largest |a|
        MUL  product of a        NORM1  sum of |a|      NORM2  square root of the sum of a^2
        MUL_NO_ZEROS  product of the a that are not 0

    Arithmetic is float32; float64 where A, C or the descriptor's type is.  A sum of float32 is off by not much more
    than 1,024 roundings of the sum of the magnitudes, however long it is.  Results have the same bits every time.

    Of MIN, MAX and AMAX a NaN becomes the result under MIOPEN_PROPAGATE_NAN and is left out otherwise (of NaN alone
    they are then an infinity); the other operations are NaN beside one.  Indices count the reduced elements in the
    order of A's axes, whatever its strides; of equal elements the first one counts, with MIOPEN_PROPAGATE_NAN the first
    NaN.  A sum of no elements is 0, a product 1, a mean NaN.

    Parameters
    ----------
    handle : Handle
    reduceTensorDesc : ReduceTensorDescriptor
    indices : memory of the handle's device, or None
        Where indices are wanted: an int32 for each element of C, in the order of C's memory; where C has gaps, in the
        order of its axes.  Otherwise not looked at.
    indicesSizeInBytes : int
        What miopenGetReductionIndicesSize says, or more.
    workspace : memory of the handle's device, or None
        Of what miopenGetReductionWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    alpha, beta : float
        With beta 0 the old C is not read.
    aDesc, cDesc : TensorDescriptor
        1 to 5 dimensions, any strides, each of float16, bfloat16, float32 or float64.  Each length of C is A's or 1,
        at least one is 1.
    A, C : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They do not overlap.

    Raises
    ------
    UnknownError
        Where the lengths do not fit each other, beyond 5 dimensions, and where a size of indices or workspace is too
        small.
    BadParmError
        For overlapping strides of C, an extreme of no elements, more reduced elements than 32 bits count, and a buffer
        that does not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For other types.
    """
    require_handle(handle)
    cdef ReduceTensorDescriptor desc = as_reduce(reduceTensorDesc, "reduceTensorDesc")
    cdef arg_t[3] descriptors = [<arg_t> desc, <arg_t> aDesc, <arg_t> cDesc]
    cdef arg_t[4] buffers = [<arg_t> A, <arg_t> C, <arg_t> indices, <arg_t> workspace]
    cdef double[MX_SCALARS] numbers = [to_double(alpha, "alpha"), to_double(beta, "beta"), 0, 0, 0, 0, 0, 0]
    cdef int64_t size = workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes"), given, need
    cdef bint wanted = desc.wants_indices()
    given = to_int64(indicesSizeInBytes, "indicesSizeInBytes")
    if given < 0:
        raise BadParmError("negative size", "indicesSizeInBytes", given, ">= 0")
    if wanted:
        need = indices_bytes(desc, as_tensor(aDesc, "aDesc"), as_tensor(cDesc, "cDesc"))
        if given < need:
            raise UnknownError("The indices size allocated is not enough!", "indicesSizeInBytes", given, f">= {need}")
    _TENSOR.run(handle, descriptors, buffers, numbers, 0, 0 if wanted else NO_INDICES, size)


cdef int _axis(object dim) except -1:
    """An axis as part of a call's flags."""
    cdef int number = to_int(dim, "dim")
    if number < 0 or number >= AXES:
        raise BadParmError("no axis of x", "dim", number, f"0 ... {AXES - 1}")
    return number << AXIS


cdef int _operation(object op, str enumeration, str name, int last) except -1:
    cdef int number = to_member(op, enumeration, name)
    if number < 1 or number > last:
        raise_unknown(op, enumeration, name)
    return number


cdef int _calculation_flags(object dim, object op, object nan_propagation, str op_name, str nan_name) except -1:
    cdef int number = _operation(op, "miopenReduceCalculationOp_t", op_name, CALCULATION_SUM)
    cdef int nan = to_member(nan_propagation, "miopenReduceCalculationNanPropagation_t", nan_name)
    if nan < 0 or nan > 1:
        raise_unknown(nan_propagation, "miopenReduceCalculationNanPropagation_t", nan_name)
    return CALCULATION | _axis(dim) | nan << NANS | number


def miopenGetReduceCalculationWorkspaceSize(handle, xDesc, dim, reduceCalculationOp, reduceDesc):
    """Return the bytes of workspace that miopenReduceCalculationForward needs.

    Parameters
    ----------
    handle : Handle
    xDesc : TensorDescriptor
    dim : int
    reduceCalculationOp : miopenReduceCalculationOp_t
    reduceDesc : TensorDescriptor

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenReduceCalculationForward.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> xDesc, <arg_t> reduceDesc]
    return _CALCULATION.workspace_of(handle, descriptors, _calculation_flags(dim, reduceCalculationOp, 0,
                                                                             "reduceCalculationOp", ""))


def miopenReduceCalculationForward(handle, nanPropagation, workspace, workspaceSizeInBytes, xDesc, x, dim,
                                   reduceCalculationOp, reduceDesc, y):
    """y = the sum, or the product, of x along one axis.

    Arithmetic and rounding are those of miopenReduceTensor.

    Parameters
    ----------
    handle : Handle
    nanPropagation : miopenReduceCalculationNanPropagation_t
        Whether a NaN makes the result NaN, or is left out: of NaN alone a sum is 0 then, and a product 1.
    workspace : memory of the handle's device, or None
        Of what miopenGetReduceCalculationWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    xDesc : TensorDescriptor
        1 to 5 dimensions, any strides: float16, bfloat16, float32 or float64.
    x : memory of the handle's device
    dim : int
        The axis.
    reduceCalculationOp : miopenReduceCalculationOp_t
    reduceDesc : TensorDescriptor
        Of x's lengths without the axis (of one dimension: a length of 1) and of its type.
    y : memory of the handle's device
        Does not overlap x.

    Raises
    ------
    UnknownError
        For a workspace that is too small.
    BadParmError
        For lengths or types that do not fit each other, no axis of x, and a buffer that does not fit; nothing was run
        then.
    MIOpenNotImplementedError
        For other types.
    """
    require_handle(handle)
    cdef arg_t[2] descriptors = [<arg_t> xDesc, <arg_t> reduceDesc]
    cdef arg_t[3] buffers = [<arg_t> x, <arg_t> y, <arg_t> workspace]
    cdef double[MX_SCALARS] numbers = [1, 0, 0, 0, 0, 0, 0, 0]
    cdef int flags = _calculation_flags(dim, reduceCalculationOp, nanPropagation, "reduceCalculationOp",
                                        "nanPropagation")
    _CALCULATION.run(handle, descriptors, buffers, numbers, flags, 0,
                     workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes"))


cdef int _extreme_flags(object dim, object op, str name) except -1:
    cdef int number = _operation(op, "miopenReduceExtremeOp_t", name, MAX)
    return EXTREME | _axis(dim) | number | (WITHOUT_Y if number <= ARGMAX else 0)


def miopenReduceExtremeForward(handle, xDesc, x, dim, reduceExtremeOp, yDesc, y, indiceDesc, indice):
    """Find the least or the largest element of x along one axis, and its index.

    Of equal elements the first one counts.  A NaN is found where it is the first element of all, and passed over
    elsewhere, as in MIOpen.

    Parameters
    ----------
    handle : Handle
    xDesc : TensorDescriptor
        1 to 5 dimensions, any strides: float16, bfloat16, float32 or float64.
    x : memory of the handle's device
    dim : int
        The axis.
    reduceExtremeOp : miopenReduceExtremeOp_t
        MIN, MAX: element and index.  ARGMIN, ARGMAX: the index alone.
    yDesc : TensorDescriptor
        Of x's lengths without the axis (of one dimension: a length of 1) and of its type.  Not looked at, as y is not,
        for ARGMIN and ARGMAX.
    y : memory of the handle's device
    indiceDesc : TensorDescriptor
        Of the same lengths, int32.
    indice : memory of the handle's device
        Nothing of y and indice overlaps x or each other.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, no axis of x or one without elements, and a buffer that does
        not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For other types.
    """
    require_handle(handle)
    cdef int flags = _extreme_flags(dim, reduceExtremeOp, "reduceExtremeOp")
    cdef arg_t[3] descriptors = [<arg_t> xDesc, <arg_t> yDesc, <arg_t> indiceDesc]
    cdef arg_t[3] buffers = [<arg_t> x, <arg_t> y, <arg_t> indice]
    cdef double[MX_SCALARS] numbers = [1, 0, 0, 0, 0, 0, 0, 0]
    if flags & WITHOUT_Y:
        descriptors[1], buffers[1] = descriptors[2], buffers[2]
        _INDICES.run(handle, descriptors, buffers, numbers, flags, 0)
    else:
        _EXTREME.run(handle, descriptors, buffers, numbers, flags, 0)


def plan_reduce_tensor(handle, reduce_desc, a_desc, c_desc):
    """Body of Handle.reduce_tensor."""
    cdef ReduceTensorDescriptor desc = as_reduce(reduce_desc, "reduce_desc")
    return _TENSOR.plan(handle, (desc, a_desc, c_desc), 0, 0 if desc.wants_indices() else NO_INDICES)


cdef Plan _unscaled(Plan plan):
    """A plan that takes no alpha: it is 1."""
    plan.default[0] = 1
    return plan


def plan_reduce_calculation(handle, x_desc, y_desc, dim, op, nan_propagation):
    """Body of Handle.reduce_calculation."""
    return _unscaled(_CALCULATION.plan(handle, (x_desc, y_desc), _calculation_flags(
        dim, op, nan_propagation, "op", "nan_propagation"), 0))


def plan_reduce_extreme(handle, x_desc, y_desc, index_desc, dim, op):
    """Body of Handle.reduce_extreme."""
    cdef int flags = _extreme_flags(dim, op, "op")
    if flags & WITHOUT_Y:
        return _INDICES.plan(handle, (x_desc, index_desc), flags, 0)
    return _unscaled(_EXTREME.plan(handle, (x_desc, y_desc, index_desc), flags, 0))


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
