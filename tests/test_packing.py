"""`Plan.pack`: weights prepared once for many calls."""

import threading

import numpy as np
import pytest
from problems import Problem

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._core import Arg, KernelSpec, Solution, Step
from miopyx.engine import _plan
from miopyx.errors import BadParmError
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import programs
from miopyx.solvers import registry

N, C, K = 3, 5, 7
ID = 9100  # an id that no solver has
X, W, Y, WORKSPACE = 0, 1, 2, -1

SOURCE = """
__kernel void turn(const __global float *w, long w0, __global float *t, long t0)
{
    for (int k = 0; k < K; k++)
        for (int c = 0; c < C; c++)
            t[t0 + c * K + k] = w[w0 + k * C + c];
}

__kernel void multiply(const __global float *x, long x0, const __global float *t, long t0, __global float *y, long y0,
                       float alpha, float beta)
{
    int n = get_global_id(0);
    for (int k = 0; k < K; k++) {
        float sum = 0;
        for (int c = 0; c < C; c++)
            sum += x[x0 + n * C + c] * t[t0 + c * K + k];
        y[y0 + n * K + k] = alpha * sum + (beta == 0 ? 0 : beta * y[y0 + n * K + k]);
    }
}
"""


class Turning(miopyx.Solver):
    """1x1 convolutions of 1x1 images, with weights that the first step transposes."""

    def why_not(self, dev, problem):
        return "the host" if dev.is_host else None

    def workspace_size(self, dev, problem):
        return 4 * C * K

    def solution(self, dev, problem, config=None):
        turn, multiply = (KernelSpec("test_packing.cl", entry, C=C, K=K) for entry in ("turn", "multiply"))
        x, w, y, t = (Arg.slot_of(slot, 4) for slot in (X, W, Y, WORKSPACE))
        steps = [Step(turn, [w, t], (1,)), Step(multiply, [x, t, y, Arg.alpha(False), Arg.beta(False)], (N,))]
        return Solution(steps, 4 * C * K, constant=1)


@pytest.fixture
def turning(opencl_handle, rng, monkeypatch):
    """Return a small problem and a function that makes plans of it that turn weights."""
    source = programs.source
    monkeypatch.setattr(programs, "source", lambda file: SOURCE if file == "test_packing.cl" else source(file))
    monkeypatch.setitem(registry.BY_ID, ID, Turning())
    problem = Problem(opencl_handle, rng, x=(N, C, 1, 1), k=K, filter=(1, 1), pads=(0, 0))
    return problem, lambda: problem.plan(0, solution_id=ID)


def product(x, w):
    return np.einsum("ncij,kcij->nkij", x.astype(np.float64), w.astype(np.float64))


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_packed_weights_stay(turning, rng):
    problem, make = turning
    plan, (x, w, y) = make(), problem.buffers(0)
    first, second = problem.host[1], rng.standard_normal(problem.w.lens).astype("f4")
    other = problem.handle.upload(second)
    assert not plan.packed
    plan.pack(w)
    assert plan.packed
    for weights in (w, other, w):
        problem.poison(0)
        y = problem.data[2]
        plan(x, weights, y)
        close(problem.result(0), product(problem.host[0], first))
    plan.pack(other)
    plan(x, w, y)
    close(problem.result(0), product(problem.host[0], second))
    plan.pack(None)
    assert not plan.packed
    plan(x, w, y)
    close(problem.result(0), product(problem.host[0], first))
    plan(x, other, y)
    close(problem.result(0), product(problem.host[0], second))


def test_numbers_of_the_first_call(turning):
    problem, make = turning
    plan, (x, w, y) = make(), problem.buffers(0)
    plan.pack(w)
    plan(x, w, y, alpha=2.0, beta=3.0)
    close(problem.result(0), 2 * product(*problem.host[:2]) + 3 * problem.host[2])
    plan.pack(w)
    plan(x, w, y)
    close(problem.result(0), product(*problem.host[:2]))


def test_plans_do_not_share(turning, rng):
    problem, make = turning
    x, w, y = problem.buffers(0)
    plans, weights = [make() for _ in range(3)], [rng.standard_normal(problem.w.lens).astype("f4") for _ in range(2)]
    assert plans[0].invoker is plans[1].invoker
    for plan, values in zip(plans, weights, strict=False):
        plan.pack(problem.handle.upload(values))
    for _ in range(2):
        for plan, values in zip(plans, [*weights, problem.host[1]], strict=True):
            plan(x, w, y)
            close(problem.result(0), product(problem.host[0], values))


def test_host_memory_is_read_before_pack_returns(turning):
    problem, make = turning
    if not problem.handle.device.shares_memory:
        pytest.skip("the device has memory of its own")
    plan, w = make(), problem.host[1].copy()
    plan.pack(w)
    w[...] = np.nan
    plan(problem.data[0], w, problem.data[2])
    close(problem.result(0), product(*problem.host[:2]))


def test_other_weights_are_refused(turning):
    problem, make = turning
    plan, (x, w, y) = make(), problem.buffers(0)
    small = problem.handle.upload(problem.host[1][:-1])
    plan.pack(w)
    with pytest.raises(BadParmError, match="too small") as caught:
        plan.pack(small)
    assert caught.value.parameter == "w"
    with pytest.raises(BadParmError, match="not an array"):
        plan.pack("weights")
    with pytest.raises(BadParmError, match="too small"):  # calls look at their w all the same
        plan(x, small, y)
    assert plan.packed
    plan(x, w, y)
    close(problem.result(0), product(*problem.host[:2]))


def test_threads_pack_and_call(turning, rng):
    problem, make = turning
    x, w, _ = problem.buffers(0)
    handle, plan = problem.handle, make()
    weights = [rng.standard_normal(problem.w.lens).astype("f4") for _ in range(2)]
    uploaded = [handle.upload(values) for values in weights]
    wants = [product(problem.host[0], values) for values in weights]
    plan.pack(uploaded[0])
    problems, over = [], threading.Event()

    def pack():
        for i in range(300):
            plan.pack(uploaded[i % 2])
        over.set()

    def call():
        y = handle.upload(problem.host[2])
        out = np.empty_like(problem.host[2])
        while not over.is_set():
            plan(x, w, y)
            handle.download(y, out)
            if not any(np.allclose(out, want, rtol=1e-5, atol=1e-5) for want in wants):
                problems.append(out.copy())

    threads = [threading.Thread(target=function) for function in (pack, call, call)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_changed_descriptor_is_found(turning):
    problem, make = turning
    plan = make()
    miopyx.miopenSet4dTensorDescriptor(problem.x, "float32", 1, 1, 1, 1)
    with pytest.raises(BadParmError, match="changed after the plan was made"):
        plan.pack(problem.data[1])


def test_plans_of_a_log(turning, monkeypatch):
    from miopyx.api import logged

    monkeypatch.setattr(_plan, "plan_type", logged.LoggedPlan)
    problem, make = turning
    plan, (x, w, y) = make(), problem.buffers(0)
    assert type(plan) is not miopyx.Plan
    plan.pack(w)
    assert plan.packed
    plan(x, problem.handle.upload(np.full_like(problem.host[1], np.nan)), y)
    close(problem.result(0), product(*problem.host[:2]))


def test_nothing_to_pack(handle, rng):
    """Solvers without constant steps and the host look at w, and calls go on reading theirs."""
    problem = Problem(handle, rng)
    naive = next(s for s in registry.CONV if s.name == "ConvDirectNaiveConvFwd")
    plan = problem.plan(0, **({} if handle.device.is_host else {"solution_id": naive.id}))
    plan.pack(handle.upload(np.full_like(problem.host[1], np.nan)))
    assert not plan.packed
    plan(*problem.buffers(0))
    problem.close(0)
    with pytest.raises(BadParmError):
        plan.pack(handle.upload(problem.host[1][:-1]))


def test_plans_without_weights(handle, rng):
    problem = Problem(handle, rng)
    with pytest.raises(BadParmError, match="no weights"):
        problem.plan(2).pack(problem.data[1])
    with pytest.raises(BadParmError, match="no handle"):
        miopyx.Plan.__new__(miopyx.Plan).pack(None)


def test_solutions_keep_to_the_contract():
    spec = KernelSpec("test_packing.cl", "turn")
    x, w, t = (Arg.slot_of(slot, 4) for slot in (X, W, WORKSPACE))
    pack, rest = Step(spec, [w, t], (1,)), Step(spec, [x, t], (1,))
    assert Solution([pack, rest], 4, constant=1).constant == 1
    assert Solution([pack, rest], 4).constant == 0
    for steps, constant in (([pack, rest], 2), ([pack, rest], -1), ([rest, rest], 1), ([pack, pack], 1),
                            ([Step(spec, [w, t, Arg.alpha(False)], (1,)), rest], 1), ([Step(None, [], ()), rest], 1)):
        with pytest.raises(BadParmError):
            Solution(steps, 4, constant=constant)


WALK = [  # x, k, filter, pads, strides, groups
    ((2, 64, 14, 14), 72, (1, 1), (0, 0), (1, 1), 1),
    ((2, 33, 15, 13), 40, (3, 3), (1, 1), (1, 1), 1),
    ((1, 32, 15, 13), 64, (3, 3), (1, 1), (2, 2), 2),
    ((2, 3, 40, 40), 16, (7, 7), (3, 3), (2, 2), 1),
]


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("direction", [0, 1])
def test_solvers_pack_what_their_calls_would(opencl_handle, rng, dtype, layout, direction):
    """Every solver with constant steps: the same bits from packed weights, whatever w holds by then."""
    handle = opencl_handle
    for x_lens, k, taps, pads, strides, groups in WALK:
        conv = ConvolutionDescriptor(pads, strides, groups=groups)
        x, w = TensorDescriptor(dtype, x_lens), TensorDescriptor(dtype, (k, x_lens[1] // groups, *taps))
        y = TensorDescriptor(dtype, conv.output_lens(x, w))
        descs = [x, w, y]
        if layout == "nhwc":
            descs = [TensorDescriptor(dtype, (n, c, h, v), (h * v * c, 1, v * c, c)) for n, c, h, v in
                     (d.lens for d in descs)]
        x, w, y = descs
        problem = ConvProblem(direction, x, w, y, conv)
        out, into = (y, x) if direction == 0 else (x, y)
        for solver in registry.CONV:
            if solver.why_not(handle.device, problem) is not None:
                continue
            if not solver.solution(handle.device, problem, solver.default_config(handle.device, problem)).constant:
                continue
            make = handle.convolution_forward if direction == 0 else handle.convolution_backward_data
            plan = make(*((x, w, conv, y) if direction == 0 else (y, w, conv, x)), solution_id=solver.id)
            values = [rng.standard_normal(d.nbytes // np.dtype(dtype).itemsize).astype(dtype) for d in (into, w)]
            source, weights = map(handle.upload, values)
            results = [np.full(out.nbytes // np.dtype(dtype).itemsize, np.nan, dtype) for _ in range(2)]
            targets = [handle.upload(r) for r in results]
            plan(source, weights, targets[0])
            plan.pack(weights)
            assert plan.packed
            poison = handle.upload(np.full_like(values[1], np.nan))
            for _ in range(2):  # no call may spoil what the next one needs
                plan(source, poison, targets[1])
            for target, result in zip(targets, results, strict=True):
                handle.download(target, result)
            assert np.isfinite(results[0]).all(), solver
            np.testing.assert_array_equal(results[1], results[0], err_msg=repr(solver))


def test_a_launch_has_work_items():
    spec = KernelSpec("empty.cl", "empty")
    for sizes in (((0,), (1,)), ((8, 0), None), ((8,), (0,))):
        with pytest.raises(miopyx.MIOpenError, match="no work-items"):
            Step(spec, (), *sizes)
    Step(spec, (), (8, 8), (8, 1))
