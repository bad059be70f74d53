/* Dropout on CPUs; layers/dropout.h has the formulas.
 *
 *   |  64 |  64 |  64 | ..     A group has a range of blocks of 64 elements, in the order of their axes: 16 counters,
 *                              whose words lie in four vectors and are turned to the order of the elements.
 *
 *   dropout_apply    both directions
 *   dropout_states   the states begin
 *
 * Grid:       groups of one work-item, dropout_apply: as many as there are blocks at most, and PLACES.
 * Parameters: those of layers/dropout.h, VEC 16; a block that is dense in x and y is read and written in vectors.
 * Bound by:   memory, of float16 by Philox's multiplications.
 */
#define VEC 16
#include "layers/dropout.h"

#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
#define BLOCK 64
typedef MX_JOIN(ACC, VEC) V;
#if MX_TYPE(ACC) == MX_TYPE_double
#define GET(p, i) convert_double16(VLOAD(T)(p, i))
#define CHOICE(keep) convert_long16(keep)
#else
#define GET(p, i) VLOAD(T)(p, i)
#define CHOICE(keep) (keep)
#endif

/* Words k, k + 4, k + 8, k + 12 of each of four vectors, in the order of their elements. */
#define TURN(k0, k1, k2, k3)                                                                           \
    (uint16)(a.k0, b.k0, c.k0, d.k0, a.k1, b.k1, c.k1, d.k1, a.k2, b.k2, c.k2, d.k2, a.k3, b.k3, c.k3, d.k3)

/* Whether each of the 64 elements from number i on stays, as 0 and -1. */
static inline void draw(ulong i, ulong seed, ulong masks, uint least, int16 keep[4])
{
    const ulong16 counter = i / 4 + (ulong16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint16 a = convert_uint16(counter), b = convert_uint16(counter >> 32ul);
    uint16 c = (uint16)(uint)masks, d = (uint16)(uint)(masks >> 32);
    PHILOX(uint16, a, b, c, d, seed);
    keep[0] = (TURN(s0, s1, s2, s3) >> 8u) >= least;
    keep[1] = (TURN(s4, s5, s6, s7) >> 8u) >= least;
    keep[2] = (TURN(s8, s9, sa, sb) >> 8u) >= least;
    keep[3] = (TURN(sc, sd, se, sf) >> 8u) >= least;
}

KERNEL dropout_apply(ARGUMENTS)
{
    OFFSETS;
    const long me = get_group_id(0), groups = get_num_groups(0), blocks = (s.count + BLOCK - 1) / BLOCK;
    const long row = s.g.len[4], x_step = s.g.stride[1][4], y_step = s.g.stride[2][4];
    const uint least = (uint)least_stay;
#if DRAWS
    const ulong seed = states[2 * me], masks = states[2 * me + 1] - seed;
#if EVOLVES
    for (long place = me; place < PLACES; place += groups)
        states[2 * place + 1] = seed + masks + 1;
#endif
#endif
    const long first = me * blocks / groups * BLOCK, end = min(s.count, (me + 1) * blocks / groups * BLOCK);
    long line = first / row, from = first - line * row;
    long x_row = mx_grid_offset(s.g, 1, line), y_row = mx_grid_offset(s.g, 2, line);
    for (long i = first; i < end; i += BLOCK) {
        const long last = min(end, i + BLOCK);
        int16 keep[4];
#if DRAWS
        draw((ulong)i, seed, masks, least, keep);
#endif
        if (i + BLOCK == last && from + BLOCK <= row && x_step == 1 && y_step == 1) {
            const bool streams = STREAM && BEFORE_STREAM(y + y_row + from) == 0;
            __attribute__((opencl_unroll_hint(4))) for (int k = 0; k < 4; k++)
            {
                const V v = GET(x, x_row + from + k * VEC);
#if DRAWS
                const int16 stays = keep[k];
#else
                const int16 stays = convert_int16(vload16(0, mask + i + k * VEC)) != 0;
#endif
                const V w = CHOICE(stays) ? v * (ACC)scale : (V)0;
                if (streams)
                    VSTREAM(T)(y, y_row + from + k * VEC, w);
                else
                    VSTORE(T)(y, y_row + from + k * VEC, w);
#if MASKS == 1
                vstore16(convert_uchar16(stays & 1), 0, mask + i + k * VEC);
#endif
            }
            from += BLOCK;
        } else {
            for (long j = i; j < last; j++, from++) {
                if (from == row) {
                    from = 0;
                    line++;
                    x_row = mx_grid_offset(s.g, 1, line), y_row = mx_grid_offset(s.g, 2, line);
                }
#if DRAWS
                const bool stays = ((const int *)keep)[j - i] != 0;
#else
                const bool stays = mask[j] != 0;
#endif
                const ACC v = stays ? (ACC)LOAD(T)(x, x_row + from * x_step) * (ACC)scale : (ACC)0;
                STORE(T)(y, y_row + from * y_step, v);
                if (MASKS == 1)
                    mask[j] = stays;
            }
        }
        if (from == row) {
            from = 0;
            line++;
            x_row = mx_grid_offset(s.g, 1, line), y_row = mx_grid_offset(s.g, 2, line);
        }
    }
}

KERNEL dropout_states(__global ulong *states, long states_offset, const float low, const float middle, const float high)
{
    const ulong seed = (ulong)low | (ulong)middle << 22 | (ulong)high << 44;
    states += states_offset;
    for (int i = 0; i < 2 * PLACES; i++)
        states[i] = seed;
}
