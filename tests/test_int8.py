"""int8 convolutions forward to each of their output types, by every solver that takes them; sums are exact."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest
from cases_reader import conv_cases
from guarded import Tensor, strides_of
from nvidia_programs import CLANGS
from solver_checks import plan

from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._core import Device
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.tools import costs


@pytest.mark.some(2, host=6)
@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize("out", ["int32", "float32", "int8"])
def test_every_output_type(handle, host, rng, out, layout):
    for case in conv_cases("smoke"):
        if case.transposed:
            continue
        conv, lens = case.conv(), case.all_lens
        desc = [TensorDescriptor(t, s, strides_of(s, layout)) for t, s in zip(("int8", "int8", out), lens, strict=True)]
        x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in lens[:2])
        want = np.empty(lens[2])
        plan(host, 0, [TensorDescriptor("float64", s) for s in lens], conv)(
            x.astype(np.float64), w.astype(np.float64), want)
        assert np.abs(want).max() < 2**24  # float32 holds each
        able = [s for s in registry.CONV if s.why_not(handle.device, ConvProblem(0, *desc, conv)) is None]
        assert able
        for solver in able:
            tensors = [Tensor(handle, d, v) for d, v in zip(desc, (x, w, None), strict=True)]
            plan(handle, 0, desc, conv, solver.id)(*[t.argument() for t in tensors])
            handle.finish()
            got = want.astype(np.int64).astype(out).astype(np.float64)
            np.testing.assert_array_equal(tensors[2].values(), got, f"{solver.name}: {case.text}")


@pytest.mark.parametrize("channels", [1, 3, 4, 17, 32])
@pytest.mark.parametrize(("lens", "taps", "pad", "stride", "dilation"), [
    ((9,), (3,), (0,), (1,), (1,)), ((23,), (4,), (0,), (3,), (1,)), ((4, 11), (1, 5), (0, 0), (2, 1), (1, 1)),
    ((4, 11), (1, 3), (0, 1), (1, 2), (1, 1)), ((13,), (3,), (0,), (1,), (2,)),
    ((2, 3, 8), (1, 1, 2), (0, 0, 0), (1, 1, 2), (1, 1, 1))])
def test_rows_of_taps(handle, rng, channels, lens, taps, pad, stride, dilation):
    """Channels last: a row of taps may be one run of memory, but channels are paired in each pixel."""
    conv, k = ConvolutionDescriptor(pad, stride, dilation), 9
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in ((2, channels, *lens), (k, channels, *taps)))
    y_lens = tuple(conv.output_lens(TensorDescriptor("int8", x.shape), TensorDescriptor("int8", w.shape)))
    want = np.zeros(y_lens, np.int64)
    for tap in np.ndindex(*taps):
        begin = [t * d - p for t, d, p in zip(tap, dilation, pad, strict=True)]
        padded = np.pad(x.astype(np.int64), [(0, 0), (0, 0), *[(p, p + 64) for p in pad]])
        seen = padded[(slice(None), slice(None), *[slice(b + p, b + p + (n - 1) * s + 1, s) for b, p, n, s in zip(
            begin, pad, y_lens[2:], stride, strict=True)])]
        want += np.einsum("kc,nc...->nk...", w[(slice(None), slice(None), *tap)].astype(np.int64), seen)
    desc = [TensorDescriptor(t, s, strides_of(s, "channels last"))
            for t, s in zip(("int8", "int8", "int32"), (x.shape, w.shape, y_lens), strict=True)]
    for solver in registry.CONV:
        if solver.why_not(handle.device, ConvProblem(0, *desc, conv)) is None:
            tensors = [Tensor(handle, d, v) for d, v in zip(desc, (x, w, None), strict=True)]
            plan(handle, 0, desc, conv, solver.id)(*[t.argument() for t in tensors])
            handle.finish()
            np.testing.assert_array_equal(tensors[2].values(), want, solver.name)


@pytest.mark.parametrize("layout", ["packed", "channels last"])
@pytest.mark.parametrize(("name", "processor", "instruction"), [
    ("pocl-epyc-haswell-pthread_8", "haswell", "vpmaddwd"),
    ("pocl-epyc-skylake-avx512-pthread_8", "skylake-avx512", "vpmaddwd"),
    ("pocl-epyc-skylake-avx512-pthread_8", "cascadelake", "vpdpwssd")])
def test_two_products_an_instruction(name, processor, instruction, layout):
    """The loops of CPUs' products, built by clang: AVX2, AVX-512, and AVX-512 with VNNI."""
    clang = next(filter(None, map(shutil.which, CLANGS)), None)
    if clang is None:
        pytest.skip("needs clang")
    device, lens = Device(costs._pretended(name)), ((2, 64, 14, 14), (96, 64, 3, 3), (2, 96, 14, 14))
    desc = [TensorDescriptor(t, s, strides_of(s, layout))
            for t, s in zip(("int8", "int8", "int32"), lens, strict=True)]
    problem = ConvProblem(0, *desc, ConvolutionDescriptor((1, 1)))
    solver = registry.BY_NAME["CpuImplicitGemmFwd" if layout == "packed" else "CpuImplicitGemmNhwcFwd"]
    spec = solver.offer(device, problem).solution(solver.default_config(device, problem)).steps[-1].spec
    built = subprocess.run(
        [clang, *spec.options.replace("-D ", "-D").split(), "-x", "cl", "-cl-std=CL1.2", "-Xclang",
         "-finclude-default-header", "-target", "x86_64-linux-gnu", f"-march={processor}", "-Dcl_khr_fp64", "-O3",
         "-w", "-S", "-o", "-", "-"],
        input=programs.source(spec.file), capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    loops = [text for text in re.findall(r"^multiply_\d:[^\n]*\n(.*?)^\s*\.Lfunc_end", built.stdout, re.M | re.S)]
    assert loops
    for loop in loops:
        assert loop.count(instruction) >= 8
        assert "vpmulld" not in loop
