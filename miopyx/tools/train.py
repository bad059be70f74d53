"""`miopyx train`: a device family's model from measured times, judged on networks that it has not seen."""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miopyx._core import Offer
from miopyx.choose import _costs, _model
from miopyx.choose._costs import ANY_BITS
from miopyx.database import tables
from miopyx.errors import BadParmError, InternalError, MIOpenError, NotInitializedError
from miopyx.problem import _key
from miopyx.solvers import registry
from miopyx.values.configurations import Config

from . import costs
from .costs import Measured

if TYPE_CHECKING:
    import lightgbm

LEAST_PROBLEMS = 10       # of which something can be left out
LEAST_TIMES = 40          # that a solver's trees are fitted to; with fewer, its cost line stands alone
ROUNDS, LEAVES = 50, 8    # trees of a solver, at most, and leaves of each
NODES_BYTES = 280_000     # of all trees: a file keeps to 300 KB
SHRINK = 0.8              # of what the trees say: they saw few problems
NEAR = 0.3                # of the logarithm: times so far from the best count half
LEAST_STARTS = 30         # searched problems of a solver whose configurations are learned
START_FOLDS = 5           # of their layers
LEAST_GAINS = (0.02, 0.05, 0.1)  # of the logarithm, that a configuration must promise
WORTH = 0.01              # of the time, that predicted configurations must gain in the mean
FAR = 0.7                 # of the logarithm: times so far from the default one's are all the same
MARGINS = (0.0, 0.25, 0.5, 1.0)
LEAF = 0xFFFF
LEAF_DIGITS = 11          # binary, of what a leaf adds
SINGLE_DIGITS = 24        # of single precision
ANY = 1e9                 # of a number that was not measured
WITHIN = 1.05             # of the best time
SETTINGS = {"objective": "regression", "learning_rate": 0.1, "num_leaves": LEAVES, "min_data_in_leaf": 8,
            "feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1, "lambda_l2": 1.0, "verbose": -1,
            "deterministic": True, "force_row_wise": True, "num_threads": 1}

TITLES = ("problems", "right", "within 5 %", "mean", "most", "unsure", "not measured")
CONFIG_TITLES = ("searched", "chosen", "most", "a search", "predicted")  # times by those of the default configuration
_NODE = np.dtype([("value", "<f4"), ("number", "<u2"), ("right", "<u2")])
_SPEEDS = slice(len(_model.OF_PROBLEM_NAMES) - 2, None)
_UNITS = _model.OF_PROBLEM_NAMES.index("compute_units")
_TERMS = len(_model.NAMES) - len(_model.OF_PROBLEM_NAMES) - 2

Floats = NDArray[np.float64]
Lines = Mapping[tuple[str, int], Floats]  # costs by solver and bits
Times = dict[str, float]                  # predicted microseconds by solver
Way = Callable[[Measured], "Times | None"]


class Trees(NamedTuple):
    """Trees as LightGBM has them, and the samples that they were grown from."""

    booster: lightgbm.Booster
    samples: Floats

    def predict(self, x: Floats) -> Floats:
        """Return what the trees say of some samples."""
        return np.asarray(self.booster.predict(x))


class Grown(NamedTuple):
    """What was learned: cost lines, trees of some solvers, errors, bounds of problems."""

    lines: list[_costs.Line]
    trees: dict[str, Trees]
    errors: dict[str, float]
    low: Floats
    high: Floats
    margin: float
    cards: dict[str, tuple[float, float]]  # GPUs' clocks and bandwidths by name
    starts: dict[str, Starts]              # of solvers whose configurations are predicted


class Starts(NamedTuple):
    """Trees of a solver's configurations, and how much of the logarithm of a time a choice must gain."""

    trees: Trees
    least: float


class Judged(NamedTuple):
    """Regrets of the choices in one way: times by the best one's; problems without an answer, and choices not timed."""

    regrets: Floats
    unsure: int
    unknown: int

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the table."""
        some = self.regrets.size > 0
        return {"problems": self.regrets.size, "right": float(np.mean(self.regrets == 1)) if some else None,
                "within 5 %": float(np.mean(self.regrets <= WITHIN)) if some else None,
                "mean": float(self.regrets.mean()) if some else None,
                "most": float(self.regrets.max()) if some else None, "unsure": self.unsure,
                "not measured": self.unknown}


def add_command(commands: Any) -> None:
    """Add `train` to an argparse parser's commands."""
    parser = commands.add_parser(
        "train", help="fit a model, by which solvers are ranked, to measured times",
        description="Fit a cost table and gradient-boosted trees over it to times that MIOPYX_MEASUREMENTS collected, "
        "print what the choices cost on networks that were not fitted, and write the model.  Needs miopyx[train].")
    costs.add_measurements(parser)
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="write the model, as FAMILY.model")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="one of the files: only its problems are judged")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx train` command; return the exit code."""
    try:
        problems, made, about, networks = costs.read_measurements(arguments)
        if len(problems) < LEAST_PROBLEMS:
            raise BadParmError("too few problems", "file", f"{len(problems)} problems", f"{LEAST_PROBLEMS} and more")
        folds = costs.folds(problems, networks)
        if not all(any(problems[i].times for i in rest) for _, rest in folds):
            raise BadParmError("too few layers to keep some apart", "file",
                               f"{len({problem.layer for problem in problems})} layers", "more layers")
        only = None if arguments.judge is None else costs.keys_of(arguments.judge)
        if only is not None and not only & {_key.find_key(problem.problem) for problem in problems}:
            raise BadParmError("none of its problems is among those that were read", "judge", str(arguments.judge),
                               "one of the files")
        judged, margin = judge(problems, folds, only)
        configs, starts = learn_starts(problems)
        if arguments.out is not None:
            grown = grow(problems, others=len(starts))._replace(margin=margin, starts=starts)
            data = encode(about, grown)
            if len(data) > _model.LIMIT:
                raise InternalError(f"the model has {len(data)} bytes, more than {_model.LIMIT}")
            _model.Model(data)
            tables.put(arguments.out, data)
    except OSError as e:
        print(f"miopyx train: {e.filename or ''}: {e.strerror or e}", file=sys.stderr)
        return 2
    except MIOpenError as e:
        print(f"miopyx train: {e}", file=sys.stderr)
        return 2
    report = {way: found.as_dict() for way, found in judged.items()}
    of_configs = {name: found.as_dict() for name, found in configs.items()}
    if arguments.out is not None:
        costs.say_written(arguments.out, problems, _model.KIND)
        if not _is_better(judged["model, no table"], judged["throughput index"]):
            print("its choices are no better than the throughput index's: measure more", file=sys.stderr)
        if not grown.trees:
            print(f"it has no trees: of no solver are there {LEAST_TIMES} times and more", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"device": made, "margin": margin, "judged": report, "configurations": of_configs}, indent=2))
    else:
        print("\n".join(text(report, TITLES)))
        print("mean, most: the time of the choice by that of the fastest solver; unsure: where the next one chooses",
              "'model' has a cost table of the same times behind it", sep="\n")
        if of_configs:
            print("", *text(of_configs, CONFIG_TITLES), sep="\n")
    return 0


def _is_better(one: Judged, other: Judged) -> bool:
    return bool(one.regrets.size and other.regrets.size and one.regrets.mean() < other.regrets.mean())


# Learning


def _lightgbm() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import lightgbm
    except (ImportError, OSError) as e:
        raise NotInitializedError("LightGBM is not installed", "train", str(e), "pip install miopyx[train]") from None
    return lightgbm


def grow(problems: Sequence[Measured], seed: int = 0, others: int = 0) -> Grown:
    """Fit cost lines to some problems, then trees to what is left of the logarithm of each solver's times.

    The error of a solver is that of trees which saw the other half of its problems.  `others` are the solvers whose
    configurations get trees, too: a file has room for so many.
    """
    lines = costs.fit(problems)
    table = _by_bits(lines)
    samples: dict[str, list[tuple[Floats, float, float]]] = defaultdict(list)
    for problem in problems:
        best = min(problem.times.values(), default=0)
        for name, time in problem.times.items():
            predicted = _linear(problem, name, table)
            if predicted is not None:
                samples[name].append((_numbers(problem, name, predicted), np.log(time / predicted),
                                      1 / (NEAR + np.log(time / best))))
    trees, errors = {}, {}
    samples = {name: rows for name, rows in samples.items() if len(rows) >= LEAST_TIMES}
    rounds = min(ROUNDS, NODES_BYTES // (_NODE.itemsize * (2 * LEAVES - 1) * max(1, len(samples) + others)))
    for name, rows in samples.items():
        x, y, weight = (np.array(column) for column in zip(*rows, strict=True))
        left = np.random.default_rng(seed).permutation(len(y)) % 2 == 0
        off = np.concatenate([y[~half] - SHRINK * _boosted(x[half], y[half], weight[half], rounds, seed).predict(
            x[~half]) for half in (left, ~left)])
        errors[name] = float(np.sqrt(np.mean(off**2)))
        trees[name] = _boosted(x, y, weight, rounds, seed)
    numbers = np.array([problem.numbers for problem in problems if problem.times], np.float32)
    low, high = numbers.min(axis=0), numbers.max(axis=0)
    # What solvers count goes by the compute units: half and twice as many are near enough.  Speeds are those of the
    # moment of a probe: four times as fast or slow.
    low[_UNITS] -= 1
    high[_UNITS] += 1
    low[_SPEEDS] -= 2
    high[_SPEEDS] += 2
    # Of one speed trees learn nothing, and a probe beside other work says too little.
    speeds = {problem.speeds for problem in problems}
    if len(speeds) == 1 or not all(map(all, speeds)):
        low[_SPEEDS], high[_SPEEDS] = -ANY, ANY
    cards = {problem.device: problem.speeds for problem in problems if problem.is_gpu and all(problem.speeds)}
    return Grown(lines, trees, errors, low, high, 0, cards, {})


# Configurations


class Searched(NamedTuple):
    """A problem's numbers and the configurations of a solver that were timed."""

    layer: costs.Layer
    numbers: Floats
    configs: costs.Configs


def _searched(problems: Sequence[Measured]) -> dict[str, list[Searched]]:
    """Return what was searched of solvers whose configurations were timed often enough, on each of the devices.

    The fastest configuration of one device is no guess for another that nobody searched.
    """
    found: dict[str, list[Searched]] = defaultdict(list)
    devices: dict[str, set[str]] = defaultdict(set)
    for problem in problems:
        for name, some in problem.configs.items():
            if len(some.times) > 1 and _config_numbers(some.usual, some.usual):
                found[name].append(Searched(problem.layer, problem.numbers, some))
                devices[name].add(problem.device)
    everywhere = {problem.device for problem in problems}
    return {name: some for name, some in found.items() if len(some) >= LEAST_STARTS and devices[name] == everywhere}


def _config_numbers(values: Config, usual: Config) -> list[float]:
    """Return what trees see of a configuration, nothing of one with too many parameters."""
    return _model.config_numbers(values, usual) or []


def learn_starts(problems: Sequence[Measured], seed: int = 0) -> tuple[dict[str, StartsJudged], dict[str, Starts]]:
    """Return what predicted configurations are worth, by solver, and the trees of those solvers where they are."""
    judged, starts = {}, {}
    for name, found in sorted(_searched(problems).items()):
        judged[name] = judge_starts(found, seed)
        least = judged[name].least
        if least is not None:
            starts[name] = Starts(_boosted(*_start_samples(found), ROUNDS, seed), least)
    return judged, starts


def _start_samples(found: Sequence[Searched]) -> tuple[Floats, Floats, Floats]:
    """Return what trees see of each configuration, the logarithm of its time by the default one's, and weights."""
    rows = [([*one.numbers, *_config_numbers(values, one.configs.usual)],
             np.log(time / one.configs.times[one.configs.usual]))
            for one in found for values, time in one.configs.times.items()]
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    # What is far from the best is never chosen; how far does not matter.
    return x.astype(np.float32).astype(float), np.clip(y, -FAR, FAR), np.ones(len(y))


class StartsJudged(NamedTuple):
    """Times of what trees choose on layers that they did not see, by the default configuration's; the least times.

    `least` is the gain that a choice must promise, None where none of `LEAST_GAINS` gains enough.
    """

    chosen: Floats
    best: Floats
    least: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of the table."""
        return {"searched": self.chosen.size, "chosen": float(self.chosen.mean()), "most": float(self.chosen.max()),
                "a search": float(self.best.mean()), "predicted": "yes" if self.least is not None else "no"}


def judge_starts(found: Sequence[Searched], seed: int = 0) -> StartsJudged:
    """Choose configurations on layers that the trees did not see, and the gain that a choice must promise."""
    layers = sorted({one.layer for one in found})
    part = dict(zip(layers, np.random.default_rng(seed).permutation(len(layers)) % START_FOLDS, strict=True))
    gains, times = [], []
    for fold in range(START_FOLDS):
        rest, own = ([one for one in found if (part[one.layer] == fold) == mine] for mine in (False, True))
        if not rest or not own:
            continue
        trees = _boosted(*_start_samples(rest), ROUNDS, seed)
        for one in own:
            x, y, _ = _start_samples([one])
            usual = [*one.configs.times].index(one.configs.usual)
            gain = -SHRINK * trees.predict(x)
            gains.append(gain - gain[usual])
            times.append(y)
    best = np.exp([y.min() for y in times])
    ways = {least: np.exp([y[gain.argmax()] if gain.max() > least else 0.0
                           for gain, y in zip(gains, times, strict=True)]) for least in LEAST_GAINS}
    least = min(ways, key=lambda way: float(np.mean(ways[way])))
    return StartsJudged(ways[least], best, least if float(np.mean(ways[least])) <= 1 - WORTH else None)


def _boosted(x: Floats, y: Floats, weight: Floats, rounds: int, seed: int) -> Trees:
    lgb = _lightgbm()
    return Trees(lgb.train({**SETTINGS, "seed": seed}, lgb.Dataset(x, y, weight=weight), rounds), x)


def _by_bits(lines: Iterable[_costs.Line]) -> Lines:
    found = {(line.solver, line.bits): np.array([*line.costs.values()]) for line in lines}
    for (name, bits), row in [*found.items()]:
        if bits == ANY_BITS:
            for own in (8, 16, 32, 64):
                found.setdefault((name, own), row)
    return found


def _linear(problem: Measured, name: str, table: Lines) -> float | None:
    row = table.get((name, problem.bits))
    time = 0.0 if row is None else float(problem.terms[name] @ row)
    return time if time > 0 else None


def _numbers(problem: Measured, name: str, predicted: float) -> Floats:
    """Return what trees see, rounded as they see it (`_model._of_problem`, `_of_solver`)."""
    terms = np.zeros(_TERMS)
    terms[:len(problem.terms[name])] = np.log1p(problem.terms[name])
    index = np.log1p(max(problem.indexes[name], 0))
    return np.concatenate([problem.numbers, [np.log(predicted), index], terms]).astype(np.float32).astype(float)


# The file


def encode(about: str, grown: Grown) -> bytes:
    """Return the bytes of a model's file."""
    lines = [f"margin {grown.margin:g}", *(
        f"card {clock:.6g} {bandwidth:.6g} {name}" for name, (clock, bandwidth) in sorted(grown.cards.items())), *(
        " ".join([word, *(repr(float(value)) for value in bounds)])
        for word, bounds in (("low", grown.low), ("high", grown.high)))]
    lines += [f"cost {_costs.text_of(line)}" for line in grown.lines]
    nodes = []
    order = [solver.name for solver in registry.CONV]
    forests = [("trees", name, grown.trees[name], grown.errors[name])
               for name in sorted(grown.trees, key=order.index)]
    forests += [("starts", name, *grown.starts[name]) for name in sorted(grown.starts, key=order.index)]
    for word, name, trees, error in forests:
        seen = [np.unique(column) for column in trees.samples.T]
        flat = [_flat(tree["tree_structure"], seen) for tree in trees.booster.dump_model()["tree_info"]]
        lines.append(f"{word} {name} {error:.4g} {len(flat)} {sum(map(len, flat))}")
        nodes += flat
    return _model.sealed(about, lines, np.array([node for tree in nodes for node in tree], _NODE).tobytes())


def _flat(node: dict[str, Any], seen: Sequence[Floats]) -> list[tuple[float, int, int]]:
    """Return the nodes of a tree: each before its children, the left one first.

    `seen` are the samples' values of each number, in order.
    """
    if "left_child" not in node:
        return [(_rounded(SHRINK * node["leaf_value"], LEAF_DIGITS), LEAF, 0)]
    left, right = _flat(node["left_child"], seen), _flat(node["right_child"], seen)
    number = node["split_feature"]
    return [(_short(node["threshold"], seen[number]), number, len(left) + 1), *left, *right]


def _rounded(value: float, digits: int) -> float:
    """Return the nearest number of so many binary digits: others are noise, which no compression makes smaller."""
    fraction, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(fraction, digits)), exponent - digits)


def _short(threshold: float, seen: Floats) -> float:
    """Return the threshold with as few digits as keep it in the middle half between its neighbours in `seen`.

    Numbers are single precision: where no fewer digits do, the neighbour below does.
    """
    at = int(np.searchsorted(seen, threshold, side="right"))
    least, beyond = (float(seen[at - 1]) if at else -math.inf), (float(seen[at]) if at < len(seen) else math.inf)
    least_half, beyond_half = (least + threshold) / 2, (threshold + beyond) / 2
    for digits in range(1, SINGLE_DIGITS):
        value = _rounded(threshold, digits)
        if least_half <= value < beyond_half:
            return value
    return least


# Judging


def _model_times(grown: Grown, problems: Sequence[Measured]) -> list[tuple[Times, float] | None]:
    """Return a model's times for some problems and how far apart, in errors, the two best; None where it is unsure."""
    table = _by_bits(grown.lines)
    linear: list[Times] = []
    for problem in problems:
        found = {name: _linear(problem, name, table) for name in problem.terms} if _within(grown, problem) else {}
        times = {name: time for name, time in found.items() if time is not None}
        linear.append(times if len(times) == len(found) else {})
    # All problems of a solver at a time: a call of LightGBM's costs more than what it computes.
    for name, more in grown.trees.items():
        some = [i for i, times in enumerate(linear) if name in times]
        if some:
            numbers = np.array([_numbers(problems[i], name, linear[i][name]) for i in some])
            for i, correction in zip(some, SHRINK * more.predict(numbers), strict=True):
                linear[i][name] *= float(np.exp(correction))
    spread = {(line.solver, line.bits): line.spread for line in grown.lines}

    def apart(times: Times, bits: int) -> float:
        if len(times) < 2:
            return np.inf
        a, b = sorted(times, key=times.__getitem__)[:2]
        one, other = (grown.errors.get(name, spread.get((name, bits), spread.get((name, ANY_BITS), 0)))
                      for name in (a, b))
        return float(np.log(times[b] / times[a]) / max(np.hypot(one, other), 1e-9))

    return [(times, apart(times, problem.bits)) if times else None for times, problem in zip(
        linear, problems, strict=True)]


def _within(grown: Grown, problem: Measured) -> bool:
    return bool(np.all(grown.low <= problem.numbers) and np.all(problem.numbers <= grown.high))


def _table_times(lines: Sequence[_costs.Line]) -> Way:
    table = _by_bits(lines)

    def times(problem: Measured) -> Times | None:
        found = {name: _linear(problem, name, table) for name in problem.terms}
        return None if None in found.values() else {name: time for name, time in found.items() if time is not None}

    return times


def _index_times(problem: Measured) -> Times:
    return {name: -index for name, index in problem.indexes.items()}


def judge(problems: Sequence[Measured], folds: Sequence[tuple[Sequence[int], Sequence[int]]],
          only: frozenset[bytes] | None = None) -> tuple[dict[str, Judged], float]:
    """Return what choices cost by the index, by cost tables and by models that saw none of a problem's networks.

    Where a model is unsure its table chooses (in a row of its own, nobody), and where that has no answer the index.
    The margin is the one with the least mean regret.  Of several devices there are models, too, that saw no time of a
    problem's device; they have no table behind them, as on a device that is not of the family.  Problems that one
    solver takes count, too; of some keys only those, if `only` has them.
    """
    devices = sorted({problem.device for problem in problems})
    tables_: dict[int, Times | None] = {}
    models: dict[int, tuple[Times, float] | None] = {}
    strangers: dict[int, tuple[Times, float] | None] = {}
    for all_indexes, rest in folds:
        indexes = [i for i in all_indexes if only is None or _key.find_key(problems[i].problem) in only]
        if not indexes:
            continue
        grown = grow([problems[i] for i in rest])
        by_table = _table_times(grown.lines)
        tables_ |= {i: by_table(problems[i]) for i in indexes}
        models |= zip(indexes, _model_times(grown, [problems[i] for i in indexes]), strict=True)
        for device in devices if len(devices) > 1 else ():
            mine = [i for i in indexes if problems[i].device == device]
            others = [problems[i] for i in rest if problems[i].device != device]
            if any(problem.times for problem in others):
                strangers |= zip(mine, _model_times(grow(others), [problems[i] for i in mine]), strict=True)

    nothing: dict[int, Times | None] = dict.fromkeys(tables_)
    # Who chooses where the model is unsure is who will: a table that is installed, or the index.
    behind = tables_ if all(_costs.of(problems[i].on) is not None for i in tables_) else nothing
    ways = {margin: _judged(problems, _sure(models, margin), behind) for margin in MARGINS}
    margin = min(ways, key=lambda m: (float(ways[m].regrets.mean()) if ways[m].regrets.size else 0, m))
    found = {"throughput index": _judged(problems, nothing, nothing),
             "cost table": _judged(problems, tables_, tables_),
             "model": _judged(problems, _sure(models, margin), tables_),
             "model, no table": _judged(problems, _sure(models, margin), nothing)}
    for device in devices if len(devices) > 1 else ():
        own = {i: answer for i, answer in strangers.items() if problems[i].device == device}
        found[f"{device}: index"] = _judged(problems, dict.fromkeys(own), nothing)
        found[f"{device}: model"] = _judged(problems, _sure({i: models[i] for i in own}, margin), tables_)
        found[f"{device}, unseen"] = _judged(problems, _sure(own, margin), nothing)
    installed = {i: _installed(problems[i]) for i in tables_}
    if any(installed.values()):
        found["models in use now"] = _judged(problems, installed, nothing)
    found["Find, twice"] = _again(problems[i] for i in tables_)
    return found, margin


def _installed(problem: Measured) -> Times | None:
    """Return the times of the models that the device has already, which may have seen the problem; None without any."""
    models = _model.all_of(problem.on)
    offers = [offer for solver in registry.CONV if solver.dynamic and isinstance(
        offer := solver.offer(problem.on, problem.problem), Offer)] if models else []
    for model in models:
        times = model.predict(offers)
        if times is not None:
            return {offer.solver.name: time for offer, time in zip(offers, times, strict=True) if time >= 0}
    return None


def _sure(models: Mapping[int, tuple[Times, float] | None], margin: float) -> dict[int, Times | None]:
    """Return the answers of a model that is unsure where the two best are closer than a margin."""
    return {i: None if found is None or found[1] < margin else found[0] for i, found in models.items()}


def _again(problems: Iterable[Measured]) -> Judged:
    """Return what the winner of the first times costs by the last ones: what no choice can be better than."""
    regrets = []
    for problem in problems:
        if problem.twice is not None:
            first, last = problem.twice
            regrets.append(last[min(first, key=first.__getitem__)] / min(last.values()))
    return Judged(np.array(regrets), 0, 0)


def _judged(problems: Sequence[Measured], first: Mapping[int, Times | None],
            second: Mapping[int, Times | None]) -> Judged:
    regrets, unsure, unknown = [], 0, 0
    for i, answer in first.items():
        problem = problems[i]
        if not problem.times:
            continue
        unsure += answer is None
        times = answer or second[i] or _index_times(problem)
        name = min(times, key=times.__getitem__)
        if name in problem.times:
            regrets.append(problem.times[name] / min(problem.times.values()))
        else:
            unknown += 1
    return Judged(np.array(regrets), unsure, unknown)


def text(report: Mapping[str, Mapping[str, Any]], titles: Sequence[str]) -> list[str]:
    """Return the report as a table."""
    widths = {title: max(len(title) + 2, 9) for title in titles}
    first = max(map(len, report))
    lines = [" " * first + "".join(f"{title:>{widths[title]}}" for title in titles)]
    for way, row in report.items():
        lines.append(f"{way:<{first}}" + "".join(f"{_cell(row[title]):>{widths[title]}}" for title in titles))
    return lines


def _cell(value: float | int | str | None) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
