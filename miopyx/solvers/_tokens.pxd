"""Types as kernels name them."""

from libc.stdint cimport int64_t

cdef str type_token(int64_t data_type)
cdef str real_token(bint wide)
