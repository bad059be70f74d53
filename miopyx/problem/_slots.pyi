from ._problem import Problem

class SlotsProblem(Problem):
    def lens(self, slot: int) -> tuple[int, ...]: ...
