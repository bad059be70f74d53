/* What the kernels of layers/elements_*.cl take; filled by solvers/layers/_elements.pyx. */
#ifndef MIOPYX_ELEMENTS_ARGS_H
#define MIOPYX_ELEMENTS_ARGS_H
#include "include/host.h"

enum { MX_OPERANDS = 10 };

/* Operands walked together, what is read first; the last axis is the innermost one. */
typedef struct {
    mx_int64 len[5];
    mx_int64 stride[MX_OPERANDS][5];
    mx_int64 lines;         /* rows along the last axis */
    mx_int64 pieces, piece; /* of a row, and their length */
} mx_elements_walk;
#endif
