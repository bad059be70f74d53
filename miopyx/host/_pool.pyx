"""The pool's functions for other modules: pool.c has state, so it is linked into this module alone."""

from libc.stdint cimport int64_t

cdef extern from "miopyx/host/pool.h" nogil:
    int mx_usable_cores() noexcept nogil
    int mx_pool_acquire(int threads) noexcept nogil
    void mx_pool_run(mx_task task, void* context, int64_t count, int width) noexcept nogil
    void mx_pool_release(int width) noexcept nogil
    unsigned mx_default_arithmetic() noexcept nogil
    void mx_restore_arithmetic(unsigned state) noexcept nogil

cdef double POOL_FLOPS = 4e5   # below, waking threads costs more than they save


cdef int acquire_threads(double flops, int threads) noexcept nogil:
    if flops < POOL_FLOPS:
        return 1
    return mx_pool_acquire(threads if threads > 0 else mx_usable_cores())


cdef void release_threads(int width) noexcept nogil:
    mx_pool_release(width)


cdef void run_tasks(mx_task task, void* context, int64_t count, int width) noexcept nogil:
    mx_pool_run(task, context, count, width)


cdef unsigned default_arithmetic() noexcept nogil:
    return mx_default_arithmetic()


cdef void restore_arithmetic(unsigned state) noexcept nogil:
    mx_restore_arithmetic(state)
