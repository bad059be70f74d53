/* Small convolutions on NVIDIA's tensor cores, one launch: y = alpha * x w + beta * y, or backward weights.
 *
 * A result is out[m, n], the sum over k of a[m, k] * b[n, k], with a read at row(m) + in_a(k) and b at column(n) +
 * in_b(k), as both lie in memory; b only where bits(n) & bits(k) is zero, that is inside x.
 *   forward and backward data: m are channels of y, times the places of a block of its pixels; n are such blocks, k
 *   taps and channels of x.  A block, of block_h x block_w, covers the stride of backward data, and fills m where
 *   channels are few; it reads all that its pixels read, and a is zero where a place does not meet a tap.
 *   WEIGHTS: m are filters, n taps and channels of x, k pixels of dy.
 * The warps of a work-group share its tile: WARPS_N of them along n, WARPS_K along k; each reads what it multiplies from
 * global memory into registers, one step ahead, and their sums are added up in local memory in their order.
 * Floats are split in two as in conv_nvidia_float.cl; a sum starts anew every step.  A sum that is not finite is computed
 * anew, since it may be what infinity and zeros outside x made.
 * NDRange: one axis, local THREADS, global THREADS * m_tiles * n_tiles * groups * splits of k.
 */
#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef WEIGHTS
#define WEIGHTS 0
#endif
#ifndef PARTS /* of backward weights: sums of a part of the pixels each go to the workspace */
#define PARTS 0
#endif
#ifndef LAST /* of taps and channels, channels run fastest */
#define LAST 0
#endif
/* How an operand is read: element by element, 16 bytes along k, or 16-bit neighbours along m or n. */
#define SINGLE 0
#define RUNS 1
#define PAIRS 2
#ifndef A_WAY
#define A_WAY SINGLE
#endif
#ifndef B_WAY
#define B_WAY SINGLE
#endif
#ifndef MASKED /* a is zero where bits(m) & bits(k) is not */
#define MASKED 0
#endif
#ifndef MB /* blocks of 16 m of a warp */
#define MB 1
#endif
#ifndef NB /* blocks of 8 n of a warp */
#define NB 2
#endif
#ifndef WARPS_N
#define WARPS_N 1
#endif
#ifndef WARPS_K
#define WARPS_K 8
#endif
#ifndef ROOM /* entries of the table of k */
#define ROOM 1024
#endif
#define OUT_TYPE MX_JOIN(MX_OUT_, PARTS)
#define MX_OUT_0 X_TYPE
#define MX_OUT_1 float
#include "common.h"
#include "conv_nvidia.h"

#define WIDE (MX_TYPE(X_TYPE) == MX_TYPE_float)
#define SIZE (WIDE ? 4 : 2)
#define LANE_K (16 / SIZE)                     /* of a lane and step: four words of each row */
#define STEP_K (4 * LANE_K)
#define UNIT (B_WAY == RUNS ? LANE_K : 1)      /* so many k have one entry in the table */
#define ENTRIES (LANE_K / UNIT)                /* of a lane and step */
#define BM (16 * MB)
#define BN (8 * NB * WARPS_N)
#define THREADS (32 * WARPS_N * WARPS_K)
#define PITCH (BN + (40 - BN % 32) % 32)       /* rows begin 8 banks apart */
#define K_SIDE (1u << 30)                      /* in bits(k), and in bits(n) of an n that there is not */
#define N_SIDE (1u << 31)                      /* the other way round */
#define NOWHERE (~0u)

typedef struct {
    int m, n, k, each;                           /* of a group; of k, each split */
    int m_tiles, n_tiles, groups;
    int p, q, taps_h, taps_w, channels;          /* blocks of pixels; taps of x; channels of x in a group */
    int h, w, step_h, step_w, first_h, first_w, tap_h, tap_w;
    int x_g, x_n, x_c, x_h, x_w;                 /* strides in elements */
    /* a is w, of whose filter_h rows tap u is number place_h + row_h * (the row in a block) + turn_h * u, likewise
     * columns; or dy. */
    int filter_h, filter_w, place_h, place_w, row_h, row_w, turn_h, turn_w;
    int a_g, a_m, a_k, a_n, a_h, a_w;            /* a_m of one channel or filter, a_k of the next k in an entry */
    int block_h, block_w, outs;                  /* outs: channels of y in a group */
    int out_g, out_n, out_c, out_h, out_w, out_height, out_width;
    int m_closest;                               /* neighbours in m are neighbours in out */
    mx_nv_divisor by_image, by_row, by_inner, by_taps_w, by_outs, by_block_w; /* by_inner: channels if LAST, or taps */
} mx_nv_small;

typedef struct {
    uint a, b, bits; /* a and b in bytes, modulo 2^32 */
} mx_nv_entry;

/* The taps of an axis that are outside from `at` on, as bits. */
static inline uint mx_outside(int at, int tap, int taps, int length)
{
    const uint all = (1u << taps) - 1;
    uint bits = 0;
    if (tap == 1) {
        const int low = clamp(-at, 0, taps), high = clamp(length - at, 0, taps);
        return high > low ? all & ~((1u << high) - (1u << low)) : all;
    }
#pragma unroll 1
    for (int i = 0; i < taps; i++, at += tap)
        bits |= (uint)((uint)at >= (uint)length) << i;
    return bits;
}

static inline mx_nv_entry mx_pixel(int i, const mx_nv_small g)
{
    const int n = mx_quotient(i, g.by_image), rest = i - n * (g.p * g.q), p = mx_quotient(rest, g.by_row);
    const int q = rest - p * g.q, h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;
    mx_nv_entry e;
    e.a = (uint)(n * g.a_n + p * g.a_h + q * g.a_w) * SIZE; /* of dy */
    e.b = (uint)(n * g.x_n + h * g.x_h + w * g.x_w) * SIZE;
    e.bits = mx_outside(h, g.tap_h, g.taps_h, g.h) | mx_outside(w, g.tap_w, g.taps_w, g.w) << 15;
    return e;
}

typedef struct {
    int c, u, v;
} mx_nv_tap;

static inline mx_nv_tap mx_tap(int i, const mx_nv_small g)
{
    const int outer = mx_quotient(i, g.by_inner), inner = i - outer * (LAST ? g.channels : g.taps_h * g.taps_w);
    const int tap = LAST ? outer : inner;
    mx_nv_tap t;
    t.c = LAST ? inner : outer, t.u = mx_quotient(tap, g.by_taps_w), t.v = tap - t.u * g.taps_w;
    return t;
}

static inline mx_nv_entry mx_tap_entry(int i, const mx_nv_small g)
{
    const mx_nv_tap t = mx_tap(i, g);
    mx_nv_entry e;
    e.a = (uint)(t.c * g.a_k + t.u * g.turn_h * g.a_h + t.v * g.turn_w * g.a_w) * SIZE; /* of w */
    e.b = (uint)(t.c * g.x_c + t.u * g.tap_h * g.x_h + t.v * g.tap_w * g.x_w) * SIZE;
    e.bits = 1u << t.u | 0x8000u << t.v;
    return e;
}

static inline mx_nv_entry mx_entry_k(int k, int end, const mx_nv_small g)
{
    mx_nv_entry e = WEIGHTS ? mx_pixel(min(k, end - 1), g) : mx_tap_entry(min(k, end - 1), g);
    e.bits |= K_SIDE;
    if (k >= end)
        e.a = 0, e.bits = NOWHERE; /* a is read there where it is not masked */
    return e;
}

static inline mx_nv_entry mx_entry_n(int n, const mx_nv_small g)
{
    mx_nv_entry e = WEIGHTS ? mx_tap_entry(min(n, g.n - 1), g) : mx_pixel(min(n, g.n - 1), g);
    e.bits = n < g.n ? e.bits | N_SIDE : NOWHERE;
    return e;
}

/* Of w: the place in a block, and the taps it does not meet. */
static inline mx_nv_entry mx_entry_m(int m, const mx_nv_small g)
{
    mx_nv_entry e;
    m = min(m, g.m - 1);
    e.bits = N_SIDE;
    if (WEIGHTS) {
        e.a = (uint)(m * g.a_m) * SIZE;
        return e;
    }
    const int place = mx_quotient(m, g.by_outs), row = mx_quotient(place, g.by_block_w);
    const int i = g.place_h + row * g.row_h, j = g.place_w + (place - row * g.block_w) * g.row_w;
    e.a = (uint)((m - place * g.outs) * g.a_m + i * g.a_h + j * g.a_w) * SIZE;
    if (MASKED) {
#pragma unroll 1
        for (int u = 0; u < g.taps_h; u++)
            e.bits |= (uint)((uint)(i + u * g.turn_h) >= (uint)g.filter_h) << u;
#pragma unroll 1
        for (int v = 0; v < g.taps_w; v++)
            e.bits |= (uint)((uint)(j + v * g.turn_w) >= (uint)g.filter_w) << (15 + v);
    }
    return e;
}

#define AT(p, bytes) ((__global const STORAGE(X_TYPE) *)((__global const uchar *)(p) + (ulong)(bytes)))

/* One result, product after product. */
static inline float mx_exactly(__global const STORAGE(X_TYPE) *A, __global const STORAGE(X_TYPE) *B,
                               const mx_nv_small g, int m, int n, int begin, int end)
{
    const mx_nv_entry row = mx_entry_m(m, g), column = mx_entry_n(n, g);
    float sum = 0;
#pragma unroll 1
    for (int k = begin; k < end; k++) {
        const mx_nv_entry e = mx_entry_k(k, end, g);
        if ((e.bits & column.bits) == 0 && (!MASKED || (e.bits & row.bits) == 0))
            sum = fma(LOAD(X_TYPE)(AT(A, row.a + e.a), 0), LOAD(X_TYPE)(AT(B, column.b + e.b), 0), sum);
    }
    return sum;
}

/* Loads that are none where `bits` are not zero, and give zeros: branches would wait for each. */
#define IF_NONE(bits_, zeros, load) "{ .reg .pred p; setp.eq.u32 p, " bits_ ", 0; " zeros " @p ld.global.nc." load "; }"
#define LOAD_WORD(v, p, bits) \
    asm volatile(IF_NONE("%2", "mov.b32 %0, 0;", "b32 %0, [%1]") : "=&r"(v) : "l"((ulong)(p)), "r"(bits))
#define LOAD_SHORT(v, p, bits) \
    asm volatile(IF_NONE("%2", "mov.b16 %0, 0;", "b16 %0, [%1]") : "=&h"(v) : "l"((ulong)(p)), "r"(bits))
#define LOAD_RUN(v, p, bits)                                                                                        \
    asm volatile(IF_NONE("%5", "mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0;",                       \
                         "v4.b32 {%0, %1, %2, %3}, [%4]")                                                           \
                 : "=&r"((v)[0]), "=&r"((v)[1]), "=&r"((v)[2]), "=&r"((v)[3]) : "l"((ulong)(p)), "r"(bits))

/* The element, or the two, of word l of a lane at `from`, whose entry for k has in_k[], `apart` bytes in a unit. */
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define LOAD_SINGLE(v, P, from, in_k, apart, l, masks) LOAD_WORD(v, AT(P, (from) + K_AT(in_k, apart, l)), masks(l))
#else
#define LOAD_SINGLE(v, P, from, in_k, apart, l, masks)                                      \
    do {                                                                                    \
        ushort low_, high_;                                                                 \
        LOAD_SHORT(low_, AT(P, (from) + K_AT(in_k, apart, 2 * (l))), masks(2 * (l)));       \
        LOAD_SHORT(high_, AT(P, (from) + K_AT(in_k, apart, 2 * (l) + 1)), masks(2 * (l) + 1)); \
        (v) = (uint)low_ | (uint)high_ << 16;                                               \
    } while (0)
#endif
#define K_AT(in_k, apart, l) (UNIT == 1 ? (in_k)[(l) % ENTRIES] : (in_k)[0] + (l) * (apart))
/* Word l of two neighbours, of which each lies beside the other: k 2 l and 2 l + 1 of both. */
#define LOAD_PAIR(first, second, P, from, in_k, apart, l, masks, together)                                  \
    do {                                                                                                    \
        uint low_, high_;                                                                                   \
        if (together) {                                                                                     \
            LOAD_WORD(low_, AT(P, (from) + K_AT(in_k, apart, 2 * (l))), masks(2 * (l)));                    \
            LOAD_WORD(high_, AT(P, (from) + K_AT(in_k, apart, 2 * (l) + 1)), masks(2 * (l) + 1));           \
        } else {                                                                                            \
            ushort four_[4];                                                                                \
            _Pragma("unroll") for (int o_ = 0; o_ < 4; o_++) LOAD_SHORT(                                    \
                four_[o_], AT(P, (from) + K_AT(in_k, apart, 2 * (l) + (o_ >> 1)) + 2 * (o_ & 1)),           \
                masks(2 * (l) + (o_ >> 1)));                                                                \
            low_ = (uint)four_[0] | (uint)four_[1] << 16, high_ = (uint)four_[2] | (uint)four_[3] << 16;    \
        }                                                                                                   \
        first = (low_ & 0xffff) | high_ << 16, second = low_ >> 16 | (high_ & 0xffff0000u);                 \
    } while (0)

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_small(
    __global const STORAGE(X_TYPE) *restrict A, long a_offset, __global const STORAGE(X_TYPE) *restrict B,
    long b_offset, __global STORAGE(OUT_TYPE) *restrict OUT, long out_offset, const mx_nv_small g, const float alpha,
    const float beta)
{
    __local uint in_a[ROOM] __attribute__((aligned(16))), in_b[ROOM] __attribute__((aligned(16)));
    __local uint in_bits[ROOM] __attribute__((aligned(16)));
    __local float shares[WARPS_K][BM * PITCH] __attribute__((aligned(16)));
    const int item = get_local_id(0), lane = item & 31, t = lane & 3, r = lane >> 2;
    const int share = (item >> 5) % WARPS_K, n_warp = (item >> 5) / WARPS_K * (8 * NB);
    int tile = get_group_id(0);
    const int m0 = tile % g.m_tiles * BM;
    tile /= g.m_tiles;
    const int n0 = tile % g.n_tiles * BN;
    tile /= g.n_tiles;
    const int group = tile % g.groups, split = tile / g.groups;
    const int begin = split * g.each, end = min(g.k, begin + g.each);

    A += a_offset + (long)group * g.a_g;
    B += b_offset + (long)group * g.x_g;
    const bool a_together = ((ulong)A & (A_WAY == RUNS ? 15 : 3)) == 0;
    const bool b_together = ((ulong)B & (B_WAY == RUNS ? 15 : 3)) == 0;

    /* Rows r and r + 8 of each block of m, column r of each block of n; of pairs 2 r and 2 r + 1 of two of them. */
    uint a_at[MB][2], a_bits[MB][2], b_at[NB], b_bits[NB];
#pragma unroll
    for (int i = 0; i < 2 * MB; i++) {
        const int m = m0 + i / 2 * 16 + (A_WAY == PAIRS ? 2 * r + i % 2 : r + i % 2 * 8);
        const mx_nv_entry e = mx_entry_m(A_WAY == PAIRS ? min(m, g.m - 2 + i % 2) : m, g);
        a_at[i / 2][i % 2] = e.a, a_bits[i / 2][i % 2] = MASKED ? e.bits : 0;
    }
#pragma unroll
    for (int j = 0; j < NB; j++) {
        const mx_nv_entry e = mx_entry_n(n0 + n_warp + (B_WAY == PAIRS ? j / 2 * 16 + 2 * r + j % 2 : j * 8 + r), g);
        b_at[j] = e.b, b_bits[j] = e.bits;
    }

#define A_MASKS(l) (MASKED ? a_bits[i][half_] & bits[UNIT == 1 ? (l) : 0] : 0)
#define B_MASKS(l) (b_bits[j] & bits[UNIT == 1 ? (l) : 0])
#define READ_STEP(a, b, number)                                                                                 \
    do {                                                                                                        \
        const int at_ = ((number) * 4 + t) * ENTRIES;                                                           \
        uint ka[ENTRIES], kb[ENTRIES], bits[ENTRIES];                                                           \
        _Pragma("unroll") for (int l = 0; l < ENTRIES; l++)                                                     \
            ka[l] = in_a[at_ + l], kb[l] = in_b[at_ + l], bits[l] = in_bits[at_ + l];                           \
        _Pragma("unroll") for (int i = 0; i < MB; i++) {                                                        \
            if (A_WAY == PAIRS) {                                                                               \
                const int half_ = 0;                                                                            \
                _Pragma("unroll") for (int l = 0; l < 4; l++)                                                   \
                    LOAD_PAIR(a[i][0][l], a[i][1][l], A, a_at[i][0], ka, g.a_k * SIZE, l, A_MASKS, a_together); \
            } else                                                                                              \
                _Pragma("unroll") for (int half_ = 0; half_ < 2; half_++) {                                     \
                    if (A_WAY == RUNS && a_together)                                                            \
                        LOAD_RUN(a[i][half_], AT(A, a_at[i][half_] + ka[0]), A_MASKS(0));                       \
                    else if (A_WAY == RUNS)                                                                     \
                        _Pragma("unroll") for (int l = 0; l < 4; l++)                                           \
                            LOAD_SINGLE(a[i][half_][l], A, a_at[i][half_], ka, SIZE, l, A_MASKS);               \
                    else                                                                                        \
                        _Pragma("unroll") for (int l = 0; l < 4; l++)                                           \
                            LOAD_SINGLE(a[i][half_][l], A, a_at[i][half_], ka, g.a_k * SIZE, l, A_MASKS);       \
                }                                                                                               \
        }                                                                                                       \
        _Pragma("unroll") for (int j = 0; j < NB; j++) {                                                        \
            if (B_WAY == PAIRS) {                                                                               \
                if (j % 2 == 0)                                                                                 \
                    _Pragma("unroll") for (int l = 0; l < 4; l++)                                               \
                        LOAD_PAIR(b[j][l], b[(j + 1) % NB][l], B, b_at[j], kb, 0, l, B_MASKS, b_together);      \
            } else if (B_WAY == RUNS && b_together)                                                             \
                LOAD_RUN(b[j], AT(B, b_at[j] + kb[0]), B_MASKS(0));                                             \
            else                                                                                                \
                _Pragma("unroll") for (int l = 0; l < 4; l++)                                                   \
                    LOAD_SINGLE(b[j][l], B, b_at[j], kb, SIZE, l, B_MASKS);                                     \
        }                                                                                                       \
    } while (0)

    float sums[MB][NB][4];
#pragma unroll
    for (int i = 0; i < MB * NB * 4; i++)
        sums[i / NB / 4][i / 4 % NB][i % 4] = 0;
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define MULTIPLY_STEP(a, b)                                                                                 \
    do {                                                                                                    \
        uint b_hi[NB][4], b_lo[NB][4];                                                                      \
        _Pragma("unroll") for (int j = 0; j < NB; j++)                                                      \
            _Pragma("unroll") for (int l = 0; l < 4; l++) SPLIT(b[j][l], b_hi[j][l], b_lo[j][l]);           \
        _Pragma("unroll") for (int i = 0; i < MB; i++) {                                                    \
            uint hi[2][4], lo[2][4];                                                                        \
            float fresh[NB][4];                                                                             \
            _Pragma("unroll") for (int l = 0; l < 8; l++)                                                   \
                SPLIT(a[i][l / 4][l % 4], hi[l / 4][l % 4], lo[l / 4][l % 4]);                              \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_PRODUCT(fresh[j], lo[0][0], lo[1][0], lo[0][1], lo[1][1], b_hi[j][0], b_hi[j][1]);       \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(fresh[j], hi[0][0], hi[1][0], hi[0][1], hi[1][1], b_lo[j][0], b_lo[j][1]);   \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(fresh[j], lo[0][2], lo[1][2], lo[0][3], lo[1][3], b_hi[j][2], b_hi[j][3]);   \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(fresh[j], hi[0][2], hi[1][2], hi[0][3], hi[1][3], b_lo[j][2], b_lo[j][3]);   \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(fresh[j], hi[0][0], hi[1][0], hi[0][1], hi[1][1], b_hi[j][0], b_hi[j][1]);   \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(fresh[j], hi[0][2], hi[1][2], hi[0][3], hi[1][3], b_hi[j][2], b_hi[j][3]);   \
            _Pragma("unroll") for (int l = 0; l < NB * 4; l++) sums[i][l / 4][l % 4] += fresh[l / 4][l % 4]; \
        }                                                                                                   \
    } while (0)
#else
#define MULTIPLY_STEP(a, b)                                                                                 \
    _Pragma("unroll") for (int s_ = 0; s_ < 4; s_ += 2)                                                     \
        _Pragma("unroll") for (int i = 0; i < MB; i++)                                                      \
            _Pragma("unroll") for (int j = 0; j < NB; j++)                                                  \
                MX_ADD_PRODUCT(sums[i][j], a[i][0][s_], a[i][1][s_], a[i][0][s_ + 1], a[i][1][s_ + 1],      \
                               b[j][s_], b[j][s_ + 1])
#endif

#pragma unroll 1
    for (int chunk = begin; chunk < end; chunk += ROOM * UNIT) {
        const int steps = (min(end - chunk, ROOM * UNIT) + STEP_K - 1) / STEP_K;
        if (chunk != begin)
            barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = item; i < steps * 4 * ENTRIES; i += THREADS) {
            const mx_nv_entry e = mx_entry_k(chunk + i * UNIT, end, g);
            in_a[i] = e.a, in_b[i] = e.b, in_bits[i] = e.bits;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        uint a[2][MB][2][4], b[2][NB][4];
        int step = share;
        if (step < steps)
            READ_STEP(a[0], b[0], step);
#pragma unroll 1
        for (; step < steps; step += 2 * WARPS_K) {
            if (step + WARPS_K < steps)
                READ_STEP(a[1], b[1], step + WARPS_K);
            MULTIPLY_STEP(a[0], b[0]);
            if (step + WARPS_K < steps) {
                if (step + 2 * WARPS_K < steps)
                    READ_STEP(a[0], b[0], step + 2 * WARPS_K);
                MULTIPLY_STEP(a[1], b[1]);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int j = 0; j < NB; j++)
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int m = i * 16 + (A_WAY == PAIRS ? 2 * r + l / 2 : r + l / 2 * 8), column = 2 * t + l % 2;
                const int n = n_warp + (B_WAY == PAIRS ? j / 2 * 16 + 2 * column + j % 2 : j * 8 + column);
                shares[share][m * PITCH + n] = sums[i][j][l];
            }
    barrier(CLK_LOCAL_MEM_FENCE);

    OUT += out_offset + (long)group * g.out_g;
#pragma unroll 1
    for (int i = item; i < BM * BN; i += THREADS) {
        const int row = g.m_closest ? i % BM : i / BN, column = g.m_closest ? i / BM : i % BN;
        const int m = m0 + row, n = n0 + column;
        if (m >= g.m || n >= g.n)
            continue;
        float sum = shares[0][row * PITCH + column];
#pragma unroll
        for (int o = 1; o < WARPS_K; o++)
            sum += shares[o][row * PITCH + column];
        if (!(fabs(sum) < INFINITY))
            sum = mx_exactly(A, B, g, m, n, begin, end);
#if PARTS
        OUT[((long)(split * g.groups + group) * g.m + m) * g.n + n] = sum;
#elif WEIGHTS
        const mx_nv_tap at = mx_tap(n, g);
        STORE_MIXED(OUT_TYPE, OUT, (long)(m * g.out_n + at.c * g.out_c + at.u * g.out_h + at.v * g.out_w), sum, alpha,
                    beta);
#else
        const int image = mx_quotient(n, g.by_image), rest = n - image * (g.p * g.q), p = mx_quotient(rest, g.by_row);
        const int place = mx_quotient(m, g.by_outs), c = m - place * g.outs, in_h = mx_quotient(place, g.by_block_w);
        const int h = p * g.block_h + in_h, w = (rest - p * g.q) * g.block_w + place - in_h * g.block_w;
        if (h < g.out_height && w < g.out_width)
            STORE_MIXED(OUT_TYPE, OUT, (long)(image * g.out_n + c * g.out_c + h * g.out_h + w * g.out_w), sum, alpha,
                        beta);
#endif
    }
}
