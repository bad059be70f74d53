/* An epilogue's scales and shifts on the sums of wgmma, for include/epilogue.h: each work-item has numbers of rows and
 * columns of the product, of which either are filters.
 */
#ifdef EPILOGUE
#define MX_STORE_ALPHA 1.0f
/* Whether sums are what is stored once they were scaled and finished. */
#if defined(FUSED_Z) || SCALED
#define MX_PLAIN_EPILOGUE 0
#else
#define MX_PLAIN_EPILOGUE 1
#endif

/* Of filter k of a group, or of the group's last one. */
#define OF_FILTER_BELOW(k, filters) OF_FILTER(group_filter + min(k, (filters) - 1))

/* `count` sums, in runs of 4: two neighbouring columns of a row, then of the row 8 below.  Rows are filters k and k + 8. */
#define MX_SCALE_ROWS(sums, count, first, k, filters)                                            \
    _Pragma("unroll") for (int row_ = 0; row_ < 2; row_++)                                       \
    {                                                                                            \
        OF_FILTER((long)(first) + min((k) + 8 * row_, (filters) - 1))                            \
        _Pragma("unroll") for (int j_ = 2 * row_; j_ < (count); j_ += 4)                         \
        {                                                                                        \
            (sums)[j_] = SCALED_RESULT((sums)[j_]);                                              \
            (sums)[j_ + 1] = SCALED_RESULT((sums)[j_ + 1]);                                      \
        }                                                                                        \
    }

#if defined(BIAS_TYPE) && !defined(NORM_TYPE) && MX_TYPE(BIAS_TYPE) != MX_TYPE_float
/* The biases of 2 or 8 neighbouring filters, which are read together where they may be. */
static inline void mx_biases(float *shift, const mx_epilogue *const epilogue, long group_filter, int k, int filters,
                             int count)
{
    __global const ushort *from = epilogue->bias + group_filter + k;
    if (k + count <= filters && ((ulong)from & (2 * count - 1)) == 0) {
        uint word[4];
        if (count == 8) {
            const uint4 all = *(__global const uint4 *)from;
            word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
        } else
            word[0] = *(__global const uint *)from;
#pragma unroll
        for (int l = 0; l < count; l++)
            shift[l] = mx_widen((ushort)(word[l / 2] >> l % 2 * 16));
    } else
#pragma unroll
        for (int l = 0; l < count; l++)
            shift[l] = mx_widen(epilogue->bias[group_filter + min(k + l, filters - 1)]);
}
#define MX_SHIFTS(shift, k, filters, count)                                                      \
    mx_biases(shift, epilogue, group_filter_, k, filters, count);                                \
    _Pragma("unroll") for (int l_ = 0; l_ < (count); l_++) scale_[l_] = alpha;
#else
#define MX_SHIFTS(shift, k, filters, count)                                                      \
    _Pragma("unroll") for (int l_ = 0; l_ < (count); l_++)                                       \
    {                                                                                            \
        OF_FILTER(group_filter_ + min((k) + l_, (filters) - 1))                                  \
        scale_[l_] = epilogue->scale_one, (shift)[l_] = epilogue->shift_one;                     \
    }
#endif

/* Columns are filters from k0 on; PERMUTE: as mx_permuted has them (hopper_store.h), 8 neighbours a work-item, else 2. */
#define MX_SCALE_COLUMNS(sums, count, first, k0, filters, lane, PERMUTE)                         \
    _Pragma("unroll") for (int j_ = 0; j_ < (count); j_ += (PERMUTE) ? 16 : 4)                   \
    {                                                                                            \
        const long group_filter_ = (first);                                                      \
        float scale_[8], shift_[8];                                                              \
        MX_SHIFTS(shift_, (k0) + j_ * 2 + ((lane) & 3) * ((PERMUTE) ? 8 : 2), filters, (PERMUTE) ? 8 : 2) \
        _Pragma("unroll") for (int l_ = 0; l_ < ((PERMUTE) ? 8 : 2); l_++)                       \
            _Pragma("unroll") for (int row_ = 0; row_ < 2; row_++)                               \
            {                                                                                    \
                const int at_ = j_ + l_ / 2 * 4 + l_ % 2 + row_ * 2;                             \
                (sums)[at_] = (sums)[at_] * scale_[l_] + shift_[l_];                             \
            }                                                                                    \
    }

/* A line of z on its way to the L2. */
#define MX_PREFETCH(p) asm volatile("prefetch.global.L2 [%0];" ::"l"(p))

/* All that is left to do where there is no z. */
#ifdef FUSED_Z
#define MX_FINISH(sums, count)
#else
#define MX_FINISH(sums, count) \
    _Pragma("unroll") for (int j_ = 0; j_ < (count); j_++)(sums)[j_] = FINAL_RESULT((sums)[j_]);
#endif
#else
#define MX_STORE_ALPHA alpha
#endif
