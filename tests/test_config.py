"""Environment variables, the cache folder, and files that appear whole or not at all."""

import bz2
import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import platformdirs
import pytest

from miopyx.errors import InvalidValueError
from miopyx.values import config


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in config.VARIABLES:
        if name != "MIOPYX_CACHE_DIR":
            monkeypatch.delenv(name, raising=False)
    config.forget()


def test_defaults():
    assert config.get("MIOPYX_DEVICE") == ""
    assert config.get("MIOPYX_CACHE") is True
    assert config.get("MIOPYX_NUM_THREADS") == 0
    assert config.get("MIOPYX_PROBE_TIMEOUT") == 120
    assert config.get("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC") == -1


def test_every_variable_says_what_it_means():
    for name, variable in config.VARIABLES.items():
        assert variable.name == name
        assert name.startswith(("MIOPYX_", "MIOPEN_"))
        assert len(variable.meaning) > 10


def test_only_declared_variables_exist():
    with pytest.raises(KeyError):
        config.get("MIOPYX_NO_SUCH_THING")


@pytest.mark.parametrize(("text", "value"), [
    *[(word, True) for word in ("1", "on", "yes", "true", "enable", "enabled", "ON", " True ")],
    *[(word, False) for word in ("0", "off", "no", "false", "disable", "disabled", "OFF", " False ")],
    ("", True),
])
def test_bool(monkeypatch, text, value):
    monkeypatch.setenv("MIOPYX_CACHE", text)
    assert config.get("MIOPYX_CACHE") is value


@pytest.mark.parametrize(("text", "value"), [
    ("7", 7), (" 7 ", 7), ("0x10", 16), ("0b11", 3), ("-3", -3), ("1_000", 1000), ("", 12345678),
])
def test_int(monkeypatch, text, value):
    monkeypatch.setenv("MIOPEN_DEBUG_DRIVER_PRNG_SEED", text)
    assert config.get("MIOPEN_DEBUG_DRIVER_PRNG_SEED") == value


@pytest.mark.parametrize(("name", "text"), [
    ("MIOPYX_CACHE", "2"), ("MIOPYX_CACHE", "maybe"), ("MIOPYX_CACHE", " "),
    ("MIOPYX_NUM_THREADS", "two"), ("MIOPYX_NUM_THREADS", "1.5"), ("MIOPYX_NUM_THREADS", "010"),
])
def test_wrong_text(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    for _ in range(2):
        with pytest.raises(InvalidValueError) as raised:
            config.get(name)
        assert (raised.value.parameter, raised.value.value) == (name, text)
        assert raised.value.limit


def test_values_are_read_once(monkeypatch):
    monkeypatch.setenv("MIOPYX_DEVICE", "one")
    assert config.get("MIOPYX_DEVICE") == "one"
    monkeypatch.setenv("MIOPYX_DEVICE", "two")
    assert config.get("MIOPYX_DEVICE") == "one"
    config.forget()
    assert config.get("MIOPYX_DEVICE") == "two"


def test_number_of_threads(monkeypatch):
    assert config.num_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("MIOPYX_NUM_THREADS", "3")
    config.forget()
    assert config.num_threads() == 3
    monkeypatch.setenv("MIOPYX_NUM_THREADS", "-1")
    config.forget()
    with pytest.raises(InvalidValueError) as raised:
        config.num_threads()
    assert raised.value.parameter == "MIOPYX_NUM_THREADS"


WRONG = {
    "MIOPYX_CACHE": "maybe", "MIOPYX_CACHE_MB": "-1", "MIOPYX_NUM_THREADS": "65537", "MIOPYX_HOST_ISA": "sse",
    "MIOPYX_STREAM_BYTES": "-2", "MIOPYX_PROBE_TIMEOUT": "0", "MIOPEN_FIND_MODE": "BANANA", "MIOPEN_FIND_ENFORCE": "9",
    "MIOPEN_DEBUG_FIND_ONLY_SOLVER": "NoSuch", "MIOPEN_LOG_LEVEL": "99", "MIOPEN_DEBUG_PERFDB_OVERRIDE": "x;;;y",
    "MIOPEN_COMPILE_PARALLEL_LEVEL": "-1", "MIOPEN_TUNING_TIME_MS_MAX": "soon", "MIOPEN_SYSTEM_DB_PATH": "/no/such",
    "MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC": "2", "MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE": "2",
    "MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED": "4294967296", "MIOPEN_DEBUG_CONV_GEMM": "2",
    "MIOPEN_USER_DB_PATH": "/dev/null",
}


def plan_in_a_process(**environment):
    """Return what a process says that makes nothing but a plan on the host."""
    program = """
import miopyx as mi
with mi.Handle("host") as handle:
    x, w = mi.TensorDescriptor("float32", (1, 2, 4, 4)), mi.TensorDescriptor("float32", (3, 2, 1, 1))
    conv = mi.ConvolutionDescriptor()
    for _ in range(2):
        handle.convolution_forward(x, w, conv, mi.TensorDescriptor("float32", conv.output_lens(x, w)))
"""
    return subprocess.run([sys.executable, "-P", "-c", program], env={**os.environ, **environment}, text=True,
                          stderr=subprocess.PIPE, timeout=120, check=False).stderr


@pytest.mark.parametrize("name", WRONG)
def test_a_plan_says_what_is_wrong_in_the_environment(name):
    said = plan_in_a_process(**{name: WRONG[name]})
    assert f"{name} = {WRONG[name]!r}" in said or name == "MIOPEN_DEBUG_PERFDB_OVERRIDE"
    lines = [line for line in said.splitlines()
             if line.startswith("MIOpen(OpenCL): Warning") and WRONG[name] in line]
    assert len(lines) == 1, lines
    assert name in lines[0]
    assert "allowed: " in lines[0] or "is no folder" in lines[0]


@pytest.mark.parametrize(("name", "near"), [
    ("MIOPYX_NUM_THREDS", "MIOPYX_NUM_THREADS"), ("MIOPEN_FIND_MODES", "MIOPEN_FIND_MODE"),
    ("MIOPEN_DEBUG_CONV_WINOGARD", "MIOPEN_DEBUG_CONV_WINOGRAD")])
def test_a_misspelt_variable_is_reported(name, near):
    lines = plan_in_a_process(**{name: "2"}).splitlines()
    assert len(lines) == 1
    assert f"{name} is no variable of miopyx; is it {near}?" in lines[0]


def test_variables_of_miopen_that_mean_nothing_here_are_not():
    """MIOpen's own, of which it has hundreds."""
    assert plan_in_a_process(MIOPEN_DEBUG_CONV_DIRECT_ASM_3X3U="0", MIOPEN_CHECK_NUMERICS="1",
                             MIOPEN_DEBUG_CK_DEFAULT_KERNELS="1") == ""


def test_a_right_environment_says_nothing():
    assert plan_in_a_process(MIOPEN_FIND_MODE="4", MIOPYX_HOST_ISA=" Baseline ", MIOPEN_LOG_LEVEL="4",
                             MIOPEN_DEBUG_FIND_ONLY_SOLVER="85;HostImplicitGemmFwd", MIOPEN_DEBUG_PERFDB_OVERRIDE=":",
                             MIOPEN_DEBUG_CONV_ASM="0") == ""


# The cache folder


def cache_at(monkeypatch, folder):
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(folder))
    config.forget()
    return config.cache_dir()


def test_cache_folder_is_made_for_its_owner_alone(monkeypatch, tmp_path):
    folder = tmp_path / "deep" / "cache"
    assert cache_at(monkeypatch, folder) == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert config.cache_dir() == folder


def test_cache_folder_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_at(monkeypatch, "") == tmp_path / "xdg" / "miopyx"


@pytest.mark.parametrize("base", [None, "", "/x/cache", "/x//cache/", "cache", " "])
@pytest.mark.parametrize("home", [None, "", "/home/someone", "/home/someone/", "//h", "home"])
def test_cache_place_is_what_platformdirs_says(monkeypatch, base, home):
    for name, value in (("XDG_CACHE_HOME", base), ("HOME", home)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("MIOPYX_CACHE_DIR", "")
    config.forget()
    assert config.cache_place() == Path(platformdirs.user_cache_dir("miopyx", appauthor=False))


def test_cache_switched_off(monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPYX_CACHE", "0")
    assert cache_at(monkeypatch, tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o770])
def test_folder_that_others_may_write_to_is_refused(monkeypatch, tmp_path, mode):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert cache_at(monkeypatch, tmp_path / "cache") is None


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o750])
def test_folder_that_others_may_read_is_used(monkeypatch, tmp_path, mode):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    assert cache_at(monkeypatch, tmp_path / "cache") == tmp_path / "cache"


def test_folder_of_somebody_else_is_refused(monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: (tmp_path / "cache").stat().st_uid + 1)
    assert cache_at(monkeypatch, tmp_path / "cache") is None


def test_folder_that_cannot_be_written_is_refused(monkeypatch, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # chmod would not stop root
    assert cache_at(monkeypatch, tmp_path / "cache") is None


@pytest.mark.parametrize("place", ["file", "file/cache", "/proc/miopyx"])
def test_folder_that_cannot_be_made(monkeypatch, tmp_path, place):
    (tmp_path / "file").write_bytes(b"")
    assert cache_at(monkeypatch, tmp_path / place) is None


# Files


def test_file_is_written_for_its_owner_alone(tmp_path):
    path = tmp_path / "folder" / "entry.bin"
    assert config.write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert config.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["entry.bin"]


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "entry.bin"
    path.write_bytes(b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert config.write_atomically(path, b"new") is False
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["entry.bin"]


def test_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "entry.bin"
    path.write_bytes(b"old")

    def interrupt(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            config.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["entry.bin"]


def test_unwritable_place_is_no_error(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert config.write_atomically(tmp_path / "file" / "entry.bin", b"data") is False
    assert config.write_atomically(tmp_path, b"data") is False
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_readers_never_see_a_part_of_a_file(tmp_path):
    path = tmp_path / "entry.bin"
    contents = [bytes([i]) * 100_000 for i in range(4)]
    config.write_atomically(path, contents[0])
    stop = threading.Event()
    failed = []

    def write(data):
        while not stop.is_set():
            if not config.write_atomically(path, data):
                failed.append(data)

    threads = [threading.Thread(target=write, args=(data,)) for data in contents[1:]]
    for thread in threads:
        thread.start()
    try:
        seen = {path.read_bytes() for _ in range(200)}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert seen <= set(contents)
    assert not failed
    assert [p.name for p in tmp_path.iterdir()] == ["entry.bin"]


LITTLE_MEMORY = """
import os, resource, sys
from pathlib import Path
from miopyx.database._system_file import RecordFile
from miopyx.values import config
held, packed = map(Path, sys.argv[1:])
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + (100 << 20),) * 2)
print(config.read_own(held, 1 << 28), dict(RecordFile(packed)))
"""


def test_a_small_file_takes_little_memory(tmp_path):
    """Where memory is promised to nobody who has none, as under `ulimit -v`, files are read all the same."""
    held, packed = tmp_path / "held", tmp_path / "a.txt.bz2"
    held.write_bytes(b"bytes")
    packed.write_bytes(bz2.compress(b"a=x:1\n"))
    done = subprocess.run([sys.executable, "-P", "-c", LITTLE_MEMORY, held, packed], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("b'bytes' {b'a': b'x:1'}\n", "")


def test_no_more_is_read_than_asked():
    assert [config.read_most(io.BytesIO(b"x" * (1 << 21)), most) == b"x" * min(most, 1 << 21)
            for most in (0, 5, 1 << 20, (1 << 20) + 1, 1 << 22)] == [True] * 5
