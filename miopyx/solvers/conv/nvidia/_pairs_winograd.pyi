"""Backward weights of 3x3 in float32 by Winograd on Hopper's wgmma."""
from ._common import _NvSolver

class NvPairWinogradWrw(_NvSolver): ...
