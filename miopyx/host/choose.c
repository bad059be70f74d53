/* Which variant of the inner loops runs on this CPU. */
#include "gemm_f64.h"

#include <string.h>

#if defined(MX_X86_VARIANTS)
#include <cpuid.h>
#endif

extern const mx_kernels mx_kernels_baseline;

#if defined(MX_X86_VARIANTS)
extern const mx_kernels mx_kernels_avx2, mx_kernels_avx512;

static int has_avx2(void) {
    unsigned a, b, c, d;
    /* Not every compiler's __builtin_cpu_supports knows f16c; the system's support of its registers is that of avx. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
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
    __builtin_cpu_init();
    if (level >= 2 && has_avx512())
        return &mx_kernels_avx512;
    if (level >= 1 && has_avx2())
        return &mx_kernels_avx2;
#endif
    return &mx_kernels_baseline;
}
