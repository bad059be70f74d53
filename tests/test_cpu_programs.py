"""Programs of solvers for CPUs, built for processors that are not here: see cpu_programs.py."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import cpu_programs
import pytest
from cpu_programs import TARGETS, Built, Loop, build, build_text, can_build, clang, complaints
from gpu_programs import collect, convolutions, others, some


def need(name):
    if not can_build(TARGETS[name]):
        pytest.skip(f"needs clang 15 or 16, and {TARGETS[name].bitcode}")


@pytest.mark.parametrize("name", TARGETS)
def test_programs_build_for_cpus(rng, amount, name):
    """One of each of convolutions' files, drawn at random; with --long three of all files."""
    need(name)
    target = TARGETS[name]
    problems = [*convolutions(lists=amount(0, 1)), *(others(rng, 10) if amount(0, 1) else ())]
    order = some(collect(target, problems), int(rng.integers(1 << 31)), amount(1, 3))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda key: build(target, *key), order))
    wrong = [line for key, one in zip(order, built, strict=True) for line in complaints(target, *key, one)]
    assert not wrong, "\n".join(wrong)
    assert {"conv/cpu/implicit.cl", "conv/cpu/implicit_nhwc.cl", "conv/cpu/winograd.cl"} <= {file for file, _ in order}


PRODUCTS = """
float g(float);
__kernel void f(__global float *p, __global const float *q, int n) {
    float4 s[COUNT];
    for (int j = 0; j < COUNT; j++) s[j] = 0;
    for (int i = 0; i < n; i++) {
        const float4 v = *(__global const float4 *)(q + 4 * i);
#pragma unroll
        for (int j = 0; j < COUNT; j++) s[j] += v * CALLED(p[i * COUNT + j]);
    }
    for (int j = 0; j < COUNT; j++) ((__global float4 *)p)[j] = s[j];
}
"""


@pytest.mark.parametrize("name", TARGETS)
def test_a_defect_is_seen(name):
    need(name)
    target = TARGETS[name]

    def said(source):
        return "\n".join(complaints(target, "conv/a.cl", "", build_text(target, source, "", clang())))

    assert not said("#define COUNT 12\n#define CALLED\n" + PRODUCTS)
    assert "fails" in said("__kernel void f(__global int *to) { to[0] = UNKNOWN; }")
    assert "warning:" in said("#if UNKNOWN\n#endif\n__kernel void f(__global int *to) {}")
    assert "nobody defines ['g']" in said("int g(int); __kernel void f(__global int *to) { to[0] = g(to[1]); }")
    assert "spilled vectors and 0 calls in a loop of" in said("#define COUNT 60\n#define CALLED\n" + PRODUCTS)
    assert "12 calls in a loop of 12" in said("#define COUNT 12\n#define CALLED g\n" + PRODUCTS)


def test_what_is_no_loop_of_products():
    long = Loop("c", 1000, 40, 30, 9)
    few, edge, inner = Loop("a", 9, 7, 5, 1), Loop("sum_outside", 99, 90, 50, 1), Loop("b", 40, 24, 6, 0)
    assert Built([few, edge], "").hottest is None
    assert Built([few, edge, long, inner], "").hottest is inner
    target = next(iter(TARGETS.values()))
    assert not complaints(target, "conv/a.cl", "", Built([inner], ""))
    worse = Built([inner._replace(spilled=7)], "")
    assert len(complaints(target, "conv/a.cl", "", worse)) == 1
    assert not complaints(target, "layers/softmax.cl", "", worse)  # bound by memory
    known = "conv/cpu/depthwise_rows.cl", "-D STEP=2"
    assert cpu_programs.known(target, *known, worse)
    assert not complaints(target, *known, worse)
    assert len(complaints(target, *known, Built([inner._replace(spilled=25)], ""))) == 1
