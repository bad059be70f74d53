"""Recurrent layers: their descriptors, problems, and where parameters and reserved numbers lie."""

from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport checked_add, checked_mul, raise_unknown, to_int, to_int64, to_member
from ._descriptors cimport (
    Descriptor, TensorDescriptor, as_tensor, begin_setting, end_setting, seen, to_data_type, type_size,
)
from ._dropout cimport DROPOUT_STATE_BYTES, DropoutDescriptor, as_dropout
from ._problem cimport Problem
from miopyx.values._integers cimport up
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT32, MX_RNN_BACKWARD_DATA, MX_RNN_BACKWARD_WEIGHTS,
    MX_RNN_FORWARD, MX_RNN_GET, mx_rnn_problem, mx_tensor,
)

import numpy

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._descriptors import numpy_type

cdef tuple TYPES = (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE)
cdef int64_t LARGEST_PRODUCT = <int64_t> 1 << 60  # of lengths: bytes fit 64 bits
cdef str TYPE_NAMES = "float16, bfloat16, float32 or float64"

cdef enum:
    ALIGNED = 256          # bytes, of what lies in a reserve space
    LARGEST = 0x7FFFFFFF
    MOST = 1 << 24         # steps, and sequences: the lengths and their table take memory before any tensor is seen


def _set_rnn(RNNDescriptor desc, hsize, nlayers, dropout, in_mode, direction, mode, bias, algo, data_type, padding):
    desc.set(hsize, nlayers, dropout, in_mode, direction, mode, bias, algo, data_type)
    desc.padding = padding


cdef int _member(object value, str enumeration, str name, int last) except -1:
    cdef int number = to_member(value, enumeration, name)
    if not 0 <= number <= last:
        raise_unknown(value, enumeration, name)
    return number


cdef int _size(object value, str name, int most=LARGEST) except -1:
    cdef int number = to_int(value, name)
    if not 1 <= number <= most:
        raise BadParmError("size", name, number, f"1 ... {most}")
    return number


cdef class RNNDescriptor(Descriptor):
    """RNNDescriptor(hidden_size=None, layers=1, mode=1, direction=0, bias=1, input_mode=0, data_type=1, dropout=None,
                     algorithm=0)\n--\n\n\
    What a stack of recurrent layers is (miopenRNNDescriptor_t).

    Parameters
    ----------
    hidden_size : int, optional
        Length of a state.  Without it the descriptor is empty, as miopenCreateRNNDescriptor leaves it.
    layers : int
        How many lie on each other.
    mode : miopenRNNMode_t
        The cell.
    direction : miopenRNNDirectionMode_t
        Bidirectional layers have one cell that goes forward in time, one that goes backward, and both their states as
        output.
    bias : miopenRNNBiasMode_t
    input_mode : miopenRNNInputMode_t
        Whether the first layer multiplies its input by weights.
    data_type : miopenDataType_t, numpy dtype or its name
        Of inputs, outputs, states and parameters.
    dropout : DropoutDescriptor, optional
        Drops elements between layers, in training.
    algorithm : miopenRNNAlgo_t
        Kept and given back.

    Raises
    ------
    BadParmError
        For sizes below 1 and unknown members.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """

    def __init__(self, hidden_size=None, layers=1, mode=RNN_TANH, direction=0, bias=1, input_mode=0,
                 data_type=MX_FLOAT, dropout=None, algorithm=0):
        if hidden_size is not None:
            self.set(hidden_size, layers, dropout, input_mode, direction, mode, bias, algorithm, data_type)

    cdef tuple settings(self):
        if self.hidden == 0:
            return ()
        return ((_set_rnn, self.hidden, self.layers, self.dropout, self.input_mode, self.direction, self.mode,
                 self.bias_mode, self.algorithm, self.type, self.padding),)

    cdef int set(self, object hsize, object nlayers, object dropout, object in_mode, object direction, object mode,
                 object bias, object algo, object data_type) except -1:
        cdef int hidden = _size(hsize, "hsize"), layers = _size(nlayers, "nlayers")
        cdef DropoutDescriptor drop = None
        cdef int input_mode = _member(in_mode, "miopenRNNInputMode_t", "inMode", 1)
        cdef int way = _member(direction, "miopenRNNDirectionMode_t", "direction", 1)
        cdef int cell = _member(mode, "miopenRNNMode_t", "rnnMode", RNN_GRU)
        cdef int has_bias = _member(bias, "miopenRNNBiasMode_t", "biasMode", 1)
        cdef int algorithm = _member(algo, "miopenRNNAlgo_t", "algo", 1)
        cdef int kind = to_data_type(data_type, "dataType")
        if kind not in TYPES:
            raise MIOpenNotImplementedError("data type of recurrent layers", "dataType", numpy_type(kind), TYPE_NAMES)
        if dropout is not None:
            as_dropout(dropout, "dropoutDesc").require_set()
            drop = dropout  # itself: what it is set to later counts
        begin_setting(self)
        _old = self.dropout  # goes when the guard does
        self.hidden, self.layers, self.dropout, self.input_mode, self.direction = hidden, layers, drop, input_mode, way
        self.mode, self.bias_mode, self.algorithm, self.type, self.padding = cell, has_bias, algorithm, kind, 0
        end_setting(self)
        return 0

    cdef int hold(self) noexcept:
        Py_INCREF(self.dropout)
        return 0

    cdef int require_set(self) except -1:
        if self.hidden == 0:
            raise BadParmError("RNN descriptor that was never set", "rnnDesc", self, "a set descriptor")
        return 0

    cdef int64_t parameters(self, int64_t vector, str name) except -1:
        """How many numbers the parameters are, for inputs of so many."""
        cdef int64_t gates = checked_mul(rnn_gates(self.mode), self.hidden, "hsize"), dirs = self.direction + 1, width
        if self.input_mode == 1:
            if vector != self.hidden:
                raise BadParmError("In miopenRNNskip mode input_vector size and hidden_size shoud be same", name,
                                   vector, self.hidden)
            vector = 0
        width = checked_add(checked_add(vector, self.hidden, "hsize"),
                            checked_mul(self.layers - 1, (dirs + 1) * self.hidden, "nlayers"), "hsize")
        if self.bias_mode:
            width = checked_add(width, 2 * <int64_t> self.layers, "nlayers")
        width = checked_mul(checked_mul(gates, dirs, "hsize"), width, "hsize")
        checked_mul(width, sizeof(double), "hsize")  # bytes of any type
        return width

    cdef int64_t matrix_offset(self, int64_t vector, int64_t layer, int64_t number, int64_t* columns) except -1:
        """Where matrix `number` of a layer begins, and the length of its rows."""
        cdef mx_rnn_problem p = self._shape(vector)
        cdef int64_t gates = rnn_gates(self.mode), last = self.layers * p.dirs - 1
        self.parameters(vector, "xDesc")  # all of them can be counted
        cdef bint recurrent = number >= gates
        if not 0 <= layer <= last:
            raise BadParmError("layer", "layer", layer, f"0 ... {last}")
        if not 0 <= number < 2 * gates:
            raise BadParmError("number of a matrix", "paramID", number, f"0 ... {2 * gates - 1}")
        if p.skip and layer < p.dirs and not recurrent:
            raise BadParmError("Parameter of input layer is null in input skip mode", "paramID", number,
                               f"{gates} ... {2 * gates - 1}")
        columns[0] = self.hidden if recurrent else rnn_width(&p, layer // p.dirs)
        return (rnn_matrix(&p, layer // p.dirs, layer % p.dirs, recurrent)
                + number % gates * self.hidden * columns[0])

    cdef int64_t bias_offset(self, int64_t vector, int64_t layer, int64_t number) except -1:
        """Where bias `number` of a layer begins."""
        cdef mx_rnn_problem p = self._shape(vector)
        cdef int64_t gates = rnn_gates(self.mode), last = self.layers * p.dirs - 1
        self.parameters(vector, "xDesc")
        if not self.bias_mode:
            raise BadParmError("the layers have no biases", "rnnDesc", self, "miopenRNNwithBias")
        if not 0 <= layer <= last:
            raise BadParmError("layer", "layer", layer, f"0 ... {last}")
        if not 0 <= number < 2 * gates:
            raise BadParmError("number of a bias", "biasID", number, f"0 ... {2 * gates - 1}")
        return rnn_bias(&p, layer // p.dirs, layer % p.dirs, number >= gates) + number % gates * self.hidden

    cdef mx_rnn_problem _shape(self, int64_t vector) noexcept:
        cdef mx_rnn_problem p
        memset(&p, 0, sizeof(p))
        p.mode, p.dirs, p.skip, p.bias, p.layers, p.hidden, p.input = (
            self.mode, self.direction + 1, self.input_mode, self.bias_mode, self.layers, self.hidden, vector)
        return p

    @property
    def hidden_size(self):
        """None until set."""
        return self.hidden or None

    @property
    def layer_count(self):
        return self.layers

    @property
    def rnn_mode(self):
        """The miopenRNNMode_t."""
        return enums.miopenRNNMode_t(self.mode)

    @property
    def bidirectional(self):
        return self.direction == 1

    @property
    def has_bias(self):
        return self.bias_mode == 1

    @property
    def skips_input(self):
        return self.input_mode == 1

    @property
    def rnn_algorithm(self):
        """The miopenRNNAlgo_t."""
        return enums.miopenRNNAlgo_t(self.algorithm)

    @property
    def data_type(self):
        """The miopenDataType_t."""
        return enums.miopenDataType_t(self.type)

    @property
    def dropout_descriptor(self):
        return (<RNNDescriptor> seen(self)).dropout

    @property
    def padding_mode(self):
        """The miopenRNNPaddingMode_t."""
        return enums.miopenRNNPaddingMode_t(self.padding)

    def set_padding_mode(self, mode):
        """Say whether shorter sequences are padded, of functions that take a descriptor a step."""
        cdef int number = _member(mode, "miopenRNNPaddingMode_t", "paddingMode", 1)
        self.require_set()
        begin_setting(self)
        self.padding = number
        end_setting(self)

    cdef str described(self):
        if self.hidden == 0:
            return "<RNNDescriptor never set>"
        return (f"RNNDescriptor({self.hidden}, {self.layers}, {self.rnn_mode.name!r}, "
                f"direction={enums.miopenRNNDirectionMode_t(self.direction).name!r}, "
                f"bias={enums.miopenRNNBiasMode_t(self.bias_mode).name!r}, "
                f"input_mode={enums.miopenRNNInputMode_t(self.input_mode).name!r}, "
                f"data_type={self.data_type.name!r}, dropout={self.dropout}, algorithm={self.rnn_algorithm.name!r}, "
                f"padding={enums.miopenRNNPaddingMode_t(self.padding).name!r})")


def _set_sequences(SeqTensorDescriptor desc, data_type, layout, steps, batch, vector, lengths):
    desc.set(data_type, layout, steps, batch, vector, lengths)


cdef object _lengths_of(object lengths, int64_t batch, int64_t steps, str name):
    """The lengths of sequences as int32."""
    if isinstance(lengths, (str, bytes, dict, set, frozenset)):
        raise BadParmError("not a sequence of integers", name, type(lengths).__name__, "integers")
    try:
        line = numpy.asarray(lengths)
    except Exception as e:  # whatever a strange object raises
        raise BadParmError(f"not a sequence of integers ({type(e).__name__})", name, type(lengths).__name__,
                           "integers") from None
    if line.ndim != 1 or line.dtype.kind not in "iu":
        raise BadParmError("not a sequence of integers", name, f"{line.ndim} dimensions of {line.dtype}",
                           "one dimension of integers")
    if len(line) != batch:
        raise BadParmError("number of lengths", name, len(line), batch)
    if line.min() < 0 or line.max() > steps:
        raise BadParmError("length of a sequence", name, int(line.min() if line.min() < 0 else line.max()),
                           f"0 ... {steps}")
    if line.max() < 1:
        raise BadParmError("no sequence has a step", name, 0, "1 or more")
    return line.astype(numpy.int32)


cdef class SeqTensorDescriptor(Descriptor):
    """SeqTensorDescriptor(data_type=None, layout=1, max_length=1, batch=1, vector=1, lengths=None)\n--\n\n\
    Vectors of the steps of several sequences (miopenSeqTensorDescriptor_t).

    Parameters
    ----------
    data_type : miopenDataType_t, numpy dtype or its name, optional
        Without it the descriptor is empty, as miopenCreateSeqTensorDescriptor leaves it.
    layout : miopenRNNBaseLayout_t
        SeqMajorNotPadded: (rows, vector), the steps one behind the other, each with those sequences that are so long;
        sequences come in the order of their lengths, the longest first.  Where all are equally long that is
        (steps, sequences, vector).  SeqMajorPadded: (steps, sequences, vector).  BatchMajorPadded: (sequences, steps,
        vector).
    max_length : int
        Steps of the longest sequence, or more where they are padded; 16777216 at most.
    batch : int
        How many sequences there are; 16777216 at most.
    vector : int
        Numbers of a step.
    lengths : sequence of int, optional
        Steps of each sequence, 0 ... max_length; without it all have max_length.

    Raises
    ------
    BadParmError
        For sizes below 1 or too large, lengths out of range, and lengths that increase where nothing is padded.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """

    def __init__(self, data_type=None, layout=RNN_PACKED, max_length=1, batch=1, vector=1, lengths=None):
        if data_type is not None:
            self.set(data_type, layout, max_length, batch, vector, lengths)

    cdef tuple settings(self):
        if self.layout == 0:
            return ()
        return ((_set_sequences, self.type, self.layout, self.steps, self.batch, self.vector,
                 tuple(self.lengths.tolist())),)

    cdef int set(self, object data_type, object layout, object steps, object batch, object vector,
                 object lengths) except -1:
        cdef int kind = to_data_type(data_type, "dataType"), count, longest, width
        cdef int how = to_member(layout, "miopenRNNBaseLayout_t", "layout")
        if kind not in TYPES:
            raise MIOpenNotImplementedError("data type of sequences", "dataType", numpy_type(kind), TYPE_NAMES)
        if not RNN_PACKED <= how <= RNN_SEQUENCES:
            raise_unknown(layout, "miopenRNNBaseLayout_t", "layout")
        longest, count, width = (_size(steps, "maxSequenceLen", MOST), _size(batch, "batchSize", MOST),
                                 _size(vector, "vectorSize"))
        if checked_mul(checked_mul(longest, count, "batchSize"), width, "vectorSize") > LARGEST_PRODUCT:
            raise BadParmError("numbers of all steps", "vectorSize", width, f"<= {LARGEST_PRODUCT // longest // count}")
        if lengths is None and <int64_t> longest * count > LARGEST:
            raise BadParmError("steps of all sequences", "batchSize", count, f"<= {LARGEST // longest}")
        line = (numpy.full(count, longest, numpy.int32) if lengths is None
                else _lengths_of(lengths, count, longest, "sequenceLenArray"))
        return self.take(kind, how, longest, count, width, line, "sequenceLenArray")

    cdef int take(self, int data_type, int layout, int64_t steps, int64_t batch, int64_t vector, object lengths,
                  str name) except -1:
        """Set to what was checked, but for the order of the lengths."""
        cdef object rises = numpy.flatnonzero(numpy.diff(lengths) > 0)
        cdef bint falling = len(rises) == 0, uneven = bool(lengths.min() != lengths.max())
        cdef int64_t rows = int(lengths.sum(dtype=numpy.int64)), longest = int(lengths.max())
        table = None
        if layout == RNN_PACKED and not falling:
            place = int(rises[0])
            raise BadParmError("a sequence that is longer than the one before", f"{name}[{place + 1}]",
                               int(lengths[place + 1]), f"<= {lengths[place]}")
        if rows > LARGEST:
            raise BadParmError("steps of all sequences", name, rows, f"<= {LARGEST}")
        if uneven:
            table = numpy.empty(longest + 1 + 2 * batch, numpy.int32)
            table[0] = 0
            # Of each step, the sequences that are longer.
            numpy.cumsum(batch - numpy.searchsorted(numpy.sort(lengths), numpy.arange(longest), side="right"),
                         out=table[1:longest + 1])
            order = numpy.argsort(-lengths, kind="stable")
            table[longest + 1:longest + 1 + batch] = order
            table[longest + 1 + batch + order] = numpy.arange(batch)
            table.flags.writeable = False
        begin_setting(self)
        _old = self.device, self.on_device, self.lengths, self.table  # these go when the guard does
        self.device = self.on_device = None
        self.type, self.layout, self.steps, self.batch, self.vector, self.rows = (
            data_type, layout, steps, batch, vector, rows)
        self.lengths, self.table, self.uneven, self.ranked = lengths, table, uneven, not falling
        end_setting(self)
        return 0

    cdef int hold(self) noexcept:
        Py_INCREF(self.lengths)
        Py_INCREF(self.table)
        Py_INCREF(self.device)
        Py_INCREF(self.on_device)
        return 0

    cdef int require_set(self, str name) except -1:
        if self.layout == 0:
            raise BadParmError("descriptor of sequences that was never set", name, self, "a set descriptor")
        return 0

    @property
    def data_type(self):
        """The miopenDataType_t, None until set."""
        return enums.miopenDataType_t(self.type) if self.layout else None

    @property
    def base_layout(self):
        """The miopenRNNBaseLayout_t."""
        return enums.miopenRNNBaseLayout_t(self.layout)

    @property
    def sequence_lengths(self):
        """Steps of each sequence, a list."""
        return [] if self.layout == 0 else self.lengths.tolist()

    @property
    def shape(self):
        """Lengths of the array: two of sequences that are uneven and not padded, else three."""
        if self.layout == 0:
            return ()
        if self.layout == RNN_SEQUENCES:
            return self.batch, self.steps, self.vector
        if self.layout == RNN_STEPS:
            return self.steps, self.batch, self.vector
        return (self.rows, self.vector) if self.uneven else (int(self.lengths[0]), self.batch, self.vector)

    cdef str described(self):
        if self.layout == 0:
            return "<SeqTensorDescriptor never set>"
        return (f"SeqTensorDescriptor({self.data_type.name!r}, {self.base_layout.name!r}, {self.steps}, {self.batch}, "
                f"{self.vector}, {self.sequence_lengths if self.uneven else None})")


cdef SeqTensorDescriptor sequences_of(object descs, object steps, bint padded, str name):
    """What a list of descriptors, one a step of (sequences, vector), says; the vectors of each step follow another."""
    cdef SeqTensorDescriptor made = SeqTensorDescriptor.__new__(SeqTensorDescriptor)
    cdef TensorDescriptor desc
    cdef int64_t count = to_int64(steps, "sequenceLen"), batch = 0, vector = 0, last = 0, t
    cdef int kind = 0
    if count < 1:
        raise BadParmError("number of steps", "sequenceLen", count, ">= 1")
    if not isinstance(descs, (list, tuple)):
        raise BadParmError("not a list", name, type(descs).__name__, f"a list of {count} descriptors")
    if len(descs) < count:
        raise BadParmError("length of a list", name, len(descs), f">= {count}")
    sizes = numpy.empty(count, numpy.int64)
    for t in range(count):
        desc = as_tensor(descs[t], f"{name}[{t}]")
        desc.require_set(f"{name}[{t}]")
        if desc.ndim < 2 or desc.elements != desc.len[0] * desc.len[1]:
            raise BadParmError("lengths of a step", f"{name}[{t}]", desc.lens, "sequences, vector")
        if t == 0:
            kind, batch, vector, last = desc.type, desc.len[0], desc.len[1], desc.len[0]
            if batch < 1 or vector < 1 or batch > MOST or vector > LARGEST:
                raise BadParmError("lengths of a step", f"{name}[{t}]", desc.lens,
                                   f"1 ... {MOST} sequences, 1 ... {LARGEST} numbers")
        if desc.type != kind or desc.len[1] != vector:
            raise BadParmError("type or vector differs from the first step's", f"{name}[{t}]", desc, descs[0])
        if desc.len[0] > last:
            raise BadParmError("more sequences than the step before has", f"{name}[{t}]", desc.len[0], f"<= {last}")
        if desc.stride[1] != 1 or (desc.len[0] > 1 and desc.stride[0] != vector):
            raise MIOpenNotImplementedError("strides of a step", f"{name}[{t}]", desc.strides, "packed")
        last = sizes[t] = desc.len[0]
    if kind not in TYPES:
        raise MIOpenNotImplementedError("data type of sequences", name, numpy_type(kind), TYPE_NAMES)
    lengths = numpy.searchsorted(-sizes, -numpy.arange(batch), side="left").astype(numpy.int32)
    made.take(kind, RNN_STEPS if padded else RNN_PACKED, count, batch, vector, lengths, name)
    return made


cdef int64_t rnn_matrix(const mx_rnn_problem* p, int64_t layer, int64_t direction, bint recurrent) noexcept nogil:
    """The element of w where the matrix of a layer's direction begins: gates x hidden rows."""
    cdef int64_t rows = rnn_gates(p.mode) * p.hidden, first = 0 if p.skip else p.input, at = 0, width = first
    if layer > 0:
        at = p.dirs * rows * (first + p.hidden + (layer - 1) * (p.dirs + 1) * p.hidden)
        width = p.dirs * p.hidden
    if recurrent:
        return at + rows * (p.dirs * width + direction * p.hidden)
    return at + rows * direction * width


cdef int64_t rnn_bias(const mx_rnn_problem* p, int64_t layer, int64_t direction, bint recurrent) noexcept nogil:
    """The element of w where the biases of a layer's direction begin, of gates x hidden."""
    cdef int64_t rows = rnn_gates(p.mode) * p.hidden
    return rnn_matrix(p, p.layers, 0, False) + rows * (p.dirs * (2 * layer + recurrent) + direction)


cdef int64_t _room(int64_t* end, int64_t bytes) noexcept nogil:
    cdef int64_t at = end[0]
    end[0] = up(at + bytes, ALIGNED)
    return at


cdef int64_t rnn_reserve(const mx_rnn_problem* p, int64_t layer, rnn_layer_t* at) noexcept nogil:
    """Write where a layer's numbers lie, and return the bytes of the layers up to this one."""
    cdef int64_t width = type_size(<int> p.x.type), cells = p.dirs * p.rows * p.hidden * width, end = 0, number
    cdef int gates = rnn_gates(p.mode)
    for number in range(layer + 1):
        memset(at, 0xFF, sizeof(rnn_layer_t))
        at.gates = _room(&end, gates * cells)
        # A plain cell's output says what its gradient needs.
        at.deltas = at.gates if gates == 1 else _room(&end, gates * cells)
        if p.mode == RNN_GRU:
            at.hidden, at.hidden_deltas = _room(&end, cells), _room(&end, cells)
        if p.mode == RNN_LSTM:
            at.cells = _room(&end, cells)
        if number < p.layers - 1:
            at.output = at.dropped = _room(&end, cells)
            if p.dropout > 0:
                at.dropped, at.mask = _room(&end, cells), _room(&end, p.dirs * p.rows * p.hidden)
    return end


cdef int _line(mx_tensor* t, int64_t type, int rank, int64_t a, int64_t b, int64_t c) noexcept:
    """A packed tensor of one, two or three lengths."""
    cdef int axis
    cdef int64_t step = 1
    memset(t, 0, sizeof(mx_tensor))
    t.type = type
    for axis in range(MX_AXES):
        t.len[axis] = 1
    t.len[0] = a
    if rank > 1:
        t.len[1] = b
    if rank > 2:
        t.len[4] = c
    for axis in range(MX_AXES - 1, -1, -1):
        if axis < min(rank, 2) or (rank > 2 and axis == 4):
            t.stride[axis] = step
            step *= t.len[axis]
    return rank


cdef int _sequences(mx_tensor* t, SeqTensorDescriptor desc, bint flat) noexcept:
    """The tensor of sequences, and its rank."""
    if desc.layout == RNN_SEQUENCES:
        return _line(t, desc.type, 3, desc.batch, desc.steps, desc.vector)
    if desc.layout == RNN_STEPS:
        return _line(t, desc.type, 3, desc.steps, desc.batch, desc.vector)
    if flat or desc.uneven:
        return _line(t, desc.type, 2, desc.rows, desc.vector, 1)
    return _line(t, desc.type, 3, desc.rows // desc.batch, desc.batch, desc.vector)


# Bits of `flat`: the array has one dimension less than the descriptor's.
cdef enum:
    FLAT_X = 1
    FLAT_Y = 2
    FLAT_W = 4


cdef RNNProblem rnn_problem(int what, RNNDescriptor desc, SeqTensorDescriptor x, SeqTensorDescriptor y, bint training,
                            unsigned has, unsigned flat):
    """The problem of a direction.  Bit i of `has`: slot i is given, where it may be left out."""
    cdef RNNProblem problem = RNNProblem.__new__(RNNProblem)
    cdef DropoutDescriptor drop = None
    cdef mx_rnn_problem* p = &problem.c
    cdef rnn_layer_t last
    cdef int64_t parameters, dirs
    cdef int rank
    desc.require_set()
    x.require_set("xDesc")
    y.require_set("yDesc")
    dirs = desc.direction + 1
    if x.type != desc.type:
        raise BadParmError("Data type mismatch between descriptors", "xDesc", x.data_type.name, desc.data_type.name)
    if y.type != x.type:
        raise BadParmError("Data type mismatch between descriptors", "yDesc", y.data_type.name, x.data_type.name)
    if y.layout != x.layout or y.batch != x.batch or y.steps != x.steps or (y.lengths != x.lengths).any():
        raise BadParmError("sequences differ from xDesc's", "yDesc", y, x)
    if y.vector != dirs * desc.hidden:
        raise BadParmError("Output size doesn't match hidden state size!", "yDesc", y.vector, dirs * desc.hidden)
    parameters = desc.parameters(x.vector, "xDesc")
    checked_mul(checked_mul(x.rows, dirs * rnn_gates(desc.mode) * 10, "xDesc"),
                checked_mul(desc.hidden, desc.layers, "nlayers") * 8, "xDesc")  # more than any buffer
    p.what, p.mode, p.dirs, p.skip, p.bias = what, desc.mode, dirs, desc.input_mode, desc.bias_mode
    p.layers, p.hidden, p.input = desc.layers, desc.hidden, x.vector
    p.batch, p.rows, p.layout, p.training = x.batch, x.rows, x.layout, training
    p.steps = int(x.lengths.max())
    p.uneven, p.ranked, p.has = x.uneven, x.ranked, has
    if training and desc.layers > 1 and desc.dropout is not None:
        drop = as_dropout(desc.dropout, "dropoutDesc")
        p.dropout = drop.p
    rank = _sequences(&p.x, x, flat & FLAT_X)
    problem.hold(RNN_DX if what == MX_RNN_BACKWARD_DATA else RNN_X, &p.x, rank)
    rank = _sequences(&p.y, y, flat & FLAT_Y)
    problem.hold(RNN_Y, &p.y, rank)
    if what == MX_RNN_BACKWARD_DATA:
        problem.hold(RNN_DY, &p.y, rank)
    rank = (_line(&p.w, desc.type, 1, parameters, 1, 1) if flat & FLAT_W else
            _line(&p.w, desc.type, 2, parameters // (dirs * rnn_gates(p.mode) * p.hidden),
                  dirs * rnn_gates(p.mode) * p.hidden, 1))
    problem.hold(RNN_DW if what == MX_RNN_BACKWARD_WEIGHTS else RNN_W, &p.w, rank)
    _line(&p.hidden_state, desc.type, 3, p.layers * dirs, p.batch, p.hidden)
    for slot in (RNN_HX, RNN_CX, RNN_HY, RNN_CY, RNN_DHX, RNN_DCX):
        if has >> <int> slot & 1:
            problem.hold(slot, &p.hidden_state, 3)
    if x.uneven:
        problem.hold(RNN_TABLE, &problem.table, _line(&problem.table, MX_INT32, 1, p.steps + 1 + 2 * p.batch, 1, 1))
    if training:
        problem.raw[<int> RNN_RESERVE] = rnn_reserve(p, p.layers - 1, &last)
    problem.written = 1 << RNN_RESERVE
    if what == MX_RNN_FORWARD:
        problem.output = RNN_Y
        problem.written |= 1 << RNN_Y | 1 << RNN_HY | 1 << RNN_CY
        if p.dropout > 0:
            p.evolves = drop.evo_set
            problem.raw[<int> RNN_STATES] = DROPOUT_STATE_BYTES
            problem.written |= p.evolves << RNN_STATES
    elif what == MX_RNN_BACKWARD_DATA:
        problem.output = RNN_DX
        problem.written |= 1 << RNN_DX | 1 << RNN_DHX | 1 << RNN_DCX
    else:
        problem.output, problem.written = RNN_DW, 1 << RNN_DW
    return problem


cdef RNNProblem parameter_problem(int what, RNNDescriptor desc, int64_t vector, int64_t start, int64_t rows,
                                  int64_t columns, unsigned flat):
    """The problem of copying a matrix or, with 0 columns, a bias out of the parameters, to x, or from there to them."""
    cdef RNNProblem problem = RNNProblem.__new__(RNNProblem)
    cdef mx_rnn_problem* p = &problem.c
    cdef bint get = what == MX_RNN_GET
    cdef int64_t line = (desc.direction + 1) * rnn_gates(desc.mode) * <int64_t> desc.hidden
    cdef int rank
    # `rows` is all parameters' number: problems of equal bytes take equal memory.
    p.what, p.start, p.count, p.rows = what, start, rows * max(columns, 1), desc.parameters(vector, "xDesc")
    rank = (_line(&p.w, desc.type, 1, p.rows, 1, 1) if flat & FLAT_W else
            _line(&p.w, desc.type, 2, p.rows // line, line, 1))
    problem.hold(RNN_W if get else RNN_DW, &p.w, rank)
    rank = _line(&p.x, desc.type, 2 if columns else 1, rows, columns, 1)
    problem.hold(RNN_Y if get else RNN_X, &p.x, rank)
    problem.output = RNN_Y if get else RNN_DW
    problem.written = 1 << problem.output
    return problem


cdef class RNNProblem(Problem):
    """Recurrent layers in one direction, or a copy of parameters; made by rnn_problem and parameter_problem."""

    def __cinit__(self, *args, **kwargs):
        memset(&self.c, 0, sizeof(mx_rnn_problem))
        self.data, self.size, self.count = &self.c, sizeof(mx_rnn_problem), RNN_SLOTS

    @property
    def flops(self):
        """About how many operations: of the products."""
        cdef const mx_rnn_problem* p = &self.c
        cdef int64_t layer
        if p.layers == 0:
            return p.count
        total = 0
        for layer in range(p.layers):
            total += 2 * p.rows * p.dirs * rnn_gates(p.mode) * p.hidden * (rnn_width(p, layer) + p.hidden)
        return total

    def __repr__(self):
        cdef const mx_rnn_problem* p = &self.c
        if p.layers == 0:
            return f"<copy of {p.count} parameters of recurrent layers>"
        what = ("forward", "backward data", "backward weights")[p.what - MX_RNN_FORWARD]
        return (f"<{enums.miopenRNNMode_t(p.mode).name} {what}: {p.layers} layers of {p.hidden}, {p.dirs} directions, "
                f"{p.batch} sequences of up to {p.steps} steps of {p.input}, {numpy_type(p.x.type)}>")
