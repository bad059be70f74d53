from ._descriptors import TensorDescriptor
from ._slots import SlotsProblem

class MultiMarginProblem(SlotsProblem):
    def __init__(
        self,
        p: int,
        reduction: int,
        x: TensorDescriptor,
        target: TensorDescriptor,
        weight: TensorDescriptor,
        y: TensorDescriptor,
    ) -> None: ...
