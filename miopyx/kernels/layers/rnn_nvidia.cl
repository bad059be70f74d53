/* Recurrent layers on NVIDIA's tensor cores: all steps in one launch, by teams that keep the state's matrix.
 *
 *          work-groups of a team: UNITS units each, of SEQS sequences
 *        +--------+--------+--------+         A warp has some tiles of 16 rows of the group's part of the matrix, and
 *   h -> | rows   |        |        | -> h'   of each every KS-th segment, 64 bytes of k: in registers, then in local
 *        | x k    |        |        |         memory; what is too much for both is read in each step.  Rows are gates of
 *        +--------+--------+--------+         units, columns sequences.  The sums of KS warps are added up in local
 *             ^ to all of the team            memory, where a work-item has a unit of a sequence, whose cell and state
 *                                             it keeps in registers for all steps.
 *
 * A group sends its states, in T, to all groups of its team.  Where these are a cluster (CLUSTER) it writes them into
 * their local memory, whose mbarriers count the bytes; else into global memory, where a counter says how many groups
 * have.  For that all groups must run at once.
 *
 *   team_pack       the state's matrices as mma.sync takes them; floats as pairs of TF32
 *   team_clear      the counters
 *   team_forward    all steps of a layer
 *   team_backward   likewise; rows are units, k is gates of units, and what is sent are the gates' gradients
 *
 * Grid:         (groups of a team, blocks of sequences, directions) of groups of 32 * WARPS work-items.
 * Local memory: states of two steps, or of one, sums, what is sent, and the matrix's rest.
 * Parameters:   those of layers/rnn.h, and below.
 * Bound by:     the way of a state through the team: barriers, the tensor cores' latency, the cells.
 */
#define VEC 1
#define X_TYPE T
#ifndef HIDDEN
#define HIDDEN 32
#endif
#ifndef UNITS /* of a group; a multiple of 16 bytes of T */
#define UNITS 32
#endif
#ifndef TEAM /* groups of a team */
#define TEAM 1
#endif
#ifndef CLUSTER /* 1: a team is a cluster */
#define CLUSTER 0
#endif
#ifndef SEQS /* sequences of a team; a multiple of 8 */
#define SEQS 8
#endif
#ifndef WM /* warps along the rows */
#define WM 4
#endif
#ifndef KS /* warps along k */
#define KS 2
#endif
#ifndef KEPT /* parts of tiles that a warp has in registers */
#define KEPT 16
#endif
#ifndef STORED /* those that it has in local memory */
#define STORED 0
#endif
#ifndef BACKWARD
#define BACKWARD 0
#endif
#ifndef HAS_FIRST
#define HAS_FIRST 0
#endif
#ifndef HAS_H /* of the states that are given, 1 where they are */
#define HAS_H 1
#endif
#ifndef HAS_C
#define HAS_C 1
#endif
#ifndef TO_H /* of those that are wanted */
#define TO_H 1
#endif
#ifndef TO_C
#define TO_C 1
#endif
#include "layers/rnn.h"
#include "conv/nvidia/ptx.h"

#if MX_TYPE(T) == MX_TYPE_float
#define BYTES 4
#define PARTS 2 /* high and low */
#else
#define BYTES 2
#define PARTS 1
#endif
#if BACKWARD
#define PER_UNIT 1     /* rows */
#define SENT_OF GATES  /* numbers that are sent */
#else
#define PER_UNIT GATES
#define SENT_OF 1
#endif
#define WARPS (WM * KS)
#define GROUP (32 * WARPS)
#define ROWS (UNITS * PER_UNIT)
#define TILES ((ROWS + 15) / 16)
#define MT ((TILES + WM - 1) / WM)
#define NT (SEQS / 8)
#define CHUNK (UNITS * SENT_OF)          /* numbers of a group's, of each sequence: k is group, gate, unit */
#define PIECES (CHUNK * BYTES / 16)      /* of 16 bytes */
#define LINE_PIECES (TEAM * PIECES)
#define SEGMENTS ((LINE_PIECES + 3) / 4)
#define SP ((SEGMENTS + KS - 1) / KS)
#define FRAGMENTS (MT * SP * 2 * PARTS)
/* Where warps share no segment they read them from global memory themselves. */
#define DIRECT (TEAM > 1 && !CLUSTER && WM == 1)
/* 16 bytes from a sequence's line to the next: an odd number of half rows of banks, so that the lanes of two lines meet
 * each bank once. */
#define LINE (SEGMENTS * 4 + (SEGMENTS % 2 ? 0 : 4))
#define LINES (SEQS * LINE)
#define COLUMN (TILES * 16 + 4) /* sums of a sequence; lanes of a fragment meet each bank once */
#define PAIRS ((UNITS * SEQS + GROUP - 1) / GROUP)
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
#define TEAM_INLINE static inline __attribute__((always_inline))

#if TEAM > 1 && CLUSTER
#define BUFFERS 2
#define MX_LAUNCH() asm volatile("//launch: cluster " MX_TEXT(TEAM))
#else
#define BUFFERS 1
#if TEAM > 1
#define MX_LAUNCH() asm volatile("//launch: cooperative")
#else
#define MX_LAUNCH()
#endif
#endif

/* A float as two of TF32, ptx.h.  The high one is kept finite: an infinity is all in the low one, whose products have
 * the right sign, while products of an infinity with low parts have any. */
#define TEAM_PAIR(value, hi, lo)                                                              \
    do {                                                                                      \
        hi = as_uint(fmin(fmax(as_float(((value) + 0x1000u) & 0xffffe000u), -0x1.ffcp127f), 0x1.ffcp127f)); \
        lo = as_uint((as_float(value) - as_float(hi)) * (1.0f + 0x1.8p-12f));                 \
    } while (0)

/* The bits of a number of the matrix, 0 outside of it. */
static inline uint weight(__global const STORAGE(T) *w, long row, long k)
{
    const long units = BACKWARD ? row : row / GATES, g = BACKWARD ? k % CHUNK / UNITS : row % GATES;
    const long from = BACKWARD ? k / CHUNK * UNITS + k % UNITS : k;
    if (units >= HIDDEN || from >= HIDDEN || k >= (long)TEAM * CHUNK)
        return 0;
    const long at = g * HIDDEN * HIDDEN + (BACKWARD ? from * HIDDEN + units : units * HIDDEN + from);
#if BYTES == 4
    return as_uint(w[at]);
#else
    return ((__global const ushort *)w)[at];
#endif
}

/* packed: directions x groups x warps x fragments x lanes. */
__kernel void team_pack(__global const STORAGE(T) *w, long w_offset, __global uint4 *packed, long packed_offset,
                        const mx_rnn s)
{
    w += w_offset;
    packed = (__global uint4 *)((__global uint *)packed + packed_offset);
    const long all = s.dirs * TEAM * WARPS * FRAGMENTS / PARTS * 32;
    for (long at = get_global_id(0); at < all; at += get_global_size(0)) {
        const int lane = at % 32, j = at / 32 % 2, sp = at / 64 % SP, mt = at / 64 / SP % MT;
        const int warp = at / 64 / SP / MT % WARPS, member = at / 64 / SP / MT / WARPS % TEAM;
        const long dir = at / 64 / SP / MT / WARPS / TEAM, to = (at / 32 * PARTS) * 32 + lane;
        const int tile = mt * WM + warp / KS, segment = sp * KS + warp % KS;
        uint word[4], low[4];
        for (int i = 0; i < 4; i++) {
            const int in_tile = tile * 16 + lane / 4 + i % 2 * 8;
            const long row = in_tile < ROWS ? member * (long)ROWS + in_tile : (long)HIDDEN * GATES;
            const long k = (segment * 16 + lane % 4 * 4 + 2 * j + i / 2) * (4L / BYTES);
            __global const STORAGE(T) *of = w + dir * GATES * HIDDEN * HIDDEN;
            word[i] = weight(of, row, k);
#if BYTES == 4
            const uint value = word[i];
            TEAM_PAIR(value, word[i], low[i]);
#else
            word[i] |= weight(of, row, k + 1) << 16;
#endif
        }
        packed[to] = (uint4)(word[0], word[1], word[2], word[3]);
#if PARTS == 2
        packed[to + 32] = (uint4)(low[0], low[1], low[2], low[3]);
#endif
    }
}

__kernel void team_clear(__global uint *counters, long offset, int count)
{
    counters += offset;
    for (int i = get_global_id(0); i < count; i += get_global_size(0))
        counters[i] = 0;
}

/* What a group needs to send and to receive. */
typedef struct {
    uint lines, arrived;       /* local memory: states by steps, and their mbarriers */
    __global uint4 *passed;    /* global memory: states of even and of odd steps */
    __global uint *counter;
    int member;
} team_t;

/* This group's part of the states before step i, to all of the team.  All of it is in local memory. */
TEAM_INLINE void team_send(team_t team, __local const uint4 *own, __local uint4 *lines, int i)
{
    const int me = get_local_id(0);
#if TEAM == 1
    for (int piece = me; piece < SEQS * PIECES; piece += GROUP)
        lines[piece / PIECES * LINE + piece % PIECES] = own[piece];
#elif CLUSTER
    for (int all = me; all < SEQS * PIECES * TEAM; all += GROUP) {
        const int piece = all % (SEQS * PIECES), other = all / (SEQS * PIECES);
        const uint at = team.lines + ((i & 1) * LINES + piece / PIECES * LINE + team.member * PIECES + piece % PIECES) * 16;
        const uint4 v = own[piece];
        asm volatile("{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, %0, %2; mapa.shared::cluster.u32 bar, %1, %2; "
                     "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [to], {%3, %4, %5, %6}, [bar]; }"
                     ::"r"(at), "r"(team.arrived + (i & 1) * 8), "r"(other), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                     : "memory");
    }
#else
    __global uint4 *to = team.passed + (long)(i & 1) * SEQS * LINE_PIECES + team.member * PIECES;
    for (int piece = me; piece < SEQS * PIECES; piece += GROUP)
        to[(long)(piece / PIECES) * LINE_PIECES + piece % PIECES] = own[piece];
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (me == 0)
        asm volatile("fence.acq_rel.gpu; red.release.gpu.global.add.u32 [%0], 1;" ::"l"((ulong)team.counter) : "memory");
#endif
}

/* Until the states before step i are there. */
TEAM_INLINE void team_wait(team_t team, int i)
{
    const int me = get_local_id(0);
#if TEAM == 1
    barrier(CLK_LOCAL_MEM_FENCE);
#elif CLUSTER
    int done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
                     "selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(team.arrived + (i & 1) * 8), "r"(i >> 1 & 1)
                     : "memory");
    while (!done);
    if (me == 0) /* for step i + 2, whose states come after ours of the next */
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(team.arrived + (i & 1) * 8),
                     "r"(SEQS * LINE_PIECES * 16) : "memory");
#else
    if (me == 0) {
        uint there;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"((ulong)team.counter) : "memory");
        while (there < (uint)TEAM * (i + 1));
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#if !DIRECT
    __global const uint4 *from = team.passed + (long)(i & 1) * SEQS * LINE_PIECES;
    for (int piece = me; piece < SEQS * LINE_PIECES; piece += GROUP)
        MX_COPY16(team.lines + (piece / LINE_PIECES * LINE + piece % LINE_PIECES) * 16, from + piece, true);
    MX_COMMIT();
    MX_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#endif
}

/* part[ks][sequence][row]: the group's rows by the states before step i. */
TEAM_INLINE void team_multiply(team_t team, __local const uint4 *lines, const uint4 *kept, __local const uint4 *stored,
                               __global const uint4 *rest, __local float *part, int i)
{
    const int lane = get_local_id(0) % 32, warp = get_local_id(0) / 32, wm = warp / KS, ks = warp % KS;
    float sum[MT][NT][4];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int l = 0; l < 4; l++)
                sum[m][n][l] = 0;
#if DIRECT
    __global const uint4 *from = team.passed + (long)(i & 1) * SEQS * LINE_PIECES;
#else
    lines += (BUFFERS == 2 ? (i & 1) : 0) * LINES;
#endif
#pragma unroll
    for (int sp = 0; sp < SP; sp++) {
        const int segment = sp * KS + ks;
        if (SEGMENTS % KS == 0 || segment < SEGMENTS) {
            uint b[NT][4];
#pragma unroll
            for (int n = 0; n < NT; n++) {
#if DIRECT
                uint4 v = (uint4)(0);
                if (LINE_PIECES % 4 == 0 || segment * 4 + lane % 4 < LINE_PIECES)
                    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                                 : "l"((ulong)(from + (long)(n * 8 + lane / 4) * LINE_PIECES + segment * 4 + lane % 4))
                                 : "memory");
#else
                const uint4 v = lines[(n * 8 + lane / 4) * LINE + segment * 4 + lane % 4];
#endif
                b[n][0] = v.x, b[n][1] = v.y, b[n][2] = v.z, b[n][3] = v.w;
            }
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    uint4 a[PARTS];
#pragma unroll
                    for (int p = 0; p < PARTS; p++) {
                        const int f = ((m * SP + sp) * 2 + j) * PARTS + p;
                        if (f < KEPT)
                            a[p] = kept[f < KEPT ? f : 0];
                        else if (f < KEPT + STORED)
                            a[p] = stored[(f - KEPT) * GROUP + warp * 32 + lane];
                        else
                            a[p] = rest[f * 32];
                    }
#pragma unroll
                    for (int n = 0; n < NT; n++) {
#if PARTS == 2
                        uint hi[2], lo[2];
                        TEAM_PAIR(b[n][2 * j], hi[0], lo[0]);
                        TEAM_PAIR(b[n][2 * j + 1], hi[1], lo[1]);
                        MX_ADD_PRODUCT(sum[m][n], a[0].x, a[0].y, a[0].z, a[0].w, lo[0], lo[1]);
                        MX_ADD_PRODUCT(sum[m][n], a[1].x, a[1].y, a[1].z, a[1].w, hi[0], hi[1]);
                        MX_ADD_PRODUCT(sum[m][n], a[0].x, a[0].y, a[0].z, a[0].w, hi[0], hi[1]);
#else
                        MX_ADD_PRODUCT(sum[m][n], a[0].x, a[0].y, a[0].z, a[0].w, b[n][2 * j], b[n][2 * j + 1]);
#endif
                    }
                }
        }
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
        if (TILES % WM == 0 || m * WM + wm < TILES)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int l = 0; l < 4; l++)
                    part[(ks * SEQS + n * 8 + lane % 4 * 2 + l % 2) * COLUMN + (m * WM + wm) * 16 + lane / 4 + l / 2 * 8]
                        = sum[m][n][l];
}

/* A row of the group's sums of a sequence. */
TEAM_INLINE float team_sum(__local const float *part, int sequence, int row)
{
    float total = 0;
#pragma unroll
    for (int ks = 0; ks < KS; ks++)
        total += part[(ks * SEQS + sequence) * COLUMN + row];
    return total;
}

TEAM_INLINE void team_own(__local uint4 *own, int at, float value)
{
#if BYTES == 4
    ((__local float *)own)[at] = value;
#else
    uint word;
    MX_ROUND_PAIR(word, value, 0.0f);
    ((__local ushort *)own)[at] = (ushort)word;
#endif
}

#if STORED
#define STORED_LOCAL __local uint4 stored[STORED * GROUP]
#define STORED_AT stored
#else
#define STORED_LOCAL
#define STORED_AT ((__local const uint4 *)0)
#endif

/* The group's place, and its part of the matrix from `packed`. */
#define BEGIN_TEAM                                                                                                 \
    __local uint4 lines[DIRECT ? 1 : BUFFERS * LINES] __attribute__((aligned(128)));                               \
    __local uint4 own[SEQS * PIECES] __attribute__((aligned(128)));                                                \
    __local float part[KS * SEQS * COLUMN] __attribute__((aligned(128)));                                          \
    __local ulong arrived[2];                                                                                      \
    STORED_LOCAL;                                                                                                  \
    MX_LAUNCH();                                                                                                   \
    const int me = get_local_id(0), member = get_group_id(0), dir = get_group_id(2), warp = me / 32;               \
    const int begin = get_group_id(1) * SEQS, block = get_group_id(2) * get_num_groups(1) + get_group_id(1);       \
    team_t team;                                                                                                   \
    team.lines = mx_shared(lines), team.arrived = mx_shared(arrived);                   \
    team.member = member;                                                                                          \
    team.passed = (__global uint4 *)((__global uint *)passed + passed_offset) + (long)block * 2 * SEQS * LINE_PIECES; \
    team.counter = counters + counters_offset + block;                                                             \
    uint4 kept[KEPT];                                                                                              \
    __global const uint4 *rest = (__global const uint4 *)((__global const uint *)packed + packed_offset)           \
                                 + ((long)(dir * TEAM + member) * WARPS + warp) * FRAGMENTS * 32 + me % 32;        \
    _Pragma("unroll") for (int f = 0; f < KEPT; f++)                                                               \
        kept[f] = rest[f * 32];                                                                                    \
    FOR_STORED                                                                                                     \
    for (int i = me; i < (DIRECT ? 1 : BUFFERS * LINES); i += GROUP) /* what nobody sends stays 0 */               \
        lines[i] = (uint4)(0);
#if STORED
#define FOR_STORED                             \
    for (int f = 0; f < STORED; f++)           \
        stored[f * GROUP + me] = rest[(KEPT + f) * 32];
#else
#define FOR_STORED
#endif

/* When all of `own` is written: send the first states. */
#if TEAM > 1 && CLUSTER
#define START_TEAM                                                                                                 \
    if (me == 0) {                                                                                                 \
        for (int i = 0; i < 2; i++)                                                                                \
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; "                                                 \
                         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"                                  \
                         ::"r"(team.arrived + i * 8), "r"(SEQS * LINE_PIECES * 16) : "memory");                    \
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");                                         \
    }                                                                                                              \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");                    \
    team_send(team, own, lines, 0)
#else
#define START_TEAM                                                                                                 \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
    team_send(team, own, lines, 0)
#endif

/* For this work-item's units: e is one's place in the group, that of its sequence and of the unit there. */
#define FOR_PAIRS                                                                                                  \
    _Pragma("unroll") for (int p = 0; p < PAIRS; p++) {                                                            \
        const int e = me + p * GROUP, seq = e / UNITS, in_group = e % UNITS;                                       \
        const int u = member * UNITS + in_group, rank = begin + seq;                                               \
        if (UNITS * SEQS % GROUP == 0 || e < UNITS * SEQS) {
#define END }}
#define INSIDE (u < HIDDEN && rank < s.batch)

#define TEAM_ARGUMENTS                                                                                             \
    __global const uint4 *packed, long packed_offset, __global uint4 *passed, long passed_offset,                  \
    __global uint *counters, long counters_offset, __global const int *table, long table_offset, const mx_rnn s
#define TEAM_OFFSETS               \
    table += table_offset

#if !BACKWARD
KERNEL team_forward(__global STORAGE(T) *gates, long gates_offset, __global const STORAGE(T) *x_bias, long x_bias_offset,
                    __global const STORAGE(T) *r_bias, long r_bias_offset, __global STORAGE(T) *y, long y_offset,
                    __global STORAGE(T) *cells, long cells_offset, __global const STORAGE(T) *hx, long hx_offset,
                    __global const STORAGE(T) *cx, long cx_offset, __global STORAGE(T) *hy, long hy_offset,
                    __global STORAGE(T) *cy, long cy_offset, TEAM_ARGUMENTS)
{
    TEAM_OFFSETS;
    gates += gates_offset;
    x_bias += x_bias_offset;
    r_bias += r_bias_offset;
    y += y_offset;
    cells += cells_offset;
    hx += hx_offset;
    cx += cx_offset;
    hy += hy_offset;
    cy += cy_offset;
    BEGIN_TEAM
    float h[PAIRS], c[PAIRS], x[PAIRS][GATES], r[PAIRS][GATES], x_b[PAIRS][GATES];
#if CELL == 3
    float r_b[PAIRS];
#endif
    FOR_PAIRS
        h[p] = c[p] = 0;
        for (int g = 0; g < GATES; g++)
            x_b[p][g] = 0;
#if CELL == 3
        r_b[p] = 0;
#endif
        if (INSIDE) {
            const long from = STATE_OF(dir, rank) + u;
            if (HAS_H)
                h[p] = LOAD(T)(hx, from);
            if (HAS_C && CELL == 2)
                c[p] = LOAD(T)(cx, from);
#if BIAS
            float more[GATES];
            read_bias(x_b[p], x_bias, s, dir, u);
            read_bias(more, r_bias, s, dir, u);
#if CELL == 3
            r_b[p] = more[2];
            more[2] = 0; /* it is multiplied by another gate */
#endif
            for (int g = 0; g < GATES; g++)
                x_b[p][g] += more[g];
#endif
        }
        team_own(own, seq * CHUNK + in_group, h[p]);
    END
    START_TEAM;
    const int steps = (int)s.steps;
    int t = dir ? steps - 1 : 0;
    long count = ROWS_OF(t), base = FIRST_ROW(t);
    FOR_PAIRS
        if (u < HIDDEN && rank < count)
            read_x(x[p], gates, s, dir, base + rank, u);
    END
    for (int i = 0; i < steps; i++) {
        const int next_t = dir ? t - 1 : t + 1;
        const long next_count = ROWS_OF(next_t), next_base = i + 1 < steps ? FIRST_ROW(next_t) : 0;
        team_wait(team, i);
        team_multiply(team, lines, kept, STORED_AT, rest, part, i);
        barrier(CLK_LOCAL_MEM_FENCE);
        FOR_PAIRS
            if (u < HIDDEN && rank < count) {
                for (int g = 0; g < GATES; g++)
                    r[p][g] = team_sum(part, seq, in_group * GATES + g);
#if CELL == 3
                r[p][2] += r_b[p];
#endif
                for (int g = 0; g < GATES; g++)
                    x[p][g] += x_b[p][g];
                h[p] = cell_forward(x[p], r[p], h[p], &c[p]);
                team_own(own, seq * CHUNK + in_group, h[p]);
            }
        END
        if (i + 1 < steps) {
            barrier(CLK_LOCAL_MEM_FENCE);
            team_send(team, own, lines, i + 1);
        }
        FOR_PAIRS
            if (u < HIDDEN && rank < count)
                keep_forward(x[p], r[p], h[p], c[p], gates, y, cells, s, dir, base + rank, u);
            if (u < HIDDEN && rank < next_count)
                read_x(x[p], gates, s, dir, next_base + rank, u);
        END
        t = next_t, count = next_count, base = next_base;
    }
    FOR_PAIRS
        if (INSIDE) {
            const long to = STATE_OF(dir, rank) + u;
            if (TO_H)
                STORE(T)(hy, to, h[p]);
            if (TO_C && CELL == 2)
                STORE(T)(cy, to, c[p]);
        }
    END
}
#else
KERNEL team_backward(__global const STORAGE(T) *dy, long dy_offset, __global const STORAGE(T) *y, long y_offset,
                     __global const STORAGE(T) *gates, long gates_offset, __global const STORAGE(T) *cells,
                     long cells_offset, __global STORAGE(T) *deltas, long deltas_offset, __global STORAGE(T) *inner,
                     long inner_offset, __global const STORAGE(T) *first, long first_offset,
                     __global const STORAGE(T) *dhy, long dhy_offset, __global const STORAGE(T) *dcy, long dcy_offset,
                     __global STORAGE(T) *dhx, long dhx_offset, __global STORAGE(T) *dcx, long dcx_offset, TEAM_ARGUMENTS)
{
    TEAM_OFFSETS;
    dy += dy_offset;
    y += y_offset;
    gates += gates_offset;
    cells += cells_offset;
    deltas += deltas_offset;
    inner += inner_offset;
    first += first_offset;
    dhy += dhy_offset;
    dcy += dcy_offset;
    dhx += dhx_offset;
    dcx += dcx_offset;
    BEGIN_TEAM
    float direct[PAIRS], dc[PAIRS], delta[PAIRS][GATES], more[PAIRS];
    mx_backward in[PAIRS];
    FOR_PAIRS
        direct[p] = dc[p] = 0;
        if (INSIDE) {
            const long from = STATE_OF(dir, rank) + u;
            if (HAS_H)
                direct[p] = LOAD(T)(dhy, from);
            if (HAS_C && CELL == 2)
                dc[p] = LOAD(T)(dcy, from);
        }
        for (int g = 0; g < GATES; g++)
            team_own(own, seq * CHUNK + g * UNITS + in_group, 0);
    END
    START_TEAM;
    const int steps = (int)s.steps;
    int t = dir ? 0 : steps - 1;
    long count = ROWS_OF(t), base = FIRST_ROW(t);
    FOR_PAIRS
        if (u < HIDDEN && rank < count)
            in[p] = read_row(dy, y, gates, cells, first, table, s, dir, t, rank, base + rank, u);
    END
    for (int i = 0; i < steps; i++) {
        const int next_t = dir ? t + 1 : t - 1;
        const long next_count = ROWS_OF(next_t), next_base = i + 1 < steps ? FIRST_ROW(next_t) : 0;
        team_wait(team, i);
        team_multiply(team, lines, kept, STORED_AT, rest, part, i);
        barrier(CLK_LOCAL_MEM_FENCE);
        FOR_PAIRS
            if (u < HIDDEN && rank < count) {
#if CELL == 2
                in[p].dc = dc[p];
#endif
                cell_backward(&in[p], in[p].dh + direct[p] + team_sum(part, seq, in_group), delta[p], &direct[p], &more[p]);
#if CELL == 2
                dc[p] = more[p];
#endif
                for (int g = 0; g < GATES; g++)
                    team_own(own, seq * CHUNK + g * UNITS + in_group, CELL == 3 && g == 2 ? more[p] : delta[p][g]);
            }
        END
        if (i + 1 < steps || TO_H) {
            barrier(CLK_LOCAL_MEM_FENCE);
            team_send(team, own, lines, i + 1);
        }
        FOR_PAIRS
            if (u < HIDDEN && rank < count)
                keep_backward(delta[p], more[p], deltas, inner, s, dir, base + rank, u);
            if (u < HIDDEN && rank < next_count)
                in[p] = read_row(dy, y, gates, cells, first, table, s, dir, next_t, rank, next_base + rank, u);
        END
        t = next_t, count = next_count, base = next_base;
    }
#if TO_H
    team_wait(team, steps);
    team_multiply(team, lines, kept, STORED_AT, rest, part, steps);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    FOR_PAIRS
        if (INSIDE) {
            const long to = STATE_OF(dir, rank) + u;
#if TO_H
            STORE(T)(dhx, to, direct[p] + team_sum(part, seq, in_group));
#endif
            if (TO_C && CELL == 2)
                STORE(T)(dcx, to, dc[p]);
        }
    END
}
#endif
