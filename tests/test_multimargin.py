"""Multi-margin loss: values, powers, reductions, strides, targets that are no classes, and refusals.

Losses are compared with the formula in float64.  Kernels compute in float32 (float64 for float64 tensors), with
roundoff v, and round once more, by u: a row of C classes is right to u of its loss and (min(C, 1024) / 16 + 32) v of
its terms, where a term of max(0, t)^p has the magnitude (|margin| + |x t| + |x c|)^p; a sum of rows likewise.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import DTYPE, ROUNDOFF, Guarded, Tensor

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

DTYPE.setdefault("int64", np.dtype("i8"))
TYPES = ("float32", "float16", "bfloat16", "float64")
NONE, SUM, MEAN = range(3)


class Margin:
    def __init__(self, handle, dtype, rows, classes, rng, p=1, reduction=NONE, margin=1.0, strides=None):
        if dtype == "float64" and not handle.device.fp64:
            pytest.skip("no double precision")
        self.handle, self.dtype, self.p, self.reduction, self.margin = handle, dtype, p, reduction, margin
        step = 1 if strides is None else 2

        def tensor(kind, lens, values=None, strides=None):
            strides = strides or ((step,) if len(lens) == 1 else None)
            return Tensor(handle, TensorDescriptor(kind, lens, strides), values)
        self.x = tensor(dtype, (rows, classes), rng.standard_normal((rows, classes)), strides)
        self.target = tensor("int64", (rows,), rng.integers(0, classes, rows))
        self.weight = tensor(dtype, (classes,), rng.standard_normal(classes))
        self.y = tensor(dtype, (rows,) if reduction == NONE else (1,))

    def run(self):
        given = [v for t in (self.x, self.target, self.weight, self.y) for v in (t.desc, t.argument())]
        size = miopyx.miopenGetMultiMarginLossForwardWorkspaceSize(self.handle, *given[::2], self.p, self.margin,
                                                                   self.reduction)
        space = Guarded(self.handle, size, 0xFF) if size else None
        miopyx.miopenMultiMarginLossForward(self.handle, *given, self.p, self.margin, self.reduction,
                                            space.argument() if size else None, size)
        self.handle.finish()
        if size:
            space.fetch()
        return self.y.values()

    def check(self):
        got = self.run()
        x, w = self.x.view().astype(np.float64), self.weight.view().astype(np.float64)
        t = np.asarray(self.target.view(), np.int64)
        rows, classes = x.shape
        there = (t >= 0) & (t < classes)
        own = np.where(there, x[np.arange(rows), np.clip(t, 0, classes - 1)], np.nan)[:, None]
        terms = np.maximum(0, self.margin - own + x) ** self.p
        sizes = (abs(self.margin) + np.abs(own) + np.abs(x)) ** self.p
        others = np.arange(classes) != t[:, None]
        scale = w[np.clip(t, 0, classes - 1)] / classes
        loss, size = (terms * others).sum(1) * scale, (sizes * others).sum(1) * np.abs(scale)
        loss = np.where(there, loss, np.nan)
        u, v = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        depth = min(classes, 1024) / 16 + 32
        if self.reduction != NONE:
            n = rows if self.reduction == MEAN else 1
            loss, size = np.atleast_1d(loss.sum() / n), np.atleast_1d(size.sum() / n)
            depth += min(rows, 1024) / 16
        bound = u * np.abs(loss) + depth * v * size + 2.0**-24
        wrong = ~((np.abs(got - loss) <= bound) | np.isnan(got) & np.isnan(loss))
        assert not wrong.any(), (self.dtype, x.shape, self.p, self.reduction, got[wrong][:3], loss[wrong][:3])


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, gpu, dtype, rng, amount):
    for where in (handle, gpu):
        for _ in range(amount(3, 10)):
            rows, classes = int(rng.integers(1, 300)), int(rng.integers(1, (20, 3000)[rng.integers(2)]))
            strides = None if rng.integers(2) else (2 * classes + 1, 2)
            Margin(where, dtype, rows, classes, rng, 1 + int(rng.integers(2)), int(rng.integers(3)),
                   float(rng.choice([1.0, 0.5, -0.25])), strides).check()


def test_targets_that_are_no_classes(handle, gpu, rng):
    for where in (handle, gpu):
        loss = Margin(where, "float32", 9, 33, rng)
        loss.target.view()[[2, 5]] = -1, 33
        loss.check()


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    for p in (1, 2):
        loss = Margin(handle, "float32", 12, 40, rng, p, MEAN, 0.7)
        x, weight = (torch.tensor(a.view().astype(np.float64)) for a in (loss.x, loss.weight))
        want, size = (torch.nn.functional.multi_margin_loss(x, torch.tensor(np.array(loss.target.view())), p, 0.7, w)
                      for w in (weight, weight.abs()))  # weights have both signs: what is added up may cancel
        assert abs(loss.run()[0] - want.item()) <= 1e-5 * size.item()


X, T, W, Y, ONE = (TensorDescriptor(kind, lens) for kind, lens in (
    ("float32", (4, 6)), ("int64", (4,)), ("float32", (6,)), ("float32", (4,)), ("float32", (1,))))


@pytest.mark.parametrize(("change", "parameter"), [
    ({0: TensorDescriptor("float32", (4, 6, 1))}, "inputDesc"), ({1: TensorDescriptor("int32", (4,))}, "targetDesc"),
    ({1: TensorDescriptor("int64", (6,))}, "targetDesc"), ({2: Y}, "weightDesc"), ({3: ONE}, "outputDesc"),
    ({6: SUM}, "outputDesc"), ({4: 3}, "p"), ({4: 0}, "p"), ({5: "wide"}, "margin"), ({6: 3}, "reduction"),
    ({2: TensorDescriptor("float16", (6,))}, "weightDesc"), ({0: None}, "inputDesc"),
])
def test_refusals(host, change, parameter):
    given = [X, T, W, Y, 1, 1.0, NONE]
    for place, value in change.items():
        given[place] = value
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenGetMultiMarginLossForwardWorkspaceSize(host, *given)
    assert raised.value.parameter == parameter
    assert raised.value.limit
    kind = [TensorDescriptor("int32", d.lens) if d.dtype == "float32" else d for d in (X, T, W, Y)]
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenGetMultiMarginLossForwardWorkspaceSize(host, *kind, 1, 1.0, NONE)
