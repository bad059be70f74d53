"""GPUs with small work-groups and little local memory: what solvers launch there fits, and is right."""

from __future__ import annotations

import pytest
from cases_reader import conv_cases
from solver_checks import Example, check, problem_of

from miopyx.solvers import registry

LIMITS = ((64, 16 << 10), (128, 32 << 10), (256, 32 << 10))  # work-items of a group, bytes
EVERYWHERE = ("GemmFwdRest", "GpuImplicitGemmBwd", "GpuWinogradF2Wrw", "ConvDirectNaiveConvFwd")


@pytest.fixture(params=LIMITS, ids=lambda limits: f"{limits[0]} items")
def small_gpu(request, opencl_name, pretend):
    items, local_mem = request.param
    return pretend(opencl_name, kind="gpu", runtime="other", isa="", max_work_group_size=items, local_mem=local_mem,
                   fp64=False, fp16=False)


def test_groups_fit(small_gpu):
    """Every launch of every solver, and the families for any GPU are all there."""
    device, seen = small_gpu.device, set()
    for case in conv_cases():
        for dtype, layout in (("float32", "packed"), ("float16", "channels last")):
            for direction in range(3):
                problem = problem_of(case, dtype, layout, direction)
                for solver in registry.CONV:
                    if solver.why_not(device, problem) is None:
                        seen.add(solver.name)
                        groups = [step.group for step in solver.solution(device, problem).steps]
                        assert max(groups) <= device.max_work_group, (solver.name, case.text)
    assert seen.issuperset(EVERYWHERE)
    assert not any(name.startswith("Nv") for name in seen)
    assert device.max_work_group < 256 or {"DepthwiseFwd", "DepthwiseBwd", "DepthwiseWrw", "FFTConvFwd"} <= seen


def test_results(small_gpu, host, rng, amount):
    cases = conv_cases("smoke")
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:amount(1, 4)]):
        example = Example(case, "float32", "packed", rng, host)
        for direction in range(3):
            able = [s for s in registry.CONV if not s.last_resort
                    and s.why_not(small_gpu.device, example.problem(direction)) is None]
            assert able
            for solver in able:
                check(small_gpu, example, direction, solver, rng)
