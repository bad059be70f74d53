"""Epilogues: what follows a convolution, by its own kernel's store or in one more launch.

A solver answers for the convolution alone.  The launches of its solution that take alpha and beta are those that store
results; where their kernels take an epilogue, as include/epilogue.h says, they get its arguments, else one more launch
follows.  It reads what they stored, in y or, where there is a z, which may be y, in the workspace.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport (
    ARG_SCALAR, ARG_SLOT, SLOT_WORKSPACE, Arg, Device, KernelSpec, Solution, Step, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._fusion cimport FUSED_ALPHA, FUSED_EPSILON
from miopyx.problem._problem cimport FUSED_BIAS, FUSED_SCALE, FUSED_VARIANCE, FUSED_Z
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_AXES, MX_DOUBLE, MX_FORWARD, MX_FUSED_BIAS, MX_FUSED_NORM, MX_FUSED_Z, mx_conv_problem, mx_tensor,
)
from miopyx.solvers._tokens cimport real_token, type_token

from miopyx.runtime import programs

cdef enum:
    BETA = 1               # the call's scalar that z is multiplied by
    ALIGNED = 256          # bytes, of what lies behind a solver's workspace
    LOCAL = 256
    GROUPS = 4             # of a CPU, for each core: they need not end at the same time

cdef dict _known = {}      # (file, entry) -> whether that kernel's parameters end with an epilogue's


cdef bint _takes_epilogue(KernelSpec spec) except -1:
    known = _known.get((spec.file, spec.entry))
    if known is None:
        text = programs.source(spec.file)
        begin = text.find(f"{spec.entry}(")
        known = _known[spec.file, spec.entry] = "EPILOGUE_" in text[begin:text.find("\n{", begin)]
    return known


cdef bint _stores(Step step) noexcept:
    cdef Arg arg
    for arg in step.args:
        if arg.kind == ARG_SCALAR:
            return True
    return False


cdef bint stores_fused(Solution plain) except -1:
    """Whether all launches that store results take an epilogue; a host function does what its problem says."""
    cdef Step step
    for step in plain.steps:
        if step.spec is not None and _stores(step) and not _takes_epilogue(step.spec):
            return False
    return True


cdef Step _fused(Step step, const mx_conv_problem* p, const mx_tensor* y, int output):
    """A launch that stores results, with an epilogue."""
    cdef Arg arg
    cdef list args = []
    cdef int64_t at = 0
    cdef int slot
    cdef bint wide = y.type == MX_DOUBLE
    cdef str defines = f"-D EPILOGUE={p.fused.activation} -D RESULT_TYPE={type_token(y.type)}"
    for arg in step.args:
        if arg.kind == ARG_SLOT and arg.slot == output:
            at = arg.offset
        # Without z beta is 0, whatever the caller has there.
        args.append(Arg.real(0, arg.width == 8)
                    if arg.kind == ARG_SCALAR and arg.slot == BETA and not p.fused.parts & MX_FUSED_Z else arg)
    if p.fused.parts & MX_FUSED_Z:
        defines += " -D FUSED_Z"
        args.append(Arg.slot_of(FUSED_Z, type_size(<int> y.type), at))
    if p.fused.parts & MX_FUSED_BIAS:
        defines += f" -D BIAS_TYPE={type_token(p.fused.bias_type)}"
        args.append(Arg.slot_of(FUSED_BIAS, type_size(<int> p.fused.bias_type)))
    if p.fused.parts & MX_FUSED_NORM:
        defines += f" -D NORM_TYPE={type_token(p.fused.norm_type)}"
        for slot in range(FUSED_SCALE, FUSED_VARIANCE + 1):
            args.append(Arg.slot_of(slot, type_size(<int> p.fused.norm_type)))
        args.append(Arg.scalar_of(FUSED_EPSILON, wide))
    for slot in range(3):
        args.append(Arg.scalar_of(FUSED_ALPHA + slot, wide))
    return step.taking(step.spec.defining(defines), tuple(args),
                       None if step.unmapped is None else step.unmapped.defining(defines))


cdef Step _alone(Step step, int output, int64_t moved):
    """A launch that stores results as they are: in the workspace from `moved` on, unless that is -1."""
    cdef Arg arg
    cdef list args = []
    for arg in step.args:
        if arg.kind == ARG_SCALAR:
            arg = Arg.real(0 if arg.slot == BETA else 1, arg.width == 8)
        elif arg.kind == ARG_SLOT and arg.slot == output and moved >= 0:
            arg = arg.moved(SLOT_WORKSPACE, moved + arg.offset)
        args.append(arg)
    return step.taking(step.spec, tuple(args), step.unmapped)


cdef Step _launch(Device dev, const mx_tensor* y, int output, int64_t moved):
    """The launch that does what a store would, with what lies in y or in the workspace."""
    cdef bint wide = y.type == MX_DOUBLE
    cdef int width = type_size(<int> y.type)
    cdef int64_t elements = y.len[0] * y.len[1] * y.len[2] * y.len[3] * y.len[4], local = 1, groups
    cdef dict defines = {"RESULT_TYPE": type_token(y.type), "ACC": real_token(wide), "SCALAR": real_token(wide)}
    if dev.is_cpu:
        groups = max(1, min(GROUPS * dev.compute_units, elements // 1024))
        defines.update(ROWS=1, VEC=dev.vector_bytes // (8 if wide else 4))
    else:
        local = min(LOCAL, dev.max_work_group)
        groups = ceil_div(elements, local)
        defines["INDEX"] = "int" if elements < 1 << 31 else "long"
    return Step(KernelSpec("conv/epilogue.cl", "fused_epilogue", **defines),
                (Arg.slot_of(output, width) if moved < 0 else Arg.slot_of(SLOT_WORKSPACE, width, moved),
                 Arg.slot_of(output, width), struct_arg(y, sizeof(mx_tensor)), Arg.alpha(wide), Arg.beta(wide)),
                (groups * local,), (local,))


cdef inline const mx_tensor* _result(const mx_conv_problem* p) noexcept:
    return &p.y if p.direction == MX_FORWARD else &p.x


cdef int64_t workspace_with(const mx_conv_problem* p, Solution plain) except -1:
    """Bytes of workspace with what follows."""
    cdef const mx_tensor* y = _result(p)
    cdef int64_t last = 1
    cdef int axis
    if not p.fused.parts & MX_FUSED_Z or stores_fused(plain):
        return plain.workspace
    for axis in range(MX_AXES):
        last += (y.len[axis] - 1) * y.stride[axis] if y.len[axis] > 0 else 0
    return up(plain.workspace, ALIGNED) + last * type_size(<int> y.type)


cdef Solution with_epilogue(Device dev, const mx_conv_problem* p, Solution plain):
    """The solution of a convolution with what follows it."""
    cdef int output = 2 if p.direction == MX_FORWARD else 0
    cdef const mx_tensor* y = _result(p)
    cdef int64_t moved = -1
    cdef Step step
    cdef list steps
    if dev.is_host or not plain.steps:
        return plain
    if stores_fused(plain):
        return Solution([_fused(step, p, y, output) if _stores(step) else step for step in plain.steps],
                        plain.workspace, plain.constant)
    if p.fused.parts & MX_FUSED_Z:
        moved = up(plain.workspace, ALIGNED)
    # All of them: some solvers write y before the launch that takes alpha and beta.
    steps = [step if step.spec is None else _alone(step, output, moved) for step in plain.steps]
    steps.append(_fused(_launch(dev, y, output, moved), p, y, output))
    return Solution(steps, workspace_with(p, plain), plain.constant)
