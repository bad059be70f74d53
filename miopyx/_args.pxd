"""Python arguments to C values, or the error that names the parameter."""

from libc.stdint cimport int64_t

cdef int64_t to_int64(object value, str name) except? -1
cdef int to_int(object value, str name) except? -1
cdef double to_double(object value, str name) except? -1
cdef int64_t checked_mul(int64_t a, int64_t b, str name) except? -1
cdef int64_t checked_add(int64_t a, int64_t b, str name) except? -1
cdef int read_ints(object values, int64_t* out, int count, bint wide, str name) except -1
