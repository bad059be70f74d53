"""Convolutions, with what follows them in the same launches.

A batch norm whose numbers and weights are constant is folded into the weights, computed in float64, where those have at
least 32 bits; otherwise the launch computes it.  What is added and is one constant number a channel joins the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from miopyx import ConvolutionDescriptor, TensorDescriptor, enums
from miopyx.errors import BadParmError

from .elements import Function
from .nodes import Node, Outside, Run
from .values import Array, Value, tensor


class Norm(NamedTuple):
    """A batch norm with given statistics: scale, bias, mean, variance of each channel."""

    parameters: tuple[Value, Value, Value, Value]
    epsilon: float


class Epilogue(NamedTuple):
    """What follows a convolution or a product of matrices before the result is stored.

    y = act(norm(conv(x, w) + bias) + sum of added)
    """

    norm: Norm | None = None
    added: tuple[Value, ...] = ()
    function: Function | None = None


# Shapes


def _split(total: int, auto_pad: str) -> tuple[int, int]:
    """Return the pads at both ends of an axis of which only the sum is given."""
    less = total // 2
    return (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)


def window(lens: Sequence[int], reaches: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
           a: SimpleNamespace, round_up: bool = False) -> tuple[list[int], list[int], list[int]]:
    """Return the pads in front and behind and the lengths of the output of a convolution or pooling."""
    n = len(lens)
    pads = a.pads or [0] * (2 * n)
    begin, end, out = list(pads[:n]), list(pads[n:]), []
    for i in range(n):
        reach = (reaches[i] - 1) * dilations[i] + 1
        if a.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            length = -(-lens[i] // strides[i])
            begin[i], end[i] = _split(max(0, (length - 1) * strides[i] + reach - lens[i]), a.auto_pad)
        else:
            if a.auto_pad == "VALID":
                begin[i] = end[i] = 0
            room = lens[i] + begin[i] + end[i] - reach
            length = (-(-room // strides[i]) if round_up else room // strides[i]) + 1
            # A window starts in the image or in the padding before it.
            if round_up and (length - 1) * strides[i] >= lens[i] + begin[i]:
                length -= 1
        out.append(length)
    if min(out) < 1:
        raise BadParmError(f"a window with dilations {list(dilations)} and pads {[*begin, *end]} does not fit",
                           "kernel_shape", list(reaches), f"what fits into {list(lens)}")
    return begin, end, out


def transposed_pads(lens: Sequence[int], reaches: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
                    a: SimpleNamespace) -> tuple[list[int], list[int], list[int]]:
    """Return the pads in front and behind and the output pads of a transposed convolution."""
    n = len(lens)
    extra = list(a.output_padding or [0] * n)
    same = a.auto_pad in ("SAME_UPPER", "SAME_LOWER")
    if not a.output_shape and not same:
        pads = [0] * (2 * n) if a.auto_pad == "VALID" or not a.pads else list(a.pads)
        return pads[:n], pads[n:], extra
    wanted = list(a.output_shape)[-n:] if a.output_shape else [i * s for i, s in zip(lens, strides, strict=True)]
    begin, end = [], []
    for i in range(n):
        whole = strides[i] * (lens[i] - 1) + extra[i] + (reaches[i] - 1) * dilations[i] + 1
        first, last = _split(whole - wanted[i], a.auto_pad)
        begin.append(first)
        end.append(last)
    return begin, end, extra


def _pads_and_cuts(pads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Part what descriptors take from negative pads."""
    return [max(0, p) for p in pads], [min(0, p) for p in pads]


def fit(x: Array, begin: Sequence[int], end: Sequence[int], value: float = 0) -> Array:
    """Pad the spatial axes of `x`; negative pads cut."""
    cut = tuple(slice(max(0, -b), max(0, length + min(0, e)))
                for b, e, length in zip(begin, end, x.shape[2:], strict=True))
    wide = [(0, 0), (0, 0), *((max(0, b), max(0, e)) for b, e in zip(begin, end, strict=True))]
    return np.ascontiguousarray(np.pad(x[:, :, *cut], wide, constant_values=value))


def geometry(x_rank: int, w_rank: int, a: SimpleNamespace) -> tuple[int, list[int], list[int]]:
    """Return the number of spatial axes, strides and dilations."""
    n = x_rank - 2
    if not 1 <= n <= 3:
        raise Outside(f"{n} spatial axes")
    if w_rank != x_rank:
        raise BadParmError("ranks differ", "W", w_rank, x_rank)
    return n, list(a.strides or [1] * n), list(a.dilations or [1] * n)


def channels(lens: Sequence[int]) -> tuple[int, ...]:
    """Return the lengths of one number a channel."""
    return (1, lens[1], *[1] * (len(lens) - 2))


def _belongs_to_channels(shape: Sequence[int], lens: Sequence[int]) -> bool:
    """Whether a tensor that is added has one number a channel, or one alone."""
    wide = (*[1] * (len(lens) - len(shape)), *shape)
    return len(shape) <= len(lens) and (wide == channels(lens) or set(wide) <= {1})


def _wide(value: Value) -> Array:
    return value.host.astype(np.float64).reshape(-1)


class _Terms:
    """What a fused call takes; constants that were made of others stand in for what the node is given.

    Attributes
    ----------
    w, bias : Value or None
        None: what the node is given.
    biased : bool
        Whether there is a bias.
    norm : Norm or None
    z : int or None
        Which of what is added is a whole tensor.
    """

    def __init__(self, node: Node, w: Value, bias: Value | None, after: Epilogue, lens: Sequence[int],
                 conv: ConvolutionDescriptor) -> None:
        self.w: Value | None = None
        self.bias: Value | None = None
        self.biased, self.norm = bias is not None, after.norm
        self.z: int | None = None
        constants: list[Value] = []
        for i, value in enumerate(after.added):
            if value.dtype == w.dtype and value.shape == tuple(lens) and self.z is None:
                self.z = i
            elif value.dtype == w.dtype and value.constant and _belongs_to_channels(value.shape, lens):
                constants.append(value)
            else:
                raise Outside(f"adds {value.dtype.name} of {value.shape} to {w.dtype.name} of {tuple(lens)}")
        if self.norm is not None:
            for name, value in zip(("scale", "B", "input_mean", "input_var"), self.norm.parameters, strict=True):
                if value.size != lens[1]:
                    raise BadParmError("as many numbers as channels", name, value.size, lens[1])
            given = [w, *self.norm.parameters, *([] if bias is None else [bias])]
            if w.dtype.itemsize >= 4 and all(value.constant for value in given):
                bias = self._fold(node, w, bias, self.norm, lens[1], conv)
        if constants:
            self._join(node, bias, constants, lens[1], w.dtype)

    def _fold(self, node: Node, w: Value, bias: Value | None, norm: Norm, k: int, conv: ConvolutionDescriptor) -> Value:
        scale, shift, mean, variance = map(_wide, norm.parameters)
        factor = scale / np.sqrt(variance + norm.epsilon)
        wide = w.host.astype(np.float64)
        if conv.convolution_mode == enums.miopenTranspose:  # c, k of a group, window
            groups = conv.group_count
            wide = wide.reshape(groups, w.shape[0] // groups, k // groups, *w.shape[2:])
            wide *= factor.reshape(groups, 1, -1, *[1] * (w.ndim - 2))
        else:
            wide *= factor.reshape(-1, *[1] * (w.ndim - 1))
        before = -mean if bias is None else _wide(bias) - mean
        self.w = node.device.constant(wide.reshape(w.shape).astype(w.dtype))
        self.bias = node.device.constant((before * factor + shift).astype(w.dtype))
        self.biased, self.norm = True, None
        return self.bias

    def _join(self, node: Node, bias: Value | None, constants: list[Value], k: int, dtype: np.dtype[Any]) -> None:
        target = bias if self.norm is None else self.norm.parameters[1]  # behind the norm, where there is one
        total = np.zeros(k)
        for value in [*constants, *([] if target is None else [target])]:
            if not value.constant:
                raise Outside("adds constants to a bias that is none")
            total += _wide(value)
        if self.norm is None:
            self.bias, self.biased = node.device.constant(total.astype(dtype)), True
        else:
            scale, _, mean, variance = self.norm.parameters
            shift = node.device.constant(total.astype(np.float64 if dtype == np.float64 else np.float32))
            self.norm = Norm((scale, shift, mean, variance), self.norm.epsilon)


def convolve(node: Node, x_desc: TensorDescriptor, w_desc: TensorDescriptor, conv: ConvolutionDescriptor,
             y_desc: TensorDescriptor, w: Value, bias: Value | None, after: Epilogue, shape: Sequence[int],
             alpha1: float = 1.0, alpha2: float = 1.0) -> tuple[Run, str]:
    """Return run(x, w, bias, norm's four, what is added) -> (y,), and the solver's name; y gets the lengths `shape`."""
    device, dtype, lens = node.device, w.dtype, y_desc.lens
    if bias is not None and (bias.dtype != dtype or bias.size != lens[1]):
        raise BadParmError("a number for each channel of the output, of its type", "B", (bias.dtype.name, bias.shape),
                           (dtype.name, (lens[1],)))
    terms = _Terms(node, w, bias, after, lens, conv)
    each = channels(lens)
    wide = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    numbers = {}
    if terms.biased or terms.norm is not None or terms.z is not None or after.function is not None or alpha1 != 1:
        function = after.function or Function("PASTHRU")
        plan = device.handle.convolution_bias_activation_forward(
            x_desc, w_desc, conv, None if terms.z is None else y_desc, tensor(dtype, each) if terms.biased else None,
            function.descriptor, y_desc, norm_desc=None if terms.norm is None else tensor(wide, each),
            epsilon=1e-5 if terms.norm is None else terms.norm.epsilon)
        numbers = {"alpha1": alpha1, **({} if terms.z is None else {"alpha2": alpha2})}
    else:
        plan = device.handle.convolution_forward(x_desc, w_desc, conv, y_desc)
    weights = terms.w or w
    if weights.constant:
        plan.pack(weights.memory)
    # Batch norm's numbers are float32 beside 16 bits.
    kept = [] if terms.norm is None else [
        device.constant(v.host.astype(wide)) if v.constant else None for v in terms.norm.parameters]

    def run(x: Value, w: Value, b: Value | None = None, norm: Sequence[Value] = (),
            added: Sequence[Value] = ()) -> tuple[Any, ...]:
        y = device.empty(shape, dtype)
        buffers: list[Value | None] = [x, terms.w or w]
        if terms.z is not None:
            buffers.append(added[terms.z])
        if terms.biased:
            buffers.append(terms.bias or b)
        for own, given in zip(kept, norm, strict=False):
            buffers.append(own or (given if given.dtype == wide else device.wrap(given.host.astype(wide))))
        device.call(plan, *buffers, y, **numbers)
        return (y,)

    return run, plan.solver.name


class Conv(Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace, after: Epilogue | None = None) -> tuple[Run, str]:
        x, w = inputs[:2]
        _, strides, dilations = geometry(x.ndim, w.ndim, a)
        begin, end, _ = window(x.shape[2:], w.shape[2:], strides, dilations, a)
        (pads, before), (end_pads, behind) = _pads_and_cuts(begin), _pads_and_cuts(end)
        lens = [length + p + q for length, p, q in zip(x.shape[2:], before, behind, strict=True)]
        conv = ConvolutionDescriptor(pads, strides, dilations, groups=a.group, end_pads=end_pads)
        inner, why = self.convolve(conv, (*x.shape[:2], *lens), inputs, after or Epilogue())
        if not any(before) and not any(behind):
            return inner, why
        return lambda x, *rest: inner(self.device.wrap(fit(x.host, before, behind)), *rest), why

    def convolve(self, conv: ConvolutionDescriptor, lens: Sequence[int], inputs: Sequence[Any],
                 after: Epilogue) -> tuple[Run, str]:
        x, w, bias = (*inputs, None)[:3]
        if w.dtype != x.dtype:
            raise BadParmError("types differ", "W", w.dtype.name, x.dtype.name)
        x_desc, w_desc = tensor(x.dtype, lens), tensor(w.dtype, w.shape)
        y_desc = tensor(x.dtype, conv.output_lens(x_desc, w_desc))
        return convolve(self, x_desc, w_desc, conv, y_desc, w, bias, after, y_desc.lens)


class ConvTranspose(Conv):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace, after: Epilogue | None = None) -> tuple[Run, str]:
        x, w = inputs[:2]
        n, strides, dilations = geometry(x.ndim, w.ndim, a)
        begin, end, extra = transposed_pads(x.shape[2:], w.shape[2:], strides, dilations, a)
        if any(e >= s for e, s in zip(extra, strides, strict=True)):
            end, extra = [e - more for e, more in zip(end, extra, strict=True)], [0] * n
        pads, end_pads = _pads_and_cuts(begin)[0], _pads_and_cuts(end)[0]
        # Zeros that lie beyond every window.
        before, behind = ([max(0, -p) for p in ends] for ends in (begin, end))
        conv = ConvolutionDescriptor(pads, strides, dilations, enums.miopenTranspose, a.group, extra, end_pads)
        if not any(before) and not any(behind):
            return self.convolve(conv, x.shape, inputs, after or Epilogue())
        if after is not None:
            raise Outside("zeros beyond every window, to which all that follows belongs")
        inner, why = self.convolve(conv, x.shape, inputs[:2], Epilogue())

        def run(x: Value, w: Value, b: Value | None = None) -> tuple[Any, ...]:
            y = fit(inner(x, w)[0].host, before, behind)
            if b is not None:  # it belongs to the zeros too
                y += b.host.reshape(-1, *[1] * n)
            return (self.device.wrap(y),)

        return run, why
