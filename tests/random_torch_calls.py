"""Random calls of PyTorch's operators, good and bad, plain and with miopyx.torch enabled, and of torch.ops.miopyx.

    python tests/random_torch_calls.py [COUNT] [--seed N] [--begin N] [--device cuda]

Each call runs on fresh tensors of any type, lengths and strides, with a defect in every other one: wrong types, devices
and lengths, memory that is expanded, overlapping, reversed in sign, sparse, quantised, or freed, and numbers that are
negative, zero or huge.  Enabled, with every problem ours that is computed, a call must give what it gives plain (the
bound is 64 roundings of a sum's terms, or the same exception's type), or a MIOpenError where the memory was freed; an
operator of ours gives a value or an exception.  Where the two differ, float64 on packed tensors of CPUs says who is
right: PyTorch's kernels read what lies beside some odd tensors.  It prints how often which, and the first calls that
are wrong; the exit status says whether any is.
"""

from __future__ import annotations

import argparse
import collections
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

try:
    import torch
except ImportError:
    sys.exit("PyTorch is not installed")
import miopyx.torch
from miopyx.errors import MIOpenError
from miopyx.torch import _layers, choice, override

F = torch.nn.functional
OPS = torch.ops.miopyx
FLOATS = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
OTHERS = (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn)
U = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
CHUNK = 250
MEMORY = 12 << 30  # of addresses: what is huge is refused, not computed
ENOUGH = 10  # differences that are printed
LARGEST = 1 << 26  # elements of a result that is compared
_Call = tuple[str, Callable[[], Any], bool]

_exactly = False  # calls take their tensors in float64, packed, on the CPU


def _use(x: torch.Tensor | None) -> torch.Tensor | None:
    return x.detach().cpu().double().contiguous() if _exactly and x is not None and x.dtype in FLOATS else x


def _tensor(rng: np.random.Generator, lens: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Return random numbers in one of the layouts that are read without a copy, or with one."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(int(rng.integers(1 << 40)))
    x = torch.randn(lens, generator=generator).to(dtype)
    how = rng.integers(8)
    if how == 0 and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if how == 1 and x.dim() == 5:
        return x.contiguous(memory_format=torch.channels_last_3d)
    if how == 2 and x.dim() > 1:
        order = [int(i) for i in rng.permutation(x.dim())]
        return x.permute(order).contiguous().permute([order.index(i) for i in range(x.dim())])
    if how == 3 and x.dim():
        return torch.cat([x, x], -1)[..., :x.shape[-1]]
    if how == 4 and x.dim() and 0 not in lens:
        axis = int(rng.integers(x.dim()))
        return x.narrow(axis, 0, 1).expand_as(x)
    return x


def _spoiled(rng: np.random.Generator, x: torch.Tensor, filter_: bool) -> tuple[torch.Tensor, bool]:
    """Return a tensor that something is wrong or odd with, and whether its memory was freed.

    Filters are not NaN: what that gives beside padding is a documented difference.
    """
    how = int(rng.integers(15))
    if how == 0:
        return x.to(OTHERS[int(rng.integers(len(OTHERS)))]), False
    if how == 1:
        return x.to(FLOATS[int(rng.integers(len(FLOATS)))]), False
    if how == 2:
        return x.to("meta"), False
    if how == 3:
        return x.unsqueeze(0) if rng.integers(2) else x.flatten(), False
    if how == 4 and x.dim():
        return x.narrow(int(rng.integers(x.dim())), 0, 0), False
    if how == 5 and x.is_floating_point():
        return torch._neg_view(x), False
    if how == 6:
        return torch.randn(*x.shape, dtype=torch.complex64).conj(), False
    if how == 7:
        return x.contiguous().to_sparse(), False
    if how == 8 and x.dtype == torch.float32 and x.dim() and x.numel() and x.is_cpu:
        return x.contiguous().to_mkldnn(), False
    if how == 9 and x.dtype == torch.float32 and x.is_cpu:
        return torch.quantize_per_tensor(x.contiguous(), 0.1, 0, torch.quint8), False
    if how == 10 and x.numel() > 1:
        return x.clone().as_strided(x.shape, [int(s) for s in rng.integers(0, 2, x.dim())]), False
    if how == 11:
        freed = x.clone(memory_format=torch.contiguous_format)
        if freed.numel():
            freed.untyped_storage().resize_(0)
        return freed, bool(freed.numel())
    if how == 12:
        return x.clone().requires_grad_() if x.is_floating_point() else x, False
    if how == 13:
        return x.cpu() if x.is_cuda else x.clone(), False
    if filter_:
        return x, False
    return torch.full_like(x, float("nan")) if x.is_floating_point() else x, False


def _number(rng: np.random.Generator, least: int, most: int, odd: bool, huge: int = 1 << 33) -> int:
    return int(rng.choice([-1, 0, huge, 11])) if odd and rng.integers(3) == 0 else int(rng.integers(least, most + 1))


def _case(rng: np.random.Generator, at: int) -> _Call:
    """Return a call: what it is, the function, and whether some memory of it was freed."""
    axes = int(rng.integers(1, 4))
    dtype = FLOATS[int(rng.integers(len(FLOATS)))]
    odd = bool(rng.integers(2))
    spoiled = int(rng.integers(6)) if odd else -1
    freed = [False]

    def tensor(at: int, *lens: int) -> torch.Tensor:
        x = _tensor(rng, [max(0, n) for n in lens], dtype)
        if at == spoiled:
            x, gone = _spoiled(rng, x, at == 1)
            freed[0] = freed[0] or gone
        return x

    def numbers(least: int, most: int, count: int = axes) -> list[int]:
        # PyTorch itself divides by zero or leaves its memory on CUDA where a number does not fit 32 bits.
        huge = 1 << 33 if "ops." in kind or torch.get_default_device().type == "cpu" else 1 << 20
        return [_number(rng, least, most, odd, huge) for _ in range(count)]

    kind = ("convolution", "transposed", "batch norm", "average", "maximum", "softmax", "gradients", "ops.convolution",
            "ops.pooling", "ops.layers")[int(rng.integers(10))]
    groups = int(rng.integers(1, 3))
    n, c, k = int(rng.integers(1, 3)), groups * int(rng.integers(1, 3)), groups * int(rng.integers(1, 3))
    image = [int(i) for i in rng.integers(3, 8, axes)]
    window = [int(i) for i in rng.integers(1, 4, axes)]
    call: Callable[[], Any]
    if kind in ("convolution", "transposed", "gradients", "ops.convolution"):
        transposed = kind == "transposed" or (bool(rng.integers(2)) and kind != "convolution")
        x = tensor(0, n, c, *image)
        w = tensor(1, c, k // groups, *window) if transposed else tensor(1, k, c // groups, *window)
        bias = tensor(2, k) if rng.integers(2) else None
        numeric = numbers(1, 2), numbers(0, 2), numbers(1, 2), transposed, numbers(0, 0), groups
        if kind == "gradients":
            def call() -> Any:
                a, b = (_use(t).detach().clone().requires_grad_() for t in (x, w))
                y = torch.convolution(a, b, _use(bias), *numeric)
                y.sum().backward()
                return y.detach(), a.grad, b.grad
        else:
            op = OPS.convolution if kind == "ops.convolution" else torch.convolution
            call = lambda: op(_use(x), _use(w), _use(bias), *numeric)  # noqa: E731
    elif kind == "batch norm":
        x = tensor(0, n, c, *image)
        w, b, mean, var = (tensor(i, c) if rng.integers(4) else None for i in (1, 2, 3, 4))
        training = bool(rng.integers(2))
        call = lambda: torch.batch_norm(  # noqa: E731
            _use(x), _use(w), _use(b), *(t if t is None else _use(t).clone() for t in (
                mean, None if var is None else var.abs())), training, 0.1, 1e-5, True)
    elif kind == "average":
        x, pool = tensor(0, n, c, *image), (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[axes - 1]
        options = numbers(1, 3), numbers(1, 3), numbers(0, 1), bool(rng.integers(2)), bool(rng.integers(2))
        call = lambda: pool(_use(x), *options)  # noqa: E731
    elif kind == "maximum":
        x, largest_of = tensor(0, n, c, *image), (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes - 1]
        # PyTorch compares no float8.
        compared = x.is_floating_point() and x.element_size() > 1 and x.layout == torch.strided and not freed[0]
        if compared and rng.integers(3) == 0:
            x = x.masked_fill(x > 0.8, float(rng.choice([np.nan, -np.inf])))
        window, numeric = numbers(1, 3), (numbers(1, 3), numbers(0, 1), numbers(1, 2), bool(rng.integers(2)))
        if rng.integers(2):
            call = lambda: largest_of(_use(x), window, *numeric, return_indices=bool(axes - 1))  # noqa: E731
        else:
            def call() -> Any:
                a = _use(x).detach().clone().requires_grad_()
                y, places = largest_of(a, window, *numeric, return_indices=True)
                y.sum().backward()
                return y.detach(), places, a.grad
    elif kind == "softmax":
        x, axis = tensor(0, n, c, *image), _number(rng, -2, 2, odd)
        function = F.log_softmax if rng.integers(2) else F.softmax
        call = lambda: function(_use(x), axis)  # noqa: E731
    elif kind == "ops.pooling":
        x, ceil = tensor(0, n, c, *image), bool(rng.integers(2))
        options = numbers(1, 3), numbers(1, 3), numbers(0, 1)
        dilation = numbers(1, 2)
        largest = bool(rng.integers(2))
        call = lambda: (OPS.max_pool_with_indices(x, *options, dilation, ceil) if largest else  # noqa: E731
                        OPS.avg_pool(x, *options, ceil, True, None))
    else:
        x = tensor(0, n, c, *image)
        mean, var = tensor(1, c), tensor(2, c)
        size, axis = _number(rng, 1, 5, odd), _number(rng, -2, 2, odd)
        layers: list[Callable[[], Any]] = [
            lambda: OPS.batch_norm_inference(x, None, None, mean, var, 1e-5), lambda: OPS.softmax(x, axis),
            lambda: OPS.activation(x, "tanh", 1.0, 1.0, 0.0), lambda: OPS.local_response_norm(x, size, 1e-4, 0.7, 1.0)]
        call = layers[int(rng.integers(len(layers)))]
    return f"{kind}, {axes} axes, {dtype}, defect {spoiled}, call {at}", call, freed[0]


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        found = call()
    except Exception as e:
        found = e
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()  # no call on CUDA works any more once a kernel left its memory
    return found


class _Lost(Exception):
    """A call after which CUDA works no more."""


def _judged(call: Callable[[], Any], what: str, side: str) -> Any:
    try:
        return _outcome(call)
    except RuntimeError as e:
        raise _Lost(f"{what}, {side}: {str(e).splitlines()[0]}") from e


def _said(found: Any) -> str:
    return f"{found!r}"[:150] if isinstance(found, Exception) else str([tuple(t.shape) for t in _values(found)])


def _exact(call: Callable[[], Any]) -> Any:
    global _exactly
    _exactly = True
    try:
        return _plainly(call)
    finally:
        _exactly = False


def _values(found: Any) -> list[torch.Tensor]:
    return [t for t in (found if isinstance(found, tuple | list) else [found]) if isinstance(t, torch.Tensor)]


def _difference(plain: Any, enabled: Any, freed: bool, exactly: bool = False) -> str:
    """Say how two outcomes differ, nothing where they do not; `exactly`: the first one is float64's."""
    if freed and isinstance(enabled, MIOpenError):
        return ""
    if isinstance(plain, Exception) or isinstance(enabled, Exception):
        return "" if type(plain) is type(enabled) else f"{_said(plain)} and {_said(enabled)}"
    for a, b in zip(_values(plain), _values(enabled), strict=True):
        if a.shape != b.shape or (not exactly and (a.dtype, a.layout, a.device) != (b.dtype, b.layout, b.device)):
            return f"{a.shape} {a.dtype} {a.layout} and {b.shape} {b.dtype} {b.layout}"
        if a.device.type != "meta" and a.dtype == torch.int64 and a.layout == torch.strided:
            if not a.cpu().equal(b.cpu()):
                return f"{int((a.cpu() != b.cpu()).sum())} indices differ"
            continue
        if a.device.type == "meta" or a.layout != torch.strided or a.is_quantized or a.dtype not in U:
            continue
        if not 0 < a.numel() <= LARGEST:
            continue
        bits = U[b.dtype]
        a, b = a.double().cpu(), b.double().cpu()
        size = max(1.0, a[a.isfinite()].abs().max().item() if a.isfinite().any() else 1.0)
        if not torch.allclose(a, b, rtol=0, atol=bits * 64 * 27 * 4 * size, equal_nan=True):
            return f"values differ by {(a - b).abs().max().item():.3g} of {size:.3g}"
    return ""


def _measure(info: object, key: bytes, ours: Callable[[], object], theirs: Callable[[], object],
             wait: object = None) -> choice.Times:
    ours()
    theirs()  # which may refuse what ours computes
    return choice.Times(1.0, 2.0, "said")


def _is_right(found: Any, plain: Any, again: Any, exact: Any) -> bool:
    """Whether each value is what float64 gives, or PyTorch's, whose kernel may have made it: not always the same."""
    if isinstance(exact, NotImplementedError):  # a tensor of no device, which PyTorch's kernel read
        return True
    if any(isinstance(one, Exception) for one in (found, plain, again, exact)):
        return not _difference(exact, found, False, True) or bool(_difference(plain, again, False))
    return all(not _difference(e, f, False, True) or not _difference(p, f, False) or bool(_difference(p, a, False))
               for f, p, a, e in zip(*map(_values, (found, plain, again, exact)), strict=True))


def _plainly(call: Callable[[], Any]) -> Any:
    """Call once more without ours: what PyTorch reads beside a tensor is not the same each time."""
    miopyx.torch.disable()
    try:
        return _outcome(call)
    finally:
        miopyx.torch.enable()


def _chunks(count: int, seed: int, begin: int) -> Iterator[list[_Call]]:
    """Return the calls from `begin` on, some at a time; each is known by the seed and its number."""
    for at in range(begin, count, CHUNK):
        yield [_case(np.random.default_rng([seed, i]), i) for i in range(at, min(count, at + CHUNK))]


def run(count: int, seed: int, begin: int = 0) -> tuple[collections.Counter[str], list[str]]:
    """Make calls; return how often what became of them, and the calls that differ."""
    seen: collections.Counter[str] = collections.Counter()
    wrong = []
    before, room = (choice.recall, choice.measure), resource.getrlimit(resource.RLIMIT_AS)
    if torch.get_default_device().type == "cpu":  # CUDA takes addresses for all memory that there is
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, room[1]))
    choice.recall = lambda info, key: None
    choice.measure = _measure
    _layers.open_accounts(lambda family, device: None, lambda: None)  # nothing is given back
    warnings.simplefilter("ignore")
    try:
        for cases in _chunks(count, seed, begin):
            # PyTorch itself may read memory that was freed, and crash.
            plain = [None if freed or "ops." in what else _judged(call, what, "plain") for what, call, freed in cases]
            _layers.forget()
            with miopyx.torch.enable():
                for (what, call, freed), wanted in zip(cases, plain, strict=True):
                    kind = what.partition(",")[0]
                    if freed and kind not in ("ops.convolution", "ops.pooling", "ops.layers", "convolution"):
                        seen[f"{kind}: freed, left out"] += 1
                        continue
                    ours = sum(layer.runs for layer in _layers.layers if layer.ours)
                    found = _judged(call, what, "enabled")
                    mine = sum(layer.runs for layer in _layers.layers if layer.ours) > ours
                    how = "refused" if isinstance(found, Exception) else "ours" if mine else "computed"
                    seen[f"{kind}: {how}"] += 1
                    differs = "" if "ops." in what or freed else _difference(wanted, found, freed)
                    if differs and _is_right(found, wanted, _plainly(call), _exact(call)):
                        seen[f"{kind}: PyTorch's own is wrong"] += 1
                    elif differs:
                        wrong.append(f"{what}: {differs}")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, room)
        choice.recall, choice.measure = before
        _layers.open_accounts(override._give_back, override._take_again)
        _layers.forget()
    return seen, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--begin", type=int, default=0, help="the first call")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_default_device(options.device)
    print(f"seed {options.seed}", flush=True)
    began = time.perf_counter()
    try:
        seen, wrong = run(options.count, options.seed, options.begin)
    except _Lost as e:
        print(f"lost: {e}")
        return 3
    for what, times in sorted(seen.items()):
        print(f"{times:8d}  {what}")
    print(f"{len(wrong)} differ, {time.perf_counter() - began:.0f} s")
    print("\n".join(wrong[:ENOUGH]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
