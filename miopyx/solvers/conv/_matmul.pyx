"""Matrix products as steps of a solution: which kernel, with which sizes, for CPU and GPU devices."""

import struct

from libc.stdint cimport int64_t

from miopyx._core cimport Arg, Device, KernelSpec, Step
from miopyx._descriptors cimport type_size
from miopyx._types cimport MX_DOUBLE, MX_INT8, MX_INT32
from miopyx.solvers.conv._base cimport type_token

# Defaults of conv_gemm_cpu.cl, which its global sizes depend on.
cdef enum:
    M_CHUNK = 64
    N_VECTORS = 3
    NT_CHUNK = 32
    TILE = 64            # of conv_gemm_gpu.cl


cdef operand_t operand(int slot, int64_t data_type, int64_t offset=0) noexcept:
    cdef operand_t o
    o.slot, o.type, o.offset = slot, data_type, offset
    return o


cdef bint wide_scalars(Device dev, int64_t data_type) noexcept:
    """Whether alpha and beta of an output travel as double: float would lose the low bits of an int32."""
    return data_type == MX_DOUBLE or (data_type == MX_INT32 and dev.fp64)


cdef Arg fixed(double value, bint wide):
    """Alpha or beta that is not the caller's."""
    return Arg.value_of(struct.pack("d" if wide else "f", value))


cdef int64_t _ceil(int64_t a, int64_t b) noexcept:
    return (a + b - 1) // b


cdef Step matmul(Device dev, const mx_gemm* g, operand_t a, operand_t b, operand_t c, Arg alpha, Arg beta):
    """C = alpha A B + beta C.  On CPUs B and C must run along n, or A and B along k."""
    cdef int vector
    accumulator = "double" if c.type == MX_DOUBLE else "int" if a.type == MX_INT8 else "float"
    defines = {
        "A_TYPE": type_token(a.type), "B_TYPE": type_token(b.type), "C_TYPE": type_token(c.type), "ACC": accumulator,
        "SCALAR": "double" if wide_scalars(dev, c.type) else "float",
    }
    args = (
        Arg.slot_of(a.slot, type_size(<int> a.type), a.offset), Arg.slot_of(b.slot, type_size(<int> b.type), b.offset),
        Arg.slot_of(c.slot, type_size(<int> c.type), c.offset),
        Arg.value_of((<const unsigned char*> g)[:sizeof(mx_gemm)]), alpha, beta,
    )
    if not dev.is_cpu:
        groups = _ceil(g.n, TILE) * _ceil(g.m, TILE) * g.groups * g.images
        return Step(KernelSpec("conv_gemm_gpu.cl", "gemm_tiled", **defines), args, (256 * groups,), (256,))
    vector = dev.vector_bytes // (8 if accumulator == "double" else 4)
    defines["VEC"] = vector
    if g.b_n == 1 and g.c_n == 1:
        blocks = _ceil(g.m, M_CHUNK) * _ceil(_ceil(g.n, vector), N_VECTORS)
        entry = "gemm_nn"
    else:
        blocks = _ceil(g.m, NT_CHUNK) * _ceil(g.n, NT_CHUNK)
        entry = "gemm_nt"
    return Step(KernelSpec("conv_gemm_cpu.cl", entry, **defines), args, (blocks, g.groups, g.images), (1, 1, 1))
