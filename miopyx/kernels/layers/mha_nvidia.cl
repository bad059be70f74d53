/* Attention of 16 bits on NVIDIA's tensor cores; layers/mha.h has the formulas.
 *
 *   mha_forward, mha_dq   a group has OWN rows and walks the keys, OTHERS at a time
 *   mha_dkv               a group has OWN keys and walks the rows; its scores are transposed
 *   mha_delta             of each row delta, and L = (M - ln ZInv) / ln 2, so that p = 2^(s / ln 2 - L)
 *
 *              OTHERS                A warp has TILES times 16 rows of scores, STEP of their columns at a time, as sums
 *           +-----------+            of mma.sync, or a warpgroup 64 rows of wgmma.  These sums, rounded to T, are the
 *    warp 0 | s, then p |            left factor of the second product (Dao, FlashAttention-2, ICLR 2024), so scores
 *    warp 1 |           |            never leave the registers.  The right factors of both are the tiles of k and v (of
 *           +-----------+            q and do) as they lie in memory: two stages of cp.async in local memory, read as
 *                                    they are and transposed.
 *
 * mma.sync: rows of local memory are an odd number of 16 bytes apart, so that ldmatrix meets each bank once.
 * wgmma: panels of 64 numbers, rows of 128 bytes whose 16-byte pieces are swapped.
 * Rounding: p and ds are rounded to T.  Halves hold p 2^15, so that none above 2^-39 is lost; ds is held as it is,
 * without the scale, which comes at the end: below 2^-14 it is rounded to multiples of 2^-24.
 * Grid:         groups of 32 * WARPS work-items, tiles x heads; mha_numbers one work-item, mha_delta eight a row.
 * Local memory: the group's rows, and two stages of the others'.
 * Parameters:   those of layers/mha.h, and below.
 * Bound by:     the tensor cores, e^x, local memory.
 */
#define VEC 8 /* of 16 bytes */
#define X_TYPE T
#ifndef T
#define T half
#endif
#ifndef WHAT /* 0: mha_forward, 1: mha_dq and mha_delta, 2: mha_dkv */
#define WHAT 0
#endif
#ifndef DEPTH
#define DEPTH 64
#endif
#ifndef WIDTH
#define WIDTH 64
#endif
#ifndef WARPS
#define WARPS 4
#endif
#ifndef TILES /* of 16 rows, of a warp */
#define TILES 2
#endif
#ifndef OTHERS /* a multiple of STEP */
#define OTHERS 64
#endif
#ifndef STEP /* a multiple of 16 */
#define STEP 64
#endif
#ifndef KEEP /* 1: a warp keeps its rows in registers */
#define KEEP 0
#endif
#ifndef SM_90A /* 1: by wgmma; WARPS is a multiple of 4, TILES 1, STEP 32, 64 or 128 */
#define SM_90A 0
#endif
/* ptxas makes calls of divisions of 64 bits, and of exact ones of floats; beside calls wgmma are in turn. */
#define HEAD_INT uint
#include "layers/mha.h"
#include "include/gpu_vectors.h"
#include "conv/nvidia/ptx.h"
#if SM_90A
#include "conv/nvidia/wgmma.h"
#endif
#include "layers/mha_numbers.h"

#if MX_TYPE(T) != MX_TYPE_half && MX_TYPE(T) != MX_TYPE_bfloat16
#error "T must be half or bfloat16"
#endif
#if OTHERS % STEP != 0 || STEP % 16 != 0
#error "OTHERS must be a multiple of STEP, which is one of 16"
#endif
#define ITEMS (32 * WARPS)
#define OWN (16 * TILES * WARPS)
#if SM_90A
#if WARPS % 4 != 0 || TILES != 1 || (STEP != 32 && STEP != 64 && STEP != 128)
#error "wgmma takes 64 rows of four warps, and 32, 64 or 128 columns"
#endif
#define PANEL 64 /* a multiple of the numbers of a row */
#define OWN_ROWS 64
#define IN_OWN (warp % 4 * 16)
#define ROWS_OF(rows, deep) ((rows) * (deep) / 8)
#else
#define PANEL 16
#define OWN_ROWS (16 * TILES)
#define IN_OWN 0
#define LINE(deep) ((deep) / 8 + 1) /* 16-byte pieces from a row to the next; deep / 8 is even */
#define ROWS_OF(rows, deep) ((rows) * LINE(deep))
#endif
#define DEEP ((DEPTH + PANEL - 1) / PANEL * PANEL)
#define WIDE ((WIDTH + PANEL - 1) / PANEL * PANEL)
#define KERNEL __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")
#define MINUS_INF (-INFINITY)
#define LOG2_E 0x1.715476p+0f
#define LN_2 0x1.62e43p-1f
#if MX_TYPE(T) == MX_TYPE_half
#define RAISED 15 /* p is held as p 2^RAISED */
#else
#define RAISED 0
#endif
#define LOWER (1.0f / (1 << RAISED))
#define PADDED_ROWS ((a.rows + 63) / 64 * 64) /* of L and delta; MULTIPLE of solvers/layers/_mha_nvidia.pyx */

typedef struct {
    __global const ushort *p; /* of this head */
    mx_mha_strides by;
    bool whole;               /* rows begin at multiples of 16 bytes and have no gaps */
} rows_t;

INLINE bool whole_rows(__global const void *p, const mx_mha_strides by, int depth)
{
    return ((ulong)p & 15) == 0 && by.s % 8 == 0 && (by.d == 1 || depth == 1);
}
#define ROWS_T(name, tensor, strides, depth)                                                                       \
    rows_t name;                                                                                                   \
    name.p = (__global const ushort *)tensor + tensor##_offset, name.by = strides;                                 \
    name.whole = whole_rows(name.p, strides, depth)

INLINE float exp_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INLINE float inverse_of(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INLINE float most_of_row(float most)
{
    most = fmax(most, as_float(mx_exchange(as_uint(most), 1)));
    return fmax(most, as_float(mx_exchange(as_uint(most), 2)));
}
INLINE float sum_of_row(float sum)
{
    sum += as_float(mx_exchange(as_uint(sum), 1));
    return sum + as_float(mx_exchange(as_uint(sum), 2));
}

INLINE bool any_of_warp(uint value)
{
    uint most;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(value));
    return most != 0;
}

/* Where a piece of 16 bytes of a row lies, of `all` rows. */
INLINE uint place_of(const int row, const int piece, const int all, const int deep)
{
#if SM_90A
    return ((piece / 8 * all + row) * 8 + (piece % 8 ^ row % 8)) * 16;
#else
    return (row * LINE(deep) + piece) * 16;
#endif
}

/* Begin to copy rows from `first` on, `count` of `all`, `depth` numbers each; the rest is 0. */
INLINE void copy_rows(uint to, rows_t t, long first, int count, const int all, const int depth, const int deep)
{
    const int me = get_local_id(0), pieces = deep / 8;
    const int span = pieces <= 2 ? 2 : pieces <= 4 ? 4 : pieces <= 8 ? 8 : pieces <= 16 ? 16 : 32;
    __global const ushort *from = t.p + first * t.by.s;
    if (t.whole) {
        const int more = ITEMS / span, row = me / span, piece = me % span;
        const int bytes = depth == deep ? 16 : min(max(2 * depth - 16 * piece, 0), 16);
        const ulong step = more * t.by.s * 2;
        ulong at = (ulong)(from + row * t.by.s + piece * 8);
        if (pieces == span || piece < pieces)
            UNROLL for (int i = 0; i < (all + more - 1) / more; i++) {
                if (all % more == 0 || row + i * more < all)
                    MX_COPY_FIRST(to + place_of(row + i * more, piece, all, deep), at,
                                  row + i * more < count ? bytes : 0);
                at += step;
                asm volatile("" : "+l"(at)); /* one address, not one for each row in registers of its own */
            }
    } else {
#pragma unroll 1
        for (int e = me; e < all * deep; e += ITEMS) {
            const int row = e / deep, d = e % deep;
            const ushort value = row < count && d < depth ? from[row * t.by.s + d * t.by.d] : (ushort)0;
            asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + place_of(row, d / 8, all, deep) + d % 8 * 2), "h"(value)
                         : "memory");
        }
    }
}

#if SM_90A
/* Of a warpgroup: its 64 rows, and rows from `sub` on as right factors of both.  Rows of 128 bytes, 64 numbers,
 * are panels: `others` has OTHERS of them, the group's own have OWN. */
#define OWN_AT(at, deep) ((at) + warp / 4 * 64 * 128)
#define RIGHT_AT(at, sub, deep) ((at) + (sub) * 128)
#define TURNED_AT(at, sub, deep) ((at) + (sub) * 128)
#define WGMMA_STEP MX_JOIN(MX_WGMMA_, STEP)
#define HOLD(s, deep) EACH_ROW EACH_PAIR(deep) { MX_WG_HOLD((s)[m][n][2 * h]); MX_WG_HOLD((s)[m][n][2 * h + 1]); }
#define KEPT(name, at, deep)
/* s = the rows at `at` times STEP rows at `others`. */
#define BEGIN_PRODUCTS(s, at, others, deep)                                                                        \
    UNROLL for (int d_ = 0; d_ < (deep) / 16; d_++) {                                                              \
        const ulong left_ = mx_wg_matrix((at) + d_ / 4 * OWN * 128 + d_ % 4 * 32, 0);                              \
        const ulong right_ = mx_wg_matrix((others) + d_ / 4 * OTHERS * 128 + d_ % 4 * 32, 0);                      \
        if (d_ == 0)                                                                                               \
            WGMMA_STEP((&(s)[0][0][0]), left_, right_, "0", "0, 0");                                               \
        else                                                                                                       \
            WGMMA_STEP((&(s)[0][0][0]), left_, right_, "1", "0, 0");                                               \
    }
#define MULTIPLY(s, own, at, others, deep)                                                                         \
    do {                                                                                                           \
        MX_WG_FENCE();                                                                                             \
        BEGIN_PRODUCTS(s, at, others, deep)                                                                        \
        MX_WG_COMMIT();                                                                                            \
        MX_WG_WAIT(0);                                                                                             \
        HOLD(s, STEP);                                                                                             \
    } while (0)
#define MULTIPLY_TWO(s, own, at, others, deep, t, own_t, t_at, t_others, wide)                                     \
    do {                                                                                                           \
        MX_WG_FENCE();                                                                                             \
        BEGIN_PRODUCTS(s, at, others, deep)                                                                        \
        BEGIN_PRODUCTS(t, t_at, t_others, wide)                                                                    \
        MX_WG_COMMIT();                                                                                            \
        MX_WG_WAIT(0);                                                                                             \
        HOLD(s, STEP);                                                                                             \
        HOLD(t, STEP);                                                                                             \
    } while (0)
/* out += s, rounded, times STEP rows at `others`, of `deep` numbers. */
#define ROUND_ALL(left, s)                                                                                         \
    uint left[STEP / 16][4];                                                                                       \
    UNROLL for (int k_ = 0; k_ < STEP / 16; k_++)                                                                  \
        UNROLL for (int i_ = 0; i_ < 4; i_++)                                                                      \
            MX_ROUND_PAIR((left)[k_][i_], (s)[0][2 * k_ + i_ / 2][i_ % 2 * 2],                                     \
                          (s)[0][2 * k_ + i_ / 2][i_ % 2 * 2 + 1])
#define BEGIN_SUMS(out, left, others, deep)                                                                        \
    UNROLL for (int k_ = 0; k_ < STEP / 16; k_++)                                                                  \
        UNROLL for (int n_ = 0; n_ < (deep) / 64; n_++)                                                            \
            MX_WGMMA_REGISTERS_64((&(out)[0][8 * n_][0]), (left)[k_],                                              \
                                  mx_wg_matrix((others) + (n_ * OTHERS + k_ * 16) * 128, 0), "1");
#define ADD_PRODUCTS(out, s, others, deep)                                                                         \
    do {                                                                                                           \
        ROUND_ALL(left_, s);                                                                                       \
        MX_WG_FENCE();                                                                                             \
        BEGIN_SUMS(out, left_, others, deep)                                                                       \
        MX_WG_COMMIT();                                                                                            \
        MX_WG_WAIT(0);                                                                                             \
        HOLD(out, deep);                                                                                           \
    } while (0)
#define ADD_TWO(out, s, others, deep, out_t, t, t_others, wide)                                                    \
    do {                                                                                                           \
        ROUND_ALL(left_, s);                                                                                       \
        ROUND_ALL(left_t_, t);                                                                                     \
        MX_WG_FENCE();                                                                                             \
        BEGIN_SUMS(out, left_, others, deep)                                                                       \
        BEGIN_SUMS(out_t, left_t_, t_others, wide)                                                                 \
        MX_WG_COMMIT();                                                                                            \
        MX_WG_WAIT(0);                                                                                             \
        HOLD(out, deep);                                                                                           \
        HOLD(out_t, wide);                                                                                         \
    } while (0)
#define PUBLISH() MX_WG_PUBLISH()
#else
#define PUBLISH()
/* Where a lane reads for ldmatrix: the warp's rows, and rows from `sub` on as right factors of the first product and of
 * the second one. */
#define OWN_AT(at, deep) ((at) + ((warp * 16 * TILES + lane % 16) * LINE(deep) + lane / 16) * 16)
#define RIGHT_AT(at, sub, deep) ((at) + (((sub) + lane % 8 + lane / 16 * 8) * LINE(deep) + lane / 8 % 2) * 16)
#define TURNED_AT(at, sub, deep) ((at) + (((sub) + lane % 16) * LINE(deep) + lane / 16) * 16)
/* The warp's rows as left factors, for `deep` numbers. */
#define TAKE_OWN(own, at, deep)                                                                                    \
    UNROLL for (int m_ = 0; m_ < TILES; m_++)                                                                      \
        UNROLL for (int d_ = 0; d_ < (deep) / 16; d_++)                                                            \
            MX_LDMATRIX((own)[m_][d_][0], (own)[m_][d_][1], (own)[m_][d_][2], (own)[m_][d_][3],                    \
                        (at) + (m_ * 16 * LINE(deep) + d_ * 2) * 16)

/* s = the warp's rows times STEP rows at `others`. */
#if KEEP
#define KEPT(name, at, deep)                    \
    uint name[TILES][(deep) / 16][4];           \
    TAKE_OWN(name, at, deep)
#define LEFT(left, own, at, m, d, deep) UNROLL for (int i_ = 0; i_ < 4; i_++) (left)[i_] = (own)[m][d][i_]
#else
#define KEPT(name, at, deep)
#define LEFT(left, own, at, m, d, deep) \
    MX_LDMATRIX((left)[0], (left)[1], (left)[2], (left)[3], (at) + ((m) * 16 * LINE(deep) + (d) * 2) * 16)
#endif
#define MULTIPLY(s, own, at, others, deep)                                                                         \
    UNROLL for (int d_ = 0; d_ < (deep) / 16; d_++) {                                                              \
        uint left_[TILES][4];                                                                                      \
        UNROLL for (int m_ = 0; m_ < TILES; m_++)                                                                  \
            LEFT(left_[m_], own, at, m_, d_, deep);                                                                \
        UNROLL for (int n_ = 0; n_ < STEP / 16; n_++) {                                                            \
            uint right_[4];                                                                                        \
            MX_LDMATRIX(right_[0], right_[1], right_[2], right_[3],                                                \
                        (others) + (n_ * 16 * LINE(deep) + d_ * 2) * 16);                                          \
            UNROLL for (int m_ = 0; m_ < TILES; m_++)                                                              \
                UNROLL for (int i_ = 0; i_ < 2; i_++) {                                                            \
                    if (d_ == 0)                                                                                   \
                        MX_PRODUCT((s)[m_][2 * n_ + i_], left_[m_][0], left_[m_][1], left_[m_][2], left_[m_][3],   \
                                   right_[2 * i_], right_[2 * i_ + 1]);                                            \
                    else                                                                                           \
                        MX_MULTIPLY((s)[m_][2 * n_ + i_], left_[m_], right_ + 2 * i_);                             \
                }                                                                                                  \
        }                                                                                                          \
    }

/* out += s, rounded, times STEP rows at `others`, of `deep` numbers. */
#define ADD_PRODUCTS(out, s, others, deep)                                                                         \
    UNROLL for (int k_ = 0; k_ < STEP / 16; k_++) {                                                                \
        uint left_[TILES][4];                                                                                      \
        UNROLL for (int m_ = 0; m_ < TILES; m_++)                                                                  \
            UNROLL for (int i_ = 0; i_ < 4; i_++)                                                                  \
                MX_ROUND_PAIR(left_[m_][i_], (s)[m_][2 * k_ + i_ / 2][i_ % 2 * 2],                                 \
                              (s)[m_][2 * k_ + i_ / 2][i_ % 2 * 2 + 1]);                                           \
        UNROLL for (int n_ = 0; n_ < (deep) / 16; n_++) {                                                          \
            uint right_[4];                                                                                        \
            MX_LDMATRIX_T(right_[0], right_[1], right_[2], right_[3],                                              \
                          (others) + (k_ * 16 * LINE(deep) + n_ * 2) * 16);                                        \
            UNROLL for (int m_ = 0; m_ < TILES; m_++) {                                                            \
                MX_MULTIPLY((out)[m_][2 * n_], left_[m_], right_);                                                 \
                MX_MULTIPLY((out)[m_][2 * n_ + 1], left_[m_], right_ + 2);                                         \
            }                                                                                                      \
        }                                                                                                          \
    }
#define MULTIPLY_TWO(s, own, at, others, deep, t, own_t, t_at, t_others, wide)                                     \
    do {                                                                                                           \
        MULTIPLY(s, own, at, others, deep)                                                                         \
        MULTIPLY(t, own_t, t_at, t_others, wide)                                                                   \
    } while (0)
#define ADD_TWO(out, s, others, deep, out_t, t, t_others, wide)                                                    \
    do {                                                                                                           \
        ADD_PRODUCTS(out, s, others, deep)                                                                         \
        ADD_PRODUCTS(out_t, t, t_others, wide)                                                                     \
    } while (0)
#endif

/* Each sum of a warp: of ROW those of columns n * 8 + lane % 4 * 2 and behind it. */
#define ROW(m, h) ((m) * 16 + (h) * 8 + lane / 4 + IN_OWN)
#define EACH_ROW UNROLL for (int m = 0; m < TILES; m++) UNROLL for (int h = 0; h < 2; h++)
#define EACH_PAIR(count) UNROLL for (int n = 0; n < (count) / 8; n++)
#define CLEAR(out, deep) EACH_ROW EACH_PAIR(deep) (out)[m][n][2 * h] = (out)[m][n][2 * h + 1] = 0

/* Store a warp's sums as `count` rows; returns the bits of the largest number before `scale`. */
#define PUT(most, out, tensor, strides, from_row, count, depth, deep, descale, scale)                              \
    do {                                                                                                           \
        __global ushort *to_ = (__global ushort *)tensor + tensor##_offset                                         \
                               + head_offset(strides, head, a.heads) + (from_row) * (strides).s;                   \
        const bool whole_ = (depth) % 8 == 0 && whole_rows(to_, strides, depth);                                   \
        EACH_ROW {                                                                                                 \
            const int row_ = ROW(m, h);                                                            \
            UNROLL for (int n4 = 0; n4 < ((deep) / 8 + 3) / 4; n4++) {                                             \
                uint word_[4];                                                                                     \
                UNROLL for (int i = 0; i < 4; i++) {                                                               \
                    word_[i] = 0;                                                                                  \
                    if (n4 * 4 + i < (deep) / 8) {                                                                 \
                        const float one_ = (out)[m][n4 * 4 + i][2 * h] * (descale);                                \
                        const float two_ = (out)[m][n4 * 4 + i][2 * h + 1] * (descale);                            \
                        if (AMAX && row_ < (count))                                                                \
                            most = max(most, max(as_uint(one_) & 0x7fffffffu, as_uint(two_) & 0x7fffffffu));       \
                        MX_ROUND_PAIR(word_[i], one_ * (scale), two_ * (scale));                                   \
                    }                                                                                              \
                }                                                                                                  \
                if (whole_) {                                                                                      \
                    const uint4 v_ = mx_turn((uint4)(word_[0], word_[1], word_[2], word_[3]), lane);               \
                    const int d_ = (n4 * 4 + lane % 4) * 8;                                                        \
                    if (row_ < (count) && d_ < (depth))                                                            \
                        *(__global uint4 *)(to_ + row_ * (strides).s + d_) = v_;                                   \
                } else                                                                                             \
                    UNROLL for (int i = 0; i < 8; i++) {                                                           \
                        const int d_ = (n4 * 4 + i / 2) * 8 + lane % 4 * 2 + i % 2;                                \
                        if (row_ < (count) && d_ < (depth))                                                        \
                            to_[row_ * (strides).s + d_ * (strides).d] = (ushort)(word_[i / 2] >> i % 2 * 16);     \
                    }                                                                                              \
            }                                                                                                      \
        }                                                                                                          \
    } while (0)

/* The largest of a warp's numbers joins those of the others. */
INLINE void join(__global float *amax, uint most)
{
    UNROLL for (int with = 16; with > 0; with /= 2)
        most = max(most, mx_exchange(most, with));
    if (get_local_id(0) % 32 == 0)
        largest(amax, as_float(most));
}

/* The group's rows or keys, the first one of this warp or warpgroup, and how many of its OWN_ROWS there are. */
#define BEGIN(all)                                                                                                 \
    const uint blocks = (uint)(((all) + OWN - 1) / OWN), group = (uint)get_group_id(0);                            \
    const long head = group / blocks, first = (long)(blocks - 1 - group % blocks) * OWN;                           \
    const int count = (int)min((all) - first, (long)OWN), me = get_local_id(0), lane = me % 32, warp = me / 32;    \
    const int own_at_row = warp / (OWN_ROWS / 16 / TILES) * OWN_ROWS;                                              \
    const int own_count = min(max(count - own_at_row, 0), OWN_ROWS);                                               \
    const long own_first = first + own_at_row;                                                                     \
    const bool causal = mask != 0;                                                                                 \
    HEAD_OFFSETS;                                                                                                  \
    /* Scores in units of ln 2. */                                                                                 \
    const float of_scores = (float)scale * NUMBER(DESCALE_Q) * NUMBER(DESCALE_K) * LOG2_E;                         \
    DROPOUT
#if DROPS
#define DROPOUT                                                         \
    const uint least = (uint)ceil(DROPPED * 16777216);                  \
    const float kept = DROPPED < 1 ? inverse_of(1 - DROPPED) : 0.0f
#else
#define DROPOUT const float kept = 1
#endif

#if BIASED
#define SCORE(product, row, key, inside) \
    fma(product, of_scores, LOG2_E * ((inside) ? bias[bias_offset + (row) * a.bias.s + (key) * a.bias.d] : 0.0f))
#endif

#if DROPS
/* Words of the mask of a warp's scores of 8 columns from `key`, a multiple of 8, on: of this lane's two of `row` and of
 * its two of row + 8.  Neighbouring lanes share counters: the even one draws those of `row`. */
INLINE uint4 mask_of_rows(__global const uchar *table, const mx_mha_shape a, long head, long row, long key, int lane)
{
    const bool odd = lane & 1;
    const ulong counter = COUNTER(head, row + (odd ? 8 : 0)) + key / 4 + lane % 4 / 2;
    uint one = (uint)counter, two = (uint)(counter >> 32), three = (uint)MASKS_AT, four = (uint)(MASKS_AT >> 32);
    PHILOX(uint, one, two, three, four, SEED);
    const uint first = mx_exchange(odd ? one : three, 1), second = mx_exchange(odd ? two : four, 1);
    return odd ? (uint4)(first, second, three, four) : (uint4)(one, two, first, second);
}
/* Likewise of transposed scores: keys from `key` on, of 8 rows from `row` on.  Four lanes share counters. */
INLINE uint4 mask_of_keys(__global const uchar *table, const mx_mha_shape a, long head, long row, long key, int lane)
{
    const int mine = lane / 4 % 4;
    const ulong counter = COUNTER(head, row + lane % 4 * 2 + mine % 2) + (key + mine / 2 * 8 + lane / 16 * 4) / 4;
    uint4 v = (uint4)((uint)counter, (uint)(counter >> 32), (uint)MASKS_AT, (uint)(MASKS_AT >> 32));
    PHILOX(uint, v.x, v.y, v.z, v.w, SEED);
    return mx_turn_lanes(v, lane, 4);
}
#define IS_KEPT(words, l) \
    (((l) == 0 ? (words).x : (l) == 1 ? (words).y : (l) == 2 ? (words).z : (words).w) >> 8 >= least)
#endif

#define FILL(stage, at)                                                                                            \
    do {                                                                                                           \
        const int number_ = (int)min(all - (at), (long)OTHERS);                                                    \
        copy_rows(mx_shared(one_tile[stage]), one, at, number_, OTHERS, DEPTH, DEEP);                              \
        copy_rows(mx_shared(two_tile[stage]), two, at, number_, OTHERS, WIDTH, WIDE);                              \
        FILL_MORE(stage, at);                                                                                      \
    } while (0)
/* What a warp keeps in registers waits for the group's rows. */
#if KEEP
#define AWAIT_OWN()                                                                                                \
    do {                                                                                                           \
        MX_COMMIT();                                                                                               \
        MX_WAIT(0);                                                                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
    } while (0)
#else
#define AWAIT_OWN()
#endif
/* The group's rows of two tensors: where the warp's lie, and what it keeps. */
#define TAKE_TWO(own, at, rows, tensor, own_t, at_t, rows_t, tensor_t)                                             \
    copy_rows(mx_shared(rows), tensor, first, count, OWN, DEPTH, DEEP);                                            \
    copy_rows(mx_shared(rows_t), tensor_t, first, count, OWN, WIDTH, WIDE);                                        \
    const uint at = OWN_AT(mx_shared(rows), DEEP), at_t = OWN_AT(mx_shared(rows_t), WIDE);                         \
    AWAIT_OWN();                                                                                                   \
    KEPT(own, at, DEEP);                                                                                           \
    KEPT(own_t, at_t, WIDE)
/* Walk from `begin` to `end` in tiles, of which the next is copied meanwhile. */
#define WALK(at, begin, end)                                                                                       \
    FILL(0, begin);                                                                                                \
    MX_COMMIT();                                                                                                   \
    int stage = 0;                                                                                                 \
    for (long at = begin; at < (end); at += OTHERS, stage ^= 1) {                                                  \
        MX_WAIT(0);                                                                                                \
        PUBLISH();                                                                                                 \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        if (at + OTHERS < (end))                                                                                   \
            FILL(stage ^ 1, at + OTHERS);                                                                          \
        MX_COMMIT();

#if WHAT == 0
#define FILL_MORE(stage, at)
KERNEL mha_forward(TENSORS, __global STORAGE(T) *o, long o_offset, SAVED, __global float *amax_s, long amax_s_offset,
                   __global float *amax_o, long amax_o_offset, REST)
{
    __local uint4 own_rows[ROWS_OF(OWN, DEEP)] __attribute__((aligned(1024)));
    __local uint4 one_tile[2][ROWS_OF(OTHERS, DEEP)] __attribute__((aligned(1024)));
    __local uint4 two_tile[2][ROWS_OF(OTHERS, WIDE)] __attribute__((aligned(1024)));
    BEGIN(a.rows);
    ROWS_T(mine, q, a.q, DEPTH);
    ROWS_T(one, k, a.k, DEPTH);
    ROWS_T(two, v, a.v, WIDTH);
    const long all = a.keys, end = causal ? min(all, first + count) : all;
    const long own_end = own_count == 0 ? 0 : causal ? min(end, own_first + own_count) : end;
    /* The largest score is that of the largest product.  A factor of 0 would make -Inf of the mask NaN. */
    const float factor = BIASED ? 1 : of_scores == 0 ? 0x1p-126f : fabs(of_scores);
    float out[TILES][WIDE / 8][4], high[TILES][2], total[TILES][2];
    CLEAR(out, WIDE);
    EACH_ROW high[m][h] = MINUS_INF, total[m][h] = 0;
    copy_rows(mx_shared(own_rows), mine, first, count, OWN, DEPTH, DEEP);
    const uint own_at = OWN_AT(mx_shared(own_rows), DEEP);
    AWAIT_OWN();
    KEPT(own, own_at, DEEP);
    WALK(tile, 0, end)
        for (int sub = 0; sub < OTHERS && tile + sub < own_end; sub += STEP) {
            const long j0 = tile + sub;
            float s[TILES][STEP / 8][4];
            MULTIPLY(s, own, own_at, RIGHT_AT(mx_shared(one_tile[stage]), sub, DEEP), DEEP);
#if BIASED
            EACH_ROW EACH_PAIR(STEP) UNROLL for (int i = 0; i < 2; i++) {
                const int row = ROW(m, h);
                const long key = j0 + n * 8 + lane % 4 * 2 + i;
                s[m][n][2 * h + i] = SCORE(s[m][n][2 * h + i], own_first + row, key, row < own_count && key < all);
            }
#else
            if (of_scores < 0)
                EACH_ROW EACH_PAIR(STEP) s[m][n][2 * h] = -s[m][n][2 * h], s[m][n][2 * h + 1] = -s[m][n][2 * h + 1];
#endif
            if (j0 + STEP > all || (causal && j0 + STEP - 1 > own_first))
                EACH_ROW {
                    const long row = own_first + ROW(m, h);
                    const int behind = (int)min((causal ? min(all, row + 1) : all) - j0, (long)STEP) - lane % 4 * 2;
                    EACH_PAIR(STEP) {
                        s[m][n][2 * h] = n * 8 < behind ? s[m][n][2 * h] : MINUS_INF;
                        s[m][n][2 * h + 1] = n * 8 + 1 < behind ? s[m][n][2 * h + 1] : MINUS_INF;
                    }
                }
            float moved[TILES][2];
            uint grown = 0;
            EACH_ROW {
                float most = MINUS_INF, sum = 0;
                EACH_PAIR(STEP) most = fmax(most, fmax(s[m][n][2 * h], s[m][n][2 * h + 1]));
                const float now = fmax(high[m][h], most_of_row(most) * factor);
                const float base = now == MINUS_INF ? 0 : now;
                grown |= now != high[m][h];
                moved[m][h] = exp_2(high[m][h] - base);
                high[m][h] = now;
                EACH_PAIR(STEP) UNROLL for (int i = 0; i < 2; i++) {
                    s[m][n][2 * h + i] = exp_2(fma(s[m][n][2 * h + i], factor, RAISED - base));
                    sum += s[m][n][2 * h + i];
                }
                total[m][h] = total[m][h] * moved[m][h] + sum;
            }
            if (any_of_warp(grown))
                EACH_ROW EACH_PAIR(WIDE)
                    out[m][n][2 * h] *= moved[m][h], out[m][n][2 * h + 1] *= moved[m][h];
#if DROPS
            UNROLL for (int m = 0; m < TILES; m++) EACH_PAIR(STEP) {
                const uint4 words = mask_of_rows(table, a, head, own_first + ROW(m, 0), j0 + n * 8, lane);
                UNROLL for (int l = 0; l < 4; l++)
                    s[m][n][l] = IS_KEPT(words, l) ? s[m][n][l] : 0;
            }
#endif
            ADD_PRODUCTS(out, s, TURNED_AT(mx_shared(two_tile[stage]), sub, WIDE), WIDE);
        }
    }
    const float of_s = NUMBER(SCALE_S) * NUMBER(DESCALE_S) * NUMBER(DESCALE_V) * kept;
    const float to_m = BIASED || of_scores != 0 ? LN_2 : 0;
    uint most_s = 0, most_o = 0;
    EACH_ROW {
        const int row = ROW(m, h);
        const float z = inverse_of(sum_of_row(total[m][h])), to_p = z * of_s;
        EACH_PAIR(WIDE) out[m][n][2 * h] *= to_p, out[m][n][2 * h + 1] *= to_p;
        if (row < own_count) {
            const float inverse_of_e = z * (1 << RAISED);
            most_s = max(most_s, as_uint(inverse_of_e) & 0x7fffffffu);
            if (HAS_M && lane % 4 == 0)
                top[top_offset + (own_first + row) * a.m.s] = high[m][h] * to_m;
            if (HAS_Z && lane % 4 == 0)
                inverse[inverse_offset + (own_first + row) * a.z_inv.s] = inverse_of_e;
        }
    }
    PUT(most_o, out, o, a.o, own_first, own_count, WIDTH, WIDE, 1.0f, NUMBER(SCALE_O));
    if (AMAX && HAS_AMAX(0)) /* a row's largest number is e^0 ZInv */
        join(amax_s + amax_s_offset, most_s);
    if (AMAX && HAS_AMAX(1))
        join(amax_o + amax_o_offset, most_o);
}
#endif

#if WHAT == 1
MX_GET(eight, T)

/* Eight work-items a row; rows behind the last of a head have no p. */
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void mha_delta(
    __global const STORAGE(T) *o, long o_offset, __global const STORAGE(T) *d_o, long d_o_offset, SAVED,
    __global float2 *rows, long rows_offset, __global uchar *table, long table_offset, const mx_mha_shape a)
{
    const long i = (long)get_group_id(0) * 32 + get_local_id(0) / 8, head = i / PADDED_ROWS, row = i % PADDED_ROWS;
    const int part = get_local_id(0) % 8;
    const bool inside = head < a.all && row < a.rows;
    table += table_offset;
    float sum = 0;
    if (inside) {
        __global const ushort *p = (__global const ushort *)o + o_offset + head_offset(a.o, head, a.heads);
        __global const ushort *r = (__global const ushort *)d_o + d_o_offset + head_offset(a.d_o, head, a.heads);
        if (WIDTH % 8 == 0 && whole_rows(p, a.o, WIDTH) && whole_rows(r, a.d_o, WIDTH))
            for (int d = part * 8; d < WIDTH; d += 64)
                sum += mx_sum_of_lanes(eight(p + row * a.o.s + d, true) * eight(r + row * a.d_o.s + d, true));
        else
            for (int d = part; d < WIDTH; d += 8)
                sum += LOAD(T)(p, row * a.o.s + d * a.o.d) * LOAD(T)(r, row * a.d_o.s + d * a.d_o.d);
    }
    UNROLL for (int with = 1; with < 8; with *= 2)
        sum += as_float(mx_exchange(as_uint(sum), with));
    if (head < a.all && part == 0) {
        float2 of_row = (float2)(INFINITY, 0);
        if (inside) {
            top_offset += head_offset(a.m, head, a.heads), inverse_offset += head_offset(a.z_inv, head, a.heads);
            of_row = (float2)(top[top_offset + row * a.m.s] * LOG2_E - log2(inverse[inverse_offset + row * a.z_inv.s]),
                              sum * NUMBER(DESCALE_O) * NUMBER(DESCALE_DO));
        }
        ((__global float2 *)((__global float *)rows + rows_offset))[i] = of_row;
    }
}

#define FILL_MORE(stage, at)
KERNEL mha_dq(TENSORS, SAVED, __global const STORAGE(T) *d_o, long d_o_offset, __global const float *rows,
              long rows_offset, __global STORAGE(T) *dq, long dq_offset, __global float *amax_dq, long amax_dq_offset,
              __global float *amax_ds, long amax_ds_offset, REST)
{
    __local uint4 own_rows[ROWS_OF(OWN, DEEP)] __attribute__((aligned(1024)));
    __local uint4 do_rows[ROWS_OF(OWN, WIDE)] __attribute__((aligned(1024)));
    __local uint4 one_tile[2][ROWS_OF(OTHERS, DEEP)] __attribute__((aligned(1024)));
    __local uint4 two_tile[2][ROWS_OF(OTHERS, WIDE)] __attribute__((aligned(1024)));
    BEGIN(a.rows);
    d_o_offset += head_offset(a.d_o, head, a.heads);
    ROWS_T(mine, q, a.q, DEPTH);
    ROWS_T(one, k, a.k, DEPTH);
    ROWS_T(two, v, a.v, WIDTH);
    ROWS_T(grad, d_o, a.d_o, WIDTH);
    const long all = a.keys, end = causal ? min(all, first + count) : all;
    const long own_end = own_count == 0 ? 0 : causal ? min(end, own_first + own_count) : end;
    const float to_p = NUMBER(DESCALE_DO) * NUMBER(DESCALE_V) * kept;
    float out[TILES][DEEP / 8][4], base[TILES][2], delta[TILES][2];
    uint most_ds = 0;
    CLEAR(out, DEEP);
    EACH_ROW {
        const int row = ROW(m, h);
        base[m][h] = INFINITY, delta[m][h] = 0;
        if (row < own_count) {
            const float2 v2 = ((__global const float2 *)(rows + rows_offset))[head * PADDED_ROWS + own_first + row];
            base[m][h] = v2.x, delta[m][h] = v2.y;
        }
    }
    TAKE_TWO(own, own_at, own_rows, mine, own_do, do_at, do_rows, grad);
    WALK(tile, 0, end)
        for (int sub = 0; sub < OTHERS && tile + sub < own_end; sub += STEP) {
            const long j0 = tile + sub;
            const uint tile_at = mx_shared(one_tile[stage]);
            float s[TILES][STEP / 8][4], t[TILES][STEP / 8][4];
            MULTIPLY_TWO(s, own, own_at, RIGHT_AT(tile_at, sub, DEEP), DEEP,
                         t, own_do, do_at, RIGHT_AT(mx_shared(two_tile[stage]), sub, WIDE), WIDE);
#if DROPS
            UNROLL for (int m = 0; m < TILES; m++) EACH_PAIR(STEP) {
                const uint4 words = mask_of_rows(table, a, head, own_first + ROW(m, 0), j0 + n * 8, lane);
                UNROLL for (int l = 0; l < 4; l++)
                    t[m][n][l] = IS_KEPT(words, l) ? t[m][n][l] : 0;
            }
#endif
            const bool edge = j0 + STEP > all || (causal && j0 + STEP - 1 > own_first);
            EACH_ROW {
                const int row = ROW(m, h);
                const long last = causal ? min(all, own_first + row + 1) : all;
                const int behind = (int)min(last - j0, (long)STEP) - lane % 4 * 2;
                EACH_PAIR(STEP) UNROLL for (int i = 0; i < 2; i++) {
#if BIASED
                    const long key = j0 + n * 8 + lane % 4 * 2 + i;
                    const float power = SCORE(s[m][n][2 * h + i], own_first + row, key, row < own_count && key < all)
                        - base[m][h];
#else
                    const float power = fma(s[m][n][2 * h + i], of_scores, -base[m][h]);
#endif
                    const float ds = exp_2(power) * (t[m][n][2 * h + i] * to_p - delta[m][h]);
                    s[m][n][2 * h + i] = !edge || n * 8 + i < behind ? ds : 0;
                    if (AMAX && row < own_count)
                        most_ds = max(most_ds, as_uint(s[m][n][2 * h + i]) & 0x7fffffffu);
                }
            }
            ADD_PRODUCTS(out, s, TURNED_AT(tile_at, sub, DEEP), DEEP);
        }
    }
    uint most_dq = 0;
    PUT(most_dq, out, dq, a.dq, own_first, own_count, DEPTH, DEEP,
        (float)scale * NUMBER(SCALE_DS) * NUMBER(DESCALE_DS) * NUMBER(DESCALE_K), NUMBER(SCALE_DQ));
    if (AMAX && HAS_AMAX(0))
        join(amax_dq + amax_dq_offset, most_dq);
    if (AMAX && HAS_AMAX(3))
        join(amax_ds + amax_ds_offset, as_uint(as_float(most_ds) * fabs((float)scale)));
}
#endif

#if WHAT == 2
#if 64 % OTHERS != 0
#error "OTHERS must divide 64"
#endif
#define FILL_MORE(stage, at)                                                                                       \
    if (me < OTHERS / 2 && (at) < all)                                                                             \
        MX_COPY16(mx_shared(rows_tile[stage]) + me * 16, of_rows + (at) + me * 2, true)
KERNEL mha_dkv(TENSORS, SAVED, __global const STORAGE(T) *d_o, long d_o_offset, __global const float *rows,
               long rows_offset, __global STORAGE(T) *dk, long dk_offset, __global STORAGE(T) *dv, long dv_offset,
               __global float *amax_dk, long amax_dk_offset, __global float *amax_dv, long amax_dv_offset, REST)
{
    __local uint4 k_rows[ROWS_OF(OWN, DEEP)] __attribute__((aligned(1024)));
    __local uint4 v_rows[ROWS_OF(OWN, WIDE)] __attribute__((aligned(1024)));
    __local uint4 one_tile[2][ROWS_OF(OTHERS, DEEP)] __attribute__((aligned(1024)));
    __local uint4 two_tile[2][ROWS_OF(OTHERS, WIDE)] __attribute__((aligned(1024)));
    __local float4 rows_tile[2][OTHERS / 2] __attribute__((aligned(1024)));
    BEGIN(a.keys);
    d_o_offset += head_offset(a.d_o, head, a.heads);
    ROWS_T(keys, k, a.k, DEPTH);
    ROWS_T(values, v, a.v, WIDTH);
    ROWS_T(one, q, a.q, DEPTH);
    ROWS_T(two, d_o, a.d_o, WIDTH);
    __global const float2 *of_rows = (__global const float2 *)(rows + rows_offset) + head * PADDED_ROWS;
    const long all = a.rows, begin = causal ? first / OTHERS * OTHERS : 0;
    const float to_p = NUMBER(DESCALE_DO) * NUMBER(DESCALE_V) * kept * LOWER;
    float out_k[TILES][DEEP / 8][4], out_v[TILES][WIDE / 8][4];
    CLEAR(out_k, DEEP);
    CLEAR(out_v, WIDE);
    TAKE_TWO(own_k, k_at, k_rows, keys, own_v, v_at, v_rows, values);
    WALK(tile, begin, all)
        for (int sub = 0; sub < OTHERS && tile + sub < all; sub += STEP) {
            const long i0 = tile + sub;
            if (own_count == 0 || (causal && i0 + STEP <= own_first))
                continue;
            const uint q_at = mx_shared(one_tile[stage]), do_at = mx_shared(two_tile[stage]);
            float s[TILES][STEP / 8][4], t[TILES][STEP / 8][4];
            MULTIPLY_TWO(s, own_k, k_at, RIGHT_AT(q_at, sub, DEEP), DEEP,
                         t, own_v, v_at, RIGHT_AT(do_at, sub, WIDE), WIDE);
            /* A column's row has keys before `behind`, of the warp's. */
            const bool edge = causal && i0 < own_first + OWN_ROWS - 1;
            const int behind = edge ? (int)(i0 - own_first) + lane % 4 * 2 + 1 : 0;
            EACH_PAIR(STEP) {
                const float4 of_two = rows_tile[stage][sub / 2 + n * 4 + lane % 4];
                UNROLL for (int m = 0; m < TILES; m++) {
#if DROPS
                    const uint4 words = mask_of_keys(table, a, head, i0 + n * 8, own_first + m * 16 + IN_OWN, lane);
#endif
                    UNROLL for (int l = 0; l < 4; l++) {
                        const float base = l % 2 ? of_two.z : of_two.x, delta = (l % 2 ? of_two.w : of_two.y) * LOWER;
                        const int own = ROW(m, l / 2);
                        float dp = t[m][n][l] * to_p;
#if BIASED
                        const long row = i0 + n * 8 + lane % 4 * 2 + l % 2;
                        float p = exp_2(SCORE(s[m][n][l], row, own_first + own, row < all && own < own_count)
                                        + (RAISED - base));
#else
                        float p = exp_2(fma(s[m][n][l], of_scores, RAISED - base));
#endif
                        const bool inside = !edge || own < behind + n * 8 + l % 2;
                        s[m][n][l] = p = inside ? p : 0;
#if DROPS
                        if (!IS_KEPT(words, l))
                            s[m][n][l] = dp = 0;
#endif
                        t[m][n][l] = inside ? p * (dp - delta) : 0;
                    }
                }
            }
            ADD_TWO(out_v, s, TURNED_AT(do_at, sub, WIDE), WIDE, out_k, t, TURNED_AT(q_at, sub, DEEP), DEEP);
        }
    }
    uint most_dk = 0, most_dv = 0;
    PUT(most_dk, out_k, dk, a.dk, own_first, own_count, DEPTH, DEEP,
        (float)scale * NUMBER(SCALE_DS) * NUMBER(DESCALE_DS) * NUMBER(DESCALE_Q), NUMBER(SCALE_DK));
    PUT(most_dv, out_v, dv, a.dv, own_first, own_count, WIDTH, WIDE,
        LOWER * kept * NUMBER(SCALE_S) * NUMBER(DESCALE_S) * NUMBER(DESCALE_DO), NUMBER(SCALE_DV));
    if (AMAX && HAS_AMAX(1))
        join(amax_dk + amax_dk_offset, most_dk);
    if (AMAX && HAS_AMAX(2))
        join(amax_dv + amax_dv_offset, most_dv);
}
#endif
