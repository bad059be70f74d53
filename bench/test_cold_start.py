"""What a process pays before its first result: importing, and the first convolution with everything on disk.

Each value is a process of its own that times itself from its first line; kinds of processes take turns.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

MS = 1e-3
TORCH_TURNS = 3  # of its processes, which take seconds
BEGIN = "import time; began = time.perf_counter()\n"
END = "\nimport sys; print(time.perf_counter() - began, int('pyopencl' in sys.modules))"

NUMPY = "import numpy"
MIOPYX = "import miopyx"
TORCH = "import torch"
QUEUE = """
import numpy, pyopencl
device = pyopencl.get_platforms()[{platform}].get_devices()[{device}]
queue = pyopencl.CommandQueue(pyopencl.Context([device]))
"""
PROBLEM = """
import numpy as np, miopyx
handle = miopyx.Handle({name})
conv = miopyx.ConvolutionDescriptor((1, 1))
x_desc, w_desc = miopyx.TensorDescriptor("float32", (1, 4, 8, 8)), miopyx.TensorDescriptor("float32", (4, 4, 3, 3))
y_desc = miopyx.TensorDescriptor("float32", conv.output_lens(x_desc, w_desc))
x, w, y = (handle.upload(np.ones(d.lens, np.float32)) for d in (x_desc, w_desc, y_desc))
"""
FIND = PROBLEM + """
size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w_desc, x_desc, conv, y_desc)
workspace = handle.upload(np.zeros(max(size, 1), np.uint8))
miopyx.miopenFindConvolutionForwardAlgorithm(handle, x_desc, x, w_desc, w, conv, y_desc, y, 1, workspace, size, False)
"""
FIRST = PROBLEM + """
(solution,) = miopyx.miopenConvolutionForwardGetSolution(handle, w_desc, x_desc, conv, y_desc, 1)
workspace = handle.upload(np.zeros(solution.workspace_size, np.uint8)) if solution.workspace_size else None
miopyx.miopenConvolutionForwardImmediate(handle, w_desc, w, x_desc, x, conv, y_desc, y, workspace,
                                         solution.workspace_size, solution.solution_id)
handle.finish()
"""
TORCH_FIRST = """
import torch
torch.nn.functional.conv2d(torch.ones(1, 4, 8, 8), torch.ones(4, 4, 3, 3), padding=1)
"""
BEST = """
from miopyx.device import devices
best = devices.best()
print([best.platform_index, best.device_index])
"""


@pytest.fixture
def process(child_environment):
    """Return a function that runs a script in a new process and returns its output."""

    def run(text):
        done = subprocess.run([sys.executable, "-P", "-c", text], env=child_environment, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


@pytest.fixture
def by_turns(process, request):
    """Return a function from scripts to the seconds that processes of each took, and which of them had pyopencl."""
    count = 1 if request.config.getoption("benchmark_disable") else request.config.getoption("--processes")

    def run(scripts):
        scripts = {name: BEGIN + text + END for name, text in scripts.items()}
        times = {name: [] for name in scripts}
        imported = set()
        for turn in range(count + 1):
            for name, text in scripts.items():
                if "torch" in name and turn > TORCH_TURNS:
                    continue
                seconds, pyopencl = process(text).split()
                if int(pyopencl):
                    imported.add(name)
                if turn:  # the first ones bring files into memory
                    times[name].append(float(seconds))
        return times, imported

    return run


def with_torch(scripts, name, text):
    return scripts | ({name: text} if importlib.util.find_spec("torch") else {})


def test_import(record, by_turns):
    times, imported = by_turns(with_torch({"miopyx": MIOPYX, "import numpy": NUMPY}, "import torch", TORCH))
    assert "miopyx" not in imported, "importing miopyx imports pyopencl"
    record("cold start", "import miopyx", "ms", times.pop("miopyx"), times, goal=60 * MS, beyond=True)


def test_first_convolution(record, by_turns, process):
    platform, index = json.loads(process(BEST))
    if platform < 0:
        pytest.skip("no OpenCL device")
    process(FIND.format(name=""))
    scripts = {"miopyx": FIRST.format(name=""), "pyopencl and a queue": QUEUE.format(platform=platform, device=index)}
    times, _ = by_turns(with_torch(scripts, "torch, first conv2d", TORCH_FIRST))
    record("cold start", "first convolution, programs and record on disk", "ms", times.pop("miopyx"), times,
           goal=30 * MS, beyond=True)


def test_first_convolution_on_host(record, by_turns, process):
    process(FIND.format(name="'host'"))
    scripts = {"miopyx": FIRST.format(name="'host'"), "import numpy": NUMPY}
    times, imported = by_turns(with_torch(scripts, "torch, first conv2d", TORCH_FIRST))
    assert "miopyx" not in imported, "the host path imports pyopencl"
    record("cold start", "first convolution on the host, record on disk", "ms", times.pop("miopyx"), times)
