"""CUDA's driver as a runtime, on machines without one: what is called with what, and every way in which it can fail.

A stub stands in for libcuda (`data/libcuda_stub.c`): it has memory, streams and modules, and notes every call, but runs
no kernel.  On a machine with CUDA the tests of all devices run with ``--device cuda:0``.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import cuda_stub
import nvidia_programs
import pytest

from miopyx.errors import UnknownError
from miopyx.runtime import _cuda

BEGIN = """
import gc, os, sys
sys.path.insert(0, {tests!r})
import numpy as np
import cuda_stub, miopyx
from miopyx import TensorDescriptor
stub = cuda_stub.Stub()
cuda_stub.compile_by_clang()

def refused(call, *words, error=miopyx.MIOpenError):
    try:
        call()
    except error as e:
        assert all(word in str(e) for word in words), (words, str(e))
        return
    raise AssertionError(f"no error: {{words}}")

class Array:
    def __init__(self, buffer, shape, typestr="<f4", strides=None, at=0, read_only=False, **more):
        address = buffer if isinstance(buffer, int) else buffer.__cuda_array_interface__["data"][0] + at
        self.__cuda_array_interface__ = dict(shape=shape, typestr=typestr, data=(address, read_only), strides=strides,
                                             version=3, **more)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    found = cuda_stub.build(tmp_path_factory.mktemp("cuda")) if sys.platform == "linux" else None
    if found is None:
        pytest.skip("nothing compiles the stub")
    return found


@pytest.fixture
def no_opencl(tmp_path):
    """Variables with which a process finds no OpenCL device, NVIDIA's neither where the machine has one."""
    (tmp_path / "vendors").mkdir()
    return {"OCL_ICD_VENDORS": str(tmp_path / "vendors"), "OCL_ICD_FILENAMES": "", "OPENCL_VENDOR_PATH": ""}


@pytest.fixture
def run(library, tmp_path):
    """Return a function that runs a script on the stub, and what it printed."""

    def run_script(script, compiles=True, **variables):
        if compiles and nvidia_programs.clang() is None:
            pytest.skip("no clang that builds for NVIDIA's GPUs")
        environment = {**os.environ, "MIOPYX_LIBCUDA": str(library), "STUB_LOG": str(tmp_path / "log"), **variables}
        text = BEGIN.format(tests=str(Path(__file__).parent)) + textwrap.dedent(script)
        done = subprocess.run([sys.executable, "-P", "-c", text], env=environment, capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run_script


# Programs

PTX = b"""//
.version 8.0
.target sm_90
.address_size 64

.func  (.param .b32 out) helper(
	.param .b32 helper_0
)
{
	mov.u32 	%r1, %envreg3;
	ret;
}

.entry first(
	.param .u64 .ptr .global .align 4 first_param_0,
	.param .u32 first_param_1,
	.param .align 8 .b8 first_param_2[48]
)
.reqntid 64, 2, 1
{
	mov.b32 	%r1, %envreg0;
	mov.u32 	%r2, %ctaid.x;
	mov.u32 	%r3, %ctaid.y;
	mov.b32 	%r4, %envreg6;
	mov.u32 	%r5, %envreg3;
	ret;
}

.visible .entry second(
	.param .u64 .ptr .global .align 4 second_param_0
)
{
	mov.u32 	%r2, %ctaid.y;
	ret;
}

.entry third()
{
	mov.b32 	%r1, %envreg8;
	ret;
}
\0"""


def test_programs_of_opencl_are_made_launchable():
    text, entries = _cuda.launchable(PTX)
    assert b"%envreg" not in text
    assert text.endswith(b"\0")
    assert text.count(b"\0") == 1
    assert entries["first"][0] == [8, 4, 48]
    assert entries["first"][1]  # it asks where the launch begins
    assert entries["first"][3] == (64, 2, 1)
    assert entries["second"] == ([8], False, 0, (0, 0, 0), 0)
    assert entries["third"][0] == []
    assert entries["third"][1]
    assert b"ld.param.u32 \t%r1, [first_grid+0];" in text
    assert b"ld.param.u32 \t%r4, [first_grid+12];" in text
    assert b"mov.u32 \t%r5, 0;" in text
    assert b"[third_grid+20]" in text
    assert b"first_grid[24]" in text
    assert b"second_grid" not in text


def test_kernels_say_which_groups_run_at_once():
    for said, together in ((b"cluster 16", 16), (b"cooperative", -1), (b"dependent", -2), (b"alone", 0)):
        _, entries = _cuda.launchable(PTX.replace(b"%r4, %envreg6;", b"%%r4, %%envreg6; //launch: %s" % said))
        assert {name: entry[4] for name, entry in entries.items()} == {"first": together, "second": 0, "third": 0}


def test_a_launch_that_begins_early_may_have_many_groups(run):
    """Of the first axis, as any other launch: weights of 4096 x 4096 x 3 x 3 are 147456 groups that add up."""
    run("""
    handle = miopyx.Handle("cuda:0")
    x, w = (TensorDescriptor("float16", shape) for shape in ((1, 4096, 8, 8), (4096, 4096, 3, 3)))
    plan = handle.convolution_backward_weights(x, x, miopyx.ConvolutionDescriptor((1, 1), (1, 1), (1, 1)), w,
                                               solution_id=1106)  # NvWgmmaWrw
    dy, x, dw = handle.zeros(x), handle.zeros(x), handle.zeros(w)
    stub.calls()
    plan(dy, x, dw)
    calls = stub.calls()
    assert [call[1:4] for call in calls if call[0] == "cuLaunchKernelEx"] == [["1", "6", "1"]], calls
    name, grid = next(call[1:3] for call in reversed(calls) if call[0] == "cuLaunchKernel")
    assert name == "sum_tiles" and int(grid.split(",")[0]) > 65535, (name, grid)
    """)


def test_programs_that_read_unknown_registers_are_refused():
    with pytest.raises(UnknownError, match="%envreg31"):
        _cuda.launchable(PTX.replace(b"%envreg8", b"%envreg31"))


# Calls


def test_what_a_call_tells_the_driver(run):
    run("""
    handle = miopyx.Handle("cuda:0")
    assert handle.device.info.name == "nv-sm90_132" and handle.device.info.cuda == 0
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    plan = handle.op_tensor("add", d, d, d)
    x, y = handle.upload(np.arange(120, dtype="f4")), handle.zeros(d)
    assert (handle.download(x) == np.arange(120)).all() and not handle.download(y).any()
    base = x.__cuda_array_interface__["data"][0]
    plan(x, x, y)
    stub.calls()
    shifted = handle.empty((200,))
    plan(Array(shifted, (2, 3, 4, 5), at=16), x, y)
    handle.finish()
    calls = stub.calls()
    launch = next(call for call in calls if call[0] == "cuLaunchKernel")
    numbers = [int.from_bytes(bytes.fromhex(text), "little") for text in launch[-1].split(",")[:6]]
    whole = [numbers[i] + numbers[i + 1] for i in (0, 2, 4)]  # memory, and where a tensor begins in it
    assert shifted.__cuda_array_interface__["data"][0] + 16 in (whole[0], numbers[0] + 4 * numbers[1]), numbers
    assert base in whole
    # The context of others is as it was, and was asked for.
    names = [call[0] for call in calls]
    assert names.count("cuCtxPushCurrent_v2") == names.count("cuCtxPopCurrent_v2") > 0
    assert stub.live()[3] == 0
    stub.library.stub_make_current(0)
    stub.calls()
    plan(x, x, y)
    assert [call[0] for call in stub.calls()] == ["cuCtxGetCurrent", "cuLaunchKernel"]
    stub.library.stub_make_current(1)  # another device is current
    plan(x, x, y)
    assert [call[0] for call in stub.calls()] == ["cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLaunchKernel",
                                                  "cuCtxPopCurrent_v2"]
    """)


def test_memory_is_repeated_on_the_device(run):
    run("""
    handle = miopyx.Handle("cuda:0")
    some = np.arange(7, dtype="f4")
    for count in (1, 7, 8, 100):
        stub.calls()
        buffer = handle.repeated(some, 4 * count)
        calls = [call for call in stub.calls() if call[0].startswith("cuMemcpy")]
        assert [call[0] for call in calls] == ["cuMemcpyHtoDAsync_v2"] + ["cuMemcpyDtoDAsync_v2"] * {
            1: 0, 7: 0, 8: 1, 100: 4}[count], calls
        assert buffer.nbytes == 4 * count and (handle.download(buffer) == np.resize(some, count)).all()
    """, compiles=False)


def test_profiling_reads_events(run):
    run("""
    handle = miopyx.Handle("cuda")
    d = TensorDescriptor("float32", (64,) * 4)
    x, y = handle.zeros(d), handle.zeros(d)
    miopyx.miopenEnableProfiling(handle, True)
    handle.op_tensor("add", d, d, d)(x, x, y)
    assert miopyx.miopenGetKernelTime(handle) > 0
    assert stub.live()[1] == 0, "events are left"
    """)


def test_every_call_of_the_driver_may_fail(run):
    """Each call of a whole life fails in turn: an error of ours or nothing, nothing left behind, and all well after."""
    run("""
    def life():
        handle = miopyx.Handle("cuda:0")
        d = TensorDescriptor("float32", (4, 8, 5, 5))
        x, y = handle.upload(np.ones(d.lens, "f4")), handle.zeros(d)
        plan = handle.op_tensor("mul", d, d, d)
        miopyx.miopenEnableProfiling(handle, True)
        plan(x, Array(x, d.lens), y)
        miopyx.miopenEnableProfiling(handle, False)
        w = handle.upload(np.ones((8, 8, 1, 1), "f4"))
        conv = miopyx.ConvolutionDescriptor((0, 0), (1, 1), (1, 1))
        handle.convolution_forward(d, TensorDescriptor("float32", (8, 8, 1, 1)), conv, d)(x, w, y)
        handle.download(y)

    life(); gc.collect(); stub.calls()
    before = stub.live()
    life(); gc.collect()
    calls = [call[0] for call in stub.calls()]
    assert stub.live() == before
    turns = {}
    for name in calls:
        turns[name] = turns.get(name, 0) + 1
    assert len(turns) >= 14, turns
    errors = 0
    for name, count in turns.items():
        for nth in {1, count}:
            for code in {1: (2, 700)}.get(nth, (700,)):
                before = stub.live()
                stub.fail(name, nth, code)
                try:
                    life()
                except miopyx.MIOpenError as e:
                    errors += 1
                    assert isinstance(e, miopyx.AllocFailedError) == (code == 2), (name, str(e))
                gc.collect()
                left = stub.live()
                stub.fail("", 0, 0)
                if name not in ("cuMemFree_v2", "cuModuleUnload", "cuEventDestroy_v2", "cuCtxPopCurrent_v2",
                                "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuPointerGetAttributes"):
                    assert left == before, (name, nth, code, left, before)
    assert errors >= 1.5 * len(turns), (errors, turns)
    life()
    """)


def test_nothing_is_launched_for_empty_tensors(run):
    run("""
    handle = miopyx.Handle("cuda:0")
    desc = TensorDescriptor("float32", (0, 3, 4, 5))
    y = handle.zeros(desc)
    plan = handle.activation_forward(miopyx.ActivationDescriptor("relu"), desc, desc)
    for x in (None, handle.upload(np.ones(desc.lens, "f4"))):
        plan(x, y)
    assert handle.download(y).shape == desc.lens
    """)


def test_memory_that_does_not_fit(run):
    run("""
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    plan = handle.op_tensor("add", d, d, d)
    x, y = handle.zeros(d), handle.zeros(d)
    other = miopyx.Handle("cuda:1").zeros(d)
    def use(memory, *words):
        refused(lambda: plan(x, x, memory), *words, error=miopyx.BadParmError)
    use(other, "another device", "cuda:0")
    use(Array(other, (2, 3, 4, 5)), "another device")
    use(np.zeros((2, 3, 4, 5), "f4"), "host memory")
    use(12345, "no memory of CUDA")
    use(0, "null")
    use(-8, "not an address")
    use(None, "null")
    use("cuda", "not an array")
    use(handle.empty((119,)), "480")
    use(Array(y, (2, 3, 4, 5), at=2), "misaligned")
    use(Array(y, (2, 3, 4, 5), typestr="<f8"), "another type")
    use(Array(y, (2, 3, 4, 5), read_only=True), "read-only")
    use(Array(y, (2, 3, 4, 5), strides=(240, 80, 20, -4)), "negative stride")
    use(Array(y, (2, 3, 4, 5), strides=(4, 8, 24, 96)), "layout")
    use(Array(y, (2, 3, 4, 5), mask=y), "masked")
    use(Array(y, (0, 3, 4, 5)), "too small")
    use(Array(y, (2, 3, 4, 5), typestr="nonsense"), "__cuda_array_interface__")
    y.release()
    use(y, "released")
    plan(x, x, Array(x, (2, 3, 4, 5)))
    half = TensorDescriptor("bfloat16", (2, 3, 4, 5))
    z = handle.zeros(half)
    handle.op_tensor("add", half, half, half)(z, Array(z, (2, 3, 4, 5), typestr="<V2"), z)
    """)


def test_streams(run):
    run("""
    class Stream:  # as PyTorch's
        def __init__(self, address):
            self.cuda_stream = address
    a, b, far = stub.stream(), stub.stream(), stub.stream(1)
    handle = miopyx.Handle(stream=Stream(a))
    assert miopyx.miopenGetStream(handle).cuda_stream == a
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    x, y = handle.zeros(d), handle.zeros(d)
    plan = handle.op_tensor("add", d, d, d)
    plan(x, x, y)
    stub.calls()
    plan(Array(x, d.lens, stream=a), x, y)
    assert not any("Event" in call[0] for call in stub.calls())
    plan(Array(x, d.lens, stream=b), x, y)  # what b still writes is waited for
    calls = stub.calls()
    assert [call[1] for call in calls if call[0] == "cuEventRecord"] == [hex(b)], calls
    assert [call for call in calls if call[0] == "cuStreamWaitEvent"][0][1] == hex(a)
    assert calls[-2][0] == "cuLaunchKernel" or calls[-1][0] == "cuLaunchKernel"
    assert stub.live()[1] == 0
    miopyx.miopenSetStream(handle, b)
    plan(x, x, y)
    assert [call for call in stub.calls() if call[0] == "cuLaunchKernel"][-1][-2] == hex(b)
    assert miopyx.Handle(stream=far).device.info.cuda == 1
    refused(lambda: miopyx.Handle("cuda:0", stream=far), "another device")
    refused(lambda: miopyx.Handle("cuda:7"), "no such device", "cuda:1")
    refused(lambda: miopyx.Handle(stream=True), "stream")
    # A stream that is captured takes launches alone.
    graph = stub.stream()
    captured = miopyx.Handle(stream=graph)
    plan = captured.op_tensor("add", d, d, d)
    plan(x, x, y)
    stub.library.stub_capture(__import__("ctypes").c_void_p(graph), 1)
    stub.calls()
    plan(Array(x, d.lens, stream=b), x, y)
    names = [call[0] for call in stub.calls()]
    assert not {"cuStreamSynchronize", "cuMemAlloc_v2", "cuStreamWaitEvent"} & {*names}, names
    """)


def test_operations_on_arrays(run):
    """On the device and the stream that the first array names."""
    run("""
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    here, far = (miopyx.Handle(name).zeros(d) for name in ("cuda:0", "cuda:1"))
    a, b = stub.stream(), stub.stream()
    def launches():
        return [call[-2] for call in stub.calls() if call[0] == "cuLaunchKernel"]
    x = Array(here, d.lens, stream=a)
    assert miopyx.relu(x, out=x) is x
    launches()
    for stream in (a, b, a, a):
        x = Array(here, d.lens, stream=stream)
        miopyx.relu(x, out=x)
        assert launches() == [hex(stream)]
    miopyx.relu(x, out=Array(here, d.lens, stream=b))  # what b still does with it is waited for
    calls = stub.calls()
    assert [call[1] for call in calls if call[0] == "cuEventRecord"] == [hex(b)], calls
    miopyx.relu(x, out=x, handle=miopyx.Handle(stream=b))
    assert [call[-2] for call in stub.calls() if call[0] == "cuLaunchKernel"] == [hex(b)]
    x = Array(far, d.lens)
    miopyx.relu(x, out=x)
    refused(lambda: miopyx.relu(x, out=Array(here, d.lens)), "another device")
    refused(lambda: miopyx.relu(x, out=np.zeros(d.lens, "f4")), "host")
    refused(lambda: miopyx.relu(np.zeros(d.lens, "f4"), out=x), "another device")
    refused(lambda: miopyx.relu(x), "its library makes no arrays")
    for name in ("cpu", "cuda:0"):
        refused(lambda: miopyx.relu(x, out=x, handle=miopyx.Handle(name)), "another device")
    refused(lambda: miopyx.relu(np.zeros(d.lens, "f4"), handle=miopyx.Handle("cuda:0")), "host")
    """)


def test_fork(run):
    run("""
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    x, plan = handle.zeros(d), handle.op_tensor("add", d, d, d)
    plan(x, x, x)
    child = os.fork()
    if child == 0:
        try:
            refused(lambda: plan(x, x, x), "fork")
            refused(lambda: miopyx.Handle("cuda:0"))  # CUDA itself does not survive it
            del plan, x, handle
            gc.collect()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    plan(x, x, x)
    """)


def test_more_groups_than_a_launch_takes(run):
    """CUDA has 65,535 groups on the second axis and the third."""
    run("""
    from miopyx.runtime import _cuda
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (70000, 4, 1, 3))
    x = handle.zeros(d)
    y = handle.zeros(d)
    handle.softmax_forward(d, d)(x, y)
    for call in stub.calls():
        if call[0] == "cuLaunchKernel":
            assert all(int(n) <= 65535 for n in call[2].split(",")[1:]), call[:4]
    """)


def test_dlpack(run):
    run("""
    import ctypes
    class Device(ctypes.Structure):
        _fields_ = [("kind", ctypes.c_int32), ("id", ctypes.c_int32)]
    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                    ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                    ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
                    ("deleter", ctypes.c_void_p)]
    class Lender:
        def __init__(self, address, lens, device):
            self.lens = (ctypes.c_int64 * len(lens))(*lens)
            self.tensor = Tensor(address, Device(2, device), len(lens), 2, 32, 1, ctypes.addressof(self.lens), None, 0)
        def __dlpack_device__(self):
            return 2, self.tensor.device.id
        def __dlpack__(self, *, stream=None, max_version=None):
            self.stream = stream
            make = ctypes.pythonapi.PyCapsule_New
            make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
            return make(ctypes.addressof(self.tensor), b"dltensor", None)
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    x = handle.zeros(d)
    address = x.__cuda_array_interface__["data"][0]
    plan = handle.op_tensor("add", d, d, d)
    plan(x, Lender(address, d.lens, 0), x)
    refused(lambda: plan(x, Lender(address, d.lens, 1), x), "another device", "cuda:0")
    refused(lambda: plan(x, Lender(address, (2, 3, 4), 0), x), "480")
    """)


# Machines


def test_doctor_tells_of_cuda(run, no_opencl):
    out = run("""
    from miopyx.tools import cli
    cli.main(["doctor"])
    """, compiles=False, STUB_DEVICES="1", **no_opencl)
    assert re.search(r"cuda:0: nv-sm90_132, NVIDIA Stub, driver .*; no OpenCL device compiles for it", out)
    out = run("""
    from miopyx.tools import cli
    cli.main(["doctor"])
    """, compiles=False, STUB_DEVICES="0")
    assert "no CUDA" in out


def test_without_a_compiler_the_cache_serves(run, no_opencl, tmp_path):
    script = """
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    x = handle.zeros(d)
    handle.op_tensor("add", d, d, d)(x, x, x)
    handle.finish()
    miopyx.miopenDestroy(handle)
    """
    cache = {"MIOPEN_DISABLE_CACHE": "0", "MIOPYX_CACHE_DIR": str(tmp_path / "cache")}
    run(script, **cache)
    run("cuda_stub.undo()\n" + textwrap.dedent(script), **cache)
    run("""
    cuda_stub.undo()
    handle = miopyx.Handle("cuda:0")
    d = TensorDescriptor("float32", (2, 3, 4, 5))
    x = handle.zeros(d)
    refused(lambda: handle.op_tensor("add", d, d, d)(x, x, x), "NVIDIA's OpenCL", "cache")
    """, MIOPYX_CACHE_DIR=str(tmp_path / "empty"), **no_opencl)


@pytest.mark.parametrize("library", ["missing", "no library", "other library"])
def test_drivers_that_are_none(tmp_path, library):
    path = tmp_path / "libcuda.so.1"
    if library == "no library":
        path.write_text("nothing")
    elif library == "other library":
        import _ctypes

        path = Path(_ctypes.__file__)
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent("""
        import miopyx
        try:
            miopyx.Handle("cuda:0")
        except miopyx.MIOpenError as e:
            print("refused", e)
        miopyx.Handle("host")
        """)], env={**os.environ, "MIOPYX_LIBCUDA": str(path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout
    assert "MIOPYX_LIBCUDA" in done.stdout or "too old" in done.stdout or "cuInit" in done.stdout
