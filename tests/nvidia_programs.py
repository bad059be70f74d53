"""The programs of the solvers for NVIDIA's tensor cores, without the device: what they ask for, built to PTX by clang.

    python tests/nvidia_programs.py FILE           write each problem's solvers and steps with their programs' digests
    python tests/nvidia_programs.py --compare A B  say where two such files differ

Renamed options, functions and arguments change no digest: a program's is that of its PTX with its own names numbered.
"""

from __future__ import annotations

import argparse
import bz2
import hashlib
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cases_reader import case_of_line
from solver_checks import problem_of

import miopyx
from miopyx._core import Device
from miopyx.device import devices
from miopyx.problem._key import find_key, parse_find_key
from miopyx.runtime import programs
from miopyx.solvers import registry

if TYPE_CHECKING:
    from collections.abc import Iterator

LISTS = Path(__file__).parent.parent / "bench" / "convolutions.txt"
RECORDS = Path(miopyx.__file__).parent / "db" / "nv-sm90_132.OpenCL.fdb.txt.bz2"
CLANGS = ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))
FLAGS = ("-x", "cl", "-target", "nvptx64-nvidia-nvcl", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header", "-O3",
         "-Wall", "-Wundef", "-Dasm=__asm__", "-DMX_SM=90", "-Dcl_khr_fp64", "-S", "-o", "-", "-")

# Debian's clang 14 knows no vload_half for this target.
PROBE = "__kernel void f(__global const half *p, __global float4 *q) { *q = vload_half4(0, p); }"


def pretended() -> Device:
    """Return an H200 as solvers see it."""
    extensions = frozenset({"cl_khr_fp64", "cl_nv_device_attribute_query"})
    info = devices.find("host")._replace(
        name="nv-sm90_132", kind="gpu", runtime="nvidia", isa="sm90", compute_units=132, local_mem=49152,
        max_work_group_size=1024, max_alloc=35 << 30, fp64=True, extensions=extensions)
    return Device(info)


def solvers() -> list:
    return [solver for solver in registry.CONV if solver.name.startswith("Nv")]


def problems() -> Iterator[tuple[str, object]]:
    """Yield what the find-db that ships knows, and the lists' layers for some batches, types and layouts."""
    seen = set()
    for line in bz2.decompress(RECORDS.read_bytes()).decode().splitlines():
        key = line.partition("=")[0]
        seen.add(key)
        yield key, parse_find_key(key.encode())
    for line in LISTS.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        for batch in (1, 16, 64, 256):
            case = case_of_line(" ".join(words[1:]), n=batch)
            for dtype in ("float16", "bfloat16", "float32", "int8"):
                for layout in ("packed", "channels last"):
                    for direction in range(3):
                        try:
                            problem = problem_of(case, dtype, layout, direction)
                        except miopyx.MIOpenError:
                            continue
                        key = find_key(problem).decode()
                        if key in seen:
                            continue
                        seen.add(key)
                        yield key, problem
                        if dtype == "float32":
                            rounded = re.sub(r"(_dim1)?$", r"_tf32\1", key, count=1)
                            yield rounded, parse_find_key(rounded.encode())


@cache
def clang() -> str | None:
    """Return a clang that builds for NVIDIA's GPUs, or None."""
    for name in CLANGS:
        path = shutil.which(name)
        if path is not None:
            done = subprocess.run([path, *FLAGS], input=PROBE, capture_output=True, text=True, check=False)
            if done.returncode == 0 and ".entry f" in done.stdout:
                return path
    return None


def build(file: str, options: str, *flags: str) -> tuple[str, str]:
    """Return a program's PTX, empty where it does not build, and what clang says; with more of its flags."""
    defines = [f"-D{define}" for define in options.replace("-D ", "").split()]
    done = subprocess.run([clang(), *defines, *flags, *FLAGS], input=programs.source(file), capture_output=True,
                          text=True, check=False)
    return (done.stdout if done.returncode == 0 else ""), done.stderr


_DECLARED = re.compile(r"(?:\.entry|\.func(?:\s*\([^)]*\))?|\.param[^,;)]*?|\.shared[^,;=]*?|\.global[^,;=]*?"
                       r"|\.const[^,;=]*?|\.local[^,;=]*?)\s+(\.?[A-Za-z_$][\w$.]*)(?=\s*[\[(;,={)\n])")


def normalised(ptx: str) -> str:
    """Return PTX without comments, but those that travel as instructions, and with its own names numbered."""
    ptx = re.sub(r"//(?!@)[^\n]*", "", ptx)
    ptx = re.sub(r"(?m)^\s*\.(?:loc|file|section)\b[^\n]*", "", ptx)
    names: dict[str, str] = {}
    for name in _DECLARED.findall(ptx):
        if not name.startswith("_Z"):  # OpenCL C's own functions
            names.setdefault(name, f"name{len(names)}")
    ptx = re.sub(r"(?<![\w$.%])[A-Za-z_$][\w$]*(?:\.[\w$]+)*", lambda m: names.get(m[0], m[0]), ptx)
    return "\n".join(line.strip() for line in ptx.splitlines() if line.strip())


def digest_of(file: str, options: str) -> str:
    ptx, said = build(file, options)
    if not ptx:
        sys.exit(f"{file} {options}: {said}")
    return hashlib.blake2b(normalised(ptx).encode(), digest_size=12).hexdigest()


def collect() -> Iterator[tuple[str, str, str]]:
    """Yield (problem, solver and step; file; options) of every step."""
    device = pretended()
    for key, problem in problems():
        for solver in solvers():
            if solver.why_not(device, problem) is None:
                for i, step in enumerate(solver.solution(device, problem).steps):
                    yield f"{key} {solver.name} {i}", step.spec.file, step.spec.options


def write(path: Path, workers: int) -> None:
    steps = list(collect())
    wanted = sorted({step[1:] for step in steps})
    print(f"{len(steps)} steps, {len(wanted)} programs", flush=True)
    with ThreadPoolExecutor(workers) as pool:
        digests = dict(zip(wanted, pool.map(lambda one: digest_of(*one), wanted), strict=True))
    path.write_text("".join(f"{name} {digests[file, options]}\n" for name, file, options in steps), encoding="utf-8")


def compare(first: Path, second: Path) -> int:
    one, other = (dict(line.rsplit(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())
                  for path in (first, second))
    differing = [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]
    for name in sorted(differing)[:20]:
        print(f"{name}: {one.get(name)} {other.get(name)}")
    print(f"{len(one)} steps and {len(other)}, {len(differing)} differ")
    return int(bool(differing))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.compare:
        return compare(*options.files)
    write(options.files[0], options.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
