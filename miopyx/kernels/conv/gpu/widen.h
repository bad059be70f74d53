/* Elements that are in a register as they lie in memory: two bytes are a float, and back; after include/common.h. */
#if MX_TYPE(X_TYPE) == MX_TYPE_float
#define WIDEN(v) (v)
#define NARROW(v) (v)
#elif MX_TYPE(X_TYPE) == MX_TYPE_bfloat16
#define WIDEN(v) as_float((uint)(v) << 16)
static inline ushort NARROW(float value)
{
    const uint bits = as_uint(value);
    return (bits & 0x7fffffffu) > 0x7f800000u ? (ushort)(bits >> 16 | 0x40u)
                                              : (ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#elif defined(__NV_CL_C_VERSION)
static inline float WIDEN(ushort bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
static inline ushort NARROW(float value)
{
    ushort bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
static inline float WIDEN(ushort bits)
{
    return vload_half(0, (const half *)&bits);
}
static inline ushort NARROW(float value)
{
    ushort bits;
    vstore_half_rte(value, 0, (half *)&bits);
    return bits;
}
#endif
