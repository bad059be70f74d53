"""Lets the records of a find-db count as this build's where nothing that they timed has changed.

    python bench/restamp.py programs FILE OUT [--beside OTHER] [--device NAME] [--processes 8]
    python bench/restamp.py stamp FILE BEFORE AFTER
    python bench/restamp.py prune FILE [--device NAME] [--by 1.1] [--solver NAME]...

A record's stamp names the build that measured it: the version, and a digest of the kernels as they are installed,
without comments.  A new name in a kernel makes another build, though every program may be as it was.

`programs` writes, for each record of FILE, which solvers offer themselves and, for those that it timed, a digest of the
text of each of their programs without comments.  With `--beside`, what an earlier `programs` wrote, programs whose text
differs from the one there are built, and the digest of the binary is written, too; of PTX without its comments and with
its names numbered.  So: `programs` with the old build, then with the new one beside that, then once more with the old
one beside the new, all on the device.

`stamp` needs no device.  A record of the old build, all of whose solvers offer themselves as they did and build the
same programs, gets the new build's stamp; all others stay as they are.  It prints how many, and why not.

`prune` leaves out what was timed with another workspace than the solver takes now, which is another plan; then records
that know nothing of a solver, or of one that is named, which by the device's cost table is faster than the best that
they have, by that factor: immediate mode would take the slower one.  Without the record it goes by model or table.
"""

from __future__ import annotations

import argparse
import bz2
import json
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import miopyx
from miopyx.choose import _ranking
from miopyx.choose._survey import Survey
from miopyx.database import paths, records
from miopyx.database._system_file import RecordFile
from miopyx.problem._key import parse_find_key
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.values import config
from miopyx.values.digests import blake2b

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
DECLARED = re.compile(r"(?:\.entry|\.func|\.shared|\.global|\.const|\.param|\.local)[^;\n({]*?\s([A-Za-z_$][\w$]*)"
                      r"\s*(?=[\[(;,)\n=])")
NAME = re.compile(r"[A-Za-z_$][\w$]*")


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()


def text_digest(file: str) -> str:
    """The digest of a kernel file with what it includes, without comments and spaces."""
    text = COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", programs.source(file))
    return digest(" ".join(text.split()).encode())


def plain(binary: bytes) -> bytes:
    """A binary as it is, but PTX without comments, lines about sources, and names of its own."""
    if b".target sm_" not in binary[:4096]:
        return binary
    # What begins with //@ is an instruction of a newer architecture.
    text = re.sub(r"//(?!@)[^\n]*|\n\s*\.(?:file|loc|section)[^\n]*", "", binary.rstrip(b"\0").decode())
    numbers: dict[str, str] = {}
    for name in DECLARED.findall(text):
        numbers.setdefault(name, f"N{len(numbers)}")
    return NAME.sub(lambda found: numbers.get(found[0], found[0]), text).encode()


def start(name: str | None) -> None:
    """Begin a process that asks solvers and builds."""
    global handle
    handle = miopyx.Handle(name) if name else miopyx.Handle()


def build(job: tuple[str, str]) -> str:
    file, options = job
    try:
        return digest(plain(programs.build(handle.device, file, options).binary()))
    except miopyx.MIOpenError as e:
        return f"failed: {e}"[:300]


def measured(record: tuple[bytes, bytes]) -> dict[str, list[tuple[str, str]] | None]:
    """Of a record: the solvers that offer themselves, with file and options of each program if they were timed."""
    key, items = record
    problem = parse_find_key(key)
    timed = {item.solver for item in records.read_find(items).items}
    found: dict[str, list[tuple[str, str]] | None] = {}
    for solver in registry.CONV:
        offer = "a last resort" if solver.last_resort else solver.offer(handle.device, problem)
        if not isinstance(offer, str):
            found[solver.name] = ([(step.spec.file, step.spec.options) for step in offer.solution().steps if step.spec]
                                  if solver.name in timed else None)
    return found


def write_programs(arguments: argparse.Namespace) -> None:
    before = json.loads(arguments.beside.read_text()) if arguments.beside else {"records": {}, "texts": {}}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, spawn, initializer=start, initargs=(arguments.device,)) as pool:
        lines = list(RecordFile(arguments.file))
        rows = {key.decode(): row for (key, _), row in zip(lines, pool.map(measured, lines, chunksize=8), strict=True)}
        texts = {file: text_digest(file) for row in rows.values() for steps in row.values() for file, _ in steps or ()}
        jobs: set[tuple[str, str]] = set()
        for key, row in rows.items():
            for name, steps in row.items():
                there = before["records"].get(key, {}).get(name) or ()
                for job, other in zip(steps or (), there, strict=False):
                    if (texts[job[0]], job[1]) != (before["texts"][other[0]], other[1]):
                        jobs.add(job)
        ordered = sorted(jobs)
        binaries = dict(zip(ordered, pool.map(build, ordered, chunksize=2), strict=True))
    config.write_atomically(arguments.out, json.dumps({
        "build": paths.build(), "texts": texts, "records": rows,
        "binaries": [[*job, made] for job, made in binaries.items()]}).encode())
    failed = [f"{job}: {made}" for job, made in binaries.items() if made.startswith("failed")]
    print(*failed, f"{len(rows)} records, {len(texts)} kernel files, {len(ordered)} programs built, "
          f"{len(failed)} failed", sep="\n")


def difference(key: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Why a record is not the new build's, or nothing."""
    old, new = (side["records"].get(key) for side in (before, after))
    if old is None or new is None:
        return "not compared"
    if old.keys() != new.keys():
        return "other solvers: " + ", ".join(sorted(old.keys() ^ new.keys()))
    for name, steps in old.items():
        if (steps is None) != (new[name] is None) or len(steps or ()) != len(new[name] or ()):
            return f"other steps: {name}"
        for one, other in zip(steps or (), new[name] or (), strict=True):
            if (before["texts"][one[0]], one[1]) == (after["texts"][other[0]], other[1]):
                continue
            made = [side["binaries"].get((job[0], job[1])) for side, job in ((before, one), (after, other))]
            if made[0] is None or made[0] != made[1] or made[0].startswith("failed"):
                return f"another program: {name}"
    return ""


def rewrite(path: Path, changed: Callable[[bytes, bytes, bytes], tuple[bytes, str]]) -> None:
    """Write what `changed` makes of each line, its key and its items, nothing: leave it out; print how many and why."""
    whole, packed, mode = path.read_bytes(), path.suffix == ".bz2", path.stat().st_mode
    lines, counts = [], Counter()
    for line in (bz2.decompress(whole) if packed else whole).splitlines():
        kept, why = changed(line, *records.split(line))
        counts[why] += 1
        lines += [kept + b"\n"] if kept else []
    content = b"".join(lines)
    config.write_atomically(path, bz2.compress(content, 9) if packed else content)
    path.chmod(mode)
    for why, count in counts.most_common():
        print(f"{count:6d}  {why}")


def stamp(arguments: argparse.Namespace) -> None:
    before, after = (json.loads(path.read_text()) for path in (arguments.before, arguments.after))
    for side in (before, after):
        side["binaries"] = {(file, options): made for file, options, made in side["binaries"]}

    def stamped(line: bytes, key: bytes, items: bytes) -> tuple[bytes, str]:
        record = records.read_find(items)
        build_of, _, device = record.stamp.partition("/")
        why = difference(key.decode(), before, after) if build_of == before["build"] else "measured by another build"
        if why:
            return line, why
        return records.write_find(key, record.items, f"{after['build']}/{device}", record.partial,
                                  record.failed).rstrip(b"\n"), "stamped"

    rewrite(arguments.file, stamped)


def unknown_and_faster(ranked: list, items: bytes, by: float, names: list[str] | None = None) -> str:
    """Return the solver that a record lacks and that should be faster by that factor than what it has, or nothing.

    `ranked`: what can run the problem, with predicted times.  A record of failures alone stays.
    """
    record = records.read_find(items)
    known = {item.solver for item in record.items} | {str(name) for name in record.failed}
    best = min((item.time for item in record.items), default=0)
    for candidate in ranked:
        name = candidate.solver.name
        if (name not in known and not candidate.solver.last_resort and (not names or name in names)
                and candidate.time * by < best):
            return name
    return ""


def prune(arguments: argparse.Namespace) -> None:
    start(arguments.device)
    if arguments.file.name.partition(".")[0] != handle.device.info.name:
        raise SystemExit(f"{arguments.file} is not of {handle.device.info.name}")

    def pruned(line: bytes, key: bytes, items: bytes) -> tuple[bytes, str]:
        problem, record = parse_find_key(key), records.read_find(items)
        why, left = "kept", []
        for item in record.items:
            if registry.BY_NAME[item.solver].workspace_size(handle.device, problem) == item.workspace:
                left.append(item)
            else:
                why = f"kept without {item.solver}, which takes another workspace"
        if len(left) < len(record.items):
            if not left:
                return b"", why.replace("kept without", "left out: only")
            line = records.write_find(key, left, record.stamp, record.partial, record.failed).rstrip(b"\n")
            items = records.split(line)[1]
        faster = unknown_and_faster(_ranking.by_costs(Survey(handle, problem)), items, arguments.by, arguments.solver)
        return (b"", f"left out: {faster}") if faster else (line, why)

    rewrite(arguments.file, pruned)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("programs", help="write what the records' programs are")
    one.add_argument("file", type=Path, metavar="FILE")
    one.add_argument("out", type=Path, metavar="OUT")
    one.add_argument("--beside", type=Path, metavar="OTHER")
    one.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    one.add_argument("--processes", type=int, default=8)
    one.set_defaults(run=write_programs)
    one = commands.add_parser("stamp", help="stamp the records whose programs are the same")
    for name in ("file", "before", "after"):
        one.add_argument(name, type=Path, metavar=name.upper())
    one.set_defaults(run=stamp)
    one = commands.add_parser("prune", help="leave out records that lack a solver which should be faster")
    one.add_argument("file", type=Path, metavar="FILE")
    one.add_argument("--device", help="as `miopyx doctor` names it (default: the best one)")
    one.add_argument("--by", type=float, default=1.1, help="how many times as fast (default: 1.1)")
    one.add_argument("--solver", action="append", help="of this solver alone; may be repeated")
    one.set_defaults(run=prune)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
