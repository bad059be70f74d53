/* Tiles of a tensor, or filters' gradients, from their spectra, for FFT convolutions; conv/fft.h says what those are.
 *
 * NDRange: local (VEC * WORKERS, 1, 1) on GPUs, else (1, 1, 1), groups (rows / TOGETHER, blocks, groups of channels).
 * Local memory on GPUs: a tile's transformed columns, SHARED_SIZE.
 */
#include "conv/fft.h"

/* Transforms are not scaled, and the two sides of a product are each twice their spectrum. */
#define SCALE ((ACC)1 / (4 * FFT_H * FFT_W))

#if ON_GPU

static inline void store_row(__global STORAGE(X_TYPE) *restrict X, const mx_fft_tiles *tiles, long base, long pixel,
                             long left, long lanes, const vec *row, SCALAR alpha, SCALAR beta)
{
    const mx_fft_tiles g = *tiles;
    const long h = element_of(pixel, g.step_h, g.height);
    if (h < 0 || LANE >= lanes)
        return;
    X += base + h * g.h + LANE * g.c;
#pragma unroll
    for (int j = 0; j < FFT_W; j++) {
        const long w = j >= g.skip_w && j < g.skip_w + g.window_w
                           ? element_of(left + j - g.skip_w, g.step_w, g.width) : -1;
        if (w >= 0)
            STORE_MIXED(X_TYPE, X, w * g.w, row[j] * SCALE, alpha, beta);
    }
}

#else

#define STORE_VEC MX_JOIN(vstore, VEC)
#define STORED(n) MX_JOIN(STORAGE(X_TYPE), n)

/* What a vector of ACC is in memory. */
#define MX_BITS_half(v) MX_JOIN(mx_half_bits, VEC)(MX_FLOATS(v))
#define MX_BITS_float(v) (v)
#define MX_BITS_double(v) (v)
#define MX_BITS_bfloat16(v) MX_JOIN(mx_bfloat16_bits, VEC)(MX_FLOATS(v))
#define BITS(T) MX_JOIN(MX_BITS_, T)

/* The first `count` elements of a vector. */
static inline void store_first(__global STORAGE(X_TYPE) *restrict X, STORED(VEC) v, long count)
{
    if (count >= VEC) {
        STORE_VEC(v, 0, X);
        return;
    }
#if VEC == 16
    STORED(8) v8 = v.lo;
    if (count & 8) {
        vstore8(v8, 0, X);
        X += 8;
        v8 = v.hi;
    }
#elif VEC == 8
    const STORED(8) v8 = v;
#endif
#if VEC == 2
    const STORED(2) v2 = v;
#else
#if VEC == 4
    const STORED(4) v4 = v;
#else
    STORED(4) v4 = v8.lo;
    if (count & 4) {
        vstore4(v4, 0, X);
        X += 4;
        v4 = v8.hi;
    }
#endif
    STORED(2) v2 = v4.lo;
    if (count & 2) {
        vstore2(v2, 0, X);
        X += 2;
        v2 = v4.hi;
    }
#endif
    if (count & 1)
        X[0] = v2.x;
}

static inline void store_vec(__global STORAGE(X_TYPE) *restrict X, vec value, long count, SCALAR alpha, SCALAR beta)
{
    if (beta == 0)
        store_first(X, BITS(X_TYPE)(value * (ACC)alpha), count);
    else if (count >= VEC)
        VSTORE(X_TYPE)(X, 0, value * (ACC)alpha + (ACC)beta * VLOAD(X_TYPE)(X, 0));
    else {
        ACC lanes[VEC];
        STORE_VEC(value, 0, lanes);
        for (int i = 0; i < count; i++)
            STORE_MIXED(X_TYPE, X, i, lanes[i], alpha, beta);
    }
}

NOINLINE void store_row(__global STORAGE(X_TYPE) *restrict X, const mx_fft_tiles *tiles,
                     long base, long pixel, long left, long lanes, const vec *row,
                     SCALAR alpha, SCALAR beta)
{
    const mx_fft_tiles g = *tiles;
    const long h = element_of(pixel, g.step_h, g.height);
    if (h < 0)
        return;
    X += base + h * g.h;
    row += g.skip_w;
    if (g.w == 1 && g.step_w == 1) {
        const long count = min(g.width - left, g.window_w);
        X += left;
        for (long j = 0; j < count; j += VEC) {
            vec v[VEC];
            for (int i = 0; i < VEC; i++)
                v[i] = row[min(j + i, count - 1)] * SCALE;
            transpose(v);
            for (int i = 0; i < VEC && i < lanes; i++)
                store_vec(X + i * g.c + j, v[i], count - j, alpha, beta);
        }
        return;
    }
    for (long j = 0; j < g.window_w; j++) {
        const long w = element_of(left + j, g.step_w, g.width);
        if (w < 0)
            continue;
        if (g.c == 1)
            store_vec(X + w * g.w, row[j] * SCALE, lanes, alpha, beta);
        else {
            ACC channels[VEC];
            STORE_VEC(row[j] * SCALE, 0, channels);
            for (int i = 0; i < VEC && i < lanes; i++)
                STORE_MIXED(X_TYPE, X, w * g.w + i * g.c, channels[i], alpha, beta);
        }
    }
}

#endif

#if ON_GPU
#define LOAD_RE(S) ((S)[LANE])
#define LOAD_IM(S) ((S)[LANE + VEC])
#else
#define LOAD_RE(S) MX_JOIN(vload, VEC)(0, S)
#define LOAD_IM(S) MX_JOIN(vload, VEC)(1, S)
#endif

KERNEL void fft_inverse(
    __global const ACC *restrict S, long s_offset,
    __global STORAGE(X_TYPE) *restrict X, long x_offset, const mx_fft_tiles g, const SCALAR alpha, const SCALAR beta)
{
    const long row = get_group_id(0) * TOGETHER, block = get_group_id(1), group = get_group_id(2);
    const long lanes = g.channels - block * VEC;
    const bool two = row + 1 < g.rows;
    SHARED vec columns[SHARED_SIZE];

    X += x_offset;
    S += s_offset + row * g.row + (group * g.blocks + block) * 2 * VEC;
    for (int v = WORKER; v < COLUMNS; v += WORKERS) {
#if FFT_H == 1
        __global const ACC *from = S + v * g.frequency, *next = two ? from + g.row : from;
        columns[RE(v, 0)] = LOAD_RE(from), columns[IM(v, 0)] = LOAD_IM(from);
        columns[RE(v, 1)] = LOAD_RE(next), columns[IM(v, 1)] = LOAD_IM(next);
#else
        vec a[FFT_H], b[FFT_H];
        __global const ACC *from = S + frequency_of(0, v) * g.frequency;
        const bool whole = stored_rows(v) == FFT_H;
        ROLLED for (int u = 0; u < FFT_H; u++) {
            const bool other = u > FFT_H / 2 && !whole; /* the conjugate of a stored one */
            __global const ACC *at = from + (other ? FFT_H - u : u) * g.frequency;
            const vec y = LOAD_IM(at);
            a[u] = LOAD_RE(at), b[u] = other ? -y : y;
        }
#if ON_GPU
        vec re[FFT_H], im[FFT_H];
        FFT(FFT_H)(b, a, im, re);
#pragma unroll
        for (int u = 0; u < FFT_H; u++)
            columns[RE(v, u)] = re[u], columns[IM(v, u)] = im[u];
#else
        FFT(FFT_H)(b, a, columns + IM(v, 0), columns + RE(v, 0));
#endif
#endif
    }
    SHARE();
    const mx_fft_place at = place_of(g, row);
    const long offset = group * g.g + block * VEC * g.c;
    const long first = FFT_H == 1 ? 0 : g.skip_h, end = FFT_H == 1 ? 2 : g.skip_h + g.window_h;
    for (long pair = first / 2 + WORKER; 2 * pair < end; pair += WORKERS) {
        /* Two rows are the real and the imaginary part of one transform. */
        vec a[FFT_W], b[FFT_W], re[FFT_W], im[FFT_W];
        ROLLED for (int v = 0; v < COLUMNS; v++) {
            const vec a_re = columns[RE(v, 2 * pair)], a_im = columns[IM(v, 2 * pair)];
            const vec b_re = columns[RE(v, 2 * pair + 1)], b_im = columns[IM(v, 2 * pair + 1)];
            re[v] = a_re - b_im, im[v] = a_im + b_re;
            if (v > 0 && v < FFT_W / 2)
                re[FFT_W - v] = a_re + b_im, im[FFT_W - v] = b_re - a_im;
        }
        FFT(FFT_W)(im, re, b, a);
        if (FFT_H == 1) {
            store_row(X, &g, at.base + offset, at.top, at.left, lanes, a, alpha, beta);
            if (two) {
                const mx_fft_place next = place_of(g, row + 1);
                store_row(X, &g, next.base + offset, next.top, next.left, lanes, b, alpha, beta);
            }
        } else {
            const long pixel = at.top + 2 * pair - first;
            if (2 * pair >= first)
                store_row(X, &g, at.base + offset, pixel, at.left, lanes, a, alpha, beta);
            if (2 * pair + 1 < end)
                store_row(X, &g, at.base + offset, pixel + 1, at.left, lanes, b, alpha, beta);
        }
    }
}
