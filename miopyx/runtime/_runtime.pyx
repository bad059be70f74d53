"""The contract of runtimes; see docs/architecture.md."""

from miopyx.values import posix


def _after_fork_in_child():
    global fork_generation
    fork_generation += 1


posix.at_fork(after_in_child=_after_fork_in_child)


cdef class Program:
    """Kernels that were built for one device."""

    def __cinit__(self):
        self.born = fork_generation

    cdef void* kernel(self, bytes name) except NULL:
        """Create a kernel; the caller releases it."""
        raise NotImplementedError

    def binary(self):
        """Return the device's binary, or None where the driver gives none, as in a child of fork."""
        raise NotImplementedError

    def work_group_limit(self, str name):
        """Return the largest work-group of a kernel on this device."""
        raise NotImplementedError
