"""What is known of the solvers that can run a problem, and in what order to try them."""

from libc.stdint cimport int64_t

from miopyx._core cimport Offer, Solver
from ._survey cimport Survey


cdef class Candidate:
    cdef readonly Offer offer
    cdef readonly Solver solver        # the offer's
    cdef readonly double time          # milliseconds
    cdef readonly int64_t workspace    # bytes, the offer's
    cdef readonly str source           # "found" (by this handle), "user", "system", "model", "costs", "index", "forced"
    cdef readonly bint measured        # found, or from a database
    cdef readonly bint predicted       # a time by a model or a cost table
    cdef object model                  # the Model that predicted it, else None

    cdef tuple _all(self)


cdef class FindRecord:
    cdef readonly list candidates      # fastest first
    cdef readonly list skipped         # Refusals
    cdef readonly list failed          # solvers
    cdef readonly bint partial, current


cdef list best_first(Survey survey)
