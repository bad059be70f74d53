from ._descriptors import TensorDescriptor
from ._problem import Problem

class BatchNormProblem(Problem):
    def __init__(
        self,
        what: int,
        mode: int,
        running: bool,
        save: bool,
        descriptors: tuple[TensorDescriptor, ...],
        names: tuple[str, ...],
    ) -> None: ...
