"""Dropout: masks word for word, scaling, states that go on, are saved and come back, types, strides and refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from guarded import LAYOUTS, ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import DropoutDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

TYPES = ("float32", "float16", "bfloat16", "float64")
STATES = 1 << 15
MANY = 2**64 - 1


def philox(counter, masks, seed):
    """Philox 4x32-10 as its paper writes it: one counter of four words, made of two of 64 bits."""
    words = [counter & 0xFFFFFFFF, counter >> 32, masks & 0xFFFFFFFF, masks >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        one, two = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [(two >> 32) ^ words[1] ^ key[0], two & 0xFFFFFFFF, (one >> 32) ^ words[3] ^ key[1], one & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def test_the_reference_is_philox():
    """The known answers that Random123 is tested with."""
    assert philox(0, 0, 0) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
    assert philox(MANY, MANY, MANY) == [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
    assert philox(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822) == [
        0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]


def mask_of(count, p, seed, masks=0):
    words = np.array([philox(i, masks, seed) for i in range((count + 3) // 4)], np.uint64).reshape(-1)[:count]
    return words >> 8 >= np.floor(np.float32(p) * 2.0**24)


class Dropout:
    """A descriptor with its states, and memory of a size."""

    def __init__(self, handle, lens, dtype="float32", p=0.5, seed=1, layouts=("packed", "packed"), evolves=False,
                 use_mask=False, shift=0, rng=None):
        self.handle, self.lens, self.dtype, self.p, self.seed, self.shift = handle, lens, dtype, p, seed, shift
        self.count = int(np.prod(lens))
        self.desc = miopyx.miopenCreateDropoutDescriptor()
        assert miopyx.miopenDropoutGetStatesSize(handle) == STATES
        self.states = Guarded(handle, STATES, 0xFF)
        self.given = self.states.argument()
        miopyx.miopenSetDropoutDescriptor(self.desc, handle, p, self.given, STATES, seed, use_mask, evolves, 0)
        rng = rng or np.random.default_rng(3)
        self.x_desc, self.y_desc = (TensorDescriptor(dtype, lens, strides_of(lens, layout)) for layout in layouts)
        self.x = Tensor(handle, self.x_desc, rng.standard_normal(lens), shift)
        assert miopyx.miopenDropoutGetReserveSpaceSize(self.x_desc) == self.count

    def run(self, mask=None, backward=False, reserve=True, x=None, y=None):
        """Return y and the bytes of the mask."""
        x, kept = x or self.x, Guarded(self.handle, self.count, 0xFF, 1) if reserve else None
        y = y or Tensor(self.handle, self.y_desc, None, self.shift)
        if mask is not None:
            kept.inner[...] = mask
        given = x.argument()
        output = given if y is x else y.argument()
        function = miopyx.miopenDropoutBackward if backward else miopyx.miopenDropoutForward
        function(self.handle, self.desc, self.x_desc, x.desc, given, y.desc, output,
                 kept.argument() if kept else None, self.count if kept else 0)
        self.handle.finish()
        return y, kept.fetch() if kept else None

    def check(self, y, stays, x=None):
        x = (self.x.view() if x is None else x).astype(np.float64)
        scale = 0.0 if self.p == 1 else 1 / (1 - np.float64(np.float32(self.p)))
        want = np.where(stays.reshape(self.lens), x * scale, 0.0)
        u, v = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        got = y.values()
        assert (np.abs(got - want) <= (u + 2 * v) * np.abs(want) + 2.0**-25).all()
        assert (got[~stays.reshape(self.lens)] == 0).all()

    def numbers(self):
        """The states as they are now."""
        states = self.states.fetch().view(np.uint64).reshape(-1, 2)
        assert (states == states[0]).all()
        seed, last = map(int, states[0])
        return seed, (last - seed) % 2**64


def usable(handle, dtype):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")


def lens_of(rng):
    rank = int(rng.integers(1, 6))
    return tuple(map(int, rng.integers(1, (3000, 70, 20, 9, 6)[rank - 1], rank)))


def check_problem(handle, dtype, lens, rng, **how):
    seed = int(rng.integers(0, 2**64, dtype=np.uint64))
    p = (0.0, 0.1, 0.5, 0.9, 1.0, float(rng.random()))[rng.integers(6)]
    problem = Dropout(handle, lens, dtype, p, seed, rng=rng, **how)
    stays = mask_of(problem.count, p, seed)
    y, mask = problem.run()
    np.testing.assert_array_equal(mask, stays.astype(np.uint8))
    problem.check(y, stays)
    y, _ = problem.run(reserve=False)
    problem.check(y, stays)
    for given in (mask, mask * 7):
        y, kept = problem.run(given, backward=True)
        problem.check(y, stays)
        np.testing.assert_array_equal(kept, given)
    y, _ = problem.run(backward=True, reserve=False)
    problem.check(y, stays)
    assert problem.numbers() == (seed, 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    usable(handle, dtype)
    for _ in range(amount(2, 8)):
        check_problem(handle, dtype, lens_of(rng), rng, layouts=[LAYOUTS[i] for i in rng.integers(0, 3, 2)])


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    usable(gpu, dtype)
    for _ in range(amount(2, 6)):
        check_problem(gpu, dtype, lens_of(rng), rng, layouts=[LAYOUTS[i] for i in rng.integers(0, 3, 2)])


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("lens", [(1,), (3,), (64,), (65,), (4, 63), (3, 5, 129), (20000,), (2, 4, 4, 64)])
def test_sizes(handle, gpu, lens, on_gpu, rng):
    check_problem(gpu if on_gpu else handle, ("float32", "float16")[rng.integers(2)], lens, rng)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_misaligned(handle, gpu, on_gpu, rng):
    for dtype, shift in (("float32", 4), ("float16", 2)):
        check_problem(gpu if on_gpu else handle, dtype, (700,), rng, shift=shift)


def test_all_devices_have_the_same_mask(host, handle, gpu):
    """Whatever the groups are, of tensors that need many."""
    masks = []
    for where in (host, handle, gpu):
        problem = Dropout(where, (3, 100_003), p=0.3, seed=77, evolves=True)
        problem.run()
        y, mask = problem.run()
        problem.check(y, mask != 0)
        masks.append(mask)
    np.testing.assert_array_equal(masks[1], masks[0])
    np.testing.assert_array_equal(masks[2], masks[0])


@pytest.mark.parametrize("on_gpu", [False, True])
def test_statistics(handle, gpu, on_gpu):
    """The share that stays, and that neighbours and masks are independent: each within five standard deviations."""
    n = 1 << 18
    for p in (0.1, 0.5, 0.75):
        problem = Dropout(gpu if on_gpu else handle, (n,), p=p, seed=2024, evolves=True)
        first, second = (problem.run()[1].astype(np.float64) for _ in range(2))
        q = 1 - p
        for bits in (first, second):
            assert abs(bits.mean() - q) < 5 * np.sqrt(p * q / n)
        for one, two in ((first, second), (first[1:], first[:-1]), (first[4:], first[:-4]), (first[64:], first[:-64])):
            assert abs(((one - q) * (two - q)).mean()) < 5 * p * q / np.sqrt(len(one))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_states_go_on_and_come_back(handle, gpu, on_gpu):
    where = gpu if on_gpu else handle
    problem = Dropout(where, (5000,), seed=MANY - 3, evolves=True)
    masks = [problem.run()[1].copy() for _ in range(3)]
    for i, mask in enumerate(masks):
        np.testing.assert_array_equal(mask, mask_of(5000, 0.5, MANY - 3, i).astype(np.uint8))
    assert problem.numbers() == (MANY - 3, 3)
    saved = problem.states.inner.copy()
    next_ones = [problem.run()[1].copy() for _ in range(2)]
    assert problem.numbers() == (MANY - 3, 5)
    problem.states.inner[...] = saved
    problem.given = problem.states.argument()
    miopyx.miopenRestoreDropoutDescriptor(problem.desc, where, 0.5, problem.given, STATES, 0, False, True, 0)
    for mask in next_ones:
        np.testing.assert_array_equal(problem.run()[1], mask)
    # A small tensor and a mask that is given: the one counts, the other does not.
    small = Tensor(where, TensorDescriptor("float32", (3,)), np.ones(3))
    out = Tensor(where, small.desc, None)
    miopyx.miopenDropoutForward(where, problem.desc, small.desc, small.desc, small.argument(), small.desc,
                                out.argument(), None, 0)
    problem.run(next_ones[0], backward=True)
    where.finish()
    assert problem.numbers() == (MANY - 3, 6)
    miopyx.miopenSetDropoutDescriptor(problem.desc, where, 0.5, problem.given, STATES, MANY - 3, False, True, 0)
    np.testing.assert_array_equal(problem.run()[1], masks[0])


def test_without_evolution_masks_are_the_same(handle):
    problem = Dropout(handle, (400,))
    np.testing.assert_array_equal(problem.run()[1], problem.run()[1])


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_mask_of_the_users(handle, gpu, on_gpu, rng):
    problem = Dropout(gpu if on_gpu else handle, (3, 70), p=0.25, use_mask=True)
    mask = rng.integers(0, 3, 210).astype(np.uint8)
    y, kept = problem.run(mask)
    problem.check(y, mask != 0)
    np.testing.assert_array_equal(kept, mask)
    with pytest.raises(UnknownError, match="Insufficient reservespace"):
        problem.run(reserve=False)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_what_is_dropped_is_zero(handle, gpu, on_gpu):
    """NaN and infinity, too, and where nothing stays."""
    for p in (0.5, 1.0):
        problem = Dropout(gpu if on_gpu else handle, (256,), p=p)
        problem.x.view()[::2] = np.nan
        problem.x.view()[1::4] = np.inf
        y, mask = problem.run()
        got = y.values()
        assert (got[mask == 0] == 0).all()
        assert np.isnan(got[(mask != 0) & (np.arange(256) % 2 == 0)]).all()
        assert p < 1 or not mask.any()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_in_place(handle, gpu, on_gpu):
    where = gpu if on_gpu else handle
    for layouts in (("packed",) * 2, ("padded",) * 2):
        problem = Dropout(where, (5, 100), layouts=layouts)
        before = problem.x.view().astype(np.float64).copy()
        y, mask = problem.run(y=problem.x)
        problem.check(y, mask != 0, before)


def test_empty(handle):
    problem = Dropout(handle, (3, 0), evolves=True)
    problem.run()
    assert problem.numbers()[1] == 0


def test_results_do_not_depend_on_threads(setting):
    results = []
    for threads in (1, 2, 5):
        setting(MIOPYX_NUM_THREADS=threads)
        with miopyx.Handle("host") as where:
            results.append(Dropout(where, (300_001,), seed=9).run()[1])
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


# Descriptors, plans and refusals

X = TensorDescriptor("float32", (4, 6))


def test_descriptor(handle):
    desc = miopyx.miopenCreateDropoutDescriptor()
    assert desc.dropout is None
    assert repr(desc) == "<DropoutDescriptor never set>"
    with pytest.raises(BadParmError, match="never set"):
        miopyx.miopenGetDropoutDescriptor(desc, handle)
    states = handle.upload(np.zeros(STATES, np.uint8))
    miopyx.miopenRestoreDropoutDescriptor(desc, handle, 0.1, states, STATES, MANY, True, True, 0)
    assert miopyx.miopenGetDropoutDescriptor(desc, handle) == (np.float32(0.1), states, MANY, True, True, 0)
    assert "DropoutDescriptor(0.1, seed=18446744073709551615" in repr(desc)
    for wrong in ({"p": -0.1}, {"p": 1.1}, {"p": float("nan")}, {"p": "a half"}, {"seed": -1}, {"seed": MANY + 1},
                  {"seed": 0.5}, {"use_mask": 2}, {"rng_mode": 1}, {"states": object()}):
        given = {"p": 0.5, "states": states, "size": STATES, "seed": 0, "use_mask": False, "state_evo": False,
                 "rng_mode": 0} | wrong
        with pytest.raises(BadParmError):
            miopyx.miopenSetDropoutDescriptor(desc, handle, *given.values())
        assert desc.seed == MANY
    with pytest.raises(UnknownError, match="Insufficient state size"):
        miopyx.miopenSetDropoutDescriptor(desc, handle, 0.5, states, STATES - 1, 0, False, False, 0)
    small = handle.upload(np.zeros(STATES - 1, np.uint8))
    with pytest.raises(BadParmError, match="states"):
        miopyx.miopenSetDropoutDescriptor(desc, handle, 0.5, small, STATES, 0, False, False, 0)
    miopyx.miopenDestroyDropoutDescriptor(desc)
    miopyx.miopenDestroyDropoutDescriptor(None)
    with pytest.raises(BadParmError):
        miopyx.miopenGetDropoutDescriptor(desc, handle)


def call(handle, desc, x_desc=X, y_desc=X, noise=X, x=None, y=None, reserve=None, size=0, backward=False):
    function = miopyx.miopenDropoutBackward if backward else miopyx.miopenDropoutForward
    x, y = (np.zeros((4, 6), np.float32) if v is None else v for v in (x, y))
    function(handle, desc, noise, x_desc, x, y_desc, y, reserve, size)


def test_refusals(host):
    states = np.zeros(STATES, np.uint8)
    desc = DropoutDescriptor(0.5, states, STATES, 0, False, True)
    reserve = np.zeros(24, np.uint8)
    for error, message, how in (
        (UnknownError, "lengths", {"y_desc": TensorDescriptor("float32", (4, 7))}),
        (UnknownError, "noise shape", {"noise": TensorDescriptor("float32", (4, 1))}),
        (UnknownError, "datatype", {"y_desc": TensorDescriptor("float16", (4, 6))}),
        (UnknownError, "1D to 5D", {n: TensorDescriptor("float32", (1,) * 6) for n in ("x_desc", "y_desc", "noise")}),
        (MIOpenNotImplementedError, "data type", {n: TensorDescriptor("int8", (4, 6)) for n in ("x_desc", "y_desc")}),
        (UnknownError, "reservespace", {"reserve": reserve, "size": 23}),
        (BadParmError, "negative", {"reserve": reserve, "size": -1}),
        (BadParmError, "reserveSpace", {"reserve": reserve[:23], "size": 24}),
        (BadParmError, "overlap", {"y_desc": TensorDescriptor("float32", (4, 6), (1, 1))}),
        (BadParmError, "gone on", {"backward": True}),
        (BadParmError, "noise_shape", {"noise": None}),
        (BadParmError, "x", {"x": np.zeros((4, 5), np.float32)}),
        (BadParmError, "never set", {"noise": TensorDescriptor()}),
    ):
        with pytest.raises(error, match=message):
            call(host, desc, **how)
    both = np.zeros(24 * 4 + 8, np.uint8)
    with pytest.raises(BadParmError, match="shares memory"):
        call(host, desc, y=both[:96], reserve=both[80:104], size=24)
    assert not states.any()
    with pytest.raises(BadParmError, match="states"):
        call(host, DropoutDescriptor(0.5))
    with pytest.raises(BadParmError, match="never set"):
        call(host, DropoutDescriptor())


def typed(handle, array):
    """An array that says its type: a buffer of OpenCL's is raw memory."""
    if not (handle.device.is_host or handle.device.shares_memory):
        pytest.skip("no arrays of other memory")
    return array


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8"])
def test_masks_are_bytes_of_any_type_and_shape(handle, dtype, rng):
    problem = Dropout(handle, (4, 6), seed=5)
    x, y = (handle.upload(np.ones((4, 6), np.float32)) for _ in range(2))
    given, kept = rng.integers(0, 2, (4, 6)).astype(dtype), typed(handle, np.ones(24, dtype))
    miopyx.miopenDropoutBackward(handle, problem.desc, X, X, x, X, y, typed(handle, given), 24)
    np.testing.assert_array_equal(handle.download(y), np.where(given, 2, 0))
    miopyx.miopenDropoutForward(handle, problem.desc, X, X, x, X, y, kept, 24)
    handle.finish()
    kept = kept if isinstance(kept, np.ndarray) else handle.download(kept)
    np.testing.assert_array_equal(kept.view(np.uint8), mask_of(24, 0.5, 5))


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "float8_e4m3fn"])
@pytest.mark.parametrize("backward", [False, True])
def test_masks_of_other_types_are_refused(handle, dtype, backward):
    problem = Dropout(handle, (4, 6))
    x, y = (handle.upload(np.ones((4, 6), np.float32)) for _ in range(2))
    mask = typed(handle, np.ones((4, 6)).astype(getattr(ml_dtypes, dtype, dtype)))
    with pytest.raises(BadParmError, match="no bytes") as caught:
        call(handle, problem.desc, x=x, y=y, reserve=mask, size=24, backward=backward)
    assert (caught.value.parameter, caught.value.value, caught.value.limit) == (
        "reserveSpace", dtype, "bool, int8 or uint8")
    assert (handle.download(y) == 1).all()


def test_plans(handle):
    problem = Dropout(handle, (4, 6), p=0.25, seed=5)
    forward = handle.dropout_forward(problem.desc, X, X)
    assert forward.buffers == ("x", "y", "reserveSpace", "states")
    backward = handle.dropout_backward(problem.desc, X, X)
    assert backward.buffers == ("dy", "dx", "reserveSpace")
    x, y, dx = (handle.upload(np.ones((4, 6), np.float32)) for _ in range(3))
    mask = handle.upload(np.zeros(24, np.uint8))
    forward(x, y, mask, problem.given)
    backward(y, dx, mask)
    stays = mask_of(24, 0.25, 5).reshape(4, 6)
    np.testing.assert_allclose(handle.download(y), stays / 0.75, rtol=1e-6)
    np.testing.assert_allclose(handle.download(dx), stays / 0.75**2, rtol=1e-6)
    again = handle.dropout_backward(problem.desc, X, X, reserve=False)
    again(y, dx, None, problem.given)
    np.testing.assert_allclose(handle.download(dx), stays / 0.75**2, rtol=1e-6)
    miopyx.miopenRestoreDropoutDescriptor(problem.desc, handle, 0.5, problem.given, STATES, 5, False, False, 0)
    with pytest.raises(BadParmError, match="changed after the plan"):
        forward(x, y, mask, problem.given)
