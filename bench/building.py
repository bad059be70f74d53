"""How long a network's programs take to build: every layer and direction in immediate mode, cold and warm.

    python bench/building.py [--device NAME] [--networks resnet50,sd-unet,unet3d] [--types float16-nhwc,float32-nchw]
                             [--runs 3] [--one-by-one]

A run is two processes with a folder for all caches, the driver's too: the first one finds it empty, the second one
what the first one left.  Each makes a handle, builds all programs by `build_ahead` (with --one-by-one as they come) and
makes every plan.  Seconds are medians: from the handle on, and in brackets those of the builds alone; the interpreter,
imports and the driver's start are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = {"F": "forward", "B": "backward_data", "W": "backward_weights"}
BATCHES = {"resnet50": 64, "sd-unet": 2, "unet3d": 2}


def child(options: argparse.Namespace) -> None:
    """Build once, and print what it took."""
    import convolutions
    from versus import Ours

    import miopyx

    dtype, layout = options.types.split("-")
    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    side = Ours(handle, dtype, layout)
    start = time.perf_counter()
    calls = []
    for layer in convolutions.layers(options.networks, BATCHES[options.networks], []):
        desc = {name: side.desc(lens) for name, lens in zip("xwy", layer.all_lens, strict=True)}
        for direction, name in WAYS.items():
            a, b, out = (desc[role] for role in convolutions.ROLES[direction][0])
            calls.append((name, a, b, layer.conv(), out))
    begin = time.perf_counter()
    if not options.one_by_one:
        handle.build_ahead(calls)
    ready = time.perf_counter()
    kept = [getattr(handle, f"convolution_{name}")(*descriptors) for name, *descriptors in calls]
    end = time.perf_counter()
    print(json.dumps({"plans": len(kept), "seconds": end - start,
                      "builds": (end if options.one_by_one else ready) - begin}))


def measure(options: argparse.Namespace, network: str, types: str) -> None:
    found: dict[str, list[dict]] = {"cold": [], "warm": []}
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
            environment = {**os.environ, "MIOPYX_CACHE_DIR": folder, "CUDA_CACHE_PATH": f"{folder}/driver",
                           "MIOPEN_USER_DB_PATH": f"{folder}/db", "POCL_CACHE_DIR": f"{folder}/pocl"}
            for name in ("db", "driver", "pocl"):
                Path(folder, name).mkdir(mode=0o700)
            for kind in found:
                command = [sys.executable, __file__, "--child", "--networks", network, "--types", types]
                command += ["--device", options.device] if options.device else []
                command += ["--one-by-one"] if options.one_by_one else []
                done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
                found[kind].append(json.loads(done.stdout.splitlines()[-1]))
    one = found["cold"][0]
    times = [f"{kind} {statistics.median(run['seconds'] for run in runs):.2f} s "
             f"({statistics.median(run['builds'] for run in runs):.2f})" for kind, runs in found.items()]
    print(f"{network:9} {types:14} {one['plans']} plans: {', '.join(times)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--networks", default=",".join(BATCHES))
    parser.add_argument("--types", default="float16-nhwc,float32-nchw")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one-by-one", action="store_true", help="as plans ask for programs, not at once")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    for network in options.networks.split(","):
        for types in options.types.split(","):
            measure(options, network, types)


if __name__ == "__main__":
    main()
