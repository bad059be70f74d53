"""Backward weights in float32 by Hopper's wgmma where neighbouring taps share pixels."""
from ._common import _NvSolver

class NvPairTapsWrw(_NvSolver): ...
