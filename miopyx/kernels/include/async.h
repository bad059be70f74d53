/* NVIDIA's copies into local memory (cp.async, compute capability 8.0 and up), which OpenCL C has no words for. */
#ifndef MIOPYX_ASYNC_H
#define MIOPYX_ASYNC_H
/* The address in local memory, as PTX takes it. */
static inline uint mx_shared(__local const void *p)
{
    uint address;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"((ulong)p));
    return address;
}

/* Copies into local memory behind the caller's back; without `valid` zeros are written and nothing is read. */
#define MX_COPY_BYTES(cache, bytes, to, from, valid)                                                                  \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes ", %2;" ::"r"(to), "l"((ulong)(from)),        \
                 "r"((valid) ? bytes : 0) : "memory")
#define MX_COPY16(to, from, valid) MX_COPY_BYTES("cg", 16, to, from, valid)
/* The same through the L1, for what is read again soon, and for less than 16 bytes. */
#define MX_COPY16_L1(to, from, valid) MX_COPY_BYTES("ca", 16, to, from, valid)
#define MX_COPY8(to, from, valid) MX_COPY_BYTES("ca", 8, to, from, valid)
#define MX_COPY4(to, from, valid) MX_COPY_BYTES("ca", 4, to, from, valid)
/* The first `bytes` of 16, then zeros. */
#define MX_COPY_FIRST(to, from, bytes)                                                                                \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"((ulong)(from)), "r"(bytes) : "memory")
#define MX_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define MX_WAIT(groups) asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory")
#endif
