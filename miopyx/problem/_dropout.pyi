from typing import SupportsFloat

from miopyx.enums import miopenRNGType_t
from miopyx.runtime._buffers import _Data

from ._descriptors import Descriptor, _Int
from ._problem import Problem

class DropoutDescriptor(Descriptor):
    def __init__(
        self,
        dropout: SupportsFloat | None = None,
        states: _Data | None = None,
        state_size: _Int = 0,
        seed: _Int = 0,
        use_mask: bool | _Int = False,
        state_evo: bool | _Int = False,
        rng_mode: miopenRNGType_t | _Int = 0,
    ) -> None: ...
    @property
    def dropout(self) -> float | None: ...
    @property
    def states(self) -> _Data | None: ...
    @property
    def seed(self) -> int: ...
    @property
    def use_mask(self) -> bool: ...
    @property
    def state_evo(self) -> bool: ...
    @property
    def rng_mode(self) -> miopenRNGType_t: ...

class DropoutProblem(Problem): ...
