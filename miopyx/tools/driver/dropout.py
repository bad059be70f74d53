"""`dropout`: elements become zero at random."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import FORWARD_FLAG, SWITCH, Layer, Pass, elementwise_limit, file_flags, operations, packed, run_flags
from .options import Command, Family, Flag
from .reduce import numbers
from .verify import Doubles

FAMILY = Family("dropout", "a dropout", operations("dropout"), (
    FORWARD_FLAG,
    Flag("input_dim", "d", "4", "lengths of the tensor, as in 100,3,32,32"),
    Flag("dropout", "p", 0.5, "the probability that an element becomes 0"),
    Flag("seed_low", "l", 0, "low 32 bits of the seed", range(2**32)),
    Flag("seed_high", "m", 0, "high 32 bits of the seed", range(2**32)),
    Flag("use_mask", "e", 0, "take a mask that is there", SWITCH),
    Flag("gen_file", "f", 0, "write files for the generator", fixed="the generator needs no files"),
    *run_flags(1),
    *file_flags(("dump_output", "o")),
))


def philox(count: int, seed: int) -> Array:
    """Return the first `count` words of Philox 4x32-10."""
    words = np.zeros((4, (count + 3) // 4), np.uint64)
    words[0] = np.arange(words.shape[1], dtype=np.uint64)
    words[0], words[1] = words[0] & np.uint64(0xFFFFFFFF), words[0] >> np.uint64(32)
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        one, two = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = np.stack([(two >> np.uint64(32)) ^ words[1] ^ np.uint64(key[0]), two & np.uint64(0xFFFFFFFF),
                          (one >> np.uint64(32)) ^ words[3] ^ np.uint64(key[1]), one & np.uint64(0xFFFFFFFF)])
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words.T.reshape(-1)[:count]


class Dropout(Layer):
    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.p = command.real("dropout")
        self.seed = command.number("seed_low") | command.number("seed_high") << 32
        self.use_mask = bool(command.number("use_mask"))
        self.desc = miopyx.TensorDescriptor(self.dtype, numbers(command, "input_dim", ","))
        for name in ("x", "y", "dy", "dx"):
            self.tensor(name, self.desc)
        self.memory["reserve"] = packed("uint8", self.desc.lens)
        self.dropout_desc = miopyx.DropoutDescriptor(self.p, None, 0, self.seed, self.use_mask)
        self.handle: Any = None

    @property
    def layer(self) -> str:
        return f"{self.command.operation} {self.p:g} {'x'.join(map(str, self.desc.lens))}"

    def passes(self) -> list[Pass]:
        bound = elementwise_limit(self.dtype)
        given, made = (("x", "reserve"), ("y",)) if self.use_mask else (("x",), ("y", "reserve"))
        return [
            Pass("fwd", "Forward Dropout", given, made, given, self._forward,
                 lambda handle: handle.dropout_forward(self.dropout_desc, self.desc, self.desc),
                 self._forward_reference, bound, -1),
            Pass("bwd", "Backward Dropout", ("dy", "reserve"), ("dx",), ("dy", "reserve"), self._backward,
                 lambda handle: handle.dropout_backward(self.dropout_desc, self.desc, self.desc),
                 self._backward_reference, bound, -1),
        ]

    def _begin(self, handle: Any) -> None:
        """Let the states of a handle begin."""
        if self.handle is not handle:
            size = miopyx.miopenDropoutGetStatesSize(handle)
            states = handle.upload(np.zeros(size, np.uint8))
            miopyx.miopenSetDropoutDescriptor(self.dropout_desc, handle, self.p, states, size, self.seed, self.use_mask,
                                              False, 0)
            self.handle = handle

    def _forward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        miopyx.miopenDropoutForward(handle, self.dropout_desc, self.desc, self.desc, m["x"], self.desc, m["y"],
                                    m["reserve"], prod(self.desc.lens))

    def _backward(self, handle: Any, m: Mapping[str, Any]) -> None:
        self._begin(handle)
        miopyx.miopenDropoutBackward(handle, self.dropout_desc, self.desc, self.desc, m["dy"], self.desc, m["dx"],
                                     m["reserve"], prod(self.desc.lens))

    def values(self, name: str, generator: data.Generator) -> Array:
        """Uniform in [-0.5, 0.5); a mask of its bits."""
        if name == "reserve":
            bits = generator.draw(prod(self.desc.lens)) >> np.uint32(30)
            return bits.astype(np.uint8)
        return self.uniform(name, generator, -0.5, 0.5)

    def _scaled(self, values: Array, stays: Array) -> Array:
        p = float(np.float32(self.p))
        return np.where(stays, values / (1 - p) if p < 1 else 0.0, 0.0)

    def _forward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        if self.use_mask:
            return {"y": self._scaled(m["x"], m["reserve"] != 0)}
        words = philox(prod(self.desc.lens), self.seed) >> np.uint64(8)
        stays = (words >= np.floor(np.float32(self.p) * 2.0**24)).reshape(self.desc.lens)
        return {"y": self._scaled(m["x"], stays), "reserve": stays.astype(np.float64)}

    def _backward_reference(self, m: Mapping[str, Doubles]) -> dict[str, Array]:
        return {"dx": self._scaled(m["dy"], m["reserve"] != 0)}
