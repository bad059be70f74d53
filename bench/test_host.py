"""The host path beside PyTorch in float64: a few of ResNet-50's layers; host_against_torch.py has them all."""

from __future__ import annotations

import os

import host_against_torch
import numpy as np
import pytest
from measuring import Loop

LAYERS = [(3, 224, 64, 7, 2, 3), (64, 56, 64, 3, 1, 1), (256, 56, 64, 1, 1, 0), (512, 7, 512, 3, 1, 1)]


@pytest.fixture(autouse=True)
def _torch_threads():
    if host_against_torch.torch is not None:
        host_against_torch.torch.set_num_threads(len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("direction", host_against_torch.DIRECTIONS)
@pytest.mark.parametrize("layer", LAYERS, ids=host_against_torch.name_of)
def test_layer(row, handles, layer, direction):
    which = host_against_torch.DIRECTIONS.index(direction)
    ours, peers, flops = host_against_torch.prepare(handles("host"), layer, 1, np.random.default_rng())
    beside = {} if peers is None else {"torch, float64": Loop("f()", f=peers[which])}
    row("host path, sums in float64, batch 1", f"{host_against_torch.name_of(layer)} {direction}",
        Loop("f()", f=ours[which]), beside, unit="GFLOP/s", relative=True, flops=flops)
