/* Backward weights without pairs, for a sum of theirs that is not finite.  After include/quotient.h and
 * conv/nvidia/volume.h.
 */

/* The sum for one weight as floats give it, over the pixels from `first` up to `end`. */
#if AXES == 3
static inline float mx_exactly(__global const float *X, __global const float *Y, const mx_nv_volume *v, int k, int c,
                               int tap, int first, int end)
{
    const mx_nv_conv *g = &v->conv;
    const int tap_row = tap / g->taps_w, tap_d = tap_row / MX_ROW(g->taps_h);
    const int dd = tap_d * MX_DEEP(g->tap_h) + MX_DEEP(g->first_h), dw = tap % g->taps_w * g->tap_w + g->first_w;
    const int dh = (tap_row - tap_d * MX_ROW(g->taps_h)) * MX_ROW(g->tap_h) + MX_ROW(g->first_h);
    float sum = 0;
#pragma unroll 1
    for (int m = first; m < end && sum == sum; m++) {
        const int n = mx_quotient(m, g->by_image), rest = m - n * (MX_BOTH(g->p) * g->q);
        const int row = mx_quotient(rest, g->by_row), q = rest - row * g->q;
        const int o = mx_quotient(row, v->by_plane), p = row - o * MX_ROW(g->p), d = o * MX_DEEP(g->step_h) + dd;
        const int h = p * MX_ROW(g->step_h) + dh, w = q * g->step_w + dw;
        if ((uint)d < (uint)MX_DEEP(g->h) && (uint)h < (uint)MX_ROW(g->h) && (uint)w < (uint)g->w)
            sum = fma(X[n * g->x_n + c * g->x_c + d * v->x_d + h * g->x_h + w * g->x_w],
                      Y[n * g->y_n + k * g->y_c + o * v->y_d + p * g->y_h + q * g->y_w], sum);
    }
    return sum;
}
#else
static inline float mx_exactly(__global const float *X, __global const float *Y, const mx_nv_conv *g, int k, int c,
                               int tap, int first, int end)
{
    const int dh = tap / g->taps_w * g->tap_h + g->first_h, dw = tap % g->taps_w * g->tap_w + g->first_w;
    float sum = 0;
#pragma unroll 1
    for (int m = first; m < end && sum == sum; m++) {
        const int n = mx_quotient(m, g->by_image), rest = m - n * (g->p * g->q);
        const int p = mx_quotient(rest, g->by_row), q = rest - p * g->q, h = p * g->step_h + dh, w = q * g->step_w + dw;
        if ((uint)h < (uint)g->h && (uint)w < (uint)g->w)
            sum = fma(X[n * g->x_n + c * g->x_c + h * g->x_h + w * g->x_w],
                      Y[n * g->y_n + k * g->y_c + p * g->y_h + q * g->y_w], sum);
    }
    return sum;
}
#endif
