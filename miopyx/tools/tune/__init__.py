"""`miopyx tune`: fill the databases of a device, or of a fleet of them, for lists of layers and whole models."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from miopyx.database import paths
from miopyx.errors import MIOpenError, UnknownError
from miopyx.values import config

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LIMIT = 300.0
_SOME = 5  # of what is named line by line
_LONGEST = 10_000 * 3600.0


def add_commands(commands: Any) -> None:
    """Add `tune` and `worker` to an argparse parser's commands."""
    tune = commands.add_parser(
        "tune", help="measure the layers of lists, logs and models, so that all processes know the fastest solvers",
        description="Measure every problem that the databases do not know, what promises most first.  Exits with 0, "
        "with 1 where a problem could not be measured, with 2 for what cannot be read, with 130 when interrupted; what "
        "was measured is kept in any case.")
    tune.add_argument("source", nargs="*", metavar="SOURCE",
                      help="a list of MIOpenDriver's command lines (or the name of one that ships), an ONNX model "
                      "(.onnx), a model that torch.export saved (.pt2)")
    tune.add_argument("--from-log", action="append", default=[], metavar="FILE",
                      help="what MIOPEN_ENABLE_LOGGING_CMD=1 printed, of MIOpen or miopyx (may be repeated)")
    tune.add_argument("--batch", type=_positive, help="batch size in place of the sources'")
    tune.add_argument("--dtype", type=_dtype, default="", help="type in place of the sources'")
    tune.add_argument("--layout", choices=("nchw", "nhwc"), default="", help="layout in place of the sources'")
    tune.add_argument("--directions", type=_directions, metavar="FBW",
                      help="of forward, backward data, backward weights (default: the lines'; of models F)")
    tune.add_argument("--budget", type=_seconds, metavar="TIME", help="stop after so long: 90s, 10m, 2h")
    tune.add_argument("--exhaustive", action="store_true", help="search for the configurations of tunable solvers, too")
    tune.add_argument("--limit", type=_seconds, default=_LIMIT, metavar="TIME",
                      help="end a measurement after so long, as failed (default: 5m; with --exhaustive 1h)")
    tune.add_argument("--device", action="append", default=[], metavar="NAME",
                      help="as `miopyx doctor` names it (may be repeated; default: the best)")
    tune.add_argument("--jobs", type=_count, metavar="N",
                      help="compile so many problems at a time (default: all cores)")
    tune.add_argument("--scheduler", metavar="ADDRESS",
                      help="measure on the workers of a dask scheduler (see miopyx worker) instead of this machine")
    tune.add_argument("--ledger", type=Path, metavar="FILE",
                      help="keep what was done here (default: tune.sqlite3 beside the user's databases)")
    tune.add_argument("--again", action="store_true", help="measure what is known, too: for a ledger or measurements "
                      "that shall have all")
    tune.add_argument("--retry", action="store_true", help="try again what failed before")
    tune.add_argument("--json", action="store_true", help="print JSON at the end")
    tune.set_defaults(run=run)

    worker = commands.add_parser(
        "worker", help="measure for a fleet: join a dask scheduler with this machine's devices",
        description="Start a worker for each device and keep it running; a scheduler that is gone is waited for.")
    worker.add_argument("scheduler", metavar="ADDRESS", help="of a dask scheduler, such as tcp://127.0.0.1:8786")
    worker.add_argument("--device", action="append", default=[], metavar="NAME",
                        help="as `miopyx doctor` names it (may be repeated; default: the best)")
    worker.add_argument("--jobs", type=_count, metavar="N",
                        help="compile so many problems at a time (default: the cores, shared among the devices)")
    worker.set_defaults(run=run_worker)


def _dtype(text: str) -> str:
    from ..driver.options import OPERATIONS  # the driver is large, and most commands have no use for it

    if text and text not in OPERATIONS.values():
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(sorted(OPERATIONS.values()))}")
    return text


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 2147483647")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1024")
    return int(text)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text, re.ASCII)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 10m or 2h")
    seconds = float(match[1]) * _UNITS[match[2]]
    if seconds > _LONGEST:  # alarms and timers take no time that is much longer
        raise argparse.ArgumentTypeError(f"{text!r} is longer than 10000h")
    return seconds


def _directions(text: str) -> str:
    letters = text.upper()
    if not letters or set(letters) - set("FBW") or len(set(letters)) != len(letters):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the letters F, B and W")
    return letters


def run(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx tune` command; return the exit code."""
    from ..driver.options import UsageError

    try:
        return _run(arguments)
    except (UsageError, MIOpenError) as e:
        print(f"miopyx tune: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before anything was measured
        print("miopyx tune: interrupted", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace) -> int:
    from ..driver.options import UsageError
    from . import show, sources
    from .ledger import Ledger
    from .work import Scheduler

    if not arguments.source and not arguments.from_log:
        raise UsageError("what shall be tuned? a list, a model, or --from-log")
    if arguments.scheduler and (arguments.device or arguments.jobs is not None):
        raise UsageError("--device and --jobs are the workers', beside --scheduler")
    options = sources.Options(arguments.batch, arguments.dtype, arguments.layout, arguments.directions or "")
    found = sources.read(arguments.source, arguments.from_log, options)
    for line in found.refused:
        print(f"miopyx tune: {line}; skipped", file=sys.stderr)
    if not found.wanted:
        raise UsageError("no convolution to tune")
    weights: dict[str, float] = {}
    for one in found.wanted:
        weights[one.key] = weights.get(one.key, 0.0) + one.weight
    limit = arguments.limit * (12 if arguments.exhaustive and arguments.limit == _LIMIT else 1)
    path = arguments.ledger or default_ledger()
    if arguments.ledger is not None and not arguments.ledger.parent.is_dir():
        raise UsageError(f"--ledger {path}: no such folder")
    if path is None and arguments.scheduler:
        raise UsageError("a fleet's results are kept in the ledger alone: --ledger says where")
    lanes, ledger = _lanes(arguments, limit), None
    progress = show.Progress(arguments.budget)
    try:
        ledger = Ledger(path, only=bool(arguments.scheduler))
        ledger.asked((one.key, one.source, one.layer, one.weight) for one in found.wanted)
        summary = Scheduler(lanes, ledger, weights, progress, search=arguments.exhaustive, again=arguments.again,
                            retry=arguments.retry, budget=arguments.budget, databases=not arguments.scheduler).run()
    finally:
        progress.close()
        lanes.close()
        if ledger is not None:
            ledger.close()
    made = show.rows(found.wanted, summary.results)
    if arguments.json:
        print(json.dumps({
            "problems": len(weights), "measured": len(summary.results), "known": summary.known, "left": summary.left,
            "partial": _partial(summary), "failed": [{"key": key, "why": why} for key, why in summary.failed],
            "ended_by": summary.ended_by,
            "lost": summary.lost,
            "clocks": [{**device._asdict(), "ms": times} for device, times in summary.clocks.items()],
            "refused": found.refused,
            "ledger": str(ledger.path) if ledger.path else None,
            "layers": [{**row._asdict(), "saved": row.saved} for row in made]}, indent=2))
    else:
        text = "\n".join([*show.table(made), *([""] if made else []),
                          *_words(summary, len(weights), len(found.refused), ledger.path)])
        print(text.encode(errors="backslashreplace").decode())  # names of files need not be UTF-8
    if summary.ended_by == "interrupted":
        return 130
    return 1 if summary.failed or (summary.left and summary.ended_by == "all") else 0


def _partial(summary: Any) -> int:
    """Return how many results are partial."""
    return sum(bool(result["partial"]) for _, result in summary.results)


def _words(summary: Any, problems: int, refused: int, ledger: Path | None) -> list[str]:
    """Return what became of the problems, in words."""
    from . import work

    why = {"budget": "; the budget is spent", "interrupted": "; interrupted"}.get(summary.ended_by, "")
    known = f"{summary.known} known before{' (--again measures them, too)' if summary.known else ''}"
    lines = [f"{problems} problem{'s' * (problems != 1)}: {len(summary.results)} measured, {known}, "
             f"{len(summary.failed)} failed, {summary.left} left{why}"]
    if _partial(summary):
        lines.append(f"{_partial(summary)} of those measured in part: the next run measures them again")
    worse = [f"{key}: {ms:.4g} ms, {known:.4g} before" for key, known, ms in (
        (key, (result["before"] or {}).get("known_ms"), result["after"]["ms"]) for key, result in summary.results)
        if known and ms > (1 + work.OUTLIER) * known]
    if worse:
        lines.append(f"{len(worse)} slower than what was known, which this replaces; is the machine busy?")
        lines += worse[:_SOME]
    if refused:
        lines.append(f"{refused} lines or layers make no problem and were skipped")
    for device, times in summary.clocks.items():
        lines.append(f"{len(times)} devices {device.name} compared: "
                     + ("; ".join(work.outliers(times)) or f"within {work.OUTLIER:.0%} of "
                     + ("each other" if len(times) == 2 else "their median")))
    lines += [f"failed: {key}: {text}" for key, text in summary.failed]
    return [*lines, f"ledger: {ledger}"] if ledger is not None else lines


def _lanes(arguments: argparse.Namespace, limit: float) -> Any:
    from miopyx.device import devices

    from ..driver.options import UsageError

    if arguments.scheduler:
        try:
            from . import fleet
        except ImportError:
            raise UsageError("--scheduler needs the extra tune: pip install miopyx[tune]") from None
        return fleet.Fleet(arguments.scheduler, limit)
    from .work import LocalLane, LocalLanes, local_compilers, side_by_side

    names = arguments.device or [""]
    jobs = local_compilers() if arguments.jobs is None else arguments.jobs
    shares = [jobs * (i + 1) // len(names) - jobs * i // len(names) for i in range(len(names))]
    opened = side_by_side(lambda one: LocalLane(one[0], one[1], limit), zip(names, shares, strict=True))
    lanes = LocalLanes(lane for lane in opened if isinstance(lane, LocalLane))
    try:
        for name, lane in zip(names, opened, strict=True):
            if isinstance(lane, BaseException):
                if name and isinstance(lane, MIOpenError):
                    devices.find(name)  # says which there are; the child gave its error's first words alone
                raise lane
            if lane.unkept:
                raise UnknownError(f"nothing would be kept: {lane.unkept}")
    except BaseException:
        lanes.close()
        raise
    return lanes


def default_ledger() -> Path | None:
    """Return where the ledger lies if nobody says: SQLite's files do not belong on network file systems."""
    folder = paths.user_folder()
    if folder is None or paths.is_network(folder):
        folder = config.cache_dir()
    return None if folder is None else folder / "tune.sqlite3"


def run_worker(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx worker` command; return the exit code."""
    from ..driver.options import UsageError

    try:
        try:
            from . import fleet
        except ImportError:
            raise UsageError("a worker needs the extra tune: pip install miopyx[tune]") from None
        return fleet.supervise(arguments.scheduler, arguments.device or [""], arguments.jobs)
    except (UsageError, MIOpenError) as e:
        print(f"miopyx worker: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
