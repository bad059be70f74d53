# cython: cdivision=True
"""Convolutions on the host: as matrix products, or by plain loops where the data asks for them."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from miopyx.problem._fusion cimport FUSED_ALPHA, FUSED_BETA, FUSED_EPSILON, FUSED_GAMMA
from miopyx.problem._problem cimport FUSED_BIAS, FUSED_SCALE, FUSED_Z
from ._activation cimport activate
from ._common cimport ALLOC_FAILED, SPECIAL, at_most
from ._direct cimport all_finite, convolve_directly
from ._implicit cimport multiply_images, multiply_phases
from ._kernels cimport kernels
from ._memory cimport Memory, bind, check_tensor
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport (
    MX_AXES, MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_DOUBLE, MX_FORWARD, MX_FUSED_BIAS, MX_FUSED_NORM, MX_FUSED_Z,
    MX_HALF, MX_SPATIAL, mx_conv_problem, mx_fused, mx_tensor,
)

from miopyx.errors import AllocFailedError, BadParmError

cdef enum:
    BLOCK = 512            # elements of a row that are worked on at a time


cdef int host_conv(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_conv_problem* p = <const mx_conv_problem*> problem
    return _fused(p, slots, scalars, threads) if p.fused.parts else _convolve(p, slots, scalars, threads)


cdef struct fused_t:
    const mx_conv_problem* p
    const mx_tensor* y         # what is computed
    const double* sums         # the convolution, which lies as y does
    char* out
    void** slots
    const double* scalars


cdef void _fused_task(void* context, int64_t index, int worker) noexcept nogil:
    """What follows the convolution, for a row along w."""
    cdef const fused_t* f = <const fused_t*> context
    cdef const mx_tensor* y = f.y
    cdef const mx_fused* e = &f.p.fused
    cdef double[BLOCK] v
    cdef double[BLOCK] z
    cdef double[4] norm                # scale, shift, mean, variance
    cdef double scale = f.scalars[0], shift = 0
    cdef int64_t h = index % y.len[3], d = index // y.len[3] % y.len[2], plane = index // (y.len[3] * y.len[2])
    cdef int64_t c = plane % y.len[1], first = 0, n, i, at, step = y.stride[4]
    cdef int64_t base = plane // y.len[1] * y.stride[0] + c * y.stride[1] + d * y.stride[2] + h * y.stride[3]
    cdef int j
    if e.parts & MX_FUSED_BIAS:
        kernels.load_row(<const char*> f.slots[FUSED_BIAS], e.bias_type, c, 1, &shift, 1)
    if e.parts & MX_FUSED_NORM:
        for j in range(4):
            kernels.load_row(<const char*> f.slots[FUSED_SCALE + j], e.norm_type, c, 1, &norm[j], 1)
        norm[0] /= sqrt(norm[3] + f.scalars[FUSED_EPSILON])
        scale *= norm[0]
        shift = (shift - norm[2]) * norm[0] + norm[1]
    while first < y.len[4]:
        n, at = at_most(BLOCK, y.len[4] - first), base + first * step
        for i in range(n):
            v[i] = scale * f.sums[at + i * step] + shift
        if e.parts & MX_FUSED_Z and f.scalars[1] != 0:
            kernels.load_row(<const char*> f.slots[FUSED_Z], y.type, at, step, z, n)
            for i in range(n):
                v[i] += f.scalars[1] * z[i]
        activate(e.activation, f.scalars[FUSED_ALPHA], f.scalars[FUSED_BETA], f.scalars[FUSED_GAMMA],
                 1e-4 if y.type == MX_HALF else 1e-6, v, n)
        kernels.store_row(f.out, y.type, at, step, v, n)
        first += n


cdef int _fused(const mx_conv_problem* p, void** slots, const double* scalars, int threads) noexcept nogil:
    """A convolution in float64, and what follows it; rounded once, when y is stored."""
    cdef mx_conv_problem plain = p[0]
    cdef mx_tensor* y = &plain.y if p.direction == MX_FORWARD else &plain.x
    cdef void* memory[4]
    cdef double[2] numbers = [1, 0]
    cdef fused_t f
    cdef int64_t span = 1, rows = y.len[0] * y.len[1] * y.len[2] * y.len[3]
    cdef unsigned arithmetic
    cdef int i, status, width
    for i in range(MX_AXES):
        if y.len[i] == 0:
            return 0
        span += (y.len[i] - 1) * y.stride[i]
    f.p, f.slots, f.scalars, f.y = p, slots, scalars, &p.y if p.direction == MX_FORWARD else &p.x
    f.out = <char*> slots[2 if p.direction == MX_FORWARD else 0]
    f.sums = <const double*> malloc(span * sizeof(double))
    if f.sums == NULL:
        return ALLOC_FAILED
    plain.fused.parts, y.type = 0, MX_DOUBLE
    for i in range(3):
        memory[i] = slots[i]
    memory[2 if p.direction == MX_FORWARD else 0] = <void*> f.sums
    memory[3] = NULL
    status = _convolve(&plain, memory, numbers, threads)
    if status == 0:
        width = acquire_threads(16.0 * rows * y.len[4], threads)
        arithmetic = default_arithmetic()
        run_tasks(_fused_task, &f, rows, width)
        restore_arithmetic(arithmetic)
        release_threads(width)
    free(<void*> f.sums)
    return status


cdef int _convolve(const mx_conv_problem* p, void** slots, const double* scalars, int threads) noexcept nogil:
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
    if p.fused.parts:
        raise BadParmError("more than a convolution", "problem", p.fused.parts, 0)
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
