"""The k-th smallest number along an axis: its problem."""

from libc.stdint cimport int64_t

from ._grid cimport fill_grid
from ._slots cimport SlotsProblem, elements_of
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT64, MX_KTH, mx_grid, mx_slots_problem, mx_tensor,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError

cdef enum:
    LONGEST = (1 << 31) - 1


cdef int axis_of(int rank, int dim) noexcept nogil:
    """Where a dimension is among the five axes."""
    return dim if dim < 2 else MX_AXES - rank + dim


cdef class KthProblem(SlotsProblem):
    """The k-th smallest number of each row of x along `dim`, counted from the end below 0, and where it is.

    Raises
    ------
    BadParmError
        Where types or lengths do not fit each other, or there is no such k or axis.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64, more than five dimensions and rows of 2^31.
    """

    def __init__(self, x, y, indices, int64_t k, int64_t dim, bint kept):
        cdef int rank
        cdef int64_t length
        cdef tuple lens
        self.take(KTH_X, x, "inputDesc")
        self.take(KTH_Y, y, "outputDesc", True)
        self.take(KTH_INDICES, indices, "indicesDesc", True)
        rank = <int> self.c.rank[<int> KTH_X]
        if dim < -rank or dim >= rank:
            raise BadParmError("axis of a k-th value", "dim", dim, f"{-rank} ... {rank - 1}")
        if dim < 0:
            dim += rank
        self.require_type(KTH_X, (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE),
                          "float16, bfloat16, float32 or float64")
        if self.c.t[<int> KTH_Y].type != self.c.t[<int> KTH_X].type:
            raise BadParmError("type differs from inputDesc's", "outputDesc", y.dtype, x.dtype)
        if self.c.t[<int> KTH_INDICES].type != MX_INT64:
            raise BadParmError("type of indices", "indicesDesc", indices.dtype, "int64")
        lens = self.lens(KTH_X)
        length = lens[dim]
        if k < 1 or k > length:
            raise BadParmError("number of a k-th value", "k", k, f"1 ... {length}")
        if length > LONGEST:
            raise MIOpenNotImplementedError("length of a row", f"inputDesc.lens[{dim}]", length, f"<= {LONGEST}")
        lens = lens[:dim] + ((1,) if kept or rank == 1 else ()) + lens[dim + 1:]
        self.require_lens(KTH_Y, lens, "inputDesc's without dim's")
        self.require_lens(KTH_INDICES, lens, "inputDesc's without dim's")
        self.c.what, self.c.number[<int> KTH_AXIS], self.c.number[<int> KTH_K] = MX_KTH, axis_of(rank, <int> dim), k
        self.c.number[<int> KTH_KEPT] = kept or rank == 1
        self.output = KTH_Y

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> KTH_Y]) == 0


cdef int fill_rows(const mx_slots_problem* p, mx_grid* grid) noexcept nogil:
    """The grid of all rows: tensor 0 has their first elements, 1 the output, 2 the indices."""
    cdef mx_tensor tensor[3]
    cdef const mx_tensor* tensors[3]
    cdef int slot, axis, i, j, rank = <int> p.rank[<int> KTH_X], from_axis
    for slot in range(3):
        tensors[slot] = &tensor[slot]
        tensor[slot] = p.t[<int> KTH_X]
        tensor[slot].len[p.number[<int> KTH_AXIS]] = 1
        if slot == KTH_X:
            continue
        j = 0
        for i in range(rank):
            axis = axis_of(rank, i)
            if axis == p.number[<int> KTH_AXIS]:
                j += p.number[<int> KTH_KEPT] != 0
                continue
            from_axis = axis_of(<int> p.rank[slot], j)
            tensor[slot].stride[axis] = p.t[slot].stride[from_axis]
            j += 1
    return fill_grid(grid, tensors, 3)
