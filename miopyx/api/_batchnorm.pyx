"""Batch normalisation functions of miopen.h.

Names and argument order are the header's.  Over the M elements of a channel (spatial) or of a position (per
activation): mean and biased variance, inv = 1 / sqrt(variance + epsilon), y = scale (x - mean) inv + bias.  Where an
activation follows, y is what that makes of it.
"""

from libc.string cimport memset

from miopyx.engine._plan cimport Plan
from miopyx.values._args cimport to_double, to_epsilon, to_flag
from miopyx.problem._activation cimport PASTHRU, ActivationDescriptor, as_activation
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor, check_descriptor, the_tensor
from miopyx.values._types cimport MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_SCALARS
from miopyx.problem._batchnorm cimport (
    BN_ALPHA, BN_BACK_BIAS, BN_BACK_DBIAS, BN_BACK_DSCALE, BN_BACK_DX, BN_BACK_DY, BN_BACK_INV, BN_BACK_MEAN,
    BN_BACK_SCALE, BN_BACK_X, BN_BIAS, BN_EPSILON, BN_FACTOR, BN_INVERSE, BN_MEAN, BN_OLD_MEAN, BN_OLD_VARIANCE,
    BN_PREVIOUS, BN_RUNNING, BN_SAVE, BN_SAVED_INV, BN_SAVED_MEAN, BN_SCALE, BN_VARIANCE, BN_X, BN_Y, BatchNormProblem,
    derive, to_mode,
)
from ._activation cimport with_activation, write_activation
from ._operation cimport Signature, arg_t, require_handle, require_plain_scalars

from miopyx.errors import BadParmError, UnknownError

# Buffers of a call as the functions here pass them on; those that came with newer functions stand last.
cdef enum:
    RUNNING = 4            # two, as the others
    SAVED = 6
    PREVIOUS = 8
    BIAS = 8               # backward, where an activation follows

# Bits of those that are left out.
cdef enum:
    NO_RUNNING = 3 << RUNNING
    NO_SAVED = 3 << SAVED
    NO_PREVIOUS = 3 << PREVIOUS
    NO_BIAS = 1 << BIAS

cdef double _EPSILON_OF_INVERSE = 1e-5  # where InvVariance functions get no estimates


cdef Signature batchnorm_signature(int what, tuple descriptors, dict buffers, tuple numbers=(), int optional=0):
    cdef bint activates = descriptors[0].startswith("activ")
    cdef tuple tensors = descriptors[1:] if activates else descriptors

    def problem_of(int flags, *given):
        return (BatchNormProblem(what, flags, given[1:], tensors, given[0]) if activates else
                BatchNormProblem(what, flags, given, tensors))
    return Signature(what, problem_of, descriptors, buffers, numbers,
                     ActivationDescriptor if activates else TensorDescriptor, optional)


cdef dict _named(str names, tuple slots):
    """Buffers, as many as have names."""
    words = names.split()
    return dict(zip(words, slots[:len(words)], strict=True))


cdef class _Form:
    """A pass by the names of one function: without an activation, and with one."""

    cdef Signature plain, activating

    def __init__(self, int what, str descriptors, dict buffers, tuple numbers=(), str activation="activDesc",
                 int optional=0):
        names = tuple(descriptors.split())
        self.plain = batchnorm_signature(what, names, buffers, numbers, optional)
        self.activating = batchnorm_signature(what, (activation, *names), buffers, numbers, optional)

    cdef int run(self, object handle, arg_t* descriptors, arg_t* buffers, const double* numbers, int flags,
                 unsigned left_out) except -1:
        """`descriptors` begin with the activation's, or None."""
        if <object> descriptors[0] is None:
            return self.plain.run(handle, descriptors + 1, buffers, numbers, flags, left_out)
        return self.activating.run(handle, descriptors, buffers, numbers, flags, left_out)

    cdef Plan plan(self, object handle, object activ, tuple descriptors, int flags, unsigned left_out):
        if activ is None:
            return self.plain.plan(handle, descriptors, flags, left_out)
        return with_activation(check_descriptor(activ, ActivationDescriptor, "activ_desc"),
                               self.activating.plan(handle, (activ, *descriptors), flags, left_out), BN_ALPHA)


cdef tuple _FORWARD_SLOTS = (BN_X, BN_Y, BN_SCALE, BN_BIAS, BN_MEAN, BN_VARIANCE, BN_SAVED_MEAN, BN_SAVED_INV,
                             BN_OLD_MEAN, BN_OLD_VARIANCE)
cdef tuple _BACK_SLOTS = (BN_BACK_X, BN_BACK_DY, BN_BACK_DX, BN_BACK_SCALE, BN_BACK_DSCALE, BN_BACK_DBIAS,
                          BN_BACK_MEAN, BN_BACK_INV, BN_BACK_BIAS)
cdef dict _TRAINING_BUFFERS = _named(
    "x y bnScale bnBias resultRunningMean resultRunningVariance resultSaveMean resultSaveInvVariance", _FORWARD_SLOTS)
cdef dict _NEXT_BUFFERS = _named(
    "x y bnScale bnBias nextResultRunningMean nextResultRunningVariance resultSaveMean resultSaveInvVariance "
    "prevResultRunningMean prevResultRunningVariance", _FORWARD_SLOTS)
cdef dict _INFERENCE_BUFFERS = _named("x y bnScale bnBias estimatedMean estimatedVariance", _FORWARD_SLOTS)
cdef dict _INVERSE_BUFFERS = _named("x y bnScale bnBias estimatedMean estimatedInvVariance", _FORWARD_SLOTS)
cdef dict _BACKWARD_BUFFERS = _named(
    "x dy dx bnScale resultBnScaleDiff resultBnBiasDiff savedMean savedInvVariance bnBias", _BACK_SLOTS)

cdef str _SHARED_NAMES = "xDesc yDesc" + 4 * " bnScaleBiasMeanVarDesc"
cdef str _TRAINING_NAMES = "xDesc yDesc scaleDesc biasVarDesc savedMeanDesc savedVarDesc"
cdef str _INFERENCE_NAMES = "xDesc yDesc scaleDesc biasDesc estMeanDesc estVarianceDesc"
cdef str _INVERSE_NAMES = "xDesc yDesc scaleDesc biasDesc estMeanDesc estInvVarianceDesc"
cdef _Form _TRAINING = _Form(MX_BN_TRAINING, _SHARED_NAMES, _TRAINING_BUFFERS)
cdef _Form _TRAINING_V2 = _Form(MX_BN_TRAINING, _TRAINING_NAMES, _TRAINING_BUFFERS)
cdef _Form _TRAINING_V3 = _Form(MX_BN_TRAINING, _TRAINING_NAMES, _NEXT_BUFFERS)
cdef _Form _INFERENCE = _Form(MX_BN_INFERENCE, _SHARED_NAMES, _INFERENCE_BUFFERS)
cdef _Form _INFERENCE_V2 = _Form(MX_BN_INFERENCE, _INFERENCE_NAMES, _INFERENCE_BUFFERS)
cdef _Form _INFERENCE_V2_TRAINING = _Form(MX_BN_TRAINING, _INFERENCE_NAMES, _TRAINING_BUFFERS)
cdef _Form _INVERSE = _Form(MX_BN_INFERENCE, _INVERSE_NAMES, _INVERSE_BUFFERS)
cdef _Form _INVERSE_TRAINING = _Form(MX_BN_TRAINING, _INVERSE_NAMES, _TRAINING_BUFFERS)
cdef _Form _BACKWARD = _Form(MX_BN_BACKWARD, "xDesc dyDesc dxDesc" + 4 * " bnScaleBiasDiffDesc", _BACKWARD_BUFFERS)
cdef _Form _BACKWARD_V2 = _Form(
    MX_BN_BACKWARD, "xDesc dyDesc dxDesc scaleDesc biasDesc savedMeanDesc savedVarDesc", _BACKWARD_BUFFERS)
cdef _Form _BACKWARD_ACTIVATION = _Form(
    MX_BN_BACKWARD, "xDesc dyDesc dxDesc scaleDesc biasDesc savedMeanDesc savedVarianceDesc", _BACKWARD_BUFFERS)
# Plans have names of their own.  Training takes a factor and epsilon, BN_FACTOR and BN_EPSILON, the others epsilon.
cdef tuple _EPSILON = ("epsilon", 1e-5)
cdef _Form _PLAN_TRAINING = _Form(
    MX_BN_TRAINING, "x_desc y_desc" + 4 * " bn_desc",
    _named("x y scale bias running_mean running_var saved_mean saved_inv", _FORWARD_SLOTS),
    (("exp_avg_factor", 0.1), _EPSILON), "activ_desc")
cdef _Form _PLAN_INFERENCE = _Form(
    MX_BN_INFERENCE, "x_desc y_desc" + 4 * " bn_desc", _named("x y scale bias est_mean est_var", _FORWARD_SLOTS),
    (_EPSILON,), "activ_desc")
cdef _Form _PLAN_BACKWARD = _Form(
    MX_BN_BACKWARD, "x_desc dy_desc dx_desc" + 4 * " bn_desc",
    _named("x dy dx scale dscale dbias saved_mean saved_inv bias", _BACK_SLOTS), (_EPSILON,), "activ_desc", 1)


cdef inline bint _both(_Form form, arg_t* buffers, int first) except -1:
    """Whether both of two neighbouring buffers are given; one alone is an error."""
    if (<object> buffers[first] is None) != (<object> buffers[first + 1] is None):
        raise BadParmError("one of two buffers that go together",
                           form.plain.names[first + (<object> buffers[first] is not None)], None,
                           "a buffer, or None for both")
    return <object> buffers[first] is not None


cdef int _take_activation(object activ, double* numbers) except -1:
    """The numbers of what follows; None is nothing."""
    memset(numbers, 0, MX_SCALARS * sizeof(double))
    if activ is not None:
        write_activation(as_activation(activ, "activDesc"), numbers + BN_ALPHA)
    return 0


cdef int _train(_Form form, object handle, object bn_mode, object alpha, object beta, arg_t* descriptors,
                arg_t* buffers, object factor, object epsilon) except -1:
    """`descriptors` begin with the activation's, or None; `buffers` are the eight of training, and the previous ones
    where the function has such."""
    require_handle(handle)
    cdef int flags = to_mode(bn_mode)
    cdef unsigned left_out = 0
    cdef double[MX_SCALARS] numbers
    cdef bint running = _both(form, buffers, RUNNING), save = _both(form, buffers, SAVED)
    cdef bint has_previous = form.plain.buffers > PREVIOUS
    if has_previous and _both(form, buffers, PREVIOUS) != running:
        raise BadParmError("two of four buffers that go together", form.plain.names[PREVIOUS if running else RUNNING],
                           None, "a buffer, or None for all four")
    _take_activation(<object> descriptors[0], numbers)
    numbers[BN_FACTOR], numbers[BN_EPSILON] = to_double(factor, "expAvgFactor"), to_epsilon(epsilon, "epsilon")
    require_plain_scalars(alpha, beta, UnknownError)
    flags += BN_RUNNING * running + BN_SAVE * save
    left_out = (0 if running else NO_RUNNING) | (0 if save else NO_SAVED)
    if has_previous:
        if running and (buffers[PREVIOUS] != buffers[RUNNING] or buffers[PREVIOUS + 1] != buffers[RUNNING + 1]):
            flags += BN_PREVIOUS
        else:  # moved where they are
            left_out |= NO_PREVIOUS
    return form.run(handle, descriptors, buffers, numbers, flags, left_out)


cdef int _infer(_Form form, _Form training, object handle, object bn_mode, object alpha, object beta,
                arg_t* descriptors, arg_t* buffers, object epsilon, int flags) except -1:
    """`descriptors` begin with the activation's, or None; `buffers` are the six of inference, and room for two."""
    require_handle(handle)
    cdef double[MX_SCALARS] numbers
    flags += to_mode(bn_mode)
    _take_activation(<object> descriptors[0], numbers)
    numbers[0] = to_epsilon(epsilon, "epsilon")
    if <object> buffers[4] is None or <object> buffers[5] is None:  # statistics of the batch itself
        buffers[4] = buffers[5] = buffers[6] = buffers[7] = <arg_t> None
        return _train(training, handle, bn_mode, alpha, beta, descriptors, buffers, 0, epsilon)
    require_plain_scalars(alpha, beta, BadParmError)
    return form.run(handle, descriptors, buffers, numbers, flags, 0)


cdef int _backward(_Form form, object handle, object bn_mode, object alpha, object beta, object alpha_parameters,
                   object beta_parameters, arg_t* descriptors, arg_t* buffers, object epsilon) except -1:
    """`descriptors` begin with the activation's, or None; `buffers` are the eight, then the bias."""
    require_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef bint saved = _both(form, buffers, SAVED)
    cdef object activ = <object> descriptors[0]
    cdef double[MX_SCALARS] numbers
    _take_activation(activ, numbers)
    numbers[0] = to_epsilon(epsilon, "epsilon")
    require_plain_scalars(alpha, beta, BadParmError)
    require_plain_scalars(alpha_parameters, beta_parameters, BadParmError)
    return form.run(handle, descriptors, buffers, numbers, mode + BN_SAVE * saved,
                    (0 if saved else NO_SAVED) | _unread(activ))


cdef unsigned _unread(object activ) noexcept:
    """The bias, which only the gradient of an activation that follows reads."""
    return NO_BIAS if activ is None or (<ActivationDescriptor> activ).number == PASTHRU else 0


def miopenDeriveBNTensorDescriptor(derivedBnDesc, xDesc, bn_mode):
    """Make `derivedBnDesc` the packed tensor of the parameters and statistics that belong to x.

    1 x c x 1 x 1 (spatial) or 1 x c x h x w (per activation), with x's rank of 3, 4 or 5; float32, or float64 where
    x is.

    Parameters
    ----------
    derivedBnDesc : TensorDescriptor
        Is set.
    xDesc : TensorDescriptor
    bn_mode : miopenBatchNormMode_t

    Raises
    ------
    BadParmError
        For an unknown mode, or fewer than 3 dimensions.
    UnknownError
        For more than 5.
    """
    derive(the_tensor(derivedBnDesc, "derivedBnDesc"), as_tensor(xDesc, "xDesc"), to_mode(bn_mode))


def miopenBatchNormalizationForwardTraining(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                            bnScale, bnBias, expAvgFactor, resultRunningMean, resultRunningVariance,
                                            epsilon, resultSaveMean, resultSaveInvVariance):
    """y = bnScale (x - mean) inv + bnBias with the mean and the variance of the batch.

    Over the M elements of a channel (spatial) or of a position (per activation): mean and biased variance, and
    inv = 1 / sqrt(variance + epsilon) (Ioffe and Szegedy, ICML 2015, algorithm 1).  Running statistics move towards
    those of the batch: running = (1 - f) running + f new with f = expAvgFactor, the new variance being the unbiased
    one; with f = 1 the old ones are not read.

    Parameters
    ----------
    handle : Handle
    bn_mode : miopenBatchNormMode_t
    alpha, beta : float
        1 and 0.
    xDesc, yDesc : TensorDescriptor
        n c (d) (h) w, 3 to 5 dimensions of equal lengths; float16, bfloat16, float32 or float64, both the same; any
        strides.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They may be the
        same memory.
    bnScaleBiasMeanVarDesc : TensorDescriptor
        Of scale, bias and all statistics: lengths as miopenDeriveBNTensorDescriptor gives; float32, or x's type; for
        float16 and bfloat16 also the other of the two.  Of 5 dimensions d and h may be one.
    bnScale, bnBias : memory of the handle's device
    expAvgFactor : float
    resultRunningMean, resultRunningVariance : memory of the handle's device, or None for both
        Are moved.
    epsilon : float, >= 0
    resultSaveMean, resultSaveInvVariance : memory of the handle's device, or None for both
        Get mean and inv, for the backward pass.

    Raises
    ------
    UnknownError
        For other alpha or beta, more than 5 dimensions.
    BadParmError
        Where descriptors or buffers do not fit each other, or one of a pair is None; nothing was run then.
    MIOpenNotImplementedError
        For other types of x.
    """
    d = bnScaleBiasMeanVarDesc
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> d, <arg_t> d, <arg_t> d, <arg_t> d]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> resultRunningMean,
                             <arg_t> resultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance]
    _train(_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


def miopenBatchNormalizationForwardTraining_V2(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasVarDesc,
                                               savedMeanDesc, savedVarDesc, bnScale, bnBias, expAvgFactor,
                                               resultRunningMean, resultRunningVariance, epsilon, resultSaveMean,
                                               resultSaveInvVariance):
    """As miopenBatchNormalizationForwardTraining, with a descriptor for each of scale, bias, means and variances.

    Parameters
    ----------
    scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc : TensorDescriptor
        Each as bnScaleBiasMeanVarDesc there; their types may differ.
    Others
        As miopenBatchNormalizationForwardTraining.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardTraining.
    """
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasVarDesc,
                                 <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> resultRunningMean,
                             <arg_t> resultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance]
    _train(_TRAINING_V2, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


def miopenBatchNormalizationForwardTraining_V3(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasVarDesc,
                                               savedMeanDesc, savedVarDesc, bnScale, bnBias, expAvgFactor,
                                               prevResultRunningMean, prevResultRunningVariance, nextResultRunningMean,
                                               nextResultRunningVariance, epsilon, resultSaveMean,
                                               resultSaveInvVariance):
    """As miopenBatchNormalizationForwardTraining_V2; new running statistics go to buffers of their own.

    next = (1 - expAvgFactor) prev + expAvgFactor new.

    Parameters
    ----------
    prevResultRunningMean, prevResultRunningVariance : memory of the handle's device, or None
        The old ones, which stay as they are.
    nextResultRunningMean, nextResultRunningVariance : memory of the handle's device, or None
        The new ones; None where the old ones are None, and only there.  The same object as an old one is moved where it
        is, as in V2.
    Others
        As miopenBatchNormalizationForwardTraining_V2.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardTraining; also where some of the four are None, others not, or x has no
        elements.
    """
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasVarDesc,
                                 <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[10] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> nextResultRunningMean,
                              <arg_t> nextResultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance,
                              <arg_t> prevResultRunningMean, <arg_t> prevResultRunningVariance]
    _train(_TRAINING_V3, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


def miopenBatchNormForwardTrainingActivation(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasVarDesc,
                                             savedMeanDesc, savedVarDesc, bnScale, bnBias, expAvgFactor,
                                             resultRunningMean, resultRunningVariance, epsilon, resultSaveMean,
                                             resultSaveInvVariance, activDesc):
    """As miopenBatchNormalizationForwardTraining_V2, then an activation: y = act(bnScale (x - mean) inv + bnBias).

    What comes before the activation is never rounded to y's type.

    Parameters
    ----------
    activDesc : ActivationDescriptor or None
        Any of miopenActivationForward's, with its formulas; None is PASTHRU.
    Others
        As miopenBatchNormalizationForwardTraining_V2.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardTraining.
    """
    cdef arg_t[7] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc,
                                 <arg_t> biasVarDesc, <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> resultRunningMean,
                             <arg_t> resultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance]
    _train(_TRAINING_V2, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


def miopenBatchNormForwardTrainingActivation_V2(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc,
                                                biasVarDesc, savedMeanDesc, savedVarDesc, bnScale, bnBias, expAvgFactor,
                                                prevResultRunningMean, prevResultRunningVariance, nextResultRunningMean,
                                                nextResultRunningVariance, epsilon, resultSaveMean,
                                                resultSaveInvVariance, activDesc):
    """As miopenBatchNormalizationForwardTraining_V3, then an activation: y = act(bnScale (x - mean) inv + bnBias).

    Parameters
    ----------
    activDesc : ActivationDescriptor or None
        As for miopenBatchNormForwardTrainingActivation.
    Others
        As miopenBatchNormalizationForwardTraining_V3.

    Raises
    ------
    UnknownError, BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardTraining_V3.
    """
    cdef arg_t[7] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc,
                                 <arg_t> biasVarDesc, <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[10] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> nextResultRunningMean,
                              <arg_t> nextResultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance,
                              <arg_t> prevResultRunningMean, <arg_t> prevResultRunningVariance]
    _train(_TRAINING_V3, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


def miopenBatchNormalizationForwardInference(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                             bnScale, bnBias, estimatedMean, estimatedVariance, epsilon):
    """y = bnScale (x - estimatedMean) / sqrt(abs(estimatedVariance + epsilon)) + bnBias.

    Where either estimate is None those of the batch are taken, as in training.

    Parameters
    ----------
    handle : Handle
    bn_mode : miopenBatchNormMode_t
    alpha, beta : float
        1 and 0.
    xDesc, yDesc, bnScaleBiasMeanVarDesc : TensorDescriptor
        As for miopenBatchNormalizationForwardTraining.
    x, y : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  They may be the
        same memory.
    bnScale, bnBias : memory of the handle's device
    estimatedMean, estimatedVariance : memory of the handle's device, or None
    epsilon : float, >= 0

    Raises
    ------
    BadParmError
        For other alpha or beta (without estimates an UnknownError), and where descriptors or buffers do not fit each
        other; nothing was run then.
    UnknownError
        For more than 5 dimensions.
    MIOpenNotImplementedError
        For other types of x.
    """
    d = bnScaleBiasMeanVarDesc
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> d, <arg_t> d, <arg_t> d, <arg_t> d]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedVariance, <arg_t> None, <arg_t> None]
    _infer(_INFERENCE, _TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, epsilon, 0)


def miopenBatchNormalizationForwardInference_V2(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasDesc,
                                                estMeanDesc, estVarianceDesc, bnScale, bnBias, estimatedMean,
                                                estimatedVariance, epsilon):
    """As miopenBatchNormalizationForwardInference, with a descriptor for each of the parameters.

    Parameters
    ----------
    scaleDesc, biasDesc, estMeanDesc, estVarianceDesc : TensorDescriptor
        Each as bnScaleBiasMeanVarDesc there; their types may differ.
    Others
        As miopenBatchNormalizationForwardInference.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardInference.
    """
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> estMeanDesc, <arg_t> estVarianceDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedVariance, <arg_t> None, <arg_t> None]
    _infer(_INFERENCE_V2, _INFERENCE_V2_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, epsilon, 0)


def miopenBatchNormalizationForwardInferenceInvVariance(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc,
                                                        biasDesc, estMeanDesc, estInvVarianceDesc, bnScale, bnBias,
                                                        estimatedMean, estimatedInvVariance):
    """y = bnScale (x - estimatedMean) estimatedInvVariance + bnBias.

    estimatedInvVariance is what training saves as resultSaveInvVariance, 1 / sqrt(variance + epsilon).  Where either
    estimate is None those of the batch are taken, as in training, with an epsilon of 1e-5.

    Parameters
    ----------
    estInvVarianceDesc : TensorDescriptor
        As estVarianceDesc there.
    estimatedInvVariance : memory of the handle's device, or None
    Others
        As miopenBatchNormalizationForwardInference_V2.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardInference.
    """
    cdef arg_t[7] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> estMeanDesc, <arg_t> estInvVarianceDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedInvVariance, <arg_t> None, <arg_t> None]
    _infer(_INVERSE, _INVERSE_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, _EPSILON_OF_INVERSE,
           BN_INVERSE)


def miopenBatchNormForwardInferenceActivationInvVariance(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc,
                                                         biasDesc, estMeanDesc, estInvVarianceDesc, bnScale, bnBias,
                                                         estimatedMean, estimatedInvVariance, activDesc):
    """As miopenBatchNormalizationForwardInferenceInvVariance, then an activation.

    y = act(bnScale (x - estimatedMean) estimatedInvVariance + bnBias).

    Parameters
    ----------
    activDesc : ActivationDescriptor or None
        As for miopenBatchNormForwardTrainingActivation.
    Others
        As miopenBatchNormalizationForwardInferenceInvVariance.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardInference.
    """
    cdef arg_t[7] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> estMeanDesc, <arg_t> estInvVarianceDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedInvVariance, <arg_t> None, <arg_t> None]
    _infer(_INVERSE, _INVERSE_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, _EPSILON_OF_INVERSE,
           BN_INVERSE)


def miopenBatchNormForwardInferenceActivation(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasDesc,
                                              estMeanDesc, estVarianceDesc, bnScale, bnBias, estimatedMean,
                                              estimatedVariance, epsilon, activDesc):
    """As miopenBatchNormalizationForwardInference_V2, then an activation.

    y = act(bnScale (x - estimatedMean) / sqrt(abs(estimatedVariance + epsilon)) + bnBias).

    Parameters
    ----------
    activDesc : ActivationDescriptor or None
        As for miopenBatchNormForwardTrainingActivation.
    Others
        As miopenBatchNormalizationForwardInference_V2.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenBatchNormalizationForwardInference.
    """
    cdef arg_t[7] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> estMeanDesc, <arg_t> estVarianceDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedVariance, <arg_t> None, <arg_t> None]
    _infer(_INFERENCE_V2, _INFERENCE_V2_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, epsilon, 0)


def miopenBatchNormalizationBackward(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc,
                                     x, dyDesc, dy, dxDesc, dx, bnScaleBiasDiffDesc, bnScale, resultBnScaleDiff,
                                     resultBnBiasDiff, epsilon, savedMean, savedInvVariance):
    """Gradients of training: dx, and those of scale and bias.

        resultBnBiasDiff = sum of dy
        resultBnScaleDiff = sum of dy (x - mean) inv
        dx = bnScale inv / M (M dy - resultBnBiasDiff - (x - mean) inv resultBnScaleDiff)

    with the sums over the M elements of a channel (spatial) or of a position (per activation) (Ioffe and Szegedy, ICML
    2015, section 3).

    Parameters
    ----------
    handle : Handle
    bn_mode : miopenBatchNormMode_t
    alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff : float
        1, 0, 1 and 0.
    xDesc, dyDesc, dxDesc, bnScaleBiasDiffDesc : TensorDescriptor
        As for miopenBatchNormalizationForwardTraining.
    x, dy, dx : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  dx may be the
        same memory as x or dy.
    bnScale : memory of the handle's device
    resultBnScaleDiff, resultBnBiasDiff : memory of the handle's device
        Are written.
    epsilon : float, >= 0
        Used where nothing was saved.
    savedMean, savedInvVariance : memory of the handle's device, or None for both
        What training saved; without them both are computed from x and epsilon.

    Raises
    ------
    BadParmError
        For other alphas or betas, where descriptors or buffers do not fit each other, or one of a pair is None; nothing
        was run then.
    UnknownError
        For more than 5 dimensions.
    MIOpenNotImplementedError
        For other types of x.
    """
    d = bnScaleBiasDiffDesc
    cdef arg_t[8] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> dyDesc, <arg_t> dxDesc, <arg_t> d, <arg_t> d,
                                 <arg_t> d, <arg_t> d]
    cdef arg_t[9] buffers = [<arg_t> x, <arg_t> dy, <arg_t> dx, <arg_t> bnScale, <arg_t> resultBnScaleDiff,
                             <arg_t> resultBnBiasDiff, <arg_t> savedMean, <arg_t> savedInvVariance, <arg_t> None]
    _backward(_BACKWARD, handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, descriptors,
              buffers, epsilon)


def miopenBatchNormalizationBackward_V2(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff,
                                        xDesc, x, dyDesc, dy, dxDesc, dx, scaleDesc, biasDesc, savedMeanDesc,
                                        savedVarDesc, bnScale, resultBnScaleDiff, resultBnBiasDiff, epsilon, savedMean,
                                        savedInvVariance):
    """As miopenBatchNormalizationBackward, with a descriptor for each of scale, bias and saved statistics.

    Parameters
    ----------
    scaleDesc, biasDesc, savedMeanDesc, savedVarDesc : TensorDescriptor
        Each as bnScaleBiasMeanVarDesc there; their types may differ.
    Others
        As miopenBatchNormalizationBackward.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenBatchNormalizationBackward.
    """
    cdef arg_t[8] descriptors = [<arg_t> None, <arg_t> xDesc, <arg_t> dyDesc, <arg_t> dxDesc, <arg_t> scaleDesc,
                                 <arg_t> biasDesc, <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[9] buffers = [<arg_t> x, <arg_t> dy, <arg_t> dx, <arg_t> bnScale, <arg_t> resultBnScaleDiff,
                             <arg_t> resultBnBiasDiff, <arg_t> savedMean, <arg_t> savedInvVariance, <arg_t> None]
    _backward(_BACKWARD_V2, handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, descriptors,
              buffers, epsilon)


def miopenBatchNormBackwardActivation(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff,
                                      xDesc, x, dyDesc, dy, dxDesc, dx, scaleDesc, biasDesc, savedMeanDesc,
                                      savedVarianceDesc, bnScale, bnBias, resultBnScaleDiff, resultBnBiasDiff, epsilon,
                                      savedMean, savedInvVariance, activDesc):
    """Gradients of miopenBatchNormForwardTrainingActivation: dx, and those of scale and bias.

    With v = bnScale (x - mean) inv + bnBias, which is computed from x anew, dv = dy act'(v) is what
    miopenBatchNormalizationBackward takes for dy.  The gradients act' are those of miopenActivationBackward.

    Parameters
    ----------
    bnBias : memory of the handle's device
        What training had; not looked at with PASTHRU, where it may be None.
    dy : memory of the handle's device
        The gradient of what the activation gave.
    activDesc : ActivationDescriptor or None
        As for miopenBatchNormForwardTrainingActivation.
    Others
        As miopenBatchNormalizationBackward_V2.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenBatchNormalizationBackward.
    """
    cdef arg_t[8] descriptors = [<arg_t> activDesc, <arg_t> xDesc, <arg_t> dyDesc, <arg_t> dxDesc, <arg_t> scaleDesc,
                                 <arg_t> biasDesc, <arg_t> savedMeanDesc, <arg_t> savedVarianceDesc]
    cdef arg_t[9] buffers = [<arg_t> x, <arg_t> dy, <arg_t> dx, <arg_t> bnScale, <arg_t> resultBnScaleDiff,
                             <arg_t> resultBnBiasDiff, <arg_t> savedMean, <arg_t> savedInvVariance, <arg_t> bnBias]
    _backward(_BACKWARD_ACTIVATION, handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff,
              descriptors, buffers, epsilon)


# Plans


def plan_batch_norm_training(handle, mode, x_desc, y_desc, bn_desc, running, save, activ_desc=None):
    """Body of Handle.batch_norm_training."""
    cdef bint runs = to_flag(running, "running"), saves = to_flag(save, "save")
    return _PLAN_TRAINING.plan(handle, activ_desc, (x_desc, y_desc, *(bn_desc,) * 4),
                               to_mode(mode) + BN_RUNNING * runs + BN_SAVE * saves,
                               (0 if runs else NO_RUNNING) | (0 if saves else NO_SAVED))


def plan_batch_norm_inference(handle, mode, x_desc, y_desc, bn_desc, activ_desc=None):
    """Body of Handle.batch_norm_inference."""
    return _PLAN_INFERENCE.plan(handle, activ_desc, (x_desc, y_desc, *(bn_desc,) * 4), to_mode(mode), 0)


def plan_batch_norm_backward(handle, mode, x_desc, dy_desc, dx_desc, bn_desc, saved, activ_desc=None):
    """Body of Handle.batch_norm_backward."""
    cdef bint given = to_flag(saved, "saved")
    if activ_desc is not None:
        as_activation(activ_desc, "activ_desc")
    return _PLAN_BACKWARD.plan(handle, activ_desc, (x_desc, dy_desc, dx_desc, *(bn_desc,) * 4),
                               to_mode(mode) + BN_SAVE * given, (0 if given else NO_SAVED) | _unread(activ_desc))


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
