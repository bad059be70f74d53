"""Immediate mode: solutions, their workspaces, and running one by its id."""

import numpy as np
import pytest
from problems import DIRECTIONS, NAMES, Problem

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenError, UnknownError
from miopyx.solvers import registry


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
@pytest.mark.parametrize("mode", [0, 1], ids=["conv", "trans"])
@pytest.mark.parametrize("filter", [(1, 1), (3, 3)], ids=["1x1", "3x3"])
def test_every_solution_runs(handle, rng, direction, mode, filter):
    problem = Problem(handle, rng, filter=filter, pads=(filter[0] // 2,) * 2, mode=mode, groups=2)
    solutions = problem.call("GetSolution", direction, 99)
    assert len(solutions) == problem.call("GetSolutionCount", direction) > 0
    assert [s.time for s in solutions] == sorted(s.time for s in solutions)
    for solution in solutions:
        assert solution.algorithm == registry.BY_ID[solution.solution_id].algorithm
        assert miopyx.solver_id(miopyx.solver_name(solution.solution_id)) == solution.solution_id
        size = problem.call("GetSolutionWorkspaceSize", direction, solution.solution_id)
        assert size == solution.workspace_size <= problem.call("GetWorkSpaceSize", direction)
        assert problem.call("CompileSolution", direction, solution.solution_id) is None
        problem.reset()
        problem.poison(direction)
        problem.immediate(direction, solution.solution_id, size)
        problem.close(direction)
        if size:
            with pytest.raises(UnknownError, match="workspace is smaller"):
                problem.immediate(direction, solution.solution_id, size - 1)
            if handle.device.is_host or handle.device.shares_memory:
                problem.workspace = lambda said: np.zeros(said - 1, np.uint8)
                with pytest.raises(BadParmError, match="too small"):
                    problem.immediate(direction, solution.solution_id, size)
                del problem.workspace
    assert problem.call("GetSolution", direction, 0) == []
    assert problem.call("GetSolution", direction, 1) == solutions[:1]
    with pytest.raises(BadParmError):
        problem.call("GetSolution", direction, -1)


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_bad_solution_ids(handle, rng, direction):
    problem = Problem(handle, rng)
    refused = next(s.id for s in registry.CONV if s.direction != direction)
    for bad in (0, -1, 12345, 2**40, refused, None, 1.5, "85"):
        for call in ("GetSolutionWorkspaceSize", "CompileSolution"):
            with pytest.raises(BadParmError):
                problem.call(call, direction, bad)
        with pytest.raises(BadParmError):
            problem.immediate(direction, bad, 0)
    with pytest.raises(BadParmError, match="not applicable"):
        problem.immediate(direction, refused, 0)


def test_a_workspace_beside_the_grid_of_vectors(gpu, rng, monkeypatch):
    import pyopencl.array as cl_array

    problem = Problem(gpu, rng)
    solution = next(s for s in problem.call("GetSolution", 0, 99) if s.workspace_size)
    buffer = cl_array.zeros(gpu.queue, (solution.workspace_size + 32,), np.uint8)
    for begin in (1, 4, 8, 16):
        monkeypatch.setattr(problem, "workspace", lambda size, begin=begin: buffer[begin:begin + size])
        problem.poison(0)
        if begin == 16:
            problem.immediate(0, solution.solution_id, solution.workspace_size)
            problem.close(0)
        else:
            with pytest.raises(BadParmError, match="misaligned offset"):
                problem.immediate(0, solution.solution_id, solution.workspace_size)


def buffer_of(handle, elements):
    return handle.upload(np.zeros(max(elements, 1), np.float32))


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_short_buffers_and_nulls_are_found_before_anything_runs(handle, rng, direction):
    problem = Problem(handle, rng)
    solution = problem.call("GetSolution", direction, 1)[0]
    output = (2, 0, 1)[direction]
    before = problem.result(direction).copy()
    for which in range(3):
        for bad in ("short", None, 0, "text", object()):
            problem.reset()
            good = problem.data[which]
            problem.data[which] = buffer_of(handle, problem.host[which].size - 1) if bad == "short" else bad
            with pytest.raises(MIOpenError) as caught:
                problem.immediate(direction, solution.solution_id, solution.workspace_size)
            assert caught.value.parameter is not None
            problem.data[which] = good
            if which != output:
                assert (problem.result(direction) == before).all()


def test_mixed_and_ill_fitting_descriptors(handle, rng):
    problem = Problem(handle, rng)
    x, w, y, conv = problem.x, problem.w, problem.y, problem.conv
    count = miopyx.miopenConvolutionForwardGetSolutionCount
    half = [TensorDescriptor("float16", d.lens) for d in (x, w, y)]
    bad = [
        (w, half[0], conv, y), (half[1], x, conv, y), (w, x, conv, half[2]),
        (w, x, conv, TensorDescriptor("float32", (*y.lens[:3], y.lens[3] + 1))),
        (w, x, conv, TensorDescriptor("float32", (y.lens[0] + 1, *y.lens[1:]))),
        (w, TensorDescriptor("float32", x.lens[:3]), conv, y),
        (TensorDescriptor("float32", (*w.lens, 1)), x, conv, y),
        (w, x, ConvolutionDescriptor((1, 1, 1)), y),
        (TensorDescriptor("float32", (10, 5, 3, 3)), x, conv, y),
        (w, x, ConvolutionDescriptor((1, 1), groups=4), y),
        (w, x, ConvolutionDescriptor((1, 1), groups=3), y),
        (w, x, conv, TensorDescriptor("float32", y.lens, (0x100, 10, 1, 1))),
        (None, x, conv, y), (w, None, conv, y), (w, x, None, y), (w, x, conv, None), (w, x, conv, conv), (x, x, y, x),
        (w, TensorDescriptor(), conv, y),
    ]
    for arguments in bad:
        with pytest.raises(BadParmError):
            count(handle, *arguments)
    for not_a_handle in (None, 5, "host", conv):
        with pytest.raises(BadParmError):
            count(not_a_handle, w, x, conv, y)


def test_int8(handle, rng):
    x, w = TensorDescriptor("int8", (2, 5, 7, 6)), TensorDescriptor("int8", (4, 5, 3, 3))
    conv = ConvolutionDescriptor((1, 1))
    xs, ws = (rng.integers(-128, 128, d.lens).astype(np.int8) for d in (x, w))
    padded = np.pad(xs.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    want = sum(np.einsum("nchw,kc->nkhw", padded[:, :, r:r + 7, s:s + 6], ws[:, :, r, s].astype(np.int64))
               for r in range(3) for s in range(3))
    for out in ("int32", "float32", "int8"):
        y = TensorDescriptor(out, (2, 4, 7, 6))
        result = handle.upload(np.full(y.lens, 77, out))
        for solution in miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 9):
            plan = handle.convolution_forward(x, w, conv, y, solution_id=solution.solution_id)
            plan(handle.upload(xs), handle.upload(ws), result)
            got = handle.download(result, np.empty(y.lens, out))
            np.testing.assert_array_equal(got, want.astype(out))
    conv, lens = ConvolutionDescriptor((1, 1), mode=miopyx.miopenTranspose), (2, 4, 7, 6)
    turned = TensorDescriptor("int8", (5, 4, 3, 3))
    flipped = np.ascontiguousarray(ws[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    for out in ("int32", "float32"):
        y = TensorDescriptor(out, lens)
        result = handle.upload(np.full(lens, 77, out))
        plan = handle.convolution_forward(x, turned, conv, y)
        plan(handle.upload(xs), handle.upload(flipped), result)
        np.testing.assert_array_equal(handle.download(result, np.empty(lens, out)), want.astype(out))
    conv = ConvolutionDescriptor((1, 1))
    for bad in ("float16", "float64", "int64"):
        with pytest.raises(BadParmError):
            miopyx.miopenConvolutionForwardGetSolutionCount(handle, w, x, conv, TensorDescriptor(bad, (2, 4, 7, 6)))
    y = TensorDescriptor("int32", (2, 4, 7, 6))
    with pytest.raises(BadParmError, match="weight gradient of int8"):
        miopyx.miopenConvolutionBackwardWeightsGetSolutionCount(handle, y, x, conv, w)


def test_types_without_a_solver(handle):
    x, w = TensorDescriptor("int64", (1, 1, 4, 4)), TensorDescriptor("int64", (1, 1, 1, 1))
    conv = ConvolutionDescriptor()
    with pytest.raises(miopyx.MIOpenNotImplementedError):
        miopyx.miopenConvolutionForwardGetSolutionCount(handle, w, x, conv, x)
    blocked = TensorDescriptor("float32", (1, 8, 4, 4), layout=miopyx.miopenTensorNCHWc4)
    plain = TensorDescriptor("float32", (1, 2, 1, 1))
    with pytest.raises(miopyx.MIOpenNotImplementedError, match="vectorised"):
        miopyx.miopenConvolutionForwardGetSolutionCount(handle, plain, blocked, conv, blocked)
