"""Handles: a device, its queue, and all that was prepared for it."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._arena cimport Arena
from miopyx._core cimport Device
from miopyx.values._guard cimport mx_guard, mx_guard_lock, mx_guard_unlock
from miopyx.values._lock cimport mx_lock
from miopyx.problem._problem cimport Problem
from miopyx.runtime._runtime cimport runtime_t

cdef struct entry_t:
    uint64_t hash
    int64_t what
    PyObject* problem    # owned, as is the value
    PyObject* value

cdef enum:
    STAMPS = 16          # descriptors of a call, at most
    OPERATION = -2000    # in a handle's table: problems say themselves which operation they are
    PREPARED_KEPT = 2048   # operations and solvers' invokers, at most

cdef class Kept:
    cdef uint64_t turn   # of the handle, when it was used last

cdef struct memo_t:
    uint64_t stamp[STAMPS]  # of descriptors
    int64_t call         # which function asked, and all that is not in a descriptor
    PyObject* value      # the table's


cdef class Handle:
    cdef readonly Device device
    cdef object own_queue                # pyopencl CommandQueue or CUDA Stream, None on the host
    cdef readonly dict found             # problem bytes -> what Find measured
    cdef readonly bint profiling
    cdef bint allows_rounding            # see math_type
    cdef int64_t math_changes            # how often that was set
    cdef readonly double kernel_time     # ms of the last call while profiling was on
    cdef void* queue_ptr
    cdef dict streams                    # of CUDA, by their addresses: those that `turn_to` met
    cdef const runtime_t* rt
    cdef bint alive, queue_profiles
    cdef long long born                  # fork generation
    cdef dict programs
    cdef dict calls                      # what calls on arrays keep for their next time, see functional/
    cdef entry_t* table                  # open addressing over a power of two, at most half full
    cdef size_t table_mask, table_count
    cdef size_t prepared                 # of the table's entries those that may be dropped
    cdef uint64_t turn                   # how many of these were kept so far
    cdef memo_t* memo                    # pairs, over a power of two
    cdef size_t memo_mask, memo_lost
    cdef Arena arena                     # None until a call needs workspace
    cdef tuple allocator                 # the user's allocator, deallocator and their context, None for OpenCL's
    cdef mx_lock lock
    # Of the table, the memo, and objects that are replaced while others take them.  Whoever holds `lock` may take it,
    # not the other way round.
    cdef mx_guard guard
    cdef list left                       # devices that it moved away from: without the GIL others may be using them
    cdef object __weakref__

    cdef int require_alive(self) except -1
    cdef bint is_usable(self)
    cdef object lookup(self, const void* data, size_t size, int64_t what)
    cdef int keep(self, Problem problem, int64_t what, object value) except -1
    cdef object remember(self, const uint64_t* stamp, int count, int64_t call, int64_t what, const void* data,
                         size_t size)
    cdef entry_t* _place(self, const void* data, size_t size, int64_t what, uint64_t h) noexcept
    cdef int _keep(self, Problem problem, int64_t what, object value, uint64_t h, entry_t* before, entry_t** dropped,
                   size_t* count) noexcept
    cdef int _grow_table(self) noexcept
    cdef int _drop_prepared(self, entry_t** dropped, size_t* count) noexcept
    cdef object _used(self, tuple key)
    cdef int _clear(self) except -1
    cdef int _grow_memo(self) noexcept
    cdef int _forget_memo(self) noexcept
    cdef int turn_to(self, void* stream) except -1
    cdef int math(self) noexcept
    cdef object here(self)
    cdef int _take_queue(self, object queue, void* pointer, const runtime_t* rt) except -1
    cdef int drop_arena(self) except -1
    cdef int reserve_arena(self, int64_t need) except -1


cdef Handle check_handle(object handle)


cdef inline Handle as_handle(object handle):
    """`handle` where it is a live handle, else the error that says what it is."""
    if isinstance(handle, Handle):
        (<Handle> handle).require_alive()
        return <Handle> handle
    return check_handle(handle)


cdef inline uint64_t memo_start(int64_t call) noexcept:
    return <uint64_t> call * 0x165667B19E3779F9ULL


cdef inline uint64_t memo_mix(uint64_t h, uint64_t stamp) noexcept:
    h = (h ^ stamp) * 0x9E3779B97F4A7C15ULL
    return h ^ h >> 29


cdef inline uint64_t memo_hash(const uint64_t* stamp, int count, int64_t call) noexcept:
    cdef uint64_t h = memo_start(call)
    cdef int i
    for i in range(count):
        h = memo_mix(h, stamp[i])
    return h


cdef inline object recall_by(Handle handle, uint64_t h, const uint64_t* stamp, int count, int64_t call):
    """`recall` for who knows the hash."""
    cdef memo_t* m
    cdef int i, j
    cdef object found = None
    mx_guard_lock(&handle.guard)
    if handle.memo != NULL:
        m = &handle.memo[2 * (h >> 32 & handle.memo_mask)]
        for i in range(2):
            if m[i].call == call and m[i].value != NULL:
                for j in range(count):
                    if m[i].stamp[j] != stamp[j]:
                        break
                else:
                    found = <object> m[i].value
                    break
    mx_guard_unlock(&handle.guard)
    return found


cdef inline object recall(Handle handle, const uint64_t* stamp, int count, int64_t call):
    """Return what was remembered for a call with descriptors of these stamps, or None.

    A call has always the same number of descriptors.
    """
    return recall_by(handle, memo_hash(stamp, count, call), stamp, count, call)
