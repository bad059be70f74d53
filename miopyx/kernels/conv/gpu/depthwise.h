/* What the kernels of depthwise convolutions, and of those with few channels a group, share; after include/common.h and
 * COLS, the columns of x that a strip reads.
 *
 * A work-group is `lanes` blocks of VEC neighbouring channels of what is written (backward weights: of dy) times
 * `items` strips of its pixels, TW wide; a work-item goes down its strip, TH rows at a time, `chunks` times.  In
 * tensors with channels last the lanes are neighbours in memory; in others there is one lane, and the strips are.
 */
#ifndef GROUP /* work-items */
#define GROUP 256
#endif

#include "conv/gpu/depthwise_args.h"
#include "conv/gpu/widen.h"
#include "include/quotient.h"

#define TAPS (R * S)
#if VEC == 1
#define RAW STORAGE(X_TYPE)
#else
#define RAW MX_JOIN(STORAGE(X_TYPE), VEC)
#endif
#if IN == 1
#define RAW_IN STORAGE(X_TYPE)
#else
#define RAW_IN MX_JOIN(STORAGE(X_TYPE), IN)
#endif

/* What was read, or zero.  A choice between the two would become a branch around the load, and each load would wait for
 * the one before it; so the bits are masked. */
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define WORDS_2 uint2
#define WORDS_4 uint4
#define WORDS_8 uint8
#else
#define WORDS_2 uint
#define WORDS_4 uint2
#define WORDS_8 uint4
#endif
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define MASKED_1(v, mask) as_float(as_uint(v) & (mask))
#else
#define MASKED_1(v, mask) (ushort)((v) & (mask))
#endif
#define MASKED_2(v, mask) MX_JOIN(as_, MX_JOIN(STORAGE(X_TYPE), 2))(MX_JOIN(as_, WORDS_2)(v) & (mask))
#define MASKED_4(v, mask) MX_JOIN(as_, MX_JOIN(STORAGE(X_TYPE), 4))(MX_JOIN(as_, WORDS_4)(v) & (mask))
#define MASKED_8(v, mask) MX_JOIN(as_, MX_JOIN(STORAGE(X_TYPE), 8))(MX_JOIN(as_, WORDS_8)(v) & (mask))
#define ALL_IF(condition) ((condition) ? 0xffffffffu : 0u)

/* A vector's elements, and a vector of them: .s0 is not for scalars, and loops over components there are none. */
#define UNPACK_1(to, v) (to)[0] = WIDEN(v)
#define UNPACK_2(to, v) (to)[0] = WIDEN((v).s0), (to)[1] = WIDEN((v).s1)
#define UNPACK_4(to, v) UNPACK_2(to, v), (to)[2] = WIDEN((v).s2), (to)[3] = WIDEN((v).s3)
#define UNPACK_8(to, v) \
    UNPACK_4(to, v), (to)[4] = WIDEN((v).s4), (to)[5] = WIDEN((v).s5), (to)[6] = WIDEN((v).s6), (to)[7] = WIDEN((v).s7)
#define PACK_1(f) NARROW((f)[0])
#define PACK_2(f) (RAW)(NARROW((f)[0]), NARROW((f)[1]))
#define PACK_4(f) (RAW)(NARROW((f)[0]), NARROW((f)[1]), NARROW((f)[2]), NARROW((f)[3]))
#define PACK_8(f)                                                                         \
    (RAW)(NARROW((f)[0]), NARROW((f)[1]), NARROW((f)[2]), NARROW((f)[3]), NARROW((f)[4]), \
          NARROW((f)[5]), NARROW((f)[6]), NARROW((f)[7]))
#define TAKE_1(p, step) (p)[0]
#define TAKE_2(p, step) ((p)[0], (p)[step])
#define TAKE_4(p, step) ((p)[0], (p)[step], (p)[2 * (step)], (p)[3 * (step)])
#define TAKE_8(p, step)                                                                               \
    ((p)[0], (p)[step], (p)[2 * (step)], (p)[3 * (step)], (p)[4 * (step)], (p)[5 * (step)], (p)[6 * (step)], \
     (p)[7 * (step)])

/* VEC channels, or IN of them, at a stride of `step`: at once if `aligned`, contiguous where a vector may begin. */
#define READ(T, N, p, step, aligned)  \
    ((aligned) ? *(__global const T *)(p) : (T)MX_JOIN(TAKE_, N)((p), (step)))

/* The same of floats in local memory. */
#define SPREAD_1(to, v) (to)[0] = (v)
#define SPREAD_2(to, v) (to)[0] = (v).s0, (to)[1] = (v).s1
#define SPREAD_4(to, v) SPREAD_2(to, v), (to)[2] = (v).s2, (to)[3] = (v).s3
#define SPREAD_8(to, v) SPREAD_4(to, v), (to)[4] = (v).s4, (to)[5] = (v).s5, (to)[6] = (v).s6, (to)[7] = (v).s7
#if VEC == 1
#define FLOATS float
#else
#define FLOATS MX_JOIN(float, VEC)
#endif

#define X_W (CHANNELS_LAST ? g.x_w : 1)
#define Y_W (CHANNELS_LAST ? g.y_w : 1)
#define X_C (CHANNELS_LAST ? 1 : g.x_c)
#define Y_C (CHANNELS_LAST ? 1 : g.y_c)

/* Row `row` of x at the given columns; zeros for what is outside. */
static inline __attribute__((always_inline)) void mx_read(
    RAW_IN line[COLS], __global const STORAGE(X_TYPE) *x, const mx_depthwise g, int row, const int columns[COLS],
    const uint inside[COLS], const bool aligned)
{
    const int kept = clamp(row, 0, g.h - 1);
    const uint here = ALL_IF(row == kept);
    x += kept * g.x_h;
#pragma unroll
    for (int j = 0; j < COLS; j++) {
        const RAW_IN value = READ(RAW_IN, IN, x + columns[j], X_C, aligned);
        line[j] = MX_JOIN(MASKED_, IN)(value, inside[j] & here);
    }
}

#if ROLL
/* Strips that are walked row after row: a work-item has the next RING - 1 rows of x on their way into local
 * memory of its own, so no work-item waits for another one.  A row is LINE words: VEC channels of a pixel, or PER
 * neighbouring columns of a channel, the first of which is ODD columns before those that are wanted. */
#define KEEP ((R - 1) / STEP_H + 1) /* rows of y that a row of x may meet */
#define PER (CHANNELS_LAST ? 1 : 2)
#define SIZE (PER * VEC)
#define LINE ((COLS + ODD + PER - 1) / PER)
#define OUTER (TW / PER) /* words of y */
#define NEXT(slot) ((slot) == RING - 1 ? 0 : (slot) + 1)
#define NARROW_WORDS (MX_TYPE(X_TYPE) != MX_TYPE_float && SIZE == 1)

#if NARROW_WORDS
#define WORD ushort
#elif VEC == 1
#define WORD uint
#else
#define WORD MX_JOIN(WORDS_, VEC)
#endif

#if defined(__NV_CL_C_VERSION) && defined(MX_SM) && MX_SM >= 80 && !NARROW_WORDS
typedef uint mx_slot;
#define PLACE_STEP (uint)sizeof(WORD)
#define ARRIVED(rows) asm volatile("cp.async.wait_group %0;" ::"n"(rows) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
static inline mx_slot mx_slot_of(__local const void *p)
{
    uint address;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"((ulong)p));
    return address;
}
#define COPY_WORD(to, from, mask, bit)                                                                    \
    asm volatile("{ .reg .pred p; .reg .b32 t; and.b32 t, %2, %3; setp.eq.u32 p, t, 0; "                  \
                 "cp.async.ca.shared.global [%0], [%1], %4, p; }" ::"r"(to), "l"((ulong)(from)), "r"(mask), \
                 "r"(1u << (bit)), "n"(sizeof(WORD)) : "memory")
#else
typedef __local WORD *mx_slot;
#define PLACE_STEP 1
#define ARRIVED(rows)
#define COMMIT()
#define mx_slot_of(p) (p)
#define COPY_WORD(to, from, mask, bit) *(to) = (mask) >> (bit) & 1u ? *(__global const WORD *)(from) : (WORD)(0)
#endif

/* A row of `count` words, PER columns each at a stride of `stride`, into its place; zeros where `mask` has no bit. */
static inline __attribute__((always_inline)) void mx_fetch(
    mx_slot to, __global const STORAGE(X_TYPE) *from, int stride, const int count, uint mask)
{
#pragma unroll
    for (int j = 0; j < count; j++)
        COPY_WORD(to + j * GROUP * PLACE_STEP, from + j * PER * stride, mask, j);
}

/* Which of `count` words, the first one at column `first`, are in a row of `columns`. */
static inline uint mx_mask(int first, const int count, int columns)
{
    uint mask = 0;
#pragma unroll
    for (int j = 0; j < count; j++)
        mask |= (uint)(first + j * PER) < (uint)columns ? 1u << j : 0u;
    return mask;
}

/* Two elements of 16 bits are a word, and back. */
#if MX_TYPE(X_TYPE) != MX_TYPE_float
static inline void mx_open_two(float *to, uint word)
{
#if MX_TYPE(X_TYPE) == MX_TYPE_half && defined(__NV_CL_C_VERSION)
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(to[0]), "=f"(to[1])
        : "r"(word));
#else
    to[0] = WIDEN(as_ushort2(word).x), to[1] = WIDEN(as_ushort2(word).y);
#endif
}
static inline uint mx_close_two(float first, float second)
{
#if defined(__NV_CL_C_VERSION) && defined(MX_SM) && MX_SM >= 80
    uint word;
#if MX_TYPE(X_TYPE) == MX_TYPE_half
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
#else
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(first), "f"(second));
#endif
    return word;
#else
    return as_uint((ushort2)(NARROW(first), NARROW(second)));
#endif
}
#endif

/* A word's elements, and back. */
static inline __attribute__((always_inline)) void mx_open(float *to, const WORD word)
{
#if MX_TYPE(X_TYPE) == MX_TYPE_float
    const float *elements = (const float *)&word;
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        to[i] = elements[i];
#elif NARROW_WORDS
    to[0] = WIDEN(word);
#else
    const uint *pairs = (const uint *)&word;
#pragma unroll
    for (int i = 0; i < SIZE / 2; i++)
        mx_open_two(to + 2 * i, pairs[i]);
#endif
}
static inline __attribute__((always_inline)) WORD mx_close(const float *from)
{
    WORD word;
#if MX_TYPE(X_TYPE) == MX_TYPE_float
    float *elements = (float *)&word;
#pragma unroll
    for (int i = 0; i < SIZE; i++)
        elements[i] = from[i];
#elif NARROW_WORDS
    word = NARROW(from[0]);
#else
    uint *pairs = (uint *)&word;
#pragma unroll
    for (int i = 0; i < SIZE / 2; i++)
        pairs[i] = mx_close_two(from[2 * i], from[2 * i + 1]);
#endif
    return word;
}
#endif
