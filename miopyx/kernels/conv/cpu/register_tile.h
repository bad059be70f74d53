/* What the CPU kernels' products share: a tile s[ROWS][V] of `vec` that stays in registers while a sum runs.
 *
 *   FOR_TILE(ROWS, V, statement)        the statement for each i < ROWS and j < V
 *   OUTER_PRODUCT(ROWS, V, s, a, b)     s[i][j] += a * b; a may name i and is broadcast once a row, b may name j
 *
 * Whoever multiplies something else than elements defines ADD_PRODUCT before.
 */
#ifndef ADD_PRODUCT
#define ADD_PRODUCT(sum, a, b) ((sum) + (a) * (b))
#endif
#define FOR_TILE(ROWS, V, ...)                                                                      \
    _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                \
        _Pragma("unroll") for (int j = 0; j < V; j++)                                               \
            __VA_ARGS__
#define OUTER_PRODUCT(ROWS, V, s, a, b)                                                             \
    _Pragma("unroll") for (int i = 0; i < ROWS; i++) {                                              \
        const vec left_ = (vec)(a);                                                                 \
        _Pragma("unroll") for (int j = 0; j < V; j++)                                               \
            s[i][j] = ADD_PRODUCT(s[i][j], left_, b);                                               \
    }
