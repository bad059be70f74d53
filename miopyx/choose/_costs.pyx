"""Predicted times: what a solver counts of a problem, by the cost table of the device's family.

A table is a text file, `<family>.costs.txt` or `<family>.<card>.costs.txt`, which `miopyx costs` makes of
measurements::

    miopyx costs 1
    device nv-sm90_132, driver 580.159.04, kernels 0_1_0_cc857e15, 2345 problems
    NvPairsWrw 32 0.032 361 launch=3.92 rounds=7.93 slices=2.7 parts=1.29 x=0.0952
    ...
    #1a2b3c4d

One line for a solver and the bits of a number of w, or 0 for all of them together: the spread of the logarithm of
predicted by measured times, how many times it was fitted to, and microseconds of each thing that the solver counts
(`cost_terms`).  The last line is a CRC-32 of all before.  The user's folder of databases comes before the system's.
"""

from libc.string cimport memset

from miopyx._core cimport Device, Offer, Solver
from miopyx.problem._descriptors cimport type_size
from miopyx.solvers.conv._base cimport MOST_TERMS, ConvOffer, ConvSolver

from collections import namedtuple
from math import isfinite

from miopyx.database import paths, tables
from miopyx.errors import InvalidValueError
from miopyx.solvers import registry

KIND, VERSION = "costs", 1
ANY_BITS = 0  # of a line for the types that have none of their own
BITS = (ANY_BITS, 8, 16, 32, 64)

Line = namedtuple("Line", ("solver", "bits", "spread", "fitted", "costs"))


cdef class _Row:
    """A solver's costs of one type."""


cdef inline int _row_key(Solver solver, int bits) noexcept:
    return solver.id * 64 + bits // 8


cdef class CostTable:
    """Microseconds of what solvers count.

    Parameters
    ----------
    lines : iterable of Line
        Those of unknown solvers, or with names that a solver does not count, are left out: it has changed since.
    about, path : str
        Where the times come from, and the file.
    """

    def __init__(self, lines, str about not None="", str path not None=""):
        cdef _Row row
        cdef int i
        self.path, self.about, self.rows = path, about, {}
        for line in lines:
            solver = registry.BY_NAME.get(line.solver)
            if not isinstance(solver, ConvSolver) or not set(line.costs) <= set(solver.cost_names):
                continue
            row = _Row()
            row.spread = line.spread
            for i, name in enumerate(solver.cost_names):
                row.costs[i] = line.costs.get(name, 0)
            self.rows[_row_key(solver, line.bits)] = row
        # Looked up once a solver: a line for any type stands for each.
        for key, row in [*self.rows.items()]:
            if key % 64 == ANY_BITS:
                for i in (1, 2, 4, 8):
                    self.rows.setdefault(key + i, row)

    cdef _Row row(self, Offer offer):
        if not isinstance(offer, ConvOffer):
            return None
        return self.rows.get(_row_key(offer.solver, 8 * type_size(<int> (<ConvOffer> offer).p.w.type)))

    cdef double time(self, Offer offer) except? -2:
        """Return the microseconds of an offer, -1 where the table does not know them."""
        cdef double[MOST_TERMS] terms
        return self.time_of(offer, terms)

    cdef double time_of(self, Offer offer, double* terms) except? -2:
        """Do what `time` does, and fill in what the solver counts."""
        cdef _Row row = self.row(offer)
        cdef double time = 0
        cdef int i
        if row is None:
            return -1
        memset(terms, 0, MOST_TERMS * sizeof(double))
        (<ConvOffer> offer).cost_terms(terms)
        for i in range(MOST_TERMS):
            time += row.costs[i] * terms[i]
        return time

    def predict(self, Offer offer not None):
        """Return the microseconds that an offer should take, None where nothing is known."""
        time = self.time(offer)
        return None if time < 0 else time

    cdef double spread_of(self, Offer offer) except? -2:
        cdef _Row row = self.row(offer)
        return -1 if row is None else row.spread

    def spread(self, Offer offer not None):
        """Return how far predictions were off, as the spread of the times' logarithm; None where nothing is known."""
        spread = self.spread_of(offer)
        return None if spread < 0 else spread


def text_of(line):
    """Return the words of a line."""
    costs = [f"{name}={value:.6g}" for name, value in line.costs.items() if value]
    return " ".join([line.solver, str(line.bits), f"{line.spread:.3g}", str(line.fitted), *costs])


def line_of(words):
    """Return the line of some words, or raise ValueError."""
    solver, bits, spread, fitted, *costs = words
    pairs = [cost.split("=") for cost in costs if cost]
    line = Line(solver, int(bits), float(spread), int(fitted), {name: float(value) for name, value in pairs})
    if line.bits not in BITS:
        raise ValueError(f"no number of {solver} has {bits[:20]} bits")
    if not all([isfinite(value) and value >= 0 for value in (line.spread, *line.costs.values())]):
        raise ValueError(f"a cost of {solver} is no number")
    return line


def file_names(info):
    """Return the names of a device's files: its card's, its family's."""
    return tables.file_names(info, KIND)


def write(path, about, lines):
    """Write a table."""
    tables.write(path, KIND, VERSION, about, [text_of(line) for line in lines])


def read(path):
    """Read a table.

    Raises
    ------
    OSError
    InvalidValueError
        For a file that is none, has another version or was changed.
    """
    try:
        about, lines = tables.read(path, KIND, VERSION)
        return CostTable([line_of(text.split(" ")) for text in lines], about, str(path))
    except ValueError as e:
        raise InvalidValueError(f"no cost table: {e}", "path", str(path), f"a file of version {VERSION}") from None


cdef dict _tables = {}


cdef CostTable table_of(Device device):
    """The table of a device's card or family, None where there is none that can be read."""
    cdef tuple name = (device.info.name, device.info.device_name)
    found = _tables.get(name, _tables)
    if found is _tables:
        found = _tables[name] = _load(device.info)
    return found


cdef CostTable _load(info):
    cdef CostTable first, other
    # What a user measured comes before what ships.
    for folder in (paths.user_folder(), paths.system_folder()):
        if folder is not None:
            found = [*tables.readable([folder / name for name in file_names(info)], KIND, read)]
            if found:
                first = found[0]
                for other in found[1:]:  # solvers that were not measured on the card
                    first.rows = {**other.rows, **first.rows}
                return first
    return None


def of(Device device not None):
    """Return the table of a device's card or family, read once a process; None where there is none that can be read."""
    return table_of(device)


def forget():
    """Let the next `of` look again."""
    _tables.clear()
