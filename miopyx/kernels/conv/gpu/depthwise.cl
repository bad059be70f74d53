/* Depthwise convolutions and those with few channels a group on GPUs: y = alpha * x w + beta * y; with BACKWARD x
 * stands for dy and y for dx.
 *
 * Grid: one axis, local GROUP, global GROUP * sets * ceil(strips / items).
 *
 *     q ->  TW                           A work-group: `lanes` blocks of VEC channels x `items` strips.
 *     +----+----+----+                   A work-item: VEC channels of a strip TW columns wide, TH rows at a time,
 *   p | TH |    |    |  strips           `chunks` times (conv/gpu/depthwise.h).
 *     |    |    |    |
 *     +----+----+----+
 *
 * Which row of x a tap meets is known when the kernel is built, relative to the tile: a tile reads each pixel of x
 * once, all of them before it computes, and leaves those that the tile below needs too where they are (CARRY).  For
 * pixels outside, the rim is read and then replaced by zero, so that no load waits for a branch.  A filter that is not
 * finite would make NaN of these zeros: then each sum is computed tap by tap.  With ROLL a work-item goes down its
 * strip row by row, with the next rows on their way into local memory.
 * Memory: WEIGHTS floats in local memory, the filters of the group's channels; with ROLL also a ring of RING rows.
 * Bound by: memory, with channels last and small filters; by loads and multiply-adds where filters are large.
 */
#ifndef X_TYPE /* half, bfloat16 or float */
#define X_TYPE float
#endif
#ifndef CHANNELS_LAST /* channels last in x and y */
#define CHANNELS_LAST 0
#endif
#ifndef BACKWARD /* 1: backward data */
#define BACKWARD 0
#endif
#ifndef DEPTHWISE /* one input and one output a group; else every input of a group meets every output */
#define DEPTHWISE 1
#endif
#ifndef VEC /* outputs of a work-item, 1, 2, 4 or 8 */
#define VEC 1
#endif
#ifndef IN /* inputs read at once; DEPTHWISE: VEC */
#define IN 1
#endif
#ifndef TH /* rows and columns (TW) of a tile; backward: multiples of the stride */
#define TH 4
#define TW 1
#endif
#ifndef R /* taps: rows; S: columns; up to 32 */
#define R 3
#define S 3
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
#ifndef CHUNKED /* several tiles a strip */
#define CHUNKED 0
#endif
#ifndef CARRY /* rows of x that two tiles of a strip share are kept; DEPTHWISE */
#define CARRY 0
#endif
#ifndef ROLL /* rows of x one after the other, each into the sums of all rows of y that it meets; DEPTHWISE, TH = 1 */
#define ROLL 0
#endif
#ifndef RING /* ROLL: rows of x in local memory, 2 to 6 */
#define RING 4
#endif
#ifndef ODD /* ROLL: columns before the first that is wanted, 0 or 1 */
#define ODD 0
#endif
#ifndef LOOP /* a large filter: its rows in a loop, TH = 1 */
#define LOOP 0
#endif
#ifndef WEIGHTS /* floats in local memory, at least taps * inputs * lanes * VEC */
#define WEIGHTS 2048
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"

/* Tap r of row t of a tile meets row AT(...) of x, from the tile's first one, if it HITs one at all. */
#if BACKWARD
#define HITS(t, tap, step, dilation) (((t) + 64 * (step) * (dilation) - (tap) * (dilation)) % (step) == 0)
#define AT(t, tap, step, dilation) (((t) - (tap) * (dilation)) / (step))
#define MOVE(tile, step) ((tile) / (step))
#define LOW(taps, step, dilation) (-(((taps) - 1) * (dilation) / (step)))
#define HIGH(tile, taps, step, dilation) (((tile) - 1) / (step))
#else
#define HITS(t, tap, step, dilation) 1
#define AT(t, tap, step, dilation) ((t) * (step) + (tap) * (dilation))
#define MOVE(tile, step) ((tile) * (step))
#define LOW(taps, step, dilation) 0
#define HIGH(tile, taps, step, dilation) (((tile) - 1) * (step) + ((taps) - 1) * (dilation))
#endif
#define ROW0 LOW(R, STEP_H, TAP_H)
#define ROWS (HIGH(TH, R, STEP_H, TAP_H) - ROW0 + 1)
#define COL0 LOW(S, STEP_W, TAP_W)
#define COLS ((HIGH(TW, S, STEP_W, TAP_W) - COL0) / UNIT + 1)

/* Rows of x between a tile and the one below it, and how many of them both read. */
#define DOWN (LOOP ? (BACKWARD ? 1 : STEP_H) : MOVE(TH, STEP_H))
#define KEPT (ROWS > DOWN ? ROWS - DOWN : 0)
#include "conv/gpu/depthwise.h"

/* Rows of a filter are summed by themselves: fewer roundings a sum.  LOOP */
#define BY_ROWS (DEPTHWISE && TAPS > 128)

/* Filters that registers have room for. */
#define HELD (DEPTHWISE && TAPS * VEC <= 40)

/* One output tap by tap, those outside left out. */
static float mx_exactly(__global const STORAGE(X_TYPE) *x, __global const STORAGE(X_TYPE) *w, const mx_depthwise g,
                        int p, int q, int pad_h, int pad_w)
{
    float sum = 0;
    for (int c = 0; c < g.inputs; c++)
        for (int r = 0; r < R; r++)
            for (int s = 0; s < S; s++) {
#if BACKWARD
                int row = p + pad_h - r * TAP_H, col = q + pad_w - s * TAP_W;
                if (row < 0 || col < 0 || row % STEP_H != 0 || col % STEP_W != 0)
                    continue;
                row /= STEP_H, col /= STEP_W;
#else
                const int row = p * STEP_H - pad_h + r * TAP_H, col = q * STEP_W - pad_w + s * TAP_W;
#endif
                if (row >= 0 && row < g.h && col >= 0 && col < g.w)
                    sum = fma(WIDEN(x[c * X_C + row * g.x_h + col * X_W]),
                              WIDEN(w[c * g.w_i + r * g.w_r + s * g.w_s]), sum);
            }
    return sum;
}

/* All that row i of those that a tile reads adds to the tile; DEPTHWISE. */
#if DEPTHWISE && !LOOP
static inline __attribute__((always_inline)) void mx_row(
    const RAW_IN line[COLS], int i, const float taps[TAPS][VEC], __local const float *weights, int pitch,
    float out[TH][TW][VEC])
{
    float in[COLS][IN];
#pragma unroll
    for (int j = 0; j < COLS; j++)
        MX_JOIN(UNPACK_, IN)(in[j], line[j]);
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int t = 0; t < TH; t++)
            if (HITS(t, r, STEP_H, TAP_H) && AT(t, r, STEP_H, TAP_H) == i + ROW0)
#pragma unroll
                for (int s = 0; s < S; s++) {
                    float tap[VEC];
                    if (HELD)
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            tap[v] = taps[r * S + s][v];
                    else
                        MX_JOIN(SPREAD_, VEC)(tap, *(__local const FLOATS *)(weights + (r * S + s) * pitch));
#pragma unroll
                    for (int u = 0; u < TW; u++)
                        if (HITS(u, s, STEP_W, TAP_W))
#pragma unroll
                            for (int v = 0; v < VEC; v++)
                                out[t][u][v] =
                                    fma(in[(AT(u, s, STEP_W, TAP_W) - COL0) / UNIT][v], tap[v], out[t][u][v]);
                }
}
#endif

/* An epilogue's scales and shifts of a work-item's channels, which stay in registers. */
#ifdef EPILOGUE
#define MX_HAS_EPILOGUE 1
#define MX_CHANNEL_PARAMS , const float *channel_scales, const float *channel_shifts
#define MX_CHANNEL_ARGS , channel_scales, channel_shifts
#define MX_CHANNELS(channel)                                                                        \
    float channel_scales[VEC], channel_shifts[VEC];                                                 \
    _Pragma("unroll") for (int v_ = 0; v_ < VEC; v_++)                                              \
    {                                                                                               \
        OF_FILTER((channel) + v_)                                                                   \
        channel_scales[v_] = epilogue->scale_one, channel_shifts[v_] = epilogue->shift_one;         \
    }
#define SCALED_CHANNEL(value, v) ((value) * channel_scales[v] + channel_shifts[v])
#else
#define MX_HAS_EPILOGUE 0
#define MX_CHANNEL_PARAMS
#define MX_CHANNEL_ARGS
#define MX_CHANNELS(channel)
#define SCALED_CHANNEL(value, v) (alpha * (value))
#endif

#if ROLL

/* The tap at which row k of STEP_H rows meets the t-th row of y, if there is one. */
#define TAP_AT(k, t) ((k) + (KEEP - 1 - (t)) * STEP_H)

/* Down a strip of `total` rows of x, of which the first RING - 1 were fetched; `from` is the next one, `row`, and those
 * from `bottom` on are zeros.  A row's first products move the sums from place t + 1 to t, at no cost; a longer loop
 * would not stay in the instruction cache.  Taps that are not in registers are read anew (volatile). */
static inline __attribute__((always_inline)) void mx_roll(
    __local const WORD *ring, const mx_slot first, __global const STORAGE(X_TYPE) *from, int row, int bottom,
    uint inside, __global STORAGE(X_TYPE) *y, uint within, __local const float *weights, const mx_depthwise g,
    int total, EPILOGUE_PARAMS MX_CHANNEL_PARAMS)
{
    int slot = 0, done = RING - 1;
    float taps[TAPS][VEC], out[KEEP][TW][VEC];
    if (HELD)
#pragma unroll
        for (int i = 0; i < TAPS; i++)
            MX_JOIN(SPREAD_, VEC)(taps[i], *(__local const FLOATS *)(weights + (BACKWARD ? TAPS - 1 - i : i) * VEC));
#pragma unroll
    for (int t = 0; t < KEEP; t++)
#pragma unroll
        for (int u = 0; u < TW; u++)
#pragma unroll
            for (int v = 0; v < VEC; v++)
                out[t][u][v] = 0;
    WORD words[LINE];
    ARRIVED(RING - 2);
#pragma unroll
    for (int j = 0; j < LINE; j++)
        words[j] = ring[j * GROUP];
#pragma unroll 1
    for (int i = 0; i < total; i += STEP_H)
#pragma unroll
        for (int k = 0; k < STEP_H; k++) {
            float in[LINE * PER][VEC];
#pragma unroll
            for (int j = 0; j < LINE; j++)
                mx_open(in[j * PER], words[j]);
            mx_fetch(first + done * (LINE * GROUP * PLACE_STEP), from, X_W, LINE,
                     (uint)row < (uint)bottom ? inside : 0);
            COMMIT();
            done = slot, slot = NEXT(slot), row++, from += g.x_h;
            ARRIVED(RING - 2);
#pragma unroll
            for (int j = 0; j < LINE; j++)
                words[j] = ring[(slot * LINE + j) * GROUP];
#pragma unroll
            for (int t = 0; t < KEEP; t++)
                if (TAP_AT(k, t) < R)
#pragma unroll
                    for (int s = 0; s < S; s++) {
                        const int i = TAP_AT(k, t) * S + s;
                        float tap[VEC];
                        if (HELD)
#pragma unroll
                            for (int v = 0; v < VEC; v++)
                                tap[v] = taps[i][v];
                        else {
                            const FLOATS value =
                                *(volatile __local const FLOATS *)(weights + (BACKWARD ? TAPS - 1 - i : i) * VEC);
                            MX_JOIN(SPREAD_, VEC)(tap, value);
                        }
#pragma unroll
                        for (int u = 0; u < TW; u++)
#pragma unroll
                            for (int v = 0; v < VEC; v++)
                                out[t][u][v] =
                                    i == 0 ? in[u * STEP_W + s + ODD][v] * tap[v]
                                           : fma(in[u * STEP_W + s + ODD][v], tap[v],
                                                 s == 0 && k == 0 && t + 1 < KEEP ? out[t + 1][u][v] : out[t][u][v]);
                    }
            if (TAP_AT(k, 0) == R - 1) {
                const uint mask = i + k >= R - 1 && i + k < total ? within : 0;
                if (MX_HAS_EPILOGUE || alpha != 1 || beta != 0)
#pragma unroll
                    for (int u = 0; u < TW; u++)
                        if (mask & 1u << u / PER)
#pragma unroll
                            for (int v = 0; v < VEC; v++)
                                out[0][u][v] = FINAL_RESULT(
                                    SCALED_CHANNEL(out[0][u][v], v)
                                    + (beta != 0 ? beta * WIDEN(OLD_RESULT(X_TYPE, y)[u * Y_W + v * Y_C]) : 0));
#pragma unroll
                for (int u = 0; u < OUTER; u++)
                    if (mask & 1u << u)
                        *(__global WORD *)(y + u * PER * Y_W) = mx_close(out[0][u * PER]);
                y += g.y_h;
            }
        }
}

#else

static inline __attribute__((always_inline)) void mx_strip(
    __global const STORAGE(X_TYPE) *x, __global STORAGE(X_TYPE) *y, __local const float *weights, const mx_depthwise g,
    int p0, int q0, int row0, int col0, const bool aligned, EPILOGUE_PARAMS MX_CHANNEL_PARAMS)
{
    const int pitch = g.lanes * VEC;
    int columns[COLS];
    uint inside[COLS];
#pragma unroll
    for (int j = 0; j < COLS; j++) {
        const int at = col0 + COL0 + j * UNIT, kept = clamp(at, 0, g.w - 1);
        inside[j] = ALL_IF(at == kept);
        columns[j] = kept * X_W;
    }
#if !LOOP
    RAW_IN patch[ROWS][COLS];
    float taps[TAPS][VEC];
    if (HELD)
#pragma unroll
        for (int i = 0; i < TAPS; i++)
            MX_JOIN(SPREAD_, VEC)(taps[i], *(__local const FLOATS *)(weights + i * pitch));
#endif
#if CARRY
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        mx_read(patch[i], x, g, row0 + ROW0 + i, columns, inside, aligned);
#endif
#if CHUNKED
    const int end = min(p0 + g.chunks * TH, g.p);
#pragma unroll 1
    for (; p0 < end; p0 += TH, row0 += DOWN)
#endif
    {
        float out[TH][TW][VEC];
#pragma unroll
        for (int t = 0; t < TH; t++)
#pragma unroll
            for (int u = 0; u < TW; u++)
#pragma unroll
                for (int v = 0; v < VEC; v++)
                    out[t][u][v] = 0;
#if LOOP
        for (int c = 0; c < (DEPTHWISE ? 1 : g.inputs); c += IN)
            for (int r = 0; r < R; r++) {
#if BACKWARD
                int row = row0 - r * TAP_H;
                if (row % STEP_H != 0)
                    continue;
                row /= STEP_H;
#else
                const int row = row0 + r * TAP_H;
#endif
                RAW_IN line[COLS];
                mx_read(line, x + c * X_C, g, row, columns, inside, aligned);
                float in[COLS][IN], whole[TW][VEC];
                if (BY_ROWS)
#pragma unroll
                    for (int u = 0; u < TW; u++)
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            whole[u][v] = out[0][u][v], out[0][u][v] = 0;
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    MX_JOIN(UNPACK_, IN)(in[j], line[j]);
#pragma unroll
                for (int s = 0; s < S; s++)
#pragma unroll
                    for (int i = 0; i < (DEPTHWISE ? 1 : IN); i++) {
                        float tap[VEC];
                        MX_JOIN(SPREAD_, VEC)
                        (tap, *(__local const FLOATS *)(weights + ((c + i) * TAPS + r * S + s) * pitch));
#pragma unroll
                        for (int u = 0; u < TW; u++)
                            if (HITS(u, s, STEP_W, TAP_W))
#pragma unroll
                                for (int v = 0; v < VEC; v++)
                                    out[0][u][v] = fma(in[(AT(u, s, STEP_W, TAP_W) - COL0) / UNIT][DEPTHWISE ? v : i],
                                                       tap[v], out[0][u][v]);
                    }
                if (BY_ROWS)
#pragma unroll
                    for (int u = 0; u < TW; u++)
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            out[0][u][v] += whole[u][v];
            }
#elif CARRY
#pragma unroll
        for (int i = KEPT; i < ROWS; i++)
            mx_read(patch[i], x, g, row0 + ROW0 + i, columns, inside, aligned);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            mx_row(patch[i], i, taps, weights, pitch, out);
#pragma unroll
        for (int i = 0; i < KEPT; i++)
#pragma unroll
            for (int j = 0; j < COLS; j++)
                patch[i][j] = patch[i + ROWS - KEPT][j];
#elif DEPTHWISE
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            mx_read(patch[i], x, g, row0 + ROW0 + i, columns, inside, aligned);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            mx_row(patch[i], i, taps, weights, pitch, out);
#else
        for (int c = 0; c < g.inputs; c += IN) {
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                mx_read(patch[i], x + c * X_C, g, row0 + ROW0 + i, columns, inside, aligned);
            float in[ROWS][COLS][IN];
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLS; j++)
                    MX_JOIN(UNPACK_, IN)(in[i][j], patch[i][j]);
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int s = 0; s < S; s++)
#pragma unroll
                    for (int i = 0; i < IN; i++) {
                        float tap[VEC];
                        MX_JOIN(SPREAD_, VEC)
                        (tap, *(__local const FLOATS *)(weights + ((c + i) * TAPS + r * S + s) * pitch));
#pragma unroll
                        for (int t = 0; t < TH; t++)
                            if (HITS(t, r, STEP_H, TAP_H))
#pragma unroll
                                for (int u = 0; u < TW; u++)
                                    if (HITS(u, s, STEP_W, TAP_W))
#pragma unroll
                                        for (int v = 0; v < VEC; v++)
                                            out[t][u][v] = fma(in[AT(t, r, STEP_H, TAP_H) - ROW0]
                                                                 [(AT(u, s, STEP_W, TAP_W) - COL0) / UNIT][i],
                                                               tap[v], out[t][u][v]);
                    }
        }
#endif
#pragma unroll
        for (int t = 0; t < TH; t++)
#pragma unroll
            for (int u = 0; u < TW; u++)
                if ((uint)(p0 + t) < (uint)g.p && (uint)(q0 + u) < (uint)g.q) {
                    __global STORAGE(X_TYPE) *to = y + (p0 + t) * g.y_h + (q0 + u) * Y_W;
#pragma unroll
                    for (int v = 0; v < VEC; v++)
                        out[t][u][v] = SCALED_CHANNEL(out[t][u][v], v);
                    if (beta != 0)
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            out[t][u][v] += beta * WIDEN(OLD_RESULT(X_TYPE, to)[v * Y_C]);
#pragma unroll
                    for (int v = 0; v < VEC; v++)
                        out[t][u][v] = FINAL_RESULT(out[t][u][v]);
                    if ((VEC == 1) | (CHANNELS_LAST & aligned))
                        *(__global RAW *)to = MX_JOIN(PACK_, VEC)(out[t][u]);
                    else
#pragma unroll
                        for (int v = 0; v < VEC; v++)
                            to[v * Y_C] = NARROW(out[t][u][v]);
                }
    }
}

#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void conv_depthwise(
    __global const STORAGE(X_TYPE) *restrict x, long x_offset, __global const STORAGE(X_TYPE) *restrict w,
    long w_offset, __global STORAGE(X_TYPE) *restrict y, long y_offset, const mx_depthwise g, EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(y, y_offset);
    __local float weights[WEIGHTS] __attribute__((aligned(32)));
    __local int odd;
#if ROLL
    __local WORD ring[RING * LINE * GROUP] __attribute__((aligned(16)));
#endif
    const int id = get_local_id(0), item = mx_quotient(id, g.by_lanes), lane = id - item * g.lanes;
    const int chunk = get_group_id(0) / g.sets, set = get_group_id(0) - chunk * g.sets;
    const int pitch = g.lanes * VEC, first = set * pitch, all = g.blocks * VEC;
    const int strip = chunk * g.items + item, block = set * g.lanes + lane;
    const bool idle = item >= g.items || strip >= g.strips || block >= g.blocks;
    const int line = mx_quotient(strip, g.by_across), across = strip - line * g.across;
    const int n = mx_quotient(line, g.by_down), down = line - n * g.down;
    const int channel = block * VEC, group = DEPTHWISE ? channel : channel / g.outputs;
    const int read = DEPTHWISE ? channel : group * g.inputs;
    const int p0 = down * g.chunks * TH - g.skip_h, q0 = across * TW - g.skip_w;
    const int row0 = down * g.chunks * DOWN + g.first_h, col0 = across * MOVE(TW, STEP_W) + g.first_w;

    x += x_offset, w += w_offset, y += y_offset;
    x += n * g.x_n + read * X_C;
    y += n * g.y_n + channel * Y_C;
#if ROLL
    const bool aligned = ((size_t)x % sizeof(WORD) == 0) & ((size_t)y % sizeof(WORD) == 0);
    const int top = row0 + ROW0, left = col0 + COL0 - ODD, total = (min(g.chunks, g.p - p0) - 1) * STEP_H + R;
    const int bottom = min(g.h, top + total);
    const uint inside = (idle | !aligned) ? 0 : mx_mask(left, LINE, g.w);
    const mx_slot place = mx_slot_of(ring + id);
    __global const STORAGE(X_TYPE) *from = x + top * g.x_h + left * X_W;
#pragma unroll
    for (int i = 0; i < RING - 1; i++, from += g.x_h) {
        mx_fetch(place + i * (LINE * GROUP * PLACE_STEP), from, X_W, LINE,
                 (uint)(top + i) < (uint)bottom ? inside : 0);
        COMMIT();
    }
#else
    const bool aligned = !CHANNELS_LAST | (((size_t)x % sizeof(RAW_IN) == 0) & ((size_t)y % sizeof(RAW) == 0));
#endif
    if (id == 0)
        odd = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < g.inputs * TAPS * pitch; i += GROUP) {
        /* Neighbours in i are neighbours in memory, for filters in the order k c r s. */
        const int tap = i % TAPS, c = DEPTHWISE ? 0 : i / TAPS % g.inputs;
        const int o = DEPTHWISE ? i / TAPS : i / TAPS / g.inputs;
        const int channel = min(first + o, all - 1), group = DEPTHWISE ? channel : channel / g.outputs;
        const float value = WIDEN(w[group * g.w_g + (channel - group * g.outputs) * g.w_o + c * g.w_i + tap / S * g.w_r
                                    + tap % S * g.w_s]);
        weights[ROLL ? (o / VEC * TAPS + tap) * VEC + o % VEC : (c * TAPS + tap) * pitch + o] = value;
        if (!isfinite(value))
            odd = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (idle)
        return;

    if (odd | (ROLL & !aligned)) {
        const int pad_h = BACKWARD ? (LOOP ? g.first_h : g.first_h * STEP_H + g.skip_h) : -g.first_h;
        const int pad_w = BACKWARD ? g.first_w * STEP_W + g.skip_w : -g.first_w;
        const int o = channel - group * g.outputs;
#pragma unroll 1
        for (int i = 0; i < g.chunks * TH * TW * VEC; i++) {
            const int p = p0 + i / VEC / TW, q = q0 + i / VEC % TW, v = i % VEC;
            if ((uint)p < (uint)g.p && (uint)q < (uint)g.q) {
                const float sum = mx_exactly(
                    x + (DEPTHWISE ? v * X_C : 0),
                    w + (DEPTHWISE ? (group + v) * g.w_g : group * g.w_g + (o + v) * g.w_o), g, p, q, pad_h, pad_w);
                OF_FILTER(channel + v)
                STORE_ONE(X_TYPE, y, p * g.y_h + q * Y_W + v * Y_C, sum);
            }
        }
        return;
    }
    MX_CHANNELS(channel)
#if ROLL
    mx_roll(ring + id, place, from, top + RING - 1, bottom, inside, y + (p0 - KEEP + 1) * g.y_h + q0 * Y_W,
            mx_mask(q0, OUTER, g.q), weights + lane * (TAPS * VEC), g, total, EPILOGUE_ARGS MX_CHANNEL_ARGS);
#else
    if (aligned)
        mx_strip(x, y, weights + lane * VEC, g, p0, q0, row0, col0, true, EPILOGUE_ARGS MX_CHANNEL_ARGS);
    else
        mx_strip(x, y, weights + lane * VEC, g, p0, q0, row0, col0, false, EPILOGUE_ARGS MX_CHANNEL_ARGS);
#endif
}
