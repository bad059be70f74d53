"""System databases: text files of records, mapped and found through a hash index.

What is mapped is a copy in a cache folder, the decompressed text of a ``.bz2`` as well as that of a plain file: whoever
cuts a file that is mapped kills the process at its next look into it (SIGBUS), and system files belong to others.

The index is open addressing over 8-byte slots, two a record and one more: the place of a line (40 bits, plus one, so
that zero is an empty slot) and 24 bits of its key's hash.  It costs 16 bytes a record.  The first open makes copy
and index and leaves both; later opens take them if the file is still the same (size, mtime, inode, device) and the copy
is the one that the index names.  Neither is synced: that would take longer than making them again.  The index ends with
the file's path, has a sum of itself and one of a word of each block of the copy, so what a power failure left blank is
noticed.

An index is a hint: a probe is checked against the text's size, a hit is the start of a line with the whole key and with
a seal that fits, if it has one.  A wrong index can hide a record but not invent or alter one.

Of the lines that hold the same key our own (sealed) ones count before others; the last of ours, the first of others.
An item without a colon is a mark: a line that has nothing but marks counts for nothing, or, if it is ours, says that
there is no record any more.
"""

import errno
import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from miopyx.values._guard cimport load_int64, mx_guard_lock, mx_guard_unlock, store_int64
from miopyx.problem._key cimport MAX_KEY, write_find_key
from miopyx.problem._problem cimport ConvProblem

from miopyx.values import _learnt
from miopyx.values import posix
from miopyx.values.config import read_most
from miopyx.values.digests import blake2b
from miopyx.errors import InternalError

cdef extern from *:
    """
    #include <sys/mman.h>
    #include <time.h>
    #include <unistd.h>

    /* Multiplies and folds each word in; what does not fill a word is read as the last eight bytes. */
    static inline uint64_t mx_mix(uint64_t h, uint64_t word) {
        unsigned __int128 product = (unsigned __int128) (h ^ word) * 0x9E3779B97F4A7C15u;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }
    static inline uint64_t mx_digest(const char *p, size_t size, uint64_t seed) {
        uint64_t h = seed ^ (size * 0xD6E8FEB86659FD93u), word = 0;
        if (size >= 8) {
            const char *last = p + size - 8;
            for (; p < last; p += 8) {
                memcpy(&word, p, 8);
                h = mx_mix(h, word);
            }
            memcpy(&word, last, 8);
        } else if (size > 0)
            memcpy(&word, p, size);
        return mx_mix(mx_mix(h, word), size);
    }
    /* Digests a word of each block: a file system writes blocks whole or leaves them blank. */
    static inline uint64_t mx_sample(const char *p, size_t size) {
        uint64_t h = size, word = 0;
        for (size_t at = 0; at + 8 <= size; at += 4096) {
            memcpy(&word, p + at, 8);
            h = mx_mix(h, word);
        }
        return h ^ mx_digest(p + size - (size & 7), size & 7, size);
    }
    /* Maps a hash onto 0 ... slots - 1 by its high bits. */
    static inline uint64_t mx_place(uint64_t hash, uint64_t slots) {
        return (uint64_t) (((unsigned __int128) hash * slots) >> 64);
    }
    static inline int mx_identify(int fd, const char *path, mx_identity *id) {
        struct stat s;
        if (path ? stat(path, &s) : fstat(fd, &s)) {
            memset(id, 0, sizeof *id);
            return -1;
        }
        id->size = s.st_size;
        id->mtime = s.st_mtim.tv_sec * 1000000000u + s.st_mtim.tv_nsec;
        id->inode = s.st_ino;
        id->device = s.st_dev;
        return 0;
    }
    static inline const char *mx_map(int fd, size_t size) {
        void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        return p == MAP_FAILED ? NULL : (const char *) p;
    }
    static inline int64_t mx_coarse_time(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
        return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
    }
    /* The memory of a line that is about to be read; its parts come at once, not one after the other. */
    static inline void mx_prefetch(const char *line) {
        for (int i = 0; i < 8; i++)
            __builtin_prefetch(line + 64 * i);
    }
    """
    uint64_t mx_digest(const char* p, size_t size, uint64_t seed) noexcept nogil
    uint64_t mx_sample(const char* p, size_t size) noexcept nogil
    uint64_t mx_place(uint64_t hash, uint64_t slots) noexcept nogil
    int mx_identify(int fd, const char* path, mx_identity* id) noexcept nogil
    const char* mx_map(int fd, size_t size) noexcept nogil
    int munmap(void* p, size_t size) noexcept nogil
    int close(int fd) noexcept nogil
    int64_t mx_coarse_time() noexcept nogil
    void mx_prefetch(const char* line) noexcept nogil

cdef uint64_t MAGIC = 0x32_78_64_69_78_70_6F_69  # names this layout, these hashes and this byte order
cdef uint64_t KEY_SEED = 0x243F6A8885A308D3
cdef uint64_t TABLE_SEED = 0x13198A2E03707344
cdef int64_t LOOK_EVERY = 5_000_000  # ns
cdef int64_t SETTLED = 10_000_000    # ns; the longest tick that file systems take their times from
cdef int64_t DAY = 86400             # s
cdef int64_t UNUSED = 90 * DAY
cdef enum:
    TAG_BITS = 24
    SEAL = 10                       # bytes of ";#" and eight digits
cdef uint64_t TAG = (1 << TAG_BITS) - 1
MAX_BYTES = 1 << 30                 # of a text; a few bytes of bzip2 can stand for any amount

cdef int fork_generation = 0


def _after_fork_in_child():
    global fork_generation
    fork_generation += 1


posix.at_fork(after_in_child=_after_fork_in_child)


# Lines.  `records` has the same rules for whoever has a line as a Python object.

cdef enum Kind:
    OURS, REMOVED, FOREIGN, EMPTY, DAMAGED, MALFORMED

cdef uint32_t crc_table[8][256]


cdef void _make_crc_table() noexcept nogil:
    cdef uint32_t i, j, _bit, value, polynomial = <uint32_t> 0xEDB88320
    for i in range(256):
        value = i
        for _bit in range(8):
            value = (value >> 1) ^ polynomial * (value & 1)
        crc_table[0][i] = value
    for i in range(256):
        for j in range(1, 8):
            value = crc_table[j - 1][i]
            crc_table[j][i] = (value >> 8) ^ crc_table[0][value & 255]


_make_crc_table()


cdef uint32_t _crc32(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    """Return zlib's CRC-32, eight bytes a step."""
    cdef uint32_t crc = 0xFFFFFFFF
    while size >= 8:
        crc ^= p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24
        crc = (crc_table[7][crc & 255] ^ crc_table[6][crc >> 8 & 255] ^ crc_table[5][crc >> 16 & 255]
               ^ crc_table[4][crc >> 24] ^ crc_table[3][p[4]] ^ crc_table[2][p[5]] ^ crc_table[1][p[6]]
               ^ crc_table[0][p[7]])
        p += 8
        size -= 8
    while size > 0:
        crc = (crc >> 8) ^ crc_table[0][(crc ^ p[0]) & 255]
        p += 1
        size -= 1
    return ~crc


cdef int64_t _hexadecimal(const char* p) noexcept nogil:
    """Return the number that eight lower-case digits are, or -1."""
    cdef int64_t value = 0
    cdef int i
    for i in range(8):
        if c'0' <= p[i] <= c'9':
            value = value << 4 | (p[i] - c'0')
        elif c'a' <= p[i] <= c'f':
            value = value << 4 | (p[i] - c'a' + 10)
        else:
            return -1
    return value


cdef bint _has_stamp(const char* line, Py_ssize_t length, Py_ssize_t equals) noexcept nogil:
    cdef const char* at = line
    while True:
        at = <const char*> memchr(at, c'@', line + length - at)
        if at == NULL:
            return False
        if at - line == equals + 1 or at > line and (at - 1)[0] == c';':
            return True
        at += 1


cdef Kind _classify(const char* line, Py_ssize_t length, Py_ssize_t equals) noexcept nogil:
    """Say whose a line is; `equals` is where its first "=" stands, -1 if there is none."""
    cdef const char* seal = line + length - SEAL
    cdef int64_t value
    if length > SEAL and seal[0] == c';' and seal[1] == c'#':
        value = _hexadecimal(seal + 2)
        if value >= 0:
            if value != _crc32(<const uint8_t*> line, length - SEAL):
                return DAMAGED
            if equals <= 0:
                return MALFORMED
            return REMOVED if memchr(line + equals, c':', length - SEAL - equals) == NULL else OURS
    if _has_stamp(line, length, equals):
        return DAMAGED
    if equals <= 0:
        return MALFORMED
    return EMPTY if memchr(line + equals, c':', length - equals) == NULL else FOREIGN


cdef Py_ssize_t _line_length(const char* line, Py_ssize_t rest, Py_ssize_t* step) noexcept nogil:
    """Return the length of a line of at most `rest` bytes without its end, CRs and LF; with it into `step`."""
    cdef const char* end = <const char*> memchr(line, c'\n', rest)
    cdef Py_ssize_t length = rest if end == NULL else end - line
    step[0] = length + 1
    while length and line[length - 1] == c'\r':
        length -= 1
    return length


cdef Py_ssize_t _key_length(const char* line, Py_ssize_t length) noexcept nogil:
    cdef const char* equals = <const char*> memchr(line, c'=', length)
    return -1 if equals == NULL else equals - line


# The index

cdef class _Text:
    def __cinit__(self):
        self.fd, self.problem = -1, ""

    def __dealloc__(self):
        self.unmap()

    cdef int unmap(self) noexcept:
        if self.mapped and self.data != NULL:
            munmap(<void*> self.data, self.size)
        if self.fd >= 0:
            close(self.fd)
        self.data, self.size, self.mapped, self.fd = NULL, 0, False, -1
        return 0

    cdef int map(self, int fd) except -1:
        """Map a file of our own, which is the text's from now on; its identity becomes the text's."""
        self.fd = fd
        mx_identify(fd, NULL, &self.header.text)
        if self.header.text.size:
            self.data = mx_map(fd, self.header.text.size)
            if self.data == NULL:
                raise OSError(errno.ENODEV, "cannot be mapped")
        self.size, self.mapped = self.header.text.size, True
        return 0

    cdef int hold(self, bytes text) except -1:
        """Keep a text in memory."""
        self.held, self.data, self.size = text, PyBytes_AS_STRING(text), len(text)
        return 0

    cdef bint is_current(self, const char* path) noexcept:
        """Whether the file at `path` is still the one that was read, and our copy of it, if any, untouched."""
        cdef mx_identity now
        mx_identify(-1, path, &now)
        if memcmp(&now, &self.header.source, sizeof(now)) != 0:
            return False
        if self.fd < 0:
            return True
        mx_identify(self.fd, NULL, &now)
        return memcmp(&now, &self.header.text, sizeof(now)) == 0

    cdef bint has_key(self, uint64_t offset, const char* key, size_t size) noexcept nogil:
        """Whether a line starts at `offset` that starts with the key and "="."""
        if offset >= self.size or self.size - offset <= size:
            return False
        if offset and self.data[offset - 1] != c'\n':
            return False
        return self.data[offset + size] == c'=' and memcmp(self.data + offset, key, size) == 0

    cdef int build(self) except -1:
        """Make the index."""
        cdef Entry* entries = NULL
        cdef size_t i, count = 0
        cdef bint removed = False
        cdef int status
        self.header.records = self.header.duplicates = 0
        self.header.empty = self.header.damaged = self.header.malformed = 0
        try:
            with nogil:
                status = self.collect(&entries, &count, &removed)
            if status < 0:
                raise MemoryError
            self.header.magic, self.header.slots = MAGIC, 2 * count + 1
            self.header.samples = mx_sample(self.data, self.size)
            self.index = PyBytes_FromStringAndSize(NULL, sizeof(mx_index_header) + self.header.slots * sizeof(uint64_t))
            self.slots = <uint64_t*> (PyBytes_AS_STRING(self.index) + sizeof(mx_index_header))
            with nogil:
                memset(self.slots, 0, self.header.slots * sizeof(uint64_t))
                for i in range(count):
                    self.add(entries[i])
                if removed:
                    for i in range(self.header.slots):
                        if self.slots[i] and not self.is_record((self.slots[i] >> TAG_BITS) - 1):
                            self.header.records -= 1
                self.header.checksum = self.checksum()
            memcpy(PyBytes_AS_STRING(self.index), &self.header, sizeof(mx_index_header))
        finally:
            free(entries)
        return 0

    cdef int collect(self, Entry** entries, size_t* count, bint* removed) noexcept nogil:
        """Find the lines that say something about a key, and whether any takes it back; -1 without memory."""
        cdef size_t room = 0, position = 0
        cdef Py_ssize_t length, step, key
        cdef const char* line
        cdef void* more
        cdef Kind kind
        while position < self.size:
            line = self.data + position
            length = _line_length(line, self.size - position, &step)
            if length:
                key = _key_length(line, length)
                kind = _classify(line, length, key)
                if kind == EMPTY:
                    self.header.empty += 1
                elif kind == DAMAGED:
                    self.header.damaged += 1
                elif kind == MALFORMED:
                    self.header.malformed += 1
                else:
                    if count[0] == room:
                        room = 2 * room if room else 1024
                        more = realloc(entries[0], room * sizeof(Entry))
                        if more == NULL:
                            return -1
                        entries[0] = <Entry*> more
                    entries[0][count[0]].hash = mx_digest(line, key, KEY_SEED)
                    entries[0][count[0]].offset = position << 1 | (kind == OURS or kind == REMOVED)
                    removed[0] |= kind == REMOVED
                    count[0] += 1
            position += step
        return 0

    cdef int add(self, Entry entry) noexcept nogil:
        """Put a line into the index, unless its key is there and counts before it."""
        cdef uint64_t offset = entry.offset >> 1, there
        cdef uint64_t place = mx_place(entry.hash, self.header.slots)
        cdef uint64_t value = offset + 1 << TAG_BITS | entry.hash & TAG
        cdef const char* line = self.data + offset
        while self.slots[place]:
            there = self.slots[place]
            if (there ^ value) & TAG == 0 and self.has_key((there >> TAG_BITS) - 1, line,
                                                           _key_length(line, self.size - offset)):
                self.header.duplicates += 1
                if entry.offset & 1:
                    self.slots[place] = value
                return 0
            place = place + 1 if place + 1 < self.header.slots else 0
        self.slots[place] = value
        self.header.records += 1
        return 0

    cdef uint64_t checksum(self) noexcept nogil:
        cdef uint64_t seed = mx_digest(<const char*> &self.header, sizeof(mx_index_header) - 8, TABLE_SEED)
        return mx_digest(<const char*> self.slots, self.header.slots * sizeof(uint64_t), seed)

    cdef bint read_index(self, object file, bytes path) except -1:
        """Take the index of this source and text from a file, if that is what it holds."""
        cdef mx_index_header header
        cdef size_t rest = sizeof(header) + len(path)
        try:
            with open(file, "rb", buffering=0, opener=posix.open_plain) as stream:
                size = os.fstat(stream.fileno()).st_size
                # The shortest record, "k=" and a line end, takes three bytes.
                if not rest < size <= rest + 8 * (self.size + 3):
                    return False
                index = stream.read(size)
        except OSError:
            return False
        if len(index) != size or not index.endswith(path):
            return False
        memcpy(&header, PyBytes_AS_STRING(index), sizeof(header))
        if header.magic != MAGIC or header.slots != (size - rest) // 8 or (size - rest) % 8:
            return False
        if memcmp(&header.source, &self.header.source, 2 * sizeof(mx_identity)) != 0:
            return False
        self.header, self.index = header, index
        self.slots = <uint64_t*> (PyBytes_AS_STRING(index) + sizeof(header))
        return self.checksum() == header.checksum and mx_sample(self.data, self.size) == header.samples

    cdef Py_ssize_t items_at(self, uint64_t offset, const char* key, Py_ssize_t size,
                             const char** items) noexcept nogil:
        """Return the length of the items of the sound line of this key at `offset`; -1 where there is none."""
        cdef const char* line
        cdef Py_ssize_t length, step
        cdef Kind kind
        if not self.has_key(offset, key, size):
            return -1
        line = self.data + offset
        mx_prefetch(line)
        length = _line_length(line, self.size - offset, &step)
        # The key itself may hold what ends a line or a key.
        if length <= size or _key_length(line, length) != size:
            return -1
        kind = _classify(line, length, size)
        if kind != OURS and kind != FOREIGN:
            return -1
        items[0] = line + size + 1
        return length - size - 1 - (SEAL if kind == OURS else 0)

    cdef bint is_record(self, uint64_t offset) noexcept nogil:
        cdef const char* items
        cdef const char* line = self.data + offset
        return self.items_at(offset, line, _key_length(line, self.size - offset), &items) >= 0

    cdef list offsets(self):
        """Return where the lines are that the index names, in order."""
        cdef uint64_t i
        return sorted([(self.slots[i] >> TAG_BITS) - 1 for i in range(self.header.slots) if self.slots[i]])

    cdef tuple record_at(self, uint64_t offset):
        """Return key and items of the line at `offset`; None where there is no sound one."""
        cdef const char* items
        cdef Py_ssize_t size, length
        if offset >= self.size:
            return None
        size = _key_length(self.data + offset, self.size - offset)
        if size <= 0:
            return None
        length = self.items_at(offset, self.data + offset, size, &items)
        if length < 0:
            return None
        return self.data[offset:offset + size], items[:length]


# Files

cdef bytes _content(_Text text, int descriptor, bint packed):
    """Read, and decompress, a whole file."""
    with open(descriptor, "rb", closefd=False) as file:
        if not packed:
            return file.read(text.header.source.size)
        import bz2

        with bz2.open(file) as stream:
            held = read_most(stream, MAX_BYTES + 1)
    if len(held) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes once decompressed")
    return held


cdef int _transfer(int source, int target, uint64_t size) except -1:
    """Copy what is in a file, `size` bytes at most, through memory that stays in a processor's cache."""
    buffer = bytearray(1 << 18)
    cdef uint64_t done = 0
    while done < size:
        count = posix.read_into(source, [buffer], done)
        if count == 0:
            return 0
        _write(target, memoryview(buffer)[:min(count, size - done)])
        done += count
    return 0


def _write(int descriptor, data):
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(descriptor, rest):]


def _create(path):
    """Open a new file beside `path`, and return its name as well; nobody is to write to it later."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    temporary.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return posix.create(temporary, os.O_RDWR, 0o400), temporary


def _put(temporary, path):
    """Give a file its name.  Some file systems write out at once what is renamed over another, so that goes first."""
    path.unlink(missing_ok=True)
    os.rename(temporary, path)


def _remove(path):
    with suppress(OSError):
        os.unlink(path)


cdef object _copy(_Text text, int source, bytes data, object copy):
    """Map a new copy of a file, or of `data` if there is some; return its name, None if it cannot be written."""
    try:
        descriptor, temporary = _create(copy)
    except OSError:
        return None
    text.fd = descriptor
    try:
        if data is None:
            _transfer(source, descriptor, text.header.source.size)
        else:
            _write(descriptor, data)
        text.map(descriptor)
        return temporary
    except BaseException as e:
        text.unmap()
        _remove(temporary)
        if isinstance(e, OSError):
            return None
        raise


cdef int _publish(_Text text, bytes path, object temporary, object copy, object index) except -1:
    """Leave a copy and its index for later opens, in place of older ones."""
    part = None
    try:
        _put(temporary, copy)
        descriptor, part = _create(index)
        try:
            _write(descriptor, text.index)
            _write(descriptor, path)
        finally:
            os.close(descriptor)
        _put(part, index)
    except OSError:  # no use of one without the other
        for file in (temporary, copy, part):
            if file is not None:
                _remove(file)
    return 0


# Others may keep files in that folder, too.
_OUR_NAMES = (r"records-[0-9a-f]{32}(?P<kind>\.txt|\.index)"
              r"|\.records-[0-9a-f]{32}\.(txt|index)\.[0-9a-f.]+")


cdef bint _is_of_use(object index) except -1:
    """Whether an index is one of ours whose file is there."""
    cdef mx_index_header header
    with open(index, "rb", buffering=0, opener=posix.open_plain) as stream:
        start = stream.read(sizeof(header))
        if len(start) < sizeof(header):
            return False
        memcpy(&header, PyBytes_AS_STRING(start), sizeof(header))
        if header.magic != MAGIC or header.slots > <uint64_t> MAX_BYTES:
            return False
        stream.seek(sizeof(header) + 8 * header.slots)
        path = stream.read(1 << 16)  # longer than any; who knows how large the file is
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def _tidy(folder):
    """Remove what was kept for files that are gone or that nobody opened for long, and what killed processes left."""
    for file in folder.iterdir():
        name = re.fullmatch(_OUR_NAMES, file.name)
        if name is None:
            continue
        with suppress(OSError):
            age = time.time() - file.stat().st_mtime
            if name["kind"] == ".index":
                if age > UNUSED or not _is_of_use(file):
                    file.unlink()
                    file.with_suffix(".txt").unlink()
            elif age > DAY and (name["kind"] != ".txt" or not file.with_suffix(".index").exists()):
                file.unlink()


cdef bint _reuse(_Text text, bytes path, object copy, object index) except -1:
    """Map an earlier copy; only an index that names this very copy vouches for it."""
    try:
        text.map(posix.open_plain(copy))
        if text.read_index(index, path):
            with suppress(OSError):
                if time.time() - index.stat().st_mtime > DAY:
                    os.utime(index)
            return True
    except (OSError, ValueError):
        pass
    text.unmap()
    return False


cdef int _settle(_Text text, int descriptor) except -1:
    """Wait until any later change of a file gives it another time than it has now."""
    age = time.time_ns() - text.header.source.mtime
    if 0 <= age < SETTLED:
        time.sleep((SETTLED - age) * 1e-9)
        mx_identify(descriptor, NULL, &text.header.source)
    return 0


cdef int _fill(_Text text, bytes path, int descriptor, object folder, str stem) except -1:
    """Take a file's text and index from the cache folder, or make them."""
    cdef mx_identity now
    cdef bint packed = path.endswith(b".bz2")
    cdef bytes data = None
    temporary = None
    if text.header.source.size > <uint64_t> MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES} bytes")
    if folder is not None:
        copy, index = folder / f"{stem}.txt", folder / f"{stem}.index"
        if _reuse(text, path, copy, index):
            return 0
        _settle(text, descriptor)
    if packed or folder is None:
        data = _content(text, descriptor, packed)
    if folder is not None:
        temporary = _copy(text, descriptor, data, copy)
    if temporary is None:
        text.hold(_content(text, descriptor, packed) if data is None else data)
    data = None
    try:
        text.build()
        if temporary is not None:
            mx_identify(descriptor, NULL, &now)
            if memcmp(&now, &text.header.source, sizeof(now)) == 0:
                _publish(text, path, temporary, copy, index)
                with suppress(OSError):
                    _tidy(folder)
    finally:
        if temporary is not None:
            _remove(temporary)  # unless it has its name; a mapping needs none
    return 0


cdef _Text _read(bytes path, object folder, str stem):
    """Read a file as it is now; whatever is wrong with it makes an empty text with a problem."""
    cdef _Text text = _Text()
    # Known even if opening fails, so that it is not tried again before something changes.
    mx_identify(-1, path, &text.header.source)
    try:
        descriptor = posix.open_plain(path)
        try:
            mx_identify(descriptor, NULL, &text.header.source)
            _fill(text, path, descriptor, folder, stem)
        finally:
            os.close(descriptor)
        return text
    except (OSError, EOFError, ValueError, MemoryError) as e:
        problem = getattr(e, "strerror", None) or str(e) or type(e).__name__
    failed = _Text()
    failed.header.source, failed.problem = text.header.source, problem
    return failed


cdef class RecordFile:
    """A read-only file of records, ``.txt`` or ``.txt.bz2``, found by key through a mapped copy.

    Whatever is wrong with the file makes it an empty database whose `problem` says what; a line that is damaged or no
    record counts for nothing and is counted in `skipped`.  A file that changes is noticed by the first look-up more
    than a few milliseconds after the last look, and read anew; a look-up costs no system call otherwise.

    The file itself may be cut or written to at any time.  What remains: a copy in the cache folder, which nobody has a
    reason to touch, that is cut in place within those milliseconds before a look-up beyond its new end, or a medium
    that fails, ends the process (SIGBUS).

    Parameters
    ----------
    path : str or path
        The file.  It need not be there.
    cache_folder : str or path, optional
        Where the copy and its index are kept; without it, or where it cannot be written to, every open reads the text
        into memory and makes the index again.
    """

    def __cinit__(self, *args, **kwargs):
        self._path, self._text = b"", _Text()  # what is never initialised is empty

    def __init__(self, path, cache_folder=None):
        full = os.path.abspath(os.fspath(path))
        self._path = os.fsencode(full)
        self.path = Path(os.fsdecode(full))
        self.cache_folder = None if cache_folder is None else Path(cache_folder)
        self._stem = "records-" + blake2b(self._path, digest_size=16).hexdigest()
        self._lock, self._generation = threading.RLock(), fork_generation
        store_int64(self._looked, mx_coarse_time())
        self._set_text(_read(self._path, self.cache_folder, self._stem))

    cdef _Text _now(self):
        """The text that stands there now; it stays mapped for as long as somebody holds it."""
        mx_guard_lock(&self._guard)
        text = self._text
        mx_guard_unlock(&self._guard)
        return text

    cdef int _set_text(self, _Text text) except -1:
        mx_guard_lock(&self._guard)
        _old, self._text = self._text, text  # goes when the guard does
        mx_guard_unlock(&self._guard)
        return 0

    cdef int _look(self, int64_t now) except -1:
        """Read the file anew if it is not what it was."""
        if not self._now().is_current(self._path):
            if self._generation != fork_generation:  # another thread of the parent may have held the lock for ever
                lock = threading.RLock()
                mx_guard_lock(&self._guard)
                _old = self._lock
                if self._generation != fork_generation:
                    self._lock, self._generation = lock, fork_generation
                mx_guard_unlock(&self._guard)
            with self._lock:
                if not self._now().is_current(self._path):
                    self._set_text(_read(self._path, self.cache_folder, self._stem))
                    _learnt.learn()
        # The time before reading: what changed meanwhile is seen by the next call.  Set last: until the new text is
        # there, other threads come here and wait instead of reading the old one.
        store_int64(self._looked, now)
        return 0

    cdef _Text find(self, const char* key, Py_ssize_t size, const char** items, Py_ssize_t* length):
        """Find the items of a record, without its seal; None where it is not there.

        What `items` points at stays for as long as what is returned is held.
        """
        cdef _Text text
        cdef int64_t now = mx_coarse_time()
        cdef uint64_t hash = mx_digest(key, size, KEY_SEED), place, slot, _probe
        if now - load_int64(self._looked) > LOOK_EVERY:
            self._look(now)
        text = self._now()
        place = mx_place(hash, text.header.slots)
        for _probe in range(text.header.slots):
            slot = text.slots[place]
            if slot == 0:
                return None
            if (slot ^ hash) & TAG == 0:
                length[0] = text.items_at((slot >> TAG_BITS) - 1, key, size, items)
                if length[0] >= 0:
                    return text
            place = place + 1 if place + 1 < text.header.slots else 0
        return None

    def get(self, bytes key not None):
        """Return the items of a record, without its seal, or None."""
        cdef const char* items
        cdef Py_ssize_t length
        held = self.find(PyBytes_AS_STRING(key), len(key), &items, &length)
        return None if held is None else PyBytes_FromStringAndSize(items, length)

    def lookup(self, ConvProblem problem not None):
        """Return the items of a problem's find-db record, without its seal, or None."""
        cdef char key[MAX_KEY]
        cdef const char* items
        cdef Py_ssize_t length
        held = self.find(key, write_find_key(&problem.c, key), &items, &length)
        return None if held is None else PyBytes_FromStringAndSize(items, length)

    cdef _Text _newest(self):
        self._look(mx_coarse_time())
        return self._now()

    def __len__(self):
        return self._newest().header.records

    def __iter__(self):
        """Yield (key, items) of every record that counts, in the file's order.

        Raises
        ------
        InternalError
            Where the file changes on the way.
        """
        cdef _Text text = self._newest()
        for offset in text.offsets():
            if self._newest() is not text:
                raise InternalError("the file changed while its records were read", "path", str(self.path))
            record = text.record_at(offset)
            if record is not None:
                yield record

    @property
    def problem(self):
        """What keeps the file from being read; empty if nothing does."""
        return self._newest().problem

    @property
    def skipped(self):
        """Lines that count for nothing, by reason.

        "duplicate", "no items" (none with a colon), "damaged" (a stamp or a seal, but no seal that fits), "malformed"
        (no "=", or no key before it).
        """
        cdef _Text text = self._newest()
        return +Counter({"duplicate": text.header.duplicates, "no items": text.header.empty,
                         "damaged": text.header.damaged, "malformed": text.header.malformed})

    @property
    def index_bytes(self):
        """Memory of the index."""
        cdef _Text text = self._newest()
        return 0 if text.index is None else sizeof(mx_index_header) + text.header.slots * sizeof(uint64_t)
