/* transpose(rows): turns VEC vectors (vec) of VEC elements, by exchanging halves, quarters ... of pairs of rows. */
#if VEC == 16
#define EXCHANGE_8(a, b) a##_ = (vec)(a.lo, b.lo), b##_ = (vec)(a.hi, b.hi)
#define EXCHANGE_4(a, b) \
    a##_ = (vec)(a.s0123, b.s0123, a.s89ab, b.s89ab), b##_ = (vec)(a.s4567, b.s4567, a.scdef, b.scdef)
#define EXCHANGE_2(a, b)                                                     \
    a##_ = (vec)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd),    \
    b##_ = (vec)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define EXCHANGE_1(a, b)                                                                                               \
    a##_ = (vec)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc, a.se, b.se),      \
    b##_ = (vec)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd, a.sf, b.sf)
#elif VEC == 8
#define EXCHANGE_4(a, b) a##_ = (vec)(a.lo, b.lo), b##_ = (vec)(a.hi, b.hi)
#define EXCHANGE_2(a, b) \
    a##_ = (vec)(a.s01, b.s01, a.s45, b.s45), b##_ = (vec)(a.s23, b.s23, a.s67, b.s67)
#define EXCHANGE_1(a, b)                                                     \
    a##_ = (vec)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6),            \
    b##_ = (vec)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7)
#elif VEC == 4
#define EXCHANGE_2(a, b) a##_ = (vec)(a.lo, b.lo), b##_ = (vec)(a.hi, b.hi)
#define EXCHANGE_1(a, b) a##_ = (vec)(a.s0, b.s0, a.s2, b.s2), b##_ = (vec)(a.s1, b.s1, a.s3, b.s3)
#else
#define EXCHANGE_1(a, b) a##_ = (vec)(a.lo, b.lo), b##_ = (vec)(a.hi, b.hi)
#endif

/* Rows whose numbers differ in bit d alone. */
#define EXCHANGE_ALL(d)                                                      \
    _Pragma("unroll") for (int i = 0; i < VEC; i++)                          \
        if ((i & d) == 0) {                                                  \
            const vec a = rows[i], b = rows[i + d], EXCHANGE_##d(a, b);      \
            rows[i] = a_;                                                    \
            rows[i + d] = b_;                                                \
        }

static inline void transpose(vec *rows)
{
#if VEC > 8
    EXCHANGE_ALL(8)
#endif
#if VEC > 4
    EXCHANGE_ALL(4)
#endif
#if VEC > 2
    EXCHANGE_ALL(2)
#endif
    EXCHANGE_ALL(1)
}
