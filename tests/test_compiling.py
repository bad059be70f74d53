"""Compiling ahead: serially, in threads and in children; what fails, dies or hangs takes nothing else along."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import miopyx
from miopyx._core import KernelSpec
from miopyx.choose import _ranking, _survey, compile_child, compiling, find
from miopyx.choose.compiling import ahead
from miopyx.device import probing
from miopyx.errors import BadParmError, InvalidValueError, UnknownError
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import _opencl, programs
from miopyx.values import config

pytestmark = pytest.mark.usefixtures("keep_programs")
TINY = """
__kernel void tiny(__global int *y)
{
    y[get_global_id(0)] = VALUE;
}
"""


@pytest.fixture
def fresh(opencl_name, tmp_path, monkeypatch):
    """A handle that has nothing yet and a program cache of its own."""
    if opencl_name.startswith("cuda"):
        pytest.skip("what OpenCL's driver is given is counted")
    monkeypatch.setenv("MIOPEN_CUSTOM_CACHE_DIR", str(tmp_path / "cache"))
    config.forget()
    with miopyx.Handle(opencl_name) as handle:
        yield handle


@pytest.fixture
def level(monkeypatch):
    """Set how many are compiled at a time, and how many cores there seem to be."""
    def set_level(value, cores=None):
        monkeypatch.setenv("MIOPEN_COMPILE_PARALLEL_LEVEL", str(value))
        if cores:
            monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        config.forget()
    return set_level


@pytest.fixture
def compiled(monkeypatch):
    """How often this process gave a source, and how often a binary, to the driver; how many children it started."""
    counts = {"source": 0, "binary": 0, "children": 0}
    lock = threading.Lock()

    def counting(kind, function):
        def call(*arguments):
            with lock:
                counts[kind] += 1
            return function(*arguments)
        return call

    monkeypatch.setattr(_opencl, "program_from_source", counting("source", _opencl.program_from_source))
    monkeypatch.setattr(_opencl, "program_from_binary", counting("binary", _opencl.program_from_binary))
    monkeypatch.setattr(compiling, "_Child", counting("children", compiling._Child))
    return counts


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Return a function that makes specs of a tiny kernel, each with a value of its own."""
    (tmp_path / "kernels").mkdir()
    monkeypatch.setattr("miopyx.values.kernels.FOLDER", tmp_path / "kernels")
    file = f"tiny{os.urandom(4).hex()}.cl"  # sources are read once a process
    (tmp_path / "kernels" / file).write_text(TINY)

    def specs(*values):
        return [KernelSpec(file, "tiny", VALUE=value) for value in values]

    return specs


@pytest.fixture
def way(monkeypatch, level):
    """Have every device's programs compiled in one way."""
    def choose(name):
        monkeypatch.setattr(compiling, "_THREADS_ARE_SAFE", set() if name == "children" else ANY)
        monkeypatch.setattr(compiling, "_PROGRAMS_A_CHILD", 1)
        monkeypatch.setattr(compiling, "_PROGRAMS_OF_A_SEARCH", 1)
        level(1 if name == "serial" else 2)
    return choose


class _Any:
    def __contains__(self, _):
        return True


ANY = _Any()


@pytest.fixture
def child_that(tmp_path, monkeypatch):
    """Have children run some lines of Python where they would build; `job` has the options, `build()` builds."""
    def replace(lines):
        script = tmp_path / "child.py"
        body = "".join(f"    {line}\n" for line in lines.strip().splitlines())
        script.write_text(
            "import os, signal, sys\n"
            f"sys.path.insert(0, {str(Path(miopyx.__file__).parents[1])!r})\n"
            "from miopyx.choose import compile_child\n"
            "real = compile_child.Compiler.build\n"
            "def replaced(self, source, options):\n"
            f"{body}"
            "    return real(self, source, options)\n"
            "compile_child.Compiler.build = replaced\n"
            "sys.exit(compile_child.main())\n")
        monkeypatch.setattr(compiling, "_command", lambda: [sys.executable, "-P", str(script)])
    return replace


def run(handle, spec):
    """Return what a tiny kernel writes."""
    import pyopencl as cl

    binary = handle.program(spec).binary()
    with warnings.catch_warnings():  # some compilers report that all went well
        warnings.simplefilter("ignore", cl.CompilerWarning)
        program = cl.Program(handle.device.context, [handle.device.info.handle], [binary]).build()
    y = np.zeros(16, np.int32)
    buffer = handle.upload(y)
    kernel = cl.Kernel(program, "tiny")
    kernel.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(handle.queue, kernel, (16,), (4,))
    return handle.download(buffer, y)


@pytest.mark.parametrize("name", ["serial", "threads", "children"])
def test_each_way(fresh, kernels, way, compiled, rng, name):
    way(name)
    values = [int(v) for v in rng.choice(1 << 30, 3, replace=False)]
    specs = kernels(*values)
    assert ahead(fresh, [None, *specs, specs[0], *kernels(values[1])]) == []
    if name == "children":
        assert compiled == {"source": 0, "binary": 3, "children": 2}
    else:
        assert compiled == {"source": 3, "binary": 0, "children": 0}
    made = dict(compiled)
    assert (run(fresh, specs[1]) == values[1]).all()
    assert ahead(fresh, specs) == []
    assert compiled == made, "what the handle had was made again"
    # A second handle finds all of it on disk.
    with miopyx.Handle(fresh.queue) as other:
        assert ahead(other, specs) == []
        assert compiled == {**made, "binary": made["binary"] + 3}
        assert (run(other, specs[2]) == values[2]).all()


@pytest.mark.parametrize("name", ["serial", "threads", "children"])
def test_failures_are_told_and_end_nothing(fresh, kernels, way, name):
    way(name)
    good, bad = kernels(1, 2, 3), kernels("nonsense", "(")
    missing = KernelSpec("no_such.cl", "tiny")
    failures = ahead(fresh, [good[0], bad[0], missing, good[1], bad[1], good[2]])
    assert {failure.spec for failure in failures} == {missing, *bad}
    whys = {failure.spec: failure.why for failure in failures}
    assert "nonsense" in whys[bad[0]]
    assert bad[0].file in whys[bad[0]]
    assert "no_such.cl" in whys[missing]
    assert all(fresh.has_program(spec) for spec in good)
    assert not any(fresh.has_program(spec) for spec in bad)
    # The same in this process, log and all, for who asks for it by itself.
    with pytest.raises(miopyx.MIOpenError) as caught:
        fresh.program(bad[0])
    assert "nonsense" in str(caught.value)


@pytest.mark.parametrize("name", ["serial", "threads", "children"])
def test_without_a_disk_cache(fresh, kernels, way, compiled, monkeypatch, tmp_path, name):
    monkeypatch.setenv("MIOPEN_DISABLE_CACHE", "1")
    way(name)
    specs = kernels(5, 6, 7)
    assert ahead(fresh, specs) == []
    made = dict(compiled)
    assert (run(fresh, specs[2]) == 7).all()
    assert compiled == made
    assert not list(tmp_path.rglob("*.bin"))


def test_programs_of_a_plan(opencl_name, fresh, way, compiled, rng):
    """A plan whose kernels were made ahead compiles nothing, and computes what it should."""
    descriptors = [miopyx.TensorDescriptor("float32", (1, 2, 5, 5)), miopyx.TensorDescriptor("float32", (3, 2, 3, 3)),
                   miopyx.ConvolutionDescriptor(), miopyx.TensorDescriptor("float32", (1, 3, 3, 3))]
    naive = miopyx.solver_id("ConvDirectNaiveConvFwd")
    with miopyx.Handle("host") as host:
        x, w = (rng.integers(-3, 4, d.lens).astype("f4") for d in descriptors[:2])
        expected = np.zeros((1, 3, 3, 3), "f4")
        host.convolution_forward(*descriptors)(x, w, expected)
    with miopyx.Handle(opencl_name) as other:
        steps = other.convolution_forward(*descriptors, solution_id=naive).invoker.solution.steps
    for path in Path(config.get("MIOPEN_CUSTOM_CACHE_DIR")).rglob("*.bin"):
        path.unlink()
    compiled.update(source=0, binary=0)
    way("children")
    assert ahead(fresh, [step.spec for step in steps]) == []
    plan = fresh.convolution_forward(*descriptors, solution_id=naive)
    y = fresh.upload(np.zeros_like(expected))
    plan(fresh.upload(x), fresh.upload(w), y)
    assert np.array_equal(fresh.download(y, np.empty_like(expected)), expected)
    assert compiled == {"source": 0, "binary": 1, "children": 1}


def test_threads_compile_at_once(fresh, kernels, way, monkeypatch):
    way("threads")
    both = threading.Barrier(2)
    build = programs.build

    def meet(*arguments):
        both.wait(60)
        return build(*arguments)

    monkeypatch.setattr(programs, "build", meet)
    # Held by this thread, as a search does; the others must not wait for it.
    with fresh.timing():
        assert ahead(fresh, kernels(1, 2, 3, 4)) == []


@pytest.mark.parametrize("how", ["SIGABRT", "SIGKILL", "exit code 3"])
def test_a_child_that_dies_takes_one_program_along(fresh, kernels, way, compiled, child_that, how):
    way("children")
    end = {"SIGABRT": "os.abort()", "SIGKILL": "os.kill(os.getpid(), 9)", "exit code 3": "os._exit(3)"}[how]
    child_that(f"""
if options.endswith("=13"):
    sys.stderr.write("LLVM ERROR: cannot select\\n")
    sys.stderr.flush()
    {end}""")
    specs = kernels(*range(10, 18))
    failure, = ahead(fresh, specs)
    assert failure.spec is specs[3]
    assert how in failure.why
    assert "LLVM ERROR: cannot select" in failure.why
    assert specs[3].file in failure.why
    assert [fresh.has_program(spec) for spec in specs] == [spec is not specs[3] for spec in specs]
    assert (run(fresh, specs[7]) == 17).all()
    assert compiled.pop("children") in (2, 3), "the dead one is replaced if there is work left"
    assert compiled == {"source": 0, "binary": 7}


def test_children_that_always_die(fresh, kernels, way, child_that):
    way("children")
    child_that("os.abort()")
    specs = kernels(1, 2, 3)
    assert {failure.spec for failure in ahead(fresh, specs)} == set(specs)


def test_a_child_that_hangs_is_ended(fresh, kernels, way, child_that):
    way("children")
    child_that("if options.endswith('=2'):\n    signal.pause()")
    specs = kernels(1, 2, 3)
    failure, = ahead(fresh, specs, seconds=2)
    assert failure.spec is specs[1]
    # By the parent's clock, or by the child's own.
    assert "no answer within 2 s" in failure.why or "SIGALRM" in failure.why


def test_what_drivers_print_and_read_is_no_answer(fresh, kernels, way, child_that):
    way("children")
    child_that("""
print("chatter")
os.write(1, b"x" * 100)
os.system("echo more; cat > /dev/null")""")
    assert ahead(fresh, kernels(1, 2, 3)) == []


@pytest.mark.parametrize("answer", ["", "print('nonsense' * 100)", "import os; os.write(1, bytes(8) + b'\\xff' * 8)",
                                    "import os; os.write(1, (2).to_bytes(8, 'little') + bytes(8) + b'[]')"])
def test_a_child_that_makes_no_sense_is_not_used(fresh, kernels, way, compiled, monkeypatch, answer):
    way("children")
    monkeypatch.setattr(compiling, "_command", lambda: [sys.executable, "-c", answer])
    assert ahead(fresh, kernels(1, 2, 3)) == []
    assert compiled["source"] == 3


def test_where_no_child_can_be_started(fresh, kernels, way, compiled, monkeypatch):
    way("children")
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "_command", lambda: ["/no/such/program"])
        assert ahead(fresh, kernels(1, 2, 3)) == []
    assert compiled == {"source": 3, "binary": 0, "children": 2}
    # An embedded interpreter, which must not be started, or a device that others do not see.
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/usr/bin/editor")
        assert ahead(fresh, kernels(4, 5)) == []
    assert compiled == {"source": 5, "binary": 0, "children": 2}
    monkeypatch.setattr(programs, "identity", lambda info: {"device": "nobody's"})
    assert ahead(fresh, kernels(6, 7)) == []
    assert compiled == {"source": 7, "binary": 0, "children": 4}


def test_an_interrupt_ends_the_children(fresh, kernels, way, child_that, tmp_path):
    way("children")
    at_work = tmp_path / "at_work"
    os.mkfifo(at_work)
    child_that(f"open({str(at_work)!r}, 'w').write(str(os.getpid()))\nsignal.pause()")
    pids = []

    def interrupt():
        with open(at_work) as pipe:  # opens once a child has its job
            pids.append(int(pipe.read()))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            ahead(fresh, kernels(1))
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_children_end_with_their_parent(fresh):
    """The end of its input is the end of a child, whatever became of who started it."""
    process = subprocess.Popen(compiling._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    info = fresh.device.info
    compile_child.send(process.stdin, {"path": sys.path, "preload": [], "identity": programs.identity(info),
                                       "place": [info.platform_index, info.device_index], "cuda": info.cuda})
    assert compile_child.receive(process.stdout) == ({"why": ""}, b"")
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_programs_of_many_convolutions(fresh):
    """What plans find afterwards; what a call says wrong is an error that builds nothing."""
    x, w = miopyx.TensorDescriptor("float32", (2, 8, 9, 7)), miopyx.TensorDescriptor("float32", (16, 8, 3, 3))
    conv = miopyx.ConvolutionDescriptor((1, 1))
    y = miopyx.TensorDescriptor("float32", conv.output_lens(x, w))
    calls = [("forward", x, w, conv, y), ("backward_data", y, w, conv, x), ("backward_weights", y, x, conv, w)]
    for wrong in (("sideways", x, w, conv, y), ("forward", x, w, conv), 3, ("forward", w, x, conv, y),
                  (["forward"], x, w, conv, y)):
        with pytest.raises(BadParmError):
            fresh.build_ahead([*calls, wrong])
    with pytest.raises(BadParmError, match="an iterable"):
        fresh.build_ahead(None)
    wanted = []
    for direction, (_, *descriptors) in enumerate(calls):
        order = (0, 1, 3) if direction == 0 else (3, 1, 0) if direction == 1 else (1, 3, 0)
        problem = ConvProblem(direction, *(descriptors[i] for i in order), conv)
        first = _ranking.candidates(_survey.Survey(fresh, problem))[0]
        wanted += [step.spec for step in first.offer.solution().steps if step.spec is not None]
    assert wanted
    assert not any(fresh.has_program(spec) for spec in wanted)
    fresh.build_ahead(iter(calls))
    assert all(fresh.has_program(spec) for spec in wanted)
    fresh.build_ahead(calls)
    fresh.build_ahead([])


def test_what_a_find_times_is_built_once(fresh, opencl_name, compiled):
    """Ahead of a Find in another process: the second time nothing is even loaded, unless its entry is broken."""
    x, w = miopyx.TensorDescriptor("float32", (2, 8, 9, 7)), miopyx.TensorDescriptor("float32", (16, 8, 3, 3))
    conv = miopyx.ConvolutionDescriptor((1, 1))
    problem = ConvProblem(0, x, w, miopyx.TensorDescriptor("float32", conv.output_lens(x, w)), conv)
    assert find.build_ahead(_survey.Survey(fresh, problem)) == 0
    programs.store()
    assert compiled["source"] + compiled["children"] > 0
    before = dict(compiled)
    with miopyx.Handle(opencl_name) as handle:
        assert find.build_ahead(_survey.Survey(handle, problem)) == 0
        assert compiled == before
        entry = next(path for path in Path(os.environ["MIOPEN_CUSTOM_CACHE_DIR"]).rglob("*.bin"))
        entry.write_bytes(entry.read_bytes()[:-1])
        assert find.build_ahead(_survey.Survey(handle, problem)) == 0
        assert compiled["source"] == before["source"] + 1


class TestWay:
    """Which way programs are compiled, by runtime, level, cores and number."""

    @pytest.mark.parametrize(("runtime", "value", "cores", "count", "expected"), [
        ("nvidia", 0, 16, 100, (8, True)), ("nvidia", 0, 16, 15, (8, False)), ("nvidia", 0, 16, 16, (4, True)),
        ("nvidia", 0, 16, 3, (3, False)), ("nvidia", 0, 1, 99, (1, False)), ("nvidia", 1, 16, 100, (1, False)),
        ("intel", 5, 2, 100, (5, False)),
        ("pocl", 0, 16, 100, (8, True)), ("pocl", 0, 16, 9, (2, True)), ("pocl", 0, 16, 8, (2, True)),
        ("pocl", 0, 16, 7, (1, False)), ("pocl", 0, 16, 1, (1, False)), ("pocl", 1, 16, 100, (1, False)),
        ("pocl", 0, 1, 11, (1, False)), ("pocl", 0, 2, 12, (1, True)), ("pocl", 2, 2, 100, (2, True)),
        ("other", 3, 2, 100, (3, True)),
    ])
    def test_rule(self, level, runtime, value, cores, count, expected):
        level(value, cores)
        assert compiling._way(runtime, count) == expected

    def test_without_children(self, level, monkeypatch):
        level(0, 16)
        monkeypatch.setattr(probing, "_python", lambda: None)
        assert compiling._way("nvidia", 100) == (8, False)
        assert compiling._way("pocl", 100) == (1, False)

    def test_negative_level(self, fresh, kernels, level):
        level(-1)
        with pytest.raises(InvalidValueError, match="MIOPEN_COMPILE_PARALLEL_LEVEL"):
            ahead(fresh, kernels(1))


def test_handles(fresh, kernels):
    assert ahead(fresh, []) == []
    assert ahead(fresh, [None]) == []
    with miopyx.Handle("host") as host:
        assert ahead(host, [None, None]) == []
    fresh.destroy()
    with pytest.raises(BadParmError):
        ahead(fresh, kernels(1))


def test_frames(rng):
    """Whatever stands in a stream is a frame or none; no cut or flipped byte raises."""
    stream = io.BytesIO()
    payload = rng.bytes(300)
    compile_child.send(stream, {"why": "ä\n"}, payload)
    whole = stream.getvalue()
    assert compile_child.receive(io.BytesIO(whole + b"next")) == ({"why": "ä\n"}, payload)
    for length in range(len(whole)):
        assert compile_child.receive(io.BytesIO(whole[:length])) is None
    for place in range(len(whole) - len(payload)):
        altered = bytearray(whole)
        altered[place] ^= int(rng.integers(1, 256))
        frame = compile_child.receive(io.BytesIO(altered))
        assert frame is None or isinstance(frame[0], dict)
    deep = b"[" * 100000
    assert compile_child.receive(io.BytesIO(compile_child._LENGTHS.pack(len(deep), 0) + deep)) is None
    text = json.dumps([1]).encode()
    assert compile_child.receive(io.BytesIO(compile_child._LENGTHS.pack(len(text), 0) + text)) is None


def test_a_child_is_started_as_probes_are():
    assert compiling._command()[:-1] == [probing._python(), "-P", "-W", "ignore"]
    assert Path(compiling._command()[-1]).is_file()


def test_children_assemble_for_cuda(monkeypatch):
    """PTX is what they answer with; CUDA's driver has assembled it, so that its own cache has the rest."""
    class Pointer:
        int_ptr = 7

    compiler = compile_child.Compiler.__new__(compile_child.Compiler)
    compiler.info = None
    compiler.ptx = lambda context, compiler, info, source, options: b"ptx of " + source + options.encode()
    compiler.context = compiler.device = Pointer
    seen = []

    def assembled(*what):
        seen.append(what)
        raise UnknownError("no room on the card")  # who asked will see

    compiler.assembled = assembled
    for compiler.for_cuda, compiler.cuda, disabled in ((True, 5, "0"), (True, 0, "0"), (True, 5, "1")):
        monkeypatch.setenv("CUDA_CACHE_DISABLE", disabled)
        assert compiler.answer({"options": " -D A"}, b"source") == b"ptx of source -D A"
    assert seen == [(5, b"ptx of source -D A")]
