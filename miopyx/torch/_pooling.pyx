"""Pooling and its gradients: PyTorch's by whoever is faster, and all that is ours whatever it takes."""

from functools import partial

from miopyx.functional._functional cimport Call, axes, described, image_of, numbers, order_of
from miopyx.values._types cimport MX_INT64

import torch
from miopyx import enums
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem._pooling import PoolingDescriptor
from miopyx.runtime._arrays import FreedError

from ._layers cimport (
    AVERAGE, AVERAGE_GRADIENTS, MAXIMUM, MAXIMUM_GRADIENTS, RESULT, Planned, always, begin, chosen, decide, lazy, own,
    run_chosen, settings, theirs,
)

cdef enum:
    FORWARD = 120          # kinds of calls, beside those of other files
    BACKWARD
    ALWAYS                 # the two of what is ours whatever it takes

cdef enum:                 # the places of a call's numbers
    WINDOW = 0
    STRIDE = 3
    PADDING = 6
    SPATIAL = 9
    MODE = 10
    CEIL = 11
    HAS_DIVISOR = 12
    DIVISOR = 13
    INDICES = 14           # forward: they are wanted
    LAST = 14              # gradients of PyTorch's: channels of x run fastest; dy of one number a plane does not say
    SIZE = 15              # lengths of the gradient
    SETTINGS = 20
    DILATION = 21

cdef tuple _MODES = ("max", "average", "inclusive")
cdef enum:
    MAX = 0
    MEAN = 1
    INCLUSIVE = 2


cdef class Pooling(Planned):
    """A pooling or its gradient."""

    cdef int direction

    def __init__(self, int direction):
        self.direction = direction

    cdef str text(self, Call c):
        cdef int i, spatial = c.ask.number[SPATIAL]
        strides = "x".join([str(s) for s in c.strides(0)]) if not c.array[0].contiguous else "packed"
        number = ["x".join([str(c.ask.number[at + i]) for i in range(spatial)]) for at in (WINDOW, STRIDE, PADDING)]
        size = f"-{'x'.join([str(n) for n in numbers(c, SIZE, spatial + 2)])}" if self.direction else ""
        if self.direction and c.ask.number[LAST] and c.array[0].contiguous:
            size += "-last"
        divisor = f"-d{c.ask.number[DIVISOR]}" if c.ask.number[HAS_DIVISOR] else ""
        if c.ask.number[MODE] == MAX:
            divisor = f"-l{'x'.join([str(n) for n in numbers(c, DILATION, spatial)])}"
        return (f"pool-{_MODES[c.ask.number[MODE]]}-{'FB'[self.direction]}-{enums.TYPE_NAMES[c.array[0].type]}-"
                f"{'x'.join([str(n) for n in c.lens(0)])}:{strides}{size}-w{number[0]}-u{number[1]}-p{number[2]}-"
                f"c{c.ask.number[CEIL]}{divisor}")

    cdef int describe(self, Call c) except -1:
        cdef int spatial = c.ask.number[SPATIAL], mode = c.ask.number[MODE]
        cdef int kind = c.array[0].type
        if not 1 <= spatial <= 3:
            raise BadParmError("another number of spatial axes", "kernel_size", spatial, "1 to 3")
        c.require_rank(0, spatial + 2)
        ones, zeros = [1] * (spatial == 1), [0] * (spatial == 1)  # rows are images of one row
        like_y = mode == MAX and (self.direction == 0 or not c.array[1].contiguous)
        pool = PoolingDescriptor(
            _MODES[mode], ones + numbers(c, WINDOW, spatial), zeros + numbers(c, PADDING, spatial),
            ones + numbers(c, STRIDE, spatial), "uint64" if mode == MAX else None, "image" if mode == MAX else None,
            ones + numbers(c, DILATION, spatial), None, c.ask.number[CEIL],
            c.ask.number[DIVISOR] if c.ask.number[HAS_DIVISOR] else None, "propagate", like_y)
        first, order = image_of(c.descriptor(0)), order_of(c, 0)
        if self.direction and c.ask.number[LAST]:
            order = 0, *range(2, spatial + 2), 1
        if self.direction == 0:
            lens = pool.output_lens(first)
            lens = lens[:2] + lens[len(lens) - spatial:]
            y = image_of(described(kind, lens, order))
            indices = ((lens, MX_INT64, order),) if c.ask.number[INDICES] else ()
            self.use(c.handle.pooling_forward(pool, first, y, bool(indices)), (0, RESULT, RESULT + 1),
                     ((lens, kind, order), *indices))
        else:
            lens = tuple(numbers(c, SIZE, spatial + 2))
            dx = image_of(described(kind, lens, order))
            if mode == MAX:
                if c.array[1].type != MX_INT64 or c.lens(1) != c.lens(0) or not _are_places(c):
                    raise BadParmError("not an index for each element of dy, in its order or in C order", "indices",
                                       f"{c.lens(1)} {enums.TYPE_NAMES[c.array[1].type]} {c.strides(1)}",
                                       f"{c.lens(0)} int64 {c.strides(0)}")
            self.use(c.handle.pooling_backward(pool, first, first, dx, dx), (0, RESULT, 1), ((lens, kind, order),))
        return 0


cdef bint _are_places(Call c) except -1:
    """Whether array 1 lies in C order, or as array 0 does."""
    return c.array[1].contiguous or c.strides(1) == c.strides(0)


cdef int _number(Call c, list window, list stride, list padding, list dilation, bint ceil_mode, int mode,
                 object divisor) except -1:
    cdef int spatial = len(window)
    if not 1 <= spatial <= 3:
        raise BadParmError("another number of spatial axes", "kernel_size", window, "1 to 3")
    axes(&c.ask, WINDOW, window, spatial, "kernel_size")
    axes(&c.ask, STRIDE, stride or window, spatial, "stride")
    axes(&c.ask, PADDING, padding, spatial, "padding")
    axes(&c.ask, DILATION, dilation, spatial, "dilation")
    c.ask.number[SPATIAL], c.ask.number[MODE], c.ask.number[CEIL] = spatial, mode, ceil_mode
    if divisor is not None:
        c.ask.number[HAS_DIVISOR], c.ask.number[DIVISOR] = True, divisor
    c.ask.number[SETTINGS] = settings(c)
    return 0


cdef int _size(Call c, object size) except -1:
    cdef int i
    if len(size) != c.ask.number[SPATIAL] + 2:
        raise BadParmError("another number of lengths than axes", "size", tuple(size),
                           f"{c.ask.number[SPATIAL] + 2} lengths")
    for i in range(len(size)):
        c.ask.number[SIZE + i] = size[i]
    return 0


cdef list _each(list value, int count):
    """PyTorch gives one number for all axes, too."""
    return value * count if len(value) == 1 else value


# PyTorch's averages


cdef bint _like_pytorchs(x, int spatial) except -1:
    """Whether a result has the strides of PyTorch's, which knows channels last only of images."""
    return x.is_contiguous() or spatial == 2 and x.dim() == 4 and x.is_contiguous(memory_format=_channels_last)


cdef object _channels_last = torch.channels_last


cdef object _average(str name, tuple args, x, list window, list stride, list padding, bint ceil_mode, bint inclusive,
                     object divisor, int spatial):
    cdef Call c
    try:
        if chosen(None) and not lazy(x) and _like_pytorchs(x, spatial):
            c = begin(FORWARD, x)
            c.take(x, "x")
            _number(c, _each(window, spatial), _each(stride, spatial), _each(padding, spatial), [1] * spatial,
                    ceil_mode, INCLUSIVE if inclusive else MEAN, divisor)
            layer = c.known()
            if layer is None:
                layer = decide(c, AVERAGE, Pooling(0), partial(theirs, name, args))
            y = run_chosen(c, layer)
            if y is not None:
                return y
    except FreedError:
        raise
    except MIOpenError:
        pass
    return theirs(name, args)


cdef object _average_gradient(str name, tuple args, dy, x, list window, list stride, list padding, bint ceil_mode,
                              bint inclusive, object divisor, int spatial):
    cdef Call c
    try:
        if (chosen(None) and x.dtype is dy.dtype and x.dim() == dy.dim() and not lazy(dy)
                and _like_pytorchs(x, spatial)):
            form = _contiguous if x.is_contiguous() else _channels_last
            if not dy.is_contiguous(memory_format=form):
                # PyTorch's kernel would copy it, too: so both are measured, and called, with the copy.
                dy = dy.contiguous(memory_format=form)
                args = (args[0], dy, *args[2:])
            c = begin(BACKWARD, dy)
            c.take(dy, "dy")
            _number(c, _each(window, spatial), _each(stride, spatial), _each(padding, spatial), [1] * spatial,
                    ceil_mode, INCLUSIVE if inclusive else MEAN, divisor)
            _size(c, x.shape)
            c.ask.number[LAST] = not x.is_contiguous()
            layer = c.known()
            if layer is None:
                layer = decide(c, AVERAGE_GRADIENTS, Pooling(1), partial(theirs, name, args))
            dx = run_chosen(c, layer)
            if dx is not None:
                return dx
    except FreedError:
        raise
    except MIOpenError:
        pass
    return theirs(name, args)


def avg_pool2d(keys, x, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """aten::avg_pool2d."""
    args = keys, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _average("avg_pool2d", args, x, list(kernel_size), list(stride), list(padding), ceil_mode,
                    count_include_pad, divisor_override, 2)


def avg_pool3d(keys, x, kernel_size, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True,
               divisor_override=None):
    """aten::avg_pool3d."""
    args = keys, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _average("avg_pool3d", args, x, list(kernel_size), list(stride), list(padding), ceil_mode,
                    count_include_pad, divisor_override, 3)


def avg_pool2d_backward(keys, dy, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """aten::avg_pool2d_backward."""
    args = keys, dy, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _average_gradient("avg_pool2d_backward", args, dy, x, list(kernel_size), list(stride), list(padding),
                             ceil_mode, count_include_pad, divisor_override, 2)


def avg_pool3d_backward(keys, dy, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """aten::avg_pool3d_backward."""
    args = keys, dy, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    return _average_gradient("avg_pool3d_backward", args, dy, x, list(kernel_size), list(stride), list(padding),
                             ceil_mode, count_include_pad, divisor_override, 3)


# PyTorch's maxima


cdef object _channels_last_3d = torch.channels_last_3d


cdef object _format(x, int spatial):
    """The memory format of PyTorch's results, where x has it; None where x has another one."""
    if x.is_contiguous():
        return _contiguous
    last = _channels_last if spatial == 2 else _channels_last_3d
    return last if x.dim() == spatial + 2 and x.is_contiguous(memory_format=last) else None


cdef object _contiguous = torch.contiguous_format


cdef object _maximum(str name, tuple args, x, list window, list stride, list padding, list dilation, bint ceil_mode,
                     int spatial):
    cdef Call c
    try:
        if chosen(None) and not lazy(x) and _format(x, spatial) is not None:
            c = begin(FORWARD, x)
            c.take(x, "x")
            _number(c, _each(window, spatial), _each(stride, spatial), _each(padding, spatial),
                    _each(dilation, spatial), ceil_mode, MAX, None)
            c.ask.number[INDICES] = True
            layer = c.known()
            if layer is None:
                layer = decide(c, MAXIMUM, Pooling(0), partial(theirs, name, args))
            found = run_chosen(c, layer)
            if found is not None:
                return found
    except FreedError:
        raise
    except MIOpenError:
        pass
    return theirs(name, args)


cdef object _maximum_gradient(str name, tuple args, dy, x, list window, list stride, list padding, list dilation,
                              bint ceil_mode, indices, int spatial):
    cdef Call c
    try:
        # What is not part of the problem, but PyTorch's to refuse.
        fits = (chosen(None) and x.dtype == dy.dtype and x.device == dy.device == indices.device
                and x.dim() == dy.dim() == indices.dim() and not (lazy(dy) or lazy(indices)))
        form = _format(x, spatial) if fits else None
        if form is not None:
            if not (dy.is_contiguous(memory_format=form) and indices.is_contiguous(memory_format=form)):
                dy, indices = dy.contiguous(memory_format=form), indices.contiguous(memory_format=form)
                args = (args[0], dy, *args[2:8], indices)  # as for averages
            c = begin(BACKWARD, dy)
            c.take(dy, "dy")
            c.take(indices, "indices")
            _number(c, _each(window, spatial), _each(stride, spatial), _each(padding, spatial),
                    _each(dilation, spatial), ceil_mode, MAX, None)
            _size(c, x.shape)
            c.ask.number[LAST] = not x.is_contiguous()
            layer = c.known()
            if layer is None:
                layer = decide(c, MAXIMUM_GRADIENTS, Pooling(1), partial(theirs, name, args))
            dx = run_chosen(c, layer)
            if dx is not None:
                return dx
    except FreedError:
        raise
    except MIOpenError:
        pass
    return theirs(name, args)


def max_pool2d(keys, x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    """aten::max_pool2d_with_indices."""
    args = keys, x, kernel_size, stride, padding, dilation, ceil_mode
    return _maximum("max_pool2d_with_indices", args, x, list(kernel_size), list(stride), list(padding),
                    list(dilation), ceil_mode, 2)


def max_pool3d(keys, x, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    """aten::max_pool3d_with_indices."""
    args = keys, x, kernel_size, stride, padding, dilation, ceil_mode
    return _maximum("max_pool3d_with_indices", args, x, list(kernel_size), list(stride), list(padding),
                    list(dilation), ceil_mode, 3)


def max_pool2d_backward(keys, dy, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """aten::max_pool2d_with_indices_backward."""
    args = keys, dy, x, kernel_size, stride, padding, dilation, ceil_mode, indices
    return _maximum_gradient("max_pool2d_with_indices_backward", args, dy, x, list(kernel_size), list(stride),
                             list(padding), list(dilation), ceil_mode, indices, 2)


def max_pool3d_backward(keys, dy, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """aten::max_pool3d_with_indices_backward."""
    args = keys, dy, x, kernel_size, stride, padding, dilation, ceil_mode, indices
    return _maximum_gradient("max_pool3d_with_indices_backward", args, dy, x, list(kernel_size), list(stride),
                             list(padding), list(dilation), ceil_mode, indices, 3)


# What is always ours


def max_pool(x, list kernel_size, list stride, list padding, list dilation, bint ceil_mode, bint indices=False):
    """miopyx::max_pool, and with indices of the maxima in their planes miopyx::max_pool_with_indices."""
    cdef Call c = begin(ALWAYS, x)
    c.take(own(x), "x")
    _number(c, kernel_size, stride, padding, dilation, ceil_mode, MAX, None)
    c.ask.number[INDICES] = indices
    return always(c, Pooling(0))


def max_pool_with_indices(x, list kernel_size, list stride, list padding, list dilation, bint ceil_mode):
    """miopyx::max_pool_with_indices."""
    return max_pool(x, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool_backward(dy, indices, list size, list kernel_size, list stride, list padding, list dilation,
                      bint ceil_mode):
    """miopyx::max_pool_backward."""
    cdef Call c = begin(ALWAYS + 1, dy)
    dy = own(dy)
    c.take(dy, "dy")
    c.take(indices if indices.stride() == dy.stride() else indices.contiguous(), "indices")
    _number(c, kernel_size, stride, padding, dilation, ceil_mode, MAX, None)
    _size(c, size)
    return always(c, Pooling(1))


def avg_pool(x, list kernel_size, list stride, list padding, bint ceil_mode, bint count_include_pad,
             divisor_override):
    """miopyx::avg_pool."""
    cdef Call c = begin(ALWAYS, x)
    c.take(own(x), "x")
    _number(c, kernel_size, stride, padding, [1] * len(kernel_size), ceil_mode,
            INCLUSIVE if count_include_pad else MEAN, divisor_override)
    return always(c, Pooling(0))


def avg_pool_backward(dy, list size, list kernel_size, list stride, list padding, bint ceil_mode,
                      bint count_include_pad, divisor_override):
    """miopyx::avg_pool_backward."""
    cdef Call c = begin(ALWAYS + 1, dy)
    c.take(own(dy), "dy")
    _number(c, kernel_size, stride, padding, [1] * len(kernel_size), ceil_mode,
            INCLUSIVE if count_include_pad else MEAN, divisor_override)
    _size(c, size)
    return always(c, Pooling(1))
