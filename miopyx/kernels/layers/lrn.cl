/* Local response normalisation, over channels or within them, forward and backward.
 *
 *   forward    scale = k + a * (sum of x^2 over the window);  y = x * scale^-beta
 *   backward   t = dy * y / scale;  dx = dy * scale^-beta - b * x * (sum of t over the mirrored window)
 *
 *   positions ->        p.rows rows of p.grid positions.  A row is what the window moves over: the channels, or with
 *      +----------+     lrn_within the image rows of a plane; positions are all that is left, a grid of tensors x, y,
 * rows | window | |     dx, dy (forward: x, y).  `before` and `after` say how far a window reaches: less than MOST
 *      | moves  v |     together with p.keep, with N > 0 N - 1, otherwise each at most as far as the tensor does.  All of a
 *      +----------+     window's terms are summed anew for each output, so that no error builds up.
 *
 * Grid:         lrn_planes  CPUs: a work-item computes a part of the rows for a block of at most BLOCK * VEC positions
 *                           of a line of the grid;  global lines * blocks * parts
 *               lrn_rows    CPUs: a work-item computes all rows for a block of positions of a line, where rows are
 *                           neighbours in memory and p.keep;  global lines * blocks
 *               lrn_within  CPUs: a work-item computes a part of the rows for a block of at most BLOCK * VEC columns
 *                           of a plane;  global lines * blocks * parts
 *               lrn_items   GPUs: a work-item computes p.rows / parts rows at a position;  global positions * parts,
 *                           rounded up
 *               lrn_window  GPUs, within channels: a work-item computes an element;  global elements, rounded up
 * Local memory: none.
 * Parameters:   MOST, CPU, VEC, BLOCK, ROOM, PLANES, ROWS, WITHIN, below, and those of layers/lrn.h.  Scales are stored
 *               as ACC where the strides of y say.
 * Bound by:     memory for windows of 5; the power where beta is not 1/2, 3/4 or 1.
 */
#ifndef MOST /* CPUs: the longest window whose terms are kept */
#define MOST 16
#endif
#ifndef CPU /* work-items: 1 large ones with vectors, 0 small ones */
#define CPU 1
#endif
#ifndef VEC /* elements of a CPU's vector */
#define VEC 16
#endif
#ifndef BLOCK /* vectors of a work-item's block, on CPUs */
#define BLOCK 64
#endif
#ifndef ROOM /* elements of the memory for a block of lrn_rows */
#define ROOM 2048
#endif
#ifndef PLANES /* which kernels are wanted: compilers take their time */
#define PLANES 1
#endif
#ifndef ROWS
#define ROWS 1
#endif
#ifndef WITHIN
#define WITHIN 1
#endif
#if CPU
#define VALUE MX_JOIN(ACC, VEC)
#else
#define VALUE ACC
#endif
#include "layers/lrn.h"

#if MOST > ROOM / 2 || MOST > 2 * VEC
#error "MOST is too large"
#endif

/* The tensors of a launch, from the first element of a line on: a step between rows and one between positions each. */
typedef struct {
    __global const T *x;
    __global const T *y;
    __global const T *dy;
    __global T *out;
    __global ACC *scales;
    long x_row, y_row, dy_row, out_row;
    long x_step, y_step, dy_step, out_step;
    long count; /* elements of a vector that are there */
    ACC k, a, beta;
} mx_view;

#if BACKWARD
#define OPEN(m, line, at)                                                                                    \
    mx_view m;                                                                                               \
    {                                                                                                        \
        const long line_ = (line), at_ = (at);                                                               \
        const long at_y = mx_grid_offset(p.grid, 1, line_) + at_ * p.grid.stride[1][4];                      \
        m.x = x + x_offset + mx_grid_offset(p.grid, 0, line_) + at_ * p.grid.stride[0][4];                   \
        m.y = y + y_offset + at_y;                                                                           \
        m.dy = dy + dy_offset + mx_grid_offset(p.grid, 3, line_) + at_ * p.grid.stride[3][4];                \
        m.out = dx + dx_offset + mx_grid_offset(p.grid, 2, line_) + at_ * p.grid.stride[2][4];               \
        m.scales = (__global ACC *)scales + scales_offset + at_y;                                            \
        m.x_row = p.row_step[0], m.y_row = p.row_step[1];                                                    \
        m.out_row = p.row_step[2], m.dy_row = p.row_step[3];                                                 \
        m.x_step = p.grid.stride[0][4], m.y_step = p.grid.stride[1][4];                                      \
        m.out_step = p.grid.stride[2][4], m.dy_step = p.grid.stride[3][4];                                   \
        m.count = 1, m.k = k, m.a = a, m.beta = beta;                                                        \
    }
#else
#if SAVE
#define MX_SCALES (scales + scales_offset + at_y)
#else
#define MX_SCALES 0
#endif
#define OPEN(m, line, at)                                                                                    \
    mx_view m;                                                                                               \
    {                                                                                                        \
        const long line_ = (line), at_ = (at);                                                               \
        const long at_y = mx_grid_offset(p.grid, 1, line_) + at_ * p.grid.stride[1][4];                      \
        m.x = x + x_offset + mx_grid_offset(p.grid, 0, line_) + at_ * p.grid.stride[0][4];                   \
        m.y = m.dy = 0;                                                                                      \
        m.out = y + y_offset + at_y;                                                                         \
        m.scales = MX_SCALES;                                                                                \
        m.x_row = p.row_step[0], m.out_row = p.row_step[1];                                                  \
        m.x_step = p.grid.stride[0][4], m.out_step = p.grid.stride[1][4];                                    \
        m.count = 1, m.k = k, m.a = a, m.beta = beta;                                                        \
    }
#endif

/* Before a loop that is rarely run: it is not worth a compiler's time. */
#define ONE_BY_ONE _Pragma("clang loop vectorize(disable) unroll(disable)")

/* take(p, i, step, count): elements i, i + step ...; put stores them.  With a step of 1 a whole vector is there. */
#if CPU
static inline VALUE take(__global const T *p, long i, long step, long count)
{
    if (step == 1 && count == VEC)
        return VLOAD(T_TYPE)(p, i);
    ACC lane[VEC];
    MX_JOIN(vstore, VEC)((VALUE)0, 0, lane);
    ONE_BY_ONE
    for (int l = 0; l < count; l++)
        lane[l] = LOAD(T_TYPE)(p, i + l * step);
    return MX_JOIN(vload, VEC)(0, lane);
}

static inline void put(__global T *p, long i, long step, long count, VALUE value)
{
    if (step == 1 && count == VEC) {
        VSTORE(T_TYPE)(p, i, value);
        return;
    }
    ACC lane[VEC];
    MX_JOIN(vstore, VEC)(value, 0, lane);
    ONE_BY_ONE
    for (int l = 0; l < count; l++)
        STORE(T_TYPE)(p, i + l * step, lane[l]);
}

static inline VALUE take_scale(__global const ACC *p, long i, long step, long count)
{
    if (step == 1 && count == VEC)
        return MX_JOIN(vload, VEC)(0, p + i);
    ACC lane[VEC];
    MX_JOIN(vstore, VEC)((VALUE)1, 0, lane);
    ONE_BY_ONE
    for (int l = 0; l < count; l++)
        lane[l] = p[i + l * step];
    return MX_JOIN(vload, VEC)(0, lane);
}

static inline void put_scale(__global ACC *p, long i, long step, long count, VALUE value)
{
    if (step == 1 && count == VEC) {
        MX_JOIN(vstore, VEC)(value, 0, p + i);
        return;
    }
    ACC lane[VEC];
    MX_JOIN(vstore, VEC)(value, 0, lane);
    ONE_BY_ONE
    for (int l = 0; l < count; l++)
        p[i + l * step] = lane[l];
}
#else
#define take(p, i, step, count) ((ACC)LOAD(T_TYPE)(p, i))
#define put(p, i, step, count, value) STORE(T_TYPE)(p, i, value)
#define take_scale(p, i, step, count) ((p)[i])
#define put_scale(p, i, step, count, value) ((p)[i] = (value))
#endif

/* What the window sums. */
static inline VALUE term(const mx_view *m, long row, long at)
{
#if BACKWARD
    const long i = row * m->y_row + at * m->y_step;
    return take(m->dy, row * m->dy_row + at * m->dy_step, m->dy_step, m->count) * take(m->y, i, m->y_step, m->count) /
           take_scale(m->scales, i, m->y_step, m->count);
#else
    const VALUE v = take(m->x, row * m->x_row + at * m->x_step, m->x_step, m->count);
    return v * v;
#endif
}

static inline void finish(const mx_view *m, long row, long at, VALUE sum)
{
    const long i = row * m->out_row + at * m->out_step;
    const VALUE v = take(m->x, row * m->x_row + at * m->x_step, m->x_step, m->count);
#if BACKWARD
    const VALUE s = take_scale(m->scales, row * m->y_row + at * m->y_step, m->y_step, m->count);
    const VALUE g = take(m->dy, row * m->dy_row + at * m->dy_step, m->dy_step, m->count);
    put(m->out, i, m->out_step, m->count, g * power(s, m->beta) - m->a * v * sum);
#else
    const VALUE s = m->k + m->a * sum;
#if SAVE
    put_scale(m->scales, i, m->out_step, m->count, s);
#endif
    put(m->out, i, m->out_step, m->count, v * power(s, m->beta));
#endif
}

#if CPU
/* A row is far from the next one in memory, and a work-item reads too little of it for the processor to foresee it. */
#define PREFETCH(p) MX_PREFETCH(p, 0)

/* Let term of one row and finish of another be read soon. */
static inline void prefetch_rows(const mx_view *m, long row, long finished, long at)
{
#if BACKWARD
    PREFETCH(m->x + finished * m->x_row + at * m->x_step);
    PREFETCH(m->y + row * m->y_row + at * m->y_step);
    PREFETCH(m->dy + row * m->dy_row + at * m->dy_step);
    PREFETCH(m->scales + row * m->y_row + at * m->y_step);
#else
    PREFETCH(m->x + row * m->x_row + at * m->x_step);
#endif
}
#endif

/* The sum over any number of rows, sixteen at a time, which are added up by two-sums so that errors stay small. */
static inline VALUE sum_rows(const mx_view *m, long from, long to, long at)
{
    VALUE sum = 0, rest = 0;
    while (from < to) {
        const long end = min(from + 16, to);
        VALUE part = 0;
        for (; from < end; from++)
            part += term(m, from, at);
        MX_TWO_SUM(VALUE, sum, rest, part);
    }
    return sum;
}

#if CPU

/* Vector number v of a line: the last one is moved back where that lets it be whole. */
#define START(v, length) min((v) * VEC, max((length) - VEC, 0L))

#if PLANES

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lrn_planes(BUFFERS, const mx_lrn p, const ACC k,
                                                                        const ACC a, const ACC beta)
{
    long id = (long)get_group_id(0);
    const long part = id % p.parts;
    id /= p.parts;
    const long block = id % p.blocks, length = p.grid.len[4], vectors = (length + VEC - 1) / VEC;
    const long first = block * vectors / p.blocks, last = (block + 1) * vectors / p.blocks;
    const long begin = part * p.rows / p.parts, end = (part + 1) * p.rows / p.parts;
    OPEN(m, id / p.blocks, 0)
    m.count = min(length, (long)VEC);
    if (!p.keep) {
        for (long row = begin; row < end; row++)
            for (long v = first; v < last; v++) {
                const long at = START(v, length);
                finish(&m, row, at, sum_rows(&m, max(row - p.before, 0L), min(row + p.after + 1, p.rows), at));
            }
        return;
    }
    VALUE ring[MOST][BLOCK];
    const int window = (int)(p.before + p.after + 1);
    long slot = 0;
    for (int i = 0; i < window; i++)
        for (long v = first; v < last; v++)
            ring[i][v - first] = 0;
    for (long row = max(begin - p.before, 0L); row < begin + p.after && row < p.rows; row++, slot++)
        for (long v = first; v < last; v++)
            ring[slot][v - first] = term(&m, row, START(v, length));
    slot = min(begin, p.before) + p.after; /* the last one at most; rows that are not there left zeros */
    for (long row = begin; row < end; row++) {
        if (row + p.after < p.rows)
            for (long v = first; v < last; v++)
                ring[slot][v - first] = term(&m, row + p.after, START(v, length));
        else
            for (long v = first; v < last; v++)
                ring[slot][v - first] = 0;
        for (long v = first; v < last; v++) {
            prefetch_rows(&m, row + p.after + 1, row + 1, START(v, length));
            VALUE sum = ring[0][v - first];
            for (int i = 1; i < window; i++)
                sum += ring[i][v - first];
            finish(&m, row, START(v, length), sum);
        }
        slot = slot + 1 == window ? 0 : slot + 1;
    }
}

#endif

/* Write to q the terms of a row from position from - before on, up to to + after; there are zeros beside the row. */
static inline void fill_line(mx_view *m, ACC *q, long row, long from, long to, long before, long after, long length)
{
    ACC *zero = q + before - from;
    const long end = min(to + after, length);
    long at = from - before;
    for (; at < 0; at += VEC)
        MX_JOIN(vstore, VEC)((VALUE)0, 0, zero + at);
    for (at = max(from - before, 0L); at < end; at += VEC) {
        m->count = min(end - at, (long)VEC);
        MX_JOIN(vstore, VEC)(term(m, row, at), 0, zero + at);
    }
    for (; at < to + after; at += VEC)
        MX_JOIN(vstore, VEC)((VALUE)0, 0, zero + at);
}

#if ROWS

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lrn_rows(BUFFERS, const mx_lrn p, const ACC k, const ACC a,
                                                                      const ACC beta)
{
    ACC q[ROOM + VEC];
    const long block = (long)get_group_id(0) % p.blocks, length = p.grid.len[4];
    const long first = block * length / p.blocks, last = (block + 1) * length / p.blocks;
    OPEN(m, (long)get_group_id(0) / p.blocks, 0)
    /* Vectors lie along the channels here. */
    m.x_row = m.x_step, m.out_row = m.out_step, m.x_step = m.out_step = 1;
#if BACKWARD
    m.y_row = m.y_step, m.dy_row = m.dy_step, m.y_step = m.dy_step = 1;
#endif
    const int window = (int)(p.before + p.after + 1);
    const long chunk = min(p.rows, (long)(ROOM + 1 - window)), pitch = chunk + window - 1, together = ROOM / pitch;
    for (long group = first; group < last; group += together) {
        const long stop = min(group + together, last);
        for (long from = 0; from < p.rows; from += chunk) {
            const long to = min(from + chunk, p.rows), count = min(to - from, (long)VEC);
            for (long at = group; at < stop; at++)
                fill_line(&m, q + (at - group) * pitch, at, from, to, p.before, p.after, p.rows);
            m.count = count;
            for (long at = group; at < stop; at++)
                for (long c = 0; c < to - from; c += VEC) {
                    const long start = min(c, to - from - count);
                    const ACC *terms = q + (at - group) * pitch + start;
                    VALUE sum = MX_JOIN(vload, VEC)(0, terms);
                    for (int i = 1; i < window; i++)
                        sum += MX_JOIN(vload, VEC)(0, terms + i);
                    finish(&m, at, from + start, sum);
                }
        }
    }
}

#endif

#if WITHIN

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void lrn_within(BUFFERS, const mx_lrn p, const ACC k,
                                                                        const ACC a, const ACC beta)
{
    long id = (long)get_group_id(0);
    const long part = id % p.parts;
    id /= p.parts;
    const long block = id % p.blocks;
    id /= p.blocks;
    const long begin = part * p.rows / p.parts, end = (part + 1) * p.rows / p.parts;
    const long from = block * p.columns / p.blocks, to = (block + 1) * p.columns / p.blocks;
    OPEN(m, id / p.grid.len[4], id % p.grid.len[4])
    m.x_step = p.column_step[0];
#if BACKWARD
    m.y_step = p.column_step[1], m.out_step = p.column_step[2], m.dy_step = p.column_step[3];
#else
    m.out_step = p.column_step[1];
#endif
    if (!p.keep) {
        for (long row = begin; row < end; row++)
            for (long column = from; column < to; column++) {
                VALUE sum = 0, rest = 0;
                for (long at = max(column - p.before, 0L); at < min(column + p.after + 1, p.columns); at++)
                    MX_TWO_SUM(VALUE, sum, rest,
                               sum_rows(&m, max(row - p.before, 0L), min(row + p.after + 1, p.rows), at));
                finish(&m, row, column, sum);
            }
        return;
    }
    /* Sums over the rows of each column first, then over columns. */
    ACC ring[MOST][(BLOCK + 3) * VEC], sums[(BLOCK + 3) * VEC];
    const int window = (int)(p.before + p.after + 1);
    const long count = min(to - from, (long)VEC), width = to - from + window - 1;
    long slot = 0;
    for (int i = 0; i < window; i++)
        for (long at = 0; at < width; at += VEC)
            MX_JOIN(vstore, VEC)((VALUE)0, 0, ring[i] + at);
    for (long row = max(begin - p.before, 0L); row < begin + p.after && row < p.rows; row++, slot++)
        fill_line(&m, ring[slot], row, from, to, p.before, p.after, p.columns);
    slot = min(begin, p.before) + p.after;
    for (long row = begin; row < end; row++) {
        if (row + p.after < p.rows)
            fill_line(&m, ring[slot], row + p.after, from, to, p.before, p.after, p.columns);
        else
            for (long at = 0; at < width; at += VEC)
                MX_JOIN(vstore, VEC)((VALUE)0, 0, ring[slot] + at);
        for (long at = 0; at < width; at += VEC) {
            VALUE sum = MX_JOIN(vload, VEC)(0, ring[0] + at);
            for (int i = 1; i < window; i++)
                sum += MX_JOIN(vload, VEC)(0, ring[i] + at);
            MX_JOIN(vstore, VEC)(sum, 0, sums + at);
        }
        m.count = count;
        for (long c = 0; c < to - from; c += VEC) {
            const long start = min(c, to - from - count);
            VALUE sum = MX_JOIN(vload, VEC)(0, sums + start);
            for (int i = 1; i < window; i++)
                sum += MX_JOIN(vload, VEC)(0, sums + start + i);
            finish(&m, row, from + start, sum);
        }
        slot = slot + 1 == window ? 0 : slot + 1;
    }
}

#endif

#else

#if PLANES

__kernel void lrn_items(BUFFERS, const mx_lrn p, const ACC k, const ACC a, const ACC beta)
{
    const INDEX id = (INDEX)get_global_id(0), length = (INDEX)p.grid.len[4], parts = (INDEX)p.parts;
    const INDEX positions = length * (INDEX)(p.grid.len[0] * p.grid.len[1] * p.grid.len[2] * p.grid.len[3]);
    if (id >= positions * parts)
        return;
    const INDEX part = p.rows_first ? id % parts : id / positions, at = p.rows_first ? id / parts : id % positions;
    const long begin = (long)part * p.rows / p.parts, end = ((long)part + 1) * p.rows / p.parts;
    OPEN(m, at / length, at % length)
#if N
    ACC ring[N];
#pragma unroll
    for (int i = 1; i < N; i++) {
        const long row = begin - p.before + i - 1;
        ring[i] = row >= 0 && row < p.rows ? term(&m, row, 0) : 0;
    }
    for (long row = begin; row < end; row++) {
        ACC sum = 0;
#pragma unroll
        for (int i = 1; i < N; i++) {
            ring[i - 1] = ring[i];
            sum += ring[i];
        }
        ring[N - 1] = row + p.after < p.rows ? term(&m, row + p.after, 0) : 0;
        finish(&m, row, 0, sum + ring[N - 1]);
    }
#else
    for (long row = begin; row < end; row++)
        finish(&m, row, 0, sum_rows(&m, max(row - p.before, 0L), min(row + p.after + 1, p.rows), 0));
#endif
}

#endif

#if WITHIN

__kernel void lrn_window(BUFFERS, const mx_lrn p, const ACC k, const ACC a, const ACC beta)
{
    INDEX id = (INDEX)get_global_id(0);
    const INDEX length = (INDEX)p.grid.len[4], rows = (INDEX)p.rows, columns = (INDEX)p.columns;
    const INDEX planes = length * (INDEX)(p.grid.len[0] * p.grid.len[1] * p.grid.len[2] * p.grid.len[3]);
    if (id >= planes * rows * columns)
        return;
    const INDEX plane = p.rows_first ? id % planes : id / (rows * columns);
    id = p.rows_first ? id / planes : id % (rows * columns);
    const long row = id / columns, column = id % columns;
    OPEN(m, plane / length, plane % length)
    m.x_step = p.column_step[0];
#if BACKWARD
    m.y_step = p.column_step[1], m.out_step = p.column_step[2], m.dy_step = p.column_step[3];
#else
    m.out_step = p.column_step[1];
#endif
    ACC sum = 0, rest = 0;
    for (long at = max(column - p.before, 0L); at < min(column + p.after + 1, p.columns); at++)
        MX_TWO_SUM(ACC, sum, rest, sum_rows(&m, max(row - p.before, 0L), min(row + p.after + 1, p.rows), at));
    finish(&m, row, column, sum);
}

#endif

#endif
