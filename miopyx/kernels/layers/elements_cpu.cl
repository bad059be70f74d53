/* Operations on elements on CPUs, local size 1: a work-item has a range of pieces of rows, in vectors.
 *
 * Grid:         at most as many work-items as there are pieces.
 * Local memory: none.
 * Parameters:   layers/elements.h; VEC: 16, for doubles and operands in pairs 8.
 * Bound by:     memory where operands are dense.
 */
#include "layers/elements.h"

#define WIDER 16 /* operands in pairs come in vectors of 8 */
#define TO_V MX_JOIN(convert_, V)
#define PAIRS MX_JOIN(ACC, WIDER)
#define TO_PAIRS MX_JOIN(convert_, PAIRS)
#define WIDE_LOAD(T, p, i) MX_JOIN(MX_WIDE_LOAD_, T)(p, i)
#define MX_WIDE_LOAD_half(p, i) mx_load_half16((p) + (i))
#define MX_WIDE_LOAD_float(p, i) vload16(0, (p) + (i))
#define MX_WIDE_LOAD_double(p, i) vload16(0, (p) + (i))
#define MX_WIDE_LOAD_bfloat16(p, i) as_float16(convert_uint16(MX_LOAD_LOOSE(ushort, 16, (p) + (i))) << 16)
#define WIDE_STORE(T, p, i, v) MX_JOIN(MX_WIDE_STORE_, T)(p, i, v)
#define MX_WIDE_STORE_half(p, i, v) MX_STORE_LOOSE(ushort, 16, (p) + (i), mx_half_bits16(convert_float16(v)))
#define MX_WIDE_STORE_float(p, i, v) vstore16(convert_float16(v), 0, (p) + (i))
#define MX_WIDE_STORE_double(p, i, v) vstore16(convert_double16(v), 0, (p) + (i))
#define MX_WIDE_STORE_bfloat16(p, i, v) MX_STORE_LOOSE(ushort, 16, (p) + (i), mx_bfloat16_bits16(convert_float16(v)))

/* `count` elements from place i of a row on; `other` gets those of the next operand. */
#define GET(T, KIND, p, step, i, count, own, other)                                     \
    do {                                                                                \
        if (KIND == STILL)                                                              \
            own = (V)(ACC)LOAD(T)(p, 0);                                                \
        else if (KIND == SECOND)                                                        \
            ;                                                                           \
        else if (KIND == DENSE && (count) == VEC)                                       \
            own = TO_V(VLOAD(T)(p, i));                                                 \
        else if (KIND == FIRST && (count) == VEC)                                       \
            GET_PAIRS(T, p, i, own, other);                                             \
        else {                                                                          \
            ACC lane[VEC], next[VEC];                                                   \
            for (int l = 0; l < VEC; l++) {                                             \
                lane[l] = l < (count) ? (ACC)LOAD(T)(p, ((i) + l) * (step)) : (ACC)1;   \
                if (KIND == FIRST)                                                      \
                    next[l] = l < (count) ? (ACC)LOAD(T)(p, ((i) + l) * (step) + 1) : (ACC)1; \
            }                                                                           \
            own = MX_JOIN(vload, VEC)(0, lane);                                         \
            if (KIND == FIRST)                                                          \
                other = MX_JOIN(vload, VEC)(0, next);                                   \
        }                                                                               \
    } while (0)
#define PUT(T, KIND, p, step, i, count, own, other)                                     \
    do {                                                                                \
        if (KIND == SECOND)                                                             \
            ;                                                                           \
        else if (KIND == DENSE && (count) == VEC) {                                     \
            if (BEFORE_STREAM((p) + (i)) == 0)                                          \
                VSTREAM(T)(p, i, own);                                                  \
            else                                                                        \
                VSTORE(T)(p, i, own);                                                   \
        } else if (KIND == FIRST && (count) == VEC)                                     \
            PUT_PAIRS(T, p, i, own, other);                                             \
        else {                                                                          \
            ACC lane[VEC], next[VEC];                                                   \
            MX_JOIN(vstore, VEC)(own, 0, lane);                                         \
            if (KIND == FIRST)                                                          \
                MX_JOIN(vstore, VEC)(other, 0, next);                                   \
            for (int l = 0; l < (int)(count); l++) {                                    \
                STORE(T)(p, ((i) + l) * (step), lane[l]);                               \
                if (KIND == FIRST)                                                      \
                    STORE(T)(p, ((i) + l) * (step) + 1, next[l]);                       \
            }                                                                           \
        }                                                                               \
    } while (0)
#if VEC == 8
#define GET_PAIRS(T, p, i, own, other)                       \
    do {                                                     \
        const PAIRS both = TO_PAIRS(WIDE_LOAD(T, p, 2 * (i))); \
        own = both.even;                                     \
        other = both.odd;                                    \
    } while (0)
#define PUT_PAIRS(T, p, i, own, other)                       \
    do {                                                     \
        PAIRS both;                                          \
        both.even = own;                                     \
        both.odd = other;                                    \
        WIDE_STORE(T, p, 2 * (i), both);                     \
    } while (0)
#else
#define GET_PAIRS(T, p, i, own, other) ((void)0)
#define PUT_PAIRS(T, p, i, own, other) ((void)0)
#endif

#define READ(k) if (k < INPUTS) GET(T##k, KIND##k, q##k, w.stride[k][4], i, count, in[k], in[k + 1]);
#define WRITE(k) if (k >= INPUTS && k < COUNT) PUT(T##k, KIND##k, q##k, w.stride[k][4], i, count, out[k - INPUTS], out[k - INPUTS + 1]);
#define BEGIN(k) p##k += o##k;
#define PLACE(k) __global STORAGE(T##k) *q##k = p##k + (k < COUNT ? place(&w, k, line) + first * w.stride[k][4] : 0);
#define VECTOR(COUNTED)                          \
    do {                                         \
        const long count = COUNTED;              \
        V in[MX_OPERANDS + 1], out[MX_OPERANDS + 1];      \
        ALL_INPUTS(READ)                         \
        compute(in, out, c);                     \
        ALL_OUTPUTS(WRITE)                       \
    } while (0)

static inline long place(const mx_elements_walk *w, int k, long line)
{
    long at = 0;
    for (int axis = 3; axis >= 0; axis--)
        if (w->len[axis] > 1) {
            at += line % w->len[axis] * w->stride[k][axis];
            line /= w->len[axis];
        }
    return at;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void elements(ARGUMENTS)
{
    MISSING;
    ALL(BEGIN)
    CONSTANTS;
    const long units = w.lines * w.pieces, me = get_group_id(0), groups = get_num_groups(0);
    for (long unit = me * units / groups; unit < (me + 1) * units / groups; unit++) {
        const long line = unit / w.pieces, first = unit % w.pieces * w.piece, n = min(w.piece, w.len[4] - first);
        ALL(PLACE)
        long i = 0;
        for (; i + VEC <= n; i += VEC)
            VECTOR(VEC);
        if (i < n)
            VECTOR(n - i);
    }
}
