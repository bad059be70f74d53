"""Sums over the axes that a result lacks, as other solvers use them."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device
from miopyx.values._types cimport mx_bias_problem


cdef tuple sum_steps(Device dev, const mx_bias_problem* p, Arg b, Arg y, int64_t offset, Arg alpha, Arg beta)
