"""Batch normalisation: on the host path, and as kernels for CPUs and for GPUs."""

from libc.stdint cimport int64_t

from miopyx._core cimport (
    BLOCK_TERMS, SLOT_WORKSPACE, Arg, Device, KernelSpec, Problem, Solution, Step, is_streamed, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.host._batchnorm cimport bn_walk, fill_walk, host_batchnorm
from miopyx.values._types cimport MX_BN_BACKWARD, MX_BN_INFERENCE, MX_BN_TRAINING, MX_DOUBLE, mx_batchnorm_problem
from miopyx.problem._batchnorm cimport (
    BN_ALPHA, BN_BACK_BIAS, BN_BACK_DBIAS, BN_BACK_DSCALE, BN_BACK_DX, BN_BACK_DY, BN_BACK_INV, BN_BACK_MEAN,
    BN_BACK_SCALE, BN_BACK_X, BN_BIAS, BN_EPSILON, BN_FACTOR, BN_MEAN, BN_OLD_MEAN, BN_OLD_VARIANCE, BN_SAVED_INV,
    BN_SAVED_MEAN, BN_SCALE, BN_VARIANCE, BN_X, BN_Y, BatchNormProblem,
)
from ._common cimport TOKENS, HostLayer, OpenCLLayer, ceil_div

cdef enum:
    # Numbers of a unit of work on CPUs, at most.
    SIDE = 16                  # vectors of channels side by side: two or four times as many
    MIDDLE_SIDE = 32           # channels whose rows are read twice
    LONG_SIDE = 256            # channels whose rows are read once
    CACHED = 1 << 16           # elements of x that may be read twice from the second cache
    ITEMS = 4                  # pieces of work for each core
    WHOLE = 16384              # elements that one group of a GPU reads twice
    SIDE_BYTES = 128           # of a group's kept values that lie side by side
    SMALLEST = 32              # work-items of a group of which each has some rows of some columns
    LAUNCHES = 32 << 20        # bytes of x up to which another launch costs more than it saves,
    UNIT_LAUNCHES = 16 << 20   # for each group's width of columns, since each has GATHERED groups without it
    FEWEST_HOLD = 256          # work-items that hold a channel, at least; the bytes of its elements
    HELD = 448                 # that one of them holds at most,
    ALL_HELD = 128 << 10       # and all
    GATHERED = 64              # parts that each group of the last launch gathers, at most


cdef class HostBatchNorm(HostLayer):
    """Every pass on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1252, "HostBatchNorm", host_batchnorm


cdef dict _defines(const mx_batchnorm_problem* p, bint in_parts):
    cdef dict defines = {
        "X_TYPE": TOKENS[p.x.type], "SCALE_TYPE": TOKENS[p.scale.type], "BIAS_TYPE": TOKENS[p.bias.type],
        "MEAN_TYPE": TOKENS[p.mean.type], "VARIANCE_TYPE": TOKENS[p.variance.type],
        "ACC": "double" if p.x.type == MX_DOUBLE else "float", "WHAT": p.what - MX_BN_TRAINING,
        "PARTS": 1 if in_parts else 0,
    }
    # Only where they say something, so that one program serves all problems without them.
    if p.activation:
        defines["ACTIVATION"] = p.activation
    if p.previous:
        defines["PREVIOUS"] = 1
    if p.inverse:
        defines["INVERSE"] = 1
    return defines


cdef Arg _slot(int slot, int64_t type):
    return Arg.slot_of(slot, type_size(<int> type))


cdef tuple _arguments(const mx_batchnorm_problem* p, const bn_walk* walk, int64_t side, int64_t parts,
                      bint in_parts):
    """The arguments of every kernel, as kernels/layers/batchnorm.h lists them."""
    cdef bint wide = p.x.type == MX_DOUBLE
    cdef list args
    cdef int i
    # A slot without memory is one that the kernel does not touch: any other stands in for it.
    if p.what == MX_BN_BACKWARD:
        args = [_slot(BN_BACK_X, p.x.type), _slot(BN_BACK_DY, p.y.type), _slot(BN_BACK_DX, p.dx.type),
                _slot(BN_BACK_SCALE, p.scale.type), _slot(BN_BACK_DSCALE, p.scale.type),
                _slot(BN_BACK_DBIAS, p.bias.type),
                _slot(BN_BACK_MEAN, p.mean.type) if p.save else _slot(BN_BACK_SCALE, p.scale.type),
                _slot(BN_BACK_INV, p.variance.type) if p.save else _slot(BN_BACK_SCALE, p.scale.type)]
        if p.activation:
            args.append(_slot(BN_BACK_BIAS, p.bias.type))
    else:
        given = p.running or p.what == MX_BN_INFERENCE
        args = [_slot(BN_X, p.x.type), _slot(BN_Y, p.y.type), _slot(BN_SCALE, p.scale.type),
                _slot(BN_BIAS, p.bias.type), _slot(BN_MEAN, p.mean.type) if given else _slot(BN_SCALE, p.scale.type),
                _slot(BN_VARIANCE, p.variance.type) if given else _slot(BN_SCALE, p.scale.type)]
        if p.what == MX_BN_TRAINING:
            args += [_slot(BN_SAVED_MEAN, p.mean.type) if p.save else _slot(BN_SCALE, p.scale.type),
                     _slot(BN_SAVED_INV, p.variance.type) if p.save else _slot(BN_SCALE, p.scale.type)]
        if p.previous:
            args += [_slot(BN_OLD_MEAN, p.mean.type), _slot(BN_OLD_VARIANCE, p.variance.type)]
    if in_parts:
        args.append(Arg.slot_of(SLOT_WORKSPACE, 8 if wide else 4))
    args += [struct_arg(walk, sizeof(bn_walk)), Arg.int64(side), Arg.int64(parts), Arg.int64(p.running),
             Arg.int64(p.save)]
    # The others have no factor: the number is not used.
    args.append(Arg.scalar_of(BN_FACTOR, wide))
    args.append(Arg.scalar_of(BN_EPSILON if p.what == MX_BN_TRAINING else 0, wide))
    if p.activation:
        for i in range(3):
            args.append(Arg.scalar_of(BN_ALPHA + i, wide))
    return tuple(args)


cdef int64_t _product(const int64_t* length, int count) noexcept:
    cdef int64_t product = 1
    cdef int i
    for i in range(count):
        product *= length[i]
    return product


cdef int64_t _workspace(const mx_batchnorm_problem* p, const bn_walk* walk, int64_t parts) noexcept:
    """Bytes of the shifts, and for each part two sums of x and two of dy."""
    return (_product(walk.kept, 4) * (1 + (4 if p.what == MX_BN_BACKWARD else 2) * parts)
            * (8 if p.x.type == MX_DOUBLE else 4))


cdef Solution _solution(str file, const mx_batchnorm_problem* p, const bn_walk* walk, int64_t side, int64_t parts,
                        dict defines, int64_t size, int64_t local):
    """Everything in one kernel, or the passes one after the other, each over all parts of all units."""
    cdef bint given = p.what == MX_BN_INFERENCE or (p.what == MX_BN_BACKWARD and p.save)
    cdef bint space = parts > 1 and p.what != MX_BN_INFERENCE
    cdef tuple args = _arguments(p, walk, side, parts, space)
    cdef list entries = []
    defines.update(_defines(p, space))
    if not space:
        entries = ["bn_whole"]
    else:
        if not given:
            entries.append("bn_moments")
        if p.what == MX_BN_BACKWARD:
            entries.append("bn_gradients")
        entries.append("bn_finish")
    return Solution([Step(KernelSpec(file, entry, **defines), args, (size,), (local,)) for entry in entries],
                    _workspace(p, walk, parts) if space else 0)


cdef Solution _on_cpu(Device dev, const mx_batchnorm_problem* p, const bn_walk* walk):
    """Large pieces of work: whole channels, or parts of them where there are few."""
    cdef int t, axis_count = 3 if p.what == MX_BN_BACKWARD else 2
    cdef int64_t channels, outer, elements, lines, numbers, side, units, parts, row, vec
    cdef int64_t items = ITEMS * dev.compute_units
    cdef bint lanes, dense = True
    lanes = walk.kept[3] > 1 and (walk.reduced[3] == 1 or (
        walk.kept[3] >= 16 and walk.kept_stride[0][3] < walk.reduced_stride[0][3]))
    row = walk.kept[3] if lanes else walk.reduced[3]
    for t in range(axis_count):
        dense = dense and (row == 1 or (walk.kept_stride[t][3] if lanes else walk.reduced_stride[t][3]) == 1)
    vec = 8 if p.x.type == MX_DOUBLE else 16
    elements = _product(walk.reduced, 4)
    channels, outer = walk.kept[3], _product(walk.kept, 3)
    lines = elements // walk.reduced[3]
    if lanes:
        numbers = 2 * SIDE if p.what == MX_BN_BACKWARD else 4 * SIDE
        side = min(numbers * vec, channels)
    elif p.what == MX_BN_INFERENCE:  # nothing is read twice: long stretches of memory
        numbers = LONG_SIDE
        side = max(1, min(LONG_SIDE, channels, outer * channels * lines // items))
    else:  # what the second cache holds
        numbers = MIDDLE_SIDE
        side = max(1, min(MIDDLE_SIDE, CACHED // elements, outer * channels // items))
    units = outer * ceil_div(channels, side)
    parts = max(1, min(ceil_div(items, units), elements * side // 4096))
    if p.what == MX_BN_INFERENCE and not lanes and parts < lines < 4 * parts and units * lines <= 4 * items:
        parts = lines  # whole rows
    defines = {"LANES": 1 if lanes else 0, "DENSE": 1 if dense else 0, "VEC": vec, "SIDE": numbers,
               "STREAM": int(is_streamed(dev, axis_count * outer * channels * elements * type_size(<int> p.x.type)))}
    return _solution("layers/batchnorm_cpu.cl", p, walk, side, parts, defines,
                     min(units * parts, items) if parts == 1 or p.what == MX_BN_INFERENCE else units * parts, 1)


cdef Solution _in_planes(Device dev, const mx_batchnorm_problem* p, const bn_walk* walk, int tensors):
    """One launch by groups that can hold a channel; or a few neighbouring ones, where only planes of such together are
    made of vectors; else None."""
    cdef int64_t plane = walk.reduced[3], images = walk.reduced[2], width = type_size(<int> p.x.type), vec = 16 // width
    cdef int64_t channels = 1, tx, ty, hold, local = FEWEST_HOLD
    cdef bint back = p.what == MX_BN_BACKWARD
    cdef int t
    if (p.x.type == MX_DOUBLE or walk.kept[2] > 1 or walk.reduced[1] > 1 or walk.reduced[0] > 1 or plane < 8
            or (walk.kept[3] - 1) * plane + (images - 1) * walk.reduced_stride[0][2] > 1 << 30):
        return None
    if plane % vec:
        vec = 4
    if plane % vec:
        channels = 4 if plane % 2 else 2
    # What is not normalised by its own statistics need not be held.
    if walk.kept[3] % channels or (p.what == MX_BN_INFERENCE if channels == 1
                                   else walk.kept[3] // channels < dev.compute_units // 4):
        return None
    for t in range(tensors):
        if walk.reduced_stride[t][3] != 1 or walk.kept_stride[t][3] != plane or walk.reduced_stride[t][2] % vec:
            return None
    tx = channels * plane // vec
    while True:
        if local > dev.max_work_group:
            return None
        if local >= tx:
            ty = min(local // tx, images)
            hold = ceil_div(images, ty)
            if hold * vec * width * (2 if back else 1) <= min(<int64_t> HELD, ALL_HELD // local):
                break
        local *= 2
    defines = {"PLANE": plane, "CHANNELS": channels, "VEC": vec, "TY": ty, "HOLD": hold, "LOCAL": local, "INDEX": "int"}
    if 4 * ((ty * plane * channels if channels > 1 else 1) + local + 6 * channels) > min(dev.local_mem, 48 << 10):
        return None
    if back:
        defines["SAVE"] = 1 if p.save else 0
    defines.update(_defines(p, False))
    spec = KernelSpec("layers/batchnorm_gpu_planes.cl", "bn_planes", **defines)
    return Solution([Step(spec, _arguments(p, walk, channels, 1, False),
                          (walk.kept[3] // channels * local,), (local,))])


cdef Solution _in_columns(Device dev, const mx_batchnorm_problem* p, const bn_walk* walk, int tensors):
    """Channels last, and whatever else is a matrix whose columns have the statistics; else None."""
    cdef int64_t elements = walk.reduced[3], kept = walk.kept[3], width = type_size(<int> p.x.type), vec = 16 // width
    cdef int64_t local = min(256, dev.max_work_group), across = 1, few = 1
    cdef int64_t rows, units, parts, slices, extent = 0, size = elements * kept * width
    cdef bint back = p.what == MX_BN_BACKWARD, infers = p.what == MX_BN_INFERENCE, settled
    cdef int t
    cdef list steps = []
    if walk.kept[2] > 1 or walk.reduced[2] > 1 or kept == 1 or local < SMALLEST:
        return None
    for t in range(tensors):
        if walk.kept_stride[t][3] != 1 or walk.reduced_stride[t][3] < kept:
            return None
        while kept % vec or walk.reduced_stride[t][3] % vec:
            vec //= 2
        extent = max(extent, elements * walk.reduced_stride[t][3])
    while local & (local - 1):
        local &= local - 1
    # Two arrays of vectors, one of numbers, and four or five factors of each column.
    while local > vec and local * (2 * vec + 1 + 5) * (8 if p.x.type == MX_DOUBLE else 4) > dev.local_mem:
        local //= 2
    while across * 2 * vec * width <= SIDE_BYTES and across * vec < kept and local // (2 * across) >= vec:
        across *= 2
    while elements <= local // (2 * across) and across * vec < kept and local // (2 * across) >= vec:
        across *= 2
    rows = local // across
    if rows < vec:
        return None
    units = ceil_div(kept, across * vec)
    slices = max(1, elements // (8 * rows))
    parts = max(1, min(2 * dev.compute_units // units, elements // (4 * rows)))
    if infers or (units >= dev.compute_units and elements * across * vec <= WHOLE):
        parts = 1
    settled = parts > 1 and size > min(<int64_t> LAUNCHES, units * UNIT_LAUNCHES)
    if not settled:
        parts = min(parts, GATHERED)
        slices = slices if infers else parts
    defines = {"TX": across, "TY": rows, "VEC": vec, "SETS": 4 if back else 8,
               "INDEX": "int" if extent < 1 << 31 else "long"}
    if back:
        defines["SAVE"] = 1 if p.save else 0
    if elements // (parts * rows) > BLOCK_TERMS:
        defines["LONG_SUM"] = 1
    defines.update(_defines(p, parts > 1))
    args = _arguments(p, walk, rows, parts, parts > 1)
    file = "layers/batchnorm_gpu_columns.cl"
    if parts == 1:
        return Solution([Step(KernelSpec(file, "bn_whole", **defines), args, (units * slices * local,), (local,))])
    if not (back and p.save):
        steps.append(Step(KernelSpec(file, "bn_moments", **defines), args, (units * parts * local,), (local,)))
    if back:
        steps.append(Step(KernelSpec(file, "bn_gradients", **defines), args, (units * parts * local,), (local,)))
    if settled:  # by many small groups
        while 2 * few * vec <= 8:
            few *= 2
        steps.append(Step(KernelSpec(file, "bn_settle", **dict(defines, TX=few, TY=local // few)), args,
                          (ceil_div(kept, few * vec) * local,), (local,)))
        defines["SETTLED"] = 1
    steps.append(Step(KernelSpec(file, "bn_finish", **defines), args, (units * slices * local,), (local,)))
    return Solution(steps, _workspace(p, walk, parts)
                    + kept * (3 + back + (back and p.activation != 0)) * (8 if p.x.type == MX_DOUBLE else 4))


cdef Solution _on_gpu(Device dev, const mx_batchnorm_problem* p, const bn_walk* walk):
    """Groups of work-items, each for some kept values, and for parts of their elements where there are few."""
    cdef int64_t units, parts, elements = _product(walk.reduced, 4), kept = _product(walk.kept, 4), extent = 0, size
    cdef int64_t local = min(256, dev.max_work_group), across = 1, vec = 1, held
    cdef int t, axis, tensors = 3 if p.what == MX_BN_BACKWARD else 2
    cdef int64_t own, most
    cdef bint flat, lanes
    cdef Solution in_planes = _in_planes(dev, p, walk, tensors), in_columns
    if in_planes is not None:
        return in_planes
    in_columns = _in_columns(dev, p, walk, tensors)
    if in_columns is not None:
        return in_columns
    while local & (local - 1):
        local &= local - 1
    for t in range(tensors):
        size = 1
        for axis in range(4):
            size += (walk.kept[axis] - 1) * walk.kept_stride[t][axis]
            size += (walk.reduced[axis] - 1) * walk.reduced_stride[t][axis]
        extent = max(extent, size)
    flat = walk.reduced[0] == 1 and walk.reduced[1] == 1 and extent < 1 << 31
    lanes = walk.kept[3] > 1 and (walk.reduced[3] == 1 or walk.kept_stride[0][3] < walk.reduced_stride[0][3])
    if flat and not lanes:
        vec = _vector(p, walk, tensors)
    if lanes:
        most = min(local, SIDE_BYTES // type_size(<int> p.x.type))
        while across < most and across < walk.kept[3]:
            across *= 2
        if elements < local // across:
            across = local
    elif elements < 2 * local:
        local = min(local, 64)
    # A work-item has 16 elements under way, so many that memory is never waited for twice.
    held = 8 if p.what == MX_BN_BACKWARD else 16
    held = max(vec, held)
    own = across                           # kept values of a group
    units = ceil_div(kept, own)
    if p.what == MX_BN_INFERENCE:
        parts = max(1, elements * own // (local * 2 * held))
        if lanes:  # their parameters are many numbers
            parts = max(1, min(parts, 16 * dev.compute_units // units))
    elif units >= dev.compute_units and elements * own <= WHOLE:
        parts = 1
        if units < 4 * dev.compute_units and elements * own >= 8192 and dev.max_work_group >= 512 and local == 256:
            local = 512
    else:
        # With channels last each group of the last pass gathers the parts of many kept values.
        parts = max(1, min((2 if lanes else 8) * dev.compute_units // units, elements * own // (local * 16)))
    defines = {"TX": across, "TY": local // across, "FLAT": 1 if flat else 0, "VEC": vec, "SETS": held // vec}
    if p.what == MX_BN_BACKWARD:
        defines["SAVE"] = p.save
        if elements // (parts * (local // across) * vec) > BLOCK_TERMS:
            defines["LONG_SUM"] = 1
    if extent < 1 << 31 and kept * elements < 1 << 30:
        defines["INDEX"] = "int"
    return _solution("layers/batchnorm_gpu.cl", p, walk, own, parts, defines, units * parts * local, local)


cdef int64_t _vector(const mx_batchnorm_problem* p, const bn_walk* walk, int tensors) noexcept:
    """Neighbours that a work-item of a GPU may read at once: 16 bytes, where every row is made of such."""
    cdef int64_t vec = 16 // type_size(<int> p.x.type)
    cdef int t, axis
    for t in range(tensors):
        if walk.reduced_stride[t][3] != 1:
            return 1
    while vec > 1:
        fits = walk.reduced[3] % vec == 0
        for t in range(tensors):
            fits = fits and walk.reduced_stride[t][2] % vec == 0
            for axis in range(4):
                fits = fits and (walk.kept[axis] == 1 or walk.kept_stride[t][axis] % vec == 0)
        if fits:
            return vec
        vec //= 2
    return 1


cdef class OpenCLBatchNorm(OpenCLLayer):
    """Every pass on OpenCL devices.

    One launch where enough channels can be computed side by side; else a launch for the statistics of each part, one
    that combines them and writes, and backward one for the gradients between them.  On GPUs channels that fit a group's
    registers are read once.
    """

    def __cinit__(self):
        self.id, self.name = 1251, "OpenCLBatchNorm"

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        return self.solution(dev, problem).workspace

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_batchnorm_problem* p = &(<BatchNormProblem> problem).c
        cdef bn_walk walk
        fill_walk(&walk, p)
        return _on_cpu(dev, p, &walk) if dev.is_cpu else _on_gpu(dev, p, &walk)
