/* Dropout: what layers/dropout_cpu.cl and layers/dropout_gpu.cl share.
 *
 *   y = mask x scale, else 0        mask: the element's random number of 24 bits is `least` or more
 *
 * Random numbers: word i % 4 of Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011) with the seed as key and the
 * counter i / 4, number of the mask; i counts elements in the order of their axes.  So a mask is the same whatever
 * device, strides and work-groups are.
 *
 * States: PLACES times the seed and the seed plus the number of masks so far, all alike.  A group reads its own place
 * and alone writes it and those `groups` apart, so that no group reads what another one has written already.  That
 * needs at most PLACES groups.
 *
 * Parameters:
 *   MASKS    0: drawn, 1: drawn and written, 2: read
 *   EVOLVES  the states count this mask
 *   T, VEC, ACC
 */
#ifndef MASKS
#define MASKS 1
#endif
#ifndef EVOLVES
#define EVOLVES 0
#endif
#ifndef T
#define T float
#endif
#include "include/common.h"
#include "layers/dropout_args.h"

#if !MX_IS_STORAGE(T) || MX_TYPE(T) > MX_TYPE_bfloat16
#error "T must be half, float, double or bfloat16"
#endif
#define PLACES 2048 /* as DROPOUT_PLACES of problem/_dropout.pxd */
#define DRAWS (MASKS != 2)

#define ARGUMENTS                                                                                               \
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, __global uchar *mask,   \
        long mask_offset, __global ulong *states, long states_offset, const mx_dropout s, const int least_stay, \
        const SCALAR scale
#define OFFSETS x += x_offset, y += y_offset, mask += mask_offset, states += states_offset

#define PHILOX_0 0xD2511F53u
#define PHILOX_1 0xCD9E8D57u
#define PHILOX_KEY_0 0x9E3779B9u
#define PHILOX_KEY_1 0xBB67AE85u
/* The four words of a counter, or of a vector U of counters; a, b, c, d: the counter's words, then the result's. */
#define PHILOX(U, a, b, c, d, seed)                                                        \
    do {                                                                                   \
        uint k0_ = (uint)(seed), k1_ = (uint)((seed) >> 32);                               \
        _Pragma("unroll") for (int round_ = 0; round_ < 10; round_++)                      \
        {                                                                                  \
            const U high0_ = mul_hi((U)PHILOX_0, a), low0_ = (a) * PHILOX_0;               \
            const U high1_ = mul_hi((U)PHILOX_1, c), low1_ = (c) * PHILOX_1;               \
            a = high1_ ^ b ^ k0_;                                                          \
            c = high0_ ^ d ^ k1_;                                                          \
            b = low1_;                                                                     \
            d = low0_;                                                                     \
            k0_ += PHILOX_KEY_0;                                                           \
            k1_ += PHILOX_KEY_1;                                                           \
        }                                                                                  \
    } while (0)
