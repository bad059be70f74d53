from ._descriptors import TensorDescriptor
from ._problem import Problem

class TensorProblem(Problem):
    def __init__(
        self,
        what: int,
        a: TensorDescriptor | None,
        b: TensorDescriptor | None,
        c: TensorDescriptor,
        op: int = 0,
        flags: int = 0,
    ) -> None: ...
