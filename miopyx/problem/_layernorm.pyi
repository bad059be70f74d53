from collections.abc import Mapping

from ._descriptors import TensorDescriptor
from ._problem import Problem

class LayerNormProblem(Problem):
    def __init__(
        self, what: int, kind: int, number: int, given: Mapping[str, TensorDescriptor | None], style: str = "Desc"
    ) -> None: ...
