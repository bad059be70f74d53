"""Invokers: solutions ready to run, and the call that binds buffers to them and runs them.

A call checks what it has not seen before.  Each slot of an invoker remembers which buffer it held and what was found
right about it; the same buffer again is only asked whether it was released.  Kernels are told what changed.
"""

from os import urandom
from time import perf_counter

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from ._arena cimport Arena, make_arena
from ._binding cimport (
    OWN, SLOTS, call_t, found_among, release_temporaries, require_apart, slot_t, wait_and_sync,
)
from miopyx.runtime._buffers cimport (
    SVM_MEMORY, UNBOUND, binding_t, bind_device, bind_host, bound_t, fill_layout, is_bound, is_released, layout_t,
    raise_released, tensor_bytes, unbind,
)
from miopyx._core cimport ARG_SLOT, ARG_TICKET, ARG_TURN, ARG_VALUE, SLOT_WORKSPACE, Arg, Device, Offer, Step
from ._handle cimport Handle
from miopyx.values._guard cimport add_uint64, load_flag, load_uint64, store_double, store_uint64
from miopyx.values._lock cimport acquire, mx_lock_drop
from miopyx.runtime._runtime cimport Program, fork_generation, require, runtime_t, tensor_map_t
from miopyx.problem._problem cimport Problem

from miopyx.errors import AllocFailedError, BadParmError, MIOpenNotImplementedError, UnknownError, error

cdef enum:
    # About ten microseconds on the host: letting go of the GIL and getting it back costs as much as a tiny problem.
    QUICK_FLOPS = 1 << 17
    QUICK_BYTES = 1 << 16
    WORKSPACE_ALIGNMENT = 16  # bytes: kernels of GPUs keep vectors in it

# Of Arg.ticket: begins anywhere, so that what another process or an earlier call left in a workspace is no ticket.
cdef uint64_t tickets = int.from_bytes(urandom(6), "little") << 16


cdef class Invoker(Kept):
    """A solution ready to run: kernels created, constant arguments set.

    `offer` is for the handle's device; `config` is one that the solver accepts, None takes its default.
    """

    def __init__(self, Handle handle not None, Offer offer not None, tuple config=None):
        cdef int i
        cdef int64_t bytes = 0
        cdef Problem problem = offer.problem
        if offer.device is not handle.device:
            raise BadParmError("made for another device", "offer", offer, handle.device)
        self.solver, self.problem, self.data, self.device = offer.solver, problem, problem.data, handle.device
        self.rt = handle.device.place.rt
        self.slot = <slot_t*> calloc(problem.count + 1, sizeof(slot_t))
        if self.slot == NULL:
            raise AllocFailedError("no memory for an invoker")
        self.count = problem.count
        self.born = fork_generation
        self.config = offer.default_config() if config is None else config
        self.solution = offer.solution(self.config)
        for i in range(self.count):
            self.slot[i].need = problem.raw[i]
            if problem.tensor[i] != NULL:
                self.slot[i].need = tensor_bytes(problem.tensor[i])
                fill_layout(&self.slot[i].layout, problem.tensor[i], problem.rank[i])
            bytes += self.slot[i].need
        self.slot[self.count].need = self.solution.workspace
        if self.solution.workspace > handle.device.max_alloc and not handle.device.is_host:
            raise MIOpenNotImplementedError("the solution's workspace is larger than the device's buffers may be",
                                            "workspace", f"{self.solution.workspace} bytes of {self.solver.name}",
                                            f"<= {handle.device.max_alloc} bytes")
        if not handle.device.is_cpu:
            self.slot[self.count].width = WORKSPACE_ALIGNMENT
        self.quick = problem.flops < QUICK_FLOPS and bytes < QUICK_BYTES
        self.steps = <step_t*> calloc(len(self.solution.steps), sizeof(step_t))
        if self.steps == NULL:
            raise AllocFailedError("no memory for an invoker")
        for step in self.solution.steps:
            self.step_count += 1  # first: a step that fails half way owns memory, too
            self._prepare(handle, &self.steps[self.step_count - 1], step)

    def __dealloc__(self):
        cdef int i
        if self.slot != NULL:
            for i in range(self.count + 1):
                unbind(&self.slot[i].bound[0])
                unbind(&self.slot[i].bound[1])
            free(self.slot)
        if self.steps == NULL:
            return
        for i in range(self.step_count):
            if self.steps[i].unmapped != NULL:
                _free_step(self, self.steps[i].unmapped)
                free(self.steps[i].unmapped)
            _free_step(self, &self.steps[i])
        free(self.steps)

    cdef int _prepare(self, Handle handle, step_t* s, Step step, bint unmapped=False) except -1:
        """Make a step's kernel and set what is constant; `unmapped` is that of `step.unmapped`."""
        cdef Arg arg
        cdef Program program
        cdef const runtime_t* rt = self.rt
        cdef uint32_t index = 0
        cdef const char* value
        cdef int i, slot
        s.function = step.function
        s.dims, s.choose_local = step.dims, step.choose_local
        for i in range(3):
            s.global_size[i], s.local_size[i] = step.global_size[i], step.local_size[i]
        if step.spec is None:
            return 0
        spec = step.unmapped if unmapped else step.spec
        program = handle.program(spec)
        s.ticket_index = s.turn_index = -1
        s.repeats = step.repeats
        s.kernel = program.kernel(spec.entry.encode())
        s.slots = <slot_arg_t*> calloc(len(step.args), sizeof(slot_arg_t))
        s.scalars = <scalar_arg_t*> calloc(len(step.args), sizeof(scalar_arg_t))
        if s.slots == NULL or s.scalars == NULL:
            raise AllocFailedError("no memory for an invoker")
        for arg in step.args:
            if arg.kind == ARG_VALUE:
                value = arg.value
                require(rt, rt.set_arg(s.kernel, index, len(arg.value), value), f"setting argument {index}")
                index += 1
            elif arg.kind == ARG_TICKET:
                s.ticket_index = index
                index += 1
            elif arg.kind == ARG_TURN:
                s.turn_index = index
                index += 1
            elif arg.kind == ARG_SLOT:
                s.slots[s.slot_count].index = index
                slot = self.count if arg.slot == SLOT_WORKSPACE else arg.slot
                s.slots[s.slot_count].slot = slot
                self.slot[slot].width = max(self.slot[slot].width, arg.width)
                s.slots[s.slot_count].width, s.slots[s.slot_count].offset = arg.width, arg.offset
                s.slots[s.slot_count].start = -1
                index += 2
                if arg.map is not None and not unmapped:
                    s.slots[s.slot_count].map = <const tensor_map_t*> <const char*> arg.map
                    s.mapped = True
                    index -= 1
                s.slot_count += 1
            else:
                s.scalars[s.scalar_count].index, s.scalars[s.scalar_count].width = index, arg.width
                s.scalars[s.scalar_count].which = arg.slot
                s.scalar_count += 1
                index += 1
        return 0

    cdef step_t* _unmapped(self, Handle handle, int number) except NULL:
        """What runs where a map cannot be made, which is rare."""
        cdef step_t* made = self.steps[number].unmapped
        if made == NULL:
            made = <step_t*> calloc(1, sizeof(step_t))
            if made == NULL:
                raise AllocFailedError("no memory for an invoker")
            try:
                self._prepare(handle, made, self.solution.steps[number], True)
            except BaseException:
                _free_step(self, made)
                free(made)
                raise
            self.steps[number].unmapped = made
        return made

    cdef int _run_host(self, Handle handle, binding_t** slots, const double* scalars) except -1:
        """Run all steps.  Everything was checked before."""
        cdef void* pointers[SLOTS]
        cdef int i, status, threads = self.device.threads
        for i in range(self.count + 1):
            pointers[i] = slots[i].ptr
        cdef bint profile = load_flag(handle.profiling)  # once: another thread may switch it
        start = perf_counter() if profile else 0.0
        if self.quick:
            status = self._run_steps(pointers, scalars, threads)
        else:
            with nogil:
                status = self._run_steps(pointers, scalars, threads)
        if status != 0:
            raise error(status, f"{self.solver.name} failed")
        if profile:
            store_double(handle.kernel_time, (perf_counter() - start) * 1e3)
        return 0

    cdef int _run_steps(self, void** slots, const double* scalars, int threads) noexcept nogil:
        cdef int i, status = 0
        for i in range(self.step_count):
            status = self.steps[i].function(self.data, slots, scalars, threads)
            if status != 0:
                break
        return status

    cdef int _run_device(self, Handle handle, binding_t** slots, const double* scalars, int first,
                         int last) except -1:
        """Enqueue steps first ... last - 1; kernels are told what they do not know yet.  Everything was checked before.

        The constant steps, which take no scalars, run alone or not at all.
        """
        cdef int i, j
        cdef int32_t turn
        cdef step_t* s
        cdef slot_arg_t* a
        cdef binding_t* b
        cdef int64_t start
        cdef float narrow
        cdef double wide
        cdef void* event = NULL
        cdef const runtime_t* rt = self.rt
        cdef bint new_scalars, new, bound = True
        cdef uint64_t ticket
        cdef bint profile = load_flag(handle.profiling)
        cdef double elapsed = 0
        # By their bits: 0 and -0 are not the same.
        new_scalars = not self.scalars_bound or memcmp(scalars, self.scalars, sizeof(self.scalars)) != 0
        self.scalars_bound = False  # should a call below fail half way
        for i in range(first, last):
            s = &self.steps[i]
            new = new_scalars
            if s.mapped and not _set_maps(rt, s, slots):
                # Nobody remembers which of both kernels was told the last numbers.
                s, new, bound = self._unmapped(handle, i), True, False
            for j in range(s.slot_count):
                a = &s.slots[j]
                b = slots[a.slot]
                if a.map != NULL:
                    continue
                if b.serial == 0 or b.serial != a.serial:
                    a.serial = 0
                    if b.kind == SVM_MEMORY:
                        require(rt, rt.set_svm(s.kernel, a.index, b.ptr), "setting a memory argument")
                    else:
                        require(rt, rt.set_arg(s.kernel, a.index, sizeof(void*), &b.ptr), "setting a memory argument")
                    a.serial = b.serial
                start = b.offset + a.offset
                if start != a.start:
                    a.start = -1
                    start = start // a.width
                    require(rt, rt.set_arg(s.kernel, a.index + 1, sizeof(int64_t), &start), "setting an offset")
                    a.start = b.offset + a.offset
            if new:
                for j in range(s.scalar_count):
                    wide = scalars[s.scalars[j].which]
                    narrow = <float> wide
                    require(rt, rt.set_arg(s.kernel, s.scalars[j].index, s.scalars[j].width,
                                           <void*> &wide if s.scalars[j].width == 8 else <void*> &narrow),
                            "setting a number")
            for turn in range(s.repeats):
                if s.ticket_index >= 0:
                    ticket = add_uint64(tickets, 1 << 16)
                    require(rt, rt.set_arg(s.kernel, s.ticket_index, sizeof(ticket), &ticket), "setting a ticket")
                if s.turn_index >= 0:
                    require(rt, rt.set_arg(s.kernel, s.turn_index, sizeof(turn), &turn), "setting a turn")
                require(rt, rt.enqueue(handle.queue_ptr, s.kernel, s.dims, s.global_size,
                                       NULL if s.choose_local else s.local_size, &event if profile else NULL),
                        "launching a kernel")
                if profile:
                    elapsed += _event_ms(rt, event)
        if last == self.step_count:
            memcpy(self.scalars, scalars, sizeof(self.scalars))
            self.scalars_bound = bound
        if profile:
            store_double(handle.kernel_time, elapsed)
        return 0


cdef bint _set_maps(const runtime_t* rt, step_t* s, binding_t** slots) noexcept nogil:
    """Tell a kernel the tensor maps that it does not know yet; False where one cannot be made, as of odd addresses."""
    cdef int j
    cdef slot_arg_t* a
    cdef uint64_t at
    for j in range(s.slot_count):
        a = &s.slots[j]
        if a.map == NULL:
            continue
        at = <uint64_t> slots[a.slot].ptr + slots[a.slot].offset + a.offset
        if at % 16 != 0:
            return False
        if at != a.serial:  # a map depends on nothing but the address, whoever has that memory by now
            a.serial = 0
            if rt.set_map(s.kernel, a.index, <void*> at, a.map) != 0:
                return False
            a.serial = at
    return True


cdef int _free_step(Invoker invoker, step_t* s) noexcept:
    if s.kernel != NULL and invoker.born == fork_generation:
        invoker.rt.release_kernel(s.kernel)
    free(s.slots)
    free(s.scalars)
    return 0


cdef double _event_ms(const runtime_t* rt, void* event) except? -1:
    """Wait for a kernel and return its time; releases the event."""
    cdef double ms = 0
    cdef int32_t code
    with nogil:
        code = rt.elapsed(event, &ms)
    require(rt, code, "reading a kernel's time")
    return ms


cdef int execute(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                 Arena packed) except -1:
    """Check and bind the memory of a call, then run it; `scalars` are MX_SCALARS numbers.

    `names` are those of the buffers, of the workspace, and where that is not workSpaceSize of its size.

    A workspace size of OWN takes the handle's own arena, or `packed` where that is not None: what `pack` returned.
    Nothing is launched unless everything fits.
    """
    cdef int64_t need = invoker.slot[invoker.count].need
    if load_uint64(invoker.turn) != load_uint64(handle.turn):  # threads that call side by side write nothing they share
        store_uint64(invoker.turn, load_uint64(handle.turn))
    _require_ready(handle, invoker)
    if call.workspace_size != OWN and call.workspace_size < need:
        raise UnknownError("workspace is smaller than the solution needs",
                           names[call.count + 1] if len(names) > call.count + 1 else "workSpaceSize",
                           call.workspace_size, f">= {need} bytes")
    if handle.device.is_host:
        return _execute_host(handle, invoker, call, names, scalars)
    # The arena and the kernels' arguments belong to one call at a time; waiting, for a kernel's time or for host
    # memory, lets go of the GIL.
    acquire(&handle.lock)
    try:
        _require_ready(handle, invoker)  # another thread may have had the lock
        _execute_device(handle, invoker, call, names, scalars, packed)
    finally:
        mx_lock_drop(&handle.lock)
    return 0


cdef int execute_on(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                    void* stream) except -1:
    """`execute` on a stream of CUDA, which the handle then keeps, in a workspace of the caller's.

    Nothing waits for the stream before it: the handle's own workspace, which calls on both would share, is not used.
    """
    acquire(&handle.lock)
    try:
        _require_ready(handle, invoker)
        handle.turn_to(stream)
        _execute_device(handle, invoker, call, names, scalars, None)
    finally:
        mx_lock_drop(&handle.lock)
    return 0


cdef inline int _require_ready(Handle handle, Invoker invoker) except -1:
    handle.require_alive()
    if invoker.device is not handle.device:
        raise BadParmError("prepared for a context that the handle has left", "handle", handle, "a new plan")
    return 0


cdef int _execute_host(Handle handle, Invoker invoker, const call_t* call, tuple names,
                       const double* scalars) except -1:
    cdef binding_t bound[SLOTS]
    cdef binding_t* slots[SLOTS]
    cdef Problem problem = invoker.problem
    cdef slot_t* s
    cdef int i, slot, count = invoker.count
    cdef list held = None  # until the call is over
    for i in range(count + 1):
        bound[i].kind, bound[i].ptr = UNBOUND, NULL
        slots[i] = &bound[i]
    for i in range(call.count):
        slot = call.order[i]
        if slot >= 0:
            s = &invoker.slot[slot]
            keep = bind_host(<object> call.data[i], <str> names[i], problem.tensor[slot],
                             &s.layout if problem.tensor[slot] != NULL else NULL, s.need,
                             problem.written >> slot & 1, slots[slot])
            if keep is not None:
                held = _with(held, keep)
    if call.workspace_size > 0 and invoker.slot[count].need > 0:
        held = _with(held, bind_host(<object> call.data[call.count], <str> names[call.count], NULL, NULL,
                                     call.workspace_size, True, slots[count]))
    _require_ready(handle, invoker)
    require_apart(problem, call, names, slots, invoker.slot)
    return invoker._run_host(handle, slots, scalars)


cdef inline list _with(list held, object keep):
    if held is None:
        return [keep]
    held.append(keep)
    return held


cdef int _execute_device(Handle handle, Invoker invoker, const call_t* call, tuple names,
                         const double* scalars, Arena packed) except -1:
    cdef binding_t* slots[SLOTS]
    cdef binding_t none
    cdef Arena arena = packed  # held until the kernels are enqueued
    cdef int first = 0 if packed is None else invoker.solution.constant
    cdef int i, count = invoker.count
    cdef int64_t need = invoker.slot[count].need
    none.kind, none.ptr, none.temporary = UNBOUND, NULL, False
    for i in range(count + 1):
        slots[i] = &none
    if call.workspace_size == OWN and need != 0 and packed is None:
        handle.reserve_arena(need)  # first: it may run Python code, which could call us again
        arena = handle.arena
    if not _is_as_before(invoker, call, names, slots):
        return _execute_anew(handle, invoker, call, names, scalars, slots, packed)
    if arena is not None:
        slots[count] = &arena.binding
    return invoker._run_device(handle, slots, scalars, first, invoker.step_count)


cdef bint _is_as_before(Invoker invoker, const call_t* call, tuple names, binding_t** slots) except -1:
    """Whether all memory is what one of the last two calls passed, each in its slot; `slots` gets it.

    What the last call passed was found right together; of other combinations nothing may overlap.
    """
    cdef bound_t* s
    cdef slot_t* held
    cdef int place[SLOTS]
    cdef int i, slot, count = invoker.count
    cdef bint with_workspace = call.workspace_size != OWN and invoker.slot[count].need != 0
    cdef bint together = invoker.apart and (invoker.workspace_apart or not with_workspace)
    cdef const PyObject* data
    for i in range(call.count + with_workspace):
        slot = call.order[i] if i < call.count else count
        if slot >= 0:
            data = call.data[i]
            held = &invoker.slot[slot]
            place[slot] = held.current
            s = &held.bound[place[slot]]
            if not is_bound(s, <object> data):
                together = False
                place[slot] = 1 - place[slot]
                s = &held.bound[place[slot]]
                if not is_bound(s, <object> data):
                    return False
            if slot == count and s.b.size < call.workspace_size:
                return False
            if is_released(s.memory):
                raise_released(<object> data, <str> names[i])
            slots[slot] = &s.b
    if not together:
        require_apart(invoker.problem, call, names, slots, invoker.slot)
        for i in range(call.count + with_workspace):
            slot = call.order[i] if i < call.count else count
            if slot >= 0:
                invoker.slot[slot].current = place[slot]
        invoker.apart, invoker.workspace_apart = True, with_workspace
    return True


cdef int _execute_anew(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                       binding_t** slots, Arena packed) except -1:
    """Bind what is new.  What is remembered changes only when everything was found right."""
    cdef Arena arena = packed
    cdef int first = 0 if packed is None else invoker.solution.constant
    cdef Device dev = handle.device
    cdef Problem problem = invoker.problem
    cdef int i, slot, count = invoker.count
    cdef int64_t need = invoker.slot[count].need
    # What is looked at may call us again, and bind the same slots: they change when nothing of Python's runs any more.
    cdef binding_t mine[SLOTS]
    cdef bound_t fresh
    cdef bound_t* s
    cdef slot_t* held
    cdef int place[SLOTS]
    cdef bint blocking = False
    cdef object data
    cdef str name
    cdef int64_t calls = invoker.calls_anew + 1
    cdef list kept = []
    memset(&fresh, 0, sizeof(fresh))
    invoker.calls_anew = calls
    for i in range(count + 1):
        place[i] = invoker.slot[i].current
    try:
        for i in range(call.count + 1):
            slot = call.order[i] if i < call.count else count
            if slot < 0 or (slot == count and (need == 0 or call.workspace_size == OWN)):
                continue
            data = <object> call.data[i]
            name = <str> names[i]
            held = &invoker.slot[slot]
            s = found_among(held.bound, &place[slot], data, name, kept)
            if s == NULL or (slot == count and s.b.size < call.workspace_size):
                if slot < count:
                    kept.append(bind_device(data, name, problem.tensor[slot],
                                            &held.layout if problem.tensor[slot] != NULL else NULL, held.need,
                                            problem.written >> slot & 1, &dev.place,
                                            handle.queue_ptr, &fresh))
                else:
                    kept.append(bind_device(data, name, NULL, NULL, call.workspace_size, True, &dev.place,
                                            handle.queue_ptr, &fresh))
                if held.width > 1 and fresh.b.offset % held.width:  # tensors were looked at, other memory was not
                    raise BadParmError("misaligned offset", name, fresh.b.offset, f"multiple of {held.width}")
                place[slot] = 1 - held.current
                s = &held.bound[place[slot]]
                unbind(s)
                s[0] = fresh
                memset(&fresh, 0, sizeof(fresh))
            mine[slot] = s.b
            slots[slot] = &mine[slot]
            blocking = blocking or s.b.lent
        _require_ready(handle, invoker)
        require_apart(problem, call, names, slots, invoker.slot)
        if need != 0 and call.workspace_size == OWN:
            if arena is None:
                handle.reserve_arena(need)
                arena = handle.arena
            slots[count] = &arena.binding
        for i in range(count + 1):
            invoker.slot[i].current = place[i]
        invoker.apart = calls == invoker.calls_anew
        invoker.workspace_apart = need != 0 and call.workspace_size != OWN
        try:
            invoker._run_device(handle, slots, scalars, first, invoker.step_count)
        except BaseException:
            if blocking:  # what was enqueued before the error still uses memory that was lent
                handle.rt.finish(handle.queue_ptr)
            raise
        if blocking:
            wait_and_sync(handle, slots, count + 1, problem.written | 1 << count)
    finally:
        unbind(&fresh)
        release_temporaries(slots, count + 1)
    return 0


cdef Arena pack(Handle handle, Invoker invoker, int slot, object data, str name):
    """Run the constant steps on the weights `data`, which belong in `slot`, and wait for them.

    Returns a workspace that nobody else writes to, for later calls of `execute`; None where no step is constant.
    """
    cdef Problem problem = invoker.problem
    cdef slot_t* s = &invoker.slot[slot]
    cdef const layout_t* layout = &s.layout if problem.tensor[slot] != NULL else NULL
    cdef Arena arena = None
    cdef binding_t* slots[SLOTS]
    cdef binding_t none
    cdef bound_t bound
    cdef int i, count = invoker.count
    memset(&none, 0, sizeof(none))
    memset(&bound, 0, sizeof(bound))
    for i in range(count + 1):
        slots[i] = &none
    slots[slot] = &bound.b
    _require_ready(handle, invoker)
    if handle.device.is_host:
        bind_host(data, name, problem.tensor[slot], layout, s.need, False, &bound.b)
        return None
    acquire(&handle.lock)
    try:
        _keep = bind_device(data, name, problem.tensor[slot], layout, s.need, False, &handle.device.place,
                            handle.queue_ptr, &bound)
        if s.width > 1 and bound.b.offset % s.width:
            raise BadParmError("misaligned offset", name, bound.b.offset, f"multiple of {s.width}")
        _require_ready(handle, invoker)  # looking at `data` may run Python code
        if invoker.solution.constant > 0:
            arena = make_arena(invoker.slot[count].need, &handle.device.place, None, None, None)
            slots[count] = &arena.binding
            invoker._run_device(handle, slots, invoker.scalars, 0, invoker.solution.constant)
            handle.finish()
    finally:
        release_temporaries(slots, count + 1)
        unbind(&bound)
        mx_lock_drop(&handle.lock)
    return arena
