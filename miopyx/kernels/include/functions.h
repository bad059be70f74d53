/* V, V_LANES numbers of type ACC at a time, VEC unless a file says otherwise, and the exponential functions of them.
 *
 * V_LANES is 1 where work-items are small, and V a scalar.  For float vectors the functions are polynomials, since what an
 * OpenCL library does lane by lane takes longer than the memory.  Their errors are at most 3 units in the last place;
 * results below the smallest normal number are right to the spacing there, but for mx_exp_below.  NaN stays NaN.
 */
#ifndef MIOPYX_FUNCTIONS_H
#define MIOPYX_FUNCTIONS_H
#ifndef V_LANES
#define V_LANES VEC
#endif
#if V_LANES == 1
#define VJOIN(name) name
#else
#define VJOIN(name) MX_JOIN(name, V_LANES)
#endif
typedef VJOIN(ACC) V;
#if MX_TYPE(ACC) == MX_TYPE_double
typedef VJOIN(long) VI; /* what comparisons give, and what holds a number's bits */
#define AS_VI VJOIN(as_long)
#else
typedef VJOIN(int) VI;
#define AS_VI VJOIN(as_int)
#endif
#define AS_V VJOIN(MX_JOIN(as_, ACC))

#if V_LANES > 1 && MX_TYPE(ACC) == MX_TYPE_float

#ifdef FP_FAST_FMAF
#define MX_FMA fma
#else
#define MX_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define MX_TO_INTEGER 12582912.0f /* 1.5 * 2^23: what is added to it is rounded to an integer, in its lowest bits */

/* e^r - 1 for abs(r) <= ln 2 / 2. */
static inline V mx_expm1_of_part(V r)
{
    V q = (V)0.0013946552f;
    q = MX_FMA(q, r, (V)0.0083666444f);
    q = MX_FMA(q, r, (V)0.041666280f);
    q = MX_FMA(q, r, (V)0.16666542f);
    q = MX_FMA(q, r, (V)0.5f);
    return MX_FMA(q * r, r, r);
}

/* x = n ln 2 + r, for abs(x) <= 110; returns e^r - 1.  n times the first part of ln 2 is exact. */
static inline V mx_reduce(V x, VI *n)
{
    const V shifted = MX_FMA(x, (V)1.44269504f, (V)MX_TO_INTEGER), whole = shifted - MX_TO_INTEGER;
    const V r = MX_FMA(whole, (V)2.12194440e-4f, MX_FMA(whole, (V)-0.693359375f, x));
    *n = AS_VI(shifted) - AS_VI((V)MX_TO_INTEGER);
    return mx_expm1_of_part(r);
}

/* x * 2^n where 2^n may be no normal number, but its two halves are. */
static inline V mx_scaled(V x, VI n)
{
    const VI some = n >> 1;
    return x * AS_V((some + 127) << 23) * AS_V((n - some + 127) << 23);
}

static inline V mx_exp(V x)
{
    VI n;
    x = x < -110.0f ? (V)-110.0f : x;
    x = x > 90.0f ? (V)90.0f : x;
    const V p = mx_reduce(x, &n);
    return mx_scaled(p + 1.0f, n);
}

/* e^x for x up to 0, and 0 where that is below the smallest normal number: half the work of mx_exp. */
static inline V mx_exp_below(V x)
{
    const V bounded = x < -87.336f ? (V)-87.336f : x;
    const V shifted = MX_FMA(bounded, (V)1.44269504f, (V)MX_TO_INTEGER), whole = shifted - MX_TO_INTEGER;
    const V r = MX_FMA(whole, (V)2.12194440e-4f, MX_FMA(whole, (V)-0.693359375f, bounded));
    const V power = AS_V(AS_VI(mx_expm1_of_part(r) + 1.0f) + (AS_VI(shifted) << 23));
    return x >= -87.336f ? power : bounded - bounded; /* 0, or NaN */
}

/* e^x - 1 for x up to 88. */
static inline V mx_expm1(V x)
{
    VI n;
    x = x < -30.0f ? (V)-30.0f : x;
    const V p = mx_reduce(x, &n);
    const V two_n = AS_V((n + 127) << 23);
    return n == 0 ? p : MX_FMA(p, two_n, two_n - 1.0f);
}

/* log(1 + x) for 0 <= x <= 1, as 2 atanh(x / (2 + x)). */
static inline V mx_log1p(V x)
{
    const V s = x / (x + 2.0f), t = s * s;
    V q = (V)0.28031279f;
    q = MX_FMA(q, t, (V)0.27997863f);
    q = MX_FMA(q, t, (V)0.40021771f);
    q = MX_FMA(q, t, (V)0.66666412f);
    return MX_FMA(q * t, s, s + s);
}

/* log(x) for normal numbers: x = 2^n m with sqrt(1/2) <= m < sqrt(2), and log(m) = 2 atanh((m - 1) / (m + 1)). */
static inline V mx_log(V x)
{
    const VI bits = AS_VI(x), n = (bits - 0x3f3504f3) >> 23;
    const V m = AS_V(bits - (n << 23)), s = (m - 1.0f) / (m + 1.0f), t = s * s, whole = VJOIN(convert_float)(n);
    V q = (V)0.28031279f;
    q = MX_FMA(q, t, (V)0.27997863f);
    q = MX_FMA(q, t, (V)0.40021771f);
    q = MX_FMA(q, t, (V)0.66666412f);
    const V small = MX_FMA(whole, (V)-2.12194440e-4f, MX_FMA(q * t, s, s + s));
    return x != x ? x : MX_FMA(whole, (V)0.693359375f, small);
}

static inline V mx_tanh(V x)
{
    V size = fabs(x);
    size = size > 9.1f ? (V)9.1f : size;
    const V e = mx_expm1(size + size);
    return copysign(e / (e + 2.0f), x);
}

#ifdef cl_khr_fp64
/* x^power for normal x above 0 (of other numbers it says anything); in double, since power * log2(x) may be 128. */
static inline V mx_pow(V x, float power)
{
    const VI bits = AS_VI(x), n = (bits - 0x3f3504f3) >> 23; /* x = 2^n m, sqrt(1/2) <= m < sqrt(2) */
    const VJOIN(double) m = VJOIN(convert_double)(AS_V(bits - (n << 23))), s = (m - 1.0) / (m + 1.0), t = s * s;
    VJOIN(double) y = 0.3407329932424559;
    y = MX_FMA(y, t, (VJOIN(double))0.41167268734376855);
    y = MX_FMA(y, t, (VJOIN(double))0.5770835830070087);
    y = MX_FMA(y, t, (VJOIN(double))0.9617966733682309);
    y = MX_FMA(y, t, (VJOIN(double))2.885390081790048);
    y = MX_FMA(y, s, VJOIN(convert_double)(n)) * (double)power;
    y = y < -160.0 ? (VJOIN(double))-160.0 : y;
    y = y > 130.0 ? (VJOIN(double))130.0 : y;
    const VJOIN(double) whole = (y + 0x1.8p52) - 0x1.8p52;
    const V p = mx_expm1_of_part(VJOIN(convert_float)(y - whole) * 0.69314718f);
    V result = mx_scaled(p + 1.0f, VJOIN(convert_int)(whole));
    result = x == INFINITY ? (V)(power < 0 ? 0.0f : INFINITY) : result;
    return power == 0 ? (V)1.0f : x != x ? x : result;
}
#else
#define mx_pow(x, power) pow(x, (V)(power))
#endif

#else
/* x^power, of 0 anything: beside lanes of 0 PoCL's pow of vectors is wrong. */
static inline V mx_pow(V x, ACC power)
{
    return pow(x == 0 ? (V)1 : x, (V)power);
}
#define mx_exp(x) exp(x)
#define mx_exp_below(x) exp(x)
#define mx_expm1(x) expm1(x)
#define mx_log(x) log(x)
#define mx_log1p(x) log1p(x)
#define mx_tanh(x) tanh(x)
#endif
#endif
