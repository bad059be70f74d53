"""`miopyx costs`: fit a device family's cost table to measured times, and judge it on layers that it has not seen."""

from __future__ import annotations

import argparse
import bz2
import io
import json
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miopyx._core import Device
from miopyx.choose import _costs, _model
from miopyx.choose._costs import ANY_BITS
from miopyx.database import paths, records, tables
from miopyx.device import devices
from miopyx.device.info import DeviceInfo
from miopyx.errors import BadParmError, MIOpenError
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.conv._base import ConvOffer, ConvSolver
from miopyx.values.config import read_most
from miopyx.values.configurations import Config

LEAST_TIMES = 6     # that a solver's costs are fitted to
LAUNCH = "launch"   # the term of launches
LARGE = 0.2         # of the logarithm: what is further off counts by its size, not by its square
ROUNDS = 12         # of weighing anew
UNSEEN = 1.0        # of a term that no problem has
FOLDS = 5           # of layers, where no lists say which network has them
DIRECTIONS = ("forward", "data", "weights")
# What makes a layer, whatever the batch, the type, the layout and the direction.
_LAYER = ("c", "d", "h", "w", "k", "z", "r", "s", "groups", "pad_d", "pad_h", "pad_w", "stride_d", "stride_h",
          "stride_w", "dilation_d", "dilation_h", "dilation_w")

_LEAST_MS, _MOST_MS = 1e-9, 1e9  # of a measurement
_MOST_SPEED = 1e9
_LONGEST_NAME = 200
_MOST_BYTES = 1 << 30
_FIELDS = {"key", "solver", "config", "time_ms", "device", "stamp"}

Layer = tuple[int, ...]
Table = _costs.CostTable


class Configs(NamedTuple):
    """A solver's default configuration, and the microseconds of that and of others."""

    usual: Config
    times: dict[Config, float]


class Measured(NamedTuple):
    """A problem of a device with its solvers' microseconds, what those that run it count, indexes, what a model sees.

    `device` is what its maker calls it, where the rows say so, else its `name`; `speeds` are its clock and bandwidth,
    as probes measure them, zeros where no row has them.

    `twice` has the first and the last times, where all solvers were timed twice.
    """

    device: str
    name: str
    is_gpu: bool
    speeds: tuple[float, float]
    problem: ConvProblem
    layer: Layer
    direction: int
    bits: int
    times: dict[str, float]
    terms: dict[str, NDArray[np.float64]]
    indexes: dict[str, float]
    numbers: NDArray[np.float64]  # `_model.OF_PROBLEM_NAMES`
    configs: dict[str, Configs]   # of solvers that ran in several
    twice: tuple[dict[str, float], dict[str, float]] | None
    on: Device


class Choice(NamedTuple):
    """What was chosen for a problem, and its time as a multiple of the best; None where nobody measured it."""

    measured: Measured
    solver: str
    regret: float | None


def add_command(commands: Any) -> None:
    """Add `costs` to an argparse parser's commands."""
    parser = commands.add_parser(
        "costs", help="fit a cost table, by which solvers are ranked, to measured times",
        description="Fit the microseconds of what solvers count to times that MIOPYX_MEASUREMENTS collected, print "
        "how often the fastest solver is chosen and what the choice costs, and write the table.")
    add_measurements(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="OUT",
                        help="write the table, as FAMILY.costs.txt or FAMILY.CARD.costs.txt")
    parser.set_defaults(run=run)


def add_measurements(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `read_measurements` reads."""
    parser.add_argument("file", nargs="+", type=Path, metavar="FILE",
                        help="JSON lines, plain or .bz2, of one device or several of a kind")
    parser.add_argument("--lists", nargs="+", default=[], metavar="LIST",
                        help="MIOpenDriver's command lines; the word before the first _ of a file's name is its "
                        "network, which is left out of the fit that is judged on it (default: a fifth of the layers)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def read_measurements(arguments: argparse.Namespace) -> tuple[
        list[Measured], str, str, dict[Layer, frozenset[str]]]:
    """Return the measured problems, where they come from, the same with their number, and networks by layer."""
    rows = [row for path in arguments.file for row in _rows(path)]
    found, made = devices_of(rows)
    problems = [problem for name, device in found.items()
                for problem in measured((row for row in rows if row["device"] == name), device)]
    if not any(problem.times for problem in problems):
        raise BadParmError("no times of a solver that this build has, in its default configuration", "file",
                           ", ".join(map(str, arguments.file)), "measurements of this version")
    return problems, made, f"{made}, {len(problems)} problems", _networks(arguments.lists)


def keys_of(path: Path) -> frozenset[bytes]:
    """Return the keys of a file's problems."""
    return frozenset(row["key"].encode() for row in _rows(path))


def run(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx costs` command; return the exit code."""
    try:
        problems, made, about, networks = read_measurements(arguments)
        lines = fit(problems)
        report = _report(problems, networks, lines)
        if arguments.out is not None:
            _costs.write(arguments.out, about, lines)
    except OSError as e:
        print(f"miopyx costs: {e.filename or ''}: {e.strerror or e}", file=sys.stderr)
        return 2
    except MIOpenError as e:
        print(f"miopyx costs: {e}", file=sys.stderr)
        return 2
    missing = sorted({name for problem in problems for name in problem.terms} - {line.solver for line in lines})
    if missing:
        print(f"fewer than {LEAST_TIMES} times of {', '.join(missing)}: no table chooses where these could run",
              file=sys.stderr)
    if arguments.out is not None:
        cards = {(problem.device, problem.device != problem.name) for problem in problems}
        named = [device for device, is_named in cards if is_named]
        of_card = f"{tables.card(named[0])}." if len(cards) == len(named) == 1 else ""
        say_written(arguments.out, problems, f"{of_card}{_costs.KIND}.txt")
    if arguments.json:
        print(json.dumps({"device": made, "judged": report,
                          "solvers": [{**line._asdict(), "costs": dict(line.costs)} for line in lines]}, indent=2))
    else:
        print("\n".join(_text(report)))
    return 0


def say_written(path: Path, problems: Iterable[Measured], ending: str) -> None:
    """Say that a file was written, and where devices like those that were measured look for it."""
    families = {problem.name.rpartition("_")[0] for problem in problems}
    wanted = f"{families.pop() if len(families) == 1 else 'FAMILY'}.{ending}"
    print(f"{path} is written; {wanted} in {paths.user_folder()} would be read", file=sys.stderr)


def _rows(path: Path) -> list[dict[str, Any]]:
    """Return a file's rows; a line that is not whole, which a full disk leaves, is passed over with a warning."""
    data = path.read_bytes()
    rows, broken = [], 0
    try:
        if data[:3] == b"BZh":  # of which a few bytes can stand for any amount
            with bz2.open(io.BytesIO(data)) as stream:
                data = read_most(stream, _MOST_BYTES + 1)
            if len(data) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes once decompressed")
        for line in data.decode().splitlines():
            try:
                row = json.loads(line) if line else None
            except ValueError:
                broken += 1
                continue
            if row is not None:
                _check(row)
                rows.append(row)
        if broken and not rows:
            raise ValueError("no line is JSON")
    except (OSError, EOFError, ValueError, RecursionError) as e:
        raise BadParmError(f"no measurements: {e}", "file", str(path), "JSON lines of MIOPYX_MEASUREMENTS") from None
    if broken:
        print(f"{path}: {broken} lines are not whole and passed over", file=sys.stderr)
    return rows


def _check(row: Any) -> None:
    """Raise ValueError unless a row has what is read of it."""
    if not isinstance(row, dict) or not row.keys() >= _FIELDS:
        raise ValueError(f"a line without {', '.join(sorted(_FIELDS))}")
    for name in ("key", "solver", "device", "stamp"):
        if not isinstance(row[name], str):
            raise ValueError(f"{name} is {row[name]!r:.40}, no text")
    row["key"].encode("ascii")  # a ValueError, too
    card = row.get("device_name", "")
    if not isinstance(card, str) or not card.isprintable() or len(card) > _LONGEST_NAME:
        raise ValueError(f"device_name is {card!r:.40}, no line of {_LONGEST_NAME} characters at most")
    if row["stamp"].count("/") != 2 or records.clean(row["stamp"]) != row["stamp"]:
        raise ValueError(f"stamp is {row['stamp']!r:.40}, not build/driver/device")
    for name in ("config", "default"):
        values = row.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
            raise ValueError(f"{name} is {values!r:.40}, no list of numbers")
    time = row["time_ms"]
    if not isinstance(time, int | float) or not _LEAST_MS <= time <= _MOST_MS:
        raise ValueError(f"time_ms is {time!r:.40}, no number of milliseconds")
    for name in ("clock", "bandwidth"):
        speed = row.get(name, 0)
        if not isinstance(speed, int | float) or not 0 <= speed <= _MOST_SPEED:
            raise ValueError(f"{name} is {speed!r:.40}, no speed of a device")


def devices_of(rows: Sequence[dict[str, Any]]) -> tuple[dict[str, Device], str]:
    """Return the devices that were measured, by name, and where the times come from in words.

    Raises
    ------
    BadParmError
        For no rows, devices whose times have no model in common, and what is no device of this machine, no GPU of
        NVIDIA or AMD and no CPU under PoCL.
    """
    names = sorted({row["device"] for row in rows})
    known = {info.name: info for info in devices.candidates()}
    infos = [known.get(name) or _pretended(name) for name in names]
    if not infos:
        raise BadParmError("no measurements", "file", "nothing", "lines of MIOPYX_MEASUREMENTS")
    if len({_model.file_names(info)[-1] for info in infos}) != 1:
        raise BadParmError("times of devices of several kinds", "file", ", ".join(names),
                           "measurements of one device, or of several of a runtime and kind")
    stamps = [max(row["stamp"] for row in rows if row["device"] == name).split("/") for name in names]
    drivers, builds = (", ".join(sorted({stamp[i] for stamp in stamps})) for i in (1, 0))
    speeds = {row["device"]: _speeds(row) for row in rows}  # the last row's
    return ({info.name: Device(info, speeds=speeds[info.name]) for info in infos},
            f"device{'s' * (len(names) > 1)} {', '.join(names)}, driver {drivers}, kernels {builds}")


def _pretended(name: str) -> DeviceInfo:
    """Return what solvers ask of a GPU, or of a CPU under PoCL, that this machine has not."""
    found = re.fullmatch(r"((?:nv|amd|pocl)(?:-[a-z0-9.]+)+)_([1-9][0-9]{0,5})", name)
    if found is None:
        raise BadParmError("not a device of this machine", "device", name, "a device that `miopyx doctor` shows")
    (vendor, *words), units = found[1].split("-"), found[2]
    host = devices.find("host")
    if vendor == "pocl":  # its name has the CPU's, what code is compiled for, and PoCL's driver
        return host._replace(name=name, kind="cpu", runtime="pocl", isa="-".join(words[1:-1]), compute_units=int(units),
                             max_work_group_size=4096, local_mem=1 << 20, max_alloc=2 << 30, fp16=False)
    return host._replace(
        name=name, kind="gpu", runtime={"nv": "nvidia", "amd": "amd"}[vendor], isa=words[0], compute_units=int(units),
        max_work_group_size=1024, local_mem=49152, max_alloc=32 << 30, global_mem=128 << 30, host_unified=False,
        extensions=frozenset({"cl_nv_device_attribute_query"} if vendor == "nv" else ()))


def measured(rows: Iterable[dict[str, Any]], device: Device) -> list[Measured]:
    """Return the problems of some rows: of a solver's default configuration the least time by the last build.

    A solver that ran in one other configuration alone, a predicted one, has the times of that, where the rows say that
    its default is still the same.  Cards of one name that are called differently, H100 and H200 for instance, have
    problems of their own.
    """
    found: dict[tuple[str, str], dict[str, list[tuple[str, Config, float]]]] = defaultdict(lambda: defaultdict(list))
    usual: dict[tuple[str, str], set[str]] = defaultdict(set)  # solvers that ran as they would by default
    defaults: dict[tuple[str, str], Config | None] = {}        # None of what does not take the problem on this device
    cards: dict[str, Device] = {}
    asked: dict[str, ConvProblem] = {}
    for row in rows:
        key, solver = row["key"], registry.BY_NAME.get(row["solver"])
        if key not in asked:
            asked[key] = _key.parse_find_key(key.encode())
        if solver is not None:
            card = str(row.get("device_name", device.name))
            if card not in cards or _speeds(row) != (cards[card].clock, cards[card].bandwidth):
                cards[card] = Device(device.info, speeds=_speeds(row))
            found[card, key][solver.name].append((row["stamp"], tuple(row["config"]), float(row["time_ms"]) * 1e3))
            if (key, solver.name) not in defaults:
                offer = solver.offer(device, asked[key])
                defaults[key, solver.name] = None if isinstance(offer, str) else offer.default_config()
            if defaults[key, solver.name] in (tuple(row["config"]), tuple(row.get("default", ()))):
                usual[card, key].add(solver.name)
    return [_measured(card, asked[key], {name: _by_config(found[card, key][name]) for name in solvers}, cards[card])
            for (card, key), solvers in usual.items()]


def _by_config(rows: list[tuple[str, Config, float]]) -> dict[Config, list[float]]:
    """Return the times of each configuration, as they were measured, by the last build."""
    found: dict[Config, list[float]] = defaultdict(list)
    for stamp, values, time in rows:
        if stamp == rows[-1][0]:
            found[values].append(time)
    return found


def _speeds(row: dict[str, Any]) -> tuple[float, float]:
    return float(row.get("clock", 0)), float(row.get("bandwidth", 0))


def _measured(card: str, problem: ConvProblem, times: dict[str, dict[Config, list[float]]],
              device: Device) -> Measured:
    features = problem.features
    terms, indexes, numbers = {}, {}, None
    some: dict[str, list[float]] = {}
    configs: dict[str, Configs] = {}
    for solver in registry.CONV:
        offer = None if solver.last_resort or not solver.dynamic else solver.offer(device, problem)
        if isinstance(offer, ConvOffer):
            terms[solver.name], indexes[solver.name] = np.array([*offer.terms().values()]), offer.index
            numbers = numbers or _model.numbers(offer)
            timed, usual = times.get(solver.name, {}), offer.default_config()
            if usual in timed or len(timed) == 1:
                some[solver.name] = timed[usual if usual in timed else next(iter(timed))]
            if usual in timed and len(timed) > 1:
                configs[solver.name] = Configs(usual, {values: min(found) for values, found in timed.items()
                                                       if values == usual or offer.accepts(values)})
    bits = {0: 16, 1: 32, 3: 8, 5: 16, 6: 64}.get(features["w_type"], 8)
    twice = None
    if some and all(len(found) > 1 for found in some.values()):
        twice = {name: found[0] for name, found in some.items()}, {name: found[-1] for name, found in some.items()}
    return Measured(card, device.name, device.is_gpu, (device.clock, device.bandwidth), problem,
                    tuple(features[name] for name in _LAYER),
                    features["direction"], bits,
                    {name: min(found) for name, found in some.items()}, terms, indexes,
                    np.array(numbers or [0.0] * len(_model.OF_PROBLEM_NAMES)), configs, twice, device)


def _networks(lists: Sequence[str]) -> dict[Layer, frozenset[str]]:
    """Return which networks have a layer."""
    from .driver import listing
    from .driver.options import UsageError

    found: dict[Layer, set[str]] = defaultdict(set)
    for path in lists:
        refused: list[listing.Refused] = []  # tune says which
        try:
            lines = listing.read(path, "conv", {}, refused=refused)
        except UsageError as e:
            raise BadParmError(str(e), "--lists", path, "a list of MIOpenDriver's lines") from None
        for line in lines:
            work: Any = line.work
            if hasattr(work, "conv"):
                x, w, y = (work.descriptors[name] for name in "xwy")
                problem = ConvProblem(0, x, w, y, work.conv)
                found[tuple(problem.features[name] for name in _LAYER)].add(Path(path).name.partition("_")[0])
    return {layer: frozenset(names) for layer, names in found.items()}


# Fitting


def fit(problems: Iterable[Measured]) -> list[_costs.Line]:
    """Return the costs of each solver and type with enough times: none negative, by the least relative errors."""
    groups: dict[tuple[str, int], list[tuple[NDArray[np.float64], float]]] = defaultdict(list)
    for problem in problems:
        for name, time in problem.times.items():
            for bits in (problem.bits, ANY_BITS):
                groups[name, bits].append((problem.terms[name], time))
    # A launch takes at least half the least time that anything took.
    least = min((time for pairs in groups.values() for _, time in pairs), default=0) / 2
    order = [solver.name for solver in registry.CONV]
    lines: list[_costs.Line] = []
    for name, bits in sorted(groups, key=lambda group: (order.index(group[0]), -group[1])):
        pairs = groups[name, bits]
        # All types together only where none of them has enough.
        if len(pairs) < LEAST_TIMES or (bits == ANY_BITS and lines and lines[-1].solver == name):
            continue
        solver = registry.BY_NAME[name]
        assert isinstance(solver, ConvSolver)
        terms, times = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        least_costs = np.array([least if term == LAUNCH else 0 for term in solver.cost_names])
        costs, spread = fitted(terms, times, least_costs)
        lines.append(_costs.Line(name, bits, spread, len(pairs),
                                 {term: float(cost) for term, cost in zip(solver.cost_names, costs, strict=True)}))
    return lines


def fitted(terms: NDArray[np.float64], times: NDArray[np.float64],
            least: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return costs of terms, `least` at least, and the spread of the logarithm of predicted by measured times.

    Each round solves for relative errors, to the geometric mean of both times, since half the time is as wrong as
    twice; problems that were far off weigh less in the next one.  A term that none of them has costs UNSEEN: free, it
    would make the solver the first choice wherever it counts.
    """
    scale = terms.max(axis=0)
    scale[scale == 0] = 1
    predicted, weight = times, np.ones(len(times))
    for _ in range(ROUNDS):
        by = weight / np.sqrt(times * np.maximum(predicted, times / 20))
        costs = least + least_squares(terms / scale * by[:, None], (times - terms @ least) * by) / scale
        predicted = np.maximum(terms @ costs, 1e-3)
        off = np.abs(np.log(predicted / times))
        weight = np.sqrt(np.minimum(1, LARGE / np.maximum(off, 1e-9)))
    costs[(terms == 0).all(axis=0)] = UNSEEN
    return costs, float(np.sqrt(np.mean(off**2)))


def least_squares(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the x >= 0 that brings a x closest to b (Lawson and Hanson, Solving Least Squares Problems, 1974)."""
    count = a.shape[1]
    x, used = np.zeros(count), np.zeros(count, bool)
    small = 1e-10 * max(1.0, float(np.abs(a.T @ b).max(initial=0)))
    for _ in range(30 * count):
        slope = np.where(used, -np.inf, a.T @ (b - a @ x))
        best = int(slope.argmax())
        if slope[best] <= small:
            break
        used[best] = True
        while True:
            trial = np.zeros(count)
            trial[used] = np.linalg.lstsq(a[:, used], b, rcond=None)[0]
            bad = used & (trial <= 0)
            if not bad.any():
                break
            share = float((x[bad] / np.maximum(x[bad] - trial[bad], 1e-300)).min())
            x = np.maximum(x + share * (trial - x), 0)
            used &= x > 1e-14
        x = trial
    return x


# Judging


def _predicted(lines: Iterable[_costs.Line]) -> Callable[[Measured], str]:
    """Return the choice of a table: the least predicted time, or the index where a solver's costs are not known."""
    costs = {(line.solver, line.bits): np.array(list(line.costs.values())) for line in lines}
    costs |= {(name, own): found for (name, bits), found in [*costs.items()] if bits == ANY_BITS
              for own in (8, 16, 32, 64)}

    def chosen(problem: Measured) -> str:
        if any((name, problem.bits) not in costs for name in problem.terms):
            return _indexed(problem)
        return min(problem.terms, key=lambda name: float(problem.terms[name] @ costs[name, problem.bits]))

    return chosen


def _indexed(problem: Measured) -> str:
    return max(problem.indexes, key=problem.indexes.__getitem__)


def _choices(problems: Iterable[Measured], chosen: Callable[[Measured], str]) -> list[Choice]:
    found = []
    for problem in problems:
        if problem.times:
            name = chosen(problem)
            time = problem.times.get(name)
            found.append(Choice(problem, name, None if time is None else time / min(problem.times.values())))
    return found


def _unseen(problems: Sequence[Measured], networks: dict[Layer, frozenset[str]]) -> list[Choice]:
    """Return the choices of tables that saw no layer of any network that the problem's layer is part of."""
    judged = []
    for indexes, rest in folds(problems, networks):
        judged += _choices((problems[i] for i in indexes), _predicted(fit(problems[i] for i in rest)))
    return judged


def folds(problems: Sequence[Measured], networks: dict[Layer, frozenset[str]]) -> list[tuple[list[int], list[int]]]:
    """Return the numbers of problems whose layers are part of the same networks, and of those that share none of these.

    Layers of no list make networks of their own, a fifth of them each.  Where some share networks with all that were
    timed, networks do not count, only layers.
    """
    found: dict[frozenset[str], list[int]] = defaultdict(list)
    for i, problem in enumerate(problems):
        found[networks.get(problem.layer) or frozenset(
            [f"fold {zlib.crc32(repr(problem.layer).encode()) % FOLDS}"])].append(i)
    split = []
    for names in sorted(found, key=sorted):
        apart = {i for other, some in found.items() if other & names for i in some}
        split.append((found[names], [i for i in range(len(problems)) if i not in apart]))
    if not networks or all(any(problems[i].times for i in rest) for _, rest in split):
        return split
    print("networks share too many layers: layers are kept apart, not networks", file=sys.stderr)
    return folds(problems, {})


def _report(problems: Sequence[Measured], networks: dict[Layer, frozenset[str]],
            lines: Sequence[_costs.Line]) -> list[dict[str, Any]]:
    """Return, for each direction and type and for all, what index, table and tables of other networks cost."""
    ways = {"index": _choices(problems, _indexed), "table": _choices(problems, _predicted(lines)),
            "unseen": _unseen(problems, networks)}
    groups = sorted({(problem.direction, problem.bits) for problem in problems})
    found = []
    for group in (*groups, None):
        row: dict[str, Any] = {"group": "all" if group is None else f"{DIRECTIONS[group[0]]}, {group[1]} bits"}
        for way, choices in ways.items():
            regrets = [choice.regret for choice in choices
                       if group is None or (choice.measured.direction, choice.measured.bits) == group]
            known = [regret for regret in regrets if regret is not None]
            row[way] = {"problems": len(regrets), "right": sum(regret == 1 for regret in known),
                        "mean": float(np.mean(known)) if known else None, "most": max(known, default=None),
                        "not measured": len(regrets) - len(known)}
        found.append(row)
    return found


def _text(report: Sequence[dict[str, Any]]) -> list[str]:
    """Return the report as a table: right choices, mean and largest time by the best one's, choices nobody measured."""
    lines = [f"{'':<29}" + "".join(f"{title:>32}" for title in (
        "throughput index", "this table", "without its networks")),
        f"{'':<20}{'problems':>9}" + f"{'right':>9}{'mean':>8}{'most':>6}{'unknown':>9}" * 3]
    for row in report:
        cells = "".join(f"{way['right']:>9}{_number(way['mean'], 4):>8}{_number(way['most'], 2):>6}"
                        f"{way['not measured'] or '':>9}" for way in (row["index"], row["table"], row["unseen"]))
        lines.append(f"{row['group']:<20}{row['index']['problems']:>9}{cells}")
    return lines


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
