"""Dropout of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle
from miopyx.engine._plan cimport Plan
from miopyx.values._args cimport to_flag, to_int64
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor, check_descriptor
from miopyx.values._types cimport MX_DROPOUT_BACKWARD, MX_DROPOUT_FORWARD, MX_DROPOUT_STATES, MX_SCALARS
from miopyx.problem._dropout cimport (
    DROPOUT_DRAWN, DROPOUT_GIVEN, DROPOUT_KEPT, DROPOUT_MASK, DROPOUT_STATE_BYTES, DROPOUT_STATES, DROPOUT_X,
    DROPOUT_Y, DropoutDescriptor, as_dropout, dropout_problem, states_problem,
)
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._descriptors import destroy

# Flags of a call are DROPOUT_DRAWN ... DROPOUT_GIVEN.
cdef Signature _FORWARD = Signature(
    MX_DROPOUT_FORWARD,
    lambda flags, desc, noise, x, y: dropout_problem(MX_DROPOUT_FORWARD, flags, desc, noise, x, y, "Desc"),
    ("dropoutDesc", "noise_shape", "xDesc", "yDesc"),
    {"x": DROPOUT_X, "y": DROPOUT_Y, "reserveSpace": DROPOUT_MASK, "states": DROPOUT_STATES}, first=DropoutDescriptor,
    optional=2)
cdef Signature _BACKWARD = Signature(
    MX_DROPOUT_BACKWARD,
    lambda flags, desc, noise, dy, dx: dropout_problem(MX_DROPOUT_BACKWARD, flags, desc, noise, dy, dx, "Desc"),
    ("dropoutDesc", "noise_shape", "dyDesc", "dxDesc"),
    {"dy": DROPOUT_X, "dx": DROPOUT_Y, "reserveSpace": DROPOUT_MASK, "states": DROPOUT_STATES},
    first=DropoutDescriptor, optional=2)
cdef Signature _STATES = Signature(
    MX_DROPOUT_STATES, lambda flags, states: states_problem(), ("states",), {"states": DROPOUT_STATES})
cdef TensorDescriptor _PLACES = TensorDescriptor("int8", (DROPOUT_STATE_BYTES,))

cdef enum:                 # among the buffers
    NO_MASK = 1 << 2
    NO_STATES = 1 << 3


def miopenCreateDropoutDescriptor():
    """Return an empty DropoutDescriptor."""
    return DropoutDescriptor()


def miopenDestroyDropoutDescriptor(dropoutDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    dropoutDesc : DropoutDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(dropoutDesc, DropoutDescriptor, "dropoutDesc")


def miopenDropoutGetReserveSpaceSize(xDesc):
    """Return the bytes of a mask: one for each element of x, 1 where it stays and 0 where it is dropped.

    Parameters
    ----------
    xDesc : TensorDescriptor

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        Where the descriptor was never set.
    """
    cdef TensorDescriptor desc = as_tensor(xDesc, "xDesc")
    desc.require_set("xDesc")
    return desc.elements


def miopenDropoutGetStatesSize(handle):
    """Return the bytes of the generator's states, the same for every device.

    Parameters
    ----------
    handle : Handle

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        For a handle that was destroyed.
    """
    require_handle(handle)
    (<Handle> handle).require_alive()
    return DROPOUT_STATE_BYTES


def miopenGetDropoutDescriptor(dropoutDesc, handle):
    """Return what miopenSetDropoutDescriptor or miopenRestoreDropoutDescriptor set.

    Parameters
    ----------
    dropoutDesc : DropoutDescriptor
    handle : Handle

    Returns
    -------
    (dropout, states, seed, use_mask, state_evo, rng_mode)
        The probability as the float32 that it became.

    Raises
    ------
    BadParmError
        For anything but a DropoutDescriptor that was set and not destroyed.
    """
    require_handle(handle)
    cdef DropoutDescriptor desc = as_dropout(dropoutDesc, "dropoutDesc").copied()  # of one moment
    desc.require_set()
    return desc.dropout, desc.states_set, desc.seed_set, desc.mask_set, desc.evo_set, desc.rng_mode


def miopenRestoreDropoutDescriptor(dropoutDesc, handle, dropout, states, stateSizeInBytes, seed, use_mask, state_evo,
                                   rng_mode):
    """Set a descriptor to states that were saved: as miopenSetDropoutDescriptor, but the states stay as they are.

    The states hold the seed and how many masks were drawn, so that the masks go on where the states were saved,
    whatever `seed` is.

    Parameters
    ----------
    dropoutDesc : DropoutDescriptor
    handle : Handle
    dropout : float
    states : memory of the handle's device
    stateSizeInBytes : int
    seed : int
    use_mask, state_evo : bool
    rng_mode : miopenRNGType_t
        All as miopenSetDropoutDescriptor takes them.

    Raises
    ------
    BadParmError, UnknownError
        As miopenSetDropoutDescriptor; the descriptor stays as it was.
    """
    require_handle(handle)
    (<Handle> handle).require_alive()
    cdef DropoutDescriptor desc = check_descriptor(dropoutDesc, DropoutDescriptor, "dropoutDesc")
    desc.set(dropout, states, stateSizeInBytes, seed, use_mask, state_evo, rng_mode)


def miopenSetDropoutDescriptor(dropoutDesc, handle, dropout, states, stateSizeInBytes, seed, use_mask, state_evo,
                               rng_mode):
    """Set a descriptor, and let its states begin.

    A mask is random numbers of Philox 4x32-10, of which element i of a tensor, counted in the order of its axes, takes
    word i; so it depends on the seed and the number of masks before it alone, not on the device, the type or strides.

    Parameters
    ----------
    dropoutDesc : DropoutDescriptor
    handle : Handle
    dropout : float
        The probability that an element becomes 0, 0 to 1, in steps of 2^-24.
    states : memory of the handle's device, or None
        miopenDropoutGetStatesSize(handle) bytes or more, which the descriptor holds; None where no mask will be drawn.
        Calls of several streams that draw masks take states of their own.
    stateSizeInBytes : int
    seed : int
        0 ... 2^64 - 1.
    use_mask : bool
        Whether a mask is taken that lies in the reserve space, instead of drawing one.
    state_evo : bool
        Whether each forward call that draws a mask counts it in the states, so that the next mask is another one.
        Without it all masks of a size are the same.
    rng_mode : miopenRNGType_t
        The one member, whatever its name.

    Raises
    ------
    BadParmError
        For a probability or a seed out of range and states that are no memory of the device; the descriptor stays as
        it was.
    UnknownError
        Where stateSizeInBytes is too small.
    """
    require_handle(handle)
    cdef DropoutDescriptor desc = check_descriptor(dropoutDesc, DropoutDescriptor, "dropoutDesc")
    cdef DropoutDescriptor trial = DropoutDescriptor(dropout, states, stateSizeInBytes, seed, use_mask, state_evo,
                                                     rng_mode)
    cdef arg_t[1] descriptors = [<arg_t> _PLACES], buffers = [<arg_t> states]
    cdef double[MX_SCALARS] numbers = [trial.seed_set & 0x3fffff, trial.seed_set >> 22 & 0x3fffff,
                                       trial.seed_set >> 44, 0, 0, 0, 0, 0]
    (<Handle> handle).require_alive()
    if states is not None:
        _STATES.run(handle, descriptors, buffers, numbers, 0, 0)
    desc.set(dropout, states, stateSizeInBytes, seed, use_mask, state_evo, rng_mode)


cdef int _mask(DropoutDescriptor desc, bint backward, bint reserved) except -1:
    """Where a call's mask comes from."""
    if desc.mask_set or (backward and reserved):
        if not reserved:
            raise UnknownError("Insufficient reservespace size", "reserveSpace", None, "a mask, as use_mask is set")
        return DROPOUT_GIVEN
    if backward and desc.evo_set:
        raise BadParmError("the states have gone on since the mask was drawn", "reserveSpace", None,
                           "what the forward call wrote")
    return DROPOUT_KEPT if reserved else DROPOUT_DRAWN


cdef int _run(Signature signature, bint backward, object handle, object dropout_desc, object noise, object x_desc,
              object x, object y_desc, object y, object reserve, object size) except -1:
    require_handle(handle)
    cdef DropoutDescriptor desc = as_dropout(dropout_desc, "dropoutDesc")
    cdef TensorDescriptor tensor = as_tensor(x_desc, <str> signature.descriptor_names[2])
    cdef arg_t[4] descriptors = [<arg_t> desc, <arg_t> noise, <arg_t> tensor, <arg_t> y_desc]
    cdef object states = desc.states_set
    cdef arg_t[4] buffers = [<arg_t> x, <arg_t> y, <arg_t> reserve, <arg_t> states]
    cdef double[MX_SCALARS] numbers = [0, 0, 0, 0, 0, 0, 0, 0]
    cdef int64_t given = to_int64(size, "reserveSpaceSizeInBytes")
    desc.require_set()
    cdef int mask = _mask(desc, backward, reserve is not None)
    if given < 0:
        raise BadParmError("negative size", "reserveSpaceSizeInBytes", given, ">= 0")
    if mask != DROPOUT_DRAWN and given < tensor.elements:
        raise UnknownError("Insufficient reservespace size", "reserveSpaceSizeInBytes", given,
                           f">= {tensor.elements}")
    return signature.run(handle, descriptors, buffers, numbers, mask,
                         (NO_MASK if mask == DROPOUT_DRAWN else 0) | (NO_STATES if mask == DROPOUT_GIVEN else 0))


def miopenDropoutForward(handle, dropoutDesc, noise_shape, xDesc, x, yDesc, y, reserveSpace, reserveSpaceSizeInBytes):
    """y = x / (1 - dropout) where an element stays, and 0 where it is dropped, whatever x is there.

    Parameters
    ----------
    handle : Handle
    dropoutDesc : DropoutDescriptor
        miopenSetDropoutDescriptor says where masks come from.
    noise_shape : TensorDescriptor
        Of x's lengths.
    xDesc, yDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and types (float16, bfloat16, float32, float64); any strides.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They may be the same memory if their
        strides are alike.
    reserveSpace : memory of the handle's device, or None
        Gets the mask: a byte for each element in the order of x's axes.  With use_mask it is the mask, where any byte
        but 0 means that an element stays.  An array has elements of a byte: bool, int8 or uint8.  None: the mask is not
        kept.
    reserveSpaceSizeInBytes : int
        What miopenDropoutGetReserveSpaceSize says, or more; 0 for None.

    Raises
    ------
    UnknownError
        Where lengths or types differ, beyond 5 dimensions, and for a reserve space that is too small or is missing.
    BadParmError
        For descriptors that were not set, overlapping strides of y, and a buffer that does not fit or is missing, the
        states among them; nothing was run then.
    MIOpenNotImplementedError
        For other types.
    """
    _run(_FORWARD, False, handle, dropoutDesc, noise_shape, xDesc, x, yDesc, y, reserveSpace, reserveSpaceSizeInBytes)


def miopenDropoutBackward(handle, dropoutDesc, noise_shape, dyDesc, dy, dxDesc, dx, reserveSpace,
                          reserveSpaceSizeInBytes):
    """dx = dy / (1 - dropout) where the forward call let an element stay, and 0 where it dropped it.

    Parameters
    ----------
    handle : Handle
    dropoutDesc : DropoutDescriptor
    noise_shape : TensorDescriptor
    dyDesc, dxDesc : TensorDescriptor
    dy, dx : memory of the handle's device
        As for miopenDropoutForward.
    reserveSpace : memory of the handle's device, or None
        The mask that the forward call wrote.  None: the mask is drawn again, which needs states that stayed as they
        were: without state_evo.
    reserveSpaceSizeInBytes : int

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenDropoutForward; BadParmError, too, without a reserve space where the states go on.
    """
    _run(_BACKWARD, True, handle, dropoutDesc, noise_shape, dyDesc, dy, dxDesc, dx, reserveSpace,
         reserveSpaceSizeInBytes)


cdef Plan _plan(Signature signature, bint backward, object handle, object dropout_desc, object x_desc, object y_desc,
                object reserve):
    cdef DropoutDescriptor desc = as_dropout(dropout_desc, "dropout_desc")
    desc.require_set()
    cdef int mask = _mask(desc, backward, to_flag(reserve, "reserve"))
    return signature.plan(
        handle, (dropout_desc, x_desc, x_desc, y_desc), mask,
        (NO_MASK if mask == DROPOUT_DRAWN else 0) | (NO_STATES if mask == DROPOUT_GIVEN else 0))


def plan_dropout_forward(handle, dropout_desc, x_desc, y_desc, reserve):
    """Body of Handle.dropout_forward."""
    return _plan(_FORWARD, False, handle, dropout_desc, x_desc, y_desc, reserve)


def plan_dropout_backward(handle, dropout_desc, dy_desc, dx_desc, reserve):
    """Body of Handle.dropout_backward."""
    return _plan(_BACKWARD, True, handle, dropout_desc, dy_desc, dx_desc, reserve)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
