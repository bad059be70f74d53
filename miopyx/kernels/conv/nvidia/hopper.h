/* What conv/nvidia/hopper.cl and conv/nvidia/hopper_weights.cl share, after conv/nvidia/wgmma.h: slices of DEPTH numbers
 * of the summed axis, in a ring of STAGES that 128 work-items copy them into and the others multiply from.
 */
#include "conv/nvidia/taps.h"

#ifndef TENSOR_MAPS /* 1: one work-item copies, by maps of the tensors; 2: all of them copy some of it */
#define TENSOR_MAPS 0
#endif
#define ROWS_AT_ONCE 16 /* of the 128 work-items that copy */
#define BLOCK_BYTES (64 * ROW_BYTES) /* 64 rows of any kind */

#if EIGHT_BITS
#define MX_OPERAND uchar
#define DEPTH 128 /* numbers of a row */
#define CHUNK 16  /* numbers that are copied together */
#elif defined(MX_TF32)
#define MX_OPERAND float
#define DEPTH 32
#else
#define MX_OPERAND ushort
#define DEPTH 64
#define CHUNK 8
#endif

/* How X_RUN elements of either operand are copied, those of x with X_THROUGH_L1 through the L1. */
#if defined(MX_TF32)
#define MX_COPY_RUN MX_COPY16
#define MX_COPY_RUN_UNALIGNED mx_copy_nearest
#elif X_RUN == 4
#define MX_COPY_RUN MX_COPY8
#define MX_COPY_RUN_UNALIGNED mx_copy_four
#else
#define MX_COPY_RUN MX_COPY16
#define MX_COPY_RUN_UNALIGNED MX_COPY_UNALIGNED
#endif
#if EIGHT_BITS
#define MX_COPY_UNALIGNED mx_copy_bytes
#else
#define MX_COPY_UNALIGNED mx_copy_halves
#endif
#if X_RUN == 8 && X_THROUGH_L1
#define MX_COPY_RUN_OF_X MX_COPY16_L1
#else
#define MX_COPY_RUN_OF_X MX_COPY_RUN
#endif

/* More than 128 sums: registers move from the 128 work-items that copy to the 256 others. */
#if !EIGHT_BITS /* conv/nvidia/hopper_float8.h has its own */
#define MANY_SUMS (WG_ROWS * WN > 256)
#define CONSUMER_REGISTERS 224
#endif
#define PRODUCER_REGISTERS 56 /* 384 have 168 each when they begin */

/* A number that the compiler knows nothing of, so that it does not keep its multiples in registers. */
#define MX_OPAQUE(number) asm volatile("" : "+r"(number))

#if TENSOR_MAPS == 1 /* such copies are of the proxy that wgmma reads by */
#define MX_SLICE_PUBLISH()
#else
#define MX_SLICE_PUBLISH MX_WG_PUBLISH
#endif

/* Each of a work-item's sums. */
#define MX_EACH_SUM_OF_GROUP(i, j)                           \
    _Pragma("unroll") for (int i = 0; i < WG_ROWS; i++)      \
        _Pragma("unroll") for (int j = 0; j < WN / 2; j++)

/* sums[WG_ROWS][WN / 2] += the products of `count` slices from `stage` on.  Expects the names below, with `before`: the
 * barrier of the stage whose products are still under way, which the caller arrives at behind the last wait. */
#if !EIGHT_BITS
#ifndef A_PLACE /* of 64 rows and 16 numbers of a slice */
#define A_PLACE(i, k) (A_AT + (i)*BLOCK_BYTES + (k)*A_STEP)
#define B_PLACE(k) (B_AT + (k)*B_STEP)
#endif
#define MX_MULTIPLY_SLICES(sums, count)                                                                               \
    for (int slice = 0; slice < (count); slice++) {                                                                   \
        mx_barrier_wait(full + 8 * stage, parity);                                                                     \
        MX_SLICE_PUBLISH();                                                                                           \
        MX_WG_FENCE();                                                                                                \
        _Pragma("unroll") for (int k = 0; k < 4; k++)                                                                 \
            _Pragma("unroll") for (int i = 0; i < WG_ROWS; i++)                                                       \
                WGMMA(sums[i], a_matrix + (A_PLACE(i, k) >> 4), b_matrix + (B_PLACE(k) >> 4), "1", TRANS);            \
        MX_WG_COMMIT();                                                                                               \
        MX_WG_WAIT(1);                                                                                                \
        if (lane == 0 && slice > 0)                                                                                   \
            mx_barrier_arrive(before);                                                                                \
        before = empty + 8 * stage;                                                                                   \
        if (++stage == STAGES)                                                                                        \
            stage = 0, parity ^= 1;                                                                                    \
    }
#endif
