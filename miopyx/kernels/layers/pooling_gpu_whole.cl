/* Pooling on GPUs where one window covers each plane (n, c), as global pooling does.
 *
 *   pooling_forward_whole      no indices, c contiguous and made of vectors of PACK channels
 *   pooling_backward_whole     averages, likewise: a work-item writes a vector
 *   pooling_backward_spread    averages, dx packed, planes of 4 elements or more: a work-item writes 4 neighbours
 *
 *       forward work-group:  SPAN vectors side by side           Grid:  work-groups over n and sets of SPAN vectors;
 *                            x  DEEP work-items, of which               backward work-items over n, pixels and vectors.
 *                               each reads every DEEP-th pixel
 *
 * Local memory: forward a vector of each work-item, which a tree adds up.
 * Parameters:   PACK 2, 4 or 8; SPAN x DEEP = 256 work-items, both powers of two.
 * Bound by:     memory.
 */
#include "layers/pooling_gpu.h"

#if IS_KIND(forward_whole) || IS_KIND(backward_whole)
#undef VEC
#define VEC PACK
#include "include/gpu_vectors.h"

MX_GET(get, TYPE)
MX_PUT(put, TYPE)

/* Where pixel i of an image lies. */
static inline INDEX pixel_at(const mx_tensor *x, INDEX i)
{
    const INDEX width = (INDEX)x->len[4], height = (INDEX)x->len[3];
    if (x->len[2] == 1 && x->stride[3] == width * x->stride[4])
        return i * (INDEX)x->stride[4];
    const INDEX row = i / width, d = row / height;
    return d * (INDEX)x->stride[2] + (row - d * height) * (INDEX)x->stride[3] + (i - row * width) * (INDEX)x->stride[4];
}
#endif

#if IS_KIND(forward_whole)
#define COLLECT(a, b) (MODE == 0 ? LARGER(a, b) : (a) + (b))

/* Every DEEP-th pixel. */
static inline vec_t collect(__global const STORAGE(TYPE) *x, const mx_tensor *shape, INDEX first, INDEX pixels,
                            const bool aligned)
{
    vec_t mine = NOTHING, total = 0, rest = 0;
    for (INDEX i = first; i < pixels; i += 8 * DEEP) {
        MX_RAW(TYPE) several[8]; /* asked for before the first is waited for */
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (i + k * DEEP < pixels)
                several[k] = MX_RAW_LOAD(TYPE, x + pixel_at(shape, i + k * DEEP), aligned);
#pragma unroll
        for (int k = 0; k < 8; k++)
            if (i + k * DEEP < pixels)
                mine = COLLECT(mine, MX_WIDE(TYPE, several[k]));
        SETTLE(vec_t, (i - first) / DEEP + 8, total, rest, mine)
    }
    return MODE == 0 ? mine : TOTAL(total, rest, mine);
}

__kernel __attribute__((reqd_work_group_size(SPAN * DEEP, 1, 1))) void pooling_forward_whole(
    FORWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    __local vec_t scratch[SPAN * DEEP];
    const int me = (int)get_local_id(0), lane = me % SPAN, row = me / SPAN;
    const INDEX vectors = (INDEX)p.x.len[1] / PACK, sets = (vectors + SPAN - 1) / SPAN;
    const INDEX n = (INDEX)get_group_id(0) / sets, vector = ((INDEX)get_group_id(0) - n * sets) * SPAN + lane;
    const INDEX pixels = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]);
    x += x_offset + n * p.x.stride[0];
    y += y_offset + n * p.y.stride[0];
    const bool aligned = MX_ALIGNED(x) && MX_ALIGNED(y);
    x += min(vector, vectors - 1) * PACK;
    vec_t mine = aligned ? collect(x, &p.x, row, pixels, true) : collect(x, &p.x, row, pixels, false);
    scratch[me] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = DEEP / 2; half_way > 0; half_way /= 2) {
        if (row < half_way)
            scratch[me] = COLLECT(scratch[me], scratch[me + half_way * SPAN]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (row == 0 && vector < vectors) {
        mine = scratch[me];
        if (MODE == 1)
            mine /= (ACC)pixels;
        if (MODE == 2)
            mine /= (ACC)(p.window[0] * p.window[1] * p.window[2]);
        put(y + vector * PACK, mine, aligned);
    }
}
#endif

#if IS_KIND(backward_whole)
__kernel void pooling_backward_whole(BACKWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    const INDEX pixels = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]), vectors = (INDEX)p.x.len[1] / PACK;
    const INDEX item = (INDEX)get_global_id(0), place = item / vectors, c = (item - place * vectors) * PACK;
    const INDEX n = place / pixels;
    if (n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + n * p.y.stride[0];
    dx += dx_offset + n * p.x.stride[0];
    const bool aligned = MX_ALIGNED(dy) && MX_ALIGNED(dx);
    const ACC divisor = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2]) : (ACC)pixels;
    const vec_t value = get(dy + c, aligned) / divisor;
    put(dx + c + pixel_at(&p.x, place - n * pixels), value, aligned);
}
#endif

#if IS_KIND(backward_spread)
__kernel void pooling_backward_spread(BACKWARD_BUFFERS, const mx_pooling_problem p, const long block)
{
    const INDEX length = (INDEX)(p.x.len[2] * p.x.len[3] * p.x.len[4]), channels = (INDEX)p.x.len[1];
    const INDEX planes = (INDEX)p.x.len[0] * channels, size = planes * length;
    const INDEX i = (INDEX)get_global_id(0) * 4;
    if (i >= size)
        return;
    const INDEX plane = i / length, left = (plane + 1) * length - i, n = plane / channels;
    const INDEX next = min(plane + 1, planes - 1), next_n = next / channels;
    const ACC divisor = MODE == 2 ? (ACC)(p.window[0] * p.window[1] * p.window[2]) : (ACC)length;
    dy += dy_offset;
    const ACC here = LOAD(TYPE)(dy, n * p.y.stride[0] + (plane - n * channels) * p.y.stride[1]) / divisor;
    const ACC there = LOAD(TYPE)(dy, next_n * p.y.stride[0] + (next - next_n * channels) * p.y.stride[1]) / divisor;
    const MX_JOIN(ACC, 4) values = (MX_JOIN(ACC, 4))(here, left > 1 ? here : there, left > 2 ? here : there,
                                                    left > 3 ? here : there);
    dx += dx_offset + i;
    if (i + 4 <= size && (ulong)dx % (4 * sizeof(STORAGE(TYPE))) == 0) {
        MX_JOIN(STORAGE(TYPE), 4) bits;
#if MX_TYPE(TYPE) == MX_TYPE_half
        vstore_half4_rte(values, 0, (__private half *)&bits);
#elif MX_TYPE(TYPE) == MX_TYPE_bfloat16
        bits = (ushort4)(mx_to_bfloat16(values.x), mx_to_bfloat16(values.y), mx_to_bfloat16(values.z),
                         mx_to_bfloat16(values.w));
#else
        bits = values;
#endif
        *(__global MX_JOIN(STORAGE(TYPE), 4) *)dx = bits;
    } else {
        STORE(TYPE)(dx, 0, values.x);
        if (i + 1 < size)
            STORE(TYPE)(dx, 1, values.y);
        if (i + 2 < size)
            STORE(TYPE)(dx, 2, values.z);
        if (i + 3 < size)
            STORE(TYPE)(dx, 3, values.w);
    }
}
#endif
