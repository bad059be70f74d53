"""Pooling: the descriptor and the problem."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport checked_add, checked_mul, raise_unknown, read_ints, to_flag, to_int, to_member
from ._descriptors cimport MAX_DIMS, TensorDescriptor, as_tensor, begin_setting, end_setting, next_stamp, seen
from ._problem cimport Problem, fill_tensor, tensor_text, require_no_overlap, require_plain
from miopyx.values._types cimport MX_POOLING_BACKWARD, MX_POOLING_FORWARD, MX_SPATIAL, mx_pooling_problem

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

cdef tuple _ND_NAMES = ("windowDimA", "padA", "stridesA", "dilationA", "endPadA")


cdef int64_t index_size(int index_type) noexcept nogil:
    """Bytes of an index of a miopenIndexType_t."""
    return <int64_t> 1 << index_type


cdef class PoolingDescriptor(Descriptor):
    """PoolingDescriptor(mode=0, windows=None, pads=None, strides=None, index_type=None, index_mode=None,
                         dilations=None, end_pads=None, ceil_mode=False, divisor_override=None, nan_propagation=None,
                         indices_like_y=False)\n--\n\n\
    Mode, windows, pads and strides of a pooling, and how it keeps the places of maxima (miopenPoolingDescriptor_t).

    Parameters
    ----------
    mode : miopenPoolingMode_t, optional
        Max, average over the elements inside the image, or average over whole windows ("inclusive").
    windows : sequence of int, optional
        Lengths of the window along (d), h, w, each >= 1.  Without them the descriptor is empty, as
        miopenCreatePoolingDescriptor leaves it.
    pads : sequence of int, optional
        Positions before and behind each axis, below what a window spans, (window - 1) dilation + 1.  Default: 0.
    strides : sequence of int, optional
        Each >= 1.  Default: 1.
    index_type : miopenIndexType_t, optional
        Default: 8 bits.
    index_mode : miopenPoolingWorkspaceIndexMode_t, optional
        Whether indices count in the window (mask) or in the image.  Default: mask in 2-D, image in 3-D.
    dilations : sequence of int, optional
        Positions from one element of a window to the next, each >= 1.  Default: 1.
    end_pads : sequence of int, optional
        Positions behind each axis where they differ from those before it.  Default: `pads`.
    ceil_mode : bool, optional
        Whether a last window that only begins in the input or the pads before it counts, too.
    divisor_override : int, optional
        What averages divide by in place of the number of elements; not 0.
    nan_propagation : miopenNanPropagation_t, optional
        Whether a maximum is NaN where its window has one: the last one, as PyTorch has it.  Default: it is not, and NaN
        is smaller than all numbers.  Of windows of -inf alone the index is then 0, else their first element's.
    indices_like_y : bool, optional
        Whether indices lie in the order of y's elements, of which nothing lies between.  Default: they are packed in
        n c d h w order.

    Raises
    ------
    BadParmError
        For values out of range.
    """

    def __init__(self, mode=0, windows=None, pads=None, strides=None, index_type=None, index_mode=None,
                 dilations=None, end_pads=None, ceil_mode=False, divisor_override=None, nan_propagation=None,
                 indices_like_y=False):
        cdef int n = 2
        if windows is not None:
            try:
                n = len(windows)
            except Exception:
                raise BadParmError("not a sequence of integers", "windows", windows, "a sequence") from None
            set_pooling(self, n, mode, windows, (0,) * n if pads is None else pads,
                        (1,) * n if strides is None else strides, dilations, end_pads, ceil_mode, divisor_override,
                        ("windows", "pads", "strides", "dilations", "end_pads"))
        elif (pads is not None or strides is not None or dilations is not None or end_pads is not None
                or divisor_override is not None):
            raise BadParmError("missing", "windows", None, "a sequence of lengths")
        else:
            self.mode = _mode(mode)
        if index_type is not None:
            set_index_type(self, index_type)
        if index_mode is not None:
            set_index_mode(self, index_mode)
        if nan_propagation is not None:
            _set_nan(self, nan_propagation)
        _set_like_y(self, indices_like_y)

    def __cinit__(self, *args, **kwargs):
        self.stamp = next_stamp()

    cdef int set(self, int spatial, int mode, const int64_t* window, const int64_t* pad, const int64_t* stride,
                 const int64_t* dilation, const int64_t* end, bint ceil, int divisor, tuple names) except -1:
        cdef int i
        cdef int64_t most
        for i in range(spatial):
            if window[i] < 1:
                raise BadParmError("window below 1", f"{names[0]}[{i}]", window[i], ">= 1")
            if dilation[i] < 1:
                raise BadParmError("dilation below 1", f"{names[3]}[{i}]", dilation[i], ">= 1")
            most = (window[i] - 1) * dilation[i]  # beyond it windows lie wholly in the padding
            if pad[i] < 0 or pad[i] > most:
                raise BadParmError("pad out of range", f"{names[1]}[{i}]", pad[i], f"0 ... {most}")
            if end[i] < 0 or end[i] > most:
                raise BadParmError("pad out of range", f"{names[4]}[{i}]", end[i], f"0 ... {most}")
            if stride[i] < 1:
                raise BadParmError("stride below 1", f"{names[2]}[{i}]", stride[i], ">= 1")
        begin_setting(self)
        self.spatial, self.mode, self.ceil, self.divisor = spatial, mode, ceil, divisor
        for i in range(spatial):
            self.window[i], self.pad[i], self.stride[i] = <int> window[i], <int> pad[i], <int> stride[i]
            self.dilation[i], self.end[i] = <int> dilation[i], <int> end[i]
        self.index_type = 0  # MIOpen puts a new descriptor in the old one's place
        self.index_mode = INDEX_IMAGE if spatial == 3 else INDEX_MASK
        self.nan, self.like_y = 0, False
        end_setting(self)
        return 0

    cdef int require_set(self, str name) except -1:
        if self.spatial == 0:
            raise BadParmError("pooling descriptor that was never set", name, self, "a set descriptor")
        return 0

    cdef int64_t reach(self, int axis) noexcept:
        """Positions from the first element of a window to the last one, both included."""
        return (<int64_t> self.window[axis] - 1) * self.dilation[axis] + 1

    cdef int output_dims(self, TensorDescriptor x, str name, int64_t* out) except -1:
        """Output lengths as MIOpen means them: never below 1, a window larger than the padded input included."""
        cdef int i
        cdef int64_t rest
        self.require_set("poolDesc")
        x.require_set(name)
        if x.ndim != self.spatial + 2:
            raise BadParmError("rank does not fit the pooling", name, x.ndim, self.spatial + 2)
        for i in range(1, x.ndim):
            if x.len[i] == 0:  # a batch may be empty
                raise BadParmError("length of 0", f"{name}.lens[{i}]", 0, ">= 1")
        out[0], out[1] = x.len[0], x.len[1]
        for i in range(self.spatial):
            rest = checked_add(x.len[2 + i], <int64_t> self.pad[i] + self.end[i] - self.reach(i), name)
            if self.ceil:
                rest = checked_add(rest, self.stride[i] - 1, name)
            out[2 + i] = rest // self.stride[i] + 1 if rest >= 0 else 1
            # A window that would begin in the pads behind the input has nothing to look at.
            if self.ceil and (out[2 + i] - 1) * self.stride[i] >= x.len[2 + i] + self.pad[i]:
                out[2 + i] -= 1
        return 0

    cdef tuple settings(self):
        kinds = ((set_index_type, self.index_type), (set_index_mode, self.index_mode), (_set_nan, self.nan),
                 (_set_like_y, bool(self.like_y)))
        if self.spatial == 0:
            return ((_set_mode, self.mode), *kinds)
        return ((set_pooling, self.spatial, self.mode, self.windows, self.pads, self.strides, self.dilations,
                 self.end_pads, self.ceil_mode, self.divisor_override), *kinds)

    @property
    def spatial_dim(self):
        """How many spatial axes: 2 or 3, 0 for an empty descriptor."""
        return self.spatial

    @property
    def pooling_mode(self):
        return enums.miopenPoolingMode_t(self.mode)

    @property
    def windows(self):
        cdef PoolingDescriptor now = <PoolingDescriptor> seen(self)
        return tuple([now.window[i] for i in range(now.spatial)])

    @property
    def pads(self):
        cdef PoolingDescriptor now = <PoolingDescriptor> seen(self)
        return tuple([now.pad[i] for i in range(now.spatial)])

    @property
    def strides(self):
        cdef PoolingDescriptor now = <PoolingDescriptor> seen(self)
        return tuple([now.stride[i] for i in range(now.spatial)])

    @property
    def dilations(self):
        cdef PoolingDescriptor now = <PoolingDescriptor> seen(self)
        return tuple([now.dilation[i] for i in range(now.spatial)])

    @property
    def end_pads(self):
        """Pads behind each axis."""
        cdef PoolingDescriptor now = <PoolingDescriptor> seen(self)
        return tuple([now.end[i] for i in range(now.spatial)])

    @property
    def ceil_mode(self):
        return bool(self.ceil)

    @property
    def divisor_override(self):
        """What averages divide by, None: the elements that count."""
        return self.divisor or None

    @property
    def workspace_index_type(self):
        return enums.miopenIndexType_t(self.index_type)

    @property
    def workspace_index_mode(self):
        return enums.miopenPoolingWorkspaceIndexMode_t(self.index_mode)

    @property
    def nan_propagation(self):
        return enums.miopenNanPropagation_t(self.nan)

    @property
    def indices_like_y(self):
        return bool(self.like_y)

    def output_lens(self, x):
        """Return the lengths of y for input `x`, at least 1 an axis.

        trunc((in + pad + end_pad - (window - 1) dilation - 1) / stride) + 1; in ceil_mode the quotient is rounded up
        unless the last window then begins behind the input.
        """
        cdef int64_t out[MAX_DIMS]
        self.output_dims(as_tensor(x, "tensorDesc"), "tensorDesc", out)
        return tuple([out[i] for i in range(self.spatial + 2)])

    cdef str described(self):
        if not self.spatial:
            return "<PoolingDescriptor never set>"
        more = ""
        for name, value, default in (("dilations", self.dilations, (1,) * self.spatial),
                                     ("end_pads", self.end_pads, self.pads), ("ceil_mode", self.ceil_mode, False),
                                     ("divisor_override", self.divisor_override, None),
                                     ("indices_like_y", self.indices_like_y, False)):
            if value != default:
                more += f", {name}={value}"
        if self.nan:
            more += f", nan_propagation={self.nan_propagation.name!r}"
        return (f"PoolingDescriptor(mode={self.pooling_mode.name!r}, windows={self.windows}, pads={self.pads}, "
                f"strides={self.strides}, index_type={self.workspace_index_type.name!r}, "
                f"index_mode={self.workspace_index_mode.name!r}{more})")


cdef int _mode(object mode) except -1:
    cdef int number = to_member(mode, "miopenPoolingMode_t", "mode")
    if number < 0 or number > 2:
        raise_unknown(mode, "miopenPoolingMode_t", "mode")
    return number


def set_pooling(PoolingDescriptor desc, spatial, mode, windows, pads, strides, dilations=None, end_pads=None,
                ceil_mode=False, divisor_override=None, names=None):
    """Body of the two functions that set a descriptor."""
    cdef int64_t values[5][MX_SPATIAL]
    cdef tuple called = _ND_NAMES if names is None else names
    cdef int i, number = _mode(mode), n = to_int(spatial, "nbDims"), divisor = 0
    if n != 2 and n != 3:
        raise BadParmError("number of spatial dimensions", "nbDims", n, "2 or 3")
    if divisor_override is not None:
        divisor = to_int(divisor_override, "divisor_override")
        if divisor == 0:
            raise BadParmError("divisor of 0", "divisor_override", divisor, "another integer, or None")
    for i, given in enumerate((windows, pads, strides, (1,) * n if dilations is None else dilations,
                               pads if end_pads is None else end_pads)):
        read_ints(given, values[i], n, False, <str> called[i])
    desc.set(n, number, values[0], values[1], values[2], values[3], values[4], to_flag(ceil_mode, "ceil_mode"),
             0 if number == POOL_MAX else divisor, called)


def _set_mode(PoolingDescriptor desc, mode):
    cdef int number = _mode(mode)
    begin_setting(desc)
    desc.mode = number
    end_setting(desc)


def set_index_type(PoolingDescriptor desc, index_type):
    cdef int number = to_member(index_type, "miopenIndexType_t", "index_type")
    if number < 0 or number > 3:
        raise_unknown(index_type, "miopenIndexType_t", "index_type")
    begin_setting(desc)
    desc.index_type = number
    end_setting(desc)


def set_index_mode(PoolingDescriptor desc, index_mode):
    cdef int number = to_member(index_mode, "miopenPoolingWorkspaceIndexMode_t", "workspace_index")
    if number < 0 or number > 1:
        raise_unknown(index_mode, "miopenPoolingWorkspaceIndexMode_t", "workspace_index")
    begin_setting(desc)
    desc.index_mode = number
    end_setting(desc)


def _set_nan(PoolingDescriptor desc, nan_propagation):
    cdef int number = to_member(nan_propagation, "miopenNanPropagation_t", "nan_propagation")
    if number < 0 or number > 1:
        raise_unknown(nan_propagation, "miopenNanPropagation_t", "nan_propagation")
    begin_setting(desc)
    desc.nan = number
    end_setting(desc)


def _set_like_y(PoolingDescriptor desc, indices_like_y):
    cdef bint flag = to_flag(indices_like_y, "indices_like_y")
    begin_setting(desc)
    desc.like_y = flag
    end_setting(desc)


cdef bint _is_packed(TensorDescriptor y):
    """Whether elements lie in the order of the axes, with nothing between them."""
    cdef int64_t step = 1
    cdef int i
    for i in reversed(range(y.ndim)):
        if y.len[i] > 1 and y.stride[i] != step:
            return False
        step *= y.len[i]
    return True


cdef int _require_dense(TensorDescriptor y, str name) except -1:
    """Indices that lie as y does take no room between elements."""
    cdef int64_t step = 1
    for stride, length in sorted(zip(y.strides, y.lens)):
        if length > 1:
            if stride != step:
                raise BadParmError("indices_like_y wants elements with nothing between them", name, y.strides,
                                   "strides of a packed tensor in some order of axes")
            step *= length
    return 0


cdef int _require_indices_fit(PoolingDescriptor pool, TensorDescriptor x) except -1:
    """The largest number of the type must be above all that are counted."""
    cdef int64_t volume = 1, limit, axis
    cdef int i
    if pool.index_type == 3:
        return 0
    limit = (<int64_t> 1 << (8 << pool.index_type)) - 1
    for i in range(pool.spatial):
        axis = pool.window[i] if pool.index_mode == INDEX_MASK else x.len[2 + i]
        volume = checked_mul(volume, axis, "poolDesc")
    if volume >= limit:
        raise UnknownError("Index range not enough for max pooling bwd", "poolDesc",
                           f"{8 << pool.index_type}-bit indices of {volume} positions", f"< {limit} positions")
    return 0


cdef class PoolingProblem(Problem):
    """y = pool(x), or dx from dy.

    Parameters
    ----------
    what : int
        MX_POOLING_FORWARD or MX_POOLING_BACKWARD.
    pool : PoolingDescriptor
    x, y : TensorDescriptor
        Forward x and y, backward dx and dy.
    save : bool
        Forward: indices of maxima are wanted.

    Raises
    ------
    UnknownError
        Where x is neither 4-D nor 5-D, or the index type is too small.
    BadParmError
        Where ranks or lengths do not fit, a window is larger than the padded input, strides of the output overlap.
    MIOpenNotImplementedError
        Where the types differ.
    """

    def __init__(self, int what, PoolingDescriptor pool not None, TensorDescriptor x not None,
                 TensorDescriptor y not None, bint save=False):
        cdef int64_t dims[MAX_DIMS]
        cdef bint forward = what == MX_POOLING_FORWARD, like_y = False
        cdef str x_name = "xDesc" if forward else "dxDesc"
        cdef str y_name = "yDesc" if forward else "dyDesc"
        cdef int i, missing
        cdef int64_t room
        cdef mx_pooling_problem* c = &self.c.shape
        if what != MX_POOLING_FORWARD and what != MX_POOLING_BACKWARD:
            raise BadParmError("unknown operation", "what", what, (MX_POOLING_FORWARD, MX_POOLING_BACKWARD))
        pool.require_set("poolDesc")
        x.require_set(x_name)
        y.require_set(y_name)
        if x.ndim != 4 and x.ndim != 5:
            raise UnknownError("tensors of pooling are 4-D or 5-D", x_name, x.ndim, "4 or 5")
        require_plain(x, x_name)
        require_plain(y, y_name)
        pool.output_dims(x, x_name, dims)
        if y.ndim != x.ndim:
            raise BadParmError("ranks differ", y_name, y.ndim, x.ndim)
        if x.type != y.type:
            raise MIOpenNotImplementedError("No solver found: types differ", y_name, y.dtype, x.dtype)
        for i in range(x.ndim):
            if y.len[i] != dims[i]:
                raise BadParmError("lengths are not those of the pooling's output", y_name, y.lens,
                                   tuple([dims[j] for j in range(x.ndim)]))
        for i in range(pool.spatial):
            room = x.len[2 + i] + <int64_t> pool.pad[i] + pool.end[i] + (pool.stride[i] - 1 if pool.ceil else 0)
            if pool.reach(i) > room:
                raise BadParmError("window is larger than the padded input", f"poolDesc.windows[{i}]",
                                   pool.reach(i), f"<= {room}")
        save = pool.mode == POOL_MAX and (save or not forward)
        if save:
            _require_indices_fit(pool, x)
            if pool.like_y and y.elements and not _is_packed(y):
                _require_dense(y, y_name)
                like_y = True
        require_no_overlap(y if forward else x, y_name if forward else x_name)
        memset(&self.c, 0, sizeof(self.c))
        c.what, c.mode, c.spatial = what, pool.mode, pool.spatial
        if save:  # else the settings of indices change nothing
            c.save, c.index_type, c.index_mode, self.c.like_y = 1, pool.index_type, pool.index_mode, like_y
        if forward and pool.mode == POOL_MAX:
            self.c.nan = pool.nan
        missing = MX_SPATIAL - pool.spatial
        for i in range(missing):
            c.window[i] = c.step[i] = c.dilation[i] = 1
        for i in range(pool.spatial):
            c.window[i + missing], c.pad[i + missing] = pool.window[i], pool.pad[i]
            c.step[i + missing], c.dilation[i + missing] = pool.stride[i], pool.dilation[i]
            if pool.mode == POOL_INCLUSIVE:
                c.end[i + missing] = pool.end[i]
        c.divisor = pool.divisor
        fill_tensor(&c.x, x)
        fill_tensor(&c.y, y)
        self.hold(POOL_IN, &c.x if forward else &c.y, x.ndim)
        self.hold(POOL_OUT, &c.y if forward else &c.x, x.ndim)
        self.output = POOL_OUT
        self.written = 1 << POOL_OUT
        if save:
            self.raw[POOL_INDICES] = checked_mul(y.elements, index_size(pool.index_type), "poolDesc")
            if forward:
                self.written |= 1 << POOL_INDICES

    def __cinit__(self, *args, **kwargs):
        self.data, self.size, self.count = &self.c, sizeof(self.c), 3

    @property
    def workspace_bytes(self):
        """Bytes of the indices, 0 where there are none."""
        return self.raw[POOL_INDICES]

    def __repr__(self):
        cdef mx_pooling_problem* c = &self.c.shape
        verb = "forward" if c.what == MX_POOLING_FORWARD else "backward"
        return (f"<pooling {verb}, {enums.word_of('miopenPoolingMode_t', c.mode)}: x {tensor_text(&c.x)}, "
                f"y {tensor_text(&c.y)}, windows {tuple(c.window)}, pads {tuple(c.pad)}, strides {tuple(c.step)}, "
                f"dilations {tuple(c.dilation)}{', NaN propagates' if self.c.nan else ''}"
                f"{', indices like y' if self.c.like_y else ''}>")
