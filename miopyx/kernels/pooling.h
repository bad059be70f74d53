/* What the two directions of pooling share.
 *
 * Definitions: TYPE storage type of the tensors; ACC type of the arithmetic; MODE 0 maximum, 1 average over elements
 * inside the image, 2 average over whole windows; SAVE = 1 where there are indices of maxima, of INDEX_BITS bits, which
 * count in the image where IMAGE = 1, else in the window; STEP the stride along w where it is 1 or 2, 0 for any; VEC the
 * elements that a CPU handles at a time; KIND which kernel is built, pooling_<direction>_<KIND>: compiling all of them
 * takes seconds.
 */
#ifndef KIND
#define KIND elements
#endif
#ifndef TYPE
#define TYPE float
#endif
#ifndef ACC
#define ACC float
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef SAVE
#define SAVE 0
#endif
#ifndef INDEX_BITS
#define INDEX_BITS 8
#endif
#ifndef IMAGE
#define IMAGE 0
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef VEC
#define VEC 16
#endif
#include "common.h"

#if !MX_IS_STORAGE(TYPE) || MX_TYPE(TYPE) > MX_TYPE_bfloat16
#error "TYPE must be half, float, double or bfloat16"
#endif
#if MODE < 0 || MODE > 2 || (MODE != 0 && SAVE)
#error "MODE must be 0, 1 or 2; only maxima have indices"
#endif
#if VEC != 8 && VEC != 16
#error "VEC must be 8 or 16"
#endif
#if STEP < 0 || STEP > 2
#error "STEP must be 0, 1 or 2"
#endif

#define KIND_elements 1
#define KIND_rows 2
#define KIND_channels 3
#define KIND_planes 4
#define KIND_groups 5
#define IS_KIND(kind) (MX_JOIN(KIND_, KIND) == KIND_##kind)

/* miopyx/_types.h */
typedef struct {
    long what, mode, spatial, save, index_type, index_mode;
    long window[3], pad[3], step[3];
    mx_tensor x, y;
} mx_pooling_problem;

#define MX_BITS_8 uchar
#define MX_BITS_16 ushort
#define MX_BITS_32 uint
#define MX_BITS_64 ulong
#define INDEX_TYPE MX_JOIN(MX_BITS_, INDEX_BITS)

/* Vectors of VEC: of ACC, of integers as wide as ACC, which comparisons give, and of indices. */
#define MX_INTEGER_float int
#define MX_INTEGER_double long
#define LANE MX_JOIN(MX_INTEGER_, ACC)
#define ACCV MX_JOIN(ACC, VEC)
#define LANEV MX_JOIN(LANE, VEC)
#define INDEXV MX_JOIN(INDEX_TYPE, VEC)
#define TO(type) MX_JOIN(convert_, type)
#if VEC == 16
#define LANES ((LANEV)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#else
#define LANES ((LANEV)(0, 1, 2, 3, 4, 5, 6, 7))
#endif

/* Each lane's place of [0, limit): a comparison of unsigned numbers does both ends. */
#define MX_UNSIGNED_int uint
#define MX_UNSIGNED_long ulong
#define INSIDE(at, limit)                                                   \
    (MX_JOIN(as_, MX_JOIN(MX_JOIN(MX_UNSIGNED_, LANE), VEC))(at) <          \
     (MX_JOIN(MX_JOIN(MX_UNSIGNED_, LANE), VEC))(limit))

#define BFLOAT16_STORE(n)                                                                                           \
    static inline void store_bfloat16_##n(float##n value, __global ushort *p, long i)                               \
    {                                                                                                               \
        const uint##n bits = as_uint##n(value);                                                                     \
        const uint##n even = bits + 0x7fffu + (bits >> 16 & 1u), nan = bits | 0x400000u;                            \
        vstore##n(convert_ushort##n((isnan(value) ? nan : even) >> 16), 0, p + i);                                  \
    }
BFLOAT16_STORE(2)
BFLOAT16_STORE(4)
BFLOAT16_STORE(8)
BFLOAT16_STORE(16)
#define MX_VSTORE_bfloat16(n, v, p, i) store_bfloat16_##n(v, p, i)
#define MX_VSTORE_half(n, v, p, i) vstore_half##n##_rte(v, 0, (__global half *)((p) + (i)))
#define MX_VSTORE_float(n, v, p, i) vstore##n(v, 0, (p) + (i))
#define MX_VSTORE_double(n, v, p, i) vstore##n(v, 0, (p) + (i))
#define VSTORE_(T, n, v, p, i) MX_JOIN(MX_VSTORE_, T)(n, v, p, i)
#define VSTORE(n, v, p, i) VSTORE_(TYPE, n, v, p, i)

/* The first `count` lanes, none where that is 0, all where it is VEC or more. */
#define STORE_SOME(name, scalar, type, vstore, store)                                                 \
    static inline void name(MX_JOIN(scalar, VEC) value, __global type *p, long i, long count)         \
    {                                                                                                 \
        if (count >= VEC) {                                                                           \
            vstore(VEC, value, p, i);                                                                 \
            return;                                                                                   \
        }                                                                                             \
        MX_JOIN(scalar, 8) eight = FIRST_EIGHT(value);                                                \
        if (VEC > 8 && count & 8) {                                                                   \
            vstore(8, eight, p, i);                                                                   \
            eight = LAST_EIGHT(value);                                                                \
            i += 8;                                                                                   \
        }                                                                                             \
        MX_JOIN(scalar, 4) four = eight.lo;                                                           \
        if (count & 4) {                                                                              \
            vstore(4, four, p, i);                                                                    \
            four = eight.hi;                                                                          \
            i += 4;                                                                                   \
        }                                                                                             \
        MX_JOIN(scalar, 2) two = four.lo;                                                             \
        if (count & 2) {                                                                              \
            vstore(2, two, p, i);                                                                     \
            two = four.hi;                                                                            \
            i += 2;                                                                                   \
        }                                                                                             \
        if (count & 1)                                                                                \
            store(p, i, two.lo);                                                                      \
    }
#if VEC == 16
#define FIRST_EIGHT(v) (v).lo
#define LAST_EIGHT(v) (v).hi
#else
#define FIRST_EIGHT(v) (v)
#define LAST_EIGHT(v) (v)
#endif
#define INDEX_VSTORE_(n, v, p, i) vstore##n(v, 0, (p) + (i))
#define INDEX_VSTORE(n, v, p, i) INDEX_VSTORE_(n, v, p, i)
#define INDEX_STORE(p, i, v) ((p)[i] = (v))
STORE_SOME(store_values, ACC, STORAGE(TYPE), VSTORE, STORE(TYPE))
STORE_SOME(store_indices, INDEX_TYPE, INDEX_TYPE, INDEX_VSTORE, INDEX_STORE)

/* Elements between the first and the last one of a tensor, both included. */
static inline long span_of(const mx_tensor t)
{
    long last = 0;
    for (int axis = 0; axis < 5; axis++)
        last += (t.len[axis] - 1) * t.stride[axis];
    return last + 1;
}

/* Indices are packed whatever y is. */
static inline long index_place(const mx_tensor y, long n, long c, long d, long h, long w)
{
    return (((n * y.len[1] + c) * y.len[2] + d) * y.len[3] + h) * y.len[4] + w;
}

/* Taps of the window that begins at `start` of an axis which lie in the image: from .x up to .y. */
static inline long2 taps_inside(long start, long window, long length)
{
    return (long2)(max(0L, -start), min(window, length - start));
}

/* Windows that contain place `at` of an axis, 0 ... 2. */
static inline long2 windows_with(const mx_pooling_problem *p, int axis, long at)
{
    const long first = at + p->pad[axis] - p->window[axis] + 1;
    return (long2)(first > 0 ? (first + p->step[axis] - 1) / p->step[axis] : 0,
                   min((at + p->pad[axis]) / p->step[axis] + 1, p->y.len[2 + axis]));
}

/* By how much an axis divides the average of a window. */
static inline long divisor(const mx_pooling_problem *p, int axis, long window)
{
    if (MODE == 2)
        return p->window[axis];
    const long2 taps = taps_inside(window * p->step[axis] - p->pad[axis], p->window[axis], p->x.len[2 + axis]);
    return taps.y - taps.x;
}

/* The same along w for the windows of a vector, which begin at `start`; lanes that hold no window divide by 1 or more.
 * MODE 1 alone. */
static inline ACCV divisors(const mx_pooling_problem *p, LANEV start)
{
    const LANE w = (LANE)p->x.len[4], window = (LANE)min(p->window[2], p->x.len[4] + p->pad[2]);
    return TO(ACCV)(max(min(start + window, (LANEV)w) - max(start, (LANEV)0), (LANEV)1));
}
