"""Convolutions on OpenCL devices beside PyTorch on this machine's CPU, float32, the result awaited."""

from __future__ import annotations

import os

import numpy as np
import pytest
from host_against_torch import name_of, torch
from measuring import Loop

import miopyx

LAYERS = [(3, 224, 64, 7, 2, 3), (64, 56, 64, 3, 1, 1), (256, 56, 64, 1, 1, 0), (512, 7, 512, 3, 1, 1)]


@pytest.fixture(autouse=True)
def _torch_threads():
    if torch is not None:
        torch.set_num_threads(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("layer", LAYERS, ids=name_of)
def test_layer(row, handles, worker_name, layer):
    c, h, k, r, stride, pad = layer
    handle, rng = handles(worker_name), np.random.default_rng()
    conv = miopyx.ConvolutionDescriptor((pad, pad), (stride, stride))
    x_desc, w_desc = (miopyx.TensorDescriptor("float32", lens) for lens in ((1, c, h, h), (k, c, r, r)))
    y_desc = miopyx.TensorDescriptor("float32", conv.output_lens(x_desc, w_desc))
    x, w, y = (rng.standard_normal(d.lens, dtype=np.float32) for d in (x_desc, w_desc, y_desc))
    data = [handle.upload(a) for a in (x, w, y)]
    size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w_desc, x_desc, conv, y_desc)
    workspace = handle.upload(np.zeros(max(size, 1), np.uint8))
    miopyx.miopenFindConvolutionForwardAlgorithm(handle, x_desc, data[0], w_desc, data[1], conv, y_desc, data[2], 1,
                                                 workspace, size, False)
    plan = handle.convolution_forward(x_desc, w_desc, conv, y_desc)
    peers = {}
    if torch is not None:
        peers["torch F.conv2d on the CPU"] = Loop("f(x, w, None, s, p)", f=torch.nn.functional.conv2d,
                                                  x=torch.from_numpy(x), w=torch.from_numpy(w), s=stride, p=pad)
    row(f"kernels on {worker_name}, float32, batch 1", f"{name_of(layer)}, {plan.solver.name}",
        Loop("p(x, w, y); finish()", p=plan, x=data[0], w=data[1], y=data[2], finish=handle.finish), peers,
        unit="GFLOP/s", relative=True, flops=2 * y.size * c * r * r)
