"""Errors of every convolution solver on long sums of one sign, as a table: how long a sum may be before it shows.

    python -P tests/long_sums.py
    python -P tests/long_sums.py --device NAME --as-gpu --terms 1000 100000 40000000 --solver Gemm CpuImplicit

Sums get long in each direction: of pixels for backward weights, of channels and taps for the two others.  Terms are all
positive: uniform in [0, 1), or all the same, whose roundings add up instead of cancelling.  Errors are relative to the
sum, and stand beside the solver's bound.  40 million terms take minutes and 2 GB.  The exit code is 1 if a result is
beyond its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from math import prod
from typing import NamedTuple
from unittest import mock

import numpy as np
from guarded import DTYPE, strides_of

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.device import devices
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

DIRECTIONS = ("forward", "backward_data", "backward_weights")
DATA = ("random", "equal")


class Case(NamedTuple):
    """A convolution whose results are sums of some `terms` products, at least in the middle of images."""

    direction: int
    layout: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    pad: int = 0
    stride: int = 1
    groups: int = 1
    dtype: str = "float32"

    @property
    def conv(self) -> ConvolutionDescriptor:
        spatial = len(self.x) - 2
        return ConvolutionDescriptor((self.pad,) * spatial, (self.stride,) * spatial, groups=self.groups)

    def descriptors(self) -> list[TensorDescriptor]:
        x, w = (TensorDescriptor(self.dtype, lens, strides_of(lens, self.layout)) for lens in (self.x, self.w))
        lens = tuple(self.conv.output_lens(x, w))
        return [x, w, TensorDescriptor(self.dtype, lens, strides_of(lens, self.layout))]

    def problem(self) -> ConvProblem:
        return ConvProblem(self.direction, *self.descriptors(), self.conv)


def cases(terms: int, dtype: str = "float32") -> Iterator[Case]:
    """Some that each solver is fit for; images are wide, high, or many."""
    side = max(4, round(terms ** .5) // 4 * 4)
    high, channels = (-(-terms // side), side), max(8, terms // 9 // 8 * 8)
    for layout in ("packed", "channels last"):
        yield Case(2, layout, (1, 2, *high), (3, 2, 1, 1), dtype=dtype)
        yield Case(2, layout, (2, 2, high[0], side // 2), (3, 2, 3, 3), 1, dtype=dtype)
        yield Case(2, layout, (1, 4, high[0], side * 2), (4, 4, 3, 3), 1, 2, dtype=dtype)
        yield Case(2, layout, (1, 8, *high), (8, 1, 3, 3), 1, groups=8, dtype=dtype)
        yield Case(2, layout, (1, 8, *high), (8, 4, 3, 3), 1, groups=2, dtype=dtype)
        yield Case(0, layout, (1, channels, 4, 4), (3, channels, 3, 3), 1, dtype=dtype)
        yield Case(1, layout, (1, 3, 4, 4), (channels, 3, 3, 3), 1, dtype=dtype)
        yield Case(1, layout, (1, 3, 8, 8), (channels, 3, 3, 3), 1, 2, dtype=dtype)
    yield Case(2, "packed", (-(-terms // 9), 2, 3, 3), (3, 2, 1, 1), dtype=dtype)
    yield Case(2, "packed", (1, 1, -(-terms // min(terms, 4096)), min(terms, 4096)), (1, 1, 15, 15), 7, dtype=dtype)
    yield Case(0, "packed", (1, terms, 1, 1), (2, terms, 1, 1), dtype=dtype)
    yield Case(1, "packed", (1, 2, 1, 1), (terms, 2, 1, 1), dtype=dtype)
    yield Case(0, "packed", (1, max(2, terms // 225), 20, 20), (2, max(2, terms // 225), 15, 15), 7, dtype=dtype)


class Found(NamedTuple):
    solver: str
    terms: int
    data: str
    error: float      # relative to the sum
    bound: float

    @property
    def wrong(self) -> bool:
        return not self.error <= self.bound


def run(handle: miopyx.Handle, host: miopyx.Handle, case: Case, data: str, rng: np.random.Generator,
        names: list[str] | None = None) -> Iterator[Found]:
    """What each solver that takes a case computes of it."""
    problem, descriptors, output = case.problem(), case.descriptors(), (2, 0, 1)[case.direction]
    able = [s for s in registry.CONV if s.why_not(handle.device, problem) is None
            and (names is None or any(text in s.name for text in names))]
    if not able:
        return
    reference = next(s for s in registry.CONV if s.why_not(host.device, problem) is None)
    values = [np.full(prod(d.lens), 0.0, DTYPE[case.dtype]) for d in descriptors]
    inputs = [i for i in ((0, 1), (2, 1), (2, 0))[case.direction]]
    for i in inputs:
        if data == "random":
            values[i][...] = rng.random(values[i].size, np.float32)
        else:
            values[i][...] = rng.uniform(0.5, 1)
    order = (*(descriptors[i] for i in inputs), case.conv, descriptors[output])
    name = f"convolution_{DIRECTIONS[case.direction]}"
    truth = np.empty_like(values[output])
    getattr(host, name)(*order)(*(values[i] for i in inputs), truth)
    exact = truth.astype(np.float64)
    terms = problem_terms(case)
    buffers = [handle.upload(values[i]) for i in inputs]
    for solver in able:
        result = handle.upload(np.full_like(truth, np.nan))
        getattr(handle, name)(*order, solver.id)(*buffers, result)
        got = handle.download(result, np.empty_like(truth)).astype(np.float64)
        # An element at the border may have no terms, and is 0 then.
        sums = np.full_like(exact, exact.max()) if solver.mixes_tiles else np.maximum(exact, np.finfo(np.float32).tiny)
        error = float(np.max(np.abs(got - exact) / sums))
        bound = solver.error_bound(handle.device, problem) + reference.error_bound(host.device, problem)
        yield Found(solver.name, terms, data, error, bound)


def problem_terms(case: Case) -> int:
    if case.direction == 2:
        return case.x[0] * prod(case.descriptors()[2].lens[2:])
    return prod(case.w[2:]) * (case.w[1] if case.direction == 0 else case.w[0] // case.groups)


def _handle(name: str, as_gpu: bool, fp64: bool) -> miopyx.Handle:
    if not as_gpu:
        return miopyx.Handle(name)
    info = devices.find(name)._replace(kind="gpu", fp64=fp64)
    with mock.patch.object(devices, "find", return_value=info):
        return miopyx.Handle(name)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--as-gpu", action="store_true", help="run the kernels for any GPU on a CPU device")
    parser.add_argument("--terms", nargs="+", type=int, default=[1000, 30_000, 1_000_000, 40_000_000])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16", "float64"])
    parser.add_argument("--solver", nargs="+", help="solvers whose names hold one of these texts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    name = given.device or next(info.name for info in devices.ranked() if info.kind != "host")
    wrong = 0
    with _handle(name, given.as_gpu, given.dtype == "float64") as handle, miopyx.Handle("host") as host:
        print(f"{name}, {given.dtype}: largest error relative to the sum, random and equal terms, and the bound")
        table: dict[str, dict[int, list[Found]]] = {}
        for terms in given.terms:
            for case in cases(terms, given.dtype):
                for data in DATA:
                    for found in run(handle, host, case, data, np.random.default_rng(given.seed), given.solver):
                        table.setdefault(found.solver, {}).setdefault(terms, []).append(found)
        print(f"{'':26}" + "".join(f"{terms:^30,}" for terms in given.terms))
        for solver, rows in table.items():
            cells = []
            for terms in given.terms:
                of = rows.get(terms, [])
                wrong += sum(found.wrong for found in of)
                worst = [max((f.error for f in of if f.data == data), default=np.nan) for data in DATA]
                cells.append("{:9.1e} {:9.1e} ({:.1e})".format(*worst, max(f.bound for f in of)) if of else "-")
            print(f"{solver:26}" + "".join(f"{cell:^30}" for cell in cells), flush=True)
    print(f"{wrong} results beyond their bounds")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
