"""Depthwise weights by tensor cores: every element of each shape.

The kernel runs on any device with its PTX written out: copies as they are asked for, and a warp's product of two
matrices from the words that its lanes have.
"""

from __future__ import annotations

import re

import pytest
from cases_reader import grouped_case
from solver_checks import Example, check, check_inf_and_nan, check_twice, problem_of
from test_nvidia_pairs_plainly import without_ptx

from miopyx.runtime import programs
from miopyx.solvers import registry

# PoCL says which loops it does not unroll.
pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

SOLVER = "NvDepthwiseWrw"
FILE = "conv/nvidia/depthwise_weights.cl"


def case(n: int, channels: int, lens: tuple[int, int], taps: tuple[int, int], pad: tuple[int, int],
         stride: tuple[int, int] = (1, 1)):
    return grouped_case(n, channels, 1, 1, lens, taps, pad, stride)


CASES = {
    "7x7": case(3, 32, (11, 13), (7, 7), (3, 3)),
    "5x5": case(2, 16, (9, 20), (5, 5), (2, 2)),
    "5x5 with stride 2": case(3, 24, (12, 15), (5, 5), (2, 2), (2, 2)),
    "stride 2 of rows": case(2, 8, (13, 9), (7, 5), (3, 2), (2, 1)),
    "stride 2 of columns": case(2, 8, (9, 13), (5, 7), (2, 3), (1, 2)),
    "no pad": case(2, 8, (9, 9), (4, 4), (0, 0)),
    "large pads": case(1, 8, (6, 7), (5, 5), (4, 4)),
    "wide images": case(1, 8, (5, 70), (5, 5), (2, 2)),
    "wide images in parts": case(1, 8, (2, 100), (3, 7), (1, 3)),
    "13x13": case(1, 16, (6, 7), (13, 13), (6, 6)),
    "31x31": case(1, 8, (6, 5), (31, 31), (15, 15)),
    "a column": case(1, 8, (12, 2), (17, 1), (8, 0)),
    "more channels than a group has": case(1, 8 * 13, (6, 6), (5, 5), (2, 2)),
    "few rows a split": case(5, 8, (3, 6), (7, 7), (3, 3)),
}
INSTEAD = {
    "mx_lower": "return (first & 0xffffu) | second << 16;",
    "mx_upper": "return first >> 16 | (second & 0xffff0000u);",
}
# Addresses of local memory are bytes of `ring`.
MACROS = """
#undef MX_COPY16
#define MX_COPY16(to, from, valid) \\
    *(__local uint4 *)((__local uchar *)ring + (to)) = (valid) ? *(__global const uint4 *)(from) : (uint4)(0)
#undef mx_copy_halves
#define mx_copy_halves(to, from, valid) \\
    for (int e = 0; e < 8; e++) \\
        ((__local ushort *)((__local uchar *)ring + (to)))[e] = (valid) ? (from)[e] : (ushort)0
#if MX_TYPE(X_TYPE) == MX_TYPE_half
#define VALUE(word, which) vload_half(which, (__local const half *)&(word))
#else
#define VALUE(word, which) as_float(((word) >> 16 * (which)) << 16)
#endif
"""
# Lanes' words, and the product by the manual's places: see MX_MMA in conv/nvidia/ptx.h.
MULTIPLY = """
#undef MULTIPLY_OCTET
#define MULTIPLY_OCTET(d, a, b) \\
    do { \\
        for (int e = 0; e < 48; e++) \\
            words[item][e] = e < 32 ? (a)[e / 4][e % 4] : (b)[(e - 32) / 2][e % 2]; \\
        barrier(CLK_LOCAL_MEM_FENCE); \\
        for (int e = 0; e < 32; e++) { \\
            const int line_d = lane / 4 + e % 4 / 2 * 8, column_d = lane % 4 * 2 + e % 2, of = item - lane; \\
            for (int z = 0; z < 16; z++) \\
                (d)[e / 4][e % 4] += \\
                    VALUE(words[of + line_d % 8 * 4 + z % 8 / 2][e / 4 * 4 + line_d / 8 + z / 8 * 2], z % 2) * \\
                    VALUE(words[of + column_d * 4 + z % 8 / 2][32 + e / 4 * 2 + z / 8], z % 2); \\
        } \\
        barrier(CLK_LOCAL_MEM_FENCE); \\
    } while (0)

"""
SOURCE = programs.source


def plainly() -> str:
    text = without_ptx(SOURCE(FILE))
    for name, body in INSTEAD.items():
        text = re.sub(rf"(static inline uint {name}\([^)]*\)\n{{\n).*?\n}}\n", rf"\1    {body}\n}}\n", text, flags=re.S)
    kernel = text.index("__kernel __attribute__")
    text = text[:kernel] + MACROS + MULTIPLY + text[kernel:]
    return text.replace("__local uint4 ring[", "__local uint words[THREADS][48];\n    __local uint4 ring[").replace(
        "mx_shared(ring)", "0")


@pytest.fixture(params=[3, 40])
def plain_handle(request, monkeypatch, cpu, pretend):
    """A handle whose solvers take its processor for a GPU with tensor cores and so many compute units."""
    monkeypatch.setattr(programs, "source", lambda file: plainly() if file == FILE else SOURCE(file))
    return pretend(cpu.device.name, kind="gpu", runtime="nvidia", isa="sm80", compute_units=request.param,
                   extensions=cpu.device.info.extensions | {"cl_nv_device_attribute_query"})


@pytest.mark.some(3)
@pytest.mark.parametrize("name", CASES)
def test_every_element_by_a_plain_kernel(plain_handle, host, rng, name):
    """Half of them in buffers that begin at an odd element."""
    dtype = ("float16", "bfloat16")[rng.integers(2)]
    example = Example(CASES[name], dtype, "channels last", rng, host, shift=int(rng.integers(2)))
    check(plain_handle, example, 2, registry.BY_NAME[SOLVER], rng)


@pytest.mark.parametrize("name", ["7x7", "5x5 with stride 2", "few rows a split"])
def test_inf_and_nan_by_a_plain_kernel(plain_handle, host, rng, name):
    """Beside padding, and beside the zeros between splits and images."""
    example = Example(CASES[name], "float16", "channels last", rng, host)
    check_inf_and_nan(plain_handle, example, 2, registry.BY_NAME[SOLVER], rng, 1e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_every_element(handle, host, rng, name, dtype):
    solver = registry.BY_NAME[SOLVER]
    if solver.why_not(handle.device, problem_of(CASES["7x7"], dtype, "channels last", 2)) is not None:
        pytest.skip("needs NVIDIA's tensor cores")
    for shift in range(2):
        check_twice(handle, Example(CASES[name], dtype, "channels last", rng, host, shift=shift), 2, solver, rng)
    check_inf_and_nan(handle, Example(CASES[name], dtype, "channels last", rng, host), 2, solver, rng, 1e-2)
