/* What the tensor-core kernels for NVIDIA share, after include/common.h: PTX that OpenCL C has no words for.
 * conv/nvidia/conv_args.h has the convolution that they take.
 */
#include "conv/nvidia/conv_args.h"
#include "include/async.h"
#include "include/quotient.h"
#include "include/warp.h"

/* What a work-group of split-K has, by its number: m0 and n0, the first row and column of its tile, its group and its
 * split.  Tiles of one split are numbered down, then across, then by group. */
#define MX_SPLIT_K_TILE(rows, columns, groups)                                             \
    const int down = ((rows) + BM - 1) / BM, across = ((columns) + BN - 1) / BN;           \
    int tile = get_group_id(0);                                                            \
    const int m0 = tile % down * BM;                                                       \
    tile /= down;                                                                          \
    const int n0 = tile % across * BN;                                                     \
    tile /= across;                                                                        \
    const int group = tile % (groups), split = tile / (groups)

/* Backward weights: the offset in x of a column, tap * reduced + c, from a pixel's first tap on, and the tap's h and w
 * with 16 bits each, beyond any x behind the last column. */
static inline int2 mx_column_in_x(int column, int columns, const mx_nv_conv *g)
{
    const int tap = column / g->reduced, c = column - tap * g->reduced;
    const int dh = tap / g->taps_w * g->tap_h, dw = tap % g->taps_w * g->tap_w;
    return (int2)(c + dh * g->x_h + dw * g->x_w, column < columns ? dh << 16 | dw : 0x40000000);
}

/* VEC elements of 16 bits. */
#define VECTOR MX_JOIN(MX_VECTOR_, VEC)
#define MX_VECTOR_1 ushort
#define MX_VECTOR_2 uint
#define MX_VECTOR_4 uint2
#define MX_VECTOR_8 uint4

/* The type of 16 bits that is multiplied, as PTX calls it, and a word of two floats rounded to it, the first in its
 * lower half.  Of a float X_TYPE these are halves. */
#if MX_TYPE(X_TYPE) == MX_TYPE_bfloat16
#define MX_PTX_16BIT "bf16"
#else
#define MX_PTX_16BIT "f16"
#endif
#define MX_ROUND_PAIR(word, first, second) \
    asm("cvt.rn." MX_PTX_16BIT "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first))

/* Four words of each of four lanes that are `step` apart: word i of the l-th of them becomes word l of the i-th. */
static inline uint4 mx_turn_lanes(uint4 v, int lane, int step)
{
    const bool odd = lane & step, high = lane & 2 * step;
    const uint a = mx_exchange(odd ? v.x : v.y, step), b = mx_exchange(odd ? v.z : v.w, step);
    v = odd ? (uint4)(a, v.y, b, v.w) : (uint4)(v.x, a, v.z, b);
    const uint c = mx_exchange(high ? v.x : v.z, 2 * step), d = mx_exchange(high ? v.y : v.w, 2 * step);
    return high ? (uint4)(c, d, v.z, v.w) : (uint4)(v.x, v.y, c, d);
}
#define mx_turn(v, lane) mx_turn_lanes(v, lane, 1)

/* A row of local memory, for operands of 16 or 8 bits. */
#define ROW_BYTES 128
/* OCP's types of 8 bits, which wgmma alone takes. */
#define EIGHT_BITS (MX_TYPE(X_TYPE) == MX_TYPE_e4m3 || MX_TYPE(X_TYPE) == MX_TYPE_e5m2)

/* Programmatic dependent launch, compute capability 9.0: a kernel that CUDA's driver launches so may begin when all
 * groups of the launch in front have come to MX_LET_NEXT_BEGIN, or ended; behind MX_WAIT_FOR_LAST it sees what they
 * wrote.  Other launches find both done. */
#define MX_LET_NEXT_BEGIN() asm volatile("griddepcontrol.launch_dependents;")
#define MX_WAIT_FOR_LAST()                                          \
    do {                                                            \
        asm volatile("//launch: dependent");                        \
        asm volatile("griddepcontrol.wait;" ::: "memory");          \
    } while (0)
#define MX_TEXT_(a) #a
#define MX_TEXT(a) MX_TEXT_(a)

/* From tap to tap until c is one of its channels, or there are no more taps. */
#define MX_SKIP_TAPS(c, tap_h, tap_w)               \
    while (c >= g.reduced && tap_h < g.taps_h) {    \
        c -= g.reduced;                             \
        if (++tap_w == g.taps_w)                    \
            tap_w = 0, tap_h++;                     \
    }

/* A ring of STAGES slices, for kernels whose COPY_SLICE(stage) copies the next of them.  Before the loop over all
 * `count`, and at the beginning of each turn, which finds its slice in `stage` and goes on with the next. */
#define MX_BEGIN_SLICES(count)                              \
    int stage = 0, fill = STAGES - 1;                       \
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {      \
        if (ahead < (count))                                \
            COPY_SLICE(ahead);                              \
        MX_COMMIT();                                        \
    }
#define MX_NEXT_SLICE(slice, count)                         \
    MX_WAIT(STAGES - 2);                                    \
    barrier(CLK_LOCAL_MEM_FENCE);                           \
    if ((slice) + STAGES - 1 < (count))                     \
        COPY_SLICE(fill);                                   \
    MX_COMMIT();                                            \
    fill = fill == STAGES - 1 ? 0 : fill + 1

/* Four 8 x 16-byte matrices; lane l gives row l % 8 of matrix l / 8 and gets word l % 4 of row l / 4 of each. */
#define MX_LDMATRIX(a, b, c, d, from)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"      \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory")

/* The same with each matrix transposed: lane l gets elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4. */
#define MX_LDMATRIX_T(a, b, c, d, from)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"  \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory")

/* d += a b, or d = a b, by a warp: 16 x 8 numbers, over 32 bytes of the other axis; floats count with 19 bits.  Lane l
 * has words l % 4 of rows l / 4 and l / 4 + 8 of a, then words l % 4 + 4 of both; words l % 4 and l % 4 + 4 of column
 * l / 4 of b; columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 of d, then of row l / 4 + 8. */
#if MX_TYPE(X_TYPE) == MX_TYPE_int8
#define MX_MMA "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
#define MX_SUM "r"
#else
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define MX_MMA "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define MX_MMA "mma.sync.aligned.m16n8k16.row.col.f32." MX_PTX_16BIT "." MX_PTX_16BIT ".f32"
#endif
#define MX_SUM "f"
#endif
#define MX_ADD_PRODUCT(d, a0, a1, a2, a3, b0, b1)                                                                     \
    asm volatile(MX_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                            \
                 : "+" MX_SUM((d)[0]), "+" MX_SUM((d)[1]), "+" MX_SUM((d)[2]), "+" MX_SUM((d)[3])                     \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define MX_PRODUCT(d, a0, a1, a2, a3, b0, b1)                                                                         \
    asm volatile(MX_MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"                        \
                 : "=f"((d)[0]), "=f"((d)[1]), "=f"((d)[2]), "=f"((d)[3])                                             \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f))
#define MX_MULTIPLY(d, a, b) MX_ADD_PRODUCT(d, (a)[0], (a)[1], (a)[2], (a)[3], (b)[0], (b)[1])

/* Each product d of a warp that owns WM x WN numbers, and each of its sums [WM / 16][WN / 8][4], or each `step`th. */
#define MX_EACH_PRODUCT(i, j)                                  \
    _Pragma("unroll") for (int i = 0; i < WM / 16; i++)        \
        _Pragma("unroll") for (int j = 0; j < WN / 8; j++)
#define MX_EACH_SUM(i, j, l, step) \
    MX_EACH_PRODUCT(i, j) _Pragma("unroll") for (int l = 0; l < 4; l += (step))

/* 16 bytes, or 8, by 2-byte elements, for tensors that do not begin at a multiple of them: kept short,
 * within the hot loop. */
static inline void mx_copy_elements(uint to, __global const ushort *from, bool valid, int count)
{
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        const ushort value = valid ? from[i] : (ushort)0;
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + 2 * i), "h"(value) : "memory");
    }
}
#define mx_copy_halves(to, from, valid) mx_copy_elements(to, from, valid, 8)
#define mx_copy_four(to, from, valid) mx_copy_elements(to, from, valid, 4)

/* 16 bytes likewise, byte by byte. */
static inline void mx_copy_bytes(uint to, __global const void *from, bool valid)
{
#pragma unroll 1
    for (int i = 0; i < 16; i++) {
        const uint value = valid ? (uint)((__global const uchar *)from)[i] : 0u;
        asm volatile("st.shared.u8 [%0], %1;" ::"r"(to + i), "r"(value) : "memory");
    }
}

/* A float as hi + lo, 11 bits each: hi is rounded, lo is cut by the tensor core, so it is first made longer by about
 * half of what is cut, which leaves 0.75 * 2^-22 at most.  A NaN stays one in hi or lo, whatever its bits; an infinite
 * value leaves lo a NaN.  cvt.rna.tf32 in place of these operations cost a sixth of the kernels' speed. */
#define MX_TF32_PAIR(value, hi, lo)                                                        \
    do {                                                                            \
        hi = ((value) + 0x1000u) & 0xffffe000u;                                     \
        lo = as_uint((as_float(value) - as_float(hi)) * (1.0f + 0x1.8p-12f));       \
    } while (0)

/* A float's bits rounded to TF32, halves away from zero. */
static inline uint mx_nearest(uint bits)
{
    uint nearest;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(nearest) : "f"(as_float(bits)));
    return nearest;
}

/* Four floats at any address, rounded likewise: kept short. */
static inline void mx_copy_nearest(uint to, __global const float *from, bool valid)
{
#pragma unroll 1
    for (int i = 0; i < 4; i++) {
        const uint bits = valid ? as_uint(from[i]) : 0u;
        const uint value = (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffffff : mx_nearest(bits); /* a NaN stays one */
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + 4 * i), "r"(value) : "memory");
    }
}
