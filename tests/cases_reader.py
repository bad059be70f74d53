"""Convolutions as tests and benches describe them, and the reader of their lists: tests/cases/conv.txt and bench's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from miopyx import ConvolutionDescriptor, TensorDescriptor

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class ConvCase:
    text: str
    n: int
    c: int
    k: int
    lens: tuple[int, ...]
    filter: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    outpad: tuple[int, ...]
    tier: str

    @property
    def x_lens(self) -> tuple[int, ...]:
        return (self.n, self.c, *self.lens)

    @property
    def w_lens(self) -> tuple[int, ...]:
        return (self.c, self.k // self.groups, *self.filter) if self.transposed else (
            self.k, self.c // self.groups, *self.filter)

    @cached_property
    def y_lens(self) -> tuple[int, ...]:
        x, w = (TensorDescriptor("float32", lens) for lens in (self.x_lens, self.w_lens))
        return tuple(self.conv().output_lens(x, w))

    @property
    def all_lens(self) -> tuple[tuple[int, ...], ...]:
        return self.x_lens, self.w_lens, self.y_lens

    @property
    def products(self) -> int:
        """n k ho wo (c / groups) r s; of a transposed convolution those of the one that it is the gradient of."""
        small = self.x_lens if self.transposed else self.y_lens
        return self.n * math.prod(small[2:]) * math.prod(self.w_lens)

    def conv(self) -> ConvolutionDescriptor:
        return ConvolutionDescriptor(self.pad, self.stride, self.dilation, int(self.transposed), self.groups,
                                     self.outpad)


def conv_case(n: int, c: int, k: int, lens: tuple[int, ...], filter: tuple[int, ...] | None = None,
              pad: tuple[int, ...] | None = None, stride: tuple[int, ...] | None = None,
              dilation: tuple[int, ...] | None = None, groups: int = 1, transposed: bool = False,
              outpad: tuple[int, ...] | None = None, tier: str = "ci", text: str = "") -> ConvCase:
    """Return a case: a filter of ones, no pads, and strides and dilations of 1 where nothing is said."""
    ones, zeros = (1,) * len(lens), (0,) * len(lens)
    return ConvCase(text, n, c, k, lens, filter or ones, pad or zeros, stride or ones, dilation or ones, groups,
                    transposed, outpad or zeros, tier)


def grouped_case(n: int, groups: int, inputs: int, outputs: int, lens: tuple[int, ...],
                 filter: tuple[int, ...] = (3, 3), pad: tuple[int, ...] = (1, 1),
                 stride: tuple[int, ...] | None = None, dilation: tuple[int, ...] | None = None) -> ConvCase:
    """Return a case by the channels and filters of each group."""
    return conv_case(n, groups * inputs, groups * outputs, lens, filter, pad, stride, dilation, groups)


def _lengths(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def case_of_line(text: str, **defaults: int) -> ConvCase:
    """Return the case of a line of name=value words."""
    fields: dict = {**defaults, **dict(word.split("=") for word in text.split())}
    numbers = {name: int(fields.pop(name)) for name in ("n", "c", "k", "groups") if name in fields}
    lens = _lengths(fields.pop("in"))
    lengths = {name: _lengths(fields.pop(name)) for name in ("filter", "pad", "stride", "dilation", "outpad")
               if name in fields}
    mode, tier = fields.pop("mode", "conv"), fields.pop("tier", "ci")
    assert not fields, f"unknown fields in {text!r}"
    assert mode in ("conv", "transpose"), f"unknown mode in {text!r}"
    return conv_case(lens=lens, transposed=mode == "transpose", tier=tier, text=text, **numbers, **lengths)


def conv_cases(tier: str | None = None) -> list[ConvCase]:
    """Return the convolution cases, those of one tier if given."""
    lines = (FOLDER / "conv.txt").read_text(encoding="utf-8").splitlines()
    cases = [case_of_line(line) for line in lines if line.strip() and not line.startswith("#")]
    return [case for case in cases if tier is None or case.tier == tier]
