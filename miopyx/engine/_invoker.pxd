"""Invokers: solutions ready to run, and the call that binds buffers to them and runs them."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from ._arena cimport Arena
from miopyx.runtime._buffers cimport binding_t, bound_t, layout_t
from miopyx._core cimport Device, Solution, Solver, Step, host_function
from ._handle cimport Handle
from miopyx.runtime._opencl cimport cl_uint
from miopyx.problem._problem cimport Problem
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

cdef enum:
    OWN = -1             # as the size of a workspace: the handle's own
    SLOTS = MX_SLOTS + 1  # the workspace stands behind a problem's last slot

cdef struct slot_arg_t:
    cl_uint index
    int slot
    int width
    int64_t offset
    uint64_t serial      # of the cl_mem that the kernel knows, 0 for none
    int64_t start        # the second argument that it knows, in elements; -1 for none

cdef struct scalar_arg_t:
    cl_uint index
    int which
    int width

cdef struct step_t:
    void* kernel
    host_function function
    cl_uint dims
    size_t global_size[3]
    size_t local_size[3]
    bint choose_local
    int slot_count, scalar_count
    int ticket_index           # -1: takes none
    slot_arg_t* slots
    scalar_arg_t* scalars


# One slot of an invoker.
cdef struct slot_t:
    int64_t need         # bytes that it must hold
    int width            # of the elements in which kernels count offsets, the widest
    layout_t layout      # of arrays, where the problem has a tensor for it
    bound_t bound[2]     # what the last two calls with different buffers passed
    int current          # which of the two the last call passed


cdef class Invoker:
    cdef readonly Solver solver
    cdef readonly Solution solution
    cdef readonly tuple config           # what was tuned, () for a solver without parameters
    cdef readonly Problem problem
    cdef Device device
    cdef const void* data                # the problem's
    cdef slot_t* slot                    # the problem's, then the workspace's
    cdef int count                       # without the workspace
    cdef bint apart                      # the current tensors were compared with each other
    cdef bint workspace_apart            # the current workspace was compared with the current tensors
    cdef int64_t calls_anew
    cdef bint quick                      # over before another thread could use the GIL
    cdef step_t* steps
    cdef int step_count
    cdef double scalars[MX_SCALARS]      # what the kernels know
    cdef bint scalars_bound
    cdef long long born                  # fork generation

    cdef int _prepare(self, Handle handle, step_t* s, Step step) except -1
    cdef int _run_host(self, Handle handle, binding_t** slots, const double* scalars) except -1
    cdef int _run_steps(self, void** slots, const double* scalars, int threads) noexcept nogil
    cdef int _run_device(self, Handle handle, binding_t** slots, const double* scalars, int first, int last) except -1


# The memory that a call passes: `count` objects and the workspace behind them, if there is one; object i goes to slot
# order[i], nowhere where that is -1; names[i] is what the caller calls it.
cdef struct call_t:
    const int* order
    int count
    PyObject** data
    int64_t workspace_size


cdef int execute(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                 Arena packed) except -1
cdef Arena pack(Handle handle, Invoker invoker, int slot, object data, str name)
cdef int check_arguments(Handle handle, Problem problem, const call_t* call, tuple names) except -1
cdef int64_t workspace_bytes(object workspace_size) except -1
