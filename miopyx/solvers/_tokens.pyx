"""Types as kernels name them."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport (
    MX_BFLOAT8, MX_BFLOAT16, MX_DOUBLE, MX_E4M3, MX_E5M2, MX_FLOAT, MX_FLOAT8, MX_HALF, MX_INT8, MX_INT32,
)

cdef dict TOKENS = {
    MX_HALF: "half", MX_FLOAT: "float", MX_INT32: "int32", MX_INT8: "int8", MX_BFLOAT16: "bfloat16",
    MX_DOUBLE: "double", MX_FLOAT8: "float8", MX_BFLOAT8: "bfloat8", MX_E4M3: "e4m3", MX_E5M2: "e5m2"}


cdef str type_token(int64_t data_type):
    """The kernels' name of a data type, None where they have none."""
    return <str> TOKENS.get(data_type)


cdef str real_token(bint wide):
    """The type of arithmetic that is no integers'."""
    return "double" if wide else "float"
