"""Verification: MIOpenDriver's error measure, solvers' own bounds, and a convolution in NumPy without any code of ours.

Results of a device are compared with the host path's: the RMS error, and every element with the bound that its solver
declares.  Results of the host path itself meet two checks
in float64 NumPy: some elements computed from the definition, and projections that no element escapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .data import Array
from .problem import Direction, Geometry, Sizes

Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]

SAMPLES = 4096
# One combined filter or channel stands for so many: the check costs a sixteenth of the convolution, and an error in
# one element is not lost in the rounding of more than fifteen others.
BLOCK = 16
# A distribution of errors whose RMS is at the limit has no honest element beyond eight of it.  Without this one wrong
# element among millions would pass the limits of the 16-bit types.
SINGLE = 8.0
_CHUNK = 1 << 22


class Check(NamedTuple):
    """A verdict: `error` against `tolerance`, and which reference said so; `note` where it is not the RMS error."""

    ok: bool
    error: float
    tolerance: float
    reference: str
    note: str = ""

    def line(self, title: str) -> str:
        """Return the line that MIOpenDriver prints."""
        if self.ok:
            return f"{title} Verifies OK on {self.reference} reference ({self.error:g} < {self.tolerance:g})"
        return f"{title} FAILED: {self.error:g} > {self.tolerance:g}" + (f" ({self.note})" if self.note else "")


def tolerance(dtype: str, direction: Direction | None = None, mixes_tiles: bool = False,
              transpose: bool = False, rounds: bool = False) -> float:
    """Return the limit of the RMS error; `direction` None is for the bias functions.

    It is MIOpenDriver's for direct algorithms; ten times that is for solvers whose errors belong to tiles, whatever
    the direction.  MIOpenDriver allows that and more, up to 0.01, to implicit GEMM as well, whose sums are no other.
    float64, which MIOpenDriver does not have, gets 1e-12: sums of a million products in any order stay far below it.
    Of float8 no element may be more than a step of the type away, since sums that differ in their last bits may be
    rounded to either side; steps are those of the largest element.  Where factors of float32 may be rounded to 11 bits
    (`rounds`) both are off by up to 2**-11; every element is compared with the bound of the solver that ran besides.
    """
    limit = {"float32": 1.5e-6, "int8": 1.5e-6, "float16": 8.2e-3, "bfloat16": 8 * 8.2e-3, "float64": 1e-12,
             "float8_e4m3fnuz": 2**-3 / SINGLE, "float8_e5m2fnuz": 2**-2 / SINGLE,
             "float8_e4m3fn": 2**-3 / SINGLE, "float8_e5m2": 2**-2 / SINGLE}[dtype]
    if direction is None:
        return limit
    if direction.short == "wrw":
        limit *= 4 if dtype == "float32" and transpose else 2
    if mixes_tiles and dtype == "float32":
        limit *= 10
    return max(limit, 2**-10) if rounds and dtype == "float32" else limit


class _Difference:
    """sqrt(sum of squares / n) and the largest difference, both relative to the largest value of either side."""

    def __init__(self) -> None:
        self.squares, self.count, self.value, self.largest = 0.0, 0, float(np.finfo(np.float64).tiny), 0.0

    def add(self, a: Array, b: Array) -> None:
        x, y = a.astype(np.float64), b.astype(np.float64)
        # NaN goes through np.max and the sums alike, and must.
        self.value = float(np.max([self.value, np.max(np.abs(x)), np.max(np.abs(y))]))
        x -= y
        np.abs(x, out=x)
        self.largest = float(np.max([self.largest, np.max(x)]))
        self.squares += float(np.dot(x, x))
        self.count += x.size

    @property
    def rms(self) -> float:
        with np.errstate(invalid="ignore"):  # inf / inf
            return float(np.sqrt(self.squares / self.count) / np.float64(self.value))

    @property
    def single(self) -> float:
        with np.errstate(invalid="ignore"):
            return float(np.float64(self.largest) / self.value)


def compare(result: Array, reference: Array, limit: float, name: str) -> Check:
    """Compare all elements of two flat arrays.  Integers must agree exactly, whatever the limit."""
    difference = _Difference()
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf
        for start in range(0, result.size, _CHUNK):
            difference.add(result[start:start + _CHUNK], reference[start:start + _CHUNK])
    single = 0.0 if result.dtype.kind == "i" else SINGLE * limit
    if not difference.rms <= limit:
        return Check(False, difference.rms, limit, name)
    if not difference.single <= single:
        return Check(False, difference.single, single, name, "largest error of one element")
    return Check(True, difference.rms, limit, name)


def compare_elements(check: Check, result: Array, reference: Array, sums: Doubles, bound: float) -> Check:
    """Return `check`, or a failure if an element is off by more than `bound` times its sum of magnitudes.

    `result`, `reference` and the `sums`, which broadcast, are indexed by n, c ...; integers were compared already.
    """
    if not check.ok or result.dtype.kind == "i":
        return check
    least = float(ml_dtypes.finfo(result.dtype).smallest_subnormal)  # type: ignore[no-untyped-call]
    sums, worst = np.broadcast_to(sums, result.shape), 0.0
    for one, other, limit in zip(result, reference, sums, strict=True):
        difference = np.abs(one.astype(np.float64) - other.astype(np.float64))
        worst = float(np.max([worst, np.max(difference / (bound * limit + least))]))  # NaN goes through
    if worst <= 1.0:
        return check
    return Check(False, worst, 1.0, check.reference, "largest error of one element, in units of its solver's bound")


def magnitudes(geometry: Geometry, computed: str, a: Array, w: Array, b: Array) -> Doubles:
    """Bound the sums of the magnitudes of an element's products, for the one of a, w and b that is computed.

    That one is not read.
    One factor counts as large as its largest element, so that it takes no convolution, and bounds the sums of whole
    tiles, too.  Channels have their own.
    """
    g, spatial = geometry, (1,) * len(geometry.filter)
    by_k: Doubles
    by_c: Doubles

    def sums(values: Array, axes: tuple[int, ...]) -> Doubles:
        total: Doubles = np.sum([np.abs(part.astype(np.float64)).sum(axes) for part in values], axis=0)
        return total

    pixels = tuple(range(1, 1 + len(spatial)))
    if computed == "b":
        by_k = np.abs(w.astype(np.float64)).reshape(g.k, -1).sum(1) * _largest(a)
        by_k = by_k.reshape(1, g.k, *spatial)
        return by_k
    if computed == "a":
        grouped = np.abs(w.astype(np.float64)).reshape(g.groups, g.k // g.groups, g.c // g.groups, -1)
        by_c = (grouped.sum((1, 3)) * _largest(b)).reshape(1, g.c, *spatial)
        return by_c
    by_k = sums(b, pixels) * _largest(a)
    by_c = (sums(a, pixels) * _largest(b)).reshape(g.groups, 1, g.c // g.groups)
    both: Doubles = np.minimum(by_k.reshape(g.groups, g.k // g.groups, 1), by_c)
    return both.reshape(g.k, g.c // g.groups, *spatial)


def check_independently(geometry: Geometry, computed: str, a: Array, w: Array, b: Array, limit: float,
                        seed: int) -> Check:
    """Verify the one of a, w and b that was computed from the two others (see Geometry), in NumPy's float64.

    4,096 elements drawn at random are computed from the definition; their RMS error counts.  Then filters (or, for
    backward data, channels) are combined with random weights, sixteen to one, the convolution is linear in them, so
    its result must be the same combination of the result that is verified: every element takes part.

    The bound of that comparison is rigorous.  An element is the exact value rounded to its type, which is off by at
    most u |value| (2 u of 8 bits); sums of m products in float64, in whatever order, by at most m 2**-53 times the sum
    of their magnitudes, here and there.  Integers are exact.
    """
    out = {"a": a, "w": w, "b": b}[computed]
    if not all(np.isfinite(part).all() for part in out):
        return Check(False, float("nan"), limit, "CPU", "not a finite number")
    rng = np.random.default_rng(seed)
    total = out.size
    flat = np.arange(total) if total <= SAMPLES else np.sort(rng.integers(total, size=SAMPLES))
    at = np.unravel_index(flat, out.shape)
    direct = {"a": _elements_of_a, "w": _elements_of_w, "b": _elements_of_b}[computed]
    sampled = compare(out[at], direct(geometry, a, w, b, at), limit, "CPU")
    if not sampled.ok:
        return sampled
    project = {"a": _project_a, "w": _project_w, "b": _project_b}[computed]
    ratio = project(geometry, a, w, b, rng)
    if not ratio <= 1.0:
        return Check(False, ratio, 1.0, "CPU", "projection of all elements, in units of its bound")
    return sampled


# ------------------------------------------------------------------------------------ elements from the definition


def _chunks(at: tuple[Indices, ...], size: int) -> Iterator[tuple[slice, tuple[Indices, ...]]]:
    for start in range(0, len(at[0]), size):
        part = slice(start, start + size)
        yield part, tuple(index[part] for index in at)


def _elements_of_b(g: Geometry, a: Array, w: Array, b: Array, at: tuple[Indices, ...]) -> Doubles:
    """b[n, k, o] = sum over c and taps t of a[n, c, o stride - pad + t dilation] w[k, c, t]."""
    per_group = g.c // g.groups
    grouped = a.reshape(g.n, g.groups, per_group, *g.input)
    out = np.zeros(len(at[0]))
    for part, (n, k, *o) in _chunks(at, 512):
        group = k // (g.k // g.groups)
        for tap in np.ndindex(*g.filter):
            i = [p * s - q + t * d for p, s, q, t, d in zip(o, g.stride, g.pad, tap, g.dilation, strict=True)]
            inside = np.flatnonzero(np.all([(p >= 0) & (p < size) for p, size in zip(i, g.input, strict=True)], 0))
            if inside.size:
                values = grouped[(n[inside], group[inside], slice(None), *(p[inside] for p in i))].astype(np.float64)
                weights = w[(k[inside], slice(None), *tap)].astype(np.float64)
                out[part][inside] += np.einsum("sc,sc->s", values, weights)
    return out


def _elements_of_a(g: Geometry, a: Array, w: Array, b: Array, at: tuple[Indices, ...]) -> Doubles:
    """a[n, c, i] = sum over k and taps t of b[n, k, o] w[k, c, t] where o stride = i + pad - t dilation."""
    per_group = g.k // g.groups
    grouped = b.reshape(g.n, g.groups, per_group, *g.output)
    filters = w.reshape(g.groups, per_group, g.c // g.groups, *g.filter)
    out = np.zeros(len(at[0]))
    for part, (n, c, *i) in _chunks(at, 512):
        group, channel = np.divmod(c, g.c // g.groups)
        for tap in np.ndindex(*g.filter):
            reach = [p + q - t * d for p, q, t, d in zip(i, g.pad, tap, g.dilation, strict=True)]
            o = [r // s for r, s in zip(reach, g.stride, strict=True)]
            inside = np.flatnonzero(np.all([(r % s == 0) & (p >= 0) & (p < size) for r, s, p, size
                                            in zip(reach, g.stride, o, g.output, strict=True)], 0))
            if inside.size:
                values = grouped[(n[inside], group[inside], slice(None), *(p[inside] for p in o))].astype(np.float64)
                weights = filters[(group[inside], slice(None), channel[inside], *tap)].astype(np.float64)
                out[part][inside] += np.einsum("sk,sk->s", values, weights)
    return out


def _elements_of_w(g: Geometry, a: Array, w: Array, b: Array, at: tuple[Indices, ...]) -> Doubles:
    """w[k, c, t] = sum over n and o of a[n, c, o stride - pad + t dilation] b[n, k, o]."""
    out = np.zeros(len(at[0]))
    k_per_group, c_per_group = g.k // g.groups, g.c // g.groups
    for sample, (k, c, *tap) in enumerate(zip(*at, strict=True)):
        channel = k // k_per_group * c_per_group + c
        from_b, from_a = [], []
        for t, size, extent, p, s, d in zip(tap, g.input, g.output, g.pad, g.stride, g.dilation, strict=True):
            shift = int(t) * d - p  # position in a of output 0
            first = max(0, -(shift // s))
            count = max(0, min(extent, -(-(size - shift) // s)) - first)
            from_b.append(slice(first, first + count))
            from_a.append(slice(shift + first * s, shift + first * s + count * s, s))
        values = a[(slice(None), channel, *from_a)].astype(np.float64)
        out[sample] = np.vdot(values, b[(slice(None), k, *from_b)].astype(np.float64))
    return out


# ------------------------------------------------------------------------------------------------------ projections


class _Combination:
    """Random weights that combine blocks of at most sixteen of an axis, within groups.

    The weights are integers of magnitude 64 ... 127: no element is ever hidden, errors that cancel would have to
    know them, and combinations of integers stay exact.
    """

    def __init__(self, rng: np.random.Generator, groups: int, per_group: int) -> None:
        self.weights = rng.integers(64, 128, size=(groups, per_group)) * rng.choice([-1.0, 1.0], (groups, per_group))
        self.starts = np.arange(0, per_group, BLOCK)

    def of(self, values: Array, magnitude: bool = False) -> Doubles:
        """Combine axis 1 of values (groups, per group, ...); with `magnitude` add up what the terms amount to."""
        weighted = values * self.weights.reshape(self.weights.shape + (1,) * (values.ndim - 2))
        if magnitude:
            np.abs(weighted, out=weighted)
        combined: Doubles = np.add.reduceat(weighted, self.starts, axis=1)
        return combined

    @property
    def largest(self) -> float:
        return float(np.abs(self.weights).sum(axis=1).max())


def _rounding(out: Array) -> tuple[float, float]:
    """Return the relative and the absolute rounding error of one element: (0, 0) for integers.

    1.01 covers a value that is rounded to float32 first and then to a narrower type.  Types of 8 bits are rounded at
    random, to either neighbour.
    """
    if out.dtype.kind == "i":
        return 0.0, 0.0
    info = ml_dtypes.finfo(out.dtype)  # type: ignore[no-untyped-call]
    return 1.01 * float(info.eps) / (1 if out.itemsize == 1 else 2), float(info.smallest_subnormal)


def _bound(out: Array, magnitudes: Doubles, combination: _Combination, terms: int, sums: Doubles) -> Doubles:
    """Return how far combinations may be off: `magnitudes` are those of the result's terms, and `sums` bounds the sum
    of the magnitudes of the `terms` products behind one combination; both broadcast."""
    if out.dtype.kind == "i":
        return np.float64(0.25) + 0 * magnitudes
    relative, absolute = _rounding(out)
    inexact = 2.0 * (terms + 2 * BLOCK) * 2.0**-53
    bound: Doubles = relative * magnitudes + absolute * combination.largest + inexact * sums
    return bound


def _ratio(result: Doubles, expected: Doubles, bound: Doubles) -> float:
    difference = np.abs(result - expected)
    # A bound of 0 belongs to terms that are all 0.
    with np.errstate(over="ignore"):
        return float(np.max(np.where(difference == 0, 0.0, difference / np.where(bound == 0, 1e-300, bound))))


def _extents(g: Geometry) -> Sizes:
    """Return the padded input's extents: all that any tap of any output touches, and all of the input."""
    return tuple(max((o - 1) * s + (f - 1) * d + 1, p + i) for i, o, f, p, s, d in zip(
        g.input, g.output, g.filter, g.pad, g.stride, g.dilation, strict=True))


def _interior(g: Geometry) -> tuple[slice, ...]:
    return tuple(slice(p, p + i) for p, i in zip(g.pad, g.input, strict=True))


def _taps(g: Geometry) -> Iterator[tuple[tuple[Any, ...], tuple[slice, ...]]]:
    """Yield for each tap its index into filters and the slices of the padded input that it meets."""
    for tap in np.ndindex(*g.filter):
        window = tuple(slice(t * d, t * d + (o - 1) * s + 1, s)
                       for t, o, s, d in zip(tap, g.output, g.stride, g.dilation, strict=True))
        yield (..., *tap), window


def _padded(g: Geometry, image: Array) -> Doubles:
    padded = np.zeros((g.groups, g.c // g.groups, *_extents(g)))
    padded[(slice(None), slice(None), *_interior(g))] = image.reshape(g.groups, g.c // g.groups, *g.input)
    return padded


def _largest(values: Array) -> float:
    return max(float(np.abs(part.astype(np.float64)).max()) for part in values)


def _project_b(g: Geometry, a: Array, w: Array, b: Array, rng: np.random.Generator) -> float:
    """Combine filters: conv(a, sum of r_k w_k) = sum of r_k b_k."""
    combination = _Combination(rng, g.groups, g.k // g.groups)
    grouped = w.reshape(g.groups, g.k // g.groups, g.c // g.groups, *g.filter).astype(np.float64)
    filters = combination.of(grouped)
    sums = combination.of(grouped, True).reshape(g.groups, len(combination.starts), -1).sum(2)[..., None] * _largest(a)
    terms = g.c // g.groups * prod(g.filter)
    worst = 0.0
    for image, result in zip(a, b, strict=True):
        padded = _padded(g, image)
        expected = np.zeros((g.groups, len(combination.starts), prod(g.output)))
        for tap, window in _taps(g):
            values = padded[(slice(None), slice(None), *window)].reshape(g.groups, g.c // g.groups, -1)
            expected += filters[tap] @ values
        doubles = result.reshape(g.groups, g.k // g.groups, -1).astype(np.float64)
        bound = _bound(b, combination.of(doubles, True), combination, terms, sums)
        worst = max(worst, _ratio(combination.of(doubles), expected, bound))
    return worst


def _project_a(g: Geometry, a: Array, w: Array, b: Array, rng: np.random.Generator) -> float:
    """Combine channels: what the filters' combined channels scatter = sum of r_c a_c."""
    combination = _Combination(rng, g.groups, g.c // g.groups)
    grouped = w.reshape(g.groups, g.k // g.groups, g.c // g.groups, *g.filter).astype(np.float64)
    by_channel = np.moveaxis(grouped, 1, 2)  # groups, c, k, taps
    filters = combination.of(by_channel)
    sums = combination.of(by_channel, True).reshape(g.groups, len(combination.starts), -1).sum(2)[..., None]
    sums *= _largest(b)
    terms = g.k // g.groups * prod(g.filter)
    blocks = len(combination.starts)
    worst = 0.0
    for image, gradient in zip(a, b, strict=True):
        values = gradient.reshape(g.groups, g.k // g.groups, -1).astype(np.float64)
        scattered = np.zeros((g.groups, blocks, *_extents(g)))
        for tap, window in _taps(g):
            product = filters[tap] @ values
            scattered[(slice(None), slice(None), *window)] += product.reshape(g.groups, blocks, *g.output)
        expected = scattered[(slice(None), slice(None), *_interior(g))].reshape(g.groups, blocks, -1)
        doubles = image.reshape(g.groups, g.c // g.groups, -1).astype(np.float64)
        bound = _bound(a, combination.of(doubles, True), combination, terms, sums)
        worst = max(worst, _ratio(combination.of(doubles), expected, bound))
    return worst


def _project_w(g: Geometry, a: Array, w: Array, b: Array, rng: np.random.Generator) -> float:
    """Combine output channels: correlating a with sum of r_k b_k = sum of r_k w_k."""
    combination = _Combination(rng, g.groups, g.k // g.groups)
    blocks, channels = len(combination.starts), g.c // g.groups
    expected = np.zeros((g.groups, blocks, channels, *g.filter))
    sums = np.zeros((g.groups, blocks))
    for image, gradient in zip(a, b, strict=True):
        padded = _padded(g, image)
        doubles = gradient.reshape(g.groups, g.k // g.groups, -1).astype(np.float64)
        combined = combination.of(doubles)
        sums += combination.of(doubles, True).sum(2)
        for tap, window in _taps(g):
            values = padded[(slice(None), slice(None), *window)].reshape(g.groups, channels, -1)
            expected[tap] += combined @ values.transpose(0, 2, 1)
    doubles = w.reshape(g.groups, g.k // g.groups, channels, *g.filter).astype(np.float64)
    sums = (sums * _largest(a)).reshape(g.groups, blocks, 1, *(1,) * len(g.filter))
    bound = _bound(w, combination.of(doubles, True), combination, g.n * prod(g.output), sums)
    return _ratio(combination.of(doubles), expected, bound)


# ------------------------------------------------------------------------------------------------------------- bias


def bias_added(y: Array, bias: Array) -> Doubles:
    """Return y + b for y (n, k, ...) and b (1, k, 1 ...)."""
    added: Doubles = y.astype(np.float64) + bias.astype(np.float64)
    return added


def bias_gradient(dy: Array) -> Doubles:
    """Return the sums of dy (n, k, ...) over all but the channels."""
    return np.array([float(dy[:, k].astype(np.float64).sum()) for k in range(dy.shape[1])])
