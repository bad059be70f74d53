"""The contract of solvers: what they may know of a device, what they are asked, and what they answer.

What a solver decides is data: a list of steps, each a kernel (or a host C function) with sizes and arguments, which one
loop replays for every solver.  Nothing here knows an algorithm, and nothing here chooses one.
"""

from libc.stdint cimport int32_t, int64_t

from .problem._problem cimport Problem
from .runtime._cuda cimport cuda
from .runtime._opencl cimport opencl

from .device import probing
from .runtime import _cuda

from .values import config as environment
from .errors import BadParmError

cdef extern from *:
    """
    #ifndef MIOPYX_MODELS
    #define MIOPYX_MODELS 1
    #endif
    """
    enum: MIOPYX_MODELS

# Whether this build was asked for learned rankings (CMake's MIOPEN_ENABLE_AI_IMMED_MODE_FALLBACK).
MODELS_BUILT = bool(MIOPYX_MODELS)

# LLVM's names of CPUs, as PoCL passes them on.
cdef tuple AVX512 = ("x86-64-v4", "cannonlake", "cascadelake", "cooperlake", "diamondrapids", "emeraldrapids",
                     "graniterapids", "icelake", "rocketlake", "sapphirerapids", "tigerlake", "znver4", "znver5")
cdef tuple AVX2 = ("x86-64-v3", "alderlake", "arrowlake", "broadwell", "clearwaterforest", "gracemont", "grandridge",
                   "haswell", "lunarlake", "meteorlake", "pantherlake", "raptorlake", "sierraforest", "skylake",
                   "znver")
cdef tuple ARM = ("aarch64", "ampere", "apple", "cortex", "neoverse", "thunderx")


cdef int _vector_bytes(str isa) except -1:
    """Bytes of a CPU's vector register, from what DeviceInfo calls its instruction set."""
    if "avx512" in isa or isa.startswith(AVX512):
        return 64
    return 32 if "avx2" in isa or isa.startswith(AVX2) else 16


cdef extern from *:
    """
    #if defined(__x86_64__) || defined(_M_X64) || defined(__i386__)
    #define MX_X86 1
    #else
    #define MX_X86 0
    #endif
    """
    const bint MX_X86


cdef class Device:
    """What solvers may know of a device.

    Made from a DeviceInfo and, for OpenCL, a pyopencl Context; sizes in bytes.
    Which runtime launches its kernels is not a solver's business.  `speeds`, clock and bandwidth, are those of a device
    that is not here.
    """

    def __init__(self, info, context=None, tuple speeds not None=(0.0, 0.0)):
        self.info, self.context, self.name = info, context, info.name
        self.clock, self.bandwidth = speeds
        self.is_host = info.kind == "host"
        self.is_cpu = info.kind == "cpu"
        self.is_gpu = info.kind == "gpu"
        self.fp64 = info.fp64
        self.rounds_factors = info.isa == "sm90"
        self.shares_memory = info.host_unified and not self.is_gpu
        self.compute_units = info.compute_units
        self.vector_bytes = _vector_bytes(info.isa)
        # x86 below AVX-512 has 16, ARM 32.
        self.vector_registers = 32 if (self.vector_bytes == 64 or info.isa.startswith(ARM)
                                       or self.vector_bytes == 16 and not MX_X86) else 16
        # Intel's threads have 128 of 32 bytes for 8 work-items, or more.
        self.work_item_registers = 128 if "cl_intel_required_subgroup_size" in info.extensions else 256
        self.max_alloc = info.max_alloc
        self.local_mem = info.local_mem
        self.max_work_group = info.max_work_group_size
        self.threads = environment.num_threads()
        if info.cuda >= 0:
            self.context_ptr = _cuda.primary_context(info.cuda)
            self.place.rt, self.place.context, self.place.ordinal = &cuda, <void*> self.context_ptr, info.cuda
            self.stream_bytes = 64 << 20
        if context is not None:
            self.context_ptr = context.int_ptr
            self.device_ptr = info.handle.int_ptr
            self.clock, self.bandwidth = probing.speeds(info)
            self.place.rt, self.place.context = &opencl, <void*> self.context_ptr
            self.place.shares_memory = self.shares_memory
            self.place.takes_pointers = self.shares_memory and opencl.set_svm != NULL and probing.takes_pointers(info)
            self.stream_bytes = environment.get("MIOPYX_STREAM_BYTES")
            if self.stream_bytes < 0:
                self.stream_bytes = 2 * info.handle.global_mem_cache_size or 64 << 20

    @property
    def context_address(self):
        """The cl_context or CUcontext as an integer, 0 on the host."""
        return self.context_ptr

    @property
    def device_address(self):
        """The cl_device_id as an integer, 0 on the host and under CUDA."""
        return self.device_ptr

    def __repr__(self):
        return f"<Device {self.name}>"


cdef class KernelSpec:
    """Which kernel: a file of miopyx/kernels, a function in it, and -D definitions in a stable order."""

    def __init__(self, str file, str entry, **defines):
        self.file, self.entry = file, entry
        self.options = " ".join(f"-D {name}={value}" for name, value in sorted(defines.items()))

    cdef KernelSpec defining(self, str more):
        """The same kernel with more definitions, as a compiler's options."""
        cdef KernelSpec made = KernelSpec(self.file, self.entry)
        made.options = f"{self.options} {more}" if self.options else more
        return made

    def __repr__(self):
        return f"{self.file}:{self.entry}"


cdef class Arg:
    """One argument of a step: bytes, a buffer slot with an offset in bytes, a number that comes with each call, or one
    that no other launch has."""

    @staticmethod
    def value_of(bytes value not None):
        cdef Arg arg = Arg()
        arg.kind, arg.value = ARG_VALUE, value
        return arg

    @staticmethod
    def int32(int32_t number):
        """A kernel's int."""
        return Arg.value_of((<const char*> &number)[:sizeof(number)])

    @staticmethod
    def int64(int64_t number):
        """A kernel's long."""
        return Arg.value_of((<const char*> &number)[:sizeof(number)])

    @staticmethod
    def real(double number, bint wide):
        """A kernel's double if `wide`, else its float."""
        cdef float narrow = <float> number
        return Arg.value_of((<const char*> &number)[:sizeof(number)] if wide else
                            (<const char*> &narrow)[:sizeof(narrow)])

    @staticmethod
    def slot_of(int slot, int width, int64_t offset=0):
        """`width` is the size of an element: kernels take the offset as a number of elements in a second argument."""
        cdef Arg arg = Arg()
        arg.kind, arg.slot, arg.width, arg.offset = ARG_SLOT, slot, width, offset
        return arg

    @staticmethod
    def map_of(int slot, int width, bytes map not None, int64_t offset=0):
        """The same, of which a kernel gets a tensor map (`tensor_map_t`) as one argument, where the runtime makes them
        and the memory begins at a multiple of 16 bytes; else `Step.unmapped` takes what `slot_of` says."""
        cdef Arg arg = Arg.slot_of(slot, width, offset)
        arg.map = map
        return arg

    cdef Arg moved(self, int slot, int64_t offset):
        """The same of other memory, for what `slot_of` and `map_of` make."""
        cdef Arg arg = Arg.slot_of(slot, self.width, offset)
        arg.map = self.map
        return arg

    @staticmethod
    def scalar_of(int number, bint wide):
        """Number 0 ... of the call's scalars, as a double if `wide`, else as a float."""
        cdef Arg arg = Arg()
        arg.kind, arg.slot, arg.width = ARG_SCALAR, number, 8 if wide else 4
        return arg

    @staticmethod
    def ticket():
        """A ulong that no other launch has; its lowest 16 bits are zero."""
        cdef Arg arg = Arg()
        arg.kind = ARG_TICKET
        return arg

    @staticmethod
    def turn():
        """An int: which of the step's launches it is, 0 ... repeats - 1."""
        cdef Arg arg = Arg()
        arg.kind = ARG_TURN
        return arg

    @staticmethod
    def alpha(bint wide):
        return Arg.scalar_of(0, wide)

    @staticmethod
    def beta(bint wide):
        return Arg.scalar_of(1, wide)


cdef class Step:
    """A kernel launch, or a few that differ in their number alone (`repeats`), or one call of a host function."""

    def __init__(self, KernelSpec spec, args, global_size, local_size=None, int repeats=1, KernelSpec unmapped=None):
        self.spec, self.args, self.repeats, self.unmapped = spec, tuple(args), repeats, unmapped
        self.dims = len(global_size)
        self.choose_local = local_size is None
        for i in range(self.dims):
            self.global_size[i] = global_size[i]
            self.local_size[i] = 0 if local_size is None else local_size[i]
            # Drivers answer a size of zero with anything from success to the end of the process.
            if self.global_size[i] == 0 or not (self.choose_local or self.local_size[i]):
                raise BadParmError("no work-items", "global_size, local_size", (tuple(global_size), local_size), ">= 1")

    cdef Step taking(self, KernelSpec spec, tuple args, KernelSpec unmapped=None):
        """The same launch of another kernel, and another one without maps, with other arguments."""
        cdef Step made = Step.__new__(Step)
        cdef int i
        made.spec, made.args, made.dims, made.choose_local = spec, args, self.dims, self.choose_local
        made.repeats, made.unmapped = self.repeats, unmapped
        for i in range(self.dims):
            made.global_size[i], made.local_size[i] = self.global_size[i], self.local_size[i]
        return made

    @property
    def group(self):
        """Work-items of a work-group, 0 where the driver chooses."""
        cdef size_t items = 0 if self.choose_local else 1
        for i in range(self.dims):
            items *= self.local_size[i]
        return items

    @staticmethod
    def of_address(size_t function):
        """Return a step that calls the C function at an address, a `host_function`, for solvers made elsewhere."""
        if function == 0:
            raise BadParmError("null", "function", function, "the address of a function")
        cdef Step step = Step(None, (), ())
        step.function = <host_function> <void*> function
        return step


cdef class Solution:
    """What a solver decided: the steps and the bytes of workspace they need.

    The first `constant` steps are kernels that read nothing but w and write nothing but the beginning of the workspace;
    no later step writes there or takes w.  So `Plan.pack` runs them once for many calls.  Every other call runs all
    steps.
    """

    def __init__(self, steps, int64_t workspace=0, int constant=0):
        cdef Step step
        cdef Arg arg
        cdef int i
        self.steps, self.workspace, self.constant = tuple(steps), workspace, constant
        if constant == 0:
            return
        if not 0 < constant < len(self.steps):
            raise BadParmError("no number of leading steps", "constant", constant, f"0 to {len(self.steps) - 1}")
        for i in range(len(self.steps)):
            step = self.steps[i]
            if i < constant and step.spec is None:
                raise BadParmError("a constant step that is no kernel", "steps", i, "a kernel")
            for arg in step.args:
                if arg.kind == ARG_VALUE or arg.kind == ARG_TURN:
                    continue
                if i >= constant:
                    if arg.kind == ARG_SLOT and arg.slot == SLOT_W:
                        raise BadParmError("a step behind the constant ones takes w", "steps", i, "the workspace")
                elif arg.kind == ARG_SCALAR or arg.slot != SLOT_W and arg.slot != SLOT_WORKSPACE:
                    raise BadParmError("a constant step takes more than w", "steps", i, "w and the workspace")


cdef class Part:
    """A problem within a problem, which whoever chooses finds a solution for, as if it came alone.

    Parameters
    ----------
    problem : Problem
    slots : tuple
        For each slot of `problem`: the slot of the whole problem that holds it, and where it begins there, in bytes;
        None for one without memory.
    alpha, beta : float
        What the first two numbers of a call are for it.
    """

    def __init__(self, Problem problem not None, tuple slots not None, double alpha=1, double beta=0):
        self.problem, self.slots, self.alpha, self.beta = problem, slots, alpha, beta

    cpdef bint take(self, Solution solution) except -1:
        """Take a solution, unless its kernels cannot start where this part's memory begins."""
        cdef Step step
        cdef Arg arg
        for step in solution.steps:
            if step.spec is None:
                return False
            for arg in step.args:
                if arg.kind == ARG_SLOT and arg.slot != SLOT_WORKSPACE:
                    at = self.slots[arg.slot]
                    if at is None or <int64_t> at[1] % arg.width:
                        return False
                if arg.kind == ARG_SCALAR and arg.slot > 1:
                    return False
        self.solution = solution
        return True

    cdef list steps(self, int64_t workspace):
        """The solution's steps on the memory of the whole problem, their workspace from `workspace` bytes on."""
        cdef Step step
        cdef Arg arg
        cdef list made = [], args
        for step in self.solution.steps:
            args = []
            for arg in step.args:
                if arg.kind == ARG_SCALAR:
                    arg = Arg.real(self.beta if arg.slot else self.alpha, arg.width == 8)
                elif arg.kind == ARG_SLOT and arg.slot == SLOT_WORKSPACE:
                    arg = arg.moved(SLOT_WORKSPACE, workspace + arg.offset)
                elif arg.kind == ARG_SLOT:
                    slot, offset = self.slots[arg.slot]
                    arg = arg.moved(slot, <int64_t> offset + arg.offset)
                args.append(arg)
            made.append(step.taking(step.spec, tuple(args), step.unmapped))
        return made


cdef class Offer:
    """What a solver says of a problem that it can run on a device: how well, with how much workspace, and how.

    Whoever chooses asks each solver for one offer and hands it on, so that nothing is worked out twice.  A solver whose
    decisions are expensive keeps them in a subclass of its own, for `steps`.

    Parameters
    ----------
    solver : Solver
    device : Device
    problem : Problem
    index : float
        Weighted throughput index: the expected fraction of ideal throughput, -2 if unknown.
    workspace : int
        Bytes.
    """

    def __init__(self, Solver solver not None, Device device not None, Problem problem not None, double index=-2,
                 int64_t workspace=0):
        self.solver, self.device, self.problem = solver, device, problem
        self.index, self.workspace, self.parts = index, workspace, ()

    cpdef tuple parameters(self):
        """Return the table of what can be tuned, pairs (name, values ascending); empty: nothing can."""
        return self.solver.parameters(self.device, self.problem)

    cpdef bint accepts(self, tuple config) except -1:
        """Whether `config`, one value a parameter, is one that the solver can run."""
        return self.solver.accepts(self.device, self.problem, config)

    cpdef tuple default_config(self):
        """Return the configuration that is taken where nothing was tuned."""
        return self.solver.default_config(self.device, self.problem)

    cpdef Solution solution(self, tuple config=None):
        """Return what to run under a configuration that the solver accepts; None is the default one."""
        return self.steps(self.default_config() if config is None else config)

    cdef Solution steps(self, tuple config):
        return self.solver.solution(self.device, self.problem, config)

    def __repr__(self):
        return f"<offer of {self.solver!r}: index {self.index:.3g}, {self.workspace} bytes>"


cdef class Solver:
    """Solver(*, id=None, name=None, algorithm=None, dynamic=None, deterministic=None, last_resort=None)\n--\n\n\
    The contract of all algorithms.  Solvers are stateless; ids and names are permanent.

    A subclass sets id, name (MIOpen's where algorithm and workspace are the same), algorithm and flags in its
    constructor.  Who chooses asks for an `offer`; the default one asks the methods below it, once each, and a simple
    solver overrides those.  One whose decisions are expensive overrides `offer` itself.  A solver written in Python
    says with `super().__init__` what it is.
    """

    def __init__(self, *, id=None, name=None, algorithm=None, dynamic=None, deterministic=None, last_resort=None):
        if id is not None:
            self.id = id
        if name is not None:
            self.name = name
        if algorithm is not None:
            self.algorithm = algorithm
        if dynamic is not None:
            self.dynamic = dynamic
        if deterministic is not None:
            self.deterministic = deterministic
        if last_resort is not None:
            self.last_resort = last_resort

    @property
    def switch(self):
        """The environment variable that switches the solver off beside its algorithm's, None: no other."""
        return None

    cpdef object offer(self, Device dev, Problem problem):
        """Return all that the solver says of `problem` on `dev`: an Offer or, where it cannot run it, the reason.

        The reason is a constant text: most solvers refuse most problems, and that takes no object.
        """
        cdef str why = self.why_not(dev, problem)
        if why is not None:
            return why
        return Offer(self, dev, problem, self.wti(dev, problem), self.workspace_size(dev, problem))

    cpdef str why_not(self, Device dev, Problem problem):
        """Return None where the solver can run `problem` on `dev`, else the reason, a constant text."""
        raise NotImplementedError

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        """Bytes of workspace."""
        return 0

    cpdef double wti(self, Device dev, Problem problem) except? -3:
        """Weighted throughput index: the expected fraction of ideal throughput, -2 if unknown."""
        return -2

    cpdef double error_bound(self, Device dev, Problem problem) except -1:
        """Bound an element's error, relative to the sum of the magnitudes of its terms, its rounding included.

        An element is alpha * (a sum of products) + beta * its old value; these products and the old value are its
        terms.  Underflow comes on top: half of the least subnormal number of the type.  Where `mixes_tiles` is set,
        the largest such sum of the tensor counts instead, or the product of the largest magnitudes of both inputs
        where that is more.  0 where sums are exact, those of integers.  Of convolutions only.
        """
        raise NotImplementedError

    cpdef tuple parameters(self, Device dev, Problem problem):
        """Return the table of what can be tuned, pairs (name, values ascending); empty: nothing can."""
        return ()

    cpdef bint accepts(self, Device dev, Problem problem, tuple config) except -1:
        """Whether `config`, one value a parameter, is one that the solver can run."""
        return in_table(self.parameters(dev, problem), config)

    cpdef tuple default_config(self, Device dev, Problem problem):
        """Return the configuration that is taken where nothing was tuned."""
        return ()

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        """Return the steps for an applicable problem; None as `config` is the default one."""
        raise NotImplementedError

    def __repr__(self):
        return f"<{self.id}/{self.name}>"


cdef bint is_streamed(Device dev, int64_t bytes) noexcept:
    """Whether a call that goes over so many bytes should write past the caches of a CPU device.

    What does not stay in the cache until the next call reads it is better not brought in: a plain store reads the line
    that it writes.
    """
    return dev.is_cpu and bytes > dev.stream_bytes


cdef bint in_table(tuple table, tuple config) except -1:
    """Whether a configuration has one of the table's values for each of its parameters."""
    if len(config) != len(table):
        return False
    for value, (_, values) in zip(config, table):
        if value not in values:
            return False
    return True
