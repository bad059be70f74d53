/* What the tensor-core kernels for NVIDIA share, after common.h: their problem, and PTX that OpenCL C has no words for.
 *
 * A convolution is a grid of output pixels (n, p, q), each a sum over taps (i, j) and channels c of
 *     x[n, c, p * step_h + first_h + i * tap_h, q * step_w + first_w + j * tap_w] * w[k, i, j, c],
 * which covers backward data too: one grid for every residue of the stride, with the taps that meet it.
 */
typedef struct {
    uint magic, shift; /* ceil(2^(31 + shift) / d), ceil(log2(d)) */
} mx_nv_divisor;

typedef struct {
    int pixels, p, q; /* of the grid: all images, rows, columns */
    int filters, channels, reduced; /* of one group; `reduced` is channels as w has them, padded with zeros */
    int groups, taps_h, taps_w;
    int h, w; /* of x */
    int step_h, step_w, first_h, first_w, tap_h, tap_w;
    int x_g, x_n, x_c, x_h, x_w; /* strides in elements */
    int w_first, w_g, w_k, w_h, w_w; /* w_h and w_w from one tap to the next; c lies closest */
    int y_first, y_g, y_n, y_c, y_h, y_w;
    mx_nv_divisor image, row; /* p * q, q */
} mx_nv_conv;

/* n / d for 0 <= n < 2^31: three instructions where a division takes thirty. */
static inline int mx_quotient(int n, const mx_nv_divisor by)
{
    return (int)(mul_hi((uint)n << 1, by.magic) >> by.shift);
}

static inline uint mx_shared(__local const void *p)
{
    uint address;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"((ulong)p));
    return address;
}

/* Copies into local memory behind the caller's back; without `valid` zeros are written and nothing is read. */
#define MX_COPY16(to, from, valid)                                                                   \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"((ulong)(from)), "r"((valid) ? 16 : 0) \
                 : "memory")
/* The same through the first-level cache, for what is read again soon. */
#define MX_COPY16_NEAR(to, from, valid)                                                              \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"((ulong)(from)), "r"((valid) ? 16 : 0) \
                 : "memory")
#define MX_COPY8(to, from, valid)                                                                  \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"((ulong)(from)), "r"((valid) ? 8 : 0) \
                 : "memory")
#define MX_COPY4(to, from, valid)                                                                  \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"((ulong)(from)), "r"((valid) ? 4 : 0) \
                 : "memory")
#define MX_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define MX_WAIT(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")

/* Four 8 x 16-byte matrices; lane l gives row l % 8 of matrix l / 8 and gets word l % 4 of row l / 4 of each. */
#define MX_LDMATRIX(a, b, c, d, from)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"      \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory")

/* The same with each matrix transposed: lane l gets elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4. */
#define MX_LDMATRIX_T(a, b, c, d, from)                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"  \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(from) : "memory")

/* 16 bytes, or 8, by 2-byte elements, for tensors that do not begin at a multiple of them: little code, for it lies
 * amid what runs fast. */
static inline void mx_copy_elements(uint to, __global const ushort *from, bool valid, int count)
{
#pragma unroll 1
    for (int i = 0; i < count; i++) {
        const ushort value = valid ? from[i] : (ushort)0;
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + 2 * i), "h"(value) : "memory");
    }
}
#define mx_copy_halves(to, from, valid) mx_copy_elements(to, from, valid, 8)
#define mx_copy_four(to, from, valid) mx_copy_elements(to, from, valid, 4)

/* A float as hi + lo, 11 bits each: hi is rounded, lo is cut by the tensor core, so it is first made longer by about
 * half of what is cut, which leaves 0.75 * 2^-22 at most.  A NaN stays one in hi or lo, whatever its bits; an infinite
 * value leaves lo a NaN.  cvt.rna.tf32 in place of these operations cost a sixth of the kernels' speed. */
#define SPLIT(value, hi, lo)                                                        \
    do {                                                                            \
        hi = ((value) + 0x1000u) & 0xffffe000u;                                     \
        lo = as_uint((as_float(value) - as_float(hi)) * (1.0f + 0x1.8p-12f));       \
    } while (0)
