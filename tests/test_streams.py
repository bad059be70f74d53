"""Results too large for the caches, which CPU devices write past them: any alignment, every element.

Nothing here is large: the device is told that its caches hold nothing.
"""

import ml_dtypes
import numpy as np
import pytest

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor

ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}
SHAPE = (3, 5, 61, 63)


@pytest.fixture(params=ROUNDOFF)
def dtype(request):
    return request.param


@pytest.fixture
def handle(opencl_name, setting):
    setting(MIOPYX_STREAM_BYTES=0)
    with miopyx.Handle(opencl_name) as fresh:
        if not fresh.device.is_cpu:
            pytest.skip("GPUs write past nothing")
        assert fresh.device.stream_bytes == 0
        yield fresh


def test_the_limit_follows_from_the_cache(opencl_name, setting):
    with miopyx.Handle(opencl_name) as handle:
        assert handle.device.stream_bytes == 2 * handle.queue.device.global_mem_cache_size or 64 << 20
    setting(MIOPYX_STREAM_BYTES=12345)
    with miopyx.Handle(opencl_name) as handle:
        assert handle.device.stream_bytes == 12345


class Memory:
    """Arrays that begin at any element, with a guard at either end."""

    def __init__(self, dtype, shape, rng):
        self.dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
        self.shape, self.rng, self.size = shape, rng, int(np.prod(shape))
        self.desc = TensorDescriptor(dtype, shape)
        self.guarded = []

    def new(self, values=None):
        skipped = int(self.rng.integers(1, 40))
        whole = np.full(self.size + 80, 7, self.dtype)
        array = whole[skipped:skipped + self.size].reshape(self.shape)
        array[...] = np.nan if values is None else values
        self.guarded.append((whole, skipped))
        return array

    def random(self):
        return self.new(self.rng.standard_normal(self.shape, np.float32))

    def check_guards(self):
        for whole, skipped in self.guarded:
            assert (whole[:skipped] == 7).all()
            assert (whole[skipped + self.size:] == 7).all()


@pytest.fixture
def memory(handle, dtype, rng):
    made = Memory(dtype, SHAPE, rng)
    yield made
    made.check_guards()


def close(got, want, magnitude, dtype, units):
    assert np.isfinite(got.astype(np.float64)).all()
    error = np.abs(got.astype(np.float64) - want)
    limit = units * ROUNDOFF[dtype] * magnitude + (2.0**-24 if dtype == "float16" else 0)
    assert (error <= limit).all(), (error / limit).max()


def test_activation(handle, memory, dtype):
    relu = ActivationDescriptor(3, 1, 1, 1)
    x, dy, y, dx = memory.random(), memory.random(), memory.new(), memory.new()
    handle.activation_forward(relu, memory.desc, memory.desc)(x, y)
    np.testing.assert_array_equal(y, np.where(x > 0, x, 0).astype(x.dtype))
    handle.activation_backward(relu, *[memory.desc] * 4)(y, dy, x, dx)
    np.testing.assert_array_equal(dx, np.where(x > 0, dy, 0).astype(x.dtype))
    handle.activation_forward(relu, memory.desc, memory.desc)(x, x)  # in place
    np.testing.assert_array_equal(x, y)


def test_tensor_operations(handle, memory, dtype):
    a, b, c = memory.random(), memory.random(), memory.random()
    bias_desc = TensorDescriptor(dtype, (1, memory.shape[1], 1, 1))
    bias = memory.rng.standard_normal(bias_desc.lens).astype(memory.dtype)
    wide = [v.astype(np.float64) for v in (a, b, bias, c)]
    magnitude = 2 * abs(wide[0]) + 3 * abs(wide[1]) + abs(wide[3])
    handle.op_tensor(0, memory.desc, memory.desc, memory.desc)(a, b, c, 2.0, 3.0, 1.0)
    close(c, 2 * wide[0] + 3 * wide[1] + wide[3], magnitude, dtype, 5)
    c[...] = np.nan
    handle.op_tensor(0, memory.desc, bias_desc, memory.desc)(a, bias, c)
    close(c, wide[0] + wide[2], abs(wide[0]) + abs(wide[2]), dtype, 2)
    c[...] = np.nan
    miopyx.copy_tensor(handle, memory.desc, a, memory.desc, c)
    np.testing.assert_array_equal(c, a)
    handle.scale_tensor(memory.desc)(c, -2.0)
    np.testing.assert_array_equal(c, -2 * a)


@pytest.mark.some(2, host=8)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_batch_norm(handle, memory, dtype, layout):
    if layout == "nhwc":  # channels side by side, in whole vectors and one that is not
        memory.shape = (3, 23, 19, 37)
        memory.size = int(np.prod(memory.shape))
        memory.desc = TensorDescriptor(dtype, (3, 37, 23, 19), layout=miopyx.miopenTensorLayout_t.miopenTensorNHWC)
        axes, channels = (0, 1, 2), 37
    else:
        axes, channels = (0, 2, 3), memory.shape[1]
    derived = miopyx.miopenCreateTensorDescriptor()
    miopyx.miopenDeriveBNTensorDescriptor(derived, memory.desc, 1)
    x, dy, y, dx = memory.random(), memory.random(), memory.new(), memory.new()
    shape = tuple(1 if i in axes else channels for i in range(4))
    parameters = np.float64 if dtype == "float64" else np.float32
    scale, bias, mean, inv, dscale, dbias = (memory.rng.standard_normal(channels).astype(parameters)
                                             for _ in range(6))
    nothing = None, None
    handle.batch_norm_training(1, memory.desc, memory.desc, derived, running=False)(
        x, y, scale, bias, *nothing, mean, inv)
    wide, gradient = x.astype(np.float64), dy.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    g = scale.astype(np.float64).reshape(shape)
    want = g * centred * inverse + bias.reshape(shape)
    sums = {"float32": 64, "float64": 256}.get(dtype, 2)  # 16-bit tensors have float32 statistics
    close(y, want, abs(g * centred * inverse) + abs(bias.reshape(shape)) + abs(g), dtype, sums)
    handle.batch_norm_backward(1, memory.desc, memory.desc, memory.desc, derived)(
        x, dy, dx, scale, dscale, dbias, mean, inv)
    hat = centred * inverse
    want = g * inverse * (gradient - gradient.mean(axes, keepdims=True)
                          - hat * (gradient * hat).mean(axes, keepdims=True))
    close(dx, want, abs(g) * inverse * (abs(gradient) + abs(hat) + 1), dtype, sums)
