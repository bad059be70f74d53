/* What the kernels of convolutions with channels last share: the problem, its phases, and vectors that are stored.
 *
 * VEC elements of ACC are a vector; whoever includes this defines both, and FILTER_TYPE, IN_TYPE and OUT_TYPE.
 */
#include "conv/cpu/implicit_nhwc_args.h"

typedef MX_JOIN(ACC, VEC) vec;
#define LOAD_VEC(p) MX_JOIN(vload, VEC)(0, p)
#define STORE_VEC(v, p) MX_JOIN(vstore, VEC)(v, 0, p)

/* One axis of the outputs that see the same taps: place i is output first + i * every; its tap j is tap
 * tap_first + j * tap_every of the filter and meets input in_first + i * in_every + j * in_tap. */
typedef struct {
    int count, first, every;
    int taps, tap_first, tap_every;
    int in_first, in_every, in_tap;
} axis_t;

/* Forward there is one phase, all outputs.  Backward, phase f of `step` has the outputs where (i + pad) % step == f. */
static inline axis_t axis_of(const mx_nhwc g, int a, int f, bool backward)
{
    axis_t x;
    x.first = 0;
    x.every = 1;
    x.count = g.out_len[a];
    x.taps = g.taps[a];
    x.tap_first = 0;
    x.tap_every = 1;
    x.in_first = -g.pad[a];
    x.in_every = g.step[a];
    x.in_tap = g.dilation[a];
    if (!backward)
        return x;
    const int step = g.step[a];
    x.in_every = 1;
    x.in_first = g.pad[a];
    x.in_tap = -g.dilation[a];
    if (step == 1)
        return x;
    x.every = step;
    x.first = (f - g.pad[a] % step + step) % step;
    x.count = x.first < g.out_len[a] ? (g.out_len[a] - x.first + step - 1) / step : 0;
    x.taps = 0;
    for (int r = 0; r < min(step, g.taps[a]); r++)
        if ((x.first + g.pad[a] - (long)r * g.dilation[a]) % step == 0) {
            if (x.taps == 0) {
                x.tap_first = r;
                x.in_first = (int)((x.first + g.pad[a] - (long)r * g.dilation[a]) / step);
                x.tap_every = step;
                x.taps = (g.taps[a] - r + step - 1) / step;
            } else if (x.tap_every == step) {
                x.tap_every = r - x.tap_first;
                x.taps = (g.taps[a] - x.tap_first + x.tap_every - 1) / x.tap_every;
            }
        }
    x.in_tap = -(int)((long)g.dilation[a] * x.tap_every / step);
    return x;
}

/* The first `count` elements at p, then zeros. */
static inline vec load_first(__global const STORAGE(IN_TYPE) *p, int count)
{
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = i < count ? (ACC)LOAD(IN_TYPE)(p, i) : (ACC)0;
    return LOAD_VEC(lanes);
}
