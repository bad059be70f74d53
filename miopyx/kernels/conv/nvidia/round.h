/* Runs of float32 results, neighbours in y, as words of Y_TYPE: e4m3 or e5m2, half, bfloat16 or float, to nearest even
 * or, of 8 bits with AT_RANDOM, as `rounding` says by the element's offset in the whole tensor, of which y has elements
 * `part_at` and up: a multiple of 4, and all below 2^34, where mx_random has other seeds.  `at`: the first one's offset in
 * y.  `count`, a multiple of 4, is known when kernels are compiled.  VEC: what divides offsets in y.  mx_round_finite, in
 * place of mx_round_run, is for callers that see to what is infinite or NaN themselves.
 */
#ifndef Y_TYPE
#define Y_TYPE X_TYPE
#endif
#ifndef AT_RANDOM
#define AT_RANDOM 0
#endif
#define MX_WORDS(count) ((count) * (int)sizeof(STORAGE(Y_TYPE)) / 4)

#if MX_TYPE(Y_TYPE) == MX_TYPE_e4m3 || MX_TYPE(Y_TYPE) == MX_TYPE_e5m2
#if MX_TYPE(Y_TYPE) == MX_TYPE_e4m3
#define FRACTION 3
#else
#define FRACTION 2
#endif

/* One after the other: where something is infinite or NaN. */
static inline __attribute__((always_inline)) void mx_round_each(uint *words, float *values, int count, long rounding,
                                                               long part_at, int at)
{
#pragma unroll 1
    for (int l = 0; l < count; l++) {
        const uint code = mx_to_float8(values[0], FRACTION, 1, rounding, part_at + at + l);
#pragma unroll
        for (int i = 0; i < count / 4; i++)
            words[i] = words[i] >> 8 | (i + 1 < count / 4 ? words[i + 1] : code) << 24;
#pragma unroll
        for (int i = 0; i < count - 1; i++)
            values[i] = values[i + 1];
    }
}

static inline uint mx_two_bytes(float first, float second)
{
    ushort two;
    asm("cvt.rn.satfinite." MX_TEXT(Y_TYPE) "x2.f32 %0, %1, %2;" : "=h"(two) : "f"(second), "f"(first));
    return two;
}

/* Where what is finite is rounded at random, as mx_to_float8 does: SMALLER makes y's least normal number that of floats, so
 * that normal numbers and others have y's bits and `cut` more. */
#if FRACTION == 3
#define SMALLER 0x1p-120f
#define LARGER 0x1p120f
#else
#define SMALLER 0x1p-112f
#define LARGER 0x1p112f
#endif
static inline __attribute__((always_inline)) void mx_round_finite(uint *words, float *values, int count, long rounding,
                                                                 long part_at, int at)
{
#if AT_RANDOM
    const int cut = 23 - FRACTION;
    const uint seed = mx_scramble((uint)(rounding - 1)) + (uint)(part_at >> 2);
    uint word = 0;
#pragma unroll
    for (int l = 0; l < count; l++) {
        /* VEC divides offsets in y. */
        if (VEC % 4 != 0 || l % 4 == 0)
            word = mx_scramble(((uint)(at + l) >> 2) + seed);
        const uint up = rotate(word, 8 * (VEC % 4 != 0 ? (uint)(at + l) & 3 : l % 4)) >> (32 - cut);
        values[l] = as_float(as_uint(values[l] * SMALLER) + up & ~((1u << cut) - 1)) * LARGER;
    }
#endif
#pragma unroll
    for (int i = 0; i < count / 4; i++)
        words[i] = mx_two_bytes(values[i * 4], values[i * 4 + 1])
                        | mx_two_bytes(values[i * 4 + 2], values[i * 4 + 3]) << 16;
}

static inline __attribute__((always_inline)) void mx_round_run(uint *words, float *values, int count, long rounding,
                                                              long part_at, int at)
{
    float beyond = 0; /* NaN where a value is infinite, which the instruction makes finite, or NaN */
#pragma unroll
    for (int l = 0; l < count; l++)
        beyond = fma(values[l], 0.0f, beyond);
    if (beyond != beyond)
        mx_round_each(words, values, count, AT_RANDOM ? rounding : 0, part_at, at);
    else
        mx_round_finite(words, values, count, rounding, part_at, at);
}
#else
#define mx_round_finite mx_round_run
static inline __attribute__((always_inline)) void mx_round_run(uint *words, float *values, int count, long rounding,
                                                              long part_at, int at)
{
#if MX_TYPE(Y_TYPE) == MX_TYPE_float
#pragma unroll
    for (int l = 0; l < count; l++)
        words[l] = as_uint(values[l]);
#else
#if MX_TYPE(Y_TYPE) == MX_TYPE_half
#define MX_PTX_STORED "f16"
#else
#define MX_PTX_STORED "bf16"
#endif
#pragma unroll
    for (int i = 0; i < count / 2; i++)
        asm("cvt.rn." MX_PTX_STORED "x2.f32 %0, %1, %2;"
            : "=r"(words[i]) : "f"(values[i * 2 + 1]), "f"(values[i * 2]));
#endif
}
#endif
