/* Small convolutions on tensor cores in one launch, which costs as much as the work: y = alpha * x w + beta * y,
 * or dw = alpha * dy x + beta * dw.
 *
 *   out[m, n] = sum over k of a[m, k] * b[n, k]; a is read at row(m) + in_a(k), b at column(n) + in_b(k), any strides;
 *   b only where bits(n) & bits(k) is zero, that is inside x.
 *
 *              n ->  BN             A work-group computes one tile of BM x BN, of one split of k with SPLIT_K.
 *            +------+------+        WARPS_M x WARPS_N warps share the tile; WARPS_K of each share its sum, which is
 *     m  BM  |  0   |  2   |        added up in local memory in the order of warps.
 *            +------+------+
 *            |  1   |  3   |
 *
 *   Forward, backward data: m: channels of y, times the places of a block of its pixels; n: such blocks; k: taps and
 *   channels of x.  A block, block_h x block_w, covers the phases of backward data's stride, and fills m where channels
 *   are few.  It reads all that its pixels read; a is zero where a place does not meet a tap.
 *   WEIGHTS: m: filters; n: taps and channels of x; k: pixels of dy.
 *
 * Grid: one axis, local THREADS, global THREADS * m_tiles * n_tiles * groups * splits.
 * A warp reads what it multiplies into registers, PREFETCH steps before, from global memory or from local memory, where
 * the work-group copied it (IN_LOCAL).  With SPLIT_K each work-group leaves its partial sums in the workspace, and the
 * one that ends last adds them up, in one order.
 * Local memory: the table of k, LOCAL_WORDS of operands, the warps' sums.
 * Floats are pairs of tf32 as in conv/nvidia/float.cl; a sum starts anew every step.  A sum that is not finite is
 * computed again, each split by its work-group, since infinity times a zero outside x may have made it.
 * Bound by: latency: the launch, one pass through memory, the reduction.
 */
#ifndef X_TYPE
#define X_TYPE float
#endif
#ifndef WEIGHTS
#define WEIGHTS 0
#endif
#ifndef SPLIT_K /* 1: split-K: work-groups share a tile's sum; the last of them adds up */
#define SPLIT_K 0
#endif
#ifndef CHANNELS_LAST /* of taps and channels, channels run fastest */
#define CHANNELS_LAST 0
#endif
/* How an operand is read: element by element, 16 bytes along k, or 16-bit neighbours along m or n; or floats one by one
 * from local memory, where the work-group has what it needs: rows of x with the zeros around them (b), or w (a). */
#define SINGLE 0
#define RUNS 1
#define PAIRS 2
#define IN_LOCAL 3
#ifndef A_READ
#define A_READ SINGLE
#endif
#ifndef B_READ
#define B_READ SINGLE
#endif
#ifndef B_CHUNK /* elements of b, and of a, that are copied to local memory at once */
#define B_CHUNK 1
#endif
#ifndef A_CHUNK
#define A_CHUNK 1
#endif
#ifndef LOCAL_WORDS /* of local memory for operands */
#define LOCAL_WORDS 0
#endif
#ifndef INSIDE /* all that is read of b is inside x, for all k of a step; if b is IN_LOCAL, all k of a step are there */
#define INSIDE 0
#endif
#ifndef MASKED /* a is zero where bits(m) & bits(k) is not */
#define MASKED 0
#endif
#ifndef M_CONTIGUOUS /* out is contiguous along m, not along n */
#define M_CONTIGUOUS 0
#endif
#ifndef VEC /* elements of out that are stored at once where its address allows: 1 or 4 */
#define VEC 1
#endif
#ifndef MB /* blocks of 16 m of a warp */
#define MB 1
#endif
#ifndef NB /* blocks of 8 n of a warp */
#define NB 2
#endif
#ifndef WARPS_M
#define WARPS_M 1
#endif
#ifndef WARPS_N
#define WARPS_N 1
#endif
#ifndef WARPS_K
#define WARPS_K 8
#endif
#ifndef PREFETCH /* steps that are read before they are multiplied */
#define PREFETCH 1
#endif
#ifndef TABLE_ENTRIES /* entries of the table of k */
#define TABLE_ENTRIES 1024
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/small_args.h"

#define WIDE (MX_TYPE(X_TYPE) == MX_TYPE_float)
#define SIZE (WIDE ? 4 : 2)
#define LANE_K (16 / SIZE)                     /* of a lane and step: four words of each row */
#define STEP_K (4 * LANE_K)
#define UNIT (B_READ == RUNS ? LANE_K : 1)      /* so many k have one entry in the table */
#define ENTRIES (LANE_K / UNIT)                /* of a lane and step */
#define BM (16 * MB * WARPS_M)
#define BN (8 * NB * WARPS_N)
#define THREADS (32 * WARPS_M * WARPS_N * WARPS_K)
#define RUN (M_CONTIGUOUS ? BM : BN)              /* of a tile's sums: neighbours, and how far such runs are apart */
#define LINES (BM * BN / RUN)
#define PITCH (RUN + ((M_CONTIGUOUS ? 36 : 40) - RUN % 32) % 32)
#define K_SIDE (1u << 30)                      /* in bits(k), and in bits(n) of an n that there is not */
#define N_SIDE (1u << 31)                      /* the other way round */
#define NOWHERE (~0u)
#define SHARES (WARPS_K * LINES * PITCH)

typedef struct {
    int a, b, out; /* in elements */
    uint bits;
    uint room;       /* rows and columns of out from here on, or in a block before here: 16 bits each */
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

/* `near` is B's part of local memory, whose first row is number `near`; or -1 for x. */
static inline mx_nv_entry mx_pixel(int i, int near, const mx_nv_small g)
{
    const int n = mx_quotient(i, g.by_image), rest = i - n * (g.p * g.q), p = mx_quotient(rest, g.by_row);
    const int q = rest - p * g.q, h = p * g.step_h + g.first_h, w = q * g.step_w + g.first_w;
    mx_nv_entry e;
    e.a = n * g.a_n + p * g.a_h + q * g.a_w; /* of dy */
    e.b = near < 0 ? n * g.x_n + h * g.x_h + w * g.x_w
                   : (n * g.image_rows + p * g.step_h - near) * g.local_h + w * g.local_w - g.line_first;
    e.bits = mx_outside(h, g.tap_h, g.taps_h, g.h) | mx_outside(w, g.tap_w, g.taps_w, g.w) << 15;
    e.out = n * g.out_n + p * g.block_h * g.out_h + q * g.block_w * g.out_w;
    e.room = min(g.out_height - p * g.block_h, 0xffff) << 16 | min(g.out_width - q * g.block_w, 0xffff);
    return e;
}

/* Tap number i of all channels. */
static inline mx_nv_entry mx_tap(int i, bool near, const mx_nv_small g)
{
    const int u = mx_quotient(i, g.by_taps_w), v = i - u * g.taps_w;
    mx_nv_entry e;
    e.a = u * g.turn_h * g.a_h + v * g.turn_w * g.a_w; /* of w */
    e.b = near ? u * g.tap_h * g.local_h + v * g.tap_w * g.local_w : u * g.tap_h * g.x_h + v * g.tap_w * g.x_w;
    e.bits = 1u << u | 0x8000u << v;
    e.out = u * g.out_h + v * g.out_w; /* of dw */
    e.room = 0;
    return e;
}

static inline int2 mx_channel_and_tap(int i, const mx_nv_small g)
{
    const int outer = mx_quotient(i, g.by_inner), inner = i
                    - outer * (CHANNELS_LAST ? g.channels : g.taps_h * g.taps_w);
    return CHANNELS_LAST ? (int2)(inner, outer) : (int2)(outer, inner);
}

static inline mx_nv_entry mx_entry_n(int n, int near, int local_c, const mx_nv_small g)
{
    const bool exists = n < g.n;
    mx_nv_entry e;
    n = min(n, g.n - 1);
    if (WEIGHTS) {
        const int2 at = mx_channel_and_tap(n, g);
        e = mx_tap(at.y, near >= 0, g);
        e.b += near < 0 ? at.x * g.x_c : (at.x - local_c) * g.local_c;
        e.out += at.x * g.out_c;
    } else
        e = mx_pixel(n, near, g);
    e.bits = exists ? e.bits | N_SIDE : NOWHERE;
    return e;
}

/* Of w: the place in a block, and the taps it does not meet. */
static inline mx_nv_entry mx_entry_m(int m, const mx_nv_small g)
{
    mx_nv_entry e;
    m = min(m, g.m - 1);
    e.b = e.room = 0, e.bits = N_SIDE;
    if (WEIGHTS) {
        e.a = m * g.a_m;
        e.out = m * g.out_n;
        return e;
    }
    int c = m, i = g.place_h, j = g.place_w;
    e.out = 0;
    if (MASKED) {
        const int place = mx_quotient(m, g.by_outs), row = mx_quotient(place, g.by_block_w);
        const int column = place - row * g.block_w;
        c = m - place * g.outs, i += row * g.row_h, j += column * g.row_w;
        e.out = row * g.out_h + column * g.out_w;
        e.room = row << 16 | column;
#pragma unroll 1
        for (int u = 0; u < g.taps_h; u++)
            e.bits |= (uint)((uint)(i + u * g.turn_h) >= (uint)g.filter_h) << u;
#pragma unroll 1
        for (int v = 0; v < g.taps_w; v++)
            e.bits |= (uint)((uint)(j + v * g.turn_w) >= (uint)g.filter_w) << (15 + v);
    }
    e.a = c * g.a_m + i * g.a_h + j * g.a_w;
    e.out += c * g.out_c;
    return e;
}

/* Of a and b; `near` as in mx_pixel, where w may be in local memory, too, and the first channel there. */
static inline mx_nv_entry mx_entry_k(int k, int near, int local_c, const mx_nv_small g)
{
    mx_nv_entry e;
    if (WEIGHTS)
        e = mx_pixel(k, near, g);
    else {
        const int2 at = mx_channel_and_tap(k, g);
        e = mx_tap(at.y, near >= 0, g);
        e.a += near >= 0 && A_READ == IN_LOCAL ? (at.x - local_c) * g.local_a_k : at.x * g.a_k;
        e.b += near < 0 ? at.x * g.x_c : (at.x - local_c) * g.local_c;
    }
    e.bits |= K_SIDE;
    return e;
}

/* One result, product after product of a range of k. */
static inline float mx_exactly(__global const STORAGE(X_TYPE) *A, __global const STORAGE(X_TYPE) *B,
                               const mx_nv_small g, int m, int n, int begin, int end)
{
    const mx_nv_entry row = mx_entry_m(m, g), column = mx_entry_n(n, -1, 0, g);
    float sum = 0;
#pragma unroll 1
    for (int k = begin; k < end; k++) {
        const mx_nv_entry e = mx_entry_k(k, -1, 0, g);
        if ((e.bits & column.bits) == 0 && (!MASKED || (e.bits & row.bits) == 0))
            sum = fma(LOAD(X_TYPE)(A, row.a + e.a), LOAD(X_TYPE)(B, column.b + e.b), sum);
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

/* What other groups wrote is seen behind the fence. */
#define FENCE() asm volatile("fence.acq_rel.gpu;" ::: "memory")
#define SWAP_IF(seen, p, old, next) \
    asm volatile("atom.global.cas.b64 %0, [%1], %2, %3;" : "=l"(seen) : "l"((ulong)(p)), "l"(old), "l"(next) : "memory")
#define COUNT_UP(before, p) \
    asm volatile("atom.global.add.u64 %0, [%1], 1;" : "=l"(before) : "l"((ulong)(p)) : "memory")
#define LOAD_PART(v, p)                                                             \
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"                      \
                 : "=f"((v).x), "=f"((v).y), "=f"((v).z), "=f"((v).w) : "l"((ulong)(p)) : "memory")
#define COPY_CHUNK(to, from, bytes, valid)                                                        \
    do {                                                                                          \
        if ((bytes) == 16)                                                                        \
            MX_COPY16(mx_shared(to), from, valid);                                                \
        else if ((bytes) == 8)                                                                    \
            MX_COPY8(mx_shared(to), from, valid);                                                 \
        else                                                                                      \
            MX_COPY4(mx_shared(to), from, valid);                                                 \
    } while (0)
#define WAIT_FOR_COPIES() \
    do {                  \
        MX_COMMIT();      \
        MX_WAIT(0);       \
    } while (0)

/* Four at a time: a compiler does not unroll it. */
#define COPY_CHANNELS(first, count, apart, bytes, inside, to_c, from_c)                           \
    _Pragma("unroll 1") for (int c = (first); c < (count); c += 4 * (apart)) {                    \
        _Pragma("unroll") for (int o = 0; o < 4; o++) {                                           \
            if (c + o * (apart) < (count))                                                        \
                COPY_CHUNK(to, from, bytes, inside);                                              \
            to += (apart) * (to_c), from += (apart) * (from_c);                                   \
        }                                                                                         \
    }

/* Element l of a lane, whose entries for k are in_k[]: `apart` elements from one to the next if there is one entry. */
#define K_AT(in_k, apart, l) (UNIT == 1 ? (in_k)[(l) % ENTRIES] : (in_k)[0] + (l) * (apart))
/* Word l of a lane, one element or two. */
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define LOAD_SINGLE(v, from, in_k, apart, l, masks) LOAD_WORD(v, (from) + K_AT(in_k, apart, l), masks(l))
#else
#define LOAD_SINGLE(v, from, in_k, apart, l, masks)                                      \
    do {                                                                                 \
        ushort low_, high_;                                                              \
        LOAD_SHORT(low_, (from) + K_AT(in_k, apart, 2 * (l)), masks(2 * (l)));           \
        LOAD_SHORT(high_, (from) + K_AT(in_k, apart, 2 * (l) + 1), masks(2 * (l) + 1));  \
        (v) = (uint)low_ | (uint)high_ << 16;                                            \
    } while (0)
#endif
/* The same from local memory, floats only. */
#define LOAD_NEAR(v, from, in_k, l, masks) (v) = masks(l) ? 0 : as_uint((from)[(in_k)[(l) % ENTRIES]])
/* Word l of two rows or columns that lie beside each other: k 2 l and 2 l + 1 of both. */
#define LOAD_PAIR(first, second, from, in_k, apart, l, masks, together)                                     \
    do {                                                                                                    \
        uint low_, high_;                                                                                   \
        if (together) {                                                                                     \
            LOAD_WORD(low_, (from) + K_AT(in_k, apart, 2 * (l)), masks(2 * (l)));                           \
            LOAD_WORD(high_, (from) + K_AT(in_k, apart, 2 * (l) + 1), masks(2 * (l) + 1));                  \
        } else {                                                                                            \
            ushort four_[4];                                                                                \
            _Pragma("unroll") for (int o_ = 0; o_ < 4; o_++) LOAD_SHORT(                                    \
                four_[o_], (from) + K_AT(in_k, apart, 2 * (l) + (o_ >> 1)) + (o_ & 1),                      \
                masks(2 * (l) + (o_ >> 1)));                                                                \
            low_ = (uint)four_[0] | (uint)four_[1] << 16, high_ = (uint)four_[2] | (uint)four_[3] << 16;    \
        }                                                                                                   \
        first = (low_ & 0xffff) | high_ << 16, second = low_ >> 16 | (high_ & 0xffff0000u);                 \
    } while (0)

/* A counter of the groups that are done begins with whatever lies there.  No other launch has this one's ticket, whose
 * lowest 16 bits are zero: each group sets the counter to it unless one did so before. */
static inline void mx_join(__global ulong *counter, ulong ticket)
{
    ulong old = ticket, seen;
#pragma unroll 1
    for (;;) {
        SWAP_IF(seen, counter, old, ticket);
        if (seen == old || seen >> 16 == ticket >> 16)
            return;
        old = seen;
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_small(
    __global const STORAGE(X_TYPE) *restrict A, long a_offset, __global const STORAGE(X_TYPE) *restrict B,
    long b_offset, __global STORAGE(X_TYPE) *restrict OUT, long out_offset, const mx_nv_small g, const float alpha,
    const float beta
#if SPLIT_K
    , __global float *workspace, long workspace_offset, const ulong ticket
#endif
    EPILOGUE_MORE)
{
    EPILOGUE_BEGIN(OUT, out_offset);
    __local int in_a[TABLE_ENTRIES] __attribute__((aligned(16))), in_b[TABLE_ENTRIES] __attribute__((aligned(16)));
    __local uint in_bits[TABLE_ENTRIES] __attribute__((aligned(16)));
    /* What was copied here, and the warps' sums when that is not needed any more. */
    __local uint arena[LOCAL_WORDS > SHARES ? LOCAL_WORDS : SHARES] __attribute__((aligned(16)));
    __local float *shares = (__local float *)arena;
    __local STORAGE(X_TYPE) *local_b = (__local STORAGE(X_TYPE) *)arena;
    __local STORAGE(X_TYPE) *local_a = (__local STORAGE(X_TYPE) *)(arena + (A_READ == IN_LOCAL ? g.local_a : 0));
    __local int row_a[BM], row_out[BM], column_b[BN], column_out[BN];
    __local uint row_bits[BM], row_room[BM], column_bits[BN], column_room[BN];
    const int item = get_local_id(0), lane = item & 31, t = lane & 3, r = lane >> 2;
    const int share = (item >> 5) % WARPS_K, m_warp = (item >> 5) / WARPS_K % WARPS_M * (16 * MB);
    const int n_warp = (item >> 5) / (WARPS_K * WARPS_M) * (8 * NB);
    const int across = mx_quotient(get_group_id(0), g.by_m_tiles), m0 = (get_group_id(0) - across * g.m_tiles) * BM;
    const int rest = mx_quotient(across, g.by_n_tiles), n0 = (across - rest * g.n_tiles) * BN;
    const int split = mx_quotient(rest, g.by_groups), group = rest - split * g.groups;
    const int begin = split * g.split_length, end = min(g.k, begin + g.split_length);

#if SPLIT_K
    const int tiles = g.m_tiles * g.n_tiles * g.groups, tile = get_group_id(0) - split * tiles;
    __global ulong *counters = (__global ulong *)(workspace + workspace_offset);
    if (item == THREADS - 1)
        mx_join(counters + tile, ticket);
#endif
    A += a_offset + (long)group * g.a_g;
    B += b_offset + (long)group * g.x_g;
    const bool a_together = ((ulong)A & (A_READ == RUNS ? 15 : A_READ == IN_LOCAL ? A_CHUNK * SIZE - 1 : 3)) == 0;
    const bool b_together = ((ulong)B & (B_READ == RUNS ? 15 : B_READ == IN_LOCAL ? B_CHUNK * SIZE - 1 : 3)) == 0;

    int first_row = -1, first_c = 0, a_shift = 0;
#if B_READ == IN_LOCAL
    const int first_pixel = WEIGHTS ? begin : n0, last_pixel = WEIGHTS ? end - 1 : min(n0 + BN, g.n) - 1;
    const int first_n = mx_quotient(first_pixel, g.by_image), last_n = mx_quotient(last_pixel, g.by_image);
    first_row = first_n * g.image_rows + mx_quotient(first_pixel - first_n * (g.p * g.q), g.by_row) * g.step_h;
    const int rows = last_n * g.image_rows + mx_quotient(last_pixel - last_n * (g.p * g.q), g.by_row) * g.step_h
                     + g.tall - first_row;
    int channels = 1;
    if (!CHANNELS_LAST) {
        first_c = mx_quotient(WEIGHTS ? n0 : begin, g.by_inner);
        channels = mx_quotient((WEIGHTS ? min(n0 + BN, g.n) : end) - 1, g.by_inner) - first_c + 1;
    }
    /* A work-item copies the same place of several channels, `b_copied` from one to the next: divisions are slow. */
    const int b_places = g.local_rows * g.chunks, b_channel = mx_quotient(item, g.by_places);
#pragma unroll 1
    for (int i = item - b_channel * b_places; i < b_places && b_channel < g.b_copied; i += THREADS) {
        const int row = mx_quotient(i, g.by_chunks), e = (i - row * g.chunks) * B_CHUNK;
        const int n = mx_quotient(first_row + row, g.by_image_rows);
        const int h = first_row + row - n * g.image_rows + g.first_h;
        const bool inside = (uint)h < (uint)g.h && (uint)(e + g.line_first) < (uint)g.line;
        __global const STORAGE(X_TYPE) *from = B + n * g.x_n + (first_c + b_channel) * g.x_c + h * g.x_h
                                               + g.line_first + e;
        __local STORAGE(X_TYPE) *to = local_b + b_channel * g.local_c + row * g.local_h + e;
        if (row >= rows)
            continue;
        if (b_together) {
            COPY_CHANNELS(b_channel, channels, g.b_copied, B_CHUNK * SIZE, inside, g.local_c, g.x_c);
        } else
#pragma unroll 1
            for (int c = b_channel; c < channels; c += g.b_copied) {
                for (int o = 0; o < B_CHUNK; o++)
                    to[o] = inside ? from[o] : 0;
                to += g.b_copied * g.local_c, from += g.b_copied * g.x_c;
            }
    }
#if A_READ == IN_LOCAL
    /* A piece for each channel, or all rows or all channels in one. */
    const bool one = g.piece <= 0;
    const int a_start = g.piece < 0 ? m0 * g.a_m : first_c * g.a_k;
    const int a_first = one ? a_start & -A_CHUNK : a_start + m0 * g.a_m;
    const int a_behind = g.piece < 0 ? min(m0 + BM, g.outs) * g.a_m : (first_c + channels) * g.a_k;
    const int a_count = one ? a_behind - a_first : min(g.piece, (g.outs - m0) * g.a_m);
    a_shift = g.piece < 0 ? first_c * g.a_k - a_first : g.piece == 0 ? a_start - a_first : -m0 * g.a_m;
    const int a_places = one ? (a_count + A_CHUNK - 1) / A_CHUNK : g.piece / A_CHUNK;
    const int a_channel = one ? 0 : mx_quotient(item, g.by_piece), a_channels = one ? 1 : channels;
#pragma unroll 1
    for (int i = item - a_channel * a_places; i < a_places && a_channel < g.a_copied; i += THREADS) {
        __global const STORAGE(X_TYPE) *from = A + a_first + a_channel * g.a_k + i * A_CHUNK;
        __local STORAGE(X_TYPE) *to = local_a + a_channel * g.local_a_k + i * A_CHUNK;
        if (i * A_CHUNK >= a_count)
            continue;
        if (a_together) {
            COPY_CHANNELS(a_channel, a_channels, g.a_copied, A_CHUNK * SIZE, true, g.local_a_k, g.a_k);
        } else
#pragma unroll 1
            for (int c = a_channel; c < a_channels; c += g.a_copied) {
                for (int o = 0; o < A_CHUNK; o++)
                    to[o] = from[o];
                to += g.a_copied * g.local_a_k, from += g.a_copied * g.a_k;
            }
    }
#endif
#endif

/* Lanes beside each other read neighbours in k, where a lane reads none itself. */
#define PACK (WIDE ? 1 : 2)
#define WITHIN(i) ((i) / PACK % (ENTRIES / PACK) * 4 + (i) / ENTRIES % 4)
#define K_OF(i) \
    (UNIT > 1 || A_READ == RUNS ? (i) * UNIT : ((i) & -(4 * ENTRIES)) + WITHIN(i) * PACK + (i) % PACK)
/* What k from `chunk` on add to the places.  Behind the end a is read somewhere, and b taken as zero. */
#define FILL_TABLE(chunk)                                                                   \
    do {                                                                                    \
        const int steps_ = (min(end - (chunk), TABLE_ENTRIES * UNIT) + STEP_K - 1) / STEP_K;         \
        _Pragma("unroll 1") for (int i = item; i < steps_ * 4 * ENTRIES; i += THREADS) {    \
            const int k = (chunk) + K_OF(i);                                                \
            mx_nv_entry e;                                                                  \
            e.a = e.b = 0, e.bits = NOWHERE;                                                \
            if (k < end)                                                                    \
                e = mx_entry_k(k, first_row, first_c, g);                                   \
            in_a[i] = e.a, in_b[i] = e.b, in_bits[i] = e.bits;                              \
        }                                                                                   \
    } while (0)
    /* What each row and column adds. */
    for (int i = item; i < BM + BN; i += THREADS)
        if (i < BM) {
            const mx_nv_entry e = mx_entry_m(m0 + i, g);
            row_a[i] = e.a + a_shift, row_bits[i] = e.bits, row_out[i] = e.out, row_room[i] = e.room;
        } else {
            const mx_nv_entry e = mx_entry_n(n0 + i - BM, first_row, first_c, g);
            column_b[i - BM] = e.b, column_bits[i - BM] = e.bits, column_out[i - BM] = e.out;
            column_room[i - BM] = e.room;
        }
    FILL_TABLE(begin);
    if (B_READ == IN_LOCAL)
        WAIT_FOR_COPIES();
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Rows r and r + 8 of each block of m, column r of each block of n; of pairs 2 r and 2 r + 1 of two of them. */
#if A_READ == IN_LOCAL
#define A_BASE local_a
    __local const STORAGE(X_TYPE) *a_from[MB][2];
#else
#define A_BASE A
    __global const STORAGE(X_TYPE) *a_from[MB][2];
#endif
#if B_READ == IN_LOCAL
#define B_BASE local_b
    __local const STORAGE(X_TYPE) *b_from[NB];
#else
#define B_BASE B
    __global const STORAGE(X_TYPE) *b_from[NB];
#endif
    uint a_bits[MB][2], b_bits[NB];
#pragma unroll
    for (int i = 0; i < 2 * MB; i++) {
        int row = m_warp + i / 2 * 16 + (A_READ == PAIRS ? 2 * r + i % 2 : r + i % 2 * 8);
        if (A_READ == PAIRS) /* both of a pair are there */
            row = min(row, max(g.m - m0 - 2, 0));
        a_from[i / 2][i % 2] = A_BASE + row_a[row], a_bits[i / 2][i % 2] = MASKED ? row_bits[row] : 0;
    }
#pragma unroll
    for (int j = 0; j < NB; j++) {
        int column = n_warp + (B_READ == PAIRS ? j / 2 * 16 + 2 * r + j % 2 : j * 8 + r);
        if (B_READ == PAIRS)
            column = min(column, max(g.n - n0 - 2, 0) + j % 2);
        b_from[j] = B_BASE + column_b[column];
        b_bits[j] = INSIDE ? 0 : B_READ == IN_LOCAL ? N_SIDE : column_bits[column];
    }

#define A_MASKS(l) (MASKED ? a_bits[i][half_] & bits[UNIT == 1 ? (l) : 0] : 0)
#define B_MASKS(l) (INSIDE ? 0 : b_bits[j] & bits[UNIT == 1 ? (l) : 0])
/* Element by element, from where it lies. */
#if A_READ == IN_LOCAL
#define LOAD_A(a, l) LOAD_NEAR(a[i][half_][l], a_from[i][half_], ka, l, A_MASKS)
#else
#define LOAD_A(a, l) LOAD_SINGLE(a[i][half_][l], a_from[i][half_], ka, A_READ == RUNS ? 1 : g.a_k, l, A_MASKS)
#endif
#if B_READ == IN_LOCAL
#define LOAD_B(b, l) LOAD_NEAR(b[j][l], b_from[j], kb, l, B_MASKS)
#else
#define LOAD_B(b, l) LOAD_SINGLE(b[j][l], b_from[j], kb, 1, l, B_MASKS)
#endif
#if A_READ == PAIRS
#define READ_A_BLOCK(a, i)                                                                                      \
    const int half_ = 0;                                                                                        \
    _Pragma("unroll") for (int l = 0; l < 4; l++)                                                               \
        LOAD_PAIR(a[i][0][l], a[i][1][l], a_from[i][0], ka, g.a_k, l, A_MASKS, a_together)
#elif A_READ == RUNS
#define READ_A_BLOCK(a, i)                                                                                      \
    _Pragma("unroll") for (int half_ = 0; half_ < 2; half_++) {                                                 \
        if (a_together)                                                                                         \
            LOAD_RUN(a[i][half_], a_from[i][half_] + ka[0], A_MASKS(0));                                        \
        else                                                                                                    \
            _Pragma("unroll") for (int l = 0; l < 4; l++) LOAD_A(a, l);                                            \
    }
#else
#define READ_A_BLOCK(a, i)                                                                                      \
    _Pragma("unroll") for (int half_ = 0; half_ < 2; half_++) _Pragma("unroll") for (int l = 0; l < 4; l++)     \
        LOAD_A(a, l)
#endif
#if B_READ == PAIRS
#define READ_B_BLOCK(b, j)                                                                                      \
    if (j % 2 == 0)                                                                                             \
        _Pragma("unroll") for (int l = 0; l < 4; l++)                                                           \
            LOAD_PAIR(b[j][l], b[(j + 1) % NB][l], b_from[j], kb, 0, l, B_MASKS, b_together)
#elif B_READ == RUNS
#define READ_B_BLOCK(b, j)                                                                                      \
    if (b_together)                                                                                             \
        LOAD_RUN(b[j], b_from[j] + kb[0], B_MASKS(0));                                                          \
    else                                                                                                        \
        _Pragma("unroll") for (int l = 0; l < 4; l++) LOAD_B(b, l)
#else
#define READ_B_BLOCK(b, j) _Pragma("unroll") for (int l = 0; l < 4; l++) LOAD_B(b, l)
#endif
#define READ_STEP(a, b, number)                                                                                 \
    do {                                                                                                        \
        const int at_ = ((number) * 4 + t) * ENTRIES;                                                           \
        int ka[ENTRIES], kb[ENTRIES];                  \
        uint bits[ENTRIES];                                                                                     \
        _Pragma("unroll") for (int l = 0; l < ENTRIES; l++)                                                     \
            ka[l] = in_a[at_ + l], kb[l] = in_b[at_ + l], bits[l] = in_bits[at_ + l];                           \
        _Pragma("unroll") for (int i = 0; i < MB; i++) {                                                        \
            READ_A_BLOCK(a, i);                                                                                 \
        }                                                                                                       \
        _Pragma("unroll") for (int j = 0; j < NB; j++) {                                                        \
            READ_B_BLOCK(b, j);                                                                                 \
        }                                                                                                       \
    } while (0)

    float sums[MB][NB][4];
    uint a[PREFETCH][MB][2][4], b[PREFETCH][NB][4];
#pragma unroll
    for (int i = 0; i < MB * NB * 4; i++)
        sums[i / NB / 4][i / 4 % NB][i % 4] = 0;

#pragma unroll 1
    for (int chunk = begin; chunk < end; chunk += TABLE_ENTRIES * UNIT) {
        const int steps = (min(end - chunk, TABLE_ENTRIES * UNIT) + STEP_K - 1) / STEP_K;
        if (chunk != begin) {
            barrier(CLK_LOCAL_MEM_FENCE);
            FILL_TABLE(chunk);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        /* The first turns only read. */
#pragma unroll 1
        for (int turn = share - PREFETCH * WARPS_K; turn < steps; turn += PREFETCH * WARPS_K)
#pragma unroll
        for (int slot = 0; slot < PREFETCH; slot++) {
            const int step = turn + slot * WARPS_K;
            if (PREFETCH > 1 && step >= steps)
                break;
#if MX_TYPE(X_TYPE) == MX_TYPE_float
            uint a_hi[MB][2][4], a_lo[MB][2][4], b_hi[NB][4], b_lo[NB][4];
            if (step >= 0) {
#pragma unroll
                for (int i = 0; i < MB * 8; i++)
                    MX_TF32_PAIR(a[slot][i / 8][i / 4 % 2][i % 4], a_hi[i / 8][i / 4 % 2][i % 4],
                          a_lo[i / 8][i / 4 % 2][i % 4]);
#pragma unroll
                for (int j = 0; j < NB * 4; j++)
                    MX_TF32_PAIR(b[slot][j / 4][j % 4], b_hi[j / 4][j % 4], b_lo[j / 4][j % 4]);
            }
            if (step + PREFETCH * WARPS_K < steps)
                READ_STEP(a[slot], b[slot], step + PREFETCH * WARPS_K);
            if (step >= 0)
#pragma unroll
                for (int i = 0; i < MB; i++) {
                    float fresh[NB][4];
#define PRODUCTS(HOW, x, y, s)                                                                                      \
    _Pragma("unroll") for (int j = 0; j < NB; j++)                                                                  \
        HOW(fresh[j], x[i][0][s], x[i][1][s], x[i][0][s + 1], x[i][1][s + 1], y[j][s], y[j][s + 1])
                    PRODUCTS(MX_PRODUCT, a_lo, b_hi, 0);
                    PRODUCTS(MX_ADD_PRODUCT, a_hi, b_lo, 0);
                    PRODUCTS(MX_ADD_PRODUCT, a_lo, b_hi, 2);
                    PRODUCTS(MX_ADD_PRODUCT, a_hi, b_lo, 2);
                    PRODUCTS(MX_ADD_PRODUCT, a_hi, b_hi, 0);
                    PRODUCTS(MX_ADD_PRODUCT, a_hi, b_hi, 2);
#pragma unroll
                    for (int l = 0; l < NB * 4; l++)
                        sums[i][l / 4][l % 4] += fresh[l / 4][l % 4];
                }
#else
            uint a_now[MB][2][4], b_now[NB][4];
#pragma unroll
            for (int i = 0; i < MB * 8; i++)
                a_now[i / 8][i / 4 % 2][i % 4] = a[slot][i / 8][i / 4 % 2][i % 4];
#pragma unroll
            for (int j = 0; j < NB * 4; j++)
                b_now[j / 4][j % 4] = b[slot][j / 4][j % 4];
            if (step + PREFETCH * WARPS_K < steps)
                READ_STEP(a[slot], b[slot], step + PREFETCH * WARPS_K);
            if (step >= 0)
#pragma unroll
                for (int i = 0; i < MB * NB * 2; i++)
                    MX_ADD_PRODUCT(sums[i % MB][i / MB % NB], a_now[i % MB][0][i / MB / NB * 2],
                                   a_now[i % MB][1][i / MB / NB * 2], a_now[i % MB][0][i / MB / NB * 2 + 1],
                                   a_now[i % MB][1][i / MB / NB * 2 + 1], b_now[i / MB % NB][i / MB / NB * 2],
                                   b_now[i / MB % NB][i / MB / NB * 2 + 1]);
#endif
        }
    }

    if (B_READ == IN_LOCAL)
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < MB; i++)
#pragma unroll
        for (int j = 0; j < NB; j++)
#pragma unroll
            for (int l = 0; l < 4; l++) {
                const int m = m_warp + i * 16 + (A_READ == PAIRS ? 2 * r + l / 2 : r + l / 2 * 8);
                const int column = 2 * t + l % 2;
                const int n = n_warp + (B_READ == PAIRS ? j / 2 * 16 + 2 * column + j % 2 : j * 8 + column);
                shares[share * (LINES * PITCH) + (M_CONTIGUOUS ? n * PITCH + m : m * PITCH + n)] = sums[i][j][l];
            }
    barrier(CLK_LOCAL_MEM_FENCE);

    OUT += out_offset + (long)group * g.out_g;
    uint again = 0; /* in which of its turns the work-item met a sum that is not finite */
#define IS_FINITE(sum) (fabs((sum).x) + fabs((sum).y) + fabs((sum).z) + fabs((sum).w) < INFINITY)
/* What is to be done anew with each result (row, column) of these turns, number 4 i + l of the tile. */
#define EXACTLY(...)                                                                                            \
    _Pragma("unroll 1") for (int i = item; again != 0; i += THREADS, again >>= 1)                               \
        if (again & 1)                                                                                          \
            _Pragma("unroll 1") for (int l = 0; l < 4; l++) {                                                   \
                const int line = i / (RUN / 4), first = i % (RUN / 4) * 4 + l;                                  \
                const int row = M_CONTIGUOUS ? first : line, column = M_CONTIGUOUS ? line : first;                    \
                if (m0 + row < g.m && n0 + column < g.n && MEETS(row, column))                                  \
                    __VA_ARGS__;                                                                                \
            }
/* The channel of y that number m of the product belongs to. */
#define FILTER_OF(m) ((long)group * g.outs + ((m) - (MASKED ? mx_quotient(m, g.by_outs) * g.outs : 0)))
/* Whether a place in a block is inside out. */
#define MEETS(row, column) (!MASKED || ((row_room[row] >> 16) < (column_room[column] >> 16)           \
                                        && (row_room[row] & 0xffff) < (column_room[column] & 0xffff)))
#if SPLIT_K
    __global float *part = workspace + workspace_offset + ((tiles + 1) & ~1) * 2 + (long)tile * g.splits * (BM * BN);
    __local int done;
#pragma unroll 1
    for (int i = item, turn = 0; i < BM * BN / 4; i += THREADS, turn++) {
        __local const float *from = shares + i / (RUN / 4) * PITCH + i % (RUN / 4) * 4;
        float4 sum = *(__local const float4 *)from;
#pragma unroll
        for (int o = 1; o < WARPS_K; o++)
            sum += *(__local const float4 *)(from + o * (LINES * PITCH));
        *(__global float4 *)(part + split * (BM * BN) + i * 4) = sum;
        again |= (uint)!IS_FINITE(sum) << turn;
    }
    EXACTLY(part[split * (BM * BN) + i * 4 + l] = mx_exactly(A, B, g, m0 + row, n0 + column, begin, end));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (item == 0) {
        FENCE(); /* of all that the group wrote before the barrier */
        ulong before;
        COUNT_UP(before, counters + tile);
        done = (before & 0xffff) + 1;
        FENCE();
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (done != g.splits)
        return;
#endif
#pragma unroll 2
    for (int turn = 0; turn < (BM * BN / 4 + THREADS - 1) / THREADS; turn++) {
        const int i = item + turn * THREADS, line = i / (RUN / 4), first = i % (RUN / 4) * 4;
        const int row = M_CONTIGUOUS ? first : line, column = M_CONTIGUOUS ? line : first;
        const int m = m0 + row, n = n0 + column;
        if (i >= BM * BN / 4 || m >= g.m || n >= g.n)
            continue;
        float4 sum;
#if SPLIT_K
        LOAD_PART(sum, part + i * 4);
#pragma unroll 1
        for (int o = 1; o < g.splits; o += 4) { /* four loads under way */
            float4 more[4];
#pragma unroll
            for (int l = 0; l < 4; l++)
                LOAD_PART(more[l], part + min(o + l, g.splits - 1) * (BM * BN) + i * 4);
#pragma unroll
            for (int l = 0; l < 4; l++)
                if (o + l < g.splits)
                    sum += more[l];
        }
#else
        sum = *(__local const float4 *)(shares + line * PITCH + first);
#pragma unroll
        for (int o = 1; o < WARPS_K; o++)
            sum += *(__local const float4 *)(shares + o * (LINES * PITCH) + line * PITCH + first);
#endif
        float v[4] = {sum.x, sum.y, sum.z, sum.w};
        const int count = min(4, M_CONTIGUOUS ? g.m - m : g.n - n);
#if !SPLIT_K
        if (!IS_FINITE(sum)) {
            again |= 1u << turn;
            continue;
        }
#endif
        const int place = row_out[row] + column_out[column];
#if VEC == 4
        __global STORAGE(X_TYPE) *to = OUT + place;
        if (!MEETS(row, column)) /* all four or none: they are channels where there are blocks */
            continue;
        if (((ulong)to & (4 * sizeof(*to) - 1)) == 0) {
#pragma unroll
            for (int l = 0; l < 4; l++) {
                OF_FILTER(FILTER_OF(M_CONTIGUOUS ? m + l : m))
                v[l] = SCALED_RESULT(v[l]);
                if (beta != 0)
                    v[l] += beta * LOAD(X_TYPE)(OLD_RESULT(X_TYPE, to), l);
                v[l] = FINAL_RESULT(v[l]);
            }
#if MX_TYPE(X_TYPE) == MX_TYPE_float
            *(__global float4 *)to = (float4)(v[0], v[1], v[2], v[3]);
#else
            uint2 four;
            MX_ROUND_PAIR(four.x, v[0], v[1]);
            MX_ROUND_PAIR(four.y, v[2], v[3]);
            *(__global uint2 *)to = four;
#endif
            continue;
        }
#endif
#pragma unroll
        for (int l = 0; l < 4; l++) {
            const int row_l = M_CONTIGUOUS ? row + l : row, column_l = M_CONTIGUOUS ? column : column + l;
            if (l >= count || !MEETS(row_l, column_l))
                continue;
            OF_FILTER(FILTER_OF(m0 + row_l))
            STORE_ONE(X_TYPE, OUT, row_out[row_l] + column_out[column_l], v[l]);
        }
    }
#if !SPLIT_K
    EXACTLY({
        const float sum = mx_exactly(A, B, g, m0 + row, n0 + column, 0, g.k);
        OF_FILTER(FILTER_OF(m0 + row))
        STORE_ONE(X_TYPE, OUT, row_out[row] + column_out[column], sum);
    })
#endif
}
