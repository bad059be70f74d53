"""Matrix products as steps of a solution: which kernel, with which sizes, for CPU and GPU devices.

What can be tuned are definitions of the kernel files, which say what they mean; a table names them in their order.
"""

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, KernelSpec, Step, struct_arg
from miopyx.problem._descriptors cimport type_size
from miopyx.values._integers cimport ceil_div
from miopyx.values._types cimport MX_DOUBLE, MX_INT8, MX_INT32
from ._base cimport GPU_TERMS, in_blocks, vector_lanes
from miopyx.solvers._tokens cimport real_token, type_token

cdef enum:
    LARGEST_TILE = 64    # sums of a work-item of conv/gpu/gemm.cl: more do not fit its registers

# Each definition with its values in ascending order and the one that is usual where nothing was tuned.
cdef tuple NN = (
    ("TILE_ROWS", (4, 6, 8, 9, 12), 8), ("N_VECTORS", (1, 2, 3, 4), 3), ("M_CHUNK", (32, 64, 128, 256, 512), 64),
    ("K_BLOCK", (64, 128, 256, 512), 256),
)
cdef tuple NT = (("NT_CHUNK", (16, 32, 48, 64), 32), ("NT_K_BLOCK", (256, 512, 1024, 2048), 512))
cdef tuple TILED = (
    ("SIDE", (8, 16), 16), ("EACH_M", (2, 4, 8), 4), ("EACH_N", (2, 4, 8), 4), ("DEPTH", (8, 16, 32), 16),
)


cdef operand_t operand(int slot, int64_t data_type, int64_t offset=0) noexcept:
    cdef operand_t o
    o.slot, o.type, o.offset, o.rounding = slot, data_type, offset, 0
    return o


cdef bint wide_scalars(Device dev, int64_t data_type) noexcept:
    """Whether alpha and beta of an output travel as double: float would lose the low bits of an int32."""
    return data_type == MX_DOUBLE or (data_type == MX_INT32 and dev.fp64)


cdef bint _along_n(const mx_gemm* g) noexcept:
    """Whether B and C run along n, which is gemm_nn's business; else A and B run along k, gemm_nt's."""
    return g.b_n == 1 and g.c_n == 1


cdef int _vector(Device dev, int64_t c_type) noexcept:
    """Elements in a CPU's vector register: sums are as wide as double or as float."""
    return <int> vector_lanes(dev, 8 if c_type == MX_DOUBLE else 4)


cdef int64_t _registers(Device dev, int64_t c_type) noexcept:
    """Vectors that a CPU's registers hold: one of float64 may take two."""
    return dev.vector_registers * dev.vector_bytes // (_vector(dev, c_type) * (8 if c_type == MX_DOUBLE else 4))


cdef bint _tiled(Device dev, const mx_gemm* g) noexcept:
    """Whether conv/gpu/gemm.cl computes it, also where a GPU's solver, which has no `g`, is asked about a CPU."""
    return g == NULL or not dev.is_cpu


cdef tuple _choices(Device dev, const mx_gemm* g):
    return TILED if _tiled(dev, g) else NN if _along_n(g) else NT


cdef tuple _useful(tuple values, int64_t default, int64_t size):
    """Drop what is beyond the first value that covers `size`, and does what that one does; the default stays."""
    cdef int64_t enough = next((v for v in values if v >= size), size)
    return tuple([v for v in values if v <= enough or v == default])


cdef tuple matmul_table(Device dev, const mx_gemm* g, int64_t c_type):
    """Return what can be tuned of a product, without values that make no difference to one of its size."""
    if _tiled(dev, g):
        return tuple([(name, values) for name, values, _ in TILED])
    if _along_n(g):
        sizes = (g.m, ceil_div(g.n, _vector(dev, c_type)), g.m, g.k)
    else:
        sizes = (max(g.m, g.n), g.k * g.reduce)
    return tuple([(name, _useful(values, default, size)) for (name, values, _), default, size in zip(
        _choices(dev, g), matmul_default(dev, g, c_type), sizes)])


cdef tuple matmul_default(Device dev, const mx_gemm* g, int64_t c_type):
    """Return the configuration that is taken where nothing was tuned."""
    cdef dict usual = {name: default for name, _, default in _choices(dev, g)}
    if _tiled(dev, g) and not matmul_fits(dev, g, c_type, tuple(usual.values())):
        usual["SIDE"] = 8      # a quarter of the work-items and half of the local memory
    if not _tiled(dev, g) and _along_n(g):
        if _registers(dev, c_type) < 32:
            usual["TILE_ROWS"] = 4
        # Four vectors of columns, 7 x 7 pixels say, are one tile of 6 x 4 but two of 8 x 3, each partly unused.
        elif dev.vector_bytes == 64 and ceil_div(g.n, _vector(dev, c_type)) == 4:
            usual["TILE_ROWS"], usual["N_VECTORS"] = 6, 4
    return tuple(usual.values())


cdef bint matmul_fits(Device dev, const mx_gemm* g, int64_t c_type, tuple config) except -1:
    """Whether values of the table go together: on CPUs tiles that fill the registers, on GPUs ones the device holds."""
    cdef int64_t side, each_m, each_n, depth, rows, vectors, registers
    if _tiled(dev, g):
        side, each_m, each_n, depth = config
        return (side * side <= dev.max_work_group and each_m * each_n <= LARGEST_TILE
                and depth * (side * each_m + side * each_n + 2) * (8 if c_type == MX_DOUBLE else 4) <= dev.local_mem)
    if not _along_n(g) or config == matmul_default(dev, g, c_type):
        return True
    # A tile's sums, a row of B and an element of A.
    registers = _registers(dev, c_type)
    rows, vectors, _, _ = config
    return rows * vectors + vectors + 1 <= registers and (
        rows * vectors >= registers // 2 or rows >= g.m or vectors >= ceil_div(g.n, _vector(dev, c_type)))


cdef str matmul_refuses(Device dev, int64_t c_type):
    """Why a GPU cannot compute products at all, or None."""
    if dev.is_cpu or matmul_fits(dev, NULL, c_type, matmul_default(dev, NULL, c_type)):
        return None
    return "too small work-groups or local memory"


cdef bint _long(Device dev, const mx_gemm* g) noexcept:
    """Whether a GPU's program has totals."""
    return not dev.is_cpu and <double> g.k * g.reduce > GPU_TERMS


cdef double product_roundings(Device dev, const mx_gemm* g) noexcept:
    """Roundings of a sum, see ConvSolver.roundings."""
    cdef double terms = <double> g.k * g.reduce
    if not dev.is_cpu:
        return min(terms, <double> GPU_TERMS)
    return in_blocks(terms) + (0 if _along_n(g) else 4)     # 16 lanes are added up in a tree


cdef Step matmul(Device dev, const mx_gemm* g, operand_t a, operand_t b, operand_t c, Arg alpha, Arg beta,
                 tuple config):
    """C = alpha A B + beta C.  On CPUs B and C must run along n, or A and B along k."""
    accumulator = "double" if c.type == MX_DOUBLE else "int" if a.type == MX_INT8 else "float"
    tuned = {name: value for (name, _, _), value in zip(_choices(dev, g), config)}
    defines = {
        "A_TYPE": type_token(a.type), "B_TYPE": type_token(b.type), "C_TYPE": type_token(c.type), "ACC": accumulator,
        "SCALAR": real_token(wide_scalars(dev, c.type)), **tuned,
    }
    if c.rounding != 0:
        defines["ROUNDING"] = c.rounding
    args = (
        Arg.slot_of(a.slot, type_size(<int> a.type), a.offset), Arg.slot_of(b.slot, type_size(<int> b.type), b.offset),
        Arg.slot_of(c.slot, type_size(<int> c.type), c.offset),
        struct_arg(g, sizeof(mx_gemm)), alpha, beta,
    )
    if not dev.is_cpu:
        side = tuned["SIDE"]
        if accumulator != "int":
            defines["LONG_SUMS"] = int(_long(dev, g))
        groups = ceil_div(g.n, side * tuned["EACH_N"]) * ceil_div(g.m, side * tuned["EACH_M"]) * g.groups * g.images
        return Step(KernelSpec("conv/gpu/gemm.cl", "gemm_tiled", **defines), args, (side * side * groups,),
                    (side * side,))
    defines["VEC"] = _vector(dev, c.type)
    if _along_n(g):
        blocks = ceil_div(g.m, tuned["M_CHUNK"]) * ceil_div(ceil_div(g.n, defines["VEC"]), tuned["N_VECTORS"])
        entry, defines["KERNELS"] = "gemm_nn", 1
    else:
        blocks = ceil_div(g.m, tuned["NT_CHUNK"]) * ceil_div(g.n, tuned["NT_CHUNK"])
        entry, defines["KERNELS"] = "gemm_nt", 2
        if _registers(dev, c.type) < 32:
            defines["NT_COLUMNS"] = 3
    return Step(KernelSpec("conv/cpu/gemm.cl", entry, **defines), args, (blocks, g.groups, g.images), (1, 1, 1))
