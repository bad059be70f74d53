"""The gradient of indexing: its problem."""

from libc.stdint cimport int64_t

from ._slots cimport SlotsProblem
from miopyx.values._types cimport mx_grid, mx_slots_problem

cdef enum:
    ITEM_DY = 0
    ITEM_DX = 1
    ITEM_ERROR = 2
    ITEM_INDEX = 3         # and those behind it
    ITEM_VIEW = 9          # no memory: what slices leave of dx
    ITEM_MOST = 5          # tensors of indices

# Numbers.
cdef enum:
    ITEM_COUNT = 0         # tensors of indices
    ITEM_START = 1         # the first axis that is indexed
    ITEM_OFFSET = 2        # of the view in dx, in elements


cdef class GetitemProblem(SlotsProblem):
    pass


# What is walked: see mx_getitem_shape of kernels/layers/rows_args.h.
cdef struct item_t:
    mx_grid outer, inner
    int64_t count, dy_step, places
    int64_t index_stride[5]
    int64_t len[5]
    int64_t stride[5]


cdef int fill_item(const mx_slots_problem* p, item_t* item) noexcept nogil
