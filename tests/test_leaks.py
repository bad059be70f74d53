"""Nothing stays behind: objects, memory and OpenCL's references over many cycles of making, using and destroying.

LEAK_CYCLES sets the number of cycles (default 100), for example:

    LEAK_CYCLES=100000 pytest tests/test_leaks.py -k cycles -s

Python's own objects are counted, and what C allocated is asked of its allocator: a leak of one object a cycle shows
after hundreds of cycles.  From 100,000 cycles on the memory of the process counts as well: it must not grow by 1 MB.
"""

import copy
import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import drawn
import numpy as np
import pytest
import test_graph
from problems import DIRECTIONS, Problem
from random_operations import OPERATIONS

import miopyx
from miopyx import BadParmError, ConvolutionDescriptor, TensorDescriptor
from miopyx.choose import preparing
from miopyx.engine._invoker import Invoker

CYCLES = int(os.environ.get("LEAK_CYCLES", "100"))
C = ctypes.CDLL(None)
PAGE = os.sysconf("SC_PAGE_SIZE")


class MallInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def levels():
    """Return Python's allocated blocks, bytes that C has in use, and bytes of memory of the process.

    Pages that the C library holds free are given back first: how many it keeps says nothing about leaks.
    """
    gc.collect()
    C.malloc_trim(0)
    in_use = -1
    if hasattr(C, "mallinfo2"):
        C.mallinfo2.restype = MallInfo
        info = C.mallinfo2()
        in_use = info.uordblks + info.hblkhd
    with open("/proc/self/statm", encoding="ascii") as stream:
        return sys.getallocatedblocks(), in_use, int(stream.read().split()[1]) * PAGE


def check_level(name, cycle, settle=lambda: None, cycles=CYCLES, warm_up=100):
    """Run `cycle` many times; after a warm-up nothing may have grown."""
    for _ in range(max(warm_up, cycles // 20)):
        cycle()
    settle()
    blocks, in_use, resident = levels()
    for _ in range(cycles):
        cycle()
    settle()
    more_blocks, more_in_use, more_resident = levels()
    blocks, in_use, resident = more_blocks - blocks, more_in_use - in_use, more_resident - resident
    print(f"{name}: {cycles} cycles, {blocks:+d} Python blocks, {in_use:+d} bytes of C, {resident / 1e6:+.3f} MB")
    assert blocks < 200 + cycles // 20
    assert in_use < 20_000 + cycles
    if cycles >= 100_000:
        assert resident < 1e6


def small(handle, rng):
    return Problem(handle, rng, x=(1, 2, 5, 5), k=3)


def cycles_of(handle, problem):
    """Return what is done over and over, by name."""
    plans = [problem.plan(d) for d in DIRECTIONS]
    solutions = problem.call("GetSolution", 0, 99)
    spaces = {s.solution_id: problem.workspace(s.workspace_size) for s in solutions}
    found = problem.find(0)[0]
    space = problem.workspace(found.memory)
    queue = miopyx.miopenGetStream(handle)
    device = handle.device.name if queue is not None else "host"

    def descriptors():
        desc, conv = miopyx.miopenCreateTensorDescriptor(), miopyx.miopenCreateConvolutionDescriptor()
        miopyx.miopenSet4dTensorDescriptor(desc, 1, 2, 3, 4, 5)
        miopyx.miopenInitConvolutionDescriptor(conv, 0, 1, 1, 1, 1, 1, 1)
        miopyx.miopenGet4dTensorDescriptor(desc), miopyx.miopenGetConvolutionDescriptor(conv)
        miopyx.miopenGetConvolutionForwardOutputDim(conv, desc, TensorDescriptor("float32", (2, 3, 3, 3)))
        miopyx.miopenDestroyTensorDescriptor(desc), miopyx.miopenDestroyConvolutionDescriptor(conv)

    def handles():
        """On OpenCL without a program: PoCL 3.1 keeps 5 kB of each that it loads, whoever releases it."""
        ours = copy.copy(problem)
        with miopyx.Handle("host") if queue is None else miopyx.miopenCreateWithStream(queue) as ours.handle:
            if queue is None:
                ours.plan(0)(*problem.buffers(0))
            ours.call("GetSolution", 0, 9)

    def handles_and_contexts():
        with miopyx.Handle(device) as fresh:
            fresh.finish()

    def new_plans():
        ours = copy.copy(problem)
        ours.x, ours.conv = TensorDescriptor("float32", problem.x.lens), ConvolutionDescriptor((1, 1))
        for d in DIRECTIONS:
            ours.plan(d)(*problem.buffers(d))

    def plan_calls():
        for d in DIRECTIONS:
            plans[d](*problem.buffers(d), alpha=0.5, beta=1)

    def buffers():
        problem.reset()
        plans[0](*problem.buffers(0))
        if queue is not None:
            problem.data[0].release()
            problem.reset()

    def arrays():
        plans[0](*(a.copy() for a in problem.host))

    def immediate():
        for s in solutions:
            x, w, y = problem.data
            miopyx.miopenConvolutionForwardImmediate(handle, problem.w, w, problem.x, x, problem.conv, problem.y, y,
                                                     spaces[s.solution_id], s.workspace_size, s.solution_id)

    def algorithm():
        x, w, y = problem.data
        miopyx.miopenConvolutionForward(handle, 1, problem.x, x, problem.w, w, problem.conv, found.algo, 0, problem.y,
                                        y, space, found.memory)

    def queries():
        for d in DIRECTIONS:
            problem.call("GetSolutionCount", d), problem.call("GetWorkSpaceSize", d)
            problem.call("CompileSolution", d, problem.call("GetSolution", d, 9)[0].solution_id)

    def changed_descriptors():
        miopyx.miopenSet4dTensorDescriptor(problem.x, 1, *problem.x.lens)
        plans[0](*problem.buffers(0))
        immediate()

    def profiling():
        miopyx.miopenEnableProfiling(handle, True)
        plan_calls()
        miopyx.miopenEnableProfiling(handle, False)

    def errors():
        x, w, y = problem.data
        for bad in ((x, w, x), (None, w, y), (x, handle, y), (x, w, w)):
            with pytest.raises(BadParmError):
                plans[0](*bad)
        with pytest.raises(BadParmError):
            problem.call("CompileSolution", 0, 12345)
        with pytest.raises(BadParmError):
            miopyx.miopenSet4dTensorDescriptor(problem.x, 1, -1, 1, 1, 1)

    # How much of the cycles each is worth: an OpenCL context takes milliseconds to make.
    shares = {descriptors: 1, handles: 1, new_plans: 1, plan_calls: 1, buffers: 1, arrays: 1, immediate: 1,
              algorithm: 1, queries: 1, changed_descriptors: 1, profiling: 1, errors: 1}
    shares[handles_and_contexts] = 1 if queue is None else 10
    if queue is not None and not handle.device.shares_memory:
        del shares[arrays]
    return shares


WAYS = ("descriptors", "handles", "handles_and_contexts", "new_plans", "plan_calls", "buffers", "arrays", "immediate",
        "algorithm", "queries", "changed_descriptors", "profiling", "errors")


@pytest.mark.some(6)
@pytest.mark.parametrize("way", WAYS)
def test_cycles_leave_nothing_behind(device_name, way, rng):
    with miopyx.Handle(device_name) as handle:
        shares = {cycle.__name__: (cycle, share) for cycle, share in cycles_of(handle, small(handle, rng)).items()}
        if way not in shares:
            pytest.skip("the device has memory of its own")
        cycle, share = shares[way]
        # Each setting of a descriptor is new to a handle, which remembers thousands of them.
        check_level(f"{handle.device.name} {way}", cycle, handle.finish, CYCLES // share,
                    6000 if way == "changed_descriptors" else 100)


# OpenCL's own counts


def counts(handle):
    """Return the reference counts of a handle's context and queue.  Kernels, programs and buffers hold the context."""
    handle.finish()
    return handle.queue.context.reference_count, handle.queue.reference_count


def settled(count, expected):
    """Return what `count` gives, asked again for a while: drivers let go of finished commands late."""
    for _ in range(1000):
        if count() == expected:
            break
        time.sleep(0.002)  # their threads need a core
    return count()


def test_opencl_counts_are_level(opencl_name, rng):
    with miopyx.Handle(opencl_name) as owner:
        queue = owner.queue
        problem = small(owner, rng)
        problem.plan(0)(*problem.buffers(0))
        before = counts(owner)
        handle = miopyx.miopenCreateWithStream(queue)
        ours = copy.copy(problem)
        ours.handle = handle
        ours.reset()
        for d in DIRECTIONS:
            ours.find(d)
            ours.plan(d)(*ours.buffers(d))
            for s in ours.call("GetSolution", d, 99):
                ours.immediate(d, s.solution_id, s.workspace_size)
        held = counts(owner)
        assert held[0] > before[0], "this driver's objects do not hold their context: the test would see nothing"
        assert held[1] > before[1]
        miopyx.miopenDestroy(handle)
        del ours, handle
        gc.collect()
        assert settled(lambda: counts(owner), before) == before


def test_counts_of_buffers_are_level(opencl_handle, rng):
    import pyopencl as cl

    handle = opencl_handle
    problem = small(handle, rng)
    plans = [problem.plan(d) for d in DIRECTIONS]
    solution = max(problem.call("GetSolution", 0, 99), key=lambda s: s.workspace_size)
    space = problem.workspace(solution.workspace_size)
    problem.workspace = lambda size: space

    def use():
        for d in DIRECTIONS:
            plans[d](*problem.buffers(d))
        problem.immediate(0, solution.solution_id, solution.workspace_size)
        with pytest.raises(BadParmError):
            plans[0](problem.data[0], problem.data[1], problem.data[0])
        handle.finish()

    def references():
        return [b.get_info(cl.mem_info.REFERENCE_COUNT) for b in (*problem.data, space) if b is not None]

    use()
    once = settled(references, [2] * len(references()))  # pyopencl's and ours, where the driver holds none of its own
    assert max(once) <= 3
    for _ in range(200):
        use()
    assert settled(references, once) == once
    before = counts(handle)[0]
    problem.data = None
    gc.collect()
    assert settled(lambda: counts(handle)[0], before - 3) == before - 3, "a call kept a buffer of its caller's alive"
    problem.reset()
    use()
    assert settled(lambda: counts(handle)[0], before) == before


def test_a_handle_dies_with_its_last_name(device_name, rng):
    handle = miopyx.Handle(device_name)
    problem = small(handle, rng)
    plan = problem.plan(0)
    plan(*problem.buffers(0))
    problem.find(0)
    gone = weakref.ref(handle)
    del handle, problem.handle, problem, plan
    gc.collect()
    assert gone() is None


GARBAGE = """
import gc, sys, weakref
import numpy as np
import miopyx as mi

device = sys.argv[1]
x, w = mi.TensorDescriptor("float32", (1, 1, 8, 8)), mi.TensorDescriptor("float32", (1, 1, 3, 3))
conv = mi.ConvolutionDescriptor((1, 1))

class Ring:
    pass

for turn in range(30):
    handle = mi.Handle(device)
    plan = handle.convolution_forward(x, w, conv, x)
    data = [handle.upload(np.ones(d.lens, np.float32)) for d in (x, w, x)]
    plan(*data)
    try:
        plan(data[0], data[1], None)
    except mi.MIOpenError as error:
        caught = error
    ring = Ring()
    ring.all = [handle, plan, plan.invoker, plan.invoker.solution, plan.invoker.problem, plan.solver, caught, ring]
    ring.also = list(reversed(ring.all))
    gone = weakref.ref(handle)
    if turn % 2:
        handle.destroy()
    del handle, plan, data, caught, ring
    gc.collect()
    assert gone() is None
print("level")
"""


def test_garbage_in_circles_is_collected(device_name):
    """The collector clears objects before it frees them, in any order.  In a process of its own: that may crash."""
    done = subprocess.run([sys.executable, "-P", "-c", GARBAGE, device_name], capture_output=True, text=True,
                          timeout=100, check=False)
    assert done.stdout.strip() == "level", done.stderr
    assert "ignored" not in done.stderr, done.stderr


def test_threads_leave_nothing_behind(device_name, rng):
    """A thread that ends takes with it what the library keeps for threads."""
    with miopyx.Handle(device_name) as handle:
        problem = small(handle, rng)
        plan = problem.plan(0)

        def work():
            plan(*(np.array(a) if handle.device.shares_memory or handle.device.is_host else handle.upload(a)
                   for a in problem.host))

        def cycle():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

        check_level(f"{handle.device.name} threads", cycle, handle.finish, min(CYCLES, 5000) // 2)


# What a handle keeps of operations beside convolution


def invokers():
    gc.collect()
    return sum(type(one) is Invoker for one in gc.get_objects())


def test_a_handle_forgets_operations_that_nobody_used_lately(device_name, monkeypatch):
    """Of those that differ in a size: 2048 at most.  One that is used between others stays."""
    made = []
    prepare = preparing.first_applicable

    def counted(handle, problem):
        made.append(problem)
        return prepare(handle, problem)

    monkeypatch.setattr(preparing, "first_applicable", counted)
    before = invokers()
    with miopyx.Handle(device_name) as handle:
        def scale(n, factor):
            y = handle.upload(np.arange(1, n + 1, dtype=np.float32))
            miopyx.miopenScaleTensor(handle, TensorDescriptor("float32", (n,)), y, factor)
            return y

        plan = handle.scale_tensor(TensorDescriptor("float32", (7,)))
        for n in range(10, 4600):
            y = scale(n, 2.0)
            scale(9, 1.0)
            if n % 500 == 0:
                np.testing.assert_array_equal(handle.download(y), 2 * np.arange(1, n + 1))
            if n % 100 == 0:
                handle.finish()
                assert invokers() - before <= 2048 + 2
        assert len(made) == 4600 - 10 + 2
        scale(4599, 2.0)
        assert len(made) == 4600 - 10 + 2
        scale(10, 2.0)  # forgotten, and made again
        assert len(made) == 4600 - 10 + 3
        y = handle.upload(np.ones(7, np.float32))
        plan(y, alpha=3.0)  # holds what it needs itself
        np.testing.assert_array_equal(handle.download(y), np.full(7, 3.0))
    del plan
    assert invokers() <= before


def test_a_handle_forgets_convolutions_that_nobody_used_lately(rng):
    """Those under a solver's id, which is prepared again; what Find said of an algorithm stays."""
    before = invokers()
    w, conv = TensorDescriptor("float32", (1, 1, 1, 1)), miopyx.ConvolutionDescriptor((0, 0))
    two = np.full((1, 1, 1, 1), 2, np.float32)
    with miopyx.Handle("host") as handle:
        def run(n, call):
            x = TensorDescriptor("float32", (1, 1, 1, n))
            given, result = rng.standard_normal(x.lens, np.float32), np.full(x.lens, np.nan, np.float32)
            call(x, given, result)
            np.testing.assert_array_equal(result, 2 * given)

        def immediate(x, given, result):
            best = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, x, 1)[0]
            space = np.zeros(max(best.workspace_size, 1), np.uint8)
            miopyx.miopenConvolutionForwardImmediate(handle, w, two, x, given, conv, x, result, space,
                                                     best.workspace_size, best.solution_id)

        def found(x, given, result):
            best = miopyx.miopenFindConvolutionForwardAlgorithm(handle, x, given, w, two, conv, x, result, 1,
                                                                np.zeros(1 << 16, np.uint8), 1 << 16, False)[0]
            result.fill(np.nan)
            by_algorithm(best.algo, x, given, result)

        def by_algorithm(algo, x, given, result):
            miopyx.miopenConvolutionForward(handle, 1.0, x, given, w, two, conv, algo, 0.0, x, result,
                                            np.zeros(1 << 16, np.uint8), 1 << 16)

        algo = []
        run(9, lambda x, given, result: (found(x, given, result), algo.append(
            miopyx.miopenFindConvolutionForwardAlgorithm(handle, x, given, w, two, conv, x, result, 1,
                                                         np.zeros(1 << 16, np.uint8), 1 << 16, False)[0].algo)))
        for n in range(10, 2 * 2048 + 200):
            run(n, immediate)
        assert invokers() - before <= 2048 + 10
        run(9, lambda *how: by_algorithm(algo[0], *how))
        run(10, immediate)  # prepared again
    assert invokers() <= before


# The newer operations: each descriptor made, set, read and destroyed, each call made with new descriptors and refused


def fill_memo(handle):
    """Each setting of a descriptor is new to a handle, which remembers thousands of them."""
    y = handle.upload(np.ones(1, np.float32))
    for _ in range(20_000):
        miopyx.miopenScaleTensor(handle, TensorDescriptor("float32", (1,)), y, 1.0)
    handle.finish()


def newer_descriptors(handle):
    x, line = TensorDescriptor("float32", (2, 3, 4, 5)), TensorDescriptor("float32", (2, 4))
    states = handle.upload(np.zeros(miopyx.miopenDropoutGetStatesSize(handle), np.int8))
    size = miopyx.miopenDropoutGetStatesSize(handle)

    def reductions():
        desc = miopyx.miopenCreateReduceTensorDescriptor()
        miopyx.miopenSetReduceTensorDescriptor(desc, 3, 1, 0, 1, 0)
        miopyx.miopenGetReduceTensorDescriptor(desc)
        miopyx.miopenGetReductionWorkspaceSize(handle, desc, x, TensorDescriptor("float32", (2, 1, 4, 5)))
        miopyx.miopenDestroyReduceTensorDescriptor(desc)

    def dropouts():
        desc = miopyx.miopenCreateDropoutDescriptor()
        miopyx.miopenSetDropoutDescriptor(desc, handle, 0.5, states, size, 1, False, False, 0)
        miopyx.miopenGetDropoutDescriptor(desc, handle)
        miopyx.miopenRestoreDropoutDescriptor(desc, handle, 0.5, states, size, 1, False, False, 0)
        miopyx.miopenDestroyDropoutDescriptor(desc)

    def recurrent():
        drop, desc = miopyx.miopenCreateDropoutDescriptor(), miopyx.miopenCreateRNNDescriptor()
        miopyx.miopenSetDropoutDescriptor(drop, handle, 0.5, states, size, 1, False, False, 0)
        miopyx.miopenSetRNNDescriptor_V2(desc, 4, 2, drop, 0, 1, 2, 1, 0, "float32")
        miopyx.miopenGetRNNDescriptor_V2(desc)
        miopyx.miopenSetRNNPaddingMode(desc, 1)
        sequences = miopyx.miopenCreateSeqTensorDescriptor()
        miopyx.miopenSetRNNDataSeqTensorDescriptor(sequences, 1, 2, 7, 3, 4, [2, 7, 0], None)
        miopyx.miopenGetRNNDataSeqTensorDescriptor(sequences, None)
        miopyx.miopenGetRNNTempSpaceSizes(handle, desc, sequences, 0)
        miopyx.miopenGetRNNParamsDescriptor(handle, desc, line, TensorDescriptor(), "float32")
        miopyx.miopenGetRNNLayerParamOffset(desc, 1, line, 2, TensorDescriptor())
        miopyx.miopenDestroySeqTensorDescriptor(sequences), miopyx.miopenDestroyRNNDescriptor(desc)
        miopyx.miopenDestroyDropoutDescriptor(drop)

    def ctc():
        desc = miopyx.miopenCreateCTCLossDescriptor()
        miopyx.miopenSetCTCLossDescriptor(desc, 1, 0, True), miopyx.miopenGetCTCLossDescriptor(desc)
        probs = TensorDescriptor("float32", (6, 2, 5))
        miopyx.miopenGetCTCLossWorkspaceSize(handle, probs, probs, [1, 2, 3], [1, 2], [6, 5], 0, desc)
        miopyx.miopenDestroyCTCLossDescriptor(desc)

    def fusion_plans():
        conv = ConvolutionDescriptor((1, 1))
        plan = miopyx.miopenCreateFusionPlan(0, x)
        op = miopyx.miopenCreateOpConvForward(plan, conv, TensorDescriptor("float32", (6, 3, 3, 3)))
        bias = miopyx.miopenCreateOpBiasForward(plan, TensorDescriptor("float32", (1, 6, 1, 1)))
        miopyx.miopenCreateOpActivationForward(plan, 3)
        miopyx.miopenCompileFusionPlan(handle, plan)
        args = miopyx.miopenCreateOperatorArgs()
        miopyx.miopenSetOpArgsConvForward(args, op, 1.0, 0.0, states)
        miopyx.miopenSetOpArgsBiasForward(args, bias, 1.0, 0.0, states)
        miopyx.miopenDestroyOperatorArgs(args), miopyx.miopenDestroyFusionPlan(plan)

    def problems():
        conv, options = ConvolutionDescriptor((1, 1)), miopyx.miopenCreateFindOptions()
        problem = miopyx.miopenCreateConvProblem(conv, 0)
        for number, lens in enumerate(((2, 3, 4, 5), (6, 3, 3, 3), (2, 6, 4, 5)), 1):
            miopyx.miopenSetProblemTensorDescriptor(problem, number, TensorDescriptor("float32", lens))
        for solution in miopyx.miopenFindSolutions(handle, problem, options, 9):
            data = miopyx.miopenSaveSolution(solution)
            miopyx.miopenDestroySolution(miopyx.miopenLoadSolution(data, len(data)))
            with pytest.raises(miopyx.MIOpenError):
                miopyx.miopenLoadSolution(data[:-1], len(data) - 1)
            miopyx.miopenDestroySolution(solution)
        miopyx.miopenDestroyFindOptions(options), miopyx.miopenDestroyProblem(problem)

    def fused_problems():
        conv = miopyx.miopenCreateConvProblem(ConvolutionDescriptor((1, 1)), 0)
        for number, lens in ((1, (2, 3, 4, 5)), (2, (6, 3, 3, 3))):
            miopyx.miopenSetProblemTensorDescriptor(conv, number, TensorDescriptor("float32", lens))
        act = miopyx.miopenCreateActivationProblem(miopyx.ActivationDescriptor("relu"), 0)
        miopyx.miopenFuseProblems(conv, act)
        for solution in miopyx.miopenFindSolutions(handle, conv, None, 9):
            data = miopyx.miopenSaveSolution(solution)
            miopyx.miopenDestroySolution(miopyx.miopenLoadSolution(data, len(data)))
            miopyx.miopenDestroySolution(solution)
        miopyx.miopenFuseProblems(act, conv)
        with pytest.raises(miopyx.MIOpenError):
            miopyx.miopenFindSolutions(handle, act, None, 9)
        miopyx.miopenDestroyProblem(act), miopyx.miopenDestroyProblem(conv)

    def attention():
        desc = miopyx.miopenCreateMhaDescriptor()
        miopyx.miopenSetMhaDescriptor(desc, 0.5), miopyx.miopenGetMhaDescriptor(desc)
        problem = miopyx.miopenCreateMhaProblem(desc, 0)
        for name in "QKV":
            miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", x)
        with pytest.raises(miopyx.MIOpenError):
            miopyx.miopenFindSolutions(handle, problem, None, 1)
        miopyx.miopenSetProblemTensorDescriptor(problem, "miopenTensorMhaO", x)
        miopyx.miopenDestroySolution(miopyx.miopenFindSolutions(handle, problem, None, 1)[0])
        miopyx.miopenDestroyProblem(problem)

    def graphs():
        """Descriptors refer to each other, plans to a handle."""
        a, b = (test_graph.tensor((2, 3, 4, 5)) for _ in range(2))
        plan, = test_graph.plans(handle, test_graph.graph_of(handle, test_graph.pointwise("ABS", a, b)))
        miopyx.miopenBackendInitialize(plan, "MIOPEN_BACKEND_TENSOR_DESCRIPTOR", 0)
        with pytest.raises(miopyx.MIOpenError):
            test_graph.graph_of(handle, test_graph.pointwise("ABS", a, b), test_graph.pointwise("ABS", b, a))
        for one in (a, b, plan):
            miopyx.miopenBackendDestroyDescriptor(one)

    return reductions, dropouts, recurrent, ctc, fusion_plans, problems, fused_problems, attention, graphs


COSTLY_WAYS = "problems", "fused_problems"


@pytest.mark.some(2, host=4)
@pytest.mark.parametrize("way", ["reductions", "dropouts", "recurrent", "ctc", "fusion_plans", "problems",
                                 "fused_problems", "attention", "graphs"])
def test_newer_descriptors_leave_nothing_behind(device_name, way, user_folder):
    with miopyx.Handle(device_name) as handle:
        cycle = next(one for one in newer_descriptors(handle) if one.__name__ == way)
        fill_memo(handle)
        check_level(f"{handle.device.name} {way}", cycle, handle.finish, CYCLES // (10 if way in COSTLY_WAYS else 1),
                    min(30, CYCLES) if way in COSTLY_WAYS else 100)


@pytest.mark.some(2, host=4)
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "foreign solutions"])
def test_newer_operations_leave_nothing_behind(device_name, name, user_folder, monkeypatch):
    """The same problems over and over, with new descriptors and memory each time."""
    with miopyx.Handle(device_name) as handle, miopyx.Handle("host") as host:
        monkeypatch.setattr(drawn, "HANDLES", {"host": host})
        monkeypatch.setattr(drawn, "KIND", ["float32"])

        def cycle():
            for seed in range(2):
                with np.errstate(all="ignore"):
                    OPERATIONS[name](handle, np.random.default_rng(seed))

        fill_memo(handle)
        check_level(f"{handle.device.name} {name}", cycle, handle.finish, CYCLES // 2, 50)
