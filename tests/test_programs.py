"""The program cache: what is stored is used, and nothing that is not exactly what was stored reaches a driver."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import miopyx
from miopyx._core import KernelSpec
from miopyx.errors import InternalError, UnknownError
from miopyx.runtime import _opencl, programs
from miopyx.values import config, kernels, logs

FILE, OPTIONS = "layers/bias.cl", "-D ROWS=1"
pytestmark = pytest.mark.usefixtures("keep_programs")
FIELDS = ("file", "options", "platform", "platform version", "device", "isa", "driver", "library", "fp64", "source",
          "binary")


@pytest.fixture
def device(opencl_handle):
    return opencl_handle.device


@pytest.fixture(autouse=True)
def _only_own_programs(monkeypatch):
    """What other tests left takes minutes to write."""
    monkeypatch.setattr(programs, "_later", {})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path))
    logs.forget()
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


def build(device, options):
    """Build a program and see its entry written, whenever this driver's entries are."""
    program = programs.build(device, FILE, options)
    programs.store()
    return program


def entries(folder):
    programs.store()
    return sorted((folder / "programs").rglob("*.bin"))


def bias_is_right(name, rng):
    """Compute with a new handle, whose programs come from the cache or a compiler; return whether numbers are right."""
    n, c, h, w = (int(v) for v in rng.integers(1, 6, 4))
    x, b = rng.standard_normal((n, c, h, w)).astype("f4"), rng.standard_normal((1, c, 1, 1)).astype("f4")
    with miopyx.Handle(name) as handle:
        y = handle.upload(np.zeros_like(x))
        miopyx.miopenConvolutionForwardBias(
            handle, 1.0, miopyx.TensorDescriptor("float32", b.shape), handle.upload(b), 0.0,
            miopyx.TensorDescriptor("float32", x.shape), y)
        result = handle.download(y, np.empty_like(x))
    return np.array_equal(result, np.broadcast_to(b, x.shape))


def test_second_build_takes_the_binary(device, folder, compiled):
    build(device, OPTIONS)
    assert compiled == {"source": 1, "binary": 0}
    assert len(entries(folder)) == 1
    assert entries(folder)[0].stat().st_mode & 0o077 == 0
    program = build(device, OPTIONS)
    assert compiled == {"source": 1, "binary": 1}
    assert program.work_group_limit("bias_backward") >= 1
    build(device, "-D ROWS=1 -D Y_TYPE=half")
    assert compiled == {"source": 2, "binary": 1}
    assert len(entries(folder)) == 2


@pytest.fixture
def late(device, monkeypatch):
    """Have binaries made as for PoCL, whatever the driver is."""
    monkeypatch.setattr(programs, "_MAKE_BINARIES_WHEN_ASKED", {device.info.runtime})


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_entries_are_written_at_once(device, folder, monkeypatch):
    monkeypatch.setattr(programs, "_MAKE_BINARIES_WHEN_ASKED", set())
    programs.build(device, FILE, OPTIONS)
    assert len(files(folder)) == 1


def test_late_entries_are_written_when_a_handle_is_destroyed(opencl_name, folder, late, compiled):
    bias = KernelSpec(FILE, "bias_finish", ROWS=1)
    with miopyx.Handle(opencl_name) as handle:
        handle.program(bias)
        assert files(folder) == []
    assert len(files(folder)) == 1
    assert compiled == {"source": 1, "binary": 0}
    with miopyx.Handle(opencl_name) as handle:
        handle.program(bias)
    assert compiled == {"source": 1, "binary": 1}


def test_a_late_entry_is_written_for_another_handle(opencl_name, folder, late, compiled):
    bias = KernelSpec(FILE, "bias_finish", ROWS=1)
    with miopyx.Handle(opencl_name) as first, miopyx.Handle(opencl_name) as second:
        first.program(bias)
        second.program(bias)
        assert compiled == {"source": 1, "binary": 1}


def test_moving_a_handle_writes_its_entries(opencl_name, folder, late):
    import pyopencl as cl

    with miopyx.Handle(opencl_name) as handle:
        handle.program(KernelSpec(FILE, "bias_finish", ROWS=1))
        handle.set_queue(cl.CommandQueue(handle.stream().context))
        assert files(folder) == []
        handle.set_queue(cl.CommandQueue(cl.Context([handle.stream().device])))
        assert len(files(folder)) == 1


def test_destroying_a_handle_writes_no_entry_of_another(opencl_name, folder, late):
    bias, other = (KernelSpec(FILE, "bias_finish", ROWS=1, **more) for more in ({}, {"Y_TYPE": "half"}))
    with miopyx.Handle(opencl_name) as first:
        first.program(bias)
        with miopyx.Handle(opencl_name) as second:
            second.program(other)
        assert len(files(folder)) == 1
    assert len(files(folder)) == 2


def test_an_interrupted_write_is_done_later(device, folder, late, monkeypatch):
    for options in (OPTIONS, OPTIONS + " -D Y_TYPE=half"):
        programs.build(device, FILE, options)

    def interrupt(path, data):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(config, "write_atomically", interrupt)
        with pytest.raises(KeyboardInterrupt):
            programs.store()
    assert files(folder) == []
    programs.store()
    assert len(files(folder)) == 2


def test_a_removed_folder_does_not_come_back(device, folder, late, monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path / "removed"))
    config.forget()
    programs.build(device, FILE, OPTIONS)
    shutil.rmtree(tmp_path / "removed")
    programs.store()
    assert not (tmp_path / "removed").exists()


def test_a_late_entry_goes_where_it_was_to_go(device, folder, late, monkeypatch, tmp_path_factory):
    programs.build(device, FILE, OPTIONS)
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path_factory.mktemp("other")))
    config.forget()
    programs.store()
    assert len(files(folder)) == 1


def test_a_child_of_fork_writes_no_late_entry(device, folder, late):
    programs.build(device, FILE, OPTIONS)
    child = os.fork()
    if child == 0:
        programs.store()
        os._exit(len(files(folder)))
    assert os.waitpid(child, 0)[1] == 0
    programs.store()
    assert len(files(folder)) == 1


def test_the_header_can_be_read(device, folder):
    build(device, OPTIONS)
    data = entries(folder)[0].read_bytes()
    magic, *lines = data[:data.index(b"\n\n")].decode().splitlines()
    assert magic == "miopyx program 3"
    fields = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    assert tuple(fields) == FIELDS
    assert ast.literal_eval(fields["file"]) == FILE
    assert ast.literal_eval(fields["options"]) == OPTIONS
    assert ast.literal_eval(fields["driver"]) == device.info.driver_version
    assert ast.literal_eval(fields["library"])[0] == device.info.library


@pytest.mark.parametrize("field", FIELDS)
def test_an_entry_of_something_else_is_rebuilt(device, folder, compiled, field):
    build(device, OPTIONS)
    path = entries(folder)[0]
    whole = path.read_bytes()
    start = whole.index(f"\n{field}: ".encode()) + len(field) + 3
    end = whole.index(b"\n", start)
    value = whole[start:end]
    other = b"'another'" if field != "binary" else value[::-1]
    path.write_bytes(whole[:start] + other + whole[end:])
    build(device, OPTIONS)
    assert compiled == {"source": 2, "binary": 0}
    build(device, OPTIONS)
    assert compiled == {"source": 2, "binary": 1}
    assert len(entries(folder)) == 1


def test_all_that_a_binary_depends_on_is_part_of_the_key(device):
    changes = {"platform_name": "x", "platform_version": "x", "device_name": "x", "isa": "x", "driver_version": "x",
               "library": "x", "fp64": not device.info.fp64}
    heads = [programs.header(device.info._replace(**{name: value}), FILE, OPTIONS)
             for name, value in changes.items()]
    heads += [programs.header(device.info, FILE, OPTIONS), programs.header(device.info, FILE, OPTIONS + " "),
              programs.header(device.info, "conv/im2col.cl", OPTIONS)]
    assert len(set(heads)) == len(heads)
    # A name may hold anything and still ends where its line ends.
    odd = programs.header(device.info._replace(device_name='a\nisa: "b"'), FILE, OPTIONS)
    assert odd.count(b"\n") == heads[0].count(b"\n")


def test_damaged_entries_are_rebuilt_and_repaired(opencl_name, folder, compiled, rng, amount):
    """A file cut or altered at many random places: rebuilt, right, and whole again."""
    assert bias_is_right(opencl_name, rng)
    path, = entries(folder)
    whole = path.read_bytes()
    head = whole[:whole.index(b"binary: ")]
    # A third of the places in the header, which is the smaller part.
    places = [*rng.integers(0, len(head) + 140, amount(33, 66)), *rng.integers(0, len(whole), amount(67, 134))]
    for number, place in enumerate(places):
        if number % 2:
            damaged = whole[:place]
        else:
            damaged = bytearray(whole)
            damaged[place] ^= rng.integers(1, 256)
        path.write_bytes(damaged)
        assert programs.read_entry(path, head) is None
        before = dict(compiled)
        assert bias_is_right(opencl_name, rng)
        assert compiled == {"source": before["source"] + 1, "binary": before["binary"]}
        whole = path.read_bytes()
        assert programs.read_entry(path, head) is not None, "the entry was not repaired"


def test_other_damage(device, folder, compiled):
    build(device, OPTIONS)
    path, = entries(folder)
    whole = path.read_bytes()
    head = whole[:whole.index(b"binary: ")]
    for damaged in (b"", whole + b"\0", whole + whole, b"x" + whole[1:], whole.replace(b"\n", b"\r\n"),
                    bytes(len(whole)), whole[len(head):], head, b"miopyx program 1\n" + whole[17:]):
        path.write_bytes(damaged)
        assert programs.read_entry(path, head) is None
    build(device, OPTIONS)
    whole = path.read_bytes()  # not all drivers give the same bytes twice
    assert programs.read_entry(path, head) == whole[whole.index(b"\n\n") + 2:]


@pytest.mark.parametrize("kind", ["link", "pipe", "huge"])
def test_odd_files_are_replaced(device, folder, compiled, kind):
    build(device, OPTIONS)
    path, = entries(folder)
    if kind == "link":
        path.rename(folder / "elsewhere")
        path.symlink_to(folder / "elsewhere")
    elif kind == "pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        os.truncate(path, 1 << 40)
    build(device, OPTIONS)
    assert compiled == {"source": 2, "binary": 0}
    assert path.is_file()
    assert not path.is_symlink()
    assert path.stat().st_size < 1 << 30
    build(device, OPTIONS)
    assert compiled == {"source": 2, "binary": 1}


def test_a_binary_that_the_driver_refuses_is_rebuilt(device, folder, compiled, monkeypatch):
    build(device, OPTIONS)

    def refuse(*arguments):
        raise UnknownError("no such binary")

    monkeypatch.setattr(_opencl, "program_from_binary", refuse)
    build(device, OPTIONS)
    assert compiled["source"] == 2
    with pytest.raises(UnknownError):
        programs.adopt(device, FILE, OPTIONS + " -D OTHER", b"x")
    assert len(entries(folder)) == 1


@pytest.mark.parametrize("place", ["MIOPYX_CACHE", "MIOPEN_DISABLE_CACHE", "file in the way", "directory in the way",
                                   "cannot be written", "cannot be made", "others may write", "default: others may"])
def test_without_a_cache(opencl_name, folder, compiled, monkeypatch, caplog, rng, place):
    lines = 1
    if place.startswith("MIO"):
        monkeypatch.setenv(place, "0" if place == "MIOPYX_CACHE" else "1")
        lines = 0
    elif place == "file in the way":
        (folder / "programs").write_text("")
    elif place == "directory in the way":
        assert bias_is_right(opencl_name, rng)
        path, = entries(folder)
        path.unlink()
        path.mkdir()
    elif place == "cannot be written":  # not by root either
        monkeypatch.setenv("MIOPEN_CUSTOM_CACHE_DIR", "/proc/self/task")
    elif place == "cannot be made":
        monkeypatch.setenv("MIOPEN_CUSTOM_CACHE_DIR", "/proc/self/nowhere")
    elif place == "others may write":
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        monkeypatch.setenv("MIOPEN_CUSTOM_CACHE_DIR", str(folder / "open"))
    else:
        folder.chmod(0o777)
    config.forget()
    compiled.update(source=0, binary=0)
    for _ in range(2):
        assert bias_is_right(opencl_name, rng)
    assert compiled == {"source": 2, "binary": 0}
    said = [record for record in caplog.records if "not kept" in record.message]
    assert len(said) == lines
    assert not [p for p in folder.rglob(".*")], "a temporary file was left"


def test_a_folder_of_its_own(opencl_name, folder, compiled, monkeypatch, rng):
    monkeypatch.setenv("MIOPEN_CUSTOM_CACHE_DIR", str(folder / "custom" / "cache"))
    config.forget()
    assert bias_is_right(opencl_name, rng)
    assert bias_is_right(opencl_name, rng)
    assert compiled == {"source": 1, "binary": 1}
    assert len(entries(folder / "custom" / "cache")) == 1
    assert not (folder / "programs").exists()


def test_a_build_failure_carries_the_log(device, folder):
    with pytest.raises(UnknownError) as caught:
        build(device, "-D Y_TYPE=nonsense")
    assert FILE in str(caught.value)
    assert "nonsense" in str(caught.value)
    assert not list(folder.rglob("*.bin"))


def test_sources():
    text = programs.source("layers/bias.cl")
    assert '#include "' not in text
    assert "mx_bias_sums" in text
    with pytest.raises(InternalError):
        programs.source("no_such.cl")


def test_functions_with_barriers_are_always_inlined():
    """But NVIDIA's, for drivers that inline what they like: see include/group_inline.h."""
    functions = re.compile(r"^(?![#\s])([^;{}#]*?\))\s*\{$(.*?)^\}", re.S | re.M)
    seen = set()
    for file in kernels.names("conv", "include", "layers"):
        for found, body in functions.findall(kernels.read(file).decode()):
            head = found.split("\n\n")[-1].strip()
            if re.search(r"\b(barrier\(|BARRIER\b)", body) and "nvidia" not in file and "KERNEL" not in head.upper():
                seen.add(head.split()[0])
                assert re.match(r"GROUP_INLINE|static inline __attribute__\(\(always_inline", head), (file, head)
    assert "GROUP_INLINE" in seen


def test_a_handle_builds_a_program_once(opencl_name, folder, compiled):
    with miopyx.Handle(opencl_name) as handle:
        spec = KernelSpec(FILE, "bias_finish", ROWS=1)
        assert not handle.has_program(spec)
        assert handle.program(spec) is handle.program(KernelSpec(FILE, "bias_backward", ROWS=1))
        assert handle.has_program(spec)
    assert compiled["source"] == 1


def test_a_handle_keeps_programs_of_its_own_device_only(opencl_name, folder):
    spec = KernelSpec(FILE, "bias_finish", ROWS=1)
    with miopyx.Handle(opencl_name) as handle, miopyx.Handle(opencl_name) as other:
        program = build(other.device, OPTIONS)
        handle.keep_program(spec, program, other.device)
        assert not handle.has_program(spec)
        other.keep_program(spec, program, other.device)
        assert other.program(spec) is program


class TestLimit:
    """Files of the cache stay within the limit; those that were used last stay."""

    def store(self, number, size, rng):
        head = programs._MAGIC + f"number: {number}\n".encode()
        folder = programs._folder()
        programs._store(programs._path(folder, head), head, rng.bytes(size))
        return head

    def test_total(self, folder, setting, rng):
        setting(MIOPYX_CACHE_MB="1")
        for number in range(200):
            self.store(number, int(rng.integers(1, 30000)), rng)
        sizes = [p.stat().st_size for p in entries(folder)]
        assert (1 << 20) // 4 <= sum(sizes) <= 1 << 20

    def test_order(self, folder, setting, rng):
        setting(MIOPYX_CACHE_MB="1")
        first, second = self.store("first", 4000, rng), self.store("second", 4000, rng)
        paths = [programs._path(folder / "programs", head) for head in (first, second)]
        for number in range(160):
            os.utime(paths[0], ns=(0, 0))
            assert programs.read_entry(paths[0], first) is not None, f"gone after {number} more although in use"
            self.store(number, 20000, rng)
        assert not paths[1].exists()

    def test_one_that_is_too_long_stays_until_the_next(self, folder, setting, rng):
        setting(MIOPYX_CACHE_MB="1")
        head = self.store("long", 1 << 20, rng)
        path = programs._path(folder / "programs", head)
        assert path.exists()
        others = 0
        while path.exists() and others < 1000:
            others += 1
            self.store(others, 10, rng)
        assert not path.exists()

    def test_what_a_killed_writer_left_goes_too(self, folder, setting, rng):
        setting(MIOPYX_CACHE_MB="1")
        path = programs._path(folder / "programs", self.store("x", 100, rng))
        left = path.with_name("." + path.name + ".123.abc")
        left.write_bytes(rng.bytes(1 << 20))
        os.utime(left, ns=(0, 0))
        self.store("x", 100, rng)
        assert not left.exists()
        assert path.exists()


# Computes a bias in a process of its own and prints how often sources and binaries went to the driver.
CHILD = """
import json, sys
import numpy as np
import miopyx
from miopyx.runtime import _opencl
counts = {"source": 0, "binary": 0}
def counting(kind, function):
    def call(*arguments):
        counts[kind] += 1
        return function(*arguments)
    return call
_opencl.program_from_source = counting("source", _opencl.program_from_source)
_opencl.program_from_binary = counting("binary", _opencl.program_from_binary)
handle = miopyx.Handle(sys.argv[1])
x_desc = miopyx.TensorDescriptor("float32", (2, 3, 4, 5))
bias = np.arange(3, dtype=np.float32)
y = handle.upload(np.zeros((2, 3, 4, 5), np.float32))
print("ready", flush=True)
sys.stdin.readline()
miopyx.miopenConvolutionForwardBias(handle, 1.0, miopyx.TensorDescriptor("float32", (1, 3, 1, 1)), handle.upload(bias),
                                    0.0, x_desc, y)
right = bool((handle.download(y, np.empty((2, 3, 4, 5), np.float32)) == bias[:, None, None]).all())
print(json.dumps({"right": right, **counts}))
"""


def start(name, folder, code=CHILD, **options):
    # The programs alone have a new folder: what probing found out may be known.
    return subprocess.Popen([sys.executable, "-P", "-c", code, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            env={**os.environ, "MIOPEN_CUSTOM_CACHE_DIR": str(folder)}, text=True, **options)


def finish(processes):
    """Let all go once all are ready, so that they meet; return what they print."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = []
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        answers.append(json.loads(output.splitlines()[-1]))
    return answers


def test_a_second_process_compiles_nothing(opencl_name, tmp_path):
    first, = finish([start(opencl_name, tmp_path)])
    second, = finish([start(opencl_name, tmp_path)])
    assert first == {"right": True, "source": 1, "binary": 0}
    assert second == {"right": True, "source": 0, "binary": 1}


# The same, with a handle that is gone before the process ends.
LOCAL = "def main():\n" + "".join(f"    {line}\n" for line in CHILD.splitlines()) + "main()\n"

# The same in a worker, which does not end as other processes do.
WORKER = """
import json, multiprocessing, sys
def work(name):
    import miopyx
    from miopyx._core import KernelSpec
    miopyx.Handle(name).program(KernelSpec("layers/bias.cl", "bias_backward", ROWS=1))
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work, args=(sys.argv[1],))
    child.start()
    child.join()
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps({"right": child.exitcode == 0}))
"""


@pytest.mark.parametrize("code", [LOCAL, WORKER])
def test_what_nobody_destroyed_is_written(opencl_name, tmp_path, code):
    answer, = finish([start(opencl_name, tmp_path, code)])
    assert answer["right"]
    assert len(entries(tmp_path)) == 1


def test_processes_at_once(opencl_name, tmp_path):
    answers = finish([start(opencl_name, tmp_path) for _ in range(3)])
    assert all(answer["right"] for answer in answers)
    assert len(entries(tmp_path)) == 1
    after, = finish([start(opencl_name, tmp_path)])
    assert after == {"right": True, "source": 0, "binary": 1}
    assert not list(tmp_path.joinpath("programs").rglob(".*"))


# What a process does in which no file that we write may grow beyond 4 KiB; drivers' own files may.
LIMITED = """
import logging, resource
from miopyx.values import config
logging.basicConfig()
write = config.write_atomically
def limited(path, data):
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        return write(path, data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
config.write_atomically = limited
"""


def test_a_full_file_system(opencl_name, tmp_path):
    """Nothing is kept, everything is computed, and nothing half written is left."""
    process = start(opencl_name, tmp_path, LIMITED + CHILD, stderr=subprocess.PIPE)
    output, errors = process.communicate("\n", timeout=300)
    assert json.loads(output.splitlines()[-1]) == {"right": True, "source": 1, "binary": 0}
    assert errors.count("not kept") == 1
    assert not [path for path in tmp_path.joinpath("programs").rglob("*") if path.is_file()]


def test_a_handle_keeps_the_programs_that_were_used_last(opencl_name, monkeypatch):
    """Solvers make one for each shape.  A plan whose program went computes what it did; what goes is stored."""
    with miopyx.Handle(opencl_name) as handle:
        x = miopyx.TensorDescriptor("float32", (2, 3, 4))
        plan = handle.activation_forward(miopyx.ActivationDescriptor("relu"), x, x)
        values = np.random.default_rng(0).standard_normal(x.lens, np.float32)
        given, first, again = handle.upload(values), *(handle.empty(x) for _ in range(2))
        plan(given, first)
        made, stored, real = [], [], programs.build
        monkeypatch.setattr(programs, "build", lambda device, file, options: made.append(options) or object())
        monkeypatch.setattr(programs, "store", lambda some=None: stored.extend(some or ()))
        specs = [KernelSpec(FILE, "entry", ROWS=i) for i in range(2049)]
        kept = [handle.program(spec) for spec in specs[:2048]]
        assert len(stored) >= 1  # the plan's own
        assert handle.program(specs[0]) is kept[0]
        handle.program(specs[2048])
        assert len(made) == 2049
        assert stored[-1] is kept[1]
        assert handle.has_program(specs[0])
        assert not handle.has_program(specs[1])
        assert handle.has_program(specs[2])
        kept.clear()
        stored.clear()
        monkeypatch.setattr(programs, "build", real)
        plan(given, again)
        np.testing.assert_array_equal(handle.download(again), handle.download(first))
        np.testing.assert_array_equal(handle.download(again).reshape(x.lens), np.maximum(values, 0))
