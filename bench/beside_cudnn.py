"""Convolutions beside cuDNN in every mode that counts on NVIDIA's GPUs: runs versus.py, then prints one table.

    python bench/beside_cudnn.py FOLDER [--device NAME] [--modes float16-nhwc,small-float32-nchw] [--runs 3]
    python bench/beside_cudnn.py FOLDER --tf32
    python bench/beside_cudnn.py FOLDER --table

Each run of a mode is a process of its own; FOLDER/MODE.json has a row for each layer and direction: times of both
sides, medians over the runs, the ratio of each run, solver, errors of both, the largest of all runs.  Programs go to
FOLDER/cache, Find's records to FOLDER/db, from which a find-db that ships can be made; runs behind the first find both
there.  Several machines' or GPUs' files may be put into one folder.

A ratio is cuDNN's time by ours: geometric means over the layers, and the least.  Calls are enqueued back to back,
twenty at least; of small problems also waited for one by one.  PyTorch chooses among cuDNN's algorithms by its
benchmark mode, without TF32 but in the modes tf32-..., of which `--tf32` runs both: there we may round factors, too.
The peer of float8-nhwc, forward and data, is our own float16: cuDNN's float8 cannot be had through PyTorch.

The part of the limit is the time that a layer's operations, or its bytes, take at the rates that limits.py measures
first (FOLDER/limits.json), whichever is longer, by the time that it took: "of the limit" by cuBLAS' products, "of
wgmma" by those of wgmma alone.  A layer may be beyond it: cuBLAS' products are not the fastest that there are, some of
our TF32 solvers multiply halves, and Winograd's multiply less.

Workspaces: the largest of ours, and cuDNN's there, of the layers where ours is larger than cuDNN's and than 256 MB;
there should be none.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

from limits import HALVES_A_FLOAT

# Name, versus.py's list, batch, type, layout, and whether calls are also waited for.
MODES = (
    ("float32-nchw", "resnet50", 256, "float32", "nchw", False),
    ("tf32-nchw", "resnet50", 256, "float32", "nchw", False),
    ("tf32-nhwc", "resnet50", 256, "float32", "nhwc", False),
    ("float16-nchw", "resnet50", 256, "float16", "nchw", False),
    ("float16-nhwc", "resnet50", 256, "float16", "nhwc", False),
    ("bfloat16-nchw", "resnet50", 256, "bfloat16", "nchw", False),
    ("bfloat16-nhwc", "resnet50", 256, "bfloat16", "nhwc", False),
    ("float8-nhwc", "resnet50", 256, "float8_e4m3fn", "nhwc", False),
    ("grouped-float32-nchw", "grouped", 64, "float32", "nchw", False),
    ("grouped-float16-nhwc", "grouped", 64, "float16", "nhwc", False),
    ("small-float32-nchw", "small", 1, "float32", "nchw", True),
    ("small-float16-nhwc", "small", 1, "float16", "nhwc", True),
    ("modern-float32-nchw", "modern", 16, "float32", "nchw", False),
    ("modern-float16-nhwc", "modern", 16, "float16", "nhwc", False),
    ("modern-bfloat16-nhwc", "modern", 16, "bfloat16", "nhwc", False),
    ("odd-float32-nchw", "odd", 64, "float32", "nchw", False),
    ("odd-float16-nhwc", "odd", 64, "float16", "nhwc", False),
    ("volumes-float32-ncdhw", "volumes", 2, "float32", "nchw", False),
    ("volumes-bfloat16-ndhwc", "volumes", 2, "bfloat16", "nhwc", False),
    ("volumes-bfloat16-ncdhw", "volumes", 2, "bfloat16", "nchw", False),
    ("signals-float32-ncw", "signals", 16, "float32", "nchw", False),
    ("signals-float16-ncw", "signals", 16, "float16", "nchw", False),
    # Tensors of 2^30 elements and more, which are taken in runs of images.
    ("large-float32-nchw", "vgg16", 352, "float32", "nchw", False),
    ("large-float16-nhwc", "vgg16", 352, "float16", "nhwc", False),
)
NAMES = [mode[0] for mode in MODES]
WORKSPACE = 256 << 20  # bytes that a solver may always take


def run(folder: Path, mode: tuple, device: str | None, runs: int) -> None:
    name, network, batch, dtype, layout, sync = mode
    path = folder / f"{name}.json"
    command = [sys.executable, str(Path(__file__).with_name("versus.py")), "conv", "--plain", "--list", network,
               "--batch", str(batch), "--dtype", dtype, "--layout", layout, "--repeat", "1",
               "--db", str(folder / "db"), "--json", str(path)]
    command += ["--sync"] if sync else []
    command += ["--only", "in=224x224"] if name.startswith("large") else []
    command += ["--tf32"] if name.startswith("tf32") else []
    command += ["--directions", "FB"] if name.startswith("float8") else []
    command += ["--device", device] if device else []
    found = []
    for _ in range(runs):
        subprocess.run(command, env={**os.environ, "MIOPYX_CACHE_DIR": str(folder / "cache")}, check=True)
        found.append(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps({**found[0], "rows": together([one["rows"] for one in found])}, indent=1) + "\n",
                        encoding="utf-8")


def together(runs: list[list[dict]]) -> list[dict]:
    """Return the rows of several runs as one's."""
    rows = []
    for same in zip(*runs, strict=True):
        row = dict(same[0])
        for name in row.keys() & {"miopyx", "torch", "miopyx_sync", "torch_sync"}:
            row[name] = statistics.median(one[name] for one in same)
        for name in ("error", "torch_error"):
            row[name] = max((one[name] for one in same), key=lambda value: (math.isnan(value), value))
        for name in ("miopyx_best", "torch_best"):
            row[name] = min(one[name] for one in same)
        row["ratios"] = [round(one["torch"] / one["miopyx"], 4) for one in same]
        rows.append(row)
    return rows


def part_of_limit(row: dict, limits: dict[str, float], rate: float) -> float:
    """Return the time of a row's operations or bytes at the limits by the time that it took."""
    return max(row["flops"] / rate, row["bytes"] / limits["copy"]) / row["miopyx"]


def rates_of(limits: dict[str, float] | None, unit: str) -> list[float | None]:
    """Return operations a second of cuBLAS' products, and of wgmma's alone, or None where they were not measured."""
    halves = (limits or {}).get("wgmma float16")
    alone = halves / HALVES_A_FLOAT if unit == "float32" and halves else (limits or {}).get(f"wgmma {unit}")
    return [(limits or {}).get(unit), alone]


def beyond(rows: list[dict]) -> str:
    """Return the largest workspace, and cuDNN's there, of the layers where ours is larger than it may be."""
    worst = max((row for row in rows if row.get("workspace", 0) > max(row.get("torch_workspace", 0), WORKSPACE)),
                key=lambda row: row["workspace"], default=None)
    return f"{worst['workspace'] >> 20} ({worst.get('torch_workspace', 0) >> 20}) MB" if worst else "none"


def table(folder: Path, names: list[str]) -> None:
    mean = statistics.geometric_mean
    path = folder / "limits.json"
    limits = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    print("| mode | layers | forward | data | weights | least | TFLOP/s | cuDNN's | of the limit | of wgmma | "
          "workspace | largest error | cuDNN's |")
    print("| --- " * 13 + "|")
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        told = json.loads(path.read_text(encoding="utf-8"))
        rows, unit = told["rows"], name.split("-")[0] if name.startswith(("tf32", "float8")) else told["dtype"]
        by = {way: [row for row in rows if row["direction"] == way] for way in ("forward", "data", "weights")}

        def line(label: str, end: str, by: dict[str, list[dict]] = by, rows: list[dict] = rows,
                 unit: str = unit) -> str:
            ours, theirs = f"miopyx{end}", f"torch{end}"
            means = (f"{mean([row[theirs] / row[ours] for row in same]):.2f}" if same else "" for same in by.values())
            rates = (" / ".join(f"{mean([row['flops'] / row[side] * 1e-12 for row in same]):.1f}"
                                for same in by.values() if same) for side in (ours, theirs))
            errors = (" / ".join(f"{max(row[side] for row in same):.1e}" for same in by.values() if same)
                      for side in ("error", "torch_error"))
            least = min(row[theirs] / row[ours] for row in rows)
            # What each call waits for is the host, not the device.
            parts = ("" if rate is None or end or "bytes" not in rows[0] else " / ".join(
                f"{mean([part_of_limit(row, limits, rate) for row in same]):.2f}" for same in by.values() if same)
                     for rate in rates_of(limits, unit))
            return " | ".join([f"| {label}", str(len(by["forward"])), *means, f"{least:.2f}", *rates, *parts,
                               beyond(rows), *errors]) + " |"

        print(line(name, ""))
        if "torch_sync" in rows[0]:
            print(line(f"{name}, waited for", "_sync"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of MODE.json, made where there is none")
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--modes", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--tf32", action="store_true", help="the modes whose names begin so, instead of --modes")
    parser.add_argument("--runs", type=int, default=1, help="of each mode (default: 1)")
    parser.add_argument("--table", action="store_true", help="only print the table of these modes, as far as they are "
                        "there: files as bench/results has them, without what stands before the mode's name")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    wanted = [name for name in NAMES if name.startswith("tf32")] if options.tf32 else options.modes.split(",")
    if not set(wanted) <= set(NAMES):
        parser.error(f"no such mode: {', '.join(sorted(set(wanted) - set(NAMES)))}")
    if options.table and not any((options.folder / f"{name}.json").exists() for name in wanted):
        parser.error(f"{options.folder} has no file MODE.json of these modes")
    for name in ("cache", "db"):
        (options.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    limits = options.folder / "limits.json"
    if not options.table and not limits.exists():
        subprocess.run([sys.executable, str(Path(__file__).with_name("limits.py")), "--json", str(limits)], check=True)
    for mode in MODES if not options.table else ():
        if mode[0] in wanted:
            run(options.folder, mode, options.device, options.runs)
    table(options.folder, [name for name in NAMES if name in wanted or not options.table])


if __name__ == "__main__":
    main()
