/* How a tile of wgmma's sums goes to y, for the kernels of sm_90a in 16 bits.
 *
 * Expects CHANNELS_LAST, WN, WG_ROWS and VEC as conv/nvidia/hopper.cl explains them, MX_PROBLEM, and the offsets in y
 * of a pixel and a filter, -1 for none: mx_pixel_in_y(pixel, problem), mx_filter_in_y(filter, problem).
 * PERMUTE_FILTERS: of 32 columns of the product, column mx_permuted(k) is filter k, so that a work-item has 8
 * neighbours in y.
 * Z_SLICES: z comes into local memory by the work-items that copy, in so many stages behind the slices of a tile, Z_BLOCKS
 * of 64 columns each: rows of 128 bytes for each pixel, chunk c of row r at c ^ r % 2 * 4, so that the eight lanes that read
 * together, of two rows, meet all banks.  Expects STAGES, STAGE_BYTES, BP and BF, too.
 * SCALED: operands are halves times powers of four (conv/nvidia/tf32_pack.cl) and y is float.  Columns are permuted
 * whatever they are.  Expects mx_image_of(pixel, problem), too.
 * With an epilogue sums are scaled and, but for SCALED, finished before, unless there is a z: that is added here.
 */
#if !SCALED
static inline float mx_widen(ushort bits)
{
#if MX_TYPE(X_TYPE) == MX_TYPE_half
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return as_float((uint)bits << 16);
#endif
}
#endif
/* Two finished results as a word.  ReLU comes along: NaN stays NaN. */
#if defined(EPILOGUE) && !SCALED && !EIGHT_BITS && EPILOGUE == 3
#define RELU_ROUNDS 1
#define MX_FINISHED(v) (v)
#define MX_ROUND_RESULTS(word, first, second) \
    asm("cvt.rn.relu." MX_PTX_16BIT "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first))
#else
#define MX_FINISHED FINAL_RESULT
#define MX_ROUND_RESULTS MX_ROUND_PAIR
#endif
#include "conv/nvidia/epilogue.h"
#if defined(EPILOGUE) && CHANNELS_LAST && !SCALED
#define SCALE_COLUMNS 1
#include "conv/nvidia/columns.h"
#else
#define SCALE_COLUMNS 0
#endif
#ifndef Z_SLICES
#define Z_SLICES 0
#endif
#if defined(FUSED_Z) || SCALED && defined(EPILOGUE)
#define MX_STORE_PARAMS , const mx_epilogue *const epilogue, long group_filter
#define MX_STORE_ARGS(group_filter) , epilogue, group_filter
#else
#define MX_STORE_PARAMS
#define MX_STORE_ARGS(group_filter)
#endif

static inline int mx_permuted(int k)
{
    return (k & ~31) + (k % 8 / 2) * 8 + k % 32 / 8 * 2 + k % 2;
}

/* Where filter row0 + 16 i of a block is, and by what its chunks swap. */
#define MX_PERMUTED_ROWS(i) ((i) / 2 * 32 + (i) % 2 * 4)
#define MX_PERMUTED_CHUNKS(i) ((i) % 2 * 64)

#if SCALED
#define MX_STORED float
#define MX_STORED_VECTOR MX_JOIN(MX_FLOATS_, VEC)
#define MX_FLOATS_1 float
#define MX_FLOATS_2 float2
#define MX_FLOATS_4 float4

/* Eight neighbours in y. */
typedef union {
    float each[8];
    MX_STORED_VECTOR vectors[8 / VEC];
} mx_floats;

/* As below; *_roots: of the inverse scales of images and of this group's filters. */
static inline void mx_store_tile(float (*sums)[WN / 2], __global float *y, int m0, int n0, const MX_PROBLEM *g,
                                 float alpha, float beta, bool plain, int warpgroup,
                                 __global const float *image_roots,
                                 __global const float *filter_roots MX_STORE_PARAMS)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int row = warpgroup * WG_ROWS * 64 + (warp & 3) * 16 + (lane >> 2);
    int row_at[2 * WG_ROWS]; /* -1: none */
    float row_root[2 * WG_ROWS];
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++) {
        const int r = row + i / 2 * 64 + i % 2 * 8;
        row_at[i] = CHANNELS_LAST ? mx_pixel_in_y(m0 + r, g) : mx_filter_in_y(n0 + r, g);
        row_root[i] = 0;
        if (row_at[i] >= 0)
            row_root[i] = CHANNELS_LAST ? image_roots[mx_image_of(m0 + r, g)] : filter_roots[n0 + r];
    }
    const bool wide = plain || ((ulong)y & (4 * VEC - 1)) == 0;
#pragma unroll
    for (int j = 0; j < WN / 2; j += 16) {
        int at[8 / VEC];
        float column_root[8];
#pragma unroll
        for (int l = 0; l < 8 / VEC; l++) {
            const int column = j * 2 + (lane & 3) * 8 + l * VEC;
            at[l] = CHANNELS_LAST ? mx_filter_in_y(n0 + column, g) : mx_pixel_in_y(m0 + column, g);
#pragma unroll
            for (int e = 0; e < VEC; e++) {
                column_root[l * VEC + e] = 0;
                if (at[l] >= 0) /* VEC divides the pixels of an image */
                    column_root[l * VEC + e] = CHANNELS_LAST ? filter_roots[n0 + column + e]
                                                             : image_roots[mx_image_of(m0 + column, g)];
            }
        }
#pragma unroll
        for (int i = 0; i < 2 * WG_ROWS; i++) {
            const float *sum = sums[i / 2] + j + i % 2 * 2;
            mx_floats run;
#pragma unroll
            for (int l = 0; l < 8; l++) {
                const float root = row_root[i] * column_root[l];
                run.each[l] = sum[l / 2 * 4 + l % 2] * root * root;
#ifdef EPILOGUE
                OF_FILTER_BELOW(n0 + (CHANNELS_LAST ? j * 2 + (lane & 3) * 8 + l : row + i / 2 * 64 + i % 2 * 8),
                                MX_CONV(g)->filters)
                run.each[l] = SCALED_RESULT(run.each[l]);
#endif
            }
#pragma unroll
            for (int l = 0; l < 8 / VEC; l++)
                if (row_at[i] >= 0 && at[l] >= 0) {
                    __global float *to = y + row_at[i] + at[l];
#ifdef EPILOGUE
#pragma unroll
                    for (int e = 0; e < VEC; e++) {
                        if (beta != 0)
                            run.each[l * VEC + e] += beta * OLD_RESULT(float, to)[e];
                        run.each[l * VEC + e] = FINAL_RESULT(run.each[l * VEC + e]);
                    }
#else
                    if (!plain)
#pragma unroll
                        for (int e = 0; e < VEC; e++)
                            run.each[l * VEC + e] =
                                alpha * run.each[l * VEC + e] + (beta != 0 ? beta * to[e] : 0.0f);
#endif
                    if (wide)
                        *(__global MX_STORED_VECTOR *)to = run.vectors[l];
                    else
#pragma unroll
                        for (int e = 0; e < VEC; e++)
                            to[e] = run.each[l * VEC + e];
                }
        }
    }
}
#else
#define MX_STORED ushort

/* Eight neighbours in y. */
typedef union {
    uint4 all;
    ushort each[8];
    VECTOR vectors[8 / VEC];
} mx_run;

/* Takes the first of eight out and puts one in behind the last. */
static inline uint4 mx_shift(uint4 run, ushort last)
{
    return (uint4)(run.x >> 16 | run.y << 16, run.y >> 16 | run.z << 16, run.z >> 16 | run.w << 16,
                   run.w >> 16 | (uint)last << 16);
}

/* Inlined twice, so that what usually runs is short: `plain` says that alpha is 1, beta 0 and y aligned. */
static inline void mx_store_tile(float (*sums)[WN / 2], __global ushort *y, int m0, int n0, const MX_PROBLEM *g,
                                 float alpha, float beta, bool plain, int warpgroup MX_STORE_PARAMS)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int row = warpgroup * WG_ROWS * 64 + (warp & 3) * 16 + (lane >> 2);
    int row_at[2 * WG_ROWS]; /* offsets in y of rows and columns of the product, -1: none */
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++) {
        const int r = row + i / 2 * 64 + i % 2 * 8;
        row_at[i] = CHANNELS_LAST ? mx_pixel_in_y(m0 + r, g) : mx_filter_in_y(n0 + r, g);
    }
#ifdef FUSED_Z
/* What there is of z at column j of each row, zeros where nothing is read at once. */
#define MX_TAKE_OLD(to, j)                                                                                     \
    _Pragma("unroll") for (int i_ = 0; i_ < 2 * WG_ROWS; i_++)                                                 \
    {                                                                                                          \
        (to)[i_].all = (uint4)(0, 0, 0, 0);                                                                    \
        _Pragma("unroll") for (int l_ = 0; l_ < 8 / VEC; l_++)                                                 \
        {                                                                                                      \
            const int at_ = COLUMN_AT((j) * 2 + (lane & 3) * 8 + l_ * VEC);                                    \
            if (beta != 0 && wide && row_at[i_] >= 0 && at_ >= 0)                                              \
                (to)[i_].vectors[l_] = *(__global const VECTOR *)(OLD_RESULT(X_TYPE, y) + row_at[i_] + at_);   \
        }                                                                                                      \
    }
#endif
#define COLUMN_AT(n) (CHANNELS_LAST ? mx_filter_in_y(n0 + (n), g) : mx_pixel_in_y(m0 + (n), g))
    const bool wide = plain || (((ulong)y | (ulong)OLD_RESULT(X_TYPE, y)) & (2 * VEC - 1)) == 0, scaled = !plain;
#ifdef FUSED_Z
    /* Those of the next columns are under way while these are stored. */
    mx_run next[2 * WG_ROWS];
    MX_TAKE_OLD(next, 0)
#endif
#pragma unroll
    for (int j = 0; j < WN / 2; j += 16) { /* 32 columns, of which four neighbouring lanes have each 4 pairs */
        int at[8 / VEC]; /* VEC divides the filters, or the pixels of an image */
#pragma unroll
        for (int l = 0; l < 8 / VEC; l++)
            at[l] = COLUMN_AT(j * 2 + (lane & 3) * 8 + l * VEC);
#ifdef FUSED_Z
        mx_run now[2 * WG_ROWS];
#pragma unroll
        for (int i = 0; i < 2 * WG_ROWS; i++)
            now[i] = next[i];
        if (j + 16 < WN / 2)
            MX_TAKE_OLD(next, j + 16)
#endif
#pragma unroll
        for (int i = 0; i < 2 * WG_ROWS; i++) {
            float *sum = sums[i / 2] + j + i % 2 * 2;
            mx_run run;
            if (scaled) {
#ifdef FUSED_Z
                run = now[i];
#else
                run.all = (uint4)(0, 0, 0, 0);
#pragma unroll
                for (int l = 0; l < 8 / VEC; l++)
                    if (beta != 0 && wide && row_at[i] >= 0 && at[l] >= 0)
                        run.vectors[l] = *(__global const VECTOR *)(y + row_at[i] + at[l]);
#endif
                if (beta != 0 && !wide && row_at[i] >= 0)
#pragma unroll 1
                    for (int e = 0; e < 8; e++) {
                        const int place = COLUMN_AT(j * 2 + (lane & 3) * 8 + e);
                        run.all = mx_shift(run.all, place >= 0 ? OLD_RESULT(X_TYPE, y)[row_at[i] + place] : 0);
                    }
                if (!PERMUTE_FILTERS)
                    run.all = mx_turn(run.all, lane);
#pragma unroll
                for (int l = 0; l < 8; l++)
#ifdef FUSED_Z
                    sum[l / 2 * 4 + l % 2] =
                        MX_FINISHED(sum[l / 2 * 4 + l % 2] + beta * mx_widen(run.each[l]));
#else
                    sum[l / 2 * 4 + l % 2] = alpha * sum[l / 2 * 4 + l % 2] + beta * mx_widen(run.each[l]);
#endif
            }
            uint pairs[4];
#pragma unroll
            for (int l = 0; l < 4; l++)
                MX_ROUND_RESULTS(pairs[l], sum[l * 4], sum[l * 4 + 1]);
            run.all = (uint4)(pairs[0], pairs[1], pairs[2], pairs[3]);
            if (!PERMUTE_FILTERS)
                run.all = mx_turn(run.all, lane);
#pragma unroll
            for (int l = 0; l < 8 / VEC; l++)
                if (wide && row_at[i] >= 0 && at[l] >= 0)
                    *(__global VECTOR *)(y + row_at[i] + at[l]) = run.vectors[l];
            if (!wide && row_at[i] >= 0)
#pragma unroll 1
                for (int e = 0; e < 8; e++) {
                    const int place = COLUMN_AT(j * 2 + (lane & 3) * 8 + e);
                    if (place >= 0)
                        y[row_at[i] + place] = (ushort)run.all.x;
                    run.all = mx_shift(run.all, 0);
                }
        }
    }
}

#if Z_SLICES
#define Z_BLOCK_BYTES (BP * ROW_BYTES)

/* Scales sums, adds z, of which `stage` has the first slice, and stores what the activation makes of it.  `shared`: the
 * ring; `full` and then `empty` are its barriers. */
static inline void mx_store_with_z(float (*sums)[WN / 2], __global ushort *y, int m0, int n0, const MX_PROBLEM *g,
                                   int warpgroup, uint shared, uint full, int *stage, int *parity,
                                   const mx_columns *own, uint columns_at, EPILOGUE_PARAMS)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int row = warpgroup * WG_ROWS * 64 + (warp & 3) * 16 + (lane >> 2);
    const uint from = shared + row * ROW_BYTES + (lane & 3) * 16 + (row & 1) * 64;
    const bool wide = ((ulong)y & 15) == 0;
    int row_at[2 * WG_ROWS]; /* -1: none */
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++)
        row_at[i] = mx_pixel_in_y(m0 + row + i / 2 * 64 + i % 2 * 8, g);
/* The next slice of the ring. */
#define NEXT_Z()                                                  \
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");       \
    if (lane == 0)                                                \
        mx_barrier_arrive(full + 8 * (STAGES + *stage));          \
    if (++*stage == STAGES)                                       \
        *stage = 0, *parity ^= 1;
#if WG_COLUMNS == 2 /* a slice for each of the two */
    const bool second = item >> 7 & 1;
    if (second) {
        mx_barrier_wait(full + 8 * *stage, *parity);
        NEXT_Z()
    }
#endif
#pragma unroll
    for (int slice = 0; slice < Z_SLICES / WG_COLUMNS; slice++) {
        mx_barrier_wait(full + 8 * *stage, *parity);
        const uint slice_at = from + *stage * STAGE_BYTES;
#pragma unroll
        for (int part = 0; part < 2 * Z_BLOCKS; part++) { /* 32 columns */
            const int j = slice * Z_BLOCKS * 32 + part * 16;
            if (j >= WN / 2)
                break;
            const int at = mx_filter_in_y(n0 + j * 2 + (lane & 3) * 8, g); /* of 8, or of none */
#if !COLUMN_SLICES /* else they are scaled */
            mx_scale_part(sums, j, lane, alpha, own, columns_at);
#endif
#pragma unroll
            for (int i = 0; i < 2 * WG_ROWS; i++) {
                float *sum = sums[i / 2] + j + i % 2 * 2;
                const uint z_at = slice_at + part / 2 * Z_BLOCK_BYTES + (i / 2 * 64 + i % 2 * 8) * ROW_BYTES;
                mx_run run;
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(run.all.x), "=r"(run.all.y), "=r"(run.all.z), "=r"(run.all.w)
                             : "r"(z_at ^ part % 2 * 64) : "memory");
                if (!PERMUTE_FILTERS)
                    run.all = mx_turn(run.all, lane);
#pragma unroll
                for (int l = 0; l < 8; l++)
                    sum[l / 2 * 4 + l % 2] = MX_FINISHED(sum[l / 2 * 4 + l % 2] + beta * mx_widen(run.each[l]));
                uint pairs[4];
#pragma unroll
                for (int l = 0; l < 4; l++)
                    MX_ROUND_RESULTS(pairs[l], sum[l * 4], sum[l * 4 + 1]);
                run.all = (uint4)(pairs[0], pairs[1], pairs[2], pairs[3]);
                if (!PERMUTE_FILTERS)
                    run.all = mx_turn(run.all, lane);
                if (wide && row_at[i] >= 0 && at >= 0)
                    *(__global uint4 *)(y + row_at[i] + at) = run.all;
                if (!wide && row_at[i] >= 0 && at >= 0)
#pragma unroll 1
                    for (int e = 0; e < 8; e++) {
                        y[row_at[i] + at + e] = (ushort)run.all.x;
                        run.all = mx_shift(run.all, 0);
                    }
            }
        }
        NEXT_Z()
    }
#if WG_COLUMNS == 2
    if (!second) {
        mx_barrier_wait(full + 8 * *stage, *parity);
        NEXT_Z()
    }
#endif
}
#elif defined(FUSED_Z)
/* Lets the L2 have a tile's z before its sums are there. */
static inline void mx_prefetch_tile(__global ushort *y, int m0, int n0, const MX_PROBLEM *g, int warpgroup,
                                    const mx_epilogue *const epilogue)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int row = warpgroup * WG_ROWS * 64 + (warp & 3) * 16 + (lane >> 2);
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++) {
        const int r = row + i / 2 * 64 + i % 2 * 8;
        const int row_at = CHANNELS_LAST ? mx_pixel_in_y(m0 + r, g) : mx_filter_in_y(n0 + r, g);
#pragma unroll
        for (int j = 0; j < WN / 2; j += 16) {
            const int at = COLUMN_AT(j * 2 + (lane & 3) * 8);
            if (row_at >= 0 && at >= 0)
                MX_PREFETCH(OLD_RESULT(X_TYPE, y) + row_at + at);
        }
    }
}
#endif
#endif
