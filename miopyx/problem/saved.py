"""Descriptors as plain data, which JSON can hold, and back: what saved solutions are made of.

What comes back went through the functions that set descriptors, and is checked as a caller's arguments are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miopyx.errors import InvalidValueError

from . import _activation, _descriptors, _mha, _softmax
from ._activation import ActivationDescriptor
from ._descriptors import ConvolutionDescriptor, TensorDescriptor
from ._mha import MhaDescriptor
from ._softmax import SoftmaxDescriptor

_SETTERS: dict[type, tuple[Any, tuple[str, ...]]] = {
    TensorDescriptor: (_descriptors, ("set_tensor", "set_tensor_layout", "set_cast_type")),
    ConvolutionDescriptor: (_descriptors, ("set_convolution", "set_group_count", "set_output_pads", "set_attribute",
                                           "set_find_mode")),
    ActivationDescriptor: (_activation, ("_set",)),
    SoftmaxDescriptor: (_softmax, ("_set",)),
    MhaDescriptor: (_mha, ("_set",)),
}


def data_of(desc: Any) -> list[list[Any]]:
    """Return a descriptor's settings: lists of a setter's name and its arguments."""
    _, (_, settings) = desc.__reduce__()
    return [[function.__name__, *arguments] for function, *arguments in settings]


def descriptor_of(kind: type, data: Any) -> Any:
    """Return the descriptor of a class that `data_of` gave the data of.

    Raises
    ------
    MIOpenError
        For what is no such data, and what the setters refuse.
    """
    module, names = _SETTERS[kind]
    desc = kind()
    try:
        for name, *arguments in data:
            if name not in names:
                raise InvalidValueError("no setting of a descriptor", "settings", name, ", ".join(names))
            function: Callable[..., Any] = getattr(module, name)
            function(desc, *arguments)
    except (TypeError, ValueError, OverflowError) as e:
        if isinstance(e, InvalidValueError):
            raise
        raise InvalidValueError(f"no settings of a {kind.__name__}: {e}") from None
    return desc
