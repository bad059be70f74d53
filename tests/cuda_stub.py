"""A pretended libcuda for machines without CUDA, and PTX by clang in the place of NVIDIA's OpenCL."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import nvidia_programs

SOURCE = Path(__file__).parent / "data" / "libcuda_stub.c"


def build(folder: Path, *options: str) -> Path | None:
    """Compile the stub; None without a compiler of C."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    path = folder / "libcuda.so.1"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", *options, "-o", path, SOURCE, "-lpthread", "-ldl"], check=True)
    return path


class Built:
    """What an OpenCL program is asked for here."""

    def __init__(self, text: str) -> None:
        self.text = text.encode()

    def binary(self) -> bytes:
        return self.text


_own = []


def undo() -> None:
    """Take `compile_by_clang` back."""
    from miopyx.runtime import programs

    programs._compiler, programs._opencl.program_from_source = _own


def compile_by_clang(emulated: bool = False) -> None:
    """Let this process build programs for CUDA by clang, which the stub runs on this CPU if they are to be emulated."""
    import nvidia_emulator

    from miopyx.runtime import programs

    compiler, from_source = _own[:] = programs._compiler, programs._opencl.program_from_source

    def built(context: int, device: int, text: bytes, options: bytes) -> object:
        if context:
            return from_source(context, device, text, options)
        flags = options.decode().replace("-D ", "-D").split()
        done = subprocess.run([nvidia_programs.clang(), *flags, *nvidia_programs.FLAGS], input=text,
                              capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        ptx = done.stdout.decode()
        if emulated:
            ptx += f"\n{nvidia_emulator.MARK}{nvidia_emulator.library(text, flags)}\n"
        return Built(ptx)

    programs._compiler = lambda device: (0, 0) if device.info.cuda >= 0 else compiler(device)
    programs._opencl.program_from_source = built


class Stub:
    """The stub that this process loaded: its log, its counts, what shall fail."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ["MIOPYX_LIBCUDA"])
        self.library.stub_live.restype = ctypes.c_long
        self.library.stub_stream.restype = ctypes.c_void_p
        self.log = Path(os.environ["STUB_LOG"])
        self.log.touch()

    def calls(self) -> list[list[str]]:
        """Return the calls since the last time."""
        found = [line.split(" ") for line in self.log.read_text().splitlines()]
        self.log.write_text("")
        return found

    def live(self) -> list[int]:
        """Modules, events, pieces of memory, pushed contexts."""
        return [self.library.stub_live(i) for i in range(4)]

    def fail(self, name: str, nth: int = 1, code: int = 999) -> None:
        self.library.stub_fail(name.encode(), nth, code)

    def stream(self, device: int = 0) -> int:
        return self.library.stub_stream(device)
