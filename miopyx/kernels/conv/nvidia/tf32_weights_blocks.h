/* Slices of backward weights of floats as tensor maps copy them: DEPTH pixels of BM filters and BN columns, rounded to
 * TF32.  After conv/nvidia/tensor_maps.h and places.h.
 *
 * A slice is blocks of DEPTH pixels, first of dy, then of x, rows of 32 floats: chunk c of 16 bytes of row r is at
 * c ^ (r % 8).  `reduced` and filters of a group are multiples of 32, so that a block has one tap.
 */
#define BLOCK_BYTES (DEPTH * ROW_BYTES) /* of 32 filters, or columns */
#define Y_BLOCKS (BM / 32)
#define X_BLOCKS (BN / 32)
#define STAGE_BYTES ((Y_BLOCKS + X_BLOCKS) * BLOCK_BYTES)
#define STEPS (DEPTH / 8)

/* Eight pixels of 16 neighbours of a block, by pairs: of pixel 2 t, and of the next; `from`: see mx_at. */
static inline __attribute__((always_inline)) void mx_load_pairs(uint2 *pairs, uint from, int step, int sixteen)
{
#pragma unroll
    for (int k = 0; k < 2; k++)
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                     : "=r"(pairs[k].x), "=r"(pairs[k].y)
                     : "r"((from ^ (sixteen % 2 * 64 | k * 16)) + sixteen / 2 * BLOCK_BYTES + step * (8 * ROW_BYTES)
                           + k * ROW_BYTES)
                     : "memory");
}

/* A lane's first pair within a block: pixel 2 t, neighbours 2 g and 2 g + 1. */
static inline uint mx_at(int lane)
{
    const int t = lane & 3, g = lane >> 2;
    return 2 * t * ROW_BYTES + ((g / 2 ^ 2 * t) << 4) + g % 2 * 8;
}

/* A tile: its group, its first filter and column, how many blocks it has; and what a lane copies of each slice, block
 * `lane`. */
typedef struct {
    int group, m0, n0, blocks, channel, tap;
    bool of_y;
} mx_tile_blocks;

static inline mx_tile_blocks mx_blocks_of(int tile, int down, int across, int columns, int lane, const mx_nv_conv *g)
{
    const int group = tile / (down * across), m0 = tile % down * BM, n0 = tile / down % across * BN;
    const bool of_y = lane < Y_BLOCKS;
    const int column = n0 + (lane - Y_BLOCKS) * 32, tap = column / g->reduced, row = tap / g->taps_w;
#if AXES == 3
    const int tap_d = row / MX_ROW(g->taps_h), tap_h = row - tap_d * MX_ROW(g->taps_h);
#else
    const int tap_d = 0, tap_h = row;
#endif
    const mx_tile_blocks found = {
        group, m0, n0, Y_BLOCKS + (min(columns - n0, BN) + 31) / 32,
        of_y ? group * g->filters + m0 + lane * 32 : group * g->reduced + column - tap * g->reduced,
        mx_tap_of(tap_d, tap_h, tap - row * g->taps_w, g), of_y};
    return found;
}

/* By a warp: a slice of the tile into the stage at `to`, which nobody reads any more; `arrived` is its barrier. */
static inline __attribute__((always_inline)) void mx_copy_blocks(
    uint to, uint arrived, const mx_tile_blocks *own, int slice, int lane, ulong x_map_at, ulong y_map_at,
    const MX_PROBLEM *MX_GIVEN)
{
    to += lane * BLOCK_BYTES;
    if (lane == 0)
        mx_barrier_expect(arrived, own->blocks * BLOCK_BYTES);
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if (own->of_y)
        MX_COPY_ROWS(to, y_map_at, own->channel, slice * DEPTH, arrived);
    else if (lane < own->blocks) {
        const mx_pixel pixel = mx_pixel_of(slice * DEPTH, MX_GIVEN);
        MX_COPY_PIXELS(to, x_map_at, own->channel, pixel, own->tap, arrived);
    }
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}
