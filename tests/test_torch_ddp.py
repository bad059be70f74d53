"""DistributedDataParallel with miopyx.torch enabled: one choice for all ranks, and the result of the whole batch."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", minversion="2.10")
pytest.importorskip("miopyx.torch")

if not torch.distributed.is_available():
    pytest.skip("PyTorch was built without groups of processes", allow_module_level=True)

RANKS, STEPS, RATE = 2, 4, 0.05

# Batch norm keeps its statistics: those of a part of the batch would not be those of the whole.
MODEL = """
import json, sys, time, torch, torch.distributed as dist
from torch import nn
F = nn.functional

def network():
    torch.manual_seed(int(sys.argv[2]))
    with torch.device("cpu"):  # the same numbers on all devices
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8).eval(), nn.ReLU(), nn.AvgPool2d(2),
                              nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(),
                              nn.Linear(8 * 6 * 6, 5))
    return model.to(torch.get_default_device())

def batches():
    generator = torch.Generator().manual_seed(int(sys.argv[2]) + 1)
    for _ in range(int(sys.argv[3])):
        x = torch.randn(8, 3, 12, 12, generator=generator, device="cpu")
        labels = torch.randint(5, (8,), generator=generator, device="cpu")
        yield x.to(torch.get_default_device()), labels.to(torch.get_default_device())

def train(model, take, dtype):
    descent = torch.optim.SGD(model.parameters(), lr=float(sys.argv[4]))
    for x, labels in batches():
        descent.zero_grad()
        F.cross_entropy(model(take(x).to(dtype)), take(labels)).backward()
        descent.step()
"""

WORKER = MODEL + """
from miopyx.torch import _layers, choice
import miopyx.torch

torch.set_num_threads(1)
torch.backends.cudnn.allow_tf32 = False
rank, backend = int(sys.argv[1]), sys.argv[6]
torch.set_default_device("cpu" if backend == "gloo" else f"cuda:{rank}")
if backend == "nccl":
    torch.cuda.set_device(rank)
dist.init_process_group(backend, init_method=f"file://{sys.argv[5]}", rank=rank, world_size=2)
choice.recall = lambda info, key: None
asked = []

def measure(info, key, ours, theirs, wait=None):
    asked.append(key.decode())
    ours(), theirs()
    return choice.Times(*((2.0, 1.0) if key.startswith(b"conv-B") else (1.0, 2.0)), "said")

choice.measure = measure
miopyx.torch.budget(60)
miopyx.torch.enable()
model = network()
part = slice(4 * rank, 4 * rank + 4)
train(nn.parallel.DistributedDataParallel(model), lambda t: t[part], torch.float32)
found = {"asked": len(asked), "layers": {layer.what: layer.ours for layer in _layers.layers},
         "runs": sum(layer.runs for layer in _layers.layers if layer.ours),
         "parameters": [p.detach().flatten().tolist() for p in model.parameters()]}
dist.barrier()
if rank == 1:  # what rank 0 never meets is PyTorch's, after a while
    miopyx.torch.budget(0.3)
    x, w = torch.randn(1, 2, 9, 9), torch.randn(3, 2, 3, 3)
    began = time.perf_counter()
    y = F.conv2d(x, w)
    found["waited"], layer = time.perf_counter() - began, _layers.layers[-1]
    found["alone"] = [layer.ours, layer.times.source, miopyx.torch.budget()]
    miopyx.torch.disable()
    found["same"] = y.equal(F.conv2d(x, w))
dist.barrier()
dist.destroy_process_group()
print(json.dumps(found))
"""

ALONE = MODEL + """
model = network().double()
train(model, lambda t: t, torch.float64)
print(json.dumps({"parameters": [p.detach().flatten().tolist() for p in model.parameters()],
                  "before": [p.detach().flatten().tolist() for p in network().parameters()]}))
"""


@pytest.fixture(params=["gloo", "nccl"])
def backend(request, torch_device):
    """Return a way in which ranks talk: over CPUs, or with a CUDA device each."""
    if not getattr(torch.distributed, f"is_{request.param}_available")():
        pytest.skip(f"PyTorch was built without {request.param}")
    if request.param == "nccl" and (torch_device.type != "cuda" or torch.cuda.device_count() < RANKS):
        pytest.skip(f"needs {RANKS} devices of CUDA")
    return request.param


def test_two_ranks_compute_the_whole_batch(tmp_path, rng, backend):
    seed = str(int(rng.integers(1 << 30)))

    def start(code, rank):
        return subprocess.Popen([sys.executable, "-P", "-c", code, str(rank), seed, str(STEPS), str(RATE),
                                 str(tmp_path / "store"), backend],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    running = [start(WORKER, rank) for rank in range(RANKS)] + [start(ALONE, 0)]
    try:
        done = [process.communicate(timeout=240) for process in running]
    finally:
        for process in running:
            process.kill()
    for process, (_, said) in zip(running, done, strict=True):
        assert process.returncode == 0, said
    first, second, whole = (json.loads(out.splitlines()[-1]) for out, _ in done)
    # Rank 0 measures, the other one takes what it found.
    assert first["asked"] == len(first["layers"]) > 4
    assert second["asked"] == 0
    assert first["layers"] == {what: ours for what, ours in second["layers"].items() if what in first["layers"]}
    assert first["runs"] == second["runs"] >= 4 * STEPS
    assert {ours for what, ours in first["layers"].items() if what.startswith("conv-B")} == {False}
    # Ranks agree to the bit, and with one process on the whole batch up to float32's rounding.
    assert first["parameters"] == second["parameters"]
    for got, want, before in zip(first["parameters"], whole["parameters"], whole["before"], strict=True):
        got, want, before = (torch.tensor(values, dtype=torch.float64) for values in (got, want, before))
        assert (got - want).abs().max() <= 2.0**-24 * 200 * max(1.0, want.abs().max())
        assert (want - before).abs().max() > 1e-4  # it learned
    assert second["alone"][:2] == [False, "rank 0 did not say"]
    assert 0.2 < second["waited"] < 20
    assert second["same"]


def test_two_devices_in_a_process(torch_device, monkeypatch, rng):
    """Each device's tensors are computed on it, whichever is the current one."""
    if torch_device.type != "cuda" or torch.cuda.device_count() < 2:
        pytest.skip("needs two devices of CUDA")
    from miopyx.torch import _layers, choice, disable, enable

    monkeypatch.setattr(choice, "recall", lambda info, key: None)
    monkeypatch.setattr(choice, "measure", lambda info, key, *how: choice.Times(1.0, 2.0, "said"))
    _layers.forget()
    torch.manual_seed(int(rng.integers(1 << 30)))
    x, w = torch.randn(4, 16, 14, 14), torch.randn(32, 16, 3, 3)
    want = torch.nn.functional.conv2d(x.double(), w.double())
    try:
        enable()
        for turn in range(6):
            with torch.cuda.device(turn // 2 % 2):
                device = torch.device("cuda", turn % 2)
                y = torch.nn.functional.conv2d(x.to(device), w.to(device))
                assert y.device == device
                assert (y.cpu().double() - want).abs().max() <= 2.0**-24 * 16 * 9 * want.abs().max()
        assert [layer.ours for layer in _layers.layers] == [True, True]
        assert [layer.runs for layer in _layers.layers] == [3, 3]
    finally:
        disable()
        _layers.forget()
