/* AMD's matrix instructions in OpenCL C, for devices that have none: what each lane gives and gets goes through local
 * memory.  The tables are those of the instruction set references, written down a second time, so that a wrong place in
 * a kernel shows.  Goes before conv/amd/matrix.cl, in which `emulated` is declared beside the slices.
 */
#define MOST_TERMS 16
#define MX_JOIN_(a, b) a##b
#define MX_JOIN(a, b) MX_JOIN_(a, b)

#if MFMA
#define LANES 64
#define FIRST_TERM(lane, side, each) ((lane) / (side) * (each))
#else
#define LANES 32
#define FIRST_TERM(lane, side, each) 0
#endif

/* Row of element r of a lane's part of C; the column is lane % side. */
static inline int emulated_row(int side, int lane, int r)
{
#if MFMA
    if (side == 16) /* 16x16: four rows of each quarter of the wave */
        return lane / 16 * 4 + r;
    return r / 4 * 8 + lane / 32 * 4 + r % 4; /* 32x32: blocks of 8 rows, of which each half of the wave has four */
#else
    return lane < 16 ? 2 * r : 2 * r + 1; /* even rows in the lower half, odd ones in the upper */
#endif
}

#define EMULATED(name, V, W, number, side, terms, each, accumulators, as_number)                                      \
    static inline V name(W given_a, W given_b, V c, __local float *emulated)                                       \
    {                                                                                                              \
        number a[each], b[each];                                                                                   \
        MX_JOIN(UNPACK_, each)(given_a, a);                                                                        \
        MX_JOIN(UNPACK_, each)(given_b, b);                                                                        \
        const int lane = get_local_id(0) % LANES;                                                                  \
        __local float *A = emulated + get_local_id(0) / LANES * (2 * 32 * MOST_TERMS), *B = A + 32 * MOST_TERMS;   \
        for (int e = 0; e < each; e++)                                                                             \
            if (MFMA || lane < 16) {                                                                               \
                A[lane % side * terms + FIRST_TERM(lane, side, each) + e] = as_number(a[e]);                       \
                B[lane % side * terms + FIRST_TERM(lane, side, each) + e] = as_number(b[e]);                       \
            }                                                                                                      \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        float sums[accumulators];                                                                                  \
        MX_JOIN(vstore, accumulators)(c, 0, sums);                                                                 \
        for (int r = 0; r < accumulators; r++)                                                                     \
            for (int t = 0; t < terms; t++)                                                                        \
                sums[r] += A[emulated_row(side, lane, r) * terms + t] * B[lane % side * terms + t];                \
        /* WMMA wants both halves of a wave to hold the same. */                                                   \
        for (int e = 0; !MFMA && lane >= 16 && e < each; e++)                                                      \
            if (as_uint(as_number(a[e])) != as_uint(A[lane % 16 * terms + e])                                      \
                || as_uint(as_number(b[e])) != as_uint(B[lane % 16 * terms + e]))                                  \
                sums[0] = NAN;                                                                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        return MX_JOIN(vload, accumulators)(0, sums);                                                              \
    }

static inline float emulated_half(ushort bits)
{
    return vload_half(0, (const __private half *)&bits);
}
#define EMULATED_FLOAT(v) (v)
#define EMULATED_BFLOAT16(v) as_float((uint)(v) << 16)
#define as_half4(v) (v)
#define as_half16(v) (v)
#define as_short4(v) (v)
#define as_short16(v) (v)

#define UNPACK_1(v, p) ((p)[0] = (v))
#define UNPACK_4(v, p) vstore4(v, 0, p)
#define UNPACK_16(v, p) vstore16(v, 0, p)

#if MFMA
EMULATED(emulated_32x32x2, float16, float, float, 32, 2, 1, 16, EMULATED_FLOAT)
EMULATED(emulated_16x16x4, float4, float, float, 16, 4, 1, 4, EMULATED_FLOAT)
EMULATED(emulated_32x32x8_half, float16, ushort4, ushort, 32, 8, 4, 16, emulated_half)
EMULATED(emulated_16x16x16_half, float4, ushort4, ushort, 16, 16, 4, 4, emulated_half)
EMULATED(emulated_32x32x8_bfloat16, float16, ushort4, ushort, 32, 8, 4, 16, EMULATED_BFLOAT16)
EMULATED(emulated_16x16x16_bfloat16, float4, ushort4, ushort, 16, 16, 4, 4, EMULATED_BFLOAT16)
#define __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, x, y, z) emulated_32x32x2(a, b, c, emulated)
#define __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, x, y, z) emulated_16x16x4(a, b, c, emulated)
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z) emulated_32x32x8_half(a, b, c, emulated)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) emulated_16x16x16_half(a, b, c, emulated)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) emulated_32x32x8_bfloat16(a, b, c, emulated)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) emulated_16x16x16_bfloat16(a, b, c, emulated)
#else
EMULATED(emulated_wmma_half, float8, ushort16, ushort, 16, 16, 16, 8, emulated_half)
EMULATED(emulated_wmma_bfloat16, float8, ushort16, ushort, 16, 16, 16, 8, EMULATED_BFLOAT16)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) emulated_wmma_half(a, b, c, emulated)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) emulated_wmma_bfloat16(a, b, c, emulated)
#endif
