"""Problems that are tensors in slots, flags and numbers: what the operations made of them have in common."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ._descriptors cimport TensorDescriptor, as_tensor
from ._problem cimport Problem, fill_tensor, require_no_overlap, require_plain, tensor_text
from miopyx.values._types cimport MX_AXES, MX_TENSORS, mx_slots_problem, mx_tensor

from miopyx.errors import BadParmError, MIOpenNotImplementedError
from miopyx.problem._descriptors import numpy_type


cdef class SlotsProblem(Problem):
    """Base of problems whose constructors `take` descriptors, slot by slot, and compare them.

    A slot that is not taken has no memory.
    """

    def __cinit__(self, *args, **kwargs):
        memset(&self.c, 0, sizeof(mx_slots_problem))
        self.data, self.size = &self.c, sizeof(mx_slots_problem)
        self.names = [""] * MX_TENSORS

    cdef int take(self, int slot, object desc, str name, bint written=False) except -1:
        """Let a slot hold the tensor of a descriptor; of what is written, no two elements may share memory."""
        cdef TensorDescriptor tensor = as_tensor(desc, name)
        tensor.require_set(name)
        require_plain(tensor, name)
        if tensor.ndim > MX_AXES:
            raise MIOpenNotImplementedError("dimensions", name, tensor.ndim, f"1 ... {MX_AXES}")
        if written:
            require_no_overlap(tensor, name)
            self.written |= 1 << slot
        fill_tensor(&self.c.t[slot], tensor)
        self.c.rank[slot] = tensor.ndim
        self.names[slot] = name
        self.count = max(self.count, slot + 1)
        return self.hold(slot, &self.c.t[slot], tensor.ndim)

    cdef int require_type(self, int slot, tuple types, str limit) except -1:
        if self.c.t[slot].type not in types:
            raise MIOpenNotImplementedError("data type", self.names[slot], _dtype(self, slot), limit)
        return 0

    cdef int require_alike(self, int slot, int other) except -1:
        """A tensor of another one's type and lengths."""
        if self.c.t[slot].type != self.c.t[other].type:
            raise BadParmError(f"type differs from {self.names[other]}'s", self.names[slot], _dtype(self, slot),
                               _dtype(self, other))
        return self.require_lens(slot, self.lens(other), f"{self.names[other]}'s")

    cdef int require_lens(self, int slot, tuple lens, str whose) except -1:
        if self.lens(slot) != lens:
            raise BadParmError(f"lengths differ from {whose}", self.names[slot], self.lens(slot), lens)
        return 0

    cpdef tuple lens(self, int slot):
        """The lengths of a slot's descriptor."""
        cdef const mx_tensor* t = &self.c.t[slot]
        cdef int rank = <int> self.c.rank[slot], i
        return tuple([t.len[i if i < 2 else MX_AXES - rank + i] for i in range(rank)])

    def __repr__(self):
        tensors = [f"{self.names[slot]} {tensor_text(&self.c.t[slot])}" for slot in range(self.count)
                   if self.tensor[slot] != NULL]
        return f"<{type(self).__name__}: {', '.join(tensors)}>"


cdef object _dtype(SlotsProblem problem, int slot):
    return numpy_type(problem.c.t[slot].type)


cdef bint given(const mx_slots_problem* p, int slot) noexcept nogil:
    """Whether a slot holds a tensor."""
    return p.rank[slot] != 0


cdef int64_t elements_of(const mx_tensor* t) noexcept nogil:
    cdef int64_t elements = 1
    cdef int axis
    for axis in range(MX_AXES):
        elements *= t.len[axis]
    return elements


cdef mx_tensor align_right(const mx_slots_problem* p, int slot) noexcept nogil:
    """A slot's tensor with its dimensions in the last axes, as they are compared where one is broadcast."""
    cdef mx_tensor t = p.t[slot]
    cdef int rank = <int> p.rank[slot], i
    for i in range(min(rank, 2)):
        t.len[MX_AXES - rank + i], t.stride[MX_AXES - rank + i] = p.t[slot].len[i], p.t[slot].stride[i]
    for i in range(MX_AXES - rank):
        t.len[i], t.stride[i] = 1, 0
    return t
