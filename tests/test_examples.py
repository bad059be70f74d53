"""The example programs: they run, learn, and their gradients are right."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import miopyx

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAM, PYTORCH = EXAMPLES / "train_digits.py", EXAMPLES / "torch_digits.py"


@pytest.fixture(scope="module")
def example():
    """Return the program as a module."""
    for name in ("sklearn", "matplotlib"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    spec = importlib.util.spec_from_file_location("train_digits", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.some(1)
def test_training(example, device_name, tmp_path):
    """Five epochs learn the digits, on every device, with any first weights; the picture is one."""
    seed, picture = int(np.random.default_rng().integers(1 << 30)), tmp_path / "digits.png"
    command = [sys.executable, "-P", str(PROGRAM), "--device", device_name, "--epochs", "5", "--seed", str(seed),
               "--picture", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    epochs = re.findall(r"epoch +(\d+) of 5   loss (\S+)   test accuracy +(\S+)%   \S+ s", done.stdout)
    assert [int(number) for number, _, _ in epochs] == [1, 2, 3, 4, 5]
    assert float(epochs[-1][1]) < 0.1 < float(epochs[0][1])
    accuracy = float(re.search(r"^test accuracy (\S+)%", done.stdout, re.M)[1])
    assert accuracy >= 97, f"seed {seed}\n{done.stdout}"
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20000


def test_training_in_pytorch(tmp_path):
    """Both sides learn, from the same weights, and the page has a row a problem."""
    pytest.importorskip("torch", minversion="2.10")
    pytest.importorskip("sklearn")
    page = tmp_path / "report.html"
    done = subprocess.run([sys.executable, "-P", str(PYTORCH), "--epochs", "4", "--side", "8", "--report", str(page)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    alone, ours = re.findall(r": 4 epochs in (\S+) s, test accuracy (\S+)%", done.stdout)
    assert min(float(alone[0]), float(ours[0])) > 0
    assert min(float(alone[1]), float(ours[1])) > 95
    table = [line for line in done.stdout.splitlines()[3:] if "given back to PyTorch" not in line]
    assert page.read_text().count("<tr") == len(table) > 1


def a_batch(example):
    rng = np.random.default_rng()
    (images, labels), _ = example.load()
    chosen = rng.permutation(len(labels))[:example.BATCH]
    return rng, images[chosen], labels[chosen]


def loss(example, network, images, labels):
    return -network.forward(images, training=True)[np.arange(example.BATCH), labels].mean()


def test_gradients_are_slopes(example):
    """Along a random direction of each parameter the loss changes by gradient times direction.

    In float64 a central difference with steps of 1e-6 ... 1e-8 is right to 1e-7, unless the step takes a value across
    the bend of a ReLU or past another maximum: then the slope is between those of both sides, and a smaller step says.
    """
    rng, images, labels = a_batch(example)
    with miopyx.Handle("host") as handle:
        network = example.Network(handle, rng, "float64")
        loss(example, network, images, labels)
        network.backward(labels)
        assert len(network.parameters) == 7
        for parameter in network.parameters:
            gradient, start = parameter.gradient.copy(), parameter.value.copy()
            direction = rng.standard_normal(start.shape)
            expected, errors = float(np.vdot(gradient, direction)), []
            for step in (1e-6, 1e-7, 1e-8):
                ends = []
                for sign in (1, -1):
                    parameter.value[...] = start + sign * step * direction
                    ends.append(loss(example, network, images, labels))
                errors.append(abs((ends[0] - ends[1]) / (2 * step) - expected))
            parameter.value[...] = start
            assert min(errors) <= 1e-6 * np.linalg.norm(gradient) * np.linalg.norm(direction), parameter.desc.lens


def test_gradients_are_pytorchs(example, device_name):
    torch = pytest.importorskip("torch")
    rng, images, labels = a_batch(example)
    with miopyx.Handle(device_name) as handle:
        network = example.Network(handle, rng)
        ours = loss(example, network, images, labels)
        network.backward(labels)

        def download(buffer, parameter):
            return handle.download(buffer, np.empty(parameter.desc.lens, np.float32)).astype(np.float64)

        values = [torch.tensor(download(p.value, p), requires_grad=True) for p in network.parameters]
        gradients = [download(p.gradient, p) for p in network.parameters]
    w1, scale, bias, w2, b2, w3, b3 = values
    F = torch.nn.functional
    x = F.conv2d(torch.tensor(images.astype(np.float64)), w1, padding=1)
    x = F.max_pool2d(F.relu(F.batch_norm(x, None, None, scale.flatten(), bias.flatten(), training=True)), 2)
    x = F.relu(F.conv2d(x, w2, b2.flatten(), padding=1))
    x = F.conv2d(x, w3, b3.flatten()).flatten(1)
    theirs = F.cross_entropy(x, torch.tensor(labels.astype(np.int64)))
    theirs.backward()
    assert ours == pytest.approx(theirs.item(), rel=1e-5)
    # Eight layers in float32, each a sum of at most 512 products there and back.
    for value, gradient in zip(values, gradients, strict=True):
        expected = value.grad.numpy()
        assert np.linalg.norm(gradient - expected) <= 1e-4 * np.linalg.norm(expected)


def test_inference_of_torchvisions():
    pytest.importorskip("torch", minversion="2.10")
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):  # a build for another PyTorch
        pytest.skip("no torchvision that works")
    done = subprocess.run([sys.executable, "-P", str(EXAMPLES / "torchvision_inference.py"), "--model", "resnet18",
                           "--batch", "2", "--size", "64", "--turns", "2", "--calls", "1"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"PyTorch alone \S+ ms, with miopyx \S+ ms: \S+ times as fast", done.stdout)
    assert float(re.search(r"apart by (\S+) of the largest", done.stdout)[1]) < 1e-4
