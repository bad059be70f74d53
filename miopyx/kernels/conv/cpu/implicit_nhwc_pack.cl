/* Operands of convolutions with channels last for CPU devices, as conv/cpu/implicit_nhwc.cl reads them.
 *
 *     pack_filters: w (k, taps, c) -> `zeros` elements of 0, then [group][tile][depth][lanes]
 *       lanes: filters forward, channels backward, in equal tiles of vectors, zeros beyond the last
 *       depth: tap and channel forward, tap and filter backward
 *       Grid: local (1, 1, 1), global (tiles of lanes, or 1 for backward data, shares of the depth, groups)
 *     convert: lines of `in` as ACC, with `left` and `right` zeros about them
 *       Grid: local (1), global (shares of the lines)
 *     convert_pairs: lines of pixels of int8 as pairs, with `left` and `right` pixels of zeros about them
 *       Grid: local (1), global (shares of the pixels)
 *
 * int8, ACC int: an element is two channels of a group, the last one with a zero where they are odd; depth: tap and pair.
 *
 * Memory: no local memory; VEC x VEC elements are transposed in registers.
 * Bound by: memory.
 */
#ifndef IN_TYPE /* storage type of what is read */
#define IN_TYPE float
#endif
#ifndef VEC /* 2, 4, 8 or 16 */
#define VEC 16
#endif
#ifndef BACKWARD /* 1: for backward data */
#define BACKWARD 0
#endif
#include "include/common.h"
#include "conv/cpu/implicit_nhwc.h"

#if VEC != 2 && VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 2, 4, 8 or 16"
#endif

#if MX_INTEGER_ACC
#include "conv/cpu/pairs.h"
#endif

#if VEC == 2
#define LOW(a, b) (vec)(a.s0, b.s0)
#define HIGH(a, b) (vec)(a.s1, b.s1)
#elif VEC == 4
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1)
#define HIGH(a, b) (vec)(a.s2, b.s2, a.s3, b.s3)
#elif VEC == 8
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGH(a, b) (vec)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#else
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define HIGH(a, b) (vec)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#endif

/* Riffling the rows of a square as often as halving it takes to get to one row transposes it. */
static inline void transpose(vec *a)
{
#pragma unroll
    for (int rows = VEC; rows > 1; rows /= 2) {
        vec b[VEC];
#pragma unroll
        for (int i = 0; i < VEC / 2; i++) {
            b[2 * i] = LOW(a[i], a[i + VEC / 2]);
            b[2 * i + 1] = HIGH(a[i], a[i + VEC / 2]);
        }
#pragma unroll
        for (int i = 0; i < VEC; i++)
            a[i] = b[i];
    }
}

/* A tile of lanes: its first vector, how many it has, and how many of them are whole. */
typedef struct {
    int first, used, whole;
} pack_t;

static inline pack_t tile_of(int lanes, int tile, int tiles)
{
    const int vectors = (lanes + VEC - 1) / VEC;
    pack_t t;
    t.first = (int)((long)tile * vectors / tiles);
    t.used = (int)((long)(tile + 1) * vectors / tiles) - t.first;
    t.whole = min(lanes / VEC - t.first, t.used);
    return t;
}

#if BACKWARD
#define FILTERS 8 /* of which lines of the cache are read side by side */

/* A share of the filters and taps, all lanes; `out` is the group's. */
NOINLINE void pack_lanes(__global const STORAGE(IN_TYPE) *restrict w, __global ACC *restrict out, int filters,
                         int taps, int channels, int tiles, long share, long shares)
{
    const long depth = (long)taps * filters, blocks = (depth + FILTERS - 1) / FILTERS;
    for (long block = blocks * share / shares; block < blocks * (share + 1) / shares; block++) {
        const long from = block * FILTERS;
        const int count = (int)min(depth - from, (long)FILTERS);
        __global const STORAGE(IN_TYPE) *rows[FILTERS];
        for (int i = 0; i < count; i++)
            rows[i] = w + ((from + i) % filters * taps + (from + i) / filters) * channels;
        for (int tile = 0; tile < tiles; tile++) {
            const pack_t t = tile_of(channels, tile, tiles);
            __global ACC *to = out + (t.first * depth + from * t.used) * VEC;
            for (int i = 0; i < count; i++, to += t.used * VEC) {
                __global const STORAGE(IN_TYPE) *p = rows[i] + t.first * VEC;
                for (int v = 0; v < t.whole; v++)
                    STORE_VEC(MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(p, v * VEC)), to + v * VEC);
                if (t.whole < t.used)
                    STORE_VEC(load_first(p + t.whole * VEC, channels % VEC), to + t.whole * VEC);
            }
        }
    }
}
#else
#if MX_INTEGER_ACC
/* VEC elements of a row of w, or element i. */
#define ROW_ELEMENTS(i) (2 * (i))
#define LOAD_ROW(p) load_pairs(p)
#define LOAD_ONE(p, i) pair_of((p) + (i) / pairs * channels, (i) % pairs, channels)
#else
#define ROW_ELEMENTS(i) (i)
#define LOAD_ROW(p) MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(p, 0))
#define LOAD_ONE(p, i) (ACC)LOAD(IN_TYPE)(p, i)
#endif
/* A tile of filters, a share of their taps and channels; `out` is the group's. */
NOINLINE void pack_tile(__global const STORAGE(IN_TYPE) *restrict w, __global ACC *restrict out, int filters,
                        int taps, int channels, int tile, int tiles, long share, long shares)
{
    const int pairs = (channels + 1) / 2;
    const bool odd = MX_INTEGER_ACC && channels % 2 != 0;
    const long length = (long)taps * channels, depth = MX_INTEGER_ACC ? (long)taps * pairs : length;
    const pack_t t = tile_of(filters, tile, tiles);
    const int width = t.used * VEC;
    const long blocks = (depth + VEC - 1) / VEC;
    out += t.first * VEC * depth;
    for (long block = blocks * share / shares; block < blocks * (share + 1) / shares; block++) {
        const long i = block * VEC;
        for (int v = 0; v < t.used; v++) {
            __global const STORAGE(IN_TYPE) *rows = w + (t.first + v) * VEC * length;
            __global ACC *to = out + i * width + v * VEC;
            const int last = v < t.whole ? VEC - 1 : filters % VEC - 1;
            if (i + VEC <= depth && !odd) {
                vec a[VEC];
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    a[j] = LOAD_ROW(rows + min(j, last) * length + ROW_ELEMENTS(i));
                for (int j = last + 1; j < VEC; j++)
                    a[j] = (vec)((ACC)0);
                transpose(a);
#pragma unroll
                for (int j = 0; j < VEC; j++)
                    STORE_VEC(a[j], to + j * width);
            } else
                for (long j = 0; j < min(depth - i, (long)VEC); j++)
                    for (int lane = 0; lane < VEC; lane++)
                        to[j * width + lane] = lane <= last ? LOAD_ONE(rows + lane * length, i + j) : (ACC)0;
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pack_filters(
    __global const STORAGE(IN_TYPE) *restrict w, long w_offset, __global ACC *restrict out, long out_offset,
    int filters, int taps, int channels, int tiles, long zeros)
{
    const long share = get_group_id(1), shares = get_num_groups(1), group = get_group_id(2);
    const int lanes = BACKWARD ? channels : filters;
    const long depth = (long)taps * (BACKWARD ? filters : MX_INTEGER_ACC ? (channels + 1) / 2 : channels);
    w += w_offset + group * filters * taps * channels;
    out += out_offset;
    if (group == 0 && get_group_id(0) == 0)
        for (long i = share; i < zeros; i += shares)
            out[i] = 0;
    out += zeros + group * ((lanes + VEC - 1) / VEC * VEC) * depth;
#if BACKWARD
    pack_lanes(w, out, filters, taps, channels, tiles, share, shares);
#else
    pack_tile(w, out, filters, taps, channels, get_group_id(0), tiles, share, shares);
#endif
}

/* One share of the lines. */
NOINLINE void convert_share(__global const STORAGE(IN_TYPE) *restrict in, __global ACC *restrict out, long lines,
                            long length, long left, long right, long share, long shares)
{
    if (lines == 1) {
        /* Pieces of the one line: zeros come before the first and behind the last. */
        const long vectors = (length + VEC - 1) / VEC, first = vectors * share / shares * VEC;
        in += first;
        length = min(length, vectors * (share + 1) / shares * VEC) - first;
        if (share > 0) {
            out += left + first;
            left = 0;
        }
        if (share + 1 < shares)
            right = 0;
    }
    const long pitch = left + length + right, begin = lines == 1 ? 0 : lines * share / shares;
    const long end = lines == 1 ? 1 : lines * (share + 1) / shares;
    for (long line = begin; line < end; line++) {
        __global const STORAGE(IN_TYPE) *p = in + line * length;
        __global ACC *to = out + line * pitch;
        for (long i = 0; i < left; i++)
            to[i] = 0;
        to += left;
        long i = 0;
        for (; i + VEC <= length; i += VEC)
            STORE_VEC(MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(p, i)), to + i);
        for (; i < length; i++)
            to[i] = (ACC)LOAD(IN_TYPE)(p, i);
        for (i = 0; i < right; i++)
            to[length + i] = 0;
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void convert(
    __global const STORAGE(IN_TYPE) *restrict in, long in_offset, __global ACC *restrict out, long out_offset,
    long lines, long length, long left, long right)
{
    convert_share(in + in_offset, out + out_offset, lines, length, left, right, get_group_id(0), get_num_groups(0));
}

#if MX_INTEGER_ACC
/* Pixels of some groups' channels, side by side. */
static inline void convert_pixels(__global const char *restrict in, __global short *restrict out, long groups,
                                  int channels)
{
    if (channels % 2 != 0) {
        for (long g = 0; g < groups; g++, in += channels, out += channels + 1) {
            for (int c = 0; c < channels; c++)
                out[c] = in[c];
            out[channels] = 0;
        }
        return;
    }
    long i = 0;
    for (; i + 16 <= groups * channels; i += 16)
        MX_STORE_LOOSE(ushort, 16, (__global ushort *)out + i, as_ushort16(convert_short16(MX_LOAD_LOOSE(char, 16, in + i))));
    for (; i < groups * channels; i++)
        out[i] = in[i];
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void convert_pairs(
    __global const char *restrict in, long in_offset, __global int *restrict out, long out_offset, long lines,
    int pixels, int groups, int channels, int left, int right)
{
    const int pitch = left + pixels + right, wide = (channels + 1) / 2 * 2;
    const long all = lines * pitch, end = all * (get_group_id(0) + 1) / get_num_groups(0);
    __global short *const to = (__global short *)(out + out_offset);
    in += in_offset;
    for (long i = all * get_group_id(0) / get_num_groups(0), run; i < end; i += run) {
        const long line = i / pitch;
        const int at = (int)(i % pitch) - left;
        __global short *p = to + i * groups * wide;
        run = min(end - i, (long)(at < 0 ? -at : at < pixels ? pixels - at : pixels + right - at));
        if (at >= 0 && at < pixels)
            convert_pixels(in + (line * pixels + at) * groups * channels, p, run * groups, channels);
        else
            for (long j = 0; j < run * groups * wide; j++)
                p[j] = 0;
    }
}
#endif
