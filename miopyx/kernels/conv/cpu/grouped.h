/* What the kernels of grouped convolutions with few channels a group share on CPU devices.
 *
 * A work-item copies a tile of what it reads into private memory, as planes with the zeros of the padding around them.
 * There position t * pitch + j of a plane, plus one number for each tap, is the element that the tap meets, whatever
 * strides and dilations are: rows and columns of one phase of the stride have a plane of their own.  So a tile is
 * one flat run of vectors; the few positions between two rows of it are computed too, and not stored.
 *
 * MODE ROWS: lanes are positions, rows are contiguous.  TRANSPOSED: the same for tensors with channels last, which are
 * transposed while they are copied.  CHANNELS: lanes are channels, each of which is a group; an element of a plane is a
 * vector, and what is called a group is a vector of channels.  BLOCKS: lanes are channels of one group, which has whole
 * vectors of inputs and of outputs; an element of a plane is a vector, and so are what is called inputs and outputs.
 */
#ifndef X_TYPE /* half, float, double or bfloat16 */
#define X_TYPE float
#endif
#ifndef VEC /* 4, 8 or 16 */
#define VEC 16
#endif
#ifndef MODE /* ROWS, CHANNELS, TRANSPOSED or BLOCKS */
#define MODE 0
#endif
#include "include/common.h"
#include "include/epilogue.h"
#include "conv/cpu/grouped_args.h"

#define ROWS 0
#define CHANNELS 1
#define TRANSPOSED 2
#define BLOCKS 3
#define TAPS_LIMIT 256 /* of a filter's slice */
#define DEPTH_LIMIT 32 /* slices of a filter */

#if VEC != 4 && VEC != 8 && VEC != 16
#error "VEC must be 4, 8 or 16"
#endif
#if MODE == CHANNELS || MODE == BLOCKS
#define EACH VEC /* elements of a position */
#else
#define EACH 1
#endif

typedef MX_JOIN(ACC, VEC) vec;
#if MX_TYPE(ACC) == MX_TYPE_double
typedef MX_JOIN(long, VEC) lanes_t;
#else
typedef MX_JOIN(int, VEC) lanes_t;
#endif
#if VEC == 16
#define LANE_NUMBERS ((lanes_t)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
#elif VEC == 8
#define LANE_NUMBERS ((lanes_t)(0, 1, 2, 3, 4, 5, 6, 7))
#else
#define LANE_NUMBERS ((lanes_t)(0, 1, 2, 3))
#endif
/* Vectors anywhere in memory: PoCL takes vload16 and vstore16 to pieces. */
typedef vec __attribute__((aligned(sizeof(ACC)))) loose;
/* A function that returns a vector: one that has none in its signature, nor calls any, gets halves of AVX-512's. */
static inline vec load_vector(const ACC *p)
{
    return *(const loose *)p;
}
#define VGET(i, p) load_vector((p) + (i) * VEC)
#define VPUT(v, i, p) (*(loose *)((p) + (i) * VEC) = (v))
#if MX_TYPE(X_TYPE) == MX_TYPE(ACC)
#define READ(p, i) ((vec)*(__global const loose *)((p) + (i)))
#define WRITE(p, i, v) (*(__global loose *)((p) + (i)) = (v))
#else
#define READ(p, i) ((vec)VLOAD(X_TYPE)(p, i))
#define WRITE(p, i, v) VSTORE(X_TYPE)(p, i, v)
#endif

/* The first `count` elements at p, then zeros; `room` elements may be read. */
static inline vec load_some(__global const STORAGE(X_TYPE) *p, long room, int count)
{
    if (room >= VEC)
        return LANE_NUMBERS < (lanes_t)(count) ? READ(p, 0) : (vec)((ACC)0);
    ACC lanes[VEC];
    for (int i = 0; i < VEC; i++)
        lanes[i] = i < count && i < room ? (ACC)LOAD(X_TYPE)(p, i) : (ACC)0;
    return VGET(0, lanes);
}

/* The vector at p where all of it may be read. */
static inline vec load_whole(__global const STORAGE(X_TYPE) *p, long room)
{
    return room >= VEC ? READ(p, 0) : load_some(p, room, VEC);
}

static inline void store_one(__global STORAGE(X_TYPE) *p, ACC value, EPILOGUE_PARAMS)
{
    STORE_ONE(X_TYPE, p, 0, value);
}

static inline void store_vector(__global STORAGE(X_TYPE) *p, vec v, EPILOGUE_PARAMS)
{
    v = SCALED_RESULT(v);
    if (beta != 0)
        v += (ACC)beta * READ(OLD_RESULT(X_TYPE, p), 0);
    WRITE(p, 0, FINAL_RESULT(v));
}

/* `count` elements. */
NOINLINE void store_run(__global STORAGE(X_TYPE) *p, const ACC *from, int count, EPILOGUE_PARAMS)
{
    int j = 0;
    for (; j + VEC <= count; j += VEC)
        store_vector(p + j, VGET(0, from + j), EPILOGUE_ARGS);
    if (j == count)
        return;
    if (beta == 0 && count > VEC) {
        store_vector(p + count - VEC, VGET(0, from + count - VEC), EPILOGUE_ARGS);
        return;
    }
#if MX_TYPE(X_TYPE) == MX_TYPE_float && !defined(EPILOGUE)
    if (beta == 0) {
        const int rest = count - j;
#if VEC > 8
        if (rest & 8) {
            vstore8(vload8(0, from + j) * (ACC)alpha, 0, p + j);
            j += 8;
        }
#endif
#if VEC > 4
        if (rest & 4) {
            vstore4(vload4(0, from + j) * (ACC)alpha, 0, p + j);
            j += 4;
        }
#endif
        if (rest & 2) {
            vstore2(vload2(0, from + j) * (ACC)alpha, 0, p + j);
            j += 2;
        }
        if (rest & 1)
            p[j] = from[j] * (ACC)alpha;
        return;
    }
#endif
    for (; j < count; j++)
        store_one(p + j, from[j], EPILOGUE_ARGS);
}

/* The first `count` lanes. */
static inline void store_lanes(__global STORAGE(X_TYPE) *p, vec v, int count, EPILOGUE_PARAMS)
{
    if (count == VEC) {
        store_vector(p, v, EPILOGUE_ARGS);
    } else {
#ifdef EPILOGUE /* lanes may be of several filters */
        STORE_FIRST(X_TYPE, p, v, count);
#else
        ACC lanes[VEC];
        VPUT(v, 0, lanes);
        store_run(p, lanes, count, alpha, beta);
#endif
    }
}

#include "conv/cpu/transpose.h"

/* Columns j of [0, count) of which start + j * step is in [0, width). */
static inline int2 columns_inside(int start, int step, int width, int count)
{
    int lo, hi;
    if (step == 1) {
        lo = -start;
        hi = width - start;
    } else {
        lo = start < 0 ? (step - 1 - start) / step : 0;
        hi = start < width ? (width - 1 - start) / step + 1 : 0;
    }
    lo = clamp(lo, 0, count);
    return (int2)(lo, clamp(hi, lo, count));
}

static inline void clear(ACC *to, int count)
{
    for (int j = 0; j < count; j += VEC)
        VPUT((vec)((ACC)0), 0, to + j);
}

/* What follows writes whole vectors: up to VEC - 1 elements behind `count` are written too, before what comes there.
 * pack_rows copies rows at a stride of `move`: columns start + j * step of them where j is inside, else zeros.  Before
 * the first one there are `before` elements of the tensor, and `room` from it on. */

#if MODE == ROWS
static inline void pack_rows(__global const STORAGE(X_TYPE) *row, long move, long before, long room, int rows, ACC *to,
                             int pitch, int start, int step, int2 inside)
{
    if (step == 1 && inside.y <= VEC && pitch <= VEC && before + start >= 0) {
        /* A row is a vector, zeros before and behind included; where all of it may be read. */
        const long whole = room - start - VEC;
        const int quick = whole < 0 ? 0 : (int)min((long)rows, move > 0 ? whole / move + 1 : (long)rows);
        const lanes_t keep = LANE_NUMBERS >= (lanes_t)(inside.x) && LANE_NUMBERS < (lanes_t)(inside.y);
        for (int k = 0; k < quick; k++, row += move, to += pitch)
            VPUT(keep ? READ(row, start) : (vec)((ACC)0), 0, to);
        rows -= quick;
        room -= quick * move;
    }
    const int last = inside.y - (inside.y - inside.x) % VEC;
    const lanes_t some = LANE_NUMBERS < (lanes_t)(inside.y - last);
    for (int k = 0; k < rows; k++, row += move, room -= move, to += pitch) {
        clear(to, inside.x);
        int j = inside.x;
        if (step == 1) {
            for (; j < last; j += VEC)
                VPUT(READ(row, start + j), 0, to + j);
            if (j < inside.y) {
                if (start + j + VEC <= room)
                    VPUT(some ? READ(row, start + j) : (vec)((ACC)0), 0, to + j);
                else
                    VPUT(load_some(row + start + j, room - start - j, inside.y - j), 0, to + j);
                j += VEC;
            }
        } else if (step == 2) {
            vec v;
            for (; j < last && start + 2 * (j + VEC) <= room; j += VEC) {
                v.lo = READ(row, start + 2 * j).even;
                v.hi = READ(row, start + 2 * j + VEC).even;
                VPUT(v, 0, to + j);
            }
            for (; j < inside.y; j += VEC) {
                const long at = start + 2 * j;
                const int left = min(2 * (inside.y - j), 2 * VEC);
                vec b = (vec)((ACC)0);
                v.lo = load_some(row + at, room - at, left).even;
                if (left > VEC)
                    b = load_some(row + at + VEC, room - at - VEC, left - VEC);
                v.hi = b.even;
                VPUT(v, 0, to + j);
            }
        } else {
            for (; j < inside.y; j++)
                to[j] = (ACC)LOAD(X_TYPE)(row, start + j * step);
        }
        for (; j < pitch; j += VEC)
            VPUT((vec)((ACC)0), 0, to + j);
    }
}
#elif MODE != TRANSPOSED
static inline void pack_rows(__global const STORAGE(X_TYPE) *row, long move, long room, int rows, ACC *to, int pitch,
                             long w, int start, int step, int2 inside)
{
    for (int k = 0; k < rows; k++, row += move, room -= move, to += pitch * VEC) {
        clear(to, inside.x * VEC);
        long at = (start + inside.x * step) * w;
        const long next = step * w;
        if ((start + (inside.y - 1) * step) * w + VEC <= room)
            for (int j = inside.x; j < inside.y; j++, at += next)
                VPUT(READ(row, at), 0, to + j * VEC);
        else
            for (int j = inside.x; j < inside.y; j++, at += next)
                VPUT(load_whole(row + at, room - at), 0, to + j * VEC);
        clear(to + inside.y * VEC, (pitch - inside.y) * VEC);
    }
}
#else
/* `channels` channels at once, at a stride of `plane`. */
static inline void pack_rows(__global const STORAGE(X_TYPE) *row, long move, long room, int rows, ACC *to, int pitch,
                             int plane, int channels, long w, int start, int step, int2 inside)
{
    const long next = step * w;
    for (int k = 0; k < rows; k++, row += move, room -= move, to += pitch)
        for (int j = 0; j < pitch; j += VEC) {
            vec v[VEC];
            long at = (start + j * step) * w;
            if (j >= inside.x && j + VEC <= inside.y && at + (VEC - 1) * next + VEC <= room) {
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    v[i] = READ(row, at + i * next);
            } else {
                for (int i = 0; i < VEC; i++, at += next)
                    v[i] = j + i >= inside.x && j + i < inside.y ? load_whole(row + at, room - at) : (vec)((ACC)0);
            }
            transpose(v);
            if (channels == VEC) {
#pragma unroll
                for (int i = 0; i < VEC; i++)
                    VPUT(v[i], 0, to + i * plane + j);
            } else {
                for (int i = 0; i < channels; i++)
                    VPUT(v[i], 0, to + i * plane + j);
            }
        }
}
#endif

/* Rows [from, end) of the planes of `count` channels (vectors of them) from `channel` on, of the given slices of an
 * image that begins `image` elements behind `in`; row 0 and column 0 are `row` and `column` of the tensor. */
NOINLINE void pack_planes(__global const STORAGE(X_TYPE) *in, long image, const mx_side *s, const mx_planes *p,
                          long channel, int count, const int *slice, int slices, int row, int column, int from, int end,
                          ACC *packed)
{
    const int step_h = p->step_h, step_w = p->step_w, pitch = p->pitch, sub = p->sub, behind = p->behind * EACH;
    const int plane = step_h * step_w * sub * EACH;
#if MODE == TRANSPOSED
    const int bunch = VEC;
#else
    const int bunch = 1;
#endif
    for (int a = 0; a < step_h; a++) {
        /* Rows a + k * step_h. */
        const int k0 = (from - a + step_h - 1) / step_h, k1 = (end - a + step_h - 1) / step_h;
        const int2 inside = columns_inside(row + a, step_h, s->height, k1);
        const int ka = max(inside.x, k0), kb = max(inside.y, ka);
        const int zeros = (k1 - kb) * pitch * EACH + behind; /* until more rows come there */
        for (int b = 0; b < step_w; b++) {
            const int2 columns = columns_inside(column + b, step_w, s->width, pitch);
            for (int c = 0; c < count; c += bunch)
                for (int z = 0; z < slices; z++) {
                    ACC *to = packed + (c * slices + z) * plane + (a * step_w + b) * sub * EACH;
                    const long at = image + (channel + c * EACH) * s->c + slice[z] * s->d
                                    + (row + a + (long)ka * step_h) * s->h;
#if MODE == TRANSPOSED
                    const int channels = min(count - c, VEC);
                    for (int i = 0; i < channels; i++)
                        clear(to + i * plane * slices + k0 * pitch, (ka - k0) * pitch);
                    pack_rows(in + at, step_h * s->h, s->span - at, kb - ka, to + ka * pitch, pitch, plane * slices,
                              channels, s->w, column + b, step_w, columns);
                    for (int i = 0; i < channels; i++)
                        clear(to + i * plane * slices + kb * pitch, zeros);
#else
                    clear(to + k0 * pitch * EACH, (ka - k0) * pitch * EACH);
#if MODE == ROWS
                    pack_rows(in + at, step_h * s->h, at, s->span - at, kb - ka, to + ka * pitch, pitch, column + b,
                              step_w, columns);
#else
                    pack_rows(in + at, step_h * s->h, s->span - at, kb - ka, to + ka * pitch * VEC, pitch, s->w,
                              column + b, step_w, columns);
#endif
                    clear(to + kb * pitch * EACH, zeros);
#endif
                }
        }
    }
}

/* The slices of the input that slice `d` of the output meets, and the taps that meet them. */
static inline int slices_of(const mx_grouped *g, int d, int *slice, int *tap)
{
    int count = 0;
    for (int z = 0; z < g->taps[0]; z++) {
        int at;
        if (g->backward) {
            at = d + g->pad[0] - z * g->dilation[0];
            if (at % g->step[0] != 0)
                continue;
            at /= g->step[0];
        } else {
            at = d * g->step[0] + z * g->dilation[0] - g->pad[0];
        }
        if (at >= 0 && at < g->input.depth) {
            slice[count] = at;
            tap[count++] = z;
        }
    }
    return count;
}
