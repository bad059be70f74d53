"""The user's file under many processes at once and under processes that are killed.

Run with the installed package, for example:

    python -P tests/endurance_user_file.py together --processes 32 --records 1000
    python -P tests/endurance_user_file.py killed --kills 500

Each prints one JSON object with what it counted and exits with 1 if a record is missing or altered.  The tests run both
with smaller numbers, and use the other two modes as processes that they can talk to.
"""

import argparse
import contextlib
import json
import os
import random
import select
import signal
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from miopyx.database import records, user_file
from miopyx.database.user_file import UserFile
from miopyx.values import posix


def record(key, number):
    """Return a record whose values tell whether they belong together."""
    return records.write_perf(key, {"Solver": f"{number},{number * 7919 % 1000003}"}, "test/1.0")


def number_in(items):
    """Return the number of such a record, after a check of its values."""
    (values, stamp, skipped) = records.read_perf(items)
    number, product = map(int, values["Solver"].split(","))
    assert (product, stamp, skipped.total()) == (number * 7919 % 1000003, "test/1.0", 0), items
    return number


def together(folder, processes, each):
    """Let processes add their own records at the same moment, and read all of them back."""
    path = folder / "together.txt"
    start_read, start_write = os.pipe()

    def work(process, tell):
        os.close(start_write)
        os.read(start_read, 1)  # ends when the parent closes its side
        file, times, failed = UserFile(path), [], 0
        for i in range(each):
            key = b"%d-%d" % (process, i)
            begin = time.perf_counter()
            failed += not file.update(key, lambda old, key=key, i=i: record(key, i))
            times.append(time.perf_counter() - begin)
        result = {"failed": failed, "median": statistics.median(times), "longest": max(times)}
        os.write(tell, json.dumps(result).encode())

    children = [_in_child(lambda tell, process=process: work(process, tell)) for process in range(processes)]
    os.close(start_read)
    begin = time.perf_counter()
    os.close(start_write)
    results = []
    for pid, told in children:
        with open(told, "rb") as stream:
            results.append(json.loads(stream.read()))
        os.waitpid(pid, 0)
    seconds = time.perf_counter() - begin
    file = UserFile(path)
    begin = time.perf_counter()
    found = file.as_dict()
    reading = time.perf_counter() - begin
    missing = sum(b"%d-%d" % (process, i) not in found for process in range(processes) for i in range(each))
    altered = sum(number_in(items) != int(key.split(b"-")[1]) for key, items in found.items())
    return {
        "processes": processes, "records": len(found), "seconds": round(seconds, 3),
        "read_ms": round(reading * 1e3, 1), "failed": sum(result["failed"] for result in results),
        "missing": missing, "altered": altered, "skipped": file.skipped.total(),
        "median_us": round(statistics.median(result["median"] for result in results) * 1e6, 1),
        "longest_ms": round(max(result["longest"] for result in results) * 1e3, 1),
    }


def killed(folder, kills):
    """Kill a process that writes and compacts, again and again, while another goes on writing."""
    path = folder / "killed.txt"
    keys = [b"victim-%d" % i for i in range(40)]
    versions = dict.fromkeys(keys, -1)  # the last one known to be stored
    counts = dict.fromkeys(("kills", "stored", "missing", "altered", "skipped", "torn", "temporaries"), 0)
    stop_read, stop_write = os.pipe()
    bystander, told = _in_child(lambda tell: _bystander(path, stop_read, stop_write, tell))
    os.close(stop_read)
    number = 0
    while counts["kills"] < kills:
        limit = random.choice((2048, 65536))
        pid, acknowledged = _in_child(lambda tell, limit=limit, number=number: _victim(path, keys, number, limit, tell))
        select.select([acknowledged], [], [], 30)
        time.sleep(random.uniform(0, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        with open(acknowledged, "rb") as stream:
            lines = stream.read().splitlines(keepends=True)
        for line in lines:
            if line.endswith(b"\n"):
                key, text = line.split()
                versions[key] = int(text)
                counts["stored"] += 1
        number += 1_000_000
        counts["kills"] += 1
        counts["torn"] += not path.read_bytes().endswith(b"\n")
        counts["temporaries"] += sum(name.endswith(".tmp") for name in os.listdir(folder))
        file = UserFile(path)
        found = file.as_dict()
        counts["skipped"] += file.skipped.total()
        for key, version in versions.items():
            if version < 0:
                continue
            if key not in found or number_in(found[key]) < version:
                counts["missing"] += 1
            elif number_in(found[key]) >= number:
                counts["altered"] += 1
    os.close(stop_write)
    with open(told, "rb") as stream:
        last, failed = json.loads(stream.read())
    os.waitpid(bystander, 0)
    found = UserFile(path).as_dict()
    for name, version in last.items():
        items = found.get(name.encode())
        counts["missing"] += items is None or number_in(items) != version
    return counts | {"by_another": sum(last.values()), "failed": failed}


def _in_child(run):
    """Run a function in a child, with a descriptor to write to; return the child and the side to read from."""
    tell_read, tell_write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(tell_read)
        try:
            run(tell_write)
        finally:
            os._exit(0)
    os.close(tell_write)
    return pid, tell_read


def _victim(path, keys, number, limit, tell):
    user_file.COMPACT_BYTES = limit
    file = UserFile(path)
    while True:
        key, number = random.choice(keys), number + 1
        if file.update(key, lambda old, key=key, number=number: record(key, number)):
            os.write(tell, b"%b %d\n" % (key, number))


def _bystander(path, stop_read, stop_write, tell):
    os.close(stop_write)
    file, last, failed = UserFile(path), {}, 0
    while not select.select([stop_read], [], [], 0.001)[0]:
        name = f"bystander-{random.randrange(20)}"
        key, number = name.encode(), last.get(name, 0) + 1
        last[name] = number
        failed += not file.update(key, lambda old, key=key, number=number: record(key, number))
    os.write(tell, json.dumps([last, failed]).encode())


def serve():
    """Store what comes in, lines of "path key number"; say "waiting" where another has the lock, then the result."""
    lock = posix.lock

    def telling(descriptor, wait=True):
        try:
            lock(descriptor, wait=wait)
        except BlockingIOError:
            nonlocal waited
            if not waited:
                print("waiting", flush=True)
            waited = True
            raise

    posix.lock = telling
    files = {}
    for line in sys.stdin:
        path, key, number = line.split()
        waited = False
        file = files.setdefault(path, UserFile(Path(path)))
        stored = file.update(key.encode(), lambda old, key=key, number=number: record(key.encode(), int(number)))
        print(stored, flush=True)


def fork_in_use(path):
    """Fork while one thread is in `update` and another in `get`.

    The child says what it can do, then stores the keys that it is told.

    Both stay until they are killed, the child also until stdin ends.
    """
    file, read, inside, stuck, never = UserFile(path), user_file._read_from, *(threading.Event() for _ in range(3))

    def change(old):
        inside.set()
        never.wait()

    def read_or_stay(*arguments):
        if threading.current_thread().name == "stuck":
            stuck.set()
            never.wait()
        return read(*arguments)

    user_file._read_from = read_or_stay
    file.update(b"before", lambda old: record(b"before", 1))
    stuck_file = UserFile(path)
    threading.Thread(target=stuck_file.get, args=(b"before",), name="stuck").start()
    threading.Thread(target=file.update, args=(b"of-the-thread", change)).start()
    stuck.wait()
    inside.wait()
    if not os.fork():
        user_file.LOCK_SECONDS = 0.05
        seen = {
            "hit": file.get(b"before") is not None,
            "miss": file.get(b"nothing") is None,
            "read": stuck_file.get(b"before") is not None,
            "stored": file.update(b"of-the-child", lambda old: record(b"of-the-child", 1)),
            "remembered": file.get(b"of-the-child") is not None,
        }
        print(json.dumps([os.getpid(), seen]), flush=True)
        for key in sys.stdin:
            print(file.update(key.strip().encode(), lambda old, key=key: record(key.strip().encode(), 1)), flush=True)
        os._exit(0)
    never.wait()


def fork_inside():
    """Fork inside of `change`: the child must neither write nor free the lock.  Print what each could do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        file, results = UserFile(path), {}

        def change(old):
            nonlocal child
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                user_file.LOCK_SECONDS = 0
                lock = os.open(f"{path}.lock", os.O_RDWR)
                try:
                    posix.lock(lock, wait=False)
                except BlockingIOError:
                    results["still locked"] = True
                os.close(lock)
                results["length"] = path.stat().st_size
            return record(b"key", 1)

        child = 0
        stored = file.update(b"key", change)
        if not child:
            os._exit(0)
        print(json.dumps(results | {"stored": stored}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("together", "killed", "serve", "fork-in-use", "fork-inside"))
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--records", type=int, default=1000, help="of each process")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="default: a temporary one")
    options = parser.parse_args()
    if options.mode == "serve":
        return serve()
    if options.mode == "fork-in-use":
        return fork_in_use(options.folder / "file.txt")
    if options.mode == "fork-inside":
        return fork_inside()
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if options.mode == "together":
            result = together(folder, options.processes, options.records)
            good = result["records"] == options.processes * options.records
        else:
            result = killed(folder, options.kills)
            good = result["stored"] > 0
    print(json.dumps(result))
    return 0 if good and not any(result[name] for name in ("missing", "altered", "skipped", "failed")) else 1


if __name__ == "__main__":
    sys.exit(main())
