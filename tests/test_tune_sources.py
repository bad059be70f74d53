"""What `miopyx tune` reads: nothing in a file becomes a wrong problem, or a traceback, without being said."""

import contextlib
import json
import random
import re
import warnings

import numpy as np
import pytest

from miopyx.errors import MIOpenError
from miopyx.tools import cli
from miopyx.tools.driver.options import FLAGS, UsageError
from miopyx.tools.tune import sources

FIRST = "4-7-7-3x3-5-7-7-{}-1x1-1x1-1x1-0-NCHW-FP32-F"
INNER = "5-7-7-3x3-5-7-7-{}-1x1-1x1-1x1-0-NCHW-FP32-F"


def read(*names, logs=(), **options):
    return sources.read([str(name) for name in names], [str(name) for name in logs], sources.Options(**options))


def layers(found):
    return {one.layer.partition(" ")[2]: one.key for one in found.wanted}


# ONNX


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx")


def constant(name, *lens):
    from onnx import numpy_helper

    return numpy_helper.from_array(np.ones(lens, np.float32), name)


def value(name, *lens, kind=1):
    from onnx import helper

    return helper.make_tensor_value_info(name, kind, lens if lens != (None,) else None)


def model_of(nodes, lens=(1, 4, 7, 7), constants=()):
    """Return a model from x to y."""
    from onnx import helper

    constants = constants or [constant("w", 5, 4, 3, 3)]
    return helper.make_model(helper.make_graph(nodes, "g", [value("x", *lens)], [value("y", None)], constants),
                             opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def node(kind, inputs=("x", "w"), output="y", name="that one", **attributes):
    from onnx import helper

    return helper.make_node(kind, list(inputs), [output], name, **attributes)


def saved(folder, model, name="m.onnx"):
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("made", "words"), [
    ({"inputs": ["x"]}, "two inputs"),
    ({"inputs": ["x", ""]}, "two inputs"),
    ({"inputs": ["x", "nothing"]}, "lengths of 'nothing'"),
    ({"pads": [1, 1]}, r"pads = \[1, 1\]; allowed: 4 numbers"),
    ({"pads": [-1, 0, 0, 0]}, "negative pads"),
    ({"strides": [2]}, r"strides = \[2\]; allowed: 2 numbers"),
    ({"strides": "aa"}, "strides = 'STRING'; allowed: '?INTS"),
    ({"strides": [0, 1]}, "below 1"),
    ({"dilations": [1, -1]}, "below 1"),
    ({"dilations": [1.0, 1.0]}, "dilations = 'FLOATS"),
    ({"kernel_shape": [5, 5]}, "kernel_shape"),
    ({"group": 0}, "channels and groups"),
    ({"group": 2}, "channels and groups"),
    ({"group": [1]}, "group = 'INTS"),
    ({"auto_pad": "SAME"}, "auto_pad = 'SAME"),
    ({"auto_pad": b"\xff"}, "auto_pad"),
    ({"auto_pad": 1}, "auto_pad = 'INT"),
    ({"strides": [2**31, 1]}, "out of range"),
    ({"kind": "ConvTranspose", "pads": [0]}, "pads"),
    ({"kind": "ConvTranspose", "output_shape": [9]}, "output_shape"),
    ({"kind": "ConvTranspose"}, "channels and groups"),
    ({"kind": "ConvInteger"}, "ConvInteger is not measured"),
    ({"kind": "FusedConv", "domain": "com.microsoft"}, "FusedConv is not measured"),
    ({"kind": "MatMul"}, "rank of a matrix")])
def test_a_node_that_makes_no_problem_is_refused_by_name(onnx, tmp_path, made, words):
    made = {"kind": "Conv", **made}
    found = read(saved(tmp_path, model_of([node(**made)])))
    assert not found.wanted
    assert len(found.refused) == 1
    assert found.refused[0].startswith("m.onnx, that one: ")
    assert re.search(words, found.refused[0])


@pytest.mark.parametrize(("kind", "lens", "attributes"), [
    ("MatMul", (2, 7), {}), ("MatMul", (7,), {}), ("Gemm", (2, 7), {}), ("Gemm", (4, 7), {"transB": 1}),
    ("Gemm", (7, 3), {"transA": 1}), ("Gemm", (2, 2, 4), {}), ("Gemm", (2, 4), {"transB": [1]})])
def test_products_that_do_not_fit(onnx, tmp_path, kind, lens, attributes):
    found = read(saved(tmp_path, model_of([node(kind, **attributes)], lens, [constant("w", 4, 3)])))
    assert not found.wanted
    assert len(found.refused) == 1


def test_a_type_that_is_none(onnx, tmp_path):
    for kind, words in ((0, "elem_type"), (99, "elem_type"), (8, "data_type")):  # 8: text
        model = model_of([node("Conv")])
        model.graph.initializer[0].data_type = model.graph.input[0].type.tensor_type.elem_type = kind
        found = read(saved(tmp_path, model))
        assert not found.wanted
        assert words in found.refused[0]
    model = model_of([node("Conv")])
    model.graph.initializer[0].data_type = onnx.TensorProto.FLOAT16
    assert "types differ" in read(saved(tmp_path, model)).refused[0]


def test_a_file_that_is_no_model(onnx, tmp_path, capsys):
    without = model_of([node("Conv")])
    without.ClearField("opset_import")
    path = tmp_path / "m.onnx"
    for content in (b"", b"nonsense", bytes(range(256)) * 9, without.SerializeToString()):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=r"m\.onnx: no ONNX model"):
            read(path)
    assert cli.main(["tune", str(path)]) == 2
    assert "no ONNX model" in capsys.readouterr().err


def test_shapes_that_a_file_has_are_not_those_of_another_batch(onnx, tmp_path):
    nodes = [node("Conv", output="a", name="first", pads=[1] * 4),
             node("Conv", ["a", "v"], name="second", pads=[1] * 4)]
    model = onnx.shape_inference.infer_shapes(
        model_of(nodes, constants=[constant("w", 5, 4, 3, 3), constant("v", 5, 5, 3, 3)]))
    assert layers(read(saved(tmp_path, model))) == {"first": FIRST.format(1), "second": INNER.format(1)}
    assert layers(read(saved(tmp_path, model), batch=8)) == {"first": FIRST.format(8), "second": INNER.format(8)}


def test_lengths_that_vary_are_refused(onnx, tmp_path):
    nodes = [node("Conv", pads=[1] * 4)]
    path = saved(tmp_path, model_of(nodes, ("n", 4, 7, 7)))
    assert "--batch" in read(path).refused[0]
    assert layers(read(path, batch=3)) == {"that one": FIRST.format(3)}
    found = read(saved(tmp_path, model_of(nodes, ("n", 4, "h", 7))), batch=3)
    assert not found.wanted
    assert "lengths of 'x'" in found.refused[0]


def nested():
    """Return a model with convolutions in the bodies of If, Loop and Scan, and in a function."""
    from onnx import TensorProto, helper, numpy_helper

    def body(name, nodes, inputs=(), outputs=(), constants=()):
        return helper.make_graph(nodes, name, list(inputs), [value(one, None) for one in outputs], list(constants))

    then = body("then", [node("Relu", ["x"], "t", ""), node("Conv", ["t", "w"], "u", "of then", pads=[1] * 4)], (), "u")
    other = body("else", [node("Conv", ["x", "x2"], "v", "", pads=[1] * 4)], (), "v", [constant("x2", 5, 4, 3, 3)])
    flag = TensorProto.BOOL
    loop = body("loop", [node("Conv", ["s", "w2"], "s1", "of the state", pads=[1] * 4),
                         node("Conv", ["a", "w2"], "s2", "of the outside", pads=[1] * 4),
                         node("Identity", ["c"], "c1", "")],
                [value("i", kind=TensorProto.INT64), value("c", kind=flag), value("s", None)], ["c1", "s1", "s2"])
    scan = body("scan", [node("Conv", ["e", "w2"], "f", "of the sequence", pads=[1] * 4),
                         node("Identity", ["k"], "k1", "")],
                [value("k", None), value("e", None)], ["k1", "f"])
    function = helper.make_function("own", "F", ["p", "q"], ["r"], [node("Conv", ["p", "q"], "r", "", pads=[1] * 4)],
                                    [helper.make_opsetid("", 21)])
    graph = helper.make_graph(
        [helper.make_node("If", ["b"], ["a"], "if", then_branch=then, else_branch=other),
         helper.make_node("Loop", ["n", "b", "a"], ["l", "l2"], "loop", body=loop),
         helper.make_node("Scan", ["k0", "seq"], ["k2", "z"], "scan", body=scan, num_scan_inputs=1),
         helper.make_node("F", ["x", "w"], ["y"], "call", domain="own")],
        "g", [value("x", "n", 4, 7, 7), value("b", kind=flag), value("k0", 1), value("seq", "n", 2, 5, 7, 7)],
        [value(name, None) for name in ("l", "z", "y")],
        [constant("w", 5, 4, 3, 3), constant("w2", 5, 5, 3, 3), numpy_helper.from_array(np.array(3), "n")])
    return helper.make_model(graph, functions=[function],
                             opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("own", 1)])


def test_bodies_and_functions_are_read(onnx, tmp_path):
    found = read(saved(tmp_path, nested()), batch=1)
    made = layers(found)
    function = [name for name in made if "/" not in name]
    assert [made.pop(name) for name in function] == [FIRST.format(1)]
    assert made == {
        "if/then_branch/of then": FIRST.format(1), "if/else_branch/Conv 0": FIRST.format(1),
        "loop/body/of the outside": INNER.format(1), "scan/body/of the sequence": INNER.format(2)}
    assert len(found.refused) == 1
    assert "m.onnx, loop/body/of the state: lengths of 's'" in found.refused[0]  # may vary from turn to turn


def test_a_name_inside_hides_one_outside(onnx, tmp_path):
    model = nested()
    loop = model.graph.node[1].attribute[0].g
    loop.node[0].input[0] = loop.input[2].name = "seq"
    found = read(saved(tmp_path, model), batch=1)
    assert "loop/body/of the state: lengths of 'seq'" in found.refused[0]


def attribute_of(rng, node):
    """Put an attribute of any type in the place of one that convolutions read."""
    from onnx import AttributeProto, helper

    name = rng.choice(["pads", "strides", "dilations", "kernel_shape", "group", "auto_pad", "output_padding",
                       "output_shape", "transA", "transB"])
    for i in reversed(range(len(node.attribute))):
        if node.attribute[i].name == name:
            del node.attribute[i]
    given = rng.choice([[1, 1], [-1, 2], [2**62, 1], [2**31, 1], [1] * 4, [0, 0], [3] * 6, 0, -1, 2**63 - 1, 5, "aa",
                        "SAME", "SAME_LOWER", b"\xff", 1.5, [1.5, 2.0], ["a"]])
    node.attribute.append(helper.make_attribute(name, given))
    if rng.random() < 0.2:
        node.attribute[-1].type = rng.choice(AttributeProto.AttributeType.values())


def broken(rng, model):
    """Return the bytes of a model that is broken somewhere."""
    from onnx import ModelProto

    if rng.random() < 0.5:
        copy = ModelProto()
        copy.CopyFrom(model)
        for one in rng.sample(list(copy.graph.node), 2):
            attribute_of(rng, one)
            if rng.random() < 0.3 and one.input:
                one.input[rng.randrange(len(one.input))] = rng.choice(["", "x", "w", "nowhere", "a"])
        tensor = rng.choice(copy.graph.initializer)
        if rng.random() < 0.3:
            tensor.data_type = rng.choice([0, 7, 8, 10, 14, 16, 22, 99])
        if rng.random() < 0.2:
            tensor.dims[:] = rng.choice([[], [0], [3], [2**62] * 4, [-1, 2, 3, 3], [6, 2, 2**40, 3]])
        return copy.SerializeToString()
    content = bytearray(model.SerializeToString())
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        place = rng.randrange(len(content))
        content[place:place + rng.randrange(3)] = rng.choice(
            (b"", rng.randbytes(1), rng.randbytes(3), b"\0", b"\xff", bytes([content[place] ^ 1 << rng.randrange(8)])))
    return bytes(content[:rng.randrange(len(content))] if rng.random() < 0.05 else content)


def test_broken_models_are_refused(onnx, tmp_path):
    rng = random.Random(20)
    flat = model_of(
        [node("Conv", output="a", pads=[1] * 4, kernel_shape=[3, 3], group=2),
         node("Conv", ["a", "w2"], "c", "", auto_pad="SAME_UPPER", strides=[2, 2]),
         node("ConvTranspose", ["c", "w3"], "d", "", strides=[2, 2], output_padding=[1, 1]),
         node("Flatten", ["d"], "e", ""), node("Gemm", ["e", "m"], "f", "", transB=1), node("MatMul", ["f", "m2"])],
        ("n", 4, 7, 7), [constant("w", 6, 2, 3, 3), constant("w2", 6, 6, 3, 3), constant("w3", 6, 2, 2, 2),
                         constant("m", 3, 162), constant("m2", 3, 2)])
    models = flat, nested()
    ends = {"read": 0, "refused": 0, "none": 0}
    for _ in range(600):
        path = tmp_path / "m.onnx"
        path.write_bytes(broken(rng, rng.choice(models)))
        try:
            found = read(path, batch=rng.choice((None, 2)))
        except (UsageError, MIOpenError):
            ends["none"] += 1
            continue
        ends["refused" if found.refused else "read"] += 1
        for text in (*found.refused, *(one.layer for one in found.wanted)):
            assert text.isprintable()
            text.encode()
    assert min(ends.values()) > 10, ends


# Exported models


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def exported(torch, folder, model, x, dynamic=None, decomposed=False):
    """Export a model, or a function of one tensor or of several."""
    if not isinstance(model, torch.nn.Module):
        class Made(torch.nn.Module):
            def forward(self, *args):
                return function(*args)

        function, model, dynamic = model, Made(), None if dynamic is None else {"args": dynamic}
    path = folder / "m.pt2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, about itself
        program = torch.export.export(model.eval(), x if isinstance(x, tuple) else (x,), dynamic_shapes=dynamic)
        torch.export.save(program.run_decompositions() if decomposed else program, path)
    return path


@pytest.mark.parametrize("batch", [None, 5])
@pytest.mark.parametrize("axes", [(2,), (3,), (0, 3), (0, 2, 3), (0,), ()])
def test_only_the_batch_may_vary(torch, tmp_path, axes, batch):
    Dim = torch.export.Dim
    dynamic = ({axis: Dim("NCHW"[axis], min=2, max=64) for axis in axes},)
    path = exported(torch, tmp_path, torch.nn.Conv2d(4, 5, 3, padding=1), torch.randn(2, 4, 7, 7), dynamic)
    found = read(path, batch=batch)
    wrong = [axis for axis in axes if axis or batch is None]
    if wrong:
        assert not found.wanted
        assert f"m.pt2, conv2d: axis {wrong[0]} of x varies" in found.refused[0]
        assert ("--batch" in found.refused[0]) == (wrong[0] == 0)
    else:
        assert not found.refused
        assert layers(found) == {"conv2d": FIRST.format(batch or 2)}


@pytest.mark.parametrize("varies", [False, True])
def test_what_becomes_of_the_batch(torch, tmp_path, varies):
    """x's axis 0 may be a multiple of the inputs', or have nothing to do with it."""
    w, own = torch.randn(5, 4, 3, 3), torch.randn(3, 4, 7, 7)

    def some(x):
        two = torch.nn.functional.conv2d(x.reshape(2 * x.shape[0], 4, 7, 7), w, padding=1)
        return two, torch.nn.functional.conv2d(own, w, padding=1), torch.nn.functional.conv2d(x[:, :4], w, padding=1)

    dynamic = ({0: torch.export.Dim("N", min=2, max=64)},) if varies else None
    path = exported(torch, tmp_path, some, torch.randn(2, 8, 7, 7), dynamic)
    found = read(path, batch=6)
    made = layers(found)
    assert made.pop("conv2d_2") == FIRST.format(6)
    if varies:
        assert made == {"conv2d": FIRST.format(12), "conv2d_1": FIRST.format(3)}
    else:  # 4 and 3 may be anything beside inputs of 2
        assert not made
        assert ["axis 0 of x (4)" in found.refused[0], "axis 0 of x (3)" in found.refused[1]] == [True, True]
    assert len(layers(read(path))) == (1 if varies else 3)


def test_inputs_that_differ_in_the_batch(torch, tmp_path):
    def both(x, z):
        return torch.nn.functional.conv2d(x, torch.ones(5, 4, 3, 3)) + z.sum()

    path = exported(torch, tmp_path, both, (torch.randn(2, 4, 7, 7), torch.randn(3, 1, 1)))
    assert len(read(path).wanted) == 1
    assert "axis 0 of the inputs (2, 3)" in read(path, batch=4).refused[0]
    path = exported(torch, tmp_path, both, (torch.randn(2, 4, 7, 7), torch.randn(3)))  # no images
    assert len(read(path, batch=4).wanted) == 1


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(("kind", "arguments", "lens", "key"), [
    ("Conv2d", {"kernel_size": (3, 5), "stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}, (9, 8),
     "4-9-8-3x5-6-5-4-2-1x2-2x1-1x2-0-NCHW-FP32-F"),
    ("Conv2d", {"kernel_size": 3, "groups": 2, "bias": False}, (9, 8),
     "4-9-8-3x3-6-7-6-2-0x0-1x1-1x1-0-NCHW-FP32-F_g2"),
    ("Conv2d", {"kernel_size": 3, "padding": "same", "dilation": 2}, (9, 8),
     "4-9-8-3x3-6-9-8-2-2x2-1x1-2x2-0-NCHW-FP32-F"),
    ("Conv2d", {"kernel_size": 3, "padding": "valid"}, (9, 8), "4-9-8-3x3-6-7-6-2-0x0-1x1-1x1-0-NCHW-FP32-F"),
    ("Conv1d", {"kernel_size": 3, "stride": 2, "padding": 1}, (9,), "4-1-9-1x3-6-1-5-2-0x1-1x2-1x1-0-NCHW-FP32-F_dim1"),
    ("Conv3d", {"kernel_size": 3, "stride": 2}, (5, 9, 8), "4-5-9-8-3x3x3-6-2-4-3-2-0x0x0-2x2x2-1x1x1-0-NCDHW-FP32-F"),
    ("ConvTranspose2d", {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, (9, 8),
     "4-9-8-3x3-6-18-16-2-1x1-2x2-1x1-0-NCHW-FP32-B_g2"),
    ("ConvTranspose2d", {"kernel_size": 3, "dilation": (1, 2), "bias": False}, (9, 8),
     "4-9-8-3x3-6-11-12-2-0x0-1x1-1x2-0-NCHW-FP32-B")])
def test_arguments_of_exported_convolutions(torch, tmp_path, kind, arguments, lens, key, decomposed):
    model = getattr(torch.nn, kind)(4, 6, **arguments)
    found = read(exported(torch, tmp_path, model, torch.randn(2, 4, *lens), decomposed=decomposed))
    assert not found.refused
    assert list(layers(found).values()) == [key]


def test_the_type_and_the_bias(torch, tmp_path):
    for dtype, name in ((torch.float16, "FP16"), (torch.bfloat16, "BF16"), (torch.float64, "FP64")):
        for bias in (False, True):
            model = torch.nn.Conv2d(4, 5, 3, padding=1, bias=bias, dtype=dtype)
            found = read(exported(torch, tmp_path, model, torch.randn(2, 4, 7, 7, dtype=dtype)))
            assert list(layers(found).values()) == [FIRST.format(2).replace("FP32", name)]
    found = read(exported(torch, tmp_path, torch.nn.Conv2d(4, 5, 3, dtype=torch.complex64),
                          torch.randn(2, 4, 7, 7, dtype=torch.complex64)))
    assert not found.wanted
    assert "complex64" in found.refused[0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("image", ["", "last", "sliced", "expanded"])
def test_channels_last_is_what_pytorch_makes_of_it(torch, tmp_path, image, weights, size):
    model = torch.nn.Conv2d(4, 5, size, padding=size // 2)
    if weights:
        model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 4, 7, 7)
    x = {"": x, "last": x.to(memory_format=torch.channels_last), "sliced": torch.randn(2, 4, 7, 14)[..., ::2],
         "expanded": torch.randn(1, 4, 7, 7).to(memory_format=torch.channels_last).expand(2, -1, -1, -1)}[image]
    (key,) = layers(read(exported(torch, tmp_path, model, x))).values()
    last = model(x).is_contiguous(memory_format=torch.channels_last)
    assert key.endswith("NHWC-NHWC-NHWC-FP32-F" if last else "0-NCHW-FP32-F")


def test_exported_bodies_are_read(torch, tmp_path):
    first, second = torch.nn.Conv2d(4, 5, 3, padding=1), torch.nn.Conv2d(4, 5, 1)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: self.first(x), lambda x: self.second(x), (x,))

    found = read(exported(torch, tmp_path, Model(), torch.randn(2, 4, 7, 7)))
    assert layers(found) == {"true_graph_0/conv2d": FIRST.format(2),
                             "false_graph_0/conv2d": FIRST.format(2).replace("3x3", "1x1").replace("-1x1-1x1-1x1-0",
                                                                                                  "-0x0-1x1-1x1-0")}


def test_exported_nodes_that_make_no_problem_are_refused(torch, tmp_path):
    w, f = torch.randn(5, 4, 3, 3), torch.nn.functional

    def some(x):
        y = torch.ops.aten.convolution_backward(torch.randn(2, 5, 5, 5), x, w, None, [1, 1], [0, 0], [1, 1], False,
                                                [0, 0], 1, [True, False, False])[0]
        return y, f.conv2d(x[0], w), f.conv2d(x, w, stride=x.shape[2] - 6), x.to(torch.float16)

    found = read(exported(torch, tmp_path, some, torch.randn(2, 4, 7, 7)))
    assert list(layers(found)) == ["conv2d_1"]
    assert ["convolution_backward is not measured" in found.refused[0], "no axis of the batch" in found.refused[1],
            len(found.refused)] == [True, True, 2]


def test_broken_exports_are_refused(torch, tmp_path):
    path = exported(torch, tmp_path, torch.nn.Conv2d(4, 5, 3), torch.randn(2, 4, 7, 7))
    whole, rng = path.read_bytes(), random.Random(3)
    for _ in range(30):
        content = bytearray(whole)
        for _ in range(rng.choice((1, 8, 64))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[:rng.randrange(len(content))] if rng.random() < 0.2 else content)
        with contextlib.suppress(UsageError, MIOpenError):
            read(path)


# Lists and logs

LINE = "conv -n 1 -c 4 -H 7 -W 7 -k 5 -y 3 -x 3 -p 1 -q 1 -F 1"
LOGGED = f"MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver {LINE} -t 1"


def test_files_of_one_name_are_told_apart(tmp_path, monkeypatch):
    for folder in ("a/x", "b/x", "c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "list.txt").write_text(LINE)
        (tmp_path / folder / "log").write_text(LOGGED)
    (tmp_path / "other.txt").write_text(LINE)
    (tmp_path / "resnet50").write_text(LINE)
    monkeypatch.chdir(tmp_path)
    found = read("a/x/list.txt", "b/x/list.txt", "c/list.txt", "other.txt", "./c/list.txt", tmp_path / "resnet50",
                 logs=["a/x/log", "c/log"])
    assert {one.source: one.weight for one in found.wanted} == {
        "a/x/list.txt": 1, "b/x/list.txt": 1, "c/list.txt": 2, "other.txt": 1, "resnet50": 1, "x/log": 1, "c/log": 1}
    assert {one.source for one in read("a/x/list.txt").wanted} == {"list.txt"}


BAD = ["conv --nonsense 1", "conv -c", "conv -n x", "conv -n -1", "conv -H -7", "conv -W 0", "conv -k 1.5", "conv -g 0",
       f"conv -n {'9' * 400}", f"conv -H {'9' * 5000}", "conv -n 99999999999999999999", "conv -u 0", "conv -p -1",
       "conv -H 4294967297 -W 4294967297", "conv -m none", "conv -n '1", "nonsense -n 1", "conv -n 1 8",
       "conv -c 4 -g 3"]


def test_lines_that_cannot_be_are_refused(tmp_path):
    path = tmp_path / "list.txt"
    for line in BAD:
        path.write_text(f"{LINE}\n{line} -F 1\n")
        found = read(path)
        assert [(one.key, one.weight) for one in found.wanted] == [(FIRST.format(1), 1)]
        assert [text.startswith(f"{path}, line 2: ") for text in found.refused] == [True], line
        path.write_text(f"{LOGGED}\nMIOpenDriver {line} -F 1\n")
        assert [(len(found.wanted), len(found.refused)) for found in [read(logs=[path])]] == [(1, 1)], line


def test_a_log_that_is_broken(tmp_path):
    """A line that is cut off anywhere is what it was, refused, or no command."""
    path = tmp_path / "log"
    for end in range(len(LOGGED)):
        path.write_text(f"{LOGGED}\n{LOGGED[:end]}")
        assert {one.key for one in read(logs=[path]).wanted} == {FIRST.format(1)}, LOGGED[:end]
    path.write_bytes(b'{"a": 1}\n{"a": \n\xff\xfe\0\n' + LOGGED.encode() + b"\n" + LOGGED.replace("7", "\xe9").encode(
        "latin-1") + b"\nMIOpenDriver conv -n 1 \xff\n" + LOGGED[:-30].encode() + LOGGED.encode() + b"\n")
    found = read(logs=[path])
    assert [(one.key, one.weight) for one in found.wanted] == [(FIRST.format(1), 1)]
    assert [text.split(":")[0].split()[-1] for text in found.refused] == ["5", "6", "7"]


def broken_line(rng):
    words = rng.choice([LINE, LOGGED, "conv --spatial_dim 3 --in_d 4 -F 4 -z same", "activ -n 1 -c 4 -F 1"]).split()
    flags = [f"-{flag.short}" for flag in FLAGS if flag.short] + [f"--{flag.name}" for flag in FLAGS]
    values = ["-1", "0", "1", "7", "1e3", "9223372036854775808", "9" * 400, "nan", "x", "'", "1_0", "NHWC", "trans",
              "same"]
    for _ in range(rng.randrange(4)):
        words.insert(rng.randrange(len(words) + 1), rng.choice(values if rng.random() < 0.6 else flags))
    content = bytearray(" ".join(words), "ascii")
    for _ in range(rng.choice((0, 0, 0, 3))):
        content[rng.randrange(len(content))] = rng.randrange(1, 256)
    return bytes(content[:rng.randrange(len(content))] if rng.random() < 0.2 else content)


def test_broken_lines_are_refused(tmp_path):
    rng, path = random.Random(1), tmp_path / "list"
    made = refused = 0
    for _ in range(150):
        path.write_bytes(b"\n".join(broken_line(rng) for _ in range(10)))
        for found in (read(path, batch=rng.choice((None, 3))), read(logs=[path], dtype=rng.choice(("", "float16")))):
            made, refused = made + len(found.wanted), refused + len(found.refused)
            assert not [one.key for one in found.wanted if "--" in one.key]  # negative numbers
    assert min(made, refused) > 100


def test_what_is_refused_is_counted(tmp_path, user_folder, capsys):
    path = tmp_path / "list.txt"
    path.write_text(f"{LINE}\n{BAD[0]}\n{BAD[1]}\n")
    arguments = ["tune", str(path), "--device", "host", "--ledger", str(tmp_path / "l.sqlite3")]
    assert cli.main(arguments) == 0
    out, err = capsys.readouterr()
    assert "2 lines or layers make no problem and were skipped" in out
    assert ["line 2" in err, "line 3" in err] == [True, True]
    assert cli.main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [text.split(":")[0].split()[-1] for text in json.loads(out)["refused"]] == ["2", "3"]
    path.write_text(f"{BAD[0]}\n")
    assert cli.main(arguments) == 2
    assert ["line 1" in (err := capsys.readouterr().err), "no convolution to tune" in err] == [True, True]


def test_lines_that_are_no_commands_are_named_in_short(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(b"conv -c 4 -H 7 -W 7 -k 5\nhello -n 3\nconw -n 3\nconv -c\x00 4\nconv -n \xff\n# caf\xe9\n"
                     b"MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1\n")
    found = read(path)
    assert len(found.wanted) == 3
    words = [line.partition(", ")[2] for line in found.refused]
    assert words[:3] == ["line 2: unknown operation 'hello'", "line 3: unknown operation 'conw'; there is conv",
                         "line 4: not text: it has a zero byte"]
    assert words[3].startswith("line 5: -n: ")
    assert words[4:] == ["line 7: a log's, which --from-log reads"]


def test_layers_of_models_say_their_batch(onnx, tmp_path):
    path = saved(tmp_path, model_of([node("Conv", pads=[1] * 4)], ["n", 4, 7, 7], [constant("w", 5, 4, 3, 3)]))
    assert [one.layer for one in read(path, batch=3).wanted] == ["n3 that one"]
