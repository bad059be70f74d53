"""Concatenation: its problem."""

from libc.stdint cimport int64_t

from ._descriptors cimport type_size
from ._slots cimport SlotsProblem, elements_of
from miopyx.values._types cimport MX_AXES, MX_CAT

from miopyx.errors import BadParmError, MIOpenNotImplementedError


cdef class CatProblem(SlotsProblem):
    """y = the tensors of `xs` one behind the other along axis `dim`; y is the last slot.

    Raises
    ------
    BadParmError
        Where types or lengths do not fit each other, or y has no axis `dim`.
    MIOpenNotImplementedError
        For more than five dimensions.
    """

    def __init__(self, int64_t dim, xs, y):
        cdef int slot = 0, i, axis, rank, last = len(xs)
        cdef int64_t length = 0
        for desc in xs:
            self.take(slot, desc, f"xDescs[{slot}]")
            slot += 1
        self.take(last, y, "yDesc", True)
        rank = <int> self.c.rank[last]
        if dim < 0 or dim >= rank:
            raise BadParmError("axis of a concatenation", "dim", dim, f"0 ... {rank - 1}")
        if type_size(<int> self.c.t[last].type) not in (1, 2, 4, 8):
            raise MIOpenNotImplementedError("data type", "yDesc", y.dtype, "1, 2, 4 or 8 bytes an element")
        axis = <int> dim if dim < 2 else MX_AXES - rank + <int> dim
        for i in range(last):
            if self.c.t[i].type != self.c.t[last].type:
                raise BadParmError("type differs from yDesc's", f"xDescs[{i}]", xs[i].dtype, y.dtype)
            if self.c.rank[i] != rank:
                raise BadParmError("rank differs from yDesc's", f"xDescs[{i}]", self.c.rank[i], rank)
            for other in range(MX_AXES):
                if other != axis and self.c.t[i].len[<int> other] != self.c.t[last].len[<int> other]:
                    raise BadParmError("lengths differ from yDesc's", f"xDescs[{i}]", self.lens(i), self.lens(last))
            length += self.c.t[i].len[axis]
        if length != self.c.t[last].len[axis]:
            raise BadParmError("lengths along dim do not add up to yDesc's", "yDesc", self.c.t[last].len[axis], length)
        self.c.what, self.c.number[0], self.output = MX_CAT, axis, last

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[self.output]) == 0
