/* An epilogue's scales and shifts where the columns of a product are filters, for conv/nvidia/hopper.cl and
 * conv/nvidia/hopper_rows.cl, in 16 bits.  Each lane's sums are of 8 neighbouring columns of 32 (PERMUTE_FILTERS,
 * hopper_store.h), else of 2 of 8.
 *
 * Each lane reading them from memory costs a tile one latency after the other, and a load waits behind all that is being
 * copied into the ring.  So they are in local memory, COLUMNS_IN_LOCAL:
 *   where w stays in local memory, too, from the beginning, a group's filters being the same all the time, as floats if
 *   COLUMNS_AS_FLOATS;
 *   else a bias comes as a slice of the ring behind the slices of its tile, in order with what is copied;
 * or, the numbers of a batch norm, in registers that are read once a tile, and from lane to lane by shuffles.
 * Expects WN, WG_ROWS, PERMUTE_FILTERS and mx_widen, after include/epilogue.h.
 */
#define NEIGHBOURS (PERMUTE_FILTERS ? 8 : 2)
#if defined(BIAS_TYPE) || defined(NORM_TYPE)
#define HAS_COLUMNS 1
#else
#define HAS_COLUMNS 0
#endif
#ifdef NORM_TYPE
#define COLUMN_BYTES 8 /* in local memory: all shifts, then all scales */
#elif HAS_COLUMNS && (COLUMNS_AS_FLOATS || MX_TYPE(BIAS_TYPE) == MX_TYPE_float)
#define COLUMN_BYTES 4
#elif HAS_COLUMNS
#define COLUMN_BYTES 2
#endif

#if HAS_COLUMNS && COLUMNS_IN_LOCAL
/* Those of filters k0 on of a group whose first one is group_filter, by `count` work-items. */
static inline void mx_put_columns(uint to, long group_filter, int k0, int columns, int filters, int item, int count,
                                  EPILOGUE_PARAMS)
{
    for (int i = item; i < columns; i += count) {
        const long k = group_filter + min(k0 + i, filters - 1);
#ifdef NORM_TYPE
        const float shift = mx_result_shift(EPILOGUE_ARGS, k), scale = mx_result_scale(EPILOGUE_ARGS, k);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * i), "r"(as_uint(shift)) : "memory");
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * (columns + i)), "r"(as_uint(scale)) : "memory");
#elif COLUMN_BYTES == 4
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * i), "r"(as_uint(mx_result_shift(EPILOGUE_ARGS, k))) : "memory");
#else
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(to + 2 * i), "h"(epilogue->bias[k]) : "memory");
#endif
    }
}

#define MX_LOAD_FOUR(words, from)                                                                         \
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"                                               \
                 : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) : "r"(from) : "memory")
static inline void mx_load_floats(float *to, uint from)
{
    uint words[8];
    if (NEIGHBOURS == 8) {
        MX_LOAD_FOUR(words, from);
        MX_LOAD_FOUR(words + 4, from + 16);
    } else
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(from) : "memory");
#pragma unroll
    for (int l = 0; l < NEIGHBOURS; l++)
        to[l] = as_float(words[l]);
}

#if COLUMN_BYTES >= 4
#define MX_LOAD_SHIFTS(to, column) mx_load_floats(to, columns_at + 4 * (column))
#else
static inline void mx_load_halves(float *to, uint from)
{
    uint words[4];
    if (NEIGHBOURS == 8)
        MX_LOAD_FOUR(words, from);
    else
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(words[0]) : "r"(from) : "memory");
#pragma unroll
    for (int l = 0; l < NEIGHBOURS; l++)
        to[l] = mx_widen((ushort)(words[l / 2] >> l % 2 * 16));
}
#define MX_LOAD_SHIFTS(to, column) mx_load_halves(to, columns_at + 2 * (column))
#endif
#define MX_LOAD_SCALES(to, column) mx_load_floats(to, columns_at + 4 * (WN + (column)))
typedef int mx_columns;
#elif HAS_COLUMNS /* a batch norm's: lane l has columns l, l + 32, ... of its warpgroup's */
typedef struct {
    float scale[WN / 32], shift[WN / 32];
} mx_columns;

static inline mx_columns mx_load_columns(long group_filter, int k0, int filters, EPILOGUE_PARAMS)
{
    mx_columns own;
#pragma unroll
    for (int i = 0; i < WN / 32; i++) {
        const long k = group_filter + min(k0 + (int)(get_local_id(0) & 31) + i * 32, filters - 1);
        own.scale[i] = mx_result_scale(EPILOGUE_ARGS, k);
        own.shift[i] = mx_result_shift(EPILOGUE_ARGS, k);
    }
    return own;
}

static inline float mx_of_lane(float value, int source)
{
    uint found;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(found) : "r"(as_uint(value)), "r"(source));
    return as_float(found);
}
#define MX_EXCHANGE_COLUMNS(to, column, values) \
    _Pragma("unroll") for (int l_ = 0; l_ < NEIGHBOURS; l_++)(to)[l_] = \
        mx_of_lane((values)[j * 2 / 32], (column) % 32 + l_);
#define MX_LOAD_SHIFTS(to, column) MX_EXCHANGE_COLUMNS(to, column, own->shift)
#define MX_LOAD_SCALES(to, column) MX_EXCHANGE_COLUMNS(to, column, own->scale)
#else
typedef int mx_columns;
#endif

/* Scales the sums of 32 columns, from sum `part` on; `columns_at`: where the warpgroup's columns are in local memory, if
 * they are there, else `own` has them. */
static inline void mx_scale_part(float (*sums)[WN / 2], int part, int lane, float alpha, const mx_columns *own,
                                 uint columns_at)
{
#pragma unroll
    for (int j = part; j < part + 16; j += 2 * NEIGHBOURS) {
        float scale[8], shift[8];
#if HAS_COLUMNS
        MX_LOAD_SHIFTS(shift, j * 2 + (lane & 3) * NEIGHBOURS);
#endif
#ifdef NORM_TYPE
        MX_LOAD_SCALES(scale, j * 2 + (lane & 3) * NEIGHBOURS);
#endif
#pragma unroll
        for (int i = 0; i < WG_ROWS; i++)
#pragma unroll
            for (int l = 0; l < NEIGHBOURS; l++)
#pragma unroll
                for (int row = 0; row < 2; row++) {
                    float *sum = &sums[i][j + l / 2 * 4 + l % 2 + row * 2];
#ifdef NORM_TYPE
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
