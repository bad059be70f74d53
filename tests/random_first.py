"""Random problems of the first operations: convolutions by their functions, tensor operations, pooling, LRN."""

from __future__ import annotations

import numpy as np
import test_lrn
import test_pooling
from drawn import HOST, one_of, some_convolution, some_lens, some_type
from guarded import DTYPE, LAYOUTS, Guarded, Tensor
from solver_checks import OUTPUT, Example, arguments, immediate, verify
from test_tensor_ops import OPS, any_strides, saturated, within

import miopyx
from miopyx import LRNDescriptor, TensorDescriptor
from miopyx.solvers import registry

NAMES = "Forward", "BackwardData", "BackwardWeights"


def in_order(example, direction):
    """Descriptors as a direction's functions that ask about solutions take them."""
    x, w, y = example.desc
    return ((w, x, example.conv, y), (y, w, example.conv, x), (y, x, example.conv, w))[direction]


def run_immediate(handle, rng):
    """A solution that immediate mode names, compiled ahead or not."""
    dtype = one_of(rng, some_type(handle, rng), some_type(handle, rng), "int8")
    example = Example(some_convolution(rng), dtype, one_of(rng, *LAYOUTS), rng, HOST())
    direction = 0 if dtype == "int8" else int(rng.integers(3))
    given = handle, *in_order(example, direction)

    def ask(what, *more):
        return getattr(miopyx, f"miopenConvolution{NAMES[direction]}{what}")(*given, *more)

    found = ask("GetSolution", ask("GetSolutionCount"))
    one = found[int(rng.integers(len(found)))]
    size = ask("GetSolutionWorkspaceSize", one.solution_id)
    assert size == one.workspace_size
    if rng.integers(2):
        ask("CompileSolution", one.solution_id)
    verify(handle, example, direction, called(
        handle, example, direction, size,
        lambda buffers, workspace: immediate(handle, direction, example.desc, example.conv, buffers, workspace, size,
                                             one.solution_id)), registry.BY_ID[one.solution_id])


def called(handle, example, direction, size, call):
    """What a call computes in poisoned memory with a workspace of `size` bytes."""
    tensors = [Tensor(handle, desc, values) for desc, values in zip(example.desc, example.data, strict=True)]
    out, workspace = Tensor(handle, example.desc[OUTPUT[direction]], None), Guarded(handle, size, 0xFF)
    tensors[OUTPUT[direction]] = out
    memory = [None if t is out else t.argument() for t in tensors]
    call(arguments(direction, memory, out.argument()), workspace.argument() if size else None)
    handle.finish()
    workspace.fetch()
    return out.values()


def run_convolution(handle, rng):
    """Find, which times on the caller's memory, and the function that takes its algorithm."""
    example = Example(some_convolution(rng, 7), some_type(handle, rng), one_of(rng, *LAYOUTS), rng, HOST())
    direction = int(rng.integers(3))
    x, w, y = example.desc
    tell = getattr(miopyx, f"miopenConvolution{NAMES[direction]}GetWorkSpaceSize")
    size = tell(handle, *in_order(example, direction))
    find = getattr(miopyx, f"miopenFindConvolution{NAMES[direction]}Algorithm")
    compute = getattr(miopyx, f"miopenConvolution{NAMES[direction]}")
    first, second, result = ((x, w, y), (y, w, x), (y, x, w))[direction]

    def call(buffers, workspace):
        a, b, c = buffers
        found = find(handle, first, a, second, b, example.conv, result, c, 4, workspace, size, bool(rng.integers(2)))
        one = found[int(rng.integers(len(found)))]
        assert one.memory <= size
        call.algorithm = int(one.algo)
        compute(handle, 1.0, first, a, second, b, example.conv, one.algo, 0.0, result, c, workspace, one.memory)

    got = called(handle, example, direction, size, call)
    able = [s for s in registry.CONV if s.algorithm == call.algorithm
            and s.why_not(handle.device, example.problem(direction)) is None]
    # Which of an algorithm's solvers it was nobody says: the loosest bound of theirs.
    solver = max(able, key=lambda s: (s.mixes_tiles, s.error_bound(handle.device, example.problem(direction))))
    verify(handle, example, direction, got, solver)


# Tensors


def any_tensor(handle, rng, dtype, lens, values=None):
    return Tensor(handle, TensorDescriptor(dtype, lens, any_strides(lens, rng)), values)


def some_values(rng, dtype, lens):
    if dtype.startswith("int"):
        return rng.integers(-100, 100, lens)
    return rng.standard_normal(lens)


def now(tensor):
    """The elements as they are, in float64."""
    return tensor.view().astype(np.float64)


def run_op_tensor(handle, rng):
    dtype, lens, op = one_of(rng, some_type(handle, rng), some_type(handle, rng), "int8", "int32"), some_lens(
        rng), one_of(rng, *OPS)
    whole = dtype.startswith("int")
    a = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens))
    small = tuple(n if rng.integers(2) else 1 for n in lens)
    b = any_tensor(handle, rng, dtype, small, some_values(rng, dtype, small))
    alpha1, alpha2, beta = (one_of(rng, 1, 1, float(rng.integers(-3, 4)) if whole else float(np.float32(
        rng.standard_normal()))) for _ in range(3))
    beta = one_of(rng, 0, beta)
    c = one_of(rng, a, None, None)
    c = c or any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens) if beta or whole else None)
    x, y, old = alpha1 * now(a), alpha2 * now(b), beta * now(c) if beta else 0
    memory = a.argument()
    miopyx.miopenOpTensor(handle, getattr(miopyx, f"miopenTensorOp{op}"), alpha1, a.desc, memory, alpha2, b.desc,
                          b.argument(), beta, c.desc, memory if c is a else c.argument())
    handle.finish()
    want = OPS[op](x, y) + old
    if whole:
        np.testing.assert_array_equal(c.values(), saturated(want, dtype))
    else:
        within(c.values(), want, (np.abs(x * y) if op == "Mul" else np.abs(x) + np.abs(y)) + np.abs(old), dtype)


def run_fill_and_scale(handle, rng):
    """miopenSetTensor and miopenScaleTensor of one tensor."""
    dtype, lens = one_of(rng, some_type(handle, rng), "int32"), some_lens(rng)
    y = any_tensor(handle, rng, dtype, lens)
    value = float(rng.integers(-9, 9)) if dtype == "int32" else float(np.float32(rng.standard_normal()))
    miopyx.miopenSetTensor(handle, y.desc, y.argument(), value)
    handle.finish()
    np.testing.assert_array_equal(y.values(), float(np.array(value).astype(DTYPE[dtype])))
    y = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens))
    old, factor = now(y), float(np.float32(rng.standard_normal() * 3))
    miopyx.miopenScaleTensor(handle, y.desc, y.argument(), factor)
    handle.finish()
    if dtype == "int32":
        np.testing.assert_array_equal(y.values(), saturated(factor * old, dtype))
    else:
        within(y.values(), factor * old, np.abs(factor * old), dtype, 1)


def run_transform(handle, rng):
    dtype, lens = one_of(rng, some_type(handle, rng), "int32"), some_lens(rng)
    x = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens))
    alpha, beta = one_of(rng, (1, 0), (-2, 0), (0.5, 3))
    y = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens) if beta or dtype == "int32" else None)
    old = beta * now(y) if beta else 0
    miopyx.miopenTransformTensor(handle, alpha, x.desc, x.argument(), beta, y.desc, y.argument())
    handle.finish()
    want = alpha * now(x) + old
    if dtype == "int32":
        np.testing.assert_array_equal(y.values(), saturated(want, dtype))
    else:
        within(y.values(), want, np.abs(alpha * now(x)) + np.abs(old), dtype, 3)


def run_bias_functions(handle, rng):
    """miopenConvolutionForwardBias and its gradient."""
    dtype, lens = some_type(handle, rng), some_lens(rng, 2, 5)
    small = (1, lens[1], *[1] * (len(lens) - 2))
    b = any_tensor(handle, rng, dtype, small, some_values(rng, dtype, small))
    y = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens))
    alpha, beta = one_of(rng, (1, 0), (0.5, 0), (1, -2))
    old = now(y)
    miopyx.miopenConvolutionForwardBias(handle, alpha, b.desc, b.argument(), beta, y.desc, y.argument())
    handle.finish()
    terms = np.abs(alpha) * (np.abs(old) + np.abs(now(b))) + np.abs(beta * old)
    within(y.values(), alpha * (old + now(b)) + beta * old, terms, dtype)
    dy, db = any_tensor(handle, rng, dtype, lens, some_values(rng, dtype, lens)), any_tensor(handle, rng, dtype, small)
    alpha, beta = one_of(rng, (1, 0), (0.5, 0), (1, -2))
    if beta:
        db.view()[...] = some_values(rng, dtype, small)
    old = beta * now(db) if beta else 0
    miopyx.miopenConvolutionBackwardBias(handle, alpha, dy.desc, dy.argument(), beta, db.desc, db.argument())
    handle.finish()
    axes = (0, *range(2, len(lens)))
    want, terms = (f(now(dy)).sum(axes, keepdims=True) for f in (np.asarray, np.abs))
    within(db.values(), alpha * want + old, np.abs(alpha) * terms + np.abs(old), dtype, 4 + np.prod(lens) // lens[1])


# Pooling and LRN


def run_pooling(handle, rng):
    test_pooling.check_pooling(handle, *test_pooling.random_problem(rng, some_type(handle, rng)), rng)


def run_lrn(handle, rng):
    """Forward with its scales, and backward."""
    case = test_lrn.random_case(rng, some_type(handle, rng))
    descs = [TensorDescriptor(case.dtype, case.lens, any_strides(case.lens, rng)) for _ in range(4)]
    x, y = Tensor(handle, descs[0], 2 * rng.standard_normal(case.lens)), Tensor(handle, descs[1], None)
    lrn = LRNDescriptor(case.mode, case.n, case.alpha, case.beta, case.k)
    size = miopyx.miopenLRNGetWorkSpaceSize(y.desc)
    kept = np.dtype("f8" if case.dtype == "float64" else "f4")
    space = Guarded(handle, size, 0xFF)
    scales = space.argument()
    miopyx.miopenLRNForward(handle, lrn, 1, x.desc, x.argument(), 0, y.desc, y.argument(), True, scales)
    handle.finish()
    s, want = test_lrn.exact_forward(now(x), case.mode, case.n, case.alpha, case.beta, case.k)
    u = test_lrn.arithmetic(handle, case)
    bound, scale_bound = test_lrn.forward_bounds(case, s, want, u)
    test_lrn.assert_close(y.values(), want, bound, f"y: {case}")
    found = np.lib.stride_tricks.as_strided(space.fetch()[:size].view(kept), case.lens, [
        stride * kept.itemsize for stride in y.desc.strides]).astype(np.float64)
    test_lrn.assert_close(found, s, scale_bound, f"scales: {case}")
    dx, dy = Tensor(handle, descs[2], None), Tensor(handle, descs[3], rng.standard_normal(case.lens))
    miopyx.miopenLRNBackward(handle, lrn, None, y.desc, y.argument(), dy.desc, dy.argument(), x.desc, x.argument(),
                             None, dx.desc, dx.argument(), scales)
    handle.finish()
    want = test_lrn.exact_backward(now(x), now(y), now(dy), found, case.mode, case.n, case.alpha, case.beta)
    sizes = test_lrn.backward_sizes(case, now(x), now(y), now(dy), found)
    test_lrn.assert_close(dx.values(), want, test_lrn.backward_bound(case, want, found, *sizes, u), f"dx: {case}")
