"""`cat`, `ctc`, `glu`, `prelu`, `kthvalue`, `getitem`, `softmarginloss`, `multimarginloss`, `rope`, `adam` and
`transformersadamw`: operations whose tensors' lengths are flags."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

import miopyx

from . import data
from .data import Array
from .layer import SWITCH, Layer, Pass, elementwise_limit, file_flags, limit, operations, run_flags
from .options import Command, Family, Flag, UsageError
from .problem import Sizes
from .verify import Doubles

_FORWARD = Flag("forw", "F", 1, "1 forward, 0 forward and backward", (0, 1))
_api: Any = miopyx  # arguments come as lists, which type checkers do not count
_ONLY = Flag("forw", "F", 1, "means nothing: there is one direction", (0, 1))
_REDUCE = Flag("reduce", "R", "none", "none, mean or sum", ("none", "mean", "sum"))
_REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}


def _family(name: str, title: str, *flags: Flag, runs: int = 10, **more: str) -> Family:
    return Family(name, title, {**operations(name), **more}, (*flags, *run_flags(runs)))


CAT = _family("cat", "a concatenation", _ONLY, *(
    Flag(f"input{i}", str(i), "2x32x128x128x128" if i < 3 else "", f"lengths of input {i}") for i in range(1, 9)),
    Flag("dim", "d", 0, "axis", range(5)))
CTC_FAMILY = _family(
    "ctc", "a CTC loss", _ONLY, Flag("apply_softmax_layer", "m", 1, "softmax of the inputs", SWITCH),
    Flag("blank_label_id", "b", 0, "the blank label"),
    Flag("input_len", "k", "20", "steps of each sample, as in 20,18; the last number counts for the others"),
    Flag("label_len", "l", "5", "labels likewise"), Flag("num_class", "c", 9, "classes without blank", range(1, 2**31)),
    Flag("batchsize", "n", 4, "samples", range(1, 2**31)), Flag("ctcalgo", "a", 0, "algorithm", (0,)),
    Flag("verify_path", "v", 1, "means nothing: there is one reference", SWITCH), *file_flags(("dump_output", "o")),
    runs=1)
GLU_FAMILY = _family("glu", "a gated linear unit", _FORWARD,
              Flag("dim_lengths", "D", "256x512", "lengths of the input"),
              Flag("dim_to_split", "R", 0, "axis that is split", range(5)))
PRELU = _family("prelu", "the gradients of a PReLU", _ONLY,
                Flag("input", "D", "256x4x1x1x8723", "lengths of the input"),
                Flag("NumParameters", "P", 1, "weights: 1, or the channels of the input", range(1, 2**31)))
KTH = _family("kthvalue", "a k-th value", _ONLY, Flag("dim-lengths", "D", "256x4x2", "lengths of the input"),
              Flag("k", "k", 1, "which one, from 1 on", range(1, 2**31)), Flag("dim", "d", -1, "axis", range(-5, 5)),
              Flag("keep-dim", "K", 0, "the output has the axis, too", SWITCH),
              Flag("is-contiguous", "c", 1, "0: with gaps between elements", SWITCH))
GETITEM = _family(
    "getitem", "the gradient of indexing", Flag("forw", "F", 0, "means nothing: there is one direction", (0, 1)),
    Flag("doutput", "O", "128x128", "lengths of dy"),
    Flag("indexs", "D", "128", "lengths of the indices, as in 128,128"),
    Flag("dinput", "N", "128x128", "lengths of dx"), Flag("indexcount", "1", 1, "tensors of indices", range(6)),
    Flag("dimcount", "2", 1, "axes that are indexed", range(6)), Flag("dims", "3", "0", "which, as in 0,1"),
    Flag("slicecount", "4", 0, "slices", range(17)),
    Flag("slices", "5", "", "axis,start,end,step of each, as in 0,0,8,2"),
    Flag("offset", "6", 0, "places that the first axis begins later", range(2**31)))
SOFT = _family("softmarginloss", "a soft margin loss", Flag("forw", "F", 1, "0 both, 1 forward, 2 backward", (0, 1, 2)),
               Flag("dim", "D", "4x25x4x25", "lengths of the input"),
               Flag("contiguous", "C", 1, "0: with gaps", SWITCH),
               Flag("stride", "S", "-1", "strides of the input, as in 2500x100x25x1; -1: as -C says"), _REDUCE)
MULTI = _family("multimarginloss", "a multi-margin loss", _ONLY, Flag("dim", "D", "41x4", "rows and classes"),
                Flag("contiguous", "C", 1, "0: with gaps", SWITCH), _REDUCE,
                Flag("power", "", 1, "p", (1, 2)), Flag("margin", "", 1.0, "margin"))
ROPE = _family("rope", "rotary embeddings", _FORWARD, Flag("input", "X", "100x3x32x32", "lengths of the input"))
_ADAM = (
    _ONLY, Flag("dims", "d", "64x32x128", "lengths of the parameters"), Flag("lr", "l", 0.001, "learning rate"),
    Flag("beta1", "1", 0.9, "of the first average"), Flag("beta2", "2", 0.999, "of the second average"),
    Flag("eps", "e", 0.00000001, "what is added to the root"),
    Flag("weight_decay", "W", 0.0, "decay of the parameters"),
)
_AMP = (Flag("scale", "s", 65536, "amp...: what gradients are divided by", range(1, 2**31)),
        Flag("found_inf", "f", 0, "amp...: an infinity was found", SWITCH))
ADAM = _family("adam", "a step of Adam", *_ADAM, Flag("amsgrad", "a", 0, "AMSGrad", SWITCH),
               Flag("maximize", "m", 0, "maximise", SWITCH), *_AMP, ampadam="float32", adamw="float32",
               adamwfp16="float16", adamwbfp16="bfloat16", adamwfp64="float64", ampadamw="float32")
TRANSFORMERS = _family("transformersadamw", "a step of Transformers' AdamW", *_ADAM,
                       Flag("correct_bias", "c", 1, "biases are corrected", SWITCH), *_AMP,
                       transformersampadamw="float32")


def _numbers(text: str, flag: str, separator: str = ",") -> Sizes:
    try:
        return tuple(int(word) for word in text.split(separator)) if text else ()
    except ValueError:
        raise UsageError(f"--{flag} {text}: no whole numbers between {separator!r}") from None


def _gaps(lens: Sizes) -> Sizes:
    """Strides of a tensor with a gap behind each element."""
    return tuple(2 * prod(lens[i + 1:]) for i in range(len(lens)))


class Elements(Layer):
    """What these operations have in common: tensors by name, and passes that call functions of miopen.h."""

    low, high = -1.0, 1.0

    def __init__(self, command: Command) -> None:
        super().__init__(command)
        self.desc: dict[str, Any] = {}
        self.spaces: dict[Any, Any] = {}
        self.make()

    def make(self) -> None:
        """Describe the tensors."""
        raise NotImplementedError

    def describe(self, lens: Sizes, *names: str, dtype: str = "", gaps: bool = False) -> None:
        desc = miopyx.TensorDescriptor(dtype or self.dtype, lens, _gaps(lens) if gaps else None)
        for name in names:
            self.desc[name] = self.tensor(name, desc)

    def lengths(self, flag: str) -> Sizes:
        return _numbers(self.command.text(flag), flag, "x")

    @property
    def layer(self) -> str:
        return " ".join([self.command.operation, "x".join(map(str, next(iter(self.desc.values())).lens))])

    def wanted(self, direction: Pass) -> bool:
        return super().wanted(direction) if len(self.passes()) > 1 else True

    def values(self, name: str, generator: data.Generator) -> Array:
        return self.uniform(name, generator, self.low, self.high)

    def pairs(self, m: Mapping[str, Any], *names: str) -> list[Any]:
        """Return descriptors and memory as functions take them."""
        return [thing for name in names for thing in (self.desc[name], m[name])]

    def one(self, short: str, title: str, inputs: tuple[str, ...], outputs: tuple[str, ...], call: Any, reference: Any,
            bound: float = 0.0) -> Pass:
        word = "Forward" if short == "fwd" else "Backward"
        return Pass(short, f"{word} {title}", inputs, outputs, inputs, call, lambda handle: None, reference,
                    bound or elementwise_limit(self.dtype), -1)

    def space(self, handle: Any, size: int) -> tuple[Any, int]:
        """Return a workspace that is kept from call to call."""
        if handle not in self.spaces:
            self.spaces[handle] = handle.upload(np.zeros(max(size, 1), np.uint8))
        return (self.spaces[handle] if size else None), size


class Cat(Elements):
    def make(self) -> None:
        given = [self.lengths(f"input{i}") for i in range(1, 9) if self.command.text(f"input{i}")]
        self.axis = self.command.number("dim")
        if len({len(lens) for lens in given}) != 1 or self.axis >= len(given[0]):
            raise UsageError("inputs of different ranks, or an axis that they do not have")
        self.inputs = tuple(f"x{i}" for i in range(len(given)))
        for name, lens in zip(self.inputs, given, strict=True):
            self.describe(lens, name)
        total = sum(lens[self.axis] for lens in given)
        self.describe((*given[0][:self.axis], total, *given[0][self.axis + 1:]), "y")

    def passes(self) -> list[Pass]:
        def call(handle: Any, m: Mapping[str, Any]) -> None:
            _api.miopenCatForward(handle, len(self.inputs), [self.desc[n] for n in self.inputs],
                                    [m[n] for n in self.inputs], self.desc["y"], m["y"], self.axis)
        return [self.one("fwd", "Cat", self.inputs, ("y",), call,
                         lambda m: {"y": np.concatenate([m[n] for n in self.inputs], self.axis)})]


class GLU(Elements):
    def make(self) -> None:
        lens, self.axis = self.lengths("dim_lengths"), self.command.number("dim_to_split")
        if self.axis >= len(lens) or lens[self.axis] % 2:
            raise UsageError(f"--dim_to_split {self.axis}: no axis of an even length")
        self.describe(lens, "x", "dx")
        self.describe((*lens[:self.axis], lens[self.axis] // 2, *lens[self.axis + 1:]), "y", "dy")

    def wanted(self, direction: Pass) -> bool:
        return direction.short == "fwd" or self.command.number("forw") == 0

    def passes(self) -> list[Pass]:
        def halves(m: Mapping[str, Doubles]) -> tuple[Doubles, Doubles]:
            a, b = np.split(m["x"], 2, self.axis)
            return a, 1 / (1 + np.exp(-b))

        def gradient(m: Mapping[str, Doubles]) -> dict[str, Array]:
            a, s = halves(m)
            return {"dx": np.concatenate([m["dy"] * s, m["dy"] * a * s * (1 - s)], self.axis)}
        return [
            self.one("fwd", "GLU", ("x",), ("y",), lambda h, m: _api.miopenGLUForward(
                h, *self.pairs(m, "x", "y"), self.axis), lambda m: {"y": prod(halves(m))}),
            self.one("bwd", "GLU", ("x", "dy"), ("dx",), lambda h, m: _api.miopenGLUBackward(
                h, *self.pairs(m, "x", "dy", "dx"), self.axis), gradient),
        ]


class PReLU(Elements):
    def make(self) -> None:
        lens, self.weights = self.lengths("input"), self.command.number("NumParameters")
        if self.weights != 1 and (len(lens) < 2 or self.weights != lens[1]):
            raise UsageError(f"--NumParameters {self.weights}: neither 1 nor the channels of the input")
        self.describe(lens, "x", "dy", "dx")
        self.describe((self.weights,), "w", "dw")

    def passes(self) -> list[Pass]:
        def call(handle: Any, m: Mapping[str, Any]) -> None:
            size = _api.miopenGetPReLUBackwardWorkspaceSize(handle, self.desc["x"], self.desc["w"])
            _api.miopenPReLUBackward(handle, *self.space(handle, size), *self.pairs(m, "x", "w", "dy", "dx", "dw"))

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            x, dy, one = m["x"], m["dy"], self.weights == 1
            w = m["w"][0] if one else m["w"].reshape(1, -1, *(1,) * (x.ndim - 2))
            axes = tuple(i for i in range(x.ndim) if one or i != 1)
            return {"dx": np.where(x > 0, dy, w * dy), "dw": np.where(x > 0, 0, x * dy).sum(axes).reshape(-1)}
        return [self.one("bwd", "PReLU", ("x", "w", "dy"), ("dx", "dw"), call, reference,
                         limit(self.dtype, 1e-4, 5e-2))]


class Kth(Elements):
    def make(self) -> None:
        lens, self.k, self.dim = self.lengths("dim-lengths"), self.command.number("k"), self.command.number("dim")
        if not -len(lens) <= self.dim < len(lens) or self.k > lens[self.dim]:
            raise UsageError("no such axis, or fewer elements than k")
        self.axis, self.kept = self.dim % len(lens), bool(self.command.number("keep-dim")) or len(lens) == 1
        out = (*lens[:self.axis], *((1,) if self.kept else ()), *lens[self.axis + 1:])
        gaps = not self.command.number("is-contiguous")
        self.describe(lens, "x", gaps=gaps)
        self.describe(out, "y", gaps=gaps)
        self.describe(out, "indices", dtype="int64", gaps=gaps)

    def passes(self) -> list[Pass]:
        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            want = np.take(np.sort(m["x"], self.axis), [self.k - 1], self.axis)
            first = np.argmax(m["x"] == want, self.axis)
            return {"y": want.reshape(self.desc["y"].lens), "indices": first.reshape(self.desc["y"].lens)}
        return [self.one("fwd", "Kthvalue", ("x",), ("y", "indices"), lambda h, m: _api.miopenKthvalueForward(
            h, *self.pairs(m, "x", "y", "indices"), self.k, self.dim, self.kept), reference)]


class Getitem(Elements):
    def make(self) -> None:
        self.count, self.offset = self.command.number("indexcount"), self.command.number("offset")
        lens, index = self.lengths("dinput"), _numbers(self.command.text("indexs"), "indexs")
        self.dims = _numbers(self.command.text("dims"), "dims")[:self.command.number("dimcount")]
        cuts = _numbers(self.command.text("slices"), "slices")
        slices = self.command.number("slicecount")
        if len(self.dims) != self.count or len(index) < self.count or len(cuts) != 4 * slices:
            raise UsageError("as many indices and axes as --indexcount says, and four numbers a slice")
        if any(not 0 <= axis < len(lens) for axis in (*self.dims, *cuts[::4])):
            raise UsageError("an axis that dinput does not have")
        self.cuts = cuts
        self.cut = [slice(None)] * len(lens)
        for i in range(0, len(cuts), 4):
            self.cut[cuts[i]] = slice(*cuts[i + 1:i + 4])
        self.seen = np.empty(lens, "V0")[tuple(self.cut)][self.offset:].shape
        self.describe(lens, "dx")
        self.describe(self.lengths("doutput"), "dy")
        self.names = tuple(f"index{i}" for i in range(self.count))
        for name in self.names:
            self.describe((index[0],), name, dtype="int32")
        if self.count:
            self.describe((self.count,), "error", dtype="int32")

    def values(self, name: str, generator: data.Generator) -> Array:
        memory = self.memory[name]
        if name in self.names:
            length = self.seen[self.dims[self.names.index(name)]]
            return data.uniform(generator, "int32", memory.span, 0, length)
        return np.zeros(memory.span, memory.dtype) if name in ("dx", "error") else self.uniform(name, generator, -1, 1)

    def passes(self) -> list[Pass]:
        extra = ("error",) if self.count else ()

        def call(handle: Any, m: Mapping[str, Any]) -> None:
            error = self.pairs(m, "error") if self.count else (None, None)
            _api.miopenGetitemBackward(
                handle, None, 0, *self.pairs(m, "dy"), self.count, [self.desc[n] for n in self.names],
                [m[n] for n in self.names], *self.pairs(m, "dx"), *error, self.count, self.dims, len(self.cuts) // 4,
                self.cuts, self.offset)

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            dx = m["dx"].copy()
            place: Any = (Ellipsis,)
            if self.count:
                place = (slice(None),) * self.dims[0] + tuple(m[n].astype(np.int64) for n in self.names)
            np.add.at(dx[tuple(self.cut)][self.offset:], place, m["dy"])
            return {"dx": dx, **({"error": m["error"]} if self.count else {})}
        return [self.one("bwd", "Getitem", ("dy", *self.names, "dx", *extra), ("dx", *extra), call, reference,
                         limit(self.dtype, 1e-4, 5e-2))]


class SoftMargin(Elements):
    def make(self) -> None:
        lens, gaps = self.lengths("dim"), not self.command.number("contiguous")
        self.reduction = _REDUCTIONS[self.command.text("reduce")]
        strides = self.command.text("stride")
        self.describe(lens, "x", "t", "dy", "dx", gaps=gaps and strides == "-1")
        if strides != "-1":
            given = _numbers(strides, "stride", "x")
            if len(given) != len(lens):
                raise UsageError(f"--stride {strides}: as many numbers as --dim has")
            self.desc["x"] = self.tensor("x", miopyx.TensorDescriptor(self.dtype, lens, given))
        self.describe((1,) if self.reduction else lens, "y")

    def values(self, name: str, generator: data.Generator) -> Array:
        found = super().values(name, generator)
        return np.where(found < 0, -1, 1).astype(found.dtype) if name == "t" else found

    def passes(self) -> list[Pass]:
        def call(handle: Any, m: Mapping[str, Any]) -> None:
            size = _api.miopenGetSoftMarginLossForwardWorkspaceSize(
                handle, *(self.desc[n] for n in ("x", "t", "y")), self.reduction)
            _api.miopenSoftMarginLossForward(handle, *self.pairs(m, "x", "t", "y"), self.reduction,
                                               *self.space(handle, size))

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            loss = np.log1p(np.exp(-m["x"] * m["t"]))
            return {"y": (loss, loss.sum(), loss.mean())[self.reduction]}

        def gradient(m: Mapping[str, Doubles]) -> dict[str, Array]:
            n = m["x"].size if self.reduction == 2 else 1
            return {"dx": -m["dy"] * m["t"] / (1 + np.exp(m["x"] * m["t"])) / n}
        return [
            self.one("fwd", "SoftMarginLoss", ("x", "t"), ("y",), call, reference),
            self.one("bwd", "SoftMarginLoss", ("x", "t", "dy"), ("dx",),
                     lambda h, m: _api.miopenSoftMarginLossBackward(
                         h, *self.pairs(m, "x", "t", "dy", "dx"), self.reduction), gradient),
        ]


class MultiMargin(Elements):
    def make(self) -> None:
        lens, gaps = self.lengths("dim"), not self.command.number("contiguous")
        if len(lens) != 2:
            raise UsageError("--dim: rows and classes")
        self.reduction, self.p = _REDUCTIONS[self.command.text("reduce")], self.command.number("power")
        self.margin = self.command.real("margin")
        self.describe(lens, "x", gaps=gaps)
        self.describe(lens[:1], "t", dtype="int64", gaps=gaps)
        self.describe(lens[1:], "w", gaps=gaps)
        self.describe((1,) if self.reduction else lens[:1], "y")

    def values(self, name: str, generator: data.Generator) -> Array:
        if name == "t":
            return data.uniform(generator, "int64", self.memory[name].span, 0, self.desc["x"].lens[1])
        return super().values(name, generator)

    def passes(self) -> list[Pass]:
        def call(handle: Any, m: Mapping[str, Any]) -> None:
            size = _api.miopenGetMultiMarginLossForwardWorkspaceSize(
                handle, *(self.desc[n] for n in ("x", "t", "w", "y")), self.p, self.margin, self.reduction)
            _api.miopenMultiMarginLossForward(handle, *self.pairs(m, "x", "t", "w", "y"), self.p, self.margin,
                                                self.reduction, *self.space(handle, size))

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            rows, target = np.arange(len(m["x"])), m["t"].astype(np.int64)
            terms = np.maximum(0, self.margin - m["x"][rows, target][:, None] + m["x"]) ** self.p
            terms[rows, target] = 0
            loss = m["w"][target] * terms.sum(1) / m["x"].shape[1]
            return {"y": (loss, loss.sum(), loss.mean())[self.reduction]}
        return [self.one("fwd", "MultiMarginLoss", ("x", "t", "w"), ("y",), call, reference,
                         limit(self.dtype, 1e-4, 5e-2))]


class RoPE(Elements):
    def make(self) -> None:
        lens = self.lengths("input")
        if not lens or lens[-1] % 2:
            raise UsageError("--input: the last length is even")
        self.describe(lens, "x", "y", "dy", "dx")
        self.describe(lens[1:] or lens, "cos", "sin")

    def wanted(self, direction: Pass) -> bool:
        return direction.short == "fwd" or self.command.number("forw") == 0

    def passes(self) -> list[Pass]:
        def turned(x: Doubles, m: Mapping[str, Doubles], back: bool) -> Doubles:
            c, s = m["cos"], m["sin"]
            y = x * c
            if back:
                y[..., ::2] += (x * s)[..., 1::2]
                y[..., 1::2] -= (x * s)[..., ::2]
            else:
                y[..., ::2] -= x[..., 1::2] * s[..., ::2]
                y[..., 1::2] += x[..., ::2] * s[..., 1::2]
            return y
        return [
            self.one("fwd", "RoPE", ("x", "cos", "sin"), ("y",), lambda h, m: _api.miopenRoPEForward(
                h, *self.pairs(m, "x", "cos", "sin", "y")), lambda m: {"y": turned(m["x"], m, False)}),
            self.one("bwd", "RoPE", ("dy", "cos", "sin"), ("dx",), lambda h, m: _api.miopenRoPEBackward(
                h, *self.pairs(m, "dy", "cos", "sin", "dx")), lambda m: {"dx": turned(m["dy"], m, True)}),
        ]


class Adam(Elements):
    transformers = False

    def make(self) -> None:
        lens = self.lengths("dims")
        self.amp = "amp" in self.command.operation
        self.describe(lens, "p", "m", "v")
        self.describe(lens, "g", dtype="float16" if self.amp else self.dtype)
        if self.flag("amsgrad"):
            self.describe(lens, "most")
        if self.amp:
            self.describe((1,), "scale", "found", "step", dtype="int32")

    def flag(self, name: str) -> bool:
        return name in self.command.family.long and bool(self.command.number(name))

    def values(self, name: str, generator: data.Generator) -> Array:
        numbers = {"scale": self.command.number("scale"), "found": self.command.number("found_inf"), "step": 0}
        if name in numbers:
            return np.full(1, numbers[name], np.int32)
        return self.uniform(name, generator, *((-1.0, 1.0) if name in "pg" else (0.0, 1e-2)))

    def passes(self) -> list[Pass]:
        state = ("p", "m", "v", *(("most",) if self.flag("amsgrad") else ()))
        numbers = ("scale", "found", "step") if self.amp else ()
        names = "lr", "beta1", "beta2", "eps", "weight_decay"
        lr, beta1, beta2, eps, decay = (self.command.real(name) for name in names)
        adamw = "adamw" in self.command.operation

        def call(handle: Any, m: Mapping[str, Any]) -> None:
            counter, scale, found = (self.pairs(m, name) if self.amp else (None, None)
                                     for name in ("step", "scale", "found"))
            first = self.pairs(m, "p", "g", "m", "v")
            hyper = 1, lr, beta1, beta2, decay, eps
            if self.transformers:
                _api.miopenTransformersAdamW(handle, *first, *counter, *hyper, self.flag("correct_bias"), *scale,
                                               *found)
                return
            most = self.pairs(m, "most") if "most" in self.desc else (None, None)
            _api.miopenFusedAdam(handle, *first, *most, *counter, *hyper, self.flag("amsgrad"), self.flag("maximize"),
                                   adamw, *scale, *found)

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            counters = {"step": m["step"] + (m["found"] == 0)} if self.amp else {}
            if self.amp and m["found"][0]:
                return {**{name: m[name] for name in state}, **counters}
            g = (m["g"] / m["scale"][0] if self.amp else m["g"]) * (-1 if self.flag("maximize") else 1)
            p = m["p"] * (1 - lr * decay) if adamw and not self.transformers else m["p"]
            if not adamw:
                g = g + decay * p
            first, second = beta1 * m["m"] + (1 - beta1) * g, beta2 * m["v"] + (1 - beta2) * g * g
            found = {"m": first, "v": second}
            if self.flag("amsgrad"):
                found["most"] = np.maximum(m["most"], second)
            if self.transformers:
                size = lr * np.sqrt(1 - beta2) / (1 - beta1) if self.flag("correct_bias") else lr
                p = (p - size * first / (np.sqrt(second) + eps)) * (1 - lr * decay)
            else:
                root = np.sqrt(found.get("most", second) / (1 - beta2)) + eps
                p = p - lr / (1 - beta1) * first / root
            return {"p": p, **found, **counters}
        outputs = (*state, *(("step",) if self.amp else ()))
        return [self.one("fwd", "TransformersAdamW" if self.transformers else "Adam", ("g", *state, *numbers), outputs,
                         call, reference, limit(self.dtype, 1e-5, 5e-2))]


class TransformersAdamW(Adam):
    transformers = True


class CTC(Elements):
    def make(self) -> None:
        n, classes = self.command.number("batchsize"), self.command.number("num_class") + 1
        self.steps, self.counts = (self._each(flag, n) for flag in ("input_len", "label_len"))
        self.blank = min(max(self.command.number("blank_label_id"), 0), classes - 1)
        self.softmax = bool(self.command.number("apply_softmax_layer"))
        self.ctc = miopyx.CTCLossDescriptor("float32", self.command.number("blank_label_id"), self.softmax)
        self.describe((max(self.steps), n, classes), "x", "dx")
        self.describe((n,), "losses")
        draw = data.uniform(data.Generator(1), "int32", sum(self.counts), 0, classes - 1)
        self.labels = [int(v) + (v >= self.blank) for v in draw]
        at = 0
        for steps, count in zip(self.steps, self.counts, strict=True):
            some = self.labels[at:at + count]
            at += count
            if count + sum(a == b for a, b in pairwise(some)) > steps:
                raise UsageError("more labels than steps")

    def _each(self, flag: str, n: int) -> Sizes:
        given = _numbers(self.command.text(flag), flag)[:n]
        if not given or min(given) < 0:
            raise UsageError(f"--{flag} {self.command.text(flag)}: numbers from 0 on")
        return (*given, *given[-1:] * (n - len(given)))

    def values(self, name: str, generator: data.Generator) -> Array:
        memory = self.memory[name]
        found = data.uniform(generator, "float64", memory.span, 0, 1).reshape(memory.lens)
        logarithms: Array = np.log(found / found.sum(2, keepdims=True))
        return logarithms.astype(memory.dtype).reshape(-1)

    def passes(self) -> list[Pass]:
        def call(handle: Any, m: Mapping[str, Any]) -> None:
            given = self.labels, self.counts, self.steps
            size = _api.miopenGetCTCLossWorkspaceSize(handle, self.desc["x"], self.desc["dx"], *given, 0, self.ctc)
            _api.miopenCTCLoss(handle, *self.pairs(m, "x"), *given, m["losses"], *self.pairs(m, "dx"), 0, self.ctc,
                                 *self.space(handle, size))

        def reference(m: Mapping[str, Doubles]) -> dict[str, Array]:
            losses, dx, at = [], np.zeros_like(m["x"]), 0
            for n, (steps, count) in enumerate(zip(self.steps, self.counts, strict=True)):
                loss, dx[:steps, n] = _ctc(m["x"][:steps, n], self.labels[at:at + count], self.blank, self.softmax)
                losses.append(loss)
                at += count
            return {"losses": np.array(losses), "dx": dx}
        return [self.one("fwd", "CTC", ("x",), ("losses", "dx"), call, reference, limit(self.dtype, 1e-5, 5e-2) * 8)]


def _ctc(x: Doubles, labels: list[int], blank: int, softmax: bool) -> tuple[float, Doubles]:
    """Return the loss of a sample and its gradient, by the probabilities of all paths to and from each state."""
    y = x - (np.logaddexp.reduce(x, 1, keepdims=True) if softmax else 0)
    states = np.array([blank, *(state for label in labels for state in (label, blank))])
    skips = np.array([s > 1 and states[s] != blank and states[s] != states[s - 2] for s in range(len(states))])
    e = y[:, states]

    def walk(e: Doubles, skips: Any) -> Doubles:
        rows = [np.where(np.arange(e.shape[1]) < 2, 0.0, -np.inf) + e[0]]
        for now in e[1:]:
            old = rows[-1]
            one, two = (np.concatenate([np.full(k, -np.inf), old])[:len(old)] for k in (1, 2))
            rows.append(np.logaddexp(np.logaddexp(old, one), np.where(skips, two, -np.inf)) + now)
        return np.array(rows)
    before = walk(e, skips)
    after = walk(e[::-1, ::-1], np.concatenate([skips[2:], [False, False]])[::-1])[::-1, ::-1]
    total = np.logaddexp.reduce(before[-1, -2:])
    sure = np.zeros_like(x)
    for s, state in enumerate(states):
        sure[:, state] += np.exp(before[:, s] + after[:, s] - e[:, s] - total)
    return float(-total), np.exp(y) - sure if softmax else -sure * np.exp(-y)


LAYERS: dict[Family, type[Layer]] = {
    CAT: Cat, CTC_FAMILY: CTC, GLU_FAMILY: GLU, PRELU: PReLU, KTH: Kth, GETITEM: Getitem, SOFT: SoftMargin,
    MULTI: MultiMargin, ROPE: RoPE, ADAM: Adam, TRANSFORMERS: TransformersAdamW,
}
