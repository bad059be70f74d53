"""Logging: MIOpen's formats to the byte, levels, warnings that appear once, commands that repeat their call."""

import functools
import inspect
import io
import logging
import os
import re
import shlex
import subprocess
import sys
import threading

import numpy as np
import pytest
from problems import Problem

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.api import _convolution, _tensor, logged
from miopyx.problem import _problem
from miopyx.tools.driver import options
from miopyx.tools.driver import problem as driver_problem
from miopyx.values import config, logs

PREFIX = "MIOpen(OpenCL): "
DIRECTIONS = ("Forward", "BackwardData", "BackwardWeights")
SWITCHES = ("MIOPEN_ENABLE_LOGGING", "MIOPEN_ENABLE_LOGGING_CMD")


@pytest.fixture(autouse=True)
def fresh():
    config.forget()
    logs.forget()
    yield
    logs.forget()


@pytest.fixture
def alone(monkeypatch):
    """Python's logging as it is where nobody configured it (pytest does)."""
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logs.logger, "parent", root)
    return root


@pytest.fixture
def setenv(monkeypatch):
    def set_variable(name, value):
        monkeypatch.setenv(name, str(value))
        config.forget()

    return set_variable


def python(code, **environment):
    """Run code in a process of its own; return its stdout and stderr."""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


# Messages


LEVELS = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logs.INFO2, logs.TRACE)
NAMES = ("Fatal", "Error", "Warning", "Info", "Info2", "Trace")


@pytest.mark.parametrize(("setting", "count"), [
    ("", 3), ("0", 3), ("1", 0), ("2", 1), ("3", 2), ("4", 3), ("5", 4), ("6", 5), ("7", 6), ("0x5", 4), ("8", 3),
    ("-1", 3), ("many", 3),
])
def test_levels(alone, setenv, capsys, setting, count):
    setenv("MIOPEN_LOG_LEVEL", setting)
    for level in LEVELS:
        logs.logger.log(level, "message %d", level)
    lines = capsys.readouterr().err.splitlines()
    if setting in ("8", "-1", "many"):
        assert f"MIOPEN_LOG_LEVEL = {setting!r}" in lines.pop(0)
    assert lines == [f"{PREFIX}{name} [test_levels] message {level}"
                     for name, level in zip(NAMES[:count], LEVELS, strict=False)]


def test_level_is_read_when_there_is_a_message(alone, setenv, capsys):
    setenv("MIOPEN_LOG_LEVEL", 5)
    logs.logger.info("one")
    setenv("MIOPEN_LOG_LEVEL", 4)
    logs.logger.info("two")
    assert capsys.readouterr().err == f"{PREFIX}Info [test_level_is_read_when_there_is_a_message] one\n"


class Listener(logging.Handler):
    def __init__(self):
        super().__init__()
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


@pytest.mark.parametrize("where", ["root", "miopyx"])
def test_who_configures_logging_gets_the_messages_and_we_print_nothing(alone, setenv, capsys, where):
    logger, mine = alone if where == "root" else logs.logger, Listener()
    logger.addHandler(mine)
    try:
        logs.logger.warning("a")
        logs.logger.info("b")
        assert (mine.seen, capsys.readouterr().err) == (["a"], "")
        alone.setLevel(logging.ERROR)
        logs.logger.warning("c")
        assert mine.seen == ["a"]
        alone.setLevel(logging.INFO)
        logs.logger.info("d")
        assert (mine.seen, capsys.readouterr().err) == (["a", "d"], "")
        setenv("MIOPEN_LOG_LEVEL", 4)
        logs.logger.warning("e")
        assert mine.seen[-1] == "e"
        assert capsys.readouterr().err.endswith(" e\n")
        setenv("MIOPEN_LOG_LEVEL", 1)
        logs.logger.error("f")
        assert (mine.seen[-1], capsys.readouterr().err) == ("f", "")
    finally:
        logger.removeHandler(mine)


def test_a_level_of_the_users_own_stays(alone, capsys):
    logs.logger.setLevel(logging.ERROR)
    try:
        logs.logger.warning("no")
        logs.logger.error("yes")
    finally:
        logs.logger.setLevel(logs._OPEN)
    assert capsys.readouterr().err.endswith(" yes\n")


def test_null_handlers_are_no_listeners(alone, capsys):
    null = logging.NullHandler()
    logging.getLogger("miopyx").addHandler(null)
    try:
        logs.logger.warning("heard")
    finally:
        logging.getLogger("miopyx").removeHandler(null)
    assert capsys.readouterr().err.endswith(" heard\n")


def test_prefixes(alone, setenv, capsys):
    setenv("MIOPEN_ENABLE_LOGGING_MPMT", "1")
    logs.logger.warning("x")
    tid = threading.get_native_id()
    assert capsys.readouterr().err == f"{tid} {PREFIX}Warning [test_prefixes] x\n"
    setenv("MIOPEN_ENABLE_LOGGING_ELAPSED_TIME", "1")
    logs.write(["first", "second"])
    first, second = capsys.readouterr().err.splitlines()
    pattern = rf"{tid} MIOpen\(OpenCL\)([ \d]{{4,}}\.\d{{3}}): "
    for line, text in ((first, "first"), (second, "second")):
        found = re.fullmatch(pattern + text, line)
        assert found
        assert found[1] == f"{float(found[1]):8.3f}"
        assert float(found[1]) >= 0


def test_messages_that_do_not_fit_their_arguments(alone, capsys):
    class Bad:
        def __str__(self):
            raise RuntimeError

        __repr__ = __str__

    logs.logger.warning("%d and %d", 1)
    logs.logger.warning("%s", Bad())
    assert capsys.readouterr().err.splitlines() == [
        f"{PREFIX}Warning [test_messages_that_do_not_fit_their_arguments] {text}" for text in ("%d and %d", "%s")]


@pytest.mark.parametrize("stream", [None, "closed", "failing", "ascii"])
def test_no_stderr_is_no_error(alone, monkeypatch, stream):
    if stream == "failing":
        class Failing(io.StringIO):
            def write(self, text):
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(sys, "stderr", Failing())
    elif stream == "ascii":
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), "ascii"))
    else:
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stderr", None if stream is None else closed)
    logs.logger.warning("ä")
    assert logs.warn_once("key", "ä")


def test_warnings_that_appear_once(alone, capsys):
    assert logs.warn_once(("key", 1), "disk %s is full", "a")
    assert not logs.warn_once(("key", 1), "disk %s is full", "a")
    assert logs.warn_once(("key", 2), "disk %s is full", "b", function="compiled")
    assert capsys.readouterr().err == (f"{PREFIX}Warning [test_warnings_that_appear_once] disk a is full\n"
                                       f"{PREFIX}Warning [compiled] disk b is full\n")
    logs.forget()
    assert logs.warn_once(("key", 1), "again")


def test_threads_report_a_condition_once(alone, capsys):
    begin = threading.Barrier(8)

    def report():
        begin.wait()
        for key in range(200):
            logs.warn_once(key, "condition %d", key)

    threads = [threading.Thread(target=report) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = capsys.readouterr().err.splitlines()
    assert sorted(lines) == sorted(f"{PREFIX}Warning [report] condition {key}" for key in range(200))


def test_a_forked_child_reports_for_itself():
    """Even where a thread of the parent holds our lock at that moment."""
    _, err = python("""
import os, threading, warnings
from miopyx.values import logs

warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of a fork beside threads
logs.warn_once("a", "parent and child")
held, free = threading.Event(), threading.Event()

def hold():
    with logs._lock:
        held.set()
        free.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
pid = os.fork()
if pid == 0:
    logs.warn_once("a", "parent and child")
    logs.warn_once("a", "parent and child")
    os._exit(0)
free.set()
thread.join()
assert os.waitpid(pid, 0)[1] == 0
logs.warn_once("a", "parent and child")
""")
    assert err == f"{PREFIX}Warning [<module>] parent and child\n" * 2


def test_a_variable_that_does_not_parse_is_reported_once_and_counts_as_not_set():
    out, err = python("""
import miopyx
from miopyx.values import logs
logs.logger.info("no")
logs.logger.warning("yes")
print(miopyx.miopenGetTensorDescriptorSize(miopyx.TensorDescriptor()))
""", MIOPEN_ENABLE_LOGGING="maybe", MIOPEN_LOG_LEVEL="high", MIOPEN_ENABLE_LOGGING_MPMT="2")
    lines = err.splitlines()
    assert out == "0\n"
    assert len(lines) == 4
    assert lines[-1] == f"{PREFIX}Warning [<module>] yes"
    for name, text in (("MIOPEN_ENABLE_LOGGING", "maybe"), ("MIOPEN_LOG_LEVEL", "high"),
                       ("MIOPEN_ENABLE_LOGGING_MPMT", "2")):
        assert sum(f"{name} = '{text}'" in line and "counts as not set" in line for line in lines) == 1


# Calls


def recording(function, calls=True, commands=False):
    """Return `function` with its calls printed, and its own errors for arguments that are none ignored."""
    wrapped = logged.logged(function, calls, commands)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return wrapped(*args, **kwargs)
        except (miopyx.MIOpenError, TypeError):
            return None

    return call


def expected(signature, *arguments):
    return "".join(f"{PREFIX}{line}\n" for line in (signature + "{", *(f"\t{a}" for a in arguments), "}"))


def test_call_with_descriptors_to_the_byte(capsys):
    x, w = TensorDescriptor("float32", (1, 3, 4, 4)), TensorDescriptor("float32", (2, 3, 2, 2), (24, 8, 4, 2))
    conv = ConvolutionDescriptor((1, 0), (2, 1), (1, 3))
    call = logged.logged(miopyx.miopenGetConvolutionNdForwardOutputDim, True, False)
    with pytest.raises(miopyx.BadParmError):
        call(conv, x, None)
    assert capsys.readouterr().err == expected(
        "miopenStatus_t miopenGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc)",
        "convDesc = conv2d, miopenConvolution, miopenPaddingDefault, {1, 0}, {2, 1}, {1, 3}, ",
        "inputTensorDesc = {1, 3, 4, 4}, {48, 16, 4, 1}, packed, ", "filterDesc = nullptr")
    assert call(filterDesc=w, convDesc=conv, inputTensorDesc=x) == (4, (1, 2, 3, 1))
    assert capsys.readouterr().err == expected(
        "miopenStatus_t miopenGetConvolutionNdForwardOutputDim(convDesc, inputTensorDesc, filterDesc)",
        "convDesc = conv2d, miopenConvolution, miopenPaddingDefault, {1, 0}, {2, 1}, {1, 3}, ",
        "inputTensorDesc = {1, 3, 4, 4}, {48, 16, 4, 1}, packed, ", "filterDesc = {2, 3, 2, 2}, {24, 8, 4, 2}, ")


@pytest.mark.parametrize(("desc", "text"), [
    (TensorDescriptor(), "{}, {}, packed, "),
    (TensorDescriptor("int8", (5,)), "{5}, {1}, packed, "),
    (ConvolutionDescriptor((1, 2, 3), groups=4),
     "conv3d, miopenConvolution, miopenPaddingDefault, {1, 2, 3}, {1, 1, 1}, {1, 1, 1}, 4, "),
    (ConvolutionDescriptor((1,), (2,), (3,), mode=1, output_pads=(1,)),
     "conv1d, miopenTranspose, miopenPaddingDefault, {1}, {2}, {3}, {1}, "),
    (ConvolutionDescriptor(strides=(2, 2), mode=1, groups=2, output_pads=(0, 1)),
     "conv2d, miopenTranspose, miopenPaddingDefault, {0, 0}, {2, 2}, {1, 1}, 2, {0, 1}, "),
])
def test_descriptors(capsys, desc, text):
    recording(miopyx.miopenGetConvolutionSpatialDim)(desc)
    assert capsys.readouterr().err == expected("miopenStatus_t miopenGetConvolutionSpatialDim(convDesc)",
                                               f"convDesc = {text}")


def test_lists_numbers_and_enumerations(capsys):
    recording(miopyx.miopenSetTensorDescriptor)(TensorDescriptor(), miopyx.miopenHalf, 3, [4, 5, 6],
                                                np.array([30, 6, 1]))
    assert capsys.readouterr().err == expected(
        "miopenStatus_t miopenSetTensorDescriptor(tensorDesc, dataType, nbDims, dimsA, stridesA)",
        "tensorDesc = {}, {}, packed, ", "dataType = 0", "nbDims = 3", "dimsA = { 4 5 6 }", "stridesA = { 30 6 1 }")
    recording(miopyx.miopenInitConvolutionNdDescriptor)(
        ConvolutionDescriptor(), np.int64(2), (1, True), np.arange(2), list(range(30)), miopyx.miopenTranspose)
    assert capsys.readouterr().err.splitlines()[2:] == [f"{PREFIX}{line}" for line in (
        "\tspatialDim = 2", "\tpadA = { 1 1 }", "\tstrideA = { 0 1 }",
        "\tdilationA = { 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ... }", "\tc_mode = 1", "}")]


def test_buffers_are_printed_by_address(capsys, handles):
    b, y = TensorDescriptor("float32", (1, 3, 1, 1)), TensorDescriptor("float32", (2, 3, 2, 2))
    bias, out = np.ones(3, np.float32), np.full(24, 7.25, np.float32)
    host = handles("host")
    logged.logged(miopyx.miopenConvolutionForwardBias, True, False)(host, 1.0, b, bias, 0.5, y, out)
    assert capsys.readouterr().err == expected(
        "miopenStatus_t miopenConvolutionForwardBias(handle, alpha, bDesc, b, beta, yDesc, y)",
        f"handle = stream: 0x0, device: {host.device.name}", "alpha = 1",
        "bDesc = {1, 3, 1, 1}, {3, 1, 1, 1}, packed, ", f"b = {bias.ctypes.data:#x} (ndarray)", "beta = 0.5",
        "yDesc = {2, 3, 2, 2}, {12, 4, 2, 1}, packed, ", f"y = {out.ctypes.data:#x} (ndarray)")
    assert np.array_equal(out, np.full(24, 8.25 + 0.5 * 7.25, np.float32))
    recording(miopyx.miopenConvolutionForwardBias)(host, 0.1, b, bytes(12), np.float32(2), y, 4096)
    lines = capsys.readouterr().err.splitlines()
    assert lines[2] == f"{PREFIX}\talpha = 0.1"
    assert re.fullmatch(r".*\tb = <bytes object at 0x[0-9a-f]+>", lines[4])
    assert lines[5] == f"{PREFIX}\tbeta = 2"
    assert lines[7] == f"{PREFIX}\ty = 0x1000"


def test_opencl_buffers(capsys, opencl_handle):
    import pyopencl.array

    desc = TensorDescriptor("float32", (1, 3, 2, 2))
    buffer = opencl_handle.upload(np.zeros(12, np.float32))
    array = pyopencl.array.zeros(opencl_handle.queue, 24, np.float32)[12:]
    recording(miopyx.miopenConvolutionForwardBias)(opencl_handle, 1, desc, array, 0, desc, buffer)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == (f"{PREFIX}\thandle = stream: {opencl_handle.queue.int_ptr:#x}, "
                        f"device: {opencl_handle.device.name}")
    assert lines[4] == f"{PREFIX}\tb = {array.base_data.int_ptr:#x} + 48 (Array)"
    assert lines[7] == f"{PREFIX}\ty = {buffer.int_ptr:#x} (Buffer)"
    buffer.release()
    recording(miopyx.miopenConvolutionForwardBias)(opencl_handle, 1, desc, array, 0, desc, buffer)
    assert "(Buffer)" in capsys.readouterr().err


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError

    __str__ = __hash__ = __eq__ = __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = __repr__
    __format__ = __getitem__ = __lt__ = __instancecheck__ = __repr__


def nested():
    value = []
    value += [value] * 16
    return value


STRANGE = {
    "hostile": Hostile(), "hostile in a list": [Hostile()], "nested": nested(), "huge": 10**5000, "nan": float("nan"),
    "lines": "two\nlines", "text": "x" * 10**6, "class": Hostile, "array": np.zeros((3, 3)), "type": np.float32,
    "dtype": np.dtype("int8"), "dict": {}, "bool": np.bool_(True), "descriptor class": TensorDescriptor,
    "descriptor": TensorDescriptor.__new__(TensorDescriptor), "bytes": b"\0", "range": range(10**9),
    "iterator": iter([1]), "object": object(),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", ["miopenConvolutionForward", "miopenSetTensorDescriptor",
                                  "miopenConvolutionBackwardWeightsImmediate",
                                  "miopenFindConvolutionBackwardDataAlgorithm"])
def test_strange_arguments_reach_the_function(capsys, name, kind):
    """Every argument in turn, then all, then too many: the function sees them, and a call is whole lines."""
    argument, reached = STRANGE[kind], []
    real = getattr(miopyx, name)

    def function(*args, **kwargs):
        reached.append((args, kwargs))

    function.__name__, function.__signature__ = name, inspect.signature(real)
    wrapped = logged.logged(function, True, True)
    count = len(inspect.signature(real).parameters)
    for args in [*([None] * i + [argument] + [None] * (count - i - 1) for i in range(count)),
                 [argument] * count, [argument] * (count + 2), [argument]]:
        wrapped(*args)
        assert len(reached[-1][0]) == len(args)
        assert all(a is b for a, b in zip(reached[-1][0], args, strict=True))
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if not line.startswith(PREFIX)] == []
        assert lines[0].endswith("{")
        assert lines[-1] == PREFIX + "}" or " Command [" in lines[-1]
        assert len(lines) - 2 in (len(args), len(args) + 1)
        assert max(map(len, lines)) < 1000
    wrapped(nonsense=argument)
    assert reached[-1][1]["nonsense"] is argument
    assert "nonsense = " in capsys.readouterr().err


def test_one_write_a_call(monkeypatch):
    """Threads must not mix their lines, whatever stderr is."""
    class Stream:
        def __init__(self):
            self.writes = []

        def write(self, text):
            self.writes.append(text)

        def flush(self):
            pass

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    call = logged.logged(miopyx.miopenGetTensorDescriptorSize, True, True)
    desc = TensorDescriptor("float32", (1, 2, 3, 4))
    threads = [threading.Thread(target=lambda: [call(desc) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = expected("miopenStatus_t miopenGetTensorDescriptorSize(tensorDesc)",
                    "tensorDesc = {1, 2, 3, 4}, {24, 12, 4, 1}, packed, ")
    assert stream.writes == [text] * 400


def test_a_log_that_fails_stops_no_call(monkeypatch):
    """Whatever goes wrong in printing: the last net."""
    def fail(*args):
        raise ValueError

    call = logged.logged(miopyx.miopenGetTensorDescriptorSize, True, True)
    for module, name in ((logged, "call_lines"), (logs, "write")):
        monkeypatch.setattr(module, name, fail)
        assert call(TensorDescriptor("int8", (1, 2))) == 2


# Commands


LAYOUTS = {1: (("NCHW", (0, 1, 2)), ("NHWC", (0, 2, 1)), ("CHWN", (1, 2, 0))),
           2: (("NCHW", (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1)), ("CHWN", (1, 2, 3, 0))),
           3: (("NCDHW", (0, 1, 2, 3, 4)), ("NDHWC", (0, 2, 3, 4, 1)))}


def packed(dtype, lens, order):
    strides, step = [0] * len(lens), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= lens[axis]
    return TensorDescriptor(dtype, lens, strides)


def random_problem(rng):
    """Return (direction, dtype, x, w, y, conv), all of them chosen at random."""
    def some(low, high, count):
        return tuple(int(v) for v in rng.integers(low, high, count))

    spatial, transpose = int(rng.integers(1, 4)), bool(rng.integers(2))
    dtype = rng.choice(list(options.OPERATIONS.values()))
    direction = 0 if dtype == "int8" else int(rng.integers(3))
    groups, (n, c, k) = int(rng.choice([1, 1, 2, 3])), some(1, 4, 3)
    c, k = c * groups, k * groups
    fil, stride, dilation, pad = (some(low, 4, spatial) for low in (1, 1, 1, 0))
    size = tuple(int(rng.integers(d * (f - 1) + 1, d * (f - 1) + 9)) for d, f in zip(dilation, fil, strict=True))
    conv = ConvolutionDescriptor(pad, stride, dilation, int(transpose), groups,
                                 tuple(int(rng.integers(s)) for s in stride) if transpose else None)
    miopyx.miopenSetConvolutionAttribute(conv, "DETERMINISTIC", int(rng.integers(2)))
    if dtype == "float32":
        miopyx.miopenSetConvolutionAttribute(conv, "MATH_TYPE", int(rng.integers(2)))

    def tensor(lens, of=dtype):
        return packed(of, lens, LAYOUTS[spatial][rng.integers(len(LAYOUTS[spatial]))][1])

    x = tensor((n, c, *size))
    w = tensor((c, k // groups, *fil) if transpose else (k, c // groups, *fil))
    y = tensor(conv.output_lens(x, w), "int32" if dtype == "int8" else dtype)
    return direction, dtype, x, w, y, conv


def fits(direction, x, w, y, conv):
    try:
        return _problem.ConvProblem(direction, x, w, y, conv)
    except miopyx.MIOpenError:
        return None


def printed_command(capsys):
    """Return the function that a command line names, and the command as the driver's parser reads it."""
    err = capsys.readouterr().err
    found = re.fullmatch(re.escape(PREFIX) + r"Command \[(\S+)\] (\./bin/MIOpenDriver .*)\n", err)
    assert found, err
    return found[1], options.parse_line(found[2]), found[2]


def call_of(name, direction, x, w, y, conv, **others):
    """Call a layer function with descriptors by role and nothing else that is real, its command printed."""
    function = getattr(miopyx, name)
    roles = {"xDesc": x, "dxDesc": x, "wDesc": w, "dwDesc": w, "yDesc": y, "dyDesc": y, "convDesc": conv,
             "exhaustiveSearch": False, "alpha": 1.0, "beta": 0.0, **others}
    required = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    with pytest.raises(miopyx.MIOpenError):
        logged.logged(function, False, True)(*(roles.get(p.name) for p in required))


FORMS = ("miopenFindConvolution{}Algorithm", "miopenConvolution{}", "miopenConvolution{}Immediate",
         "miopenConvolution{}CompileSolution")


def test_commands_describe_the_call(capsys, rng):
    """What the driver makes of a printed line has the problem key of the call, strides of lone elements included."""
    compared = dict.fromkeys([*range(1, 4), "transposed", "groups"], 0)
    for _ in range(400):
        direction, dtype, x, w, y, conv = random_problem(rng)
        problem = fits(direction, x, w, y, conv)
        if problem is None:
            continue
        name = FORMS[rng.integers(4)].format(DIRECTIONS[direction])
        search, solution = bool(rng.integers(2)), int(rng.integers(1, 2000))
        call_of(name, direction, x, w, y, conv, exhaustiveSearch=search, solution_id=solution)
        function, command, line = printed_command(capsys)
        assert function == name
        assert " # " not in line
        assert options.OPERATIONS[command.operation] == dtype
        assert command.number("forw") == (1, 2, 4)[direction]
        assert command.number("search") == (search and "Find" in name)
        takes_id = name.endswith(("Immediate", "CompileSolution"))
        assert command.text("solution") == (str(solution) if takes_id else "-1")
        again = driver_problem.make(command)
        made = [again.descriptors[role] for role in "xwy"]
        assert [d.strides for d in made] == [d.strides for d in (x, w, y)], line
        assert fits(direction, *made, again.conv).key == problem.key, line
        assert again.conv == conv
        compared[conv.spatial_dim] += 1
        compared["transposed"] += int(conv.convolution_mode)
        compared["groups"] += conv.group_count > 1
    assert min(compared.values()) > 20, compared


LINE = "conv -n 128 -c 1024 -H 14 -W 14 -k 2048 -y 1 -x 1 -p 0 -q 0 -u 2 -v 2 -l 1 -j 1"


@pytest.mark.parametrize(("order", "flags"), [
    ((0, 1, 2, 3), ""), ((0, 2, 3, 1), " --in_layout NHWC --fil_layout NHWC --out_layout NHWC"),
])
def test_command_to_the_byte(capsys, order, flags):
    x, w, y = (packed("float32", lens, order) for lens in ((128, 1024, 14, 14), (2048, 1024, 1, 1), (128, 2048, 7, 7)))
    conv = ConvolutionDescriptor(strides=(2, 2))
    with pytest.raises(miopyx.MIOpenError):
        logged.logged(miopyx.miopenConvolutionForwardImmediate, False, True)(
            None, w, None, x, None, conv, y, None, None, 0, 85)
    assert capsys.readouterr().err == (
        f"{PREFIX}Command [miopenConvolutionForwardImmediate] ./bin/MIOpenDriver {LINE}{flags} "
        "-m conv -g 1 -F 1 -t 1 -S 85\n")


def test_command_in_three_dimensions_to_the_byte():
    x, w = TensorDescriptor("float16", (2, 4, 5, 6, 7)), TensorDescriptor("float16", (4, 3, 1, 2, 3))
    conv = ConvolutionDescriptor((0, 1, 2), (2, 3, 4), mode=1, groups=2, output_pads=(1, 0, 3))
    y = TensorDescriptor("float16", conv.output_lens(x, w))
    assert logged.driver_command(4, x, w, y, conv, search=True) == (
        "convfp16 -n 2 -c 4 --in_d 5 -H 6 -W 7 -k 6 --fil_d 1 -y 2 -x 3 --pad_d 0 -p 1 -q 2 --conv_stride_d 2 -u 3 "
        "-v 4 --dilation_d 1 -l 1 -j 1 --trans_output_pad_d 1 -Y 0 -X 3 --spatial_dim 3 -m trans -g 2 -F 4 -t 1 -s 1")


def test_what_no_flag_can_say_is_a_comment(capsys):
    x = TensorDescriptor("float32", (2, 3, 4, 5), (100, 30, 6, 1))
    w, y = TensorDescriptor("float32", (2, 3, 1, 1)), TensorDescriptor("float32", (2, 2, 4, 5), (99, 30, 6, 1))
    conv = ConvolutionDescriptor()
    miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1)
    call_of("miopenConvolutionForward", 0, x, w, y, conv, alpha=2.5, beta=np.float32(1))
    _, command, line = printed_command(capsys)
    assert line.split(" # ")[1] == ("strides of x {100, 30, 6, 1}, strides of y {99, 30, 6, 1}, "
                                    "alpha 2.5, beta 1")
    assert driver_problem.make(command).descriptors["x"].lens == x.lens
    assert "#" not in shlex.join(shlex.split(line, comments=True)), "a shell reads no comment"
    i8 = [TensorDescriptor(t, lens) for t, lens in (("int8", (1, 2, 3, 3)), ("int8", (2, 2, 1, 1)),
                                                    ("float32", (1, 2, 3, 3)))]
    assert logged.driver_command(1, *i8, ConvolutionDescriptor()).endswith(" # y float32")
    mixed = [TensorDescriptor(t, lens) for t, lens in (("float8_e4m3fn", (1, 2, 3, 3)), ("float8_e5m2", (2, 2, 1, 1)),
                                                       ("float32", (1, 2, 3, 3)))]
    assert logged.driver_command(1, *mixed, ConvolutionDescriptor()).endswith(" # w float8_e5m2, y float32")
    eight = [TensorDescriptor("float8_e4m3fn", desc.lens) for desc in mixed]
    nearest = ConvolutionDescriptor()
    miopyx.miopenSetConvolutionAttribute(nearest, "FP8_ROUNDING_MODE", "standard")
    for direction in (1, 2, 4):
        assert "#" not in logged.driver_command(direction, *eight, ConvolutionDescriptor())
        assert logged.driver_command(direction, *eight, nearest).endswith(
            " # MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE=0")
    assert "ROUNDING" not in logged.driver_command(1, *mixed, nearest)


@pytest.mark.parametrize("by", ["convolution", "handle"])
def test_rounded_factors_are_a_flag(capsys, by):
    lens, conv = ((2, 3, 4, 5), (2, 3, 1, 1), (2, 2, 4, 5)), ConvolutionDescriptor()
    handle = miopyx.Handle("host")
    if by == "handle":
        handle.math_type = miopyx.miopenMathDefault
    else:
        miopyx.miopenSetConvolutionAttribute(conv, "MATH_TYPE", miopyx.miopenMathDefault)
    for dtype, math in (("float32", 0), ("float16", 1)):
        x, w, y = (TensorDescriptor(dtype, some) for some in lens)
        call_of("miopenConvolutionForward", 0, x, w, y, conv, handle=handle)
        assert printed_command(capsys)[1].number("math_type") == math


def test_calls_that_make_no_convolution_print_no_command(capsys):
    desc = TensorDescriptor("int32", (1, 1, 1, 1))
    for x in (desc, TensorDescriptor(), None, 3, TensorDescriptor("float32", (1,) * 6)):
        call_of("miopenConvolutionForward", 0, x, desc, desc, ConvolutionDescriptor())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("direction", ["Forward", "Backward"])
def test_bias_commands(capsys, rng, spatial, direction):
    n, k, *size = (int(v) for v in rng.integers(1, 7, 2 + spatial))
    y = packed("bfloat16", (n, k, *size), LAYOUTS[spatial][1][1])
    b = TensorDescriptor("bfloat16", (1, k, *(1,) * spatial))
    call_of(f"miopenConvolution{direction}Bias", 0, None, None, y, None, bDesc=b, dbDesc=b)
    _, command, line = printed_command(capsys)
    assert " # " not in line
    assert (command.text("bias"), command.number("forw")) == ("1", 1 if direction == "Forward" else 2)
    made = driver_problem.make(command).descriptors
    assert made["y"].dtype == "bfloat16"
    assert (made["y"].lens, made["y"].strides, made["b"].lens) == (y.lens, y.strides, b.lens)
    wide = TensorDescriptor("bfloat16", (1, k, *size))
    if max(size) > 1:
        call_of(f"miopenConvolution{direction}Bias", 0, None, None, y, None, bDesc=wide, dbDesc=wide)
        assert printed_command(capsys)[2].partition(" # ")[2].endswith(f"b {{{', '.join(map(str, wide.lens))}}}")


# The package with the variables set


SMALL = """
import numpy as np
import miopyx as mi

handle = mi.Handle("host")
x, w = mi.TensorDescriptor("float32", (2, 4, 6, 5)), mi.TensorDescriptor("float32", (6, 2, 3, 3))
conv = mi.ConvolutionDescriptor((1, 1), groups=2)
y = mi.TensorDescriptor("float32", conv.output_lens(x, w))
rng = np.random.default_rng(1)
data = {name: rng.standard_normal(d.lens, dtype=np.float32) for name, d in (("x", x), ("w", w), ("y", y))}
perf = mi.miopenFindConvolutionForwardAlgorithm(handle, x, data["x"], w, data["w"], conv, y, data["y"], 1, None, 0,
                                                False)[0]
mi.miopenConvolutionForward(handle, 1, x, data["x"], w, data["w"], conv, perf.algo, 0, y, data["y"], None, 0)
print(float(data["y"].sum()))
plan = handle.convolution_backward_data(y, w, conv, x)
mi.miopenDestroyConvolutionDescriptor(conv)
plan(data["y"], data["w"], data["x"], beta=0.5)
print(float(data["x"].sum()), isinstance(plan, mi.Plan))
weights = handle.convolution_backward_weights(y, x, mi.ConvolutionDescriptor((1, 1), groups=2), w, solution_id=1003)
weights(data["y"], data["x"], data["w"])
print(float(data["w"].sum()))
try:
    plan(data["y"], data["w"], None)
except mi.BadParmError as e:
    print(e)
mi.miopenDestroy(handle)
"""


def test_logging_changes_no_result():
    runs = {on: python(SMALL, **dict.fromkeys(on, "1")) for on in ((), SWITCHES[:1], SWITCHES[1:], SWITCHES)}
    assert len({out for out, _ in runs.values()}) == 1
    assert runs[()][1] == ""
    assert "Command [" not in runs[SWITCHES[:1]][1]
    calls, commands = runs[SWITCHES[:1]][1], runs[SWITCHES[1:]][1]
    conv = "conv -n 2 -c 4 -H 6 -W 5 -k 6 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 2"
    assert commands == "".join(f"{PREFIX}Command [{name}] ./bin/MIOpenDriver {conv} {rest}\n" for name, rest in (
        ("miopenFindConvolutionForwardAlgorithm", "-F 1 -t 1"), ("miopenConvolutionForward", "-F 1 -t 1"),
        ("Plan.__call__", "-F 2 -t 1 -S 1002 # alpha 1, beta 0.5"), ("Plan.__call__", "-F 4 -t 1 -S 1003"),
        ("Plan.__call__", "-F 2 -t 1 -S 1002")))
    both = runs[SWITCHES][1].splitlines()
    assert [line for line in both if "Command" in line] == commands.splitlines()
    assert len([line for line in both if "Command" not in line]) == len(calls.splitlines())
    assert re.findall(r"(\S+)\(.*\){", calls.replace(PREFIX, "")) == [
        "miopenFindConvolutionForwardAlgorithm", "miopenConvolutionForward", "Handle.convolution_backward_data",
        "miopenDestroyConvolutionDescriptor", "Plan.__call__", "Handle.convolution_backward_weights", "Plan.__call__",
        "Plan.__call__"]
    plan = calls[calls.index("void Plan"):].split("}\n")[0].splitlines()
    assert plan[0] == "void Plan.__call__(plan, dy, w, dx, alpha, beta){"
    assert plan[1].startswith(f"{PREFIX}\tplan = HostImplicitGemmBwd on host")
    assert plan[-3:] == [f"{PREFIX}\talpha = 1", f"{PREFIX}\tbeta = 0.5", PREFIX]


def test_off_means_the_compiled_functions_themselves():
    out, err = python("""
import sys, miopyx
from miopyx.engine import _plan
from miopyx.api import _convolution, _handle, _tensor

for module in (_convolution, _handle, _tensor):
    for name in module.__all__:
        assert getattr(miopyx, name) is getattr(module, name), name
assert _plan.plan_type is miopyx.Plan
print("miopyx.api.logged" in sys.modules)
""")
    assert (out, err) == ("False\n", "")


def test_on_the_functions_keep_their_names_signatures_and_texts():
    out, _ = python("""
import inspect, miopyx
from miopyx.engine import _plan
from miopyx.api import _convolution, _handle, _tensor

for module in (_convolution, _tensor):
    for name in module.__all__:
        one, other = getattr(miopyx, name), getattr(module, name)
        assert one is not other and one.__wrapped__ is other
        assert inspect.signature(one) == inspect.signature(other)
        assert (one.__name__, one.__doc__) == (other.__name__, other.__doc__)
for name in _handle.__all__:
    assert getattr(miopyx, name) is getattr(_handle, name)
assert "prepared plan" in miopyx.Handle.convolution_forward.__doc__
print(inspect.signature(miopyx.Handle.convolution_forward))
""", MIOPEN_ENABLE_LOGGING="1")
    assert out == "(self, x_desc, w_desc, conv_desc, y_desc, solution_id=None, workspace_limit=None)\n"


def test_handles_are_not_logged():
    _, err = python("""
import miopyx
handle = miopyx.Handle("host")
miopyx.miopenGetStream(handle), miopyx.miopenGetVersion(), miopyx.miopenGetErrorString(0)
miopyx.miopenEnableProfiling(handle, True)
miopyx.miopenDestroy(handle)
""", MIOPEN_ENABLE_LOGGING="1", MIOPEN_ENABLE_LOGGING_CMD="1")
    assert err == ""


def test_every_layer_function_has_a_command():
    layers = {name for name in _convolution.__all__ if logged._LAYER.fullmatch(name)}
    assert layers == {form.format(d) for form in FORMS for d in DIRECTIONS} | {
        "miopenConvolutionForwardBias", "miopenConvolutionBackwardBias"}
    for name in set(_convolution.__all__) - layers | set(_tensor.__all__):
        function = getattr(miopyx, name)
        assert logged.logged(function, False, True) is function


def test_the_driver_repeats_a_printed_call(tmp_path, rng, handles, capsys):
    """A call's line, through the driver's program: it runs that problem and that solver, and verifies."""
    problem = Problem(handles("host"), rng, groups=2, strides=(2, 1))
    for direction in range(3):
        solution = problem.call("GetSolution", direction, 1)[0]
        problem_call = logged.logged(getattr(miopyx, f"miopenConvolution{DIRECTIONS[direction]}CompileSolution"),
                                     False, True)
        problem_call(problem.handle, *problem.descriptors(direction), solution.solution_id)
    arguments = [shlex.split(line, comments=True)[4:] for line in capsys.readouterr().err.splitlines()]
    (tmp_path / "list.txt").write_text("".join(shlex.join(line) + " -V 1 -i 1\n" for line in arguments))
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import sys; from miopyx.tools.driver import main; sys.exit(main())", "conv",
         "--file", str(tmp_path / "list.txt"), "--device", "host"],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("HostImplicitGemm") == 3


RUNS = """
import numpy as np, miopyx
x, w = np.ones((1, 4, 8, 8), np.float32), np.ones((2, 4, 3, 3), np.float32)
for _ in range(2):
    miopyx.conv2d(x, w, padding=1)
try:
    import torch, miopyx.torch
    some = torch.from_numpy(x), torch.from_numpy(w)
    torch.ops.miopyx.convolution(*some, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
except ImportError:
    print("no torch")
"""


def test_operations_on_arrays_and_of_pytorch():
    """Each call once, and none of what is tried to find where a small one runs."""
    done = subprocess.run([sys.executable, "-P", "-c", RUNS], env={**os.environ, "MIOPEN_ENABLE_LOGGING_CMD": "1"},
                          capture_output=True, text=True, check=True)
    commands = re.findall(r"MIOpenDriver (conv .*) -S", done.stderr)
    assert [command for command in commands if "-p 1" in command] == commands[:2]
    assert len(commands) == 2 + ("no torch" not in done.stdout)
