/* A divisor that the host knows, as include/quotient.h takes it. */
#ifndef MIOPYX_DIVISOR_H
#define MIOPYX_DIVISOR_H
#include "include/host.h"

typedef struct {
    unsigned int magic, shift; /* ceil(2^(31 + shift) / d), ceil(log2(d)) */
} mx_divisor;
#endif
