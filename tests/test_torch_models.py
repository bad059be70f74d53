"""bench/torch_models.py: its networks are those that they are called, and a small one measured."""

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.10")

PROGRAM = Path(__file__).parent.parent / "bench" / "torch_models.py"


def test_the_models():
    """Numbers of parameters are those that the papers' authors and torchvision give; the U-Nets are our own."""
    spec = importlib.util.spec_from_file_location("torch_models", PROGRAM)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    with torch.device("meta"):
        models = {name: make().eval() for name, make in bench.MODELS.items()}
        found = {name: model(bench.example(name, 2, 64)).shape for name, model in models.items()}
    assert found.pop("unet") == (2, 2, 64, 64)
    assert found.pop("unet3d") == (2, 3, 32, 32, 32)
    assert found.pop("vae_decoder") == (2, 3, 64, 64)
    assert set(found.values()) == {(2, 1000)}
    del models["unet"], models["unet3d"]
    assert {name: sum(p.numel() for p in model.parameters()) for name, model in models.items()} == {
        "resnet50": 25557032, "mobilenet_v3": 5483032, "efficientnet_b0": 5288548, "convnext": 28589128,
        "vae_decoder": 49490179 + 20}  # the 1x1 before it


def test_a_run(tmp_path):
    out = tmp_path / "out.json"
    command = [sys.executable, str(PROGRAM), "--models", "unet", "--inference", "1", "--training", "2",
               "--size", "32", "--repeat", "2", "--tune", "0.5", "--db", str(tmp_path), "--json", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(out.read_text())["rows"]
    assert [(row["model"], row["mode"], row["batch"]) for row in rows] == [
        ("unet", "inference", 1), ("unet", "training", 2)]
    for row in rows:
        assert len(row["seconds"]) == len(row["seconds torch"]) == 2
        assert min(row["seconds"] + row["seconds torch"]) > 0
        assert row["convolutions"] >= 15
        assert 0 <= row["ours"] <= row["convolutions"]
        for side in ("error", "error torch"):
            assert 0 < row[side] < 1e-2
            assert math.isfinite(row[side])
    assert done.stdout.count("\n") == 2 + len(rows)
    assert list(tmp_path.glob("*.torch-*.txt"))
