/* What the kernels for few channels share, after include/common.h and conv/nvidia/ptx.h: the axis k of all taps and
 * channels, and the pixels of x that a tile of 8 x 16 pixels of y reads, in `pixels[stage]` at address pixels_at.
 * They say THREADS before, the work-items of a group.
 */
#include "conv/nvidia/few_args.h"

#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef CHANNELS_LAST /* channels last in x and y */
#define CHANNELS_LAST 0
#endif
#ifndef STEPS /* of k */
#define STEPS 19
#endif
#ifndef TILE_ELEMENTS /* elements of x of a tile */
#define TILE_ELEMENTS 2816
#endif
#define WIDE (MX_TYPE(X_TYPE) == MX_TYPE_float)
/* OCP's float8, each number of which is a half: local memory has halves. */
#define EIGHT_BITS (MX_TYPE(X_TYPE) == MX_TYPE_e4m3 || MX_TYPE(X_TYPE) == MX_TYPE_e5m2)
#if EIGHT_BITS
#define MX_STAGED ushort
#else
#define MX_STAGED STORAGE(X_TYPE)
#endif
#define DEPTH (WIDE ? 8 : 16) /* of a step of k */
#define TILE_H 8
#define TILE_W 16
/* Loads of a work-item that are under way. */
#define LOADS_IN_FLIGHT (WIDE ? 4 : (TILE_ELEMENTS / THREADS + 1) / 2 < 8 ? (TILE_ELEMENTS / THREADS + 1) / 2 : 8)

/* Two numbers of a type as a word of 16 bits each; the first in the lower half. */
#define MX_TWO(T, first, second) MX_JOIN(MX_TWO_, T)((uint)(first), (uint)(second))
#define MX_TWO_half(first, second) ((first) | (second) << 16)
#define MX_TWO_bfloat16 MX_TWO_half
#define MX_TWO_e5m2(first, second) ((first) << 8 | (second) << 24)
#define MX_TWO_e4m3 mx_two_of_e4m3
#if EIGHT_BITS
static inline uint mx_two_of_e4m3(uint first, uint second)
{
    uint two;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"((ushort)(first | second << 8)));
    return two;
}
#endif

#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define FETCH(stage)                                                                                           \
    MX_COPY4(pixels_at + ((stage)*TILE_ELEMENTS + i) * 4, X + (valid ? at : 0), valid)
#else
#define FETCH(stage) values[l] = valid ? X[at] : (STORAGE(X_TYPE))0
#endif
#if EIGHT_BITS
#define PUT(stage)                                                                                                     \
    _Pragma("unroll") for (int l = 0; l < LOADS_IN_FLIGHT; l += 2)                                                     \
    {                                                                                                                  \
        const bool both_ = l + 1 < LOADS_IN_FLIGHT;                                                                    \
        const uint two_ = MX_TWO(X_TYPE, values[l], both_ ? values[both_ ? l + 1 : l] : 0);                            \
        if (i0 + l * THREADS < all)                                                                                    \
            pixels[stage][i0 + l * THREADS] = (ushort)two_;                                                            \
        if (both_ && i0 + (l + 1) * THREADS < all)                                                                     \
            pixels[stage][i0 + (l + 1) * THREADS] = (ushort)(two_ >> 16);                                              \
    }
#else
#define PUT(stage)                                                                                                     \
    _Pragma("unroll") for (int l = 0; l < LOADS_IN_FLIGHT; l++) if (i0 + l * THREADS < all)                            \
        pixels[stage][i0 + l * THREADS] = values[l];
#endif
#define MX_COPY_X(stage, number)                                                                                       \
    do {                                                                                                               \
        const int tile_ = (number), line_ = mx_quotient(tile_, g.by_across), n = mx_quotient(line_, g.by_down);        \
        const int h0 = (line_ - n * g.down) * TILE_H * g.step_h + g.first_h;                                           \
        const int w0 = ((tile_ - line_ * g.across) * TILE_W * g.step_w + g.first_w) * unit;                            \
        const int all = g.lines * g.pitch;                                                                             \
        _Pragma("unroll 1") for (int i0 = get_local_id(0); i0 < all; i0 += LOADS_IN_FLIGHT * THREADS)                  \
        {                                                                                                              \
            STORAGE(X_TYPE) values[LOADS_IN_FLIGHT];                                                                   \
            _Pragma("unroll") for (int l = 0; l < LOADS_IN_FLIGHT; l++)                                                \
            {                                                                                                          \
                const int i = i0 + l * THREADS, line = mx_quotient(i, g.by_pitch), e = i - line * g.pitch;             \
                const int c = CHANNELS_LAST ? 0 : mx_quotient(line, g.by_rows), h = h0 + line - c * g.rows;            \
                const bool valid = i < all && e < g.width && (uint)h < (uint)g.h                                       \
                                   && (uint)(w0 + e) < (uint)(g.w * unit);                                             \
                const int at = n * g.x_n + c * g.x_c + h * g.x_h + w0 + e;                                             \
                if (!WIDE || i < all)                                                                                  \
                    FETCH(stage);                                                                                      \
            }                                                                                                          \
            if (!WIDE)                                                                                                 \
                PUT(stage)                                                                                             \
        }                                                                                                              \
    } while (0)

/* The offset of k in x from a pixel's first element, and in w from a filter's, or -1.  Behind a run a neighbour is
 * read, which meets a weight of zero; behind the last run the first element of all. */
#define MX_LIST_K(to_x, to_w, w_c, w_h, w_w)                                                                           \
    do {                                                                                                               \
        for (int k_ = get_local_id(0); k_ < STEPS * DEPTH; k_ += THREADS) {                                            \
            const int line = mx_quotient(k_, g.by_run), e = k_ - line * g.run;                                         \
            const int c = CHANNELS_LAST ? e % g.channels : line / g.taps_h;                          \
            const int i = CHANNELS_LAST ? line : line - c * g.taps_h; \
            const int j = CHANNELS_LAST ? e / g.channels : e;                                                          \
            const bool valid = i < g.taps_h && c < g.channels && j < g.taps_w;                                         \
            to_w[k_] = valid ? c * (w_c) + i * (w_h) + j * (w_w) : -1;                                                 \
            const int row = (CHANNELS_LAST ? 0 : c * g.rows) + i * g.tap_h;                                            \
            const int column = CHANNELS_LAST ? j * g.tap_w * g.channels + c : j * g.tap_w;                             \
            to_x[k_] = i < g.taps_h && c < g.channels ? row * g.pitch + column : 0;                                    \
        }                                                                                                              \
    } while (0)
