"""The user's file: what it returns, what it stores, and that neither damage, other processes nor kills change that."""

import errno
import fcntl
import json
import logging
import os
import random
import resource
import select
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from endurance_user_file import number_in, record

from miopyx.database import records, user_file
from miopyx.database.user_file import UserFile
from miopyx.errors import InvalidValueError
from miopyx.values import posix

SCRIPT = Path(__file__).with_name("endurance_user_file.py")


def take_os(patch, module):
    """Let another module stand for `os` where files of records are written."""
    patch.setattr(user_file, "os", module)
    patch.setattr(posix, "os", module)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "user" / "device.ufdb.txt"


@pytest.fixture
def file(path):
    return UserFile(path)


@pytest.fixture
def server():
    """Return a function that starts a process which stores what it is told; see the script."""
    running = []

    def start(*arguments):
        process = subprocess.Popen([sys.executable, "-P", SCRIPT, *map(str, arguments)], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(process)
        return process

    yield start
    for process in running:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def hear(process):
    assert select.select([process.stdout], [], [], 60)[0], "no answer"
    return process.stdout.readline().strip()


def ask(process, path, key, number):
    print(path, key, number, file=process.stdin, flush=True)
    return hear(process)


def store(file, key, number):
    return file.update(key, lambda old: record(key, number))


def stored_in(path):
    return UserFile(path).as_dict()


def skipped_in(path):
    file = UserFile(path)
    file.as_dict()
    return file.skipped


def items_of(line):
    return records.split(line)[1]


def write(path, data):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


# What is read


def test_what_is_stored_is_found(file, path):
    assert file.get(b"key") is None
    assert not path.parent.exists(), "reading made a folder"
    assert file.update(b"key", lambda old: record(b"key", 1) if old is None else None)
    assert file.get(b"key") == items_of(record(b"key", 1))
    assert file.update(b"key", lambda old: record(b"key", number_in(old) + 1))
    assert path.read_bytes() == record(b"key", 1) + record(b"key", 2)
    assert stored_in(path) == {b"key": items_of(record(b"key", 2))}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in path.parent.iterdir()} == {0o600}
    assert sorted(entry.name for entry in path.parent.iterdir()) == [path.name, path.name + ".lock"]


def test_what_is_stored_already_is_not_written_again(file, path):
    store(file, b"key", 1)
    assert store(file, b"key", 1)
    assert file.update(b"key", lambda old: None)
    assert file.update(b"another", lambda old: None)
    assert path.read_bytes() == record(b"key", 1)


def test_removed_records_stay_removed(file, path):
    write(path, b"foreign=Solver:1\n")
    store(file, b"key", 1)
    assert file.remove(b"key")
    assert file.remove(b"foreign")
    length = path.stat().st_size
    assert file.remove(b"nothing")
    assert path.stat().st_size == length
    for one in (file, UserFile(path)):
        assert one.as_dict() == {}
        assert one.get(b"key") is None
        assert one.get(b"foreign") is None
    assert store(file, b"key", 2)
    assert number_in(UserFile(path).get(b"key")) == 2


def test_record_of_ours_without_values_is_none(file):
    store(file, b"key", 1)
    assert file.update(b"key", lambda old: records.write_find(b"key", [], "test/1.0", partial=True))
    assert file.get(b"key") is None


@pytest.mark.parametrize(("text", "found", "skipped"), [
    (b"", {}, {}),
    (b"\n\n\r\n", {}, {"malformed": 1}),
    (b"k=a:1\nk=a:2\n", {b"k": b"a:1"}, {}),
    (b"k=a:1\r\nl=b:1;c\r\n", {b"k": b"a:1", b"l": b"b:1;c"}, {}),
    (b"k=a:1\n" + record(b"k", 3) + b"k=a:2\n" + record(b"k", 4), {b"k": items_of(record(b"k", 4))}, {}),
    (record(b"k", 3) + record(b"k", 4)[:-2] + b"!\n", {b"k": items_of(record(b"k", 3))}, {"damaged": 1}),
    (b"k=\nk=nothing\nk=a:1\nno equals sign\n=a:1\n", {b"k": b"a:1"}, {"no items": 2, "malformed": 2}),
    (b"k=a:1\nl=b:1", {b"k": b"a:1"}, {}),
    (b"k=a:1\n" + record(b"l", 3)[:-1], {b"k": b"a:1", b"l": items_of(record(b"l", 3))}, {}),
    (b"k=a:1;#notaseal\n", {b"k": b"a:1;#notaseal"}, {}),
    (b"\0" * 5000 + b"\n" + b"\xff=\xfe:1\n", {b"\xff": b"\xfe:1"}, {"malformed": 1}),
])
def test_rules(path, text, found, skipped):
    write(path, text)
    file = UserFile(path)
    assert file.as_dict() == found
    assert file.skipped == skipped
    assert store(file, b"new", 7)
    assert stored_in(path) == file.as_dict() == found | {b"new": items_of(record(b"new", 7))}
    assert file.compact()
    assert stored_in(path) == file.as_dict() == found | {b"new": items_of(record(b"new", 7))}
    assert skipped_in(path) == file.skipped == {}


def test_against_a_plain_reading(path, rng):
    """Files of random lines, added to in random parts, against the rules written down in another way."""
    for _ in range(50):
        lines = []
        for _ in range(rng.integers(1, 60)):
            key, number = b"key%d" % rng.integers(12), int(rng.integers(1000))
            line = record(key, number)
            at = rng.integers(len(line) - 1)
            lines.append([line, line, records.seal(key + b"=@x"), b"%b=Solver:%d\n" % (key, number), b"\n", b"junk\n",
                          line[:at] + bytes([line[at] ^ 1]) + line[at + 1:]][rng.integers(7)])
        data = b"".join(lines)
        write(path, b"")
        file = UserFile(path)
        file.as_dict()
        position = 0
        while position < len(data):
            step = int(rng.integers(1, 400))
            with path.open("ab") as stream:
                stream.write(data[position:position + step])
            position += step
            file.get(b"no such key")
        ours, foreign = {}, {}
        for line in data.splitlines():
            kind = records.classify(line)
            key, items = records.split(line)
            if kind is records.Kind.OURS:
                ours[key] = items
            elif kind is records.Kind.FOREIGN and b":" in items:
                foreign.setdefault(key, items)
        expected = {key: items for key, items in (foreign | ours).items() if b":" in items}
        assert file.as_dict() == expected == stored_in(path)
        assert file.skipped == skipped_in(path)
        live = [records.seal(key + b"=" + items) if key in ours else key + b"=" + items + b"\n"
                for key, items in expected.items()]
        assert file._contents.live == sum(map(len, live))
        assert file.compact()
        assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(live)


def test_wrong_arguments(file, path):
    for key in (b"", b"a=b", b"a\nb"):
        with pytest.raises(InvalidValueError) as raised:
            file.update(key, lambda old: None)
        assert raised.value.parameter == "key"
    good = record(b"key", 1)
    for line in (b"", good[:-1], good + good, good + b"x", record(b"other", 1), b"key=a:1\n", records.seal(b"key=a:1"),
                 good[:5] + b"?" + good[6:], records.seal(b"key=@s;a:1\n;b:1")):
        with pytest.raises(InvalidValueError) as raised:
            file.update(b"key", lambda old, line=line: line)
        assert raised.value.parameter == "line"
    assert path.read_bytes() == b""
    assert store(file, b"key", 1), "the lock was not given back"


def test_errors_of_the_caller_pass(file):
    for error in (OSError, KeyboardInterrupt, ZeroDivisionError):
        def change(old, error=error):
            raise error
        with pytest.raises(error):
            file.update(b"key", change)
    assert store(file, b"key", 1)


class Counting:
    """The os module, its calls counted."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        value = getattr(os, name)
        if not callable(value):
            return value
        self.calls.append(name)
        return value


def test_system_calls(file, monkeypatch):
    store(file, b"key", 1)
    counting = Counting()
    take_os(monkeypatch, counting)
    assert file.get(b"key")
    assert counting.calls == []
    assert file.get(b"nothing") is None
    assert counting.calls == ["lstat"]
    store(file, b"key", 2)
    assert counting.calls.count("write") == 1
    assert counting.calls.count("open") == 1, "more than the lock file was opened"


# Other writers


def test_what_others_write_is_seen(path):
    one, two = UserFile(path), UserFile(path)
    assert two.get(b"key") is None
    store(one, b"key", 1)
    assert number_in(two.get(b"key")) == 1
    store(two, b"key", 2)
    one.update(b"key", lambda old: record(b"key", number_in(old) + 1))
    assert number_in(two.as_dict()[b"key"]) == 3
    one.remove(b"key")
    two.update(b"key", lambda old: record(b"key", 9 if old is None else 0))
    assert number_in(one.get(b"key")) == 9
    path.unlink()
    assert one.get(b"nothing") is None
    assert one.get(b"key") is None
    assert store(two, b"other", 5)
    assert stored_in(path).keys() == {b"other"}
    assert one.as_dict() == two.as_dict() == stored_in(path)


@pytest.mark.parametrize("how", ["emptied", "cut", "replaced", "grown anew", "same length"])
def test_truncated_or_replaced_while_open(path, how):
    one, two = UserFile(path), UserFile(path)
    for number in range(300):
        store(one, b"key%d" % number, number)
    assert len(two.as_dict()) == 300
    whole = path.read_bytes()
    if how == "emptied":
        os.truncate(path, 0)
        expected = 0
    elif how == "cut":
        os.truncate(path, len(b"".join(whole.splitlines(keepends=True)[:100])) + 7)
        expected = 100
    elif how == "replaced":
        path.with_suffix(".new").write_bytes(b"".join(whole.splitlines(keepends=True)[::2]))
        path.with_suffix(".new").rename(path)
        expected = 150
    elif how == "grown anew":
        path.write_bytes(b"x=a:1\n" * 299 + whole)
        expected = 301
    else:
        status = path.stat()
        path.write_bytes(b"".join(record(b"abc%d" % number, number) for number in range(300)))
        assert path.stat().st_size == status.st_size
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        expected = 300
    assert len(two.as_dict()) == expected
    assert store(one, b"new", 1)
    assert len(two.as_dict()) == expected + 1
    assert one.as_dict() == two.as_dict() == stored_in(path)
    assert not two.skipped


def test_cut_at_every_prefix(path, server):
    """A write that stops at any byte costs no other record, whoever writes next."""
    other = server("serve")
    head, line = record(b"first", 1), record(b"torn-record", 2)
    reader = UserFile(path)
    for length in range(len(line) + 1):
        write(path, head + line[:length])
        assert reader.as_dict().keys() == ({b"first"} if length < len(line) - 1 else {b"first", b"torn-record"})
        assert ask(other, path, "next", length) == "True"
        kept = b"" if length < len(line) - 1 else line
        assert path.read_bytes() == head + kept + record(b"next", length)
        assert number_in(reader.get(b"next")) == length or reader.get(b"no such key") is None
        assert reader.as_dict() == stored_in(path)
        assert not skipped_in(path)


def test_writer_that_waits_across_a_compaction(file, path, server):
    other = server("serve")
    for number in range(10):
        assert ask(other, path, "of-the-other", number) == "True"
    while path.stat().st_size <= user_file.COMPACT_BYTES - 200:
        store(file, b"key", random.randrange(10**6))
    inode = path.stat().st_ino

    def change(old):
        print(path, "waited", 1, file=other.stdin, flush=True)
        assert hear(other) == "waiting"
        return records.write_perf(b"key", {"Solver": "1," * 2000}, "test/1.0")

    assert file.update(b"key", change)
    assert path.stat().st_ino != inode, "no compaction took place"
    assert hear(other) == "True"
    found = stored_in(path)
    assert found.keys() == {b"of-the-other", b"key", b"waited"}
    assert number_in(found[b"of-the-other"]) == 9
    assert len(path.read_bytes().splitlines()) == 3


def test_lock_file_replaced_while_waiting(file, path, server):
    """A lock on a file that has lost its name protects nothing."""
    other = server("serve")
    store(file, b"key", 1)
    lock = path.with_name(path.name + ".lock")
    with lock.open("rb") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        print(path, "waited", 1, file=other.stdin, flush=True)
        assert hear(other) == "waiting"
        replacement = lock.with_suffix(".new")
        with replacement.open("wb") as new:
            fcntl.flock(new, fcntl.LOCK_EX)
            replacement.rename(lock)
            fcntl.flock(old, fcntl.LOCK_UN)
            assert not select.select([other.stdout], [], [], 0.1)[0], "written under the old lock"
    assert hear(other) == "True"
    assert stored_in(path).keys() == {b"key", b"waited"}


def test_lock_file_replaced_before_it_is_locked(file, path, monkeypatch):
    store(file, b"key", 1)
    lock, opened = path.with_name(path.name + ".lock"), []

    def open_and_replace(name, flags, follow):
        assert not follow
        descriptor = os.open(name, flags)
        if name == str(lock) and not opened:
            lock.unlink()
            lock.write_bytes(b"")
        opened.append(name)
        return descriptor

    monkeypatch.setattr(posix, "open_plain", open_and_replace)

    def change(old):
        assert [os.fstat(one).st_ino for one in user_file._lock_files] == [lock.stat().st_ino]
        return record(b"key", 2)

    assert file.update(b"key", change)
    assert opened == [str(lock)] * 2


def test_threads(path):
    files = [UserFile(path), UserFile(path)]
    failed = []

    def work(thread):
        for number in range(60):
            key = b"%d" % (number % 7)
            file = files[(thread + number) % 2]
            before = file.get(key)
            if not file.update(key, lambda old, key=key: record(key, number_in(old) + 1 if old else 1)):
                failed.append(key)
            if before is not None and file.get(key) is None:
                failed.append("vanished")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert sum(number_in(items) for items in stored_in(path).values()) == 6 * 60


def script(*arguments):
    done = subprocess.run([sys.executable, "-P", SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_processes_at_once(tmp_path):
    result = script("together", "--processes", 16, "--records", 60, "--folder", tmp_path)
    assert result["records"] == 16 * 60


def test_kills(tmp_path):
    result = script("killed", "--kills", 40, "--folder", tmp_path)
    assert result["kills"] == 40
    assert result["by_another"] > 0


# Forks


def test_fork_while_threads_read_and_write(tmp_path, server):
    path = tmp_path / "file.txt"
    parent = server("fork-in-use", "--folder", tmp_path)
    child, seen = json.loads(hear(parent))
    # The lock is still the parent's.
    assert seen == {"hit": True, "miss": True, "read": True, "stored": False, "remembered": True}
    parent.kill()
    parent.wait(30)
    os.kill(child, 0)  # still there, with all that it inherited
    assert store(UserFile(path), b"after", 1), "the child kept the lock of the dead parent"
    print("of-the-child", file=parent.stdin, flush=True)
    assert hear(parent) == "True"
    assert stored_in(path).keys() == {b"before", b"after", b"of-the-child"}


def test_lock_is_free_though_somebody_has_a_copy_of_it(file, path, monkeypatch):
    """As a process has that was forked by other means than Python's."""
    copies = []

    def change(old):
        copies.extend(os.dup(lock) for lock in user_file._lock_files)
        return record(b"key", 1)

    assert file.update(b"key", change)
    monkeypatch.setattr(user_file, "LOCK_SECONDS", 0.1)
    assert store(UserFile(path), b"another", 1)
    assert len(copies) == 1
    os.close(copies[0])


def test_fork_inside_of_change():
    assert script("fork-inside") == {"still locked": True, "length": 0, "stored": True}


# Damage


def database(rng):
    """Return a database of about 4 KiB with what its lines of ours said at some time, by key."""
    lines, said = [], {}
    while sum(map(len, lines)) < 4096:
        key, number = b"64-%d-3x3" % rng.integers(20), int(rng.integers(10**6))
        if rng.random() < 0.2:
            lines.append(b"128-%d-1x1=Solver:%d\n" % (rng.integers(20), number))
        else:
            lines.append(record(key, number))
            said.setdefault(key, set()).add(items_of(lines[-1]))
    return lines, said


def check_damaged(path, data, said, others):
    """Check that nothing of ours is altered, that the records in `others` are there, and that the file can be used."""
    path.unlink()  # emptying a file makes some file systems write it out at once
    path.write_bytes(data)
    file = UserFile(path)
    found = file.as_dict()
    for key, items in found.items():
        # Damage can turn one foreign key into another, but none into a record of ours.
        assert items in said[key] if key in said else not items.startswith(b"@"), (key, items)
    for key, items in others.items():
        assert found[key] == items
    assert store(file, b"new", 1)
    assert stored_in(path) == found | {b"new": items_of(record(b"new", 1))}


def test_every_byte_flipped(path, rng, amount):
    """One byte in four, any of them each time; all with --long."""
    share = amount(0.25, 1)
    lines, said = database(rng)
    data, first = b"".join(lines), 0
    write(path, data)
    for number, line in enumerate(lines):
        # Ours that stand in other lines than this one and, as its line end may go, the next.
        rest = lines[:number] + lines[number + 2:]
        others = {records.split(other)[0]: items_of(other) for other in rest if b"=@" in other}
        for hurt in {records.split(other)[0] for other in lines[number:number + 2]}:
            others.pop(hurt, None)
        for position in range(first, first + len(line)):
            if rng.random() >= share:
                continue
            # Any other byte, or one that means something.
            byte = data[position] ^ int(rng.integers(1, 256))
            if rng.random() < 0.5:
                byte = random.choice([mark for mark in b"\n=;:@#\r\0" if mark != data[position]])
            check_damaged(path, data[:position] + bytes([byte]) + data[position + 1:], said, others)
        first += len(line)


def test_every_truncation(path, rng, amount):
    """A third of the lengths, any of them each time, and those around line ends; all with --long."""
    share = amount(0.33, 1)
    lines, said = database(rng)
    data = b"".join(lines)
    write(path, data)
    whole, end = {}, 0
    ends = {}
    for line in lines:
        end += len(line)
        if b"=@" in line:
            whole = whole | {records.split(line)[0]: items_of(line)}
        ends[end] = whole
    expected = {}
    for length in range(len(data) + 1):
        expected = ends.get(length, expected)
        # A last line that lacks nothing but its end counts, so that what it replaces is not there any more.
        others = ends.get(length + 1, expected)
        if not {length - 1, length, length + 1} & ends.keys() and rng.random() >= share:
            continue
        check_damaged(path, data[:length], said, others)


# Compaction


def test_compaction(file, path):
    foreign = b"foreign=Solver:1,2\n"
    write(path, foreign + b"foreign=Solver:3,4\njunk\n" + record(b"damaged", 1).replace(b"1", b"2") + b"hidden=a:1\n")
    path.chmod(0o640)
    left = path.with_name(f".{path.name}.0123456789abcdef.tmp")
    left.write_bytes(b"of a compaction that was killed")
    others = [path.with_name(f".{path.name}.other"), path.with_name(f".{path.name}.b.0123456789abcdef.tmp")]
    for other in others:
        other.write_bytes(b"")
    reader = UserFile(path)
    reader.as_dict()
    store(file, b"gone", 1)
    file.remove(b"gone")
    file.remove(b"hidden")
    largest = 0
    for number in range(2000):
        store(file, b"key%d" % (number % 10), number)
        largest = max(largest, path.stat().st_size)
    assert user_file.COMPACT_BYTES - 200 < largest <= user_file.COMPACT_BYTES
    assert file.compact()
    expected = [foreign] + [record(b"key%d" % (number % 10), number) for number in range(1990, 2000)]
    assert sorted(path.read_bytes().splitlines(keepends=True)) == sorted(expected)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert reader.get(b"gone") is None
    assert reader.as_dict() == file.as_dict() == stored_in(path)
    assert not left.exists()
    assert all(other.exists() for other in others)
    inode = path.stat().st_ino
    assert file.compact()
    assert path.stat().st_ino == inode, "rewritten without need"


def test_a_large_file_without_waste_is_left_alone(file, path):
    store(file, b"first", 1)
    inode = path.stat().st_ino
    while path.stat().st_size < 2 * user_file.COMPACT_BYTES:
        store(file, b"key%d" % path.stat().st_size, 1)
    assert path.stat().st_ino == inode


def test_compaction_takes_what_is_in_the_file(file, path):
    """Even if somebody hid a change."""
    store(file, b"key", 1)
    store(file, b"key", 2)
    status = path.stat()
    path.write_bytes(path.read_bytes().replace(record(b"key", 2), record(b"key", 3)))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.compact()
    assert number_in(file.get(b"key")) == 3
    assert path.read_bytes() == record(b"key", 3)


def test_compaction_of_nothing(file, path):
    assert file.compact()
    assert not path.parent.exists()


@pytest.mark.parametrize("call", ["open", "fchmod", "fsync", "rename", "write"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["failed", "interrupted"])
def test_compaction_that_stops_leaves_a_whole_file(file, path, monkeypatch, call, error):
    for number in range(100):
        store(file, b"key%d" % (number % 10), number)
    before = path.read_bytes()
    expected = file.as_dict()

    def stop(*arguments, **options):
        if call == "open" and not str(arguments[0]).endswith(".tmp"):
            return os.open(*arguments, **options)
        raise error

    class Stopping:
        def __getattr__(self, name):
            if name == call:
                return stop
            if name == "fdopen" and call == "write":
                return lambda *arguments: Full(os.fdopen(*arguments))
            return getattr(os, name)

    class Full:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            return self

        def __exit__(self, *caught):
            self.stream.close()

        def write(self, data):
            self.stream.write(data[:10])
            raise error

    with monkeypatch.context() as patch:
        take_os(patch, Stopping())
        if isinstance(error, OSError):
            assert file.compact() is False
        else:
            with pytest.raises(KeyboardInterrupt):
                file.compact()
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2, "a temporary file was left"
    assert file.as_dict() == stored_in(path) == expected
    assert file.compact()
    assert stored_in(path) == file.as_dict() == expected
    assert path.stat().st_size < len(before) / 5


def test_failing_compaction_is_not_tried_again_at_once(file, path, monkeypatch):
    tries = []

    def fail(descriptor):
        tries.append(descriptor)
        raise OSError(errno.EIO, "broken")

    class Failing:
        def __getattr__(self, name):
            return fail if name == "fsync" else getattr(os, name)

    take_os(monkeypatch, Failing())
    number = 0
    while not path.exists() or path.stat().st_size < 5 * user_file.COMPACT_BYTES:
        number += 1
        assert store(file, b"key", number)
    assert 1 <= len(tries) <= 3
    assert number_in(stored_in(path)[b"key"]) == number


def test_somebody_who_does_not_lock_ends_a_compaction(file, path, monkeypatch):
    for number in range(10):
        store(file, b"key", number)

    def add(descriptor):
        with path.open("ab") as stream:
            stream.write(b"foreign=Solver:1\n")

    class Adding:
        def __getattr__(self, name):
            return add if name == "fsync" else getattr(os, name)

    with monkeypatch.context() as patch:
        take_os(patch, Adding())
        assert file.compact() is False
    assert stored_in(path) == file.as_dict()
    assert file.as_dict().keys() == {b"key", b"foreign"}


# Places that cannot be used


def check_unusable(file, caplog, before=()):
    """Check that nothing is stored but remembered, under one warning."""
    name = str(file.path)
    for number in range(3):
        assert store(file, b"key", number) is False
        assert number_in(file.get(b"key")) == number
    assert file.update(b"key", lambda old: record(b"key", number_in(old) + 5)) is False
    assert number_in(file.get(b"key")) == 7
    assert file.as_dict().keys() == {b"key", *before}
    assert file.get(b"nothing") is None
    file.remove(b"key")
    assert file.get(b"key") is None
    for key in before:
        assert file.remove(key) is False
        assert file.get(key) is None
    assert file.as_dict() == {}
    warnings = [entry for entry in caplog.records if name in entry.getMessage()]
    assert len(warnings) == 1
    assert (warnings[0].name, warnings[0].levelno) == ("miopyx", logging.WARNING)
    assert "\n" not in warnings[0].getMessage()


@pytest.fixture(autouse=True)
def _hear_warnings(caplog):
    # The handler of the tests, whatever was set up for the library's own lines.
    logger = logging.getLogger("miopyx")
    logger.addHandler(caplog.handler)
    propagate, logger.propagate = logger.propagate, False
    yield
    logger.propagate = propagate
    logger.removeHandler(caplog.handler)


@pytest.mark.parametrize("place", ["file/user.txt", "file/deep/user.txt", "/proc/miopyx/user.txt"])
def test_folder_that_cannot_be_made(tmp_path, caplog, place):
    (tmp_path / "file").write_bytes(b"")
    check_unusable(UserFile(tmp_path / place), caplog)


def test_home_that_is_none(caplog, monkeypatch):
    monkeypatch.setenv("HOME", os.devnull)
    check_unusable(UserFile(Path.home() / ".config" / "miopen" / "user.txt"), caplog)


@pytest.mark.parametrize("which", ["", ".lock"])
@pytest.mark.parametrize("what", ["folder", "pipe", "link", "dangling link", "device"])
def test_something_else_has_the_name(path, tmp_path, caplog, which, what):
    path.parent.mkdir()
    target = tmp_path / "target"
    target.write_bytes(record(b"of-another", 1))
    place = path.with_name(path.name + which)
    if what == "folder":
        place.mkdir()
    elif what == "pipe":
        os.mkfifo(place)
    elif what == "device":
        place.symlink_to(os.devnull)
    else:
        place.symlink_to(target if what == "link" else tmp_path / "nothing")
    check_unusable(UserFile(path), caplog)
    assert target.read_bytes() == record(b"of-another", 1)
    assert not (tmp_path / "nothing").exists()


def test_read_only_folder(path, caplog, monkeypatch):
    store(UserFile(path), b"there", 1)

    class ReadOnly:  # modes would not stop root
        def __getattr__(self, name):
            return getattr(os, name)

        def open(self, name, flags, mode=0o777):
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
            return os.open(name, flags, mode)

    take_os(monkeypatch, ReadOnly())
    check_unusable(UserFile(path), caplog, before=[b"there"])
    assert path.read_bytes() == record(b"there", 1)


@pytest.mark.skipif(os.getuid() == 0, reason="modes do not stop root")
def test_folder_without_permission(path, caplog):
    store(UserFile(path), b"there", 1)
    path.with_name(path.name + ".lock").unlink()
    path.parent.chmod(0o500)
    try:
        check_unusable(UserFile(path), caplog, before=[b"there"])
    finally:
        path.parent.chmod(0o700)


@pytest.mark.parametrize("room", [0, 1, 30, -1])
def test_full_disk(path, caplog, room):
    """The limit on a file's size lets a write stop after `room` bytes, or before its last one, as a full disk does."""
    file = UserFile(path)
    for number in range(20):
        store(file, b"there%d" % number, number)
    before, line = path.read_bytes(), record(b"key", 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + (room if room >= 0 else len(line) - 1), hard))
    try:
        stored = [store(file, b"key", 1) for _ in range(3)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert stored == [False] * 3
    assert path.read_bytes() == before
    assert number_in(file.get(b"key")) == 1
    assert len(caplog.records) == 1
    assert store(file, b"key", 2), "not used again once there is room"
    assert number_in(file.get(b"key")) == 2
    assert path.read_bytes() == before + record(b"key", 2)


def test_file_that_is_too_large(path, caplog, monkeypatch):
    monkeypatch.setattr(user_file, "MOST_BYTES", 1000)
    write(path, b"x=a:1\n" * 200)
    check_unusable(UserFile(path), caplog)
    assert path.read_bytes() == b"x=a:1\n" * 200


def test_lock_that_is_never_free(file, path, caplog, monkeypatch):
    store(file, b"there", 1)
    monkeypatch.setattr(user_file, "LOCK_SECONDS", 0.1)
    tries, plain = [], posix.lock

    def lock(descriptor, wait=True):
        tries.append(wait)
        plain(descriptor, wait=wait)

    with path.with_name(path.name + ".lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(posix, "lock", lock)
        assert store(file, b"key", 1) is False
        assert tries.count(False) > 3
        tries.clear()
        monkeypatch.setattr(user_file, "LOCK_SECONDS", 5)
        check_unusable(file, caplog, before=[b"there"])
        assert tries.count(False) == 6, "waited again"
    assert path.read_bytes() == record(b"there", 1)
    assert store(file, b"key", 8)
    assert number_in(stored_in(path)[b"key"]) == 8


def test_thread_that_never_ends(file, caplog, monkeypatch):
    """`update` inside of `change` on the same file is a mistake, but one that ends."""
    monkeypatch.setattr(user_file, "LOCK_SECONDS", 0.05)
    inner = []

    def change(old):
        inner.append(store(file, b"inner", 1))
        return record(b"outer", 1)

    assert file.update(b"outer", change)
    assert inner == [False]
    assert len(caplog.records) == 1


def test_no_descriptors_are_left(path):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    for number in range(20):
        file = UserFile(path)
        store(file, b"key", number)
        file.compact()
        file.as_dict()
        del file
    assert opened() == before
