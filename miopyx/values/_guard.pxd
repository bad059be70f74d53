"""What keeps a few loads and stores together where Python has no GIL; nothing at all where it has one.

A guard is held over C code alone: nothing between `lock` and `unlock` raises, runs Python code, or drops the last
reference to an object.  Threads that wait for one let the interpreter go on, as a garbage collection needs.
"""

from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    typedef char mx_guard;  /* a PyMutex; all zeros: not held */
    _Static_assert(sizeof(PyMutex) == sizeof(mx_guard), "a PyMutex is a byte");
    #if defined(__has_feature)
    #if __has_feature(thread_sanitizer)
    #define MX_RACES 1
    #endif
    #endif
    #ifdef MX_RACES  /* an interpreter that is not instrumented hides what its lock orders */
    void __tsan_acquire(void *);
    void __tsan_release(void *);
    #define mx_guard_lock(guard) (PyMutex_Lock((PyMutex *) (guard)), __tsan_acquire(guard))
    #define mx_guard_unlock(guard) (__tsan_release(guard), PyMutex_Unlock((PyMutex *) (guard)))
    #else
    #define mx_guard_lock(guard) PyMutex_Lock((PyMutex *) (guard))
    #define mx_guard_unlock(guard) PyMutex_Unlock((PyMutex *) (guard))
    #endif
    #define MX_NO_GIL 1
    #else
    typedef char mx_guard;
    #define mx_guard_lock(guard) ((void) 0)
    #define mx_guard_unlock(guard) ((void) 0)
    #define MX_NO_GIL 0
    #endif
    /* Of numbers that threads read while another sets them.  With the GIL plain ones: an atomic access, though the same
       instruction, keeps the compiler from leaving out the reference counts around it. */
    #if MX_NO_GIL
    #define mx_load(place) __atomic_load_n(&(place), __ATOMIC_ACQUIRE)
    #define mx_store(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELEASE)
    #define mx_add(place, value) __atomic_add_fetch(&(place), value, __ATOMIC_ACQ_REL)
    static inline double mx_load_double_at(const double *place) {
        double value;
        __atomic_load(place, &value, __ATOMIC_ACQUIRE);
        return value;
    }
    static inline void mx_store_double_at(double *place, double value) {
        __atomic_store(place, &value, __ATOMIC_RELEASE);
    }
    #define mx_load_double(place) mx_load_double_at(&(place))
    #define mx_store_double(place, value) mx_store_double_at(&(place), value)
    #else
    #define mx_load(place) (place)
    #define mx_store(place, value) ((void) ((place) = (value)))
    #define mx_add(place, value) ((place) += (value))
    #define mx_load_double mx_load
    #define mx_store_double mx_store
    #endif
    """
    ctypedef char mx_guard
    const bint MX_NO_GIL
    void mx_guard_lock(mx_guard* guard) noexcept nogil
    void mx_guard_unlock(mx_guard* guard) noexcept nogil
    double load_double "mx_load_double" (double place) noexcept nogil
    void store_double "mx_store_double" (double place, double value) noexcept nogil
    bint load_flag "mx_load" (bint place) noexcept nogil
    void store_flag "mx_store" (bint place, bint value) noexcept nogil
    int load_int "mx_load" (int place) noexcept nogil
    int64_t load_int64 "mx_load" (int64_t place) noexcept nogil
    uint64_t load_uint64 "mx_load" (uint64_t place) noexcept nogil
    void store_int "mx_store" (int place, int value) noexcept nogil
    void store_int64 "mx_store" (int64_t place, int64_t value) noexcept nogil
    int add_int "mx_add" (int place, int value) noexcept nogil
    int64_t add_int64 "mx_add" (int64_t place, int64_t value) noexcept nogil
    uint64_t add_uint64 "mx_add" (uint64_t place, uint64_t value) noexcept nogil
    const void* load_pointer "mx_load" (const void* place) noexcept nogil
    void store_pointer "mx_store" (const void* place, const void* value) noexcept nogil
    void store_uint64 "mx_store" (uint64_t place, uint64_t value) noexcept nogil
