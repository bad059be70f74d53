"""Random problems of Find 2.0: convolutions, what is fused, attention, and operations that have functions, too."""

from __future__ import annotations

import contextlib
import json

import guarded
import numpy as np
import pytest
import test_activation
import test_batchnorm
import test_batchnorm_activation
import test_find2
import test_fusion
import test_mha
import test_softmax
from drawn import HOST, KNOWN, handle_of, length, one_of, some_convolution, some_lens, some_type
from guarded import ROUNDOFF, Tensor
from solver_checks import Example
from test_tensor_ops import any_strides

import miopyx
from miopyx import ActivationDescriptor, MIOpenError, SoftmaxDescriptor, TensorDescriptor

ID = miopyx.miopenTensorArgumentId_t
FORWARD, BACKWARD, INFERENCE = (getattr(miopyx, f"miopenProblemDirection{name}") for name in (
    "Forward", "Backward", "Inference"))


# Convolutions


def run_find2(handle, rng):
    """A solution that was found, saved and loaded; saved bytes that were damaged or forged."""
    example = Example(some_convolution(rng, 7), "float32", "packed", rng, HOST())
    direction = int(rng.integers(3))
    found = miopyx.miopenFindSolutions(handle, test_find2.described(example, direction), None, 99)
    solution = found[int(rng.integers(len(found)))]
    data = miopyx.miopenSaveSolution(solution)
    loaded = miopyx.miopenLoadSolution(data, len(data))
    solver = test_find2.registry.BY_ID[miopyx.miopenGetSolutionSolverId(solution)]
    got = test_find2.solve(handle, example, direction, one_of(rng, solution, loaded), rng)
    test_find2.verify(handle, example, direction, got, solver)
    for _ in range(20):
        bad = bytearray(data)
        kind = rng.integers(3)
        if kind == 0:
            bad = bad[:int(rng.integers(len(bad)))]
        elif kind == 1:
            bad[int(rng.integers(len(bad)))] ^= 1 << int(rng.integers(8))
        else:
            at, other = rng.integers(0, len(bad), 2)
            bad[int(at):int(at) + 9] = data[int(other):int(other) + 9]
        if bad == data:
            continue
        try:
            miopyx.miopenLoadSolution(bytes(bad), len(bad))
        except MIOpenError:
            continue
        raise AssertionError(f"damaged bytes were taken: {bytes(bad)!r}")
    run_forged(handle, example, direction, data, rng)


def run_forged(handle, example, direction, data, rng):
    """Bytes with a digest that fits, of which one field is another: refused, or run without harm."""
    body = json.loads(data.split(b"\n", 2)[2])
    values = (0, -1, 1, 3, 1 << 31, 1 << 63, 1 << 70, None, "x", [], {}, 0.5, True, [1], "float64")
    for _ in range(5):
        fields = json.loads(json.dumps(body))
        place = fields
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(rng.integers(len(keys)))]
            if isinstance(place[key], dict | list) and place[key] and rng.integers(4):
                place = place[key]
                continue
            place[key] = values[int(rng.integers(len(values)))]
            break
        bad = test_find2.forged(data, **fields)
        with contextlib.suppress(MIOpenError):
            solution = miopyx.miopenLoadSolution(bad, len(bad))
            size = miopyx.miopenGetSolutionWorkspaceSize(solution)
            if size < 1 << 20:
                test_find2.solve(handle, example, direction, solution, rng)


def run_foreign(handle, rng):
    """Solutions of the other devices."""
    example = Example(some_convolution(rng, 7), "float32", "packed", rng, HOST())
    for name in KNOWN:
        other = handle_of(name)
        if other.device.name == handle.device.name:
            continue
        solution = miopyx.miopenFindSolutions(other, test_find2.described(example, 0), None, 1)[0]
        data = miopyx.miopenSaveSolution(solution)
        with pytest.raises(MIOpenError):
            test_find2.solve(handle, example, 0, miopyx.miopenLoadSolution(data, len(data)), rng)


# What follows a convolution or a norm


class Recorded:
    """A problem that is fused of parts, and the memory of its tensors by ids."""

    def __init__(self, handle, rng):
        self.handle, self.rng, self.memory, self.numbers = handle, rng, {}, {}

    def described(self, problem, tensors):
        """Give a part its tensors: (id, descriptor, memory), without memory for what lies between parts."""
        for number, desc, memory in tensors:
            miopyx.miopenSetProblemTensorDescriptor(problem, number, desc)
            if memory is not None:
                self.memory[number] = desc, memory
        return problem

    def solutions(self, problem, most=99):
        """What was found, each as it is or saved and loaded."""
        for solution in miopyx.miopenFindSolutions(self.handle, problem, None, most):
            data = miopyx.miopenSaveSolution(solution)
            yield one_of(self.rng, solution, miopyx.miopenLoadSolution(data, len(data)))

    def run(self, solution):
        """On the memory of all tensors, in any order."""
        # In a chain only the problem's own tensors have descriptors: others may be given without.
        arguments = [(number, None if self.rng.integers(2) else desc, memory)
                     for number, (desc, memory) in self.memory.items()]
        arguments += [(number, None, value) for number, value in self.numbers.items()]
        self.rng.shuffle(arguments)
        miopyx.miopenRunSolution(self.handle, solution, len(arguments), [tuple(one) for one in arguments], None, 0)
        self.handle.finish()


def run_fused(handle, rng):
    """convolution [+ bias] [+ batch norm] [+ activation], by one of the solutions."""
    example = Example(some_convolution(rng, 9), some_type(handle, rng), one_of(rng, *guarded.LAYOUTS), rng, HOST())
    parts = one_of(rng, (True, False, False), (False, True, False), (False, False, True), (True, True, False),
                   (True, False, True), (False, True, True), (True, True, True))
    bias, norm, activation = parts
    fused = test_fusion.Fused(example, rng, int(rng.integers(test_fusion.MODES)) if activation else 0, False, bias,
                              norm, bool(rng.integers(2)))
    fused.numbers = 1.0, 0.0
    x, w, y = example.desc
    if not rng.integers(3):  # nobody describes the result: it is packed
        y = TensorDescriptor(y.dtype, y.lens)
        example.desc[2] = y
        said = False
    else:
        said = True
    memory = [Tensor(handle, desc, values) for desc, values in zip((x, w), example.data, strict=False)]
    out = Tensor(handle, y, None)
    ends = [ID.miopenTensorConvolutionY, ID.miopenTensorBiasY, ID.miopenTensorBatchnormY, ID.miopenTensorActivationY]
    last = max(i for i, has in enumerate((True, *parts)) if has)
    call = Recorded(handle, rng)
    chain = [call.described(miopyx.miopenCreateConvProblem(example.conv, 0), [
        (ID.miopenTensorConvolutionX, x, memory[0].argument()), (ID.miopenTensorConvolutionW, w,
                                                                 memory[1].argument())])]
    if bias:
        memory.append(Tensor(handle, fused.channel, fused.bias))
        chain.append(call.described(miopyx.miopenCreateBiasProblem(0), [
            (ID.miopenTensorBias, fused.channel, memory[-1].argument())]))
    if norm:
        names = ("Scale", "Bias", "EstimatedMean", "EstimatedVariance")
        tensors = [Tensor(handle, fused.channel, values) for values in fused.norm]
        memory += tensors
        chain.append(call.described(miopyx.miopenCreateBatchnormProblem(1, False, INFERENCE), [
            (ID[f"miopenTensorBatchnorm{name}"], fused.channel, t.argument())
            for name, t in zip(names, tensors, strict=True)]))
        call.numbers[ID.miopenScalarBatchnormEpsilon] = fused.epsilon
    if activation:
        chain.append(miopyx.miopenCreateActivationProblem(fused.activation, 0))
    if said:
        miopyx.miopenSetProblemTensorDescriptor(chain[-1], ends[last], y)
    call.memory[ends[last]] = y, out.argument()
    if not rng.integers(8):
        refuse_another_chain(handle, rng, chain)
    problem = chain[0]
    for part in chain[1:]:
        miopyx.miopenFuseProblems(problem, part)
    found = list(call.solutions(problem))
    solution = found[int(rng.integers(len(found)))]
    solver = test_find2.registry.BY_ID[miopyx.miopenGetSolutionSolverId(solution)]
    call.run(solution)
    fused.verify(out.values(), solver, solver.error_bound(handle.device, example.problem(0)) + 16 * ROUNDOFF["float32"]
                 * (example.dtype != "float64") + 2 * ROUNDOFF[example.dtype])


def refuse_another_chain(handle, rng, chain):
    """The same parts in an order that nothing fuses."""
    order = [chain[int(i)] for i in rng.permutation(len(chain))]
    if order == chain:
        order.append(chain[-1])
    problem = miopyx.miopenCreateActivationProblem(ActivationDescriptor(3), 0)
    for part in order:
        miopyx.miopenFuseProblems(problem, part)
    with pytest.raises(MIOpenError):
        miopyx.miopenFindSolutions(handle, problem, None, 9)


def run_fused_norm(handle, rng):
    """Batch norm + activation: the bits of the function that has both."""
    lens, mode, training = list(some_lens(rng, 4, 5, 3000)), int(rng.integers(2)), bool(rng.integers(2))
    if not mode:
        lens[0] += 2
    while np.prod(lens) // lens[1] < 4:
        lens[int(rng.choice([0, 2, 3]))] += 1
    e = test_batchnorm_activation.Activated(
        mode, tuple(lens), some_type(handle, rng), rng, one_of(rng, *test_batchnorm_activation.MODES),
        one_of(rng, "packed", "last", "rows"), factor=one_of(rng, 0.1, 0.0, 1.0))
    small, running, saved = e.one, bool(rng.integers(2)), bool(rng.integers(2))
    results = []
    for fused in (False, True):
        def tensor(values, desc=small):
            return test_batchnorm.Tensor(desc, values)

        x, y = test_batchnorm.Tensor(e.x_desc, e.x), test_batchnorm.Tensor(e.y_desc)
        scale, bias, mean, variance = map(tensor, (e.scale, e.bias, e.old_mean, e.old_variance))
        kept = [tensor(None), tensor(None)] if saved else [None, None]
        a = [None if t is None else t.argument(handle) for t in (x, y, scale, bias, mean, variance, *kept)]
        descs = (small,) * 4
        if not fused and training:
            miopyx.miopenBatchNormForwardTrainingActivation(
                handle, mode, 1, 0, e.x_desc, a[0], e.y_desc, a[1], *descs, a[2], a[3], e.factor,
                *(a[4:6] if running else (None, None)), e.epsilon, *a[6:], e.activ)
        elif not fused:
            miopyx.miopenBatchNormForwardInferenceActivation(
                handle, mode, 1, 0, e.x_desc, a[0], e.y_desc, a[1], *descs, *a[2:6], e.epsilon, e.activ)
        else:
            call = Recorded(handle, rng)
            names = ("RunningMean", "RunningVariance") if training else ("EstimatedMean", "EstimatedVariance")
            tensors = [("X", e.x_desc, a[0]), ("Scale", small, a[2]), ("Bias", small, a[3])]
            if not training or running:
                tensors += [(names[0], small, a[4]), (names[1], small, a[5])]
            if training and saved:
                tensors += [("SavedMean", small, a[6]), ("SavedVariance", small, a[7])]
            problem = call.described(
                miopyx.miopenCreateBatchnormProblem(mode, running, FORWARD if training else INFERENCE),
                [(ID[f"miopenTensorBatchnorm{name}"], *rest) for name, *rest in tensors])
            act = call.described(miopyx.miopenCreateActivationProblem(e.activ, 0), [
                (ID.miopenTensorActivationY, e.y_desc, a[1])])
            miopyx.miopenFuseProblems(problem, act)
            call.numbers[ID.miopenScalarBatchnormEpsilon] = e.epsilon
            if training:
                call.numbers[ID.miopenScalarBatchnormExpAvgFactor] = e.factor
            solution, = call.solutions(problem)
            call.run(solution)
        handle.finish()
        results.append([t.values(handle) for t in (y, mean, variance, *kept) if t is not None])
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


# Other operations: Find 2.0 in the place of their functions


class Door:
    """Functions of the API that go through Find 2.0, for the checks of an operation's own tests."""

    def __init__(self, rng):
        self.rng = rng

    def run(self, handle, problem, tensors, numbers=()):
        call = Recorded(handle, self.rng)
        call.numbers = dict(numbers)
        call.described(problem, [(number, desc, memory) for number, desc, memory in tensors if memory is not None])
        for number, desc, memory in tensors:  # what is not read is described all the same
            if memory is None and desc is not None:
                miopyx.miopenSetProblemTensorDescriptor(problem, number, desc)
        solution, = call.solutions(problem)
        call.run(solution)

    def miopenSoftmaxForward_V2(self, handle, alpha, x_desc, x, beta, y_desc, y, algorithm, mode):
        problem = miopyx.miopenCreateSoftmaxProblem(SoftmaxDescriptor(alpha, beta, algorithm, mode), FORWARD)
        self.run(handle, problem, [(ID.miopenTensorSoftmaxX, x_desc, x), (ID.miopenTensorSoftmaxY, y_desc, y)])

    def miopenSoftmaxBackward_V2(self, handle, alpha, y_desc, y, dy_desc, dy, beta, dx_desc, dx, algorithm, mode):
        problem = miopyx.miopenCreateSoftmaxProblem(SoftmaxDescriptor(alpha, beta, algorithm, mode), BACKWARD)
        self.run(handle, problem, [(ID.miopenTensorSoftmaxY, y_desc, y), (ID.miopenTensorSoftmaxDY, dy_desc, dy),
                                   (ID.miopenTensorSoftmaxDX, dx_desc, dx)])

    def miopenActivationForward(self, handle, activ, alpha, x_desc, x, beta, y_desc, y):
        assert (alpha, beta) == (1, 0)
        self.run(handle, miopyx.miopenCreateActivationProblem(activ, FORWARD), [
            (ID.miopenTensorActivationX, x_desc, x), (ID.miopenTensorActivationY, y_desc, y)])

    def miopenActivationBackward(self, handle, activ, alpha, y_desc, y, dy_desc, dy, x_desc, x, beta, dx_desc, dx):
        assert (alpha, beta) == (1, 0)
        self.run(handle, miopyx.miopenCreateActivationProblem(activ, BACKWARD), [
            (ID.miopenTensorActivationY, y_desc, y), (ID.miopenTensorActivationDY, dy_desc, dy),
            (ID.miopenTensorActivationX, x_desc, x), (ID.miopenTensorActivationDX, dx_desc, dx)])

    def norm(self, handle, mode, running, direction, tensors, numbers):
        self.run(handle, miopyx.miopenCreateBatchnormProblem(mode, running, direction),
                 [(ID[f"miopenTensorBatchnorm{name}"], desc, memory) for name, desc, memory in tensors
                  if memory is not None],
                 {ID[f"miopenScalarBatchnorm{name}"]: value for name, value in numbers.items()})

    def miopenBatchNormalizationForwardTraining(self, handle, mode, alpha, beta, x_desc, x, y_desc, y, small, scale,
                                                bias, factor, mean, variance, epsilon, saved_mean, saved_inv):
        self.norm(handle, mode, mean is not None, FORWARD, [
            ("X", x_desc, x), ("Y", y_desc, y), ("Scale", small, scale), ("Bias", small, bias),
            ("RunningMean", small, mean), ("RunningVariance", small, variance), ("SavedMean", small, saved_mean),
            ("SavedVariance", small, saved_inv)], {"ExpAvgFactor": factor, "Epsilon": epsilon})

    def miopenBatchNormalizationForwardInference(self, handle, mode, alpha, beta, x_desc, x, y_desc, y, small, scale,
                                                 bias, mean, variance, epsilon):
        self.norm(handle, mode, False, INFERENCE, [
            ("X", x_desc, x), ("Y", y_desc, y), ("Scale", small, scale), ("Bias", small, bias),
            ("EstimatedMean", small, mean), ("EstimatedVariance", small, variance)], {"Epsilon": epsilon})

    def miopenBatchNormalizationBackward(self, handle, mode, alpha, beta, alpha_of, beta_of, x_desc, x, dy_desc, dy,
                                         dx_desc, dx, small, scale, dscale, dbias, epsilon, saved_mean, saved_inv):
        self.norm(handle, mode, False, BACKWARD, [
            ("X", x_desc, x), ("DY", dy_desc, dy), ("DX", dx_desc, dx), ("Scale", small, scale),
            ("ScaleDiff", small, dscale), ("BiasDiff", small, dbias), ("SavedMean", small, saved_mean),
            ("SavedVariance", small, saved_inv)], {"Epsilon": epsilon})


def run_softmax(handle, rng, calls=miopyx):
    lens = some_lens(rng, 2, 5, 3000)
    test_softmax.check_problem(handle, int(rng.integers(3)), int(rng.integers(2)), some_type(handle, rng), lens, rng,
                               calls=calls)


def run_activation(handle, rng, calls=miopyx):
    lens = some_lens(rng, most=3000)
    test_activation.check_problem(handle, one_of(rng, *test_activation.MODES.values()), some_type(handle, rng), lens,
                                  rng, bool(rng.integers(4)), calls)


def run_batch_norm(handle, rng, calls=miopyx):
    lens, mode = list(some_lens(rng, 3, 5, 3000)), int(rng.integers(2))
    if not mode:
        lens[0] += 2
    while np.prod(lens) // lens[1] < 4:  # a variance of one number is nothing
        lens[int(rng.choice([0, 2]))] += 1
    layouts = ("packed", "last", "rows") if calls is not miopyx else ("packed", "last", "gaps", "rows", "mixed")
    problem = test_batchnorm.Example(mode, tuple(lens), some_type(handle, rng), rng, one_of(rng, *layouts),
                                     factor=one_of(rng, 0.1, 0.0, 1.0))
    problem.calls = calls
    problem.check(handle)


def run_another_door(handle, rng):
    """Softmax, activation, batch norm and bias."""
    run = one_of(rng, run_softmax, run_activation, run_batch_norm, run_bias)
    run(handle, rng, Door(rng))


def run_bias(handle, rng, calls):
    """y = x + bias, any axes kept."""
    dtype, lens = some_type(handle, rng), some_lens(rng)
    small = tuple(int(rng.choice([1, n])) for n in lens)
    x, b = (Tensor(handle, TensorDescriptor(dtype, s, any_strides(s, rng)), rng.standard_normal(s)) for s in (lens,
                                                                                                        small))
    y = Tensor(handle, TensorDescriptor(dtype, lens, any_strides(lens, rng)), None)
    calls.run(handle, miopyx.miopenCreateBiasProblem(0), [
        (ID.miopenTensorBiasX, x.desc, x.argument()), (ID.miopenTensorBias, b.desc, b.argument()),
        (ID.miopenTensorBiasY, y.desc, y.argument())])
    first, second = (t.view().astype(np.float64) for t in (x, b))
    size = np.abs(first) + np.abs(second)
    bound = ROUNDOFF[dtype] * np.abs(first + second) * 1.001 + 2 * ROUNDOFF[
        "float64" if dtype == "float64" else "float32"] * size + 1e-40
    assert (np.abs(y.values() - (first + second)) <= bound).all()


# Attention


def run_attention(handle, rng):
    """Forward and backward."""
    shape = (length(rng, 3), length(rng, 4), length(rng, 90), length(rng, 90), length(rng, 70), length(rng, 70))
    if not rng.integers(10):  # long ones, few of them
        shape = (1, 1, length(rng, 20), length(rng, 700), length(rng, 300), length(rng, 40))
    test_mha.both(handle, some_type(handle, rng), shape, rng, **test_mha.options(rng, shape),
                  scale=one_of(rng, None, None, 0.0, 1.0, -0.3), saved=bool(rng.integers(3)))
