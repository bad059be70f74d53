"""Problems that PyTorch asked for, and who runs them."""

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.functional._functional cimport Call


cdef class Layer:
    cdef readonly bint ours
    cdef bint quiet              # PyTorch's idle threads sleep while it runs
    cdef readonly int64_t runs
    cdef readonly str what       # the problem
    cdef readonly str why        # why it is not ours, where that is no matter of time
    cdef readonly object times

    cdef str text(self, Call c)
    cdef int prepare(self, Call c) except -1
    cdef object compute(self, Call c)


cdef Call begin(int what, object first)
cdef Layer decide(Call c, Layer layer, object theirs)
cdef object run_ours(Call c, Layer layer)
cdef bint chosen(object w) except -1
cdef object theirs(str name, tuple args)
cdef int64_t settings(Call c) except -1
