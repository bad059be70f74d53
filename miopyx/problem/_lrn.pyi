from miopyx.enums import miopenLRNMode_t

from ._descriptors import Descriptor, TensorDescriptor, _Int
from ._problem import Problem

class LRNDescriptor(Descriptor):
    def __init__(
        self,
        mode: miopenLRNMode_t | _Int | None = None,
        n: _Int = 5,
        alpha: float = 1e-4,
        beta: float = 0.75,
        k: float = 1.0,
    ) -> None: ...
    @property
    def mode(self) -> miopenLRNMode_t | None: ...
    @property
    def n(self) -> int: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def k(self) -> float: ...

def set_lrn(
    desc: LRNDescriptor, mode: miopenLRNMode_t | _Int, n: _Int, alpha: float, beta: float, k: float
) -> None: ...

class LRNProblem(Problem):
    def __init__(
        self,
        lrn: LRNDescriptor,
        x: TensorDescriptor,
        y: TensorDescriptor,
        dx: TensorDescriptor | None = None,
        dy: TensorDescriptor | None = None,
        save: bool = False,
    ) -> None: ...
