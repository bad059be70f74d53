/* Element-wise operations: c = op(alpha1 a, alpha2 b) + beta c and its like.
 *
 *   WHAT:  TENSOR_ADD ... TENSOR_MAX   c = op(alpha1 a, alpha2 b) + beta c
 *          TENSOR_SCALE                c = alpha a + beta c; with a = c a tensor is scaled in place
 *          TENSOR_CAST                 c = alpha a, converted; CLAMP = 1: beyond c's range its nearest number
 *          TENSOR_COPY                 c = a, bits of WIDTH bytes
 *          TENSOR_FILL                 c = bits of WIDTH bytes, which come in three numbers that a float holds exactly
 *
 *   tensor_rows      |--unit--|--unit--|     CPUs, local size 1: a work-item has a range of units, pieces of rows
 *   tensor_elements  |i0 i1 i2 ..|i0 i1 ..   GPUs: a work-item has ITEMS elements, LOCAL apart
 *   tensor_wide      |vec|vec|vec|vec|..     GPUs: likewise a vector each; rows of c and a are made of aligned vectors,
 *                                            b is so too or does not move along them (WIDE = 1), or c and a are a
 *                                            single run of memory each and rows are VEC elements or more (WIDE = 2);
 *                                            of floating types, and TENSOR_COPY and TENSOR_FILL of all
 *   tensor_turned    c is dense along one axis and a along another (mx_turn); for TENSOR_COPY and TENSOR_SCALE.
 *                    TURN = 1, CPUs, local size 1: a work-item has a range of blocks of both axes; TURN = 2, GPUs,
 *                    local size (32, 8): a work-group has a tile of 32 x 32
 *
 * Grid:         the tensors are walked as mx_walk: 0 is c, 1 is a, 2 is b; c and a of any strides, b is not moved along
 *               axes that it does not have.  tensor_rows: at most as many work-items as units; tensor_elements:
 *               elements / ITEMS; tensor_wide: vectors; rounded up.
 * Local memory: tensor_turned, TURN = 2: 32 x 33 elements; else none.
 * Parameters:   WHAT, A_TYPE, C_TYPE, CLAMP, WIDTH, ROWS, WIDE, DENSE, TURN, VEC, LOCAL, ITEMS, below.
 * Bound by:     memory.
 * a and b may be where c is: each element is read before it is written, by the same work-item.
 */
#define TENSOR_ADD 0
#define TENSOR_MUL 1
#define TENSOR_MIN 2
#define TENSOR_MAX 3
#define TENSOR_SCALE 4
#define TENSOR_CAST 5
#define TENSOR_COPY 6
#define TENSOR_FILL 7
#ifndef WHAT
#define WHAT TENSOR_ADD
#endif
#ifndef A_TYPE /* storage types; b has c's */
#define A_TYPE float
#endif
#ifndef C_TYPE
#define C_TYPE float
#endif
#ifndef CLAMP
#define CLAMP 0
#endif
#ifndef WIDTH /* bytes of an element of TENSOR_COPY and TENSOR_FILL */
#define WIDTH 4
#endif
#ifndef ROWS /* tensor_rows: 1, tensor_elements: 0 */
#define ROWS 0
#endif
#ifndef WIDE /* tensor_wide: 1 or 2 */
#define WIDE 0
#endif
#ifndef DENSE /* tensor_wide: 1: a single row, of all tensors */
#define DENSE 0
#endif
#ifndef TURN /* tensor_turned: 1 for CPUs, 2 for GPUs */
#define TURN 0
#endif
#ifndef VEC /* elements that a CPU loads at a time */
#define VEC 16
#endif
#ifndef LOCAL
#define LOCAL 256
#endif
#ifndef ITEMS
#define ITEMS 4
#endif
#define MOST_SHORT 64 /* elements of a row that tensor_rows does not read by itself */
#include "include/common.h"

#if WHAT < TENSOR_ADD || WHAT > TENSOR_FILL
#error "WHAT must be one of TENSOR_..."
#endif
#if !MX_IS_STORAGE(A_TYPE) || !MX_IS_STORAGE(C_TYPE)
#error "A_TYPE and C_TYPE must each be half, float, double, bfloat16, int8 or int32"
#endif
#if WIDTH != 1 && WIDTH != 2 && WIDTH != 4 && WIDTH != 8
#error "WIDTH must be 1, 2, 4 or 8"
#endif

#define HAS_B (WHAT <= TENSOR_MAX)
#define BITS (WHAT >= TENSOR_COPY) /* nothing is computed */

#include "layers/tensor_ops_args.h"

#define UNIT_1 uchar
#define UNIT_2 ushort
#define UNIT_4 uint
#define UNIT_8 ulong
#define VOF(T) MX_JOIN(T, VEC)
#if BITS
#define UNIT MX_JOIN(UNIT_, WIDTH)
typedef UNIT a_unit;
typedef UNIT c_unit;
typedef UNIT value_t;
typedef VOF(UNIT) values_t;
#define GET_A(p, i) ((p)[i])
#define VGET_A(p, i) MX_JOIN(vload, VEC)(0, (p) + (i))
#define PUT_C(p, i, v) ((p)[i] = (v))
#define VPUT_C(p, i, v) MX_STORE_LOOSE(UNIT, VEC, (p) + (i), v)
#define VSTREAM_C(p, i, v) VSTREAM_BITS(UNIT, p, i, v)
#else
typedef STORAGE(A_TYPE) a_unit;
typedef STORAGE(C_TYPE) c_unit;
typedef ACC value_t;
typedef VOF(ACC) values_t;
#define TO_ACCS MX_JOIN(convert_, VOF(ACC))
#define GET_A(p, i) ((ACC)LOAD(A_TYPE)(p, i))
#define GET_C(p, i) ((ACC)LOAD(C_TYPE)(p, i))
#if ROWS && !TURN && MX_TYPE(A_TYPE) == MX_TYPE(C_TYPE)
#define VGET(T) VLOAD_ANY_ORDER(T)
#define VPUT(T) VSTORE_ANY_ORDER(T)
#define VPUT_STREAM(T) VSTREAM_ANY_ORDER(T)
#define ELEMENT(l) ELEMENT_OF_LANE(C_TYPE, l)
#else
#define VGET(T) VLOAD(T)
#define VPUT(T) VSTORE(T)
#define VPUT_STREAM(T) VSTREAM(T)
#define ELEMENT(l) (l)
#endif
#define VGET_A(p, i) TO_ACCS(VGET(A_TYPE)(p, i))
#define VGET_C(p, i) TO_ACCS(VGET(C_TYPE)(p, i))

/* Integers: fractions are cut off.  What no integer of the type holds becomes the nearest one, or without clamping
 * keeps its low bits; NaN, and what 64 bits do not hold then, becomes 0. */
#if WHAT == TENSOR_CAST && !CLAMP
#define TO_INT(v) ((int)convert_long((v) > (ACC)-0x1p63f && (v) < (ACC)0x1p63f ? (v) : (ACC)0))
#define TO_INTS(v) \
    MX_JOIN(convert_int, VEC)(MX_JOIN(convert_long, VEC)((v) > (ACC)-0x1p63f && (v) < (ACC)0x1p63f ? (v) : (values_t)0))
#define TO_BYTE(v) ((char)TO_INT(v))
#define TO_BYTES(v) MX_JOIN(convert_char, VEC)(TO_INTS(v))
#else
/* What is converted is chosen, not whether: Mesa's llvmpipe ended where a conversion hung on a condition. */
#define TO_INT(v) convert_int_sat((v) == (v) ? (v) : (ACC)0)
#define TO_INTS(v) MX_JOIN(MX_JOIN(convert_int, VEC), _sat)((v) == (v) ? (v) : (values_t)0)
#define TO_BYTE(v) convert_char_sat((v) == (v) ? (v) : (ACC)0)
#define TO_BYTES(v) MX_JOIN(MX_JOIN(convert_char, VEC), _sat)((v) == (v) ? (v) : (values_t)0)
#endif

#if CLAMP && MX_TYPE(C_TYPE) == MX_TYPE_half
#define HIGHEST 65504.0f
#elif CLAMP && MX_TYPE(C_TYPE) == MX_TYPE_bfloat16
#define HIGHEST 0x1.fep127f
#elif CLAMP && MX_TYPE(C_TYPE) == MX_TYPE_float
#define HIGHEST FLT_MAX
#elif CLAMP && MX_TYPE(C_TYPE) == MX_TYPE_double
#define HIGHEST DBL_MAX
#endif
#ifdef HIGHEST
static inline value_t limited(value_t v)
{
    v = v > (ACC)HIGHEST ? (ACC)HIGHEST : v;
    return v < -(ACC)HIGHEST ? -(ACC)HIGHEST : v;
}
static inline values_t limiteds(values_t v)
{
    v = v > (ACC)HIGHEST ? (values_t)(ACC)HIGHEST : v;
    return v < -(ACC)HIGHEST ? (values_t)(-(ACC)HIGHEST) : v;
}
#else
#define limited(v) (v)
#define limiteds(v) (v)
#endif

#define MX_VSTORE_int8(p, i, v) MX_STORE_LOOSE(char, VEC, (p) + (i), TO_BYTES(v))
#define MX_VSTORE_int32(p, i, v) MX_JOIN(vstore, VEC)(TO_INTS(v), 0, (p) + (i))
#define MX_VSTREAM_int8(p, i, v) VSTREAM_BITS(char, p, i, TO_BYTES(v))
#define MX_VSTREAM_int32(p, i, v) VSTREAM_BITS(int, p, i, TO_INTS(v))
#define VPUT_C(p, i, v) VPUT(C_TYPE)(p, i, limiteds(v))
#define VSTREAM_C(p, i, v) VPUT_STREAM(C_TYPE)(p, i, limiteds(v))
#if MX_TYPE(C_TYPE) == MX_TYPE_int8
#define PUT_C(p, i, v) ((p)[i] = TO_BYTE(v))
#elif MX_TYPE(C_TYPE) == MX_TYPE_int32
#define PUT_C(p, i, v) ((p)[i] = TO_INT(v))
#else
#define PUT_C(p, i, v) STORE(C_TYPE)(p, i, limited(v))
#endif
#endif

#if WHAT == TENSOR_ADD
#define COMBINE(a, b) ((a) + (b))
#elif WHAT == TENSOR_MUL
#define COMBINE(a, b) ((a) * (b))
#elif WHAT == TENSOR_MIN
#define COMBINE(a, b) ((a) < (b) ? (a) : (b))
#elif WHAT == TENSOR_MAX
#define COMBINE(a, b) ((a) > (b) ? (a) : (b))
#endif

/* Arguments.  Without a b its place in the list is empty; alpha2 is then no argument either. */
#if WHAT == TENSOR_FILL
#define BUFFERS __global c_unit *c, long c_offset
#define SCALARS const float low, const float middle, const float high
#elif HAS_B
#define BUFFERS                                                                                            \
    __global const a_unit *a, long a_offset, __global const c_unit *b, long b_offset, __global c_unit *c, \
        long c_offset
#define SCALARS const SCALAR alpha1, const SCALAR alpha2, const SCALAR beta
#else
#define BUFFERS __global const a_unit *a, long a_offset, __global c_unit *c, long c_offset
#if WHAT == TENSOR_COPY
#define SCALARS
#else
#define SCALARS const SCALAR alpha1, const SCALAR beta
#endif
#endif

#if WHAT == TENSOR_COPY
#define ARGUMENTS(shape) BUFFERS, const shape
#else
#define ARGUMENTS(shape) BUFFERS, const shape, SCALARS
#endif
#if WHAT == TENSOR_FILL
#define PASS(shape) c, c_offset, shape, low, middle, high
#elif WHAT == TENSOR_COPY
#define PASS(shape) a, a_offset, c, c_offset, shape
#elif HAS_B
#define PASS(shape) a, a_offset, b, b_offset, c, c_offset, shape, alpha1, alpha2, beta
#else
#define PASS(shape) a, a_offset, c, c_offset, shape, alpha1, beta
#endif

/* A value that is stored, from a's element at i, b's at j and c's at k. */
#if WHAT == TENSOR_FILL
#define FILLING const UNIT bits = (UNIT)((ulong)low | (ulong)middle << 22 | (ulong)high << 44)
#define ONE(i, j, k) bits
#define SEVERAL(i, j, k) (values_t) bits
#define WITH_BETA 0
#else
#define FILLING
#if WHAT == TENSOR_COPY
#define ONE(i, j, k) GET_A(a, i)
#define SEVERAL(i, j, k) VGET_A(a, i)
#define WITH_BETA 0
#elif HAS_B
#define ONE(i, j, k) COMBINE((ACC)alpha1 *GET_A(a, i), (ACC)alpha2 *GET_C(b, j))
#define SEVERAL(i, j, k) COMBINE((ACC)alpha1 *VGET_A(a, i), (ACC)alpha2 *VGET_C(b, j))
#define WITH_BETA (beta != 0)
#else
#define ONE(i, j, k) ((ACC)alpha1 * GET_A(a, i))
#define SEVERAL(i, j, k) ((ACC)alpha1 * VGET_A(a, i))
#define WITH_BETA (WHAT != TENSOR_CAST && beta != 0)
#endif
#endif
#if BITS
#define ADD_OLD(v, k) (v)
#define VADD_OLD(v, k) (v)
#else
#define ADD_OLD(v, k) ((v) + (ACC)beta * GET_C(c, k))
#define VADD_OLD(v, k) ((v) + (ACC)beta * VGET_C(c, k))
#endif

#if ROWS && !TURN

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void tensor_rows(ARGUMENTS(mx_walk w))
{
    FILLING;
    const long me = get_group_id(0), groups = get_num_groups(0);
    const long end = (me + 1) * w.units / groups;
    const long c_step = w.g.stride[0][4];
#if WHAT != TENSOR_FILL
    const long a_step = w.g.stride[1][4];
#else
    const long a_step = 1;
#endif
#if HAS_B
    const long b_step = w.g.stride[2][4];
#else
    const long b_step = 1;
#endif
    const bool dense = (c_step == 1) & (a_step == 1);
    long unit = me * w.units / groups;
    if (unit >= end)
        return;
    /* Where this row begins, and its place among the axes, counted on from row to row. */
    long line = unit / w.pieces, piece = unit % w.pieces, at[4], left = line;
    for (int axis = 3; axis >= 0; axis--) {
        at[axis] = left % w.g.len[axis];
        left /= w.g.len[axis];
    }
    long c_row = c_offset + mx_grid_offset(w.g, 0, line);
#if WHAT != TENSOR_FILL
    long a_row = a_offset + mx_grid_offset(w.g, 1, line);
#endif
#if HAS_B
    long b_row = b_offset + mx_grid_offset(w.g, 2, line);
#endif
#if HAS_B
    /* Short rows one behind the other, as channels that are innermost: b repeats itself every VEC rows. */
    const long width = w.g.len[4];
    const bool repeats = dense && b_step == 1 && w.pieces == 1 && width <= MOST_SHORT && width % VEC != 0 &&
                         w.g.stride[0][3] == width && w.g.stride[1][3] == width && w.g.stride[2][3] == 0;
#endif
    for (; unit < end; unit++) {
#if HAS_B
        if (repeats) {
            const long rows = (min(end - unit, w.g.len[3] - at[3]) - 1) / VEC * VEC; /* one row at least is left */
            if (rows >= 4 * VEC) {
                ACC several[MOST_SHORT * VEC];
                for (long i = 0; i < width * VEC; i++)
                    several[i] = (ACC)alpha2 * GET_C(b, b_row + (i / VEC * VEC + ELEMENT(i % VEC)) % width);
                for (long done = 0; done < rows * width; done += width * VEC)
                    for (long i = 0; i < width * VEC; i += VEC) {
                        const values_t v = COMBINE((ACC)alpha1 * VGET_A(a, a_row + done + i),
                                                   (MX_JOIN(vload, VEC)(0, several + i)));
                        if (WITH_BETA)
                            VPUT_C(c, c_row + done + i, VADD_OLD(v, c_row + done + i));
                        else
                            VPUT_C(c, c_row + done + i, v);
                    }
                unit += rows;
                at[3] += rows;
                c_row += rows * width;
                a_row += rows * width;
            }
        }
#endif
        const long first = piece * w.piece, n = min(w.piece, w.g.len[4] - first);
        const long cc = c_row + first * c_step;
#if WHAT != TENSOR_FILL
        const long aa = a_row + first * a_step;
#endif
#if HAS_B
        const long bb = b_row + first * b_step;
#endif
        long i = 0;
        /* One by one up to where vectors may begin, if that matters, and behind the last one. */
        for (long stop = dense ? min(n, BEFORE_STREAM(c + cc)) : n;; stop = n) {
            for (; i < stop; i++) {
                const value_t v = ONE(aa + i * a_step, bb + i * b_step, cc + i * c_step);
                PUT_C(c, cc + i * c_step, WITH_BETA ? ADD_OLD(v, cc + i * c_step) : v);
            }
            if (i == n)
                break;
#if HAS_B
            if (b_step == 0) {
                const ACC one = (ACC)alpha2 * GET_C(b, bb);
                if (!WITH_BETA)
                    for (; i + VEC <= n; i += VEC)
                        VSTREAM_C(c, cc + i, COMBINE((ACC)alpha1 * VGET_A(a, aa + i), (values_t)one));
                else
                    for (; i + VEC <= n; i += VEC) {
                        const values_t v = COMBINE((ACC)alpha1 * VGET_A(a, aa + i), (values_t)one);
                        VSTREAM_C(c, cc + i, VADD_OLD(v, cc + i));
                    }
            }
#endif
            if (b_step == 1) {
                if (!WITH_BETA)
                    for (; i + VEC <= n; i += VEC)
                        VSTREAM_C(c, cc + i, SEVERAL(aa + i, bb + i, cc + i));
                else
                    for (; i + VEC <= n; i += VEC) {
                        const values_t v = SEVERAL(aa + i, bb + i, cc + i);
                        VSTREAM_C(c, cc + i, VADD_OLD(v, cc + i));
                    }
            }
        }
        if (++piece < w.pieces)
            continue;
        piece = 0;
        for (int axis = 3; axis >= 0; axis--) {
            c_row += w.g.stride[0][axis];
#if WHAT != TENSOR_FILL
            a_row += w.g.stride[1][axis];
#endif
#if HAS_B
            b_row += w.g.stride[2][axis];
#endif
            if (++at[axis] < w.g.len[axis])
                break;
            c_row -= w.g.len[axis] * w.g.stride[0][axis];
#if WHAT != TENSOR_FILL
            a_row -= w.g.len[axis] * w.g.stride[1][axis];
#endif
#if HAS_B
            b_row -= w.g.len[axis] * w.g.stride[2][axis];
#endif
            at[axis] = 0;
        }
    }
}

#elif WIDE

#include "include/gpu_vectors.h"

#if BITS
#define TAKE_A(p, aligned) ((aligned) ? *(__global const values_t *)(p) : MX_V(vload)(0, p))
#define GIVE_C(p, v, aligned)                   \
    do {                                        \
        if (aligned)                            \
            *(__global values_t *)(p) = (v);    \
        else                                    \
            MX_V(vstore)(v, 0, p);              \
    } while (0)
#else
MX_GET(get_a, A_TYPE)
MX_GET(get_c, C_TYPE)
MX_PUT(put_c, C_TYPE)
#define TAKE_A(p, aligned) ((ACC)alpha1 * get_a(p, aligned))
#define GIVE_C(p, v, aligned) put_c(p, WITH_BETA ? (v) + (ACC)beta * get_c(p, aligned) : limiteds(v), aligned)
#endif

#if WIDE == 2

/* Where b has an element that c has in row `left` at x. */
#if HAS_B
static inline long place_in_b(const mx_walk *w, INDEX left, INDEX x)
{
    long at = x * w->g.stride[2][4];
#pragma unroll
    for (int axis = 3; axis >= 0; axis--) {
        const INDEX len = (INDEX)w->g.len[axis];
        if (len > 1) {
            const INDEX rest = axis > 0 && w->g.len[axis - 1] > 1 ? left / len : 0;
            at += (left - rest * len) * w->g.stride[2][axis];
            left = rest;
        }
    }
    return at;
}
#endif

static inline __attribute__((always_inline)) void compute_vector(ARGUMENTS(mx_walk w), const INDEX vector,
                                                                 const bool aligned)
{
    FILLING;
    const INDEX row = (INDEX)w.g.len[4], count = (INDEX)w.units * row, first = vector * VEC;
#if WHAT != TENSOR_FILL
    a += a_offset + first;
#endif
    c += c_offset + first;
#if HAS_B
    INDEX left = w.units > 1 ? first / row : 0, x = first - left * row;
    b += b_offset;
#endif
    if (count - first < VEC) {
        for (int i = 0; i < (int)(count - first); i++) {
            const value_t value = ONE(i, place_in_b(&w, left, x), i);
#if HAS_B
            if (++x == row) {
                x = 0;
                left++;
            }
#endif
            PUT_C(c, i, WITH_BETA ? ADD_OLD(value, i) : value);
        }
        return;
    }
#if WHAT == TENSOR_FILL
    const values_t value = bits;
#else
    values_t value = TAKE_A(a, aligned);
#endif
#if HAS_B
    const long here = place_in_b(&w, left, x), along = w.g.stride[2][4];
    vec_t other;
    if (x + VEC <= row) {
        if (along == 0)
            other = (vec_t)(ACC)LOAD(C_TYPE)(b, here);
        else
            other = get_c(b + here, MX_ALIGNED(b + here));
    } else { /* the end of a row and the beginning of the next one */
        const long next = place_in_b(&w, left + 1, 0);
#pragma unroll
        for (int i = 0; i < VEC; i++)
            ((ACC *)&other)[i] =
                (ACC)LOAD(C_TYPE)(b, x + i < row ? here + i * along : next + (x + i - row) * along);
    }
    value = COMBINE(value, (ACC)alpha2 * other);
#endif
    GIVE_C(c, value, aligned);
}

#define VECTORS(w) (((INDEX)(w).units * (INDEX)(w).g.len[4] + VEC - 1) / VEC)

#else

static inline void compute_vector(ARGUMENTS(mx_walk w), const INDEX vector, const bool aligned)
{
    FILLING;
    const INDEX row = (INDEX)w.g.len[4] / VEC;
    INDEX left = w.units > 1 ? vector / row : 0;
    const INDEX x = (vector - left * row) * VEC;
    long cc = c_offset + x;
#if WHAT != TENSOR_FILL
    long aa = a_offset + x;
#endif
#if HAS_B
    const bool along_b = w.g.stride[2][4] != 0;
    long bb = b_offset + (along_b ? x : 0);
#endif
    if (w.units > 1)
#pragma unroll
        for (int axis = 3; axis >= 0; axis--) {
            const INDEX len = (INDEX)w.g.len[axis];
            if (len > 1) {
                const INDEX rest = axis > 0 && w.g.len[axis - 1] > 1 ? left / len : 0, here = left - rest * len;
                left = rest;
                cc += here * w.g.stride[0][axis];
#if WHAT != TENSOR_FILL
                aa += here * w.g.stride[1][axis];
#endif
#if HAS_B
                bb += here * w.g.stride[2][axis];
#endif
            }
        }
#if WHAT == TENSOR_FILL
    const values_t value = bits;
#else
    values_t value = TAKE_A(a + aa, aligned);
#endif
#if HAS_B
    const vec_t other = (ACC)alpha2 * (along_b ? get_c(b + bb, aligned) : (vec_t)(ACC)LOAD(C_TYPE)(b, bb));
    value = COMBINE(value, other);
#endif
    GIVE_C(c + cc, value, aligned);
}

#define VECTORS(w) ((INDEX)(w).units * ((INDEX)(w).g.len[4] / VEC))

#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void tensor_wide(ARGUMENTS(mx_walk w))
{
    const INDEX at = (INDEX)get_group_id(0) * LOCAL + (INDEX)get_local_id(0);
    if (at >= VECTORS(w))
        return;
    bool aligned = MX_ALIGNED(c + c_offset);
#if WHAT != TENSOR_FILL
    aligned = aligned && MX_ALIGNED(a + a_offset);
#endif
#if DENSE && HAS_B
    if (aligned && MX_ALIGNED(b + b_offset)) {
        const long first = (long)at * VEC;
        const MX_RAW(A_TYPE) one = *(__global const MX_RAW(A_TYPE) *)(a + a_offset + first);
        const MX_RAW(C_TYPE) two = *(__global const MX_RAW(C_TYPE) *)(b + b_offset + first);
        const vec_t value = COMBINE((ACC)alpha1 * MX_WIDE(A_TYPE, one), (ACC)alpha2 * MX_WIDE(C_TYPE, two));
        GIVE_C(c + c_offset + first, value, true);
        return;
    }
#endif
#if HAS_B
    aligned = aligned && (WIDE == 2 || w.g.stride[2][4] == 0 || MX_ALIGNED(b + b_offset));
#endif
    if (aligned)
        compute_vector(PASS(w), at, true);
    else
        compute_vector(PASS(w), at, false);
}

#elif !TURN

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void tensor_elements(ARGUMENTS(mx_walk w))
{
    FILLING;
    const INDEX row = (INDEX)w.g.len[4], count = (INDEX)w.units * row;
    INDEX element = (INDEX)get_group_id(0) * (LOCAL * ITEMS) + (INDEX)get_local_id(0);
    for (int item = 0; item < ITEMS; item++, element += LOCAL) {
        if (element >= count)
            return;
        INDEX x = element, left = 0;
        if (w.units > 1) {
            left = element / row;
            x = element - left * row;
        }
        long cc = c_offset + (long)x * w.g.stride[0][4];
#if WHAT != TENSOR_FILL
        long aa = a_offset + (long)x * w.g.stride[1][4];
#endif
#if HAS_B
        long bb = b_offset + (long)x * w.g.stride[2][4];
#endif
#pragma unroll
        for (int axis = 3; axis >= 0; axis--) {
            const INDEX len = (INDEX)w.g.len[axis];
            if (len > 1) {
                const INDEX rest = left / len, here = left - rest * len;
                left = rest;
                cc += here * w.g.stride[0][axis];
#if WHAT != TENSOR_FILL
                aa += here * w.g.stride[1][axis];
#endif
#if HAS_B
                bb += here * w.g.stride[2][axis];
#endif
            }
        }
        const value_t v = ONE(aa, bb, cc);
        PUT_C(c, cc, WITH_BETA ? ADD_OLD(v, cc) : v);
    }
}

#endif

#if TURN == 1

#if VEC != 16
#error "tensor_turned needs VEC = 16"
#endif
#if BITS
typedef UNIT turn_t;
typedef values_t turns_t;
#define WIDEN(v) (v)
#else
/* Values are turned as they are stored, and widened afterwards. */
#define TURN_half ushort
#define TURN_float float
#define TURN_double double
#define TURN_bfloat16 ushort
#define TURN_int8 char
#define TURN_int32 int
typedef MX_JOIN(TURN_, A_TYPE) turn_t;
typedef VOF(MX_JOIN(TURN_, A_TYPE)) turns_t;
static inline float16 widen_half(ushort16 v)
{
    /* Exponent and fraction moved into a float are 2^112 too small; subnormals come out right as well. */
    const uint16 w = convert_uint16(v), magnitude = (w & 0x7fffu) << 13;
    const uint16 finite = as_uint16(as_float16(magnitude) * 0x1p112f), special = magnitude | 0x7f800000u;
    return as_float16((magnitude >= 0xf800000u ? special : finite) | (w & 0x8000u) << 16);
}
#define WIDEN_half(v) widen_half(v)
#define WIDEN_float(v) (v)
#define WIDEN_double(v) (v)
#define WIDEN_bfloat16(v) as_float16(convert_uint16(v) << 16)
#define WIDEN_int8(v) (v)
#define WIDEN_int32(v) (v)
#define WIDEN(v) TO_ACCS(MX_JOIN(WIDEN_, A_TYPE)(v))
#endif

/* Blocks of two rows change places. */
#define SWAP_8(x, y)                       \
    do {                                   \
        const turns_t t = (x);             \
        (x) = (turns_t)(t.lo, (y).lo);     \
        (y) = (turns_t)(t.hi, (y).hi);     \
    } while (0)
#define SWAP_4(x, y)                                             \
    do {                                                         \
        const turns_t t = (x), u = (y);                          \
        (x) = (turns_t)(t.s0123, u.s0123, t.s89ab, u.s89ab);     \
        (y) = (turns_t)(t.s4567, u.s4567, t.scdef, u.scdef);     \
    } while (0)
#define SWAP_2(x, y)                                                                         \
    do {                                                                                     \
        const turns_t t = (x), u = (y);                                                      \
        (x) = (turns_t)(t.s01, u.s01, t.s45, u.s45, t.s89, u.s89, t.scd, u.scd);             \
        (y) = (turns_t)(t.s23, u.s23, t.s67, u.s67, t.sab, u.sab, t.sef, u.sef);             \
    } while (0)
#define SWAP_1(x, y)                                                                                          \
    do {                                                                                                      \
        const turns_t t = (x), u = (y);                                                                       \
        (x) = (turns_t)(t.s0, u.s0, t.s2, u.s2, t.s4, u.s4, t.s6, u.s6, t.s8, u.s8, t.sa, u.sa, t.sc, u.sc,   \
                        t.se, u.se);                                                                          \
        (y) = (turns_t)(t.s1, u.s1, t.s3, u.s3, t.s5, u.s5, t.s7, u.s7, t.s9, u.s9, t.sb, u.sb, t.sd, u.sd,   \
                        t.sf, u.sf);                                                                          \
    } while (0)

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void tensor_turned(ARGUMENTS(mx_turn w))
{
    const long me = get_group_id(0), groups = get_num_groups(0);
    for (long unit = me * w.units / groups; unit < (me + 1) * w.units / groups; unit++) {
        const long j_block = unit % w.column_blocks * w.column_block, rest = unit / w.column_blocks;
        const long i_block = rest % w.row_blocks * w.row_block, line = rest / w.row_blocks;
        const long i_end = min(i_block + w.row_block, w.rows), j_end = min(j_block + w.column_block, w.columns);
        const long c_image = c_offset + mx_grid_offset(w.outer, 0, line);
        const long a_image = a_offset + mx_grid_offset(w.outer, 1, line);
        const long i_last = i_end - 16, j_last = j_end - 16;
        const bool whole = i_last >= i_block && j_last >= j_block && !WITH_BETA;
        for (long j = j_block; j < j_end; j += 16)
            for (long i = i_block; i < i_end; i += 16) {
                /* At the edges tiles overlap, which does not matter as long as c is not read. */
                const long i0 = whole ? min(i, i_last) : i, j0 = whole ? min(j, j_last) : j;
                const long from = a_image + j0 * w.a_step + i0, to = c_image + i0 * w.c_step + j0;
                if (i0 > i_last || j0 > j_last) {
                    for (long y = 0; y < min(16L, i_end - i0); y++)
                        for (long x = 0; x < min(16L, j_end - j0); x++) {
                            const value_t v = ONE(from + x * w.a_step + y, 0, 0);
                            PUT_C(c, to + y * w.c_step + x, WITH_BETA ? ADD_OLD(v, to + y * w.c_step + x) : v);
                        }
                    continue;
                }
                turns_t r[16];
                __attribute__((opencl_unroll_hint(16))) for (int k = 0; k < 16; k++)
                    r[k] = vload16(0, (__global const turn_t *)a + from + k * w.a_step);
                __attribute__((opencl_unroll_hint(8))) for (int k = 0; k < 8; k++)
                    SWAP_8(r[k], r[k + 8]);
                __attribute__((opencl_unroll_hint(8))) for (int k = 0; k < 8; k++)
                    SWAP_4(r[k % 4 + k / 4 * 8], r[k % 4 + k / 4 * 8 + 4]);
                __attribute__((opencl_unroll_hint(8))) for (int k = 0; k < 8; k++)
                    SWAP_2(r[k % 2 + k / 2 * 4], r[k % 2 + k / 2 * 4 + 2]);
                __attribute__((opencl_unroll_hint(8))) for (int k = 0; k < 8; k++)
                    SWAP_1(r[2 * k], r[2 * k + 1]);
#if BITS
#define TURNED(k) r[k]
#else
#define TURNED(k) ((ACC)alpha1 * WIDEN(r[k]))
#endif
                if (!WITH_BETA) {
                    __attribute__((opencl_unroll_hint(16))) for (int k = 0; k < 16; k++)
                        VPUT_C(c, to + k * w.c_step, TURNED(k));
                } else {
                    __attribute__((opencl_unroll_hint(16))) for (int k = 0; k < 16; k++)
                        VPUT_C(c, to + k * w.c_step, VADD_OLD(TURNED(k), to + k * w.c_step));
                }
            }
    }
}

#elif TURN == 2

__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void tensor_turned(ARGUMENTS(mx_turn w))
{
    __local value_t tile[32][33];
    const long i0 = (long)get_group_id(0) * 32, j0 = (long)get_group_id(1) * 32, line = get_group_id(2);
    const long c_image = c_offset + mx_grid_offset(w.outer, 0, line);
    const long a_image = a_offset + mx_grid_offset(w.outer, 1, line);
    const int x = get_local_id(0), y = get_local_id(1);
    for (int k = y; k < 32; k += 8)
        if (i0 + x < w.rows && j0 + k < w.columns)
            tile[k][x] = ONE(a_image + (j0 + k) * w.a_step + i0 + x, 0, 0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = y; k < 32; k += 8)
        if (i0 + k < w.rows && j0 + x < w.columns) {
            const long to = c_image + (i0 + k) * w.c_step + j0 + x;
            const value_t v = tile[x][k];
            PUT_C(c, to, WITH_BETA ? ADD_OLD(v, to) : v);
        }
}

#endif
