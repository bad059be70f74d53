"""The gradient of indexing: its problem."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ._grid cimport fill_grid
from ._slots cimport SlotsProblem, elements_of
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_GETITEM, MX_HALF, MX_INT32, MX_INT64, mx_slots_problem, mx_tensor,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError

cdef enum:
    LARGEST = (1 << 31) - 1


cdef inline int axis_of(int rank, int dim) noexcept nogil:
    return dim if dim < 2 else MX_AXES - rank + dim


cdef class GetitemProblem(SlotsProblem):
    """dx[slices][indices] += dy.

    Parameters
    ----------
    dy, dx : TensorDescriptor
    indices : sequence of TensorDescriptor
    error : TensorDescriptor
    dims : sequence of int
        The axes of dx that are indexed, one behind the other.
    slices : sequence of (axis, start, end, step)
    offset : int
        Added to the places along dx's first axis.

    Raises
    ------
    BadParmError
        Where types or lengths do not fit each other, or axes and slices do not fit dx.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64, and for what has 2^31 places.
    """

    def __init__(self, dy, indices, dx, error, dims, slices, int64_t offset):
        cdef int count = len(indices), rank, i, axis, start
        cdef int64_t length = 1, first, last, step, places = 1
        cdef mx_tensor* view = &self.c.t[<int> ITEM_VIEW]
        cdef tuple lens
        self.take(ITEM_DY, dy, "dyDesc")
        self.take(ITEM_DX, dx, "dxDesc", True)
        self.require_type(ITEM_DX, (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE),
                          "float16, bfloat16, float32 or float64")
        if self.c.t[<int> ITEM_DY].type != self.c.t[<int> ITEM_DX].type:
            raise BadParmError("type differs from dxDesc's", "dyDesc", dy.dtype, dx.dtype)
        if count != len(dims):
            raise BadParmError("axes differ in number from the tensors of indices", "dimCount", len(dims), count)
        rank = <int> self.c.rank[<int> ITEM_DX]
        view[0] = self.c.t[<int> ITEM_DX]
        for i, (dim, begin, end, stride) in enumerate(slices):
            if not 0 <= dim < rank:
                raise BadParmError("axis of a slice", f"slices[{4 * i}]", dim, f"0 ... {rank - 1}")
            axis = axis_of(rank, dim)
            first, last, step = begin, end, stride
            if first < 0 or first > view.len[axis]:
                raise BadParmError("start of a slice", f"slices[{4 * i + 1}]", first, f"0 ... {view.len[axis]}")
            if last < first or last > view.len[axis]:
                raise BadParmError("end of a slice", f"slices[{4 * i + 2}]", last, f"{first} ... {view.len[axis]}")
            if step < 1:
                raise BadParmError("step of a slice", f"slices[{4 * i + 3}]", step, ">= 1")
            self.c.number[<int> ITEM_OFFSET] += first * view.stride[axis]
            view.len[axis] = (last - first + step - 1) // step
            view.stride[axis] *= step
        if offset < 0 or offset > view.len[0]:
            raise BadParmError("offset along the first axis", "offset", offset, f"0 ... {view.len[0]}")
        self.c.number[<int> ITEM_OFFSET] += offset * view.stride[0]
        view.len[0] -= offset
        start = dims[0] if count else 0
        for i in range(count):
            if dims[i] != start + i or dims[i] < 0 or dims[i] >= rank:
                raise BadParmError("axes that are indexed follow one another", f"dims[{i}]", dims[i],
                                   f"{start + i}" if i else f"0 ... {rank - count}")
            self.take(ITEM_INDEX + i, indices[i], f"indexDescs[{i}]")
            if self.c.t[<int> ITEM_INDEX + i].type not in (MX_INT32, MX_INT64):
                raise BadParmError("type of indices", f"indexDescs[{i}]", indices[i].dtype, "int32 or int64")
            if self.c.rank[<int> ITEM_INDEX + i] != 1:
                raise BadParmError("rank of indices", f"indexDescs[{i}]", self.c.rank[<int> ITEM_INDEX + i], 1)
            if i:
                self.require_alike(ITEM_INDEX + i, ITEM_INDEX)
            places *= view.len[axis_of(rank, start + i)]
        if count:
            self.take(ITEM_ERROR, error, "errorDesc")
            self.written |= 1 << ITEM_ERROR
            if self.c.t[<int> ITEM_ERROR].type != MX_INT32:
                raise BadParmError("type of errors", "errorDesc", error.dtype, "int32")
            if self.c.rank[<int> ITEM_ERROR] != 1 or self.c.t[<int> ITEM_ERROR].len[0] < count:
                raise BadParmError("lengths of errors", "errorDesc", self.lens(ITEM_ERROR),
                                   f"one dimension of {count} or more")
            length = self.c.t[<int> ITEM_INDEX].len[0]
        lens = tuple([view.len[axis_of(rank, i)] for i in range(rank)])
        if count:
            lens = lens[:start] + (length,) + lens[start + count:]
        self.require_lens(ITEM_DY, lens, "what the indices take of dxDesc's")
        if places > LARGEST or length > LARGEST:
            raise MIOpenNotImplementedError("places", "dxDesc", max(places, length), f"<= {LARGEST}")
        self.c.what, self.c.number[<int> ITEM_COUNT], self.c.number[<int> ITEM_START] = MX_GETITEM, count, start
        self.output = ITEM_DX

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> ITEM_DY]) == 0 or elements_of(&self.c.t[<int> ITEM_VIEW]) == 0


cdef int fill_item(const mx_slots_problem* p, item_t* item) noexcept nogil:
    """Cut dx and dy at the axes that are indexed."""
    cdef mx_tensor outer[2]
    cdef mx_tensor inner[2]
    cdef const mx_tensor* tensors[2]
    cdef const mx_tensor* view = &p.t[<int> ITEM_VIEW]
    cdef const mx_tensor* dy = &p.t[<int> ITEM_DY]
    cdef int count = <int> p.number[<int> ITEM_COUNT], start = <int> p.number[<int> ITEM_START]
    cdef int rank = <int> p.rank[<int> ITEM_DX], rank_dy = <int> p.rank[<int> ITEM_DY], i, j, k, axis, axis_dy
    memset(item, 0, sizeof(item_t))
    memset(outer, 0, sizeof(outer))
    memset(inner, 0, sizeof(inner))
    for axis in range(MX_AXES):
        for i in range(2):
            outer[i].len[axis] = inner[i].len[axis] = 1
    item.count = item.places = 1
    j = 0
    for i in range(rank):
        axis = axis_of(rank, i)
        if count and start <= i < start + count:
            k = i - start
            item.len[k], item.stride[k] = view.len[axis], view.stride[axis]
            item.places *= view.len[axis]
            item.index_stride[k] = p.t[<int> ITEM_INDEX + k].stride[0]
            if k == 0:
                axis_dy = axis_of(rank_dy, j)
                item.count, item.dy_step = dy.len[axis_dy], dy.stride[axis_dy]
                j += 1
            continue
        axis_dy = axis_of(rank_dy, j)
        j += 1
        if count and i < start:
            outer[0].len[axis] = outer[1].len[axis] = view.len[axis]
            outer[0].stride[axis], outer[1].stride[axis] = view.stride[axis], dy.stride[axis_dy]
        else:
            inner[0].len[axis] = inner[1].len[axis] = view.len[axis]
            inner[0].stride[axis], inner[1].stride[axis] = view.stride[axis], dy.stride[axis_dy]
    tensors[0], tensors[1] = &outer[0], &outer[1]
    fill_grid(&item.outer, tensors, 2)
    tensors[0], tensors[1] = &inner[0], &inner[1]
    return fill_grid(&item.inner, tensors, 2)
