"""Kernels on Oclgrind, a simulator of an OpenCL device that sees each access: `bash tests/run_simulated.sh`.

    bash tests/run_simulated.sh                  all of it
    bash tests/run_simulated.sh --quick          a few problems of each unit
    bash tests/run_simulated.sh pooling --view gpu
    bash tests/run_simulated.sh --share 1/4      every fourth unit
    bash tests/run_simulated.sh --report bench/results/simulated.txt      all of it, and what is kept of it

Kernels without inline PTX run on small problems, for CPUs and as on GPUs.  Results are compared with float64
by the checks of the operations' own tests.  Beside that Oclgrind reports accesses outside of a buffer, races of
work-items and of groups, barriers that not all of a group reach, private and local memory that is used before it was
written, and wrong calls of OpenCL: each message fails the run, but those of tests/data/simulated.txt.

Buffers are exactly as long as the API says, since guards around them would hide reads.

Oclgrind 21.10 does not know some instructions of LLVM 14's optimiser (freeze, prefetch, scopes of pointers that do not
alias).  So programs are built without optimisation, and a few passes that keep what a program does (values in
registers, unrolled loops) run on their bitcode, by the LLVM library that Oclgrind uses.

What it cannot do, and nobody works around: OpenCL 2's subgroups.  Left out are arithmetic in `half`, which no kernel
uses, and int8's weight gradient, which the API refuses.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import ctypes
import faulthandler
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

HERE = Path(__file__).resolve().parent
LIBRARY = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
TOLERATED = HERE / "data" / "simulated.txt"
WHY_NOT = f"needs {LIBRARY}: apt-get install oclgrind"
SECONDS = 1500  # of a unit
SEED = 5
VIEWS: dict[str, dict[str, Any]] = {
    "cpu": {"kind": "cpu", "runtime": "pocl", "host_unified": False},
    "cpu wide": {"kind": "cpu", "runtime": "pocl", "host_unified": False, "isa": "avx512"},
    "gpu": {"kind": "gpu", "max_work_group_size": 256},
    "small gpu": {"kind": "gpu", "max_work_group_size": 64, "local_mem": 16 << 10, "fp64": False, "fp16": False,
                  "isa": ""},
    **{isa: {"kind": "gpu", "runtime": "amd", "isa": isa, "name": f"amd-{isa}_2", "max_work_group_size": 1024}
       for isa in ("gfx90a", "gfx942", "gfx1100")},
}


def why_not() -> str:
    """Return why nothing can be simulated here, or an empty text."""
    return "" if os.path.exists(LIBRARY) else WHY_NOT


# ------------------------------------------------------------------------------------------------------- programs


class Llvm:
    """What is used of LLVM's C interface, of the library that Oclgrind has loaded."""

    PASSES = ("inline,function(sroa,early-cse,simplifycfg,loop-simplify,lcssa,loop-rotate,loop-unroll,sroa,early-cse,"
              "instsimplify,adce,simplifycfg)")
    UNKNOWN = "llvm.experimental.noalias", "llvm.prefetch", "llvm.assume", "llvm.lifetime"  # to Oclgrind
    CALL, SHUFFLE, FREEZE, SPIR_KERNEL = 45, 52, 68, 76  # LLVMOpcode, LLVMCallConv

    def __init__(self) -> None:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        loaded = re.search(r"\S*/libLLVM\S*", maps)
        if loaded is None:
            raise OSError("Oclgrind is not loaded, or has no LLVM library of its own")
        self.library = ctypes.CDLL(loaded[0])

    def call(self, name: str, *arguments: Any, gives: Any = ctypes.c_void_p) -> Any:
        function = getattr(self.library, "LLVM" + name)
        function.restype = gives
        return function(*(ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments))

    def each(self, what: str, of: int) -> Iterator[int]:
        item = self.call("GetFirst" + what, of)
        while item:
            following = self.call("GetNext" + what, item)  # before the caller erases it
            yield item
            item = following

    def name(self, value: int) -> str:
        return self.call("GetValueName2", value, ctypes.byref(ctypes.c_size_t()), gives=ctypes.c_char_p).decode()

    def known(self, bitcode: bytes) -> tuple[bytes, list[str]]:
        """Return a module without what Oclgrind does not know, and the names of its kernels."""
        buffer = self.call("CreateMemoryBufferWithMemoryRangeCopy", bitcode, ctypes.c_size_t(len(bitcode)), b"program")
        module = ctypes.c_void_p()
        if self.call("ParseBitcode2", buffer, ctypes.byref(module), gives=ctypes.c_int):
            raise OSError("no bitcode")
        error = self.call("RunPasses", module, self.PASSES.encode(), None, self.call("CreatePassBuilderOptions"))
        if error:
            raise OSError(self.call("GetErrorMessage", error, gives=ctypes.c_char_p).decode())
        kernels = []
        for function in self.each("Function", module.value):
            if self.call("GetFunctionCallConv", function, gives=ctypes.c_uint) == self.SPIR_KERNEL:
                kernels.append(self.name(function))
            for block in self.each("BasicBlock", function):
                for instruction in self.each("Instruction", block):
                    self._replace(instruction)
        out = self.call("WriteBitcodeToMemoryBuffer", module)
        data = ctypes.string_at(self.call("GetBufferStart", out),
                                self.call("GetBufferSize", out, gives=ctypes.c_size_t))
        self.call("DisposeMemoryBuffer", out, gives=None)
        self.call("DisposeModule", module, gives=None)
        return data, kernels

    def _by_lanes(self, shuffle: int) -> bool:
        """Replace a shuffle, unless it copies one lane, lane by lane: Oclgrind takes wrong lanes of long vectors for
        uninitialised, and crashes where a result is longer than what it is made of.
        """
        count = self.call("GetNumMaskElements", shuffle, gives=ctypes.c_uint)
        mask = [self.call("GetMaskValue", shuffle, ctypes.c_uint(i), gives=ctypes.c_int) for i in range(count)]
        sources = [self.call("GetOperand", shuffle, ctypes.c_uint(i)) for i in (0, 1)]
        lanes = self.call("GetVectorSize", self.call("TypeOf", sources[0]), gives=ctypes.c_uint)
        if count == lanes and not any(mask):
            return False
        builder, int32 = self.call("CreateBuilder"), self.call("Int32Type")
        self.call("PositionBuilderBefore", builder, shuffle, gives=None)
        self.call("SetCurrentDebugLocation2", builder, self.call("InstructionGetDebugLoc", shuffle), gives=None)
        result = self.call("GetUndef", self.call("TypeOf", shuffle))
        for to, source in enumerate(mask):
            if source >= 0:
                at, from_ = (self.call("ConstInt", int32, ctypes.c_ulonglong(i), ctypes.c_int(0))
                             for i in (to, source % lanes))
                lane = self.call("BuildExtractElement", builder, sources[source // lanes], from_, b"")
                result = self.call("BuildInsertElement", builder, result, lane, at, b"")
        self.call("DisposeBuilder", builder, gives=None)
        self.call("ReplaceAllUsesWith", shuffle, result, gives=None)
        return True

    def _replace(self, instruction: int) -> None:
        opcode = self.call("GetInstructionOpcode", instruction, gives=ctypes.c_int)
        if opcode == self.SHUFFLE:
            if not self._by_lanes(instruction):
                return
        elif opcode == self.FREEZE:
            self.call("ReplaceAllUsesWith", instruction, self.call("GetOperand", instruction, ctypes.c_uint(0)),
                      gives=None)
        elif opcode != self.CALL or not self.name(self.call("GetCalledValue", instruction)).startswith(self.UNKNOWN):
            return
        self.call("InstructionEraseFromParent", instruction, gives=None)


class Programs:
    """Builds programs for Oclgrind in place of `miopyx.runtime.programs`; knows their files and kernels."""

    made: ClassVar[list[Programs]] = []

    def __init__(self) -> None:
        from miopyx.runtime import _opencl, programs

        self.llvm, self.kernels, self.file = Llvm(), collections.defaultdict(set), ""
        self.from_binary, self.from_source = _opencl.program_from_binary, programs._from_source
        self.texts: dict[str, str] = {}
        self.build, programs.build = programs.build, self._build
        programs._from_source = self._from_source
        self.made.append(self)

    def _build(self, device: Any, file: str, options: str) -> Any:
        self.file = file
        return self.build(device, file, options)

    def _from_source(self, context: int, compiler: int, info: Any, text: bytes, options: str) -> Any:
        if text.decode() == self._text(self.file):
            text = self.lined(self.file).encode()
        whole = self.from_source(context, compiler, info, text, options)
        bitcode, kernels = self.llvm.known(whole.binary())
        self.kernels[self.file].update(kernels)
        return self.from_binary(context, compiler, bitcode, options.encode())

    @staticmethod
    def _text(file: str) -> str:
        from miopyx.runtime import programs

        return programs.source(file)

    def lined(self, file: str) -> str:
        """The text of `programs.source` that says where its lines come from."""
        if file not in self.texts:
            lines = [f'#line 1 "{file}"']
            for number, line in enumerate(kernel_lines(file), 2):
                if line.startswith('#include "'):
                    lines += [self.lined(line.split('"')[1]), f'#line {number} "{file}"']
                else:
                    lines.append(line)
            self.texts[file] = "\n".join(lines)
        return self.texts[file]


def kernel_lines(file: str) -> list[str]:
    """Return the lines of a kernel file as it is installed; none of what is no kernel file."""
    from miopyx.values import kernels

    try:
        return kernels.read(file).decode().splitlines()
    except OSError:
        return []


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def kernel_files() -> list[str]:
    """Return the kernel files that need no inline PTX: none of NVIDIA's that hold some."""
    from miopyx.runtime import programs
    from miopyx.values import kernels

    files = [file for file in kernels.names("conv", "layers") if file.endswith(".cl")]
    return [file for file in files
            if "nvidia" not in file or not re.search(r"\basm\b", without_comments(programs.source(file)))]


# ------------------------------------------------------------------------------------------------------- messages


class Tolerated(NamedTuple):
    kernel: str
    message: str
    place: str
    reason: str


def tolerated() -> list[Tolerated]:
    lines = TOLERATED.read_text(encoding="utf-8").splitlines()
    return [Tolerated(*(part.strip() for part in line.split("|"))) for line in lines
            if line.strip() and not line.startswith("#")]


class Message(NamedTuple):
    """What Oclgrind says, without addresses and work-items: equal ones are one finding."""

    kernel: str
    what: str
    places: tuple[str, ...]  # file:line

    def is_tolerated(self, rows: list[Tolerated]) -> bool:
        return any(row.kernel == self.kernel and row.message == self.what and (row.place in self.places or
                   (row.place == "" and not self.places)) for row in rows)

    def show(self) -> str:
        lines = [f"{self.kernel or 'OpenCL'}: {self.what}"]
        for place in self.places:
            file, _, number = place.rpartition(":")
            text = kernel_lines(file)
            line = text[int(number) - 1].strip() if 0 < int(number) <= len(text) else ""
            lines.append(f"        {place}: {line}")
        return "\n".join(lines)


# Oclgrind calls some doubles, constants among them, uninitialised where they are rounded to half precision.
FLAW = re.compile(r"Uninitialized value written[^|]*vstore_half(_rt[ezpn])?d", re.DOTALL)


def messages_of(log: str) -> Iterator[Message]:
    """Read a log; a message begins at the beginning of a line and goes on in lines that begin with a tab."""
    for block in re.split(r"\n(?=[^\s])", "\n" + log):
        first = block.strip().split("\n")[0].strip()
        if not first or re.fullmatch(r"\d+ warnings? generated\.", first) or FLAW.match(block.strip()):
            continue
        kernel = re.search(r"\n\tKernel:\s*(\S+)", block)
        if kernel is None:
            said = re.findall(r"\n\t(.*\S)", block)
            first = "; ".join([first, *(" ".join(line.split()) for line in said)])
        places = re.findall(r"At line (\d+)[^\n]*? of ([^\s:]+)", block)
        yield Message(kernel[1] if kernel else "", re.sub(r"\s*\b0x[0-9a-f]+", "", first),
                      tuple(dict.fromkeys(f"{file}:{line}" for line, file in places)))


class News:
    """What was written to a file since it was read last."""

    def __init__(self, path: str | Path) -> None:
        self.path, self.read = Path(path), 0

    def text(self) -> str:
        if not self.path.exists():
            return ""
        found = self.path.read_bytes()[self.read:]
        self.read += len(found)
        return found.decode("utf-8", "replace")


# pyopencl asks for facts that a device may not know, and looks for attributes of its programs among their kernels.
OF_PYOPENCL = re.compile(r"clGetDeviceInfo;.*'param_name'|clCreateKernel;.*'_source'")


def wrong_calls_of(stderr: str) -> Iterator[Message]:
    """Read what Oclgrind says of calls of OpenCL, which it writes to stderr, whatever OCLGRIND_LOG names."""
    return (message for message in messages_of(stderr)
            if "OpenCL runtime error" in message.what and not OF_PYOPENCL.search(message.what))


# -------------------------------------------------------------------------------------------------------- problems


class Unit(NamedTuple):
    """Problems of one process: `problems` gives pairs of a name and what runs it on a handle and its numbers."""

    name: str
    view: str
    problems: Callable[[Any, bool], Iterator[tuple[str, Callable]]]


def shrunk(case, groups=3, images=2, channels=19, across=40):
    """Return a case of the same filter with less of everything else."""
    from cases_reader import conv_case

    few = min(case.groups, groups)
    inputs, outputs = (min(c // case.groups, channels) for c in (case.c, case.k))
    extent = [(f - 1) * d + 1 for f, d in zip(case.filter, case.dilation, strict=True)]
    limits = [across if i == len(case.lens) - 1 else 14 for i in range(len(case.lens))]
    lens = tuple(min(size, max(limit, e)) for size, limit, e in zip(case.lens, limits, extent, strict=True))
    return conv_case(min(case.n, images), few * inputs, few * outputs, lens, case.filter, case.pad, case.stride,
                     case.dilation, few, case.transposed, case.outpad)


def convolutions(cases, names: str, most: int, layouts=("packed", "channels last"), types=("float32",),
                 across=40):
    """Return problems of the solvers whose names match, where a case has `most` products at most."""
    def problems(handle, quick):
        import numpy as np
        from drawn import HOST
        from solver_checks import DIRECTIONS, Example, verify

        from miopyx.solvers import registry

        number = 0
        # A group of a GPU computes a whole tile, of which there are to be few.
        less = {"across": across}
        if handle.device.is_gpu and names.startswith("^("):
            less = {"channels": 7, "images": 1, "across": 12}
        for name, case in cases().items():
            case = shrunk(case, **less)
            if case.products > most:
                continue
            for layout in layouts:
                dtype = types[number % len(types)]
                number += 1
                if dtype == "float64" and not handle.device.fp64:
                    continue
                for direction in range(2 if dtype == "int8" else 3):  # int8 has no weight gradient
                    def example(rng, case=case, dtype=dtype, layout=layout):
                        return Example(case, dtype, layout, rng, HOST(), copied=True)

                    problem = example(np.random.default_rng(SEED)).problem(direction)
                    for solver in registry.CONV:
                        if not re.search(names, solver.name) or solver.why_not(handle.device, problem) is not None:
                            continue

                        def run(handle, rng, make=example, solver=solver, direction=direction, number=number):
                            made = make(rng)
                            if number % 2:
                                verify(handle, made, direction, made.run(handle, direction, solver), solver)
                            else:
                                old = made.random_output(direction, rng)
                                got = made.run(handle, direction, solver, -1.25, 0.5, old)
                                verify(handle, made, direction, got, solver, -1.25, 0.5, old.astype(np.float64))
                        yield f"{solver.name}: {name}, {dtype}, {layout}, {DIRECTIONS[direction]}", run
    return problems


def shapes_of(module: str, name: str = "SHAPES"):
    def cases():
        found = getattr(__import__(module), name)
        return {key: value[-1] if isinstance(value, tuple) else value for key, value in found.items()}
    return cases


def listed(tier=None):
    def cases():
        from cases_reader import conv_cases

        return {case.text: case for case in conv_cases(tier)}
    return cases


def tiny():
    """A few tiles of Winograd's: each of its points takes a whole tile of a product on GPUs."""
    from cases_reader import conv_case

    return {"one tile": conv_case(1, 2, 3, (2, 2), (3, 3), (1, 1)), "no pad": conv_case(2, 1, 2, (6, 5), (3, 3)),
            "edges": conv_case(1, 3, 2, (5, 6), (3, 3), (1, 1)),
            "groups": conv_case(1, 4, 2, (3, 4), (3, 3), (1, 1), groups=2)}


def along_rows():
    """Transforms of 16 and of 64 points along rows."""
    from cases_reader import conv_case

    return {"1x9": conv_case(2, 2, 3, (1, 20), (1, 9), (0, 4)), "1x31": conv_case(1, 3, 2, (2, 40), (1, 31), (0, 15))}


def operation(name: str, count: int):
    """Return random problems of an operation of tests/random_operations.py, of each type in turn."""
    def problems(handle, quick):
        import drawn
        import random_find2
        import random_operations

        drawn.KNOWN[:] = ["host", handle.device.name]
        if name in SLOW:
            for module in (random_operations, random_find2):
                module.length = lambda rng, most: drawn.length(rng, min(most, MOST))
        types = [t for t in drawn.TYPES if t != "float64" or handle.device.fp64]
        for number in range(count):
            def run(handle, rng, number=number):
                drawn.KIND[:] = [types[number % len(types)]]
                random_operations.OPERATIONS[name](handle, rng)
            yield f"{name} {number}, {types[number % len(types)]}", run
    return problems


def packing(handle, quick):
    """Return the problems of tests/test_nvidia_pack.py: kernels of NVIDIA's solvers that any device runs."""
    import pyopencl as cl
    import test_nvidia_pack

    made = Programs.made[0]

    def build(entry, file="conv/nvidia/pack.cl", **defines):
        options = ["-cl-std=CL1.2", *(f"-D{name}={value}" for name, value in defines.items())]
        whole = cl.Program(handle.queue.context, made.lined(file)).build(options, cache_dir=False)
        bitcode, kernels = made.llvm.known(whole.get_info(cl.program_info.BINARIES)[0])
        made.kernels[file].update(kernels)
        program = cl.Program(handle.queue.context, handle.queue.context.devices, [bitcode])
        return cl.Kernel(program.build(), entry), handle.queue

    for shape in test_nvidia_pack.SHAPES:
        if shape[0] * shape[1] * shape[2] * shape[3] * shape[4] <= 1000:
            yield f"packing {shape}", lambda handle, rng, shape=shape: test_nvidia_pack.test_packing_and_turning(
                build, rng, shape)
    yield "packing two", lambda handle, rng: test_nvidia_pack.check_two(build, rng, (3, 1, 24, 3, 3), (1, 2, 16, 4, 4))
    for p, q, step, w in (4, 4, 2, 8), (5, 6, 3, 16), (3, 8, 1, 8):
        yield f"pixels {p} {q} {step} {w}", lambda handle, rng, given=(p, q, step, w): (
            test_nvidia_pack.test_pixels_that_a_step_meets(build, rng, max, *given))
    for shape in (2, 32, 6, 6), (3, 64, 5, 7):
        yield f"floats {shape}", lambda handle, rng, shape=shape: test_nvidia_pack.test_floats_with_channels_last(
            build, rng, *shape)
    for shape in test_nvidia_pack.PATCHES:
        yield f"patches {shape}", lambda handle, rng, shape=shape: test_nvidia_pack.test_patches(build, rng, *shape)
    for splits, first in (1, 1), (7, 1), (9, 0):
        yield f"partial sums {splits} {first}", lambda handle, rng, given=(splits, first): (
            test_nvidia_pack.test_partial_sums_are_added(build, rng, *given))


def pooling(handle, quick):
    """Return problems of the kernels of GPUs that random problems seldom meet: by lanes, of whole planes, and what is
    beyond MIOpen's own pooling."""
    import test_pooling
    import test_pooling_beyond
    from guarded import LAYOUTS

    cases = [  # layout, images and channels, lengths, windows, pads, strides
        ("channels last", (1, 24), (5, 6), (3, 3), (1, 1), (2, 2)),
        ("channels last", (1, 40), (4, 5), (3, 3), (1, 1), (1, 1)),
        ("channels last", (2, 20), (5, 7), (2, 3), (0, 2), (2, 1)),
        ("channels last", (3, 72), (5, 4), (5, 4), (0, 0), (1, 1)), ("packed", (3, 5), (7, 7), (7, 7), (0, 0), (1, 1)),
        ("packed", (2, 3), (5, 16), (3, 3), (1, 1), (2, 2)), ("packed", (1, 2), (6, 8), (3, 5), (0, 2), (1, 1)),
        ("channels last", (2, 21), (6, 9), (3, 3), (1, 1), (2, 1)), ("packed", (1, 2), (2, 4, 5), (2, 3, 3), (1, 1, 1),
                                                                    (1, 2, 2)),
    ]
    for number, (layout, channels, lens, window, pad, step) in enumerate(cases):
        for mode in range(3):
            dtype = ALL_TYPES[(number + mode) % 3]

            def run(handle, rng, mode=mode, dtype=dtype, layout=layout, given=(channels + lens, window, pad, step)):
                index_type, index_mode = (0, mode % 2) if rng.integers(2) else (int(rng.integers(1, 4)), 1)
                shape = mode, *given, index_type, index_mode
                test_pooling.check_pooling(handle, *test_pooling.problem_of(shape, dtype, layout), rng)
            yield f"pooling {mode} {layout} {channels + lens} {window}, {dtype}", run
    for number, kind in enumerate(("dilated", "asymmetric", "ceil", "divisor", "all") * 2):
        dtype = ALL_TYPES[number % (4 if handle.device.fp64 else 3)]

        def run_beyond(handle, rng, kind=kind, dtype=dtype):
            desc, lens = test_pooling_beyond.draw(rng, kind)
            test_pooling_beyond.check(handle, desc, lens, dtype, LAYOUTS[rng.integers(len(LAYOUTS))], rng)
        yield f"{kind} pooling {number}, {dtype}", run_beyond


def softmax(handle, quick):
    """Return problems of many short sets, and of sets that a group or its registers hold."""
    import test_softmax

    for number, (lens, make) in enumerate([((1, 3, 65, 67), test_softmax.channels_last), *(
            (lens, make) for lens in ((2, 21, 3, 4), (2, 40, 2, 4), (1, 1100, 1, 3), (2, 150, 3, 3))
            for make in (test_softmax.TensorDescriptor, test_softmax.channels_last))]):
        for algorithm, mode in test_softmax.CASES:
            if number == 0 and (mode == test_softmax.INSTANCE or algorithm == 0):
                continue
            dtype = ALL_TYPES[(number + algorithm) % 3]

            def run(handle, rng, given=(algorithm, mode, dtype, lens), make=make):
                test_softmax.check_problem(handle, *given, rng, lambda t, s, _: make(t, s))
            yield f"softmax {algorithm} {mode} {lens} {make.__name__}, {dtype}", run


def batch_norm(handle, quick):
    """Return problems of each kernel of batch norm's: planes, neighbouring ones together, columns, and parts."""
    import test_batchnorm

    cases = [(1, (3, 8, 7, 7), "packed"), (1, (3, 6, 4, 7), "packed"), (1, (9, 3, 6, 8), "packed"),
             (1, (5, 12, 3, 5), "last"), (0, (4, 9, 3, 2), "packed"), (0, (5, 4, 3, 2), "mixed"),
             (1, (2, 7, 9, 11), "gaps"), (1, (2, 2, 40, 30), "packed"), (1, (2, 5, 23, 21), "last"),
             (1, (1, 20, 1, 1), "packed"), (1, (2, 4, 3, 4, 5), "mixed")]
    for number, (mode, lens, layout) in enumerate(cases):
        for dtype in (ALL_TYPES[number % 3], ALL_TYPES[(number + 1) % (4 if handle.device.fp64 else 3)]):
            def run(handle, rng, mode=mode, lens=lens, layout=layout, dtype=dtype):
                test_batchnorm.Example(mode, lens, dtype, rng, layout).check(handle)
            yield f"batch norm {mode} {lens} {layout}, {dtype}", run


def sums(handle, quick):
    """Return gradients of biases that take two launches, and sums of nothing."""
    import numpy as np
    import test_empty
    import test_tensor_ops

    import miopyx

    for lens, order in (((2, 2, 90, 100), None), ((1, 3, 120, 47), None), ((3, 9, 40, 31), (0, 2, 3, 1))):
        for dtype in ALL_TYPES[:3]:
            def run(handle, rng, lens=lens, order=order, dtype=dtype):
                strides = test_tensor_ops.packed(lens, order) if order else None
                y = test_tensor_ops.Tensor(handle, rng, dtype, lens, strides)
                b = test_tensor_ops.Tensor(handle, rng, dtype, (1, lens[1], 1, 1), None, np.nan)
                y.keep()
                miopyx.miopenConvolutionBackwardBias(handle, 1, y.desc, y.data, 0, b.desc, b.data)
                want, terms = (f(y.wide).sum((0, 2, 3), keepdims=True) for f in (np.asarray, np.abs))
                test_tensor_ops.within(b.result(), want, terms, dtype, 4 + y.view.size // b.view.size)
            yield f"bias gradient {lens} {order}, {dtype}", run
    for dtype in ALL_TYPES[:3]:
        yield (f"bias gradient of nothing, {dtype}",
               lambda handle, rng, dtype=dtype: test_empty.test_bias(handle, dtype, False))


def epilogue(handle, quick):
    """Return fused convolutions by FFTs, which store results and leave the epilogue to a launch of its own."""
    import test_fusion
    from cases_reader import conv_case
    from drawn import HOST
    from solver_checks import Example

    from miopyx.solvers import registry

    case = conv_case(1, 2, 3, (7, 9), (5, 5), (2, 2))
    for dtype, layout in (("float32", "packed"), ("float16", "channels last"))[:1 if handle.device.is_gpu else 2]:
        def run(handle, rng, given=(case, dtype, layout)):
            test_fusion.check(handle, Example(*given, rng, HOST()), registry.BY_NAME["FFTConvFwd"], rng)
        yield f"fused FFT, {dtype}, {layout}", run


def matrix_cores(handle, quick):
    """Return convolutions on AMD's matrix cores, whose instructions are emulated (tests/test_amd_matrix.py)."""
    import test_amd_matrix
    from cases_reader import grouped_case
    from drawn import HOST
    from solver_checks import DIRECTIONS, Example, verify

    made = Programs.made[0]
    head, declared, rest = made.lined(test_amd_matrix.FILE).partition(test_amd_matrix.SLICES)
    emulation = test_amd_matrix.EMULATION.read_text(encoding="utf-8")
    made.texts[test_amd_matrix.FILE] = f"{emulation}{head}{test_amd_matrix.EMULATED}{declared}{rest}"
    case = grouped_case(1, 2, 5, 7, (3, 4))
    for dtype in test_amd_matrix.types_of(handle):
        for layout in ("packed", "channels last"):
            for direction in range(3):
                def run(handle, rng, given=(case, dtype, layout), direction=direction):
                    solver, example = test_amd_matrix.SOLVERS[direction], Example(*given, rng, HOST(), copied=True)
                    verify(handle, example, direction, example.run(handle, direction, solver), solver)
                yield f"matrix cores, {dtype}, {layout}, {DIRECTIONS[direction]}", run


def float8(handle, quick):
    """Return convolutions in types of 8 bits, of whole numbers: sums are exact, and rounded once, either way."""
    import numpy as np
    import test_float8
    from drawn import HOST
    from solver_checks import DIRECTIONS, Example

    import miopyx
    from miopyx.solvers import registry

    number = 0
    for text, listed_case in listed("smoke")().items():
        case = shrunk(listed_case, channels=7, images=1, across=12)
        if case.products > 2_000:
            continue
        for layout in ("packed", "channels last"):
            dtype, mode = test_float8.NAMES[number % 4], number // 4 % 2
            number += 1
            for direction in range(3):
                def example(rng, given=(case, dtype, layout), mode=mode):
                    made = Example(*given, rng, HOST(), copied=True)
                    miopyx.miopenSetConvolutionAttribute(
                        made.conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE, mode)
                    made.data = [rng.integers(-2, 3, d.shape).astype(d.dtype) for d in made.data]
                    return made

                problem = example(np.random.default_rng(SEED)).problem(direction)
                for solver in registry.CONV:
                    if solver.why_not(handle.device, problem) is not None:
                        continue

                    def run(handle, rng, make=example, solver=solver, direction=direction, dtype=dtype, mode=mode):
                        made, grid = make(rng), test_float8.in_order(dtype)
                        got, want = made.run(handle, direction, solver), np.clip(made.truth(direction), *grid[[0, -1]])
                        if mode == test_float8.NEAREST:
                            np.testing.assert_array_equal(got, test_float8.nearest(want, dtype).astype(np.float64))
                        assert (grid[np.searchsorted(grid, want, "right") - 1] <= got).all()
                        assert (got <= grid[np.searchsorted(grid, want)]).all()
                    yield f"{solver.name}: {text}, {dtype}, {layout}, {DIRECTIONS[direction]}", run


ALL_TYPES = "float32", "float16", "bfloat16", "float64"
GENERAL = "^(Gemm|ConvDirect|FFT|Cpu|Gpu|Depthwise|Signal)"
OF_GPUS = "^(Gemm|ConvDirect|GpuImplicit|Depthwise|Signal)"  # transforms take half a minute each
INT8 = ("cpu", GENERAL), ("cpu wide", GENERAL), ("gpu", OF_GPUS), ("small gpu", OF_GPUS)
# Operations whose kernels others have, or that compute nothing on a device.
OTHER_DOORS = {"find 2.0", "fused problems", "fused norms", "other problems", "foreign solutions", "setters",
               "graph", "graph of a convolution", "graph of attention", "other graphs", "attributes", "immediate",
               "convolution by algorithm", "plan of fusion", "plan of norm", "rnn parameters"}
COUNTS = {"pooling": 12, "op tensor": 12, "reduce": 16, "softmax": 16, "batch norm": 16, "rnn": 6, "attention": 6,
          "steps of rnn": 3, "dropout in rnn": 3, "fusion": 24}
MOST = 9  # of lengths of problems that take a product for each step, or each pair
SLOW = {"rnn", "steps of rnn", "dropout in rnn", "attention"}


def units() -> list[Unit]:
    import random_operations

    found = []
    for view in ("cpu", "gpu"):
        found += [Unit(f"operation: {name}", view, operation(name, COUNTS.get(name, 8)))
                  for name in random_operations.OPERATIONS if name not in OTHER_DOORS]
    rows = [
        ("conv: listed cases", "cpu", listed(), GENERAL, 10_000, ALL_TYPES),
        ("conv: listed cases", "gpu", listed("smoke"), OF_GPUS, 8_000, ALL_TYPES),
        ("conv: listed cases", "cpu wide", listed("smoke"), GENERAL, 10_000, ALL_TYPES),
        ("conv: listed cases", "small gpu", listed("smoke"), OF_GPUS, 4_000, ALL_TYPES[:3]),
        *(("conv: int8", view, listed("smoke"), names, 2_000, ("int8",)) for view, names in INT8),
        ("conv: Winograd", "gpu", tiny, "^GpuWinograd", 10_000, ALL_TYPES),
        ("conv: FFT", "cpu", shapes_of("test_fft"), "^FFT", 300_000, ALL_TYPES),
        ("conv: FFT", "gpu", shapes_of("test_fft"), "^FFT", 60_000, ALL_TYPES),
        ("conv: FFT along rows", "gpu", along_rows, "^FFT", 60_000, ALL_TYPES[:3]),
        ("conv: grouped", "cpu", shapes_of("test_grouped_cpu"), "^CpuGrouped", 100_000, ALL_TYPES),
        ("conv: Winograd", "cpu", shapes_of("test_winograd_cpu", "CASES"), "^CpuWinograd", 1_000_000, ALL_TYPES),
        ("conv: Winograd of other filters", "cpu", shapes_of("test_winograd_cpu", "OTHERS"), "^CpuWinograd", 1_000_000,
         ALL_TYPES),
        ("conv: Winograd of volumes", "cpu", shapes_of("test_winograd_cpu", "VOLUMES"), "^CpuWinograd", 1_000_000,
         ALL_TYPES),
        ("conv: weights", "cpu", shapes_of("test_implicit_cpu_weights"), "^CpuImplicit", 200_000, ALL_TYPES),
        ("conv: depthwise", "gpu", shapes_of("test_depthwise"), "^Depthwise", 400_000, ALL_TYPES[:3]),
        ("conv: signals", "gpu", shapes_of("test_signals"), "^Signal", 400_000, ALL_TYPES[:3]),
    ]
    found.append(Unit("conv: few channels", "cpu", convolutions(
        shapes_of("test_few_cpu", "NAMED"), "^CpuFew", 300_000, ("packed",), ALL_TYPES, 110)))
    for name, view, cases, names, most, types in rows:
        found.append(Unit(name, view, convolutions(cases, names, most, types=types)))
    found += [Unit("conv: float8", view, float8) for view in ("cpu", "gpu")]
    found += [Unit(f"kernels: {name}", view, problems) for view in ("gpu", "small gpu") for name, problems in (
        ("pooling", pooling), ("softmax", softmax), ("batch norm", batch_norm), ("sums", sums))]
    found.append(Unit("kernels: pooling", "cpu", pooling))
    found += [Unit("kernels: epilogue", view, epilogue) for view in ("cpu", "gpu")]
    found += [Unit("kernels: matrix cores", isa, matrix_cores) for isa in ("gfx90a", "gfx942", "gfx1100")]
    found.append(Unit("packing: of NVIDIA's solvers", "gpu", packing))
    return found


# ------------------------------------------------------------------------------------------------------- one unit


def write_zeros() -> None:
    """Let zeros be written, not filled in, of which Oclgrind does not take notice."""
    import numpy as np
    import pyopencl as cl

    from miopyx.device import devices

    def allocate(queue, size, clear):
        buffer = plain(queue, size, False)
        if clear:
            cl.enqueue_copy(queue, buffer, np.zeros(size, np.uint8))
        return buffer

    plain, devices.allocate = devices.allocate, allocate


def writable_table(platform: int):
    """Return the functions of a cl_platform_id as loaders call them: each object of OpenCL's begins with a pointer to
    this table."""
    table = ctypes.cast(ctypes.c_void_p(platform), ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    page, place = os.sysconf("SC_PAGE_SIZE"), ctypes.addressof(table.contents)
    ctypes.CDLL(None).mprotect(ctypes.c_void_p(place // page * page), ctypes.c_size_t(2 * page), 3)
    return table


def keep_memory(platform: int) -> None:
    """Let no buffer and no program's constants of a cl_platform_id end: Oclgrind takes a buffer at the address of
    another for what that held, uninitialised or not, and behind its end for uninitialised whatever is written.

    """
    table = writable_table(platform)
    # places of clRetainMemObject and clReleaseMemObject, clRetainProgram and clReleaseProgram
    for retain, release in ((17, 18), (28, 29)):
        table[release] = table[retain]


class Launches:
    """Names of kernels that were launched.

    Oclgrind counts kernels' instructions, too, but writes behind its counters (seen by Valgrind), and then ends with
    "double free or corruption" in one program or another.
    """

    INFO, LAUNCH, NAME = 39, 59, 0x1190  # places of clGetKernelInfo and clEnqueueNDRangeKernel, CL_KERNEL_FUNCTION_NAME

    def __init__(self, platform: int) -> None:
        self.names: set[str] = set()
        table = writable_table(platform)
        name_of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p,
                                   ctypes.c_void_p)(table[self.INFO])
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint,
                                *[ctypes.c_void_p] * 3, ctypes.c_uint, *[ctypes.c_void_p] * 2)
        launch = kind(table[self.LAUNCH])

        def note(queue, kernel, *rest):
            text = ctypes.create_string_buffer(256)
            if name_of(kernel, self.NAME, len(text), text, None) == 0:
                self.names.add(text.value.decode())
            return launch(queue, kernel, *rest)

        self.kept = kind(note)  # the table does not keep it
        table[self.LAUNCH] = ctypes.cast(self.kept, ctypes.c_void_p).value


def handle_on(view: str):
    """Return a handle on the simulated device, which is taken for another one."""
    import miopyx
    from miopyx.device import devices

    known = devices.find("oclgrind")
    find, devices.find = devices.find, lambda _: known._replace(**VIEWS[view])
    try:
        return miopyx.Handle("oclgrind")
    finally:
        devices.find = find


def child(given: dict[str, Any]) -> None:
    """Run a unit's problems and write what came of them, a JSON object a line."""
    import guarded
    import numpy as np
    import pyopencl as cl
    import pytest
    from drawn import HANDLES

    faulthandler.enable()
    unit = next(u for u in units() if (u.name, u.view) == (given["name"], given["view"]))
    guarded.Pages.against = "end"  # buffers without guards
    platform = cl.get_platforms()[0].int_ptr
    keep_memory(platform)  # before the handle is tried out
    handle = HANDLES["oclgrind"] = handle_on(unit.view)
    built, launches = Programs(), Launches(platform)
    write_zeros()
    log, stderr = News(os.environ["OCLGRIND_LOG"]), News(given["stderr"])
    with open(given["out"], "a", encoding="utf-8") as out:
        problems = list(unit.problems(handle, given["quick"]))
        for number, (name, run) in enumerate(problems):
            if given["text"] not in name or (given["quick"] and number % -(-len(problems) // given["quick"])):
                continue
            begin, wrong, skipped = time.perf_counter(), "", False
            print(json.dumps({"begin": name}), file=out, flush=True)
            guarded.Pages.given = []
            try:
                with np.errstate(all="ignore"):
                    run(handle, np.random.default_rng([SEED, zlib.crc32(name.encode())]))
            except pytest.skip.Exception:
                skipped = True
            except (Exception, pytest.fail.Exception) as error:
                wrong = traceback.format_exc() if not str(error) else f"{type(error).__name__}: {error}"
                if given["trace"]:
                    wrong = traceback.format_exc()
            found = collections.Counter(messages_of(log.text()))
            found.update(wrong_calls_of(stderr.text()))
            print(json.dumps({"name": name, "wrong": wrong[-1500:], "skipped": skipped,
                              "seconds": time.perf_counter() - begin, "messages": [[*m, n] for m, n in found.items()],
                              "files": {file: sorted(names) for file, names in built.kernels.items()},
                              "launched": sorted(launches.names)}),
                  file=out, flush=True)
    os._exit(0)  # nothing of what ends with a process is looked at here


# ---------------------------------------------------------------------------------------------------- all of them


class Tally:
    """What a walk reached and found."""

    def __init__(self) -> None:
        self.rows = tolerated()
        self.units = self.problems = self.skipped = self.wrong = 0
        self.files: dict[str, set[str]] = collections.defaultdict(set)  # names of kernels that were built
        self.launched: dict[str, set[str]] = collections.defaultdict(set)
        self.solvers: set[str] = set()
        self.operations: set[str] = set()
        self.each: dict[str, list[float]] = {}  # of a unit: problems, skipped ones, wrong ones, seconds
        self.errors: list[str] = []
        self.findings: collections.Counter[Message] = collections.Counter()
        self.tolerated: collections.Counter[Message] = collections.Counter()

    def add(self, unit: Unit, lines: list[dict[str, Any]], seconds: float = 0) -> list[str]:
        """Count a unit; return what went wrong."""
        said, before = [], (self.problems, self.skipped, self.wrong)
        self.units += 1
        files: dict[str, list[str]] = {}
        launched: set[str] = set()
        for line in lines:
            if "begin" in line:
                continue
            self.problems += not line["skipped"]
            self.skipped += line["skipped"]
            kind, _, rest = unit.name.partition(": ")
            if kind == "conv":
                self.solvers.add(line["name"].partition(":")[0])
            elif kind == "operation":
                self.operations.add(rest)
            files |= line["files"]
            launched.update(line["launched"])
            if line["wrong"]:
                self.wrong += 1
                said.append(f"{line['name']}: {line['wrong']}")
                self.errors.append(f"{unit.view}, {said[-1]}")
            for kernel, what, places, count in line["messages"]:
                message = Message(kernel, what, tuple(places))
                if message.is_tolerated(self.rows):
                    self.tolerated[message] += count
                else:
                    self.findings[message] += count
                    said.append(f"{line['name']}: {count} times {message.show()}")
        if not lines or "begin" in lines[-1]:
            self.wrong += 1
            said.append(f"the process ended in {lines[-1]['begin'] if lines else 'the beginning'}")
            self.errors.append(f"{unit.view}, {unit.name}: {said[-1]}")
        self.each[f"{unit.view:10} {unit.name}"] = [self.problems - before[0], self.skipped - before[1],
                                                    self.wrong - before[2], round(seconds)]
        for file, names in files.items():
            self.files[file].update(names)
            self.launched[file].update(launched & set(names))
        return said

    COUNTS, SETS = ("units", "problems", "skipped", "wrong"), ("solvers", "operations")

    def write(self, path: str, asked: str, whole: bool) -> None:
        """Write what `join` reads, for shares of one walk, as JSON, or into a .txt what is read by people."""
        if path.endswith(".txt"):
            Path(path).write_text(self.report(asked, whole), encoding="utf-8")
            return
        data = {name: getattr(self, name) for name in (*self.COUNTS, "each", "errors")}
        data |= {name: sorted(getattr(self, name)) for name in self.SETS}
        data |= {name: {file: sorted(names) for file, names in getattr(self, name).items()}
                 for name in ("files", "launched")}
        data |= {name: [[*message, count] for message, count in getattr(self, name).items()]
                 for name in ("findings", "tolerated")}
        Path(path).write_text(json.dumps(data), encoding="utf-8")

    def report(self, asked: str, whole: bool) -> str:
        """Return all that is to be kept of a walk that was asked for by these arguments."""
        found = ["", "What went wrong:", *self.errors] if self.errors else []
        for title, messages in (("Findings, how often:", self.findings),
                                ("Messages that tests/data/simulated.txt says are no defects, how often:",
                                 self.tolerated)):
            if messages:
                found += ["", title, *(f"{count:6} {message.show()}" for message, count in sorted(messages.items()))]
        known = kernel_files()
        return "\n".join([
            f"Kernels on Oclgrind{version()}, a simulator; bash tests/run_simulated.sh{asked}", "",
            self.table(whole), f"{'seconds of all units':30} {sum(row[-1] for row in self.each.values())}", *found, "",
            f"{'of each unit':52}{'problems':>9}{'skipped':>9}{'wrong':>9}{'seconds':>9}",
            *(f"{unit:52}" + "".join(f"{number:9}" for number in row) for unit, row in sorted(self.each.items())), "",
            "Kernels that were launched, of each file:",
            *(f"{file}: {', '.join(sorted(self.launched[file]))}" for file in known if self.launched.get(file))]) + "\n"

    def join(self, path: str) -> None:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        for name in self.COUNTS:
            setattr(self, name, getattr(self, name) + data[name])
        for name in self.SETS:
            getattr(self, name).update(data[name])
        self.each |= data["each"]
        self.errors += data["errors"]
        for name in ("files", "launched"):
            for file, names in data[name].items():
                getattr(self, name)[file].update(names)
        for name in ("findings", "tolerated"):
            for kernel, what, places, count in data[name]:
                getattr(self, name)[Message(kernel, what, tuple(places))] += count

    def table(self, whole: bool) -> str:
        known = kernel_files()
        reached = [file for file in known if self.launched.get(file)]
        kernels = sum(map(len, self.launched.values()))
        rows = [("units", self.units), ("problems", self.problems), ("problems that were skipped", self.skipped),
                ("kernel files reached", f"{len(reached)} of {len(known)}"), ("kernels reached", kernels),
                ("solvers of convolutions", len(self.solvers)), ("operations", len(self.operations)),
                ("wrong results or errors", self.wrong), ("findings", len(self.findings)),
                ("tolerated messages", len(self.tolerated))]
        lines = [f"{name:30} {value}" for name, value in rows]
        if whole:
            lines += [f"not reached: {file}" for file in known if file not in reached]
            lines += [f"solver without a problem: {name}" for name in without_problems(self.solvers)]
            lines += [f"not reached: {name} of {file}" for file in reached
                      for name in sorted(self.files[file] - self.launched[file])]
        return "\n".join(lines)


def without_problems(solvers: Collection[str]) -> list[str]:
    """Return the solvers of convolutions, but NVIDIA's and the host's, that are not among those."""
    from miopyx.solvers import registry
    return [solver.name for solver in registry.CONV if solver.name not in solvers
            and not solver.name.startswith(("Nv", "Host"))]


def version() -> str:
    """Return Oclgrind's version behind a blank, or nothing where its program does not say it."""
    program = shutil.which("oclgrind")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout if program else ""
    found = re.search(r"Oclgrind( \S+)", said)
    return found[1] if found else ""


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a process that sees Oclgrind's device and no other."""
    (folder / "vendors").mkdir()
    (folder / "vendors" / "oclgrind.icd").write_text(LIBRARY + "\n", encoding="utf-8")
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("MIOPYX_", "MIOPEN_", "OCLGRIND_", "OCL_ICD_", "PYTEST_"))}
    return kept | {
        "OCL_ICD_VENDORS": f"{folder / 'vendors'}/", "MIOPYX_CACHE_DIR": str(folder / "cache"),
        "MIOPEN_USER_DB_PATH": str(folder / "databases"), "MIOPEN_DISABLE_CACHE": "1", "MIOPYX_NUM_THREADS": "1",
        "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_CHECK_API": "1",
        "OCLGRIND_MAX_ERRORS": "1000000", "OCLGRIND_GLOBAL_MEM_SIZE": str(1 << 30),
        "OCLGRIND_LOCAL_MEM_SIZE": str(48 << 10), "OCLGRIND_COMPUTE_UNITS": "2",
        "OCLGRIND_BUILD_OPTIONS": "-debug-info-kind=line-tables-only -cl-opt-disable -disable-O0-optnone",
    }


class Done(NamedTuple):
    unit: Unit
    lines: list[dict[str, Any]]
    stderr: str
    seconds: float


def run_unit(unit: Unit, folder: Path, variables: dict[str, str], given: Any) -> Done:
    """Run a unit in a process of its own."""
    begin = time.perf_counter()
    folder = Path(tempfile.mkdtemp(dir=folder))
    out, log, said = folder / "out", folder / "log", folder / "stderr"
    request = json.dumps({"name": unit.name, "view": unit.view, "out": str(out), "quick": given.quick,
                          "text": given.problem, "trace": given.trace, "stderr": str(said)})
    with said.open("wb") as file:
        child = subprocess.Popen([sys.executable, "-P", str(HERE / "simulated.py"), "--child", request],
                                 env=variables | {"OCLGRIND_LOG": str(log)}, stdout=subprocess.DEVNULL, stderr=file)
        try:
            child.wait(timeout=SECONDS)
            stderr = said.read_text("utf-8", "replace")
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            stderr = f"longer than {SECONDS} s"
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    shutil.rmtree(folder)
    return Done(unit, lines, stderr.strip(), time.perf_counter() - begin)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests/run_simulated.sh", description=__doc__.split("\n")[0])
    parser.add_argument("filter", nargs="*", help="units whose names hold one of these texts")
    parser.add_argument("--view", nargs="+", choices=list(VIEWS), help="what the device is taken for")
    parser.add_argument("--share", default="1/1", metavar="I/N", help="every Nth unit from the Ith on")
    parser.add_argument("--jobs", type=int, default=1, help="units at a time (1)")
    parser.add_argument("--quick", nargs="?", type=int, const=3, default=0, metavar="COUNT",
                        help="so many problems of each unit (3)")
    parser.add_argument("--problem", default="", metavar="TEXT", help="problems whose names hold this text")
    parser.add_argument("--list", action="store_true", help="print the units' names")
    parser.add_argument("--trace", action="store_true", help="print where errors come from")
    parser.add_argument("--report", metavar="FILE",
                        help="write what was reached and found: a .txt to be kept, else JSON for --join")
    parser.add_argument("--join", nargs="+", metavar="FILE",
                        help="make one table, and one report, of several reports in JSON and run nothing")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    sys.path.insert(0, str(HERE))
    if given.child:
        child(json.loads(given.child))
    if given.join:
        tally = Tally()
        for path in given.join:
            tally.join(path)
        print(tally.table(True))
        if given.report:
            tally.write(given.report, " in shares", True)
        return 1 if tally.wrong or tally.findings else 0
    part, _, parts = given.share.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        parser.error("--share is I/N, with I from 1 to N")
    why = why_not()
    if why:
        print(why, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="miopyx-simulated-") as name:
        folder = Path(name)
        variables = environment(folder)
        os.environ |= {"MIOPYX_CACHE_DIR": str(folder / "own"), "MIOPEN_USER_DB_PATH": str(folder / "own databases")}
        chosen = [u for u in units() if (not given.filter or any(text in u.name for text in given.filter))
                  and (not given.view or u.view in given.view)][int(part) - 1::int(parts)]
        if given.list:
            print("\n".join(f"{u.view:10} {u.name}" for u in chosen))
            return 0
        if not chosen:
            parser.error("no unit is so called")
        whole = int(parts) == 1 and not given.filter and not given.view
        asked = "".join(f" {f!r}" for f in given.filter) + (f" --view {', '.join(given.view)}" if given.view else "")
        asked += f" --quick {given.quick}" * bool(given.quick) + f" --problem {given.problem!r}" * bool(given.problem)
        asked += f" --share {given.share}" * (int(parts) > 1)
        tally, start = Tally(), time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
            running = [pool.submit(run_unit, unit, folder, variables, given) for unit in chosen]
            for future in concurrent.futures.as_completed(running):
                done = future.result()
                said = tally.add(done.unit, done.lines, done.seconds)
                if given.report:  # as it is so far
                    tally.write(given.report, asked, whole)
                if not done.lines or "begin" in done.lines[-1]:
                    said.append(done.stderr[done.stderr.find("Fatal Python error"):][:1500])
                count = sum("name" in line for line in done.lines)
                print(f"{done.unit.view:10} {done.unit.name:40} {count:4} problems, {len(said):3} wrong, "
                      f"{done.seconds:.0f} s", flush=True)
                for text in said[:20]:
                    print("    " + text.replace("\n", "\n    "), flush=True)
        print(f"\n{tally.table(whole)}\n{'seconds':30} {time.perf_counter() - start:.0f}")
    return 1 if tally.wrong or tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
