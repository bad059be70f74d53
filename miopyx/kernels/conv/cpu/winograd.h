/* What the Winograd kernels for CPU devices share: the transforms along one axis, and moving blocks of a tensor to and
 * from vectors whose lanes are channels.
 *
 * The algorithm is Toom and Cook's.  Two polynomials with n and r coefficients have a product with POINTS = n + r - 1,
 * found from its values at POINTS points, infinity among them; transposed, this is n outputs of a filter with r taps
 * from POINTS inputs with POINTS multiplications instead of n r:
 *     outputs = output_transform(filter_transform(filter) * input_transform(inputs))
 * The finite points are 0 and +-A, with 6 points also +-B.  With M(t) the product of (t - q) over the finite points q,
 *     input_transform:  row q holds the coefficients of M(t) / (t - q), the last row those of M(t);
 *     filter_transform: row q holds 1, q, q^2 ..., divided by M'(q); the last row picks the last coefficient;
 *     output_transform: output i is the sum of q^i times the product at q; the last output has that at infinity, too.
 * Points in pairs share the even and the odd part of every polynomial.
 *     4 points: A = 1, M'(0) = -A^2, M'(+-A) = 2 A^2.
 *     6 points: A = 5/8, B = 3/2, whose powers floats hold exactly, M'(0) = A^2 B^2, M'(+-A) = 2 A^2 (A^2 - B^2),
 *               M'(+-B) = 2 B^2 (B^2 - A^2).  Their rounding errors are half of those with the usual 1 and 2.
 *     1 point: an axis without taps; nothing is done.
 */
#ifndef TYPE /* storage of x, w and y */
#define TYPE float
#endif
#ifndef ACC /* type of products and sums: double when TYPE is double */
#define ACC float
#endif
#ifndef VEC /* ACC elements in a vector register, 4, 8 or 16 */
#define VEC 16
#endif
#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#ifndef VECTORS /* vectors side by side in a tile of sums: 4 where there are 32 registers, 2 where there are 16 */
#define VECTORS 4
#endif
#ifndef CHANNELS_LAST /* all three tensors are, packed: NHWC and KRSC; else NCHW and KCRS */
#define CHANNELS_LAST 0
#endif
#ifndef POINTS_H /* along the height: 1, 4 or 6 */
#define POINTS_H 6
#endif
#ifndef POINTS_W
#define POINTS_W 6
#endif
#ifndef TAPS_H /* of the filter: 2 to 5, fewer than the points; 1 where there is one point */
#define TAPS_H 3
#endif
#ifndef TAPS_W
#define TAPS_W 3
#endif
#include "include/common.h"
#include "include/epilogue.h"
#include "conv/cpu/winograd_args.h"

#if MX_TYPE(TYPE) < MX_TYPE_half || MX_TYPE(TYPE) > MX_TYPE_bfloat16
#error "TYPE must be half, float, double or bfloat16"
#endif
#if (POINTS_H != 1 && POINTS_H != 4 && POINTS_H != 6) || (POINTS_W != 1 && POINTS_W != 4 && POINTS_W != 6)
#error "POINTS_H and POINTS_W must be 1, 4 or 6"
#endif
#if TAPS_H > POINTS_H || TAPS_W > POINTS_W || TAPS_H > 5 || TAPS_W > 5
#error "too many taps"
#endif

#define POINTS (POINTS_H * POINTS_W)
#define TAPS (TAPS_H * TAPS_W)
#define TILE_H (POINTS_H - TAPS_H + 1) /* outputs of a tile */
#define TILE_W (POINTS_W - TAPS_W + 1)
#define RUN 16                         /* tiles side by side that are loaded or stored together, at most */
#define LARGEST_DILATION 8
#define RUN_COLUMNS (RUN * TILE_W + LARGEST_DILATION * (POINTS_W - TILE_W))

typedef MX_JOIN(ACC, VEC) vec;
#define TO_VEC MX_JOIN(convert_, MX_JOIN(ACC, VEC))
#define LOAD_ACC MX_JOIN(vload, VEC)
#define STORE_ACC MX_JOIN(vstore, VEC)
#define INLINE static inline __attribute__((always_inline))

/* Which of the slices whose tiles there are tap t of slice `out` of the others reads; a negative number: none. */
static inline long source_slice(const mx_winograd *g, long out, long t)
{
    const long s = g->out_slice + out - g->pad_d + t * g->dilation_d - g->slice;
    return s < g->slices ? s : -1;
}

INLINE vec zero_vector(void)
{
    return (vec)((ACC)0);
}

#define A_ (POINTS_MAX == 4 ? (ACC)1 : (ACC)0.625)
#define B_ ((ACC)1.5)
#define POINTS_MAX (POINTS_H > POINTS_W ? POINTS_H : POINTS_W)
#define A2 (A_ * A_)
#define B2 (B_ * B_)

/* All three transforms: element i of `from` is from[i * step], of `to` to[i * to_step]. */
INLINE void input_transform(const int points, const vec *from, const int step, vec *to, const int to_step)
{
    if (points == 1)
        to[0] = from[0];
    else if (points == 4) {
        const vec d0 = from[0], d1 = from[step], d2 = from[2 * step], d3 = from[3 * step];
        to[0] = d2 - A2 * d0;
        to[to_step] = d2 + A_ * d1;
        to[2 * to_step] = d2 - A_ * d1;
        to[3 * to_step] = d3 - A2 * d1;
    } else {
        const vec d0 = from[0], d1 = from[step], d2 = from[2 * step], d3 = from[3 * step], d4 = from[4 * step],
                  d5 = from[5 * step];
        const vec even_a = d4 - B2 * d2, odd_a = d3 - B2 * d1, even_b = d4 - A2 * d2, odd_b = d3 - A2 * d1;
        to[0] = even_b - B2 * (d2 - A2 * d0);
        to[to_step] = even_a + A_ * odd_a;
        to[2 * to_step] = even_a - A_ * odd_a;
        to[3 * to_step] = even_b + B_ * odd_b;
        to[4 * to_step] = even_b - B_ * odd_b;
        to[5 * to_step] = (d5 - A2 * d3) - B2 * odd_b;
    }
}

/* The even and the odd part at +-q, times f. */
INLINE void filter_transform_pair(const int taps, const vec *from, const int step, const ACC q, const ACC f,
                                  vec *plus, vec *minus)
{
    const ACC q2 = q * q;
    vec even = from[0] * f, odd = zero_vector();
    if (taps > 2)
        even += from[2 * step] * (q2 * f);
    if (taps > 4)
        even += from[4 * step] * (q2 * q2 * f);
    if (taps > 1)
        odd = from[step] * (q * f);
    if (taps > 3)
        odd += from[3 * step] * (q2 * q * f);
    *plus = even + odd;
    *minus = even - odd;
}

INLINE void filter_transform(const int points, const int taps, const vec *from, const int step, vec *to,
                             const int to_step)
{
    if (points == 1)
        to[0] = from[0];
    else if (points == 4) {
        to[0] = from[0] * (-1 / A2);
        filter_transform_pair(taps, from, step, A_, 1 / (2 * A2), to + to_step, to + 2 * to_step);
        to[3 * to_step] = from[(taps - 1) * step];
    } else {
        to[0] = from[0] * (1 / (A2 * B2));
        filter_transform_pair(taps, from, step, A_, 1 / (2 * A2 * (A2 - B2)), to + to_step, to + 2 * to_step);
        filter_transform_pair(taps, from, step, B_, 1 / (2 * B2 * (B2 - A2)), to + 3 * to_step, to + 4 * to_step);
        to[5 * to_step] = from[(taps - 1) * step];
    }
}

INLINE void output_transform(const int points, const int outputs, const vec *from, const int step, vec *to,
                             const int to_step)
{
    if (points == 1) {
        to[0] = from[0];
        return;
    }
    const vec even_a = from[step] + from[2 * step], odd_a = from[step] - from[2 * step];
    vec even_b = zero_vector(), odd_b = zero_vector();
    if (points == 6) {
        even_b = from[3 * step] + from[4 * step];
        odd_b = from[3 * step] - from[4 * step];
    }
    ACC a = 1, b = 1;
#pragma unroll
    for (int i = 0; i < outputs; i++) {
        vec sum = (i % 2 ? odd_a : even_a) * a;
        if (points == 6)
            sum += (i % 2 ? odd_b : even_b) * b;
        if (i == 0)
            sum += from[0];
        if (i == outputs - 1)
            sum += from[(points - 1) * step];
        to[i * to_step] = sum;
        a *= A_;
        b *= B_;
    }
}

/* r[i][j] and r[j][i] change places: each stage shuffles two halves of the rows into each other. */
#define SHUFFLE_STAGE(to, from)                                     \
    _Pragma("unroll") for (int i = 0; i < VEC / 2; i++) {           \
        to[2 * i].even = from[i].lo;                                \
        to[2 * i].odd = from[i + VEC / 2].lo;                       \
        to[2 * i + 1].even = from[i].hi;                            \
        to[2 * i + 1].odd = from[i + VEC / 2].hi;                   \
    }
INLINE void transpose(vec *r)
{
    vec t[VEC];
    SHUFFLE_STAGE(t, r)
    SHUFFLE_STAGE(r, t)
#if VEC == 16
    SHUFFLE_STAGE(t, r)
    SHUFFLE_STAGE(r, t)
#elif VEC == 8
    SHUFFLE_STAGE(t, r)
#pragma unroll
    for (int i = 0; i < VEC; i++)
        r[i] = t[i];
#endif
}

/* Elements i ... i + VEC - 1; zeros from `limit` on. */
NOINLINE vec load_first(__global const STORAGE(TYPE) *p, long i, long limit)
{
    if (i + VEC <= limit)
        return TO_VEC(VLOAD(TYPE)(p, i));
    ACC lanes[VEC];
    for (int lane = 0; lane < VEC; lane++)
        lanes[lane] = i + lane < limit ? (ACC)LOAD(TYPE)(p, i + lane) : (ACC)0;
    return LOAD_ACC(0, lanes);
}

/* to[i] = elements i of `lanes` rows at a stride of `stride`, for i in [0, length); lanes beyond are 0.  p has `limit`
 * elements in all: no load goes beyond them.  Whole vectors are written: up to VEC - 1 behind `length` are anything. */
NOINLINE void load_lanes(__global const STORAGE(TYPE) *p, long start, long stride, long limit, int lanes, long length,
                         vec *to)
{
    for (long i = 0; i < length; i += VEC) {
        vec r[VEC];
        if (lanes == VEC && start + i + (VEC - 1) * stride + VEC <= limit) {
            __global const STORAGE(TYPE) *q = p + start + i;
#pragma unroll
            for (int lane = 0; lane < VEC; lane++, q += stride)
                r[lane] = TO_VEC(VLOAD(TYPE)(q, 0));
        } else {
            vec rows[VEC]; /* r itself stays in registers only if no index varies */
            for (int lane = 0; lane < VEC; lane++)
                rows[lane] = lane < lanes ? load_first(p, start + i + lane * stride, limit) : zero_vector();
#pragma unroll
            for (int lane = 0; lane < VEC; lane++)
                r[lane] = rows[lane];
        }
        transpose(r);
#pragma unroll
        for (int j = 0; j < VEC; j++)
            to[i + j] = r[j];
    }
}

/* The first `count` lanes, mixed with what is there; with an epilogue they were scaled before. */
INLINE void store_first(__global STORAGE(TYPE) *p, vec v, long count, EPILOGUE_PARAMS)
{
#ifndef EPILOGUE
    v *= (vec)((ACC)alpha);
#endif
    if (count >= VEC) {
        if (beta != 0)
            v += (vec)((ACC)beta) * TO_VEC(VLOAD(TYPE)(OLD_RESULT(TYPE, p), 0));
        VSTORE(TYPE)(p, 0, FINAL_RESULT(v));
        return;
    }
    ACC lanes[VEC];
#ifdef EPILOGUE
    if (beta != 0) {
        STORE_ACC(v, 0, lanes);
        for (int i = 0; i < count; i++)
            lanes[i] += (ACC)beta * (ACC)LOAD(TYPE)(OLD_RESULT(TYPE, p), i);
        v = MX_JOIN(vload, VEC)(0, lanes);
    }
    STORE_ACC(FINAL_RESULT(v), 0, lanes);
    for (int i = 0; i < count; i++)
        STORE(TYPE)(p, i, lanes[i]);
#else
    STORE_ACC(v, 0, lanes);
    for (int i = 0; i < count; i++)
        STORE(TYPE)(p, i, beta != 0 ? lanes[i] + (ACC)beta * (ACC)LOAD(TYPE)(p, i) : lanes[i]);
#endif
}

/* The reverse of load_lanes: lane l of from[i] goes to p[l * stride + i].  Whole vectors are read.  Short rows without
 * a gap are written as whole vectors as well, each of which is put right by the next row. */
NOINLINE void store_lanes(__global STORAGE(TYPE) *p, long stride, int lanes, long length, const vec *from,
                          EPILOGUE_PARAMS)
{
    for (long i = 0; i < length; i += VEC) {
        vec r[VEC], rows[VEC];
#pragma unroll
        for (int j = 0; j < VEC; j++)
            r[j] = from[i + j];
        transpose(r);
#pragma unroll
        for (int lane = 0; lane < VEC; lane++)
            rows[lane] = r[lane];
        int lane = 0;
        if (stride == length && length < VEC && beta == 0)
            for (; lane * stride + VEC <= lanes * stride; lane++)
                store_first(p + lane * stride, rows[lane], VEC, EPILOGUE_ARGS);
        for (; lane < lanes; lane++)
            store_first(p + lane * stride + i, rows[lane], length - i, EPILOGUE_ARGS);
    }
}

#define DIVIDE_UP(a, b) (((a) + (b) - 1) / (b))
