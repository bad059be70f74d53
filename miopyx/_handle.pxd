"""Handles: a device, its queue, and all that was prepared for it."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._buffers cimport binding_t
from ._core cimport Device
from ._lock cimport mx_lock
from ._problem cimport Problem

cdef struct entry_t:
    uint64_t hash
    int64_t what
    PyObject* problem    # owned, as is the value
    PyObject* value

cdef struct memo_t:
    uint64_t a, b, c, d  # stamps of descriptors
    int64_t what         # with the caller's direction, which the table's problems have in them
    PyObject* value      # the table's


cdef class Handle:
    cdef readonly Device device
    cdef readonly object queue           # pyopencl CommandQueue, None on the host
    cdef readonly dict found             # problem bytes -> what Find measured
    cdef readonly bint profiling
    cdef readonly double kernel_time     # ms of the last call while profiling was on
    cdef void* queue_ptr
    cdef bint alive, queue_profiles
    cdef long long born                  # fork generation
    cdef dict programs
    cdef entry_t* table                  # open addressing over a power of two, at most half full
    cdef size_t table_mask, table_count
    cdef memo_t* memo                    # pairs, over a power of two
    cdef size_t memo_mask, memo_lost
    cdef void* arena
    cdef int64_t arena_size
    cdef uint64_t arena_serial
    cdef mx_lock lock
    cdef object __weakref__

    cdef int require_alive(self) except -1
    cdef object lookup(self, const void* data, size_t size, int64_t what)
    cdef int keep(self, Problem problem, int64_t what, object value) except -1
    cdef object remember(self, uint64_t a, uint64_t b, uint64_t c, uint64_t d, int direction, int64_t what,
                         const void* data, size_t size)
    cdef entry_t* _place(self, const void* data, size_t size, int64_t what, uint64_t h) noexcept
    cdef int _grow_table(self) except -1
    cdef int _clear(self) except -1
    cdef int _grow_memo(self) except -1
    cdef int _forget_memo(self) noexcept
    cdef int drop_arena(self) noexcept
    cdef int bind_arena(self, int64_t need, binding_t* out) except -1


cdef inline size_t memo_index(uint64_t a, uint64_t b, uint64_t c, uint64_t d, int64_t what) noexcept:
    return (a * 0x9E3779B97F4A7C15ULL ^ b * 0xD6E8FEB86659FD93ULL ^ c * 0xA4093822299F31D1ULL
            ^ d * 0xC2B2AE3D27D4EB4FULL ^ <uint64_t> what * 0x165667B19E3779F9ULL) >> 32


cdef inline object recall(Handle handle, uint64_t a, uint64_t b, uint64_t c, uint64_t d, int direction, int64_t what):
    """Return what was remembered for a call with descriptors of these stamps, or None."""
    cdef memo_t* m
    cdef int i
    what = 4 * what + direction
    if handle.memo != NULL:
        m = &handle.memo[2 * (memo_index(a, b, c, d, what) & handle.memo_mask)]
        for i in range(2):
            if m[i].a == a and m[i].b == b and m[i].c == c and m[i].d == d and m[i].what == what:
                return <object> m[i].value if m[i].value != NULL else None
    return None
