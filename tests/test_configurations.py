"""Every configuration of the CPU solvers, on shapes that are large enough for them to differ."""

from __future__ import annotations

import pytest
from cases_reader import conv_case
from solver_checks import Example, check, configurations_of, verify

from miopyx.solvers import registry


def case(n, c, k, lens, filter=3, stride=1, groups=1):
    axes = len(lens)
    return conv_case(n, c, k, lens, (filter,) * axes, (filter // 2,) * axes, (stride,) * axes, groups=groups)


# Several rounds and blocks of tiles; several sets of channels; several tiles of rows.
CASES = {
    "CpuImplicitGemm": (case(3, 70, 80, (30, 29), stride=2), case(2, 600, 40, (7, 9), 1)),
    "CpuWinogradF4": (case(3, 40, 48, (57, 56)), case(2, 16, 20, (13, 40, 41))),
    "CpuWinogradF2": (case(2, 33, 32, (40, 56)), case(1, 20, 16, (9, 30, 41))),
    "CpuGrouped": (case(3, 64, 64, (57, 50), groups=16), case(2, 48, 48, (57, 56), groups=48),
                   case(2, 40, 40, (57, 56), 5, 2, groups=40), case(1, 64, 64, (30, 29), groups=4)),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("family", CASES)
def test_every_configuration_computes_the_same(cpu, host, rng, family, direction):
    solver = registry.BY_NAME[family + ("Fwd", "Bwd", "Wrw")[direction]]
    for of in CASES[family]:
        for layout in ("packed", "channels last") if family != "CpuImplicitGemm" else ("packed",):
            example = Example(of, "float32", layout, rng, host)
            problem = example.problem(direction)
            every = configurations_of(solver, cpu.device, problem)
            assert solver.default_config(cpu.device, problem) in every
            for config in every:
                print(of, layout, config)
                verify(cpu, example, direction, example.run(cpu, direction, solver, config=config), solver)
            check(cpu, example, direction, solver, rng, every[rng.integers(len(every))])
