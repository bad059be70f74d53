"""Fused calls of miopen.h: convolution with bias and activation, and fusion plans.

Names and argument order are the header's; output pointers became return values and failures exceptions.  Both are views
of one problem, a convolution with an epilogue (problem/_fusion), which solvers, databases and plans know as they know a
convolution.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_X, SLOT_Y
from miopyx.engine._binding cimport OWN, call_t, workspace_bytes
from miopyx.engine._handle cimport Handle, as_handle, recall
from miopyx.engine._invoker cimport Invoker, execute
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._activation cimport ActivationDescriptor, as_activation
from miopyx.problem._descriptors cimport (
    ConvolutionDescriptor, Descriptor, TensorDescriptor, as_convolution, as_tensor, begin_setting, check_descriptor,
    end_setting, next_stamp, seen, stamp_of, the_convolution, the_tensor,
)
from miopyx.problem._fusion cimport FUSED_ALPHA, FUSED_BETA, FUSED_EPSILON, FUSED_GAMMA, fuse
from miopyx.problem._problem cimport (
    FUSED_BIAS, FUSED_MEAN, FUSED_SCALE, FUSED_SHIFT, FUSED_VARIANCE, FUSED_Z, ConvProblem,
)
from miopyx.values._args cimport raise_unknown, to_double, to_epsilon, to_flag, to_int, to_int64, to_member
from miopyx.values._guard cimport load_int64, mx_guard_lock, mx_guard_unlock
from miopyx.values._learnt cimport learnt
from miopyx.values._types cimport MX_FORWARD, MX_SCALARS, MX_SLOTS

from copy import copy

from miopyx import enums
from miopyx.choose import _ranking, preparing
from miopyx.choose._survey import Survey
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnsupportedOpError
from miopyx.problem._descriptors import destroy
from ._batchnorm import miopenBatchNormBackwardActivation as _norm_backward
from ._batchnorm import miopenBatchNormForwardInferenceActivation as _norm_inference
from ._batchnorm import miopenBatchNormForwardTrainingActivation as _norm_training
from ._batchnorm import miopenDeriveBNTensorDescriptor as _derive
from miopyx.solvers import registry

cdef enum:
    TRANSPOSE = 1
    SPATIAL = 1            # miopenBatchNormMode_t
    VERTICAL = 0           # miopenFusionDirection_t
    PASTHRU = 0
    ANY = -1               # algorithm

# By such a number the handle remembers calls: which algorithm, and how much workspace there is.
cdef int64_t ALGORITHM = <int64_t> 1 << 50, MOST = ALGORITHM - 2  # OWN is -1

cdef tuple _NAMES = ("x", "w", "z", "bias", "y", "workspace", "workspaceSizeInBytes")


cdef inline int64_t _call(int algorithm, int64_t limit) noexcept:
    return -ALGORITHM * (algorithm + 3) - min(limit, MOST)


cdef object _best(Handle h, ConvProblem problem, int algorithm, int64_t limit):
    """The best solver of an algorithm within a limit."""
    return preparing.best_of(h, problem, None if algorithm == ANY else algorithm, None if limit == OWN else limit)[0]


cdef class _Choice:
    """What was chosen for a call, and how much was known then."""

    cdef Invoker invoker
    cdef int64_t known


cdef Invoker _invoker_of(Handle h, _Choice choice, int64_t known):
    """What was chosen when so much was known, else None."""
    cdef Invoker invoker = None
    mx_guard_lock(&h.guard)
    if choice.known == known:
        invoker = choice.invoker
    mx_guard_unlock(&h.guard)
    return invoker


# Convolution, bias, activation


cdef ConvProblem _problem(Handle h, TensorDescriptor x, TensorDescriptor w, ConvolutionDescriptor conv,
                          TensorDescriptor z, TensorDescriptor bias, TensorDescriptor norm, int activation,
                          TensorDescriptor y):
    cdef ConvProblem problem = ConvProblem(MX_FORWARD, x, w, y, conv, h.math())
    fuse(problem, activation, z, bias, norm)
    return problem


cdef int _algorithm(object algo) except -2:
    cdef int number = to_member(algo, "miopenConvFwdAlgorithm_t", "algo")
    if number not in [int(member) for member in enums.miopenConvFwdAlgorithm_t]:
        raise_unknown(algo, "miopenConvFwdAlgorithm_t", "algo")
    return number


def miopenConvolutionBiasActivationForward(handle, alpha1, xDesc, x, wDesc, w, convDesc, algo, workspace,
                                           workspaceSizeInBytes, alpha2, zDesc, z, biasDesc, bias, activationDesc,
                                           yDesc, y):
    """y = act(alpha1 conv(x, w) + alpha2 z + bias), by the launches of the convolution where its solver can.

    Sums, bias, z and activation are float32 (float64 for float64) and rounded once, when y is stored.  Solvers whose
    kernels cannot do that store conv(x, w) in y's type, and one more launch follows; `Plan.explain` names both.  There
    16 bits are rounded twice, and half is Inf where conv(x, w) is above 65504, whatever alpha1 is.

    Parameters
    ----------
    handle : Handle
    alpha1, alpha2 : float or None
        None: 1 and 0.  Where alpha2 is 0 z is not read.
    xDesc, wDesc, yDesc : TensorDescriptor
        As of miopenConvolutionForward: float32, float16, bfloat16 or float64, all alike.
    x, w, y : memory of the handle's device
    convDesc : ConvolutionDescriptor
        A transposed one, too.
    algo : miopenConvFwdAlgorithm_t
        The best of its solvers is taken that needs no more workspace, by what Find has measured so far.
    workspace : memory of the handle's device, or None
    workspaceSizeInBytes : int
        Bytes of it.  `Handle.convolution_bias_activation_forward` makes a plan of the same, whose `workspace` and
        `solver.algorithm` are the best ones here.  For any algorithm what miopenConvolutionForwardGetWorkSpaceSize says
        is enough, with z together with the bytes of y and 256 more.
    zDesc, z : TensorDescriptor and memory, or None
        With the lengths, strides and type of y; z may be y.  None: nothing is added.
    biasDesc, bias : TensorDescriptor and memory, or None
        1, k, 1, 1: a number of each channel of y, of its type, or float32 beside 16 bits.
    activationDesc : ActivationDescriptor
        Any mode.

    Raises
    ------
    BadParmError
        Where descriptors or buffers do not fit; nothing was run then.
    MIOpenNotImplementedError
        For other types, where z lies otherwise than y, or where no solver of the algorithm takes the problem.
    UnknownError
        Where all of them need more workspace.
    """
    cdef Handle h = as_handle(handle)
    cdef TensorDescriptor xd = as_tensor(xDesc, "xDesc"), wd = as_tensor(wDesc, "wDesc"), yd = as_tensor(yDesc, "yDesc")
    cdef TensorDescriptor zd = None if z is None else as_tensor(zDesc, "zDesc")
    cdef TensorDescriptor bd = None if bias is None else as_tensor(biasDesc, "biasDesc")
    cdef ConvolutionDescriptor cd = as_convolution(convDesc, "convDesc")
    cdef ActivationDescriptor ad = as_activation(activationDesc, "activationDesc")
    cdef int algorithm = _algorithm(algo)
    cdef int order[5]
    cdef uint64_t stamp[7]
    cdef PyObject* data[6]
    cdef double scalars[MX_SCALARS]
    cdef call_t call
    cdef int64_t size = workspace_bytes(workspaceSizeInBytes, "workspaceSizeInBytes")
    cdef int64_t number = _call(algorithm, size), known = load_int64(learnt)
    cdef ConvProblem problem
    cdef _Choice choice
    cdef Invoker invoker = None
    memset(scalars, 0, sizeof(scalars))
    scalars[0] = 1.0 if alpha1 is None else to_double(alpha1, "alpha1")
    scalars[1] = 0.0 if alpha2 is None else to_double(alpha2, "alpha2")
    scalars[FUSED_ALPHA], scalars[FUSED_BETA], scalars[FUSED_GAMMA] = ad.alpha, ad.beta, ad.gamma
    stamp[0], stamp[1], stamp[2], stamp[3], stamp[4] = xd.stamp, wd.stamp, cd.stamp, ad.stamp, yd.stamp
    stamp[5], stamp[6] = 0 if zd is None else zd.stamp, 0 if bd is None else bd.stamp
    choice = recall(h, stamp, 7, number)
    if choice is not None:
        invoker = _invoker_of(h, choice, known)
    if invoker is None:
        problem = _problem(h, xd, wd, cd, zd, bd, None, ad.number, yd)
        choice = h.remember(stamp, 7, number, number, problem.data, problem.size)
        if choice is None:
            choice = _Choice()
            invoker = _best(h, problem, algorithm, size)
            choice.invoker, choice.known = invoker, known
            h.keep(problem, number, choice)
        else:
            invoker = _invoker_of(h, choice, known)
            if invoker is None:  # a Find may have measured since
                invoker = _best(h, problem, algorithm, size)
                mx_guard_lock(&h.guard)
                _old = choice.invoker  # goes when the guard does
                choice.invoker, choice.known = invoker, known
                mx_guard_unlock(&h.guard)
    order[0], order[4] = (SLOT_Y, SLOT_X) if cd.mode == TRANSPOSE else (SLOT_X, SLOT_Y)
    order[1], order[2], order[3] = SLOT_W, -1 if zd is None else FUSED_Z, -1 if bd is None else FUSED_BIAS
    data[0], data[1], data[2], data[3] = <PyObject*> x, <PyObject*> w, <PyObject*> z, <PyObject*> bias
    data[4], data[5] = <PyObject*> y, <PyObject*> workspace
    call.order, call.count, call.data, call.workspace_size = order, 5, data, size
    execute(h, invoker, &call, _NAMES, scalars, None)


cdef bytes _numbers(ActivationDescriptor activ):
    cdef double[3] numbers = [activ.alpha, activ.beta, activ.gamma]
    return (<const unsigned char*> numbers)[:sizeof(numbers)]


cdef list _placed(tuple descriptors, list places):
    return [None if place is None else descriptors[place] for place in places]


def plan_bias_activation(handle, x_desc, w_desc, conv_desc, z_desc, bias_desc, activation_desc, y_desc,
                         solution_id=None, workspace_limit=None, norm_desc=None, epsilon=1e-5):
    """Body of Handle.convolution_bias_activation_forward."""
    cdef Handle h = as_handle(handle)
    cdef dict kept = {}  # a descriptor that stands in several places is watched once
    cdef dict given = {  # in the order in which they are checked
        "x_desc": the_tensor(x_desc, "x_desc"), "w_desc": the_tensor(w_desc, "w_desc"),
        "y_desc": the_tensor(y_desc, "y_desc"), "z_desc": None if z_desc is None else the_tensor(z_desc, "z_desc"),
        "bias_desc": None if bias_desc is None else the_tensor(bias_desc, "bias_desc"),
        "norm_desc": None if norm_desc is None else the_tensor(norm_desc, "norm_desc"),
        "conv_desc": the_convolution(conv_desc, "conv_desc"),
        "activation_desc": check_descriptor(activation_desc, ActivationDescriptor, "activation_desc")}
    cdef list order = ["x_desc", "w_desc", "conv_desc", "z_desc", "bias_desc", "norm_desc", "activation_desc", "y_desc"]
    for name in order:
        if given[name] is not None:
            kept.setdefault(id(given[name]), (given[name], name))
    cdef tuple watched = tuple([desc for desc, _ in kept.values()])
    cdef tuple now = tuple([seen(desc) for desc in watched])
    cdef dict place = {number: at for at, number in enumerate(kept)}
    cdef list places = [None if given[name] is None else place[id(given[name])] for name in order]
    x, w, conv, z, bias, norm, activ, y = _placed(now, places)
    cdef ConvProblem problem = _problem(h, x, w, conv, z, bias, norm, (<ActivationDescriptor> activ).number, y)
    cdef Invoker invoker
    cdef Plan plan
    cdef list names = ["x", "w"], slots = [SLOT_X, SLOT_W]
    cdef int i, math = h.math()
    epsilon = to_epsilon(epsilon, "epsilon")
    limit = None if workspace_limit is None else to_int64(workspace_limit, "workspace_limit")
    if limit is not None and limit < 0:
        raise BadParmError("negative size", "workspace_limit", limit, ">= 0")
    if solution_id is None:
        invoker, chosen = preparing.best_of(h, problem, None, limit)
    else:
        chosen = _ranking.Candidate(_ranking.offer_of(Survey(h, problem), to_int64(solution_id, "solution_id")), -1.0,
                                    "forced")
        if limit is not None and chosen.workspace > limit:
            raise BadParmError("solution needs more workspace than the limit", "workspace_limit", limit,
                               f">= {chosen.workspace}")
        invoker = preparing.invoker(h, chosen.offer)

    def identity(now):
        cdef ConvProblem new
        x, w, conv, z, bias, norm, activ, y = _placed(now, places)
        new = ConvProblem(MX_FORWARD, x, w, y, conv, math)
        fuse(new, (<ActivationDescriptor> activ).number, z, bias, norm)
        return new.transposed, new.key, _numbers(activ)

    def explaining():
        from miopyx.choose.explain import explain

        return explain(h, problem, invoker, chosen, limit)

    if z is not None:
        names, slots = [*names, "z"], [*slots, FUSED_Z]
    if bias is not None:
        names, slots = [*names, "bias"], [*slots, FUSED_BIAS]
    if norm is not None:
        names += ["scale", "shift", "mean", "variance"]
        slots += [FUSED_SCALE, FUSED_SHIFT, FUSED_MEAN, FUSED_VARIANCE]
    slots.append(SLOT_Y)
    if problem.transposed:
        slots = [SLOT_Y, *slots[1:len(slots) - 1], SLOT_X]
    plan = make_plan(h, invoker, (*names, "y", "workSpace"), watched, now,
                     tuple([name for _, name in kept.values()]), identity, explaining,
                     (("alpha1", 1.0), ("alpha2", 0.0 if z is None else 1.0)))
    plan.default[FUSED_EPSILON] = epsilon
    numbers = <ActivationDescriptor> activ
    plan.default[FUSED_ALPHA], plan.default[FUSED_BETA] = numbers.alpha, numbers.beta
    plan.default[FUSED_GAMMA] = numbers.gamma
    plan.count = len(slots)
    for i in range(plan.count):
        plan.order[i] = slots[i]
    return plan


def fused_candidates(handle, x_desc, w_desc, conv_desc, z_desc, bias_desc, activation_desc, y_desc, norm_desc):
    """Return id, time (-1 where it was not measured) and workspace of each solver of a fused convolution, as ranked."""
    cdef Handle h = as_handle(handle)
    cdef ConvProblem problem = _problem(h, x_desc, w_desc, conv_desc, z_desc, bias_desc, norm_desc,
                                        (<ActivationDescriptor> activation_desc).number, y_desc)
    survey = Survey(h, problem)
    able = _ranking.candidates(survey)
    if not able:
        raise MIOpenNotImplementedError(f"No solver found. {problem!r}")
    return [(c.solver.id, c.time if c.measured else -1.0, c.workspace) for c in able]


# Fusion plans


cdef enum:                 # kinds of operators
    CONV
    BIAS
    NORM
    ACTIVATION
    NORM_TRAINING
    NORM_BACKWARD
    ACTIVATION_BACKWARD

cdef tuple _KINDS = ("convolution forward", "bias forward", "batch norm inference", "activation forward",
                     "batch norm training", "batch norm backward", "activation backward")


# Plans without a convolution, and what they begin with.
cdef frozenset _NORMS = frozenset([
    (NORM,), (NORM, ACTIVATION), (NORM_TRAINING,), (NORM_TRAINING, ACTIVATION), (NORM_BACKWARD,),
    (NORM_BACKWARD, ACTIVATION_BACKWARD), (ACTIVATION_BACKWARD, NORM_BACKWARD)])
cdef frozenset _BEGINNINGS = frozenset([kinds[:i] for kinds in _NORMS for i in range(1, 3)])


cdef class FusionOperator:
    """FusionOperator()\n--\n\n\
    An operator of a fusion plan (miopenFusionOpDescriptor_t)."""

    cdef int kind
    cdef int index
    cdef object descriptor     # copies: (convolution, weights), a bias, a batch norm's parameters
    cdef int mode              # of an activation or a batch norm
    cdef bint running          # batch norm training keeps running statistics
    cdef bint destroyed        # with its plan

    def __init__(self):
        raise TypeError("operators are made by miopenCreateOp...")

    cdef tuple settings(self):
        """The call that makes such an operator: a function, and what follows the plan."""
        if self.kind == CONV:
            return miopenCreateOpConvForward, *self.descriptor
        if self.kind == BIAS:
            return miopenCreateOpBiasForward, self.descriptor
        if self.kind == NORM:
            return miopenCreateOpBatchNormInference, self.mode, self.descriptor
        if self.kind == NORM_TRAINING:
            return miopenCreateOpBatchNormForward, self.mode, self.running
        if self.kind == NORM_BACKWARD:
            return miopenCreateOpBatchNormBackward, self.mode
        return (miopenCreateOpActivationForward if self.kind == ACTIVATION else miopenCreateOpActivationBackward,
                self.mode)

    def __reduce__(self):
        raise TypeError("an operator belongs to its plan: copy that")

    def __repr__(self):
        return f"<FusionOperator {self.index}: {_KINDS[self.kind]}>"


cdef class FusionPlanDescriptor(Descriptor):
    """FusionPlanDescriptor()\n--\n\n\
    What is fused: an input and the operators that follow it (miopenFusionPlanDescriptor_t)."""

    cdef TensorDescriptor input    # a copy
    cdef list operators
    cdef int algorithm             # ANY, or the one that was set
    cdef TensorDescriptor norm     # of batch norm's parameters, where its operator has none
    cdef object compiled           # the algorithms that the handle of the last compilation has, best first

    def __init__(self):
        raise TypeError("plans are made by miopenCreateFusionPlan")

    def __cinit__(self, *args):
        self.stamp = next_stamp()
        self.operators, self.algorithm = [], ANY

    cdef str described(self):
        kinds = [_KINDS[(<FusionOperator> op).kind] for op in self.operators]
        return f"FusionPlanDescriptor({', '.join(kinds)})"

    cdef tuple settings(self):
        return self.input, tuple([(<FusionOperator> op).settings() for op in self.operators]), self.algorithm

    def __reduce__(self):
        if self.destroyed or self.input is None:
            raise TypeError(f"{self!r} cannot be copied")
        return _plan_again, self.settings()

    cdef FusionOperator add(self, int kind, object descriptor=None, int mode=0):
        cdef FusionOperator op = FusionOperator.__new__(FusionOperator)
        op.kind, op.descriptor, op.mode, op.index = kind, descriptor, mode, len(self.operators)
        self.operators.append(op)
        begin_setting(self)
        _old, self.compiled = self.compiled, None  # goes when the guard does
        end_setting(self)
        return op

    cdef int hold(self) noexcept:
        Py_INCREF(self.input)
        Py_INCREF(self.operators)
        Py_INCREF(self.norm)
        Py_INCREF(self.compiled)
        return 0

    cdef FusionOperator find(self, int kind):
        cdef FusionOperator op
        for op in self.operators:
            if op.kind == kind:
                return op
        return None

    cdef int require_supported(self) except -1:
        """Say which link breaks, where one does."""
        cdef FusionOperator op
        cdef tuple kinds = tuple([(<FusionOperator> op).kind for op in self.operators])
        cdef int i, last = -1
        if not kinds:
            raise BadParmError("a plan without operators", "fusePlanDesc", self, "miopenCreateOp... before")
        if kinds in _NORMS:
            return 0
        if kinds[0] != CONV:
            for i in range(len(kinds)):
                if kinds[:i + 1] not in _BEGINNINGS:
                    raise UnsupportedOpError(
                        f"{_KINDS[kinds[i]]} cannot follow {_KINDS[kinds[i - 1]]}" if i else
                        f"no plan begins with {_KINDS[kinds[0]]}", "fusePlanDesc", self,
                        "a convolution with what follows it, or batch norm and an activation")
            raise UnsupportedOpError(f"nothing follows {_KINDS[kinds[len(kinds) - 1]]}", "fusePlanDesc", self,
                                     f"{_KINDS[<int> NORM_BACKWARD]} behind it")
        for op in self.operators:
            if op.kind <= last or op.kind > ACTIVATION:
                raise UnsupportedOpError(f"{_KINDS[op.kind]} cannot follow {_KINDS[last]}", "fusePlanDesc", self,
                                         "convolution, bias, batch norm inference, activation, each once")
            if op.kind == NORM and op.mode != SPATIAL:
                raise UnsupportedOpError("batch norm by activation cannot follow a convolution", "fusePlanDesc", self,
                                         "miopenBNSpatial")
            last = op.kind
        return 0

    cdef bint is_norm(self):
        """Whether it is a batch norm with what follows."""
        return (<FusionOperator> self.operators[0]).kind != CONV

    cdef ConvProblem problem(self, Handle h, TensorDescriptor x, TensorDescriptor y):
        cdef FusionOperator bias = self.find(BIAS), norm = self.find(NORM), activ = self.find(ACTIVATION)
        cdef ConvProblem problem
        conv, w = self.find(CONV).descriptor
        if y is None:
            y = _output_of(conv, x, w)
        problem = ConvProblem(MX_FORWARD, x, w, y, conv, h.math())
        fuse(problem, PASTHRU if activ is None else activ.mode, None, None if bias is None else bias.descriptor,
             None if norm is None else norm.descriptor)
        return problem


def _plan_again(TensorDescriptor x not None, tuple operators not None, int algorithm):
    """Return a plan from what `__reduce__` kept; what is no setting raises as the functions do."""
    plan = miopenCreateFusionPlan(VERTICAL, x)
    for function, *arguments in operators:
        function(plan, *arguments)
    if algorithm != ANY:
        miopenFusionPlanConvolutionSetAlgo(plan, algorithm)
    return plan


cdef TensorDescriptor _output_of(ConvolutionDescriptor conv, TensorDescriptor x, TensorDescriptor w):
    """The packed output, channels last where x is so; of one pixel that is in the strides of the axes of length 1."""
    lens = conv.output_lens(x, w)
    last = x.len[1] > 1 and x.stride[1] == 1 and x.stride[x.ndim - 1] >= x.len[1]
    strides, size = [0] * len(lens), 1
    for axis in [*([1] if last else []), *range(len(lens) - 1, 1, -1), *([] if last else [1]), 0]:
        strides[axis], size = size, size * lens[axis]
    return TensorDescriptor(x.dtype, lens, strides)


cdef FusionPlanDescriptor _plan_of(object desc, str name="fusePlanDesc"):
    cdef FusionPlanDescriptor plan = check_descriptor(desc, FusionPlanDescriptor, name)
    if plan.input is None:  # by __new__
        raise BadParmError("not made by miopenCreateFusionPlan", name, desc, "a plan with an input")
    return plan


def miopenCreateFusionPlan(fuseDirection, inputDesc):
    """Return a new FusionPlanDescriptor without operators.

    Parameters
    ----------
    fuseDirection : miopenFusionDirection_t
        miopenVerticalFusion.
    inputDesc : TensorDescriptor
        What the first operator reads; the plan keeps a copy.

    Raises
    ------
    BadParmError
        For an unknown direction, or where the descriptor was never set.
    MIOpenNotImplementedError
        For miopenHorizontalFusion, which MIOpen does not have either.
    """
    cdef int direction = to_member(fuseDirection, "miopenFusionDirection_t", "fuseDirection")
    cdef FusionPlanDescriptor plan
    if direction == 1:
        raise MIOpenNotImplementedError("horizontal fusion", "fuseDirection", fuseDirection, "miopenVerticalFusion")
    if direction != VERTICAL:
        raise_unknown(fuseDirection, "miopenFusionDirection_t", "fuseDirection")
    as_tensor(inputDesc, "inputDesc").require_set("inputDesc")
    plan = FusionPlanDescriptor.__new__(FusionPlanDescriptor)
    plan.input = copy(inputDesc)
    return plan


def miopenDestroyFusionPlan(fusePlanDesc):
    """End the plan's life, and its operators'; using one of them afterwards is a BadParmError.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    cdef FusionOperator op
    destroy(fusePlanDesc, FusionPlanDescriptor, "fusePlanDesc")
    if fusePlanDesc is not None:
        for op in (<FusionPlanDescriptor> fusePlanDesc).operators:
            op.destroyed = True


def miopenCreateOpConvForward(fusePlanDesc, convDesc, wDesc):
    """Add a convolution to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    convDesc : ConvolutionDescriptor
    wDesc : TensorDescriptor
        The plan keeps copies.

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        Where they do not fit the plan's input; the plan stays as it was.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef ConvolutionDescriptor conv = as_convolution(convDesc, "convDesc")
    cdef TensorDescriptor w = as_tensor(wDesc, "wDesc")
    cdef int64_t dims[8]
    conv.output_dims(plan.input, w, dims)
    return plan.add(CONV, (copy(conv), copy(w)))


def miopenCreateOpBiasForward(fusePlanDesc, bDesc):
    """Add a bias to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    bDesc : TensorDescriptor
        1, k, 1, 1; the plan keeps a copy.

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        Where the descriptor was never set.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    as_tensor(bDesc, "bDesc").require_set("bDesc")
    return plan.add(BIAS, copy(bDesc))


cdef int _activation_mode(object mode) except -1:
    return (<ActivationDescriptor> ActivationDescriptor(mode)).number


def miopenCreateOpActivationForward(fusePlanDesc, mode):
    """Add an activation to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    mode : miopenActivationMode_t

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    return _plan_of(fusePlanDesc).add(ACTIVATION, None, _activation_mode(mode))


def miopenCreateOpActivationBackward(fusePlanDesc, mode):
    """Add an activation's gradient to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    mode : miopenActivationMode_t

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    return _plan_of(fusePlanDesc).add(ACTIVATION_BACKWARD, None, _activation_mode(mode))


cdef int _norm_mode(object mode) except -1:
    cdef int number = to_member(mode, "miopenBatchNormMode_t", "bn_mode")
    if number != 0 and number != SPATIAL:
        raise_unknown(mode, "miopenBatchNormMode_t", "bn_mode")
    return number


def miopenCreateOpBatchNormInference(fusePlanDesc, bn_mode, bnScaleBiasMeanVarDesc):
    """Add batch norm with given statistics to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    bn_mode : miopenBatchNormMode_t
        miopenBNSpatial behind a convolution.
    bnScaleBiasMeanVarDesc : TensorDescriptor
        Of scale, bias, mean and variance; the plan keeps a copy.

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        For an unknown mode, or where the descriptor was never set.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    as_tensor(bnScaleBiasMeanVarDesc, "bnScaleBiasMeanVarDesc").require_set("bnScaleBiasMeanVarDesc")
    return plan.add(NORM, copy(bnScaleBiasMeanVarDesc), _norm_mode(bn_mode))


def miopenCreateOpBatchNormForward(fusePlanDesc, bn_mode, runningMeanVariance):
    """Add batch norm as in training to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    bn_mode : miopenBatchNormMode_t
    runningMeanVariance : bool
        Whether running statistics are kept.

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    cdef bint running = to_flag(runningMeanVariance, "runningMeanVariance")
    cdef FusionOperator op = _plan_of(fusePlanDesc).add(NORM_TRAINING, None, _norm_mode(bn_mode))
    op.running = running
    return op


def miopenCreateOpBatchNormBackward(fusePlanDesc, bn_mode):
    """Add batch norm's gradients to a plan and return its operator.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    bn_mode : miopenBatchNormMode_t

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        For an unknown mode.
    """
    return _plan_of(fusePlanDesc).add(NORM_BACKWARD, None, _norm_mode(bn_mode))


def miopenFusionPlanGetOp(fusePlanDesc, op_idx):
    """Return an operator of a plan.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    op_idx : int
        0 is the first that was added.

    Returns
    -------
    FusionOperator

    Raises
    ------
    BadParmError
        Where the plan has no such operator.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef int index = to_int(op_idx, "op_idx")
    if not plan.operators:
        raise BadParmError("a plan without operators", "op_idx", index, "miopenCreateOp... before")
    if index < 0 or index >= len(plan.operators):
        raise BadParmError("no such operator", "op_idx", index, f"0 to {len(plan.operators) - 1}")
    return plan.operators[index]


cdef list _algorithms(Handle h, FusionPlanDescriptor plan):
    """The algorithms of the solvers that can run a plan, best first."""
    cdef list found = []
    for candidate in _ranking.candidates(Survey(h, plan.problem(h, plan.input, None))):
        if candidate.solver.algorithm not in found:
            found.append(candidate.solver.algorithm)
    return found


def miopenCompileFusionPlan(handle, fusePlanDesc):
    """Choose a solver for a plan and build its programs, so that executing it does neither.

    Compiling it again chooses again, by what Find has measured since.

    Parameters
    ----------
    handle : Handle
    fusePlanDesc : FusionPlanDescriptor
        A convolution, then bias, batch norm inference and activation, each or none; or batch norm, inference or
        training, then an activation or none; or batch norm's gradients, with an activation's or without.

    Raises
    ------
    UnsupportedOpError
        Where nothing fuses these operators; the message names the link that breaks.
    BadParmError
        Where the descriptors do not fit each other.
    MIOpenNotImplementedError
        Where no solver takes the convolution, or none of the algorithm that was set.
    """
    cdef Handle h = as_handle(handle)
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef ConvProblem problem
    cdef int64_t call = _call(plan.algorithm, OWN)
    plan.require_supported()
    if plan.is_norm():
        _compile_norm(h, plan)
        return
    problem = plan.problem(h, plan.input, None)
    h.keep(problem, call, _best(h, problem, plan.algorithm, OWN))  # again, too: Find may have measured since
    new = tuple(_algorithms(h, plan))
    mx_guard_lock(&plan.guard)
    _old, plan.compiled = plan.compiled, new  # goes when the guard does
    mx_guard_unlock(&plan.guard)


cdef int _compile_norm(Handle h, FusionPlanDescriptor plan) except -1:
    cdef FusionOperator op, activ = plan.find(ACTIVATION), back = plan.find(ACTIVATION_BACKWARD)
    cdef TensorDescriptor x = plan.input, norm = TensorDescriptor()
    cdef object follows = None
    for op in (activ, back):
        if op is not None:
            follows = ActivationDescriptor(op.mode)
    for op in plan.operators:
        if op.kind in (NORM, NORM_TRAINING, NORM_BACKWARD):
            _derive(norm, x, op.mode)
            if op.kind == NORM:
                h.batch_norm_inference(op.mode, x, x, op.descriptor, activ_desc=follows)
            elif op.kind == NORM_TRAINING:
                h.batch_norm_training(op.mode, x, x, norm, running=op.running, activ_desc=follows)
            else:
                h.batch_norm_backward(op.mode, x, x, x, norm, activ_desc=follows)
    return 0


def miopenFusionPlanGetWorkSpaceSize(handle, fusePlanDesc, algo):
    """Return the bytes of workspace that a plan needs with an algorithm.

    miopenExecuteFusionPlan takes none: it uses the handle's own.

    Parameters
    ----------
    handle : Handle
    fusePlanDesc : FusionPlanDescriptor
    algo : miopenConvFwdAlgorithm_t

    Returns
    -------
    int
        Bytes; 0 where no solver of the algorithm takes it, and without a convolution.

    Raises
    ------
    UnsupportedOpError
        Where nothing fuses these operators.
    BadParmError
        For an unknown algorithm, or descriptors that do not fit.
    """
    cdef Handle h = as_handle(handle)
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef int algorithm = _algorithm(algo)
    plan.require_supported()
    if plan.is_norm():
        return 0
    for candidate in _ranking.candidates(Survey(h, plan.problem(h, plan.input, None))):
        if candidate.solver.algorithm == algorithm:
            return candidate.workspace
    return 0


cdef int _require_convolution(FusionPlanDescriptor plan) except -1:
    if plan.find(CONV) is None:
        raise UnsupportedOpError("a plan without a convolution", "fusePlanDesc", plan, "miopenCreateOpConvForward")
    return 0


def miopenFusionPlanConvolutionGetAlgo(fusePlanDesc, requestAlgoCount):
    """Return the algorithms that a plan's convolution can take.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    requestAlgoCount : int
        At most so many.

    Returns
    -------
    list of miopenConvFwdAlgorithm_t
        Best first on the handle that the plan was compiled for; before, all that any solver has.

    Raises
    ------
    UnsupportedOpError
        Where the plan has no convolution.
    BadParmError
        For a count below 1.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef int count = to_int(requestAlgoCount, "requestAlgoCount")
    if count < 1:
        raise BadParmError("no algorithms requested", "requestAlgoCount", count, ">= 1")
    _require_convolution(plan)
    numbers = (<FusionPlanDescriptor> seen(plan)).compiled
    if numbers is None:
        numbers = sorted({solver.algorithm for solver in registry.CONV if solver.direction == MX_FORWARD})
    return [enums.miopenConvFwdAlgorithm_t(number) for number in numbers[:count]]


def miopenFusionPlanConvolutionSetAlgo(fusePlanDesc, algo):
    """Let a plan's convolution take an algorithm alone; the plan is compiled anew when it is run next.

    Parameters
    ----------
    fusePlanDesc : FusionPlanDescriptor
    algo : miopenConvFwdAlgorithm_t

    Raises
    ------
    UnsupportedOpError
        Where the plan has no convolution.
    BadParmError
        For an unknown algorithm.
    """
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef int algorithm = _algorithm(algo)
    _require_convolution(plan)
    begin_setting(plan)
    plan.algorithm = algorithm
    end_setting(plan)


cdef class OperatorArgs(Descriptor):
    """OperatorArgs()\n--\n\n\
    The buffers and numbers of a plan's operators (miopenOperatorArgs_t)."""

    # operator -> its buffers by slot, and numbers by place; of batch norm's passes and activations what functions take
    cdef dict given

    def __cinit__(self, *args):
        self.given = {}

    cdef int hold(self) noexcept:
        Py_INCREF(self.given)
        return 0

    cdef str described(self):
        return f"OperatorArgs({', '.join([repr(op) for op in self.given])})"

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return object.__hash__(self)

    def __reduce__(self):
        raise TypeError("operators' arguments are of one plan and memory of a device: set them anew")


cdef OperatorArgs _args_of(object args, str name="args"):
    return <OperatorArgs> check_descriptor(args, OperatorArgs, name)


cdef FusionOperator _operator(object op, int kind, str name):
    if type(op) is not FusionOperator or (<FusionOperator> op).kind != kind:
        raise BadParmError("another kind of object", name, op, f"an operator, {_KINDS[kind]}")
    if (<FusionOperator> op).destroyed:
        raise BadParmError("the operator's plan was destroyed", name, op, "an operator of a live plan")
    return <FusionOperator> op


cdef int _require_plain(object alpha, object beta) except -1:
    if alpha is not None and to_double(alpha, "alpha") != 1:
        raise BadParmError("scaled results", "alpha", alpha, "1 or None")
    if beta is not None and to_double(beta, "beta") != 0:
        raise BadParmError("scaled results", "beta", beta, "0 or None")
    return 0


def miopenCreateOperatorArgs():
    """Return a new OperatorArgs, without buffers."""
    return OperatorArgs()


def miopenDestroyOperatorArgs(args):
    """End the life of an OperatorArgs; using it afterwards is a BadParmError.

    Parameters
    ----------
    args : OperatorArgs or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(args, OperatorArgs, "args")


def miopenSetOpArgsConvForward(args, convOp, alpha, beta, w):
    """Set what a plan's convolution takes.

    Parameters
    ----------
    args : OperatorArgs
    convOp : FusionOperator
    alpha : float or None
        The convolution is multiplied by it; None: 1.
    beta : float or None
        0.
    w : memory of the device

    Raises
    ------
    BadParmError
        For another operator, or another beta.
    """
    cdef FusionOperator op = _operator(convOp, CONV, "convOp")
    _require_plain(None, beta)
    _args_of(args).given[op] = {SLOT_W: w}, {0: 1.0 if alpha is None else to_double(alpha, "alpha")}


def miopenSetOpArgsBiasForward(args, biasOp, alpha, beta, bias):
    """Set what a plan's bias takes.

    Parameters
    ----------
    args : OperatorArgs
    biasOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    bias : memory of the device

    Raises
    ------
    BadParmError
        For another operator, or other numbers.
    """
    cdef FusionOperator op = _operator(biasOp, BIAS, "biasOp")
    _require_plain(alpha, beta)
    _args_of(args).given[op] = {FUSED_BIAS: bias}, {}


def miopenSetOpArgsActivForward(args, activFwdOp, alpha, beta, activAlpha, activBeta, activGamma):
    """Set the numbers of a plan's activation.

    Parameters
    ----------
    args : OperatorArgs
    activFwdOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    activAlpha, activBeta, activGamma : float
        As of miopenSetActivationDescriptor.

    Raises
    ------
    BadParmError
        For another operator, or what is no real number.
    """
    cdef FusionOperator op = _operator(activFwdOp, ACTIVATION, "activFwdOp")
    cdef ActivationDescriptor activ = ActivationDescriptor(op.mode, activAlpha, activBeta, activGamma)
    _require_plain(alpha, beta)
    _args_of(args).given[op] = {}, {FUSED_ALPHA: activ.alpha, FUSED_BETA: activ.beta, FUSED_GAMMA: activ.gamma}, activ


def miopenSetOpArgsActivBackward(args, activBwdOp, alpha, beta, y, reserved, activAlpha, activBeta, activGamma):
    """Set the numbers of the gradient of a plan's activation.

    Parameters
    ----------
    args : OperatorArgs
    activBwdOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    y, reserved : object
        Not looked at: what the activation gave is computed from batch norm's x anew.
    activAlpha, activBeta, activGamma : float
        As of miopenSetActivationDescriptor.

    Raises
    ------
    BadParmError
        For another operator, or what is no real number.
    """
    cdef FusionOperator op = _operator(activBwdOp, ACTIVATION_BACKWARD, "activBwdOp")
    cdef ActivationDescriptor activ = ActivationDescriptor(op.mode, activAlpha, activBeta, activGamma)
    _require_plain(alpha, beta)
    _args_of(args).given[op] = {}, {}, activ


def miopenSetOpArgsBatchNormInference(args, bnOp, alpha, beta, bnScale, bnBias, estimatedMean, estimatedVariance,
                                      epsilon):
    """Set what a plan's batch norm takes.

    Parameters
    ----------
    args : OperatorArgs
    bnOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    bnScale, bnBias, estimatedMean, estimatedVariance : memory of the device
    epsilon : float, >= 0

    Raises
    ------
    BadParmError
        For another operator, or other numbers.
    """
    cdef FusionOperator op = _operator(bnOp, NORM, "bnOp")
    _require_plain(alpha, beta)
    _args_of(args).given[op] = {FUSED_SCALE: bnScale, FUSED_SHIFT: bnBias, FUSED_MEAN: estimatedMean,
                                FUSED_VARIANCE: estimatedVariance}, {FUSED_EPSILON: to_epsilon(epsilon, "epsilon")}


def miopenSetOpArgsBatchNormForward(args, bnOp, alpha, beta, bnScale, bnBias, savedMean, savedInvVariance, runningMean,
                                    runningVariance, expAvgFactor, epsilon):
    """Set what a plan's batch norm takes, as in training.

    Parameters
    ----------
    args : OperatorArgs
    bnOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    bnScale, bnBias : memory of the device
    savedMean, savedInvVariance, runningMean, runningVariance : memory of the device, or None
        Each two both or neither; the running ones where the operator keeps such.
    expAvgFactor, epsilon : float
        As of miopenBatchNormalizationForwardTraining.

    Raises
    ------
    BadParmError
        For another operator, other numbers, or running statistics that are missing, or none that the operator keeps.
    """
    cdef FusionOperator op = _operator(bnOp, NORM_TRAINING, "bnOp")
    _require_plain(alpha, beta)
    if (runningMean is not None or runningVariance is not None) != op.running:
        raise BadParmError("running statistics", "runningMean, runningVariance", (runningMean, runningVariance),
                           "two, as the operator keeps them" if op.running else "None: the operator keeps none")
    _args_of(args).given[op] = (bnScale, bnBias, to_double(expAvgFactor, "expAvgFactor"), runningMean, runningVariance,
                                to_epsilon(epsilon, "epsilon"), savedMean, savedInvVariance)


def miopenSetOpArgsBatchNormBackward(args, bnOp, alpha, beta, x, bnScale, bnBias, resultBnScaleDiff, resultBnBiasDiff,
                                     savedMean, savedInvVariance):
    """Set what the gradients of a plan's batch norm take.

    Parameters
    ----------
    args : OperatorArgs
    bnOp : FusionOperator
    alpha, beta : float or None
        1 and 0.
    x : memory of the device
        What batch norm read, which lies as the plan's input does.
    bnScale, bnBias : memory of the device
        bnBias may be None where no activation follows.
    resultBnScaleDiff, resultBnBiasDiff : memory of the device
    savedMean, savedInvVariance : memory of the device, or None
        Both or neither; without them they are computed, with an epsilon of 1e-5.

    Raises
    ------
    BadParmError
        For another operator, or other numbers.
    """
    cdef FusionOperator op = _operator(bnOp, NORM_BACKWARD, "bnOp")
    _require_plain(alpha, beta)
    _args_of(args).given[op] = x, bnScale, bnBias, resultBnScaleDiff, resultBnBiasDiff, savedMean, savedInvVariance


cdef double _EPSILON = 1e-5  # of batch norm's gradients, whose operator has none


cdef object _given(OperatorArgs args, FusionOperator op):
    try:
        return args.given[op]
    except KeyError:
        raise BadParmError("an operator without arguments", "args", repr(op), "miopenSetOpArgs...") from None


cdef int _execute_norm(object handle, FusionPlanDescriptor plan, object xd, object x, object yd, object y,
                       OperatorArgs args) except -1:
    """Batch norm with what follows, by its own functions."""
    cdef FusionOperator op, follows = None
    cdef TensorDescriptor d = TensorDescriptor()
    cdef object activ = None
    for op in plan.operators:
        if op.kind == ACTIVATION or op.kind == ACTIVATION_BACKWARD:
            activ = _given(args, op)[2]
        else:
            follows = op
    op = follows
    given = _given(args, op)
    if op.kind == NORM:
        buffers, numbers = given
        _norm_inference(
            handle, op.mode, 1.0, 0.0, xd, x, yd, y, op.descriptor, op.descriptor, op.descriptor, op.descriptor,
            *buffers.values(), *numbers.values(), activ)
        return 0
    if (<FusionPlanDescriptor> seen(plan)).norm is None:
        _derive(d, plan.input, op.mode)
        mx_guard_lock(&plan.guard)
        if plan.norm is None:
            plan.norm = d
        mx_guard_unlock(&plan.guard)
    d = (<FusionPlanDescriptor> seen(plan)).norm
    if op.kind == NORM_TRAINING:
        _norm_training(handle, op.mode, 1.0, 0.0, xd, x, yd, y, d, d, d, d, *given, activ)
        return 0
    before, scale, bias, scale_diff, bias_diff, mean, inverse = given
    _norm_backward(
        handle, op.mode, 1.0, 0.0, 1.0, 0.0, xd, before, xd, x, yd, y, d, d, d, d, scale, bias, scale_diff, bias_diff,
        _EPSILON, mean, inverse, activ)
    return 0


cdef int _require_input(FusionPlanDescriptor plan, TensorDescriptor x) except -1:
    if x.lens != plan.input.lens or x.dtype != plan.input.dtype:
        raise BadParmError("lengths or type are not those of the plan's input", "inputDesc", x, plan.input)
    return 0


def commanded(FusionPlanDescriptor plan not None, OperatorArgs args not None):
    """Return what logs say of a plan: for each operator the function that made it, what that took, and its numbers.

    These are the activation's descriptor, batch norm's epsilon, or what miopenSetOpArgsBatchNormForward and
    ...Backward were given.
    """
    cdef FusionOperator op
    cdef list found = []
    for op in plan.operators:
        function, *taken = op.settings()
        given = args.given[op]
        numbers = given
        if op.kind == ACTIVATION or op.kind == ACTIVATION_BACKWARD:
            numbers = given[2]
        elif op.kind == NORM:
            numbers = given[1][FUSED_EPSILON]
        elif op.kind == CONV:
            numbers = given[1][0]
        found.append((function.__name__, taken, numbers))
    return found


cdef tuple _SLOT_NAMES = ("input", "w", "output", "z", "bias", "bnScale", "bnBias", "estimatedMean",
                          "estimatedVariance")


def miopenExecuteFusionPlan(handle, fusePlanDesc, inputDesc, input, outputDesc, output, args):
    """Run a plan: its operators, one after the other, in the launches of its convolution where the solver can.

    Of a convolution the formula is that of miopenConvolutionBiasActivationForward, with batch norm, (c + bias - mean)
    scale / sqrt(variance + epsilon) + shift of the convolution c, before the activation; workspace is the handle's own.
    Batch norm alone is that of miopenBatchNormForwardInferenceActivation, ...TrainingActivation and
    miopenBatchNormBackwardActivation, of which the plan's input is dy and its output dx.

    Parameters
    ----------
    handle : Handle
    fusePlanDesc : FusionPlanDescriptor
        One that was not compiled is compiled now.
    inputDesc : TensorDescriptor
        With the lengths and type of the plan's input; strides may be others.
    input, output : memory of the handle's device
    outputDesc : TensorDescriptor
    args : OperatorArgs
        With all operators' arguments set.

    Raises
    ------
    BadParmError
        Where an operator's arguments are missing, or descriptors or buffers do not fit; nothing was run then.
    UnsupportedOpError
        Where nothing fuses the plan's operators.
    MIOpenNotImplementedError
        Where no solver takes the convolution.
    """
    cdef Handle h = as_handle(handle)
    cdef FusionPlanDescriptor plan = _plan_of(fusePlanDesc)
    cdef TensorDescriptor xd = as_tensor(inputDesc, "inputDesc"), yd = as_tensor(outputDesc, "outputDesc")
    cdef OperatorArgs given = _args_of(args)
    cdef FusionOperator op
    cdef uint64_t stamp[3]
    cdef int order[MX_SLOTS]
    cdef PyObject* data[MX_SLOTS + 1]
    cdef double scalars[MX_SCALARS]
    cdef call_t call
    cdef int64_t number = _call(plan.algorithm, OWN)
    cdef ConvProblem problem
    cdef Invoker invoker
    cdef int slot
    cdef list names = ["input", "output"]
    cdef list kept = []  # another thread may give the operators other arguments
    if not plan.operators or plan.is_norm():
        plan.require_supported()
        _require_input(plan, xd)
        _execute_norm(h, plan, xd, input, yd, output, given)
        return
    stamp[0], stamp[1], stamp[2] = stamp_of(plan), xd.stamp, yd.stamp
    invoker = recall(h, stamp, 3, number)
    if invoker is None:
        plan.require_supported()
        _require_input(plan, xd)
        problem = plan.problem(h, xd, yd)
        invoker = h.remember(stamp, 3, number, number, problem.data, problem.size)
        if invoker is None:
            h.keep(problem, number, _best(h, problem, plan.algorithm, OWN))
            invoker = h.remember(stamp, 3, number, number, problem.data, problem.size)
    memset(scalars, 0, sizeof(scalars))
    op = plan.operators[0]
    order[0], order[1] = (SLOT_Y, SLOT_X) if (<ConvolutionDescriptor> op.descriptor[0]).mode == TRANSPOSE else (
        SLOT_X, SLOT_Y)
    data[0], data[1] = <PyObject*> input, <PyObject*> output
    call.count = 2
    for op in plan.operators:
        of_op = _given(given, op)
        buffers, numbers = of_op[0], of_op[1]
        for place, value in (<dict> numbers).items():
            scalars[<int> place] = value
        for place, buffer in (<dict> buffers).items():
            slot = place
            kept.append(buffer)
            order[call.count], data[call.count] = slot, <PyObject*> buffer
            names.append(_SLOT_NAMES[slot])
            call.count += 1
    data[call.count] = <PyObject*> None
    call.order, call.data, call.workspace_size = order, data, OWN
    execute(h, invoker, &call, (*names, "workSpace"), scalars, None)


__all__ = ["FusionOperator", "FusionPlanDescriptor", "OperatorArgs",
           *(_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t"))]
