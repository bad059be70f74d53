/* Spectra of tiles of a tensor, and of filters, for FFT convolutions; conv/fft.h says what they are.
 *
 * Filters are one tile each, rows of w's channels or filters and lanes of the others.  With g.conjugate the
 * conjugates are stored.
 * NDRange: local (VEC * WORKERS, 1, 1) on GPUs, else (1, 1, 1), groups (rows / TOGETHER, blocks, groups of channels).
 * Local memory on GPUs: a tile's transformed rows, SHARED_SIZE.
 * Nothing beside the tensor is read; pixels beside an image and channels beyond the last are zeros.
 */
#include "conv/fft.h"

#if ON_GPU

/* Pixels of row `pixel`, counted from the image's first, from column `left` on; `lanes` of the channels exist. */
static inline void load_row(vec *out, __global const STORAGE(X_TYPE) *restrict X, const mx_fft_tiles *tiles, long base,
                            long pixel, long left, bool inside, long lanes)
{
    const mx_fft_tiles g = *tiles;
    const long h = inside ? element_of(pixel, g.step_h, g.height) : -1;
    const bool some = h >= 0 && LANE < lanes;
    X += base + h * g.h + LANE * g.c;
#pragma unroll
    for (int j = 0; j < FFT_W; j++) {
        const long w = some && j < g.window_w ? element_of(left + j, g.step_w, g.width) : -1;
        out[j] = w >= 0 ? LOAD(X_TYPE)(X, w * g.w) : (ACC)0;
    }
}

#else

#define LOAD_VEC MX_JOIN(vload, VEC)
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))

NOINLINE void load_row(vec *out, __global const STORAGE(X_TYPE) *restrict X,
                    const mx_fft_tiles *tiles, long base, long pixel, long left,
                    bool inside, long lanes)
{
    const mx_fft_tiles g = *tiles;
    const long h = inside ? element_of(pixel, g.step_h, g.height) : -1;
    if (h < 0) {
        ROLLED for (int j = 0; j < FFT_W; j++)
            out[j] = (vec)((ACC)0);
        return;
    }
    base += h * g.h;
    if (g.w == 1 && g.step_w == 1) {
        /* Rows of pixels: a vector holds neighbours of one channel.  What it reads of other rows is masked. */
        ROLLED for (int j = 0; j < FFT_W; j += VEC) {
            const long first = max(-left - j, 0L), end = min(min(g.width - left, g.window_w) - j, (long)VEC);
            vec v[VEC];
            if (first >= end) {
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    out[j + i] = (vec)((ACC)0);
                continue;
            }
            MASK_LANE lane[VEC];
            for (int i = 0; i < VEC; i++)
                lane[i] = i >= first && i < end ? -1 : 0;
            const lane_mask mask = LOAD_VEC(0, lane);
            ROLLED for (int i = 0; i < VEC; i++) {
                const long at = base + i * g.c + left + j;
                if (i >= lanes)
                    v[i] = (vec)((ACC)0);
                else if (at >= 0 && at + VEC <= g.size)
                    v[i] = mask ? TO_VEC(VLOAD(X_TYPE)(X, at)) : (vec)((ACC)0);
                else {
                    ACC pixels[VEC];
                    ROLLED for (int k = 0; k < VEC; k++)
                        pixels[k] = k >= first && k < end ? (ACC)LOAD(X_TYPE)(X, at + k) : (ACC)0;
                    v[i] = LOAD_VEC(0, pixels);
                }
            }
            transpose(v);
#pragma unroll
            for (int i = 0; i < VEC; i++)
                out[j + i] = v[i];
        }
        return;
    }
    MASK_LANE lane[VEC];
    for (int i = 0; i < VEC; i++)
        lane[i] = i < lanes ? -1 : 0;
    const lane_mask mask = LOAD_VEC(0, lane);
    ROLLED for (int j = 0; j < FFT_W; j++) {
        const long w = j < g.window_w ? element_of(left + j, g.step_w, g.width) : -1, at = base + w * g.w;
        if (w < 0)
            out[j] = (vec)((ACC)0);
        else if (g.c == 1 && at + VEC <= g.size)
            out[j] = mask ? TO_VEC(VLOAD(X_TYPE)(X, at)) : (vec)((ACC)0);
        else {
            ACC channels[VEC];
            ROLLED for (int i = 0; i < VEC; i++)
                channels[i] = i < lanes ? (ACC)LOAD(X_TYPE)(X, at + i * g.c) : (ACC)0;
            out[j] = LOAD_VEC(0, channels);
        }
    }
}

#endif

static inline void store(__global ACC *restrict S, vec re, vec im, ACC sign)
{
    im *= sign;
#if ON_GPU
    S[LANE] = re;
    S[LANE + VEC] = im;
#else
    MX_JOIN(vstore, VEC)(re, 0, S);
    MX_JOIN(vstore, VEC)(im, 1, S);
#endif
}

KERNEL void fft_forward(
    __global const STORAGE(X_TYPE) *restrict X, long x_offset,
    __global ACC *restrict S, long s_offset, const mx_fft_tiles g)
{
    const long row = get_group_id(0) * TOGETHER, block = get_group_id(1), group = get_group_id(2);
    const long lanes = g.channels - block * VEC;
    const ACC sign = g.conjugate ? -1 : 1;
    SHARED vec columns[SHARED_SIZE];

    X += x_offset;
    S += s_offset + row * g.row + (group * g.blocks + block) * 2 * VEC;
    const long offset = group * g.g + block * VEC * g.c;
    for (int pair = WORKER; pair < HEIGHT / 2; pair += WORKERS) {
        /* Two real rows are one complex row: what is even of its transform belongs to the first. */
        vec in[2 * FFT_W], re[FFT_W], im[FFT_W];
        ROLLED for (int i = 0; i < 2; i++) {
            const mx_fft_place at = place_of(g, FFT_H == 1 ? row + i : row);
            const int line = FFT_H == 1 ? 0 : 2 * pair + i;
            load_row(in + i * FFT_W, X, &g, at.base + offset, at.top + line, at.left,
                     FFT_H == 1 ? row + i < g.rows : line < g.window_h, lanes);
        }
        FFT(FFT_W)(in, in + FFT_W, re, im);
        ROLLED for (int v = 0; v < COLUMNS; v++) {
            const int w = (FFT_W - v) % FFT_W;
            columns[RE(v, 2 * pair)] = re[v] + re[w];
            columns[IM(v, 2 * pair)] = im[v] - im[w];
            columns[RE(v, 2 * pair + 1)] = im[v] + im[w];
            columns[IM(v, 2 * pair + 1)] = re[w] - re[v];
        }
    }
    SHARE();
    for (int v = WORKER; v < COLUMNS; v += WORKERS) {
#if FFT_H == 1
        store(S + v * g.frequency, columns[RE(v, 0)], columns[IM(v, 0)], sign);
        if (row + 1 < g.rows)
            store(S + v * g.frequency + g.row, columns[RE(v, 1)], columns[IM(v, 1)], sign);
#else
        vec re[FFT_H], im[FFT_H];
#if ON_GPU
        vec a[FFT_H], b[FFT_H];
#pragma unroll
        for (int u = 0; u < FFT_H; u++)
            a[u] = columns[RE(v, u)], b[u] = columns[IM(v, u)];
        FFT(FFT_H)(a, b, re, im);
#else
        FFT(FFT_H)(columns + RE(v, 0), columns + IM(v, 0), re, im);
#endif
        __global ACC *to = S + frequency_of(0, v) * g.frequency;
        const int rows = stored_rows(v);
        ROLLED for (int u = 0; u < FFT_H; u++)
            if (u < rows)
                store(to + u * g.frequency, re[u], im[u], sign);
#endif
    }
}
