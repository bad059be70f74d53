/* What layers/elements_cpu.cl and layers/elements_gpu.cl share: operations that compute an element of each result from
 * an element of each operand.
 *
 *   WHAT                      reads              writes
 *   GLU                       a b                y = a s                        s = 1 / (1 + e^-b)
 *   GLU_BACKWARD              a b dy             da = dy s, db = dy a s (1 - s)
 *   PRELU_BACKWARD            x dy w             dx = x > 0 ? dy : w dy, term = x > 0 ? 0 : x dy
 *   SOFT_MARGIN               x t                y = log(1 + e^(-x t))
 *   SOFT_MARGIN_BACKWARD      x t dy             dx = -n0 dy t / (1 + e^(x t))
 *   ROPE                      x0 x1 c0 c1 s0 s1  y0 = x0 c0 - x1 s0, y1 = x1 c1 + x0 s1
 *   ROPE_BACKWARD             likewise           y0 = x0 c0 + x1 s1, y1 = x1 c1 - x0 s0
 *   ADAM                      p g m v (most)     p m v (most) (p in 16 bits)
 *   ADAM_TRANSFORMERS         p g m v            p m v (p in 16 bits)
 *
 * Adam's numbers: n0 rate, n1 1 - beta1, n2 1 - beta2, n3 weight decay, n4 epsilon, n5 the step's size, n6 what the root
 * of v is multiplied by.  With STEP_TYPE the last two come of a counter in memory; with FOUND_TYPE a number that is not 0
 * leaves everything as it was; with SCALE_TYPE gradients are divided by a number in memory.
 *
 * Operand k has the storage type T<k> and lies along rows as KIND<k> says.
 * Parameters of all: WHAT, INPUTS, COUNT, T0 ..., KIND0 ..., VEC, AMSGRAD, MAXIMIZE, ADAMW, CORRECT, HALVED, SCALE_TYPE,
 * FOUND_TYPE, STEP_TYPE, below.
 */
#define GLU 0
#define GLU_BACKWARD 1
#define PRELU_BACKWARD 2
#define SOFT_MARGIN 3
#define SOFT_MARGIN_BACKWARD 4
#define ROPE 5
#define ROPE_BACKWARD 6
#define ADAM 7
#define ADAM_TRANSFORMERS 8
#ifndef WHAT
#define WHAT GLU
#endif
#ifndef INPUTS /* operands that are read: the first ones */
#define INPUTS 2
#endif
#ifndef COUNT /* operands */
#define COUNT 3
#endif
#ifndef VEC /* elements at a time */
#define VEC 16
#endif
#define STILL 0   /* an operand is the same along a row */
#define DENSE 1   /* its elements follow one another */
#define FIRST 2   /* every other one is its own, and the next operand has those between */
#define SECOND 3  /* that next operand */
#define STRIDED 4
#ifndef AMSGRAD /* Adam: the largest v so far counts */
#define AMSGRAD 0
#endif
#ifndef MAXIMIZE
#define MAXIMIZE 0
#endif
#ifndef ADAMW /* weights decay by themselves */
#define ADAMW 0
#endif
#ifndef CORRECT /* ADAM_TRANSFORMERS: biases are corrected */
#define CORRECT 1
#endif
#ifndef HALVED /* p is written in 16 bits, too */
#define HALVED 0
#endif
#include "include/common.h"
#include "layers/elements_args.h"

#define IS_ADAM (WHAT >= ADAM)
#if IS_ADAM
#define NUMBERS const SCALAR n0, const SCALAR n1, const SCALAR n2, const SCALAR n3, const SCALAR n4, const SCALAR n5, const SCALAR n6
#else
#define NUMBERS const SCALAR n0
#endif

/* Numbers in memory. */
#ifdef SCALE_TYPE
#define SCALE_ARGUMENT , __global const STORAGE(SCALE_TYPE) *scale, long scale_offset
#else
#define SCALE_ARGUMENT
#endif
#ifdef FOUND_TYPE
#define FOUND_ARGUMENT , __global const STORAGE(FOUND_TYPE) *found, long found_offset
#else
#define FOUND_ARGUMENT
#endif
#ifdef STEP_TYPE
#define STEP_ARGUMENT , __global const STORAGE(STEP_TYPE) *step, long step_offset
#else
#define STEP_ARGUMENT
#endif

/* Buffers.  Those that WHAT does not have are null pointers. */
#define BUFFER(k) __global STORAGE(T##k) *p##k, long o##k
#define NO_BUFFER(k) __global ACC *p##k = 0; long o##k = 0
#if COUNT > 3
#define ARGUMENT_3 , BUFFER(3)
#define MISSING_3
#else
#define ARGUMENT_3
#define MISSING_3 NO_BUFFER(3)
#define T3 ACC
#endif
#if COUNT > 4
#define ARGUMENT_4 , BUFFER(4)
#define MISSING_4
#else
#define ARGUMENT_4
#define MISSING_4 NO_BUFFER(4)
#define T4 ACC
#endif
#if COUNT > 5
#define ARGUMENT_5 , BUFFER(5)
#define MISSING_5
#else
#define ARGUMENT_5
#define MISSING_5 NO_BUFFER(5)
#define T5 ACC
#endif
#if COUNT > 6
#define ARGUMENT_6 , BUFFER(6)
#define MISSING_6
#else
#define ARGUMENT_6
#define MISSING_6 NO_BUFFER(6)
#define T6 ACC
#endif
#if COUNT > 7
#define ARGUMENT_7 , BUFFER(7)
#define MISSING_7
#else
#define ARGUMENT_7
#define MISSING_7 NO_BUFFER(7)
#define T7 ACC
#endif
#if COUNT > 8
#define ARGUMENT_8 , BUFFER(8)
#define MISSING_8
#else
#define ARGUMENT_8
#define MISSING_8 NO_BUFFER(8)
#define T8 ACC
#endif
#if COUNT > 9
#define ARGUMENT_9 , BUFFER(9)
#define MISSING_9
#else
#define ARGUMENT_9
#define MISSING_9 NO_BUFFER(9)
#define T9 ACC
#endif
#ifndef T0
#define T0 float
#define T1 float
#define T2 float
#define KIND0 DENSE
#define KIND1 DENSE
#define KIND2 DENSE
#endif
#ifndef KIND3
#define KIND3 STRIDED
#endif
#ifndef KIND4
#define KIND4 STRIDED
#endif
#ifndef KIND5
#define KIND5 STRIDED
#endif
#ifndef KIND6
#define KIND6 STRIDED
#endif
#ifndef KIND7
#define KIND7 STRIDED
#endif
#ifndef KIND8
#define KIND8 STRIDED
#endif
#ifndef KIND9
#define KIND9 STRIDED
#endif
#define ARGUMENTS                                                                                                    \
    BUFFER(0), BUFFER(1), BUFFER(2) ARGUMENT_3 ARGUMENT_4 ARGUMENT_5 ARGUMENT_6 ARGUMENT_7 ARGUMENT_8 ARGUMENT_9,    \
        const mx_elements_walk w SCALE_ARGUMENT FOUND_ARGUMENT STEP_ARGUMENT, NUMBERS
#define MISSING MISSING_3; MISSING_4; MISSING_5; MISSING_6; MISSING_7; MISSING_8; MISSING_9
#define ALL_INPUTS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6)
#define ALL_OUTPUTS(X) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)

#if VEC == 1
#define V ACC
#else
#define V MX_JOIN(ACC, VEC)
#endif

/* What is the same for all elements. */
typedef struct {
    ACC rate, some1, some2, decay, epsilon, size, root, scale; /* Adam's; others: rate is n0 */
    bool skipped;
} constants;

#if IS_ADAM
#define CONSTANTS                                                                                            \
    constants c = {n0, n1, n2, n3, n4, n5, n6, 1, false};                                                    \
    SET_SCALE;                                                                                               \
    SET_FOUND;                                                                                               \
    SET_STEP
#else
#define CONSTANTS constants c = {n0, 0, 0, 0, 0, 0, 0, 1, false}
#endif
#ifdef SCALE_TYPE
#define SET_SCALE c.scale = (ACC)LOAD(SCALE_TYPE)(scale, scale_offset)
#else
#define SET_SCALE
#endif
#ifdef FOUND_TYPE
#define SET_FOUND c.skipped = LOAD(FOUND_TYPE)(found, found_offset) != 0
#else
#define SET_FOUND
#endif
#ifdef STEP_TYPE
/* 1 - beta^step, right to a few roundings however close beta is to 1. */
#define SET_STEP                                                                                             \
    const ACC now = (ACC)LOAD(STEP_TYPE)(step, step_offset) + 1;                                             \
    const ACC first = -expm1(now * log1p(-c.some1)), second = -expm1(now * log1p(-c.some2));                 \
    if (WHAT == ADAM)                                                                                        \
        c.size = c.rate / first, c.root = 1 / sqrt(second);                                                  \
    else if (c.size < 0)                                                                                     \
        c.size = CORRECT ? c.rate * sqrt(second) / first : c.rate
#else
#define SET_STEP
#endif

/* `in` are the inputs, `out` the outputs in their order. */
static inline void compute(const V *in, V *out, const constants c)
{
#if WHAT == GLU || WHAT == GLU_BACKWARD
    const V b = in[1], t = exp(-fabs(b)), s = (b >= (ACC)0 ? (V)1 : t) / (1 + t);
#if WHAT == GLU
    out[0] = in[0] * s;
#else
    out[0] = in[2] * s;
    out[1] = in[2] * in[0] * (t / ((1 + t) * (1 + t)));
#endif
#elif WHAT == PRELU_BACKWARD
    out[0] = in[0] > (ACC)0 ? in[1] : in[2] * in[1];
    out[1] = in[0] > (ACC)0 ? (V)0 : in[0] * in[1];
#elif WHAT == SOFT_MARGIN
    /* log(1 + t) by log(u): what u = 1 + t rounds away is made up for (Kahan); compilers make vectors of log only. */
    const V z = -in[0] * in[1], t = exp(-fabs(z)), u = 1 + t;
    const V log_u = u == (ACC)1 ? t : log(u) * (t / (u - 1));
    out[0] = (z > (ACC)0 ? z : z != z ? z : (V)0) + log_u;
#elif WHAT == SOFT_MARGIN_BACKWARD
    out[0] = -c.rate * in[2] * in[1] / (1 + exp(in[0] * in[1]));
#elif WHAT == ROPE
    out[0] = in[0] * in[2] - in[1] * in[4];
    out[1] = in[1] * in[3] + in[0] * in[5];
#elif WHAT == ROPE_BACKWARD
    out[0] = in[0] * in[2] + in[1] * in[5];
    out[1] = in[1] * in[3] - in[0] * in[4];
#else
    V p = in[0], g = in[1], m = in[2], v = in[3];
#if AMSGRAD
    V most = in[4];
#endif
    if (!c.skipped) {
        g = MAXIMIZE ? -g : g;
#ifdef SCALE_TYPE
        g /= c.scale;
#endif
        if (WHAT == ADAM && c.decay != 0) {
            if (ADAMW)
                p -= c.rate * c.decay * p;
            else
                g += p * c.decay;
        }
        m += (g - m) * c.some1;
        v += (g * g - v) * c.some2;
#if WHAT == ADAM
#if AMSGRAD
        most = fmax(most, v);
        p -= c.size * m / (sqrt(most) * c.root + c.epsilon);
#else
        p -= c.size * m / (sqrt(v) * c.root + c.epsilon);
#endif
#else
        p -= c.size * m / (sqrt(v) + c.epsilon);
        p -= p * (c.rate * c.decay);
#endif
    }
    out[0] = p;
    out[1] = m;
    out[2] = v;
#if AMSGRAD
    out[3] = most;
#endif
#if HALVED
    out[3 + AMSGRAD] = p;
#endif
#endif
}

#ifdef STEP_TYPE
/* The counter goes on, unless everything stays as it was.  A single work-item. */
__kernel void elements_step(__global const STORAGE(STEP_TYPE) *step, long step_offset,
                            __global STORAGE(STEP_TYPE) *next, long next_offset FOUND_ARGUMENT)
{
    constants c = {0};
    SET_FOUND;
    STORE(STEP_TYPE)(next, next_offset, LOAD(STEP_TYPE)(step, step_offset) + (c.skipped ? 0 : 1));
}
#endif
