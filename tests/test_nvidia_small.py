"""Small convolutions on NVIDIA's tensor cores, every element against the host path in float64.

Other devices skip these tests, but for those about plans, which pretend a device.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases_reader import grouped_case
from solver_checks import Example, check_inf_and_nan, check_twice, problem_of

import miopyx
from miopyx.choose import _ranking, compiling, find, preparing
from miopyx.choose._survey import Survey
from miopyx.engine._handle import Kept
from miopyx.solvers import registry
from miopyx.solvers.conv.nvidia._small import NvSmallFwd

SOLVERS = [registry.BY_NAME[name] for name in ("NvSmallFwd", "NvSmallBwd", "NvSmallWrw")]
SHAPES = {  # images, groups, channels and filters of a group
    "3x3": grouped_case(1, 1, 16, 24, (9, 10)),
    "3x3, 65 channels": grouped_case(2, 1, 65, 40, (6, 7)),
    "long sums": grouped_case(1, 1, 512, 48, (7, 7)),
    "many pixels": grouped_case(3, 1, 8, 64, (40, 36)),
    "odd sizes": grouped_case(2, 1, 5, 17, (11, 7), (3, 2), (1, 0)),
    "7x7 with stride 2": grouped_case(1, 1, 3, 20, (37, 38), (7, 7), (3, 3), (2, 2)),
    "5x5 of 3 channels": grouped_case(3, 1, 3, 64, (16, 15), (5, 5), (2, 2)),
    "1x1": grouped_case(2, 1, 32, 40, (6, 6), (1, 1), (0, 0)),
    "1x1, uneven": grouped_case(1, 1, 17, 65, (5, 7), (1, 1), (0, 0)),
    "1x1, pairs of columns": grouped_case(2, 1, 24, 16, (8, 8), (1, 1), (0, 0)),
    "1x1 with stride 2": grouped_case(1, 1, 16, 32, (9, 9), (1, 1), (0, 0), (2, 2)),
    "3x3 with stride 2": grouped_case(1, 1, 16, 16, (9, 8), (3, 3), (1, 1), (2, 2)),
    "strides 3 and 2": grouped_case(1, 1, 2, 5, (13, 11), (2, 4), (2, 1), (3, 2)),
    "groups": grouped_case(2, 3, 8, 16, (7, 7)),
    "one filter": grouped_case(1, 1, 3, 1, (9, 20)),
    "wide pads": grouped_case(1, 1, 4, 8, (3, 2), (3, 3), (4, 3)),
}
DILATED = grouped_case(1, 1, 8, 16, (12, 12), (3, 3), (2, 3), (1, 1), (2, 3))


@pytest.fixture
def gpu(handle):
    if SOLVERS[0].why_not(handle.device, problem_of(SHAPES["3x3"])) is not None:
        pytest.skip("needs NVIDIA's tensor cores")
    return handle


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("layout", ["packed", "channels last", "packed with gaps"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(gpu, host, rng, name, layout, direction):
    """Half of them in buffers that begin at an odd element."""
    for dtype in ("float32", "float16", "bfloat16"):
        example = Example(SHAPES[name], dtype, layout, rng, host, shift=int(rng.integers(2)), copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("layers", ["1 64 56 3", "1 512 7 3", "64 256 14 3"])
def test_the_cost_table_takes_small_problems(h200, layers):
    """Images, channels, pixels, filter's side: the last is too much for it."""
    n, c, side, filter = (int(v) for v in layers.split())
    problem = problem_of(grouped_case(n, 1, c, c, (side, side), (filter, filter), (filter // 2, filter // 2)))
    assert (_ranking.by_costs(Survey(h200, problem))[0].solver is SOLVERS[0]) == (n == 1)


def test_large_problems_are_left_to_others(h200):
    """Images, channels, filters, pixels, filter's side: what is timed, and what is refused.

    Gradients of few channels are slow in others, too.
    """
    for layer, timed, taken in (("1 64 64 56 3", (0, 1, 2), (0, 1, 2)), ("256 64 64 56 3", (), (0, 1, 2)),
                                ("256 3 64 112 7", (1, 2), (0, 1, 2)), ("256 1024 1024 56 3", (), ())):
        n, c, k, side, filter = (int(v) for v in layer.split())
        for direction in range(3):
            problem = problem_of(grouped_case(n, 1, c, k, (side, side), (filter, filter), (filter // 2, filter // 2)),
                                 "float16", direction=direction)
            refused = SOLVERS[direction].why_not(h200.device, problem)
            assert refused in ((None,) if direction in taken else ("a large problem", "a long sum")), (layer, direction)
            worthy = _ranking.worth_timing(Survey(h200, problem).applicable())
            assert (SOLVERS[direction] in [offer.solver for offer in worthy]) == (direction in timed), (
                layer, direction)


class Counting(NvSmallFwd):
    """Counts how often it is asked for an offer, which takes a plan each."""

    asked = 0

    def offer(self, dev, problem):
        self.asked += 1
        return super().offer(dev, problem)


@pytest.fixture
def counting(monkeypatch):
    """Put a counting NvSmallFwd in the place of the real one."""
    mine = Counting()
    monkeypatch.setattr(registry, "CONV", tuple(mine if s is SOLVERS[0] else s for s in registry.CONV))
    monkeypatch.setitem(registry.BY_ID, mine.id, mine)
    monkeypatch.setitem(registry.BY_NAME, mine.name, mine)
    return mine


class Ready(Kept):
    """What stands for an invoker."""

    def __init__(self, offer):
        self.config, self.problem, self.solver = (), offer.problem, offer.solver


def test_a_first_call_makes_one_plan(h200, user_folder, counting, setting, monkeypatch):
    """Each of them, up to the steps: nothing can be built for a device that is only pretended."""
    prepared = []

    def instead_of_invoker(handle, offer, config=None):
        prepared.append((offer.solver, offer.solution(config).workspace))
        return Ready(offer)

    monkeypatch.setattr(preparing, "Invoker", instead_of_invoker)
    monkeypatch.setattr(compiling, "ahead", lambda handle, specs: [])
    setting(MIOPEN_SYSTEM_DB_PATH=user_folder)

    def asked(side, call):
        """How often a call about a problem that is new to the handle asks."""
        problem = problem_of(grouped_case(1, 1, 64, 64, (side, side)))
        before = counting.asked
        prepared.clear()
        call(problem)
        return counting.asked - before

    assert asked(41, lambda p: preparing.first(h200, p)) == 1
    assert prepared[0][0] is counting
    for side, mode in ((42, find.NORMAL), (43, find.FAST), (44, find.HYBRID), (45, find.DYNAMIC_HYBRID)):
        assert asked(side, lambda p, mode=mode: find.find(h200, p, lambda _: 1.0, 1 << 30, mode)) == 1
        assert counting in [solver for solver, _ in prepared]
        assert asked(side + 10, lambda p, mode=mode: find.workspace_size(h200, p, mode)) == 1
    x, w = (miopyx.TensorDescriptor("float32", lens) for lens in ((1, 64, 61, 61), (64, 64, 3, 3)))
    conv = miopyx.ConvolutionDescriptor((1, 1))
    before = counting.asked
    assert miopyx.miopenConvolutionForwardGetSolution(h200, w, x, conv, x, 99)[0].solution_id == counting.id
    assert counting.asked == before + 1
    miopyx.miopenConvolutionForwardGetSolutionWorkspaceSize(h200, w, x, conv, x, counting.id)
    assert counting.asked == before + 2


def test_offers_do_not_mix(h200, cpu, pretend, rng):
    """Of several problems and devices, asked in turns and by several threads."""
    smaller = pretend(cpu.device.name, name="nv-sm86_28", kind="gpu", runtime="nvidia", isa="sm86", compute_units=28,
                      local_mem=49152, extensions=h200.device.info.extensions)
    asked = [(SOLVERS[direction], handle.device, problem_of(case, dtype, layout, direction))
             for handle in (h200, smaller) for case in SHAPES.values() for dtype in ("float32", "float16")
             for layout in ("packed", "channels last") for direction in range(3)]

    def answer(offer):
        if isinstance(offer, str):
            return (offer,)
        (step,) = offer.solution().steps
        return offer.index, offer.workspace, offer.solution().workspace, step.spec.options, step.group

    alone = [answer(solver.offer(device, problem)) for solver, device, problem in asked]
    assert len(set(alone)) > len(asked) // 4, "most plans are different ones"
    assert Counter(len(a) for a in alone)[5] > len(asked) // 2

    def in_turns(order):
        offers = {i: asked[i][0].offer(*asked[i][1:]) for i in order}
        return all(answer(offers[i]) == alone[i] for i in reversed(order))

    orders = [rng.permutation(len(asked)).tolist() for _ in range(8)]
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(in_turns, orders))


@pytest.mark.parametrize("direction", range(3))
def test_dilation(gpu, host, rng, direction):
    for layout in ("packed", "channels last"):
        example = Example(DILATED, "float32", layout, rng, host, copied=True)
        check_twice(gpu, example, direction, SOLVERS[direction], rng)


@pytest.mark.parametrize("direction", range(3))
def test_inf_and_nan(gpu, host, rng, direction):
    """Beside padding, beside taps that a pixel of a block does not meet, and in sums that groups share."""
    for name in ("3x3", "odd sizes", "7x7 with stride 2", "groups", "long sums", "many pixels", "5x5 of 3 channels"):
        for layout in ("packed", "channels last"):
            for dtype in ("float32", "float16"):
                example = Example(SHAPES[name], dtype, layout, rng, host, copied=True)
                check_inf_and_nan(gpu, example, direction, SOLVERS[direction], rng, 1e-2)
