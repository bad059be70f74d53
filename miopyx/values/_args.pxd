"""Python arguments to C values, or the error that names the parameter.

What callers pass nearly always, a plain int or float in range, is converted here, inline; everything else is left to
the functions that know what to refuse and how to say it.
"""

from libc.stdint cimport int64_t

cdef extern from "Python.h":
    bint PyLong_Check(object)
    bint PyLong_CheckExact(object)
    bint PyFloat_CheckExact(object)
    double PyFloat_AS_DOUBLE(object)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef extern from *:
    """
    #include <stdint.h>
    static inline int mx_mul_overflow(int64_t a, int64_t b, int64_t *r) { return __builtin_mul_overflow(a, b, r); }
    static inline int mx_add_overflow(int64_t a, int64_t b, int64_t *r) { return __builtin_add_overflow(a, b, r); }
    """
    bint mx_mul_overflow(int64_t a, int64_t b, int64_t* result) noexcept nogil
    bint mx_add_overflow(int64_t a, int64_t b, int64_t* result) noexcept nogil

cdef int64_t convert_integer(object value, int64_t limit, str name) except? -1
cdef double convert_real(object value, str name) except? -1
cdef double to_epsilon(object value, str name) except -1
cdef int convert_member(object value, str enumeration, str name) except? -1
cdef object raise_unknown(object value, str enumeration, str name)
cdef bint convert_flag(object value, str name) except -1
cdef int64_t beyond_64_bits(int64_t a, str sign, int64_t b, str name) except? -1
cdef int read_ints(object values, int64_t* out, int count, bint wide, str name) except -1


cdef inline int64_t to_int64(object value, str name) except? -1:
    cdef int overflow = 0
    cdef int64_t result
    if PyLong_CheckExact(value):
        result = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            return result
    return convert_integer(value, 0x7FFFFFFFFFFFFFFF, name)


cdef inline int to_int(object value, str name) except? -1:
    cdef int overflow = 0
    cdef int64_t result
    if PyLong_CheckExact(value):
        result = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and result == <int> result:
            return <int> result
    return <int> convert_integer(value, 0x7FFFFFFF, name)


cdef inline int to_member(object value, str enumeration, str name) except? -1:
    """A member of an enumeration: its number, whatever that is, or a name of it."""
    if PyLong_Check(value):
        return to_int(value, name)
    return convert_member(value, enumeration, name)


cdef inline double to_double(object value, str name) except? -1:
    """alpha, beta: a real number, or what C callers pass, something that holds one (a size-1 array, a ctypes float)."""
    cdef int overflow = 0
    cdef int64_t whole
    if PyFloat_CheckExact(value):
        return PyFloat_AS_DOUBLE(value)
    if PyLong_CheckExact(value):
        whole = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            return <double> whole
    return convert_real(value, name)


cdef inline bint to_flag(object value, str name) except -1:
    """A C bool: True, False, or one of their numbers."""
    return True if value is True else False if value is False else convert_flag(value, name)


cdef inline int64_t checked_mul(int64_t a, int64_t b, str name) except? -1:
    cdef int64_t result
    if mx_mul_overflow(a, b, &result):
        return beyond_64_bits(a, "*", b, name)
    return result


cdef inline int64_t checked_add(int64_t a, int64_t b, str name) except? -1:
    cdef int64_t result
    if mx_add_overflow(a, b, &result):
        return beyond_64_bits(a, "+", b, name)
    return result
