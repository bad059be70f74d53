/* Loops over the raw calls that a launch makes, timed where they run.  Nothing of OpenCL is linked or included: the
 * functions come as addresses from the library that the process uses already. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int32_t (*set_arg_t)(void *kernel, uint32_t index, size_t size, const void *value);
typedef int32_t (*enqueue_t)(void *queue, void *kernel, uint32_t dims, const size_t *offset, const size_t *global,
                             const size_t *local, uint32_t waits, const void *wait_list, void *event);
typedef int (*host_t)(const void *problem, void **slots, const double *scalars, int threads);

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds of `count` launches.  Before each, `changed` pointer arguments are set, those at values[0 .. changed-1]
 * and values[changed .. 2 changed-1] by turns.  A negative result is the error code of OpenCL that ended the loop. */
int64_t raw_launches(set_arg_t set_arg, enqueue_t enqueue, void *queue, void *kernel, const size_t *global, int changed,
                     const uint32_t *index, void *const *values, int64_t count)
{
    const int64_t start = now();
    for (int64_t i = 0; i < count; i++) {
        int32_t code;
        for (int j = 0; j < changed; j++) {
            code = set_arg(kernel, index[j], sizeof(void *), &values[(i & 1) * changed + j]);
            if (code)
                return code;
        }
        code = enqueue(queue, kernel, 1, NULL, global, NULL, 0, NULL, NULL);
        if (code)
            return code;
    }
    return now() - start;
}

/* The host path's launch: a function that is called through a pointer. */
int empty_kernel(const void *problem, void **slots, const double *scalars, int threads)
{
    (void)problem, (void)slots, (void)scalars, (void)threads;
    return 0;
}

int64_t raw_host_calls(host_t function, const void *problem, void **slots, const double *scalars, int threads,
                       int64_t count)
{
    const int64_t start = now();
    for (int64_t i = 0; i < count; i++) {
        const int code = ((host_t volatile *)&function)[0](problem, slots, scalars, threads);
        if (code)
            return -1;
    }
    return now() - start;
}
