/* Pooling on GPUs by vectors of channels: two spatial axes, windows of up to 5 x 5, c contiguous in x and y, which are
 * made of aligned vectors of PACK channels; indices of 8 bits.
 *
 *   pooling_forward_lanes      a work-item writes such a vector at ROWS x COLUMNS elements of y.
 *   pooling_backward_lanes     likewise of dx, which begin at a multiple of the strides.
 *
 *       work-group:  SPAN vectors of channels, side by side       Grid:  work-groups over n, tiles along h and w, and
 *                    x  TILE_H x TILE_W blocks                           sets of SPAN vectors; without indices forward,
 *                       of ROWS x COLUMNS elements                       work-items over n, blocks and vectors.
 *
 * Local memory: with indices a byte of each channel and window of a tile, PITCH bytes a window.  Channels run slowest
 *               in the indices and fastest here: four by four are turned.
 * Parameters:   as layers/pooling_gpu.h.
 * Bound by:     memory; with indices by the turning, of which one work-group's hides behind another's loads.
 *
 * Every window meets the image.  What lies outside is read at the nearest place inside, so that loads need no branches:
 * for a maximum that is an element of the window anyway, and for a sum its bits are masked.
 */
#include "layers/pooling_gpu.h"
#include "layers/pooling_gpu_elements.h"

#undef VEC
#define VEC PACK
#include "include/gpu_vectors.h"

MX_GET(get, TYPE)
MX_PUT(put, TYPE)

#if SAVE && (PROPAGATE || LIKE_Y)
#error "pooling_..._lanes knows packed indices of numbers alone"
#endif
#if IS_KIND(forward_lanes) && SAVE
#include "layers/pooling_gpu_maximum.h"
#endif

#define LOCAL (SPAN * TILE_H * TILE_W) /* of a tile */
#if SAVE
/* Indices of 8 bits: channels run slowest in them and fastest in local memory, four by four are turned. */
#define PITCH (SPAN * PACK + 8) /* bytes of a window */
#define CODES MX_JOIN(uchar, PACK)

/* Byte i of word j becomes byte j of word i. */
static inline void turn(uint words[4])
{
    const uint low = 0x00ff00ffu, a = words[0], b = words[1], c = words[2], d = words[3];
    const uint even_1 = (a & low) | (b & low) << 8, odd_1 = (a >> 8 & low) | (b & ~low);
    const uint even_2 = (c & low) | (d & low) << 8, odd_2 = (c >> 8 & low) | (d & ~low);
    words[0] = (even_1 & 0xffffu) | even_2 << 16;
    words[1] = (odd_1 & 0xffffu) | odd_2 << 16;
    words[2] = even_1 >> 16 | (even_2 & ~0xffffu);
    words[3] = odd_1 >> 16 | (odd_2 & ~0xffffu);
}
#endif

#if IS_KIND(forward_lanes)
#if SAVE
#define TILE_ROWS (TILE_H * ROWS)
#define TILE_COLUMNS (TILE_W * COLUMNS)

/* Four neighbours of a row of `columns`, those that are there. */
static inline void put_codes(__global uchar *row, INDEX w, INDEX columns, uint word, const bool runs)
{
    if (runs && RUN == 4) {
        if (w < columns)
            *(__global uint *)(row + w) = word;
    } else if (runs && RUN == 2) {
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (w + 2 * i < columns)
                *(__global ushort *)(row + w + 2 * i) = (ushort)(word >> 16 * i);
    } else
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (w + i < columns)
                row[w + i] = (uchar)(word >> 8 * i);
}
#define SIZED __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
#else
#define SIZED
#endif
__kernel SIZED void pooling_forward_lanes(FORWARD_BUFFERS,
#if SAVE
                                    __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                    const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
#if SAVE
    __local uchar codes[TILE_ROWS * TILE_COLUMNS * PITCH] __attribute__((aligned(8)));
    const int me = (int)get_local_id(0), lane = me % SPAN, block_w = me / SPAN % TILE_W, block_h = me / SPAN / TILE_W;
    const block_t tile = block_of((INDEX)get_group_id(0), (channels / PACK + SPAN - 1) / SPAN,
                                  (rows + TILE_ROWS - 1) / TILE_ROWS, (columns + TILE_COLUMNS - 1) / TILE_COLUMNS);
    const block_t a = {.n = tile.n, .c = tile.c * SPAN + lane, .h = tile.h * TILE_H + block_h,
                       .w = tile.w * TILE_W + block_w};
    const bool mine = a.c * PACK < channels && a.h * ROWS < rows && a.w * COLUMNS < columns;
#else
    const block_t a = block_of((INDEX)get_global_id(0), channels / PACK, (rows + ROWS - 1) / ROWS,
                               (columns + COLUMNS - 1) / COLUMNS);
    const bool mine = a.n < (INDEX)p.y.len[0];
#endif
    if (!MX_ALIGNED(x + x_offset) || !MX_ALIGNED(y + y_offset)) {
        for (INDEX h = a.h * ROWS; mine && h < min(a.h * ROWS + ROWS, rows); h++)
            for (INDEX w = a.w * COLUMNS; w < min(a.w * COLUMNS + COLUMNS, columns); w++)
                for (INDEX c = a.c * PACK; c < (a.c + 1) * PACK; c++) {
                    const mx_place place = {.n = a.n, .c = c, .d = 0, .h = h, .w = w};
                    forward_element(FORWARD_ARGUMENTS, &p, place);
                }
        return;
    }
    if (mine) {
        x += x_offset + a.n * p.x.stride[0] + a.c * PACK;
        y += y_offset + a.n * p.y.stride[0] + a.c * PACK + a.w * COLUMNS * p.y.stride[4];
        const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p.pad[1], w0 = a.w * (COLUMNS * STEP_W) - (INDEX)p.pad[2];
        const INDEX line = (INDEX)p.x.stride[3];
        INDEX at[ACROSS], column[ACROSS];
#pragma unroll
        for (int k = 0; k < ACROSS; k++) {
            column[k] = min(max(w0 + k, (INDEX)0), width - 1);
            at[k] = column[k] * (INDEX)p.x.stride[4];
        }
#if SAVE
        most_t found[DOWN][COLUMNS], result[COLUMNS], common[COLUMNS];
#else
        vec_t found[DOWN][COLUMNS], result[COLUMNS];
#endif
#pragma unroll
        for (int i = 0; i < DOWN; i++) {
            const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
#if SAVE
            most_t one[ACROSS], pair;
#pragma unroll
            for (int k = 0; k < ACROSS; k++)
                one[k] = most_at(MX_RAW_LOAD(TYPE, x + h * line + at[k], true), h == h0 + i && column[k] == w0 + k,
                                 i * WINDOW + k);
#pragma unroll
            for (int o = 0; o < COLUMNS; o++)
                MOST(found[i][o], o, COLUMNS, one, , WINDOW, STEP_W, pair);
#else
            vec_t one[ACROSS];
#pragma unroll
            for (int k = 0; k < ACROSS; k++)
                one[k] = get(x + h * line + at[k], true);
#pragma unroll
            for (int o = 0; o < COLUMNS; o++) {
                vec_t value = NOTHING;
#pragma unroll
                for (int k = o * STEP_W; k < o * STEP_W + WINDOW; k++)
                    value = MODE == 0 ? LARGER(one[k], value) : value + (column[k] == w0 + k ? one[k] : (vec_t)0);
                found[i][o] = MODE == 0 || h == h0 + i ? value : (vec_t)0;
            }
#endif
            /* Windows whose last row this is. */
            if (i < WINDOW_H - 1 || (i - WINDOW_H + 1) % STEP_H != 0)
                continue;
            const int r = (i - WINDOW_H + 1) / STEP_H;
            const INDEX row = a.h * ROWS + r, from = h0 + r * STEP_H;
#pragma unroll
            for (int o = 0; o < COLUMNS; o++) {
                const INDEX left = w0 + o * STEP_W;
#if SAVE
                MOST(result[o], r, ROWS, found, [o], WINDOW_H, STEP_H, common[o]);
#else
                vec_t value = found[r * STEP_H][o];
#pragma unroll
                for (int t = 1; t < WINDOW_H; t++)
                    value = MODE == 0 ? LARGER(value, found[r * STEP_H + t][o]) : value + found[r * STEP_H + t][o];
                if (MODE == 1)
                    value /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                                   (min(left + WINDOW, width) - max(left, (INDEX)0)));
                if (MODE == 2)
                    value /= (ACC)(WINDOW_H * WINDOW);
#endif
                if (row >= rows || a.w * COLUMNS + o >= columns)
                    continue;
                __global STORAGE(TYPE) *to = y + row * p.y.stride[3] + o * p.y.stride[4];
#if SAVE
                const int in_tile = (block_h * ROWS + r) * TILE_COLUMNS + block_w * COLUMNS + o;
                __local CODES *code_to = (__local CODES *)(codes + in_tile * PITCH + lane * PACK);
#endif
#if SAVE && PAIRS
                MX_RAW_STORE(TYPE, to, *(const MX_RAW(TYPE) *)result[o].value, true);
                *code_to = ((const MX_JOIN(uchar, TWICE) *)result[o].code)->even;
#elif SAVE
                put(to, result[o].value, true);
                *code_to = TO(CODES)(result[o].code);
#else
                put(to, value, true);
#endif
            }
        }
    }
#if SAVE
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool runs = (ulong)(indices + indices_offset) % RUN == 0;
    for (int i = me; i < SPAN * PACK / 4 * TILE_ROWS * (TILE_COLUMNS / 4); i += LOCAL) {
        const int k = i % (TILE_COLUMNS / 4) * 4, row = i / (TILE_COLUMNS / 4) % TILE_ROWS;
        const int channel = i / (TILE_COLUMNS / 4 * TILE_ROWS) * 4;
        const INDEX c = tile.c * (SPAN * PACK) + channel, h = tile.h * TILE_ROWS + row, w = tile.w * TILE_COLUMNS + k;
        uint words[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            words[j] = *(__local const uint *)(codes + (row * TILE_COLUMNS + k + j) * PITCH + channel) -
                       (row % ROWS * (STEP_H * WINDOW) + j % COLUMNS * STEP_W) * 0x01010101u;
        turn(words);
        __global uchar *to = indices + indices_offset + ((tile.n * (long)channels + c) * rows + h) * columns;
        if (h < rows)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (c + j < channels)
                    put_codes(to + j * (rows * columns), w, columns, words[j], runs);
    }
#endif
}
#endif

#if IS_KIND(backward_lanes)
#include "layers/pooling_gpu_spread.h"

/* Windows of a tile; along w a multiple of four, of which the first LEAD are not asked for. */
#define LEAD ((4 - BEFORE_W % 4) % 4)
#define TILE_J ((TILE_H - 1) * (ROWS / STEP_H) + ALONG_H)
#define TILE_K ((LEAD + (TILE_W - 1) * (COLUMNS / STEP_W) + ALONG_W + 3) / 4 * 4)

#if SAVE
/* Four neighbours of a row of `columns`. */
static inline uint get_codes(__global const uchar *row, INDEX w, INDEX columns, const bool runs)
{
    uint word = 0;
    if (runs && RUN == 4)
        return w >= 0 && w < columns ? *(__global const uint *)(row + w) : NO_TAP * 0x01010101u;
    if (runs && RUN == 2)
#pragma unroll
        for (int i = 0; i < 4; i += 2)
            word |= (w + i >= 0 && w + i < columns ? (uint)*(__global const ushort *)(row + w + i) : NO_TAP * 0x0101u)
                    << 8 * i;
    else
#pragma unroll
        for (int i = 0; i < 4; i++)
            word |= (w + i >= 0 && w + i < columns ? (uint)row[w + i] : NO_TAP) << 8 * i;
    return word;
}
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void pooling_backward_lanes(BACKWARD_BUFFERS,
#if SAVE
                                     __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                     const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4];
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const INDEX sets = (channels / PACK + SPAN - 1) / SPAN;
    const INDEX down = (height + TILE_H * ROWS - 1) / (TILE_H * ROWS);
    const INDEX across = (width + TILE_W * COLUMNS - 1) / (TILE_W * COLUMNS);
    INDEX group = (INDEX)get_group_id(0);
    const INDEX set = group % sets;
    group /= sets;
    const INDEX tile_w = group % across * TILE_W;
    group /= across;
    const INDEX tile_h = group % down * TILE_H, n = group / down;
    const int me = (int)get_local_id(0), lane = me % SPAN, block_w = me / SPAN % TILE_W, block_h = me / SPAN / TILE_W;
    const INDEX c = (set * SPAN + lane) * PACK;
    const INDEX h0 = (tile_h + block_h) * ROWS, w0 = (tile_w + block_w) * COLUMNS;
#if SAVE
    __local uchar codes[TILE_J * TILE_K * PITCH] __attribute__((aligned(8)));
    const INDEX first_j = tile_h * (ROWS / STEP_H) - BEFORE_H;
    const INDEX first_k = tile_w * (COLUMNS / STEP_W) - (BEFORE_W + LEAD);
    __global const uchar *from = indices + indices_offset + n * (long)channels * rows * columns;
    const bool runs = (ulong)(indices + indices_offset) % RUN == 0;
    for (int i = me; i < SPAN * PACK / 4 * TILE_J * (TILE_K / 4); i += LOCAL) {
        const int k = i % (TILE_K / 4) * 4, j = i / (TILE_K / 4) % TILE_J, channel = i / (TILE_K / 4 * TILE_J) * 4;
        const INDEX row = first_j + j, first = set * (SPAN * PACK) + channel;
        const INDEX there = row >= 0 && row < rows ? columns : 0;
        uint words[4];
#pragma unroll
        for (int q = 0; q < 4; q++)
            words[q] = get_codes(from + (min(first + q, channels - 1) * rows + row) * columns, first_k + k, there,
                                 runs);
        turn(words);
#pragma unroll
        for (int q = 0; q < 4; q++)
            *(__local uint *)(codes + (j * TILE_K + k + q) * PITCH + channel) = words[q];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (c >= channels || h0 >= height || w0 >= width)
        return;
    if (!MX_ALIGNED(dy + dy_offset) || !MX_ALIGNED(dx + dx_offset)) {
        for (INDEX h = h0; h < min(h0 + ROWS, height); h++)
            for (INDEX w = w0; w < min(w0 + COLUMNS, width); w++)
                for (int i = 0; i < PACK; i++) {
                    const mx_place place = {.n = n, .c = c + i, .d = 0, .h = h, .w = w};
                    backward_element(BACKWARD_ARGUMENTS, &p, place);
                }
        return;
    }
    dy += dy_offset + n * p.y.stride[0] + c;
    dx += dx_offset + n * p.x.stride[0] + c;
    const INDEX j0 = (tile_h + block_h) * (ROWS / STEP_H) - BEFORE_H, line = (INDEX)p.y.stride[3];
    const INDEX k0 = (tile_w + block_w) * (COLUMNS / STEP_W) - BEFORE_W, step = (INDEX)p.y.stride[4];
    vec_t sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
        vec_t values[ALONG_W];
#pragma unroll
        for (int k = 0; k < ALONG_W; k++)
            values[k] = get(dy + h * line + min(max(k0 + k, (INDEX)0), columns - 1) * step, true);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
#if SAVE
            const int in_tile = (block_h * (ROWS / STEP_H) + j) * TILE_K + LEAD + block_w * (COLUMNS / STEP_W) + k;
            const CODES code = *(__local const CODES *)(codes + in_tile * PITCH + lane * PACK);
            spread(sum, j, k, values[k], code, h0 * width + w0, width);
#else
            const vec_t value = h == j0 + j && w == k0 + k ? values[k] : (vec_t)0;
            spread(sum, j, k, share_of(&p, value, h, w), 0, 0);
#endif
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            if (h0 + r < height && w0 + s < width)
                put(dx + (h0 + r) * p.x.stride[3] + (w0 + s) * p.x.stride[4], sum[r][s], true);
}
#endif
