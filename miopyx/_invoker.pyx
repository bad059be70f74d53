"""Invokers: solutions ready to run, and the call that binds buffers to them and runs them.

A call checks what it has not seen before.  Each slot of an invoker remembers which buffer it held and what was found
right about it; the same buffer again is only asked whether it was released.  Kernels are told what changed.
"""

from time import perf_counter

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from ._args cimport to_int64
from ._buffers cimport (
    SVM_MEMORY, UNBOUND, binding_t, bind_device, bind_host, bound_t, fill_layout, is_bound, is_bound_array, is_released,
    layout_t, raise_released, tensor_bytes, unbind,
)
from ._core cimport ARG_BETA, ARG_SLOT, ARG_VALUE, SLOT_WORKSPACE, SLOTS, Arg, Device, Solver, Step
from ._handle cimport Handle
from ._lock cimport acquire, mx_lock_drop
from ._opencl cimport (
    CL_MAP_READ, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_START, CL_TRUE, Program, check, cl, cl_int, cl_uint,
    cl_ulong, fork_generation,
)
from ._problem cimport Problem

from .errors import AllocFailedError, BadParmError, UnknownError, error

cdef enum:
    # About ten microseconds on the host: letting go of the GIL and getting it back costs as much as a tiny problem.
    QUICK_FLOPS = 1 << 17
    QUICK_BYTES = 1 << 16


cdef class Invoker:
    """A solution ready to run: kernels created, constant arguments set.

    `config` is one that the solver accepts; None takes its default.
    """

    def __init__(self, Handle handle not None, Solver solver not None, Problem problem not None, tuple config=None):
        cdef int i
        self.solver, self.problem, self.data, self.device = solver, problem, problem.data, handle.device
        self.born = fork_generation
        self.config = solver.default_config(handle.device, problem) if config is None else config
        self.solution = solver.solution(handle.device, problem, self.config)
        for i in range(3):
            if problem.tensor[i] != NULL:
                self.need[i] = tensor_bytes(problem.tensor[i])
                fill_layout(&self.layout[i], problem.tensor[i], problem.rank)
        self.need[SLOT_WORKSPACE] = self.solution.workspace
        self.quick = problem.flops < QUICK_FLOPS and self.need[0] + self.need[1] + self.need[2] < QUICK_BYTES
        self.steps = <step_t*> calloc(len(self.solution.steps), sizeof(step_t))
        if self.steps == NULL:
            raise AllocFailedError("no memory for an invoker")
        for step in self.solution.steps:
            self.step_count += 1  # first: a step that fails half way owns memory, too
            self._prepare(handle, &self.steps[self.step_count - 1], step)

    def __dealloc__(self):
        cdef int i
        for i in range(SLOTS):
            unbind(&self.bound[i][0])
            unbind(&self.bound[i][1])
        if self.steps == NULL:
            return
        for i in range(self.step_count):
            if self.steps[i].kernel != NULL and self.born == fork_generation:
                cl.clReleaseKernel(self.steps[i].kernel)
            free(self.steps[i].slots)
            free(self.steps[i].scalars)
        free(self.steps)

    cdef int _prepare(self, Handle handle, step_t* s, Step step) except -1:
        cdef Arg arg
        cdef Program program
        cdef cl_uint index = 0
        cdef const char* value
        cdef int i
        s.function = step.function
        s.dims, s.choose_local = step.dims, step.choose_local
        for i in range(3):
            s.global_size[i], s.local_size[i] = step.global_size[i], step.local_size[i]
        if step.spec is None:
            return 0
        program = handle.program(step.spec)
        s.kernel = program.kernel(step.spec.entry.encode())
        s.slots = <slot_arg_t*> calloc(len(step.args), sizeof(slot_arg_t))
        s.scalars = <scalar_arg_t*> calloc(len(step.args), sizeof(scalar_arg_t))
        if s.slots == NULL or s.scalars == NULL:
            raise AllocFailedError("no memory for an invoker")
        for arg in step.args:
            if arg.kind == ARG_VALUE:
                value = arg.value
                check(cl.clSetKernelArg(s.kernel, index, len(arg.value), value), f"clSetKernelArg({index})")
                index += 1
            elif arg.kind == ARG_SLOT:
                s.slots[s.slot_count].index, s.slots[s.slot_count].slot = index, arg.slot
                s.slots[s.slot_count].width, s.slots[s.slot_count].offset = arg.width, arg.offset
                s.slots[s.slot_count].start = -1
                s.slot_count += 1
                index += 2
            else:
                s.scalars[s.scalar_count].index, s.scalars[s.scalar_count].width = index, arg.width
                s.scalars[s.scalar_count].which = arg.kind == ARG_BETA
                s.scalar_count += 1
                index += 1
        return 0

    cdef int _run_host(self, Handle handle, binding_t** slots, double alpha, double beta) except -1:
        """Run all steps.  Everything was checked before."""
        cdef double scalars[2]
        cdef void* pointers[SLOTS]
        cdef int i, status, threads = self.device.threads
        scalars[0], scalars[1] = alpha, beta
        for i in range(SLOTS):
            pointers[i] = slots[i].ptr
        cdef bint profile = handle.profiling  # once: another thread may switch it
        start = perf_counter() if profile else 0.0
        if self.quick:
            status = self._run_steps(pointers, scalars, threads)
        else:
            with nogil:
                status = self._run_steps(pointers, scalars, threads)
        if status != 0:
            raise error(status, f"{self.solver.name} failed")
        if profile:
            handle.kernel_time = (perf_counter() - start) * 1e3
        return 0

    cdef int _run_steps(self, void** slots, const double* scalars, int threads) noexcept nogil:
        cdef int i, status = 0
        for i in range(self.step_count):
            status = self.steps[i].function(self.data, slots, scalars, threads)
            if status != 0:
                break
        return status

    cdef int _run_device(self, Handle handle, binding_t** slots, double alpha, double beta) except -1:
        """Enqueue all steps; kernels are told what they do not know yet.  Everything was checked before."""
        cdef int i, j
        cdef step_t* s
        cdef slot_arg_t* a
        cdef binding_t* b
        cdef int64_t start
        cdef float narrow
        cdef double wide
        cdef void* event = NULL
        cdef double scalars[2]
        cdef bint new_scalars
        cdef bint profile = handle.profiling
        cdef double elapsed = 0
        scalars[0], scalars[1] = alpha, beta
        # By their bits: 0 and -0 are not the same.
        new_scalars = not self.scalars_bound or memcmp(scalars, self.scalars, sizeof(scalars)) != 0
        self.scalars_bound = False  # should a call below fail half way
        for i in range(self.step_count):
            s = &self.steps[i]
            for j in range(s.slot_count):
                a = &s.slots[j]
                b = slots[a.slot]
                if b.serial == 0 or b.serial != a.serial:
                    a.serial = 0
                    if b.kind == SVM_MEMORY:
                        check(cl.clSetKernelArgSVMPointer(s.kernel, a.index, b.ptr), "clSetKernelArgSVMPointer")
                    else:
                        check(cl.clSetKernelArg(s.kernel, a.index, sizeof(void*), &b.ptr), "clSetKernelArg")
                    a.serial = b.serial
                start = b.offset + a.offset
                if start != a.start:
                    a.start = -1
                    start = start // a.width
                    check(cl.clSetKernelArg(s.kernel, a.index + 1, sizeof(int64_t), &start), "clSetKernelArg")
                    a.start = b.offset + a.offset
            if new_scalars:
                for j in range(s.scalar_count):
                    wide = beta if s.scalars[j].which else alpha
                    narrow = <float> wide
                    check(cl.clSetKernelArg(s.kernel, s.scalars[j].index, s.scalars[j].width,
                                            <void*> &wide if s.scalars[j].width == 8 else <void*> &narrow),
                          "clSetKernelArg")
            check(cl.clEnqueueNDRangeKernel(handle.queue_ptr, s.kernel, s.dims, NULL, s.global_size,
                                            NULL if s.choose_local else s.local_size, 0, NULL,
                                            &event if profile else NULL), "clEnqueueNDRangeKernel")
            if profile:
                elapsed += _event_ms(event)
        self.scalars[0], self.scalars[1], self.scalars_bound = alpha, beta, True
        if profile:
            handle.kernel_time = elapsed
        return 0


cdef double _event_ms(void* event) except? -1:
    """Wait for a kernel and return its time; releases the event."""
    cdef cl_ulong start = 0, end = 0
    cdef cl_int code
    with nogil:
        code = cl.clWaitForEvents(1, &event)
        if code == 0:
            code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, 8, &start, NULL)
        if code == 0:
            code = cl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, 8, &end, NULL)
        cl.clReleaseEvent(event)
    check(code, "reading a kernel's time")
    return <double> (end - start) * 1e-6


cdef int execute(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                 object workspace, int64_t workspace_size, double alpha, double beta) except -1:
    """Check and bind the tensors and the workspace of a call, then run it.

    `order[i]` is the slot of argument i (-1: there is no such argument), `names[i]` its name; a workspace_size of OWN
    takes the handle's own arena.  Nothing is launched unless everything fits.
    """
    _require_ready(handle, invoker)
    if workspace_size != OWN and workspace_size < invoker.need[SLOT_WORKSPACE]:
        raise UnknownError("workspace is smaller than the solution needs", "workSpaceSize", workspace_size,
                           f">= {invoker.need[SLOT_WORKSPACE]} bytes")
    if handle.device.is_host:
        return _execute_host(handle, invoker, order, names, a, b, c, workspace, workspace_size, alpha, beta)
    # The arena and the kernels' arguments belong to one call at a time; waiting, for a kernel's time or for host
    # memory, lets go of the GIL.
    acquire(&handle.lock)
    try:
        _require_ready(handle, invoker)  # another thread may have had the lock
        _execute_device(handle, invoker, order, names, a, b, c, workspace, workspace_size, alpha, beta)
    finally:
        mx_lock_drop(&handle.lock)
    return 0


cdef inline int _require_ready(Handle handle, Invoker invoker) except -1:
    handle.require_alive()
    if invoker.device is not handle.device:
        raise BadParmError("prepared for a context that the handle has left", "handle", handle, "a new plan")
    return 0


cdef int _execute_host(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                       object workspace, int64_t workspace_size, double alpha, double beta) except -1:
    cdef binding_t bound[SLOTS]
    cdef binding_t* slots[SLOTS]
    cdef Problem problem = invoker.problem
    cdef int i
    held_a = held_b = held_c = held_workspace = None  # until the call is over
    for i in range(SLOTS):
        bound[i].kind, bound[i].ptr = UNBOUND, NULL
        slots[i] = &bound[i]
    if order[0] >= 0:
        held_a = _bind_host(invoker, a, order[0], <str> names[0], slots)
    if order[1] >= 0:
        held_b = _bind_host(invoker, b, order[1], <str> names[1], slots)
    if order[2] >= 0:
        held_c = _bind_host(invoker, c, order[2], <str> names[2], slots)
    if workspace_size > 0 and invoker.need[SLOT_WORKSPACE] > 0:
        held_workspace = bind_host(workspace, "workSpace", NULL, NULL, workspace_size, True, slots[SLOT_WORKSPACE])
    _require_ready(handle, invoker)
    _require_apart(problem, order, names, slots, invoker.need)
    return invoker._run_host(handle, slots, alpha, beta)


cdef object _bind_host(Invoker invoker, object data, int slot, str name, binding_t** slots):
    cdef Problem problem = invoker.problem
    return bind_host(data, name, problem.tensor[slot], &invoker.layout[slot], invoker.need[slot],
                     slot == problem.output, slots[slot])


cdef int _execute_device(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                         object workspace, int64_t workspace_size, double alpha, double beta) except -1:
    cdef binding_t* slots[SLOTS]
    cdef binding_t none
    cdef binding_t arena
    cdef bint own = workspace_size == OWN
    cdef int i
    none.kind, none.temporary = UNBOUND, False
    for i in range(SLOTS):
        slots[i] = &none
    if not _is_as_before(invoker, order, names, a, b, c, workspace, workspace_size, slots):
        return _execute_anew(handle, invoker, order, names, a, b, c, workspace, workspace_size, alpha, beta, slots)
    if own and invoker.need[SLOT_WORKSPACE] != 0:
        handle.bind_arena(invoker.need[SLOT_WORKSPACE], &arena)
        slots[SLOT_WORKSPACE] = &arena
    return invoker._run_device(handle, slots, alpha, beta)


cdef bint _is_as_before(Invoker invoker, const int* order, tuple names, object a, object b, object c,
                        object workspace, int64_t workspace_size, binding_t** slots) except -1:
    """Whether all memory is what one of the last two calls passed, each in its slot; `slots` gets it.

    What the last call passed was found right together; of other combinations nothing may overlap.
    """
    cdef bound_t* s
    cdef int place[SLOTS]
    cdef int i, slot
    cdef bint with_workspace = workspace_size != OWN and invoker.need[SLOT_WORKSPACE] != 0
    cdef bint together = invoker.apart and (invoker.workspace_apart or not with_workspace)
    for i in range(4 if with_workspace else 3):
        slot = order[i] if i < 3 else <int> SLOT_WORKSPACE
        if slot >= 0:
            data = a if i == 0 else b if i == 1 else c if i == 2 else workspace
            place[slot] = invoker.current[slot]
            s = &invoker.bound[slot][place[slot]]
            if not is_bound(s, data):
                together = False
                place[slot] = 1 - place[slot]
                s = &invoker.bound[slot][place[slot]]
                if not is_bound(s, data):
                    return False
            if i == 3 and s.b.size < workspace_size:
                return False
            if is_released(s.memory):
                raise_released(data, <str> names[i])
            slots[slot] = &s.b
    if not together:
        _require_apart(invoker.problem, order, names, slots, invoker.need)
        for i in range(4 if with_workspace else 3):
            slot = order[i] if i < 3 else <int> SLOT_WORKSPACE
            if slot >= 0:
                invoker.current[slot] = place[slot]
        invoker.apart, invoker.workspace_apart = True, with_workspace
    return True


cdef int _execute_anew(Handle handle, Invoker invoker, const int* order, tuple names, object a, object b, object c,
                       object workspace, int64_t workspace_size, double alpha, double beta,
                       binding_t** slots) except -1:
    """Bind what is new.  What is remembered changes only when everything was found right."""
    cdef binding_t arena
    cdef Device dev = handle.device
    cdef Problem problem = invoker.problem
    cdef int64_t need = invoker.need[SLOT_WORKSPACE]
    # What is looked at may call us again, and bind the same slots: they change when nothing of Python's runs any more.
    cdef binding_t mine[SLOTS]
    cdef bound_t fresh
    cdef bound_t* s
    cdef int i, slot
    cdef int place[SLOTS]
    cdef bint blocking = False
    cdef str name
    cdef int64_t calls = invoker.calls_anew + 1
    cdef list held = []
    memset(&fresh, 0, sizeof(fresh))
    invoker.calls_anew = calls
    for i in range(SLOTS):
        place[i] = invoker.current[i]
    try:
        for i in range(4):
            slot = SLOT_WORKSPACE if i == 3 else order[i]
            if slot < 0 or (i == 3 and (need == 0 or workspace_size == OWN)):
                continue
            data = a if i == 0 else b if i == 1 else c if i == 2 else workspace
            name = <str> names[i]
            s = _found(invoker.bound[slot], &place[slot], data, name)
            if s == NULL or (i == 3 and s.b.size < workspace_size):
                if i < 3:
                    held.append(bind_device(data, name, problem.tensor[slot], &invoker.layout[slot],
                                            invoker.need[slot], slot == problem.output, dev.shares_memory,
                                            <void*> dev.context_ptr, &fresh))
                else:
                    held.append(bind_device(data, name, NULL, NULL, workspace_size, True, dev.shares_memory,
                                            <void*> dev.context_ptr, &fresh))
                place[slot] = 1 - invoker.current[slot]
                s = &invoker.bound[slot][place[slot]]
                unbind(s)
                s[0] = fresh
                memset(&fresh, 0, sizeof(fresh))
            mine[slot] = s.b
            slots[slot] = &mine[slot]
            blocking = blocking or s.b.temporary
        _require_ready(handle, invoker)
        _require_apart(problem, order, names, slots, invoker.need)
        if need != 0 and workspace_size == OWN:
            handle.bind_arena(need, &arena)
            slots[SLOT_WORKSPACE] = &arena
        for i in range(SLOTS):
            invoker.current[i] = place[i]
        invoker.apart = calls == invoker.calls_anew
        invoker.workspace_apart = need != 0 and workspace_size != OWN
        invoker._run_device(handle, slots, alpha, beta)
        if blocking:
            _wait_and_sync(handle, slots)
    finally:
        unbind(&fresh)
        _release_temporaries(slots)
    return 0


cdef bound_t* _found(bound_t* bound, int* place, object data, str name) except? NULL:
    """Return which of a slot's two memories is that of `data`, the last one first, NULL for neither."""
    cdef bound_t* s
    cdef int _way
    for _way in range(2):
        s = &bound[place[0]]
        if is_bound(s, data):
            if is_released(s.memory):
                raise_released(data, name)
            return s
        if s.shape != NULL and is_bound_array(s, data, name):
            return s
        place[0] = 1 - place[0]
    return NULL


cdef int check_arguments(Handle handle, Problem problem, const int* order, tuple names, object a, object b, object c,
                         object workspace, int64_t workspace_size) except -1:
    """What `execute` checks before it launches anything, for a caller that will launch several solutions."""
    cdef bound_t bound[SLOTS]
    cdef binding_t* slots[SLOTS]
    cdef layout_t layout
    cdef int64_t need[SLOTS]
    cdef Device dev = handle.device
    cdef int i, slot
    cdef list held = []
    memset(bound, 0, sizeof(bound))
    for i in range(SLOTS):
        slots[i] = &bound[i].b
        need[i] = tensor_bytes(problem.tensor[i]) if i < 3 and problem.tensor[i] != NULL else workspace_size
    try:
        for i in range(4):
            slot = SLOT_WORKSPACE if i == 3 else order[i]
            if i == 3 and workspace_size == 0:
                continue
            data = a if i == 0 else b if i == 1 else c if i == 2 else workspace
            if i < 3:
                fill_layout(&layout, problem.tensor[slot], problem.rank)
            if dev.is_host:
                held.append(bind_host(data, <str> names[i], problem.tensor[slot] if i < 3 else NULL,
                                      &layout if i < 3 else NULL, need[slot], i == 3 or slot == problem.output,
                                      slots[slot]))
            else:
                held.append(bind_device(data, <str> names[i], problem.tensor[slot] if i < 3 else NULL,
                                        &layout if i < 3 else NULL, need[slot], i == 3 or slot == problem.output,
                                        dev.shares_memory, <void*> dev.context_ptr, &bound[slot]))
        _require_apart(problem, order, names, slots, need)
    finally:
        _release_temporaries(slots)
        for i in range(SLOTS):
            unbind(&bound[i])
    return 0


cdef int64_t workspace_bytes(object workspace_size) except -1:
    """The workSpaceSize of a caller."""
    cdef int64_t size = to_int64(workspace_size, "workSpaceSize")
    if size < 0:
        raise BadParmError("negative size", "workSpaceSize", size, ">= 0")
    return size


cdef int _release_temporaries(binding_t** slots) noexcept:
    cdef int i
    for i in range(SLOTS):
        if slots[i].temporary:
            slots[i].temporary = False
            cl.clReleaseMemObject(slots[i].ptr)
    return 0


cdef int _require_apart(Problem problem, const int* order, tuple names, binding_t** slots,
                        const int64_t* need) except -1:
    """What is written, the output and the workspace, must not share memory with anything."""
    cdef int i, j, k
    for k in range(2):
        i = problem.output if k == 0 else <int> SLOT_WORKSPACE
        for j in range(SLOTS):
            if i != j and _overlap(slots[i], slots[j], need[i], need[j]):
                raise BadParmError(f"shares memory with {names[_argument(order, i)]}", names[_argument(order, j)],
                                   f"{need[j]} bytes at {slots[j].root_offset}", "memory of its own")
    return 0


cdef int _argument(const int* order, int slot) noexcept:
    cdef int i
    for i in range(3):
        if order[i] == slot:
            return i
    return 3


cdef bint _overlap(const binding_t* a, const binding_t* b, int64_t need_a, int64_t need_b) noexcept:
    if a.kind == UNBOUND or b.kind == UNBOUND or need_a == 0 or need_b == 0 or a.root != b.root:
        return False
    return a.root_offset < b.root_offset + need_b and b.root_offset < a.root_offset + need_a


cdef int _wait_and_sync(Handle handle, binding_t** slots) except -1:
    """Host memory was lent to the device: wait, and map it, which is when OpenCL promises its content."""
    cdef cl_int code
    cdef int j
    cdef void* address
    with nogil:
        code = cl.clFinish(handle.queue_ptr)
    check(code, "clFinish")
    for j in range(SLOTS):
        if slots[j].temporary:
            address = cl.clEnqueueMapBuffer(handle.queue_ptr, slots[j].ptr, CL_TRUE, CL_MAP_READ, 0, slots[j].size, 0,
                                            NULL, NULL, &code)
            check(code, "clEnqueueMapBuffer")
            check(cl.clEnqueueUnmapMemObject(handle.queue_ptr, slots[j].ptr, address, 0, NULL, NULL),
                  "clEnqueueUnmapMemObject")
    with nogil:
        code = cl.clFinish(handle.queue_ptr)
    check(code, "clFinish")
    return 0
