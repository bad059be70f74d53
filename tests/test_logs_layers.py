"""Logs of all operations but convolutions: descriptors and calls as MIOpen prints them, commands that repeat calls."""

import re
import shlex

import numpy as np
import pytest
from test_logs import PREFIX, SWITCHES, fresh, python  # noqa: F401 - an autouse fixture

import miopyx as mi
from miopyx import TensorDescriptor
from miopyx.api import commands, logged
from miopyx.tools.driver import families, main
from miopyx.tools.driver.families import FAMILIES
from miopyx.tools.driver.options import parse_line

LAYOUTS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "NCDHW": (0, 1, 2, 3, 4), "NDHWC": (0, 2, 3, 4, 1)}
TYPES = ("float32", "float16", "bfloat16", "float64")


def packed(dtype, lens, order):
    strides, step = [0] * len(lens), 1
    for axis in reversed(order):
        strides[axis], step = step, step * lens[axis]
    return TensorDescriptor(dtype, lens, strides)


def a_tensor(rng, layouts=tuple(LAYOUTS)):
    order = LAYOUTS[rng.choice(layouts)]
    return packed(str(rng.choice(TYPES)), tuple(int(n) for n in rng.integers(2, 7, len(order))), order)


def repeated(name, **arguments):
    """Return the command of a call, its remarks, and what the driver makes of it."""
    line = commands.builder(name)(arguments)(arguments)
    words, _, remarks = line.partition(" # ")
    command = parse_line("./bin/MIOpenDriver " + line, FAMILIES)
    assert command is not None
    assert shlex.split(words) == shlex.split(line, comments=True)
    return words, remarks, families.make(command)


def same(mine, its):
    assert (its.dtype, its.lens) == (mine.dtype, mine.lens)
    assert [s for n, s in zip(its.lens, its.strides, strict=True) if n > 1] == [
        s for n, s in zip(mine.lens, mine.strides, strict=True) if n > 1]


def bits(work, direction):
    return [p.short for p in work.passes() if work.wanted(p)] == direction


def test_find_2():
    """Its functions are printed, with the tensors of a run."""
    out, err = python("""
import numpy as np
import miopyx as mi

handle = mi.Handle("host")
desc = mi.TensorDescriptor("float32", (2, 3))
problem = mi.miopenCreateActivationProblem(mi.ActivationDescriptor(mi.miopenActivationRELU), 0)
for id in (mi.miopenTensorActivationX, mi.miopenTensorActivationY):
    mi.miopenSetProblemTensorDescriptor(problem, id, desc)
options = mi.miopenCreateFindOptions()
solution = mi.miopenFindSolutions(handle, problem, options, 1)[0]
x, y = np.full((2, 3), -1, np.float32), np.ones((2, 3), np.float32)
mi.miopenRunSolution(handle, solution, 2, [mi.miopenTensorArgument_t(mi.miopenTensorActivationX, None, x),
                                           (mi.miopenTensorActivationY, None, y)], None, 0)
print(hex(x.ctypes.data), hex(y.ctypes.data), y.sum())
""", MIOPEN_ENABLE_LOGGING="1")
    x, y, total = out.split()
    assert float(total) == 0
    lines = err.replace(PREFIX, "").splitlines()
    calls = [line.partition("(")[0] for line in lines if line.startswith("miopenStatus_t")]
    assert [call.split()[1] for call in calls] == [
        "miopenCreateActivationProblem", *["miopenSetProblemTensorDescriptor"] * 2, "miopenCreateFindOptions",
        "miopenFindSolutions", "miopenRunSolution"]
    run = "\n".join(lines[lines.index(next(line for line in lines if "miopenRunSolution" in line)):])
    assert "solution = <FindSolution " in run
    assert "\tnInputs = 2" in run
    assert x in run
    assert y in run


# -------------------------------------------------------------------------------------------------------- descriptors


def test_descriptors_to_the_byte():
    pool = mi.PoolingDescriptor(mi.miopenPoolingAverageInclusive, (3, 2), (1, 0), (2, 1))
    lrn = mi.LRNDescriptor(mi.miopenLRNCrossChannel, 5, 0.001, 0.75, 1)
    activ = mi.ActivationDescriptor(mi.miopenActivationCLIPPEDRELU, 6, 0.5, 1)
    softmax = mi.SoftmaxDescriptor(1, 0.5, mi.MIOPEN_SOFTMAX_LOG, mi.MIOPEN_SOFTMAX_MODE_INSTANCE)
    for desc, text in ((pool, "miopenPoolingAverageInclusive, 3, 2, 1, 0, 2, 1, "),
                       (lrn, "miopenLRNCrossChannel, 5, 0.001, 0.75, 1, "),
                       (activ, "miopenActivationCLIPPEDRELU, 6, 0.5, 1, "),
                       (mi.ReduceTensorDescriptor("max", "float64", 1, 1),
                        "MIOPEN_REDUCE_TENSOR_MAX, miopenDouble, MIOPEN_PROPAGATE_NAN, "
                        "MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES, "),
                       (mi.DropoutDescriptor(0.5, None, 0, 3, True), "0.5, 3, 1, 0, "),
                       (softmax, "MIOPEN_SOFTMAX_LOG, MIOPEN_SOFTMAX_MODE_INSTANCE, 1, 0.5, ")):
        assert logged._text("desc", desc) == text
    for kind in (mi.PoolingDescriptor, mi.LRNDescriptor, mi.ActivationDescriptor, mi.SoftmaxDescriptor,
                 mi.ReduceTensorDescriptor, mi.DropoutDescriptor):
        assert logged._text("desc", kind()) != ""


def test_a_call(capsys):
    function = logged.logged(mi.miopenActivationForward, True, False)
    x, data = TensorDescriptor("float32", (1, 3, 4, 4)), np.zeros((1, 3, 4, 4), np.float32)
    with mi.Handle("host") as handle:
        function(handle, mi.ActivationDescriptor(mi.miopenActivationRELU, 1, 1, 1), 1.0, x, data, 0, x, data)
    lines = capsys.readouterr().err.splitlines()
    tensor = "{1, 3, 4, 4}, {48, 16, 4, 1}, packed, "
    address = f"{data.__array_interface__['data'][0]:#x} (ndarray)"
    assert lines[0] == (f"{PREFIX}miopenStatus_t miopenActivationForward(handle, activDesc, alpha, xDesc, x, beta, "
                        "yDesc, y){")
    assert lines[2:] == [PREFIX + line for line in (
        "\tactivDesc = miopenActivationRELU, 1, 1, 1, ", "\talpha = 1", f"\txDesc = {tensor}", f"\tx = {address}",
        "\tbeta = 0", f"\tyDesc = {tensor}", f"\ty = {address}", "}")]


# ----------------------------------------------------------------------------------------------------------- commands


def test_pooling_to_the_byte():
    x = TensorDescriptor("float16", (2, 3, 8, 9))
    pool = mi.PoolingDescriptor(0, (3, 2), (1, 0), (2, 1))
    y = TensorDescriptor("float16", pool.output_lens(x))
    words, remarks, _ = repeated("miopenPoolingForward", poolDesc=pool, xDesc=x, yDesc=y, do_backward=False)
    assert words == ("poolfp16 -M 0 --input 2x3x8x9,216x72x9x1 -y 3 -x 2 -p 1 -q 0 -v 2 -u 1 -m max -F 1 -t 1")
    assert remarks == ""


def test_others_to_the_byte():
    x, p = TensorDescriptor("float16", (2, 3, 8, 9)), TensorDescriptor("float32", (1, 3, 1, 1))
    size = "-n 2 -c 3 -H 8 -W 9"
    both = {"xDesc": x, "yDesc": x}
    four = {**both, "dxDesc": x, "dyDesc": x}
    for name, given, expected in (
        ("miopenActivationForward", {"activDesc": mi.ActivationDescriptor(3, 1, 0.5, 2), **both},
         f"activfp16 {size} -m 3 -A 1 -B 0.5 -G 2 -F 1 -t 1"),
        ("miopenLRNForward", {"lrnDesc": mi.LRNDescriptor(1, 5, 0.001, 0.75, 1), **both, "do_backward": True},
         f"lrnfp16 {size} -N 5 -A 0.001 -B 0.75 -K 1 -m cross -F 0 -t 1"),
        ("miopenLRNBackward", {"lrnDesc": mi.LRNDescriptor(0, 5, 0.001, 0.75, 1), **four},
         f"lrnfp16 {size} -N 5 -A 0.001 -B 0.75 -K 1 -m within -F 2 -t 1"),
        ("miopenSoftmaxForward", {**both, "alpha": 1, "beta": 0}, f"softmaxfp16 {size} -F 1 -a 1 -m 1 -A 1 -B 0 -t 1"),
        ("miopenSoftmaxBackward_V2", {**four, "alpha": 2, "beta": 0.5, "algorithm": 2, "mode": 0},
         f"softmaxfp16 {size} -F 2 -a 2 -m 0 -A 2 -B 0.5 -t 1"),
        ("miopenBatchNormalizationForwardTraining",
         {**both, "bn_mode": 1, "bnScaleBiasMeanVarDesc": p, "resultRunningMean": x, "resultSaveMean": None,
          "expAvgFactor": 0.1, "epsilon": 1e-5}, f"bnormfp16fp32 {size} -m 1 --forw 1 -b 0 -s 0 -r 1 -t 1"),
        ("miopenBatchNormalizationBackward_V2", {**four, "bn_mode": 1, "scaleDesc": p, "savedMean": x, "epsilon": 0.5},
         f"bnormfp16fp32 {size} -m 1 --forw 0 -b 1 -s 1 -t 1 # epsilon 0.5"),
        ("miopenBatchNormForwardInferenceActivation",
         {**both, "bn_mode": 1, "scaleDesc": p, "estimatedMean": x, "activDesc": mi.ActivationDescriptor(7, 1.5, 0.5)},
         f"bnormfp16fp32 {size} -m 1 -f 7 -x 1.5 -y 0.5 -z 0 --forw 2 -b 0 -r 1 -t 1"),
        ("miopenBatchNormForwardTrainingActivation",
         {**both, "bn_mode": 0, "scaleDesc": p, "activDesc": mi.ActivationDescriptor(), "resultRunningMean": None,
          "resultSaveMean": x}, f"bnormfp16fp32 {size} -m 0 --forw 1 -b 0 -s 1 -r 0 -t 1"),
        ("miopenReduceTensor", {"reduceTensorDesc": mi.ReduceTensorDescriptor(3, "float32", 1, 1), "aDesc": x,
                                "cDesc": TensorDescriptor("float16", (2, 1, 8, 1)), "alpha": 2, "beta": 0.5},
         "reducefp16 -D 2,3,8,9 -R 1,3 -O 3 -C 1 -N 1 -I 1 -A 2 -B 0.5 -t 1"),
        ("miopenReduceCalculationForward", {"xDesc": x, "dim": 2, "reduceCalculationOp": 1, "nanPropagation": 1},
         "reducecalculationfp16 -X 2x3x8x9 -R 2 -O 1 -N 1 -t 1"),
        ("reduce_calculation", {"xDesc": x, "dim": 1, "op": "sum", "nanPropagation": 1},
         "reducecalculationfp16 -X 2x3x8x9 -R 1 -O 2 -N 1 -t 1"),
        ("miopenReduceExtremeForward", {"xDesc": p, "dim": 0, "reduceExtremeOp": 4, "yDesc": None},
         "reduceextreme -X 1x3x1x1 -R 0 -O 4 -t 1"),
        ("miopenDropoutBackward", {"dropoutDesc": mi.DropoutDescriptor(0.25, None, 0, 7 << 32 | 5, True), **four},
         "dropoutfp16 -F 2 -d 2,3,8,9 -p 0.25 -l 5 -m 7 -e 1 -t 1"),
        ("miopenSetTensor", {"yDesc": x, "alpha": 0.5}, f"tensoropfp16 {size} -o 0 -v 0.5 -t 1"),
        ("miopenOpTensor", {"aDesc": x, "cDesc": x, "bDesc": TensorDescriptor("float16", (1, 3, 1, 1)), "tensorOp": 1,
                            "alpha1": 1, "alpha2": 2, "beta": 3},
         f"tensoropfp16 {size} -o 3 --b_lens 1x3x1x1 -A 1 -B 2 -G 3 -t 1"),
    ):
        words, remarks, _ = repeated(name, **given)
        assert words + (f" # {remarks}" if remarks else "") == expected, name


def test_pooling_commands_describe_the_call(rng):
    for _ in range(60):
        x = a_tensor(rng)
        dims = x.ndim - 2
        windows = tuple(int(min(k, n)) for k, n in zip(rng.integers(1, 4, dims), x.lens[2:], strict=True))
        pads = tuple(int(rng.integers(0, k)) for k in windows)
        pool = mi.PoolingDescriptor(int(rng.integers(3)), windows, pads, tuple(map(int, rng.integers(1, 4, dims))),
                                    int(rng.integers(1, 4)), int(rng.integers(2)))
        lens = pool.output_lens(x)
        order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
        y = packed(x.dtype, lens, order if rng.integers(2) else rng.permutation(order).tolist())
        gapped = TensorDescriptor(x.dtype, x.lens, [2 * s for s in x.strides])
        given = {"poolDesc": pool, "xDesc": x if rng.integers(3) else gapped, "yDesc": y}
        if rng.integers(2):
            name, direction, given["do_backward"] = "miopenPoolingForward", ["fwd"], False
        else:
            name, direction = "miopenPoolingBackward", ["fwd", "bwd"]
            given |= {"dxDesc": packed(x.dtype, x.lens, rng.permutation(x.ndim).tolist()), "dyDesc": y}
        _, remarks, work = repeated(name, **given)
        assert remarks == ""
        for role in ("x", "y", *(("dx", "dy") if len(direction) > 1 else ())):
            same(given[f"{role}Desc"], getattr(work, role))
        made = work.pool
        assert [getattr(made, a) for a in ("windows", "pads", "strides", "pooling_mode", "workspace_index_mode")] == [
            getattr(pool, a) for a in ("windows", "pads", "strides", "pooling_mode", "workspace_index_mode")]
        if int(pool.pooling_mode) == 0:
            assert made.workspace_index_type == pool.workspace_index_type
        assert bits(work, direction)


def test_element_wise_commands_describe_the_call(rng):
    for _ in range(60):
        x, forward = a_tensor(rng), bool(rng.integers(2))
        numbers = [float(v) for v in rng.standard_normal(3)]
        four = {f"{role}Desc": x for role in ("x", "y", "dx", "dy")}
        form = "Forward" if forward else "Backward"
        activ = mi.ActivationDescriptor(int(rng.integers(10)), *numbers)
        lrn = mi.LRNDescriptor(int(rng.integers(2)), int(rng.integers(1, 9)), *np.abs(numbers).tolist())
        scalars = dict(zip(("alpha", "beta"), numbers, strict=False))
        softmax = {"algorithm": int(rng.integers(3)), "mode": int(rng.integers(2))}
        for name, given, expected in (
            (f"miopenActivation{form}", {"activDesc": activ},
             {"mode": activ.mode, "parameters": (activ.alpha, activ.beta, activ.gamma)}),
            (f"miopenLRN{form}", {"lrnDesc": lrn},
             {"cross": bool(lrn.mode), "n": lrn.n, "alpha": lrn.alpha, "beta": lrn.beta, "k": lrn.k}),
            (f"miopenSoftmax{form}_V2", {**scalars, **softmax}, {"scalars": tuple(scalars.values()), **softmax}),
        ):
            _, remarks, work = repeated(name, **given, **four)
            assert remarks == ""
            same(x, work.desc)
            assert {attribute: getattr(work, attribute) for attribute in expected} == expected
            assert bits(work, ["fwd"] if forward else ["bwd"])


def test_batch_norm_commands_describe_the_call(rng):
    for _ in range(60):
        x, mode = a_tensor(rng), int(rng.integers(2))
        bn = TensorDescriptor()
        mi.miopenDeriveBNTensorDescriptor(bn, x, mode)
        if x.dtype in ("float16", "bfloat16") and rng.integers(2):
            bn = TensorDescriptor(x.dtype, bn.lens)
        given = {"bn_mode": mode, "xDesc": x, "yDesc": x, "dxDesc": x, "dyDesc": x}
        wants = [object() if rng.integers(2) else None for _ in range(2)]
        which = rng.integers(6)
        activ = mi.ActivationDescriptor(int(rng.integers(10)), *(float(a) for a in rng.standard_normal(3)))
        inverse = apart = False
        if which == 3:
            name = "miopenBatchNormForwardTrainingActivation_V2" if rng.integers(2) else (
                "miopenBatchNormalizationForwardTraining_V3")
            following, apart = object() if rng.integers(2) else wants[0], wants[0] is not None
            given |= {"scaleDesc": bn, "prevResultRunningMean": wants[0], "nextResultRunningMean": following,
                      "resultSaveMean": wants[1]}
            apart = apart and following is not wants[0]
            expected = (False, False, wants[0] is not None, wants[1] is not None)
        elif which == 4:
            inverse = bool(rng.integers(2))
            name = f"miopenBatchNormForwardInferenceActivation{'InvVariance' if inverse else ''}"
            given |= {"scaleDesc": bn, "estimatedMean": wants[0]}
            expected = (False, True, wants[0] is not None, False)
        elif which == 5:
            name = "miopenBatchNormBackwardActivation"
            given |= {"scaleDesc": bn, "savedMean": wants[1]}
            expected = (True, False, False, wants[1] is not None)
        elif which == 0:
            name = "miopenBatchNormalizationForwardTraining"
            given |= {"bnScaleBiasMeanVarDesc": bn, "resultRunningMean": wants[0], "resultSaveMean": wants[1]}
            expected = (False, False, wants[0] is not None, wants[1] is not None)
        elif which == 1:
            name = "miopenBatchNormalizationForwardInference_V2"
            given |= {"scaleDesc": bn, "estimatedMean": wants[0]}
            expected = (False, True, wants[0] is not None, False)
        else:
            name = "miopenBatchNormalizationBackward"
            given |= {"bnScaleBiasDiffDesc": bn, "savedMean": wants[1]}
            expected = (True, False, False, wants[1] is not None)
        if "Activation" in name:
            given["activDesc"] = activ if rng.integers(4) else None
        _, remarks, work = repeated(name, **given)
        assert remarks == ""
        same(x, work.desc)
        activ = given.get("activDesc")
        assert work.activation == (0 if activ is None else activ.mode)
        assert not work.activation or work.parameters == (activ.alpha, activ.beta, activ.gamma)
        assert (work.inverse, work.apart) == (inverse, apart)
        assert work.derived.dtype == bn.dtype
        assert work.mode == mode
        assert (work.backward, work.inference, work.run, work.save) == expected


def test_tensor_commands_describe_the_call(rng):
    for _ in range(40):
        c = a_tensor(rng)
        b_lens = tuple(n if rng.integers(2) else 1 for n in c.lens)
        b = c if b_lens == c.lens else TensorDescriptor(c.dtype, b_lens)
        numbers = dict(zip(("alpha1", "alpha2", "beta"), map(float, rng.standard_normal(3)), strict=True))
        op = int(rng.integers(4))
        _, remarks, work = repeated("miopenOpTensor", aDesc=c, bDesc=b, cDesc=c, tensorOp=op, **numbers)
        assert remarks == ""
        same(c, work.desc)
        same(b, work.b)
        assert (work.op - 2, *work.scalars) == (op, *numbers.values())
        for number, name in enumerate(("miopenSetTensor", "miopenScaleTensor")):
            _, _, work = repeated(name, yDesc=c, alpha=numbers["beta"])
            same(c, work.desc)
            assert (work.op, work.value) == (number, numbers["beta"])


def gapped(dtype, lens):
    return TensorDescriptor(dtype, lens, [2 * int(np.prod(lens[i + 1:])) for i in range(len(lens))])


def test_norm_commands_describe_the_call(rng):
    for _ in range(60):
        x = TensorDescriptor(str(rng.choice(TYPES)), tuple(int(n) for n in rng.integers(2, 7, rng.integers(2, 6))))
        c, last = x.lens[1], x.lens[-1:]
        kind = str(rng.choice(["Layer", "AddLayer", "T5Layer", "Group"]))
        if kind == "Group" and len(x.lens) < 3:
            continue
        forward, weights = bool(rng.integers(2)), bool(rng.integers(2))
        dim, groups = int(rng.integers(len(x.lens) + 1)), int(rng.choice([n for n in range(1, c + 1) if c % n == 0]))
        given = {"xDesc": x, "yDesc": x, "dyDesc": x, "dxDesc": x, "epsilon": 1e-3,
                 "mode": weights + {"AddLayer": 2, "T5Layer": 4}.get(kind, 0)}
        given |= {"x2Desc": x} if kind == "AddLayer" else {}
        given |= {"num_groups": groups} if kind == "Group" else {"normalized_dim": dim} if kind != "T5Layer" else {}
        _, remarks, work = repeated(f"miopen{kind}Norm{'Forward' if forward else 'Backward'}", **given)
        assert remarks == ""
        same(x, work.desc)
        assert (work.affine, work.epsilon) == (weights, 1e-3)
        assert work.number == (groups if kind == "Group" else len(x.lens) - 1 if kind == "T5Layer" else dim)
        assert work.inner.lens == ((c,) if kind == "Group" else last if kind == "T5Layer" else x.lens[dim:] or (1,))
        assert bits(work, ["fwd"] if forward else ["bwd"])


def test_commands_of_tensors_with_lengths_describe_the_call(rng):
    for _ in range(30):
        dtype = str(rng.choice(TYPES))
        lens = tuple(int(n) for n in 2 * rng.integers(1, 4, rng.integers(1, 5)))
        axis, forward = int(rng.integers(len(lens))), bool(rng.integers(2))
        word = "Forward" if forward else "Backward"
        made = gapped if rng.integers(2) else TensorDescriptor
        x, flat = made(dtype, lens), TensorDescriptor(dtype, lens)

        def along(n, dtype=dtype, lens=lens, axis=axis):
            return TensorDescriptor(dtype, (*lens[:axis], n, *lens[axis + 1:]))

        parts = [along(int(n)) for n in rng.integers(1, 5, rng.integers(1, 9))]
        whole = along(sum(part.lens[axis] for part in parts))
        _, remarks, work = repeated("miopenCatForward", xDescs=parts, yDesc=whole, dim=axis)
        assert remarks == ""
        same(whole, work.desc["y"])
        assert (work.axis, [work.desc[name].lens for name in work.inputs]) == (axis, [part.lens for part in parts])

        _, remarks, work = repeated(f"miopenGLU{word}", inputDesc=flat, outputDesc=along(lens[axis] // 2),
                                    outputGradDesc=along(lens[axis] // 2), inputGradDesc=flat, dim=axis)
        assert remarks == ""
        same(flat, work.desc["x"])
        assert work.axis == axis
        assert bits(work, ["fwd"] if forward else ["fwd", "bwd"])

        count = lens[1] if len(lens) > 1 and rng.integers(2) else 1
        _, remarks, work = repeated("miopenPReLUBackward", inputDesc=flat, doutputDesc=flat, dinputDesc=flat,
                                    weightDesc=TensorDescriptor(dtype, (count,)))
        assert remarks == ""
        same(flat, work.desc["x"])
        assert work.weights == count

        kept = bool(rng.integers(2)) or len(lens) == 1
        out = (*lens[:axis], *((1,) if kept else ()), *lens[axis + 1:])
        k = int(rng.integers(1, lens[axis] + 1))
        _, remarks, work = repeated("miopenKthvalueForward", inputDesc=x, outputDesc=made(dtype, out),
                                    indicesDesc=made("int64", out), k=k, dim=axis - len(lens), keepDim=kept)
        assert remarks == ""
        same(x, work.desc["x"])
        assert (work.k, work.axis, work.kept) == (k, axis, kept)

        number, given = int(rng.integers(3)), {f"{name}Desc": x for name in ("input", "target", "doutput", "dinput")}
        _, remarks, work = repeated(f"miopenSoftMarginLoss{word}", **given, outputDesc=x, reduction=number)
        assert remarks == ""
        same(x, work.desc["x"])
        same(x, work.desc["t"])
        assert work.reduction == number
        assert bits(work, ["fwd"] if forward else ["bwd"])
        turned = TensorDescriptor(dtype, (3, 4, 5), (20, 1, 4))
        rest = TensorDescriptor(dtype, turned.lens)
        _, remarks, work = repeated("miopenSoftMarginLossForward", inputDesc=turned, targetDesc=rest, outputDesc=rest,
                                    reduction="mean")
        assert (remarks, work.reduction) == ("", 2)
        same(turned, work.desc["x"])

        margin, power = float(rng.standard_normal()), int(rng.integers(1, 3))
        _, remarks, work = repeated("miopenMultiMarginLossForward", inputDesc=made(dtype, (4, 5)),
                                    targetDesc=made("int64", (4,)), weightDesc=made(dtype, (5,)),
                                    outputDesc=TensorDescriptor(dtype, (1,)), p=power, margin=margin, reduction=number)
        assert (remarks, work.margin, work.p, work.reduction) == ("", margin, power, number)

        rope = TensorDescriptor(dtype, (3, *lens[:3], 6))
        turns = TensorDescriptor(dtype, rope.lens[1:])
        _, remarks, work = repeated(f"miopenRoPE{word}", xDesc=rope, yDesc=rope, dyDesc=rope, dxDesc=rope,
                                    cosDesc=turns, sinDesc=turns)
        assert remarks == ""
        same(rope, work.desc["x"])
        same(turns, work.desc["cos"])
        assert bits(work, ["fwd"] if forward else ["fwd", "bwd"])


def test_commands_of_ctc_getitem_and_adam_describe_the_call(rng):
    for _ in range(30):
        dtype, n, classes = str(rng.choice(TYPES)), int(rng.integers(1, 5)), int(rng.integers(2, 9))
        steps = rng.integers(8, 20, n)
        counts = [int(rng.integers(0, 4)) for _ in steps]
        probs = TensorDescriptor(dtype, (int(max(steps)), n, classes))
        ctc = mi.CTCLossDescriptor("float32", int(rng.integers(classes)), bool(rng.integers(2)))
        _, remarks, work = repeated("miopenCTCLoss", probsDesc=probs, gradientsDesc=probs, ctcLossDesc=ctc,
                                    labelLengths=counts, inputLengths=steps)
        assert remarks == ""
        same(probs, work.desc["x"])
        assert (work.steps, work.counts) == (tuple(steps), tuple(counts))
        assert (work.blank, work.softmax) == (ctc.blank_label_id, ctc.apply_softmax_layer)

        count, length = int(rng.integers(0, 3)), int(rng.integers(1, 9))
        dx = TensorDescriptor(dtype, (4, 5, 6))
        cut = [2, 1, 6, 2] if rng.integers(2) else []
        seen = (4, 5, 3 if cut else 6)
        dy = TensorDescriptor(dtype, (length, *seen[count:]) if count else seen)
        _, remarks, work = repeated(
            "miopenGetitemBackward", dyDesc=dy, dxDesc=dx, indexCount=count,
            indexDescs=[TensorDescriptor("int32", (length,))] * count, dims=list(range(count)), dimCount=count,
            sliceCount=len(cut) // 4, slices=cut, offset=0)
        assert remarks == ""
        same(dx, work.desc["dx"])
        same(dy, work.desc["dy"])
        assert (work.count, work.dims, work.cuts) == (count, tuple(range(count)), tuple(cut))

        p = TensorDescriptor(dtype, tuple(int(v) for v in rng.integers(1, 5, 3)))
        numbers = dict(zip(("lr", "beta1", "beta2", "weight_decay", "eps"), rng.random(5).tolist(), strict=True))
        amp, transformers = dtype == "float32" and bool(rng.integers(2)), bool(rng.integers(2))
        flags = {name: bool(rng.integers(2)) for name in ("amsgrad", "maximize", "adamw", "correct_bias")}
        one = TensorDescriptor("int32", (1,))
        given = {"paramDesc": p, "gradDesc": TensorDescriptor("float16", p.lens) if amp else p, "stateStepDesc": one,
                 "maxExpAvgSqDesc": p, **numbers, **flags,
                 **({"gradScaleDesc": one, "foundInfDesc": one} if amp else {})}
        _, remarks, work = repeated("miopenTransformersAdamW" if transformers else "miopenFusedAdam", **given)
        assert remarks == ""
        same(p, work.desc["p"])
        assert {name: work.command.real(name) for name in numbers} == numbers
        assert (work.amp, work.transformers) == (amp, transformers)
        if transformers:
            assert work.flag("correct_bias") == flags["correct_bias"]
        else:
            assert ("adamw" in work.command.operation) == flags["adamw"]
            assert [work.flag(name) for name in ("amsgrad", "maximize")] == [flags["amsgrad"], flags["maximize"]]


def test_fused_commands_describe_the_call(rng):
    for _ in range(60):
        groups, spatial = int(rng.integers(1, 3)), int(rng.integers(1, 3))
        order = "NHWC" if spatial == 2 and rng.integers(2) else "NCHW"
        dtype = str(rng.choice(TYPES))

        def tensor(lens, dtype=dtype, order=order):
            return packed(dtype, lens, LAYOUTS[order] if len(lens) == 4 else range(len(lens)))

        x = tensor((int(rng.integers(1, 4)), 4, *(int(n) for n in rng.integers(6, 9, spatial))))
        w = tensor((6, 4 // groups, *(int(n) for n in rng.integers(1, 4, spatial))))
        conv = mi.ConvolutionDescriptor(*[tuple(int(n) for n in rng.integers(low, 3, spatial)) for low in (0, 1, 1)],
                                        groups=groups)
        y = tensor(conv.output_lens(x, w))
        one = TensorDescriptor(dtype, (1, 6, *(1,) * spatial))
        activ = mi.ActivationDescriptor(int(rng.integers(1, 11)), *(float(v) for v in rng.standard_normal(3)))
        bias, norm, follows = (bool(v) for v in rng.integers(2, size=3))
        given = {"xDesc": x, "wDesc": w, "convDesc": conv, "yDesc": y, "activationDesc": activ}
        _, remarks, work = repeated("miopenConvolutionBiasActivationForward", **given, bias=one if bias else None,
                                    biasDesc=one, z=None, alpha1=1.0, alpha2=0.0)
        check_fused(work, "cba" if bias else "ca", x, w, y, conv, activ)
        plan = commands.as_in_the_header({"x_desc": x, "w_desc": w, "conv_desc": conv, "z_desc": y, "bias_desc": None,
                                          "activation_desc": activ, "y_desc": y, "norm_desc": one, "epsilon": 1e-6})
        line = commands.builder("convolution_bias_activation_forward")(plan)({"alpha1": 0.5, "alpha2": 2.0})
        assert line.endswith("alpha1 0.5, z times 2")
        check_fused(families.make(parse_line(line, FAMILIES)), "cna", x, w, y, conv, activ)

        mode = "c" + "b" * bias + "n" * norm + "a" * follows
        if mode in ("c", "cbn"):
            continue
        fused, args = mi.miopenCreateFusionPlan(0, x), mi.miopenCreateOperatorArgs()
        mi.miopenSetOpArgsConvForward(args, mi.miopenCreateOpConvForward(fused, conv, w), 1, 0, None)
        if bias:
            mi.miopenSetOpArgsBiasForward(args, mi.miopenCreateOpBiasForward(fused, one), 1, 0, None)
        if norm:
            mi.miopenSetOpArgsBatchNormInference(args, mi.miopenCreateOpBatchNormInference(fused, 1, one), 1, 0,
                                                 *[None] * 4, 1e-6)
        if follows:
            mi.miopenSetOpArgsActivForward(args, mi.miopenCreateOpActivationForward(fused, activ.mode), 1, 0,
                                           activ.alpha, activ.beta, activ.gamma)
        _, remarks, work = repeated("miopenExecuteFusionPlan", fusePlanDesc=fused, inputDesc=x, outputDesc=y, args=args)
        assert remarks == ("3 dimensions, written as four" if spatial == 1 else "")
        check_fused(work, mode, x, w, y, conv, activ if follows else None)


def check_fused(work, mode, x, w, y, conv, activ):
    def four(values, filler):
        return (filler, *values) if len(values) == 1 else values

    for mine, its in ((x, work.x), (w, work.w), (y, work.y)):
        assert (its.dtype, its.lens) == (mine.dtype, (*mine.lens[:2], *four(mine.lens[2:], 1)))
        assert mine.ndim == 3 or its.strides == mine.strides or 1 in mine.lens
    assert (work.conv.pads, work.conv.strides, work.conv.dilations, work.conv.group_count) == (
        four(conv.pads, 0), four(conv.strides, 1), four(conv.dilations, 1), conv.group_count)
    assert work.mode == mode
    assert activ is None or (work.activation, work.parameters) == (activ.mode, (activ.alpha, activ.beta, activ.gamma))


def test_batch_norm_plans_have_commands():
    x, bn = TensorDescriptor("float32", (2, 3, 4, 5)), TensorDescriptor("float32", (1, 3, 1, 1))
    leaky, thing = mi.ActivationDescriptor("leaky", 0.25), object()

    def line(make, *activation):
        plan, args = mi.miopenCreateFusionPlan(0, x), mi.miopenCreateOperatorArgs()
        make(plan, args)
        if activation:
            create, arguments = activation
            arguments(args, create(plan, leaky.mode))
        words, remarks, _ = repeated("miopenExecuteFusionPlan", fusePlanDesc=plan, inputDesc=x, outputDesc=x, args=args)
        return words + (f" # {remarks}" if remarks else "")

    def inference(plan, args):
        mi.miopenSetOpArgsBatchNormInference(args, mi.miopenCreateOpBatchNormInference(plan, 1, bn), 1, 0, *[thing] * 4,
                                             1e-3)

    def training(plan, args):
        mi.miopenSetOpArgsBatchNormForward(args, mi.miopenCreateOpBatchNormForward(plan, 0, True), 1, 0, thing, thing,
                                           None, None, thing, thing, 0.5, 1e-5)

    def backward(plan, args):
        mi.miopenSetOpArgsBatchNormBackward(args, mi.miopenCreateOpBatchNormBackward(plan, 1), 1, 0, *[thing] * 7)

    ahead = (mi.miopenCreateOpActivationForward,
             lambda args, op: mi.miopenSetOpArgsActivForward(args, op, 1, 0, 0.25, 0, 0))
    back = (mi.miopenCreateOpActivationBackward,
            lambda args, op: mi.miopenSetOpArgsActivBackward(args, op, 1, 0, None, None, 0.25, 0, 0))
    size, follows = "-n 2 -c 3 -H 4 -W 5", "-f 8 -x 0.25 -y 0 -z 0"
    assert line(inference) == f"bnorm {size} -m 1 --forw 2 -b 0 -r 1 -t 1 # epsilon 0.001"
    assert line(inference, *ahead) == f"CBAInfer {size} -F 2 -M 1 -m 8 -A 0.25 -B 0 -G 0 -t 1 # epsilon 0.001"
    assert line(training) == f"bnorm {size} -m 0 --forw 1 -b 0 -s 0 -r 1 -t 1 # expAvgFactor 0.5"
    assert line(training, *ahead) == f"bnorm {size} -m 0 {follows} --forw 1 -b 0 -s 0 -r 1 -t 1 # expAvgFactor 0.5"
    assert line(backward) == f"bnorm {size} -m 1 --forw 0 -b 1 -s 1 -t 1"
    assert line(backward, *back) == f"bnorm {size} -m 1 {follows} --forw 0 -b 1 -s 1 -t 1"


def test_recurrent_commands_to_the_byte():
    rnn = mi.RNNDescriptor(7, 2, "LSTM", 1, 1, 0, "float16", mi.DropoutDescriptor(0.25, None, 0, 7 << 32 | 5))
    steps = [TensorDescriptor("float16", (n, 5)) for n in (3, 3, 1)]
    x, y = (mi.SeqTensorDescriptor("float16", 2, 6, 3, n, (4, 6, 1)) for n in (5, 14))
    states = dict.fromkeys(("hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy"), 1)
    cell, drop = "-l 2 -b 1 -m lstm -p 0 -r 1", "-U 1 -P 0.25 -L 5 -M 7"
    older = {"rnnDesc": rnn, "sequenceLen": 3, "xDesc": steps, **states}
    newer = {"rnnDesc": rnn, "xDesc": x, "yDesc": y}
    first, second = f"rnnfp16 -n 3,3,1 -W 5 -H 7 {cell} -q 0 -k 3", f"-n 3 -W 5 -H 7 {cell} -k 6 -K 4,6,1 -a 0 -I 2"
    second = f"rnn_seqfp16 {second}"
    for name, given, expected in (
        ("miopenRNNForwardTraining", older, f"{first} -c 0 -F 1 -t 1 -w 1 {drop}"),
        ("miopenRNNForwardInference", {**older, "sequenceLen": 2},
         f"rnnfp16 -n 3 -W 5 -H 7 {cell} -q 0 -k 2 -c 1 -F 1 -t 1 -w 1 {drop}"),
        ("miopenRNNBackwardData", {**older, "dxDesc": steps}, f"{first} -F 2 -t 1 -w 1 {drop}"),
        ("miopenRNNBackwardWeights", {**older, "hx": None}, f"{first} -F 4 -t 1 -w 1 {drop} # without hx"),
        ("miopenRNNForward", {**newer, **states, "fwdMode": "inference"}, f"{second} -c 1 -F 1 -t 1 -w 1 {drop}"),
        ("miopenRNNForward", {**newer, **states, "fwdMode": 0}, f"{second} -c 0 -F 1 -t 1 -w 1 {drop}"),
        ("miopenRNNBackwardSeqData", {**newer, **states}, f"{second} -F 2 -t 1 -w 1 {drop}"),
        ("miopenRNNBackwardWeightsSeqTensor", {**newer, **states}, f"{second} -F 4 -t 1 -w 1 {drop}"),
        ("rnn_forward", newer, f"{second} -c 1 -F 1 -t 1 -w 1 {drop}"),
        ("rnn_forward", {**newer, "training": True, "hx": False, "cy": False},
         f"{second} -c 0 -F 1 -t 1 -w 1 {drop} # without hx cy"),
        ("rnn_backward_data", newer, f"{second} -F 2 -t 1 -w 1 {drop}"),
        ("rnn_backward_weights", newer, f"{second} -F 4 -t 1 -w 1 {drop}"),
    ):
        words, remarks, work = repeated(name, **given)
        assert words + (f" # {remarks}" if remarks else "") == expected, name
        assert work.rnn.rnn_mode == rnn.rnn_mode
        if words.startswith("rnn_seq"):
            assert (work.x, work.y) == (x, y)
    assert logged._text("rnnDesc", rnn) == (
        "7, 2, miopenLSTM, miopenRNNbidirection, miopenRNNdefault, miopenRNNlinear, miopenRNNwithBias, "
        "0.25, 30064771077, 0, 0, ")
    assert logged._text("xDesc", x) == "{3, 6, 5}, miopenRNNDataSeqMajorPadded, lengths { 4 6 1 }, "
    for kind in (mi.RNNDescriptor, mi.SeqTensorDescriptor):
        assert logged._text("desc", kind()) == "never set, "


RECURRENT = """
import numpy as np
import miopyx as mi

rng = np.random.default_rng(1)
rnn, lengths = mi.RNNDescriptor(6, 2, "LSTM", 1), (4, 3, 3)
x, y = (mi.SeqTensorDescriptor("float32", 1, 4, 3, n, lengths) for n in (5, 12))
xs, ys = ([mi.TensorDescriptor("float32", (n, width)) for n in (3, 3, 3, 1)] for width in (5, 12))
h, w = mi.TensorDescriptor("float32", (4, 3, 6)), mi.TensorDescriptor()
with mi.Handle(DEVICE) as handle:
    mi.miopenGetRNNParamsDescriptor(handle, rnn, xs[0], w, "float32")

    def new(*lens):
        return handle.upload(rng.standard_normal(lens, dtype=np.float32))

    a, da, b, db, p, dp = new(*x.shape), new(*x.shape), new(*y.shape), new(*y.shape), new(*w.lens), new(*w.lens)
    hx, cx, hy, cy, dhx, dcx, dhy, dcy = (new(*h.lens) for _ in range(8))
    size, kept = mi.miopenGetRNNTempSpaceSizes(handle, rnn, x, 0)
    space, reserve = (handle.zeros((max(n, 1),), "int8") for n in (size, kept))
    more = space, size, reserve, kept
    nbytes = 4 * int(np.prod(w.lens))
    mi.miopenRNNForward(handle, rnn, 0, x, a, h, hx, hy, h, cx, cy, y, b, p, nbytes, *more)
    mi.miopenRNNBackwardSeqData(handle, rnn, y, b, db, h, hx, dhy, dhx, h, cx, dcy, dcx, x, da, p, nbytes, *more)
    mi.miopenRNNBackwardWeightsSeqTensor(handle, rnn, x, a, h, hx, y, b, dp, nbytes, *more)
    size, kept = (f(handle, rnn, 4, xs) for f in (mi.miopenGetRNNWorkspaceSize, mi.miopenGetRNNTrainingReserveSize))
    space, reserve = (handle.zeros((max(n, 1),), "int8") for n in (size, kept))
    more = space, size, reserve, kept
    mi.miopenRNNForwardInference(handle, rnn, 4, xs, a, h, hx, h, cx, w, p, ys, b, h, hy, h, cy, space, size)
    mi.miopenRNNForwardTraining(handle, rnn, 4, xs, a, h, hx, h, cx, w, p, ys, b, h, hy, h, cy, *more)
    mi.miopenRNNBackwardData(handle, rnn, 4, ys, b, ys, db, h, dhy, h, dcy, w, p, h, hx, h, cx, xs, da, h, dhx, h, dcx,
                             *more)
    mi.miopenRNNBackwardWeights(handle, rnn, 4, xs, a, h, hx, ys, b, w, dp, *more)
    table = x.table if handle.device.is_host else handle.upload(x.table)
    given = {"x": a, "w": p, "hx": hx, "cx": cx, "y": b, "hy": hy, "cy": cy, "dy": db, "dhy": dhy, "dcy": dcy,
             "dx": da, "dhx": dhx, "dcx": dcx, "dw": dp, "table": table, "workSpace": space}
    plans = (handle.rnn_forward(rnn, x, w, y, True), handle.rnn_backward_data(rnn, y, w, x),
             handle.rnn_backward_weights(rnn, x, y, w))
    kept = mi.miopenGetRNNTempSpaceSizes(handle, rnn, x, 0)[1]
    given["reserve"] = handle.zeros((kept,), "int8")
    for plan in plans:
        given["workSpace"] = handle.zeros((plan.workspace,), "int8") if plan.workspace else None
        plan(*(given[name] for name in plan.buffers))
    handle.finish()
    print(*(float(np.abs(handle.download(memory)).sum()) for memory in (b, hy, cy, da, dhx, dcx, dp)))
"""


def test_recurrent_calls_are_logged_and_repeated(tmp_path, device_name, capsys):
    code = RECURRENT.replace("DEVICE", repr(device_name))
    runs = {on: python(code, **dict.fromkeys(on, "1")) for on in ((), SWITCHES[:1], SWITCHES[1:])}
    assert len({out for out, _ in runs.values()}) == 1
    printed = [line for line in runs[SWITCHES[1:]][1].splitlines() if line.startswith(PREFIX)]
    assert len(printed) == 7 + 3
    assert sum("Plan.__call__" in line for line in printed) == 3
    calls = runs[SWITCHES[:1]][1]
    for line in ("\txDesc = { {3, 5}, {5, 1}, packed,  {3, 5}, {5, 1}, packed, ", "Plan Handle.rnn_forward(",
                 "\txDesc = {3, 4, 5}, miopenRNNDataSeqMajorNotPadded, lengths { 4 3 3 }, \n",
                 "\trnnDesc = 6, 2, miopenLSTM, miopenRNNbidirection, "):
        assert line in calls, line
    assert re.search(r"\tdcx = 0x[0-9a-f]+", calls)
    path = tmp_path / "list.txt"
    path.write_text("".join(line.partition("] ")[2] + "\n" for line in printed))
    assert main(["--file", str(path), "-i", "1", "--device", device_name]) == 0
    assert "10 of 10 lines verified" in capsys.readouterr().out


def test_what_no_flag_can_say_is_a_remark():
    x, y = TensorDescriptor("float32", (2, 3, 4, 5)), TensorDescriptor("float32", (2, 3, 4, 5), (99, 30, 6, 1))
    _, remarks, _ = repeated("miopenSoftmaxForward", xDesc=x, yDesc=y)
    assert remarks == "strides of y {99, 30, 6, 1}"
    _, remarks, _ = repeated("miopenActivationForward", activDesc=mi.ActivationDescriptor(3), xDesc=y, yDesc=y)
    assert remarks == "strides of x {99, 30, 6, 1}, strides of y {99, 30, 6, 1}"
    flat = TensorDescriptor("float32", (7, 5, 6))
    _, remarks, work = repeated("miopenScaleTensor", yDesc=flat, alpha=2)
    assert (remarks, work.desc.lens) == ("3 dimensions, written as four", (7, 5, 1, 6))


def test_what_the_driver_cannot_run_has_no_command(capsys):
    integers = TensorDescriptor("int32", (1, 2, 3, 4))
    pool = logged.logged(mi.miopenPoolingForward, False, True)
    scale = logged.logged(mi.miopenScaleTensor, False, True)
    for arguments in ((None, None, 1, None, None, 0, None, None, False, None, 0),
                      (None, 3, 1, integers, None, 0, integers, None, False, None, 0)):
        with pytest.raises(mi.MIOpenError):
            pool(*arguments)
    with pytest.raises(mi.MIOpenError):
        scale(None, integers, None, 2)
    assert capsys.readouterr().err == ""


def test_every_layer_function_has_a_builder():
    computes = re.compile(r"miopen(Pooling|Activation|LRN|Softmax|BatchNorm(alization)?)(Forward|Backward).*|"
                          r"miopen((Add|T5)?Layer|Group)Norm(Forward|Backward)|"
                          r"miopenReduce(Tensor|(Calculation|Extreme)Forward)|miopenDropout(Forward|Backward)|"
                          r"miopen(Op|Set|Scale)Tensor|"
                          r"miopen(Cat|GLU|RoPE|Kthvalue|SoftMarginLoss|MultiMarginLoss)(Forward|Backward)|"
                          r"miopen(PReLU|Getitem)Backward|miopenCTCLoss|miopenRNN(Forward|Backward).*|"
                          r"miopen(FusedAdam|TransformersAdamW)(WithOutput)?|"
                          r"miopenConvolutionBiasActivationForward|miopenExecuteFusionPlan")
    for module in logged.MODULES:
        for name in module.__all__:
            assert (commands.builder(name) is not None) == bool(computes.fullmatch(name)), name
    plans = [name for name in vars(mi.Handle)
             if re.fullmatch(r"[a-z_0-9]+_(forward|backward|training|inference|tensor|data|weights|adam|adam_w)", name)]
    assert len(plans) > 40
    for name in plans:
        assert commands.builder(name) or name in logged._PLANS or name in logged._PLANS_WITHOUT_COMMAND, name


# ---------------------------------------------------------------------------------- the package with the variables set


EVERYTHING = """
import numpy as np
import miopyx as mi

rng = np.random.default_rng(1)
x = mi.TensorDescriptor("float32", (2, 4, 6, 5))
data, out, dy, dx = (rng.standard_normal(x.lens, dtype=np.float32) for _ in range(4))
pool, bn = mi.PoolingDescriptor(0, (2, 2), (0, 0), (2, 1)), mi.TensorDescriptor()
y = mi.TensorDescriptor("float32", pool.output_lens(x))
mi.miopenDeriveBNTensorDescriptor(bn, x, mi.miopenBNSpatial)
small, params = np.empty(y.lens, np.float32), [np.ones(bn.lens, np.float32) for _ in range(6)]
work, scales = np.empty(mi.miopenPoolingGetWorkSpaceSizeV2(pool, y), np.uint8), np.empty(x.lens, np.float32)
relu, lrn = mi.ActivationDescriptor(3), mi.LRNDescriptor(1)
with mi.Handle(DEVICE) as handle:
    mi.miopenPoolingForward(handle, pool, 1, x, data, 0, y, small, True, work, work.nbytes)
    mi.miopenPoolingBackward(handle, pool, 1, y, small, y, small.copy(), x, data, 0, x, dx, work)
    mi.miopenActivationForward(handle, relu, 1, x, data, 0, x, out)
    mi.miopenActivationBackward(handle, relu, 1, x, out, x, dy, x, data, 0, x, dx)
    mi.miopenLRNForward(handle, lrn, 1, x, data, 0, x, out, True, scales)
    mi.miopenLRNBackward(handle, lrn, 1, x, out, x, dy, x, data, 0, x, dx, scales)
    mi.miopenSoftmaxForward_V2(handle, 1, x, data, 0, x, out, 2, 0)
    mi.miopenSoftmaxBackward(handle, 1, x, out, x, dy, 0.5, x, dx)
    mi.miopenBatchNormalizationForwardTraining(handle, 1, 1, 0, x, data, x, out, bn, *params[:2], 0.1, *params[2:4],
                                               1e-5, *params[4:])
    mi.miopenBatchNormalizationForwardInference(handle, 1, 1, 0, x, data, x, out, bn, *params[:4], 1e-5)
    mi.miopenBatchNormalizationBackward(handle, 1, 1, 0, 1, 0, x, data, x, dy, x, dx, bn, params[0], *params[2:4], 1e-5,
                                        *params[4:])
    mi.miopenBatchNormForwardTrainingActivation_V2(handle, 1, 1, 0, x, data, x, out, bn, bn, bn, bn, *params[:2], 0.1,
                                                   *params[2:], 1e-5, None, None, relu)
    mi.miopenBatchNormForwardInferenceActivationInvVariance(handle, 1, 1, 0, x, data, x, out, bn, bn, bn, bn,
                                                            *params[:4], relu)
    mi.miopenOpTensor(handle, 0, 1, x, data, 0.5, bn, params[0], 0, x, out)
    mi.miopenSetTensor(handle, bn, params[0], 2)
    mi.miopenScaleTensor(handle, bn, params[0], 0.5)
    mi.miopenTransformTensor(handle, 1, x, data, 0, x, out)
    handle.pooling_forward(pool, x, y)(data, small)
    handle.pooling_backward(pool, y, y, x, x)(small, dx, work)
    handle.activation_forward(relu, x, x)(data, out)
    handle.activation_backward(relu, x, x, x, x)(out, dy, data, dx)
    handle.lrn_forward(lrn, x, x)(data, out)
    handle.lrn_backward(lrn, x, x, x, x)(out, dy, data, dx, scales)
    handle.softmax_forward(x, x, algorithm=2)(data, out, beta=0.25)
    handle.softmax_backward(x, x, x)(out, dy, dx)
    handle.batch_norm_training(1, x, x, bn)(data, out, *params, epsilon=1e-3)
    handle.batch_norm_inference(1, x, x, bn)(data, out, *params[:4])
    handle.batch_norm_backward(1, x, x, x, bn)(data, dy, dx, params[0], *params[2:])
    handle.batch_norm_backward(1, x, x, x, bn, activ_desc=relu)(data, dy, dx, params[0], *params[2:], params[1])
    handle.op_tensor(1, x, bn, x)(data, params[0], out, alpha1=3)
    handle.set_tensor(x, 4)(out)
    handle.scale_tensor(x)(out, 2)
    handle.transform_tensor(x, x)(data, out)
    handle.finish()
print(*(float(np.abs(a).sum()) for a in (out, dx, small, *params)))
try:
    handle.pooling_forward(None, x, y)
except mi.BadParmError as error:
    print(error)
"""


def test_logging_changes_no_result_and_the_driver_repeats_every_call(tmp_path, device_name, capsys):
    code = EVERYTHING.replace("DEVICE", repr(device_name))
    runs = {on: python(code, **dict.fromkeys(on, "1")) for on in ((), SWITCHES[:1], SWITCHES[1:], SWITCHES)}
    assert len({out for out, _ in runs.values()}) == 1
    printed = [line for line in runs[SWITCHES[1:]][1].splitlines() if line.startswith(PREFIX)]
    assert all(re.match(re.escape(PREFIX) + r"Command \[\S+\] \./bin/MIOpenDriver ", line) for line in printed)
    assert len(printed) == 16 + 15
    assert sum("Plan.__call__" in line for line in printed) == 15
    assert sum(line.endswith("# epsilon 0.001") for line in printed) == 1
    assert sum("-B 0.25" in line for line in printed) == 1
    calls = runs[SWITCHES[:1]][1]
    assert "\tbeta = 0.25\n" in calls
    assert "Plan Handle.op_tensor(" in calls
    both, alone = (sum(line.startswith(PREFIX) for line in runs[on][1].splitlines()) for on in (SWITCHES, SWITCHES[:1]))
    assert both == alone + 31
    path = tmp_path / "list.txt"
    path.write_text("".join(line.partition("] ")[2] + "\n" for line in printed))
    assert main(["--file", str(path), "-i", "1", "--device", device_name]) == 0
    assert "31 of 31 lines verified" in capsys.readouterr().out


NEWER = """
import numpy as np
import miopyx as mi

rng = np.random.default_rng(1)
x, half, bias = (mi.TensorDescriptor("float32", lens) for lens in ((2, 4, 6, 5), (2, 2, 6, 5), (1, 4, 1, 1)))
w, turns, row = (mi.TensorDescriptor("float32", lens) for lens in ((4, 4, 3, 3), (4, 6, 4), (4,)))
wide, flat, column = (mi.TensorDescriptor("float32", lens) for lens in ((3, 4, 6, 4), (3, 4), (3,)))
ints, step = mi.TensorDescriptor("int64", (3,)), mi.TensorDescriptor("int32", (1,))
places, probs = mi.TensorDescriptor("int32", (5,)), mi.TensorDescriptor("float32", (6, 2, 5))
conv, relu, ctc = mi.ConvolutionDescriptor((1, 1)), mi.ActivationDescriptor("leaky", 0.5), mi.CTCLossDescriptor()
kept = []
with mi.Handle(DEVICE) as handle:
    def new(desc, value=None):
        made = rng.standard_normal(desc.lens) if value is None else np.broadcast_to(value, desc.lens)
        kept.append(handle.upload(np.ascontiguousarray(made.astype(desc.dtype))))
        return kept[-1]

    def space(size):
        return handle.empty((size,), "int8") if size else None, size

    def both(*descs):
        return [thing for desc in descs for thing in (desc, new(desc))]

    mi.miopenCatForward(handle, 2, [half, half], [new(half), new(half)], *both(x), 1)
    mi.miopenGLUForward(handle, *both(x, half), 1)
    mi.miopenGLUBackward(handle, *both(x, half, x), 1)
    size = mi.miopenGetPReLUBackwardWorkspaceSize(handle, x, row)
    mi.miopenPReLUBackward(handle, *space(size), *both(x, row, x, x, row))
    mi.miopenKthvalueForward(handle, *both(flat, column, ints), 2, -1, False)
    mi.miopenGetitemBackward(handle, None, 0, *both(mi.TensorDescriptor("float32", (5, 4))), 1, [places],
                             [new(places, [0, 2, 2, 1, 0])], *both(flat), step, new(step, 0), 1, [0], 0, [], 0)
    size = mi.miopenGetSoftMarginLossForwardWorkspaceSize(handle, x, x, x, 0)
    mi.miopenSoftMarginLossForward(handle, *both(x, x, x), 0, *space(size))
    mi.miopenSoftMarginLossBackward(handle, *both(x, x, x, x), "mean")
    one = mi.TensorDescriptor("float32", (1,))
    size = mi.miopenGetMultiMarginLossForwardWorkspaceSize(handle, flat, ints, row, one, 1, 0.5, 1)
    mi.miopenMultiMarginLossForward(handle, *both(flat), ints, new(ints, [0, 3, 1]), *both(row, one), 1, 0.5, 1,
                                    *space(size))
    mi.miopenRoPEForward(handle, *both(wide, turns, turns, wide))
    mi.miopenRoPEBackward(handle, *both(wide, turns, turns, wide))
    given = [1, 2, 3, 1], [2, 2], [6, 5]
    size = mi.miopenGetCTCLossWorkspaceSize(handle, probs, probs, *given, 0, ctc)
    mi.miopenCTCLoss(handle, *both(probs), *given, new(mi.TensorDescriptor("float32", (2,))), probs, new(probs), 0,
                     ctc, *space(size))
    state = [thing for value in (None, None, 0.5, 0.5) for thing in (x, new(x, value))]
    mi.miopenFusedAdam(handle, *state, None, None, None, None, 1, 0.01, 0.9, 0.99, 0.1, 1e-8, False, True, True, None,
                       None, None, None)
    mi.miopenTransformersAdamW(handle, *state, step, new(step, 0), 0, 0.01, 0.9, 0.99, 0.1, 1e-8, True, None, None,
                               None, None)
    best = handle.convolution_bias_activation_forward(x, w, conv, None, bias, relu, x)
    mi.miopenConvolutionBiasActivationForward(handle, 1, *both(x, w), conv, best.solver.algorithm,
                                              *space(best.workspace), 0, None, None, *both(bias), relu, *both(x))
    plan, args = mi.miopenCreateFusionPlan(0, x), mi.miopenCreateOperatorArgs()
    mi.miopenSetOpArgsConvForward(args, mi.miopenCreateOpConvForward(plan, conv, w), 1, 0, new(w))
    mi.miopenSetOpArgsActivForward(args, mi.miopenCreateOpActivationForward(plan, 8), 1, 0, 0.5, 0, 0)
    mi.miopenExecuteFusionPlan(handle, plan, *both(x, x), args)

    handle.cat_forward([half, half], x, 1)(new(half), new(half), new(x))
    handle.glu_forward(x, half, 1)(new(x), new(half))
    handle.glu_backward(x, half, x, 1)(new(x), new(half), new(x))
    handle.prelu_backward(x, row, x, x, row)(new(x), new(row), new(x), new(x), new(row))
    handle.kthvalue_forward(flat, mi.TensorDescriptor("float32", (3,)), ints, 2)(new(flat), new(flat), new(ints))
    handle.getitem_backward(mi.TensorDescriptor("float32", (5, 4)), [places], flat, step, [0])(
        new(mi.TensorDescriptor("float32", (5, 4))), new(places, [0, 2, 2, 1, 0]), new(flat), new(step, 0))
    handle.soft_margin_loss_forward(x, x, x)(new(x), new(x), new(x))
    handle.soft_margin_loss_backward(x, x, x, x, "sum")(new(x), new(x), new(x), new(x))
    handle.multi_margin_loss_forward(flat, ints, row, one, 1, 1.0, "sum")(
        new(flat), new(ints, [0, 3, 1]), new(row), new(one), 2.5)
    handle.rope_forward(wide, turns, turns, wide)(new(wide), new(turns), new(turns), new(wide))
    handle.rope_backward(wide, turns, turns, wide)(new(wide), new(turns), new(turns), new(wide))
    handle.fused_adam(x, x, x, x, step, x)(*[new(x, 0.5) for _ in range(5)][:4], new(x, 0.5), new(step, 0), lr=0.25)
    handle.transformers_adam_w(x, x, x, x, step)(*[new(x, 0.5) for _ in range(4)], new(step, 0))
    handle.convolution_bias_activation_forward(x, w, conv, x, bias, relu, x)(new(x), new(w), new(x), new(bias), new(x))
    handle.finish()
    total = 0.0
    for memory in kept:
        total += float(np.abs(handle.download(memory)).sum())
    print(total)
"""


def test_newer_functions_and_plans_are_logged_and_repeated(tmp_path, device_name, capsys):
    code = NEWER.replace("DEVICE", repr(device_name))
    runs = {on: python(code, **dict.fromkeys(on, "1")) for on in ((), SWITCHES[:1], SWITCHES[1:])}
    assert len({out for out, _ in runs.values()}) == 1
    printed = [line for line in runs[SWITCHES[1:]][1].splitlines() if line.startswith(PREFIX)]
    assert len(printed) == 16 + 14
    assert sum("Plan.__call__" in line for line in printed) == 14
    assert sum(" -l 0.25 " in line and " -a 1 " in line for line in printed) == 1
    assert sum(" --margin 2.5 " in line for line in printed) == 1
    assert printed[-1].endswith("# z times 1")
    calls = runs[SWITCHES[:1]][1]
    for line in ("miopenStatus_t miopenCreateFusionPlan(fuseDirection, inputDesc){", "Plan Handle.cat_forward(",
                 "\tfusePlanDesc = FusionPlanDescriptor(convolution forward, activation forward)",
                 "\tconvOp = <FusionOperator 0: convolution forward>", "\treduction = mean", "\tlr = 0.25",
                 "\txDescs = { {2, 2, 6, 5}, {60, 30, 5, 1}, packed,  {2, 2, 6, 5}, "):
        assert line in calls, line
    assert re.search(r"\txs = \{ 0x[0-9a-f]+ \(\w+\) 0x[0-9a-f]+ \(\w+\) \}\n", calls)
    path = tmp_path / "list.txt"
    path.write_text("".join(line.partition("] ")[2] + "\n" for line in printed))
    assert main(["--file", str(path), "-i", "1", "--device", device_name]) == 0
    assert "30 of 30 lines verified" in capsys.readouterr().out


def test_plans_keep_what_they_describe():
    """A command is that of the plan, whatever becomes of its descriptors."""
    out, err = python("""
import numpy as np
import miopyx as mi

x = mi.TensorDescriptor("float32", (2, 3, 4, 5))
data = np.ones(x.lens, np.float32)
relu = mi.ActivationDescriptor(3)
with mi.Handle("host") as handle:
    plan = handle.activation_forward(relu, x, x)
    mi.miopenDestroyActivationDescriptor(relu)
    plan(data, data)
    plan(data, data)
""", MIOPEN_ENABLE_LOGGING_CMD="1")
    assert out == ""
    assert err.count("Command [Plan.__call__] ./bin/MIOpenDriver activ -n 2 -c 3 -H 4 -W 5 -m 3 ") == 2
