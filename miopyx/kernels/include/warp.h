/* What OpenCL C has no words for between the lanes of NVIDIA's warps. */
#ifndef MIOPYX_WARP_H
#define MIOPYX_WARP_H
/* A word of lane `me ^ with`. */
static inline uint mx_exchange(uint value, int with)
{
    uint other;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(value), "r"(with));
    return other;
}
#endif
