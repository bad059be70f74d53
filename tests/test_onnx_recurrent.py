"""LSTM, GRU and RNN of ONNX: random ones against NumPy in float64, and a network."""

import numpy as np
import onnx_models
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_runs import DTYPES, U, run, unit_of_sums

from miopyx import MIOpenError
from miopyx.onnx import Backend


def logistic(x):
    return 1 / (1 + np.exp(-x))


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def one_way(op, x, w, r, b, h, c, lengths, backward, activation):
    """Return the outputs of all steps and the last states of one direction; x is (steps, batch, vector), in float64."""
    steps, batch = x.shape[:2]
    hidden = h.shape[1]
    y, h, c = np.zeros((steps, batch, hidden)), h.copy(), c.copy()
    wb, rb = np.split(b, 2)
    for s in range(batch):
        order = range(lengths[s])
        for t in reversed(order) if backward else order:
            a, q = w @ x[t, s] + wb, r @ h[s] + rb
            if op == "LSTM":
                i, o, f, n = np.split(a + q, 4)
                c[s] = logistic(f) * c[s] + logistic(i) * np.tanh(n)
                h[s] = logistic(o) * np.tanh(c[s])
            elif op == "GRU":
                (az, ar, an), (qz, qr, qn) = np.split(a, 3), np.split(q, 3)
                z = logistic(az + qz)
                h[s] = (1 - z) * np.tanh(an + logistic(ar + qr) * qn) + z * h[s]
            else:
                h[s] = np.tanh(a + q) if activation == "Tanh" else np.maximum(a + q, 0)
            y[t, s] = h[s]
    return y, h, c


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("given", ["nothing", "bias", "states", "bias states lengths", "lengths constants"])
@pytest.mark.pairwise
def test_recurrent_layers(handle, rng, op, way, dtype, layout, given):
    dirs, steps, batch, vector, hidden = 1 + (way == "bidirectional"), 5, 3, 4, 6
    rows = GATES[op] * hidden

    def normal(*shape):
        return (0.5 * rng.standard_normal(shape)).astype(DTYPES[dtype])

    x, w, r = normal(steps, batch, vector), normal(dirs, rows, vector), normal(dirs, rows, hidden)
    b = normal(dirs, 2 * rows) if "bias" in given else None
    lengths = np.array([3, 5, 1], np.int32) if "lengths" in given else None
    h, c = ((normal(dirs, batch, hidden) for _ in range(2)) if "states" in given else (None, None))
    activation = "Relu" if op == "RNN" and rng.random() < 0.5 else "Tanh"
    wide = [np.zeros(shape) if a is None else a.astype(float) for a, shape in
            ((b, (dirs, 2 * rows)), (h, (dirs, batch, hidden)), (c, (dirs, batch, hidden)))]
    each = [one_way(op, x.astype(float), w[d].astype(float), r[d].astype(float), *(a[d] for a in wide),
                    [steps] * batch if lengths is None else lengths, way == "reverse" or d == 1, activation)
            for d in range(dirs)]
    truth = [np.stack([parts[0] for parts in each], 1), *(np.stack([parts[i] for parts in each]) for i in (1, 2))]
    if layout:
        x, h, c = (a if a is None else np.ascontiguousarray(a.swapaxes(0, 1)) for a in (x, h, c))
        truth = [truth[0].transpose(2, 0, 1, 3), *(a.swapaxes(0, 1) for a in truth[1:])]
    inputs = [x, w, r, b, lengths, h, *([c] if op == "LSTM" else [])]
    while inputs[-1] is None:
        inputs.pop()
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    if activation == "Relu":
        more["activations"] = ["Relu"] * dirs
    got = run(op, handle, inputs, 14, 3 if op == "LSTM" else 2, constants=(1, 2) if "constants" in given else (),
              hidden_size=hidden, direction=way, layout=layout, **more)
    # Sums of a dozen terms, five steps in a row; 16 bits are rounded in each of them.
    scale = max(1.0, np.abs(truth[0]).max())
    bound = (16 * U[dtype] if U[dtype] > U["float32"] else 0) + 256 * unit_of_sums(dtype)
    for part, meant in zip(got, truth, strict=False):
        assert part.dtype == x.dtype
        assert part.shape == meant.shape
        assert (np.abs(part.astype(float) - meant) <= bound * scale).all()


@pytest.mark.parametrize("op", GATES)
def test_outputs_that_are_not_wanted(handle, rng, op):
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in
              ((3, 2, 4), (1, GATES[op] * 5, 4), (1, GATES[op] * 5, 5))]
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    whole = run(op, handle, inputs, outputs=2, hidden_size=5, **more)
    alone, = run(op, handle, inputs, hidden_size=5, **more)
    np.testing.assert_array_equal(whole[0], alone)
    np.testing.assert_array_equal(whole[0][-1], whole[1])


@pytest.mark.parametrize(("attributes", "lengths", "parameter"), [
    ({"activations": ["Sigmoid", "Relu", "Tanh"]}, None, "LSTM.activations"), ({"clip": 1.0}, None, "LSTM.clip"),
    ({"input_forget": 1}, None, "LSTM.input_forget"),
])
def test_what_nobody_computes(host, rng, attributes, lengths, parameter):
    """onnx's evaluator would not look at these."""
    inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in ((3, 2, 4), (1, 20, 4), (1, 20, 5))]
    with pytest.raises(MIOpenError) as caught:
        run("LSTM", host, inputs, where="numpy", hidden_size=5, **attributes)
    assert caught.value.parameter == parameter
    lengths = np.array([3, 2], np.int32)
    with pytest.raises(MIOpenError) as caught:
        run("GRU", host, [inputs[0], inputs[1][:, :15], inputs[2][:, :15], None, lengths], where="numpy", hidden_size=5)
    assert caught.value.parameter == "GRU.sequence_lens"
    with pytest.raises(MIOpenError) as caught:
        run("LSTM", host, [*inputs[:2], inputs[2][:, :15]], hidden_size=5)
    assert caught.value.parameter == "R"


def network(seed, dtype="float32"):
    """Two LSTM layers, both ways and forward, and a classifier of the last state, as PyTorch exports them."""
    g = onnx_models.Graph(seed, dtype, 17)

    def lstm(x, k, hidden, dirs):
        parts = [g.weight(g.rng.uniform(-2, 2, shape) / np.sqrt(hidden)) for shape in
                 ((dirs, 4 * hidden, k), (dirs, 4 * hidden, hidden), (dirs, 8 * hidden))]
        return g.add("LSTM", x, *parts, outputs=3, hidden_size=hidden,
                     direction="bidirectional" if dirs == 2 else "forward")

    y, _, _ = lstm("x", 24, 32, 2)
    y = g.add("Reshape", g.add("Transpose", y, perm=[0, 2, 1, 3]), g.weight(np.array([0, 0, 64])))
    _, h, _ = lstm(y, 64, 48, 1)
    h = g.add("Squeeze", h, g.weight(np.array([0])))
    logits = g.add("Gemm", h, g.normal(10, 48), g.weight(0.1 * g.rng.standard_normal(10)), transB=1)
    return g.model("x", ["t", "n", 24], g.add("Softmax", logits, axis=-1), ["n", 10])


def check_network(device, rng):
    seed, x = int(rng.integers(1 << 31)), rng.standard_normal((20, 4, 24), dtype=np.float32)
    truth, = ReferenceEvaluator(network(seed, "float64")).run(None, {"x": x.astype(float)})
    rep = Backend.prepare(network(seed), device)
    got, = rep.run([x])
    # Twenty steps of states below one, of sums of some 60 terms, and logits of about one.
    assert np.abs(got - truth).max() <= 512 * U["float32"]
    assert truth.std() > 0.01
    assert {r.where for r in rep.ran} == {"miopyx", "view"}
    return rep, x, got


def test_a_network(handle, rng):
    check_network(handle, rng)


def test_states_stay_on_the_device(gpu, rng):
    rep, x, got = check_network(gpu, rng)
    there, back = rep.uploads, rep.downloads
    np.testing.assert_array_equal(rep.run([x])[0], got)
    assert (rep.uploads - there, rep.downloads - back) == (1, 1)
