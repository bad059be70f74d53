"""Problems that PyTorch asked for, and who runs them."""

from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.engine._plan cimport Plan
from miopyx.functional._functional cimport Call
from miopyx.runtime._arrays cimport array_t
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

cdef enum:                       # whose memory a plan's buffer is: an array of the call's, or these and a number
    RESULT = 16
    CONSTANT = 32
    NOTHING = 48                 # which the plan does not look at


cdef enum:                       # families of operators, in the order of `FAMILIES`
    CONVOLUTION
    CONVOLUTION_GRADIENTS
    BATCH_NORM
    BATCH_NORM_GRADIENTS
    AVERAGE
    AVERAGE_GRADIENTS
    MAXIMUM
    MAXIMUM_GRADIENTS
    SOFTMAX
    SOFTMAX_GRADIENTS
    FAMILY_COUNT

cdef struct account_t:           # of a family's calls on a type of devices, since it was looked at last
    int64_t calls
    double gained                # microseconds
    double way                   # microseconds of `sampled` calls between PyTorch's call and the choice
    int64_t sampled
    int64_t asked                # samples that found out whether the stream was idle,
    int64_t idle                 # and was


cdef class Layer:
    cdef readonly bint ours
    cdef account_t* account
    cdef double gain             # microseconds of a run, 0 where it is not ours
    cdef bint quiet              # PyTorch's idle threads sleep while it runs
    cdef readonly int64_t runs
    cdef readonly str what       # the problem
    cdef readonly str why        # why it is not ours, where that is no matter of time
    cdef readonly object times

    cdef str text(self, Call c)
    cdef int prepare(self, Call c) except -1
    cdef object compute(self, Call c)


cdef class Planned(Layer):
    cdef Plan plan
    cdef int slot[MX_SLOTS]      # of the plan's buffers
    cdef tuple results           # lengths, type and order of each
    cdef tuple constants
    cdef double scalars[MX_SCALARS]
    cdef bint moves              # the first scalar is the call's factor

    cdef int describe(self, Call c) except -1
    cdef int use(self, Plan plan, object slots, object results) except -1


cdef Call begin(int what, object first)
cdef Layer decide(Call c, int family, Layer layer, object theirs)
cdef object run_ours(Call c, Layer layer)
cdef object run_chosen(Call c, Layer layer)
cdef object always(Call c, Layer layer, Call trial=*)
cdef _Handle host()
cdef double least_time(Layer layer, Call c) except -1
cdef object own(t)
cdef bint chosen(object w) except -1
cdef bint lazy(object t) except -1
cdef bint is_dense(const array_t* a, bint last) noexcept
cdef bint is_float(const array_t* a) noexcept
cdef object theirs(str name, tuple args)
cdef int64_t settings(Call c) except -1
cdef object dense(t)
cdef object alike(t, first)
