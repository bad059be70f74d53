"""Every solver that takes a problem, on random convolutions, against the host path: a table of what each did.

    python -P tests/solver_matrix.py                                       300 problems on every device (minutes)
    python -P tests/solver_matrix.py --device host --problems 2000 --seed 7 --solver Winograd Fft --json OUT

Ranks, groups, filters, strides, pads, dilations, types and layouts (packed, channels last, padded) are drawn anew for
each problem; all devices and solvers get the same ones.  What is checked, and the bound, are those of solver_checks.py:
each solver runs by its id with a workspace of its own, and as a plan with alpha and beta; outputs are poisoned, guard
bytes around all buffers and the workspace must survive, inputs must not change, every element counts.

--as-gpu lets the solvers take OpenCL CPUs for GPUs, so that the kernels of those run there, too; --isa for CPUs with
other registers.  --tuned runs each solver in a configuration drawn from its table instead of the default one.

For each device, solver and type it prints how many problems the solver took and the largest |error| of any element in
units of roundoff * sum |products|.  Exit status 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np

import miopyx
from miopyx.device import devices
from miopyx.solvers import registry

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import solver_checks
from cases_reader import ConvCase, conv_case
from guarded import LAYOUTS
from solver_checks import Example, check, configurations_of

TYPES = ("float32", "float16", "bfloat16", "float64", "int8")
MOST_PRODUCTS = 3e7  # of a problem: the naive solvers run too


def random_case(rng: np.random.Generator) -> ConvCase:
    """Return a convolution as networks have them, or an odd one, small enough for every solver."""
    def one_of(*values):
        return values[int(rng.integers(len(values)))]

    while True:
        spatial = one_of(1, 2, 2, 2, 2, 3)
        longest = {1: 90, 2: 30, 3: 9}[spatial]
        lens = tuple(int(v) for v in rng.integers(1, longest, spatial))
        side = one_of(1, 1, 2, 3, 3, 3, 5, 7, 11)
        filter = tuple(side if one_of(0, 0, 0, 1) == 0 else one_of(1, 2, 3) for _ in range(spatial))
        stride = (one_of(1, 1, 1, 2, 2, 3),) * spatial
        dilation = (one_of(1, 1, 1, 2, 3),) * spatial
        pad = tuple(one_of(0, s // 2, s // 2, int(rng.integers(0, s + 2))) for s in filter)
        groups, depthwise = one_of(1, 1, 1, 2, 3, 8), one_of(0, 0, 1)
        c, k = (groups * (1 if depthwise else one_of(1, 3, 4, 8, 17, 33, 65)) for _ in range(2))
        transposed = one_of(0, 0, 0, 1) == 1
        case = conv_case(one_of(1, 1, 2, 3, 5), c, k, lens, filter, pad, stride, dilation, groups, transposed)
        try:
            if case.products < MOST_PRODUCTS:
                return case
        except miopyx.MIOpenError:  # no y
            continue


def open_handle(name: str, as_gpu: bool, isa: str | None) -> miopyx.Handle:
    info = devices.find(name)
    if info.kind == "host":
        return miopyx.Handle(name)
    told = info._replace(kind="gpu" if as_gpu else info.kind, isa=isa or info.isa)
    with mock.patch.object(devices, "find", return_value=told):
        return miopyx.Handle(name)


def run(handles: dict[str, miopyx.Handle], problems: int, seed: int, wanted: list[str],
        tuned: bool) -> tuple[dict, list[str]]:
    rng = np.random.default_rng(seed)
    host, counts, wrong, worst = miopyx.Handle("host"), Counter(), [], {}
    for number in range(problems):
        case, dtype, layout = random_case(rng), TYPES[number % len(TYPES)], LAYOUTS[int(rng.integers(3))]
        example = Example(case, dtype, layout, rng, host)
        for direction in range(1 if dtype == "int8" else 3):
            problem = example.problem(direction)
            for name, handle in handles.items():
                for solver in registry.CONV:
                    if solver.why_not(handle.device, problem) is not None or (
                            wanted and not any(word in solver.name for word in wanted)):
                        continue
                    solver_checks.worst.clear()
                    config = None
                    if tuned:
                        every = configurations_of(solver, handle.device, problem)
                        config = every[int(rng.integers(len(every)))]
                    try:
                        check(handle, example, direction, solver, rng, config)
                    except AssertionError as error:
                        wrong.append(f"{name} {solver.name} {config or ''} {dtype} {layout} {case}: {error}")
                    key = name, solver.name, dtype
                    counts[key] += 1
                    worst[key] = max([worst.get(key, 0.0), *solver_checks.worst.values()])
    return {key: (counts[key], worst[key]) for key in counts}, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", default=[info.name for info in devices.ranked()])
    parser.add_argument("--as-gpu", action="store_true")
    parser.add_argument("--isa", choices=["sse2", "avx2", "avx512"])
    parser.add_argument("--tuned", action="store_true", help="solvers run configurations drawn from their tables")
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--solver", nargs="+", default=[], help="parts of names")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"seed {args.seed}")
    handles = {name: open_handle(name, args.as_gpu, args.isa) for name in args.device}
    results, wrong = run(handles, args.problems, args.seed, args.solver, args.tuned)
    for name in args.device:
        print(f"\n{name}: problems taken and largest error\n{'':26}" + "".join(f"{t:>17}" for t in TYPES))
        for solver in registry.CONV:
            cells = [results.get((name, solver.name, dtype)) for dtype in TYPES]
            if any(cells):
                print(f"{solver.name:26}" + "".join(
                    f"{cell[0]:8}{cell[1]:9.2f}" if cell else f"{'-':>17}" for cell in cells))
    if args.json:
        rows = [{"device": key[0], "solver": key[1], "dtype": key[2], "problems": n, "worst": w}
                for key, (n, w) in sorted(results.items())]
        args.json.write_text(json.dumps({"seed": args.seed, "rows": rows, "wrong": wrong}, indent=1) + "\n")
    print("\n".join(["", *wrong, f"{len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
