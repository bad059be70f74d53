/* A pool of threads that is made at its first use and survives fork.
 *
 * A caller acquires the whole pool, runs any number of task sets on it, and releases it.  A second caller that comes
 * while it is taken gets width 1 and works in its own thread: it is never blocked and never wrong.
 */
#ifndef MIOPYX_POOL_H
#define MIOPYX_POOL_H

#include <stdint.h>

/* `worker` is below the width, and no two tasks run at a time with the same one. */
typedef void (*mx_task)(void *context, int64_t index, int worker);

/* Cores that this process may run on. */
int mx_usable_cores(void);
/* Returns the width: how many threads, the caller's among them, tasks will run on; at most `threads`. */
int mx_pool_acquire(int threads);
/* Run tasks 0 ... count - 1; returns when all are done.  `width` is what mx_pool_acquire returned, or 1. */
void mx_pool_run(mx_task task, void *context, int64_t count, int width);
void mx_pool_release(int width);

/* Default rounding, no flushing of subnormals: libraries that were built with -ffast-math change these for the thread
 * that loads them.  Returns the old state, for mx_restore_arithmetic. */
unsigned mx_default_arithmetic(void);
void mx_restore_arithmetic(unsigned state);

#endif
