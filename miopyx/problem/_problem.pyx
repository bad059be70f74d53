"""What is asked of a solver: problems as plain structs whose bytes are their identity.

A convolution problem always holds x, w, y and says which of them is computed.  A transposed convolution is the same
arithmetic with x and y exchanged, so it is folded in here, once: its forward pass is the backward-data problem of the
convolution that maps its output to its input.  Nothing below this module knows of transposition.
"""

from libc.string cimport memset

from miopyx.values._guard cimport load_int, load_int64, store_int, store_int64
from miopyx.values._args cimport checked_add, checked_mul
from ._descriptors cimport as_convolution, as_tensor, is_ocp8
from miopyx.values._types cimport (
    MX_AXES, MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT8, MX_BFLOAT16, MX_FLOAT, MX_FLOAT8, MX_FORWARD,
    MX_FUSED_BIAS, MX_FUSED_NORM, MX_FUSED_Z, MX_HALF, MX_INT8, MX_INT32, MX_SPATIAL, mx_fused, mx_tensor,
)

from miopyx.values import config
from miopyx import enums
from miopyx.errors import BadParmError, MIOpenNotImplementedError

cdef extern from *:
    """
    #include <string.h>
    /* Problems are a few dozen 64-bit words: four chains of multiplications run side by side. */
    static inline uint64_t mx_hash(const void *data, size_t size) {
        const unsigned char *p = (const unsigned char *) data;
        uint64_t v[4], h[4] = {0x9E3779B97F4A7C15u ^ size, 0x243F6A8885A308D3u, 0x13198A2E03707344u,
                               0xA4093822299F31D0u};
        for (; size >= 32; size -= 32, p += 32) {
            memcpy(v, p, 32);
            for (int i = 0; i < 4; i++) {
                h[i] = (h[i] ^ v[i]) * 0xD6E8FEB86659FD93u;
                h[i] ^= h[i] >> 32;
            }
        }
        for (; size >= 8; size -= 8, p += 8) {
            memcpy(v, p, 8);
            h[0] = (h[0] ^ v[0]) * 0xD6E8FEB86659FD93u;
            h[0] ^= h[0] >> 32;
        }
        for (int i = 1; i < 4; i++) {
            h[0] = (h[0] ^ h[i]) * 0xD6E8FEB86659FD93u;
            h[0] ^= h[0] >> 32;
        }
        return h[0];
    }
    """
    uint64_t mx_hash(const void* data, size_t size) noexcept nogil

cdef enum:
    TRANSPOSE = 1


cdef uint64_t hash_bytes(const void* data, size_t size) noexcept nogil:
    """Hash a struct of 64-bit members."""
    return mx_hash(data, size)


cdef class Problem:
    """Base of all problems: `data` and `size` are the identity."""

    cdef int hold(self, int slot, const mx_tensor* tensor, int rank) noexcept:
        """Let a slot hold a tensor of a descriptor of `rank` dimensions."""
        self.tensor[slot], self.rank[slot] = tensor, rank
        return 0

    cdef bint is_empty(self) noexcept:
        """Whether a tensor has no elements: then there is nothing to compute, and sums are sums of nothing."""
        cdef int slot, axis
        for slot in range(self.count):
            if self.tensor[slot] != NULL:
                for axis in range(MX_AXES):
                    if self.tensor[slot].len[axis] == 0:
                        return True
        return False

    @property
    def empty(self):
        """Whether a tensor has no elements."""
        return self.is_empty()

    @property
    def key(self):
        """The struct's bytes."""
        return (<const unsigned char*> self.data)[:self.size]

    @property
    def flops(self):
        """About how many operations: one for each element of each tensor."""
        cdef int slot, axis
        total = 0
        for slot in range(self.count):
            if self.tensor[slot] != NULL:
                product = 1
                for axis in range(MX_AXES):
                    product *= self.tensor[slot].len[axis]
                total += product
        return total


cdef int fill_tensor(mx_tensor* t, TensorDescriptor desc) noexcept:
    """Write a descriptor of at most five dimensions."""
    # n and c come first; the spatial axes are the last ones, missing ones have length 1 and stride 0.
    cdef int i, missing = MX_AXES - desc.ndim
    t.type = desc.type
    for i in range(MX_AXES):
        t.len[i], t.stride[i] = 1, 0
    for i in range(min(2, desc.ndim)):
        t.len[i], t.stride[i] = desc.len[i], desc.stride[i]
    for i in range(2, desc.ndim):
        t.len[i + missing], t.stride[i + missing] = desc.len[i], desc.stride[i]
    return 0


cdef int require_plain(TensorDescriptor desc, str name) except -1:
    if desc.vector_length != 1:
        raise MIOpenNotImplementedError("no solver reads vectorised layouts", name, desc, "NCHW or NHWC")
    if desc.cast_type >= 0 and desc.cast_type != desc.type:
        raise MIOpenNotImplementedError("no solver uses cast types", name, desc, "no cast type")
    return 0


cdef int require_no_overlap(TensorDescriptor desc, str name) except -1:
    """Two indices of an output must never name one address: two threads would race for it."""
    cdef int64_t reach = 0
    cdef int order[8]
    cdef int i, j, axis, count = 0
    for i in range(desc.ndim):  # axes by stride, ascending; of equal strides the second one is refused in any case
        if desc.len[i] > 1:
            j = count
            while j > 0 and desc.stride[order[j - 1]] > desc.stride[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
            count += 1
    for i in range(count):
        axis = order[i]
        if desc.stride[axis] <= reach:
            raise BadParmError("strides of an output overlap", name, desc.strides,
                               f"> {reach} for length {desc.len[axis]}")
        reach += desc.stride[axis] * (desc.len[axis] - 1)
    return 0


cdef bint same_layout(const mx_tensor* a, const mx_tensor* b) noexcept:
    """Whether two tensors of equal lengths name the same places of their memory, element for element."""
    cdef int i
    if a.type != b.type:
        return False
    for i in range(MX_AXES):
        if a.len[i] != b.len[i] or (a.len[i] > 1 and a.stride[i] != b.stride[i]):
            return False
    return True


cdef int _override = -2  # not read yet


cdef int _deterministic() except -2:
    """0 or 1 where the environment overrides the attribute, -1 where it does not."""
    if load_int(_override) == -2:
        store_int(_override, config.get("MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC"))
    return load_int(_override)


cdef int64_t _seed = -1     # not read yet
cdef int _mode = -1         # of the environment, -1 where it does not override the attribute


cdef int64_t rounding_of(int64_t data_type, int mode) except -1:
    """How a result of a type is rounded, as mx_conv_problem says it; `mode` is the descriptor's attribute."""
    cdef int now
    if data_type != MX_FLOAT8 and data_type != MX_BFLOAT8 and not is_ocp8(data_type):
        return 0
    if load_int64(_seed) < 0:
        store_int(_mode, config.get("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE"))
        store_int64(_seed, config.get("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_SEED"))
    now = load_int(_mode)
    return 1 + load_int64(_seed) if (mode if now < 0 else now) == STOCHASTIC else 0


cdef bint float8_types(int direction, int64_t x, int64_t w, int64_t y) noexcept nogil:
    """Whether a convolution has these types together: OCP's float8 are read, either or both; results may be wider."""
    cdef int64_t result = y if direction == MX_FORWARD else x if direction == MX_BACKWARD_DATA else w
    return ((direction == MX_BACKWARD_DATA or is_ocp8(x)) and (direction == MX_BACKWARD_WEIGHTS or is_ocp8(w))
            and (direction == MX_FORWARD or is_ocp8(y))
            and (is_ocp8(result) or result == MX_HALF or result == MX_BFLOAT16 or result == MX_FLOAT))


cdef int require_float8(int direction, TensorDescriptor x, str x_name, TensorDescriptor w, str w_name,
                        TensorDescriptor y, str y_name) except -1:
    cdef int i
    for i, (desc, name) in enumerate(((y, y_name), (x, x_name), (w, w_name))):
        if i != direction and not is_ocp8((<TensorDescriptor> desc).type):
            raise BadParmError("a factor of another type beside OCP's float8", name, desc.dtype,
                               "float8_e4m3fn or float8_e5m2")
    if not float8_types(direction, x.type, w.type, y.type):
        desc, name = ((y, y_name), (x, x_name), (w, w_name))[direction]
        raise BadParmError("result type of a float8 convolution", name, desc.dtype,
                           "float8_e4m3fn, float8_e5m2, float16, bfloat16 or float32")
    return 0


cdef int fill_conv(mx_conv_problem* p, int direction, TensorDescriptor x, TensorDescriptor w, TensorDescriptor y,
                   ConvolutionDescriptor conv, int math=MATH_AS_SET) except -1:
    """Check the descriptors against each other and write the problem.  Returns 1 where x and y were exchanged.

    x, w, y are the caller's, in the forward sense: x is what the forward convolution reads.
    """
    cdef int64_t dims[8]
    cdef int i, rank = conv.spatial + 2, missing = MX_SPATIAL - conv.spatial
    cdef bint transpose = conv.mode == TRANSPOSE
    cdef str x_name = "dxDesc" if direction == MX_BACKWARD_DATA else "xDesc"
    cdef str w_name = "dwDesc" if direction == MX_BACKWARD_WEIGHTS else "wDesc"
    cdef str y_name = "yDesc" if direction == MX_FORWARD else "dyDesc"
    x.require_set(x_name)
    w.require_set(w_name)
    y.require_set(y_name)
    if x.ndim != rank or w.ndim != rank or y.ndim != rank:
        raise BadParmError("ranks differ or do not fit the convolution", f"{x_name}, {w_name}, {y_name}",
                           (x.ndim, w.ndim, y.ndim), rank)
    require_plain(x, x_name)
    require_plain(w, w_name)
    require_plain(y, y_name)
    if is_ocp8(x.type) or is_ocp8(w.type) or is_ocp8(y.type):
        require_float8(direction, x, x_name, w, w_name, y, y_name)
    elif x.type == MX_INT8:
        if y.type != MX_INT32 and y.type != MX_FLOAT and y.type != MX_INT8:
            raise BadParmError("output type of an int8 convolution", y_name, y.dtype, "int32, float32 or int8")
    elif x.type != y.type:
        raise BadParmError("x and y types differ", y_name, y.dtype, x.dtype)
    if direction == MX_BACKWARD_WEIGHTS and x.type == MX_INT8:
        raise BadParmError("weight gradient of int8", w_name, w.dtype, "a floating-point type")
    conv.output_dims(x, w, dims)  # checks types, channels and output pads as the query does
    if not transpose:
        if conv.groups != 1 and (x.len[1] % conv.groups or w.len[0] % conv.groups):
            raise BadParmError("invalid group number", "groupCount", conv.groups,
                               f"a divisor of {x.len[1]} and {w.len[0]}")
        if (x.len[1] if conv.groups == 1 else x.len[1] // conv.groups) != w.len[1]:
            raise BadParmError("invalid filter channel number", w_name, w.len[1], x.len[1] // conv.groups)
    for i in range(rank):
        if y.len[i] != dims[i]:
            raise BadParmError("lengths are not those of the convolution's output", y_name, y.lens,
                               tuple([dims[j] for j in range(rank)]))
    memset(p, 0, sizeof(mx_conv_problem))
    p.spatial = conv.spatial
    p.groups = conv.groups
    p.deterministic = conv.attribute[1] if _deterministic() < 0 else _deterministic()
    p.rounding = rounding_of(
        y.type if direction == MX_FORWARD else x.type if direction == MX_BACKWARD_DATA else w.type, conv.attribute[2])
    p.tf32 = x.type == MX_FLOAT and w.type == MX_FLOAT and math + (conv.attribute[3] == 0) > 0  # miopenMathDefault
    p.direction = direction
    if transpose:
        if direction == MX_FORWARD:
            p.direction = MX_BACKWARD_DATA
        elif direction == MX_BACKWARD_DATA:
            p.direction = MX_FORWARD
        fill_tensor(&p.x, y)
        fill_tensor(&p.y, x)
    else:
        fill_tensor(&p.x, x)
        fill_tensor(&p.y, y)
    fill_tensor(&p.w, w)
    for i in range(missing):
        p.step[i] = p.dilation[i] = 1
    for i in range(conv.spatial):
        p.pad[missing + i], p.step[missing + i] = conv.pad[i], conv.stride[i]
        p.dilation[missing + i] = conv.dilation[i]
        # Kernels add pads, strides and dilations to positions in 64 bits.
        checked_add(checked_mul(p.y.len[2 + missing + i], p.step[missing + i], "strideA"),
                    checked_mul(p.w.len[2 + missing + i], p.dilation[missing + i], "dilationA"), "padA")
    if direction == MX_FORWARD:
        require_no_overlap(y, y_name)
    elif direction == MX_BACKWARD_DATA:
        require_no_overlap(x, x_name)
    else:
        require_no_overlap(w, w_name)
    return transpose


cdef class ConvProblem(Problem):
    """One convolution in one direction, by role: x, w, y and which of them is computed.

    Parameters
    ----------
    direction : int
        0 forward, 1 backward data, 2 backward weights, as the caller sees it.
    x, w, y : TensorDescriptor
        In the forward sense; gradients have the descriptor of what they are a gradient of.
    conv : ConvolutionDescriptor
    math : int
        Of float32: 1 where a handle allows rounded factors, -1 where its device has no use for them.

    Raises
    ------
    BadParmError
        Where ranks, types, channels, groups or output lengths do not fit each other.
    """

    def __init__(self, int direction, TensorDescriptor x not None, TensorDescriptor w not None,
                 TensorDescriptor y not None, ConvolutionDescriptor conv not None, int math=MATH_AS_SET):
        self.transposed = fill_conv(&self.c, direction, as_tensor(x, "xDesc"), as_tensor(w, "wDesc"),
                                    as_tensor(y, "yDesc"), as_convolution(conv, "convDesc"), math)
        complete(self)

    def __cinit__(self, *args):
        self.data, self.size = &self.c, sizeof(mx_conv_problem)

    cdef ConvProblem unfused(self):
        """The same convolution without an epilogue."""
        cdef mx_conv_problem plain = self.c
        memset(&plain.fused, 0, sizeof(mx_fused))
        cdef ConvProblem problem = problem_of(&plain)
        problem.transposed = self.transposed
        return problem

    @property
    def direction(self):
        """0 forward, 1 backward data, 2 backward weights, after folding."""
        return self.c.direction

    @property
    def flops(self):
        """Multiplications and additions: 2 n (c/g) z r s k do ho wo."""
        cdef mx_conv_problem* c = &self.c
        product = 2  # a Python integer: the count may be beyond 64 bits
        for factor in (*tuple(c.y.len), *tuple(c.w.len)[1:]):
            product *= factor
        return product

    @property
    def features(self):
        """What a model may learn from: direction, types, lengths and parameters, by the field's letters."""
        cdef mx_conv_problem* c = &self.c
        values = {"direction": c.direction, "spatial": c.spatial, "groups": c.groups,
                  "deterministic": c.deterministic, "tf32": c.tf32, "x_type": c.x.type, "w_type": c.w.type,
                  "y_type": c.y.type}
        for names, lengths in (("n c d h w", c.x.len), ("k _ z r s", c.w.len), ("_ _ do ho wo", c.y.len),
                               ("pad_d pad_h pad_w", c.pad), ("stride_d stride_h stride_w", c.step),
                               ("dilation_d dilation_h dilation_w", c.dilation)):
            values.update((name, value) for name, value in zip(names.split(), lengths) if name != "_")
        return values

    def __repr__(self):
        cdef mx_conv_problem* c = &self.c
        verb = ("forward", "backward data", "backward weights")[c.direction]
        said = [text for text, holds in (("deterministic", c.deterministic), ("factors may be rounded", c.tf32),
                                         ("rounded at random", c.rounding != 0)) if holds]
        return (f"<{verb}: x {tensor_text(&c.x)}, w {tensor_text(&c.w)}, y {tensor_text(&c.y)}, pad {tuple(c.pad)}, "
                f"stride {tuple(c.step)}, dilation {tuple(c.dilation)}, groups {c.groups}"
                f"{''.join(f', {text}' for text in said)}{fused_text(&c.fused)}>")


cdef str fused_text(const mx_fused* f):
    """What follows a convolution, as problems are printed."""
    if not f.parts:
        return ""
    words = [word for bit, word in ((MX_FUSED_BIAS, "bias"), (MX_FUSED_NORM, "batch norm"), (MX_FUSED_Z, "z"))
             if f.parts & bit]
    return f"; then {', '.join([*words, enums.word_of('miopenActivationMode_t', f.activation)])}"


cdef str tensor_text(const mx_tensor* t):
    """Lengths, n c d h w, and the type, as problems are printed."""
    return f"{tuple(t.len)} {enums.TYPE_NAMES[t.type]}"


cdef mx_tensor* result_of(mx_conv_problem* c) noexcept:
    """The tensor that is computed."""
    return &c.y if c.direction == MX_FORWARD else &c.x if c.direction == MX_BACKWARD_DATA else &c.w


cdef int complete(ConvProblem problem) noexcept:
    """Say what the slots hold, once the struct is written."""
    cdef mx_conv_problem* c = &problem.c
    cdef int i, rank = <int> c.spatial + 2
    cdef int64_t channels = result_of(c).len[1]
    problem.hold(0, &c.x, rank)
    problem.hold(1, &c.w, rank)
    problem.hold(2, &c.y, rank)
    problem.count = 3
    problem.output = 2 if c.direction == MX_FORWARD else 0 if c.direction == MX_BACKWARD_DATA else 1
    problem.written = 1 << problem.output
    if c.fused.parts & MX_FUSED_Z:
        problem.hold(FUSED_Z, result_of(c), rank)
        problem.in_place, problem.count = 1 << FUSED_Z, FUSED_Z + 1
    if c.fused.parts & MX_FUSED_BIAS:
        fill_channels(&problem.bias, c.fused.bias_type, channels)
        problem.hold(FUSED_BIAS, &problem.bias, rank)
        problem.count = FUSED_BIAS + 1
    if c.fused.parts & MX_FUSED_NORM:
        fill_channels(&problem.norm, c.fused.norm_type, channels)
        for i in range(FUSED_SCALE, FUSED_VARIANCE + 1):
            problem.hold(i, &problem.norm, rank)
        problem.count = FUSED_VARIANCE + 1
    return 0


cdef void fill_channels(mx_tensor* t, int64_t data_type, int64_t channels) noexcept:
    """A number of each channel, one after the other."""
    cdef int i
    t.type = data_type
    for i in range(MX_AXES):
        t.len[i] = t.stride[i] = 1
    t.len[1] = t.stride[0] = channels


cdef ConvProblem problem_of(const mx_conv_problem* c):
    """Return the problem of a struct that was filled and checked elsewhere."""
    cdef ConvProblem problem = ConvProblem.__new__(ConvProblem)
    problem.c = c[0]
    complete(problem)
    return problem
