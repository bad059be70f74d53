/* Forward convolution of few channels, as images have, on tensor cores: y = alpha * x w + beta * y.
 *
 *   K: all taps and channels as one axis; rows of the filter are runs of neighbours in x (conv/nvidia/few.h)
 *
 *              q ->  16           Persistent: a work-group keeps the weights of 64 filters in local memory and
 *            +------+------+      goes from tile to tile of 8 x 16 pixels.  The pixels that a tile reads, with its
 *     p  8   |  0   |  1   |      halo, are copied there, into one of two stages.
 *            +------+------+      A warp has 32 pixels x BLOCKS * 16 filters.
 *
 * Grid: one axis, local 512 / BLOCKS, global (512 / BLOCKS) * sets * workers; sets: of 64 filters.
 * Channels last: pixels are the rows of mma.sync, filters the columns; else the other way round.  The columns' order
 * gives each lane four neighbours of y.
 * OCP's float8, two kinds of which may meet and whose results may be wider, is multiplied as halves, exactly.
 * Floats are pairs of tf32 as in conv/nvidia/float.cl, and a sum starts anew every 8 products.  A sum that is not
 * finite is computed again, since infinity times a zero outside x may have made it.
 * Bound by: storing y; reads of local memory where the filter is large.
 */
#ifndef PAIRED /* 16 bits: two neighbours in x begin at a word */
#define PAIRED 1
#endif
#ifndef VEC /* elements of y that are stored at once where y's address allows: 1 or 4 */
#define VEC 1
#endif
#ifndef BLOCKS /* of 16 filters, of a warp: 2 or 4 */
#define BLOCKS 2
#endif
#define THREADS (512 / BLOCKS)
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/few.h"
#include "conv/nvidia/round.h"
#ifndef W_TYPE
#define W_TYPE X_TYPE
#endif
/* Of one result of 8 bits: its random number belongs to its place in the whole tensor. */
#undef MX_STORE_e4m3
#undef MX_STORE_e5m2
#define MX_STORE_e4m3(p, i, v) ((p)[i] = mx_to_float8((float)(v), 3, 1, rounding, part_at + (i)))
#define MX_STORE_e5m2(p, i, v) ((p)[i] = mx_to_float8((float)(v), 2, 1, rounding, part_at + (i)))

#define PAIR_WORDS (WIDE ? 2 : 1) /* hi and lo */
#define WARPS_N (4 / BLOCKS)

/* x[pixels' half][hi or lo of k] by w[4], the half number `of` of the columns, added to sums or beginning them. */
#if CHANNELS_LAST
#define PRODUCT(HOW, sums, x, w, of) HOW(sums, (x)[0][0], (x)[1][0], (x)[0][1], (x)[1][1], (w)[of], (w)[(of) + 2])
#else
#define PRODUCT(HOW, sums, x, w, of) HOW(sums, (w)[0], (w)[1], (w)[2], (w)[3], (x)[of][0], (x)[of][1])
#endif

#define FOUR_FINITE(v) (fabs((v)[0]) + fabs((v)[1]) + fabs((v)[2]) + fabs((v)[3]) < INFINITY)

/* Words of four neighbours in y: what is stored at once, and one. */
#if MX_TYPE(Y_TYPE) == MX_TYPE_float
#define MX_FOUR uint4
#define MX_FOUR_OF(words) (uint4)((words)[0], (words)[1], (words)[2], (words)[3])
#define MX_ONE_OF(words, l) as_float((words)[l])
#elif MX_TYPE(Y_TYPE) == MX_TYPE_half || MX_TYPE(Y_TYPE) == MX_TYPE_bfloat16
#define MX_FOUR uint2
#define MX_FOUR_OF(words) (uint2)((words)[0], (words)[1])
#define MX_ONE_OF(words, l) (ushort)((words)[(l) / 2] >> (l) % 2 * 16)
#else
#define MX_FOUR uint
#define MX_FOUR_OF(words) (words)[0]
#define MX_ONE_OF(words, l) (uchar)((words)[0] >> (l) * 8)
#endif

/* One sum without what is outside x. */
static inline float mx_exactly(__global const STORAGE(X_TYPE) *X, __global const STORAGE(W_TYPE) *W,
                               const mx_nv_few g, int n, int p, int q, int k)
{
    float sum = 0;
#pragma unroll 1
    for (int i = 0; i < g.taps_h; i++)
#pragma unroll 1
        for (int j = 0; j < g.taps_w; j++) {
            const int h = p * g.step_h + g.first_h + i * g.tap_h, w = q * g.step_w + g.first_w + j * g.tap_w;
            if ((uint)h < (uint)g.h && (uint)w < (uint)g.w)
#pragma unroll 1
                for (int c = 0; c < g.channels; c++)
                    sum = fma(LOAD(X_TYPE)(X, n * g.x_n + c * g.x_c + h * g.x_h + (CHANNELS_LAST ? w * g.channels : w)),
                              LOAD(W_TYPE)(W, k * g.w_k + c * g.w_c + i * g.w_h + j * g.w_w), sum);
        }
    return sum;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_few(
    __global const STORAGE(X_TYPE) *restrict X, long x_offset, __global const STORAGE(W_TYPE) *restrict W,
    long w_offset, __global STORAGE(Y_TYPE) *restrict Y, long y_offset, const mx_nv_few g,
#if EIGHT_BITS
    const long rounding, const long part_at, /* what of the whole tensor Y begins with */
#endif
    EPILOGUE_KERNEL_PARAMS)
{
#if !EIGHT_BITS
    const long rounding = 0, part_at = 0;
#endif
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 weights[STEPS * 4 * PAIR_WORDS * 32]; /* [step][16 filters][hi or lo][lane] */
    __local MX_STAGED pixels[2][TILE_ELEMENTS] __attribute__((aligned(16)));
    __local int in_x[STEPS * DEPTH], in_w[STEPS * DEPTH];
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5, t = lane & 3, row8 = lane >> 2;
    const int set = get_group_id(0) % g.sets, worker = get_group_id(0) / g.sets, filter0 = set * 64;
    const int unit = CHANNELS_LAST ? g.channels : 1;

    X += x_offset, W += w_offset, Y += y_offset;
    const uint pixels_at = mx_shared(pixels);
    MX_COPY_X(0, worker);
    MX_COMMIT();

    MX_LIST_K(in_x, in_w, g.w_c, g.w_h, g.w_w);
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 4
    for (int i = item; i < STEPS * 4 * 128; i += THREADS) {
        /* Word j of lane l: row l / 4 of half j % 2 of the filters, part j / 2 of the step's k. */
        const int word = i & 3, to_lane = i >> 2 & 31, b = i >> 7 & 3, step = i >> 9, r = to_lane >> 2;
        const int k = step * DEPTH + (word >> 1) * (DEPTH / 2) + (to_lane & 3) * (WIDE ? 1 : 2);
        const int filter =
            filter0 + b * 16 + (CHANNELS_LAST ? 4 * (r >> 1) + 2 * (word & 1) + (r & 1) : (word & 1) * 8 + r);
        const bool some = filter < g.filters;
        __global const STORAGE(W_TYPE) *from = W + (long)filter * g.w_k;
        __local uint *to = (__local uint *)weights + ((step * 4 + b) * PAIR_WORDS * 32 + to_lane) * 4 + word;
#if MX_TYPE(X_TYPE) == MX_TYPE_float
        const uint value = some && in_w[k] >= 0 ? as_uint(from[in_w[k]]) : 0;
        uint hi, lo;
        MX_TF32_PAIR(value, hi, lo);
        to[0] = hi, to[128] = lo;
#else
        const uint first = some && in_w[k] >= 0 ? from[in_w[k]] : 0;
        const uint second = some && in_w[k + 1] >= 0 ? from[in_w[k + 1]] : 0;
        *to = MX_TWO(W_TYPE, first, second);
#endif
    }
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);

    /* A warp: two rows of 16 pixels by BLOCKS * 16 filters. */
    const int row0 = warp / WARPS_N * 2, b0 = warp % WARPS_N * BLOCKS;
    const int column = CHANNELS_LAST ? row8 : 4 * (row8 >> 1) + (row8 & 1);
    const int next_half = (CHANNELS_LAST ? 8 : 2) * g.step_w * unit, next_row = g.step_h * g.pitch;
    const int base = row0 * next_row + column * g.step_w * unit;
    int stage = 0;
#pragma unroll 1
    for (int tile = worker; tile < g.tiles; tile += g.workers, stage ^= 1) {
        if (tile + g.workers < g.tiles)
            MX_COPY_X(stage ^ 1, tile + g.workers);
        MX_COMMIT();
        float sums[2][BLOCKS][2][4];
#pragma unroll
        for (int i = 0; i < 16 * BLOCKS; i++)
            sums[i & 1][i >> 4][i >> 1 & 1][i >> 2 & 3] = 0;
        __local const MX_STAGED *from = pixels[stage] + base;
#pragma unroll 1
        for (int step = 0; step < STEPS; step++) {
            uint x[2][2][2];
#pragma unroll
            for (int part = 0; part < 2; part++) {
                const int at = in_x[step * DEPTH + part * (DEPTH / 2) + t * (WIDE ? 1 : 2)];
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int half_ = 0; half_ < 2; half_++) {
                        __local const MX_STAGED *one = from + at + m * next_row + half_ * next_half;
#if MX_TYPE(X_TYPE) == MX_TYPE_float
                        x[m][half_][part] = as_uint(*one);
#elif PAIRED
                        x[m][half_][part] = *(__local const uint *)one;
#else
                        x[m][half_][part] = (uint)one[0] | (uint)one[1] << 16;
#endif
                    }
            }
#if MX_TYPE(X_TYPE) == MX_TYPE_float
            uint hi[2][2][2], lo[2][2][2];
#pragma unroll
            for (int i = 0; i < 8; i++)
                MX_TF32_PAIR(x[i >> 2][i >> 1 & 1][i & 1], hi[i >> 2][i >> 1 & 1][i & 1],
                             lo[i >> 2][i >> 1 & 1][i & 1]);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                const uint4 w_hi4 = weights[((step * 4 + b0 + b) * 2) * 32 + lane];
                const uint4 w_lo4 = weights[((step * 4 + b0 + b) * 2 + 1) * 32 + lane];
                const uint w_hi[4] = {w_hi4.x, w_hi4.y, w_hi4.z, w_hi4.w};
                const uint w_lo[4] = {w_lo4.x, w_lo4.y, w_lo4.z, w_lo4.w};
                float fresh[2][2][4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    PRODUCT(MX_PRODUCT, fresh[i >> 1][i & 1], lo[i >> 1], w_hi, i & 1);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    PRODUCT(MX_ADD_PRODUCT, fresh[i >> 1][i & 1], hi[i >> 1], w_lo, i & 1);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    PRODUCT(MX_ADD_PRODUCT, fresh[i >> 1][i & 1], hi[i >> 1], w_hi, i & 1);
#pragma unroll
                for (int i = 0; i < 16; i++)
                    sums[i >> 3][b][i >> 2 & 1][i & 3] += fresh[i >> 3][i >> 2 & 1][i & 3];
            }
#else
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                const uint4 w4 = weights[(step * 4 + b0 + b) * 32 + lane];
                const uint w[4] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
                    PRODUCT(MX_ADD_PRODUCT, sums[i >> 1][b][i & 1], x[i >> 1], w, i & 1);
            }
#endif
        }

        const int line = mx_quotient(tile, g.by_across), n = mx_quotient(line, g.by_down);
        const int p0 = (line - n * g.down) * TILE_H + row0, q0 = (tile - line * g.across) * TILE_W;
        __global STORAGE(Y_TYPE) *image = Y + n * g.y_n;
        uint again = 0;
#pragma unroll
        for (int i = 0; i < 4 * BLOCKS; i++) {
            const int m = i >> 1 & 1, b = i >> 2, r = i & 1, p = p0 + m;
            const int q = q0 + (CHANNELS_LAST ? row8 + 8 * r : 4 * t);
            const int k = filter0 + (b0 + b) * 16 + (CHANNELS_LAST ? 4 * t : row8 + 8 * r);
            if (p >= g.p || q >= g.q || k >= g.filters)
                continue;
            float v[4] = {sums[m][b][0][2 * r], sums[m][b][0][2 * r + 1], sums[m][b][1][2 * r],
                          sums[m][b][1][2 * r + 1]};
            if (!FOUR_FINITE(v)) {
                again |= 1u << i;
                continue;
            }
            __global STORAGE(Y_TYPE) *y = image + p * g.y_h + q * g.y_w + k * g.y_c;
            const int y_step = CHANNELS_LAST ? g.y_c : g.y_w;
            const int count = VEC == 4 ? 4 : min(4, CHANNELS_LAST ? g.filters - k : g.q - q);
#pragma unroll
            for (int l = 0; l < 4; l++) {
                OF_FILTER(CHANNELS_LAST ? min(k + l, g.filters - 1) : k)
                v[l] = SCALED_RESULT(v[l]);
                if (beta != 0 && l < count)
                    v[l] += beta * LOAD(Y_TYPE)(OLD_RESULT(Y_TYPE, y), l * y_step);
                v[l] = FINAL_RESULT(v[l]);
            }
            if (sizeof(STORAGE(Y_TYPE)) == 1 && !FOUR_FINITE(v)) { /* alpha or beta made it so */
                again |= 1u << i;
                continue;
            }
            uint words[MX_WORDS(4)];
            mx_round_finite(words, v, 4, rounding, part_at, (int)(y - Y));
            if (VEC == 4 && ((ulong)y & (sizeof(words) - 1)) == 0)
                *(__global MX_FOUR *)y = MX_FOUR_OF(words);
            else
#pragma unroll
                for (int l = 0; l < 4; l++)
                    if (l < count)
                        y[l * y_step] = MX_ONE_OF(words, l);
        }
#pragma unroll 1
        for (int i = 0; again != 0; i++, again >>= 1)
            if (again & 1) {
                const int p = p0 + (i >> 1 & 1), q = q0 + (CHANNELS_LAST ? row8 + 8 * (i & 1) : 4 * t);
                const int k = filter0 + (b0 + (i >> 2)) * 16 + (CHANNELS_LAST ? 4 * t : row8 + 8 * (i & 1));
#pragma unroll 1
                for (int l = 0; l < 4; l++)
                    if (CHANNELS_LAST ? k + l < g.filters : q + l < g.q) {
                        OF_FILTER(CHANNELS_LAST ? k + l : k)
                        STORE_ONE(Y_TYPE, EIGHT_BITS ? Y : image,
                                  (EIGHT_BITS ? (int)(image - Y) : 0) + p * g.y_h + (CHANNELS_LAST ? q : q + l) * g.y_w
                                      + (CHANNELS_LAST ? k + l : k) * g.y_c,
                                  mx_exactly(X, W, g, n, p, CHANNELS_LAST ? q : q + l, CHANNELS_LAST ? k + l : k));
                    }
            }
        MX_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
