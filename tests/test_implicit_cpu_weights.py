"""Backward weights as an implicit GEMM on CPU devices, every element against the host path in float64.

What test_solvers checks, on random problems, for vectors of each size, and with every configuration.
"""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase
from test_solvers import Example, Tensor, arguments, check, verify

import miopyx
from miopyx import device
from miopyx._invoker import Invoker
from miopyx._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tuning import configurations

SOLVER = registry.BY_NAME["CpuImplicitGemmWrw"]
# One instruction set for each size of a vector register.
SETS = ("znver4", "haswell", "baseline")


@pytest.fixture(scope="module")
def with_vectors():
    """Return a function from a device's name and an instruction set to a handle whose solvers take it to have that."""
    made = {}

    def handle_of(name, isa):
        if (name, isa) not in made:
            info = device.find(name)._replace(isa=isa)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(device, "find", lambda _: info)
                made[name, isa] = miopyx.Handle(name)
        return made[name, isa]

    yield handle_of
    for handle in made.values():
        handle.destroy()


@pytest.fixture
def cpu(opencl_name, handles):
    handle = handles(opencl_name)
    if not handle.device.is_cpu:
        pytest.skip("no CPU")
    return handle


def random_case(rng: np.random.Generator, spatial: int) -> ConvCase:
    """Any filter, or in one of three a 1x1 filter that leaves all alone; at most some millions of products."""
    ones, zeros = (1,) * spatial, (0,) * spatial
    while True:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        c, k = (groups * int(v) for v in rng.choice([1, 3, 5, 8, 16, 17, 33, 49, 65, 130], 2))
        lens = tuple(int(v) for v in rng.integers(1, (300, 24, 9)[spatial - 1], spatial))
        n = int(rng.choice([1, 2, 3, 7]))
        if rng.integers(3) == 0:
            case = ConvCase("1x1", n, c, k, lens, ones, zeros, ones, ones, groups, False, zeros, "ci")
        else:
            taps = tuple(int(v) for v in rng.choice([1, 2, 3, 5, 7], spatial))
            pad, stride, dilation = (tuple(int(v) for v in rng.integers(low, high, spatial))
                                     for low, high in ((0, 2 + max(taps)), (1, 4), (1, 4)))
            case = ConvCase("random", n, c, k, lens, taps, pad, stride, dilation, groups, False, zeros, "ci")
        out = [(i + 2 * p - d * (f - 1) - 1) // s + 1
               for i, p, d, f, s in zip(lens, case.pad, case.dilation, case.filter, case.stride, strict=True)]
        if min(out) > 0 and n * np.prod(out) * c * k // groups * np.prod(case.filter) < 2e7:
            return case


def run(handle, example, rng, dtype):
    problem = ConvProblem(2, *example.desc, example.conv)
    assert SOLVER.why_not(handle.device, problem) is None, problem
    check(handle, example, problem, 2, 1, SOLVER, rng, dtype)


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_random_problems(cpu, handles, rng, spatial):
    for _ in range(25):
        run(cpu, Example(random_case(rng, spatial), "float32", "packed", rng, handles("host")), rng, "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(cpu, handles, rng, dtype):
    for _ in range(12):
        example = Example(random_case(rng, int(rng.integers(1, 4))), dtype, "packed", rng, handles("host"))
        if SOLVER.why_not(cpu.device, ConvProblem(2, *example.desc, example.conv)) != "device has no double precision":
            run(cpu, example, rng, dtype)


@pytest.mark.parametrize("isa", SETS)
def test_vectors_of_each_size(cpu, opencl_name, with_vectors, handles, rng, isa):
    handle = with_vectors(opencl_name, isa)
    assert handle.device.vector_bytes == 64 >> SETS.index(isa)
    for _ in range(12):
        run(handle, Example(random_case(rng, 2), "float32", "packed", rng, handles("host")), rng, "float32")


SHAPES = {
    "few channels": ConvCase("", 2, 3, 20, (37, 41), (7, 7), (3, 3), (2, 2), (1, 1), 1, False, (0, 0), "ci"),
    "1x1": ConvCase("", 4, 70, 50, (7, 7), (1, 1), (0, 0), (1, 1), (1, 1), 1, False, (0, 0), "ci"),
    "1x1 with stride 2": ConvCase("", 2, 70, 50, (75, 74), (1, 1), (0, 0), (2, 2), (1, 1), 1, False, (0, 0), "ci"),
    "more taps than sums": ConvCase("", 2, 9, 5, (22, 23), (17, 9), (0, 1), (1, 1), (1, 1), 1, False, (0, 0), "ci"),
    "rows longer than a panel": ConvCase("", 1, 16, 8, (3, 700), (3, 3), (1, 1), (1, 1), (1, 2), 1, False, (0, 0),
                                         "ci"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_configuration(cpu, handles, rng, name):
    example = Example(SHAPES[name], "float32", "packed", rng, handles("host"))
    problem = ConvProblem(2, *example.desc, example.conv)
    every = configurations(SOLVER.parameters(cpu.device, problem), lambda c: SOLVER.accepts(cpu.device, problem, c))
    assert len(every) >= 9
    for config in every:
        cpu.register(Invoker(cpu, SOLVER, problem, config), SOLVER.id)
        run(cpu, example, rng, "float32")


def test_sums_do_not_depend_on_threads(cpu, handles, rng):
    """The same bits every time, in parts too."""
    example = Example(SHAPES["1x1 with stride 2"], "float32", "packed", rng, handles("host"))
    plan = cpu.convolution_backward_weights(example.desc[2], example.desc[0], example.conv, example.desc[1], SOLVER.id)
    results = []
    for _ in range(20):
        inputs = [Tensor(cpu, d, v) for d, v in zip(example.desc, example.data, strict=True)]
        out = Tensor(cpu, example.desc[1], None)
        plan(*arguments(2, [t.argument() for t in inputs], out.argument()))
        cpu.finish()
        results.append(out.values())
        np.testing.assert_array_equal(results[-1], results[0])
    verify(example, 2, results[0], 1.0, 0.0, 0.0, SOLVER, "float32")


def test_padding_is_not_multiplied(cpu, handles, rng):
    """An infinity of dy reaches dw only at taps where it meets a pixel; the channels are enough for taps one by one."""
    case = ConvCase("", 2, 16, 5, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1, False, (0, 0), "ci")
    example = Example(case, "float32", "packed", rng, handles("host"))
    example.data[2][1, 3, 0, 0] = np.inf
    inputs = [Tensor(cpu, d, v) for d, v in zip(example.desc, example.data, strict=True)]
    out = Tensor(cpu, example.desc[1], None)
    cpu.convolution_backward_weights(example.desc[2], example.desc[0], example.conv, example.desc[1], SOLVER.id)(
        *arguments(2, [t.argument() for t in inputs], out.argument()))
    cpu.finish()
    finite = np.ones(example.desc[1].lens, bool)
    finite[3, :, 1:, 1:] = False
    np.testing.assert_array_equal(np.isfinite(out.values()), finite)
    assert np.isinf(out.values()[~finite]).all()
