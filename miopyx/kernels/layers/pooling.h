/* What the two directions of pooling share.
 *
 * Definitions:
 *   KIND        which kernel is built, pooling_<direction>_<KIND>: to compile all of them takes seconds
 *   TYPE, ACC   storage type of the tensors, type of the arithmetic
 *   MODE        0 maximum, 1 average over elements inside the image, 2 average over whole windows
 *   SAVE        1 where there are indices of maxima
 *   INDEX_BITS  their size
 *   IMAGE       1 where they count in the image, 0 in the window
 *   LIKE_Y      1 where they lie as the elements of y do, 0 where they are packed
 *   PROPAGATE   1 where a NaN is above all numbers, 0 where it is never a maximum
 *   ORDERED     1 where maxima of 16 bits are found among integers of 16 bits in the same order, which ACC is then; not of
 *               places in an image, and lengths of rows (flat, planes: of planes) are below 2^14
 *   STEP        the stride along w where that is 1 or 2, 0 for any
 *   WINDOW      the window's length along w where loops over it are to be unrolled, else 0
 *   VEC         elements that a CPU handles at a time
 *   SHEET       vectors of channels that pooling_..._sheets keep in registers
 */
#ifndef KIND
#define KIND elements
#endif
#ifndef TYPE
#define TYPE float
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
#ifndef LIKE_Y
#define LIKE_Y 0
#endif
#ifndef PROPAGATE
#define PROPAGATE 0
#endif
#ifndef ORDERED
#define ORDERED 0
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef WINDOW
#define WINDOW 0
#endif
#ifndef VEC
#define VEC 16
#endif
#ifndef SHEET
#define SHEET 8
#endif
#include "include/common.h"

#if !MX_IS_STORAGE(TYPE) || MX_TYPE(TYPE) > MX_TYPE_bfloat16
#error "TYPE must be half, float, double or bfloat16"
#endif
#if MODE < 0 || MODE > 2 || (MODE != 0 && SAVE)
#error "MODE must be 0, 1 or 2; only maxima have indices"
#endif
#if ORDERED && (MODE != 0 || IMAGE || (MX_TYPE(TYPE) != MX_TYPE_half && MX_TYPE(TYPE) != MX_TYPE_bfloat16))
#error "ORDERED is for maxima of half and bfloat16"
#endif
#if ORDERED
#undef ACC
#define ACC short
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
#define KIND_flat 6
#define KIND_scatter 7
#define KIND_pairs 8
#define KIND_sheets 9
#define KIND_turned 10
#define IS_KIND(kind) (MX_JOIN(KIND_, KIND) == KIND_##kind)

#include "layers/pooling_args.h"

#define MX_BITS_8 uchar
#define MX_BITS_16 ushort
#define MX_BITS_32 uint
#define MX_BITS_64 ulong
#define INDEX_TYPE MX_JOIN(MX_BITS_, INDEX_BITS)

/* Vectors of VEC: of ACC, of integers as wide as ACC, which comparisons give, and of indices. */
#define MX_INTEGER_float int
#define MX_INTEGER_double long
#define MX_INTEGER_short short
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
#define MX_UNSIGNED_short ushort
#define INSIDE(at, limit)                                                   \
    (MX_JOIN(as_, MX_JOIN(MX_JOIN(MX_UNSIGNED_, LANE), VEC))(at) <          \
     (MX_JOIN(MX_JOIN(MX_UNSIGNED_, LANE), VEC))(limit))

/* What is stored of VEC numbers. */
#define STOREDV MX_JOIN(STORAGE(TYPE), VEC)
#if ORDERED
/* A sign and a size become an integer of two's complement.  Without indices -0 is below 0 and stays; with them it becomes
 * 0, since of equal maxima the first one has the index.  What is added then turns round past an end: of PROPAGATE what is
 * NaN and negative comes above infinity, else what is NaN and positive comes below all. */
#if MX_TYPE(TYPE) == MX_TYPE_half
#define LARGEST_SIZE 0x7c00
#else
#define LARGEST_SIZE 0x7f80
#endif
#define LOWEST (SAVE ? -LARGEST_SIZE : -LARGEST_SIZE - 1)
#define TURNED (PROPAGATE ? -0x8000 - LOWEST : 0x7fff - LARGEST_SIZE)
#define INFINITE ((short)(LARGEST_SIZE + TURNED))
#define LEAST ((short)(LOWEST + TURNED)) /* -inf */
#define DEFINE_ORDER(V, U)                                                                       \
    static inline V MX_JOIN(in_order_, V)(V bits)                                                \
    {                                                                                            \
        const V sign = bits >> (V)15, size = SAVE ? bits & (V)0x7fff : bits;                     \
        const V order = SAVE ? (size ^ sign) - sign : size ^ (sign & (V)0x7fff);                 \
        return MX_JOIN(as_, V)((U)(MX_JOIN(as_, U)(order) + (U)(ushort)TURNED));                 \
    }                                                                                            \
    static inline V MX_JOIN(bits_of_, V)(V turned)                                               \
    {                                                                                            \
        const V order = MX_JOIN(as_, V)((U)(MX_JOIN(as_, U)(turned) - (U)(ushort)TURNED));       \
        const V sign = order >> (V)15;                                                           \
        return SAVE ? ((order ^ sign) - sign) | (sign & (V)-0x8000) : order ^ (sign & (V)0x7fff); \
    }
DEFINE_ORDER(short, ushort)
DEFINE_ORDER(ACCV, MX_JOIN(ushort, VEC))
#define IS_NAN(v) ((v) > INFINITE)
#else
#define IS_NAN(v) isnan(v)
#define LEAST (-(ACC)INFINITY)
#endif
static inline STOREDV stored(ACCV value)
{
#if ORDERED
    return MX_JOIN(as_, STOREDV)(MX_JOIN(bits_of_, ACCV)(value));
#elif MX_TYPE(TYPE) == MX_TYPE_half
    STOREDV bits;
    MX_JOIN(MX_JOIN(vstore_half, VEC), _rte)(value, 0, (__private half *)&bits);
    return bits;
#elif MX_TYPE(TYPE) == MX_TYPE_bfloat16
    const MX_JOIN(uint, VEC) bits = MX_JOIN(as_uint, VEC)(value);
    return TO(STOREDV)((isnan(value) ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#else
    return value;
#endif
}

#if VEC == 16
#define FIRST_EIGHT(v) (v).lo
#define LAST_EIGHT(v) (v).hi
#else
#define FIRST_EIGHT(v) (v)
#define LAST_EIGHT(v) (v)
#endif
/* Stores the first `count` of VEC elements: none where that is 0, all where it is VEC or more. */
#define STORE_SOME(name, type)                                                                    \
    static inline void name(MX_JOIN(type, VEC) value, __global type *p, long i, long count)       \
    {                                                                                             \
        if (count >= VEC) {                                                                       \
            MX_STORE_LOOSE(type, VEC, (p) + (i), value);                                          \
            return;                                                                               \
        }                                                                                         \
        MX_JOIN(type, 8) eight = FIRST_EIGHT(value);                                              \
        if (VEC > 8 && count & 8) {                                                               \
            MX_STORE_LOOSE(type, 8, (p) + (i), eight);                                            \
            eight = LAST_EIGHT(value);                                                            \
            i += 8;                                                                               \
        }                                                                                         \
        MX_JOIN(type, 4) four = eight.lo;                                                         \
        if (count & 4) {                                                                          \
            MX_STORE_LOOSE(type, 4, (p) + (i), four);                                             \
            four = eight.hi;                                                                      \
            i += 4;                                                                               \
        }                                                                                         \
        MX_JOIN(type, 2) two = four.lo;                                                           \
        if (count & 2) {                                                                          \
            MX_STORE_LOOSE(type, 2, (p) + (i), two);                                              \
            two = four.hi;                                                                        \
            i += 2;                                                                               \
        }                                                                                         \
        if (count & 1)                                                                            \
            p[i] = two.lo;                                                                        \
    }
STORE_SOME(store_stored, STORAGE(TYPE))
STORE_SOME(store_indices, INDEX_TYPE)

static inline void store_values(ACCV value, __global STORAGE(TYPE) *p, long i, long count)
{
    store_stored(stored(value), p, i, count);
}

#if ORDERED
static inline ACCV load_values(__global const STORAGE(TYPE) *p, long i)
{
    return MX_JOIN(in_order_, ACCV)(MX_JOIN(as_, ACCV)(MX_LOAD_LOOSE(ushort, VEC, p + i)));
}

static inline ACC load_value(__global const STORAGE(TYPE) *p, long i)
{
    return in_order_short(as_short(p[i]));
}

static inline void store_value(__global STORAGE(TYPE) *p, long i, ACC value)
{
    p[i] = as_ushort(bits_of_short(value));
}
#else
#define load_values(p, i) VLOAD(TYPE)(p, i)
#define load_value(p, i) LOAD(TYPE)(p, i)
#define store_value(p, i, value) STORE(TYPE)(p, i, value)
#endif

/* Channels run fastest in tensors and slowest in the indices, so these are turned in squares where they are bytes. */
#define SQUARES (SAVE && INDEX_BITS == 8 && VEC == 16)
#if SQUARES
static inline void turn_square(uchar16 *rows)
{
#pragma unroll
    for (int round = 0; round < 4; round++) {
        uchar16 turned[16];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            turned[2 * i].even = rows[i].lo;
            turned[2 * i].odd = rows[i + 8].lo;
            turned[2 * i + 1].even = rows[i].hi;
            turned[2 * i + 1].odd = rows[i + 8].hi;
        }
#pragma unroll
        for (int i = 0; i < 16; i++)
            rows[i] = turned[i];
    }
}
#endif

/* A row of a tensor, along w, and the next one. */
typedef struct {
    int n, c, d, h;
} line_t;

static inline line_t line_of(const mx_tensor *t, int channels, long line)
{
    line_t a;
    const int row = (int)line, plane = row / (int)t->len[3];
    a.h = row % (int)t->len[3];
    a.d = plane % (int)t->len[2];
    const int image = plane / (int)t->len[2];
    a.c = image % channels;
    a.n = image / channels;
    return a;
}

static inline void next_line(const mx_tensor *t, int channels, line_t *a)
{
    if (++a->h < (int)t->len[3])
        return;
    a->h = 0;
    if (++a->d < (int)t->len[2])
        return;
    a->d = 0;
    if (++a->c < channels)
        return;
    a->c = 0;
    a->n++;
}

/* The columns of VEC positions of a plane whose rows follow each other, from position i on. */
static inline LANEV columns_of(int i, int width)
{
    LANEV columns = (LANE)(i % width) + LANES;
    for (int k = 0; k < VEC; k += width)
        columns -= columns >= (LANE)width ? (LANEV)(LANE)width : (LANEV)0;
    return columns;
}

/* Elements between the first and the last one of a tensor, both included. */
static inline long span_of(const mx_tensor t)
{
    long last = 0;
    for (int axis = 0; axis < 5; axis++)
        last += (t.len[axis] - 1) * t.stride[axis];
    return last + 1;
}

static inline long index_place(const mx_tensor y, long n, long c, long d, long h, long w)
{
#if LIKE_Y
    return mx_offset(y, n, c, d, h, w);
#else
    return (((n * y.len[1] + c) * y.len[2] + d) * y.len[3] + h) * y.len[4] + w;
#endif
}

/* Whether b, which comes later, takes the place of maximum a.  PROPAGATE: the last NaN of a window stays, as PyTorch has
 * it.  BEATS: the same of two that may come in either order. */
#if PROPAGATE
#define ABOVE(b, a) (((b) > (a)) | IS_NAN(b))
#define BEATS(b, code_b, a, code_a)                                                                   \
    ((IS_NAN(b) & (!IS_NAN(a) | ((code_b) > (code_a)))) |                                             \
     (!IS_NAN(b) & !IS_NAN(a) & (((b) > (a)) | (((b) == (a)) & ((code_b) < (code_a))))))
#define LARGER(a, b) (ABOVE(b, a) ? (b) : (a))
#else
#define ABOVE(b, a) ((b) > (a))
#define BEATS(b, code_b, a, code_a) ((b) > (a) || ((b) == (a) && (code_b) < (code_a)))
#define LARGER(a, b) fmax(a, b)
#endif

/* Taps of the window that begins at `start` of an axis which lie in the image: from .x up to .y. */
static inline long2 taps_inside(long start, long window, long length)
{
    return (long2)(max(0L, -start), min(window, length - start));
}

/* Windows that contain place `at` of an axis, 0 ... 2. */
static inline long2 windows_with(const mx_pooling_problem *p, int axis, long at)
{
    const long first = at + p->pad[axis] - p->window[axis] + 1;
    if (p->step[axis] == 1) /* divisions take longer than the rest of a row */
        return (long2)(max(first, 0L), min(at + p->pad[axis] + 1, p->y.len[2 + axis]));
    return (long2)(first > 0 ? (INDEX)(first + p->step[axis] - 1) / (INDEX)p->step[axis] : 0,
                   min((INDEX)(at + p->pad[axis]) / (INDEX)p->step[axis] + 1L, p->y.len[2 + axis]));
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
