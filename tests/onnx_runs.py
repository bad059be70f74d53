"""What the tests of ONNX share: types and their units, and a node that is run alone."""

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from miopyx.onnx import BackendRep

U = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
DTYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype("f4"),
          "float64": np.dtype("f8")}


def unit_of_sums(dtype):
    """Return the unit of the arithmetic of a type."""
    return U["float64" if dtype == "float64" else "float32"]


def run(op, device, inputs, opset=22, outputs=1, where="miopyx", **attributes):
    """Return what a node computes, and see to it that it is computed where it should be; None is a missing input."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)],
                            **{k: v for k, v in attributes.items() if v is not None})
    graph = helper.make_graph([node], "node", [onnx.ValueInfoProto(name=name) for name in names if name],
                              [onnx.ValueInfoProto(name=name) for name in node.output])
    rep = BackendRep(graph, device, opsets={"": opset})
    results = rep.run([x for x in inputs if x is not None])
    assert [r.where for r in rep.ran] == [where], rep.ran
    return results


def integers(rng, shape, dtype):
    """Return integers so small that products and sums are exact."""
    return rng.integers(-4, 5, shape).astype(DTYPES[dtype])
