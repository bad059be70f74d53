"""Layer norm, RMS norm and group norm of miopen.h, and the gradients that it lacks.

Names and argument order are the header's.  Over the elements of a row: mean and biased variance, rstd = 1 /
sqrt(variance + epsilon).
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport workspace_bytes
from miopyx.values._args cimport raise_unknown, to_epsilon, to_int64, to_member
from miopyx.values._types cimport MX_NORM_BACKWARD, MX_NORM_FORWARD, MX_SCALARS
from miopyx.problem._layernorm cimport LN_ADD, LN_GROUP, LN_LAYER, LN_T5
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._layernorm import LayerNormProblem

# Flags of a call: the kind, which roles are left out, the first normalised axis or the number of groups.
cdef enum:
    LEFT_OUT = 2               # the first bit of the roles,
    ROLES = 9                  # of which there are at most so many,
    NUMBER = LEFT_OUT + ROLES  # and of the number
    LARGEST = (1 << (24 - NUMBER)) - 1

cdef tuple _KIND_NAMES = ("layer", "add", "T5", "group")
cdef tuple _FORWARD_ROLES = (
    ("x", "weight", "bias", "y", "mean", "rstd"), ("x", "x2", "weight", "bias", "y", "mean", "rstd"),
    ("x", "weight", "y", "rstd"), ("x", "weight", "bias", "y", "mean", "rstd"))
cdef tuple _BACKWARD_ROLES = (
    ("dy", "x", "weight", "mean", "rstd", "dx", "dw", "db"),
    ("dy", "x", "x2", "weight", "mean", "rstd", "dx", "dw", "db"),
    ("dy", "x", "weight", "rstd", "dx", "dw"), ("dy", "x", "weight", "mean", "rstd", "dx", "dw", "db"))
# The slots of problem/_layernorm.pxd, in their order.
cdef tuple _FORWARD_SLOTS = ("x", "x2", "weight", "bias", "y", "mean", "rstd")
cdef tuple _BACKWARD_SLOTS = ("dy", "x", "x2", "weight", "mean", "rstd", "dx", "dw", "db")


cdef Signature _signature(int what, int kind, tuple roles, bint plan=False):
    slots = _BACKWARD_SLOTS if what == MX_NORM_BACKWARD else _FORWARD_SLOTS
    style = "_desc" if plan else "Desc"

    def problem_of(int flags, *descriptors):
        given = {role: descriptor for i, (role, descriptor) in enumerate(zip(roles, descriptors))
                 if not flags >> (LEFT_OUT + i) & 1}
        return LayerNormProblem(what, kind, flags >> NUMBER, given, style)
    numbers = (("epsilon", 1e-5),) if plan and what == MX_NORM_FORWARD else ()
    return Signature(what, problem_of, tuple([role + style for role in roles]),
                     {role: slots.index(role) for role in roles}, numbers)


cdef tuple _FORWARD = tuple([_signature(MX_NORM_FORWARD, kind, roles) for kind, roles in enumerate(_FORWARD_ROLES)])
cdef tuple _BACKWARD = tuple([_signature(MX_NORM_BACKWARD, kind, roles) for kind, roles in enumerate(_BACKWARD_ROLES)])


cdef bint _affine(object mode, int kind) except -1:
    """Whether a mode of this kind of norm has weights."""
    cdef int number = to_member(mode, "miopenNormMode_t", "mode")
    cdef int base = 0 if kind == LN_GROUP else 2 * kind
    if number < 0 or number > 5:
        raise_unknown(mode, "miopenNormMode_t", "mode")
    if number < base or number > base + 1:
        raise BadParmError(f"mode of another norm than {_KIND_NAMES[kind]} norm", "mode", number,
                           f"{base} or {base + 1}")
    return number - base


cdef int _number(object value, int kind) except -1:
    """The first normalised axis or the number of groups, as part of a call's flags."""
    cdef str name = "num_groups" if kind == LN_GROUP else "normalized_dim"
    cdef int64_t number = to_int64(value, name)
    if number < 0:
        raise BadParmError("negative", name, number, ">= 0")
    if number > LARGEST:
        if kind == LN_GROUP:
            raise MIOpenNotImplementedError("groups of a group norm", name, number, f"1 ... {LARGEST}")
        raise BadParmError("first axis that is normalised", name, number, "0 ... x's rank")
    return <int> number


cdef unsigned _absent(Signature signature, arg_t* descriptors, arg_t* buffers, bint affine,
                      bint forward) except? 0xFFFF:
    """The roles that are left out; x's descriptor stands in for theirs."""
    cdef unsigned left_out = 0
    cdef int i, x = 0 if forward else 1
    cdef str role
    cdef bint missing
    for i in range(signature.buffers):
        role = <str> signature.names[i]
        if role == "weight" or role == "bias":
            missing = not affine
        elif role == "dw" or role == "db" or (forward and (role == "mean" or role == "rstd")):
            missing = <object> (descriptors[i] if buffers == NULL else buffers[i]) is None
        else:
            continue
        if missing:
            left_out |= 1 << i
            descriptors[i] = descriptors[x]
    return left_out


cdef int _forward(int kind, object handle, object mode, arg_t* descriptors, arg_t* buffers, object epsilon,
                  object number) except -1:
    require_handle(handle)
    cdef Signature signature = <Signature> _FORWARD[kind]
    cdef bint affine = _affine(mode, kind)
    cdef double[MX_SCALARS] numbers = [to_epsilon(epsilon, "epsilon"), 0, 0, 0, 0, 0, 0, 0]
    cdef int flags = _number(number, kind) << NUMBER | kind
    cdef unsigned left_out = _absent(signature, descriptors, buffers, affine, True)
    return signature.run(handle, descriptors, buffers, numbers, flags | left_out << LEFT_OUT, left_out)


cdef int _backward(int kind, object handle, object mode, object workspace_size, arg_t* descriptors, arg_t* buffers,
                   object number) except -1:
    """`buffers` end with the workspace."""
    require_handle(handle)
    cdef Signature signature = <Signature> _BACKWARD[kind]
    cdef bint affine = _affine(mode, kind)
    cdef double[MX_SCALARS] numbers = [0, 0, 0, 0, 0, 0, 0, 0]
    cdef int flags = _number(number, kind) << NUMBER | kind
    cdef int64_t size = workspace_bytes(workspace_size, "workspaceSizeInBytes")
    cdef unsigned left_out = _absent(signature, descriptors, buffers, affine, False)
    return signature.run(handle, descriptors, buffers, numbers, flags | left_out << LEFT_OUT, left_out, size)


cdef int64_t _workspace(int kind, object handle, object mode, arg_t* descriptors, object number) except -1:
    require_handle(handle)
    cdef Signature signature = <Signature> _BACKWARD[kind]
    cdef bint affine = _affine(mode, kind)
    cdef int flags = _number(number, kind) << NUMBER | kind
    cdef unsigned left_out = _absent(signature, descriptors, NULL, affine, False)
    return signature.workspace_of(handle, descriptors, flags | left_out << LEFT_OUT)


def miopenLayerNormForward(handle, mode, xDesc, x, weightDesc, weight, biasDesc, bias, epsilon, normalized_dim, yDesc,
                           y, meanDesc, mean, rstdDesc, rstd):
    """y = (x - mean) rstd weight + bias over the axes of x from normalized_dim on.

        mean = sum of x / M        variance = sum of (x - mean)^2 / M        rstd = 1 / sqrt(variance + epsilon)

    over the M elements of those axes, for each place of the axes before them.  Arithmetic is float32, for float64
    float64.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        MIOPEN_WEIGHT_BIAS, or MIOPEN_ELEMENTWISE_AFFINE: as if the weights were 1 and the biases 0.
    xDesc, yDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), packed.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They may be the same memory.
    weightDesc, biasDesc : TensorDescriptor
        Of the lengths of the normalised axes, where axes of length 1 do not count; of x's type or float32, both alike.
        Ignored, as weight and bias are, where the mode has no weights.
    weight, bias : memory of the handle's device
    epsilon : float, >= 0
    normalized_dim : int
        The first axis that is normalised, 0 to x's rank.
    meanDesc, rstdDesc : TensorDescriptor
        Of the lengths of the axes before it, where axes of length 1 do not count; of x's type or float32, both alike.
    mean, rstd : memory of the handle's device, or None
        Are written where they are given: what miopenLayerNormBackward needs.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, another mode, or a buffer that does not fit or is missing;
        nothing was run then.
    MIOpenNotImplementedError
        For other types and for tensors that are not packed.
    """
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> weightDesc, <arg_t> biasDesc, <arg_t> yDesc, <arg_t> meanDesc,
                                 <arg_t> rstdDesc]
    cdef arg_t[6] buffers = [<arg_t> x, <arg_t> weight, <arg_t> bias, <arg_t> y, <arg_t> mean, <arg_t> rstd]
    _forward(LN_LAYER, handle, mode, descriptors, buffers, epsilon, normalized_dim)


def miopenGetLayerNormBackwardWorkspaceSize(handle, mode, dyDesc, xDesc, weightDesc, meanDesc, rstdDesc,
                                            normalized_dim, dxDesc, dwDesc, dbDesc):
    """Return the bytes of workspace that miopenLayerNormBackward needs.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
    dyDesc, xDesc, weightDesc, meanDesc, rstdDesc : TensorDescriptor
    normalized_dim : int
    dxDesc, dwDesc, dbDesc : TensorDescriptor
        As miopenLayerNormBackward takes them; None for what it is not to compute.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenLayerNormBackward.
    """
    cdef arg_t[8] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> meanDesc, <arg_t> rstdDesc,
                                 <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    return _workspace(LN_LAYER, handle, mode, descriptors, normalized_dim)


def miopenLayerNormBackward(handle, mode, workspace, workspaceSizeInBytes, dyDesc, dy, xDesc, x, weightDesc, weight,
                            meanDesc, mean, rstdDesc, rstd, normalized_dim, dxDesc, dx, dwDesc, dw, dbDesc, db):
    """The gradients of miopenLayerNormForward, from the gradient dy for y; miopen.h has no such function.

        dx = rstd (g - sum of g / M - xhat (sum of g xhat) / M)      g = dy weight,  xhat = (x - mean) rstd
        dw = sum of dy xhat        db = sum of dy

    The sums of dx go over the M elements of a row, those of dw and db over the rows.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        As for miopenLayerNormForward.
    workspace : memory of the handle's device, or None
        Of what miopenGetLayerNormBackwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    dyDesc, xDesc, dxDesc : TensorDescriptor
        Of equal lengths and types, as x for miopenLayerNormForward.
    dy, x, dx : memory of the handle's device
        dx may be the same memory as dy or x.
    weightDesc, weight
        As for miopenLayerNormForward.
    meanDesc, mean, rstdDesc, rstd
        What miopenLayerNormForward wrote.
    normalized_dim : int
    dwDesc, dbDesc : TensorDescriptor
        As weightDesc and of its type.
    dw, db : memory of the handle's device, or None
        None, in place of a descriptor too: this one is not wanted.  Written in either mode.

    Raises
    ------
    UnknownError
        For a workspace that is too small.
    BadParmError, MIOpenNotImplementedError
        As for miopenLayerNormForward.
    """
    cdef arg_t[8] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> meanDesc, <arg_t> rstdDesc,
                                 <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    cdef arg_t[9] buffers = [<arg_t> dy, <arg_t> x, <arg_t> weight, <arg_t> mean, <arg_t> rstd, <arg_t> dx,
                             <arg_t> dw, <arg_t> db, <arg_t> workspace]
    _backward(LN_LAYER, handle, mode, workspaceSizeInBytes, descriptors, buffers, normalized_dim)


def miopenAddLayerNormForward(handle, mode, xDesc, x, x2Desc, x2, weightDesc, weight, biasDesc, bias, epsilon,
                              normalized_dim, yDesc, y, meanDesc, mean, rstdDesc, rstd):
    """y = ((x + x2) - mean) rstd weight + bias: miopenLayerNormForward of a sum, which is not rounded in between.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        MIOPEN_WEIGHT_BIAS_FUSED_ADD, or MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD: without weights and biases.
    xDesc, x2Desc, yDesc : TensorDescriptor
        As x's for miopenLayerNormForward, all alike.
    x, x2, y : memory of the handle's device
        y may be the same memory as x or x2.
    weightDesc, weight, biasDesc, bias, epsilon, normalized_dim, meanDesc, mean, rstdDesc, rstd
        As for miopenLayerNormForward.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenLayerNormForward.
    """
    cdef arg_t[7] descriptors = [<arg_t> xDesc, <arg_t> x2Desc, <arg_t> weightDesc, <arg_t> biasDesc, <arg_t> yDesc,
                                 <arg_t> meanDesc, <arg_t> rstdDesc]
    cdef arg_t[7] buffers = [<arg_t> x, <arg_t> x2, <arg_t> weight, <arg_t> bias, <arg_t> y, <arg_t> mean,
                             <arg_t> rstd]
    _forward(LN_ADD, handle, mode, descriptors, buffers, epsilon, normalized_dim)


def miopenGetAddLayerNormBackwardWorkspaceSize(handle, mode, dyDesc, xDesc, x2Desc, weightDesc, meanDesc, rstdDesc,
                                               normalized_dim, dxDesc, dwDesc, dbDesc):
    """Return the bytes of workspace that miopenAddLayerNormBackward needs.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
    dyDesc, xDesc, x2Desc, weightDesc, meanDesc, rstdDesc : TensorDescriptor
    normalized_dim : int
    dxDesc, dwDesc, dbDesc : TensorDescriptor
        As miopenAddLayerNormBackward takes them; None for what it is not to compute.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenAddLayerNormBackward.
    """
    cdef arg_t[9] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> x2Desc, <arg_t> weightDesc, <arg_t> meanDesc,
                                 <arg_t> rstdDesc, <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    return _workspace(LN_ADD, handle, mode, descriptors, normalized_dim)


def miopenAddLayerNormBackward(handle, mode, workspace, workspaceSizeInBytes, dyDesc, dy, xDesc, x, x2Desc, x2,
                               weightDesc, weight, meanDesc, mean, rstdDesc, rstd, normalized_dim, dxDesc, dx, dwDesc,
                               dw, dbDesc, db):
    """The gradients of miopenAddLayerNormForward; miopen.h has no such function.

    miopenLayerNormBackward of x + x2; dx is the gradient of x and of x2.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        As for miopenAddLayerNormForward.
    workspace : memory of the handle's device, or None
        Of what miopenGetAddLayerNormBackwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    dyDesc, xDesc, x2Desc, dxDesc : TensorDescriptor
    dy, x, x2, dx : memory of the handle's device
        dx may be the same memory as one of the others.
    weightDesc, weight, meanDesc, mean, rstdDesc, rstd, normalized_dim, dwDesc, dw, dbDesc, db
        As for miopenLayerNormBackward.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenLayerNormBackward.
    """
    cdef arg_t[9] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> x2Desc, <arg_t> weightDesc, <arg_t> meanDesc,
                                 <arg_t> rstdDesc, <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    cdef arg_t[10] buffers = [<arg_t> dy, <arg_t> x, <arg_t> x2, <arg_t> weight, <arg_t> mean, <arg_t> rstd,
                              <arg_t> dx, <arg_t> dw, <arg_t> db, <arg_t> workspace]
    _backward(LN_ADD, handle, mode, workspaceSizeInBytes, descriptors, buffers, normalized_dim)


def miopenT5LayerNormForward(handle, mode, xDesc, x, weightDesc, weight, epsilon, yDesc, y, rstdDesc, rstd):
    """y = x rstd weight over the last axis of x: RMS norm.

        rstd = 1 / sqrt(sum of x^2 / M + epsilon)

    over the M elements of the last axis.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        MIOPEN_WEIGHT_BIAS_T5, or MIOPEN_ELEMENTWISE_AFFINE_T5: as if the weights were 1.
    xDesc, yDesc : TensorDescriptor
    x, y : memory of the handle's device
    weightDesc, weight
        Of the length of the last axis; all as for miopenLayerNormForward.
    epsilon : float, >= 0
    rstdDesc : TensorDescriptor
        Of the lengths of the other axes.
    rstd : memory of the handle's device, or None
        Is written where it is given.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenLayerNormForward.
    """
    cdef arg_t[4] descriptors = [<arg_t> xDesc, <arg_t> weightDesc, <arg_t> yDesc, <arg_t> rstdDesc]
    cdef arg_t[4] buffers = [<arg_t> x, <arg_t> weight, <arg_t> y, <arg_t> rstd]
    _forward(LN_T5, handle, mode, descriptors, buffers, epsilon, 0)


def miopenGetT5LayerNormBackwardWorkspaceSize(handle, mode, dyDesc, xDesc, weightDesc, rstdDesc, dxDesc, dwDesc):
    """Return the bytes of workspace that miopenT5LayerNormBackward needs.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
    dyDesc, xDesc, weightDesc, rstdDesc, dxDesc, dwDesc : TensorDescriptor
        As miopenT5LayerNormBackward takes them; None for what it is not to compute.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenT5LayerNormBackward.
    """
    cdef arg_t[6] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> rstdDesc, <arg_t> dxDesc,
                                 <arg_t> dwDesc]
    return _workspace(LN_T5, handle, mode, descriptors, 0)


def miopenT5LayerNormBackward(handle, mode, workspace, workspaceSizeInBytes, dyDesc, dy, xDesc, x, weightDesc, weight,
                              rstdDesc, rstd, dxDesc, dx, dwDesc, dw):
    """The gradients of miopenT5LayerNormForward, from the gradient dy for y.

        dx = rstd (g - xhat (sum of g xhat) / M)      g = dy weight,  xhat = x rstd
        dw = sum of dy xhat

    The sum of dx goes over the M elements of a row, that of dw over the rows.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        As for miopenT5LayerNormForward.
    workspace : memory of the handle's device, or None
        Of what miopenGetT5LayerNormBackwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    dyDesc, xDesc, dxDesc : TensorDescriptor
    dy, x, dx : memory of the handle's device
        dx may be the same memory as dy or x.
    weightDesc, weight, rstdDesc, rstd
        rstd is what miopenT5LayerNormForward wrote.
    dwDesc : TensorDescriptor
        As weightDesc and of its type.
    dw : memory of the handle's device, or None
        None: not wanted.  Written in either mode.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenLayerNormBackward.
    """
    cdef arg_t[6] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> rstdDesc, <arg_t> dxDesc,
                                 <arg_t> dwDesc]
    cdef arg_t[7] buffers = [<arg_t> dy, <arg_t> x, <arg_t> weight, <arg_t> rstd, <arg_t> dx, <arg_t> dw,
                             <arg_t> workspace]
    _backward(LN_T5, handle, mode, workspaceSizeInBytes, descriptors, buffers, 0)


def miopenGroupNormForward(handle, mode, xDesc, x, weightDesc, weight, biasDesc, bias, num_groups, epsilon, yDesc, y,
                           meanDesc, mean, rstdDesc, rstd):
    """y = (x - mean) rstd weight[c] + bias[c]: mean and rstd of the channels of a group, of each sample.

        mean = sum of x / M        variance = sum of (x - mean)^2 / M        rstd = 1 / sqrt(variance + epsilon)

    over the M elements of channels / num_groups neighbouring channels.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        MIOPEN_WEIGHT_BIAS, or MIOPEN_ELEMENTWISE_AFFINE: as if the weights were 1 and the biases 0.
    xDesc, yDesc : TensorDescriptor
        n c (d) (h) (w), 2 to 5 dimensions, else as for miopenLayerNormForward.
    x, y : memory of the handle's device
        They may be the same memory.
    weightDesc, weight, biasDesc, bias
        A number for each channel, as for miopenLayerNormForward.
    num_groups : int
        A divisor of the number of channels.
    epsilon : float, >= 0
    meanDesc, rstdDesc : TensorDescriptor
        Of the lengths (n, num_groups), where axes of length 1 do not count.
    mean, rstd : memory of the handle's device, or None
        Are written where they are given.

    Raises
    ------
    BadParmError
        As miopenLayerNormForward, and where num_groups does not divide the channels.
    MIOpenNotImplementedError
        As miopenLayerNormForward.
    """
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> weightDesc, <arg_t> biasDesc, <arg_t> yDesc, <arg_t> meanDesc,
                                 <arg_t> rstdDesc]
    cdef arg_t[6] buffers = [<arg_t> x, <arg_t> weight, <arg_t> bias, <arg_t> y, <arg_t> mean, <arg_t> rstd]
    _forward(LN_GROUP, handle, mode, descriptors, buffers, epsilon, num_groups)


def miopenGetGroupNormBackwardWorkspaceSize(handle, mode, dyDesc, xDesc, weightDesc, meanDesc, rstdDesc, num_groups,
                                            dxDesc, dwDesc, dbDesc):
    """Return the bytes of workspace that miopenGroupNormBackward needs.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
    dyDesc, xDesc, weightDesc, meanDesc, rstdDesc : TensorDescriptor
    num_groups : int
    dxDesc, dwDesc, dbDesc : TensorDescriptor
        As miopenGroupNormBackward takes them; None for what it is not to compute.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenGroupNormBackward.
    """
    cdef arg_t[8] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> meanDesc, <arg_t> rstdDesc,
                                 <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    return _workspace(LN_GROUP, handle, mode, descriptors, num_groups)


def miopenGroupNormBackward(handle, mode, workspace, workspaceSizeInBytes, dyDesc, dy, xDesc, x, weightDesc, weight,
                            meanDesc, mean, rstdDesc, rstd, num_groups, dxDesc, dx, dwDesc, dw, dbDesc, db):
    """The gradients of miopenGroupNormForward, from the gradient dy for y; miopen.h has no such function.

        dx = rstd (g - sum of g / M - xhat (sum of g xhat) / M)      g = dy weight[c],  xhat = (x - mean) rstd
        dw[c] = sum of dy xhat        db[c] = sum of dy

    The sums of dx go over the M elements of a group of a sample, those of dw and db over the elements of a channel.

    Parameters
    ----------
    handle : Handle
    mode : miopenNormMode_t
        As for miopenGroupNormForward.
    workspace : memory of the handle's device, or None
        Of what miopenGetGroupNormBackwardWorkspaceSize says; None where that is 0.
    workspaceSizeInBytes : int
    dyDesc, xDesc, dxDesc : TensorDescriptor
    dy, x, dx : memory of the handle's device
        dx may be the same memory as dy or x.
    weightDesc, weight
        As for miopenGroupNormForward.
    meanDesc, mean, rstdDesc, rstd
        What miopenGroupNormForward wrote.
    num_groups : int
    dwDesc, dbDesc : TensorDescriptor
        As weightDesc and of its type.
    dw, db : memory of the handle's device, or None
        None, in place of a descriptor too: this one is not wanted.  Written in either mode.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenLayerNormBackward, and where num_groups does not divide the channels.
    """
    cdef arg_t[8] descriptors = [<arg_t> dyDesc, <arg_t> xDesc, <arg_t> weightDesc, <arg_t> meanDesc, <arg_t> rstdDesc,
                                 <arg_t> dxDesc, <arg_t> dwDesc, <arg_t> dbDesc]
    cdef arg_t[9] buffers = [<arg_t> dy, <arg_t> x, <arg_t> weight, <arg_t> mean, <arg_t> rstd, <arg_t> dx,
                             <arg_t> dw, <arg_t> db, <arg_t> workspace]
    _backward(LN_GROUP, handle, mode, workspaceSizeInBytes, descriptors, buffers, num_groups)


# Prepared plans.  What is None is left out of their buffers.


cdef object _plan(int what, int kind, object handle, dict given, object number):
    given = {role: descriptor for role, descriptor in given.items() if descriptor is not None
             or role not in ("weight", "bias", "dw", "db", "mean", "rstd")}
    if what == MX_NORM_BACKWARD:
        for role in ("mean", "rstd") if kind != LN_T5 else ("rstd",):
            given.setdefault(role, None)  # None is refused, as no descriptor
    roles = tuple([role for role in (_BACKWARD_ROLES if what == MX_NORM_BACKWARD else _FORWARD_ROLES)[kind]
                   if role in given])
    return _signature(what, kind, roles, True).plan(handle, tuple([given[role] for role in roles]),
                                                    _number(number, kind) << NUMBER | kind, 0)


def plan_layer_norm_forward(handle, x_desc, y_desc, normalized_dim, weight_desc, bias_desc, mean_desc, rstd_desc):
    """Body of Handle.layer_norm_forward."""
    return _plan(MX_NORM_FORWARD, LN_LAYER, handle, {
        "x": x_desc, "y": y_desc, "weight": weight_desc, "bias": bias_desc, "mean": mean_desc, "rstd": rstd_desc,
    }, normalized_dim)


def plan_layer_norm_backward(handle, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, normalized_dim, weight_desc,
                             dw_desc, db_desc):
    """Body of Handle.layer_norm_backward."""
    return _plan(MX_NORM_BACKWARD, LN_LAYER, handle, {
        "dy": dy_desc, "x": x_desc, "dx": dx_desc, "mean": mean_desc, "rstd": rstd_desc, "weight": weight_desc,
        "dw": dw_desc, "db": db_desc}, normalized_dim)


def plan_add_layer_norm_forward(handle, x_desc, x2_desc, y_desc, normalized_dim, weight_desc, bias_desc, mean_desc,
                                rstd_desc):
    """Body of Handle.add_layer_norm_forward."""
    return _plan(MX_NORM_FORWARD, LN_ADD, handle, {
        "x": x_desc, "x2": x2_desc, "y": y_desc, "weight": weight_desc, "bias": bias_desc, "mean": mean_desc,
        "rstd": rstd_desc}, normalized_dim)


def plan_add_layer_norm_backward(handle, dy_desc, x_desc, x2_desc, dx_desc, mean_desc, rstd_desc, normalized_dim,
                                 weight_desc, dw_desc, db_desc):
    """Body of Handle.add_layer_norm_backward."""
    return _plan(MX_NORM_BACKWARD, LN_ADD, handle, {
        "dy": dy_desc, "x": x_desc, "x2": x2_desc, "dx": dx_desc, "mean": mean_desc, "rstd": rstd_desc,
        "weight": weight_desc, "dw": dw_desc, "db": db_desc}, normalized_dim)


def plan_t5_layer_norm_forward(handle, x_desc, y_desc, weight_desc, rstd_desc):
    """Body of Handle.t5_layer_norm_forward."""
    return _plan(MX_NORM_FORWARD, LN_T5, handle,
                 {"x": x_desc, "y": y_desc, "weight": weight_desc, "rstd": rstd_desc}, 0)


def plan_t5_layer_norm_backward(handle, dy_desc, x_desc, dx_desc, rstd_desc, weight_desc, dw_desc):
    """Body of Handle.t5_layer_norm_backward."""
    return _plan(MX_NORM_BACKWARD, LN_T5, handle, {
        "dy": dy_desc, "x": x_desc, "dx": dx_desc, "rstd": rstd_desc, "weight": weight_desc, "dw": dw_desc}, 0)


def plan_group_norm_forward(handle, x_desc, y_desc, num_groups, weight_desc, bias_desc, mean_desc, rstd_desc):
    """Body of Handle.group_norm_forward."""
    return _plan(MX_NORM_FORWARD, LN_GROUP, handle, {
        "x": x_desc, "y": y_desc, "weight": weight_desc, "bias": bias_desc, "mean": mean_desc, "rstd": rstd_desc,
    }, num_groups)


def plan_group_norm_backward(handle, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, num_groups, weight_desc,
                             dw_desc, db_desc):
    """Body of Handle.group_norm_backward."""
    return _plan(MX_NORM_BACKWARD, LN_GROUP, handle, {
        "dy": dy_desc, "x": x_desc, "dx": dx_desc, "mean": mean_desc, "rstd": rstd_desc, "weight": weight_desc,
        "dw": dw_desc, "db": db_desc}, num_groups)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
