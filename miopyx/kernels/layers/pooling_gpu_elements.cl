/* Pooling on GPUs, element by element: what no other way serves.
 *
 *   forward    y[n, c, d, h, w] = max or mean of x over the window of (d, h, w)
 *   backward   dx[n, c, d, h, w] = sum over the windows that contain it: of dy where the index says so, or of its share
 *
 * Grid:         elements of y (dx), padded to whole work-groups; work-item i writes element i in n c d h w order.
 * Local memory: none.
 * Parameters:   TYPE, ACC, MODE, SAVE, INDEX_BITS, IMAGE, LIKE_Y, PROPAGATE of layers/pooling.h; INDEX int or long.
 * Bound by:     loads of the same elements of x by several work-items, which caches answer.
 */
#include "layers/pooling_gpu.h"
#include "layers/pooling_gpu_elements.h"

#if IS_KIND(forward_elements)
__kernel void pooling_forward_elements(FORWARD_BUFFERS,
#if SAVE
                                       __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                       const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item < mx_size(p.y))
        forward_element(FORWARD_ARGUMENTS, &p, mx_place_of(item, p.y));
}
#endif

#if IS_KIND(backward_elements)
__kernel void pooling_backward_elements(BACKWARD_BUFFERS,
#if SAVE
                                        __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                        const mx_pooling_problem p, const long block)
{
    const INDEX item = (INDEX)get_global_id(0);
    if (item < mx_size(p.x))
        backward_element(BACKWARD_ARGUMENTS, &p, mx_place_of(item, p.x));
}
#endif
