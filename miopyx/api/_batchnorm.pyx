"""Batch normalisation functions of miopen.h.

Names and argument order are the header's.  Over the M elements of a channel (spatial) or of a position (per
activation): mean and biased variance, inv = 1 / sqrt(variance + epsilon), y = scale (x - mean) inv + bias.
"""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from miopyx.values._args cimport to_double, to_flag
from miopyx.problem._descriptors cimport TensorDescriptor, as_tensor
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan
from miopyx.values._types cimport MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_SCALARS, MX_SLOTS
from miopyx.problem._batchnorm cimport BN_EPSILON, BN_FACTOR, BatchNormProblem, derive, to_mode
from ._operation cimport call_number, launch, plan_of, prepare, require_plain_scalars

from miopyx.errors import BadParmError, UnknownError

# What callers call descriptors, buffers and numbers.
cdef tuple _FORWARD_DESCS = ("xDesc", "yDesc", *("bnScaleBiasMeanVarDesc",) * 4)
cdef tuple _TRAINING_V2_DESCS = ("xDesc", "yDesc", "scaleDesc", "biasVarDesc", "savedMeanDesc", "savedVarDesc")
cdef tuple _INFERENCE_V2_DESCS = ("xDesc", "yDesc", "scaleDesc", "biasDesc", "estMeanDesc", "estVarianceDesc")
cdef tuple _BACKWARD_DESCS = ("xDesc", "dyDesc", "dxDesc", *("bnScaleBiasDiffDesc",) * 4)
cdef tuple _BACKWARD_V2_DESCS = ("xDesc", "dyDesc", "dxDesc", "scaleDesc", "biasDesc", "savedMeanDesc", "savedVarDesc")
cdef tuple _TRAINING_NAMES = ("x", "y", "bnScale", "bnBias", "resultRunningMean", "resultRunningVariance",
                              "resultSaveMean", "resultSaveInvVariance", "workSpace")
cdef tuple _INFERENCE_NAMES = ("x", "y", "bnScale", "bnBias", "estimatedMean", "estimatedVariance", "workSpace")
cdef tuple _BACKWARD_NAMES = ("x", "dy", "dx", "bnScale", "resultBnScaleDiff", "resultBnBiasDiff", "savedMean",
                              "savedInvVariance", "workSpace")
cdef enum:
    RUNNING = 2
    SAVE = 4


cdef inline bint _both(object first, object second, str name, str other) except -1:
    """Whether both of two buffers are given; one alone is an error."""
    if (first is None) != (second is None):
        raise BadParmError("one of two buffers that go together", name if first is None else other, None,
                           "a buffer, or None for both")
    return first is not None


cdef int _forward(int what, Handle h, int mode, object x_desc, object x, object y_desc, object y,
                  object scale_desc, object bias_desc, object mean_desc, object variance_desc, object scale,
                  object bias, object mean, object variance, object saved_mean, object saved_inv, double factor,
                  double epsilon, tuple descs) except -1:
    """Training, or inference; scalars were checked."""
    cdef TensorDescriptor xd = as_tensor(x_desc, <str> descs[0])
    cdef TensorDescriptor yd = as_tensor(y_desc, <str> descs[1])
    cdef TensorDescriptor sd = as_tensor(scale_desc, <str> descs[2])
    cdef TensorDescriptor bd = as_tensor(bias_desc, <str> descs[3])
    cdef TensorDescriptor md = as_tensor(mean_desc, <str> descs[4])
    cdef TensorDescriptor vd = as_tensor(variance_desc, <str> descs[5])
    cdef bint training = what == MX_BN_TRAINING
    cdef bint running = training and _both(mean, variance, "resultRunningMean", "resultRunningVariance")
    cdef bint save = training and _both(saved_mean, saved_inv, "resultSaveMean", "resultSaveInvVariance")
    cdef Invoker invoker
    cdef uint64_t stamp[6]
    cdef int order[MX_SLOTS]
    cdef PyObject* data[MX_SLOTS + 1]
    cdef double scalars[MX_SCALARS]
    cdef int i, flags = mode + RUNNING * running + SAVE * save
    stamp[0], stamp[1], stamp[2], stamp[3], stamp[4], stamp[5] = (
        xd.stamp, yd.stamp, sd.stamp, bd.stamp, md.stamp, vd.stamp)
    invoker = recall(h, stamp, 6, call_number(what, flags))
    if invoker is None:
        invoker = prepare(h, BatchNormProblem(what, mode, running, save, (xd, yd, sd, bd, md, vd), descs), stamp, 6,
                          call_number(what, flags))
    for i in range(MX_SLOTS):
        order[i] = i
    data[0], data[1], data[2], data[3] = <PyObject*> x, <PyObject*> y, <PyObject*> scale, <PyObject*> bias
    data[4], data[5] = <PyObject*> mean, <PyObject*> variance
    data[6], data[7] = <PyObject*> saved_mean, <PyObject*> saved_inv
    scalars[2] = scalars[3] = 0
    if not training:
        scalars[0], scalars[1] = epsilon, 0
        return launch(h, invoker, order, 6, data, _INFERENCE_NAMES, scalars)
    if not running:
        order[4] = order[5] = -1
    if not save:
        order[6] = order[7] = -1
    scalars[<int> BN_FACTOR], scalars[<int> BN_EPSILON] = factor, epsilon
    return launch(h, invoker, order, 8, data, _TRAINING_NAMES, scalars)


cdef int _backward(object handle, object bn_mode, object alpha, object beta, object alpha_parameters,
                   object beta_parameters, object x_desc, object x, object dy_desc, object dy, object dx_desc,
                   object dx, object scale_desc, object bias_desc, object mean_desc, object variance_desc,
                   object scale, object dscale, object dbias, object epsilon, object mean, object inv,
                   tuple descs) except -1:
    cdef Handle h = as_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef TensorDescriptor xd = as_tensor(x_desc, <str> descs[0])
    cdef TensorDescriptor dyd = as_tensor(dy_desc, <str> descs[1])
    cdef TensorDescriptor dxd = as_tensor(dx_desc, <str> descs[2])
    cdef TensorDescriptor sd = as_tensor(scale_desc, <str> descs[3])
    cdef TensorDescriptor bd = as_tensor(bias_desc, <str> descs[4])
    cdef TensorDescriptor md = as_tensor(mean_desc, <str> descs[5])
    cdef TensorDescriptor vd = as_tensor(variance_desc, <str> descs[6])
    cdef bint save = _both(mean, inv, "savedMean", "savedInvVariance")
    cdef Invoker invoker
    cdef uint64_t stamp[7]
    cdef int order[MX_SLOTS]
    cdef PyObject* data[MX_SLOTS + 1]
    cdef double scalars[MX_SCALARS]
    cdef int i, flags = mode + SAVE * save
    require_plain_scalars(alpha, beta, BadParmError)
    require_plain_scalars(alpha_parameters, beta_parameters, BadParmError)
    stamp[0], stamp[1], stamp[2] = xd.stamp, dyd.stamp, dxd.stamp
    stamp[3], stamp[4], stamp[5], stamp[6] = sd.stamp, bd.stamp, md.stamp, vd.stamp
    invoker = recall(h, stamp, 7, call_number(MX_BN_BACKWARD, flags))
    if invoker is None:
        invoker = prepare(h, BatchNormProblem(MX_BN_BACKWARD, mode, False, save, (xd, dyd, dxd, sd, bd, md, vd), descs),
                          stamp, 7, call_number(MX_BN_BACKWARD, flags))
    for i in range(MX_SLOTS):
        order[i] = i
    if not save:
        order[6] = order[7] = -1
    data[0], data[1], data[2], data[3] = <PyObject*> x, <PyObject*> dy, <PyObject*> dx, <PyObject*> scale
    data[4], data[5], data[6], data[7] = <PyObject*> dscale, <PyObject*> dbias, <PyObject*> mean, <PyObject*> inv
    scalars[0] = to_double(epsilon, "epsilon")
    scalars[1] = scalars[2] = scalars[3] = 0
    return launch(h, invoker, order, 8, data, _BACKWARD_NAMES, scalars)


cdef int _train(object handle, object bn_mode, object alpha, object beta, object x_desc, object x, object y_desc,
                object y, object scale_desc, object bias_desc, object mean_desc, object variance_desc, object scale,
                object bias, object factor, object mean, object variance, object epsilon, object saved_mean,
                object saved_inv, tuple descs) except -1:
    cdef Handle h = as_handle(handle)
    cdef int mode = to_mode(bn_mode)
    require_plain_scalars(alpha, beta, UnknownError)
    return _forward(MX_BN_TRAINING, h, mode, x_desc, x, y_desc, y, scale_desc, bias_desc, mean_desc,
                    variance_desc, scale, bias, mean, variance, saved_mean, saved_inv,
                    to_double(factor, "expAvgFactor"), to_double(epsilon, "epsilon"), descs)


cdef int _infer(object handle, object bn_mode, object alpha, object beta, object x_desc, object x, object y_desc,
                object y, object scale_desc, object bias_desc, object mean_desc, object variance_desc, object scale,
                object bias, object mean, object variance, object epsilon, tuple descs) except -1:
    cdef Handle h = as_handle(handle)
    cdef int mode = to_mode(bn_mode)
    cdef bint batch = mean is None or variance is None  # statistics of the batch itself
    require_plain_scalars(alpha, beta, UnknownError if batch else BadParmError)
    if batch:
        return _forward(MX_BN_TRAINING, h, mode, x_desc, x, y_desc, y, scale_desc, bias_desc, mean_desc,
                        variance_desc, scale, bias, None, None, None, None, 0, to_double(epsilon, "epsilon"), descs)
    return _forward(MX_BN_INFERENCE, h, mode, x_desc, x, y_desc, y, scale_desc, bias_desc, mean_desc,
                    variance_desc, scale, bias, mean, variance, None, None, 0, to_double(epsilon, "epsilon"), descs)


def miopenDeriveBNTensorDescriptor(derivedBnDesc, xDesc, bn_mode):
    """Make `derivedBnDesc` the packed tensor of the parameters and statistics that belong to x.

    1 x c x 1 x 1 (spatial) or 1 x c x h x w (per activation), with x's rank of 3, 4 or 5; float32, or float64 where
    x is.  Raises BadParmError for fewer dimensions, UnknownError for more.
    """
    derive(as_tensor(derivedBnDesc, "derivedBnDesc"), as_tensor(xDesc, "xDesc"), to_mode(bn_mode))


def miopenBatchNormalizationForwardTraining(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                            bnScale, bnBias, expAvgFactor, resultRunningMean, resultRunningVariance,
                                            epsilon, resultSaveMean, resultSaveInvVariance):
    """y = bnScale (x - mean) inv + bnBias with the mean and the variance of the batch.

    resultSaveMean = mean and resultSaveInvVariance = inv, for the backward pass.  Running statistics move towards those
    of the batch: running = (1 - f) running + f new with f = expAvgFactor, the new variance being the unbiased one;
    with f = 1 the old ones are not read.  Either pair may be None.  alpha must be 1 and beta 0, else UnknownError;
    BadParmError where descriptors do not fit each other.
    """
    d = bnScaleBiasMeanVarDesc
    _train(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, d, d, d, d, bnScale, bnBias, expAvgFactor,
           resultRunningMean, resultRunningVariance, epsilon, resultSaveMean, resultSaveInvVariance, _FORWARD_DESCS)


def miopenBatchNormalizationForwardTraining_V2(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasVarDesc,
                                               savedMeanDesc, savedVarDesc, bnScale, bnBias, expAvgFactor,
                                               resultRunningMean, resultRunningVariance, epsilon, resultSaveMean,
                                               resultSaveInvVariance):
    """As miopenBatchNormalizationForwardTraining, with a descriptor for each of scale, bias, means and variances."""
    _train(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasVarDesc, savedMeanDesc, savedVarDesc,
           bnScale, bnBias, expAvgFactor, resultRunningMean, resultRunningVariance, epsilon, resultSaveMean,
           resultSaveInvVariance, _TRAINING_V2_DESCS)


def miopenBatchNormalizationForwardInference(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, bnScaleBiasMeanVarDesc,
                                             bnScale, bnBias, estimatedMean, estimatedVariance, epsilon):
    """y = bnScale (x - estimatedMean) / sqrt(abs(estimatedVariance + epsilon)) + bnBias; y may be x.

    Where either estimate is None those of the batch are taken, as in training.  alpha must be 1 and beta 0, else
    BadParmError.
    """
    d = bnScaleBiasMeanVarDesc
    _infer(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, d, d, d, d, bnScale, bnBias, estimatedMean,
           estimatedVariance, epsilon, _FORWARD_DESCS)


def miopenBatchNormalizationForwardInference_V2(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasDesc,
                                                estMeanDesc, estVarianceDesc, bnScale, bnBias, estimatedMean,
                                                estimatedVariance, epsilon):
    """As miopenBatchNormalizationForwardInference, with a descriptor for each of the parameters."""
    _infer(handle, bn_mode, alpha, beta, xDesc, x, yDesc, y, scaleDesc, biasDesc, estMeanDesc, estVarianceDesc, bnScale,
           bnBias, estimatedMean, estimatedVariance, epsilon, _INFERENCE_V2_DESCS)


def miopenBatchNormalizationBackward(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc,
                                     x, dyDesc, dy, dxDesc, dx, bnScaleBiasDiffDesc, bnScale, resultBnScaleDiff,
                                     resultBnBiasDiff, epsilon, savedMean, savedInvVariance):
    """Gradients of training: resultBnBiasDiff = sum dy, resultBnScaleDiff = sum dy (x - mean) inv, and
    dx = bnScale inv / M (M dy - resultBnBiasDiff - (x - mean) inv resultBnScaleDiff).

    savedMean and savedInvVariance are what training saved; where both are None they are computed from x and epsilon,
    which is not used otherwise.  The alphas must be 1 and the betas 0, else BadParmError.
    """
    d = bnScaleBiasDiffDesc
    _backward(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc, x, dyDesc, dy, dxDesc,
              dx, d, d, d, d, bnScale, resultBnScaleDiff, resultBnBiasDiff, epsilon, savedMean, savedInvVariance,
              _BACKWARD_DESCS)


def miopenBatchNormalizationBackward_V2(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff,
                                        xDesc, x, dyDesc, dy, dxDesc, dx, scaleDesc, biasDesc, savedMeanDesc,
                                        savedVarDesc, bnScale, resultBnScaleDiff, resultBnBiasDiff, epsilon, savedMean,
                                        savedInvVariance):
    """As miopenBatchNormalizationBackward, with a descriptor for each of scale, bias and saved statistics."""
    _backward(handle, bn_mode, alphaDataDiff, betaDataDiff, alphaParamDiff, betaParamDiff, xDesc, x, dyDesc, dy, dxDesc,
              dx, scaleDesc, biasDesc, savedMeanDesc, savedVarDesc, bnScale, resultBnScaleDiff, resultBnBiasDiff,
              epsilon, savedMean, savedInvVariance, _BACKWARD_V2_DESCS)


# Plans


cdef Plan _plan(int what, object handle, object mode, tuple descriptors, tuple desc_names, tuple names, bint running,
                bint save, tuple scalars):
    cdef int number = to_mode(mode)
    cdef int order[MX_SLOTS]
    cdef int i, count = len(names) - 1
    cdef tuple four
    # The parameters share one descriptor.
    descriptors = tuple([as_tensor(d, n) for d, n in zip(descriptors, desc_names)])
    four = (*descriptors[:-1], *descriptors[-1:] * 4)
    all_names = (*desc_names[:-1], *desc_names[-1:] * 4)

    def problem():
        return BatchNormProblem(what, number, running, save, four, all_names)

    for i in range(count):
        order[i] = i
    if what == MX_BN_TRAINING and not running:
        order[4] = order[5] = -1
    if what != MX_BN_INFERENCE and not save:
        order[6] = order[7] = -1
    return plan_of(handle, problem, order, count, names, descriptors, desc_names, scalars)


cdef tuple _PLAN_NAMES = (("x", "y", "scale", "bias", "running_mean", "running_var", "saved_mean", "saved_inv",
                           "workspace"),
                          ("x", "y", "scale", "bias", "est_mean", "est_var", "workspace"),
                          ("x", "dy", "dx", "scale", "dscale", "dbias", "saved_mean", "saved_inv", "workspace"))


def plan_batch_norm_training(handle, mode, x_desc, y_desc, bn_desc, running, save):
    """Body of Handle.batch_norm_training."""
    return _plan(MX_BN_TRAINING, handle, mode, (x_desc, y_desc, bn_desc), ("x_desc", "y_desc", "bn_desc"),
                 <tuple> _PLAN_NAMES[0], to_flag(running, "running"), to_flag(save, "save"),
                 (("exp_avg_factor", 0.1), ("epsilon", 1e-5)))


def plan_batch_norm_inference(handle, mode, x_desc, y_desc, bn_desc):
    """Body of Handle.batch_norm_inference."""
    return _plan(MX_BN_INFERENCE, handle, mode, (x_desc, y_desc, bn_desc), ("x_desc", "y_desc", "bn_desc"),
                 <tuple> _PLAN_NAMES[1], False, False, (("epsilon", 1e-5),))


def plan_batch_norm_backward(handle, mode, x_desc, dy_desc, dx_desc, bn_desc, saved):
    """Body of Handle.batch_norm_backward."""
    return _plan(MX_BN_BACKWARD, handle, mode, (x_desc, dy_desc, dx_desc, bn_desc),
                 ("x_desc", "dy_desc", "dx_desc", "bn_desc"), <tuple> _PLAN_NAMES[2], False,
                 to_flag(saved, "saved"), (("epsilon", 1e-5),))


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
