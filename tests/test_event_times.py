"""Times of drivers whose events tell none: the host's clock takes their place, and the events' stands where they do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from miopyx.device import devices

# What a driver may say of an event: the stamps of Mesa's Rusticl 22.3, one stamp for all, nothing, 7 milliseconds.
STAMPS = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t clGetEventProfilingInfo(void *event, uint32_t what, size_t size, uint64_t *value, size_t *returned)
{
    const char *says = getenv("EVENTS");
    const uint64_t stamp = what - 0x1280; /* queued 0, submitted 1, started 2, ended 3 */
    *value = !strcmp(says, "order") ? stamp : 5000 + (stamp == 3 && !strcmp(says, "times")) * 7000000;
    return strcmp(says, "nothing") ? 0 : -7;
}
"""
CHILD = """
import ctypes, sys, time
import numpy as np
import miopyx
from miopyx.device import devices
from miopyx.runtime import _opencl
devices.loader_path()
ctypes.CDLL(sys.argv[1])
_opencl.load(sys.argv[1])
handle, desc = miopyx.Handle(sys.argv[2]), miopyx.TensorDescriptor("float32", (1 << 22,))
memory = handle.empty(desc)
handle.set_profiling(True)
for _ in range(3):
    start = time.perf_counter()
    miopyx.miopenSetTensor(handle, desc, memory, 1.0)
    handle.finish()
    print(miopyx.miopenGetKernelTime(handle), (time.perf_counter() - start) * 1e3)
"""


@pytest.fixture(scope="module")
def stamps(tmp_path_factory):
    """A library that answers for the loader's question, and has the loader for all others."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not devices.loader_library():
        pytest.skip("needs a compiler of C, and OpenCL")
    folder = tmp_path_factory.mktemp("stamps")
    (folder / "stamps.c").write_text(STAMPS, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", folder / "stamps.so", folder / "stamps.c",
                    devices.loader_library()], check=True)
    return folder / "stamps.so"


@pytest.mark.some(4)
@pytest.mark.parametrize("says", ["order", "one stamp", "nothing", "times"])
def test_times(stamps, opencl_name, says):
    done = subprocess.run([sys.executable, "-P", "-c", CHILD, str(stamps), opencl_name], capture_output=True, text=True,
                          env={**os.environ, "EVENTS": says}, check=False)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        kernel, whole = map(float, line.split())
        if says == "times":
            assert kernel == 7
        else:
            assert 0.01 < kernel <= whole
