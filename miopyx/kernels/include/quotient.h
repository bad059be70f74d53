/* Quotients by numbers that the host knows. */
#include "include/divisor.h"

/* n / d for 0 <= n < 2^31: three instructions where a division takes thirty. */
static inline int mx_quotient(int n, const mx_divisor by)
{
    return (int)(mul_hi((uint)n << 1, by.magic) >> by.shift);
}
