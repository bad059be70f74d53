"""Operations beside PyTorch, on the real layers of networks, in one process and in turns.

    python bench/versus.py OP [--list resnet50] [--batch 4] [--dtype float32] [--layout nchw] [--device NAME]
                              [--repeat 3] [--beside TYPE] [--json OUT]

OP is conv, which convolutions.py describes, or one that is bound by memory: bnorm, activ, pool, softmax, lrn, bias,
tensor; or all of the latter.  Needs PyTorch, which takes a GPU where the device is one and PyTorch knows CUDA, else the
CPU's cores.  Inputs are new random numbers, outputs are allocated before wherever
PyTorch offers it.  Both sides run for a while in turns, five a repetition (three beside CUDA), each after a call that
is not counted.

Per layer and direction it prints the times of both, medians over the turns, and their ratio, PyTorch's by ours; the
same ratio of each side's best turn, which is the one to look at where other processes take the cores; how many bytes
the operation cannot help to move; how much that is of the bandwidth of a kernel that copies as many bytes, by best
turns, or for small layers calls per second; and the largest error of both of all elements, relative to the largest
element: against the host path in float64, or beside CUDA, where that and numbers by NumPy take ten times as long as all
else, against PyTorch's own float64 in NCHW.

PyTorch's max pooling on CPUs always writes indices, of 64 bits: "forward" is ours without any, "saving" with those of 8
bits that the backward pass needs.  Its batch norm is on CUDA what torch.nn.functional.batch_norm chooses, cuDNN mostly.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Fresh memory costs page faults, which a peer that allocates its outputs would be timed by; PoCL's threads stay on
# their cores.  Both are read when a process starts.
ENVIRONMENT = {"POCL_AFFINITY": "1", "MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000",
               "MALLOC_TOP_PAD_": "500000000"}
LAYERS = Path(__file__).parent / "layers.txt"  # of the operations bound by memory
FILLED = 1 << 29       # bytes at once: NVIDIA's driver writes beside a buffer when it fills one of more than 4 GB
SMALL = 1e6            # bytes, below which launches are what counts
BLOCK_S = 0.01         # about how long a side runs before it is the other's turn
SETTLE_S = 0.01        # before that: PyTorch's threads spin on the cores for a while after their last call
TURNS = 5              # of a repetition
CUDA_BLOCK_S = 0.005   # beside CUDA, where nothing spins; 20 calls at least
CUDA_TURNS = 3
NETWORKS = ["resnet50", "googlenet", "alexnet"]
DTYPES = ("float32", "float16", "bfloat16", "float64")
BYTES = ("float8_e4m3fn", "float8_e5m2")  # of convolutions, beside our own float16: PyTorch has none


@dataclass
class Layer:
    """A line of layers.txt for a batch."""

    op: str
    x: tuple[int, ...]
    count: int
    options: dict[str, str]

    @property
    def name(self) -> str:
        options = "".join(f" {name}={value}" for name, value in self.options.items())
        return f"{self.op} {'x'.join(map(str, self.x))}{options}"

    def pair(self, name: str) -> tuple[int, ...]:
        return tuple(int(i) for i in self.options[name].split("x"))


def layers(networks: list[str], ops: list[str], batch: int) -> Iterator[Layer]:
    for line in LAYERS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        network, op, *words = line.split()
        options = dict(word.split("=") for word in words)
        c, lengths = options.pop("c"), options.pop("in")
        count = int(options.pop("count"))
        if network in networks and op in ops:
            yield Layer(op, (batch, int(c), *map(int, lengths.split("x"))), count, options)


@dataclass
class Work:
    """One direction of an operation on one side.

    `run` is a call, `outputs` its results or functions that return them, `reset` what is done before a call whose
    results are looked at; `bytes` are those that a call cannot help to move.
    """

    direction: str
    run: Callable[[], object]
    outputs: tuple = ()
    bytes: int = 0
    reset: Callable[[], object] = lambda: None


# Sides: what holds arrays and runs operations


class Ours:
    """miopyx on one of its devices.  Arrays are pairs of a buffer and the lengths."""

    where = "cpu"

    def __init__(self, handle, dtype: str, layout: str) -> None:
        import ml_dtypes
        import numpy as np

        self.handle, self.dtype, self.layout = handle, dtype, layout
        self.numpy_type = np.dtype(getattr(ml_dtypes, dtype, dtype))
        self.width = self.numpy_type.itemsize

    def desc(self, lens, dtype=None):
        import miopyx

        if len(lens) < 4:
            return miopyx.TensorDescriptor(dtype or self.dtype, lens)
        layout = {4: {"nchw": miopyx.miopenTensorNCHW, "nhwc": miopyx.miopenTensorNHWC},
                  5: {"nchw": miopyx.miopenTensorNCDHW, "nhwc": miopyx.miopenTensorNDHWC}}[len(lens)][self.layout]
        return miopyx.TensorDescriptor(dtype or self.dtype, lens, layout=layout)

    def stored_type(self, wide):
        """What an array's elements are; `wide` is what parameters have, float32 at least."""
        import numpy as np

        return np.dtype("float32") if wide and self.width < 4 else self.numpy_type

    def array(self, values, wide=False):
        """Memory that holds `values`."""
        import numpy as np

        dtype = self.stored_type(wide)
        stored = np.moveaxis(values, 1, -1) if self.layout == "nhwc" and values.ndim >= 4 else values
        stored = np.ascontiguousarray(stored.astype(dtype, copy=False))
        return self.handle.upload(stored.reshape(-1).view("u1")), values.shape, dtype

    def empty(self, lens, wide=False, value=0):
        """Memory in which every element is `value`."""
        import numpy as np

        dtype = self.stored_type(wide)
        element = np.full(1, value, dtype)
        buffer = self.space(math.prod(lens) * dtype.itemsize, element.view("u1"))
        return buffer, tuple(lens), dtype

    def read(self, array):
        """Return an array's values in float64."""
        import numpy as np

        buffer, lens, dtype = array
        nhwc = self.layout == "nhwc" and len(lens) >= 4
        shape = (lens[0], *lens[2:], lens[1]) if nhwc else lens
        raw = self.handle.download(buffer, np.empty(math.prod(lens) * dtype.itemsize, np.uint8))
        values = raw.view(dtype).reshape(shape)
        return (np.moveaxis(values, -1, 1) if nhwc else values).astype(np.float64)

    def space(self, size, element=None):
        """Memory of some bytes, filled with an element's, or zeros.

        Four bytes at least at once: by one NVIDIA's queue dies of 4 GB, and the next build with it (-9999).
        """
        import numpy as np

        element = np.zeros(4, np.uint8) if element is None else element
        size = -(-max(size, 1) // element.size) * element.size
        if self.handle.device.is_host:
            return self.handle.upload(np.tile(element, size // element.size))
        if self.handle.device.info.cuda >= 0:
            return self.handle.repeated(element, size)
        import pyopencl as cl

        import miopyx

        queue = miopyx.miopenGetStream(self.handle)
        buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
        step = FILLED // element.size * element.size
        for start in range(0, size, step):
            cl.enqueue_fill_buffer(queue, buffer, element, start, min(step, size - start))
        return buffer

    def finish(self) -> None:
        self.handle.finish()


class OursOfTensors(Ours):
    """The same for values that PyTorch holds, which it turns with all cores or a GPU."""

    def __init__(self, handle, dtype: str, layout: str, torch, where: str) -> None:
        super().__init__(handle, dtype, layout)
        self.torch, self.where = torch, where

    def array(self, values, wide=False):
        stored = self.stored_type(wide)
        ordered = values.movedim(1, -1) if self.layout == "nhwc" and values.ndim >= 4 else values
        tensor = ordered.to(getattr(self.torch, stored.name)).contiguous()
        return self.handle.upload(tensor.ravel().view(self.torch.uint8).cpu().numpy()), tuple(values.shape), stored

    def empty(self, lens, wide=False, value=math.nan):
        return super().empty(lens, wide, value)

    def read(self, array):
        """Return an array's values in float64."""
        import numpy as np

        buffer, lens, stored = array
        raw = self.handle.download(buffer, np.empty(math.prod(lens) * stored.itemsize, np.uint8))
        tensor = self.torch.from_numpy(raw).to(self.where).view(getattr(self.torch, stored.name))
        if self.layout == "nhwc" and len(lens) >= 4:
            return tensor.reshape(lens[0], *lens[2:], lens[1]).movedim(-1, 1).double()
        return tensor.reshape(lens).double()


class Theirs:
    """PyTorch, with values of NumPy (convolutions) or its own."""

    def __init__(self, torch, where: str, dtype: str, layout: str) -> None:
        self.torch, self.where, self.layout = torch, where, layout
        self.dtype = getattr(torch, dtype)
        self.wide = torch.float32 if self.dtype in (torch.float16, torch.bfloat16) else self.dtype

    def array(self, values, wide=False):
        if self.torch.is_tensor(values):
            tensor = values
        elif values.dtype.name == "bfloat16":  # which PyTorch does not know from NumPy
            tensor = self.torch.from_numpy(values.view("i2")).view(self.torch.bfloat16)
        else:
            tensor = self.torch.from_numpy(values)
        tensor = tensor.to(self.where, self.wide if wide else self.dtype, copy=True)
        if self.layout == "nhwc" and values.ndim >= 4:
            last = self.torch.channels_last if values.ndim == 4 else self.torch.channels_last_3d
            return tensor.contiguous(memory_format=last)
        return tensor

    def empty(self, lens, wide=False):
        return self.array(self.torch.zeros(lens, device=self.where), wide)

    def read(self, tensor):
        """Return its values in float64."""
        return tensor.detach().double()

    def finish(self) -> None:
        if self.where != "cpu":
            self.torch.cuda.synchronize()


# Operations: the inputs they take, and their directions on either side


class BatchNorm:
    """Spatial; training reads x twice, backward x and dy twice."""

    def inputs(self, layer):
        c = layer.x[1]
        return {"x": layer.x, "dy": layer.x, "scale": (1, c, 1, 1), "bias": (1, c, 1, 1)}

    def ours(self, side, layer, data):
        import miopyx

        h, x_desc, bn = side.handle, side.desc(layer.x), miopyx.miopenCreateTensorDescriptor()
        miopyx.miopenDeriveBNTensorDescriptor(bn, x_desc, miopyx.miopenBNSpatial)
        x, dy = side.array(data["x"]), side.array(data["dy"])
        scale, bias = side.array(data["scale"], True), side.array(data["bias"], True)
        one = data["scale"].shape
        y, dx = side.empty(layer.x), side.empty(layer.x)
        mean, var, saved, inv, ds, db = (side.empty(one, True) for _ in range(6))
        train = h.batch_norm_training(miopyx.miopenBNSpatial, x_desc, x_desc, bn)
        infer = h.batch_norm_inference(miopyx.miopenBNSpatial, x_desc, x_desc, bn)
        back = h.batch_norm_backward(miopyx.miopenBNSpatial, x_desc, x_desc, x_desc, bn)
        inferred = side.empty(layer.x)
        size = math.prod(layer.x) * side.width
        yield Work("training", lambda: train(x[0], y[0], scale[0], bias[0], mean[0], var[0], saved[0], inv[0]),
                   (y,), 3 * size)
        yield Work("inference", lambda: infer(x[0], inferred[0], scale[0], bias[0], bias[0], scale[0]), (inferred,),
                   2 * size)
        yield Work("backward", lambda: back(x[0], dy[0], dx[0], scale[0], ds[0], db[0], saved[0], inv[0]),
                   (dx, ds, db), 5 * size)

    def theirs(self, side, layer, data):
        aten = side.torch.ops.aten
        x, dy = side.array(data["x"]), side.array(data["dy"])
        scale, bias = (side.array(data[name].ravel(), True) for name in ("scale", "bias"))
        y, inferred = side.empty(layer.x), side.empty(layer.x)
        mean, var, saved, inv = (side.torch.zeros_like(scale) for _ in range(4))
        if side.where == "cuda":
            yield from self.chosen(side, x, dy, scale, bias, mean, var)
            return
        nothing, neither = side.empty((0,), True), side.empty((0,), True)
        yield Work("training", lambda: aten.native_batch_norm.out(x, scale, bias, mean, var, True, 0.1, 1e-5, out=y,
                                                                  save_mean=saved, save_invstd=inv), (y,))
        yield Work("inference", lambda: aten.native_batch_norm.out(x, scale, bias, bias, scale, False, 0.1, 1e-5,
                                                                   out=inferred, save_mean=nothing,
                                                                   save_invstd=neither), (inferred,))
        kept = []

        def backward():
            kept[:] = aten.native_batch_norm_backward(dy, x, scale, mean, var, saved, inv, True, 1e-5, [True] * 3)

        yield Work("backward", backward, (lambda: kept[0], lambda: kept[1].reshape(1, -1, 1, 1),
                                          lambda: kept[2].reshape(1, -1, 1, 1)))

    def chosen(self, side, x, dy, scale, bias, mean, var):
        """The three directions by what torch.nn.functional.batch_norm calls."""
        torch, call, kept = side.torch, side.torch._batch_norm_impl_index, {}

        def training():
            with torch.no_grad():
                kept["y"], *kept["saved"] = call(x, scale, bias, mean, var, True, 0.1, 1e-5, True)

        def inference():
            with torch.no_grad():
                kept["inferred"] = call(x, scale, bias, bias, scale, False, 0.1, 1e-5, True)[0]

        def backward():
            *statistics, space, which = kept["saved"]
            kept["back"] = torch.ops.aten._batch_norm_impl_index_backward(
                which, x, dy, scale, mean, var, *statistics, True, 1e-5, [True] * 3, space)

        yield Work("training", training, (lambda: kept["y"],))
        yield Work("inference", inference, (lambda: kept["inferred"],))
        yield Work("backward", backward, tuple(lambda i=i: kept["back"][i].reshape((1, -1, 1, 1) if i else x.shape)
                                               for i in range(3)))


class Activation:
    """ReLU."""

    def inputs(self, layer):
        return {"x": layer.x, "dy": layer.x}

    def ours(self, side, layer, data):
        import miopyx

        desc, relu = side.desc(layer.x), miopyx.ActivationDescriptor(miopyx.miopenActivationRELU)
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(layer.x), side.empty(layer.x)
        forward = side.handle.activation_forward(relu, desc, desc)
        backward = side.handle.activation_backward(relu, desc, desc, desc, desc)
        size = math.prod(layer.x) * side.width
        yield Work("forward", lambda: forward(x[0], y[0]), (y,), 2 * size)
        yield Work("backward", lambda: backward(y[0], dy[0], x[0], dx[0]), (dx,), 3 * size)

    def theirs(self, side, layer, data):
        aten = side.torch.ops.aten
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(layer.x), side.empty(layer.x)
        yield Work("forward", lambda: side.torch.clamp_min(x, 0, out=y), (y,))
        yield Work("backward", lambda: aten.threshold_backward.grad_input(dy, y, 0, grad_input=dx), (dx,))


class Pooling:
    """Maxima without and with their paths, averages over the whole image."""

    def inputs(self, layer):
        return {"x": layer.x, "dy": self.output(layer)}

    def output(self, layer):
        return (*layer.x[:2], *((i + 2 * p - w) // s + 1 for i, p, w, s in zip(
            layer.x[2:], layer.pair("pad"), layer.pair("window"), layer.pair("stride"), strict=True)))

    def ours(self, side, layer, data):
        import miopyx

        lens, pool = self.output(layer), miopyx.miopenCreatePoolingDescriptor()
        largest = layer.options["mode"] == "max"
        miopyx.miopenSet2dPoolingDescriptor(
            pool, miopyx.miopenPoolingMax if largest else miopyx.miopenPoolingAverage, *layer.pair("window"),
            *layer.pair("pad"), *layer.pair("stride"))
        x_desc, y_desc = side.desc(layer.x), side.desc(lens)
        space = side.space(miopyx.miopenPoolingGetWorkSpaceSizeV2(pool, y_desc))
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(lens), side.empty(layer.x)
        forward = side.handle.pooling_forward(pool, x_desc, y_desc)
        backward = side.handle.pooling_backward(pool, y_desc, y_desc, x_desc, x_desc)
        size, out = (math.prod(i) * side.width for i in (layer.x, lens))
        yield Work("forward", lambda: forward(x[0], y[0]), (y,), size + out)
        if not largest:
            yield Work("backward", lambda: backward(dy[0], dx[0]), (dx,), size + out)
            return
        kept = side.empty(lens)
        saving = side.handle.pooling_forward(pool, x_desc, y_desc, True)
        places = math.prod(lens)  # bytes: indices of 8 bits
        yield Work("saving", lambda: saving(x[0], kept[0], space), (kept,), size + out + places)
        yield Work("backward", lambda: backward(dy[0], dx[0], space), (dx,), size + out + places)

    def theirs(self, side, layer, data):
        aten, lens = side.torch.ops.aten, self.output(layer)
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(lens), side.empty(layer.x)
        if layer.options["mode"] != "max":  # over the whole image: what PyTorch itself makes of such a pooling
            yield Work("forward", lambda: side.torch.mean(x, (2, 3), True, out=y), (y,))
            yield Work("backward", lambda: side.torch.div(dy.expand(layer.x), math.prod(layer.x[2:]), out=dx), (dx,))
            return
        where = side.empty(lens).long()
        if side.layout == "nhwc":
            where = where.contiguous(memory_format=side.torch.channels_last)
        geometry = (layer.pair("window"), layer.pair("stride"), layer.pair("pad"), (1, 1), False)

        def forward():
            aten.max_pool2d_with_indices.out(x, *geometry, out=y, indices=where)

        yield Work("forward", forward, (y,))
        yield Work("saving", forward, (y,))
        yield Work("backward", lambda: aten.max_pool2d_with_indices_backward.grad_input(
            dy, x, *geometry, where, grad_input=dx), (dx,))


class Softmax:
    """Over channels."""

    def inputs(self, layer):
        return {"x": layer.x, "dy": layer.x}

    def ours(self, side, layer, data):
        import miopyx

        desc, how = side.desc(layer.x), (miopyx.MIOPEN_SOFTMAX_ACCURATE, miopyx.MIOPEN_SOFTMAX_MODE_CHANNEL)
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(layer.x), side.empty(layer.x)
        forward = side.handle.softmax_forward(desc, desc, *how)
        backward = side.handle.softmax_backward(desc, desc, desc, *how)
        size = math.prod(layer.x) * side.width
        yield Work("forward", lambda: forward(x[0], y[0]), (y,), 2 * size)
        yield Work("backward", lambda: backward(y[0], dy[0], dx[0]), (dx,), 3 * size)

    def theirs(self, side, layer, data):
        aten = side.torch.ops.aten
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(layer.x), side.empty(layer.x)
        yield Work("forward", lambda: aten._softmax.out(x, 1, False, out=y), (y,))
        yield Work("backward", lambda: aten._softmax_backward_data.out(dy, y, 1, x.dtype, grad_input=dx), (dx,))


class LRN:
    """Across channels, with GoogLeNet's coefficients, without and with its scales.

    PyTorch has no kernel for it: forward is some ten operations, the gradient is autograd's.
    """

    coefficients = (1e-4, 0.75, 1.0)

    def inputs(self, layer):
        return {"x": layer.x, "dy": layer.x}

    def ours(self, side, layer, data):
        import miopyx

        desc = side.desc(layer.x)
        lrn = miopyx.LRNDescriptor(miopyx.miopenLRNCrossChannel, int(layer.options["n"]), *self.coefficients)
        x, dy, y, dx = side.array(data["x"]), side.array(data["dy"]), side.empty(layer.x), side.empty(layer.x)
        kept = side.empty(layer.x)
        space = side.space(miopyx.miopenLRNGetWorkSpaceSize(desc))
        forward = side.handle.lrn_forward(lrn, desc, desc)
        saving = side.handle.lrn_forward(lrn, desc, desc, True)
        backward = side.handle.lrn_backward(lrn, desc, desc, desc, desc)
        size = math.prod(layer.x) * side.width
        scales = math.prod(layer.x) * max(4, side.width)
        yield Work("forward", lambda: forward(x[0], y[0]), (y,), 2 * size)
        yield Work("saving", lambda: saving(x[0], kept[0], space), (kept,), 2 * size + scales)
        yield Work("backward", lambda: backward(kept[0], dy[0], x[0], dx[0], space), (dx,), 4 * size + scales)

    def theirs(self, side, layer, data):
        torch = side.torch
        x, dy = side.array(data["x"]), side.array(data["dy"])
        tracked = x.clone(memory_format=torch.preserve_format).requires_grad_()
        kept = {}

        def normalised(of):
            return torch.nn.functional.local_response_norm(of, int(layer.options["n"]), *self.coefficients)

        def forward():
            with torch.no_grad():
                kept["y"] = normalised(x)

        def saving():
            kept["saved"] = normalised(tracked)

        def backward():
            kept["dx"] = torch.autograd.grad(kept["saved"], tracked, dy, retain_graph=True)[0]

        yield Work("forward", forward, (lambda: kept["y"],))
        yield Work("saving", saving, (lambda: kept["saved"],))
        yield Work("backward", backward, (lambda: kept["dx"],))


class Bias:
    """In place; backward sums."""

    def inputs(self, layer):
        return {"y": layer.x, "b": (1, layer.x[1], 1, 1)}

    def ours(self, side, layer, data):
        import miopyx

        h, y_desc, b_desc = side.handle, side.desc(layer.x), side.desc(data["b"].shape)
        y, b, db = side.array(data["y"]), side.array(data["b"]), side.empty(data["b"].shape)
        fresh = side.array(data["y"])
        size = math.prod(layer.x) * side.width
        copy = miopyx.miopenConvolutionForwardBias
        used = [y]

        def reset():
            used[0] = side.array(data["y"])

        yield Work("forward", lambda: copy(h, 1.0, b_desc, b[0], 0.0, y_desc, used[0][0]), (lambda: used[0],),
                   2 * size, reset)
        yield Work("backward", lambda: miopyx.miopenConvolutionBackwardBias(h, 1.0, y_desc, fresh[0], 0.0, b_desc,
                                                                            db[0]), (db,), size)

    def theirs(self, side, layer, data):
        fresh, b, db = side.array(data["y"]), side.array(data["b"]), side.empty(data["b"].shape)
        used = [side.array(data["y"])]

        def reset():
            used[0] = side.array(data["y"])

        yield Work("forward", lambda: used[0].add_(b), (lambda: used[0],), 0, reset)
        yield Work("backward", lambda: side.torch.sum(fresh, (0, 2, 3), True, out=db), (db,))


class Tensor:
    """Sums and products of two tensors of the same lengths."""

    def inputs(self, layer):
        return {"a": layer.x, "b": layer.x}

    def ours(self, side, layer, data):
        import miopyx

        desc = side.desc(layer.x)
        a, b, c, d = side.array(data["a"]), side.array(data["b"]), side.empty(layer.x), side.empty(layer.x)
        add = side.handle.op_tensor(miopyx.miopenTensorOpAdd, desc, desc, desc)
        multiply = side.handle.op_tensor(miopyx.miopenTensorOpMul, desc, desc, desc)
        size = 3 * math.prod(layer.x) * side.width
        yield Work("add", lambda: add(a[0], b[0], c[0]), (c,), size)
        yield Work("multiply", lambda: multiply(a[0], b[0], d[0]), (d,), size)

    def theirs(self, side, layer, data):
        a, b, c, d = side.array(data["a"]), side.array(data["b"]), side.empty(layer.x), side.empty(layer.x)
        yield Work("add", lambda: side.torch.add(a, b, out=c), (c,))
        yield Work("multiply", lambda: side.torch.mul(a, b, out=d), (d,))


OPS = {"bnorm": BatchNorm(), "activ": Activation(), "pool": Pooling(), "softmax": Softmax(), "lrn": LRN(),
       "bias": Bias(), "tensor": Tensor()}


# Measuring


COPY = """
__kernel void copy_pieces(__global const float16 *from, __global float16 *to, long count)
{
    const long piece = get_group_id(0), pieces = get_num_groups(0);
    for (long i = piece * count / pieces; i < (piece + 1) * count / pieces; i++)
        to[i] = from[i];
}
__kernel void copy_elements(__global const float4 *from, __global float4 *to, long count)
{
    if (get_global_id(0) < count)
        to[get_global_id(0)] = from[get_global_id(0)];
}
"""


class Copy:
    """A kernel that reads half of some bytes and writes as many: long pieces on CPUs, neighbours' elements on GPUs."""

    def __init__(self, handle) -> None:
        import pyopencl as cl

        import miopyx

        self.queue, self.dev = miopyx.miopenGetStream(handle), handle.device
        self.program = cl.Program(self.queue.context, COPY).build()
        self.buffers: dict[int, tuple] = {}

    def run(self, moved: int) -> Callable[[], object]:
        import pyopencl as cl

        half = max(64, moved // 2 // 64 * 64)
        flags = cl.mem_flags.READ_WRITE
        if half not in self.buffers:
            self.buffers = {half: tuple(cl.Buffer(self.queue.context, flags, half) for _ in range(2))}
            for buffer in self.buffers[half]:
                cl.enqueue_fill_buffer(self.queue, buffer, b"\0" * 4, 0, half)
        a, b = self.buffers[half]
        import numpy as np

        if self.dev.is_cpu:
            kernel, groups = cl.Kernel(self.program, "copy_pieces"), 8 * self.dev.compute_units
            kernel.set_args(a, b, np.int64(half // 64))
            return lambda: cl.enqueue_nd_range_kernel(self.queue, kernel, (groups,), (1,))
        kernel, count = cl.Kernel(self.program, "copy_elements"), half // 16
        kernel.set_args(a, b, np.int64(count))
        return lambda: cl.enqueue_nd_range_kernel(self.queue, kernel, (-(-count // 256) * 256,), (256,))


def block(run: Callable[[], object], finish: Callable[[], None], calls: int) -> float:
    """Return the seconds of a call; the first one after another side's turn is not counted."""
    run()
    finish()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    finish()
    return (time.perf_counter() - start) / calls


def in_turns(sides: list[tuple[Callable[[], object], Callable[[], None]]], repeat: int,
             least: int, on_cuda: bool = False) -> list[list[float]]:
    """Return the seconds of a call of each side, turn by turn."""
    seconds, settle, turns = (CUDA_BLOCK_S, 0, CUDA_TURNS) if on_cuda else (BLOCK_S, SETTLE_S, TURNS)
    counts = [max(least, math.ceil(seconds / block(run, finish, 2))) for run, finish in sides]
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(repeat * turns):
        for found, (run, finish), calls in zip(times, sides, counts, strict=True):
            time.sleep(settle)
            found.append(block(run, finish, calls))
    return times


def results(side, work: Work) -> list:
    """Run once and return what came out, in float64."""
    work.reset()
    work.run()
    side.finish()
    return [side.read(output() if callable(output) else output) for output in work.outputs]


def error(found: list, truth: list) -> float:
    """Return the largest difference, relative to the largest element of each output; nan where anything is."""
    errors = [float((a.reshape(b.shape) - b).abs().max()) / max(float(b.abs().max()), 1e-300)
              for a, b in zip(found, truth, strict=True)]
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def works(op, side: OursOfTensors | Theirs, layer: Layer, data: dict) -> Iterator[Work]:
    return (op.theirs if isinstance(side, Theirs) else op.ours)(side, layer, data)


def measure(layer: Layer, ours: OursOfTensors, theirs: OursOfTensors | Theirs, exact: OursOfTensors | Theirs,
            copy: Copy | None, repeat: int) -> Iterator[dict]:
    torch, where, op = ours.torch, ours.where, OPS[layer.op]
    # Rounded once, so that all begin with the same numbers; parameters are positive, as variances must be.
    data = {name: torch.rand(lens, device=where) + 0.5 if name in ("scale", "bias") else torch.randn(lens, device=where)
            for name, lens in op.inputs(layer).items()}
    data = {name: values.to(getattr(torch, ours.dtype)).double() for name, values in data.items()}
    for mine, peer, true in zip(*(works(op, side, layer, data) for side in (ours, theirs, exact)), strict=True):
        assert mine.direction == peer.direction
        truth = results(exact, true)
        row = {"op": layer.op, "layer": layer.name, "count": layer.count, "direction": mine.direction,
               "bytes": mine.bytes, "error": error(results(ours, mine), truth),
               "torch_error": error(results(theirs, peer), truth)}
        sides = [(mine.run, ours.finish), (peer.run, theirs.finish)]
        if copy is not None:
            sides.append((copy.run(mine.bytes), ours.finish))
        least = 20 if ours.handle.device.is_gpu else 1
        for side, times in zip(("miopyx", "torch", "copy"), in_turns(sides, repeat, least, where == "cuda"),
                               strict=False):
            row[side], row[f"{side}_best"] = statistics.median(times), min(times)
        yield row


def share_of_copy(row: dict) -> float:
    return row["copy_best"] / row["miopyx_best"]


def line_of(row: dict) -> str:
    if row["bytes"] < SMALL:
        rate = f"{1 / row['miopyx']:9.0f}/s"
    else:
        rate = f"{row['bytes'] / row['miopyx'] * 1e-9:6.1f} GB/s"
        rate += f" {share_of_copy(row):5.0%}" if "copy" in row else ""
    return (f"{row['layer']:58} x{row['count']:<2} {row['direction']:9} {row['miopyx'] * 1e6:9.1f} "
            f"{row['torch'] * 1e6:9.1f} {row['torch'] / row['miopyx']:6.2f} "
            f"{row['torch_best'] / row['miopyx_best']:6.2f} {row['bytes'] * 1e-6:8.2f} {rate:18} {row['error']:8.1e} "
            f"{row['torch_error']:8.1e}")


def summary(rows: list[dict]) -> Iterator[str]:
    """Yield for each operation and direction the means over layers, and the ratio of all layers' times."""
    for op, direction in dict.fromkeys((row["op"], row["direction"]) for row in rows):
        same = [row for row in rows if (row["op"], row["direction"]) == (op, direction)]
        ratios = [row["torch"] / row["miopyx"] for row in same]
        best = [row["torch_best"] / row["miopyx_best"] for row in same]
        totals = [sum(row["count"] * row[side] for row in same) for side in ("torch_best", "miopyx_best")]
        large = [share_of_copy(row) for row in same if "copy" in row and row["bytes"] >= SMALL]
        share = f", {statistics.geometric_mean(large):.0%} of a copy's bandwidth" if large else ""
        yield (f"{op:8} {direction:9} {statistics.geometric_mean(ratios):6.2f} times PyTorch's speed by medians; by "
               f"best turns {statistics.geometric_mean(best):.2f}, least {min(best):.2f}, with each layer as often as "
               f"there {totals[0] / totals[1]:.2f}{share}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("op", choices=["conv", *OPS, "all"])
    parser.add_argument("--list", default="all", help="resnet50, googlenet, alexnet or all; of conv resnet50, vgg16, "
                        "googlenet, densenet121, inception3, extra, depthwise, grouped, fft, small, modern, odd, "
                        "volumes, signals, sd-unet, unet3d or all")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--dtype", default="float32", choices=(*DTYPES, *BYTES))
    parser.add_argument("--beside", choices=DTYPES, help="our own in this type instead of PyTorch (8 bits: float16)")
    parser.add_argument("--layout", default="nchw", choices=["nchw", "nhwc"])
    parser.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of PyTorch")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--directions", default="FBW", help="of conv: letters of F, B and W")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT",
                        help="of conv: layers with this in a word of their line (may be repeated)")
    parser.add_argument("--exhaustive", action="store_true", help="of conv: search for the best configurations first")
    parser.add_argument("--plain", action="store_true", help="of conv: only what Find takes and PyTorch")
    parser.add_argument("--tf32", action="store_true", help="of conv in float32: factors of 11 bits, on both sides")
    parser.add_argument("--sync", action="store_true", help="of conv: also calls that are waited for one by one")
    parser.add_argument("--db", metavar="FOLDER", help="of conv: where Find's records go, which then count (default: "
                        "a new folder)")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.db and not options.plain:
        parser.error("--db needs --plain: DYNAMIC_HYBRID would be answered by NORMAL's records")
    if options.dtype in BYTES:
        options.beside = options.beside or "float16"
    if options.dtype in BYTES and options.op != "conv":
        parser.error("8 bits are for conv")
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ENVIRONMENT})
    try:
        import torch
    except ImportError:
        sys.exit("PyTorch is not installed")
    if options.op == "conv":
        with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as folder:
            run_convolutions(parser, options, torch, options.db or folder)
        return
    networks = NETWORKS if options.list == "all" else [options.list]
    if options.list not in (*NETWORKS, "all"):
        parser.error(f"no list {options.list}")

    import miopyx

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(True)
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(time.time_ns())
    handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
    where = "cuda" if handle.device.is_gpu and torch.cuda.is_available() else "cpu"
    ours = OursOfTensors(handle, options.dtype, options.layout, torch, where)
    theirs, exact = Theirs(torch, where, options.dtype, options.layout), Theirs(torch, where, "float64", "nchw")
    peer = f"PyTorch {torch.__version__} on {where}"
    if options.beside:
        theirs = OursOfTensors(handle, options.beside, options.layout, torch, where)
        peer = f"our own {options.beside}"
    if where == "cpu":
        exact = OursOfTensors(miopyx.Handle("host"), "float64", "nchw", torch, where)
    copy = None if handle.device.is_host else Copy(handle)
    print(f"{handle.device.name} beside {peer}, batch {options.batch}, "
          f"{options.dtype}, {options.layout}; load {os.getloadavg()[0]:.1f}")
    print(f"{'layer':58} {'':3} {'':9} {'us':>9} {'PyTorch':>9} {'ratio':>6} {'best':>6} {'MB':>8} {'of a copy':>18} "
          f"{'error':>8} {'PyTorch':>8}")
    rows = []
    for layer in layers(networks, list(OPS) if options.op == "all" else [options.op], options.batch):
        for row in measure(layer, ours, theirs, exact, copy, options.repeat):
            rows.append(row)
            print(line_of(row), flush=True)
    print(*summary(rows), sep="\n")
    store(options, handle, peer.removeprefix("PyTorch "), rows)


def run_convolutions(parser: argparse.ArgumentParser, options: argparse.Namespace, torch, folder: str) -> None:
    """Measure convolutions with databases of their own, in `folder`."""
    os.environ.update(MIOPEN_USER_DB_PATH=folder, MIOPEN_FIND_MODE="NORMAL")
    if options.db:  # only what this bench measured counts
        os.environ["MIOPEN_SYSTEM_DB_PATH"] = folder
    else:  # a handle's own times are all that Find goes by
        os.environ["MIOPEN_DEBUG_DISABLE_FIND_DB"] = "1"
    import convolutions

    import miopyx

    if options.list not in (*convolutions.LISTS, "all") or not set(options.directions) <= set("FBW"):
        parser.error("no such list, or no such direction")
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, options.tf32
    handles = [miopyx.Handle(options.device) if options.device else miopyx.Handle() for _ in range(2)]
    device = handles[0].device
    where = "cuda" if device.is_gpu and torch.cuda.is_available() else "cpu"
    if where == "cuda":
        ours, hybrid = (OursOfTensors(handle, options.dtype, options.layout, torch, where) for handle in handles)
        exact = Theirs(torch, where, "float64", "nchw")
    else:
        ours, hybrid = (Ours(handle, options.dtype, options.layout) for handle in handles)
        exact = miopyx.Handle("host")
    hybrid = None if options.plain else hybrid
    peer = f"PyTorch {torch.__version__} on {where}"
    if options.beside:
        handle = miopyx.Handle(options.device) if options.device else miopyx.Handle()
        peer = f"our own {options.beside}"
        theirs = (OursOfTensors(handle, options.beside, options.layout, torch, where) if where == "cuda"
                  else Ours(handle, options.beside, options.layout))
    else:
        theirs = Theirs(torch, where, options.dtype, options.layout)
    print(f"{device.name} beside {peer}, batch {options.batch}, {options.dtype}, "
          f"{options.layout}{', tuned' if options.exhaustive else ''}; load {os.getloadavg()[0]:.1f}")
    rows = []
    for network in convolutions.LISTS if options.list == "all" else [options.list]:
        print(f"{network}\n{convolutions.HEADER}")
        found = []
        for layer in convolutions.layers(network, options.batch, options.only):
            for row in convolutions.measure(layer, options.directions, ours, hybrid, theirs, exact, in_turns,
                                            options.repeat, options.exhaustive, options.sync, options.tf32):
                found.append({"list": network, **row})
                print(convolutions.line_of(row), flush=True)
            store(options, handles[0], peer.removeprefix("PyTorch "), rows + found)  # whoever stops it keeps these
        print(*convolutions.summary(found), sep="\n", flush=True)
        rows += found


def store(options: argparse.Namespace, handle, peer: str, rows: list[dict]) -> None:
    """Write the file that was asked for."""
    if options.json:
        from fingerprint import fingerprint

        from miopyx.database import paths

        names = ("batch", "dtype", "beside", "layout", "threads", "repeat")
        settings = {name: getattr(options, name) for name in names}
        Path(options.json).write_text(json.dumps({
            **settings, "code": paths.build(), "device": handle.device.name, "torch": peer,
            "fingerprint": fingerprint(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
