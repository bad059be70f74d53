"""Tensors without elements, as those of an empty batch: nothing is computed, and a sum of nothing is zero."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Arg, Device, KernelSpec, Problem, Solution, Solver, Step, struct_arg
from miopyx.host._tensor_ops cimport host_tensor
from miopyx.problem._batchnorm cimport BN_BACK_DBIAS, BN_BACK_DSCALE, BN_SAVED_INV, BN_SAVED_MEAN, BatchNormProblem
from miopyx.problem._bias cimport BiasProblem
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._elements cimport TERM, ElementsProblem, sum_of
from miopyx.problem._layernorm cimport LN_BACK_DB, LN_BACK_DW, LN_MEAN, LN_RSTD, LayerNormProblem, has
from miopyx.problem._multimargin cimport MULTI_Y, MultiMarginProblem
from miopyx.problem._slots cimport SlotsProblem
from miopyx.problem._tensor_ops cimport TENSOR_C
from miopyx.values._types cimport (
    MX_AXES, MX_BN_BACKWARD, MX_BN_TRAINING, MX_DOUBLE, MX_MULTI_MARGIN, MX_NORM_BACKWARD, MX_SCALARS,
    MX_SCALE_TENSOR, MX_SET_TENSOR, mx_batchnorm_problem, mx_bias_problem, mx_layernorm_problem, mx_slots_problem,
    mx_tensor, mx_tensor_problem,
)
from ._common cimport NO_ALGORITHM, TOKENS, ceil_div

cdef enum:
    GROUP = 64


cdef int _scale(const mx_tensor* t, void* memory, double factor, int threads) noexcept nogil:
    """t = factor t; where the factor is 0 what t held is not read."""
    cdef mx_tensor_problem p
    cdef void* slots[4]
    cdef double[MX_SCALARS] scalars
    if _elements(t) == 0:
        return 0
    p.what, p.op, p.flags, p.c = MX_SCALE_TENSOR if factor != 0 else MX_SET_TENSOR, 0, 0, t[0]
    memset(scalars, 0, sizeof(scalars))
    scalars[0] = factor
    slots[0] = slots[1] = slots[3] = NULL
    slots[<int> TENSOR_C] = memory
    return host_tensor(&p, slots, scalars, threads)


cdef int _bias(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    return _scale(&(<const mx_bias_problem*> problem).b, slots[0], scalars[1], threads)


cdef int _batchnorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_batchnorm_problem* p = <const mx_batchnorm_problem*> problem
    cdef int status
    if p.what == MX_BN_BACKWARD:
        status = _scale(&p.scale, slots[<int> BN_BACK_DSCALE], 0, threads)
        return _scale(&p.bias, slots[<int> BN_BACK_DBIAS], 0, threads) if status == 0 else status
    status = _scale(&p.mean, slots[<int> BN_SAVED_MEAN], 0, threads)
    return _scale(&p.variance, slots[<int> BN_SAVED_INV], 0, threads) if status == 0 else status


cdef int _layernorm(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_layernorm_problem* p = <const mx_layernorm_problem*> problem
    cdef bint back = p.what == MX_NORM_BACKWARD
    cdef int first = LN_BACK_DW if back else LN_MEAN, second = LN_BACK_DB if back else LN_RSTD, status = 0
    if has(p, first):
        status = _scale(&p.weight if back else &p.mean, slots[first], 0, threads)
    if status == 0 and has(p, second):
        status = _scale(&p.bias if back else &p.rstd, slots[second], 0, threads)
    return status


cdef int _slots(const void* problem, void** slots, const double* scalars, int threads) noexcept nogil:
    cdef const mx_slots_problem* p = <const mx_slots_problem*> problem
    cdef mx_bias_problem sum
    cdef int slot = MULTI_Y if p.what == MX_MULTI_MARGIN else sum_of(p, &sum)
    return _scale(&p.t[slot], slots[slot], 0, threads)


cdef class Empty(Solver):
    """Writes what has elements where the rest has none: sums, which are beta times what they were.

    Those are a bias's gradient, that of a PReLU's weights, sums of losses, and of norms the gradients of their
    parameters and the statistics that they save;
    running ones stay as they are.
    """

    def __cinit__(self):
        self.id, self.name, self.algorithm = 1291, "Empty", NO_ALGORITHM
        self.dynamic = self.deterministic = True

    cpdef str why_not(self, Device dev, Problem problem):
        cdef int slot
        for slot in _sums(problem):
            if problem.tensor[slot].type not in TOKENS:
                return "data type"
            if problem.tensor[slot].type == MX_DOUBLE and not dev.is_host and not dev.fp64:
                return "device has no double precision"
        return None

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef bint is_bias = isinstance(problem, BiasProblem)
        cdef tuple sums = _sums(problem)
        cdef Step step
        if dev.is_host and sums:
            step = Step(None, (), ())
            step.function = (_bias if is_bias else _slots if isinstance(problem, SlotsProblem) else
                             _layernorm if isinstance(problem, LayerNormProblem) else _batchnorm)
            return Solution([step])
        return Solution([_scaled(dev, problem.tensor[<int> slot], slot, is_bias) for slot in sums])


cdef tuple _sums(Problem problem):
    """The slots that are written and have elements."""
    cdef tuple slots = ()
    cdef mx_bias_problem sum
    if isinstance(problem, ElementsProblem):
        slots = (sum_of(&(<ElementsProblem> problem).c, &sum),)
        slots = slots if slots[0] != TERM else ()
    elif isinstance(problem, MultiMarginProblem):
        slots = (MULTI_Y,)
    elif isinstance(problem, BiasProblem):
        slots = (0,)
    elif isinstance(problem, BatchNormProblem):
        if (<BatchNormProblem> problem).c.what == MX_BN_BACKWARD:
            slots = (BN_BACK_DSCALE, BN_BACK_DBIAS)
        elif (<BatchNormProblem> problem).c.what == MX_BN_TRAINING and (<BatchNormProblem> problem).c.save:
            slots = (BN_SAVED_MEAN, BN_SAVED_INV)
    elif isinstance(problem, LayerNormProblem):
        back = (<LayerNormProblem> problem).c.what == MX_NORM_BACKWARD
        slots = tuple([slot for slot in ((LN_BACK_DW, LN_BACK_DB) if back else (LN_MEAN, LN_RSTD))
                       if has(&(<LayerNormProblem> problem).c, slot)])
    return tuple([slot for slot in slots if _elements(problem.tensor[<int> slot]) != 0])


cdef int64_t _elements(const mx_tensor* t) noexcept nogil:
    cdef int64_t elements = 1
    cdef int axis
    for axis in range(MX_AXES):
        elements *= t.len[axis]
    return elements


cdef Step _scaled(Device dev, const mx_tensor* t, int slot, bint by_beta):
    cdef bint wide = t.type == MX_DOUBLE
    cdef str real = "double" if wide else "float"
    return Step(KernelSpec("layers/empty.cl", "empty_sum", TYPE=TOKENS[t.type], ACC=real, SCALAR=real),
                (Arg.slot_of(slot, type_size(<int> t.type)), struct_arg(t, sizeof(mx_tensor)),
                 Arg.beta(wide) if by_beta else Arg.real(0, wide)),
                (ceil_div(_elements(t), GROUP) * GROUP,))
