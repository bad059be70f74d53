"""The inner loops in C (gemm_f64.h), in the variant that was chosen for this CPU."""

from libc.stdint cimport int64_t

cdef extern from "miopyx/host/gemm_f64.h" nogil:
    enum:
        MX_MAX_WIDTH
        MX_ROW_PADDING
        MX_DENSE
        MX_LANES_POSITIONS
        MX_LANES_FILTER

    ctypedef struct mx_tap:
        int64_t d, h, w, offset

    ctypedef struct mx_operand:
        const char* data
        int64_t type
        int64_t lanes, steps
        int kind
        int watch
        int64_t lane_stride
        const int64_t* step_offset
        int clipped
        int tap_inner
        int rows_first
        int64_t count[4]
        int64_t jump[4]
        int64_t step[3]
        int64_t size[3]
        int64_t taps, channels, channel_stride
        const mx_tap* tap

    ctypedef struct mx_run:
        int64_t lane, len, offset, stride

    ctypedef struct mx_kernels:
        const char* name
        int mr, nr, kc
        int pack(const mx_operand* operand, int64_t offset, int64_t lane, int64_t step, int64_t steps, int width,
                 double* dst, double* rows) noexcept nogil
        void multiply(int rows, int columns, int64_t steps, const double* a, const double* b, double* tile,
                      int add) noexcept nogil
        void store(char* out, int64_t type, int64_t rounding, int64_t offset, int64_t row_stride, int rows,
                   const mx_run* runs, int64_t run_count, const double* tile, double alpha, double beta) noexcept nogil
        void load_row(const char* data, int64_t type, int64_t offset, int64_t stride, double* dst,
                      int64_t n) noexcept nogil
        void store_row(char* data, int64_t type, int64_t offset, int64_t stride, const double* src,
                       int64_t n) noexcept nogil

    int64_t mx_divide(int64_t a, int64_t b, int64_t* remainder) noexcept nogil

# Set once, when the module is imported.
cdef const mx_kernels* kernels
