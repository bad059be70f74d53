from collections.abc import Sequence

from ._descriptors import TensorDescriptor
from ._slots import SlotsProblem

class CatProblem(SlotsProblem):
    def __init__(self, dim: int, xs: Sequence[TensorDescriptor], y: TensorDescriptor) -> None: ...
