/* A tile of up to 128 pixels x 64 channels of one group in local memory, 16 bits an element, on its way between a
 * tensor of any strides and a copy with channels last: conv/nvidia/pack.cl and conv/nvidia/tf32_pack.cl.  After
 * conv/nvidia/pack_args.h and include/quotient.h.
 */

#define ITEMS 256
#define TILE 128    /* pixels */
#define CHANNELS 64 /* of a pixel: 32 words, or 8 chunks of 16 bytes */
#define WHOLE_PITCH (CHANNELS / 2 + 1)
#define TILE_WORDS (TILE * WHOLE_PITCH)

/* The address of word `pair` of a tile's pixel.  Swizzled, chunk c at c ^ (p / run): neither words of every `run`th
 * pixel nor chunks of one pixel conflict.  Where single elements are written, run 0, a pixel has an odd number of
 * words. */
static inline int mx_in_tile(int p, int pair, int run)
{
    return run == 0 ? p * WHOLE_PITCH + pair
                    : p * (CHANNELS / 2) + ((pair >> 2 ^ (p / run & 7)) << 2) + (pair & 3);
}

static inline uint4 mx_chunk_of_tile(__local const uint *tile, int p, int chunk, int run)
{
    __local const uint *at = tile + mx_in_tile(p, chunk * 4, run);
    return run == 0 ? (uint4)(at[0], at[1], at[2], at[3]) : *(__local const uint4 *)at;
}

/* What a group works on: pixels from m0 on, `many` of them, and channels from c0 on of one group. */
typedef struct {
    int m0, many, c0, group;
} mx_tile;

static inline mx_tile mx_tile_of(int number, const mx_nv_pixels *g)
{
    mx_tile t;
    const int tile = mx_quotient(number, g->by_blocks), block = number - tile * g->blocks;
    const int down = (g->reduced + CHANNELS - 1) / CHANNELS;
    t.group = g->groups == 1 ? 0 : block / down;
    t.c0 = (block - t.group * down) * CHANNELS;
    t.m0 = tile * g->tile_pixels;
    t.many = min(g->tile_pixels, g->images * g->h * g->w - t.m0);
    return t;
}

/* The offset of `run` pixels in the strided tensor, -1: none. */
static inline int mx_place_of_pixels(int p, const mx_tile *t, const mx_nv_pixels *g, int run)
{
    const int m = t->m0 + p, n = mx_quotient(m, g->by_image), rest = m - n * (g->h * g->w);
    const int h = mx_quotient(rest, g->by_row);
    if (p >= t->many)
        return -1;
    return n * g->from_n + (run > 1 ? rest : h * g->from_h + (rest - h * g->w) * g->from_w);
}

/* run: so many pixels are read or written at once, since they are contiguous and equally aligned in every row: 8, 4, 2
 * or 1; 0: all channels of whole images, 16 bytes at once.  A constant. */
#define EACH_RUN(run, l, k)                                                        \
    _Pragma("unroll") for (int l = 0; l < TILE / 64; l++)                          \
        _Pragma("unroll") for (int k = 0; k < CHANNELS / 2 * 64 / ((run) * ITEMS); k++)
#define RUNS_ACROSS(run) (64 / (run))

/* Chunks of a tile's pixels, contiguous channels; with `reduced` a multiple of 8 there are only whole ones. */
#define EACH_CHUNK_OF_PIXELS(l, p, chunk, of)                                                             \
    const int chunk = get_local_id(0) % (CHANNELS / 8);                                                   \
    if (t.c0 + chunk * 8 < (of))                                                                          \
        _Pragma("unroll") for (int l = 0; l < TILE * CHANNELS / 8 / ITEMS; l++)                           \
            for (int p = get_local_id(0) / (CHANNELS / 8) + l * (ITEMS * 8 / CHANNELS); p < t.many; p = t.many)

static inline __attribute__((always_inline)) void mx_store_packed(
    __global ushort *to, __local const uint *tile, const mx_tile t, const mx_nv_pixels *g, const int run)
{
    to += (long)t.m0 * g->groups * g->reduced + t.group * g->reduced + t.c0;
    EACH_CHUNK_OF_PIXELS(l, p, chunk, g->reduced) {
        const uint4 found = mx_chunk_of_tile(tile, p, chunk, run);
        __global ushort *at = to + p * g->groups * g->reduced + chunk * 8;
        if (((ulong)to & 15) == 0)
            *(__global uint4 *)at = found;
        else
            vstore8(as_ushort8(found), 0, at);
    }
}
