"""Tensors of equal lengths walked together: as few axes as their strides allow."""

from libc.stdint cimport int64_t

from miopyx.values._types cimport MX_AXES, mx_grid, mx_tensor


cdef int fill_grid(mx_grid* grid, const mx_tensor** tensors, int count) noexcept nogil
cdef int join_axes(int64_t* lens, int64_t* strides, const mx_tensor** tensors, int count) noexcept nogil
cdef int64_t grid_lines(const mx_grid* grid) noexcept nogil


cdef inline int64_t grid_offset(const mx_grid* grid, int tensor, int64_t line) noexcept nogil:
    """Where row number `line`, of those along the last axis, begins in a tensor, in elements."""
    cdef int64_t at = 0
    cdef int axis
    for axis in range(MX_AXES - 2, -1, -1):
        if grid.len[axis] > 1:
            at += line % grid.len[axis] * grid.stride[tensor][axis]
            line //= grid.len[axis]
    return at
