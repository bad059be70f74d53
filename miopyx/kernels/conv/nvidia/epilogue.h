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

/* Columns are filters from k0 on; PERMUTE: as mx_permuted has them (hopper_store.h). */
#define MX_SCALE_COLUMNS(sums, count, first, k0, filters, lane, PERMUTE)                         \
    _Pragma("unroll") for (int j_ = 0; j_ < (count); j_++)                                       \
        if ((j_ & 2) == 0) {                                                                     \
            const int column_ = (PERMUTE) ? (j_ & ~15) * 2 + ((lane) & 3) * 8 + (j_ >> 2 & 3) * 2 + (j_ & 1) \
                                          : (j_ >> 2) * 8 + ((lane) & 3) * 2 + (j_ & 1);         \
            OF_FILTER((long)(first) + min((k0) + column_, (filters) - 1))                        \
            (sums)[j_] = SCALED_RESULT((sums)[j_]);                                              \
            (sums)[j_ + 2] = SCALED_RESULT((sums)[j_ + 2]);                                      \
        }

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
