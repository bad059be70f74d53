from typing import SupportsFloat

from miopyx.enums import miopenSoftmaxAlgorithm_t, miopenSoftmaxMode_t

from ._descriptors import Descriptor, TensorDescriptor, _Int
from ._problem import Problem

class SoftmaxDescriptor(Descriptor):
    def __init__(
        self,
        alpha: SupportsFloat = 1.0,
        beta: SupportsFloat = 0.0,
        algorithm: miopenSoftmaxAlgorithm_t | _Int = 1,
        mode: miopenSoftmaxMode_t | _Int = 1,
    ) -> None: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def algorithm(self) -> miopenSoftmaxAlgorithm_t: ...
    @property
    def mode(self) -> miopenSoftmaxMode_t: ...

class SoftmaxProblem(Problem):
    def __init__(
        self,
        algorithm: miopenSoftmaxAlgorithm_t | _Int,
        mode: miopenSoftmaxMode_t | _Int,
        first: TensorDescriptor,
        second: TensorDescriptor,
        third: TensorDescriptor | None = None,
    ) -> None: ...
