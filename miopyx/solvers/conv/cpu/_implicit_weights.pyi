# Nothing of this module is visible from Python.
from miopyx.solvers.conv._base import ConvSolver

class CpuImplicitGemmWrw(ConvSolver): ...
