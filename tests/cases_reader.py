"""Reads tests/cases/*.txt: the cases that tests and benches share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(v) for v in text.split("x"))


def conv_cases(tier: str | None = None) -> list[ConvCase]:
    """Return the convolution cases, those of one tier if given."""
    cases = []
    for line in (FOLDER / "conv.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        fields = dict(word.split("=") for word in line.split())
        lens = _numbers(fields.pop("in"))
        ones, zeros = "x".join("1" * len(lens)), "x".join("0" * len(lens))
        case = ConvCase(
            text=line, n=int(fields.pop("n")), c=int(fields.pop("c")), k=int(fields.pop("k")), lens=lens,
            filter=_numbers(fields.pop("filter")), pad=_numbers(fields.pop("pad", zeros)),
            stride=_numbers(fields.pop("stride", ones)), dilation=_numbers(fields.pop("dilation", ones)),
            groups=int(fields.pop("groups", "1")), transposed=fields.pop("mode", "conv") == "trans",
            outpad=_numbers(fields.pop("outpad", zeros)), tier=fields.pop("tier", "ci"),
        )
        assert not fields, f"unknown fields in {line!r}"
        if tier is None or case.tier == tier:
            cases.append(case)
    return cases
