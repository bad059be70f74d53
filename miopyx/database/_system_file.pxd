"""The mapped record file, for the modules that look records up without Python objects between."""

from libc.stdint cimport int64_t, uint64_t

from miopyx.values._guard cimport mx_guard

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include <sys/stat.h>

    /* Which file, and in which state. */
    typedef struct { uint64_t size, mtime, inode, device; } mx_identity;

    /* All words of the same width: hashed, compared and written as they are. */
    typedef struct {
        uint64_t magic;
        mx_identity source, text;   /* the file that was named, and the copy that is mapped */
        uint64_t samples;           /* of the copy's blocks */
        uint64_t slots, records, duplicates, empty, damaged, malformed;
        uint64_t checksum;          /* of all the above and of the slots */
    } mx_index_header;
    """
    ctypedef struct mx_identity:
        uint64_t size, mtime, inode, device
    ctypedef struct mx_index_header:
        uint64_t magic
        mx_identity source, text
        uint64_t samples
        uint64_t slots, records, duplicates, empty, damaged, malformed
        uint64_t checksum


cdef struct Entry:
    uint64_t hash
    uint64_t offset              # of the line, doubled, plus one if it is ours


cdef class _Text:
    """The lines of one state of a file, and the index over them."""

    cdef const char* data
    cdef size_t size
    cdef bint mapped
    cdef int fd                  # of the mapped copy, -1 where there is none
    cdef bytes held              # what `data` points into where nothing is mapped
    cdef bytes index             # header and slots, as they are written to a file
    cdef uint64_t* slots
    cdef mx_index_header header
    cdef str problem

    cdef int unmap(self) noexcept
    cdef int map(self, int fd) except -1
    cdef int hold(self, bytes text) except -1
    cdef bint is_current(self, const char* path) noexcept
    cdef bint has_key(self, uint64_t offset, const char* key, size_t size) noexcept nogil
    cdef int build(self) except -1
    cdef int collect(self, Entry** entries, size_t* count, bint* removed) noexcept nogil
    cdef int add(self, Entry entry) noexcept nogil
    cdef uint64_t checksum(self) noexcept nogil
    cdef bint read_index(self, object file, bytes path) except -1
    cdef Py_ssize_t items_at(self, uint64_t offset, const char* key, Py_ssize_t size, const char** items) noexcept nogil
    cdef bint is_record(self, uint64_t offset) noexcept nogil
    cdef list offsets(self)
    cdef tuple record_at(self, uint64_t offset)


cdef class RecordFile:
    cdef readonly object path
    cdef readonly object cache_folder
    cdef bytes _path
    cdef str _stem
    cdef _Text _text
    cdef int64_t _looked         # when the file was last looked at, ns
    cdef object _lock
    cdef mx_guard _guard         # of the text
    cdef int _generation

    cdef _Text find(self, const char* key, Py_ssize_t size, const char** items, Py_ssize_t* length)
    cdef _Text _now(self)
    cdef int _set_text(self, _Text text) except -1
    cdef int _look(self, int64_t now) except -1
    cdef _Text _newest(self)
