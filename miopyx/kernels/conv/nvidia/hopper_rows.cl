/* Implicit GEMM by wgmma where one copy of x in local memory serves all taps: no stride, up to 64 filters, and 64
 * channels or, with CHUNKS, up to four.  Half or bfloat16, sums in float: y = alpha * x w + beta * y.  Needs SM_90A.
 *
 *   positions: pixels of padded images, rows of `pitch`, halos shared; tap (i, j) of position m is at m + constant
 *
 *   | work-group 0: tiles 0 .. group_tiles - 1 | work-group 1 ...    a tile is BP = 256 positions x all filters
 *   |-- 64 positions a block -->                                     4 consumers: 64 positions of it each, all taps
 *   ring: | block | block | block | ... | mirror of the first |      1 producer: copies each block of x once
 *
 * Grid: one axis, local THREADS, global THREADS * ceil(tiles / group_tiles).
 * Without CHUNKS a position is a row of 64 channels, swizzled: chunk c of row r is at c ^ (r % 8).  With CHUNKS x is a
 * packed copy (pack_narrow): PLANES for the rows that a vertical stride takes in turn, a position is one chunk of two
 * pixels by four channels, and CHUNKS of them, `tap_w` positions from one to the next, are the taps of a row.
 * Local memory: a ring of BLOCKS of x, and all of w.  Two mbarriers a block, full and empty.
 * Bound by: reading x once from memory, and storing y.
 */
#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef BF /* 32 or 64 */
#define BF 64
#endif
#ifndef CHUNKS /* even; 0: rows of 64 channels */
#define CHUNKS 0
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
#ifndef W_TRANSPOSED /* 1: w_k leads from one channel to the next, filters are contiguous; BF is 64 */
#define W_TRANSPOSED 0
#endif
#ifndef VEC
#define VEC 1
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

#define BP 256
#define CONSUMERS (BP / 64)
#define THREADS (128 * CONSUMERS + 128)
#define WGMMA MX_JOIN(MX_WGMMA_, BF)
#if CHUNKS
#define POSITION_BYTES 16
#define MIRRORED 2 /* blocks that are repeated behind the ring: a product's rows may begin in its last block */
#else
#define POSITION_BYTES 128
#define MIRRORED 1
#endif
#define BLOCK_BYTES (64 * POSITION_BYTES)
#define PLANE_BYTES ((BLOCKS + MIRRORED) * BLOCK_BYTES)
#define W_BYTES (BF * ROW_BYTES)
#if W_TRANSPOSED
#define TRANS "0, 1"
#define B_STEP (16 * ROW_BYTES) /* bytes to the next 16 numbers of the reduced axis */
#else
#define TRANS "0, 0"
#define B_STEP 32
#endif

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

#define CHANNELS_LAST 1
#define WN BF
#define WG_ROWS 1
#define MX_PROBLEM mx_nv_rows
#define MX_CONV(problem) (&(problem)->conv)
#define PERMUTE_FILTERS (!W_TRANSPOSED && !LOCAL_EPILOGUE)
#include "conv/nvidia/hopper_store.h"
#if LOCAL_EPILOGUE
#include "conv/nvidia/hopper_runs.h"
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
    __local uint4 ring[PLANES * PLANE_BYTES / 16] __attribute__((aligned(1024)));
    __local uint4 filters[DEPTHS * W_BYTES / 16] __attribute__((aligned(1024)));
    __local ulong barriers[2 * BLOCKS]; /* full, empty */
#if LOCAL_EPILOGUE
    __local uint4 runs[CONSUMERS * RUN_BYTES / 16] __attribute__((aligned(1024)));
#endif
    const int item = get_local_id(0), lane = item & 31, role = item >> 7;
    const int first = get_group_id(0) * g.group_tiles, count = min(g.group_tiles, g.tiles - first);
    const int blocks = (count * BP + g.span + 63) / 64;
    const uint shared = mx_shared(ring), w_shared = mx_shared(filters);
    const uint full = mx_shared(barriers), empty = full + 8 * BLOCKS;

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
    if (item == 0)
        mx_ring_begin(full, BLOCKS, 128, 4 * CONSUMERS);
    for (int i = item; i < DEPTHS * W_BYTES / 16; i += THREADS) {
        const int chunk = i & 7, row = i / 8 % BF, depth = i / (8 * BF);
        const int k = W_TRANSPOSED ? depth * 64 : depth * 64 + chunk * 8, tap = k / g.conv.reduced;
        const int c = k - tap * g.conv.reduced, tap_h = tap / g.conv.taps_w, tap_w = tap - tap_h * g.conv.taps_w;
        const bool valid = tap_h < g.conv.taps_h && (W_TRANSPOSED ? chunk * 8 : row) < g.conv.filters;
        __global const ushort *from =
            W + (valid ? row * g.conv.w_k + tap_h * g.conv.w_h + tap_w * g.conv.w_w
                          + (W_TRANSPOSED ? chunk * 8 : c) : 0);
        const int place = PERMUTE_FILTERS ? mx_permuted(row) : row;
        const uint to = w_shared + depth * W_BYTES + place * ROW_BYTES + ((chunk ^ (place & 7)) << 4);
        if (w_aligned)
            MX_COPY16(to, from, valid);
        else
            mx_copy_halves(to, from, valid);
    }
    MX_COMMIT();
    MX_WAIT(0);
    MX_WG_PUBLISH();
    barrier(CLK_LOCAL_MEM_FENCE);

    if (role == CONSUMERS) {
        int slot = 0, parity = 1;
#if CHUNKS
        const int plane = (item & 127) >> 6, row = item & 63;
        const uint to = shared + plane * PLANE_BYTES + row * POSITION_BYTES;
#else
        const int chunk = item & 7, row = (item & 127) >> 3;
        const uint to = shared + row * POSITION_BYTES + ((chunk ^ (row & 7)) << 4);
#endif
        const int image = g.rows * g.pitch;
        /* Positions before the first image count from one more image, so that they are not negative. */
        int position = first * BP + g.low + image + row;
        for (int block = 0; block < blocks; block++) {
#if CHUNKS
            const int n = mx_quotient(position, g.conv.by_image), rest = position - n * image;
            const bool valid = n >= 1 && n <= g.images;
            __global const ushort *from = X + (valid ? (((n - 1) * PLANES + plane) * image + rest) * 8 : 0);
            mx_barrier_wait(empty + 8 * slot, parity);
            for (int again = 0; again < (slot < MIRRORED ? 2 : 1); again++) {
                const uint at = to + (slot + again * BLOCKS) * BLOCK_BYTES;
                if (plane < PLANES && x_aligned)
                    MX_COPY16(at, from, valid);
                else if (plane < PLANES)
                    mx_copy_halves(at, from, valid);
            }
#else
            int from[4];
            bool valid[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int at = position + i * 16, n = mx_quotient(at, g.conv.by_image), rest = at - n * image;
                const int h = mx_quotient(rest, g.conv.by_row), w = rest - h * g.pitch;
                valid[i] = n >= 1 && n <= g.images && h < g.conv.h && w < g.conv.w;
                from[i] = valid[i] ? (n - 1) * g.conv.x_n + h * g.conv.x_h + w * g.conv.x_w + chunk * 8 : 0;
            }
            mx_barrier_wait(empty + 8 * slot, parity);
            for (int again = 0; again < (slot < MIRRORED ? 2 : 1); again++) {
                const uint at = to + (slot + again * BLOCKS) * BLOCK_BYTES;
#pragma unroll
                for (int i = 0; i < 4; i++)
                    if (x_aligned)
                        MX_COPY16(at + i * 16 * POSITION_BYTES, X + from[i], valid[i]);
                    else
                        mx_copy_halves(at + i * 16 * POSITION_BYTES, X + from[i], valid[i]);
            }
#endif
            if (x_aligned)
                mx_barrier_arrive_copied(full + 8 * slot);
            else
                mx_barrier_arrive(full + 8 * slot);
            position += 64;
            if (++slot == BLOCKS)
                slot = 0, parity ^= 1;
        }
    } else {
#if CHUNKS
        /* Without a swizzle: 8 rows of 16 bytes, the next chunk tap_w positions on, the next 8 rows behind them. */
        const ulong a_matrix = (ulong)(shared >> 4 & 0x3fff) | (ulong)g.conv.tap_w << 16 | (ulong)(128 >> 4) << 32;
#else
        const ulong a_matrix = mx_wg_matrix(shared, 0);
#endif
        const ulong b_matrix = mx_wg_matrix(w_shared, 64 * ROW_BYTES);
        int slot = 0, parity = 0, ready = 0, freed = 0, at = role * 64; /* this tile's first position in the ring */
        for (int tile = 0; tile < count; tile++) {
            const int need = (tile * BP + BP - 1 + g.span) / 64 + 1;
            for (; ready < min(need, blocks); ready++) {
                mx_barrier_wait(full + 8 * slot, parity);
                if (++slot == BLOCKS)
                    slot = 0, parity ^= 1;
            }
            float sums[WG_ROWS][BF / 2];
#pragma unroll
            for (int j = 0; j < BF / 2; j++)
                sums[0][j] = 0;
            MX_WG_PUBLISH();
            int tap_h = 0, tap_w = 0;
            for (int tap = 0; tap < (CHUNKS ? g.conv.taps_h : g.conv.taps_h * g.conv.taps_w); tap++) {
                MX_WG_FENCE();
#if CHUNKS
                const int row = tap * g.conv.tap_h, plane = row % PLANES;
#pragma unroll
                for (int i = 0; i < CHUNKS / 2; i++) {
                    const int k = tap * (CHUNKS / 2) + i;
                    int from = at + row / PLANES * g.pitch + 2 * i * g.conv.tap_w;
                    from = from >= BLOCKS * 64 ? from - BLOCKS * 64 : from;
                    WGMMA(sums[0], a_matrix + ((plane * PLANE_BYTES + from * POSITION_BYTES) >> 4),
                          b_matrix + (((k >> 2) * W_BYTES + (k & 3) * 32) >> 4), "1", "0, 0");
                }
#else
                int from = at + (g.conv.first_h + tap_h * g.conv.tap_h) * g.pitch + g.conv.first_w
                           + tap_w * g.conv.tap_w - g.low;
                from = from >= BLOCKS * 64 ? from - BLOCKS * 64 : from;
#pragma unroll
                for (int k = 0; k < 4; k++)
                    WGMMA(sums[0], a_matrix + ((from * POSITION_BYTES + k * 32) >> 4),
                          b_matrix + ((tap * W_BYTES + k * B_STEP) >> 4), "1", TRANS);
                if (++tap_w == g.conv.taps_w)
                    tap_w = 0, tap_h++;
#endif
                MX_WG_COMMIT();
                MX_WG_WAIT(1);
            }
            MX_WG_WAIT(0);
#pragma unroll
            for (int j = 0; j < BF / 2; j++)
                MX_WG_HOLD(sums[0][j]);
            if (lane == 0)
                for (int i = 0; i < BP / 64; i++) {
                    mx_barrier_arrive(empty + 8 * freed);
                    if (++freed == BLOCKS)
                        freed = 0;
                }
            at += BP;
            at = at >= BLOCKS * 64 ? at - BLOCKS * 64 : at;
            const int m0 = (first + tile) * BP;
#if defined(EPILOGUE) && !SCALED
#if CHANNELS_LAST
            MX_SCALE_COLUMNS(sums[0], WN / 2, 0, 0, g.conv.filters, lane, PERMUTE_FILTERS)
#else
#error "rows of this kernel's product are pixels"
#endif
            MX_FINISH(sums[0], WN / 2)
#endif
#ifdef EPILOGUE
            const bool plainly = MX_PLAIN_EPILOGUE && ((ulong)Y & (sizeof(MX_STORED) * VEC - 1)) == 0;
#else
            const bool plainly = alpha == 1 && beta == 0 && ((ulong)Y & (sizeof(MX_STORED) * VEC - 1)) == 0;
#endif
            if (plainly)
#if LOCAL_EPILOGUE
                mx_store_runs(sums, Y, m0, 0, &g, role, mx_shared(runs) + role * RUN_BYTES);
#else
                mx_store_tile(sums, Y, m0, 0, &g, alpha, beta, true, role MX_ROOTS MX_STORE_ARGS(0));
#endif
            else
                mx_store_tile(sums, Y, m0, 0, &g, MX_STORE_ALPHA, beta, false, role MX_ROOTS MX_STORE_ARGS(0));
        }
    }
}
