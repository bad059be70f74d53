/* Operations on elements on GPUs: a work-item has a vector, of one element where operands do not lie in vectors.
 *
 * Grid:         vectors of all rows, rounded up to groups of LOCAL.
 * Local memory: none.
 * Parameters:   layers/elements.h; VEC: 1, 2, 4 or 8, of which rows are made; then operands are dense or still and their
 *               rows begin at multiples of VEC.
 * Bound by:     memory.
 */
#ifndef VEC
#define VEC 1
#endif
#ifndef LOCAL
#define LOCAL 256
#endif
#include "layers/elements.h"
#include "include/gpu_vectors.h"

#if VEC == 1
#define READ(k) if (k < INPUTS) in[k] = (ACC)LOAD(T##k)(p##k, at##k);
#define WRITE(k) if (k >= INPUTS && k < COUNT) STORE(T##k)(p##k, at##k, out[k - INPUTS]);
#define ALIGNED(k)
#else
#define READ(k)                                                                              \
    if (k < INPUTS) {                                                                        \
        if (KIND##k == STILL)                                                                \
            in[k] = (V)(ACC)LOAD(T##k)(p##k, at##k);                                         \
        else {                                                                               \
            const MX_RAW(T##k) bits = MX_RAW_LOAD(T##k, p##k + at##k, aligned);              \
            in[k] = MX_WIDE(T##k, bits);                                                     \
        }                                                                                    \
    }
#define WRITE(k)                                                                             \
    if (k >= INPUTS && k < COUNT) {                                                          \
        MX_RAW(T##k) bits;                                                                   \
        MX_JOIN(MX_TO_, T##k)(bits, out[k - INPUTS]);                                        \
        MX_RAW_STORE(T##k, p##k + at##k, bits, aligned);                                     \
    }
#define ALIGNED(k) if (k < COUNT && KIND##k != STILL) aligned = aligned && MX_ALIGNED(p##k);
#endif
#define BEGIN(k) p##k += o##k;
#define START(k) long at##k = k < COUNT ? x * w.stride[k][4] : 0;
#define MOVE(k) if (k < COUNT) at##k += here * w.stride[k][axis];

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void elements(ARGUMENTS)
{
    MISSING;
    ALL(BEGIN)
    bool aligned = true;
    ALL(ALIGNED)
    const INDEX row = (INDEX)(w.len[4] / VEC), i = (INDEX)get_global_id(0);
    if (i >= row * (INDEX)w.lines)
        return;
    CONSTANTS;
    INDEX left = w.lines > 1 ? i / row : 0;
    const INDEX x = (i - left * row) * VEC;
    ALL(START)
    if (w.lines > 1) {
#pragma unroll
        for (int axis = 3; axis >= 0; axis--) {
            const INDEX len = (INDEX)w.len[axis];
            if (len > 1) {
                const INDEX rest = left / len, here = left - rest * len;
                ALL(MOVE)
                left = rest;
            }
        }
    }
    V in[MX_OPERANDS + 1], out[MX_OPERANDS + 1];
    ALL_INPUTS(READ)
    compute(in, out, c);
    ALL_OUTPUTS(WRITE)
}
