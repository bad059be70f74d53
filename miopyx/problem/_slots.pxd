"""Problems that are tensors in slots, flags and numbers: what the operations made of them have in common."""

from libc.stdint cimport int64_t

from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_slots_problem, mx_tensor


cdef class SlotsProblem(Problem):
    cdef mx_slots_problem c
    cdef list names                      # of the slots, for messages

    cdef int take(self, int slot, object desc, str name, bint written=*) except -1
    cdef int require_type(self, int slot, tuple types, str limit) except -1
    cdef int require_alike(self, int slot, int other) except -1
    cdef int require_lens(self, int slot, tuple lens, str whose) except -1
    cpdef tuple lens(self, int slot)


cdef bint given(const mx_slots_problem* p, int slot) noexcept nogil
cdef int64_t elements_of(const mx_tensor* t) noexcept nogil
cdef mx_tensor align_right(const mx_slots_problem* p, int slot) noexcept nogil
