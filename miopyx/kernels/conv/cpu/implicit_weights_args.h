/* What conv/cpu/implicit_weights.cl takes. */
#ifndef MIOPYX_CPU_IMPLICIT_WEIGHTS_ARGS_H
#define MIOPYX_CPU_IMPLICIT_WEIGHTS_ARGS_H
#include "include/host.h"

/* Extents and strides are elements.  All channels are counted in *_n, those of a group elsewhere. */
typedef struct {
    mx_int64 lanes, rows;             /* of a group; rows without the taps that are taken one after the other */
    mx_int64 chunk_rows, chunk_taps;  /* of a work-item: whole tiles, chunk_rows * chunk_taps <= SUMS */
    mx_int64 depth;                   /* positions at a time, DEPTH at most */
    mx_int64 images, u_n, v_n;
    mx_int64 out_len[3];              /* positions of an image */
    mx_int64 in_len[3];               /* pixels of V, with the padding where that is in it */
    mx_int64 taps[3], inner[3];
    mx_int64 pad[3], step[3], dilation[3];
    mx_int64 lanes_last;              /* whether lanes are neighbours in dw, else rows are */
} mx_weights;

/* How V is copied: pixel i of the copy is pixel i * step - before of V, or zero outside of it. */
typedef struct {
    mx_int64 to_len[3], from_len[3], before[3], step[3];
} mx_copy;
#endif
