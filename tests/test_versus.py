"""bench/versus.py on convolutions: its lists, and one layer measured."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases_reader import conv_case

BENCH = Path(__file__).parent.parent / "bench"


@pytest.fixture(scope="module")
def convolutions():
    spec = importlib.util.spec_from_file_location("bench_convolutions", BENCH / "convolutions.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_the_lists(convolutions):
    counts = {name: len({layer.text for layer in convolutions.layers(name, 4, [])}) for name in convolutions.LISTS}
    assert counts == {"resnet50": 23, "vgg16": 9, "googlenet": 49, "densenet121": 66, "inception3": 45, "extra": 15,
                      "depthwise": 19, "grouped": 5, "fft": 13, "small": 5, "modern": 19, "odd": 8, "volumes": 10,
                      "signals": 8, "sd-unet": 35, "unet3d": 23}
    for name in convolutions.LISTS:
        for layer in convolutions.layers(name, 4, []):
            assert min(layer.y_lens) > 0
            assert layer.c % layer.groups == layer.k % layer.groups == 0
    (stem,) = convolutions.layers("resnet50", 4, ["c=3"])
    assert stem.all_lens == ((4, 3, 224, 224), (64, 3, 7, 7), (4, 64, 112, 112))
    assert stem.products == 4 * 112 * 112 * 64 * 3 * 49
    grouped = next(iter(convolutions.layers("extra", 4, ["k=128", "groups=32"])))
    assert grouped.products == math.prod(grouped.y_lens) * 4 * 9
    swapped = next(iter(convolutions.layers("extra", 4, ["transpose", "c=128"])))
    assert swapped.all_lens[1:] == ((128, 64, 4, 4), (4, 64, 56, 56))
    assert swapped.products == math.prod(swapped.x_lens) * 64 * 16


def test_what_a_layer_moves(convolutions):
    """Of an image that is read only what the filter meets."""
    case = convolutions.case_of_line
    strided = case("c=8 in=10x10 k=4 filter=1x1 stride=2x2", n=2)
    assert convolutions.moved(strided, "F") == convolutions.moved(strided, "W") == 2 * 8 * 25 + 2 * 4 * 25 + 32
    assert convolutions.moved(strided, "B") == 2 * 8 * 100 + 2 * 4 * 25 + 32
    padded = case("c=8 in=10x10 k=4 filter=3x3 pad=1x1", n=2)
    assert convolutions.moved(padded, "F") == 2 * 8 * 100 + 2 * 4 * 100 + 32 * 9
    spread = case("c=8 in=5x5 k=4 filter=1x1 stride=2x2 mode=transpose", n=2)  # y has 9 x 9 pixels
    assert convolutions.moved(spread, "F") == 2 * 8 * 25 + 2 * 4 * 81 + 32
    assert convolutions.moved(spread, "B") == convolutions.moved(spread, "W") == 2 * 8 * 25 + 2 * 4 * 25 + 32


class Side:
    """A side that computed `values`."""

    def __init__(self, values):
        self.values = values

    def result(self, direction):
        return self.values


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_random_data_is_normal_and_lies_as_asked(convolutions, layout, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    layer = conv_case(4, 32, 16, (129, 65), (3, 3), (1, 1))
    data = convolutions.random_data(layer, np.dtype(getattr(ml_dtypes, name, name)), layout)
    assert tuple(values.shape for values in data.values()) == layer.all_lens
    for values in data.values():
        stored = np.moveaxis(values, 1, -1) if layout == "nhwc" else values
        assert stored.flags.c_contiguous
        assert values.dtype.name == name
    x = data["x"].astype(np.float64)
    assert len(np.unique(x[0, 0, 0])) > 50
    assert abs(x.mean()) < 5 / math.sqrt(x.size)
    assert abs(x.std() - 1) < 5 / math.sqrt(x.size)


@pytest.mark.parametrize("direction", "FBW")
def test_errors_are_found_in_the_part_that_is_checked(convolutions, handles, rng, monkeypatch, direction):
    """The true result has no error, a wrong element has one, all of it checked or a part."""
    layer = conv_case(4, 6, 8, (9, 7), (3, 3), (1, 1))
    data = {name: rng.standard_normal(lens) for name, lens in zip("xwy", layer.all_lens, strict=True)}
    name = {"F": "y", "B": "x", "W": "w"}[direction]
    x, w, y = (data[i] for i in "xwy")
    shifted = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(shifted, (3, 3), (2, 3))
    if direction == "F":
        true = np.einsum("nchwrs,kcrs->nkhw", windows, w)
    elif direction == "W":
        true = np.einsum("nchwrs,nkhw->kcrs", windows, y)
    else:
        spread = np.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(spread, (3, 3), (2, 3))
        true = np.einsum("nkhwrs,kcrs->nchw", windows, w[:, :, ::-1, ::-1])
    assert true.shape == data[name].shape
    for share in (1.0, 0.3):
        monkeypatch.setattr(convolutions, "CHECKED", share * 2 * layer.products)
        for place in ((0, 0, -1, -1), (-1, -1, 0, 0)):  # the first image and the last, or the filters
            wrong = true.copy()
            wrong[place] += 1.0
            found = convolutions.Truth(handles("host"), layer, data).errors(direction, [Side(true), Side(wrong)])
            assert found[0] < 1e-14
            assert found[1] > 1e-3


def test_errors_on_a_device_are_found_everywhere(convolutions, handles, rng, monkeypatch):
    """PyTorch's own float64 agrees with the host path, and any element counts."""
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(BENCH))
    versus = importlib.import_module("versus")
    layer = conv_case(4, 6, 8, (9, 7), (3, 3), (1, 1))
    data = {name: torch.from_numpy(rng.standard_normal(lens))
            for name, lens in zip("xwy", layer.all_lens, strict=True)}
    exact, host = versus.Theirs(torch, "cpu", "float64", "nchw"), handles("host")
    ours = convolutions.Prepared(versus.OursOfTensors(host, "float64", "nhwc", torch, "cpu"), layer, data)
    truth = convolutions.TruthOnDevice(exact, layer, data)
    for direction in "FBW":
        ours.run(direction, ours.plan(direction, layer.conv()))()
        wrong = ours.result(direction).clone()
        wrong[-1, -1, 0, 0] += 1.0
        found = truth.errors(direction, [ours, Side(wrong)])
        assert found[0] < 1e-14
        assert found[1] > 1e-3


@pytest.mark.some(1)
@pytest.mark.parametrize("plain", [False, True])
def test_one_layer_beside_pytorch(tmp_path, plain):
    pytest.importorskip("torch")
    result = tmp_path / "result.json"
    command = [sys.executable, str(BENCH / "versus.py"), "conv", "--list", "depthwise", "--only", "c=1024", "--batch",
               "1", "--repeat", "1", "--directions", "FW", "--json", str(result), *(["--plain", "--sync"] * plain)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(result.read_text())["rows"]
    assert [row["direction"] for row in rows] == ["forward", "weights"]
    for row in rows:
        assert 0 < row["miopyx"] < 10
        assert 0 < row["torch"] < 10
        assert ("alone" in row) is not plain
        assert 0 < row.get("alone", 1) <= 1
        assert ("torch_sync" in row) is plain
        assert row["error"] < 1e-5
        assert row["torch_error"] < 1e-5
    assert "times PyTorch's speed" in done.stdout
