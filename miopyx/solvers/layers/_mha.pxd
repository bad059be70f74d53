"""What attention's solvers share."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg
from miopyx.problem._mha cimport MhaProblem
from miopyx.values._types cimport mx_mha_problem

cdef extern from "layers/mha_args.h":
    ctypedef struct mx_mha_strides:
        int64_t n, h, s, d

    ctypedef struct mx_mha_shape:
        int64_t heads, all, rows, keys, depth, width, groups_of_four, has
        mx_mha_strides q, k, v, bias, o, m, z_inv, d_o, dq, dk, dv


cdef class MhaSteps:
    cdef const mx_mha_problem* p
    cdef MhaProblem problem                  # whose p is
    cdef mx_mha_shape a
    cdef str file
    cdef bint forward
    cdef int64_t given, most                 # bits of numbers in memory, and of the largest numbers
    cdef int64_t size, real                  # bytes of an element, of a bias
    cdef int64_t workspace
    cdef dict defines
    cdef list steps, tensors, saved, amax, last
    cdef Arg rest, table

    cdef int begin(self) except -1
    cdef int add(self, str entry, object args, int64_t groups, int64_t items) except -1
    cdef Arg space(self, int64_t bytes, int64_t width)
    cdef list forward_args(self)
    cdef list dq_args(self, Arg delta)
    cdef list dkv_args(self, Arg delta, tuple more=*)
    cdef list gradients_args(self, Arg delta, Arg sums)
