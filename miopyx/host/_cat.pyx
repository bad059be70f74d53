# cython: cdivision=True
"""Concatenation on the host: a copy for each tensor."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.problem._descriptors cimport type_size
from miopyx.problem._slots cimport elements_of, given
from miopyx.problem._tensor_ops cimport TENSOR_A, TENSOR_C, TENSOR_COPY
from miopyx.values._types cimport MX_SCALARS, MX_TRANSFORM_TENSOR, mx_slots_problem, mx_tensor_problem
from ._tensor_ops cimport host_tensor


cdef int host_cat(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef mx_tensor_problem copy
    cdef double ones[MX_SCALARS]
    cdef void* memory[4]
    cdef int last = 0, i, status = 0, axis = <int> p.number[0]
    cdef int64_t place = 0
    while last + 1 < 16 and given(p, last + 1):
        last += 1
    memset(&copy, 0, sizeof(copy))
    memset(memory, 0, sizeof(memory))
    memset(ones, 0, sizeof(ones))
    ones[0] = 1
    copy.what, copy.flags = MX_TRANSFORM_TENSOR, TENSOR_COPY
    for i in range(last):
        copy.a, copy.c = p.t[i], p.t[last]
        copy.c.len[axis] = p.t[i].len[axis]
        memory[<int> TENSOR_A] = slots[i]
        memory[<int> TENSOR_C] = <char*> slots[last] + place * p.t[last].stride[axis] * type_size(<int> copy.c.type)
        place += copy.a.len[axis]
        if elements_of(&copy.a) != 0:
            status = host_tensor(&copy, memory, ones, threads)
            if status != 0:
                break
    return status
