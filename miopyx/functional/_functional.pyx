"""Operations on arrays, one call each: ``y = miopyx.conv2d(x, w)``.

A call reads its arrays (`runtime/_arrays`), and what it read, with the call's numbers, is the key of what was prepared
for such a call before: a plan, and lengths, strides and type of the result.  So a repeated call is a look-up, a new
array, and a plan's call.
"""

import sys

import numpy

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF, Py_XINCREF
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy, memset

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.engine._plan cimport Plan
from miopyx.problem._activation cimport ActivationDescriptor, as_activation
from miopyx.problem._descriptors cimport is_ocp8, type_size
from miopyx.problem._problem cimport hash_bytes
from miopyx.runtime._buffers cimport is_same_stream
from miopyx.runtime._cuda cimport cuda
from miopyx.runtime._arrays cimport (
    ARRAY_AXES, DL_CPU, DL_CUDA, DLManagedTensorVersioned, DLPackExchangeAPI, DLTensor, Memory, array_t,
    current_stream, describe_array, device_text, dl_type_of, exchange_api, is_on_host, made_array, read_array,
    read_cuda_array, type_text,
)
from miopyx.values._guard cimport load_int64, mx_guard, mx_guard_lock, mx_guard_unlock
from miopyx.values._args cimport to_double, to_epsilon, to_flag, to_int64, to_member
from miopyx.values._types cimport MX_INT64, MX_SLOTS

from miopyx import enums
from miopyx.api._handle import Handle
from miopyx.device.cuda import library
from miopyx.errors import AllocFailedError, BadParmError, MIOpenError, MIOpenNotImplementedError
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor, numpy_type, renamed, set_attribute
from miopyx.problem._lrn import LRNDescriptor
from miopyx.problem._pooling import PoolingDescriptor
from miopyx.runtime import _cuda

cnp.import_array()

__all__ = ["activation", "avg_pool2d", "avg_pool3d", "batch_norm", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
           "conv_transpose2d", "conv_transpose3d", "elu", "leaky_relu", "local_response_norm", "log_softmax",
           "max_pool2d", "max_pool3d", "relu", "relu6", "sigmoid", "softmax", "softplus", "tanh"]


cdef class Prepared:
    """What was made for a call: the plan, one that adds a bias, and the result."""

    def __init__(self, Plan plan, lens, order=None, Plan bias=None):
        self.plan, self.lens, self.order, self.bias = plan, tuple(lens), order, bias
        memcpy(self.scalars, plan.default, sizeof(self.scalars))


cdef class Kept:
    """What was asked for, and what was prepared for it."""


cdef inline dict _calls_of(_Handle handle):
    mx_guard_lock(&handle.guard)
    calls = handle.calls
    mx_guard_unlock(&handle.guard)
    return calls


cdef size_t _size(const ask_t* ask) noexcept:
    """The bytes of it that say something."""
    return <const char*> &ask.side[ask.sides] - <const char*> ask


# A call is made and dropped for each operation, and is no part of a cycle: garbage collection need not count it.
@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Call:
    """One call's arrays, as they were read."""

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            Py_XDECREF(self.name[i])
            Py_XDECREF(self.owner[i])
            Py_XDECREF(self.made[i])

    cdef int take(self, object data, str name, bint optional=False) except -1:
        """Read an array; None, where it may be left out, is one of type -1."""
        cdef int i, at = self.count
        cdef array_t* a = &self.array[at]
        cdef int64_t* side = &self.ask.side[self.ask.sides]
        if data is None:
            if not optional:
                raise BadParmError("null", name, None, "an array")
            self._give(at, name, NULL)
            self.ask.type[at] = -1
            return 0
        if is_queued(data):
            describe_array(a, data.dtype, data.shape, data.strides, name)
            a.device = 4
            self._give(at, name, <PyObject*> data)
        else:
            held = _read(data, name, a, &self.writer[at])
            if not is_on_host(a):
                self._take_device(a, data, name, self.writer[at])
            elif self.handle is not None and self.handle.rt == &cuda:
                raise BadParmError("memory of the host", name, type(data).__name__, self.handle.device.name)
            if held is None or self.on_stream and not is_same_stream(self.writer[at], self.stream):
                held = data
            self._give(at, name, <PyObject*> held)
        if not self.gradients and getattr(data, "requires_grad", False) and _keeps_gradients():
            raise BadParmError("its gradient would be lost", name, type(data).__name__,
                               "detach() of it, or a call under torch.no_grad()")
        if self.first is None:
            self.first = data
            if self.handle is None:
                self.handle = _handle_of(data)
        if a.type < 0 or a.swapped:
            raise BadParmError("an array of a type that is not computed with", name, type_text(data),
                               ", ".join(enums.DATA_TYPES))
        if a.rank > ARRAY_AXES:
            raise BadParmError("too many axes", name, a.rank, f"<= {ARRAY_AXES}")
        if <size_t> a.ptr % <size_t> a.width:
            raise BadParmError("misaligned array", name, hex(<size_t> a.ptr), f"multiple of {a.width}")
        self.ask.type[at], self.ask.rank[at] = a.type, a.rank
        for i in range(a.rank):
            side[2 * i], side[2 * i + 1] = a.len[i], a.step[i]
        self.ask.sides += 2 * a.rank
        return 0

    cdef int _give(self, int at, str name, PyObject* owner) except -1:
        Py_INCREF(name)
        Py_XINCREF(owner)
        self.name[at], self.owner[at] = <PyObject*> name, owner
        self.count = at + 1
        return 0

    cdef str given(self, int at):
        """The name of an array."""
        return <str> <object> self.name[at]

    cdef int _take_device(self, const array_t* a, object data, str name, void* stream) except -1:
        """See to it that an array of a device is on the call's, which the first one names where no handle does."""
        cdef int device = a.device_id
        if a.device != DL_CUDA:
            raise BadParmError("memory of another device", name, device_text(a), "memory of the host or of CUDA")
        if device < 0:  # nobody said whose it is
            _cuda.load(library())
            device = _cuda.device_of_address(<size_t> a.ptr, name)
        if self.first is None and self.handle is None:
            self.handle = _cuda_handle(device)
            self.on_stream, self.stream = True, stream
        if self.handle.rt != &cuda or device != self.handle.device.place.ordinal:
            raise BadParmError("memory of another device", name, device_text(a), self.handle.device.name)
        return 0

    cdef PyObject* memory(self, int at) except NULL:
        """What a plan takes for an array of the call, None for one that was left out; borrowed from the call."""
        if self.made[at] == NULL:
            if self.owner[at] == NULL:
                return <PyObject*> None
            owner = <object> self.owner[at]
            if not is_queued(owner) and not (self.on_stream and not is_same_stream(self.writer[at], self.stream)):
                owner = self._memory(&self.array[at], owner)  # else a plan reads it, and waits for its stream
            self.put(at, owner)
        return self.made[at]

    cdef int put(self, int at, object memory) except -1:
        """Let plans have that for an array."""
        Py_XDECREF(self.made[at])
        Py_INCREF(memory)
        self.made[at] = <PyObject*> memory
        return 0

    cdef object _memory(self, const array_t* a, object data):
        """What a plan takes for an array that was read."""
        if self.handle is None or self.handle.rt != &cuda or self.on_stream:
            return Memory.of(a, data)
        return data  # a handle with a stream of its own waits for that of the array's library, which it asks for

    cdef object memory_of(self, object data):
        """What a plan takes for a new array."""
        cdef array_t read
        if is_queued(data):
            return data
        held = read_array(data, "y", &read)
        return self._memory(&read, data if held is None else held)

    cdef int call(self, Plan plan, PyObject** data, const double* scalars) except -1:
        """Call a plan, with room behind the buffers.

        Under CUDA with the array's own stream, and a workspace of its library: memory that it may use again at once
        is what nothing on that stream needs any more, and it works while a graph is captured.
        """
        cdef array_t read
        cdef int64_t need
        if plan.is_logged and not self.tried:
            plan.log_run({name: scalars[i] for i, name in enumerate(plan.scalars)})
        if not self.on_stream:
            return plan._run(data, scalars)
        need = plan.invoker.solution.workspace
        if need:
            workspace = new_array(self.first, &self.array[0], ((need + 7) // 8,), MX_INT64, None)
            read_array(workspace, "workspace", &read)
            memory = Memory.of(&read, workspace)
            data[plan.count] = <PyObject*> memory
        return plan.run_on(data, scalars, self.stream)

    cdef object known(self):
        """What was kept for a call that asked for the same."""
        cdef Kept kept
        cdef dict calls = _calls_of(self.handle)
        self.math_changes = load_int64(self.handle.math_changes)
        if calls is None:
            return None
        kept = calls.get(hash_bytes(&self.ask, _size(&self.ask)))
        while kept is not None and memcmp(&kept.ask, &self.ask, _size(&self.ask)) != 0:
            kept = kept.next
        return None if kept is None else kept.prepared

    cdef object keep(self, object prepared):
        cdef Kept kept = Kept()
        cdef dict calls = _calls_of(self.handle), new = {}
        if calls is None:
            mx_guard_lock(&self.handle.guard)
            if self.handle.calls is None:
                self.handle.calls = new
            calls = self.handle.calls
            mx_guard_unlock(&self.handle.guard)
        elif len(calls) >= MOST_KEPT:
            calls.clear()
        if self.math_changes != load_int64(self.handle.math_changes):
            return prepared  # for what another thread has set anew, which also forgets `calls`
        number = hash_bytes(&self.ask, _size(&self.ask))
        kept.ask, kept.prepared, kept.next = self.ask, prepared, calls.get(number)
        calls[number] = kept
        return prepared

    cdef tuple lens(self, int at):
        return tuple([self.array[at].len[i] for i in range(self.array[at].rank)])

    cdef tuple strides(self, int at):
        """In elements, 1 at least: where a length is 1 a stride says nothing, and libraries leave anything there."""
        cdef array_t* a = &self.array[at]
        cdef int64_t step
        cdef int i
        found = []
        for i in range(a.rank):
            step = a.step[i]
            if a.len[i] > 1 and (step <= 0 or step % a.width):
                raise BadParmError("strides that are no elements" if step else "an expanded array", self.given(at),
                                   tuple([a.step[j] for j in range(a.rank)]), "an array with elements of its own")
            found.append(step // a.width if a.len[i] > 1 else max(1, max(
                [a.step[j] // a.width * a.len[j] for j in range(i + 1, a.rank)], default=1)))
        return tuple(found)

    cdef object descriptor(self, int at):
        return TensorDescriptor(self.array[at].type, self.lens(at), self.strides(at))

    cdef int require_like_first(self, int at) except -1:
        if self.array[at].type != self.array[0].type:
            raise BadParmError("arrays of several types", self.given(at), enums.TYPE_NAMES[self.array[at].type],
                               enums.TYPE_NAMES[self.array[0].type])
        return 0

    cdef int require_rank(self, int at, int rank) except -1:
        if self.array[at].rank != rank:
            raise BadParmError("array of another number of axes", self.given(at), self.lens(at), f"{rank} axes")
        return 0


cdef Call new_call(int what, object handle, bint gradients):
    """A call of a kind; `gradients` says that somebody else keeps them."""
    cdef Call c = Call.__new__(Call)
    c.ask.what, c.gradients = what, gradients
    if handle is not None:
        if not isinstance(handle, _Handle):
            raise BadParmError("not a handle", "handle", handle, "a Handle")
        c.handle = handle
    return c


cdef bint is_queued(object data) noexcept:
    """Whether an array is pyopencl's."""
    return not cnp.PyArray_Check(data) and exchange_api(data) == NULL and hasattr(data, "base_data")


# Handles of arrays in host memory, and of queues, whose addresses are theirs while their handles live.
cdef _Handle _host_handle = None
cdef mx_guard _guard             # of the handle above
cdef dict _queue_handles = {}
cdef dict _cuda_handles = {}     # by the devices' numbers; or why there is none


cdef _Handle _handle_of(object data):
    """The handle that computes with an array where none was given."""
    global _host_handle
    if is_queued(data):
        queue = data.queue
        if queue is None:
            raise BadParmError("an array without a queue", "x", type(data).__name__, "array.with_queue(queue)")
        handle = _queue_handles.get(queue.int_ptr)
        if handle is None or not (<_Handle> handle).is_usable():
            if len(_queue_handles) >= 64:
                _queue_handles.clear()
            handle = _queue_handles[queue.int_ptr] = Handle(queue)
        return handle
    cdef _Handle host, new
    mx_guard_lock(&_guard)
    host = _host_handle
    mx_guard_unlock(&_guard)
    if host is None or not host.is_usable():
        new = Handle("cpu")
        mx_guard_lock(&_guard)
        if _host_handle is host:  # else another thread was faster
            _host_handle = new
        new = _host_handle
        mx_guard_unlock(&_guard)
        host = new
    return host


cdef _Handle _cuda_handle(int ordinal):
    handle = _cuda_handles.get(ordinal)
    if isinstance(handle, MIOpenError):
        raise handle.with_traceback(None)
    if handle is None or not (<_Handle> handle).is_usable():
        try:
            handle = Handle(f"cuda:{ordinal}")
        except MIOpenError as e:  # what looks for libraries and devices is not done for each call
            _cuda_handles[ordinal] = e
            raise
        _cuda_handles[ordinal] = handle
    return handle


cdef object _read(object data, str name, array_t* a, void** stream):
    """`read_array`, of memory of CUDA too, with the stream on which its library works there."""
    cdef bint waits = False
    if not cnp.PyArray_Check(data) and exchange_api(data) == NULL and hasattr(data, "__cuda_array_interface__"):
        return read_cuda_array(data, name, NULL, a, stream, &waits)
    held = read_array(data, name, a)
    if a.device == DL_CUDA:
        current_stream(data, a.device_id, stream)
    return held


cdef bint _keeps_gradients() except -1:
    torch = sys.modules.get("torch")
    return torch is None or torch.is_grad_enabled()


cdef object _permuted(object array, tuple order):
    """An array whose axes lie in memory in the order of `order`, made as one in C order."""
    inverse = [order.index(i) for i in range(len(order))]
    return array.permute(inverse) if hasattr(array, "permute") else array.transpose(inverse)


cdef void _note(void* context, const char* kind, const char* message) noexcept:
    (<list> context).append(message.decode(errors="replace") if message != NULL else "no reason given")


cdef object new_array(object like, const array_t* like_read, tuple lens, int kind, tuple order):
    """An array of the library of `like`, on its device, of another type maybe: C order but for `order`."""
    cdef const DLPackExchangeAPI* api
    cdef DLManagedTensorVersioned* made = NULL
    cdef DLTensor wanted
    cdef int64_t length[ARRAY_AXES]
    cdef int i
    if is_queued(like):
        strides = _strides(lens, order, type_size(kind))
        return type(like)(like.queue, lens, _dtype(like, like_read, kind), strides=strides)
    api = exchange_api(like)
    make = None if api == NULL else getattr(like, "new_empty_strided", None)
    if make is not None:  # PyTorch's: what it makes by DLPack has memory that it neither resizes nor clones lazily
        strides = _strides(lens, order, 1)
        if like_read.type == kind:
            return make(lens, strides)
        return make(lens, strides, dtype=getattr(sys.modules["torch"], enums.TYPE_NAMES[kind]))
    stored = lens if order is None else tuple([lens[i] for i in order])
    if api == NULL or api.allocate == NULL:
        if like_read.device == DL_CUDA:
            raise BadParmError("its library makes no arrays for others", "out", None,
                               f"an array for the result of {type(like).__name__}")
        y = numpy.empty(stored, _dtype(like, like_read, kind))
    else:
        memset(&wanted, 0, sizeof(wanted))
        for i in range(len(stored)):
            length[i] = stored[i]
        wanted.ndim, wanted.shape, wanted.dtype = len(stored), length, dl_type_of(kind)
        wanted.device.kind, wanted.device.id = DL_CPU, 0
        if like_read.device == DL_CUDA:
            wanted.device.kind, wanted.device.id = DL_CUDA, like_read.device_id
        reasons = []
        if api.allocate(&wanted, &made, <void*> reasons, _note) != 0 or made == NULL:
            raise AllocFailedError(f"no memory for the result: {' '.join(reasons)}", "lengths", lens)
        y = made_array(api, made)
    return y if order is None else _permuted(y, order)


cdef tuple _strides(tuple lens, tuple order, int64_t step):
    """Strides of a dense array in C order, or in that of `order`, in units of `step`."""
    cdef int64_t stride[ARRAY_AXES]
    cdef int i, at, rank = len(lens)
    for i in range(rank - 1, -1, -1):
        at = i if order is None else order[i]
        stride[at] = step
        step *= max(1, <int64_t> lens[at])
    return tuple([stride[i] for i in range(rank)])


cdef object _dtype(object like, const array_t* like_read, int kind):
    dtype = getattr(like, "dtype", None)
    return dtype if like_read.type == kind and isinstance(dtype, numpy.dtype) else numpy_type(kind)


cdef object run(Call c, Prepared p, object out, tuple before, tuple behind=()):
    """Make the result where `out` is None, and call the plan.

    `before` and `behind` say which of the call's arrays it takes there beside the result.
    """
    cdef PyObject* data[MX_SLOTS + 1]
    cdef int i, count = len(before)
    cdef object memory
    if out is None:
        y = new_array(c.first, &c.array[0], p.lens, p.type, p.order)
        memory = c.memory_of(y)
        data[count] = <PyObject*> memory
    else:
        y, data[count] = out, c.memory(c.count - 1)
    for i in range(count):
        data[i] = c.memory(before[i])
    for i in range(len(behind)):
        data[count + 1 + i] = c.memory(behind[i])
    for i in range(count + 1 + len(behind), p.plan.count):
        data[i] = <PyObject*> None
    c.call(p.plan, data, p.scalars)
    return y


cdef int add_bias(Call c, Prepared p, object y) except -1:
    """Add array 2 of a call to its result."""
    cdef PyObject* data[MX_SLOTS + 1]
    memory = c.memory_of(y)
    data[0] = data[2] = <PyObject*> memory
    data[1] = c.memory(2)
    return c.call(p.bias, data, p.bias.default)


# Numbers of a call.


cdef int axes(ask_t* ask, int at, object value, int count, str name) except -1:
    """One integer, or one an axis."""
    cdef int i
    if isinstance(value, (tuple, list)):
        if len(value) != count:
            raise BadParmError("another number of values than axes", name, value, f"1 or {count}")
        for i in range(count):
            ask.number[at + i] = to_int64(value[i], name)
    else:
        ask.number[at] = to_int64(value, name)
        for i in range(1, count):
            ask.number[at + i] = ask.number[at]
    return 0


cdef int pads(Call c, int at, object value, int count) except -1:
    """Pads before each axis, and those behind it: as `axes`, or a pair an axis."""
    cdef int i
    if isinstance(value, (tuple, list)) and len(value) > 0 and isinstance(value[0], (tuple, list)):
        for one in value:
            if not isinstance(one, (tuple, list)) or len(one) != 2:
                raise BadParmError("not a pair an axis", "padding", value, "((before, behind), ...)")
        axes(&c.ask, at, [one[0] for one in value], count, "padding")
        return axes(&c.ask, END_PADS, [one[1] for one in value], count, "padding")
    axes(&c.ask, at, value, count, "padding")
    for i in range(count):
        c.ask.number[END_PADS + i] = c.ask.number[at + i]
    return 0


cdef object _named_pads(Call c, object name, int count):
    """What "valid" and "same" are for the filter, array 1, and dilation and stride of the call."""
    cdef int i
    if name == "valid":
        return 0
    if name != "same":
        raise BadParmError("unknown padding", "padding", name, "'same', 'valid' or integers")
    c.require_rank(1, count + 2)
    found = []
    for i in range(count):
        if c.ask.number[i] != 1:
            raise BadParmError("padding 'same' with strides", "stride", tuple(numbers(c, 0, count)), 1)
        reach = (c.array[1].len[2 + i] - 1) * c.ask.number[6 + i]
        found.append((reach // 2, reach - reach // 2))
    return found


cdef list numbers(Call c, int at, int count):
    return [c.ask.number[at + i] for i in range(count)]


cdef tuple order_of(Call c, int at):
    """The order of the axes of a result like array `at`: None for C order, channels last where the array has it."""
    cdef array_t* a = &c.array[at]
    cdef int i
    if a.rank < 3 or a.contiguous or a.len[1] == 1 or a.step[1] != a.width:
        return None
    for i in range(2, a.rank - 1):
        if a.step[i] < a.step[i + 1]:
            return None
    return 0, *range(2, a.rank), 1


cdef object described(int kind, object lens, tuple order):
    """The descriptor of a new array."""
    strides, step = [0] * len(lens), 1
    for i in reversed(order or range(len(lens))):
        strides[i] = step
        step *= max(1, lens[i])
    return TensorDescriptor(kind, lens, strides)


cdef object _result_descriptor(Call c, object out, int at, int kind, object lens, tuple order):
    """The descriptor of the result: of `out`, array `at`, where that was given."""
    if out is None:
        return described(kind, lens, order)
    if c.lens(at) != tuple(lens) or c.array[at].type != kind:
        raise BadParmError("not the result's lengths and type", "out",
                           f"{c.lens(at)} {enums.TYPE_NAMES[c.array[at].type]}",
                           f"{tuple(lens)} {enums.TYPE_NAMES[kind]}")
    return c.descriptor(at)


# Convolutions


cdef object _convolve(int spatial, bint transposed, object x, object w, object bias, object stride, object padding,
                      object dilation, object groups, object output_padding, object z, object activation, object out,
                      object handle):
    cdef Call c = new_call(TRANSPOSED if transposed else CONVOLUTION, handle, False)
    cdef Prepared p
    cdef ActivationDescriptor follows = None
    if activation is not None or z is not None:
        follows = ask_activation(c, 16, 0, activation)
        c.ask.number[17] = True
    c.take(x, "x")
    c.take(w, "w")
    c.take(bias, "bias", True)
    axes(&c.ask, 0, stride, spatial, "stride")
    axes(&c.ask, 6, dilation, spatial, "dilation")
    pads(c, 3, _named_pads(c, padding, spatial) if type(padding) is str and not transposed else padding, spatial)
    axes(&c.ask, 9, output_padding, spatial, "output_padding")
    c.ask.number[12] = to_int64(groups, "groups")
    c.ask.number[13], c.ask.number[14] = spatial, out is not None
    if z is not None:
        c.take(z, "z")
        c.ask.number[18] = True
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        p = prepare_convolution(c, 0, spatial, transposed, out, 1, follows, 3 if z is not None else -1)
        c.keep(p)
    if follows is not None:
        return run(c, p, out, (0, 1, *((3,) if z is not None else ()), *((2,) if bias is not None else ())))
    y = run(c, p, out, (0, 1))
    if bias is not None:
        add_bias(c, p, y)
    return y


cdef ActivationDescriptor ask_activation(Call c, int number, int real, object activation):
    """The activation that a call names or describes, None being PASTHRU; it becomes part of what the call asks for."""
    cdef ActivationDescriptor found = as_activation(
        activation if isinstance(activation, ActivationDescriptor) else
        ActivationDescriptor(0 if activation is None else activation), "activation")
    c.ask.number[number] = found.number
    c.ask.real[real], c.ask.real[real + 1], c.ask.real[real + 2] = found.alpha, found.beta, found.gamma
    return found


cdef object _bias_descriptor(Call c, int kind, int64_t channels, int spatial, bint fused):
    """Of array 2: a number a filter, of the result's type, or of float32 beside 16 bits where it is added at once."""
    c.require_rank(2, 1)
    if type_size(kind) == 1:
        raise BadParmError("a bias of results of 8 bits", "bias", enums.TYPE_NAMES[c.array[2].type], None)
    if (c.array[2].type != kind and not (fused and c.array[2].type == 1 and type_size(kind) == 2)) or (
            c.array[2].len[0] != channels):
        raise BadParmError("not one element a filter, of the result's type", "bias",
                           f"{c.lens(2)} {enums.TYPE_NAMES[c.array[2].type]}",
                           f"({channels},) {enums.TYPE_NAMES[kind]}")
    step = c.strides(2)[0]
    return TensorDescriptor(c.array[2].type, (1, channels, *(1,) * spatial), (step * channels, step, *(1,) * spatial))


cdef Prepared prepare_convolution(Call c, int direction, int spatial, bint transposed, object out, int other=1,
                                  ActivationDescriptor follows=None, int z=-1):
    """Of (x, w, bias), (dy, w) or (dy, x), by direction; numbers of it are a gradient's lengths, or y's order.

    `other` is the place of a gradient's second array; with `follows`, which may be PASTHRU, bias, array `z` and the
    activation are part of the plan.
    """
    try:
        return _prepare(c, direction, spatial, transposed, out, other, follows, z)
    except BadParmError as e:  # a descriptor's names for what has other ones here
        own = BadParmError(e.message, str(e.parameter).removeprefix("self."), e.value, e.limit)
        raise renamed(own, strides="stride", pads="padding", end_pads="padding", dilations="dilation",
                      output_pads="output_padding", groupCount="groups") from None


cdef Prepared _prepare(Call c, int direction, int spatial, bint transposed, object out, int other,
                       ActivationDescriptor follows, int z):
    cdef Plan plan, add = None
    cdef Prepared p
    cdef int i
    c.require_rank(0, spatial + 2)
    c.require_rank(other, spatial + 2)
    if not is_ocp8(c.array[0].type):
        c.require_like_first(other)
    elif not is_ocp8(c.array[other].type):
        raise BadParmError("arrays of several types", c.given(other), enums.TYPE_NAMES[c.array[other].type],
                           "float8_e4m3fn or float8_e5m2")
    first, second = c.descriptor(0), c.descriptor(other)
    conv = ConvolutionDescriptor(numbers(c, 3, spatial), numbers(c, 0, spatial), numbers(c, 6, spatial),
                                 "transpose" if transposed else "convolution", c.ask.number[12],
                                 numbers(c, 9, spatial) if transposed else None, numbers(c, END_PADS, spatial))
    if c.deterministic:
        set_attribute(conv, "DETERMINISTIC", 1)
    if c.tf32:
        set_attribute(conv, "MATH_TYPE", 0)
    kind = c.array[0].type
    if direction != 0:
        lens, order = numbers(c, 15, spatial + 2), order_of(c, 0 if direction == 1 else other)
        result = described(kind, lens, order)
        make = c.handle.convolution_backward_data if direction == 1 else c.handle.convolution_backward_weights
        plan = make(first, second, conv, result)
    else:
        for i in range(spatial):  # MIOpen's formulas make a result of 1 of it
            reach = c.ask.number[6 + i] * (c.array[1].len[2 + i] - 1) + 1
            room = c.array[0].len[2 + i] + c.ask.number[3 + i] + c.ask.number[END_PADS + i]
            if transposed:
                whole = (c.array[0].len[2 + i] - 1) * c.ask.number[i] + reach + c.ask.number[9 + i]
                both = c.ask.number[3 + i] + c.ask.number[END_PADS + i]
                if c.array[0].len[2 + i] > 0 and whole <= both:
                    raise BadParmError("pads that leave nothing of the result", "padding", both,
                                       f"< {whole} at both ends of axis {2 + i} together")
            elif reach > room:
                raise BadParmError("filter reaches beyond the padded image", "w", c.lens(1),
                                   f"<= {room} along axis {2 + i}")
        lens, order = conv.output_lens(first, second), order_of(c, 0)
        if c.ask.number[15]:  # channels last, though x may be taken for C order
            order = (0, *range(2, spatial + 2), 1)
        kind = 2 if kind == 3 else kind  # int8 sums are int32
        if out is not None and is_ocp8(kind):
            kind = c.array[c.count - 1].type
        added = None
        if z >= 0:
            if c.lens(z) != tuple(lens) or c.array[z].type != kind:
                raise BadParmError("not the result's lengths and type", "z",
                                   f"{c.lens(z)} {enums.TYPE_NAMES[c.array[z].type]}",
                                   f"{tuple(lens)} {enums.TYPE_NAMES[kind]}")
            added = c.descriptor(z)
            order = memory_order(c, z) or order  # the result lies as z does
        result = _result_descriptor(c, out, c.count - 1, kind, lens, order)
        b = _bias_descriptor(c, kind, lens[1], spatial, follows is not None) if c.ask.type[2] >= 0 else None
        if follows is not None:
            plan = c.handle.convolution_bias_activation_forward(first, second, conv, added, b, follows, result)
        else:
            if b is not None:
                add = c.handle.op_tensor("add", result, b, result)
            plan = c.handle.convolution_forward(first, second, conv, result)
    p = Prepared(plan, lens, order, add)
    p.type = kind
    return p


def conv1d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, *, z=None, activation=None, out=None,
           handle=None):
    """As conv2d, for x (n, c, w) and w (k, c / groups, s)."""
    return _convolve(1, False, x, w, bias, stride, padding, dilation, groups, 0, z, activation, out, handle)


def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, *, z=None, activation=None, out=None,
           handle=None):
    """Return the convolution (cross-correlation) of x with w, plus a bias for each filter.

    y[n, k, h, w] = bias[k] + sum over c, r, s of x[n, c, h stride + r dilation - padding, ...] w[k, c, r, s]

    With z and an activation: act(y + z).

    Parameters
    ----------
    x : array (n, c, h, w)
        Of NumPy, PyTorch, or any other library that lends arrays (DLPack, `__array_interface__`), in host memory or
        on CUDA; or a pyopencl Array.  Any dense strides: a channels-last x gives a channels-last result.
    w : array (k, c / groups, r, s), of x's type
    bias : array (k,), optional
    stride, dilation : int, or one int an axis
        In pixels.
    padding : int, one int an axis, one pair an axis, "same" or "valid"
        Pixels before and behind each axis, a pair where these differ. "same" gives y the lengths of x, strides being 1:
        an odd pixel goes behind. "valid" is 0.
    groups : int
    z : array, optional
        Is added, too; with the lengths and type of the result, which lies in memory as z does.
    activation : miopenActivationMode_t, its name, or an ActivationDescriptor, optional
        What follows: "relu", or ActivationDescriptor("leakyrelu", 0.1), which has numbers too.  With it or z all is
        one call (see miopenConvolutionBiasActivationForward): sums, bias and activation are float32, and rounded once
        where the solver can.
    out : array, optional
        Takes the result; may be z; else it is made by x's library.
    handle : Handle, optional
        What computes; default: for a pyopencl Array its queue, for memory of CUDA its device, on the stream on which
        x's library works now, else ``Handle("cpu")``, made at the first call.

    Returns
    -------
    array (n, k, (h + 2 padding - dilation (r - 1) - 1) / stride + 1, ...)
        Of x's type, int32 for int8.  Of OCP's float8 w may be the other one, and `out` of 16 bits or float32, too.

    Raises
    ------
    BadParmError
        For arrays that do not fit each other or cannot be read.
    MIOpenNotImplementedError
        Where nothing computes such a convolution.
    """
    return _convolve(2, False, x, w, bias, stride, padding, dilation, groups, 0, z, activation, out, handle)


def conv3d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, *, z=None, activation=None, out=None,
           handle=None):
    """As conv2d, for x (n, c, d, h, w) and w (k, c / groups, z, r, s)."""
    return _convolve(3, False, x, w, bias, stride, padding, dilation, groups, 0, z, activation, out, handle)


def conv_transpose1d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, *, z=None,
                     activation=None, out=None, handle=None):
    """As conv_transpose2d, for x (n, c, w) and w (c, k / groups, s)."""
    return _convolve(1, True, x, w, bias, stride, padding, dilation, groups, output_padding, z, activation, out,
                     handle)


def conv_transpose2d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, *, z=None,
                     activation=None, out=None, handle=None):
    """Return the transposed convolution of x with w, plus a bias for each filter: conv2d's gradient of its x.

    Parameters
    ----------
    x : array (n, c, h, w)
    w : array (c, k / groups, r, s), of x's type
    output_padding : int, or one int an axis
        Rows and columns more behind the result, below max(stride, dilation).
    padding : int, one int an axis, or one pair an axis
        What the result lacks before and behind each axis.
    bias, stride, groups, dilation, z, activation, out, handle
        As for conv2d.

    Returns
    -------
    array (n, k, (h - 1) stride - 2 padding + dilation (r - 1) + output_padding + 1, ...)

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    return _convolve(2, True, x, w, bias, stride, padding, dilation, groups, output_padding, z, activation, out,
                     handle)


def conv_transpose3d(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1, *, z=None,
                     activation=None, out=None, handle=None):
    """As conv_transpose2d, for x (n, c, d, h, w) and w (c, k / groups, z, r, s)."""
    return _convolve(3, True, x, w, bias, stride, padding, dilation, groups, output_padding, z, activation, out,
                     handle)


# Pooling


cdef object _pool(int spatial, str mode, object x, object window, object stride, object padding, object dilation,
                  object ceil_mode, object divisor, bint indices, object out, object handle):
    cdef Call c = new_call(POOLING, handle, False)
    cdef Prepared p
    c.take(x, "x")
    c.require_rank(0, spatial + 2)
    axes(&c.ask, 0, window, spatial, "kernel_size")
    axes(&c.ask, 3, window if stride is None else stride, spatial, "stride")
    pads(c, 6, padding, spatial)
    c.ask.number[9], c.ask.number[10], c.ask.number[11] = spatial, _MODES.index(mode), indices
    c.ask.number[12] = out is not None
    axes(&c.ask, 13, dilation, spatial, "dilation")
    c.ask.number[16] = to_flag(ceil_mode, "ceil_mode")
    if divisor is not None:
        c.ask.number[17], c.ask.number[18] = True, to_int64(divisor, "divisor_override")
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        pool = PoolingDescriptor(mode, numbers(c, 0, spatial), numbers(c, 6, spatial), numbers(c, 3, spatial),
                                 "uint64" if indices else None, "image" if indices else None, numbers(c, 13, spatial),
                                 numbers(c, END_PADS, spatial), c.ask.number[16],
                                 c.ask.number[18] if c.ask.number[17] else None)
        lens, order = pool.output_lens(c.descriptor(0)), order_of(c, 0)
        y_desc = _result_descriptor(c, out, 1, c.array[0].type, lens, order)
        p = Prepared(c.handle.pooling_forward(pool, c.descriptor(0), y_desc, indices), lens, order)
        p.type = c.array[0].type
        c.keep(p)
    return run(c, p, out, (0,))


cdef tuple _MODES = ("max", "average", "inclusive")


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, out=None, handle=None):
    """Return the maxima of windows of x.

    Parameters
    ----------
    x : array (n, c, h, w)
        As for conv2d.
    kernel_size, stride, dilation : int, or one int an axis
        In pixels; stride None: the window's.
    padding : int, one int an axis, or one pair an axis
        Pixels before and behind each axis, less than a window spans, and never a maximum.
    ceil_mode : bool
        Whether lengths are rounded up: a last window counts that begins in x or before it and does not fit.
    out, handle
        As for conv2d.

    Returns
    -------
    array (n, c, (h + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1, ...)

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    return _pool(2, "max", x, kernel_size, stride, padding, dilation, ceil_mode, None, False, out, handle)


def max_pool3d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, *, out=None, handle=None):
    """As max_pool2d, for x (n, c, d, h, w)."""
    return _pool(3, "max", x, kernel_size, stride, padding, dilation, ceil_mode, None, False, out, handle)


def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None, *, out=None, handle=None):
    """Return the means of windows of x.

    Parameters
    ----------
    count_include_pad : bool
        Whether padding counts as zeros, or not at all.
    divisor_override : int, optional
        What sums are divided by in place of the number of elements; not 0.
    x, kernel_size, stride, padding, ceil_mode, out, handle
        As for max_pool2d.

    Returns
    -------
    array, as of max_pool2d

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    return _pool(2, "inclusive" if count_include_pad else "average", x, kernel_size, stride, padding, 1, ceil_mode,
                 divisor_override, False, out, handle)


def avg_pool3d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
               divisor_override=None, *, out=None, handle=None):
    """As avg_pool2d, for x (n, c, d, h, w)."""
    return _pool(3, "inclusive" if count_include_pad else "average", x, kernel_size, stride, padding, 1, ceil_mode,
                 divisor_override, False, out, handle)


# Element by element


cdef tuple memory_order(Call c, int at):
    """The axes of an array from the outermost to the innermost in memory, if nothing lies between its elements."""
    cdef array_t* a = &c.array[at]
    cdef int64_t step = a.width
    order = sorted(range(a.rank), key=lambda i: (-a.step[i] if a.len[i] > 1 else 0, i))
    order.sort(key=lambda i: a.len[i] == 1)  # where a length is 1 the stride says nothing
    for i in reversed([i for i in order if a.len[i] > 1]):
        if a.step[i] != step:
            return None
        step *= a.len[i]
    return tuple(order)


cdef object _activate(object x, object mode, double alpha, double beta, double gamma, object out, object handle):
    cdef Call c = new_call(ACTIVATION, handle, False)
    cdef Prepared p
    c.take(x, "x")
    c.ask.number[0], c.ask.number[1] = to_member(mode, "miopenActivationMode_t", "mode"), out is not None
    c.ask.real[0], c.ask.real[1], c.ask.real[2] = alpha, beta, gamma
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        p = _prepare_activation(c, ActivationDescriptor(mode, alpha, beta, gamma), out)
    return run(c, p, out, (0,))


cdef Prepared _prepare_activation(Call c, object activation, object out):
    cdef Prepared p
    cdef int64_t count = 1
    lens, order = c.lens(0), memory_order(c, 0)
    for length in lens:
        count *= length
    y_order = None if order is None or order == tuple(sorted(order)) else order
    if order is not None and (out is None or c.strides(1) == c.strides(0) and c.lens(1) == lens):
        # One row: which axes there are makes no difference.
        if out is not None and c.array[1].type != c.array[0].type:
            raise BadParmError("not the result's type", "out", enums.TYPE_NAMES[c.array[1].type],
                               enums.TYPE_NAMES[c.array[0].type])
        x = y = TensorDescriptor(c.array[0].type, (1, 1, 1, count))
    else:
        if c.array[0].rank > 5:
            raise MIOpenNotImplementedError("more than five axes with gaps between elements", "x", lens, "<= 5 axes")
        ones = (1,) * max(0, 4 - c.array[0].rank)
        x, y = (lead(d, ones) for d in (
            c.descriptor(0), _result_descriptor(c, out, 1, c.array[0].type, lens, None)))
        y_order = None
    p = Prepared(c.handle.activation_forward(activation, x, y), lens, y_order)
    p.type = c.array[0].type
    c.keep(p)
    return p


cdef object lead(object desc, tuple before):
    """A descriptor with axes of length 1 before the others."""
    if not before:
        return desc
    outer = max(1, *[n * s for n, s in zip(desc.lens, desc.strides)])
    return TensorDescriptor(desc.dtype, before + desc.lens, (outer,) * len(before) + desc.strides)


def activation(x, mode, alpha=0.0, beta=0.0, gamma=0.0, *, out=None, handle=None):
    """Return an activation of each element of x; formulas and parameters as for miopenActivationForward.

    Parameters
    ----------
    x : array
        Of any lengths and strides; else as for conv2d.
    mode : miopenActivationMode_t, or its name
    alpha, beta, gamma : float
    out, handle
        As for conv2d; out may be x.

    Returns
    -------
    array of x's lengths and type

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    return _activate(x, mode, to_double(alpha, "alpha"), to_double(beta, "beta"), to_double(gamma, "gamma"), out,
                     handle)


def relu(x, *, out=None, handle=None):
    """Return max(x, 0) of each element; parameters as for activation."""
    return _activate(x, "relu", 0, 0, 0, out, handle)


def leaky_relu(x, negative_slope=0.01, *, out=None, handle=None):
    """Return x, times negative_slope below 0, of each element; parameters as for activation."""
    return _activate(x, "leakyrelu", to_double(negative_slope, "negative_slope"), 0, 0, out, handle)


def relu6(x, *, out=None, handle=None):
    """Return min(max(x, 0), 6) of each element; parameters as for activation."""
    return _activate(x, "clippedrelu", 6, 0, 0, out, handle)


def elu(x, alpha=1.0, *, out=None, handle=None):
    """Return x, alpha (exp(x) - 1) below 0, of each element; parameters as for activation."""
    return _activate(x, "elu", to_double(alpha, "alpha"), 0, 0, out, handle)


def sigmoid(x, *, out=None, handle=None):
    """Return 1 / (1 + exp(-x)) of each element; parameters as for activation."""
    return _activate(x, "logistic", 0, 0, 0, out, handle)


def tanh(x, *, out=None, handle=None):
    """Return tanh(x) of each element; parameters as for activation."""
    return _activate(x, "tanh", 1, 1, 0, out, handle)


def softplus(x, *, out=None, handle=None):
    """Return log(1 + exp(x)) of each element; parameters as for activation."""
    return _activate(x, "softrelu", 0, 0, 0, out, handle)


# Along an axis


cdef object _soften(object x, object axis, str algorithm, object out, object handle):
    cdef Call c = new_call(SOFTMAX, handle, False)
    cdef Prepared p
    cdef int64_t at
    c.take(x, "x")
    at = to_int64(axis, "axis")
    if not -c.array[0].rank <= at < c.array[0].rank:
        raise BadParmError("no axis of x", "axis", at, f"-{c.array[0].rank} to {c.array[0].rank - 1}")
    at += c.array[0].rank if at < 0 else 0
    c.ask.number[0], c.ask.number[1], c.ask.number[2] = at, algorithm == "log", out is not None
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        lens, order = c.lens(0), memory_order(c, 0)
        order = None if order is None or order == tuple(sorted(order)) else order
        y_desc = _result_descriptor(c, out, 1, c.array[0].type, lens, order)
        x_desc, y_desc = (along(d, <int> at) for d in (c.descriptor(0), y_desc))
        p = Prepared(c.handle.softmax_forward(x_desc, y_desc, algorithm, "channel"), lens, order)
        p.type = c.array[0].type
        c.keep(p)
    return run(c, p, out, (0,))


cdef object along(object desc, int axis):
    """A descriptor (n, c, h, w) or with d, whose c is an axis of another: neighbours in memory are joined."""
    if 0 in desc.lens:
        return TensorDescriptor(desc.dtype, (0, 1, 1, 1))
    rest = []
    for n, s in sorted(((n, s) for i, (n, s) in enumerate(zip(desc.lens, desc.strides)) if i != axis and n > 1),
                       key=lambda one: -one[1]):
        m, t = rest.pop() if rest else (1, n * s)
        if t == n * s:
            rest.append((m * n, s))
        else:
            rest += [(m, t), (n, s)]
    if len(rest) > 4:
        raise MIOpenNotImplementedError("more axes with gaps between them than are computed with", "x", desc.lens,
                                        "four beside the axis")
    n, s = desc.lens[axis], desc.strides[axis]
    outer = max([n * s] + [m * t for m, t in rest])
    rest = [(1, outer)] * (3 - len(rest)) + rest if len(rest) < 3 else rest
    axes = [rest[0], (n, s)] + rest[1:]
    return TensorDescriptor(desc.dtype, [n for n, _ in axes], [s for _, s in axes])


def softmax(x, axis=-1, *, out=None, handle=None):
    """Return exp(x - m) / sum(exp(x - m)) along an axis, m being its maximum there.

    Parameters
    ----------
    x : array
        Of any lengths and strides; else as for conv2d.
    axis : int
        Negative ones count from the end.
    out, handle
        As for conv2d; out may be x.

    Returns
    -------
    array of x's lengths and type

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    return _soften(x, axis, "accurate", out, handle)


def log_softmax(x, axis=-1, *, out=None, handle=None):
    """Return the logarithm of softmax, x - m - log(sum(exp(x - m))); parameters as for softmax."""
    return _soften(x, axis, "log", out, handle)


# Normalisations


cdef object image_of(object desc):
    """The descriptor of (n, c) or (n, c, w) with the axes of an image."""
    if len(desc.lens) > 3:
        return desc
    lens, strides = list(desc.lens), list(desc.strides)
    last = max(1, desc.lens[len(lens) - 1]) * desc.strides[len(lens) - 1]
    while len(lens) < 4:
        lens.insert(2, 1)
        strides.insert(2, last)
    return TensorDescriptor(desc.dtype, lens, strides)


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0, *, out=None, handle=None):
    """Return x (k + alpha / size sum of x^2)^-beta, the sum over `size` channels around each one.

    Parameters
    ----------
    x : array (n, c, h, w)
        As for conv2d.
    size : int
        Channels: the element's own, (size - 1) // 2 before it and size // 2 behind it, as ONNX has them; of an even
        size PyTorch's has the odd one before.
    alpha, beta, k : float
    out, handle
        As for conv2d.

    Returns
    -------
    array of x's lengths and type

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As conv2d.
    """
    cdef Call c = new_call(RESPONSE, handle, False)
    cdef Prepared p
    c.take(x, "x")
    c.ask.number[0], c.ask.number[1] = to_int64(size, "size"), out is not None
    c.ask.real[0], c.ask.real[1] = to_double(alpha, "alpha"), to_double(beta, "beta")
    c.ask.real[2] = to_double(k, "k")
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        if c.array[0].rank != 4:
            raise BadParmError("array of another number of axes", "x", c.lens(0), "(n, c, h, w)")
        order = order_of(c, 0)
        y_desc = _result_descriptor(c, out, 1, c.array[0].type, c.lens(0), order)
        lrn = LRNDescriptor("cross", size, alpha, beta, k)
        p = Prepared(c.handle.lrn_forward(lrn, c.descriptor(0), y_desc), c.lens(0), order)
        p.type = c.array[0].type
        c.keep(p)
    return run(c, p, out, (0,))


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5, *,
               activation=None, out=None, handle=None):
    """Return weight (x - mean) / sqrt(var + eps) + bias, with a mean and a variance for each channel.

    Parameters
    ----------
    x : array (n, c, ...) of 2 to 5 axes
        As for conv2d.
    running_mean, running_var : array (c,), None where training needs none
        Without training the statistics; with it they are moved towards those of x, (1 - momentum) old + momentum new,
        the variance by n / (n - 1).
    weight, bias : array (c,), optional
        Default: 1 and 0.
    training : bool
        Whether the statistics are those of x.
    momentum, eps : float
    activation : miopenActivationMode_t, its name, or an ActivationDescriptor, optional
        What follows, in the same kernel: "relu", or ActivationDescriptor("leakyrelu", 0.1), which has numbers too.
    out, handle
        As for conv2d; out may be x.

    Returns
    -------
    array of x's lengths and type

    Raises
    ------
    BadParmError
        As conv2d; without statistics where they are needed; for parameters of several types; for an unknown activation.
    MIOpenNotImplementedError
        As conv2d.
    """
    cdef Call c = new_call(NORMALIZATION, handle, False)
    cdef Prepared p
    cdef ActivationDescriptor follows = None
    cdef int i
    if activation is not None:
        follows = ask_activation(c, 2, 2, activation)
    c.take(x, "x")
    for name, value in (("weight", weight), ("bias", bias), ("running_mean", running_mean),
                        ("running_var", running_var)):
        c.take(value, name, True)
    c.ask.number[0], c.ask.number[1] = bool(training), out is not None
    c.ask.real[0], c.ask.real[1] = to_double(momentum, "momentum"), to_epsilon(eps, "eps")
    if out is not None:
        c.take(out, "out")
    p = c.known()
    if p is None:
        p = _prepare_batch_norm(c, bool(training), follows, out)
    for i in range(2):
        if p.fill[i] is not None:
            c.put(i + 1, p.fill[i])
    return run(c, p, out, (0,), (1, 2, 3, 4))


cdef Prepared _prepare_batch_norm(Call c, bint training, ActivationDescriptor follows, object out):
    cdef Prepared p
    cdef int i, kind = -1
    lens, order = c.lens(0), order_of(c, 0)
    if not 2 <= len(lens) <= 5:
        raise BadParmError("array of another number of axes", "x", lens, "2 to 5")
    if (c.ask.type[3] < 0) != (c.ask.type[4] < 0) or c.ask.type[3] < 0 and not training:
        raise BadParmError("no statistics", "running_mean, running_var", None, "both, or with training neither")
    for i in range(1, 5):
        if c.ask.type[i] < 0:
            continue
        if c.lens(i) != (lens[1],) or not c.array[i].contiguous:
            raise BadParmError("not one element a channel, side by side", c.given(i), c.lens(i), (lens[1],))
        if kind >= 0 and kind != c.array[i].type:
            raise BadParmError("parameters of several types", c.given(i), enums.TYPE_NAMES[c.array[i].type],
                               enums.TYPE_NAMES[kind])
        kind = c.array[i].type
    x, y = image_of(c.descriptor(0)), image_of(_result_descriptor(c, out, 5, c.array[0].type, lens, order))
    if kind < 0:
        kind = 6 if c.array[0].type == 6 else 1
    parameters = TensorDescriptor(kind, (1, lens[1], *(1,) * (len(x.lens) - 2)))
    if training:
        plan = c.handle.batch_norm_training("spatial", x, y, parameters, c.ask.type[3] >= 0, False, follows)
        p = Prepared(plan, lens, order)
        p.scalars[0], p.scalars[1] = c.ask.real[0], c.ask.real[1]
    else:
        p = Prepared(c.handle.batch_norm_inference("spatial", x, y, parameters, follows), lens, order)
        p.scalars[0] = c.ask.real[1]
    p.type = c.array[0].type
    p.fill = tuple([None if c.ask.type[i + 1] >= 0 else
                    c.handle.upload(filled(lens[1], 1 - i, kind)) for i in range(2)])
    c.keep(p)
    return p


cdef object filled(int64_t count, double value, int kind):
    """Memory of `count` equal elements."""
    return numpy.full(count, value, numpy.float64).astype(numpy_type(kind))
