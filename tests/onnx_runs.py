"""What the tests of ONNX share: types and their units, and a node that is run alone."""

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from miopyx.onnx import BackendRep

U = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
# What a number below the normal ones is off by when it is rounded.
FLOOR = {"float16": 2.0**-25, "bfloat16": 2.0**-134, "float32": 2.0**-150, "float64": 0.0}
DTYPES = {"float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype("f4"),
          "float64": np.dtype("f8")}


def unit_of_sums(dtype):
    """Return the unit of the arithmetic of a type."""
    return U["float64" if dtype == "float64" else "float32"]


def run(op, device, inputs, opset=22, outputs=1, where="miopyx", constants=(), **attributes):
    """Return what a node computes, and see to it that it is computed where it should be.

    An input that is None is missing; those whose positions are in `constants` are part of the model.
    """
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)],
                            **{k: v for k, v in attributes.items() if v is not None})
    given = {name: x for i, (name, x) in enumerate(zip(names, inputs, strict=True)) if name and i not in constants}
    graph = helper.make_graph([node], "node", [onnx.ValueInfoProto(name=name) for name in given],
                              [onnx.ValueInfoProto(name=name) for name in node.output],
                              [numpy_helper.from_array(inputs[i], names[i]) for i in constants])
    rep = BackendRep(graph, device, opsets={"": opset})
    results = rep.run(given)
    assert [r.where for r in rep.ran] == [where], rep.ran
    for again, first in zip(rep.run(given), results, strict=True):  # what was prepared gives the same
        if op != "Dropout" and isinstance(first, np.ndarray):
            assert again.tobytes() == first.tobytes()
    return results


def integers(rng, shape, dtype):
    """Return integers so small that products and sums are exact."""
    return rng.integers(-4, 5, shape).astype(DTYPES[dtype])
