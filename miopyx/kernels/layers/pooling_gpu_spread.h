/* Backward by blocks of ROWS x COLUMNS elements of dx, which begin at a multiple of the strides, and the windows that
 * they meet.  With that start, which window contains which element is known when the kernel is compiled.
 */

/* Windows with elements of the block, along an axis: how many begin before the block's number of strides, and how many
 * there are in all. */
#define BEFORE_H ((WINDOW_H - 1 - PAD_H) / STEP_H)
#define BEFORE_W ((WINDOW - 1 - PAD_W) / STEP_W)
#define ALONG_H ((ROWS - 1 + PAD_H) / STEP_H + BEFORE_H + 1)
#define ALONG_W ((COLUMNS - 1 + PAD_W) / STEP_W + BEFORE_W + 1)

#if IS_KIND(backward_lanes)
#define PARTS PACK
typedef vec_t value_t;
#else
#define PARTS 1
typedef ACC value_t;
#endif
#if SAVE
#define NO_TAP 255 /* of indices of 8 bits */
#if PARTS == 1
typedef INDEX_TYPE code_t;
#else
typedef CODES code_t;
#endif

/* Adds a window's value to the element that its code means.  NVIDIA's compiler makes a comparison, a selection and an
 * addition of it where two instructions do. */
static inline void add_if(ACC *sum, const INDEX_TYPE code, const INDEX_TYPE here, const ACC value)
{
#if defined(__NV_CL_C_VERSION) && MX_TYPE(TYPE) != MX_TYPE_double && INDEX_BITS <= 32 && \
    (IS_KIND(backward_lanes) || STEP_W == 1) /* else slower: 45 us for 41 */
    asm("{ .reg .pred here; setp.eq.u32 here, %1, %2; @here add.f32 %0, %0, %3; }"
        : "+f"(*sum) : "r"((uint)code), "r"((uint)here), "f"(value));
#else
    *sum += code == here ? value : (ACC)0;
#endif
}
#else
/* What each element of window (j, k) gets of its value. */
static inline value_t share_of(const mx_pooling_problem *p, const value_t value, const INDEX j, const INDEX k)
{
    const INDEX top = j * STEP_H - PAD_H, left = k * STEP_W - PAD_W;
    if (MODE == 2)
        return value / (ACC)(WINDOW_H * WINDOW);
    return value / (ACC)((min(top + WINDOW_H, (INDEX)p->x.len[3]) - max(top, (INDEX)0)) *
                         (min(left + WINDOW, (INDEX)p->x.len[4]) - max(left, (INDEX)0)));
}
#endif

/* Adds what the elements of a block, which begins at `place` of the image, get of window (j, k) of those it meets. */
static inline void spread(value_t sum[ROWS][COLUMNS], const int j, const int k, const value_t value,
#if SAVE
                          const code_t code,
#endif
                          const INDEX place, const INDEX width)
{
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int s = 0; s < COLUMNS; s++) {
            const int tap_h = r + PAD_H + (BEFORE_H - j) * STEP_H, tap_w = s + PAD_W + (BEFORE_W - k) * STEP_W;
            if (tap_h < 0 || tap_h >= WINDOW_H || tap_w < 0 || tap_w >= WINDOW)
                continue;
#if SAVE
            const INDEX_TYPE here = (INDEX_TYPE)(IMAGE ? place + r * width + s : tap_h * WINDOW + tap_w);
#pragma unroll
            for (int i = 0; i < PARTS; i++)
                add_if((ACC *)&sum[r][s] + i, ((const INDEX_TYPE *)&code)[i], here, ((const ACC *)&value)[i]);
#else
            sum[r][s] += value;
#endif
        }
}
