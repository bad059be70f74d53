"""Descriptors as values: equal, hashed, copied, pickled; and made of arrays."""

import copy
import pickle

import numpy as np
import pytest

import miopyx
from miopyx import (
    ActivationDescriptor,
    BadParmError,
    ConvolutionDescriptor,
    LRNDescriptor,
    MIOpenError,
    PoolingDescriptor,
    SoftmaxDescriptor,
    TensorDescriptor,
)


def casting():
    desc = TensorDescriptor("float16", (2, 3))
    miopyx.miopenSetTensorCastType(desc, "float8_e4m3fnuz")
    return desc


def vectors(layout, lens):
    desc = TensorDescriptor()
    miopyx.miopenSetNdTensorDescriptorWithLayout(desc, "int8", layout, lens, 4)
    return desc


def set_conv(*attributes, mode=None):
    desc = ConvolutionDescriptor((1, 2), (3, 4), (2, 1), "transpose", 2, (1, 0))
    for attribute, value in attributes:
        miopyx.miopenSetConvolutionAttribute(desc, attribute, value)
    if mode is not None:
        miopyx.miopenSetConvolutionFindMode(desc, mode)
    return desc


MAKE = {
    "no tensor": TensorDescriptor, "tensor": lambda: TensorDescriptor("float32", (2, 3, 4, 5)),
    "other type": lambda: TensorDescriptor("float64", (2, 3, 4, 5)),
    "other lengths": lambda: TensorDescriptor("float32", (2, 3, 4, 6)),
    "channels last": lambda: TensorDescriptor("float32", (2, 3, 4, 5), layout="NHWC"),
    "gaps": lambda: TensorDescriptor("float32", (2, 3), (10, 2)), "casting": casting,
    "NCHWc4": lambda: vectors("NCHWc4", (2, 8, 3, 5)), "NCHWc8": lambda: vectors("NCHWc8", (2, 8, 3, 5)),
    "CHWNc4": lambda: vectors("CHWNc4", (2, 8, 3, 5)), "CHWNc8": lambda: vectors("CHWNc8", (1, 16, 1, 1)),
    "convolution": ConvolutionDescriptor, "volume": lambda: ConvolutionDescriptor((1, 1, 1)), "transposed": set_conv,
    "end pads": lambda: ConvolutionDescriptor((1, 2), end_pads=(2, 1)),
    "no end pads": lambda: ConvolutionDescriptor((1, 2)),
    "deterministic": lambda: set_conv((miopyx.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1)), "find": lambda: set_conv(
        mode=miopyx.miopenConvolutionFindModeFast),
    "rounding": lambda: set_conv((miopyx.MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, miopyx.miopenMathDefault)),
    "no pooling": PoolingDescriptor, "other mode": lambda: PoolingDescriptor("average"),
    "pooling": lambda: PoolingDescriptor("max", (2, 3), (0, 1), (2, 1)), "pooling of volumes": lambda:
        PoolingDescriptor("average", (2, 3, 4)), "indices": lambda: PoolingDescriptor(
        "max", (2, 3), (0, 1), (2, 1), "uint64", "image"),
    "propagating": lambda: PoolingDescriptor("max", (2, 3), (0, 1), (2, 1), nan_propagation=1),
    "indices like y": lambda: PoolingDescriptor("max", (2, 3), (0, 1), (2, 1), indices_like_y=True),
    "activation": lambda: ActivationDescriptor("relu"), "elu": lambda: ActivationDescriptor("elu", 0.3, 0.1, 0.7),
    **{name: lambda more={name: value}: PoolingDescriptor("average", (2, 3), (0, 1), (2, 1), **more)
       for name, value in (("dilations", (2, 1)), ("end_pads", (1, 0)), ("ceil_mode", True), ("divisor_override", -3))},
    "no lrn": LRNDescriptor, "lrn": lambda: LRNDescriptor("cross", 5, 0.1, 0.2, 0.3),
    "no reduction": miopyx.ReduceTensorDescriptor, "sum": lambda: miopyx.ReduceTensorDescriptor("add"),
    "extreme": lambda: miopyx.ReduceTensorDescriptor("max", "float64", 1, 1),
    "no dropout": miopyx.DropoutDescriptor, "dropout": lambda: miopyx.DropoutDescriptor(0.25, None, 0, 7, True),
    "softmax": lambda: SoftmaxDescriptor(), "log": lambda: SoftmaxDescriptor(algorithm="log"),
}


@pytest.mark.parametrize("name", MAKE)
def test_values(name):
    one = MAKE[name]()
    assert one == MAKE[name]()
    assert hash(one) == hash(MAKE[name]())
    for make in (copy.copy, copy.deepcopy, lambda desc: pickle.loads(pickle.dumps(desc))):
        other = make(one)
        assert other is not one
        assert other == one
        assert type(other) is type(one)
        assert repr(other) == repr(one)
    for another in MAKE:
        assert (MAKE[another]() == one) == (another == name), another
    assert one != repr(one)


def test_a_setting_makes_a_difference():
    one, other = TensorDescriptor("float32", (2, 3)), TensorDescriptor("float32", (2, 3))
    miopyx.miopenSetTensorDescriptor(other, "float32", 2, (3, 2), None)
    assert one != other
    miopyx.miopenSetTensorDescriptor(other, "float32", 2, (2, 3), None)
    assert one == other
    miopyx.miopenDestroyTensorDescriptor(other)
    assert one != other
    with pytest.raises(TypeError, match="destroyed"):
        copy.copy(other)


def test_a_broken_pickle_makes_no_descriptor():
    function, (kind, settings) = TensorDescriptor("float32", (2, 3)).__reduce__()
    (setting, _, *rest), = settings
    with pytest.raises(BadParmError):
        function(kind, ((setting, 99, *rest),))


def test_what_cannot_be_pickled_says_why(host):
    desc = TensorDescriptor("float32", (1, 1, 2, 2))
    plan = host.activation_forward(ActivationDescriptor("relu"), desc, desc)
    for thing in (plan, host):
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="descriptors"):
                make(thing)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_descriptors_of_arrays(kind):
    arrays = [np.ones((2, 3, 4, 5), np.float32), np.ones((2, 4, 5, 3), np.float16).transpose(0, 3, 1, 2),
              np.ones((2, 3, 8), np.float64)[:, :, ::2], np.ones((1, 3, 1, 2), np.int8)]
    if kind == "torch":
        torch = pytest.importorskip("torch")
        arrays = [torch.from_numpy(a) for a in arrays] + [torch.ones(2, 3, dtype=torch.bfloat16)]
    for array in arrays:
        desc = TensorDescriptor.of(array)
        assert desc.lens == tuple(array.shape)
        assert desc.dtype == str(array.dtype).rpartition(".")[2]
        strides = array.stride() if kind == "torch" else [s // array.itemsize for s in array.strides]
        assert all(n == 1 or a == b for n, a, b in zip(desc.lens, desc.strides, strides, strict=True))
    odd = np.lib.stride_tricks.as_strided(np.ones(9, np.float32), (2, 1, 3), (12, 0, 4))
    assert TensorDescriptor.of(odd) == TensorDescriptor("float32", (2, 1, 3))
    empty = arrays[0][:, :0]
    assert TensorDescriptor.of(empty) == TensorDescriptor("float32", (2, 0, 4, 5))
    for wrong in (np.ones(3, bool), np.broadcast_to(np.ones(1, np.float32), 3), np.ones(4, np.float32)[::-1],
                  np.ones(()), 5, None, "text"):
        with pytest.raises(MIOpenError):
            TensorDescriptor.of(wrong)


def test_memory_made_by_a_handle(handle):
    """Its type, lengths and strides come back with it."""
    for dtype in ("float32", "float16", "bfloat16", "int8"):
        zeros = handle.zeros((2, 3, 4), dtype)
        got = handle.download(zeros)
        assert got.shape == (2, 3, 4)
        assert got.dtype.name == dtype
        assert not got.astype(float).any()
        values = np.arange(24).reshape(2, 3, 4).astype(got.dtype)
        np.testing.assert_array_equal(handle.download(handle.upload(values)), values)
        for empty in (handle.zeros((2, 0, 4), dtype), handle.upload(values[:, :0])):
            got = handle.download(empty)
            assert (got.shape, got.dtype) == ((2, 0, 4), values.dtype)
    desc = TensorDescriptor("float32", (2, 3, 4, 5), layout="NHWC")
    x, y = handle.upload(np.linspace(-1, 1, 120, dtype=np.float32).reshape(2, 4, 5, 3)), handle.empty(desc)
    handle.activation_forward(ActivationDescriptor("abs"), desc, desc)(x, y)
    got = handle.download(y)
    assert got.shape == desc.lens
    assert got.strides == tuple(4 * s for s in desc.strides)
    np.testing.assert_array_equal(got.transpose(0, 2, 3, 1), np.abs(handle.download(x)))
    # As it lies in memory.
    np.testing.assert_array_equal(handle.download(y, np.empty((2, 4, 5, 3), np.float32)), np.abs(handle.download(x)))
    for wrong in ((), (-1, 2), TensorDescriptor(), "text", None, 5):
        for make in (handle.empty, handle.zeros):
            with pytest.raises(MIOpenError):
                make(wrong)
    with pytest.raises(BadParmError):
        handle.empty((2,), "float99")
    with pytest.raises(BadParmError):
        handle.download(object())


def test_a_foreign_buffer_has_no_shape(opencl_handle):
    pyopencl = pytest.importorskip("pyopencl")
    buffer = pyopencl.Buffer(opencl_handle.queue.context, pyopencl.mem_flags.READ_WRITE, 16)
    with pytest.raises(BadParmError, match="neither type nor lengths"):
        opencl_handle.download(buffer)
    assert opencl_handle.download(buffer, np.empty(4, np.float32)).shape == (4,)
