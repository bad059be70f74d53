"""Database keys: the text that stands for a convolution problem in find-db and perf-db files.

Both are MIOpen's.  "In" and "out" are the problem's: in is x forward, and y (the gradient that is read) in both
backward directions.  What MIOpen's keys leave out is appended, so that different problems never share a record::

    _det            the problem asks for deterministic solvers
    _tf32           float32 factors may be rounded to 11 bits
    _dim1           one spatial axis; it is written as two with a height of 1
    _e              find keys: what follows in the same launch: the activation's number, z where that is added, b and n
                    with the types' numbers where there is a bias, or batch norm.  A perf record serves all of these
    _si, _sw, _so   strides of in, weights and out, joined by x, where they are not the packed ones of the named layout
    _o              perf keys: lengths of out, joined by x, where they are not those that in implies

Axes of length 1 say nothing about a layout, and their strides mean nothing: problems that differ only there share a
key (in `_si` and its like such a stride is written as 0).  Results are the same for them; whoever uses a record asks
the solver for its workspace again.
"""

import re

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcpy, memset, strlen

from ._descriptors cimport is_ocp8, type_size
from ._problem cimport STOCHASTIC, ConvProblem, float8_types, problem_of, rounding_of
from miopyx.values._types cimport (
    MX_AXES, MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT16, MX_BFLOAT8, MX_DOUBLE, MX_E4M3, MX_E5M2, MX_FLOAT,
    MX_FLOAT8, MX_FORWARD, MX_FUSED, MX_FUSED_BIAS, MX_FUSED_NORM, MX_FUSED_Z,
    MX_HALF, MX_INT8, MX_INT32, MX_INT64, MX_SPATIAL, mx_conv_problem, mx_tensor,
)

from miopyx.errors import BadParmError

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* Axes from the outermost to the innermost: NC(D)HW, N(D)HWC, C(D)HWN, in the order in which they are tried. */
    static const unsigned char mx_layouts[3][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 4, 1}, {1, 2, 3, 4, 0}};
    /* Names of data types, copied whole: seven bytes are one or two moves, a string's length would be a call. */
    static const struct { char text[7]; unsigned char size; } mx_type_names[12] = {
        {"FP16", 4}, {"FP32", 4}, {"INT32", 5}, {"INT8", 4}, {"", 0}, {"BF16", 4}, {"FP64", 4}, {"FP8", 3}, {"BF8", 3},
        {"INT64", 5}, {"E4M3", 4}, {"E5M2", 4}};
    static inline char *mx_put_type(char *out, int64_t type) {
        const int64_t i = type < 10 ? type : type - 997; /* those that are not MIOpen's begin at 1007 */
        memcpy(out, mx_type_names[i].text, 7);
        return out + mx_type_names[i].size;
    }
    /* Two digits at a time. */
    static const char mx_digits[] =
        "00010203040506070809101112131415161718192021222324"
        "25262728293031323334353637383940414243444546474849"
        "50515253545556575859606162636465666768697071727374"
        "75767778798081828384858687888990919293949596979899";
    """
    const unsigned char mx_layouts[3][5]
    char* mx_put_type(char* out, int64_t data_type) noexcept nogil
    const char* mx_digits

cdef enum:
    KNOWN = 3
    D = 2                 # the axis that problems of one or two spatial axes do not write
    INT_MAX = 0x7FFFFFFF  # what a convolution descriptor holds

cdef const char* LETTERS = b"NCDHW"
cdef const char* DIRECTIONS = b"FBW"
cdef const char* TENSORS = b"iwo"


# Layouts


cdef bint _packed(const mx_tensor* t, const unsigned char* order) noexcept nogil:
    cdef int64_t stride = 1
    cdef int i, axis
    for i in range(MX_AXES - 1, -1, -1):
        axis = order[i]
        if t.len[axis] > 1:
            if t.stride[axis] != stride:
                return False
            stride *= t.len[axis]
    return True


cdef bint _falls(const mx_tensor* t, const unsigned char* order) noexcept nogil:
    """Whether no stride is larger than that of an axis further out."""
    cdef int64_t last = INT64_MAX
    cdef int i, axis
    for i in range(MX_AXES):
        axis = order[i]
        if t.len[axis] > 1:
            if t.stride[axis] > last:
                return False
            last = t.stride[axis]
    return True


cdef void _sort(const mx_tensor* t, unsigned char* order) noexcept nogil:
    """Order the axes by stride, then length, both falling; an axis of length 1 stands before its neighbour."""
    cdef int i, axis, at, count = 0
    for axis in range(MX_AXES):
        if t.len[axis] > 1:
            at = count
            while at > 0 and (t.stride[order[at - 1]] < t.stride[axis]
                              or t.stride[order[at - 1]] == t.stride[axis] and t.len[order[at - 1]] < t.len[axis]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = <unsigned char> axis
            count += 1
    for axis in range(MX_AXES - 1, -1, -1):
        if t.len[axis] == 1:
            at = 0
            while at < count and order[at] != axis + 1:
                at += 1
            for i in range(count, at, -1):
                order[i] = order[i - 1]
            order[at] = <unsigned char> axis
            count += 1


cdef void _own_layout(const mx_tensor* t, unsigned char* order) noexcept nogil:
    cdef int i
    for i in range(KNOWN):
        if _falls(t, mx_layouts[i]):
            memcpy(order, mx_layouts[i], MX_AXES)
            return
    _sort(t, order)


# What both keys are written from: the tensors in the key's order, the axes of each from the outermost to the innermost,
# and whether its strides are those of that layout, packed.
cdef struct view_t:
    const mx_tensor* tensor[3]
    unsigned char order[3][5]
    bint packed[3]
    bint plain     # all are packed in the default layout


cdef void _look(const mx_conv_problem* p, view_t* v) noexcept nogil:
    cdef int i, j
    cdef bint common = False
    v.tensor[0] = &p.x if p.direction == MX_FORWARD else &p.y
    v.tensor[1] = &p.w
    v.tensor[2] = &p.y if p.direction == MX_FORWARD else &p.x
    v.plain = _packed(&p.x, mx_layouts[0]) and _packed(&p.w, mx_layouts[0]) and _packed(&p.y, mx_layouts[0])
    if v.plain:
        return
    for i in range(KNOWN):
        common = _falls(&p.x, mx_layouts[i]) and _falls(&p.w, mx_layouts[i]) and _falls(&p.y, mx_layouts[i])
        if common:
            break
    for j in range(3):
        if common:
            memcpy(v.order[j], mx_layouts[i], MX_AXES)
        else:
            _own_layout(v.tensor[j], v.order[j])
        v.packed[j] = _packed(v.tensor[j], v.order[j])


# Text


cdef inline char* _number(char* out, uint64_t value) noexcept nogil:
    cdef char[20] digits
    cdef int i = 20
    if value < 10:
        out[0] = <char> (48 + value)
        return out + 1
    if value < 100:
        memcpy(out, mx_digits + 2 * value, 2)
        return out + 2
    if value < 1000:
        out[0] = <char> (48 + value // 100)
        memcpy(out + 1, mx_digits + 2 * (value % 100), 2)
        return out + 3
    if value < 10000:
        memcpy(out, mx_digits + 2 * (value // 100), 2)
        memcpy(out + 2, mx_digits + 2 * (value % 100), 2)
        return out + 4
    while value >= 10:
        i -= 2
        memcpy(digits + i, mx_digits + 2 * (value % 100), 2)
        value //= 100
    if value:
        i -= 1
        digits[i] = <char> (48 + value)
    memcpy(out, digits + i, 20 - i)
    return out + 20 - i


cdef inline char* _numbers(char* out, const int64_t* values, int first, int last, char between) noexcept nogil:
    """Write values[first] ... values[last - 1]."""
    cdef int i
    for i in range(first, last):
        if i > first:
            out[0] = between
            out += 1
        out = _number(out, values[i])
    return out


cdef inline char* _text(char* out, const char* text) noexcept nogil:
    cdef size_t size = strlen(text)
    memcpy(out, text, size)
    return out + size


cdef inline char* _mark(char* out, char mark) noexcept nogil:
    out[0] = mark
    return out + 1


cdef char* _layout(char* out, const unsigned char* order, int64_t spatial) noexcept nogil:
    cdef int i
    for i in range(MX_AXES):
        if order[i] != D or spatial == 3:
            out = _mark(out, LETTERS[order[i]])
    return out


cdef char* _types(char* out, const view_t* v) noexcept nogil:
    out = mx_put_type(out, v.tensor[0].type)
    if v.tensor[1].type != v.tensor[0].type or v.tensor[2].type != v.tensor[0].type:
        out = mx_put_type(mx_put_type(out, v.tensor[1].type), v.tensor[2].type)
    return out


cdef inline int _first_axis(int64_t spatial) noexcept nogil:
    """The first spatial axis of three that is written: two are written at least."""
    return 0 if spatial == 3 else 1


cdef char* _marks(char* out, const mx_conv_problem* p) noexcept nogil:
    if p.deterministic:
        out = _text(out, b"_det")
    if p.tf32:
        out = _text(out, b"_tf32")
    if p.spatial == 1:
        out = _text(out, b"_dim1")
    return out


cdef char* _strides(char* out, const mx_tensor* t, char name, int64_t spatial) noexcept nogil:
    cdef int axis
    out = _mark(_text(out, b"_s"), name)
    for axis in range(MX_AXES):
        if axis >= 5 - spatial or axis < 2:
            if axis > 0:
                out = _mark(out, c"x")
            out = _number(out, t.stride[axis] if t.len[axis] > 1 else 0)
    return out


cdef char* _all_strides(char* out, const mx_conv_problem* p, const view_t* v) noexcept nogil:
    cdef int j
    if not v.plain:
        for j in range(3):
            if not v.packed[j]:
                out = _strides(out, v.tensor[j], TENSORS[j], p.spatial)
    return out


cdef char* _epilogue(char* out, const mx_conv_problem* p) noexcept nogil:
    if p.fused.parts:
        out = _number(_text(out, b"_e"), p.fused.activation)
        if p.fused.parts & MX_FUSED_Z:
            out = _mark(out, c"z")
        if p.fused.parts & MX_FUSED_BIAS:
            out = _number(_mark(out, c"b"), p.fused.bias_type)
        if p.fused.parts & MX_FUSED_NORM:
            out = _number(_mark(out, c"n"), p.fused.norm_type)
    return out


cdef int write_find_key(const mx_conv_problem* p, char* out) noexcept nogil:
    """Write the find-db key, at most MAX_KEY bytes without a zero, and return its length."""
    cdef view_t v
    cdef char* o = out
    cdef int first = _first_axis(p.spatial), j
    cdef const mx_tensor* read
    cdef const mx_tensor* other
    _look(p, &v)
    read, other = v.tensor[0], v.tensor[2]
    o = _mark(_number(o, read.len[1]), c"-")
    o = _mark(_numbers(o, read.len, 2 + first, 5, c"-"), c"-")
    o = _mark(_numbers(o, p.w.len, 2 + first, 5, c"x"), c"-")
    o = _mark(_number(o, other.len[1]), c"-")
    o = _mark(_numbers(o, other.len, 2 + first, 5, c"-"), c"-")
    o = _mark(_number(o, read.len[0]), c"-")
    o = _mark(_numbers(o, p.pad, first, 3, c"x"), c"-")
    o = _mark(_numbers(o, p.step, first, 3, c"x"), c"-")
    o = _mark(_numbers(o, p.dilation, first, 3, c"x"), c"-")
    o = _text(o, b"0-")  # bias
    if v.plain:
        o = _text(o, b"NCDHW" if p.spatial == 3 else b"NCHW")
    else:
        o = _layout(o, v.order[0], p.spatial)
        # One token stands for the default layout; a tensor with odd strides in it has them appended.
        for j in range(1, 3 if _differs(&v) else 0):
            o = _layout(_mark(o, c"-"), v.order[j], p.spatial)
    o = _mark(_types(_mark(o, c"-"), &v), c"-")
    o = _mark(o, DIRECTIONS[p.direction])
    if p.groups != 1:
        o = _number(_text(o, b"_g"), p.groups)
    o = _all_strides(_epilogue(_marks(o, p), p), p, &v)
    return <int> (o - out)


cdef bint _differs(const view_t* v) noexcept nogil:
    """Whether a layout is not the default one."""
    cdef int i, j
    for j in range(3):
        for i in range(MX_AXES):
            if v.order[j][i] != i:
                return True
    return False


cdef int64_t _implied(const mx_conv_problem* p, int axis) noexcept nogil:
    """Length of out where a perf key does not say: what in gives forward, the largest that gives in backward."""
    cdef int64_t extent = 1 + p.dilation[axis] * (p.w.len[2 + axis] - 1), room
    if p.direction != MX_FORWARD:
        return p.y.len[2 + axis] * p.step[axis] - 1 + extent - 2 * p.pad[axis]
    room = p.x.len[2 + axis] + (2 * p.pad[axis] - extent)
    return room // p.step[axis] + 1 if room > 0 else 1


cdef int write_perf_key(const mx_conv_problem* p, char* out) noexcept nogil:
    """Write the key of the text perf-db, at most MAX_KEY bytes without a zero, and return its length."""
    cdef view_t v
    cdef char* o = out
    cdef int axis, j, first = _first_axis(p.spatial)
    cdef bint deep = p.spatial == 3
    _look(p, &v)
    cdef const mx_tensor* read = v.tensor[0]
    o = _mark(_text(o, b"3" if deep else b"2"), c"x")
    o = _mark(_number(o, read.len[1]), c"x")
    o = _turned(o, read.len + 2)
    o = _turned(o, p.w.len + 2)
    o = _mark(_number(o, v.tensor[2].len[1]), c"x")
    o = _mark(_number(o, read.len[0]), c"x")
    o = _flat(o, p.pad, deep)
    o = _flat(o, p.step, deep)
    o = _flat(o, p.dilation, deep)
    o = _text(o, b"0x")  # bias
    o = _mark(_number(o, p.groups), c"x")
    if v.plain:
        o = _text(o, b"NCDHW" if deep else b"NCHW")
    else:
        o = _layout(o, v.order[0], p.spatial)
        for j in range(1, 3):  # the key names the layout of in only
            v.packed[j] = _packed(v.tensor[j], v.order[0])
    o = _mark(_types(_mark(o, c"x"), &v), c"x")
    o = _marks(_mark(o, DIRECTIONS[p.direction]), p)
    for axis in range(first, 3):
        if v.tensor[2].len[2 + axis] != _implied(p, axis):
            o = _numbers(_text(o, b"_o"), v.tensor[2].len, 2 + first, 5, c"x")
            break
    o = _all_strides(o, p, &v)
    return <int> (o - out)


cdef char* _turned(char* out, const int64_t* values) noexcept nogil:
    """Write d h w as perf keys have them: h, w, d."""
    out = _mark(_number(out, values[1]), c"x")
    out = _mark(_number(out, values[2]), c"x")
    return _mark(_number(out, values[0]), c"x")


cdef char* _flat(char* out, const int64_t* values, bint deep) noexcept nogil:
    """The same, with 0 as the depth of problems that have none."""
    out = _mark(_number(out, values[1]), c"x")
    out = _mark(_number(out, values[2]), c"x")
    return _mark(_number(out, values[0] if deep else 0), c"x")


def find_key(ConvProblem problem not None):
    """Return the find-db key of a problem."""
    cdef char[MAX_KEY] out
    return out[:write_find_key(&problem.c, out)]


def perf_key(ConvProblem problem not None):
    """Return the perf-db key of a problem.

    MIOpen's perf keys do not hold the lengths of out, and backward several x lead to one y: the largest has MIOpen's
    key, others say so in a suffix.
    """
    cdef char[MAX_KEY] out
    return out[:write_perf_key(&problem.c, out)]


# Reading

_NUMBER_OF_TYPE = {
    b"FP16": MX_HALF, b"FP32": MX_FLOAT, b"INT32": MX_INT32, b"INT8": MX_INT8, b"BF16": MX_BFLOAT16, b"FP64": MX_DOUBLE,
    b"FP8": MX_FLOAT8, b"BF8": MX_BFLOAT8, b"INT64": MX_INT64,
    b"E4M3": MX_E4M3, b"E5M2": MX_E5M2,
}
_NAME = b"(" + b"|".join(_NUMBER_OF_TYPE) + b")"
_TYPES = _NAME + b"(?:" + _NAME + _NAME + rb")?\Z"
_LIST = b"([0-9x]+)"
_END = (b"([FBW])(?:_g([0-9]+))?((?:_c[iwo][A-Z0-9]+)*)(_det)?(_tf32)?(_dim1)?(?:_e([0-9])(z)?"
        rb"(?:b([0-9]))?(?:n([0-9]))?)?(?:_o" + _LIST + b")?(?:_si" + _LIST
        + b")?(?:_sw" + _LIST + b")?(?:_so" + _LIST + rb")?\Z")


cdef class _Reader:
    """The parts of a key, as text, and the problem that comes of them."""

    cdef bytes key, images, channels_read, channels_other, groups, types, end
    cdef list read, filter, other, pad, step, dilation  # along each axis that is written; `other` may be None
    cdef list layouts                                   # of in, weights and out

    def __cinit__(self, bytes key):
        self.key = key

    cdef refuse(self, str reason):
        raise BadParmError(reason, "key", self.key, "a key of a convolution")

    cdef int64_t number(self, bytes text, int64_t least=1, int64_t most=INT64_MAX) except -1:
        cdef const unsigned char* digits = text
        cdef uint64_t value = 0
        cdef Py_ssize_t i, size = len(text)
        for i in range(size):
            if digits[i] < c"0" or digits[i] > c"9":
                self.refuse("not a number")
            if i < 19:
                value = 10 * value + digits[i] - c"0"
        if size == 0:
            self.refuse("not a number")
        if size > 19 or value > <uint64_t> most:
            self.refuse("number beyond 63 bits" if most == INT64_MAX else "number beyond 31 bits")
        if value < <uint64_t> least:
            self.refuse("number is too small")
        return <int64_t> value

    cdef list order(self, bytes token, Py_ssize_t axes):
        """Axes from the outermost to the innermost, those that are written."""
        letters = [LETTERS[:MX_AXES].find(token[i:i + 1]) for i in range(len(token))]
        if token.endswith(b"c"):
            self.refuse("vectorised layout")
        if len(token) == 7 - axes and sorted(letters) in ([0, 1, 3, 4], [0, 1, 2, 3, 4]):
            self.refuse("layout of another rank")
        if sorted(letters) != ([0, 1, 3, 4] if axes == 2 else [0, 1, 2, 3, 4]):
            self.refuse("unknown layout")
        return letters

    cdef int set_strides(self, mx_tensor* t, list order, bytes given, int64_t spatial) except -1:
        """Set the strides, and see that nothing about the tensor is beyond 63 bits."""
        cdef int axis
        axes = [axis for axis in range(MX_AXES) if axis < 2 or axis >= MX_AXES - spatial]
        if given is not None:
            texts = given.split(b"x")
            if len(texts) != len(axes):
                self.refuse("strides of another rank")
            for axis, text in zip(axes, texts):
                t.stride[axis] = self.number(text) if t.len[axis] > 1 else 1
        cdef object elements = 1, space = 1  # of any size
        for axis in reversed(order):
            if axis in axes:
                if given is None:
                    t.stride[axis] = elements
                elements *= t.len[axis]
                space += (<object> t.len[axis] - 1) * t.stride[axis]
                if max(elements, space) * type_size(<int> t.type) > INT64_MAX:
                    self.refuse("tensor beyond 63 bits")
        return 0

    cdef int set_axes(self, mx_conv_problem* c, mx_tensor* read, mx_tensor* other) except -1:
        """Set lengths, pads, strides and dilations along the spatial axes."""
        cdef int i, axis, missing = MX_SPATIAL - len(self.read)
        for axis in range(missing):
            read.len[2 + axis] = other.len[2 + axis] = c.w.len[2 + axis] = c.step[axis] = c.dilation[axis] = 1
        for i in range(len(self.read)):
            axis = missing + i
            read.len[2 + axis], c.w.len[2 + axis] = self.number(self.read[i]), self.number(self.filter[i])
            c.pad[axis] = self.number(self.pad[i], 0, INT_MAX)
            c.step[axis] = self.number(self.step[i], 1, INT_MAX)
            c.dilation[axis] = self.number(self.dilation[i], 1, INT_MAX)
            other.len[2 + axis] = 1 if self.other is None else self.number(self.other[i])
            self.see_reach(c, axis, max(read.len[2 + axis], other.len[2 + axis]))
            if self.other is None:
                other.len[2 + axis] = _implied(c, axis)
                self.see_reach(c, axis, other.len[2 + axis])
                if other.len[2 + axis] < 1:
                    self.refuse("no length of out leads to that of in")
        return 0

    cdef int see_reach(self, mx_conv_problem* c, int axis, int64_t length) except -1:
        """See that positions along an axis fit into 64 bits, as where a problem is made of descriptors."""
        reach = <object> c.w.len[2 + axis] * c.dilation[axis] + 2 * <object> c.pad[axis]
        if <object> length * c.step[axis] + reach > INT64_MAX:
            self.refuse("number beyond 63 bits")
        return 0

    cdef int fuse(self, mx_conv_problem* c, bytes activation, bytes z, bytes bias, bytes norm) except -1:
        """What follows the convolution, as problem/_fusion allows it."""
        cdef int64_t width = c.w.type
        if c.direction == MX_BACKWARD_WEIGHTS or width not in (MX_FLOAT, MX_HALF, MX_BFLOAT16, MX_DOUBLE):
            self.refuse("nothing follows such a convolution")
        c.fused.parts, c.fused.activation = MX_FUSED, self.number(activation, 0)
        if z is not None:
            c.fused.parts |= MX_FUSED_Z
        if bias is not None:
            c.fused.parts |= MX_FUSED_BIAS
            c.fused.bias_type = self.number(bias, 0)
        if norm is not None:
            c.fused.parts |= MX_FUSED_NORM
            c.fused.norm_type = self.number(norm, 0)
        for given, kind in ((bias, c.fused.bias_type), (norm, c.fused.norm_type)):
            if given is not None and kind != width and not (kind == MX_FLOAT and width in (MX_HALF, MX_BFLOAT16)):
                self.refuse("data types that no epilogue has")
        return 0

    cdef ConvProblem problem(self):
        """Return the problem, or say why there is none."""
        cdef mx_conv_problem c
        cdef mx_tensor* read
        cdef mx_tensor* other
        memset(&c, 0, sizeof(c))
        axes = len(self.read)
        end = re.match(_END, self.end)
        if end is None:
            self.refuse("unknown direction or suffix")
        (direction, groups, casts, deterministic, tf32, one, activation, z, bias, norm, out, in_strides, w_strides,
         out_strides) = end.groups()
        if casts:
            self.refuse("cast types")
        types = re.match(_TYPES, self.types)
        if types is None:
            self.refuse("unknown data type")
        c.direction, c.spatial, c.deterministic = b"FBW".index(direction), 1 if one else axes, deterministic is not None
        c.groups = self.number(self.groups or groups or b"1", 1, INT_MAX)
        read, other = (&c.x, &c.y) if c.direction == MX_FORWARD else (&c.y, &c.x)

        read.type = _NUMBER_OF_TYPE[types[1]]
        c.tf32 = tf32 is not None and read.type == MX_FLOAT
        c.w.type, other.type = _NUMBER_OF_TYPE[types[2] or types[1]], _NUMBER_OF_TYPE[types[3] or types[1]]
        if is_ocp8(c.x.type) or is_ocp8(c.w.type) or is_ocp8(c.y.type):
            if not float8_types(c.direction, c.x.type, c.w.type, c.y.type):
                self.refuse("data types that no convolution has together")
        elif c.w.type != c.x.type or (c.y.type != c.x.type and (
                c.x.type != MX_INT8 or c.y.type != MX_INT32 and c.y.type != MX_FLOAT)):
            self.refuse("data types that no convolution has together")
        if activation is not None:
            self.fuse(&c, activation, z, bias, norm)
        # Keys do not say; this is what descriptors begin with.
        c.rounding = rounding_of(c.y.type if c.direction == MX_FORWARD else c.x.type if (
            c.direction == MX_BACKWARD_DATA) else c.w.type, STOCHASTIC)

        read.len[0] = other.len[0] = self.number(self.images, 0)
        read.len[1], other.len[1] = self.number(self.channels_read), self.number(self.channels_other)
        if c.x.len[1] % c.groups or c.y.len[1] % c.groups:
            self.refuse("channels not divisible by groups")
        c.w.len[0], c.w.len[1] = c.y.len[1], c.x.len[1] // c.groups
        if out is not None and self.other is None:
            self.other = out.split(b"x")
        for given in (self.filter, self.other, self.pad, self.step, self.dilation):
            if given is not None and len(given) != axes:
                self.refuse("3-D filter beside 2-D pads" if given is self.pad and axes == 3 and len(given) == 2
                            else "fields of different ranks")
        self.set_axes(&c, read, other)
        if one and (read.len[3] | other.len[3] | c.w.len[3] | c.step[1] | c.dilation[1]) != 1 or one and c.pad[1] != 0:
            self.refuse("two spatial axes in a problem of one")

        orders = [self.order(token, axes) for token in self.layouts]
        self.set_strides(read, orders[0], in_strides, c.spatial)
        self.set_strides(&c.w, orders[1], w_strides, c.spatial)
        self.set_strides(other, orders[2], out_strides, c.spatial)
        return problem_of(&c)


cdef bytes _require_bytes(object key):
    if not isinstance(key, bytes):
        raise BadParmError("not bytes", "key", key, "bytes")
    return <bytes> key


def parse_find_key(key):
    """Return the problem that a find-db key names, with packed strides unless the key says otherwise.

    Whether lengths of out are those that a convolution gives is not checked: keys of old files contradict it.  Such a
    problem is there to be looked up and asked about, not to be run.

    Raises
    ------
    BadParmError
        A ValueError, with a constant reason as `message`: the key is no find-db key, or MIOpen and miopyx write the
        problem that it names otherwise.  `find_key` returns every key that is accepted, byte for byte.
    """
    cdef _Reader r = _Reader(_require_bytes(key))
    parts = r.key.split(b"-")
    axes = 3 if len(parts) > 4 and b"x" in parts[4] else 2
    if len(parts) not in (11 + 2 * axes, 13 + 2 * axes) or b"x" not in parts[1 + axes]:
        r.refuse("number of fields")
    r.channels_read, r.read, r.filter = parts[0], parts[1:1 + axes], parts[1 + axes].split(b"x")
    r.channels_other, r.other, r.images = parts[2 + axes], parts[3 + axes:3 + 2 * axes], parts[3 + 2 * axes]
    r.pad, r.step, r.dilation = [part.split(b"x") for part in parts[4 + 2 * axes:7 + 2 * axes]]
    if parts[7 + 2 * axes] != b"0":
        r.refuse("bias")
    last = len(parts) - 1
    r.layouts, r.types, r.end = parts[8 + 2 * axes:last - 1], parts[last - 1], parts[last]
    if len(r.layouts) == 1:
        r.layouts = 3 * r.layouts
    problem = r.problem()
    if find_key(problem) != r.key:
        r.refuse("not how its problem is written")
    return problem


def parse_perf_key(key):
    """Return the problem that a key of the text perf-db names; as `parse_find_key`.

    All tensors have the layout of in, and out the lengths that `perf_key` leaves out, unless the key says otherwise.
    """
    cdef _Reader r = _Reader(_require_bytes(key))
    first = r.key.split(b"_", 1)[0]
    parts = first.split(b"x")
    if len(parts) != 24:
        r.refuse("number of fields")
    if parts[0] != b"2" and parts[0] != b"3":
        r.refuse("number of spatial axes")
    if parts[19] != b"0":
        r.refuse("bias")
    axes = [2, 0, 1] if parts[0] == b"3" else [0, 1]  # d h w from h w d
    r.channels_read, r.channels_other, r.images, r.groups = parts[1], parts[8], parts[9], parts[20]
    r.read, r.filter, r.pad, r.step, r.dilation = [[parts[at + i] for i in axes] for at in (2, 5, 10, 13, 16)]
    r.layouts = 3 * [parts[21]]
    r.types, r.end = parts[22], r.key[len(first) - len(parts[23]):]
    problem = r.problem()
    if perf_key(problem) != r.key:
        r.refuse("not how its problem is written")
    return problem
