"""What solvers by wgmma take over from those by mma.sync."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Solution, Step
from miopyx.values._integers cimport up
from miopyx.values._types cimport mx_conv_problem, mx_tensor
from ._common cimport _NvSolver, mx_nv_conv, mx_divisor
from miopyx.solvers.conv._base cimport span

cdef enum:
    DEPTH = 64             # pixels of a slice of backward weights in 16 bits
    MOST_SPAN = 1400       # of narrow_t, that conv/nvidia/hopper_rows.cl keeps
    MAX_PHASES = 64        # of backward data's stride
    NARROW = 4             # channels up to which wgmma reads two pixels in 16 bytes

cdef extern from "miopyx/kernels/conv/nvidia/pack_args.h" nogil:
    ctypedef struct mx_nv_weights:
        int groups, rows, taps_h, taps_w, channels, reduced
        int folded, limit
        int from_g, from_row, from_h, from_w, from_c

    ctypedef struct mx_nv_merged:
        int rows, channels, taps_d, taps_h, taps_w, filters, reduced
        int step_d, step_h, step_w, shift_d, shift_h, shift_w, limit_d, limit_h, limit_w
        int from_c, from_d, from_h, from_w, from_k

    ctypedef struct mx_nv_narrow:
        int images, channels, h, w
        int planes, rows, chunks
        int chunk_step, pixel_step
        int pad_h, pad_w
        int from_n, from_c, from_h, from_w

    ctypedef struct mx_nv_scatter:
        int images, h, w, channels
        int p, q, reduced, step_h, step_w
        int to_n, to_c, to_h, to_w

    ctypedef struct mx_nv_stepped:
        int planes, channels
        int h, w, p, q, step_h, step_w
        int stride_n, stride_c, stride_h
        int item_planes
        mx_divisor by_runs, by_row, by_channels, by_step_h, by_step_w

    ctypedef struct mx_nv_pixels:
        int images, groups, h, w, channels, reduced
        int from_n, from_g, from_c, from_h, from_w
        int tile_pixels, blocks
        mx_divisor by_image, by_row, by_blocks

    ctypedef struct mx_nv_sampled:
        int scales, inner, from_outer, from_inner
        int planes, rows, columns, from_plane, from_row, from_column
        mx_divisor by_inner, by_rows, by_columns

    ctypedef struct mx_nv_scaled:
        mx_nv_pixels pixels
        int tiles, first, by_n, by_h, by_c

    ctypedef struct mx_nv_bytes:
        int images, groups, pixels, w, channels, reduced
        int from_n, from_g, from_c, from_h, from_w
        mx_divisor by_w

# x of up to 4 channels as pack_narrow copies it: chunks of two pixels of 4 channels each.
cdef struct narrow_t:
    bint used, whole_rows
    int64_t chunk_step                       # pixels from one chunk to the next
    int64_t planes, rows, chunks, bytes      # of an image, of a plane, of a row, of all
    int64_t taps, span                       # chunks in a row of w, from the first tap to the last
    int64_t reduced, taps_across             # channels of a tap of the copy, taps in a row
    int64_t step, tap                        # chunks from one pixel of y, or tap, to the next

# What a direction reads and writes: backward data reads dy and writes dx.
cdef struct roles_t:
    const mx_tensor* x
    const mx_tensor* y
    int x_slot, y_slot
    int64_t groups, channels, filters, reduced  # channels, filters: of a group
    int64_t folded, taps_across              # of packed weights: channels of one tap of w, taps in a row
    narrow_t narrow
    int64_t w_row, w_reduced                 # strides of w along rows and along the reduced axis
    bint packs_x, packs_w
    int x_pixels                             # x is transposed: so many contiguous pixels are copied at once, or zero
    bint w_transposed                            # w is transposed: its filters are contiguous
    bint unpacks_y                           # y is computed in the workspace, channels last, and copied out
    int64_t size, y_size                     # bytes of an element
    int64_t x_offset, y_offset, workspace    # of the packed copies, in bytes
    int64_t x_at, y_at                       # of x and y themselves, where their slot is the workspace
    bint scaled                              # floats are multiplied as halves: conv/nvidia/tf32_pack.cl
    int64_t scales_offset                    # of images and filters, in bytes

# How backward weights are computed in 16 bits, or on TF32 of x and dy as they lie; a split has `split_slices` slices of
# pixels.
cdef struct split_k_t:
    bint packs_x, packs_y
    int size                             # of a number that is multiplied, in bytes
    int contiguous_pixels                # x and dy are transposed: so many are copied at once, or zero
    bint by_image                        # with them: a slice has pixels of one image
    int64_t reduced, columns          # of a group; `reduced` channels a tap
    int64_t x_offset, y_offset, partial_offset, workspace
    int x_slot                        # x_offset is in the workspace where it is that, or x is packed
    narrow_t narrow
    int tile
    int64_t tiles, splits, split_slices  # with wgmma `splits` may be zero: persistent work-groups
    int64_t groups, slots             # with wgmma: of work-items, parts
    int64_t whole                     # with wgmma: the first tiles, which a group has whole; the others are split
    bint direct                       # with wgmma: a group that has all of a tile's pixels writes it to dw
    bint scaled                       # floats are multiplied as halves: conv/nvidia/tf32_pack.cl
    int64_t scales_offset             # of channels and filters, in bytes

# What any direction but backward weights counts first: launches, megabytes of copies, of x, of y, of y turned round.
cdef struct packing_terms_t:
    double launch, packed, x, y, turned


cdef class _NvImplicitGemm(_NvSolver):
    cdef bint volumes                 # takes three spatial axes
    cdef bint long_rows               # whatever the length of the last axis, as all kernels by wgmma
    cdef double peak                  # what tensor cores can do beside plain products: the index of a full tile
    cdef int64_t copied(self, const mx_conv_problem* p) noexcept
    cdef roles_t roles(self, const mx_conv_problem* p) noexcept
    cdef Step multiply(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g)
    cdef void count(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, double* terms) noexcept
    cdef void count_packing(self, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept
    cdef list packing(self, Device dev, const mx_conv_problem* p, const roles_t* r)


cdef class NvImplicitGemmFwd(_NvImplicitGemm):
    pass


cdef class NvImplicitGemmBwd(_NvImplicitGemm):
    cdef void count_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count,
                           double* terms) noexcept
    cdef mx_nv_conv operands_of(self, const mx_conv_problem* p, const roles_t* r) noexcept
    cdef int phases(self, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g) noexcept
    cdef void count_launches(self, Device dev, const mx_conv_problem* p, const roles_t* r, double* terms) noexcept
    cdef list launches(self, Device dev, const mx_conv_problem* p, const roles_t* r)
    cdef list multiply_phases(self, Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int count)


cdef class NvImplicitGemmWrw(_NvImplicitGemm):
    cdef split_k_t split_k(self, Device dev, const mx_conv_problem* p) noexcept


cdef bint in_place(const mx_tensor* t, int64_t channels) noexcept nogil
cdef int contiguous_pixels(const mx_conv_problem* p, const mx_tensor* t) noexcept nogil
cdef narrow_t narrow_of(const mx_conv_problem* p, bint whole_rows) noexcept nogil
cdef Step pack_narrow(const mx_conv_problem* p, const narrow_t* n, int64_t to)
cdef Step pack_pixels(const mx_conv_problem* p, const mx_tensor* x, int slot, int64_t channels, int64_t to)
cdef void set_narrow(mx_nv_conv* g, const narrow_t* n) noexcept nogil
cdef mx_nv_conv operands(const mx_conv_problem* p, const roles_t* r) noexcept nogil
cdef mx_conv_problem only_read(const mx_conv_problem* p) noexcept nogil
cdef roles_t roles_of(const mx_conv_problem* p, bint wgmma) noexcept nogil
cdef int64_t widest(const mx_nv_conv* g, bint last) noexcept nogil
cdef list unpacking(const mx_conv_problem* p, const roles_t* r)
cdef tuple operand_args(const roles_t* r, mx_nv_conv* g)
cdef double megabytes(const mx_tensor* t) noexcept nogil
cdef int64_t elements_of(const mx_tensor* t) noexcept nogil
cdef split_k_t split_k_operands(const mx_conv_problem* p, bint wgmma) noexcept nogil
cdef int64_t scales_bytes(int64_t count) noexcept nogil
cdef void set_split_k(const mx_conv_problem* p, const split_k_t* s, mx_nv_conv* g) noexcept nogil
cdef list pack_for_split_k(const mx_conv_problem* p, const split_k_t* s, mx_nv_conv* g)
cdef tuple split_k_args(const split_k_t* s, const mx_nv_conv* g)
