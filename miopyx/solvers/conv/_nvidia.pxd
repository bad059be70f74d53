"""What solvers by wgmma take over from those by mma.sync."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Solution, Step
from miopyx._types cimport mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport ConvSolver
from miopyx.solvers.conv._nvidia_common cimport mx_nv_conv

# What a direction reads and writes: backward data reads dy and writes dx.
cdef struct roles_t:
    const mx_tensor* x
    const mx_tensor* y
    int x_slot, y_slot
    int64_t channels, filters, reduced       # of a group
    int64_t w_row, w_reduced                 # strides of w along rows and along the reduced axis
    bint packs_x, packs_w
    bint x_across, w_across                  # wgmma reads pixels, or filters, that lie closest
    bint turns_y                             # y is computed in the workspace, channels closest, and turned round
    int64_t size                             # bytes of an element
    int64_t x_offset, y_offset, workspace    # of the packed copies, in bytes

# A tile of backward weights in 16 bits: filters, columns, work-items of a group and groups at once on a compute unit.
cdef struct tile_t:
    int down, across, threads, resident

# How backward weights in 16 bits are computed; a split has `each` slices of pixels.
cdef struct parts_t:
    bint packs_x, packs_y, pixels_closest
    int64_t reduced, columns          # of a group; `reduced` channels a tap
    int64_t x_offset, y_offset, parts_offset, workspace
    int tile
    int64_t tiles, splits, each


cdef class _NvImplicitGemm(ConvSolver):
    cdef int64_t copied(self, const mx_conv_problem* p) noexcept
    cdef roles_t roles(self, const mx_conv_problem* p) noexcept
    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g)
    cdef list packing(self, const mx_conv_problem* p, const roles_t* r)


cdef class NvImplicitGemmFwd(_NvImplicitGemm):
    pass


cdef class NvImplicitGemmBwd(_NvImplicitGemm):
    pass


cdef class NvImplicitGemmWrw(_NvImplicitGemm):
    cdef parts_t parts(self, Device dev, const mx_conv_problem* p) noexcept


cdef mx_conv_problem only_read(const mx_conv_problem* p) noexcept nogil
cdef roles_t roles_of(const mx_conv_problem* p, bint wgmma) noexcept nogil
cdef int64_t widest(const mx_nv_conv* g, bint last) noexcept nogil
cdef tuple operand_args(const roles_t* r, mx_nv_conv* g)
cdef parts_t choose_parts(
    Device dev, const mx_conv_problem* p, const tile_t* tiles, int count, double speed, bint wgmma) noexcept
cdef Solution weights_of_halves(const mx_conv_problem* p, const parts_t* s, const tile_t* tile, dict defines)
