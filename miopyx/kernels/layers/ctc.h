/* What layers/ctc_cpu.cl and layers/ctc_gpu.cl share: the CTC loss and its gradient.
 *
 * The states of a sample with labels l[0] ... l[L - 1] are blank l[0] blank l[1] ... l[L - 1] blank; a row has the L + 1
 * blanks, then the labels.  With e the logarithm of a state's probability at a step, all of it logarithms:
 *
 *   before[t][s] = e[t][s] + log of the sum of before[t - 1] over s and the states that s follows
 *   after[t][s]  =           log of the sum of after[t + 1] + e[t + 1] over s and the states that follow s
 *   loss         = -log of the sum of before[T - 1] over the last two states
 *
 * A label follows its blank, the blank before and, where that is another one, the label before.  Before the first step
 * there is the first blank, behind the last step the last one.  Rows are kept near 0: what is subtracted from a row
 * (its largest number, of a step or of the last few) is kept in a total.  So numbers that count are small, and their
 * roundings too.  Whatever was subtracted, at a step
 *
 *   P(state s at t) = softmax over s of before[t][s] + after[t][s]
 *
 * and dx = softmax(x) - P(class at t), or, where x is the logarithm of probabilities y, -P(class at t) / y: the gradient
 * for y, as MIOpen has it.
 *
 * Table: for each sample its steps, its labels' number, the mark of the problem that it was made for, the labels, and for
 * each label where the next equal one is: 2 (place + 1) or 0, and 1 more where no earlier one is equal.  Where the mark
 * is another one, a sample has no labels and every path begins with NaN.
 */
#ifndef T /* storage type of x, dx and losses */
#define T float
#endif
#ifndef SOFTMAX /* 1: x are numbers whose softmax the probabilities are, 0: their logarithms */
#define SOFTMAX 1
#endif
#include "include/common.h"
#include "layers/ctc_args.h"

#if !MX_IS_STORAGE(T)
#error "T must be half, float, double or bfloat16"
#endif

#define ARGUMENTS                                                                                                    \
    __global const STORAGE(T) *x, long x_offset, __global const int *table, long table_offset,                      \
    __global STORAGE(T) *losses, long losses_offset, __global STORAGE(T) *dx, long dx_offset, __global ACC *space,  \
    long space_offset, const mx_ctc_shape s
#define OFFSETS                                  \
    x += x_offset;                               \
    table += table_offset;                       \
    losses += losses_offset;                     \
    dx += dx_offset;                             \
    space += space_offset

/* A plan's table may hold anything: nothing beyond the tensors is read or written. */
#define LINE(n) (table + (n) * (3 + 2 * s.labels))
#define FITS(n) (LINE(n)[2] == s.mark)
#define STEPS(n) (FITS(n) ? clamp(LINE(n)[0], 0, (int)s.steps) : (int)s.steps)
#define COUNT(n) (FITS(n) ? clamp(LINE(n)[1], 0, (int)s.labels) : 0)
#define BEGIN(n) (FITS(n) ? (ACC)0 : (ACC)NAN)
#define CLASS(label) clamp(label, 0, (int)s.classes - 1)
#define NEXT(link, l) ((link) / 2 - 1 > (l) && (link) / 2 - 1 < count ? (link) / 2 - 1 : -1)
#define LABELS(n) (LINE(n) + 3)
#define LINKS(n) (LABELS(n) + s.labels)
#define ROW (2 * s.side)
#define NOWHERE (-(ACC)INFINITY)
#define LOG_SUM(n, t) (SOFTMAX ? space[s.sums + (n) * s.steps + (t)] : (ACC)0)

/* What gradients are where no path goes through, of whose sum of weights that is NaN; else 0.  Not all * 0, which Mesa's
 * compiler takes for 0. */
#define NO_PATH(all) (isnan(all) ? (ACC)NAN : (ACC)0)

/* The gradient of a class with probability y = e^e, of whose states are sure by `sure`. */
#define GRADIENT(e, sure) (SOFTMAX ? exp(e) - (sure) : (sure) > 0 ? -(sure) * exp(-(e)) : (ACC)0)
