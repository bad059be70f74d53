"""Attention on NVIDIA's tensor cores: every tile against float64.  Needs a GPU of compute capability 8.0 or later.

Bounds are those of test_mha.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_mha import NV_MHA, Attention, options

import miopyx
from miopyx.solvers.layers import _mha_nvidia as nv

# Warps, tiles of 16 rows, columns of a tile in local memory and of a step, whether rows are kept in registers, whether
# by wgmma.
TILES = {"small": (1, 1, 16, 16, 0, 0), "kept": (2, 1, 32, 16, 1, 0), "two tiles": (2, 2, 32, 32, 0, 0),
         "two tiles kept": (4, 2, 64, 64, 1, 0), "eight warps": (8, 1, 64, 32, 0, 0), "wgmma": (4, 1, 64, 64, 0, 1),
         "two warpgroups": (8, 1, 64, 64, 0, 1), "as chosen": None}
DTYPES = ("float16", "bfloat16")


@pytest.fixture
def tiles():
    """Return a function that allows one tile alone, until the end of the test."""
    yield nv.only_tiles
    nv.only_tiles()


@pytest.fixture
def tensor_cores(opencl_name):
    """A handle that has prepared nothing yet."""
    with miopyx.Handle(opencl_name) as handle:
        isa = handle.device.info.isa
        if handle.device.info.runtime != "nvidia" or not isa[2:].isdigit() or int(isa[2:]) < 80:
            pytest.skip("needs tensor cores of NVIDIA's")
        yield handle


def both(handle, dtype, shape, rng, **more):
    one = Attention(handle, dtype, shape, rng, **more)
    one.forward()
    assert one.solver == NV_MHA
    one.check_forward()
    one.backward()
    assert one.solver == NV_MHA
    one.check_backward()


@pytest.mark.some(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", TILES)
def test_every_tile(tensor_cores, rng, tiles, name, causal, dtype):
    """More rows than keys and fewer, none of them whole tiles; anything else is drawn."""
    tile = TILES[name]
    if tile is not None and tile[5] and int(tensor_cores.device.info.isa[2:]) < 90:
        pytest.skip("needs wgmma, of compute capability 9.0")
    tiles(*[tile] * 3)
    for rows, keys in ((150, 70), (37, 140)):
        shape = (2, 2, rows, keys, *(int(d) for d in rng.choice((8, 16, 24, 33, 48, 64), 2)))
        both(tensor_cores, dtype, shape, rng, **options(rng, shape) | {"causal": causal})


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 7, 40, 72, 80, 96, 128, 200, 256])
def test_lengths_of_heads(tensor_cores, rng, depth, dtype):
    both(tensor_cores, dtype, (1, 1, 70, 90, depth, depth), rng, causal=True)
    both(tensor_cores, dtype, (1, 1, 20, 70, depth, 257 - depth), rng)


@pytest.mark.parametrize("layout", ["packed", "channels last", "padded"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(tensor_cores, rng, layout, dtype):
    """Rows that begin anywhere, and numbers with gaps, go another way into local memory."""
    for depth in (16, 20):
        both(tensor_cores, dtype, (2, 3, 40, 50, depth, 24), rng, layout=layout)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_everything_at_once(tensor_cores, rng, dropped, dtype):
    both(tensor_cores, dtype, (2, 2, 77, 131, 32, 40), rng, causal=True, bias=(2, 1, 77, 131), scaled=True,
         dropout=(0.4, 2**61 + 3, 2**39 + 1) if dropped else None)


@pytest.mark.parametrize("scale", [0.0, -0.3, 40.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scales(tensor_cores, rng, scale, dtype):
    """No order of scores, the other order, and sums of e^s that would overflow."""
    one = Attention(tensor_cores, dtype, (1, 2, 70, 50, 16, 16), rng, scale=scale, causal=scale == 0)
    one.forward()
    assert one.solver == NV_MHA
    one.check_forward()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_without_scores(tensor_cores, rng, dtype):
    one = Attention(tensor_cores, dtype, (1, 1, 4, 6, 8, 8), rng, bias=(1, 1, 4, 6), amax=False)
    one.t["Bias"].view()[0, 0, 2] = -np.inf
    one.t["Bias"].view()[0, 0, 3, 1:] = -np.inf
    one.forward()
    out = one.t["O"].values()[0, 0]
    assert np.isnan(out[2]).all()
    assert np.isfinite(out[[0, 1]]).all()
    np.testing.assert_array_equal(out[3], one.t["V"].view()[0, 0, 0])


@pytest.mark.parametrize("causal", [False, True])
def test_small_numbers_of_halves(tensor_cores, rng, causal):
    """p of many keys is far below the smallest half with all its bits."""
    one = Attention(tensor_cores, "float16", (1, 1, 40, 1500, 16, 16), rng, causal=causal, scale=0.0)
    one.forward()
    one.check_forward()
    one.backward()
    one.check_backward()


def test_infinities_that_the_mask_leaves_out(tensor_cores, rng):
    """Of keys behind a row's tile and of those within."""
    for depth in (16, 64):
        one = Attention(tensor_cores, "bfloat16", (1, 1, 100, 100, depth, depth), rng, causal=True)
        one.t["K"].view()[0, 0, 70:] = np.inf
        one.forward()
        out = one.t["O"].values()[0, 0]
        assert np.isfinite(out[:70]).all()
        assert np.isnan(out[70:]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_what_is_left_to_others(tensor_cores, rng, dtype):
    depth = 264 if dtype == "float16" else 16
    one = Attention(tensor_cores, dtype, (1, 1, 5, 6, depth, 8), rng)
    one.forward()
    assert one.solver != NV_MHA
    one.check_forward()
