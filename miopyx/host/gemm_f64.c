/* The inner loops of the host path, compiled once for each instruction set (MX_VARIANT names it).
 *
 * Sums are kept in double.  Products of two int8 are integers below 2^14, so sums of fewer than 2^39 of them are exact:
 * double is the integer accumulator as well.
 */
#include "gemm_f64.h"

#include <string.h>

#include "miopyx/values/_types.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* Tiles stay in registers only where the loops over them are gone. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

/* A tile takes MR * NV vector registers; the rest hold NV vectors of b and one element of a. */
#if defined(__AVX512F__)
enum { VL = 8, MR = 8, NV = 3, KC = 256 };
#elif defined(__AVX2__)
enum { VL = 4, MR = 4, NV = 3, KC = 256 };
#elif defined(__aarch64__)
enum { VL = 2, MR = 6, NV = 4, KC = 256 };
#else
enum { VL = 2, MR = 4, NV = 2, KC = 256 };
#endif
enum { NR = VL * NV };

typedef double vdouble __attribute__((vector_size(VL * 8)));
typedef float vfloat __attribute__((vector_size(VL * 4)));
typedef uint64_t vu64 __attribute__((vector_size(VL * 8)));
typedef uint32_t vu32 __attribute__((vector_size(VL * 4)));
typedef uint16_t vu16 __attribute__((vector_size(VL * 2)));

#define FOR_EACH_TYPE(call) \
    switch (type) { \
    case MX_DOUBLE: call(MX_DOUBLE); break; \
    case MX_FLOAT: call(MX_FLOAT); break; \
    case MX_HALF: call(MX_HALF); break; \
    case MX_BFLOAT16: call(MX_BFLOAT16); break; \
    case MX_INT32: call(MX_INT32); break; \
    case MX_FLOAT8: call(MX_FLOAT8); break; \
    case MX_BFLOAT8: call(MX_BFLOAT8); break; \
    case MX_E4M3: call(MX_E4M3); break; \
    case MX_E5M2: call(MX_E5M2); break; \
    default: call(MX_INT8); break; \
    }

/* Elements may lie at any address: memcpy is the load that assumes nothing, and compiles to one instruction. */
INLINE vdouble load_vector(const double *p) {
    vdouble v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store_vector(double *p, vdouble v) {
    memcpy(p, &v, sizeof v);
}

/* ---- Elements to doubles: exact for every type ---- */

INLINE double half_to_double(uint16_t h) {
    /* Exponent and fraction moved into a double are 2^1008 too small; subnormals come out right as well. */
    uint64_t bits = (uint64_t) (h & 0x7fff) << 42, sign = (uint64_t) (h & 0x8000) << 48;
    double v;
    if ((h & 0x7c00) == 0x7c00) {
        bits |= UINT64_C(0x7ff) << 52;
        memcpy(&v, &bits, sizeof v);
    } else {
        memcpy(&v, &bits, sizeof v);
        v *= 0x1p1008;
    }
    memcpy(&bits, &v, sizeof v);
    bits |= sign;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* AMD's have 3 bits of fraction and an exponent biased by 8, or 2 and 16, without infinities or -0, whose place is
 * NaN's.  OCP's are biased by 7 and 15 and have -0; the largest code of 3 bits is NaN, those of 2 bits as in half. */
INLINE double float8_to_double(uint8_t byte, int fraction, int ocp) {
    /* As for half: 1015 or 1007, or one more, is what the double's bias is larger by. */
    uint64_t bits = (uint64_t) (byte & 0x7f) << (52 - fraction), sign = (uint64_t) (byte & 0x80) << 56;
    double v;
    if (ocp ? (byte & 0x7f) > (fraction == 3 ? 0x7e : 0x7c) : byte == 0x80)
        return __builtin_nan("");
    if (ocp && fraction == 2 && (byte & 0x7f) == 0x7c)
        return byte & 0x80 ? -__builtin_inf() : __builtin_inf();
    memcpy(&v, &bits, sizeof v);
    v *= (fraction == 3 ? 0x1p1015 : 0x1p1007) * (1 + ocp);
    memcpy(&bits, &v, sizeof v);
    bits |= sign;
    memcpy(&v, &bits, sizeof v);
    return v;
}

INLINE double load_one(int64_t type, const char *p) {
    switch (type) {
    case MX_DOUBLE: {
        double v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    case MX_FLOAT: {
        float v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    case MX_HALF: {
        uint16_t v;
        memcpy(&v, p, sizeof v);
        return half_to_double(v);
    }
    case MX_BFLOAT16: {
        uint16_t v;
        memcpy(&v, p, sizeof v);
        uint32_t bits = (uint32_t) v << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    case MX_INT32: {
        int32_t v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    case MX_FLOAT8:
        return float8_to_double((uint8_t) *p, 3, 0);
    case MX_BFLOAT8:
        return float8_to_double((uint8_t) *p, 2, 0);
    case MX_E4M3:
        return float8_to_double((uint8_t) *p, 3, 1);
    case MX_E5M2:
        return float8_to_double((uint8_t) *p, 2, 1);
    default:
        return *(const signed char *) p;
    }
}

INLINE int64_t type_size(int64_t type) {
    return type == MX_DOUBLE                          ? 8
           : type == MX_FLOAT || type == MX_INT32    ? 4
           : type == MX_HALF || type == MX_BFLOAT16 ? 2
                                                     : 1;
}

INLINE vdouble load_elements(int64_t type, const char *p) {
    vdouble d;
    if (type == MX_DOUBLE) {
        memcpy(&d, p, sizeof d);
    } else if (type == MX_FLOAT) {
        vfloat f;
        memcpy(&f, p, sizeof f);
        d = __builtin_convertvector(f, vdouble);
    } else if (type == MX_BFLOAT16) {
        vu16 h;
        memcpy(&h, p, sizeof h);
        vu32 bits = __builtin_convertvector(h, vu32) << 16;
        vfloat f;
        memcpy(&f, &bits, sizeof f);
        d = __builtin_convertvector(f, vdouble);
#if defined(__F16C__)
    } else if (type == MX_HALF) {
        vu16 h;
        memcpy(&h, p, sizeof h);
#if defined(__AVX512F__)
        __m128i packed;
        memcpy(&packed, &h, sizeof h);
        d = (vdouble) _mm512_cvtps_pd(_mm256_cvtph_ps(packed));
#else
        uint64_t word;
        memcpy(&word, &h, sizeof word);
        d = (vdouble) _mm256_cvtps_pd(_mm_cvtph_ps(_mm_set_epi64x(0, (int64_t) word)));
#endif
#endif
    } else {
        double values[VL];
        UNROLL for (int i = 0; i < VL; i++)
            values[i] = load_one(type, p + i * type_size(type));
        d = load_vector(values);
    }
    return d;
}

/* dst[i * dst_stride] = src[i * stride].  `type` is a constant wherever this is inlined. */
INLINE void load_line(int64_t type, const char *src, int64_t stride, double *dst, int64_t dst_stride, int64_t n) {
    const int64_t size = type_size(type);
    int64_t i = 0;
    if (stride == 1 && dst_stride == 1)
        for (; i + VL <= n; i += VL)
            store_vector(dst + i, load_elements(type, src + i * size));
#if defined(__AVX512F__)
    if (stride == 2 && dst_stride == 1 && type == MX_FLOAT)
        for (; i + VL <= n; i += VL) {
            /* The mask keeps from reading past the last element. */
            const __m512 pairs = _mm512_maskz_loadu_ps(0x5555, src + 2 * i * size);
            const __m256 even = _mm512_castps512_ps256(_mm512_maskz_compress_ps(0x5555, pairs));
            store_vector(dst + i, (vdouble) _mm512_cvtps_pd(even));
        }
#endif
    for (; i < n; i++)
        dst[i * dst_stride] = load_one(type, src + i * stride * size);
}

INLINE void zero_line(double *dst, int64_t dst_stride, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dst[i * dst_stride] = 0;
}

/* `count` lines of `len` doubles, of which [lo, hi) come from data and the others are zeros.  `offset` is that of lane
 * 0, which may lie outside; lines are `step` elements apart there and `dst_step` doubles in dst.  What is `ahead`
 * elements further on will be needed next. */
INLINE void copy_lines(int64_t type, const char *data, int64_t offset, int64_t stride, int64_t step, int64_t lo,
                       int64_t hi, int64_t len, double *dst, int64_t dst_step, int64_t count, int64_t ahead) {
    const int64_t size = type_size(type);
#if defined(__AVX512F__)
    if (stride == 1 && (type == MX_FLOAT || type == MX_DOUBLE)) {
        for (int64_t i = 0; i < len; i += VL, dst += VL) {
            const unsigned below_len = len - i < VL ? (1u << (len - i)) - 1 : 0xff;
            const unsigned below_hi = hi <= i ? 0 : hi - i < VL ? (1u << (hi - i)) - 1 : 0xff;
            const unsigned below_lo = lo <= i ? 0 : lo - i < VL ? (1u << (lo - i)) - 1 : 0xff;
            const __mmask8 keep = (__mmask8) below_len, inside = (__mmask8) (below_hi & ~below_lo);
            /* Lanes outside are never read, but their addresses are no pointers into the array. */
            uintptr_t src = (uintptr_t) data + (uintptr_t) ((offset + i) * size);
            double *line = dst;
            for (int64_t c = 0; c < count; c++, line += dst_step, src += (uintptr_t) (step * size)) {
                __builtin_prefetch((const void *) (src + (uintptr_t) (ahead * size)));
                const __m512d v = type == MX_FLOAT
                                      ? _mm512_cvtps_pd(_mm256_maskz_loadu_ps(inside, (const void *) src))
                                      : _mm512_maskz_loadu_pd(inside, (const void *) src);
                if (keep == 0xff)
                    _mm512_storeu_pd(line, v);
                else
                    _mm512_mask_storeu_pd(line, keep, v);
            }
        }
        return;
    }
#endif
    for (int64_t c = 0; c < count; c++, dst += dst_step, offset += step) {
        zero_line(dst, 1, lo);
        if (lo < hi)
            load_line(type, data + (offset + lo * stride) * size, stride, dst + lo, 1, hi - lo);
        zero_line(dst + hi, 1, len - hi);
    }
    (void) ahead;
}

/* ---- Packing ---- */

/* Positions that follow each other along w, with the coordinates of the first. */
typedef struct {
    int64_t first, len, d, h, w, offset;
} position_run;

/* Cut positions p ... p + n - 1 into runs along w. */
INLINE int64_t find_runs(const mx_operand *o, int64_t p, int64_t n, position_run *runs) {
    int64_t w, h, d, found = 0;
    int64_t image = mx_divide(mx_divide(mx_divide(p, o->count[3], &w), o->count[2], &h), o->count[1], &d);
    for (int64_t done = 0; done < n;) {
        int64_t len = o->count[3] - w;
        if (len > n - done)
            len = n - done;
        runs[found++] = (position_run) {
            done, len, d * o->step[0], h * o->step[1], w * o->step[2],
            image * o->jump[0] + d * o->jump[1] + h * o->jump[2] + w * o->jump[3]};
        done += len;
        w = 0;
        if (++h == o->count[2]) {
            h = 0;
            if (++d == o->count[1]) {
                d = 0;
                image++;
            }
        }
    }
    return found;
}

/* The part [lo, hi) of a run whose tap lies inside the image. */
INLINE void clip(const mx_operand *o, const position_run *run, const mx_tap *tap, int64_t *lo, int64_t *hi) {
    *lo = 0;
    *hi = run->len;
    if (!o->clipped)
        return;
    const int64_t d = run->d + tap->d, h = run->h + tap->h, w = run->w + tap->w, step = o->step[2];
    const int64_t last = o->size[2] - 1 - w;
    if (d < 0 || d >= o->size[0] || h < 0 || h >= o->size[1] || last < 0) {
        *hi = 0;
        return;
    }
    if (w < 0)
        *lo = step == 1 ? -w : (-w + step - 1) / step;
    if ((run->len - 1) * step > last)
        *hi = (step == 1 ? last : last / step) + 1;
    if (*lo > *hi)
        *lo = *hi = 0;
}

/* Where channel c of tap t stands among the (tap, channel) pairs. */
INLINE int64_t filter_index(const mx_operand *o, int64_t t, int64_t c) {
    return o->tap_inner ? c * o->taps + t : t * o->channels + c;
}

/* The channels [*c0, *c1) of tap t whose filter index is in [f, f + n). */
INLINE void channel_range(const mx_operand *o, int64_t t, int64_t f, int64_t n, int64_t *c0, int64_t *c1) {
    if (n == o->steps && o->kind == MX_LANES_POSITIONS) {
        *c0 = 0;
        *c1 = o->channels;
    } else if (o->tap_inner) {
        *c0 = f > t ? (f - t + o->taps - 1) / o->taps : 0;
        *c1 = f + n > t ? (f + n - t + o->taps - 1) / o->taps : 0;
    } else {
        *c0 = f - t * o->channels;
        *c1 = *c0 + n;
        if (*c0 < 0)
            *c0 = 0;
    }
    if (*c1 > o->channels)
        *c1 = o->channels;
}

/* Taps that [f, f + n) touches. */
INLINE void tap_range(const mx_operand *o, int64_t f, int64_t n, int64_t *t0, int64_t *t1) {
    *t0 = o->tap_inner ? 0 : f / o->channels;
    *t1 = o->tap_inner ? o->taps : (f + n - 1) / o->channels + 1;
}

/* One (tap, channel) at many positions. */
INLINE void gather_positions(int64_t type, const mx_operand *o, const char *data, const position_run *runs,
                             int64_t run_count, int64_t f, double *dst) {
    int64_t t, c;
    if (o->tap_inner)
        c = mx_divide(f, o->taps, &t);
    else
        t = mx_divide(f, o->channels, &c);
    const mx_tap *tap = o->tap + t;
    const int64_t base = tap->offset + c * o->channel_stride;
    for (int64_t i = 0; i < run_count; i++) {
        const position_run *run = runs + i;
        int64_t lo, hi;
        clip(o, run, tap, &lo, &hi);
        copy_lines(type, data, base + run->offset, o->jump[3], 0, lo, hi, run->len, dst + run->first, 0, 1,
                   o->channel_stride);
    }
}

/* One position at the (tap, channel) pairs f ... f + n - 1. */
INLINE void gather_filter(int64_t type, const mx_operand *o, const char *data, const position_run *position,
                          int64_t f, int64_t n, double *dst) {
    int64_t t0, t1;
    tap_range(o, f, n, &t0, &t1);
    for (int64_t t = t0; t < t1; t++) {
        const int64_t dst_stride = o->tap_inner ? o->taps : 1;
        int64_t c0, c1, lo, hi;
        channel_range(o, t, f, n, &c0, &c1);
        if (c0 >= c1)
            continue;
        double *line = dst + (filter_index(o, t, c0) - f);
        clip(o, position, o->tap + t, &lo, &hi);
        if (lo < hi)
            load_line(type, data + (o->tap[t].offset + position->offset + c0 * o->channel_stride) * type_size(type),
                      o->channel_stride, line, dst_stride, c1 - c0);
        else
            zero_line(line, dst_stride, c1 - c0);
    }
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAVE_SHUFFLE 1
#endif
#endif

/* Rows to be transposed are this far apart: not a power of two, so that a column of them does not fall into one set of
 * the cache. */
INLINE int64_t row_distance(int64_t steps) {
    return steps + MX_ROW_PADDING;
}

/* dst[s * width + l] = v[l][s] for a block of VL x VL. */
INLINE void store_transposed(vdouble *v, double *dst, int64_t width) {
#if defined(HAVE_SHUFFLE)
    vdouble t[VL];
#if defined(__AVX512F__)
    UNROLL for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
        UNROLL for (int j = i; j < i + 2; j++) {
            v[j] = __builtin_shufflevector(t[j], t[j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            v[j + 2] = __builtin_shufflevector(t[j], t[j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    UNROLL for (int j = 0; j < 4; j++) {
        t[j] = __builtin_shufflevector(v[j], v[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        t[j + 4] = __builtin_shufflevector(v[j], v[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
#elif defined(__AVX2__)
    UNROLL for (int i = 0; i < 4; i += 2) {
        t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 4, 2, 6);
        t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 1, 5, 3, 7);
    }
    UNROLL for (int j = 0; j < 2; j++) {
        v[j] = __builtin_shufflevector(t[j], t[j + 2], 0, 1, 4, 5);
        v[j + 2] = __builtin_shufflevector(t[j], t[j + 2], 2, 3, 6, 7);
    }
    memcpy(t, v, sizeof t);
#else
    t[0] = __builtin_shufflevector(v[0], v[1], 0, 2);
    t[1] = __builtin_shufflevector(v[0], v[1], 1, 3);
#endif
    UNROLL for (int i = 0; i < VL; i++)
        store_vector(dst + i * width, t[i]);
#else
    UNROLL for (int i = 0; i < VL; i++)
        UNROLL for (int l = 0; l < VL; l++)
            dst[i * width + l] = v[l][i];
#endif
}

/* dst[s * width + l] = rows[l * distance + s] for a block of VL x VL. */
INLINE void transpose_block(const double *rows, int64_t distance, double *dst, int width) {
    vdouble v[VL];
    UNROLL for (int i = 0; i < VL; i++)
        v[i] = load_vector(rows + i * distance);
    store_transposed(v, dst, width);
}

/* What lanes without elements read: as many zeros of any type as a panel has steps. */
static const double zeros[KC];

/* dst[s * width + l] = line[l][s]: lines of elements that follow each other, `width` of them. */
INLINE void transpose_lines(int64_t type, const char *const *line, int64_t steps, double *dst, int width) {
    const int64_t size = type_size(type), whole = steps / VL * VL;
    for (int l = 0; l < width; l += VL)
        for (int64_t s = 0; s < whole; s += VL) {
            vdouble v[VL];
            UNROLL for (int i = 0; i < VL; i++)
                v[i] = load_elements(type, line[l + i] + s * size);
            store_transposed(v, dst + s * width + l, width);
        }
    for (int64_t s = whole; s < steps; s++)
        for (int l = 0; l < width; l++)
            dst[s * width + l] = load_one(type, line[l] + s * size);
}

/* The panel of `lanes` rows; the lanes after them become zeros. */
INLINE void transpose(double *rows, int64_t lanes, int64_t steps, double *dst, int width) {
    const int64_t distance = row_distance(steps), filled = (lanes + VL - 1) / VL * VL;
    int64_t s = 0;
    if (lanes < filled)
        memset(rows + lanes * distance, 0, (size_t) ((filled - lanes) * distance) * sizeof *rows);
    for (; s + VL <= steps; s += VL)
        for (int64_t l = 0; l < filled; l += VL)
            transpose_block(rows + l * distance + s, distance, dst + s * width + l, width);
    for (; s < steps; s++)
        for (int64_t l = 0; l < filled; l++)
            dst[s * width + l] = rows[l * distance + s];
    if (filled < width)
        for (s = 0; s < steps; s++)
            zero_line(dst + s * width + filled, 1, width - filled);
}

INLINE void pack_dense(int64_t type, const mx_operand *o, const char *data, int64_t lane, int64_t lanes, int64_t step,
                       int64_t steps, int width, double *dst) {
    const int64_t size = type_size(type);
    const int64_t *offset = o->step_offset + step;
    data += lane * o->lane_stride * size;
    if (lanes < width)
        memset(dst, 0, (size_t) (width * steps) * sizeof *dst);
    /* All lanes of a step before the next step: lanes are near each other, steps often a multiple of the cache's period
     * apart.  Steps that follow each other, such as the taps of a channel, are transposed. */
    for (int64_t s = 0; s < steps; s++) {
        int64_t run = 1;
        while (s + run < steps && offset[s + run] == offset[s] + run)
            run++;
        if (run >= VL) {
            const char *line[MX_MAX_WIDTH];
            for (int64_t l = 0; l < width; l++)
                line[l] = l < lanes ? data + (l * o->lane_stride + offset[s]) * size : (const char *) zeros;
            transpose_lines(type, line, run, dst + s * width, width);
            s += run - 1;
            continue;
        }
        const char *next = data + offset[s + 8 < steps ? s + 8 : s] * size;
        for (int64_t l = 0; l < lanes; l++)
            __builtin_prefetch(next + l * o->lane_stride * size);
        load_line(type, data + offset[s] * size, o->lane_stride, dst + s * width, 1, lanes);
    }
}

INLINE void pack_positions(int64_t type, const mx_operand *o, const char *data, int64_t lane, int64_t lanes,
                           int64_t step, int64_t steps, int width, double *dst, double *rows) {
    position_run runs[MX_MAX_WIDTH];
    const int64_t run_count = find_runs(o, lane, lanes, runs);
    if (o->rows_first) {
        int64_t t0, t1;
        if (lanes < width)
            memset(dst, 0, (size_t) (width * steps) * sizeof *dst);
        tap_range(o, step, steps, &t0, &t1);
        const int64_t line_stride = (o->tap_inner ? o->taps : 1) * width;
        /* Taps see the same rows of a channel: few channels at a time, so that these stay in the first-level cache. */
        const int64_t some = t1 - t0 > 1 && !o->tap_inner ? 16 : o->channels;
        const int64_t visits = (o->channels + some - 1) / some * (t1 - t0);
        for (int64_t visit = 0; visit < visits; visit++) {
            const int64_t first = visit / (t1 - t0) * some, t = t0 + visit % (t1 - t0);
            const mx_tap *tap = o->tap + t;
            int64_t c0, c1;
            channel_range(o, t, step, steps, &c0, &c1);
            if (c0 < first)
                c0 = first;
            if (c1 > first + some)
                c1 = first + some;
            if (c0 >= c1)
                continue;
            double *panel = dst + (filter_index(o, t, c0) - step) * width;
            for (int64_t i = 0; i < run_count; i++) {
                const position_run *run = runs + i;
                int64_t lo, hi;
                clip(o, run, tap, &lo, &hi);
                copy_lines(type, data, tap->offset + run->offset + c0 * o->channel_stride, o->jump[3],
                           o->channel_stride, lo, hi, run->len, panel + run->first, line_stride, c1 - c0, width);
            }
        }
        return;
    }
    if (o->channel_stride == 1 && !o->tap_inner) {
        int64_t t0, t1;
        tap_range(o, step, steps, &t0, &t1);
        for (int64_t t = t0; t < t1; t++) {
            const char *line[MX_MAX_WIDTH];
            int64_t c0, c1;
            channel_range(o, t, step, steps, &c0, &c1);
            for (int64_t l = 0; l < width; l++)
                line[l] = (const char *) zeros;
            for (int64_t i = 0; i < run_count; i++) {
                int64_t lo, hi;
                clip(o, runs + i, o->tap + t, &lo, &hi);
                for (int64_t j = lo; j < hi; j++)
                    line[runs[i].first + j] =
                        data + (o->tap[t].offset + runs[i].offset + j * o->jump[3] + c0) * type_size(type);
            }
            transpose_lines(type, line, c1 - c0, dst + (filter_index(o, t, c0) - step) * width, width);
        }
        return;
    }
    for (int64_t i = 0, l = 0; i < run_count; i++)
        for (int64_t j = 0; j < runs[i].len; j++, l++) {
            position_run one = runs[i];
            one.len = 1;
            one.w += j * o->step[2];
            one.offset += j * o->jump[3];
            gather_filter(type, o, data, &one, step, steps, rows + l * row_distance(steps));
        }
    transpose(rows, lanes, steps, dst, width);
}

INLINE void pack_filter(int64_t type, const mx_operand *o, const char *data, int64_t lane, int64_t lanes, int64_t step,
                        int64_t steps, int width, double *dst, double *rows) {
    position_run runs[KC];
    const int64_t run_count = find_runs(o, step, steps, runs);
    if (!o->clipped && o->jump[3] == 1) {
        for (int64_t i = 0; i < run_count; i++) {
            const char *line[MX_MAX_WIDTH];
            for (int64_t l = 0; l < width; l++) {
                const int64_t f = l < lanes ? lane + l : lane;
                int64_t t, c;
                if (o->tap_inner)
                    c = mx_divide(f, o->taps, &t);
                else
                    t = mx_divide(f, o->channels, &c);
                const int64_t at = o->tap[t].offset + c * o->channel_stride + runs[i].offset;
                line[l] = l < lanes ? data + at * type_size(type) : (const char *) zeros;
            }
            transpose_lines(type, line, runs[i].len, dst + runs[i].first * width, width);
        }
        return;
    }
    if (o->rows_first) {
        for (int64_t l = 0; l < lanes; l++)
            gather_positions(type, o, data, runs, run_count, lane + l, rows + l * row_distance(steps));
        transpose(rows, lanes, steps, dst, width);
        return;
    }
    if (lanes < width)
        memset(dst, 0, (size_t) (width * steps) * sizeof *dst);
    if (o->tap_inner) {
        for (int64_t i = 0; i < run_count; i++)
            for (int64_t j = 0; j < runs[i].len; j++, dst += width) {
                position_run one = runs[i];
                one.len = 1;
                one.w += j * o->step[2];
                one.offset += j * o->jump[3];
                gather_filter(type, o, data, &one, lane, lanes, dst);
            }
        return;
    }
    /* A tap's channels lie side by side in the panel: all positions of a run at once. */
    int64_t t0, t1;
    tap_range(o, lane, lanes, &t0, &t1);
    for (int64_t t = t0; t < t1; t++) {
        const mx_tap *tap = o->tap + t;
        int64_t c0, c1;
        channel_range(o, t, lane, lanes, &c0, &c1);
        double *line = dst + (filter_index(o, t, c0) - lane);
        for (int64_t i = 0; i < run_count; i++) {
            const position_run *run = runs + i;
            int64_t lo, hi;
            clip(o, run, tap, &lo, &hi);
            for (int64_t j = 0; j < run->len; j++)
                if (j < lo || j >= hi)
                    zero_line(line + (run->first + j) * width, 1, c1 - c0);
            copy_lines(type, data, tap->offset + run->offset + lo * o->jump[3] + c0 * o->channel_stride,
                       o->channel_stride, o->jump[3], 0, c1 - c0, c1 - c0, line + (run->first + lo) * width, width,
                       hi - lo, 8 * o->jump[3]);
        }
    }
}

INLINE void pack_typed(int64_t type, const mx_operand *o, int64_t offset, int64_t lane, int64_t step, int64_t steps,
                       int width, double *dst, double *rows) {
    const char *data = o->data + offset * type_size(type);
    int64_t lanes = o->lanes - lane;
    if (lanes > width)
        lanes = width;
    if (o->kind == MX_DENSE)
        pack_dense(type, o, data, lane, lanes, step, steps, width, dst);
    else if (o->kind == MX_LANES_POSITIONS)
        pack_positions(type, o, data, lane, lanes, step, steps, width, dst, rows);
    else
        pack_filter(type, o, data, lane, lanes, step, steps, width, dst, rows);
}

/* x * 0 is NaN exactly where x is not finite. */
static int any_special(const double *p, int64_t n) {
    vdouble sum[4] = {{0}}; /* an addition takes several cycles */
    double total = 0;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL)
        UNROLL for (int j = 0; j < 4; j++)
            sum[j] += load_vector(p + i + j * VL) * 0.0;
    for (; i < n; i += VL)
        sum[0] += load_vector(p + i) * 0.0;
    sum[0] += sum[1] + sum[2] + sum[3];
    for (int l = 0; l < VL; l++)
        total += sum[0][l];
    return total != total;
}

static int pack(const mx_operand *o, int64_t offset, int64_t lane, int64_t step, int64_t steps, int width, double *dst,
                double *rows) {
    const int64_t type = o->type;
    if (steps == 0)
        return 0;
#define CALL(t) pack_typed(t, o, offset, lane, step, steps, width, dst, rows)
    FOR_EACH_TYPE(CALL)
#undef CALL
    return o->watch && any_special(dst, steps * width);
}

/* ---- The product ---- */

INLINE void multiply_part(const int rows, const int vectors, int64_t steps, const double *a, const double *b,
                          double *tile, int add) {
    vdouble sum[MR][NV];
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vectors; v++)
            sum[r][v] = (vdouble) {0};
    for (int64_t k = 0; k < steps; k++, a += MR, b += NR) {
        vdouble column[NV];
        UNROLL for (int v = 0; v < vectors; v++)
            column[v] = load_vector(b + v * VL);
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[r][v] += column[v] * a[r];
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int v = 0; v < vectors; v++) {
            double *p = tile + r * NR + v * VL;
            store_vector(p, add ? load_vector(p) + sum[r][v] : sum[r][v]);
        }
}

/* Narrow tiles have short loops of their own only where all rows are in use. */
static void multiply(int rows, int columns, int64_t steps, const double *a, const double *b, double *tile, int add) {
    if (rows == MR && columns <= VL) {
        multiply_part(MR, 1, steps, a, b, tile, add);
        return;
    }
    if (rows == MR && columns <= 2 * VL) {
        multiply_part(MR, 2, steps, a, b, tile, add);
        return;
    }
    switch (rows) {
    case 1: multiply_part(1, NV, steps, a, b, tile, add); break;
    case 2: multiply_part(2, NV, steps, a, b, tile, add); break;
    case 3: multiply_part(3, NV, steps, a, b, tile, add); break;
#if defined(__AVX512F__) || defined(__aarch64__)
    case 4: multiply_part(4, NV, steps, a, b, tile, add); break;
    case 5: multiply_part(5, NV, steps, a, b, tile, add); break;
#endif
#if defined(__AVX512F__)
    case 6: multiply_part(6, NV, steps, a, b, tile, add); break;
    case 7: multiply_part(7, NV, steps, a, b, tile, add); break;
#endif
    default: multiply_part(MR, NV, steps, a, b, tile, add); break;
    }
}

/* ---- Doubles to elements: rounded to nearest even, once ---- */

/* Rounding to odd keeps, in the last of float's 24 bits, whether anything was cut off, so that rounding the result
 * again to 11 or 8 bits is the same as rounding the double. */
INLINE uint32_t float_to_odd(double v) {
    float f = (float) v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((double) f == v || v != v)
        return bits;
    if (__builtin_fabs((double) f) > __builtin_fabs(v))
        bits--;
    return bits | 1;
}

INLINE uint16_t double_to_bfloat16(double v) {
    uint32_t bits = float_to_odd(v);
    if (v != v)
        return (uint16_t) (bits >> 16 | 0x40);
    return (uint16_t) ((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

INLINE uint16_t double_to_half(double v) {
    uint32_t bits = float_to_odd(v), sign = bits >> 16 & 0x8000, half;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        half = 0x7e00;
    else if (bits >= 0x477ff000) /* 65520, half way to the next power of two, rounds to infinity */
        half = 0x7c00;
    else if (bits >= 0x38800000) /* normal: 2^-14 and up */
        half = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
    else {
        /* Adding 0.5 leaves units of 2^-24, half's smallest number, in the last place; the sum rounds to even. */
        float f;
        memcpy(&f, &bits, sizeof f);
        f += 0.5f;
        memcpy(&half, &f, sizeof f);
        half -= 0x3f000000;
    }
    return (uint16_t) (half | sign);
}

/* Fractions are cut off, then the low bits are kept, as a 32-bit accumulator would; what no int64 holds becomes 0. */
INLINE uint32_t double_to_word(double v) {
    return v > -0x1p63 && v < 0x1p63 ? (uint32_t) (uint64_t) (int64_t) v : 0;
}

/* As mx_random in kernels/include/common.h: the same bits for the same element. */
INLINE uint32_t scramble(uint32_t bits) {
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return bits ^ bits >> 16;
}

INLINE uint32_t random_bits(int64_t rounding, int64_t at) {
    const uint32_t bits = scramble((uint32_t) (at >> 2) +
                                   scramble((uint32_t) (rounding - 1) ^ (uint32_t) (at >> 34) * 0x9e3779b1u));
    const int turn = 8 * (at & 3);
    return turn == 0 ? bits : bits << turn | bits >> (32 - turn);
}

/* Finite numbers saturate; infinity becomes NaN where the type has none. */
static uint8_t double_to_float8(double v, int fraction, int ocp, int64_t rounding, int64_t at) {
    const int least = (fraction == 3 ? -7 : -15) + ocp;
    const uint32_t top = !ocp ? 0x7f : fraction == 3 ? 0x7e : 0x7b;
    uint64_t bits, units;
    memcpy(&bits, &v, sizeof bits);
    const uint32_t sign = (uint32_t) (bits >> 56) & 0x80;
    bits &= UINT64_MAX >> 1;
    if (ocp && fraction == 2 && bits == UINT64_C(0x7ff) << 52)
        return (uint8_t) (0x7c | sign);
    if (bits >= UINT64_C(0x7ff) << 52)
        return ocp ? 0x7f : 0x80;
    if (bits >= (uint64_t) (fraction == 3 ? 1023 + 8 + ocp : 1023 + 16) << 52)
        return (uint8_t) (top | sign);
    int exponent = (int) (bits >> 52) - 1023;
    if (exponent < least)
        exponent = least;
    /* In units of the result's last place, with 52 - fraction bits behind the point. */
    const int cut = 52 - fraction;
    const uint64_t unit_bits = (uint64_t) (1023 + 52 - exponent) << 52;
    double scaled, scale;
    memcpy(&scaled, &bits, sizeof scaled);
    memcpy(&scale, &unit_bits, sizeof scale);
    scaled *= scale;
    if (rounding != 0) {
        /* What a float holds of it, 29 bits less, in the same units. */
        const double kept = scaled * 0x1p-29 + 0x1p52;
        units = (uint64_t) (kept - 0x1p52) << 29;
        units += (uint64_t) random_bits(rounding, at) >> (32 - (cut - 29)) << 29;
    } else {
        units = (uint64_t) scaled;
        units |= (double) units != scaled;
        units += (UINT64_C(1) << (cut - 1)) - 1 + (units >> cut & 1);
    }
    uint32_t code = (uint32_t) (units >> cut) + ((uint32_t) (exponent - least) << fraction);
    if (code > top)
        code = top;
    return (uint8_t) (code == 0 && !ocp ? 0 : code | sign);
}

/* `base` is where the tensor begins: a float8 that is rounded at random has its own number. */
INLINE void store_one(int64_t type, char *p, double v, int64_t rounding, const char *base) {
    switch (type) {
    case MX_DOUBLE:
        memcpy(p, &v, sizeof v);
        break;
    case MX_FLOAT: {
        float f = (float) v;
        memcpy(p, &f, sizeof f);
        break;
    }
    case MX_HALF: {
        uint16_t h = double_to_half(v);
        memcpy(p, &h, sizeof h);
        break;
    }
    case MX_BFLOAT16: {
        uint16_t h = double_to_bfloat16(v);
        memcpy(p, &h, sizeof h);
        break;
    }
    case MX_INT32: {
        uint32_t word = double_to_word(v);
        memcpy(p, &word, sizeof word);
        break;
    }
    case MX_FLOAT8:
    case MX_BFLOAT8:
        *p = (char) double_to_float8(v, type == MX_FLOAT8 ? 3 : 2, 0, rounding, p - base);
        break;
    case MX_E4M3:
    case MX_E5M2:
        *p = (char) double_to_float8(v, type == MX_E4M3 ? 3 : 2, 1, rounding, p - base);
        break;
    default: {
        uint8_t byte = (uint8_t) double_to_word(v);
        memcpy(p, &byte, sizeof byte);
        break;
    }
    }
}

INLINE void store_scaled(int64_t type, char *p, double v, double alpha, double beta, int64_t rounding,
                         const char *base) {
    v *= alpha;
    if (beta != 0)
        v += beta * load_one(type, p);
    store_one(type, p, v, rounding, base);
}

/* A tile's columns as runs of rows, for outputs whose rows are next to each other.  Returns how many rows were stored. */
INLINE int store_columns(int64_t type, char *p, int64_t stride, int rows, int64_t columns, const double *src,
                         double alpha) {
    const int64_t size = type_size(type);
    int r = 0;
    for (; r + VL <= rows; r += VL)
        for (int64_t j = 0; j < columns; j += VL) {
            const int64_t count = columns - j < VL ? columns - j : VL;
            double block[VL * VL], copy[VL * VL];
            const double *from = src + r * NR + j;
            int64_t distance = NR;
            if (count < VL) { /* what follows the last column may be beyond the tile */
                for (int i = 0; i < VL; i++)
                    for (int64_t l = 0; l < VL; l++)
                        copy[i * VL + l] = l < count ? from[i * NR + l] : 0;
                from = copy;
                distance = VL;
            }
            transpose_block(from, distance, block, VL);
            for (int64_t i = 0; i < count; i++) {
                const vdouble d = load_vector(block + i * VL) * alpha;
                char *to = p + ((j + i) * stride + r) * size;
                if (type == MX_FLOAT) {
                    const vfloat f = __builtin_convertvector(d, vfloat);
                    memcpy(to, &f, sizeof f);
                } else {
                    memcpy(to, &d, sizeof d);
                }
            }
        }
    return r;
}

INLINE void store_typed(int64_t type, char *base, int64_t rounding, int64_t offset, int64_t row_stride, int rows,
                        const mx_run *runs, int64_t run_count, const double *tile, double alpha, double beta) {
    const int64_t size = type_size(type);
    char *out = base + offset * size;
    for (int64_t i = 0; i < run_count; i++) {
        const mx_run run = runs[i];
        char *p = out + run.offset * size;
        const double *src = tile + run.lane;
        if (row_stride < run.stride) {
            int first = 0;
            if (row_stride == 1 && beta == 0 && (type == MX_FLOAT || type == MX_DOUBLE))
                first = store_columns(type, p, run.stride, rows, run.len, src, alpha);
            for (int64_t j = 0; j < run.len; j++)
                for (int r = first; r < rows; r++)
                    store_scaled(type, p + (j * run.stride + r * row_stride) * size, src[r * NR + j], alpha, beta,
                                 rounding, base);
            continue;
        }
        for (int r = 0; r < rows; r++, src += NR, p += row_stride * size) {
            int64_t j = 0;
            if (run.stride == 1 && beta == 0) {
                if (type == MX_FLOAT)
                    for (; j + VL <= run.len; j += VL) {
                        vfloat f = __builtin_convertvector(load_vector(src + j) * alpha, vfloat);
                        memcpy(p + j * size, &f, sizeof f);
                    }
                else if (type == MX_DOUBLE)
                    for (; j + VL <= run.len; j += VL) {
                        vdouble d = load_vector(src + j) * alpha;
                        memcpy(p + j * size, &d, sizeof d);
                    }
            }
            for (; j < run.len; j++)
                store_scaled(type, p + j * run.stride * size, src[j], alpha, beta, rounding, base);
        }
    }
}

static void store(char *out, int64_t type, int64_t rounding, int64_t offset, int64_t row_stride, int rows,
                  const mx_run *runs, int64_t run_count, const double *tile, double alpha, double beta) {
#define CALL(t) store_typed(t, out, rounding, offset, row_stride, rows, runs, run_count, tile, alpha, beta)
    FOR_EACH_TYPE(CALL)
#undef CALL
}

static void load_row(const char *data, int64_t type, int64_t offset, int64_t stride, double *dst, int64_t n) {
#define CALL(t) load_line(t, data + offset * type_size(t), stride, dst, 1, n)
    FOR_EACH_TYPE(CALL)
#undef CALL
}

static void store_row(char *data, int64_t type, int64_t offset, int64_t stride, const double *src, int64_t n) {
    const mx_run run = {0, n, offset, stride};
#define CALL(t) store_typed(t, data, 0, 0, stride, 1, &run, 1, src, 1, 0)
    FOR_EACH_TYPE(CALL)
#undef CALL
}

const mx_kernels PASTE(mx_kernels_, MX_VARIANT) = {
    TEXT(MX_VARIANT), MR, NR, KC, pack, multiply, store, load_row, store_row,
};
