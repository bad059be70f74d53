"""Empty batches and other tensors without elements: nothing is read or launched, and sums of nothing are beta times
what they were.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import Tensor

import miopyx
from miopyx import ConvolutionDescriptor, PoolingDescriptor, TensorDescriptor
from miopyx.errors import BadParmError

TYPES = ("float32", "float16", "bfloat16", "float64")


def usable(handle, dtype):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")


def held(handle, desc, values):
    tensor = Tensor(handle, desc, values)
    return tensor, tensor.argument()


@pytest.mark.parametrize("mode", ["miopenConvolution", "miopenTranspose"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(handle, mode, rank):
    transposed = mode == "miopenTranspose"
    conv = ConvolutionDescriptor(pads=(1,) * rank, strides=(2,) * rank, mode=mode, groups=2)
    x = TensorDescriptor("float32", (0, 4, *(7,) * rank))
    w = TensorDescriptor("float32", (4, 3, *(3,) * rank) if transposed else (6, 2, *(3,) * rank))
    y = TensorDescriptor("float32", conv.output_lens(x, w))
    assert (y.lens[0], y.nbytes, y.packed) == (0, 0, True)
    weights, w_memory = held(handle, w, 1.0)
    handle.convolution_forward(x, w, conv, y)(None, w_memory, None)
    handle.convolution_backward_data(y, w, conv, x)(None, w_memory, None)
    plan = handle.convolution_backward_weights(y, x, conv, w)
    for alpha, beta, old, want in ((1, 0, np.nan, 0), (2, 0.5, 3, 1.5)):
        dw, memory = held(handle, w, old)
        plan(None, None, memory, alpha, beta)
        handle.finish()
        dw.fetch()
        assert (dw.view() == want).all()
    found = miopyx.miopenFindConvolutionForwardAlgorithm(handle, x, None, w, w_memory, conv, y, None, 9, None, 0, False)
    miopyx.miopenConvolutionForward(handle, 1, x, None, w, w_memory, conv, found[0].fwd_algo, 0, y, None, None, 0)
    solutions = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 9)
    miopyx.miopenConvolutionForwardImmediate(handle, w, w_memory, x, None, conv, y, None, None, 0,
                                             solutions[0].solution_id)
    handle.finish()
    weights.fetch()
    assert (weights.view() == 1).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("strided", [False, True])
def test_bias(handle, dtype, strided):
    usable(handle, dtype)
    y = TensorDescriptor(dtype, (0, 5, 3, 4))
    b = TensorDescriptor(dtype, (1, 5, 1, 1), (15, 3, 1, 1) if strided else None)
    for beta, old, want in ((0, np.nan, 0), (0.5, 3, 1.5)):
        db, memory = held(handle, b, old)
        miopyx.miopenConvolutionBackwardBias(handle, 2, y, None, beta, b, memory)
        handle.finish()
        db.fetch()
        assert (db.view() == want).all()
    miopyx.miopenConvolutionForwardBias(handle, 1, b, memory, 0, y, None)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("mode", "lens"), [
    ("spatial", (0, 5, 3, 4)), ("spatial", (2, 5, 0, 4)), ("spatial", (0, 3, 2, 3, 4)),
    ("per activation", (0, 5, 3, 4)), ("per activation", (2, 5, 0, 4))])
def test_batch_normalisation(handle, dtype, mode, lens):
    """Gradients and saved statistics of nothing are 0; running statistics stay."""
    usable(handle, dtype)
    x, parameters = TensorDescriptor(dtype, lens), TensorDescriptor()
    miopyx.miopenDeriveBNTensorDescriptor(parameters, x, mode)
    scale, bias, mean, variance, saved_mean, saved_inv = (
        held(handle, parameters, value) for value in (1, 2, 3, 4, np.nan, np.nan))
    miopyx.miopenBatchNormalizationForwardTraining(
        handle, mode, 1, 0, x, None, x, None, parameters, scale[1], bias[1], 0.5, mean[1], variance[1], 1e-5,
        saved_mean[1], saved_inv[1])
    miopyx.miopenBatchNormalizationForwardInference(
        handle, mode, 1, 0, x, None, x, None, parameters, scale[1], bias[1], mean[1], variance[1], 1e-5)
    dscale, dbias = held(handle, parameters, np.nan), held(handle, parameters, np.nan)
    miopyx.miopenBatchNormalizationBackward(
        handle, mode, 1, 0, 1, 0, x, None, x, None, x, None, parameters, scale[1], dscale[1], dbias[1], 1e-5,
        saved_mean[1], saved_inv[1])
    handle.finish()
    for (tensor, _), want in ((scale, 1), (bias, 2), (mean, 3), (variance, 4), (saved_mean, 0), (saved_inv, 0),
                              (dscale, 0), (dbias, 0)):
        tensor.fetch()
        assert (tensor.view() == want).all()


@pytest.mark.parametrize("mode", range(3))
def test_pooling(handle, mode):
    pool = PoolingDescriptor(mode, (3, 2), (1, 0), (2, 2))
    x = TensorDescriptor("float32", (0, 3, 7, 8))
    y = TensorDescriptor("float32", pool.output_lens(x))
    miopyx.miopenPoolingForward(handle, pool, 1, x, None, 0, y, None, True, None, 0)
    miopyx.miopenPoolingBackward(handle, pool, 1, y, None, y, None, x, None, 0, x, None, None)
    handle.pooling_forward(pool, x, y)(None, None)


@pytest.mark.parametrize("lens", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0), (0, 3)])
def test_element_wise(handle, lens):
    x = TensorDescriptor("float32", lens)
    one = TensorDescriptor("float32", (1,) * len(lens))
    ones, memory = held(handle, one, 1.0)
    miopyx.miopenOpTensor(handle, "add", 1, x, None, 1, one, memory, 0, x, None)
    miopyx.miopenSetTensor(handle, x, None, 3.0)
    miopyx.miopenScaleTensor(handle, x, None, 3.0)
    miopyx.miopenTransformTensor(handle, 1, x, None, 0, x, None)
    for algorithm in range(3):
        miopyx.miopenSoftmaxForward_V2(handle, 1, x, None, 0, x, None, algorithm, "channel")
        miopyx.miopenSoftmaxBackward_V2(handle, 1, x, None, x, None, 0, x, None, algorithm, "instance")
    relu = miopyx.ActivationDescriptor("relu", 0, 0, 0)
    miopyx.miopenActivationForward(handle, relu, 1, x, None, 0, x, None)
    miopyx.miopenActivationBackward(handle, relu, 1, x, None, x, None, x, None, 0, x, None)
    if len(lens) == 4:
        lrn = miopyx.LRNDescriptor("cross")
        size = miopyx.miopenLRNGetWorkSpaceSize(x)
        miopyx.miopenLRNForward(handle, lrn, 1, x, None, 0, x, None, True, None)
        miopyx.miopenLRNBackward(handle, lrn, 1, x, None, x, None, x, None, 0, x, None, None)
        assert size >= 0
    handle.finish()
    ones.fetch()
    assert (ones.view() == 1).all()


def test_buffers_are_not_looked_at(handle):
    x = TensorDescriptor("float32", (0, 3, 4, 5))
    for memory in (None, np.empty((0, 3, 4, 5), np.float32), "no memory at all"):
        miopyx.miopenSetTensor(handle, x, memory, 1.0)


def test_what_has_no_meaning(handle):
    conv, pool = ConvolutionDescriptor(), PoolingDescriptor("max", (1, 1))
    good = (2, 3, 4, 5)
    filters = TensorDescriptor("float32", (6, 3, 1, 1))
    for axis in range(1, 4):
        x = TensorDescriptor("float32", (*good[:axis], 0, *good[axis + 1:]))
        with pytest.raises(BadParmError, match=rf"lens\[{axis}\]"):
            conv.output_lens(x, filters)
        with pytest.raises(BadParmError, match=rf"lens\[{axis}\]"):
            pool.output_lens(x)
        with pytest.raises(BadParmError, match=r"lens|channels|lengths"):
            handle.convolution_forward(x, filters, conv, TensorDescriptor("float32", (2, 6, 4, 5)))
    x = TensorDescriptor("float32", good)
    for axis in range(4):
        w = TensorDescriptor("float32", (*filters.lens[:axis], 0, *filters.lens[axis + 1:]))
        with pytest.raises(BadParmError, match=rf"w.lens\[{axis}\]"):
            conv.output_lens(x, w)
    with pytest.raises(BadParmError, match=r"lens\[1\]"):
        miopyx.miopenDeriveBNTensorDescriptor(TensorDescriptor(), TensorDescriptor("float32", (2, 0, 4, 5)), "spatial")
    y = TensorDescriptor("float32", (1, 6, 4, 5))
    with pytest.raises(BadParmError, match="lengths"):
        handle.convolution_forward(TensorDescriptor("float32", (0, 3, 4, 5)), filters, conv, y)


def test_packed_strides():
    """As PyTorch's: where a length is 0 it counts as 1."""
    for lens, strides in (((0, 3, 4, 5), (60, 20, 5, 1)), ((2, 0, 4, 5), (20, 20, 5, 1)), ((2, 3, 0, 0), (3, 1, 1, 1))):
        desc = TensorDescriptor("float32", lens)
        other = TensorDescriptor()
        miopyx.miopenSet4dTensorDescriptor(other, "float32", *lens)
        assert desc.strides == other.strides == strides
        assert desc.nbytes == other.nbytes == 0
