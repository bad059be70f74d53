"""Find 2.0 of miopen.h: problems, find options and solutions as objects.

A second door to what the classic functions do: a problem's solutions are Find's, and one that runs is a plan.  Names
and argument order are the header's; output pointers became return values and failures exceptions.
"""

from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memcpy

from miopyx.values._args cimport to_double, to_epsilon, to_flag, to_int, to_int64, to_member
from miopyx.engine._binding cimport OWN, workspace_bytes
from miopyx.values._guard cimport load_double, load_flag, mx_guard, mx_guard_lock, mx_guard_unlock, store_flag
from miopyx.engine._handle cimport Handle, as_handle
from miopyx.engine._plan cimport Plan
from miopyx.problem._fusion cimport FUSED_EPSILON
from miopyx.problem._mha cimport as_mha
from miopyx.problem._descriptors cimport (
    ConvolutionDescriptor, Descriptor, TensorDescriptor, as_convolution, as_tensor, check_descriptor,
)
from miopyx.values._types cimport MX_SCALARS, MX_SLOTS

import copy

from miopyx import enums
from miopyx.errors import BadParmError, MIOpenError, MIOpenNotImplementedError, UnknownError
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._mha import BACKWARD_SLOTS, FORWARD_SLOTS, MhaDescriptor
from miopyx.problem._softmax import SoftmaxDescriptor
from miopyx.solvers import registry
from ._activation import plan_activation_backward, plan_activation_forward
from ._batchnorm import plan_batch_norm_backward, plan_batch_norm_inference, plan_batch_norm_training
from ._convolution import (
    find_solvers, plan_backward_data, plan_backward_weights, plan_forward, workspace_of_find,
)
from ._fusion import fused_candidates, plan_bias_activation
from ._mha import plan_mha
from miopyx.choose import switches
from miopyx.choose.preparing import with_config
from ._softmax import plan_softmax_backward, plan_softmax_forward
from ._tensor_ops import plan_op_tensor

cdef enum:
    FORWARD = 0            # miopenProblemDirection_t
    BACKWARD = 1
    WEIGHTS = 2
    INFERENCE = 4
    SPATIAL = 1            # miopenBatchNormMode_t
    BY_TIME = 0            # miopenFindResultsOrder_t
    OP_ADD = 0             # miopenTensorOp_t
    TILE = 1 << 20         # random numbers that are repeated through a buffer
    # miopenTensorArgument_t
    ID_AT = 0
    DESCRIPTOR_AT = 1
    BUFFER_AT = 2

cdef enum:                 # miopenTensorArgumentId_t
    CONV_X = 1
    CONV_W = 2
    CONV_Y = 3
    ACT_X = 37
    ACT_Y = 38
    ACT_DX = 39
    ACT_DY = 40
    BIAS_X = 41
    BIAS_Y = 42
    BIAS = 43
    SOFTMAX_X = 44
    SOFTMAX_Y = 45
    SOFTMAX_DX = 46
    SOFTMAX_DY = 47
    MHA_K = 4
    MHA_Q = 5
    MHA_V = 6
    MHA_O = 16
    MHA_M = 19
    MHA_Z_INV = 20
    MHA_DO = 21
    MHA_DQ = 29
    MHA_DK = 30
    MHA_DV = 31
    BN_X = 48
    BN_Y = 49
    BN_RUNNING_MEAN = 50
    BN_RUNNING_VARIANCE = 51
    BN_SAVED_MEAN = 52
    BN_SAVED_VARIANCE = 53
    BN_SCALE = 54
    BN_SCALE_DIFF = 55
    BN_ESTIMATED_MEAN = 56
    BN_ESTIMATED_VARIANCE = 57
    BN_BIAS = 58
    BN_BIAS_DIFF = 59
    BN_DX = 60
    BN_DY = 61

cdef int64_t SCALAR = <int64_t> 1 << 31  # ids of numbers have this bit
cdef int64_t MHA_MASK = SCALAR + 1, EXP_AVG_FACTOR = SCALAR + 2, EPSILON = SCALAR + 3

# What a plan of a kind and direction takes: ids of its tensors in its order, those that may be left out, ids of its
# numbers, and those of the tensors whose descriptors it needs.
cdef tuple _CONV = (CONV_X, CONV_W, CONV_Y), _SAVED = (BN_SAVED_MEAN, BN_SAVED_VARIANCE)
cdef tuple _RUNNING = (BN_RUNNING_MEAN, BN_RUNNING_VARIANCE)
cdef dict _TAKES = {
    ("convolution", FORWARD): (_CONV, (), (), _CONV),
    ("convolution", BACKWARD): ((CONV_Y, CONV_W, CONV_X), (), (), _CONV),
    ("convolution", WEIGHTS): ((CONV_Y, CONV_X, CONV_W), (), (), _CONV),
    ("activation", FORWARD): ((ACT_X, ACT_Y), (), (), (ACT_X, ACT_Y)),
    ("activation", BACKWARD): ((ACT_Y, ACT_DY, ACT_X, ACT_DX), (ACT_Y, ACT_DY, ACT_X), (),
                               (ACT_X, ACT_Y, ACT_DX, ACT_DY)),
    ("bias", FORWARD): ((BIAS_X, BIAS, BIAS_Y), (), (), (BIAS_X, BIAS, BIAS_Y)),
    ("softmax", FORWARD): ((SOFTMAX_X, SOFTMAX_Y), (), (), (SOFTMAX_X, SOFTMAX_Y)),
    ("softmax", BACKWARD): ((SOFTMAX_Y, SOFTMAX_DY, SOFTMAX_DX), (), (), (SOFTMAX_Y, SOFTMAX_DX, SOFTMAX_DY)),
    ("batch norm", FORWARD): ((BN_X, BN_Y, BN_SCALE, BN_BIAS, *_RUNNING, *_SAVED), (*_RUNNING, *_SAVED),
                              (EXP_AVG_FACTOR, EPSILON), (BN_X, BN_Y, BN_SCALE)),
    ("batch norm", INFERENCE): ((BN_X, BN_Y, BN_SCALE, BN_BIAS, BN_ESTIMATED_MEAN, BN_ESTIMATED_VARIANCE), (),
                                (EPSILON,), (BN_X, BN_Y, BN_SCALE)),
    ("batch norm", BACKWARD): ((BN_X, BN_DY, BN_DX, BN_SCALE, BN_SCALE_DIFF, BN_BIAS_DIFF, *_SAVED), _SAVED, (EPSILON,),
                               (BN_X, BN_SCALE, BN_DX, BN_DY)),
}
cdef frozenset _OF_SCALE = frozenset((  # share the scale's descriptor
    *_RUNNING, *_SAVED, BN_SCALE, BN_SCALE_DIFF, BN_ESTIMATED_MEAN, BN_ESTIMATED_VARIANCE, BN_BIAS, BN_BIAS_DIFF))
# Of attention, in the order of its plans.
cdef tuple _MHA_FORWARD = tuple([enums.number_of("miopenTensorArgumentId_t", f"miopenTensor{name}")
                                 for name in FORWARD_SLOTS])
cdef tuple _MHA_BACKWARD = tuple([enums.number_of("miopenTensorArgumentId_t", f"miopenTensor{name}")
                                  for name in BACKWARD_SLOTS])
cdef tuple _MHA_NEEDS = (MHA_K, MHA_Q, MHA_V, MHA_O)
cdef tuple _MHA_BACKWARD_NEEDS = (*_MHA_NEEDS, MHA_DO, MHA_M, MHA_Z_INV, MHA_DQ, MHA_DK, MHA_DV)
_TAKES["attention", FORWARD] = (_MHA_FORWARD, tuple([id for id in _MHA_FORWARD if id not in _MHA_NEEDS]), (MHA_MASK,),
                                _MHA_NEEDS)
_TAKES["attention", BACKWARD] = (
    _MHA_BACKWARD, tuple([id for id in _MHA_BACKWARD if id not in _MHA_BACKWARD_NEEDS]), (MHA_MASK,),
    _MHA_BACKWARD_NEEDS)
# Where the input and the result of a problem are that may be a part of a fused one.
cdef dict _ENDS = {
    ("convolution", FORWARD): (CONV_X, CONV_Y), ("bias", FORWARD): (BIAS_X, BIAS_Y),
    ("activation", FORWARD): (ACT_X, ACT_Y), ("batch norm", FORWARD): (BN_X, BN_Y),
    ("batch norm", INFERENCE): (BN_X, BN_Y),
}
cdef tuple _PLANS = (plan_forward, plan_backward_data, plan_backward_weights)


cdef object _name_of(int64_t id):
    """What an id is called, for messages."""
    try:
        return enums.miopenTensorArgumentId_t(id).name
    except ValueError:
        return id


cdef int64_t _id_of(object id) except? -1:
    """The number of a miopenTensorArgumentId_t, or of its name."""
    if isinstance(id, str):
        number = enums.number_of("miopenTensorArgumentId_t", id)
        if number is None:
            raise BadParmError("unknown tensor argument", "id", id, "a miopenTensorArgumentId_t")
        return number
    return to_int64(id, "id")


cdef class _Object:
    """What miopenCreate... made and miopenDestroy... ends."""

    cdef readonly bint destroyed
    cdef bint made                 # by a function of this module, not by __new__ alone
    cdef mx_guard guard            # of objects that are replaced while others take them

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} is not copied: make another, or save a solution")


cdef _Object _alive(object given, type kind, str name):
    if not isinstance(given, kind):
        raise BadParmError("another kind of object", name, given, f"a {kind.__name__}")
    if not (<_Object> given).made:
        raise BadParmError("an object that no function made", name, type(given).__name__, f"a {kind.__name__}")
    if load_flag((<_Object> given).destroyed):
        raise BadParmError(f"{name} was destroyed", name, given, f"a live {kind.__name__}")
    return <_Object> given


cdef int _destroy(object given, type kind, str name) except -1:
    if given is not None:
        if not isinstance(given, kind):
            _alive(given, kind, name)
        store_flag((<_Object> given).destroyed, True)
    return 0


cdef class FindProblem(_Object):
    """FindProblem()\n--\n\n\
    An operation, its direction and the descriptors of its tensors (miopenProblem_t).

    Descriptors are copied: what becomes of the caller's changes nothing here.
    """

    # "convolution", "activation", "attention", "batch norm", "bias", "softmax", "fused"
    cdef readonly str kind
    cdef readonly int direction
    cdef object operation          # a copy of the operation's descriptor, batch norm's mode
    cdef bint running              # batch norm moves running statistics
    cdef dict tensors              # copies of descriptors by ids
    cdef list parts                # of a fused problem

    def __init__(self):
        raise TypeError("problems are made by miopenCreateConvProblem and its like")

    def __repr__(self):
        if self.kind == "fused":
            return f"<FindProblem {' + '.join(part.kind for part in self.parts)}>"
        return f"<FindProblem {self.kind}, {_direction_word(self.direction)}>"

    cdef tuple takes(self):
        return _fused_takes(self) if self.kind == "fused" else <tuple> _TAKES[self.kind, self.direction]

    cdef int require_described(self) except -1:
        """Require a descriptor of each tensor that a plan needs one of."""
        if self.kind == "fused":
            return _join_parts(self)
        for id in self.takes()[3]:
            if id not in self.tensors:
                raise BadParmError("the tensor has no descriptor yet", "problem", _name_of(id),
                                   "one set by miopenSetProblemTensorDescriptor")
        if self.kind == "batch norm":
            for id in _OF_SCALE & self.tensors.keys():
                if self.tensors[id] != self.tensors[BN_SCALE]:
                    raise MIOpenNotImplementedError("parameters and statistics of different descriptors", _name_of(id),
                                                    self.tensors[id], f"as the scale's, {self.tensors[BN_SCALE]}")
        return 0

    cdef frozenset left_out(self):
        """Ids of the optional tensors that plans of this problem do not take."""
        cdef set out = set()
        if self.kind == "batch norm":
            if not self.running:
                out.update(_RUNNING)
            if not self.tensors.keys() >= set(_SAVED):
                out.update(_SAVED)
        if self.kind == "fused" and self.parts[0].kind == "batch norm" and self.parts[0].direction == FORWARD:
            if not (<FindProblem> self.parts[0]).running:
                out.update(_RUNNING)
            if not self.tensors.keys() >= set(_SAVED):
                out.update(_SAVED)
        if self.kind == "attention":
            out.update(set(self.takes()[1]) - self.tensors.keys())
        return frozenset(out & set(self.takes()[1]))

    cdef Plan plan(self, object handle, object solver_id):
        """The plan of a solver, or of the first that applies."""
        cdef Plan plan
        cdef dict t = self.tensors
        cdef int d = self.direction
        if self.kind == "convolution":
            a, b, out = [t[id] for id in self.takes()[0]]
            return _PLANS[d](handle, a, b, self.operation, out, solver_id)
        if self.kind == "activation":
            if d == FORWARD:
                return plan_activation_forward(handle, self.operation, t[ACT_X], t[ACT_Y])
            return plan_activation_backward(handle, self.operation, t[ACT_Y], t[ACT_DY], t[ACT_X], t[ACT_DX])
        if self.kind == "bias":
            return plan_op_tensor(handle, OP_ADD, t[BIAS_X], t[BIAS], t[BIAS_Y])
        if self.kind == "softmax":
            how = self.operation.algorithm, self.operation.mode
            if d == FORWARD:
                plan = plan_softmax_forward(handle, t[SOFTMAX_X], t[SOFTMAX_Y], *how)
            else:
                plan = plan_softmax_backward(handle, t[SOFTMAX_Y], t[SOFTMAX_DY], t[SOFTMAX_DX], *how)
            plan.default[0], plan.default[1] = self.operation.alpha, self.operation.beta
            return plan
        if self.kind == "attention":
            names = FORWARD_SLOTS if d == FORWARD else BACKWARD_SLOTS
            return plan_mha(handle, d == BACKWARD, self.operation.scale,
                            {name: t[id] for name, id in zip(names, self.takes()[0]) if id in t})
        if self.kind == "fused":
            return _fused_plan(self, handle, solver_id)
        saved = BN_SAVED_MEAN not in self.left_out()
        if d == FORWARD:
            return plan_batch_norm_training(handle, self.operation, t[BN_X], t[BN_Y], t[BN_SCALE], self.running, saved)
        if d == INFERENCE:
            return plan_batch_norm_inference(handle, self.operation, t[BN_X], t[BN_Y], t[BN_SCALE])
        return plan_batch_norm_backward(handle, self.operation, t[BN_X], t[BN_DY], t[BN_DX], t[BN_SCALE], saved)


cdef tuple _kinds(FindProblem p):
    return tuple([(part.kind, part.direction) for part in p.parts])


cdef tuple _fused_takes(FindProblem p):
    """What a fused problem's plan takes, as _TAKES has it of the others.

    Raises
    ------
    MIOpenNotImplementedError
        For a sequence that nothing fuses.
    """
    cdef tuple kinds = _kinds(p), parameters = (BN_SCALE, BN_BIAS, BN_ESTIMATED_MEAN, BN_ESTIMATED_VARIANCE)
    cdef list rest = list(kinds[1:]), ids
    cdef int result
    if not rest or any([kind not in _ENDS for kind in kinds]):
        raise _unfused(p)
    result = (<tuple> _ENDS[kinds[len(kinds) - 1]])[1]
    if kinds[0] == ("convolution", FORWARD):
        ids, needs = [CONV_X, CONV_W], [CONV_X, CONV_W]
        for kind, more, described in ((("bias", FORWARD), (BIAS,), (BIAS,)),
                                      (("batch norm", INFERENCE), parameters, (BN_SCALE,)),
                                      (("activation", FORWARD), (), ())):
            if rest and rest[0] == kind:
                del rest[0]
                ids += more
                needs += described
        if rest:
            raise _unfused(p)
        return (*ids, result), (), ((EPSILON,) if BN_SCALE in needs else ()), (*needs, result)
    if kinds == (("batch norm", INFERENCE), ("activation", FORWARD)):
        return (BN_X, result, *parameters), (), (EPSILON,), (BN_X, BN_SCALE, result)
    if kinds == (("batch norm", FORWARD), ("activation", FORWARD)):
        takes = _TAKES["batch norm", FORWARD]
        return ((BN_X, result, *(<tuple> takes[0])[2:]), takes[1], takes[2], (BN_X, BN_SCALE, result))
    raise _unfused(p)


cdef object _unfused(FindProblem p):
    return MIOpenNotImplementedError(
        "No solver found. Nothing fuses this sequence", "problem", p,
        "convolution [+ bias] [+ batch norm, inference] [+ activation], or batch norm + activation, forward")


cdef int _join_parts(FindProblem p) except -1:
    """Let each part's input be what the one before it gives; `tensors` gets what the plan takes."""
    cdef FindProblem part
    cdef TensorDescriptor here = None, given
    cdef dict tensors = {}
    cdef int first, last = 0
    _fused_takes(p)
    for part in p.parts:
        first, last = _ENDS[part.kind, part.direction]
        tensors.update(part.tensors)
        given = part.tensors.get(first)
        if here is None:
            if given is None:
                raise BadParmError("the tensor has no descriptor yet", "problem", _name_of(first),
                                   "one set by miopenSetProblemTensorDescriptor")
            here = given
        elif given is not None and (given.lens != here.lens or given.type != here.type):
            raise BadParmError("not what the part before it gives", _name_of(first), given, here)
        if part.kind == "convolution":
            if CONV_W not in part.tensors:
                raise BadParmError("the tensor has no descriptor yet", "problem", _name_of(CONV_W),
                                   "one set by miopenSetProblemTensorDescriptor")
            here = TensorDescriptor(here.dtype, part.operation.output_lens(here, part.tensors[CONV_W]))
        given = part.tensors.get(last)
        if given is not None:
            if given.lens != here.lens or given.type != here.type:
                raise BadParmError("not the lengths and type of the part's result", _name_of(last), given, here)
            here = given
    tensors[last] = here
    p.tensors = tensors
    for id in p.takes()[3]:
        if id not in p.tensors:
            raise BadParmError("the tensor has no descriptor yet", "problem", _name_of(id),
                               "one set by miopenSetProblemTensorDescriptor")
    return 0


cdef tuple _fused_parts(FindProblem p):
    """What plan_bias_activation takes behind a handle."""
    cdef FindProblem part
    cdef dict t = p.tensors
    cdef object bias = None, norm = None, activation = ActivationDescriptor()
    for part in p.parts:
        if part.kind == "bias":
            bias = t[BIAS]
        elif part.kind == "batch norm":
            norm = t[BN_SCALE]
            if part.operation != SPATIAL:
                raise MIOpenNotImplementedError("batch norm per activation behind a convolution", "problem", p,
                                                "miopenBNSpatial")
        elif part.kind == "activation":
            activation = part.operation
    ids = p.takes()[0]
    return (t[CONV_X], t[CONV_W], (<FindProblem> p.parts[0]).operation, None, bias, activation, t[ids[len(ids) - 1]],
            norm)


cdef Plan _fused_plan(FindProblem p, object handle, object solver_id):
    cdef dict t = p.tensors
    cdef tuple kinds = _kinds(p)
    if kinds[0] == ("convolution", FORWARD):
        *rest, norm = _fused_parts(p)
        return plan_bias_activation(handle, *rest, solver_id, None, norm)
    mode, activation = (<FindProblem> p.parts[0]).operation, (<FindProblem> p.parts[1]).operation
    if kinds[0] == ("batch norm", INFERENCE):
        return plan_batch_norm_inference(handle, mode, t[BN_X], t[ACT_Y], t[BN_SCALE], activation)
    return plan_batch_norm_training(handle, mode, t[BN_X], t[ACT_Y], t[BN_SCALE], (<FindProblem> p.parts[0]).running,
                                    t.keys() >= set(_SAVED), activation)


cdef str _direction_word(int direction):
    return {FORWARD: "forward", BACKWARD: "backward", WEIGHTS: "weights", INFERENCE: "inference"}[direction]


cdef FindProblem _problem(str kind, object operation, object direction, bint running=False):
    cdef FindProblem p = FindProblem.__new__(FindProblem)
    cdef int d = to_member(direction, "miopenProblemDirection_t", "direction")
    if d not in (FORWARD, BACKWARD, WEIGHTS, INFERENCE):
        raise BadParmError("unknown direction", "direction", direction, "a miopenProblemDirection_t")
    if (kind, d) not in _TAKES:
        raise MIOpenNotImplementedError(f"no such direction of a {kind} problem", "direction", _direction_word(d),
                                        ", ".join(_direction_word(way) for what, way in _TAKES if what == kind))
    p.kind, p.direction, p.operation, p.running, p.tensors, p.made = kind, d, operation, running, {}, True
    return p


cdef class FindOptions(_Object):
    """FindOptions()\n--\n\n\
    How FindSolutions searches (miopenFindOptions_t); a new one has the header's defaults."""

    cdef readonly bint tuning
    cdef readonly int order
    cdef readonly int64_t workspace_limit
    cdef object workspace          # the caller's, None: one is allocated
    cdef int64_t workspace_size
    cdef dict tensors              # the caller's buffers by ids
    cdef readonly bint attach_binaries

    def __init__(self):
        self.workspace_limit, self.tensors, self.made = INT64_MAX, {}, True


cdef class FindSolution(_Object):
    """FindSolution()\n--\n\n\
    A solver that can run a problem, with its configuration (miopenSolution_t)."""

    cdef readonly FindProblem problem
    cdef readonly int64_t solver_id
    cdef readonly str solver
    cdef readonly tuple config
    cdef readonly double time      # milliseconds
    cdef readonly int64_t workspace
    cdef str stamp                 # the build, driver and device that it was found on
    cdef Plan ready                # of the handle that ran it last
    cdef int64_t ids[MX_SLOTS]     # of the plan's buffers, -1 where one is left out
    cdef unsigned optional         # bits of those that may be missing
    cdef int64_t numbers[MX_SCALARS]
    cdef int place[MX_SCALARS]     # of those among a call's numbers
    cdef int number_count, count

    def __init__(self):
        raise TypeError("solutions are made by miopenFindSolutions and miopenLoadSolution")

    def __repr__(self):
        return f"<FindSolution {self.solver} of {self.problem!r}>"

    cdef int set_arguments(self) except -1:
        cdef tuple takes = self.problem.takes()
        cdef frozenset out = self.problem.left_out()
        cdef int i
        self.count, self.number_count = len(takes[0]), len(takes[2])
        for i, id in enumerate(takes[0]):
            self.ids[i] = -1 if id in out else id
            # What an activation's mode does not read may be missing; a plan asks for the rest.
            if id in out or (self.problem.kind == "activation" and id in takes[1]):
                self.optional |= 1u << i
        for i, id in enumerate(takes[2]):
            self.numbers[i], self.place[i] = id, i
            if self.problem.kind == "fused" and self.problem.parts[0].kind == "convolution":
                self.place[i] = FUSED_EPSILON
        return 0

    cdef Plan plan_on(self, Handle handle):
        """The plan for a handle; it is made once, and anew for another handle."""
        cdef Plan plan
        mx_guard_lock(&self.guard)
        plan = self.ready
        mx_guard_unlock(&self.guard)
        if plan is None or plan.handle is not handle:
            plan = _prepared(self, handle)
            self.get_ready(plan)
        return plan

    cdef int get_ready(self, Plan plan) except -1:
        mx_guard_lock(&self.guard)
        _old, self.ready = self.ready, plan  # goes when the guard does
        mx_guard_unlock(&self.guard)
        return 0


cdef Plan _prepared(FindSolution s, Handle handle):
    from miopyx.database import store

    cdef FindProblem p = s.problem
    cdef Plan plan
    stamp = store.of(handle.device.info).stamp
    if s.stamp != stamp:
        raise BadParmError("the solution was found on another device, or by another driver", "solution", s.stamp, stamp)
    plan = p.plan(handle, s.solver_id)
    if plan.solver.name != s.solver:
        raise BadParmError("another solver runs this problem here", "solution", s.solver, plan.solver.name)
    if plan.invoker.config != s.config:  # the handle's own was tuned otherwise: this one is the solution's alone
        plan.invoker = with_config(handle, plan.invoker, s.config)
    if p.kind == "convolution":  # its plans say workSpace, as the convolutions' functions
        plan.names = (*plan.names[:plan.count], "workspace", "workspaceSize")
    return plan


cdef FindSolution _solution(FindProblem p, object solver, tuple config, double time, int64_t workspace, str stamp):
    cdef FindSolution s = FindSolution.__new__(FindSolution)
    s.problem, s.solver_id, s.solver, s.config = p, solver.id, solver.name, config
    s.time, s.workspace, s.stamp, s.made = time, workspace, stamp, True
    s.set_arguments()
    return s


cdef FindProblem _frozen(FindProblem p):
    """A problem as it is now, for solutions: the caller may go on with his."""
    cdef FindProblem same = FindProblem.__new__(FindProblem)
    same.kind, same.direction, same.operation, same.running = p.kind, p.direction, p.operation, p.running
    same.tensors, same.made, same.parts = dict(p.tensors), True, p.parts
    return same


# Problems


def miopenCreateConvProblem(operatorDesc, direction):
    """Return a FindProblem of a convolution.

    Parameters
    ----------
    operatorDesc : ConvolutionDescriptor
        Copied; a transposed one, its attributes and its find mode count as in the classic functions.
    direction : miopenProblemDirection_t
        Forward, Backward (data) or BackwardWeights.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For another kind of descriptor or direction.
    """
    return _problem("convolution", copy.copy(as_convolution(operatorDesc, "operatorDesc")), direction)


def miopenCreateActivationProblem(operatorDesc, direction):
    """Return a FindProblem of an activation, forward or backward.

    Parameters
    ----------
    operatorDesc : ActivationDescriptor
        Copied.
    direction : miopenProblemDirection_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For another kind of descriptor or direction.
    """
    check_descriptor(operatorDesc, ActivationDescriptor, "operatorDesc")
    return _problem("activation", copy.copy(operatorDesc), direction)


def miopenCreateBatchnormProblem(mode, runningMeanVariance, direction):
    """Return a FindProblem of a batch normalisation: Forward (training), Backward or Inference.

    Parameters
    ----------
    mode : miopenBatchNormMode_t
    runningMeanVariance : bool
        Whether training moves running statistics.  It saves mean and inverse deviation where both have a descriptor,
        and Backward takes them then.
    direction : miopenProblemDirection_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For an unknown mode or direction.
    """
    cdef int number = to_member(mode, "miopenBatchNormMode_t", "mode")
    if number not in (0, 1):
        raise BadParmError("unknown mode", "mode", mode, "a miopenBatchNormMode_t")
    return _problem("batch norm", number, direction, to_flag(runningMeanVariance, "runningMeanVariance"))


def miopenCreateBiasProblem(direction):
    """Return a FindProblem that adds a bias: y = x + bias, with lengths of 1 where bias is repeated.

    Parameters
    ----------
    direction : miopenProblemDirection_t
        Forward; the header has no tensors for others.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For another direction.
    """
    return _problem("bias", None, direction)


def miopenCreateMhaProblem(operatorDesc, direction):
    """Return a FindProblem of an attention, Forward or Backward.

    Of each head, with r = descaleQ descaleK scale:

        s = r q k^T + bias, but -Inf for keys behind the row's place (miopenMhaMaskCausal)
        M = max of a row of s,  ZInv = 1 / (sum of e^(s - M)),  p = e^(s - M) ZInv
        o = scaleO (scaleS mask p / (1 - P)) v descaleS descaleV
        dv = scaleDV (scaleS mask p / (1 - P))^T do descaleS descaleDO
        ds = scale p (mask / (1 - P) (do v^T) descaleDO descaleV - (row's sum of do o) descaleDO descaleO)
        dq = scaleDQ (scaleDS ds) k descaleDS descaleK
        dk = scaleDK (scaleDS ds)^T q descaleDS descaleQ
        AmaxS, AmaxO, AmaxDS, AmaxDQ ... = the largest absolute p, o, ds, dq ... before their scale

    as MIOpen's header and Vaswani et al., Attention is all you need (NeurIPS 2017), have it; bias is added.
    The mask of dropout has the probability P, and is the same forward and backward for the same seed and offset
    (docs/attention.md).  Scores live in tiles: nothing has the size of rows times keys.

    Tensors (miopenSetProblemTensorDescriptor; those in brackets may be left out, numbers are 1 then):

        Q n h s d, K n h t d, V n h t w, O n h s w     float32, float16, bfloat16 or float64, alike; any strides
        [Bias] n h s t or 1 instead, M and ZInv n h s 1    float32, of float64 float64; forward [M, ZInv]
        DO, DQ, DK, DV                                 as O, Q, K, V
        [DescaleK, ..., ScaleS, ...]                   a float32 in memory
        [DropoutProbability, DropoutSeed, DropoutOffset]    a float32 of 0 to 1 and two int64 in memory; all or none
        [AmaxO, AmaxS], [AmaxDQ, AmaxDK, AmaxDV, AmaxDS]    a float32 in memory

    miopenTensorMhaMask is a number of the call, a miopenMhaMask_t.  A row whose scores are all -Inf is NaN.

    Parameters
    ----------
    operatorDesc : MhaDescriptor
        Copied.
    direction : miopenProblemDirection_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For another kind of descriptor or direction.
    """
    return _problem("attention", copy.copy(as_mha(operatorDesc, "operatorDesc")), direction)


def miopenCreateSoftmaxProblem(operatorDesc, direction):
    """Return a FindProblem of a softmax, forward or backward.

    Parameters
    ----------
    operatorDesc : SoftmaxDescriptor
        Copied, alpha and beta too.
    direction : miopenProblemDirection_t

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        For another kind of descriptor or direction.
    """
    check_descriptor(operatorDesc, SoftmaxDescriptor, "operatorDesc")
    return _problem("softmax", copy.copy(operatorDesc), direction)


def miopenFuseProblems(problem1, problem2):
    """Append a problem's parts to those of another, which becomes a fused one.

    Solutions run all parts in one launch where their solver can (docs/fusion.md):

        convolution [+ bias] [+ batch norm, Inference and spatial] [+ activation]      all Forward
        batch norm, Forward or Inference, + activation, Forward

    Descriptors are set before: those of the first part's input and of what the parts read besides it.  Results that are
    not described are packed; each part's input is the result of the one before it.  Solutions take the first input,
    what is read besides, and the last result; there are no tensors between.

    Parameters
    ----------
    problem1, problem2 : FindProblem
        The second one stays as it is.

    Raises
    ------
    BadParmError
        For what is no live problem, or one and the same.
    """
    cdef FindProblem first = _alive(problem1, FindProblem, "problem1")
    cdef FindProblem second = _alive(problem2, FindProblem, "problem2")
    if first is second:
        raise BadParmError("a problem cannot be fused with itself", "problem2", problem2, "another problem")
    parts = first.parts if first.kind == "fused" else [_frozen(first)]
    first.parts = [*parts, *(second.parts if second.kind == "fused" else [_frozen(second)])]
    first.kind, first.operation, first.tensors = "fused", None, {}


def miopenDestroyProblem(problem):
    """End a FindProblem; its solutions stay.  None is fine.

    Parameters
    ----------
    problem : FindProblem or None

    Raises
    ------
    BadParmError
        For anything else.
    """
    _destroy(problem, FindProblem, "problem")


def miopenSetProblemTensorDescriptor(problem, id, descriptor):
    """Say what one of a problem's tensors looks like.

    Parameters
    ----------
    problem : FindProblem
    id : miopenTensorArgumentId_t
        One that the problem's kind and direction have.
    descriptor : TensorDescriptor
        Copied.

    Raises
    ------
    BadParmError
        For an id of another operation or of a number, or what is no live descriptor.
    """
    cdef FindProblem p = _alive(problem, FindProblem, "problem")
    cdef int64_t number = _id_of(id)
    if p.kind == "fused":
        raise BadParmError("tensors of a fused problem are those of its parts", "problem", problem,
                           "a part, before it is fused")
    if number not in p.takes()[0]:
        raise BadParmError(f"no tensor of a {p.kind} problem, {_direction_word(p.direction)}", "id", _name_of(number),
                           ", ".join(str(_name_of(one)) for one in sorted(p.takes()[0])))
    p.tensors[number] = copy.copy(as_tensor(descriptor, "descriptor"))


# Options


def miopenCreateFindOptions():
    """Return FindOptions with the header's defaults: no tuning, by time, any workspace, memory of the library's."""
    return FindOptions()


def miopenDestroyFindOptions(options):
    """End FindOptions.  None is fine.

    Parameters
    ----------
    options : FindOptions or None

    Raises
    ------
    BadParmError
        For anything else.
    """
    _destroy(options, FindOptions, "options")


def miopenSetFindOptionTuning(options, value):
    """Say whether configurations are searched for, as with exhaustiveSearch.

    Parameters
    ----------
    options : FindOptions
    value : int
        0 or 1.

    Raises
    ------
    BadParmError
        For another value.
    """
    (<FindOptions> _alive(options, FindOptions, "options")).tuning = to_flag(value, "value")


def miopenSetFindOptionResultsOrder(options, value):
    """Set what comes first: what takes least time, or least workspace.

    Parameters
    ----------
    options : FindOptions
    value : miopenFindResultsOrder_t

    Raises
    ------
    BadParmError
        For another value.
    """
    cdef FindOptions o = _alive(options, FindOptions, "options")
    cdef int order = to_member(value, "miopenFindResultsOrder_t", "value")
    if order not in (0, 1):
        raise BadParmError("unknown order", "value", value, "a miopenFindResultsOrder_t")
    o.order = order


def miopenSetFindOptionWorkspaceLimit(options, value):
    """Leave out what needs more workspace.

    Parameters
    ----------
    options : FindOptions
    value : int
        Bytes, at least 0.

    Raises
    ------
    BadParmError
        For a negative size.
    """
    cdef FindOptions o = _alive(options, FindOptions, "options")
    cdef int64_t limit = INT64_MAX if type(value) is int and value == (1 << 64) - 1 else to_int64(value, "value")
    if limit < 0:
        raise BadParmError("negative size", "value", limit, ">= 0")
    o.workspace_limit = limit


def miopenSetFindOptionPreallocatedWorkspace(options, buffer, size):
    """Let FindSolutions time with a workspace of the caller's, and no more than that.

    Parameters
    ----------
    options : FindOptions
    buffer : memory of the handle's device, or None
    size : int
        Bytes.

    Raises
    ------
    BadParmError
        For a negative size.
    """
    cdef FindOptions o = _alive(options, FindOptions, "options")
    cdef int64_t bytes_ = workspace_bytes(size)
    mx_guard_lock(&o.guard)
    _old = o.workspace  # goes when the guard does
    o.workspace, o.workspace_size = buffer, bytes_
    mx_guard_unlock(&o.guard)


def miopenSetFindOptionPreallocatedTensor(options, id, buffer):
    """Let FindSolutions time with a tensor of the caller's; results are written to it.

    Parameters
    ----------
    options : FindOptions
    id : miopenTensorArgumentId_t
    buffer : memory of the handle's device, or None
        None: the library allocates one, full of random numbers.

    Raises
    ------
    BadParmError
        For an unknown id.
    """
    cdef FindOptions o = _alive(options, FindOptions, "options")
    cdef int64_t number = _id_of(id)
    if number & SCALAR or not isinstance(_name_of(number), str):
        raise BadParmError("no tensor", "id", _name_of(number), "a tensor's miopenTensorArgumentId_t")
    o.tensors[number] = buffer


def miopenSetFindOptionAttachBinaries(options, attach):
    """Accepted, and without effect: saved solutions hold no programs.

    A program of a CPU is machine code, which nothing here loads from bytes that somebody may have changed.  The program
    cache keeps what a solution needs.

    Parameters
    ----------
    options : FindOptions
    attach : int
        0 or 1.

    Raises
    ------
    BadParmError
        For another value.
    """
    (<FindOptions> _alive(options, FindOptions, "options")).attach_binaries = to_flag(attach, "attach")


# Solutions


cdef object _random(TensorDescriptor desc):
    """Random numbers of a tensor's type, as many as its memory holds."""
    import numpy as np

    from miopyx.problem._descriptors import numpy_type

    kind = numpy_type(desc.type)
    count = desc.nbytes // kind.itemsize
    rng = np.random.default_rng()
    if kind.kind == "i":
        some = rng.integers(-4, 5, min(count, TILE)).astype(kind)
    else:
        some = rng.standard_normal(min(count, TILE), np.float32).astype(kind)
    return np.resize(some, count)


cdef list _find_convolution(Handle handle, FindProblem p, FindOptions o, str stamp):
    cdef dict t = p.tensors
    cdef int64_t size = o.workspace_limit
    cdef list buffers = []
    cdef int i
    ids = p.takes()[0]
    mx_guard_lock(&o.guard)
    workspace, given_size = o.workspace, o.workspace_size
    mx_guard_unlock(&o.guard)
    if workspace is not None or given_size > 0:
        size = min(size, given_size)
    else:
        size = min(size, workspace_of_find(p.direction, handle, t[CONV_X], t[CONV_W], t[CONV_Y], p.operation))
        workspace = handle.empty((size,), "int8") if size else None
    for i, id in enumerate(ids):
        given = o.tensors.get(id)
        if given is None:  # the last one is the result
            given = handle.empty(t[id]) if i == 2 else handle.upload(_random(t[id]))
        buffers.append(given)
    problem, candidates = find_solvers(p.direction, handle, t[CONV_X], t[CONV_W], t[CONV_Y], p.operation,
                                       tuple(buffers), workspace, size, o.tuning)
    return [_solution(p, c.solver, handle.invoker(problem, c.solver.id).config,
                      c.time if c.measured else -1.0, c.workspace, stamp)
            for c in candidates if handle.invoker(problem, c.solver.id) is not None]


cdef list _find_fused(Handle handle, FindProblem p, FindOptions o, int most, str stamp):
    """The solvers of a fused convolution as they are ranked, those first that were measured; none is timed here."""
    cdef list found = []
    cdef Plan plan
    cdef int64_t limit = o.workspace_limit
    mx_guard_lock(&o.guard)
    workspace, given_size = o.workspace, o.workspace_size
    mx_guard_unlock(&o.guard)
    if workspace is not None or given_size > 0:
        limit = min(limit, given_size)
    failure, only = None, switches.only()
    able = [one for one in fused_candidates(handle, *_fused_parts(p)) if only is None or one[0] in only]
    if not able:
        raise MIOpenNotImplementedError("all that run it are left out by MIOPEN_DEBUG_FIND_ONLY_SOLVER", "problem", p,
                                        ", ".join([registry.BY_ID[id].name for id in sorted(only)]))
    for solver_id, time, workspace in able:
        if workspace > limit or len(found) == most and o.order == BY_TIME:
            continue
        try:
            plan = p.plan(handle, solver_id)
        except MIOpenError as e:
            failure = e
            continue
        found.append(_solution(p, plan.solver, plan.invoker.config, time, plan.workspace, stamp))
    if not found:
        raise failure or UnknownError("workspace is smaller than any solution needs", "options", limit, "more")
    return found


def miopenFindSolutions(handle, problem, options, maxSolutions):
    """Return the FindSolutions of a problem, the best first.

    Of a convolution they are what Find finds, by the same databases and environment as
    miopenFindConvolutionForwardAlgorithm and its like, but all solvers and not the best of each algorithm.  The find
    mode is NORMAL, which times what is not known, unless the convolution or MIOPEN_FIND_MODE says another: FAST and the
    hybrid modes give one solution where there is a record.  Of a fused convolution they are all
    solvers, as they are ranked; of the other operations there is one, the solver that their functions take.  Nothing is
    run for these, and times are -1 where nothing was measured before.

    Parameters
    ----------
    handle : Handle
    problem : FindProblem
        With a descriptor of each of its tensors.  Later changes to it do not reach the solutions.
    options : FindOptions or None
    maxSolutions : int
        At least 1.

    Returns
    -------
    list of FindSolution
        miopenRunSolution runs them, on this handle or any other of the same device.

    Raises
    ------
    BadParmError
        Where a tensor has no descriptor, descriptors do not fit each other, or a buffer of the options does not fit.
    MIOpenNotImplementedError
        For types that no solver takes, and fused problems of a sequence that nothing fuses.
    UnknownError
        Where no solver applies within the workspace.
    """
    from miopyx.database import store

    cdef Handle h = as_handle(handle)
    cdef FindProblem p = _alive(problem, FindProblem, "problem")
    cdef FindOptions o = FindOptions() if options is None else _alive(options, FindOptions, "options")
    cdef int most = to_int(maxSolutions, "maxSolutions")
    cdef Plan plan
    if most < 1:
        raise BadParmError("no solutions asked for", "maxSolutions", most, ">= 1")
    h.require_alive()
    p = _frozen(p)
    p.require_described()
    stamp = store.of(h.device.info).stamp
    if p.kind == "convolution":
        found = _find_convolution(h, p, o, stamp)
    elif p.kind == "fused" and p.parts[0].kind == "convolution":
        found = _find_fused(h, p, o, most, stamp)
    else:
        plan = p.plan(h, None)
        found = [_solution(p, plan.solver, plan.invoker.config, -1.0, plan.workspace, stamp)]
        (<FindSolution> found[0]).get_ready(plan)
    if o.order != BY_TIME:
        found.sort(key=lambda s: s.workspace)
    return found[:most]


cdef int _mask(object given) except -1:
    cdef int mask = to_member(given, "miopenMhaMask_t", "miopenTensorMhaMask")
    if mask not in (0, 1):
        raise BadParmError("unknown mask", "miopenTensorMhaMask", given, "a miopenMhaMask_t")
    return mask


def miopenRunSolution(handle, solution, nInputs, tensors, workspace, workspaceSize):
    """Run a solution on the caller's tensors.

    Parameters
    ----------
    handle : Handle
        Of the device that the solution was found on.
    solution : FindSolution
    nInputs : int
        How many of `tensors` count.
    tensors : sequence of miopenTensorArgument_t, or (id, descriptor, buffer)
        Each tensor of the problem once, in any order; results too.  `descriptor` is None or equal to the problem's.  Of
        ids with miopenTensorArgumentIsScalar the buffer is a number; without them numbers have their defaults.
    workspace : memory of the handle's device, or None
    workspaceSize : int
        Bytes; at least what miopenGetSolutionWorkspaceSize says of a convolution.  Others manage theirs.

    Raises
    ------
    BadParmError
        Where a tensor is missing, given twice or none of the problem's, a buffer or the workspace does not fit, the
        device is another one, or the solution was destroyed; nothing was run then.
    MIOpenNotImplementedError
        For a descriptor that differs from the problem's.
    """
    cdef Handle h = as_handle(handle)
    cdef FindSolution s = _alive(solution, FindSolution, "solution")
    cdef Plan plan = s.plan_on(h)
    cdef PyObject* data[MX_SLOTS + 1]
    cdef double scalars[MX_SCALARS]
    cdef int count = to_int(nInputs, "nInputs"), i, j
    cdef int64_t id, size = workspace_bytes(workspaceSize, "workspaceSize")
    cdef unsigned seen = 0, numbers_seen = 0
    cdef tuple argument
    cdef list kept = []
    memcpy(scalars, plan.default, sizeof(scalars))
    for i in range(s.count):
        data[i] = <PyObject*> None
    # The call holds what it points to: other threads, and objects that it asks, may change the caller's list.
    try:
        given = tuple(tensors)
    except TypeError:
        raise BadParmError("no sequence of arguments", "tensors", type(tensors).__name__, "miopenTensorArgument_t's")
    if count < 0 or count > len(given):
        raise BadParmError("not a number of arguments", "nInputs", count, f"0 to {len(given)}")
    for i in range(count):
        try:
            argument = tuple(given[i])
        except TypeError:
            raise BadParmError("no argument", f"tensors[{i}]", type(given[i]).__name__,
                               "(id, descriptor or None, buffer)")
        kept.append(argument)
        if len(argument) != 3:
            raise BadParmError("no argument", f"tensors[{i}]", argument, "(id, descriptor or None, buffer)")
        id = _id_of(argument[ID_AT])
        if id & SCALAR:
            for j in range(s.number_count):
                if s.numbers[j] == id:
                    break
            else:
                raise BadParmError("no number of this problem", f"tensors[{i}]", _name_of(id),
                                   ", ".join([str(_name_of(s.numbers[j])) for j in range(s.number_count)]) or "none")
            if numbers_seen >> j & 1:
                raise BadParmError("given twice", f"tensors[{i}]", _name_of(id), "each argument once")
            numbers_seen |= 1u << j
            if id == MHA_MASK:
                scalars[s.place[j]] = _mask(argument[BUFFER_AT])
            elif id == EPSILON:
                scalars[s.place[j]] = to_epsilon(argument[BUFFER_AT], <str> _name_of(id))
            else:
                scalars[s.place[j]] = to_double(argument[BUFFER_AT], <str> _name_of(id))
            continue
        for j in range(s.count):
            if s.ids[j] == id:
                break
        else:
            raise BadParmError("no tensor of this problem", f"tensors[{i}]", _name_of(id),
                               ", ".join([str(_name_of(s.ids[j])) for j in range(s.count) if s.ids[j] >= 0]))
        if seen >> j & 1:
            raise BadParmError("given twice", f"tensors[{i}]", _name_of(id), "each argument once")
        if argument[DESCRIPTOR_AT] is not None:
            own = s.problem.tensors.get(BN_SCALE if id in _OF_SCALE else id)
            if as_tensor(argument[DESCRIPTOR_AT], f"tensors[{i}]") != own:
                raise MIOpenNotImplementedError("a solution is for the tensors that it was found for", f"tensors[{i}]",
                                                argument[DESCRIPTOR_AT], str(own))
        seen |= 1u << j
        data[j] = <PyObject*> argument[BUFFER_AT]
    for j in range(s.count):
        if not (seen | s.optional) >> j & 1:
            raise BadParmError("a tensor is missing", "tensors", _name_of(s.ids[j]), "each tensor of the problem")
    data[plan.count] = <PyObject*> workspace
    plan.run_within(data, scalars, size if s.problem.kind == "convolution" else OWN)
    if load_flag(plan.handle.profiling):
        s.time = load_double(plan.handle.kernel_time)


def miopenDestroySolution(solution):
    """End a FindSolution.  None is fine.

    Parameters
    ----------
    solution : FindSolution or None

    Raises
    ------
    BadParmError
        For anything else.
    """
    _destroy(solution, FindSolution, "solution")
    if solution is not None:
        (<FindSolution> solution).get_ready(None)


def miopenSaveSolution(solution):
    """Return a solution as bytes, which miopenLoadSolution reads.

    They hold the format's version, a digest of their content, the package's version with a digest of its kernels, the
    device and its driver, the problem, the solver and its configuration.  No program and no pickle.

    Parameters
    ----------
    solution : FindSolution

    Returns
    -------
    bytes

    Raises
    ------
    BadParmError
        For what is no live solution.
    """
    from miopyx.database import solutions

    cdef FindSolution s = _alive(solution, FindSolution, "solution")
    cdef FindProblem p = s.problem
    return solutions.write({
        "stamp": s.stamp, **_fields_of(p), "parts": [_fields_of(part) for part in p.parts or ()], "solver": s.solver,
        "config": s.config, "time": s.time, "workspace": s.workspace})


cdef dict _fields_of(FindProblem p):
    from miopyx.problem import saved

    return {"kind": p.kind, "direction": p.direction, "running": p.running,
            "operation": saved.data_of(p.operation) if isinstance(p.operation, Descriptor) else p.operation,
            "tensors": {str(id): saved.data_of(desc) for id, desc in p.tensors.items()}}


def miopenGetSolutionSize(solution):
    """Return how many bytes miopenSaveSolution returns.

    Parameters
    ----------
    solution : FindSolution

    Raises
    ------
    BadParmError
        For what is no live solution.
    """
    return len(miopenSaveSolution(solution))


def miopenLoadSolution(data, size):
    """Return the FindSolution that was saved.

    Nothing is built or run yet.  The first miopenRunSolution builds what the solver needs, and refuses a handle of
    another device or driver.

    Parameters
    ----------
    data : bytes or another buffer
    size : int
        How many of them count.

    Raises
    ------
    VersionMismatchError
        For another version of the format, or of the package's kernels.
    InvalidValueError
        For damaged bytes, or what is no solution.
    BadParmError
        For a size that is not the data's.
    """
    from miopyx.database import solutions

    cdef int64_t count = to_int64(size, "size")
    try:
        view = memoryview(data).cast("B")
    except (TypeError, ValueError):
        raise BadParmError("not contiguous bytes", "data", type(data).__name__, "what miopenSaveSolution returned")
    if count < 0 or count > len(view):
        raise BadParmError("not the size of the data", "size", count, f"0 to {len(view)}")
    return _loaded(solutions.read(view[:count]))


cdef dict _solvers_of(str kind):
    """The solvers that may run a kind of problem, by name."""
    if kind == "convolution":
        return registry.BY_NAME
    return {solver.name: solver for solvers in (*registry.OTHERS.values(), (registry.EMPTY,)) for solver in solvers}


cdef FindProblem _problem_of(dict fields):
    """A problem, or a part of one, of what was read."""
    from miopyx.errors import InvalidValueError
    from miopyx.problem import saved

    cdef FindProblem p = FindProblem.__new__(FindProblem)
    kind, direction, operation = fields["kind"], fields["direction"], fields["operation"]
    if (kind, direction) not in _TAKES or type(direction) is not int:
        raise InvalidValueError("no such problem", "data", (kind, direction), "a kind and a direction")
    classes = {"convolution": ConvolutionDescriptor, "activation": ActivationDescriptor,
               "attention": MhaDescriptor, "softmax": SoftmaxDescriptor}
    if kind in classes:
        operation = saved.descriptor_of(classes[kind], operation)
    elif operation not in ((0, 1) if kind == "batch norm" else (None,)):
        raise InvalidValueError("no such operation", "data", operation, "a mode of batch normalisation, or None")
    p.kind, p.direction, p.operation, p.running = kind, direction, operation, fields["running"] is True
    p.made = True
    p.tensors = {int(id): saved.descriptor_of(TensorDescriptor, desc) for id, desc in fields["tensors"].items()}
    if not p.tensors.keys() <= set(p.takes()[0]):
        raise InvalidValueError("tensors of another problem", "data", list(p.tensors), p.takes()[0])
    return p


cdef FindSolution _loaded(dict fields):
    """The solution of what was read; each field is checked, whoever wrote it."""
    from miopyx.errors import InvalidValueError

    cdef FindProblem p
    cdef FindSolution s
    try:
        kind = fields["kind"]
        if kind == "fused":
            p = FindProblem.__new__(FindProblem)
            p.kind, p.tensors, p.made = "fused", {}, True
            p.parts = [_problem_of(part) for part in fields["parts"]]
        else:
            p = _problem_of(fields)
        p.require_described()
        solver = _solvers_of(p.parts[0].kind if kind == "fused" else kind).get(fields["solver"])
        if solver is None:
            raise InvalidValueError("an unknown solver", "data", fields["solver"], "a solver of this version")
        config = tuple([to_int64(value, "config") for value in fields["config"]])
        workspace, time = to_int64(fields["workspace"], "workspace"), to_double(fields["time"], "time")
        if workspace < 0:
            raise InvalidValueError("a negative workspace", "data", workspace, ">= 0")
        s = _solution(p, solver, config, time, workspace, str(fields["stamp"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, MIOpenError) as e:
        if isinstance(e, InvalidValueError):
            raise
        raise InvalidValueError(f"a damaged solution: {type(e).__name__}: {e}") from None
    return s


def miopenGetSolutionWorkspaceSize(solution):
    """Return the bytes of workspace that miopenRunSolution must be given.

    Parameters
    ----------
    solution : FindSolution

    Raises
    ------
    BadParmError
        For what is no live solution.
    """
    cdef FindSolution s = _alive(solution, FindSolution, "solution")
    return s.workspace if s.problem.kind == "convolution" else 0


def miopenGetSolutionTime(solution):
    """Return the milliseconds that the solution took: by Find, or when it ran last on a handle that profiles.

    Parameters
    ----------
    solution : FindSolution

    Returns
    -------
    float
        -1 where it was not measured.

    Raises
    ------
    BadParmError
        For what is no live solution.
    """
    return (<FindSolution> _alive(solution, FindSolution, "solution")).time


def miopenGetSolutionSolverId(solution):
    """Return the id of a solution's solver.

    Parameters
    ----------
    solution : FindSolution

    Raises
    ------
    BadParmError
        For what is no live solution.
    """
    return (<FindSolution> _alive(solution, FindSolution, "solution")).solver_id


def miopenGetSolverIdConvAlgorithm(solverId):
    """Return the algorithm of a convolution solver, a miopenConvAlgorithm_t.

    Parameters
    ----------
    solverId : int

    Raises
    ------
    BadParmError
        For an id of no solver of convolutions.
    """
    cdef int64_t id = to_int64(solverId, "solverId")
    for solver in registry.CONV:
        if solver.id == id:
            return enums.miopenConvAlgorithm_t(solver.algorithm)
    raise BadParmError("no solver of convolutions has this id", "solverId", id, "what GetSolutionSolverId returned")


__all__ = ["FindOptions", "FindProblem", "FindSolution", *(
    _name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t"))]
