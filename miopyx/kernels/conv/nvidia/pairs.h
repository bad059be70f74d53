/* Floats as pairs of halves, for wgmma: value * scale = hi + lo / 2048, 11 bits each, and a product is hi hi +
 * (hi lo + lo hi) / 2048.  `scale` is a power of two that takes the largest of a row of 64 to [2^14, 2^15); so what is
 * up to 2^29 times less keeps all 22 bits, and below that an error of 2^-50 of the largest is left.
 * ROUNDED: hi alone, for problems that allow that: one product for three, errors of 2^-11 of each factor.
 * After conv/nvidia/ptx.h, and conv/nvidia/wgmma.h where they are multiplied.
 */
#include "conv/nvidia/volume.h"

#ifndef ROUNDED
#define ROUNDED 0
#endif
#ifndef AT_ONCE /* channels that are loaded at once where addresses allow: 1, or 4 contiguous ones */
#define AT_ONCE 1
#endif
#define BLOCK_BYTES (64 * ROW_BYTES)
#define MX_PARTS (ROUNDED ? 1 : 2) /* of an operand in local memory: hi, and lo behind it */
#define MX_LO 2048.0f

/* The scale of a row whose largest value has exponent `e`, 29 at least, which keeps the inverse a normal number. */
static inline float mx_pair_scale(uint e)
{
    return as_float((268u - e) << 23);
}

/* The largest of a warp. */
static inline uint mx_most(uint value)
{
    uint most;
    asm("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(value));
    return most;
}

/* Two floats, already scaled, as words of hi and of lo times `by`; the first in the lower half. */
static inline uint2 mx_pair_times(float a, float b, float by)
{
    uint2 pair;
    float hi_a, hi_b;
    MX_ROUND_PAIR(pair.x, a, b);
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
        : "=f"(hi_a), "=f"(hi_b) : "r"(pair.x));
    a = (a - hi_a) * by;
    b = (b - hi_b) * by;
    MX_ROUND_PAIR(pair.y, a, b);
    return pair;
}

static inline uint2 mx_pair(float a, float b)
{
    return mx_pair_times(a, b, MX_LO);
}

/* Two numbers of a row, scaled and stored: hi, and lo `beside` bytes further on. */
static inline void mx_store_pair(uint to, int beside, float a, float b)
{
    uint2 pair;
    if (ROUNDED) {
        MX_ROUND_PAIR(pair.x, a, b);
    } else
        pair = mx_pair(a, b);
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(pair.x) : "memory");
    if (!ROUNDED)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + beside), "r"(pair.y) : "memory");
}

/* The same of eight, of one row. */
static inline __attribute__((always_inline)) void mx_store_pairs(uint to, int beside, const float *v, float scale)
{
    uint2 pairs[4];
#pragma unroll
    for (int l = 0; l < 4; l++) {
        const float a = v[l * 2] * scale, b = v[l * 2 + 1] * scale;
        if (ROUNDED) {
            MX_ROUND_PAIR(pairs[l].x, a, b);
        } else
            pairs[l] = mx_pair(a, b);
    }
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(pairs[0].x), "r"(pairs[1].x),
                 "r"(pairs[2].x), "r"(pairs[3].x) : "memory");
    if (!ROUNDED)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to + beside), "r"(pairs[0].y),
                     "r"(pairs[1].y), "r"(pairs[2].y), "r"(pairs[3].y) : "memory");
}

/* slice_sums (64 x 2 COUNT floats) = the products of a slice: rows of A at a_hi and a_lo, columns of B likewise. */
#if ROUNDED
#define MX_MULTIPLY_PAIRS(WGMMA, slice_sums, COUNT, a_hi, a_lo, b_hi, b_lo)                                            \
    do {                                                                                                               \
        MX_WG_PUBLISH();                                                                                               \
        MX_WG_FENCE();                                                                                                 \
        WGMMA(slice_sums, a_hi, b_hi, "0", "0, 0");                                                                    \
        _Pragma("unroll") for (int k = 2; k < 8; k += 2)                                                               \
            WGMMA(slice_sums, (a_hi) + k, (b_hi) + k, "1", "0, 0");                                                    \
        MX_WG_COMMIT();                                                                                                \
        MX_WG_WAIT(0);                                                                                                 \
        _Pragma("unroll") for (int j = 0; j < (COUNT); j++)                                                            \
            MX_WG_HOLD(slice_sums[j]);                                                                                 \
    } while (0)
#else
#define MX_MULTIPLY_PAIRS(WGMMA, slice_sums, COUNT, a_hi, a_lo, b_hi, b_lo)                                            \
    do {                                                                                                               \
        MX_WG_PUBLISH();                                                                                               \
        MX_WG_FENCE();                                                                                                 \
        WGMMA(slice_sums, a_hi, b_lo, "0", "0, 0");                                                                    \
        WGMMA(slice_sums, a_lo, b_hi, "1", "0, 0");                                                                    \
        _Pragma("unroll") for (int k = 2; k < 8; k += 2) {                                                             \
            WGMMA(slice_sums, (a_hi) + k, (b_lo) + k, "1", "0, 0");                                                    \
            WGMMA(slice_sums, (a_lo) + k, (b_hi) + k, "1", "0, 0");                                                    \
        }                                                                                                              \
        MX_WG_COMMIT();                                                                                                \
        MX_WG_WAIT(0);                                                                                                 \
        _Pragma("unroll") for (int j = 0; j < (COUNT); j++) {                                                          \
            MX_WG_HOLD(slice_sums[j]);                                                                                 \
            slice_sums[j] *= 1 / MX_LO;                                                                                \
        }                                                                                                              \
        MX_WG_FENCE();                                                                                                 \
        _Pragma("unroll") for (int k = 0; k < 8; k += 2)                                                               \
            WGMMA(slice_sums, (a_hi) + k, (b_hi) + k, "1", "0, 0");                                                    \
        MX_WG_COMMIT();                                                                                                \
        MX_WG_WAIT(0);                                                                                                 \
        _Pragma("unroll") for (int j = 0; j < (COUNT); j++)                                                            \
            MX_WG_HOLD(slice_sums[j]);                                                                                 \
    } while (0)
#endif

/* A float of global memory, 0 where it is not `valid`; the pointer moves on by `step` bytes.  Loaded here and now: the
 * order of loads is the kernel's, and nobody multiplies where an addition does. */
static inline float mx_fetch(ulong *from, long step, bool valid)
{
    float value;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.b32 %0, 0; @p ld.global.nc.f32 %0, [%1]; "
                 "add.s64 %1, %1, %3; }"
                 : "=f"(value), "+l"(*from) : "r"((int)valid), "l"(step));
    return value;
}

/* Four neighbours, likewise, of an address that is a multiple of 16 bytes. */
static inline void mx_fetch_four(float *values, ulong *from, bool valid)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; "
                 "@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; add.s64 %4, %4, 16; }"
                 : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3]), "+l"(*from) : "r"((int)valid));
}

/* Whether all of `count` sums are finite numbers, without a branch for each: 0 times anything else is no number. */
#define MX_FINITE(finite, sums, count)                                                                                \
    do {                                                                                                              \
        float nought[4] = {0, 0, 0, 0};                                                                               \
        _Pragma("unroll") for (int j = 0; j < (count); j++)                                                           \
            nought[j & 3] = fma(sums[j], 0.0f, nought[j & 3]);                                                        \
        finite = nought[0] + nought[1] + nought[2] + nought[3] == 0;                                                  \
    } while (0)

/* Packed weights begin at the first multiple of 16 bytes. */
static inline __global uint4 *mx_packed(__global float *from)
{
    return (__global uint4 *)((ulong)from + 15 & ~15ul);
}
