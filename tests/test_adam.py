"""Adam and AdamW: values of every variant, numbers in memory, outputs of their own, types, strides, and refusals.

Each element is compared with the formula in float64.  Kernels compute in float32 (float64 for float64 tensors), with
roundoff v, and round once more, by u, to store: running averages are right to u of themselves and 8 v of their terms'
magnitudes.  Parameters: u of themselves, 8 v of their size, and 32 v of what is subtracted, beside what the step and
the root make of the averages' errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from guarded import ROUNDOFF, Tensor, strides_of

import miopyx
from miopyx import TensorDescriptor
from miopyx.errors import BadParmError, MIOpenNotImplementedError

TYPES = ("float32", "float16", "bfloat16", "float64")
LAYOUTS = ("packed", "padded", "packed with gaps")
NAMES = ("param", "grad", "exp_avg", "exp_avg_sq", "most")


class Step:
    """A step of Adam with its memory; what is not named has a default."""

    def __init__(self, handle, dtype, lens, rng, transformers=False, gradient=None, amsgrad=False, maximize=False,
                 adamw=False, correct=True, own=False, copy=None, scale=None, found=None, counter=None, step=3, lr=0.01,
                 beta1=0.9, beta2=0.999, decay=0.1, eps=1e-8, size=-1.0, layouts=LAYOUTS, numbers="int32"):
        if "float64" in (dtype, gradient) and not handle.device.fp64:
            pytest.skip("no double precision")
        self.__dict__.update(handle=handle, dtype=dtype, transformers=transformers, amsgrad=amsgrad, maximize=maximize,
                             adamw=adamw, correct=correct, own=own, scale=scale, found=found, counter=counter,
                             step=step, lr=lr, beta1=beta1, beta2=beta2, decay=decay, eps=eps, size=size)

        def tensor(kind, values=None, where=lens):
            layout = layouts[rng.integers(len(layouts))] if len(where) > 2 else "packed"
            return Tensor(handle, TensorDescriptor(kind, where, strides_of(where, layout)), values)
        normal = rng.standard_normal
        self.given = {
            "param": tensor(dtype, normal(lens)), "grad": tensor(gradient or dtype, normal(lens) * (scale or 1)),
            "exp_avg": tensor(dtype, 0.1 * normal(lens)), "exp_avg_sq": tensor(dtype, 0.01 * rng.random(lens)),
        }
        if amsgrad:
            self.given["most"] = tensor(dtype, 0.01 * rng.random(lens))
        self.before = {name: t.view().astype(np.float64) for name, t in self.given.items()}
        self.out = {name: tensor(dtype) if own else t for name, t in self.given.items() if name != "grad"}
        self.copied = tensor(copy, None) if copy else None
        self.numbers = {name: tensor(numbers, value, (1,)) for name, value in
                        (("scale", scale), ("found", found), ("counter", counter)) if value is not None}
        self.next = tensor(numbers, None, (1,)) if own and counter is not None else self.numbers.get("counter")

    def pair(self, tensor):
        if tensor is None:
            return None, None
        if id(tensor) not in self.memory:
            self.memory[id(tensor)] = tensor.argument()
        return tensor.desc, self.memory[id(tensor)]

    def run(self):
        self.memory = {}
        g, o, pair, n = self.given, self.out, self.pair, self.numbers
        numbers = (self.step, self.lr, self.beta1, self.beta2, self.decay, self.eps)
        ends = *pair(n.get("scale")), *pair(n.get("found"))
        flags = (self.amsgrad, self.maximize, self.adamw)
        counters = pair(n.get("counter"))
        if not self.own:
            first = sum((pair(g[name]) for name in NAMES[:4]), ())
            if self.transformers:
                miopyx.miopenTransformersAdamW(self.handle, *first, *counters, *numbers, self.correct, *ends)
            else:
                miopyx.miopenFusedAdam(self.handle, *first, *pair(g.get("most")), *counters, *numbers, *flags, *ends)
        else:
            first = (*pair(g["param"]), *pair(o["param"]), *pair(self.copied), *pair(g["grad"]), *pair(g["exp_avg"]),
                     *pair(o["exp_avg"]), *pair(g["exp_avg_sq"]), *pair(o["exp_avg_sq"]))
            counters = *counters, *pair(self.next)
            if self.transformers:
                miopyx.miopenTransformersAdamWWithOutput(self.handle, *first, *counters, *numbers, self.size,
                                                         self.correct, *ends)
            else:
                miopyx.miopenFusedAdamWithOutput(self.handle, *first, *pair(g.get("most")), *pair(o.get("most")),
                                                 *counters, *numbers, *flags, *ends)
        self.handle.finish()

    def check(self):
        self.run()
        b = self.before
        p, g, m, v = (b[name] for name in NAMES[:4])
        if self.found:
            for name, tensor in self.out.items():
                np.testing.assert_array_equal(tensor.values(), b[name])
            if self.copied is not None:
                np.testing.assert_array_equal(self.copied.values(), p.astype(self.copied.dtype).astype(np.float64))
            if self.counter is not None:
                assert self.next.values()[0] == self.counter
            return
        if self.counter is not None:
            assert self.next.values()[0] == self.counter + 1
        t = self.step if self.counter is None else self.counter + 1
        u, r = ROUNDOFF[self.dtype], ROUNDOFF["float64" if self.dtype == "float64" else "float32"]
        g = g / (self.scale or 1) * (-1 if self.maximize else 1)
        size = np.abs(p)
        first, second = 1 - self.beta1 ** t, 1 - self.beta2 ** t
        if not self.transformers:
            if self.adamw:
                p = p - self.lr * self.decay * p
            else:
                g = g + p * self.decay
        m, old = self.beta1 * m + (1 - self.beta1) * g, v
        v = self.beta2 * v + (1 - self.beta2) * g * g
        terms = np.abs(b["exp_avg"]) + np.abs(g) * 2
        # What decays is added to a gradient and may cancel it.
        extra = 2 * (np.abs(b["grad"] / (self.scale or 1)) + self.decay * size)
        self.near("exp_avg", m, u * np.abs(m) + 8 * r * (terms + extra))
        self.near("exp_avg_sq", v, u * v + 16 * r * (old + g * g + extra * extra))
        most = v
        if self.amsgrad:
            most = np.maximum(b["most"], v)
            self.near("most", most, u * most + 16 * r * (most + extra * extra))
        if self.transformers:
            step = self.size if self.size >= 0 else self.lr * np.sqrt(second) / first if self.correct else self.lr
            moved = step * m / (np.sqrt(most) + self.eps)
            p = (p - moved) * (1 - self.lr * self.decay)
        else:
            step = self.lr / first
            moved = step * m / (np.sqrt(most / second) + self.eps)
            p = p - moved
        root = np.sqrt(most / (1 if self.transformers else second)) + self.eps
        error = 8 * r * (terms + extra) * step / root
        error = error + np.abs(moved) * 64 * r * (1 + (extra * extra) / (most + 1e-30) * 0.01)
        self.near("param", p, u * np.abs(p) + 8 * r * (size + np.abs(moved)) + error)
        if self.copied is not None:
            u16 = ROUNDOFF[self.copied.desc.dtype]
            got = self.copied.values()
            assert (np.abs(got - p) <= (u16 + u) * np.abs(p) + 8 * r * (size + np.abs(moved)) + error + 2.0**-24).all()

    def near(self, name, want, bound):
        got = self.out[name].values()
        wrong = ~(np.abs(got - want) <= bound + 2.0**-24)
        assert not wrong.any(), (name, self.dtype, wrong.sum(), wrong.size, got[wrong][:3], want[wrong][:3])


def any_step(handle, dtype, rng, **how):
    rank = int(rng.integers(1, 6))
    lens = tuple(int(v) for v in rng.integers(1, (3000, 60, 14, 8, 5)[rank - 1], rank))

    def maybe(value):
        return value if rng.integers(2) else None
    chosen = {
        "transformers": bool(rng.integers(2)), "maximize": bool(rng.integers(2)), "adamw": bool(rng.integers(2)),
        "amsgrad": bool(rng.integers(2)), "correct": bool(rng.integers(2)), "own": bool(rng.integers(2)),
        "scale": maybe(128), "found": maybe(0), "counter": maybe(int(rng.integers(0, 300))),
        "step": int(rng.integers(1, 300)), "decay": float(rng.choice([0.0, 0.1])),
        "copy": maybe("float16"), "numbers": str(rng.choice(["int32", "float32"])), **how}
    if chosen["transformers"]:
        chosen.update(maximize=False, adamw=False, amsgrad=False)
        if chosen["own"] and chosen["counter"] is None:
            chosen["size"] = float(rng.choice([-1.0, 0.02]))
    if not chosen["own"]:
        chosen["copy"] = None
    if chosen["scale"] is not None or chosen["found"] is not None:
        chosen["gradient"] = str(rng.choice(["float16", "float32"])) if dtype != "float64" else None
    return Step(handle, dtype, lens, rng, **chosen)


@pytest.mark.parametrize("dtype", TYPES)
def test_values(handle, dtype, rng, amount):
    for _ in range(amount(3, 12)):
        any_step(handle, dtype, rng).check()


@pytest.mark.parametrize("dtype", TYPES)
def test_gpu_kernels(gpu, dtype, rng, amount):
    for _ in range(amount(2, 8)):
        any_step(gpu, dtype, rng).check()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("transformers", [False, True])
def test_found_infinity(handle, gpu, own, transformers, rng):
    for where in (handle, gpu):
        any_step(where, "float32", rng, own=own, transformers=transformers, found=1, counter=7).check()


def test_first_steps_are_exact(handle, gpu, rng):
    """1 - beta2^t of a beta close to 1 must not be the difference of rounded numbers."""
    for where in (handle, gpu):
        for counter in (0, 1):
            Step(where, "float32", (4, 50), rng, beta2=0.9999, counter=counter, decay=0.0).check()


def test_same_memory_for_in_and_out(handle, rng):
    """The other functions' work in place."""
    step = Step(handle, "float32", (6, 40), rng, own=True, amsgrad=True, counter=4)
    step.out, step.next = {name: t for name, t in step.given.items() if name != "grad"}, step.numbers["counter"]
    step.check()


def test_torch(handle, rng):
    torch = pytest.importorskip("torch")
    for adamw in (False, True):
        step = Step(handle, "float32", (5, 30), rng, amsgrad=True, adamw=adamw, step=1, layouts=("packed",))
        for name in ("exp_avg", "exp_avg_sq", "most"):
            step.given[name].view()[...] = 0
        leaf = torch.tensor(step.given["param"].view().copy(), requires_grad=True)
        leaf.grad = torch.tensor(step.given["grad"].view().copy())
        kind = torch.optim.AdamW if adamw else torch.optim.Adam
        kind([leaf], lr=step.lr, betas=(step.beta1, step.beta2), eps=step.eps, weight_decay=step.decay,
             amsgrad=True).step()
        step.run()
        np.testing.assert_allclose(step.out["param"].values(), leaf.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_nothing(handle):
    empty, one = TensorDescriptor("float32", (0,)), TensorDescriptor("int32", (1,))
    memory = handle.upload(np.full(1, 5, "i4"))
    miopyx.miopenFusedAdam(handle, *(empty, None) * 4, None, None, one, memory, 0, 0.1, 0.9, 0.99, 0, 1e-8, False,
                           False, False, None, None, None, None)
    out = np.empty(1, "i4")
    handle.download(memory, out)
    assert out[0] == 6


X, SMALL, HALF, ONE = (TensorDescriptor(*given) for given in (
    ("float32", (4, 6)), ("float32", (6, 4)), ("float16", (4, 6)), ("int32", (1,))))


@pytest.mark.parametrize(("change", "parameter"), [
    ({0: None}, "paramDesc"), ({2: SMALL}, "gradDesc"), ({2: HALF}, "gradDesc"), ({4: HALF}, "expAvgDesc"),
    ({6: SMALL}, "expAvgSqDesc"), ({18: True}, "maxExpAvgSqDesc"), ({10: X, 11: 0}, "stateStepDesc"),
    ({12: 0}, "state_step"), ({12: -1}, "state_step"), ({12: 2**32}, "state_step"), ({14: 1.0}, "beta1"),
    ({15: -0.1}, "beta2"), ({15: float("nan")}, "beta2"), ({13: "fast"}, "lr"), ({18: 2}, "amsgrad"),
    ({21: X, 22: 0}, "gradScaleDesc"), ({23: X, 24: 0}, "foundInfDesc"), ({1: None}, "param"), ({3: None}, "grad"),
])
def test_refusals(host, change, parameter):
    given = [X, np.ones((4, 6), "f4"), X, np.ones((4, 6), "f4"), X, np.ones((4, 6), "f4"), X, np.ones((4, 6), "f4"),
             None, None, None, None, 1, 0.1, 0.9, 0.99, 0.0, 1e-8, False, False, False, None, None, None, None]
    for place, value in change.items():
        given[place] = value
    with pytest.raises(BadParmError) as raised:
        miopyx.miopenFusedAdam(host, *given)
    assert raised.value.parameter == parameter
    assert raised.value.limit
    if 1 not in change:
        assert (given[1] == 1).all()


def test_other_refusals(host):
    x = TensorDescriptor("int32", (4,))
    with pytest.raises(MIOpenNotImplementedError):
        miopyx.miopenTransformersAdamW(host, *(x, np.ones(4, "i4")) * 4, None, None, 1, 0.1, 0.9, 0.99, 0.0, 1e-8, True,
                                       None, None, None, None)
    memory = [np.ones((4, 6), "f4") for _ in range(5)]
    with pytest.raises(BadParmError) as raised:  # an output that shares memory with another input
        miopyx.miopenTransformersAdamWWithOutput(
            host, X, memory[0], X, memory[1], None, None, X, memory[1], X, memory[2], X, memory[2], X, memory[3], X,
            memory[3], None, None, None, None, 1, 0.1, 0.9, 0.99, 0.0, 1e-8, -1.0, True, None, None, None, None)
    assert "shares memory" in str(raised.value)
