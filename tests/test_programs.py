"""The program cache: what is stored is used, and nothing that is not exactly what was stored reaches a driver."""

import pytest

import miopyx
from miopyx import _opencl, config, programs
from miopyx.errors import InternalError, UnknownError

FILE, OPTIONS = "conv_bias.cl", "-D ROWS=1"


@pytest.fixture
def device(opencl_handle):
    return opencl_handle.device


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path))
    config.forget()
    return tmp_path


@pytest.fixture
def compiled(monkeypatch):
    """How often a source, and how often a binary, went to the driver."""
    counts = {"source": 0, "binary": 0}

    def counting(kind, function):
        def call(*arguments):
            counts[kind] += 1
            return function(*arguments)
        return call

    monkeypatch.setattr(_opencl, "program_from_source", counting("source", _opencl.program_from_source))
    monkeypatch.setattr(_opencl, "program_from_binary", counting("binary", _opencl.program_from_binary))
    return counts


def entries(folder):
    return sorted((folder / "programs").rglob("*.bin"))


def test_second_build_takes_the_binary(device, folder, compiled):
    programs.build(device, FILE, OPTIONS)
    assert compiled == {"source": 1, "binary": 0}
    assert len(entries(folder)) == 1
    assert entries(folder)[0].stat().st_mode & 0o077 == 0
    program = programs.build(device, FILE, OPTIONS)
    assert compiled == {"source": 1, "binary": 1}
    assert program.work_group_limit("bias_forward") >= 1
    programs.build(device, FILE, "-D ROWS=1 -D Y_TYPE=half")
    assert compiled == {"source": 2, "binary": 1}
    assert len(entries(folder)) == 2


def test_damaged_entries_are_rebuilt_and_replaced(device, folder, compiled, rng):
    programs.build(device, FILE, OPTIONS)
    path = entries(folder)[0]
    whole = path.read_bytes()
    head = len(programs._MAGIC) + 64
    damaged = [b"", whole[:10], whole[:head - 1], whole[:head], whole[:-1], whole + b"\0", b"x" + whole[1:],
               whole[:len(programs._MAGIC)] + bytes(32) + whole[len(programs._MAGIC) + 32:]]
    for position in rng.integers(0, len(whole), 40):
        damaged.append(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1:])
    for cut in rng.integers(0, len(whole), 20):
        damaged.append(whole[:cut])
    for number, data in enumerate(damaged):
        path.write_bytes(data)
        key = whole[len(programs._MAGIC):len(programs._MAGIC) + 32]
        assert programs.read_entry(path, key) is None
        if number < 4:
            before = compiled["binary"]
            programs.build(device, FILE, OPTIONS)
            assert compiled["binary"] == before, "a damaged binary reached the driver"
            assert programs.read_entry(path, key) is not None, "the entry was not replaced"


def test_a_binary_that_the_driver_refuses_is_rebuilt(device, folder, compiled, monkeypatch):
    programs.build(device, FILE, OPTIONS)

    def refuse(*arguments):
        raise UnknownError("no such binary")

    monkeypatch.setattr(_opencl, "program_from_binary", refuse)
    programs.build(device, FILE, OPTIONS)
    assert compiled["source"] == 2


@pytest.mark.parametrize("place", ["off", "file in the way", "directory in the way"])
def test_without_a_cache(device, folder, compiled, monkeypatch, place):
    if place == "off":
        monkeypatch.setenv("MIOPYX_CACHE", "0")
    elif place == "file in the way":
        (folder / "programs").write_text("")
    else:
        programs.build(device, FILE, OPTIONS)
        path = entries(folder)[0]
        path.unlink()
        path.mkdir()
    config.forget()
    before = compiled["source"]
    programs.build(device, FILE, OPTIONS)
    programs.build(device, FILE, OPTIONS)
    assert compiled == {"source": before + 2, "binary": 0}
    assert not [p for p in folder.rglob(".*")], "a temporary file was left"


def test_a_build_failure_carries_the_log(device, folder):
    with pytest.raises(UnknownError) as caught:
        programs.build(device, FILE, "-D Y_TYPE=nonsense")
    assert FILE in str(caught.value)
    assert "nonsense" in str(caught.value)
    assert not list(folder.rglob("*.bin"))


def test_sources():
    text = programs.source("conv_bias.cl")
    assert "#include" not in text
    assert "mx_bias_problem" in text
    with pytest.raises(InternalError):
        programs.source("no_such.cl")


def test_a_handle_builds_a_program_once(opencl_name, folder, compiled):
    from miopyx._core import KernelSpec

    with miopyx.Handle(opencl_name) as handle:
        spec = KernelSpec(FILE, "bias_forward", ROWS=1)
        assert handle.program(spec) is handle.program(KernelSpec(FILE, "bias_backward", ROWS=1))
    assert compiled["source"] == 1
