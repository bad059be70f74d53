"""What all convolutions of a network cost a process before they run at full speed, with nothing on disk and again.

    python bench/whole_list.py [--list resnet50] [--directions FBW] [--batch 4] [--dtype float32] [--layout nchw]
                               [--device NAME] [--json OUT]

For each layer of a list of convolutions.txt, in each direction: `immediate` makes a plan, which takes the best solver
by its index, and calls it once; `find` runs a Find in its NORMAL mode before that.  Each is a process with empty caches
and databases, PoCL's and NVIDIA's own caches among them, then another one with what the first left.  Importing, the
handle and the data are not counted.

Prints the seconds of Find, of plans and of first calls, in which PoCL compiles kernels for their work-group's size; how
many programs were compiled, how many of those by child processes, and how many came from disk; how long this process
waited for builds, for the binaries that went to disk meanwhile, for those from there and, beside the total, for the
binaries that are written at its end; and where anything was compiled the programs that took longest, and the layers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

LONGEST = 8


class Programs:
    """What `programs` was asked for: wraps its functions, so that each call is counted and timed."""

    def __init__(self) -> None:
        from miopyx.runtime import _opencl, programs

        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.each: dict[str, float] = {}
        self.store = programs.store
        source, build, adopt = _opencl.program_from_source, programs.build, programs.adopt

        def counted_source(*args):
            start = time.perf_counter()
            program = source(*args)
            self.counts["compiled"] += 1
            self.seconds["builds"] += time.perf_counter() - start
            return program

        def timed_build(device, file, options):
            before, built, start = self.counts["compiled"], self.seconds["builds"], time.perf_counter()
            program = build(device, file, options)
            took, compiled = time.perf_counter() - start, self.counts["compiled"] > before
            self.counts["loaded"] += not compiled
            self.seconds["binaries" if compiled else "loading"] += took - (self.seconds["builds"] - built)
            if compiled:
                self.each[f"{file} {options}"] = took
            return program

        def counted_adopt(*args):
            self.counts["compiled by children"] += 1
            return adopt(*args)

        _opencl.program_from_source, programs.build, programs.adopt = counted_source, timed_build, counted_adopt


def child(options: argparse.Namespace) -> dict:
    """Go over the list once and return what it took."""
    import convolutions
    from versus import Ours

    import miopyx

    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    side, programs = Ours(handle, options.dtype, options.layout), Programs()
    seconds: Counter[str] = Counter()
    layers: dict[str, float] = {}
    solvers: Counter[str] = Counter()
    for layer in convolutions.layers(options.list, options.batch, []):
        prepared = convolutions.Prepared(side, layer, convolutions.random_data(layer, side.numpy_type, side.layout))
        conv = layer.conv()
        for direction in options.directions:
            marks = [time.perf_counter()]
            if options.child == "find":
                prepared.find(direction, conv, False)
            marks.append(time.perf_counter())
            plan = prepared.plan(direction, conv)
            marks.append(time.perf_counter())
            prepared.run(direction, plan)()
            handle.finish()
            marks.append(time.perf_counter())
            for name, start, end in zip(("find", "plan", "first call"), marks, marks[1:], strict=False):
                seconds[name] += end - start
            layers[f"{direction} {layer.text}"] = marks[-1] - marks[0]
            solvers[plan.solver.name] += 1
    start = time.perf_counter()
    programs.store()
    programs.seconds["at the end"] = time.perf_counter() - start

    def longest(times: dict[str, float]) -> list:
        return sorted(times.items(), key=lambda item: -item[1])[:LONGEST]

    return {"device": handle.device.name, "seconds": dict(seconds), "total": sum(seconds.values()),
            "programs": dict(programs.counts), "program seconds": dict(programs.seconds), "solvers": dict(solvers),
            "longest programs": longest(programs.each), "longest layers": longest(layers)}


def process(mode: str, folder: str) -> dict:
    """Run a child with its caches and databases in `folder`."""
    environment = {**os.environ, "MIOPYX_CACHE_DIR": f"{folder}/cache", "MIOPEN_USER_DB_PATH": f"{folder}/databases",
                   "POCL_CACHE_DIR": f"{folder}/pocl", "CUDA_CACHE_PATH": f"{folder}/nvidia", "PYOPENCL_NO_CACHE": "1"}
    Path(folder, "pocl").mkdir(exist_ok=True)
    done = subprocess.run([sys.executable, *sys.argv, "--child", mode], env=environment, stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", default="resnet50")
    parser.add_argument("--directions", default="FBW")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--modes", default="immediate,find")
    parser.add_argument("--json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options)))
        return
    results = {}
    for mode in options.modes.split(","):
        with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
            for state in ("nothing on disk", "again"):
                result = results[f"{mode}, {state}"] = process(mode, folder)
                parts = ", ".join(f"{name} {value:.2f}" for name, value in result["seconds"].items() if value > 0.005)
                counts = ", ".join(f"{count} {name}" for name, count in result["programs"].items() if count)
                times = ", ".join(f"{name} {value:.2f} s" for name, value in result["program seconds"].items())
                print(f"{result['device']}: {mode}, {state}: {result['total']:.2f} s ({parts}); programs: "
                      f"{counts or 'none'}; {times}")
                if result["longest programs"]:
                    for kind in ("programs", "layers"):
                        for name, took in result[f"longest {kind}"]:
                            print(f"    {took:6.2f} s  {name}")
                print("    " + ", ".join(f"{name} {count}" for name, count in sorted(result["solvers"].items())),
                      flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
