"""The gradient of a bias, as it is asked of a solver."""

from libc.string cimport memset

from miopyx.values._types cimport MX_AXES
from ._problem cimport fill_tensor, require_no_overlap, require_plain, tensor_text

from miopyx.errors import BadParmError, UnknownError


cdef int fill_bias(mx_bias_problem* p, TensorDescriptor b, TensorDescriptor y) except -1:
    """Write a bias problem; where b's length is 1 y is summed over."""
    cdef int i
    b.require_set("dbDesc")
    y.require_set("dyDesc")
    require_plain(b, "dbDesc")
    require_plain(y, "dyDesc")
    if y.ndim > MX_AXES or y.ndim < 2:
        raise UnknownError("rank of a bias operation", "dyDesc", y.ndim, f"2 ... {MX_AXES}")
    if b.ndim != y.ndim:
        raise UnknownError("ranks differ", "dbDesc", b.ndim, y.ndim)
    if b.type != y.type:
        raise UnknownError("types differ", "dbDesc", b.dtype, y.dtype)
    if b.len[1] != y.len[1]:
        raise BadParmError("channels differ", "dbDesc", b.len[1], y.len[1])
    for i in range(y.ndim):
        if b.len[i] != 1 and b.len[i] != y.len[i]:
            raise UnknownError("length is neither 1 nor the other tensor's", f"dbDesc.lens[{i}]", b.len[i],
                               f"1 or {y.len[i]}")
    memset(p, 0, sizeof(mx_bias_problem))
    fill_tensor(&p.y, y)
    fill_tensor(&p.b, b)
    require_no_overlap(b, "dbDesc")
    return 0


cdef class BiasProblem(Problem):
    """db = sum of dy over the axes that db lacks."""

    def __init__(self, TensorDescriptor b not None, TensorDescriptor y not None):
        fill_bias(&self.c, b, y)
        self.hold(0, &self.c.b, y.ndim)
        self.hold(2, &self.c.y, y.ndim)
        self.output, self.written = 0, 1

    def __cinit__(self, *args):
        self.data, self.size, self.count = &self.c, sizeof(mx_bias_problem), 3

    def __repr__(self):
        return f"<bias gradient: {tensor_text(&self.c.b)} of {tensor_text(&self.c.y)}>"
