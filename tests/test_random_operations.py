"""tests/random_operations.py: it runs, and it sees wrong results, wrong accesses and calls that should have failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cuda_stub
import drawn
import guarded
import numpy as np
import nvidia_emulator
import pytest
from guarded import Guarded, Pages
from random_operations import OPERATIONS, Wrong, main, run_some

import miopyx
from miopyx import TensorDescriptor

SCRIPT = Path(__file__).with_name("random_operations.py")
COSTLY = {"foreign solutions"}  # searches on every device


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Memory as other tests have it, and their handles, afterwards."""
    monkeypatch.setattr(Pages, "against", "")
    monkeypatch.setattr(Pages, "given", None)
    monkeypatch.setattr(Wrong, "at_work", None)
    for name in dir(miopyx):
        if name.startswith("miopen"):
            monkeypatch.setattr(miopyx, name, getattr(miopyx, name))


@pytest.fixture
def some(host, monkeypatch):
    """Return a function that runs problems of an operation on the host in this process."""
    monkeypatch.setattr(drawn, "HANDLES", {"host": host})
    return lambda name, count=3, against="end", seed=1: run_some(name, "host", seed, 0, count, against, False,
                                                                   bytearray(8))


@pytest.mark.parametrize("against", ["end", "begin"])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in COSTLY])
def test_the_host(some, name, against, seed, amount):
    assert not some(name, amount(4, 1000), against, seed)


@pytest.mark.parametrize("name", ["cat", "kthvalue"])
def test_devices(opencl_name, name, seed):
    assert main(["--device", opencl_name, "--operation", name, "--count", "5", "--seed", str(seed)]) == 0


@pytest.mark.long
@pytest.mark.parametrize("against", ["end", "begin"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_many_on_devices(opencl_name, name, against, seed):
    assert main(["--device", opencl_name, "--operation", name, "--count", "100", "--together", "50", "--seed",
                 str(seed), "--against", against]) == 0


def emulated(*arguments):
    """What the script says of emulated kernels for GPUs."""
    why = nvidia_emulator.why_not()
    if why:
        pytest.skip(why)
    done = subprocess.run([sys.executable, "-P", SCRIPT, "--emulated", "--operation", *arguments],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("against", ["end", "begin"])
def test_emulated_kernels(against, seed, amount):
    """Kernels for NVIDIA's GPUs on memory between pages that fault."""
    code, text = emulated("kthvalue", "--count", str(amount(3, 50)), "--seed", str(seed), "--against", against)
    assert code == 0, text
    assert "cuda:0" in text


def test_emulated_accesses_beside_memory_are_seen(tmp_path):
    """The stub's memory ends, or begins, at a page that faults, whichever size it has."""
    library = cuda_stub.build(tmp_path)
    if library is None:
        pytest.skip("needs a compiler of C")
    for against, place, code in (("end", 99, 0), ("end", 100, -11), ("begin", 0, 0), ("begin", -1, -11)):
        done = subprocess.run([sys.executable, "-c", STUB, str(library), str(place)], check=False,
                              env={**os.environ, "STUB_AGAINST": against, "STUB_LOG": str(tmp_path / "log")})
        assert done.returncode == code, (against, place)


STUB = """
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(100)) == 0
ctypes.string_at(memory.value + int(sys.argv[2]), 1)
assert cuda.cuMemFree_v2(memory) == 0
"""

ACCESS = """
import sys
sys.path.insert(0, {folder!r})
import guarded, miopyx
guarded.Pages.against = {against!r}
memory = guarded.Guarded(miopyx.Handle("host"), 100, 0xFF)
print(memory.inner[{place}:].ctypes.data and 1, flush=True)
import ctypes
ctypes.string_at(memory.memory.ctypes.data + {place}, 1)
print(2)
"""


@pytest.mark.parametrize(("against", "place", "survives"), [
    ("end", 99, True), ("end", 100, False), ("begin", 0, True), ("begin", -1, False)])
def test_pages_fault(against, place, survives):
    """A byte beside the memory ends the process."""
    text = ACCESS.format(folder=str(SCRIPT.parent), against=against, place=place)
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "2"][:1 + survives]
    assert (done.returncode == 0) == survives


def test_a_process_that_dies(monkeypatch, capsys):
    """Its problem is named, and the next ones are run."""
    text = SCRIPT.read_text(encoding="utf-8").replace(
        "                OPERATIONS[name](handle, rng)\n",
        "                os.abort() if number == 2 else OPERATIONS[name](handle, rng)\n")
    copy = SCRIPT.with_name("random_operations_dies.py")
    copy.write_text(text, encoding="utf-8")
    try:
        done = subprocess.run([sys.executable, "-P", copy, "--device", "host", "--operation", "cat", "--count", "5"],
                              capture_output=True, text=True, check=False)
    finally:
        copy.unlink()
    assert done.returncode == 1
    assert "1 wrong" in done.stdout
    assert "problem 2: the process ended with -6" in done.stdout


NOT_COMPARED = {"setters", *COSTLY, "cat", "kthvalue", "fusion", "find 2.0", "batch norm activation", "attributes",
                "other graphs", "fused norms", "batch norm"}


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in NOT_COMPARED])
def test_wrong_results_are_seen(some, name, monkeypatch):
    fetch = Guarded.fetch

    def spoilt(self):
        fetch(self)
        bits = self.inner[-4:]
        bits[...] = 0x55
        return self.inner

    monkeypatch.setattr(Guarded, "fetch", spoilt)
    assert some(name)


def test_a_changed_input_is_seen(some, monkeypatch):
    forward = miopyx.miopenRoPEForward

    def writes(handle, x_desc, x, *more):
        forward(handle, x_desc, x, *more)
        x.reshape(-1).view("u1")[0] ^= 1

    monkeypatch.setattr(miopyx, "miopenRoPEForward", writes)
    monkeypatch.setattr(drawn, "KIND", ["float32"])  # a bit of which the bound allows for
    texts = some("rope")
    assert any("an input changed" in text for text in texts), texts


@pytest.mark.parametrize(("raised", "message"), [(ValueError("no"), "ValueError"), (None, "taken")])
def test_wrong_calls_are_seen(some, monkeypatch, raised, message):
    """One that ends with another error, and one that is not refused."""
    forward = miopyx.miopenRoPEForward

    def careless(*given):
        try:
            forward(*given)
        except miopyx.MIOpenError:
            if raised is not None:
                raise raised from None

    monkeypatch.setattr(miopyx, "miopenRoPEForward", careless)
    assert any(message in text for text in some("rope", 30))


def test_what_was_refused_must_not_have_written(some, monkeypatch):
    forward = miopyx.miopenRoPEForward

    def writes(*given):
        try:
            forward(*given)
        except miopyx.MIOpenError:
            if isinstance(given[-1], np.ndarray) and given[-1].size and given[-1].flags.writeable:
                given[-1].view("u1")[...] = 0
            raise

    monkeypatch.setattr(miopyx, "miopenRoPEForward", writes)
    assert any("memory changed" in text for text in some("rope", 30))


def test_usual_memory_is_what_it_was(host):
    desc = TensorDescriptor("float32", (3, 5))
    memory = guarded.Tensor(host, desc, np.ones((3, 5)))
    assert memory.begin == guarded.GUARD
    memory.memory[0] = 1
    with pytest.raises(AssertionError, match="before"):
        memory.fetch()


@pytest.mark.parametrize("arguments", [["--count", "0"], ["--operation", "nothing"], ["--against", "nothing"]])
def test_nothing_to_do(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err
