/* Backward weights of grouped convolutions with few channels a group on CPU devices.
 *
 * Shape: as conv/cpu/grouped.cl.
 * A work-item, alone in its group, sums the products of one split of the batch's tiles for `together` groups: vectors
 * of partial sums, whose lanes are added at the end (in mode CHANNELS they are filters of their own).  It writes them
 * to `partial`, in rows of all weights, which conv/cpu/grouped_sum.cl adds up.
 * NDRange: local (1, 1, 1), global (sets of groups, partial).
 * The positions between two rows of a tile multiply zeros for dy with numbers of x: an infinity among these gives NaN
 * for taps that only meet padding there, as products with the zeros of the padding do elsewhere.
 */
#ifndef TILE /* outputs of a group at a time, and inputs times taps: their product of sums stays in registers */
#define TILE 1
#endif
#ifndef WIDE
#define WIDE 9
#endif
#ifndef BUFFER /* elements of the planes of x, of dy, and of sums in vectors */
#define BUFFER 65536
#endif
#ifndef GRADIENTS
#define GRADIENTS 32768
#endif
#ifndef SUMS
#define SUMS 4096
#endif
#include "conv/cpu/grouped.h"

DEFINE_LONG_SUMS(vec)

#if MODE == BLOCKS
#define TERM VEC /* vectors of sums of a term: an input's tap */
/* sums[input] += the products of a run of dy and a run of x at `offset`. */
NOINLINE void multiply(vec *restrict sums, const ACC *restrict dy, int stride, const ACC *restrict x,
                       const int *restrict offset, int vectors)
{
    vec s[VEC];
    x += offset[0];
#pragma unroll
    for (int i = 0; i < VEC; i++)
        s[i] = sums[i];
#pragma unroll 2
    for (int v = 0; v < vectors; v++) {
        const vec d = VGET(v, dy);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            s[i] += d * (vec)(x[v * VEC + i]);
    }
#pragma unroll
    for (int i = 0; i < VEC; i++)
        sums[i] = s[i];
}
#else
#define TERM 1
/* sums[TILE][WIDE] += the products of TILE runs of dy, at a stride of `stride`, and WIDE runs of x at `offset`. */
NOINLINE void multiply(vec *restrict sums, const ACC *restrict dy, int stride, const ACC *restrict x,
                       const int *restrict offset, int vectors)
{
    vec s[TILE][WIDE];
    const ACC *xs[WIDE];
#pragma unroll
    for (int t = 0; t < WIDE; t++) {
        xs[t] = x + offset[t];
#pragma unroll
        for (int o = 0; o < TILE; o++)
            s[o][t] = sums[o * WIDE + t];
    }
    for (int v = 0; v < vectors; v++) {
        vec d[TILE];
#pragma unroll
        for (int o = 0; o < TILE; o++)
            d[o] = VGET(v, dy + o * stride);
#pragma unroll
        for (int t = 0; t < WIDE; t++) {
            const vec a = VGET(v, xs[t]);
#pragma unroll
            for (int o = 0; o < TILE; o++)
                s[o][t] += d[o] * a;
        }
    }
#pragma unroll
    for (int t = 0; t < WIDE; t++)
#pragma unroll
        for (int o = 0; o < TILE; o++)
            sums[o * WIDE + t] = s[o][t];
}

#endif

/* The sum of the lanes of v[i] in lane i. */
NOINLINE vec sums_of_lanes(const vec *v)
{
    vec s[VEC];
#pragma unroll
    for (int i = 0; i < VEC; i++)
        s[i] = v[i];
#pragma unroll
    for (int n = VEC / 2; n > 0; n /= 2)
#pragma unroll
        for (int i = 0; i < n; i++) {
            vec a, b;
            a.even = s[i].lo;
            a.odd = s[i + n].lo;
            b.even = s[i].hi;
            b.odd = s[i + n].hi;
            s[i] = a + b;
        }
    return s[0];
}

NOINLINE void compute_split(__global const STORAGE(X_TYPE) *restrict x,
                        __global const STORAGE(X_TYPE) *restrict dy, __global ACC *restrict partial,
                        const mx_grouped *grouped, int images, int set, int split)
{
    const mx_grouped g = *grouped;
    vec buffer[BUFFER / VEC], gradients[GRADIENTS / VEC], sums[SUMS], totals[SUMS * 3];
    ACC *packed = (ACC *)buffer, *packed_dy = (ACC *)gradients;
    int slice[DEPTH_LIMIT], slice_tap[DEPTH_LIMIT], offset[TAPS_LIMIT * 32];

    const int group = set * g.together, groups = min(g.together, g.groups - group);
    const mx_planes *p = &g.planes;
    const int each = g.taps[1] * g.taps[2], all = each * g.taps[0];
    /* In a slice of the filter, inputs and taps are one list, in blocks of WIDE. */
    const int terms = g.inputs * each, wides = (terms + WIDE - 1) / WIDE, blocks = g.padded / TILE;
    const int tiles = g.tiles_h * g.tiles_w, per_group = blocks * g.taps[0] * wides * TILE * WIDE * TERM;
    const int plane = p->step_h * p->step_w * p->sub * EACH;
    const long units = (long)images * g.output.depth * tiles;
    const long begin = units * split / g.splits, end = units * (split + 1) / g.splits;
    int slices = 0, slices_before = -1;
    long added = 0; /* to a lane */
    int settled = 0;

    for (int i = 0; i < groups * per_group; i++)
        sums[i] = (vec)((ACC)0);
    for (long unit = begin; unit < end; unit++) {
        const int tile = (int)(unit % tiles), d = (int)(unit / tiles) % g.output.depth;
        const int image = (int)(unit / tiles / g.output.depth);
        const int t0 = tile / g.tiles_w * g.tile_h, q0 = tile % g.tiles_w * g.tile_w;
        const int rows = min(g.tile_h, g.grid_h - t0), columns = min(g.tile_w, g.grid_w - q0);
        slices = slices_of(&g, d, slice, slice_tap);
        if (slices != slices_before) {
            slices_before = slices;
            int k = 0;
            for (int i = 0; i < g.inputs; i++)
                for (int r = 0; r < g.taps[1]; r++)
                    for (int s = 0; s < g.taps[2]; s++) {
                        const int h = r * g.dilation[1], w = s * g.dilation[2];
                        offset[k++] = i * slices * plane + ((h % p->step_h * p->step_w + w % p->step_w) * p->sub
                                                            + h / p->step_h * p->pitch + w / p->step_w) * EACH;
                    }
            for (; k < wides * WIDE; k++)
                offset[k] = offset[0];
        }
        int packed_rows = 0;
        for (int c0 = 0; c0 < rows; c0 += g.chunk) {
            const int some = min(g.chunk, rows - c0), need = (c0 + some - 1) * p->step_h + g.reach_h;
            const int vectors = (((some - 1) * p->pitch + columns) * EACH + VEC - 1) / VEC;
            /* dy has zeros between its rows, and behind the last one. */
            const int sub = (some * p->pitch + 3 * (VEC / EACH) - 1) / (VEC / EACH) * (VEC / EACH);
            const mx_planes q = {1, 1, p->pitch, sub, VEC / EACH};
            mx_side narrow = g.output;
            narrow.width = q0 + columns;
            pack_planes(x, image * g.input.n, &g.input, p, (long)group * g.inputs * EACH, groups * g.inputs, slice, slices,
                        g.least_h + t0 * p->step_h, g.least_w + q0 * p->step_w, packed_rows, need, packed);
            pack_planes(dy, image * g.output.n, &narrow, &q, (long)group * g.outputs * EACH, groups * g.outputs, &d, 1,
                        t0 + c0, q0, 0, some, packed_dy);
            packed_rows = need;
            if (added > 0 && added + vectors > BLOCK_TERMS) {
                settle(settled, sums, totals, groups * per_group);
                settled++;
                added = 0;
            }
            added += vectors;
            for (int k = 0; k < groups; k++)
                for (int block = 0; block < blocks; block++)
                    for (int z = 0; z < slices; z++)
                        for (int j = 0; j < wides; j++)
                            multiply(sums + k * per_group
                                         + ((block * g.taps[0] + slice_tap[z]) * wides + j) * TILE * WIDE * TERM,
                                     packed_dy + (k * g.outputs + block * TILE) * q.sub * EACH, q.sub * EACH,
                                     packed + (k * g.inputs * slices + z) * plane + c0 * p->pitch * EACH,
                                     offset + j * WIDE, vectors);
        }
    }

    if (settled > 0)
        complete(settled, sums, totals, groups * per_group);

    /* Rows of group, output, input, tap; in mode CHANNELS of vectors of channels, tap; in mode BLOCKS of group, vector
     * of outputs, input, tap. */
    partial += (long)split * g.groups * g.outputs * g.inputs * TERM * all * EACH;
#if MODE == CHANNELS
    for (int k = 0; k < groups; k++)
        for (int t = 0; t < all; t++)
            *(__global loose *)(partial + ((long)(group + k) * all + t) * VEC) =
                sums[k * per_group + t / each * wides * WIDE + t % each];
#elif MODE == BLOCKS
    for (int k = 0; k < groups * g.outputs; k++)
        for (int c = 0; c < g.inputs * VEC; c++)
            for (int t = 0; t < all; t++)
                *(__global loose *)(partial + ((((long)group * g.outputs + k) * g.inputs * VEC + c) * all + t) * VEC) =
                    sums[((k * g.taps[0] + t / each) * wides + c / VEC * each + t % each) * VEC + c % VEC];
#else
    for (int i = 0; i < groups * per_group; i += VEC) {
        ACC lanes[VEC];
        VPUT(sums_of_lanes(sums + i), 0, lanes);
        for (int l = 0; l < VEC; l++)
            ((ACC *)(sums + i))[l] = lanes[l];
    }
    for (int k = 0; k < groups; k++)
        for (int o = 0; o < g.outputs; o++)
            for (int z = 0; z < g.taps[0]; z++) {
                __global ACC *to = partial + ((long)(group + k) * g.outputs + o) * g.inputs * all + z * each;
                int i = 0, t = 0;
                for (int term = 0; term < terms; term++) {
                    const int at = k * per_group + ((o / TILE * g.taps[0] + z) * wides + term / WIDE) * TILE * WIDE
                                   + o % TILE * WIDE + term % WIDE;
                    to[i * all + t] = ((const ACC *)(sums + at / VEC * VEC))[at % VEC];
                    if (++t == each) {
                        t = 0;
                        i++;
                    }
                }
            }
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void grouped_weights(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict dy,
    long dy_offset, __global ACC *restrict partial, long partial_offset, const mx_grouped g, int images)
{
    compute_split(x + x_offset, dy + dy_offset, partial + partial_offset, &g, images, (int)get_group_id(0),
                 (int)get_group_id(1));
}
