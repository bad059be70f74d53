/* How sums of wgmma go to y where rows of the product are filters, and y is channels last: 8 x 8 numbers are turned in
 * registers, so that two neighbouring lanes have 16 filters of a pixel.  After conv/nvidia/hopper_store.h, for alpha = 1,
 * beta = 0 and y aligned; FILTERS_AT_ONCE divides the filters and the strides of y.
 */
#if FILTERS_AT_ONCE == 8
#define MX_FILTERS uint4
#elif FILTERS_AT_ONCE == 4
#define MX_FILTERS uint2
#elif FILTERS_AT_ONCE == 2
#define MX_FILTERS uint
#else
#define MX_FILTERS ushort
#endif

/* Of 64 filters and of WN pixels from m0 on. */
static inline void mx_store_turned(float (*sums)[WN / 2], __global ushort *y, int m0, const MX_PROBLEM *g)
{
    const int item = get_local_id(0), lane = item & 31;
    const int filter = (item >> 5 & 3) * 16 + (lane & 1) * 8, filters = MX_CONV(g)->filters;
    y += filter;
#pragma unroll
    for (int j = 0; j < WN / 2; j += 8) { /* 16 pixels */
        const int pixel_at = mx_pixel_in_y(m0 + j * 2 + (lane & 2) * 4 + (lane >> 2), g);
        union {
            uint words[4];
            MX_FILTERS each[8 / FILTERS_AT_ONCE];
        } run;
#pragma unroll
        for (int l = 0; l < 4; l++) { /* of 8 pixels the first 8 of 16 filters, then the others */
            MX_ROUND_RESULTS(run.words[l], sums[0][j + l * 2], sums[0][j + l * 2 + 1]);
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(run.words[l]));
        }
        const uint4 turned = mx_turn((uint4)(run.words[0], run.words[1], run.words[2], run.words[3]), lane);
        run.words[0] = turned.x, run.words[1] = turned.y, run.words[2] = turned.z, run.words[3] = turned.w;
#pragma unroll
        for (int l = 0; l < 8 / FILTERS_AT_ONCE; l++)
            if (pixel_at >= 0 && filter + l * FILTERS_AT_ONCE < filters)
                *(__global MX_FILTERS *)(y + pixel_at + l * FILTERS_AT_ONCE) = run.each[l];
    }
}
