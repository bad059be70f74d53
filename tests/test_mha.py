"""Attention through Find 2.0: both directions against float64, masks, dropout, numbers in memory, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Tensor, strides_of
from test_tensor_ops import any_strides

import miopyx
from miopyx import MhaDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

DTYPE.setdefault("int64", np.dtype("i8"))
TYPES = ("float32", "float16", "bfloat16", "float64")
NV_MHA = 1297  # its scores are rounded to the type between the products
FORWARD, BACKWARD = miopyx.miopenProblemDirectionForward, miopyx.miopenProblemDirectionBackward
SCALES = {FORWARD: ("DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "ScaleO"),
          BACKWARD: ("DescaleQ", "DescaleK", "DescaleV", "DescaleS", "ScaleS", "DescaleO", "DescaleDO", "DescaleDS",
                     "ScaleDS", "ScaleDQ", "ScaleDK", "ScaleDV")}
AMAX = {FORWARD: ("AmaxO", "AmaxS"), BACKWARD: ("AmaxDQ", "AmaxDK", "AmaxDV", "AmaxDS")}


def philox(counters, masks, seed):
    """The words of Philox 4x32-10 of an array of counters."""
    a, b = counters & 0xFFFFFFFF, counters >> np.uint64(32)
    c, d = np.full_like(a, masks & 0xFFFFFFFF), np.full_like(a, masks >> 32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a = (p1 >> np.uint64(32)) ^ b ^ np.uint64(k0)
        c = (p0 >> np.uint64(32)) ^ d ^ np.uint64(k1)
        b, d = p1 & low, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([a, b, c, d], -1)


def mask_of(n, h, rows, keys, probability, seed, offset):
    """What dropout multiplies by, as miopyx says it."""
    fours = -(-keys // 4)
    counters = np.arange(n * h * rows * fours, dtype=np.uint64)
    words = philox(counters, offset, seed).reshape(n, h, rows, 4 * fours)[..., :keys]
    kept = (words >> np.uint64(8)).astype(np.float64) >= np.float64(np.float32(probability)) * 2**24
    return kept / (1 - np.float64(np.float32(probability)))


class Attention:
    """A problem of random tensors, and what float64 says of it."""

    def __init__(self, handle, dtype, shape, rng, *, causal=False, bias=None, dropout=None, scaled=False,
                 layout="packed", saved=True, amax=True, scale=None, loaded=False):
        self.handle, self.dtype, self.rng, self.causal, self.layout = handle, dtype, rng, causal, layout
        self.n, self.h, self.rows, self.keys, self.depth, self.width = shape
        self.scale = 1 / math.sqrt(self.depth) if scale is None else scale
        self.real = "float64" if dtype == "float64" else "float32"
        self.saved, self.amax, self.dropout, self.loaded = saved, amax, dropout, loaded
        self.bias_lens = bias
        self.solver = None  # not known of graphs
        self.t = {}
        for name, lens in (("Q", (self.rows, self.depth)), ("K", (self.keys, self.depth)), ("V", (self.keys,
                                                                                                  self.width))):
            self.add(name, (self.n, self.h, *lens), dtype, rng.standard_normal((self.n, self.h, *lens)))
        if bias is not None:
            values = rng.standard_normal(bias)
            self.t["Bias"] = Tensor(handle, TensorDescriptor(self.real, bias), values)
        self.numbers = {}
        names = {*SCALES[FORWARD], *SCALES[BACKWARD]} if scaled else ()
        for name in sorted(names):
            self.numbers[name] = float(np.float32(rng.uniform(0.5, 2)))
        for name, value in self.numbers.items():
            self.t[name] = Tensor(handle, TensorDescriptor("float32", (1,) * int(rng.integers(1, 6))), value)
        if dropout is not None:
            probability, seed, offset = dropout
            self.t["DropoutProbability"] = Tensor(handle, TensorDescriptor("float32", (1,)), probability)
            for name, value in (("DropoutSeed", seed), ("DropoutOffset", offset)):
                self.t[name] = Tensor(handle, TensorDescriptor("int64", (1, 1, 1, 1)), value)

    def add(self, name, lens, dtype, values=None):
        strides = any_strides(lens, self.rng) if self.layout == "any" else strides_of(lens, self.layout)
        if self.layout == "any" and name in "KV" and not self.rng.integers(4):  # heads share most of their numbers
            strides = (strides[0], 1, *strides[2:])
        self.t[name] = Tensor(self.handle, TensorDescriptor(dtype, lens, strides), values)

    def number(self, name):
        return self.numbers.get(name, 1.0)

    def run(self, direction, names):
        problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(self.scale), direction)
        for name in names:
            miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", self.t[name].desc)
        solution, = miopyx.miopenFindSolutions(self.handle, problem, None, 4)
        self.solver = miopyx.miopenGetSolutionSolverId(solution)
        if self.loaded:
            data = miopyx.miopenSaveSolution(solution)
            solution = miopyx.miopenLoadSolution(data, len(data))
        arguments = [(f"miopenTensorMha{name}", self.t[name].desc, self.t[name].argument()) for name in names]
        if self.causal:
            arguments.append((miopyx.miopenTensorMhaMask, None, miopyx.miopenMhaMaskCausal))
        self.rng.shuffle(arguments)
        miopyx.miopenRunSolution(self.handle, solution, len(arguments), [tuple(a) for a in arguments], None, 0)
        self.handle.finish()

    def exact(self):
        """Scores, M, ZInv, p and the mask, from what the tensors hold."""
        q, k, v = (self.t[name].view().astype(np.float64) for name in "QKV")
        s = q @ k.swapaxes(2, 3) * (self.scale * self.number("DescaleQ") * self.number("DescaleK"))
        if "Bias" in self.t:
            s = s + self.t["Bias"].view().astype(np.float64)
        if self.causal:
            s = np.where(np.arange(self.keys) > np.arange(self.rows)[:, None], -np.inf, s)
        top = s.max(3, keepdims=True)
        e = np.exp(s - top)
        inverse = 1 / e.sum(3, keepdims=True)
        mask = 1.0
        if self.dropout:
            mask = mask_of(self.n, self.h, self.rows, self.keys, *self.dropout)
        return q, k, v, top, inverse, e * inverse, mask

    def forward(self):
        lens = (self.n, self.h, self.rows)
        self.add("O", (*lens, self.width), self.dtype)
        names = ["Q", "K", "V", "O"]
        if self.saved:
            for name in ("M", "ZInv"):
                self.add(name, (*lens, 1), self.real)
            names += ["M", "ZInv"]
        if self.amax:
            for name in AMAX[FORWARD]:
                self.t[name] = Tensor(self.handle, TensorDescriptor("float32", (1,)), None)
            names += AMAX[FORWARD]
        names += [name for name in (*SCALES[FORWARD], "Bias", "DropoutProbability", "DropoutSeed", "DropoutOffset")
                  if name in self.t]
        self.run(FORWARD, names)

    def unit(self):
        """The roundings of a product of two sums, of a unit in the last place of the type."""
        return ROUNDOFF["float64" if self.dtype == "float64" or self.handle.device.is_host else "float32"]

    def lost(self, terms, least, factors):
        """What a sum is off by whose scores were rounded to the type: relatively, halves by `least` at least."""
        if self.solver not in (None, NV_MHA) or (self.solver is None and not self.handle.device.name.startswith("nv-")):
            return 0
        return ROUNDOFF[self.dtype] * terms + (least * factors if self.dtype == "float16" else 0)

    def near(self, name, want, terms, roundings, lost=0):
        """Every element is within the roundings of its terms, and one of its type; none is NaN."""
        got = self.t[name].values()
        bound = (roundings * self.unit()) * terms + ROUNDOFF[self.t[name].desc.dtype] * np.abs(want) * 1.01 + lost
        bound = bound + {"float16": 2.0**-24, "float32": 2.0**-140, "bfloat16": 2.0**-133}.get(self.dtype, 0)
        assert np.isfinite(got).all(), name
        worst = (np.abs(got - want) / np.maximum(bound, 1e-300)).max()
        assert worst <= 1, f"{name}: {worst} of the bound"

    def check_forward(self):
        q, k, v, top, inverse, p, mask = self.exact()
        # A score is off by its sum's roundings; e^s by as much relatively, and so p, twice.
        size = (np.abs(q) @ np.abs(k).swapaxes(2,
                                               3)) * abs(self.scale * self.number("DescaleQ") * self.number("DescaleK"))
        if "Bias" in self.t:
            size = size + np.abs(self.t["Bias"].view().astype(np.float64))
        of_score = (self.depth + 6) * size.max(3, keepdims=True)
        rounds = 2 * of_score + 3 * min(self.keys, 128 + self.keys / 16) + 40
        to_o = self.number("ScaleS") * self.number("DescaleS") * self.number("DescaleV")
        o = (p * mask) @ v * to_o
        terms = (p * mask) @ np.abs(v) * abs(to_o)
        out = self.number("ScaleO")
        lost = self.lost(terms, 2.0**-40, inverse * np.abs(v).sum(2, keepdims=True) * np.max(mask) * abs(to_o))
        self.near("O", o * out, terms * out, rounds, lost * out)
        if self.saved:
            self.near("M", top, size.max(3, keepdims=True), self.depth + 8)
            # Of the M that goes with it, which is rounded to its type.
            rounded = inverse * np.exp(self.t["M"].view().astype(np.float64) - top)
            self.near("ZInv", rounded, rounded, rounds)
        if self.amax:
            self.near("AmaxS", inverse.max(), inverse.max(), rounds.max())
            self.near("AmaxO", np.abs(o).max(), terms.max(), rounds.max() + 4, np.max(lost))
        return top, inverse

    def backward(self):
        _, _, v, top, inverse, p, mask = self.exact()
        lens = (self.n, self.h, self.rows)
        o = (p * mask) @ v
        self.add("O", (*lens, self.width), self.dtype, o)
        self.add("DO", (*lens, self.width), self.dtype, self.rng.standard_normal((*lens, self.width)))
        self.add("M", (*lens, 1), self.real, top)
        self.add("ZInv", (*lens, 1), self.real, inverse)
        for name, like in (("DQ", "Q"), ("DK", "K"), ("DV", "V")):
            self.add(name, self.t[like].desc.lens, self.dtype)
        names = ["Q", "K", "V", "O", "DO", "M", "ZInv", "DQ", "DK", "DV"]
        if self.amax:
            for name in AMAX[BACKWARD]:
                self.t[name] = Tensor(self.handle, TensorDescriptor("float32", (1, 1)), None)
            names += AMAX[BACKWARD]
        names += [name for name in (*SCALES[BACKWARD], "Bias", "DropoutProbability", "DropoutSeed", "DropoutOffset")
                  if name in self.t]
        self.run(BACKWARD, names)

    def check_backward(self):
        q, k, v, _, _, _, mask = self.exact()
        number = self.number
        o, dy = (self.t[name].view().astype(np.float64) for name in ("O", "DO"))
        # From the M and ZInv that were given, rounded to their type.
        s = q @ k.swapaxes(2, 3) * (self.scale * number("DescaleQ") * number("DescaleK"))
        size = np.abs(q) @ np.abs(k).swapaxes(2, 3) * abs(self.scale * number("DescaleQ") * number("DescaleK"))
        if "Bias" in self.t:
            s = s + self.t["Bias"].view().astype(np.float64)
            size = size + np.abs(self.t["Bias"].view().astype(np.float64))
        if self.causal:
            s = np.where(np.arange(self.keys) > np.arange(self.rows)[:, None], -np.inf, s)
        p = np.exp(s - self.t["M"].view().astype(np.float64)) * self.t["ZInv"].view().astype(np.float64)
        to_p = number("DescaleDO") * number("DescaleV")
        to_delta = number("DescaleDO") * number("DescaleO")
        dp, dp_size = dy @ v.swapaxes(2, 3) * to_p * mask, np.abs(dy) @ np.abs(v).swapaxes(2, 3) * to_p * mask
        delta, delta_size = ((f * to_delta).sum(3, keepdims=True) for f in (dy * o, np.abs(dy * o)))
        ds = p * (dp - delta) * self.scale
        ds_size = p * (dp_size + delta_size) * abs(self.scale)
        rounds = (self.depth + 6) * size.max() + self.depth + self.width + 3 * min(
            max(self.keys, self.rows), 128 + max(self.keys, self.rows) / 16) + 40
        to_s = number("ScaleDS") * number("DescaleDS")
        sum_of = {name: np.abs(values).sum(2, keepdims=True) for name, values in (("Q", q), ("K", k), ("DO", dy))}
        least = 2.0**-25 * abs(self.scale)
        # The last two: what a score is off by at least, rounded to a half, and what it is multiplied by.
        results = {"DS": (ds, ds_size, 1.0, 0.0, 0.0),
                   "DQ": (ds @ k, ds_size @ np.abs(k), number("DescaleK") * to_s, least, sum_of["K"]),
                   "DK": (ds.swapaxes(2, 3) @ q, ds_size.swapaxes(2, 3) @ np.abs(q), number("DescaleQ") * to_s, least,
                          sum_of["Q"]),
                   "DV": ((p * mask).swapaxes(2, 3) @ dy, (p * mask).swapaxes(2, 3) @ np.abs(dy),
                          number("ScaleS") * number("DescaleS") * number("DescaleDO"), 2.0**-40,
                          sum_of["DO"] * np.max(mask))}
        for name, (value, terms, factor, least, factors) in results.items():
            lost = 0 if name == "DS" else self.lost(terms, least, factors) * factor
            if name != "DS":
                out = factor * number(f"Scale{name}")
                self.near(name, value * out, terms * out, rounds, lost * number(f"Scale{name}"))
            if self.amax:
                self.near(f"Amax{name}", np.abs(value * factor).max(), (terms * factor).max(), rounds, np.max(lost))


def random_shape(rng, most=90):
    n, h = (int(v) for v in rng.integers(1, 4, 2))
    rows, keys = (int(v) for v in rng.integers(1, most, 2))
    depth, width = (int(v) for v in rng.integers(1, 70, 2))
    return n, h, rows, keys, depth, width


def options(rng, shape):
    n, h, rows, keys, *_ = shape
    lens = [int(v) if rng.random() < 0.7 else 1 for v in (n, h, rows, keys)]
    return {"causal": bool(rng.integers(2)), "bias": tuple(lens) if rng.integers(2) else None,
            "dropout": (0.3, int(rng.integers(1 << 62)), int(rng.integers(1 << 40))) if rng.integers(2) else None,
            "scaled": bool(rng.integers(2)), "layout": ("packed", "channels last", "padded", "any")[rng.integers(4)],
            "amax": bool(rng.integers(2)), "loaded": bool(rng.integers(2))}


def both(handle, dtype, shape, rng, **more):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")
    one = Attention(handle, dtype, shape, rng, **more)
    one.forward()
    one.check_forward()
    one.backward()
    one.check_backward()


@pytest.mark.parametrize("dtype", TYPES)
def test_plain(handle, dtype, rng):
    both(handle, dtype, (2, 3, 70, 70, 32, 32), rng)


@pytest.mark.parametrize("dtype", TYPES)
def test_random(handle, dtype, rng, amount):
    for _ in range(amount(2, 12)):
        shape = random_shape(rng)
        both(handle, dtype, shape, rng, **options(rng, shape))


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("dtype", TYPES)
def test_heads_that_cores_share(opencl_name, pretend, dtype, more, rng, amount):
    """As many heads as a CPU has cores, each core one, whose gradients it computes together; and one more than that."""
    handle = pretend(opencl_name, compute_units=2)
    if not handle.device.is_cpu:
        pytest.skip("work-items of CPUs")
    lens = dict.fromkeys(("M", "ZInv"), (1, 2 + more, 40, 1))
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(1.0), "backward")
    for name in ("Q", "K", "V", "O", "DO", "DQ", "DK", "DV", "M", "ZInv"):
        desc = TensorDescriptor("float32", lens.get(name, (1, 2 + more, 40, 16)))
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", desc)
    sums = 4 * math.prod(lens["M"]) * 16  # dq's, which are summed where a core has a head
    assert (miopyx.miopenFindSolutions(handle, problem, None, 1)[0].workspace > sums) == (more == 0)
    for _ in range(amount(1, 12)):
        shape = (1, 2 + more, *random_shape(rng, 120)[2:])
        both(handle, dtype, shape, rng, **options(rng, shape))


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_an_infinity_that_is_dropped(opencl_name, pretend, kind, units, rng):
    """do v overflows at a dropped place alone: no gradient sees it."""
    handle = pretend(opencl_name, kind=kind, compute_units=units)
    dropout = 0.5, 7, 3
    row, key = np.argwhere(mask_of(1, 2, 6, 6, *dropout)[0, 0] == 0)[0]
    one = Attention(handle, "float32", (1, 2, 6, 6, 8, 8), rng, dropout=dropout)
    one.t["V"].view()[0, 0, key, :] = 1e25
    one.forward()
    saved = {name: one.t[name].values().copy() for name in ("O", "M", "ZInv")}
    add = one.add

    def changed(name, lens, dtype, values=None):
        if name == "DO":
            values = np.zeros(lens)
            values[0, 0, row, :] = 1e15
        add(name, lens, dtype, saved.get(name, values))

    one.add = changed
    one.backward()
    for name in ("DQ", "DK", "DV"):
        assert np.isfinite(one.t[name].values()).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    for _ in range(amount(1, 3)):
        shape = random_shape(rng, 70)
        both(gpu, dtype, shape, rng, **options(rng, shape))


def test_gpu_kernels_beyond_a_tile(gpu, rng):
    """More than one tile of rows and of keys, with all that scores depend on."""
    both(gpu, "float32", (2, 2, 71, 83, 40, 24), rng, causal=True, bias=(2, 2, 71, 83), dropout=(0.3, 12345, 7),
         layout="any")


@pytest.mark.parametrize("on_gpu", [False, True])
def test_long_heads(handle, gpu, on_gpu, rng):
    """Heads that a GPU computes in slices, and for which a CPU takes smaller blocks."""
    both(gpu if on_gpu else handle, "float32", (1, 1, 20, 33, 150, 290), rng, causal=True)


def test_long_heads_in_little_local_memory(opencl_name, pretend, rng):
    """Slices are narrower on a GPU of 32 KiB."""
    both(pretend(opencl_name, kind="gpu", local_mem=32 << 10), "float32", (1, 1, 20, 33, 150, 290), rng, causal=True)


def test_many_keys(handle, rng):
    one = Attention(handle, "float32", (1, 2, 3, 3000, 16, 8), rng, saved=False, amax=False)
    one.forward()
    one.check_forward()


def test_large_scores(handle, rng):
    """Sums of e^s would overflow."""
    one = Attention(handle, "float32", (1, 2, 9, 80, 16, 16), rng, scale=60.0)
    one.forward()
    assert np.isfinite(one.t["O"].values()).all()
    *_, p, _ = one.exact()
    want = p @ one.t["V"].view().astype(np.float64)
    # e^s is off by the roundings of scores of some thousands.
    np.testing.assert_allclose(one.t["O"].values(), want, atol=0.05)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_gradients_of_large_scores(handle, gpu, on_gpu, rng):
    """Scores of both passes are rounded alike: where one is far above the others, its p is exactly 1."""
    where = gpu if on_gpu else handle
    one = Attention(where, "float32", (1, 2, 70, 80, 16, 16), rng, scale=1000.1, amax=False)
    for name in "QK":
        one.t[name].view()[...] = rng.integers(-4, 5, one.t[name].view().shape)
    one.forward()
    saved, add = {name: one.t[name].values().copy() for name in ("O", "M", "ZInv")}, one.add
    one.add = lambda name, lens, dtype, values=None: add(name, lens, dtype, saved.get(name, values))
    one.backward()
    *_, p, _ = one.exact()
    want = p.swapaxes(2, 3) @ one.t["DO"].view().astype(np.float64)
    np.testing.assert_allclose(one.t["DV"].values(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_rows_without_scores(handle, gpu, on_gpu, rng):
    where = gpu if on_gpu else handle
    one = Attention(where, "float32", (1, 1, 4, 6, 8, 8), rng, bias=(1, 1, 4, 6), amax=False)
    one.t["Bias"].view()[0, 0, 2] = -np.inf
    one.t["Bias"].view()[0, 0, 3, 1:] = -np.inf
    one.forward()
    out = one.t["O"].values()[0, 0]
    assert np.isnan(out[2]).all()
    assert np.isfinite(out[[0, 1]]).all()
    np.testing.assert_allclose(out[3], one.t["V"].view()[0, 0, 0], rtol=1e-6)


def test_masks_are_the_same_everywhere(handle, gpu, rng):
    """Where v is 1 and p is even a result counts what was kept."""
    for where in (handle, gpu):
        one = Attention(where, "float32", (2, 2, 10, 50, 4, 4), rng, dropout=(0.25, 123, 45), scale=0.0)
        one.t["V"].view()[...] = 1
        one.forward()
        kept = mask_of(2, 2, 10, 50, 0.25, 123, 45).mean(3)
        np.testing.assert_allclose(one.t["O"].values(), np.broadcast_to(kept[..., None], (2, 2, 10, 4)), rtol=1e-5)
    assert 0.2 < (mask_of(2, 2, 30, 50, 0.25, 7, 0) == 0).mean() < 0.3


@pytest.mark.parametrize("causal", [False, True])
def test_torch(handle, rng, causal):
    torch = pytest.importorskip("torch")
    one = Attention(handle, "float32", (2, 2, 40, 40, 16, 16), rng, causal=causal, amax=False)
    one.forward()
    q, k, v = (torch.tensor(one.t[name].view().copy(), requires_grad=True) for name in "QKV")
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    np.testing.assert_allclose(one.t["O"].values(), want.detach().numpy(), rtol=1e-4, atol=1e-5)
    one.backward()
    want.backward(torch.tensor(one.t["DO"].view().copy()))
    for name, of in (("DQ", q), ("DK", k), ("DV", v)):
        np.testing.assert_allclose(one.t[name].values(), of.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_gradient_of_dropout(host, rng):
    """Differences of forward passes with the same mask: a dropped score's gradient is not 0, as MIOpen has it."""
    one = Attention(host, "float64", (1, 1, 5, 7, 3, 4), rng, dropout=(0.5, 11, 3), amax=False)
    one.forward()
    one.backward()
    q, dy, dq = one.t["Q"].view(), one.t["DO"].view().copy(), one.t["DQ"].values()
    for place in ((0, 0, 0, 0), (0, 0, 3, 2)):
        sums, kept = [], q[place]
        for step in (1e-5, -1e-5):
            q[place] = kept + step
            one.forward()
            sums.append((one.t["O"].values() * dy).sum())
        q[place] = kept
        np.testing.assert_allclose(dq[place], (sums[0] - sums[1]) / 2e-5, rtol=1e-5, atol=1e-8)


def test_probabilities_that_are_none(handle, rng):
    """Below 0 and NaN are 0, above 1 is 1, on every device."""
    one = Attention(handle, "float32", (1, 2, 9, 11, 8, 8), rng, dropout=(0.0, 1, 2), amax=False)
    one.forward()
    whole = one.t["O"].values()
    for probability in (np.nan, -1.0, -np.inf, 1.0, 2.0, np.inf):
        one.t["DropoutProbability"] = Tensor(handle, TensorDescriptor("float32", (1,)), probability)
        one.forward()
        np.testing.assert_array_equal(one.t["O"].values(), 0 if probability >= 1 else whole)


def test_lengths_whose_product_is_beyond_64_bits(host):
    """None of them is 0: only memory ends this."""
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(), "forward")
    for name in "KQVO":
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}",
                                                TensorDescriptor("float32", (1, 2**20, 2**20, 64)))
    assert miopyx.miopenFindSolutions(host, problem, None, 1)


def test_solutions_are_saved(handle, rng):
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(0.5), "forward")
    desc = TensorDescriptor("float32", (1, 2, 8, 16))
    for name in "KQVO":
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", desc)
    solution, = miopyx.miopenFindSolutions(handle, problem, None, 1)
    saved = miopyx.miopenSaveSolution(solution)
    again = miopyx.miopenLoadSolution(saved, len(saved))
    assert miopyx.miopenGetSolutionWorkspaceSize(again) == 0
    q, k, v = (rng.standard_normal(desc.lens).astype("f4") for _ in range(3))
    o = np.full(desc.lens, np.nan, "f4")
    memory = {name: handle.upload(a) for name, a in (("Q", q), ("K", k), ("V", v), ("O", o))}
    miopyx.miopenRunSolution(handle, again, 4, [(f"miopenTensorMha{n}", desc, m) for n, m in memory.items()], None, 0)
    s = np.exp(0.5 * q.astype("f8") @ k.astype("f8").swapaxes(2, 3))
    np.testing.assert_allclose(handle.download(memory["O"], o), s @ v / s.sum(3, keepdims=True), rtol=1e-4, atol=1e-5)


def test_descriptor():
    desc = miopyx.miopenCreateMhaDescriptor()
    assert miopyx.miopenGetMhaDescriptor(desc) == 1
    miopyx.miopenSetMhaDescriptor(desc, 0.125)
    assert miopyx.miopenGetMhaDescriptor(desc) == desc.scale == 0.125
    assert MhaDescriptor(0.125) == desc
    for wrong in ("x", None, 1j, float("nan"), np.float32("nan")):
        with pytest.raises(BadParmError, match="scale"):
            miopyx.miopenSetMhaDescriptor(desc, wrong)
    assert desc.scale == 0.125
    with pytest.raises(BadParmError, match="mhaDesc"):
        miopyx.miopenGetMhaDescriptor(TensorDescriptor("float32", (1,)))
    with pytest.raises(BadParmError, match="operatorDesc"):
        miopyx.miopenCreateMhaProblem(None, FORWARD)
    with pytest.raises(MIOpenNotImplementedError, match="direction"):
        miopyx.miopenCreateMhaProblem(desc, "inference")


@pytest.mark.parametrize(("change", "parameter"), [
    ({"Q": TensorDescriptor("float32", (1, 2, 8))}, "MhaQ"),
    ({"K": TensorDescriptor("float32", (1, 2, 8, 5))}, "MhaK"),
    ({"K": TensorDescriptor("float32", (2, 2, 8, 4))}, "MhaK"),
    ({"V": TensorDescriptor("float32", (1, 2, 9, 4))}, "MhaV"),
    ({"V": TensorDescriptor("float16", (1, 2, 8, 4))}, "MhaV"),
    ({"O": TensorDescriptor("float32", (1, 2, 8, 5))}, "MhaO"),
    ({"O": TensorDescriptor("float32", (1, 2, 8, 4), (64, 32, 4, 4))}, "MhaO"),
    ({"O": None}, "problem"),
    ({"Bias": TensorDescriptor("float32", (1, 2, 8, 7))}, "MhaBias"),
    ({"Bias": TensorDescriptor("float16", (1, 2, 8, 8))}, "MhaBias"),
    ({"M": TensorDescriptor("float32", (1, 2, 8, 8))}, "MhaM"),
    ({"ScaleO": TensorDescriptor("float32", (2,))}, "MhaScaleO"),
    ({"ScaleO": TensorDescriptor("float64", (1,))}, "MhaScaleO"),
    ({"DropoutSeed": TensorDescriptor("int64", (1,))}, "problem"),
    ({"DropoutSeed": TensorDescriptor("float32", (1,)), "DropoutOffset": TensorDescriptor("int64", (1,)),
      "DropoutProbability": TensorDescriptor("float32", (1,))}, "MhaDropoutSeed"),
])
def test_refused_descriptors(handle, change, parameter):
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(), FORWARD)
    tensors = dict.fromkeys("QKVO", TensorDescriptor("float32", (1, 2, 8, 4))) | change
    for name, desc in tensors.items():
        if desc is not None:
            miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", desc)
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenFindSolutions(handle, problem, None, 1)
    assert raised.value.parameter == parameter
    assert raised.value.limit


def test_refused_types(handle):
    for kind in ("int8", "float8_e4m3fnuz"):
        problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(), FORWARD)
        for name in "QKVO":
            miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", TensorDescriptor(kind, (1, 2, 8,
                                                                                                               4)))
        with pytest.raises(MIOpenNotImplementedError, match="type"):
            miopyx.miopenFindSolutions(handle, problem, None, 1)
    with pytest.raises(BadParmError, match="no tensor of"):
        miopyx.miopenSetProblemTensorDescriptor(problem, "miopenTensorMhaDQ", TensorDescriptor("float32", (1, 2, 8, 4)))


def test_refused_calls(handle):
    desc = TensorDescriptor("float32", (1, 2, 8, 4))
    problem = miopyx.miopenCreateMhaProblem(MhaDescriptor(), FORWARD)
    for name in "QKVO":
        miopyx.miopenSetProblemTensorDescriptor(problem, f"miopenTensorMha{name}", desc)
    solution, = miopyx.miopenFindSolutions(handle, problem, None, 1)
    out = np.full(desc.lens, 7, "f4")
    memory = {name: handle.upload(np.ones(desc.lens, "f4")) for name in "QKV"} | {"O": handle.upload(out)}
    arguments = [(f"miopenTensorMha{name}", None, buffer) for name, buffer in memory.items()]

    def refused(arguments, parameter):
        with pytest.raises(BadParmError) as raised:
            miopyx.miopenRunSolution(handle, solution, len(arguments), arguments, None, 0)
        assert raised.value.parameter == parameter
        assert (handle.download(memory["O"], out) == 7).all()

    refused(arguments[:3], "tensors")
    refused([*arguments, (miopyx.miopenTensorMhaMask, None, 2)], "miopenTensorMhaMask")
    refused([*arguments, ("miopenTensorMhaM", None, memory["Q"])], "tensors[4]")
    refused([*arguments[:3], ("miopenTensorMhaO", None, memory["Q"])], "MhaQ")
    refused([*arguments[:3], ("miopenTensorMhaO", None, handle.upload(np.ones(8, "f4")))], "MhaO")
