/* Backward weights of depthwise convolutions and of those with few channels a group on GPUs:
 * partial[split][k][c r s] = sum over the strips of a split of dy x; split-K, another launch adds the splits.
 *
 * Grid: one axis, local GROUP, global GROUP * sets * ceil(R / RR) * splits.
 *
 *     q ->  TW                           A work-group: `lanes` blocks of VEC channels x `items` strips, over `each`
 *     +----+----+----+                   strips, of RR rows of the filters.
 *   p | TH |    |    |  strips of dy     A work-item: RR x S x VEC sums in registers; a pixel of x is read once a
 *     +----+----+----+                   strip.
 *
 * The work-items' sums are then added in local memory, always in the same order.  Zeros stand for what is outside; a
 * sum that is not finite is computed anew without them, since it may be a NaN that zero times infinity made.
 * Memory: BATCH * VEC * GROUP floats in local memory; with ROLL also rings of RING rows of x and of dy.
 * Bound by: memory; reading x and dy.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef CHANNELS_LAST /* channels last in x and dy */
#define CHANNELS_LAST 0
#endif
#ifndef DEPTHWISE /* one input and one output a group; else a block is VEC outputs and one input */
#define DEPTHWISE 1
#endif
#ifndef VEC /* channels of a work-item, 1, 2, 4 or 8 */
#define VEC 1
#endif
#ifndef TH /* rows and columns (TW) of a tile of dy */
#define TH 4
#define TW 1
#endif
#ifndef R /* taps: rows; S: columns; up to 32 */
#define R 3
#define S 3
#endif
#ifndef RR /* rows of the filter that a work-item sums, 1 to R */
#define RR 3
#endif
#ifndef STEP_H /* stride, up to 8 */
#define STEP_H 1
#define STEP_W 1
#endif
#ifndef TAP_H /* dilation, up to 16 */
#define TAP_H 1
#define TAP_W 1
#endif
#ifndef UNIT /* every UNIT-th column of x is read */
#define UNIT 1
#endif
#ifndef ROLL /* row after row of x, each for all rows of dy that it meets; DEPTHWISE, TH = 1, RR = R */
#define ROLL 0
#endif
#ifndef RING /* ROLL: rows of x in local memory, and of dy, 2 to 6 */
#define RING 4
#endif
#ifndef ODD /* ROLL: columns before the first that is wanted, 0 or 1 */
#define ODD 0
#endif
#if DEPTHWISE
#define IN VEC
#else
#define IN 1
#endif
#include "include/common.h"

#define ROWS ((TH - 1) * STEP_H + (RR - 1) * TAP_H + 1)
#define COLS (((TW - 1) * STEP_W + (S - 1) * TAP_W) / UNIT + 1)
#define DOWN (TH * STEP_H)
#define KEPT (ROWS > DOWN ? ROWS - DOWN : 0)
#define SUMS (RR * S)
#define BATCH ((ROLL ? 8 : 32) / VEC) /* sums that are added in local memory at once */
#include "conv/gpu/depthwise.h"

/* One sum over the strips from `strip` to `end`, products with pixels outside left out. */
static float mx_exactly(__global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_depthwise g,
                        int strip, int end, int r, int s)
{
    float sum = 0;
    for (; strip < end; strip++) {
        const int line = mx_quotient(strip, g.by_across), n = mx_quotient(line, g.by_down);
        const int p0 = (line - n * g.down) * g.chunks * TH, q0 = (strip - line * g.across) * TW;
        for (int p = p0; p < min(p0 + g.chunks * TH, g.p); p++)
            for (int q = q0; q < min(q0 + TW, g.q); q++) {
                const int row = p * STEP_H + g.first_h + r * TAP_H, col = q * STEP_W + g.first_w + s * TAP_W;
                if (row >= 0 && row < g.h && col >= 0 && col < g.w)
                    sum = fma(WIDEN(x[n * g.x_n + row * g.x_h + col * X_W]),
                              WIDEN(dy[n * g.y_n + p * g.y_h + q * Y_W]), sum);
            }
    }
    return sum;
}

#if ROLL

/* Rows of x and of dy go down aligned, PERIOD of x a turn; KEEP rows of dy are kept, and row k of a turn meets the
 * t-th of them at tap TAP_AT(k, t), if there is one. */
#define PERIOD (KEEP * STEP_H)
#define TAP_AT(k, t) (((k) - (t) * STEP_H + PERIOD) % PERIOD)

static inline __attribute__((always_inline)) void mx_roll(
    __local const WORD *ring, const mx_slot place, __local const WORD *ring_y, const mx_slot place_y,
    __global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_depthwise g, int p0, int q0,
    int count, float sums[SUMS][VEC])
{
    const int top = p0 * STEP_H + g.first_h, left = q0 * STEP_W + g.first_w - ODD;
    const int total = (count - 1) * STEP_H + R, bottom = min(g.h, top + total);
    const uint inside = mx_mask(left, LINE, g.w), within = mx_mask(q0, OUTER, g.q);
    int slot = 0, slot_y = 0;
    float out[KEEP][TW][VEC];
    x += top * g.x_h + left * X_W, dy += p0 * g.y_h + q0 * Y_W;
#define FETCH(at, slot, both, slot_y)                                                                 \
    do {                                                                                              \
        mx_fetch(place + (slot) * (LINE * GROUP * PLACE_STEP), x, X_W, LINE,                          \
                 (uint)(top + (at)) < (uint)bottom ? inside : 0);                                     \
        x += g.x_h;                                                                                   \
        if (both) {                                                                                   \
            mx_fetch(place_y + (slot_y) * (OUTER * GROUP * PLACE_STEP), dy, Y_W, OUTER,               \
                     (at) / STEP_H < count ? within : 0);                                             \
            dy += g.y_h;                                                                              \
        }                                                                                             \
        COMMIT();                                                                                     \
    } while (0)
#pragma unroll
    for (int i = 0; i < RING - 1; i++)
        FETCH(i, i, i % STEP_H == 0, i / STEP_H);
    int done = RING - 1, done_y = (RING - 1 + STEP_H - 1) / STEP_H;
#pragma unroll
    for (int t = 0; t < KEEP; t++)
#pragma unroll
        for (int u = 0; u < TW; u++)
#pragma unroll
            for (int v = 0; v < VEC; v++)
                out[t][u][v] = 0;
#pragma unroll 1
    for (int i = 0; i < total; i += PERIOD)
#pragma unroll
        for (int k = 0; k < PERIOD; k++) {
            float in[LINE * PER][VEC];
            ARRIVED(RING - 2);
#pragma unroll
            for (int j = 0; j < LINE; j++)
                mx_open(in[j * PER], ring[(slot * LINE + j) * GROUP]);
            if (k % STEP_H == 0) {
#pragma unroll
                for (int u = 0; u < OUTER; u++)
                    mx_open(out[k / STEP_H][u * PER], ring_y[(slot_y * OUTER + u) * GROUP]);
                slot_y = NEXT(slot_y);
            }
            FETCH(i + k + RING - 1, done, (k + RING - 1) % STEP_H == 0, done_y);
            done = slot, slot = NEXT(slot);
            if ((k + RING - 1) % STEP_H == 0)
                done_y = NEXT(done_y);
#pragma unroll
            for (int t = 0; t < KEEP; t++)
                if (TAP_AT(k, t) < R)
#pragma unroll
                    for (int s = 0; s < S; s++)
#pragma unroll
                        for (int u = 0; u < TW; u++)
#pragma unroll
                            for (int v = 0; v < VEC; v++)
                                sums[TAP_AT(k, t) * S + s][v] = fma(in[u * STEP_W + s + ODD][v], out[t][u][v],
                                                                    sums[TAP_AT(k, t) * S + s][v]);
        }
#undef FETCH
    ARRIVED(0);
}

/* The same where vectors may not begin. */
static inline __attribute__((always_inline)) void mx_plainly(
    __global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_depthwise g, int p0, int q0,
    int count, float sums[SUMS][VEC])
{
#pragma unroll 1
    for (int i = 0; i < count * TW; i++) {
        const int p = p0 + i / TW, q = q0 + i % TW;
        const int row = p * STEP_H + g.first_h, col = q * STEP_W + g.first_w;
        if (q >= g.q)
            continue;
        float out[VEC];
#pragma unroll
        for (int v = 0; v < VEC; v++)
            out[v] = WIDEN(dy[p * g.y_h + q * Y_W + v]);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int s = 0; s < S; s++)
                if ((uint)(row + r) < (uint)g.h && (uint)(col + s) < (uint)g.w)
#pragma unroll
                    for (int v = 0; v < VEC; v++)
                        sums[r * S + s][v] =
                            fma(WIDEN(x[(row + r) * g.x_h + (col + s) * X_W + v]), out[v], sums[r * S + s][v]);
    }
}

static inline __attribute__((always_inline)) void mx_strips(
    __global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_depthwise g, int strip, int end,
    const bool aligned, __local const WORD *ring, __local const WORD *ring_y, float sums[SUMS][VEC])
{
    const mx_slot place = mx_slot_of((__local WORD *)ring), place_y = mx_slot_of((__local WORD *)ring_y);
    for (; strip < end; strip += g.items) {
        const int line = mx_quotient(strip, g.by_across), n = mx_quotient(line, g.by_down);
        const int p0 = (line - n * g.down) * g.chunks, count = min(g.chunks, g.p - p0);
        const int q0 = (strip - line * g.across) * TW;
        if (aligned)
            mx_roll(ring, place, ring_y, place_y, x + n * g.x_n, dy + n * g.y_n, g, p0, q0, count, sums);
        else
            mx_plainly(x + n * g.x_n, dy + n * g.y_n, g, p0, q0, count, sums);
    }
}

#else

static inline __attribute__((always_inline)) void mx_read_dy(
    RAW held[TH][TW], __global const STORAGE(X_TYPE) *dy, const mx_depthwise g, int p0, const int columns[TW],
    const uint within[TW], const bool aligned)
{
#pragma unroll
    for (int t = 0; t < TH; t++) {
        const int row = min(p0 + t, g.p - 1);
        const uint here = ALL_IF(p0 + t == row);
#pragma unroll
        for (int u = 0; u < TW; u++) {
            const RAW value = READ(RAW, VEC, dy + row * g.y_h + columns[u], Y_C, aligned);
            held[t][u] = MX_JOIN(MASKED_, VEC)(value, within[u] & here);
        }
    }
}

static inline __attribute__((always_inline)) void mx_strips(
    __global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *dy, const mx_depthwise g, int strip, int end,
    int r0, const bool x_line, const bool y_line, float sums[SUMS][VEC])
{
    for (; strip < end; strip += g.items) {
        const int line = mx_quotient(strip, g.by_across), n = mx_quotient(line, g.by_down);
        int p0 = (line - n * g.down) * g.chunks * TH;
        const int q0 = (strip - line * g.across) * TW;
        __global const STORAGE(X_TYPE) *image = x + n * g.x_n;
        int columns[COLS], outer[TW];
        uint inside[COLS], within[TW];
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const int at = q0 * STEP_W + g.first_w + j * UNIT, kept = clamp(at, 0, g.w - 1);
            inside[j] = ALL_IF(at == kept);
            columns[j] = kept * X_W;
        }
#pragma unroll
        for (int u = 0; u < TW; u++) {
            const int kept = min(q0 + u, g.q - 1);
            within[u] = ALL_IF(q0 + u == kept);
            outer[u] = n * g.y_n + kept * Y_W;
        }
        const int stop = min(p0 + g.chunks * TH, g.p);
        int row0 = p0 * STEP_H + g.first_h + r0 * TAP_H;
        RAW_IN patch[ROWS][COLS];
#pragma unroll
        for (int i = 0; i < KEPT; i++)
            mx_read(patch[i], image, g, row0 + i, columns, inside, x_line);
#pragma unroll 1
        for (; p0 < stop; p0 += TH, row0 += DOWN) {
            RAW held[TH][TW];
            mx_read_dy(held, dy, g, p0, outer, within, y_line);
#pragma unroll
            for (int i = KEPT; i < ROWS; i++)
                mx_read(patch[i], image, g, row0 + i, columns, inside, x_line);
            float out[TH][TW][VEC];
#pragma unroll
            for (int t = 0; t < TH; t++)
#pragma unroll
                for (int u = 0; u < TW; u++)
                    MX_JOIN(UNPACK_, VEC)(out[t][u], held[t][u]);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                float in[COLS][IN];
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    MX_JOIN(UNPACK_, IN)(in[j], patch[i][j]);
#pragma unroll
                for (int r = 0; r < RR; r++)
#pragma unroll
                    for (int t = 0; t < TH; t++)
                        if (t * STEP_H + r * TAP_H == i)
#pragma unroll
                            for (int s = 0; s < S; s++)
#pragma unroll
                                for (int u = 0; u < TW; u++)
#pragma unroll
                                    for (int v = 0; v < VEC; v++)
                                        sums[r * S + s][v] = fma(in[(u * STEP_W + s * TAP_W) / UNIT][DEPTHWISE ? v : 0],
                                                                 out[t][u][v], sums[r * S + s][v]);
            }
#pragma unroll
            for (int i = 0; i < KEPT; i++)
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    patch[i][j] = patch[i + ROWS - KEPT][j];
        }
    }
}

#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_depthwise_weights(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict dy,
    long y_offset, __global float *restrict partial, long partial_offset, const mx_depthwise g)
{
    __local float shared[BATCH][VEC][GROUP];
#if ROLL
    __local WORD ring[RING * LINE * GROUP] __attribute__((aligned(16)));
    __local WORD ring_y[RING * OUTER * GROUP] __attribute__((aligned(16)));
#endif
    const int id = get_local_id(0), item = mx_quotient(id, g.by_lanes), lane = id - item * g.lanes;
    const int set = get_group_id(0) % g.sets, rest = get_group_id(0) / g.sets;
    const int split = rest / ((R + RR - 1) / RR), r0 = rest % ((R + RR - 1) / RR) * RR;
    const int block = min(set * g.lanes + lane, g.blocks - 1), columns = g.inputs * TAPS;
    const int channel = (DEPTHWISE ? block : block / g.inputs) * VEC, c = DEPTHWISE ? 0 : block % g.inputs;
    const int read = DEPTHWISE ? channel : channel / g.outputs * g.inputs + c;
    const bool mine = item < g.items && set * g.lanes + lane < g.blocks;
    const int start = split * g.each, end = min(start + g.each, g.strips);

    x += x_offset + read * X_C, dy += y_offset + channel * Y_C;
    float sums[SUMS][VEC];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
#pragma unroll
        for (int v = 0; v < VEC; v++)
            sums[i][v] = 0;
#if ROLL
    const bool aligned = ((size_t)x % sizeof(WORD) == 0) & ((size_t)dy % sizeof(WORD) == 0);
    if (mine)
        mx_strips(x, dy, g, start + item, end, aligned, ring + id, ring_y + id, sums);
#else
    const bool x_line = !DEPTHWISE | (VEC == 1) | (CHANNELS_LAST & ((size_t)x % sizeof(RAW_IN) == 0));
    const bool y_line = (VEC == 1) | (CHANNELS_LAST & ((size_t)dy % sizeof(RAW) == 0));
    if (mine && (VEC == 1) | (CHANNELS_LAST & x_line & y_line))
        mx_strips(x, dy, g, start + item, end, r0, true, true, sums);
    else if (mine)
        mx_strips(x, dy, g, start + item, end, r0, !DEPTHWISE, false, sums);
#endif

    partial += partial_offset + (long)split * (DEPTHWISE ? g.blocks * VEC : g.blocks / g.inputs * VEC) * columns;
#pragma unroll
    for (int b = 0; b < SUMS; b += BATCH) {
        if (b > 0)
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            if (b + i < SUMS)
#pragma unroll
                for (int v = 0; v < VEC; v++)
                    shared[i][v][id] = sums[b + i][v];
        for (int left = g.items; left > 1;) {
            const int half_left = (left + 1) / 2;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item + half_left < left)
#pragma unroll
                for (int i = 0; i < min(BATCH, SUMS - b); i++)
#pragma unroll
                    for (int v = 0; v < VEC; v++)
                        shared[i][v][id] += shared[i][v][id + half_left * g.lanes];
            left = half_left;
        }
        if (mine && item == 0)
            for (int i = 0; i < min(BATCH, SUMS - b); i++) {
                const int r = r0 + (b + i) / S, s = (b + i) % S;
                if (r < R)
                    for (int v = 0; v < VEC; v++) {
                        float sum = shared[i][v][id];
                        if (!isfinite(sum))
                            sum = mx_exactly(x + (DEPTHWISE ? v * X_C : 0), dy + v * Y_C, g, start, end, r, s);
                        partial[(channel + v) * columns + c * TAPS + r * S + s] = sum;
                    }
            }
    }
}
