"""Random problems of all operations, by each door: functions, plans, Find 2.0, graphs.

    python -P tests/random_operations.py                                            all, 100 problems of each
    python -P tests/random_operations.py --operation rnn ctc --device host --count 5000 --seed 7 --against begin

Buffers are exactly as large as the API says and lie against a page that nobody may touch: at its end, or with
`--against begin` at its beginning.  Outputs are poisoned; what a call only reads must be the same afterwards.  Results
are compared with NumPy's in float64 by the checks of the operation's own tests (test_reduce, test_rnn ...), which
state their bounds; a convolution that something follows is the host path's in float64.  So does each problem start
with some calls of which one argument is another one (a shorter buffer, a type, a length, a number, nothing): these
raise a MIOpenError and leave the caller's memory alone, or compute something.

Each operation runs in a process of its own, on devices `--together` problems, of one type of tensors, in each.  Where
one dies, the number of its problem is reported, and the next process goes on behind it.  `--first N --count 1` repeats
problem N of the host; `--plain` leaves the wrong calls out.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import json
import mmap
import os
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path

import numpy as np
import pytest

import miopyx
from miopyx import MIOpenError, TensorDescriptor
from miopyx.device import devices
from miopyx.problem._rnn import SeqTensorDescriptor
from miopyx.runtime import programs

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import cuda_stub
import drawn
import guarded
import random_find2
import random_first
import random_graphs
import test_adam
import test_batchnorm_activation
import test_cat
import test_ctc
import test_dropout
import test_elements
import test_fusion
import test_getitem
import test_kthvalue
import test_layernorm
import test_multimargin
import test_reduce
import test_rnn
from drawn import (
    HOST,
    KNOWN,
    another,
    flat,
    handle_of,
    length,
    one_of,
    some_convolution,
    some_layer,
    some_layouts,
    some_lens,
    some_type,
)
from guarded import DTYPE, LAYOUTS, Tensor
from solver_checks import Example

SHOWS = os.environ.get("SHOW_WRONG_CALLS") == "1"


# One problem of each operation


def run_norm(kind):
    def run(handle, rng):
        lens = some_lens(rng)
        number = int(rng.integers(0, len(lens) + 1))
        if kind == test_layernorm.GROUP:
            number = length(rng, 6)
            rest = some_lens(rng, 0, 3, 300)
            lens = (length(rng, 5), number * length(rng, 9), *rest)
        test_layernorm.check_problem(handle, kind, some_type(handle, rng), lens, number, rng)
    return run


def run_reduce(handle, rng):
    lens = some_lens(rng)
    axes = tuple(sorted(int(i) for i in rng.choice(len(lens), int(rng.integers(1, len(lens) + 1)), replace=False)))
    op, layouts = one_of(rng, *test_reduce.OPS), some_layouts(rng)
    pattern = one_of(rng, None, test_reduce.few_values, test_reduce.with_nans)
    types = some_type(handle, rng), some_type(handle, rng)
    comp = one_of(rng, "float32", "float32", "float16", "float64" if "float64" in types or handle.device.fp64 else
                  "float32")
    numbers = one_of(rng, (1.0, 0.0), (1.0, 0.0), (-0.5, 0.0), (2.0, 1.5))
    if pattern is test_reduce.with_nans and op not in test_reduce.EXTREMES:
        pattern = None
    test_reduce.Reduction(handle, op, lens, axes, types, rng, int(rng.integers(2)), bool(rng.integers(2)), comp,
                          *layouts, pattern=pattern).check(*numbers)


def run_one_axis(handle, rng):
    lens = some_lens(rng)
    pattern = one_of(rng, None, test_reduce.few_values, test_reduce.with_nans)
    problem = test_reduce.OneAxis(handle, lens, int(rng.integers(len(lens))), some_type(handle, rng), rng, pattern,
                                  one_of(rng, *LAYOUTS))
    if pattern is not test_reduce.few_values:
        problem.calculate(one_of(rng, 1, 2), int(rng.integers(2)))
    problem.extreme(one_of(rng, 1, 2, 3, 4))


def run_dropout(handle, rng):
    test_dropout.check_problem(handle, some_type(handle, rng), some_lens(rng, most=400), rng,
                               layouts=some_layouts(rng))


def run_cat(handle, rng):
    kinds = [*drawn.TYPES, "int8", "int32", "int64", "float8_e4m3fn"]
    DTYPE.setdefault("int64", np.dtype("i8"))
    lens = some_lens(rng, most=300)
    axis, count = int(rng.integers(len(lens))), int(rng.integers(1, 16))
    parts = [*(int(v) for v in rng.integers(0, 9, count - 1)), length(rng, 40)]
    test_cat.check(handle, one_of(rng, *kinds), lens, axis, [parts[i] for i in rng.permutation(count)], rng,
                   test_cat.LAYOUTS)


def maker(handle, rng):
    return test_elements.Maker(handle, some_type(handle, rng), rng)


def run_glu(handle, rng):
    lens = list(some_lens(rng))
    axis = int(rng.integers(len(lens)))
    lens[axis] *= 2
    test_elements.glu(maker(handle, rng), tuple(lens), axis)


def run_prelu(handle, rng):
    lens, m = some_lens(rng), maker(handle, rng)
    gradient = "float32" if m.dtype == "float16" and rng.integers(2) else None
    test_elements.prelu(m, lens, len(lens) > 1 and bool(rng.integers(2)), gradient)


def run_soft_margin(handle, rng):
    test_elements.soft_margin(maker(handle, rng), some_lens(rng), int(rng.integers(3)), one_of(rng, 1.0, 30.0))


def run_rope(handle, rng):
    lens = list(some_lens(rng))
    lens[-1] *= 2
    test_elements.rope(maker(handle, rng), tuple(lens))


def run_multi_margin(handle, rng):
    rows, classes = length(rng, 300), length(rng, one_of(rng, 20, 600))
    strides = one_of(rng, None, (2 * classes + 1, 2))
    loss = test_multimargin.Margin(handle, some_type(handle, rng), rows, classes, rng, 1 + int(rng.integers(2)),
                                   int(rng.integers(3)), one_of(rng, 1.0, 0.5, -0.25), strides)
    if not rng.integers(4):
        loss.target.view()[int(rng.integers(rows))] = one_of(rng, -1, classes, 2**62, -2**63)
    loss.check()


def run_kthvalue(handle, rng):
    lens = some_lens(rng)
    dim = int(rng.integers(-len(lens), len(lens)))
    values = None
    if rng.integers(2):  # many are equal, some are none
        values = np.round(rng.standard_normal(lens) * 2) * one_of(rng, 1.0, -1.0)
        values[rng.random(lens) < 0.1] = one_of(rng, np.nan, np.inf, -np.inf)
    test_kthvalue.check(handle, some_type(handle, rng), lens, dim, int(rng.integers(1, lens[dim] + 1)), rng,
                        bool(rng.integers(2)), values, test_kthvalue.LAYOUTS)


def run_getitem(handle, rng):
    test_getitem.any_problem(handle, some_type(handle, rng), rng)


def run_adam(handle, rng):
    test_adam.any_step(handle, some_type(handle, rng), rng).check()


def run_ctc(handle, rng):
    """Small ones: the formulas in Python take the time."""
    steps, samples, classes = length(rng, 12), length(rng, 3), 1 + length(rng, 40)
    inputs = [int(v) for v in rng.integers(0, steps + 1, samples)]
    counts = [int(rng.integers(0, (t + 1) // 2 + 2)) for t in inputs]
    test_ctc.Batch(handle, some_type(handle, rng), steps, classes, counts, inputs, rng,
                   blank=int(rng.integers(-1, classes + 1)), softmax=bool(rng.integers(3)),
                   layouts=tuple(one_of(rng, *test_ctc.LAYOUTS) for _ in range(2))).check()


def some_lengths(rng, layout, empty=True):
    lengths = rng.integers(0 if empty else 1, length(rng, 7) + 1, length(rng, 9))
    if layout == test_rnn.PACKED or not empty:
        lengths = np.maximum(-np.sort(-lengths), 1)  # of packed sequences none is empty
    lengths[0] = max(1, lengths[0])
    return [int(n) for n in lengths]


def run_rnn(handle, rng):
    layout, mode = int(rng.integers(1, 4)), int(rng.integers(4))
    lengths = some_lengths(rng, layout)
    bias = 1 if mode == test_rnn.RELU else int(rng.integers(2))
    longest = max(lengths) + (int(rng.integers(3)) if layout != test_rnn.PACKED else 0)
    test_rnn.Case(handle, some_type(handle, rng), rng, mode, length(rng, 40), length(rng, 40), length(rng, 3),
                  int(rng.integers(1, 3)), bias, lengths, layout, bool(rng.integers(2)), not rng.integers(4),
                  longest=longest).check()


def run_rnn_steps(handle, rng):
    layout = one_of(rng, test_rnn.PACKED, test_rnn.STEPS)
    test_rnn.check_steps(test_rnn.Case(
        handle, some_type(handle, rng), rng, int(rng.integers(1, 4)), length(rng, 20), length(rng, 20), length(rng, 3),
        int(rng.integers(1, 3)), 1, some_lengths(rng, layout, False), layout))


def run_rnn_parameters(handle, rng):
    """Each matrix and bias of a recurrent layer's memory, read and written."""
    mode, both, bias, dtype = int(rng.integers(4)), int(rng.integers(2)), int(rng.integers(2)), some_type(handle, rng)
    hidden, layers = length(rng, 20), length(rng, 3)
    rnn = miopyx.RNNDescriptor(hidden, layers, mode, both, bias, 0, dtype)
    w_desc, part = TensorDescriptor(), TensorDescriptor()
    step = TensorDescriptor(dtype, (length(rng, 4), length(rng, 20)))
    miopyx.miopenGetRNNParamsDescriptor(handle, rnn, step, w_desc, dtype)
    w = Tensor(handle, w_desc, rng.standard_normal(w_desc.lens))
    memory, want = w.argument(), w.view().reshape(-1).copy()
    for layer in range(layers * (1 + both)):
        for number, what in itertools.product(range(2 * test_rnn.GATES[mode]), ("Param", "Bias")[:1 + bias]):
            offset, size, get, put = (getattr(miopyx, f"miopen{name}RNNLayer{what}{end}") for name, end in (
                ("Get", "Offset"), ("Get", "Size"), ("Get", ""), ("Set", "")))
            at = offset(rnn, layer, step, number, part)
            if not part.lens[-1]:
                continue
            assert size(handle, rnn, layer, *((step,) if what == "Param" else ()), number) == part.nbytes
            out, new = Tensor(handle, part, None), Tensor(handle, part, rng.standard_normal(part.lens))
            get(handle, rnn, layer, step, w_desc, memory, number, part, out.argument())
            handle.finish()
            own = slice(at, at + int(np.prod(part.lens)))
            np.testing.assert_array_equal(out.values().reshape(-1), want[own].astype("f8"))
            put(handle, rnn, layer, step, w_desc, memory, number, part, new.argument())
            want[own] = new.view().reshape(-1)
    handle.finish()
    np.testing.assert_array_equal(w.values().reshape(-1), want.astype("f8"))


def run_rnn_dropout(handle, rng):
    """Without wrong calls where states go on: one that is taken goes on, too."""
    evolves = bool(rng.integers(2))
    if evolves and Wrong.at_work:
        Wrong.at_work.rng = None
    test_rnn.check_dropout(handle, rng, evolves, "float32", int(rng.integers(1, 4)),
                           one_of(rng, 0.0, 0.4, 0.9), length(rng, 20), int(rng.integers(1, 3)),
                           some_lengths(rng, test_rnn.PACKED))


def run_norm_activation(handle, rng):
    lens = list(some_lens(rng, 4, 5, 3000))
    mode = int(rng.integers(2))
    while np.prod(lens) // lens[1] < 4:  # a variance of one number is nothing
        lens[int(rng.choice([0, 2, 3]))] += 1
    if not mode:
        lens[0] += 2
    layout = one_of(rng, "packed", "last", "gaps", "rows", "mixed")
    test_batchnorm_activation.Activated(
        mode, tuple(lens), some_type(handle, rng), rng, one_of(rng, *test_batchnorm_activation.MODES), layout,
        factor=one_of(rng, 0.1, 0.0, 1.0)).check(handle)


def run_fusion(handle, rng):
    """A solver of a convolution with a bias, a batch norm and an activation, by a plan."""
    example = Example(some_convolution(rng), some_type(handle, rng), one_of(rng, *LAYOUTS), rng, HOST())
    able = [s for s in test_fusion.registry.CONV if s.why_not(handle.device, example.problem(0)) is None]
    test_fusion.check(handle, example, able[int(rng.integers(len(able)))], rng)


def run_convolution_bias_activation(handle, rng):
    conv, desc, data = some_layer(handle, rng)
    size = miopyx.miopenConvolutionForwardGetWorkSpaceSize(handle, desc["w"], desc["x"], conv, desc["y"])
    mode = int(rng.integers(11))
    activ = miopyx.ActivationDescriptor(mode, *test_fusion.NUMBERS.get(mode, (0.0, 0.0, 0.0)))
    alpha1, alpha2, z, bias = one_of(rng, (1.0, 0.0, False, True), (0.7, -1.3, True, False), (2.0, 1.0, True, True))
    size += (desc["y"].nbytes + 256) * z  # as the function says
    workspace = guarded.Guarded(handle, size, 0xFF)
    able = sorted({int(s.algorithm) for s in test_fusion.registry.CONV if s.why_not(
        handle.device, test_fusion.ConvProblem(0, desc["x"], desc["w"], desc["y"], conv)) is None})
    out = Tensor(handle, desc["y"], None)
    got = test_fusion.run_cba(handle, conv, desc, data, out, activ, alpha1, alpha2, one_of(rng, *able), z, bias, size,
                              workspace.argument() if size else None)
    workspace.fetch()
    value = alpha1 * test_fusion.convolved(HOST(), conv, desc, data) + alpha2 * data["z"].values() * z
    value = value + (data["bias"].values() if bias else 0)
    want = test_fusion.activated(mode, value, "float32")
    # Where a power begins it is steep.
    free = (mode == 6) & (np.abs(0.5 + 0.4 * value) < 0.01)
    test_fusion.close(np.where(free, 0, got), np.where(free, 0, want))


def run_fusion_plan(handle, rng):
    conv, desc, data = some_layer(handle, rng)
    norm, plan = bool(rng.integers(2)), None
    plan, ops = test_fusion.fusion_plan(conv, desc, norm)
    miopyx.miopenCompileFusionPlan(handle, plan)
    args = test_fusion.arguments_of(data, ops)
    value = test_fusion.convolved(HOST(), conv, desc, data) + data["bias"].values()
    if norm:
        gain = data["scale"].values() / np.sqrt(data["variance"].values() + 1e-3)
        value = (value - data["mean"].values()) * gain + data["shift"].values()
    out = Tensor(handle, desc["y"], None)
    miopyx.miopenExecuteFusionPlan(handle, plan, desc["x"], data["x"].argument(), desc["y"], out.argument(), args)
    handle.finish()
    test_fusion.close(out.values(), np.maximum(value, 0))
    miopyx.miopenDestroyOperatorArgs(args)
    miopyx.miopenDestroyFusionPlan(plan)


def run_plan_of_norm(handle, rng):
    """A fusion plan of a batch norm and an activation: the bits of the functions that have both."""
    lens, dtype = list(some_lens(rng, 4, 5, 3000)), one_of(rng, "float32", "float32", some_type(handle, rng))
    lens[0] += 3
    x = TensorDescriptor(dtype, lens)
    small, mode, epsilon, factor = TensorDescriptor(), int(rng.integers(2)), 1e-3, one_of(rng, 0.1, 1.0)
    miopyx.miopenDeriveBNTensorDescriptor(small, x, mode)
    number, direction = one_of(rng, 0, 3, 8), one_of(rng, "inference", "forward", "backward")
    numbers = test_fusion.NUMBERS.get(number, (0.0, 0.0, 0.0))
    activ, descs = miopyx.ActivationDescriptor(number, *numbers), (small,) * 4

    def memory(desc, values=None):
        return Tensor(handle, desc, values)

    values = {name: rng.standard_normal(lens) for name in ("x", "dy")} | {
        name: rng.uniform(0.5, 2, small.lens) for name in ("scale", "bias", "mean", "variance")}
    running, saved, results = bool(rng.integers(2)), bool(rng.integers(2)), []
    if running and direction == "forward" and Wrong.at_work:
        Wrong.at_work.rng = None  # one that is taken would move the statistics, whose memory the plan's arguments hide
    for planned in (False, True):
        own = {name: memory(x if name in ("x", "dy") else small, its) for name, its in values.items()}
        out, kept = memory(x), [memory(small), memory(small)]
        first, y, *rest = (own[name].argument() for name in ("x", "dy", "scale", "bias"))
        means = [own[name].argument() for name in ("mean", "variance")]
        two, result = [t.argument() for t in kept], out.argument()
        moved = means if running else [None, None]
        if not planned and direction == "inference":
            miopyx.miopenBatchNormForwardInferenceActivation(handle, mode, 1, 0, x, first, x, result, *descs, *rest,
                                                             *means, epsilon, activ)
        elif not planned and direction == "forward":
            miopyx.miopenBatchNormForwardTrainingActivation(
                handle, mode, 1, 0, x, first, x, result, *descs, *rest, factor, *moved, epsilon,
                *(two if saved else (None, None)), activ)
        elif not planned:  # a plan has no epsilon backward
            miopyx.miopenBatchNormBackwardActivation(handle, mode, 1, 0, 1, 0, x, first, x, y, x, result, *descs, *rest,
                                                     *two, 1e-5, *(means if saved else (None, None)), activ)
        else:
            plan, args = miopyx.miopenCreateFusionPlan(0, x), miopyx.miopenCreateOperatorArgs()
            if direction == "inference":
                op = miopyx.miopenCreateOpBatchNormInference(plan, mode, small)
                miopyx.miopenSetOpArgsBatchNormInference(args, op, 1.0, 0.0, *rest, *means, epsilon)
            elif direction == "forward":
                op = miopyx.miopenCreateOpBatchNormForward(plan, mode, running)
                miopyx.miopenSetOpArgsBatchNormForward(args, op, 1.0, 0.0, *rest, *(two if saved else (None, None)),
                                                       *moved, factor, epsilon)
            else:
                op = miopyx.miopenCreateOpBatchNormBackward(plan, mode)
                miopyx.miopenSetOpArgsBatchNormBackward(args, op, 1.0, 0.0, first, *rest, *two,
                                                        *(means if saved else (None, None)))
            if direction == "backward":
                last = miopyx.miopenCreateOpActivationBackward(plan, number)
                miopyx.miopenSetOpArgsActivBackward(args, last, 1.0, 0.0, None, None, *numbers)
            else:
                last = miopyx.miopenCreateOpActivationForward(plan, number)
                miopyx.miopenSetOpArgsActivForward(args, last, 1.0, 0.0, *numbers)
            miopyx.miopenCompileFusionPlan(handle, plan)
            assert miopyx.miopenFusionPlanGetWorkSpaceSize(handle, plan, 1) == 0
            miopyx.miopenExecuteFusionPlan(handle, plan, x, y if direction == "backward" else first, x, result, args)
        handle.finish()
        results.append([t.values() for t in (out, *kept, own["mean"], own["variance"])])
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def run_setters(handle, rng):
    """What sets a descriptor takes what it is given, or leaves the descriptor as it was."""
    conv, desc, data = test_fusion.layer(handle, rng)
    plan, ops = test_fusion.fusion_plan(conv, desc)
    rnn, matrix = miopyx.RNNDescriptor(5, 2, "lstm"), TensorDescriptor("float32", (3, 4))
    memory = guarded.Guarded(handle, test_dropout.STATES, 0xFF)
    states = memory.argument()
    dropout, options = miopyx.DropoutDescriptor(), miopyx.miopenCreateFindOptions()
    problem, args = miopyx.miopenCreateConvProblem(conv, 0), miopyx.miopenCreateOperatorArgs()
    buffers = [data[name].argument() for name in ("scale", "shift", "mean", "variance")]
    calls = (
        (miopyx.miopenSetReduceTensorDescriptor, miopyx.ReduceTensorDescriptor(3), 2, 1, 1, 1, 0),
        (miopyx.miopenSetRNNDescriptor, rnn, 7, 2, 0, 1, 2, 1, 0, 1),
        (miopyx.miopenSetRNNDescriptor_V2, rnn, 7, 2, dropout, 0, 1, 2, 1, 0, 1),
        (miopyx.miopenSetRNNPaddingMode, rnn, 1),
        (miopyx.miopenSetRNNDataSeqTensorDescriptor, SeqTensorDescriptor("float32", 2, 3, 2, 4), 1, 2, 7, 3, 4,
         [2, 7, 0], None),
        (miopyx.miopenSetDropoutDescriptor, dropout, handle, 0.5, states, test_dropout.STATES, 7, False, True, 0),
        (miopyx.miopenRestoreDropoutDescriptor, dropout, handle, 0.5, states, test_dropout.STATES, 7, False, True, 0),
        (miopyx.miopenSetCTCLossDescriptor, miopyx.CTCLossDescriptor(), 1, 0, True),
        (miopyx.miopenGetRNNLayerParamOffset, rnn, 1, matrix, 3, TensorDescriptor()),
        (miopyx.miopenGetRNNLayerBiasOffset, rnn, 1, matrix, 3, TensorDescriptor()),
        (miopyx.miopenSetProblemTensorDescriptor, problem, 1, desc["x"]),
        (miopyx.miopenSetFindOptionTuning, options, 1), (miopyx.miopenSetFindOptionResultsOrder, options, 1),
        (miopyx.miopenSetFindOptionWorkspaceLimit, options, 1 << 20),
        (miopyx.miopenSetFindOptionPreallocatedTensor, options, 1, states),
        (miopyx.miopenSetOpArgsConvForward, args, ops["conv"], 1.0, 0.0, data["w"].argument()),
        (miopyx.miopenSetOpArgsBiasForward, args, ops["bias"], 1.0, 0.0, data["bias"].argument()),
        (miopyx.miopenSetOpArgsBatchNormInference, args, ops["norm"], None, None, *buffers, 1e-3),
        (miopyx.miopenSetOpArgsActivForward, args, ops["activ"], 1.0, 0.0, 0.5, 0.5, 0.5),
        (miopyx.miopenCreateOpConvForward, plan, conv, desc["w"]),
        (miopyx.miopenCreateOpBiasForward, plan, desc["channel"]),
        (miopyx.miopenCreateOpBatchNormInference, plan, 1, desc["channel"]),
        (miopyx.miopenCreateOpActivationForward, plan, 3),
        (miopyx.miopenCreateOpBatchNormForward, plan, 1, True), (miopyx.miopenCreateOpBatchNormBackward, plan, 1),
        (miopyx.miopenCreateOpActivationBackward, plan, 3), (miopyx.miopenFusionPlanConvolutionGetAlgo, plan, 3),
        (miopyx.miopenFusionPlanConvolutionSetAlgo, plan, 1),
        *setters(),
        (miopyx.miopenFusionPlanGetOp, plan, 1), (miopyx.miopenCreateFusionPlan, 0, desc["x"]),
        (miopyx.miopenCreateConvProblem, conv, 1),
    )
    for function, *given in calls:
        changed, at = list(given), int(rng.integers(len(given)))
        changed[at] = another(given[at], given, rng)
        before = repr(given[0])
        try:
            function(*changed)
        except MIOpenError:
            if repr(given[0]) != before:
                raise AssertionError(f"{function.__name__}, argument {at} is {changed[at]!r}: refused, and the "
                                     "descriptor changed") from None
        except Exception as error:
            raise AssertionError(f"{function.__name__}, argument {at} is {changed[at]!r}: "
                                 f"{type(error).__name__}: {error}") from error
    memory.fetch()


def setters():
    """Calls that set a descriptor, and ask one, that need nothing else."""
    x, w, new = TensorDescriptor("float32", (2, 3, 6, 7)), TensorDescriptor("float32", (4, 3, 3, 3)), TensorDescriptor
    conv, pool, act = miopyx.ConvolutionDescriptor, miopyx.miopenCreatePoolingDescriptor, miopyx.ActivationDescriptor
    options, norm = miopyx.miopenCreateFindOptions, miopyx.LRNDescriptor
    return (
        (miopyx.miopenSet4dTensorDescriptor, new(), 1, 2, 3, 4, 5),
        (miopyx.miopenSet4dTensorDescriptorEx, new(), 1, 2, 3, 4, 5, 60, 20, 5, 1),
        (miopyx.miopenSetNdTensorDescriptorWithLayout, new(), 1, 0, [2, 3, 4, 5], 4),
        (miopyx.miopenSetTensorDescriptor, new(), 1, 3, [2, 3, 4], [12, 4, 1]),
        (miopyx.miopenSetTensorDescriptorV2, new(), 1, 3, [2, 3, 4], [12, 4, 1]),
        (miopyx.miopenSetTensorCastType, new(), 1), (miopyx.miopenGetTensorNumBytes, x),
        (miopyx.miopenInitConvolutionDescriptor, conv((1, 1)), 0, 1, 1, 1, 1, 1, 1),
        (miopyx.miopenInitConvolutionNdDescriptor, conv((1, 1)), 2, [1, 1], [1, 1], [1, 1], 0),
        (miopyx.miopenSetConvolutionGroupCount, conv((1, 1)), 1),
        (miopyx.miopenSetTransposeConvOutputPadding, conv((1, 1)), 0, 0),
        (miopyx.miopenSetTransposeConvNdOutputPadding, conv((1, 1)), 2, [0, 0]),
        (miopyx.miopenSetConvolutionAttribute, conv((1, 1)), 1, 1),
        (miopyx.miopenGetConvolutionForwardOutputDim, conv((1, 1)), x, w),
        (miopyx.miopenGetConvolutionNdForwardOutputDim, conv((1, 1)), x, w),
        (miopyx.miopenSetPoolingIndexType, pool(), 1), (miopyx.miopenSetPoolingWorkSpaceIndexMode, pool(), 1),
        (miopyx.miopenSet2dPoolingDescriptor, pool(), 0, 2, 2, 0, 0, 2, 2),
        (miopyx.miopenSetNdPoolingDescriptor, pool(), 0, 2, [2, 2], [0, 0], [2, 2]),
        (miopyx.miopenGetPoolingForwardOutputDim, miopyx.PoolingDescriptor(0, (2, 2), (0, 0), (2, 2)), x),
        (miopyx.miopenSetLRNDescriptor, norm(0, 5, 0.5, 0.75, 1.0), 0, 5, 0.5, 0.75, 1.0),
        (miopyx.miopenSetActivationDescriptor, act(3), 8, 0.1, 0.0, 0.0),
        (miopyx.miopenSetSoftmaxDescriptor, miopyx.SoftmaxDescriptor(), 1.0, 0.0, 1, 1),
        (miopyx.miopenSetMhaDescriptor, miopyx.MhaDescriptor(), 0.5),
        (miopyx.miopenSetFindOptionAttachBinaries, options(), 1),
        (miopyx.miopenCreateMhaProblem, miopyx.MhaDescriptor(), 0),
        (miopyx.miopenCreateActivationProblem, act(3), 0), (miopyx.miopenCreateBatchnormProblem, 1, True, 0),
        (miopyx.miopenCreateBiasProblem, 0), (miopyx.miopenCreateSoftmaxProblem, miopyx.SoftmaxDescriptor(), 1),
    )


OPERATIONS = {
    **{f"{kind} norm": run_norm(kind) for kind in test_layernorm.KINDS},
    "reduce": run_reduce, "one axis": run_one_axis, "dropout": run_dropout, "cat": run_cat, "glu": run_glu,
    "prelu": run_prelu, "soft margin": run_soft_margin, "rope": run_rope, "multi margin": run_multi_margin,
    "kthvalue": run_kthvalue, "getitem": run_getitem, "adam": run_adam, "ctc": run_ctc, "rnn": run_rnn,
    "rnn parameters": run_rnn_parameters,
    "steps of rnn": run_rnn_steps, "dropout in rnn": run_rnn_dropout, "batch norm activation": run_norm_activation,
    "fusion": run_fusion, "convolution bias activation": run_convolution_bias_activation,
    "plan of fusion": run_fusion_plan, "plan of norm": run_plan_of_norm, "find 2.0": random_find2.run_find2,
    "fused problems": random_find2.run_fused,
    "fused norms": random_find2.run_fused_norm, "other problems": random_find2.run_another_door,
    "attention": random_find2.run_attention, "foreign solutions": random_find2.run_foreign, "setters": run_setters,
    "immediate": random_first.run_immediate, "convolution by algorithm": random_first.run_convolution,
    "op tensor": random_first.run_op_tensor, "fill and scale": random_first.run_fill_and_scale,
    "transform": random_first.run_transform, "bias functions": random_first.run_bias_functions,
    "pooling": random_first.run_pooling, "lrn": random_first.run_lrn, "softmax": random_find2.run_softmax,
    "activation": random_find2.run_activation, "batch norm": random_find2.run_batch_norm,
    "graph": random_graphs.run_graph, "graph of a convolution": random_graphs.run_convolution,
    "graph of attention": random_graphs.run_attention, "other graphs": random_graphs.run_other,
    "attributes": random_graphs.run_attributes,
}


# Calls of which an argument is another one


class Wrong:
    """Makes wrong calls before right ones, of all functions that compute or say how much memory that takes."""

    LEFT_ALONE = ("Create", "Destroy", "Set", "Init", "Derive", "Enable", "Compile", "Find", "Save", "ParamsDescriptor",
                  "GetSolution", "Load", "LayerParam", "LayerBias", "PaddingMode", "SolverId")

    at_work = None

    def __init__(self, share):
        Wrong.at_work = self
        self.share, self.rng, self.calls, self.refused, self.seen = share, None, 0, 0, []
        for name in dir(miopyx):
            if name.startswith("miopen") and callable(getattr(miopyx, name)) and not isinstance(
                    getattr(miopyx, name), type) and not any(word in name for word in self.LEFT_ALONE):
                setattr(miopyx, name, self.wrapped(name, getattr(miopyx, name)))

    def wrapped(self, name, function):
        def call(*given):
            if self.rng is not None and given and isinstance(given[0], miopyx.Handle):
                rng, self.rng = self.rng, None  # none inside
                try:
                    while rng.random() < self.share:
                        self.wrong_call(name, function, given, rng)
                finally:
                    self.rng = rng
            return function(*given)
        return call

    def wrong_call(self, name, function, given, rng):
        handle, at = given[0], int(rng.integers(len(given)))
        changed = list(given)
        changed[at] = another(given[at], given, rng)
        arrays = [a for a in flat(given) if isinstance(a, np.ndarray)]
        before = [a.copy() for a in arrays]
        self.calls += 1

        def say():
            return f"{name}, argument {at} is {self.text(changed[at])} for {self.text(given[at])}"
        if SHOWS:
            print(say(), file=sys.stderr, flush=True)
        try:
            function(*changed)
        except MIOpenError as error:
            self.refused += 1
            str(error)
            handle.finish()
            for array, bytes_ in zip(arrays, before, strict=True):
                if array.tobytes() != bytes_.tobytes():
                    raise AssertionError(f"{say()}: refused, and memory changed") from error
        except Exception as error:
            raise AssertionError(f"{say()}: {type(error).__name__}: {error}") from error
        else:
            handle.finish()
            if "RNN" not in name and drawn.is_short(given, changed):
                raise AssertionError(f"{say()}: taken")  # but cells' states, which only LSTM looks at
        for array, bytes_ in zip(arrays, before, strict=True):
            array[...] = bytes_

    @staticmethod
    def text(value):
        return f"{value.dtype}{value.shape}" if isinstance(value, np.ndarray) else repr(value)[:200]


# All of them


def check_inputs():
    for memory, before in guarded.Pages.given:
        if not memory.fetched and not np.array_equal(memory.fetch(), before):
            raise AssertionError("an input changed")


def run_some(name, device, seed, first, count, against, plain, place):
    """Run problems one by one, their numbers written to `place`; return what went wrong."""
    handle, wrong, skipped = handle_of(device), [], 0
    # On devices with memory of their own a call that is taken would change what the next one reads.
    spoiler = Wrong(0.4) if not plain and (handle.device.is_host or handle.device.shares_memory) else None
    guarded.Pages.against = against
    for number in range(first, first + count):
        place[:8] = number.to_bytes(8, "little")
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
        guarded.Pages.given = []
        try:
            if spoiler is not None:
                spoiler.rng = rng.spawn(1)[0]
            with np.errstate(all="ignore"):
                OPERATIONS[name](handle, rng)
            check_inputs()
        except pytest.skip.Exception:
            skipped += 1
        except (Exception, pytest.fail.Exception) as error:
            text = traceback.format_exc() if not isinstance(error, AssertionError) or not str(error) else str(error)
            wrong.append(f"problem {number}: {text.strip()[-1500:]}")
            if len(wrong) > 20:
                break
        finally:
            if spoiler is not None:
                spoiler.rng = None
    if skipped:
        wrong.append(f"{skipped} problems were skipped")
    if spoiler is not None:
        print(f"{spoiler.calls} wrong calls, {spoiler.refused} refused", file=sys.stderr)
    return wrong


def child(arguments):
    faulthandler.enable()
    KNOWN.extend(arguments["known"])
    if arguments["emulated"]:
        cuda_stub.compile_by_clang(emulated=True)
    if arguments["quick"]:
        build = programs.build
        programs.build = lambda device, file, options: build(device, file, options + " -cl-opt-disable")
    if arguments["device"] != "host":
        types = [t for t in drawn.TYPES if t != "float64" or handle_of(arguments["device"]).device.fp64]
        drawn.KIND.append(types[arguments["first"] // arguments["together"] % len(types)])
    with open(arguments["place"], "r+b") as file, mmap.mmap(file.fileno(), 8) as place, tempfile.TemporaryDirectory() \
            as folder:
        os.environ["MIOPEN_USER_DB_PATH"] = folder  # searches must not write to the user's databases
        os.environ["MIOPEN_DISABLE_CACHE"] = "1"  # nor processes wait for programs to be written
        wrong = run_some(*(arguments[key] for key in ("name", "device", "seed", "first", "count", "against", "plain")),
                         place)
        sys.stdout.write(json.dumps(wrong))
        sys.stdout.flush()
    for handle in drawn.HANDLES.values():
        handle.destroy()


def measure(name, device, given, known):
    """Run an operation's problems, in more than one process where one dies; return what went wrong, and a note."""
    first, end, wrong, note = given.first, given.first + given.count, [], ""
    while first < end and len(wrong) < 20:
        with tempfile.NamedTemporaryFile() as place:
            place.write(bytes(8))
            place.flush()
            count = min(given.together, end - first)
            arguments = {"name": name, "device": device, "first": first, "count": count, "place": place.name,
                         "known": known, **{key: getattr(given, key) for key in ("together", "seed", "against", "plain",
                                                                                 "quick", "emulated")}}
            done = subprocess.run([sys.executable, "-P", os.path.abspath(__file__), "--child", json.dumps(arguments)],
                                  capture_output=True, text=True, check=False, env=given.environment)
            if done.returncode == 0:
                wrong += json.loads(done.stdout.splitlines()[-1])
                note = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
                first += count
            else:
                with open(place.name, "rb") as file:
                    number = int.from_bytes(file.read(8), "little")
                wrong.append(f"problem {number}: the process ended with {done.returncode}\n{done.stderr[-2500:]}")
                first = number + 1
    return wrong, note


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="problems of each operation (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first problem's number")
    parser.add_argument("--device", nargs="+", metavar="NAME", help="as `miopyx doctor` names them; NAME+gpu is an "
                        "OpenCL CPU taken for a GPU (default: host and every OpenCL device that works)")
    parser.add_argument("--operation", nargs="+", metavar="TEXT", help="those whose names hold one of these texts")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="repeats the problems of a run")
    parser.add_argument("--against", choices=("end", "begin"), default="end", help="where the guard page lies")
    parser.add_argument("--together", type=int, default=1000, help="problems of a process (default: 1000)")
    parser.add_argument("--plain", action="store_true", help="without wrong calls")
    parser.add_argument("--quick", action="store_true", help="kernels of OpenCL's devices that are not optimised")
    parser.add_argument("--emulated", action="store_true", help="kernels for NVIDIA's GPUs, emulated on this CPU; "
                        "NVIDIA_EMULATOR_CACHE names a folder that keeps them")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(json.loads(given.child))
        return 0
    names = [name for name in OPERATIONS if not given.operation or any(text in name for text in given.operation)]
    if not names or given.count < 1:
        parser.error(f"nothing to do; operations: {', '.join(OPERATIONS)}")
    given.environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        if given.emulated:
            given.environment["MIOPYX_LIBCUDA"] = str(cuda_stub.build(Path(folder)))
            given.environment["STUB_AGAINST"] = given.against
            given.device = given.device or ["cuda:0"]
        return run_all(given, names)


def run_all(given, names):
    """Run operations on devices; return 1 where one went wrong."""
    known = ["host", *dict.fromkeys(i.name for i in devices.ranked() if i.kind != "host")]
    print(f"{given.count} problems of each from {given.first} on, --seed {given.seed} --against {given.against}")
    failed = 0
    for name in names:
        for device in given.device or known:
            begin = time.perf_counter()
            wrong, note = measure(name, device, given, known)
            failed += len(wrong)
            print(f"{name:30} {device:44} {len(wrong)} wrong, {time.perf_counter() - begin:.0f} s; {note}", flush=True)
            for text in wrong[:5]:
                print("    " + text.replace("\n", "\n    "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
