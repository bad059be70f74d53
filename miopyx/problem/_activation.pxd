"""Activations: their descriptor and their two problems."""

from miopyx.values._guard cimport load_flag
from ._descriptors cimport Descriptor, TensorDescriptor, seen
from ._problem cimport Problem
from miopyx.values._types cimport mx_activation_problem

# miopenActivationMode_t, as in enums.py.  Their formulas stand in kernels/include/activation.h and
# host/_activation.pyx, what alpha, beta and gamma mean and may be in api/_activation.pyx, the driver's defaults in
# tools/driver/activ.py.
cdef enum:
    PASTHRU = 0
    LOGISTIC = 1
    TANH = 2
    RELU = 3
    SOFTRELU = 4
    ABS = 5
    POWER = 6
    CLIPPEDRELU = 7
    LEAKYRELU = 8
    ELU = 9
    CLAMP = 10
    MODES = 11

# The call's scalars.
cdef enum:
    ACTIVATION_ALPHA = 0
    ACTIVATION_BETA = 1
    ACTIVATION_GAMMA = 2

# The slots of both directions; x and y come first, so that a forward problem has two.
cdef enum:
    ACTIVATION_X = 0
    ACTIVATION_Y = 1
    ACTIVATION_DY = 2
    ACTIVATION_DX = 3


cdef class ActivationDescriptor(Descriptor):
    cdef int number                      # miopenActivationMode_t
    cdef readonly double alpha, beta, gamma

    cdef int set(self, object mode, object alpha, object beta, object gamma) except -1


cdef class ActivationProblem(Problem):
    cdef mx_activation_problem c

    cdef int fill_forward(self, ActivationDescriptor activ, TensorDescriptor x, TensorDescriptor y) except -1
    cdef int fill_backward(self, ActivationDescriptor activ, TensorDescriptor y, TensorDescriptor dy,
                           TensorDescriptor x, TensorDescriptor dx) except -1
    cdef int _begin(self, int what, int mode) noexcept


# Bits of the slots among x and y that the gradient of a mode is computed from.
cdef inline unsigned read_backward(int mode) noexcept nogil:
    if mode == PASTHRU:
        return 0
    if mode == LOGISTIC or mode == TANH:
        return 1 << ACTIVATION_Y
    return 1 << ACTIVATION_X


cdef inline ActivationDescriptor as_activation(object desc, str name):
    """`desc` where it is a live activation descriptor, else the error that names the parameter."""
    if type(desc) is not ActivationDescriptor or load_flag((<ActivationDescriptor> desc).destroyed):
        desc = check_activation(desc, name)
    return <ActivationDescriptor> seen(desc)


cdef ActivationDescriptor check_activation(object desc, str name)
