"""Putting ours in the place of PyTorch's operators, and taking it back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self

import torch

from miopyx.errors import MIOpenNotImplementedError

from . import _convolution, _threads, choice

_lock = threading.Lock()
_library: torch.library.Library | None = None


class Enabled:
    """What `enable` returns: as a context manager it is over at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        disable()


def enable() -> Enabled:
    """Let PyTorch's convolutions on CPUs take ours wherever that is faster, in all threads, until `disable`.

    The first call of each problem measures both sides on its own tensors, within a budget of 2 seconds a process (see
    `budget`); what was found is kept in the user's folder for the next process.  What is not known, and what we cannot
    compute, runs as ever.  Models, autograd, autocast and compilers see no difference.

    Returns
    -------
    Enabled
        To be used in a ``with`` statement, or ignored.

    Raises
    ------
    MIOpenNotImplementedError
        Where PyTorch is older than 2.10.
    """
    global _library
    with _lock:
        if _library is None:
            if not hasattr(torch.library, "get_kernel") or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
                raise MIOpenNotImplementedError("this PyTorch lends no kernels and no tensors", "torch",
                                                torch.__version__, ">= 2.10")
            _convolution.prepare(torch.library.get_kernel("aten::convolution_backward", "CPU"))
            library = torch.library.Library("aten", "IMPL")
            library.impl("convolution", _convolution.convolution, "CPU")
            library.impl("convolution_backward", _convolution.convolution_backward, "CPU", with_keyset=True)
            _threads.find()
            _library = library
    return Enabled()


def disable() -> None:
    """Give PyTorch's operators back."""
    global _library
    with _lock:
        if _library is not None:
            _library._destroy()
            _library = None
            _threads.forget()


def tune(model: Callable[..., Any], *example: Any, seconds: float = 600.0, backward: bool = False,
         **named: Any) -> None:
    """Run a model on an example and measure whatever it meets, so that later processes know it.

    Parameters
    ----------
    model : callable
    *example, **named
        What it is called with.
    seconds : float
        The budget of measuring, programs' builds included.
    backward : bool
        Whether gradients are measured as well: of the sum of all outputs.
    """
    before = choice.budget()
    choice.budget(seconds)
    _convolution.forget()
    try:
        with contextlib.nullcontext() if _library is not None else enable():
            found = model(*example, **named)
            if backward:
                _total(found).backward()
    finally:
        choice.budget(before)


def _total(found: Any) -> torch.Tensor:
    if isinstance(found, torch.Tensor):
        return found.float().sum()
    values = found.values() if isinstance(found, dict) else found
    return sum((_total(value) for value in values if isinstance(value, torch.Tensor | tuple | list | dict)),
               torch.zeros(()))
