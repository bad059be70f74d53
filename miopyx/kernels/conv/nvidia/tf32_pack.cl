/* Floats rounded to halves for tensor cores, channels last, each times a power of four: as exact as TF32, which has as
 * many bits of a mantissa.  All numbers of an image, a channel or a filter share a scale, as the caller says.
 *
 *     sample_scales   one group a scale: the largest of up to 2048 of its numbers, from all over the tensor.
 *     pack_scaled     up to two tensors, by scales with 2^7 to 2^9 for the largest sampled.  A number that is too large
 *                     for a half then, more than 128 times the largest sampled, is reported.
 *     pack_scaled, AGAIN   once more where there was such a number; in any case the roots of the inverse scales, for
 *                     who multiplies.
 *
 * So tensors are read once: a pass that finds the largest number would take as long as half of the packing.  Scales are
 * powers of four, so that a sum is brought back by two multiplications with one factor, neither of which overflows or
 * loses bits where the result does not.  A number keeps 11 bits down to 2^-21 of the largest that shares its scale, and
 * an error of 2^-32 of that below.  Inf and NaN count for no scale and stay what they are.
 *
 * scales[4][total]: bits of the largest sampled; of the largest reported, zero without; roots, as floats; and [3][0],
 * whether anything was reported.
 * Grid of pack_scaled: one axis, local 256, a group a tile as pack_pixels of conv/nvidia/pack.cl; fewer with AGAIN.
 * Bound by: memory; reading.
 */
#ifndef RUN /* pixels read at once, contiguous and equally aligned: 4 or 1; 0: channels are contiguous, 8 at once */
#define RUN 1
#endif
#ifndef SECOND_RUN /* of the second tensor */
#define SECOND_RUN 1
#endif
#ifndef BY_CHANNEL /* 1: a scale a channel, else all channels of a pixel have one */
#define BY_CHANNEL 0
#endif
#ifndef SECOND_BY_CHANNEL
#define SECOND_BY_CHANNEL 0
#endif
#ifndef AGAIN
#define AGAIN 0
#endif
#define X_TYPE half
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/pack_args.h"
#include "conv/nvidia/pack_tile.h"

#define SAMPLES 8 /* of a work-item */
#define SAMPLED_RUNS (ITEMS * SAMPLES / 8) /* of eight neighbours */
#define TOP 8 /* the largest sampled becomes 2^(TOP - 1) to 2^(TOP + 1) */
#define LARGEST_HALF 65504.0f

/* Half of the scale's exponent: the scale is 4 to its power.  `largest`: bits of a magnitude. */
static inline int mx_exponent(uint largest)
{
    return min((TOP + 127 - (int)(largest >> 23)) >> 1, 63);
}

static inline float mx_power(int exponent)
{
    return as_float((uint)(exponent + 127) << 23);
}

static inline bool mx_is_finite(uint bits)
{
    return bits < 0x7f800000u;
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void sample_scales(
    __global const float *restrict from, long from_offset, __global const float *restrict second, long second_offset,
    __global uint *restrict scales, long scales_offset, const mx_nv_sampled g, const mx_nv_sampled second_g)
{
    __local uint found[ITEMS];
    const int item = get_local_id(0), number = get_group_id(0), total = g.scales + second_g.scales;
    const bool is_first = number < g.scales;
    const mx_nv_sampled s = is_first ? g : second_g;
    const int scale = is_first ? number : number - g.scales;
    const int outer = mx_quotient(scale, s.by_inner), all = s.planes * s.rows * s.columns;
    __global const float *at = (is_first ? from + from_offset : second + second_offset) + (long)outer * s.from_outer
                               + (long)(scale - outer * s.inner) * s.from_inner;
    uint largest = 0;
#pragma unroll
    for (int i = 0; i < SAMPLES; i++) {
        /* Runs begin at odd places, so that no row or channel is always the one. */
        const int run = item / 8 + i * (ITEMS / 8), apart = all / SAMPLED_RUNS;
        const int begin = run * apart + (int)((uint)run * 2654435761u >> 16) % max(apart - 7, 1);
        const int position = all <= ITEMS * SAMPLES ? item + i * ITEMS : begin + item % 8;
        if (position < all) {
            const int line = mx_quotient(position, s.by_columns), plane = mx_quotient(line, s.by_rows);
            const uint bits = as_uint(at[plane * s.from_plane + (line - plane * s.rows) * s.from_row
                                         + (position - line * s.columns) * s.from_column]) & 0x7fffffffu;
            largest = mx_is_finite(bits) ? max(largest, bits) : largest;
        }
    }
    found[item] = largest;
    for (int others = ITEMS / 2; others > 0; others /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < others)
            found[item] = max(found[item], found[item + others]);
    }
    if (item == 0) {
        scales += scales_offset;
        scales[number] = found[0];
        scales[total + number] = 0;
        if (number == 0)
            scales[3 * total] = 0;
    }
}

static inline float mx_scale(__global const uint *scales, int total, int at)
{
    const uint largest = AGAIN ? max(scales[at], scales[total + at]) : scales[at];
    return mx_power(2 * mx_exponent(largest));
}

/* The first pixel of a run: where it is, -1 for nowhere, and its scale. */
static inline int2 mx_place_of_floats(int p, const mx_tile *t, const mx_nv_scaled *s, int run)
{
    const mx_nv_pixels *g = &s->pixels;
    const int m = t->m0 + min(p, t->many - 1), n = mx_quotient(m, g->by_image), rest = m - n * (g->h * g->w);
    const int h = mx_quotient(rest, g->by_row);
    const int at = n * g->from_n + (run > 1 ? rest : h * g->from_h + (rest - h * g->w) * g->from_w);
    return (int2)(p < t->many ? at : -1, s->first + n * s->by_n + h * s->by_h);
}

static inline int mx_channel(int c, const mx_tile *t, const mx_nv_pixels *g)
{
    return t->group * g->channels + min(t->c0 + c, g->channels - 1);
}

#define EACH_OF(l, count) _Pragma("unroll") for (int l = 0; l < (count); l++)

/* Returns the largest magnitude among the halves that are written; infinite values count. */
static inline __attribute__((always_inline)) float mx_load_floats(
    __global const float *from, __local uint *tile, const mx_tile *t, const mx_nv_scaled *s,
    __global const uint *scales, int total, const int run, const bool by_channel)
{
    const mx_nv_pixels *g = &s->pixels;
    const int item = get_local_id(0), column = item % RUNS_ACROSS(run) * run, pair0 = item / RUNS_ACROSS(run);
    float4 numbers[TILE / 64][8][2];
    int2 place[TILE / 64];
    float largest = 0;
#pragma unroll
    for (int l = 0; l < TILE / 64; l++)
        place[l] = mx_place_of_floats(l * 64 + column, t, s, run);
    EACH_RUN(run, l, k)
        EACH_OF (i, 2) {
            const int c = (pair0 + k * (ITEMS / RUNS_ACROSS(run))) * 2 + i;
            const bool valid = place[l].x >= 0 && t->c0 + c < g->channels;
            __global const float *at = from + (valid ? place[l].x + (t->c0 + c) * g->from_c : 0);
            float4 found = (float4)(0, 0, 0, 0);
            if (run == 4)
                found = valid ? *(__global const float4 *)at : found;
            else
                found.x = valid ? *at : 0;
            numbers[l][k][i] = found;
        }
    EACH_RUN(run, l, k) {
        const int p = l * 64 + column, pair = pair0 + k * (ITEMS / RUNS_ACROSS(run));
        float scale[2];
        EACH_OF (i, 2)
            scale[i] = mx_scale(scales, total, place[l].y + (by_channel ? mx_channel(pair * 2 + i, t, g) * s->by_c : 0));
        const float4 a = numbers[l][k][0] * scale[0], b = numbers[l][k][1] * scale[1];
#define PUT_FLOATS(i, first, second)                               \
    if (i < run) {                                                 \
        uint word;                                                 \
        MX_ROUND_PAIR(word, first, second);                        \
        tile[mx_in_tile(p + i, pair, run)] = word;                 \
        largest = fmax(largest, fmax(fabs(first), fabs(second)));  \
    }
        PUT_FLOATS(0, a.x, b.x)
        PUT_FLOATS(1, a.y, b.y)
        PUT_FLOATS(2, a.z, b.z)
        PUT_FLOATS(3, a.w, b.w)
    }
    return largest;
}

/* The same from any address, and other reasons to go over a tile number by number: little code. */
static inline float mx_load_singly(__global const float *from, __local ushort *tile, const mx_tile *t,
                                   const mx_nv_scaled *s, __global const uint *scales, int total, const int run)
{
    const mx_nv_pixels *g = &s->pixels;
    float largest = 0;
#pragma unroll 1
    for (int l = get_local_id(0); l < TILE * CHANNELS; l += ITEMS) {
        const int p = l % TILE, c = l / TILE;
        const int2 place = mx_place_of_floats(p, t, s, 1);
        const bool valid = place.x >= 0 && t->c0 + c < g->channels;
        const float number = valid ? from[place.x + (t->c0 + c) * g->from_c]
                                         * mx_scale(scales, total, place.y + mx_channel(c, t, g) * s->by_c) : 0;
        uint word;
        MX_ROUND_PAIR(word, number, 0.0f);
        tile[mx_in_tile(p, c >> 1, run) * 2 + (c & 1)] = (ushort)word;
        largest = fmax(largest, fabs(number));
    }
    return largest;
}

/* Contiguous channels go from registers to the copy. */
static inline __attribute__((always_inline)) float mx_pack_channels(
    __global const float *from, __global ushort *to, const mx_tile t, const mx_nv_scaled *s,
    __global const uint *scales, int total, const bool by_channel)
{
    const mx_nv_pixels *g = &s->pixels;
    float largest = 0;
    to += (long)t.m0 * g->groups * g->reduced + t.group * g->reduced + t.c0;
    EACH_CHUNK_OF_PIXELS(l, p, chunk, g->reduced) {
        const int2 place = mx_place_of_floats(p, &t, s, 0);
        __global const float4 *at = (__global const float4 *)(from + place.x + t.c0 + chunk * 8);
        const float4 a = at[0], b = at[1];
        float numbers[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        const float scale = mx_scale(scales, total, place.y);
        EACH_OF (i, 8) {
            numbers[i] *= by_channel ? mx_scale(scales, total, place.y + mx_channel(chunk * 8 + i, &t, g) * s->by_c)
                                     : scale;
            largest = fmax(largest, fabs(numbers[i]));
        }
        uint words[4];
        EACH_OF (i, 4)
            MX_ROUND_PAIR(words[i], numbers[2 * i], numbers[2 * i + 1]);
        const uint4 all = (uint4)(words[0], words[1], words[2], words[3]);
        __global ushort *place_of = to + p * g->groups * g->reduced + chunk * 8;
        if (((ulong)to & 15) == 0)
            *(__global uint4 *)place_of = all;
        else
            vstore8(as_ushort8(all), 0, place_of);
    }
    return largest;
}

/* Say which numbers of a tile are too large for their scales. */
static inline void mx_report(__global const float *from, const mx_tile *t, const mx_nv_scaled *s,
                             __global uint *scales, int total)
{
    const mx_nv_pixels *g = &s->pixels;
#pragma unroll 1
    for (int l = get_local_id(0); l < TILE * CHANNELS; l += ITEMS) {
        const int c = l / TILE;
        const int2 place = mx_place_of_floats(l % TILE, t, s, 1);
        if (place.x < 0 || t->c0 + c >= g->channels)
            continue;
        const int scale = place.y + mx_channel(c, t, g) * s->by_c;
        const float number = from[place.x + (t->c0 + c) * g->from_c];
        const uint bits = as_uint(number) & 0x7fffffffu;
        if (mx_is_finite(bits) && fabs(number) * mx_scale(scales, total, scale) > LARGEST_HALF) {
            uint before;
            asm volatile("atom.global.max.u32 %0, [%1], %2;"
                         : "=r"(before) : "l"((ulong)(scales + total + scale)), "r"(bits) : "memory");
            scales[3 * total] = 1;
        }
    }
}

/* The same steps for all work-items of a group. */
static inline __attribute__((always_inline)) void mx_pack_tile(
    __global const float *from, __global ushort *to, const mx_nv_scaled *s, int number, __global uint *scales, int total,
    __local uint *tile, __local int *exceeds, const int run, const bool by_channel)
{
    const mx_tile t = mx_tile_of(number, &s->pixels);
    const int layout = run == 0 ? 1 : run; /* of the tile in local memory */
    float largest;
    from += (long)t.group * s->pixels.from_g;
    const bool aligned = ((ulong)from & (run == 1 ? 3 : 15)) == 0;
    if (get_local_id(0) == 0)
        *exceeds = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (!aligned)
        largest = mx_load_singly(from, (__local ushort *)tile, &t, s, scales, total, layout);
    else if (run == 0)
        largest = mx_pack_channels(from, to, t, s, scales, total, by_channel);
    else
        largest = mx_load_floats(from, tile, &t, s, scales, total, layout, by_channel);
    if (!AGAIN && largest > LARGEST_HALF)
        *exceeds = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (run != 0 || !aligned)
        mx_store_packed(to, tile, t, &s->pixels, layout);
    if (!AGAIN && *exceeds)
        mx_report(from, &t, s, scales, total);
    if (AGAIN)
        barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void pack_scaled(
    __global const float *restrict from, long from_offset, __global ushort *restrict to, long to_offset,
    const mx_nv_scaled g, __global const float *restrict second, long second_offset, __global ushort *restrict second_to,
    long second_to_offset, const mx_nv_scaled second_g, __global uint *restrict scales, long scales_offset,
    const int total)
{
    __local uint tile[TILE_WORDS] __attribute__((aligned(16)));
    __local int exceeds;
    scales += scales_offset;
    if (AGAIN) {
        for (int i = get_global_id(0); i < total; i += get_global_size(0))
            scales[2 * total + i] = as_uint(mx_power(-mx_exponent(max(scales[i], scales[total + i]))));
        if (scales[3 * total] == 0)
            return;
    }
    for (int number = get_group_id(0); number < g.tiles + second_g.tiles; number += get_num_groups(0))
        if (number < g.tiles)
            mx_pack_tile(from + from_offset, to + to_offset, &g, number, scales, total, tile, &exceeds, RUN, BY_CHANNEL);
        else
            mx_pack_tile(second + second_offset, second_to + second_to_offset, &second_g, number - g.tiles, scales,
                         total, tile, &exceeds, SECOND_RUN, SECOND_BY_CHANNEL);
}
