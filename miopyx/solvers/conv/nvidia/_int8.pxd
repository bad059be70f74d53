"""What other solvers of 8 bits take over."""

from libc.stdint cimport int64_t

from miopyx._core cimport Step
from miopyx.values._types cimport mx_tensor

cdef Step pack_bytes(const mx_tensor* t, int slot, int64_t to, int64_t groups, int64_t channels, int64_t reduced)
