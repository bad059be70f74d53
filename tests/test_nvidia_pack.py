"""What brings tensors of 16 bits into the order of the kernels for tensor cores, and back, bit for bit.

These kernels need no GPU of NVIDIA's: every OpenCL device runs them.  The geometry is what the solvers choose.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

# PoCL says which loops it does not unroll.
pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

KERNELS = Path(__file__).resolve().parents[1] / "miopyx" / "kernels"
POISON, OUTSIDE, TILE = 0xABCD, 64, 128
SHAPES = [  # images, groups, channels of a group, h, w
    (2, 1, 64, 8, 8), (3, 1, 64, 7, 7), (5, 1, 128, 7, 7), (2, 1, 65, 14, 14), (1, 1, 3, 7, 7), (2, 1, 5, 5, 5),
    (3, 1, 17, 3, 3), (4, 1, 65, 10, 3), (2, 1, 96, 6, 5), (33, 1, 72, 3, 3), (1, 1, 8, 28, 28), (1, 1, 17, 1, 1),
    (3, 1, 65, 1, 1), (2, 1, 24, 13, 13), (2, 2, 64, 7, 7), (2, 4, 16, 6, 6), (2, 3, 8, 4, 4), (1, 1, 72, 64, 9),
]


@pytest.fixture
def build(opencl_handle):
    """Return a function from an entry and its definitions to a kernel, and the queue that runs it."""
    if opencl_handle.device.info.cuda >= 0:
        pytest.skip("by pyopencl")
    queue, built = opencl_handle.queue, {}

    def kernel(entry, file="conv/nvidia/pack.cl", **defines):
        key = entry, *sorted(defines.items())
        if key not in built:
            options = ["-I", str(KERNELS), "-cl-std=CL1.2", *(f"-D{n}={v}" for n, v in defines.items())]
            source = (KERNELS / file).read_text(encoding="utf-8")
            built[key] = cl.Kernel(cl.Program(queue.context, source).build(options), entry)
        return built[key], queue

    return kernel


def up(value, multiple):
    return -(-value // multiple) * multiple


def divisor(d):
    """Return what kernels/include/divisor.h divides by d with."""
    shift = (d - 1).bit_length()
    return -(-(1 << 31 + shift) // d), shift


def geometry(shape, strides):
    """Return mx_nv_pixels, the number of tiles and RUN."""
    images, groups, channels, h, w = shape
    n, g, c, row, pixel = strides
    image, many, run, reduced = h * w, TILE, 1, up(channels, 8)
    together = image | n | g | c
    if (w == 1 or pixel == 1) and (h == 1 or row == w):
        whole = image % 2 and image <= TILE and c == image and (channels * image | n | g) % 8 == 0
        run = 8 if together % 8 == 0 else 0 if whole else 4 if together % 4 == 0 else 2 if together % 2 == 0 else 1
    if run == 0:
        many = TILE // image * image
    blocks = groups * (up(reduced, 64) // 64)
    sizes = struct.pack("13i6I", images, groups, h, w, channels, reduced, *strides, many, blocks, *divisor(image),
                        *divisor(w), *divisor(blocks))
    return sizes, up(images * image, many) // many * blocks, run


class Example:
    """A tensor with its pixels closest or steps apart, and its copy with channels closest."""

    def __init__(self, rng, shape, step, gap):
        images, groups, channels, h, w = self.shape = shape
        lens = images, groups * channels + gap, h * step, w * step
        self.whole = rng.integers(0, 1 << 16, size=lens, dtype=np.uint16)
        self.pixels = self.whole[:, :groups * channels, ::step, ::step]
        plane = lens[2] * lens[3]
        self.strides = (lens[1] * plane if images > 1 else 0, channels * plane if groups > 1 else 0, plane,
                        step * lens[3] if h > 1 else 0, step if w > 1 else 0)
        self.packed = np.zeros((images, h, w, groups, up(channels, 8)), np.uint16)
        self.packed[..., :channels] = self.pixels.reshape(images, groups, channels, h, w).transpose(0, 3, 4, 1, 2)


def memory(queue, values, shift):
    """Return a buffer with values from element `shift` on, amid poison."""
    before, behind = (np.full(count, POISON, values.dtype) for count in (shift, OUTSIDE))
    inside = np.concatenate([before, values.ravel(), behind])
    flags = cl.mem_flags
    return cl.Buffer(queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=inside)


def check(queue, buffer, expected, shift):
    found = np.empty(buffer.size // expected.itemsize, expected.dtype)
    cl.enqueue_copy(queue, found, buffer)
    wanted = np.full_like(found, POISON)
    wanted[shift:shift + expected.size] = expected.ravel()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_packing_and_turning(build, rng, shape):
    """From aligned and odd addresses, with and without gaps between pixels and images."""
    for step, gap, shift, to_shift in ((1, 0, 0, 0), (1, 0, 1, 0), (1, 8, 0, 3), (1, 3, 4, 8), (2, 0, 0, 0),
                                       (2, 1, 3, 1)):
        example = Example(rng, shape, step, gap)
        sizes, tiles, run = geometry(shape, example.strides)
        pack, queue = build("pack_pixels", RUN=run)
        to = memory(queue, np.full(example.packed.size, POISON, np.uint16), to_shift)
        pack(queue, (tiles * 256,), (256,), memory(queue, example.whole, shift), np.int64(shift), to,
             np.int64(to_shift), sizes)
        check(queue, to, example.packed, to_shift)
        if shape[1] > 1:
            continue
        turn, queue = build("unpack_pixels", RUN=run)
        filled = np.full_like(example.whole, POISON)
        to = memory(queue, filled, shift)
        turn(queue, (tiles * 256,), (256,), memory(queue, example.packed, to_shift), np.int64(to_shift), to,
             np.int64(shift), sizes, np.float32(1), np.float32(0))
        filled[:, :shape[2], ::step, ::step] = example.pixels
        check(queue, to, filled, shift)


def check_two(build, rng, *shapes):
    first, second = (Example(rng, shape, 1, 0) for shape in shapes)
    sizes, tiles, run = geometry(first.shape, first.strides)
    others, more, other_run = geometry(second.shape, second.strides)
    pack, queue = build("pack_two", RUN=run, SECOND_RUN=other_run)
    to, other = (memory(queue, np.full(e.packed.size, POISON, np.uint16), 0) for e in (first, second))
    zero = np.int64(0)
    pack(queue, ((tiles + more) * 256,), (256,), memory(queue, first.whole, 0), zero, to, zero, sizes,
         memory(queue, second.whole, 0), zero, other, zero, others, np.int32(tiles))
    check(queue, to, first.packed, 0)
    check(queue, other, second.packed, 0)


def test_two_tensors(build, rng):
    check_two(build, rng, (5, 1, 72, 3, 3), (2, 2, 64, 14, 14))


@pytest.mark.some(2)
@pytest.mark.parametrize(("p", "q", "step", "w"),
                         [(4, 4, 2, 8), (8, 8, 2, 16), (7, 7, 2, 14), (5, 6, 3, 16), (3, 5, 2, 9), (3, 8, 1, 8)])
def test_pixels_that_a_step_meets(build, rng, amount, p, q, step, w):
    """Gathered from every second row of w, and scattered, zeros between, for all widths of vectors that fit."""
    images, channels, h = 2, 5, 2 * p
    whole = rng.integers(0, 1 << 16, size=(images, channels, h, w), dtype=np.uint16)
    met = np.ascontiguousarray(whole[:, :, ::2, ::step][..., :q])
    spread = np.zeros_like(whole)
    spread[:, :, ::2, ::step] = met
    for vector in rng.permutation([1, 2, 4, 8])[:amount(2, 4)].tolist():
        for each, shift in ((1, 0), (4, 1)):
            for entry, inner, row, many in (("gather_pixels", p * q, q, (whole, met)),
                                            ("scatter_pixels", h * w, w, (met, spread))):
                if inner % vector or h * w % vector:
                    continue
                if entry == "gather_pixels":
                    pairs = step == 2 and w == 2 * q and q % vector == 0 and h * w % (2 * vector) == 0
                    few = 2 if pairs and 2 * w % (2 * vector) == 0 else 1
                else:
                    few = step if w % step == 0 and vector % step == 0 else 1
                kernel, queue = build(entry, VEC=vector, STEP=few)
                sizes = struct.pack("12i10I", images * channels, channels, h, w, p, q, 2, step, channels * h * w, h * w,
                                    2 * w if entry == "gather_pixels" else w, each,
                                    *divisor(inner // vector), *divisor(row), *divisor(channels), *divisor(2),
                                    *divisor(step))
                to = memory(queue, np.full(many[1].size, POISON, np.uint16), shift)
                scaling = () if entry == "gather_pixels" else (np.float32(1), np.float32(0))
                items = up(images * channels, each) // each * (inner // vector)
                kernel(queue, (up(items, 64),), (64,), memory(queue, many[0], shift), np.int64(shift), to,
                       np.int64(shift), sizes, *scaling)
                check(queue, to, many[1], shift)


@pytest.mark.some(3)
@pytest.mark.parametrize(("images", "channels", "h", "w"),
                         [(2, 32, 6, 6), (3, 64, 5, 7), (1, 96, 12, 12), (5, 32, 1, 1)])
def test_floats_with_channels_last(build, rng, images, channels, h, w):
    """Pixels closest, which are read by fours where an image has a multiple, and steps apart; odd addresses, too."""
    for step, shift, to_shift in ((1, 0, 0), (1, 3, 1), (2, 1, 0)):
        whole = rng.standard_normal((images, channels, h * step, w * step), np.float32)
        expected = np.ascontiguousarray(whole[:, :, ::step, ::step].transpose(0, 2, 3, 1))
        run = 4 if step == 1 and h * w % 4 == 0 else 1
        pack, queue = build("pack_floats", "conv/nvidia/pack_floats.cl", RUN=run)
        n, c, row, pixel = (each // 4 for each in whole[:, :, ::step, ::step].strides)
        blocks, tiles = channels // 32, up(images * h * w, TILE) // TILE
        sizes = struct.pack("13i6I", images, 1, h, w, channels, channels, n, 0, c, row, pixel, TILE, blocks,
                            *divisor(h * w), *divisor(w), *divisor(blocks))
        to = memory(queue, np.full(expected.size, POISON, np.float32), to_shift)
        pack(queue, (256 * tiles * blocks,), (256,), memory(queue, whole, shift), np.int64(shift), to,
             np.int64(to_shift), sizes)
        check(queue, to, expected, to_shift)


PATCHES = [  # type, images, channels, p, q, filter rows, filter columns as VEC and RUNS, neighbours in the copy, too
    *((name, *shape) for name in ("half", "float") for shape in (
        (2, 3, 3, 5, 2, 4, 1, False), (2, 5, 4, 3, 2, 1, 2, False), (3, 2, 2, 3, 4, 4, 1, True),
        (1, 4, 5, 2, 3, 1, 3, False))),
    ("half", 1, 3, 2, 2, 3, 8, 2, False), ("float", 1, 3, 2, 2, 3, 4, 4, False), ("half", 2, 2, 3, 3, 1, 8, 1, True),
    ("float", 2, 2, 3, 3, 1, 2, 1, True)]


@pytest.mark.some(4)
@pytest.mark.parametrize(("name", "images", "channels", "p", "q", "r", "vec", "runs", "together"), PATCHES)
def test_patches(build, rng, name, images, channels, p, q, r, vec, runs, together):
    """A copy has a patch's numbers as channels, before or behind its pixels; both ways, and scaled."""
    numbers = {"half": np.float16, "float": np.float32}[name]
    s = vec * runs  # a work-item has a row of a patch
    split, more = (rng.integers(-99, 99, size=(images, channels, p, r, q, s)).astype(numbers) for _ in range(2))
    order = (0, 1, 2, 4, 3, 5) if together else (0, 1, 3, 5, 2, 4)
    packed = np.ascontiguousarray(split.transpose(order))
    place = {axis: stride // packed.itemsize for axis, stride in zip(order, packed.strides, strict=True)}
    axes = (4, 2, 3, 1, 0)  # the fastest first, without a row of a patch
    table = [[split.shape[a] for a in axes], [split.strides[a] // split.itemsize for a in axes],
             [place[a] for a in axes]]
    by = [divisor(split.shape[a]) for a in axes]
    items = split.size // s
    sizes = struct.pack("26i16I", items, place[5], *(number for row in table for number in row + [1] * 3),
                        *(number for one in by + [(0, 0)] * 3 for number in one))
    gather, queue = build("gather_patches", "conv/nvidia/patches.cl", X_TYPE=name, AXES=5, VEC=vec, RUNS=runs,
                          APART=int(not together))
    spread, _ = build("spread_patches", "conv/nvidia/patches.cl", X_TYPE=name, AXES=5, VEC=vec, RUNS=runs,
                      APART=int(not together))
    for shift, to_shift in ((0, 0), (1, 0), (8, 3)):
        grid = (up(items, 256),), (256,)
        poison = np.full(split.size, POISON, numbers)
        to = memory(queue, poison, to_shift)
        gather(queue, *grid, memory(queue, split, shift), np.int64(shift), to, np.int64(to_shift), sizes)
        check(queue, to, packed, to_shift)
        to = memory(queue, poison, shift)
        spread(queue, *grid, memory(queue, packed, to_shift), np.int64(to_shift), to, np.int64(shift), sizes,
               np.float32(1), np.float32(0))
        check(queue, to, split, shift)
    to = memory(queue, split, 0)
    zero = np.int64(0)
    spread(queue, *grid, memory(queue, np.ascontiguousarray(more.transpose(order)), 0), zero, to, zero, sizes,
           np.float32(2), np.float32(0.5))
    check(queue, to, (2 * more + split / 2).astype(numbers), 0)


@pytest.mark.parametrize(("splits", "first"), [(1, 1), (4, 0), (7, 1), (9, 0)])
def test_partial_sums_are_added(build, rng, splits, first):
    """In a fixed order, the sum before only where there was one."""
    fours = 512
    sets = rng.standard_normal((splits + 1, fours * 4), np.float32)
    add, queue = build("add_parts", "conv/nvidia/hopper_parts.cl")
    partial = memory(queue, sets, 0)
    add(queue, (fours,), (256,), partial, np.int64(0), np.int32(fours), np.int32(splits), np.int32(first))
    sums = [np.zeros(fours * 4, np.float32) if first else sets[0], *np.zeros((3, fours * 4), np.float32)]
    for split in range(splits):
        sums[split % 4] = sums[split % 4] + sets[1 + split]
    check(queue, partial, np.concatenate([[(sums[0] + sums[1]) + (sums[2] + sums[3])], sets[1:]]), 0)
