"""Tensor and convolution descriptors, and the output dimensions that follow from them.

Descriptors hold C integers in fixed arrays.  All checks and everything derived (element space, bytes) happen when a
descriptor is set, so that using one later costs struct reads.  A setter that fails leaves the descriptor as it was.
"""

import sys

import numpy

from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject
from libc.string cimport memcpy

from miopyx.values._types cimport MX_BYTE, MX_E4M3, MX_E5M2
from miopyx.values._guard cimport load_flag, load_int, mx_guard_lock, mx_guard_unlock, store_flag
from miopyx.values._args cimport checked_add, checked_mul, convert_member, raise_unknown, read_ints, to_int, to_member
from miopyx import enums
from miopyx.errors import BadParmError, InvalidValueError, MIOpenError, UnknownError
from miopyx.enums import miopenConvolutionFindMode_t, miopenConvolutionMode_t, miopenDataType_t, miopenTensorLayout_t

cdef extern from *:
    """
    #include <stdint.h>
    static uint64_t mx_stamps;
    static inline uint64_t mx_next_stamp(void) { return __atomic_add_fetch(&mx_stamps, 1, __ATOMIC_RELAXED); }
    """
    # Each setting of each descriptor of the process gets a number of its own: two equal stamps mean equal content, so
    # that what was checked and found for a stamp need not be looked at again.  0 is a descriptor that was never set.
    uint64_t mx_next_stamp() noexcept nogil

cdef extern from *:
    """
    /* The class of ours that an object's class is, or was made of in Python. */
    static PyTypeObject *mx_own_type(PyObject *object) {
        PyTypeObject *type = Py_TYPE(object);
        while (type->tp_base && type->tp_flags & Py_TPFLAGS_HEAPTYPE)
            type = type->tp_base;
        return type;
    }
    """
    ctypedef struct PyTypeObject:
        Py_ssize_t tp_basicsize
    PyTypeObject* mx_own_type(PyObject* object) noexcept
    object PyType_GenericAlloc(PyTypeObject* type, Py_ssize_t items)

cdef enum:
    TRANSPOSE = 1
    PEDANTIC = 1           # miopenMathPedantic


cdef int type_size(int data_type) noexcept nogil:
    """Bytes of one element, 0 for a number that is no data type."""
    if data_type == 1 or data_type == 2:
        return 4
    if data_type == 0 or data_type == 5:
        return 2
    if data_type in (3, 7, 8, 1007, 1008, MX_BYTE):
        return 1
    if data_type == 6 or data_type == 9:
        return 8
    return 0


cdef bint is_ocp8(int64_t data_type) noexcept nogil:
    """Whether a type is one of OCP's float8, of which convolutions take two together, and a result of another."""
    return data_type == MX_E4M3 or data_type == MX_E5M2


cdef int to_data_type(object value, str name) except -1:
    """A miopenDataType_t number, or a NumPy/ml_dtypes dtype or its name."""
    cdef int number
    if PyLong_Check(value):
        number = to_int(value, name)
    else:
        number = _named_type(value, name)
    if number < 0 or type_size(number) == 0:
        raise_unknown(value, "miopenDataType_t", name)
    return number


def numpy_type(kind):
    """Return NumPy's type of a miopenDataType_t; ml_dtypes has those that NumPy lacks."""
    name = enums.TYPE_NAMES[int(kind)]
    if name[:6] == "bfloat" or name[:6] == "float8":
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


cdef int _named_type(object value, str name) except? -1:
    """A type by a name, or by an object of NumPy, ml_dtypes, PyTorch or their like that has one."""
    cdef bint native = True
    text = None
    try:
        native = getattr(value, "isnative", True)
        text = getattr(value, "name", None) or getattr(value, "__name__", None) or value
        if type(value).__name__ == "dtype" and text is value:  # PyTorch's: torch.float32
            text = str(value).rpartition(".")[2]
        if isinstance(value, str) and value[:1] in _BYTE_ORDERS:
            native, text = value[0] in ("=", "|", "<" if sys.byteorder == "little" else ">"), value[1:]
        if isinstance(text, str):
            text = text.rpartition(".")[2]  # "torch.float32"
        known = enums.number_of("miopenDataType_t", text) if isinstance(text, str) else None
    except Exception:  # an object whose attributes raise
        known = None
    if known is None:
        if isinstance(text, str) and text in enums.AMBIGUOUS_TYPES:
            raise BadParmError("a name of more than one type", name, value, enums.AMBIGUOUS_TYPES[text])
        if isinstance(value, str):
            raise_unknown(value, "miopenDataType_t", name)
        return convert_member(value, "miopenDataType_t", name)  # a NumPy integer, say
    if not native:
        raise BadParmError("type in another byte order than the machine's", name, value, "native byte order")
    return known


_BYTE_ORDERS = ("<", ">", "=", "|")

# Dimension numbers from the outermost to the innermost, for lengths given in n c (d) h w order.
_ORDER = {0: (0, 1, 2, 3), 1: (0, 2, 3, 1), 2: (1, 2, 3, 0), 3: (0, 1, 2, 3), 4: (0, 1, 2, 3),
          5: (1, 2, 3, 0), 6: (1, 2, 3, 0), 7: (0, 1, 2, 3, 4), 8: (0, 2, 3, 4, 1)}
_VECTOR = {3: 4, 4: 8, 5: 4, 6: 8}


cdef uint64_t next_stamp() noexcept nogil:
    """A number that no setting of any descriptor had before."""
    return mx_next_stamp()


cdef class Descriptor:
    """Base of all descriptors."""

    cdef str described(self):
        return type(self).__name__

    cdef tuple settings(self):
        """The calls that make a new descriptor into this one: functions, each with what follows the descriptor."""
        raise TypeError(f"no settings of {type(self).__name__}")

    cdef Descriptor copied(self):
        """A copy with the same stamp: what it says at this moment, whoever sets it."""
        cdef PyTypeObject* own = mx_own_type(<PyObject*> self)
        cdef Descriptor made = <Descriptor> PyType_GenericAlloc(own, 0)  # all zeros: holds nothing
        cdef char* here = <char*> <PyObject*> self
        cdef char* there = <char*> <PyObject*> made
        cdef size_t own_part = sizeof(PyObject), content = <char*> &self.stamp - here  # between them what others change
        memcpy(there + own_part, here + own_part, <char*> &self.destroyed - here - own_part)
        made.destroyed = load_flag(self.destroyed)
        mx_guard_lock(&self.guard)
        memcpy(there + content, here + content, own.tp_basicsize - content)
        made.hold()
        mx_guard_unlock(&self.guard)
        return made

    cdef int hold(self) noexcept:
        """Take references to the objects that were copied bit by bit."""
        return 0

    def __repr__(self):
        cdef Descriptor now = self.copied()  # with the GIL, too: making the text may let go of it
        return f"<destroyed {now.described()}>" if now.destroyed else now.described()

    def __eq__(self, other):
        cdef Descriptor a, b
        if type(self) is not type(other):
            return NotImplemented
        a, b = self.copied(), (<Descriptor> other).copied()
        return a.destroyed == b.destroyed and (a.stamp == b.stamp or a.settings() == b.settings())

    def __hash__(self):
        return hash((type(self), self.copied().settings()))

    def __reduce__(self):
        if load_flag(self.destroyed):
            raise TypeError(f"{self!r} cannot be copied")
        return _made_again, (type(self), self.copied().settings())


def _made_again(type kind not None, tuple settings not None):
    """Return a descriptor from what `__reduce__` kept; what is no setting raises as the functions do."""
    desc = kind()
    for function, *arguments in settings:
        function(desc, *arguments)
    return desc


cdef object check_descriptor(object desc, type kind, str name):
    """`desc` where it is a live descriptor of a class."""
    if not isinstance(desc, kind):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise BadParmError("another kind of object", name, desc, f"{article} {kind.__name__}")
    if load_flag((<Descriptor> desc).destroyed):
        raise BadParmError("descriptor was destroyed", name, desc, "a live descriptor")
    return desc


def destroy(desc, type kind not None, str name not None):
    """Body of the functions that destroy descriptors: None is fine, a later use of the descriptor is an error."""
    if desc is not None:
        if not isinstance(desc, kind):
            check_descriptor(desc, kind, name)
        store_flag((<Descriptor> desc).destroyed, True)


cdef class TensorDescriptor(Descriptor):
    """TensorDescriptor(data_type=None, lens=None, strides=None, layout=None)\n--\n\n\
    Type, lengths and strides of a tensor (miopenTensorDescriptor_t).

    Parameters
    ----------
    data_type : miopenDataType_t, numpy dtype or its name, optional
        Without it the descriptor is empty, as miopenCreateTensorDescriptor leaves it.
    lens : sequence of int
        Lengths in n, c, (d), h, w order, whatever the layout; at most 8, each >= 0.  A tensor with a length of 0 has
        no elements and no memory: an operation looks at no buffer of it.
    strides : sequence of int, optional
        Elements between neighbours along each dimension, each >= 1.  Default: packed.
    layout : miopenTensorLayout_t, optional
        Chooses packed strides; not together with `strides`.

    Raises
    ------
    BadParmError
        For lengths below 0, strides below 1, unknown types, sizes beyond 64 bits.
    """

    def __init__(self, data_type=None, lens=None, strides=None, layout=None):
        if data_type is None:
            if lens is not None or strides is not None or layout is not None:
                raise BadParmError("missing", "data_type", None, "a miopenDataType_t")
            return
        if lens is None:
            raise BadParmError("missing", "lens", None, "a sequence of lengths")
        try:
            if layout is None:
                set_tensor(self, data_type, _length(lens, MAX_DIMS, "lens"), lens, strides, True)
            elif strides is not None:
                raise BadParmError("layout and strides exclude each other", "strides", strides, None)
            else:
                set_tensor_layout(self, data_type, layout, lens, _length(lens, MAX_DIMS, "lens"))
        except (BadParmError, InvalidValueError) as e:
            raise renamed(e, dataType="data_type", nbDims="lens", num_lens="lens", dimsA="lens", stridesA="strides",
                          tensorLayout="layout") from None

    def __cinit__(self, *args, **kwargs):
        self.ndim = 0
        self.type = 1
        self.cast_type = -1
        self.vector_length = 1

    cdef int set(self, int data_type, int ndim, const int64_t* lens, const int64_t* strides,
                 int vector_length) except -1:
        cdef int64_t elements = vector_length, space = vector_length, size = type_size(data_type), nbytes
        cdef int i
        for i in range(ndim):
            if lens[i] < 0:
                raise BadParmError("length below 0", f"lens[{i}]", lens[i], ">= 0")
            if strides[i] < 1:
                raise BadParmError("stride below 1", f"strides[{i}]", strides[i], ">= 1")
            elements = checked_mul(elements, lens[i], "lens")
            space = checked_add(space, checked_mul(max(lens[i] - 1, 0), strides[i], "strides"), "strides")
        if elements == 0:
            space = 0
        nbytes = checked_mul(space, size, "strides")
        checked_mul(elements, size, "lens")
        begin_setting(self)
        self.type, self.ndim, self.vector_length, self.cast_type = data_type, ndim, vector_length, -1
        memcpy(self.len, lens, ndim * sizeof(int64_t))
        memcpy(self.stride, strides, ndim * sizeof(int64_t))
        self.elements, self.space, self.bytes = elements, space, nbytes
        end_setting(self)
        return 0

    cdef int require_set(self, str name) except -1:
        if self.ndim == 0:
            raise BadParmError("tensor descriptor that was never set", name, self, "a set descriptor")
        return 0

    @property
    def data_type(self):
        """The miopenDataType_t."""
        return miopenDataType_t(self.type)

    @property
    def dtype(self):
        """The NumPy name of the type, such as 'float32' or 'bfloat16'."""
        return enums.TYPE_NAMES[self.type]

    @property
    def lens(self):
        """Lengths, n c (d) h w."""
        cdef TensorDescriptor now = <TensorDescriptor> seen(self)
        return tuple([now.len[i] for i in range(now.ndim)])

    @property
    def strides(self):
        """Strides in elements."""
        cdef TensorDescriptor now = <TensorDescriptor> seen(self)
        return tuple([now.stride[i] for i in range(now.ndim)])

    @property
    def nbytes(self):
        """Bytes from the first to the last addressed element, both included."""
        cdef TensorDescriptor now = <TensorDescriptor> seen(self)
        return now.bytes if now.ndim else 0

    @property
    def packed(self):
        """True where the tensor has no holes: as many elements as its space holds."""
        cdef TensorDescriptor now = <TensorDescriptor> seen(self)
        return now.elements == now.space

    @property
    def layout(self):
        """The first of NCHW, NHWC, NCDHW, NDHWC, CHWN that the strides fit, or None."""
        cdef TensorDescriptor now = <TensorDescriptor> seen(self)
        for number in (0, 1, 7, 8, 2):
            order = _ORDER[number]
            if len(order) == now.ndim and all(
                now.stride[a] >= now.stride[b] for a, b in zip(order, order[1:])
            ):
                return miopenTensorLayout_t(number)
        return None

    @staticmethod
    def of(array):
        """Return the descriptor of an array: its type, lengths and strides.

        Parameters
        ----------
        array : array
            Of NumPy, ml_dtypes, PyTorch, pyopencl or any library whose arrays have shape, dtype, and strides in bytes
            or stride() in elements.  A length of 1 gets the stride of a packed tensor, as do all without elements.

        Raises
        ------
        BadParmError
            For what is no such array, has strides below 1 or an unknown type.
        """
        cdef int64_t step = 1, width
        try:
            shape, dtype = tuple(array.shape), array.dtype
            number = to_data_type(dtype, "array")
            width = type_size(number)
            strides = getattr(array, "strides", None)
            strides = [s // width if s % width == 0 else 0 for s in strides] if strides is not None else array.stride()
            strides = list(strides)
        except MIOpenError:
            raise
        except Exception as e:  # whatever a strange object raises
            raise BadParmError(f"not an array: {e}", "array", type(array).__name__,
                               "an array with shape, strides and dtype") from None
        if 0 in shape:
            return TensorDescriptor(number, shape)
        for i in reversed(range(len(shape))):
            if shape[i] == 1:
                strides[i] = step
            step = max(step, strides[i] * shape[i])
        return TensorDescriptor(number, shape, strides)

    cdef tuple settings(self):
        if self.ndim == 0:
            return ()
        cast = () if self.cast_type < 0 else ((set_cast_type, self.cast_type),)
        if self.vector_length == 1:
            return ((set_tensor, self.type, self.ndim, self.lens, self.strides, True), *cast)
        for number, vector in _VECTOR.items():
            lens = self.lens if number < 5 else (self.len[3], self.len[0], self.len[1], self.len[2])
            lens = (lens[0], lens[1] * vector, lens[2], lens[3])
            if vector == self.vector_length and TensorDescriptor(self.type, lens, None, number).strides == self.strides:
                return ((set_tensor_layout, self.type, number, lens, 4), *cast)
        return super().settings()

    cdef str described(self):
        if not self.ndim:
            return "<TensorDescriptor never set>"
        return f"TensorDescriptor({self.dtype!r}, {self.lens}, strides={self.strides})"


cdef int _length(object values, int most, str name) except -1:
    cdef Py_ssize_t length
    try:
        length = len(values)
    except Exception:
        raise BadParmError("not a sequence of integers", name, values, "a sequence") from None
    if length > most:
        raise BadParmError("too many values", name, length, f"at most {most}")
    return <int> length


cdef int _packed_strides(int ndim, const int64_t* lens, order, int vector_length, int64_t* strides) except -1:
    cdef int64_t stride = vector_length
    cdef int i
    for i in reversed(order) if order is not None else range(ndim - 1, -1, -1):
        strides[i] = stride
        if lens[i] > 0:
            stride = checked_mul(stride, lens[i], "lens")
    return 0


def renamed(error, **names):
    """Return an error about lens[1], say, with the parameter's name in the function that was called.

    A tuple has a name for each index.
    """
    word, bracket, rest = str(error.parameter).partition("[")
    word, dot, member = word.partition(".")
    name = names.get(word, word)
    name = name[int(rest[:-1])] if isinstance(name, tuple) else name + dot + member + bracket + rest
    return type(error)(error.message, name, error.value, error.limit)


def set_tensor(TensorDescriptor desc, data_type, num_dims, dims, strides, bint wide):
    """Body of miopenSetTensorDescriptor and its V2."""
    cdef int64_t lens[MAX_DIMS]
    cdef int64_t steps[MAX_DIMS]
    cdef int number = to_data_type(data_type, "dataType"), n = to_int(num_dims, "nbDims")
    if n < 1:
        raise InvalidValueError("no dimensions", "nbDims", n, f"1 ... {MAX_DIMS}")
    if n > MAX_DIMS:
        raise BadParmError("too many dimensions", "nbDims", n, f"1 ... {MAX_DIMS}")
    if dims is None:
        raise InvalidValueError("null", "dimsA", None, "a sequence of lengths")
    read_ints(dims, lens, n, wide, "dimsA")
    if strides is None:
        _packed_strides(n, lens, None, 1, steps)
    else:
        read_ints(strides, steps, n, wide, "stridesA")
    try:
        desc.set(number, n, lens, steps, 1)
    except BadParmError as e:
        raise renamed(e, lens="dimsA", strides="stridesA") from None


def set_cast_type(TensorDescriptor desc, cast_type):
    """Body of miopenSetTensorCastType."""
    cdef int number
    desc.require_set("tensorDesc")
    number = to_data_type(cast_type, "cast_type")
    begin_setting(desc)
    desc.cast_type = number
    end_setting(desc)


def set_tensor_layout(TensorDescriptor desc, data_type, layout, lens, num_lens):
    """Body of miopenSetNdTensorDescriptorWithLayout."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t steps[MAX_DIMS]
    cdef int64_t n
    cdef int number = to_data_type(data_type, "dataType"), count = to_int(num_lens, "num_lens")
    cdef int kind, vector
    if isinstance(layout, str) or type(layout).__name__ == "memory_format":  # PyTorch's
        if str(layout).rpartition(".")[2] in ("channels_last", "channels_last_3d"):
            layout = "NDHWC" if count == 5 else "NHWC"
    kind = to_member(layout, "miopenTensorLayout_t", "tensorLayout")
    vector = _VECTOR.get(kind, 1)
    if kind not in _ORDER:
        raise_unknown(layout, "miopenTensorLayout_t", "tensorLayout")
    if lens is None or count < 1:
        raise InvalidValueError("no dimensions", "lens", lens, "a sequence of lengths")
    if count != len(_ORDER[kind]):
        raise BadParmError(f"layout needs {len(_ORDER[kind])} dimensions", "num_lens", count, len(_ORDER[kind]))
    read_ints(lens, sizes, count, False, "lens")
    if vector > 1:
        if sizes[1] < 1 or sizes[1] % vector:
            raise BadParmError(f"channels are not a multiple of {vector}", "lens[1]", sizes[1], f"multiple of {vector}")
        sizes[1] //= vector
    _packed_strides(count, sizes, _ORDER[kind], vector, steps)
    if kind == 5 or kind == 6:
        # CHWNc4 and CHWNc8 are kept, and handed out, in c h w n order.
        n = sizes[0]
        sizes[0], sizes[1], sizes[2], sizes[3] = sizes[1], sizes[2], sizes[3], n
        n = steps[0]
        steps[0], steps[1], steps[2], steps[3] = steps[1], steps[2], steps[3], n
    desc.set(number, count, sizes, steps, vector)


cdef class ConvolutionDescriptor(Descriptor):
    """ConvolutionDescriptor(pads=None, strides=None, dilations=None, mode=0, groups=1, output_pads=None,
                             end_pads=None)\n--\n\n\
    Mode, pads, strides, dilations, groups and attributes of a convolution (miopenConvolutionDescriptor_t).

    Parameters
    ----------
    pads, strides, dilations : sequence of int, optional
        One value a spatial axis (d, h, w), 1 to 3 of them; pads >= 0, strides and dilations >= 1.
        Default: two axes, pads 0, strides 1, dilations 1.
    mode : miopenConvolutionMode_t, optional
    groups : int, optional
    output_pads : sequence of int, optional
        What a transposed convolution adds to its output's far end, each below its stride or its dilation.
    end_pads : sequence of int, optional
        Pads behind each axis where they differ from those before it.  Default: `pads`.
    """

    def __init__(self, pads=None, strides=None, dilations=None, mode=0, groups=1, output_pads=None, end_pads=None):
        given = {name: v for name, v in (("pads", pads), ("strides", strides), ("dilations", dilations),
                                         ("output_pads", output_pads), ("end_pads", end_pads)) if v is not None}
        first = next(iter(given), "pads")
        cdef int n = _length(given[first], MAX_SPATIAL_DIMS, first) if given else 2
        try:
            set_convolution(self, n, (0,) * n if pads is None else pads, (1,) * n if strides is None else strides,
                            (1,) * n if dilations is None else dilations, mode, end_pads)
            set_group_count(self, groups)
            if output_pads is not None:
                set_output_pads(self, n, output_pads)
        except BadParmError as e:
            raise renamed(e, spatialDim=first, padA="pads", endPadA="end_pads", strideA="strides",
                          dilationA="dilations", c_mode="mode", groupCount="groups", adjA="output_pads") from None

    def __cinit__(self, *args, **kwargs):
        cdef int i
        self.spatial = 2
        for i in range(2):
            self.stride[i] = self.dilation[i] = 1
        self._start_over()
        self.stamp = mx_next_stamp()

    cdef tuple settings(self):
        mode = () if self.find_mode_set == 0 else ((set_find_mode, self.find_mode_set),)
        return ((set_convolution, self.spatial, self.pads, self.strides, self.dilations, self.mode, self.end_pads),
                (set_group_count, self.groups), (set_output_pads, self.spatial, self.output_pads),
                (set_attribute, 0, self.attribute[0]), (set_attribute, 1, self.attribute[1]),
                (set_attribute, 2, self.attribute[2]), (set_attribute, 3, self.attribute[3]), *mode)

    cdef int _start_over(self) noexcept:
        """What a new descriptor has beside its arguments."""
        cdef int i
        self.groups = 1
        for i in range(MAX_SPATIAL_DIMS):
            self.output_pad[i] = 0
        self.attribute[0], self.attribute[1], self.attribute[2], self.attribute[3] = -1, 0, 1, PEDANTIC
        self.find_mode_set = 0
        return 0

    cdef int set(self, int spatial, const int64_t* pad, const int64_t* stride, const int64_t* dilation, int mode,
                 const int64_t* end) except -1:
        cdef int i
        for i in range(spatial):
            if pad[i] < 0:
                raise BadParmError("negative pad", f"pad[{i}]", pad[i], ">= 0")
            if end[i] < 0:
                raise BadParmError("negative pad", f"end_pad[{i}]", end[i], ">= 0")
            if stride[i] < 1:
                raise BadParmError("stride below 1", f"stride[{i}]", stride[i], ">= 1")
            if dilation[i] < 1:
                raise BadParmError("dilation below 1", f"dilation[{i}]", dilation[i], ">= 1")
        if mode < 0 or mode > 3:
            raise_unknown(mode, "miopenConvolutionMode_t", "c_mode")
        begin_setting(self)
        self._start_over()  # MIOpen puts a new descriptor in the old one's place
        self.spatial = spatial
        self.mode = TRANSPOSE if mode == TRANSPOSE else 0  # the two deprecated modes are plain convolutions
        for i in range(spatial):
            self.pad[i], self.stride[i], self.dilation[i] = <int> pad[i], <int> stride[i], <int> dilation[i]
            self.end[i] = <int> end[i]
        end_setting(self)
        return 0

    cdef int output_dims(self, TensorDescriptor x, TensorDescriptor w, int64_t* out) except -1:
        """Output lengths (n, k, spatial ...) as MIOpen computes them: C division, never below 1."""
        cdef int i
        cdef int64_t extent, length, pads
        x.require_set("inputTensorDesc")
        w.require_set("filterDesc")
        if x.ndim != self.spatial + 2:
            raise BadParmError("rank does not fit the convolution", "inputTensorDesc", x.ndim, self.spatial + 2)
        if w.ndim != self.spatial + 2:
            raise BadParmError("rank does not fit the convolution", "filterDesc", w.ndim, self.spatial + 2)
        if x.type != w.type and not (is_ocp8(x.type) or is_ocp8(w.type)):  # those are checked with the result's
            raise BadParmError("input and filter types differ", "filterDesc", w.dtype, x.dtype)
        for i in range(self.spatial + 2):
            if w.len[i] == 0:
                raise BadParmError("length of 0", f"filterDesc.lens[{i}]", 0, ">= 1")
            if i > 0 and x.len[i] == 0:  # a batch may be empty
                raise BadParmError("length of 0", f"inputTensorDesc.lens[{i}]", 0, ">= 1")
        out[0] = x.len[0]
        if self.mode == TRANSPOSE:
            if x.len[1] != w.len[0]:
                raise BadParmError("filter count is not the input's channels", "filterDesc", w.len[0], x.len[1])
            if self.groups > 1 and w.len[0] % self.groups:
                raise BadParmError("groups do not divide the channels", "groupCount", self.groups,
                                   f"a divisor of {w.len[0]}")
            out[1] = checked_mul(w.len[1], self.groups, "filterDesc")
        else:
            if self.groups == 1:
                if x.len[1] != w.len[1]:
                    raise BadParmError("filter channels differ from the input's", "filterDesc", w.len[1], x.len[1])
            elif x.len[1] % w.len[1] or w.len[0] % (x.len[1] // w.len[1]):
                raise BadParmError("filter channels and count do not fit the groups", "filterDesc", w.lens,
                                   f"c a divisor of {x.len[1]}, k a multiple of the groups")
            out[1] = w.len[0] // w.vector_length
            if out[1] < 1:
                raise BadParmError("fewer filters than a vector holds", "filterDesc", w.len[0],
                                   f">= {w.vector_length}")
        for i in range(self.spatial):
            extent = checked_add(checked_mul(self.dilation[i], w.len[2 + i] - 1, "filterDesc"), 1, "filterDesc")
            pads = <int64_t> self.pad[i] + self.end[i]
            if self.mode == TRANSPOSE:
                if self.output_pad[i] >= max(self.stride[i], self.dilation[i]):
                    raise BadParmError("output pad is not below its stride or dilation",
                                       f"convDesc.output_pads[{i}]", self.output_pad[i],
                                       f"< {max(self.stride[i], self.dilation[i])}")
                length = checked_add(checked_mul(self.stride[i], x.len[2 + i] - 1, "inputTensorDesc"), extent,
                                     "inputTensorDesc")
                length = checked_add(length, self.output_pad[i] - pads, "inputTensorDesc")
            else:
                length = checked_add(x.len[2 + i], pads - extent, "inputTensorDesc")
                length = _truncate(length, self.stride[i]) + 1
            out[2 + i] = length if length > 1 else 1
        return 0

    @property
    def spatial_dim(self):
        return self.spatial

    @property
    def pads(self):
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        return tuple([now.pad[i] for i in range(now.spatial)])

    @property
    def strides(self):
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        return tuple([now.stride[i] for i in range(now.spatial)])

    @property
    def dilations(self):
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        return tuple([now.dilation[i] for i in range(now.spatial)])

    @property
    def output_pads(self):
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        return tuple([now.output_pad[i] for i in range(now.spatial)])

    @property
    def end_pads(self):
        """Pads behind each axis."""
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        return tuple([now.end[i] for i in range(now.spatial)])

    @property
    def group_count(self):
        return self.groups

    @property
    def convolution_mode(self):
        return miopenConvolutionMode_t(self.mode)

    @property
    def find_mode(self):
        """The descriptor's own find mode, or None where it follows the environment."""
        return miopenConvolutionFindMode_t(self.find_mode_set) if self.find_mode_set else None

    def output_lens(self, x, w):
        """Return the lengths of y for input `x` and filter `w`.

        As miopenGetConvolutionNdForwardOutputDim says them: 1 along an axis where w is longer than x with its pads.
        """
        cdef int64_t out[MAX_DIMS]
        cdef ConvolutionDescriptor now = <ConvolutionDescriptor> seen(self)
        try:
            now.output_dims(as_tensor(x, "inputTensorDesc"), as_tensor(w, "filterDesc"), out)
        except BadParmError as e:
            raise renamed(e, inputTensorDesc="x", filterDesc="w", groupCount="self.groups",
                          convDesc="self") from None
        return tuple([out[i] for i in range(now.spatial + 2)])

    cdef str described(self):
        cdef ConvolutionDescriptor new = ConvolutionDescriptor()
        ends = f", end_pads={self.end_pads}" if self.end_pads != self.pads else ""
        told = [f"{_ATTRIBUTES[i]}={self.attribute[i]}" for i in range(len(_ATTRIBUTES))
                if self.attribute[i] != new.attribute[i]]
        told += [f"find mode {self.find_mode_set}"] if self.find_mode_set else []
        return (f"ConvolutionDescriptor(pads={self.pads}, strides={self.strides}, dilations={self.dilations}, "
                f"mode={self.convolution_mode.name!r}, groups={self.groups}, output_pads={self.output_pads}{ends})"
                f"{' with ' if told else ''}{', '.join(told)}")


cdef inline int64_t _truncate(int64_t a, int64_t b) noexcept nogil:
    if b == 1:
        return a  # a 64-bit division takes longer than the rest of an axis
    # Toward zero whatever the cdivision directive says: (in - filter) may be negative.
    return -((-a) // b) if a < 0 else a // b


def set_convolution(ConvolutionDescriptor desc, spatial, pads, strides, dilations, mode, end_pads=None):
    """Body of the two miopenInitConvolution... functions."""
    cdef int64_t e[MAX_SPATIAL_DIMS]
    cdef int64_t p[MAX_SPATIAL_DIMS]
    cdef int64_t s[MAX_SPATIAL_DIMS]
    cdef int64_t d[MAX_SPATIAL_DIMS]
    cdef int n = to_int(spatial, "spatialDim")
    if n < 1 or n > MAX_SPATIAL_DIMS:
        raise BadParmError("number of spatial dimensions", "spatialDim", n, f"1 ... {MAX_SPATIAL_DIMS}")
    read_ints(pads, p, n, False, "padA")
    read_ints(pads if end_pads is None else end_pads, e, n, False, "endPadA")
    read_ints(strides, s, n, False, "strideA")
    read_ints(dilations, d, n, False, "dilationA")
    kind = to_member(mode, "miopenConvolutionMode_t", "c_mode")
    try:
        desc.set(n, p, s, d, kind, e)
    except BadParmError as e_:
        raise renamed(e_, pad="padA", end_pad="endPadA", stride="strideA", dilation="dilationA") from None


def set_group_count(ConvolutionDescriptor desc, groups):
    cdef int count = to_int(groups, "groupCount")
    if count < 1:
        raise BadParmError("group count below 1", "groupCount", count, ">= 1")
    begin_setting(desc)
    desc.groups = count
    end_setting(desc)


def set_output_pads(ConvolutionDescriptor desc, spatial, pads):
    cdef int64_t values[MAX_SPATIAL_DIMS]
    cdef int i, n = to_int(spatial, "spatialDim")
    if n != desc.spatial:
        raise UnknownError("number of spatial dimensions differs from the descriptor's", "spatialDim", n, desc.spatial)
    read_ints(pads, values, n, False, "adjA")
    for i in range(n):
        if values[i] < 0:
            raise BadParmError("negative output pad", f"adjA[{i}]", values[i], ">= 0")
    begin_setting(desc)
    for i in range(n):
        desc.output_pad[i] = <int> values[i]
    end_setting(desc)


_ATTRIBUTES = "FP16_ALT_IMPL", "DETERMINISTIC", "FP8_ROUNDING_MODE", "MATH_TYPE"
_ATTRIBUTE_LIMITS = ((-1, 1), (0, 1), (0, 1), (0, 1))
_ATTRIBUTE_VALUES = (None, None, "miopenF8RoundingMode_t", "miopenMathType_t")


def set_attribute(ConvolutionDescriptor desc, attr, value):
    cdef int number = to_member(attr, "miopenConvolutionAttrib_t", "attr"), v
    if number < 0 or number >= len(_ATTRIBUTE_LIMITS):
        raise_unknown(attr, "miopenConvolutionAttrib_t", "attr")
    low, high = _ATTRIBUTE_LIMITS[number]
    enumeration = _ATTRIBUTE_VALUES[number]
    v = to_int(value, "value") if enumeration is None else to_member(value, enumeration, "value")
    if v < low or v > high:
        if enumeration is not None:
            raise_unknown(value, enumeration, "value")
        raise BadParmError("attribute value out of range", "value", v, f"{low} ... {high}")
    begin_setting(desc)
    desc.attribute[number] = v
    end_setting(desc)


def get_attribute(ConvolutionDescriptor desc, attr):
    cdef int number = to_member(attr, "miopenConvolutionAttrib_t", "attr")
    if number < 0 or number >= len(_ATTRIBUTE_LIMITS):
        raise_unknown(attr, "miopenConvolutionAttrib_t", "attr")
    return load_int(desc.attribute[number])


def set_find_mode(ConvolutionDescriptor desc, mode):
    cdef int number = to_member(mode, "miopenConvolutionFindMode_t", "findMode")
    if number < 1 or number > 5:
        raise_unknown(mode, "miopenConvolutionFindMode_t", "findMode")
    begin_setting(desc)
    desc.find_mode_set = number
    end_setting(desc)
