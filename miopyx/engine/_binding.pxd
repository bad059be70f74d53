"""The memory that a call passes, and the slots of a problem that it is bound to."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from miopyx.problem._problem cimport Problem
from miopyx.runtime._buffers cimport binding_t, bound_t, layout_t
from miopyx.values._types cimport MX_SLOTS
from ._handle cimport Handle

cdef enum:
    OWN = -1             # as the size of a workspace: the handle's own
    SLOTS = MX_SLOTS + 1  # the workspace stands behind a problem's last slot

# One slot of an invoker.
cdef struct slot_t:
    int64_t need         # bytes that it must hold
    int width            # of the elements in which kernels count offsets, the widest
    layout_t layout      # of arrays, where the problem has a tensor for it
    bound_t bound[2]     # what the last two calls with different buffers passed
    int current          # which of the two the last call passed

# The memory that a call passes: `count` objects and the workspace behind them, if there is one; object i goes to slot
# order[i], nowhere where that is -1; names[i] is what the caller calls it.
cdef struct call_t:
    const int* order
    int count
    PyObject** data
    int64_t workspace_size


cdef bound_t* found_among(bound_t* bound, int* place, object data, str name, list kept) except? NULL
cdef int check_arguments(Handle handle, Problem problem, const call_t* call, tuple names) except -1
cdef int64_t workspace_bytes(object workspace_size, str name=*) except -1
cdef int release_temporaries(binding_t** slots, int count) noexcept
cdef int require_apart(Problem problem, const call_t* call, tuple names, binding_t** slots,
                       const slot_t* wanted) except -1
cdef int wait_and_sync(Handle handle, binding_t** slots, int count, int64_t written) except -1
