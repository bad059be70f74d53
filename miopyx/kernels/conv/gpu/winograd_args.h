/* What conv/gpu/winograd.cl takes: a tensor's tiles, and their order in the workspace. */
#ifndef MIOPYX_GPU_WINOGRAD_ARGS_H
#define MIOPYX_GPU_WINOGRAD_ARGS_H
#include "include/host.h"

typedef struct {
    int images, channels, tiles_h, tiles_w; /* counts */
    int h, w, pad_h, pad_w;                 /* of the tensor's images */
    int move;                               /* pixels from a tile to the next */
    int t_n, t_c, t_h, t_w;                 /* the tensor's strides in elements */
    int point, tile, channel;               /* the workspace's: a tile is a number that counts on over the images */
} mx_window;
#endif
