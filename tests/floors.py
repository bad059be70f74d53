"""The floors of the package, from the ground up: one list for tests/test_layers.py and for docs/architecture.md.

A module may import from its own floor and from those below; there are no circles on a floor.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parents[1] / "miopyx"
BEGIN, END = "<!-- floors: written by tests/coverage_table.py from tests/floors.py -->", "<!-- end of floors -->"


class Floor(NamedTuple):
    names: frozenset[str]  # folders and modules at the top of the package; "" is miopyx itself
    holds: str


def _floor(names: str, holds: str) -> Floor:
    return Floor(frozenset(names.split(",")), holds)


FLOORS = (
    _floor("enums,errors", "the enumerations of miopen.h; an exception for each status"),
    _floor("values", "settings, logs, digests, C types, reading of arguments"),
    _floor("problem", "descriptors; what is asked, as a plain struct, and the text that databases know it by; tensors "
           "walked together"),
    _floor("host", "the host path: structs and pointers in, numbers out; inner loops in C for each instruction set"),
    _floor("device", "finding, probing and ranking devices; the only importer of pyopencl"),
    _floor("runtime", "OpenCL entry points, buffers reduced to addresses and sizes, programs and their cache"),
    _floor("database", "find-db and perf-db: records, the system's files, the user's, where they are; rates of "
           "a family of devices"),
    _floor("_core", "the contract: a device's facts, solvers, solutions as data"),
    _floor("engine", "what a repeated call touches: handles, invokers, plans, the workspace that a handle manages"),
    _floor("solvers", "one module a family with its three directions, one for each other operation; the registry"),
    _floor("choose", "what can run, what is known, in which order: find, ranking, tuning, compiling ahead, explaining"),
    _floor("api", "miopen.h's names and argument order, one module an operation; the log of calls"),
    _floor("functional", "operations on arrays, one call each"),
    _floor("", "what `import miopyx` shows"),
    _floor("tools", "the programs: `miopyx`, `miopyx db`, `miopyx tune`, `miopyx-driver`; the backend for ONNX models"),
    _floor("torch", "PyTorch's operators on ours; beside `tools/tune`, which reads exported models, the only "
           "importer of PyTorch"),
    _floor("onnx,__main__", "names that lead to tools"),
)


def _modules(name: str) -> str:
    """Return what stands in a folder, one name a module."""
    folder = SOURCES / name
    if not name or not folder.is_dir():
        return ""
    inside = {path.stem for path in folder.glob("*.py*") if path.suffix in (".py", ".pyx", ".pxd")} - {"__init__"}
    inside |= {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and any(path.glob("*.py*"))}
    return ", ".join(f"`{one}`" for one in sorted(inside, key=lambda one: (one.lstrip("_"), one)))


def table() -> str:
    """Return the table of floors, the top one first."""
    lines = ["| floor | what it holds | modules |", "| --- | --- | --- |"]
    for floor in reversed(FLOORS):
        names = sorted(floor.names)
        folders = ", ".join(f"`{name}/`" if (SOURCES / name).is_dir() and name else f"`{name or 'miopyx'}`"
                            for name in names)
        lines.append(f"| {folders} | {floor.holds} | {'; '.join(filter(None, map(_modules, names)))} |")
    return "\n".join(lines)


def written(text: str) -> str:
    """Return a page with a fresh table between its marks."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"
