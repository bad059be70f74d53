"""What follows a convolution in the same launch, as it is asked of a solver."""

from ._descriptors cimport TensorDescriptor
from ._problem cimport ConvProblem

# The call's scalars behind alpha and beta, which scale the convolution and z.
cdef enum:
    FUSED_ALPHA = 2            # the activation's
    FUSED_BETA = 3
    FUSED_GAMMA = 4
    FUSED_EPSILON = 5          # batch norm's

cdef int fuse(ConvProblem problem, int activation, TensorDescriptor z, TensorDescriptor bias,
              TensorDescriptor norm) except -1
