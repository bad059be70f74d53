from ._activation import ActivationDescriptor
from ._descriptors import TensorDescriptor
from ._problem import Problem

class BatchNormProblem(Problem):
    def __init__(
        self,
        what: int,
        flags: int,
        descriptors: tuple[TensorDescriptor, ...],
        names: tuple[str, ...],
        activation: ActivationDescriptor | None = None,
    ) -> None: ...
