from miopyx._core import Solution, Solver
from miopyx.problem._problem import Problem

from ._handle import Handle

class Invoker:
    def __init__(
        self, handle: Handle, solver: Solver, problem: Problem, config: tuple[int, ...] | None = None
    ) -> None: ...
    @property
    def solver(self) -> Solver: ...
    @property
    def config(self) -> tuple[int, ...]: ...
    @property
    def solution(self) -> Solution: ...
    @property
    def problem(self) -> Problem: ...
