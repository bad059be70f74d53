"""MIOpen's API for Python, on any OpenCL device and on plain CPUs.

Functions are named as in miopen.h and take its arguments in its order, less the output pointers, which come back as
return values; a status other than success is raised as a `MIOpenError`.  Importing this package touches no device.
"""

from . import enums, errors
from ._core import Plan, Solver
from ._descriptors import ConvolutionDescriptor, TensorDescriptor
from .api import _convolution, _handle, _tensor
from .api._convolution import *  # noqa: F403
from .api._handle import *  # noqa: F403
from .api._tensor import *  # noqa: F403
from .enums import *  # noqa: F403
from .errors import *  # noqa: F403
from .solvers.registry import solver_id, solver_name
from .structs import miopenConvAlgoPerf_t, miopenConvSolution_t

__version__ = "0.1.0"

__all__ = [
    "ConvolutionDescriptor", "Plan", "Solver", "TensorDescriptor", "miopenConvAlgoPerf_t", "miopenConvSolution_t",
    "solver_id", "solver_name", *_convolution.__all__, *_handle.__all__, *_tensor.__all__, *enums.__all__,
    *errors.__all__,
]
