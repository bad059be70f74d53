"""The gradient of indexing: on the host path, and as kernels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.host._getitem cimport host_getitem
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._getitem cimport (
    ITEM_COUNT, ITEM_DX, ITEM_DY, ITEM_ERROR, ITEM_INDEX, ITEM_OFFSET, GetitemProblem, fill_item, item_t,
)
from miopyx.problem._grid cimport grid_lines
from miopyx.values._types cimport MX_DOUBLE, mx_grid, mx_slots_problem
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef extern from "layers/rows_args.h":
    ctypedef struct mx_getitem_shape:
        mx_grid outer, inner
        int64_t outer_lines, inner_lines, count, dy_step
        int64_t index_stride[5]
        int64_t len[5]
        int64_t stride[5]
        int64_t places, error_stride, links, heads

cdef enum:
    GROUPS = 4             # of a CPU, for each core
    SHARE = 1 << 13        # elements that are worth another one
    TEAM = 256             # work-items of a group of a GPU
    OWNERS = 2             # groups that make lists, for each compute unit


cdef class HostGetitem(HostLayer):
    """On the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1280, "HostGetitem", host_getitem


cdef class OpenCLGetitem(OpenCLLayer):
    """On OpenCL devices: places, lists of what adds to each, and their sums."""

    def __cinit__(self):
        self.id, self.name = 1279, "OpenCLGetitem"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_slots_problem* p = &(<GetitemProblem> problem).c
        cdef item_t item
        cdef mx_getitem_shape s
        cdef bint cpu = dev.is_cpu, wide = p.t[<int> ITEM_DX].type == MX_DOUBLE
        cdef int count = <int> p.number[<int> ITEM_COUNT], i
        cdef int64_t size = type_size(<int> p.t[<int> ITEM_DX].type), local, groups, elements, needed = 0
        cdef list steps = []
        memset(&s, 0, sizeof(s))
        fill_item(p, &item)
        s.outer, s.inner, s.count, s.dy_step, s.places = item.outer, item.inner, item.count, item.dy_step, item.places
        for i in range(5):
            s.index_stride[i], s.len[i], s.stride[i] = item.index_stride[i], item.len[i], item.stride[i]
        s.outer_lines, s.inner_lines = grid_lines(&s.outer), grid_lines(&s.inner)
        s.error_stride = p.t[<int> ITEM_ERROR].stride[0]
        s.links, s.heads = s.count, 2 * s.count
        elements = s.count * s.outer_lines * s.outer.len[4] * s.inner_lines * s.inner.len[4]
        local = 1 if cpu else 32
        while not cpu and 2 * local <= min(<int64_t> TEAM, dev.max_work_group):
            local *= 2
        real = "double" if wide else "float"
        index = type_size(<int> p.t[<int> ITEM_INDEX].type) if count else 4
        defines = {"T": TOKENS[p.t[<int> ITEM_DX].type], "ACC": real, "SCALAR": real, "TENSORS": count, "LOCAL": local,
                   "INDEX_TYPE": "long" if index == 8 else "int", "ROWS": int(cpu), "VEC": 8 if wide else 16}
        dx = Arg.slot_of(ITEM_DX, size, p.number[<int> ITEM_OFFSET] * size)
        dy = Arg.slot_of(ITEM_DY, size)
        shape = struct_arg(&s, sizeof(s))
        space = Arg.slot_of(SLOT_WORKSPACE, 4) if count else dy
        if count:
            needed = 4 * (2 * s.count + s.places)
            tensors = [Arg.slot_of(ITEM_INDEX + i, index) for i in range(count)]
            groups = max(1, min(GROUPS * dev.compute_units, s.count // SHARE)) if cpu else ceil_div(s.count, local)
            steps.append(Step(KernelSpec("layers/getitem.cl", "getitem_places", **defines),
                              (*tensors, Arg.slot_of(ITEM_ERROR, 4), space, shape), (groups * local,), (local,)))
            groups = max(1, min(s.places, dev.compute_units * (1 if cpu else OWNERS), s.count // 64))
            steps.append(Step(KernelSpec("layers/getitem.cl", "getitem_links", **defines), (space, shape),
                              (groups * local,), (local,)))
        if cpu:
            groups = max(1, min(GROUPS * dev.compute_units, elements // SHARE))
        else:
            groups = ceil_div(elements, local)
        steps.append(Step(KernelSpec("layers/getitem.cl", "getitem_add", **defines), (dy, dx, space, shape),
                          (groups * local,), (local,)))
        return Solution(steps, needed)
