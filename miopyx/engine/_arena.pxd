"""The memory that a handle's calls work in."""

from libc.stdint cimport int64_t

from miopyx.runtime._buffers cimport binding_t
from miopyx.runtime._runtime cimport place_t, runtime_t


cdef class Arena:
    cdef binding_t binding
    cdef const runtime_t* rt
    cdef object memory                   # what the allocator returned
    cdef object deallocator, context     # None: the memory is ours
    cdef long long born                  # fork generation


cdef Arena make_arena(int64_t size, const place_t* place, object allocator, object deallocator,
                      object allocator_context)
