"""A recursive lock that costs nanoseconds where nobody waits, and lets go of the GIL where it has to.

threading.RLock costs as much as the rest of a call.  Waiting is cut into slices so that Ctrl-C ends it.
"""

from cpython.exc cimport PyErr_CheckSignals

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <time.h>

    typedef pthread_mutex_t mx_lock;

    static inline int mx_lock_make(mx_lock *lock) {
        pthread_mutexattr_t kind;
        pthread_mutexattr_init(&kind);
        pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
        int code = pthread_mutex_init(lock, &kind);
        pthread_mutexattr_destroy(&kind);
        return code;
    }
    static inline int mx_lock_try(mx_lock *lock) { return pthread_mutex_trylock(lock) == 0; }
    static inline int mx_lock_wait(mx_lock *lock) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 50000000;
        if (until.tv_nsec >= 1000000000) { until.tv_nsec -= 1000000000; until.tv_sec++; }
        return pthread_mutex_timedlock(lock, &until) == 0;
    }
    static inline void mx_lock_drop(mx_lock *lock) { pthread_mutex_unlock(lock); }
    """
    ctypedef struct mx_lock:
        pass
    int mx_lock_make(mx_lock* lock) noexcept nogil
    bint mx_lock_try(mx_lock* lock) noexcept nogil
    bint mx_lock_wait(mx_lock* lock) noexcept nogil
    void mx_lock_drop(mx_lock* lock) noexcept nogil


cdef inline int acquire(mx_lock* lock) except -1:
    cdef bint held = mx_lock_try(lock)
    while not held:
        with nogil:
            held = mx_lock_wait(lock)
        if not held:
            PyErr_CheckSignals()
    return 0
