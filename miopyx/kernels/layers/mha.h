/* Attention: what layers/mha_cpu.cl and layers/mha_gpu.cl share.
 *
 *   s = scale q k^T + bias, of places that the mask leaves out -Inf        rows x keys, of each head
 *   M = max of a row,  ZInv = 1 / (sum of e^(s - M)),  p = e^(s - M) ZInv
 *   o = (mask p / (1 - P)) v                                               mask: what dropout leaves
 *
 * Scores live in tiles alone.  Forward a tile of keys at a time joins what is known of a row, its maximum and sum and the
 * products so far, which are scaled anew where the maximum grows (Milakov and Gimelshein, arXiv 1805.02867; Dao et al.,
 * FlashAttention, NeurIPS 2022).  Backward computes the scores again, with M and ZInv:
 *
 *   dv = (mask p / (1 - P))^T do,  ds = p (mask / (1 - P) (do v^T) - delta) scale,  delta = sum of do o of a row
 *   dq = ds k,  dk = ds^T q
 *
 * Random numbers: word j % 4 of Philox 4x32-10 with the seed as key and the counter (row, counted through all heads) *
 * ceil(keys / 4) + j / 4, offset.  So a mask is the same on each device, and is drawn again backward.
 *
 * Numbers in memory (descalers, scales, dropout) come together at the workspace's begin, in one launch that clears the
 * largest numbers, too; without any there is none (NUMBERS 0).
 */
#ifndef T /* of q, k, v, o and their gradients */
#define T float
#endif
#ifndef REAL /* of bias, M and ZInv */
#define REAL float
#endif
#ifndef NUMBERS
#define NUMBERS 0
#endif
#ifndef DROPS
#define DROPS 0
#endif
#ifndef BIASED
#define BIASED 0
#endif
#ifndef AMAX /* the largest numbers are wanted */
#define AMAX 0
#endif
#include "include/common.h"
#include "include/philox.h"
#include "layers/mha_args.h"

#if !MX_IS_STORAGE(T) || MX_TYPE(T) > MX_TYPE_bfloat16
#error "T must be half, float, double or bfloat16"
#endif

/* Where a number lies in the workspace: the slots of problem/_mha.pxd from MHA_DESCALE_Q on.  Seed and offset follow. */
#define DESCALE_Q 0
#define DESCALE_K 1
#define DESCALE_V 2
#define DESCALE_S 3
#define SCALE_S 4
#define PROBABILITY 5
#define DROPPED fmin(fmax(NUMBER(PROBABILITY), (ACC)0), (ACC)1) /* NaN is 0 */
#define SCALE_O 8
#define DESCALE_O 8
#define DESCALE_DO 9
#define DESCALE_DS 10
#define SCALE_DS 11
#define SCALE_DQ 12
#define SCALE_DK 13
#define SCALE_DV 14
#define NUMBER_COUNT 15
#define SEED_AT 8 /* in 64 bits */
#define OFFSET_AT 9

#if NUMBERS
#define NUMBER(i) ((ACC)((__global const float *)table)[i])
#define SEED (((__global const ulong *)table)[SEED_AT])
#define MASKS_AT (((__global const ulong *)table)[OFFSET_AT])
#else
#define NUMBER(i) ((ACC)1)
#endif

#ifndef AMAX_AT /* the slot of the first of them */
#define AMAX_AT 20
#endif
#define HAS_M (a.has >> 5 & 1)
#define HAS_Z (a.has >> 6 & 1)
#define HAS_AMAX(i) (a.has >> (AMAX_AT + (i)) & 1)

/* Of a row's first key: which counters its mask has. */
#define COUNTER(head, row) (((head) * (a.rows) + (row)) * a.groups_of_four)

#ifndef HEAD_INT /* heads are counted in */
#define HEAD_INT long
#endif
static inline long head_offset(const mx_mha_strides t, long head, long heads)
{
    const HEAD_INT sample = (HEAD_INT)head / (HEAD_INT)heads, of_sample = (HEAD_INT)head % (HEAD_INT)heads;
    return sample * t.n + of_sample * t.h;
}

/* Non-negative floats are in the order of their bits, and NaN is above all. */
static inline void largest(__global float *p, float value)
{
    atomic_max((volatile __global uint *)p, as_uint(value) & 0x7fffffffu);
}

/* What the kernels take, and where a head begins in it. */
#define TENSORS                                                                                                    \
    __global const STORAGE(T) *q, long q_offset, __global const STORAGE(T) *k, long k_offset,                      \
        __global const STORAGE(T) *v, long v_offset, __global const STORAGE(REAL) *bias, long bias_offset
#define SAVED __global STORAGE(REAL) *top, long top_offset, __global STORAGE(REAL) *inverse, long inverse_offset
#define REST __global uchar *table, long table_offset, const mx_mha_shape a, const SCALAR scale, const SCALAR mask
#define HEAD_OFFSETS                                                                                      \
    table += table_offset;                                                                                \
    q_offset += head_offset(a.q, head, a.heads), k_offset += head_offset(a.k, head, a.heads);             \
    v_offset += head_offset(a.v, head, a.heads), bias_offset += head_offset(a.bias, head, a.heads);       \
    top_offset += head_offset(a.m, head, a.heads), inverse_offset += head_offset(a.z_inv, head, a.heads)
