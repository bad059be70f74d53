"""Recurrent layers: their descriptors, problems, and where parameters and reserved numbers lie."""

from libc.stdint cimport int64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen
from ._dropout cimport DropoutDescriptor
from ._problem cimport Problem
from miopyx.values._types cimport mx_rnn_problem, mx_tensor

# miopenRNNMode_t.
cdef enum:
    RNN_RELU = 0
    RNN_TANH = 1
    RNN_LSTM = 2
    RNN_GRU = 3

# miopenRNNBaseLayout_t.
cdef enum:
    RNN_PACKED = 1         # steps one behind the other, without padding
    RNN_STEPS = 2          # likewise, padded
    RNN_SEQUENCES = 3      # padded sequences one behind the other

# Slots.  Forward: x w hx cx -> y hy cy reserve; backward data: w y dy dhy dcy hx cx reserve -> dx dhx dcx reserve;
# backward weights: x hx y reserve -> dw.
cdef enum:
    RNN_X = 0
    RNN_W = 1
    RNN_Y = 2
    RNN_HX = 3
    RNN_CX = 4
    RNN_HY = 5             # dhy
    RNN_CY = 6             # dcy
    RNN_RESERVE = 7
    # int32: the first row of each step and the number of rows, the sequence of each rank, the rank of each sequence.
    RNN_TABLE = 8
    RNN_STATES = 9         # of dropout
    RNN_DY = 10
    RNN_DX = 11
    RNN_DHX = 12
    RNN_DCX = 13
    RNN_DW = 14
    RNN_SLOTS = 15


cdef class RNNDescriptor(Descriptor):
    cdef int hidden, layers, mode, input_mode, direction, bias_mode, algorithm, type, padding
    cdef DropoutDescriptor dropout       # None: nothing is dropped

    cdef int set(self, object hsize, object nlayers, object dropout, object in_mode, object direction, object mode,
                 object bias, object algo, object data_type) except -1
    cdef int require_set(self) except -1
    cdef int64_t parameters(self, int64_t vector, str name) except -1
    cdef int64_t matrix_offset(self, int64_t vector, int64_t layer, int64_t number, int64_t* columns) except -1
    cdef int64_t bias_offset(self, int64_t vector, int64_t layer, int64_t number) except -1
    cdef mx_rnn_problem _shape(self, int64_t vector) noexcept


cdef class SeqTensorDescriptor(Descriptor):
    cdef int type, layout                # layout 0: never set
    cdef readonly int64_t steps, batch, vector, rows
    cdef object lengths                  # int32, a number for each sequence
    cdef bint uneven, ranked
    cdef readonly object table           # RNN_TABLE, which is not to be written; None where nothing needs it
    cdef object device, on_device        # the device that has a copy, and that

    cdef int set(self, object data_type, object layout, object steps, object batch, object vector,
                 object lengths) except -1
    cdef int require_set(self, str name) except -1
    cdef int take(self, int data_type, int layout, int64_t steps, int64_t batch, int64_t vector, object lengths,
                  str name) except -1


cdef class RNNProblem(Problem):
    cdef mx_rnn_problem c
    cdef mx_tensor table


# Where a layer's numbers lie in the reserve space, in bytes; -1: it has none.
cdef struct rnn_layer_t:
    int64_t gates          # of each direction, rows x gates x hidden: what they were
    int64_t deltas         # likewise: the gradients of what goes into them, which backward data writes
    int64_t hidden         # GRU, rows x hidden of each direction: the new memory's product with the state
    int64_t hidden_deltas
    int64_t cells          # LSTM, likewise
    int64_t output         # rows x (dirs x hidden), of all layers but the last
    int64_t dropped        # likewise, as the next layer got it
    int64_t mask           # of a dropout, a byte each


cdef inline int rnn_gates(int64_t mode) noexcept nogil:
    return 4 if mode == RNN_LSTM else 3 if mode == RNN_GRU else 1


cdef inline bint rnn_has(const mx_rnn_problem* p, int slot) noexcept nogil:
    return p.has >> slot & 1


cdef inline int64_t rnn_width(const mx_rnn_problem* p, int64_t layer) noexcept nogil:
    """Numbers of a row that goes into a layer."""
    return p.input if layer == 0 else p.dirs * p.hidden


cdef int64_t rnn_matrix(const mx_rnn_problem* p, int64_t layer, int64_t direction, bint recurrent) noexcept nogil
cdef int64_t rnn_bias(const mx_rnn_problem* p, int64_t layer, int64_t direction, bint recurrent) noexcept nogil
cdef int64_t rnn_reserve(const mx_rnn_problem* p, int64_t layer, rnn_layer_t* at) noexcept nogil
cdef RNNProblem rnn_problem(int what, RNNDescriptor desc, SeqTensorDescriptor x, SeqTensorDescriptor y, bint training,
                            unsigned has, unsigned flat)
cdef RNNProblem parameter_problem(int what, RNNDescriptor desc, int64_t vector, int64_t start, int64_t rows,
                                  int64_t columns, unsigned flat)

cdef SeqTensorDescriptor sequences_of(object descs, object steps, bint padded, str name)


cdef inline RNNDescriptor as_rnn(object desc, str name):
    """`desc` where it is a live RNN descriptor, else the error that names the parameter."""
    if type(desc) is not RNNDescriptor or load_flag((<RNNDescriptor> desc).destroyed):
        desc = check_descriptor(desc, RNNDescriptor, name)
    return <RNNDescriptor> seen(desc)


cdef inline SeqTensorDescriptor as_sequences(object desc, str name):
    """`desc` where it is a live descriptor of sequences, else the error that names the parameter."""
    if type(desc) is not SeqTensorDescriptor or load_flag((<SeqTensorDescriptor> desc).destroyed):
        desc = check_descriptor(desc, SeqTensorDescriptor, name)
    return <SeqTensorDescriptor> seen(desc)
