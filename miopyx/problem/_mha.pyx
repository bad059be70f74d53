"""Attention: its descriptor and its two problems."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx.values._args cimport to_double
from ._descriptors cimport (
    Descriptor, TensorDescriptor, as_tensor, begin_setting, check_descriptor, end_setting, next_stamp, seen,
)
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport (
    MX_AXES, MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT64, MX_MHA_BACKWARD, MX_MHA_FORWARD, mx_mha_problem,
    mx_tensor,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError

cdef enum:
    RANK = 4
    LAST = MX_AXES - 1
    DEEPEST = 4096         # d of a head; a work-item of a CPU holds panels of it

# What slots are called, forward and backward.
cdef dict _SHARED = {
    "MhaQ": MHA_Q, "MhaK": MHA_K, "MhaV": MHA_V, "MhaBias": MHA_BIAS, "MhaO": MHA_O, "MhaM": MHA_M,
    "MhaZInv": MHA_Z_INV, "MhaDescaleQ": MHA_DESCALE_Q, "MhaDescaleK": MHA_DESCALE_K, "MhaDescaleV": MHA_DESCALE_V,
    "MhaDescaleS": MHA_DESCALE_S, "MhaScaleS": MHA_SCALE_S, "MhaDropoutProbability": MHA_PROBABILITY,
    "MhaDropoutSeed": MHA_SEED, "MhaDropoutOffset": MHA_OFFSET,
}
FORWARD_SLOTS = {**_SHARED, "MhaScaleO": MHA_SCALE_O, "MhaAmaxS": MHA_AMAX_S, "MhaAmaxO": MHA_AMAX_O}
BACKWARD_SLOTS = {
    **_SHARED, "MhaDO": MHA_DO, "MhaDQ": MHA_DQ, "MhaDK": MHA_DK, "MhaDV": MHA_DV, "MhaDescaleO": MHA_DESCALE_O,
    "MhaDescaleDO": MHA_DESCALE_DO, "MhaDescaleDS": MHA_DESCALE_DS, "MhaScaleDS": MHA_SCALE_DS,
    "MhaScaleDQ": MHA_SCALE_DQ, "MhaScaleDK": MHA_SCALE_DK, "MhaScaleDV": MHA_SCALE_DV, "MhaAmaxDQ": MHA_AMAX_DQ,
    "MhaAmaxDK": MHA_AMAX_DK, "MhaAmaxDV": MHA_AMAX_DV, "MhaAmaxDS": MHA_AMAX_DS,
}
cdef unsigned _TENSORS = (1 << MHA_DESCALE_Q) - 1
cdef unsigned _NEEDED = 1 << MHA_Q | 1 << MHA_K | 1 << MHA_V | 1 << MHA_O
cdef unsigned _FORWARD_WRITTEN = (1 << MHA_O | 1 << MHA_M | 1 << MHA_Z_INV | 1 << MHA_AMAX_S | 1 << MHA_AMAX_O)
cdef unsigned _RESULTS = 1 << MHA_DQ | 1 << MHA_DK | 1 << MHA_DV
cdef unsigned _BACKWARD_WRITTEN = (_RESULTS | 1 << MHA_AMAX_DQ | 1 << MHA_AMAX_DK | 1 << MHA_AMAX_DV
                                   | 1 << MHA_AMAX_DS)
cdef unsigned _DROPOUT = 1 << MHA_PROBABILITY | 1 << MHA_SEED | 1 << MHA_OFFSET


def _set(MhaDescriptor desc, scale):
    desc.set(scale)


cdef class MhaDescriptor(Descriptor):
    """MhaDescriptor(scale=1.0)\n--\n\n\
    The factor of an attention's products (miopenMhaDescriptor_t).

    Parameters
    ----------
    scale : float, optional
        Default: 1.  Attention as most models have it takes 1 / sqrt(d).

    Raises
    ------
    BadParmError
        For what is no real number.
    """

    def __init__(self, scale=1.0):
        self.set(scale)

    def __cinit__(self, *args, **kwargs):
        self.scale = 1.0
        self.stamp = next_stamp()

    cdef tuple settings(self):
        return ((_set, self.scale),)

    cdef int set(self, object scale) except -1:
        cdef double value = to_double(scale, "scale")
        if value != value:
            raise BadParmError("not a number", "scale", scale, "a real number")
        begin_setting(self)
        self.scale = value
        end_setting(self)
        return 0

    cdef str described(self):
        return f"MhaDescriptor(scale={self.scale})"


cdef MhaDescriptor as_mha(object desc, str name):
    return <MhaDescriptor> seen(check_descriptor(desc, MhaDescriptor, name))


cdef bint mha_has(const mx_mha_problem* p, int slot) noexcept nogil:
    """Whether a slot is given."""
    return p.has >> slot & 1


cdef class MhaProblem(Problem):
    """Attention of (backward, {slot's name: descriptor}); miopenCreateMhaProblem has the formulas.

    Raises
    ------
    BadParmError
        Where a tensor that it cannot do without is missing, or ranks, lengths or types do not fit each other.
    MIOpenNotImplementedError
        For types that nothing computes.
    """

    def __init__(self, bint backward, dict tensors not None):
        cdef dict slots = BACKWARD_SLOTS if backward else FORWARD_SLOTS
        cdef unsigned writes = _BACKWARD_WRITTEN if backward else _FORWARD_WRITTEN
        cdef unsigned needed = _NEEDED
        cdef int slot
        if backward:
            needed |= _RESULTS | 1 << MHA_DO | 1 << MHA_M | 1 << MHA_Z_INV
        self.c.what = MX_MHA_BACKWARD if backward else MX_MHA_FORWARD
        for name, slot in slots.items():
            if name in tensors:
                self.take(slot, as_tensor(tensors[name], name), name, writes >> slot & 1)
            elif needed >> slot & 1:
                raise BadParmError("a tensor is missing", "problem", f"miopenTensor{name}", "its descriptor")
        self.count = MHA_BACKWARD_SLOTS if backward else MHA_FORWARD_SLOTS
        self.output = MHA_DQ if backward else MHA_O
        if self.c.has & _DROPOUT and self.c.has & _DROPOUT != _DROPOUT:
            raise BadParmError("a dropout's probability, seed and offset belong together", "problem",
                               [name for name, slot in slots.items() if self.c.has & _DROPOUT & (1u << <int> slot)],
                               "all three or none")
        self.compare(backward)

    def __cinit__(self, *args):
        self.data, self.size = &self.c, sizeof(mx_mha_problem)
        memset(&self.c, 0, sizeof(mx_mha_problem))
        for t, type in ((0, MX_FLOAT), (1, MX_INT64)):
            _fill_one(&self.c.whole if t else &self.c.one, type)

    cdef int take(self, int slot, TensorDescriptor desc, str name, bint written) except -1:
        cdef int i
        desc.require_set(name)
        require_plain(desc, name)
        self.c.has |= 1 << slot
        if written:
            require_no_overlap(desc, name)
            self.written |= 1 << slot
        if not _TENSORS >> slot & 1:
            for i in range(desc.ndim):
                if desc.len[i] != 1:
                    raise BadParmError("a number's tensor has one element", name, desc.lens, (1,))
            whole = slot == MHA_SEED or slot == MHA_OFFSET
            if desc.type != (MX_INT64 if whole else MX_FLOAT):
                raise BadParmError("type of a number", name, desc.dtype, "int64" if whole else "float32")
            if desc.ndim > MX_AXES:
                raise BadParmError("rank of a number's tensor", name, desc.ndim, f"1 ... {MX_AXES}")
            return self.hold(slot, &self.c.whole if whole else &self.c.one, desc.ndim)
        if desc.ndim != RANK:
            raise BadParmError("rank of an attention's tensor", name, desc.ndim, "4: n, h, s, d")
        fill_tensor(&self.c.t[slot], desc)
        return self.hold(slot, &self.c.t[slot], desc.ndim)

    cdef int compare(self, bint backward) except -1:
        cdef const mx_tensor* q = &self.c.t[<int> MHA_Q]
        cdef const mx_tensor* v = &self.c.t[<int> MHA_V]
        cdef int64_t n = q.len[0], h = q.len[1], rows = q.len[3], depth = q.len[4], keys = self.c.t[<int> MHA_K].len[3]
        cdef int64_t type = q.type, lens[4], width = v.len[4]
        cdef const mx_tensor* t
        cdef int slot
        if type not in (MX_FLOAT, MX_HALF, MX_BFLOAT16, MX_DOUBLE):
            raise MIOpenNotImplementedError(
                "no solver multiplies this type", "MhaQ", self.dtype_of(MHA_Q),
                "float32, float16, bfloat16 or float64 (float8 would need its factors rounded between the products)")
        if 0 in (n, h, rows, depth, keys, width):
            raise MIOpenNotImplementedError("attention of nothing", "MhaQ, MhaV", (self.lens(MHA_Q), self.lens(MHA_V)),
                                            "lengths of at least 1")
        if depth > DEEPEST or width > DEEPEST:
            raise MIOpenNotImplementedError("length of a head", "MhaQ, MhaV", (depth, width), f"<= {DEEPEST}")
        for slot in range(MHA_DESCALE_Q):
            if not self.c.has >> slot & 1:
                continue
            t = &self.c.t[slot]
            lens = [n, h, rows, depth]
            wanted = type
            if slot in (MHA_K, MHA_DK, MHA_V, MHA_DV):
                lens[2] = keys
            if slot in (MHA_V, MHA_DV, MHA_O, MHA_DO):
                lens[3] = width
            if slot in (MHA_M, MHA_Z_INV):
                lens[3] = 1
                wanted = MX_DOUBLE if type == MX_DOUBLE else MX_FLOAT
            if slot == MHA_BIAS:
                lens[3] = keys
                wanted = MX_DOUBLE if type == MX_DOUBLE else MX_FLOAT
            asked = tuple([lens[i] for i in range(4)])
            has = self.lens(slot)
            if slot == MHA_BIAS:
                if not all([a == b or a == 1 for a, b in zip(has, asked)]):
                    raise BadParmError("lengths of an attention's bias", "MhaBias", has, f"{asked}, or 1")
            elif has != asked:
                raise BadParmError("lengths of an attention's tensor", self.name_of(slot), has, asked)
            if t.type != wanted:
                raise BadParmError("type of an attention's tensor", self.name_of(slot), self.dtype_of(slot),
                                   "float64" if wanted == MX_DOUBLE else
                                   "float32" if wanted == MX_FLOAT else self.dtype_of(MHA_Q))
        return 0

    cdef tuple lens(self, int slot):
        cdef const mx_tensor* t = &self.c.t[slot]
        return t.len[0], t.len[1], t.len[3], t.len[4]

    cdef str name_of(self, int slot):
        for name, its in BACKWARD_SLOTS.items():  # forward's tensors are among them
            if its == slot:
                return name
        return ""

    cdef object dtype_of(self, int slot):
        from ._descriptors import numpy_type

        return numpy_type(self.c.t[slot].type)

    def __repr__(self):
        word = "forward" if self.c.what == MX_MHA_FORWARD else "backward"
        tensors = [f"{self.name_of(slot)} {tensor_text(&self.c.t[slot])}" for slot in (MHA_Q, MHA_K, MHA_V)]
        return f"<attention {word}: {', '.join(tensors)}>"


cdef int _fill_one(mx_tensor* t, int64_t type) noexcept:
    cdef int i
    t.type = type
    for i in range(MX_AXES):
        t.len[i], t.stride[i] = 1, 0
    return 0
