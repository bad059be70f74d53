"""PyTorch on miopyx: ``miopyx.torch.enable()`` and an unchanged model.

Needs PyTorch 2.10 or later; nothing of it is imported before this module is.
"""

from . import layer_ops as layer_ops
from . import ops as ops
from .override import budget as budget
from .override import disable as disable
from .override import enable as enable
from .override import tune as tune
from .report import report as report

__all__ = ["budget", "disable", "enable", "ops", "report", "tune"]
