"""Recurrent layers: on the host path, and on OpenCL devices."""

from miopyx._core cimport Device, Problem, Solution, Step
from miopyx.host._rnn cimport host_rnn_copy, host_rnn_data, host_rnn_forward, host_rnn_weights
from miopyx.problem._rnn cimport RNNProblem
from miopyx.values._types cimport MX_RNN_BACKWARD_DATA, MX_RNN_BACKWARD_WEIGHTS, MX_RNN_FORWARD
from ._common cimport HostLayer, OpenCLLayer


cdef class HostRNN(HostLayer):
    """All directions, and copies of parameters, on the host path."""

    def __cinit__(self):
        self.id, self.name = 1293, "HostRNN"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef Step step = Step(None, (), ())
        cdef int what = (<RNNProblem> problem).c.what
        step.function = (host_rnn_forward if what == MX_RNN_FORWARD else
                         host_rnn_data if what == MX_RNN_BACKWARD_DATA else
                         host_rnn_weights if what == MX_RNN_BACKWARD_WEIGHTS else host_rnn_copy)
        return Solution([step])


cdef class OpenCLRNN(OpenCLLayer):
    """Not yet."""

    def __cinit__(self):
        self.id, self.name = 1292, "OpenCLRNN"

    cpdef str why_not(self, Device dev, Problem problem):
        return "not yet"
