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
#include "include/philox.h"
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
