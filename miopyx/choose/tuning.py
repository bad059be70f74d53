"""Exhaustive search: which configuration of a tunable solver is the fastest on a problem.

`search` knows no device: it takes a function that measures a configuration.  `tune` binds it to a handle, a problem and
a solver.  What was tried is kept in a file, so that a search that was stopped goes on where it was; where the result is
kept is the caller's business.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from miopyx.engine._invoker import Invoker
from miopyx.errors import BadParmError, MIOpenError
from miopyx.values import config as environment
from miopyx.values import posix
from miopyx.values.configurations import Config, config_text
from miopyx.values.digests import blake2b

if TYPE_CHECKING:
    from miopyx._core import KernelSpec, Offer
    from miopyx.engine._handle import Handle

CUT_OFF = 2.0  # a configuration that many times slower than the best in its first run is not run again
NEAR = 1.10  # one within this factor of the best in its second run is measured well
RUNS = 10  # whose median then counts
RUNS_MS = 2000.0  # and no further run of a configuration once its runs took this long together
FINALISTS = 5  # of the fastest are measured again, in turns with the default
FINAL_ROUNDS = 10
FINAL_MS = 5000.0  # three rounds at least, and no further one once the runs took this long
GAIN = 0.98  # of the default's time: what is not below it is no gain but noise
WINS = 0.7  # of the rounds in which a winner must be faster: a busy moment moves a median
BATCH = 8  # configurations that are compiled together: limits of time and patience wait for them
REPORT_SECONDS = 3.0
_FORMAT = 1  # of the files
_MAX_FILE_BYTES = 1 << 24
_log = logging.getLogger("miopyx")


@dataclass(frozen=True)
class Limits:
    """When a search ends early.

    Attributes
    ----------
    iterations : int
        Most configurations to try beside the default one; 0: all.
    time_ms : float
        Milliseconds after which no further configuration is begun.
    patience : int
        Configurations without a new best after which to stop; 0: never.
    """

    iterations: int = 0
    time_ms: float = math.inf
    patience: int = 0

    def __post_init__(self) -> None:
        for name, value in (("iterations", self.iterations), ("time_ms", self.time_ms), ("patience", self.patience)):
            if not value >= 0:
                raise BadParmError("limit of a search", name, value, ">= 0")

    @staticmethod
    def from_environment() -> Limits:
        """MIOPEN_DEBUG_TUNING_ITERATIONS_MAX, MIOPEN_TUNING_TIME_MS_MAX and MIOPEN_TUNING_PATIENCE."""
        return Limits(environment.get("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX"),
                      environment.get("MIOPEN_TUNING_TIME_MS_MAX"), environment.get("MIOPEN_TUNING_PATIENCE"))


@dataclass(frozen=True)
class Result:
    """What a search found.

    Attributes
    ----------
    config : tuple of int
        The fastest configuration; the default one unless another was faster when both ran in turns.
    time, default_time : float
        Milliseconds of that configuration and of the default one, measured in turns; infinite for what failed.
    tried, failed, total : int
        Configurations that were measured or failed, earlier searches that this one continued included; how many of
        them failed; how many there were to try.
    ended_by : str
        "all" (nothing is left to try), "iterations", "time", "patience" or "interrupted".
    times : dict
        Milliseconds of every configuration that ran, as this search and those that it continued measured them.
    measured : dict
        Milliseconds of those that this search ran itself, and the number of runs: the median, or of two the less.
    """

    config: Config
    time: float
    default_time: float
    tried: int
    failed: int
    total: int
    ended_by: str
    times: dict[Config, float]
    measured: dict[Config, tuple[float, int]]

    @property
    def finished(self) -> bool:
        """Whether the search came to its end; one that time or the user stopped goes on the next time."""
        return self.ended_by in ("all", "iterations", "patience")


def configurations(table: Iterable[tuple[str, Sequence[int]]], accepts: Callable[[Config], bool]) -> list[Config]:
    """Return every combination of a table's values that `accepts` lets pass, the last parameter running fastest."""
    return [config for config in itertools.product(*(values for _, values in table)) if accepts(config)]


class Tried:
    """What a search has tried, one JSON object a line, in a file that outlives the process.

    Lines that are torn, foreign, or about configurations that the search does not know are passed over.  A file that
    cannot be written costs a warning and no result.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._torn = False

    @classmethod
    def of(cls, folder: Path | None, *identity: object) -> Tried:
        """Return the record of the search with this identity, whose parts must have a JSON form."""
        if folder is None:
            return cls(None)
        text = json.dumps([_FORMAT, *identity])
        return cls(folder / f"{blake2b(text.encode(), digest_size=16).hexdigest()}.jsonl")

    @property
    def begun(self) -> bool:
        """Whether there is something to continue."""
        return self._path is not None and self._path.exists()

    def load(self, default: Config, others: Iterable[Config]) -> dict[Config, float]:
        """Return the time of each of `others` that was tried as a multiple of the default's, infinite where it failed.

        The last line of a configuration counts.  Each search begins with a line about the default, which is what the
        times after it are compared with: the machine may have been busier in one than in another.
        """
        if self._path is None:
            return {}
        try:
            with open(self._path, "rb") as file:
                data = environment.read_most(file, _MAX_FILE_BYTES)
        except OSError:
            return {}
        self._torn = not data.endswith(b"\n")
        texts = {config_text(config): config for config in (default, *others)}
        tried, unit = {}, 1.0
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line)
                config, ms = texts[entry["config"]], None if entry["ms"] is None else float(entry["ms"])
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
                continue
            if ms is not None and not 0 < ms < math.inf:
                continue
            if config == default:
                unit = ms or 1.0
            else:
                tried[config] = math.inf if ms is None else ms / unit
        return tried

    def add(self, config: Config, ms: float) -> None:
        """Add a line; it is in the file when this returns, should the process be killed."""
        if self._path is None:
            return
        text = json.dumps({"config": config_text(config), "ms": ms if math.isfinite(ms) else None}) + "\n"
        line = (("\n" if self._torn else "") + text).encode()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # One write at the end of the file: two searches at once do no harm.
            descriptor = posix.open_plain(self._path, posix.APPEND)
            try:
                self._torn = os.write(descriptor, line) < len(line)
            finally:
                os.close(descriptor)
        except OSError as e:
            _log.warning("a search cannot be continued later: %s: %s", self._path, e.strerror)
            self._path = None

    def forget(self) -> None:
        """Remove the file: nothing is left to continue."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as e:
                _log.info("cannot be removed: %s: %s", self._path, e.strerror)


class _Progress:
    """A line every few seconds, in MIOpen's form, on a terminal or in the log."""

    def __init__(self, name: str, total: int, seconds: float, report: Callable[[str], None],
                 clock: Callable[[], float]) -> None:
        self.name, self.total, self.seconds, self.report, self.clock = name, total, seconds, report, clock
        self.began = self.last = clock()
        self.done = 0  # by this search
        self.recent: list[tuple[float, int, Config]] = []

    def step(self, number: int, failed: int, best: float, config: Config, ms: float) -> None:
        """One more was tried, which makes `number` with the default, #0; `best` is the best time so far."""
        self.done += 1
        self.recent.append((ms, number - 1, config))
        now = self.clock()
        if now - self.last < REPORT_SECONDS:
            return
        ms, place, config = min(self.recent)
        eta = min((now - self.began) / self.done * (self.total - number), self.seconds - (now - self.began))
        self.report(f"{self.name}: {number}/{failed}/{self.total} {best:.6g}, best within recent {len(self.recent)}: "
                    f"{ms:.6g} #{place} {config_text(config)}, ETA: {eta:.1f} sec.")
        self.last, self.recent = now, []


def _reporter() -> Callable[[str], None]:
    """Lines of progress: who sits at a terminal sees them unless warnings are off, a log has them at level info."""
    level = logging.WARNING if sys.stderr is not None and sys.stderr.isatty() else logging.INFO
    return lambda line: _log.log(level, "%s", line, extra={"function": "search"})


def search(
    name: str,
    configs: Iterable[Config],
    default: Config,
    measure: Callable[[Config], float],
    start: Config | None = None,
    *,
    prepare: Callable[[list[Config]], Iterable[Config]] | None = None,
    limits: Limits | None = None,
    tried: Tried | None = None,
    report: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    rng: random.Random | None = None,
) -> Result:
    """Measure configurations in random order, `start` before the others, and return the fastest.

    The default is measured first.  Each other one runs twice, or once where that shows that it is far behind; who then
    comes close to the best runs on, and the median of those runs counts.  In the end the fastest few and the default
    run in turns; the winner must beat the default there.  A KeyboardInterrupt ends the trying, not that last part.

    Parameters
    ----------
    name : str
        Begins each line of progress.
    configs : iterable of tuple of int
        What to try.
    default : tuple of int
        What is taken where nothing else is faster; it need not be among `configs`.
    measure : callable
        Runs a configuration once and returns its milliseconds.  A MIOpenError, or a time that is not a positive
        number, counts as a failure of that configuration.
    start : tuple of int, optional
        The one of `configs` that is tried first: what somebody predicts to be the fastest.
    prepare : callable, optional
        Gets the next configurations, before they are measured, to compile their programs together; returns those that
        failed.
    limits : Limits, optional
        When to end early.
    tried : Tried, optional
        What earlier searches tried counts as tried, and what this one tries is added.  The record is removed when
        nothing is left to try.
    report : callable, optional
        Gets each line of progress; by default they go to a terminal at stderr, else to the log.
    clock, rng
        Seconds, and what the order is drawn from.
    """
    limits, tried, report = limits or Limits(), tried or Tried(None), report or _reporter()
    others = [config for config in dict.fromkeys(configs) if config != default]
    earlier = tried.load(default, others)
    left = [config for config in others if config not in earlier]
    (rng or random.Random()).shuffle(left)
    left.sort(key=lambda config: config != start)
    ended_by = "all"
    if limits.iterations and limits.iterations < len(others):
        left, ended_by = left[:max(0, limits.iterations - len(earlier))], "iterations"
    total = 1 + len(earlier) + len(left)
    report(f"{name}: Searching the best solution among {total}...")
    progress = _Progress(name, total, limits.time_ms / 1e3, report, clock)
    trial = _Trial(measure, tried, progress)
    times = trial.times
    try:
        trial.begin(default, earlier)
        ended_by = _try_all(trial, left, prepare, limits, clock, progress.began) or ended_by
    except KeyboardInterrupt:
        ended_by = "interrupted"
    best, time_ms, default_time = _final(measure, times, default)
    result = Result(best, time_ms, default_time, len(times), sum(math.isinf(ms) for ms in times.values()), total,
                    ended_by, {config: ms for config, ms in times.items() if math.isfinite(ms)}, trial.measured)
    if result.finished:
        tried.forget()
    place = list(times).index(best) if best in times else 0
    report(f"{name}: Done: {result.tried}/{result.failed}/{total}, best #{place} {time_ms:.6g} {config_text(best)}")
    if math.isfinite(default_time):
        report(f"{name}: ...Score: {default_time / time_ms:.3g}")
    return result


class _Trial:
    """Measures one configuration after the other and keeps what came out."""

    def __init__(self, measure: Callable[[Config], float], tried: Tried, progress: _Progress) -> None:
        self.run, self.tried, self.progress = measure, tried, progress
        self.times: dict[Config, float] = {}
        self.measured: dict[Config, tuple[float, int]] = {}
        self.best = math.inf

    def begin(self, default: Config, earlier: Mapping[Config, float]) -> None:
        """Measure the default, and take over what earlier searches measured as multiples of it."""
        ms = self._time(default, math.inf)
        self.tried.add(default, ms)
        unit = ms if math.isfinite(ms) else 1.0
        self.times[default] = ms
        self.times.update((config, time * unit) for config, time in earlier.items())
        self.best = min(self.times.values())

    def measure(self, config: Config) -> bool:
        """Measure a configuration; return whether it is the best so far."""
        return self.keep(config, self._time(config, self.best))

    def keep(self, config: Config, ms: float) -> bool:
        """Note the milliseconds of a configuration, infinite for a failure; return whether it is the best so far."""
        gained = ms < self.best
        self.best = min(self.best, ms)
        self.times[config] = ms
        self.tried.add(config, ms)
        failed = sum(math.isinf(t) for t in self.times.values())
        self.progress.step(len(self.times), failed, self.best, config, ms)
        return gained

    def _time(self, config: Config, best: float) -> float:
        ms, runs = self._runs(config, best)
        if math.isfinite(ms):
            self.measured[config] = ms, runs
        return ms

    def _runs(self, config: Config, best: float) -> tuple[float, int]:
        first = _once(self.run, config)  # warms up, and is far off where something is
        if first > CUT_OFF * best or math.isinf(first):
            return first, 1
        runs = [_once(self.run, config)]
        if runs[0] > NEAR * best:
            return min(first, runs[0]), 2
        while len(runs) < RUNS and sum(runs) < RUNS_MS:
            runs.append(_once(self.run, config))
        return statistics.median(runs), len(runs)


def _once(measure: Callable[[Config], float], config: Config) -> float:
    """Milliseconds of one run, infinite for a failure."""
    try:
        ms = measure(config)
    except MIOpenError as e:
        _log.info("configuration %s failed: %s", config_text(config), e)
        return math.inf
    return ms if 0 < ms < math.inf else math.inf


def _try_all(trial: _Trial, left: list[Config], prepare: Callable[[list[Config]], Iterable[Config]] | None,
             limits: Limits, clock: Callable[[], float], began: float) -> str | None:
    """Measure what is left; return which limit ended it early."""
    without_gain = 0
    for first in range(0, len(left), BATCH):
        batch = left[first:first + BATCH]
        failed: set[Config] = set()
        patient = not limits.patience or without_gain < limits.patience
        if patient and (clock() - began) * 1e3 < limits.time_ms and prepare is not None:
            failed = set(prepare(batch))
        for config in batch:
            if (clock() - began) * 1e3 >= limits.time_ms:
                return "time"
            if limits.patience and without_gain >= limits.patience:
                return "patience"
            gained = trial.keep(config, math.inf) if config in failed else trial.measure(config)
            without_gain = 0 if gained else without_gain + 1
    return None


def _final(measure: Callable[[Config], float], times: Mapping[Config, float],
           default: Config) -> tuple[Config, float, float]:
    """Run the fastest few and the default in turns; return the winner, its milliseconds and the default's.

    Where even the default fails, any other that ran is better.
    """
    others = sorted((c for c in times if c != default and math.isfinite(times[c])), key=times.__getitem__)
    finalists = [default, *others[:FINALISTS]]
    if not others:
        ms = times.get(default, math.inf)
        return default, ms, ms
    runs: dict[Config, list[float]] = {config: [] for config in finalists}
    for round_ in range(FINAL_ROUNDS):
        if round_ >= 3 and sum(ms for r in runs.values() for ms in r if math.isfinite(ms)) > FINAL_MS:
            break
        for config in finalists:
            if math.inf not in runs[config]:
                runs[config].append(_once(measure, config))
    medians = {config: math.inf if math.inf in r else statistics.median(r) for config, r in runs.items()}
    best = min(finalists, key=medians.__getitem__)
    wins = sum(ms < other for ms, other in zip(runs[best], runs[default], strict=False))
    if math.isfinite(medians[default]) and (
            medians[best] >= GAIN * medians[default] or wins < WINS * len(runs[default])):
        best = default
    return best, medians[best], medians[default]


class _Failure(Protocol):
    @property
    def spec(self) -> KernelSpec: ...


def tune(
    handle: Handle,
    offer: Offer,
    run: Callable[[Invoker], float],
    start: Config | None = None,
    *,
    ahead: Callable[[Handle, list[KernelSpec]], Iterable[_Failure]] | None = None,
    folder: Path | None = None,
    build: str = "",
    limits: Limits | None = None,
) -> Result:
    """Search for the fastest configuration of a solver's offer on a handle.

    Parameters
    ----------
    run : callable
        Runs an invoker once on the caller's buffers and returns its milliseconds.
    start : tuple of int, optional
        Configuration that is tried first.
    ahead : callable, optional
        Builds the programs of many kernels and returns those that failed (`compiling.ahead`); by default each is built
        when it is measured.
    folder : Path, optional
        Where searches that were stopped keep what they tried.
    build : str
        What the times depend on beside the device; what another build tried is not continued.
    limits : Limits, optional
        By default those of the environment.
    """
    @lru_cache(maxsize=2 * FINALISTS)
    def prepared(config: Config) -> Invoker:
        return Invoker(handle, offer, config)

    def measure(config: Config) -> float:
        return run(prepared(config))

    def prepare(batch: list[Config]) -> list[Config]:
        assert ahead is not None
        specs = [(config, step.spec) for config in batch for step in offer.solution(config).steps
                 if step.spec is not None]
        failures = {(f.spec.file, f.spec.options) for f in ahead(handle, [spec for _, spec in specs])}
        return [config for config, spec in specs if (spec.file, spec.options) in failures]

    return search(
        offer.solver.name, configurations(offer.parameters(), offer.accepts), offer.default_config(), measure, start,
        prepare=None if ahead is None else prepare, limits=limits or Limits.from_environment(),
        tried=_tried(offer, folder, build),
    )


def unfinished(offer: Offer, folder: Path | None, build: str = "") -> bool:
    """Whether a search that `tune` would continue was stopped before its end."""
    return _tried(offer, folder, build).begun


def _tried(offer: Offer, folder: Path | None, build: str) -> Tried:
    device = offer.device
    return Tried.of(folder, device.name, device.info.driver_version, build, offer.solver.name, offer.problem.key.hex(),
                    offer.parameters())
