"""What a recurrent layer is made of: parts, which other solvers run, and the steps, which need the state."""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Offer, Solution, Step
from miopyx.values._types cimport mx_rnn_problem

cdef extern from "layers/rnn_args.h":
    ctypedef struct mx_rnn:
        int64_t hidden, padded
        int64_t dirs, batch, steps, rows
        int64_t first
        int64_t input
        int64_t shares
        int64_t outer[2]


cdef class RNNOffer(Offer):
    """What runs in which order: steps, and parts, which become steps when their solutions are known.

    A subclass that runs the steps of a layer in another way overrides `_prepare` and all below it.
    """

    cdef const mx_rnn_problem* p
    cdef mx_rnn s
    cdef list prepared                   # steps that read the parameters alone
    cdef list items
    cdef int64_t room                    # bytes of workspace, without those of parts
    cdef int64_t size, acc               # bytes of an element, of a number in the workspace
    cdef int64_t gates, lines
    cdef int64_t states                  # in the workspace
    cdef dict defines                    # of the kernels of steps
    cdef int64_t[3] grid                 # groups along the sequences and the panels, and how many work-items of one

    cdef Solution steps(self, tuple config)
    cdef tuple _space(self, int64_t bytes)
    cdef Arg _arg(self, tuple place, int64_t width)
    cdef Arg _table(self)
    cdef Arg _given(self, int slot)
    cdef bint _is_padded(self) noexcept
    cdef tuple _moved(self, tuple place, int64_t offset)
    cdef dict _defines(self)
    cdef Step _move(self, str entry, tuple args, int64_t numbers, dict more)
    cdef int _copy(self, tuple source, tuple to, int64_t count, list items) except -1
    cdef int _begin(self, str entry, int h, int c) except -1
    cdef int _rows(self, str entry, tuple source, tuple to, int64_t width) except -1
    cdef tuple _gathered(self, int slot, int64_t width)
    cdef tuple _ungathered(self, int slot, int64_t width)
    cdef int _scatter(self, tuple place, int slot, int64_t width) except -1
    cdef int _product(self, int direction, tuple x, int64_t columns, tuple w, tuple y, int64_t lines,
                      double beta) except -1
    cdef int _sums(self, tuple deltas, int64_t lines, tuple to) except -1
    cdef int _dropout(self, int what, tuple x, tuple y, tuple mask) except -1
    cdef dict _shape(self, bint backward, int64_t* grid)
    cdef int _gpu_shape(self, int64_t width, dict defines, int64_t* grid) except -1
    cdef int _run(self, str entry, tuple args) except -1
    cdef Arg _kept(self, tuple place)
    cdef int _forward(self) except -1
    cdef int _backward_data(self) except -1
    cdef int _backward_weights(self) except -1
    cdef tuple _dw(self, int64_t element)

    cdef int _prepare(self, bint backward) except -1
    cdef tuple _panels(self, bint backward)
    cdef Step _pack(self, int64_t layer, tuple panels)
    cdef int _steps_forward(self, tuple panels, tuple gates, tuple x_bias, tuple r_bias, tuple output,
                            tuple kept) except -1
    cdef int _steps_backward(self, tuple panels, tuple dy, tuple y, tuple gates, tuple cells, tuple deltas,
                             tuple inner) except -1
