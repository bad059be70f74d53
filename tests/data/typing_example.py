"""Never run: mypy --strict must agree with every line.  An ignored error that is none counts as one."""

from typing import assert_type

import numpy as np
import pyopencl

import miopyx
from miopyx import BadParmError, ConvolutionDescriptor, Handle, MIOpenError, Plan, TensorDescriptor
from miopyx.enums import (
    miopenConvAlgorithm_t,
    miopenConvFwdAlgorithm_t,
    miopenConvolutionMode_t,
    miopenDataType_t,
    miopenStatus_t,
)


def descriptors() -> None:
    x = TensorDescriptor("float32", (1, 3, 8, 8), layout=miopyx.miopenTensorNHWC)
    w = TensorDescriptor(np.float32, np.array([4, 3, 3, 3]))
    conv = ConvolutionDescriptor(pads=(1, 1), mode=miopyx.miopenTranspose)
    assert_type(x.lens, tuple[int, ...])
    assert_type(conv.output_lens(x, w), tuple[int, ...])
    assert_type(miopyx.miopenGetTensorDescriptor(x), tuple[miopenDataType_t, tuple[int, ...], tuple[int, ...]])
    assert_type(miopyx.miopenGetConvolutionForwardOutputDim(conv, x, w), tuple[int, int, int, int])
    mode, *_ = miopyx.miopenGetConvolutionDescriptor(conv)
    assert_type(mode, miopenConvolutionMode_t)
    miopyx.miopenSet4dTensorDescriptor(miopyx.miopenCreateTensorDescriptor(), miopyx.miopenFloat, 1, np.int64(3), 8, 8)
    miopyx.miopenSet4dTensorDescriptor(x, miopyx.miopenFloat, 1, 3.0, 8, 8)  # type: ignore[arg-type]
    miopyx.miopenSet4dTensorDescriptor(conv, miopyx.miopenFloat, 1, 3, 8, 8)  # type: ignore[arg-type]
    miopyx.miopenSet4dTensorDescriptor(x, miopyx.miopenFloat, 1, 3, 8)  # type: ignore[call-arg]
    x.lens = (1, 2)  # type: ignore[misc]


def run(queue: pyopencl.CommandQueue, x: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor) -> None:
    y = TensorDescriptor("float32", conv.output_lens(x, w))
    array = np.ones(3, "f4")
    with Handle(queue) as handle:
        assert_type(handle, Handle)
        solutions = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 3)
        assert_type(solutions[0].algorithm, miopenConvAlgorithm_t)
        assert_type(solutions[0].time, float)
        perfs = miopyx.miopenFindConvolutionForwardAlgorithm(
            handle, x, array, w, pyopencl.Buffer(queue.context, 0, 8), conv, y, bytearray(12), 1, None, 0, False)
        assert_type(perfs[0].fwd_algo, miopenConvFwdAlgorithm_t)
        miopyx.miopenConvolutionForward(handle, 1.0, x, array, w, array, conv, perfs[0].fwd_algo, 0, y, array, None, 0)
        miopyx.miopenConvolutionForward(
            handle, "1", x, array, w, array, conv, 0, 0, y, array, None, 0)  # type: ignore[arg-type]
        plan = handle.convolution_forward(x, w, conv, y, workspace_limit=0)
        assert_type(plan, Plan)
        plan(array, array, array, beta=1.0)
        assert_type(plan.explain(), str)
        assert_type(handle.download(handle.upload(array), array).shape, tuple[int])


def failures() -> None:
    try:
        miopyx.miopenDestroy(None)
    except BadParmError as e:
        assert_type(e.status, miopenStatus_t)
        assert_type(e.parameter, str | None)
    except MIOpenError as e:
        assert_type(miopyx.miopenGetErrorString(e.status), str)
