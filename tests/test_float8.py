"""Convolutions of 8 bits, AMD's and OCP's: what a byte stands for, both roundings, and every solver that takes them."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from cases_reader import conv_cases
from guarded import DTYPE as DTYPES
from guarded import Guarded, Tensor, strides_of
from solver_checks import arguments, immediate, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.host import _conv
from miopyx.problem._key import find_key, parse_find_key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

AMDS = ("float8_e4m3fnuz", "float8_e5m2fnuz")
OCPS = ("float8_e4m3fn", "float8_e5m2")
NAMES = (*AMDS, *OCPS)
DTYPE = {name: np.dtype(getattr(ml_dtypes, name)) for name in NAMES}
NEAREST, STOCHASTIC = 0, 1
ROUNDING = 14  # where an mx_conv_problem says how results are rounded, in words of 64 bits


def every_code(name):
    return np.arange(256, dtype=np.uint8).view(DTYPE[name])


def in_order(name):
    """The finite values, ascending."""
    values = every_code(name).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def nearest(values, name):
    """Rounded to nearest even, saturated; infinity is NaN where the type has none."""
    top = float(ml_dtypes.finfo(DTYPE[name]).max)
    values = np.asarray(values, np.float64)
    return np.where(np.isfinite(values), np.clip(values, -top, top), values).astype(DTYPE[name])


def plain(codes, name):
    """The bytes with one NaN and one zero: of OCP's types a sum may have either zero and either NaN."""
    codes = np.array(codes, np.uint8)
    if name in OCPS:
        codes[np.isnan(codes.view(DTYPE[name]).astype(np.float32))] = 0x7F
        codes[codes == 0x80] = 0
    return codes


def conv_of(mode, *args):
    conv = ConvolutionDescriptor(*args)
    miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, mode)
    return conv


def solvers_of(handle, problem):
    able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None]
    assert able, f"no solver for {problem}"
    return able


def pointwise(handle, name, x, w, mode=NEAREST, alpha=1.0, beta=0.0, old=None):
    """y[k][i] = w[k] x[i], the bytes, by each solver."""
    conv, desc = conv_of(mode), [TensorDescriptor(name, (1, 1, 1, x.size)), TensorDescriptor(name, (w.size, 1, 1, 1)),
                                 TensorDescriptor(name, (1, w.size, 1, x.size))]
    for solver in solvers_of(handle, ConvProblem(0, *desc, conv)):
        tensors = [Tensor(handle, d, v) for d, v in zip(desc, (
            x.reshape(desc[0].lens), w.reshape(desc[1].lens), old), strict=True)]
        plan(handle, 0, desc, conv, solver.id)(*[t.argument() for t in tensors], alpha=alpha, beta=beta)
        handle.finish()
        yield solver, tensors[2].fetch().reshape(w.size, x.size).copy()


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_and_every_product(handle, name):
    x = every_code(name)
    for solver, got in pointwise(handle, name, x, x):
        with np.errstate(invalid="ignore"):
            want = nearest(np.outer(x.astype(np.float64), x.astype(np.float64)), name)
        np.testing.assert_array_equal(plain(got, name), plain(want.view(np.uint8), name), solver.name)
        one = int(np.flatnonzero(x == 1)[0])
        np.testing.assert_array_equal(plain(got[one], name), plain(np.arange(256), name), solver.name)


@pytest.mark.parametrize("name", NAMES)
def test_alpha_and_beta(handle, rng, name):
    x, w = nearest(rng.standard_normal(300), name), nearest(rng.standard_normal(21) * 4, name)
    old = nearest(rng.standard_normal((1, 21, 1, 300)), name)
    for alpha, beta in ((1 / 64, 0.0), (-512.0, 0.0), (2.0**-30, 0.0), (0.5, -2.0)):
        exact = alpha * np.outer(w.astype(np.float64), x.astype(np.float64))  # few bits: float32 holds all of it
        if beta:
            exact += beta * old.astype(np.float64).reshape(exact.shape)
        for solver, got in pointwise(handle, name, x, w, NEAREST, alpha, beta, old if beta else None):
            np.testing.assert_array_equal(plain(got, name), plain(nearest(exact, name).view(np.uint8), name),
                                          f"{solver.name} {alpha} {beta}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_finite(handle, name):
    top = float(ml_dtypes.finfo(DTYPE[name]).max)
    x, w = nearest([top, -top, 0.0, np.nan], name), nearest([1.0, top], name)
    largest = {"float8_e4m3fn": 0x7E, "float8_e5m2": 0x7B}.get(name, 0x7F)
    nan = 0x80 if name in AMDS else 0x7F
    infinite = {0x7C, 0xFC} if name == "float8_e5m2" else {nan}
    codes = [largest, largest | 0x80, 0, nan]
    for mode in (NEAREST, STOCHASTIC):
        for solver, got in pointwise(handle, name, x, w, mode):
            assert plain(got, name).tolist() == [codes, codes], solver.name
        for solver, got in pointwise(handle, name, x, w, mode, alpha=1e33):
            # Finite, but of 2 bits 1e33 max max is infinite where sums are scaled in float32.
            assert plain(got[0], name).tolist() == codes, solver.name
            assert set(plain(got[1, :2], name).tolist()) <= {largest, largest | 0x80} | infinite, solver.name
            assert plain(got[1, 2:], name).tolist() == codes[2:], solver.name


def test_infinities_and_small_negative_numbers_of_ocp(handle):
    """An infinity stays one where the type has it, else it becomes NaN; what rounds to zero keeps its sign."""
    x = np.array([np.inf, -np.inf, 1, -1], DTYPE["float8_e5m2"])
    for mode in (NEAREST, STOCHASTIC):
        for _, got in pointwise(handle, "float8_e5m2", x, nearest([1.0, -2.0], "float8_e5m2"), mode):
            assert got[:, :2].tolist() == [[0x7C, 0xFC], [0xFC, 0x7C]]
        for name in OCPS:
            for _, got in pointwise(handle, name, nearest([1.0, -1.0], name), nearest([1.0], name), mode, alpha=1e-30):
                assert got.tolist() == [[0, 0x80]]
            desc = [TensorDescriptor(kind, (1, 1, 1, 4)) for kind in ("float8_e5m2", name)]
            one = TensorDescriptor("float8_e5m2", (1, 1, 1, 1))
            problem = ConvProblem(0, desc[0], one, desc[1], conv_of(mode))
            for solver in solvers_of(handle, problem):
                tensors = [Tensor(handle, d, v) for d, v in (
                    (desc[0], x.reshape(1, 1, 1, 4)), (one, nearest([1], "float8_e5m2").reshape(1, 1, 1, 1)),
                    (desc[1], None))]
                plan(handle, 0, [desc[0], one, desc[1]], conv_of(mode), solver.id)(*[t.argument() for t in tensors])
                handle.finish()
                found = tensors[2].fetch().tolist()
                assert found[:2] == ([0x7C, 0xFC] if name == "float8_e5m2" else [0x7F, 0x7F]), solver.name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [1.03125, -1.09375, 0.0008, 1.7e-5, 100.0, -0.3])
def test_stochastic_rounding_is_unbiased(handle, host, name, value):
    """x is 1, alpha the value: each element falls on one of two neighbours, the upper one as often as it is near."""
    grid, count = in_order(name), 1 << 16
    exact = float(np.float32(value))
    if abs(exact) > grid[-1]:
        pytest.skip("saturates")
    at = int(np.searchsorted(grid, exact, "right"))
    low, high = grid[at - 1], grid[min(at, grid.size - 1)]
    share = (exact - low) / (high - low) if high > low else 0.0
    x, w = nearest(np.ones(count // 4), name), nearest(np.ones(4), name)
    results = [(s.name, got) for s, got in pointwise(handle, name, x, w, STOCHASTIC, alpha=exact)]
    results += [(s.name, got) for s, got in pointwise(host, name, x, w, STOCHASTIC, alpha=exact)]
    again = [got for _, got in pointwise(handle, name, x, w, STOCHASTIC, alpha=exact)]
    for (solver, got), other in zip(results, again, strict=False):
        np.testing.assert_array_equal(got, other, solver)
    for solver, got in results:
        # Sums of one product are exact everywhere, so every device draws the same.
        np.testing.assert_array_equal(got, results[0][1], solver)
    values = results[0][1].view(DTYPE[name]).astype(np.float64)
    assert set(np.unique(values)) <= {low, high}
    spread = max(5 * (share * (1 - share) / count) ** 0.5, 1e-4)
    assert abs((values == high).mean() - share) <= spread
    if 0.1 < share < 0.9:
        up = (values.ravel() == high).astype(float) - share
        limit = 5 * share * (1 - share) / count**0.5
        for distance in (1, 2, 4, 16, 64, 4096, count // 4):
            assert abs((up[distance:] * up[:-distance]).mean()) < 2 * limit, distance
        for block in (2, 256):  # no bit of the offset matters by itself
            for part in range(2):
                chosen = (np.arange(count) // (block // 2)) % 2 == part
                assert abs(up[chosen].mean()) < 2 * spread


@pytest.mark.parametrize("name", NAMES)
def test_seeds_and_threads(rng, name):
    """The host path: other seeds, other draws; the number of threads makes no difference."""
    x, w = nearest(rng.standard_normal((2, 16, 20, 20)), name), nearest(rng.standard_normal((32, 16, 3, 3)), name)
    conv = conv_of(STOCHASTIC, (1, 1))
    desc = [TensorDescriptor(name, x.shape), TensorDescriptor(name, w.shape), TensorDescriptor(name, (2, 32, 20, 20))]
    words = np.frombuffer(ConvProblem(0, *desc, conv).key, np.int64).copy()
    assert words[ROUNDING] == 1
    results = []
    for rounding in (0, 1, 2, 3, 1 + 0xFFFFFFFF):
        words[ROUNDING] = rounding
        outputs = [np.empty((2, 32, 20, 20), DTYPE[name]) for _ in range(2)]
        for threads, y in enumerate(outputs, 1):
            _conv.run_conv(words.tobytes(), x.view(np.uint8), w.view(np.uint8), y.view(np.uint8), threads=threads)
        np.testing.assert_array_equal(outputs[0].view(np.uint8), outputs[1].view(np.uint8))
        results.append(outputs[0].astype(np.float64))
    for i in range(1, len(results)):
        for j in range(i):
            assert 0.1 < (results[i] != results[j]).mean() < 0.9


def test_the_environment_has_the_last_word():
    code = ("import numpy as np, miopyx; from miopyx.problem._problem import ConvProblem\n"
            "x = miopyx.TensorDescriptor('float8_e4m3fnuz', (1, 1, 4, 4))\n"
            "w = miopyx.TensorDescriptor('float8_e4m3fnuz', (1, 1, 1, 1))\n"
            "for mode in (0, 1):\n"
            "    conv = miopyx.ConvolutionDescriptor()\n"
            "    miopyx.miopenSetConvolutionAttribute(conv, 2, mode)\n"
            f"    print(np.frombuffer(ConvProblem(0, x, w, x, conv).key, np.int64)[{ROUNDING}])\n")
    prefix = "MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_"
    for settings, want in (({}, "0 1"), ({"MODE": "0"}, "0 0"), ({"MODE": "1", "SEED": "41"}, "42 42"),
                           ({"SEED": "4294967295"}, "0 4294967296")):
        env = dict(os.environ, **{prefix + key: value for key, value in settings.items()})
        done = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.split() == want.split()
    for settings in ({"MODE": "2"}, {"SEED": "-1"}, {"SEED": "4294967296"}):
        env = dict(os.environ, **{prefix + key: value for key, value in settings.items()})
        done = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True)
        assert done.returncode != 0
        assert "InvalidValueError" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_keys_do_not_say_the_mode(name):
    x, w = TensorDescriptor(name, (2, 3, 5, 5)), TensorDescriptor(name, (4, 3, 1, 1))
    y = TensorDescriptor(name, (2, 4, 5, 5))
    problems = [ConvProblem(0, x, w, y, conv_of(mode)) for mode in (NEAREST, STOCHASTIC)]
    assert problems[0].key != problems[1].key
    token = {"float8_e4m3fnuz": "FP8", "float8_e5m2fnuz": "BF8", "float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}[name]
    assert {find_key(p) for p in problems} == {f"3-5-5-1x1-4-5-5-2-0x0-1x1-1x1-0-NCHW-{token}-F".encode()}
    assert parse_find_key(find_key(problems[0])).key == problems[1].key
    other = TensorDescriptor("float32", (2, 3, 5, 5))
    wide = [ConvProblem(0, other, TensorDescriptor("float32", (4, 3, 1, 1)), TensorDescriptor("float32", (2, 4, 5, 5)),
                        conv_of(mode)) for mode in (NEAREST, STOCHASTIC)]
    assert wide[0].key == wide[1].key  # the mode is nothing to other types


RESULTS = (*OCPS, "float16", "bfloat16", "float32")


def test_which_types_go_together():
    """AMD's with themselves; OCP's two in any mixture, with a result that may be wider.  Keys say which."""
    conv = ConvolutionDescriptor()
    for direction in range(3):
        output = (2, 0, 1)[direction]
        for types in product((*NAMES, "float16", "bfloat16", "float32", "float64", "int8"), repeat=3):
            desc = [TensorDescriptor(kind, lens) for kind, lens in zip(
                types, ((1, 1, 4, 4), (1, 1, 1, 1), (1, 1, 4, 4)), strict=True)]
            read = {kind for i, kind in enumerate(types) if i != output}
            if read <= set(OCPS) and types[output] in RESULTS:
                problem = ConvProblem(direction, *desc, conv)
                assert parse_find_key(find_key(problem)).key == problem.key
            elif any(kind in NAMES for kind in types) and len(set(types)) > 1:
                with pytest.raises(miopyx.BadParmError) as raised:
                    ConvProblem(direction, *desc, conv)
                if set(types) & set(OCPS) and not set(types) & set(AMDS):
                    assert "float8_e4m3fn" in str(raised.value)


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("read", [("float8_e4m3fn", "float8_e5m2"), ("float8_e5m2", "float8_e4m3fn")])
def test_mixed_types(handle, host, rng, read, result):
    """Whole numbers, whose sums are exact: every solver that takes the mixture, bit for bit."""
    for case in conv_cases("smoke"):
        conv = conv_of(NEAREST, case.pad, case.stride, case.dilation, int(case.transposed), case.groups, case.outpad)
        for direction in range(3):
            output = (2, 0, 1)[direction]
            types = [read[0], read[1], read[0]] if direction < 2 else [read[0], read[1], read[1]]
            types[output] = result
            desc = [TensorDescriptor(kind, s) for kind, s in zip(types, case.all_lens, strict=True)]
            data = [rng.integers(-2, 3, s).astype(np.float32).astype(DTYPES[d.dtype])
                    for d, s in zip(desc, case.all_lens, strict=True)]
            want = np.full(case.all_lens[output], np.nan)
            plan(host, direction, [TensorDescriptor("float64", s) for s in case.all_lens], conv)(
                *arguments(direction, [d.astype(np.float64) for d in data], want))
            want = nearest(want, result) if result in OCPS else want.astype(np.float32).astype(DTYPES[result])
            for solver in solvers_of(handle, ConvProblem(direction, *desc, conv)):
                tensors = [Tensor(handle, d, None if i == output else v) for i, (d, v) in enumerate(zip(
                    desc, data, strict=True))]
                plan(handle, direction, desc, conv, solver.id)(
                    *arguments(direction, [t.argument() for t in tensors], tensors[output].argument()))
                handle.finish()
                np.testing.assert_array_equal(tensors[output].values(), want.astype(np.float64),
                                              f"{solver.name}: {case.text}, direction {direction}")


@pytest.mark.parametrize("mode", [NEAREST, STOCHASTIC])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["packed", "channels last", "padded"])
def test_every_solver_on_the_smoke_cases(handle, host, rng, name, mode, layout):
    """Every element lies between the roundings of truth plus and minus the bound of a sum of the solver's."""
    grid = in_order(name)
    for case in conv_cases("smoke"):
        conv = conv_of(mode, case.pad, case.stride, case.dilation, int(case.transposed), case.groups, case.outpad)
        lens = case.all_lens
        desc = [TensorDescriptor(name, s, strides_of(s, layout)) for s in lens]
        data = [nearest(rng.standard_normal(s), name) for s in lens]
        for direction in range(3):
            output = (2, 0, 1)[direction]
            truth = []
            for values in (lambda a: a.astype(np.float64), lambda a: np.abs(a.astype(np.float64))):
                result = np.full(lens[output], np.nan)
                plan(host, direction, [TensorDescriptor("float64", s) for s in lens], conv)(
                    *arguments(direction, [values(a) for a in data], result))
                truth.append(result)
            problem = ConvProblem(direction, *desc, conv)
            for solver in solvers_of(handle, problem):
                tensors = [Tensor(handle, d, v) for d, v in zip(desc, data, strict=True)]
                tensors[output] = Tensor(handle, desc[output], None)
                size = solver.workspace_size(handle.device, problem)
                workspace = Guarded(handle, size, 0xFF)
                arrays = [t.argument() for t in tensors]
                immediate(handle, direction, desc, conv, arguments(direction, arrays, arrays[output]),
                          workspace.argument() if size else None, size, solver.id)
                handle.finish()
                got = tensors[output].values()
                workspace.fetch()
                # Of the solver's bound what is not the rounding to eight bits, which the edges are given below.
                of_sums = solver.error_bound(handle.device, problem) % (ml_dtypes.finfo(DTYPE[name]).eps / 2)
                error = truth[1] * max(2.0**-24 * (2 + problem.flops // max(1, truth[0].size)), of_sums)
                for sign in (-1, 1):
                    edge = np.clip(truth[0] + sign * error, grid[0], grid[-1])
                    if mode == NEAREST:
                        edge = nearest(edge, name).astype(np.float64)
                    else:
                        at = np.searchsorted(grid, edge, "right") - 1
                        edge = np.where(sign < 0, grid[at], grid[np.searchsorted(grid, edge, "left")])
                    assert (sign * (edge - got) >= 0).all(), f"{solver.name}: {case.text}, direction {direction}"


def test_arrays_that_do_not_go_with_ocp():
    x, w = np.zeros((1, 2, 4, 4), DTYPE[OCPS[0]]), np.zeros((3, 2, 1, 1), np.float16)
    with pytest.raises(miopyx.BadParmError, match=r"float8_e4m3fn or float8_e5m2"):
        miopyx.conv2d(x, w)
    with pytest.raises(miopyx.BadParmError, match=r"bias of results of 8 bits \[bias"):
        miopyx.conv2d(x, w.astype(DTYPE[OCPS[1]]), np.zeros(3, DTYPE[OCPS[0]]))


def test_arrays_of_ocp(rng):
    """The functions on arrays: the result is of x's type, or of that of `out`."""
    x, w = (rng.integers(-2, 3, lens).astype(np.float32) for lens in ((2, 8, 5, 6), (4, 8, 3, 3)))
    want = miopyx.conv2d(x, w, padding=1)
    for a, b in product(OCPS, repeat=2):
        read = x.astype(DTYPE[a]), w.astype(DTYPE[b])
        got = miopyx.conv2d(*read, padding=1)
        assert got.dtype == DTYPE[a]
        # At random, as descriptors begin: within the distance of two neighbours.
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=0.25)
        for name in ("float16", "bfloat16", "float32"):
            out = np.full(want.shape, np.nan, DTYPES[name])
            assert miopyx.conv2d(*read, padding=1, out=out) is out
            np.testing.assert_array_equal(out.astype(np.float32), want.astype(DTYPES[name]).astype(np.float32))
        with pytest.raises(miopyx.BadParmError, match="result type of a float8 convolution"):
            miopyx.conv2d(*read, padding=1, out=np.zeros(want.shape))
    with pytest.raises(miopyx.BadParmError, match="arrays of several types"):
        miopyx.conv2d(x.astype(DTYPE[OCPS[0]]), w, padding=1)
