"""CTC loss: values, gradients, types, strides, special lengths, and refusals.

Losses and gradients are compared with a forward-backward of probabilities in float64, written out below, and with
PyTorch.  A kernel computes with logarithms in float32 (float64 for float64 tensors), with roundoff v, and stores with
roundoff u.  Each of T steps adds a few roundings of numbers no larger than m, the largest |x - log-sum| and a few tens:
logarithms are right to error = 24 v (T + 16) (m + 8) / 8, and so are, in relation, probabilities.  The loss has the
same error beside u and 2 v of itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import ROUNDOFF, Guarded, Tensor, strides_of

import miopyx
from miopyx import CTCLossDescriptor, TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError, UnknownError

TYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("packed", "padded", "packed with gaps")


def log_sum(*values):
    """log of the sum of exponentials, -inf for none."""
    most = max(values)
    return most if most == -np.inf else most + np.log(sum(np.exp(v - most) for v in values))


def reference(x, labels, blank, softmax):
    """Return the loss of one sample, x is (steps, classes), and its gradient."""
    steps, classes = x.shape
    x = x.astype(np.float64)
    y = x - (np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) + x.max(1, keepdims=True)
             if softmax else 0)
    states = [blank]
    for label in labels:
        states += [label, blank]
    count = len(states)
    before = np.full((steps + 1, count + 2), -np.inf)  # two states that nothing reaches lie in front
    after = np.full((steps + 1, count + 2), -np.inf)
    skips = [s > 1 and states[s] != blank and states[s] != states[s - 2] for s in range(count)]
    for t in range(steps):
        for s in range(count):
            came = [before[t, s + 2], before[t, s + 1], before[t, s] if skips[s] else -np.inf]
            before[t + 1, s + 2] = y[t, states[s]] + (0 if t == 0 and s < 2 else log_sum(*came))
    for t in reversed(range(steps)):
        for s in range(count):
            goes = [after[t + 1, s], after[t + 1, s + 1], after[t + 1, s + 2] if s + 2 < count and skips[s + 2]
                    else -np.inf]
            after[t, s] = y[t, states[s]] + (0 if t == steps - 1 and s >= count - 2 else log_sum(*goes))
    if steps == 0:
        return 0.0 if count == 1 else np.inf, np.zeros((0, classes))
    total = log_sum(before[steps, count + 1], before[steps, count] if count > 1 else -np.inf)
    if total == -np.inf:
        return np.inf, np.full((steps, classes), np.nan)
    sure = np.zeros((steps, classes))
    for s in range(count):
        here = before[1:, s + 2] + after[:steps, s] - y[:, states[s]] - total
        sure[:, states[s]] += np.exp(np.where(np.isnan(here), -np.inf, here))
    return -total, np.exp(y) - sure if softmax else -sure * np.exp(-y)


class Batch:
    def __init__(self, handle, dtype, steps, classes, label_lengths, input_lengths, rng, blank=0, softmax=True,
                 layouts=("packed", "packed"), spread=2.0, labels=None):
        self.handle, self.dtype, self.softmax, self.classes, self.steps = handle, dtype, softmax, classes, steps
        self.label_lengths, self.input_lengths = label_lengths, input_lengths
        samples = len(label_lengths)
        self.lens = steps, samples, classes
        self.ctc = CTCLossDescriptor("float32", blank, softmax)
        self.blank = min(max(blank, 0), classes - 1)
        pool = [c for c in range(classes) if c != self.blank]
        drawn = rng.integers(0, len(pool), sum(label_lengths))
        self.labels = [int(pool[i]) for i in drawn] if labels is None else labels
        values = rng.standard_normal(self.lens) * spread
        if not softmax:
            values = values - np.log(np.exp(values).sum(2, keepdims=True))
        descs = [TensorDescriptor(dtype, self.lens, strides_of(self.lens, layout)) for layout in layouts]
        self.x, self.dx = Tensor(handle, descs[0], values), Tensor(handle, descs[1], None)
        self.losses = Tensor(handle, TensorDescriptor(dtype, (samples,)), None)

    def run(self, labels=None):
        labels = self.labels if labels is None else labels
        given = self.x.desc, self.dx.desc, labels, self.label_lengths, self.input_lengths, 0, self.ctc
        size = miopyx.miopenGetCTCLossWorkspaceSize(self.handle, *given)
        space = Guarded(self.handle, size, 0xFF) if size else None
        miopyx.miopenCTCLoss(self.handle, self.x.desc, self.x.argument(), labels, self.label_lengths,
                             self.input_lengths, self.losses.argument(), self.dx.desc, self.dx.argument(), 0, self.ctc,
                             space.argument() if size else None, size)
        self.handle.finish()
        if size:
            space.fetch()
        return self.losses.values(), self.dx.values()

    def check(self):
        losses, dx = self.run()
        x = self.x.view().astype(np.float64)
        u, v = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        at = 0
        for n, (count, steps) in enumerate(zip(self.label_lengths, self.input_lengths, strict=True)):
            loss, grad = reference(x[:steps, n], self.labels[at:at + count], self.blank, self.softmax)
            at += count
            m = np.abs(x[:steps, n]).max(initial=0) + np.log(self.classes) + 8
            error = 3 * v * (steps + 16) * (m + 8)
            what = f"sample {n} of {self.dtype} {self.lens}, {count} labels, {steps} steps"
            if np.isinf(loss):
                assert losses[n] == np.inf, what
                assert np.isnan(dx[:steps, n]).all(), what
            else:
                assert abs(losses[n] - loss) <= error + (u + 2 * v) * abs(loss), (what, losses[n], loss)
                size = 1.0 if self.softmax else np.abs(grad) + 1
                bound = u * np.abs(grad) + error * size + 2.0**-24
                beyond = (np.abs(grad) + bound > 65504) & (dx[:steps, n] == np.copysign(np.inf, grad))
                wrong = ~((np.abs(dx[:steps, n] - grad) <= bound) | beyond & (self.dtype == "float16"))
                assert not wrong.any(), (what, wrong.sum(), dx[:steps, n][wrong][:3], grad[wrong][:3])
            assert (dx[steps:, n] == 0).all(), what


@pytest.mark.parametrize("softmax", [True, False])
def test_plans(handle, rng, softmax):
    """The same bits as the function's, with a table for each batch; nothing is prepared twice."""
    plan, steps, classes, most = None, 12, 7, 20
    for _ in range(3):
        labels, inputs = [int(n) for n in rng.integers(0, 5, 4)], [int(n) for n in rng.integers(9, steps + 1, 4)]
        batch = Batch(handle, "float32", steps, classes, labels, inputs, rng, softmax=softmax)
        if plan is None:
            plan, desc = handle.ctc_loss(batch.x.desc, batch.dx.desc, batch.ctc, most), batch.ctc
            assert plan.buffers == ("probs", "table", "losses", "gradients")
        want = [values.copy() for values in batch.run()]
        table = desc.table(batch.x.desc, batch.labels, labels, inputs, most)
        memory = table if handle.device.is_host or handle.device.shares_memory else handle.upload(table)
        again = Tensor(handle, batch.losses.desc, None), Tensor(handle, batch.dx.desc, None)
        plan(batch.x.argument(), memory, *(one.argument() for one in again))
        handle.finish()
        for got, wanted in zip(again, want, strict=True):
            np.testing.assert_array_equal(got.values(), wanted)
    with pytest.raises(BadParmError, match="table"):
        plan(batch.x.argument(), table[:, :5].copy(), *(one.argument() for one in again))


def test_tables_of_nonsense_stay_within_the_tensors(handle, gpu, rng):
    """Another type is refused; what an int32 table of the problem holds is not looked at."""
    x, ctc = TensorDescriptor("float32", (9, 3, 6)), CTCLossDescriptor()
    table = ctc.table(x, [1, 2, 2, 4, 5, 3], [2, 1, 3], [9, 5, 8], 3)
    for where in (handle, gpu):
        plan = where.ctc_loss(x, x, ctc, 3)
        data = [where.upload(rng.standard_normal(x.lens, np.float32)), np.full(3, 7, np.float32), where.empty(x)]
        data[1] = where.upload(data[1])
        for wrong in (1 << 30, -5, 2, rng.integers(-60, 60, table.shape).astype(np.int32)):
            nonsense = np.full_like(table, wrong)
            nonsense[:, 2] = table[:, 2]  # the mark, without which nothing else is read
            plan(data[0], where.upload(nonsense), *data[1:])
        where.finish()
        if where.device.is_host:
            for dtype in (np.int64, np.float32):
                with pytest.raises(BadParmError, match="table"):
                    plan(data[0], table.astype(dtype), *data[1:])


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_tables_of_another_problem_give_nan(handle, gpu, rng, on_gpu, softmax):
    """Other classes, steps, samples, labels or blanks, in memory of as many bytes."""
    where = gpu if on_gpu else handle
    x, ctc = TensorDescriptor("float32", (9, 2, 6)), CTCLossDescriptor(apply_softmax_layer=softmax)
    plan = where.ctc_loss(x, x, ctc, 20)
    data = where.upload(np.log(rng.dirichlet(np.ones(6), (9, 2))).astype(np.float32))

    def run(table):
        losses, dx = where.upload(np.full(2, 7, np.float32)), where.upload(np.full(x.lens, 7, np.float32))
        plan(data, where.upload(table.view(np.uint8).reshape(-1)), losses, dx)
        where.finish()
        return where.download(losses, np.empty(2, np.float32)), where.download(dx, np.empty(x.lens, np.float32))

    def table(lens=(9, 2, 6), blank=0, most=20):
        one = CTCLossDescriptor(blank_label_id=blank)
        counts = [2, 1, *[0] * (lens[1] - 2)]
        return one.table(TensorDescriptor("float32", lens), [1, 2, 4], counts, [9] * lens[1], most)
    right = table()
    assert all(np.isfinite(values).all() for values in run(right))
    for wrong in (table((9, 2, 7)), table((10, 2, 6)), table(blank=5), table((9, 3, 6))[:2], table(most=40)):
        assert wrong.size >= right.size
        for values in run(wrong):
            assert np.isnan(values).all()


def test_refused_plans(host):
    probs, ctc = TensorDescriptor("float32", (5, 2, 4)), CTCLossDescriptor()
    plan = host.ctc_loss(probs, probs, ctc, 3)
    for call, parameter in (
            (lambda: host.ctc_loss(probs, probs, ctc, -1), "most_labels"),
            (lambda: host.ctc_loss(probs, probs, ctc, 1 << 40), "most_labels"),
            (lambda: host.ctc_loss(probs, probs, None, 3), "ctc_desc"),
            (lambda: host.ctc_loss(probs, TensorDescriptor("float32", (5, 2, 5)), ctc, 3), "gradientsDesc"),
            (lambda: ctc.table(probs, [1] * 5, [4, 1], [5, 5], 3), "labelLengths"),
            (lambda: ctc.table(probs, [4, 1], [1, 1], [5, 5], 3), "labels[0]"),
            (lambda: ctc.table(probs, [1, 1], [1, 1], [6, 5], 3), "inputLengths")):
        with pytest.raises(BadParmError) as raised:
            call()
        assert raised.value.parameter == parameter
    miopyx.miopenSetCTCLossDescriptor(ctc, "float32", 1, True)
    data = np.zeros((5, 2, 4), np.float32)
    with pytest.raises(BadParmError, match="ctc_desc"):
        plan(data, ctc.table(probs, [2], [1, 0], [5, 5], 3), np.zeros(2, np.float32), np.empty_like(data))


def random_batch(handle, dtype, rng, **how):
    steps, samples, classes = (int(v) for v in rng.integers((1, 1, 2), (40, 6, 70)))
    inputs = [int(v) for v in rng.integers(0, steps + 1, samples)]
    counts = [int(rng.integers(0, (t + 1) // 2 + 1)) for t in inputs]
    chosen = {"blank": int(rng.integers(-1, classes + 1)), "softmax": bool(rng.integers(3)),
              "layouts": tuple(LAYOUTS[i] for i in rng.integers(0, 3, 2)), **how}
    return Batch(handle, dtype, steps, classes, counts, inputs, rng, **chosen)


def usable(handle, dtype):
    if dtype == "float64" and not handle.device.fp64:
        pytest.skip("no double precision")


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    usable(handle, dtype)
    for _ in range(amount(3, 12)):
        random_batch(handle, dtype, rng).check()


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    usable(gpu, dtype)
    for _ in range(amount(2, 8)):
        random_batch(gpu, dtype, rng).check()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("how", ["no labels", "repeated", "no path", "one step", "full", "long", "many labels"])
def test_lengths(handle, gpu, how, on_gpu, rng):
    handle = gpu if on_gpu else handle
    if how == "no labels":
        Batch(handle, "float32", 7, 5, [0, 0, 2], [7, 0, 7], rng).check()
    elif how == "repeated":
        Batch(handle, "float32", 9, 5, [3, 4, 3], [9, 9, 5], rng, labels=[2, 2, 2, 1, 1, 3, 3, 2, 2, 2]).check()
    elif how == "no path":
        Batch(handle, "float32", 6, 4, [3, 7, 2], [6, 6, 1], rng, labels=[1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 3, 3]).check()
    elif how == "one step":
        Batch(handle, "float32", 1, 4, [1, 0], [1, 1], rng).check()
    elif how == "full":  # the only path
        Batch(handle, "float32", 5, 6, [3], [5], rng, labels=[4, 4, 4]).check()
    elif how == "long":
        Batch(handle, "float32", 300, 30, [60, 3], [300, 281], rng).check()
    else:  # more states than work-items of a group
        Batch(handle, "float32", 420, 8, [330, 5], [420, 33], rng, labels=[1 + i % 7 for i in range(335)]).check()


@pytest.mark.parametrize("spread", [0.01, 30.0, 300.0])
def test_far_apart(handle, gpu, spread, rng):
    """Paths of tiny probability beside others; a state that counts in the end may be e^-1000 of the largest before."""
    for where in (handle, gpu):
        Batch(where, "float32", 40, 12, [8, 3], [40, 37], rng, spread=spread).check()


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    batch = Batch(handle, "float32", 30, 11, [7, 0, 12], [30, 9, 28], rng)
    x = torch.tensor(batch.x.view().copy(), requires_grad=True)
    loss = torch.nn.functional.ctc_loss(x.log_softmax(2), torch.tensor(batch.labels), torch.tensor(batch.input_lengths),
                                        torch.tensor(batch.label_lengths), reduction="none")
    loss.sum().backward()
    losses, dx = batch.run()
    np.testing.assert_allclose(losses, loss.detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx, x.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_torch_without_a_path(handle, rng):
    torch = pytest.importorskip("torch")
    batch = Batch(handle, "float32", 4, 5, [4], [4], rng, labels=[1, 1, 2, 2])
    loss = torch.nn.functional.ctc_loss(torch.tensor(batch.x.view().copy()).log_softmax(2), torch.tensor(batch.labels),
                                        torch.tensor([4]), torch.tensor([4]), reduction="none")
    assert loss.item() == batch.run()[0][0] == np.inf


def test_a_class_that_cannot_be(handle, gpu, rng):
    for where in (handle, gpu):
        batch = Batch(where, "float32", 12, 5, [3, 2], [12, 12], rng, labels=[1, 2, 3, 1, 4])
        batch.x.view()[:, :, 3] = -np.inf
        losses, dx = batch.run()
        assert losses[0] == np.inf
        assert np.isfinite(losses[1])
        assert np.isfinite(dx[:, 1]).all()
        assert (dx[:, 1, 3] == 0).all()


def test_runs_are_alike(handle, gpu, rng):
    for where in (handle, gpu):
        batch = Batch(where, "float32", 50, 20, [20, 9, 12, 3], [50, 44, 50, 50], rng)
        first = batch.run()
        for _ in range(2):
            for one, other in zip(batch.run(), first, strict=True):
                np.testing.assert_array_equal(one, other)


def test_labels_as_arrays(handle, rng):
    batch = Batch(handle, "float32", 9, 5, [3, 4], [9, 8], rng)
    first = batch.run()
    for kind in (np.int32, np.int64, np.uint8):
        for one, other in zip(batch.run(np.array(batch.labels, kind)), first, strict=True):
            np.testing.assert_array_equal(one, other)


def test_descriptor():
    desc = miopyx.miopenCreateCTCLossDescriptor()
    assert miopyx.miopenGetCTCLossDescriptor(desc) == (miopyx.miopenFloat, 0, True)
    miopyx.miopenSetCTCLossDescriptor(desc, miopyx.miopenHalf, 7, False)
    assert miopyx.miopenGetCTCLossDescriptor(desc) == (miopyx.miopenHalf, 7, False)
    for bad in ((99, 0, True), (1, None, True), (1, 0, 2)):
        with pytest.raises(BadParmError):
            miopyx.miopenSetCTCLossDescriptor(desc, *bad)
    assert miopyx.miopenGetCTCLossDescriptor(desc) == (miopyx.miopenHalf, 7, False)
    assert "blank_label_id=7" in repr(desc)
    miopyx.miopenDestroyCTCLossDescriptor(desc)
    miopyx.miopenDestroyCTCLossDescriptor(desc)
    miopyx.miopenDestroyCTCLossDescriptor(None)
    with pytest.raises(BadParmError):
        miopyx.miopenGetCTCLossDescriptor(desc)


@pytest.mark.parametrize(("change", "parameter"), [
    ({"labels": [1, 2, 3, 4, 5, 9]}, "labels[5]"), ({"labels": [1, 2, -1, 4, 1, 1]}, "labels[2]"),
    ({"labels": [1, 0, 1, 1, 1, 1]}, "labels[1]"), ({"labels": [1, 2]}, "labels"), ({"labels": [1.5] * 6}, "labels"),
    ({"labels": "123456"}, "labels"), ({"counts": [3, -3]}, "labelLengths"), ({"counts": [3]}, "labelLengths"),
    ({"steps": [7, 9]}, "inputLengths"), ({"steps": [7, -1]}, "inputLengths"), ({"algo": 1}, "algo"),
    ({"probs": (8, 2)}, "probsDesc"), ({"gradients": (8, 2, 7)}, "gradientsDesc"), ({"ctc": None}, "ctcLossDesc"),
    ({"gradient_type": "float16"}, "gradientsDesc"),
])
def test_refusals(host, change, parameter):
    probs = TensorDescriptor("float32", change.get("probs", (8, 2, 6)))
    gradients = TensorDescriptor(change.get("gradient_type", "float32"), change.get("gradients", probs.lens))
    given = (probs, gradients, change.get("labels", [1, 2, 3, 4, 5, 1]), change.get("counts", [3, 3]),
             change.get("steps", [8, 8]), change.get("algo", 0), change.get("ctc", CTCLossDescriptor()))
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenGetCTCLossWorkspaceSize(host, *given)
    assert raised.value.parameter == parameter
    assert raised.value.limit


def test_other_refusals(handle, rng):
    integers = TensorDescriptor("int32", (8, 2, 6))
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenGetCTCLossWorkspaceSize(handle, integers, integers, [], [0, 0], [8, 8], 0, CTCLossDescriptor())
    batch = Batch(handle, "float32", 8, 6, [3, 3], [8, 8], rng)
    x, dx, losses = (t.argument() for t in (batch.x, batch.dx, batch.losses))
    size = miopyx.miopenGetCTCLossWorkspaceSize(handle, batch.x.desc, batch.dx.desc, batch.labels, [3, 3], [8, 8], 0,
                                                batch.ctc)
    short = losses[:1] if isinstance(losses, np.ndarray) else None
    if size:
        with pytest.raises(UnknownError):
            miopyx.miopenCTCLoss(handle, batch.x.desc, x, batch.labels, [3, 3], [8, 8], losses, batch.dx.desc, dx, 0,
                                 batch.ctc, None, size - 1)
    space = handle.upload(np.zeros(size, np.uint8)) if size else None
    with pytest.raises(BadParmError):
        miopyx.miopenCTCLoss(handle, batch.x.desc, x, batch.labels, [3, 3], [8, 8], short, batch.dx.desc, dx, 0,
                             batch.ctc, space, size)
    with pytest.raises(BadParmError):  # in place: losses of labels are read of all classes
        miopyx.miopenCTCLoss(handle, batch.x.desc, x, batch.labels, [3, 3], [8, 8], losses, batch.x.desc, x, 0,
                             batch.ctc, space, size)
    assert (batch.losses.fetch() == 0xFF).all()
