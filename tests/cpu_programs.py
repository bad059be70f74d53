"""The programs of solvers for CPUs, without the processors: what defaults ask for, built for them as PoCL builds.

    python -P tests/cpu_programs.py                                      build all, list what fails, warns or spills
    python -P tests/cpu_programs.py neoverse-n1 --file conv/cpu/gemm     for these processors, of files that begin so
    python -P tests/cpu_programs.py --most 2 --write bench/results/cpu-programs.txt

Clang of PoCL's version (Debian: clang-15) takes PoCL's headers and its library of builtin functions; nothing runs.  The
libraries for x86-64 are installed with PoCL.  That for AArch64 comes with its package, which any machine can unpack;
POCL_AARCH64 names the folder:

    dpkg --add-architecture arm64 && apt-get update && apt-get download libpocl2:arm64
    dpkg-deb -x libpocl2_*_arm64.deb FOLDER

Of each program the loop counts that has most vector multiply-adds: its instructions, the calls among them, and vectors
that it keeps in memory for want of registers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from gpu_programs import ALL, arguments, collect, convolutions, others, some, warnings_in

from miopyx._core import Device
from miopyx.device import devices
from miopyx.runtime import programs

INSTALLED = Path("/usr/share/pocl")


class Target(NamedTuple):
    """A processor that programs are built for: LLVM's name for it, and which of PoCL's libraries it takes."""

    name: str
    triple: str
    library: str
    option: str  # how clang is told the name

    @property
    def folder(self) -> Path:
        if not self.triple.startswith("aarch64"):
            return INSTALLED
        return Path(os.environ.get("POCL_AARCH64", "/"), "usr/share/pocl")

    @property
    def bitcode(self) -> Path:
        return self.folder / f"kernel-{self.triple}-{self.library}.bc"

    def device(self) -> Device:
        """Return it as solvers see it."""
        return Device(devices.find("host")._replace(
            name=f"pocl-{self.name}_8", kind="cpu", runtime="pocl", isa=self.name, compute_units=8,
            max_work_group_size=4096, local_mem=512 << 10, max_alloc=4 << 30, global_mem=16 << 30,
            extensions=frozenset({"cl_khr_fp16", "cl_khr_fp64"})))


TARGETS = {target.name: target for target in (
    Target("neoverse-n1", "aarch64-unknown-linux-gnu", "GENERIC", "-mcpu"),
    Target("haswell", "x86_64-pc-linux-gnu", "avx2", "-march"),
    Target("skylake-avx512", "x86_64-pc-linux-gnu", "avx512", "-march"),
)}


# How it is built


class Loop(NamedTuple):
    """An innermost loop: its function, instructions, vector multiply-adds, vectors stored to make room, calls."""

    function: str
    instructions: int
    products: int
    spilled: int
    calls: int


class Built(NamedTuple):
    """A program, or why there is none."""

    loops: list[Loop]
    said: str                 # by the compiler
    missing: tuple[str, ...] = ()  # functions that nobody defines
    failed: bool = False

    @property
    def warnings(self) -> list[str]:
        return warnings_in(self.said)

    @property
    def hottest(self) -> Loop | None:
        """The loop with most multiply-adds, should they make it a loop of products."""
        inside = [loop for loop in self.loops if loop.products >= max(FEW_PRODUCTS, loop.instructions / 10)
                  and loop.function not in AT_EDGES]
        return max(inside, key=lambda loop: loop.products, default=None)


FEW_PRODUCTS = 8
AT_EDGES = ("sum_outside",)  # what only the border of an image runs


COPY = "__kernel void f(__global float *p) { vstore4(vload4(0, p), 1, p); }"


@cache
def clang() -> str | None:
    """Return a clang that PoCL's headers take and that reads PoCL's libraries, or None."""
    for name in ("clang-15", "clang-16"):
        path = shutil.which(name)
        if path is not None and not build_text(TARGETS["haswell"], COPY, "", path).failed:
            return path
    return None


def can_build(target: Target) -> bool:
    return target.bitcode.exists() and clang() is not None


def build_text(target: Target, source: str, options: str, path: str) -> Built:
    """Build a program: first unoptimised with the library in it, then all of it for the processor.

    x86-64's LLVM inlines a function compiled for an older processor, AArch64's among equals alone, so that the
    library's functions, compiled for the plainest, stay calls (seen so in what PoCL 3.1 made on AArch64).
    """
    processor = f"{target.option}={target.name}"
    first = subprocess.run(
        [path, "-x", "cl", "-cl-std=CL1.2", "-target", target.triple, processor, "-isystem", INSTALLED / "include",
         "-include", INSTALLED / "include/_kernel.h", "-D__ENDIAN_LITTLE__=1", "-fno-builtin", "-ffp-contract=fast",
         "-Xclang", "-cl-ext=+cl_khr_fp64,+cl_khr_fp16", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", target.bitcode,
         *options.replace("-D ", "-D").split(), "-O3", "-Xclang", "-disable-llvm-passes", "-Wall", "-Wundef",
         "-Wzero-length-array", "-Wno-psabi", "-S", "-emit-llvm", "-o", "-", "-"], input=source, capture_output=True,
        text=True, check=False)
    if first.returncode:
        return Built([], first.stderr, failed=True)
    alike = re.sub(r"\bspir_(?:func|kernel) ", "", first.stdout)  # calling conventions that PoCL, too, replaces
    second = subprocess.run(
        [path, "-x", "ir", "-target", target.triple, processor, "-Wno-override-module", "-Wno-pass-failed", "-O3", "-S",
         "-o", "-", "-"], input=alike, capture_output=True, text=True, check=False)
    said = first.stderr + second.stderr
    if second.returncode:
        return Built([], said, failed=True)
    called = set(re.findall(r"(?m)^\s+(?:bl|b|callq?|jmpq?)\s+([A-Za-z_][\w$]*)(?:@PLT)?$", second.stdout))
    missing = called - set(re.findall(r"(?m)^([A-Za-z_][\w$]*):", second.stdout))
    return Built(list(_loops(second.stdout)), said, tuple(sorted(name for name in missing if not BY_POCL.match(name))))


def build(target: Target, file: str, options: str) -> Built:
    return build_text(target, programs.source(file), options, clang())


# PoCL defines where a work-item is, and C's library the rest.
BY_POCL = re.compile(r"_Z\d+get_|mem(?:set|cpy|move)$|_?_?(?:trunc|extend)\w+f2$")
PRODUCT = re.compile(r"\b(?:fml[as]|vfn?m(?:add|sub)\d*p[sd]|mulp[sd]|vpdpwssd|v?pmaddwd|smlal2?)\b(?!.*\bv\d+\.2s)")
SPILL = re.compile(r"\b(16|32|64)-byte (?:Folded )?Spill")


def _loops(assembly: str):
    """Yield the innermost loops, as LLVM's comments in a listing mark them."""
    function = label = ""
    inner: dict[str, list[int]] = {}
    current = None
    for line in assembly.splitlines():
        if found := re.match(r"([A-Za-z_][\w$]*):", line):
            for counts in inner.values():
                yield Loop(function, *counts)
            function, inner, current = found[1], {}, None
            continue
        if found := re.match(r"\.L(BB\d+_\d+):|(?:#|//) %bb\.\d+:", line):
            label, current = found[1] or label, None
        if "Inner Loop Header" in line:
            current = inner.setdefault(label, [0, 0, 0, 0])
        elif found := re.search(r"in Loop: Header=(BB\d+_\d+)", line):
            current = inner.get(found[1])
        if current is not None and re.match(r"\s+[a-z]", line):
            current[0] += 1
            current[1] += PRODUCT.search(line) is not None
            current[2] += SPILL.search(line) is not None
            current[3] += re.match(r"\s+(?:bl|callq?)\s", line) is not None
    for counts in inner.values():
        yield Loop(function, *counts)


# What it says


# Files bound by multiply-adds begin so; others wait for memory, and their loops are in the table alone.
BOUND = ("conv/", "layers/mha_", "layers/rnn_")

# What spills all the same, at most as many vectors as it has multiply-adds: how targets and files begin, part of the
# options.
KNOWN = (
    # Two bodies of a loop, one of them with masks for the edges.
    ("", "conv/cpu/depthwise_rows.cl", "STEP=2"),
    # The loop of most multiply-adds is that of an activation's polynomials there: logistic, tanh, softrelu, power, ELU.
    *(("", "conv/cpu/", f"EPILOGUE={mode} ") for mode in (1, 2, 4, 6, 9)),
)


def known(target: Target, file: str, options: str, built: Built) -> bool:
    loop = built.hottest
    return loop is not None and max(loop.spilled, loop.calls) <= loop.products and any(
        target.name.startswith(name) and file.startswith(start) and part in options for name, start, part in KNOWN)


def in_memory(file: str, built: Built) -> str:
    """Return what of a program's hottest loop is not in registers; a vector, or a call, for four products may be."""
    loop = built.hottest if file.startswith(BOUND) else None
    if loop is None or 4 * max(loop.spilled, loop.calls) <= loop.products:
        return ""
    return (f"{loop.function} has {loop.spilled} spilled vectors and {loop.calls} calls in a loop of {loop.products} "
            f"multiply-adds, {loop.instructions} instructions")


def complaints(target: Target, file: str, options: str, built: Built) -> list[str]:
    """Return what is wrong with a program."""
    where = f"{target.name} {file} {options}"
    if built.failed:
        return [f"{where}: fails\n{built.said}"]
    wrong = [f"{where}: {line}" for line in built.warnings]
    if built.missing:
        wrong.append(f"{where}: nobody defines {list(built.missing)}")
    loop = in_memory(file, built)
    if loop and not known(target, file, options, built):
        wrong.append(f"{where}: {loop}")
    return wrong


class Report:
    """Of each file the programs' hottest loops for a target, and every program that is not as it should be."""

    def __init__(self, target: Target) -> None:
        self.target, self.bad, self.known, self.programs = target, [], [], 0
        self.files: dict[str, list[Loop]] = defaultdict(list)

    def add(self, file: str, options: str, built: Built) -> None:
        self.programs += 1
        self.bad += complaints(self.target, file, options, built)
        loop = in_memory(file, built)
        self.known += [f"{self.target.name} {file} {options}: {loop}"] * (
            bool(loop) and known(self.target, file, options, built))
        self.files[file] += [built.hottest] if built.hottest is not None else []

    def rows(self):
        """Yield files and their lines of the table."""
        for file, loops in self.files.items():
            if loops:
                least = min(loops, key=lambda loop: loop.products / loop.instructions)
                most = max(loops, key=lambda loop: loop.products / loop.instructions)
                worst = max(loops, key=lambda loop: loop.spilled)
                yield file, (f"{self.target.name:>16}{len(loops):9}"
                             f"{most.products / most.instructions:9.0%}{least.products / least.instructions:9.0%}"
                             f"{worst.spilled:9}{worst.products:9}{max(loop.calls for loop in loops):9}")

    def total(self) -> str:
        loops = [loop for found in self.files.values() for loop in found]
        return (f"{self.target.name}: {self.programs} programs, {len(loops)} with loops of products, "
                f"{sum(loop.spilled > 0 for loop in loops)} of these spill, {len(self.bad)} complaints")


HEADER = f"{'target':>16}{'loops':>9}{'most':>9}{'least':>9}{'spilled':>9}{'of':>9}{'calls':>9}"
ABOUT = """\
Programs for CPUs that are not here; python -P tests/cpu_programs.py{most}
{compiler}

Of each program the innermost loop with most vector multiply-adds, at least {few} and a tenth of it. Of each file and
each CPU: how many there are; which part of the instructions are multiply-adds, at most and at least; the most vectors
that one of them stores for want of registers, and its multiply-adds; the most calls.
"""


def ending(bad: list[str], spilling: list[str]) -> list[str]:
    """Return the lines below the table: what is wrong, and what KNOWN excuses."""
    lines = ["What is not as it should be:", *bad] if bad else [
        f"Nothing{' else' * bool(spilling)} failed, warned, or spilled much."]
    return [*lines, *(["", "What spills all the same, see KNOWN in tests/cpu_programs.py:", *spilling]
                      if spilling else [])]


def main() -> int:
    options = arguments(__doc__, TARGETS).parse_args()
    os.environ["MIOPEN_DISABLE_CACHE"] = "1"
    begin = time.perf_counter()
    problems = [*convolutions(), *others(np.random.default_rng([options.seed, 1]), options.count)]
    rows, totals, bad, spilling = defaultdict(list), [], [], []
    for name in options.targets or TARGETS:
        target = TARGETS[name]
        if not can_build(target):
            print(f"{name}: no compiler, or no {target.bitcode}")
            continue
        wanted = {key: groups for key, groups in collect(target, problems).items() if key[0].startswith(options.file)}
        report = Report(target)
        order = some(wanted, options.seed, options.most)
        with ThreadPoolExecutor(options.workers) as pool:
            for key, one in zip(order, pool.map(lambda key, target=target: build(target, *key), order), strict=True):
                before = len(report.bad)
                report.add(*key, one)
                print(*report.bad[before:], sep="\n", end="\n" * (len(report.bad) > before), flush=True)
        for file, row in report.rows():
            rows[file].append(row)
        totals.append(report.total())
        bad += report.bad
        spilling += report.known
        print(totals[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
    said = subprocess.run([clang(), "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    text = ABOUT.format(most="" if options.most == ALL else f" --most {options.most}", compiler=said,
                        few=FEW_PRODUCTS) + "\n".join(
        ["", *totals, "", HEADER, *(line for file in sorted(rows) for line in (file, *rows[file])), "",
         *ending(bad, spilling)]) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        print(text)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
