from collections.abc import Sequence

from ._descriptors import TensorDescriptor
from ._slots import SlotsProblem

class GetitemProblem(SlotsProblem):
    def __init__(
        self,
        dy: TensorDescriptor,
        indices: Sequence[TensorDescriptor],
        dx: TensorDescriptor,
        error: TensorDescriptor | None,
        dims: Sequence[int],
        slices: Sequence[tuple[int, int, int, int]],
        offset: int,
    ) -> None: ...
