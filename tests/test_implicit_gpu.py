"""The implicit GEMM for any GPU, on every OpenCL device as if it were one; GPUs run it in test_solvers, too."""

from __future__ import annotations

import dataclasses

import pytest
from cases_reader import conv_cases
from solver_checks import Example, check

from miopyx.solvers.conv.gpu._implicit import GpuImplicitGemmBwd, GpuImplicitGemmFwd, GpuImplicitGemmWrw

SOLVERS = (GpuImplicitGemmFwd(), GpuImplicitGemmBwd(), GpuImplicitGemmWrw())


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("direction", range(3))
def test_all_cases(gpu, host, rng, direction, layout):
    for case in conv_cases():
        example = Example(case, "float32", layout, rng, host)
        check(gpu, example, direction, SOLVERS[example.problem(direction).direction], rng)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_types(gpu, host, rng, amount, dtype):
    if dtype == "float64" and not gpu.device.fp64:
        pytest.skip("no double precision")
    cases = conv_cases("smoke")
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:amount(2, 4)]):
        example = Example(case, dtype, "padded", rng, host)
        direction = 0 if dtype == "int8" else int(rng.integers(3))
        problem = example.problem(direction)
        check(gpu, example, direction, SOLVERS[problem.direction], rng)


def test_long_sums_are_split(gpu, host, rng):
    """Backward weights of few filters over many pixels, in parts that do not divide the sum."""
    case = next(c for c in conv_cases() if c.text.startswith("n=2 c=3 k=8 in=23x21"))
    case = dataclasses.replace(case, lens=tuple(7 * v for v in case.lens))
    example = Example(case, "float32", "packed", rng, host)
    assert SOLVERS[2].workspace_size(gpu.device, example.problem(2)) > example.desc[1].nbytes
    check(gpu, example, 2, SOLVERS[2], rng)
