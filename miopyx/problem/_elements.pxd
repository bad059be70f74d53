"""Operations on elements (GLU, PReLU, soft margin, rotary embeddings, Adam): their problems, and what they walk."""

from libc.stdint cimport int64_t

from ._slots cimport SlotsProblem
from miopyx.values._types cimport mx_bias_problem, mx_slots_problem, mx_tensor

cdef enum:
    OPERANDS = 10          # as MX_OPERANDS of kernels/layers/elements_args.h
    TERM = -1              # the slot of terms that are summed

# Slots.
cdef enum:
    GLU_X = 0
    GLU_DY = 1             # forward y
    GLU_DX = 2
    PRELU_X = 0
    PRELU_W = 1
    PRELU_DY = 2
    PRELU_DX = 3
    PRELU_DW = 4
    MARGIN_X = 0
    MARGIN_T = 1
    MARGIN_DY = 2          # forward the loss
    MARGIN_DX = 3
    ROPE_X = 0
    ROPE_COS = 1
    ROPE_SIN = 2
    ROPE_Y = 3
    ADAM_P = 0
    ADAM_G = 1
    ADAM_M = 2
    ADAM_V = 3
    ADAM_MOST = 4
    ADAM_P_OUT = 5         # outputs that are not there are in place
    ADAM_M_OUT = 6
    ADAM_V_OUT = 7
    ADAM_MOST_OUT = 8
    ADAM_P16 = 9
    ADAM_SCALE = 10
    ADAM_FOUND = 11
    ADAM_STEP = 12
    ADAM_STEP_OUT = 13

# miopenLossReductionMode_t
cdef enum:
    REDUCE_NONE = 0
    REDUCE_SUM = 1
    REDUCE_MEAN = 2

# Flags of Adam.
cdef enum:
    ADAM_AMSGRAD = 1
    ADAM_MAXIMIZE = 2
    ADAM_ADAMW = 4
    ADAM_CORRECT = 8

# Scalars of Adam; 1 - beta rather than beta, which may be close to 1.
cdef enum:
    RATE = 0
    SOME1 = 1
    SOME2 = 2
    DECAY = 3
    EPSILON = 4
    SIZE = 5
    ROOT = 6

cdef struct operand_t:
    int slot
    int64_t offset         # of its first element in the slot's tensor
    mx_tensor t            # walked as the first operand's lengths say; 1 where it stays


cdef class ElementsProblem(SlotsProblem):
    pass


cdef int operands_of(const mx_slots_problem* p, operand_t* operands, int* inputs) noexcept nogil
cdef int sum_of(const mx_slots_problem* p, mx_bias_problem* sum) noexcept nogil
