"""torch.ops.miopyx of the layers between convolutions, and those of PyTorch's operators that `enable` takes."""

import math
from functools import partial

import pytest

torch = pytest.importorskip("torch", minversion="2.10")
mt = pytest.importorskip("miopyx.torch")

from miopyx.errors import MIOpenError  # noqa: E402
from miopyx.torch import _layers, choice  # noqa: E402

F = torch.nn.functional
OPS = torch.ops.miopyx
U = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ACTIVATIONS = {"relu": (F.relu, (0, 0, 0)), "logistic": (torch.sigmoid, (0, 0, 0)), "tanh": (torch.tanh, (1, 1, 0)),
               "softrelu": (F.softplus, (0, 0, 0)), "leakyrelu": (lambda x: F.leaky_relu(x, 0.1), (0.1, 0, 0)),
               "clippedrelu": (F.relu6, (6, 0, 0)), "elu": (lambda x: F.elu(x, 0.7), (0.7, 0, 0)),
               "pasthru": (lambda x: x * 1, (0, 0, 0)), "abs": (torch.abs, (0, 0, 0))}


@pytest.fixture(autouse=True)
def device(torch_device):
    """Make tensors there."""
    with torch_device:
        yield torch_device


@pytest.fixture
def ours(monkeypatch):
    """Let `enable` take whatever can be computed."""
    monkeypatch.setattr(choice, "recall", lambda info, key: None)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(1.0, 2.0, "said"))
    mt.enable()
    _layers.forget()
    yield
    mt.disable()
    _layers.forget()


def image(rng, axes, dtype, *, last=False):
    """Return x (n, c, ...) of random lengths."""
    x = torch.randn(2, 6, *map(int, rng.integers(6, 11, axes)))
    if last and axes > 1:
        x = x.contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
    return x.to(dtype)


def gradients(call, *tensors, dtype=None):
    """Return the result and all gradients of a sum of it, weighted by numbers of a type that lie as it does."""
    tensors = [t.detach().clone(memory_format=torch.preserve_format).requires_grad_() for t in tensors]
    y = call(*tensors)
    weights = torch.linspace(-1, 1, y.numel(), dtype=torch.float64, device=y.device).reshape(y.shape)
    y.backward(torch.empty_like(y).copy_(weights.to(dtype or y.dtype)))
    return [y.detach(), *(t.grad for t in tensors)]


def compare(call, truth, *tensors, terms=1.0):
    """Compare a result and its gradients with float64; an element is a sum of `terms` roundings at most."""
    found, wanted = gradients(call, *tensors), gradients(
        truth, *(t.cpu().double().contiguous() for t in tensors), dtype=tensors[0].dtype)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        b = b.to(a.device)
        bound = U[a.dtype] * max(1.0, b.abs().max().item()) * terms
        assert (a.double() - b).abs().max().item() <= bound
    assert found[0].dtype == tensors[0].dtype
    return found


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima(rng, axes, dtype):
    for last in (False, True):
        x = image(rng, axes, dtype, last=last)
        window, stride, dilation = (int(rng.integers(1, n)) for n in (4, 4, 3))
        pad = int(rng.integers(0, window // 2 + 1))
        for ceil in (False, True):
            numbers = [window] * axes, [stride] * axes, [pad] * axes, [dilation] * axes, ceil
            want, places = MAX[axes](x, window, stride, pad, dilation, ceil, return_indices=True)
            y, indices = OPS.max_pool_with_indices(x, *numbers)
            assert y.equal(want)
            assert indices.dtype == torch.int64
            assert indices.equal(places)  # the first maximum of a window is PyTorch's, too
            assert OPS.max_pool(x, *numbers).equal(want)
            if last and axes == 2:
                assert y.is_contiguous(memory_format=torch.channels_last)
            for call in (lambda t: OPS.max_pool(t, *numbers), lambda t: OPS.max_pool_with_indices(t, *numbers)[0]):  # noqa: B023
                compare(call, lambda t: MAX[axes](t, window, stride, pad, dilation, ceil), x,  # noqa: B023
                        terms=window**axes * 2)


def special(x):
    """Return x with NaN and -inf here and there, and with a channel of each alone."""
    for what, share in ((math.nan, 0.1), (-math.inf, 0.3)):
        x = torch.where(torch.rand_like(x, dtype=torch.float32) < share, what, x)  # which keeps the layout
    x[0, 0], x[-1, -1] = -math.inf, math.nan
    return x


def same(a, b):
    """Whether the numbers of two tensors are equal, and NaN where the other one has it."""
    return a.dtype == b.dtype and a.shape == b.shape and bool((a.eq(b) | a.isnan() & b.isnan()).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima_of_special_numbers(rng, axes, dtype):
    for last in (False, True):
        x = special(image(rng, axes, dtype, last=last))
        for numbers in (([3] * axes, [2] * axes, [1] * axes, [1] * axes, True),
                        ([2] * axes, [], [0] * axes, [2] * axes, False)):
            # Of windows of -inf alone PyTorch's indices are wrong in channels-last volumes.
            want, places = MAX[axes](x.cpu().contiguous(), *numbers, return_indices=True)
            y, indices = OPS.max_pool_with_indices(x, *numbers)
            assert same(y.cpu(), want)
            assert indices.cpu().equal(places)
            assert same(OPS.max_pool(x, *numbers).cpu(), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_averages(rng, axes, dtype):
    for last in (False, True):
        x = image(rng, axes, dtype, last=last)
        window, stride = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        pad = int(rng.integers(0, window // 2 + 1))
        for ceil, whole, divisor in ((False, True, None), (True, False, None), (True, True, None), (False, True, 3)):
            if divisor is not None and axes == 1:
                continue  # PyTorch's has none in one axis
            more = () if axes == 1 else (divisor,)
            compare(lambda t: OPS.avg_pool(t, [window] * axes, [stride] * axes, [pad] * axes, ceil, whole, divisor),  # noqa: B023
                    lambda t: AVERAGE[axes](t, window, stride, pad, ceil, whole, *more), x,  # noqa: B023
                    terms=window**axes + 2)


def test_averages_are_linear():
    x = torch.randn(1, 2, 6, 7, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda t: OPS.avg_pool(t, [3, 2], [2, 1], [1, 0], True, False, None) ** 2, (x,))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("log", [False, True], ids=["softmax", "logarithm"])
def test_softmax(rng, log, dtype):
    op, truth = (OPS.log_softmax, F.log_softmax) if log else (OPS.softmax, F.softmax)
    for lens in ((7,), (5, 40), (3, 4, 6), (2, 6, 5, 4), (2, 3, 2, 3, 4)):
        x = (torch.randn(*lens) * 4).to(dtype)
        axis = int(rng.integers(-len(lens), len(lens)))
        for t in (x, x.transpose(0, -1), torch.randn(*lens, 2).to(dtype)[..., 0]):
            compare(lambda t: op(t, axis), lambda t: truth(t, axis), t, terms=8 + 4 * max(lens))  # noqa: B023


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("size", [3, 5])
def test_local_response_norm(rng, size, dtype):
    for last in (False, True):
        x = image(rng, 2, dtype, last=last)
        compare(lambda t: OPS.local_response_norm(t, size, 0.3, 0.7, 1.5)[0],
                lambda t: F.local_response_norm(t, size, 0.3, 0.7, 1.5), x, terms=32)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("mode", ACTIVATIONS)
def test_activations(rng, mode, dtype):
    truth, numbers = ACTIVATIONS[mode]
    x = image(rng, 2, dtype)
    for t in (x, x.contiguous(memory_format=torch.channels_last), x[:, ::2], x.flatten()):
        y = compare(lambda t: OPS.activation(t, mode, *numbers), truth, t, terms=8)[0]
        assert y.stride() == torch.empty_like(t).stride()


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("shape", [(16, 5), (4, 3, 7), (3, 4, 5, 6), (2, 3, 4, 3, 5)], ids=len)
def test_batch_norm(shape, dtype):
    x = (torch.randn(*shape) * 2 + 1).to(dtype)
    params = torch.float64 if dtype == torch.float64 else torch.float32
    w, b = torch.linspace(0.5, 1.5, shape[1], dtype=params), torch.linspace(-1, 1, shape[1], dtype=params)
    mean, var = torch.randn(shape[1], dtype=params), torch.rand(shape[1], dtype=params) + 0.5
    moved = mean.clone(), var.clone()
    F.batch_norm(x.double(), truth := mean.double(), others := var.double(), None, None, True, 0.3)
    OPS.batch_norm_training(x, None, None, *moved, 0.3, 1e-5)
    for a, c in zip(moved, (truth, others), strict=True):
        assert (a.double() - c).abs().max() <= 16 * U[params] * max(1.0, c.abs().max())
    count = x.numel() // shape[1]
    compare(lambda x, w, b: OPS.batch_norm_training(x, w, b, None, None, 0.3, 1e-5)[0],
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.3), x, w, b, terms=4 * count)
    compare(lambda x: OPS.batch_norm_training(x, None, None, mean.clone(), var.clone(), 0.3, 1e-5)[0],
            lambda x: F.batch_norm(x, None, None, None, None, True, 0.3), x, terms=4 * count)
    compare(lambda x, w, b: OPS.batch_norm_inference(x, w, b, mean, var, 1e-5),
            lambda x, w, b: F.batch_norm(x, mean.to(x), var.to(x), w, b), x, w, b, terms=4 * count)


@pytest.mark.some(12)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mode", ACTIVATIONS)
def test_convolutions_with_what_follows(rng, mode, dtype):
    """Results and gradients, with a z that keeps sums away from where a gradient jumps."""
    call, parameters = ACTIVATIONS[mode]
    if mode == "softrelu":  # sums are larger than 20, where PyTorch's becomes x
        call = partial(F.softplus, threshold=1000)
    parameters = tuple(map(float, parameters))
    axes, last, transposed = ((1, False, False), (2, True, False), (2, False, True), (3, False, False))[rng.integers(4)]
    x, w, bias = image(rng, axes, dtype, last=last), torch.randn(6, 6, *(3,) * axes).to(dtype), torch.randn(6).to(dtype)
    numbers = [2 if transposed else 1] * axes, [1] * axes, [1] * axes, transposed, [int(transposed)] * axes, 1
    v = torch.convolution(x.double(), w.double(), bias.double(), *numbers)
    z, away = torch.randn(v.shape), 0.25 if dtype in (torch.float16, torch.bfloat16) else 1e-3
    for kink in (0, 6):
        z = torch.where((v + z - kink).abs() < away, z + 3 * away, z)
    z = (z.contiguous(memory_format=torch.channels_last) if last else z).to(dtype)
    terms = 24 * w[0].numel()
    found = compare(lambda x, w, b, z: OPS.convolution_activation(x, w, b, z, mode, *parameters, *numbers),
                    lambda x, w, b, z: call(torch.convolution(x, w, b, *numbers) + z), x, w, bias, z, terms=terms)
    assert found[0].stride() == z.stride()
    with torch.no_grad():
        y = OPS.convolution_activation(x, w, None, None, mode, *parameters, *numbers)
    want = call(torch.convolution(x.double(), w.double(), None, *numbers))
    assert (y.double() - want).abs().max() <= U[dtype] * max(1.0, want.abs().max().item()) * terms


def test_convolutions_with_what_follows_under_autocast(rng):
    x, w, bias = image(rng, 2, torch.float32), torch.randn(4, 6, 3, 3), torch.randn(4)
    numbers = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    z = torch.randn(2, 4, *x.shape[2:])
    with torch.autocast(x.device.type, torch.bfloat16):
        y = OPS.convolution_activation(x, w, bias, z, "relu", 0.0, 0.0, 0.0, *numbers)
    assert y.dtype == torch.bfloat16
    want = torch.relu(torch.convolution(x.double(), w.double(), bias.double(), *numbers) + z.double())
    assert (y.double() - want).abs().max() < 0.02 * want.max()


CHECKED = {  # arguments behind x
    "max_pool": ([3, 2], [2, 1], [1, 0], [1, 1], True), "max_pool_with_indices": ([3, 2], [], [1, 0], [1, 1], False),
    "avg_pool": ([3, 2], [2, 1], [1, 0], True, False, None), "softmax": (1,), "log_softmax": (-1,),
    "local_response_norm": (3, 0.3, 0.7, 1.5), "activation": ("elu", 0.7, 0.0, 0.0),
}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # PyTorch 2.15's own check
@pytest.mark.parametrize("last", [False, True], ids=["packed", "channels last"])
@pytest.mark.parametrize("name", [*CHECKED, "batch_norm_training", "batch_norm_inference", "convolution_activation"])
def test_pytorchs_own_checks_of_operators(rng, name, last):
    x = image(rng, 2, torch.float32, last=last).requires_grad_()
    more = CHECKED.get(name)
    if name == "convolution_activation":
        z = torch.rand_like(x).requires_grad_()
        more = (torch.rand(6, 6, 3, 3).requires_grad_(), torch.rand(6).requires_grad_(), z, "elu", 0.7, 0.0, 0.0,
                [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    elif more is None:
        w, b = torch.rand(6).requires_grad_(), torch.rand(6).requires_grad_()
        more = w, b, torch.rand(6), torch.rand(6), *((0.1, 1e-5) if "training" in name else (1e-5,))
    torch.library.opcheck(getattr(OPS, name).default, (x, *more))


def test_compiled_without_breaks(rng):
    def net(x, w, b):
        y = OPS.batch_norm_training(x, w, b, None, None, 0.1, 1e-5)[0]
        y = OPS.max_pool(OPS.activation(y, "relu", 0, 0, 0), [2, 2], [2, 2], [0, 0], [1, 1], False)
        return OPS.log_softmax(OPS.avg_pool(y, [2, 2], [1, 1], [0, 0], False, True, None).flatten(1), 1)

    x, w, b = image(rng, 2, torch.float32), torch.rand(6), torch.rand(6)
    found = gradients(torch.compile(net, fullgraph=True, backend="aot_eager"), x, w, b)
    for a, c in zip(found, gradients(net, x, w, b), strict=True):
        assert a.allclose(c, atol=1e-5)


@pytest.mark.parametrize("call", [
    lambda x: OPS.softmax(x, 7), lambda x: OPS.max_pool(x, [9, 99], [1, 1], [0, 0], [1, 1], False),
    lambda x: OPS.max_pool(x, [2], [1], [0], [1], False), lambda x: OPS.activation(x, "gelu", 0, 0, 0),
    lambda x: OPS.avg_pool(x, [2, 2], [1, 1], [2, 0], False, True, None),
    lambda x: OPS.avg_pool(x, [2, 2], [1, 1], [0, 0], False, True, 0), lambda x: OPS.softmax(x.int(), 1),
    lambda x: OPS.max_pool_backward(x, torch.zeros(1, dtype=torch.int64), [2, 6, 9, 9], [2, 2], [1, 1], [0, 0],
                                    [1, 1], False),
    lambda x: OPS.softmax_backward(x, x[:1], 1), lambda x: OPS.softmax_backward(x.double(), x, 1),
    lambda x: OPS.batch_norm_inference(x, None, None, torch.zeros(5), torch.ones(5), 1e-5),
    lambda x: OPS.batch_norm_training(x, None, None, torch.zeros(6), None, 0.1, 1e-5),
    lambda x: OPS.batch_norm_backward(x[:1], x, None, torch.zeros(6), torch.ones(6), 1e-5),
    lambda x: OPS.local_response_norm(x, 0, 1.0, 1.0, 1.0), lambda x: OPS.local_response_norm(x[0], 3, 1.0, 1.0, 1.0),
    lambda x: OPS.activation_backward(x, x[:1], x, "elu", 1.0, 0, 0),
], ids=lambda call: None)
def test_what_cannot_be_computed_is_refused(rng, call):
    with pytest.raises(MIOpenError):
        call(image(rng, 2, torch.float32))


def strides_of(call, x):
    """Return the strides of a result of PyTorch's and of the gradient, in a type that it has them for."""
    return [t.stride() for t in gradients(call, x.float())]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_averages_of_pytorchs(ours, rng, dtype):
    for axes in (2, 3):
        x = image(rng, axes, dtype, last=axes == 2)
        for options in ({}, {"stride": 1, "padding": 1}, {"ceil_mode": True, "count_include_pad": False, "padding": 1},
                        {"divisor_override": 5}):
            call = lambda t, options=options, axes=axes: AVERAGE[axes](t, 3, **options)  # noqa: E731
            found = gradients(call, x)
            mt.disable()
            # On CUDA PyTorch's gradients of channels-last averages are wrong.
            wanted = [t.to(x.device) for t in gradients(call, x.cpu().double().contiguous(), dtype=dtype)]
            theirs = strides_of(call, x)
            mt.enable()
            for a, b, c in zip(found, wanted, theirs, strict=True):
                assert (a.double() - b).abs().max() <= U[dtype] * max(1.0, b.abs().max().item()) * 3**axes
                assert a.stride() == c
                assert a.dtype == dtype
    assert {layer.ours for layer in _layers.layers} == {True}
    assert len(_layers.layers) == 16
    last = image(rng, 3, dtype, last=True)  # of which PyTorch makes C order
    if dtype == torch.float32 and not last.is_cuda:
        assert F.avg_pool3d(last, 2).is_contiguous()
    assert len(_layers.layers) == 16


@pytest.mark.parametrize("function", [lambda x: F.avg_pool2d(x, 2), lambda x: F.max_pool2d(x, 2),
                                      lambda x: F.batch_norm(x, None, None, training=True)],
                         ids=["average", "maximum", "batch norm"])
def test_gradients_that_lie_otherwise(ours, rng, function):
    """A gradient in C order of what lies channels last: whoever computes with it copies it once."""
    x = image(rng, 2, torch.float64, last=True)
    if x.is_cuda:
        pytest.skip("PyTorch's own are wrong")
    found = []
    for enabled in (True, False):
        if not enabled:
            mt.disable()
        x = x.detach().requires_grad_()
        y = function(x)
        y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
        found.append(x.grad)
    torch.testing.assert_close(*found)
    assert found[0].stride() == found[1].stride()


FORMATS = {2: torch.channels_last, 3: torch.channels_last_3d}
OPTIONS = [(3, 2, 1), (2, None, 0), (3, 1, 1, 1, True), (3, 2, 0, 1, True), (2, 1, 1, 2), (5, 3, 2, 1, True)]


@pytest.mark.parametrize("last", [False, True], ids=["packed", "channels last"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima_of_pytorchs(ours, rng, axes, dtype, last):
    found = []
    for options in OPTIONS:
        x = image(rng, axes, dtype, last=last)
        for t in (x, special(x)):
            t = t.clone(memory_format=torch.preserve_format).requires_grad_()
            y, indices = MAX[axes](t, *options, return_indices=True)
            y.backward(dy := torch.randn_like(y).round(decimals=1))
            found.append((t, options, y.detach(), indices, dy, t.grad))
    assert {layer.ours for layer in _layers.layers} == {True}
    assert len(_layers.layers) == 2 * len(OPTIONS)
    mt.disable()
    for t, options, y, indices, dy, dx in found:
        want, places = MAX[axes](t.detach().cpu().contiguous(), *options, return_indices=True)
        assert same(y.cpu(), want)
        assert indices.cpu().equal(places)
        truth = torch.zeros(*t.shape[:2], t[0, 0].numel(), dtype=torch.float64, device=t.device)
        terms = truth.clone()
        truth.scatter_add_(2, indices.flatten(2), dy.double().flatten(2))
        terms.scatter_add_(2, indices.flatten(2), dy.double().abs().flatten(2))
        error = (dx.double().flatten(2) - truth).abs()
        assert (error <= U[dtype] * truth.abs() + max(U[dtype], U[torch.float32]) ** 2 + 9 * U[
            torch.float64 if dtype == torch.float64 else torch.float32] * terms).all()
        t = t.detach().requires_grad_()
        theirs, their_indices = MAX[axes](t, *options, return_indices=True)
        theirs.backward(dy)
        for a, b in ((y, theirs), (indices, their_indices), (dx, t.grad)):
            assert a.stride() == b.stride()


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kind", ["maximum", "average"])
def test_gradients_of_one_number_a_plane_keep_the_order_of_x(ours, kind, axes):
    if kind == "average" and axes == 3:
        pytest.skip("PyTorch knows channels-last averages of images alone")
    x = torch.randn(2, 16, *[4] * axes).contiguous(memory_format=FORMATS[axes])
    call = (MAX if kind == "maximum" else AVERAGE)[axes]
    found = gradients(lambda t: call(t, 4), x)
    assert {layer.ours for layer in _layers.layers} == {True}
    mt.disable()
    for a, b in zip(found, gradients(lambda t: call(t, 4), x), strict=True):
        assert a.allclose(b, atol=1e-6)  # a mean of 16 numbers may be near 0
        assert a.is_contiguous(memory_format=FORMATS[axes]) == b.is_contiguous(memory_format=FORMATS[axes])


def test_maxima_without_gradients(ours):
    for x in (special(torch.randn(2, 9, 12, 14)), special(torch.randn(2, 3, 5, 6, 7))):
        axes = x.dim() - 2
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                found = MAX[axes](x, 3, 2, 1)
            mt.disable()
            assert same(found.cpu(), MAX[axes](x.cpu(), 3, 2, 1))
            mt.enable()
    assert [layer.ours for layer in _layers.layers] == [True] * 2


def test_maxima_that_pytorch_refuses_or_computes_itself(ours):
    x = torch.randn(2, 3, 8, 8)
    with pytest.raises(RuntimeError, match="kernel_size"):
        F.max_pool2d(x, (2, 2, 2))
    with pytest.raises(RuntimeError, match="stride should not be zero"):
        F.max_pool2d(x, 2, 0)
    with pytest.raises(RuntimeError, match="pad must be non-negative"):
        F.max_pool2d(x, 2, 2, -1)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool2d(x, 9)
    y, indices = F.max_pool2d(x, 2, return_indices=True)
    backward = torch.ops.aten.max_pool2d_with_indices_backward
    for wrong in ((y.double(), x, indices), (y, x.double(), indices), (y, x, indices.int()), (y[:, :, 1:], x, indices)):
        with pytest.raises(RuntimeError):
            backward(wrong[0], wrong[1], [2, 2], [2, 2], [0, 0], [1, 1], False, wrong[2])
    found = F.max_pool2d(x[0], 2)  # without a batch
    before = len(_layers.layers)
    odd = F.max_pool2d(x.permute(0, 3, 2, 1), 2)  # in no order that results have
    assert len(_layers.layers) == before
    mt.disable()
    assert found.equal(F.max_pool2d(x[0], 2))
    assert odd.equal(F.max_pool2d(x.permute(0, 3, 2, 1), 2))
    mt.enable()
    if x.device.type == "cpu":
        assert F.max_pool2d((x * 9).int(), 2).equal((F.max_pool2d((x * 9).int().float(), 2)).int())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax], ids=["softmax", "logarithm"])
def test_softmax_of_pytorchs(ours, rng, function, dtype):
    for t in (torch.randn(5, 40), torch.randn(3, 4, 6), torch.randn(4, 8, 3, 2)):
        x = (t * 3).to(dtype)
        axis = int(rng.integers(-x.dim(), x.dim()))
        call = lambda t, axis=axis: function(t, axis)  # noqa: E731
        found = gradients(call, x)
        mt.disable()
        wanted = gradients(call, x.double(), dtype=dtype)
        mt.enable()
        for a, b in zip(found, wanted, strict=True):
            assert (a.double() - b).abs().max() <= U[dtype] * max(1.0, b.abs().max().item()) * 16
    assert {layer.ours for layer in _layers.layers} == {True}
    assert len(_layers.layers) == 6
    assert function(torch.randn(3, 4), 1, dtype=torch.float64).dtype == torch.float64


def test_softmax_of_special_numbers(ours):
    inf, nan = math.inf, math.nan
    x = torch.tensor([[1.0, -inf, 2.0], [-inf, -inf, -inf], [inf, 1.0, 2.0], [nan, 1.0, 2.0], [1e38, -1e38, 0.0]])
    for function in (F.softmax, F.log_softmax):
        found = function(x, 1)
        mt.disable()
        wanted = function(x, 1)
        mt.enable()
        assert torch.allclose(found, wanted, equal_nan=True)
    assert {layer.ours for layer in _layers.layers} == {True}
