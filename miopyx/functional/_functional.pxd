"""Calls on arrays: what was read, and what was prepared for it."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from miopyx.engine._handle cimport Handle as _Handle
from miopyx.engine._plan cimport Plan
from miopyx.problem._activation cimport ActivationDescriptor
from miopyx.runtime._arrays cimport ARRAY_AXES, array_t
from miopyx.values._types cimport MX_SCALARS

cdef enum:
    ARRAYS = 7             # that one call takes
    NUMBERS = 24
    END_PADS = 21          # the numbers that are pads behind the axes
    MOST_KEPT = 4096       # calls that a handle keeps something for

# What a call asks for; its bytes up to the last length or stride are compared, so none of them is left unset.
cdef struct ask_t:
    int64_t what
    int64_t number[NUMBERS]
    double real[5]
    int64_t type[ARRAYS]
    int64_t rank[ARRAYS]
    int64_t sides              # lengths and strides in all
    int64_t side[2 * ARRAYS * ARRAY_AXES]

cdef enum:
    CONVOLUTION
    TRANSPOSED
    POOLING
    ACTIVATION
    SOFTMAX
    RESPONSE
    NORMALIZATION


cdef class Prepared:
    cdef Plan plan, bias
    cdef int type
    cdef tuple lens, order       # order: axes from the outermost in memory to the innermost, None for C order
    cdef double scalars[MX_SCALARS]
    cdef tuple fill              # batch norm: what stands for a weight and a bias that are left out


cdef class Kept:
    cdef ask_t ask
    cdef object prepared
    cdef Kept next               # of the same hash


cdef class Call:
    cdef ask_t ask
    cdef array_t array[ARRAYS]
    cdef _Handle handle
    cdef int count               # of arrays that were given or left out
    cdef PyObject* name[ARRAYS]
    cdef PyObject* owner[ARRAYS]  # who keeps the memory where it is, NULL for one that was left out
    cdef PyObject* made[ARRAYS]  # what plans were given of it
    cdef void* writer[ARRAYS]    # the streams of CUDA on which the arrays' libraries work now
    cdef object first
    cdef bint gradients          # somebody else keeps them
    cdef bint on_stream          # of CUDA: the one on which the first array's library works now
    cdef void* stream
    cdef double factor           # a number that is not what it asks for: plans take any
    cdef bint deterministic      # of several runs, where somebody asks for that
    cdef bint tf32               # float32 factors of convolutions may be rounded to 11 bits
    cdef double began            # seconds of a clock; 0 where nobody asks how long reading it takes
    cdef bint tried              # nobody asked for this run: it is no call that a log has
    cdef bint counted            # among its operator's calls
    cdef int64_t math_changes    # the handle's when the call began

    cdef int take(self, object data, str name, bint optional=*) except -1
    cdef int _take_device(self, const array_t* a, object data, str name, void* stream) except -1
    cdef PyObject* memory(self, int at) except NULL
    cdef int put(self, int at, object memory) except -1
    cdef object _memory(self, const array_t* a, object data)
    cdef object memory_of(self, object data)
    cdef int _give(self, int at, str name, PyObject* owner) except -1
    cdef str given(self, int at)
    cdef int call(self, Plan plan, PyObject** data, const double* scalars) except -1
    cdef object known(self)
    cdef object keep(self, object prepared)
    cdef tuple lens(self, int at)
    cdef tuple strides(self, int at)
    cdef object descriptor(self, int at)
    cdef int require_like_first(self, int at) except -1
    cdef int require_rank(self, int at, int rank) except -1


cdef Call new_call(int what, object handle, bint gradients)
cdef int axes(ask_t* ask, int at, object value, int count, str name) except -1
cdef int pads(Call c, int at, object value, int count) except -1
cdef list numbers(Call c, int at, int count)
cdef tuple order_of(Call c, int at)
cdef tuple memory_order(Call c, int at)
cdef object along(object desc, int axis)
cdef object described(int kind, object lens, tuple order)
cdef object image_of(object desc)
cdef object new_array(object like, const array_t* like_read, tuple lens, int kind, tuple order)
cdef object filled(int64_t count, double value, int kind)
cdef object run(Call c, Prepared p, object out, tuple before, tuple behind=*)
cdef int add_bias(Call c, Prepared p, object y) except -1
cdef ActivationDescriptor ask_activation(Call c, int number, int real, object activation)
cdef Prepared prepare_convolution(Call c, int direction, int spatial, bint transposed, object out, int other=*,
                                  ActivationDescriptor follows=*, int z=*)
