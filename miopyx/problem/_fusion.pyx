"""What follows a convolution in the same launch, as it is asked of a solver.

    y = act(scale (alpha conv(x, w) + bias - mean) / sqrt(variance + epsilon) + shift + beta z)

of which bias, batch norm (scale, shift, mean, variance), z and the activation may each be missing.  z lies as y does.
"""

from ._descriptors cimport TensorDescriptor
from ._problem cimport ConvProblem, complete, fill_tensor, require_plain, result_of, same_layout
from miopyx.values._types cimport (
    MX_BFLOAT16, MX_DOUBLE, MX_FLOAT, MX_FUSED, MX_FUSED_BIAS, MX_FUSED_NORM, MX_FUSED_Z, MX_HALF, mx_tensor,
)

from miopyx.errors import BadParmError, MIOpenNotImplementedError


cdef int _require_channels(TensorDescriptor desc, str name, const mx_tensor* result, int rank) except -1:
    """A number of each channel: lengths 1, k, 1, 1, of the result's type, or of float32 beside 16 bits."""
    cdef int i
    desc.require_set(name)
    require_plain(desc, name)
    if desc.ndim != rank:
        raise BadParmError("rank is not the output's", name, desc.ndim, rank)
    for i in range(rank):
        if desc.len[i] != (result.len[1] if i == 1 else 1):
            raise BadParmError("lengths are not those of one number a channel", name, desc.lens,
                               (1, result.len[1]) + (1,) * (rank - 2))
    if desc.len[1] > 1 and desc.stride[1] != 1:
        raise MIOpenNotImplementedError("numbers of the channels lie apart", name, desc.strides, "a stride of 1")
    if desc.type != result.type and not (desc.type == MX_FLOAT and (
            result.type == MX_HALF or result.type == MX_BFLOAT16)):
        raise BadParmError("type is not the output's", name, desc.dtype, "the output's, or float32 beside 16 bits")
    return 0


cdef int fuse(ConvProblem problem, int activation, TensorDescriptor z, TensorDescriptor bias,
              TensorDescriptor norm) except -1:
    """Add an epilogue to a convolution that computes y, which is backward data's kind where it is transposed.

    `activation` is a miopenActivationMode_t; z, bias and norm, whose descriptor is that of scale, shift, mean and
    variance, may be None.

    Raises
    ------
    BadParmError
        Where lengths or types do not fit the output.
    MIOpenNotImplementedError
        For integers and float8, and where z lies otherwise than y.
    """
    cdef mx_tensor* y = result_of(&problem.c)
    cdef mx_tensor t
    cdef int rank = <int> problem.c.spatial + 2
    if y.type != MX_FLOAT and y.type != MX_HALF and y.type != MX_BFLOAT16 and y.type != MX_DOUBLE or (
            problem.c.w.type != y.type):
        raise MIOpenNotImplementedError("fused operations of these types", "xDesc, wDesc, yDesc", problem,
                                        "float32, float16, bfloat16 or float64")
    problem.c.fused.parts, problem.c.fused.activation = MX_FUSED, activation
    if z is not None:
        z.require_set("zDesc")
        require_plain(z, "zDesc")
        if z.ndim != rank:
            raise BadParmError("rank is not the output's", "zDesc", z.ndim, rank)
        fill_tensor(&t, z)
        if not _same_lengths(&t, y) or t.type != y.type:
            raise BadParmError("lengths or type are not the output's", "zDesc", z, "yDesc's")
        if not same_layout(&t, y):
            raise MIOpenNotImplementedError("z lies otherwise than y", "zDesc", z.strides, "yDesc's strides")
        problem.c.fused.parts |= MX_FUSED_Z
    if bias is not None:
        _require_channels(bias, "biasDesc", y, rank)
        problem.c.fused.parts |= MX_FUSED_BIAS
        problem.c.fused.bias_type = bias.type
    if norm is not None:
        _require_channels(norm, "bnScaleBiasMeanVarDesc", y, rank)
        problem.c.fused.parts |= MX_FUSED_NORM
        problem.c.fused.norm_type = norm.type
    complete(problem)
    return 0


cdef bint _same_lengths(const mx_tensor* a, const mx_tensor* b) noexcept:
    cdef int i
    for i in range(5):
        if a.len[i] != b.len[i]:
            return False
    return True
