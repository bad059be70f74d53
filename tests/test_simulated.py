"""A slice of what `tests/run_simulated.sh` runs on Oclgrind, and whether it finds what is wrong.

Without Oclgrind only the reader of its messages is tested.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import simulated

HERE = Path(__file__).parent
UNITS = {"cpu": ("operation: reduce", "operation: layer norm", "conv: listed"),
         "gpu": ("operation: softmax", "operation: getitem", "conv: depthwise")}
needs_oclgrind = pytest.mark.skipif(bool(simulated.why_not()), reason=simulated.why_not() or "is there")

LOG = """
Uninitialized value written to global memory address 0x5000000000190
\tKernel: fold
\tEntity: Global(2,0,0) Local(0,0,0) Group(2,0,0)
\t  store float %36, float addrspace(1)* %arrayidx194, align 4, !dbg !158
\tAt line 57 (column 17) of layers/reduce.h:
\t  (source not available)
\t

Read-write data race at global memory address 0x2000000000004
\tKernel: fold

\tFirst entity:  Global(0,0,0) Local(0,0,0) Group(0,0,0)
\tAt line 5 of a.cl:
\t  x[0] = 1;

\tSecond entity: Global(1,0,0) Local(0,0,0) Group(1,0,0)
\tAt line 6 of b.h:
\t  y = x[0];

1 warning generated.

Uninitialized value written to global memory address 0x5000000000000
\tKernel: round
\tEntity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\t  call spir_func void @_Z15vstore_half_rtedmPU3AS1Dh(double noundef %39, i64 noundef 0, half addrspace(1)* %38)
\tAt line 162 (column 13) of layers/bias.cl:
\t  (source not available)

Oclgrind - OpenCL runtime error detected
\tFunction: clCreateBuffer
\tError:    CL_INVALID_VALUE
"""


def test_messages_are_read():
    first, second, third = simulated.messages_of(LOG)
    assert first == simulated.Message("fold", "Uninitialized value written to global memory address",
                                      ("layers/reduce.h:57",))
    assert second == simulated.Message("fold", "Read-write data race at global memory address", ("a.cl:5", "b.h:6"))
    assert third.kernel == ""
    assert third.what.endswith("Function: clCreateBuffer; Error: CL_INVALID_VALUE")
    row = simulated.Tolerated("fold", second.what, "b.h:6", "why")
    assert second.is_tolerated([row])
    assert not first.is_tolerated([row])
    assert not second._replace(places=("a.cl:5",)).is_tolerated([row])


def test_what_is_tolerated_has_a_reason_and_a_place():
    for row in simulated.tolerated():
        file, _, line = row.place.rpartition(":")
        text = simulated.kernel_lines(file)
        assert row.reason, row
        assert 0 < int(line) <= len(text), row


def test_messages_of_shares_add_up(tmp_path):
    """What is tolerated apart from what is not."""
    row = simulated.tolerated()[0]
    messages = [[row.kernel, row.message, [row.place], 3], [row.kernel, row.message, ["another.cl:1"], 2]]
    share, whole = simulated.Tally(), simulated.Tally()
    share.add(simulated.Unit("one", "gpu", None), [{"name": "one", "skipped": False, "files": {}, "launched": [],
                                                    "wrong": "", "messages": messages}])
    share.write(str(tmp_path / "share"), "", False)
    whole.join(str(tmp_path / "share"))
    for tally in (share, whole):
        assert (sum(tally.tolerated.values()), sum(tally.findings.values())) == (3, 2)


@needs_oclgrind
@pytest.mark.parametrize(("view", "given"), [
    *((view, (*names, "--quick", "2")) for view, names in UNITS.items()),
    ("gpu", ("kernels: softmax", "--problem", "softmax 1 1 (1, 3, 65"))],  # others write an old result that was read
    ids=["cpu", "gpu", "old results"])
def test_a_slice(view, given):
    done = subprocess.run([sys.executable, "-P", HERE / "simulated.py", *given, "--view", view],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "findings                       0" in done.stdout
    counts = re.findall(r" ([0-9]+) problems,", done.stdout)
    assert counts
    assert "0" not in counts


def test_no_unit_is_an_error(capsys):
    with pytest.raises(SystemExit):
        simulated.main(["no such unit"])
    assert "no unit is so called" in capsys.readouterr().err


DEFECTS = """
__kernel void behind(__global float *x) { x[get_global_id(0) + 5] = 1; }
__kernel void race(__global float *x) { x[0] = get_local_id(0); }
__kernel void apart(__global float *x) { if (get_local_id(0) == 1) barrier(CLK_LOCAL_MEM_FENCE); }
__kernel void unset(__global float *x)
{
    __local float few[4];
    if (x[0] > 5)
        few[0] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_local_id(0) + 4] = few[0];
}
__kernel void right(__global float *x)
{
    float16 v = (float16)(x[get_local_id(0)]);
    const float8 half_ = v.lo + v.hi;
    x[get_local_id(0)] = half_.s7;
}
"""
RUN_THEM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, pyopencl as cl, simulated
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
whole = cl.Program(context, sys.argv[2]).build(cache_dir=False)
bitcode, names = simulated.Llvm().known(whole.get_info(cl.program_info.BINARIES)[0])
program = cl.Program(context, context.devices, [bitcode]).build()
for name in names:
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(8, "f4"))
    cl.Kernel(program, name)(queue, (4,), (4,), buffer)
    queue.finish()
print(json.dumps(names))
"""


@needs_oclgrind
def test_defects_are_found(tmp_path):
    variables = simulated.environment(tmp_path) | {"OCLGRIND_LOG": str(tmp_path / "log"), "OCLGRIND_CHECK_API": ""}
    variables = {name: value for name, value in variables.items() if value}
    done = subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", RUN_THEM, HERE, DEFECTS], env=variables,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["behind", "race", "apart", "unset", "right"]
    found = {(message.kernel, message.what) for message in simulated.messages_of((tmp_path / "log").read_text())}
    assert found == {("behind", "Invalid write of size 4 at global memory address"),
                     ("race", "Write-write data race at global memory address"),
                     ("apart", "Work-group divergence detected (barrier)"),
                     ("unset", "Uninitialized value written to global memory address")}


@needs_oclgrind
def test_wrong_calls_of_opencl_are_found(tmp_path):
    code = """
import pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
try:
    cl.Buffer(context, cl.mem_flags.READ_WRITE, 0)
except cl.Error:
    print("refused")
"""
    variables = simulated.environment(tmp_path) | {"OCLGRIND_LOG": str(tmp_path / "log")}
    done = subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", code], env=variables, capture_output=True,
                          text=True, check=False)
    assert done.stdout == "refused\n", done.stderr[-2000:]
    [message] = simulated.wrong_calls_of(done.stderr)
    assert "clCreateBuffer" in message.what
    assert "CL_INVALID_BUFFER_SIZE" in message.what
