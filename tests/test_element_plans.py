"""Plans of cat, GLU, PReLU, losses, k-th values, getitem, rotary embeddings and Adam.

They give what their functions give, bit for bit, which other files compare with float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from guarded import DTYPE, Tensor

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenError, MIOpenNotImplementedError

DTYPE.setdefault("int64", np.dtype("i8"))
X = (6, 4, 10)


class Case(NamedTuple):
    """A call.  Descriptors by name, of `outputs` and inputs in the order of the plan's buffers; what is written is new,
    but for what is brought up to date."""

    desc: dict
    outputs: tuple
    make: object                   # from handle and descriptors to the plan
    call: object                   # from handle, descriptors and memory
    fixed: dict = {}               # values of inputs that are no random numbers  # noqa: RUF012
    kept: tuple = ()               # outputs that are read, too


def of(dtype, **lens):
    return {name: n if isinstance(n, TensorDescriptor) else TensorDescriptor(dtype, n) for name, n in lens.items()}


def pairs(d, m, *names):
    return [thing for name in names for thing in (d[name], m[name])]


def soft(h, d, m):
    size = miopyx.miopenGetSoftMarginLossForwardWorkspaceSize(h, d["input"], d["target"], d["output"], 2)
    miopyx.miopenSoftMarginLossForward(h, *pairs(d, m, "input", "target", "output"), 2,
                                       h.empty((size,), "int8") if size else None, size)


def multi(h, d, m):
    size = miopyx.miopenGetMultiMarginLossForwardWorkspaceSize(
        h, d["input"], d["target"], d["weight"], d["output"], 2, 0.5, 1)
    miopyx.miopenMultiMarginLossForward(h, *pairs(d, m, "input", "target", "weight", "output"), 2, 0.5, 1,
                                        h.empty((size,), "int8") if size else None, size)


def prelu(h, d, m):
    size = miopyx.miopenGetPReLUBackwardWorkspaceSize(h, d["input"], d["weight"])
    miopyx.miopenPReLUBackward(h, h.empty((size,), "int8") if size else None, size,
                               *pairs(d, m, "input", "weight", "doutput", "dinput", "dweight"))


def adam(h, d, m):
    none = None, None
    most = pairs(d, m, "maxExpAvgSq") if "maxExpAvgSq" in d else none
    scale = pairs(d, m, "gradScale", "foundInf") if "gradScale" in d else (None,) * 4
    miopyx.miopenFusedAdam(h, *pairs(d, m, "param", "grad", "expAvg", "expAvgSq"), *most, *pairs(d, m, "stateStep"), 0,
                           0.01, 0.8, 0.95, 0.1, 1e-6, "maxExpAvgSq" in d, True, True, *scale)


ADAM = {"lr": 0.01, "beta1": 0.8, "beta2": 0.95, "weight_decay": 0.1, "eps": 1e-6}
SMALL = {"expAvgSq": 0.5, "maxExpAvgSq": 0.25, "stateStep": 3, "gradScale": 2, "foundInf": 0}
STATE = ("param", "expAvg", "expAvgSq", "stateStep")
INDICES = {"indexs[0]": [0, 3, -1, 3, 2], "indexs[1]": [1, 0, 2, 0, 5]}


def cases(dtype):
    step = TensorDescriptor("int32", (1,))
    four = {name: X for name in ("param", "grad", "expAvg", "expAvgSq")}
    return {
        "cat": Case(of(dtype, **{"xs[0]": X, "xs[1]": (6, 1, 10), "xs[2]": X, "y": (6, 9, 10)}), ("y",),
                    lambda h, d: h.cat_forward([d[f"xs[{i}]"] for i in range(3)], d["y"], 1),
                    lambda h, d, m: miopyx.miopenCatForward(h, 3, [d[f"xs[{i}]"] for i in range(3)],
                                                            [m[f"xs[{i}]"] for i in range(3)], d["y"], m["y"], 1)),
        "glu": Case(of(dtype, input=X, output=(6, 2, 10)), ("output",),
                    lambda h, d: h.glu_forward(d["input"], d["output"], 1),
                    lambda h, d, m: miopyx.miopenGLUForward(h, *pairs(d, m, "input", "output"), 1)),
        "glu back": Case(
            of(dtype, input=X, outputGrad=(3, 4, 10), inputGrad=X), ("inputGrad",),
            lambda h, d: h.glu_backward(d["input"], d["outputGrad"], d["inputGrad"], 0),
            lambda h, d, m: miopyx.miopenGLUBackward(h, *pairs(d, m, "input", "outputGrad", "inputGrad"), 0)),
        "prelu": Case(of(dtype, input=X, weight=(4,), doutput=X, dinput=X, dweight=(4,)), ("dinput", "dweight"),
                      lambda h, d: h.prelu_backward(*d.values()), prelu),
        "kth": Case({**of(dtype, input=X, output=(6, 1, 10)), "indices": TensorDescriptor("int64", (6, 1, 10))},
                    ("output", "indices"),
                    lambda h, d: h.kthvalue_forward(*d.values(), 3, 1, True),
                    lambda h, d, m: miopyx.miopenKthvalueForward(h, *pairs(d, m, *d), 3, 1, True)),
        "getitem": Case(
            {**of(dtype, dy=(5, 9)), **of("int64", **{name: (5,) for name in INDICES}), **of(dtype, dx=(4, 6, 10)),
             "error": TensorDescriptor("int32", (2,))}, ("dx", "error"),
            lambda h, d: h.getitem_backward(d["dy"], [d[name] for name in INDICES], d["dx"], d["error"], (0, 1),
                                            [(2, 1, 10, 1)]),
            lambda h, d, m: miopyx.miopenGetitemBackward(
                h, None, 0, d["dy"], m["dy"], 2, [d[name] for name in INDICES], [m[name] for name in INDICES], d["dx"],
                m["dx"], d["error"], m["error"], 2, (0, 1), 1, (2, 1, 10, 1), 0),
            {**INDICES, "error": 0}, ("dx", "error")),
        "getitem without indices": Case(
            of(dtype, dy=(3, 4), dx=(4, 4)), ("dx",),
            lambda h, d: h.getitem_backward(d["dy"], [], d["dx"], None, [], offset=1),
            lambda h, d, m: miopyx.miopenGetitemBackward(h, None, 0, d["dy"], m["dy"], 0, [], [], d["dx"], m["dx"],
                                                         None, None, 0, [], 0, [], 1), {}, ("dx",)),
        "rope": Case(of(dtype, x=X, cos=(4, 10), sin=(4, 10), y=X), ("y",), lambda h, d: h.rope_forward(*d.values()),
                     lambda h, d, m: miopyx.miopenRoPEForward(h, *pairs(d, m, *d))),
        "rope back": Case(of(dtype, dy=X, cos=(4, 10), sin=(4, 10), dx=X), ("dx",),
                          lambda h, d: h.rope_backward(*d.values()),
                          lambda h, d, m: miopyx.miopenRoPEBackward(h, *pairs(d, m, *d))),
        "soft margin": Case(of(dtype, input=X, target=X, output=(1,)), ("output",),
                            lambda h, d: h.soft_margin_loss_forward(*d.values(), "mean"), soft),
        "soft margin back": Case(
            of(dtype, input=X, target=X, doutput=X, dinput=X), ("dinput",),
            lambda h, d: h.soft_margin_loss_backward(*d.values(), 1),
            lambda h, d, m: miopyx.miopenSoftMarginLossBackward(h, *pairs(d, m, *d), 1)),
        "multi margin": Case(
            {**of(dtype, input=(5, 7)), **of("int64", target=(5,)), **of(dtype, weight=(7,), output=(1,))}, ("output",),
            lambda h, d: h.multi_margin_loss_forward(*d.values(), 2, 0.5, "sum"), multi,
            {"target": [0, 6, 3, 3, 1]}),
        "adam": Case({**of(dtype, **four), "stateStep": step}, STATE,
                     lambda h, d: h.fused_adam(*d.values(), maximize=True, adamw=True, **ADAM), adam, SMALL, STATE),
        "amsgrad": Case(
            {**of(dtype, **four, maxExpAvgSq=X), "stateStep": step, "gradScale": step, "foundInf": step},
            (*STATE, "maxExpAvgSq"),
            lambda h, d: h.fused_adam(
                *[d[name] for name in ("param", "grad", "expAvg", "expAvgSq", "stateStep", "maxExpAvgSq", "gradScale",
                                       "foundInf")], maximize=True, adamw=True, **ADAM),
            adam, SMALL, (*STATE, "maxExpAvgSq")),
        "transformers": Case(
            {**of(dtype, **four), "stateStep": step}, STATE, lambda h, d: h.transformers_adam_w(*d.values(), **ADAM),
            lambda h, d, m: miopyx.miopenTransformersAdamW(
                h, *pairs(d, m, *d), 0, 0.01, 0.8, 0.95, 0.1, 1e-6, True, None, None, None, None), SMALL, STATE),
    }


NAMES = tuple(cases("float32"))


def memory(handle, case, rng):
    """Two sets of tensors of the same content: of inputs, and new outputs."""
    values = {}
    for name, desc in case.desc.items():
        if name not in case.outputs or name in case.kept:
            given = case.fixed.get(name)
            made = rng.standard_normal(desc.lens) if given is None else np.broadcast_to(given, desc.lens)
            values[name] = np.abs(made.astype(DTYPE[desc.dtype])) if name == "expAvgSq" else made.astype(
                DTYPE[desc.dtype])
    return [{name: Tensor(handle, desc, values.get(name)) for name, desc in case.desc.items()} for _ in range(2)]


@pytest.mark.parametrize("name", NAMES)
def test_plans_give_what_functions_give(handle, rng, name):
    for dtype in ("float32", ("float16", "bfloat16", "float64")[rng.integers(3)]):
        if dtype == "float64" and not handle.device.fp64:
            continue
        case = cases(dtype)[name]
        plan = case.make(handle, case.desc)
        assert plan.buffers == tuple(case.desc)
        for _ in range(2):
            one, two = memory(handle, case, rng)
            case.call(handle, case.desc, {key: t.argument() for key, t in one.items()})
            plan(*[t.argument() for t in two.values()])
            handle.finish()
            for key in case.desc:
                np.testing.assert_array_equal(two[key].values(), one[key].values(), f"{name}: {key}")


@pytest.mark.parametrize("name", NAMES)
def test_plans_refuse(handle, rng, name):
    case = cases("float32")[name]
    plan = case.make(handle, case.desc)
    tensors = [t.argument() for t in memory(handle, case, rng)[0].values()]
    with pytest.raises(TypeError):
        plan(*tensors[:-1])
    for i in range(len(tensors)):
        with pytest.raises(BadParmError):
            plan(*tensors[:i], None, *tensors[i + 1:])
    for key, desc in case.desc.items():
        other = {**case.desc, key: TensorDescriptor("float32", (3, 3, 3, 3, 3))}
        with pytest.raises(MIOpenError):
            case.make(handle, other)
        with pytest.raises(BadParmError, match="TensorDescriptor"):
            case.make(handle, {**case.desc, key: 3})
        was = TensorDescriptor(desc.dtype, desc.lens)
        desc_of = {**case.desc, key: was}
        follows = case.make(handle, desc_of)
        miopyx.miopenSetTensorDescriptor(was, desc.data_type, len(desc.lens), [n + 1 for n in desc.lens], None)
        with pytest.raises(BadParmError, match="changed"):
            follows(*tensors)


def test_numbers_of_plans(handle, rng):
    case = cases("float32")["adam"]
    plan = case.make(handle, case.desc)
    assert plan.numbers == {"lr": 0.01}
    one, two = memory(handle, case, rng)
    plan(*[t.argument() for t in one.values()], lr=0.0)
    handle.finish()
    assert one["stateStep"].values()[0] == 4
    np.testing.assert_array_equal(one["param"].values(), two["param"].values())
    assert (one["expAvg"].values() != two["expAvg"].values()).any()
    case = cases("float32")["multi margin"]
    plan = case.make(handle, case.desc)
    assert plan.numbers == {"margin": 0.5}
    one = memory(handle, case, rng)[0]
    x, target, weight = one["input"].values(), np.array(case.fixed["target"]), one["weight"].values()
    for margin in (0.5, 2.0):
        plan(*[t.argument() for t in one.values()], margin)
        handle.finish()
        terms = np.maximum(0, margin - x[range(5), target][:, None] + x) ** 2
        terms[range(5), target] = 0
        np.testing.assert_allclose(one["output"].values(), (weight[target] * terms.sum(1)).sum() / 7, rtol=1e-4,
                                   atol=1e-4)


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda h, d: h.cat_forward([], d, 0), BadParmError, "x_descs"),
    (lambda h, d: h.cat_forward([d] * 16, d, 0), MIOpenNotImplementedError, "x_descs"),
    (lambda h, d: h.cat_forward(d, d, 0), BadParmError, "not a list.*x_descs|x_descs.*not a list"),
    (lambda h, d: h.cat_forward([d], d, 5), BadParmError, "dim"),
    (lambda h, d: h.glu_forward(d, d, -1), BadParmError, "dim"),
    (lambda h, d: h.kthvalue_forward(d, d, d, 0), BadParmError, "k"),
    (lambda h, d: h.kthvalue_forward(d, d, d, 1, 7), BadParmError, "dim"),
    (lambda h, d: h.kthvalue_forward(d, d, d, 1, 0, 2), BadParmError, "keep_dim"),
    (lambda h, d: h.soft_margin_loss_forward(d, d, d, 3), BadParmError, "reduction"),
    (lambda h, d: h.multi_margin_loss_forward(d, d, d, d, 3), BadParmError, "p"),
    (lambda h, d: h.multi_margin_loss_forward(d, d, d, d, margin="wide"), BadParmError, "margin"),
    (lambda h, d: h.fused_adam(d, d, d, d, None), BadParmError, "state_step_desc"),
    (lambda h, d: h.fused_adam(d, d, d, d, d, beta1=1.0), BadParmError, "beta1"),
    (lambda h, d: h.fused_adam(d, d, d, d, d, lr=None), BadParmError, "lr"),
    (lambda h, d: h.fused_adam(d, d, d, d, d, maximize=3), BadParmError, "maximize"),
    (lambda h, d: h.transformers_adam_w(d, d, d, d, d, correct_bias="x"), BadParmError, "correct_bias"),
    (lambda h, d: h.getitem_backward(d, None, d, None, []), BadParmError, "index_descs"),
    (lambda h, d: h.getitem_backward(d, [d] * 6, d, None, [0]), MIOpenNotImplementedError, "index_descs"),
    (lambda h, d: h.getitem_backward(d, [], d, None, [], [(0, 1)]), BadParmError, r"slices\[0\]"),
    (lambda h, d: h.getitem_backward(d, [], d, None, [], [(0, 1, 2, 1)] * 17), MIOpenNotImplementedError, "slices"),
    (lambda h, d: h.getitem_backward(d, [], d, None, [], offset="x"), BadParmError, "offset"),
    (lambda h, d: h.rope_forward(None, d, d, d), BadParmError, "x_desc"),
])
def test_bad_arguments_name_the_parameter(handle, make, error, words):
    with pytest.raises(error, match=words):
        make(handle, TensorDescriptor("float32", (4, 4)))
