/* Which tile a number of mx_nv_tiles means, and where in y its pixels and filters are.
 * Expects BP and BF, the pixels and filters of a tile, PHASES and AXES, and MERGED where there is that.  After
 * conv/nvidia/hopper.h.
 *
 * INTERLEAVED: the phases of a tile follow each other, so that what they share of x is still in the second-level cache.  A
 * group that goes on by a number of tiles that has no divisor in common with PHASES meets all of them.
 */
#ifndef INTERLEAVED
#define INTERLEAVED 0
#endif
#ifndef MERGED
#define MERGED 0
#endif

typedef struct {
    mx_nv_phase phase;
    int group, m0, n0; /* the first pixel and filter */
} mx_nv_tile;

static inline mx_nv_tile mx_tile(int tile, const mx_nv_tiles *o)
{
#if INTERLEAVED
    const int rest = tile / PHASES, phase = tile - rest * PHASES;
#else
    const int phase = PHASES > 1 ? mx_quotient(tile, o->by_tiles) : 0, rest = tile - phase * o->tiles;
#endif
    const int above = mx_quotient(rest, o->by_across), group = mx_quotient(above, o->by_down);
    const mx_nv_tile found = {
        o->phases[phase], group, (above - group * o->down) * BP, (rest - above * o->across) * BF};
    return found;
}

/* Offsets in y of a pixel and of a filter, -1 behind the last. */
#if AXES == 3
#define MX_PROBLEM mx_nv_volume
#define MX_GIVEN volume
#define MX_CONV(problem) (&(problem)->conv)

static inline int mx_pixel_in_y(int m, const mx_nv_volume *v)
{
    const mx_nv_conv *g = &v->conv;
    const int n = mx_quotient(m, g->by_image), rest = m - n * (MX_BOTH(g->p) * g->q);
    const int row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
    const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p);
    return m < g->pixels ? n * g->y_n + o * v->y_d + p * g->y_h + q * g->y_w : -1;
}
#else
#define MX_PROBLEM mx_nv_conv
#define MX_GIVEN g
#define MX_CONV(problem) (problem)

static inline int mx_pixel_in_y(int m, const mx_nv_conv *g)
{
    const int n = mx_quotient(m, g->by_image), rest = m - n * (g->p * g->q);
    const int p = mx_quotient(rest, g->by_row), q = rest - p * g->q;
    return m < g->pixels ? n * g->y_n + p * g->y_h + q * g->y_w : -1;
}
#endif

static inline int mx_image_of(int m, const MX_PROBLEM *g)
{
    return mx_quotient(m, MX_CONV(g)->by_image);
}

static inline int mx_filter_in_y(int k, const MX_PROBLEM *g)
{
#if MERGED
    /* y_d, y_h and y_w lead from one pixel of a phase to its next. */
    const int phase = k / MERGED, row = phase / MERGED_W, w = phase - row * MERGED_W;
    const int d = row / MERGED_H, h = row - d * MERGED_H;
    const int phase_at = d * (g->y_d / MERGED_D) + h * (g->conv.y_h / MERGED_H) + w * (g->conv.y_w / MERGED_W);
    return k < g->conv.filters ? phase_at + (k - phase * MERGED) * g->conv.y_c : -1;
#else
    return k < MX_CONV(g)->filters ? k * MX_CONV(g)->y_c : -1;
#endif
}
