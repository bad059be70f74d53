"""`miopyx db`: look into database files, check them, and turn them into others."""

from __future__ import annotations

import argparse
import bz2
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from miopyx._core import Device
from miopyx.database import paths, records, store
from miopyx.database.records import Kind
from miopyx.database.user_file import UserFile
from miopyx.device import devices
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key
from miopyx.solvers import registry
from miopyx.values import config

from .db_diff import diff
from .db_files import is_ledger, is_perf, names_problem, opened, raw_lines, require_records, winners
from .db_report import report as write_page

_IMPORTED = "imported"


def add_commands(commands: Any) -> None:
    """Add `db` and what it can do to an argparse parser's commands."""
    parser = commands.add_parser("db", help="look into, check, merge and convert find-db and perf-db files",
                                 description="Files may be MIOpen's or our own, plain or .bz2, or ledgers of miopyx "
                                 "tune with results of one device.")
    actions = parser.add_subparsers(dest="action", required=True)

    def add(name: str, run: Any, about: str, *arguments: tuple[str, dict[str, Any]]) -> None:
        action = actions.add_parser(name, help=about, description=about)
        for argument, options in arguments:
            action.add_argument(argument, **options)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)

    some = ("file", {"nargs": "+", "type": Path, "metavar": "FILE"})
    one = ("file", {"type": Path, "metavar": "FILE"})
    out = ("out", {"type": Path, "metavar": "OUT"})
    add("info", info, "Count records, items, solvers, types and versions.", some)
    add("verify", verify, "Read every record, regenerate every key, compare workspaces; list what is wrong by reason.  "
        "Exits with 1 for damaged lines, a file that is cut short or has no records, and where most keys are none; not "
        "for workspaces that differ, as those of other versions and other makers' records do.", one,
        ("--examples", {"type": int, "default": 3, "metavar": "N", "help": "show N lines a reason (default: 3)"}))
    add("lookup", lookup, "Print the record of a key.", one, ("key", {"metavar": "KEY"}))
    add("merge", merge, "Write one file with one line a key.  Our own lines come before others', whole records before "
        "partial ones; else of our own the last counts, of others the first.  Parameters of several solvers are "
        "joined, but for those that another build, driver or device has.", out, some)
    add("export", export, "Write a file as MIOpen reads it: one line a key, without our marks.  Of a ledger of miopyx "
        "tune, with them, what the name says: .fdb.txt a find-db, .db.txt a perf-db, .jsonl measurements.", one, out,
        ("--device", {"default": "", "metavar": "NAME", "help": "of a ledger: whose results; default: the only one's"}))
    add("import", import_, "Add a file's records to the user's databases of a device.  Those of another build, driver "
        "or device, and MIOpen's, are marked as imported: tune and Find's NORMAL mode time them anew.", one,
        ("--device", {"default": "", "metavar": "NAME", "help": "as `miopyx doctor` names it; default: the best"}),
        ("--replace", {"action": "store_true", "help": "also where the user's database has a record already"}))
    add("diff", diff, "Say which records two files have differently: other solvers, other times, other parameters.",
        ("a", {"type": Path, "metavar": "A"}), ("b", {"type": Path, "metavar": "B"}),
        ("--examples", {"type": int, "default": 10, "metavar": "N", "help": "show the N largest (default: 10)"}))
    add("report", write_page, "Write an HTML page, all in one file, about a find-db or a ledger of miopyx tune: by "
        "network, direction, solver, layer and share of the limit.", one, out,
        ("--list", {"nargs": "+", "default": [], "metavar": "LIST", "help": "name problems by these lists or models"}),
        ("--device", {"default": "", "metavar": "NAME", "help": "of a ledger: whose results; default: the only one's"}),
        ("--tflops", {"type": float, "metavar": "N", "help": "the device's limit (default: the best in the file)"}),
        ("--gbs", {"type": float, "metavar": "N", "help": "its memory's GB/s (default: the best in the file)"}))
    add("compact", compact, "Rewrite one of our files with one line a key, in place and safely.", one)


def run(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx db` command; return the exit code."""
    try:
        result: dict[str, Any] = arguments.run(arguments)
    except OSError as e:
        print(f"miopyx db: {e.filename or ''}: {e.strerror or e}", file=sys.stderr)
        return 2
    except MIOpenError as e:
        print(f"miopyx db: {e}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=2) if arguments.json else "\n".join(_lines(result)))
    return 0 if result.get("ok", True) else 1


def _lines(value: Any, indent: str = "") -> Iterator[str]:
    """Yield nested dictionaries and lists as indented text, names and numbers in columns."""
    if isinstance(value, dict):
        width = max((len(str(key)) for key, inner in value.items() if not isinstance(inner, dict | list)), default=0)
        for key, inner in value.items():
            if isinstance(inner, dict | list):
                yield f"{indent}{key}" if inner else f"{indent}{key}: none"
                yield from _lines(inner, indent + "  ")
            else:
                yield f"{indent}{key!s:<{width}}  {inner}"
    else:
        for inner in value:
            if isinstance(inner, dict | list):
                yield from _lines(inner, indent)
            else:
                yield f"{indent}{inner}"


# Actions.  Each returns what is printed.


def info(arguments: argparse.Namespace) -> dict[str, Any]:
    return {str(path): _info(path) for path in arguments.file}


def _info(path: Path) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    solvers: Counter[str] = Counter()
    stamps: Counter[str] = Counter()
    tokens: dict[str, Counter[str]] = {name: Counter() for name in ("layout", "type", "direction")}
    partial = items = named = 0
    flaws: Counter[str] = Counter()
    for line in raw_lines(path, flaws):
        kind = records.classify(line)
        kinds[kind.value] += 1
        named += kind is not Kind.MALFORMED and names_problem(records.split(line)[0])
        if kind in (Kind.DAMAGED, Kind.MALFORMED):
            continue
        key, text = records.split(line)
        if not records.says_something(text):
            forms["nothing, or taken back"] += 1
            continue
        if is_perf(key):
            forms["perf-db"] += 1
            values, stamp, _ = records.read_perf(text)
            names: list[str] = list(values)
        else:
            record = records.read_find(text)
            forms[_form(text)] += 1
            names, stamp = [item.solver for item in record.items], record.stamp
            partial += record.partial
            _count_tokens(key, tokens)
        items += len(names)
        solvers.update(names)
        if stamp:
            stamps[stamp] += 1
    require_records(path, sum(kinds.values()), named)
    return {"bytes": path.stat().st_size, "file": "cut short" if flaws else "whole", "records": sum(forms.values()),
            "items": items, "lines": dict(kinds), "forms": dict(forms), "partial": partial,
            "stamps": dict(stamps.most_common()),
            **{name: dict(counts.most_common()) for name, counts in tokens.items() if counts},
            "solvers": dict(solvers.most_common())}


def _form(items: bytes) -> str:
    """Return whose form a find-db record has: "legacy" where algorithms are the ids, "new" where solvers are."""
    ids = [item.partition(b":")[0] for item in items.split(b";") if b":" in item]
    legacy = sum(name in records.ALGORITHMS for name in ids)
    return "find-db, empty" if not ids else "find-db, new form" if legacy == 0 else (
        "find-db, legacy form" if legacy == len(ids) else "find-db, both forms")


def _count_tokens(key: bytes, tokens: dict[str, Counter[str]]) -> None:
    parts = key.decode(errors="replace").split("-")
    words = [i for i, part in enumerate(parts) if part[:1].isalpha()]
    if len(words) >= 3:
        tokens["layout"]["-".join(parts[words[0]:words[-2]])] += 1
        tokens["type"][parts[words[-2]]] += 1
        tokens["direction"][parts[words[-1]][:1]] += 1


def verify(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read all records and keys; "ok" is False where a line is damaged or none, or the file is cut short or empty."""
    kinds: Counter[str] = Counter()
    forms: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    workspaces: dict[str, Counter[str]] = {}
    examples: dict[str, list[str]] = {}
    seen: set[bytes] = set()
    items = 0
    host = Device(devices.find("host"))
    here = {records.clean(info.name): Device(info) for info in devices.discover()}

    def example(reason: str, text: bytes) -> None:
        if len(examples.setdefault(reason, [])) < arguments.examples:
            examples[reason].append(ascii(text.decode(errors="backslashreplace"))[1:-1][:160])

    flaws: Counter[str] = Counter()
    for line in raw_lines(arguments.file, flaws):
        kind = records.classify(line)
        kinds[kind.value] += 1
        if kind in (Kind.DAMAGED, Kind.MALFORMED):
            example(kind.value, line)
            continue
        key, text = records.split(line)
        if key in seen:
            kinds["of these, of a key that stands above"] += 1
        seen.add(key)
        problem = _problem_of(key, keys, example)
        if is_perf(key):
            forms["perf-db"] += 1
            values, _, left = records.read_perf(text)
            items += len(values)
        else:
            forms[_form(text)] += 1
            record = records.read_find(text)
            left = record.skipped
            items += len(record.items)
            device = record.stamp.rpartition("/")[2]
            for item in record.items:
                solver = registry.BY_NAME.get(item.solver)
                if solver is None:
                    unknown[item.solver] += 1
                elif problem is not None:
                    need = solver.workspace_size(here.get(device, host), problem)
                    counts = workspaces.setdefault(item.solver, Counter())
                    if need == item.workspace:
                        counts["equal"] += 1
                    elif device and device not in here:  # some formulas ask the device
                        counts["of another device"] += 1
                    else:
                        counts["different"] += 1
                        example(f"workspace of {item.solver}", b"%b: %d in the file, %d by our formula" % (
                            key, item.workspace, need))
        skipped.update(left)
        for reason in left:
            example(reason, line)
    lines = sum(count for kind, count in kinds.items() if not kind.startswith("of these"))
    known = sum(count for text, count in keys.items() if not text.startswith("refused"))
    whole = not flaws and not kinds["damaged"] and bool(forms) and 2 * known >= lines
    return {"ok": whole, "file": "cut short" if flaws else "whole", "records": sum(forms.values()), "items": items,
            "lines": dict(kinds), "forms": dict(forms), "keys": dict(keys.most_common()),
            "skipped items": dict(skipped.most_common()),
            "workspaces": {name: dict(counts) for name, counts in sorted(workspaces.items())},
            "items of solvers that are not ours": dict(unknown.most_common()), "examples": examples}


def _problem_of(key: bytes, keys: Counter[str], example: Any) -> Any:
    """Return the problem that a key names, None where it does not parse; count it."""
    try:
        problem = _key.parse_perf_key(key) if is_perf(key) else _key.parse_find_key(key)
    except BadParmError as e:
        keys[f"refused: {e.message}"] += 1
        example(f"refused: {e.message}", key)
        return None
    again = _key.perf_key(problem) if is_perf(key) else _key.find_key(problem)
    if again != key:
        keys["regenerated differently"] += 1
        example("regenerated differently", key)
        return None
    keys["regenerated byte for byte"] += 1
    return problem


def lookup(arguments: argparse.Namespace) -> dict[str, Any]:
    key = arguments.key.encode(errors="surrogateescape")
    line = winners([arguments.file])[0].get(key)
    if line is None:
        return {"ok": False, "key": arguments.key, "found": False, "why": "the file has no record of it"
                if names_problem(key) else "no key of a convolution, as 4-7-7-3x3-5-7-7-1-1x1-1x1-1x1-0-NCHW-FP32-F is"}
    text = records.split(line)[1]
    if is_perf(key):
        values, stamp, left = records.read_perf(text)
        return {"key": arguments.key, "found": True, "whose": records.classify(line).value, "stamp": stamp,
                "parameters": values, "skipped items": dict(left)}
    record = records.read_find(text)
    return {"key": arguments.key, "found": True, "whose": records.classify(line).value, "stamp": record.stamp,
            "partial": record.partial, "failed": record.failed,
            "solvers": {item.solver: f"{item.time:g} ms, {item.workspace} bytes, "
                        + records.ALGORITHM_NAME[item.direction, item.algorithm].decode()
                        for item in sorted(record.items, key=lambda item: item.time)},
            "skipped items": dict(record.skipped)}


def merge(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen, left = winners(arguments.file)
    _write(arguments.out, [line + b"\n" for line in chosen.values()], arguments.file, left)
    return {"written": str(arguments.out), "records": len(chosen), "left out": dict(left)}


def export(arguments: argparse.Namespace) -> dict[str, Any]:
    if is_ledger(arguments.file):
        return _export_ledger(arguments)
    chosen, left = winners([arguments.file])
    _write(arguments.out, [records.plain(line) for line in chosen.values()], [arguments.file], left)
    return {"written": str(arguments.out), "records": len(chosen), "left out": dict(left)}


def _export_ledger(arguments: argparse.Namespace) -> dict[str, Any]:
    endings = {".fdb.txt": "find-db", ".db.txt": "perf-db", ".jsonl": "measurements"}
    name = str(arguments.out).removesuffix(".bz2")
    kind = next((what for ending, what in endings.items() if name.endswith(ending)), None)
    if kind is None:
        raise BadParmError("what shall be written?", "OUT", str(arguments.out),
                           f"a name that ends with {', '.join(endings)}")
    with opened(arguments.file, arguments.device) as (book, device):
        lines = (book.find_lines(device) if kind == "find-db" else book.perf_lines(device) if kind == "perf-db"
                 else [f"{line}\n".encode() for line in book.measurements(device)])
    if not lines and kind == "perf-db":
        raise BadParmError("no parameters that a search found", "FILE", str(arguments.file),
                           "a ledger of miopyx tune --exhaustive")
    _write(arguments.out, lines, [arguments.file], Counter())
    return {"written": str(arguments.out), "what": kind, "device": device.name, "stamp": device.stamp,
            "records": len(lines)}


def _write(path: Path, lines: list[bytes], sources: list[Path], left: Counter[str]) -> None:
    if not lines:
        raise BadParmError("no records" + "".join(f", {count} {reason}" for reason, count in left.items()), "FILE",
                           ", ".join(map(str, sources)), "files with records")
    content = b"".join(lines)
    if path.suffix == ".bz2":
        content = bz2.compress(content)
    if not config.write_atomically(path, content, shared=True):
        raise OSError(0, "cannot be written", str(path))


def import_(arguments: argparse.Namespace) -> dict[str, Any]:
    info = devices.find(arguments.device) if arguments.device else devices.best()
    database = store.of(info)
    chosen, left = winners([arguments.file])
    added = 0
    for key, line in chosen.items():
        target = database.user_perf if is_perf(key) else database.user_find
        text = records.split(line)[1]
        if not names_problem(key):
            left["keys of no convolution"] += 1
        elif not (records.read_perf(text)[0] if is_perf(key) else records.read_find(text).items):
            left["records without a usable item"] += 1
        elif not arguments.replace and target.get(key):
            left["records of keys that the user's database has"] += 1
        elif target.update(key, _replacing(_as_ours(key, line, database.stamp))):
            added += 1
        else:
            raise BadParmError("cannot be written", "database", str(target.path), "a writable folder")
    return {"device": info.name, "find-db": str(database.user_find.path), "perf-db": str(database.user_perf.path),
            "added": added, "left out": dict(left)}


def _replacing(line: bytes) -> Callable[[bytes | None], bytes]:
    """Return a change that puts a line in the place of whatever is there."""
    return lambda _old: line


def _as_ours(key: bytes, line: bytes, stamp: str) -> bytes:
    """Return a line sealed, and stamped as imported: NORMAL must not take it for measured here.

    One that has `stamp`, the device's, was measured by the same build and driver on such a device, and stays.
    """
    text = records.split(line)[1]
    perf = is_perf(key)
    if records.classify(line) is Kind.OURS and stamp == (
            records.read_perf(text)[1] if perf else records.read_find(text).stamp):
        return line + b"\n"
    if perf:
        return records.write_perf(key, records.read_perf(text)[0], _IMPORTED)
    return records.write_find(key, records.read_find(text).items, _IMPORTED)


def compact(arguments: argparse.Namespace) -> dict[str, Any]:
    before = arguments.file.stat().st_size
    if is_ledger(arguments.file):
        raise BadParmError("a ledger of miopyx tune", "FILE", str(arguments.file), "a find-db or perf-db file")
    if arguments.file.suffix == ".bz2":
        raise BadParmError("compressed", "FILE", str(arguments.file), "a plain file")
    kinds: Counter[Kind] = Counter()
    named = 0
    for line in raw_lines(arguments.file):
        kind = records.classify(line)
        kinds[kind] += 1
        named += kind is not Kind.MALFORMED and names_problem(records.split(line)[0])
    require_records(arguments.file, sum(kinds.values()), named)
    if not UserFile(arguments.file).compact():
        raise BadParmError("cannot be rewritten", "FILE", str(arguments.file), "a file in a writable folder")
    return {"file": str(arguments.file), "bytes before": before, "bytes after": arguments.file.stat().st_size,
            "dropped": {kind.value: kinds[kind] for kind in (Kind.DAMAGED, Kind.MALFORMED) if kinds[kind]}}


def report() -> dict[str, dict[str, str]]:
    """Return where the databases of every device lie, for `miopyx doctor`."""
    found = {}
    for description in devices.candidates():
        files = {"user find-db": paths.user_file(description, "ufdb"),
                 "user perf-db": paths.user_file(description, "udb"),
                 "system find-db": paths.system_file(description, "fdb"),
                 "system perf-db": paths.system_file(description, "db")}
        found[description.name] = {
            name: f"{path}{'' if path.exists() else ' (not there yet)'}" if path else "none"
            for name, path in files.items()}
    return found
