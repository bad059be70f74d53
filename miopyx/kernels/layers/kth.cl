/* The k-th smallest number of each row, and where its first one is.
 *
 * Keys are whole numbers in the order of the numbers: -0 and 0 are equal, NaN comes last.  From the highest byte of the
 * keys on, those that still count are counted by this byte; the k-th one's byte is known then.
 *
 * Grid:         LOCAL = 1, CPUs: any, a work-item has some rows; else GPUs: a work-group of LOCAL for each row.
 * Local memory: LOCAL > 1: 260 numbers.
 * Parameters:   T, LOCAL, below.
 * Bound by:     counting: each byte of the keys is a pass over the row.
 */
#ifndef T
#define T float
#endif
#ifndef LOCAL
#define LOCAL 1
#endif
#include "include/common.h"
#include "layers/rows_args.h"

#if MX_TYPE(T) == MX_TYPE_double
typedef ulong key_t;
#define INFINITE 0x7ff0000000000000ul
#elif MX_TYPE(T) == MX_TYPE_float
typedef uint key_t;
#define INFINITE 0x7f800000u
#elif MX_TYPE(T) == MX_TYPE_half
typedef ushort key_t;
#define INFINITE 0x7c00u
#elif MX_TYPE(T) == MX_TYPE_bfloat16
typedef ushort key_t;
#define INFINITE 0x7f80u
#else
#error "T must be half, float, double or bfloat16"
#endif
#define BITS (8 * (int)sizeof(key_t))
#define SIGN ((key_t)((key_t)1 << (BITS - 1)))

static inline key_t key_of(__global const STORAGE(T) *p)
{
    const key_t bits = *(__global const key_t *)p, size = bits & (key_t)~SIGN;
    if (size > (key_t)INFINITE)
        return (key_t)~(key_t)0;
    if (size == 0)
        return SIGN;
    return bits & SIGN ? (key_t)~bits : (key_t)(bits | SIGN);
}

#if LOCAL == 1
#define SPACE
#define SYNC
#define ADD_ONE(p) (*(p) += 1)
#else
#define SPACE __local
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
#define ADD_ONE(p) atomic_inc(p)
#endif

__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) void kth(
    __global const STORAGE(T) *x, long x_offset, __global STORAGE(T) *y, long y_offset, __global long *indices,
    long indices_offset, const mx_kth_shape s)
{
    SPACE uint count[256];
    SPACE uint chosen[4]; /* the byte, what is left of k, the first place */
    const int me = LOCAL == 1 ? 0 : get_local_id(0);
    const long groups = get_num_groups(0), group = get_group_id(0);
    for (long row = group * s.rows / groups; row < (group + 1) * s.rows / groups; row++) {
        const long last = row % s.g.len[4], line = row / s.g.len[4];
        __global const STORAGE(T) *from =
            x + x_offset + mx_grid_offset(s.g, 0, line) + last * s.g.stride[0][4];
        key_t prefix = 0, mask = 0;
        uint left = (uint)s.k;
        for (int shift = BITS - 8; shift >= 0; shift -= 8) {
            for (int i = me; i < 256; i += LOCAL)
                count[i] = 0;
            SYNC;
            for (long i = me; i < s.length; i += LOCAL) {
                const key_t key = key_of(from + i * s.step);
                if ((key & mask) == prefix)
                    ADD_ONE(&count[key >> shift & 0xff]);
            }
            SYNC;
            if (me == 0) {
                uint byte = 0, rest = left;
                for (; count[byte] < rest; byte++)
                    rest -= count[byte];
                chosen[0] = byte;
                chosen[1] = rest;
                chosen[2] = 0xffffffffu;
            }
            SYNC;
            left = chosen[1];
            prefix |= (key_t)((key_t)chosen[0] << shift);
            mask |= (key_t)((key_t)0xff << shift);
        }
        SYNC;
        for (long i = me; i < s.length; i += LOCAL)
            if (key_of(from + i * s.step) == prefix) {
#if LOCAL == 1
                chosen[2] = (uint)i;
#else
                atomic_min(&chosen[2], (uint)i);
#endif
                break;
            }
        SYNC;
        if (me == 0) {
            const long at = chosen[2];
            y[y_offset + mx_grid_offset(s.g, 1, line) + last * s.g.stride[1][4]] = from[at * s.step];
            indices[indices_offset + mx_grid_offset(s.g, 2, line) + last * s.g.stride[2][4]] = at;
        }
        SYNC;
    }
}
