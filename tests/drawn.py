"""What random problems are drawn of: lengths, types, convolutions, handles; and another argument for a call."""

from __future__ import annotations

import itertools

import guarded
import numpy as np
import pytest
import test_fusion
from cases_reader import conv_case
from guarded import LAYOUTS

import miopyx
from miopyx import MIOpenError, RNNDescriptor, TensorDescriptor
from miopyx.device import devices
from miopyx.problem._rnn import SeqTensorDescriptor

TYPES = ("float32", "float16", "bfloat16", "float64")
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 61, 67, 127, 131, 257, 521, 1021, 2053)
KIND: list[str] = []  # the one type of a process, whose programs would else be too many


def one_of(rng, *values):
    return values[int(rng.integers(len(values)))]


def length(rng, most):
    """1, a prime, a power of two or beside one, or anything up to `most`."""
    kind = rng.integers(5)
    if kind == 0:
        return 1
    if kind == 1:
        return int(rng.choice([n for n in PRIMES if n <= most] or [1]))
    if kind == 2:
        return min(most, max(1, (1 << int(rng.integers(0, most.bit_length() + 1))) + int(rng.integers(-1, 2))))
    return int(rng.integers(1, most + 1))


def some_lens(rng, low=1, high=5, most=2000):
    """Lengths whose product is at most `most`, seldom far below."""
    rank, left = int(rng.integers(low, high + 1)), int(most ** rng.random() ** 0.3)
    lens, each = [1] * rank, left ** (1.6 / max(rank, 1))
    for axis in rng.permutation(rank):
        lens[axis] = length(rng, max(1, min(left, int(each))))
        left //= lens[axis]
    return tuple(lens)


def some_type(handle, rng):
    return KIND[0] if KIND else any_type(handle, rng)


def any_type(handle, rng):
    return one_of(rng, *(TYPES if handle.device.fp64 or handle.device.is_host else TYPES[:3]))


def some_layouts(rng, count=2):
    return tuple(one_of(rng, *LAYOUTS) for _ in range(count))


def some_convolution(rng, most=12):
    spatial = one_of(rng, 1, 2, 2, 3) if most > 8 else 2
    filters = tuple(one_of(rng, 1, 1, 3, 2) for _ in range(spatial))
    lens = tuple(length(rng, most) + f - 1 for f in filters)
    groups = one_of(rng, 1, 1, 1, 2, 3)
    return conv_case(length(rng, 3), groups * length(rng, 9), groups * length(rng, 9), lens, filters,
                     tuple(int(rng.integers(0, f)) for f in filters),
                     tuple(int(v) for v in rng.integers(1, 3, spatial)), groups=groups)


def some_layer(handle, rng):
    groups = one_of(rng, 1, 1, 2)
    lens = (length(rng, 3), groups * length(rng, 5), length(rng, 12), length(rng, 12))
    return test_fusion.layer(handle, rng, "float32", lens, groups * length(rng, 7), groups)


HANDLES: dict[str, miopyx.Handle] = {}
KNOWN: list[str] = []  # devices' names


def handle_of(name):
    """The handle of a device; of one that ends with "+gpu", one that is taken for a GPU."""
    if name not in HANDLES:
        plain, _, pretended = name.partition("+")
        if pretended:
            known = devices.find(plain)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(devices, "find", lambda _: known._replace(kind="gpu"))
                HANDLES[name] = miopyx.Handle(plain)
        else:
            HANDLES[name] = miopyx.Handle(plain)
    return HANDLES[name]


def HOST():
    return handle_of("host")


# Calls of which an argument is another one


def flat(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat(value)
        else:
            yield value


def is_short(given, changed):
    """Return whether memory behind a descriptor is shorter than that says in `changed`, not so in `given`.

    Only at places that held whole memory: some calls look at no memory at a place (y of a pooling's backward pass).
    """
    def pairs(values):
        values = list(flat(values))
        return [(at, desc, memory) for at, (desc, memory) in enumerate(itertools.pairwise(values))
                if isinstance(desc, TensorDescriptor) and isinstance(memory, np.ndarray)]

    whole = {(at, id(desc)) for at, desc, memory in pairs(given) if memory.nbytes == desc.nbytes}
    return any((at, id(desc)) in whole and memory.nbytes < desc.nbytes for at, desc, memory in pairs(changed))


def another(value, given, rng):
    """Something else in an argument's place."""
    if not rng.integers(8):
        return one_of(rng, None, "x", -1, 1.5, TensorDescriptor(), np.zeros(0, "u1"), object(), [])
    if isinstance(value, TensorDescriptor):
        return another_tensor(value, rng)
    if isinstance(value, SeqTensorDescriptor):
        kind, layout, steps, batch, vector, lengths, _ = miopyx.miopenGetRNNDataSeqTensorDescriptor(value, None)
        change = [kind, layout, steps, batch, vector, lengths]
        change[int(rng.choice([0, 1, 2, 4]))] = int(rng.integers(1, 4))
        try:
            return SeqTensorDescriptor(*change)
        except MIOpenError:
            return SeqTensorDescriptor()
    if isinstance(value, RNNDescriptor):
        return RNNDescriptor(one_of(rng, 1, 6, 2**20, 2**31 - 1), one_of(rng, 1, 2, 3, 9), int(rng.integers(4)),
                             int(rng.integers(2)), int(rng.integers(2)), int(rng.integers(2)), one_of(rng, *TYPES))
    if isinstance(value, np.ndarray):
        line = value.reshape(-1)
        if not line.size:
            return None
        size = max(1, line.size // 2)
        # What is left ends where it ended, or begins where it began: whoever reads on meets the page.
        short = (line[1:], line[size:]) if guarded.Pages.against == "end" else (line[:-1], line[:size])
        read_only = value.view()
        read_only.flags.writeable = False
        others = [a for a in flat(given) if isinstance(a, np.ndarray)]
        return one_of(rng, *short, *short, line[::2], line.astype("f8"), read_only, one_of(rng, *others), None)
    if isinstance(value, bool):
        return one_of(rng, 2, -1, None, "x")
    if isinstance(value, int | np.integer):
        value = int(value)
        return one_of(rng, -1, 0, value - 1, value + 1, value // 2, 2 * value, 2**31 - 1, 2**31, 2**63 - 1, 2**63,
                      2**64, -2**63, None, 0.5, np.int64(value))
    if isinstance(value, float):
        return one_of(rng, np.nan, np.inf, -1.0, 0.0, 1e39, 1e-320, None, "x", 10**400)
    if isinstance(value, list | tuple):
        if not value or not rng.integers(3):
            return one_of(rng, value[:-1], [*value, *value], None, list(value)[::-1], (), [None] * len(value))
        changed = list(value)
        at = int(rng.integers(len(changed)))
        changed[at] = another(changed[at], given, rng)
        return changed
    return None


def another_tensor(desc, rng):
    lens, strides, dtype = list(desc.lens), list(desc.strides), desc.dtype
    kind = int(rng.integers(6))
    at = int(rng.integers(len(lens))) if lens else 0
    if kind == 0 or not lens:
        dtype, strides = one_of(rng, *TYPES, "int8", "int32", "int64"), desc.strides
    elif kind == 1:
        lens[at], strides = one_of(rng, 0, 1, lens[at] + 1, max(0, lens[at] - 1), 2 * lens[at]), None
    elif kind == 2:
        lens, strides = one_of(rng, [*lens, 1], [1, *lens], lens[:-1] or [1]), None
    elif kind == 3:
        strides[at] = one_of(rng, strides[at] + 1, 2 * strides[at], 1)
    elif kind == 4:
        lens[at], strides = one_of(rng, 2**20, 2**31 - 1, 2**40), None
    else:
        strides = guarded.strides_of(tuple(lens), one_of(rng, "packed", "channels last", "padded"))
    try:
        return TensorDescriptor(dtype, lens, strides)
    except MIOpenError:
        return TensorDescriptor()
