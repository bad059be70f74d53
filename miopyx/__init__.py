"""MIOpen's API for Python, on any OpenCL device and on plain CPUs.

Functions are named as in miopen.h and take its arguments in its order, less the output pointers, which come back as
return values; a status other than success is raised as a `MIOpenError`.  Importing this package touches no device.
"""

import sys as _sys
import typing as _typing

from .values import compiled as _compiled

if not _compiled.install(__path__):
    # Python was started in a clone, whose sources hide the installed package: nothing but that is used from here on.
    from .values import clone as _clone

    __path__[:] = [_clone.installed(__path__[0])]
    for _name in ("miopyx.values", "miopyx.values.clone", "miopyx.values.compiled"):
        del _sys.modules[_name]
    del globals()["values"], _clone  # what importing them left here
    from .values import compiled as _compiled

    _compiled.install(__path__)

from . import enums as enums
from . import errors as errors
from ._core import Solver as Solver
from .api._activation import *  # noqa: F403
from .api._adam import *  # noqa: F403
from .api._batchnorm import *  # noqa: F403
from .api._cat import *  # noqa: F403
from .api._convolution import *  # noqa: F403
from .api._ctc import *  # noqa: F403
from .api._dropout import *  # noqa: F403
from .api._find2 import *  # noqa: F403
from .api._fusion import *  # noqa: F403
from .api._getitem import *  # noqa: F403
from .api._glu import *  # noqa: F403
from .api._graph import *  # noqa: F403
from .api._handle import *  # noqa: F403
from .api._kthvalue import *  # noqa: F403
from .api._layernorm import *  # noqa: F403
from .api._losses import *  # noqa: F403
from .api._lrn import *  # noqa: F403
from .api._mha import *  # noqa: F403
from .api._pooling import *  # noqa: F403
from .api._prelu import *  # noqa: F403
from .api._reduce import *  # noqa: F403
from .api._rnn import *  # noqa: F403
from .api._rope import *  # noqa: F403
from .api._softmax import *  # noqa: F403
from .api._tensor import *  # noqa: F403
from .api._tensor_ops import *  # noqa: F403
from .engine._plan import Plan as Plan
from .errors import *  # noqa: F403
from .problem._activation import ActivationDescriptor as ActivationDescriptor
from .problem._ctc import CTCLossDescriptor as CTCLossDescriptor
from .problem._descriptors import ConvolutionDescriptor as ConvolutionDescriptor
from .problem._descriptors import TensorDescriptor as TensorDescriptor
from .problem._dropout import DropoutDescriptor as DropoutDescriptor
from .problem._lrn import LRNDescriptor as LRNDescriptor
from .problem._mha import MhaDescriptor as MhaDescriptor
from .problem._pooling import PoolingDescriptor as PoolingDescriptor
from .problem._reduce import ReduceTensorDescriptor as ReduceTensorDescriptor
from .problem._rnn import RNNDescriptor as RNNDescriptor
from .problem._rnn import SeqTensorDescriptor as SeqTensorDescriptor
from .problem._softmax import SoftmaxDescriptor as SoftmaxDescriptor
from .solvers.registry import solver_id as solver_id
from .solvers.registry import solver_name as solver_name
from .values import logs as _logs
from .values.structs import miopenConvAlgoPerf_t as miopenConvAlgoPerf_t
from .values.structs import miopenConvSolution_t as miopenConvSolution_t
from .values.structs import miopenTensorArgument_t as miopenTensorArgument_t

__version__ = "0.2.0"

# Some versions of logging drop what is logged inside a filter: what does not parse is reported now.
for _name in ("MIOPEN_LOG_LEVEL", "MIOPEN_ENABLE_LOGGING_MPMT", "MIOPEN_ENABLE_LOGGING_ELAPSED_TIME"):
    _logs.setting(_name)

# Once, while the package is imported: where nothing is logged, the compiled functions themselves are what is exported.
if _logs.setting("MIOPEN_ENABLE_LOGGING") or _logs.setting("MIOPEN_ENABLE_LOGGING_CMD"):
    from .api import logged as _logged

    _logged.install(globals())

# The enumerations, their members and the operations on arrays are made when they are first asked for.
if _typing.TYPE_CHECKING:
    from .enums import *  # noqa: F403
    from .functional import *  # noqa: F403
else:
    _ON_ARRAYS = ("activation", "avg_pool2d", "avg_pool3d", "batch_norm", "conv1d", "conv2d", "conv3d",
                  "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "elu", "leaky_relu",
                  "local_response_norm", "log_softmax", "max_pool2d", "max_pool3d", "relu", "relu6", "sigmoid",
                  "softmax", "softplus", "tanh")
    __all__ = [*(name for name, value in globals().items()
                 if not name.startswith("_") and not isinstance(value, type(enums))), *enums.__all__, *_ON_ARRAYS]

    def __getattr__(name):
        if name in enums.__all__:
            return globals().setdefault(name, getattr(enums, name))
        if name in _ON_ARRAYS:
            from . import functional

            return globals().setdefault(name, getattr(functional, name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=_sys.modules[__name__])

    def __dir__():  # what is public: no internals, nor what importing them left here
        return sorted({*__all__, "enums", "errors", *(name for name in globals() if name.startswith("__"))})
