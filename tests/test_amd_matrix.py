"""AMD's matrix cores: what the kernel computes where its instructions are emulated, and that clang makes them of it.

The emulation (`data/amd_matrix.h`) moves each lane's operands as the instructions do, so a wrong place shows; how they
round is not known to it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import gpu_programs
import numpy as np
import pytest
from cases_reader import conv_case, conv_cases, grouped_case
from solver_checks import Example, check, configurations_of, problem_of

from miopyx.choose import switches
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.values import config

SOURCE = programs.source
EMULATION = Path(__file__).parent / "data" / "amd_matrix.h"
FILE = "conv/amd/matrix.cl"
SLICES = "    __local ELEMENT a_slice["
EMULATED = "    __local float emulated[ITEMS / LANES * 1024];\n"  # before these
TARGETS = ("gfx90a", "gfx942", "gfx1100")
SOLVERS = tuple(registry.BY_NAME[f"AmdMatrix{direction}"] for direction in ("Fwd", "Bwd", "Wrw"))
FLAGS = ("-x", "cl", "-target", "amdgcn-amd-amdhsa", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header",
         "-nogpulib", "-O3", "-S", "-o", "-", "-")


@cache
def with_emulation(file: str) -> str:
    text = SOURCE(file)
    if file != FILE:
        return text
    head, declared, rest = text.partition(SLICES)
    assert declared
    return f"{EMULATION.read_text()}{head}{EMULATED}{declared}{rest}"


@pytest.fixture(params=TARGETS)
def amd(request, opencl_name, pretend, monkeypatch):
    """One of AMD's GPUs on an OpenCL CPU, for which its instructions are emulated."""
    monkeypatch.setattr(programs, "source", with_emulation)
    return pretend(opencl_name, name=f"amd-{request.param}_64", kind="gpu", runtime="amd", isa=request.param,
                   compute_units=64, local_mem=64 << 10, max_work_group_size=1024)


def types_of(handle) -> tuple[str, ...]:
    return ("float16", "bfloat16") if handle.device.info.isa == "gfx1100" else ("float32", "float16", "bfloat16")


@pytest.mark.parametrize("layout", ["packed", "channels last", "padded"])
@pytest.mark.parametrize("direction", range(3))
def test_cases(amd, host, rng, amount, direction, layout):
    cases = conv_cases()
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:amount(2, len(cases))]):
        for dtype in types_of(amd):
            example = Example(case, dtype, layout, rng, host)
            check(amd, example, direction, SOLVERS[example.problem(direction).direction], rng)


@pytest.mark.parametrize("direction", range(3))
def test_integers_are_exact(amd, host, rng, direction):
    """Small integers, whose sums float32 has without error: each product counts, and once."""
    case = grouped_case(2, 2, 24, 40, (9, 7))
    for dtype in types_of(amd):
        for layout in ("packed", "channels last"):
            example = Example(case, dtype, layout, rng, host)
            example.data = [rng.integers(-3, 4, d.shape).astype(d.dtype) for d in example.data]
            got = example.run(amd, direction, SOLVERS[direction])
            want = example.truth(direction).astype(example.data[0].dtype).astype(np.float64)
            np.testing.assert_array_equal(got, want)


def test_configurations(amd, host, rng, amount):
    """Tiles of every kind, drawn from the table, with runs of 16 bytes and without."""
    for layout, channels in (("channels last", 32), ("channels last", 20), ("packed", 32)):
        example = Example(conv_case(2, channels, 48, (13, 11), (3, 3), (1, 1)), types_of(amd)[-1], layout, rng, host)
        for solver in SOLVERS:
            every = configurations_of(solver, amd.device, example.problem(solver.direction))
            assert len(every) > 5
            for i in rng.permutation(len(every))[:amount(1, 10)]:
                check(amd, example, solver.direction, solver, rng, every[int(i)])


def test_long_sums(amd, host, rng):
    """More terms than one accumulator takes: totals, and splits of sums over pixels."""
    dtype = types_of(amd)[0]
    example = Example(conv_case(1, 520, 9, (5, 4), (3, 3), (1, 1)), dtype, "channels last", rng, host)
    step = SOLVERS[0].solution(amd.device, example.problem(0)).steps[0]
    assert "LONG_SUMS=1" in step.spec.options
    check(amd, example, 0, SOLVERS[0], rng)
    example = Example(conv_case(2, 5, 9, (40, 30), (3, 3), (1, 1)), dtype, "packed", rng, host)
    assert len(SOLVERS[2].solution(amd.device, example.problem(2)).steps) == 2
    check(amd, example, 2, SOLVERS[2], rng)


def test_where_they_apply(amd, pretend, opencl_name):
    problem = problem_of(grouped_case(2, 1, 32, 32, (8, 8)))
    assert (SOLVERS[0].why_not(amd.device, problem) is None) == (amd.device.info.isa != "gfx1100")
    other = pretend(opencl_name, kind="gpu", runtime="amd", isa="gfx1030")
    assert SOLVERS[0].why_not(other.device, problem) == "needs matrix cores of AMD's that are known"
    small = pretend(opencl_name, kind="gpu", runtime="amd", isa="gfx90a", max_work_group_size=32)
    assert SOLVERS[0].why_not(small.device, problem) == "too small work-groups or local memory"
    for dtype in ("float64", "int8"):
        assert SOLVERS[0].why_not(amd.device, problem_of(grouped_case(2, 1, 32, 32, (8, 8)), dtype)) is not None


def test_the_switch(setting):
    setting(MIOPYX_AMD_MATRIX_CORES="")
    assert not config.get("MIOPYX_AMD_MATRIX_CORES")
    assert [switches.why_off(solver) for solver in SOLVERS] == ["switched off by MIOPYX_AMD_MATRIX_CORES"] * 3
    setting(MIOPYX_AMD_MATRIX_CORES=1)
    assert [switches.why_off(solver) for solver in SOLVERS] == [None] * 3


@cache
def clang() -> str | None:
    """Return a clang that knows all targets, or None."""
    for name in (*(f"clang-{version}" for version in range(25, 16, -1)), "clang"):
        path = shutil.which(name)
        if path is not None and all(
                subprocess.run([path, f"-mcpu={target}", *FLAGS], input="__kernel void f(void) {}", text=True,
                               capture_output=True, check=False).returncode == 0 for target in TARGETS):
            return path
    return None


@pytest.mark.parametrize("target", TARGETS)
def test_instructions(target, pretend, opencl_name, rng):
    """clang makes as many matrix instructions of a tile's slice as there should be."""
    if clang() is None:
        pytest.skip("no clang that builds for AMD's GPUs")
    device = pretend(opencl_name, name=f"amd-{target}_64", kind="gpu", runtime="amd", isa=target, compute_units=64,
                     local_mem=64 << 10, max_work_group_size=1024).device
    seen = set()
    for case in (grouped_case(64, 1, 128, 256, (28, 28)), grouped_case(4, 1, 600, 40, (9, 9)),
                 grouped_case(1, 3, 5, 7, (14, 14))):
        for dtype in ("float32", "float16", "bfloat16"):
            for layout in ("packed", "channels last"):
                for solver in SOLVERS:
                    problem = problem_of(case, dtype, layout, solver.direction)
                    if solver.why_not(device, problem) is None:
                        seen.add(solver.solution(device, problem).steps[0].spec.options)
    options = sorted(seen)
    assert len(options) > 10
    for text in (options[int(i)] for i in rng.permutation(len(options))[:6]):
        definitions = text.replace("-D ", "").split()
        done = subprocess.run([clang(), f"-mcpu={target}", *(f"-D{word}" for word in definitions), *FLAGS],
                              input=programs.source(FILE), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (text, done.stderr)
        value = dict(word.partition("=")[::2] for word in definitions)
        side, depth, tiles = (int(value[n]) for n in ("SIDE", "DEPTH", "TILES_M"))
        tiles *= int(value["TILES_N"])
        terms = 16 if value["MFMA"] == "0" else (64 if value["OPERAND"] == "float" else 256) // side
        found = re.findall(r"^\s+(v_mfma_f32\w+|v_wmma_f32\w+)", done.stdout, re.M)
        assert len(found) == tiles * depth // terms, (text, len(found))
        kind = {"bfloat16": r"\d_?bf16", "float": r"\d_?f32", "half": r"\d_?f16"}[value["OPERAND"]]
        assert all(re.search(kind, name.partition("_f32_")[2]) for name in found), (text, found[0])


@cache
def listed() -> list:
    return list(gpu_programs.convolutions())


def default_programs(target: str) -> gpu_programs.Wanted:
    """Return the programs of matrix cores that the tests' and the lists' convolutions take by default.

    gpu_programs.collect asks every solver; here it asks those for matrix cores alone, which takes less long.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_programs, "registry", SimpleNamespace(CONV=SOLVERS))
        wanted = gpu_programs.collect(gpu_programs.TARGETS[target], listed())
    return {key: groups for key, groups in wanted.items() if key[0] == FILE}


def sums_of(options: str) -> int:
    """Return how many sums a wave's tile has."""
    value = dict(re.findall(r"(\w+)=(\w+)", options))
    return int(value["SIDE"]) ** 2 * int(value["TILES_M"]) * int(value["TILES_N"])


@pytest.mark.parametrize("target", TARGETS)
def test_default_tiles_do_not_spill(target, rng, amount):
    """By clang and AMD's libraries, two of the largest tiles and two of all; with --long each, which takes long.

    AGPRs are among the registers, of which gfx90a and gfx942 have 512 and gfx1100 has 256.
    """
    chosen = gpu_programs.TARGETS[target]
    if gpu_programs.compiler(chosen) is None:
        pytest.skip("needs clang 17 or newer and ROCm's bitcode libraries")
    wanted = default_programs(target)
    seed, most = int(rng.integers(1 << 31)), max(sums_of(options) for _, options in wanted)
    order = {*gpu_programs.some(wanted, seed, amount(2, 1 << 30)), *gpu_programs.some(
        {key: groups for key, groups in wanted.items() if sums_of(key[1]) == most}, seed, 2)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = dict(zip(order, pool.map(lambda key: gpu_programs.build(chosen, *key), order), strict=True))
    wrong = [line for key in order for line in gpu_programs.complaints(chosen, *key, wanted[key], built[key])]
    assert not wrong, "\n".join(wrong)
    registers = max(kernel.vgprs for one in built.values() for kernel in one.kernels.values())
    print(target, len(order), "of", len(wanted), "programs,", registers, "registers")
    assert 100 <= registers <= 256  # the largest tile's sums alone are 32 or 64
