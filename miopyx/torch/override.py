"""Putting ours in the place of PyTorch's operators, and taking it back."""

from __future__ import annotations

import collections
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Set
from typing import Any, Self

import torch
from torch.utils.hooks import RemovableHandle

from miopyx.errors import BadParmError, MIOpenNotImplementedError

from . import _batch_norm, _convolution, _layers, _pooling, _softmax, _threads, choice

# What is taken, by families that are given back as a whole.
OPERATORS: dict[str, dict[str, Callable[..., Any]]] = dict(zip(_layers.FAMILIES, (
    {"convolution": _convolution.convolution},
    {"convolution_backward": _convolution.convolution_backward},
    {"native_batch_norm": _batch_norm.native_batch_norm, "cudnn_batch_norm": _batch_norm.cudnn_batch_norm},
    {"native_batch_norm_backward": _batch_norm.native_batch_norm_backward,
     "cudnn_batch_norm_backward": _batch_norm.cudnn_batch_norm_backward},
    {"avg_pool2d": _pooling.avg_pool2d, "avg_pool3d": _pooling.avg_pool3d},
    {"avg_pool2d_backward": _pooling.avg_pool2d_backward, "avg_pool3d_backward": _pooling.avg_pool3d_backward},
    {"max_pool2d_with_indices": _pooling.max_pool2d, "max_pool3d_with_indices": _pooling.max_pool3d},
    {"max_pool2d_with_indices_backward": _pooling.max_pool2d_backward,
     "max_pool3d_with_indices_backward": _pooling.max_pool3d_backward},
    {"_softmax": _softmax.softmax, "_log_softmax": _softmax.log_softmax},
    {"_softmax_backward_data": _softmax.softmax_backward,
     "_log_softmax_backward_data": _softmax.log_softmax_backward}), strict=True))
DEVICES = ("cpu", "cuda") if torch.version.cuda else ("cpu",)

_lock = threading.Lock()
_libraries: dict[tuple[str, str], torch.library.Library] = {}  # by families and types of devices
# Our kernels of the last some eighty times: another thread may be in one when it is taken away.
_held: collections.deque[Any] = collections.deque(maxlen=1024)
# Families that gained nothing, and when that was found: they stay given back after `disable`, which may end each step.
given_back: dict[tuple[str, str], float] = {}
FORGOTTEN = 60.0  # seconds after which `enable` takes them again
_on = False
_everything = 0  # calls of `enable` that nothing ended yet: for all, and for models
_asked: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
_models: weakref.WeakKeyDictionary[torch.nn.Module, list[RemovableHandle]] = weakref.WeakKeyDictionary()
_generation = 0  # of what `disable` ended


class Enabled:
    """What `enable` returns: as a context manager it takes that back at the end of the block."""

    def __init__(self, model: torch.nn.Module | None) -> None:
        self._model = None if model is None else weakref.ref(model)
        self._generation = _generation

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with _lock:
            if self._generation == _generation:
                self._generation = -1
                _ask(None if self._model is None else self._model(), self._model is None, -1)


def enable(model: torch.nn.Module | None = None) -> Enabled:
    """Let PyTorch's convolutions, batch norms, pooling and softmax take ours wherever that is faster.

    In all threads, until `disable`, or the end of a ``with`` block; what other blocks enabled stays so.

    The first call of each problem measures both sides on its own tensors, within a budget of 2 seconds a process (see
    `budget`); what was found is kept in the user's folder for the next process.  What is not known, and what we cannot
    compute, runs as ever.  Models, autograd, autocast and compilers see no difference.

    A kind of operators that gained less in its last hundreds of calls than these calls' way through Python takes is
    given back to PyTorch as a whole, until another kind measures a new problem, or `tune` is called.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Only those of its forward passes, and their gradients.  A compiled model is given as what `torch.compile`
        returned.

    Returns
    -------
    Enabled
        To be used in a ``with`` statement, or ignored.

    Raises
    ------
    BadParmError
        For a model that is no module.
    MIOpenNotImplementedError
        Where PyTorch is older than 2.10.
    """
    if model is not None and not isinstance(model, torch.nn.Module):
        raise BadParmError("not a module", "model", type(model).__name__, "torch.nn.Module")
    with _lock:
        _ask(model, model is None, 1)
        return Enabled(model)


def disable() -> None:
    """Give PyTorch's operators back, whoever enabled what."""
    global _everything, _generation
    with _lock:
        _everything = 0
        _asked.clear()
        _generation += 1
        _switch()


def _ask(model: torch.nn.Module | None, everything: bool, more: int) -> None:
    """Count a wish, or take it back; where it cannot be fulfilled nothing was said."""
    global _everything
    if everything:
        _everything += more
    elif model is not None:
        _asked[model] = _asked.get(model, 0) + more
    try:
        _switch()
    except BaseException:
        if everything:
            _everything -= more
        elif model is not None:
            _asked[model] -= more
        raise


def _take(family: str, device: str) -> None:
    """Put ours in the place of a family's operators."""
    if (family, device) in _libraries:
        return
    names = [name for name in OPERATORS[family] if device == "cuda" or not name.startswith("cudnn")]
    _layers.prepare(device, {name: torch.library.get_kernel(f"aten::{name}", device.upper()) for name in names})
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # some keys have kernels already: that is the purpose
            for name in names:
                library.impl(name, OPERATORS[family][name], device.upper(), with_keyset=name != "convolution")
    except BaseException:
        library._destroy()
        raise
    _libraries[family, device] = library
    _held.extend(torch.library.get_kernel(f"aten::{name}", device.upper()) for name in names)


def _give_back(family: str, device: str) -> None:
    """Take ours away from a family that gains nothing.

    Not in a group of processes, whose ranks would differ in what they ask each other for.  And not the gradients of
    CUDA's batch norm while a forward pass of ours waits for them, or may yet come: cuDNN's own want what it does not
    keep in reserve.
    """
    if choice.in_group():
        return
    if (family, device) == ("batch norm's gradients", "cuda") and (
            ("batch norm", device) in _libraries or _batch_norm.wants_our_gradients()):
        return
    if not _lock.acquire(blocking=False):  # somebody enables or disables
        return
    try:
        library = _libraries.pop((family, device), None)
        if library is not None:
            library._destroy()
            given_back[family, device] = time.monotonic()
    finally:
        _lock.release()


def _take_again() -> None:
    """Take what was given back: somebody tunes, or other problems are met."""
    if not given_back or not _lock.acquire(blocking=False):
        return
    try:
        for which in [*given_back]:
            if _on:
                _take(*which)
            del given_back[which]
    finally:
        _lock.release()


_layers.open_accounts(_give_back, _take_again)


def _switch() -> None:
    """Take what is asked for, and nothing else."""
    global _on
    models = {model for model, times in _asked.items() if times > 0}
    if _everything > 0 or models:
        if not hasattr(torch.library, "get_kernel") or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
            raise MIOpenNotImplementedError("this PyTorch lends no kernels and no tensors", "torch",
                                            torch.__version__, ">= 2.10")
        if not _on:
            _threads.find()
            now = time.monotonic()
            for which in [which for which, when in given_back.items() if now - when >= FORGOTTEN]:
                del given_back[which]
        before = {*_libraries}
        try:
            for device in DEVICES:
                for family in OPERATORS:
                    if (family, device) not in given_back:
                        _take(family, device)
        except BaseException:  # an interrupt: all or none
            _drop({*_libraries} - before)
            raise
        _on = True
    else:
        # What a forward pass of ours left to do is ours: cuDNN would refuse it.
        awaited = {("batch norm's gradients", "cuda")} if _batch_norm.wants_our_gradients() else set()
        _drop({*_libraries} - awaited)
        _threads.forget()
        _on = False
    for model in {*_models} - models:
        for handle in _models.pop(model):
            handle.remove()
    for model in models - {*_models}:
        _models[model] = [model.register_forward_pre_hook(_enter, prepend=True),
                          model.register_forward_hook(_leave, always_call=True)]
    _layers.choose(_everything > 0)


def _drop(which: Set[tuple[str, str]]) -> None:
    for family in which:
        _libraries.pop(family)._destroy()


def _enter(model: torch.nn.Module, _: object) -> None:
    if not torch.compiler.is_compiling() and model in _models:  # a copy of a model has its hooks
        _layers.enter()


def _leave(model: torch.nn.Module, *_: object) -> None:
    if not torch.compiler.is_compiling() and model in _models:
        _layers.leave()


def budget(seconds: float | None = None) -> float:
    """Return the seconds that this process may still spend on measuring; set them first where some are given.

    What there was no time for is then measured when it is met again.

    Raises
    ------
    BadParmError
        For less than 0, and for what is no number.
    """
    left = choice.budget(seconds)
    if seconds is not None and any(layer.times.source == choice.NO_TIME for layer in [*_layers.layers]):
        _layers.forget()
    return left


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
    try:
        choice.budget(seconds)
        _layers.forget()
        _take_again()
        with enable():
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
