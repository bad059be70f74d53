/* How sums go to y by a tensor map, for conv/nvidia/hopper.cl and conv/nvidia/hopper_tf32.cl: rows of the product are
 * pixels, 64 of them with 128 bytes of filters go at a time through one of two buffers of local memory, which is read in
 * the background.  y is channels last, its pixels follow each other, alpha is 1 and beta 0.
 *
 * The map has numbers of 16 bits, two for each float, so that none is rounded.  Chunk c of 16 bytes of row r is at
 * c ^ (r % 8), and lanes of odd rows write the second half of a row first, so that eight of them meet all banks.
 * 16 bits: after conv/nvidia/hopper_store.h, with PERMUTE_FILTERS as explained there.
 */
#define STORE_BYTES (64 * ROW_BYTES) /* of a buffer */
#ifdef MX_TF32
#define STORED_FILTERS 32
#define STORED_BY_MAP 2 /* of the map for one of y */
#else
#define STORED_FILTERS 64
#define STORED_BY_MAP 1
#endif

/* 16 bytes of a row: those of `part` of its two halves.  `sum`: of the row and the filters from the first on. */
static inline __attribute__((always_inline)) uint4 mx_stored_run(const float *sum, int part, int lane)
{
#ifdef MX_TF32
    sum += part * 8;
    return (uint4)(as_uint(sum[0]), as_uint(sum[1]), as_uint(sum[4]), as_uint(sum[5]));
#else
    uint words[4];
    sum += part * 16;
#pragma unroll
    for (int l = 0; l < 4; l++)
        MX_ROUND_RESULTS(words[l], sum[l * 4], sum[l * 4 + 1]);
    const uint4 run = (uint4)(words[0], words[1], words[2], words[3]);
    return PERMUTE_FILTERS ? run : mx_turn(run, lane);
#endif
}

/* Pixels from m0 on, filters of all groups from n0 on, of which `filters` are left; `count`: of stores so far. */
static inline __attribute__((always_inline)) void mx_store_by_map(
    float (*sums)[WN / 2], ulong map, int m0, int n0, int filters, int consumer, uint buffers, int *count)
{
    const int item = get_local_id(0), lane = item & 31, row = (item >> 5 & 3) * 16 + (lane >> 2);
    const bool odd = lane & 4, first = (item & 127) == 0;
    const uint to = buffers + row * ROW_BYTES + (((lane & 3) ^ (row & 7)) << 4);
#pragma unroll
    for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
        for (int j = 0; j < WN / 2; j += STORED_FILTERS / 2)
            if (j * 2 < filters) {
                const uint buffer = (*count & 1) * STORE_BYTES;
                ++*count;
                if (first)
                    MX_STORES_READ(1);
                asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
#pragma unroll
                for (int below = 0; below < 2; below++) {
                    const uint4 low = mx_stored_run(sums[i] + j + below * 2, 0, lane);
                    const uint4 high = mx_stored_run(sums[i] + j + below * 2, 1, lane);
#pragma unroll
                    for (int part = 0; part < 2; part++) {
                        const bool upper = odd == (part == 0);
                        const uint4 run = upper ? high : low;
                        const uint at = (to + below * 8 * ROW_BYTES ^ (upper ? 64 : 0)) + buffer;
                        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                                     ::"r"(at), "r"(run.x), "r"(run.y), "r"(run.z), "r"(run.w) : "memory");
                    }
                }
                MX_WG_PUBLISH();
                asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
                if (first) {
                    MX_STORE_ROWS(map, STORED_BY_MAP * (n0 + j * 2), m0 + i * 64, buffers + buffer);
                    MX_STORES_COMMIT();
                }
            }
}
