/* Copies into local memory by tensor maps (TMA): a launch's parameter says how a tensor lies, one work-item asks for a
 * box of it, and a barrier counts the bytes that arrive.  After conv/nvidia/wgmma.h and volume.h.
 *
 * Boxes have rows of 128 bytes, swizzled as wgmma reads them.  What is outside of the tensor is zero.
 */
#ifndef MIOPYX_NV_TENSOR_MAPS_H
#define MIOPYX_NV_TENSOR_MAPS_H
typedef struct __attribute__((aligned(64))) {
    ulong words[16]; /* as the runtime makes it of a tensor_map_t */
} mx_tensor_map;

/* Where a kernel's parameter lies: copies take maps from there, not from the stack. */
#define MX_PARAMETER_AT(at, kernel, number) \
    asm volatile("//@{ .reg .b64 t; mov.b64 t, " kernel "_param_" number "; cvta.param.u64 %0, t; }" : "=l"(at))

/* Arrives, and lets the barrier wait for so many bytes. */
static inline void mx_barrier_expect(uint barrier_at, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_at), "r"(bytes) : "memory");
}

#define MX_BOX(axes, way) "//@cp.async.bulk.tensor." axes ".shared::cluster.global." way ".mbarrier::complete_tx::bytes "

/* Rows from `row` on, 64 elements from `column` on of each. */
#define MX_COPY_ROWS(to, map, column, row, barrier_at)                                                                 \
    asm volatile(MX_BOX("2d", "tile") "[%0], [%1, {%2, %3}], [%4];"                                                    \
                 ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier_at) : "memory")
/* The same of rows that the map reorders within blocks. */
#define MX_COPY_ROW_BLOCKS(to, map, column, block, barrier_at)                                                         \
    asm volatile(MX_BOX("5d", "tile") "[%0], [%1, {%2, %5, %5, %5, %3}], [%4];"                                        \
                 ::"r"(to), "l"(map), "r"(column), "r"(block), "r"(barrier_at), "r"(0) : "memory")

/* 128 bytes of contiguous pixels, from one on, of an image's channels from one on. */
#define MX_COPY_CHANNELS(to, map, pixel, channel, n, barrier_at)                                                       \
    asm volatile(MX_BOX("3d", "tile") "[%0], [%1, {%2, %3, %4}], [%5];"                                                \
                 ::"r"(to), "l"(map), "r"(pixel), "r"(channel), "r"(n), "r"(barrier_at) : "memory")

/* The other way: rows of local memory to a tensor, in the background, once work-items' writes were published.  Who asked
 * for them waits until all but `left` of the groups that it committed were read. */
#define MX_STORE_ROWS(map, column, row, from)                                                             \
    asm volatile("//@cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"      \
                 ::"l"(map), "r"(column), "r"(row), "r"(from) : "memory")
#define MX_STORES_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define MX_STORES_READ(left) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(left) : "memory")

/* The place in x of a pixel's lowest tap, and of taps by their distances from that one: 8 bits each along w, h, d. */
typedef struct {
    int n, d, h, w;
} mx_pixel;

#define MX_LOWEST(first, taps, tap) ((first) + min(0, ((taps)-1) * (tap)))
#define MX_ABOVE_LOWEST(i, taps, tap) ((i) * (tap) - min(0, ((taps)-1) * (tap)))
#if AXES == 3
static inline mx_pixel mx_pixel_of(int m, const mx_nv_volume *v)
{
    const mx_nv_conv *g = &v->conv;
    const int n = mx_quotient(m, g->by_image), rest = m - n * (MX_BOTH(g->p) * g->q);
    const int row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
    const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p);
    const mx_pixel found = {
        n, o * MX_DEEP(g->step_h) + MX_LOWEST(MX_DEEP(g->first_h), MX_DEEP(g->taps_h), MX_DEEP(g->tap_h)),
        p * MX_ROW(g->step_h) + MX_LOWEST(MX_ROW(g->first_h), MX_ROW(g->taps_h), MX_ROW(g->tap_h)),
        q * g->step_w + MX_LOWEST(g->first_w, g->taps_w, g->tap_w)};
    return found;
}
static inline int mx_tap_of(int tap_d, int tap_h, int tap_w, const mx_nv_conv *g)
{
    return MX_ABOVE_LOWEST(tap_w, g->taps_w, g->tap_w) | MX_ABOVE_LOWEST(tap_h, MX_ROW(g->taps_h), MX_ROW(g->tap_h)) << 8
           | MX_ABOVE_LOWEST(tap_d, MX_DEEP(g->taps_h), MX_DEEP(g->tap_h)) << 16;
}
/* A tap's place in a filter, and whether the next tap is the first one again. */
#define MX_TAP_IN_W(tap_d, tap_h, tap_w) \
    (g.w_first + (tap_d) * volume.w_d + (tap_h) * g.w_h + (tap_w) * g.w_w)
#define MX_NEXT_TAP(of, tap_d, tap_h, tap_w)                                                       \
    (++(tap_w) == (of).taps_w                                                                      \
     && ((tap_w) = 0, ++(tap_h) == MX_ROW((of).taps_h))                                            \
     && ((tap_h) = 0, ++(tap_d) == MX_DEEP((of).taps_h)) && ((tap_d) = 0, true))
/* 128 bytes of channels of the pixels from one on, at a tap. */
#define MX_COPY_PIXELS(to, map, channel, pixel, tap, barrier_at)                                                       \
    asm volatile(MX_BOX("5d", "im2col") "[%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10};"                       \
                 ::"r"(to), "l"(map), "r"(channel), "r"((pixel).w), "r"((pixel).h), "r"((pixel).d), "r"((pixel).n),    \
                 "r"(barrier_at), "h"((ushort)((tap)&255)), "h"((ushort)((tap) >> 8 & 255)),                           \
                 "h"((ushort)((tap) >> 16)) : "memory")
#else
static inline mx_pixel mx_pixel_of(int m, const mx_nv_conv *g)
{
    const int n = mx_quotient(m, g->by_image), rest = m - n * (g->p * g->q);
    const int p = mx_quotient(rest, g->by_row), q = rest - p * g->q;
    const mx_pixel found = {n, 0, p * g->step_h + MX_LOWEST(g->first_h, g->taps_h, g->tap_h),
                            q * g->step_w + MX_LOWEST(g->first_w, g->taps_w, g->tap_w)};
    return found;
}
static inline int mx_tap_of(int tap_d, int tap_h, int tap_w, const mx_nv_conv *g)
{
    return MX_ABOVE_LOWEST(tap_w, g->taps_w, g->tap_w) | MX_ABOVE_LOWEST(tap_h, g->taps_h, g->tap_h) << 8;
}
/* Where g has the lowest tap of all phases of a stride. */
#define MX_TAP_OF_PHASE(tap_h, tap_w, phase, g) \
    ((phase).first_w + (tap_w) * (g).tap_w - (g).first_w | ((phase).first_h + (tap_h) * (g).tap_h - (g).first_h) << 8)
#define MX_TAP_IN_W(tap_d, tap_h, tap_w) (g.w_first + (tap_h) * g.w_h + (tap_w) * g.w_w)
#define MX_NEXT_TAP(of, tap_d, tap_h, tap_w) \
    (++(tap_w) == (of).taps_w && ((tap_w) = 0, ++(tap_h) == (of).taps_h) && ((tap_h) = 0, true))
#define MX_COPY_PIXELS(to, map, channel, pixel, tap, barrier_at)                                                       \
    asm volatile(MX_BOX("4d", "im2col") "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"                                \
                 ::"r"(to), "l"(map), "r"(channel), "r"((pixel).w), "r"((pixel).h), "r"((pixel).n), "r"(barrier_at),   \
                 "h"((ushort)((tap)&255)), "h"((ushort)((tap) >> 8)) : "memory")
#endif
#endif
