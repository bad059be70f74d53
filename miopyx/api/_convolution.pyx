"""Convolution functions of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.  Each
direction has the same seven functions; they differ in the order of their arguments alone, so each hands its
descriptors to one body in the forward sense (x, w, y).
"""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from miopyx.values._args cimport raise_unknown, to_double, to_flag, to_int, to_int64, to_member
from miopyx._core cimport SLOT_W, SLOT_X, SLOT_Y
from miopyx.problem._descriptors cimport (
    ConvolutionDescriptor, TensorDescriptor, as_convolution, as_tensor, seen, stamp_of, the_convolution, the_tensor,
)
from miopyx.values._guard cimport load_double, load_int64, mx_guard_lock, mx_guard_unlock
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._binding cimport call_t, check_arguments, workspace_bytes
from miopyx.engine._invoker cimport Invoker, execute
from miopyx.values._learnt cimport learnt
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._bias cimport BiasProblem
from miopyx.problem._problem cimport ConvProblem, fill_conv
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FORWARD, MX_SCALARS, mx_conv_problem
from miopyx.problem._tensor_ops cimport TENSOR_B, TENSOR_C, bias_problem
from miopyx.runtime._buffers cimport tensor_bytes
from ._operation cimport launch, prepare

from miopyx.choose import _ranking, find, preparing
from miopyx.choose._survey import Survey
from miopyx.values import config
from miopyx import enums
from miopyx.problem._descriptors import (
    destroy, get_attribute, renamed, set_attribute, set_convolution, set_find_mode, set_group_count, set_output_pads,
)
from miopyx.enums import miopenConvolutionMode_t
from miopyx.errors import BadParmError, UnknownError
from miopyx.values.structs import miopenConvAlgoPerf_t, miopenConvSolution_t

cdef tuple _MODES = (miopenConvolutionMode_t.miopenConvolution, miopenConvolutionMode_t.miopenTranspose)
# The enumerations of algorithms, of each direction and of all, by number; made when they are first asked for.
cdef tuple _ALGORITHMS_OF = ("miopenConvFwdAlgorithm_t", "miopenConvBwdDataAlgorithm_t",
                             "miopenConvBwdWeightsAlgorithm_t", "miopenConvAlgorithm_t")
cdef list _ALGORITHMS = list(_ALGORITHMS_OF)
cdef enum:
    ALL = 3
# The buffers of a direction as its functions take them.
cdef tuple _NAMES = (("x", "w", "y", "workSpace"), ("dy", "w", "dx", "workSpace"), ("dy", "x", "dw", "workSpace"))
# Descriptors in the forward sense.
cdef tuple _DESCS = (("xDesc", "wDesc", "yDesc"), ("dxDesc", "wDesc", "dyDesc"), ("xDesc", "dwDesc", "dyDesc"))
cdef tuple _SCALARS = (("alpha", 1.0), ("beta", 0.0))
cdef str _NO_INVOKER = "No invoker was registered for convolution {}. Was find executed?"
cdef tuple _WORDS = ("forward", "backward", "weights")


cdef dict _algorithms(int d):
    """The members of an enumeration of algorithms by their numbers."""
    if not isinstance(_ALGORITHMS[d], dict):
        _ALGORITHMS[d] = {int(a): a for a in getattr(enums, _ALGORITHMS[d])}
    return <dict> _ALGORITHMS[d]


# Descriptors


def miopenCreateConvolutionDescriptor():
    """Return a new descriptor: 2-D, pads 0, strides 1, dilations 1, one group, no output pads."""
    return ConvolutionDescriptor()


def miopenInitConvolutionDescriptor(convDesc, c_mode, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w):
    """Make `convDesc` a 2-D convolution; groups, output pads and attributes go back to their defaults.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    c_mode : miopenConvolutionMode_t or str
        miopenConvolution, or miopenTranspose, whose forward direction is the other's backward data.
    pad_h, pad_w : int
        Rows above and below, columns left and right, that count as zeros; >= 0.
    stride_h, stride_w, dilation_h, dilation_w : int
        In elements; >= 1.

    Raises
    ------
    BadParmError
        For a number outside these limits or an unknown mode; the descriptor stays as it was.
    """
    cdef int64_t pad[2]
    cdef int64_t stride[2]
    cdef int64_t dilation[2]
    cdef ConvolutionDescriptor desc = the_convolution(convDesc, "convDesc")
    pad[0], pad[1] = to_int(pad_h, "pad_h"), to_int(pad_w, "pad_w")
    stride[0], stride[1] = to_int(stride_h, "stride_h"), to_int(stride_w, "stride_w")
    dilation[0], dilation[1] = to_int(dilation_h, "dilation_h"), to_int(dilation_w, "dilation_w")
    kind = to_member(c_mode, "miopenConvolutionMode_t", "c_mode")
    try:
        desc.set(2, pad, stride, dilation, kind, pad)
    except BadParmError as e:
        raise renamed(e, pad=("pad_h", "pad_w"), stride=("stride_h", "stride_w"),
                      dilation=("dilation_h", "dilation_w")) from None


def miopenInitConvolutionNdDescriptor(convDesc, spatialDim, padA, strideA, dilationA, c_mode, *, endPadA=None):
    """Make `convDesc` a convolution over 1 to 3 spatial axes, as miopenInitConvolutionDescriptor does over two.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    spatialDim : int
        1 to 3.
    padA, strideA, dilationA : sequence of int
        spatialDim values each, (d,) (h,) w: elements around x, >= 0; steps of the filter, >= 1; steps within it, >= 1.
    c_mode : miopenConvolutionMode_t
    endPadA : sequence of int, optional
        Not MIOpen's: elements behind x where they are not those before it, so that an output of x's own length, which
        others call "same", is had with filters of any length.

    Raises
    ------
    BadParmError
        For another number of axes or values, numbers out of range, or an unknown mode; the descriptor stays as it was.
    """
    set_convolution(the_convolution(convDesc, "convDesc"), spatialDim, padA, strideA, dilationA, c_mode, endPadA)


def miopenGetConvolutionSpatialDim(convDesc):
    """Return the number of spatial axes, 1 to 3.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        For anything but a ConvolutionDescriptor that was not destroyed.
    """
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    return desc.spatial


def miopenGetConvolutionDescriptor(convDesc):
    """Return what a 2-D convolution was set to.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor

    Returns
    -------
    (c_mode, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w)
        In elements of x and of the filter.

    Raises
    ------
    BadParmError
        For anything but a ConvolutionDescriptor that was not destroyed.
    UnknownError
        Unless it is 2-D: miopenGetConvolutionNdDescriptor takes any.
    """
    cdef ConvolutionDescriptor d = as_convolution(convDesc, "convDesc")
    if d.spatial != 2:
        raise UnknownError("not a 2-D convolution", "convDesc", d.spatial, 2)
    return (_MODES[d.mode], d.pad[0], d.pad[1], d.stride[0], d.stride[1], d.dilation[0], d.dilation[1])


def miopenGetConvolutionNdDescriptor(convDesc, requestedSpatialDim):
    """Return what a convolution over 1 to 3 spatial axes was set to.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    requestedSpatialDim : int
        How many values of each array to return, at most the descriptor's number of axes.

    Returns
    -------
    (spatialDim, padA, strideA, dilationA, c_mode)
        The arrays in the order (d,) (h,) w.

    Raises
    ------
    UnknownError
        Where more are requested than the descriptor has.
    """
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    cdef int n = to_int(requestedSpatialDim, "requestedSpatialDim")
    if n > desc.spatial:
        raise UnknownError("more spatial dimensions than the descriptor has", "requestedSpatialDim", n, desc.spatial)
    if n < 0:
        raise BadParmError("negative", "requestedSpatialDim", n, ">= 0")
    return desc.spatial, desc.pads[:n], desc.strides[:n], desc.dilations[:n], _MODES[desc.mode]


def miopenSetConvolutionGroupCount(convDesc, groupCount):
    """Set the number of groups.

    Channels and filters are shared out between groups in their order: filters have the lengths k, c / groups, z, r, s,
    and both c and k must be multiples, which a call checks.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    groupCount : int
        >= 1.

    Raises
    ------
    BadParmError
        Below 1.
    """
    set_group_count(the_convolution(convDesc, "convDesc"), groupCount)


def miopenGetConvolutionGroupCount(convDesc):
    """Return the number of groups.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        For anything but a ConvolutionDescriptor that was not destroyed.
    """
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    return desc.groups


def miopenSetTransposeConvOutputPadding(convDesc, adj_h, adj_w):
    """Set the rows and columns that a 2-D transposed convolution adds at the far end of its output.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    adj_h, adj_w : int
        Elements of the output, each >= 0 and below the stride or the dilation of its axis, which a call checks.

    Raises
    ------
    UnknownError
        Unless the descriptor is 2-D.
    BadParmError
        For a negative number.
    """
    cdef ConvolutionDescriptor desc = the_convolution(convDesc, "convDesc")
    try:
        set_output_pads(desc, 2, (adj_h, adj_w))
    except BadParmError as e:
        raise renamed(e, adjA=("adj_h", "adj_w")) from None


def miopenSetTransposeConvNdOutputPadding(convDesc, spatialDim, adjA):
    """Set what a transposed convolution adds at the far end of its output.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    spatialDim : int
        The descriptor's number of spatial axes.
    adjA : sequence of int
        Elements of the output, (d,) (h,) w, each >= 0 and below the stride or the dilation of its axis, which a call
        checks.

    Raises
    ------
    BadParmError
        For another number of axes, or a negative number.
    """
    set_output_pads(the_convolution(convDesc, "convDesc"), spatialDim, adjA)


def miopenGetConvolutionForwardOutputDim(convDesc, inputTensorDesc, filterDesc):
    """Return (n, c, h, w) of a 2-D convolution's output.

    An axis of length i under filter k, pad p, stride s, dilation d gives trunc((i - (1 + d (k - 1)) + 2 p) / s) + 1,
    a transposed one s (i - 1) + 1 + d (k - 1) - 2 p + output pad; never below 1.  Where the pads of the two ends differ
    their sum takes the place of 2 p.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    inputTensorDesc : TensorDescriptor
        x, n c h w.
    filterDesc : TensorDescriptor
        w, k c/groups r s; of a transposed convolution c k/groups r s.

    Raises
    ------
    UnknownError
        Unless the descriptor is 2-D.
    BadParmError
        Where the tensors do not fit each other.
    """
    cdef int64_t out[8]
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    if desc.spatial != 2:
        raise UnknownError("not a 2-D convolution", "convDesc", desc.spatial, 2)
    desc.output_dims(as_tensor(inputTensorDesc, "inputTensorDesc"), as_tensor(filterDesc, "filterDesc"), out)
    return out[0], out[1], out[2], out[3]


def miopenGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc):
    """Return the lengths of the output of a convolution over 1 to 3 spatial axes.

    The formulas are those of miopenGetConvolutionForwardOutputDim.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    inputTensorDesc : TensorDescriptor
        x, n c (d) (h) w.
    filterDesc : TensorDescriptor
        w, k c/groups (z) (r) s; of a transposed convolution c k/groups (z) (r) s.

    Returns
    -------
    (nDim, outputTensorDimA)
        The number of dimensions and the lengths n, k, (d,) (h,) w.

    Raises
    ------
    BadParmError
        Where the tensors do not fit each other or the descriptor.
    """
    cdef int64_t out[8]
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    desc.output_dims(as_tensor(inputTensorDesc, "inputTensorDesc"), as_tensor(filterDesc, "filterDesc"), out)
    if desc.spatial == 2:
        return 4, (out[0], out[1], out[2], out[3])
    if desc.spatial == 3:
        return 5, (out[0], out[1], out[2], out[3], out[4])
    return 3, (out[0], out[1], out[2])


def miopenSetConvolutionAttribute(convDesc, attr, value):
    """Set an attribute of a convolution.

    Parameters
    ----------
    attr : miopenConvolutionAttrib_t or str
    value : int or str
        FP16_ALT_IMPL: -1, 0 or 1, kept and without effect.  DETERMINISTIC: 1 for solvers alone whose results are the
        same bits in every run, else 0.  FP8_ROUNDING_MODE: a miopenF8RoundingMode_t, "standard" (0) to the nearest,
        "stochastic" (1, the default).  MATH_TYPE, of float32: a miopenMathType_t, "default" (0) if factors may be
        rounded to 11 bits, as TF32 does, where that is faster; else "pedantic" (1, the default).

    Raises
    ------
    BadParmError
        For an unknown attribute or another value.
    """
    set_attribute(the_convolution(convDesc, "convDesc"), attr, value)


def miopenGetConvolutionAttribute(convDesc, attr):
    """Return the value of an attribute as it was set, not one that the environment puts in its place.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    attr : miopenConvolutionAttrib_t

    Raises
    ------
    BadParmError
        For anything but a ConvolutionDescriptor that was not destroyed, and for an unknown attribute.
    """
    return get_attribute(as_convolution(convDesc, "convDesc"), attr)


def miopenSetConvolutionFindMode(convDesc, findMode):
    """Set the find mode of Find's calls with this descriptor, which counts before MIOPEN_FIND_MODE.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor
    findMode : miopenConvolutionFindMode_t or its name

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    set_find_mode(the_convolution(convDesc, "convDesc"), findMode)


def miopenGetConvolutionFindMode(convDesc):
    """Return the descriptor's find mode, MIOPEN_FIND_MODE's where none was set (default: DynamicHybrid).

    Parameters
    ----------
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        For anything but a ConvolutionDescriptor that was not destroyed.
    """
    cdef ConvolutionDescriptor desc = as_convolution(convDesc, "convDesc")
    return desc.find_mode or enums.miopenConvolutionFindMode_t(config.get("MIOPEN_FIND_MODE"))


def miopenDestroyConvolutionDescriptor(convDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.  Plans that were made with it go on.

    Parameters
    ----------
    convDesc : ConvolutionDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(convDesc, ConvolutionDescriptor, "convDesc")


# Bodies.  d is the direction as the caller sees it; x, w, y are descriptors in the forward sense.


cdef ConvProblem _problem(Handle h, int d, object x, object w, object y, object conv):
    cdef tuple names = <tuple> _DESCS[d]
    return ConvProblem(d, as_tensor(x, names[0]), as_tensor(w, names[1]), as_tensor(y, names[2]),
                       as_convolution(conv, "convDesc"), h.math())


cdef int _order(int d, bint transposed, int* slot) noexcept:
    """Which slots the three buffers of a direction's functions go to."""
    cdef int x = SLOT_Y if transposed else SLOT_X, y = SLOT_X if transposed else SLOT_Y
    if d == MX_FORWARD:
        slot[0], slot[1], slot[2] = x, SLOT_W, y
    elif d == MX_BACKWARD_DATA:
        slot[0], slot[1], slot[2] = y, SLOT_W, x
    else:
        slot[0], slot[1], slot[2] = y, x, SLOT_W
    return 0


cdef enum:
    TRANSPOSE = 1
    # What a handle keeps of a problem beside invokers, whose numbers are ids of solvers and algorithms.
    SOLUTIONS = -1001
    BIAS = -1002
    FIND = -1003           # the last one
    WORKSPACE = -1100      # less the descriptor's find mode


cdef class _Answer:
    """What was answered about a problem, and how much was known then."""

    cdef object value
    cdef int64_t known


cdef object _value_of(Handle h, _Answer answer, int64_t known):
    """What was answered when so much was known, else None."""
    cdef object value = None
    mx_guard_lock(&h.guard)
    if answer.known == known:
        value = answer.value
    mx_guard_unlock(&h.guard)
    return value


cdef int _set_answer(Handle h, _Answer answer, object value, int64_t known) except -1:
    mx_guard_lock(&h.guard)
    _old = answer.value  # goes when the guard does
    answer.value, answer.known = value, known
    mx_guard_unlock(&h.guard)
    return 0


cdef object _answer(int d, object handle, object x, object w, object y, object conv, int64_t what):
    """Return an answer about a problem; it is computed once, and again when something new was learnt."""
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor xd = as_tensor(x, <str> (<tuple> _DESCS[d])[0])
    cdef TensorDescriptor wd = as_tensor(w, <str> (<tuple> _DESCS[d])[1])
    cdef TensorDescriptor yd = as_tensor(y, <str> (<tuple> _DESCS[d])[2])
    cdef ConvolutionDescriptor cd = as_convolution(conv, "convDesc")
    cdef ConvProblem p
    cdef mx_conv_problem key
    cdef _Answer answer
    cdef int64_t known = load_int64(learnt)
    cdef uint64_t stamp[4]
    if what == WORKSPACE:
        what -= cd.find_mode_set
    stamp[0], stamp[1], stamp[2], stamp[3] = xd.stamp, wd.stamp, yd.stamp, cd.stamp
    answer = recall(h, stamp, 4, 4 * what + d)
    if answer is None:
        fill_conv(&key, d, xd, wd, yd, cd, h.math())
        answer = h.remember(stamp, 4, 4 * what + d, what, &key, sizeof(key))
    if answer is not None:
        value = _value_of(h, answer, known)
        if value is not None:
            return value
    p = ConvProblem(d, xd, wd, yd, cd, h.math())
    if what == SOLUTIONS:
        value = [miopenConvSolution_t(c.time, c.workspace, c.solver.id, _algorithms(ALL)[c.solver.algorithm])
                 for c in _ranking.candidates(Survey(h, p))]
    else:
        value = find.workspace_size(h, p, find.mode_of(cd.find_mode_set))
    if answer is None:
        answer = _Answer()
        answer.value, answer.known = value, known
        h.keep(p, what, answer)
    else:
        _set_answer(h, answer, value, known)
    return value


cdef _solution_count(int d, object handle, object x, object w, object y, object conv):
    cdef Py_ssize_t count = len(<list> _answer(d, handle, x, w, y, conv, SOLUTIONS))
    if count == 0:
        preparing.first(handle, _problem(as_handle(handle), d, x, w, y, conv))  # raises with every solver's reason
    return count


cdef _solutions(int d, object handle, object x, object w, object y, object conv, object most):
    cdef int64_t limit = to_int64(most, "maxSolutionCount")
    if limit < 0:
        raise BadParmError("negative count", "maxSolutionCount", limit, ">= 0")
    return (<list> _answer(d, handle, x, w, y, conv, SOLUTIONS))[:limit]


cdef _solution_workspace(int d, object handle, object x, object w, object y, object conv, object solution_id):
    cdef Handle h = as_handle(handle)
    cdef ConvProblem p = _problem(h, d, x, w, y, conv)
    return _ranking.offer_of(Survey(h, p), to_int64(solution_id, "solution_id")).workspace


cdef _compile(int d, object handle, object x, object w, object y, object conv, object solution_id):
    cdef Handle h = as_handle(handle)
    cdef ConvProblem p = _problem(h, d, x, w, y, conv)
    preparing.invoker(h, _ranking.offer_of(Survey(h, p), to_int64(solution_id, "solution_id")))


cdef int _run(int d, object handle, object x, object w, object y, object conv, int64_t id, bint immediate, object a,
              object b, object c, object workspace, object workspace_size, double alpha, double beta) except -1:
    """Look the invoker up under a solution or algorithm id; immediate mode makes it where there is none yet."""
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor xd = the_tensor(x, <str> (<tuple> _DESCS[d])[0])
    cdef TensorDescriptor wd = the_tensor(w, <str> (<tuple> _DESCS[d])[1])
    cdef TensorDescriptor yd = the_tensor(y, <str> (<tuple> _DESCS[d])[2])
    cdef ConvolutionDescriptor cd = as_convolution(conv, "convDesc")
    cdef int order[3]
    cdef uint64_t stamp[4]
    cdef PyObject* data[4]
    cdef double scalars[MX_SCALARS]
    cdef call_t call
    cdef Invoker invoker
    call.workspace_size = workspace_bytes(workspace_size)
    stamp[0], stamp[1], stamp[2], stamp[3] = stamp_of(xd), stamp_of(wd), stamp_of(yd), cd.stamp
    invoker = recall(h, stamp, 4, 4 * id + d)
    if invoker is None:
        invoker = _invoker(d, h, seen(xd), seen(wd), seen(yd), cd, id, immediate)
    _order(d, cd.mode == TRANSPOSE, order)
    call.order, call.count, call.data = order, 3, data
    data[0], data[1], data[2], data[3] = <PyObject*> a, <PyObject*> b, <PyObject*> c, <PyObject*> workspace
    memset(scalars, 0, sizeof(scalars))
    scalars[0], scalars[1] = alpha, beta
    return execute(h, invoker, &call, <tuple> _NAMES[d], scalars, None)


cdef Invoker _invoker(int d, Handle h, TensorDescriptor x, TensorDescriptor w, TensorDescriptor y,
                      ConvolutionDescriptor conv, int64_t id, bint immediate):
    """Return the invoker of a problem that no call with these descriptors asked for before."""
    cdef mx_conv_problem key
    cdef uint64_t stamp[4]
    stamp[0], stamp[1], stamp[2], stamp[3] = x.stamp, w.stamp, y.stamp, conv.stamp
    fill_conv(&key, d, x, w, y, conv, h.math())
    kept = h.remember(stamp, 4, 4 * id + d, id, &key, sizeof(key))
    if kept is None:
        if not immediate:
            raise UnknownError(_NO_INVOKER.format(_WORDS[d]), "algo", -1 - id, "an algorithm that Find returned")
        problem = ConvProblem(d, x, w, y, conv, h.math())
        kept = preparing.invoker(h, _ranking.offer_of(Survey(h, problem), id))
    return kept


cdef int64_t _algorithm_id(int d, object algo) except? 0:
    cdef int number = to_member(algo, <str> _ALGORITHMS_OF[d], "algo")
    if number not in _algorithms(d):
        raise_unknown(algo, <str> _ALGORITHMS_OF[d], "algo")
    return -1 - number


cdef int64_t _solution_id(object solution_id) except? -1:
    cdef int64_t id = to_int64(solution_id, "solution_id")
    if id < 1 or id > 0x7FFFFFFF:
        raise BadParmError("unknown solution id", "solution_id", id, "an id that GetSolution returned")
    return id


cdef int _check(int d, Handle h, ConvProblem p, object a, object b, object c, object workspace, int64_t size) except -1:
    """Require that a Find's buffers fit."""
    cdef int order[3]
    cdef PyObject* data[4]
    cdef call_t call
    _order(d, p.transposed, order)
    data[0], data[1], data[2], data[3] = <PyObject*> a, <PyObject*> b, <PyObject*> c, <PyObject*> workspace
    call.order, call.count, call.data, call.workspace_size = order, 3, data, size
    check_arguments(h, p, &call, _NAMES[d])
    return 0


cdef _find(int d, object handle, object x, object w, object y, object conv, object a, object b, object c,
           object request_count, object workspace, object workspace_size, object exhaustive, object budget):
    cdef Handle h = as_handle(handle)
    cdef int count = to_int(request_count, "requestAlgoCount")
    cdef int64_t size = workspace_bytes(workspace_size)
    cdef ConvProblem p = _problem(h, d, x, w, y, conv)
    cdef int mode = find.mode_of(as_convolution(conv, "convDesc").find_mode_set)
    cdef int64_t known = load_int64(learnt)
    cdef _Answer answer
    if count < 1:
        raise BadParmError("no results requested", "requestAlgoCount", count, ">= 1")
    exhaustive = to_flag(exhaustive, "exhaustiveSearch")
    if budget is not None and not to_double(budget, "budget_ms") > 0:
        raise BadParmError("no time to search in", "budget_ms", budget, "> 0 ms, or None")
    _check(d, h, p, a, b, c, workspace, size)
    asked = (d, mode, size, exhaustive, budget)
    answer = h.lookup(p.data, p.size, FIND)
    if answer is not None:
        value = _value_of(h, answer, known)
        if value is not None and value[0] == asked:
            return value[1][:count]
        _set_answer(h, answer, None, -1)

    with h.timing():
        record = find.find(h, p, _timing(d, h, p.transposed, a, b, c, workspace, size), size, mode, exhaustive,
                           budget)
    best = {}
    for candidate in record.candidates:
        best.setdefault(candidate.solver.algorithm, candidate)
    results = [miopenConvAlgoPerf_t(_algorithms(d)[algorithm], candidate.time, candidate.workspace)
               for algorithm, candidate in best.items()]
    if load_int64(learnt) == known and not exhaustive and not find.always_acts():
        # Nothing was timed: as long as it is the last Find of this problem, the same call has the same answer.
        if answer is None:
            answer = _Answer()
            h.keep(p, FIND, answer)
        _set_answer(h, answer, (asked, results), known)
    return results[:count]


def find_solvers(int d, handle, x, w, y, conv, tuple buffers not None, object workspace, int64_t size,
                 bint exhaustive):
    """Return the problem of a direction and Find's candidates for it, of which none needs more workspace.

    What Find 2.0 asks; `buffers` stand in the order of the direction's functions.
    """
    cdef Handle h = as_handle(handle)
    cdef ConvProblem p = _problem(h, d, x, w, y, conv)
    cdef int mode = find.mode_of_solutions(as_convolution(conv, "convDesc").find_mode_set)
    a, b, c = buffers
    _check(d, h, p, a, b, c, workspace, size)
    with h.timing():
        record = find.find(h, p, _timing(d, h, p.transposed, a, b, c, workspace, size), size, mode, exhaustive)
    return p, [candidate for candidate in record.candidates if candidate.workspace <= size]


def workspace_of_find(int d, handle, x, w, y, conv):
    """Return the bytes of workspace that `find_solvers` wants."""
    cdef ConvolutionDescriptor cd = as_convolution(conv, "convDesc")
    cdef Handle h = as_handle(handle)
    return find.workspace_size(h, _problem(h, d, x, w, y, cd), find.mode_of_solutions(cd.find_mode_set))


def memory_of(ConvProblem problem not None):
    """Return, for x, w and y of a problem, the bytes that each takes and its data type."""
    cdef int slot
    return [(tensor_bytes(problem.tensor[slot]), enums.TYPE_NAMES[problem.tensor[slot].type]) for slot in range(3)]


def run_on(handle, ConvProblem problem not None, x, w, y, workspace, int64_t size):
    """Return the function that runs an invoker of a problem, as a database's key names it, and returns milliseconds.

    x, w, y are the problem's, in the forward sense; that which is computed is overwritten.
    """
    cdef Handle h = as_handle(handle)
    cdef int d = problem.c.direction
    a, b, c = ((x, w, y), (y, w, x), (y, x, w))[d]
    _check(d, h, problem, a, b, c, workspace, size)
    return _timing(d, h, problem.transposed, a, b, c, workspace, size)


cdef object _timing(int d, Handle h, bint transposed, object a, object b, object c, object workspace, int64_t size):
    """Return the function that runs an invoker on a Find's buffers and says how long that took."""
    def run(Invoker invoker):
        cdef int order[3]
        cdef PyObject* data[4]
        cdef double scalars[MX_SCALARS]
        cdef call_t call
        _order(d, transposed, order)
        data[0], data[1], data[2], data[3] = <PyObject*> a, <PyObject*> b, <PyObject*> c, <PyObject*> workspace
        call.order, call.count, call.data, call.workspace_size = order, 3, data, size
        memset(scalars, 0, sizeof(scalars))
        scalars[0] = 1
        execute(h, invoker, &call, _NAMES[d], scalars, None)
        return load_double(h.kernel_time)
    return run


cdef object _identity(int d, int math):
    """Return the function that says what a plan's descriptors describe, destroyed ones too."""
    def identity(now):
        cdef mx_conv_problem key
        x, w, y, conv = now
        transposed = fill_conv(&key, d, x, w, y, conv, math)
        return transposed, (<const unsigned char*> &key)[:sizeof(key)]
    return identity


cdef Plan _plan(int d, object handle, object x, object w, object y, object conv, object solution_id, object limit):
    cdef Handle h = as_handle(handle)
    cdef tuple names = <tuple> _DESCS[d]
    cdef tuple now = (as_tensor(x, names[0]), as_tensor(w, names[1]), as_tensor(y, names[2]),
                      as_convolution(conv, "convDesc"))
    cdef ConvProblem p = ConvProblem(d, *now, h.math())
    cdef Invoker invoker
    cdef Plan plan
    if limit is not None:
        limit = to_int64(limit, "workspace_limit")
        if limit < 0:
            raise BadParmError("negative size", "workspace_limit", limit, ">= 0")
    if solution_id is None:
        invoker, chosen = preparing.first(h, p, limit)
    else:
        chosen = _ranking.Candidate(_ranking.offer_of(Survey(h, p), _solution_id(solution_id)), -1.0, "forced")
        if limit is not None and chosen.workspace > limit:
            raise BadParmError("solution needs more workspace than the limit", "workspace_limit", limit,
                               f">= {chosen.workspace}")
        invoker = preparing.invoker(h, chosen.offer)
    plan = make_plan(h, invoker, _NAMES[d], (x, w, y, conv), now, (*names, "convDesc"), _identity(d, h.math()),
                     _explaining(h, p, invoker, chosen, limit, load_int64(learnt)), _SCALARS)
    plan.count = 3
    _order(d, p.transposed, plan.order)
    return plan


cdef object _explaining(Handle h, ConvProblem p, Invoker invoker, object chosen, object limit, int64_t known):
    """Return what a plan calls when somebody asks why; few do."""
    def explaining():
        from miopyx.choose.explain import explain

        return explain(h, p, invoker, chosen, limit, known != load_int64(learnt))
    return explaining


def plan_forward(handle, xDesc, wDesc, convDesc, yDesc, solution_id=None, workspace_limit=None):
    return _plan(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, solution_id, workspace_limit)


def plan_backward_data(handle, dyDesc, wDesc, convDesc, dxDesc, solution_id=None, workspace_limit=None):
    return _plan(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, solution_id, workspace_limit)


def plan_backward_weights(handle, dyDesc, xDesc, convDesc, dwDesc, solution_id=None, workspace_limit=None):
    return _plan(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, solution_id, workspace_limit)


def build_ahead(handle, calls):
    """Build what `Handle.build_ahead` describes."""
    cdef Handle h = as_handle(handle)
    cdef dict wanted = {"forward": MX_FORWARD, "backward_data": MX_BACKWARD_DATA,
                        "backward_weights": MX_BACKWARD_WEIGHTS}
    problems = []
    try:
        calls = list(calls)
    except TypeError:
        raise BadParmError("not calls", "calls", calls, "an iterable of tuples") from None
    for call in calls:
        try:
            name, a, b, conv, out = call
        except (TypeError, ValueError):
            raise BadParmError("not a call", "calls", call, "a direction and four descriptors") from None
        if not isinstance(name, str) or name not in wanted:
            raise BadParmError("unknown direction", "calls", name, ", ".join(wanted))
        d = wanted[name]
        x, w, y = (a, b, out) if d == MX_FORWARD else (out, b, a) if d == MX_BACKWARD_DATA else (b, out, a)
        problems.append(_problem(h, d, x, w, y, conv))
    preparing.build_ahead(h, problems)


# Forward


def miopenConvolutionForwardGetWorkSpaceSize(handle, wDesc, xDesc, convDesc, yDesc):
    """Return the bytes of workspace that Find wants.

    Its solver's where the find mode takes a known one, else enough for every solver that applies.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    UnknownError
        Where no solver applies, with the reasons.
    """
    return _answer(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, WORKSPACE)


def miopenFindConvolutionForwardAlgorithm(handle, xDesc, x, wDesc, w, convDesc, yDesc, y, requestAlgoCount, workSpace,
                                          workSpaceSize, exhaustiveSearch, *, budget_ms=None):
    """Return solvers that are ready to run, as the find mode asks; what has to be timed is, and y is overwritten.

    NORMAL times all solvers unless everything is known, FAST and the hybrid modes take what the databases have.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
        x: the input, n c (d) h w; w: the filters, k c/groups (z) r s;
        y: n k (d) h w, lengths as miopenGetConvolutionNdForwardOutputDim gives.
        One type; int8 gives int32, float32 or int8.
    convDesc : ConvolutionDescriptor
    x, w, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say;
        y is written.
    requestAlgoCount : int
        At most so many results, >= 1.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  Solvers that need more are left out.
    exhaustiveSearch : bool
        Look for the best configuration of each tunable solver first; it is kept in the user's perf-db.
    budget_ms : float, optional
        Milliseconds after which nothing new is timed.

    Returns
    -------
    list of miopenConvAlgoPerf_t
        The fastest solver of each algorithm, fastest first: fwd_algo, time in milliseconds, memory in bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where nothing could run, with the solvers' reasons.
    """
    return _find(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, x, w, y, requestAlgoCount, workSpace,
                 workSpaceSize, exhaustiveSearch, budget_ms)


def miopenConvolutionForward(handle, alpha, xDesc, x, wDesc, w, convDesc, algo, beta, yDesc, y, workSpace,
                             workSpaceSize):
    """y = alpha * conv(x, w) + beta * y, with the solver that Find chose for `algo` on this handle.

    The formula is MIOpen's (its convolution page):

        y[n, k, o] = sum over c, r of x[n, c, o stride + r dilation - pad] w[k, c, r], c in k's group

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        With beta 0 the old y is not read.
    xDesc, wDesc, yDesc : TensorDescriptor
        x: the input, n c (d) h w; w: the filters, k c/groups (z) r s;
        y: n k (d) h w, lengths as miopenGetConvolutionNdForwardOutputDim gives.
        One type; int8 gives int32, float32 or int8.
    convDesc : ConvolutionDescriptor
    x, w, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    algo : member of the direction's enumeration of algorithms, or its name
        What Find returned for this problem on this handle.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where Find did not return `algo` for this problem, or the workspace is too small.
    """
    _run(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, _algorithm_id(MX_FORWARD, algo), False, x, w, y,
         workSpace, workSpaceSize, to_double(alpha, "alpha"), to_double(beta, "beta"))


def miopenConvolutionForwardGetSolutionCount(handle, wDesc, xDesc, convDesc, yDesc):
    """Return how many solutions GetSolution has.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    MIOpenNotImplementedError
        For none, with the solvers' reasons.
    """
    return _solution_count(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc)


def miopenConvolutionForwardGetSolution(handle, wDesc, xDesc, convDesc, yDesc, maxSolutionCount):
    """Return the solutions of a problem, best first; nothing is run or compiled.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    maxSolutionCount : int
        At most so many.

    Returns
    -------
    list of miopenConvSolution_t
        time (milliseconds, measured or of the throughput index), workspace_size (bytes), solution_id, algorithm.

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    """
    return _solutions(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, maxSolutionCount)


def miopenConvolutionForwardGetSolutionWorkspaceSize(handle, wDesc, xDesc, convDesc, yDesc, solution_id):
    """Return the bytes of workspace of a solution.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    return _solution_workspace(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, solution_id)


def miopenConvolutionForwardCompileSolution(handle, wDesc, xDesc, convDesc, yDesc, solution_id):
    """Make a solution ready to run, so that its first run waits for no compiler.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    _compile(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, solution_id)


def miopenConvolutionForwardImmediate(handle, wDesc, w, xDesc, x, convDesc, yDesc, y, workSpace, workSpaceSize,
                                      solution_id):
    """y = conv(x, w) with a solution of GetSolution; compiled at its first use.

    The formula is MIOpen's (its convolution page):

        y[n, k, o] = sum over c, r of x[n, c, o stride + r dilation - pad] w[k, c, r], c in k's group

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    xDesc, wDesc, yDesc : TensorDescriptor
        x: the input, n c (d) h w; w: the filters, k c/groups (z) r s;
        y: n k (d) h w, lengths as miopenGetConvolutionNdForwardOutputDim gives.
        One type; int8 gives int32, float32 or int8.
    convDesc : ConvolutionDescriptor
    x, w, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  At least what GetSolutionWorkspaceSize returns.
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where the workspace is smaller than the solution needs.
    """
    _run(MX_FORWARD, handle, xDesc, wDesc, yDesc, convDesc, _solution_id(solution_id), True, x, w, y, workSpace,
         workSpaceSize, 1.0, 0.0)


# Backward data


def miopenConvolutionBackwardDataGetWorkSpaceSize(handle, dyDesc, wDesc, convDesc, dxDesc):
    """Return the bytes of workspace that Find wants.

    Its solver's where the find mode takes a known one, else enough for every solver that applies.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    UnknownError
        Where no solver applies, with the reasons.
    """
    return _answer(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, WORKSPACE)


def miopenFindConvolutionBackwardDataAlgorithm(handle, dyDesc, dy, wDesc, w, convDesc, dxDesc, dx, requestAlgoCount,
                                               workSpace, workSpaceSize, exhaustiveSearch, *, budget_ms=None):
    """Return solvers that are ready to run, as the find mode asks; what has to be timed is, and dx is overwritten.

    NORMAL times all solvers unless everything is known, FAST and the hybrid modes take what the databases have.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; w: the filters, k c/groups (z) r s;
        dx: the gradient of x, n c (d) h w.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, w, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say;
        dx is written.
    requestAlgoCount : int
        At most so many results, >= 1.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  Solvers that need more are left out.
    exhaustiveSearch : bool
        Look for the best configuration of each tunable solver first; it is kept in the user's perf-db.
    budget_ms : float, optional
        Milliseconds after which nothing new is timed.

    Returns
    -------
    list of miopenConvAlgoPerf_t
        The fastest solver of each algorithm, fastest first: bwd_data_algo, time in milliseconds, memory in bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where nothing could run, with the solvers' reasons.
    """
    return _find(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, dy, w, dx, requestAlgoCount, workSpace,
                 workSpaceSize, exhaustiveSearch, budget_ms)


def miopenConvolutionBackwardData(handle, alpha, dyDesc, dy, wDesc, w, convDesc, algo, beta, dxDesc, dx, workSpace,
                                  workSpaceSize):
    """dx = alpha * conv_backward_data(dy, w) + beta * dx, with the solver that Find chose for `algo` on this handle.

    The formula is MIOpen's (its convolution page):

        dx[n, c, i] = sum over k, r of dy[n, k, o] w[k, c, r] where o stride + r dilation - pad = i

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        With beta 0 the old dx is not read.
    dyDesc, wDesc, dxDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; w: the filters, k c/groups (z) r s;
        dx: the gradient of x, n c (d) h w.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, w, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    algo : member of the direction's enumeration of algorithms, or its name
        What Find returned for this problem on this handle.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where Find did not return `algo` for this problem, or the workspace is too small.
    """
    _run(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, _algorithm_id(MX_BACKWARD_DATA, algo), False, dy,
         w, dx, workSpace, workSpaceSize, to_double(alpha, "alpha"), to_double(beta, "beta"))


def miopenConvolutionBackwardDataGetSolutionCount(handle, dyDesc, wDesc, convDesc, dxDesc):
    """Return how many solutions GetSolution has.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    MIOpenNotImplementedError
        For none, with the solvers' reasons.
    """
    return _solution_count(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc)


def miopenConvolutionBackwardDataGetSolution(handle, dyDesc, wDesc, convDesc, dxDesc, maxSolutionCount):
    """Return the solutions of a problem, best first; nothing is run or compiled.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    maxSolutionCount : int
        At most so many.

    Returns
    -------
    list of miopenConvSolution_t
        time (milliseconds, measured or of the throughput index), workspace_size (bytes), solution_id, algorithm.

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    """
    return _solutions(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, maxSolutionCount)


def miopenConvolutionBackwardDataGetSolutionWorkspaceSize(handle, dyDesc, wDesc, convDesc, dxDesc, solution_id):
    """Return the bytes of workspace of a solution.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    return _solution_workspace(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, solution_id)


def miopenConvolutionBackwardDataCompileSolution(handle, dyDesc, wDesc, convDesc, dxDesc, solution_id):
    """Make a solution ready to run, so that its first run waits for no compiler.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    _compile(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, solution_id)


def miopenConvolutionBackwardDataImmediate(handle, dyDesc, dy, wDesc, w, convDesc, dxDesc, dx, workSpace,
                                           workSpaceSize, solution_id):
    """dx = conv_backward_data(dy, w) with a solution of GetSolution; compiled at its first use.

    The formula is MIOpen's (its convolution page):

        dx[n, c, i] = sum over k, r of dy[n, k, o] w[k, c, r] where o stride + r dilation - pad = i

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    dyDesc, wDesc, dxDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; w: the filters, k c/groups (z) r s;
        dx: the gradient of x, n c (d) h w.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, w, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  At least what GetSolutionWorkspaceSize returns.
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where the workspace is smaller than the solution needs.
    """
    _run(MX_BACKWARD_DATA, handle, dxDesc, wDesc, dyDesc, convDesc, _solution_id(solution_id), True, dy, w, dx,
         workSpace, workSpaceSize, 1.0, 0.0)


# Backward weights


def miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle, dyDesc, xDesc, convDesc, dwDesc):
    """Return the bytes of workspace that Find wants.

    Its solver's where the find mode takes a known one, else enough for every solver that applies.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    UnknownError
        Where no solver applies, with the reasons.
    """
    return _answer(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, WORKSPACE)


def miopenFindConvolutionBackwardWeightsAlgorithm(handle, dyDesc, dy, xDesc, x, convDesc, dwDesc, dw, requestAlgoCount,
                                                  workSpace, workSpaceSize, exhaustiveSearch, *, budget_ms=None):
    """Return solvers that are ready to run, as the find mode asks; what has to be timed is, and dw is overwritten.

    NORMAL times all solvers unless everything is known, FAST and the hybrid modes take what the databases have.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; x: the input, n c (d) h w;
        dw: the gradient of w, k c/groups (z) r s.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, x, dw : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say;
        dw is written.
    requestAlgoCount : int
        At most so many results, >= 1.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  Solvers that need more are left out.
    exhaustiveSearch : bool
        Look for the best configuration of each tunable solver first; it is kept in the user's perf-db.
    budget_ms : float, optional
        Milliseconds after which nothing new is timed.

    Returns
    -------
    list of miopenConvAlgoPerf_t
        The fastest solver of each algorithm, fastest first: bwd_weights_algo, time in milliseconds, memory in bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where nothing could run, with the solvers' reasons.
    """
    return _find(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, dy, x, dw, requestAlgoCount, workSpace,
                 workSpaceSize, exhaustiveSearch, budget_ms)


def miopenConvolutionBackwardWeights(handle, alpha, dyDesc, dy, xDesc, x, convDesc, algo, beta, dwDesc, dw, workSpace,
                                     workSpaceSize):
    """dw = alpha * conv_backward_weights(dy, x) + beta * dw, with the solver that Find chose for `algo` on this handle.

    The formula is MIOpen's (its convolution page):

        dw[k, c, r] = sum over n, o of dy[n, k, o] x[n, c, o stride + r dilation - pad]

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
        With beta 0 the old dw is not read.
    dyDesc, xDesc, dwDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; x: the input, n c (d) h w;
        dw: the gradient of w, k c/groups (z) r s.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, x, dw : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    algo : member of the direction's enumeration of algorithms, or its name
        What Find returned for this problem on this handle.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where Find did not return `algo` for this problem, or the workspace is too small.
    """
    _run(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, _algorithm_id(MX_BACKWARD_WEIGHTS, algo),
         False, dy, x, dw, workSpace, workSpaceSize, to_double(alpha, "alpha"), to_double(beta, "beta"))


def miopenConvolutionBackwardWeightsGetSolutionCount(handle, dyDesc, xDesc, convDesc, dwDesc):
    """Return how many solutions GetSolution has.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    MIOpenNotImplementedError
        For none, with the solvers' reasons.
    """
    return _solution_count(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc)


def miopenConvolutionBackwardWeightsGetSolution(handle, dyDesc, xDesc, convDesc, dwDesc, maxSolutionCount):
    """Return the solutions of a problem, best first; nothing is run or compiled.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    maxSolutionCount : int
        At most so many.

    Returns
    -------
    list of miopenConvSolution_t
        time (milliseconds, measured or of the throughput index), workspace_size (bytes), solution_id, algorithm.

    Raises
    ------
    BadParmError
        Where the descriptors do not fit each other.
    """
    return _solutions(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, maxSolutionCount)


def miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(handle, dyDesc, xDesc, convDesc, dwDesc, solution_id):
    """Return the bytes of workspace of a solution.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    return _solution_workspace(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, solution_id)


def miopenConvolutionBackwardWeightsCompileSolution(handle, dyDesc, xDesc, convDesc, dwDesc, solution_id):
    """Make a solution ready to run, so that its first run waits for no compiler.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
    convDesc : ConvolutionDescriptor
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where it is unknown or not applicable, or the descriptors do not fit each other.
    """
    _compile(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, solution_id)


def miopenConvolutionBackwardWeightsImmediate(handle, dyDesc, dy, xDesc, x, convDesc, dwDesc, dw, workSpace,
                                              workSpaceSize, solution_id):
    """dw = conv_backward_weights(dy, x) with a solution of GetSolution; compiled at its first use.

    The formula is MIOpen's (its convolution page):

        dw[k, c, r] = sum over n, o of dy[n, k, o] x[n, c, o stride + r dilation - pad]

    In mode miopenTranspose forward and backward data change places.

    Parameters
    ----------
    handle : Handle
    dyDesc, xDesc, dwDesc : TensorDescriptor
        dy: the gradient of y, n k (d) h w; x: the input, n c (d) h w;
        dw: the gradient of w, k c/groups (z) r s.
        One type; int8 is for inputs of forward alone.
    convDesc : ConvolutionDescriptor
    dy, x, dw : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    workSpace : memory of the handle's device, or None where workSpaceSize is 0
    workSpaceSize : int
        Bytes.  At least what GetSolutionWorkspaceSize returns.
    solution_id : int
        What GetSolution returned.

    Raises
    ------
    BadParmError
        Where descriptors, buffers or the workspace do not fit each other; nothing was run then.
    UnknownError
        Where the workspace is smaller than the solution needs.
    """
    _run(MX_BACKWARD_WEIGHTS, handle, xDesc, dwDesc, dyDesc, convDesc, _solution_id(solution_id), True, dy, x, dw,
         workSpace, workSpaceSize, 1.0, 0.0)


# Bias


cdef int _bias(object handle, object alpha, tuple desc_names, object b_desc, object b, object y_desc, object y,
               object beta, bint forward) except -1:
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor bd = as_tensor(b_desc, <str> desc_names[0])
    cdef TensorDescriptor yd = as_tensor(y_desc, <str> desc_names[1])
    cdef Invoker invoker
    cdef int order[2]
    cdef uint64_t stamp[2]
    cdef PyObject* data[2]
    cdef double scalars[MX_SCALARS]
    cdef int64_t call = 4 * <int> BIAS + forward
    stamp[0], stamp[1] = bd.stamp, yd.stamp
    invoker = recall(h, stamp, 2, call)
    if invoker is None:
        invoker = prepare(h, bias_problem(bd, yd) if forward else BiasProblem(bd, yd), stamp, 2, call)
    data[0], data[1] = <PyObject*> b, <PyObject*> y
    scalars[0], scalars[1] = to_double(alpha, "alpha"), to_double(beta, "beta")
    scalars[2] = scalars[3] = scalars[4] = scalars[5] = 0
    if forward:  # an addition, alpha y + alpha b + beta y
        order[0], order[1] = TENSOR_B, TENSOR_C
        scalars[1], scalars[2] = scalars[0], scalars[1]
        return launch(h, invoker, order, 2, data, ("b", "y", "workSpace"), scalars)
    order[0], order[1] = SLOT_X, SLOT_Y
    return launch(h, invoker, order, 2, data, ("db", "dy", "workSpace"), scalars)


def miopenConvolutionForwardBias(handle, alpha, bDesc, b, beta, yDesc, y):
    """y = alpha * (y + b) + beta * y; b is broadcast along its axes of length 1.

    alpha scales both terms, as in MIOpen: (1, 0) means y += b.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
    bDesc, yDesc : TensorDescriptor
        1 c (1) (1) 1 and n c (d) (h) w, or any lengths of b that are y's or 1; equal types, any strides.
    b, y : memory of the handle's device

    Raises
    ------
    UnknownError
        Where ranks, types or lengths do not fit.
    BadParmError
        Where memory is too short or is no such thing.
    """
    _bias(handle, alpha, ("bDesc", "yDesc"), bDesc, b, yDesc, y, beta, True)


def miopenConvolutionBackwardBias(handle, alpha, dyDesc, dy, beta, dbDesc, db):
    """db = alpha * sum of dy over n and space + beta * db.

    Parameters
    ----------
    handle : Handle
    alpha, beta : float
    dyDesc, dbDesc : TensorDescriptor
        n c (d) (h) w and 1 c (1) (1) 1; any strides and one of the types of a convolution's results.
    dy, db : memory of the handle's device
        db is read only where beta is not 0.

    Raises
    ------
    BadParmError
        Where db's channels differ from dy's, or memory is too short.
    """
    _bias(handle, alpha, ("dbDesc", "dyDesc"), dbDesc, db, dyDesc, dy, beta, False)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
