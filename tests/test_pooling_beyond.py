"""Pooling beyond MIOpen's: dilations, pads of either end, ceil_mode, divisors and NaN, against loops in float64.

A sum of n terms in float32, or float64 for that type, with roundoff v, which is divided and then rounded by u to be
stored: (min(n, 64 + n / 64) + 2) v + u of the terms' magnitudes.  Maxima and their indices are exact.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from guarded import DTYPE, LAYOUTS, ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import PoolingDescriptor, TensorDescriptor
from miopyx.errors import BadParmError

TYPES = ("float32", "float16", "bfloat16", "float64")
MAX, AVERAGE, INCLUSIVE = range(3)
INDEX_TYPES = (np.uint8, np.uint16, np.uint32, np.uint64)


def draw(rng, kind):
    """Return a descriptor and the lengths of an x that it fits."""
    rank = int(rng.integers(2, 4))
    while True:
        windows, strides = rng.integers(1, 5, rank), rng.integers(1, 4, rank)
        dilations = rng.integers(1, 4, rank) if kind in ("dilated", "all") else np.ones(rank, int)
        reach = (windows - 1) * dilations + 1
        pads = rng.integers(0, reach)
        ends = rng.integers(0, reach) if kind in ("asymmetric", "all") else pads
        lens = rng.integers(1, 12, rank)
        if (lens + pads + ends >= reach).all():
            break
    mode = int(rng.integers(3))
    desc = PoolingDescriptor(
        mode, windows, pads, strides, index_type=int(rng.integers(1, 4)), index_mode=int(rng.integers(2)),
        dilations=dilations, end_pads=ends, ceil_mode=kind == "ceil" or (kind == "all" and bool(rng.integers(2))),
        divisor_override=int(rng.choice([-3, 2, 7])) if kind == "divisor" else None)
    return desc, (*map(int, rng.integers(1, 4, 1)), *map(int, rng.choice([1, 3, 8, 17], 1)), *map(int, lens))


def out_length(desc, length, axis):
    """PyTorch's rule."""
    reach = (desc.windows[axis] - 1) * desc.dilations[axis] + 1
    room = length + desc.pads[axis] + desc.end_pads[axis] - reach
    out = (-(-room // desc.strides[axis]) if desc.ceil_mode else room // desc.strides[axis]) + 1
    if desc.ceil_mode and (out - 1) * desc.strides[axis] >= length + desc.pads[axis]:
        out -= 1
    return max(out, 1)


def windows_of(desc, lens, out):
    """Yield each place of y, its taps that are in the image with their numbers in the window, and its divisor."""
    for place in itertools.product(*map(range, out)):
        axes = []
        for axis, o in enumerate(place):
            start = o * desc.strides[axis] - desc.pads[axis]
            at = [(t, start + t * desc.dilations[axis]) for t in range(desc.windows[axis])]
            inside = [(t, i) for t, i in at if 0 <= i < lens[axis]]
            padded = sum(i < lens[axis] + desc.end_pads[axis] for _, i in at)
            axes.append((inside, padded))
        taps = []
        for combination in itertools.product(*(inside for inside, _ in axes)):
            number = 0
            for (t, _), window in zip(combination, desc.windows, strict=True):
                number = number * window + t
            taps.append((number, tuple(i for _, i in combination)))
        if desc.divisor_override is not None:
            divisor = desc.divisor_override
        elif int(desc.pooling_mode) == INCLUSIVE:
            divisor = int(np.prod([padded for _, padded in axes]))
        else:
            divisor = max(len(taps), 1)
        yield place, taps, divisor


def check(handle, desc, lens, dtype, layout, rng):
    mode, image = int(desc.pooling_mode), int(desc.workspace_index_mode) == 1
    x_desc = TensorDescriptor(dtype, lens, strides_of(lens, layout))
    out = (*lens[:2], *(out_length(desc, length, axis) for axis, length in enumerate(lens[2:])))
    assert desc.output_lens(x_desc) == out
    y_desc = TensorDescriptor(dtype, out, strides_of(out, layout))
    propagates = bool(desc.nan_propagation)
    x = Tensor(handle, x_desc, special(rng, lens) if propagates else rng.standard_normal(lens))
    dy = Tensor(handle, y_desc, rng.standard_normal(out))
    y, dx = Tensor(handle, y_desc, None), Tensor(handle, x_desc, None)
    index_type = INDEX_TYPES[int(desc.workspace_index_type)]
    size = miopyx.miopenPoolingGetWorkSpaceSizeV2(desc, y_desc)
    places = Guarded(handle, size, 0xEE) if size else None
    memory = {name: None if t is None else t.argument()
              for name, t in (("x", x), ("y", y), ("dx", dx), ("dy", dy), ("places", places))}
    miopyx.miopenPoolingForward(handle, desc, 1, x_desc, memory["x"], 0, y_desc, memory["y"], True, memory["places"],
                                size)
    miopyx.miopenPoolingBackward(handle, desc, 1, y_desc, memory["y"], y_desc, memory["dy"], x_desc, memory["x"], 0,
                                 x_desc, memory["dx"], memory["places"])
    handle.finish()
    for tensor in (y, dx, *([places] if size else [])):
        tensor.fetch()
    values, gradient = x.view().astype("f8"), dy.view().astype("f8")
    want, want_dx = np.zeros(out), np.zeros(lens)
    terms, terms_dx, counts = np.zeros(out), np.zeros(lens), np.zeros(lens[2:])
    codes = np.zeros(out, np.int64)
    most = 1
    for place, taps, divisor in windows_of(desc, lens[2:], out[2:]):
        here = (..., *place)
        most = max(most, len(taps))
        if mode == MAX:
            want[here] = -np.inf
            which = np.zeros(out[:2], np.int64)
            for i, (_, at) in enumerate(taps):
                above = values[(..., *at)] > want[here]
                if propagates:  # the last one counts
                    above |= np.isnan(values[(..., *at)])
                want[here] = np.where(above, values[(..., *at)], want[here])
                which = np.where(above, i, which)
            for i, (number, at) in enumerate(taps):
                named = which == i
                codes[here] = np.where(named, np.ravel_multi_index(at, lens[2:]) if image else number, codes[here])
                share = np.where(named, gradient[here], 0)
                want_dx[(..., *at)] += share
                terms_dx[(..., *at)] += np.abs(share)
                counts[at] += 1
            continue
        for _, at in taps:
            want[here] += values[(..., *at)] / divisor
            terms[here] += np.abs(values[(..., *at)] / divisor)
            want_dx[(..., *at)] += gradient[here] / divisor
            terms_dx[(..., *at)] += np.abs(gradient[here] / divisor)
            counts[at] += 1
    v, u = ROUNDOFF["float64" if dtype == "float64" else "float32"], ROUNDOFF[dtype]
    for name, got, wanted, size_of, n in (("y", y, want, terms, most), ("dx", dx, want_dx, terms_dx, counts.max())):
        found = got.view().astype("f8")
        bound = 0 if name == "y" and mode == MAX else (min(n, 64 + n / 64) + 2) * v * size_of + u * np.abs(wanted)
        with np.errstate(invalid="ignore"):
            same = (found == wanted) | (propagates & np.isnan(found) & np.isnan(wanted))
            error = np.where(same, 0, np.abs(found - wanted))
        assert (error <= bound + (2.0**-24 if dtype == "float16" else 0)).all(), (name, desc, lens, layout)
    if mode == MAX:
        found = places.inner.view(index_type)
        if desc.indices_like_y:
            found = np.lib.stride_tricks.as_strided(found, out, [found.itemsize * step for step in y_desc.strides])
        assert (found.reshape(out) == codes).all(), (desc, lens, layout)


def special(rng, lens):
    """Return numbers with NaN and -inf among them, and a plane of each alone."""
    values = np.round(rng.standard_normal(lens) * 4) / 4
    for what, share in ((np.nan, rng.choice([0.02, 0.3])), (-np.inf, rng.choice([0.1, 0.9]))):
        values[rng.random(lens) < share] = what
    values[0, 0], values[-1, -1] = -np.inf, np.nan
    return values


# Lengths of x, windows, pads, strides, dilation.
WITH_NAN = [((2, 3, 9, 37), (3, 3), (1, 1), (1, 1), 1), ((1, 17, 12, 40), (3, 3), (1, 1), (2, 2), 1),
            ((2, 3, 8, 32), (2, 2), (0, 0), (2, 2), 1), ((2, 24, 7, 10), (3, 2), (1, 1), (2, 1), 1),
            ((2, 16, 6, 8), (5, 5), (2, 2), (1, 1), 1), ((2, 3, 6, 5), (2, 3), (1, 0), (3, 3), 2),
            ((2, 5, 9, 11), (6, 7), (3, 2), (4, 1), 1), ((2, 3, 9, 17), (9, 17), (0, 0), (1, 1), 1),
            ((1, 9, 4, 6, 8), (2, 2, 2), (1, 0, 1), (2, 2, 2), 1), ((2, 2, 5, 6, 7), (3,) * 3, (1,) * 3, (1, 2, 1), 1),
            ((3, 16, 5, 4), (5, 4), (0, 0), (1, 1), 1), ((2, 4, 1, 7), (1, 3), (0, 1), (1, 2), 1)]


def check_nan(handle, dtype, rng, count):
    for case in rng.permutation(len(WITH_NAN))[:count]:
        lens, windows, pads, strides, dilation = WITH_NAN[case]
        for layout in LAYOUTS:
            desc = PoolingDescriptor(
                "max", windows, pads, strides, int(rng.choice([1, 2, 3, 3])), int(rng.choice([0, 1, 1])),
                [dilation] * len(windows), ceil_mode=bool(rng.integers(2)), nan_propagation="propagate",
                indices_like_y=layout != "padded" and bool(rng.integers(4)))
            check(handle, desc, lens, dtype, layout, rng)


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_propagates(handle, dtype, rng, amount):
    check_nan(handle, dtype, rng, amount(4, len(WITH_NAN)))


@pytest.mark.parametrize("dtype", TYPES)
def test_nan_propagates_on_kernels_of_gpus(gpu, dtype, rng, amount):
    check_nan(gpu, dtype, rng, amount(3, len(WITH_NAN)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nan_without_indices(handle, layout, rng):
    for lens, windows, pads, strides, dilation in WITH_NAN:
        desc = PoolingDescriptor("max", windows, pads, strides, dilations=[dilation] * len(windows), nan_propagation=1)
        out = (*lens[:2], *(out_length(desc, length, axis) for axis, length in enumerate(lens[2:])))
        x_desc, y_desc = (TensorDescriptor("float32", t, strides_of(t, layout)) for t in (lens, out))
        values = special(rng, lens)
        x, y = Tensor(handle, x_desc, values), Tensor(handle, y_desc, None)
        handle.pooling_forward(desc, x_desc, y_desc)(x.argument(), y.argument())
        handle.finish()
        y.fetch()
        for place, taps, _ in windows_of(desc, lens[2:], out[2:]):
            inside = np.stack([values[(..., *at)] for _, at in taps])
            np.testing.assert_array_equal(y.view()[(..., *place)], inside.max(0))  # NumPy's maximum is NaN, too


# Lengths, window, pads, stride: of rows whose last vector begins before its end, planes as one row, whole planes.
ALL_CODES = (((1, 1, 256, 256), (3, 3), (1, 1), (2, 2)), ((1, 1, 256, 256), (2, 2), (0, 0), (2, 2)),
             ((1, 4, 91, 181), (3, 3), (1, 1), (1, 1)), ((2, 31, 33, 33), (3, 2), (1, 0), (2, 3)),
             ((16, 17, 16, 17), (16, 17), (0, 0), (16, 17)), ((1, 1, 20, 5000), (2, 3), (0, 1), (2, 2)))


@pytest.mark.parametrize("propagates", [False, True], ids=["above NaN", "NaN"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_code_of_16_bits(handle, dtype, propagates, rng):
    """Maxima and places among all numbers, subnormal ones, both zeros, infinities and every NaN."""
    for lens, windows, pads, strides in ALL_CODES:
        index_type = int(rng.integers(windows[0] * windows[1] > 254, 2))
        desc = PoolingDescriptor("max", windows, pads, strides, index_type=index_type, nan_propagation=int(propagates))
        out = (*lens[:2], *(out_length(desc, length, axis) for axis, length in enumerate(lens[2:])))
        layout = rng.choice(LAYOUTS)
        x_desc, y_desc = (TensorDescriptor(dtype, t, strides_of(t, layout)) for t in (lens, out))
        count = int(np.prod(lens))
        codes = rng.permutation(np.resize(np.arange(1 << 16, dtype=np.uint16), max(count, 1 << 16)))[:count]
        codes[rng.integers(0, count, count // 4)] = rng.choice([0, 0x8000, 0x7c01, 0xff81, 0xff80], count // 4)
        values = codes.view(DTYPE[dtype]).reshape(lens)
        size = miopyx.miopenPoolingGetWorkSpaceSizeV2(desc, y_desc)
        for places in (None, Guarded(handle, size, 0xEE)):
            x, y = Tensor(handle, x_desc, values), Tensor(handle, y_desc, None)
            miopyx.miopenPoolingForward(
                handle, desc, 1, x_desc, x.argument(), 0, y_desc, y.argument(), places is not None,
                None if places is None else places.argument(), 0 if places is None else size)
            handle.finish()
            for memory in (y, *([] if places is None else [places])):
                memory.fetch()
            check_maxima(values.astype("f4"), y.view().astype("f4"), desc, propagates,
                         None if places is None else places.inner.view(INDEX_TYPES[int(desc.workspace_index_type)]))


def check_maxima(x, y, desc, propagates, places):
    """Against a loop over taps, all windows of one at once."""
    pads, lens = desc.pads, x.shape[2:]
    room = [n + p + w for n, p, w in zip(lens, pads, desc.windows, strict=True)]
    wide = np.full((*x.shape[:2], *room), -np.inf, "f4")
    wide[:, :, pads[0]:pads[0] + lens[0], pads[1]:pads[1] + lens[1]] = x
    there = np.zeros(wide.shape[2:], bool)
    there[pads[0]:pads[0] + lens[0], pads[1]:pads[1] + lens[1]] = True
    best, code = np.full(y.shape, -np.inf, "f4"), np.full(y.shape, -1)
    for r, s in itertools.product(*map(range, desc.windows)):
        rows = slice(r, r + y.shape[2] * desc.strides[0], desc.strides[0])
        columns = slice(s, s + y.shape[3] * desc.strides[1], desc.strides[1])
        values = wide[:, :, rows, columns][:, :, :y.shape[2], :y.shape[3]]
        inside = np.broadcast_to(there[rows, columns][:y.shape[2], :y.shape[3]], y.shape)
        with np.errstate(invalid="ignore"):
            above = inside & ((values > best) | (propagates & (np.isnan(values) | (code < 0))))
        best, code = np.where(above, values, best), np.where(above, r * desc.windows[1] + s, code)
    np.testing.assert_array_equal(y, best)  # either zero, any NaN
    if places is not None:
        np.testing.assert_array_equal(places.reshape(y.shape), np.maximum(code, 0))


def test_indices_like_y_want_dense_elements(host):
    x, lens = TensorDescriptor("float32", (2, 3, 4, 4)), (2, 3, 2, 2)
    desc = PoolingDescriptor("max", (2, 2), None, (2, 2), indices_like_y=True)
    host.pooling_forward(desc, x, TensorDescriptor("float32", lens, strides_of(lens, "channels last")), True)
    padded = TensorDescriptor("float32", lens, strides_of(lens, "padded"))
    host.pooling_forward(desc, x, padded)  # there are none
    with pytest.raises(BadParmError, match="indices_like_y"):
        host.pooling_forward(desc, x, padded, True)


@pytest.mark.parametrize("kind", ["dilated", "asymmetric", "ceil", "divisor", "all"])
@pytest.mark.parametrize("dtype", TYPES)
def test_against_loops(handle, kind, dtype, rng, amount):
    for _ in range(amount(3, 40)):
        desc, lens = draw(rng, kind)
        check(handle, desc, lens, dtype, LAYOUTS[rng.integers(len(LAYOUTS))], rng)


@pytest.mark.parametrize("kind", ["asymmetric", "ceil", "all"])
def test_kernels_of_gpus(gpu, kind, rng, amount):
    for _ in range(amount(2, 60)):
        desc, lens = draw(rng, kind)
        check(gpu, desc, lens, "float32", LAYOUTS[rng.integers(len(LAYOUTS))], rng)


@pytest.mark.some(1, host=2)
@pytest.mark.parametrize("ceil", [False, True])
def test_networks(handle, ceil, rng):
    """Windows of 2 and 3 with strides of 2, as networks have them, on odd and even images of many channels."""
    check_networks(handle, ceil, rng)


@pytest.mark.some(1)
@pytest.mark.parametrize("ceil", [False, True])
def test_networks_on_kernels_of_gpus(gpu, ceil, rng):
    check_networks(gpu, ceil, rng)


def check_networks(handle, ceil, rng):
    for window, pads, ends, length in ((3, 0, 0, 13), (3, 0, 0, 12), (2, 0, 0, 7), (3, 1, 1, 14), (3, 0, 1, 14),
                                       (2, 0, 1, 15), (3, 1, 1, 32)):
        for mode in range(3):
            desc = PoolingDescriptor(mode, (window,) * 2, (pads,) * 2, (2, 2), end_pads=(ends,) * 2, ceil_mode=ceil)
            check(handle, desc, (2, 16, length, length + 3), "float32", LAYOUTS[rng.integers(2)], rng)


@pytest.mark.parametrize("lens", [(2, 3, 12, 33), (2, 3, 12, 34), (2, 3, 13, 34), (2, 3, 2, 40)], ids=str)
def test_last_windows_at_the_end_of_an_image(handle, lens, rng):
    for index_mode in (0, 1):
        for end, ceil in ((1, True), (0, False), (2, False)):
            desc = PoolingDescriptor("max", (3, 3), (1, 1), (2, 2), 1, index_mode, end_pads=(min(lens[2], end), end),
                                     ceil_mode=ceil)
            check(handle, desc, lens, "float32", "packed", rng)


def test_what_is_said():
    desc = PoolingDescriptor("max", (3, 3), (2, 1), (2, 2), dilations=(2, 1), end_pads=(0, 2), ceil_mode=True)
    assert (desc.pads, desc.end_pads, desc.dilations) == ((2, 1), (0, 2), (2, 1))
    assert desc.ceil_mode
    assert desc.divisor_override is None
    assert repr(desc).endswith("dilations=(2, 1), end_pads=(0, 2), ceil_mode=True)")
    desc = PoolingDescriptor("max", (3, 3), nan_propagation="propagate", indices_like_y=True)
    assert desc.nan_propagation is miopyx.MIOPEN_PROPAGATE_NAN
    assert desc.indices_like_y
    assert repr(desc).endswith("indices_like_y=True, nan_propagation='MIOPEN_PROPAGATE_NAN')")
    for bad in (dict(nan_propagation=2), dict(nan_propagation=True), dict(indices_like_y=2)):
        with pytest.raises(BadParmError):
            PoolingDescriptor("max", (3, 3), **bad)
    miopyx.miopenSet2dPoolingDescriptor(desc, "average", 3, 3, 1, 1, 2, 2)
    assert (desc.nan_propagation, desc.indices_like_y) == (0, False)
    assert (desc.dilations, desc.end_pads, desc.ceil_mode) == ((1, 1), (1, 1), False)
    miopyx.miopenSetNdPoolingDescriptor(desc, "average", 2, (3, 3), (1, 1), (2, 2), endPadA=(2, 2), divisor_override=5)
    assert (desc.end_pads, desc.divisor_override) == ((2, 2), 5)
    for bad in (dict(dilationA=(0, 1)), dict(endPadA=(3, 0)), dict(endPadA=(-1, 0)), dict(divisor_override=0),
                dict(dilationA=(1,)), dict(ceil_mode=2), dict(divisor_override=1.5)):
        with pytest.raises(BadParmError):
            miopyx.miopenSetNdPoolingDescriptor(desc, "average", 2, (3, 3), (1, 1), (2, 2), **bad)
    assert (desc.end_pads, desc.divisor_override) == ((2, 2), 5)


def test_windows_that_do_not_fit(host):
    x = TensorDescriptor("float32", (1, 1, 8, 8))
    for ceil in (False, True):
        wide = PoolingDescriptor("max", (3, 3), dilations=(4, 1), ceil_mode=ceil)
        y = TensorDescriptor("float32", wide.output_lens(x))
        with pytest.raises(BadParmError, match="larger than the padded input"):
            host.pooling_forward(wide, x, y)
