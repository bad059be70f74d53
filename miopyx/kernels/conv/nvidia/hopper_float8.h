/* conv/nvidia/hopper.cl with operands of 8 bits, OCP's: how sums are promoted, and how they go to y.
 *
 * X_TYPE and W_TYPE are e4m3 or e5m2, Y_TYPE one of these, half, bfloat16 or float.  CHANNELS_LAST; no operand is
 * transposed, since wgmma takes these only along the summed axis.
 * wgmma keeps 14 bits of such sums: it shifts the 32 products of an instruction and what was there before to the largest
 * exponent among them and cuts off what is further than 13 bits behind.  So what it adds up is `fresh` for each slice, 128
 * numbers of K, and then added to the sums in float.
 * Of 64 columns of the product, column mx_permuted(k) is filter k, so that a work-item has 16 neighbours in y.  VEC of
 * them, PIECE bytes, are stored at once.  AT_RANDOM: as `rounding` says, by the element's offset in the whole tensor,
 * whose element `part_at` is Y's first; else to nearest.
 */
#include "conv/nvidia/epilogue.h"
#ifndef W_TYPE
#define W_TYPE X_TYPE
#endif
#include "conv/nvidia/round.h"
#ifndef PIECE
#define PIECE 1
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
#define WORDS MX_WORDS(16) /* of sixteen neighbours in y */

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

/* Inlined twice: `plain` says that alpha is 1, beta 0 and y aligned.  `y_at`: elements from Y to y. */
static inline __attribute__((always_inline)) void mx_store_tile(
    float (*sums)[WN / 2], __global MX_STORED *y, int m0, int n0, const MX_PROBLEM *g, float alpha, float beta,
    bool plain, int warpgroup, long rounding, long part_at, int y_at)
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
            mx_round_run(words, values, 16, rounding, part_at, y_at + to);
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
