/* Bias: y = alpha * (y + b) + beta * y in place, and its gradient b = alpha * (sum of y) + beta * b.
 *
 * Shape: y of any five axes and strides; b has on each axis y's length or 1, along which it is broadcast or summed.
 * Ownership, with no atomics; ROWS = 1 is for CPUs, local size 1; ROWS = 0 for GPUs:
 *   bias_forward   ROWS = 1: one work-item changes the plane (n, c) of y;  global: N * C
 *                  ROWS = 0: one work-item changes one element of y;       global: elements of y, rounded up
 *   bias_backward  ROWS = 1: one work-item sums one element of b;          global: elements of b
 *                  ROWS = 0: a group of LOCAL work-items sums one element; local: LOCAL, global: LOCAL * elements of b
 * Local memory: bias_backward, ROWS = 0: LOCAL elements of ACC; else none.
 * The order of the sums is fixed.  It is a tree: lanes or work-items, then images, so that errors stay small.
 */
#ifndef Y_TYPE /* storage type of y (dy) */
#define Y_TYPE float
#endif
#ifndef B_TYPE /* storage type of b (db) */
#define B_TYPE Y_TYPE
#endif
#ifndef ACC /* type of the sums */
#define ACC float
#endif
#ifndef ROWS /* work-items: 1 large ones, 0 small ones */
#define ROWS 0
#endif
#ifndef LOCAL /* work-items in a group of bias_backward (ROWS = 0), a power of two */
#define LOCAL 256
#endif
#ifndef VEC /* elements that a CPU loads at a time */
#define VEC 16
#endif
#include "common.h"

#if !MX_IS_STORAGE(Y_TYPE) || !MX_IS_STORAGE(B_TYPE)
#error "Y_TYPE and B_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif
#if LOCAL < 1 || (LOCAL & (LOCAL - 1)) != 0
#error "LOCAL must be a power of two"
#endif

/* b's stride along an axis as y walks it. */
#define B_STEP(axis) (p.b.len[axis] == 1 ? 0 : p.b.stride[axis])

#if ROWS

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bias_forward(
    __global const STORAGE(B_TYPE) *restrict b, long b_offset, __global STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_bias_problem p, const SCALAR alpha, const SCALAR beta)
{
    const long n = (long)get_group_id(0) / p.y.len[1], c = (long)get_group_id(0) % p.y.len[1];
    const long y_step = p.y.stride[4], b_step = B_STEP(4);
    for (long d = 0; d < p.y.len[2]; d++)
        for (long h = 0; h < p.y.len[3]; h++) {
            const long to = y_offset + mx_offset(p.y, n, c, d, h, 0);
            const long from = b_offset + n * B_STEP(0) + c * B_STEP(1) + d * B_STEP(2) + h * B_STEP(3);
            for (long w = 0; w < p.y.len[4]; w++) {
                const ACC sum = (ACC)LOAD(Y_TYPE)(y, to + w * y_step) + (ACC)LOAD(B_TYPE)(b, from + w * b_step);
                STORE_MIXED(Y_TYPE, y, to + w * y_step, sum, alpha, beta);
            }
        }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void bias_backward(
    __global STORAGE(B_TYPE) *restrict b, long b_offset, __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_bias_problem p, const SCALAR alpha, const SCALAR beta)
{
    const mx_place a = mx_place_of((INDEX)get_group_id(0), p.b);
    long count[5];
    for (int axis = 0; axis < 5; axis++)
        count[axis] = p.b.len[axis] == 1 ? p.y.len[axis] : 1;
    /* Rows that follow each other without a gap are one long row. */
    if (count[3] == p.y.len[3] && count[4] == p.y.len[4] && p.y.stride[3] == p.y.len[4] * p.y.stride[4]) {
        count[4] *= count[3];
        count[3] = 1;
    }
    const long start = y_offset + mx_offset(p.y, a.n, a.c, a.d, a.h, a.w);
    ACC sum = 0;
    for (long n = 0; n < count[0]; n++) {
        ACC lanes[VEC], image = 0;
        for (int i = 0; i < VEC; i++)
            lanes[i] = 0;
        for (long c = 0; c < count[1]; c++)
            for (long d = 0; d < count[2]; d++)
                for (long h = 0; h < count[3]; h++) {
                    const long from = start + mx_offset(p.y, n, c, d, h, 0), step = p.y.stride[4];
                    long w = 0;
                    for (; w + VEC <= count[4]; w += VEC)
                        for (int i = 0; i < VEC; i++)
                            lanes[i] += (ACC)LOAD(Y_TYPE)(y, from + (w + i) * step);
                    for (; w < count[4]; w++)
                        lanes[w % VEC] += (ACC)LOAD(Y_TYPE)(y, from + w * step);
                }
        for (int i = 0; i < VEC; i++)
            image += lanes[i];
        sum += image;
    }
    STORE_MIXED(B_TYPE, b, b_offset + mx_offset(p.b, a.n, a.c, a.d, a.h, a.w), sum, alpha, beta);
}

#else

__kernel void bias_forward(__global const STORAGE(B_TYPE) *restrict b, long b_offset,
                           __global STORAGE(Y_TYPE) *restrict y, long y_offset, const mx_bias_problem p,
                           const SCALAR alpha, const SCALAR beta)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item >= mx_size(p.y))
        return;
    const mx_place a = mx_place_of(item, p.y);
    const long to = y_offset + mx_offset(p.y, a.n, a.c, a.d, a.h, a.w);
    const long from =
        b_offset + a.n * B_STEP(0) + a.c * B_STEP(1) + a.d * B_STEP(2) + a.h * B_STEP(3) + a.w * B_STEP(4);
    const ACC sum = (ACC)LOAD(Y_TYPE)(y, to) + (ACC)LOAD(B_TYPE)(b, from);
    STORE_MIXED(Y_TYPE, y, to, sum, alpha, beta);
}

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void bias_backward(
    __global STORAGE(B_TYPE) *restrict b, long b_offset, __global const STORAGE(Y_TYPE) *restrict y, long y_offset,
    const mx_bias_problem p, const SCALAR alpha, const SCALAR beta)
{
    __local ACC partial[LOCAL];
    const int me = get_local_id(0);
    const mx_place a = mx_place_of((INDEX)get_group_id(0), p.b);
    mx_tensor summed = p.y; /* the part of y that goes into this element of b */
    for (int axis = 0; axis < 5; axis++)
        if (p.b.len[axis] != 1)
            summed.len[axis] = 1;
    const long start = y_offset + mx_offset(p.y, a.n, a.c, a.d, a.h, a.w);
    ACC sum = 0;
    for (INDEX i = me; i < mx_size(summed); i += LOCAL) {
        const mx_place at = mx_place_of(i, summed);
        sum += (ACC)LOAD(Y_TYPE)(y, start + mx_offset(p.y, at.n, at.c, at.d, at.h, at.w));
    }
    partial[me] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_way = LOCAL / 2; half_way > 0; half_way /= 2) {
        if (me < half_way)
            partial[me] += partial[me + half_way];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (me == 0)
        STORE_MIXED(B_TYPE, b, b_offset + mx_offset(p.b, a.n, a.c, a.d, a.h, a.w), partial[0], alpha, beta);
}

#endif
