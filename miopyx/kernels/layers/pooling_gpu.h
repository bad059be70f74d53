/* What the ways of pooling on GPUs share.  layers/pooling.h names what is not named here.
 *
 * Definitions, as far as a kernel asks for them:
 *   WINDOW_H, WINDOW     the window along h and w, 1 ... 5
 *   STEP_H, STEP_W       its strides, 1 ... 4
 *   PAD_H, PAD_W         its pads
 *   ROWS, COLUMNS        elements along h and w that a work-item writes
 *   LAST                 1: neighbouring work-items have neighbouring channels, else columns
 *   PACK                 elements of a vector in memory, 2, 4 or 8
 *   SPAN, TILE_H, TILE_W a work-group's tile: vectors of channels, blocks of ROWS x COLUMNS along h and w
 *   DEEP                 work-items that share a vector, a power of two
 *   RUN                  4, 2 or 1: rows of indices are made of such runs, which begin at multiples of it
 *   PAIRED               1: pairs of neighbours in dx begin at even places
 *
 * x and y (dx and dy) have any strides where a kernel says nothing else; indices are packed in n c d h w order, or with
 * LIKE_Y, which strips, elements and pooling_forward_wide know, lie as y (dy) does.  No kernel needs atomics: each element
 * is written by one work-item.
 */
#ifndef WINDOW_H /* of strips; along w it is WINDOW */
#define WINDOW_H 3
#endif
#ifndef STEP_H
#define STEP_H 1
#endif
#ifndef STEP_W
#define STEP_W 1
#endif
#ifndef PAD_H /* backward; PAD_W of pooling_forward_wide */
#define PAD_H 0
#endif
#ifndef PAD_W
#define PAD_W 0
#endif
#ifndef ROWS /* backward: a multiple of STEP_H */
#define ROWS 4
#endif
#ifndef COLUMNS /* pooling_forward_lanes; backward: a multiple of STEP_W */
#define COLUMNS 2
#endif
#ifndef PAIRED /* pairs of neighbours in dx begin at even places: strides are even */
#define PAIRED 0
#endif
#ifndef LAST
#define LAST 0
#endif
#ifndef PACK /* channels of a vector; for pooling_..._lanes */
#define PACK 8
#endif
#ifndef SPAN /* vectors of a tile; pooling_backward_lanes */
#define SPAN 8
#endif
#ifndef DEEP /* a power of two; pooling_forward_whole */
#define DEEP 32
#endif
#ifndef TILE_H /* blocks */
#define TILE_H 2
#endif
#ifndef TILE_W
#define TILE_W 16
#endif
#ifndef RUN /* 4, 2 or 1: rows of indices are made of such runs, which begin at multiples of it; pooling_..._lanes */
#define RUN 1
#endif
#include "layers/pooling.h"

#define KIND_forward_strips 11
#define KIND_backward_strips 12
#define KIND_backward_spread 13
#define KIND_forward_elements 14
#define KIND_backward_elements 15
#define KIND_forward_lanes 16
#define KIND_backward_lanes 17
#define KIND_forward_whole 18
#define KIND_backward_whole 19
#define KIND_forward_wide 20
#define KIND_backward_wide 21

#define NOTHING (MODE == 0 ? -(ACC)INFINITY : (ACC)0)

/* Rows and columns of x that the windows of ROWS x COLUMNS elements of y meet. */
#define DOWN ((ROWS - 1) * STEP_H + WINDOW_H)
#define ACROSS ((COLUMNS - 1) * STEP_W + WINDOW)

/* A value where `mask` is all ones, 0 where it is 0. */
static inline ACC masked(ACC value, LANE mask)
{
    return MX_JOIN(as_, ACC)(MX_JOIN(as_, LANE)(value) & mask);
}

#define FORWARD_BUFFERS                                                                                          \
    __global const STORAGE(TYPE) *restrict x, long x_offset, __global STORAGE(TYPE) *restrict y, long y_offset
#define BACKWARD_BUFFERS                                                                                         \
    __global const STORAGE(TYPE) *restrict dy, long dy_offset, __global STORAGE(TYPE) *restrict dx, long dx_offset

/* Which block of a tensor, `rows` of them along h and `columns` along w, is number `item`. */
typedef struct {
    INDEX n, c, h, w;
} block_t;

static inline block_t block_of(INDEX item, INDEX channels, INDEX rows, INDEX columns)
{
    MX_JOIN(MX_UNSIGNED_, INDEX) rest = item; /* divisions of unsigned numbers are shorter */
    block_t a;
    if (LAST) {
        a.c = rest % channels;
        rest /= channels;
    }
    a.w = rest % columns;
    rest /= columns;
    a.h = rest % rows;
    rest /= rows;
    if (!LAST) {
        a.c = rest % channels;
        rest /= channels;
    }
    a.n = rest;
    return a;
}

#if SAVE
#define FORWARD_ARGUMENTS x, x_offset, y, y_offset, indices, indices_offset
#else
#define FORWARD_ARGUMENTS x, x_offset, y, y_offset
#endif

#if SAVE
#define BACKWARD_ARGUMENTS dy, dy_offset, dx, dx_offset, indices, indices_offset
#else
#define BACKWARD_ARGUMENTS dy, dy_offset, dx, dx_offset
#endif
