/* What conv/cpu/implicit_nhwc.cl and conv/cpu/implicit_nhwc_weights.cl take. */
#ifndef MIOPYX_CPU_IMPLICIT_NHWC_ARGS_H
#define MIOPYX_CPU_IMPLICIT_NHWC_ARGS_H
#include "include/host.h"

/* A convolution of `inputs` channels to `outputs` channels a group, whatever tensors they are of.  Arrays are d h w. */
typedef struct {
    int images, groups;
    int inputs, outputs;
    int channels;              /* of a group in memory: inputs, or, where two of them are one, twice as many or one less */
    int in_pixel, out_pixel;   /* elements from one pixel to the next */
    int in_len[3], out_len[3]; /* pixels */
    int taps[3], pad[3], step[3], dilation[3];
} mx_nhwc;
#endif
