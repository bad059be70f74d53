from ._descriptors import TensorDescriptor
from ._slots import SlotsProblem

class KthProblem(SlotsProblem):
    def __init__(
        self, x: TensorDescriptor, y: TensorDescriptor, indices: TensorDescriptor, k: int, dim: int, kept: bool
    ) -> None: ...
