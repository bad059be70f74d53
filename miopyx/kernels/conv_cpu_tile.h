/* A tile of a matrix product in a CPU's registers: sums[ROWS][V] = or += sum over k of a[k][ROWS] * panel[k][V].
 *
 * The file that includes this defines ACC, VEC (ACC elements in a vector), ROWS and N_VECTORS; 8 x 3 sums, a row of the
 * panel and an element of a fill 32 registers, 6 x 2 or 4 x 3 fill 16.  The panel has N_VECTORS vectors a step, of
 * which the first V = 1 ... N_VECTORS are computed, and sums N_VECTORS vectors a row.
 *
 * TILE_MULTIPLY(name, A_SPACE, A, LOAD_A, PANEL_SPACE) defines
 *     name(V, add, sums, a, a_step, panel, depth)
 * for `a` in A_SPACE of elements A, of which LOAD_A(a, a_step, k, i) is that of row i and step k as ACC, and a panel of
 * vec in PANEL_SPACE.  The sums, which are private, begin at 0 or, with add, where they are.  They are taken along k in
 * order, whatever V and the tile's shape.  Vectors that live on around a call cost registers: what else has vectors is
 * better not inlined.
 */
#ifndef ROWS
#define ROWS 8
#endif
#ifndef N_VECTORS
#define N_VECTORS 3
#endif
#if N_VECTORS < 1 || N_VECTORS > 6 || ROWS < 1
#error "ROWS or N_VECTORS out of range"
#endif

typedef MX_JOIN(ACC, VEC) vec;
#define TILE_PACKED(a, a_step, k, i) ((a)[(k) * ROWS + (i)]) /* ROWS elements a step */
#define TILE_IN_ROWS(a, a_step, k, i) ((a)[(i) * (a_step) + (k)])

#define TILE_OF(NAME, V, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                        \
    static inline void NAME##_##V(bool add, vec *restrict sums, A_SPACE const A *restrict a, long a_step,        \
                                  PANEL_SPACE const vec *restrict panel, long depth)                             \
    {                                                                                                            \
        vec s[ROWS][V];                                                                                          \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                         \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                        \
                s[i][j] = add ? sums[i * N_VECTORS + j] : (vec)((ACC)0);                                         \
        _Pragma("unroll 2") for (long k = 0; k < depth; k++)                                                     \
        {                                                                                                        \
            vec b[V];                                                                                            \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                        \
                b[j] = panel[k * N_VECTORS + j];                                                                 \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++) {                                                   \
                const vec left = (vec)((ACC)LOAD_A(a, a_step, k, i));                                            \
                _Pragma("unroll") for (int j = 0; j < V; j++)                                                    \
                    s[i][j] += left * b[j];                                                                      \
            }                                                                                                    \
        }                                                                                                        \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                         \
            _Pragma("unroll") for (int j = 0; j < V; j++)                                                        \
                sums[i * N_VECTORS + j] = s[i][j];                                                               \
    }

#define TILE_CASE_1(NAME, ...) TILE_OF(NAME, 1, __VA_ARGS__)
#define TILE_CALL_1(NAME)
#if N_VECTORS > 1
#define TILE_CASE_2(NAME, ...) TILE_OF(NAME, 2, __VA_ARGS__)
#define TILE_CALL_2(NAME) if (V == 2) NAME##_2(add, sums, a, a_step, panel, depth); else
#else
#define TILE_CASE_2(NAME, ...)
#define TILE_CALL_2(NAME)
#endif
#if N_VECTORS > 2
#define TILE_CASE_3(NAME, ...) TILE_OF(NAME, 3, __VA_ARGS__)
#define TILE_CALL_3(NAME) if (V == 3) NAME##_3(add, sums, a, a_step, panel, depth); else
#else
#define TILE_CASE_3(NAME, ...)
#define TILE_CALL_3(NAME)
#endif
#if N_VECTORS > 3
#define TILE_CASE_4(NAME, ...) TILE_OF(NAME, 4, __VA_ARGS__)
#define TILE_CALL_4(NAME) if (V == 4) NAME##_4(add, sums, a, a_step, panel, depth); else
#else
#define TILE_CASE_4(NAME, ...)
#define TILE_CALL_4(NAME)
#endif
#if N_VECTORS > 4
#define TILE_CASE_5(NAME, ...) TILE_OF(NAME, 5, __VA_ARGS__)
#define TILE_CALL_5(NAME) if (V == 5) NAME##_5(add, sums, a, a_step, panel, depth); else
#else
#define TILE_CASE_5(NAME, ...)
#define TILE_CALL_5(NAME)
#endif
#if N_VECTORS > 5
#define TILE_CASE_6(NAME, ...) TILE_OF(NAME, 6, __VA_ARGS__)
#define TILE_CALL_6(NAME) if (V == 6) NAME##_6(add, sums, a, a_step, panel, depth); else
#else
#define TILE_CASE_6(NAME, ...)
#define TILE_CALL_6(NAME)
#endif

#define TILE_MULTIPLY(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                     \
    TILE_CASE_1(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    TILE_CASE_2(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    TILE_CASE_3(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    TILE_CASE_4(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    TILE_CASE_5(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    TILE_CASE_6(NAME, A_SPACE, A, LOAD_A, PANEL_SPACE)                                                           \
    static inline void NAME(int V, bool add, vec *restrict sums, A_SPACE const A *restrict a, long a_step,       \
                            PANEL_SPACE const vec *restrict panel, long depth)                                   \
    {                                                                                                            \
        TILE_CALL_6(NAME)                                                                                        \
        TILE_CALL_5(NAME)                                                                                        \
        TILE_CALL_4(NAME)                                                                                        \
        TILE_CALL_3(NAME)                                                                                        \
        TILE_CALL_2(NAME)                                                                                        \
        NAME##_1(add, sums, a, a_step, panel, depth);                                                            \
    }
