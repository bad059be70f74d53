"""Find over lists of convolutions: fills the user's find-db of a device, from which one that ships is made.

    python bench/find_lists.py FILE... [--device NAME] [--share 1/4] [--seconds S]
    python bench/find_lists.py --list resnet50 --batch 256 --dtype float16 --layout nhwc ...
    python bench/find_lists.py FILE... --build --share 1/14

A FILE holds MIOpenDriver's command lines; `--list` takes a list of convolutions.txt.  Each problem goes through Find in
its NORMAL mode once, which skips what this build has measured before; `--share I/N` takes each Nth problem from the Ith
on, for N devices side by side; no problem is begun after `--seconds`.  Operands are normal random numbers, shared
between problems.  MIOPEN_USER_DB_PATH says where the file lies, MIOPYX_MEASUREMENTS where each time is added as a JSON
line; `miopyx db merge` puts several users' files together.

`--build` only builds programs, each Nth of those that any solver wants, for Find to meet in the cache: where a driver
compiles one at a time in a process, several of them build side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import convolutions
import ml_dtypes
import numpy as np
import pyopencl as cl
from versus import DTYPES, Ours

import miopyx
from miopyx.choose import _ranking, _survey, compiling
from miopyx.problem._problem import ConvProblem
from miopyx.tools.driver import listing

TILE = 1 << 22  # elements of random numbers, repeated through a buffer
LAYOUTS = ("nchw", "nhwc")


class Problem(NamedTuple):
    """A direction of a convolution: descriptors by name, x, w and y."""

    direction: str  # F, B or W
    desc: dict[str, Any]
    conv: Any
    text: str


def of_list(options: argparse.Namespace, handle: miopyx.Handle) -> Iterator[Problem]:
    side = Ours(handle, options.dtype, options.layout)
    for layer in convolutions.layers(options.list, options.batch, []):
        desc = {name: side.desc(lens) for name, lens in zip("xwy", layer.all_lens, strict=True)}
        for direction in "FBW":
            yield Problem(direction, desc, layer.conv(), f"{layer.text} batch {layer.n}")


def of_file(path: str) -> Iterator[Problem]:
    letters = {"fwd": "F", "bwd": "B", "wrw": "W"}
    for line in listing.read(path, "conv", {}):
        if hasattr(line.work, "conv"):
            for direction in line.work.directions:
                yield Problem(letters[direction.short], line.work.descriptors, line.work.conv, f"{path}:{line.number}")


class Memory:
    """Buffers that grow, by name, full of random numbers of a type."""

    def __init__(self, handle: miopyx.Handle) -> None:
        self.handle = handle
        self.buffers: dict[str, tuple[str, int, Any]] = {}

    def get(self, name: str, dtype: str, size: int) -> Any:
        held = self.buffers.get(name)
        if held is None or held[0] != dtype or held[1] < size:
            numbers = np.random.default_rng().standard_normal(TILE, np.float32)
            tile = numbers.astype(getattr(ml_dtypes, dtype, dtype)).view("u1")
            held = self.buffers[name] = dtype, size, self.handle.upload(np.resize(tile, max(size, 1)))
        return held[2]


def find(handle: miopyx.Handle, memory: Memory, problem: Problem) -> list[Any]:
    """Run Find and return what it timed, fastest first."""
    name = convolutions.FUNCTIONS[problem.direction]
    order, asked = convolutions.ROLES[problem.direction]
    a, b, out = (problem.desc[role] for role in asked)
    size = getattr(miopyx, f"miopenConvolution{name}GetWorkSpaceSize")(handle, a, b, problem.conv, out)
    a, b, out = (problem.desc[role] for role in order)
    # Results are never operands: after a few problems they would be infinite, and solvers look into what is not finite.
    p, q, r = (memory.get(name, a.dtype, desc.nbytes)
               for name, desc in zip((*order[:2], "out"), (a, b, out), strict=True))
    return list(getattr(miopyx, f"miopenFindConvolution{name}Algorithm")(
        handle, a, p, b, q, problem.conv, out, r, 9, memory.get("space", "float32", size), size, False))


def build(handle: miopyx.Handle, problems: list[Problem], mine: int, parts: int) -> None:
    """Make the programs of all solvers that Find would time, a share of them."""
    specs = {}
    for problem in problems:
        asked = ConvProblem("FBW".index(problem.direction), *(problem.desc[name] for name in "xwy"), problem.conv)
        able = [offer for offer in _survey.Survey(handle, asked).applicable() if not offer.solver.last_resort]
        for offer in _ranking.worth_timing(able):
            for step in offer.solution().steps:
                if step.spec is not None:
                    specs[step.spec.file, step.spec.options] = step.spec
    wanted = [specs[key] for key in sorted(specs)][mine - 1::parts]
    start = time.monotonic()
    for failure in compiling.ahead(handle, wanted):
        print(f"{failure.spec.file} {failure.spec.options}: {failure.why}", flush=True)
    print(f"{handle.device.name}: {len(wanted)} of {len(specs)} programs in {time.monotonic() - start:.0f} s",
          flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="*", metavar="FILE")
    parser.add_argument("--list", choices=convolutions.LISTS)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--layout", default="nchw", choices=LAYOUTS)
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--build", action="store_true", help="only build programs")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    problems = list(of_list(options, handle)) if options.list else []
    for path in options.file:
        problems += of_file(path)
    mine, parts = map(int, options.share.split("/"))
    if options.build:
        build(handle, problems, mine, parts)
        return
    memory, start, done = Memory(handle), time.monotonic(), 0
    for problem in problems[mine - 1::parts]:
        if time.monotonic() - start > options.seconds:
            break
        try:
            found = find(handle, memory, problem)
        except (miopyx.MIOpenError, cl.Error) as e:
            print(f"{problem.text} {problem.direction}: {e}", flush=True)
            continue
        done += 1
        if not found:
            print(f"{problem.text} {problem.direction}: nothing was timed", flush=True)
    print(f"{handle.device.name}: {done} of {len(problems[mine - 1::parts])} problems in "
          f"{time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
