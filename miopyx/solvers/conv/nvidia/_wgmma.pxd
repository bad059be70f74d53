"""What solvers that multiply floats as halves take over from those of 16 bits."""

from libc.stdint cimport int64_t

from miopyx._core cimport Device, Step
from miopyx.values._types cimport mx_conv_problem
from ._common cimport mx_divisor, mx_nv_conv
from ._mma cimport roles_t, split_k_t

cdef enum:
    TILES_OF_PIXELS = 7    # of backward weights of contiguous pixels
    MAX_PHASES = 16        # of the stride in one launch: PHASES of conv/nvidia/hopper_args.h
    GROUP_BYTES = 231264   # of local memory that a work-group may have, which is 226 KiB, barriers left out

cdef extern from "miopyx/kernels/conv/nvidia/hopper_args.h" nogil:
    ctypedef struct mx_nv_phase:
        int taps_h, taps_w, first_h, first_w, w_first, y_first

    ctypedef struct mx_nv_tiles:
        int tiles, across, down
        mx_divisor by_tiles, by_across, by_down
        mx_nv_phase phases[16]

# What wgmma multiplies in one go: pixels and filters of a tile, whether it is ping-pong, whether w is resident in local
# memory, what a slice and a whole tile take in microseconds.
cdef struct choice_t:
    int pixels, filters, ping_pong, resident
    double slice, end

# A tile of backward weights: filters, columns, work-items of a group, groups at once on a compute unit, pixels of a
# slice, what a slice and a whole tile take in microseconds.
cdef struct tile_t:
    int down, across, threads, resident, depth
    double slice, end

cdef tuple DATA_TERMS, WEIGHTS_TERMS     # what count_hopper and count_weights count

cdef void count_weights(Device dev, const mx_conv_problem* p, const split_k_t* s, double* terms) noexcept
cdef void count_hopper(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases,
                       double* terms) noexcept
cdef Step multiply_hopper(Device dev, const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, int phases=*)
cdef tuple hopper_args(const mx_conv_problem* p, const roles_t* r, mx_nv_conv* g, const mx_nv_conv* whole, int phases,
                       const choice_t* c, const mx_nv_conv* each=*)
cdef double time_of(const choice_t* c, const mx_nv_conv* g, int phases, int64_t tiles, int64_t groups,
                    int64_t depth=*) noexcept nogil
cdef int64_t slices_of(const mx_nv_conv* g, int64_t depth=*) noexcept nogil
cdef int64_t stages_of(const choice_t* c, int64_t slices, bint x_transposed, bint local_epilogue,
                       bint stores_by_map=*) noexcept nogil
cdef bint is_flat(const mx_nv_conv* g) noexcept nogil
cdef dict axes_of(const mx_nv_conv* g)
cdef bint at_once(const mx_conv_problem* p, const mx_nv_conv* g, int count) noexcept nogil
cdef void sort_phases(mx_nv_conv* g, int count) noexcept nogil
cdef split_k_t split_k_of(Device dev, const mx_conv_problem* p) noexcept
cdef const tile_t* float_tiles() noexcept nogil
cdef split_k_t split_k_among(Device dev, const mx_conv_problem* p, const split_k_t* whole, const tile_t* tiles,
                             int count, int64_t read, bint in_a_row, int wanted=*, bint whole_tiles=*) noexcept
cdef void count_tiles(Device dev, const mx_conv_problem* p, const split_k_t* s, const tile_t* tile,
                      double* terms) noexcept
cdef Step sum_tiles(Device dev, const mx_conv_problem* p, const split_k_t* s, const tile_t* tile, dict defines)
cdef Step multiply_weights(Device dev, const mx_conv_problem* p, const split_k_t* s, const mx_nv_conv* g)
cdef Step sum_tiles_of(Device dev, const mx_conv_problem* p, const split_k_t* s)
cdef mx_nv_tiles order_of_tiles(const mx_nv_conv* g, int phases, int64_t down, int64_t across) noexcept nogil
cdef bint interleaves(const mx_nv_conv* g, int phases, int64_t size) noexcept nogil
cdef dict interleaved_of(const mx_nv_conv* g, int phases, int64_t size)
cdef int64_t groups_of(int64_t units, int64_t tiles, int phases, bint interleaved) noexcept nogil
cdef double time_of_rounds(const double* each, int phases, int64_t tiles, int64_t groups,
                           bint interleaved) noexcept nogil
