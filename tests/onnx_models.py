"""Networks as ONNX models with random weights, built layer by layer as PyTorch exports them in training mode's form."""

from math import sqrt

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "float32": TensorProto.FLOAT,
         "float64": TensorProto.DOUBLE}


class Graph:
    """Nodes and weights as they are added; each method returns the name of what it gives.

    Weights are drawn in float32 by the seed, so that models of several types have the same ones.
    """

    def __init__(self, seed, dtype="float32", opset=20):
        self.rng, self.dtype, self.opset = np.random.default_rng(seed), dtype, opset
        self.nodes, self.weights, self.count = [], [], 0

    def add(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}_{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def weight(self, array):
        name = f"w_{len(self.weights)}"
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype(np.float32).astype(helper.tensor_dtype_to_np_dtype(TYPES[self.dtype]))
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def normal(self, *shape):
        """Weights under which activations neither vanish nor explode: shape[1:] terms make a sum."""
        return self.weight(self.rng.standard_normal(shape) * sqrt(2 / np.prod(shape[1:])))

    def conv(self, x, c, k, size, stride=1, groups=1, bias=False):
        more = [self.weight(0.1 * self.rng.standard_normal(k))] if bias else []
        return self.add("Conv", x, self.normal(k, c // groups, size, size), *more, kernel_shape=[size] * 2,
                        strides=[stride] * 2, pads=[size // 2] * 4, group=groups)

    def norm(self, x, k, gain=1.0):
        rng = self.rng
        return self.add("BatchNormalization", x, *map(self.weight, (
            gain * rng.uniform(0.5, 1.5, k), 0.1 * rng.standard_normal(k), 0.1 * rng.standard_normal(k),
            rng.uniform(0.5, 1.5, k))))

    def linear(self, x, k, n):
        """x w + b as PyTorch exports it for inputs of more than two axes."""
        product = self.add("MatMul", x, self.weight(self.rng.standard_normal((k, n)) / sqrt(k)))
        return self.add("Add", self.weight(0.1 * self.rng.standard_normal(n)), product)

    def model(self, x, x_shape, y, y_shape):
        graph = helper.make_graph(self.nodes, "net", [helper.make_tensor_value_info(x, TYPES[self.dtype], x_shape)],
                                  [helper.make_tensor_value_info(y, TYPES[self.dtype], y_shape)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def resnet50(seed, dtype="float32"):
    """He et al. 2015, as torchvision has it: 53 convolutions."""
    g = Graph(seed, dtype)
    y = g.add("Relu", g.norm(g.conv("x", 3, 64, 7, 2), 64))
    y = g.add("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            z = g.add("Relu", g.norm(g.conv(y, c, width, 1), width))
            z = g.add("Relu", g.norm(g.conv(z, width, width, 3, stride), width))
            z = g.norm(g.conv(z, width, 4 * width, 1), 4 * width, 0.3)
            if not block:
                y = g.norm(g.conv(y, c, 4 * width, 1, stride), 4 * width, 0.7)
            y, c = g.add("Relu", g.add("Add", z, y)), 4 * width
    y = g.add("Flatten", g.add("GlobalAveragePool", y), axis=1)
    y = g.add("Gemm", y, g.normal(1000, 2048), g.weight(0.1 * g.rng.standard_normal(1000)), transB=1)
    return g.model("x", ["n", 3, "h", "w"], y, ["n", 1000])


def mobilenet_v2(seed, dtype="float32"):
    """Sandler et al. 2018: 52 convolutions, 17 of them depthwise, ReLU6 as Clip."""
    g = Graph(seed, dtype)
    six = [g.weight(np.array(bound, np.float32)) for bound in (0, 6)]

    def clipped(x):
        return g.add("Clip", x, *six)

    y, c = clipped(g.norm(g.conv("x", 3, 32, 3, 2), 32)), 32
    for expansion, k, blocks, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                        (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            stride, wide, z = 1 if block else first, expansion * c, y
            if expansion > 1:
                z = clipped(g.norm(g.conv(z, c, wide, 1), wide))
            z = clipped(g.norm(g.conv(z, wide, wide, 3, stride, groups=wide), wide))
            z = g.norm(g.conv(z, wide, k, 1), k)
            y, c = g.add("Add", y, z) if stride == 1 and c == k else z, k
    y = clipped(g.norm(g.conv(y, c, 1280, 1), 1280))
    y = g.add("ReduceMean", y, g.weight(np.array([2, 3])), keepdims=0)
    y = g.add("Gemm", y, g.normal(1000, 1280), g.weight(0.1 * g.rng.standard_normal(1000)), transB=1)
    return g.model("x", ["n", 3, "h", "w"], y, ["n", 1000])


def transformer(seed, dtype="float32", width=96, heads=4, gelu="erf", norm="LayerNormalization"):
    """A block of Vaswani et al. 2017 with the norm before each part, as in GPT-2 and ViT: attention and two layers."""
    g = Graph(seed, dtype, 23)
    scalar = {name: g.weight(np.array(value, np.float32)) for name, value in
              (("root", sqrt(width / heads)), ("sqrt2", sqrt(2)), ("one", 1), ("half", 0.5))}
    split = g.weight(np.array([0, 0, heads, width // heads]))
    whole = g.weight(np.array([0, 0, width]))

    def normed(x):
        more = [g.weight(0.1 * g.rng.standard_normal(width))] if norm == "LayerNormalization" else []
        return g.add(norm, x, g.weight(g.rng.uniform(0.5, 1.5, width)), *more, axis=-1)

    h = normed("x")
    q, k, v = (g.add("Transpose", g.add("Reshape", g.linear(h, width, width), split), perm=perm)
               for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = g.add("Softmax", g.add("Div", g.add("MatMul", q, k), scalar["root"]), axis=-1)
    mixed = g.add("Reshape", g.add("Transpose", g.add("MatMul", scores, v), perm=[0, 2, 1, 3]), whole)
    x = g.add("Add", "x", g.linear(mixed, width, width))
    h = g.linear(normed(x), width, 4 * width)
    if gelu == "erf":  # x (1 + erf(x / sqrt 2)) / 2
        inner = g.add("Add", g.add("Erf", g.add("Div", h, scalar["sqrt2"])), scalar["one"])
        h = g.add("Mul", g.add("Mul", h, inner), scalar["half"])
    else:
        h = g.add("Gelu", h, approximate="tanh")
    return g.model("x", ["n", "t", width], g.add("Add", x, g.linear(h, 4 * width, width)),
                   ["n", "t", width])
