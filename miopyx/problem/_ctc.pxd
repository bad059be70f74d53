"""CTC loss: its descriptor, its problem, and the table of labels."""

from libc.stdint cimport int32_t, int64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, check_descriptor, seen
from ._slots cimport SlotsProblem
from miopyx.values._types cimport mx_slots_problem

# Slots.
cdef enum:
    CTC_PROBS = 0
    CTC_TABLE = 1          # bytes, see kernels/layers/ctc.h
    CTC_LOSSES = 2
    CTC_GRADIENTS = 3

# Numbers of a problem.
cdef enum:
    CTC_BLANK = 0
    CTC_SOFTMAX = 1        # whether probs are numbers whose softmax the probabilities are
    CTC_LABELS = 2         # room for a sample's labels


cdef class CTCLossDescriptor(Descriptor):
    cdef readonly int blank_label_id
    cdef readonly bint apply_softmax_layer
    cdef int type

    cdef int set(self, object data_type, object blank, object softmax) except -1


cdef class CTCProblem(SlotsProblem):
    cdef int set_room(self, int64_t room) except -1
    cdef int _line(self, int slot, int64_t type, int64_t length) except -1


cdef int32_t mark_of(const mx_slots_problem* p, int64_t room) noexcept nogil
cdef int64_t most_of(object given) except -1
cdef int64_t room_for(int64_t longest) noexcept


cdef class Labels:
    cdef readonly object table           # a NumPy array
    cdef readonly int64_t room           # labels of a sample

    cdef int _fill(self, int64_t classes, int blank, const int32_t[:] labels, const int32_t[:] lengths,
                   const int32_t[:] steps, int32_t[:, :] table) except -1


cdef inline CTCLossDescriptor as_ctc(object desc, str name):
    """`desc` where it is a live CTC loss descriptor, else the error that names the parameter."""
    if type(desc) is not CTCLossDescriptor or load_flag((<CTCLossDescriptor> desc).destroyed):
        desc = check_descriptor(desc, CTCLossDescriptor, name)
    return <CTCLossDescriptor> seen(desc)
