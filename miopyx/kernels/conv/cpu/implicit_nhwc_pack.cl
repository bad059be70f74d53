/* Operands of convolutions with channels last for CPU devices, as conv/cpu/implicit_nhwc.cl reads them.
 *
 * pack_filters: w as it lies (k, taps, c) becomes [group][tile][depth][lanes]: of each group the lanes (filters
 * forward, channels backward) in tiles of up to N_VECTORS vectors, and for each step of the sum (tap and channel
 * forward, tap and filter backward) the lanes of the tile.  Lanes beyond the last are zeros.  `zeros` elements of 0
 * come before all.
 *     NDRange: local (1, 1, 1), global (vectors of lanes, shares of depth, groups)
 * convert: lines of `in` become ACC, with `left` and `right` zeros about them.
 *     NDRange: local (1), global (shares)
 */
#ifndef IN_TYPE /* storage type of what is read */
#define IN_TYPE float
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef N_VECTORS
#define N_VECTORS 4
#endif
#ifndef BACKWARD
#define BACKWARD 0
#endif
#include "include/common.h"
#include "conv/cpu/implicit_nhwc.h"

#if VEC != 2 && VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 2, 4, 8 or 16"
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

/* Vector v of a group's lanes, one share of their depth. */
NOINLINE void pack_vector(__global const STORAGE(IN_TYPE) *restrict w, __global ACC *restrict out, int filters,
                       int taps, int channels, long zeros, int v, long share, long shares, long group)
{
    const int lanes = BACKWARD ? channels : filters;
    const long depth = (long)taps * (BACKWARD ? filters : channels);
    const int vectors = (lanes + VEC - 1) / VEC, tiles = (vectors + N_VECTORS - 1) / N_VECTORS;
    /* The tile of the vector: tile t begins with vector t * vectors / tiles. */
    const int tile = (int)(((long)(v + 1) * tiles - 1) / vectors);
    const int first = (int)((long)tile * vectors / tiles);
    const int width = ((int)((long)(tile + 1) * vectors / tiles) - first) * VEC;
    const int count = min(lanes - v * VEC, VEC);
    w += group * filters * taps * channels;
    if (v == 0 && group == 0)
        for (long i = share; i < zeros; i += shares)
            out[i] = 0;
    out += zeros + (group * vectors + first) * VEC * depth + (v - first) * VEC;
#if BACKWARD
    const long from = depth * share / shares, to = depth * (share + 1) / shares;
    int k = (int)(from % filters), tap = (int)(from / filters);
    for (long i = from; i < to; i++) {
        __global const STORAGE(IN_TYPE) *p = w + ((long)k * taps + tap) * channels + v * VEC;
        vec values;
        if (count == VEC)
            values = MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(p, 0));
        else
            values = load_first(p, count);
        STORE_VEC(values, out + i * width);
        if (++k == filters) {
            k = 0;
            tap++;
        }
    }
#else
    const long blocks = (depth + VEC - 1) / VEC;
    w += v * VEC * depth;
    for (long block = blocks * share / shares; block < blocks * (share + 1) / shares; block++) {
        const long i = block * VEC;
        if (i + VEC <= depth) {
            vec a[VEC];
#pragma unroll
            for (int j = 0; j < VEC; j++)
                a[j] = MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(w + min(j, count - 1) * depth + i, 0));
            if (count < VEC)
                for (int j = count; j < VEC; j++)
                    a[j] = (vec)((ACC)0);
            transpose(a);
#pragma unroll
            for (int j = 0; j < VEC; j++)
                STORE_VEC(a[j], out + (i + j) * width);
        } else
            for (long j = i; j < depth; j++)
                for (int lane = 0; lane < VEC; lane++)
                    out[j * width + lane] = lane < count ? (ACC)LOAD(IN_TYPE)(w + lane * depth, j) : (ACC)0;
    }
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pack_filters(
    __global const STORAGE(IN_TYPE) *restrict w, long w_offset, __global ACC *restrict out, long out_offset,
    int filters, int taps, int channels, long zeros)
{
    pack_vector(w + w_offset, out + out_offset, filters, taps, channels, zeros, get_group_id(0), get_group_id(1),
                get_num_groups(1), get_group_id(2));
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
