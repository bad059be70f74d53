"""The ONNX backend: onnx's own cases, random nodes against plain NumPy, and the networks that onnx ships.

Which of onnx's cases count as ours, for onnx 1.23: of the node cases those whose model is one node of the families
below (426), of the models converted from PyTorch those that hold nothing but such nodes (68).  Every other case in
which one of our nodes occurs is run too.
"""

import collections
import functools
import pathlib
import warnings
from math import ceil, prod, sqrt
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.runner import Runner
from onnx_runs import DTYPES, U, integers, run

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.device import devices
from miopyx.onnx import Backend, BackendRep

# How many node cases of one node onnx 1.23 has.
NODE_CASES = {
    "Conv": 6, "ConvTranspose": 11, "ConvInteger": 2, "QLinearConv": 1, "Gemm": 11, "MatMul": 7,
    "MaxPool": 19, "AveragePool": 20, "GlobalAveragePool": 2, "GlobalMaxPool": 2,
    "BatchNormalization": 4, "LayerNormalization": 19, "GroupNormalization": 2, "RMSNormalization": 19,
    "InstanceNormalization": 2, "LRN": 2, "Softmax": 7, "LogSoftmax": 7,
    "ReduceSum": 12, "ReduceMean": 8, "ReduceMax": 11, "ReduceMin": 10, "ReduceProd": 9, "ReduceL1": 9, "ReduceL2": 9,
    "ReduceSumSquare": 9, "ReduceLogSum": 5, "ReduceLogSumExp": 9,
    "Relu": 1, "LeakyRelu": 3, "Elu": 3, "Clip": 12, "Sigmoid": 2, "Tanh": 2, "Softplus": 2, "Abs": 1,
    "HardSigmoid": 3, "HardSwish": 1, "Erf": 1, "Gelu": 4, "Dropout": 12, "Add": 8, "Sum": 3, "Sub": 9, "Mul": 9,
    "Div": 10, "Neg": 2, "Reshape": 10, "Flatten": 9, "Squeeze": 2, "Unsqueeze": 7, "Shape": 11, "Transpose": 7,
    "Slice": 8, "Split": 16, "Concat": 12, "Gather": 4, "LSTM": 6, "GRU": 6, "RNN": 6,
}
OURS = {*NODE_CASES, "Identity", "Cast"}
INTEGERS = {f"{name} tensor": 1 for name in ("int8", "int16", "uint8", "uint16", "uint32", "uint64")}
# Of those the ones that are computed in NumPy, and why.
NUMPY = {
    "Add": INTEGERS, "Sub": INTEGERS, "Mul": INTEGERS,
    "Div": {**INTEGERS, "int32 tensor": 1, "no function of MIOpen's divides by a tensor": 3},
    "Clip": {"int8 tensor": 3}, "Gather": {"no function of MIOpen's gathers": 4},
    "MatMul": {"matrices are repeated": 1},
    "ReduceLogSumExp": {"not an operation of MIOpen": 9}, "ReduceSum": {"empty tensor": 2},
    "ReduceMax": {"bool tensor": 2, "empty tensor": 1}, "ReduceMin": {"bool tensor": 1, "empty tensor": 1},
    **{f"Reduce{name}": {"empty tensor": 1} for name in ("L1", "L2", "Prod", "SumSquare", "LogSum")},
    "LSTM": {"peepholes or coupled gates": 1}, "GRU": {"a reset gate before the product": 6},
    "Slice": {"empty tensor": 1, "steps backwards": 1}, "Split": {"empty tensor": 2},
}
# And those of which nothing is to be computed.
VIEWS = {"Clip": 1, "Sum": 1, "Dropout": 5, "ReduceSum": 2, "Reshape": 10, "Flatten": 9, "Squeeze": 2, "Unsqueeze": 7,
         "Shape": 11, "Transpose": 1}
# onnx's own evaluator puts the results of their Loop together wrongly.
BROKEN = {f"test_range_{name}_expanded" for name in (
    "float_type_positive_delta", "float16_type_positive_delta", "bfloat16_type_positive_delta",
    "int32_type_negative_delta")}
# onnx's own evaluator has no gradients.
BROKEN |= {"test_gradient_of_add", "test_gradient_of_add_and_mul"}
# What they give is drawn anew in each run.
RANDOM = {"test_bernoulli_expanded", "test_bernoulli_double_expanded", "test_bernoulli_seed_expanded"}
# Here the answer is itself computed in half precision, by NumPy, and off by 0.9e-3 (ours by 0.7e-3).
RTOL = {"test_attention_4d_causal_fp16_expanded": 2e-3}
THIS_ONNX = onnx.__version__.startswith("1.23.")


# onnx's cases


@functools.cache
def cases(kind):
    """Return onnx's cases of a kind that hold a node of ours, as (name, model, [(inputs, outputs)], rtol, atol)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the data divides by zero here and there
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind=kind)
    kept = []
    for case in found:
        folder = case.model_dir and pathlib.Path(case.model_dir)
        model = case.model if folder is None else onnx.load(folder / "model.onnx")
        if OURS.isdisjoint(node.op_type for node in model.graph.node):
            continue
        sets = case.data_sets
        if folder is not None:
            sets = [(read(data, "input", model.graph.input), read(data, "output", model.graph.output))
                    for data in sorted(folder.glob("test_data_set*"))]
        assert sets
        kept.append((case.name, model, sets, case.rtol, case.atol))
    return sorted(kept, key=lambda case: case[0])


def read(folder, word, infos):
    values = []
    for i in range(len(list(folder.glob(f"{word}_*.pb")))):
        assert infos[i].type.HasField("tensor_type")
        values.append(numpy_helper.to_array(TensorProto.FromString((folder / f"{word}_{i}.pb").read_bytes())))
    return values


def one_node(family):
    return [case for case in cases("node") if [node.op_type for node in case[1].graph.node] == [family]]


def converted():
    return [case for case in cases("pytorch-converted") if OURS.issuperset(node.op_type for node in case[1].graph.node)]


def run_case(case, handle):
    """Run a case as onnx's own runner does; return where its nodes ran."""
    name, model, sets, rtol, atol = case
    rep = Backend.prepare(model, handle)
    # Logarithms of empty sums are infinite.
    for inputs, outputs in sets:
        inputs, outputs = ([numpy_helper.to_array(a) if isinstance(a, TensorProto) else a for a in values]
                           for values in (inputs, outputs))
        with np.errstate(divide="ignore"):
            Runner.assert_similar_outputs(outputs, rep.run(inputs), RTOL.get(name, rtol), atol)
    return rep.ran


def run_all(some, handle):
    """Run cases; return {name: where its nodes ran}, and fail with the names of all that fail."""
    ran, failed = {}, []
    for case in some:
        try:
            ran[case[0]] = run_case(case, handle)
        except Exception as e:
            failed.append(f"{case[0]}: {type(e).__name__}: {e}")
    assert not failed, "\n".join([f"{len(failed)} of {len(some)} cases", *failed[:20]])
    return ran


def test_counts():
    """No case may get lost: another number means another onnx, whose cases are to be looked at."""
    found = {family: len(one_node(family)) for family in NODE_CASES}
    assert all(found[family] >= count for family, count in NODE_CASES.items())
    if THIS_ONNX:
        assert found == NODE_CASES
        assert sum(found.values()) == 426
        assert len(converted()) == 68
        assert {kind: len(cases(kind)) for kind in ("node", "pytorch-converted", "pytorch-operator", "simple")} == {
            "node": 933, "pytorch-converted": 71, "pytorch-operator": 27, "simple": 3}


@pytest.mark.parametrize("family", NODE_CASES)
def test_node_cases(handle, family):
    ran = run_all(one_node(family), handle)
    where, why = collections.Counter(), collections.Counter()
    for nodes in ran.values():
        assert [r.node.op_type for r in nodes] == [family]
        where[nodes[0].where] += 1
        why.update(r.why for r in nodes if r.where == "numpy")
    assert where.keys() <= {"miopyx", "numpy", "view"}
    if THIS_ONNX:
        assert why == NUMPY.get(family, {})
        assert where["view"] == VIEWS.get(family, 0)


def test_the_rest_of_the_node_cases(handle, rng, amount):
    """Functions written out, casts, and whatever else holds one of our nodes."""
    rest = [case for case in cases("node") if case[0] not in BROKEN | RANDOM
            and (len(case[1].graph.node) > 1 or case[1].graph.node[0].op_type not in NODE_CASES)]
    assert len(rest) == 500 or not THIS_ONNX
    if not handle.device.is_host:  # their programs take the time
        rest = [rest[i] for i in rng.choice(len(rest), amount(len(rest) // 4, len(rest)), replace=False)]
    ran = run_all(rest, handle)
    elsewhere = {r.why for nodes in ran.values() for r in nodes if r.node.op_type in OURS and r.where == "numpy"}
    elsewhere -= {"not a tensor", "empty tensor", "both are repeated", *(w for each in NUMPY.values() for w in each)}
    others = ("object", "int64", "int4", "int2", "uint4", "uint2", "float4_e2m1fn", "float8_e4m3fn", "float8_e4m3fnuz",
              "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    assert elsewhere <= {f"{name} tensor" for name in others}


def test_node_cases_on_a_device_with_memory_of_its_own(gpu, rng, amount):
    """The same cases where values are no arrays."""
    everything = [case for case in cases("node") if case[0] not in BROKEN | RANDOM]
    some = rng.choice(len(everything), amount(len(everything) // 8, len(everything)), replace=False)
    assert not gpu.device.shares_memory
    run_all([everything[i] for i in some], gpu)


def test_cases_converted_from_pytorch(handle):
    ran = run_all(converted(), handle)
    elsewhere = {(r.node.op_type, r.why) for nodes in ran.values() for r in nodes if r.where == "numpy"}
    assert elsewhere == {("Gather", "no function of MIOpen's gathers")}


def test_the_rest_of_the_models_on_disk(handle):
    names = BROKEN | {case[0] for case in converted()}
    rest = [case for kind in ("pytorch-converted", "pytorch-operator", "simple") for case in cases(kind)
            if case[0] not in names]
    ran = run_all(rest, handle)
    elsewhere = {r.why for nodes in ran.values() for r in nodes if r.node.op_type in OURS and r.where == "numpy"}
    assert elsewhere == {"int64 tensor", "no function of MIOpen's divides by a tensor"}


# Random nodes against plain NumPy.  Inputs are small integers, so that convolutions and averages' sums are exact.


def layer(rng, dilated=True):
    """Return random lengths, window, strides, dilations and pads that fit each other, and how onnx is told the pads."""
    while True:
        n = int(rng.integers(1, 4))
        lens, window = rng.integers(3, 10 - n, n), rng.integers(1, 4, n)
        strides = rng.integers(1, 4, n)
        dilations = rng.integers(1, 4, n) if dilated and rng.random() < 0.5 else np.ones(n, int)
        reach = (window - 1) * dilations + 1
        auto = str(rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        if auto == "NOTSET":
            begin, end = rng.integers(0, 3, n), rng.integers(0, 3, n)
            if rng.random() < 0.4:
                end = begin
        elif auto == "VALID":
            begin = end = np.zeros(n, int)
        else:
            total = np.maximum((-(-lens // strides) - 1) * strides + reach - lens, 0)
            small, big = total // 2, total - total // 2
            begin, end = (small, big) if auto == "SAME_UPPER" else (big, small)
        if (lens + begin + end >= reach).all():
            told = {"pads": [*map(int, begin), *map(int, end)]} if auto == "NOTSET" else {"auto_pad": auto}
            told |= {"kernel_shape": window.tolist(), "strides": strides.tolist(), "dilations": dilations.tolist()}
            return SimpleNamespace(n=n, lens=lens.tolist(), window=window.tolist(), strides=strides.tolist(),
                                   dilations=dilations.tolist(), begin=begin.tolist(), end=end.tolist(),
                                   reach=reach.tolist(), told=told, auto=auto)


def read_window(a, position, axis):
    """Return the coordinates that an output position reads along an axis."""
    return [position * a.strides[axis] - a.begin[axis] + j * a.dilations[axis] for j in range(a.window[axis])]


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_convolutions(handle, rng, amount, dtype):
    for _ in range(15 if dtype == "float32" else amount(2, 5)):
        a = layer(rng)
        groups = int(rng.integers(1, 3))
        c, k = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
        x, w = integers(rng, (2, c, *a.lens), dtype), integers(rng, (k, c // groups, *a.window), dtype)
        b = integers(rng, k, dtype) if rng.random() < 0.5 else None
        out = [(i + p + q - r) // s + 1
               for i, p, q, r, s in zip(a.lens, a.begin, a.end, a.reach, a.strides, strict=True)]
        y = np.zeros((2, k, *out))
        wide = np.pad(x.astype(float), [(0, 0), (0, 0), *zip(a.begin, a.end, strict=True)])
        for j in np.ndindex(*a.window):
            part = wide[:, :, *(slice(j[i] * a.dilations[i], None, a.strides[i]) for i in range(a.n))]
            part = part[:, :, *(slice(0, o) for o in out)]
            for g in range(groups):
                cs, ks = (slice(g * (m // groups), (g + 1) * (m // groups)) for m in (c, k))
                y[:, ks] += np.einsum("nc...,kc->nk...", part[:, cs], w[ks][:, :, *j].astype(float))
        bound = 2 * (np.abs(y).max() + 4)
        y += 0 if b is None else b.astype(float).reshape(-1, *[1] * a.n)
        got, = run("Conv", handle, [x, w] if b is None else [x, w, b], group=groups, **a.told)
        assert got.dtype == x.dtype
        # Products and sums are exact in float32; results are rounded once, and once more with the bias.
        np.testing.assert_allclose(got.astype(float), y, rtol=2 * U[dtype], atol=0 if b is None else U[dtype] * bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_transposed_convolutions(handle, rng, amount, dtype):
    for _ in range(15 if dtype == "float32" else amount(2, 5)):
        a = layer(rng)
        groups = int(rng.integers(1, 3))
        c, k = groups * int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
        x, w = integers(rng, (2, c, *a.lens), dtype), integers(rng, (c, k // groups, *a.window), dtype)
        b = integers(rng, k, dtype) if rng.random() < 0.5 else None
        more = [int(rng.integers(0, s)) for s in a.strides]
        full = [s * (i - 1) + r for s, i, r in zip(a.strides, a.lens, a.reach, strict=True)]
        told = {**a.told, "output_padding": more}
        if a.auto == "NOTSET" and rng.random() < 0.3:  # what lies beyond all windows is zero
            told.pop("pads")
            told["output_shape"] = [int(f + m - rng.integers(-2, 2)) for f, m in zip(full, more, strict=True)]
        if "output_shape" in told or a.auto.startswith("SAME"):
            shape = told.get("output_shape") or [s * i for s, i in zip(a.strides, a.lens, strict=True)]
            total = [f + m - o for f, m, o in zip(full, more, shape, strict=True)]
            begin = [t // 2 if a.auto == "SAME_UPPER" else t - t // 2 for t in total]
        else:
            begin = a.begin
            shape = [f + m - p - q for f, m, p, q in zip(full, more, a.begin, a.end, strict=True)]
        if min(shape) < 1:
            continue
        wide = np.zeros((2, k, *(f + 64 for f in full)))
        for j in np.ndindex(*a.window):
            first = [32 + j[i] * a.dilations[i] for i in range(a.n)]
            at = tuple(slice(f, f + (i - 1) * s + 1, s) for f, i, s in zip(first, a.lens, a.strides, strict=True))
            for g in range(groups):
                cs, ks = (slice(g * (m // groups), (g + 1) * (m // groups)) for m in (c, k))
                wide[:, ks][:, :, *at] += np.einsum("nc...,ck->nk...", x[:, cs].astype(float),
                                                    w[cs][:, :, *j].astype(float))
        y = wide[:, :, *(slice(32 + p, 32 + p + o) for p, o in zip(begin, shape, strict=True))]
        bound = 2 * (np.abs(y).max() + 4)
        y = y + (0 if b is None else b.astype(float).reshape(-1, *[1] * a.n))
        got, = run("ConvTranspose", handle, [x, w] if b is None else [x, w, b], group=groups, **told)
        np.testing.assert_allclose(got.astype(float), y, rtol=2 * U[dtype], atol=0 if b is None else U[dtype] * bound)


@pytest.mark.parametrize("dtype", [*DTYPES, "int8", "uint8"])
def test_random_pooling(handle, rng, amount, dtype):
    done, wanted = 0, 25 if dtype == "float32" else 8
    if not handle.device.is_host:  # most of them are programs of their own
        wanted = amount(wanted // 4, wanted)
    while done < wanted:
        a = layer(rng)
        op = "MaxPool" if dtype in ("int8", "uint8") else str(rng.choice(["MaxPool", "AveragePool"]))
        up = int(rng.integers(0, 2)) if a.auto == "NOTSET" else 0
        out = []
        for i in range(a.n):
            steps = (a.lens[i] + a.begin[i] + a.end[i] - a.reach[i]) / a.strides[i]
            length = (ceil(steps) if up else int(steps)) + 1
            out.append(length - (up and (length - 1) * a.strides[i] >= a.lens[i] + a.begin[i]))
        inside = [[[p for p in read_window(a, o, i) if 0 <= p < a.lens[i]] for o in range(out[i])] for i in range(a.n)]
        if not all(all(axis) for axis in inside):
            continue  # a window without any element has no maximum
        done += 1
        include, column = int(rng.integers(0, 2)), int(rng.integers(0, 2))
        shape = (2, 3, *a.lens)
        x = (rng.integers(0, 100, shape).astype(dtype) if dtype in ("int8", "uint8")
             else rng.standard_normal(shape).astype(DTYPES[dtype]))
        y, places, bound = np.zeros((2, 3, *out)), np.zeros((2, 3, *out), np.int64), np.zeros((2, 3, *out))
        order = a.lens[::-1] if column else a.lens
        for at in np.ndindex(2, 3, *out):
            coordinates = [inside[i][at[2 + i]] for i in range(a.n)]
            values = x[at[:2]][np.ix_(*coordinates)].astype(float)
            if op == "MaxPool":
                y[at] = values.max()
                first = np.unravel_index(values.argmax(), values.shape)
                place = [coordinates[i][first[i]] for i in range(a.n)]
                flat = np.ravel_multi_index(place[::-1] if column else place, order)
                places[at] = (at[0] * 3 + at[1]) * prod(a.lens) + flat
            else:
                counted = prod(sum(-a.begin[i] <= p < a.lens[i] + a.end[i] for p in read_window(a, at[2 + i], i))
                               for i in range(a.n)) if include else values.size
                y[at], bound[at] = values.sum() / counted, np.abs(values).sum() / counted
        told = {**a.told, "ceil_mode": up}
        if op == "AveragePool":
            got, = run(op, handle, [x], count_include_pad=include, **told)
            # A sum of up to 27 terms in float32 or wider; stored at most twice.
            wide = U["float64" if dtype == "float64" else "float32"]
            assert (np.abs(got.astype(float) - y) <= (2.1 * U[dtype] + 32 * wide) * bound).all(), told
        else:
            told |= {"storage_order": column}
            got, where = run(op, handle, [x], outputs=2, **told)
            np.testing.assert_array_equal(where, places, str(told))
            assert where.dtype == np.int64
            np.testing.assert_array_equal(got.astype(float), y, str(told))
            np.testing.assert_array_equal(run(op, handle, [x], **told)[0], got)
        assert got.dtype == x.dtype


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 7), (2, 3, 5, 7), (2, 3, 2, 3, 4), (2, 3, 2, 2, 2, 3)])
def test_global_pooling(handle, rng, shape):
    x = rng.standard_normal(shape, dtype=np.float32)
    axes = tuple(range(2, x.ndim))
    got, = run("GlobalMaxPool", handle, [x])
    np.testing.assert_array_equal(got, x.max(axis=axes, keepdims=True))
    got, = run("GlobalAveragePool", handle, [x])
    truth = x.astype(float).mean(axis=axes, keepdims=True)
    np.testing.assert_allclose(got, truth, rtol=0, atol=48 * U["float32"] * np.abs(x).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 7), (3, 4, 5, 7), (2, 3, 2, 3, 4), (2, 3, 2, 2, 2, 3)])
@pytest.mark.parametrize("opset", [7, 9, 15])
def test_batch_normalisation(handle, rng, dtype, shape, opset):
    x = rng.standard_normal(shape).astype(DTYPES[dtype])
    scale, bias, mean = (rng.standard_normal(shape[1]).astype(DTYPES[dtype]) for _ in range(3))
    var = rng.uniform(0.5, 2, shape[1]).astype(DTYPES[dtype])
    wide = [a.astype(float).reshape(-1, *[1] * (x.ndim - 2)) for a in (scale, bias, mean, var)]
    axes = (0, *range(2, x.ndim))
    epsilon = float(np.float32(1e-3))
    u, v = U[dtype], U["float64" if dtype == "float64" else "float32"]

    def truth(mean, var):
        xs = x.astype(float)
        y = wide[0] * (xs - mean) / np.sqrt(var + epsilon) + wide[1]
        # Each term is rounded a few times, and the result once; what divides may be off by a few units too.
        terms = np.abs(wide[0]) * (np.abs(xs) + np.abs(mean)) / np.sqrt(var + epsilon) + np.abs(wide[1])
        return y, u * np.abs(y) + 32 * v * terms

    y, bound = truth(*wide[2:])
    inputs = [x, scale, bias, mean, var]
    got, = run("BatchNormalization", handle, inputs, opset, epsilon=epsilon)
    assert got.dtype == x.dtype
    assert (np.abs(got.astype(float) - y) <= bound).all()

    batch_mean, batch_var = (f(x.astype(float), axis=axes, keepdims=True) for f in (np.mean, np.var))
    y, bound = truth(batch_mean, batch_var)
    got = run("BatchNormalization", handle, inputs, opset, 3 if opset == 15 else 5, epsilon=epsilon, momentum=0.75,
              training_mode=1 if opset == 15 else None)
    assert (np.abs(got[0].astype(float) - y) <= bound).all()
    news = [a.reshape(-1) for a in (batch_mean, batch_var)]
    moved = [0.75 * old.astype(float) + 0.25 * new for old, new in zip((mean, var), news, strict=True)]
    for given, meant in zip(got[1:], [*moved, *news], strict=False):
        assert given.dtype == x.dtype
        # Means of values below 5 by float32's units, stored once.
        np.testing.assert_allclose(given.astype(float), meant, rtol=u, atol=u * np.abs(meant).max() + 64 * v * 5)


def test_batch_normalisation_of_each_activation(handle, rng):
    x = rng.standard_normal((4, 3, 2, 5))
    scale, bias, mean = (rng.standard_normal((3, 2, 5)) for _ in range(3))
    var = rng.uniform(0.5, 2, (3, 2, 5))
    got, = run("BatchNormalization", handle, [x, scale, bias, mean, var], 7, spatial=0)
    np.testing.assert_allclose(got, scale * (x - mean) / np.sqrt(var + 1e-5) + bias, rtol=1e-7)


@pytest.mark.parametrize("bias", [1.0, 0.0])
@pytest.mark.parametrize("size", [1, 3, 4, 9])
@pytest.mark.parametrize("shape", [(2, 7, 3, 5), (3, 2, 4), (1, 6, 2, 2, 3)])
def test_lrn(handle, rng, shape, size, bias):
    x = rng.uniform(0.5, 2, shape).astype(np.float32)
    got, = run("LRN", handle, [x], where="miopyx" if bias else "numpy", size=size, alpha=0.3, beta=0.6, bias=bias)
    y = np.empty(shape)
    for c in range(shape[1]):
        near = x[:, max(0, c - (size - 1) // 2):c + -(-(size - 1) // 2) + 1].astype(float)
        y[:, c] = x[:, c] / (bias + float(np.float32(0.3)) / size * (near**2).sum(axis=1))**float(np.float32(0.6))
    np.testing.assert_allclose(got, y, rtol=64 * U["float32"])


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
def test_softmax(handle, rng, op, opset, axis):
    x = (4 * rng.standard_normal((2, 3, 4, 5))).astype(np.float32)
    wide = x.astype(float)
    if opset == 11:
        at = 1 if axis is None else axis % 4
        wide = wide.reshape(prod(x.shape[:at]), -1)
    over = 1 if opset == 11 else -1 if axis is None else axis
    e = np.exp(wide - wide.max(axis=over, keepdims=True))
    y = (e / e.sum(axis=over, keepdims=True)).reshape(x.shape)
    got, = run(op, handle, [x], opset, axis=axis)
    if op == "LogSoftmax":
        np.testing.assert_allclose(got, np.log(y), rtol=0, atol=64 * U["float32"] * np.abs(x).max())
    else:
        np.testing.assert_allclose(got, y, rtol=U["float32"] * (32 + 4 * np.abs(x).max()))


ACTIVATIONS = {
    "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Tanh": np.tanh, "Abs": np.abs,
    "Softplus": lambda x: np.logaddexp(0, x), "Identity": lambda x: x,
    "LeakyRelu": lambda x: np.where(x > 0, x, np.float32(0.3) * x),
    "Elu": lambda x: np.where(x > 0, x, np.float32(0.3) * np.expm1(x)),
}


@pytest.mark.parametrize("op", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(handle, rng, op, dtype):
    values = (3 * rng.standard_normal((3, 5, 7))).astype(DTYPES[dtype])
    for x in (values[::-1, :, ::2], np.array(values[0, 0, 0])):
        got, = run(op, handle, [x], where="view" if op == "Identity" else "miopyx",
                   alpha=0.3 if op in ("LeakyRelu", "Elu") else None)
        assert got.dtype == x.dtype
        assert got.shape == x.shape
        y = ACTIVATIONS[op](x.astype(float))
        # Units of the type, and units of float32 of terms of size one (e^x - 1 cancels).
        bound = 2 * U[dtype] * np.abs(y) + 8 * U["float64" if dtype == "float64" else "float32"]
        assert (np.abs(got.astype(float) - y) <= bound).all()


def test_relu_at_the_ends(handle):
    x = np.array([-np.inf, np.inf, 0, -0.0, 1e-45, -3e38], np.float32)
    np.testing.assert_array_equal(run("Relu", handle, [x])[0], np.maximum(x, 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(handle, rng, dtype):
    x = (3 * rng.standard_normal((3, 5, 7))).astype(DTYPES[dtype])
    for low, high in ((None, None), (0, 6), (0, None), (None, 1.5), (-1, 2), (0, np.inf), (2, -1)):
        bounds = [None if b is None else np.array(b, x.dtype) for b in (low, high)]
        truth = np.minimum(np.maximum(x.astype(float), -np.inf if low is None else low),
                           np.inf if high is None else high)
        names = ["x", "" if low is None else "low", "" if high is None else "high"]
        graph = helper.make_graph([helper.make_node("Clip", names, ["y"])], "clip",
                                  [onnx.ValueInfoProto(name=name) for name in ("x", "low", "high")],
                                  [onnx.ValueInfoProto(name="y")])
        rep = BackendRep(graph, handle, opsets={"": 13})
        got, = rep.run({"x": x, "low": bounds[0], "high": bounds[1]})
        np.testing.assert_array_equal(got.astype(float), truth)
        assert rep.ran[0].where == ("view" if low is None and high is None else "miopyx")
        if low is not None or high is not None:  # attributes, before opset 11
            given = {"min": low, "max": high}
            got, = run("Clip", handle, [x], 6, **{k: float(v) for k, v in given.items() if v is not None})
            np.testing.assert_array_equal(got.astype(float), truth)


def test_bounds_of_clip_may_change(handle):
    x = np.arange(-3, 4, dtype=np.float32)
    graph = helper.make_graph([helper.make_node("Clip", ["x", "low", "high"], ["y"])], "clip",
                              [onnx.ValueInfoProto(name=name) for name in ("x", "low", "high")],
                              [onnx.ValueInfoProto(name="y")])
    rep = BackendRep(graph, handle, opsets={"": 13})
    for low, high in ((-1, 1), (-2, 2), (0, 1), (0, 2), (-1, 1)):
        got, = rep.run([x, np.float32(low).reshape(()), np.float32(high).reshape(())])
        np.testing.assert_array_equal(got, np.clip(x, low, high))


# What a backend is


def small_net():
    """Return a model of a convolution, a function that holds a Relu, an If that holds a Softmax, and a Neg."""
    rng = np.random.default_rng(3)
    weights = [numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3), dtype=np.float32), "w"),
               numpy_helper.from_array(rng.standard_normal(4, dtype=np.float32), "b")]
    body = [helper.make_graph([helper.make_node(op, ["r"], [f"out{i}"], axis=1)], f"branch{i}", [],
                              [helper.make_tensor_value_info(f"out{i}", TensorProto.FLOAT, ["n", 4, "h", "w"])])
            for i, op in enumerate(("Softmax", "LogSoftmax"))]
    function = helper.make_function("here", "Act", ["t"], ["u"], [helper.make_node("LeakyRelu", ["t"], ["u"])],
                                    [helper.make_opsetid("", 17)], ["slope"])
    attribute = function.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1]),
         helper.make_node("Act", ["y"], ["r"], domain="here", slope=0.25),
         helper.make_node("If", ["choose"], ["p"], then_branch=body[0], else_branch=body[1]),
         helper.make_node("Neg", ["p"], ["z"])], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"]),
         helper.make_tensor_value_info("choose", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 4, "h", "w"])], weights)
    return helper.make_model(graph, functions=[function], opset_imports=[helper.make_opsetid("", 17),
                                                                          helper.make_opsetid("here", 1)], ir_version=9)


def check_small_net(rep, rng):
    model = small_net()
    w, b = (numpy_helper.to_array(a).astype(float) for a in model.graph.initializer)
    for choose, height in ((True, 6), (False, 6), (True, 9)):
        x = rng.standard_normal((2, 3, height, 5), dtype=np.float32)
        wide = np.pad(x.astype(float), [(0, 0), (0, 0), (1, 1), (1, 1)])
        y = np.broadcast_to(b.reshape(-1, 1, 1), (2, 4, height, 5)).copy()
        for i, j in np.ndindex(3, 3):
            y += np.einsum("nchw,kc->nkhw", wide[:, :, i:i + height, j:j + 5], w[:, :, i, j])
        r = np.where(y > 0, y, 0.25 * y)
        e = np.exp(r - r.max(axis=1, keepdims=True))
        z = -e / e.sum(axis=1, keepdims=True) if choose else np.log(e.sum(axis=1, keepdims=True)) - np.log(e)
        outputs = rep.run([x, np.array(choose)])
        assert len(outputs) == 1
        # Errors of some 30 products of normal numbers, carried through exp.
        np.testing.assert_allclose(outputs["z"], z, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(rep.run({"x": x, "choose": np.array(choose)})[0], outputs[0])
        assert [(r.node.op_type, r.where) for r in rep.ran] == [
            ("Conv", "miopyx"), ("LeakyRelu", "miopyx"), ("Softmax" if choose else "LogSoftmax", "miopyx"),
            ("Neg", "miopyx")]
        assert all(r.why for r in rep.ran)


def test_functions_and_subgraphs(handle, rng):
    check_small_net(Backend.prepare(small_net(), handle), rng)


def test_a_device_with_memory_of_its_own(opencl_name, monkeypatch, rng):
    uploads = []

    class Counting(miopyx.Handle):
        def upload(self, array):
            uploads.append(array.shape)
            return super().upload(array)

    info = devices.find(opencl_name)._replace(kind="gpu")
    with monkeypatch.context() as patch:
        patch.setattr(devices, "find", lambda _: info)
        handle = Counting(opencl_name)
    with handle:
        assert not handle.device.shares_memory
        check_small_net(Backend.prepare(small_net(), handle), rng)
        assert uploads.count((4, 3, 3, 3)) == 1  # weights travel once
        for op, inputs, attributes in (
                ("MaxPool", [rng.standard_normal((1, 2, 6, 6), dtype=np.float32)], {"kernel_shape": [2, 2]}),
                ("BatchNormalization", [rng.standard_normal((2, 3, 4), dtype=np.float32),
                                        *rng.uniform(0.5, 1, (4, 3)).astype(np.float32)], {"training_mode": 1})):
            outputs = 2 if op == "MaxPool" else 3
            for a, b in zip(run(op, handle, inputs, outputs=outputs, **attributes),
                            run(op, "CPU", inputs, outputs=outputs, **attributes), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_was_prepared_is_kept(handle, rng):
    rep = Backend.prepare(small_net(), handle)
    conv = rep.evaluator.rt_nodes_[0]
    for height, known in ((5, 1), (5, 1), (6, 2), (5, 2)):
        rep.run([rng.standard_normal((1, 3, height, 5), dtype=np.float32), np.array(True)])
        assert len(conv.prepared) == known


def test_devices(opencl_name):
    with miopyx.Handle(opencl_name) as handle:
        device = handle.device.name  # a device of CUDA has another name than its number
    for name in ("CPU", "CPU:0", "host", opencl_name):
        assert Backend.supports_device(name)
    assert not Backend.supports_device("no such device")
    assert BackendRep(small_net(), "CPU").handle.device.is_host
    rep = Backend.prepare(small_net(), opencl_name)
    assert rep.handle.device.name == device
    assert Backend.prepare(small_net(), opencl_name).handle is rep.handle  # its programs are built once a process
    with pytest.raises(miopyx.MIOpenError):
        Backend.prepare(small_net(), "no such device")


def test_run_model_and_single_arrays():
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.array([-1, 0, 2], np.float32)
    assert Backend.run_model(model, x, "CPU")["y"].tolist() == [0, 0, 2]
    assert Backend.run_node(helper.make_node("Relu", ["a"], ["b"]), {"a": x})["b"].tolist() == [0, 0, 2]
    with pytest.raises(miopyx.errors.BadParmError, match="1: x"):
        Backend.run_model(model, [x, x], "CPU")
    graph.node[0].op_type = "NoSuchNode"
    with pytest.raises(onnx.checker.ValidationError):
        Backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))


def declared(x, y):
    """A model of an Add of two inputs that a graph declares so."""
    return helper.make_model(helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["z"])], "add",
        [helper.make_tensor_value_info("x", *x), helper.make_tensor_value_info("y", *y)],
        [helper.make_tensor_value_info("z", x[0], [None])]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("x", "y", "parameter", "value", "limit"), [
    (np.ones((2, 3)), np.ones((2, 3), "f4"), "x", "float64", "float32"),
    (np.ones((2, 3), "f4"), np.ones((2, 3), "i4"), "y", "int32", "float32"),
    (np.ones((2, 4), "f4"), np.ones((2, 4), "f4"), "x.shape[1]", 4, 3),
    (np.ones(3, "f4"), np.ones((2, 3), "f4"), "x", (3,), "2 dimensions"),
    (np.ones((2, 3), "f4"), np.ones((1, 3), "f4"), "y.shape[0]", 1, "2, as x.shape[0]"),
])
def test_inputs_are_what_the_graph_declares(host, x, y, parameter, value, limit):
    rep = Backend.prepare(declared((TensorProto.FLOAT, ["n", 3]), (TensorProto.FLOAT, ["n", None])), host)
    for n in (1, 5):
        (z,) = rep.run([np.full((n, 3), 2, np.float32), np.ones((n, 3), np.float32)])
        assert (z == 3).all()
        assert z.shape == (n, 3)
    for inputs in ([x, y], {"x": x, "y": y}):
        with pytest.raises(miopyx.errors.BadParmError) as raised:
            rep.run(inputs)
        assert (raised.value.parameter, raised.value.value, raised.value.limit) == (parameter, value, limit)


def test_inputs_without_lengths(host):
    rep = BackendRep(declared((TensorProto.FLOAT16, None), (TensorProto.FLOAT16, [])), host)  # the checker wants some
    (z,) = rep.run([np.ones((2, 5), np.float16), np.float16(1)])
    assert (z == 2).all()
    assert z.shape == (2, 5)


@pytest.mark.parametrize(("op", "x", "why"), [
    ("Relu", np.array([-1, 2], np.int32), "int32 tensor"), ("Abs", np.array([-1, 2], np.int64), "int64 tensor"),
    ("Softmax", np.empty((0, 3), np.float32), "empty tensor"),
    ("Sigmoid", np.empty((1, 0, 3), np.float32), "empty tensor"),
])
def test_what_numpy_computes(handle, op, x, why):
    rep = BackendRep(helper.make_node(op, ["x"], ["y"]), handle)
    got, = rep.run([x])
    assert [tuple(r)[1:] for r in rep.ran] == [("numpy", why)]
    if x.size:
        np.testing.assert_array_equal(got, np.maximum(x, 0) if op == "Relu" else np.abs(x))


# The networks that onnx ships.  Their weights are all the same number there, so they get random ones.


LIGHT = sorted((pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))
HEAVY = ("alexnet", "resnet50", "vgg19", "zfnet512")  # 100 to 550 MB of weights


@functools.cache
def network(path):
    """Return a network whose weights are inputs, and their shapes."""
    model = onnx.load(path)
    shapes = {a.name: numpy_helper.to_array(a) for a in model.graph.initializer}
    weights, nodes = {}, []
    for node in model.graph.node:
        value = next((numpy_helper.to_array(a.t) for a in node.attribute if a.name == "value"), np.zeros(1))
        if node.op_type == "ConstantOfShape" and value.dtype == np.float32:
            weights[node.output[0]] = tuple(int(i) for i in shapes[node.input[0]])
        else:
            nodes.append(node)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                             for name, shape in weights.items())
    return model, weights


@functools.cache
def convolutions():
    """Return the distinct convolutions of all networks: lengths of x and w, strides, pads, groups."""
    found = set()
    for path in LIGHT:
        model = onnx.shape_inference.infer_shapes(network(path)[0])
        shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
                  for v in [*model.graph.value_info, *model.graph.input]}
        for node in model.graph.node:
            if node.op_type == "Conv":
                a = {a.name: helper.get_attribute_value(a) for a in node.attribute}
                pads = tuple(a.get("pads", (0, 0, 0, 0)))
                assert pads[:2] == pads[2:]
                assert not a.keys() - {"kernel_shape", "strides", "pads", "group", "dilations"}
                assert set(a.get("dilations", (1,))) == {1}
                found.add((shapes[node.input[0]], shapes[node.input[1]], tuple(a.get("strides", (1, 1))), pads[:2],
                           a.get("group", 1)))
    return sorted(found)


def test_networks_are_all_there():
    assert len(LIGHT) >= 9
    assert len(convolutions()) >= 216
    if THIS_ONNX:
        assert (len(LIGHT), len(convolutions())) == (9, 216)


@pytest.mark.some(2)
@pytest.mark.parametrize("part", range(8))
def test_every_convolution_of_the_networks(opencl_handle, host, rng, part):
    """Each distinct layer in its three directions, in float32, against the host path in float64.

    |error| <= (2 + min(K, 8 sqrt(K))) u sum |products|: K products are summed, and the rounding errors of random data
    add up like random steps.
    """
    for x_lens, w_lens, strides, pads, groups in convolutions()[part::8]:
        conv = ConvolutionDescriptor(pads, strides, groups=groups)
        x_desc, w_desc = TensorDescriptor("float32", x_lens), TensorDescriptor("float32", w_lens)
        y_lens = conv.output_lens(x_desc, w_desc)
        tensors = [rng.standard_normal(lens, dtype=np.float32) for lens in (x_lens, w_lens, y_lens)]
        for missing, name, order in ((2, "convolution_forward", (0, 1, 2)), (0, "convolution_backward_data", (2, 1, 0)),
                                     (1, "convolution_backward_weights", (2, 0, 1))):
            k = prod(w_lens[1:]) if missing == 2 else prod(w_lens[2:]) * w_lens[0] // groups if missing == 0 else (
                y_lens[0] * prod(y_lens[2:]))
            results, transforms = [], False
            for on, dtype, values in ((opencl_handle, "float32", tensors), (host, "float64", tensors),
                                      (host, "float64", [*map(np.abs, tensors)])):
                descs = [TensorDescriptor(dtype, t.shape) for t in tensors]
                arrays = [t.astype(dtype) for t in values]
                plan = getattr(on, name)(*(descs[i] for i in order[:2]), conv, descs[order[2]])
                transforms |= plan.solver.mixes_tiles
                out = np.full(tensors[missing].shape, np.nan, dtype)
                buffers = [on.upload(arrays[i]) for i in order[:2]] + [on.upload(out)]
                plan(*buffers)
                results.append(on.download(buffers[2], out))
            got, truth, terms = results
            if transforms:  # they spread an error over a tile: the bound is that of solver_checks.py
                k, terms = k + 30, terms.max()
            bound = (2 + min(k, 8 * sqrt(k))) * U["float32"] * terms
            assert (np.abs(got - truth) <= bound).all(), (name, x_lens, w_lens, strides, pads, groups)


def weigh(weights, rng):
    """Return weights under which activations neither vanish nor explode."""
    values = {}
    for name, shape in weights.items():
        if len(shape) > 1:
            values[name] = rng.random(shape, np.float32)
            values[name] -= np.float32(0.5)
            values[name] *= np.float32(sqrt(24 / prod(shape[1:])))
        else:
            values[name] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
    return values


# What they give is one of what they are given.
CHOICES = ("Relu", "MaxPool", "GlobalMaxPool", "Concat", "Transpose", "Reshape", "Unsqueeze", "Dropout")


def verify_node(node, inputs, outputs, opset):
    """Compare what a node computed in float32 with the host path in float64 on the same inputs."""
    inputs = [np.asarray(a, np.float64) if a.dtype == np.float32 else a for a in inputs]
    truth = Backend.run_node(node, inputs, "CPU", opset_version=opset)
    u, y = U["float32"], truth[0]
    if node.op_type in CHOICES:
        bound = np.zeros(1)
    elif node.op_type in ("Add", "Mul", "Sum"):
        terms = np.abs(y) if node.op_type == "Mul" else len(inputs) * sum(map(np.abs, inputs))
        bound = u * terms + 2.0**-149
    elif node.op_type in ("Conv", "Gemm"):
        k = prod(inputs[1].shape[1:])
        terms, = Backend.run_node(node, [*map(np.abs, inputs)], "CPU", opset_version=opset)
        bound = (3 + min(k, 8 * sqrt(k))) * u * terms
    elif node.op_type in ("AveragePool", "GlobalAveragePool"):
        bound = (4 + 49) * u * Backend.run_node(node, [np.abs(inputs[0])], "CPU", opset_version=opset)[0]
    elif node.op_type == "BatchNormalization":
        x, scale, bias, mean, var = (inputs[0], *(a.reshape(-1, 1, 1) for a in inputs[1:]))
        bound = 8 * u * (np.abs(scale) * (np.abs(x) + np.abs(mean)) / np.sqrt(var) + np.abs(bias))
    elif node.op_type == "LRN":
        bound = 32 * u * np.abs(y)
    elif node.op_type == "Softmax":
        bound = u * (64 + 4 * np.abs(inputs[0]).max()) * y + 1e-37
    else:
        raise AssertionError(node.op_type)
    assert np.isfinite(y).all()
    assert (np.abs(outputs[0] - y) <= bound).all(), node


@pytest.mark.some(2)
@pytest.mark.parametrize("path", [
    pytest.param(path, marks=pytest.mark.long if path.stem.endswith(HEAVY) else (), id=path.stem.removeprefix("light_"))
    for path in LIGHT])
def test_networks_with_random_weights(handle, rng, path):
    """Every node of ours in the whole network, on the inputs that it got there."""
    model, weights = network(path)
    rep = Backend.prepare(model, handle, fuse=False)
    feeds = weigh(weights, rng)
    names = [i.name for i in model.graph.input if i.name not in weights and i.name not in rep.evaluator.rt_inits_]
    assert len(names) == 1
    feeds[names[0]] = rng.standard_normal((1, 3, 224, 224), dtype=np.float32)
    values = rep.evaluator.run(None, feeds, intermediate=True)
    nodes = [node for node in model.graph.node if node.op_type in OURS]
    ran = [r.node for r in rep.ran if r.where != "numpy"]
    assert [node.output[0] for node in ran] == [node.output[0] for node in nodes]
    assert len(nodes) > 15
    opset, = (o.version for o in model.opset_import if o.domain == "")
    for node in nodes:
        verify_node(node, [values[i] for i in node.input], [values[o] for o in node.output], opset)
    final = values[model.graph.output[0].name]
    assert final.std() > 0
