"""Find-db records as they are read."""

from libc.stdint cimport int64_t


cdef class FindItem:
    cdef readonly str solver
    cdef readonly double time          # milliseconds
    cdef readonly int64_t workspace    # bytes
    cdef readonly int direction        # of the algorithm's name: 0 forward, 1 backward data, 2 backward weights
    cdef readonly int algorithm        # miopenConvAlgorithm_t

    cdef tuple _all(self)


cdef class FindRecord:
    cdef readonly list items
    cdef readonly str stamp            # what made it, empty for a foreign record
    cdef readonly bint partial         # the search was restricted: solvers that apply may be missing
    cdef readonly list failed          # solvers that could not be built or run
    cdef list _skipped
