"""Threads that share handles and plans; buffers, descriptors and handles that change under a caller; forks."""

import contextlib
import copy
import json
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import traceback
from functools import partial
from pathlib import Path

import drawn
import numpy as np
import pytest
import random_operations
from endurance_threads import KINDS, ROLES, Whole, run_threads, stress
from problems import DIRECTIONS, NAMES, Problem

import miopyx
from miopyx import BadParmError, TensorDescriptor, UnknownError, enums

SCRIPT = Path(__file__).with_name("endurance_threads.py")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_no_gil = pytest.mark.skipif(not FREE_THREADED, reason="this Python has a GIL, with which the other tests run")
TOLERANCE = 1e-3  # of sums of small integers, where a solver transforms


# Many threads, one handle


def test_stress(device_name, seed):
    result = stress(device_name, threads=8, calls=400, seed=seed)
    assert not result["failures"], result["failures"][0]
    assert result["calls"] == 8 * 400
    assert result["checked"] > 400
    assert set(result["ways"]) == {way.__name__ for role in ROLES for way in role}


def in_a_process(*arguments):
    """Run the script, without the GIL where this Python can, whatever would switch it on; return what it counted."""
    given = os.environ | {"PYTHON_GIL": "0"} if FREE_THREADED else None
    done = subprocess.run([sys.executable, "-P", SCRIPT, *arguments], capture_output=True, text=True, timeout=100,
                          check=False, env=given)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["gil"] is not FREE_THREADED
    return result


@needs_no_gil
def test_stress_without_the_gil(device_name, seed):
    result = in_a_process("stress", "--device", device_name, "--calls", "400", "--seed", str(seed))
    assert result["calls"] == 8 * 400
    assert result["checked"] > 400


@needs_no_gil
def test_nothing_switches_the_gil_on():
    """What is imported and called where no OpenCL device is asked for."""
    code = ("import importlib.util, sys, numpy as np, miopyx\n"
            "handle = miopyx.Handle('host')\nx = np.ones((1, 2, 4, 4), np.float32)\n"
            "miopyx.conv2d(x, x, handle=handle)\nmiopyx.relu(x, handle=handle)\n"
            "if importlib.util.find_spec('torch'):\n    import miopyx.torch\n"
            "sys.exit(sys._is_gil_enabled())")
    given = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", code], env=given, capture_output=True, text=True,
                          timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "torch"])
def test_the_ground_moves_while_threads_call(device_name, kind, seed):
    """In a process of its own: what would go wrong here takes the process with it."""
    if device_name == "host" and kind in ("stream", "release", "repoint"):
        pytest.skip("of OpenCL alone")
    with miopyx.Handle(device_name) as handle:
        if kind == "stream" and not (handle.device.is_host or handle.device.shares_memory):
            pytest.skip("its calls wait by being given NumPy arrays")
    result = in_a_process("fault", "--device", device_name, "--kind", kind, "--seconds", "1", "--seed", str(seed))
    assert result["outcomes"]["right"] > 0


def test_threads_call_pytorch(seed):
    pytest.importorskip("torch")
    result = in_a_process("fault", "--device", "host", "--kind", "torch", "--seconds", "1", "--seed", str(seed))
    assert result["outcomes"]["right"] > 0


def test_kernel_times_while_profiling_is_switched(handle, rng):
    problem = Problem(handle, rng)
    plan, stop, times = problem.plan(0), threading.Event(), []

    def switch():
        while not stop.is_set():
            miopyx.miopenEnableProfiling(handle, True)
            miopyx.miopenEnableProfiling(handle, False)

    def call():
        mine = copy.copy(problem)
        mine.data = [*problem.data[:2], handle.upload(problem.host[2])]
        for _ in range(1000):
            plan(*mine.buffers(0))
            times.append(miopyx.miopenGetKernelTime(handle))
        stop.set()

    try:
        run_threads([switch, call])
    finally:
        miopyx.miopenEnableProfiling(handle, False)
    assert min(times) >= 0
    assert max(times) < 60_000  # milliseconds


def test_find_times_its_own_kernels(device_name, user_folder, rng):
    """Calls of other threads on the handle must not be taken for what Find runs."""
    with miopyx.Handle(device_name) as handle:
        large, small = Problem(handle, rng, x=(4, 32, 28, 28), k=32), Problem(handle, rng, x=(1, 1, 4, 4), k=1)
        miopyx.miopenSetConvolutionFindMode(large.conv, 1)
        with miopyx.Handle(device_name) as other:
            alone = Problem(other, rng, x=(4, 32, 28, 28), k=32)
            miopyx.miopenSetConvolutionFindMode(alone.conv, 1)
            want = {}
            for _ in range(3):  # a busy machine may delay one of them tenfold
                for result in alone.find(0):
                    want[result.algo] = min(result.time, want.get(result.algo, result.time))
                for file in user_folder.rglob("*"):
                    file.unlink()
        plan, stop, found = small.plan(0), threading.Event(), []

        def disturb():
            while not stop.is_set():
                plan(*small.buffers(0))

        def search():
            try:
                found.extend(large.find(0))
            finally:
                stop.set()

        run_threads([search, disturb, disturb])
        assert {result.algo for result in found} == set(want)
        assert all(result.time > want[result.algo] / 10 for result in found), (found, want)


def test_a_signal_ends_waiting_for_a_handle(opencl_handle, rng):
    handle = opencl_handle
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    inside, done = threading.Event(), threading.Event()

    class Ended(Exception):
        pass

    def hold():
        with handle.timing():
            inside.set()
            done.wait(60)

    def end(*_):
        raise Ended

    before = signal.signal(signal.SIGALRM, end)
    thread = threading.Thread(target=hold)
    thread.start()
    try:
        inside.wait()
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Ended):
            plan(*problem.buffers(0))
        assert thread.is_alive()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        done.set()
        thread.join()
    plan(*problem.buffers(0))
    problem.close(0)


# Buffers


def refusal(call):
    """Return the parameter that a call was refused for, None where it was accepted."""
    try:
        call()
    except BadParmError as e:
        return e.parameter
    return None


def right_or_refused(plan, problem, buffers):
    """Call and compare; return whether the call was accepted."""
    problem.poison(0)
    at_fault = refusal(lambda: plan(*buffers, problem.data[2]))
    assert at_fault in (None, "x", "w")
    if at_fault is None:
        np.testing.assert_allclose(problem.result(0), problem.truth(0), rtol=0, atol=TOLERANCE)
    return at_fault is None


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # of NumPy's, about what is done here
def test_arrays_that_change_between_calls(rng):
    with miopyx.Handle("host") as host:
        problem = Whole(host, rng, x=(2, 6, 8, 8))
        plan, weights = problem.plan(0), problem.host[1]
        x = problem.host[0].copy()
        assert right_or_refused(plan, problem, (x, weights))
        x.resize(3 * x.size, refcheck=False)  # longer, elsewhere, and one-dimensional: memory that holds the tensor
        assert right_or_refused(plan, problem, (x, weights))
        x.resize(problem.host[0].size - 1, refcheck=False)
        assert not right_or_refused(plan, problem, (x, weights))
        x = problem.host[0].copy()
        for change in (
            lambda: setattr(x, "shape", (6, 2, 8, 8)),
            lambda: setattr(x, "shape", x.size),
            lambda: setattr(x, "shape", problem.x.lens),
            lambda: setattr(x, "strides", (x.strides[0], x.strides[1], x.strides[3], x.strides[2])),
            lambda: setattr(x, "strides", (0, 0, 0, 0)),
        ):
            plan(problem.host[0], weights, problem.data[2])
            change()
            right_or_refused(plan, problem, (x, weights))
        x = problem.host[0].copy()
        assert right_or_refused(plan, problem, (x, weights))
        x.dtype = np.int32
        assert not right_or_refused(plan, problem, (x, weights))
        x.dtype = np.float32
        y = np.zeros(problem.y.lens, np.float32)
        plan(x, weights, y)
        y.flags.writeable = False
        with pytest.raises(BadParmError, match="read-only"):
            plan(x, weights, y)


def test_each_call_sees_the_buffer_it_was_given(handle, rng):
    """New buffers may have the addresses of old ones, as Python objects and for the driver."""
    problem = Whole(handle, rng, x=(1, 2, 6, 5), k=3)
    plan, size = problem.plan(0), problem.call("GetSolutionWorkspaceSize", 0, problem.plan(0).solver.id)
    for turn in range(60):
        problem.host = [rng.integers(-3, 4, a.shape).astype(a.dtype) for a in problem.host]
        problem.data = None
        problem.reset()
        problem.poison(0)
        if turn % 2:
            problem.immediate(0, plan.solver.id, size)
        else:
            plan(*problem.buffers(0))
        np.testing.assert_allclose(problem.result(0), problem.truth(0), rtol=0, atol=TOLERANCE)
        if turn % 5 == 0:  # what was checked before does not vouch for others
            x, w, y = problem.data
            short = handle.upload(problem.host[0].reshape(-1)[:-1])
            for bad in ((short, w, y), (x, w, x), (w, w, y), (x, y, y), (y, w, x)):
                with pytest.raises(BadParmError):
                    plan(*bad)
                plan(x, w, y)


def test_released_buffers(opencl_handle, rng):
    handle = opencl_handle
    problem = Whole(handle, rng)
    plan = problem.plan(0)
    solution = problem.call("GetSolution", 0, 1)[0]
    for which in range(3):
        problem.reset()
        plan(*problem.buffers(0))
        handle.finish()
        problem.data[which].release()
        for _ in range(20):  # the driver may hold the memory for a while
            refused = [refusal(call) for call in (
                lambda: plan(*problem.buffers(0)),
                lambda: problem.immediate(0, solution.solution_id, solution.workspace_size),
            )]
            assert set(refused) <= {None, "xwy"[which]}
            handle.finish()
            if None not in refused:
                break
        else:
            assert handle.device.is_gpu, "a released buffer was never noticed"
        others = Whole(handle, rng)  # whoever comes next may get the memory
        others.plan(0)(*others.buffers(0))
        np.testing.assert_allclose(others.result(0), others.truth(0), rtol=0, atol=TOLERANCE)


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")  # of pyopencl's own kernels, on some drivers
def test_opencl_arrays_that_change_between_calls(opencl_handle, rng):
    import pyopencl.array as cl_array

    handle = opencl_handle
    problem = Whole(handle, rng)
    plan, weights = problem.plan(0), problem.data[1]
    x = cl_array.to_device(handle.queue, problem.host[0])
    assert right_or_refused(plan, problem, (x, weights))
    problem.host[0] = problem.host[0][::-1].copy()
    x.base_data = handle.upload(problem.host[0])
    assert right_or_refused(plan, problem, (x, weights))
    good = x.base_data
    x.base_data = handle.upload(problem.host[0].reshape(-1)[:-1])
    assert not right_or_refused(plan, problem, (x, weights))
    x.base_data = good
    assert right_or_refused(plan, problem, (x, weights))
    x.base_data = handle.upload(np.concatenate([np.zeros(64, np.float32), problem.host[0].reshape(-1)]))
    x.offset = 256
    assert right_or_refused(plan, problem, (x, weights))
    x.offset = 260
    assert not right_or_refused(plan, problem, (x, weights))
    x.offset = 256
    x.dtype = np.dtype(np.int32)
    assert not right_or_refused(plan, problem, (x, weights))
    x.dtype = np.dtype(np.float32)
    assert right_or_refused(plan, problem, (x, weights))
    x.base_data = good
    handle.finish()
    x.offset = 0
    assert right_or_refused(plan, problem, (x, weights))
    good.release()
    for _ in range(20):
        if not right_or_refused(plan, problem, (x, weights)):
            break
    else:
        assert handle.device.is_gpu, "a released buffer was never noticed"


# Descriptors


DESCRIPTORS = (("xDesc", "wDesc", "yDesc"), ("dxDesc", "wDesc", "dyDesc"), ("xDesc", "dwDesc", "dyDesc"))


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_descriptors_that_change_after_the_plan_was_made(handle, rng, direction):
    problem = Whole(handle, rng)
    truth = problem.truth(direction)

    def works(plan):
        problem.reset()
        problem.poison(direction)
        plan(*problem.buffers(direction))
        np.testing.assert_allclose(problem.result(direction), truth, rtol=0, atol=TOLERANCE)

    def is_refused(plan, name):
        for _ in range(2):
            with pytest.raises(BadParmError) as caught:
                plan(*problem.buffers(direction))
            assert caught.value.parameter == name

    set4d = miopyx.miopenSet4dTensorDescriptor
    for desc, name in zip((problem.x, problem.w, problem.y), DESCRIPTORS[direction], strict=True):
        plan = problem.plan(direction)
        lens = desc.lens
        set4d(desc, "float32", *lens)
        works(plan)
        for changed in (("float32", 4, (lens[0] + 1, *lens[1:]), None), ("float16", 4, lens, None),
                        ("float32", 4, lens, (10**6, 10**4, 100, 1)), ("float32", 5, (*lens, 1), None)):
            miopyx.miopenSetTensorDescriptor(desc, *changed)
            is_refused(plan, name)
            set4d(desc, "float32", *lens)
            works(plan)
    plan = problem.plan(direction)
    init = miopyx.miopenInitConvolutionDescriptor
    for change in (lambda: init(problem.conv, 0, 0, 0, 1, 1, 1, 1), lambda: init(problem.conv, 1, 1, 1, 1, 1, 1, 1),
                   lambda: miopyx.miopenSetConvolutionGroupCount(problem.conv, 2),
                   lambda: miopyx.miopenInitConvolutionNdDescriptor(problem.conv, 1, [1], [1], [1], 0)):
        change()
        is_refused(plan, "convDesc")
        init(problem.conv, 0, 1, 1, 1, 1, 1, 1)
        works(plan)
    miopyx.miopenSetConvolutionFindMode(problem.conv, 2)  # says how to choose, not what to compute
    works(plan)


def test_destroyed_descriptors_do_not_matter_to_a_plan(handle, rng):
    problem = Whole(handle, rng)
    plan, truth = problem.plan(0), problem.truth(0)
    for desc in (problem.x, problem.w, problem.y):
        miopyx.miopenDestroyTensorDescriptor(desc)
    miopyx.miopenDestroyConvolutionDescriptor(problem.conv)
    problem.poison(0)
    plan(*problem.buffers(0))
    np.testing.assert_allclose(problem.result(0), truth, rtol=0, atol=TOLERANCE)
    with pytest.raises(BadParmError, match="destroyed"):
        problem.plan(0)


def test_calls_follow_their_descriptors(handle, rng):
    """Immediate mode has no plan: what the descriptors say now counts, however often they said something else."""
    problems = [Whole(handle, rng, x=(1, 3, 5 + i, 6), k=4) for i in range(3)]
    truths = [p.truth(0) for p in problems]
    sizes = [p.call("GetSolution", 0, 1)[0] for p in problems]
    shared = copy.copy(problems[0])
    shared.x, shared.y = TensorDescriptor(), TensorDescriptor()
    for _ in range(10):
        for i in map(int, rng.permutation(3)):
            shared.data, shared.host = list(problems[i].data), problems[i].host
            shared.poison(0)
            for mine, source in ((shared.x, problems[i].x), (shared.y, problems[i].y)):
                miopyx.miopenSet4dTensorDescriptor(mine, "float32", *source.lens)
            shared.immediate(0, sizes[i].solution_id, sizes[i].workspace_size)
            np.testing.assert_allclose(shared.result(0), truths[i], rtol=0, atol=TOLERANCE)


# Forks


def in_child(function):
    """Run `function` in a child of fork; return its exit status, None where it had to be killed."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(30)
            os._exit(0 if function() else 1)
        os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == -signal.SIGALRM else code


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forks_while_threads_call(handle, rng):
    """A child may go on with host handles; what is OpenCL's is refused; both whatever the other threads were doing."""
    host = miopyx.Handle("host")
    problem = Whole(handle, rng)
    on_host = Whole(host, rng, x=(2, 8, 16, 16), k=16)  # large enough for several threads
    plan, host_plan = problem.plan(0), on_host.plan(0)
    truth, host_truth = problem.truth(0), on_host.truth(0)
    stop = threading.Event()

    def call():
        mine, on_this_host = problem.of_a_thread(0), on_host.of_a_thread(0)
        while not stop.is_set():
            plan(*mine.buffers(0))
            host_plan(*on_this_host.buffers(0))

    def child():
        out = np.zeros_like(on_host.host[2])
        host_plan(*on_host.host[:2], out)
        if not np.array_equal(out, host_truth):
            return False
        with miopyx.Handle("host") as fresh:
            again = copy.copy(on_host)
            again.handle = fresh
            again.plan(0)(*on_host.host[:2], out)
        if handle.device.is_host:
            out = np.zeros_like(problem.host[2])
            plan(*problem.host[:2], out)
            return np.array_equal(out, truth) and np.array_equal(problem.plan(0).workspace, plan.workspace)
        solution_id = plan.solver.id
        for use in (lambda: plan(*problem.buffers(0)), lambda: problem.plan(0), handle.finish,
                    lambda: problem.call("GetSolution", 0, 1), lambda: problem.find(0, 0),
                    lambda: problem.immediate(0, solution_id, 0), lambda: handle.upload(out)):
            try:
                use()
            except UnknownError as e:
                if "fork" not in str(e):
                    return False
            else:
                return False
        miopyx.miopenDestroy(handle)
        return True

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        codes = [in_child(child) for _ in range(8)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 8
    problem.poison(0)
    plan(*problem.buffers(0))
    np.testing.assert_allclose(problem.result(0), truth, rtol=0, atol=TOLERANCE)


def test_a_destroyed_handle_refuses_everything(device_name, rng):
    handle = miopyx.Handle(device_name)
    problem = Whole(handle, rng)
    plans = [problem.plan(d) for d in DIRECTIONS]
    found = problem.find(0)[0]
    solution = problem.call("GetSolution", 0, 1)[0]
    buffers = [problem.buffers(d) for d in DIRECTIONS]
    workspace = problem.workspace(found.memory)
    problem.workspace = lambda size: workspace
    for d in DIRECTIONS:
        plans[d](*buffers[d])
    miopyx.miopenDestroy(handle)
    for use in (
        *(lambda d=d: plans[d](*buffers[d]) for d in DIRECTIONS),
        lambda: problem.immediate(0, solution.solution_id, solution.workspace_size),
        lambda: problem.run(0, found.algo, found.memory),
        lambda: problem.find(0, found.memory),
        lambda: miopyx.miopenEnableProfiling(handle, True),
    ):
        with pytest.raises(BadParmError, match="destroyed"):
            use()


# The newer operations


NEWER = ("layer norm", "group norm", "reduce", "one axis", "dropout", "cat", "glu", "prelu", "soft margin", "rope",
         "multi margin", "kthvalue", "getitem", "adam", "ctc", "rnn", "steps of rnn", "plan of fusion",
         "convolution bias activation", "batch norm activation", "fused problems", "fused norms", "other problems",
         "attention", "graph", "graph of a convolution", "graph of attention", "immediate", "op tensor", "softmax",
         "activation", "batch norm", "pooling", "lrn")


def together(work, count=8):
    """Run work(0), work(1) ... in threads; raise what the first of them raised."""
    failures = []

    def guarded(i):
        try:
            with np.errstate(all="ignore"):
                work(i)
        except BaseException:
            failures.append(traceback.format_exc())

    run_threads([partial(guarded, i) for i in range(count)])
    assert not failures, failures[0]


def test_names_that_eight_threads_ask_for_at_once(monkeypatch):
    """The first to ask makes the table of an enumeration's names; nobody sees a part of it."""
    def ask(_):
        assert enums.number_of("miopenBackendAttributeName_t", "operation_rng_offset_desc") == 2313

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            monkeypatch.setattr(enums, "_SPELLINGS", {}, raising=False)
            together(ask)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("shared", [False, True])
def test_newer_operations_in_eight_threads(device_name, handles, monkeypatch, seed, amount, shared):
    """On one handle, or each on its own; every call with memory of its own, compared with float64."""
    monkeypatch.setattr(drawn, "HANDLES", {"host": handles("host")})
    monkeypatch.setattr(drawn, "KIND", ["float32"])
    count = amount(3 if device_name == "host" else 1, 40)
    # On OpenCL's devices each operation's programs take seconds: a few operations.
    names = [str(name) for name in np.random.default_rng(seed).permutation(NEWER)]
    names = names if device_name == "host" else names[:amount(1, len(NEWER))]
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(miopyx.Handle(device_name)) for _ in range(1 if shared else 8)]

        def work(i):
            for turn in range(count):
                for name in names[i % len(names):] + names[:i % len(names)]:
                    # On a shared handle several threads compute the same problem.
                    random_operations.OPERATIONS[name](made[i % len(made)],
                                                       np.random.default_rng([seed, turn, i // 2]))

        together(work)


def test_descriptors_that_threads_share(device_name, seed, amount):
    """One reduction, sequences whose table comes to the device once, dropout with states that go on, and CTC."""
    rng = np.random.default_rng(seed)
    a, c = TensorDescriptor("float32", (7, 33)), TensorDescriptor("float32", (7, 1))
    reduction, values = miopyx.ReduceTensorDescriptor(0), rng.integers(-9, 9, (7, 33)).astype(np.float32)
    rnn, ctc = miopyx.RNNDescriptor(6, 1, "gru"), miopyx.CTCLossDescriptor()
    x_desc = miopyx.SeqTensorDescriptor("float32", 2, 5, 3, 4, [5, 2, 4])
    y_desc = miopyx.SeqTensorDescriptor("float32", 2, 5, 3, 6, [5, 2, 4])
    probs, labels = TensorDescriptor("float32", (6, 2, 5)), ([1, 2, 3], [1, 2], [6, 5])
    data = {"x": rng.standard_normal((5, 3, 4)), "w": rng.standard_normal(3 * 6 * (4 + 6 + 2)),
            "p": rng.standard_normal((6, 2, 5))}
    data = {name: array.astype(np.float32) for name, array in data.items()}

    def compute(handle, number):
        """Results of one round, of memory of this thread's own."""
        size = miopyx.miopenGetReductionWorkspaceSize(handle, reduction, a, c)
        spaces = [handle.empty((max(n, 1),), "int8") for n in (
            size, miopyx.miopenGetRNNTempSpaceSizes(handle, rnn, x_desc, 1)[0],
            miopyx.miopenGetCTCLossWorkspaceSize(handle, probs, probs, *labels, 0, ctc))]
        total, y, losses, slopes = handle.empty(c), handle.empty(y_desc.shape), handle.empty((2,)), handle.empty(probs)
        up = {name: handle.upload(array) for name, array in data.items()}
        miopyx.miopenReduceTensor(handle, reduction, None, 0, spaces[0], size, 1, a, handle.upload(values + number), 0,
                                  c, total)
        miopyx.miopenRNNForward(
            handle, rnn, 1, x_desc, up["x"], None, None, None, None, None, None, y_desc, y, up["w"], data["w"].nbytes,
            spaces[1], miopyx.miopenGetRNNTempSpaceSizes(handle, rnn, x_desc, 1)[0], None, 0)
        miopyx.miopenCTCLoss(handle, probs, up["p"], *labels, losses, probs, slopes, 0, ctc, spaces[2],
                             miopyx.miopenGetCTCLossWorkspaceSize(handle, probs, probs, *labels, 0, ctc))
        return [np.array(handle.download(one)) for one in (total, y, losses, slopes)]

    with miopyx.Handle(device_name) as handle, miopyx.Handle(device_name) as other:
        states = handle.zeros((miopyx.miopenDropoutGetStatesSize(handle),), "int8")
        dropout = miopyx.DropoutDescriptor()
        miopyx.miopenSetDropoutDescriptor(dropout, handle, 0.5, states, miopyx.miopenDropoutGetStatesSize(handle), 7,
                                          False, True, 0)
        wants = [compute(handle, number) for number in range(8)]
        line, rounds, masks = TensorDescriptor("float32", (400,)), amount(20, 400), []

        def work(i):
            where = handle if i < 4 else other
            for _ in range(rounds):
                for got, want in zip(compute(where, i), wants[i], strict=True):
                    np.testing.assert_array_equal(got, want)
                if where is handle:
                    ones, y = handle.upload(np.ones(400, np.float32)), handle.empty(line)
                    miopyx.miopenDropoutForward(handle, dropout, line, line, ones, line, y, None, 0)
                    masks.append(np.array(handle.download(y)).tobytes())

        together(work)
        assert len(set(masks)) == 4 * rounds  # the states counted each
