"""What was measured of a device's family: times and rates by which a solver weighs its ways against each other.

A file is called `<family>.rates.txt`; `miopyx rates` makes one on a device::

    miopyx rates 1
    device nv-sm90_132, driver 580.159.04, 412 times, in microseconds
    NvRNN launch=3.5 step=0.17 memory_rate=84000 ...
    #1a2b3c4d

One line for a solver.  Its numbers are positive and in one unit of time, whichever: ways are compared with each other.
The user's folder of databases comes before the system's, and this before the package's: a solver without rates is left
out.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from miopyx.errors import InvalidValueError
from miopyx.values import logs

from . import paths, tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from miopyx.device.info import DeviceInfo

Rates = dict[str, dict[str, float]]  # of each solver, by name

KIND, VERSION = "rates", 1

_known: dict[str, list[Rates]] = {}


def write(path: Path, about: str, rates: Rates) -> None:
    """Write the rates of some solvers."""
    tables.write(path, KIND, VERSION, about, [
        " ".join([solver, *(f"{name}={value:.6g}" for name, value in line.items())]) for solver, line in rates.items()])


def read(path: Path) -> tuple[str, Rates]:
    """Return where a file's numbers come from, and the rates of each solver.

    Raises
    ------
    OSError
    InvalidValueError
        For a file that is none, has another version or was changed.
    """
    rates: Rates = {}
    try:
        about, lines = tables.read(path, KIND, VERSION)
        for line in lines:
            solver, *pairs = line.split(" ")
            rates[solver] = {name: float(value) for name, value in (pair.split("=") for pair in pairs)}
            if not all(isfinite(value) and value > 0 for value in rates[solver].values()):
                raise ValueError(f"a rate of {solver} is no positive number")
    except ValueError as e:
        raise InvalidValueError(f"no rates: {e}", "path", str(path), f"a file of version {VERSION}") from None
    return about, rates


def known(info: DeviceInfo, solver: str, names: Sequence[str]) -> dict[str, float] | None:
    """Return a solver's rates on a device, by name, None where no file has them.

    Files are read once a process.  A line without one of the names is of another version of the solver.
    """
    names_of_files = tables.file_names(info, KIND)
    lines = _known.get(names_of_files[0])
    if lines is None:
        folders = dict.fromkeys((paths.user_folder(), paths.system_folder(), paths.PACKAGE / "db"))
        lines = _known[names_of_files[0]] = [rates for _, rates in tables.readable(
            [folder / name for folder in folders if folder is not None for name in names_of_files], KIND, read)]
    for rates in lines:
        line = rates.get(solver, {})
        if line.keys() >= set(names):
            return {name: line[name] for name in names}
    return None


def of(info: DeviceInfo, solver: str, names: Sequence[str]) -> dict[str, float] | None:
    """Return what `known` does, for a solver that is left out where that is None: it warns once."""
    found = known(info, solver, names)
    if found is None:
        family = tables.family(info)
        logs.warn_once((KIND, family, solver), "%s is left out: no file has its rates on %s; `miopyx rates` makes one",
                       solver, family, function=KIND)
    return found


def forget() -> None:
    """Let the next `of` read the files again."""
    _known.clear()
