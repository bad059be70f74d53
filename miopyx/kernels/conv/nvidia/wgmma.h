/* wgmma, which OpenCL C's compiler does not assemble: its lines travel as PTX comments that begin with //@, and the
 * host takes that mark away when it builds the PTX anew for sm_90a.  Needs SM_90A.  After conv/nvidia/ptx.h.
 *
 * A matrix is in local memory at a multiple of 1024 bytes in rows of ROW_BYTES; 16-byte chunk c of row r at chunk
 * c ^ (r % 8).  Rows of 64 numbers of the summed axis (trans "0, 0"), or rows of one summed index with 64 rows or
 * columns of the product each (trans "1, 1"), the next 64 `leading` bytes further on; or one so and one so.
 */
#if !SM_90A
#error "wgmma needs SM_90A"
#endif

static inline ulong mx_wg_matrix(uint shared, uint leading)
{
    return (ulong)(shared >> 4 & 0x3fff) | (ulong)(leading >> 4 & 0x3fff) << 16 | (ulong)(1024 >> 4) << 32 | 1ul << 62;
}

/* Likewise of rows of 32, 64 or 128 bytes of the summed axis, next to each other, 8 of them at a multiple of their size:
 * chunks of 16 bytes are swapped as in rows of 128 bytes, within their own row. */
static inline ulong mx_wg_narrow(uint shared, int row_bytes)
{
    return (ulong)(shared >> 4 & 0x3fff) | (ulong)(row_bytes >> 1) << 32 | (row_bytes == 128 ? 1ul : row_bytes == 64 ? 2ul : 3ul) << 62;
}

#define MX_WG_FENCE() asm volatile("//@wgmma.fence.sync.aligned;" ::: "memory")
#define MX_WG_COMMIT() asm volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory")
#define MX_WG_WAIT(groups) asm volatile("//@wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory")
/* Nothing reads a sum before the wait that this follows. */
#define MX_WG_HOLD(sum) asm volatile("" : "+f"(sum)::"memory")
/* What was written to local memory by work-items is seen by wgmma after this and a barrier. */
#define MX_WG_PUBLISH() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
/* The registers of a work-item from here on, in a whole warpgroup: some have fewer so that others have more. */
#define MX_WG_FEWER(registers) asm volatile("//@setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers))
#define MX_WG_MORE(registers) asm volatile("//@setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers))

/* d (64 x N floats) = a b, plus what d was where `keep` is "1" and not "0": work-item i of 128 has rows i / 32 * 16 +
 * i % 32 / 4 (+ 8 for d[j] with j & 2) and columns j / 4 * 8 + i % 4 * 2 + j % 2. */
#if EIGHT_BITS /* rows of 128 numbers of the summed axis only, and what is added up keeps 14 bits */
#define MX_WG_KIND "k32.f32." MX_TEXT(A_TYPE) "." MX_TEXT(B_TYPE)
#define MX_WG_LAST(trans)
#elif defined(MX_TF32) /* rows of 32 floats of the summed axis only, of which it takes the upper 19 bits */
#define MX_WG_KIND "k8.f32.tf32.tf32"
#define MX_WG_LAST(trans)
#else
#define MX_WG_KIND "k16.f32." MX_PTX_16BIT "." MX_PTX_16BIT
#define MX_WG_LAST(trans) ", " trans
#endif
#define MX_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MX_EIGHT(d, i) MX_FOUR(d, i), MX_FOUR(d, (i) + 4)
#define MX_WGMMA_32(d, a, b, keep, trans)                                                                             \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n32" MX_WG_KIND " "                                              \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "                           \
                 "%16, %17, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8) : "l"(a), "l"(b) : "memory")
#define MX_WGMMA_64(d, a, b, keep, trans)                                                                             \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n64" MX_WG_KIND " "                                              \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                            \
                 "%32, %33, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24)                                   \
                 : "l"(a), "l"(b) : "memory")
/* The same with a, 64 x 16 numbers of 16 bits, in registers as ldmatrix loads them for mma.sync, 16 rows a warp; they must
 * not change before the wait that d waits for. */
#define MX_WGMMA_REGISTERS_32(d, a, b, trans)                                                                         \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n32" MX_WG_KIND " "                                              \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "                           \
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, " trans ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8)                                                                     \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b) : "memory")
#define MX_WGMMA_REGISTERS_64(d, a, b, trans)                                                                         \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n64" MX_WG_KIND " "                                              \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "                            \
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, " trans ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24)                                   \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b) : "memory")
#define MX_WGMMA_128(d, a, b, keep, trans)                                                                            \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n128" MX_WG_KIND " "                                             \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "                   \
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "                   \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "                            \
                 "%64, %65, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24), MX_EIGHT(d, 32),                 \
                   MX_EIGHT(d, 40), MX_EIGHT(d, 48), MX_EIGHT(d, 56)                                                  \
                 : "l"(a), "l"(b) : "memory")
#define MX_WGMMA_144(d, a, b, keep, trans)                                                                            \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n144" MX_WG_KIND " "                                             \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "         \
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "         \
                 "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71}, "        \
                 "%72, %73, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24), MX_EIGHT(d, 32),                 \
                   MX_EIGHT(d, 40), MX_EIGHT(d, 48), MX_EIGHT(d, 56), MX_EIGHT(d, 64)                                 \
                 : "l"(a), "l"(b) : "memory")
#define MX_WGMMA_192(d, a, b, keep, trans)                                                                            \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n192" MX_WG_KIND " "                                             \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "                   \
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "                   \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "                   \
                 "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "                   \
                 "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "                            \
                 "%96, %97, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                     \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24), MX_EIGHT(d, 32),                 \
                   MX_EIGHT(d, 40), MX_EIGHT(d, 48), MX_EIGHT(d, 56), MX_EIGHT(d, 64), MX_EIGHT(d, 72),               \
                   MX_EIGHT(d, 80), MX_EIGHT(d, 88)                                                                   \
                 : "l"(a), "l"(b) : "memory")
#define MX_WGMMA_256(d, a, b, keep, trans)                                                                            \
    asm volatile("//@wgmma.mma_async.sync.aligned.m64n256" MX_WG_KIND " "                                             \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "                  \
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "                   \
                 "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "                   \
                 "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, "                   \
                 "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, "                   \
                 "%82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, "                   \
                 "%98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                 \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "               \
                 "%126, %127}, "                                                                                      \
                 "%128, %129, " keep ", 1, 1" MX_WG_LAST(trans) ";"                                                   \
                 : MX_EIGHT(d, 0), MX_EIGHT(d, 8), MX_EIGHT(d, 16), MX_EIGHT(d, 24), MX_EIGHT(d, 32),                 \
                   MX_EIGHT(d, 40), MX_EIGHT(d, 48), MX_EIGHT(d, 56), MX_EIGHT(d, 64), MX_EIGHT(d, 72),               \
                   MX_EIGHT(d, 80), MX_EIGHT(d, 88), MX_EIGHT(d, 96), MX_EIGHT(d, 104), MX_EIGHT(d, 112),             \
                   MX_EIGHT(d, 120)                                                                                   \
                 : "l"(a), "l"(b) : "memory")

/* Barriers in local memory, which work-items and copies arrive at.  The phase of a parity: the waiter is never more
 * than a phase behind or ahead. */
static inline void mx_barrier_begin(uint barrier_at, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier_at), "r"(count) : "memory");
}

static inline void mx_barrier_arrive(uint barrier_at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier_at) : "memory");
}

/* Once all of the work-item's copies are there. */
static inline void mx_barrier_arrive_copied(uint barrier_at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier_at) : "memory");
}

static inline void mx_barrier_wait(uint barrier_at, int parity)
{
    int done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier_at), "r"(parity) : "memory");
    while (!done);
}

/* The barrier waits for so many bytes more. */
static inline void mx_barrier_expect_more(uint barrier_at, int bytes)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier_at), "r"(bytes) : "memory");
}

/* Bytes to local memory, behind the caller's back; the barrier counts them. */
static inline void mx_bulk_copy(uint to, __global const uint4 *from, int bytes, uint barrier_at)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"((ulong)from), "r"(bytes), "r"(barrier_at) : "memory");
}

/* Barriers of a ring: `full` of each stage, at which work-items that copy arrive, then `empty`, at which warps do. */
static inline void mx_ring_begin(uint full, int stages, int copiers, int warps)
{
    for (int i = 0; i < stages; i++) {
        mx_barrier_begin(full + 8 * i, copiers);
        mx_barrier_begin(full + 8 * (stages + i), warps);
    }
}
