"""Times concatenation, losses, GLU, PReLU, rotary embeddings, Adam, k-th values and getitem beside PyTorch.

    python -P bench/elementwise.py                      on the best CPU device, beside PyTorch on the CPU
    python -P bench/elementwise.py --device cuda:0      on a GPU, beside PyTorch on CUDA
    python -P bench/elementwise.py --only adam,ctc
    python -P bench/elementwise.py --json OUT           a record, too

Prints microseconds of both, how many times as fast as PyTorch, and the bytes that must move by our time (GB/s).  Calls
go through the functions of miopen.h, so their fixed cost is in the times.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import miopyx
from miopyx import TensorDescriptor

sys.path.append(str(Path(__file__).parent))

import record
from record import microseconds

SIZES = {"1 MB": (256, 1024), "16 MB": (4096, 1024)}


class Side:
    """Makes the same numbers for both sides."""

    def __init__(self, handle, torch, cuda):
        self.handle, self.torch, self.cuda = handle, torch, cuda
        self.rng = np.random.default_rng(0)

    def pair(self, values):
        """Memory of the handle's device and PyTorch's tensor; on CPUs both may be NumPy's."""
        memory = self.handle.upload(values)
        return memory, None if self.torch is None else self.torch.tensor(values, device="cuda" if self.cuda else "cpu")

    def random(self, *lens, dtype="float32"):
        return self.pair(self.rng.standard_normal(lens, np.float32).astype(dtype))

    def space(self, size):
        return self.handle.upload(np.zeros(max(size, 1), np.uint8)) if size else None


def desc(*lens, dtype="float32"):
    return TensorDescriptor(dtype, lens)


def cat(s, rows, columns):
    (a, ta), (b, tb), (y, _) = s.random(rows, columns), s.random(rows, columns), s.random(rows, 2 * columns)
    d, out = desc(rows, columns), desc(rows, 2 * columns)
    return (lambda: miopyx.miopenCatForward(s.handle, 2, [d, d], [a, b], out, y, 1),
            lambda: s.torch.cat([ta, tb], 1), 16 * rows * columns)


def glu(s, rows, columns, back=False):
    (x, tx), (y, ty), (dx, _) = s.random(rows, columns), s.random(rows, columns // 2), s.random(rows, columns)
    d, half = desc(rows, columns), desc(rows, columns // 2)
    if back:
        return (lambda: miopyx.miopenGLUBackward(s.handle, d, x, half, y, d, dx, 1),
                lambda: s.torch.ops.aten.glu_backward(ty, tx, 1), 10 * rows * columns)
    return (lambda: miopyx.miopenGLUForward(s.handle, d, x, half, y, 1),
            lambda: s.torch.nn.functional.glu(tx, 1), 6 * rows * columns)


def prelu(s, rows, columns, channels=True):
    n = columns if channels else 1
    (x, tx), (dy, tdy), (w, tw) = s.random(rows, columns), s.random(rows, columns), s.random(n)
    (dx, _), (dw, _) = s.random(rows, columns), s.random(n)
    d, one = desc(rows, columns), desc(n)
    size = miopyx.miopenGetPReLUBackwardWorkspaceSize(s.handle, d, one)
    space = s.space(size)

    def theirs():
        _, gradient = s.torch.ops.aten._prelu_kernel_backward(tdy, tx, tw)
        gradient.sum(0 if channels else None)
    return (lambda: miopyx.miopenPReLUBackward(s.handle, space, size, d, x, one, w, d, dy, d, dx, one, dw), theirs,
            12 * rows * columns)


def soft_margin(s, rows, columns, reduction=2):
    (x, tx), (t, tt) = s.random(rows, columns), s.pair(np.sign(s.rng.standard_normal((rows, columns), np.float32)))
    y, _ = s.random(1) if reduction else s.random(rows, columns)
    d, out = desc(rows, columns), desc(1) if reduction else desc(rows, columns)
    size = miopyx.miopenGetSoftMarginLossForwardWorkspaceSize(s.handle, d, d, out, reduction)
    space = s.space(size)
    word = ("none", "sum", "mean")[reduction]
    return (lambda: miopyx.miopenSoftMarginLossForward(s.handle, d, x, d, t, out, y, reduction, space, size),
            lambda: s.torch.nn.functional.soft_margin_loss(tx, tt, reduction=word),
            (8 if reduction else 12) * rows * columns)


def soft_margin_backward(s, rows, columns):
    (x, tx), (t, tt), (dy, tdy), (dx, _) = (s.random(rows, columns) for _ in range(4))
    d = desc(rows, columns)
    return (lambda: miopyx.miopenSoftMarginLossBackward(s.handle, d, x, d, t, d, dy, d, dx, 0),
            lambda: s.torch.ops.aten.soft_margin_loss_backward(tdy, tx, tt, 0), 16 * rows * columns)


def multi_margin(s, rows, columns):
    (x, tx), (w, tw), (y, _) = s.random(rows, columns), s.random(columns), s.random(1)
    t, tt = s.pair(s.rng.integers(0, columns, rows))
    given = desc(rows, columns), desc(rows, dtype="int64"), desc(columns), desc(1)
    size = miopyx.miopenGetMultiMarginLossForwardWorkspaceSize(s.handle, *given, 1, 1.0, 2)
    space = s.space(size)
    return (lambda: miopyx.miopenMultiMarginLossForward(s.handle, given[0], x, given[1], t, given[2], w, given[3], y, 1,
                                                        1.0, 2, space, size),
            lambda: s.torch.nn.functional.multi_margin_loss(tx, tt, 1, 1.0, tw), 4 * rows * columns)


def rope(s, rows, columns):
    (x, tx), (y, _), (c, tc), (i, ti) = (s.random(*lens) for lens in ((rows, columns),) * 2 + ((columns,),) * 2)
    d, one = desc(rows, columns), desc(columns)

    def theirs():
        turned = s.torch.stack((-tx[:, 1::2], tx[:, ::2]), -1).reshape(tx.shape)
        return tx * tc + turned * ti
    return (lambda: miopyx.miopenRoPEForward(s.handle, d, x, one, c, one, i, d, y), theirs, 8 * rows * columns)


def adam(s, rows, columns, transformers=False):
    made = [s.random(rows, columns) for _ in range(3)] + [s.pair(s.rng.random((rows, columns), np.float32))]
    d = desc(rows, columns)
    first = [v for memory, _ in made for v in (d, memory)]
    rest = 3, 1e-3, 0.9, 0.999, 0.01, 1e-8
    if transformers:
        def ours():
            miopyx.miopenTransformersAdamW(s.handle, *first, None, None, *rest, True, None, None, None, None)
    else:
        def ours():
            miopyx.miopenFusedAdam(s.handle, *first, *[None] * 4, *rest, False, False, True, *[None] * 4)
    theirs = None
    if s.torch is not None:
        step = [s.torch.tensor(3.0, device=made[0][1].device)]
        p, g, m, v = ([t] for _, t in made)

        def theirs():
            s.torch._fused_adamw_(p, g, m, v, [], step, lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8,
                                  amsgrad=False, maximize=False)
    return ours, theirs, 28 * rows * columns


def kth(s, rows, columns):
    (x, tx), (y, _), (i, _) = s.random(rows, columns), s.random(rows), s.pair(np.zeros(rows, np.int64))
    d, out, places = desc(rows, columns), desc(rows), desc(rows, dtype="int64")
    k = columns // 3
    return (lambda: miopyx.miopenKthvalueForward(s.handle, d, x, out, y, places, i, k, 1, False),
            lambda: s.torch.kthvalue(tx, k, 1), 4 * rows * columns)


def getitem(s, rows, columns):
    places = 1000
    (dy, tdy), (dx, tdx) = s.random(rows, columns), s.random(places, columns)
    i, ti = s.pair(s.rng.integers(0, places, rows))
    e, _ = s.pair(np.zeros(1, np.int32))
    d, out, index, error = desc(rows, columns), desc(places, columns), desc(rows, dtype="int64"), desc(1, dtype="int32")
    return (lambda: miopyx.miopenGetitemBackward(s.handle, None, 0, d, dy, 1, [index], [i], out, dx, error, e, 1, [0],
                                                 0, None, 0),
            lambda: tdx.index_put_((ti,), tdy, accumulate=True), 8 * rows * columns)


def ctc(s, rows, columns):
    """Rows are steps of 8 samples, columns classes; 50 labels a sample."""
    samples, count = 8, 50
    steps = max(2 * count, rows // samples)
    (x, tx), (dx, _) = (s.random(steps, samples, columns) for _ in range(2))
    losses, _ = s.random(samples)
    labels = s.rng.integers(1, columns, samples * count).astype(np.int32)
    counts, inputs = np.full(samples, count, np.int32), np.full(samples, steps, np.int32)
    d, loss = desc(steps, samples, columns), miopyx.CTCLossDescriptor()
    size = miopyx.miopenGetCTCLossWorkspaceSize(s.handle, d, d, labels, counts, inputs, 0, loss)
    space = s.space(size)
    theirs = None
    if s.torch is not None:
        leaf = tx.requires_grad_()
        given = [s.torch.tensor(a.astype(np.int64)) for a in (labels, inputs, counts)]

        def theirs():
            leaf.grad = None
            s.torch.nn.functional.ctc_loss(leaf.log_softmax(2), *given, reduction="sum").backward()
    return (lambda: miopyx.miopenCTCLoss(s.handle, d, x, labels, counts, inputs, losses, d, dx, 0, loss, space, size),
            theirs, 12 * steps * samples * columns)


CASES = {
    "cat": cat, "glu": glu, "glu backward": lambda *a: glu(*a, back=True), "prelu, channels": prelu,
    "prelu, one weight": lambda *a: prelu(*a, channels=False), "soft margin": lambda *a: soft_margin(*a, reduction=0),
    "soft margin, mean": soft_margin, "soft margin backward": soft_margin_backward, "multi margin, mean": multi_margin,
    "rope": rope, "adamw": adam, "transformers adamw": lambda *a: adam(*a, transformers=True), "kth value": kth,
    "getitem backward": getitem, "ctc": ctc,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="beginnings of names, separated by commas")
    record.add_option(parser)
    options = parser.parse_args()
    rows = []
    cuda = options.device.startswith("cuda")
    try:
        import torch

        if cuda and not torch.cuda.is_available():
            torch = None
    except ImportError:
        torch = None
    wanted = tuple(filter(None, options.only.split(",")))
    with miopyx.Handle(options.device) as handle:
        side = Side(handle, torch, cuda)
        for name, make in CASES.items():
            if wanted and not name.startswith(wanted):
                continue
            for size, lens in SIZES.items():
                ours, theirs, nbytes = make(side, *lens)
                runs = 5 if name in ("ctc", "kth value") else 20
                mine = microseconds(ours, handle.finish, runs)
                row = {"name": name, "size": size, "us": mine, "gb_s": nbytes / mine / 1e3}
                words = f"{name:22} {size:6} {mine:9.1f} us {nbytes / mine / 1e3:6.1f} GB/s"
                if torch is not None and theirs is not None:
                    other = microseconds(theirs, torch.cuda.synchronize if cuda else lambda: None, runs)
                    words += f"   PyTorch {other:9.1f} us   {other / mine:5.2f} times as fast"
                    row["torch_us"] = other
                rows.append(row)
                print(words, flush=True)
        record.write(options.json, handle, torch, rows)


if __name__ == "__main__":
    main()
