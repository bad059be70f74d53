/* Maxima of vectors with their indices.
 *
 * Element (i, k) of those that a work-item reads has code i * WINDOW + k, and is tap
 * code - (r * STEP_H * WINDOW + o * STEP_W) of window (r, o).  Of equal ones the first one counts: rows are collected
 * along w, then down.  NaN is never a maximum, and -inf takes the place of what is outside: where nothing is above it,
 * tap 0 is left.  PROPAGATE: the last NaN counts, and where all is -inf, who writes the index asks for the first tap in
 * the image.
 */

/* NVIDIA compares two numbers of 16 bits at once; of neighbours along w this pays where windows share few. */
#if defined(__NV_CL_C_VERSION) && defined(MX_SM) && VEC > 1 && (IS_KIND(forward_lanes) || STEP_W == 2)
#if MX_SM >= 80 && MX_TYPE(TYPE) == MX_TYPE_half
#define LOWEST 0xfc00fc00u /* -inf twice */
#define PAIR_TYPE "f16x2"
#elif MX_SM >= 90 && MX_TYPE(TYPE) == MX_TYPE_bfloat16
#define LOWEST 0xff80ff80u
#define PAIR_TYPE "bf16x2"
#endif
#endif
#ifdef LOWEST
static inline uint max_of_pairs(const uint a, const uint b)
{
    uint larger;
    asm("max." PAIR_TYPE " %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}
#endif

#ifdef LOWEST
#define PAIRS 1
#define WORDS (IS_KIND(forward_lanes) ? VEC / 2 : 1)
#define TWICE MX_JOIN(TWICE_, VEC)
#define TWICE_2 4
#define TWICE_4 8
#define TWICE_8 16
typedef struct {
    uint value[WORDS], code[WORDS];
} most_t;
#elif IS_KIND(forward_lanes)
#define PAIRS 0
typedef struct {
    vec_t value;
    LANEV code;
} most_t;
#else
#define PAIRS 0
typedef struct {
    ACC value;
    int code;
} most_t;
#endif

static inline most_t most(const most_t a, const most_t b)
{
    most_t c;
#if PAIRS
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        uint above;
        asm("set.gt.u32." PAIR_TYPE " %0, %1, %2;" : "=r"(above) : "r"(b.value[i]), "r"(a.value[i]));
#if PROPAGATE
        uint no_number;
        asm("set.nan.u32." PAIR_TYPE " %0, %1, %1;" : "=r"(no_number) : "r"(b.value[i]));
        above |= no_number;
        c.value[i] = (b.value[i] & above) | (a.value[i] & ~above);
#else
        c.value[i] = max_of_pairs(a.value[i], b.value[i]);
#endif
        c.code[i] = (b.code[i] & above) | (a.code[i] & ~above);
    }
#else
    c.value = ABOVE(b.value, a.value) ? b.value : a.value;
    c.code = ABOVE(b.value, a.value) ? b.code : a.code;
#endif
    return c;
}

/* The maximum of window r of `count` along an axis, whose elements are parts of in[r * step] and the next ones; windows
 * r and r + 1 of three elements have two in common. */
#define MOST(to, r, count, in, part, window, step, common)                   \
    do {                                                                     \
        if ((window) == 3 && (step) == 1 && (r) % 2 == 1) {                  \
            (to) = most(common, (in)[(r) + 2] part);                         \
        } else if ((window) == 3 && (step) == 1 && (r) + 1 < (count)) {      \
            (common) = most((in)[(r) + 1] part, (in)[(r) + 2] part);         \
            (to) = most((in)[r] part, common);                               \
        } else {                                                             \
            (to) = (in)[(r) * (step)] part;                                  \
            _Pragma("unroll") for (int t_ = 1; t_ < (window); t_++)          \
                (to) = most(to, (in)[(r) * (step) + t_] part);               \
        }                                                                    \
    } while (0)

#ifdef LOWEST
/* Two numbers of 16 bits; -inf for what lies outside, and for NaN where it is no maximum. */
static inline uint pair_of(const uint word, const bool inside)
{
#if PROPAGATE
    return inside ? word : LOWEST;
#else
    return max_of_pairs(inside ? word : LOWEST, LOWEST);
#endif
}
#endif

#if PAIRS && IS_KIND(forward_lanes)
static inline most_t most_at(const MX_RAW(TYPE) bits, const bool inside, const uint code)
{
    most_t a;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        a.value[i] = pair_of(((const uint *)&bits)[i], inside);
        a.code[i] = code * 0x10001u;
    }
    return a;
}
#elif PAIRS
/* A half of a's and a half of b's. */
static inline uint two_of(const uint a, const bool high_a, const uint b, const bool high_b)
{
    uint two;
    asm("prmt.b32 %0, %1, %2, %3;"
        : "=r"(two) : "r"(a), "r"(b), "r"((high_a ? 0x32u : 0x10u) | (high_b ? 0x7600u : 0x5400u)));
    return two;
}
#else
/* What a maximum is made of: -inf for NaN where it is none. */
#if PROPAGATE
#define COUNTED(value, type) (value)
#else
#define COUNTED(value, type) fmax(value, (type)NOTHING)
#endif

/* What some bits say; -inf for what lies outside. */
static inline vec_t numbers(const MX_RAW(TYPE) bits, const bool inside)
{
    return inside ? COUNTED(MX_WIDE(TYPE, bits), vec_t) : (vec_t)NOTHING;
}

#if IS_KIND(forward_lanes)
static inline most_t most_at(const MX_RAW(TYPE) bits, const bool inside, const LANE code)
{
    most_t a;
    a.value = numbers(bits, inside);
    a.code = code;
    return a;
}
#endif
#endif
