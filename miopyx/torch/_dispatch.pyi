from collections.abc import Callable
from typing import Any

import torch

class Differentiable:
    @property
    def __name__(self) -> str: ...
    def __init__(self, function: type[torch.autograd.Function], compute: Callable[..., Any], tensors: int) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
