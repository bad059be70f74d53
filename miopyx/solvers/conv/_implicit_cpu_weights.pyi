# Nothing of this module is visible from Python.
from ._base import ConvSolver

class CpuImplicitGemmWrw(ConvSolver): ...
