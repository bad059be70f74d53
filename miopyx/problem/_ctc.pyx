"""CTC loss: its descriptor, its problem, and the table of labels."""

from libc.stdint cimport int32_t, int64_t

from miopyx.values._args cimport to_flag, to_int
from ._descriptors cimport Descriptor, begin_setting, end_setting, next_stamp, to_data_type
from ._problem cimport hash_bytes
from ._slots cimport SlotsProblem
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_CTC, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT32, mx_slots_problem,
    mx_tensor,
)

import numpy

from miopyx.errors import BadParmError

cdef enum:
    LABELS = 1 << 24       # of a sample
    ROOM = 16              # room for labels is a multiple of it, so that calls differ in few problems


def _set(CTCLossDescriptor desc, data_type, blank, softmax):
    desc.set(data_type, blank, softmax)


cdef class CTCLossDescriptor(Descriptor):
    """CTCLossDescriptor(data_type=1, blank_label_id=0, apply_softmax_layer=True)\n--\n\n\
    Blank label of a CTC loss, and what its probabilities are (miopenCTCLossDescriptor_t).

    Parameters
    ----------
    data_type : miopenDataType_t, numpy dtype or its name, optional
        Kept and given back; a loss is computed in the type of its tensors.
    blank_label_id : int, optional
        The class that is no label.  What lies beyond the classes is the nearest one.
    apply_softmax_layer : bool, optional
        Whether probabilities are the softmax of what is passed; else it is their logarithms.

    Raises
    ------
    BadParmError
        For an unknown type, or what is no integer or no flag.
    """

    def __init__(self, data_type=MX_FLOAT, blank_label_id=0, apply_softmax_layer=True):
        self.set(data_type, blank_label_id, apply_softmax_layer)

    def __cinit__(self, *args, **kwargs):
        self.type, self.blank_label_id, self.apply_softmax_layer = MX_FLOAT, 0, True
        self.stamp = next_stamp()

    cdef tuple settings(self):
        return ((_set, self.type, self.blank_label_id, self.apply_softmax_layer),)

    cdef int set(self, object data_type, object blank, object softmax) except -1:
        cdef int kind = to_data_type(data_type, "dataType"), label = to_int(blank, "blank_label_id")
        cdef bint flag = to_flag(softmax, "apply_softmax_layer")
        begin_setting(self)
        self.type, self.blank_label_id, self.apply_softmax_layer = kind, label, flag
        end_setting(self)
        return 0

    @property
    def data_type(self):
        """The miopenDataType_t."""
        from miopyx.enums import miopenDataType_t

        return miopenDataType_t(self.type)

    def table(self, probs_desc, labels, label_lengths, input_lengths, most_labels):
        """Return the table that a plan of Handle.ctc_loss takes: its memory, or what is uploaded to a device.

        Parameters
        ----------
        probs_desc : TensorDescriptor
            Of the plan.
        labels, label_lengths, input_lengths : sequences of int
            As miopenCTCLoss takes them.
        most_labels : int
            Of the plan.

        Returns
        -------
        numpy.ndarray
            int32, of the same lengths for all batches of a plan.  Where probs have other lengths, or the blank is
            another one, a plan's losses and gradients are NaN.

        Raises
        ------
        BadParmError
            For labels that are no classes or blank, more of a sample than `most_labels`, more steps than probs have,
            and sequences that are too short.
        """
        problem = CTCProblem(as_ctc(self, "self"), probs_desc, probs_desc)
        return Labels(problem, labels, label_lengths, input_lengths, most_of(most_labels)).table

    cdef str described(self):
        return (f"CTCLossDescriptor({self.data_type.name!r}, blank_label_id={self.blank_label_id}, "
                f"apply_softmax_layer={self.apply_softmax_layer})")


cdef class CTCProblem(SlotsProblem):
    """Losses and gradients of probs, with room for so many labels of a sample.

    Raises
    ------
    BadParmError
        Where probs and gradients differ, or probs have no three dimensions.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """

    def __init__(self, CTCLossDescriptor ctc, probs, gradients, int64_t room=0):
        cdef int64_t classes, samples
        cdef int blank = ctc.blank_label_id
        self.take(CTC_PROBS, probs, "probsDesc")
        self.take(CTC_GRADIENTS, gradients, "gradientsDesc", True)
        if self.c.rank[<int> CTC_PROBS] != 3:
            raise BadParmError("rank of probabilities", "probsDesc", self.c.rank[<int> CTC_PROBS],
                               "3: steps, samples, classes")
        self.require_type(CTC_PROBS, (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE),
                          "float16, bfloat16, float32 or float64")
        self.require_alike(CTC_GRADIENTS, CTC_PROBS)
        classes, samples = self.c.t[<int> CTC_PROBS].len[4], self.c.t[<int> CTC_PROBS].len[1]
        if classes < 1:
            raise BadParmError("no classes", "probsDesc", self.lens(CTC_PROBS), "1 or more")
        self.c.what = MX_CTC
        self.c.number[<int> CTC_BLANK] = max(0, min(blank, classes - 1))
        self.c.number[<int> CTC_SOFTMAX] = ctc.apply_softmax_layer
        self.set_room(room)
        self._line(CTC_LOSSES, self.c.t[<int> CTC_PROBS].type, samples)
        self.written |= 1 << CTC_LOSSES
        self.output = CTC_GRADIENTS

    cdef int set_room(self, int64_t room) except -1:
        self.c.number[<int> CTC_LABELS] = room
        return self._line(CTC_TABLE, MX_INT32, self.c.t[<int> CTC_PROBS].len[1] * (3 + 2 * room))

    cdef int _line(self, int slot, int64_t type, int64_t length) except -1:
        """Let a slot without a descriptor hold a line of numbers."""
        cdef mx_tensor* t = &self.c.t[slot]
        cdef int axis
        t.type = type
        for axis in range(MX_AXES):
            t.len[axis], t.stride[axis] = 1, 0
        t.len[0], t.stride[0] = length, 1
        self.c.rank[slot] = 1
        return self.hold(slot, t, 1)

    cdef bint is_empty(self) noexcept:
        return self.c.t[<int> CTC_LOSSES].len[0] == 0


cdef int32_t mark_of(const mx_slots_problem* p, int64_t room) noexcept nogil:
    """What each row of a table says of the problem that it was made for, so that another one's is noticed."""
    cdef const mx_tensor* probs = &p.t[<int> CTC_PROBS]
    cdef int64_t[5] sizes = [probs.len[0], probs.len[1], probs.len[4], p.number[<int> CTC_BLANK], room]
    return <int32_t> (hash_bytes(sizes, sizeof(sizes)) & 0x7fffffff)


cdef object _integers(object values, str name, int64_t count):
    """A line of integers as int32, `count` of them at least (-1: any number)."""
    if isinstance(values, (str, bytes, dict, set, frozenset)):
        raise BadParmError("not a sequence of integers", name, type(values).__name__, "integers")
    try:
        line = numpy.asarray(values)
        if line.size == 0:
            line = line.astype(numpy.int64)
    except Exception as e:  # whatever a strange object raises
        raise BadParmError(f"not a sequence of integers ({type(e).__name__})", name, type(values).__name__,
                           "integers") from None
    if line.ndim != 1 or line.dtype.kind not in "iu":
        raise BadParmError("not a sequence of integers", name, f"{line.ndim} dimensions of {line.dtype}",
                           "one dimension of integers")
    if count >= 0 and len(line) < count:
        raise BadParmError("has fewer values than are used", name, len(line), f">= {count}")
    if count >= 0:
        line = line[:count]
    if len(line) and (line.min() < -(1 << 31) or line.max() >= 1 << 31):
        raise BadParmError("integer out of range", name, int(line.max()), "32 bits")
    return numpy.ascontiguousarray(line, numpy.int32)


cdef int64_t most_of(object given) except -1:
    """How many labels of a sample there are at most, as an argument."""
    cdef int64_t most = to_int(given, "most_labels")
    if most < 0 or most > LABELS:
        raise BadParmError("number of labels", "most_labels", most, f"0 ... {LABELS}")
    return most


cdef int64_t room_for(int64_t longest) noexcept:
    """Labels that a table has room for: problems of a few lengths share what is prepared."""
    return max(1, (longest + ROOM - 1) // ROOM) * ROOM


cdef class Labels:
    """The table of kernels/layers/ctc.h for a batch; what probs say was checked before.

    Parameters
    ----------
    problem : CTCProblem
    labels, label_lengths, input_lengths : sequences of int
        As miopenCTCLoss takes them.
    most : int
        How many labels of a sample the table has room for; -1: as many as the longest has, rounded up.

    Raises
    ------
    BadParmError
        For labels that are no classes or blank, lengths below 0, more steps than probs have, more labels than there is
        room for, and sequences that are too short.
    """

    def __init__(self, CTCProblem problem not None, labels, label_lengths, input_lengths, int64_t most=-1):
        cdef const mx_tensor* probs = &problem.c.t[<int> CTC_PROBS]
        cdef int64_t samples = probs.len[1]
        lengths = _integers(label_lengths, "labelLengths", samples)
        steps = _integers(input_lengths, "inputLengths", samples)
        if len(lengths) and lengths.min() < 0:
            raise BadParmError("negative", "labelLengths", int(lengths.min()), ">= 0")
        if len(steps) and (steps.min() < 0 or steps.max() > probs.len[0]):
            wrong = int(steps.min()) if steps.min() < 0 else int(steps.max())
            raise BadParmError("steps of a sample", "inputLengths", wrong, f"0 ... {probs.len[0]}")
        line = _integers(labels, "labels", int(lengths.sum(dtype=numpy.int64)))
        longest = int(lengths.max()) if len(lengths) else 0
        if most >= 0 and longest > most:
            raise BadParmError("labels of a sample", "labelLengths", longest, f"0 ... {most}")
        self.room = room_for(longest if most < 0 else most)
        self.table = numpy.zeros((samples, 3 + 2 * self.room), numpy.int32)
        self.table[:, 2] = mark_of(&problem.c, self.room)
        if samples:
            self._fill(probs.len[4], <int> problem.c.number[<int> CTC_BLANK], line, lengths, steps, self.table)

    cdef int _fill(self, int64_t classes, int blank, const int32_t[:] labels, const int32_t[:] lengths,
                   const int32_t[:] steps, int32_t[:, :] table) except -1:
        cdef int32_t[:] last = numpy.zeros(classes, numpy.int32)  # 1 + the last place of a class in this sample
        cdef int64_t n, i, at = 0, label, room = self.room
        for n in range(steps.shape[0]):
            table[n, 0], table[n, 1] = steps[n], lengths[n]
            for i in range(lengths[n]):
                label = labels[at + i]
                if label < 0 or label >= classes or label == blank:
                    raise BadParmError("label", f"labels[{at + i}]", label,
                                       f"0 ... {classes - 1}, but not {blank}, which is blank")
                table[n, 3 + i] = <int32_t> label
                if last[label] == 0:
                    table[n, 3 + room + i] = 1
                else:
                    table[n, 3 + room + last[label] - 1] += <int32_t> (2 * (i + 1))
                last[label] = <int32_t> (i + 1)
            for i in range(lengths[n]):
                last[labels[at + i]] = 0
            at += lengths[n]
        return 0
