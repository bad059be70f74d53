"""Times recurrent layers beside PyTorch: cuDNN on a GPU, oneDNN on CPUs.

    python -P bench/rnn.py [--device cuda:0] [--dtype float16] [--only lstm] [--turns 5] [--json FILE]

`infer` is a forward pass with weights that were packed once, `forward` one in training, `data` and `weights` the
gradients.  PyTorch computes both gradients in one call.  In turns, medians; ratios are PyTorch's time by ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

import miopyx
from miopyx import RNNDescriptor, SeqTensorDescriptor, TensorDescriptor

# mode, steps, sequences, input, hidden, layers, directions
CASES = [
    ("lstm", 25, 16, 128, 128, 1, 1), ("lstm", 50, 32, 256, 256, 1, 1), ("lstm", 100, 32, 512, 512, 1, 1),
    ("lstm", 50, 64, 1024, 1024, 1, 1), ("lstm", 35, 20, 650, 650, 2, 1), ("lstm", 100, 8, 256, 256, 2, 2),
    ("lstm", 100, 1, 128, 128, 1, 1), ("lstm", 50, 1, 512, 512, 2, 1),
    ("gru", 50, 32, 256, 256, 1, 1), ("gru", 100, 32, 512, 512, 1, 1), ("gru", 50, 16, 512, 512, 2, 2),
    ("tanh", 50, 32, 256, 256, 1, 1), ("relu", 50, 64, 512, 512, 1, 1),
]
MODES = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
SKIPPED = ("infer", "forward")


def once(run, wait, least):
    """Return microseconds of a call, many enqueued before one wait, for `least` seconds or one call."""
    run()
    wait()
    began = perf_counter()
    run()
    wait()
    count = max(1, int(least / max(perf_counter() - began, 1e-6)))
    began = perf_counter()
    for _ in range(count):
        run()
    wait()
    return (perf_counter() - began) / count * 1e6


def ours(handle, case, dtype):
    """Return calls by name."""
    mode, steps, batch, inputs, hidden, layers, dirs = case
    rnn = RNNDescriptor(hidden, layers, MODES[mode], dirs - 1, 1, 0, dtype)
    x, y = (SeqTensorDescriptor(dtype, 1, steps, batch, n) for n in (inputs, dirs * hidden))
    step, w = TensorDescriptor(dtype, (batch, inputs)), TensorDescriptor()
    miopyx.miopenGetRNNParamsDescriptor(handle, rnn, step, w, dtype)
    infer, forward = (handle.rnn_forward(rnn, x, w, y, training) for training in (False, True))
    data, weights = handle.rnn_backward_data(rnn, y, w, x), handle.rnn_backward_weights(rnn, x, y, w)
    _, reserve = miopyx.miopenGetRNNTempSpaceSizes(handle, rnn, x, 0)
    states = TensorDescriptor(dtype, (layers * dirs, batch, hidden))
    lens = dict.fromkeys(("hx", "cx", "hy", "cy", "dhy", "dcy", "dhx", "dcx"), states.lens)
    lens |= {"x": x.shape, "dx": x.shape, "y": y.shape, "dy": y.shape, "w": w.lens, "dw": w.lens}
    rng = np.random.default_rng(0)
    memory = {"reserve": handle.zeros((reserve,), "int8")}
    for name, shape in lens.items():
        values = rng.uniform(-1, 1, shape).astype(np.float32) * (hidden**-0.5 if name == "w" else 1)
        memory[name] = handle.upload((values.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16"
                                     else values.astype(dtype))
    infer.pack(memory["w"])
    return {name: lambda plan=plan, given=[memory[name] for name in plan.buffers]: plan(*given)
            for name, plan in (("infer", infer), ("forward", forward), ("data", data), ("weights", weights))}


def theirs(case, dtype, device):
    """Return PyTorch's calls by name."""
    mode, steps, batch, inputs, hidden, layers, dirs = case
    kind = torch.nn.RNN if mode in ("relu", "tanh") else getattr(torch.nn, mode.upper())
    more = {"nonlinearity": mode} if kind is torch.nn.RNN else {}
    layer = kind(inputs, hidden, layers, bidirectional=dirs == 2, device=device, dtype=getattr(torch, dtype), **more)
    x = torch.randn(steps, batch, inputs, device=device, dtype=getattr(torch, dtype))
    state = torch.randn(layers * dirs, batch, hidden, device=device, dtype=x.dtype)
    given = (state, state.clone()) if mode == "lstm" else state
    leaf = x.clone().requires_grad_()
    dy = torch.randn(steps, batch, dirs * hidden, device=device, dtype=x.dtype)
    kept = []

    def infer():
        with torch.inference_mode():
            layer(x, given)

    def forward():
        kept[:] = [layer(leaf, given)[0]]

    def backward():
        torch.autograd.grad(kept[0], (leaf, *layer.parameters()), dy, retain_graph=True)
    layer.train()
    return {"infer": infer, "forward": forward, "backward": backward}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default=None)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", default=None)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = []
    with miopyx.Handle(args.device) as handle:
        gpu = handle.device.is_gpu
        if not gpu:
            torch.set_num_threads(handle.device.compute_units)
        for case in CASES:
            if args.only and case[0] not in args.only:
                continue
            mine, peers = ours(handle, case, args.dtype), theirs(case, args.dtype, "cuda" if gpu else "cpu")
            wait = torch.cuda.synchronize if gpu else lambda: None
            times = {name: [] for name in (*mine, *(f"peer {name}" for name in peers))}
            for _ in range(args.turns):
                for name, run in mine.items():
                    times[name].append(once(run, handle.finish, 0.05))
                for name, run in peers.items():
                    times[f"peer {name}"].append(once(run, wait, 0.05))
            row = {name: statistics.median(values) for name, values in times.items()}
            ratios = {name: row[f"peer {name}"] / row[name] for name in SKIPPED}
            ratios["backward"] = row["peer backward"] / (row["data"] + row["weights"])
            rows.append({"case": case, **row, "ratios": ratios})
            print(f"{case[0]:4} T={case[1]:3} N={case[2]:2} I={case[3]:4} H={case[4]:4} L={case[5]} D={case[6]} | "
                  + " ".join(f"{name} {value:.0f}" for name, value in row.items()) + " | "
                  + " ".join(f"{name} {value:.2f}" for name, value in ratios.items()), flush=True)
    for name in (*SKIPPED, "backward"):
        values = [row["ratios"][name] for row in rows]
        print(f"{name}: mean {np.exp(np.mean(np.log(values))):.2f}, least {min(values):.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
