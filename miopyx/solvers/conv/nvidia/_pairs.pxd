"""How backward data of floats with a stride puts its phases together."""

from libc.stdint cimport int64_t, uint64_t

from miopyx._core cimport Step
from miopyx.values._types cimport mx_conv_problem, mx_tensor

# What a direction reads and writes, and the sizes of one group: backward data reads dy and writes dx.
cdef struct sides_t:
    const mx_tensor* x
    const mx_tensor* y
    int x_slot, y_slot
    int64_t channels, filters
    int64_t w_row, w_reduced                 # strides of w along the filters and along the channels
    bint joins                               # y is computed in the workspace, phase by phase
    int64_t packs, planes, workspace         # bytes before them, and all
    uint64_t[3] met                          # phases along each axis that have taps
    int64_t phase_planes, phase_rows, phase_columns, phase_bytes  # of y that a phase computes, if it joins


cdef sides_t sides_of(const mx_conv_problem* p) noexcept nogil
cdef Step join_of_phases(const mx_conv_problem* p, const sides_t* s)
