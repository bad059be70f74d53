"""Python arguments to C values, or the error that names the parameter.

An integer is anything with `__index__` (Python and NumPy integers, enum members) but a bool: True is no length.
Nothing is wrapped or truncated: what does not fit is BadParm with the limit.
"""

from cpython.bool cimport PyBool_Check

from miopyx import enums
from miopyx.errors import BadParmError

cdef extern from "Python.h":
    bint PyIndex_Check(object)
    object PyNumber_Index(object)


cdef int64_t convert_integer(object value, int64_t limit, str name) except? -1:
    """Any integer within -limit - 1 ... limit."""
    cdef int overflow = 0
    cdef int64_t result
    if not PyLong_Check(value):
        if not PyIndex_Check(value) or type(value).__name__ in ("bool_", "bool"):
            raise BadParmError("not an integer", name, value, "int")
        try:
            value = PyNumber_Index(value)
        except Exception as e:  # a size-1 array has __index__ but refuses
            raise BadParmError(f"not an integer: {e}", name, value, "int") from None
    elif PyBool_Check(value):
        raise BadParmError("a bool is not a number here", name, value, "int")
    result = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or result > limit or result < -limit - 1:
        raise BadParmError("integer out of range", name, value, f"{-limit - 1} ... {limit}")
    return result


cdef int convert_member(object value, str enumeration, str name) except? -1:
    """A member of an enumeration by its name, or anything else that is an integer."""
    if isinstance(value, str):
        number = enums.number_of(enumeration, value)
        if number is None:
            raise_unknown(value, enumeration, name)
        return number
    try:
        return to_int(value, name)
    except BadParmError:
        raise_unknown(value, enumeration, name)


cdef object raise_unknown(object value, str enumeration, str name):
    """Refuse what is no member of an enumeration, with the names of those there are."""
    raise BadParmError(f"no {enumeration}", name, value, enums.allowed(enumeration))


cdef double convert_real(object value, str name) except? -1:
    """Any real number, or something that holds one."""
    if isinstance(value, float):
        return value
    if isinstance(value, (str, bytes, bytearray)):
        raise BadParmError("not a real number", name, value, "float")
    try:
        return float(getattr(value, "value", value))
    except Exception:  # whatever a strange object raises
        raise BadParmError("not a real number", name, value, "float") from None


cdef double to_epsilon(object value, str name) except -1:
    """What a norm adds to a variance: with a negative one or NaN its root is none."""
    cdef double epsilon = to_double(value, name)
    if not epsilon >= 0:
        raise BadParmError("negative, or not a number", name, epsilon, ">= 0")
    return epsilon


cdef int64_t beyond_64_bits(int64_t a, str sign, int64_t b, str name) except? -1:
    raise BadParmError("size does not fit 64 bits", name, f"{a} {sign} {b}", "2**63 - 1")


cdef int read_ints(object values, int64_t* out, int count, bint wide, str name) except -1:
    """Read exactly `count` integers (C int, or 64-bit where `wide`) from a sequence."""
    cdef int i
    if isinstance(values, (str, bytes, dict, set, frozenset)):
        raise BadParmError("not a sequence of integers", name, values, f"{count} integers")
    try:
        if len(values) != count:
            raise BadParmError(f"has {len(values)} values", name, values, f"{count} integers")
        items = tuple(values)
    except BadParmError:
        raise
    except Exception as e:  # whatever a strange object's methods raise
        raise BadParmError(f"not a sequence of integers ({type(e).__name__})", name, values,
                           f"{count} integers") from None
    try:
        for i in range(count):
            out[i] = to_int64(items[i], name) if wide else to_int(items[i], name)
    except BadParmError as e:
        raise BadParmError(e.message, f"{name}[{i}]", e.value, e.limit) from None
    return 0


cdef bint convert_flag(object value, str name) except -1:
    if not isinstance(value, int) or value not in (0, 1):
        raise BadParmError("not a bool", name, value, "True or False")
    return value == 1
