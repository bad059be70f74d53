"""A backend for ONNX models (`onnx.backend.base`): MIOpen's operations on a device of miopyx, the rest in NumPy.

``Backend.prepare(model, device)`` returns a `BackendRep`, whose ``run(inputs)`` computes the model's outputs.  These
nodes run through miopyx: Conv, ConvTranspose, MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool,
BatchNormalization, LRN, Softmax, LogSoftmax, Relu, LeakyRelu, Elu, Sigmoid, Tanh, Softplus, Abs, Clip, Identity.  Every
other node is computed by `onnx.reference`, which is NumPy.  So are these, since MIOpen has nothing for them:

- tensors that are not float16, bfloat16, float32 or float64 (but for max pooling of 8-bit integers, which float32 holds
  exactly), that are empty, or that are no tensors at all (Identity of a sequence);
- more than three spatial axes of a convolution or a pooling window, and pads that such a window fits into;
- LRN with a bias of 0.

What the functions do not know is expressed by padding, cutting, reshaping or casting around them: negative pads,
`output_shape`, 1-D pooling, any softmax axis, indices in column-major order.  NaN is treated as MIOpen does: max
pooling never chooses it, Clip makes a bound of it.

`BackendRep.ran` says of each node of the last run where it was computed, by what, or why not by miopyx.  Needs the
extra ``onnx``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import onnx
import onnx.backend.base
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpFunction, OpRun
from onnx.reference.ops._op_list import load_op

from miopyx import (
    ActivationDescriptor,
    ConvolutionDescriptor,
    Handle,
    LRNDescriptor,
    PoolingDescriptor,
    TensorDescriptor,
    enums,
    miopenConvolutionForwardBias,
    miopenOpTensor,
)
from miopyx.device import devices
from miopyx.errors import MIOpenError, MIOpenNotImplementedError

__all__ = ["Backend", "BackendRep", "Ran"]

_Array = NDArray[Any]
_Run = Callable[..., tuple[Any, ...]]
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class Ran(NamedTuple):
    """Where a node was computed.

    Attributes
    ----------
    node : onnx.NodeProto
    where : str
        ``"miopyx"`` or ``"numpy"``.
    why : str
        The solvers, or the reason why it was not computed by miopyx.
    """

    node: onnx.NodeProto
    where: str
    why: str


class _Outside(Exception):
    """What MIOpen's functions cannot express; the text says what."""


class _Device:
    """A handle, and how NumPy's arrays get to its memory and back."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.constants: dict[int, list[Any]] = {}  # weights: id of the array -> [array, buffer]
        self.scratch: dict[int, Any] = {}          # results: position -> (bytes, buffer)
        self.ran: list[Ran] = []

    def call(self, function: Callable[..., None], arrays: Sequence[_Array | None], written: Sequence[int]) -> None:
        """Call `function` with memory of the device that holds `arrays`; those of `written` are filled."""
        if self.handle.device.shares_memory:
            function(*arrays)
            return
        bound: list[Any] = [None if a is None else self._room(i, a) if i in written else self._upload(a)
                            for i, a in enumerate(arrays)]
        function(*bound)
        for i in written:
            if (array := arrays[i]) is not None:
                self.handle.download(bound[i], array)

    def _upload(self, array: _Array) -> Any:
        kept = self.constants.get(id(array))
        if kept is None:
            return self.handle.upload(array)
        if kept[1] is None:
            kept[1] = self.handle.upload(array)
        return kept[1]

    def _room(self, position: int, array: _Array) -> Any:
        """Return memory for a result; calls follow each other, so one buffer a position is enough."""
        size, buffer = self.scratch.get(position, (0, None))
        if size < array.nbytes:
            buffer = self.handle.upload(np.empty(array.nbytes, np.uint8))
            self.scratch[position] = array.nbytes, buffer
        return buffer


class _Node(OpRun):
    """A node that miopyx computes where it can.  What it prepares for inputs of some shapes and types is kept."""

    device: ClassVar[_Device]
    types: ClassVar[frozenset[str]] = _FLOATS

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any], schema: Any = None) -> None:
        super().__init__(onnx_node, run_params, schema)
        self.opset: int = run_params["opsets"].get("", 1)
        self.prepared: dict[object, tuple[_Run, str, str]] = {}

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        key = self.key(inputs), repr(sorted(attributes.items())) if self.has_linked_attribute else None
        step = self.prepared.get(key)
        if step is None:
            step = self.prepared[key] = self._prepare(inputs, attributes)
        run, where, why = step
        outputs = run(*inputs)
        self.device.ran.append(Ran(self.onnx_node, where, why))
        return outputs

    def _prepare(self, inputs: Sequence[Any], attributes: dict[str, Any]) -> tuple[_Run, str, str]:
        x = inputs[0]
        try:
            if not isinstance(x, np.ndarray):
                raise _Outside("not a tensor")
            if x.dtype.name not in self.types:
                raise _Outside(f"{x.dtype.name} tensor")
            if x.size == 0:
                raise _Outside("empty tensor")
            run, why = self.prepare(inputs, SimpleNamespace(**attributes))
            return run, "miopyx", why
        except (_Outside, MIOpenNotImplementedError) as e:
            return self.numpy(attributes), "numpy", str(e)

    def key(self, inputs: Sequence[Any]) -> object:
        """Return what `prepare` depends on besides the attributes."""
        return tuple([(a.shape, a.dtype) if isinstance(a, np.ndarray) else type(a) for a in inputs])

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        """Return a function from inputs to outputs, and the names of the solvers that it runs.  May raise _Outside."""
        raise NotImplementedError

    def numpy(self, attributes: dict[str, Any]) -> _Run:
        """Return the function in NumPy."""
        node = load_op("", self.op_type, self.opset)(self.onnx_node, self.run_params)
        given = {name: attributes.get(name, getattr(node, name)) for name in node.attributes_names_}

        def run(*inputs: Any) -> tuple[Any, ...]:
            return node._run(*inputs, **given)  # type: ignore[no-any-return]

        return run

    def is_set(self, attribute: str) -> bool:
        """Whether the node has the attribute; what OpRun fills in is the default of the newest version."""
        return any(a.name == attribute for a in self.onnx_node.attribute)


# Shapes


def _tensor(like: _Array | np.dtype[Any], lens: Sequence[int]) -> TensorDescriptor:
    return TensorDescriptor(like.name if isinstance(like, np.dtype) else like.dtype.name, tuple(lens))


def _packed(x: _Array, lens: Sequence[int] | int) -> _Array:
    return np.ascontiguousarray(x).reshape(lens)


def _vector(b: _Array | None) -> _Array | None:
    return None if b is None else np.ascontiguousarray(b)


def _four_or_five(shape: Sequence[int]) -> tuple[int, ...]:
    """Return n, c and space of a tensor as lengths that MIOpen's 4-D and 5-D functions take."""
    shape = (*shape, 1)[:2] if len(shape) < 2 else tuple(shape)
    return shape if len(shape) in (4, 5) else (*shape[:2], 1, prod(shape[2:]))


def _split(total: int, auto_pad: str) -> tuple[int, int]:
    """Return the pads at both ends of an axis of which only the sum is given."""
    less = total // 2
    return (less, total - less) if auto_pad == "SAME_UPPER" else (total - less, less)


def _window(lens: Sequence[int], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
            a: SimpleNamespace, round_up: bool = False) -> tuple[list[int], list[int], list[int]]:
    """Return the pads in front and behind and the lengths of the output of a convolution or pooling."""
    n = len(lens)
    pads = a.pads or [0] * (2 * n)
    begin, end, out = list(pads[:n]), list(pads[n:]), []
    for i in range(n):
        reach = (window[i] - 1) * dilations[i] + 1
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
        raise ValueError(f"a window of {list(window)} with dilations {list(dilations)} does not fit into {list(lens)} "
                         f"with pads {[*begin, *end]}")
    return begin, end, out


def _pads_and_cuts(pads: Sequence[int]) -> tuple[list[int], list[int]]:
    """Part what descriptors take from negative pads."""
    return [max(0, p) for p in pads], [min(0, p) for p in pads]


def _fit(x: _Array, begin: Sequence[int], end: Sequence[int], value: float = 0) -> _Array:
    """Pad the spatial axes of `x`; negative pads cut."""
    if not any(begin) and not any(end):
        return np.ascontiguousarray(x)
    cut = tuple(slice(max(0, -b), max(0, length + min(0, e)))
                for b, e, length in zip(begin, end, x.shape[2:], strict=True))
    wide = [(0, 0), (0, 0), *((max(0, b), max(0, e)) for b, e in zip(begin, end, strict=True))]
    return np.ascontiguousarray(np.pad(x[:, :, *cut], wide, constant_values=value))


# Convolutions


class Conv(_Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x, w = inputs[:2]
        n = x.ndim - 2
        if not 1 <= n <= 3:
            raise _Outside(f"{n} spatial axes")
        strides, dilations = a.strides or [1] * n, a.dilations or [1] * n
        begin, end, _ = _window(x.shape[2:], w.shape[2:], strides, dilations, a)
        (pads, before), (end_pads, behind) = _pads_and_cuts(begin), _pads_and_cuts(end)
        lens = [length + p + q for length, p, q in zip(x.shape[2:], before, behind, strict=True)]
        conv = ConvolutionDescriptor(pads, strides, dilations, groups=a.group, end_pads=end_pads)
        x_desc, w_desc = _tensor(x, (*x.shape[:2], *lens)), _tensor(w, w.shape)
        y_desc = _tensor(x, conv.output_lens(x_desc, w_desc))
        call, why = self._call(conv, x_desc, w_desc, y_desc, inputs)

        def run(x: _Array, w: _Array, b: _Array | None = None) -> tuple[Any, ...]:
            y = np.empty(y_desc.lens, x.dtype)
            self.device.call(call, (_fit(x, before, behind), np.ascontiguousarray(w), _vector(b), y), (3,))
            return (y,)

        return run, why

    def _call(self, conv: ConvolutionDescriptor, x_desc: TensorDescriptor, w_desc: TensorDescriptor,
              y_desc: TensorDescriptor, inputs: Sequence[Any]) -> tuple[Callable[..., None], str]:
        """Return call(x, w, b, y) and the names of the solvers."""
        handle = self.device.handle
        plan = handle.convolution_forward(x_desc, w_desc, conv, y_desc)
        if len(inputs) < 3 or inputs[2] is None:
            return lambda x, w, b, y: plan(x, w, y), plan.solver.name
        b_desc = _tensor(inputs[2], (1, y_desc.lens[1], *[1] * (y_desc.ndim - 2)))

        def call(x: Any, w: Any, b: Any, y: Any) -> None:
            plan(x, w, y)
            miopenConvolutionForwardBias(handle, 1.0, b_desc, b, 0.0, y_desc, y)

        return call, f"{plan.solver.name}, bias"


class ConvTranspose(Conv):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x, w = inputs[:2]
        n = x.ndim - 2
        if not 1 <= n <= 3:
            raise _Outside(f"{n} spatial axes")
        strides, dilations = a.strides or [1] * n, a.dilations or [1] * n
        begin, end, extra = self._pads(x.shape[2:], w.shape[2:], strides, dilations, a)
        if any(e >= s for e, s in zip(extra, strides, strict=True)):
            end, extra = [e - more for e, more in zip(end, extra, strict=True)], [0] * n
        pads, end_pads = _pads_and_cuts(begin)[0], _pads_and_cuts(end)[0]
        # Zeros that lie beyond every window.
        before, behind = ([max(0, -p) for p in ends] for ends in (begin, end))
        conv = ConvolutionDescriptor(pads, strides, dilations, enums.miopenTranspose, a.group, extra, end_pads)
        x_desc, w_desc = _tensor(x, x.shape), _tensor(w, w.shape)
        y_desc = _tensor(x, conv.output_lens(x_desc, w_desc))
        if not any(before) and not any(behind):
            call, why = self._call(conv, x_desc, w_desc, y_desc, inputs)
            return self._whole(call, y_desc), why
        # The bias belongs to the zeros too.
        call, why = self._call(conv, x_desc, w_desc, y_desc, inputs[:2])

        def run(x: _Array, w: _Array, b: _Array | None = None) -> tuple[Any, ...]:
            y = np.empty(y_desc.lens, x.dtype)
            self.device.call(call, (np.ascontiguousarray(x), np.ascontiguousarray(w), None, y), (3,))
            y = _fit(y, before, behind)
            if b is not None:
                y += b.reshape(-1, *[1] * n)
            return (y,)

        return run, why

    def _whole(self, call: Callable[..., None], y_desc: TensorDescriptor) -> _Run:
        def run(x: _Array, w: _Array, b: _Array | None = None) -> tuple[Any, ...]:
            y = np.empty(y_desc.lens, x.dtype)
            self.device.call(call, (np.ascontiguousarray(x), np.ascontiguousarray(w), _vector(b), y), (3,))
            return (y,)

        return run

    def _pads(self, lens: Sequence[int], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
              a: SimpleNamespace) -> tuple[list[int], list[int], list[int]]:
        """Return the pads in front and behind and the output pads."""
        n = len(lens)
        extra = list(a.output_padding or [0] * n)
        same = a.auto_pad in ("SAME_UPPER", "SAME_LOWER")
        if not a.output_shape and not same:
            pads = [0] * (2 * n) if a.auto_pad == "VALID" or not a.pads else list(a.pads)
            return pads[:n], pads[n:], extra
        wanted = list(a.output_shape)[-n:] if a.output_shape else [i * s for i, s in zip(lens, strides, strict=True)]
        begin, end = [], []
        for i in range(n):
            whole = strides[i] * (lens[i] - 1) + extra[i] + (window[i] - 1) * dilations[i] + 1
            first, last = _split(whole - wanted[i], a.auto_pad)
            begin.append(first)
            end.append(last)
        return begin, end, extra


# Pooling


class _Pool(_Node):
    mode: ClassVar[str] = "miopenPoolingMax"

    def pool(self, dtype: np.dtype[Any], lens: Sequence[int], window: Sequence[int], mode: str, indices: bool = False,
             **more: Any) -> tuple[_Run, tuple[int, ...], str]:
        """Return run(x) -> (y, indices in the image or None), y's lengths and the solver's name."""
        desc = PoolingDescriptor(getattr(enums, mode), window, index_type=enums.miopenIndexUint64,
                                 index_mode=enums.miopenPoolingWorkspaceIndexImage, **more)
        x_desc = _tensor(dtype, lens)
        y_desc = _tensor(dtype, desc.output_lens(x_desc))
        plan = self.device.handle.pooling_forward(desc, x_desc, y_desc, do_backward=indices)

        def run(x: _Array) -> tuple[Any, ...]:
            y = np.empty(y_desc.lens, dtype)
            if not indices:
                self.device.call(plan, (x, y, None)[:len(plan.buffers)], (1,))
                return y, None
            places = np.empty(y_desc.lens, np.int64)
            self.device.call(plan, (x, y, places.reshape(-1).view(np.uint8)), (1, 2))
            return y, places

        return run, y_desc.lens, plan.solver.name


class MaxPool(_Pool):
    types = _FLOATS | {"int8", "uint8"}

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        n = x.ndim - 2
        if not 1 <= n <= 3:
            raise _Outside(f"{n} spatial axes")
        strides, dilations = a.strides or [1] * n, getattr(a, "dilations", None) or [1] * n
        begin, end, out = _window(x.shape[2:], a.kernel_shape, strides, dilations, a, bool(a.ceil_mode))
        space, window, steps, apart, first, last = (
            [fill] * (n == 1) + list(values) for fill, values in
            ((1, x.shape[2:]), (1, a.kernel_shape), (1, strides), (1, dilations), (0, begin), (0, end)))
        reach = [(k - 1) * d for k, d in zip(window, apart, strict=True)]
        last = [min(e, r) for e, r in zip(last, reach, strict=True)]  # strides may leave more of the pads out
        if min(*first, *last) < 0 or any(b > r for b, r in zip(first, reach, strict=True)):
            raise _Outside("pads that a window fits into, or negative ones")
        lens = (*x.shape[:2], *space)
        dtype = x.dtype if x.dtype.name in _FLOATS else np.dtype(np.float32)
        indices = len(self.onnx_node.output) > 1 and bool(self.onnx_node.output[1])
        mode = "miopenPoolingAverageInclusive" if getattr(a, "count_include_pad", 0) else self.mode
        inner, found, why = self.pool(dtype, lens, window, mode, indices, pads=first, end_pads=last, strides=steps,
                                      dilations=apart, ceil_mode=bool(a.ceil_mode))
        if found[-n:] != tuple(out):
            raise _Outside("pads that a window fits into, or negative ones")

        def run(x: _Array) -> tuple[Any, ...]:
            y, places = inner(np.ascontiguousarray(x, dtype).reshape(lens))
            y = y.reshape(*x.shape[:2], *out).astype(x.dtype, copy=False)
            if len(self.onnx_node.output) == 1:
                return (y,)
            if places is None:
                return y, None
            if a.storage_order:
                where = np.unravel_index(places, space)
                places = np.ravel_multi_index(where[::-1], space[::-1])
            image = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(space))
            return y, (places + image * prod(space)).reshape(y.shape)

        return run, why


class AveragePool(MaxPool):
    mode = "miopenPoolingAverage"
    types = _FLOATS


class GlobalMaxPool(_Pool):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        lens = _four_or_five(x.shape)
        inner, _, why = self.pool(x.dtype, lens, lens[2:], self.mode)
        return lambda x: (inner(_packed(x, lens))[0].reshape(*x.shape[:2], *[1] * (x.ndim - 2)),), why


class GlobalAveragePool(GlobalMaxPool):
    mode = "miopenPoolingAverage"


# Normalisation


class BatchNormalization(_Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        count = len(self.onnx_node.output)
        if self.opset >= 14:
            training = bool(a.training_mode)
        elif self.opset >= 7:
            training = count > 1
        else:
            training = not getattr(a, "is_test", 0)
        each = self.opset < 9 and not getattr(a, "spatial", 1)
        mode = enums.miopenBNPerActivation if each else enums.miopenBNSpatial
        lens = _four_or_five(x.shape)
        channels = (1, *lens[1:]) if each else (1, lens[1], *[1] * (len(lens) - 2))
        wide = np.dtype(np.float64 if x.dtype.name == "float64" else np.float32)
        desc, bn_desc = _tensor(x, lens), _tensor(wide, channels)
        handle, epsilon = self.device.handle, float(a.epsilon)

        def parameters(*arrays: _Array) -> list[_Array]:
            return [np.ascontiguousarray(array, wide) for array in arrays]

        if not training:
            plan = handle.batch_norm_inference(mode, desc, desc, bn_desc)

            def infer(x: _Array, *given: _Array) -> tuple[Any, ...]:
                y = np.empty(x.shape, x.dtype)
                self.device.call(lambda *buffers: plan(*buffers, epsilon=epsilon),
                                 (_packed(x, lens), y.reshape(lens), *parameters(*given)), (1,))
                return (y,)

            return infer, plan.solver.name
        plan = handle.batch_norm_training(mode, desc, desc, bn_desc, running=True, save=False)
        m = lens[0] if each else prod(lens) // lens[1]
        momentum = float(a.momentum)

        def train(x: _Array, scale: _Array, bias: _Array, mean: _Array, var: _Array) -> tuple[Any, ...]:
            y = np.empty(x.shape, x.dtype)
            batch_mean, batch_var = np.zeros(channels, wide), np.zeros(channels, wide)
            self.device.call(lambda *buffers: plan(*buffers, None, None, exp_avg_factor=1.0, epsilon=epsilon),
                             (_packed(x, lens), y.reshape(lens), *parameters(scale, bias), batch_mean, batch_var),
                             (1, 4, 5))
            if m > 1:
                batch_var *= (m - 1) / m  # ONNX divides by m
            news = [batch_mean.reshape(mean.shape), batch_var.reshape(var.shape)]
            moved = [momentum * old.astype(wide) + (1 - momentum) * new
                     for old, new in zip((mean, var), news, strict=True)]
            return (y, *(a.astype(mean.dtype) for a in (*moved, *news)))[:count]

        return train, plan.solver.name


class LRN(_Node):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        if a.bias == 0:
            raise _Outside("bias 0")
        lens = (*x.shape[:2], 1, prod(x.shape[2:])) if x.ndim != 4 else x.shape
        lrn = LRNDescriptor(enums.miopenLRNCrossChannel, a.size, float(a.alpha), float(a.beta), float(a.bias))
        desc = _tensor(x, lens)
        plan = self.device.handle.lrn_forward(lrn, desc, desc)

        def run(x: _Array) -> tuple[Any, ...]:
            y = np.empty(x.shape, x.dtype)
            self.device.call(plan, (_packed(x, lens), y.reshape(lens), None)[:len(plan.buffers)], (1,))
            return (y,)

        return run, plan.solver.name

    def numpy(self, attributes: dict[str, Any]) -> _Run:
        a = SimpleNamespace(**attributes)

        def run(x: _Array) -> tuple[Any, ...]:
            squares = np.square(x, dtype=np.float64)
            before, channels = (a.size - 1) // 2, range(x.shape[1])
            sums = np.stack([squares[:, max(0, c - before):c - before + a.size].sum(axis=1) for c in channels], axis=1)
            return ((x / (a.bias + a.alpha / a.size * sums) ** a.beta).astype(x.dtype),)

        return run


class Softmax(_Node):
    algorithm: ClassVar[str] = "MIOPEN_SOFTMAX_ACCURATE"

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        coerced = self.opset < 13  # older versions take all axes from `axis` on for one
        axis = a.axis if self.is_set("axis") else 1 if coerced else -1
        if not -x.ndim <= axis <= x.ndim - (not coerced):
            raise ValueError(f"{self.op_type} over axis {axis} of {x.ndim}")
        axis += x.ndim * (axis < 0)
        lens = (prod(x.shape[:axis]), prod(x.shape[axis:]) if coerced else x.shape[axis], 1,
                1 if coerced else prod(x.shape[axis + 1:]))
        desc = _tensor(x, lens)
        plan = self.device.handle.softmax_forward(desc, desc, algorithm=getattr(enums, self.algorithm),
                                                  mode=enums.MIOPEN_SOFTMAX_MODE_CHANNEL)

        def run(x: _Array) -> tuple[Any, ...]:
            y = np.empty(x.shape, x.dtype)
            self.device.call(plan, (_packed(x, lens), y.reshape(lens)), (1,))
            return (y,)

        return run, plan.solver.name


class LogSoftmax(Softmax):
    algorithm = "MIOPEN_SOFTMAX_LOG"


# Activations


class _Activation(_Node):
    mode: ClassVar[str]

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        return self.activation(inputs[0], self.mode, float(getattr(a, "alpha", None) or 0))

    def activation(self, x: _Array, mode: str, alpha: float = 0, beta: float = 0) -> tuple[_Run, str]:
        desc = _tensor(x, (1, 1, 1, x.size))
        activation = ActivationDescriptor(getattr(enums, mode), alpha, beta)
        plan = self.device.handle.activation_forward(activation, desc, desc)

        def run(x: _Array, *_: Any) -> tuple[Any, ...]:
            y = np.empty(x.shape, x.dtype)
            self.device.call(plan, (_packed(x, -1), y.reshape(-1)), (1,))
            return (y,)

        return run, plan.solver.name


class Relu(_Activation):
    mode = "miopenActivationRELU"


class LeakyRelu(_Activation):
    mode = "miopenActivationLEAKYRELU"


class Elu(_Activation):
    mode = "miopenActivationELU"


class Sigmoid(_Activation):
    mode = "miopenActivationLOGISTIC"


class Softplus(_Activation):
    mode = "miopenActivationSOFTRELU"


class Abs(_Activation):
    mode = "miopenActivationABS"


class Identity(_Activation):
    mode = "miopenActivationPASTHRU"


class Tanh(_Activation):
    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        return self.activation(inputs[0], "miopenActivationTANH", 1, 1)


class Clip(_Activation):
    def key(self, inputs: Sequence[Any]) -> object:
        return super().key(inputs), *(None if bound is None else bound.item() for bound in inputs[1:])

    def prepare(self, inputs: Sequence[Any], a: SimpleNamespace) -> tuple[_Run, str]:
        x = inputs[0]
        bounds = [getattr(a, "min", None), getattr(a, "max", None)] if self.opset < 11 else [*inputs[1:], None, None]
        low, high = (None if bound is None else np.array(bound, x.dtype).reshape(1) for bound in bounds[:2])
        if low is None and high is None:
            return self.activation(x, "miopenActivationPASTHRU")
        if low is not None and high is not None and low[0] == 0 and 0 < high[0] < np.inf:
            return self.activation(x, "miopenActivationCLIPPEDRELU", float(high[0]))
        handle, desc, one = self.device.handle, _tensor(x, (x.size,)), _tensor(x, (1,))

        def call(x: Any, low: Any, high: Any, y: Any) -> None:
            if low is not None:
                miopenOpTensor(handle, enums.miopenTensorOpMax, 1.0, desc, x, 1.0, one, low, 0.0, desc, y)
                x = y
            if high is not None:
                miopenOpTensor(handle, enums.miopenTensorOpMin, 1.0, desc, x, 1.0, one, high, 0.0, desc, y)

        def run(x: _Array, *_: Any) -> tuple[Any, ...]:
            y = np.empty(x.shape, x.dtype)
            self.device.call(call, (_packed(x, -1), low, high, y.reshape(-1)), (3,))
            return (y,)

        return run, ", ".join(word for word, bound in (("max", low), ("min", high)) if bound is not None)


_NODES: tuple[type[_Node], ...] = (
    Conv, ConvTranspose, MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, BatchNormalization, LRN, Softmax,
    LogSoftmax, Relu, LeakyRelu, Elu, Sigmoid, Softplus, Abs, Identity, Tanh, Clip,
)


# The backend


class _Evaluator(ReferenceEvaluator):
    """onnx's evaluator with our nodes; each device has a class, since evaluators of subgraphs are made by the class."""

    device: _Device
    nodes: list[type[OpRun]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "new_ops": self.nodes})
        for node in self.rt_nodes_:
            # Of a node that contains others, those are noted.
            if not isinstance(node, (_Node, OpFunction)) and not node.has_subgraph:
                node.run = _noting(self.device, node)


def _evaluator(device: _Device) -> type[_Evaluator]:
    """Return the evaluator of a device, for graphs, their subgraphs and their functions."""
    nodes: list[type[OpRun]] = [type(node.__name__, (node,), {"device": device}) for node in _NODES]
    return type("_Evaluator", (_Evaluator,), {"device": device, "nodes": nodes})


def _noting(device: _Device, node: OpRun) -> Callable[..., Any]:
    run: Callable[..., Any] = node.run

    def noting(*args: Any, **kwargs: Any) -> Any:
        outputs = run(*args, **kwargs)
        device.ran.append(Ran(node.onnx_node, "numpy", "not an operation of MIOpen"))
        return outputs

    return noting


@cache
def _shared_handle(name: str) -> Handle:
    return Handle(name)


def _device_name(device: str) -> str:
    return "host" if device in ("CPU", "CPU:0") else device


class BackendRep(onnx.backend.base.BackendRep):
    """A model that was prepared to run on a device; for one thread at a time.

    Attributes
    ----------
    handle : Handle
    evaluator : onnx.reference.ReferenceEvaluator
        What runs the nodes; its ``run(None, feeds, intermediate=True)`` returns every value of the graph.
    ran : list of Ran
        The nodes of the last run in their order, those of functions and subgraphs included.
    """

    def __init__(self, proto: Any, device: str | Handle = "CPU", **kwargs: Any) -> None:
        self.handle = device if isinstance(device, Handle) else _shared_handle(_device_name(device))
        self._device = _Device(self.handle)
        self.evaluator = _evaluator(self._device)(proto, **kwargs)
        self._outputs = onnx.backend.base.namedtupledict("Outputs", self.evaluator.output_names)
        self._device.constants = {id(array): [array, None] for array in self.evaluator.rt_inits_.values()}

    @property
    def ran(self) -> list[Ran]:
        return self._device.ran

    def run(self, inputs: Mapping[str, Any] | Sequence[Any] | _Array, **kwargs: Any) -> tuple[Any, ...]:
        """Return the model's outputs, by position or name.

        Parameters
        ----------
        inputs : dict or sequence
            Arrays by name, or in the order of the model's inputs; those with an initialiser may be left out.
        """
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            names = [name for name in dict.fromkeys(self.evaluator.input_names) if name]
            if len(inputs) < len(names):
                names = [name for name in names if name not in self.evaluator.rt_inits_]
            inputs = dict(zip(names, inputs, strict=True))
        self._device.ran.clear()
        feeds = {name: np.asarray(a) if isinstance(a, np.generic) else a for name, a in inputs.items()}
        values = self.evaluator.run(None, feeds)
        return self._outputs(*values)


class Backend(onnx.backend.base.Backend):
    """Runs ONNX models.

    A device is ``"CPU"`` (the host path), a name that `Handle` takes, or a Handle.
    """

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str | Handle = "CPU", **kwargs: Any) -> BackendRep:
        """Return `model`, checked and ready to run on `device`."""
        super().prepare(model, "CPU", **kwargs)
        return BackendRep(model, device)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str | Handle = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of one node; keyword ``opset_version`` says what it means (default: the newest)."""
        super().run_node(node, inputs, "CPU", outputs_info, **kwargs)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        graph = onnx.GraphProto(node=[node], name="node")
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        return BackendRep(graph, device, opsets={"": opset}).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether `device` names a device that works here."""
        try:
            devices.find(_device_name(device))
        except MIOpenError:
            return False
        return True
