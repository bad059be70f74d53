"""NVIDIA's kernels, which run on no device here, at least build to PTX: by clang, for some problems of each family.

`tests/nvidia_programs.py` builds all that the lists of problems need, and compares two versions.
"""

from __future__ import annotations

import re
from itertools import product

import pytest
from cases_reader import grouped_case
from nvidia_programs import build, clang, normalised, pretended, solvers
from solver_checks import problem_of

from miopyx.problem._key import find_key, parse_find_key
from miopyx.runtime import programs
from miopyx.values import kernels

CASES = {  # images, groups, channels and filters of a group, and what else is the family's
    "3x3": grouped_case(32, 1, 64, 96, (28, 28)),
    "3x3 with stride 2": grouped_case(32, 1, 128, 128, (28, 28), stride=(2, 2)),
    "7x7 of an image": grouped_case(64, 1, 3, 64, (64, 64), (7, 7), (3, 3), (2, 2)),
    "1x1": grouped_case(64, 1, 256, 512, (14, 14), (1, 1), (0, 0)),
    "1x1 with stride 2": grouped_case(64, 1, 256, 512, (14, 14), (1, 1), (0, 0), (2, 2)),
    "groups": grouped_case(32, 8, 16, 16, (14, 14)),
    "patches": grouped_case(32, 1, 3, 96, (32, 32), (8, 8), (0, 0), (8, 8)),
    "depthwise": grouped_case(32, 64, 1, 1, (28, 28), (7, 7), (3, 3)),
    "depthwise with stride 2": grouped_case(32, 64, 1, 1, (28, 28), (5, 5), (2, 2), (2, 2)),
    "depthwise of many taps": grouped_case(32, 64, 1, 1, (28, 28), (31, 31), (15, 15)),
    "one image": grouped_case(1, 1, 64, 64, (14, 14)),
    "3x3 in runs of images": grouped_case(256, 1, 64, 64, (112, 112)),
    "3x3x3": grouped_case(2, 1, 64, 96, (8, 14, 14), (3, 3, 3), (1, 1, 1)),
    "3x3x3 with stride 2": grouped_case(2, 1, 128, 128, (8, 14, 14), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
    "3x3x3 with stride 2, 64 channels": grouped_case(2, 1, 64, 128, (8, 14, 14), (3, 3, 3), (1, 1, 1), (2, 2, 2)),
}
# Headers hold more than each kernel uses, kernels more than some options do; NVIDIA's compiler decides on loops.
HARMLESS = ("-Wunused-function", "-Wunused-variable", "-Wconstant-logical-operand", "-Wpass-failed",
            "-Wsometimes-uninitialized")  # a __local variable that one work-item sets for all


def wanted() -> list[tuple[str, str]]:
    """Return the programs that the cases take, one of each file and set of functions."""
    device, found = pretended(), {}
    for case in CASES.values():
        for dtype in ("float16", "float32", "int8"):
            for layout in ("packed", "channels last"):
                for direction, tf32 in product(range(3 if dtype != "int8" else 1), range(1 + (dtype == "float32"))):
                    problem = problem_of(case, dtype, layout, direction)
                    problem = parse_find_key(find_key(problem) + b"_tf32") if tf32 else problem
                    for solver in solvers():
                        if solver.why_not(device, problem) is None:
                            for step in solver.solution(device, problem).steps:
                                shape = re.sub(r"=(?:half|bfloat16)\b", "=half", step.spec.options)
                                shape = re.sub(r"=[2-9]\b|=\d\d+\b", "=n", shape)
                                found.setdefault((step.spec.file, shape), step.spec)
    return sorted({(spec.file, spec.options) for spec in found.values()})


@pytest.fixture(scope="module")
def needs_clang():
    if clang() is None:
        pytest.skip("no clang that builds for nvptx64")


def test_programs_build_without_a_warning(needs_clang, rng, amount):
    """Two of each file's, drawn at random."""
    built = wanted()
    assert {file for file, _ in built} == {name for name in kernels.names("conv/nvidia") if name.endswith(".cl")}
    few = {}
    for file, options in built:
        few.setdefault(file, []).append(options)
    for file, every in few.items():
        for i in rng.permutation(len(every))[:amount(2, len(every))]:
            options = every[i]
            ptx, said = build(file, options)
            assert ptx, (file, options, said)
            warnings = [line for line in said.splitlines()
                        if "warning:" in line and not any(kind in line for kind in HARMLESS)]
            assert not warnings, (file, options, warnings)
            assert ".entry" in ptx
            if file == "conv/nvidia/tf32_weights.cl":  # maps copy for mma.sync
                assert ("cp.async.bulk.tensor" in ptx) == ("SM_90A=1" in options)
            elif "SM_90A=1" in options:
                assert "//@wgmma" in normalised(ptx)
            assert not re.search(r"\bcall\b.*\bprintf\b", ptx)


@pytest.mark.parametrize("biased", [0, 1])
def test_attention_rounds_scores_however_much_is_contracted(needs_clang, biased):
    """The forward pass stores the largest score; its difference to that is 0 only if both are rounded alike."""
    options = ("-D ACC=float -D AMAX=0 -D AMAX_AT=20 -D COLUMNS=1 -D DEPTH=16 -D DROPS=0 -D NUMBERS=0 -D REAL=float "
               f"-D SCALAR=float -D T=float -D TILE=64 -D WIDTH=16 -D BIASED={biased}")
    differences = []
    for how in ("off", "fast"):
        ptx, said = build("layers/mha_gpu.cl", options, f"-ffp-contract={how}")
        assert ptx, said
        differences.append({entry.partition("(")[0].strip(): len(re.findall(r"\bsub(?:\.rn)?\.f32", entry))
                            for entry in ptx.split(".entry")[1:]})
    assert differences[0] == differences[1]
    assert min(differences[0][name] for name in ("mha_forward", "mha_dq", "mha_dkv")) >= 16


def test_a_defect_does_not_build(needs_clang, monkeypatch):
    monkeypatch.setattr(programs, "source", lambda _: "__kernel void f(__global int *to) { to[0] = UNKNOWN; }")
    ptx, said = build("", "")
    assert not ptx
    assert "UNKNOWN" in said
    monkeypatch.setattr(programs, "source", lambda _: "#if UNKNOWN\n#endif\n__kernel void f(__global int *to) {}")
    assert "-Wundef" in build("", "")[1]
