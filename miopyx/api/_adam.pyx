"""Adam and AdamW of miopen.h.

Names and argument order are the header's; failures became exceptions.
"""

from libc.math cimport expm1, log1p, sqrt
from libc.stdint cimport int64_t

from miopyx.engine._plan cimport Plan
from miopyx.problem._elements cimport (
    ADAM_ADAMW, ADAM_AMSGRAD, ADAM_CORRECT, ADAM_FOUND, ADAM_G, ADAM_M, ADAM_M_OUT, ADAM_MAXIMIZE, ADAM_MOST,
    ADAM_MOST_OUT, ADAM_P, ADAM_P16, ADAM_P_OUT, ADAM_SCALE, ADAM_STEP, ADAM_STEP_OUT, ADAM_V, ADAM_V_OUT, DECAY,
    EPSILON, RATE, ROOT, SIZE, SOME1, SOME2,
)
from miopyx.values._args cimport to_double, to_flag, to_int64
from miopyx.values._types cimport MX_ADAM, MX_ADAM_TRANSFORMERS, MX_TENSORS
from ._operation cimport Signature, arg_t, require_handle

from miopyx.errors import BadParmError
from miopyx.problem._elements import AdamProblem

cdef int64_t LARGEST = 0xFFFFFFFF  # of state_step, an unsigned int


cdef Signature _signature(int what, dict slots):
    """Of a function that calls its buffers so; each has a descriptor."""
    cdef tuple order = tuple(slots.values())
    cdef dict names = {slot: f"{name}Desc" for name, slot in slots.items()}
    cdef unsigned nullable = 0
    cdef int i
    for i, slot in enumerate(order):
        if slot not in (ADAM_P, ADAM_G, ADAM_M, ADAM_V):
            nullable |= 1 << i

    def problem_of(flags, *descriptors):
        present = {slot: descriptor for slot, descriptor in zip(order, descriptors) if descriptor is not None}
        return AdamProblem(what == MX_ADAM_TRANSFORMERS, flags, present, names)
    return Signature(what, problem_of, tuple(names.values()), slots, scalars=7, nullable=nullable)


cdef Signature _FUSED = _signature(MX_ADAM, {
    "param": ADAM_P, "grad": ADAM_G, "expAvg": ADAM_M, "expAvgSq": ADAM_V, "maxExpAvgSq": ADAM_MOST, "stateStep":
    ADAM_STEP, "gradScale": ADAM_SCALE, "foundInf": ADAM_FOUND,
})
cdef Signature _FUSED_OUT = _signature(MX_ADAM, {
    "paramIn": ADAM_P, "paramOut": ADAM_P_OUT, "paramOutFloat16": ADAM_P16, "gradIn": ADAM_G, "expAvgIn": ADAM_M,
    "expAvgOut": ADAM_M_OUT, "expAvgSqIn": ADAM_V, "expAvgSqOut": ADAM_V_OUT, "maxExpAvgSqIn": ADAM_MOST,
    "maxExpAvgSqOut": ADAM_MOST_OUT, "stateStepIn": ADAM_STEP, "stateStepOut": ADAM_STEP_OUT, "gradScale": ADAM_SCALE,
    "foundInf": ADAM_FOUND,
})
cdef Signature _TRANSFORMERS = _signature(MX_ADAM_TRANSFORMERS, {
    "param": ADAM_P, "grad": ADAM_G, "expAvg": ADAM_M, "expAvgSq": ADAM_V, "stateStep": ADAM_STEP, "gradScale":
    ADAM_SCALE, "foundInf": ADAM_FOUND,
})
cdef Signature _TRANSFORMERS_OUT = _signature(MX_ADAM_TRANSFORMERS, {
    "paramIn": ADAM_P, "paramOut": ADAM_P_OUT, "paramOutFloat16": ADAM_P16, "gradIn": ADAM_G, "expAvgIn": ADAM_M,
    "expAvgOut": ADAM_M_OUT, "expAvgSqIn": ADAM_V, "expAvgSqOut": ADAM_V_OUT, "stateStepIn": ADAM_STEP,
    "stateStepOut": ADAM_STEP_OUT, "gradScale": ADAM_SCALE, "foundInf": ADAM_FOUND,
})


cdef dict _PLANS = {}      # signatures of what plans take, by operation and slots


cdef double _beta(object value, str name) except? -1:
    cdef double beta = to_double(value, name)
    if not 0 <= beta < 1:
        raise BadParmError("coefficient of a running average", name, beta, "0 <= beta < 1")
    return beta


cdef int _run(Signature signature, object handle, arg_t* descriptors, arg_t* buffers, int64_t flags, object state_step,
              object lr, object beta1, object beta2, object weight_decay, object eps, object step_size=None) except -1:
    """Leave out what is not there and outputs that are in place, and compute the step's size on the host."""
    cdef double[7] number
    cdef double first, second, given_size = -1
    cdef unsigned left_out = 0
    cdef int64_t step = 0
    cdef int i, slot
    cdef int[MX_TENSORS] place       # of a slot among the descriptors, -1: none
    cdef bint counted
    require_handle(handle)
    for slot in range(MX_TENSORS):
        place[slot] = -1
    for i in range(signature.descriptors):
        slot = signature.order[i]
        if slot == ADAM_MOST or slot == ADAM_MOST_OUT:
            if not flags & ADAM_AMSGRAD:
                descriptors[i] = <arg_t> None
            elif slot == ADAM_MOST and <object> descriptors[i] is None:
                raise BadParmError("null, of amsgrad", signature.descriptor_names[i], None, "a TensorDescriptor")
        place[slot] = i
    for slot in range(ADAM_P_OUT, ADAM_STEP_OUT + 1):
        i = {ADAM_P_OUT: ADAM_P, ADAM_M_OUT: ADAM_M, ADAM_V_OUT: ADAM_V, ADAM_MOST_OUT: ADAM_MOST,
             ADAM_STEP_OUT: ADAM_STEP}.get(slot, -1)
        if i < 0 or place[slot] < 0 or (slot == ADAM_MOST_OUT and not flags & ADAM_AMSGRAD):
            continue
        if slot == ADAM_STEP_OUT and <object> descriptors[place[i]] is None:
            descriptors[place[slot]] = <arg_t> None
        elif <object> descriptors[place[slot]] is None:
            raise BadParmError("null", signature.descriptor_names[place[slot]], None, "a TensorDescriptor")
        elif (buffers[place[slot]] == buffers[place[i]] and <object> buffers[place[i]] is not None
              and descriptors[place[slot]] == descriptors[place[i]]):
            descriptors[place[slot]] = <arg_t> None
    left_out = signature.absent(descriptors)
    counted = place[ADAM_STEP] >= 0 and not left_out >> place[ADAM_STEP] & 1
    number[<int> RATE] = to_double(lr, "lr")
    number[<int> SOME1], number[<int> SOME2] = 1 - _beta(beta1, "beta1"), 1 - _beta(beta2, "beta2")
    number[<int> DECAY], number[<int> EPSILON] = to_double(weight_decay, "weight_decay"), to_double(eps, "eps")
    if step_size is not None:
        given_size = to_double(step_size, "step_size")
    number[<int> SIZE], number[<int> ROOT] = given_size, 1
    if not counted:
        step = to_int64(state_step, "state_step")
        if step < 1 or step > LARGEST:
            raise BadParmError("number of a step", "state_step", step, f"1 ... {LARGEST}")
        first = -expm1(step * log1p(-number[<int> SOME1]))
        second = -expm1(step * log1p(-number[<int> SOME2]))
        if signature.what == MX_ADAM:
            number[<int> SIZE], number[<int> ROOT] = number[<int> RATE] / first, 1 / sqrt(second)
        elif given_size < 0:
            number[<int> SIZE] = number[<int> RATE]
            if flags & ADAM_CORRECT:
                number[<int> SIZE] *= sqrt(second) / first
    return signature.run(handle, descriptors, buffers, number, flags, left_out)


def miopenFusedAdam(handle, paramDesc, param, gradDesc, grad, expAvgDesc, expAvg, expAvgSqDesc, expAvgSq,
                    maxExpAvgSqDesc, maxExpAvgSq, stateStepDesc, stateStep, state_step, lr, beta1, beta2,
                    weight_decay, eps, amsgrad, maximize, adamw, gradScaleDesc, gradScale, foundInfDesc, foundInf):
    """A step of Adam (Kingma & Ba 2015), AMSGrad or AdamW, in place.

        g = grad / gradScale, or -grad / gradScale to maximize
        adamw: param -= lr weight_decay param        else: g += weight_decay param
        expAvg = beta1 expAvg + (1 - beta1) g        expAvgSq = beta2 expAvgSq + (1 - beta2) g^2
        v = expAvgSq, of amsgrad maxExpAvgSq = max(maxExpAvgSq, expAvgSq)
        param -= lr / (1 - beta1^t) expAvg / (sqrt(v / (1 - beta2^t)) + eps)

    Arithmetic is float32, for float64 float64.

    Parameters
    ----------
    handle : Handle
    paramDesc, expAvgDesc, expAvgSqDesc : TensorDescriptor
        1 to 5 dimensions of equal lengths and equal types (float16, bfloat16, float32, float64), any strides.
    gradDesc : TensorDescriptor
        Of their lengths; with gradScale or foundInf of any of these types, else of theirs.
    maxExpAvgSqDesc : TensorDescriptor or None
        Likewise; needed for amsgrad, else ignored.
    param, grad, expAvg, expAvgSq, maxExpAvgSq : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.
    stateStepDesc, stateStep : TensorDescriptor and memory, or None
        One element, int32, int8 or of a floating type: t is one more than that, which is then stored.
    state_step : int
        t, where there is no stateStep.
    lr, beta1, beta2, weight_decay, eps : float
        The betas below 1.
    amsgrad, maximize, adamw : bool
    gradScaleDesc, gradScale : TensorDescriptor and memory, or None
        One element likewise: gradients are divided by it.
    foundInfDesc, foundInf : TensorDescriptor and memory, or None
        One element likewise: where it is not 0 nothing changes, stateStep neither.

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, a tensor that is missing, a beta beyond 0 ... 1, a state_step
        below 1 where it counts, or a buffer that does not fit or is missing; nothing was run then.
    MIOpenNotImplementedError
        For another type, and more dimensions.
    """
    cdef arg_t[8] descriptors = [
        <arg_t> paramDesc, <arg_t> gradDesc, <arg_t> expAvgDesc, <arg_t> expAvgSqDesc, <arg_t> maxExpAvgSqDesc,
        <arg_t> stateStepDesc, <arg_t> gradScaleDesc, <arg_t> foundInfDesc,
    ]
    cdef arg_t[9] buffers = [
        <arg_t> param, <arg_t> grad, <arg_t> expAvg, <arg_t> expAvgSq, <arg_t> maxExpAvgSq, <arg_t> stateStep, <arg_t>
        gradScale, <arg_t> foundInf, NULL,
    ]
    cdef int64_t flags = 0
    if to_flag(amsgrad, "amsgrad"):
        flags |= ADAM_AMSGRAD
    if to_flag(maximize, "maximize"):
        flags |= ADAM_MAXIMIZE
    if to_flag(adamw, "adamw"):
        flags |= ADAM_ADAMW
    _run(_FUSED, handle, descriptors, buffers, flags, state_step, lr, beta1, beta2, weight_decay, eps)


def miopenFusedAdamWithOutput(handle, paramInDesc, paramIn, paramOutDesc, paramOut, paramOutFloat16Desc,
                              paramOutFloat16, gradInDesc, gradIn, expAvgInDesc, expAvgIn, expAvgOutDesc, expAvgOut,
                              expAvgSqInDesc, expAvgSqIn, expAvgSqOutDesc, expAvgSqOut, maxExpAvgSqInDesc,
                              maxExpAvgSqIn, maxExpAvgSqOutDesc, maxExpAvgSqOut, stateStepInDesc, stateStepIn,
                              stateStepOutDesc, stateStepOut, state_step, lr, beta1, beta2, weight_decay, eps,
                              amsgrad, maximize, adamw, gradScaleDesc, gradScale, foundInfDesc, foundInf):
    """A step of Adam, AMSGrad or AdamW: miopenFusedAdam with results in tensors of their own.

    Parameters
    ----------
    handle : Handle
    paramInDesc, gradInDesc, expAvgInDesc, expAvgSqInDesc, maxExpAvgSqInDesc, stateStepInDesc
        As those of miopenFusedAdam.
    paramIn, gradIn, expAvgIn, expAvgSqIn, maxExpAvgSqIn, stateStepIn
        Likewise; read only.
    paramOutDesc, expAvgOutDesc, expAvgSqOutDesc, maxExpAvgSqOutDesc, stateStepOutDesc : TensorDescriptor or None
        Of the inputs' lengths and types; None for what is not there.
    paramOut, expAvgOut, expAvgSqOut, maxExpAvgSqOut, stateStepOut : memory of the handle's device
        The object that was given for the input, or memory that nothing shares.
    paramOutFloat16Desc, paramOutFloat16 : TensorDescriptor and memory, or None
        float16 or bfloat16 of param's lengths: gets the new parameters, too.
    state_step, lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, adamw
        As for miopenFusedAdam.
    gradScaleDesc, gradScale, foundInfDesc, foundInf
        As for miopenFusedAdam; where an infinity was found the outputs get what the inputs have.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenFusedAdam.
    """
    cdef arg_t[14] descriptors = [
        <arg_t> paramInDesc, <arg_t> paramOutDesc, <arg_t> paramOutFloat16Desc, <arg_t> gradInDesc, <arg_t>
        expAvgInDesc, <arg_t> expAvgOutDesc, <arg_t> expAvgSqInDesc, <arg_t> expAvgSqOutDesc, <arg_t>
        maxExpAvgSqInDesc, <arg_t> maxExpAvgSqOutDesc, <arg_t> stateStepInDesc, <arg_t> stateStepOutDesc, <arg_t>
        gradScaleDesc, <arg_t> foundInfDesc,
    ]
    cdef arg_t[15] buffers = [
        <arg_t> paramIn, <arg_t> paramOut, <arg_t> paramOutFloat16, <arg_t> gradIn, <arg_t> expAvgIn, <arg_t>
        expAvgOut, <arg_t> expAvgSqIn, <arg_t> expAvgSqOut, <arg_t> maxExpAvgSqIn, <arg_t> maxExpAvgSqOut, <arg_t>
        stateStepIn, <arg_t> stateStepOut, <arg_t> gradScale, <arg_t> foundInf, NULL,
    ]
    cdef int64_t flags = 0
    if to_flag(amsgrad, "amsgrad"):
        flags |= ADAM_AMSGRAD
    if to_flag(maximize, "maximize"):
        flags |= ADAM_MAXIMIZE
    if to_flag(adamw, "adamw"):
        flags |= ADAM_ADAMW
    _run(_FUSED_OUT, handle, descriptors, buffers, flags, state_step, lr, beta1, beta2, weight_decay, eps)


def miopenTransformersAdamW(handle, paramDesc, param, gradDesc, grad, expAvgDesc, expAvg, expAvgSqDesc, expAvgSq,
                            stateStepDesc, stateStep, state_step, lr, beta1, beta2, weight_decay, eps, correct_bias,
                            gradScaleDesc, gradScale, foundInfDesc, foundInf):
    """A step of AdamW as Hugging Face's Transformers have it, in place.

        g = grad / gradScale
        expAvg = beta1 expAvg + (1 - beta1) g        expAvgSq = beta2 expAvgSq + (1 - beta2) g^2
        param -= size expAvg / (sqrt(expAvgSq) + eps)        param -= lr weight_decay param

    with size = lr sqrt(1 - beta2^t) / (1 - beta1^t), without correct_bias lr.

    Parameters
    ----------
    handle : Handle
    paramDesc, gradDesc, expAvgDesc, expAvgSqDesc, stateStepDesc
        As for miopenFusedAdam.
    param, grad, expAvg, expAvgSq, stateStep
        As for miopenFusedAdam.
    state_step, lr, beta1, beta2, weight_decay, eps
        As for miopenFusedAdam.
    correct_bias : bool
    gradScaleDesc, gradScale, foundInfDesc, foundInf
        As for miopenFusedAdam.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenFusedAdam.
    """
    cdef arg_t[7] descriptors = [
        <arg_t> paramDesc, <arg_t> gradDesc, <arg_t> expAvgDesc, <arg_t> expAvgSqDesc, <arg_t> stateStepDesc, <arg_t>
        gradScaleDesc, <arg_t> foundInfDesc,
    ]
    cdef arg_t[8] buffers = [
        <arg_t> param, <arg_t> grad, <arg_t> expAvg, <arg_t> expAvgSq, <arg_t> stateStep, <arg_t> gradScale, <arg_t>
        foundInf, NULL,
    ]
    cdef int64_t flags = ADAM_CORRECT if to_flag(correct_bias, "correct_bias") else 0
    _run(_TRANSFORMERS, handle, descriptors, buffers, flags, state_step, lr, beta1, beta2, weight_decay, eps)


def miopenTransformersAdamWWithOutput(handle, paramInDesc, paramIn, paramOutDesc, paramOut, paramOutFloat16Desc,
                                      paramOutFloat16, gradInDesc, gradIn, expAvgInDesc, expAvgIn, expAvgOutDesc,
                                      expAvgOut, expAvgSqInDesc, expAvgSqIn, expAvgSqOutDesc, expAvgSqOut,
                                      stateStepInDesc, stateStepIn, stateStepOutDesc, stateStepOut, state_step, lr,
                                      beta1, beta2, weight_decay, eps, step_size, correct_bias, gradScaleDesc,
                                      gradScale, foundInfDesc, foundInf):
    """A step of AdamW as Transformers have it: miopenTransformersAdamW with results in tensors of their own.

    Parameters
    ----------
    handle : Handle
    paramInDesc, gradInDesc, expAvgInDesc, expAvgSqInDesc, stateStepInDesc
        As those of miopenTransformersAdamW.
    paramIn, gradIn, expAvgIn, expAvgSqIn, stateStepIn
        Likewise; read only.
    paramOutDesc, paramOut, paramOutFloat16Desc, paramOutFloat16, expAvgOutDesc, expAvgOut, expAvgSqOutDesc, expAvgSqOut
        As for miopenFusedAdamWithOutput.
    stateStepOutDesc, stateStepOut
        As for miopenFusedAdamWithOutput.
    state_step, lr, beta1, beta2, weight_decay, eps
        As for miopenFusedAdam.
    step_size : float
        The size of the step; below 0: as miopenTransformersAdamW computes it.
    correct_bias : bool
    gradScaleDesc, gradScale, foundInfDesc, foundInf
        As for miopenFusedAdamWithOutput.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenFusedAdam.
    """
    cdef arg_t[12] descriptors = [
        <arg_t> paramInDesc, <arg_t> paramOutDesc, <arg_t> paramOutFloat16Desc, <arg_t> gradInDesc, <arg_t>
        expAvgInDesc, <arg_t> expAvgOutDesc, <arg_t> expAvgSqInDesc, <arg_t> expAvgSqOutDesc, <arg_t> stateStepInDesc,
        <arg_t> stateStepOutDesc, <arg_t> gradScaleDesc, <arg_t> foundInfDesc,
    ]
    cdef arg_t[13] buffers = [
        <arg_t> paramIn, <arg_t> paramOut, <arg_t> paramOutFloat16, <arg_t> gradIn, <arg_t> expAvgIn, <arg_t>
        expAvgOut, <arg_t> expAvgSqIn, <arg_t> expAvgSqOut, <arg_t> stateStepIn, <arg_t> stateStepOut, <arg_t>
        gradScale, <arg_t> foundInf, NULL,
    ]
    cdef int64_t flags = ADAM_CORRECT if to_flag(correct_bias, "correct_bias") else 0
    _run(_TRANSFORMERS_OUT, handle, descriptors, buffers, flags, state_step, lr, beta1, beta2, weight_decay, eps,
         step_size)


cdef Plan _plan(int what, object handle, dict given, int64_t flags, object lr, object beta1, object beta2,
                object weight_decay, object eps):
    """`given` are descriptors by what the functions call their buffers; what is None is left out."""
    cdef dict slots = {
        "param": ADAM_P, "grad": ADAM_G, "expAvg": ADAM_M, "expAvgSq": ADAM_V, "maxExpAvgSq": ADAM_MOST, "stateStep":
        ADAM_STEP, "gradScale": ADAM_SCALE, "foundInf": ADAM_FOUND,
    }
    cdef tuple present = tuple([name for name in slots if given.get(name) is not None or slots[name] in (
        ADAM_P, ADAM_G, ADAM_M, ADAM_V, ADAM_STEP)])
    cdef double rate = to_double(lr, "lr"), first = _beta(beta1, "beta1"), second = _beta(beta2, "beta2")
    cdef double decay = to_double(weight_decay, "weight_decay"), epsilon = to_double(eps, "eps")
    cdef Plan plan
    signature = _PLANS.get((what, present))
    if signature is None:
        signature = _PLANS[what, present] = _signature(what, {name: slots[name] for name in present})
    plan = (<Signature> signature).plan(handle, tuple([given[name] for name in present]), flags, 0)
    plan.scalars = ("lr",)
    plan.default[<int> RATE], plan.default[<int> SOME1], plan.default[<int> SOME2] = rate, 1 - first, 1 - second
    plan.default[<int> DECAY], plan.default[<int> EPSILON] = decay, epsilon
    plan.default[<int> SIZE], plan.default[<int> ROOT] = -1, 1  # the kernel computes them from the step
    return plan


def plan_fused_adam(handle, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                    max_exp_avg_sq_desc, grad_scale_desc, found_inf_desc, lr, beta1, beta2, weight_decay, eps, maximize,
                    adamw):
    """Body of Handle.fused_adam."""
    cdef int64_t flags = ADAM_AMSGRAD if max_exp_avg_sq_desc is not None else 0
    if to_flag(maximize, "maximize"):
        flags |= ADAM_MAXIMIZE
    if to_flag(adamw, "adamw"):
        flags |= ADAM_ADAMW
    return _plan(MX_ADAM, handle, {
        "param": param_desc, "grad": grad_desc, "expAvg": exp_avg_desc, "expAvgSq": exp_avg_sq_desc, "maxExpAvgSq":
        max_exp_avg_sq_desc, "stateStep": state_step_desc, "gradScale": grad_scale_desc, "foundInf": found_inf_desc,
    }, flags, lr, beta1, beta2, weight_decay, eps)


def plan_transformers_adam_w(handle, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                             grad_scale_desc, found_inf_desc, lr, beta1, beta2, weight_decay, eps, correct_bias):
    """Body of Handle.transformers_adam_w."""
    return _plan(MX_ADAM_TRANSFORMERS, handle, {
        "param": param_desc, "grad": grad_desc, "expAvg": exp_avg_desc, "expAvgSq": exp_avg_sq_desc, "stateStep":
        state_step_desc, "gradScale": grad_scale_desc, "foundInf": found_inf_desc,
    }, ADAM_CORRECT if to_flag(correct_bias, "correct_bias") else 0, lr, beta1, beta2, weight_decay, eps)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
