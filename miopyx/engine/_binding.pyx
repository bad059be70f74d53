"""The memory that a call passes: what each slot wants, and that nothing overlaps what is written."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Device
from miopyx.problem._problem cimport Problem, same_layout
from miopyx.runtime._buffers cimport (
    UNBOUND, binding_t, bind_device, bind_host, bound_t, fill_layout, is_bound, is_bound_array, is_released, layout_t,
    raise_released, tensor_bytes, unbind,
)
from miopyx.runtime._opencl cimport CL_MAP_READ, CL_TRUE, check, cl, cl_int
from miopyx.values._args cimport to_int64
from miopyx.values._types cimport mx_tensor
from ._handle cimport Handle

from miopyx.errors import BadParmError


cdef bound_t* found_among(bound_t* bound, int* place, object data, str name, list kept) except? NULL:
    """Return which of a slot's two memories is that of `data`, the last one first, NULL for neither.

    `kept` gets what must live until the call is over.
    """
    cdef bound_t* s
    cdef int _way
    for _way in range(2):
        s = &bound[place[0]]
        if is_bound(s, data):
            if is_released(s.memory):
                raise_released(data, name)
            return s
        if s.shape != NULL:
            base = is_bound_array(s, data, name)
            if base is not None:
                kept.append(base)
                return s
        place[0] = 1 - place[0]
    return NULL


cdef int check_arguments(Handle handle, Problem problem, const call_t* call, tuple names) except -1:
    """What `execute` checks before it launches anything, for a caller that will launch several solutions."""
    cdef bound_t bound[SLOTS]
    cdef binding_t* slots[SLOTS]
    cdef slot_t wanted[SLOTS]
    cdef slot_t* s
    cdef Device dev = handle.device
    cdef const mx_tensor* tensor
    cdef const layout_t* layout
    cdef int i, slot, count = problem.count
    cdef list kept = []
    memset(bound, 0, sizeof(bound))
    memset(wanted, 0, sizeof(wanted))
    for i in range(count + 1):
        slots[i] = &bound[i].b
        s = &wanted[i]
        s.need = call.workspace_size if i == count else problem.raw[i]
        if i < count and problem.tensor[i] != NULL:
            s.need = tensor_bytes(problem.tensor[i])
            fill_layout(&s.layout, problem.tensor[i], problem.rank[i])
    try:
        for i in range(call.count + 1):
            slot = call.order[i] if i < call.count else count
            if slot < 0 or (slot == count and call.workspace_size == 0):
                continue
            s = &wanted[slot]
            tensor = problem.tensor[slot] if slot < count else NULL
            layout = &s.layout if tensor != NULL else NULL
            output = slot == count or problem.written >> slot & 1
            if dev.is_host:
                kept.append(bind_host(<object> call.data[i], <str> names[i], tensor, layout, s.need, output,
                                      slots[slot]))
            else:
                kept.append(bind_device(<object> call.data[i], <str> names[i], tensor, layout, s.need, output,
                                        &dev.place, handle.queue_ptr, &bound[slot]))
        require_apart(problem, call, names, slots, wanted)
    finally:
        release_temporaries(slots, count + 1)
        for i in range(count + 1):
            unbind(&bound[i])
    return 0


cdef int64_t workspace_bytes(object workspace_size, str name="workSpaceSize") except -1:
    """The size of a caller's workspace; `name` is the function's for it."""
    cdef int64_t size = to_int64(workspace_size, name)
    if size < 0:
        raise BadParmError("negative size", name, size, ">= 0")
    return size


cdef int release_temporaries(binding_t** slots, int count) noexcept:
    cdef int i
    for i in range(count):
        if slots[i].temporary:
            slots[i].temporary = False
            cl.clReleaseMemObject(slots[i].ptr)
    return 0


cdef int require_apart(Problem problem, const call_t* call, tuple names, binding_t** slots,
                       const slot_t* wanted) except -1:
    """What is written, outputs and the workspace, must not share memory with anything, unless it may lie in place."""
    cdef int i, j, count = problem.count
    for i in range(count + 1):
        if i < count and not problem.written >> i & 1:
            continue
        for j in range(count + 1):
            if i != j and _overlap(slots[i], slots[j], wanted[i].need, wanted[j].need):
                if (i == problem.output and j < count and problem.in_place >> j & 1
                        and slots[i].root_offset == slots[j].root_offset
                        and same_layout(problem.tensor[i], problem.tensor[j])):
                    continue
                raise BadParmError(f"shares memory with {names[_argument(call, i)]}", names[_argument(call, j)],
                                   f"{wanted[j].need} bytes at {slots[j].root_offset}", "memory of its own")
    return 0


cdef int _argument(const call_t* call, int slot) noexcept:
    cdef int i
    for i in range(call.count):
        if call.order[i] == slot:
            return i
    return call.count


cdef bint _overlap(const binding_t* a, const binding_t* b, int64_t need_a, int64_t need_b) noexcept:
    if a.kind == UNBOUND or b.kind == UNBOUND or need_a == 0 or need_b == 0 or a.root != b.root:
        return False
    return a.root_offset < b.root_offset + need_b and b.root_offset < a.root_offset + need_a


cdef int wait_and_sync(Handle handle, binding_t** slots, int count, int64_t written) except -1:
    """Host memory was lent to the device: wait, and map each written cl_mem, which is when OpenCL promises content."""
    cdef cl_int code
    cdef int j
    cdef bint mapped = False
    cdef void* address
    handle.finish()
    for j in range(count):
        if slots[j].temporary and written >> j & 1:
            mapped = True
            address = cl.clEnqueueMapBuffer(handle.queue_ptr, slots[j].ptr, CL_TRUE, CL_MAP_READ, 0, slots[j].size, 0,
                                            NULL, NULL, &code)
            check(code, "clEnqueueMapBuffer")
            check(cl.clEnqueueUnmapMemObject(handle.queue_ptr, slots[j].ptr, address, 0, NULL, NULL),
                  "clEnqueueUnmapMemObject")
    if mapped:
        handle.finish()
    return 0
