/* What the host path's geometry (_implicit.pyx) and its inner loops (gemm_f64.c) tell each other.
 *
 * Every direction of a convolution is a matrix product out[m][n] = sum over k of A[m][k] B[n][k].  An operand is one of
 * A and B: its *lanes* are m or n, its *steps* are k.  Packing turns a panel of `width` lanes into doubles,
 * dst[step][lane], whatever the type and the strides were; lanes past the last one become zeros.
 */
#ifndef MIOPYX_GEMM_F64_H
#define MIOPYX_GEMM_F64_H

#include <stdint.h>

enum { MX_MAX_WIDTH = 32, MX_ROW_PADDING = 8 };

/* How lanes and steps of an operand find their elements. */
enum {
    MX_DENSE,           /* filters: element = lane * lane_stride + step_offset[step] */
    MX_LANES_POSITIONS, /* image: lanes are positions, steps are (tap, channel) */
    MX_LANES_FILTER     /* image: lanes are (tap, channel), steps are positions */
};

/* A filter tap: what it adds to a position's coordinates and to its element offset. */
typedef struct {
    int64_t d, h, w, offset;
} mx_tap;

typedef struct {
    const char *data;
    int64_t type;
    int64_t lanes, steps;
    int kind;
    int watch;                  /* packing reports NaN and infinity */
    /* MX_DENSE */
    int64_t lane_stride;
    const int64_t *step_offset;
    /* images */
    int clipped;                /* some tap of some position falls outside: coordinates must be looked at */
    int tap_inner;              /* (tap, channel) counts taps first */
    int rows_first;             /* neighbouring positions are closer in memory than neighbouring channels */
    int64_t count[4];           /* grid of positions n d h w, w fastest */
    int64_t jump[4];            /* elements from one position to the next */
    int64_t step[3], size[3];   /* coordinate = index * step + tap, inside 0 ... size - 1 */
    int64_t taps, channels, channel_stride;
    const mx_tap *tap;
} mx_operand;

/* `len` lanes of an output row, from lane `lane` on: element offsets offset, offset + stride, ... */
typedef struct {
    int64_t lane, len, offset, stride;
} mx_run;

typedef struct {
    const char *name;
    int mr, nr;                 /* rows and columns of a tile */
    int kc;                     /* steps of a panel that keep it in the first-level cache */

    /* Pack `steps` steps of a panel.  `offset` (elements) is added to the operand's data; rows is scratch of
     * width * (steps + MX_ROW_PADDING) doubles.  Returns 1 where the operand is watched and a value is not finite. */
    int (*pack)(const mx_operand *operand, int64_t offset, int64_t lane, int64_t step, int64_t steps, int width,
                double *dst, double *rows);
    /* tile[r][c] (+)= sum over k of a[k][r] b[k][c], for the first `rows` rows and `columns` columns at least. */
    void (*multiply)(int rows, int columns, int64_t steps, const double *a, const double *b, double *tile, int add);
    /* out = alpha tile + beta out, rounded once; out is not read where beta is 0.  A float8 is rounded as mx_conv_problem
     * says, by its offset from out. */
    void (*store)(char *out, int64_t type, int64_t rounding, int64_t offset, int64_t row_stride, int rows,
                  const mx_run *runs, int64_t run_count, const double *tile, double alpha, double beta);
    /* Rows of elements from and to doubles. */
    void (*load_row)(const char *data, int64_t type, int64_t offset, int64_t stride, double *dst, int64_t n);
    void (*store_row)(char *data, int64_t type, int64_t offset, int64_t stride, const double *src, int64_t n);
} mx_kernels;

/* a / b for a >= 0, b > 0, and the remainder.  Divisions of 64 bits take several times as long as those of 32. */
static inline int64_t mx_divide(int64_t a, int64_t b, int64_t *remainder) {
    if (((uint64_t) a | (uint64_t) b) >> 32 == 0) {
        *remainder = (uint32_t) a % (uint32_t) b;
        return (uint32_t) a / (uint32_t) b;
    }
    *remainder = a % b;
    return a / b;
}

/* The best variant that this CPU runs, none better than `limit` ("baseline", "avx2", "avx512"; NULL: no limit).
 * NULL where `limit` is none of these. */
const mx_kernels *mx_choose_kernels(const char *limit);

#endif
