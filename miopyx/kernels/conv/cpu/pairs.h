/* int8 for CPU devices: two neighbours of a sum are the halves of an int, 16 bits each, the first one below.  x86
 * multiplies both and adds the products in one instruction (pmaddwd; with VNNI vpdpwssd, which adds them to the sum, too);
 * nothing is rounded, and nothing saturates.  Include it before conv/cpu/register_tile.h.
 */
typedef MX_JOIN(int, VEC) mx_ints;
#define PAIR(low, high) ((low) & 0xffff | (high) << 16)

/* sum + a.low * b.low + a.high * b.high */
#if defined(__has_builtin)
#if VEC == 16 && defined(__AVX512BW__) && __has_builtin(__builtin_ia32_pmaddwd512)
#define MX_PMADDWD __builtin_ia32_pmaddwd512
#elif VEC == 8 && defined(__AVX2__) && __has_builtin(__builtin_ia32_pmaddwd256)
#define MX_PMADDWD __builtin_ia32_pmaddwd256
#elif VEC == 4 && defined(__SSE2__) && __has_builtin(__builtin_ia32_pmaddwd128)
#define MX_PMADDWD __builtin_ia32_pmaddwd128
#endif
#endif
#ifdef MX_PMADDWD
typedef short mx_shorts __attribute__((__vector_size__(4 * VEC)));
#define ADD_PRODUCT(sum, a, b) \
    ((sum) + __builtin_astype(MX_PMADDWD(__builtin_astype(a, mx_shorts), __builtin_astype(b, mx_shorts)), mx_ints))
#else
/* Compilers know the pattern, but not where they have added both products to the sum one after the other.  `zero` is one
 * that they do not know, and keeps them from that. */
#define SHORTS(n, v) MX_JOIN(convert_int, n)(MX_JOIN(as_short, n)(v))
#define SUMS_OF_PAIRS(n, a, b) (SHORTS(n, a) * SHORTS(n, b)).even + (SHORTS(n, a) * SHORTS(n, b)).odd
static inline mx_ints mx_products(mx_ints a, mx_ints b, int zero)
{
#if VEC == 16
    return (mx_ints)(SUMS_OF_PAIRS(16, a.lo, b.lo), SUMS_OF_PAIRS(16, a.hi, b.hi)) ^ (mx_ints)zero;
#elif VEC == 8
    return (SUMS_OF_PAIRS(16, a, b)) ^ (mx_ints)zero;
#elif VEC == 4
    return (SUMS_OF_PAIRS(8, a, b)) ^ (mx_ints)zero;
#else
    return (SUMS_OF_PAIRS(4, a, b)) ^ (mx_ints)zero;
#endif
}
#define ADD_PRODUCT(sum, a, b) ((sum) + mx_products(a, b, (int)((ulong)depth >> 63))) /* depth: no negative number */
#endif

/* VEC pairs of 2 * VEC neighbours at any address. */
static inline mx_ints load_pairs(__global const char *p)
{
#if VEC == 16
    const char16 a = MX_LOAD_LOOSE(char, 16, p), b = MX_LOAD_LOOSE(char, 16, p + 16);
    return PAIR(convert_int16((char16)(a.even, b.even)), convert_int16((char16)(a.odd, b.odd)));
#elif VEC == 8
    const char16 a = MX_LOAD_LOOSE(char, 16, p);
    return PAIR(convert_int8(a.even), convert_int8(a.odd));
#elif VEC == 4
    const char8 a = MX_LOAD_LOOSE(char, 8, p);
    return PAIR(convert_int4(a.even), convert_int4(a.odd));
#else
    const char4 a = MX_LOAD_LOOSE(char, 4, p);
    return PAIR(convert_int2(a.even), convert_int2(a.odd));
#endif
}

/* Pair i of `count` numbers; beyond the last one is zero. */
static inline int pair_of(__global const char *p, int i, int count)
{
    return PAIR((int)p[2 * i], 2 * i + 1 < count ? (int)p[2 * i + 1] : 0);
}
