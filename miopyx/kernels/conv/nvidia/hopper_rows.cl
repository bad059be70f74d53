/* Implicit GEMM by wgmma where one copy of x in local memory serves many taps: up to 64 filters, and 16, 32 or 64
 * channels or, with CHUNKS, up to four.  Half or bfloat16, sums in float: y = alpha * x w + beta * y.  Needs SM_90A.
 *
 *   positions: pixels of padded images, rows of `pitch`, halos shared; tap (i, j) of position m is at m + constant
 *
 *   | work-group 0: tiles 0 .. group_tiles - 1 | work-group 1 ...    a tile is BP positions x all filters
 *   |-- 64 positions a block -->                                     BP / 64 consumers: 64 positions each, all taps
 *   ring: | block | block | block | ... | mirror of the first |      1 producer: copies each block of x once
 *
 * With UNIT, volumes: a tile's taps meet units of x, of UNIT blocks each, BP positions of a plane and their halo, one for
 * each tap along the depth.  Tiles are numbered along the depth first.
 *
 *   ring: | unit | unit | unit | unit |      KEPT 0: a tile's units one after the other, each for its own taps
 *          o - 1    o     o + 1  o + 2       KEPT 1: the next tile has all of them but the first, and a new one
 *
 * WIDE 0: rows of the product are positions, 64 of them a consumer, columns filters.  WIDE 128 or 256: rows are 64
 * filters, columns so many positions of a consumer, BP / WIDE consumers.
 *
 * Grid: one axis, local THREADS, global THREADS * ceil(tiles / group_tiles).
 * Without CHUNKS a position is a row of CHANNELS, of which `reduced` are copied, and the chunks of 16 bytes that share
 * 128 bytes, or 1024 of 64 channels, are swizzled as wgmma wants it (MX_SWIZZLED).  With CHUNKS x is a packed copy
 * (pack_narrow): PLANES for the rows that a vertical stride takes in turn, a position is one chunk of two pixels by four
 * channels, and CHUNKS of them, `tap_w` positions from one to the next, are the taps of a row.
 * X_IN_REGISTERS: consumers bring rows of x into registers, since as matrices of local memory those that begin at no
 * multiple of eight take longer.
 * Local memory: a ring of BLOCKS of x, or STAGES units, and all of w or, with W_STAGES, a ring of so many taps of it,
 * which come anew for each tile.  Two mbarriers a block, unit or tap, full and empty.
 * Bound by: reading x once from memory, and storing y; with many taps by local memory, of which a product of 64 x 64
 * reads 4 KB in 32 clocks, of 64 x 32 3 KB in 16, of 64 x 256 10 KB in 128.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef BF /* 32 or 64 */
#define BF 64
#endif
#ifndef CHUNKS /* even; 0: rows of CHANNELS */
#define CHUNKS 0
#endif
#ifndef CHANNELS /* 16, 32 or 64 */
#define CHANNELS 64
#endif
#ifndef BP /* multiples of 64, and of WIDE */
#define BP 256
#endif
#ifndef WIDE /* with 64 filters, without CHUNKS and SCALED */
#define WIDE 0
#endif
#ifndef W_STAGES /* with WIDE and 64 channels */
#define W_STAGES 0
#endif
#ifndef UNIT /* blocks of a unit */
#define UNIT 0
#endif
#ifndef KEPT
#define KEPT 0
#endif
#ifndef X_IN_REGISTERS /* not with CHUNKS; 64 channels would need more registers than 640 work-items have */
#define X_IN_REGISTERS (UNIT && CHANNELS < 64 && !WIDE)
#endif
#ifndef STAGES /* units of the ring; with KEPT more than a tile has */
#define STAGES 2
#endif
#ifndef PLANES /* 1 or 2 */
#define PLANES 1
#endif
#ifndef BLOCKS /* of the ring */
#define BLOCKS 14
#endif
#ifndef DEPTHS /* of w: 64 numbers of the reduced axis */
#define DEPTHS 9
#endif
#ifndef W_TRANSPOSED /* 1: w_k leads from one channel to the next, filters are contiguous; with BF 32 turned here */
#define W_TRANSPOSED 0
#endif
#ifndef VEC /* 1 with WIDE */
#define VEC 1
#endif
#ifndef FILTERS_AT_ONCE /* with WIDE: 1, 2, 4 or 8 filters of y are stored at once */
#define FILTERS_AT_ONCE 1
#endif
#ifndef SCALED /* as in conv/nvidia/hopper.cl */
#define SCALED 0
#endif
#ifndef LOCAL_EPILOGUE /* 1: y has contiguous pixels, not its channels */
#define LOCAL_EPILOGUE 0
#endif
#include "include/common.h"
#define V_LANES 1
#include "include/epilogue.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/hopper_args.h"
#include "conv/nvidia/wgmma.h"

#define CONSUMERS (WIDE ? BP / WIDE : BP / 64)
#define OWN_POSITIONS (BP / CONSUMERS)
#define THREADS (128 * CONSUMERS + 128)
#if WIDE
#define WGMMA MX_JOIN(MX_WGMMA_, WIDE)
#else
#define WGMMA MX_JOIN(MX_WGMMA_, BF)
#endif
#if CHUNKS
#define POSITION_BYTES 16
#define MIRRORED 2 /* blocks that are repeated behind the ring: a product's rows may begin in its last block */
#else
#define POSITION_BYTES (2 * CHANNELS)
#define MIRRORED (OWN_POSITIONS / 64)
#define POSITION_CHUNKS (CHANNELS / 8)
#define MX_SWIZZLED(chunk, row) ((chunk) ^ ((row) * POSITION_BYTES >> 7 & POSITION_CHUNKS - 1)) /* of aligned rows */
#define ROWS_AT_ONCE (128 / POSITION_CHUNKS)
#define TAPS (DEPTHS * 64 / CHANNELS)
#endif
#define BLOCK_BYTES (64 * POSITION_BYTES)
#define W_BYTES (BF * ROW_BYTES)
#if UNIT
#define UNIT_BYTES (UNIT * BLOCK_BYTES)
#define RING_BYTES (STAGES * UNIT_BYTES)
#define SLOTS STAGES
#else
#define PLANE_BYTES ((BLOCKS + MIRRORED) * BLOCK_BYTES)
#define RING_BYTES (PLANES * PLANE_BYTES)
#define SLOTS BLOCKS
#endif
#define W_TURNED (W_TRANSPOSED && BF == 32)
#define W_IN_PLACE (W_TRANSPOSED && BF == 64) /* rows are channels */
#if W_IN_PLACE
#define TRANS_W "1"
#define W_STEP (16 * ROW_BYTES) /* bytes to the next 16 numbers of the reduced axis */
#else
#define TRANS_W "0"
#define W_STEP 32
#endif
#define W_SLICES (W_STAGES ? W_STAGES : DEPTHS) /* in local memory */

static inline int mx_pixel_in_y(int m, const mx_nv_rows *g)
{
    const int n = mx_quotient(m, g->conv.by_image), rest = m - n * (g->rows * g->pitch);
    const int p = mx_quotient(rest, g->conv.by_row), q = rest - p * g->pitch;
    const bool inside = n < g->images && p < g->conv.p && q < g->conv.q;
    return inside ? n * g->conv.y_n + p * g->conv.y_h + q * g->conv.y_w : -1;
}

static inline int mx_image_of(int m, const mx_nv_rows *g)
{
    return mx_quotient(m, g->conv.by_image);
}

static inline int mx_filter_in_y(int k, const mx_nv_rows *g)
{
    return k < g->conv.filters ? k * g->conv.y_c : -1;
}

#if WIDE
#define CHANNELS_LAST 0 /* rows of the product are no pixels */
#define WN WIDE
#else
#define CHANNELS_LAST 1
#define WN BF
#endif
#define WG_ROWS 1
#define MX_PROBLEM mx_nv_rows
#define MX_CONV(problem) (&(problem)->conv)
#define PERMUTE_FILTERS (!WIDE && !W_IN_PLACE && !LOCAL_EPILOGUE)
#define COLUMNS_IN_LOCAL 1
#define COLUMNS_AS_FLOATS 0
#include "conv/nvidia/hopper_store.h"
#if LOCAL_EPILOGUE
#include "conv/nvidia/hopper_runs.h"
#define ALL_RUN_BYTES ((WIDE ? 4 : 1) * CONSUMERS * RUN_BYTES)
#elif WIDE
#include "conv/nvidia/hopper_turned.h"
#endif

#if !CHUNKS
/* A tap: where it is in w; in x its unit from bit 16 on, LAST_OF_UNIT, and below positions behind its unit's first. */
typedef struct {
    int w, x;
} mx_tap;
#define LAST_OF_UNIT (1 << 30)
#define MX_UNIT_OF(x) ((x) >> 16 & 0x3fff)
#define MX_PLACE_OF(x) ((x)&0xffff)

static inline mx_tap mx_tap_of(int number, const mx_nv_rows *g)
{
    const int taps_h = g->conv.taps_h, taps_w = g->conv.taps_w, row = number / taps_w, tap_w = number - row * taps_w;
    const int tap_d = row / taps_h, tap_h = row - tap_d * taps_h;
    const int h = g->conv.first_h + tap_h * g->conv.tap_h, w = g->conv.first_w + tap_w * g->conv.tap_w;
    const bool last = tap_h == taps_h - 1 && tap_w == taps_w - 1;
    const mx_tap tap = {tap_d * g->w_d + tap_h * g->conv.w_h + tap_w * g->conv.w_w,
                        tap_d << 16 | (last ? LAST_OF_UNIT : 0) | (h * g->pitch + w - g->low)};
    return tap;
}

#define COPIES (POSITION_CHUNKS / 2) /* of a work-item in a block */

/* Where the positions of a block are in a plane of x, -1 for pads; `position` counts from one more image, so that those
 * before the first are not negative. */
static inline void mx_find_block(int *from, int position, const mx_nv_rows *g)
{
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const int at = position + i * ROWS_AT_ONCE, n = mx_quotient(at, g->conv.by_image);
        const int rest = at - n * (g->rows * g->pitch), h = mx_quotient(rest, g->conv.by_row);
        const int w = rest - h * g->pitch;
        const bool valid = n >= 1 && n <= g->images && h < g->conv.h && w < g->conv.w;
        from[i] = valid ? (n - 1) * g->conv.x_n + h * g->conv.x_h + w * g->conv.x_w : -1;
    }
}

static inline void mx_copy_block(uint to, __global const ushort *x, const int *from, bool inside, bool aligned)
{
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const bool valid = inside && from[i] >= 0;
        if (aligned)
            MX_COPY16(to + i * ROWS_AT_ONCE * POSITION_BYTES, x + (valid ? from[i] : 0), valid);
        else
            mx_copy_halves(to + i * ROWS_AT_ONCE * POSITION_BYTES, x + (valid ? from[i] : 0), valid);
    }
}
#endif

#if W_STAGES
/* What a work-item copies of a tap of w: a chunk of rows 16 apart, from the first of which `rows` are left. */
typedef struct {
    __global const ushort *from;
    uint to, full;
    int rows, slot, parity;
} mx_w_copies;

static inline mx_w_copies mx_begin_w(__global const ushort *w, uint shared, uint full, int item, const mx_nv_rows *g)
{
    const int chunk = item & 7, row = item >> 3;
    const int rows = W_TRANSPOSED ? g->conv.reduced : g->conv.filters;
    const int left = chunk * 8 < (W_TRANSPOSED ? g->conv.filters : g->conv.reduced) ? max(rows - row, 0) : 0;
    const mx_w_copies own = {w + (left > 0 ? row * g->conv.w_k + chunk * 8 : 0),
                             shared + row * ROW_BYTES + ((chunk ^ (row & 7)) << 4), full, left, 0, 1};
    return own;
}

static inline void mx_copy_taps(mx_w_copies *own, __local const mx_tap *taps, int tap, int end, bool aligned,
                                const mx_nv_rows *g)
{
#pragma unroll 1
    for (; tap < end; tap++) {
        __global const ushort *from = own->from + taps[tap].w;
        const uint to = own->to + own->slot * W_BYTES, full = own->full + 8 * own->slot;
        mx_barrier_wait(full + 8 * W_STAGES, own->parity);
#pragma unroll
        for (int i = 0; i < 64; i += 16) {
            const bool valid = i < own->rows;
            if (aligned)
                MX_COPY16(to + i * ROW_BYTES, from + (valid ? i * g->conv.w_k : 0), valid);
            else
                mx_copy_halves(to + i * ROW_BYTES, from + (valid ? i * g->conv.w_k : 0), valid);
        }
        if (aligned)
            mx_barrier_arrive_copied(full);
        else
            mx_barrier_arrive(full);
        if (++own->slot == W_STAGES)
            own->slot = 0, own->parity ^= 1;
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_hopper_rows(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict W, long w_offset,
    __global MX_STORED *restrict Y, long y_offset, const mx_nv_rows g, const float alpha, const float beta
#if SCALED
    , __global const float *restrict roots, long roots_offset, const int filter_roots_at
#endif
    EPILOGUE_MORE)
{
    EPILOGUE_BEGIN(Y, y_offset);
    __local uint4 ring[RING_BYTES / 16] __attribute__((aligned(1024)));
    __local uint4 filters[W_SLICES * W_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * SLOTS + 2 * W_STAGES]; /* full, empty; likewise of w */
#if !CHUNKS
    __local mx_tap taps[TAPS];
#endif
#if LOCAL_EPILOGUE
    __local uint4 runs[ALL_RUN_BYTES / 16] __attribute__((aligned(1024)));
#endif
#if SCALE_COLUMNS && HAS_COLUMNS
    __local uint4 columns[COLUMN_BYTES * WN / 16];
    const uint columns_at = mx_shared(columns);
#endif
    const int item = get_local_id(0), lane = item & 31, role = item >> 7;
    const int first = get_group_id(0) * g.group_tiles, count = min(g.group_tiles, g.tiles - first);
    const uint shared = mx_shared(ring), w_shared = mx_shared(filters);
    const uint full = mx_shared(barriers), empty = full + 8 * SLOTS;
#if W_STAGES
    const uint w_full = empty + 8 * SLOTS, w_empty = w_full + 8 * W_STAGES;
#endif
#if CHUNKS
    const int taps_all = g.conv.taps_h;
#else
    const int taps_all = g.taps_d * g.conv.taps_h * g.conv.taps_w;
#endif
#if !UNIT
    const int blocks = (count * BP + g.span + 63) / 64;
#endif

    X += x_offset;
    W += w_offset + g.conv.w_first;
    Y += y_offset + g.conv.y_first;
#if SCALED
    roots += roots_offset;
#define MX_ROOTS , roots, roots + filter_roots_at
#else
#define MX_ROOTS
#endif
    const bool x_aligned = ((ulong)X & 15) == 0, w_aligned = ((ulong)W & 15) == 0;
    if (item == 0) {
        mx_ring_begin(full, SLOTS, 128, 4 * CONSUMERS);
#if W_STAGES
        mx_ring_begin(w_full, W_STAGES, 128, 4 * CONSUMERS);
#endif
    }
#if SCALE_COLUMNS && HAS_COLUMNS
    mx_put_columns(columns_at, 0, 0, WN, g.conv.filters, item, THREADS, EPILOGUE_ARGS);
#endif
#if !CHUNKS
    if (item < taps_all)
        taps[item] = mx_tap_of(item, &g);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if !W_STAGES
    for (int i = item; i < DEPTHS * W_BYTES / 16; i += THREADS) {
#if W_TURNED /* neighbours have neighbouring filters */
        const int row = i % BF, chunk = i / BF & 7, depth = i / (8 * BF);
#else
        const int chunk = i & 7, row = i / 8 % BF, depth = i / (8 * BF);
#endif
        const int k = depth * 64 + (W_IN_PLACE ? row : chunk * 8);
        const int filter = W_IN_PLACE ? chunk * 8 : row;
#if CHUNKS
        const int tap = k / g.conv.reduced, c = k - tap * g.conv.reduced, tap_at = tap * g.conv.w_h;
        const bool valid = tap < taps_all && filter < g.conv.filters;
#else
        const int tap = k / CHANNELS, c = k % CHANNELS, tap_at = taps[min(tap, taps_all - 1)].w;
        const bool valid = tap < taps_all && c < g.conv.reduced && filter < g.conv.filters;
#endif
        __global const ushort *from =
            W + (valid ? tap_at + (W_TRANSPOSED ? c * g.conv.w_k + filter : filter * g.conv.w_k + c) : 0);
        const int place = PERMUTE_FILTERS ? mx_permuted(row) : row;
        const uint to = w_shared + depth * W_BYTES + place * ROW_BYTES + ((chunk ^ (place & 7)) << 4);
#if W_TURNED
        for (int e = 0; e < 8; e++) {
            const ushort value = valid ? from[e * g.conv.w_k] : (ushort)0;
            asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + 2 * e), "h"(value) : "memory");
        }
#else
        if (w_aligned)
            MX_COPY16(to, from, valid);
        else
            mx_copy_halves(to, from, valid);
#endif
    }
    MX_COMMIT();
    MX_WAIT(0);
    MX_WG_PUBLISH();
    barrier(CLK_LOCAL_MEM_FENCE);
#endif

    if (role == CONSUMERS) {
#if WIDE == 256 /* more than 128 sums, of 384 work-items with 168 registers each */
        MX_WG_FEWER(56);
#endif
        int slot = 0, parity = 1;
#if CHUNKS
        const int plane = (item & 127) >> 6, row = item & 63;
        const uint to = shared + plane * PLANE_BYTES + row * POSITION_BYTES;
#else
        const int chunk = item % POSITION_CHUNKS, row = (item & 127) / POSITION_CHUNKS;
        const uint to = shared + row * POSITION_BYTES + (MX_SWIZZLED(chunk, row) << 4);
        const bool has_chunk = chunk * 8 < g.conv.reduced;
        X += has_chunk ? chunk * 8 : 0;
#endif
        const int image = g.rows * g.pitch;
#if W_STAGES
        mx_w_copies w = mx_begin_w(W, w_shared, w_full, item & 127, &g);
        /* The taps of a unit, or tile, before and behind which the next x is copied: while its room comes free these are
         * multiplied. */
        const int taps_each = UNIT ? g.conv.taps_h * g.conv.taps_w : taps_all, ahead = min(W_STAGES - 1, max(1, taps_each - 1));
#endif
#if UNIT
        int before = -1; /* the first tap of the unit before */
        for (int tile = 0; tile < count; tile++) {
            const int column = mx_quotient(first + tile, g.by_planes), o = first + tile - column * g.planes;
            for (int unit = KEPT && tile > 0 && o > 0 ? g.taps_d - 1 : 0; unit < g.taps_d; unit++) {
                const int d = o * g.step_d + g.first_d + unit * g.tap_d;
                const bool inside = has_chunk && d >= 0 && d < g.d;
#if W_STAGES
                if (before >= 0)
                    mx_copy_taps(&w, taps, before, before + ahead, w_aligned, &g);
#endif
                mx_barrier_wait(empty + 8 * slot, parity);
#pragma unroll 1
                for (int block = 0; block < UNIT; block++) {
                    int from[COPIES];
                    mx_find_block(from, column * BP + g.low + image + row + block * 64, &g);
                    mx_copy_block(to + slot * UNIT_BYTES + block * BLOCK_BYTES, X + (inside ? d * g.x_d : 0), from,
                                  inside, x_aligned);
                }
                if (x_aligned)
                    mx_barrier_arrive_copied(full + 8 * slot);
                else
                    mx_barrier_arrive(full + 8 * slot);
                if (++slot == STAGES)
                    slot = 0, parity ^= 1;
#if W_STAGES
                if (before >= 0)
                    mx_copy_taps(&w, taps, before + ahead, before + taps_each, w_aligned, &g);
                before = unit * taps_each;
#endif
            }
        }
#if W_STAGES
        mx_copy_taps(&w, taps, before, before + taps_each, w_aligned, &g);
#endif
#else
        int position = first * BP + g.low + image + row, block = 0;
#if W_STAGES
        for (int tile = 0; tile < count; tile++) {
        mx_copy_taps(&w, taps, 0, ahead, w_aligned, &g);
        const int room = min(blocks, tile * (BP / 64) + BLOCKS); /* once the tile before is done */
#else
        const int room = blocks;
#endif
        for (; block < room; block++) {
#if CHUNKS
            const int n = mx_quotient(position, g.conv.by_image), rest = position - n * image;
            const bool valid = n >= 1 && n <= g.images;
            __global const ushort *from = X + (valid ? (((n - 1) * PLANES + plane) * image + rest) * 8 : 0);
#else
            int from[COPIES];
            mx_find_block(from, position, &g);
#endif
            mx_barrier_wait(empty + 8 * slot, parity);
            for (int again = 0; again < (slot < MIRRORED ? 2 : 1); again++) {
                const uint at = to + (slot + again * BLOCKS) * BLOCK_BYTES;
#if CHUNKS
                if (plane < PLANES && x_aligned)
                    MX_COPY16(at, from, valid);
                else if (plane < PLANES)
                    mx_copy_halves(at, from, valid);
#else
                mx_copy_block(at, X, from, has_chunk, x_aligned);
#endif
            }
            if (x_aligned)
                mx_barrier_arrive_copied(full + 8 * slot);
            else
                mx_barrier_arrive(full + 8 * slot);
            position += 64;
            if (++slot == BLOCKS)
                slot = 0, parity ^= 1;
        }
#if W_STAGES
        mx_copy_taps(&w, taps, ahead, taps_all, w_aligned, &g);
        }
#endif
#endif
    } else {
#if WIDE == 256
        MX_WG_MORE(224);
#endif
#if CHUNKS
        /* Without a swizzle: 8 rows of 16 bytes, the next chunk tap_w positions on, the next 8 rows behind them. */
        const ulong x_matrix = (ulong)(shared >> 4 & 0x3fff) | (ulong)g.conv.tap_w << 16 | (ulong)(128 >> 4) << 32;
#elif X_IN_REGISTERS
        /* Lane l of a warp of 16 rows has row l % 16 and the first or the second 8 of 16 channels. */
        const int own_row = (item >> 5 & 3) * 16 + (lane & 15), own_chunk = lane >> 4;
#else
        const ulong x_matrix = mx_wg_narrow(shared, POSITION_BYTES);
#endif
        const ulong w_matrix = mx_wg_matrix(w_shared, 64 * ROW_BYTES);
        int slot = 0, parity = 0; /* what is waited for next */
#if UNIT
        int head = 0, have = 0; /* the slot of this tile's first unit, and how many it has waited for */
#else
        int ready = 0, freed = 0, at = role * OWN_POSITIONS; /* this tile's first position in the ring */
#endif
#if W_STAGES
        int w_slot = 0, w_parity = 0;
        uint w_before = 0; /* the barrier of a tap whose products are under way */
#endif
        for (int tile = 0; tile < count; tile++) {
            float sums[WG_ROWS][WN / 2];
#pragma unroll
            for (int j = 0; j < WN / 2; j++)
                sums[0][j] = 0;
#if UNIT
            const int column = mx_quotient(first + tile, g.by_planes), o = first + tile - column * g.planes;
            const bool ends = !KEPT || tile + 1 == count || o + 1 == g.planes; /* the next tile has no unit of this one */
            const int m0 = column * BP;
            __global MX_STORED *y = Y + (long)o * g.y_d;
            uint before = 0; /* the barrier of a unit whose last products are under way */
            int stage = 0;
#else
            const int m0 = (first + tile) * BP;
            __global MX_STORED *y = Y;
            const int need = (tile * BP + BP - 1 + g.span) / 64 + 1;
            for (; ready < min(need, blocks); ready++) {
                mx_barrier_wait(full + 8 * slot, parity);
                if (++slot == BLOCKS)
                    slot = 0, parity ^= 1;
            }
            MX_WG_PUBLISH();
#endif
#if CHUNKS
            for (int tap = 0; tap < taps_all; tap++) {
                const int row = tap * g.conv.tap_h, plane = row % PLANES;
                MX_WG_FENCE();
#pragma unroll
                for (int i = 0; i < CHUNKS / 2; i++) {
                    const int k = tap * (CHUNKS / 2) + i;
                    int from = at + row / PLANES * g.pitch + 2 * i * g.conv.tap_w;
                    from = from >= BLOCKS * 64 ? from - BLOCKS * 64 : from;
                    WGMMA(sums[0], x_matrix + ((plane * PLANE_BYTES + from * POSITION_BYTES) >> 4),
                          w_matrix + (((k >> 2) * W_BYTES + (k & 3) * 32) >> 4), "1", "0, 0");
                }
                MX_WG_COMMIT();
                MX_WG_WAIT(1);
            }
#else
/* The next tap's x, once it is there. */
#if UNIT
#define BEGIN_TAP()                                                                                                   \
    const int found = taps[tap].x, unit = MX_UNIT_OF(found);                                             \
    stage = KEPT ? head + unit : stage;                                                                               \
    stage = stage >= STAGES ? stage - STAGES : stage;                                                                 \
    if (unit >= have) {                                                                                               \
        mx_barrier_wait(full + 8 * slot, parity);                                                                     \
        MX_WG_PUBLISH();                                                                                              \
        have++;                                                                                                       \
        stage = slot;                                                                                                 \
        if (++slot == STAGES)                                                                                         \
            slot = 0, parity ^= 1;                                                                                    \
    }                                                                                                                 \
    const int from = stage * (UNIT * 64) + role * OWN_POSITIONS + MX_PLACE_OF(found)
#define END_TAP()                                                                                                     \
    if (lane == 0 && before != 0)                                                                                     \
        mx_barrier_arrive(before);                                                                                    \
    before = (found & LAST_OF_UNIT) && (ends || unit == 0) ? empty + 8 * stage : 0
#else
#define BEGIN_TAP()                                           \
    int from = at + MX_PLACE_OF(taps[tap].x);    \
    from = from >= BLOCKS * 64 ? from - BLOCKS * 64 : from
#define END_TAP()
#endif
/* w of 16 channels of a tap. */
#if W_STAGES
#define BEGIN_W()                                                                                                     \
    mx_barrier_wait(w_full + 8 * w_slot, w_parity);                                                                   \
    MX_WG_PUBLISH()
#define W_OF(i) (w_matrix + ((w_slot * W_BYTES + (i)*W_STEP) >> 4))
#define END_W()                                                                                                       \
    if (lane == 0 && w_before != 0)                                                                                   \
        mx_barrier_arrive(w_before);                                                                                  \
    w_before = w_empty + 8 * w_slot;                                                                                  \
    if (++w_slot == W_STAGES)                                                                                         \
        w_slot = 0, w_parity ^= 1
#else
#define BEGIN_W()
#define W_OF(i)                                                                                                       \
    (w_matrix + (((tap * (CHANNELS / 16) + (i)) / 4 * W_BYTES + (tap * (CHANNELS / 16) + (i)) % 4 * W_STEP) >> 4))
#define END_W()
#endif
#if WIDE
#define MULTIPLY(x, w) WGMMA(sums[0], w, x, "1", TRANS_W ", 0")
#else
#define MULTIPLY(x, w) WGMMA(sums[0], x, w, "1", "0, " TRANS_W)
#endif
#if X_IN_REGISTERS
/* One set of registers is loaded while wgmma reads the other. */
#define MULTIPLY_TAP(a)                                                                                              \
    do {                                                                                                              \
        BEGIN_TAP();                                                                                                  \
        const uint x_at = (from + own_row) * POSITION_BYTES;                                                          \
        const uint own = shared + x_at + (own_chunk << 4) ^ (x_at >> 7 & POSITION_CHUNKS - 1) << 4;                   \
        _Pragma("unroll") for (int i = 0; i < CHANNELS / 16; i++)                                                \
            MX_LDMATRIX((a)[i][0], (a)[i][1], (a)[i][2], (a)[i][3], own ^ i << 5);                                    \
        MX_WG_FENCE();                                                                                                \
        _Pragma("unroll") for (int i = 0; i < CHANNELS / 16; i++)                                                \
            MX_JOIN(MX_WGMMA_REGISTERS_, BF)(sums[0], (a)[i], W_OF(i), TRANS_W);                                      \
        MX_WG_COMMIT();                                                                                               \
        MX_WG_WAIT(1);                                                                                                \
        END_TAP();                                                                                                    \
    } while (0)
            uint a[CHANNELS / 16][4], other[CHANNELS / 16][4];
            for (int tap = 0; tap < taps_all; tap++) {
                MULTIPLY_TAP(a);
                if (++tap == taps_all)
                    break;
                MULTIPLY_TAP(other);
            }
#else
            for (int tap = 0; tap < taps_all; tap++) {
                BEGIN_TAP();
                BEGIN_W();
                MX_WG_FENCE();
#pragma unroll
                for (int i = 0; i < CHANNELS / 16; i++)
                    MULTIPLY(x_matrix + ((from * POSITION_BYTES + i * 32) >> 4), W_OF(i));
                MX_WG_COMMIT();
                MX_WG_WAIT(1);
                END_W();
                END_TAP();
            }
#endif
#endif
            MX_WG_WAIT(0);
#pragma unroll
            for (int j = 0; j < WN / 2; j++)
                MX_WG_HOLD(sums[0][j]);
#if W_STAGES
            if (lane == 0)
                mx_barrier_arrive(w_before);
            w_before = 0;
#endif
#if UNIT
            if (lane == 0 && before != 0)
                mx_barrier_arrive(before);
            head += ends ? g.taps_d : 1;
            head = head >= STAGES ? head - STAGES : head;
            have = ends ? 0 : g.taps_d - 1;
#else
            if (lane == 0)
                for (int i = 0; i < BP / 64; i++) {
                    mx_barrier_arrive(empty + 8 * freed);
                    if (++freed == BLOCKS)
                        freed = 0;
                }
            at += BP;
            at = at >= BLOCKS * 64 ? at - BLOCKS * 64 : at;
#endif
            const int own_m0 = WIDE ? m0 + role * WIDE : m0, warpgroup = WIDE ? 0 : role;
#if defined(EPILOGUE) && !SCALED
#if WIDE
            MX_SCALE_ROWS(sums[0], WN / 2, 0, (item >> 5 & 3) * 16 + (lane >> 2), g.conv.filters)
#elif HAS_COLUMNS
            mx_scale_columns(sums, lane, alpha, 0, columns_at);
#else
            mx_scale_columns(sums, lane, alpha, 0, 0);
#endif
            MX_FINISH(sums[0], WN / 2)
#endif
#define STORED_BYTES (sizeof(MX_STORED) * max(VEC, FILTERS_AT_ONCE))
#ifdef EPILOGUE
            const bool plainly = MX_PLAIN_EPILOGUE && ((ulong)y & (STORED_BYTES - 1)) == 0;
#else
            const bool plainly = alpha == 1 && beta == 0 && ((ulong)y & (STORED_BYTES - 1)) == 0;
#endif
            if (plainly)
#if LOCAL_EPILOGUE
                mx_store_runs(sums, y, own_m0, 0, &g, warpgroup,
                              mx_shared(runs) + (WIDE ? item >> 5 : role) * RUN_BYTES);
#elif WIDE
                mx_store_turned(sums, y, own_m0, &g);
#else
                mx_store_tile(sums, y, m0, 0, &g, alpha, beta, true, role MX_ROOTS MX_STORE_ARGS(0));
#endif
            else
                mx_store_tile(sums, y, own_m0, 0, &g, MX_STORE_ALPHA, beta, false, warpgroup MX_ROOTS MX_STORE_ARGS(0));
        }
    }
}
