"""The child process that compiles: takes sources on its standard input and answers with binaries.

A script of its own, since a driver that aborts must take nobody else along.  Started by `compiling`, which also says
where the package lies, so that this file alone needs nothing but the standard library to talk.

Both sides speak in frames: two lengths, an object as JSON, bytes.  The first frame names the device, each further one
is a job; each gets one frame in reply, whose "why" is empty where all went well.  A first frame with an "opener",
``module:class``, lets an object of that class answer instead of a compiler: what else is done in children is done so.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import struct
import sys
from typing import IO, Any

_LENGTHS = struct.Struct("<QQ")
_MAX_BYTES = 1 << 30


def send(stream: IO[bytes], fields: dict[str, Any], payload: bytes = b"") -> None:
    """Write one frame."""
    text = json.dumps(fields).encode()
    stream.write(_LENGTHS.pack(len(text), len(payload)) + text + payload)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read one frame; None at the end of the stream, wherever it comes, or where this is no frame."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) != _LENGTHS.size:
        return None
    text_length, payload_length = _LENGTHS.unpack(lengths)
    if text_length > _MAX_BYTES or payload_length > _MAX_BYTES:
        return None
    text, payload = stream.read(text_length), stream.read(payload_length)
    if len(text) != text_length or len(payload) != payload_length:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return (fields, payload) if isinstance(fields, dict) else None


class Compiler:
    """One device, opened in this process."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        for library in wanted["preload"]:
            ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
        from miopyx.device import cuda, devices
        from miopyx.errors import MIOpenError
        from miopyx.runtime import _cuda, _opencl, programs

        self.compiled, self.ptx, self.assembled = programs.compiled, programs.ptx, _cuda.program_from_ptx
        same = [info for info in devices.discover() if programs.identity(info) == wanted["identity"]]
        if not same:
            raise LookupError("a child process does not see this device")
        # Devices that differ in nothing that binaries depend on are as good, but the same place is the likeliest.
        same.sort(key=lambda info: [info.platform_index, info.device_index] != wanted["place"])
        _opencl.load(devices.loader_path())
        self.info = same[0]
        self.context, self.queue = devices.open_device(same[0])
        self.device = self.queue.device
        self.for_cuda, self.cuda = wanted["cuda"] >= 0, 0
        if wanted["cuda"] >= 0:
            with contextlib.suppress(MIOpenError):  # no room for one more context: who asked assembles
                _cuda.load(cuda.library())
                self.cuda = _cuda.primary_context(wanted["cuda"])

    def answer(self, fields: dict[str, Any], source: bytes) -> bytes:
        """Do a job: build a source."""
        return self.build(source, fields["options"])

    def build(self, source: bytes, options: str) -> bytes:
        """Return the binary of a source.

        CUDA's driver assembles it here, too, if it can: who asked finds that in the driver's own cache.
        """
        from miopyx.errors import MIOpenError

        what = self.context.int_ptr, self.device.int_ptr, self.info, source, options
        if self.for_cuda:
            ptx = self.ptx(*what)
            if self.cuda and os.environ.get("CUDA_CACHE_DISABLE", "0") == "0":
                with contextlib.suppress(MIOpenError):
                    self.assembled(self.cuda, ptx)
            return ptx
        binary = self.compiled(*what).binary()
        if binary is None:
            raise LookupError("the driver gives no binary of a program")
        return binary


def main() -> int:
    # Drivers print to standard output, and the compilers that they start may read standard input: both pipes move to
    # descriptors of our own, which no other program inherits.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    first = receive(requests)
    if first is None:
        return 1
    sys.path[:] = first[0]["path"]
    try:
        worker = _opener(first[0])(first[0])
    except Exception as e:
        send(replies, {"why": reason(e)})
        return 1
    send(replies, {"why": ""})
    while (job := receive(requests)) is not None:
        fields, payload = job
        signal.alarm(fields["seconds"])  # ends this process should nobody be left to do it
        try:
            answer = worker.answer(fields, payload)
        except Exception as e:
            send(replies, {"why": reason(e)})
        else:
            send(replies, {"why": ""}, answer)
        signal.alarm(0)
    return 0


def _opener(first: dict[str, Any]) -> Any:
    """Return the class that answers."""
    if "opener" not in first:
        return Compiler
    module, _, name = first["opener"].partition(":")
    return getattr(importlib.import_module(module), name)


def reason(error: Exception) -> str:
    """Return an error's text; ours carry theirs apart from the status."""
    return str(getattr(error, "message", "") or error or type(error).__name__)


if __name__ == "__main__":
    sys.exit(main())
