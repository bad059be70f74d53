"""Writes what the documents say of the code: docs/coverage.md, docs/environment.md, the table of floors in
docs/architecture.md and that of functions in README.md.

    python tests/coverage_table.py        (needs the package installed)
"""

from __future__ import annotations

from pathlib import Path

import floors

import miopyx
from miopyx.solvers import registry
from miopyx.values import config

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).parent / "data" / "porting_guide.txt"
HEADER = Path(__file__).parent / "data" / "miopen_h.txt"
BEGIN, END = "<!-- functions: written by tests/coverage_table.py -->", "<!-- end of functions -->"
WORDS = ("forward", "backward data", "backward weights")


def functions(file: Path = LIST) -> dict[str, list[str]]:
    """Return the function names of a list, MIOpen's porting guide, by group."""
    groups: dict[str, list[str]] = {}
    names: list[str] = []
    for line in file.read_text().splitlines():
        if line.startswith("["):
            names = groups.setdefault(line.strip("[]"), [])
        elif line.startswith("miopen"):
            names.append(line.split()[0])
    return groups


def by_group(groups: dict[str, list[str]]) -> list[str]:
    """Return a table of how many functions of each group are here, and which are not."""
    lines = ["| group | functions | here | missing |", "| --- | --- | --- | --- |"]
    for group, names in groups.items():
        here = [n for n in names if hasattr(miopyx, n)]
        missing = ", ".join(n.removeprefix("miopen") for n in names if n not in here) if here else "all"
        lines.append(f"| {group} | {len(names)} | {len(here)} | {missing if len(here) < len(names) else ''} |")
    return lines


def coverage() -> str:
    """Return docs/coverage.md."""
    header = functions(HEADER)
    listed = {name for groups in (functions(), header) for names in groups.values() for name in names}
    there = [name for names in header.values() for name in names]
    lines = ["# Coverage", "", "<!-- Written by tests/coverage_table.py. -->", "",
             "## Functions", "", "Functions of MIOpen's porting guide and convolution page:", "",
             *by_group(functions()), "",
             f"{sum(hasattr(miopyx, name) for name in there)} of the {len(there)} functions that miopen.h exported in "
             "October 2024:", "", *by_group(header)]
    beyond = sorted(n for n in miopyx.__all__ if n.startswith("miopen") and callable(getattr(miopyx, n))
                    and not n.endswith("_t") and n not in listed)
    lines += ["", "Beyond them: " + ", ".join(f"`{n}`" for n in beyond) + ".", "",
              "## Convolution solvers", "",
              "[Which solver wins where](solvers.md) compares the families. The order is the registry's. "
              "OpenCL stands for CUDA's driver, too."]
    for direction, word in enumerate(WORDS):
        lines += ["", f"### {word.capitalize()}", "", "| solver | id | runs on | what |", "| --- | --- | --- | --- |"]
        for solver in registry.CONV:
            if solver.direction == direction:
                where = "host" if solver.on_host else "OpenCL"
                lines.append(f"| {solver.name} | {solver.id} | {where} | "
                             f"{(type(solver).__doc__ or '').strip().splitlines()[0]} |")
    lines += ["", "## The other operations", "", "Each takes the first of its solvers that applies:", "",
              "| operation | solvers |", "| --- | --- |"]
    for name, solvers in registry.OTHERS.items():
        lines.append(f"| {name.removesuffix('Problem')} | {', '.join(f'{s.name} ({s.id})' for s in solvers)} |")
    return "\n".join(lines) + "\n"


def with_functions(text: str) -> str:
    """Return README.md's text with how many of the header's functions are here, by group, two groups a row."""
    groups = functions(HEADER)
    cells = [f"| {group} | {sum(hasattr(miopyx, n) for n in names)} of {len(names)} "
             for group, names in groups.items()]
    cells += ["| | "] * (len(cells) % 2)
    here = sum(hasattr(miopyx, n) for names in groups.values() for n in names)
    rows = [f"{a}{b}|" for a, b in zip(cells[::2], cells[1::2], strict=True)]
    said = f"{here} of the {sum(map(len, groups.values()))} functions that miopen.h exported in October 2024:"
    table = "\n".join([said, "",
                       "| group | functions | group | functions |", "| --- | --- | --- | --- |", *rows])
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}"


def environment_table() -> str:
    lines = ["# Environment variables", "", "Read when first needed and kept for the life of the process.", "",
             "| variable | default | meaning |", "| --- | --- | --- |"]
    for v in config.VARIABLES.values():
        lines.append(f"| `{v.name}` | {v.default} | {v.meaning} |")
    lines += [
        "", "miopyx also sets variables for the OpenCL runtimes, if they are not set, before it first asks for",
        "platforms: `POCL_AFFINITY=1` where the process may use every core (PoCL's workers otherwise share one now and",
        'then); `POCL_DEVICES="basic pthread"` where PoCL is 3.1 or older and has these two drivers alone, so that it',
        "shows its device that runs in the calling thread, too, first in its platform's list (0.5 us a launch,",
        "for one core and small problems); and `OCL_ICD_VENDORS` or `OCL_ICD_FILENAMES` where an installed runtime is",
        "named by no .icd file.", "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs" / "coverage.md").write_text(coverage())
    (ROOT / "docs" / "environment.md").write_text(environment_table())
    architecture = ROOT / "docs" / "architecture.md"
    architecture.write_text(floors.written(architecture.read_text()))
    readme = ROOT / "README.md"
    readme.write_text(with_functions(readme.read_text()))
