"""The choice among the inner loops, which are linked into this module alone."""

from miopyx.values import config
from miopyx.errors import InvalidValueError

cdef extern from "miopyx/host/gemm_f64.h" nogil:
    const mx_kernels* mx_choose_kernels(const char* limit) noexcept nogil


cdef const mx_kernels* choose() except NULL:
    cdef const mx_kernels* chosen
    try:
        name = config.get("MIOPYX_HOST_ISA").encode()
    except InvalidValueError:  # importing fails for no variable; the first handle reports it
        name = b""
    chosen = mx_choose_kernels(<const char*> name if name else NULL)
    if chosen == NULL:
        raise InvalidValueError("no such variant", "MIOPYX_HOST_ISA", name.decode(), "baseline, avx2, avx512")
    return chosen


kernels = choose()


def isa():
    """Return the instruction set of the inner loops in use: "baseline", "avx2" or "avx512"."""
    return kernels.name.decode()
