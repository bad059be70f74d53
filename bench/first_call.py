"""What the first call of a process costs: with nothing on disk, and with the programs and the record of an earlier one.

Each figure is the median over fresh processes.  `find` is a whole Find, `immediate` GetSolution and the first
...Immediate call of a process that has not seen the problem, until its result is there.

    python bench/first_call.py [--device NAME] [--repeat 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from miopyx.device import devices

CHILD = """
import sys, time
began = time.perf_counter()
import json
import numpy as np
import miopyx
from miopyx.runtime import _opencl
from miopyx.choose import find
imported = time.perf_counter()
counts = {"compiled": 0, "loaded": 0, "timed": 0}
def counted(name, function):
    def call(*args):
        counts[name] += 1
        return function(*args)
    return call
_opencl.program_from_source = counted("compiled", _opencl.program_from_source)
_opencl.program_from_binary = counted("loaded", _opencl.program_from_binary)
find._time = counted("timed", find._time)
handle = miopyx.Handle(sys.argv[1])
ready = time.perf_counter()
conv = miopyx.ConvolutionDescriptor((1, 1))
x, w = miopyx.TensorDescriptor("float32", (4, 64, 56, 56)), miopyx.TensorDescriptor("float32", (64, 64, 3, 3))
y = miopyx.TensorDescriptor("float32", conv.output_lens(x, w))
rng = np.random.default_rng()
data = [handle.upload(rng.standard_normal(d.lens, dtype=np.float32)) for d in (x, w, y)]
size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, w, x, conv, y)
workspace = handle.upload(np.zeros(max(size, 1), np.uint8))
handle.finish()
start = time.perf_counter()
if sys.argv[2] == "find":
    miopyx.miopenFindConvolutionForwardAlgorithm(handle, x, data[0], w, data[1], conv, y, data[2], 1, workspace, size,
                                                 False)
    chosen = time.perf_counter()
else:
    (solution,) = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 1)
    chosen = time.perf_counter()
    miopyx.miopenConvolutionForwardImmediate(handle, w, data[1], x, data[0], conv, y, data[2], workspace, size,
                                             solution.solution_id)
    handle.finish()
end = time.perf_counter()
again = []
if sys.argv[2] == "immediate":
    for _ in range(5):
        before = time.perf_counter()
        miopyx.miopenConvolutionForwardImmediate(handle, w, data[1], x, data[0], conv, y, data[2], workspace, size,
                                                 solution.solution_id)
        handle.finish()
        again.append(time.perf_counter() - before)
ms = {"import": imported - began, "handle": ready - imported, "choose": chosen - start, "first call": end - chosen,
      "later call": min(again, default=0.0)}
print(json.dumps({"ms": {name: value * 1e3 for name, value in ms.items()}, **counts}))
"""


def process(device: str, what: str, folder: Path) -> dict:
    """Run one fresh process on the caches and databases in a folder; return what it measured."""
    environment = {**os.environ, "MIOPYX_CACHE_DIR": str(folder / "cache"),
                   "MIOPEN_USER_DB_PATH": str(folder / "databases")}
    done = subprocess.run([sys.executable, "-P", "-c", CHILD, device, what], env=environment, capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", help="as `miopyx doctor` names it; default: the best that works")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = arguments.device or devices.best().name
    runs: dict[str, list[dict]] = {name: [] for name in ("immediate, nothing on disk", "find, programs on disk",
                                                         "immediate, programs and record on disk")}
    for _ in range(arguments.repeat):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            process(device, "probe", folder)  # the probe's verdict is not what is measured
            for path in (folder / "cache").glob("programs*"):
                for file in sorted(path.rglob("*"), reverse=True):
                    file.rmdir() if file.is_dir() else file.unlink()
            runs["immediate, nothing on disk"].append(process(device, "immediate", folder))
            process(device, "find", folder)
            for file in (folder / "databases").glob("*.txt"):
                file.unlink()
            runs["find, programs on disk"].append(process(device, "find", folder))
            runs["immediate, programs and record on disk"].append(process(device, "immediate", folder))
    print(f"{device}, medians of {arguments.repeat} processes, milliseconds; x 4x64x56x56, w 64x64x3x3, float32")
    print(f"{'':<40}{'import':>9}{'handle':>9}{'choose':>9}{'1st call':>9}{'later':>9}  compiled loaded timed")
    result = {}
    for name, measured in runs.items():
        ms = {key: statistics.median(m["ms"][key] for m in measured) for key in measured[0]["ms"]}
        counts = {key: measured[-1][key] for key in ("compiled", "loaded", "timed")}
        result[name] = {"ms": ms, **counts}
        print(f"{name:<40}" + "".join(f"{value:>9.2f}" for value in ms.values())
              + f"  {counts['compiled']:>8} {counts['loaded']:>6} {counts['timed']:>5}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"device": device, "runs": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
