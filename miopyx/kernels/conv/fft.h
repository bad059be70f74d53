/* What the kernels of FFT convolutions share: lanes, tiles, spectra, and transforms of 16 to 64 points.
 *
 * A lane is a channel.  On CPUs a work-item has VEC lanes in a vector; on GPUs (ON_GPU) a lane is a work-item, VEC of
 * them take a tile together with the WORKERS - 1 other rows of such work-items in their group, and what they exchange
 * lies in local memory.
 *
 * Spectra of tiles of FFT_H x FFT_W real numbers lie in a workspace as S[frequency][row][block][2][VEC]: real parts,
 * then imaginary ones, of a block of VEC channels; a row is a tile of a tensor, or one channel of a filter.  Only the
 * FREQUENCIES that are not the conjugate of another one are stored: columns v = 0 and FFT_W / 2 with rows
 * u = 0 ... FFT_H / 2, then columns 1 ... FFT_W / 2 - 1 with all rows.  With FFT_H == 1, transforms are along rows
 * only, and two tiles are taken together where otherwise two rows of a tile are.
 */
#ifndef X_TYPE /* storage type of the tensor */
#define X_TYPE float
#endif
#ifndef VEC /* lanes */
#define VEC 16
#endif
#ifndef FFT_H
#define FFT_H 16
#endif
#ifndef FFT_W
#define FFT_W 16
#endif
#ifndef ON_GPU
#define ON_GPU 0
#endif
#ifndef WORKERS /* work-items that share a tile's lane */
#define WORKERS 1
#endif
#include "include/common.h"
#include "conv/fft_args.h"

#if !(FFT_H == 1 || FFT_H == 16 || FFT_H == 32 || FFT_H == 64)
#error "FFT_H must be 1, 16, 32 or 64"
#endif
#if !(FFT_W == 16 || FFT_W == 32 || FFT_W == 64) || (!ON_GPU && FFT_W % VEC != 0)
#error "FFT_W must be 16, 32 or 64, and whole vectors"
#endif

#define COLUMNS (FFT_W / 2 + 1)
#define FREQUENCIES (FFT_H == 1 ? COLUMNS : (FFT_W / 2 - 1) * FFT_H + 2 * (FFT_H / 2 + 1))
/* Tiles that a transform takes together. */
#define TOGETHER (FFT_H == 1 ? 2 : 1)
/* Rows of a column's buffer. */
#define HEIGHT (FFT_H == 1 ? 2 : FFT_H)

#if ON_GPU
typedef ACC vec;
#define KERNEL __kernel __attribute__((reqd_work_group_size(VEC * WORKERS, 1, 1)))
#define LANE ((int)(get_local_id(0) % VEC))
#define WORKER ((int)(get_local_id(0) / VEC))
#define SHARED __local
#define AT(i) ((i) * VEC + LANE)
#define SHARE() barrier(CLK_LOCAL_MEM_FENCE)
#else
typedef MX_JOIN(ACC, VEC) vec;
#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1)))
#define WORKER 0
#define SHARED __private
#define AT(i) (i)
#define SHARE()
#endif

/* Loops over arrays that GPUs must hold in registers.  On CPUs they go over memory: unrolled, with a dozen strides,
 * they take LLVM seconds.  So do large functions, inlined: PoCL makes every
 * kernel several times. */
#if ON_GPU
#define ROLLED _Pragma("unroll")
#define FUNCTION static inline
#else
#define ROLLED _Pragma("nounroll")
#define FUNCTION NOINLINE
#endif

/* A transformed row of a column is at (column * HEIGHT + row) * 2, its imaginary part behind it; on CPUs all imaginary
 * parts of a column are behind its real ones, where transforms can take them from. */
#define SHARED_SIZE ((ON_GPU ? VEC : 1) * COLUMNS * HEIGHT * 2)
#if ON_GPU
#define RE(v, u) AT(((v) * HEIGHT + (u)) * 2)
#define IM(v, u) AT(((v) * HEIGHT + (u)) * 2 + 1)
#else
#define RE(v, u) ((v) * HEIGHT * 2 + (u))
#define IM(v, u) (((v) * 2 + 1) * HEIGHT + (u))
#endif

/* The number of a stored frequency. */
static inline int frequency_of(int u, int v)
{
    if (FFT_H == 1)
        return v;
    return v == 0 ? u : v == FFT_W / 2 ? FFT_H / 2 + 1 + u : 2 * (FFT_H / 2 + 1) + (v - 1) * FFT_H + u;
}

/* Rows of column v that are stored. */
static inline int stored_rows(int v)
{
    return v == 0 || v == FFT_W / 2 ? FFT_H / 2 + 1 : FFT_H;
}

/* cos(2 pi i / 64), correctly rounded whatever ACC is. */
#if MX_TYPE(ACC) == MX_TYPE_double
#define NUMBER(digits) digits
#else
#define NUMBER(digits) MX_JOIN(digits, f)
#endif
#define C0 NUMBER(1.0)
#define C1 NUMBER(0.9951847266721968862448)
#define C2 NUMBER(0.9807852804032304491262)
#define C3 NUMBER(0.9569403357322088649358)
#define C4 NUMBER(0.9238795325112867561282)
#define C5 NUMBER(0.8819212643483550297128)
#define C6 NUMBER(0.8314696123025452370788)
#define C7 NUMBER(0.7730104533627369608109)
#define C8 NUMBER(0.7071067811865475244008)
#define C9 NUMBER(0.6343932841636454982152)
#define C10 NUMBER(0.5555702330196022247428)
#define C11 NUMBER(0.4713967368259976485564)
#define C12 NUMBER(0.3826834323650897717285)
#define C13 NUMBER(0.2902846772544623676362)
#define C14 NUMBER(0.1950903220161282678483)
#define C15 NUMBER(0.0980171403295606019942)
#define C16 NUMBER(0.0)
__constant ACC COSINES[64] = {
    C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15,
    C16, -C15, -C14, -C13, -C12, -C11, -C10, -C9, -C8, -C7, -C6, -C5, -C4, -C3, -C2, -C1,
    -C0, -C1, -C2, -C3, -C4, -C5, -C6, -C7, -C8, -C9, -C10, -C11, -C12, -C13, -C14, -C15,
    C16, C15, C14, C13, C12, C11, C10, C9, C8, C7, C6, C5, C4, C3, C2, C1};

static inline void dft4(vec *a, vec *b)
{
    const vec s0 = a[0] + a[2], d0 = a[0] - a[2], s1 = a[1] + a[3], d1 = a[1] - a[3];
    const vec t0 = b[0] + b[2], e0 = b[0] - b[2], t1 = b[1] + b[3], e1 = b[1] - b[3];
    a[0] = s0 + s1;
    b[0] = t0 + t1;
    a[1] = d0 + e1;
    b[1] = e0 - d1;
    a[2] = s0 - s1;
    b[2] = t0 - t1;
    a[3] = d0 - e1;
    b[3] = e0 + d1;
}

static inline void dft8(vec *a, vec *b)
{
    vec p[4] = {a[0], a[2], a[4], a[6]}, q[4] = {b[0], b[2], b[4], b[6]};
    vec r[4] = {a[1], a[3], a[5], a[7]}, s[4] = {b[1], b[3], b[5], b[7]};
    dft4(p, q);
    dft4(r, s);
    const vec r1 = (r[1] + s[1]) * C8, s1 = (s[1] - r[1]) * C8;
    const vec r3 = (s[3] - r[3]) * C8, s3 = (s[3] + r[3]) * -C8;
    a[0] = p[0] + r[0], b[0] = q[0] + s[0];
    a[4] = p[0] - r[0], b[4] = q[0] - s[0];
    a[1] = p[1] + r1, b[1] = q[1] + s1;
    a[5] = p[1] - r1, b[5] = q[1] - s1;
    a[2] = p[2] + s[2], b[2] = q[2] - r[2];
    a[6] = p[2] - s[2], b[6] = q[2] + r[2];
    a[3] = p[3] + r3, b[3] = q[3] + s3;
    a[7] = p[3] - r3, b[7] = q[3] - s3;
}

/* Where nothing that a function takes, returns or calls is a vector LLVM gives it half as wide registers. */
static inline vec element(const vec *v, int i)
{
    return v[i];
}

/* The transform of N = P Q points with exp(-i ...), out[k] from in[n]; with real and imaginary parts exchanged on both
 * sides it is the inverse one, times N. */
#define DEFINE_FFT(N, P, Q)                                                                       \
    FUNCTION void fft_##N(const vec *re, const vec *im, vec *out_re, vec *out_im)                 \
    {                                                                                             \
        vec t_re[N], t_im[N];                                                                     \
        _Pragma("unroll") for (int q = 0; q < Q; q++) {                                           \
            vec a[P], b[P];                                                                       \
            _Pragma("unroll") for (int p = 0; p < P; p++)                                         \
                a[p] = element(re, q + Q * p), b[p] = element(im, q + Q * p);                     \
            dft##P(a, b);                                                                         \
            t_re[q] = a[0], t_im[q] = b[0];                                                       \
            _Pragma("unroll") for (int k = 1; k < P; k++) {                                       \
                const ACC c = COSINES[q * k * (64 / N)], s = COSINES[(q * k * (64 / N) + 48) & 63]; \
                t_re[q + Q * k] = q == 0 ? a[k] : a[k] * c + b[k] * s;                            \
                t_im[q + Q * k] = q == 0 ? b[k] : b[k] * c - a[k] * s;                            \
            }                                                                                     \
        }                                                                                         \
        _Pragma("unroll") for (int k = 0; k < P; k++) {                                           \
            vec a[Q], b[Q];                                                                       \
            _Pragma("unroll") for (int q = 0; q < Q; q++)                                         \
                a[q] = t_re[q + Q * k], b[q] = t_im[q + Q * k];                                   \
            dft##Q(a, b);                                                                         \
            _Pragma("unroll") for (int j = 0; j < Q; j++)                                         \
                out_re[k + P * j] = a[j], out_im[k + P * j] = b[j];                               \
        }                                                                                         \
    }
#if FFT_H == 16 || FFT_W == 16
DEFINE_FFT(16, 4, 4)
#endif
#if FFT_H == 32 || FFT_W == 32
DEFINE_FFT(32, 4, 8)
#endif
#if FFT_H == 64 || FFT_W == 64
DEFINE_FFT(64, 8, 8)
#endif
#define FFT(N) MX_JOIN(fft_, N)

/* A pixel, counted with the zeros between, as an element's index: -1 where there is none. */
static inline long element_of(long pixel, long step, long length)
{
    const long i = step == 1 || pixel < 0 ? pixel : pixel % step ? -1 : pixel / step;
    return i < length ? i : -1;
}

/* Where tile number `row` of the launch begins. */
typedef struct {
    long base, top, left;
} mx_fft_place;

static inline mx_fft_place place_of(const mx_fft_tiles g, long row)
{
    const long tile = g.first + row, image = tile / (g.across * g.down), rest = tile - image * g.across * g.down;
    mx_fft_place at;
    at.base = image * g.n;
    at.top = rest / g.across * g.tile_h + g.start_h;
    at.left = rest % g.across * g.tile_w + g.start_w;
    return at;
}

#if !ON_GPU
#include "conv/cpu/transpose.h"

#if MX_TYPE(ACC) == MX_TYPE_double
typedef MX_JOIN(long, VEC) lane_mask; /* a vector condition is as wide as ACC */
#define MASK_LANE long
#else
typedef MX_JOIN(int, VEC) lane_mask;
#define MASK_LANE int
#endif
#endif
