"""Operations on arrays: descriptors, result, workspace and plan are made by the call, and kept for the next one."""

from ._functional import *  # noqa: F403
from ._functional import __all__ as __all__
