/* How a tile of wgmma's sums goes to y where its pixels are contiguous: filter by filter through local memory,
 * neighbouring lanes next to each other in y.  After conv/nvidia/hopper_store.h, for alpha = 1, beta = 0 and y aligned.
 */
#if CHANNELS_LAST || VEC == 1
#define MX_LOAD_RUN(value, from) asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(from) : "memory")
#elif VEC == 2
#define MX_LOAD_RUN(value, from) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory")
#elif VEC == 4
#define MX_LOAD_RUN(value, from) \
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(from) : "memory")
#else
#define MX_LOAD_RUN(value, from)                                                                             \
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"                                                  \
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "r"(from) : "memory")
#endif

#if CHANNELS_LAST
/* Rows of the product are pixels, 64 of them with WN filters a warpgroup: 8 x 8 numbers are turned in registers, and
 * chunk c of 16 bytes of a filter's row is at c ^ (filter % 8). */
#define RUN_BYTES (128 * WN) /* of local memory for each warpgroup */

/* `shared`: where the warpgroup's part of local memory is. */
static inline __attribute__((always_inline)) void mx_store_runs(
    float (*sums)[WN / 2], __global ushort *y, int m0, int n0, const MX_PROBLEM *g, int warpgroup, uint shared)
{
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5 & 3;
    const int pixel_at[2] = {mx_pixel_in_y(m0 + warpgroup * 64 + lane, g),
                             mx_pixel_in_y(m0 + warpgroup * 64 + 32 + lane, g)};
    const uint to = shared + (lane >> 2) * 144 + (lane & 3) * 4 ^ warp * 32;
#pragma unroll
    for (int j = 0; j < WN / 8; j++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint pair;
            MX_ROUND_RESULTS(pair, sums[0][j * 4 + i * 2], sums[0][j * 4 + i * 2 + 1]);
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(pair));
            asm volatile("st.shared.u32 [%0 + %2], %1;" ::"r"(to ^ i << 4), "r"(pair), "n"(j * 1024) : "memory");
        }
    asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
    int filter = n0 + warp * (WN / 4);
    uint from = shared + warp * (WN / 4) * 128;
    __global ushort *row_at = y + filter * g->conv.y_c;
#pragma unroll 4
    for (int l = 0; l < WN / 4; l++) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            ushort found;
            MX_LOAD_RUN(found, from + (i * 64 + lane * 2 ^ (l & 7) << 4));
            if (filter < g->conv.filters && pixel_at[i] >= 0)
                row_at[pixel_at[i]] = found;
        }
        filter++;
        from += 128;
        row_at += g->conv.y_c;
    }
    asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}
#else
/* Rows of the product are filters: each warp turns 8 of them at a time into runs of WN pixels, VEC stored at once. */
#define RUN_BYTES (16 * WN) /* of local memory for each warp; chunk c of 16 bytes of row r is at c ^ r */
#define RUN_ROWS (WN < 32 * VEC ? 32 * VEC / WN : 1) /* stored at once */
#define RUN_PLACES (WN > 32 * VEC ? WN / (32 * VEC) : 1) /* of a lane in a row */

/* `shared`: where the warp's part of local memory is. */
static inline __attribute__((always_inline)) void mx_store_runs(
    float (*sums)[WN / 2], __global ushort *y, int m0, int n0, const MX_PROBLEM *g, int warpgroup, uint shared)
{
    const int item = get_local_id(0), lane = item & 31, filter0 = n0 + warpgroup * WG_ROWS * 64 + (item >> 5 & 3) * 16;
    int pixel_at[RUN_PLACES];
#pragma unroll
    for (int l = 0; l < RUN_PLACES; l++)
        pixel_at[l] = mx_pixel_in_y(m0 + (l * 32 + lane) * VEC % WN, g);
#pragma unroll
    for (int i = 0; i < 2 * WG_ROWS; i++) {
        const int filter = filter0 + i / 2 * 64 + i % 2 * 8;
        uint base;
        /* Addresses of one i are not kept for the next. */
        asm volatile("mov.u32 %0, %1;" : "=r"(base) : "r"(shared));
        const uint to = base + (lane >> 2) * (2 * WN + 16) + (lane & 3) * 4;
#pragma unroll
        for (int j = 0; j < WN / 8; j++) {
            uint pair;
            MX_ROUND_RESULTS(pair, sums[i / 2][j * 4 + i % 2 * 2], sums[i / 2][j * 4 + i % 2 * 2 + 1]);
            asm volatile("st.shared.u32 [%0 + %2], %1;" ::"r"(to ^ j % 8 << 4), "r"(pair), "n"(j / 8 * 128) : "memory");
        }
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
        int row = lane * VEC / WN;
        __global ushort *row_at = y + (filter + row) * MX_CONV(g)->y_c;
#pragma unroll 4
        for (int l = 0; l < 8 / RUN_ROWS; l++) {
#pragma unroll
            for (int run = 0; run < RUN_PLACES; run++) {
                VECTOR found;
                MX_LOAD_RUN(found, base + row * (2 * WN) + ((run * 32 + lane) * VEC % WN * 2 ^ row << 4));
                if (filter + row < MX_CONV(g)->filters && pixel_at[run] >= 0)
                    *(__global VECTOR *)(row_at + pixel_at[run]) = found;
            }
            row += RUN_ROWS;
            row_at += RUN_ROWS * MX_CONV(g)->y_c;
        }
        asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    }
}
#endif
