"""Convolutions on the host: as matrix products, or by plain loops where the data asks for them."""

from libc.string cimport memcpy

from ._common cimport SPECIAL
from ._direct cimport all_finite, convolve_directly
from ._implicit cimport multiply_images, multiply_phases
from ._memory cimport Memory, bind, check_tensor
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic
from miopyx.values._types cimport MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FORWARD, MX_SPATIAL, mx_conv_problem

from miopyx.errors import AllocFailedError, BadParmError


cdef int host_conv(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_conv_problem* p = <const mx_conv_problem*> problem
    cdef double work = 2.0 * p.y.len[0] * p.y.len[1] * p.y.len[2] * p.y.len[3] * p.y.len[4] * (
        p.w.len[1] * p.w.len[2] * p.w.len[3] * p.w.len[4])
    cdef unsigned arithmetic = default_arithmetic()
    cdef int status = 0, width = acquire_threads(work, threads)
    # With beta the old output is lost once it is written, so look for values that need the other path beforehand.
    if scalars[1] != 0:
        if p.direction == MX_BACKWARD_WEIGHTS:
            status = 0 if all_finite(&p.y, slots[2]) else SPECIAL
        else:
            status = 0 if all_finite(&p.w, slots[1]) else SPECIAL
    if status == 0:
        if p.direction == MX_BACKWARD_DATA:
            status = multiply_phases(p, slots, scalars, width)
        else:
            status = multiply_images(p, slots, scalars, width)
    if status == SPECIAL:
        status = convolve_directly(p, slots, scalars, width)
    release_threads(width)
    restore_arithmetic(arithmetic)
    return status


cdef int check_conv(mx_conv_problem* p) except -1:
    cdef int i
    if not MX_FORWARD <= p.direction <= MX_BACKWARD_WEIGHTS:
        raise BadParmError("unknown direction", "direction", p.direction, "0, 1, 2")
    check_tensor(&p.x, "x", p.direction == MX_BACKWARD_DATA)
    check_tensor(&p.w, "w", p.direction == MX_BACKWARD_WEIGHTS)
    check_tensor(&p.y, "y", p.direction == MX_FORWARD)
    if p.groups < 1 or p.w.len[0] % p.groups or p.w.len[1] * p.groups != p.x.len[1]:
        raise BadParmError("channels do not fit the groups", "groups", p.groups,
                           f"k {p.w.len[0]} % groups == 0, c/g {p.w.len[1]} * groups == c {p.x.len[1]}")
    if p.x.len[0] != p.y.len[0] or p.w.len[0] != p.y.len[1]:
        raise BadParmError("n or k differ", "y", (p.y.len[0], p.y.len[1]), (p.x.len[0], p.w.len[0]))
    for i in range(MX_SPATIAL):
        if p.pad[i] < 0 or p.step[i] < 1 or p.dilation[i] < 1:
            raise BadParmError("pad, stride or dilation out of range", "problem", (p.pad, p.step, p.dilation),
                               "pads >= 0, strides and dilations > 0")
    return 0


def run_conv(bytes problem not None, x, w, y, double alpha=1.0, double beta=0.0, int threads=0):
    """Compute one tensor of a convolution from the other two.

    Parameters
    ----------
    problem : bytes
        An mx_conv_problem; its direction says which tensor is computed.
    x, w, y : array, buffer or int
        Objects with `__array_interface__` or the buffer protocol, taken as raw memory in the problem's layout, or
        addresses, whose size is the caller's business.
    alpha, beta : float
        out = alpha * convolution + beta * out; where beta is 0 the old values are not read.
    threads : int
        At most so many threads; 0: one a usable core.  The result does not depend on it.

    Raises
    ------
    BadParmError
        If the struct contradicts itself, or a buffer is too small or read-only.
    AllocFailedError
        If there is no memory for packed panels; nothing was written.
    """
    cdef mx_conv_problem p
    cdef void* slots[4]
    cdef double scalars[2]
    cdef int status
    if len(problem) != sizeof(mx_conv_problem):
        raise BadParmError("not an mx_conv_problem", "problem", f"{len(problem)} bytes",
                           f"{sizeof(mx_conv_problem)} bytes")
    memcpy(&p, <const char*> problem, sizeof(p))
    check_conv(&p)
    cdef Memory mx = bind(x, &p.x, "x", p.direction == MX_BACKWARD_DATA)
    cdef Memory mw = bind(w, &p.w, "w", p.direction == MX_BACKWARD_WEIGHTS)
    cdef Memory my = bind(y, &p.y, "y", p.direction == MX_FORWARD)
    slots[0], slots[1], slots[2], slots[3] = mx.address, mw.address, my.address, NULL
    scalars[0], scalars[1] = alpha, beta
    with nogil:
        status = host_conv(&p, slots, scalars, threads)
    if status != 0:
        raise AllocFailedError("no memory for packed panels", "problem", None)
