"""The implicit GEMM for any GPU, on every OpenCL device as if it were one; GPUs run it in test_solvers, too."""

from __future__ import annotations

import dataclasses

import pytest
from cases_reader import conv_cases
from test_solvers import Example, check

from miopyx._problem import ConvProblem
from miopyx.solvers.conv._implicit_gpu import GpuImplicitGemmBwd, GpuImplicitGemmFwd, GpuImplicitGemmWrw

SOLVERS = (GpuImplicitGemmFwd(), GpuImplicitGemmBwd(), GpuImplicitGemmWrw())


@pytest.fixture
def gpu(opencl_name, as_gpu):
    return as_gpu(opencl_name)


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("direction", range(3))
def test_all_cases(gpu, handles, rng, direction, layout):
    for case in conv_cases():
        example = Example(case, "float32", layout, rng, handles("host"))
        problem = ConvProblem(direction, *example.desc, example.conv)
        solver = SOLVERS[problem.direction]
        assert solver.why_not(gpu.device, problem) is None, problem
        check(gpu, example, problem, direction, (2, 0, 1)[direction], solver, rng, "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_types(gpu, handles, rng, dtype):
    cases = conv_cases("smoke")
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:4]):
        example = Example(case, dtype, "padded", rng, handles("host"))
        direction = 0 if dtype == "int8" else int(rng.integers(3))
        problem = ConvProblem(direction, *example.desc, example.conv)
        solver = SOLVERS[problem.direction]
        if solver.why_not(gpu.device, problem) is None:
            check(gpu, example, problem, direction, (2, 0, 1)[direction], solver, rng, dtype)


def test_long_sums_are_split(gpu, handles, rng):
    """Backward weights of few filters over many pixels, in parts that do not divide the sum."""
    case = next(c for c in conv_cases() if c.text.startswith("n=2 c=3 k=8 in=23x21"))
    case = dataclasses.replace(case, lens=tuple(7 * v for v in case.lens))
    example = Example(case, "float32", "packed", rng, handles("host"))
    problem = ConvProblem(2, *example.desc, example.conv)
    assert SOLVERS[2].workspace_size(gpu.device, problem) > example.desc[1].nbytes
    check(gpu, example, problem, 2, 1, SOLVERS[2], rng, "float32")
