# cython: cdivision=True
"""Tensors of equal lengths walked together: as few axes as their strides allow.

Element-wise work does not care which axis is which.  Sorted by the first tensor's strides, and joined where every
tensor steps from the end of one axis right into the next, packed tensors of any layout are a single row, and a bias is
two or three axes.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._types cimport MX_AXES, mx_grid, mx_tensor


cdef int fill_grid(mx_grid* grid, const mx_tensor** tensors, int count) noexcept nogil:
    """Write the grid of at most four tensors."""
    memset(grid, 0, sizeof(mx_grid))
    return join_axes(grid.len, &grid.stride[0][0], tensors, count)


cdef int join_axes(int64_t* lens, int64_t* strides, const mx_tensor** tensors, int count) noexcept nogil:
    """Write MX_AXES lengths and for each tensor as many strides, which are 0; the first tensor's lengths are walked.

    Another tensor whose length is 1 where the first one's is not stays where it is along that axis.  The last axis is
    the innermost one; axes that are not needed come first, with length 1 and stride 0.
    """
    cdef int order[5]
    cdef int used = 0, i, j, t, axis, last = MX_AXES
    cdef const mx_tensor* first = tensors[0]
    cdef int64_t step
    cdef bint joined
    for axis in range(MX_AXES):
        lens[axis] = 1
        if first.len[axis] > 1:  # sorted by stride, the largest first
            j = used
            while j > 0 and first.stride[order[j - 1]] < first.stride[axis]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = axis
            used += 1
    for i in range(used - 1, -1, -1):
        axis = order[i]
        joined = last < MX_AXES
        for t in range(count):
            step = tensors[t].stride[axis] if tensors[t].len[axis] > 1 else 0
            if last < MX_AXES and step != strides[t * MX_AXES + last] * lens[last]:
                joined = False
        if joined:
            lens[last] *= first.len[axis]
            continue
        last -= 1
        lens[last] = first.len[axis]
        for t in range(count):
            strides[t * MX_AXES + last] = tensors[t].stride[axis] if tensors[t].len[axis] > 1 else 0
    return 0


cdef int64_t grid_lines(const mx_grid* grid) noexcept nogil:
    """How many rows along the last axis a grid has."""
    return grid.len[0] * grid.len[1] * grid.len[2] * grid.len[3]
