"""The threads of the host path (pool.h), of which there is one set in a process."""

from libc.stdint cimport int64_t

cdef enum:
    TASKS = 32             # aim for so many tasks where the problem has too few blocks

cdef extern from "miopyx/host/pool.h" nogil:
    ctypedef void (*mx_task)(void* context, int64_t index, int worker) noexcept nogil

# Take the pool for `flops` of work, with at most `threads` threads (<= 0: one a usable core); returns how many it got.
cdef int acquire_threads(double flops, int threads) noexcept nogil
cdef void release_threads(int width) noexcept nogil
# Run tasks 0 ... count - 1 and wait for them; `width` is what acquire_threads returned.
cdef void run_tasks(mx_task task, void* context, int64_t count, int width) noexcept nogil

# Default rounding and subnormals for this thread; returns the state to restore.
cdef unsigned default_arithmetic() noexcept nogil
cdef void restore_arithmetic(unsigned state) noexcept nogil
