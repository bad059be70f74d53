/* The gradient of a bias: b = alpha * (sum of y) + beta * b, summed over the axes that b lacks.
 *
 *   y:  part 0  | line | line | line |   A sum is cut into `parts`, ranges of lines.  With several parts their sums go
 *       to part 1  | line | line | line |   the workspace, partial[part][element of b], and bias_finish adds them.
 *
 *   y has any five axes and strides, as mx_bias_sums describes it: `k` is the innermost axis that is kept, `rest` are
 *   the other ones, `m` is the innermost axis where that is summed (else 1), `lines` are the other summed ones, each
 *   cut into `pieces` of m.
 *
 * Grid:         bias_backward  ROWS = 1, CPUs, local size 1: a work-item sums `block` of k over a part, in the order of
 *                              memory; global parts * rest * blocks
 *                              ROWS = 0, GPUs: a work-group of LOCAL does; global LOCAL * parts * rest * blocks; parts
 *                              are ranges of vectors of all lines, one behind the other; there are no pieces; block:
 *                              LANES = 0: 1 or a power of two, LANES = 1: VEC times that
 *               bias_finish    ROWS = 1: a work-item adds the parts of some elements of b; global: any
 *                              ROWS = 0: a work-group of LOCAL adds those of WIDE; global ceil(elements / WIDE) * LOCAL
 * Local memory: ROWS = 0: LOCAL elements of own_t, or of ACC; else none.
 * Parameters:   Y_TYPE, B_TYPE, ROWS, LOCAL, LANES, VEC, SETS, SUM, below.
 * Bound by:     memory: y is read once.
 * The order of the sums is fixed.  It is a tree: lanes or work-items, then parts, so that errors stay small.
 */
#ifndef Y_TYPE /* storage type of y (dy) */
#define Y_TYPE float
#endif
#ifndef B_TYPE /* storage type of b (db) */
#define B_TYPE Y_TYPE
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 small ones */
#define ROWS 0
#endif
#ifndef LOCAL /* work-items in a group of bias_backward (ROWS = 0), a power of two, at least 32 */
#define LOCAL 256
#endif
#ifndef LANES /* GPUs: 1 vectors are of k, 0: of m */
#define LANES 0
#endif
#ifndef VEC /* elements that are loaded at a time; on GPUs lines of m, or of k, are made of such */
#if ROWS
#define VEC 16
#else
#define VEC 1
#endif
#endif
#ifndef SETS /* vectors that a work-item of a GPU has under way */
#define SETS 8
#endif
#ifndef SUM /* type of long sums; CPUs: ACC */
#define SUM ACC
#endif
#define MOST_SHORT 64 /* elements of a row that a CPU does not read by itself */
#include "include/common.h"

#if !MX_IS_STORAGE(Y_TYPE) || !MX_IS_STORAGE(B_TYPE)
#error "Y_TYPE and B_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif
#if LOCAL < 1 || (LOCAL & (LOCAL - 1)) != 0
#error "LOCAL must be a power of two"
#endif

#include "layers/bias_args.h"

/* The offset of element e of b. */
static inline long b_place(const mx_bias_sums s, long e)
{
    return mx_grid_offset(s.rest, 1, e / s.k) + e % s.k * s.k_b;
}

#if ROWS

typedef MX_JOIN(ACC, VEC) accs_t;
#define TO_ACCS MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOADS(i) TO_ACCS(VLOAD(Y_TYPE)(y, i))

/* Where a line begins, of which there is mostly a single axis. */
static inline long line_place(const mx_bias_sums s, long line)
{
    if (s.line_count == s.lines.len[3])
        return line * s.lines.stride[0][3];
    return mx_grid_offset(s.lines, 0, line);
}

/* The sum of n elements. */
static inline ACC row_sum(__global const STORAGE(Y_TYPE) *y, long at, long step, long n)
{
    ACC sum = 0;
    long i = 0;
    if (step == 1 && n >= VEC) {
        accs_t lanes = LOADS(at);
        for (i = VEC; i + VEC <= n; i += VEC)
            lanes += LOADS(at + i);
        const MX_JOIN(ACC, 8) eight = lanes.lo + lanes.hi;
        const MX_JOIN(ACC, 4) four = eight.lo + eight.hi;
        const MX_JOIN(ACC, 2) two = four.lo + four.hi;
        sum = two.x + two.y;
    }
    for (; i < n; i++)
        sum += (ACC)LOAD(Y_TYPE)(y, at + i * step);
    return sum;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bias_backward(
    __global STORAGE(B_TYPE) *restrict b, long b_offset, __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    __global ACC *restrict sums, long sums_offset, const mx_bias_sums s, const SCALAR alpha, const SCALAR beta)
{
    const long unit = get_group_id(0), part = unit / (s.rest_count * s.blocks);
    const long rest = unit / s.blocks % s.rest_count, first = unit % s.blocks * s.block;
    const long n = min(s.block, s.k - first), units = s.line_count * s.pieces;
    const long start = y_offset + mx_grid_offset(s.rest, 0, rest) + first * s.k_y;
    __global ACC *sum = sums + sums_offset + (part * s.rest_count + rest) * s.k + first;
    long line = part * units / s.parts;
    const long end = (part + 1) * units / s.parts;
    for (long k = 0; k < n; k++)
        sum[k] = 0;
    if (s.m == 1) {
        /* Short rows one behind the other: lanes have the same k again after VEC rows. */
        if (s.k_y == 1 && n == s.k && n < MOST_SHORT && n % VEC != 0 && s.line_count == s.lines.len[3] &&
            s.lines.stride[0][3] == n && end - line >= 4 * VEC) {
            ACC lane[MOST_SHORT * VEC];
            for (long i = 0; i < n * VEC; i++)
                lane[i] = 0;
            for (; line + VEC <= end; line += VEC)
                for (long i = 0; i < n * VEC; i += VEC) {
                    const accs_t lanes = MX_JOIN(vload, VEC)(0, lane + i) + LOADS(start + line * n + i);
                    MX_JOIN(vstore, VEC)(lanes, 0, lane + i);
                }
            for (long i = 0; i < n * VEC; i++)
                sum[i % n] += lane[i];
        }
        /* Rows along k; four of them are read between two visits of the sums. */
        for (; line + 4 <= end; line += 4) {
            const long y0 = start + line_place(s, line);
            const long y1 = start + line_place(s, line + 1);
            const long y2 = start + line_place(s, line + 2);
            const long y3 = start + line_place(s, line + 3);
            long k = 0;
            if (s.k_y == 1)
                for (; k + VEC <= n; k += VEC) {
                    const accs_t four = (LOADS(y0 + k) + LOADS(y1 + k)) + (LOADS(y2 + k) + LOADS(y3 + k));
                    MX_JOIN(vstore, VEC)(MX_JOIN(vload, VEC)(0, sum + k) + four, 0, sum + k);
                }
            for (; k < n; k++) {
                const long i = k * s.k_y;
                sum[k] += ((ACC)LOAD(Y_TYPE)(y, y0 + i) + (ACC)LOAD(Y_TYPE)(y, y1 + i)) +
                          ((ACC)LOAD(Y_TYPE)(y, y2 + i) + (ACC)LOAD(Y_TYPE)(y, y3 + i));
            }
        }
        for (; line < end; line++) {
            const long from = start + line_place(s, line);
            for (long k = 0; k < n; k++)
                sum[k] += (ACC)LOAD(Y_TYPE)(y, from + k * s.k_y);
        }
    } else
        for (; line < end; line++) {
            const long skipped = line % s.pieces * s.piece, count = min(s.piece, s.m - skipped);
            const long from = start + line_place(s, line / s.pieces) + skipped * s.m_y;
            for (long k = 0; k < n; k++)
                sum[k] += row_sum(y, from + k * s.k_y, s.m_y, count);
        }
    if (s.parts == 1)
        for (long k = 0; k < n; k++) {
            const long to = b_offset + b_place(s, rest * s.k + first + k);
            STORE_MIXED(B_TYPE, b, to, sum[k], alpha, beta);
        }
}

#else

#include "include/gpu_vectors.h"

#define WIDE 8

/* A few elements are summed in ACC, these sums in SUM: conversions between floats and doubles are slow. */
typedef MX_V(SUM) sum_t;
#define TO_SUM MX_V(MX_JOIN(convert_, SUM))

/* What a work-item sums, and how many elements of m a vector has. */
#if LANES
typedef sum_t own_t;
#define OWN VEC
#define ALONG 1
#else
typedef SUM own_t;
#define OWN 1
#define ALONG VEC
#endif

/* Where a work-item reads: x counts vectors of m. */
typedef struct {
    INDEX line, x;
    INDEX row;               /* vectors of a line */
    INDEX step_line, step_x; /* from one to the next */
} place;

static inline long next_place(const mx_bias_sums *s, place *p)
{
    long at = p->x * (INDEX)(ALONG * s->m_y);
    if (s->line_count == s->lines.len[3])
        at += p->line * (INDEX)s->lines.stride[0][3];
    else {
        INDEX left = p->line;
#pragma unroll
        for (int axis = 3; axis >= 0; axis--) {
            const INDEX len = (INDEX)s->lines.len[axis];
            if (len > 1) {
                at += left % len * s->lines.stride[0][axis];
                left /= len;
            }
        }
    }
    p->x += p->step_x;
    p->line += p->step_line;
    if (p->x >= p->row) {
        p->x -= p->row;
        p->line++;
    }
    return at;
}

/* The sum of every `height`-th vector of [from, to). */
static inline own_t sum_vectors(const mx_bias_sums *s, __global const STORAGE(Y_TYPE) *y, INDEX from, INDEX to,
                              int height, const bool aligned)
{
    sum_t sum = 0;
    place p;
    p.row = (INDEX)(s->m / ALONG);
    p.line = from / p.row;
    p.x = from - p.line * p.row;
    p.step_line = height / p.row;
    p.step_x = height - p.step_line * p.row;
    INDEX left = from < to ? (to - from + height - 1) / height : 0;
    for (; left > 0; left -= SETS) {
        MX_RAW(Y_TYPE) several[SETS];
        vec_t few = 0;
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (i < left)
                several[i] = MX_RAW_LOAD(Y_TYPE, y + next_place(s, &p), aligned);
#pragma unroll
        for (int i = 0; i < SETS; i++)
            if (i < left)
                few += MX_WIDE(Y_TYPE, several[i]);
        sum += TO_SUM(few);
    }
#if LANES
    return sum;
#else
    SUM all = 0;
#pragma unroll
    for (int lane = 0; lane < VEC; lane++)
        all += ((const SUM *)&sum)[lane];
    return all;
#endif
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bias_backward(
    __global STORAGE(B_TYPE) *restrict b, long b_offset, __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    __global SUM *restrict sums, long sums_offset, const mx_bias_sums s, const SCALAR alpha, const SCALAR beta)
{
    __local own_t partial[LOCAL];
    const int me = get_local_id(0), width = (int)s.block / OWN, height = LOCAL / width;
    const uint unit = get_group_id(0), blocks = (uint)s.blocks, units = (uint)(s.rest_count * s.blocks);
    const long part = unit / units, rest = unit / blocks % (uint)s.rest_count;
    const long k = unit % blocks * s.block + me % width * OWN;
    const long vectors = s.line_count * (s.m / ALONG);
    const INDEX from = (INDEX)(part * vectors / s.parts) + me / width, to = (INDEX)((part + 1) * vectors / s.parts);
    own_t sum = 0;
    if (k < s.k) {
        y += y_offset + mx_grid_offset(s.rest, 0, rest) + k * s.k_y;
        if (VEC > 1 && MX_ALIGNED(y))
            sum = sum_vectors(&s, y, from, to, height, true);
        else
            sum = sum_vectors(&s, y, from, to, height, false);
    }
    partial[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way >= width; half_way /= 2) {
        if (me < half_way)
            partial[me] += partial[me + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me < width && k < s.k) {
        const long e = rest * s.k + k;
        sum = partial[me];
#pragma unroll
        for (int lane = 0; lane < OWN; lane++) {
            const SUM one = ((const SUM *)&sum)[lane];
            if (s.parts == 1) {
                const long to_b = b_offset + b_place(s, e + lane);
                STORE_MIXED(B_TYPE, b, to_b, one, alpha, beta);
            } else
                sums[sums_offset + part * s.rest_count * s.k + e + lane] = one;
        }
    }
}

#endif

#if ROWS
__kernel void bias_finish(__global STORAGE(B_TYPE) *restrict b, long b_offset, __global const SUM *restrict sums,
                          long sums_offset, const mx_bias_sums s, const SCALAR alpha, const SCALAR beta)
{
    const long count = s.rest_count * s.k;
    for (long e = get_global_id(0); e < count; e += get_global_size(0)) {
        SUM sum = 0;
        for (long part = 0; part < s.parts; part++)
            sum += sums[sums_offset + part * count + e];
        const long to = b_offset + b_place(s, e);
        STORE_MIXED(B_TYPE, b, to, sum, alpha, beta);
    }
}
#else
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bias_finish(
    __global STORAGE(B_TYPE) *restrict b, long b_offset, __global const SUM *restrict sums, long sums_offset,
    const mx_bias_sums s, const SCALAR alpha, const SCALAR beta)
{
    __local SUM partial[LOCAL];
    const int me = get_local_id(0);
    const long count = s.rest_count * s.k, e = (long)get_group_id(0) * WIDE + me % WIDE;
    SUM sum = 0;
    if (e < count)
        for (long part = me / WIDE; part < s.parts; part += LOCAL / WIDE)
            sum += sums[sums_offset + part * count + e];
    partial[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way >= WIDE; half_way /= 2) {
        if (me < half_way)
            partial[me] += partial[me + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me < WIDE && e < count) {
        const long to = b_offset + b_place(s, e);
        STORE_MIXED(B_TYPE, b, to, partial[me], alpha, beta);
    }
}
#endif
