/* Pooling on GPUs by vectors along w: two spatial axes, windows of up to 5 x 5, w contiguous in x and y, rows of x made
 * of aligned vectors of PACK elements, of which each gives PACK / STEP_W elements of y.
 *
 *   pooling_forward_wide       a work-item writes those of ROWS rows.
 *   pooling_backward_wide      maxima, indices of 8 bits: a work-item writes PACK neighbours of ROWS rows of dx, which
 *                              begin PACK / STEP_W windows of dy.
 *
 *       row of x:   | PAD_W |     PACK, one load     | RIGHT |     Grid:  work-items over n, c, strips along h, and
 *       row of y:           | PACK / STEP_W, one store |                  vectors along w.
 *
 * Local memory: none.
 * Parameters:   as layers/pooling_gpu.h; STEP_W 1 or 2; PACK 2, 4 or 8, with STEP_W 1 at most 4.
 * Bound by:     memory; maxima with indices by comparisons, of which NVIDIA does two of 16 bits at once.
 *
 * Every window meets the image.  What lies outside is read at the nearest place inside, so that loads need no branches:
 * for a maximum that is an element of the window anyway, and for a sum its bits are masked.
 */
#include "layers/pooling_gpu.h"

#undef VEC
#if STEP_W == 1
#define VEC PACK
#elif PACK == 8
#define VEC 4
#else
#define VEC 2
#endif
#include "include/gpu_vectors.h"

MX_GET(get, TYPE)
MX_PUT(put, TYPE)

#if IS_KIND(forward_wide)
#if SAVE
#include "layers/pooling_gpu_maximum.h"
#endif

/* Elements of x beside the vector that windows meet. */
#define RIGHT (WINDOW - PAD_W - STEP_W > 0 ? WINDOW - PAD_W - STEP_W : 0)
#define ALL_READ (PAD_W + PACK + RIGHT)

#if STEP_W == 1
#define PART(whole, i) (whole)
#else
#define PART(whole, i) ((i) == 0 ? (whole).lo : (whole).hi)
#endif

/* Maxima o and o + OUTPUTS are made together, or each by itself. */
#if SAVE && PAIRS
#define PAIRED_OUTPUTS 1
#define OUTPUTS (VEC / 2)
#else
#define PAIRED_OUTPUTS 0
#define OUTPUTS VEC
#endif

#if SAVE
static inline INDEX_TYPE code_of(const int tap, const bool any, const INDEX from, const INDEX left, const INDEX width)
{
#if PROPAGATE
    const INDEX down = any ? tap / WINDOW : max(-from, (INDEX)0), across = any ? tap % WINDOW : max(-left, (INDEX)0);
    return (INDEX_TYPE)(IMAGE ? (from + down) * width + left + across : down * WINDOW + across);
#else
    return (INDEX_TYPE)(!IMAGE ? tap : any ? (from + tap / WINDOW) * width + left + tap % WINDOW : 0);
#endif
}
#endif

static inline __attribute__((always_inline)) void forward_wide(
    __global const STORAGE(TYPE) *x, __global STORAGE(TYPE) *y,
#if SAVE
    __global INDEX_TYPE *indices,
#endif
    const mx_pooling_problem *p, const block_t a, const bool aligned)
{
    const INDEX height = (INDEX)p->x.len[3], width = (INDEX)p->x.len[4];
    const INDEX rows = (INDEX)p->y.len[3], columns = (INDEX)p->y.len[4];
    const INDEX h0 = a.h * (ROWS * STEP_H) - (INDEX)p->pad[1], start = a.w * PACK, w0 = start - PAD_W;
    const INDEX line = (INDEX)p->x.stride[3];
#if SAVE
    most_t found[DOWN][OUTPUTS], common[OUTPUTS];
#else
    ACC found[DOWN][OUTPUTS];
#endif
#pragma unroll
    for (int i = 0; i < DOWN; i++) {
        const INDEX h = min(max(h0 + i, (INDEX)0), height - 1);
        const bool there = h == h0 + i;
        __global const STORAGE(TYPE) *row = x + h * line;
        MX_JOIN(STORAGE(TYPE), PACK) whole;
        if (aligned)
            whole = *(__global const MX_JOIN(STORAGE(TYPE), PACK) *)(row + start);
        else
            whole = MX_JOIN(vload, PACK)(0, row + start);
#if PAIRED_OUTPUTS
        uint word[ALL_READ];
        bool high[ALL_READ];
#pragma unroll
        for (int k = 0; k < ALL_READ; k++) {
            const INDEX at = w0 + k, kept = min(max(at, (INDEX)0), width - 1);
            const bool in_middle = k >= PAD_W && k < PAD_W + PACK;
            word[k] = in_middle ? ((const uint *)&whole)[(k - PAD_W) / 2] : at == kept ? (uint)row[kept] : LOWEST;
            high[k] = in_middle && (k - PAD_W) % 2;
        }
        most_t one[ALL_READ], pair;
#pragma unroll
        for (int k = 0; k + OUTPUTS * STEP_W < ALL_READ; k++) {
            const int other = k + OUTPUTS * STEP_W;
            one[k].value[0] = pair_of(two_of(word[k], high[k], word[other], high[other]), there);
            one[k].code[0] = (i * WINDOW + k) * 0x10001u;
        }
#else
        vec_t middle[STEP_W];
#pragma unroll
        for (int k = 0; k < STEP_W; k++) {
            const MX_RAW(TYPE) part = PART(whole, k);
#if SAVE
            middle[k] = numbers(part, there);
#else
            middle[k] = MX_WIDE(TYPE, part);
#endif
        }
#if SAVE
        most_t one[ALL_READ], pair;
#else
        ACC one[ALL_READ];
#endif
#pragma unroll
        for (int k = 0; k < ALL_READ; k++) {
            const INDEX at = w0 + k, kept = min(max(at, (INDEX)0), width - 1);
            const bool in_middle = k >= PAD_W && k < PAD_W + PACK;
            const ACC value = in_middle ? ((const ACC *)middle)[k - PAD_W] : LOAD(TYPE)(row, kept);
#if SAVE
            one[k].value = in_middle ? value : there && at == kept ? COUNTED(value, ACC) : NOTHING;
            one[k].code = i * WINDOW + k;
#else
            one[k] = MODE == 0 || in_middle ? value : masked(value, at == kept ? -1 : 0);
#endif
        }
#endif
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
#if SAVE
            MOST(found[i][o], o, OUTPUTS, one, , WINDOW, STEP_W, pair);
#else
            ACC value = NOTHING;
#pragma unroll
            for (int k = o * STEP_W; k < o * STEP_W + WINDOW; k++)
                value = MODE == 0 ? LARGER(one[k], value) : value + one[k];
            found[i][o] = MODE == 0 ? value : masked(value, there ? -1 : 0);
#endif
        }
        /* Windows whose last row this is. */
        if (i < WINDOW_H - 1 || (i - WINDOW_H + 1) % STEP_H != 0)
            continue;
        const int r = (i - WINDOW_H + 1) / STEP_H;
        const INDEX to = a.h * ROWS + r, from = h0 + r * STEP_H;
#if SAVE
        INDEX_TYPE codes[VEC] __attribute__((aligned(64)));
#endif
#if PAIRED_OUTPUTS
        uint bits[OUTPUTS];
#else
        vec_t values;
#endif
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            const INDEX left = w0 + o * STEP_W;
#if SAVE
            most_t result;
            MOST(result, r, ROWS, found, [o], WINDOW_H, STEP_H, common[o]);
#endif
#if PAIRED_OUTPUTS
            bits[o] = result.value[0];
            const uint taps = result.code[0] - (r * STEP_H * WINDOW + o * STEP_W) * 0x10001u;
            codes[o] = code_of(taps & 0xffffu, ((bits[o] ^ LOWEST) & 0xffffu) != 0, from, left, width);
            codes[o + OUTPUTS] = code_of(taps >> 16, (bits[o] ^ LOWEST) >> 16 != 0, from, left + OUTPUTS * STEP_W,
                                         width);
#elif SAVE
            ((ACC *)&values)[o] = result.value;
            codes[o] = code_of(result.code - (r * STEP_H * WINDOW + o * STEP_W),
                               PROPAGATE ? result.value != NOTHING : result.value > NOTHING, from, left, width);
#else
            ACC value = found[r * STEP_H][o];
#pragma unroll
            for (int t = 1; t < WINDOW_H; t++)
                value = MODE == 0 ? LARGER(value, found[r * STEP_H + t][o]) : value + found[r * STEP_H + t][o];
            if (MODE == 1)
                value /= (ACC)((min(from + WINDOW_H, height) - max(from, (INDEX)0)) *
                               (min(left + WINDOW, width) - max(left, (INDEX)0)));
            if (MODE == 2)
                value /= (ACC)(WINDOW_H * WINDOW);
            ((ACC *)&values)[o] = value;
#endif
        }
        if (to >= rows)
            return;
#if PAIRED_OUTPUTS
        MX_RAW(TYPE) raw;
#pragma unroll
        for (int o = 0; o < VEC; o += 2)
            ((uint *)&raw)[o / 2] = two_of(bits[o % OUTPUTS], o >= OUTPUTS, bits[(o + 1) % OUTPUTS], o + 1 >= OUTPUTS);
        MX_RAW_STORE(TYPE, y + to * p->y.stride[3], raw, aligned);
#else
        put(y + to * p->y.stride[3], values, aligned);
#endif
#if SAVE
#if LIKE_Y
#define INDEX_LINE p->y.stride[3]
#else
#define INDEX_LINE columns
#endif
        if (aligned)
            *(__global MX_V(INDEX_TYPE) *)(indices + to * INDEX_LINE) = *(const MX_V(INDEX_TYPE) *)codes;
        else
            MX_V(vstore)(*(const MX_V(INDEX_TYPE) *)codes, 0, indices + to * INDEX_LINE);
#endif
    }
}

#if SAVE
#define WIDE_BUFFERS x, y, indices
#define WIDE_ALIGNED ((ulong)x % (PACK * sizeof(*x)) == 0 && MX_ALIGNED(y) && MX_ALIGNED(indices))
#else
#define WIDE_BUFFERS x, y
#define WIDE_ALIGNED ((ulong)x % (PACK * sizeof(*x)) == 0 && MX_ALIGNED(y))
#endif

__kernel void pooling_forward_wide(FORWARD_BUFFERS,
#if SAVE
                                   __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                   const mx_pooling_problem p, const long block)
{
    const INDEX rows = (INDEX)p.y.len[3], columns = (INDEX)p.y.len[4], channels = (INDEX)p.y.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (rows + ROWS - 1) / ROWS, columns / VEC);
    if (a.n >= (INDEX)p.y.len[0])
        return;
    x += x_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    y += y_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1] + a.w * VEC;
#if SAVE && LIKE_Y
    indices += indices_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1] + a.w * VEC;
#elif SAVE
    indices += indices_offset + (a.n * (long)channels + a.c) * rows * columns + a.w * VEC;
#endif
    if (WIDE_ALIGNED)
        forward_wide(WIDE_BUFFERS, &p, a, true);
    else
        forward_wide(WIDE_BUFFERS, &p, a, false);
}
#endif

#if IS_KIND(backward_wide)
#include "layers/pooling_gpu_spread.h"

#define CODES MX_JOIN(uchar, VEC)

static inline __attribute__((always_inline)) void backward_wide(
    __global const STORAGE(TYPE) *dy, __global STORAGE(TYPE) *dx, __global const uchar *indices,
    const mx_pooling_problem *p, const block_t a, const bool aligned)
{
    const INDEX height = (INDEX)p->x.len[3], rows = (INDEX)p->y.len[3], columns = (INDEX)p->y.len[4];
    const INDEX h0 = a.h * ROWS, w0 = a.w * COLUMNS, first = a.w * VEC;
    const INDEX j0 = a.h * (ROWS / STEP_H) - BEFORE_H, k0 = first - BEFORE_W, line = (INDEX)p->y.stride[3];
    ACC sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++)
            sum[r][s] = 0;
#pragma unroll
    for (int j = 0; j < ALONG_H; j++) {
        const INDEX h = min(max(j0 + j, (INDEX)0), rows - 1);
        __global const STORAGE(TYPE) *row = dy + h * line;
        __global const uchar *codes = indices + h * columns;
        const vec_t middle = get(row + first, aligned);
        CODES middle_codes;
        if (aligned)
            middle_codes = *(__global const CODES *)(codes + first);
        else
            middle_codes = MX_V(vload)(0, codes + first);
#pragma unroll
        for (int k = 0; k < ALONG_W; k++) {
            const INDEX w = min(max(k0 + k, (INDEX)0), columns - 1);
            ACC value;
            uchar code;
            if (k >= BEFORE_W && k < BEFORE_W + VEC) {
                value = ((const ACC *)&middle)[k - BEFORE_W];
                code = ((const uchar *)&middle_codes)[k - BEFORE_W];
            } else {
                value = LOAD(TYPE)(row, w);
                code = w == k0 + k ? codes[w] : NO_TAP;
            }
            spread(sum, j, k, value, h == j0 + j ? code : NO_TAP, 0, 0);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (h0 + r < height) {
            __global STORAGE(TYPE) *to = dx + (h0 + r) * p->x.stride[3] + w0;
            MX_RAW(TYPE) bits[STEP_W];
#pragma unroll
            for (int i = 0; i < STEP_W; i++) {
                vec_t part;
#pragma unroll
                for (int s = 0; s < VEC; s++)
                    ((ACC *)&part)[s] = sum[r][i * VEC + s];
                MX_JOIN(MX_TO_, TYPE)(bits[i], part);
            }
#if STEP_W == 1
            MX_RAW_STORE(TYPE, to, bits[0], aligned);
#else
            if (aligned)
                *(__global MX_JOIN(STORAGE(TYPE), PACK) *)to = (MX_JOIN(STORAGE(TYPE), PACK))(bits[0], bits[1]);
            else {
                MX_V(vstore)(bits[0], 0, to);
                MX_V(vstore)(bits[1], 1, to);
            }
#endif
        }
}

__kernel void pooling_backward_wide(BACKWARD_BUFFERS, __global const INDEX_TYPE *restrict indices, long indices_offset,
                                    const mx_pooling_problem p, const long block)
{
    const INDEX height = (INDEX)p.x.len[3], width = (INDEX)p.x.len[4], channels = (INDEX)p.x.len[1];
    const block_t a = block_of((INDEX)get_global_id(0), channels, (height + ROWS - 1) / ROWS, width / COLUMNS);
    if (a.n >= (INDEX)p.x.len[0])
        return;
    dy += dy_offset + a.n * p.y.stride[0] + a.c * p.y.stride[1];
    dx += dx_offset + a.n * p.x.stride[0] + a.c * p.x.stride[1];
    indices += indices_offset + (a.n * (long)channels + a.c) * p.y.len[3] * p.y.len[4];
    if (MX_ALIGNED(dy) && (ulong)dx % (PACK * sizeof(*dx)) == 0 && (ulong)indices % VEC == 0)
        backward_wide(dy, dx, indices, &p, a, true);
    else
        backward_wide(dy, dx, indices, &p, a, false);
}
#endif
