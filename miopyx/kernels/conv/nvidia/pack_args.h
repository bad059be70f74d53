/* What conv/nvidia/pack.cl, pack_bytes.cl and tf32_pack.cl take.  from_*, to_*: strides in elements. */
#ifndef MIOPYX_NV_PACK_ARGS_H
#define MIOPYX_NV_PACK_ARGS_H
#include "include/divisor.h"

/* pack_weights */
typedef struct {
    int groups, rows, taps_h, taps_w, channels, reduced; /* taps of the copy */
    int folded, limit; /* channels of one of w's taps within a tap of the copy; w's taps in a row */
    int from_g, from_row, from_h, from_w, from_c;
} mx_nv_weights;

/* pack_merged_weights */
typedef struct {
    int rows, channels, taps_d, taps_h, taps_w, filters, reduced; /* taps of the product */
    /* tap of w: phase + shift - step * tap of the product */
    int step_d, step_h, step_w, shift_d, shift_h, shift_w, limit_d, limit_h, limit_w;
    int from_c, from_d, from_h, from_w, from_k;
} mx_nv_merged;

/* pack_narrow */
typedef struct {
    int images, channels, h, w; /* of x */
    int planes, rows, chunks; /* of the copy: planes of an image, rows of a plane, chunks of a row */
    int chunk_step, pixel_step; /* pixels of x from one chunk to the next, and between the two of a chunk */
    int pad_h, pad_w;
    int from_n, from_c, from_h, from_w;
} mx_nv_narrow;

/* scatter_phases */
typedef struct {
    int images, h, w, channels; /* of the result */
    int p, q, reduced, step_h, step_w;
    int to_n, to_c, to_h, to_w;
} mx_nv_scatter;

/* gather_pixels, scatter_pixels */
typedef struct {
    int planes, channels; /* channels of all images, of one */
    int h, w, p, q, step_h, step_w; /* of the strided tensor; of the packed one; from one of its pixels to the next */
    int stride_n, stride_c, stride_h; /* of the strided tensor */
    int item_planes; /* of a work-item */
    mx_divisor by_runs, by_row, by_channels, by_step_h, by_step_w; /* by_runs, by_row: of what is written */
} mx_nv_stepped;

/* pack_pixels, pack_two; unpack_pixels, where from_* are strides of what is written */
typedef struct {
    int images, groups, h, w, channels, reduced;
    int from_n, from_g, from_c, from_h, from_w;
    int tile_pixels, blocks; /* pixels of a tile, blocks of 64 channels of all groups */
    mx_divisor by_image, by_row, by_blocks; /* h * w, w, blocks */
} mx_nv_pixels;

/* sample_scales: the numbers that share a scale.  Scale i has those of an outer and an inner axis at i / inner and
 * i % inner, along three more; the last of them is the one whose numbers lie closest. */
typedef struct {
    int scales, inner, from_outer, from_inner;
    int planes, rows, columns, from_plane, from_row, from_column;
    mx_divisor by_inner, by_rows, by_columns;
} mx_nv_sampled;

/* pack_scaled: pixels, and the scale of one: first + n * by_n + h * by_h + c * by_c, c through all groups. */
typedef struct {
    mx_nv_pixels pixels;
    int tiles, first, by_n, by_h, by_c;
} mx_nv_scaled;

/* pack_bytes */
typedef struct {
    int images, groups, pixels, w, channels, reduced;
    int from_n, from_g, from_c, from_h, from_w;
    mx_divisor by_w;
} mx_nv_bytes;
#endif
