"""Dropout: its descriptor and its problems."""

from libc.stdint cimport int64_t, uint64_t

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, check_descriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport mx_dropout_problem, mx_grid, mx_tensor

# Slots; x and y are dy and dx backward.
cdef enum:
    DROPOUT_X = 0
    DROPOUT_Y = 1
    DROPOUT_MASK = 2
    DROPOUT_STATES = 3

# Where the mask comes from.
cdef enum:
    DROPOUT_DRAWN = 0          # from the states
    DROPOUT_KEPT = 1           # from the states, and it is written
    DROPOUT_GIVEN = 2          # it is read

# The states: so many times the seed and the seed plus the number of masks that were drawn, as kernels/layers/dropout.h.
cdef enum:
    DROPOUT_PLACES = 2048
    DROPOUT_STATE_BYTES = 16 * DROPOUT_PLACES


cdef class DropoutDescriptor(Descriptor):
    cdef float p                    # below 0 until set
    cdef object states_set
    cdef uint64_t seed_set
    cdef bint mask_set, evo_set
    cdef int rng_set

    cdef int set(self, object p, object states, object size, object seed, object use_mask, object state_evo,
                 object rng_mode) except -1
    cdef int require_set(self) except -1


cdef class DropoutProblem(Problem):
    cdef mx_dropout_problem c
    cdef mx_tensor kept             # the mask


cdef DropoutProblem states_problem()
cdef DropoutProblem dropout_problem(int what, int mask, DropoutDescriptor desc, TensorDescriptor noise,
                                    TensorDescriptor x, TensorDescriptor y, str style)

cdef inline int64_t least_of(double p) noexcept nogil:
    """The least random number of 24 bits that lets an element stay."""
    return <int64_t> (p * 16777216.0)


cdef inline double scale_of(double p) noexcept nogil:
    return 1 / (1 - p) if p < 1 else 0


# The elements in the order of their axes; tensors: their number, x, y.
cdef int walk_dropout(const mx_dropout_problem* p, mx_grid* grid) noexcept nogil


cdef inline DropoutDescriptor as_dropout(object desc, str name):
    """`desc` where it is a live dropout descriptor, else the error that names the parameter."""
    if type(desc) is not DropoutDescriptor or load_flag((<DropoutDescriptor> desc).destroyed):
        desc = check_descriptor(desc, DropoutDescriptor, name)
    return <DropoutDescriptor> seen(desc)
