/* conv/nvidia/tf32_weights.cl where tensor maps copy. */
static inline __attribute__((always_inline)) void mx_weights(
    ulong x_map_at, ulong y_map_at, __global float *partial, const MX_PROBLEM *MX_GIVEN, const int split_slices,
    __local uint4 *stages, __local ulong *barriers)
{
#if AXES == 3
    const mx_nv_conv *const g = &MX_GIVEN->conv;
#endif
    const int item = get_local_id(0), lane = item & 31, warp = item >> 5;
    const int columns = MX_BOTH(g->taps_h) * g->taps_w * g->reduced;
    const int down = (g->filters + BM - 1) / BM, across = (columns + BN - 1) / BN, tiles = down * across * g->groups;
    const int slices = (g->pixels + DEPTH - 1) / DEPTH, number = get_group_id(0);
    /* The first tile and slice of this group, and how many slices it has. */
    int tile = PERSISTENT ? number * split_slices / slices : number % tiles;
    int first = PERSISTENT ? number * split_slices - tile * slices : number / tiles * split_slices;
    int left = min(split_slices, PERSISTENT ? tiles * slices - number * split_slices : slices - first);

    const int warp_m = warp % (BM / WM) * WM, warp_n = warp / (BM / WM) * WN;
    const uint shared = mx_shared(stages), full = mx_shared(barriers), empty = full + 8 * STAGES;
    const uint a_from = shared + warp_m / 32 * BLOCK_BYTES + mx_at(lane);
    const uint b_from = shared + (Y_BLOCKS + warp_n / 32) * BLOCK_BYTES + mx_at(lane);
    if (item == 0) {
        mx_ring_begin(full, STAGES, 1, WARPS);
        MX_WG_PUBLISH(); /* the copies' proxy finds the barriers begun */
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    int fill = 0, fill_parity = 1, stage = 0, parity = 0;
    for (; left > 0; tile++, first = 0) {
        const int end = first + min(left, slices - first);
        const mx_tile_blocks own = mx_blocks_of(tile, down, across, columns, lane, g);
        const int m0 = own.m0, n0 = own.n0;
        left -= end - first;

/* The next slice into the next stage, by the first warp, once all have read what is there. */
#define COPY_SLICE(slice)                                                                                          \
    do {                                                                                                           \
        mx_barrier_wait(empty + 8 * fill, fill_parity);                                                            \
        mx_copy_blocks(shared + fill * STAGE_BYTES, full + 8 * fill, &own, slice, lane, x_map_at, y_map_at,        \
                       MX_GIVEN);                                                                                  \
        if (++fill == STAGES)                                                                                      \
            fill = 0, fill_parity ^= 1;                                                                            \
    } while (0)

        if (warp == 0)
            for (int slice = first; slice < min(end, first + STAGES - 1); slice++)
                COPY_SLICE(slice);
        float sums[WM / 16][WN / 8][4];
        MX_EACH_SUM(i, j, l, 1)
            sums[i][j][l] = 0;
#pragma unroll 1
        for (int slice = first; slice < end; slice++) {
            mx_barrier_wait(full + 8 * stage, parity);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                uint2 a[WM / 16][2], b[WN / 16][2];
#pragma unroll
                for (int i = 0; i < WM / 16; i++)
                    mx_load_pairs(a[i], a_from + stage * STAGE_BYTES, step, i);
#pragma unroll
                for (int j = 0; j < WN / 16; j++)
                    mx_load_pairs(b[j], b_from + stage * STAGE_BYTES, step, j);
                if (step == STEPS - 1) {
                    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
                    if (lane == 0)
                        mx_barrier_arrive(empty + 8 * stage);
                }
                /* The others have read the slice before by then, more likely than at the beginning of this one. */
                if (step == STEPS / 2 && warp == 0 && slice + STAGES - 1 < end)
                    COPY_SLICE(slice + STAGES - 1);
#pragma unroll
                for (int i = 0; i < WM / 16; i++)
#pragma unroll
                    for (int j = 0; j < WN / 16; j++) {
                        MX_ADD_PRODUCT(sums[i][2 * j], a[i][0].x, a[i][0].y, a[i][1].x, a[i][1].y, b[j][0].x,
                                       b[j][1].x);
                        MX_ADD_PRODUCT(sums[i][2 * j + 1], a[i][0].x, a[i][0].y, a[i][1].x, a[i][1].y, b[j][0].y,
                                       b[j][1].y);
                    }
            }
            if (++stage == STAGES)
                stage = 0, parity ^= 1;
        }

        const long slot = PERSISTENT ? number + tile : number;
        const int m = warp_m + (lane >> 2) * 2, n = warp_n + (lane & 3) * 4;
        __global float *to = partial + slot * (BM * BN) + m * BN + n;
#pragma unroll
        for (int i = 0; i < WM / 16; i++)
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
#pragma unroll
                for (int l = 0; l < 2; l++) {
                    const float *even = sums[i][2 * j] + 2 * l, *odd = sums[i][2 * j + 1] + 2 * l;
                    if (m0 + m + i * 16 + l < g->filters && n0 + n + j * 16 < columns)
                        *(__global float4 *)(to + (i * 16 + l) * BN + j * 16) =
                            (float4)(even[0], odd[0], even[1], odd[1]);
                }
    }
}
