/* One element of y or dx by itself: what serves any problem, and vectors in memory that are not aligned. */
#if IS_KIND(forward_elements) || IS_KIND(forward_lanes)
static inline void forward_element(FORWARD_BUFFERS,
#if SAVE
                                   __global INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                   const mx_pooling_problem *p, const mx_place a)
{
    const INDEX d0 = a.d * (INDEX)p->step[0] - (INDEX)p->pad[0], h0 = a.h * (INDEX)p->step[1] - (INDEX)p->pad[1],
                w0 = a.w * (INDEX)p->step[2] - (INDEX)p->pad[2];
    const INDEX d_from = max(d0, (INDEX)0), d_to = min(d0 + (INDEX)p->window[0], (INDEX)p->x.len[2]);
    const INDEX h_from = max(h0, (INDEX)0), h_to = min(h0 + (INDEX)p->window[1], (INDEX)p->x.len[3]);
    const INDEX w_from = max(w0, (INDEX)0), w_to = min(w0 + (INDEX)p->window[2], (INDEX)p->x.len[4]);
    ACC result = NOTHING, rest = 0;
#if PROPAGATE
    INDEX found_d = d_from, found_h = h_from, found_w = w_from;
#else
    INDEX found_d = d0, found_h = h0, found_w = w0; /* code 0 of the window */
#endif
    x += x_offset + a.n * p->x.stride[0] + a.c * p->x.stride[1];
    for (INDEX d = d_from; d < d_to; d++)
        for (INDEX h = h_from; h < h_to; h++) {
            __global const STORAGE(TYPE) *row = x + d * p->x.stride[2] + h * p->x.stride[3];
            for (INDEX w = w_from; w < w_to; w++) {
                const ACC value = LOAD(TYPE)(row, w * p->x.stride[4]);
                if (MODE != 0) {
                    ADD_TERM(ACC, result, rest, value);
                } else if (ABOVE(value, result)) {
                    result = value;
                    found_d = d;
                    found_h = h;
                    found_w = w;
                }
            }
        }
    if (MODE == 1)
        result /= (ACC)((long)(d_to - d_from) * (h_to - h_from) * (w_to - w_from));
    if (MODE == 2)
        result /= (ACC)(p->window[0] * p->window[1] * p->window[2]);
    STORE(TYPE)(y, y_offset + mx_offset(p->y, a.n, a.c, a.d, a.h, a.w), result);
#if SAVE
    const long code = IMAGE ? ((long)found_d * p->x.len[3] + found_h) * p->x.len[4] + found_w
                            : ((found_d - d0) * p->window[1] + found_h - h0) * p->window[2] + found_w - w0;
    indices[indices_offset + index_place(p->y, a.n, a.c, a.d, a.h, a.w)] =
        PROPAGATE || result > -(ACC)INFINITY ? (INDEX_TYPE)code : (INDEX_TYPE)0;
#endif
}
#endif

#if IS_KIND(backward_elements) || IS_KIND(backward_lanes)

typedef struct {
    INDEX from, to;
} range_t;

/* Windows that contain place `at` of an axis, 0 ... 2. */
static inline range_t windows_at(const mx_pooling_problem *p, int axis, INDEX at)
{
    const INDEX step = (INDEX)p->step[axis], first = at + (INDEX)p->pad[axis] - (INDEX)p->window[axis] + 1;
    range_t r;
    r.from = first > 0 ? (first + step - 1) / step : 0;
    r.to = min((at + (INDEX)p->pad[axis]) / step + 1, (INDEX)p->y.len[2 + axis]);
    return r;
}

static inline INDEX elements_in(const mx_pooling_problem *p, int axis, INDEX window)
{
    const INDEX first = window * (INDEX)p->step[axis] - (INDEX)p->pad[axis];
    return MODE == 2 ? (INDEX)p->window[axis]
                     : min(first + (INDEX)p->window[axis], (INDEX)p->x.len[2 + axis]) - max(first, (INDEX)0);
}

static inline void backward_element(BACKWARD_BUFFERS,
#if SAVE
                                    __global const INDEX_TYPE *restrict indices, long indices_offset,
#endif
                                    const mx_pooling_problem *p, const mx_place a)
{
    const range_t on_d = windows_at(p, 0, a.d), on_h = windows_at(p, 1, a.h), on_w = windows_at(p, 2, a.w);
    ACC sum = 0, rest = 0;
    dy += dy_offset + a.n * p->y.stride[0] + a.c * p->y.stride[1];
#if SAVE && LIKE_Y
    indices += indices_offset + a.n * p->y.stride[0] + a.c * p->y.stride[1];
#elif SAVE
    indices += indices_offset + (a.n * p->y.len[1] + a.c) * p->y.len[2] * p->y.len[3] * p->y.len[4];
#endif
    for (INDEX i = on_d.from; i < on_d.to; i++)
        for (INDEX j = on_h.from; j < on_h.to; j++) {
            __global const STORAGE(TYPE) *row = dy + i * p->y.stride[2] + j * p->y.stride[3];
#if SAVE
            __global const INDEX_TYPE *codes = indices + (LIKE_Y ? i * p->y.stride[2] + j * p->y.stride[3]
                                                                 : (i * p->y.len[3] + j) * p->y.len[4]);
            const long tap_d = a.d + p->pad[0] - i * p->step[0], tap_h = a.h + p->pad[1] - j * p->step[1];
            const long taps = (tap_d * p->window[1] + tap_h) * p->window[2] + a.w + p->pad[2];
            const long image = (a.d * p->x.len[3] + a.h) * p->x.len[4] + a.w;
#else
            const ACC lines = (ACC)((long)elements_in(p, 0, i) * elements_in(p, 1, j));
#endif
            for (INDEX k = on_w.from; k < on_w.to; k++) {
                const ACC value = LOAD(TYPE)(row, k * p->y.stride[4]);
#if SAVE
                const long code = IMAGE ? image : taps - k * p->step[2];
                ADD_TERM(ACC, sum, rest, codes[LIKE_Y ? k * p->y.stride[4] : k] == (INDEX_TYPE)code ? value : (ACC)0);
#else
                ADD_TERM(ACC, sum, rest, value / (lines * (ACC)elements_in(p, 2, k)));
#endif
            }
        }
    STORE(TYPE)(dx, dx_offset + mx_offset(p->x, a.n, a.c, a.d, a.h, a.w), sum);
}
#endif
