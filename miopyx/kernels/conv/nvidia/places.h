/* Backward weights: where the pixels that are summed over lie in dy and in x.  After conv/nvidia/ptx.h and taps.h.
 */
#ifndef DILATED /* 1: taps are not next to each other */
#define DILATED 0
#endif

static inline int mx_from_lane(int value, int lane)
{
    int other;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(lane));
    return other;
}

/* A pixel's offset in dy, -1 behind the last, its first tap's in x, and which of its taps are inside. */
typedef struct {
    int y, x;
    uint taps;
} mx_nv_places;

#if AXES == 3
static inline mx_nv_places mx_places(int pixel, int y_group, int x_group, const mx_nv_volume *v)
{
    const mx_nv_conv *g = &v->conv;
    const int n = mx_quotient(pixel, g->by_image), rest = pixel - n * (MX_BOTH(g->p) * g->q);
    const int row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
    const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p);
    const int d = o * MX_DEEP(g->step_h) + MX_DEEP(g->first_h), h = p * MX_ROW(g->step_h) + MX_ROW(g->first_h);
    const int w = q * g->step_w + g->first_w;
    const uint taps = mx_taps_in_depth(d, h, w, g->taps_h, g->taps_w, g);
    const mx_nv_places found = {pixel < g->pixels ? y_group + n * g->y_n + o * v->y_d + p * g->y_h + q * g->y_w : -1,
                                x_group + n * g->x_n + d * v->x_d + h * g->x_h + w * g->x_w,
                                pixel < g->pixels ? taps : 0};
    return found;
}
#else
static inline mx_nv_places mx_places(int pixel, int y_group, int x_group, const mx_nv_conv *g)
{
    const int n = mx_quotient(pixel, g->by_image), rest = pixel - n * (g->p * g->q);
    const int p = mx_quotient(rest, g->by_row), q = rest - p * g->q;
    const int h = p * g->step_h + g->first_h, w = q * g->step_w + g->first_w;
    const uint taps = DILATED ? mx_taps_inside(h, w, g->taps_h, g->taps_w, g) : mx_taps_beside(h, w, g);
    const mx_nv_places found = {pixel < g->pixels ? y_group + n * g->y_n + p * g->y_h + q * g->y_w : -1,
                                x_group + n * g->x_n + h * g->x_h + w * g->x_w, pixel < g->pixels ? taps : 0};
    return found;
}
#endif

#if AXES == 3
#define MX_PROBLEM mx_nv_volume
#define MX_GIVEN volume
#else
#define MX_PROBLEM mx_nv_conv
#define MX_GIVEN g
#endif
