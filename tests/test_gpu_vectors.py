"""Kernels for GPUs move dense tensors 16 bytes at a time: one number at a time is right as well, and half as fast."""

from __future__ import annotations

import re

import pytest

from miopyx import ActivationDescriptor, ReduceTensorDescriptor, TensorDescriptor, enums
from miopyx.runtime import programs

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}


@pytest.fixture
def gpu(opencl_name, pretend, request):
    """A handle that has built nothing yet."""
    return pretend(opencl_name, kind="gpu", name=request.node.name)


def desc(dtype, *lens):
    return TensorDescriptor(dtype, lens)


def norms(handle, dtype):
    x, w, s = desc(dtype, 6, 4096), desc(dtype, 4096), desc("float32", 6)
    yield handle.layer_norm_forward, (x, x, 1, w, w, s, s)
    yield handle.layer_norm_backward, (x, x, x, s, s, 1, w, w, w)
    yield handle.add_layer_norm_forward, (x, x, x, 1, w, w, s, s)
    yield handle.t5_layer_norm_forward, (x, x, w, s)
    yield handle.t5_layer_norm_backward, (x, x, x, s, w, w)
    images, channels, groups = desc(dtype, 2, 8, 16, 16), desc(dtype, 8), desc("float32", 2, 4)
    yield handle.group_norm_forward, (images, images, 4, channels, channels, groups, groups)


def elements(handle, dtype):
    x = desc(dtype, 3, 5, 8, 64)
    yield handle.copy_tensor, (x, x)
    yield handle.set_tensor, (x, 2.5)
    yield handle.scale_tensor, (x,)
    yield handle.op_tensor, (enums.miopenTensorOp_t.miopenTensorOpAdd, x, x, x)
    yield handle.activation_forward, (ActivationDescriptor(enums.miopenActivationMode_t.miopenActivationRELU), x, x)


def reductions(handle, dtype):
    a = desc(dtype, 24, 1024)
    yield handle.reduce_tensor, (ReduceTensorDescriptor(0, "float32", 1, 0), a, desc(dtype, 24, 1))
    yield handle.reduce_tensor, (ReduceTensorDescriptor(0, "float32", 1, 0), a, desc(dtype, 1, 1024))


def vectors(monkeypatch, make, args):
    """Return the VEC of each kernel that a plan builds."""
    build, seen = programs.build, []

    def build_and_look(device, file, options):
        seen.append((file, int(dict(re.findall(r"-D (\w+)=(\S+)", options)).get("VEC", 1))))
        return build(device, file, options)

    with monkeypatch.context() as patch:
        patch.setattr(programs, "build", build_and_look)
        make(*args)
    return seen


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize("operations", [norms, elements, reductions])
def test_dense_tensors(gpu, operations, dtype, monkeypatch):
    for make, args in operations(gpu, dtype):
        seen = vectors(monkeypatch, make, args)
        assert seen, f"{make.__name__} was prepared before"
        assert any(vec * SIZES[dtype] == 16 for _, vec in seen), (make.__name__, dtype, seen)


@pytest.mark.parametrize(("source", "target", "vec"), [
    ("float32", "bfloat16", 4), ("bfloat16", "float32", 4), ("float16", "bfloat16", 8), ("float32", "float16", 4),
    ("float64", "float32", 1), ("bfloat16", "float64", 1)])
def test_casts(gpu, source, target, vec, monkeypatch):
    """As many as 16 bytes of the wider type; to and from double precision one by one."""
    lens = (3, 5, 8, 64)
    seen = vectors(monkeypatch, gpu.cast_tensor, (desc(source, *lens), desc(target, *lens)))
    assert [one for _, one in seen] == [vec]


@pytest.mark.parametrize(("dtype", "vec"), [("int8", 16), ("int32", 4), ("float64", 2)])
def test_copies_of_other_types(gpu, dtype, vec, monkeypatch):
    x = desc(dtype, 3, 5, 8, 64)
    for make, args in ((gpu.copy_tensor, (x, x)), (gpu.set_tensor, (x, 3))):
        assert [one for _, one in vectors(monkeypatch, make, args)] == [vec], make.__name__
