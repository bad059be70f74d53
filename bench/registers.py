"""Registers, local memory and build time of every program in the cache, as NVIDIA's driver reports them.

    python bench/registers.py [--device NAME] [--json OUT] [--processes 8]

Builds each program of the cache folder that was made for the device once more, from the PTX that the entry holds, with
ptxas' report in the log; the driver's own cache is switched off.  Run it after a Find or a bench with the same
MIOPYX_CACHE_DIR.  Of each kernel file it prints, for each of its kernels, how many programs have it and the ranges of
their registers, bytes of local memory and bytes spilled; --json has every program by itself.  The driver assembles one
program at a time in a process, and several processes do so side by side, which makes each of their times longer.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyopencl as cl

import miopyx
from miopyx.device import devices
from miopyx.runtime import programs
from miopyx.values import config, kernels

KERNEL = re.compile(r"Compiling entry function '(\w+)'.*?Used (\d+) registers(.*?)(?=Compiling entry|\Z)", re.S)


def entries(info) -> Iterator[tuple[str, str, bytes]]:
    """Yield file, options and binary of each entry that is the device's."""
    folder, names = config.cache_dir(), {*kernels.names("conv", "layers")}
    for path in sorted(Path(folder, "programs").glob("*/*.bin")) if folder else []:
        lines = path.read_bytes().split(b"\n", 40)
        fields = dict(line.decode().split(": ", 1) for line in lines if b": " in line[:40])
        file, options = (ast.literal_eval(fields[name]) for name in ("file", "options"))
        if file not in names:  # another build's
            continue
        binary = programs.read_entry(path, programs.header(info, file, options))
        if binary is not None:
            yield file, options, binary


def kernels_of(log: str) -> dict[str, dict[str, int]]:
    """Return what ptxas says of each kernel: registers, bytes of local memory, bytes spilled."""
    found = {}
    spills = dict(re.findall(r"Function properties for (\w+)\s+.*?(\d+) bytes spill stores", log, re.S))
    for name, registers, rest in KERNEL.findall(log):
        local = re.search(r"(\d+)(?:\+\d+)? bytes smem", rest.split("\n", 1)[0])
        found[name] = {"registers": int(registers), "local_memory": int(local.group(1)) if local else 0,
                       "spilled": int(spills.get(name, 0))}
    return found


def start(name: str | None) -> None:
    """Begin a process that measures."""
    global handle
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # the driver answers a second build without a report
    handle = miopyx.Handle(name) if name else miopyx.Handle()


def measure(entry: tuple[str, str, bytes]) -> dict:
    file, options, binary = entry
    queue = miopyx.miopenGetStream(handle)
    began = time.perf_counter()
    program = cl.Program(queue.context, [queue.device], [binary]).build(f"{options} -cl-nv-verbose")
    took = time.perf_counter() - began
    log = program.get_build_info(queue.device, cl.program_build_info.LOG)
    return {"file": file, "options": options, "assemble_s": round(took, 3), "kernels": kernels_of(log)}


def write(path: str, rows: list[dict]) -> None:
    Path(path).write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")


def span(values: list[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--json")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    info = devices.find(options.device) if options.device else devices.best()
    if info.runtime != "nvidia":
        sys.exit("only NVIDIA's driver reports registers")
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, spawn, initializer=start, initargs=(options.device,)) as processes:
        for row in processes.map(measure, entries(info)):
            rows.append(row)
            if options.json and len(rows) % 20 == 0:  # whoever stops it keeps these
                write(options.json, rows)
    kernels: dict[tuple[str, str], list[dict[str, int]]] = defaultdict(list)
    for row in rows:
        for name, facts in row["kernels"].items():
            kernels[row["file"], name].append(facts)
    print(f"{'file':34} {'kernel':34} {'programs':>8} {'registers':>11} {'local memory':>16} {'spilled':>8}")
    for (file, name), facts in sorted(kernels.items()):
        columns = (span([fact[of] for fact in facts]) for of in ("registers", "local_memory", "spilled"))
        print("{:34} {:34} {:8} {:>11} {:>16} {:>8}".format(file, name, len(facts), *columns))
    print(f"{len(rows)} programs, {sum(row['assemble_s'] for row in rows):.1f} s to assemble by "
          f"{options.processes} at a time")
    if options.json:
        write(options.json, rows)


if __name__ == "__main__":
    main()
