"""Backward weights in 16 bits by Hopper's wgmma where neighbouring taps share pixels."""
from ._common import _NvSolver

class NvTapsWrw(_NvSolver): ...
