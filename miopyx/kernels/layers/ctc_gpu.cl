/* CTC loss on GPUs: a work-group has a sample's paths in one direction, or a step of a sample.
 *
 * Grid:         ctc_sums and ctc_gradient: a work-group of LOCAL for each step of each sample; ctc_paths: of LOCAL for
 *               each sample and direction.
 * Local memory: LOCAL numbers; ctc_paths with HELD = 1 two rows more, of 2 SIDE numbers each.
 * Parameters:   T, SOFTMAX, ACC, LOCAL, HELD, SIDE, below.
 * Bound by:     ctc_sums and ctc_gradient by memory; ctc_paths by the barriers of its steps, one behind the other.
 */
#ifndef LOCAL /* work-items of a group, a power of two */
#define LOCAL 256
#endif
#ifndef HELD /* 1: the rows of two steps are in local memory, 0: in the workspace */
#define HELD 0
#endif
#ifndef SIDE /* numbers of half a row, where HELD */
#define SIDE 16
#endif
#define SHIFTED 8 /* steps after which rows are shifted */
#include "layers/ctc.h"
#include "include/group_inline.h"

#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void

static inline ACC log_sum(ACC a, ACC b, ACC c)
{
    const ACC most = fmax(fmax(a, b), c), base = most == NOWHERE ? 0 : most;
    return base + log(exp(a - base) + exp(b - base) + exp(c - base));
}

GROUP_INLINE ACC group_largest(__local ACC *lane, int me, ACC value)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    lane[me] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int far = LOCAL / 2; far > 0; far /= 2) {
        if (me < far)
            lane[me] = fmax(lane[me], lane[me + far]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return lane[0];
}

GROUP_INLINE ACC group_total(__local ACC *lane, int me, ACC value)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    lane[me] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int far = LOCAL / 2; far > 0; far /= 2) {
        if (me < far)
            lane[me] += lane[me + far];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return lane[0];
}

KERNEL ctc_sums(ARGUMENTS)
{
    __local ACC lane[LOCAL];
    const long unit = get_group_id(0), n = unit / s.steps, t = unit % s.steps, c = s.x_stride[2];
    const int me = get_local_id(0);
    OFFSETS;
    if (t >= STEPS(n))
        return; /* the whole group */
    x += t * s.x_stride[0] + n * s.x_stride[1];
    ACC most = NOWHERE, sum = 0, rest = 0;
    for (long i = me; i < s.classes; i += LOCAL)
        most = fmax(most, (ACC)LOAD(T)(x, i * c));
    const ACC top = group_largest(lane, me, most);
    for (long i = me; i < s.classes;) {
        ACC some = 0;
        for (const long end = min(i + (long)BLOCK_TERMS * LOCAL, s.classes); i < end; i += LOCAL)
            some += exp((ACC)LOAD(T)(x, i * c) - top);
        MX_TWO_SUM(ACC, sum, rest, some);
    }
    sum = group_total(lane, me, sum + rest);
    if (me == 0)
        space[s.sums + unit] = top + log(sum);
}

KERNEL ctc_paths(ARGUMENTS)
{
    __local ACC lane[LOCAL];
#if HELD
    __local ACC held[4 * SIDE];
#define HELD_SPACE __local
#define FENCE CLK_LOCAL_MEM_FENCE
    const long side = SIDE;
#else
#define HELD_SPACE __global
#define FENCE (CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
    const long side = s.side;
#endif
    const long unit = get_group_id(0), n = unit / 2;
    const int me = get_local_id(0);
    const bool on = unit % 2 == 0;
    OFFSETS;
    const long steps = STEPS(n), count = COUNT(n), c = s.x_stride[2];
    __global const int *labels = LABELS(n);
    __global ACC *rows = space + (on ? s.before : s.after) + n * s.steps * ROW;
#if !HELD
    __global ACC *held = space + s.held + unit * 2 * ROW;
#endif
    for (long i = me; i <= count; i += LOCAL) {
        held[i] = i == (on ? 0 : count) ? BEGIN(n) : NOWHERE;
        held[side + i] = NOWHERE;
    }
    ACC shift = 0, sum = 0, rest = 0;
    for (long k = 0; k < steps; k++) {
        const long t = on ? k : steps - 1 - k, at = t * s.x_stride[0] + n * s.x_stride[1];
        HELD_SPACE const ACC *from = held + k % 2 * 2 * side;
        HELD_SPACE ACC *to = held + (1 - k % 2) * 2 * side;
        __global ACC *row = rows + t * ROW;
        const ACC less = LOG_SUM(n, t) + shift, blank = (ACC)LOAD(T)(x, at + s.blank * c) - less;
        ACC most = NOWHERE;
        barrier(FENCE);
        for (long i = me; i <= count; i += LOCAL) {
            const long other = on ? i - 1 : i + 1;
            const bool label = i < count, passes = other >= 0 && other < count;
            const ACC b = from[i], a = label ? from[side + i] : NOWHERE, a1 = passes ? from[side + other] : NOWHERE;
            const int mine = label ? CLASS(labels[i]) : 0;
            const ACC to_blank = log_sum(b, on ? a1 : a, NOWHERE);
            const ACC to_label = label ? log_sum(a, on ? b : from[i + 1],
                                                 passes && mine != labels[other] ? a1 : NOWHERE) : NOWHERE;
            const ACC new_b = to_blank + blank;
            const ACC new_a = label ? to_label + ((ACC)LOAD(T)(x, at + mine * c) - less) : NOWHERE;
            to[i] = new_b;
            to[side + i] = new_a;
            row[i] = on ? new_b : to_blank;
            row[s.side + i] = on ? new_a : to_label;
            most = fmax(most, fmax(new_a, new_b));
        }
        MX_TWO_SUM(ACC, sum, rest, shift);
        shift = 0;
        if (k % SHIFTED == SHIFTED - 1) {
            shift = group_largest(lane, me, most);
            shift = shift == NOWHERE ? 0 : shift;
        }
    }
    barrier(FENCE);
    if (on && me == 0) {
        HELD_SPACE const ACC *last = held + steps % 2 * 2 * side;
        const ACC end = log_sum(last[count], count > 0 ? last[side + count - 1] : NOWHERE, NOWHERE);
        STORE(T)(losses, n, -((sum + rest) + end));
    }
}

KERNEL ctc_gradient(ARGUMENTS)
{
    __local ACC lane[LOCAL];
    const long unit = get_group_id(0), n = unit / s.steps, t = unit % s.steps, c = s.x_stride[2], dc = s.dx_stride[2];
    const int me = get_local_id(0);
    OFFSETS;
    const long count = COUNT(n), side = s.side;
    __global const int *labels = LABELS(n), *links = LINKS(n);
    __global ACC *row = space + s.before + unit * ROW, *after = space + s.after + unit * ROW;
    x += t * s.x_stride[0] + n * s.x_stride[1];
    dx += t * s.dx_stride[0] + n * s.dx_stride[1];
    if (t >= STEPS(n)) {
        for (long i = me; i < s.classes; i += LOCAL)
            STORE(T)(dx, i * dc, (ACC)0);
        return; /* the whole group */
    }
    const ACC less = LOG_SUM(n, t);
    ACC most = NOWHERE, blanks = 0, others = 0;
    for (long i = me; i <= count; i += LOCAL) {
        most = fmax(most, row[i] + after[i]);
        if (i < count)
            most = fmax(most, row[side + i] + after[side + i]);
    }
    const ACC top = group_largest(lane, me, most);
    for (long i = me; i <= count; i += LOCAL) {
        blanks += exp(row[i] + after[i] - top);
        if (i < count)
            others += row[side + i] = exp(row[side + i] + after[side + i] - top);
    }
    blanks = group_total(lane, me, blanks);
    const ACC all = group_total(lane, me, others) + blanks, none = NO_PATH(all);
    for (long i = me; i < s.classes; i += LOCAL)
        STORE(T)(dx, i * dc, none + (SOFTMAX ? exp((ACC)LOAD(T)(x, i * c) - less) : (ACC)0));
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (me == 0) {
        const ACC e = (ACC)LOAD(T)(x, s.blank * c) - less;
        STORE(T)(dx, s.blank * dc, GRADIENT(e, blanks / all) + none);
    }
    for (long l = me; l < count; l += LOCAL) {
        if (links[l] % 2 == 0)
            continue;
        ACC sure = 0;
        for (long next = l; next >= 0; next = NEXT(links[next], next))
            sure += row[side + next];
        const ACC e = (ACC)LOAD(T)(x, CLASS(labels[l]) * c) - less;
        STORE(T)(dx, CLASS(labels[l]) * dc, GRADIENT(e, sure / all) + none);
    }
}
