"""Tensor maps of a convolution's operands, for kernels that copy by them."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device
from ._common cimport mx_nv_conv

cdef bint has_maps(Device dev) noexcept
cdef bint may_have_maps(Device dev) noexcept
cdef bytes map_pixels(const mx_nv_conv* g, int64_t x_d, int64_t pixels, int64_t size)
cdef mx_nv_conv reach_of(const mx_nv_conv* g, int phases) noexcept nogil
cdef bytes map_result(const mx_nv_conv* g, int64_t y_d, int64_t pixels, int64_t size)
cdef bytes map_stored(const mx_nv_conv* g, int64_t rows)
cdef bytes map_filters(const mx_nv_conv* g, int64_t w_d, bint transposed, bint permuted, int64_t filters,
                       int64_t size)
cdef bytes map_channels(int64_t pixels, int64_t channels, int64_t images, int64_t c, int64_t n, int64_t rows,
                        int64_t size)
cdef Arg mapped(Arg arg, bytes map)
