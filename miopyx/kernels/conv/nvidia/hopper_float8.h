/* conv/nvidia/hopper.cl with operands of 8 bits, OCP's: how sums are promoted, and how they go to y.
 *
 * X_TYPE and W_TYPE are e4m3 or e5m2, Y_TYPE one of these, half, bfloat16 or float.  CHANNELS_LAST; no operand is
 * transposed, since wgmma takes these only along the summed axis.
 * wgmma keeps 14 bits of such sums: it shifts the 32 products of an instruction and what was there before to the largest
 * exponent among them and cuts off what is further than 13 bits behind.  So what it adds up is `fresh` for each slice, 128
 * numbers of K, and then added to the sums in float.
 * Of 64 columns of the product, column mx_permuted(k) is filter k, so that a work-item has 16 neighbours in y.  VEC of
 * them, PIECE bytes, are stored at once.  AT_RANDOM: as `rounding` says, by the element's offset in y, else to nearest.
 */
#include "conv/nvidia/epilogue.h"
#ifndef W_TYPE
#define W_TYPE X_TYPE
#endif
#ifndef Y_TYPE
#define Y_TYPE X_TYPE
#endif
#ifndef PIECE
#define PIECE 1
#endif
#ifndef AT_RANDOM
#define AT_RANDOM 0
#endif

/* Three warpgroups that multiply have 128 registers each when they begin, two have 168. */
#define MANY_SUMS (CONSUMERS == 3)
#define CONSUMER_REGISTERS 152

/* The caller arrives at the last stage's barrier. */
#define MX_MULTIPLY_SLICES(sums, count)                                                                               \
    float fresh[WN / 2];                                                                                              \
    _Pragma("unroll") for (int j = 0; j < WN / 2; j++)                                                                \
        fresh[j] = 0;                                                                                                 \
    for (int slice = 0; slice < (count); slice++) {                                                                   \
        mx_barrier_wait(full + 8 * stage, parity);                                                                    \
        MX_WG_PUBLISH();                                                                                              \
        _Pragma("unroll") for (int i = 0; i < WG_ROWS; i++) {                                                         \
            MX_WG_FENCE();                                                                                            \
            MX_MULTIPLY_STEP(i, 0, "0");                                                                              \
            _Pragma("unroll") for (int k = 1; k < 4; k++)                                                             \
                MX_MULTIPLY_STEP(i, k, "1");                                                                          \
            MX_WG_COMMIT();                                                                                           \
            MX_WG_WAIT(0);                                                                                            \
            if (i == WG_ROWS - 1 && lane == 0 && slice + 1 < (count))                                                 \
                mx_barrier_arrive(empty + 8 * stage);                                                                 \
            _Pragma("unroll") for (int j = 0; j < WN / 2; j++)                                                        \
                MX_WG_HOLD(fresh[j]);                                                                                 \
            _Pragma("unroll") for (int j = 0; j < WN / 2; j++)                                                        \
                (sums)[i][j] += fresh[j];                                                                             \
        }                                                                                                             \
        before = empty + 8 * stage;                                                                                   \
        if (++stage == STAGES)                                                                                        \
            stage = 0, parity ^= 1;                                                                                   \
    }
#define MX_MULTIPLY_STEP(i, k, keep)                                                                                  \
    WGMMA(fresh, a_matrix + ((A_AT + (i)*BLOCK_BYTES + (k)*A_STEP) >> 4), b_matrix + ((B_AT + (k)*B_STEP) >> 4), keep, \
          TRANS)

/* Filter row0 + 16 i of a block is MX_PERMUTED_ROWS(i) rows further on, and its chunks swap accordingly. */
static inline int mx_permuted(int k)
{
    return (k & ~63) + (k % 16 / 2) * 8 + k % 64 / 16 * 2 + k % 2;
}
#define MX_PERMUTED_ROWS(i) ((i) / 4 * 64 + (i) % 4 * 2)
#define MX_PERMUTED_CHUNKS(i) ((i) % 4 * 32)

#define MX_STORED STORAGE(Y_TYPE)
#define WORDS (4 * (int)sizeof(MX_STORED)) /* of sixteen neighbours in y */

/* Piece l of words, and element l. */
#if PIECE == 16
#define MX_PIECE uint4
#define MX_PIECE_OF(w, l) (uint4)((w)[(l)*4], (w)[(l)*4 + 1], (w)[(l)*4 + 2], (w)[(l)*4 + 3])
#elif PIECE == 8
#define MX_PIECE uint2
#define MX_PIECE_OF(w, l) (uint2)((w)[(l)*2], (w)[(l)*2 + 1])
#elif PIECE == 4
#define MX_PIECE uint
#define MX_PIECE_OF(w, l) (w)[l]
#elif PIECE == 2
#define MX_PIECE ushort
#define MX_PIECE_OF(w, l) (ushort)((w)[(l) / 2] >> (l) % 2 * 16)
#else
#define MX_PIECE uchar
#define MX_PIECE_OF(w, l) (uchar)((w)[(l) / 4] >> (l) % 4 * 8)
#endif
#if MX_TYPE(Y_TYPE) == MX_TYPE_float
#define MX_ELEMENT_OF(w, l) as_float((w)[l])
#else
#define MX_ELEMENT_OF(w, l) (MX_STORED)((w)[(l)*WORDS / 16] >> (l) % (16 / WORDS) * (2 * WORDS))
#endif

#if MX_TYPE(Y_TYPE) == MX_TYPE_e4m3 || MX_TYPE(Y_TYPE) == MX_TYPE_e5m2
#if MX_TYPE(Y_TYPE) == MX_TYPE_e4m3
#define FRACTION 3
#else
#define FRACTION 2
#endif

/* One after the other: where something is infinite or NaN. */
static inline __attribute__((always_inline)) void mx_round_each(uint *words, float *values, long rounding, int at)
{
#pragma unroll 1
    for (int l = 0; l < 16; l++) {
        const uint code = mx_to_float8(values[0], FRACTION, 1, rounding, at + l);
#pragma unroll
        for (int i = 0; i < 4; i++)
            words[i] = words[i] >> 8 | (i < 3 ? words[i < 3 ? i + 1 : 3] : code) << 24;
#pragma unroll
        for (int i = 0; i < 15; i++)
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
static inline __attribute__((always_inline)) void mx_round_run(uint *words, float *values, long rounding, int at)
{
    float beyond = 0; /* NaN where a value is infinite, which the instruction makes finite, or NaN */
#pragma unroll
    for (int l = 0; l < 16; l++)
        beyond = fma(values[l], 0.0f, beyond);
    if (beyond != beyond) {
        mx_round_each(words, values, AT_RANDOM ? rounding : 0, at);
        return;
    }
#if AT_RANDOM
    const int cut = 23 - FRACTION;
    const uint seed = mx_scramble((uint)(rounding - 1));
    uint word = 0;
#pragma unroll
    for (int l = 0; l < 16; l++) {
        /* VEC divides offsets in y. */
        if (VEC % 4 != 0 || l % 4 == 0)
            word = mx_scramble(((uint)(at + l) >> 2) + seed);
        const uint up = rotate(word, 8 * (VEC % 4 != 0 ? (uint)(at + l) & 3 : l % 4)) >> (32 - cut);
        values[l] = as_float(as_uint(values[l] * SMALLER) + up & ~((1u << cut) - 1)) * LARGER;
    }
#endif
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = mx_two_bytes(values[i * 4], values[i * 4 + 1])
                        | mx_two_bytes(values[i * 4 + 2], values[i * 4 + 3]) << 16;
}
#else
static inline __attribute__((always_inline)) void mx_round_run(uint *words, float *values, long rounding, int at)
{
#if MX_TYPE(Y_TYPE) == MX_TYPE_float
#pragma unroll
    for (int l = 0; l < 16; l++)
        words[l] = as_uint(values[l]);
#else
#if MX_TYPE(Y_TYPE) == MX_TYPE_half
#define MX_PTX_STORED "f16"
#else
#define MX_PTX_STORED "bf16"
#endif
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm("cvt.rn." MX_PTX_STORED "x2.f32 %0, %1, %2;"
            : "=r"(words[i]) : "f"(values[i * 2 + 1]), "f"(values[i * 2]));
#endif
}
#endif

/* Inlined twice: `plain` says that alpha is 1, beta 0 and y aligned.  `first`: where y begins in its tensor. */
static inline __attribute__((always_inline)) void mx_store_tile(
    float (*sums)[WN / 2], __global MX_STORED *y, int m0, int n0, const MX_PROBLEM *g, float alpha, float beta,
    bool plain, int warpgroup, long rounding, int first)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int row = warpgroup * WG_ROWS * 64 + (warp & 3) * 16 + (lane >> 2);
    int row_at[2 * WG_ROWS]; /* offsets in y, -1: none */
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++)
        row_at[i] = mx_pixel_in_y(m0 + row + i / 2 * 64 + i % 2 * 8, g);
    const bool wide = plain || ((ulong)y & (PIECE - 1)) == 0;
    /* 64 columns at a time, whose sums come to the front: unrolled it would miss the instruction cache. */
#pragma unroll 1
    for (int column = 0; column < WN; column += 64) {
        const int filter = n0 + column + (lane & 3) * 16, left = MX_CONV(g)->filters - filter;
#pragma unroll
        for (int i = 0; i < 2 * WG_ROWS; i++) {
            const int to = row_at[i] + filter;
            float values[16];
            uint words[WORDS];
#pragma unroll
            for (int l = 0; l < 16; l++) {
                values[l] = sums[i / 2][l / 2 * 4 + i % 2 * 2 + l % 2];
                if (!plain)
                    values[l] *= alpha;
                if (!plain && beta != 0 && row_at[i] >= 0 && l < left) /* where beta is 0, -0 stays */
                    values[l] += beta * LOAD(Y_TYPE)(y, to + l);
            }
            mx_round_run(words, values, rounding, first + to);
#pragma unroll
            for (int l = 0; l < 16; l += VEC)
                if (wide && row_at[i] >= 0 && l < left) /* VEC divides the filters */
                    *(__global MX_PIECE *)(y + to + l) = MX_PIECE_OF(words, l / VEC);
            if (!wide)
#pragma unroll
                for (int l = 0; l < 16; l++)
                    if (row_at[i] >= 0 && l < left)
                        y[to + l] = MX_ELEMENT_OF(words, l);
        }
#pragma unroll
        for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
            for (int j = 0; j < WN / 2 - 32; j++)
                sums[i][j] = sums[i][j + 32];
    }
}
