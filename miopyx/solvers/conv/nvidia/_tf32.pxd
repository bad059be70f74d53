from miopyx._core cimport Device
from miopyx.values._types cimport mx_conv_problem

cdef str refuse_tf32(Device dev, const mx_conv_problem* p)     # why no solver with rounded factors takes it, or None
