"""The child process that tries one OpenCL device: builds, runs and compares, and does it again from the binary.

A script of its own that imports nothing of the package, since whatever happens to it must not matter.  Takes one
argument, the JSON request of `probing._run_child`; prints one line of JSON with `ok`, `why` and the request's nonce.
Then it goes on (`trying`) and prints a line for each thing more that it finds out: how fast the device is (`clock`,
`bandwidth`) and, on CPUs, whether kernels work on memory that the driver knows nothing of (`pointers`).  Should one of
these end the process, the lines before it stand.
Asked for the platforms only, it lists them: what counts then is that it lives to tell.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

GROUP = 16
SIZE = 257 * GROUP
# Of a chain of multiply-adds, each of which waits for the one before, and bytes that are copied, which no last cache
# holds: more and more of them, until a launch takes long enough for what surrounds it not to count.
LINKS = tuple(1 << i for i in range(12, 25, 3))
COPIED = tuple(1 << i for i in range(18, 28, 3))
LINKS_SECONDS, LONG_SECONDS = 2e-3, 0.1
TURNS = 3

# Integer and float arithmetic on one hand, local memory and a barrier on the other, a struct by value that is walked
# like those of operations in between.  All values are exact in float.
SOURCE = """
typedef struct {
    long len[2];
    long stride[2][2];
} shape;

__kernel void scale(__global const float *x, __global const int *n, __global float *y, float a)
{
    size_t i = get_global_id(0);
    y[i] = a * x[i] + (float)(n[i] * 3 - 1);
}

__kernel void walk(__global const float *x, __global float *y, const shape s)
{
    long line = get_global_id(0), from = 0, to = 0;
    for (int axis = 1; axis >= 0; axis--) {
        from += line % s.len[axis] * s.stride[1][axis];
        to += line % s.len[axis] * s.stride[0][axis];
        line /= s.len[axis];
    }
    y[to] = x[from];
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void turn(__global const float *x, __global float *y)
{
    __local float tile[GROUP];
    size_t l = get_local_id(0);
    tile[l] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = tile[GROUP - 1 - l] + 1.0f;
}

__kernel void chain(__global float *y, float a, int links)
{
    float x = y[get_global_id(0)];
    for (int i = 0; i < links; i += 8) {
        x = fma(x, a, 1.0f); x = fma(x, a, 1.0f); x = fma(x, a, 1.0f); x = fma(x, a, 1.0f);
        x = fma(x, a, 1.0f); x = fma(x, a, 1.0f); x = fma(x, a, 1.0f); x = fma(x, a, 1.0f);
    }
    y[get_global_id(0)] = x;
}

__kernel void copy(__global const float8 *x, __global float8 *y)
{
    size_t i = get_global_id(0);
    y[i] = x[i];
}
"""


def main(argument: str) -> int:
    request = json.loads(argument)
    sys.path[:] = request["path"]
    # pyopencl's caches unpickle what they find in the user's folder; nothing of that is wanted here.
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    step = ["import of pyopencl"]
    more: list[Callable[[], dict[str, Any]]] = []
    found: dict[str, Any] = {}

    def answer(trying: bool) -> None:
        sys.stdout.write("\n" + json.dumps(
            {"nonce": request["nonce"], "ok": not why, "why": why, "trying": trying, **found}) + "\n")
        sys.stdout.flush()

    try:
        why = try_device(request, step, more)
    except Exception as e:
        why = f"{step[0]} failed: {shortened(e)}"
    answer(bool(more))
    for i, find in enumerate(more, 1):
        with contextlib.suppress(Exception):
            found |= find()
        answer(i < len(more))
    return 0


def shortened(error: Exception) -> str:
    """Return an error without what pyopencl repeats and frames a build log with."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[0].split(" - ")[0] if lines else ""
    log = [line for line in lines[1:] if not line.startswith(("Build on <", "(options:", "(source saved"))]
    return "; ".join([f"{type(error).__name__}: {first}", *log[:4]])


def try_device(request: dict[str, Any], step: list[str], more: list[Callable[[], dict[str, Any]]]) -> str:
    """Return why the device does not work, or an empty text; `step` holds what is being done, `more` gets what is left.
    """
    import ctypes

    for library in request["preload"]:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    import time

    import numpy as np
    import pyopencl as cl

    step[0] = "looking for the device"
    if request.get("platforms_only"):
        with contextlib.suppress(cl.Error):  # none at all is an answer, too
            for platform in cl.get_platforms():
                with contextlib.suppress(cl.Error):
                    platform.get_devices()
        return ""
    device = same_device(cl.get_platforms(), request)
    if device is None:
        return "a child process does not see this device"

    step[0] = "creating a context"
    context = cl.Context([device])
    queue = cl.CommandQueue(context, device)
    flags = cl.mem_flags
    # PoCL and NVIDIA keep what they built: the nonce makes this source one that nobody has built before.
    options = [f"-DGROUP={GROUP}", f"-DNONCE={int(request['nonce'], 16) & 0x7FFFFFFF}"]
    source = f"/* {request['nonce']} */{SOURCE}"

    x = np.arange(SIZE, dtype=np.float32) - 100
    n = (np.arange(SIZE, dtype=np.int32) * 7) % 1000 - 500
    expected = np.float32(2.5) * x + (n * 3 - 1).astype(np.float32)
    expected = expected.reshape(-1, GROUP).T.reshape(-1, GROUP)[:, ::-1].ravel() + np.float32(1)
    rows = SIZE // GROUP
    shape = np.array([rows, GROUP, 1, rows, GROUP, 1], np.int64).tobytes()  # lengths, strides of y, of x: transposed

    def launch(program: Any, memory: tuple[Any, ...]) -> None:
        a, b, middle, walked, output = memory
        launches: tuple[tuple[str, tuple[Any, ...]], ...] = (
            ("scale", (a, b, middle, np.float32(2.5))), ("walk", (middle, walked, shape)), ("turn", (walked, output)))
        for name, arguments in launches:
            kernel = cl.Kernel(program, name)
            for i, value in enumerate(arguments):
                kernel.set_arg(i, value)
            cl.enqueue_nd_range_kernel(queue, kernel, (SIZE,), (GROUP,))

    def seconds(kernel: Any, size: int) -> float:
        """Return the least time of a few launches; the first one, with which drivers compile, does not count."""
        times: list[float] = []
        while len(times) <= TURNS and (len(times) < 2 or min(times[1:]) < LONG_SECONDS):
            began = time.perf_counter()
            cl.enqueue_nd_range_kernel(queue, kernel, (size,), None)
            queue.finish()
            times.append(time.perf_counter() - began)
        return min(times[1:])

    def speeds() -> dict[str, Any]:
        kernel = cl.Kernel(program, "chain")
        memory = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x)]
        kernel.set_arg(0, memory[0])
        kernel.set_arg(1, np.float32(0.5))
        clock = bandwidth = 0.0
        for links in LINKS:
            kernel.set_arg(2, np.int32(links))
            taken = seconds(kernel, 1)
            clock = links / taken * 1e-6
            if taken > LINKS_SECONDS:
                break
        kernel = cl.Kernel(program, "copy")
        for copied in COPIED:
            if copied > device.max_mem_alloc_size // 8:
                break
            memory = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ones(copied, np.uint8))
                      for _ in range(2)]
            for i, each in enumerate(memory):
                kernel.set_arg(i, each)
            taken = seconds(kernel, copied // 32)
            bandwidth = 2 * copied / taken * 1e-9
            if taken > LONG_SECONDS:
                break
        return {"clock": clock, "bandwidth": bandwidth}

    def on_pointers() -> dict[str, Any]:
        poison = np.full(SIZE, np.nan, np.float32)
        arrays: list[Any] = []
        for values in (x, n, poison, poison, poison):
            arrays.append(np.zeros(SIZE + 1, values.dtype)[1:])  # off any boundary
            arrays[-1][:] = values
        launch(program, tuple(cl.SVM(a) for a in arrays))
        queue.finish()
        return {"pointers": bool((arrays[4] == expected).all())}

    def run(program: Any) -> str:
        step[0] = "running the kernels"
        inputs = [cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a) for a in (x, n)]
        poison = np.full(SIZE, np.nan, np.float32)
        outputs = [cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=poison) for _ in range(3)]
        launch(program, (*inputs, *outputs))
        result = np.empty(SIZE, np.float32)
        cl.enqueue_copy(queue, result, outputs[2])
        queue.finish()
        wrong = np.flatnonzero(~(result == expected))
        if wrong.size:
            i = int(wrong[0])
            return f"wrong results: {wrong.size} of {SIZE} elements, first [{i}] = {result[i]}, not {expected[i]}"
        return ""

    step[0] = "building a kernel"
    program = cl.Program(context, source).build(options)
    why = run(program)
    if why:
        return why
    step[0] = "taking the program's binary"
    binary = program.get_info(cl.program_info.BINARIES)[0]
    if not binary:
        return "the driver gives no binary of a program"
    step[0] = "building from the binary"
    why = run(cl.Program(context, [device], [binary]).build(options))
    if not why:
        more.append(speeds)
        if device.type & cl.device_type.CPU:
            more.append(on_pointers)
    return why and f"from the program's binary: {why}"


def same_device(platforms: list[Any], request: dict[str, Any]) -> Any:
    """Return the device that the parent means: at the same place if it still answers to the description."""
    found = []
    for p, platform in enumerate(platforms):
        if [platform.name.strip(), platform.version.strip()] == request["platform"]:
            for d, device in enumerate(platform.get_devices()):
                if [device.name.strip(), device.driver_version.strip()] == request["device"]:
                    if (p, d) == (request["platform_index"], request["device_index"]):
                        return device
                    found.append(device)
    return found[0] if found else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
