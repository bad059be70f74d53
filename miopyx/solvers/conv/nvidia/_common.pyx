"""What the solvers for NVIDIA's tensor cores share: the problem as their kernels take it, and the sum of split-K."""

from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from miopyx._core cimport (
    ARG_SCALAR, ARG_SLOT, SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step, struct_arg,
)
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport ceil_div, gcd, up
from miopyx.values._types cimport MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor
from miopyx.solvers.conv._base cimport (
    IMPLICIT_GEMM, INT_LIMIT, MOST_TERMS, ConvOffer, ConvSolver, is_float8, result_type, set_offer, span, spatial_size,
    stride_of, sum_terms,
)
from miopyx.solvers._tokens cimport type_token

cdef enum:
    MOST_TAPS = 27         # of conv/nvidia/sum.cl, whose local memory holds them
    TURNED = 1 << 19       # weights from which on partial sums are turned in local memory
    SIDE_LIMIT = 4096      # of images, pads and filters: coordinates travel in 16 bits, but see refuse_sizes
    COLUMN_LIMIT = 32767   # of rows: more than 16 bits would be taken for a volume
    WORKSPACE = 256 << 20  # bytes that float32 takes at most where fewer images at once need less
    DRAWN_AT_ONCE = 4      # neighbours in a result of 8 bits that share a hash


# Offsets have 32 bits.  Overlapping strides make a span smaller than the number of pixels, and the last slice of a sum
# ends behind them.
cdef int64_t _most_elements = INT_LIMIT // 2, _most_workspace = WORKSPACE
# Elements of a result of 8 bits up to which its hash is of offset and seed alone: mx_random of include/common.h.
cdef int64_t MOST_DRAWN = <int64_t> 1 << 34
cdef str TOO_LARGE = "a tensor is too large for 32-bit offsets"
cdef str NO_ROOM = "workspace is beyond the limit"


def limit_elements(int64_t most=INT_LIMIT // 2):
    """Refuse larger tensors, or take them in runs of images; for tests, which have no such tensors."""
    global _most_elements
    _most_elements = most


def limit_workspace(int64_t most=WORKSPACE):
    """Take what needs more bytes of workspace in runs of images; for tests likewise."""
    global _most_workspace
    _most_workspace = most


cdef int64_t most_workspace() noexcept nogil:
    return _most_workspace


cdef mx_conv_problem images_of(const mx_conv_problem* p, int64_t images) noexcept nogil:
    cdef mx_conv_problem run = p[0]
    run.x.len[0] = run.y.len[0] = images
    return run


cdef int64_t _image_of_result(const mx_conv_problem* p) noexcept nogil:
    """Elements from an image of y to the next, of x where it is backward data."""
    return p.y.stride[0] if p.direction == MX_FORWARD else p.x.stride[0]


cdef class RunsOffer(ConvOffer):
    """A problem that the solver takes in equal runs of images, one after the other; the last one may be shorter."""

    cdef Solution steps(self, tuple config):
        cdef _NvSolver solver = <_NvSolver> self.solver
        cdef const mx_conv_problem* p = self.p
        cdef mx_conv_problem run
        cdef Step step
        cdef int64_t first
        steps = []
        for first in range(0, p.x.len[0], self.images):
            run = images_of(p, min(self.images, p.x.len[0] - first))
            for step in solver.steps_from(self.device, &run, config, first * _image_of_result(p)).steps:
                steps.append(self.at(step, first))
        return Solution(steps, self.workspace)

    cdef Step at(self, Step step, int64_t first):
        """Return a step of the run that begins with image `first`; those of weights add to what is there."""
        cdef const mx_conv_problem* p = self.p
        cdef Arg arg
        args = []
        for arg in step.args:
            if arg.kind == ARG_SLOT and arg.slot == SLOT_X:
                arg = arg.moved(SLOT_X, arg.offset + first * p.x.stride[0] * type_size(<int> p.x.type))
            elif arg.kind == ARG_SLOT and arg.slot == SLOT_Y:
                arg = arg.moved(SLOT_Y, arg.offset + first * p.y.stride[0] * type_size(<int> p.y.type))
            elif arg.kind == ARG_SCALAR and arg.slot == 1 and first > 0 and p.direction == MX_BACKWARD_WEIGHTS:
                arg = Arg.real(1, arg.width == 8)
            args.append(arg)
        return step.taking(step.spec, tuple(args), step.unmapped)

    cdef void cost_terms(self, double* terms) noexcept:
        cdef mx_conv_problem run = images_of(self.p, self.images)
        cdef int i
        (<_NvSolver> self.solver).cost_terms(self.device, &run, terms)
        for i in range(MOST_TERMS):
            terms[i] *= self.p.x.len[0] / <double> self.images


cdef class _NvSolver(ConvSolver):
    def __cinit__(self):
        self.algorithm = IMPLICIT_GEMM
        self.dynamic = self.deterministic = self.assembly = True

    cdef object consider(self, Device dev, ConvProblem problem):
        cdef str why = self.refuse(dev, &problem.c)
        cdef RunsOffer offer
        cdef mx_conv_problem run
        cdef int64_t images
        if why is None and not self.wants_much(dev, &problem.c):
            return ConvSolver.consider(self, dev, problem)
        if not (why is None or why is TOO_LARGE or why is NO_ROOM) or not self.takes_runs(&problem.c):
            return why
        images = self.run_of_images(dev, &problem.c)
        if images == 0:
            if why is None:
                return ConvSolver.consider(self, dev, problem)
            run = images_of(&problem.c, 1)
            return self.refuse(dev, &run) or why
        offer = self.new_runs()
        set_offer(offer, self, dev, problem)
        offer.images = images
        run = images_of(&problem.c, images)
        offer.index, offer.workspace = self.index(dev, &run), self.workspace_of_runs(dev, &problem.c, images)
        return offer

    cdef Solution steps_from(self, Device dev, const mx_conv_problem* p, tuple config, int64_t first):
        """Return `steps` of a run, whose result begins with element `first` of the whole tensor: random numbers belong
        to places there, so a solver whose results are of 8 bits says how."""
        if first != 0 and p.rounding != 0 and is_float8(result_type(p)):
            raise NotImplementedError(self.name)
        return self.steps(dev, p, config)

    cdef bint takes_runs(self, const mx_conv_problem* p) noexcept:
        """Whether runs can be added up: a sum of weights in 16 bits would be rounded, or overflow, after each."""
        return self.direction != MX_BACKWARD_WEIGHTS or p.w.type == MX_FLOAT

    cdef RunsOffer new_runs(self):
        return RunsOffer.__new__(RunsOffer)

    cdef int64_t workspace_of_runs(self, Device dev, const mx_conv_problem* p, int64_t images) except -1:
        """Bytes that runs of so many images need."""
        cdef mx_conv_problem run = images_of(p, images)
        cdef int64_t space = self.workspace_bytes(dev, &run)
        if p.x.len[0] % images:
            run = images_of(p, p.x.len[0] % images)
            space = max(space, self.workspace_bytes(dev, &run))
        return space

    cdef int64_t run_of_images(self, Device dev, const mx_conv_problem* p) except -1:
        """Return how many images of a problem that is too large, or wants much workspace, the solver takes at once.

        Equal runs, the last one may be shorter; 0 where there are none that help.
        """
        cdef int64_t images = p.x.len[0], taken = 0, space = INT64_MAX, unit = 1, less, rest
        cdef mx_conv_problem run = p[0]
        cdef str why = self.refuse(dev, p)
        cdef bint at_random = p.rounding != 0 and is_float8(result_type(p))
        if at_random and span(&p.y if p.direction == MX_FORWARD else &p.x) > MOST_DRAWN:
            return 0
        if at_random and _image_of_result(p) % DRAWN_AT_ONCE:
            unit = DRAWN_AT_ONCE
        if why is None:
            taken, space = images, self.workspace_bytes(dev, p)
        while images > 1 and (why is not None or self.saves_workspace(p) and space > _most_workspace):
            if up((images + 1) // 2, unit) >= images:
                break
            images = up((images + 1) // 2, unit)
            run = images_of(p, images)
            why = self.refuse(dev, &run)
            if why is None:
                less = self.workspace_of_runs(dev, p, images)
                if less > space // 4 * 3:
                    break  # weights or partial sums take the memory: runs would only take time
                taken, space = images, less
        if taken == 0 or taken == p.x.len[0]:
            return 0
        images = up(ceil_div(p.x.len[0], ceil_div(p.x.len[0], taken)), unit)
        rest = p.x.len[0] % images
        run = images_of(p, rest if rest else images)
        return images if self.refuse(dev, &run) is None else 0

    cdef bint saves_workspace(self, const mx_conv_problem* p) noexcept:
        """Whether runs should be so short that their workspace is small.  16 bits take what cuDNN does."""
        return p.w.type == MX_FLOAT

    cdef bint wants_much(self, Device dev, const mx_conv_problem* p) except -1:
        """Whether a problem should be taken in runs for its workspace."""
        return self.saves_workspace(p) and p.x.len[0] > 1 and self.workspace_bytes(dev, p) > _most_workspace

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        """In 16 bits one accumulator takes all steps; float32 adds up sums of slices of at least STEP terms."""
        cdef double steps, parts = 0, terms = sum_terms(p)
        if p.direction == MX_BACKWARD_WEIGHTS:
            # Parts are added up in eight shares; there are more than fill the device only where sums are LONGEST.
            steps = min(terms, <double> LONGEST) / STEP + 1
            parts = min(max(16.0 * max(1, dev.compute_units), terms / LONGEST), terms / STEP) / 8 + 8
        else:
            steps = spatial_size(&p.w) * up(<int64_t> (terms / spatial_size(&p.w)), STEP) // STEP
        return (SPLIT + steps if p.w.type == MX_FLOAT else CUT * steps) + parts


cdef mx_divisor divisor(int64_t d) noexcept nogil:
    """What mx_quotient takes for d >= 1: exact for numerators below 2^31."""
    cdef mx_divisor by
    d = max(d, 1)
    by.shift = 0
    while (<int64_t> 1 << by.shift) < d:
        by.shift += 1
    by.magic = <unsigned int> (((<int64_t> 1 << (31 + by.shift)) + d - 1) // d)
    return by


cdef void set_grid(mx_nv_conv* g, int64_t images, int64_t p, int64_t q) noexcept nogil:
    """The pixels of the grid: `images` times p rows of q."""
    g.p, g.q = <int> p, <int> q
    g.pixels = <int> (images * p * q)
    g.by_image, g.by_row = divisor(p * q), divisor(q)


cdef int deep(int64_t depth, int64_t rows) noexcept nogil:
    """What a member of mx_nv_volume.conv holds."""
    return <int> (depth * 0x10000 | rows & 0xffff)


cdef mx_nv_volume volume(const mx_nv_conv* g, const mx_tensor* x, const mx_tensor* y) noexcept nogil:
    """What backward weights of a volume take, whose x and dy are read as they lie, or as copies of theirs."""
    cdef mx_nv_volume v
    v.conv, v.by_plane, v.w_d = g[0], divisor(g.p & 0xffff), 0
    v.x_d, v.y_d = g.x_h * <int> plane_rows(x), g.y_h * <int> plane_rows(y)
    return v


cdef int64_t both(int64_t member) noexcept nogil:
    """The rows or taps of a plane, or of all planes."""
    return member if member >> 16 == 0 else (member >> 16) * (member & 0xffff)


cdef bint is_volume(const mx_conv_problem* p) noexcept nogil:
    return p.x.len[2] != 1 or p.w.len[2] != 1 or p.y.len[2] != 1 or p.pad[0] != 0


cdef int64_t plane_rows(const mx_tensor* t) noexcept nogil:
    """Of a tensor of `folded`."""
    return t.len[3] // t.len[2]


cdef bint _single(const mx_conv_problem* p, int axis) noexcept nogil:
    """Whether the filter has one tap along an axis, and meets each pixel once."""
    return (p.w.len[2 + axis] == 1 and p.step[axis] == 1 and p.pad[axis] == 0
            and p.x.len[2 + axis] == p.y.len[2 + axis])


cdef bint _planes_are_images(const mx_tensor* t) noexcept nogil:
    return t.len[0] == 1 or t.len[2] == 1 or t.stride[0] == t.len[2] * t.stride[2]


cdef bint planes_follow(const mx_tensor* t) noexcept nogil:
    """Whether rows are equally far from each other through all planes."""
    return t.len[2] == 1 or t.len[3] == 1 or t.stride[2] == t.len[3] * t.stride[3]


cdef mx_conv_problem folded(const mx_conv_problem* p) noexcept nogil:
    """The problem with the planes of a volume below each other: rows are counted through all of them.

    Where the filter is flat, planes are images, or the rows of one, and the problem has two axes.  What is a volume
    still keeps the lengths along its depth.
    """
    cdef mx_conv_problem o = p[0]
    cdef mx_tensor* t
    cdef int i
    if p.spatial != 3:
        return o
    o.spatial = 2
    cdef bint rows = (_single(p, 0) and _single(p, 1) and planes_follow(&p.x) and planes_follow(&p.y)
                      and p.x.len[2] * p.x.len[3] <= SIDE_LIMIT)
    cdef bint images = _single(p, 0) and _planes_are_images(&p.x) and _planes_are_images(&p.y) and not rows
    for i in range(3):
        t = &o.x if i == 0 else &o.w if i == 1 else &o.y
        if images:
            if i != 1 and t.len[2] > 1:
                t.stride[0] = t.stride[2]
                t.len[0] *= t.len[2]
            t.len[2] = 1
            continue
        if t.len[3] == 1:
            t.stride[3] = t.stride[2]
        t.len[3] *= t.len[2]
        if rows:
            t.len[2] = 1
    if not is_volume(&o):
        o.step[0] = 1
    return o


cdef bint divides(int64_t vector, const mx_nv_conv* g, bint last) noexcept nogil:
    """Whether runs of `vector` elements of y, along its channels or its pixels, stay whole and equally aligned."""
    if (g.y_first | g.y_g | g.y_n) % vector:
        return False
    cdef int64_t rows = both(g.p)
    if last:
        return g.y_c == 1 and (g.filters | g.y_h | g.y_w) % vector == 0
    return (g.y_w == 1 or rows * g.q == 1) and (g.y_h == g.q or rows == 1) and (g.y_c | rows * g.q) % vector == 0


cdef void set_taps(mx_nv_conv* g, const mx_conv_problem* p) noexcept nogil:
    """The pixels of p.y, and the taps of each in p.x, in two axes or of a volume that is folded."""
    set_grid(g, p.y.len[0], p.y.len[3], p.y.len[4])
    g.taps_h, g.taps_w = <int> p.w.len[3], <int> p.w.len[4]
    g.step_h, g.step_w, g.tap_h, g.tap_w = <int> p.step[1], <int> p.step[2], <int> p.dilation[1], <int> p.dilation[2]
    g.first_h, g.first_w = -<int> p.pad[1], -<int> p.pad[2]
    if is_volume(p):
        g.p, g.h = deep(p.y.len[2], plane_rows(&p.y)), deep(p.x.len[2], plane_rows(&p.x))
        g.taps_h, g.tap_h = deep(p.w.len[2], plane_rows(&p.w)), deep(p.dilation[0], p.dilation[1])
        g.step_h, g.first_h = deep(p.step[0], p.step[1]), deep(-p.pad[0], -p.pad[1])


cdef void set_x(mx_nv_conv* g, const mx_tensor* x, int64_t channels, int64_t packed) noexcept nogil:
    """x, or its copy with `packed` of a group's `channels` contiguous where that is not zero."""
    g.h, g.w = <int> x.len[3], <int> x.len[4]
    if packed:
        g.x_c, g.x_g = 1, <int> packed
        g.x_w = g.groups * g.x_g
        g.x_h = g.x_w * g.w
        g.x_n = g.x_h * <int> x.len[3]
    else:
        g.x_n, g.x_c, g.x_h, g.x_w = (
            <int> stride_of(x, 0), <int> stride_of(x, 1), <int> stride_of(x, 3), <int> stride_of(x, 4))
        g.x_g = <int> (channels * x.stride[1]) if g.groups > 1 else 0


cdef void set_y(mx_nv_conv* g, const mx_tensor* y, int64_t filters) noexcept nogil:
    g.y_n, g.y_c, g.y_h, g.y_w = (
        <int> stride_of(y, 0), <int> stride_of(y, 1), <int> stride_of(y, 3), <int> stride_of(y, 4))
    g.y_g = <int> (filters * y.stride[1]) if g.groups > 1 else 0


cdef void set_packed_w(mx_nv_conv* g, int64_t reduced, int64_t taps_h, int64_t taps_w) noexcept nogil:
    g.w_w = <int> reduced
    g.w_h = g.w_w * <int> taps_w
    g.w_k = g.w_h * <int> taps_h
    g.w_g = g.w_k * g.filters


cdef void set_phase(mx_nv_conv* g, const mx_conv_problem* p, int64_t o, int64_t a, int64_t b) noexcept nogil:
    """The pixels of dx of phase (o, a, b) of the stride, and the taps of each in dy; g has w's strides as they are."""
    cdef taps_t td = taps_of(p, 0, o), th = taps_of(p, 1, a), tw = taps_of(p, 2, b)
    cdef int64_t planes = (p.x.len[2] - o + p.step[0] - 1) // p.step[0]
    cdef int64_t rows = (plane_rows(&p.x) - a + p.step[1] - 1) // p.step[1]
    cdef int w_d = g.w_h * <int> plane_rows(&p.w)
    set_grid(g, p.x.len[0], planes * rows, (p.x.len[4] - b + p.step[2] - 1) // p.step[2])
    g.step_h = g.step_w = 1
    g.taps_h, g.taps_w = <int> th.count, <int> tw.count
    if th.count == 0 or tw.count == 0:
        g.taps_h = g.taps_w = 0
    g.first_h, g.first_w, g.tap_h, g.tap_w = <int> th.start, <int> tw.start, <int> th.move, <int> tw.move
    if is_volume(p):
        g.p, g.h = deep(planes, rows), deep(p.y.len[2], plane_rows(&p.y))
        g.taps_h = deep(td.count, th.count) if td.count * th.count * tw.count else 0
        g.step_h, g.first_h, g.tap_h = deep(1, 1), deep(td.start, th.start), deep(td.move, th.move)
        if g.taps_h == 0:
            g.taps_w = 0
    g.w_first = <int> td.first * w_d + <int> th.first * g.w_h + <int> tw.first * g.w_w
    g.w_h, g.w_w = <int> th.every * g.w_h, <int> tw.every * g.w_w


cdef taps_t taps_of(const mx_conv_problem* p, int axis, int64_t phase) noexcept nogil:
    cdef taps_t t
    cdef int64_t step = p.step[axis], dilation = p.dilation[axis], tap
    cdef int64_t taps = plane_rows(&p.w) if axis == 1 and p.spatial < 3 else p.w.len[2 + axis]
    memset(&t, 0, sizeof(t))
    t.every = step // gcd(step, dilation)
    t.move = -(dilation * t.every // step)
    for tap in range(min(t.every, taps)):
        if (phase + p.pad[axis] - tap * dilation) % step == 0:
            t.first = tap
            t.count = (taps - tap + t.every - 1) // t.every
            t.start = (phase + p.pad[axis] - tap * dilation) // step
            break
    return t


cdef int64_t weight_count(const mx_conv_problem* p) noexcept nogil:
    return p.w.len[0] * p.w.len[1] * p.w.len[3] * p.w.len[4]


cdef Step sum_partial(const mx_conv_problem* p, int64_t splits, int64_t offset, int64_t pitch, int64_t c, int64_t tap):
    """Add the partial sums at byte `offset` of the workspace: rows of `pitch` elements, strides `c` and `tap`."""
    cdef int64_t shares = 8 if splits > 16 else 4 if splits > 8 else 1, width = 256 // shares
    cdef int64_t taps = p.w.len[3] * p.w.len[4]
    cdef mx_nv_sum g
    g.rows, g.channels, g.taps_h, g.taps_w = (
        <int> p.w.len[0], <int> p.w.len[1], <int> p.w.len[3], <int> p.w.len[4])
    g.splits, g.pitch, g.partial_c, g.partial_tap = <int> splits, <int> pitch, <int> c, <int> tap
    g.w_k, g.w_c, g.w_h, g.w_w = (
        <int> stride_of(&p.w, 0), <int> stride_of(&p.w, 1), <int> stride_of(&p.w, 3), <int> stride_of(&p.w, 4))
    args = (Arg.slot_of(SLOT_WORKSPACE, 4, offset), Arg.slot_of(SLOT_W, 4 if p.w.type == MX_FLOAT else 2),
            struct_arg(&g, sizeof(g)), Arg.alpha(False), Arg.beta(False))
    # Few splits of large weights are bound by the stores; small ones by what is under way at once.
    if (c == 1 and 1 < taps <= MOST_TAPS and p.w.stride[4] < p.w.stride[1] and shares == 1
            and weight_count(p) >= TURNED):
        return Step(KernelSpec("conv/nvidia/sum.cl", "sum_partial_turned", X_TYPE=type_token(p.w.type)), args,
                    (p.w.len[0] * ceil_div(p.w.len[1], 64) * 256,), (256,))
    return Step(KernelSpec("conv/nvidia/sum.cl", "sum_partial", X_TYPE=type_token(p.w.type), SHARES=shares), args,
                (ceil_div(weight_count(p), width) * 256,), (256,))


cdef dict channels_last_options(const mx_conv_problem* p):
    """Which of x and dy have channels last, for kernels that read them one channel, or one pixel, after the other."""
    return {"X_LAST": int(p.x.stride[1] == 1 and p.x.stride[4] != 1),
            "Y_LAST": int(p.y.stride[1] == 1 and p.y.stride[4] != 1)}


cdef bint tensor_cores(Device dev):
    """mma.sync on tf32 and bfloat16, cp.async: compute capability 8.0 and up, from NVIDIA's own compiler."""
    info = dev.info
    return (dev.is_gpu and info.runtime == "nvidia" and "cl_nv_device_attribute_query" in info.extensions
            and info.isa[2:].isdigit() and int(info.isa[2:]) >= 80)


cdef bint has_wgmma(Device dev):
    """wgmma, which later generations do not have."""
    return dev.info.isa[2:] == "90"


cdef dict may_begin_early(Device dev):
    """For a kernel that has MX_WAIT_FOR_LAST; it begins early behind one with MX_LET_NEXT_BEGIN, else as groups end."""
    return {"DEPENDENT": 1} if dev.info.cuda >= 0 and has_wgmma(dev) else {}


cdef str refuse_sizes(const mx_conv_problem* p, int64_t copied, bint volumes=False, bint long_rows=False):
    """Why the kernels' coordinates and offsets cannot hold a problem's, or `copied` elements, or None.

    `long_rows`: coordinates along the last axis have 32 bits, and those along the other one of two 15.
    """
    cdef int64_t[3] longest = [SIDE_LIMIT, SIDE_LIMIT, SIDE_LIMIT]
    cdef int i
    if long_rows:
        longest[1], longest[2] = SIDE_LIMIT if p.spatial > 2 else COLUMN_LIMIT, INT_LIMIT
    if p.spatial > 2 and not volumes:
        return "three spatial axes"
    if not (planes_follow(&p.x) and planes_follow(&p.w) and planes_follow(&p.y)):
        return "gaps between the planes"
    for i in range(3):
        if (max(p.x.len[2 + i], p.y.len[2 + i]) > longest[i]
                or max(p.pad[i], p.step[i], (p.w.len[2 + i] - 1) * p.dilation[i]) > SIDE_LIMIT):
            return "an axis is too long"
    if p.direction != MX_BACKWARD_WEIGHTS and p.w.type != MX_INT8 and sum_terms(p) > LONGEST:
        return "a long sum"
    if (max(span(&p.x), span(&p.w), span(&p.y), copied) >= _most_elements
            or (p.direction == MX_BACKWARD_WEIGHTS and p.y.len[0] * spatial_size(&p.y) > _most_elements // 2)):
        return TOO_LARGE
    return None
