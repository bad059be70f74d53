"""Invokers: solutions ready to run, and the call that binds buffers to them and runs them."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from ._arena cimport Arena
from ._binding cimport call_t, slot_t
from miopyx.runtime._buffers cimport binding_t
from miopyx._core cimport Device, Solution, Solver, Step, host_function
from ._handle cimport Handle, Kept
from miopyx.problem._problem cimport Problem
from miopyx.runtime._runtime cimport runtime_t, tensor_map_t
from miopyx.values._types cimport MX_SCALARS

cdef struct slot_arg_t:
    uint32_t index
    int slot
    int width
    int64_t offset
    uint64_t serial      # of the cl_mem that the kernel knows, of a map its address, 0 for none
    int64_t start        # the second argument that it knows, in elements; -1 for none
    const tensor_map_t* map  # of the solution; NULL where the arguments are an address and a start

cdef struct scalar_arg_t:
    uint32_t index
    int which
    int width

cdef struct step_t:
    void* kernel
    host_function function
    uint32_t dims
    size_t global_size[3]
    size_t local_size[3]
    bint choose_local
    int slot_count, scalar_count
    int ticket_index           # -1: takes none
    int turn_index             # likewise
    int repeats
    slot_arg_t* slots
    scalar_arg_t* scalars
    bint mapped                # some of `slots` have a map
    step_t* unmapped           # what runs where one cannot be made; NULL until then


cdef class Invoker(Kept):
    cdef readonly Solver solver
    cdef readonly Solution solution
    cdef readonly tuple config           # what was tuned, () for a solver without parameters
    cdef readonly Problem problem
    cdef Device device
    cdef const runtime_t* rt
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

    cdef int _prepare(self, Handle handle, step_t* s, Step step, bint unmapped=*) except -1
    cdef step_t* _unmapped(self, Handle handle, int number) except NULL
    cdef int _run_host(self, Handle handle, binding_t** slots, const double* scalars) except -1
    cdef int _run_steps(self, void** slots, const double* scalars, int threads) noexcept nogil
    cdef int _run_device(self, Handle handle, binding_t** slots, const double* scalars, int first, int last) except -1


cdef int execute(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                 Arena packed) except -1
cdef int execute_on(Handle handle, Invoker invoker, const call_t* call, tuple names, const double* scalars,
                    void* stream) except -1
cdef Arena pack(Handle handle, Invoker invoker, int slot, object data, str name)
