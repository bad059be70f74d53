"""PyTorch's own kernels on CPUs, called so that other threads run: results and strides are those of its operators."""

import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch", minversion="2.10")
mt = pytest.importorskip("miopyx.torch")

from miopyx.torch import _layers, choice, unlocked  # noqa: E402

F = torch.nn.functional
A = torch.ops.aten


@pytest.fixture
def theirs(monkeypatch):
    """Switch on, with every problem PyTorch's."""
    monkeypatch.setattr(choice, "recall", lambda info, key: None)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(2.0, 1.0, "said"))
    with torch.device("cpu"), mt.enable():
        _layers.forget()
        yield
    _layers.forget()


def calls(dtype, layout):
    """Yield each operator with arguments that are large enough."""
    image = torch.randn(4, 8, 33, 34).to(dtype).contiguous(memory_format=layout)
    volume = torch.randn(2, 4, 12, 17, 18, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    if layout == torch.channels_last:
        volume = volume.contiguous(memory_format=torch.channels_last_3d)
    w = torch.rand(8, 8, 3, 3).to(dtype)
    p, mean, var = torch.rand(8).to(dtype), torch.zeros(8).to(dtype), torch.ones(8).to(dtype)
    numbers = [1, 1], [1, 1], [1, 1], False, [0, 0], 1
    yield A.convolution_backward, (image, image, w, [8], *numbers, [True] * 3)
    yield A.convolution_backward, (image, image, w, None, *numbers, [False, True, False])
    for statistics in ((mean, var), (None, None)):
        copies = [None if t is None else t.clone() for t in statistics]
        yield A.native_batch_norm, (image, p, None, *copies, True, 0.1, 1e-5)
    saved = A._native_batch_norm_legit.no_stats(image, p, None, True, 0.1, 1e-5)[1:]
    for weight in (p, None):
        mask = [True, weight is not None, False]
        yield A.native_batch_norm_backward, (image, image, weight, mean, var, *saved, True, 1e-5, mask)
    for forward, backward, x, n in ((A.avg_pool2d, A.avg_pool2d_backward, image, 2),
                                    (A.avg_pool3d, A.avg_pool3d_backward, volume, 3)):
        yield forward, (x, [3], [1], [1], False, True, None)
        yield backward, (x, x, [3] * n, [1] * n, [1] * n, False, True, None)
    for forward, backward, x, n in ((A.max_pool2d_with_indices, A.max_pool2d_with_indices_backward, image, 2),
                                    (A.max_pool3d_with_indices, A.max_pool3d_with_indices_backward, volume, 3)):
        yield forward, (x, [3], [1], [1], [1], False)
        indices = forward(x, [3], [1], [1], [1], False)[1]
        yield backward, (x, x, [3] * n, [1] * n, [1] * n, [1] * n, False, indices)
    yield A._softmax, (image, 1, False)
    yield A._log_softmax, (image, 1, False)
    yield A._softmax_backward_data, (image, image, 1, dtype)
    yield A._log_softmax_backward_data, (image, image, 1, dtype)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_results_are_those_of_pytorchs_operators(dtype, layout, monkeypatch):
    cases = list(calls(dtype, layout))
    wanted = [op(*args) for op, args in cases]
    monkeypatch.setattr(choice, "recall", lambda info, key: None)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(2.0, 1.0, "said"))
    _layers.forget()
    with mt.enable():
        found = [op(*args) for op, args in cases]
    _layers.forget()
    for (op, _), a, b in zip(cases, found, wanted, strict=True):
        a, b = ((t,) if isinstance(t, torch.Tensor) else t for t in (a, b))
        for one, other in zip(a, b, strict=True):
            if other is None:
                assert one is None, op
                continue
            assert one.dtype == other.dtype, op
            assert one.stride() == other.stride(), op
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2) if dtype == torch.bfloat16 else (
                torch.testing.assert_close(one, other))
    names = {op._qualified_op_name.partition("::")[2] for op, _ in cases}
    assert names >= {*unlocked.CALLS, "convolution_backward"}


@pytest.mark.parametrize("operator", ["convolution_backward", "softmax", "avg_pool2d", "max_pool2d", "batch_norm"])
def test_other_threads_run_meanwhile(theirs, operator):
    """The longest time that another thread waited for Python's lock is a part of the call's."""
    x = torch.randn(48, 64, 112, 112)
    w = torch.randn(64, 64, 3, 3)
    call = {"convolution_backward": lambda: A.convolution_backward(x[:8], x[:8], w, None, [1, 1], [1, 1], [1, 1], False,
                                                                   [0, 0], 1, [True, True, False]),
            "softmax": lambda: A._softmax(x, 1, False), "avg_pool2d": lambda: F.avg_pool2d(x, 5, 1),
            "max_pool2d": lambda: A.max_pool2d_with_indices(x, [5], [1]),
            "batch_norm": lambda: F.batch_norm(x, None, None, training=True)}[operator]
    call()
    waits, done = [], threading.Event()

    def watch():
        last = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            waits.append(now - last)
            last = now

    thread = threading.Thread(target=watch)
    thread.start()
    began = time.perf_counter()
    for _ in range(3):
        call()
    took = (time.perf_counter() - began) / 3
    done.set()
    thread.join()
    if took < 10 * sys.getswitchinterval():
        pytest.skip("too short to tell")
    assert max(waits) < 0.7 * took
