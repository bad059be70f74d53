/* What the tensor-core kernels for few channels a group share, after include/common.h and conv/nvidia/ptx.h.
 *
 * Channels are taken 16 at a time, whatever the groups: a block of 16 x 16 weights a tap, zeros where a filter and a
 * channel are of different groups.  Tensors of 16 bits are channels last, a multiple of 8; `each`, those of a
 * group, is a power of two.  A work-group takes BLOCKS neighbouring blocks of tile after tile: tile_n images of tile_p
 * x tile_q pixels of the grid, for which it copies the pixels of x that they read into local memory, `slots` of PITCH
 * bytes: 8 neighbours meet every bank once.
 */
#include "conv/nvidia/grouped_args.h"

#ifndef X_TYPE
#define X_TYPE half
#endif
#ifndef BLOCKS /* 1, 2 or 4 */
#define BLOCKS 4
#endif
#ifndef IN_BLOCKS /* blocks of channels that a block of filters reads: more than 1 in groups of more than 16 channels */
#define IN_BLOCKS 1
#endif
#ifndef STEPS /* pixels of a warp, in sixteens */
#define STEPS 4
#endif
#ifndef SLOTS
#define SLOTS 192
#endif
#ifndef STAGES /* 2: the next tile is copied while this one is summed */
#define STAGES 1
#endif
#define WARPS 8
#define THREADS (32 * WARPS)
#define CHUNKS (2 * BLOCKS) /* of 16 bytes, of a pixel */
#define PITCH (16 * CHUNKS + 16)
#define PIXELS (WARPS / BLOCKS * STEPS * 16)

typedef struct {
    int n, p, q;
} mx_nv_pixel;

static inline mx_nv_pixel mx_corner(int tile, const mx_nv_grouped g)
{
    mx_nv_pixel at;
    const int line = mx_quotient(tile, g.by_across), n = mx_quotient(line, g.by_down);
    at.n = n * g.tile_n;
    at.p = (line - n * g.down) * g.tile_p;
    at.q = (tile - line * g.across) * g.tile_q;
    return at;
}

/* Pixel number i of a tile, counted from its corner. */
static inline mx_nv_pixel mx_within(int i, const mx_nv_grouped g)
{
    mx_nv_pixel at;
    const int line = mx_quotient(i, g.by_tile_q);
    at.n = mx_quotient(line, g.by_tile_p);
    at.p = line - at.n * g.tile_p;
    at.q = i - line * g.tile_q;
    return at;
}

static inline bool mx_on_grid(int i, mx_nv_pixel corner, mx_nv_pixel in, const mx_nv_grouped g)
{
    return i < g.tile_n * g.tile_p * g.tile_q && corner.n + in.n < g.images && corner.p + in.p < g.p
           && corner.q + in.q < g.q;
}

/* The pixels of x that a tile reads: channels c to c + 8 of the work-item. */
#define MX_COPY_TILE(COPY16, to, X, g, tile, c)                                                                  \
    do {                                                                                                        \
        const mx_nv_pixel corner = mx_corner(tile, g);                                                          \
        const int h0 = corner.p * g.step_h + g.first_h + g.low_h, w0 = corner.q * g.step_w + g.first_w + g.low_w; \
        const int slots = g.tile_n * g.rows * g.columns;                                                        \
        _Pragma("unroll 2") for (int slot = get_local_id(0) / CHUNKS; slot < slots; slot += THREADS / CHUNKS) { \
            const int line = mx_quotient(slot, g.by_columns), n = mx_quotient(line, g.by_rows);                 \
            const int h = h0 + line - n * g.rows, w = w0 + slot - line * g.columns;                             \
            const bool valid = (c) < g.channels && corner.n + n < g.images && (uint)h < (uint)g.h               \
                               && (uint)w < (uint)g.w;                                                          \
            COPY16((to) + slot * PITCH, X + (valid ? (corner.n + n) * g.x_n + h * g.x_h + w * g.x_w + (c) : 0), \
                   valid);                                                                                      \
        }                                                                                                       \
    } while (0)

/* The ring of a work-group's tiles.  The kernel says COPY_TILE_WITH(COPY16, stage, tile), and whether all is `aligned`.
 * A tile begins when it has come, while the next one is copied; with one stage the next is copied when it ends. */
#define COPY_TILE(stage, tile)                                                                                  \
    do {                                                                                                        \
        if (aligned)                                                                                            \
            COPY_TILE_WITH(MX_COPY16, stage, tile);                                                             \
        else                                                                                                    \
            COPY_TILE_WITH(mx_copy_halves, stage, tile);                                                        \
    } while (0)
#define BEGIN_TILE()                                                                                            \
    do {                                                                                                        \
        if (STAGES == 2) {                                                                                      \
            if (tile + g.workers < g.tiles)                                                                     \
                COPY_TILE(stage ^ 1, tile + g.workers);                                                         \
            MX_COMMIT();                                                                                        \
            MX_WAIT(1);                                                                                         \
        } else                                                                                                  \
            MX_WAIT(0);                                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
    } while (0)
#define END_TILE()                                                                                              \
    do {                                                                                                        \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                           \
        if (STAGES == 2)                                                                                        \
            stage ^= 1;                                                                                         \
        else {                                                                                                  \
            if (tile + g.workers < g.tiles)                                                                     \
                COPY_TILE(0, tile + g.workers);                                                                 \
            MX_COMMIT();                                                                                        \
        }                                                                                                       \
    } while (0)
