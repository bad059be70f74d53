/* A divisor that the host knows, as conv/nvidia/quotient.h takes it. */
#ifndef MIOPYX_NV_DIVISOR_H
#define MIOPYX_NV_DIVISOR_H
#include "include/host.h"

typedef struct {
    unsigned int magic, shift; /* ceil(2^(31 + shift) / d), ceil(log2(d)) */
} mx_nv_divisor;
#endif
