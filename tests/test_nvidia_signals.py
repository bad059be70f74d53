"""A long axis on Hopper's tensor cores, every element against the host path in float64.  Other devices skip these.

Coordinates beyond 16 bits, which kernels by wgmma have and those by mma.sync have not.
"""

from __future__ import annotations

import pytest
from cases_reader import conv_case
from solver_checks import Example, check
from test_nvidia_tf32 import allowed

from miopyx.solvers import registry

CASES = {  # images, channels, filters, length, taps, pad, stride, dilation
    "beyond 16 bits": conv_case(1, 32, 72, (66003,), (3,), (1,)),
    "with a stride": conv_case(1, 40, 64, (70000,), (3,), (0,), (2,)),
    "with a dilation": conv_case(2, 64, 64, (5001,), (7,), (9,), (1,), (3,)),
    "strides of a filter's half": conv_case(1, 16, 32, (9000,), (16,), (4,), (8,)),
    "17 taps": conv_case(2, 24, 64, (4200,), (17,), (8,)),
    "30 taps with a dilation": conv_case(1, 16, 64, (4400,), (30,), (20,), (1,), (2,)),
    "one channel": conv_case(1, 1, 64, (80001,), (10,), (0,), (5,)),
    "1 tap": conv_case(1, 64, 128, (66004,)),
    "groups": conv_case(2, 64, 64, (4998,), (3,), (1,), groups=2),
    "long rows of an image": conv_case(1, 32, 64, (3, 5003), (3, 3), (1, 1)),
    "long columns": conv_case(1, 16, 64, (8205, 9), (3, 3), (1, 1)),
    "long columns with strides": conv_case(1, 16, 64, (8206, 8), (3, 2), (1, 0), (2, 2)),
    "long rows of a volume": conv_case(1, 16, 64, (2, 3, 4999), (2, 3, 3), (1, 1, 1)),
}
SOLVERS = [solver for solver in registry.CONV if solver.name.startswith(
    ("NvWgmma", "NvPair", "NvTaps", "NvTf32", "NvHalves"))]


@pytest.mark.some(8)
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_every_element(handle, host, rng, solver, name, layout):
    case, direction = CASES[name], ("Fwd", "Bwd", "Wrw").index(solver.name[-3:])
    tf32 = "Tf32" in solver.name or "Halves" in solver.name
    dtype = "float32" if tf32 or "Pair" in solver.name else ("float16", "bfloat16")[rng.integers(2)]
    example = Example(case, dtype, layout, rng, host, copied=dtype != "float32")
    example = allowed(example) if tf32 else example
    why = solver.why_not(handle.device, example.problem(direction))
    assert why != "an axis is too long"
    if why is not None:
        pytest.skip(why)
    check(handle, example, direction, solver, rng)
