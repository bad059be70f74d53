"""Many programs made ready at once: from the cache, in threads, or in child processes where a driver may abort.

MIOPEN_COMPILE_PARALLEL_LEVEL says how many programs are compiled at a time; 0 is half of the usable cores.  They are
compiled

* one after the other in this process, where that is 1;
* in threads, where the driver's compiler takes several at a time and was never seen to abort;
* in child processes elsewhere: PoCL holds one lock around its compiler, and LLVM ends the process on what it cannot
  compile.  A child needs about a second before its first program, so there is one for every four programs.  A single
  one gains no time: it is started only for as many as a search has, which must not end half way.  Fewer programs are
  compiled one after the other in this process.

NVIDIA's driver holds such a lock, too, around most of its compiler, but a child takes some seconds to start: threads
for few programs, children for many.  What a child built, this process finds in the driver's own cache.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from miopyx.device import icd, probing
from miopyx.errors import MIOpenError, UnknownError
from miopyx.runtime import programs
from miopyx.values import config, posix

from .child import Child

if TYPE_CHECKING:
    from miopyx._core import Device, KernelSpec
    from miopyx.device.info import DeviceInfo
    from miopyx.engine._handle import Handle
    from miopyx.runtime._runtime import Program

SECONDS = 300
_START_SECONDS = 120
_THREADS_ARE_SAFE = {"nvidia", "intel", "amd"}
_PROGRAMS_A_CHILD = 4
_PROGRAMS_OF_A_SEARCH = 12
_PROGRAMS_FOR_CHILDREN = {"nvidia": 16}  # fewer are compiled in threads
_log = logging.getLogger("miopyx")


class Failure(NamedTuple):
    """A program that could not be made, and why, with the compiler's log."""

    spec: KernelSpec
    why: str


def ahead(handle: Handle, specs: Iterable[KernelSpec | None], seconds: int = SECONDS) -> list[Failure]:
    """Make the programs of many kernels ready on a handle; return those that could not be made.

    Parameters
    ----------
    handle : Handle
        Gets the programs: `Handle.program` has them at once from then on.
    specs : iterable of KernelSpec or None
        As solutions' steps name them.  None, a host function, is passed over, and so is what the handle has.
    seconds : int
        How long one program may take in a child process; nothing can end a build in this one.

    Raises
    ------
    BadParmError
        If the handle was destroyed.
    InvalidValueError
        If MIOPEN_COMPILE_PARALLEL_LEVEL is negative.
    """
    start = time.monotonic()
    batch = _Batch(handle)
    different = {(spec.file, spec.options): spec for spec in specs if spec is not None}
    wanted = [spec for spec in different.values() if not handle.has_program(spec)]
    missing = [spec for spec in wanted if not batch.make(spec, programs.cached)]
    if missing:
        workers, children = _way(handle.device.info.runtime, len(missing))
        left = _in_children(batch, missing, workers, seconds) if children else missing
        _in_threads(batch, left, workers if not children or handle.device.info.runtime in _THREADS_ARE_SAFE else 1)
        _log.info("%d programs made ready in %.1f s (%d compiled, %d failed, %d at a time%s)", len(wanted),
                  time.monotonic() - start, len(missing), len(batch.failures), workers,
                  " in child processes" if children else "")
    return batch.failures


def _way(runtime: str, count: int) -> tuple[int, bool]:
    """Return how many programs to compile at a time, and whether in child processes."""
    level: int = config.get("MIOPEN_COMPILE_PARALLEL_LEVEL")
    most = level or max(1, len(posix.processors()) // 2)
    if runtime in _THREADS_ARE_SAFE and (most == 1 or count < _PROGRAMS_FOR_CHILDREN.get(runtime, count + 1)):
        return min(most, count), False
    children = min(most, count // _PROGRAMS_A_CHILD)
    pays = children > 1 or (children == 1 and level != 1 and count >= _PROGRAMS_OF_A_SEARCH)
    if pays and probing._python() is not None:
        return children, True
    return min(most, count) if runtime in _THREADS_ARE_SAFE else 1, False


class _Batch:
    """Programs in the making for one handle."""

    def __init__(self, handle: Handle) -> None:
        self.handle, self.device = handle, handle.device
        self.failures: list[Failure] = []

    def make(self, spec: KernelSpec, function: Callable[[Device, str, str], Program | None]) -> bool:
        """Keep what a function returns for a device, a file and options; False if that is None."""
        try:
            program = function(self.device, spec.file, spec.options)
        except MIOpenError as e:
            self.failures.append(Failure(spec, str(e)))
            return True
        if program is not None:
            self.handle.keep_program(spec, program, self.device)
        return program is not None


def _in_threads(batch: _Batch, specs: list[KernelSpec], workers: int) -> None:
    if workers == 1:
        for spec in specs:
            batch.make(spec, programs.build)
        return
    executor = ThreadPoolExecutor(workers, "miopyx-compile")
    try:
        for future in [executor.submit(batch.make, spec, programs.build) for spec in specs]:
            future.result()
    finally:
        executor.shutdown(cancel_futures=True)


def _in_children(batch: _Batch, specs: list[KernelSpec], workers: int, seconds: int) -> list[KernelSpec]:
    """Compile in child processes, one a thread; return what is left where none can be started."""
    pending = deque(specs)
    children: list[_Child] = []
    stop = threading.Event()

    def work() -> None:
        child: _Child | None = None
        try:
            while pending and not stop.is_set():
                if child is None:
                    try:
                        child = _Child()
                        children.append(child)
                        child.open(batch.device.info)
                    except (OSError, UnknownError) as e:
                        _log.info("a compiler process could not be started: %s", e)
                        return
                    continue
                try:
                    spec = pending.popleft()
                except IndexError:  # another thread took the last one
                    return
                batch.make(spec, functools.partial(_build_in, child, seconds))
                if child.gone:
                    child.close()
                    child = None
        finally:
            if child is not None:
                child.close()

    with ThreadPoolExecutor(workers, "miopyx-compile") as executor:
        try:
            for future in [executor.submit(work) for _ in range(workers)]:
                future.result()
        finally:
            # After an interrupt.  Who appends a child later than this finds the event set before its first job.
            stop.set()
            for child in children:
                child.kill()
    return list(pending)


def _build_in(child: _Child, seconds: int, device: Device, file: str, options: str) -> Program:
    return programs.adopt(device, file, options, child.build(file, options, seconds))


def _command() -> list[str]:
    # By file name and with -P, as probes are started: modules beside the file have common names.
    return [probing._python() or "", "-P", "-W", "ignore", str(Path(__file__).with_name("compile_child.py"))]


class _Child(Child):
    """A process that compiles."""

    def __init__(self) -> None:
        super().__init__(_command(), "the compiler process")

    def open(self, info: DeviceInfo) -> None:
        """Let the child open a device; UnknownError if it cannot."""
        why, _ = self.ask(_START_SECONDS, {
            "path": [path for path in sys.path if isinstance(path, str)], "preload": icd.preloads(),
            "identity": programs.identity(info), "place": [info.platform_index, info.device_index],
            "cuda": info.cuda})
        if why:
            raise UnknownError(why)

    def build(self, file: str, options: str, seconds: int) -> bytes:
        """Return the binary of a kernel file; UnknownError with the compiler's log, or with how the child ended."""
        why, binary = self.ask(seconds, {"options": options, "seconds": seconds}, programs.source(file).encode())
        if why:
            raise UnknownError(f"{file}: {why}")
        return binary
