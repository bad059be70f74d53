/* What the kernels of depthwise convolutions share on CPU devices: the filter, and what a tile of TALL rows reads.
 * MODE, that of conv/cpu/grouped.h, is defined before.
 */
#ifndef R /* taps: rows; S: columns; 3, 5, 7, depthwise_rows up to 11 */
#define R 3
#endif
#ifndef S
#define S 3
#endif
#ifndef STEP /* stride of the rows, 1 or 2 */
#define STEP 1
#endif
#ifndef BACKWARD /* 1: backward data */
#define BACKWARD 0
#endif
#ifndef TALL /* rows at a time: 1, 2, 4 or 7 */
#define TALL 4
#endif
#include "conv/cpu/grouped.h"

#if BACKWARD && STEP == 2
/* Position (t, q) is elements (2 t + a, 2 q + b) of dx, and starts at dy's (t - HALF / 2, q - HALF / 2). */
#define SPREAD 2
#define HALF (R / 2)
#define ROWS_READ (TALL + HALF)
#else
#define SPREAD 1
#define ROWS_READ ((TALL - 1) * STEP + R)
#endif
#define ALL_ROWS ((1 << ROWS_READ) - 1)
#if BACKWARD && STEP == 1
#define TAP(r, s) (R * S - 1 - (r) * S - (s))
#else
#define TAP(r, s) ((r) * S + (s))
#endif
