"""Pooling on the host path and as kernels."""

from libc.stdint cimport int64_t

from miopyx._core cimport BLOCK_TERMS, Arg, Device, KernelSpec, Problem, Solution, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.host._pooling cimport host_pooling
from miopyx.values._types cimport (
    MX_AXES, MX_DOUBLE, MX_FLOAT, MX_HALF, MX_POOLING_FORWARD, MX_SPATIAL, mx_pooling_problem, mx_pooling_asked,
    mx_tensor,
)
from miopyx.problem._pooling cimport (
    INDEX_IMAGE, POOL_AVERAGE, POOL_IN, POOL_INCLUSIVE, POOL_INDICES, POOL_MAX, POOL_OUT, PoolingProblem, index_size,
)
from ._common cimport TOKENS, ceil_div

cdef enum:
    SMALL = 1 << 29          # what kernels count in 32 bits stays below it
    MOST_TAPS = 5            # along an axis of a window that a GPU's strips take
    STRIP = 4                # rows of such a strip
    GROUP = 256              # work-items of a work-group, or half as many where one waits for memory
    SPAN = 8                 # of them side by side, with neighbouring channels
    TILE = 16                # of them along w, at most
    RING = 4                 # windows along h around an element, for pooling_backward_turned
    LONGEST = 128            # elements of its rows
    SHORT = 1 << 14          # 16 bits hold such numbers and what is added to them
    SHEET = 8                # vectors of channels of pooling_..._sheets


cdef int64_t volume(const mx_tensor* t, int first, int last) noexcept:
    cdef int64_t product = 1
    cdef int i
    for i in range(first, last):
        product *= t.len[i]
    return product


cdef bint contiguous(const mx_tensor* t, int axis) noexcept:
    return t.len[axis] == 1 or t.stride[axis] == 1


cdef const mx_tensor* target(const mx_pooling_problem* p) noexcept:
    """The tensor that is written."""
    return &p.y if p.what == MX_POOLING_FORWARD else &p.x


cdef bint is_small(const mx_pooling_problem* p) noexcept:
    """Whether positions along an axis, places in an image and numbers of rows fit 32 bits with room to spare."""
    cdef int i
    for i in range(MX_SPATIAL):
        if p.window[i] >= SMALL // 16 or p.step[i] >= SMALL // 64:
            return False
    return volume(&p.x, 2, MX_AXES) < SMALL and volume(&p.x, 0, 4) < SMALL and volume(&p.y, 0, 4) < SMALL


cdef bint is_whole(const mx_pooling_problem* p) noexcept:
    """Whether one window covers each plane of x."""
    cdef int i
    for i in range(2, MX_AXES):
        if p.y.len[i] != 1 or p.window[i - 2] - p.pad[i - 2] < p.x.len[i]:
            return False
    return True


cdef bint is_plain(const mx_tensor* t) noexcept:
    """Whether planes are contiguous."""
    cdef int64_t step = 1
    cdef int i
    for i in range(MX_AXES - 1, 1, -1):
        if t.len[i] > 1 and t.stride[i] != step:
            return False
        step *= t.len[i]
    return True


cdef bint is_plane(const mx_pooling_problem* p) noexcept:
    """Whether one window covers each plane of x, which is contiguous."""
    return is_whole(p) and is_plain(&p.x)


cdef bint is_flat(const mx_pooling_problem* p) noexcept:
    """Whether planes of x and y are contiguous and differ by a window around each element at most in their heights."""
    cdef int64_t width = p.x.len[4]
    return (p.window[0] == 1 and p.x.len[2] == 1 and p.step[1] == 1 and p.step[2] == 1 and p.y.len[4] == width
            and (p.window[2] == 3 or p.window[2] == 5) and p.pad[2] == p.window[2] // 2
            and (p.x.len[3] == 1 or p.x.stride[3] == width) and (p.y.len[3] == 1 or p.y.stride[3] == width)
            and contiguous(&p.x, 4) and contiguous(&p.y, 4)
            and (p.what == MX_POOLING_FORWARD or p.mode != POOL_AVERAGE))


cdef bint is_scatter(const mx_pooling_problem* p, int64_t least) noexcept:
    """Whether planes of dx are contiguous and enough to share out, sums may be kept in their type, and a table says
    where indices point."""
    return (p.what != MX_POOLING_FORWARD and p.save and (p.x.type == MX_FLOAT or p.x.type == MX_DOUBLE)
            and is_plain(&p.x) and contiguous(&p.y, 4) and volume(&p.x, 0, 2) >= least
            and p.index_mode != INDEX_IMAGE and p.window[0] * p.window[1] * p.window[2] < 256)


cdef bint is_strip(const mx_pooling_problem* p) noexcept:
    """Whether the problem is 2-D and its windows are small."""
    return (p.window[0] == 1 and p.x.len[2] == 1 and p.y.len[2] == 1 and p.window[1] <= MOST_TAPS
            and p.window[2] <= MOST_TAPS and p.step[1] <= STRIP and p.step[2] <= STRIP)


cdef bint is_pairs(const mx_pooling_problem* p) noexcept:
    """Whether rows 2 j and 2 j + 1 of dx meet windows j and j + 1 alone, and columns likewise."""
    cdef int i
    for i in range(1, 3):
        if p.window[i] != 3 or p.pad[i] != 1 or p.step[i] != 2 or 2 * p.y.len[2 + i] < p.x.len[2 + i]:
            return False
    return (p.what != MX_POOLING_FORWARD and p.save and p.window[0] == 1 and p.x.len[2] == 1 and is_plain(&p.x)
            and contiguous(&p.y, 4) and p.y.stride[3] < SMALL)


cdef bint is_turned(const mx_pooling_problem* p) noexcept:
    """Whether channels run fastest and their indices of 8 bits, in which they run slowest, are turned once for all
    elements that ask for them."""
    return (p.what != MX_POOLING_FORWARD and p.save and index_size(<int> p.index_type) == 1 and p.x.type != MX_DOUBLE
            and p.x.len[1] >= 16 and p.x.len[2] == 1 and p.window[0] == 1 and (p.window[2] == 2 or p.window[2] == 3)
            and p.step[2] <= 2 and p.window[1] <= RING and p.y.len[4] <= LONGEST)


cdef int64_t extent(const mx_tensor* t) noexcept:
    """Elements from the first one to the last one."""
    cdef int64_t last = 1
    cdef int i
    for i in range(MX_AXES):
        last += (t.len[i] - 1) * t.stride[i]
    return last


cdef bint is_paired(const mx_tensor* t) noexcept:
    """Whether neighbours along w are neighbours in memory, and pairs of them begin at even places."""
    cdef int i
    if t.stride[4] != 1:
        return False
    for i in range(MX_AXES - 1):
        if t.len[i] > 1 and t.stride[i] % 2:
            return False
    return True


cdef int64_t overhang(const mx_pooling_problem* p, int axis) noexcept:
    """Positions of the last window along an axis, 0 ... 2, behind the image; negative where it ends before that."""
    return ((p.y.len[2 + axis] - 1) * p.step[axis] - p.pad[axis] + (p.window[axis] - 1) * p.dilation[axis] + 1
            - p.x.len[2 + axis])


cdef bint is_inside(const mx_pooling_problem* p) noexcept:
    """Whether every window lies in the image."""
    cdef int axis
    for axis in range(MX_SPATIAL):
        if p.pad[axis] != 0 or overhang(p, axis) > 0:
            return False
    return True


cdef bint is_special(const mx_pooling_problem* p) noexcept:
    """Whether windows have gaps, averages a divisor of their own, or inclusive ones windows that reach behind the
    pads."""
    cdef int axis
    if p.divisor != 0:
        return True
    for axis in range(MX_SPATIAL):
        if p.dilation[axis] != 1 or (p.mode == POOL_INCLUSIVE and overhang(p, axis) > p.end[axis]):
            return True
    return False


cdef bint _has_order(const mx_pooling_problem* p, str kind) noexcept:
    """Whether maxima of 16 bits may be found among integers of 16 bits, which count columns and places, too."""
    if p.save and p.index_mode == INDEX_IMAGE:
        return False
    if p.window[0] * p.window[1] * p.window[2] > SHORT or p.step[2] > 64:
        return False
    if kind == "rows":
        # Every second one of bfloat16 is a float by a shift or a mask, without a shuffle.
        return p.x.len[4] + p.pad[2] < SHORT and (p.x.type == MX_HALF or p.step[2] != 2)
    if kind == "flat" or kind == "planes":
        return volume(&p.x, 2, MX_AXES) + p.window[1] * p.x.len[4] < SHORT
    return kind == "channels" or kind == "sheets"


cdef tuple _slots_and_shape(const mx_pooling_problem* p, int64_t block):
    cdef int width = type_size(<int> p.x.type)
    cdef list args = [Arg.slot_of(POOL_IN, width), Arg.slot_of(POOL_OUT, width)]
    if p.save:
        args.append(Arg.slot_of(POOL_INDICES, <int> index_size(<int> p.index_type)))
    args += [struct_arg(p, sizeof(mx_pooling_problem)), Arg.int64(block)]
    return tuple(args)


cdef int64_t _pack(const mx_pooling_problem* p) noexcept:
    """Channels of x and y that a work-item of a GPU may take at once: 16 bytes, where both are made of such vectors."""
    cdef int64_t pack = 16 // type_size(<int> p.x.type)
    cdef int axis
    if p.x.len[1] < 2 or p.x.stride[1] != 1 or p.y.stride[1] != 1:
        return 1
    while pack > 1:
        fits = p.x.len[1] % pack == 0
        for axis in range(MX_AXES):
            if axis != 1:
                fits = fits and (p.x.len[axis] == 1 or p.x.stride[axis] % pack == 0)
                fits = fits and (p.y.len[axis] == 1 or p.y.stride[axis] % pack == 0)
        if fits:
            return pack
        pack //= 2
    return 1


cdef int64_t _wide(const mx_pooling_problem* p) noexcept:
    """Neighbours along w of x that a work-item of a GPU may take at once: 16 bytes, or fewer, whose windows begin in
    them and nowhere else, where every row is made of such vectors."""
    cdef int64_t pack = 16 // type_size(<int> p.x.type)
    cdef int axis
    if (p.x.stride[4] != 1 or p.y.stride[4] != 1 or p.step[2] > 2 or p.y.len[4] * p.step[2] != p.x.len[4]
            or p.x.type == MX_DOUBLE):
        return 1
    if p.step[2] == 1:  # registers for more there are not
        pack = 4
    while pack > 1:
        fits = p.x.len[4] % pack == 0
        for axis in range(4):
            fits = fits and (p.x.len[axis] == 1 or p.x.stride[axis] % pack == 0)
            fits = fits and (p.y.len[axis] == 1 or p.y.stride[axis] % (pack // p.step[2]) == 0)
        if fits:
            return pack
        pack //= 2
    return 1


cdef int64_t _windows(const mx_pooling_problem* p, int axis, int64_t blocks, int64_t along) noexcept nogil:
    """Windows along an axis that meet `blocks` blocks of `along` elements of dx."""
    cdef int64_t step = p.step[axis], pad = p.pad[axis]
    return (blocks - 1) * (along // step) + (along - 1 + pad) // step + max(0, p.window[axis] - 1 - pad) // step + 1


cdef int64_t _terms(const mx_pooling_problem* p) noexcept nogil:
    """Terms of an element's sum at most: a window's elements, or the windows that an element of x is in."""
    cdef int64_t terms = 1
    cdef int axis
    for axis in range(3):
        if p.what == MX_POOLING_FORWARD:
            terms *= min(p.window[axis], p.x.len[2 + axis])
        elif p.dilation[axis] > 1:
            terms *= min(p.window[axis], p.y.len[2 + axis])
        else:
            terms *= min(ceil_div(p.window[axis], p.step[axis]), p.y.len[2 + axis])
    return 0 if p.what == MX_POOLING_FORWARD and p.mode == POOL_MAX else terms


cdef Solution _on_gpu(Device dev, const mx_pooling_asked* asked, dict defines):
    """Strips of neighbours where windows are small; whole planes that share one number; else element by element."""
    cdef const mx_pooling_problem* p = &asked.shape
    cdef bint forward = p.what == MX_POOLING_FORWARD
    cdef const mx_tensor* out = target(p)
    cdef int64_t items = volume(out, 0, MX_AXES), pack = _pack(p), local = min(GROUP, dev.max_work_group)
    cdef bint small = is_small(p) and extent(&p.x) < 2 * SMALL and extent(&p.y) < 2 * SMALL
    cdef str kind = "elements"
    if small and pack > 1 and is_whole(p) and not p.save and (forward or p.mode != POOL_MAX) and local == GROUP:
        kind, items = _whole(p, defines, pack)
    elif _terms(p) > BLOCK_TERMS and not (not forward and is_plane(p)):
        defines["LONG_SUM"] = 1
    elif small and is_strip(p):
        defines.update(WINDOW=p.window[2], WINDOW_H=p.window[1], STEP_H=p.step[1], STEP_W=p.step[2],
                       LAST=1 if out.len[1] > 1 and out.stride[1] < out.stride[4] else 0)
        kind, items, local = (_forward_strips if forward else _backward_strips)(dev, asked, defines, pack)
    elif (small and not forward and p.mode != POOL_MAX and is_plane(p) and volume(out, 2, MX_AXES) >= 4
            and (out.len[1] == 1 or out.stride[1] == volume(out, 2, MX_AXES))
            and (out.len[0] == 1 or out.stride[0] == volume(out, 1, MX_AXES))):
        kind, items = "spread", (items + 3) // 4
    file = f"layers/pooling_gpu_{'whole' if kind == 'spread' else kind}.cl"
    kind = ("forward_" if forward else "backward_") + kind
    defines.update(KIND=kind, INDEX="int" if small else "long")
    spec = KernelSpec(file, f"pooling_{kind}", **defines)
    return Solution([Step(spec, _slots_and_shape(p, 1), (ceil_div(items, local) * local,), (local,))])


cdef tuple _whole(const mx_pooling_problem* p, dict defines, int64_t pack):
    cdef int64_t span = SPAN
    while span < 32 and span * pack < p.x.len[1]:
        span *= 2
    defines.update(PACK=pack, SPAN=span, DEEP=GROUP // span)
    if p.what == MX_POOLING_FORWARD:
        if _terms(p) > BLOCK_TERMS * (GROUP // span):
            defines["LONG_SUM"] = 1
        return "whole", p.x.len[0] * ceil_div(p.x.len[1], pack * span) * GROUP
    return "whole", volume(&p.x, 0, MX_AXES) // pack


cdef tuple _forward_strips(Device dev, const mx_pooling_asked* asked, dict defines, int64_t pack):
    cdef const mx_pooling_problem* p = &asked.shape
    cdef int64_t planes = volume(&p.y, 0, 3), height = p.y.len[3], width = p.y.len[4], rows = STRIP, columns = 1
    cdef int64_t wide = _wide(p), local = min(GROUP, dev.max_work_group), span = SPAN, tile_h, tile_w
    if height <= 2:
        rows = height
    if wide // p.step[2] > 1:
        if p.save and p.step[2] == 2 and type_size(<int> p.x.type) == 2:
            rows = min(rows, 2)
        defines.update(PACK=wide, PAD_W=p.pad[2], ROWS=rows)
        return "wide", planes * ceil_div(height, rows) * (p.x.len[4] // wide), local
    if pack > 1 and not p.save:
        defines.update(PACK=pack, ROWS=rows, COLUMNS=columns)
        return "lanes", planes // pack * ceil_div(height, rows) * width, local
    if (pack > 1 and local == GROUP and index_size(<int> p.index_type) == 1 and p.index_mode != INDEX_IMAGE
            and not asked.nan and not asked.like_y):
        local = GROUP // 2  # one writes its indices while another one computes
        if type_size(<int> p.x.type) == 2:
            pack, columns = min(pack, 4), 2
            if p.step[1] > 1:
                rows = min(rows, 2)
        tile_w = _tile_width(local // span, columns, width)
        tile_h = local // span // tile_w
        if tile_h * rows * tile_w * columns * (span * pack + 8) <= dev.local_mem:
            defines.update(PACK=pack, ROWS=rows, COLUMNS=columns, SPAN=span, TILE_H=tile_h, TILE_W=tile_w,
                           RUN=_run(width))
            return "lanes", (p.x.len[0] * ceil_div(p.y.len[1], pack * span) * local * ceil_div(height, tile_h * rows)
                             * ceil_div(width, tile_w * columns)), local
    defines["ROWS"] = rows
    return "strips", planes * ceil_div(height, rows) * width, local


cdef tuple _backward_strips(Device dev, const mx_pooling_asked* asked, dict defines, int64_t pack):
    cdef const mx_pooling_problem* p = &asked.shape
    cdef int64_t planes = volume(&p.x, 0, 3), height = p.x.len[3], width = p.x.len[4], span = SPAN
    # Blocks begin where a window would without pads.
    cdef int64_t rows = ceil_div(STRIP, p.step[1]) * p.step[1], columns = max(2, p.step[2])
    cdef int64_t local = min(GROUP, dev.max_work_group), group, tile_h, tile_w, held, wide
    cdef bint of_bytes = p.save and index_size(<int> p.index_type) == 1 and not asked.like_y
    defines.update(PAD_H=p.pad[1], PAD_W=p.pad[2])
    if pack > 1 and local == GROUP and (of_bytes or not p.save):
        group = GROUP // 2  # one has its indices while another one computes
        if p.step[1] == 1 and p.step[2] == 1:  # many windows meet an element
            group = GROUP
            if pack == 8:
                pack, span = 4, 2 * SPAN
            else:
                columns = 1
        tile_w = _tile_width(group // span, columns, width)
        tile_h = group // span // tile_w
        held = 0
        if p.save:  # in rows of whole words
            held = _windows(p, 1, tile_h, rows) * (_windows(p, 2, tile_w, columns) + 6) * (span * pack + 8)
        if held <= dev.local_mem:
            defines.update(PACK=pack, SPAN=span, TILE_H=tile_h, TILE_W=tile_w, ROWS=rows, COLUMNS=columns,
                           RUN=_run(p.y.len[4]))
            return "lanes", (p.x.len[0] * ceil_div(p.x.len[1], pack * span) * group * ceil_div(height, tile_h * rows)
                             * ceil_div(width, tile_w * columns)), group
    if of_bytes and p.index_mode != INDEX_IMAGE:
        wide = _wide(p)
        if wide // p.step[2] > 1:
            if p.step[1] == 1 and height % rows != 0 and height % 7 == 0:  # as of 14 x 14: none is left idle
                rows = 7
            defines.update(PACK=wide, ROWS=rows, COLUMNS=wide)
            return "wide", planes * ceil_div(height, rows) * (width // wide), local
    columns = max(2, p.step[2])
    defines.update(ROWS=rows, COLUMNS=columns, PAIRED=1 if is_paired(&p.x) else 0)
    return "strips", planes * ceil_div(height, rows) * ceil_div(width, columns), local


cdef int64_t _tile_width(int64_t blocks, int64_t columns, int64_t width) noexcept:
    """Blocks side by side of a tile."""
    cdef int64_t tile = 4
    while tile < min(TILE, blocks) and tile * columns < width:
        tile *= 2
    return tile


cdef int _run(int64_t width) noexcept:
    """Indices that are read or written at once, of rows of `width`."""
    return 4 if width % 4 == 0 else 2 if width % 2 == 0 else 1


cdef class HostPooling(HostLayer):
    """Either direction on the host path."""

    def __cinit__(self):
        self.id, self.name, self.function = 1212, "HostPooling", host_pooling


cdef class OpenCLPooling(OpenCLLayer):
    """Either direction on OpenCL devices.

    On CPUs by vectors along w or c, over whole planes, or by adding where indices say; on GPUs by strips of elements,
    or over whole planes; what these do not serve, and images beyond 2^29 elements, element by element.  So are dilated
    windows, divisors of the caller's and averages that count a part of the pads.
    """

    def __cinit__(self):
        self.id, self.name = 1211, "OpenCLPooling"

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        cdef const mx_pooling_asked* asked = &(<PoolingProblem> problem).c
        cdef const mx_pooling_problem* p = &asked.shape
        cdef bint forward = p.what == MX_POOLING_FORWARD
        cdef const mx_tensor* out = target(p)
        cdef int64_t items = volume(out, 0, MX_AXES), local = 1, block = 1, groups
        cdef int64_t terms = _terms(p)
        cdef int width = type_size(<int> p.x.type), lanes
        cdef str kind
        cdef dict defines = {"TYPE": TOKENS[p.x.type], "ACC": "double" if p.x.type == MX_DOUBLE else "float"}
        # Where every window lies in the image the two averages are one.
        defines["MODE"] = POOL_INCLUSIVE if p.mode == POOL_AVERAGE and is_inside(p) else p.mode
        if p.save:
            defines.update(SAVE=1, INDEX_BITS=8 * index_size(<int> p.index_type),
                           IMAGE=1 if p.index_mode == INDEX_IMAGE else 0)
        if asked.nan:
            defines["PROPAGATE"] = 1
        if asked.like_y:
            defines["LIKE_Y"] = 1
        if is_special(p):
            if terms > BLOCK_TERMS:
                defines["LONG_SUM"] = 1
            local = min(256, dev.max_work_group)
            spec = KernelSpec("layers/pooling_special.cl", f"pooling_{'forward' if forward else 'backward'}_special",
                              **defines)
            return Solution([Step(spec, _slots_and_shape(p, 1), (ceil_div(items, local) * local,), (local,))])
        if not dev.is_cpu and (not forward or asked.like_y or not is_plane(p) or volume(&p.x, 2, MX_AXES) < 128):
            return _on_gpu(dev, asked, defines)
        kind = self.kind(dev, asked)
        defines["KIND"] = kind
        if kind == "rows":
            items = volume(out, 0, 4)
            defines["STEP"] = p.step[2] if p.step[2] <= 2 else 0
            defines["WINDOW"] = p.window[2] if p.step[2] <= 2 and p.window[2] <= 3 else 0
            defines["VEC"] = 8 if width == 8 or out.len[4] <= 8 * (1 if forward else p.step[2]) else 16
        elif kind == "flat":
            items = volume(out, 0, 2)
            defines["WINDOW"] = p.window[2]
            defines["VEC"] = 8 if width == 8 else 16
        elif kind == "channels":
            items = volume(out, 0, 1) * volume(out, 2, 4)
            defines["VEC"] = 8 if width == 8 or out.len[1] < 16 else 16
            defines["WINDOW"] = p.window[2] if (forward or p.save) and p.window[2] <= 3 else 0
        elif kind == "turned":
            items = volume(out, 0, 1) * volume(out, 2, 4)
            defines["WINDOW"], defines["STEP"] = p.window[2], p.step[2]
        elif kind == "sheets":
            lanes = 8 if width == 8 or out.len[1] < 16 else 16
            defines["VEC"], defines["SHEET"] = lanes, SHEET
            items = p.x.len[0] * ceil_div(p.x.len[1], SHEET * lanes)
        elif kind == "pairs":
            items = volume(out, 0, 2)
            defines["VEC"] = 8 if width == 8 or p.y.len[4] <= 8 else 16
        elif kind == "planes" or kind == "scatter":
            items = volume(out, 0, 2)
            defines["VEC"] = 8 if width == 8 else 16
        elif kind == "groups":
            local = 64
            while local > dev.max_work_group:
                local //= 2
            defines["LOCAL"] = local
            items = volume(out, 0, 2) * local
        else:
            local = min(256, dev.max_work_group)
            items = ceil_div(items, local) * local
            defines["INDEX"] = "int" if items < SMALL and volume(&p.x, 0, MX_AXES) < SMALL else "long"
        if forward and dev.is_cpu and p.mode == POOL_MAX and width == 2 and _has_order(p, kind):
            defines["ORDERED"] = 1
        # What shares a sum: a group's items, or the lanes of a vector along a plane.
        lanes = local if kind == "groups" else defines["VEC"] if kind == "planes" else 1
        if terms > BLOCK_TERMS * lanes:
            defines["LONG_SUM"] = 1
        if kind != "elements" and kind != "groups":
            defines["INDEX"] = "int"  # is_small() says that it is enough
            groups = 8 * dev.compute_units
            block = ceil_div(items, groups)
            items = ceil_div(items, block)
        args = _slots_and_shape(p, block)
        verb = "forward" if forward else "backward"
        spec = KernelSpec(f"layers/pooling_{verb}.cl", f"pooling_{verb}_{kind}", **defines)
        return Solution([Step(spec, args, (items,), (local,))])

    cdef str kind(self, Device dev, const mx_pooling_asked* asked):
        """Which kernel."""
        cdef const mx_pooling_problem* p = &asked.shape
        cdef bint scatters
        if dev.is_cpu:
            if not is_small(p):
                return "elements"
            if asked.like_y:
                if _terms(p) > BLOCK_TERMS:
                    return "elements"
                if contiguous(&p.x, 1) and contiguous(&p.y, 1) and p.x.len[1] >= 8:
                    return "channels"
                if p.what == MX_POOLING_FORWARD and contiguous(&p.x, 4) and contiguous(&p.y, 4):
                    return "rows"
                return "elements"
            if is_plane(p):
                return "planes"
            if _terms(p) > BLOCK_TERMS and not (is_whole(p) and not p.save):
                return "elements"
            if contiguous(&p.x, 1) and contiguous(&p.y, 1) and p.x.len[1] >= 8:
                if is_whole(p) and not p.save:
                    return "sheets"
                return "turned" if is_turned(p) else "channels"
            scatters = is_scatter(p, 2 * dev.compute_units)
            if is_flat(p) and not (scatters and p.window[1] * p.window[2] > 9):
                return "flat"
            if is_pairs(p) and volume(&p.x, 0, 2) >= 2 * dev.compute_units:
                return "pairs"
            if scatters:
                return "scatter"
            if contiguous(&p.x, 4) and contiguous(&p.y, 4):
                return "rows"
            return "elements"
        return "groups"
