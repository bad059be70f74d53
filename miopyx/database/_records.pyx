"""Reading find-db records: in C, since immediate mode does it for each problem that a handle first meets."""

from collections import Counter

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.math cimport isinf
from libc.string cimport memchr, memcmp

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, void* overflow) except? -1

cdef enum:
    ALGORITHM_NAMES = 15
    WORKSPACE_DIGITS = 18  # more need not fit 64 bits

# Algorithms as records name them: direction (0 forward, 1 backward data, 2 weights) and miopenConvAlgorithm_t.
ALGORITHMS = {
    b"miopenConvolution%bAlgo%b" % (word, name): (direction, algorithm)
    for direction, word in enumerate((b"Fwd", b"BwdData", b"BwdWeights"))
    for name, algorithm in ((b"GEMM", 0), (b"Direct", 1), (b"FFT", 2), (b"Winograd", 3), (b"ImplicitGEMM", 5))
    if (word, name) != (b"BwdWeights", b"FFT")
}
ALGORITHM_NAME = {value: name for name, value in ALGORITHMS.items()}
ALGORITHMS[b"miopenTransposeBwdDataAlgoGEMM"] = (1, 0)  # read, never written


cdef class FindItem:
    """One solver of a find-db record.

    Parameters
    ----------
    solver : str
    time : float
        Milliseconds.
    workspace : int
        Bytes.
    direction : int
        Of the algorithm's name: 0 forward, 1 backward data, 2 backward weights.
    algorithm : int
        miopenConvAlgorithm_t.
    """

    def __init__(self, str solver not None, double time, int64_t workspace, int direction, int algorithm):
        self.solver, self.time, self.workspace = solver, time, workspace
        self.direction, self.algorithm = direction, algorithm

    cdef tuple _all(self):
        return self.solver, self.time, self.workspace, self.direction, self.algorithm

    def __eq__(self, other):
        return self._all() == (<FindItem> other)._all() if isinstance(other, FindItem) else NotImplemented

    def __hash__(self):
        return hash(self._all())

    def __repr__(self):
        return f"FindItem{self._all()}"


cdef class FindRecord:
    """A find-db record as `read_find` read it."""

    @property
    def skipped(self):
        """How many items could not be read, by reason."""
        return Counter(self._skipped)


# A part of the text that is read.  Behind it stands another byte of the text, or the zero that ends all bytes.
cdef struct part_t:
    const char* at
    Py_ssize_t size

cdef struct algorithm_t:
    part_t name
    int direction, algorithm

cdef algorithm_t[ALGORITHM_NAMES] algorithms
cdef tuple algorithm_names = tuple(ALGORITHMS)  # holds what `algorithms` points at


def _fill_algorithms():
    cdef int i
    cdef bytes name
    assert len(algorithm_names) == ALGORITHM_NAMES
    for i, name in enumerate(algorithm_names):
        algorithms[i].name = part_t(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        algorithms[i].direction, algorithms[i].algorithm = ALGORITHMS[name]


_fill_algorithms()
del _fill_algorithms


cdef bint _same(part_t a, part_t b) noexcept:
    return a.size == b.size and memcmp(a.at, b.at, a.size) == 0


cdef part_t _cut(part_t* rest, char mark) noexcept:
    """Return what stands before the next mark, and leave what stands behind it: a size of -1 if there is none."""
    cdef part_t first = rest[0]
    cdef const char* found = <const char*> memchr(rest.at, mark, rest.size)
    if found == NULL:
        rest.size = -1
    else:
        first.size = found - first.at
        rest.at, rest.size = found + 1, rest.size - first.size - 1
    return first


cdef str _text(part_t part):
    return PyUnicode_DecodeUTF8(<char*> part.at, part.size, "replace")


cdef const algorithm_t* _algorithm(part_t name) noexcept:
    """The algorithm of that name, or NULL."""
    cdef int i
    for i in range(ALGORITHM_NAMES):
        if _same(name, algorithms[i].name):
            return &algorithms[i]
    return NULL


cdef Py_ssize_t _digits(part_t part) noexcept:
    """How many digits a text begins with."""
    cdef Py_ssize_t count = 0
    while count < part.size and c"0" <= part.at[count] <= c"9":
        count += 1
    return count


cdef void _skip(part_t* part, Py_ssize_t count) noexcept:
    part.at, part.size = part.at + count, part.size - count


cdef bint _begins(part_t part, char one, char other) noexcept:
    return part.size > 0 and (part.at[0] == one or part.at[0] == other)


cdef bint _is_decimal(part_t part) noexcept:
    """Whether a text is a number: digits, with a sign, a fraction and an exponent or without."""
    cdef Py_ssize_t whole, fraction = 0
    if _begins(part, c"+", c"-"):
        _skip(&part, 1)
    whole = _digits(part)
    _skip(&part, whole)
    if _begins(part, c".", c"."):
        _skip(&part, 1)
        fraction = _digits(part)
        _skip(&part, fraction)
    if whole + fraction == 0:
        return False
    if _begins(part, c"e", c"E"):
        _skip(&part, 1)
        if _begins(part, c"+", c"-"):
            _skip(&part, 1)
        return part.size > 0 and _digits(part) == part.size
    return part.size == 0


cdef bint _is_special(part_t part) noexcept:
    """Whether a text says inf or nan."""
    if _begins(part, c"+", c"-"):
        _skip(&part, 1)
    return part.size == 3 and part.at[:3].lower() in (b"inf", b"nan")


cdef str _add(dict found, part_t solver, part_t time, part_t workspace, const algorithm_t* algorithm):
    """Add an item, or return why not."""
    cdef double milliseconds = 0
    cdef int64_t size = 0
    cdef char* end
    cdef Py_ssize_t i
    cdef FindItem item
    if algorithm == NULL:
        return "unknown algorithm"
    if _is_decimal(time):
        milliseconds = PyOS_string_to_double(time.at, &end, NULL)
    elif not _is_special(time):
        return "time is no number"
    if not milliseconds > 0 or isinf(milliseconds):
        return "time is not above zero"
    if not 0 < workspace.size <= WORKSPACE_DIGITS or _digits(workspace) < workspace.size:
        return "workspace is no number of bytes"
    for i in range(workspace.size):
        size = 10 * size + (workspace.at[i] - c"0")
    if solver.size == 0:
        return "no solver"
    name = _text(solver)
    if name in found:
        return "solver stands twice"
    item = FindItem.__new__(FindItem)
    item.solver, item.time, item.workspace = name, milliseconds, size
    item.direction, item.algorithm = algorithm.direction, algorithm.algorithm
    found[name] = item
    return None


cdef str _read_item(dict found, part_t name, part_t values):
    """Add an item of MIOpen's new form, or its legacy one, whose id is the algorithm; or return why not."""
    cdef const algorithm_t* algorithm = _algorithm(name)
    cdef bint legacy = algorithm != NULL
    cdef part_t[4] value
    cdef int count = 0
    while values.size >= 0 and count < 4:
        value[count] = _cut(&values, c",")
        count += 1
    if count < 3 or count > 3 and not legacy:
        return "number of values"
    if legacy:
        # A name that the new form, in which all are written, would read as something else.
        if memchr(value[0].at, c":", value[0].size) != NULL or _algorithm(value[0]) != NULL:
            return "no name of a solver"
        return _add(found, value[0], value[1], value[2], algorithm)
    return _add(found, name, value[0], value[1], _algorithm(value[2]))


def read_find(bytes items not None):
    """Read the items of a find-db record, in MIOpen's new form, its legacy form, or both at once.

    Where an id stands twice the first counts.  A time that is not above zero says nothing and is left out: old files
    have zeros where MIOpen cut times below a millisecond.
    """
    cdef dict found = {}
    cdef FindRecord record = FindRecord.__new__(FindRecord)
    cdef part_t rest = part_t(PyBytes_AS_STRING(items), PyBytes_GET_SIZE(items)), values, name
    cdef str reason
    record.stamp, record.failed, record._skipped = "", [], []
    if rest.size == 0:
        rest.size = -1
    while rest.size >= 0:
        values = _cut(&rest, c";")
        name = _cut(&values, c":")
        reason = None
        if values.size >= 0:
            reason = _read_item(found, name, values)
        elif _begins(name, c"@", c"@"):
            _skip(&name, 1)
            record.stamp = _text(name)
        elif _begins(name, c"!", c"!"):
            _skip(&name, 1)
            record.failed.append(_text(name))
        elif name.size == 7 and memcmp(name.at, b"partial", 7) == 0:
            record.partial = True
        else:
            reason = "no colon"
        if reason is not None:
            record._skipped.append(reason)
    record.items = list(found.values())
    return record
