"""Sums of one sign: no solver's error grows with the number of terms, and all are within the bounds that they declare.

A million terms here; tests/long_sums.py prints a table of errors, up to 40 million terms and more.
"""

from __future__ import annotations

from collections import Counter
from math import prod

import long_sums
import numpy as np
import pytest
from long_sums import DATA, DIRECTIONS, Case, cases, main, problem_terms, run

import miopyx
from miopyx import TensorDescriptor
from miopyx.solvers import registry

U = 2.0 ** -24
# Roundings of an accumulator that each kind of device allows, whatever the length of the sum: blocks of 1024 terms,
# twice where a tile gives two; 4096 on GPUs, where programs for shorter sums have no totals; parts and transforms.
MOST = {"cpu": 2200, "gpu": 4800}


@pytest.fixture
def float_gpu(opencl_name, pretend):
    """The kernels for GPUs without double precision, whose naive solver sums in float32, too."""
    return pretend(opencl_name, kind="gpu", fp64=False, runtime="other", isa="")


MEMORY = 256 << 20  # bytes of workspace: what needs more has smaller cases


def check(handle, host, kind, terms, rng, most, solvers=registry.CONV):
    """Each solver in `most` of the cases that it takes, drawn at random; return the names of all."""
    seen = Counter()
    every = list(cases(terms))
    for i in rng.permutation(len(every)):
        case, problem = every[i], every[i].problem()
        names = [s.name for s in solvers if seen[s.name] < most and s.why_not(handle.device, problem) is None
                 and s.workspace_size(handle.device, problem) <= MEMORY]
        for data in DATA if kind == "cpu" else DATA[1:]:
            for found in run(handle, host, case, data, rng, names) if names else ():
                assert not found.wrong, (found, case)
                assert found.bound <= (MOST[kind] + 8) * U, (found, case)
        seen.update(names)
    return seen


def test_on_a_cpu(cpu, host, rng):
    with miopyx.Handle(cpu.device.name) as handle:  # its workspaces go with it
        seen = check(handle, host, "cpu", 200_000, rng, 2)
    families = {name.removesuffix(end) for name in seen for end in ("Fwd", "Bwd", "Wrw") if name.endswith(end)}
    assert families >= {"CpuGrouped", "CpuImplicitGemm", "CpuImplicitGemmNhwc", "CpuWinogradF2", "CpuWinogradF4",
                        "ConvDirectNaiveConv", "FFTConv"}


def test_on_a_gpu(float_gpu, host, rng, amount):
    """A few of the solvers without --long: a CPU takes seconds for each of these kernels."""
    every = [s for s in registry.CONV if not s.on_host]
    solvers = [every[i] for i in rng.permutation(len(every))[:amount(len(every) // 6, len(every))]]
    seen = check(float_gpu, host, "gpu", 100_000, rng, 1, solvers)
    assert seen.keys() >= {"GpuImplicitGemmWrw", "GpuWinogradF2Wrw", "DepthwiseWrw", "GemmWrwBatched", "FFTConvWrw",
                           "ConvDirectNaiveConvWrw"} & {s.name for s in solvers}
    assert seen


@pytest.mark.parametrize("direction", range(3))
def test_naive_sums_in_float(float_gpu, host, rng, direction):
    """What each addition rounds away is kept: no better float can be had."""
    lens = {0: ((1, 100_000, 1, 1), (1, 100_000, 1, 1)), 1: ((1, 1, 1, 1), (100_000, 1, 1, 1)),
            2: ((1, 1, 100, 1000), (1, 1, 1, 1))}[direction]
    for data in DATA:
        for found in run(float_gpu, host, Case(direction, "packed", *lens), data, rng, ["Naive"]):
            assert found.error <= 3 * U


def test_narrower_types(cpu, host, rng, amount):
    """Sums in float32, rounded to their type once; twice where a workspace of that type is scaled.

    Of the solvers a half without --long.
    """
    solvers = rng.permutation(registry.CONV)[:len(registry.CONV) // amount(2, 1)]
    dtype, u = (("float16", 2.0**-11), ("bfloat16", 2.0**-8))[rng.integers(2)]
    every, seen = list(cases(1000, dtype)), set()    # such sums stay in float16's range
    for i in rng.permutation(len(every)):
        names = [s.name for s in solvers
                 if s.name not in seen and s.why_not(cpu.device, every[i].problem()) is None]
        seen.update(names)
        for found in run(cpu, host, every[i], "random", rng, names) if names else ():
            assert not found.wrong, (found, every[i])
            assert found.bound <= 3 * u + MOST["cpu"] * U, (found, every[i])


def test_infinite_sums(cpu, host, rng):
    """An infinity in a long sum is one in the result, and no NaN: what it rounds away would be NaN."""
    case = Case(2, "packed", (1, 2, 256, 256), (3, 2, 1, 1))
    x, w, y = case.descriptors()
    values = [np.ones(x.lens, np.float32), None, np.ones(y.lens, np.float32)]
    values[0][0, 1, 17, 3] = np.inf
    buffers = [cpu.upload(values[i]) for i in (2, 0)]
    problem, seen = case.problem(), 0
    for solver in registry.CONV:
        if solver.mixes_tiles or solver.why_not(cpu.device, problem) is not None:
            continue
        out = cpu.upload(np.full(w.lens, np.nan, np.float32))
        cpu.convolution_backward_weights(y, x, case.conv, w, solver.id)(*buffers, out)
        got = cpu.download(out, np.empty(w.lens, np.float32)).reshape(3, 2)
        np.testing.assert_array_equal(got, [[256 * 256, np.inf]] * 3, err_msg=solver.name)
        seen += 1
    assert seen > 2


# Layers: equal terms, whose roundings all point the same way.

TERM = np.float32(0.7)


def of_layers(handle, lens, layout):
    return TensorDescriptor("float32", lens, layout=layout), handle.upload(np.full(lens, TERM))


@pytest.fixture(params=["as it is", "as a GPU"])
def device(request, opencl_name, handles, float_gpu):
    return float_gpu if request.param == "as a GPU" else handles(opencl_name)


@pytest.mark.some(4)
@pytest.mark.parametrize("mode", ["average", "inclusive"])
@pytest.mark.parametrize(("lens", "layout", "window"), [
    ((1, 2, 1000, 1000), "nchw", (1000, 1000)), ((1, 32, 400, 400), "nhwc", (400, 400)),
    ((1, 2, 400, 400), "nhwc", (400, 400)), ((1, 9, 330, 310), "nhwc", (300, 300)),
    ((1, 2, 330, 310), "nchw", (300, 300))])
def test_averages(device, lens, layout, window, mode):
    """1024 terms an accumulator, of lanes in a vector or a group."""
    x_desc, x = of_layers(device, lens, layout)
    pool = miopyx.PoolingDescriptor(mode, window, (0, 0), (40, 40))
    y_desc = TensorDescriptor("float32", pool.output_lens(x_desc), layout=layout)
    y = device.upload(np.full(y_desc.lens, np.nan, np.float32))
    device.pooling_forward(pool, x_desc, y_desc, False)(x, y)
    got = device.download(y, np.empty(y_desc.lens, np.float32)).astype(float)
    assert np.abs(got / float(TERM) - 1).max() <= 1040 * U


def test_averages_backwards(device):
    """An element that 40 x 40 windows share."""
    x_desc, x = of_layers(device, (1, 2, 90, 90), "nchw")
    pool = miopyx.PoolingDescriptor("inclusive", (40, 40), (0, 0), (1, 1))
    y_desc, dy = of_layers(device, pool.output_lens(x_desc), "nchw")
    device.pooling_backward(pool, y_desc, y_desc, x_desc, x_desc)(dy, x)
    got = device.download(x, np.empty(x_desc.lens, np.float32)).astype(float)[0, :, 45, 45]
    assert np.abs(got / float(TERM) - 1).max() <= 40 * U


@pytest.mark.parametrize("inner", [(1, 1), (2, 8)], ids=["rows", "columns"])
def test_softmax(device, rng, inner):
    """64 terms an accumulator."""
    count = 1 << 20 if inner == (1, 1) else 1 << 17
    lens = (1, count, *inner)
    desc, y = of_layers(device, lens, "nchw")
    out = device.upload(np.full(lens, np.nan, np.float32))
    device.softmax_backward(desc, desc, desc, algorithm="accurate", mode="channel")(y, y, out)
    got, term = device.download(out, np.empty(lens, np.float32)).astype(float), float(TERM)
    want = term * (term - count * term * term)
    assert np.abs(got / want - 1).max() <= 24 * U
    values = rng.random(lens, np.float32)
    device.softmax_forward(desc, desc, algorithm="accurate", mode="channel")(device.upload(values), out)
    got = device.download(out, np.empty(lens, np.float32)).astype(float)
    powers = np.exp(values.astype(float) - values.max(1, keepdims=True))
    assert np.abs(got / powers * powers.sum(1, keepdims=True) - 1).max() <= 24 * U


@pytest.mark.parametrize(("lens", "layout"), [((1, 16, 500, 500), "nhwc"), ((1, 1, 2000, 1000), "nchw")])
def test_batch_norm(device, rng, lens, layout):
    """Blocks on CPUs; on GPUs 1024 terms an accumulator."""
    desc, dy = of_layers(device, lens, layout)
    derived = TensorDescriptor("float32", (1, lens[1], 1, 1))
    x = device.upload(rng.random(lens, np.float32))
    scale, dscale, dbias = (device.upload(np.ones(lens[1], np.float32)) for _ in range(3))
    device.batch_norm_backward("spatial", desc, desc, desc, derived, saved=False)(
        x, dy, x, scale, dscale, dbias, None, None)
    want = float(TERM) * lens[2] * lens[3]
    most = 1040 * U if device.device.is_gpu else 24 * U
    assert np.abs(device.download(dbias, np.empty(lens[1], np.float32)) / want - 1).max() <= most


@pytest.mark.parametrize(("lens", "layout"), [((1, 16, 500, 500), "nhwc"), ((1, 1, 2000, 1000), "nchw")])
def test_batch_norm_on_the_host(host, lens, layout):
    """In float64: 1024 terms an accumulator, at most."""
    desc = TensorDescriptor("float64", lens, layout=layout)
    wide, most, count = 0.7, 1040 * 2.0**-53, lens[2] * lens[3]
    derived = TensorDescriptor("float64", (1, lens[1], 1, 1))
    order = (0, 2, 3, 1) if layout == "nhwc" else (0, 1, 2, 3)
    x, dy = (np.full([lens[i] for i in order], v).transpose(np.argsort(order)) for v in (2 * wide, wide))
    dx, scale, inv = np.empty_like(x), np.ones(lens[1]), np.ones(lens[1])
    dscale, dbias, mean = np.full(lens[1], np.nan), np.full(lens[1], np.nan), np.full(lens[1], wide)
    host.batch_norm_backward("spatial", desc, desc, desc, derived)(x, dy, dx, scale, dscale, dbias, mean, inv)
    assert np.abs(dbias / (wide * count) - 1).max() <= most
    assert np.abs(dscale / (wide * wide * count) - 1).max() <= most
    plan = host.batch_norm_training("spatial", desc, desc, derived, running=False)
    plan(x, dx, scale, inv, None, None, mean, dscale)
    assert np.abs(mean / (2 * wide) - 1).max() <= most


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_response_normalisation(device, layout):
    """Sixteen terms an accumulator."""
    count, n = 20_000, 19_999
    desc, x = of_layers(device, (1, count, 1, 1), layout)
    y = device.upload(np.full(count, np.nan, np.float32))
    device.lrn_forward(miopyx.LRNDescriptor("cross", n, 1.0, 1.0, 1.0), desc, desc)(x, y)
    at, term = np.arange(count), float(TERM)
    terms = np.minimum(at + n // 2, count - 1) - np.maximum(at - n // 2, 0) + 1
    got = device.download(y, np.empty(count, np.float32)).astype(float)
    assert np.abs(got / (term / (1 + term * term * terms / n)) - 1).max() <= 24 * U


def test_bias_gradient(device):
    desc, dy = of_layers(device, (1, 3, 1000, 1000), "nchw")
    db = device.upload(np.full(3, np.nan, np.float32))
    miopyx.miopenConvolutionBackwardBias(device, 1, desc, dy, 0, TensorDescriptor("float32", (1, 3, 1, 1)), db)
    assert np.abs(device.download(db, np.empty(3, np.float32)) / (float(TERM) * 1e6) - 1).max() <= 24 * U


# NVIDIA's


def nvidia_problems():
    """Longer sums than any device is asked for here: only bounds are looked at."""
    for dtype in ("float32", "float16"):
        for n in (1, 64, 512):
            for layout in ("packed", "channels last"):
                yield Case(2, layout, (n, 3, 224, 224), (64, 3, 7, 7), 3, 2, dtype=dtype)
                yield Case(2, layout, (n, 32, 56, 56), (32, 32, 3, 3), 1, dtype=dtype)
                yield Case(2, layout, (n, 64, 28, 28), (64, 16, 3, 3), 1, groups=4, dtype=dtype)
                yield Case(2, layout, (n, 32, 56, 56), (32, 1, 3, 3), 1, groups=32, dtype=dtype)
        for channels in (64, 4096, 1 << 20):
            yield Case(0, "packed", (1, channels, 7, 7), (64, channels, 3, 3), 1, dtype=dtype)
            yield Case(1, "packed", (1, 64, 7, 7), (channels, 64, 3, 3), 1, dtype=dtype)


def test_bounds_on_an_h200(h200):
    """float32 within 5000 roundings; 16 bits within two of the result's own."""
    seen = set()
    for case in nvidia_problems():
        problem = case.problem()
        for solver in registry.CONV:
            if solver.why_not(h200.device, problem) is None and not solver.name.startswith("ConvDirect"):
                bound = solver.error_bound(h200.device, problem)
                seen.add(solver.name)
                limit = 5000 * U if case.dtype == "float32" else 3 * 2.0**-11
                assert 0 < bound <= limit, (solver, case, problem_terms(case), bound / U)
    assert {name for name in seen if name.startswith("Nv")} >= {
        "NvWgmmaFwd", "NvWgmmaWrw", "NvPairsFwd", "NvPairsWrw", "NvSmallFwd", "NvImplicitGemmWrw", "NvGroupedWrw",
        "NvFewChannelsWrw"}


def test_every_solver_declares_a_bound(handle, gpu, h200):
    for at in (handle, gpu, h200):
        for case in (*cases(1000), *cases(1000, "float16")):
            problem = case.problem()
            for solver in registry.CONV:
                if solver.why_not(at.device, problem) is None:
                    assert 0 < solver.error_bound(at.device, problem) < 0.01, (solver, case)
    assert {s.mixes_tiles for s in registry.CONV if s.algorithm == 3} == {True}


@pytest.mark.parametrize("kind", [[], ["--as-gpu"]])
def test_the_table(cpu, capsys, monkeypatch, kind):
    small = ["--device", cpu.device.name, "--terms", "1000", "--solver", "GemmWrw1x1", *kind]
    assert main(small) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("GemmWrw1x1_stride1 ") for line in lines)
    assert lines[-1] == "0 results beyond their bounds"
    monkeypatch.setattr(long_sums.Found, "wrong", True)
    assert main(small) == 1


def test_cases_have_the_terms_that_they_say():
    for terms in (1000, 1_000_000):
        for case in cases(terms):
            assert terms / 2.5 <= problem_terms(case) <= 1.2 * terms, case
            assert prod(case.x) <= 20 * terms
    assert {case.direction for case in cases(1000)} == set(range(len(DIRECTIONS)))
