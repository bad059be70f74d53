/* What conv/fft_forward.cl, conv/fft_inverse.cl and conv/fft_product.cl take. */
#ifndef MIOPYX_FFT_ARGS_H
#define MIOPYX_FFT_ARGS_H
#include "include/host.h"

/* Which pixels of a tensor a tile has.  Pixels are counted as if there were step - 1 zeros between neighbours: tile t
 * of an image begins at pixel t * tile + start, and `window` of its pixels count, the first `skip` of a result left out. */
typedef struct {
    mx_int64 rows, first;                  /* tiles of the launch, the number of the first one */
    mx_int64 across, down;                 /* tiles side by side, and below each other, in an image */
    mx_int64 channels, blocks;             /* of a group; blocks of VEC */
    mx_int64 n, g, c, h, w;                /* from an image, group, channel, row, column to the next */
    mx_int64 height, width;
    mx_int64 step_h, step_w, start_h, start_w, tile_h, tile_w, window_h, window_w, skip_h, skip_w;
    mx_int64 frequency, row;               /* strides of S */
    mx_int64 size;                         /* elements of the tensor */
    mx_int64 conjugate;
} mx_fft_tiles;

/* A product of spectra; conv/fft_product.cl says how its operands are stored. */
typedef struct {
    mx_int64 m, n, k;
    mx_int64 lanes, low, high;
    mx_int64 depth, a_k, a_run;
    mx_int64 b_k, c_m;
    mx_int64 a_g, b_g, c_g;
    mx_int64 a_f, b_f, c_f;
    mx_int64 chunks;
    mx_int64 add;
} mx_fft_product;
#endif
