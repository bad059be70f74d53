"""Find 2.0: problems, options and solutions, each function on results in float64 or by its error.

Outputs are poisoned and lie between guard bytes; workspaces, too.
"""

from __future__ import annotations

import copy
import gc
import json
import pickle
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
from cases_reader import conv_case
from guarded import Guarded, Tensor
from solver_checks import OUTPUT, Example, configurations_of, verify

import miopyx
from miopyx import ActivationDescriptor, SoftmaxDescriptor, TensorDescriptor
from miopyx.solvers import registry

CONV = (miopyx.miopenTensorConvolutionX, miopyx.miopenTensorConvolutionW, miopyx.miopenTensorConvolutionY)
CASES = {
    "3x3": conv_case(2, 5, 7, (9, 8), (3, 3), (1, 1)),
    "strided 5x5": conv_case(3, 4, 6, (11, 12), (5, 5), (2, 2), (2, 2)),
    "1x1": conv_case(2, 8, 3, (6, 7), (1, 1), (0, 0)),
    "grouped": conv_case(2, 8, 8, (7, 7), (3, 3), (1, 1), groups=4),
    "a volume": conv_case(1, 3, 4, (4, 5, 6), (3, 3, 3), (1, 1, 1)),
    "transposed": replace(conv_case(2, 6, 4, (5, 6), (4, 4), (1, 1), (2, 2)), transposed=True),
}


def described(example: Example, direction: int) -> miopyx.FindProblem:
    problem = miopyx.miopenCreateConvProblem(example.conv, direction)
    for number, desc in zip(CONV, example.desc, strict=True):
        miopyx.miopenSetProblemTensorDescriptor(problem, number, desc)
    return problem


def solve(handle, example: Example, direction: int, solution, rng) -> np.ndarray:
    """What a solution computes, its arguments in a random order."""
    tensors = [Tensor(handle, desc, values) for desc, values in zip(example.desc, example.data, strict=True)]
    tensors[OUTPUT[direction]] = Tensor(handle, example.desc[OUTPUT[direction]], None)
    size = miopyx.miopenGetSolutionWorkspaceSize(solution)
    workspace = Guarded(handle, size, 0xFF)
    given = [(number, desc if rng.integers(2) else None, tensor.argument())
             for number, desc, tensor in zip(CONV, example.desc, tensors, strict=True)]
    arguments = [miopyx.miopenTensorArgument_t(*given[i]) for i in rng.permutation(3)]
    miopyx.miopenRunSolution(handle, solution, 3, arguments, workspace.argument() if size else None, size)
    handle.finish()
    workspace.fetch()
    return tensors[OUTPUT[direction]].values()


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("name", CASES)
def test_every_solution_of_a_convolution(handle, host, rng, name, direction):
    """As it was found, and as it was saved and loaded."""
    example = Example(CASES[name], "float32", "packed", rng, host)
    found = miopyx.miopenFindSolutions(handle, described(example, direction), None, 99)
    assert found
    times = [miopyx.miopenGetSolutionTime(solution) for solution in found]
    assert times == sorted(times)
    assert times[0] > 0
    for solution in found:
        number = miopyx.miopenGetSolutionSolverId(solution)
        solver = registry.BY_ID[number]
        problem = example.problem(direction)
        assert miopyx.miopenGetSolutionWorkspaceSize(solution) == solver.workspace_size(handle.device, problem)
        assert miopyx.miopenGetSolverIdConvAlgorithm(number) == solver.algorithm
        saved = miopyx.miopenSaveSolution(solution)
        assert len(saved) == miopyx.miopenGetSolutionSize(solution)
        loaded = miopyx.miopenLoadSolution(saved, len(saved))
        assert miopyx.miopenSaveSolution(loaded) == saved
        for one in (solution, loaded):
            verify(handle, example, direction, solve(handle, example, direction, one, rng), solver)
        miopyx.miopenDestroySolution(solution)
        with pytest.raises(miopyx.BadParmError, match="destroyed"):
            solve(handle, example, direction, solution, rng)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(handle, host, rng, dtype):
    example = Example(CASES["3x3"], dtype, "channels last", rng, host)
    direction = int(rng.integers(3))
    try:
        solution = miopyx.miopenFindSolutions(handle, described(example, direction), None, 1)[0]
    except miopyx.UnknownError:
        assert dtype == "float64"
        assert "cl_khr_fp64" not in handle.device.info.extensions
        return
    verify(handle, example, direction, solve(handle, example, direction, solution, rng),
           registry.BY_NAME[solution.solver])


def test_a_problem_keeps_copies(host, rng):
    example = Example(CASES["3x3"], "float32", "packed", rng, host)
    problem = described(example, 0)
    solution = miopyx.miopenFindSolutions(host, problem, None, 1)[0]
    text = repr(problem), repr(solution)
    assert text == ("<FindProblem convolution, forward>", f"<FindSolution {solution.solver} of {text[0]}>")
    other = TensorDescriptor("float32", (1, 2, 3, 4))
    miopyx.miopenSetConvolutionGroupCount(example.conv, 3)
    miopyx.miopenSetProblemTensorDescriptor(problem, CONV[0], other)
    for desc in example.desc[:1]:
        miopyx.miopenSet4dTensorDescriptor(desc, "float32", 1, 1, 1, 1)
    example.conv, example.desc = CASES["3x3"].conv(), Example(CASES["3x3"], "float32", "packed", rng, host).desc
    miopyx.miopenDestroyProblem(problem)
    verify(host, example, 0, solve(host, example, 0, solution, rng), registry.BY_NAME[solution.solver])
    with pytest.raises(miopyx.BadParmError, match="destroyed"):
        miopyx.miopenFindSolutions(host, problem, None, 1)


# Options


def test_order_limit_and_count(cpu, host, rng):
    """A CPU has several solvers for a 3x3, with and without a workspace."""
    example = Example(conv_case(2, 16, 16, (12, 12), (3, 3), (1, 1)), "float32", "packed", rng, host)
    problem, options = described(example, 0), miopyx.miopenCreateFindOptions()
    everything = miopyx.miopenFindSolutions(cpu, problem, options, 99)
    sizes = [miopyx.miopenGetSolutionWorkspaceSize(solution) for solution in everything]
    assert len(everything) > 3
    assert 0 in sizes
    assert max(sizes) > 0
    miopyx.miopenSetFindOptionResultsOrder(options, miopyx.miopenFindResultsOrderByWorkspaceSize)
    ordered = miopyx.miopenFindSolutions(cpu, problem, options, 99)
    assert [miopyx.miopenGetSolutionWorkspaceSize(solution) for solution in ordered] == sorted(sizes)
    assert len(miopyx.miopenFindSolutions(cpu, problem, options, 2)) == 2
    miopyx.miopenSetFindOptionResultsOrder(options, "miopenFindResultsOrderByTime")
    for limit in (0, sorted(sizes)[len(sizes) // 2], (1 << 64) - 1, np.int64(1 << 40)):
        miopyx.miopenSetFindOptionWorkspaceLimit(options, limit)
        found = miopyx.miopenFindSolutions(cpu, problem, options, 99)
        assert found
        assert all(solution.workspace <= limit for solution in found)
    miopyx.miopenSetFindOptionAttachBinaries(options, 1)
    assert options.attach_binaries
    miopyx.miopenDestroyFindOptions(options)
    with pytest.raises(miopyx.BadParmError, match="destroyed"):
        miopyx.miopenFindSolutions(cpu, problem, options, 1)


def test_the_callers_memory(handle, host, rng):
    """The result of the last run stands in the caller's tensor, and nothing beside it or the workspace."""
    example = Example(CASES["3x3"], "float32", "packed", rng, host)
    options = miopyx.miopenCreateFindOptions()
    tensors = [Tensor(handle, desc, values) for desc, values in zip(example.desc, example.data, strict=True)]
    tensors[2] = Tensor(handle, example.desc[2], None)
    workspace = Guarded(handle, 1 << 20, 0xFF)
    for number, tensor in zip(CONV, tensors, strict=True):
        miopyx.miopenSetFindOptionPreallocatedTensor(options, number, tensor.argument())
    miopyx.miopenSetFindOptionPreallocatedWorkspace(options, workspace.argument(), 1 << 20)
    handle.found.clear()
    handle.forget_calls()
    conv = example.conv
    miopyx.miopenSetConvolutionAttribute(conv, "DETERMINISTIC", 1)  # a key that no other test has measured
    solution = miopyx.miopenFindSolutions(handle, described(example, 0), options, 9)[0]
    handle.finish()
    workspace.fetch()
    verify(handle, example, 0, tensors[2].values(), registry.BY_NAME[solution.solver])
    small = Guarded(handle, 64, 0xFF)
    miopyx.miopenSetFindOptionPreallocatedTensor(options, CONV[2], small.argument())
    with pytest.raises(miopyx.MIOpenError):
        miopyx.miopenFindSolutions(handle, described(example, 0), options, 9)


def test_names_of_the_workspace(opencl_handle, host, rng):
    """It is called as the function's parameter is."""
    example = Example(conv_case(2, 6, 5, (7, 9), (3, 3), (1, 1)), "float32", "packed", rng, host)
    found = miopyx.miopenFindSolutions(opencl_handle, described(example, 0), None, 99)
    solution = next(one for one in found if one.workspace)
    arrays = [opencl_handle.upload(np.zeros(d.lens, np.float32)) for d in example.desc]
    given = [(id, None, array) for id, array in zip(CONV, arrays, strict=True)]
    with pytest.raises(miopyx.errors.UnknownError) as raised:
        miopyx.miopenRunSolution(opencl_handle, solution, 3, given, None, solution.workspace - 1)
    assert raised.value.parameter == "workspaceSize"
    with pytest.raises(miopyx.BadParmError) as refused:
        miopyx.miopenRunSolution(opencl_handle, solution, 3, given, None, solution.workspace)
    assert refused.value.parameter == "workspace"


def test_tuning_finds_a_configuration_that_is_kept(opencl_handle, host, rng, setting, tmp_path):
    setting(MIOPEN_USER_DB_PATH=str(tmp_path), MIOPEN_DEBUG_TUNING_ITERATIONS_MAX="2",
            MIOPEN_DEBUG_FIND_ONLY_SOLVER="GemmFwdRest")
    example = Example(conv_case(2, 6, 5, (7, 9), (3, 3), (1, 1)), "float32", "packed", rng, host)
    options = miopyx.miopenCreateFindOptions()
    miopyx.miopenSetFindOptionTuning(options, 1)
    solution = miopyx.miopenFindSolutions(opencl_handle, described(example, 0), options, 1)[0]
    assert solution.solver == "GemmFwdRest"
    assert solution.config
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER="")  # the reference runs by another one
    saved = miopyx.miopenSaveSolution(solution)
    # On a handle that has the solver already, tuned otherwise: the solution keeps to its own, the handle to its.
    fresh = miopyx.Handle(opencl_handle.device.name)
    solver, problem = registry.BY_NAME["GemmFwdRest"], example.problem(0)
    default = solver.default_config(fresh.device, problem)
    others = [c for c in configurations_of(solver, fresh.device, problem) if c != default]
    verify(fresh, example, 0, example.run(fresh, 0, solver, config=default), solver)
    for config in (solution.config, others[rng.integers(len(others))]):
        changed = forged(saved, config=config)
        loaded = miopyx.miopenLoadSolution(changed, len(changed))
        assert loaded.config == config
        before = fresh.invoker(problem, solution.solver_id)
        verify(fresh, example, 0, solve(fresh, example, 0, loaded, rng), solver)
        assert fresh.invoker(problem, solution.solver_id) is before
    bad = forged(saved, config=[1 << 40])
    with pytest.raises(miopyx.BadParmError, match="configuration"):
        solve(fresh, example, 0, miopyx.miopenLoadSolution(bad, len(bad)), rng)
    fresh.destroy()


def test_time_of_the_last_run(opencl_name, host, rng):
    example = Example(CASES["3x3"], "float32", "packed", rng, host)
    handle = miopyx.Handle(opencl_name)
    solution = miopyx.miopenFindSolutions(handle, described(example, 0), None, 1)[0]
    saved = miopyx.miopenSaveSolution(solution)
    miopyx.miopenEnableProfiling(handle, True)
    solve(handle, example, 0, solution, rng)
    assert miopyx.miopenGetSolutionTime(solution) == miopyx.miopenGetKernelTime(handle) > 0
    loaded = miopyx.miopenLoadSolution(saved, len(saved))
    assert miopyx.miopenGetSolutionTime(loaded) > 0
    handle.destroy()


# The other operations


def run(handle, problem, arrays: dict, written: list, numbers: dict | None = None, *, saved: bool = False) -> list:
    """Find and run; `arrays` by id, of which those in `written` are poisoned (float32, or what they hold before)."""
    solution = miopyx.miopenFindSolutions(handle, problem, None, 5)
    assert len(solution) == 1
    assert miopyx.miopenGetSolutionTime(solution[0]) == -1
    assert miopyx.miopenGetSolutionWorkspaceSize(solution[0]) == 0
    solution = solution[0]
    if saved:
        data = miopyx.miopenSaveSolution(solution)
        solution = miopyx.miopenLoadSolution(data, len(data))
    tensors = {number: Tensor(handle, TensorDescriptor("float32", values.shape), values)
               for number, values in arrays.items()}
    arguments = [(number, None, tensor.argument()) for number, tensor in tensors.items()]
    arguments += [(number, None, value) for number, value in (numbers or {}).items()]
    miopyx.miopenRunSolution(handle, solution, len(arguments), arguments, None, 0)
    handle.finish()
    for number, tensor in tensors.items():
        if number not in written:
            tensor.fetch()
            np.testing.assert_array_equal(tensor.view(), arrays[number])
    return [tensors[number].values() for number in written]


def problem_with(problem, descs: dict):
    for number, lens in descs.items():
        miopyx.miopenSetProblemTensorDescriptor(problem, number, TensorDescriptor("float32", lens))
    return problem


LENS = (3, 5, 4, 6)


def nans(lens) -> np.ndarray:
    return np.full(lens, np.nan, np.float32)


@pytest.mark.parametrize("saved", [False, True])
def test_activations(handle, rng, saved):
    x, dy = (rng.standard_normal(LENS).astype(np.float32) for _ in range(2))
    ids = miopyx.miopenTensorArgumentId_t
    leaky = ActivationDescriptor("leaky", 0.25)
    problem = problem_with(miopyx.miopenCreateActivationProblem(leaky, miopyx.miopenProblemDirectionForward),
                           {ids.miopenTensorActivationX: LENS, ids.miopenTensorActivationY: LENS})
    y, = run(handle, problem, {ids.miopenTensorActivationX: x, ids.miopenTensorActivationY: nans(LENS)},
             [ids.miopenTensorActivationY], saved=saved)
    np.testing.assert_array_equal(y, np.where(x > 0, x, np.float32(0.25) * x))
    names = [ids.miopenTensorActivationX, ids.miopenTensorActivationY, ids.miopenTensorActivationDX,
             ids.miopenTensorActivationDY]
    problem = problem_with(miopyx.miopenCreateActivationProblem(leaky, "miopenProblemDirectionBackward"),
                           dict.fromkeys(names, LENS))
    dx, = run(handle, problem, dict(zip(names, (x, y, nans(LENS), dy), strict=True)), names[2:3], saved=saved)
    np.testing.assert_array_equal(dx, np.where(x > 0, dy, np.float32(0.25) * dy))


@pytest.mark.parametrize("saved", [False, True])
def test_softmax_with_the_descriptors_scales(handle, rng, saved):
    """y = alpha softmax(x) + beta y, and its gradient."""
    ids = miopyx.miopenTensorArgumentId_t
    x, old, dy = (rng.standard_normal(LENS).astype(np.float32) for _ in range(3))
    softmax = SoftmaxDescriptor(0.5, 0.25)
    problem = problem_with(miopyx.miopenCreateSoftmaxProblem(softmax, 0),
                           {ids.miopenTensorSoftmaxX: LENS, ids.miopenTensorSoftmaxY: LENS})
    y, = run(handle, problem, {ids.miopenTensorSoftmaxX: x, ids.miopenTensorSoftmaxY: old},
             [ids.miopenTensorSoftmaxY], saved=saved)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(y, 0.5 * exact + 0.25 * old, rtol=1e-5, atol=1e-6)
    names = [ids.miopenTensorSoftmaxY, ids.miopenTensorSoftmaxDY, ids.miopenTensorSoftmaxDX]
    problem = problem_with(miopyx.miopenCreateSoftmaxProblem(SoftmaxDescriptor(), 1), dict.fromkeys(names, LENS))
    values = exact.astype(np.float32), dy, nans(LENS)
    dx, = run(handle, problem, dict(zip(names, values, strict=True)), names[2:], saved=saved)
    wide = values[0].astype(np.float64)
    np.testing.assert_allclose(dx, wide * (dy - (dy * wide).sum(1, keepdims=True)), rtol=1e-5, atol=1e-6)


def test_what_is_no_descriptor_is_refused(handle):
    desc, x, y = TensorDescriptor("float32", (3,)), *(np.full(3, 7, "f4") for _ in range(2))
    problem = miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 0)
    for number in (miopyx.miopenTensorActivationX, miopyx.miopenTensorActivationY):
        miopyx.miopenSetProblemTensorDescriptor(problem, number, desc)
    solution, = miopyx.miopenFindSolutions(handle, problem, None, 1)
    memory = handle.upload(x), handle.upload(y)
    for wrong in (x, np.zeros(0), "x", 3):
        with pytest.raises(miopyx.BadParmError) as raised:
            miopyx.miopenRunSolution(handle, solution, 2, [(miopyx.miopenTensorActivationX, wrong, memory[0]),
                                                           (miopyx.miopenTensorActivationY, desc, memory[1])], None, 0)
        assert raised.value.parameter == "tensors[0]"
    assert (handle.download(memory[1], y) == 7).all()


def test_a_bias(handle, rng):
    ids = miopyx.miopenTensorArgumentId_t
    x, bias = rng.standard_normal(LENS).astype(np.float32), rng.standard_normal((1, 5, 1, 1)).astype(np.float32)
    problem = problem_with(miopyx.miopenCreateBiasProblem(0), {
        ids.miopenTensorBiasX: LENS, ids.miopenTensorBias: bias.shape, ids.miopenTensorBiasY: LENS})
    y, = run(handle, problem, {ids.miopenTensorBiasX: x, ids.miopenTensorBias: bias,
                               ids.miopenTensorBiasY: nans(LENS)}, [ids.miopenTensorBiasY])
    np.testing.assert_array_equal(y, x + bias)
    with pytest.raises(miopyx.MIOpenNotImplementedError, match="bias"):
        miopyx.miopenCreateBiasProblem(1)


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("keep", [False, True])
def test_batch_norm(handle, rng, running, keep):
    """Training, inference and gradients, with and without running and saved statistics."""
    ids = miopyx.miopenTensorArgumentId_t
    factor, epsilon = 0.3, 1e-3
    x, dy = (rng.standard_normal(LENS).astype(np.float32) for _ in range(2))
    scale, bias, mean, variance = (rng.uniform(0.5, 2, (1, 5, 1, 1)).astype(np.float32) for _ in range(4))
    wide, over, count = x.astype(np.float64), (0, 2, 3), 3 * 4 * 6
    m, v = wide.mean(over, keepdims=True), wide.var(over, keepdims=True)
    inv = 1 / np.sqrt(v + epsilon)
    hat = (wide - m) * inv
    small = (1, 5, 1, 1)
    lens = {ids.miopenTensorBatchnormX: LENS, ids.miopenTensorBatchnormY: LENS, ids.miopenTensorBatchnormScale: small,
            ids.miopenTensorBatchnormBias: small}
    arrays = {ids.miopenTensorBatchnormX: x, ids.miopenTensorBatchnormY: nans(LENS),
              ids.miopenTensorBatchnormScale: scale, ids.miopenTensorBatchnormBias: bias}
    written, want = [ids.miopenTensorBatchnormY], [scale * hat + bias]
    if running:
        names = [ids.miopenTensorBatchnormRunningMean, ids.miopenTensorBatchnormRunningVariance]
        arrays |= dict(zip(names, (mean, variance), strict=True))
        written += names
        want += [(1 - factor) * mean + factor * m, (1 - factor) * variance + factor * v * count / (count - 1)]
    saved = [ids.miopenTensorBatchnormSavedMean, ids.miopenTensorBatchnormSavedVariance]
    if keep:
        lens |= dict.fromkeys(saved, small)
        arrays |= {name: nans(small) for name in saved}
        written += saved
        want += [m, inv]
    numbers = {ids.miopenScalarBatchnormExpAvgFactor: factor, ids.miopenScalarBatchnormEpsilon: epsilon}
    problem = problem_with(miopyx.miopenCreateBatchnormProblem(miopyx.miopenBNSpatial, running, 0), lens)
    for got, expected in zip(run(handle, problem, arrays, written, numbers, saved=keep), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)

    numbers = {ids.miopenScalarBatchnormEpsilon: epsilon}
    lens = {name: shape for name, shape in lens.items() if name not in saved}
    problem = problem_with(miopyx.miopenCreateBatchnormProblem(1, False, miopyx.miopenProblemDirectionInference), lens)
    arrays = {
        ids.miopenTensorBatchnormX: x, ids.miopenTensorBatchnormY: nans(LENS), ids.miopenTensorBatchnormScale: scale,
        ids.miopenTensorBatchnormBias: bias, ids.miopenTensorBatchnormEstimatedMean: mean,
        ids.miopenTensorBatchnormEstimatedVariance: variance}
    for wrong in (-epsilon, float("nan")):
        with pytest.raises(miopyx.BadParmError, match="negative, or not a number"):
            run(handle, problem, arrays, [ids.miopenTensorBatchnormY], {ids.miopenScalarBatchnormEpsilon: wrong},
                saved=running)
    y, = run(handle, problem, arrays, [ids.miopenTensorBatchnormY], numbers, saved=running)
    np.testing.assert_allclose(y, scale * (wide - mean) / np.sqrt(variance + epsilon) + bias, rtol=2e-5, atol=2e-5)

    written = [ids.miopenTensorBatchnormDX, ids.miopenTensorBatchnormScaleDiff, ids.miopenTensorBatchnormBiasDiff]
    lens = {ids.miopenTensorBatchnormX: LENS, ids.miopenTensorBatchnormDY: LENS, ids.miopenTensorBatchnormDX: LENS,
            ids.miopenTensorBatchnormScale: small}
    arrays = {ids.miopenTensorBatchnormX: x, ids.miopenTensorBatchnormDY: dy, written[0]: nans(LENS),
              ids.miopenTensorBatchnormScale: scale, written[1]: nans(small), written[2]: nans(small)}
    if keep:
        lens |= dict.fromkeys(saved, small)
        arrays |= dict(zip(saved, (m.astype(np.float32), inv.astype(np.float32)), strict=True))
    problem = problem_with(miopyx.miopenCreateBatchnormProblem(1, False, 1), lens)
    dscale, dbias = (dy * hat).sum(over, keepdims=True), dy.astype(np.float64).sum(over, keepdims=True)
    dx = scale * inv * (dy - dbias / count - hat * dscale / count)
    for got, expected in zip(run(handle, problem, arrays, written, numbers), (dx, dscale, dbias), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def fused(first, *others):
    for other in others:
        miopyx.miopenFuseProblems(first, other)
    return first


def _convolve(x, w):
    """A 3x3 convolution with pads of 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w)


@pytest.mark.parametrize("parts", ["bias", "relu", "bias + relu", "norm", "bias + norm + relu"])
def test_fused_convolutions(handle, rng, parts):
    """conv [+ bias] [+ norm] [+ relu]: what is between is never described, results are near float64's."""
    x, w = rng.standard_normal((2, 5, 9, 8), np.float32), rng.standard_normal((7, 5, 3, 3), np.float32)
    bias, scale, shift, mean = (rng.standard_normal((1, 7, 1, 1), np.float32) for _ in range(4))
    variance = rng.uniform(0.5, 2, (1, 7, 1, 1)).astype("f4")
    per_channel = TensorDescriptor("float32", (1, 7, 1, 1))
    conv = miopyx.miopenCreateConvProblem(miopyx.ConvolutionDescriptor(pads=(1, 1)), 0)
    miopyx.miopenSetProblemTensorDescriptor(conv, CONV[0], TensorDescriptor.of(x))
    miopyx.miopenSetProblemTensorDescriptor(conv, CONV[1], TensorDescriptor.of(w))
    want, others, last = _convolve(x.astype("f8"), w.astype("f8")), [], CONV[2]
    magnitudes = _convolve(np.abs(x).astype("f8"), np.abs(w).astype("f8"))
    arguments = [(CONV[0], x), (CONV[1], w)]
    if "bias" in parts:
        others.append(miopyx.miopenCreateBiasProblem(0))
        miopyx.miopenSetProblemTensorDescriptor(others[-1], miopyx.miopenTensorBias, per_channel)
        arguments.append((miopyx.miopenTensorBias, bias))
        want, magnitudes, last = want + bias, magnitudes + np.abs(bias), miopyx.miopenTensorBiasY
    if "norm" in parts:
        others.append(miopyx.miopenCreateBatchnormProblem(miopyx.miopenBNSpatial, False,
                                                          miopyx.miopenProblemDirectionInference))
        miopyx.miopenSetProblemTensorDescriptor(others[-1], miopyx.miopenTensorBatchnormScale, per_channel)
        arguments += zip((miopyx.miopenTensorBatchnormScale, miopyx.miopenTensorBatchnormBias,
                          miopyx.miopenTensorBatchnormEstimatedMean, miopyx.miopenTensorBatchnormEstimatedVariance,
                          miopyx.miopenScalarBatchnormEpsilon), (scale, shift, mean, variance, 0.01), strict=True)
        factor = scale.astype("f8") / np.sqrt(variance.astype("f8") + 0.01)
        want = (want - mean) * factor + shift
        magnitudes = (magnitudes + np.abs(mean)) * np.abs(factor) + np.abs(shift)
        last = miopyx.miopenTensorBatchnormY
    if "relu" in parts:
        others.append(miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 0))
        want, last = np.maximum(want, 0), miopyx.miopenTensorActivationY
    solutions = miopyx.miopenFindSolutions(handle, fused(conv, *others), None, 2)
    assert 1 <= len(solutions) <= 2
    for solution in solutions:
        saved = miopyx.miopenSaveSolution(solution)
        for one in (solution, miopyx.miopenLoadSolution(saved, len(saved))):
            y = Tensor(handle, TensorDescriptor("float32", want.shape), None)
            given = [(number, None, value if isinstance(value, float) else handle.upload(value))
                     for number, value in arguments] + [(last, None, y.argument())]
            rng.shuffle(given)
            miopyx.miopenRunSolution(handle, one, len(given), [tuple(argument) for argument in given], None, 0)
            handle.finish()
            # Winograd's transforms are the worst of the solvers: their errors are those of a tile's sums.
            assert (np.abs(y.values() - want) <= 2e-4 * magnitudes.max()).all()


@pytest.mark.parametrize("training", [False, True])
def test_fused_batch_norm(handle, rng, training):
    x = rng.standard_normal((4, 6, 5, 5), np.float32)
    scale, shift, mean = (rng.standard_normal((1, 6, 1, 1), np.float32) for _ in range(3))
    variance = rng.uniform(0.5, 2, (1, 6, 1, 1)).astype("f4")
    desc, per_channel = TensorDescriptor.of(x), TensorDescriptor("float32", (1, 6, 1, 1))
    problem = miopyx.miopenCreateBatchnormProblem(1, False, 0 if training else 4)
    miopyx.miopenSetProblemTensorDescriptor(problem, miopyx.miopenTensorBatchnormX, desc)
    miopyx.miopenSetProblemTensorDescriptor(problem, miopyx.miopenTensorBatchnormScale, per_channel)
    fused(problem, miopyx.miopenCreateActivationProblem(ActivationDescriptor("tanh", 1.0, 1.0), 0))
    solution, = miopyx.miopenFindSolutions(handle, problem, None, 2)
    y = Tensor(handle, desc, None)
    given = [(miopyx.miopenTensorBatchnormX, None, handle.upload(x)), (miopyx.miopenTensorActivationY, None,
                                                                       y.argument()),
             (miopyx.miopenTensorBatchnormScale, None, handle.upload(scale)),
             (miopyx.miopenTensorBatchnormBias, None, handle.upload(shift))]
    if training:
        mean = x.astype("f8").mean((0, 2, 3), keepdims=True)
        variance = x.astype("f8").var((0, 2, 3), keepdims=True)
    else:
        given += [(miopyx.miopenTensorBatchnormEstimatedMean, None, handle.upload(mean)),
                  (miopyx.miopenTensorBatchnormEstimatedVariance, None, handle.upload(variance))]
    miopyx.miopenRunSolution(handle, solution, len(given), given, None, 0)
    handle.finish()
    want = np.tanh((x - mean) / np.sqrt(variance.astype("f8") + 1e-5) * scale.astype("f8") + shift)
    np.testing.assert_allclose(y.values(), want, atol=1e-5)


def test_only_solver_of_fused_problems(host, setting):
    """MIOPEN_DEBUG_FIND_ONLY_SOLVER holds for them as for convolutions."""
    x, w, y = (TensorDescriptor("float32", lens) for lens in ((1, 3, 5, 5), (4, 3, 3, 3), (1, 4, 5, 5)))
    problem = miopyx.miopenCreateConvProblem(miopyx.ConvolutionDescriptor((1, 1)), 0)
    for number, desc in zip(CONV, (x, w, y), strict=True):
        miopyx.miopenSetProblemTensorDescriptor(problem, number, desc)
    relu = miopyx.miopenCreateActivationProblem(miopyx.ActivationDescriptor(miopyx.miopenActivationRELU), 0)
    miopyx.miopenFuseProblems(problem, relu)
    everything = miopyx.miopenFindSolutions(host, problem, None, 99)
    last = everything[-1]
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=last.solver)
    assert [one.solver for one in miopyx.miopenFindSolutions(host, problem, None, 99)] == [last.solver]
    other = next(s for s in registry.CONV if s.name not in {one.solver for one in everything})
    setting(MIOPEN_DEBUG_FIND_ONLY_SOLVER=other.name)
    with pytest.raises(miopyx.MIOpenNotImplementedError, match="MIOPEN_DEBUG_FIND_ONLY_SOLVER"):
        miopyx.miopenFindSolutions(host, problem, None, 99)


def test_what_is_not_fused(host):
    conv = miopyx.miopenCreateConvProblem(CASES["3x3"].conv(), 0)
    bias = miopyx.miopenCreateBiasProblem(0)
    relu = miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 0)
    miopyx.miopenFuseProblems(bias, relu)
    miopyx.miopenFuseProblems(conv, bias)
    assert repr(conv) == "<FindProblem convolution + bias + activation>"
    assert relu.kind == "activation"
    with pytest.raises(miopyx.BadParmError, match="itself"):
        miopyx.miopenFuseProblems(conv, conv)
    with pytest.raises(miopyx.BadParmError, match="parts"):
        miopyx.miopenSetProblemTensorDescriptor(conv, CONV[0], TensorDescriptor("float32", (1, 1, 1, 1)))
    with pytest.raises(miopyx.BadParmError) as raised:
        miopyx.miopenFindSolutions(host, conv, None, 1)
    assert raised.value.value == "miopenTensorConvolutionX"
    softmax = miopyx.miopenCreateSoftmaxProblem(SoftmaxDescriptor(), 0)
    for parts in ((relu, softmax), (softmax, relu), (bias, relu)):
        first = miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 0)
        with pytest.raises(miopyx.MIOpenNotImplementedError, match="fuses"):
            miopyx.miopenFindSolutions(host, fused(first, *parts), None, 1)


def test_fused_parts_must_fit(host):
    def problem(after):
        conv = miopyx.miopenCreateConvProblem(miopyx.ConvolutionDescriptor(pads=(1, 1)), 0)
        miopyx.miopenSetProblemTensorDescriptor(conv, CONV[0], TensorDescriptor("float32", (2, 5, 9, 8)))
        miopyx.miopenSetProblemTensorDescriptor(conv, CONV[1], TensorDescriptor("float32", (7, 5, 3, 3)))
        return fused(conv, after)

    for number, lens in ((miopyx.miopenTensorActivationX, (2, 7, 9, 9)), (miopyx.miopenTensorActivationY, (2, 6, 9,
                                                                                                           8))):
        relu = miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 0)
        miopyx.miopenSetProblemTensorDescriptor(relu, number, TensorDescriptor("float32", lens))
        with pytest.raises(miopyx.BadParmError) as raised:
            miopyx.miopenFindSolutions(host, problem(relu), None, 1)
        assert raised.value.parameter == number.name
    with pytest.raises(miopyx.BadParmError, match="descriptor"):
        miopyx.miopenFindSolutions(host, problem(miopyx.miopenCreateBiasProblem(0)), None, 1)


# Errors


@pytest.fixture
def ready(host, rng):
    """A solution on the host, and arguments that run it."""
    example = Example(CASES["3x3"], "float32", "packed", rng, host)
    solution = miopyx.miopenFindSolutions(host, described(example, 0), None, 1)[0]
    out = nans(example.desc[2].lens)
    return solution, [(number, None, values)
                      for number, values in zip(CONV, (*example.data[:2], out), strict=True)], out


def test_arguments_that_do_not_fit(host, ready):
    solution, given, out = ready
    x = given[0][2]

    def refused(arguments, error=miopyx.BadParmError, count=None, solution=solution, size=0):
        with pytest.raises(error) as found:
            miopyx.miopenRunSolution(host, solution, len(arguments) if count is None else count, arguments, None, size)
        assert np.isnan(out).all()
        return str(found.value)

    assert "missing" in refused(given[:2])
    assert "missing" in refused(given, count=2)
    assert "twice" in refused([*given, given[1]])
    assert "no tensor of this problem" in refused([*given[:2], (miopyx.miopenTensorSoftmaxX, None, x)])
    assert "no number of this problem" in refused([*given, (miopyx.miopenScalarBatchnormEpsilon, None, 1.0)])
    assert "unknown" in refused([*given, ("nothing", None, x)])
    assert "(id, descriptor or None, buffer)" in refused([*given[:2], (3, out)])
    assert "nInputs" in refused(given, count=4)
    assert "nInputs" in refused(given, count=-1)
    assert "y" in refused([*given[:2], (3, None, None)])
    refused([*given[:2], (3, None, np.zeros((2, 7, 9, 8), np.float16))])
    refused([(1, TensorDescriptor("float32", (1, 2, 3, 4)), x), *given[1:]], miopyx.MIOpenNotImplementedError)
    refused(given, size=-1)
    refused(given, solution="solution")
    with pytest.raises(miopyx.MIOpenError):
        miopyx.miopenRunSolution(None, solution, 3, given, None, 0)
    miopyx.miopenRunSolution(host, solution, 3, (one for one in given), None, 0)
    assert np.isfinite(out).all()


def test_a_workspace_that_is_too_small(cpu, host, rng):
    example = Example(conv_case(2, 16, 16, (12, 12), (3, 3), (1, 1)), "float32", "packed", rng, host)
    found = miopyx.miopenFindSolutions(cpu, described(example, 0), None, 99)
    solution = next(one for one in found if miopyx.miopenGetSolutionWorkspaceSize(one) > 0)
    arguments = [(number, None, cpu.empty(desc)) for number, desc in zip(CONV, example.desc, strict=True)]
    need = miopyx.miopenGetSolutionWorkspaceSize(solution)
    for workspace, size in ((None, 0), (cpu.empty((need,), "int8"), need - 1), (cpu.empty((need - 1,), "int8"), need)):
        with pytest.raises(miopyx.MIOpenError):
            miopyx.miopenRunSolution(cpu, solution, 3, arguments, workspace, size)


def test_bad_problems_and_options(host):
    conv, tensor = CASES["3x3"].conv(), TensorDescriptor("float32", (1, 5, 9, 8))
    bad, missing = miopyx.BadParmError, miopyx.MIOpenNotImplementedError
    options, problem = miopyx.miopenCreateFindOptions(), miopyx.miopenCreateConvProblem(conv, 0)
    for error, call in (
        (bad, lambda: miopyx.miopenCreateConvProblem(tensor, 0)),
        (bad, lambda: miopyx.miopenCreateConvProblem(conv, 3)),
        (missing, lambda: miopyx.miopenCreateConvProblem(conv, 4)),
        (bad, lambda: miopyx.miopenCreateActivationProblem(conv, 0)),
        (missing, lambda: miopyx.miopenCreateActivationProblem(ActivationDescriptor("relu"), 2)),
        (bad, lambda: miopyx.miopenCreateSoftmaxProblem(conv, 0)),
        (missing, lambda: miopyx.miopenCreateSoftmaxProblem(SoftmaxDescriptor(), 4)),
        (bad, lambda: miopyx.miopenCreateBatchnormProblem(2, True, 0)),
        (bad, lambda: miopyx.miopenCreateBatchnormProblem(1, 2, 0)),
        (missing, lambda: miopyx.miopenCreateBatchnormProblem(1, True, 2)),
        (bad, lambda: miopyx.miopenSetProblemTensorDescriptor(problem, miopyx.miopenTensorSoftmaxX, tensor)),
        (bad, lambda: miopyx.miopenSetProblemTensorDescriptor(problem, 1, conv)),
        (bad, lambda: miopyx.miopenSetProblemTensorDescriptor(options, 1, tensor)),
        (bad, lambda: miopyx.miopenFindSolutions(host, problem, None, 1)),  # no descriptors yet
        (bad, lambda: miopyx.miopenFindSolutions(host, problem, options, 0)),
        (bad, lambda: miopyx.miopenFindSolutions(host, None, None, 1)),
        (bad, lambda: miopyx.miopenFindSolutions(host, problem, problem, 1)),
        (bad, lambda: miopyx.miopenSetFindOptionTuning(options, 2)),
        (bad, lambda: miopyx.miopenSetFindOptionResultsOrder(options, 2)),
        (bad, lambda: miopyx.miopenSetFindOptionWorkspaceLimit(options, -1)),
        (bad, lambda: miopyx.miopenSetFindOptionPreallocatedWorkspace(options, None, -1)),
        (bad, lambda: miopyx.miopenSetFindOptionPreallocatedTensor(options, 9999, None)),
        (bad, lambda: miopyx.miopenSetFindOptionPreallocatedTensor(options, miopyx.miopenScalarBatchnormEpsilon, None)),
        (bad, lambda: miopyx.miopenSetFindOptionAttachBinaries(options, 3)),
        (bad, lambda: miopyx.miopenDestroyProblem(options)),
        (bad, lambda: miopyx.miopenDestroyFindOptions(problem)),
        (bad, lambda: miopyx.miopenDestroySolution(problem)),
        (bad, lambda: miopyx.miopenGetSolutionTime(None)),
        (bad, lambda: miopyx.miopenGetSolutionSolverId(problem)),
        (bad, lambda: miopyx.miopenGetSolutionWorkspaceSize(problem)),
        (bad, lambda: miopyx.miopenGetSolutionSize(problem)),
        (bad, lambda: miopyx.miopenSaveSolution(problem)),
        (bad, lambda: miopyx.miopenGetSolverIdConvAlgorithm(0)),
        (TypeError, miopyx.FindProblem), (TypeError, miopyx.FindSolution),
    ):
        with pytest.raises(error):
            call()
    for call in (miopyx.miopenDestroyProblem, miopyx.miopenDestroyFindOptions, miopyx.miopenDestroySolution):
        call(None)
    norm = problem_with(miopyx.miopenCreateBatchnormProblem(1, True, 0), {48: LENS, 49: LENS, 54: (1, 5, 1, 1)})
    miopyx.miopenSetProblemTensorDescriptor(norm, 58, TensorDescriptor("float64", (1, 5, 1, 1)))
    with pytest.raises(missing, match="different descriptors"):
        miopyx.miopenFindSolutions(host, norm, None, 1)


def test_damaged_bytes(ready):
    """Whichever byte is another one, and wherever they end."""
    data = miopyx.miopenSaveSolution(ready[0])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises((miopyx.InvalidValueError, miopyx.VersionMismatchError)):
            miopyx.miopenLoadSolution(damaged, len(damaged))
        with pytest.raises((miopyx.InvalidValueError, miopyx.VersionMismatchError)):
            miopyx.miopenLoadSolution(data, at)
    for size in (-1, len(data) + 1):
        with pytest.raises(miopyx.BadParmError, match="size"):
            miopyx.miopenLoadSolution(data, size)
    with pytest.raises(miopyx.BadParmError):
        miopyx.miopenLoadSolution("text", 4)
    with pytest.raises(miopyx.InvalidValueError, match="too long"):
        miopyx.miopenLoadSolution(bytes(1 << 21), 1 << 21)


def forged(data: bytes, **fields) -> bytes:
    """A saved solution with other fields, and the digest that belongs to them."""
    name, _, body = data.split(b"\n", 2)
    body = json.dumps(json.loads(body) | fields).encode()
    return b"\n".join((name, blake2b(body, digest_size=16).hexdigest().encode(), body))


def test_bytes_that_somebody_made(host, ready, rng):
    """With a digest that fits: what is in them is checked all the same, and nothing else's solution runs."""
    solution, given, out = ready
    data = miopyx.miopenSaveSolution(solution)
    tensors = json.loads(data.split(b"\n", 2)[2])["tensors"]
    huge = [["set_tensor", 1, 4, [1 << 40] * 4, [1, 1, 1, 1], True]]
    for fields in (
        {"kind": "pooling"}, {"kind": []}, {"direction": 7}, {"direction": "0"}, {"operation": [["exec", "1"]]},
        {"operation": [["__class__"]]}, {"operation": 5}, {"operation": [[]]},
        {"operation": [["set_convolution", 2, [-1, 0], [1, 1], [1, 1], 0, [0, 0]]]}, {"tensors": []}, {"tensors": {}},
        {"tensors": {**tensors, "1": huge}}, {"tensors": {**tensors, "99": tensors["1"]}},
        {"tensors": {**tensors, "x": tensors["1"]}}, {"tensors": {**tensors, "1": [["set_group_count", 1]]}},
        {"solver": "nobody"}, {"solver": 5}, {"solver": []}, {"config": ["a"]}, {"config": 5}, {"config": [1 << 70]},
        {"workspace": -1}, {"workspace": None}, {"time": "now"},
    ):
        bad = forged(data, **fields)
        with pytest.raises(miopyx.InvalidValueError):
            miopyx.miopenLoadSolution(bad, len(bad))
    other = forged(data, build="0_0_0_00000000")
    with pytest.raises(miopyx.VersionMismatchError, match="other kernels"):
        miopyx.miopenLoadSolution(other, len(other))
    other = data.replace(b"miopyx solution 1", b"miopyx solution 2", 1)
    with pytest.raises(miopyx.VersionMismatchError, match="another version"):
        miopyx.miopenLoadSolution(other, len(other))
    # What can only be said on a device.
    for fields, error in (({"stamp": "another"}, miopyx.BadParmError), ({"config": [3, 5]}, miopyx.MIOpenError),
                          ({"solver": "NvWgmmaFwd"}, miopyx.MIOpenError),
                          ({"tensors": {**tensors, "3": tensors["1"]}}, miopyx.MIOpenError)):
        changed = forged(data, **fields)
        loaded = miopyx.miopenLoadSolution(changed, len(changed))
        fresh = miopyx.Handle("host")
        with pytest.raises(error):
            miopyx.miopenRunSolution(fresh, loaded, 3, given, None, 0)
        assert np.isnan(out).all()


def test_a_solution_of_another_device(cpu, host, ready):
    solution, given, out = ready
    with pytest.raises(miopyx.BadParmError, match="another device"):
        miopyx.miopenRunSolution(cpu, solution, 3, given, None, 0)
    assert np.isnan(out).all()


class Clears:
    """A number that empties the list that it lies in when it is looked at."""

    def __init__(self, arguments: list, number: int) -> None:
        self.arguments, self.number = arguments, number

    def __index__(self) -> int:
        self.arguments.clear()
        gc.collect()
        return self.number


def test_a_list_that_is_emptied_during_the_call(host, ready):
    """The call holds its buffers itself."""
    solution, given, out = ready
    want = out.copy()
    miopyx.miopenRunSolution(host, solution, 3, [*given[:2], (CONV[2], None, want)], None, 0)
    arguments: list = []
    # Nobody else holds these copies.
    arguments += [(number, None, values.copy()) for number, _, values in given[:2]]
    arguments.append((Clears(arguments, int(CONV[2])), None, out))
    miopyx.miopenRunSolution(host, solution, 3, arguments, None, 0)
    assert not arguments
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("kind", [miopyx.FindProblem, miopyx.FindOptions, miopyx.FindSolution])
def test_objects_that_no_function_made(host, kind):
    empty, tensor = kind.__new__(kind), TensorDescriptor("float32", (1, 1, 1, 1))
    calls = {
        "FindProblem": [lambda: miopyx.miopenFindSolutions(host, empty, None, 1),
                        lambda: miopyx.miopenSetProblemTensorDescriptor(empty, 1, tensor)],
        "FindOptions": [lambda: miopyx.miopenSetFindOptionTuning(empty, 1)],
        "FindSolution": [lambda: miopyx.miopenGetSolutionWorkspaceSize(empty),
                         lambda: miopyx.miopenSaveSolution(empty)],
    }[kind.__name__]
    for call in calls:
        with pytest.raises(miopyx.BadParmError, match="no function made"):
            call()


def test_objects_are_not_copied(ready):
    """A copy would share what the original may change."""
    for one in (ready[0], ready[0].problem, miopyx.miopenCreateFindOptions()):
        for copying in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="not copied"):
                copying(one)


def test_nothing_was_measured(opencl_name, host, rng, monkeypatch, tmp_path):
    """What FAST takes by rank has no time."""
    monkeypatch.setenv("MIOPEN_USER_DB_PATH", str(tmp_path))
    monkeypatch.setenv("MIOPEN_FIND_MODE", "FAST")
    example = Example(conv_case(2, 3, 5, (13, 19), (3, 3), (1, 1)), "float32", "packed", rng, host)
    handle = miopyx.Handle(opencl_name)
    solution = miopyx.miopenFindSolutions(handle, described(example, 0), None, 1)[0]
    assert miopyx.miopenGetSolutionTime(solution) == -1
    handle.destroy()


def test_bytes_that_raise_elsewhere(ready):
    """Nested too deep for JSON, or refused by a setter under another status."""
    data = miopyx.miopenSaveSolution(ready[0])
    name, _, body = data.split(b"\n", 2)
    deep = b"[" * 200_000
    operation = json.loads(body)["operation"]
    for bad in (b"\n".join((name, blake2b(deep, digest_size=16).hexdigest().encode(), deep)),
                forged(data, operation=[*operation, ["set_output_pads", 1_000_000, [1]]])):
        with pytest.raises(miopyx.InvalidValueError):
            miopyx.miopenLoadSolution(bad, len(bad))
    with pytest.raises(miopyx.BadParmError):
        miopyx.miopenLoadSolution(np.zeros(3, "M8[s]"), 3)
