"""A backend for ONNX models (`onnx.backend.base`): MIOpen's operations on a device of miopyx, the rest in NumPy.

``Backend.prepare(model, device)`` returns a `BackendRep`, whose ``run(inputs)`` computes the model's outputs.  These
nodes run through miopyx:

- Conv, ConvTranspose, ConvInteger, QLinearConv, Gemm, MatMul;
- LSTM, GRU with `linear_before_reset`, RNN;
- MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool;
- BatchNormalization, InstanceNormalization, LayerNormalization, GroupNormalization, RMSNormalization, LRN, Softmax,
  LogSoftmax;
- ReduceSum, -Mean, -Max, -Min, -Prod, -L1, -L2, -SumSquare, -LogSum;
- Relu, LeakyRelu, Elu, Sigmoid, Tanh, Softplus, Abs, Clip, HardSigmoid, HardSwish, Erf, Gelu, Add, Sum, Sub, Mul, Div
  by a number, Neg, Cast between floating-point types, Dropout;
- Transpose, Slice, Split, Concat, Gather of one place; Reshape, Flatten, Squeeze, Unsqueeze and Identity only give
  elements other lengths.

Every other node is computed by `onnx.reference`, which is NumPy.  So are these, since MIOpen has nothing for them:

- tensors that are not float16, bfloat16, float32 or float64 (but for max pooling of 8-bit integers, which float32 holds
  exactly, and convolutions of 8-bit integers), that are empty, or that are no tensors at all;
- more than three spatial axes of a convolution or a pooling window, and pads that such a window fits into;
- tensors that are repeated along axes of both operands; matrices of a product that are; steps backwards;
- more than five axes that cannot be joined; LRN with a bias of 0; squares of 16 bits that are summed; Erf and Gelu of
  float64.

What the functions do not know is expressed by padding, cutting, reshaping or casting around them: negative pads,
`output_shape`, 1-D pooling, any softmax axis, indices in column-major order.  NaN is treated as MIOpen does: max
pooling never chooses it, Clip makes a bound of it.

Values stay on the device: a tensor goes there once, where the first node reads it, and comes back where NumPy computes
a node or the model returns it.  What follows a convolution, a product of matrices or a batch norm becomes one call with
it where it can; `BackendRep.fusions` says what, and why no more.

`BackendRep.ran` says of each node of the last run where it was computed, by what, or why not by miopyx.  Needs the
extra ``onnx``.
"""

from .backend import Backend, BackendRep
from .fusion import Fusion
from .values import Ran

__all__ = ["Backend", "BackendRep", "Fusion", "Ran"]
