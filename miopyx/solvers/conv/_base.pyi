from ..._core import Solver

class ConvSolver(Solver):
    @property
    def direction(self) -> int: ...
    @property
    def on_host(self) -> bool: ...
