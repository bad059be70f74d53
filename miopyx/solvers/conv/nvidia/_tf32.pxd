from miopyx._core cimport Device, Step
from miopyx.values._types cimport mx_conv_problem
from ._common cimport mx_nv_conv
from ._mma cimport roles_t

cdef str refuse_tf32(Device dev, const mx_conv_problem* p)     # why no solver with rounded factors takes it, or None
# Backward data whose phases of the stride go to planes of the workspace, which a last launch joins.
cdef bint joins(const mx_conv_problem* p) noexcept nogil
cdef void make_planes(const mx_conv_problem* p, roles_t* r) noexcept nogil
cdef int phases_of_planes(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept nogil
cdef Step join_of_planes(const mx_conv_problem* p, const roles_t* r)
