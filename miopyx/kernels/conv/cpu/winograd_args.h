/* What conv/cpu/winograd.cl and conv/cpu/winograd_weights.cl take. */
#ifndef MIOPYX_CPU_WINOGRAD_ARGS_H
#define MIOPYX_CPU_WINOGRAD_ARGS_H
#include "include/host.h"

/* A tile is a number in [0, tiles): first the image, then the tile's row, then its column.  Outputs of a tile are
 * every `dilation`-th pixels; tiles that begin within `dilation` of each other are neighbours.  Tiles are in blocks.
 * A third axis, the depth, is not transformed: each of its slices has tiles of its own, and the products with the
 * filter's slices are summed.  Planes are images of one slice and filters of one tap along the depth. */
typedef struct {
    mx_int64 groups, c, k;              /* channels of a group: of the image that is read, and of the other one */
    mx_int64 tiles_h, tiles_w, tiles;   /* of an image's slice, and of that slice of all images */
    mx_int64 block;                     /* tiles of a block, a multiple of 4 and of the dilation */
    mx_int64 dilation_h, dilation_w, pad_h, pad_w;
    mx_int64 images, h, w;              /* the image that tiles are read from */
    mx_int64 out_h, out_w;              /* the image that they cover */
    mx_int64 row, point;                /* transformed tiles: elements from a tile to the next, from a point to the next */
    mx_int64 flip;                      /* w is read for backward data: c and k change places, taps are reversed */
    mx_int64 taps_d, dilation_d, pad_d; /* along the depth */
    mx_int64 depth, slice, slices;      /* of the image that is read: slices; the first and the number of those in tiles */
    mx_int64 out_depth, out_slice, out_slices; /* of the other: slices; the first and the number of those of this round */
} mx_winograd;
#endif
