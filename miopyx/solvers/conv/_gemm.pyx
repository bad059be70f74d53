"""Convolution as matrix products, for packed NCHW and NCDHW tensors.

A 1x1 convolution with stride 1 is a product as it stands.  One with stride 2 gathers the pixels that it visits first
and then multiplies over all images at once.  Everything else goes through a column matrix, (c/g r s) x (ho wo) a group,
once per image with MIOpen's names and workspaces, or over as many images as fit a bounded workspace under our own.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from miopyx._core cimport SLOT_W, SLOT_WORKSPACE, SLOT_X, SLOT_Y, Arg, Device, KernelSpec, Solution, Step
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div, up
from miopyx.values._types cimport (
    MX_BACKWARD_DATA, MX_BACKWARD_WEIGHTS, MX_FLOAT, MX_FORWARD, MX_INT8, mx_conv_problem, mx_tensor,
)
from ._base cimport GEMM, ConvSolver, capped_product, image_bytes, is_packed, is_pointwise, problem_bytes, spatial_size
from miopyx.solvers._tokens cimport real_token, type_token
from ._index cimport columns_index, gemm_index
from ._matmul cimport (
    matmul, matmul_default, matmul_fits, matmul_refuses, matmul_table, mx_gemm, operand, operand_t,
    product_roundings, wide_scalars,
)

cdef enum:
    BATCH_BYTES = 256 << 20          # what a batched solver's columns may take, at least one image's
    IMAGES_LIMIT = 4096              # of solvers that launch kernels for each

cdef int64_t WORKSPACE_LIMIT = 7287183769  # MIOpen's, beside the device's largest allocation


cdef class _Gemm(ConvSolver):
    """What all members of the family ask first."""

    def __cinit__(self):
        self.algorithm = GEMM
        self.dynamic = self.deterministic = True

    cdef str refuse(self, Device dev, const mx_conv_problem* p):
        if not (is_packed(&p.x) and is_packed(&p.w) and is_packed(&p.y)):
            return "tensors are not packed NCHW"
        return matmul_refuses(dev, p.w.type) or self.refuse_shape(dev, p)

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        raise NotImplementedError

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return gemm_index(p, p.x.len[0])

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef mx_gemm g = self.product(p)
        return product_roundings(dev, &g)

    cdef str refuse_workspace(self, Device dev, const mx_conv_problem* p):
        if self.workspace_bytes(dev, p) > min(dev.max_alloc, WORKSPACE_LIMIT):
            return "workspace is beyond the limit"
        return None

    cdef mx_gemm product(self, const mx_conv_problem* p) noexcept:
        """The product that is tuned: its sizes and how its operands run."""
        return _product(p, p.x.len[0])

    cdef tuple table(self, Device dev, const mx_conv_problem* p):
        cdef mx_gemm g = self.product(p)
        return matmul_table(dev, &g, p.w.type)

    cdef bint fits(self, Device dev, const mx_conv_problem* p, tuple config) except -1:
        cdef mx_gemm g = self.product(p)
        return matmul_fits(dev, &g, p.w.type, config)

    cdef tuple default(self, Device dev, const mx_conv_problem* p):
        cdef mx_gemm g = self.product(p)
        return matmul_default(dev, &g, p.w.type)


# Sizes of one group: m = k/g, q = c/g z r s, pixels = do ho wo.


cdef int64_t _filters(const mx_conv_problem* p) noexcept nogil:
    return p.w.len[0] // p.groups


cdef int64_t _taps(const mx_conv_problem* p) noexcept nogil:
    return p.w.len[1] * spatial_size(&p.w)


cdef int64_t _column_elements(const mx_conv_problem* p) noexcept nogil:
    """Elements of one image's column matrix, all groups."""
    return capped_product(capped_product(p.groups, _taps(p)), spatial_size(&p.y))


cdef mx_gemm _product(const mx_conv_problem* p, int64_t images) noexcept nogil:
    """The product of a group and its strides; strides from image to image are set by the caller."""
    cdef mx_gemm g
    cdef int64_t pixels = spatial_size(&p.y)
    memset(&g, 0, sizeof(g))
    g.groups = p.groups
    if p.direction == MX_BACKWARD_WEIGHTS:
        g.images, g.reduce = 1, images
        g.m, g.n, g.k = _filters(p), _taps(p), pixels
        g.a_m, g.a_k, g.a_g = g.k, 1, g.m * g.k
        g.b_k, g.b_n, g.b_g = 1, g.k, g.n * g.k
    else:
        g.images, g.reduce = images, 1
        if p.direction == MX_FORWARD:
            g.m, g.n, g.k = _filters(p), pixels, _taps(p)
            g.a_m, g.a_k, g.a_g = g.k, 1, g.m * g.k
        else:
            g.m, g.n, g.k = _taps(p), pixels, _filters(p)
            g.a_m, g.a_k, g.a_g = 1, g.m, g.m * g.k
        g.b_k, g.b_n, g.b_g = g.n, 1, g.k * g.n
    g.c_m, g.c_n, g.c_g = g.n, 1, g.m * g.n
    return g


cdef int64_t _image_stride(const mx_tensor* t) noexcept nogil:
    return t.stride[0] if t.len[0] > 1 else 0


cdef Step _forward(Device dev, const mx_conv_problem* p, int64_t images, operand_t b, int64_t b_i, operand_t c,
                   Arg alpha, Arg beta, tuple config):
    """y[n] = w b[n] with b (q x pixels) a group."""
    cdef mx_gemm g = _product(p, images)
    g.b_i, g.c_i, c.rounding = b_i, _image_stride(&p.y), p.rounding
    return matmul(dev, &g, operand(SLOT_W, p.w.type), b, c, alpha, beta, config)


cdef Step _backward_data(Device dev, const mx_conv_problem* p, int64_t images, operand_t b, operand_t c, int64_t c_i,
                         Arg alpha, Arg beta, tuple config):
    """c[n] (q x pixels) = transposed w times dy[n]."""
    cdef mx_gemm g = _product(p, images)
    g.b_i, g.c_i = _image_stride(&p.y), c_i
    if c.type == p.x.type:
        c.rounding = p.rounding
    return matmul(dev, &g, operand(SLOT_W, p.w.type), b, c, alpha, beta, config)


cdef Step _backward_weights(Device dev, const mx_conv_problem* p, int64_t images, operand_t a, operand_t b,
                            int64_t b_r, Arg alpha, Arg beta, tuple config):
    """dw = sum over images of dy[n] times transposed b[n], b (q x pixels) a group."""
    cdef mx_gemm g = _product(p, images)
    cdef operand_t c = operand(SLOT_W, p.w.type)
    g.a_r, g.b_r, c.rounding = _image_stride(&p.y), b_r, p.rounding
    return matmul(dev, &g, a, b, c, alpha, beta, config)


# Moving data: im2col and its reverse, and the gather of a strided 1x1.


cdef Step _im2col(Device dev, const mx_conv_problem* p, int64_t first, int64_t images):
    spec = KernelSpec("conv/im2col.cl", "im2col", X_TYPE=type_token(p.x.type), ROWS=1 if dev.is_cpu else 0)
    cdef int64_t size = type_size(<int> p.x.type)
    args = (Arg.slot_of(SLOT_X, size), Arg.slot_of(SLOT_WORKSPACE, size), Arg.value_of(problem_bytes(p)),
            Arg.int64(first), Arg.int64(images))
    return Step(spec, args, *_items(dev, images * p.groups * _taps(p) * (1 if dev.is_cpu else spatial_size(&p.y))))


cdef Step _col2im(Device dev, const mx_conv_problem* p, int64_t column_type, int64_t first, int64_t images):
    cdef bint wide = wide_scalars(dev, p.x.type)
    spec = KernelSpec("conv/im2col.cl", "col2im", X_TYPE=type_token(p.x.type), COL_TYPE=type_token(column_type),
                      ROWS=1 if dev.is_cpu else 0, SCALAR=real_token(wide),
                      ACC=real_token(wide))
    args = (Arg.slot_of(SLOT_WORKSPACE, type_size(<int> column_type)), Arg.slot_of(SLOT_X, type_size(<int> p.x.type)),
            Arg.value_of(problem_bytes(p)), Arg.int64(first), Arg.int64(images), Arg.alpha(wide), Arg.beta(wide))
    return Step(spec, args, *_items(dev, images * p.x.len[1] * (
        p.x.len[2] if dev.is_cpu else spatial_size(&p.x))))


cdef tuple _items(Device dev, int64_t items):
    cdef int64_t group = 1 if dev.is_cpu else min(256, dev.max_work_group)
    return (up(items, group),), (group,)


# 1x1, stride 1


cdef class _Gemm1x1(_Gemm):
    def __cinit__(self):
        self.float8 = True

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if not is_pointwise(p, 1):
            return "not a 1x1 convolution with pad 0 and stride 1"
        return None


cdef class GemmFwd1x1(_Gemm1x1):
    """y[n] = w x[n]."""

    def __cinit__(self):
        self.id, self.name, self.direction = 88, "GemmFwd1x1_0_1", MX_FORWARD

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint wide = wide_scalars(dev, p.y.type)
        return Solution([_forward(dev, p, p.x.len[0], operand(SLOT_X, p.x.type), p.x.stride[0],
                                  operand(SLOT_Y, p.y.type), Arg.alpha(wide), Arg.beta(wide), config)])


cdef class GemmBwd1x1(_Gemm1x1):
    """dx[n] = transposed w dy[n]."""

    def __cinit__(self):
        self.id, self.name, self.direction = 96, "GemmBwd1x1_stride1", MX_BACKWARD_DATA

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint wide = wide_scalars(dev, p.x.type)
        return Solution([_backward_data(dev, p, p.x.len[0], operand(SLOT_Y, p.y.type), operand(SLOT_X, p.x.type),
                                        p.x.stride[0], Arg.alpha(wide), Arg.beta(wide), config)])


cdef class GemmWrw1x1(_Gemm1x1):
    """dw = sum over n of dy[n] times transposed x[n], in one launch."""

    def __cinit__(self):
        self.id, self.name, self.direction = 101, "GemmWrw1x1_stride1", MX_BACKWARD_WEIGHTS

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint wide = wide_scalars(dev, p.w.type)
        return Solution([_backward_weights(dev, p, p.x.len[0], operand(SLOT_Y, p.y.type), operand(SLOT_X, p.x.type),
                                           p.x.stride[0], Arg.alpha(wide), Arg.beta(wide), config)])


# 1x1, stride 2: gather to c x (n ho wo), multiply once, spread


cdef class _Gemm1x1Stride2(_Gemm):
    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if p.spatial != 2 or not is_pointwise(p, 2):
            return "not a 2-D 1x1 convolution with pad 0 and stride 2"
        if p.w.type == MX_INT8:
            return "data type"
        return self.refuse_workspace(dev, p)

    cdef int stores(self, Device dev, const mx_conv_problem* p) noexcept:
        return 2    # in the workspace, and scaled from there

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        cdef int64_t columns = p.y.len[0] * spatial_size(&p.y)
        return capped_product(capped_product(columns, p.x.len[1] + p.y.len[1]), type_size(<int> p.x.type))

    cdef mx_gemm product(self, const mx_conv_problem* p) noexcept:
        """One product whose columns are the pixels of all images."""
        cdef mx_gemm g = _product(p, 1)
        g.n *= p.y.len[0]
        g.b_k = g.c_m = g.n
        g.b_g, g.c_g = g.k * g.n, g.m * g.n
        return g


cdef Step _cnhw(Device dev, const mx_conv_problem* p, str entry, int from_slot, int64_t from_offset, int to_slot,
                int64_t planes, int64_t plane, bint scaled):
    cdef bint wide = wide_scalars(dev, p.x.type)
    cdef int64_t size = type_size(<int> p.x.type)
    spec = KernelSpec("conv/cnhw.cl", entry, X_TYPE=type_token(p.x.type), ROWS=1 if dev.is_cpu else 0,
                      SCALAR=real_token(wide),
                      ACC=real_token(wide))
    args = (Arg.slot_of(from_slot, size, from_offset), Arg.slot_of(to_slot, size),
            Arg.value_of(problem_bytes(p)))
    if scaled:
        args += (Arg.alpha(wide), Arg.beta(wide))
    return Step(spec, args, *_items(dev, planes if dev.is_cpu else planes * plane))


cdef class GemmFwd1x1Stride2(_Gemm1x1Stride2):
    """Forward with stride 2."""

    def __cinit__(self):
        self.id, self.name, self.direction = 90, "GemmFwd1x1_0_2", MX_FORWARD

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint wide = wide_scalars(dev, p.y.type)
        cdef mx_gemm g = self.product(p)
        cdef int64_t product = p.x.len[1] * g.n * type_size(<int> p.x.type)   # where the product begins
        return Solution([
            _cnhw(dev, p, "to_cnhw_sampled", SLOT_X, 0, SLOT_WORKSPACE, p.x.len[0] * p.x.len[1],
                  spatial_size(&p.y), False),
            matmul(dev, &g, operand(SLOT_W, p.w.type), operand(SLOT_WORKSPACE, p.x.type),
                   operand(SLOT_WORKSPACE, p.y.type, product), Arg.real(1, wide), Arg.real(0, wide), config),
            _cnhw(dev, p, "from_cnhw", SLOT_WORKSPACE, product, SLOT_Y, p.y.len[0] * p.y.len[1], spatial_size(&p.y),
                  True),
        ], self.workspace_bytes(dev, p))


cdef class GemmBwd1x1Stride2(_Gemm1x1Stride2):
    """Backward data with stride 2."""

    def __cinit__(self):
        self.id, self.name, self.direction = 95, "GemmBwd1x1_stride2", MX_BACKWARD_DATA

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef bint wide = wide_scalars(dev, p.x.type)
        cdef mx_gemm g = self.product(p)
        cdef int64_t product = p.y.len[1] * g.n * type_size(<int> p.x.type)
        return Solution([
            _cnhw(dev, p, "to_cnhw", SLOT_Y, 0, SLOT_WORKSPACE, p.y.len[0] * p.y.len[1], spatial_size(&p.y), False),
            matmul(dev, &g, operand(SLOT_W, p.w.type), operand(SLOT_WORKSPACE, p.y.type),
                   operand(SLOT_WORKSPACE, p.x.type, product), Arg.real(1, wide), Arg.real(0, wide), config),
            _cnhw(dev, p, "from_cnhw_scattered", SLOT_WORKSPACE, product, SLOT_X,
                  p.x.len[0] * p.x.len[1], spatial_size(&p.x), True),
        ], self.workspace_bytes(dev, p))


# Everything else, through column matrices of some images at a time


cdef class _GemmColumns(_Gemm):
    """Column matrices of `images` images are made, multiplied, and overwritten by the next ones."""

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if is_pointwise(p, 1):
            return "a 1x1 solver takes this"
        return self.refuse_workspace(dev, p)

    cdef int64_t images(self, const mx_conv_problem* p) noexcept:
        return 1

    cdef int64_t column_type(self, const mx_conv_problem* p) noexcept:
        # Columns that are sums are kept in float where the tensors are narrower: to round them too would round twice.
        if self.direction == MX_BACKWARD_DATA and type_size(<int> p.x.type) <= 2:
            return MX_FLOAT
        return p.x.type

    cdef double roundings(self, Device dev, const mx_conv_problem* p) noexcept:
        cdef double product = _Gemm.roundings(self, dev, p)
        if self.direction == MX_BACKWARD_DATA:
            return product + spatial_size(&p.w)                         # columns are added up
        if self.direction == MX_BACKWARD_WEIGHTS:
            return product + ceil_div(p.x.len[0], self.images(p))    # and launches, in dw
        return product

    cdef int64_t workspace_bytes(self, Device dev, const mx_conv_problem* p) except -1:
        return capped_product(self.images(p), capped_product(_column_elements(p), type_size(<int> self.column_type(p))))

    cdef double index(self, Device dev, const mx_conv_problem* p) noexcept:
        return columns_index(p, ceil_div(p.x.len[0], self.images(p)))

    cdef Solution steps(self, Device dev, const mx_conv_problem* p, tuple config):
        cdef int64_t n, images = self.images(p)
        steps = []
        for n in range(0, p.x.len[0], images):
            steps += self.round(dev, p, n, min(images, p.x.len[0] - n), config)
        return Solution(steps, self.workspace_bytes(dev, p))

    cdef list round(self, Device dev, const mx_conv_problem* p, int64_t n, int64_t count, tuple config):
        """Return the steps for images n ... n + count - 1."""
        cdef int64_t column_type = self.column_type(p)
        cdef operand_t columns = operand(SLOT_WORKSPACE, column_type)
        cdef operand_t y = operand(SLOT_Y, p.y.type, image_bytes(&p.y, n))
        cdef bint wide
        if self.direction == MX_FORWARD:
            wide = wide_scalars(dev, p.y.type)
            return [
                _im2col(dev, p, n, count),
                _forward(dev, p, count, columns, _column_elements(p), y, Arg.alpha(wide), Arg.beta(wide), config),
            ]
        if self.direction == MX_BACKWARD_DATA:
            wide = wide_scalars(dev, column_type)
            return [
                _backward_data(dev, p, count, y, columns, _column_elements(p), Arg.real(1, wide), Arg.real(0, wide),
                               config),
                _col2im(dev, p, column_type, n, count),
            ]
        wide = wide_scalars(dev, p.w.type)
        return [
            _im2col(dev, p, n, count),
            _backward_weights(dev, p, count, y, columns, _column_elements(p), Arg.alpha(wide),
                              Arg.beta(wide) if n == 0 else Arg.real(1, wide), config),
        ]


cdef class _GemmRest(_GemmColumns):
    """MIOpen's: image by image."""

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if p.spatial == 2 and is_pointwise(p, 2) and self.direction != MX_BACKWARD_WEIGHTS:
            return "a 1x1 solver takes this"
        if p.w.type == MX_INT8:
            return "data type"
        if p.x.len[0] > IMAGES_LIMIT:
            return "many images"
        return _GemmColumns.refuse_shape(self, dev, p)


cdef class GemmFwdRest(_GemmRest):
    """Forward, image by image."""

    def __cinit__(self):
        self.id, self.name, self.direction = 91, "GemmFwdRest", MX_FORWARD


cdef class GemmBwdRest(_GemmRest):
    """Backward data, image by image."""

    def __cinit__(self):
        self.id, self.name, self.direction = 97, "GemmBwdRest", MX_BACKWARD_DATA


cdef class GemmWrwUniversal(_GemmRest):
    """Backward weights, image by image, summed in dw itself."""

    def __cinit__(self):
        self.id, self.name, self.direction = 102, "GemmWrwUniversal", MX_BACKWARD_WEIGHTS

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if p.x.len[0] > 1 and type_size(<int> p.w.type) == 2:
            return "would sum images in 16 bits"
        return _GemmRest.refuse_shape(self, dev, p)


cdef class _GemmBatched(_GemmColumns):
    """Ours: many images at once, so that a launch has work for the whole device."""

    def __cinit__(self):
        self.float8 = True

    cdef str refuse_shape(self, Device dev, const mx_conv_problem* p):
        if p.w.type == MX_INT8 and self.direction == MX_BACKWARD_DATA:
            return "data type"
        if self.direction == MX_BACKWARD_WEIGHTS and self.images(p) < p.x.len[0] and type_size(<int> p.w.type) <= 2:
            return "would sum parts of the batch in 16 bits"
        if self.direction == MX_FORWARD and self.images(p) < p.x.len[0] and p.rounding != 0:
            return "parts of the batch would be rounded with the same random numbers"
        return _GemmColumns.refuse_shape(self, dev, p)

    cdef int64_t images(self, const mx_conv_problem* p) noexcept:
        cdef int64_t one = capped_product(_column_elements(p), type_size(<int> self.column_type(p)))
        return min(p.x.len[0], max(1, BATCH_BYTES // one))


cdef class GemmFwdBatched(_GemmBatched):
    """Forward, many images at once."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1011, "GemmFwdBatched", MX_FORWARD


cdef class GemmBwdBatched(_GemmBatched):
    """Backward data, many images at once."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1012, "GemmBwdBatched", MX_BACKWARD_DATA


cdef class GemmWrwBatched(_GemmBatched):
    """Backward weights, many images at once, summed in the product."""

    def __cinit__(self):
        self.id, self.name, self.direction = 1013, "GemmWrwBatched", MX_BACKWARD_WEIGHTS
