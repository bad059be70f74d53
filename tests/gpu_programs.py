"""The programs of the solvers for any GPU, without the devices: what defaults ask for, built for those of other makers.

    python -P tests/gpu_programs.py                                   build all, list what fails, warns or spills
    python -P tests/gpu_programs.py gfx90a acm-g10 --file conv/gpu    for these GPUs, of files that begin so
    python -P tests/gpu_programs.py skl pvc --most 3 --write FILE     three programs of each file, the table to a file

AMD's are built by clang (17 or newer) with the bitcode libraries of ROCm (Debian: clang-19, rocm-device-libs), Intel's
by ocloc (Debian: intel-opencl-icd), for addresses of 32 bits by clang (15 or newer) alone; nothing runs.  Each target
is a device that solvers are asked on: lists of convolutions, what follows these, and random problems of all other
operations, small ones and large ones.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import drawn
import guarded
import random_operations
from cases_reader import case_of_line, conv_cases
from guarded import strides_of
from solver_checks import descriptors, problem_of

import miopyx
from miopyx import ActivationDescriptor, PoolingDescriptor, TensorDescriptor
from miopyx._core import Device
from miopyx.api._batchnorm import plan_batch_norm_backward, plan_batch_norm_inference, plan_batch_norm_training
from miopyx.api._mha import plan_mha
from miopyx.api._pooling import plan_pooling_backward, plan_pooling_forward
from miopyx.api._softmax import plan_softmax_backward, plan_softmax_forward
from miopyx.device import devices
from miopyx.problem._problem import ConvProblem
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.tools.driver import families
from miopyx.tools.driver.options import Command, UsageError
from miopyx.values import kernels

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

LISTS = Path(__file__).parent.parent / "bench" / "convolutions.txt"

# Headers hold more than each kernel uses, kernels more than some options do; compilers decide on loops.
HARMLESS = ("-Wunused-function", "-Wunused-variable", "-Wconstant-logical-operand", "-Wpass-failed",
            "-Wunused-but-set-variable",
            "-Wsometimes-uninitialized",  # a __local variable that one work-item sets for all
            # Intel's compiler names no kinds.
            "with constant operand", "double precision constant requires cl_khr_fp64", "unused variable",
            "unused function")


class Subslice(NamedTuple):
    """What work-groups of Intel's GPUs share, by the tables of its occupancy calculator; before Xe by its guide."""

    units: int             # execution units
    threads: int           # of one, with 128 registers each
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  # KB of local memory that a group may have
    shared: int = 128      # KB of local memory
    barriers: int = 32


class Target(NamedTuple):
    """A GPU that programs are built for: its compiler's name for it, what its driver says of it, what a SIMD has."""

    name: str
    runtime: str
    compute_units: int
    items: int             # of a work-group
    local_mem: int         # bytes
    fp64: bool = True
    lanes: int = 64
    registers: int = 0     # of a lane of a SIMD, shared by its waves
    granule: int = 0       # they are given out in so many
    waves: int = 0         # of a SIMD, at most
    shared: int = 64 << 10  # bytes of local memory that four SIMDs share
    isa_version: int = 0   # as ROCm's libraries ask for it
    subslice: Subslice | None = None  # of Intel's

    @property
    def memory(self) -> int:
        """Return how many bytes it has."""
        return (2 if self.runtime == "spir" else 16) << 30

    def device(self) -> Device:
        """Return it as solvers see it."""
        extensions = frozenset({"cl_khr_fp16", *(["cl_khr_fp64"] if self.fp64 else []),
                                *(["cl_intel_required_subgroup_size"] if self.runtime == "intel" else [])})
        isa = self.name if self.runtime == "amd" else ""
        return Device(devices.find("host")._replace(
            name=f"{self.runtime}-{self.name}_{self.compute_units}", kind="gpu", runtime=self.runtime, isa=isa,
            compute_units=self.compute_units, local_mem=self.local_mem, max_work_group_size=self.items,
            max_alloc=self.memory // 4, global_mem=self.memory, fp64=self.fp64, fp16=True, host_unified=False,
            extensions=extensions))


# ROCm says that a group has 256 work-items at most, Mesa 1,024.  Intel's sizes of groups are those of its driver.
TARGETS = {target.name: target for target in (
    Target("gfx906", "amd", 60, 1024, 64 << 10, True, 64, 256, 4, 10, isa_version=9006),
    Target("gfx90a", "amd", 110, 256, 64 << 10, True, 64, 512, 8, 8, isa_version=9010),
    Target("gfx942", "amd", 304, 256, 64 << 10, True, 64, 512, 8, 8, isa_version=9402),
    Target("gfx1030", "amd", 40, 256, 64 << 10, True, 32, 1024, 16, 16, 128 << 10, 10300),
    Target("gfx1100", "amd", 48, 1024, 64 << 10, True, 32, 1536, 24, 16, 128 << 10, 11000),
    Target("skl", "intel", 24, 256, 64 << 10, subslice=Subslice(8, 7, shared=64, barriers=16)),
    Target("tgllp", "intel", 96, 512, 64 << 10, False, subslice=Subslice(16, 7)),
    Target("acm-g10", "intel", 512, 1024, 64 << 10, False, subslice=Subslice(16, 8)),
    Target("pvc", "intel", 512, 1024, 128 << 10,
           subslice=Subslice(8, 8, (1, 2, 4, 8, 16, 32, 48, 64, 96, 128))),
    # Of no maker: size_t and pointers have 32 bits.
    Target("spir32", "spir", 8, 256, 32 << 10),
)}


# What is asked for


LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 33, 64, 100, 128, 224, 256, 384, 500, 512, 1000, 1024, 2048, 4096,
           5000, 16384, 65536, 1 << 20)
MOST_ELEMENTS = 1 << 34
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "float8_e4m3fnuz", "float8_e5m2fnuz")


def convolutions(lists: bool = True) -> Iterator[ConvProblem]:
    """Yield the tests' convolutions and the lists', for some batches, types and layouts; what follows some of them."""
    cases = conv_cases()
    for line in LISTS.read_text(encoding="utf-8").splitlines() if lists else ():
        words = line.partition("#")[0].split()
        if words:
            cases += [case_of_line(" ".join(words[1:]), n=batch) for batch in (1, 16, 64)]
    for case, dtype, layout, direction in itertools.product(cases, TYPES, ("packed", "channels last", "padded"),
                                                            range(3)):
        try:
            yield problem_of(case, dtype, layout, direction)
        except miopyx.MIOpenError:
            continue
    with miopyx.Handle("host") as host:
        for i, (case, dtype, layout) in enumerate(itertools.product(cases[::9], TYPES[:4],
                                                                    ("packed", "channels last"))):
            x, w, y = descriptors(case, dtype, layout)
            small = "float32" if i % 3 == 0 and dtype != "float64" else dtype
            channel = TensorDescriptor(small, (1, y.lens[1], *[1] * (len(y.lens) - 2)))
            z, bias, norm = i % 2, i // 2 % 3, i // 3 % 2
            yield host.convolution_bias_activation_forward(
                x, w, case.conv(), y if z else None, channel if bias else None,
                ActivationDescriptor(i // 2 % 11, 0.5, 1.0, 2.0), y,
                norm_desc=channel if norm else None).invoker.problem


def some_command(family, rng: np.random.Generator) -> Command:
    """Return a random command of MIOpenDriver: its lengths' product is seldom small, and beyond 32 bits at times."""
    left = MOST_ELEMENTS if not family.name.startswith("rnn") else 1 << 16  # plans of these come with memory

    def one_of(values):
        return values[int(rng.integers(len(values)))]

    def length() -> int:
        nonlocal left
        drawn = one_of([n for n in LENGTHS if n <= left])
        left //= drawn
        return drawn

    given = {}
    for flag in family.flags:
        if flag.fixed or flag.name in ("iter", "verify", "time", "wall", "print", "printconv"):
            continue
        if flag.name == "DimsToReduce":
            given[flag.name] = ",".join(str(axis) for axis in range(4) if rng.integers(2)) or "3"
        elif flag.allowed is not None and len(flag.allowed) <= 20:
            given[flag.name] = one_of(flag.allowed)
        elif isinstance(flag.default, int) and rng.integers(4):
            given[flag.name] = length()
        elif isinstance(flag.default, str) and re.match(r"\d+[x,]", flag.default):
            given[flag.name] = re.sub(r"\d+(?=[x,])|(?<=[x,])\d+", lambda _: str(length()), flag.default)
    return Command(one_of(list(family.operations)), given, family)


def of_commands(rng: np.random.Generator, count: int) -> None:
    """Make the plans of random commands of the driver: on the host they take no memory."""
    with miopyx.Handle("host") as host:
        for family in families.LAYERS:
            for _ in range(count if family.name not in ("gemm", "ctc") else 0):  # these take memory, and time
                try:
                    layer = families.make(some_command(family, rng))
                    for one in layer.passes():
                        one.plan(host)
                except (UsageError, miopyx.MIOpenError, MemoryError):
                    continue
        of_poolings(host)
        of_images(host)
        for i, (depth, dtype) in enumerate(itertools.product((16, 32, 40, 64, 80, 96, 128, 192, 256), drawn.TYPES)):
            t = TensorDescriptor(dtype, (2, 4, 1024, depth))
            real = "float64" if dtype == "float64" else "float32"
            row, bias = (TensorDescriptor(real, (2, 4, 1024, last)) for last in (1, 1024))
            forward = {"Q": t, "K": t, "V": t, "O": t, **({"Bias": bias} if i % 3 == 0 else {})}
            backward = {**forward, **dict.fromkeys(("DO", "DQ", "DK", "DV"), t), "M": row, "ZInv": row}
            for given in (forward, backward):
                plan_mha(host, given is backward, 1.0, {f"Mha{name}": desc for name, desc in given.items()})


# Lengths of x, windows, pads, strides, and what else there is.
POOLINGS = (
    *(((2, 64, 28, 28), *window, {}) for window in (((2, 2), (0, 0), (2, 2)), ((3, 3), (1, 1), (2, 2)),
                                                    ((3, 3), (1, 1), (1, 1)))),
    ((2, 6, 15, 15), (3, 3), (0, 0), (2, 2), {}),
    ((2, 64, 14, 14), (14, 14), (0, 0), (1, 1), {}), ((2, 64, 7, 7), (7, 7), (0, 0), (1, 1), {}),
    ((2, 8, 28, 28), (3, 3), (2, 2), (1, 1), {"dilations": (2, 2)}),
    ((2, 8, 28, 28), (3, 3), (1, 1), (2, 2), {"divisor_override": 7}),
    ((1, 4, 80, 80), (40, 40), (0, 0), (8, 8), {}),
    ((1, 4, 9, 9, 9), (2, 3, 3), (0, 1, 1), (2, 2, 2), {}))


def of_poolings(host: miopyx.Handle) -> None:
    """Make the plans of poolings that each way of a GPU's is for: few random ones have lengths that fit."""
    for dtype, layout, mode, (lens, windows, pads, strides, more) in itertools.product(
            TYPES[:4], ("packed", "channels last"), range(3), POOLINGS):
        x = TensorDescriptor(dtype, lens, strides_of(lens, layout))
        for index_type in (0, 2) if mode == 0 and len(windows) == 2 and math.prod(windows) < 256 else (2,):
            pool = PoolingDescriptor(mode, windows, pads, strides, index_type=index_type, index_mode=0, **more)
            out = pool.output_lens(x)
            y = TensorDescriptor(dtype, out, strides_of(out, layout))
            for save in (False, True) if mode == 0 else (False,):
                plan_pooling_forward(host, pool, x, y, save)
            plan_pooling_backward(host, pool, y, y, x, x)


def of_images(host: miopyx.Handle) -> None:
    """Make the plans of batch norms, some of them of nothing, and of softmaxes: short, long and of one each."""
    for dtype, layout in itertools.product(TYPES[:4], ("packed", "channels last")):
        for lens in ((16, 256, 14, 14), (32, 512, 7, 7), (8, 64, 28, 28), (0, 5, 3, 4)):
            x = TensorDescriptor(dtype, lens, strides_of(lens, layout))
            channel = TensorDescriptor("float64" if dtype == "float64" else "float32", (1, lens[1], 1, 1))
            plan_batch_norm_training(host, 1, x, x, channel, running=True, save=True)
            plan_batch_norm_inference(host, 1, x, x, channel)
            for saved in (False, True):
                plan_batch_norm_backward(host, 1, x, x, x, channel, saved)
        for lens, mode in (((64, 10, 1, 1), 0), ((4, 21, 32, 32), 1), ((8, 1000, 1, 1), 0), ((4, 1, 6, 5), 1),
                           ((2, 1 << 18, 3, 2), 1)):
            x = TensorDescriptor(dtype, lens, strides_of(lens, layout))
            plan_softmax_forward(host, x, x, 1, mode)
            plan_softmax_backward(host, x, x, x, 1, mode)


def others(rng: np.random.Generator, count: int) -> list:
    """Return random problems of the operations beside convolutions: `count` of each door to them."""
    found: dict = {}
    inner = registry.others

    def recorded(problem):
        found.setdefault((type(problem), problem.key), problem)
        return inner(problem)

    drawn.KNOWN[:] = ["host"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "others", recorded)
        of_commands(rng, 20 * count)
        for name, run in random_operations.OPERATIONS.items():
            for _ in range(count):
                guarded.Pages.given = []
                try:
                    with np.errstate(all="ignore"):
                        run(random_operations.handle_of("host"), rng)
                except pytest.skip.Exception:
                    continue
                except Exception as error:
                    raise AssertionError(name) from error
    return list(found.values())


def solution_of(device: Device, problem):
    """Return what the first solver of an operation does on a device, None where none of its kernels can."""
    for solver in registry.others(problem):
        offer = solver.offer(device, problem)
        if isinstance(offer, str) or offer.device.is_host:
            continue
        for part in offer.parts or ():
            if not any(part.take(solution) for solution in _solutions(device, part.problem)):
                return None
        return offer.solution()
    return None


def _solutions(device: Device, problem) -> Iterator:
    if not isinstance(problem, ConvProblem):
        yield solution_of(device, problem)
        return
    for solver in registry.CONV:
        offer = solver.offer(device, problem)
        if not isinstance(offer, str):
            yield offer.solution()


Wanted = dict[tuple[str, str], dict[str, int]]


def collect(target: Target, problems: Iterable) -> Wanted:
    """Return the programs, by file and options, that problems take on a GPU: of each its kernels and their groups.

    A group is the largest number of work-items that a kernel is launched with; where the driver chooses, 0.
    """
    device, found = target.device(), defaultdict(dict)
    for problem in problems:
        for solution in _solutions(device, problem):
            for step in solution.steps if solution is not None else ():
                kernels = found[step.spec.file, step.spec.options]
                kernels[step.spec.entry] = max(step.group, kernels.get(step.spec.entry, 0))
    return dict(found)


MATRIX_CORES = "gfx90a", "gfx942", "gfx1100"  # targets that have those of `AmdMatrixFwd`
# Kernels that no GPU is given, or NVIDIA's alone.
NOT_FOR_ALL = re.compile(r"conv/cpu/|conv/nvidia/(?!sum\.cl)|.*_(cpu|nvidia)\.cl|layers/pooling_backward\.cl")


def unreached(target: Target, files: Collection[str]) -> list[str]:
    """Return the files of kernels that a target can take and that are not among those."""
    return [file for file in kernels.names("conv", "layers")
            if file.endswith(".cl") and file not in files and not NOT_FOR_ALL.match(file)
            and (not file.startswith("conv/amd/") or target.name in MATRIX_CORES)]


def shape_of(options: str) -> str:
    """Return what a program's options have in common with those of others that are as good: see `some`."""
    options = re.sub(r"\bbfloat16\b", "half", options)
    options = re.sub(r"\b(bfloat8|e4m3|e5m2)\b", "float8", options)
    return re.sub(r"\b(EPILOGUE|ACTIVATION)=[1-9]\d*", r"\1=n", options)


def some(wanted: Wanted, seed: int, most: int) -> list[tuple[str, str]]:
    """Return programs, at most so many of a file; no two differ in types of one size or in activations alone."""
    alike = defaultdict(lambda: defaultdict(list))
    for file, options in sorted(wanted):
        alike[file][shape_of(options)].append(options)
    drawn = []
    for file, shapes in alike.items():
        rng = np.random.default_rng([seed, zlib.crc32(file.encode())])  # what is drawn of a file is its own matter
        for every in [list(shapes.values())[i] for i in rng.permutation(len(shapes))[:most]]:
            drawn.append((file, every[int(rng.integers(len(every)))]))
    return sorted(drawn)


# How it is built


class Kernel(NamedTuple):
    """What a compiler says of a kernel: registers of a work-item or a wave, bytes; 0 where a number is open."""

    name: str
    vgprs: int = 0          # of a lane, with those that only matrix instructions use; of Intel's threads: 128 or 256
    agprs: int = 0
    sgprs: int = 0
    vgpr_spills: int = 0
    sgpr_spills: int = 0
    scratch: int = 0        # bytes of a work-item that are not in registers
    local: int = 0
    lanes: int = 0
    largest: int = 0        # work-items of a group, at most
    accesses: int = 0       # instructions that read or write scratch
    barriers: int = 0       # of a group


class Built(NamedTuple):
    """A program, or why there is none."""

    kernels: dict[str, Kernel]
    said: str               # by the compiler
    missing: Collection[str] = ()  # functions that nobody defines
    failed: bool = False

    @property
    def warnings(self) -> list[str]:
        return warnings_in(self.said)


def warnings_in(said: str) -> list[str]:
    """Return the lines of a compiler's warnings that matter."""
    return [line for line in said.splitlines() if "warning:" in line and "spilled around" not in line
            and not any(kind in line for kind in HARMLESS)]


BITCODE = ("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "/opt/rocm/amdgcn/bitcode", "/usr/lib/amdgcn/bitcode")
LIBRARIES = ("opencl", "ocml", "ockl")
# What ROCm's compiler links for each device; as constants of the program, the libraries are folded by them, too.
CONTROL = {"daz_opt": "0", "unsafe_math_opt": "0", "finite_only_opt": "0", "correctly_rounded_sqrt32": "1"}


@cache
def bitcode() -> str | None:
    """Return the folder of ROCm's bitcode libraries, or None."""
    return next((folder for folder in BITCODE
                 if all(Path(folder, f"{name}.bc").exists() for name in LIBRARIES)), None)


@cache
def clang() -> str | None:
    """Return a clang that builds for AMD's GPUs, or None."""
    for name in ("clang", *(f"clang-{version}" for version in range(22, 16, -1))):
        path = shutil.which(name)
        if path is not None and bitcode() is not None:
            try:
                done = _amd(TARGETS["gfx1100"], "__kernel void f(__global half *p) { vstore_half(exp((float)get_"
                            "global_id(0)), 0, p); }", "", path)
            except OSError:
                continue
            if not done.failed and not done.missing and "f" in done.kernels:
                return path
    return None


@cache
def ocloc() -> str | None:
    """Return Intel's compiler, or None."""
    path = shutil.which("ocloc")
    if path is not None:
        done = _intel(TARGETS["acm-g10"], "__kernel void f(__global int *p) { p[0] = 1; }", "", path)
        if not done.failed and "f" in done.kernels:
            return path
    return None


def version(path: str) -> str:
    """Return what a compiler calls itself."""
    if "ocloc" not in path:
        return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([path, "query", "OCL_DRIVER_VERSION"], cwd=folder, capture_output=True, check=False)
        written = Path(folder, "OCL_DRIVER_VERSION")
        return "ocloc " + (written.read_text(encoding="utf-8").strip("\0 \n") if written.exists() else "")


@cache
def plain_clang() -> str | None:
    """Return a clang that knows OpenCL C's functions and addresses of 32 bits, or None."""
    for name in (*(f"clang-{version}" for version in range(22, 14, -1)), "clang"):
        path = shutil.which(name)
        if path is not None:
            done = _spir(TARGETS["spir32"], "__kernel void f(__global float *p) { p[0] = exp(p[1]); }", "", path)
            if not done.failed and "f" in done.kernels:
                return path
    return None


def compiler(target: Target) -> str | None:
    return {"amd": clang, "intel": ocloc, "spir": plain_clang}[target.runtime]()


def build(target: Target, file: str, options: str) -> Built:
    """Build a program as a driver would: OpenCL C 1.2, since nobody asks for another."""
    how = {"amd": _amd, "intel": _intel, "spir": _spir}[target.runtime]
    return how(target, programs.source(file), options, compiler(target))


def built_before(folder: Path | None, target: Target, file: str, options: str) -> Built:
    """Return what `build` does, from a folder where it is there."""
    if folder is None:
        return build(target, file, options)
    text = f"{target} {options}\n{programs.source(file)}"
    path = folder / hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    try:
        kernels, *rest = ast.literal_eval(path.read_text(encoding="utf-8"))
        return Built({kernel[0]: Kernel(*kernel) for kernel in kernels}, *rest)
    except (OSError, ValueError, SyntaxError):
        built = build(target, file, options)
    kernels = [tuple(kernel) for kernel in built.kernels.values()]
    path.write_text(repr((kernels, *built[1:-2], sorted(built.missing), built.failed)), encoding="utf-8")
    return built


def _amd(target: Target, source: str, options: str, path: str) -> Built:
    linked = [word for name in LIBRARIES
              for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", f"{bitcode()}/{name}.bc")]
    control = {**CONTROL, "wavefrontsize64": str(int(target.lanes == 64))}
    source += "".join(f"__constant bool __oclc_{name} = {value};\n" for name, value in control.items())
    source += (f"__constant int __oclc_ISA_version = {target.isa_version};\n"
               "__constant int __oclc_ABI_version = 500;\n")
    done = subprocess.run(
        [path, "-x", "cl", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target.name}", "-cl-std=CL1.2", "-nogpulib",
         "-mcode-object-version=5", *linked, *options.replace("-D ", "-D").split(), "-O3", "-Wall", "-Wundef",
         "-Wzero-length-array", "-Wno-unused-const-variable", "-S", "-o", "-", "-"], input=source, capture_output=True,
        text=True, check=False)
    if done.returncode:
        return Built({}, done.stderr, failed=True)
    text = done.stdout
    called = set(re.findall(r"([\w$.]+)@(?:gotpcrel32|rel32|abs32)@", text))
    missing = sorted(called - set(re.findall(r"(?m)^([\w$.]+):", text))
                     - set(re.findall(r"(?m)^\s*\.(?:amdgpu_lds|comm|lcomm)\s+([\w$.]+)", text)))
    meta = text.partition("amdhsa.kernels:")[2].partition("amdhsa.target:")[0]
    kernels = {}
    for part in re.split(r"(?m)^  - ", meta)[1:]:
        def number(key: str, part: str = part) -> int:
            found = re.search(rf"(?m)^(?:    )?\.{key}:\s+(\d+)", part)
            return int(found[1]) if found else 0

        name = re.search(r"(?m)^    \.name:\s+(\S+)", part)[1]
        body = text.partition(f"\n{name}:")[2].partition("\n\t.section")[0]
        accesses = len(re.findall(r"\b(?:scratch|buffer)_(?:load|store)", body))
        kernels[name] = Kernel(name, number("vgpr_count"), number("agpr_count"), number("sgpr_count"),
                               number("vgpr_spill_count"), number("sgpr_spill_count"),
                               number("private_segment_fixed_size"), number("group_segment_fixed_size"),
                               number("wavefront_size"), number("max_flat_workgroup_size"), accesses)
    return Built(kernels, done.stderr, missing)


def _intel(target: Target, source: str, options: str, path: str) -> Built:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "p.cl").write_text(source, encoding="utf-8")
        done = subprocess.run(
            [path, "compile", "-file", "p.cl", "-device", target.name, "-output", "p", "-output_no_suffix", "--format",
             "zebin", "-exclude_ir", "-options", f"-cl-std=CL1.2 {options}".strip()], cwd=folder, capture_output=True,
            text=True, check=False)
        said = done.stdout + done.stderr
        made = [entry for entry in Path(folder).iterdir() if entry.name in ("p", "p.bin")]
        text = _section(made[0].read_bytes(), b".ze_info") if done.returncode == 0 and made else ""
    if not text:
        return Built({}, said, failed=True)
    kernels = {}
    spilled = dict(re.findall(r"warning: kernel (\w+)\s+compiled SIMD\d+ allocated \d+ regs and spilled around (\d+)",
                              said))
    for part in re.split(r"(?m)^  - name: +", text.partition("\nkernels_misc_info:")[0])[1:]:
        name, environment = part.split()[0], part.partition("payload_arguments:")[0]

        def number(key: str, environment: str = environment, default: int = 0) -> int:
            found = re.search(rf"(?m)^ +{key}: +(\d+)", environment)
            return int(found[1]) if found else default

        scratch, kept = 0.0, False
        lanes = max(number("simd_size"), 1)
        for size, rest in re.findall(r"(?m)^ +size: +(\d+)((?:\n +is_simt_thread: +true)?)",
                                     part.partition("per_thread_memory_buffers:")[2]):
            scratch += int(size) if rest else int(size) / lanes
            kept |= bool(rest) or int(size) > FEW_BYTES
        kernels[name] = Kernel(name, number("grf_count"), vgpr_spills=int(spilled.get(name, 0)),
                               scratch=round(scratch), local=number("slm_size"), lanes=lanes, accesses=int(kept),
                               barriers=number("barrier_count"))
    return Built(kernels, said)


def _spir(_: Target, source: str, options: str, path: str) -> Built:
    """Build LLVM's code for a device whose size_t and pointers have 32 bits: it has no registers yet."""
    done = subprocess.run(
        [path, "-x", "cl", "-target", "spir", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header",
         *options.replace("-D ", "-D").split(), "-O1", "-Wall", "-Wundef", "-Wshorten-64-to-32",
         "-Wzero-length-array", "-Wno-unused-const-variable", "-S", "-emit-llvm", "-o", "-", "-"], input=source,
        capture_output=True, text=True, check=False)
    if done.returncode:
        return Built({}, done.stderr, failed=True)
    names = re.findall(r"(?m)^define .*\bspir_kernel void @(\w+)\(", done.stdout)
    missing = [name for name in re.findall(r"(?m)^declare .*@([\w$.]+)\(", done.stdout)
               if not name.startswith(("llvm.", "_Z"))]  # OpenCL C's functions are overloaded
    return Built({name: Kernel(name) for name in names}, done.stderr, missing)


# Of an Intel thread, kept outside of its registers (4 or 8 KB) without a word of the compiler's; a power of two.
FEW_BYTES = 1024


def _section(data: bytes, name: bytes) -> str:
    """Return the text of a section of a 64-bit ELF file, empty where it has none."""
    if data[:5] != b"\x7fELF\x02":
        return ""
    start, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<3H", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
    for word, _, _, _, at, length in heads:
        begin = heads[names][4] + word
        if data[begin:data.index(b"\0", begin)] == name:
            return data[at:at + length].decode()
    return ""


# What it says


def occupancy(target: Target, kernel: Kernel, items: int) -> float:
    """Return how many waves of a kernel a SIMD holds at once, launched in groups of so many work-items.

    Of Intel's GPUs, how many threads an execution unit holds.
    """
    of = target.subslice
    if of is not None:
        most = of.threads * 128 // max(kernel.vgprs, 128)
        threads = -(-(items or target.items) // kernel.lanes)
        groups = of.units * most // threads
        if kernel.local:
            sizes = (size for size in of.sizes if size << 10 >= kernel.local)
            groups = min(groups, of.shared // min(sizes, default=of.sizes[-1]))
        if kernel.barriers:
            groups = min(groups, of.barriers // kernel.barriers)
        return min(most, groups * threads / of.units)
    by_registers = min(target.waves,
                       target.registers // max(target.granule, -(-kernel.vgprs // target.granule) * target.granule))
    if not target.name.startswith("gfx1") and kernel.sgprs > 80:  # 800 of a SIMD
        by_registers = min(by_registers, 9 if kernel.sgprs <= 88 else 8 if kernel.sgprs <= 100 else 7)
    waves = -(-(items or kernel.largest) // target.lanes)
    groups = 4 * by_registers // waves
    if kernel.local:
        groups = min(groups, target.shared // (-(-kernel.local // 512) * 512))
    return min(by_registers, groups * waves / 4)


def spills(kernel: Kernel) -> bool:
    """Whether a kernel keeps anything outside of registers.

    AMD's compiler also sets memory aside for scalar registers that it then keeps in lanes of vector registers; Intel's
    now and then puts a few registers into memory rather than give a thread fewer work-items.
    """
    return bool(kernel.accesses or (kernel.vgpr_spills and kernel.largest))


def arguments(about: str, targets: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser of what programs for targets that are not here are asked for by."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(targets)}")
    parser.add_argument("--file", default="", help="how files of kernels begin")
    parser.add_argument("--count", type=int, default=10, help="random problems of each door (default: 10)")
    parser.add_argument("--most", type=int, default=ALL, help="programs of a file for a target (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--write", type=Path, help="write the table to this file")
    return parser


def main() -> int:
    parser = arguments(__doc__, TARGETS)
    parser.add_argument("--list", action="store_true", help="list programs, and build none")
    parser.add_argument("--keep", type=Path, help="a folder that keeps what compilers said")
    options = parser.parse_args()
    os.environ["MIOPEN_DISABLE_CACHE"] = "1"
    begin = time.perf_counter()
    problems = [*convolutions(), *others(np.random.default_rng([options.seed, 1]), options.count)]
    print(f"{len(problems)} problems, {time.perf_counter() - begin:.0f} s", flush=True)
    rows, totals, bad, spilling, absent = defaultdict(list), [], [], [], []
    for name in options.targets or TARGETS:
        target = TARGETS[name]
        wanted = {key: groups for key, groups in collect(target, problems).items() if key[0].startswith(options.file)}
        absent += [f"not reached on {name}: {file}" for file in unreached(target, {file for file, _ in wanted})
                   if file.startswith(options.file)]
        order = some(wanted, options.seed + zlib.crc32(name.encode()), options.most)
        if options.list:
            for file, text in order:
                print(name, file, text, wanted[file, text])
        if options.list or compiler(target) is None:
            print(f"{name}: {len(wanted)} programs, {len(order)} drawn" + ", no compiler" * (not options.list))
            continue
        report = Report(target)
        with ThreadPoolExecutor(options.workers) as pool:
            built = pool.map(lambda key, target=target: built_before(options.keep, target, *key), order)
            for key, one in zip(order, built, strict=True):
                known = len(report.bad)
                report.add(*key, wanted[key], one)
                print(*report.bad[known:], sep="\n", end="\n" * (len(report.bad) > known), flush=True)
        for file, row in report.rows():
            rows[file].append(row)
        totals.append(report.total())
        bad += report.bad
        spilling += report.known
        print(totals[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
        if options.write:  # what is known so far
            options.write.write_text(table(options, totals, rows, bad, spilling, absent), encoding="utf-8")
    if options.list:
        print(*absent, sep="\n")
    elif not options.write:
        print(table(options, totals, rows, bad, spilling, absent))
    return int(bool(bad))


def table(options: argparse.Namespace, totals: list[str], rows: dict[str, list[str]], bad: list[str],
          spilling: list[str], absent: list[str]) -> str:
    built = [TARGETS[total.partition(":")[0]] for total in totals]
    used = {compiler(target): None for target in built if compiler(target)}
    asked = "".join(f" {word}" for word in (
        *options.targets, *(["--file", options.file] if options.file else []),
        *([] if options.most == ALL else ["--most", options.most])))
    lines = ["", *totals, *(absent or ["No file of kernels that these GPUs take was left out."]), "", HEADER,
             *(line for file in sorted(rows) for line in (file, *rows[file])), "",
             "What is not as it should be:" if bad else "Nothing else failed, warned or spilled.", *bad,
             *(["", "What spills all the same, see KNOWN in tests/gpu_programs.py:", *spilling] if spilling else [])]
    return ABOUT.format(asked=asked, compilers="; ".join(map(version, used))) + "\n".join(lines) + "\n"


ALL = 1 << 30
HEADER = "".join(f"{word:>8}" for word in ("target", "kernels", "items", "VGPRs", "AGPRs", "SGPRs", "spilled",
                                          "scalars", "local", "scratch", "lanes", "waves"))
ABOUT = """\
Programs for GPUs that are not here; python -P tests/gpu_programs.py{asked}
{compilers}

Of each file of kernels, and each GPU, the most that any of its kernels takes in a default configuration: work-items of
a group, registers (AMD: of a lane, AGPRs among them, and of a wave; Intel: of a thread, 32 bytes each, pvc 64),
registers that were spilled, scalar ones into lanes of others, bytes of local memory of a group and of scratch of a
work-item; and the least: lanes (Intel: SIMD), waves that a SIMD holds at once (Intel: threads that an execution unit
holds, of 7, from acm-g10 on of 8).  For spir32, addresses of 32 bits, programs end as LLVM's code, which has none of
these.
"""


# What spills all the same: how targets and files begin, part of the options, bytes of a work-item at most.
WIDE_ON_INTEL = ("skl", 4096), ("tgllp", 4096), ("acm", 4096), ("pvc", 8192)
KNOWN = (
    # 64 complex numbers, where a filter is longer than shorter transforms; 32 where registers are half as many.
    *((name, "conv/fft_", "ACC=double -D FFT_H=1 -D FFT_W=64", 1024) for name in ("gfx906", "gfx1")),
    *((name, "conv/fft_", f"FFT_W={points}", most) for name, most in WIDE_ON_INTEL for points in (32, 64)),
    # The sums of dk and dv, 256 numbers wide.
    *((name, "layers/mha_gpu.cl", "COLUMNS=8", most) for name, most in WIDE_ON_INTEL),
)
# Intel's compiler leaves an array in memory where a loop that it does not unroll indexes it; more registers a thread
# must be asked for in words that other drivers refuse.  Bytes of a work-item that acm-g10, whose programs were all
# built once, was seen to keep so, at most, by how files begin.
KEPT_BYTES = {
    "conv/fft_": 704, "conv/gpu/depthwise": 448, "conv/gpu/signals_weights.cl": 192, "layers/batchnorm_gpu": 192,
    "layers/layernorm_gpu.cl": 288, "layers/lrn_gpu.cl": 256, "layers/mha_gpu.cl": 320,
    "layers/pooling_gpu_lanes.cl": 384, "layers/pooling_gpu_wide.cl": 144}
KEPT_ELSE = 128    # in another file
KEPT_BEFORE = 512  # before acm-g10, where scratch is a thread's, in powers of two
# pvc runs 32 work-items a thread, which leaves each 64 registers.  What it keeps is a power of two, too: the next one
# to what was seen, since six to ten programs of a file were built.
KEPT_PVC = dict.fromkeys((
    "conv/fft_", "conv/gpu/depthwise", "layers/batchnorm_gpu", "layers/lrn_gpu.cl", "layers/mha_gpu.cl",
    "layers/reduce_gpu.cl"), 4096)
KEPT_PVC_ELSE = 2048


def kept_bytes(target: Target, file: str, options: str) -> int:
    """Return how many bytes of a work-item one of Intel's GPUs may keep outside of registers."""
    table, other = (KEPT_PVC, KEPT_PVC_ELSE) if target.name == "pvc" else (KEPT_BYTES, KEPT_ELSE)
    kept = max((most for start, most in table.items() if file.startswith(start)), default=other)
    kept *= 2 if "ACC=double" in options else 1
    return kept if target.name in ("acm-g10", "pvc") else max(4 * kept, KEPT_BEFORE)


def known(target: Target, file: str, options: str, kernel: Kernel) -> bool:
    """Whether no more of a kernel is outside of registers than was seen before."""
    if target.runtime == "intel" and kernel.scratch <= kept_bytes(target, file, options):
        return True
    return any(target.name.startswith(name) and file.startswith(start) and part in options and kernel.scratch <= most
               for name, start, part, most in KNOWN)


def complaints(target: Target, file: str, options: str, groups: dict[str, int], built: Built) -> list[str]:
    """Return what is wrong with a program whose kernels are launched in groups of so many work-items."""
    where = f"{target.name} {file} {options}"
    if built.failed:
        return [f"{where}: fails\n{built.said}"]
    wrong = [f"{where}: {line}" for line in built.warnings]
    if built.missing:
        wrong.append(f"{where}: nobody defines {sorted(built.missing)}")
    for entry, items in groups.items():
        kernel = built.kernels.get(entry)
        if kernel is None:
            wrong.append(f"{where}: no kernel {entry}")
            continue
        if spills(kernel) and not known(target, file, options, kernel):
            wrong.append(f"{where}: {entry} of {items}, {kernel.vgprs} registers, {kernel.vgpr_spills} spilled, "
                         f"{kernel.scratch} bytes of scratch, SIMD{kernel.lanes}")
        if items > (kernel.largest or items):
            wrong.append(f"{where}: {entry} of {items}, compiled for {kernel.largest} at most")
        if kernel.local > target.local_mem:
            wrong.append(f"{where}: {entry} has {kernel.local} bytes of local memory")
    return wrong


class Report:
    """Of each file the worst of its kernels for a target, and every program that is not as it should be."""

    def __init__(self, target: Target) -> None:
        self.target, self.bad, self.known, self.programs = target, [], [], 0
        self.kernels: dict[str, list[tuple[Kernel, int]]] = defaultdict(list)

    def add(self, file: str, options: str, groups: dict[str, int], built: Built) -> None:
        self.programs += 1
        self.bad += complaints(self.target, file, options, groups, built)
        self.known += [f"{self.target.name} {file} {options}: {entry}" for entry in groups
                       if entry in built.kernels and spills(built.kernels[entry])
                       and known(self.target, file, options, built.kernels[entry])]
        self.kernels[file] += [(built.kernels[entry], items) for entry, items in groups.items()
                               if entry in built.kernels]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield files and their lines of the table; of spir32 nothing is known."""
        for file, found in self.kernels.items() if self.target.runtime != "spir" else ():
            numbers = [max((getattr(kernel, name) for kernel, _ in found), default=0) for name in (
                "vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "local")]
            scratch = max((kernel.scratch for kernel, _ in found if spills(kernel) or kernel.largest == 0), default=0)
            lanes = f"{min((kernel.lanes for kernel, _ in found), default=0)}"
            waves = f"{min((occupancy(self.target, *one) for one in found), default=0):.1f}"
            yield file, "".join(f"{text!s:>8}" for text in (
                self.target.name, len(found), max((items for _, items in found), default=0), *numbers, scratch, lanes,
                waves))

    def total(self) -> str:
        found = [kernel for some in self.kernels.values() for kernel, _ in some]
        said = f"{self.target.name}: {self.programs} programs, {len(found)} kernels, {len(self.bad)} complaints"
        if self.target.runtime == "spir":
            return said
        return (f"{said}, {sum(map(spills, found))} kernels spill, "
                f"at most {max((kernel.vgprs for kernel in found), default=0)} registers")


if __name__ == "__main__":
    sys.exit(main())
