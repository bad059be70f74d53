"""What the solvers for NVIDIA's tensor cores share: the problem as their kernels take it."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, Solution, Step
from miopyx.values._types cimport mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport ConvOffer, ConvSolver

cdef enum:
    ALIGN = 256
    LONGEST = 1 << 16      # terms that one accumulator takes
    # Two factors rounded to 11 bits, by which they are scaled and brought back, in roundings of a float.
    ROUNDED = 2 * (1 << 13) + 6
    SPLIT = 60             # of a float32 term: its factors as pairs, a product without low * low, a slice's own sum
    STEP = 16              # terms that an instruction adds to its accumulator
    CUT = 2                # roundings that one such addition counts for: it cuts off what does not fit
    # How many times as many products as plain multiplication the tensor cores have in a second: by mma.sync, by wgmma.
    MMA_PEAK = 12
    WGMMA_PEAK = 16

cdef extern from "miopyx/kernels/include/divisor.h" nogil:
    ctypedef struct mx_divisor:
        unsigned int magic, shift

cdef extern from "miopyx/kernels/conv/nvidia/conv_args.h" nogil:
    ctypedef struct mx_nv_conv:
        int pixels, p, q
        int filters, channels, reduced
        int groups, taps_h, taps_w
        int h, w
        int step_h, step_w, first_h, first_w, tap_h, tap_w
        int x_g, x_n, x_c, x_h, x_w
        int w_first, w_g, w_k, w_h, w_w
        int y_first, y_g, y_n, y_c, y_h, y_w
        mx_divisor by_image, by_row

    ctypedef struct mx_nv_volume:
        mx_nv_conv conv
        int x_d, w_d, y_d
        mx_divisor by_plane

    ctypedef struct mx_nv_sum:
        int rows, channels, taps_h, taps_w
        int splits, pitch, partial_c, partial_tap
        int w_k, w_c, w_h, w_w

# The taps of one axis that meet the pixels `phase + i * step` of dx: number first + j * every, j < count, which
# reads dy at i + start + j * move.
cdef struct taps_t:
    int64_t first, every, count, start, move


cdef mx_divisor divisor(int64_t d) noexcept nogil
cdef void set_grid(mx_nv_conv* g, int64_t images, int64_t p, int64_t q) noexcept nogil
cdef void set_x(mx_nv_conv* g, const mx_tensor* x, int64_t channels, int64_t packed) noexcept nogil
cdef void set_y(mx_nv_conv* g, const mx_tensor* y, int64_t filters) noexcept nogil
cdef void set_packed_w(mx_nv_conv* g, int64_t reduced, int64_t taps_h, int64_t taps_w) noexcept nogil
cdef void set_phase(mx_nv_conv* g, const mx_conv_problem* p, int64_t o, int64_t a, int64_t b) noexcept nogil
cdef bint is_volume(const mx_conv_problem* p) noexcept nogil
cdef mx_conv_problem folded(const mx_conv_problem* p) noexcept nogil
cdef int64_t plane_rows(const mx_tensor* t) noexcept nogil
cdef mx_nv_volume volume(const mx_nv_conv* g, const mx_tensor* x, const mx_tensor* y) noexcept nogil
cdef int deep(int64_t depth, int64_t rows) noexcept nogil
cdef int64_t both(int64_t member) noexcept nogil
cdef void set_taps(mx_nv_conv* g, const mx_conv_problem* p) noexcept nogil
cdef taps_t taps_of(const mx_conv_problem* p, int axis, int64_t phase) noexcept nogil
cdef bint divides(int64_t vector, const mx_nv_conv* g, bint last) noexcept nogil
cdef int64_t weight_count(const mx_conv_problem* p) noexcept nogil
cdef Step sum_partial(const mx_conv_problem* p, int64_t splits, int64_t offset, int64_t pitch, int64_t c, int64_t tap)
cdef dict channels_last_options(const mx_conv_problem* p)
cdef bint tensor_cores(Device dev)
cdef bint has_wgmma(Device dev)
cdef dict may_begin_early(Device dev)
cdef str refuse_sizes(const mx_conv_problem* p, int64_t copied, bint volumes=*, bint long_rows=*)


cdef str TOO_LARGE           # why a solver refuses what it may take in runs of images
cdef str NO_ROOM


cdef int64_t most_workspace() noexcept nogil
cdef mx_conv_problem images_of(const mx_conv_problem* p, int64_t images) noexcept nogil


cdef class RunsOffer(ConvOffer):
    cdef int64_t images          # of a run
    cdef Step at(self, Step step, int64_t first)


cdef class _NvSolver(ConvSolver):
    cdef Solution steps_from(self, Device dev, const mx_conv_problem* p, tuple config, int64_t first)
    cdef bint takes_runs(self, const mx_conv_problem* p) noexcept
    cdef RunsOffer new_runs(self)
    cdef int64_t workspace_of_runs(self, Device dev, const mx_conv_problem* p, int64_t images) except -1
    cdef int64_t run_of_images(self, Device dev, const mx_conv_problem* p) except -1
    cdef bint saves_workspace(self, const mx_conv_problem* p) noexcept
    cdef bint wants_much(self, Device dev, const mx_conv_problem* p) except -1
    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept
