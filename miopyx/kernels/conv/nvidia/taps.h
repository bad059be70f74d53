/* Which taps of a pixel are inside x, as bits of a word.  After conv/nvidia/conv_args.h.
 */
#include "conv/nvidia/volume.h"

#ifndef LONG_TAPS
#define LONG_TAPS 0
#endif
#define MX_NO_TAP 0x80000000u
#if AXES == 3
/* Which taps of a pixel are inside x: bit i says so of tap i across, bit 10 + i down, bit 20 + i along the depth; for
 * up to 10 taps each way.  A tap asks for three bits, MX_NO_TAP for one that no pixel has. */
#define MX_TAP_IN_DEPTH(tap_d, tap_h, tap_w) (1u << 20 << (tap_d) | 1u << 10 << (tap_h) | 1u << (tap_w))
static inline uint mx_taps_along(int first, int length, int taps, int step)
{
    if (step == 1)
        return 0x3ffu << clamp(-first, 0, 10) & ~(0x3ffu << clamp(length - first, 0, 10)) & 0x3ff;
    uint inside = 0;
#pragma unroll 1
    for (int i = 0; i < taps; i++)
        inside |= (uint)((uint)(first + i * step) < (uint)length) << i;
    return inside;
}
static inline uint mx_taps_in_depth(int d, int h, int w, int taps_h, int taps_w, const mx_nv_conv *g)
{
    return mx_taps_along(d, MX_DEEP(g->h), MX_DEEP(taps_h), MX_DEEP(g->tap_h)) << 20
           | mx_taps_along(h, MX_ROW(g->h), MX_ROW(taps_h), MX_ROW(g->tap_h)) << 10
           | mx_taps_along(w, g->w, taps_w, g->tap_w);
}
#elif LONG_TAPS
/* Of filters of one row with up to 30 taps: bit i says so of tap i across, bit 30 of the row. */
#define MX_TAP(tap_h, tap_w) (1u << 30 | 1u << (tap_w))
static inline uint mx_taps_beside(int h, int w, const mx_nv_conv *g)
{
    const uint all = 0x3fffffffu;
    const uint across = all << clamp(-w, 0, 30) & ~(all << clamp(g->w - w, 0, 30)) & all;
    return ((uint)h < (uint)g->h ? 1u << 30 : 0) | across;
}
static inline uint mx_taps_inside(int h, int w, int taps_h, int taps_w, const mx_nv_conv *g)
{
    if (g->tap_w == 1)
        return mx_taps_beside(h, w, g);
    uint inside = (uint)h < (uint)g->h ? 1u << 30 : 0;
#pragma unroll 1
    for (int i = 0; i < taps_w; i++)
        inside |= (uint)((uint)(w + i * g->tap_w) < (uint)g->w) << i;
    return inside;
}
#else
/* Which taps of a pixel are inside x: bit i says so of tap i across, bit 16 + i down; for less than 16 taps either way.
 * A tap asks for two bits, MX_NO_TAP for one that no pixel has. */
#define MX_TAP(tap_h, tap_w) (65536u << (tap_h) | 1u << (tap_w))
static inline uint mx_taps_beside(int h, int w, const mx_nv_conv *g)
{
    const uint down = 0xffffu << clamp(-h, 0, 16) & ~(0xffffu << clamp(g->h - h, 0, 16)) & 0x7fff;
    const uint across = 0xffffu << clamp(-w, 0, 16) & ~(0xffffu << clamp(g->w - w, 0, 16)) & 0x7fff;
    return down << 16 | across;
}
static inline uint mx_taps_inside(int h, int w, int taps_h, int taps_w, const mx_nv_conv *g)
{
    if (g->tap_h == 1 && g->tap_w == 1)
        return mx_taps_beside(h, w, g);
    uint inside = 0;
#pragma unroll 1
    for (int i = 0; i < taps_h; i++)
        inside |= (uint)((uint)(h + i * g->tap_h) < (uint)g->h) << (16 + i);
#pragma unroll 1
    for (int i = 0; i < taps_w; i++)
        inside |= (uint)((uint)(w + i * g->tap_w) < (uint)g->w) << i;
    return inside;
}
#endif
