/* CTC loss on CPUs, local size 1: vectors along states and classes.
 *
 * Grid:         ctc_sums: any, a work-item has some steps of some samples; ctc_paths: 2 samples, from the first step on
 *               and from the last one; ctc_gradient: any, a work-item has some steps.
 * Local memory: none.
 * Parameters:   T, SOFTMAX, ACC, VEC (16, of doubles 8).
 * Bound by:     ctc_sums and ctc_gradient by memory, ctc_paths by logarithms and powers.
 */
#include "layers/ctc.h"

#define V MX_JOIN(ACC, VEC)
#define VJOIN(name) MX_JOIN(name, VEC)
#define TO_V MX_JOIN(convert_, V)
#if VEC == 16
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define LANES ((VI)(0, 1, 2, 3, 4, 5, 6, 7))
#endif
#if MX_TYPE(ACC) == MX_TYPE_double
typedef MX_JOIN(long, VEC) VI;
#define I long
#else
typedef MX_JOIN(int, VEC) VI;
#define I int
#endif
#define GET(p, i) VJOIN(vload)(0, (p) + (i))
#define PUT(p, i, v) VJOIN(vstore)(v, 0, (p) + (i))
#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void

static inline ACC largest(V v)
{
    ACC lane[VEC], most = NOWHERE;
    PUT(lane, 0, v);
    for (int i = 0; i < VEC; i++)
        most = fmax(most, lane[i]);
    return most;
}

static inline ACC total(V v)
{
    ACC lane[VEC], sum = 0;
    PUT(lane, 0, v);
    for (int i = 0; i < VEC; i++)
        sum += lane[i];
    return sum;
}

/* log(e^a + e^b + e^c) */
static inline V log_sum(V a, V b, V c)
{
    const V most = fmax(fmax(a, b), c), base = most == NOWHERE ? (V)0 : most;
    return base + log(exp(a - base) + exp(b - base) + exp(c - base));
}

/* A row of x as numbers that follow one another: `count` of them from class i on, those beyond the last are -infinity. */
static inline V classes_at(__global const STORAGE(T) *x, long step, long i, long count)
{
    if (step == 1 && count >= VEC)
        return TO_V(VLOAD(T)(x, i));
    ACC lane[VEC];
    for (int j = 0; j < VEC; j++)
        lane[j] = j < count ? (ACC)LOAD(T)(x, (i + j) * step) : NOWHERE;
    return GET(lane, 0);
}

KERNEL ctc_sums(ARGUMENTS)
{
    const long units = s.samples * s.steps, me = get_group_id(0), groups = get_num_groups(0);
    OFFSETS;
    for (long unit = me * units / groups; unit < (me + 1) * units / groups; unit++) {
        const long n = unit / s.steps, t = unit % s.steps, c = s.x_stride[2];
        if (t >= STEPS(n))
            continue;
        __global const STORAGE(T) *row = x + t * s.x_stride[0] + n * s.x_stride[1];
        V most = (V)NOWHERE, sum = (V)0, rest = (V)0;
        for (long i = 0; i < s.classes; i += VEC)
            most = fmax(most, classes_at(row, c, i, s.classes - i));
        const ACC top = largest(most);
        for (long i = 0; i < s.classes;) {
            V some = (V)0;
            for (const long end = min(i + BLOCK_TERMS * VEC, s.classes); i < end; i += VEC)
                some += exp(classes_at(row, c, i, s.classes - i) - top);
            MX_TWO_SUM(V, sum, rest, some);
        }
        space[s.sums + unit] = top + log(total(sum + rest));
    }
}

KERNEL ctc_paths(ARGUMENTS)
{
    const long unit = get_group_id(0), n = unit / 2, side = s.side;
    const bool on = unit % 2 == 0; /* from the first step on */
    OFFSETS;
    const long steps = STEPS(n), count = COUNT(n);
    __global const int *labels = LABELS(n);
    __global ACC *rows = space + (on ? s.before : s.after) + n * s.steps * ROW;
    __global ACC *held = space + s.held + unit * 2 * ROW;
    for (long i = 0; i < side; i += VEC) {
        PUT(held, i, (V)NOWHERE);
        PUT(held, side + i, (V)NOWHERE);
    }
    held[on ? 0 : count] = BEGIN(n);
    ACC shift = 0, sum = 0, rest = 0;
    for (long k = 0; k < steps; k++) {
        const long t = on ? k : steps - 1 - k, at = t * s.x_stride[0] + n * s.x_stride[1], c = s.x_stride[2];
        __global const ACC *from = held + k % 2 * ROW;
        __global ACC *to = held + (1 - k % 2) * ROW, *row = rows + t * ROW;
        const ACC less = LOG_SUM(n, t) + shift;
        const V blank = (V)((ACC)LOAD(T)(x, at + s.blank * c) - less);
        V most = (V)NOWHERE;
        for (long i = 0; i <= count; i += VEC) {
            const VI place = (VI)(I)i + LANES;
            /* The other side's last number lies before its first one: it is no label's. */
            const V b = GET(from, i), a = GET(from, side + i);
            const V a1 = on ? (place > (I)0 ? GET(from, side + i - 1) : (V)NOWHERE) : GET(from, side + i + 1);
            ACC e[VEC], apart[VEC]; /* whether the label that is passed on to is another one */
            for (int j = 0; j < VEC; j++) {
                const long l = i + j, other = on ? l - 1 : l + 1;
                e[j] = l < count ? (ACC)LOAD(T)(x, at + CLASS(labels[l]) * c) - less : NOWHERE;
                apart[j] = l < count && other >= 0 && other < count && labels[l] != labels[other];
            }
            const V to_label = log_sum(a, on ? b : GET(from, i + 1), GET(apart, 0) != (ACC)0 ? a1 : (V)NOWHERE);
            const V to_blank = log_sum(b, on ? a1 : a, (V)NOWHERE);
            const V new_b = place <= (I)count ? to_blank + blank : (V)NOWHERE;
            const V new_a = place < (I)count ? to_label + GET(e, 0) : (V)NOWHERE;
            PUT(to, i, new_b);
            PUT(to, side + i, new_a);
            PUT(row, i, on ? new_b : to_blank);
            PUT(row, side + i, on ? new_a : to_label);
            most = fmax(most, fmax(new_a, new_b));
        }
        MX_TWO_SUM(ACC, sum, rest, shift);
        shift = largest(most);
        shift = shift == NOWHERE ? 0 : shift;
    }
    if (on) {
        __global const ACC *last = held + steps % 2 * ROW;
        const V end = log_sum((V)last[count], (V)(count > 0 ? last[side + count - 1] : NOWHERE), (V)NOWHERE);
        STORE(T)(losses, n, -((sum + rest) + end.s0));
    }
}

KERNEL ctc_gradient(ARGUMENTS)
{
    const long units = s.samples * s.steps, me = get_group_id(0), groups = get_num_groups(0), side = s.side;
    OFFSETS;
    for (long unit = me * units / groups; unit < (me + 1) * units / groups; unit++) {
        const long n = unit / s.steps, t = unit % s.steps, c = s.x_stride[2], count = COUNT(n), dc = s.dx_stride[2];
        __global const int *labels = LABELS(n), *links = LINKS(n);
        __global const STORAGE(T) *from = x + t * s.x_stride[0] + n * s.x_stride[1];
        __global STORAGE(T) *to = dx + t * s.dx_stride[0] + n * s.dx_stride[1];
        __global ACC *row = space + s.before + unit * ROW, *after = space + s.after + unit * ROW;
        const bool there = t < STEPS(n);
        const ACC less = there ? LOG_SUM(n, t) : 0;
        V most = (V)NOWHERE, blanks = (V)0, sum = (V)0;
        /* Beyond the last states the rows hold anything. */
#define WEIGHT(at, last) ((VI)(I)i + LANES < (I)(last) ? GET(row, (at) + i) + GET(after, (at) + i) : (V)NOWHERE)
        for (long i = 0; there && i <= count; i += VEC)
            most = fmax(most, fmax(WEIGHT(0, count + 1), WEIGHT(side, count)));
        const ACC top = largest(most);
        for (long i = 0; there && i <= count; i += VEC) {
            const V b = exp(WEIGHT(0, count + 1) - top), a = exp(WEIGHT(side, count) - top);
            PUT(row, side + i, a);
            blanks += b;
            sum += a + b;
        }
        const ACC all = total(sum), none = NO_PATH(all);
        long i = 0;
        if (dc == 1)
            for (; i + VEC <= s.classes; i += VEC) {
                V v = (V)0;
                if (there)
                    v = (V)none + (SOFTMAX ? exp(classes_at(from, c, i, VEC) - less) : (V)0);
                VSTORE(T)(to, i, v);
            }
        for (; i < s.classes; i++)
            STORE(T)(to, i * dc, there ? none + (SOFTMAX ? exp((ACC)LOAD(T)(from, i * c) - less) : 0) : 0);
        if (!there)
            continue;
        const ACC e = (ACC)LOAD(T)(from, s.blank * c) - less;
        STORE(T)(to, s.blank * dc, GRADIENT(e, total(blanks) / all) + none);
        for (long l = 0; l < count; l++) {
            if (links[l] % 2 == 0)
                continue;
            ACC sure = 0;
            for (long next = l; next >= 0; next = NEXT(links[next], next))
                sure += row[side + next];
            const ACC e1 = (ACC)LOAD(T)(from, CLASS(labels[l]) * c) - less;
            STORE(T)(to, CLASS(labels[l]) * dc, GRADIENT(e1, sure / all) + none);
        }
    }
}
