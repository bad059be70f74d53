# cython: cdivision=True
"""Activations and their gradients on the host, in float64."""

from libc.math cimport exp, expm1, fabs, log1p, pow, tanh
from libc.stdint cimport int64_t

from miopyx.problem._grid cimport fill_grid, grid_lines, grid_offset
from ._common cimport at_most, ceil_div
from ._kernels cimport kernels
from ._pool cimport acquire_threads, default_arithmetic, release_threads, restore_arithmetic, run_tasks
from miopyx.values._types cimport MX_ACTIVATION_FORWARD, MX_AXES, MX_HALF, mx_activation_problem, mx_grid, mx_tensor
from miopyx.problem._activation cimport (
    ABS, ACTIVATION_ALPHA, ACTIVATION_BETA, ACTIVATION_DX, ACTIVATION_DY, ACTIVATION_GAMMA, ACTIVATION_X, ACTIVATION_Y,
    CLAMP, CLIPPEDRELU, ELU, LEAKYRELU, LOGISTIC, POWER, RELU, SOFTRELU, TANH, read_backward,
)

cdef enum:
    BLOCK = 512            # elements that are worked on at a time
    CHUNK = 16 * BLOCK     # of a row, to a task


cdef struct activation_t:
    const mx_activation_problem* p
    mx_grid grid           # tensors: the output, then the first input, then the second
    int64_t type, chunks   # chunks of a row
    char* out
    char* first            # x, or dy
    char* second           # backward: x or y, NULL where neither is read
    double alpha, beta, gamma, eps


cdef void activate(int64_t mode, double a, double b, double g, double eps, double* v, int64_t n) noexcept nogil:
    """Apply an activation to n numbers; a, b, g are its alpha, beta and gamma, eps what POWER takes for zero."""
    cdef double e
    cdef int64_t i
    if mode == LOGISTIC:
        for i in range(n):
            e = exp(-fabs(v[i]))
            v[i] = (1 if v[i] >= 0 else e) / (1 + e)
    elif mode == TANH:
        for i in range(n):
            v[i] = b * tanh(a * v[i])
    elif mode == RELU:
        for i in range(n):
            v[i] = 0 if v[i] <= 0 else v[i]
    elif mode == SOFTRELU:
        for i in range(n):
            v[i] = (v[i] if v[i] > 0 else 0) + log1p(exp(-fabs(v[i])))
    elif mode == ABS:
        for i in range(n):
            v[i] = fabs(v[i])
    elif mode == POWER:
        for i in range(n):
            e = a + b * v[i]
            v[i] = 0 if e <= eps else pow(e, g)
    elif mode == CLIPPEDRELU:
        for i in range(n):
            e = v[i] if v[i] > 0 else 0  # NaN becomes 0, as with fmax
            v[i] = a if a < e else e
    elif mode == LEAKYRELU:
        for i in range(n):
            v[i] = v[i] if v[i] > 0 else a * v[i]
    elif mode == ELU:
        for i in range(n):
            v[i] = v[i] if v[i] > 0 else a * expm1(v[i])
    elif mode == CLAMP:
        for i in range(n):
            e = v[i] if v[i] < b else b  # NaN becomes beta, as with fmin
            v[i] = e if e > a else a


cdef void activation_gradient(int64_t mode, double a, double b, double g, double eps, double* dy, const double* v,
                              int64_t n) noexcept nogil:
    """Turn dy into dx; v is x or y, whichever the mode reads."""
    cdef double e
    cdef int64_t i
    if mode == LOGISTIC:
        for i in range(n):
            dy[i] *= v[i] * (1 - v[i])
    elif mode == TANH:
        for i in range(n):
            dy[i] = dy[i] * a * (b - v[i] * v[i] / b) if fabs(b) > eps else 0
    elif mode == RELU:
        for i in range(n):
            dy[i] = dy[i] if v[i] > 0 else 0
    elif mode == SOFTRELU:
        for i in range(n):
            e = exp(-fabs(v[i]))
            dy[i] *= (1 if v[i] >= 0 else e) / (1 + e)
    elif mode == ABS:
        for i in range(n):
            dy[i] = dy[i] if v[i] > 0 else -dy[i] if v[i] < 0 else 0
    elif mode == POWER:
        for i in range(n):
            e = a + b * v[i]
            dy[i] = 0 if e <= eps else dy[i] * g * b * pow(e, g - 1)
    elif mode == CLIPPEDRELU:
        for i in range(n):
            dy[i] = dy[i] if v[i] > 0 and v[i] <= a else 0
    elif mode == LEAKYRELU:
        for i in range(n):
            dy[i] = dy[i] if v[i] > 0 else a * dy[i]
    elif mode == ELU:
        for i in range(n):
            dy[i] = dy[i] if v[i] > 0 else dy[i] * a * exp(v[i])
    elif mode == CLAMP:
        for i in range(n):
            dy[i] = dy[i] if v[i] > a and v[i] <= b else 0


cdef void activation_task(void* context, int64_t index, int worker) noexcept nogil:
    """A chunk of a row."""
    cdef const activation_t* c = <const activation_t*> context
    cdef double first[BLOCK]
    cdef double second[BLOCK]
    cdef int64_t line = index // c.chunks, start = index % c.chunks * CHUNK, at, n
    cdef int64_t out = grid_offset(&c.grid, 0, line), one = grid_offset(&c.grid, 1, line)
    cdef int64_t two = grid_offset(&c.grid, 2, line) if c.second != NULL else 0
    cdef int64_t out_step = c.grid.stride[0][MX_AXES - 1], one_step = c.grid.stride[1][MX_AXES - 1]
    cdef int64_t two_step = c.grid.stride[2][MX_AXES - 1], row = at_most(c.grid.len[MX_AXES - 1], start + CHUNK)
    at = start
    while at < row:
        n = at_most(BLOCK, row - at)
        kernels.load_row(c.first, c.type, one + at * one_step, one_step, first, n)
        if c.second != NULL:
            kernels.load_row(c.second, c.type, two + at * two_step, two_step, second, n)
        if c.p.what == MX_ACTIVATION_FORWARD:
            activate(c.p.mode, c.alpha, c.beta, c.gamma, c.eps, first, n)
        else:
            activation_gradient(c.p.mode, c.alpha, c.beta, c.gamma, c.eps, first, second, n)
        kernels.store_row(c.out, c.type, out + at * out_step, out_step, first, n)
        at += n


cdef int host_activation(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_activation_problem* p = <const mx_activation_problem*> problem
    cdef const mx_tensor* tensors[3]
    cdef activation_t c
    cdef unsigned arithmetic, read
    cdef int width
    c.p, c.second = p, NULL
    c.alpha, c.beta, c.gamma = scalars[ACTIVATION_ALPHA], scalars[ACTIVATION_BETA], scalars[ACTIVATION_GAMMA]
    if p.what == MX_ACTIVATION_FORWARD:
        tensors[0], tensors[1], tensors[2] = &p.y, &p.x, NULL
        c.out, c.first = <char*> slots[ACTIVATION_Y], <char*> slots[ACTIVATION_X]
    else:
        tensors[0], tensors[1], tensors[2] = &p.dx, &p.dy, NULL
        c.out, c.first = <char*> slots[ACTIVATION_DX], <char*> slots[ACTIVATION_DY]
        read = read_backward(<int> p.mode)
        if read >> ACTIVATION_X & 1:
            tensors[2], c.second = &p.x, <char*> slots[ACTIVATION_X]
        elif read >> ACTIVATION_Y & 1:
            tensors[2], c.second = &p.y, <char*> slots[ACTIVATION_Y]
    c.type = tensors[0].type
    c.eps = 1e-4 if c.type == MX_HALF else 1e-6
    fill_grid(&c.grid, tensors, 2 if c.second == NULL else 3)
    c.chunks = ceil_div(c.grid.len[MX_AXES - 1], CHUNK)
    width = acquire_threads(16.0 * grid_lines(&c.grid) * c.grid.len[MX_AXES - 1], threads)
    arithmetic = default_arithmetic()
    run_tasks(activation_task, &c, grid_lines(&c.grid) * c.chunks, width)
    restore_arithmetic(arithmetic)
    release_threads(width)
    return 0
