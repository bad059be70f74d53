from collections.abc import Mapping

from ._descriptors import TensorDescriptor
from ._slots import SlotsProblem

class ElementsProblem(SlotsProblem): ...

class GLUProblem(ElementsProblem):
    def __init__(
        self, dim: int, x: TensorDescriptor, y: TensorDescriptor, dx: TensorDescriptor | None = None
    ) -> None: ...

class PReLUProblem(ElementsProblem):
    def __init__(
        self,
        x: TensorDescriptor,
        w: TensorDescriptor,
        dy: TensorDescriptor,
        dx: TensorDescriptor,
        dw: TensorDescriptor,
    ) -> None: ...

class SoftMarginProblem(ElementsProblem):
    def __init__(
        self,
        reduction: int,
        x: TensorDescriptor,
        target: TensorDescriptor,
        y: TensorDescriptor,
        dx: TensorDescriptor | None = None,
    ) -> None: ...

class RoPEProblem(ElementsProblem):
    def __init__(
        self, back: bool, x: TensorDescriptor, cos: TensorDescriptor, sin: TensorDescriptor, y: TensorDescriptor
    ) -> None: ...

class AdamProblem(ElementsProblem):
    def __init__(
        self, transformers: bool, flags: int, present: Mapping[int, TensorDescriptor], names: Mapping[int, str]
    ) -> None: ...
