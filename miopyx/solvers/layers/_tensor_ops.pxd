"""Element-wise operations on tensors, as other solvers use them."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Step
from miopyx.values._types cimport mx_tensor

# All types as kernels name them.
cdef dict ALL_TOKENS


cdef Step copy_step(Device dev, const mx_tensor* a, int a_slot, const mx_tensor* c, int c_slot, int64_t skipped)
