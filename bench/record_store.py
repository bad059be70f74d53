"""The mapped record file beside sqlite3, lmdb and a dict of lines, on one find-db file.

    python bench/record_store.py FILE [--runs 3] [--json OUT]

FILE is a text of records, ``.txt`` or ``.txt.bz2`` (decompressed first).  Every figure comes from a process of its own
that has done nothing else, the stores take turns, and medians over the runs are printed; the file is in the page cache.
The databases of the peers are made beforehand, outside the times.  lmdb is left out where it is not installed.

open      from nothing open to the first record, ms; "first": there is no index yet, "later": there is one
hits      look-up of a key that is there, ns: all of the file's in random order, then the same 1,000 again and again
misses    look-up of a key that is not there, ns
problem   the same 1,000 from a ConvProblem, ns: building the key included
memory    growth of the process's resident memory once all was looked up, MiB, and what of it is not a mapped file's
"""

from __future__ import annotations

import argparse
import bz2
import importlib.util
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from miopyx.database._system_file import RecordFile
from miopyx.problem._key import find_key, parse_find_key

STORES = ("miopyx", "dict", "sqlite3", "lmdb")
FEW = 1000  # the layers of a few networks
SLICE = 1000  # look-ups that are timed at once


def open_miopyx(folder: Path) -> RecordFile:
    return RecordFile(folder / "records.txt", folder / "cache")


def open_dict(folder: Path) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for line in (folder / "records.txt").read_bytes().split(b"\n"):
        key, equals, items = line.partition(b"=")
        if equals:
            found.setdefault(key, items)
    return found


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self.connection = sqlite3.connect(f"file:{folder / 'records.sqlite'}?mode=ro", uri=True)

    def get(self, key: bytes) -> bytes | None:
        row = self.connection.execute("select items from records where key = ?", (key,)).fetchone()
        return row[0] if row else None


def open_lmdb(folder: Path):
    import lmdb

    return lmdb.open(str(folder / "records.lmdb"), readonly=True, lock=False, subdir=False).begin()


OPEN = {"miopyx": open_miopyx, "dict": open_dict, "sqlite3": Sqlite, "lmdb": open_lmdb}


def prepare(text: bytes, folder: Path, stores: list[str]) -> list[bytes]:
    """Write the records in every store's own form; return their keys."""
    (folder / "records.txt").write_bytes(text)
    records = open_dict(folder)
    (folder / "keys").write_bytes(b"\n".join(records))
    if "sqlite3" in stores:
        with sqlite3.connect(folder / "records.sqlite") as connection:
            connection.execute("create table records (key blob primary key, items blob)")
            connection.executemany("insert into records values (?, ?)", records.items())
        connection.close()
    if "lmdb" in stores:
        import lmdb

        with (lmdb.open(str(folder / "records.lmdb"), subdir=False, map_size=1 << 34) as environment,
              environment.begin(write=True) as transaction):
            for item in sorted(records.items()):
                transaction.put(*item)
    return list(records)


def per_call(call: Callable, arguments: list) -> float:
    """Return ns a call without the loop's own: the median of slices, as other processes take the processor at times."""
    times = []
    for first in range(0, len(arguments) - SLICE + 1, SLICE):
        some = arguments[first:first + SLICE]
        start = time.perf_counter_ns()
        for _ in some:
            pass
        between = time.perf_counter_ns()
        for argument in some:
            call(argument)
        times.append(((time.perf_counter_ns() - between) - (between - start)) / SLICE)
    return statistics.median(times)


def resident() -> tuple[int, int]:
    """Return resident bytes, and those of them that no file backs."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(1024 * int(fields[name].split()[0]) for name in ("VmRSS", "RssAnon"))


def fresh(keys: list[bytes]) -> list[bytes]:
    """Return equal keys that no dictionary has hashed yet."""
    return [bytes(bytearray(key)) for key in keys]


def problems(keys: list[bytes]) -> Iterator:
    """Yield problems of the keys that are sound; old files hold a few that are not."""
    for key in keys:
        try:
            yield parse_find_key(key)
        except ValueError:
            continue


def measure(store: str, folder: Path, what: str, seed: int) -> dict[str, float]:
    """Do one process's measurements."""
    keys = (folder / "keys").read_bytes().split(b"\n")
    rng = random.Random(seed)
    rng.shuffle(keys)
    few = keys[:FEW] * (len(keys) // FEW + 1)
    if what == "open":
        start = time.perf_counter_ns()
        opened = OPEN[store](folder)
        assert opened.get(keys[0])
        return {"open": (time.perf_counter_ns() - start) * 1e-6}
    if what == "memory":
        before = resident()
        opened = OPEN[store](folder)
        for key in keys:
            assert opened.get(key)
        return {name: after - b for name, after, b in zip(("memory", "own memory"), resident(), before, strict=True)}
    opened = OPEN[store](folder)
    found = {"first hits": per_call(opened.get, fresh(keys))}  # touches every page for the first time
    found["hits"] = per_call(opened.get, fresh(keys))
    found["hits of few"] = per_call(opened.get, fresh(few))
    found["misses"] = per_call(opened.get, [key + b"_none" for key in keys])
    some = list(problems(keys[:FEW]))
    many = some * (len(keys) // len(some))
    call = opened.lookup if store == "miopyx" else lambda problem: opened.get(find_key(problem))
    assert all(map(call, some))
    found["problem"] = per_call(call, many)
    return found


def child(folder: Path, *arguments: str) -> dict[str, float]:
    command = [sys.executable, "-P", __file__, "--measure", *arguments, str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run(folder: Path, stores: list[str], seed: int) -> dict[str, dict[str, float]]:
    """Measure every store once."""
    found: dict[str, dict[str, float]] = {}
    for store in stores:
        for file in (folder / "cache").glob("*"):
            file.unlink()
        figures = found[store] = {"open first": child(folder, store, "open", str(seed))["open"]}
        figures["open later"] = child(folder, store, "open", str(seed))["open"]
    for what in ("look-ups", "memory"):
        for store in stores:
            found[store] |= child(folder, store, what, str(seed))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        store, what, seed = options.measure
        print(json.dumps(measure(store, options.file, what, int(seed))))
        return
    stores = [name for name in STORES if name != "lmdb" or importlib.util.find_spec("lmdb")]
    text = options.file.read_bytes()
    if options.file.suffix == ".bz2":
        text = bz2.decompress(text)
    with tempfile.TemporaryDirectory(prefix="miopyx-bench-") as name:
        folder = Path(name)
        (folder / "cache").mkdir()
        keys = prepare(text, folder, stores)
        runs = [run(folder, stores, random.getrandbits(32)) for _ in range(options.runs)]
        beyond = statistics.median(r["miopyx"]["memory"] for r in runs) - len(text)
        index = RecordFile(folder / "records.txt").index_bytes
    medians = {store: {what: statistics.median(r[store][what] for r in runs) for what in runs[0][store]}
               for store in stores}
    print(f"{len(keys)} records, {len(text) / 1e6:.1f} MB; medians of {options.runs} runs\n")
    print(f"{'':9}{'open, ms':>16}{'hits, ns':>16}{'misses':>8}{'problem':>9}{'memory, MiB':>16}")
    print(f"{'':9}{'first':>8}{'later':>8}{'all':>8}{'few':>8}{'ns':>8}{'ns':>9}{'all':>8}{'own':>8}")
    for store, m in medians.items():
        print(f"{store:9}{m['open first']:8.1f}{m['open later']:8.1f}{m['hits']:8.0f}{m['hits of few']:8.0f}"
              f"{m['misses']:8.0f}{m['problem']:9.0f}{m['memory'] / 2**20:8.1f}{m['own memory'] / 2**20:8.1f}")
    print(f"\nmiopyx: the index takes {index / len(keys):.1f} bytes a record; resident memory grew by the file and "
          f"{beyond / len(keys):.1f} bytes a record")
    if options.json:
        options.json.write_text(json.dumps({"records": len(keys), "bytes": len(text), "cores": os.cpu_count(),
                                            "runs": runs, "medians": medians}, indent=1))


if __name__ == "__main__":
    main()
