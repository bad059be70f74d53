"""PyTorch's convolutions by ours: every case is made ours, else it would be a matter of time who ran."""

import copy
import gc
import mmap
import os
import subprocess
import sys
import threading
import time
from html.parser import HTMLParser

import numpy as np
import pytest

import miopyx

torch = pytest.importorskip("torch", minversion="2.10")
mt = pytest.importorskip("miopyx.torch")

from miopyx.torch import _batch_norm, _layers, _threads, choice, override  # noqa: E402

F = torch.nn.functional
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
U = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@pytest.fixture(autouse=True)
def device(torch_device):
    """Make tensors there."""
    with torch_device:
        yield torch_device


@pytest.fixture
def settled(monkeypatch):
    """Switch on, with nothing known and a verdict for all; the verdict is the argument."""
    monkeypatch.setattr(choice, "recall", lambda info, key: None)
    before = miopyx.torch.budget()

    def settle(ours):
        times = (1.0, 2.0) if ours else (2.0, 1.0)
        monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(*times, "said"))
        mt.enable()
        _layers.forget()

    yield settle
    mt.disable()
    override._take_again()
    _layers.forget()
    mt.budget(before)


def gradients(call, *tensors):
    """Return the result and the gradients of a weighted sum of it."""
    tensors = [t.detach().clone().requires_grad_() for t in tensors]
    y = call(*tensors)
    y.backward(torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).reshape(y.shape))
    return [y.detach(), *(t.grad for t in tensors)]


def compare(call, *tensors, terms=1000):
    """Compare with float64 on PyTorch's own kernels; a channel's terms are `terms` at most."""
    got = gradients(call, *tensors)
    mt.disable()
    want = gradients(call, *(t.double() for t in tensors))
    mt.enable()
    for a, b in zip(got, want, strict=True):
        assert a.dtype == tensors[0].dtype
        size = max(1.0, b.abs().max().item())
        bound = U[a.dtype] * size * (terms if a.dtype.itemsize > 2 else 8)
        assert (a.double() - b).abs().max().item() <= bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions_and_their_gradients(settled, rng, axes, dtype):
    settled(True)
    for turn in range(3):
        groups, stride, dilation, padding = (int(rng.integers(1, n)) for n in (3, 3, 3, 2))
        c, k = 2 * groups, 3 * groups
        x = torch.randn(2, c, *map(int, rng.integers(7, 10, axes)), dtype=dtype)
        if turn == 1 and axes > 1:
            x = x.contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
        w, b = torch.randn(k, 2, *(3,) * axes, dtype=dtype), torch.randn(k, dtype=dtype)
        compare(lambda x, w, b, s=stride, p=padding, d=dilation, g=groups: CONV[axes](x, w, b, s, p, d, g), x, w, b)
        compare(lambda x, w, s=stride, p=padding, d=dilation, g=groups: CONV[axes](x, w, None, s, p, d, g), x, w)
        w = torch.randn(c, 3, *(3,) * axes, dtype=dtype)
        compare(lambda x, w, b, s=stride, p=padding, g=groups: TRANSPOSED[axes](x, w, b, s, p, s - 1, g), x, w,
                torch.randn(3 * groups, dtype=dtype))
    assert {layer.ours for layer in _layers.layers} == {True}
    assert len(_layers.layers) >= 4  # of one turn: the others may have drawn the same


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(6, 5), (4, 3, 7), (3, 4, 5, 6), (2, 3, 4, 3, 5)], ids=len)
def test_batch_norm(settled, rng, shape, dtype):
    """Results, gradients and running statistics."""
    settled(True)
    x = torch.randn(*shape) * 2 + 1
    if len(shape) > 3 and rng.integers(2):
        x = x.contiguous(memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d)
    x = x.to(dtype)
    params = torch.float64 if dtype == torch.float64 else torch.float32
    for affine, tracks, training in ((True, True, True), (True, True, False), (False, True, True), (True, False, True),
                                     (False, False, True), (False, True, False)):
        found = []
        for truth in (False, True):
            kind = torch.float64 if truth else params
            net = torch.nn.modules.batchnorm._BatchNorm(shape[1], 1e-5, 0.3, affine, tracks)
            net._check_input_dim = lambda x: None
            net = net.to(kind).train(training)
            if affine:
                with torch.no_grad():
                    net.weight.copy_(torch.linspace(0.5, 1.5, shape[1]))
                    net.bias.copy_(torch.linspace(-1, 1, shape[1]))
            if truth:
                mt.disable()
            t = x.to(torch.float64 if truth else dtype).detach().requires_grad_()
            y = net(t)
            y.backward(torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(dtype).to(y.dtype))
            found.append([y.detach(), t.grad, *(p.grad for p in net.parameters()), *net.buffers()])
        mt.enable()
        for got, want in zip(*found, strict=True):
            assert got.dtype in (dtype, params, torch.int64)
            bound = U[got.dtype] * (8 if got.dtype == torch.bfloat16 else 400) if got.is_floating_point() else 0
            if dtype == torch.bfloat16 and not training:  # gradients are PyTorch's, which on CUDA sums rounded terms
                bound = 0.03
            assert (got.double() - want.double()).abs().max() <= bound * max(1, want.double().abs().max())
        assert found[0][0].stride() == x.stride()
    assert sum(layer.ours for layer in _layers.layers) >= len(_layers.layers) - 2  # bfloat16 that nothing else is with
    assert {layer.what[6] for layer in _layers.layers} == {"F", "T", "B"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["packed", "channels last"])
@pytest.mark.parametrize("forward", [True, False], ids=["forward ours", "gradients ours"])
def test_batch_norm_of_both(settled, monkeypatch, forward, last, dtype):
    """What one side saves is what the other one's gradients need."""
    if dtype == torch.float16 and torch.get_default_device().type == "cpu":
        pytest.skip("PyTorch's kernels of CPUs want another type of parameters")
    settled(True)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(
        *((1.0, 2.0) if key.startswith(b"bnorm-B") != forward else (2.0, 1.0)), "said"))
    x = (torch.randn(5, 4, 6, 7) * 2 + 1).to(memory_format=torch.channels_last if last else torch.contiguous_format)
    x, found = x.to(dtype), []
    for truth in (False, True):
        kind = torch.float64 if truth else torch.float32
        net = torch.nn.BatchNorm2d(4).to(kind)
        if truth:
            mt.disable()
        t = x.to(torch.float64 if truth else dtype).detach().requires_grad_()
        y = net(t)
        y.backward(torch.linspace(-1, 1, y.numel(), dtype=torch.float64).reshape(y.shape).to(dtype).to(y.dtype))
        found.append([y.detach(), t.grad, *(p.grad for p in net.parameters()), *net.buffers()])
    assert [layer.ours for layer in _layers.layers] == [forward, not forward]
    for got, want in zip(*found, strict=True):
        bound = U[dtype] * (8 if dtype == torch.float16 else 400) if got.is_floating_point() else 0
        assert (got.double() - want.double()).abs().max() <= bound * max(1, want.double().abs().max())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["native_batch_norm", "cudnn_batch_norm"])
def test_batch_norm_saves_what_pytorchs_does(settled, name, training):
    if name.startswith("cudnn") and torch.get_default_device().type == "cpu":
        pytest.skip("an operator of CUDA")
    x, found = torch.randn(4, 3, 5, 6), []
    for ours in (True, False):
        settled(ours)
        others = torch.linspace(0.5, 1.5, 3), torch.ones(3), torch.linspace(-1, 1, 3), torch.linspace(1, 2, 3)
        found.append([*getattr(torch.ops.aten, name)(x, *others, training, 0.1, 1e-3), *others])
        assert [layer.ours for layer in _layers.layers] == [ours]
    for got, want in zip(*found, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if got.dtype != torch.uint8:
            torch.testing.assert_close(got, want)


def test_measuring_batch_norm_moves_no_statistics(settled, monkeypatch):
    settled(True)
    ran = []

    def measure(info, key, ours, theirs, wait=None):
        ran.extend((ours(), theirs(), ours()))
        return choice.Times(2.0, 1.0, "said")

    monkeypatch.setattr(choice, "measure", measure)
    net = torch.nn.BatchNorm2d(3, momentum=None)
    x = torch.randn(4, 3, 5, 5)
    net(x)
    assert len(ran) == 3
    torch.testing.assert_close(net.running_mean, x.mean((0, 2, 3)))
    torch.testing.assert_close(net.running_var, x.var((0, 2, 3)))


def test_results_keep_their_layout(settled):
    settled(True)
    x = torch.randn(2, 4, 8, 9).to(memory_format=torch.channels_last).requires_grad_()
    y = F.conv2d(x, torch.randn(6, 4, 3, 3), padding=1)
    assert y.is_contiguous(memory_format=torch.channels_last)
    y.sum().backward()
    assert x.grad.is_contiguous(memory_format=torch.channels_last)
    assert [layer.ours for layer in _layers.layers] == [True, True]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_formats_are_pytorchs(settled, axes):
    """Results are channels last where PyTorch's are; what has gaps gives the bits of its copy."""
    last = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d}[axes]
    for size in ((6,) * axes, (1,) * axes):
        for c in (1, 4):
            x, w = torch.randn(2, c, *size), torch.randn(3, c, *(n // 3 or 1 for n in size))
            for turned in range(4):
                a = x.contiguous(memory_format=last) if turned & 1 else x
                b = torch.empty_like(w, memory_format=last).copy_(w) if turned & 2 else w
                found = []
                for ours in (True, False):
                    settled(ours)
                    found.append(gradients(CONV[axes], a, b))
                for got, want in zip(*found, strict=True):
                    assert [s for s, n in zip(got.stride(), got.shape, strict=True) if n > 1] == [
                        s for s, n in zip(want.stride(), want.shape, strict=True) if n > 1]
    settled(True)
    x, w = torch.randn(2, 4, *(7,) * axes, 2)[..., 0], torch.randn(6, 4, *(3,) * axes, 2)[..., 1]
    found = []
    for a, b in ((x, w), (x.contiguous(), w.contiguous())):
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        y = CONV[axes](a, b)
        found.append((y, *torch.autograd.grad(y.square().sum(), (a, b))))
    assert not x.is_contiguous()
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


def test_only_what_is_wanted_is_computed(settled):
    settled(True)
    x, w, b = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3)
    for wanted in ((0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        _layers.forget()
        tensors = [t.clone().requires_grad_(i in wanted) for i, t in enumerate((x, w, b))]
        F.conv2d(*tensors).sum().backward()
        assert [t.grad is not None for t in tensors] == [i in wanted for i in range(3)]
        assert [layer.what.split("-")[1] for layer in _layers.layers] == [
            "F", *(kind for i, kind in enumerate("BW") if i in wanted)]


def test_what_is_theirs_keeps_its_bits(settled):
    x, w, b = torch.randn(2, 6, 9, 9), torch.randn(8, 6, 3, 3), torch.randn(8)
    before = gradients(F.conv2d, x, w, b)
    settled(False)
    for a, c in zip(before, gradients(F.conv2d, x, w, b), strict=True):
        assert torch.equal(a, c)
    assert [layer.ours for layer in _layers.layers] == [False] * 3
    mt.disable()
    count = _layers.layers[0].runs
    F.conv2d(x, w, b)
    assert _layers.layers[0].runs == count


def test_nothing_waits_for_garbage_collection(settled):
    """A gradient that is kept until then is memory that a training step lacks."""
    for ours in (True, False):
        settled(ours)
        net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 2, 3))
        gc.disable()
        try:
            for step in range(6):
                net.zero_grad()
                net(torch.randn(1, 2, 8, 8)).square().sum().backward()
                if step == 0:
                    gc.collect()  # what first calls leave behind: imports, for example
            assert gc.collect() == 0
        finally:
            gc.enable()


def test_empty_batches(settled):
    settled(True)
    w, b = torch.randn(4, 2, 3, 2), torch.randn(4)
    for call, x in ((F.conv2d, torch.randn(0, 2, 5, 5)), (F.conv_transpose2d, torch.randn(0, 4, 5, 5)),
                    (F.conv2d, torch.randn(0, 2, 5, 5).contiguous(memory_format=torch.channels_last))):
        y, dx, dw, db = gradients(call, x, w, b[:2] if call is F.conv_transpose2d else b)
        assert (y.shape[0], dx.shape) == (0, x.shape)
        assert not dw.any()
        assert not db.any()
        assert dw.shape == w.shape
    assert {layer.ours for layer in _layers.layers} == {True}


def test_what_we_cannot_compute_is_theirs(settled):
    settled(True)
    w = torch.randn(4, 2, 3, 3)
    assert F.conv2d(torch.randn(1, 2, 5, 5, device="meta"), w.to("meta")).shape == (1, 4, 3, 3)
    z = torch.randn(1, 2, 5, 5, dtype=torch.complex64)
    torch.testing.assert_close(F.conv2d(z, w.to(z.dtype)), torch.complex(F.conv2d(z.real, w), F.conv2d(z.imag, w)))
    wide = torch.randn(1, 1, 5, 5).expand(1, 2, 5, 5)
    torch.testing.assert_close(F.conv2d(wide, w), F.conv2d(wide.contiguous(), w))
    turned = torch.randn(1, 2, 5, 5, dtype=torch.complex64).conj().imag
    torch.testing.assert_close(F.conv2d(turned, w), F.conv2d(turned.clone(), w))
    for bad in ((torch.randn(1, 3, 5, 5), w), (torch.randn(1, 2, 2, 2), w), (torch.randn(1, 2, 5, 5).double(), w),
                (torch.randn(1, 2, 5, 5), w, torch.randn(3))):
        with pytest.raises(RuntimeError) as ours:
            F.conv2d(*bad)
        mt.disable()
        with pytest.raises(RuntimeError) as theirs:
            F.conv2d(*bad)
        mt.enable()
        assert str(ours.value) == str(theirs.value)


def test_second_gradients(settled):
    settled(True)
    x, w, b = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((1, 2, 5, 4), (2, 2, 3, 2), (2,)))
    assert torch.autograd.gradcheck(lambda *t: F.conv2d(*t, padding=1), (x, w, b))
    assert torch.autograd.gradgradcheck(lambda *t: F.conv2d(*t, padding=1), (x, w, b))


def test_above_the_kernels_nothing_changes(settled):
    settled(True)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    x = torch.randn(2, 3, 10, 10)
    want = model(x)
    with torch.autocast(x.device.type, torch.bfloat16):
        y = model(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), want, rtol=0.05, atol=0.05)
    from torch.utils.checkpoint import checkpoint

    gradients_ = []
    for call in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
        model.zero_grad()
        call(x).sum().backward()
        gradients_.append([p.grad.clone() for p in model.parameters()])
    for a, c in zip(*gradients_, strict=True):
        assert torch.equal(a, c)
    traced = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(traced(x), want)
    torch.testing.assert_close(torch.func.vmap(model)(x[None])[0], want)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), want)


def test_threads_share_what_is_known(settled):
    settled(True)
    x, w = torch.randn(2, 4, 12, 12), torch.randn(4, 4, 3, 3)
    want, wrong = F.conv2d(x.double(), w.double()), []

    def work():
        for _ in range(20):
            if (F.conv2d(x, w).double() - want).abs().max() > 1e-4:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_budget(monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPEN_USER_DB_PATH", str(tmp_path))
    miopyx.values.config.forget()
    choice._files.clear()
    before = mt.budget()
    x, w = torch.randn(2, 4, 12, 12), torch.randn(4, 4, 3, int(np.random.default_rng().integers(1, 4)))
    try:
        with mt.enable():
            _layers.forget()
            mt.budget(0)
            F.conv2d(x, w)
            assert _layers.layers[0].times.source == "no time left to measure"
            assert not _layers.layers[0].ours
            for source in ("measured", "file"):
                _layers.forget()
                mt.budget(60)
                F.conv2d(x, w)
                times = _layers.layers[0].times
                assert times.source == source
                assert _layers.layers[0].ours == (times.ours < choice.MARGIN * times.theirs)
                assert (mt.budget() < 60) == (source == "measured")
            text = mt.report()
            assert _layers.layers[0].what in text
            assert text.splitlines()[-1].startswith("all")
        for file in tmp_path.rglob("*torch*.txt"):
            file.write_bytes(b"\0nonsense=miopyx:x;torch\n" + file.read_bytes()[:-9] + b"\n")
        choice._files.clear()
        with mt.enable():
            _layers.forget()
            F.conv2d(x, w)
            assert _layers.layers[0].times.source == "measured"
    finally:
        mt.budget(before)
        _layers.forget()
        monkeypatch.undo()
        miopyx.values.config.forget()
        choice._files.clear()
    with pytest.raises(miopyx.BadParmError):
        mt.budget(-1)


def ran(call):
    """Return how many runs a call adds to the layers."""
    before = sum(layer.runs for layer in _layers.layers)
    call()
    return sum(layer.runs for layer in _layers.layers) - before


class Fails(torch.nn.Conv2d):
    def forward(self, x):
        super().forward(x)
        raise ZeroDivisionError


def test_only_a_models_convolutions(settled):
    settled(True)
    mt.disable()
    model, other = (torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.Conv2d(3, 2, 3)) for _ in range(2))
    x, w = torch.randn(1, 2, 8, 8), torch.randn(2, 2, 3, 3, requires_grad=True)
    from torch.utils.checkpoint import checkpoint

    def step(call):
        call(x).float().sum().backward()

    with mt.enable(model):
        assert ran(lambda: step(other)) == ran(lambda: step(lambda x: F.conv2d(x, w))) == 0
        assert ran(lambda: step(model)) == 5
        assert ran(lambda: step(other)) == 0
        assert ran(lambda: step(lambda x: model(other(F.pad(x, (2, 2, 2, 2)))))) == 6
        assert ran(lambda: step(torch.autocast(x.device.type, torch.bfloat16)(model))) == 5
        assert ran(lambda: step(lambda x: checkpoint(model, x, use_reentrant=False))) == 6  # stops early
        assert ran(lambda: step(copy.deepcopy(model))) == 0
        step(torch.compile(model, backend="aot_eager", fullgraph=True))
        failing = Fails(2, 3, 3)
        with mt.enable(failing):
            with pytest.raises(ZeroDivisionError):
                failing(x)
            assert ran(lambda: step(other)) == 0
            assert ran(lambda: step(model)) == 5
        assert ran(lambda: failing.weight.grad is None and F.conv2d(x, failing.weight)) == 0
        with mt.enable():
            assert ran(lambda: step(other)) == 5
        assert ran(lambda: step(other)) == 0
        threads = [threading.Thread(target=model, args=(x,)), threading.Thread(target=other, args=(x,))]
        assert ran(lambda: [(thread.start(), thread.join()) for thread in threads]) == 2
        mt.enable()
        assert ran(lambda: step(other)) == 5
        mt.disable()
        assert ran(lambda: step(model)) == 0
    assert ran(lambda: step(model)) == 0
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with mt.enable(compiled):
        assert ran(lambda: step(compiled)) == 5
        assert ran(lambda: step(other)) == 0
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    with pytest.raises(miopyx.BadParmError, match="model"):
        mt.enable(len)


def test_weights_that_went_are_forgotten(settled):
    """Another tensor's at their address are another's."""
    settled(True)
    mt.disable()
    model = torch.nn.Conv2d(2, 3, 3)
    x = torch.randn(1, 2, 8, 8)
    with mt.enable(model):
        model(x)
        kept = model.weight.data_ptr(), model.weight.untyped_storage()
        model.weight = None
        w = torch.empty(0).set_(kept[1], 0, (3, 2, 3, 3))
        assert w.data_ptr() == kept[0]
        assert ran(lambda: F.conv2d(x, w)) == 0


class Table(HTMLParser):
    """The texts of a page's cells, row by row."""

    def __init__(self, text):
        super().__init__()
        self.rows = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.rstrip("\n")


def test_the_report_as_a_page(settled, monkeypatch, tmp_path):
    settled(True)
    module = sys.modules["miopyx.torch.report"]
    F.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3))
    rows = [*module.rows(), ("<script>&amp;\"'", "1", "torch", "", "", "0.00", "a <b> & c")]
    monkeypatch.setattr(module, "rows", lambda: rows)
    page = tmp_path / "report.html"
    page.write_text("of before")
    text = mt.report(html=page)
    assert text == mt.report()
    assert Table(page.read_text()).rows == [list(row) for row in (module.HEADER, *rows)]
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(OSError, match="cannot be written"):
        mt.report(html=page / "below")


def test_tuning_a_model(monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPEN_USER_DB_PATH", str(tmp_path))
    miopyx.values.config.forget()
    choice._files.clear()
    model = torch.nn.Conv2d(2, 3, 3)
    try:
        mt.tune(model, torch.randn(1, 2, 6, 6), backward=True)
        assert {layer.what.split("-")[1] for layer in _layers.layers} == {"F", "W"}
        assert mt.budget() <= 2
        assert {layer.times.source for layer in _layers.layers} == {"measured"}
    finally:
        _layers.forget()
        monkeypatch.undo()
        miopyx.values.config.forget()
        choice._files.clear()


def test_torch_is_optional():
    code = ("import sys, miopyx; miopyx.conv2d; assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
            "try:\n    import miopyx.torch\nexcept ImportError as e:\n    print(e.name)")
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "torch"


@pytest.mark.skipif(torch.get_num_threads() == 1, reason="PyTorch has one thread")
def test_threads_of_pytorch_sleep_meanwhile(settled):
    settled(True)
    if _threads.find() is None:
        pytest.skip("PyTorch's threads are not libgomp's")
    ran = []

    def asleep(argument):
        ran.append(argument)
        time.sleep(0.03)  # until the others have lain down
        begin = os.times()
        time.sleep(0.3)
        end = os.times()
        return end.user + end.system - begin.user - begin.system

    torch.ones(1 << 20).add_(1)  # they spin now
    assert _threads.called(asleep, "a") < 0.1
    assert ran == ["a"]
    with pytest.raises(ZeroDivisionError):
        _threads.called(lambda _: 1 / 0, None)
    _threads.forget()
    assert _threads.called(lambda argument: argument, 7) == 7


def test_a_mapped_file_may_have_any_name(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.so"
    with open(path, "wb+") as file:
        file.write(b"x")
        file.flush()
        with mmap.mmap(file.fileno(), 0):
            _threads.find()


def _norms(count):
    x, p = torch.randn(2, 3, 4, 4), torch.rand(3) + 0.5
    for _ in range(count):
        y = F.batch_norm(x, p, p, p, p)
    assert torch.allclose(y, (x - p.view(3, 1, 1)) * (p / (p + 1e-5).sqrt()).view(3, 1, 1) + p.view(3, 1, 1), atol=1e-5)


@pytest.mark.parametrize("ours", [True, False])
def test_what_gains_nothing_is_given_back(settled, ours, device):
    """Of a microsecond that a call gains its way through Python leaves nothing."""
    settled(ours)
    which = ("batch norm", device.type)
    _norms(1200)
    assert [*override.given_back] == [which]
    assert "batch norm on " in mt.report().splitlines()[-1]
    runs = _layers.layers[0].runs
    assert 512 <= runs < 1200
    with mt.enable():  # knows of it
        _norms(3)
    assert _layers.layers[0].runs == runs
    F.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3))  # a new problem: other times
    assert not override.given_back
    _norms(3)
    assert _layers.layers[0].runs == runs + 3
    _norms(1200)
    mt.tune(lambda: torch.zeros(()))
    assert not override.given_back
    _norms(1200)
    assert [*override.given_back] == [which]
    mt.disable()
    with mt.enable():
        assert [*override.given_back] == [which]


def test_enabling_again_and_again_keeps_little():
    for _ in range(200):
        with mt.enable():
            pass
    assert len(override._held) <= 1024
    assert not override._libraries


def test_what_gains_is_kept(settled, device, monkeypatch):
    if device.type == "cuda":
        pytest.skip("that depends on the stream")
    settled(True)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(1.0, 1e5, "said"))
    _norms(1200)
    assert not override.given_back
    assert [layer.runs for layer in _layers.layers] == [1200]
    (calls, gained, way), = _layers.accounts().values()
    assert calls < 512
    assert gained == pytest.approx(calls * (1e5 - 1))
    assert 0 < way < 1e4


def test_gradients_of_batch_norm_are_awaited(settled, device):
    """cuDNN's own refuse what follows a forward pass of ours, so ours are not given back before them."""
    if device.type != "cuda":
        pytest.skip("cuDNN's")
    settled(True)
    x = torch.randn(8, 16, 9, 9).half().contiguous(memory_format=torch.channels_last).requires_grad_()
    p = torch.rand(16) + 0.5
    y = F.batch_norm(x, p.clone(), p.clone(), p, p, True)
    assert _batch_norm.wants_our_gradients()
    y.sum().backward()
    del y
    assert not _batch_norm.wants_our_gradients()


def test_blocks_may_overlap():
    first, second = mt.enable(), mt.enable()
    first.__exit__()
    assert override._libraries
    second.__exit__()
    assert not override._libraries
    with mt.enable():
        mt.disable()
        with mt.enable():
            assert override._libraries
        assert not override._libraries
    assert not override._libraries
    mt.enable()
    with mt.enable(), mt.enable(torch.nn.Linear(2, 2)):
        pass
    assert override._libraries
    mt.disable()


def test_what_was_given_back_long_ago_is_taken_by_enable(settled, monkeypatch):
    settled(False)
    override._give_back("average", "cpu")
    mt.disable()
    with mt.enable():
        assert ("average", "cpu") not in override._libraries
    monkeypatch.setattr(override, "FORGOTTEN", 0.0)
    with mt.enable():
        assert ("average", "cpu") in override._libraries


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_traces_hold_no_results(settled):
    """torch.jit.trace notes what PyTorch's own convolution calls."""
    settled(True)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3).eval(), torch.nn.AvgPool2d(2))
    x, other = torch.randn(1, 2, 6, 6), torch.randn(1, 2, 6, 6)
    with torch.no_grad():
        traced = torch.jit.trace(model, x, check_trace=False)
        assert torch.allclose(traced(other), model(other), atol=1e-5)
        assert not torch.allclose(traced(other), traced(x), atol=1e-5)


def test_integers_stay_integers(settled):
    """Sums of int8 have another type in MIOpen; in PyTorch they have not."""
    settled(True)
    x, w = torch.randint(-3, 4, (1, 2, 5, 5), dtype=torch.int8), torch.randint(-3, 4, (2, 2, 3, 3), dtype=torch.int8)
    if x.is_cuda:
        pytest.skip("no kernel of PyTorch's")
    for _ in range(2):
        assert F.conv2d(x, w).dtype == torch.int8


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_other_orders(settled, training):
    """Results have the strides of PyTorch's, which models view."""
    norm = torch.nn.BatchNorm1d(5, affine=False).train(training)
    x = torch.randn(4, 7, 5).transpose(1, 2)
    wanted = norm(x).stride()
    settled(True)
    for _ in range(2):
        assert norm(x).stride() == wanted


def test_ranks_without_a_budget_do_not_wait(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 2)
    before = mt.budget(0)
    try:
        assert choice._hear(store, "k").ours is None
    finally:
        mt.budget(before)


def test_threads_measure_a_problem_once(settled, monkeypatch):
    settled(True)
    started, measured = threading.Barrier(4), []

    def measure(info, key, ours, theirs, wait=None):
        measured.append(key)
        time.sleep(0.05)
        return choice.Times(1.0, 2.0, "said")

    monkeypatch.setattr(choice, "measure", measure)
    x, w = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)

    def run():
        started.wait()
        F.conv2d(x, w)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(measured) == len(_layers.layers) == 1


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_results_are_ordinary_tensors(settled, layout):
    """They have memory that PyTorch may resize and clone lazily; what was cloned lazily is not copied to be read."""
    settled(True)
    x, w = torch.randn(2, 3, 6, 7).contiguous(memory_format=layout), torch.randn(4, 3, 3, 3)
    y = F.avg_pool2d(F.conv2d(x, w), 2)
    assert [layer.ours for layer in _layers.layers] == [True, True]
    assert y.is_contiguous(memory_format=layout)
    assert y.untyped_storage().resizable()
    lazy = torch._lazy_clone(y)
    F.conv2d(lazy, torch.randn(3, 4, 1, 1))
    F.avg_pool2d(lazy, 1)
    assert torch._C._is_cow_tensor(lazy)
    assert len(_layers.layers) == 2


@pytest.mark.parametrize("busy", [True, False])
def test_streams_decide_what_is_given_back(settled, device, monkeypatch, busy):
    """While a stream has work to do a call's way takes nobody's time; where it has none, no kernel gains any."""
    if device.type != "cuda":
        pytest.skip("streams of CUDA")
    settled(True)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(1.0, 50.0, "said"))
    large = torch.randn(8192, 8192)
    for _ in range(75):
        if busy:
            large @ large
        _norms(16)
    assert [*override.given_back] == ([] if busy else [("batch norm", "cuda")])


def test_deterministic_runs_give_nothing_back(settled):
    settled(False)
    torch.use_deterministic_algorithms(True)
    try:
        _norms(1200)
        assert not override.given_back
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_transposed_results_without_elements(settled, dtype):
    """Pads that leave nothing are PyTorch's matter: it gives no elements, or an error."""
    settled(True)
    x, w = torch.randn(2, 1, 4, 5).to(dtype), torch.randn(1, 2, 1, 3).to(dtype)
    call = lambda: F.conv_transpose2d(x, w, padding=2)  # noqa: E731
    try:
        found = call()
    except RuntimeError as e:
        found = str(e)
    mt.disable()
    if isinstance(found, str):
        with pytest.raises(RuntimeError):
            call()
    else:
        assert found.shape == call().shape
    assert not any(layer.ours for layer in _layers.layers)
    with pytest.raises(miopyx.errors.BadParmError, match=r"padding = 4; allowed: < 4 at both ends of axis 2"):
        miopyx.conv_transpose2d(x, w, padding=2)


def test_one_number_is_that_of_all_axes(settled):
    """As torch.nn.grad writes output_padding; and weights are not read where their gradient is asked for."""
    settled(True)
    x, w = torch.randn(2, 3, 8, 7), torch.randn(4, 3, 3, 2)
    dy = torch.randn(2, 4, 3, 3)
    found = torch.convolution(x, w, None, [2], [0], [1], False, [0], 1)
    gradient = torch.nn.grad.conv2d_weight(x, w.shape, dy, stride=2)
    both = torch.ops.aten.convolution_backward(dy, x, w, None, [2], [0], [1], False, [0], 1, (True, True, False))
    assert gradient.equal(both[1])  # the same problem, whatever else is asked for
    assert sorted(layer.what[:6] for layer in _layers.layers) == ["conv-B", "conv-F", "conv-W"]
    assert [layer.runs for layer in _layers.layers if layer.what.startswith("conv-W")] == [2]
    assert all(layer.ours for layer in _layers.layers)
    mt.disable()
    for a, b in ((found, torch.conv2d(x.double(), w.double(), stride=2)),
                 (gradient, torch.nn.grad.conv2d_weight(x.double(), w.shape, dy.double(), stride=2))):
        assert (a.double() - b).abs().max() <= 2.0**-24 * 64 * b.abs().max()
