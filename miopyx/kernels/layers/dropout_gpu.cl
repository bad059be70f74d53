/* Dropout on GPUs; layers/dropout.h has the formulas.
 *
 *   dropout_apply    both directions: neighbouring work-items have neighbouring vectors of VEC elements, in the order of
 *                    their axes, a group every groups-th row of LOCAL such
 *   dropout_states   the states begin
 *
 * Grid:         groups of LOCAL; dropout_apply: PLACES at most where masks are drawn; dropout_states: one.
 * Local memory: none.
 * Parameters:   those of layers/dropout.h; VEC: 4 or 8; LOCAL; DENSE: x and y are one row without gaps.
 * Bound by:     memory.
 */
#ifndef VEC
#define VEC 4
#endif
#ifndef LOCAL
#define LOCAL 256
#endif
#ifndef DENSE
#define DENSE 1
#endif
#ifndef UNROLL /* vectors whose loads a work-item has under way, where the mask is given */
#define UNROLL 4
#endif
#include "layers/dropout.h"
#include "include/gpu_vectors.h"

#if VEC != 4 && VEC != 8
#error "VEC must be 4 or 8"
#endif
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void
typedef MX_V(uchar) bytes_t;
MX_GET(get_x, T)
MX_PUT(put_y, T)

KERNEL dropout_apply(ARGUMENTS)
{
    OFFSETS;
    const long me = get_group_id(0), groups = get_num_groups(0);
    const int item = (int)get_local_id(0);
    const uint least = (uint)least_stay;
    const long vectors = (s.count + VEC - 1) / VEC;
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y), mask_aligned = (ulong)mask % VEC == 0;
#if DRAWS
    const ulong seed = states[2 * me], masks = states[2 * me + 1] - seed;
#if EVOLVES
    barrier(CLK_GLOBAL_MEM_FENCE); /* all of the group have read */
    for (long place = me + item * groups; place < PLACES; place += groups * LOCAL)
        states[2 * place + 1] = seed + masks + 1;
#endif
#endif
    long begin = 0; /* vectors that are done */
#if DENSE && !DRAWS
    if (aligned && mask_aligned) {
        const long blocks = s.count / VEC / (UNROLL * LOCAL);
        for (long block = me; block < blocks; block += groups) {
            const long first = block * UNROLL * LOCAL + item;
            bytes_t bytes[UNROLL];
            vec_t v[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                bytes[u] = *(__global const bytes_t *)(mask + (first + u * LOCAL) * VEC);
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                v[u] = get_x(x + (first + u * LOCAL) * VEC, true);
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int k = 0; k < VEC; k++)
                    ((ACC *)&v[u])[k] = ((const uchar *)&bytes[u])[k] ? ((const ACC *)&v[u])[k] * (ACC)scale : (ACC)0;
                put_y(y + (first + u * LOCAL) * VEC, v[u], true);
            }
        }
        begin = blocks * UNROLL * LOCAL;
    }
#endif
    for (long vector = begin + me * LOCAL + item; vector < vectors; vector += groups * LOCAL) {
        const long i = vector * VEC, left = min((long)VEC, s.count - i);
        bool stays[VEC];
#if DRAWS
#pragma unroll
        for (int k = 0; k < VEC; k += 4) {
            const ulong counter = (ulong)(i + k) / 4;
            uint a = (uint)counter, b = (uint)(counter >> 32), c = (uint)masks, d = (uint)(masks >> 32);
            PHILOX(uint, a, b, c, d, seed);
            stays[k] = (a >> 8) >= least, stays[k + 1] = (b >> 8) >= least;
            stays[k + 2] = (c >> 8) >= least, stays[k + 3] = (d >> 8) >= least;
        }
#else
        if (left == VEC && mask_aligned) {
            const bytes_t bytes = *(__global const bytes_t *)(mask + i);
#pragma unroll
            for (int k = 0; k < VEC; k++)
                stays[k] = ((const uchar *)&bytes)[k] != 0;
        } else {
#pragma unroll
            for (int k = 0; k < VEC; k++)
                stays[k] = k < left && mask[i + k] != 0;
        }
#endif
#if MASKS == 1
        if (left == VEC && mask_aligned) {
            bytes_t bytes;
#pragma unroll
            for (int k = 0; k < VEC; k++)
                ((uchar *)&bytes)[k] = stays[k];
            *(__global bytes_t *)(mask + i) = bytes;
        } else {
#pragma unroll
            for (int k = 0; k < VEC; k++)
                if (k < left)
                    mask[i + k] = stays[k];
        }
#endif
#if DENSE
        if (left == VEC) {
            vec_t v = aligned ? get_x(x + i, true) : get_x(x + i, false);
#pragma unroll
            for (int k = 0; k < VEC; k++)
                ((ACC *)&v)[k] = stays[k] ? ((const ACC *)&v)[k] * (ACC)scale : (ACC)0;
            if (aligned)
                put_y(y + i, v, true);
            else
                put_y(y + i, v, false);
            continue;
        }
#endif
        long line = i / s.g.len[4], from = i - line * s.g.len[4];
        long x_row = mx_grid_offset(s.g, 1, line), y_row = mx_grid_offset(s.g, 2, line);
#pragma unroll
        for (int k = 0; k < VEC; k++)
            if (k < left) {
                if (from == s.g.len[4]) {
                    from = 0;
                    line++;
                    x_row = mx_grid_offset(s.g, 1, line), y_row = mx_grid_offset(s.g, 2, line);
                }
                const ACC v = (ACC)LOAD(T)(x, x_row + from * s.g.stride[1][4]) * (ACC)scale;
                STORE(T)(y, y_row + from * s.g.stride[2][4], stays[k] ? v : (ACC)0);
                from++;
            }
    }
}

KERNEL dropout_states(__global ulong *states, long states_offset, const float low, const float middle, const float high)
{
    const ulong seed = (ulong)low | (ulong)middle << 22 | (ulong)high << 44;
    states += states_offset;
    for (int i = (int)get_local_id(0); i < 2 * PLACES; i += LOCAL)
        states[i] = seed;
}
