/* One instruction of AMD's matrix cores, and how its operands lie in the lanes of a wave; after include/common.h.
 *
 * A tile of C, SIDE x SIDE, += A (SIDE x terms) * B (terms x SIDE), by the tables of AMD's instruction set references
 * (CDNA 2 and 3: MFMA, wave64; RDNA 3: WMMA, wave32):
 *
 *            lane l holds of A, B       element r of the lane's part of C
 *     MFMA   row, column l % SIDE,      column l % SIDE, row r % 4 + 4 * (l / SIDE) + 4 * (64 / SIDE) * (r / 4)
 *            terms from l / SIDE on
 *     WMMA   row, column l % 16,        column l % 16, row 2 * r + l / 16
 *            all 16 terms
 *
 * Which terms a lane holds may be chosen, as long as A and B agree: here PACK neighbours, one load from local memory for
 * PACK / EACH instructions.
 * OPERAND: half, bfloat16 (bits, in ushort) or, with MFMA, float.  Sums are float.
 */
#ifndef MFMA /* 1: MFMA, 0: WMMA */
#define MFMA 1
#endif
#ifndef SIDE /* of the instruction's tile: 16, with MFMA also 32 */
#define SIDE 16
#endif
#ifndef OPERAND
#define OPERAND half
#endif

/* Elements of C that a lane holds: SIDE * SIDE / WAVE. */
#if SIDE == 32
#define SUMS 16
#elif MFMA
#define SUMS 4
#else
#define SUMS 8
#endif
#define SUM_VECTOR MX_JOIN(float, SUMS)

#if MFMA
#define WAVE 64
#define LANE_GROUPS (64 / SIDE) /* lanes of one row, each with its own terms */
#define ROW_OF(lane, r) ((r) % 4 + 4 * ((lane) / SIDE) + 4 * LANE_GROUPS * ((r) / 4))
#if MX_TYPE(OPERAND) == MX_TYPE_float
#define ELEMENT float
#define PACK 4
#define EACH 1
#define PACK_VECTOR float4
#define LOAD_PACK(p) (*(__local const float4 *)(p))
#define PART(v, q) ((q) == 0 ? (v).x : (q) == 1 ? (v).y : (q) == 2 ? (v).z : (v).w)
#if SIDE == 32
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0)
#else
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0)
#endif
#else
#define ELEMENT ushort
#define PACK 8
#define EACH 4
#define PACK_VECTOR ushort8
#define LOAD_PACK(p) (*(__local const ushort8 *)(p))
#if MX_TYPE(OPERAND) == MX_TYPE_half
#define PART(v, q) as_half4((q) == 0 ? (v).lo : (v).hi)
#if SIDE == 32
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)
#else
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
#endif
#else
#define PART(v, q) as_short4((q) == 0 ? (v).lo : (v).hi)
#if SIDE == 32
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)
#else
#define MULTIPLY(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)
#endif
#endif
#endif

#else
#define WAVE 32
#define LANE_GROUPS 1 /* lanes 16 to 31 hold what lanes 0 to 15 hold */
#define ROW_OF(lane, r) (2 * (r) + (lane) / 16)
#define ELEMENT ushort
#define PACK 16
#define EACH 16
#define PACK_VECTOR ushort16 /* rows lie 16 bytes apart, so two halves are read */
#define LOAD_PACK(p) (ushort16)(*(__local const ushort8 *)(p), *(__local const ushort8 *)((p) + 8))
#if MX_TYPE(OPERAND) == MX_TYPE_half
#define PART(v, q) as_half16(v)
#define MULTIPLY(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
#else
#define PART(v, q) as_short16(v)
#define MULTIPLY(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)
#endif
#endif

#define STEP (LANE_GROUPS * PACK) /* terms of a tile's PACK / EACH instructions */
#define COLUMN_OF(lane) ((lane) % SIDE)
#define TERM_OF(lane) ((lane) / SIDE % LANE_GROUPS * PACK)

#if !MFMA && (SIDE != 16 || MX_TYPE(OPERAND) == MX_TYPE_float) || SIDE != 16 && SIDE != 32
#error "there is no such instruction"
#endif
#if defined(__AMDGCN_WAVEFRONT_SIZE) && __AMDGCN_WAVEFRONT_SIZE != WAVE
#error "waves of another size"
#endif
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
