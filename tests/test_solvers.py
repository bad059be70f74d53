"""Every solver of the registry on every case that it accepts, checked as solver_checks.py says."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from cases_reader import conv_cases
from guarded import LAYOUTS
from solver_checks import Example, check, descriptors, needs_fp64, problem_of

import miopyx
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

TYPES = ("float64", "float32", "float16", "bfloat16", "int8")
# Strides are the naive and host solvers' business alone: the smoke cases show it.
CASES = [pytest.param(case, dtype, layout, id=f"{layout}-{dtype}-{case.text.replace(' ', ',')}")
         for case in conv_cases() for dtype in TYPES for layout in LAYOUTS
         if layout == "packed" or case.tier == "smoke"]


@pytest.mark.some(16, host=60)
@pytest.mark.parametrize(("case", "dtype", "layout"), CASES)
def test_every_solver_computes_the_case(handle, host, rng, case, dtype, layout):
    needs_fp64(handle, dtype)
    example = Example(case, dtype, layout, rng, host)
    for direction in range(3):
        if dtype == "int8" and direction != 0:
            continue  # int8 computes forward only
        problem = example.problem(direction)
        able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None]
        assert able, f"no solver for {problem}"
        for solver in able:
            check(handle, example, direction, solver, rng)


@pytest.mark.some(1)
@pytest.mark.parametrize("isa", ["avx2", "sse2"])
def test_narrower_vectors(opencl_handle, pretend, host, rng, amount, isa):
    """The tiles of CPUs with other registers: each is a program, so one type and layout of the smoke cases.

    Without --long in one direction each.
    """
    if not opencl_handle.device.is_cpu:
        pytest.skip("solvers for CPUs")
    handle = pretend(opencl_handle.device.name, isa=isa)
    assert handle.device.vector_bytes == {"avx2": 32, "sse2": 16}[isa]
    dtype, layout = "float64" if handle.device.fp64 and rng.integers(2) else "float32", LAYOUTS[rng.integers(2)]
    print(dtype, layout)
    cases = conv_cases("smoke")
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:amount(len(cases) // 2, len(cases))]):
        example = Example(case, dtype, layout, rng, host)
        for direction in rng.permutation(3)[:amount(1, 3)].tolist():
            able = [s for s in registry.CONV if not s.last_resort
                    and s.why_not(handle.device, example.problem(direction)) is None]
            assert able
            for solver in able:
                check(handle, example, direction, solver, rng)


def test_launches_for_each_image_have_a_limit(opencl_handle):
    """Else a large batch is a list of steps that fills the memory."""
    case = next(iter(conv_cases("smoke")))
    for n, why in ((4096, None), (4097, "many images")):
        problem = problem_of(dataclasses.replace(case, n=n))
        assert registry.BY_NAME["GemmFwdRest"].why_not(opencl_handle.device, problem) == why


def test_every_solver_has_a_case(handle):
    """A solver that no case reaches is not tested; those of other hardware say that they need it."""
    reasons = {s.id: set() for s in registry.CONV if s.on_host == handle.device.is_host}
    for case in conv_cases():
        for dtype, layout in itertools.product(("float32", "float16", "int8", "float8_e4m3fn"), LAYOUTS[:2]):
            for direction in range(3 if dtype != "int8" else 1):
                for rounded in range(2 if dtype == "float32" else 1):
                    conv = case.conv()
                    if rounded:
                        miopyx.miopenSetConvolutionAttribute(conv, "MATH_TYPE", miopyx.miopenMathDefault)
                    problem = ConvProblem(direction, *descriptors(case, dtype, layout), conv)
                    for solver in registry.CONV:
                        if solver.id in reasons:
                            reasons[solver.id].add(solver.why_not(handle.device, problem))
    for number, why in reasons.items():
        missing_hardware = any(reason and reason.startswith("needs ") for reason in why)
        assert None in why or missing_hardware, f"no case reaches {registry.BY_ID[number]}: {why}"


def test_ids_and_names_are_unique():
    # Some are there for several operations.
    solvers = {*registry.CONV, *[s for others in registry.OTHERS.values() for s in others]}
    assert len({s.id for s in solvers}) == len({s.name for s in solvers}) == len(solvers)
    assert all(s.id > 0 for s in solvers)
