"""Fused nodes of ONNX models, values that stay on the device, and whole networks against float64."""

from collections import Counter

import numpy as np
import onnx
import onnx_models
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import TYPES
from onnx_runs import DTYPES, FLOOR, U, unit_of_sums

from miopyx.onnx import Backend, BackendRep, Fusion


def info(name, shape, dtype="float32"):
    return helper.make_tensor_value_info(name, TYPES[dtype], shape)


def prepared(nodes, inputs, outputs, weights, device, opset=20, **more):
    """Return a prepared graph; `inputs` are names, `weights` arrays by name."""
    graph = helper.make_graph(nodes, "graph", [onnx.ValueInfoProto(name=name) for name in inputs],
                              [onnx.ValueInfoProto(name=name) for name in outputs],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    return BackendRep(graph, device, opsets={"": opset}, **more)


def fused(rep):
    """Return the operators of each call."""
    return [[node.op_type for node in fusion.nodes] for fusion in rep.fusions]


ACTIVATIONS = {
    "Relu": ({}, lambda x: np.maximum(x, 0)), "LeakyRelu": ({"alpha": 0.25}, lambda x: np.where(x > 0, x, 0.25 * x)),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))), "Tanh": ({}, np.tanh), "Abs": ({}, np.abs),
    "Elu": ({"alpha": 0.5}, lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "Softplus": ({}, lambda x: np.logaddexp(0, x)), "Clip": ({}, lambda x: np.clip(x, 0, 6)), None: ({}, lambda x: x),
}


def convolve(x, w, transposed):
    """Return a 3x3 convolution with pads of 1 and two groups in float64."""
    k = 6
    y = np.zeros((len(x), k, x.shape[2] + 2, x.shape[3] + 2))
    for g in range(2):
        part, cs, ks = x[:, 2 * g:2 * g + 2].astype(float), slice(2 * g, 2 * g + 2), slice(3 * g, 3 * g + 3)
        for i, j in np.ndindex(3, 3):
            at = (i, j) if transposed else (2 - i, 2 - j)
            taps = w[cs, :, i, j].astype(float).T if transposed else w[ks, :, i, j].astype(float)
            y[:, ks, at[0]:at[0] + x.shape[2], at[1]:at[1] + x.shape[3]] += np.einsum("nchw,kc->nkhw", part, taps)
    return y[:, :, 1:-1, 1:-1]


def convolution(rng, dtype, transposed):
    """Return x, w, bias, batch norm's four, and in float64 conv(x, w) and the sum of the magnitudes of its terms."""
    x = rng.standard_normal((2, 4, 6, 5)).astype(DTYPES[dtype])
    w = (0.3 * rng.standard_normal((4, 3, 3, 3) if transposed else (6, 2, 3, 3))).astype(DTYPES[dtype])
    bias, scale, shift, mean = (rng.standard_normal(6).astype(DTYPES[dtype]) for _ in range(4))
    variance = rng.uniform(0.5, 2, 6).astype(DTYPES[dtype])
    return (x, w, bias, (scale, shift, mean, variance), convolve(x, w, transposed),
            convolve(np.abs(x), np.abs(w), transposed))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("parts", ["bias", "norm", "z", "bias norm z", "norm z", "norm channel z"])
@pytest.mark.pairwise
def test_convolutions_with_what_follows(handle, rng, activation, dtype, transposed, constant, parts):
    """One call; norms of constants are folded into the weights, others belong to the epilogue."""
    x, w, bias, norm, y, terms = convolution(rng, dtype, transposed)
    parts, op = parts.split(), "ConvTranspose" if transposed else "Conv"
    z = rng.standard_normal(y.shape).astype(x.dtype)
    channel = rng.standard_normal((6, 1, 1)).astype(x.dtype)
    names = ["scale", "shift", "mean", "variance"]
    given = {"w": w, **({"bias": bias} if "bias" in parts else {}),
             **(dict(zip(names, norm, strict=True)) if "norm" in parts else {})}
    nodes = [helper.make_node(op, ["x", "w", *(["bias"] if "bias" in parts else [])], ["a"], pads=[1] * 4, group=2)]
    each = (-1, 1, 1)
    if "bias" in parts:
        y, terms = y + bias.astype(float).reshape(each), terms + np.abs(bias.astype(float)).reshape(each)
    if "norm" in parts:
        nodes.append(helper.make_node("BatchNormalization", ["a", *names], ["b"], epsilon=1e-3))
        scale, shift, mean, variance = (p.astype(float).reshape(each) for p in norm)
        factor = scale / np.sqrt(variance + float(np.float32(1e-3)))
        y, terms = (y - mean) * factor + shift, (terms + np.abs(mean)) * np.abs(factor) + np.abs(shift)
    feeds, constants = {"x": x}, {}
    if "channel" in parts:
        nodes.append(helper.make_node("Add", ["channel", nodes[-1].output[0]], ["c"]))
        y, terms, constants = y + channel.astype(float), terms + np.abs(channel.astype(float)), {"channel": channel}
    if "z" in parts:
        nodes.append(helper.make_node("Add", [nodes[-1].output[0], "z"], ["d"]))
        y, terms, feeds = y + z.astype(float), terms + np.abs(z.astype(float)), {**feeds, "z": z}
    if activation:
        attributes, function = ACTIVATIONS[activation]
        bounds = ["", ""] if activation != "Clip" else ["low", "high"]
        if activation == "Clip":
            constants |= {"low": np.zeros((), x.dtype), "high": np.full((), 6, x.dtype)}
        nodes.append(helper.make_node(activation, [nodes[-1].output[0], *filter(None, bounds)], ["e"], **attributes))
        y = function(y)
    if constant or "channel" in parts:
        constants |= given
    else:
        feeds |= given
    rep = prepared(nodes, list(feeds), [nodes[-1].output[0]], constants, handle)
    for _ in range(2):
        got, = rep.run(feeds)
        assert got.dtype == x.dtype
        # Up to 27 products and what follows in the arithmetic's type; weights that were folded are rounded once more;
        # results are rounded once, or where one more launch follows twice.
        u = U[dtype] if U[dtype] > U["float32"] else 0
        bound = (40 * unit_of_sums(dtype) + u) * terms + 2 * U[dtype] * np.abs(y) + FLOOR[dtype]
        assert (np.abs(got.astype(float) - y) <= bound).all()
        assert fused(rep) == [[node.op_type for node in nodes]]
        assert [r.where for r in rep.ran] == ["miopyx"] + ["fused"] * (len(nodes) - 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["Gemm", "MatMul"])
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", None])
@pytest.mark.pairwise
def test_products_with_what_follows(handle, rng, dtype, op, activation):
    a, b = rng.standard_normal((5, 7)).astype(DTYPES[dtype]), rng.standard_normal((7, 4)).astype(DTYPES[dtype])
    column, z = rng.standard_normal(4).astype(a.dtype), rng.standard_normal((5, 4)).astype(a.dtype)
    nodes = [helper.make_node(op, ["a", "b"], ["c"]), helper.make_node("Add", ["column", "c"], ["d"]),
             helper.make_node("Add", ["d", "z"], ["e"])]
    if activation:
        nodes.append(helper.make_node(activation, ["e"], ["f"]))
    wide = [v.astype(float) for v in (a, b, column, z)]
    terms = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(wide[2]) + np.abs(wide[3])
    y = ACTIVATIONS[activation][1](wide[0] @ wide[1] + wide[2] + wide[3])
    rep = prepared(nodes, ["a", "z"], [nodes[-1].output[0]], {"b": b, "column": column}, handle)
    got, = rep.run([a, z])
    u = U[dtype] if U[dtype] > U["float32"] else 0
    bound = (16 * unit_of_sums(dtype) + u) * terms + 2 * U[dtype] * np.abs(y)
    assert (np.abs(got.astype(float) - y) <= bound).all()
    assert fused(rep) == [[node.op_type for node in nodes]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Clip"])
def test_batch_norm_with_an_activation(handle, rng, dtype, activation):
    x = rng.standard_normal((2, 3, 4, 5)).astype(DTYPES[dtype])
    parameters = [rng.uniform(0.5, 2, 3).astype(x.dtype) for _ in range(4)]
    names = ["scale", "shift", "mean", "variance"]
    constants = {"low": np.zeros((), x.dtype), "high": np.full((), 6, x.dtype)} if activation == "Clip" else {}
    rep = prepared([helper.make_node("BatchNormalization", ["x", *names], ["y"]),
                    helper.make_node(activation, ["y", *constants], ["z"])], ["x", *names], ["z"], constants, handle)
    got, = rep.run([x, *parameters])
    scale, shift, mean, variance = (p.astype(float).reshape(-1, 1, 1) for p in parameters)
    rstd = 1 / np.sqrt(variance + float(np.float32(1e-5)))
    y = ACTIVATIONS[activation][1]((x.astype(float) - mean) * rstd * scale + shift)
    terms = (np.abs(x.astype(float)) + mean) * rstd * scale + shift
    assert (np.abs(got.astype(float) - y) <= U[dtype] * np.abs(y) + 32 * unit_of_sums(dtype) * terms).all()
    assert fused(rep) == [["BatchNormalization", activation]]


# What is not fused, and why


CONV, RELU = helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b"])
NORM = helper.make_node("BatchNormalization", ["a", "p", "p", "p", "p"], ["n"])
BRANCH = helper.make_graph([helper.make_node("Neg", ["a"], ["m"])], "branch", [], [onnx.ValueInfoProto(name="m")])
ALONE = {
    "output": ([CONV, RELU], ["a", "b"], "a is an output"),
    "two readers": ([CONV, RELU, helper.make_node("Tanh", ["a"], ["c"])], ["b", "c"], "a is read 2 times"),
    "read twice": ([CONV, helper.make_node("Add", ["a", "a"], ["c"])], ["c"], "a is read 2 times"),
    "a subgraph": ([CONV, helper.make_node("If", ["t"], ["c"], then_branch=BRANCH, else_branch=BRANCH)], ["c"],
                   "If cannot follow"),
    "another node": ([CONV, helper.make_node("Softmax", ["a"], ["c"])], ["c"], "Softmax cannot follow"),
    "statistics": ([CONV, helper.make_node("BatchNormalization", ["a", "p", "p", "p", "p"], ["n", "o", "q"],
                                           training_mode=1)], ["n"], "BatchNormalization computes its statistics"),
    "bounds": ([CONV, helper.make_node("Clip", ["a", "low", "high"], ["c"])], ["c"], "Clip has bounds that may change"),
    "other bounds": ([CONV, helper.make_node("Clip", ["a", "minus", "plus"], ["c"])], ["c"],
                     "Clip: bounds of no activation"),
    "other lengths": ([CONV, helper.make_node("Add", ["a", "row"], ["c"])], ["c"],
                      "Add: adds float32 of (5,) to float32 of (2, 4, 5, 5)"),
    "nothing": ([helper.make_node("Conv", ["x", "w"], ["b"])], ["b"], "b is an output"),
}


@pytest.mark.parametrize("case", ALONE)
def test_what_is_not_fused(handle, rng, case):
    nodes, outputs, why = ALONE[case]
    x, w = (rng.standard_normal(shape, dtype=np.float32) for shape in ((2, 3, 5, 5), (4, 3, 1, 1)))
    constants = {"w": w, "p": np.ones(4, np.float32), "minus": np.float32(-1).reshape(()),
                 "row": np.ones(5, np.float32), "plus": np.float32(1).reshape(())}
    feeds = {"x": x, "t": np.array(True), "low": np.zeros((), np.float32), "high": np.ones((), np.float32)}
    rep, plain = (prepared(nodes, list(feeds), outputs, constants, handle, fuse=fuse) for fuse in (True, False))
    for a, b in zip(rep.run(feeds), plain.run(feeds), strict=True):
        np.testing.assert_array_equal(a, b)
    fusion = rep.fusions[0]
    assert isinstance(fusion, Fusion)
    assert ([node.op_type for node in fusion.nodes], fusion.why) == (["Conv"], why)
    assert str(fusion).endswith(f": Conv; {why}")
    assert plain.fusions == []
    assert "fused" not in {r.where for r in rep.ran}


def test_chains_are_cut_where_lengths_say_so(handle, rng):
    """What follows the cut is run node by node, and other lengths are another call."""
    w = rng.standard_normal((4, 3, 1, 1), dtype=np.float32)
    rep = prepared([CONV, NORM, helper.make_node("Add", ["n", "z"], ["s"]), helper.make_node("Relu", ["s"], ["b"])],
                   ["x", "z"], ["b"], {"w": w, "p": np.full(4, 0.5, np.float32)}, handle)
    for shape, count in (((2, 4, 5, 5), 4), ((1, 4, 1, 1), 2), ((5,), 2), ((2, 4, 5, 5), 4)):
        x, z = rng.standard_normal((2, 3, 5, 5), dtype=np.float32), rng.standard_normal(shape, dtype=np.float32)
        got, = rep.run([x, z])
        y = np.einsum("nchw,kc->nkhw", x.astype(float), w[:, :, 0, 0].astype(float))
        y = np.maximum((y - 0.5) * 0.5 / np.sqrt(0.5 + float(np.float32(1e-5))) + 0.5 + z, 0)
        np.testing.assert_allclose(got, y, rtol=0, atol=64 * U["float32"] * 4)
        assert [len(fusion.nodes) for fusion in rep.fusions] == [count]
        assert ("adds" in rep.fusions[0].why) == (count == 2)
        assert Counter(r.where for r in rep.ran) == {"miopyx": 1 + 4 - count, "fused": count - 1}


def test_weights_that_are_overridden(handle, rng):
    """An initialiser that is an input, too, is a default: what was folded of it must not stay."""
    x, w, other = (rng.standard_normal(shape, dtype=np.float32) for shape in ((2, 3, 5, 5), (4, 3, 1, 1), (4, 3, 1, 1)))
    rep = prepared([CONV, NORM], ["x", "w"], ["n"], {"w": w, "p": np.full(4, 2, np.float32)}, handle)
    for feeds, used in (({"x": x}, w), ({"x": x, "w": other}, other), ({"x": x, "w": 2 * w}, 2 * w), ({"x": x}, w)):
        got, = rep.run(feeds)
        y = np.einsum("nchw,kc->nkhw", x.astype(float), used[:, :, 0, 0].astype(float))
        np.testing.assert_allclose(got, (y - 2) * 2 / np.sqrt(2 + 1e-5) + 2, rtol=0, atol=1e-5)
        assert fused(rep) == [["Conv", "BatchNormalization"]]


def test_functions_that_are_called_with_other_weights(handle, rng):
    """A function's nodes are shared between its calls; what was folded of the weights of one belongs to no other."""
    act = helper.make_node("Relu", ["n"], ["b"])
    function = helper.make_function("here", "Layer", ["x", "w", "p"], ["b"], [CONV, NORM, act],
                                    [helper.make_opsetid("", 20)])
    weights = [rng.standard_normal((3, 3, 1, 1), dtype=np.float32) for _ in range(3)]
    nodes = [helper.make_node("Layer", [f"x{i}", f"w{i}", "p"], [f"x{i + 1}"], domain="here") for i in range(3)]
    graph = helper.make_graph(nodes, "net", [info("x0", [2, 3, 5, 5])], [info("x3", [2, 3, 5, 5])],
                              [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
                              + [numpy_helper.from_array(np.full(3, 0.5, np.float32), "p")])
    model = helper.make_model(graph, functions=[function], opset_imports=[
        helper.make_opsetid("", 20), helper.make_opsetid("here", 1)], ir_version=9)
    rep = Backend.prepare(model, handle)
    x = rng.standard_normal((2, 3, 5, 5), dtype=np.float32)
    y = x.astype(float)
    for w in weights:
        y = np.einsum("nchw,kc->nkhw", y, w[:, :, 0, 0].astype(float))
        y = np.maximum((y - 0.5) * 0.5 / np.sqrt(0.5 + 1e-5) + 0.5, 0)
    for _ in range(2):
        np.testing.assert_allclose(rep.run([x])[0], y, rtol=0, atol=1e-5 * np.abs(y).max())
        assert [r.where for r in rep.ran] == ["miopyx", "fused", "fused"] * 3


# Networks


def launches(rep):
    return Counter(" ".join(names) for names in fused(rep))


NETWORKS = {
    "ResNet-50": (onnx_models.resnet50, {}, (2, 3, 64, 64), {
        "Conv BatchNormalization Relu": 33, "Conv BatchNormalization Add Relu": 16, "Conv BatchNormalization": 4,
        "Gemm": 1}, {"fused": 118, "miopyx": 56, "view": 1}),
    "MobileNetV2": (onnx_models.mobilenet_v2, {}, (2, 3, 64, 64), {
        "Conv BatchNormalization Clip": 35, "Conv BatchNormalization Add": 10, "Conv BatchNormalization": 7, "Gemm": 1},
        {"fused": 97, "miopyx": 54}),
    "transformer": (onnx_models.transformer, {}, (2, 24, 96), {"MatMul Add": 4, "MatMul Add Add": 2, "MatMul": 2},
                    {"fused": 8, "miopyx": 21, "view": 4}),
    "transformer, RMS norm, GELU by tanh": (
        onnx_models.transformer, {"norm": "RMSNormalization", "gelu": "tanh"}, (2, 24, 96),
        {"MatMul Add": 4, "MatMul Add Add": 2, "MatMul": 2}, {"fused": 8, "miopyx": 17, "view": 4}),
}


def check_network(name, device, rng):
    """Return the prepared network and its input after a run whose result is as near to float64 as may be.

    The model of the same weights in float64 is computed by onnx's own evaluator, and so is the one in float32: what
    that is off by is what float32 can do in so many layers, and eight times that is what is allowed.
    """
    build, options, shape, chains, where = NETWORKS[name]
    seed = int(rng.integers(1 << 31))
    x = rng.standard_normal(shape, dtype=np.float32)
    truth, = ReferenceEvaluator(build(seed, "float64", **options)).run(None, {"x": x.astype(float)})
    model = build(seed, **options)
    other, = ReferenceEvaluator(model).run(None, {"x": x})
    rep = Backend.prepare(model, device)
    got, = rep.run([x])
    assert truth.std() > 0.1
    assert np.abs(got - truth).max() <= 8 * np.abs(other - truth).max()
    assert launches(rep) == chains
    assert Counter(r.where for r in rep.ran) == where
    return rep, x, got


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(handle, rng, name):
    rep, x, got = check_network(name, handle, rng)
    plain, = Backend.prepare(NETWORKS[name][0](0), handle, fuse=False).run([x])
    assert plain.shape == got.shape
    np.testing.assert_array_equal(rep.run([x])[0], got)
    rep.run([x[:1]])  # other lengths


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.some(2)
def test_values_stay_on_the_device(gpu, rng, name):
    """Weights go there once, the input in each run; only the result comes back."""
    rep, x, got = check_network(name, gpu, rng)
    there, back = rep.uploads, rep.downloads
    assert not gpu.device.shares_memory
    np.testing.assert_array_equal(rep.run([x])[0], got)
    assert (rep.uploads - there, rep.downloads - back) == (1, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_networks_of_16_bits(handle, rng, dtype):
    """A transformer block: within four units of the type of the largest result."""
    seed, x = int(rng.integers(1 << 31)), rng.standard_normal((2, 8, 32)).astype(DTYPES[dtype])
    options = {"width": 32, "gelu": "tanh" if dtype == "float16" else "erf"}
    model = onnx_models.transformer(seed, dtype, **options)
    got, = Backend.prepare(model, handle).run([x])
    # The weights of 16 bits, in float64.
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight)
        if array.dtype == x.dtype:
            weight.CopyFrom(numpy_helper.from_array(array.astype(float), weight.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.DOUBLE
    truth, = ReferenceEvaluator(model).run(None, {"x": x.astype(float)})
    assert got.dtype == x.dtype
    assert np.abs(got.astype(float) - truth).max() <= 8 * U[dtype] * np.abs(truth).max()


def test_memory_of_other_lengths_is_let_go(gpu, rng):
    """What a run did not ask for goes before the one after the next."""
    nodes = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Exp", ["y"], ["z"])]
    rep = prepared(nodes, ["x"], ["z"], {}, gpu)
    for length in (10, 20, 30, 30, 30):
        rep.run([rng.standard_normal(length, dtype=np.float32)])
    assert set(rep._device._free) == {120}
    assert len(rep._device._free[120]) == 1
