"""What all convolution solvers share: the checks that come before any algorithm, and a few questions about problems."""

cimport cython
from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport Device, Offer, Problem, Solution, Solver, in_table
from miopyx.problem._descriptors cimport type_size
from miopyx.problem._problem cimport ConvProblem
from miopyx.values._integers cimport ceil_div
from miopyx.solvers._tokens cimport real_token, type_token
from ._epilogue cimport stores_fused, with_epilogue, workspace_with
from miopyx.values._types cimport (
    MX_AXES, MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_BFLOAT8, MX_BFLOAT16, MX_DOUBLE, MX_E4M3, MX_E5M2,
    MX_FLOAT8, MX_FORWARD, MX_HALF, MX_INT8, MX_INT32, mx_conv_problem, mx_tensor,
)

from miopyx.errors import BadParmError

cdef tuple GENERIC_TERMS = ("launch", "images", "products", "x", "w", "y", "columns", "depth", "indexed")

cdef inline const mx_conv_problem* _struct_of(Device dev, Problem problem) except NULL:
    if dev is None:
        raise BadParmError("not a device", "dev", None, "a Device")
    if not isinstance(problem, ConvProblem):
        raise BadParmError("not a convolution", "problem", problem, "a ConvProblem")
    return &(<ConvProblem> problem).c


@cython.freelist(32)
cdef class ConvOffer(Offer):
    """What a convolution solver says of a problem; `steps` are the solver's."""

    cpdef Solution solution(self, tuple config=None):
        cdef Solution plain = self.steps(self.default_config() if config is None else config)
        return with_epilogue(self.device, self.p, plain) if self.p.fused.parts else plain

    cpdef bint one_store(self) except -1:
        """Whether what follows the convolution costs no launch of its own."""
        return not self.p.fused.parts or stores_fused(self.steps(self.default_config()))

    cdef Solution steps(self, tuple config):
        if self.p.x.len[0] == 0 and self.p.direction != MX_BACKWARD_WEIGHTS:
            return Solution([])
        return (<ConvSolver> self.solver).steps(self.device, self.p, config)

    cdef void cost_terms(self, double* terms) noexcept:
        cdef ConvSolver solver = self.solver
        cdef terms_t* t = <terms_t*> terms
        solver.cost_terms(self.device, self.p, terms)
        # What a solver's index knows of a problem's shape, as time.
        if solver.cost_names is GENERIC_TERMS and self.index > 0:
            t.indexed = t.products / self.index

    def terms(self):
        """Return what takes time by name, which a device's cost table has microseconds of."""
        cdef tuple names = (<ConvSolver> self.solver).cost_names
        cdef double[MOST_TERMS] counted
        cdef Py_ssize_t i
        memset(counted, 0, sizeof(counted))
        self.cost_terms(counted)
        return {names[i]: counted[i] for i in range(len(names))}


cdef int set_offer(ConvOffer offer, ConvSolver solver, Device dev, ConvProblem problem) except -1:
    """Fill in what every offer of a convolution solver holds; it claims nothing yet."""
    offer.solver, offer.device, offer.problem, offer.p = solver, dev, problem, &problem.c
    offer.index, offer.workspace = -2, 0
    return 0


cdef class ConvSolver(Solver):
    """Base of the convolution solvers: one direction each, on the host path or on OpenCL devices.

    Subclasses set `direction` and `on_host` and override the C methods, which get the problem's struct: `refuse`,
    `workspace_bytes`, `index` and `steps`, and `table`, `fits` and `default` where there is something to tune.  Where
    these would all work out the same thing, `consider` does it once, and returns a ConvOffer that keeps it or, as a
    text, why not.
    """

    def __cinit__(self):
        self.cost_names = GENERIC_TERMS

    cpdef object offer(self, Device dev, Problem problem):
        cdef str why = self._unfit(dev, _struct_of(dev, problem))
        cdef ConvOffer offer
        if why is not None:
            return why
        answer = self.consider(dev, <ConvProblem> problem)
        if (<ConvProblem> problem).c.fused.parts and not dev.is_host and not isinstance(answer, str):
            offer = answer
            offer.workspace = workspace_with(offer.p, offer.steps(offer.default_config()))
        return answer

    cpdef str why_not(self, Device dev, Problem problem):
        answer = self.offer(dev, problem)
        return answer if isinstance(answer, str) else None

    cdef str _unfit(self, Device dev, const mx_conv_problem* p):
        """Return what no solver of this direction and kind could do, or None."""
        if p.direction != self.direction:
            return "another direction"
        if dev.is_host != self.on_host:
            return "runs on the host path only" if self.on_host else "runs on OpenCL devices only"
        if p.deterministic and not self.deterministic:
            return "not deterministic"
        if type_token(p.x.type) is None or p.w.type == MX_INT32:
            return "data type"
        if (is_float8(p.x.type) or is_float8(p.w.type) or is_float8(p.y.type)) and not self.float8:
            return "data type"
        if p.w.type == MX_INT8 and (p.x.type if p.direction == MX_FORWARD else p.y.type) != MX_INT8:
            return "int8 convolutions compute forward only"
        if p.w.type == MX_DOUBLE and not self.on_host and not dev.fp64:
            return "device has no double precision"
        if p.x.len[0] == 0 and not self.last_resort and not self.on_host:
            return "empty batch"
        if dev.is_gpu and self.algorithm != GEMM and not self.last_resort and not _is_regular(p):
            return "pads of both ends or output padding beyond the stride"
        return None

    cpdef int64_t workspace_size(self, Device dev, Problem problem) except -1:
        if _struct_of(dev, problem).x.len[0] == 0:
            return 0
        answer = self.offer(dev, problem)
        if not isinstance(answer, str):
            return (<Offer?> answer).workspace
        # The formula stands where the solver refuses, too: records of other devices are compared with it.  But formulas
        # divide by numbers of 32 bits, which those of larger tensors are not.
        cdef const mx_conv_problem* p = _struct_of(dev, problem)
        if not (_counted(&p.x) and _counted(&p.w) and _counted(&p.y)):
            return <int64_t> 1 << 62
        return self.workspace_bytes(dev, p)

    cpdef double wti(self, Device dev, Problem problem) except? -3:
        answer = self.offer(dev, problem)
        return self.index(dev, _struct_of(dev, problem)) if isinstance(answer, str) else (<Offer?> answer).index

    cpdef double error_bound(self, Device dev, Problem problem) except -1:
        """Bound an element's error, relative to the sum of the magnitudes of its terms: Solver.error_bound."""
        cdef const mx_conv_problem* p = _struct_of(dev, problem)
        cdef double wide = 2.0 ** (-53 if p.w.type == MX_DOUBLE else -24)
        if p.w.type == MX_INT8:
            return 0
        # What alpha and beta do to a sum is four roundings more.  An epilogue's scale and shift are eight, and in a
        # launch of its own it reads what was stored.
        return (self.roundings(dev, p) + (12 if p.fused.parts else 4)) * wide + (
            self.stores(dev, p) + (p.fused.parts != 0)) * _unit_roundoff(p)

    cpdef tuple parameters(self, Device dev, Problem problem):
        return self.table(dev, _struct_of(dev, problem))

    cpdef bint accepts(self, Device dev, Problem problem, tuple config) except -1:
        return in_table(self.parameters(dev, problem), config) and self.fits(dev, _struct_of(dev, problem), config)

    cpdef tuple default_config(self, Device dev, Problem problem):
        return self.default(dev, _struct_of(dev, problem))

    cpdef Solution solution(self, Device dev, Problem problem, tuple config=None):
        answer = self.offer(dev, problem)
        if isinstance(answer, str):
            raise BadParmError(f"{self.name} is not applicable to this problem: {answer}", "problem", problem,
                               "a problem that the solver can run")
        return (<Offer?> answer).solution(config)

    cdef object consider(self, Device dev, ConvProblem problem):
        """Return the offer for a problem of this direction on a device of this kind, or why there is none."""
        cdef str why = self.refuse(dev, &problem.c)
        cdef ConvOffer offer
        if why is not None:
            return why
        offer = ConvOffer.__new__(ConvOffer)
        set_offer(offer, self, dev, problem)
        offer.index = self.index(dev, &problem.c)
        offer.workspace = self.workspace_bytes(dev, &problem.c)
        return offer

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        """Return why the solver cannot take the problem, a constant, or None."""
        raise NotImplementedError

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        return 0

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return -2

    cdef void cost_terms(self, Device dev, const mx_conv_problem* p, double* terms) noexcept:
        """Count what takes time, one number for each of `cost_names`; a device's cost table has microseconds of each.

        `terms` has zeros.  Called for problems that the solver takes.
        """
        cdef terms_t* t = <terms_t*> terms
        cdef double size = type_size(<int> p.w.type) * 1e-6, pixels = p.y.len[0] * spatial_size(&p.y)
        cdef double column = p.w.len[1] * p.groups * <double> spatial_size(&p.w)
        t.launch = 1
        t.images = p.x.len[0]
        t.products = pixels * p.w.len[0] * p.w.len[1] * spatial_size(&p.w) * 1e-9
        t.x = p.x.len[0] * p.x.len[1] * spatial_size(&p.x) * size
        t.w = p.w.len[0] * p.w.len[1] * spatial_size(&p.w) * size
        t.y = pixels * p.y.len[1] * size
        t.columns = pixels * column * size
        t.depth = _depth(dev, p)

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        """Bound the error of a sum in roundings of the accumulator, which is float, or double where the tensors are.

        A term that is added in a chain of n additions is rounded n times, so that n roundings relative to the sum of
        the terms' magnitudes bound the error, to first order (Higham, Accuracy and Stability of Numerical Algorithms,
        2nd edition, 4.2).  In blocks of b terms whose sums are added by a chain these are b + terms / b (Castaldo,
        Whaley, Chronopoulos, SIAM J. Sci. Comput. 31, 2008); and a chain that keeps what it rounds away counts for two,
        whatever its length (Ogita, Rump, Oishi, SIAM J. Sci. Comput. 26, 2005).
        """
        return in_blocks(sum_terms(p))

    cdef int stores(self, Device dev, const mx_conv_problem* p) noexcept:
        """How often a result is rounded to its type where that is narrower than the accumulator."""
        return 1

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        """Return the parameters that may be tuned: pairs of a name and its values in ascending order."""
        return ()

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        """Whether values that each stand in the table also go together."""
        return True

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        """Return the configuration that is taken where nothing was tuned, one value a parameter."""
        return ()

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        raise NotImplementedError


cdef double _depth(Device dev, const mx_conv_problem* p) noexcept:
    """Thousands of products that a compute unit takes one after the other, in tiles of 64 x 64 of the product."""
    cdef int64_t m = p.w.len[0] // p.groups, n = p.y.len[0] * spatial_size(&p.y), k = p.w.len[1] * spatial_size(&p.w)
    cdef int64_t units = max(1, dev.compute_units), tiles
    if p.direction == MX_BACKWARD_WEIGHTS:
        n, k = k, n
    elif p.direction == MX_BACKWARD_DATA:
        k = max(1, m * spatial_size(&p.w) // (p.step[0] * p.step[1] * p.step[2]))
        m, n = p.w.len[1], p.x.len[0] * spatial_size(&p.x)
    tiles = ceil_div(m, 64) * ceil_div(n, 64) * p.groups
    return ceil_div(tiles, units) * k * 1e-3


cdef bint is_packed(const mx_tensor* t) noexcept nogil:
    """Packed in the default order (NCHW, NCDHW, KCRS ...)."""
    cdef int64_t stride = 1
    cdef int i
    for i in range(MX_AXES - 1, -1, -1):
        if t.len[i] > 1 and t.stride[i] != stride:
            return False
        stride *= t.len[i]
    return True


cdef bint is_packed_nhwc(const mx_tensor* t) noexcept nogil:
    """Packed with channels last (NHWC, NDHWC, KRSC ...)."""
    cdef int64_t stride = 1
    cdef int axis, i
    for i in range(MX_AXES):
        axis = 1 if i == 0 else 5 - i if i < 4 else 0
        if t.len[axis] > 1 and t.stride[axis] != stride:
            return False
        stride *= t.len[axis]
    return True


cdef bint is_channels_last(const mx_tensor* t) noexcept nogil:
    """Several channels, one after the other in memory."""
    return stride_of(t, 1) == 1


cdef bint channels_contiguous(const mx_tensor* t) noexcept nogil:
    """One channel, or channels one after the other in memory."""
    return t.len[1] == 1 or t.stride[1] == 1


cdef bint rows_contiguous(const mx_tensor* t) noexcept nogil:
    """One column, or columns one after the other in memory."""
    return t.len[4] == 1 or t.stride[4] == 1


cdef int64_t stride_of(const mx_tensor* t, int axis) noexcept nogil:
    """Zero along an axis of one element, whose stride means nothing."""
    return t.stride[axis] if t.len[axis] > 1 else 0


cdef int64_t span(const mx_tensor* t) noexcept nogil:
    """Elements from the first to the last, with the gaps between."""
    cdef int64_t elements = 1
    cdef int i
    for i in range(MX_AXES):
        elements += (t.len[i] - 1) * t.stride[i]
    return elements


cdef int64_t image_bytes(const mx_tensor* t, int64_t image) noexcept nogil:
    """Where an image of a packed tensor begins."""
    return image * t.len[1] * spatial_size(t) * type_size(<int> t.type)


cdef bint is_pointwise(const mx_conv_problem* p, int64_t stride) noexcept nogil:
    """1x1 filter, no pad, the given stride along every axis the problem has, and an output for each step."""
    cdef int i
    for i in range(3 - p.spatial, 3):
        if (p.w.len[2 + i] != 1 or p.pad[i] != 0 or p.step[i] != stride
                or p.y.len[2 + i] != (p.x.len[2 + i] - 1) // stride + 1):
            return False
    return True


cdef bint _is_regular(const mx_conv_problem* p) noexcept nogil:
    """Whether y has as many outputs as x has room for with equal pads at both ends.

    Transposed convolutions leave some out by their output padding, and pads that differ leave some out or add some.
    """
    cdef int i
    cdef int64_t room
    for i in range(3 - p.spatial, 3):
        room = p.x.len[2 + i] + 2 * p.pad[i] - p.dilation[i] * (p.w.len[2 + i] - 1) - 1
        if p.y.len[2 + i] != (room // p.step[i] + 1 if room >= 0 else 1):
            return False
    return True


cdef int64_t capped_product(int64_t a, int64_t b) noexcept nogil:
    """a b, or 2^62 where that is less: sizes of workspaces that nobody can have must not wrap around."""
    cdef int64_t cap = <int64_t> 1 << 62
    return cap if a != 0 and b > cap // a else a * b


cdef bint _counted(const mx_tensor* t) noexcept nogil:
    """Whether the number of elements has 31 bits."""
    return capped_product(capped_product(t.len[0], t.len[1]), capped_product(
        t.len[2], capped_product(t.len[3], t.len[4]))) < <int64_t> 1 << 31


cdef int64_t capped_sum(int64_t a, int64_t b) noexcept nogil:
    """a + b of what capped_product returned, capped as there."""
    cdef int64_t cap = <int64_t> 1 << 62
    return cap if a > cap - b else a + b


cdef int64_t vector_lanes(Device dev, int64_t size) noexcept:
    """Elements of `size` bytes in a CPU kernel's vectors: a register's, and 4 at least, which may be two registers."""
    return max(4, dev.vector_bytes // size)


cdef double sum_terms(const mx_conv_problem* p) noexcept nogil:
    """Products of an element of the result, at most."""
    cdef double terms = spatial_size(&p.w)
    if p.direction == MX_BACKWARD_WEIGHTS:
        return <double> p.y.len[0] * spatial_size(&p.y)
    return terms * (p.w.len[1] if p.direction == MX_FORWARD else p.w.len[0] // p.groups)


cdef double in_blocks(double terms) noexcept nogil:
    """Roundings of a sum whose accumulators take BLOCK_TERMS terms, BLOCKS of which totals take that keep the rest."""
    return min(terms, <double> BLOCK_TERMS + BLOCKS + 2)


cdef double _unit_roundoff(const mx_conv_problem* p) noexcept:
    """Of the result's type; 0 where that is the accumulator's.  Rounding at random is off by twice as much."""
    cdef int64_t t = result_type(p)
    cdef double u = 0
    if t == MX_HALF:
        u = 2.0 ** -11
    elif t == MX_BFLOAT16:
        u = 2.0 ** -8
    elif is_float8(t):
        u = 2.0 ** (-4 if t == MX_FLOAT8 or t == MX_E4M3 else -3)
    return 2 * u if p.rounding != 0 and is_float8(t) else u


cdef int64_t result_type(const mx_conv_problem* p) noexcept nogil:
    return p.y.type if p.direction == MX_FORWARD else p.x.type if p.direction == MX_BACKWARD_DATA else p.w.type


cdef int64_t spatial_size(const mx_tensor* t) noexcept nogil:
    return t.len[2] * t.len[3] * t.len[4]


cdef bint is_float8(int64_t data_type) noexcept nogil:
    return data_type == MX_FLOAT8 or data_type == MX_BFLOAT8 or data_type == MX_E4M3 or data_type == MX_E5M2


cdef str acc_token(const mx_conv_problem* p):
    """The type of sums, where those of int8 are exact."""
    return "int" if p.w.type == MX_INT8 else real_token(p.w.type == MX_DOUBLE)


cdef int64_t acc_size(const mx_conv_problem* p) noexcept nogil:
    """Bytes of a sum."""
    return 8 if p.w.type == MX_DOUBLE else 4


cdef bytes problem_bytes(const mx_conv_problem* p):
    """The struct as kernels take it, by value."""
    return (<const unsigned char*> p)[:sizeof(mx_conv_problem)]
