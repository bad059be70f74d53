/* What the kernel files share.  The host puts this text in place of the line that includes it.
 *
 * Conventions.  A buffer is a pair of arguments, a pointer and an offset in elements.  alpha and beta come last, of
 * type SCALAR, and an output becomes alpha * result + beta * output; with beta == 0 the old output is not read, because
 * it may be anything, NaN included.  A file defines defaults for the storage types of its buffers before it takes this
 * text in.
 */
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

/* The type of the arithmetic: double where a tensor is double, int for sums of int8, else float. */
#ifndef ACC
#define ACC float
#endif

/* The type of alpha and beta.  double when the output tensor is double or holds integers beyond 2^24 exactly. */
#ifndef SCALAR
#define SCALAR float
#endif

/* The integer that work-items are counted and unflattened in.  int is enough, and on GPUs much cheaper to divide, when
 * no tensor of the launch has 2^31 elements or more; positions in memory are always long. */
#ifndef INDEX
#define INDEX long
#endif

/* For long functions.  PoCL builds every kernel several times, and its passes take the longer the more is in a kernel:
 * so the work is in functions that are not inlined.  Where LLVM prefers registers of half the width, such a function
 * gets whole ones only if it is called with a vector, or calls something that takes or returns one, as vload does. */
#define NOINLINE __attribute__((noinline)) static

#define MX_JOIN_(a, b) a##b
#define MX_JOIN(a, b) MX_JOIN_(a, b)

/* Long sums.  What is added to one accumulator n times is wrong by up to n roundings.  So an accumulator takes
 * BLOCK_TERMS terms at most, then it is added to a total that keeps what this addition rounds away (the two-sum of
 * Knuth, TAOCP 2, 4.2.2; Dekker, Numer. Math. 18, 1971), and begins anew: however long the sum, it is wrong by not
 * much more than BLOCK_TERMS roundings.  The number is BLOCK_TERMS of miopyx/_core.pxd too. */
#define BLOCK_TERMS 1024
#define MX_TWO_SUM(T, total, rest, sum)                                                             \
    do {                                                                                            \
        const T sum_ = (sum), new_ = (total) + sum_;                                                \
        const T moved_ = new_ - (total);                                                            \
        const T lost_ = (rest) + (((total) - (new_ - moved_)) + (sum_ - moved_));                   \
        /* Beside an infinite total it is NaN. */                                                   \
        const T kept_ = lost_ == lost_ ? lost_ : (T)((ACC)0);                                       \
        (total) = new_ + kept_;                                                                     \
        (rest) = kept_ - ((total) - new_);                                                          \
    } while (0)
/* What both amount to. */
#define MX_TOTAL(total, rest) ((rest) == (rest) ? (total) + (rest) : (total))

/* A term of a layer's sum.  LONG_SUM: an accumulator would take more than BLOCK_TERMS of this problem's, so it keeps what
 * each addition rounds away; the host knows the number and says so. */
#if defined(LONG_SUM) && LONG_SUM
#define ADD_TERM(T, sum, rest, term) MX_TWO_SUM(T, sum, rest, term)
/* After each term, `number` of them so far: every BLOCK_TERMS the sum goes to a total and begins anew.  TOTAL: of all. */
#define SETTLE(T, number, total, rest, sum)                    \
    if (((number) & (BLOCK_TERMS - 1)) == 0) {                 \
        MX_TWO_SUM(T, total, rest, sum);                       \
        (sum) = (T)((ACC)0);                                   \
    }
#define TOTAL(total, rest, sum) ((total) + ((sum) + (rest)))
#else
#define ADD_TERM(T, sum, rest, term) (sum) += (term)
#define SETTLE(T, number, total, rest, sum)
#define TOTAL(total, rest, sum) (sum)
#endif

/* Of `count` vectors of sums at a time, with three vectors of totals for each: 32 blocks are added up before they go to
 * the total and its rest, since two-sums take time.  settle: totals += sums, sums = 0; `before` counts calls.
 * complete: sums += totals, after `before` calls. */
#define MX_BLOCKS 32
#define DEFINE_LONG_SUMS(V)                                                                      \
    NOINLINE void settle(int before, V *restrict sums, V *restrict totals, long count)           \
    {                                                                                            \
        for (long i = 0; i < count; i++, totals += 3) {                                          \
            const V sum = MX_JOIN(vload, VEC)(i, (const ACC *)sums);                             \
            if (before % MX_BLOCKS != 0)                                                         \
                totals[0] += sum;                                                                \
            else {                                                                               \
                if (before == MX_BLOCKS)                                                         \
                    totals[1] = totals[0], totals[2] = (V)((ACC)0);                              \
                else if (before > MX_BLOCKS)                                                     \
                    MX_TWO_SUM(V, totals[1], totals[2], totals[0]);                              \
                totals[0] = sum;                                                                 \
            }                                                                                    \
            MX_JOIN(vstore, VEC)((V)((ACC)0), i, (ACC *)sums);                                   \
        }                                                                                        \
    }                                                                                            \
    NOINLINE void complete(int before, V *restrict sums, const V *restrict totals, long count)   \
    {                                                                                            \
        for (long i = 0; i < count; i++, totals += 3) {                            \
            V total = totals[0] + sums[i];                                                       \
            if (before > MX_BLOCKS) {                                                            \
                V rest = totals[2], last = total;                                                \
                total = totals[1];                                                               \
                MX_TWO_SUM(V, total, rest, last);                                                \
                total = MX_TOTAL(total, rest);                                                   \
            }                                                                                    \
            sums[i] = total;                                                                     \
        }                                                                                        \
    }

/* How float8 results are rounded, see mx_conv_problem; the random number belongs to the element's offset. */
#ifndef ROUNDING
#define ROUNDING 0
#endif

/* A number for each type: `#if MX_TYPE(X_TYPE) == MX_TYPE_half`; 0 for what is not a type. */
#define MX_TYPE_half 1
#define MX_TYPE_float 2
#define MX_TYPE_double 3
#define MX_TYPE_bfloat16 4
#define MX_TYPE_int8 5
#define MX_TYPE_int32 6
#define MX_TYPE_float8 7  /* E4M3 without infinities and -0, miopenFloat8 */
#define MX_TYPE_bfloat8 8 /* E5M2 likewise, miopenBFloat8 */
#define MX_TYPE_e4m3 9    /* OCP's, miopenFloat8_ocp: a NaN of either sign, no infinities */
#define MX_TYPE_e5m2 10   /* OCP's, miopenBFloat8_ocp, as half with a shorter fraction */
#define MX_TYPE_int 11    /* of ACC only */
#define MX_TYPE(T) MX_JOIN(MX_TYPE_, T)
#define MX_IS_STORAGE(T) (MX_TYPE(T) >= MX_TYPE_half && MX_TYPE(T) <= MX_TYPE_e5m2)
#define MX_INTEGER_ACC (MX_TYPE(ACC) == MX_TYPE_int)

#if !(MX_TYPE(ACC) == MX_TYPE_float || MX_TYPE(ACC) == MX_TYPE_double || MX_INTEGER_ACC)
#error "ACC must be float, double or int"
#endif
#if !(MX_TYPE(SCALAR) == MX_TYPE_float || MX_TYPE(SCALAR) == MX_TYPE_double)
#error "SCALAR must be float or double"
#endif

/* MX_STORE_LOOSE(T, n, p, v), MX_LOAD_LOOSE(T, n, p): n plain elements of any address in global memory.  PoCL takes vstore
 * and vload apart into elements, and those of one byte or two stay apart; its vload_half of one element takes twice as long as the compiler's own. */
#if defined(__x86_64__) || defined(__aarch64__)
#define MX_LOOSE(T, size)                                        \
    typedef T##2 __attribute__((aligned(size))) mx_loose_##T##2; \
    typedef T##4 __attribute__((aligned(size))) mx_loose_##T##4; \
    typedef T##8 __attribute__((aligned(size))) mx_loose_##T##8; \
    typedef T##16 __attribute__((aligned(size))) mx_loose_##T##16;
MX_LOOSE(char, 1)
MX_LOOSE(uchar, 1)
MX_LOOSE(short, 2)
MX_LOOSE(ushort, 2)
MX_LOOSE(int, 4)
MX_LOOSE(uint, 4)
MX_LOOSE(long, 8)
MX_LOOSE(ulong, 8)
MX_LOOSE(float, 4)
#ifdef cl_khr_fp64
MX_LOOSE(double, 8)
#endif
#define MX_STORE_LOOSE_(T, n, p, v) (*(__global mx_loose_##T##n *)(p) = (v))
#define MX_LOAD_LOOSE_(T, n, p) (*(__global const mx_loose_##T##n *)(p))
#if defined(__has_builtin) && (defined(__F16C__) || defined(__aarch64__))
#if __has_builtin(__builtin_load_halff) && __has_builtin(__builtin_store_halff)
#define MX_HALF_BUILTINS 1
#endif
#endif
#else
#define MX_STORE_LOOSE_(T, n, p, v) vstore##n(v, 0, p)
#define MX_LOAD_LOOSE_(T, n, p) vload##n(0, p)
#endif
#define MX_STORE_LOOSE(T, n, p, v) MX_STORE_LOOSE_(T, n, p, v)
#define MX_LOAD_LOOSE(T, n, p) MX_LOAD_LOOSE_(T, n, p)
#ifdef __aarch64__
#include "include/aarch64.h"
#endif

/* What an element is in a buffer.  half is two plain bytes here: they can be copied without cl_khr_fp16. */
#define MX_STORAGE_half ushort
#define MX_STORAGE_float float
#define MX_STORAGE_double double
#define MX_STORAGE_bfloat16 ushort
#define MX_STORAGE_int8 char
#define MX_STORAGE_int32 int
#define MX_STORAGE_float8 uchar
#define MX_STORAGE_bfloat8 uchar
#define MX_STORAGE_e4m3 uchar
#define MX_STORAGE_e5m2 uchar
#define STORAGE(T) MX_JOIN(MX_STORAGE_, T)

/* LOAD(T)(p, i): element i of global memory as float, double or int, whichever holds it. */
#ifdef MX_HALF_BUILTINS
#define MX_LOAD_half(p, i) __builtin_load_halff((__global const half *)((p) + (i)))
#else
#define MX_LOAD_half(p, i) vload_half(0, (__global const half *)((p) + (i)))
#endif
#define MX_LOAD_float(p, i) ((p)[i])
#define MX_LOAD_double(p, i) ((p)[i])
#define MX_LOAD_bfloat16(p, i) as_float((uint)(p)[i] << 16)
#define MX_LOAD_int8(p, i) ((int)(p)[i])
#define MX_LOAD_int32(p, i) ((p)[i])
#define MX_LOAD_float8(p, i) mx_from_float8((p)[i], 3, 0)
#define MX_LOAD_bfloat8(p, i) mx_from_float8((p)[i], 2, 0)
#define MX_LOAD_e4m3(p, i) mx_from_float8((p)[i], 3, 1)
#define MX_LOAD_e5m2(p, i) mx_from_float8((p)[i], 2, 1)
#define LOAD(T) MX_JOIN(MX_LOAD_, T)

/* A float8 with `fraction` bits of fraction, 3 or 2.  Its exponent is biased by 8 or 16, that of a float by 119 or 111
 * more; those of OCP (`ocp` is 1, else 0) are biased by 7 and 15.  Numbers without a leading one get it, and it is
 * subtracted again: no float on the way is subnormal. */
#define MX_FLOAT8_MORE(fraction, ocp) (((fraction) == 3 ? 119u << 23 : 111u << 23) + ((uint)(ocp) << 23))
/* The least code, sign aside, that is no number: NaN, or OCP's infinity of 2 bits. */
#define MX_OCP8_SPECIAL(fraction) ((fraction) == 3 ? 0x7fu : 0x7cu)
static inline float mx_from_float8(uint bits, int fraction, int ocp)
{
    const uint more = MX_FLOAT8_MORE(fraction, ocp), low = (bits & 0x7fu) << (23 - fraction);
    const uint sign = (bits & 0x80u) << 24;
    if (ocp && (bits & 0x7fu) >= MX_OCP8_SPECIAL(fraction))
        return as_float((bits & 0x7fu) == 0x7cu ? 0x7f800000u | sign : 0x7fc00000u);
    if (!ocp && bits == 0x80u)
        return NAN;
    if (low >> 23 != 0)
        return as_float(low + more | sign);
    return as_float(as_uint(as_float(low + more + (1u << 23)) - as_float(more + (1u << 23))) | sign);
}

/* VLOAD(T)(p, i): VEC consecutive elements likewise; needs no alignment beyond the element's. */
#define MX_VLOAD_half(p, i) MX_JOIN(mx_load_half, VEC)((p) + (i))
#define MX_VLOAD_float(p, i) MX_JOIN(vload, VEC)(0, (p) + (i))
#define MX_VLOAD_double(p, i) MX_JOIN(vload, VEC)(0, (p) + (i))
#define MX_VLOAD_bfloat16(p, i) \
    MX_JOIN(as_float, VEC)(MX_JOIN(convert_uint, VEC)(MX_LOAD_LOOSE(ushort, VEC, (p) + (i))) << 16)
#define MX_VLOAD_int8(p, i) MX_JOIN(convert_int, VEC)(MX_LOAD_LOOSE(char, VEC, (p) + (i)))
#define MX_VLOAD_int32(p, i) MX_JOIN(vload, VEC)(0, (p) + (i))
#define MX_VLOAD_float8(p, i) MX_VLOAD_FLOAT8(p, i, 3, 0)
#define MX_VLOAD_bfloat8(p, i) MX_VLOAD_FLOAT8(p, i, 2, 0)
#define MX_VLOAD_e4m3(p, i) MX_VLOAD_FLOAT8(p, i, 3, 1)
#define MX_VLOAD_e5m2(p, i) MX_VLOAD_FLOAT8(p, i, 2, 1)
#define MX_VLOAD_FLOAT8(p, i, fraction, ocp)                                                                       \
    MX_JOIN(mx_from_float8_, VEC)(MX_JOIN(convert_uint, VEC)(MX_LOAD_LOOSE(uchar, VEC, (p) + (i))), fraction, ocp)
#define VLOAD(T) MX_JOIN(MX_VLOAD_, T)

#define MX_FLOAT8_VECTORS(n)                                                                               \
    static inline float##n mx_from_float8_##n(uint##n bits, int fraction, int ocp)                         \
    {                                                                                                      \
        const uint more = MX_FLOAT8_MORE(fraction, ocp);                                                   \
        const uint##n low = (bits & 0x7fu) << (uint)(23 - fraction);                                       \
        const uint##n small = as_uint##n(as_float##n(low + more + (1u << 23)) - as_float(more + (1u << 23))); \
        const uint##n value = (low >> 23 != 0u ? low + more : small) | (bits & 0x80u) << 24;               \
        const uint##n size = bits & 0x7fu;                                                                 \
        const uint##n special = size == 0x7cu ? 0x7f800000u | (bits & 0x80u) << 24 : (uint##n)0x7fc00000u; \
        if (ocp)                                                                                           \
            return as_float##n(size >= MX_OCP8_SPECIAL(fraction) ? special : value);                       \
        return as_float##n(bits == 0x80u ? (uint##n)0x7fc00000u : value);                                  \
    }
MX_FLOAT8_VECTORS(2)
MX_FLOAT8_VECTORS(4)
MX_FLOAT8_VECTORS(8)
MX_FLOAT8_VECTORS(16)

/* PoCL's vload_half and vstore_half fault where an address is no multiple of the whole vector's size, which OpenCL does
 * not ask for: the bits go through a variable.  Of the compiler's own, LLVM makes one instruction for four elements on ARM.
 * bfloat16 as mx_to_bfloat16. */
#if defined(MX_HALF_BUILTINS) && defined(__aarch64__)
#define MX_FROM_HALVES(n, bits, value)                                     \
    _Pragma("unroll") for (int i = 0; i < n; i++)                          \
        value[i] = __builtin_load_halff((const __private half *)&bits + i);
#define MX_TO_HALVES(n, value, bits)                                       \
    _Pragma("unroll") for (int i = 0; i < n; i++)                          \
        __builtin_store_halff(value[i], (__private half *)&bits + i);
#else
#define MX_FROM_HALVES(n, bits, value) value = vload_half##n(0, (const __private half *)&bits);
#define MX_TO_HALVES(n, value, bits) vstore_half##n##_rte(value, 0, (__private half *)&bits);
#endif
#define MX_HALF_LOADS(n)                                                                    \
    static inline float##n mx_load_half##n(__global const ushort *p)                        \
    {                                                                                       \
        const ushort##n bits = MX_LOAD_LOOSE(ushort, n, p);                                 \
        float##n value;                                                                     \
        MX_FROM_HALVES(n, bits, value)                                                      \
        return value;                                                                       \
    }
MX_HALF_LOADS(2)
MX_HALF_LOADS(4)
MX_HALF_LOADS(8)
#ifdef __AVX512F__
MX_HALF_LOADS(16)
#else /* in one go AVX2 took its second half apart and joined it again */
static inline float16 mx_load_half16(__global const ushort *p)
{
    return (float16)(mx_load_half8(p), mx_load_half8(p + 8));
}
#endif
#define MX_HALF_VECTORS(n)                                                                  \
    static inline ushort##n mx_half_bits##n(float##n value)                                 \
    {                                                                                       \
        ushort##n bits;                                                                     \
        MX_TO_HALVES(n, value, bits)                                                        \
        return bits;                                                                        \
    }                                                                                       \
    static inline ushort##n mx_bfloat16_bits##n(float##n value)                             \
    {                                                                                       \
        const uint##n bits = as_uint##n(value);                                             \
        const uint##n rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;                 \
        return convert_ushort##n(value != value ? bits >> 16 | 0x40u : rounded);            \
    }
MX_HALF_VECTORS(2)
MX_HALF_VECTORS(4)
MX_HALF_VECTORS(8)
MX_HALF_VECTORS(16)

/* MX_PREFETCH(p, written): let a line of memory be brought in, which need not be anybody's, where the compiler can.  Not
 * where it makes SPIR-V (Mesa's Rusticl), whose translator ends the process. */
#if defined(__has_builtin) && !defined(__SPIRV__) && !defined(__SPIRV32__) && !defined(__SPIRV64__)
#if __has_builtin(__builtin_prefetch)
#define MX_PREFETCH(p, written) __builtin_prefetch((const void *)(ulong)(p), written)
#endif
#endif
#ifndef MX_PREFETCH
#define MX_PREFETCH(p, written) ((void)(p))
#endif

/* VSTORE(T)(p, i, v): VEC consecutive elements of a vector of floats (of doubles), rounded to nearest even. */
#define MX_FLOATS(v) MX_JOIN(convert_float, VEC)(v)
#define MX_VSTORE_half(p, i, v) MX_STORE_LOOSE(ushort, VEC, (p) + (i), MX_JOIN(mx_half_bits, VEC)(MX_FLOATS(v)))
#define MX_VSTORE_float(p, i, v) MX_JOIN(vstore, VEC)(MX_FLOATS(v), 0, (p) + (i))
#define MX_VSTORE_double(p, i, v) MX_JOIN(vstore, VEC)(MX_JOIN(convert_double, VEC)(v), 0, (p) + (i))
#define MX_VSTORE_bfloat16(p, i, v) MX_STORE_LOOSE(ushort, VEC, (p) + (i), MX_JOIN(mx_bfloat16_bits, VEC)(MX_FLOATS(v)))
#define VSTORE(T) MX_JOIN(MX_VSTORE_, T)

/* VSTREAM(T)(p, i, v): likewise, at an address that is a multiple of the vector's size; past the caches where STREAM
 * is 1 and the compiler knows how.  BEFORE_STREAM(p): elements before the next such address; 0 where it does not
 * matter. */
#ifndef STREAM
#define STREAM 0
#endif
#if STREAM && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define MX_STREAMS 1
#endif
#endif
#ifdef MX_STREAMS
#define VSTREAM_BITS(T, p, i, v) __builtin_nontemporal_store(v, (__global MX_JOIN(T, VEC) *)((p) + (i)))
#define BEFORE_STREAM(p) ((long)(-(ulong)(p) % (VEC * sizeof(*(p))) / sizeof(*(p))))
#define MX_VSTREAM_half(p, i, v) VSTREAM_BITS(ushort, p, i, MX_JOIN(mx_half_bits, VEC)(MX_FLOATS(v)))
#define MX_VSTREAM_float(p, i, v) VSTREAM_BITS(float, p, i, MX_FLOATS(v))
#define MX_VSTREAM_double(p, i, v) VSTREAM_BITS(double, p, i, MX_JOIN(convert_double, VEC)(v))
#define MX_VSTREAM_bfloat16(p, i, v) VSTREAM_BITS(ushort, p, i, MX_JOIN(mx_bfloat16_bits, VEC)(MX_FLOATS(v)))
#define VSTREAM(T) MX_JOIN(MX_VSTREAM_, T)
#else
#define VSTREAM_BITS(T, p, i, v) MX_JOIN(vstore, VEC)(v, 0, (p) + (i))
#define BEFORE_STREAM(p) 0L
#define VSTREAM(T) VSTORE(T)
#endif

/* VLOAD_ANY_ORDER(T), VSTORE_ANY_ORDER(T), VSTREAM_ANY_ORDER(T): likewise, but lane l has element ELEMENT_OF_LANE(T, l) of
 * the VEC, in all three.  A word of two bfloat16 is two floats by a shift and a mask, the even elements and the odd ones,
 * and two vectors of floats are rounded as one of 16 bits; in order AVX2 shuffles across its halves, which takes twice as
 * long. */
#define VLOAD_ANY_ORDER(T) MX_JOIN(MX_VLOAD_ANY_, T)
#define VSTORE_ANY_ORDER(T) MX_JOIN(MX_VSTORE_ANY_, T)
#define ELEMENT_OF_LANE(T, l) (MX_TYPE(T) == MX_TYPE_bfloat16 ? MX_LANE_bfloat16(l) : (l))
#define MX_VLOAD_ANY_half MX_VLOAD_half
#define MX_VLOAD_ANY_float MX_VLOAD_float
#define MX_VLOAD_ANY_double MX_VLOAD_double
#define MX_VLOAD_ANY_int8 MX_VLOAD_int8
#define MX_VLOAD_ANY_int32 MX_VLOAD_int32
#define MX_VSTORE_ANY_half MX_VSTORE_half
#define MX_VSTORE_ANY_float MX_VSTORE_float
#define MX_VSTORE_ANY_double MX_VSTORE_double
#define MX_VSTORE_ANY_int8 MX_VSTORE_int8
#define MX_VSTORE_ANY_int32 MX_VSTORE_int32
#ifdef MX_STREAMS
#define VSTREAM_ANY_ORDER(T) MX_JOIN(MX_VSTREAM_ANY_, T)
#define MX_VSTREAM_ANY_half MX_VSTREAM_half
#define MX_VSTREAM_ANY_float MX_VSTREAM_float
#define MX_VSTREAM_ANY_double MX_VSTREAM_double
#define MX_VSTREAM_ANY_int8 MX_VSTREAM_int8
#define MX_VSTREAM_ANY_int32 MX_VSTREAM_int32
#else
#define VSTREAM_ANY_ORDER(T) VSTORE_ANY_ORDER(T)
#endif
#if defined(__x86_64__) && !defined(__AVX512F__)
#define MX_EVEN_ODD(n, half_n)                                                                  \
    static inline float##n mx_even_odd_floats##n(ushort##n bits)                                \
    {                                                                                           \
        const uint##half_n words = as_uint##half_n(bits);                                       \
        return (float##n)(as_float##half_n(words << 16), as_float##half_n(words & 0xffff0000u)); \
    }                                                                                           \
    static inline ushort##n mx_even_odd_bits##n(float##n value)                                 \
    {                                                                                           \
        const uint##half_n even = as_uint##half_n(value.lo), odd = as_uint##half_n(value.hi);   \
        const ushort##n high = as_ushort##n(even >> 16 | (odd & 0xffff0000u));                  \
        const ushort##n low = as_ushort##n((even & 0xffffu) | odd << 16);                       \
        /* As mx_to_bfloat16: up where more than a half is cut off, or a half of an odd one. */ \
        const ushort##n up = as_ushort##n(low > (ushort)0x8000 - (high & (ushort)1));           \
        const ushort##n none = as_ushort##n((as_uint##half_n(value.lo != value.lo) & 0xffffu) | \
                                            (as_uint##half_n(value.hi != value.hi) & 0xffff0000u)); \
        return (high - (up & ~none)) | (none & (ushort)0x40);                                   \
    }
MX_EVEN_ODD(8, 4)
MX_EVEN_ODD(16, 8)
#define MX_LANE_bfloat16(l) ((l) < VEC / 2 ? 2 * (l) : 2 * (l) - VEC + 1)
#define MX_VLOAD_ANY_bfloat16(p, i) MX_JOIN(mx_even_odd_floats, VEC)(MX_LOAD_LOOSE(ushort, VEC, (p) + (i)))
#define MX_VSTORE_ANY_bfloat16(p, i, v) \
    MX_STORE_LOOSE(ushort, VEC, (p) + (i), MX_JOIN(mx_even_odd_bits, VEC)(MX_FLOATS(v)))
#define MX_VSTREAM_ANY_bfloat16(p, i, v) VSTREAM_BITS(ushort, p, i, MX_JOIN(mx_even_odd_bits, VEC)(MX_FLOATS(v)))
#else
#define MX_LANE_bfloat16(l) (l)
#define MX_VLOAD_ANY_bfloat16 MX_VLOAD_bfloat16
#define MX_VSTORE_ANY_bfloat16 MX_VSTORE_bfloat16
#define MX_VSTREAM_ANY_bfloat16 MX_VSTREAM_bfloat16
#endif

/* Round to nearest, ties to even.  A NaN stays one: adding to its bits could carry it over to infinity. */
static inline ushort mx_to_bfloat16(float value)
{
    const uint bits = as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (ushort)(bits >> 16 | 0x40u);
    return (ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* 32 random bits for an element: a hash of its offset and the seed, the same wherever it is computed.  Four neighbours
 * share a hash, whose bytes each of them has in another order. */
static inline uint mx_scramble(uint bits)
{
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return bits ^ bits >> 16;
}

static inline uint mx_random(long rounding, long at)
{
    const uint word = mx_scramble((uint)(at >> 2) + mx_scramble((uint)(rounding - 1) ^ (uint)(at >> 34) * 0x9e3779b1u));
    return rotate(word, 8 * (uint)(at & 3));
}

/* To a float8 with `fraction` bits of fraction, 3 or 2, AMD's or OCP's.  Finite numbers saturate; infinity becomes NaN
 * where the type has none. */
static inline uchar mx_to_float8(float value, int fraction, int ocp, long rounding, long at)
{
    const int cut = 23 - fraction, least = (fraction == 3 ? -7 : -15) + ocp;
    const uint bits = as_uint(value) & 0x7fffffffu, sign = as_uint(value) >> 24 & 0x80u;
    const uint top = ocp ? MX_OCP8_SPECIAL(fraction) - 1u : 0x7fu;
    if (ocp && fraction == 2 && bits == 0x7f800000u)
        return (uchar)(0x7cu | sign);
    if (bits >= 0x7f800000u)
        return ocp ? 0x7f : 0x80;
    if (bits >= (uint)(fraction == 3 ? 127 + 8 + ocp : 127 + 16) << 23)
        return (uchar)(top | sign);
    /* In units of the result's last place, with `cut` bits behind the point; what is cut off leaves a last one, or is
     * rounded to nearest where chance decides. */
    const int exponent = max((int)(bits >> 23) - 127, least);
    const float scaled = as_float(bits) * as_float((uint)(127 + 23 - exponent) << 23);
    uint units = (uint)(rounding != 0 ? rint(scaled) : scaled);
    if (rounding != 0)
        units += mx_random(rounding, at) >> (32 - cut);
    else {
        units |= (float)units != scaled;
        units += (1u << (cut - 1)) - 1u + (units >> cut & 1u);
    }
    const uint code = min((units >> cut) + ((uint)(exponent - least) << fraction), top);
    return (uchar)(code == 0 && !ocp ? 0 : code | sign);
}

/* STORE(T)(p, i, v): floating types round to nearest even, float8 as ROUNDING says, integers truncate; int8 then keeps
 * the low eight bits. */
#ifdef MX_HALF_BUILTINS
#define MX_STORE_half(p, i, v) __builtin_store_halff((float)(v), (__global half *)((p) + (i)))
#else
#define MX_STORE_half(p, i, v) vstore_half_rte(v, 0, (__global half *)((p) + (i)))
#endif
#define MX_STORE_float(p, i, v) ((p)[i] = (float)(v))
#define MX_STORE_double(p, i, v) ((p)[i] = (double)(v))
#define MX_STORE_bfloat16(p, i, v) ((p)[i] = mx_to_bfloat16((float)(v)))
#define MX_STORE_int8(p, i, v) ((p)[i] = (char)convert_int_sat(v))
#define MX_STORE_int32(p, i, v) ((p)[i] = convert_int_sat(v))
#define MX_STORE_float8(p, i, v) ((p)[i] = mx_to_float8((float)(v), 3, 0, ROUNDING, i))
#define MX_STORE_bfloat8(p, i, v) ((p)[i] = mx_to_float8((float)(v), 2, 0, ROUNDING, i))
#define MX_STORE_e4m3(p, i, v) ((p)[i] = mx_to_float8((float)(v), 3, 1, ROUNDING, i))
#define MX_STORE_e5m2(p, i, v) ((p)[i] = mx_to_float8((float)(v), 2, 1, ROUNDING, i))
#define STORE(T) MX_JOIN(MX_STORE_, T)

/* to[i] = from[j]: the bits where the types are the same, else the value. */
#define COPY(TO, to, i, FROM, from, j)                  \
    do {                                                \
        if (MX_TYPE(TO) == MX_TYPE(FROM))               \
            (to)[i] = (STORAGE(TO))(from)[j];           \
        else                                            \
            STORE(TO)(to, i, LOAD(FROM)(from, j));      \
    } while (0)

/* p[i] = alpha * result + beta * p[i].  An integer result that is not scaled is stored as it is, all bits exact. */
#if MX_INTEGER_ACC
#define MX_MIX SCALAR
#else
#define MX_MIX ACC
#endif
#define STORE_MIXED(T, p, i, result, alpha, beta)                                                          \
    do {                                                                                                   \
        if ((beta) != 0)                                                                                   \
            STORE(T)(p, i, (MX_MIX)(alpha) * (MX_MIX)(result) + (MX_MIX)(beta) * (MX_MIX)LOAD(T)(p, i));   \
        else if (MX_INTEGER_ACC && (alpha) == 1)                                                           \
            STORE(T)(p, i, result);                                                                        \
        else                                                                                               \
            STORE(T)(p, i, (MX_MIX)(alpha) * (MX_MIX)(result));                                            \
    } while (0)

#include "include/problem.h"

/* A place in a tensor: n c d h w, or k c z r s. */
typedef struct {
    INDEX n, c, d, h, w;
} mx_place;

static inline INDEX mx_size(const mx_tensor t)
{
    return (INDEX)(t.len[0] * t.len[1] * t.len[2] * t.len[3] * t.len[4]);
}

/* A place's offset in elements. */
static inline long mx_offset(const mx_tensor t, long n, long c, long d, long h, long w)
{
    return n * t.stride[0] + c * t.stride[1] + d * t.stride[2] + h * t.stride[3] + w * t.stride[4];
}

/* Where row number `line`, of those along the last axis, begins in tensor t of a grid, in elements. */
static inline long mx_grid_offset(const mx_grid g, int t, long line)
{
    long at = 0;
    for (int axis = 3; axis >= 0; axis--)
        if (g.len[axis] > 1) {
            at += line % g.len[axis] * g.stride[t][axis];
            line /= g.len[axis];
        }
    return at;
}

/* Place number i.  Neighbours in i are neighbours in memory: the channel runs fastest where it does in the tensor. */
static inline mx_place mx_place_of(INDEX i, const mx_tensor t)
{
    mx_place a;
    const bool channels_last = t.stride[1] < t.stride[4];
    if (channels_last) {
        a.c = i % (INDEX)t.len[1];
        i /= (INDEX)t.len[1];
    }
    a.w = i % (INDEX)t.len[4];
    i /= (INDEX)t.len[4];
    a.h = i % (INDEX)t.len[3];
    i /= (INDEX)t.len[3];
    a.d = i % (INDEX)t.len[2];
    i /= (INDEX)t.len[2];
    if (!channels_last) {
        a.c = i % (INDEX)t.len[1];
        i /= (INDEX)t.len[1];
    }
    a.n = i;
    return a;
}

/* Those i of [0, count) for which start + i * step is in [0, limit): from .x up to .y, which is not above .x if there
 * is none.  With it a convolution visits only the taps, or outputs, that meet the tensor, with no test in its loops. */
static inline long2 mx_inside(long start, long step, long limit, long count)
{
    const long first = start < 0 ? (step - 1 - start) / step : 0;
    const long last = start < limit ? (limit - 1 - start) / step + 1 : 0;
    return (long2)(first, min(last, count));
}

