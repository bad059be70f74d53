/* An epilogue's scales and shifts on the sums of wgmma, for include/epilogue.h: each work-item has numbers of rows and
 * columns of the product, of which either are filters.
 */
#ifndef RELU_ROUNDS /* 1: ReLU is done where pairs are rounded */
#define RELU_ROUNDS 0
#endif
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

/* A line of z on its way to the L2. */
#define MX_PREFETCH(p) asm volatile("prefetch.global.L2 [%0];" ::"l"(p))

/* All that is left to do where there is no z.  Of ReLU nothing is, if what rounds to 16 bits does it. */
#if defined(FUSED_Z) || RELU_ROUNDS
#define MX_FINISH(sums, count)
#else
#define MX_FINISH(sums, count) \
    _Pragma("unroll") for (int j_ = 0; j_ < (count); j_++)(sums)[j_] = FINAL_RESULT((sums)[j_]);
#endif
#else
#define MX_STORE_ALPHA alpha
#endif
