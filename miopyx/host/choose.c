/* Which variant of the inner loops runs on this CPU. */
#include "gemm_f64.h"

#include <string.h>

#if defined(MX_X86_VARIANTS)
#include <cpuid.h>
#endif

extern const mx_kernels mx_kernels_baseline;

#if defined(MX_X86_VARIANTS)
extern const mx_kernels mx_kernels_avx2, mx_kernels_avx512;

/* Asked of the processor itself: with some compilers' libraries __builtin_cpu_supports knows of nothing. */
static int level_of_this_cpu(void) {
    const unsigned for_avx2 = bit_AVX2, for_avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    const unsigned first = bit_OSXSAVE | bit_FMA | bit_F16C;
    unsigned a, b, c, d, saved, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0)); /* the registers that the system saves */
    if ((saved & 0x06) != 0x06 || (b & for_avx2) != for_avx2)
        return 0;
    return (saved & 0xe6) == 0xe6 && (b & for_avx512) == for_avx512 ? 2 : 1;
}
#endif

const mx_kernels *mx_choose_kernels(const char *limit) {
    const int level = limit == NULL || strcmp(limit, "avx512") == 0 ? 2
                      : strcmp(limit, "avx2") == 0                  ? 1
                      : strcmp(limit, "baseline") == 0              ? 0
                                                                    : -1;
    if (level < 0)
        return NULL;
#if defined(MX_X86_VARIANTS)
    const int here = level_of_this_cpu();
    if (level >= 2 && here >= 2)
        return &mx_kernels_avx512;
    if (level >= 1 && here >= 1)
        return &mx_kernels_avx2;
#endif
    return &mx_kernels_baseline;
}
