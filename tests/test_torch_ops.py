"""torch.ops.miopyx: results, gradients of gradients, and what compilers, exporters and autocast ask of an operator."""

import pytest

torch = pytest.importorskip("torch", minversion="2.10")
pytest.importorskip("miopyx.torch")

from miopyx import MIOpenError  # noqa: E402


@pytest.fixture(autouse=True)
def device(torch_device):
    """Make tensors there."""
    with torch_device:
        yield torch_device


OP = torch.ops.miopyx.convolution
CONV = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}


def example(axes, dtype=torch.float64, transposed=False, groups=2, last=False):
    """Return x, w, bias and numbers of a small convolution."""
    k, c = 3 * groups, 2 * groups
    x = torch.randn(2, c, *(6, 5, 4)[:axes], dtype=dtype)
    w = torch.randn(*((c, k // groups) if transposed else (k, c // groups)), *(3, 2, 2)[:axes], dtype=dtype)
    if last and axes > 1:
        x = x.to(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)
    numbers = ([2] * axes, [1] * axes, [1] * axes, transposed, [1] * axes if transposed else [0] * axes, groups)
    return x, w, torch.randn(k, dtype=dtype), numbers


@pytest.mark.parametrize("last", [False, True], ids=["packed", "channels last"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pytorch_agrees(axes, transposed, last):
    x, w, bias, numbers = example(axes, transposed=transposed, last=last)
    got, want = OP(x, w, bias, *numbers), torch.convolution(x, w, bias, *numbers)
    assert got.shape == want.shape
    assert (got - want).abs().max() <= 1e-13 * want.abs().max()
    if last and axes > 1:
        assert got.is_contiguous(memory_format=torch.channels_last if axes == 2 else torch.channels_last_3d)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
def test_gradients_and_theirs(axes, transposed):
    x, w, bias, numbers = example(axes, transposed=transposed, groups=1)
    tensors = [t.requires_grad_() for t in (x, w, bias)]

    def call(x, w, bias):
        return OP(x, w, bias, *numbers)

    assert torch.autograd.gradcheck(call, tensors)
    assert torch.autograd.gradgradcheck(call, tensors)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # PyTorch 2.15's own check
@pytest.mark.parametrize("last", [False, True], ids=["packed", "channels last"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pytorchs_own_checks_of_operators(axes, last):
    x, w, bias, numbers = example(axes, torch.float32, last=last)
    y = OP(x, w, bias, *numbers)
    torch.library.opcheck(OP.default, (x.requires_grad_(), w.requires_grad_(), bias.requires_grad_(), *numbers))
    dy = torch.randn_like(y).requires_grad_()
    torch.library.opcheck(torch.ops.miopyx.convolution_backward_data.default, (dy, w, list(x.shape), *numbers))
    torch.library.opcheck(torch.ops.miopyx.convolution_backward_weights.default, (dy, x, list(w.shape), *numbers))


def test_compiled_without_breaks_and_exported():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(8, 4, 3, 3))

        def forward(self, x):
            return torch.relu(OP(x * 2, self.w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)).sum()

    net, x = Net(), torch.randn(2, 4, 9, 7)
    want = net(x)
    want.backward()
    gradient, net.w.grad = net.w.grad, None
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    for side in (7, 8):
        compiled(torch.randn(2, 4, 9, side))
    got = compiled(x)
    got.backward()
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(net.w.grad, gradient)
    program = torch.export.export(net, (x,))
    assert any("miopyx.convolution" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(x), want)


def test_autocast_and_checkpoints():
    x, w, bias, numbers = example(2, torch.float32)
    x.requires_grad_()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        assert OP(x, w, bias, *numbers).dtype == torch.bfloat16
        assert OP(x.double(), w.double(), None, *numbers).dtype == torch.float64
    y = torch.utils.checkpoint.checkpoint(lambda x: OP(x, w, bias, *numbers), x, use_reentrant=False)
    y.sum().backward()
    want = torch.autograd.grad(torch.convolution(x, w, bias, *numbers).sum(), x)[0]
    torch.testing.assert_close(x.grad, want)


def test_what_is_wrong_is_said():
    x, w, _, numbers = example(2, torch.float32)
    with pytest.raises(MIOpenError, match="types"):
        OP(x, w.double(), None, *numbers)
    with pytest.raises(MIOpenError):
        OP(x, w[:, :1], None, *numbers)
    with pytest.raises(MIOpenError):
        OP(x.int(), w.int(), None, *numbers)
    with pytest.raises((MIOpenError, NotImplementedError)):
        OP(x.to("meta"), w, None, *numbers).tolist()
    with pytest.raises(MIOpenError):
        torch.ops.miopyx.convolution_backward_data(x, w, [1, 2], *numbers)
