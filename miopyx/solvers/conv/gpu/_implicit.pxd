"""Convolutions as products of gathered matrices: what solvers with other kernels share with those for any GPU."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, Solution, Step
from miopyx.solvers.conv._base cimport ConvSolver
from miopyx.solvers.conv.nvidia._common cimport mx_divisor
from miopyx.values._types cimport mx_conv_problem

cdef extern from "miopyx/kernels/conv/gpu/implicit_args.h" nogil:
    ctypedef struct mx_gather:
        int m, n, k
        int across, down, groups, splits
        int each
        int channels, taps, taps_w, taps_hw
        int h, w, hw, pixels
        int len[3]
        int step[3]
        int first[3]
        int tap[3]
        int i_g, i_n, i_c
        int i_at[3]
        int f_first, f_g, f_m, f_n, f_c
        int f_at[3]
        int c_first, c_g, c_m, c_n, c_c
        int c_at[3]
        mx_divisor by_channels, by_taps, by_taps_w, by_taps_hw, by_pixels, by_hw, by_w


cdef class GatheringSolver(ConvSolver):
    cdef Step product(self, Device dev, const mx_conv_problem* p, mx_gather* g, tuple config, tuple slots,
                      int64_t c_type, bint last, Arg alpha, Arg beta)
    cdef Solution _forward(self, Device dev, const mx_conv_problem* p, tuple config)
    cdef Solution _backward_data(self, Device dev, const mx_conv_problem* p, tuple config)
    cdef Solution _backward_weights(self, Device dev, const mx_conv_problem* p, tuple config)


cdef tuple gathered_args(mx_gather* g, const mx_conv_problem* p, tuple slots, int64_t c_type, Arg alpha, Arg beta)
cdef bint has_long_sums(const mx_conv_problem* p) noexcept nogil
