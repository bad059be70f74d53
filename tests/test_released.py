"""Buffers that are gone before a call sees them: an error, never a crash.  Each in a process that may die of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
import miopyx as mi

handle = mi.Handle(sys.argv[1])
context, size = handle.queue.context, 4 * 2 * 3 * 8 * 8
desc = mi.TensorDescriptor("float32", (2, 3, 8, 8))
relu = mi.ActivationDescriptor(mi.miopenActivationRELU)
plan = handle.activation_forward(relu, desc, desc)
x, y = (handle.upload(np.ones(desc.lens, np.float32)) for _ in range(2))
rw = cl.mem_flags.READ_WRITE


def upload():
    return handle.upload(np.ones(desc.lens, np.float32))


def foreign():
    return cl.Buffer(context, rw, size)


def reused():  # the released one's memory may be another buffer's by now
    gone = foreign()
    gone.release()
    others.extend(foreign() for _ in range(8))
    return gone


def number():
    buffer = foreign()
    address = buffer.int_ptr
    buffer.release()
    return address


def array():
    made = cl_array.empty(handle.queue, desc.lens, np.float32)
    made.base_data.release()
    return made


def region():
    sub = whole.get_sub_region(0, size)
    sub.release()
    return sub


def named():
    first = foreign()
    again = cl.Buffer.from_int_ptr(first.int_ptr, retain=True)
    again.release()
    first.release()
    return again


others, whole = [], cl.Buffer(context, rw, 1 << 16)
ways = {"upload": upload, "foreign": foreign, "reused": reused, "number": number, "array": array, "region": region,
        "named": named, "wild": lambda: 0xDEAD0000, "heap": lambda: id(plan) & ~7, "device": lambda: 64}
gone = ways[sys.argv[2]]()
if sys.argv[2] in ("upload", "foreign"):
    gone.release()
back = np.ones(desc.lens, np.float32)
for call in (lambda: plan(gone, y), lambda: plan(x, gone), lambda: handle.download(gone, back),
             lambda: mi.miopenActivationForward(handle, relu, 1.0, desc, gone, 0.0, desc, y)):
    try:
        call()
    except mi.BadParmError as e:
        print("refused", e)
    else:
        print("taken")
plan(x, y)
assert (handle.download(y, np.empty(desc.lens, np.float32)) == 1).all()
"""


@pytest.mark.parametrize("way", ["upload", "foreign", "reused", "number", "array", "region", "named", "wild", "heap",
                                 "device"])
def test_gone_before_its_first_use(opencl_name, way):
    done = subprocess.run([sys.executable, "-P", "-c", PROGRAM, opencl_name, way], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("refused miopenStatusBadParm") for line in lines), done.stdout
    if way in ("upload", "foreign", "reused"):
        assert all("buffer was released" in line for line in lines), done.stdout
