"""Convolutions whose filters meet x patch by patch, without overlap or gaps: a 1x1 of a copy of x.

The copy's channels are the pixels of a patch, in the order in which a filter of w has its own, so that w is the 1x1's
as it lies.  The solvers by wgmma multiply; their steps take the copy for x.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport (
    ARG_SCALAR, ARG_SLOT, SLOT_WORKSPACE, SLOT_X, Arg, Device, KernelSpec, Solution, Step, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, mx_conv_problem, mx_tensor,
)
from miopyx.solvers.conv._base cimport INT_LIMIT, ConvSolver, is_channels_last, span, spatial_size
from miopyx.solvers._tokens cimport type_token
from ._common cimport ALIGN, NO_ROOM, TOO_LARGE, _NvSolver, divisor, has_wgmma, mx_divisor, tensor_cores

from ._pairs import NvPairsBwd, NvPairsFwd, NvPairsWrw
from ._wgmma import NvWgmmaBwd, NvWgmmaFwd, NvWgmmaWrw

cdef enum:
    ENOUGH = 64            # channels of x, which fill slices of a tap by themselves
    LEAST = 128            # channels of the copy: with fewer, copying takes longer than what it saves
    VECTOR_BYTES = 16
    MOST_RUNS = 4          # vectors of a work-item

# For the index: products a microsecond that an index of 1 stands for, in float32 and in 16 bits; bytes a microsecond
# that are copied.
cdef double FLOAT_PRODUCTS = 4e6, HALF_PRODUCTS = 14e6, COPIED = 2.5e6

cdef extern from "miopyx/kernels/conv/nvidia/patches_args.h" nogil:
    enum: MOST_PATCH_AXES

    ctypedef struct mx_nv_patches:
        int items, apart
        int[8] len
        int[8] x
        int[8] packed
        mx_divisor[8] by

# An axis of x and its copy.
cdef struct axis_t:
    int64_t len, x, packed


cdef bint _follow(const mx_tensor* w, bint last, int64_t* strides) noexcept nogil:
    """Whether a filter is one run of memory, channels last or first; fill in its strides."""
    cdef int64_t stride = 1
    cdef int i, axis
    for i in range(4):
        axis = (1 if i == 0 else 5 - i) if last else 4 - i
        strides[axis] = stride
        if w.len[axis] > 1 and w.stride[axis] != stride:
            return False
        stride *= w.len[axis]
    return True


cdef bint _are_patches(const mx_conv_problem* p) noexcept nogil:
    """Whether each pixel of x is met by one tap for one output."""
    cdef int i
    cdef int64_t taps, outputs
    for i in range(3):
        taps, outputs = p.w.len[2 + i], p.y.len[2 + i]
        if (p.pad[i] != 0 or p.x.len[2 + i] != taps * outputs or (taps > 1 and p.dilation[i] != 1)
                or (outputs > 1 and p.step[i] != taps)):
            return False
    return p.groups == 1 and spatial_size(&p.w) > 1


cdef mx_conv_problem _pointwise(const mx_conv_problem* p) noexcept nogil:
    """The 1x1 whose x is the copy, in the layout of y."""
    cdef mx_conv_problem o = p[0]
    cdef int64_t channels = p.w.len[1] * spatial_size(&p.w), stride = 1
    cdef bint last = is_channels_last(&p.y)
    cdef int i, axis
    o.x.len[1] = o.w.len[1] = channels
    o.w.stride[1] = 1
    for i in range(3):
        o.x.len[2 + i], o.w.len[2 + i], o.w.stride[2 + i] = p.y.len[2 + i], 1, 1
        o.step[i] = o.dilation[i] = 1
    for i in range(5):
        axis = 0 if i == 4 else (1 if i == 0 else 5 - i) if last else 4 - i
        o.x.stride[axis] = stride
        stride *= o.x.len[axis]
    return o


cdef int _axes(const mx_conv_problem* p, const mx_tensor* packed, axis_t* axes) noexcept nogil:
    """Fill in the axes, in the order of the copy's memory, those that follow each other in both as one."""
    cdef int64_t[5] patch
    cdef axis_t axis
    cdef int i, j, count = 0, joined = 0
    if not _follow(&p.w, False, patch):
        _follow(&p.w, True, patch)
    for i in range(8):
        if i == 0:
            axis = axis_t(p.x.len[0], p.x.stride[0], packed.stride[0])
        elif i < 5:
            axis = axis_t(p.w.len[i], p.x.stride[i], patch[i] * packed.stride[1])
        else:
            axis = axis_t(p.y.len[i - 3], p.x.stride[i - 3] * p.w.len[i - 3], packed.stride[i - 3])
        if axis.len == 1:
            continue
        j = count
        while j > 0 and axes[j - 1].packed > axis.packed:
            axes[j] = axes[j - 1]
            j -= 1
        axes[j] = axis
        count += 1
    for i in range(1, count):
        if axes[i].x == axes[joined].x * axes[joined].len:
            axes[joined].len *= axes[i].len
        else:
            joined += 1
            axes[joined] = axes[i]
    return joined + 1


cdef Step _rearrange(const mx_conv_problem* p, const mx_tensor* packed, int64_t at):
    """The copy at byte `at` of the workspace from x, or for backward data x from it."""
    cdef axis_t[8] axes
    cdef mx_nv_patches g
    cdef int64_t size = type_size(<int> p.x.type), vector = VECTOR_BYTES // size, runs = 1, items = 1
    cdef int i, run = -1, count = _axes(p, packed, axes)
    cdef bint apart
    for i in range(count):
        if axes[i].x == 1:
            run = i
    apart = run != 0
    while vector > 1:
        if run >= 0 and axes[run].len % vector == 0:
            for i in range(count):
                if i != run and (axes[i].x % vector or (not apart and axes[i].packed % vector)):
                    break
            else:
                break
        vector //= 2
    memset(&g, 0, sizeof(g))
    g.apart = 1
    if run >= 0:
        g.apart = <int> axes[run].packed
        if apart:
            runs = MOST_RUNS
            while axes[run].len // vector % runs:
                runs //= 2
        axes[run].len //= vector * runs
        axes[run].x *= vector * runs
        axes[run].packed *= vector * runs
    for i in range(count):
        g.len[i], g.x[i], g.packed[i] = <int> axes[i].len, <int> axes[i].x, <int> axes[i].packed
        g.by[i] = divisor(axes[i].len)
        items *= axes[i].len
    g.items = <int> items
    copy, x = Arg.slot_of(SLOT_WORKSPACE, <int> size, at), Arg.slot_of(SLOT_X, <int> size)
    back = p.direction == MX_BACKWARD_DATA
    spec = KernelSpec("conv/nvidia/patches.cl", "spread_patches" if back else "gather_patches",
                      X_TYPE=type_token(p.x.type), AXES=count, VEC=vector, RUNS=runs, APART=int(apart))
    args = (copy, x, struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False)) if back else (
        x, copy, struct_arg(&g, sizeof(g)))
    return Step(spec, args, (up(items, 256),), (256,))


cdef class _NvPatches(_NvSolver):
    cdef ConvSolver floats, halves  # what multiplies

    cdef ConvSolver inner(self, const mx_conv_problem* p):
        return self.floats if p.w.type == MX_FLOAT else self.halves

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        cdef int64_t[5] patch
        cdef mx_conv_problem o
        if not tensor_cores(dev) or not has_wgmma(dev):
            return "needs wgmma"
        if not _are_patches(p):
            return "no patches"
        if p.x.len[1] >= ENOUGH:
            return "many channels"
        if p.x.len[1] * spatial_size(&p.w) < LEAST:
            return "small patches"
        if not _follow(&p.w, False, patch) and not _follow(&p.w, True, patch):
            return "gaps in the filters"
        if span(&p.x) > INT_LIMIT:
            return TOO_LARGE
        o = _pointwise(p)
        why = self.inner(p).refuse(dev, &o)
        if why is None and self.workspace_bytes(dev, p) > min(dev.max_alloc, <int64_t> 4 * INT_LIMIT):
            why = NO_ROOM
        return why

    cdef int64_t copied(self, Device dev, const mx_conv_problem* o):
        """Where the copy begins in the workspace."""
        return up(self.inner(o).workspace_bytes(dev, o), ALIGN)

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef mx_conv_problem o = _pointwise(p)
        return self.copied(dev, &o) + span(&o.x) * type_size(<int> p.x.type)

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_conv_problem o = _pointwise(p)
        cdef double products = p.y.len[0] * spatial_size(&p.y) * <double> (p.w.len[0] * o.w.len[1])
        cdef double rate = FLOAT_PRODUCTS if p.w.type == MX_FLOAT else HALF_PRODUCTS
        cdef double copying = 2 * span(&o.x) * type_size(<int> p.x.type) / COPIED
        return products / (products / self.inner(p).index(dev, &o) + copying * rate)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_conv_problem o = _pointwise(p)
        return self.inner(p).roundings(dev, &o)

    cdef int stores(self, Device dev, const mx_conv_problem* p) noexcept:
        # alpha and beta are taken where x is stored, from a copy of its type.
        cdef mx_conv_problem o = _pointwise(p)
        return self.inner(p).stores(dev, &o) + (p.direction == MX_BACKWARD_DATA)

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef mx_conv_problem o = _pointwise(p)
        cdef ConvSolver inner = self.inner(p)
        cdef Solution found = inner.steps(dev, &o, inner.default(dev, &o))
        cdef Step step
        cdef Arg arg
        cdef int64_t at = self.copied(dev, &o)
        cdef bint back = p.direction == MX_BACKWARD_DATA
        cdef list steps = []
        for step in found.steps:
            for arg in step.args:
                if arg.kind == ARG_SLOT and arg.slot == SLOT_X:
                    arg.slot, arg.offset = SLOT_WORKSPACE, arg.offset + at
            if back:
                step.args = tuple([Arg.real(1 - arg.slot, False) if arg.kind == ARG_SCALAR else arg
                                   for arg in step.args])
            steps.append(step)
        steps.insert(len(steps) if back else found.constant, _rearrange(p, &o.x, at))
        return Solution(steps, self.workspace_bytes(dev, p), found.constant)


cdef class NvPatchesFwd(_NvPatches):
    """Forward, patches without overlap: a launch that rearranges x, then a 1x1 by wgmma."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1191, "NvPatchesFwd", MX_FORWARD
        self.floats, self.halves = NvPairsFwd(), NvWgmmaFwd()


cdef class NvPatchesBwd(_NvPatches):
    """Backward data, patches without overlap: a 1x1 by wgmma, then a launch that rearranges dx."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1192, "NvPatchesBwd", MX_BACKWARD_DATA
        self.floats, self.halves = NvPairsBwd(), NvWgmmaBwd()


cdef class NvPatchesWrw(_NvPatches):
    """Backward weights, patches without overlap: a launch that rearranges x, then a 1x1 by wgmma."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1193, "NvPatchesWrw", MX_BACKWARD_WEIGHTS
        self.floats, self.halves = NvPairsWrw(), NvWgmmaWrw()
