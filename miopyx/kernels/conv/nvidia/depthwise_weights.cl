/* Backward weights of depthwise convolutions in 16 bits, channels last, on tensor cores:
 * partial[split][channel][r][s] = sum over a split's rows of dy x; conv/nvidia/sum.cl adds the splits up.
 *
 * For one channel and one row of x, dw[r][s] += sum over q of dy[p(r)][q] x[q * STEP_W + s]: a product of two matrices,
 * 16 rows of dy that meet the row of x by 16 columns q, times 16 columns q by 8 taps s, the same row of x one further
 * for each tap.
 *
 *   row of x:   |.......................|     A stage: ROWS rows of dy and ROWS * STEP_H of x, of a strip of WIDE columns
 *   rows of dy: |---- last ----|              of dy, are copied into local memory while the stage before is multiplied.
 *               |--------------|              The last TAP_ROWS rows of dy stay there, in a ring; behind a split's, or
 *               |---- first ---|              an image's, last row are zeros, as many as the next one's rows must meet.
 *
 *   work-group: OCTETS * 8 channels, one split
 *   warp:       8 channels, M_BLOCKS x N_OWN blocks of 16 x 8 taps of each, for each row of the stride
 *
 * Grid: one axis, local THREADS, global THREADS * sets * splits.
 * Local memory: a pixel's 8 channels are 16 bytes; rows are an odd number of pixels, so that 8 neighbours, or pixels of
 * 8 rows, meet every bank once.
 * A sum that is not finite is computed again, since infinity times a zero outside may have made it.
 * Bound by: memory, or what is read from local memory: 512 bytes for 8 instructions.
 */
#ifndef X_TYPE /* half or bfloat16 */
#define X_TYPE half
#endif
#ifndef R /* rows of the filter, columns: up to 32 */
#define R 7
#define S 7
#endif
#ifndef STEP_H /* stride, 1 or 2 */
#define STEP_H 1
#define STEP_W 1
#endif
#ifndef OCTETS
#define OCTETS 4
#endif
#ifndef ROWS /* of dy, of a stage */
#define ROWS 2
#endif
#ifndef STEPS /* 16 columns each, of a strip */
#define STEPS 4
#endif
#define TAP_ROWS ((R + STEP_H - 1) / STEP_H) /* rows of dy that a row of x meets */
#define M_BLOCKS ((TAP_ROWS + 15) / 16)
#define N_BLOCKS ((S + 7) / 8)
#define N_OWN (N_BLOCKS > 1 && STEP_H * M_BLOCKS == 1 ? 2 : 1)
#define PARTS ((N_BLOCKS + N_OWN - 1) / N_OWN)
#define SUMS (STEP_H * M_BLOCKS * N_OWN * 32) /* of a work-item, 64 at most */
#define THREADS (32 * OCTETS * PARTS)
#define WIDE (16 * STEPS)
#define X_ROWS (ROWS * STEP_H)
#define X_COLS ((WIDE - 1) * STEP_W + S)
#define X_PITCH (X_COLS | 1)
#define Y_PITCH (WIDE | 1)
#define RING ((TAP_ROWS + ROWS - 2) / ROWS * ROWS + 2 * ROWS)
#define X_PLACES (OCTETS * X_ROWS * X_PITCH)
#define Y_PLACES (OCTETS * RING * Y_PITCH)
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/depthwise_args.h"

/* Rows of dy v to v + ROWS - 1 of an image, of those `first` to `stop` - 1, and a strip; `row`: `first` of all images. */
typedef struct {
    int row, n, first, stop, v, strip;
} mx_stage;

static inline mx_stage mx_begin_rows(int row, int end, const mx_nv_depthwise g)
{
    mx_stage s;
    s.row = row;
    s.n = mx_quotient(row, g.by_image);
    s.v = s.first = row - s.n * g.p;
    s.stop = min(g.p, s.first + end - row);
    s.strip = 0;
    return s;
}

static inline mx_stage mx_next_stage(mx_stage s, int end, const mx_nv_depthwise g)
{
    s.v += ROWS;
    if (s.v < s.stop + TAP_ROWS - 1)
        return s;
    if (++s.strip < g.strips) {
        s.v = s.first;
        return s;
    }
    return mx_begin_rows(s.row + s.stop - s.first, end, g);
}

/* Where sum number i of a lane is in 8 channels' weights, -1 where it is none. */
static inline int mx_place_of_sum(int i, int lane, int part)
{
    const int behind = i / (N_OWN * 32) % M_BLOCKS * 16 + i / 2 % 2 * 8 + (lane >> 2);
    const int r = behind * STEP_H + i / (SUMS / STEP_H);
    const int s = (part * N_OWN + i / 32 % N_OWN) * 8 + (lane & 3) * 2 + i % 2;
    return r < R && s < S ? i / 4 % 8 * (R * S) + r * S + s : -1;
}

/* One sum over rows `row` to `end` - 1, without what is outside x. */
static inline float mx_exactly(__global const ushort *X, __global const ushort *Y, const mx_nv_depthwise g, int row,
                               int end, int r, int s)
{
    float sum = 0;
#pragma unroll 1
    for (; row < end; row++) {
        const int n = mx_quotient(row, g.by_image), p = row - n * g.p, h = p * STEP_H + g.first_h + r;
#pragma unroll 1
        for (int q = 0; q < g.q; q++) {
            const int w = q * STEP_W + g.first_w + s;
            if ((uint)h < (uint)g.h && (uint)w < (uint)g.w)
                sum = fma(LOAD(X_TYPE)(X, n * g.x_n + h * g.x_h + w * g.x_w),
                          LOAD(X_TYPE)(Y, n * g.y_n + p * g.y_h + q * g.y_w), sum);
        }
    }
    return sum;
}

/* The lower, or the upper, halves of two words. */
static inline uint mx_lower(uint first, uint second)
{
    uint both;
    asm("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(both) : "r"(first), "r"(second));
    return both;
}
static inline uint mx_upper(uint first, uint second)
{
    uint both;
    asm("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(both) : "r"(first), "r"(second));
    return both;
}

/* Word `k` of each of 8 channels: the values of two pixels. */
#define PAIR_UP(to, k, at, step)                                                      \
    do {                                                                              \
        const uint4 one = ring[at], other = ring[(at) + (step)];                      \
        to[0][k] = mx_lower(one.x, other.x), to[1][k] = mx_upper(one.x, other.x);     \
        to[2][k] = mx_lower(one.y, other.y), to[3][k] = mx_upper(one.y, other.y);     \
        to[4][k] = mx_lower(one.z, other.z), to[5][k] = mx_upper(one.z, other.z);     \
        to[6][k] = mx_lower(one.w, other.w), to[7][k] = mx_upper(one.w, other.w);     \
    } while (0)

#define MULTIPLY_OCTET(d, a, b)                                                       \
    _Pragma("unroll") for (int c = 0; c < 8; c++)                                     \
        MX_MULTIPLY((d)[c], (a)[c], (b)[c])

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void conv_nvidia_depthwise_weights(
    __global const ushort *restrict X, long x_offset, __global const ushort *restrict Y, long y_offset,
    __global float *restrict partial, long partial_offset, const mx_nv_depthwise g)
{
    __local uint4 ring[2 * X_PLACES + Y_PLACES] __attribute__((aligned(128)));
    const int item = get_local_id(0), lane = item & 31, octet = (item >> 5) / PARTS, part = (item >> 5) % PARTS;
    const int set = get_group_id(0) % g.sets, split = get_group_id(0) / g.sets;
    const int begin = split * g.each, end = min(begin + g.each, g.rows);
    const int column = item / OCTETS, copied = item % OCTETS, channel = (set * OCTETS + copied) * 8;
    const bool there = channel < g.channels;
    const uint to = mx_shared(ring);

    X += x_offset, Y += y_offset;
    const bool aligned = (((ulong)X | (ulong)Y) & 15) == 0;
    for (int i = item; i < Y_PLACES; i += THREADS)
        ring[2 * X_PLACES + i] = (uint4)(0);
    barrier(CLK_LOCAL_MEM_FENCE);

#define COPY_STAGE_WITH(COPY16, s, buffer, slot)                                                                       \
    do {                                                                                                               \
        _Pragma("unroll 1") for (int i = 0; i < X_ROWS; i++) {                                                         \
            const int h = (s).v * STEP_H + i + g.first_h;                                                              \
            if ((uint)h >= (uint)g.h)                                                                                  \
                continue; /* nor is it multiplied */                                                                   \
            const int w0 = (s).strip * (WIDE * STEP_W) + g.first_w;                                                    \
            __global const ushort *from = X + (s).n * g.x_n + h * g.x_h + channel;                                     \
            const uint row = to + (((buffer) * OCTETS + copied) * X_ROWS + i) * (X_PITCH * 16);                        \
            for (int l = column; l < X_COLS; l += 32 * PARTS) {                                                        \
                const bool valid = there && (uint)(w0 + l) < (uint)g.w;                                                \
                COPY16(row + l * 16, valid ? from + (w0 + l) * g.x_w : X, valid);                                      \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("unroll 1") for (int i = 0; i < ROWS; i++) {                                                           \
            const int q0 = (s).strip * WIDE;                                                                           \
            __global const ushort *from = Y + (s).n * g.y_n + ((s).v + i) * g.y_h + channel;                           \
            const uint row = to + (2 * X_PLACES + (copied * RING + (slot) + i) * Y_PITCH) * 16;                        \
            for (int l = column; l < WIDE; l += 32 * PARTS) {                                                          \
                const bool valid = there && (s).v + i < (s).stop && q0 + l < g.q;                                      \
                COPY16(row + l * 16, valid ? from + (q0 + l) * g.y_w : Y, valid);                                      \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)
#define COPY_STAGE(s, buffer, slot)                                                                                    \
    do {                                                                                                               \
        if (aligned)                                                                                                   \
            COPY_STAGE_WITH(MX_COPY16, s, buffer, slot);                                                               \
        else                                                                                                           \
            COPY_STAGE_WITH(mx_copy_halves, s, buffer, slot);                                                          \
        MX_COMMIT();                                                                                                   \
    } while (0)

    float sums[STEP_H][M_BLOCKS][N_OWN][8][4];
#pragma unroll
    for (int i = 0; i < SUMS; i++)
        sums[i / (SUMS / STEP_H)][i / (N_OWN * 32) % M_BLOCKS][i / 32 % N_OWN][i / 4 % 8][i % 4] = 0;
    /* The lane's pixel among eight, row of dy and tap: of a block's first ones. */
    const int k = (lane & 3) * 2, line = lane >> 2;
    int slot = 0, buffer = 0;
    mx_stage now = mx_begin_rows(begin, end, g);
    COPY_STAGE(now, 0, 0);
#pragma unroll 1
    while (now.row < end) {
        MX_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        const mx_stage next = mx_next_stage(now, end, g);
        const int filled = slot + ROWS == RING ? 0 : slot + ROWS;
        if (next.row < end)
            COPY_STAGE(next, buffer ^ 1, filled);
#pragma unroll 1
        for (int t = 0; t < ROWS; t++) {
            const int h = (now.v + t) * STEP_H + g.first_h;
            if (h + STEP_H <= 0 || h >= g.h)
                continue;
            int rows[M_BLOCKS][2];
#pragma unroll
            for (int i = 0; i < 2 * M_BLOCKS; i++) {
                int behind = slot + t - min(line + 8 * i, TAP_ROWS - 1);
                behind += behind < 0 ? RING : 0;
                rows[i / 2][i % 2] = 2 * X_PLACES + (octet * RING + behind) * Y_PITCH + k;
            }
            const int line_x = ((buffer * OCTETS + octet) * X_ROWS + t * STEP_H) * X_PITCH + k * STEP_W;
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                uint a[M_BLOCKS][8][4];
#pragma unroll
                for (int m = 0; m < M_BLOCKS; m++)
#pragma unroll
                    for (int l = 0; l < 4; l++)
                        if (m * 16 + l % 2 * 8 < TAP_ROWS)
                            PAIR_UP(a[m], l, rows[m][l % 2] + step * 16 + l / 2 * 8, 1);
                        else
#pragma unroll
                            for (int c = 0; c < 8; c++)
                                a[m][c][l] = 0;
#pragma unroll
                for (int i = 0; i < STEP_H; i++) {
                    if (STEP_H > 1 && (uint)(h + i) >= (uint)g.h)
                        continue;
#pragma unroll
                    for (int own = 0; own < N_OWN; own++) {
                        const int tap = min((part * N_OWN + own) * 8 + line, S - 1);
                        uint b[8][2];
#pragma unroll
                        for (int l = 0; l < 2; l++)
                            PAIR_UP(b, l, line_x + i * X_PITCH + (step * 16 + l * 8) * STEP_W + tap, STEP_W);
#pragma unroll
                        for (int m = 0; m < M_BLOCKS; m++)
                            MULTIPLY_OCTET(sums[i][m][own], a[m], b);
                    }
                }
            }
        }
        now = next, buffer ^= 1, slot = filled;
    }

    const int first = (set * OCTETS + octet) * 8;
    if (first >= g.channels)
        return;
    partial += partial_offset + ((long)split * g.channels + first) * (R * S);
    ulong again = 0;
#pragma unroll
    for (int i = 0; i < SUMS; i++) {
        const int place = mx_place_of_sum(i, lane, part);
        const float sum = sums[i / (SUMS / STEP_H)][i / (N_OWN * 32) % M_BLOCKS][i / 32 % N_OWN][i / 4 % 8][i % 4];
        if (place >= 0 && !isfinite(sum))
            again |= 1ul << i;
        else if (place >= 0)
            partial[place] = sum;
    }
#pragma unroll 1
    for (int i = 0; again != 0; i++, again >>= 1)
        if (again & 1) {
            const int place = mx_place_of_sum(i, lane, part), c = place / (R * S), tap = place % (R * S);
            partial[place] = mx_exactly(X + first + c, Y + first + c, g, begin, end, tap / S, tap % S);
        }
}
