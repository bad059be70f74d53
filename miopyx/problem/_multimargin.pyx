"""Multi-margin loss: its problem."""

from ._slots cimport SlotsProblem, elements_of
from miopyx.values._types cimport MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_INT64, MX_MULTI_MARGIN

from miopyx.errors import BadParmError

cdef enum:
    NONE = 0
    MEAN = 2


cdef class MultiMarginProblem(SlotsProblem):
    """Losses of rows of classes.

    Raises
    ------
    BadParmError
        Where types or lengths do not fit each other, or p is neither 1 nor 2.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """

    def __init__(self, int p, int reduction, x, target, weight, y):
        cdef tuple lens
        self.take(MULTI_X, x, "inputDesc")
        self.take(MULTI_TARGET, target, "targetDesc")
        self.take(MULTI_WEIGHT, weight, "weightDesc")
        self.take(MULTI_Y, y, "outputDesc", True)
        if self.c.rank[<int> MULTI_X] != 2:
            raise BadParmError("rank of a multi-margin loss", "inputDesc", self.c.rank[<int> MULTI_X], 2)
        self.require_type(MULTI_X, (MX_HALF, MX_FLOAT, MX_BFLOAT16, MX_DOUBLE),
                          "float16, bfloat16, float32 or float64")
        for slot, desc in ((MULTI_WEIGHT, weight), (MULTI_Y, y)):
            if self.c.t[<int> slot].type != self.c.t[<int> MULTI_X].type:
                raise BadParmError("type differs from inputDesc's", self.names[<int> slot], desc.dtype, x.dtype)
        if self.c.t[<int> MULTI_TARGET].type != MX_INT64:
            raise BadParmError("type of targets", "targetDesc", target.dtype, "int64")
        lens = self.lens(MULTI_X)
        self.require_lens(MULTI_TARGET, lens[:1], "inputDesc's first")
        self.require_lens(MULTI_WEIGHT, lens[1:], "inputDesc's second")
        self.require_lens(MULTI_Y, lens[:1] if reduction == NONE else (1,),
                          "inputDesc's first" if reduction == NONE else "one loss")
        if p != 1 and p != 2:
            raise BadParmError("power of a multi-margin loss", "p", p, "1 or 2")
        if reduction == MEAN and self.is_empty():
            raise BadParmError("mean of nothing", "inputDesc", lens, "elements")
        self.c.what, self.c.number[<int> MULTI_REDUCTION], self.c.number[<int> MULTI_P] = MX_MULTI_MARGIN, reduction, p
        self.output = MULTI_Y

    cdef bint is_empty(self) noexcept:
        return elements_of(&self.c.t[<int> MULTI_X]) == 0
