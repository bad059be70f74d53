"""Structs that the host fills and kernels take: both compilers must see the same layout."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from miopyx.runtime import programs

# NVIDIA's compiler says what it did.
pytestmark = pytest.mark.filterwarnings("ignore::pyopencl.CompilerWarning")

KERNELS = Path(__file__).resolve().parents[1] / "miopyx" / "kernels"
HEADERS = sorted(path.relative_to(KERNELS).as_posix()
                 for pattern in ("divisor.h", "problem.h", "*_args.h") for path in KERNELS.rglob(pattern))
TYPES = {"int", "unsigned int", "mx_int64", "mx_uint64"}
STRUCT = re.compile(r"typedef struct \{(.*?)\} (\w+);", re.DOTALL)
MEMBERS = re.compile(r"(unsigned int|\w+) ([^;]+);")


def structs(header: str) -> dict[str, list[tuple[str, str]]]:
    """Return the structs of a header, each with its members as pairs (type, name)."""
    text = re.sub(r"/\*.*?\*/", "", (KERNELS / header).read_text(encoding="utf-8"), flags=re.DOTALL)
    return {name: [(kind, member.partition("[")[0].strip()) for kind, members in MEMBERS.findall(body)
                   for member in members.split(",")]
            for body, name in STRUCT.findall(text)}


def places(found: dict[str, list[tuple[str, str]]]) -> list[str]:
    """Return C expressions for each struct's size and each member's offset."""
    return [text for name, members in found.items()
            for text in (f"sizeof({name})", *(f"OFFSET({name}, {member})" for _, member in members))]


@pytest.mark.parametrize("header", HEADERS)
def test_types_are_the_same_everywhere(header):
    known = {name for other in HEADERS for name in structs(other)}
    found = structs(header)
    assert found
    for name, members in found.items():
        assert len({member for _, member in members}) == len(members) > 0, name
        assert {kind for kind, _ in members} <= TYPES | known, name


@pytest.mark.parametrize("header", HEADERS)
def test_host_and_device_agree(opencl_handle, header, tmp_path):
    """Of what the host's C compiler and the device's compiler make of a header."""
    if opencl_handle.device.info.cuda >= 0:
        pytest.skip("an OpenCL device compiles for CUDA: this is its test")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    wanted = places(structs(header))
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    source.write_text("\n".join((
        "#include <stddef.h>", "#include <stdio.h>", f'#include "{header}"', "#define OFFSET offsetof",
        "int main(void) {", *(f'printf("%d\\n", (int)({text}));' for text in wanted), "return 0; }")), encoding="utf-8")
    subprocess.run([compiler, "-I", KERNELS, source, "-o", program], check=True)
    host = [int(line) for line in subprocess.run([program], capture_output=True, check=True).stdout.split()]

    queue = opencl_handle.queue
    text = "\n".join((
        programs.source(header), "#define OFFSET(type, member) ((char *)&((type *)0)->member - (char *)0)",
        "__kernel void sizes(__global int *to) {",
        *(f"to[{i}] = (int)({text});" for i, text in enumerate(wanted)), "}"))
    device = np.full(len(wanted), -1, np.int32)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=device)
    cl.Kernel(cl.Program(queue.context, text).build(["-cl-std=CL1.2"]), "sizes")(queue, (1,), None, buffer)
    cl.enqueue_copy(queue, device, buffer)
    assert dict(zip(wanted, host, strict=True)) == dict(zip(wanted, device.tolist(), strict=True))
