/* VEC elements at a time for kernels for GPUs, as one access of memory each; taken in after include/common.h.
 *
 * VEC is 1, 2, 4 or 8.  Vectors of the language need no alignment, so compilers load them element by element; whether
 * addresses are a multiple of the vector's size is asked once in a kernel, which has its loops twice: `aligned` is a
 * constant there.
 */
#if VEC == 1
#define MX_V(name) name
#else
#define MX_V(name) MX_JOIN(name, VEC)
#endif

typedef MX_V(ACC) vec_t;

#define MX_RAW(T) MX_V(STORAGE(T))

/* What the bits in memory say.  Vectors of NVIDIA's halves are words in registers, not taken by way of memory. */
#if defined(__NV_CL_C_VERSION) && VEC > 1
static inline float2 mx_two_of_half(const uint word)
{
    float2 two;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(two.x), "=f"(two.y) : "r"(word));
    return two;
}
static inline uint mx_two_to_half(const float2 two)
{
    uint word;
    asm("{ .reg .b16 low, high; cvt.rn.f16.f32 low, %1; cvt.rn.f16.f32 high, %2; mov.b32 %0, {low, high}; }"
        : "=r"(word) : "f"(two.x), "f"(two.y));
    return word;
}
#if VEC == 2
#define MX_FROM_half(bits) mx_two_of_half(as_uint(bits))
#define MX_TO_half(bits, v) ((bits) = as_ushort2(mx_two_to_half(v)))
#elif VEC == 4
#define MX_FROM_half(bits) ((float4)(mx_two_of_half(as_uint2(bits).x), mx_two_of_half(as_uint2(bits).y)))
#define MX_TO_half(bits, v) ((bits) = as_ushort4((uint2)(mx_two_to_half((v).lo), mx_two_to_half((v).hi))))
#else
#define MX_FROM_half(bits)                                                                              \
    ((float8)(mx_two_of_half(as_uint4(bits).x), mx_two_of_half(as_uint4(bits).y),                       \
              mx_two_of_half(as_uint4(bits).z), mx_two_of_half(as_uint4(bits).w)))
#define MX_TO_half(bits, v)                                                                             \
    ((bits) = as_ushort8((uint4)(mx_two_to_half((v).s01), mx_two_to_half((v).s23), mx_two_to_half((v).s45), \
                                 mx_two_to_half((v).s67))))
#endif
#elif VEC == 1
#define MX_FROM_half(bits) vload_half(0, (const __private half *)&(bits))
#define MX_TO_half(bits, v) vstore_half_rte(v, 0, (__private half *)&(bits))
#else
#define MX_FROM_half(bits) MX_V(vload_half)(0, (const __private half *)&(bits))
#define MX_TO_half(bits, v) MX_JOIN(MX_V(vstore_half), _rte)(v, 0, (__private half *)&(bits))
#endif
#if VEC == 1
#define MX_TO_bfloat16(bits, v) ((bits) = mx_to_bfloat16(v))
#elif defined(__NV_CL_C_VERSION) && defined(MX_SM) && MX_SM >= 80
static inline uint mx_two_to_bfloat16(const float2 two)
{
    uint word;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(two.x), "f"(two.y));
    return word;
}
#if VEC == 2
#define MX_TO_bfloat16(bits, v) ((bits) = as_ushort2(mx_two_to_bfloat16(v)))
#elif VEC == 4
#define MX_TO_bfloat16(bits, v) \
    ((bits) = as_ushort4((uint2)(mx_two_to_bfloat16((v).lo), mx_two_to_bfloat16((v).hi))))
#else
#define MX_TO_bfloat16(bits, v)                                                                              \
    ((bits) = as_ushort8((uint4)(mx_two_to_bfloat16((v).s01), mx_two_to_bfloat16((v).s23),                   \
                                 mx_two_to_bfloat16((v).s45), mx_two_to_bfloat16((v).s67))))
#endif
#else
#define MX_TO_bfloat16(bits, v) ((bits) = mx_vector_to_bfloat16(v))
static inline MX_V(ushort) mx_vector_to_bfloat16(const MX_V(float) value)
{
    const MX_V(uint) bits = MX_V(as_uint)(value);
    const MX_V(uint) rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return MX_V(convert_ushort)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}
#endif
#define MX_FROM_float(bits) (bits)
#define MX_FROM_double(bits) (bits)
#if VEC == 1
#define MX_FROM_bfloat16(bits) as_float((uint)(bits) << 16)
#else
#define MX_TWO_OF_bfloat16(word) as_float((word) << 16), as_float((word) & 0xffff0000u)
#if VEC == 2
#define MX_FROM_bfloat16(bits) ((float2)(MX_TWO_OF_bfloat16(as_uint(bits))))
#elif VEC == 4
#define MX_FROM_bfloat16(bits) ((float4)(MX_TWO_OF_bfloat16(as_uint2(bits).x), MX_TWO_OF_bfloat16(as_uint2(bits).y)))
#else
#define MX_FROM_bfloat16(bits)                                                                          \
    ((float8)(MX_TWO_OF_bfloat16(as_uint4(bits).x), MX_TWO_OF_bfloat16(as_uint4(bits).y),               \
              MX_TWO_OF_bfloat16(as_uint4(bits).z), MX_TWO_OF_bfloat16(as_uint4(bits).w)))
#endif
#endif
#define MX_TO_float(bits, v) ((bits) = (v))
#define MX_TO_double(bits, v) ((bits) = (v))

#define MX_WIDE(T, bits) MX_V(MX_JOIN(convert_, ACC))(MX_JOIN(MX_FROM_, T)(bits))

/* GET_(name, T) defines name(p, aligned), PUT_(name, T) name(p, value, aligned). */
#if VEC == 1
#define MX_RAW_LOAD(T, p, aligned) (*(p))
#define MX_RAW_STORE(T, p, bits, aligned) (*(p) = (bits))
#else
#define MX_RAW_LOAD(T, p, aligned) ((aligned) ? *(__global const MX_RAW(T) *)(p) : MX_V(vload)(0, p))
#define MX_RAW_STORE(T, p, bits, aligned)        \
    do {                                         \
        if (aligned)                             \
            *(__global MX_RAW(T) *)(p) = (bits); \
        else                                     \
            MX_V(vstore)(bits, 0, p);            \
    } while (0)
#endif
#define MX_GET(name, T)                                                                 \
    static inline vec_t name(__global const STORAGE(T) *p, const bool aligned)          \
    {                                                                                   \
        const MX_RAW(T) bits = MX_RAW_LOAD(T, p, aligned);                              \
        return MX_WIDE(T, bits);                                                        \
    }
#define MX_PUT(name, T)                                                                 \
    static inline void name(__global STORAGE(T) *p, const vec_t value, const bool aligned) \
    {                                                                                   \
        MX_RAW(T) bits;                                                                 \
        MX_JOIN(MX_TO_, T)(bits, value);                                                \
        MX_RAW_STORE(T, p, bits, aligned);                                              \
    }

/* Whether vectors may begin at an address; those of the other places differ by whole vectors. */
#define MX_ALIGNED(p) ((ulong)(p) % (VEC * sizeof(*(p))) == 0)

static inline ACC mx_sum_of_lanes(const vec_t v)
{
#if VEC == 1
    return v;
#elif VEC == 2
    return v.x + v.y;
#elif VEC == 4
    return (v.x + v.y) + (v.z + v.w);
#else
    return ((v.s0 + v.s1) + (v.s2 + v.s3)) + ((v.s4 + v.s5) + (v.s6 + v.s7));
#endif
}

/* Vectors that are held for long, of the storage type MX_HELD_TYPE: 16-bit numbers as words, two a register, and widened
 * wherever they are used.  Compilers would do that once, and keep twice as much, unless mx_anew comes in between. */
#ifdef MX_HELD_TYPE
#if VEC >= 4 && (MX_TYPE(MX_HELD_TYPE) == MX_TYPE_half || MX_TYPE(MX_HELD_TYPE) == MX_TYPE_bfloat16)
#if VEC == 4
#define MX_HELD uint2
#define MX_HELD_WORDS(held) "+r"((held).x), "+r"((held).y)
#else
#define MX_HELD uint4
#define MX_HELD_WORDS(held) "+r"((held).x), "+r"((held).y), "+r"((held).z), "+r"((held).w)
#endif
#define MX_HELD_BITS(held) MX_JOIN(as_, MX_RAW(MX_HELD_TYPE))(held)
#else
#define MX_HELD MX_RAW(MX_HELD_TYPE)
#define MX_HELD_BITS(held) (held)
#endif
typedef MX_HELD held_t;
#define MX_AS_HELD(bits) MX_JOIN(as_, MX_HELD)(bits)

static inline held_t mx_get_held(__global const STORAGE(MX_HELD_TYPE) *p, const bool aligned)
{
    const MX_RAW(MX_HELD_TYPE) bits = MX_RAW_LOAD(MX_HELD_TYPE, p, aligned);
    return MX_AS_HELD(bits);
}

static inline vec_t mx_wide(const held_t held)
{
    const MX_RAW(MX_HELD_TYPE) bits = MX_HELD_BITS(held);
    return MX_WIDE(MX_HELD_TYPE, bits);
}

static inline __attribute__((always_inline)) void mx_anew(held_t *held, const int count)
{
#if defined(MX_HELD_WORDS) && defined(__NV_CL_C_VERSION)
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("" : MX_HELD_WORDS(held[i]));
#endif
}
#endif
