/* wgmma on floats, of which it takes the upper 19 bits as TF32.  After conv/nvidia/wgmma.h.
 *
 * d (64 x N floats) += a b over 8 numbers of the summed axis, N = 64, 128 or 256.  a comes from registers, so that its
 * numbers may be rounded on the way: work-item i of 128 has four, of rows i / 32 * 16 + i % 32 / 4 (+ 8 for a[1] and
 * a[3]) and numbers i % 4 (+ 4 for a[2] and a[3]).  They must not change before the wait that d waits for.  b is a
 * matrix in local memory, rows of 32 numbers of the summed axis.
 */
#define MX_LIST_64 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MX_LIST_128 MX_LIST_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
    ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MX_LIST_256 MX_LIST_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95" \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define MX_TF32_LINE(n, sums, a, b) \
    "//@wgmma.mma_async.sync.aligned.m64n" n "k8.f32.tf32.tf32 {" sums "}, {" a "}, " b ", 1, 1, 1;"
#define MX_TF32_READ(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b)
#define MX_32_SUMS(d, i) MX_EIGHT(d, i), MX_EIGHT(d, (i) + 8), MX_EIGHT(d, (i) + 16), MX_EIGHT(d, (i) + 24)
#define MX_TF32_64(d, a, b)                                                                                            \
    asm volatile(MX_TF32_LINE("64", MX_LIST_64, "%32, %33, %34, %35", "%36")                                           \
                 : MX_32_SUMS(d, 0) : MX_TF32_READ(a, b) : "memory")
#define MX_TF32_128(d, a, b)                                                                                           \
    asm volatile(MX_TF32_LINE("128", MX_LIST_128, "%64, %65, %66, %67", "%68")                                         \
                 : MX_32_SUMS(d, 0), MX_32_SUMS(d, 32) : MX_TF32_READ(a, b) : "memory")
#define MX_TF32_256(d, a, b)                                                                                           \
    asm volatile(MX_TF32_LINE("256", MX_LIST_256, "%128, %129, %130, %131", "%132")                                    \
                 : MX_32_SUMS(d, 0), MX_32_SUMS(d, 32), MX_32_SUMS(d, 64), MX_32_SUMS(d, 96)                           \
                 : MX_TF32_READ(a, b) : "memory")
