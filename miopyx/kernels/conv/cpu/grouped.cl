/* Grouped convolutions with few channels a group on CPU devices: y = alpha * x w + beta * y, or dx from dy.
 *
 * Shape: any lengths, strides (backward data: up to 8), pads and dilations, 1 to 3 spatial axes; conv/cpu/grouped.h
 * explains the modes.
 * Grid: local (1, 1, 1), global (tiles_h * tiles_w, groups / together, images * depth of the output).
 *
 *         q ->  tile_w
 *       +---------------+    A work-item, alone in its group: a tile of a slice of an image, for `together` groups.
 *     p |    tile_h     |    It copies the planes that the tile reads, with halo and padding, then computes `chunk`
 *       |   chunk rows  |    rows at a time: TILE outputs x WIDE vectors of sums in registers.
 *       +---------------+
 *
 * Memory: private planes of BUFFER elements and sums of RESULTS, sized for a core's caches; filters as
 * conv/cpu/grouped_pack.cl writes them.
 * Zeros of the padding are multiplied too.  No tile size changes a result's bits.
 * Bound by: loads of planes, one a multiply-add of few channels; with many images by copying them.
 */
#ifndef TILE /* outputs of a group at a time: 1, 2, 4 or 8 */
#define TILE 1
#endif
#ifndef WIDE /* vectors of positions at a time, 3 to 6 or 8, mode BLOCKS 10 or 14; TILE * WIDE sums stay in registers */
#define WIDE 8
#endif
#ifndef BUFFER /* elements of the planes that are read, and of those that are written */
#define BUFFER 65536
#endif
#ifndef RESULTS
#define RESULTS 32768
#endif
#include "conv/cpu/grouped.h"

#if MODE == CHANNELS || MODE == BLOCKS
#define LANES VEC
#else
#define LANES TILE
#endif
#if MODE == BLOCKS
#define EACH_INPUT VEC
#else
#define EACH_INPUT 1
#endif

/* The taps of a slice, sorted by the phases of the output that they belong to. */
typedef struct {
    int offset[TAPS_LIMIT], which[TAPS_LIMIT], first[65];
} taps_t;

/* What a run of vectors is summed over. */
typedef struct {
    int inputs, slices, plane, all; /* elements of a plane; taps of an input */
    const int *slice_tap;
    int each;                       /* taps of a slice */
} reach_t;

#if MODE == BLOCKS
static inline vec load_filters(__global const ACC *p)
{
    return *(__global const loose *)p;
}

/* A run of V positions. */
#define DEFINE_SUM(V)                                                                                     \
    NOINLINE void sum_##V(const ACC *restrict x, __global const ACC *restrict w, const reach_t *r, \
                                 const int *restrict offset, const int *restrict which, int taps,         \
                                 ACC *restrict to, int stride)                                            \
    {                                                                                                     \
        vec s[V];                                                                                         \
        _Pragma("unroll") for (int j = 0; j < V; j++)                                                     \
            s[j] = (vec)((ACC)0);                                                                         \
        for (int i = 0; i < r->inputs; i++, w += r->all * VEC * VEC)                                      \
            for (int z = 0; z < r->slices; z++, x += r->plane) {                                          \
                __global const ACC *wz = w + r->slice_tap[z] * r->each * VEC;                             \
                for (int t = 0; t < taps; t++) {                                                          \
                    const ACC *xt = x + offset[t];                                                        \
                    __global const ACC *wt = wz + which[t] * VEC;                                         \
                    _Pragma("unroll 2") for (int c = 0; c < VEC; c++, xt++, wt += r->all * VEC) {         \
                        const vec a = load_filters(wt);                                                   \
                        _Pragma("unroll") for (int j = 0; j < V; j++)                                     \
                            s[j] += a * (vec)(xt[j * VEC]);                                               \
                    }                                                                                     \
                }                                                                                         \
            }                                                                                             \
        _Pragma("unroll") for (int j = 0; j < V; j++)                                                     \
            VPUT(s[j], j, to);                                                                            \
    }
#define SHORT 5
#define DEFINE_WIDE(V) DEFINE_SUM(V)
DEFINE_SUM(1)
DEFINE_SUM(5)
DEFINE_WIDE(WIDE)

/* In runs of WIDE, or shorter ones; the last one begins sooner. */
static inline void sum_run(const ACC *x, __global const ACC *w, const reach_t *r, const taps_t *taps, int phase,
                           int vectors, ACC *to, int stride)
{
    const int first = taps->first[phase], count = taps->first[phase + 1] - first;
    const int *offset = taps->offset + first, *which = taps->which + first;
    const int most = vectors >= WIDE ? WIDE : vectors >= SHORT ? SHORT : 1;
    for (int v = 0; v < vectors; v += most) {
        const int at = min(v, vectors - most) * VEC;
        if (most == WIDE)
            MX_JOIN(sum_, WIDE)(x + at, w, r, offset, which, count, to + at, stride);
        else if (most == SHORT)
            sum_5(x + at, w, r, offset, which, count, to + at, stride);
        else
            sum_1(x + at, w, r, offset, which, count, to + at, stride);
    }
}
#else
/* TILE runs of V vectors, at a stride of `stride`. */
#define DEFINE_SUM(V)                                                                                     \
    NOINLINE void sum_##V(const ACC *restrict x, __global const ACC *restrict w, const reach_t *r, \
                               const int *restrict offset, const int *restrict which, int taps,           \
                               ACC *restrict to, int stride)                                              \
    {                                                                                                     \
        vec s[TILE][V];                                                                                   \
        _Pragma("unroll") for (int o = 0; o < TILE; o++)                                                  \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                 \
                s[o][j] = (vec)((ACC)0);                                                                  \
        for (int i = 0; i < r->inputs; i++, w += r->all * LANES)                                          \
            for (int z = 0; z < r->slices; z++, x += r->plane) {                                          \
                __global const ACC *wz = w + r->slice_tap[z] * r->each * LANES;                           \
                for (int t = 0; t < taps; t++) {                                                          \
                    const ACC *xt = x + offset[t];                                                        \
                    __global const ACC *wt = wz + which[t] * LANES;                                       \
                    vec a[TILE];                                                                          \
                    _Pragma("unroll") for (int o = 0; o < TILE; o++)                                      \
                        a[o] = WEIGHT(wt, o);                                                             \
                    _Pragma("unroll") for (int j = 0; j < V; j++) {                                       \
                        const vec v = VGET(j, xt);                                                        \
                        _Pragma("unroll") for (int o = 0; o < TILE; o++)                                  \
                            s[o][j] += a[o] * v;                                                          \
                    }                                                                                     \
                }                                                                                         \
            }                                                                                             \
        _Pragma("unroll") for (int o = 0; o < TILE; o++)                                                  \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                 \
                VPUT(s[o][j], j, to + o * stride);                                                        \
    }
#if MODE == CHANNELS
#define WEIGHT(p, o) (*(__global const loose *)(p))
#else
#define WEIGHT(p, o) ((vec)((p)[o]))
#endif
DEFINE_SUM(1)
DEFINE_SUM(2)
DEFINE_SUM(3)
#if WIDE > 3
DEFINE_SUM(4)
#endif
#if WIDE > 4
DEFINE_SUM(5)
#endif
#if WIDE > 5
DEFINE_SUM(6)
#endif
#if WIDE > 6
DEFINE_SUM(7)
DEFINE_SUM(8)
#endif

/* In runs of equal length, one more or less, of WIDE at most. */
static inline void sum_run(const ACC *x, __global const ACC *w, const reach_t *r, const taps_t *taps, int phase,
                           int vectors, ACC *to, int stride)
{
    const int first = taps->first[phase], count = taps->first[phase + 1] - first;
    const int *offset = taps->offset + first, *which = taps->which + first;
    const int runs = (vectors + WIDE - 1) / WIDE, least = vectors / runs, longer = vectors - least * runs;
    for (int run = 0; run < runs; run++) {
        const int n = least + (run < longer);
        switch (n) {
#define SUM_CASE(V)                                        \
    case V:                                                \
        sum_##V(x, w, r, offset, which, count, to, stride); \
        break;
#if WIDE > 6
            SUM_CASE(8)
            SUM_CASE(7)
#endif
#if WIDE > 5
            SUM_CASE(6)
#endif
#if WIDE > 4
            SUM_CASE(5)
#endif
#if WIDE > 3
            SUM_CASE(4)
#endif
            SUM_CASE(3)
            SUM_CASE(2)
            SUM_CASE(1)
        }
        x += n * VEC;
        to += n * VEC;
    }
}

#endif

static taps_t taps_of(const mx_grouped *g)
{
    taps_t t;
    int count = 0;
    const mx_planes *p = &g->planes;
    for (int a = 0; a < g->out_h; a++)
        for (int b = 0; b < g->out_w; b++) {
            t.first[a * g->out_w + b] = count;
            for (int r = 0; r < g->taps[1]; r++)
                for (int s = 0; s < g->taps[2]; s++) {
                    int h = r * g->dilation[1], w = s * g->dilation[2];
                    if (g->backward) {
                        if (h % g->out_h != a || w % g->out_w != b)
                            continue;
                        h = -(h / g->out_h) - g->least_h;
                        w = -(w / g->out_w) - g->least_w;
                    }
                    t.offset[count] = ((h % p->step_h * p->step_w + w % p->step_w) * p->sub
                                       + h / p->step_h * p->pitch + w / p->step_w) * EACH;
                    t.which[count++] = r * g->taps[2] + s;
                }
        }
    t.first[g->out_h * g->out_w] = count;
    return t;
}

/* `tile`, `set` and `slab` are the work-item's numbers. */
NOINLINE void compute_tile(__global const STORAGE(X_TYPE) *restrict in, __global const ACC *restrict w,
                           __global STORAGE(X_TYPE) *restrict out, const mx_grouped *grouped, int tile, int set,
                           int slab, EPILOGUE_PARAMS)
{
    const mx_grouped g = *grouped;
    vec buffer[BUFFER / VEC], summed[RESULTS / VEC];
    ACC *packed = (ACC *)buffer, *results = (ACC *)summed;
    int slice[DEPTH_LIMIT], slice_tap[DEPTH_LIMIT];

    const int image = slab / g.output.depth, d = slab % g.output.depth;
    const int t0 = tile / g.tiles_w * g.tile_h, q0 = tile % g.tiles_w * g.tile_w;
    const int rows = min(g.tile_h, g.grid_h - t0), columns = min(g.tile_w, g.grid_w - q0);
    const int group = set * g.together, groups = min(g.together, g.groups - group);
    const mx_planes *p = &g.planes;
    const int slices = slices_of(&g, d, slice, slice_tap), plane = p->step_h * p->step_w * p->sub * EACH;
    const int each = g.taps[1] * g.taps[2], all = each * g.taps[0];
    const reach_t reach = {g.inputs, slices, plane, all, slice_tap, each};
    const taps_t taps = taps_of(&g);
    const int top = (g.first_h + t0) * p->step_h + g.least_h, left = (g.first_w + q0) * p->step_w + g.least_w;
    const int blocks = g.padded / TILE;

    out += image * g.output.n + d * g.output.d;
    int packed_rows = 0;
    for (int c0 = 0; c0 < rows; c0 += g.chunk) {
        const int some = min(g.chunk, rows - c0), need = (c0 + some - 1) * p->step_h + g.reach_h;
        pack_planes(in, image * g.input.n, &g.input, p, (long)group * g.inputs * EACH, groups * g.inputs, slice, slices,
                    top, left, packed_rows, need, packed);
        packed_rows = need;
        const int line = p->pitch * EACH, vectors = ((some - 1) * line + columns * EACH + VEC - 1) / VEC;
        const int stride = vectors * VEC;
#if MODE == BLOCKS
        /* Row by row, where nothing is left over. */
        const int flat_rows = columns % WIDE == 0 ? some : 1, flat = columns % WIDE == 0 ? columns : vectors;
#else
        const int flat_rows = 1, flat = vectors;
#endif
        for (int a = 0; a < g.out_h; a++) {
            for (int k = 0; k < groups; k++)
                for (int block = 0; block < blocks; block++)
                    for (int b = 0; b < g.out_w; b++)
                        for (int t = 0; t < flat_rows; t++)
                            sum_run(packed + k * g.inputs * slices * plane + (c0 + t) * line,
                                    w + ((long)(group + k) * blocks + block) * g.inputs * EACH_INPUT * all * LANES,
                                    &reach, &taps, a * g.out_w + b, flat,
                                    results + ((k * g.padded + block * TILE) * g.out_w + b) * stride + t * line,
                                    g.out_w * stride);
            const int zero = (g.first_w + q0) * g.out_w - (g.backward ? g.pad[2] : 0); /* column of position 0 */
            const int up = (g.first_h + t0 + c0) * g.out_h + a - (g.backward ? g.pad[1] : 0); /* row of position 0 */
            const int2 lines = columns_inside(up, g.out_h, g.output.height, some);
#if MODE == ROWS
            /* Where the rows of y are contiguous, what is written behind one is written again, by the next. */
            const bool together = g.out_h == 1 && g.out_w == 1 && columns == g.output.width
                && g.output.h == g.output.width;
            const int whole = (columns + VEC - 1) / VEC * VEC;
            for (int k = 0; k < groups; k++)
                for (int o = 0; o < g.outputs; o++) {
                    OF_FILTER((long)(group + k) * g.outputs + o)
                    const ACC *even = results + (k * g.padded + o) * g.out_w * stride + lines.x * line;
                    __global STORAGE(X_TYPE) *to = out + ((long)(group + k) * g.outputs + o) * g.output.c
                                                   + (up + lines.x * g.out_h) * g.output.h + zero;
                    int t = lines.x;
                    if (together && beta == 0)
                        for (; (lines.y - t) * columns >= whole; t++, even += line, to += columns)
                            for (int j = 0; j < columns; j += VEC)
                                WRITE(to, j, FINAL_RESULT(SCALED_RESULT(VGET(0, even + j))));
                    for (; t < lines.y; t++, even += line, to += g.out_h * g.output.h) {
                        if (g.out_w == 1) {
                            store_run(to, even, columns, EPILOGUE_ARGS);
                        } else if (g.out_w == 2) {
                            const int begin = max(zero, 0), end = min(zero + 2 * columns, g.output.width);
                            const int skip = begin - zero;
                            const ACC *one = even + (skip & 1) * stride + skip / 2;
                            const ACC *two = even + (1 - (skip & 1)) * stride + (skip + 1) / 2;
                            for (int c = skip; c < end - zero; c += 2 * VEC, one += VEC, two += VEC) {
                                const vec u = VGET(0, one), v = VGET(0, two);
                                vec lo, hi;
                                lo.even = u.lo;
                                lo.odd = v.lo;
                                hi.even = u.hi;
                                hi.odd = v.hi;
                                if (c + 2 * VEC <= end - zero) {
                                    store_vector(to + c, lo, EPILOGUE_ARGS);
                                    store_vector(to + c + VEC, hi, EPILOGUE_ARGS);
                                } else {
                                    ACC lanes[2 * VEC];
                                    VPUT(lo, 0, lanes);
                                    VPUT(hi, 1, lanes);
                                    store_run(to + c, lanes, end - zero - c, EPILOGUE_ARGS);
                                }
                            }
                        } else {
                            for (int b = 0; b < g.out_w; b++) {
                                const int2 inside = columns_inside(zero + b, g.out_w, g.output.width, columns);
                                for (int j = inside.x; j < inside.y; j++)
                                    store_one(to + b + j * g.out_w, even[b * stride + j], EPILOGUE_ARGS);
                            }
                        }
                    }
                }
#else
            for (int t = lines.x; t < lines.y; t++) {
                const ACC *from = results + t * line;
                __global STORAGE(X_TYPE) *y = out + (up + t * g.out_h) * g.output.h;
                for (int b = 0; b < g.out_w; b++) {
                    const int2 inside = columns_inside(zero + b, g.out_w, g.output.width, columns);
#if EACH > 1
                    for (int k = 0; k < groups * g.outputs; k++) {
                        const ACC *f = from + (k * g.out_w + b) * stride;
                        const int channel = (group * g.outputs + k) * VEC;
                        const int count = min(VEC, g.output.channels - channel);
                        OF_FILTERS(channel, count)
                        __global STORAGE(X_TYPE) *to = y + channel + (zero + b) * g.output.w;
                        for (int j = inside.x; j < inside.y; j++)
                            store_lanes(to + (long)j * g.out_w * g.output.w, VGET(j, f), count, EPILOGUE_ARGS);
                    }
#else
                    const int channels = groups * g.outputs;
                    for (int c = 0; c < channels; c += VEC) {
                        const int count = min(VEC, channels - c);
                        OF_FILTERS((long)group * g.outputs + c, count)
                        int base[VEC];
                        for (int i = 0; i < VEC; i++) {
                            const int channel = min(c + i, channels - 1), k = channel / g.outputs;
                            base[i] = ((k * g.padded + channel - k * g.outputs) * g.out_w + b) * stride;
                        }
                        __global STORAGE(X_TYPE) *to = y + (long)group * g.outputs + c + (zero + b) * g.output.w;
                        for (int j = inside.x; j < inside.y; j += VEC) {
                            vec v[VEC];
#pragma unroll
                            for (int i = 0; i < VEC; i++)
                                v[i] = VGET(0, from + base[i] + j);
                            transpose(v);
                            const long move = (long)g.out_w * g.output.w;
                            if (count == VEC && j + VEC <= inside.y) {
#pragma unroll
                                for (int i = 0; i < VEC; i++)
                                    store_vector(to + (j + i) * move, v[i], EPILOGUE_ARGS);
                            } else {
                                for (int i = 0; i < VEC && j + i < inside.y; i++)
                                    store_lanes(to + (j + i) * move, v[i], count, EPILOGUE_ARGS);
                            }
                        }
                    }
#endif
                }
            }
#endif
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void grouped_data(
    __global const STORAGE(X_TYPE) *restrict in, long in_offset, __global const ACC *restrict w, long w_offset,
    __global STORAGE(X_TYPE) *restrict out, long out_offset, const mx_grouped g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(out, out_offset);
    compute_tile(in + in_offset, w + w_offset, out + out_offset, &g, (int)get_group_id(0), (int)get_group_id(1),
                 (int)get_group_id(2), EPILOGUE_ARGS);
}
