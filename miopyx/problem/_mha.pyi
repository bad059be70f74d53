from typing import SupportsFloat

from ._descriptors import Descriptor, TensorDescriptor
from ._problem import Problem

FORWARD_SLOTS: dict[str, int]
BACKWARD_SLOTS: dict[str, int]

class MhaDescriptor(Descriptor):
    def __init__(self, scale: SupportsFloat = 1.0) -> None: ...
    @property
    def scale(self) -> float: ...

class MhaProblem(Problem):
    def __init__(self, backward: bool, tensors: dict[str, TensorDescriptor]) -> None: ...
