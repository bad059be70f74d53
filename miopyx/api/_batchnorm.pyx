"""Batch normalisation functions of miopen.h.

Names and argument order are the header's.  Over the M elements of a channel (spatial) or of a position (per
activation): mean and biased variance, inv = 1 / sqrt(variance + epsilon), y = scale (x - mean) inv + bias.
"""

from miopyx.values._args cimport to_double, to_flag
from miopyx.problem._descriptors cimport as_tensor
from miopyx.values._types cimport MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_SCALARS
from miopyx.problem._batchnorm cimport BatchNormProblem, derive, to_mode
from ._operation cimport Signature, arg_t, require_handle, require_plain_scalars

from miopyx.errors import BadParmError, UnknownError

# Flags of a call: the mode, and
cdef enum:
    RUNNING = 2            # running statistics are moved
    SAVE = 4               # saved statistics are written, or given

# Bits of buffers that are left out.
cdef enum:
    NO_RUNNING = 3 << 4
    NO_SAVED = 3 << 6


cdef Signature _signature(int what, tuple descriptors, tuple buffers, tuple numbers=()):
    def problem_of(int flags, *given):
        return BatchNormProblem(what, flags & 1, flags & RUNNING != 0, flags & SAVE != 0, given, descriptors)
    # Buffers stand in the order of the slots.
    return Signature(what, problem_of, descriptors, {name: slot for slot, name in enumerate(buffers)}, numbers)


cdef tuple _TRAINING_BUFFERS = ("x", "y", "bnScale", "bnBias", "resultRunningMean", "resultRunningVariance",
                                "resultSaveMean", "resultSaveInvVariance")
cdef tuple _INFERENCE_BUFFERS = ("x", "y", "bnScale", "bnBias", "estimatedMean", "estimatedVariance")
cdef tuple _BACKWARD_BUFFERS = ("x", "dy", "dx", "bnScale", "resultBnScaleDiff", "resultBnBiasDiff", "savedMean",
                                "savedInvVariance")
cdef tuple _SHARED = ("xDesc", "yDesc", *("bnScaleBiasMeanVarDesc",) * 4)
cdef Signature _TRAINING = _signature(MX_BN_TRAINING, _SHARED, _TRAINING_BUFFERS)
cdef Signature _TRAINING_V2 = _signature(
    MX_BN_TRAINING, ("xDesc", "yDesc", "scaleDesc", "biasVarDesc", "savedMeanDesc", "savedVarDesc"), _TRAINING_BUFFERS)
cdef Signature _INFERENCE = _signature(MX_BN_INFERENCE, _SHARED, _INFERENCE_BUFFERS)
cdef Signature _INFERENCE_V2 = _signature(
    MX_BN_INFERENCE, ("xDesc", "yDesc", "scaleDesc", "biasDesc", "estMeanDesc", "estVarianceDesc"), _INFERENCE_BUFFERS)
cdef Signature _INFERENCE_V2_TRAINING = _signature(MX_BN_TRAINING, _INFERENCE_V2.descriptor_names, _TRAINING_BUFFERS)
cdef Signature _BACKWARD = _signature(
    MX_BN_BACKWARD, ("xDesc", "dyDesc", "dxDesc", *("bnScaleBiasDiffDesc",) * 4), _BACKWARD_BUFFERS)
cdef Signature _BACKWARD_V2 = _signature(
    MX_BN_BACKWARD, ("xDesc", "dyDesc", "dxDesc", "scaleDesc", "biasDesc", "savedMeanDesc", "savedVarDesc"),
    _BACKWARD_BUFFERS)
# Plans have names of their own.  Training takes a factor and epsilon, BN_FACTOR and BN_EPSILON, the others epsilon.
cdef tuple _EPSILON = ("epsilon", 1e-5)
cdef Signature _PLAN_TRAINING = _signature(
    MX_BN_TRAINING, ("x_desc", "y_desc", *("bn_desc",) * 4),
    ("x", "y", "scale", "bias", "running_mean", "running_var", "saved_mean", "saved_inv"),
    (("exp_avg_factor", 0.1), _EPSILON))
cdef Signature _PLAN_INFERENCE = _signature(
    MX_BN_INFERENCE, ("x_desc", "y_desc", *("bn_desc",) * 4), ("x", "y", "scale", "bias", "est_mean", "est_var"),
    (_EPSILON,))
cdef Signature _PLAN_BACKWARD = _signature(
    MX_BN_BACKWARD, ("x_desc", "dy_desc", "dx_desc", *("bn_desc",) * 4),
    ("x", "dy", "dx", "scale", "dscale", "dbias", "saved_mean", "saved_inv"), (_EPSILON,))


cdef inline bint _both(arg_t* buffers, int first, str name, str other) except -1:
    """Whether both of two neighbouring buffers are given; one alone is an error."""
    if (<object> buffers[first] is None) != (<object> buffers[first + 1] is None):
        raise BadParmError("one of two buffers that go together", name if <object> buffers[first] is None else other,
                           None, "a buffer, or None for both")
    return <object> buffers[first] is not None


cdef int _train(Signature signature, object handle, object bn_mode, object alpha, object beta, arg_t* descriptors,
                arg_t* buffers, object factor, object epsilon) except -1:
    """`buffers` are the eight of training."""
    require_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef bint running = _both(buffers, 4, "resultRunningMean", "resultRunningVariance")
    cdef bint save = _both(buffers, 6, "resultSaveMean", "resultSaveInvVariance")
    cdef double[MX_SCALARS] numbers = [to_double(factor, "expAvgFactor"), to_double(epsilon, "epsilon"), 0, 0, 0, 0]
    require_plain_scalars(alpha, beta, UnknownError)
    return signature.run(handle, descriptors, buffers, numbers, mode + RUNNING * running + SAVE * save,
                         (0 if running else NO_RUNNING) | (0 if save else NO_SAVED))


cdef int _infer(Signature signature, Signature training, object handle, object bn_mode, object alpha, object beta,
                arg_t* descriptors, arg_t* buffers, object epsilon) except -1:
    """`buffers` are the six of inference, and room for two."""
    require_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef double[MX_SCALARS] numbers = [to_double(epsilon, "epsilon"), 0, 0, 0, 0, 0]
    if <object> buffers[4] is None or <object> buffers[5] is None:  # statistics of the batch itself
        buffers[4] = buffers[5] = buffers[6] = buffers[7] = <arg_t> None
        return _train(training, handle, bn_mode, alpha, beta, descriptors, buffers, 0, epsilon)
    require_plain_scalars(alpha, beta, BadParmError)
    return signature.run(handle, descriptors, buffers, numbers, mode, 0)


cdef int _backward(Signature signature, object handle, object bn_mode, object alpha, object beta,
                   object alpha_parameters, object beta_parameters, arg_t* descriptors, arg_t* buffers,
                   object epsilon) except -1:
    require_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef bint saved = _both(buffers, 6, "savedMean", "savedInvVariance")
    cdef double[MX_SCALARS] numbers = [to_double(epsilon, "epsilon"), 0, 0, 0, 0, 0]
    require_plain_scalars(alpha, beta, BadParmError)
    require_plain_scalars(alpha_parameters, beta_parameters, BadParmError)
    return signature.run(handle, descriptors, buffers, numbers, mode + SAVE * saved,
                         0 if saved else NO_SAVED)


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
    derive(as_tensor(derivedBnDesc, "derivedBnDesc"), as_tensor(xDesc, "xDesc"), to_mode(bn_mode))


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
    epsilon : float
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
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> yDesc, <arg_t> d, <arg_t> d, <arg_t> d, <arg_t> d]
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
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasVarDesc,
                                 <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> resultRunningMean,
                             <arg_t> resultRunningVariance, <arg_t> resultSaveMean, <arg_t> resultSaveInvVariance]
    _train(_TRAINING_V2, handle, bn_mode, alpha, beta, descriptors, buffers, expAvgFactor, epsilon)


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
    epsilon : float

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
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> yDesc, <arg_t> d, <arg_t> d, <arg_t> d, <arg_t> d]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedVariance, <arg_t> None, <arg_t> None]
    _infer(_INFERENCE, _TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, epsilon)


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
    cdef arg_t[6] descriptors = [<arg_t> xDesc, <arg_t> yDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> estMeanDesc, <arg_t> estVarianceDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> y, <arg_t> bnScale, <arg_t> bnBias, <arg_t> estimatedMean,
                             <arg_t> estimatedVariance, <arg_t> None, <arg_t> None]
    _infer(_INFERENCE_V2, _INFERENCE_V2_TRAINING, handle, bn_mode, alpha, beta, descriptors, buffers, epsilon)


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
    epsilon : float
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
    cdef arg_t[7] descriptors = [<arg_t> xDesc, <arg_t> dyDesc, <arg_t> dxDesc, <arg_t> d, <arg_t> d, <arg_t> d,
                                 <arg_t> d]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> dy, <arg_t> dx, <arg_t> bnScale, <arg_t> resultBnScaleDiff,
                             <arg_t> resultBnBiasDiff, <arg_t> savedMean, <arg_t> savedInvVariance]
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
    cdef arg_t[7] descriptors = [<arg_t> xDesc, <arg_t> dyDesc, <arg_t> dxDesc, <arg_t> scaleDesc, <arg_t> biasDesc,
                                 <arg_t> savedMeanDesc, <arg_t> savedVarDesc]
    cdef arg_t[8] buffers = [<arg_t> x, <arg_t> dy, <arg_t> dx, <arg_t> bnScale, <arg_t> resultBnScaleDiff,
                             <arg_t> resultBnBiasDiff, <arg_t> savedMean, <arg_t> savedInvVariance]
    _backward(_BACKWARD_V2, handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, descriptors,
              buffers, epsilon)


# Plans


def plan_batch_norm_training(handle, mode, x_desc, y_desc, bn_desc, running, save):
    """Body of Handle.batch_norm_training."""
    cdef bint runs = to_flag(running, "running"), saves = to_flag(save, "save")
    return _PLAN_TRAINING.plan(handle, (x_desc, y_desc, *(bn_desc,) * 4), to_mode(mode) + RUNNING * runs + SAVE * saves,
                               (0 if runs else NO_RUNNING) | (0 if saves else NO_SAVED))


def plan_batch_norm_inference(handle, mode, x_desc, y_desc, bn_desc):
    """Body of Handle.batch_norm_inference."""
    return _PLAN_INFERENCE.plan(handle, (x_desc, y_desc, *(bn_desc,) * 4), to_mode(mode), 0)


def plan_batch_norm_backward(handle, mode, x_desc, dy_desc, dx_desc, bn_desc, saved):
    """Body of Handle.batch_norm_backward."""
    cdef bint given = to_flag(saved, "saved")
    return _PLAN_BACKWARD.plan(handle, (x_desc, dy_desc, dx_desc, *(bn_desc,) * 4), to_mode(mode) + SAVE * given,
                               0 if given else NO_SAVED)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
