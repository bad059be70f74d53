/* Convolutions with channels last for CPU devices, forward and backward data: an implicit matrix product,
 * out[pixel][channel] = alpha * sum over (tap, input) of in[pixel at tap][input] * w[tap, input][channel] + beta * out.
 *
 * Shape: any (mx_nhwc).  `in` is packed, and ACC, or, for filters of one tap, of any type: then each work-item converts
 * its pixels once (COPIED).  The filters are as pack_filters leaves them, behind zeros.
 * Grid: local (1, 1, 1), global (phases * tiles or fewer, chunks of pixels, groups), chunks for the largest phase.
 *
 *     channels ->  N_VECTORS * VEC     A work-item: up to CHUNK pixels x some tiles of channels.  Registers: ROWS
 *     +----------------------+         pixels, whose elements are broadcast from memory, x V vectors of channels.
 *     |  ROWS x V vectors    | CHUNK   ROWS is 16, 12, 8, 6 for V = 1 ... 4 with 32 registers, 12, 6 for V = 1, 2
 *     |  ...                 |         with 16.
 *     +----------------------+
 *
 * Sums run over all taps and channels in one fixed order, so that results do not depend on the number of cores.
 * int8: ACC is int, and an element two channels, see conv/cpu/pairs.h.
 * Memory: no local memory; sums, totals, the pixels' addresses and their copies are private.
 * Tuning: K_BLOCK changes the last bits of sums of more than BLOCK_TERMS terms, no definition a bit of shorter ones.
 * Taps in the padding read zeros, so an infinite filter makes NaN there, as it does for the GEMM solvers.
 * Bound by: multiply-adds; broadcasts where N_VECTORS is 2; storing where sums are short.
 */
#ifndef OUT_TYPE /* a storage type */
#define OUT_TYPE float
#endif
#ifndef VEC /* ACC elements in a vector register: 2, 4, 8 or 16 */
#define VEC 16
#endif
#ifndef N_VECTORS /* vectors of output channels side by side: 4 with 32 registers, 2 with 16 */
#define N_VECTORS 4
#endif
#ifndef CHUNK /* pixels of a work-item, a multiple of 48 */
#define CHUNK 48
#endif
#ifndef K_BLOCK /* steps of the sum before turning to the next pixels; up to 1024 */
#define K_BLOCK 256
#endif
#ifndef BACKWARD /* 1: backward data */
#define BACKWARD 0
#endif
#ifndef COPIED /* channels of a pixel, or some more, that a work-item converts; 0: `in` is ACC */
#define COPIED 0
#endif
#ifndef IN_TYPE /* storage type; int32 where elements are pairs */
#define IN_TYPE ACC
#endif
#include "include/common.h"
#include "include/epilogue.h"
#include "conv/cpu/implicit_nhwc.h"
#if MX_INTEGER_ACC
#include "conv/cpu/pairs.h"
#endif
#include "conv/cpu/register_tile.h"

#define SEGMENTS 16 /* taps of a block, at most */
#define DEAL 6      /* pixels that chunks are made of */
#define ALL (CHUNK + 16) /* pixels with those that fill the last tile */

#if CHUNK % DEAL != 0 || K_BLOCK < 1 || K_BLOCK > 1024
#error "CHUNK or K_BLOCK out of range"
#endif

/* Sums fill the registers, and leave some for the filters and an element of the input. */
#define ROWS_1 (N_VECTORS > 2 ? 16 : 12)
#define ROWS_2 (N_VECTORS > 2 ? 12 : 6)
#define ROWS_3 8
#define ROWS_4 6

#ifndef EPILOGUE
static inline void store_sum(__global STORAGE(OUT_TYPE) *p, int c, ACC sum, SCALAR alpha, SCALAR beta)
{
    STORE_MIXED(OUT_TYPE, p, c, sum, alpha, beta);
}
#else
#define store_sum(p, c, sum, ...) STORE_ONE(OUT_TYPE, p, c, sum)
#endif

/* Whole vectors likewise; integers that are scaled, or become something else, lane by lane. */
#if MX_INTEGER_ACC
#define WHOLE 1
static inline void store_vec(__global STORAGE(OUT_TYPE) *p, vec v, SCALAR alpha, SCALAR beta)
{
#if MX_TYPE(OUT_TYPE) == MX_TYPE_int32
    if (alpha == 1 && beta == 0) {
        STORE_VEC(v, p);
        return;
    }
#endif
    ACC lanes[VEC];
    STORE_VEC(v, lanes);
    for (int i = 0; i < VEC; i++)
        store_sum(p, i, lanes[i], alpha, beta);
}
#else
#define WHOLE 1
static inline void store_vec(__global STORAGE(OUT_TYPE) *p, vec v, EPILOGUE_PARAMS)
{
    v = SCALED_RESULT(v);
    if (beta != 0)
        v += (ACC)beta * MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(OUT_TYPE)(OLD_RESULT(OUT_TYPE, p), 0));
    VSTORE(OUT_TYPE)(p, 0, FINAL_RESULT(v));
}
#endif

/* Sums leave the registers for memory: where nothing is converted, and those of 16 bits where nothing is added or
 * scaled.  All that for each of them would be long code. */
#define SAME_TYPE (MX_TYPE(OUT_TYPE) == MX_TYPE(ACC) || MX_INTEGER_ACC && MX_TYPE(OUT_TYPE) == MX_TYPE_int32)
#ifdef EPILOGUE
#define DIRECT (WHOLE && SAME_TYPE)
#else
#define DIRECT (WHOLE && (SAME_TYPE || ((MX_TYPE(OUT_TYPE) == MX_TYPE_half || MX_TYPE(OUT_TYPE) == MX_TYPE_bfloat16) \
                                        && alpha == 1 && beta == 0)))
#endif

/* Lines that will be written come into the cache while the sums are made: a fifth of the time where these are short. */
#define PREFETCH(p) MX_PREFETCH(p, 1)

#ifdef EPILOGUE
#define STORE_TILE(ROWS, V)                                                                       \
    _Pragma("unroll") for (int j = 0; j < V; j++)                                                 \
    {                                                                                             \
        OF_FILTERS(filter + j * VEC, VEC)                                                         \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                          \
            store_vec(out + to[i] + j * VEC, s[i][j], EPILOGUE_ARGS);                             \
    }
#elif WHOLE && !SAME_TYPE && !MX_INTEGER_ACC
#define STORE_TILE(ROWS, V) FOR_TILE(ROWS, V, VSTORE(OUT_TYPE)(out + to[i] + j * VEC, 0, s[i][j]);)
#else
#define STORE_TILE(ROWS, V) FOR_TILE(ROWS, V, store_vec(out + to[i] + j * VEC, s[i][j], alpha, beta);)
#endif

/* Where pixels are read. */
#if COPIED
#define PIXELS
#define IS_ZERO(p) false
#else
#define PIXELS __global
#define IS_ZERO(p) ((p) == zero)
#endif

/* sums[ROWS][V] = or += sum over the segments' taps and `depth` channels; rows[segment * ALL + i] are pixels and
 * panels[segment] filters, the first of them `filter`.  With `out` the sums go there at once, `to[]` are offsets. */
#define DEFINE_MULTIPLY(V, ROWS)                                                                  \
    NOINLINE void multiply_##V(bool add, vec *restrict sums, PIXELS const ACC *const *rows,       \
                               __global const ACC *const *panels, int segments, int depth,        \
                               __global STORAGE(OUT_TYPE) *restrict out, const long *to,          \
                               long filter, EPILOGUE_PARAMS)                                      \
    {                                                                                             \
        vec s[ROWS][V];                                                                           \
        FOR_TILE(ROWS, V, s[i][j] = add ? sums[i * V + j] : (vec)((ACC)0);)                       \
        if (DIRECT && out)                                                                        \
            FOR_TILE(ROWS, V, PREFETCH(out + to[i] + j * VEC);)                                   \
        for (int segment = 0; segment < segments; segment++) {                                    \
            PIXELS const ACC *a[ROWS];                                                            \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                      \
                a[i] = rows[segment * ALL + i];                                                   \
            __global const ACC *panel = panels[segment];                                          \
            for (long k = 0; k < depth; k++) {                                                    \
                vec b[V];                                                                         \
                _Pragma("unroll") for (int j = 0; j < V; j++)                                     \
                    b[j] = LOAD_VEC(panel + (k * V + j) * VEC);                                   \
                OUTER_PRODUCT(ROWS, V, s, a[i][k], b[j])                                          \
            }                                                                                     \
        }                                                                                         \
        if (DIRECT && out)                                                                        \
            STORE_TILE(ROWS, V)                                                                   \
        else                                                                                      \
            FOR_TILE(ROWS, V, sums[i * V + j] = s[i][j];)                                         \
    }

#if !MX_INTEGER_ACC
DEFINE_LONG_SUMS(vec)
#endif
DEFINE_MULTIPLY(1, ROWS_1)
DEFINE_MULTIPLY(2, ROWS_2)
#if N_VECTORS > 2
DEFINE_MULTIPLY(3, ROWS_3)
DEFINE_MULTIPLY(4, ROWS_4)
#endif

#if COPIED
#define PITCH (COPIED + 16) /* so that rows of a tile do not want the same lines of the cache */
static inline void copy_pixel(ACC *restrict to, __global const STORAGE(IN_TYPE) *restrict in, int inputs, int channels)
{
    int c = 0;
#if MX_INTEGER_ACC
    for (; 2 * (c + VEC) <= channels; c += VEC)
        STORE_VEC(load_pairs(in + 2 * c), to + c);
    for (; c < inputs; c++)
        to[c] = pair_of(in, c, channels);
#else
    for (; c + VEC <= inputs; c += VEC)
        STORE_VEC(MX_JOIN(MX_JOIN(convert_, ACC), VEC)(VLOAD(IN_TYPE)(in, c)), to + c);
    for (; c < inputs; c++)
        to[c] = (ACC)LOAD(IN_TYPE)(in, c);
#endif
}
#endif

/* What a work-item computes: a chunk of the pixels of a phase and some tiles of channels; phases times shares of the
 * tiles are numbered by `item`, below `items`. */
NOINLINE void conv_share(__global const STORAGE(IN_TYPE) *restrict in, __global const ACC *restrict packed,
                         __global STORAGE(OUT_TYPE) *restrict out, const mx_nhwc *geometry, long zeros,
                         EPILOGUE_PARAMS, int item, int items, long chunk, long chunks, int group)
{
    const mx_nhwc g = *geometry;
    const int vectors = (g.outputs + VEC - 1) / VEC, tiles = (vectors + N_VECTORS - 1) / N_VECTORS;
#if BACKWARD
    /* Phases run fastest, so that a range of work-groups has some of each: they differ in their taps. */
    const int phases = g.step[0] * g.step[1] * g.step[2], phase = item % phases;
#else
    const int phases = 1, phase = 0;
#endif
    const int share = item / phases, shares = items / phases;
    const int first_tile = (int)((long)share * tiles / shares), last_tile = (int)((long)(share + 1) * tiles / shares);
    const axis_t d = axis_of(g, 0, phase / (g.step[1] * g.step[2]), BACKWARD);
    const axis_t h = axis_of(g, 1, phase / g.step[2] % g.step[1], BACKWARD);
    const axis_t w = axis_of(g, 2, phase % g.step[2], BACKWARD);

    /* Pixels are dealt in units of DEAL, and fill whole tiles of rows with the last one repeated. */
    const long pixels = (long)g.images * d.count * h.count * w.count, deals = (pixels + DEAL - 1) / DEAL;
    const long first = (long)(chunk * deals / chunks * DEAL);
    const int count = (int)(min((long)((chunk + 1) * deals / chunks * DEAL), pixels) - first);
    if (count <= 0)
        return;

    __global const ACC *zero = packed;
    const long all_taps = (long)g.taps[0] * g.taps[1] * g.taps[2];
    packed += zeros + (long)group * vectors * VEC * all_taps * g.inputs;
    in += (long)group * (COPIED ? g.channels : g.inputs);
    out += (long)group * g.outputs;

    /* The place of each pixel's first tap, and the pixel itself. */
    int at_d[ALL], at_h[ALL], at_w[ALL];
    long from[ALL], to[ALL];
    {
        int iw = (int)(first % w.count), ih = (int)(first / w.count % h.count);
        int id = (int)(first / w.count / h.count % d.count), n = (int)(first / w.count / h.count / d.count);
        for (int i = 0; i < count;) {
            const int run = min(w.count - iw, count - i), pd = d.in_first + id * d.in_every;
            const int ph = h.in_first + ih * h.in_every, pw = w.in_first + iw * w.in_every;
            const long f = ((((long)n * g.in_len[0] + pd) * g.in_len[1] + ph) * g.in_len[2] + pw) * g.in_pixel;
            const long t = ((((long)n * g.out_len[0] + d.first + id * d.every) * g.out_len[1] + h.first + ih * h.every)
                            * g.out_len[2] + w.first + iw * w.every) * g.out_pixel;
            for (int j = 0; j < run; j++) {
                at_d[i + j] = pd;
                at_h[i + j] = ph;
                at_w[i + j] = pw + j * w.in_every;
                from[i + j] = f + (long)j * w.in_every * g.in_pixel;
                to[i + j] = t + (long)j * w.every * g.out_pixel;
            }
            i += run;
            iw = 0;
            if (++ih == h.count) {
                ih = 0;
                if (++id == d.count) {
                    id = 0;
                    n++;
                }
            }
        }
    }

    const int taps = d.taps * h.taps * w.taps;
    if (taps == 0) {
        const int begin = (int)((long)first_tile * vectors / tiles) * VEC;
        const int end = min((int)((long)last_tile * vectors / tiles) * VEC, g.outputs);
        for (int i = 0; i < count; i++) {
            int c = begin;
            if (WHOLE)
                for (; c + VEC <= end; c += VEC) {
                    OF_FILTERS((long)group * g.outputs + c, VEC)
                    store_vec(out + to[i] + c, (vec)((ACC)0), EPILOGUE_ARGS);
                }
            for (; c < end; c++) {
                OF_FILTER((long)group * g.outputs + c)
                store_sum(out + to[i], c, 0, EPILOGUE_ARGS);
            }
        }
        return;
    }

#if COPIED
    ACC copy[ALL * PITCH];
    for (int i = 0; i < count; i++)
        if ((uint)at_d[i] < (uint)g.in_len[0] && (uint)at_h[i] < (uint)g.in_len[1] && (uint)at_w[i] < (uint)g.in_len[2])
            copy_pixel(copy + i * PITCH, in + from[i], g.inputs, g.channels);
        else
            for (int c = 0; c < g.inputs; c++)
                copy[i * PITCH + c] = 0;
#endif
    vec sums[ALL * N_VECTORS];
#if !MX_INTEGER_ACC
    vec totals[ALL * N_VECTORS * 3];
#endif
    PIXELS const ACC *pixel[SEGMENTS * ALL];
    __global const ACC *panel[SEGMENTS];
    const int pieces = (g.inputs + K_BLOCK - 1) / K_BLOCK;
    const int together = pieces > 1 ? 1 : min(SEGMENTS, K_BLOCK / g.inputs);
    for (int tile = first_tile; tile < last_tile; tile++) {
        const int v0 = (int)((long)tile * vectors / tiles), used = (int)((long)(tile + 1) * vectors / tiles) - v0;
        const int rows = used == 1 ? ROWS_1 : used == 2 ? ROWS_2 : used == 3 ? ROWS_3 : ROWS_4;
        const int columns = min(g.outputs - v0 * VEC, used * VEC), padded = (count + rows - 1) / rows * rows;
        __global const ACC *filters = packed + v0 * VEC * all_taps * g.inputs;
        const long filter = (long)group * g.outputs + v0 * VEC;
        int terms = 0;
        int settled = 0;
        for (int tap = 0; tap < taps; tap += together) {
            const int segments = min(together, taps - tap);
            for (int segment = 0; segment < segments; segment++) {
                const int t = tap + segment, jw = t % w.taps, jh = t / w.taps % h.taps, jd = t / w.taps / h.taps;
                const int move_d = jd * d.in_tap, move_h = jh * h.in_tap, move_w = jw * w.in_tap;
                const long move = (((long)move_d * g.in_len[1] + move_h) * g.in_len[2] + move_w) * g.in_pixel;
                panel[segment] = filters + (((long)(d.tap_first + jd * d.tap_every) * g.taps[1] + h.tap_first
                    + jh * h.tap_every) * g.taps[2] + w.tap_first + jw * w.tap_every) * g.inputs * used * VEC;
                PIXELS const ACC **there = pixel + segment * ALL;
                for (int i = 0; i < count; i++) {
#if COPIED
                    there[i] = copy + i * PITCH;
#else
                    const bool inside = (uint)(at_d[i] + move_d) < (uint)g.in_len[0]
                        && (uint)(at_h[i] + move_h) < (uint)g.in_len[1] && (uint)(at_w[i] + move_w) < (uint)g.in_len[2];
                    there[i] = inside ? in + (from[i] + move) : zero;
#endif
                }
                for (int i = count; i < padded; i++)
                    there[i] = there[count - 1];
            }
            for (int piece = 0; piece < pieces; piece++) {
                const int c0 = (int)((long)piece * g.inputs / pieces);
                const int depth = (int)((long)(piece + 1) * g.inputs / pieces) - c0;
                const bool add = tap + piece > 0;
#if !MX_INTEGER_ACC
                if (terms > 0 && terms + segments * depth > BLOCK_TERMS) {
                    settle(settled, sums, totals, padded * used);
                    settled++;
                    terms = 0;
                }
                terms += segments * depth;
#endif
                const bool last = DIRECT && tap + segments == taps && piece + 1 == pieces && columns == used * VEC;
                for (int i = 0; i < padded; i += rows) {
                    vec *s = sums + i * used;
                    __global STORAGE(OUT_TYPE) *now =
                        last && settled == 0 && i + rows <= count ? out + v0 * VEC : 0;
                    if (used == 1)
                        multiply_1(add, s, pixel + i, panel, segments, depth, now, to + i, filter, EPILOGUE_ARGS);
                    if (used == 2)
                        multiply_2(add, s, pixel + i, panel, segments, depth, now, to + i, filter, EPILOGUE_ARGS);
#if N_VECTORS > 2
                    if (used == 3)
                        multiply_3(add, s, pixel + i, panel, segments, depth, now, to + i, filter, EPILOGUE_ARGS);
                    if (used == 4)
                        multiply_4(add, s, pixel + i, panel, segments, depth, now, to + i, filter, EPILOGUE_ARGS);
#endif
                }
                if (piece + 1 < pieces) {
                    panel[0] += (long)depth * used * VEC;
                    for (int i = 0; i < padded; i++)
                        pixel[i] = IS_ZERO(pixel[i]) ? pixel[i] : pixel[i] + depth;
                }
            }
        }
#if !MX_INTEGER_ACC
        if (settled > 0)
            complete(settled, sums, totals, padded * used);
#endif
        /* What was not stored: pixels beside repeated ones, channels that fill no vector, and long sums. */
        for (int i = DIRECT && settled == 0 && columns == used * VEC ? count / rows * rows : 0; i < count; i++) {
            const vec *s = sums + i * used;
            __global STORAGE(OUT_TYPE) *p = out + to[i] + v0 * VEC;
            int c = 0;
            if (WHOLE)
                for (; c + VEC <= columns; c += VEC) {
                    OF_FILTERS(filter + c, VEC)
                    store_vec(p + c, s[c / VEC], EPILOGUE_ARGS);
                }
            for (; c < columns; c++) {
                OF_FILTER(filter + c)
                store_sum(p, c, ((const ACC *)s)[c], EPILOGUE_ARGS);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_nhwc(
    __global const STORAGE(IN_TYPE) *restrict in, long in_offset, __global const ACC *restrict packed,
    long packed_offset, __global STORAGE(OUT_TYPE) *restrict out, long out_offset, const mx_nhwc g, long zeros,
    EPILOGUE_KERNEL_PARAMS)
{
    EPILOGUE_BEGIN(out, out_offset);
    conv_share(in + in_offset, packed + packed_offset, out + out_offset, &g, zeros, EPILOGUE_ARGS, get_group_id(0),
               get_num_groups(0), get_group_id(1), get_num_groups(1), get_group_id(2));
}
