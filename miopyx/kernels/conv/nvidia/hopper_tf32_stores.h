/* How sums go to y by a tensor map, for conv/nvidia/hopper_tf32.cl: 64 pixels by 32 filters at a time through one of two
 * buffers of local memory, which is read in the background.  y is channels last, its pixels follow each other, alpha is 1
 * and beta 0.  The map has two numbers of 16 bits for each float, so that none is rounded.
 */
#define STORE_BYTES (64 * ROW_BYTES) /* of a buffer */

/* Pixels of the tile from m0 on, filters of all groups from n0 on, of which `filters` are left; `count`: of stores. */
static inline __attribute__((always_inline)) void mx_store_by_map(
    float (*sums)[WN / 2], ulong map, int m0, int n0, int filters, int consumer, uint buffers, int *count)
{
    const int item = get_local_id(0), lane = item & 31, row = (item >> 5 & 3) * 16 + (lane >> 2);
    const bool odd = lane & 4, first = (item & 127) == 0;
    const uint to = buffers + row * ROW_BYTES + (((lane & 3) ^ (row & 7)) << 4);
#pragma unroll
    for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
        for (int j = 0; j < WN / 2; j += 16)
            if (j * 2 < filters) {
                const uint buffer = (*count & 1) * STORE_BYTES;
                ++*count;
                if (first)
                    MX_STORES_READ(1);
                asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
#pragma unroll
                for (int part = 0; part < 2; part++) /* 16 filters; neighbouring rows have different ones, and banks */
#pragma unroll
                    for (int below = 0; below < 2; below++) {
                        const float *sum = sums[i] + j + below * 2, *other = sum + 8;
                        float run[4];
#pragma unroll
                        for (int l = 0; l < 4; l++) {
                            const float here = sum[l / 2 * 4 + l % 2], there = other[l / 2 * 4 + l % 2];
                            run[l] = odd == (part == 1) ? here : there;
                        }
                        const uint at = (to + below * 8 * ROW_BYTES ^ (odd == (part == 1) ? 0 : 64)) + buffer;
                        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                                     ::"r"(at), "r"(as_uint(run[0])), "r"(as_uint(run[1])), "r"(as_uint(run[2])),
                                       "r"(as_uint(run[3])) : "memory");
                    }
                MX_WG_PUBLISH();
                asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory");
                if (first) {
                    MX_STORE_ROWS(map, 2 * (n0 + j * 2), m0 + i * 64, buffers + buffer);
                    MX_STORES_COMMIT();
                }
            }
}
