"""MIOpen's throughput index: what part of an ideal direct convolution's throughput a solver is expected to reach.

1 is an ideal matrix product; Winograd may be above.  -2 stands for "unknown".  The figures rank solvers that nobody
has timed; they predict no time.  The models know the shape, the type and, for Winograd, the number of compute units.
"""

from libc.math cimport ceil
from libc.stdint cimport int64_t

from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, MX_HALF, MX_INT8, MX_INT32, mx_conv_problem,
)
from ._base cimport is_pointwise

from miopyx.errors import BadParmError

cdef enum:
    MAX_UNITS = 65535

cdef double UNKNOWN = -2


# Matrix products: a factor for each thing that is done, a little less where it is done more than once.


cdef inline double _term(int64_t n, double first, double more) noexcept nogil:
    """The factor of something that happens n times."""
    return 1.0 if n <= 0 else first if n == 1 else first * more


cdef inline bint _int8(const mx_conv_problem* p) noexcept nogil:
    return p.direction == MX_FORWARD and p.w.type == MX_INT8


cdef double _int8_terms(const mx_conv_problem* p, int64_t rounds) noexcept nogil:
    """Packing int8 operands, and converting sums that are not wanted as int32."""
    if not _int8(p):
        return 1.0
    return _term(rounds, .7, .9) * (1.0 if p.y.type == MX_INT32 else _term(1, .95, .9))


cdef double gemm_index(const mx_conv_problem* p, int64_t rounds) noexcept nogil:
    """MIOpen's GEMM model, by the way its solvers would take: 1x1 with stride 1, 2-D 1x1 with stride 2, or columns.

    `rounds` is how many launches the images are spread over; MIOpen's solvers have one an image.
    """
    if is_pointwise(p, 1):
        if p.direction == MX_FORWARD:
            # The packed int8 product has no batched form.
            return _term(rounds, .9, .9) * _term(1 if _int8(p) else p.groups, 1, .95) * _int8_terms(p, rounds)
        if p.direction == MX_BACKWARD_DATA:
            return _term(1, .9, .9) * _term(rounds, 1, .95)  # the images are the batch here, whatever the groups
        return .7 * _term(rounds, .9, .9) * _term(p.groups, 1, .9)
    if p.direction != MX_BACKWARD_WEIGHTS and p.spatial == 2 and is_pointwise(p, 2):
        # Gathered, multiplied once, spread; the gradient has to be cleared first.
        return (_term(1, .7, .9) * _term(1, .7, .9) * _term(1, .9, .9) * _term(p.groups, 1, .95)
                * (_term(1, .95, .99) if p.direction == MX_BACKWARD_DATA else 1) * _int8_terms(p, 1))
    return columns_index(p, rounds)


cdef double columns_index(const mx_conv_problem* p, int64_t rounds) noexcept nogil:
    """The GEMM model for solvers that make a column matrix of any problem, `rounds` times."""
    return (_term(rounds, .9, .9) * _term(p.groups, 1, .95) * _term(rounds, .4, .8)
            * (.7 if p.direction == MX_BACKWARD_WEIGHTS else 1) * _int8_terms(p, rounds))


# Winograd F(2,3) and F(3,2): outputs `tile` wide from filter parts `taps` wide, tile + taps = 5, as MIOpen's shaders
# for GCN compute them.  A work is 32 output channels (16 where the input is spread) times 32 tiles.


cdef struct _costs:
    int64_t start, filter, phase, output   # clocks: once; a filter part of a work; its accumulation; a work's output


cdef _costs[2][2] COSTS                    # by tile - 2 and by half; measured at stride 1
COSTS[0][0] = _costs(23652, 648, 308, 2039)
COSTS[0][1] = _costs(28561, 872, 327, 1852)
COSTS[1][0] = _costs(37329, 950, 295, 6295)
COSTS[1][1] = _costs(41417, 799, 309, 4941)


cdef struct _shader:
    bint single                            # all taps of a filter's row in one part
    bint half
    double macs                            # millions a group, as a direct convolution
    double work_macs                       # millions a work, padding included
    int64_t works                          # a group
    int64_t r_loops, s_loops, c_loops


cdef bint _fill(_shader* m, const mx_conv_problem* p, int tile) noexcept nogil:
    """Describe the problem as the shader sees it; whether the shader would take it.

    Backward data reads dy and writes dx.  Backward weights slides dy as the filter over x: batch and channels swap.
    """
    cdef int64_t taps = 5 - tile, stride = p.step[1], spread = 1, even = 0, odd = 0
    cdef int64_t n, c, k, r, s, h, w, r_part, s_part, channels, tiles
    if p.spatial != 2 or (p.w.type != MX_FLOAT and p.w.type != MX_HALF):
        return False
    if p.dilation[1] != 1 or p.dilation[2] != 1 or p.step[2] != stride or stride > 2:
        return False
    if p.direction == MX_BACKWARD_WEIGHTS:
        if stride != 1:
            return False
        n, c, k = p.x.len[1] // p.groups, p.x.len[0], p.y.len[1] // p.groups
        r, s, h, w = p.y.len[3], p.y.len[4], p.w.len[3], p.w.len[4]
    else:
        n, c, k = p.x.len[0], p.x.len[1] // p.groups, p.y.len[1] // p.groups
        r, s, h, w = p.w.len[3], p.w.len[4], p.y.len[3], p.y.len[4]
        if p.direction == MX_BACKWARD_DATA:
            c, k, h, w, spread = k, c, p.x.len[3], p.x.len[4], stride
    if spread == 2:
        # MIOpen asks for an odd pad along the height and an even one along the width.
        odd, even = (r - 1 - p.pad[1]) % 2 == 1, (s - 1 - p.pad[2]) % 2 == 0
    m.half = p.w.type == MX_HALF
    m.single = stride == 1 and s <= taps
    m.macs = (<double> c * n * k / 1e6) * (ceil(<double> s * w / spread) * ceil(<double> r * h / spread))
    r_part = taps if stride == 1 or r % (2 * taps) == 1 else 2 * taps
    s_part = taps if m.single else 2 * taps
    m.r_loops = up(r, r_part) // taps
    m.s_loops = ceil_div(s, s_part)
    m.c_loops = ceil_div(c, 2) if m.half else c
    channels = 16 if spread == 2 else 32
    tiles = n * ceil_div(h + odd, tile * spread) * ceil_div(w + even, tile * spread)
    m.works = ceil_div(k, channels) * ceil_div(tiles, 32)
    m.work_macs = (<double> channels * 32 * tile * tile / 1e6 * (m.c_loops * (2 if m.half else 1))
                   * (m.r_loops * taps) * (m.s_loops * s_part))
    return True


cdef double winograd_index(const mx_conv_problem* p, int64_t compute_units, int tile) noexcept nogil:
    """MIOpen's Winograd model; -2 outside of it: groups, strides, dilations, other types, or too little work."""
    cdef _shader m
    cdef _costs cost
    cdef double works, parts, phases, cycles
    if p.groups != 1 or p.step[1] != 1 or not _fill(&m, p, tile):
        return UNKNOWN
    cost = COSTS[tile - 2][m.half]
    works = ceil_div(m.works, compute_units)
    parts = works * m.s_loops * m.r_loops
    phases = parts * m.c_loops * (1 if m.single else 2)
    cycles = (cost.start + cost.filter * parts + cost.phase * phases + cost.output * works) / 1e6
    if cycles <= .1:
        return UNKNOWN
    return m.macs / (compute_units * 64.0 * (2 if m.half else 1)) / cycles


cdef double winograd_loss(const mx_conv_problem* p, int64_t compute_units, int tile) noexcept nogil:
    """The part of the shader's work that is padding; 1 where it would not take the problem.

    MIOpen does not run it above 0.995.  Groups are dealt to as many compute units each as lose least, and one group's
    arithmetic is set against the work of all, so a grouped problem loses 1 - 1 / groups at least.
    """
    cdef _shader m
    cdef int64_t units, works, least
    if not _fill(&m, p, tile):
        return 1.0
    if p.groups == 1:
        least = ceil_div(m.works, compute_units)
    else:
        least = m.works * ceil_div(p.groups, compute_units)
        for units in range(2, compute_units):
            works = ceil_div(m.works, units) * ceil_div(p.groups * units, compute_units)
            least = min(least, works)
    return 1 - m.macs / (<double> least * compute_units * m.work_macs)


# For Python


def gemm(ConvProblem problem not None, int64_t rounds):
    """Return the index of the GEMM solver that MIOpen takes for a problem.

    Parameters
    ----------
    problem : ConvProblem
    rounds : int
        Launches that the images are spread over: the number of images for MIOpen's solvers.
    """
    _require_rounds(rounds)
    return gemm_index(&problem.c, rounds)


def columns(ConvProblem problem not None, int64_t rounds):
    """Return the index of a solver that makes `rounds` column matrices, whatever the problem."""
    _require_rounds(rounds)
    return columns_index(&problem.c, rounds)


def winograd(ConvProblem problem not None, int64_t compute_units, int tile=2):
    """Return the index of MIOpen's Winograd F(tile, 5 - tile), -2 where its model has none.

    Parameters
    ----------
    problem : ConvProblem
    compute_units : int
        Of the device.
    tile : {2, 3}
        Outputs along each side of a tile.
    """
    _require_winograd(compute_units, tile)
    return winograd_index(&problem.c, compute_units, tile)


def granularity_loss(ConvProblem problem not None, int64_t compute_units, int tile=2):
    """Return the part of MIOpen's Winograd that would work on padding, 1 where it does not take the problem."""
    _require_winograd(compute_units, tile)
    return winograd_loss(&problem.c, compute_units, tile)


cdef int _require_rounds(int64_t rounds) except -1:
    if rounds < 1:
        raise BadParmError("out of range", "rounds", rounds, ">= 1")
    return 0


cdef int _require_winograd(int64_t compute_units, int tile) except -1:
    if not 1 <= compute_units <= MAX_UNITS:
        raise BadParmError("out of range", "compute_units", compute_units, f"1 to {MAX_UNITS}")
    if tile != 2 and tile != 3:
        raise BadParmError("no such Winograd transform", "tile", tile, "2 or 3")
    return 0
