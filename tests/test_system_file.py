"""The mapped record file: what it finds, what damage and changes do to it, and what it leaves behind."""

import bz2
import hashlib
import os
import random
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

import miopyx
from miopyx.database import _system_file, records
from miopyx.database._system_file import RecordFile
from miopyx.errors import InternalError
from miopyx.problem._key import find_key
from miopyx.problem._problem import ConvProblem
from miopyx.values import posix

ALGORITHM = "miopenConvolutionFwdAlgoDirect"


@pytest.fixture
def random_of(seed):
    return random.Random(seed)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "device.HIP.fdb.txt"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def expected(text):
    """Return what a file of this text holds, (key, items) in order, and what it skips, by the rules for one line."""
    found, order, skipped, ours = {}, {}, Counter(), set()  # None: taken back
    for number, line in enumerate(text.split(b"\n")):
        line = line.rstrip(b"\r")
        if not line:
            continue
        kind = records.classify(line)
        if kind in (records.Kind.DAMAGED, records.Kind.MALFORMED):
            skipped[kind.value] += 1
            continue
        key, _, items = line.partition(b"=")
        if kind is records.Kind.OURS:
            items = items[:-10]
        elif b":" not in items:
            skipped["no items"] += 1
            continue
        skipped["duplicate"] += key in found
        if kind is records.Kind.OURS or key not in found:
            found[key], order[key] = items if b":" in items else None, number
        if kind is records.Kind.OURS:
            ours.add(key)
    pairs = [(key, found[key]) for key in sorted(found, key=order.get) if found[key] is not None]
    return pairs, +skipped, ours


def assert_holds(file, text):
    pairs, skipped, _ = expected(text)
    assert list(file) == pairs
    assert len(file) == len(pairs)
    assert file.skipped == skipped
    for key, items in pairs:
        assert file.get(key) == items


def a_key(rng):
    size = rng.choice([1, 3, 7, 8, 9, 15, 16, 17, 24, 50, 52, 300])
    return bytes(rng.choice(b"0123456789-xNCHWFPB_g\0\x80 :;@") for _ in range(size))


def a_record(rng, key):
    items = [f"Conv{rng.randrange(30)}:{rng.random():.4g},{rng.randrange(9999)},{ALGORITHM}".encode()
             for _ in range(rng.randrange(1, 5))]
    if rng.random() < 0.5:
        return key + b"=" + b";".join(items)
    return records.seal(b";".join([key + b"=@0.1.0/x", *items])).rstrip(b"\n")


def a_text(rng, lines):
    """Return lines of every kind: records of both owners on few keys, damaged and malformed ones, odd line ends."""
    keys = [a_key(rng) for _ in range(max(1, lines // 2))]
    parts = []
    for _ in range(lines):
        line = a_record(rng, rng.choice(keys))
        chance = rng.random()
        if chance > 0.9:  # takes a record back, or says nothing
            line = records.seal(rng.choice(keys) + rng.choice([b"=@1", b"=@1;partial", b"="])).rstrip(b"\n")
            line = line[:rng.choice([len(line), -10])]
        if chance < 0.1:  # damaged, or cut
            line = bytearray(line)
            line[rng.randrange(len(line))] ^= 1 << rng.randrange(8)
            line = bytes(line)[:rng.choice([len(line), rng.randrange(len(line))])]
        elif chance < 0.15:
            line = rng.choice([b"", b"no equals sign", b"=no key", b"@", b";@", b"=", b"a=", b"k=@x", b"k;@=1:1", b"\0",
                               b"\r", b"\r\r", b"a=;#00000000", b";#12345678", b"a=;#0000000G",
                               b"x" * rng.randrange(20000)])
        parts.append(line + rng.choice([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\n\r\n"]))
    text = b"".join(parts)
    return text if rng.random() < 0.5 else text.rstrip(b"\r\n")


def a_database(rng, size):
    """Return about `size` bytes of sound records, ours and others', no key twice."""
    text, number = b"", 0
    while len(text) < size:
        number += 1
        text += a_record(rng, b"%d-" % number + a_key(rng).replace(b"@", b"")).rstrip(b"\n") + b"\n"
    return text


def test_worked_example(path, cache):
    one, two = b"64-27-27-5x5-192-F", b"1-1-W"
    item = b"ConvDirectNaiveConvFwd:1.5,0,miopenConvolutionFwdAlgoDirect"
    path.write_bytes(one + b"=" + item + b"\n" + records.seal(two + b"=@1/2;" + item) + b"nonsense\n")
    file = RecordFile(path, cache)
    assert file.get(one) == item
    assert file.get(two) == b"@1/2;" + item
    assert file.get(b"1-1") is None
    assert file.get(b"") is None
    assert file.get(one + b"=" + item) is None
    assert file.get(one + b"=" + item + b"\n" + two) is None
    assert len(file) == 2
    assert file.skipped == {"malformed": 1}
    assert file.problem == ""
    assert file.path == path
    assert file.cache_folder == cache
    with pytest.raises(TypeError):
        file.get("1-1-W")


def test_lookup_of_a_problem(path):
    conv = miopyx.ConvolutionDescriptor((1, 1))
    x, w = miopyx.TensorDescriptor("float32", (2, 3, 8, 8)), miopyx.TensorDescriptor("float32", (4, 3, 3, 3))
    y = miopyx.TensorDescriptor("float32", conv.output_lens(x, w))
    forward, backward = (ConvProblem(direction, x, w, y, conv) for direction in (0, 1))
    path.write_bytes(find_key(forward) + b"=Some:1,0,x\n")
    file = RecordFile(path)
    assert file.lookup(forward) == b"Some:1,0,x"
    assert file.lookup(backward) is None


def test_random_files_beside_a_dictionary(path, cache, random_of):
    for round_ in range(100):
        text = a_text(random_of, random_of.choice([0, 1, 2, 10, 100, 300]))
        path.write_bytes(text)
        folder = random_of.choice([None, cache])
        for _ in range(1 if folder is None else 2):  # with an index the second time
            file = RecordFile(path, folder)
            assert file.problem == "", round_
            assert_holds(file, text)
            found = dict(expected(text)[0])
            for _ in range(50):
                key = a_key(random_of)
                assert file.get(key) == found.get(key)


@pytest.mark.parametrize(("lines", "kept"), [
    (["foreign 1", "foreign 2"], "foreign 1"),
    (["ours 1", "ours 2"], "ours 2"),
    (["foreign 1", "ours 1", "foreign 2"], "ours 1"),
    (["ours 1", "foreign 1"], "ours 1"),
    (["ours 1", "damaged 1"], "ours 1"),
    (["damaged 1", "foreign 1"], "foreign 1"),
    (["ours 1", "removed", "ours 2"], "ours 2"),
    (["empty", "foreign 1"], "foreign 1"),
    (["ours 1", "empty"], "ours 1"),
    (["ours 1", "foreign 1", "removed"], None),
    (["removed", "foreign 1"], None),
])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_key_that_stands_twice(path, lines, kept, end):
    def line(text):
        items = text.replace(" ", ":").encode()
        sealed = records.seal(b"k=@1;" + items).rstrip(b"\n")
        return {"foreign": b"k=" + items, "ours": sealed, "damaged": sealed.replace(b":1", b":7"),
                "removed": records.seal(b"k=@1").rstrip(b"\n"), "empty": b"k=partial;x"}[text.split()[0]]

    path.write_bytes(b"".join(line(text) + end for text in lines))
    found = RecordFile(path).get(b"k")
    assert (found and found.removeprefix(b"@1;")) == (kept and kept.replace(" ", ":").encode())
    assert_holds(RecordFile(path), path.read_bytes())


def test_keys_of_one_tag(path, cache, random_of):
    """Keys that the index cannot tell apart are told apart by their bytes."""
    by_tag = {}
    for _ in range(20000):
        key = b"%d" % random_of.getrandbits(90)
        by_tag.setdefault(digest(key, KEY_SEED) & 0xFFFFFF, set()).add(key)
    same = [keys for keys in by_tag.values() if len(keys) > 1]
    assert same
    left_out = [keys.pop() for keys in same]
    pairs = {key: b"i:%d" % number for number, key in enumerate(key for keys in same for key in keys)}
    path.write_bytes(b"".join(key + b"=" + items + b"\n" for key, items in pairs.items()))
    file = RecordFile(path)
    assert dict(file) == pairs
    assert all(file.get(key) is None for key in left_out)
    with path.open("ab") as out:
        for key in left_out:
            out.write(key + b"=a:late\n")
    assert all(RecordFile(path, cache).get(key) == b"a:late" for key in left_out)
    assert file.skipped == {}


def test_big_lines(path):
    text = b"a=a:1\n" + b"x" * 10_000_000 + b"=" + b"y:" * 5_000_000 + b"\nb=b:2" + b"\0" * 3_000_000
    path.write_bytes(text)
    assert_holds(RecordFile(path), text)


def test_memory_of_the_index(path, cache, random_of):
    path.write_bytes(a_database(random_of, 300_000))
    for _ in range(2):
        file = RecordFile(path, cache)
        assert file.index_bytes <= 20 * len(file)


# Damage


def test_every_byte_flipped(path, random_of):
    text = a_database(random_of, 4096)
    before, _, ours = expected(text)
    starts = {key: (b"\n" + text).find(b"\n" + key + b"=") for key, _ in before}
    path.write_bytes(text)
    for place in range(len(text)):
        damaged = bytearray(text)
        damaged[place] ^= random_of.randrange(1, 256)
        with path.open("r+b") as out:  # in place: file systems flush what was cut to nothing and written anew
            out.write(damaged)
        file = RecordFile(path)
        touched = text.rfind(b"\n", 0, place) + 1, (text + b"\n").find(b"\n", place)
        for key, items in before:
            found = file.get(key)
            if not touched[0] <= starts[key] <= touched[1] + 1:
                assert found == items, place
            elif key in ours:
                assert found in (None, items), place
        assert list(file) == expected(bytes(damaged))[0]


def test_every_truncation(path, random_of):
    text = a_database(random_of, 4096)
    before, _, ours = expected(text)
    ends = {key: text.find(b"\n", (b"\n" + text).find(b"\n" + key + b"=")) for key, _ in before}
    path.write_bytes(text)
    for size in reversed(range(len(text))):
        os.truncate(path, size)
        file = RecordFile(path)
        for key, items in before:
            if ends[key] <= size or key in ours:
                assert file.get(key) == (items if ends[key] <= size else None), size
        assert list(file) == expected(text[:size])[0]


# Files that are none


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def a_circle(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [lambda path: None, a_folder, a_pipe, a_circle])
@pytest.mark.parametrize("suffix", [".txt", ".txt.bz2"])
def test_no_file(tmp_path, cache, make, suffix):
    path = tmp_path / f"device{suffix}"
    make(path)
    file = RecordFile(path, cache)
    assert file.problem
    assert file.get(b"k") is None
    assert (len(file), list(file), file.skipped, file.index_bytes) == (0, [], {}, 0)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read anything")
def test_unreadable_file(path):
    path.write_bytes(b"k=a:v\n")
    path.chmod(0)
    file = RecordFile(path)
    assert "ermission" in file.problem
    assert file.get(b"k") is None


@pytest.mark.parametrize("name", ["null\0byte", "n" * 300, "file/below"])
def test_impossible_names(tmp_path, cache, name):
    (tmp_path / "file").touch()
    file = RecordFile(tmp_path / name, cache)
    assert file.problem
    assert file.get(b"k") is None


def test_file_that_was_never_opened():
    file = RecordFile.__new__(RecordFile)
    assert (file.get(b"k"), len(file), list(file), file.skipped) == (None, 0, [], {})


@pytest.mark.parametrize("text", [b"", b"\n", b"\r\n\r\n", b"\0" * 10_000])
def test_nothing_in_it(path, cache, text):
    path.write_bytes(text)
    for _ in range(2):
        file = RecordFile(path, cache)
        assert (file.problem, len(file), list(file), file.get(b"k")) == ("", 0, [], None)


def test_file_that_appears_later(path, cache):
    file = RecordFile(path, cache)
    assert "No such file" in file.problem
    path.write_bytes(b"k=a:v\n")
    assert_holds(file, b"k=a:v\n")
    assert file.problem == ""


# Compressed files


@pytest.fixture
def packed(tmp_path):
    return tmp_path / "device.HIP.fdb.txt.bz2"


@pytest.mark.parametrize("folder", ["cache", None])
def test_compressed(packed, tmp_path, random_of, folder):
    text = a_database(random_of, 200_000)
    half = len(text) // 2
    for data in (bz2.compress(text), bz2.compress(text[:half]) + bz2.compress(text[half:])):
        packed.write_bytes(data)
        for _ in range(2):
            assert_holds(RecordFile(packed, folder and tmp_path / folder), text)


def test_damaged_compression(packed, cache, random_of):
    data = bz2.compress(a_database(random_of, 5000))
    text = bz2.decompress(data)
    for folder in (None, cache):
        for size in [0, 1, 3, 4, 10, len(data) // 2, len(data) - 1]:
            packed.write_bytes(data[:size])
            file = RecordFile(packed, folder)
            assert list(file) == []
            assert file.problem or size == 0
        for _ in range(30):
            damaged = bytearray(data)
            damaged[random_of.randrange(len(data))] ^= 1 << random_of.randrange(8)
            packed.write_bytes(damaged)
            file = RecordFile(packed, folder)
            assert (list(file) == [] and file.problem) or list(file) == expected(text)[0]
        packed.write_bytes(b"k=a:v\n" * 100)
        file = RecordFile(packed, folder)
        assert file.problem
        assert file.get(b"k") is None


def test_compression_bomb(packed, cache, monkeypatch):
    monkeypatch.setattr(_system_file, "MAX_BYTES", 150_000)
    packed.write_bytes(bz2.compress(b"k=a:v\n" * 25_000))
    assert RecordFile(packed).get(b"k") == b"a:v"
    packed.write_bytes(bz2.compress(b"k=a:v\n" * 25_001))
    assert_too_large(RecordFile(packed), cache)
    assert_too_large(RecordFile(packed, cache), cache)


def test_large_file(path, cache, monkeypatch):
    path.write_bytes(b"k=a:v\n" * 25_001)
    monkeypatch.setattr(_system_file, "MAX_BYTES", 150_000)
    assert_too_large(RecordFile(path), cache)
    assert_too_large(RecordFile(path, cache), cache)


def assert_too_large(file, cache):
    assert file.get(b"k") is None
    assert "150000 bytes" in file.problem
    assert not cache.exists() or list(cache.iterdir()) == []


# The copy in the cache folder


@pytest.fixture(params=[".txt", ".txt.bz2"])
def source(request, tmp_path):
    return tmp_path / f"device.HIP.fdb{request.param}"


def pack(source, text):
    return bz2.compress(text) if source.suffix == ".bz2" else text


def the_copy(cache):
    copy, = cache.glob("records-*.txt")
    return copy


def the_index(cache):
    index, = cache.glob("records-*.index")
    return index


def overwrite(file, data):
    """Write into a file of the cache folder in place; its mode is against that, for all but root."""
    file.chmod(0o600)
    with file.open("r+b") as out:
        out.write(data)
        out.truncate()


def test_copy_is_made_once(source, cache, random_of, monkeypatch):
    text = a_database(random_of, 20_000)
    source.write_bytes(pack(source, text))
    RecordFile(source, cache)
    copies = {file: file.stat().st_ino for file in cache.iterdir()}
    assert len(copies) == 2
    assert all(file.stat().st_mode & 0o777 == 0o400 for file in copies)
    assert the_copy(cache).read_bytes() == text
    monkeypatch.setattr("bz2.open", None)
    assert_holds(RecordFile(source, cache), text)
    assert {file: file.stat().st_ino for file in cache.iterdir()} == copies
    monkeypatch.undo()
    source.write_bytes(pack(source, text[:text.index(b"\n") + 1]))
    assert len(RecordFile(source, cache)) == 1
    assert len(list(cache.iterdir())) == 2


def test_copy_that_is_not_what_it_was(source, cache, random_of):
    """Only the index tells a whole copy from another: a copy that it does not name is made again."""
    text = a_database(random_of, 20_000)
    source.write_bytes(pack(source, text))
    RecordFile(source, cache)
    copy = the_copy(cache)
    for damage in (text[:-100], b"", text.replace(b"1", b"2"), None):
        copy.unlink()
        if damage is not None:
            copy.write_bytes(damage)
        assert_holds(RecordFile(source, cache), text)
        assert copy.read_bytes() == text


def test_copy_with_blank_blocks(source, cache, random_of):
    """What a power failure can leave: the size and the times are right, some blocks were not written."""
    text = a_database(random_of, 20_000)
    source.write_bytes(pack(source, text))
    RecordFile(source, cache)
    copy = the_copy(cache)
    for block in range(0, len(text), 4096):
        times = copy.stat()
        overwrite(copy, text[:block] + bytes(min(4096, len(text) - block)) + text[block + 4096:])
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert_holds(RecordFile(source, cache), text)
        assert copy.read_bytes() == text


def test_copy_changes_while_in_use(source, cache, random_of):
    text = a_database(random_of, 20_000)
    source.write_bytes(pack(source, text))
    file = RecordFile(source, cache)
    copy = the_copy(cache)
    overwrite(copy, b"")
    assert_holds(file, text)
    copy.unlink()
    assert_holds(file, text)
    (cache / "new").write_bytes(b"other=a:1\n")
    os.replace(cache / "new", copy)
    assert_holds(file, text)
    for left in cache.iterdir():
        left.unlink()
    assert_holds(file, text)
    assert_holds(RecordFile(source, cache), text)


def test_file_that_was_written_a_moment_ago(source, cache, monkeypatch):
    """Its time may not tell a further change, so that is waited for before anything is read."""
    source.write_bytes(pack(source, b"k=a:1\n"))
    times = source.stat()
    waited = []

    class Clock:
        time = time.time

        def time_ns(self):
            return times.st_mtime_ns + 1_000_000

        def sleep(self, seconds):
            waited.append(seconds)
            with source.open("r+b") as out:
                out.write(pack(source, b"k=a:2\n"))
            os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))

    monkeypatch.setattr(_system_file, "time", Clock())
    assert RecordFile(source, cache).get(b"k") == b"a:2"
    assert waited == [pytest.approx(0.009)]
    assert RecordFile(source, cache).get(b"k") == b"a:2"
    assert len(waited) == 1


def test_file_that_changes_while_it_is_copied(path, cache, monkeypatch):
    """Nobody is left a copy that may be of neither state."""
    read = posix.read_into
    path.write_bytes(b"k=a:1\n")

    def read_and_add(*arguments):
        count = read(*arguments)
        with path.open("ab") as out:
            out.write(b"l=a:1\n")
        return count

    monkeypatch.setattr(posix, "read_into", read_and_add)
    file = RecordFile(path, cache)
    monkeypatch.undo()
    assert list(cache.iterdir()) == []
    assert_holds(file, b"k=a:1\nl=a:1\n")
    assert len(list(cache.iterdir())) == 2


def test_what_is_of_no_use_goes(tmp_path, cache, random_of):
    ago = time.time() - 91 * 86400
    paths = [tmp_path / f"{name}.fdb.txt" for name in ("kept", "gone", "unused", "last")]
    pairs = []
    for path in paths[:-1]:
        path.write_bytes(a_database(random_of, 5000))
        before = set(cache.glob("*"))
        RecordFile(path, cache)
        pairs.append(set(cache.iterdir()) - before)
    name = the_copy_name(pairs[0])
    others = ["records-2024.txt", "records-.index", f"x{name}.txt", "programs", f"{name}.txt.old"]
    old = [f".{name}.txt.12.ab34", f".{name}.index.7.00ff", "records-" + "0" * 32 + ".txt"]
    young = [f".{name}.txt.13.ab34", "records-" + "1" * 32 + ".txt"]
    for left in others + old + young:
        (cache / left).write_bytes(b"k=a:1\n")
    for left in others + old:
        os.utime(cache / left, (ago, ago))
    (cache / ("records-" + "2" * 32 + ".index")).write_bytes(b"another layout" * 20)
    (cache / ("records-" + "3" * 32 + ".index")).mkdir()
    endless = cache / ("records-" + "4" * 32 + ".index")
    endless.write_bytes(the_index_of(pairs[0]).read_bytes())
    os.truncate(endless, 1 << 42)  # takes no room, and would take memory
    os.utime(the_index_of(pairs[2]), (ago, ago))
    for file in pairs[0]:  # read long ago, but opened yesterday
        os.utime(file, (ago, ago) if file.suffix == ".txt" else (time.time() - 2 * 86400,) * 2)
    paths[1].unlink()
    before = set(cache.iterdir())
    paths[-1].write_bytes(a_database(random_of, 5000))
    RecordFile(paths[-1], cache)
    after = set(cache.iterdir())
    assert len(after - before) == 2
    assert {file.name for file in before - after} == {
        *(file.name for file in pairs[1] | pairs[2]), *old, "records-" + "2" * 32 + ".index", endless.name}


def the_copy_name(pair):
    return the_index_of(pair).name.removesuffix(".index")


def the_index_of(pair):
    index, = (file for file in pair if file.suffix == ".index")
    return index


def test_opening_counts_as_use(source, cache, random_of):
    source.write_bytes(pack(source, a_database(random_of, 5000)))
    RecordFile(source, cache)
    index = the_index(cache)
    inode = index.stat().st_ino
    os.utime(index, (time.time() - 80 * 86400,) * 2)
    RecordFile(source, cache)
    assert time.time() - index.stat().st_mtime < 3600
    assert index.stat().st_ino == inode


NO_ROOM = """
import hashlib, resource, sys
from miopyx.database._system_file import RecordFile
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
file = RecordFile(sys.argv[1], sys.argv[2])
print(hashlib.sha256(repr(list(file)).encode()).hexdigest(), file.problem)
"""


@pytest.mark.parametrize("room", [0, 1000, 500_000])
def test_no_room_for_a_copy(source, cache, random_of, room):
    """With room for neither, and with room for the copy but not for its index."""
    # At most ten bytes a record, and 16 in the index.
    text = b"".join(b"%d=a:1\n" % i for i in range(random_of.randrange(40_000, 45_000)))
    source.write_bytes(pack(source, text))
    done = subprocess.run([sys.executable, "-P", "-c", NO_ROOM, source, cache, str(room)], capture_output=True,
                          text=True, timeout=60)
    digest_ = hashlib.sha256(repr(expected(text)[0]).encode()).hexdigest()
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, digest_, "")
    assert list(cache.iterdir()) == []


# The index on disk

KEY_SEED, TABLE_SEED = 0x243F6A8885A308D3, 0x13198A2E03707344
WORDS = ("magic", "size", "mtime", "inode", "device", "text size", "text mtime", "text inode", "text device",
         "samples", "slots", "records", "duplicates", "no items", "damaged", "malformed", "checksum")
HEADER = 8 * len(WORDS)


def digest(data, seed):
    mask = (1 << 64) - 1

    def mix(h, word):
        product = (h ^ word) * 0x9E3779B97F4A7C15
        return product & mask ^ product >> 64

    def word(place):
        return int.from_bytes(data[place:place + 8], "little")

    h = seed ^ len(data) * 0xD6E8FEB86659FD93 & mask
    for place in range(0, len(data) - 8, 8):
        h = mix(h, word(place))
    return mix(mix(h, word(max(0, len(data) - 8))), len(data))


def with_checksum(index, path):
    """Return an index of the file at `path` with the sum of what it holds."""
    header, slots = index[:HEADER - 8], index[HEADER:-len(os.fsencode(path))]
    return header + struct.pack("<Q", digest(slots, digest(header, TABLE_SEED))) + index[HEADER:]


def without_copy(index):
    """Return what does not depend on which copy the index names."""
    return index[:40] + index[72:HEADER - 8] + index[HEADER:]


@pytest.fixture
def indexed(path, cache, random_of):
    """Return a file's text and the path of its index."""
    text = a_database(random_of, 4096)
    text += a_record(random_of, text.split(b"=")[0]) + b"\n"  # a duplicate
    text += records.seal(b"damaged=@1;a:1").replace(b":1", b":2") + b"nonsense\n"
    path.write_bytes(text)
    RecordFile(path, cache)
    index = the_index(cache)
    data = index.read_bytes()
    assert data.endswith(b"/" + os.fsencode(path.name))
    assert with_checksum(data, path) == data
    return text, index


def test_index_is_used_and_kept(path, cache, indexed):
    text, index = indexed
    inode = index.stat().st_ino
    assert_holds(RecordFile(path, cache), text)
    assert index.stat().st_ino == inode
    data, end = index.read_bytes(), os.fsencode(path)
    overwrite(index, with_checksum(data[:HEADER] + bytes(len(data) - HEADER - len(end)) + end, path))
    assert RecordFile(path, cache).get(text.split(b"=")[0]) is None  # so it was not made anew


@pytest.mark.parametrize("word", range(len(WORDS)), ids=WORDS)
@pytest.mark.parametrize("sum_fits", [False, True], ids=["", "sum fits"])
def test_header_of_the_index_altered(path, cache, random_of, indexed, word, sum_fits):
    text, index = indexed
    for change in (lambda w: 0, lambda w: 1, lambda w: (w + 1) % (1 << 64),
                   lambda w: w ^ 1 << random_of.randrange(63), lambda w: (1 << 64) - 1):
        good = index.read_bytes()
        words = list(struct.unpack_from(f"<{len(WORDS)}Q", good))
        words[word] = change(words[word])
        changed = struct.pack(f"<{len(WORDS)}Q", *words) + good[HEADER:]
        overwrite(index, with_checksum(changed, path) if sum_fits else changed)
        file = RecordFile(path, cache)
        if sum_fits and WORDS[word] in ("records", "duplicates", "no items", "damaged", "malformed"):
            assert [(key, file.get(key)) for key, _ in file] == expected(text)[0]  # a false count harms nobody
        else:
            assert_holds(file, text)
            assert without_copy(index.read_bytes()) == without_copy(good)


def test_index_damaged_anywhere(path, cache, random_of, indexed):
    text, index = indexed
    for _ in range(200):
        good = index.read_bytes()
        damaged = bytearray(good)
        for _ in range(random_of.choice([1, 1, 8])):
            damaged[random_of.randrange(len(good))] ^= random_of.randrange(1, 256)
        cut = random_of.choice([len(good), random_of.randrange(len(good)), len(good) + 8])
        overwrite(index, bytes(damaged[:cut]) + bytes(max(0, cut - len(good))))
        assert_holds(RecordFile(path, cache), text)
        assert without_copy(index.read_bytes()) == without_copy(good)


def test_forged_index(path, cache, random_of, indexed):
    """An index with a sum that fits may hide records, but what is found is a sound line of that key."""
    text, index = indexed
    good = index.read_bytes()
    end = os.fsencode(path)
    slots = (len(good) - HEADER - len(end)) // 8
    lines = [line for line in text.split(b"\n") if line]
    sound = {}  # every sound line, whether it counts or not
    for line in lines:
        for key, items in expected(line)[0]:
            sound.setdefault(key, set()).add(items)
    starts = [0] + [place + 1 for place, byte in enumerate(text) if byte == 10]
    places = [*starts, len(text), len(text) - 1, len(text) + 1, (1 << 40) - 2]
    keys = [*(line.split(b"=")[0] for line in lines), b"", b"k"]
    for _ in range(60):
        # Every slot taken, each with the tag of a key, so that whole chains are walked.
        table = b"".join(struct.pack("<Q", random_of.choice([
            (random_of.choice([random_of.choice(places), random_of.randrange(len(text))]) + 1) << 24
            | digest(random_of.choice(keys), KEY_SEED) & 0xFFFFFF, random_of.getrandbits(64), (1 << 64) - 1,
        ])) for _ in range(slots))
        overwrite(index, with_checksum(good[:HEADER] + table + end, path))
        file = RecordFile(path, cache)
        for key in [*keys, a_key(random_of)]:
            found = file.get(key)
            assert found is None or found in sound.get(key, ())
        assert all(items in sound[key] for key, items in file)


@pytest.mark.parametrize(("key", "place"), [(b"a=x:1\nb", 0), (b"b=y", 6), (b"a=x:1\r\nb", 14), (b"y", 8)])
def test_forged_index_for_what_is_no_key(path, cache, key, place):
    """Bytes that stand before some "=" are no key if a line or a key ends within them."""
    path.write_bytes(b"a=x:1\nb=y=z:2\na=x:1\r\nb=c:3\n")
    RecordFile(path, cache)
    index, end = the_index(cache), os.fsencode(path)
    header = index.read_bytes()[:HEADER]
    slots = (index.stat().st_size - HEADER - len(end)) // 8
    slot = struct.pack("<Q", place + 1 << 24 | digest(key, KEY_SEED) & 0xFFFFFF)
    overwrite(index, with_checksum(header + slots * slot + end, path))
    assert RecordFile(path, cache).get(key) is None


@pytest.mark.parametrize("make", [a_folder, a_pipe, a_circle])
def test_something_else_in_a_place_of_ours(path, cache, indexed, make):
    text, index = indexed
    copy = the_copy(cache)
    for place in (index, copy):
        place.unlink(missing_ok=True)
        make(place)
        for _ in range(2):
            assert_holds(RecordFile(path, cache), text)


@pytest.mark.parametrize("suffix", [".txt", ".txt.bz2"])
@pytest.mark.parametrize("where", ["file", "nowhere", "not writable"])
def test_cache_folder_that_cannot_be_used(tmp_path, random_of, suffix, where):
    text = a_database(random_of, 5000)
    path = tmp_path / f"device{suffix}"
    path.write_bytes(bz2.compress(text) if suffix.endswith("bz2") else text)
    folder = tmp_path / "cache"
    if where == "nowhere":
        folder = Path("/proc/self/nowhere")
    elif where == "file":
        folder.touch()
    else:
        folder.mkdir(mode=0o500)
    for _ in range(2):
        assert_holds(RecordFile(path, folder), text)


OPENER = """
import hashlib, sys
from miopyx.database._system_file import RecordFile
print("ready", flush=True)
sys.stdin.readline()
file = RecordFile(sys.argv[1], sys.argv[2])
print(hashlib.sha256(repr(list(file)).encode()).hexdigest(), file.problem)
"""


def test_processes_that_open_at_once(packed, cache, random_of):
    text = a_database(random_of, 500_000)
    packed.write_bytes(bz2.compress(text))
    children = [
        subprocess.Popen([sys.executable, "-P", "-c", OPENER, packed, cache], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = {child.communicate(timeout=60)[0].strip() for child in children}
    assert answers == {hashlib.sha256(repr(expected(text)[0]).encode()).hexdigest()}
    for _ in range(2):
        assert_holds(RecordFile(packed, cache), text)
    assert len(list(cache.iterdir())) == 2


# Files that change

CHANGES = """
import os, sys, time
from miopyx.database._system_file import RecordFile

path, cache = sys.argv[1:]
COARSE = 6  # CLOCK_MONOTONIC_COARSE
LINE = b"%d=Solver:1,0,miopenConvolutionFwdAlgoDirect" + b"x" * 200 + b"\\n"

def text(first, last):
    return b"".join(LINE % i for i in range(first, last))

def rewrite(data):
    with open(path, "r+b") as out:
        out.truncate(0)
        out.write(data)

def replace(data):
    with open(path + ".new", "wb") as out:
        out.write(data)
    os.replace(path + ".new", path)

def shorten(data):
    os.truncate(path, len(data))

def known(numbers):
    # get() looks at the file again once the clock has moved on.
    start = time.clock_gettime(COARSE)
    while time.clock_gettime(COARSE) < start + 0.006:
        pass
    return [i for i in numbers if file.get(b"%d" % i) is not None]

replace(text(0, 500))
file = RecordFile(path, cache or None)
assert known(range(1000)) == list(range(500))
steps = [(rewrite, 600, 900), (shorten, 600, 700), (replace, 100, 400), (shorten, 100, 100), (rewrite, 0, 1000),
         (shorten, 0, 1), (replace, 0, 300), (rewrite, 0, 0), (rewrite, 7, 9)]
for change, first, last in steps:
    change(text(first, last))
    assert known(range(1000)) == list(range(first, last)), (change.__name__, first, last)
    assert len(file) == last - first
os.utime(path, ns=(1, 1))
assert known([7]) == [7]
os.unlink(path)
assert known([7]) == []
assert "No such file" in file.problem
replace(text(7, 8))
assert known([7]) == [7]

replace(text(7, 9))
iterator = iter(file)
assert next(iterator)[0] == b"7"
replace(text(7, 20))
try:
    next(iterator)
    raise SystemExit("went on over a file that changed")
except RuntimeError:
    pass
replace(text(0, 10))
iterator = iter(file)
next(iterator)
shorten(text(0, 1))
try:
    list(iterator)
    raise SystemExit("went on over a file that changed")
except RuntimeError:
    pass

child = os.fork()
if child == 0:
    replace(text(0, 44))
    os._exit(0 if known(range(100)) == list(range(44)) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert known(range(100)) == list(range(44))
print("done")
"""


@pytest.mark.parametrize("with_cache", [False, True])
def test_file_that_changes_while_open(path, cache, with_cache):
    """In a process of its own: what goes wrong here ends it."""
    done = subprocess.run([sys.executable, "-P", "-c", CHANGES, path, cache if with_cache else ""], timeout=60,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


CUT = """
import os, random, sys, threading
from miopyx.database._system_file import RecordFile

path, cache, seed = sys.argv[1:]
rng = random.Random(int(seed))
value = b"Solver:1,0,miopenConvolutionFwdAlgoDirect" + b"x" * 200
text = b"".join(b"%d=%s\\n" % (i, value) for i in range(20_000))
unnoticed = 0

def fill():
    with open(path, "wb") as out:
        out.write(text)

for round_ in range(20):
    fill()
    file = RecordFile(path, cache or None)
    assert file.get(b"0") == value
    size = rng.choice([0, 0, rng.randrange(len(text))])
    blank = rng.random() < 0.3
    order = list(range(19_950, 20_000)) + rng.sample(range(20_000), 200)
    if blank:
        with open(path, "r+b") as out:
            out.write(bytes(len(text)))
    else:
        os.truncate(path, size)
    # At once: the file was looked at a moment ago.
    found = [file.get(b"%d" % i) for i in order]
    # The last line of what was left may be cut, and nobody sealed it.
    assert all(items is None or value.startswith(items) for items in found), found
    assert len(set(found) - {value, None}) <= 1
    unnoticed += found[0] == value
assert unnoticed  # or nothing was tried: it was always time for a look

# And cut while it is read for the first time.
done = threading.Event()

def cut():
    while not done.is_set():
        fill()
        os.truncate(path, rng.choice([0, 4096, len(text) // 2, len(text) - 1]))

thread = threading.Thread(target=cut)
thread.start()
for _ in range(40):
    file = RecordFile(path, cache or None)
    found = {file.get(b"%d" % i) for i in range(0, 20_000, 97)}
    assert all(items is None or value.startswith(items) for items in found), found
done.set()
thread.join()
print("done")
"""


@pytest.mark.parametrize("with_cache", [False, True])
def test_file_that_is_cut_at_any_moment(path, cache, random_of, with_cache):
    """No process dies of a system file that somebody cuts, not even before it can have been noticed."""
    done = subprocess.run([sys.executable, "-P", "-c", CUT, path, cache if with_cache else "",
                           str(random_of.randrange(1 << 30))], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_iteration_names_the_file(path):
    path.write_bytes(b"a=a:1\nb=b:2\n")
    iterator = iter(RecordFile(path))
    assert next(iterator) == (b"a", b"a:1")
    path.write_bytes(b"a=a:1\nb=b:2\nc=c:3\n")
    with pytest.raises(InternalError, match="changed") as error:
        next(iterator)
    assert error.value.value == str(path)


def test_threads_while_the_file_is_replaced(path, cache, random_of):
    """Whoever asks gets the record of the old or of the new file, all of the time."""
    new = path.with_name("new")
    numbers = range(2000)
    stop, wrong = threading.Event(), []

    def write(generation):
        new.write_bytes(b"".join(b"key%d=g%d:%d\n" % (i, generation, i) for i in numbers))
        os.replace(new, path)

    def read():
        rng = random.Random(random_of.random())
        while not stop.is_set():
            i = rng.choice(numbers)
            items = file.get(b"key%d" % i)
            if items is None or not items.startswith(b"g") or not items.endswith(b":%d" % i):
                wrong.append((i, items))

    write(0)
    file = RecordFile(path, cache)
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for generation in range(1, 25):
        write(generation)
        deadline = time.monotonic() + 10
        while file.get(b"key1") != b"g%d:1" % generation and time.monotonic() < deadline:
            pass
        assert file.get(b"key1") == b"g%d:1" % generation
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_forks_while_threads_read(path, random_of):
    """A child that was forked while another thread read the file anew does not wait for it."""
    stop = threading.Event()
    file = RecordFile(path)

    def write():
        size = 0
        while not stop.is_set():
            size = (size + 1) % 50
            with suppress(OSError):
                path.with_name("new").write_bytes(b"k=a:v\n" + b"x=a:y\n" * 1000 * size)
                os.replace(path.with_name("new"), path)

    def read():
        while not stop.is_set():
            len(file)

    path.write_bytes(b"k=a:v\n")
    threads = [threading.Thread(target=write), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(30):
        child = os.fork()
        if child == 0:
            os._exit(0 if len(file) in (1, 2) and file.get(b"k") == b"a:v" else 1)
        children.append(child)
        codes = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert codes == 0
    stop.set()
    for thread in threads:
        thread.join()
