/* Where a convolution's operands lie, seen as matrices: numbers of filter taps and of pixels to places, for kernels that
 * gather them.  CHANNELS_LAST: the image's channels are contiguous, and a filter's terms are counted (tap, channel).
 */
#include "include/quotient.h"
#include "conv/gpu/implicit_args.h"

/* A filter's channel and tap (x: channel, yzw: tap along d h w). */
static inline int4 tap_of(int q, const mx_gather *g)
{
#if CHANNELS_LAST
    const int t = mx_quotient(q, g->by_channels), c = q - t * g->channels;
#else
    const int c = mx_quotient(q, g->by_taps), t = q - c * g->taps;
#endif
    const int d = mx_quotient(t, g->by_taps_hw), rest = t - d * g->taps_hw, h = mx_quotient(rest, g->by_taps_w);
    return (int4)(c, d, h, rest - h * g->taps_w);
}

/* A pixel's image and place (x: image, yzw: place along d h w of the grid). */
static inline int4 pixel_of(int p, const mx_gather *g)
{
    const int n = mx_quotient(p, g->by_pixels), rest = p - n * g->pixels, d = mx_quotient(rest, g->by_hw);
    const int of = rest - d * g->hw, h = mx_quotient(of, g->by_w);
    return (int4)(n, d, h, of - h * g->w);
}

/* The offset of what a pixel meets at a tap in the image, -1 outside of it. */
static inline int gather_place(int4 pixel, int4 tap, const mx_gather *g)
{
    const int d = pixel.y * g->step[0] + g->first[0] + tap.y * g->tap[0];
    const int h = pixel.z * g->step[1] + g->first[1] + tap.z * g->tap[1];
    const int w = pixel.w * g->step[2] + g->first[2] + tap.w * g->tap[2];
    if ((uint)d >= (uint)g->len[0] || (uint)h >= (uint)g->len[1] || (uint)w >= (uint)g->len[2])
        return -1;
    return pixel.x * g->i_n + tap.x * g->i_c + d * g->i_at[0] + h * g->i_at[1] + w * g->i_at[2];
}

/* The offset of a tap, or a pixel, in a tensor with the strides `at`, `outer` for its channel or image. */
#define PLACE(v, outer, at) ((v).x * (outer) + (v).y * (at)[0] + (v).z * (at)[1] + (v).w * (at)[2])

/* Along which axis of a slice neighbouring work-items load, so that they load neighbours in memory: A's is the other
 * factor, B's the image. */
#if DIRECTION == 2
#define A_ALONG_K (!CHANNELS_LAST)
#define B_ALONG_K (!CHANNELS_LAST)
#else
#define A_ALONG_K 1
#define B_ALONG_K CHANNELS_LAST
#endif

/* A work-group's tile of C: columns from n and rows from m on, of a group of channels; the terms of its split. */
typedef struct {
    int n, m, group, split, first, end;
} mx_gather_tile;

static inline mx_gather_tile gather_tile(int number, int rows, int columns, const mx_gather *g)
{
    mx_gather_tile t;
    t.n = number % g->across * columns;
    number /= g->across;
    t.m = number % g->down * rows;
    number /= g->down;
    t.group = number % g->groups, t.split = number / g->groups;
    t.first = t.split * g->each, t.end = min(g->k, t.first + g->each);
    return t;
}
