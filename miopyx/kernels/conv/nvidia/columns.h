/* An epilogue's scales and shifts where the columns of a product are filters, for conv/nvidia/hopper.cl and
 * conv/nvidia/hopper_rows.cl, in 16 bits.  Expects WN, WG_ROWS, PERMUTE_FILTERS and mx_widen, after include/epilogue.h.
 */
#ifndef COLUMNS_IN_LOCAL
#define COLUMNS_IN_LOCAL 0
#endif
/* Columns are filters: each lane's sums are of 8 neighbouring ones of 32 (PERMUTE_FILTERS, hopper_store.h), else of 2 of 8.
 * Read from memory by each lane they would cost a tile one latency after the other, so a warpgroup reads each once, after
 * its last product was issued: before, a load would wait behind all that is copied.  They come to their lanes
 * through local memory, where there is room (COLUMNS_IN_LOCAL), or by shuffles. */
#define NEIGHBOURS (PERMUTE_FILTERS ? 8 : 2)
#if defined(BIAS_TYPE) || defined(NORM_TYPE)
#define HAS_COLUMNS 1
#if COLUMNS_IN_LOCAL
#define OWN_COLUMNS ((WN + 127) / 128)
#define OWN_COLUMN(i) ((int)(get_local_id(0) & 127) + (i)*128)
#else
#define OWN_COLUMNS (WN / 32)
#define OWN_COLUMN(i) ((int)(get_local_id(0) & 31) + (i)*32)
#endif
#ifdef NORM_TYPE
#define COLUMNS_BYTES (8 * WN) /* in local memory: shifts, then scales */
#else
#define COLUMNS_BYTES (4 * WN)
#endif

/* What a work-item has of its warpgroup's columns; a bias as it was read, so that nothing waits for it before. */
typedef struct {
#ifdef NORM_TYPE
    float scale[OWN_COLUMNS], shift[OWN_COLUMNS];
#else
    STORAGE(BIAS_TYPE) bias[OWN_COLUMNS];
#endif
} mx_columns;

/* Columns are filters from k0 on of a group whose first one is group_filter. */
static inline mx_columns mx_load_columns(long group_filter, int k0, int filters, EPILOGUE_PARAMS)
{
    mx_columns own;
#pragma unroll
    for (int i = 0; i < OWN_COLUMNS; i++) {
        const long k = group_filter + min(k0 + OWN_COLUMN(i), filters - 1);
#ifdef NORM_TYPE
        own.scale[i] = mx_result_scale(EPILOGUE_ARGS, k);
        own.shift[i] = mx_result_shift(EPILOGUE_ARGS, k);
#else
        own.bias[i] = epilogue->bias[k];
#endif
    }
    return own;
}

#ifdef NORM_TYPE
#define MX_OWN_SHIFT(own, i) (own).shift[i]
#elif MX_TYPE(BIAS_TYPE) == MX_TYPE_float
#define MX_OWN_SHIFT(own, i) (own).bias[i]
#else
#define MX_OWN_SHIFT(own, i) mx_widen((own).bias[i])
#endif
#ifdef NORM_TYPE
#define MX_HOLD_COLUMNS(own)
#else /* no conversion before */
#define MX_HOLD_COLUMNS(own) \
    _Pragma("unroll") for (int i_ = 0; i_ < OWN_COLUMNS; i_++) asm volatile("" : MX_BIAS_REGISTER((own).bias[i_])::"memory");
#if MX_TYPE(BIAS_TYPE) == MX_TYPE_float
#define MX_BIAS_REGISTER "+f"
#else
#define MX_BIAS_REGISTER "+h"
#endif
#endif

#if COLUMNS_IN_LOCAL
static inline void mx_store_columns(uint to, const mx_columns *own)
{
#pragma unroll
    for (int i = 0; i < OWN_COLUMNS; i++)
        if (OWN_COLUMN(i) < WN) {
            const uint at = to + 4 * OWN_COLUMN(i);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(as_uint(MX_OWN_SHIFT(*own, i))) : "memory");
#ifdef NORM_TYPE
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + 4 * WN), "r"(as_uint(own->scale[i])) : "memory");
#endif
        }
}

static inline void mx_load_neighbours(float *to, uint from)
{
    uint words[8];
    if (NEIGHBOURS == 8) {
#pragma unroll
        for (int l = 0; l < 8; l += 4)
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(words[l]), "=r"(words[l + 1]), "=r"(words[l + 2]), "=r"(words[l + 3])
                         : "r"(from + 4 * l) : "memory");
    } else
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(from) : "memory");
#pragma unroll
    for (int l = 0; l < NEIGHBOURS; l++)
        to[l] = as_float(words[l]);
}
#define MX_NEIGHBOURS_SHIFT(to, j) mx_load_neighbours(to, columns_at + (lane & 3) * 4 * NEIGHBOURS + 8 * (j))
#define MX_NEIGHBOURS_SCALE(to, j) mx_load_neighbours(to, columns_at + (lane & 3) * 4 * NEIGHBOURS + 8 * (j) + 4 * WN)
#else
static inline float mx_of_lane(float value, int source)
{
    uint found;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(found) : "r"(as_uint(value)), "r"(source));
    return as_float(found);
}
#define MX_GET_NEIGHBOURS(to, j, value) \
    _Pragma("unroll") for (int l_ = 0; l_ < NEIGHBOURS; l_++)(to)[l_] = \
        mx_of_lane(value, (j) % 16 * 2 + (lane & 3) * NEIGHBOURS + l_);
#define MX_NEIGHBOURS_SHIFT(to, j) MX_GET_NEIGHBOURS(to, j, MX_OWN_SHIFT(*own, (j) / 16))
#define MX_NEIGHBOURS_SCALE(to, j) MX_GET_NEIGHBOURS(to, j, own->scale[(j) / 16])
#endif
#else
#define HAS_COLUMNS 0
typedef int mx_columns;
#endif

/* Scales the sums of 32 columns, from sum j on; `columns_at`: where columns are in local memory, if they are there, else
 * `own` has them. */
static inline void mx_scale_part(float (*sums)[WN / 2], int part, int lane, float alpha, const mx_columns *own,
                                 uint columns_at)
{
#pragma unroll
    for (int j = part; j < part + 16; j += 2 * NEIGHBOURS) {
        float scale[8], shift[8];
#if HAS_COLUMNS
        MX_NEIGHBOURS_SHIFT(shift, j);
#endif
#if HAS_COLUMNS && defined(NORM_TYPE)
        MX_NEIGHBOURS_SCALE(scale, j);
#endif
#pragma unroll
        for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
            for (int l = 0; l < NEIGHBOURS; l++)
#pragma unroll
                for (int row = 0; row < 2; row++) {
                    float *sum = &sums[i][j + l / 2 * 4 + l % 2 + row * 2];
#if HAS_COLUMNS && defined(NORM_TYPE)
                    *sum = *sum * scale[l] + shift[l];
#elif HAS_COLUMNS
                    *sum = *sum * alpha + shift[l];
#else
                    *sum *= alpha;
#endif
                }
    }
}

static inline void mx_scale_columns(float (*sums)[WN / 2], int lane, float alpha, const mx_columns *own, uint columns_at)
{
#pragma unroll
    for (int part = 0; part < WN / 2; part += 16)
        mx_scale_part(sums, part, lane, alpha, own, columns_at);
}
