/* MIOpen's activations y = f(x) and their gradients dx = dy f'(x), v being x or y, whichever the mode reads.
 *
 * ACTIVATION is the miopenActivationMode_t; docs/layers.md has the table.  eps is what POWER and TANH take for zero.
 * After include/functions.h.
 */
#ifndef MIOPYX_ACTIVATION_H
#define MIOPYX_ACTIVATION_H
/* 1 / (1 + e^-x), right to the last digits for negative x too. */
static inline V mx_logistic(V x)
{
    const V e = mx_exp(-fabs(x));
    return (x < 0 ? e : (V)1) / (1 + e);
}

static inline V mx_activation(V x, ACC alpha, ACC beta, ACC gamma, ACC eps)
{
#if ACTIVATION == 1 /* LOGISTIC */
    return mx_logistic(x);
#elif ACTIVATION == 2 /* TANH */
    return beta * mx_tanh(alpha * x);
#elif ACTIVATION == 3 /* RELU: NaN stays NaN */
    return x <= 0 ? (V)0 : x;
#elif ACTIVATION == 4 /* SOFTRELU */
    return (x > 0 ? x : (V)0) + mx_log1p(mx_exp(-fabs(x)));
#elif ACTIVATION == 5 /* ABS */
    return fabs(x);
#elif ACTIVATION == 6 /* POWER */
    const V base = mad((V)beta, x, (V)alpha);
    return base <= eps ? (V)0 : mx_pow(base, gamma);
#elif ACTIVATION == 7 /* CLIPPEDRELU: NaN becomes 0 */
    const V positive = x > 0 ? x : (V)0;
    return positive > alpha ? (V)alpha : positive;
#elif ACTIVATION == 8 /* LEAKYRELU */
    return x > 0 ? x : alpha * x;
#elif ACTIVATION == 9 /* ELU */
    return x > 0 ? x : alpha * mx_expm1(x > 0 ? (V)0 : x);
#elif ACTIVATION == 10 /* CLAMP: NaN becomes beta */
    const V below = x < beta ? x : (V)beta;
    return below > alpha ? below : (V)alpha;
#else /* PASTHRU */
    return x;
#endif
}

static inline V mx_activation_gradient(V dy, V v, ACC alpha, ACC beta, ACC gamma, ACC eps)
{
#if ACTIVATION == 1
    return dy * v * (1 - v);
#elif ACTIVATION == 2
    return fabs(beta) <= eps ? (V)0 : dy * alpha * (beta - v * v * (1 / beta));
#elif ACTIVATION == 3
    return v > 0 ? dy : (V)0;
#elif ACTIVATION == 4
    return dy * mx_logistic(v);
#elif ACTIVATION == 5 /* 0 at 0 */
    return v > 0 ? dy : v < 0 ? -dy : (V)0;
#elif ACTIVATION == 6
    const V base = mad((V)beta, v, (V)alpha);
    return base <= eps ? (V)0 : dy * (gamma * beta) * mx_pow(base, gamma - 1);
#elif ACTIVATION == 7
    return v > 0 && v <= alpha ? dy : (V)0;
#elif ACTIVATION == 8
    return v > 0 ? dy : alpha * dy;
#elif ACTIVATION == 9
    return v > 0 ? dy : dy * (alpha * mx_exp(v));
#elif ACTIVATION == 10
    return v > alpha && v <= beta ? dy : (V)0;
#else
    return dy;
#endif
}
#endif
