"""Epilogues: what follows a convolution, by its own kernel's store or in one more launch."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Solution
from miopyx.values._types cimport mx_conv_problem

cdef bint stores_fused(Solution plain) except -1
cdef int64_t workspace_with(const mx_conv_problem* p, Solution plain) except -1
cdef Solution with_epilogue(Device dev, const mx_conv_problem* p, Solution plain)
