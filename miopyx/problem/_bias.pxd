"""The gradient of a bias, as it is asked of a solver."""

from miopyx.values._types cimport mx_bias_problem
from ._descriptors cimport TensorDescriptor
from ._problem cimport Problem


cdef class BiasProblem(Problem):
    cdef mx_bias_problem c


cdef int fill_bias(mx_bias_problem* p, TensorDescriptor b, TensorDescriptor y) except -1
