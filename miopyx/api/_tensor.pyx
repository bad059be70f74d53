"""Tensor descriptor functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.values._args cimport checked_mul, to_int
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor, the_tensor, to_data_type

from miopyx.problem._descriptors import destroy, renamed, set_cast_type, set_tensor, set_tensor_layout
from miopyx.enums import miopenDataType_t
from miopyx.errors import BadParmError

# Making a member of an IntEnum from its number costs more than the rest of a getter.
cdef dict _DATA_TYPES = {int(member): member for member in miopenDataType_t}


def miopenCreateTensorDescriptor():
    """Return an empty tensor descriptor."""
    return TensorDescriptor()


def miopenSet4dTensorDescriptor(tensorDesc, dataType, n, c, h, w):
    """Make `tensorDesc` a packed NCHW tensor of n x c x h x w elements.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    dataType : miopenDataType_t, numpy dtype or its name
    n, c, h, w : int
        Lengths, each >= 0.

    Raises
    ------
    BadParmError
        For an unknown type, or a length below 0 or beyond 32 bits; the descriptor stays as it was.
    """
    cdef int64_t lens[4]
    cdef int64_t strides[4]
    cdef TensorDescriptor desc = the_tensor(tensorDesc, "tensorDesc")
    cdef int number = to_data_type(dataType, "dataType")
    lens[0], lens[1], lens[2], lens[3] = to_int(n, "n"), to_int(c, "c"), to_int(h, "h"), to_int(w, "w")
    if lens[0] < 0 or lens[1] < 0 or lens[2] < 0 or lens[3] < 0:
        name, value = next(one for one in zip("nchw", (n, c, h, w)) if one[1] < 0)
        raise BadParmError("length below 0", name, value, ">= 0")
    strides[3] = 1
    strides[2] = max(lens[3], 1)
    strides[1] = max(lens[2], 1) * strides[2]  # two factors below 2**31 fit, three need not
    strides[0] = checked_mul(max(lens[1], 1), strides[1], "c, h, w")
    _set_4d(desc, number, lens, strides)


cdef int _set_4d(TensorDescriptor desc, int number, const int64_t* lens, const int64_t* strides) except -1:
    try:
        desc.set(number, 4, lens, strides, 1)
    except BadParmError as e:
        if "[" in str(e.parameter):
            raise renamed(e, lens=tuple("nchw"), strides=("nStride", "cStride", "hStride", "wStride")) from None
        raise renamed(e, lens="n, c, h, w", strides="nStride, cStride, hStride, wStride") from None
    return 0


def miopenSet4dTensorDescriptorEx(tensorDesc, dataType, n, c, h, w, nStride, cStride, hStride, wStride):
    """Make `tensorDesc` a 4-D tensor with any strides.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    dataType : miopenDataType_t, numpy dtype or its name
    n, c, h, w : int
        Lengths, each >= 0.
    nStride, cStride, hStride, wStride : int
        Steps of each dimension in elements, each >= 1.

    Raises
    ------
    BadParmError
        For an unknown type, or a length below 0, a stride below 1, one beyond 32 bits; the descriptor stays as it was.
    """
    cdef int64_t lens[4]
    cdef int64_t strides[4]
    cdef TensorDescriptor desc = the_tensor(tensorDesc, "tensorDesc")
    cdef int number = to_data_type(dataType, "dataType")
    lens[0], lens[1], lens[2], lens[3] = to_int(n, "n"), to_int(c, "c"), to_int(h, "h"), to_int(w, "w")
    strides[0], strides[1] = to_int(nStride, "nStride"), to_int(cStride, "cStride")
    strides[2], strides[3] = to_int(hStride, "hStride"), to_int(wStride, "wStride")
    _set_4d(desc, number, lens, strides)


def miopenSetNdTensorDescriptorWithLayout(tensorDesc, dataType, tensorLayout, lens, num_lens):
    """Make `tensorDesc` a packed tensor of a layout.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    dataType : miopenDataType_t, numpy dtype or its name
    tensorLayout : miopenTensorLayout_t or its name
        NCHW ... CHWNc8 take 4 lengths, NCDHW and NDHWC 5.  The c4 and c8 layouts divide the channels by 4 or 8.
    lens : sequence of int
        Lengths in n c (d) h w order whatever the layout, each >= 0.
    num_lens : int
        How many.

    Raises
    ------
    BadParmError, InvalidValueError
        For an unknown type, an unknown layout, another number of lengths than it has,
        or channels that are no multiple of its vectors; the descriptor stays as it was.
    """
    set_tensor_layout(the_tensor(tensorDesc, "tensorDesc"), dataType, tensorLayout, lens, num_lens)


def miopenSetTensorDescriptor(tensorDesc, dataType, nbDims, dimsA, stridesA):
    """Make `tensorDesc` a tensor of any number of dimensions.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    dataType : miopenDataType_t, numpy dtype or its name
    nbDims : int
        Number of dimensions, 1 to 8.
    dimsA : sequence of int
        Lengths from the outermost dimension, n c (d) (h) w, each >= 0.
    stridesA : sequence of int or None
        Steps of each dimension in elements, each >= 1; None: packed, the last dimension innermost.

    Raises
    ------
    BadParmError
        For an unknown type, a number of dimensions that the sequences do not have, a length below 0, a stride
        below 1, one beyond 32 bits (miopenSetTensorDescriptorV2 takes 64); the descriptor stays as it was.
    """
    set_tensor(the_tensor(tensorDesc, "tensorDesc"), dataType, nbDims, dimsA, stridesA, False)


def miopenSetTensorDescriptorV2(tensorDesc, dataType, nbDims, dimsA, stridesA):
    """Make `tensorDesc` a tensor of any number of dimensions, with lengths and strides of 64 bits.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    dataType : miopenDataType_t, numpy dtype or its name
    nbDims : int
        Number of dimensions, 1 to 8.
    dimsA : sequence of int
        Lengths from the outermost dimension, n c (d) (h) w, each >= 0.
    stridesA : sequence of int or None
        Steps of each dimension in elements, each >= 1; None: packed, the last dimension innermost.

    Raises
    ------
    BadParmError
        For an unknown type, a number of dimensions that the sequences do not have, a length below 0 or a
        stride below 1; the descriptor stays as it was.
    """
    set_tensor(the_tensor(tensorDesc, "tensorDesc"), dataType, nbDims, dimsA, stridesA, True)


def miopenSetTensorCastType(tensorDesc, cast_type):
    """Set the type that a solver may convert the tensor to, as float8 uses.

    Parameters
    ----------
    tensorDesc : TensorDescriptor
    cast_type : miopenDataType_t, numpy dtype or its name

    Raises
    ------
    BadParmError
        For an unknown type, or anything but a TensorDescriptor; the descriptor stays as it was.
    """
    set_cast_type(the_tensor(tensorDesc, "tensorDesc"), cast_type)


def miopenGet4dTensorDescriptor(tensorDesc):
    """Return the type, lengths and strides of a 4-D tensor.

    Parameters
    ----------
    tensorDesc : TensorDescriptor

    Returns
    -------
    (dataType, n, c, h, w, nStride, cStride, hStride, wStride)
        Strides in elements.

    Raises
    ------
    BadParmError
        For anything but a TensorDescriptor that was not destroyed, and unless it has 4 dimensions.
    """
    cdef TensorDescriptor desc = as_tensor(tensorDesc, "tensorDesc")
    if desc.ndim != 4:
        desc.require_set("tensorDesc")
        raise BadParmError("not four-dimensional", "tensorDesc", desc.ndim, 4)
    return (_DATA_TYPES[desc.type], desc.len[0], desc.len[1], desc.len[2], desc.len[3],
            desc.stride[0], desc.stride[1], desc.stride[2], desc.stride[3])


def miopenGetTensorDescriptorSize(tensorDesc):
    """Return the number of dimensions of a tensor, 0 for an empty descriptor.

    Parameters
    ----------
    tensorDesc : TensorDescriptor

    Raises
    ------
    BadParmError
        For anything but a TensorDescriptor that was not destroyed.
    """
    return as_tensor(tensorDesc, "tensorDesc").ndim


def miopenGetTensorDescriptor(tensorDesc):
    """Return the type, lengths and strides of a tensor.

    Parameters
    ----------
    tensorDesc : TensorDescriptor

    Returns
    -------
    (dataType, dimsA, stridesA)
        The two last as tuples, from the outermost dimension; strides in elements.

    Raises
    ------
    BadParmError
        For anything but a TensorDescriptor that was not destroyed.
    """
    cdef TensorDescriptor desc = as_tensor(tensorDesc, "tensorDesc")
    return _DATA_TYPES[desc.type], desc.lens, desc.strides


def miopenGetTensorNumBytes(tensorDesc):
    """Return the bytes between the tensor's first and last element, both included.

    Parameters
    ----------
    tensorDesc : TensorDescriptor

    Raises
    ------
    BadParmError
        For anything but a TensorDescriptor that was not destroyed.
    """
    cdef TensorDescriptor desc = as_tensor(tensorDesc, "tensorDesc")
    desc.require_set("tensorDesc")
    return desc.bytes


def miopenDestroyTensorDescriptor(tensorDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    tensorDesc : TensorDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(tensorDesc, TensorDescriptor, "tensorDesc")


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
