"""MIOpenDriver's test data: its linear congruential generator, and the ranges that each tensor gets."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 as a NumPy dtype name
import numpy as np
from numpy.typing import NDArray

from miopyx.values import config

from .options import UsageError

MULTIPLIER, INCREMENT = 1103515245, 12345
_MASK = (1 << 31) - 1
_BLOCK = 1 << 16

Array = NDArray[Any]


class Generator:
    """x <- (1103515245 x + 12345) mod 2**31, many states at a time.

    n steps are one linear map x -> a x + b, so the states that follow x are x times a vector of such a plus a vector
    of b.  32-bit arithmetic that wraps is right for the low 31 bits.
    """

    _multipliers = np.array([MULTIPLIER], np.uint32)
    _increments = np.array([INCREMENT], np.uint32)
    while len(_multipliers) < _BLOCK:  # the maps of 1 ... 2n steps from those of 1 ... n
        _last_multiplier, _last_increment = _multipliers[-1], _increments[-1]
        _increments = np.concatenate([_increments, _multipliers * _last_increment + _increments])
        _multipliers = np.concatenate([_multipliers, _multipliers * _last_multiplier])

    def __init__(self, seed: int) -> None:
        self.state = seed & _MASK

    def draw(self, count: int) -> NDArray[np.uint32]:
        """Return the next `count` states."""
        states = np.empty(count, np.uint32)
        for start in range(0, count, _BLOCK):
            block = states[start:start + _BLOCK]
            np.multiply(self._multipliers[:len(block)], np.uint32(self.state), out=block)
            block += self._increments[:len(block)]
            block &= np.uint32(_MASK)
            self.state = int(block[-1])
        return states

    def skip(self, count: int) -> None:
        """Go `count` states on, in about log2(count) steps."""
        multiplier, increment = MULTIPLIER, INCREMENT
        while count:
            if count & 1:
                self.state = (self.state * multiplier + increment) & _MASK
            increment = (increment * multiplier + increment) & _MASK
            multiplier = multiplier * multiplier & _MASK
            count >>= 1


def seed() -> int:
    """Return the seed: MIOPEN_DEBUG_DRIVER_PRNG_SEED, where 0 asks for a random one."""
    value: int = config.get("MIOPEN_DEBUG_DRIVER_PRNG_SEED")
    return value & _MASK or secrets.randbelow(_MASK) + 1


def fill(generator: Generator, role: str, dtype: str, count: int) -> Array:
    """Return `count` elements of a tensor.

    Parameters
    ----------
    role : str
        ``w`` for weights; ``x``, ``dy`` and ``b`` for all else.
    dtype : str
        With u uniform in [0, 1): weights are 0.01 (u - 0.5), for float16 0.01 (5/6 u - 1/3), for int8 -127 or 0; all
        else 0.01 u, for int8 the integers 0 ... 126.  Of both types of float8 all are 2 u - 1.
    """
    out = np.empty(count, dtype)
    step = 16 * _BLOCK  # bounds the memory of what is computed on the way
    for start in range(0, count, step):
        part = out[start:start + step]
        u = generator.draw(len(part)) * (1.0 / (_MASK + 1))
        if dtype == "int8":
            # The generator's low bits have short periods: let its high bit decide.
            part[...] = np.where(u < 0.5, -127, 0) if role == "w" else (127.0 * u).astype(np.int8)
        elif dtype.startswith("float8"):
            part[...] = 2 * u - 1
        elif role == "w":
            part[...] = 0.01 * (u - 0.5) if dtype != "float16" else 0.01 * (u * (5 / 6) - 1 / 3)
        else:
            part[...] = 0.01 * u
    return out


def uniform(generator: Generator, dtype: str, count: int, low: float, high: float) -> Array:
    """Return `count` elements, uniform in [low, high), rounded to `dtype`."""
    out = np.empty(count, dtype)
    step = 16 * _BLOCK
    for start in range(0, count, step):
        part = out[start:start + step]
        part[...] = low + (high - low) * (generator.draw(len(part)) * (1.0 / (_MASK + 1)))
    return out


def read(path: str, flag: str, dtype: str, count: int) -> Array:
    """Return the raw elements of a file, which must hold exactly `count` of them."""
    need = count * np.dtype(dtype).itemsize
    try:
        with Path(path).open("rb") as file:
            content = file.read(need + 1)  # one more tells a file that is too long, however long it is
    except OSError as e:
        raise UsageError(f"--{flag} {path}: {e.strerror}") from None
    if len(content) != need:
        size = f"{len(content)} bytes" if len(content) < need else "longer"
        raise UsageError(f"--{flag} {path}: {size}, but {count} elements of {dtype} are {need} bytes")
    return np.frombuffer(bytearray(content), dtype)


def poisoned(dtype: str, count: int) -> Array:
    """Return an output as it should never look after a run: NaN, or a pattern where there is none."""
    out = np.empty(count, dtype)
    out[...] = -0x5A5A5A5B if dtype in ("int32", "int64") else np.nan
    return out
