"""What the first use of layers costs that nobody measured, by who chooses: the learned model, the cost table, the
throughput index, or Find.

    python bench/first_use.py [LIST...] [--layers 200] [--products 20] [--device NAME] [--calls 100] [--json FILE]

Each way is a process of its own with empty caches of programs and no databases, and takes the same convolutions:
random ones as networks have them, or some of LISTs of MIOpenDriver's command lines.  `choose` is the time until all
plans are there, compilation included, `first calls` that of a call each, `later calls` the median of ways' steady
calls, all summed over the layers: what a program that calls each layer N times waits is the first two and N times the
third.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WAYS = {"model": (".model", ".costs.txt"), "cost table": (".costs.txt",), "index": (), "Find": (".model", ".costs.txt")}


def problems(lists: list[str], layers: int, products: float, seed: int) -> list[str]:
    """Return command lines, drawn at random from the lists' or from those of bench/networklike.py."""
    folder = Path(__file__).parent
    words = ["--of", *lists, "--batches", "1", "4"] if lists else [str(layers)]
    words += ["--seed", str(seed), "--products", str(products)]
    lines = subprocess.run([sys.executable, str(folder / "networklike.py"), *words], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return lines[:layers]


def child(device: str, way: str, calls: int, path: str) -> None:
    """Use each problem of a file for the first time; print what it took."""
    import miopyx
    from miopyx.tools.driver import listing

    handle = miopyx.Handle(device)
    spent: dict[str, float] = dict.fromkeys(("choose", "first calls", "later calls"), 0.0)
    makes = {"fwd": ("convolution_forward", "xwy"), "bwd": ("convolution_backward_data", "ywx"),
             "wrw": ("convolution_backward_weights", "yxw")}
    rng = np.random.default_rng()
    # The device works at its full clock, and the driver's own first use is over.
    warm = miopyx.TensorDescriptor("float32", (64, 64, 64, 64))
    data = [handle.upload(rng.standard_normal(warm.lens, np.float32)) for _ in range(2)]
    for _ in range(50):
        miopyx.miopenActivationForward(handle, miopyx.ActivationDescriptor(miopyx.miopenActivationRELU), 1.0, warm,
                                       data[0], 0.0, warm, data[1])
    handle.finish()
    for line in listing.read(path, "conv", {}):
        for direction in line.work.directions:
            make, roles = makes[direction.short]
            desc = [line.work.descriptors[role] for role in roles]
            buffers = [handle.upload(rng.standard_normal(d.nbytes // 4, np.float32)) for d in desc]
            handle.finish()
            began = time.perf_counter()
            if way == "Find":
                find(handle, direction.short, desc, buffers, line.work.conv)
            plan = getattr(handle, make)(*desc[:2], line.work.conv, desc[2])
            chosen = time.perf_counter()
            plan(*buffers)
            handle.finish()
            used = time.perf_counter()
            for _ in range(calls):
                plan(*buffers)
            handle.finish()
            ended = time.perf_counter()
            spent["choose"] += chosen - began
            spent["first calls"] += used - chosen
            spent["later calls"] += (ended - used) / calls
    print(json.dumps(spent))


def find(handle: Any, direction: str, desc: list[Any], buffers: list[Any], conv: Any) -> None:
    """Time all solvers of a problem; the record stays with the handle."""
    import miopyx

    name = {"fwd": "Forward", "bwd": "BackwardData", "wrw": "BackwardWeights"}[direction]
    a, b, out = desc
    size = getattr(miopyx, f"miopenConvolution{name}GetWorkSpaceSize")(
        handle, *((b, a) if direction == "fwd" else (a, b)), conv, out)
    getattr(miopyx, f"miopenFindConvolution{name}Algorithm")(
        handle, a, buffers[0], b, buffers[1], conv, out, buffers[2], 1, handle.upload(np.empty(size + 1, np.uint8)),
        size, False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", nargs="*")
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--products", type=float, default=20, help="most 10^9 products of a direction")
    parser.add_argument("--device", default="")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seed", type=int, default=11, help="measured lists have 0, 7 and 9")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.device, options.child[0], options.calls, options.child[1])
        return
    from miopyx.database import paths
    from miopyx.device import devices

    device = options.device or devices.best().name
    result: dict[str, Any] = {}
    for way, kept in WAYS.items():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "system").mkdir()
            for file in paths.system_folder().iterdir():
                if file.name.endswith((*kept, ".rates.txt")):
                    shutil.copy(file, folder / "system")
            lines = problems(options.list, options.layers, options.products, options.seed)
            (folder / "list.txt").write_text("\n".join(lines) + "\n")
            environment = {**os.environ, "MIOPYX_CACHE_DIR": str(folder / "cache"),
                           "MIOPEN_USER_DB_PATH": str(folder / "databases"),
                           "MIOPEN_SYSTEM_DB_PATH": str(folder / "system"), "POCL_CACHE_DIR": str(folder / "pocl"),
                           "CUDA_CACHE_PATH": str(folder / "cuda")}
            done = subprocess.run([sys.executable, "-P", __file__, "--device", device, "--calls", str(options.calls),
                                   "--child", way, str(folder / "list.txt")], env=environment, stdout=subprocess.PIPE,
                                  text=True, check=True)
            result[way] = json.loads(done.stdout)
            print(f"{way:<12}" + "".join(f"{key} {seconds * 1e3:10.2f} ms   " for key, seconds in result[way].items()),
                  flush=True)
    if options.json:
        record = {"device": device, "layers": options.layers, "ways": result}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
