"""An empty kernel behind miopyx's own path, and beside it the raw calls and pyopencl's that launch the same one."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import miopyx
from miopyx import _core
from miopyx.device import devices
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import _opencl
from miopyx.solvers import registry

HERE = Path(__file__).parent
SOLUTION = 9001  # an id that no solver has
ALGORITHM = miopyx.miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoDirect

SOURCE = """
typedef struct { long words[WORDS]; } problem_t;
__kernel void empty(const __global float *x, long x0, const __global float *w, long w0, __global float *y, long y0,
                    problem_t p, float alpha, float beta)
{
}
__kernel void eight(const __global float *x, long x0, const __global float *w, long w0, __global float *y, long y0,
                    float alpha, float beta)
{
}
"""
_SPEC = _core.KernelSpec("bench_empty.cl", "empty")


class NotHere(Exception):
    """What a bench needs is not on this machine; the text says what."""


def compiler() -> str:
    """Return the system's C compiler."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not found:
        raise NotHere("no C compiler (cc) to measure raw calls with")
    return found


def _compile(source: Path, output: Path, *options: str) -> Path:
    command = [*compiler().split(), "-O2", "-shared", "-fPIC", *options, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotHere(f"{source.name} does not compile: {done.stderr.strip()[-300:]}")
    return output


def raw_library() -> ctypes.CDLL:
    """Compile and load raw.c."""
    with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
        library = ctypes.CDLL(str(_compile(HERE / "raw.c", Path(folder) / "raw.so")))
    library.raw_launches.restype = library.raw_host_calls.restype = ctypes.c_int64
    return library


def cython_empty() -> Any:
    """Compile and return ``def empty(a, b, c, int d, int e, int f, int g, double h)`` that does nothing."""
    text = "def empty(a, b, c, int d, int e, int f, int g, double h):\n    pass\n"
    name = "bench_cython_empty"
    with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
        source = Path(folder) / f"{name}.pyx"
        source.write_text(text)
        done = subprocess.run([sys.executable, "-P", "-m", "cython", "-3", str(source)], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise NotHere("Cython is not installed")
        module = _compile(source.with_suffix(".c"), Path(folder) / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}",
                          f"-I{sysconfig.get_path('include')}")
        return _loaded(name, module).empty


def _loaded(name: str, path: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class EmptySolver(_core.Solver):
    """Runs on everything and does nothing: one launch with three tensors, the problem, alpha and beta."""

    def __init__(self, function: int | None) -> None:
        self.function = function

    def why_not(self, dev: _core.Device, problem: ConvProblem) -> str | None:
        return None

    def solution(self, dev: _core.Device, problem: ConvProblem, config: tuple[int, ...] | None = None
                 ) -> _core.Solution:
        if dev.is_host:
            return _core.Solution((_core.Step.of_address(self.function),))
        arg = _core.Arg
        args = (*(arg.slot_of(slot, 4) for slot in range(3)), arg.value_of(problem.key), arg.alpha(False),
                arg.beta(False))
        return _core.Solution((_core.Step(_SPEC, args, (1,)),))


class EmptyKernel:
    """An empty kernel that a handle runs for 1x1x1x1 tensors, with two sets of buffers to call it with.

    ``handle``, ``x_desc``, ``w_desc``, ``conv``, ``y_desc`` are what calls take, `plan` is a plan for it; it is
    registered under the ids `SOLUTION` and, for miopenConvolutionForward, `ALGORITHM`.
    """

    def __init__(self, handle: miopyx.Handle, library: ctypes.CDLL) -> None:
        on_host = handle.device.is_host
        if on_host and not hasattr(_core.Step, "of_address"):
            raise NotHere("this build's host steps take no address")
        self.handle, self.library = handle, library
        self.conv = miopyx.ConvolutionDescriptor((0, 0))
        self.x_desc, self.w_desc, self.y_desc = (miopyx.TensorDescriptor("float32", (1, 1, 1, 1)) for _ in range(3))
        self.problem = ConvProblem(0, self.x_desc, self.w_desc, self.y_desc, self.conv)
        self.buffers = [tuple(handle.upload(np.ones((1, 1, 1, 1), np.float32)) for _ in range(3)) for _ in range(2)]
        function = ctypes.cast(library.empty_kernel, ctypes.c_void_p).value
        self.options = f"-D WORDS={len(self.problem.key) // 8}"
        if not on_host:
            context, dev = handle.device.context_address, handle.device.device_address
            handle.keep_program(_SPEC, _opencl.program_from_source(context, dev, SOURCE.encode(),
                                                                   self.options.encode()), handle.device)
        solver = EmptySolver(function)
        registry.BY_ID[SOLUTION] = solver
        try:
            self.plan = handle.convolution_forward(self.x_desc, self.w_desc, self.conv, self.y_desc,
                                                   solution_id=SOLUTION)
        finally:
            del registry.BY_ID[SOLUTION]
        handle.register(self.plan.invoker, SOLUTION)
        handle.register(self.plan.invoker, -1 - int(ALGORITHM))
        if on_host:
            self._function = function
        else:
            self._prepare_raw()

    def _prepare_raw(self) -> None:
        import pyopencl as cl

        queue = self.handle.queue
        assert queue is not None
        program = cl.Program(queue.context, SOURCE).build(options=self.options)
        self.raw_kernel, self.typed, self.generic = (cl.Kernel(program, name) for name in ("empty", "eight", "eight"))
        x, w, y = self.buffers[0]
        zero, one = np.int64(0), np.float32(1)
        self.raw_kernel.set_args(x, zero, w, zero, y, zero, np.frombuffer(self.problem.key, np.uint8), one,
                                 np.float32(0))
        long, real = np.int64, np.float32
        self.typed.set_scalar_arg_dtypes([None, long, None, long, None, long, real, real])
        self.typed.set_args(x, 0, w, 0, y, 0, 1.0, 0.0)
        # dlsym on pyopencl's extension module finds the entry points of the loader that it uses.
        symbols = ctypes.CDLL(devices.loader_path())
        self._calls = [ctypes.cast(function, ctypes.c_void_p)
                       for function in (symbols.clSetKernelArg, symbols.clEnqueueNDRangeKernel)]
        self._global = (ctypes.c_size_t * 1)(1)
        self._index = (ctypes.c_uint32 * 3)(0, 2, 4)
        self._values = (ctypes.c_void_p * 6)(*(b.int_ptr for buffers in self.buffers for b in buffers))

    def raw(self, changed: int, kernel: Any = None) -> Callable[[int], float]:
        """Return a function that makes the raw calls n times and returns their nanoseconds.

        `changed` is how many buffers differ from launch to launch, 0 or 3; `kernel` a pyopencl kernel with its
        arguments set, default: the one that the plan launches.
        """
        if self.handle.device.is_host:
            slots = (ctypes.c_void_p * 4)(*(b.ctypes.data for b in self.buffers[0]), None)
            scalars = (ctypes.c_double * 2)(1.0, 0.0)
            arguments = (ctypes.c_void_p(self._function), self.problem.key, slots, scalars, ctypes.c_int(1))
            function = self.library.raw_host_calls
        else:
            queue = ctypes.c_void_p(self.handle.queue.int_ptr)
            kernel = self.raw_kernel if kernel is None else kernel
            arguments = (*self._calls, queue, ctypes.c_void_p(kernel.int_ptr), self._global,
                         ctypes.c_int(changed), self._index, self._values)
            function = self.library.raw_launches

        # What the addresses belong to has to live as long as the function.
        def run(count: int, owners: tuple[object, ...] = (self, kernel)) -> float:
            total = function(*arguments, ctypes.c_int64(count))
            if total < 0:
                raise RuntimeError(f"raw calls failed with {total}")
            return float(total)

        return run
