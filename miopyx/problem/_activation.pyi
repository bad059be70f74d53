from typing import SupportsFloat

from miopyx.enums import miopenActivationMode_t

from ._descriptors import Descriptor, TensorDescriptor, _Int
from ._problem import Problem

class ActivationDescriptor(Descriptor):
    def __init__(
        self,
        mode: miopenActivationMode_t | _Int = 0,
        alpha: SupportsFloat = 0.0,
        beta: SupportsFloat = 0.0,
        gamma: SupportsFloat = 0.0,
    ) -> None: ...
    @property
    def mode(self) -> miopenActivationMode_t: ...
    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def gamma(self) -> float: ...

class ActivationProblem(Problem):
    def __init__(
        self,
        activ: ActivationDescriptor,
        first: TensorDescriptor,
        second: TensorDescriptor,
        third: TensorDescriptor | None = None,
        fourth: TensorDescriptor | None = None,
    ) -> None: ...
