"""Searches: every rule with fakes in place of a device and a clock, and real ones on every OpenCL device.

A fake has a speed for each configuration; "running" it advances the fake clock by that much.
"""

from __future__ import annotations

import errno
import itertools
import json
import logging
import math
import random
import signal
import subprocess
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from problems import Problem
from solver_checks import arguments, immediate, plan

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._core import Device
from miopyx.choose import tuning
from miopyx.choose.tuning import Limits, Tried, configurations, search
from miopyx.engine._invoker import Invoker
from miopyx.errors import BadParmError, InvalidValueError, UnknownError
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.tools import costs
from miopyx.values import config
from miopyx.values.configurations import config_text, parse_config

DEFAULT = (0, 0)
FINAL_RUNS = (1 + tuning.FINALISTS) * tuning.FINAL_ROUNDS
TABLE = [(a, b) for a in range(5) for b in range(4)]  # 20 with the default


class Fake:
    """A device and a clock; `times` are milliseconds, None for a configuration that fails."""

    def __init__(self, times, noise=None):
        self.times, self.noise = times, noise
        self.now, self.runs, self.prepared, self.lines = 0.0, [], [], []
        self.interrupt_at = None

    def measure(self, values):
        if self.interrupt_at is not None and len(self.runs) >= self.interrupt_at:
            self.interrupt_at = None
            raise KeyboardInterrupt
        self.runs.append(values)
        ms = self.times[values]
        if ms is None:
            raise UnknownError("does not build")
        self.now += ms / 1e3
        return ms if self.noise is None else ms * self.noise()

    def prepare(self, batch):
        self.prepared.append(list(batch))
        return []

    def search(self, configs=TABLE, **options):
        options = {"prepare": self.prepare, "rng": random.Random(1), **options}
        return search("Solver", configs, DEFAULT, self.measure, report=self.lines.append, clock=lambda: self.now,
                      **options)

    def firsts(self):
        """The configurations in the order in which each was run first."""
        return list(dict.fromkeys(self.runs))


def speeds(rng, fastest=None, **others):
    """Different times of 10 to 100 ms for the whole table, and one at `fastest`."""
    times = {c: float(rng.uniform(20, 100)) for c in TABLE}
    times[DEFAULT] = 50.0
    if fastest is not None:
        times[fastest] = 10.0
    return times


def slow_speeds():
    """Times that add up to more than 900 ms even where every configuration runs only once."""
    return {c: 50.0 + i for i, c in enumerate(TABLE)}


def test_text_of_a_configuration():
    assert config_text((64, 3, 256)) == "64,3,256"
    for values in [(64, 3, 256), (0,), (-1, 7), (10**17,)]:
        assert parse_config(config_text(values)) == values
    for text in ["", "64,", ",3", "64, 3", " 64", "64\n", "1.5", "0x10", "a", "64;3", "1_0", "٣", "1" * 19, "--1",
                 "1,,2"]:
        assert parse_config(text) is None, text


def test_odometer():
    table = (("A", (1, 2)), ("B", (10, 20, 30)))
    assert configurations(table, lambda c: True) == [(1, 10), (1, 20), (1, 30), (2, 10), (2, 20), (2, 30)]
    assert configurations(table, lambda c: c[0] * c[1] <= 20) == [(1, 10), (1, 20), (2, 10)]
    assert configurations((), lambda c: True) == [()]


def test_the_fastest_is_found(rng):
    fastest = TABLE[int(rng.integers(1, len(TABLE)))]
    fake = Fake(speeds(rng, fastest))
    result = fake.search()
    assert (result.config, result.time, result.default_time) == (fastest, 10.0, 50.0)
    assert (result.tried, result.failed, result.total, result.ended_by) == (20, 0, 20, "all")
    assert result.finished
    assert result.times == fake.times
    assert fake.firsts()[0] == DEFAULT
    assert set(fake.runs) == set(TABLE)


def test_the_order_is_random(rng):
    orders = []
    for seed in rng.integers(0, 2**31, 3):
        fake = Fake(speeds(rng))
        fake.search(rng=random.Random(int(seed)))
        orders.append(tuple(fake.firsts()))
    assert len(set(orders)) > 1
    assert all(order[0] == DEFAULT and sorted(order) == TABLE for order in orders)


def test_what_is_far_behind_runs_once_and_what_is_close_ten_times():
    fake = Fake({DEFAULT: 10.0, (0, 1): 21.0, (0, 2): 15.0, (0, 3): 10.9})
    result = fake.search(list(fake.times))
    # 11 of the default, then its ten rounds with the three finalists.
    assert {c: fake.runs.count(c) for c in fake.times} == {DEFAULT: 21, (0, 1): 11, (0, 2): 12, (0, 3): 21}
    assert result.config == DEFAULT
    assert result.time == result.default_time == 10.0


def test_the_first_run_of_a_good_one_may_be_slow():
    seen = set()

    def cold(values):
        first = values not in seen
        seen.add(values)
        return {DEFAULT: 10.0, (0, 1): 5.0}[values] * (1.9 if first else 1.0)

    assert search("Solver", [(0, 1)], DEFAULT, cold, report=lambda line: None).config == (0, 1)


def test_the_median_counts_not_the_luckiest_run():
    times = {DEFAULT: 10.0, (0, 1): 10.0, (0, 2): 8.0}
    lucky = itertools.chain([10.0, 1.0], itertools.repeat(10.0))

    def measure(values):
        return next(lucky) if values == (0, 1) else times[values]

    result = search("Solver", list(times), DEFAULT, measure, report=lambda line: None)
    assert (result.config, result.times[0, 1]) == ((0, 2), 10.0)


@pytest.mark.parametrize(("slow_rounds", "winner"), [(3, (0, 1)), (4, DEFAULT)])
def test_a_winner_is_faster_in_most_rounds(slow_rounds, winner):
    """Its median is lower either way."""
    times = itertools.chain([9.0] * 11, [9.0] * (tuning.FINAL_ROUNDS - slow_rounds), itertools.repeat(30.0))

    def measure(values):
        return 10.0 if values == DEFAULT else next(times)

    assert search("Solver", [(0, 1)], DEFAULT, measure, report=lambda line: None).config == winner


def test_a_winner_must_beat_the_default_in_the_end(rng):
    """Better by luck while the others were tried, not when both run in turns."""
    calls = dict.fromkeys([DEFAULT, (0, 1)], 0)

    def measure(values):
        calls[values] += 1
        return 10.0 if values == DEFAULT or calls[values] > 11 else 5.0

    result = search("Solver", [(0, 1)], DEFAULT, measure, report=lambda line: None)
    assert result.times[0, 1] == 5.0
    assert (result.config, result.time, result.default_time) == (DEFAULT, 10.0, 10.0)


@pytest.mark.parametrize(("time", "winner"), [(9.9, DEFAULT), (9.7, (0, 1))])
def test_a_gain_below_two_in_a_hundred_is_none(time, winner):
    assert Fake({DEFAULT: 10.0, (0, 1): time}).search([(0, 1)]).config == winner


def test_no_difference_but_noise_gives_the_default(rng):
    """Noise of 3 % passes for a gain of 2 % in about 21 of 100 searches."""
    taken = 0
    for _ in range(60):
        fake = Fake(dict.fromkeys(TABLE, 10.0), noise=lambda: float(rng.lognormal(0, 0.03)))
        taken += fake.search().config != DEFAULT
    assert taken <= 30  # by chance less than once in a million


def test_finalists_run_in_turns(rng):
    fake = Fake(speeds(rng, (1, 1)))
    fake.search()
    last = fake.runs[-FINAL_RUNS:]
    each = 1 + tuning.FINALISTS
    rounds = {tuple(last[i:i + each]) for i in range(0, len(last), each)}
    assert len(rounds) == 1
    assert set(next(iter(rounds))) == {
        DEFAULT, *sorted(set(TABLE) - {DEFAULT}, key=fake.times.get)[:tuning.FINALISTS]}


def test_long_runs_are_few(rng):
    fake = Fake({DEFAULT: 4000.0, (0, 1): 3000.0})
    assert fake.search([(0, 1)]).config == (0, 1)
    assert len(fake.runs) <= 4 + 2 * 3


def test_failures_are_counted_and_end_nothing(rng):
    times = speeds(rng, (4, 3))
    broken = [(1, 1), (2, 2), (3, 3)]
    times.update(dict.fromkeys(broken, None))
    fake = Fake(times)
    result = fake.search()
    assert (result.config, result.tried, result.failed) == ((4, 3), 20, 3)
    assert set(result.times) == set(TABLE) - set(broken)
    assert all(fake.runs.count(c) == 1 for c in broken)


@pytest.mark.parametrize("nonsense", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_a_failure(nonsense):
    result = Fake({DEFAULT: 10.0, (0, 1): nonsense}).search([(0, 1)])
    assert (result.config, result.failed) == (DEFAULT, 1)


def test_the_default_may_fail(rng):
    times = speeds(rng, (2, 1))
    times[DEFAULT] = None
    result = Fake(times).search()
    assert (result.config, result.time, result.default_time, result.failed) == ((2, 1), 10.0, math.inf, 1)


def test_all_may_fail(tmp_path):
    fake = Fake(dict.fromkeys(TABLE, None))
    result = fake.search(tried=Tried.of(tmp_path, "all"))
    assert (result.config, result.time, result.tried, result.failed, result.times) == (DEFAULT, math.inf, 20, 20, {})
    assert not any("Score" in line for line in fake.lines)


def test_nothing_to_tune():
    result = Fake({DEFAULT: 10.0}).search([])
    assert (result.config, result.time, result.tried, result.ended_by) == (DEFAULT, 10.0, 1, "all")


def test_limit_of_iterations(rng):
    fake = Fake(speeds(rng))
    result = fake.search(limits=Limits(iterations=7))
    assert (result.tried, result.total, result.ended_by) == (8, 8, "iterations")
    assert len(set(fake.runs)) == 8
    assert fake.search(limits=Limits(iterations=19)).ended_by == "all"


def test_limit_of_time(rng):
    fake = Fake(speeds(rng))
    result = fake.search(limits=Limits(time_ms=1000))
    assert result.ended_by == "time"
    assert not result.finished
    assert 2 <= result.tried < 20
    assert len(fake.prepared) == 1
    none = Fake(speeds(rng))
    assert none.search(limits=Limits(time_ms=0)).tried == 1
    assert none.prepared == []


def test_patience(rng):
    fake = Fake({c: 50.0 + i for i, c in enumerate(TABLE)})
    result = fake.search(limits=Limits(patience=6))
    assert (result.ended_by, result.tried) == ("patience", 7)
    improving = [(1, i) for i in range(12)]
    fake = Fake({DEFAULT: 50.0, **{c: 40.0 - i for i, c in enumerate(improving)}})
    shuffled = SimpleNamespace(shuffle=lambda configs: configs.sort())
    assert fake.search(improving, limits=Limits(patience=1), rng=shuffled).ended_by == "all"


def test_limits_of_the_environment(monkeypatch):
    assert Limits.from_environment() == Limits(0, 7200000, 0)
    monkeypatch.setenv("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "5")
    monkeypatch.setenv("MIOPEN_TUNING_TIME_MS_MAX", "0x10")
    monkeypatch.setenv("MIOPEN_TUNING_PATIENCE", "3")
    config.forget()
    assert Limits.from_environment() == Limits(5, 16, 3)
    monkeypatch.setenv("MIOPEN_TUNING_PATIENCE", "-3")
    config.forget()
    with pytest.raises(InvalidValueError) as raised:
        Limits.from_environment()
    assert (raised.value.parameter, raised.value.value) == ("MIOPEN_TUNING_PATIENCE", "-3")


@pytest.mark.parametrize("wrong", [{"iterations": -1}, {"time_ms": -0.5}, {"time_ms": math.nan}, {"patience": -1}])
def test_limits_are_not_negative(wrong):
    with pytest.raises(BadParmError):
        Limits(**wrong)


def test_compiled_together_before_they_run(rng):
    many = [(a, b) for a in range(10) for b in range(10)]
    fake = Fake({c: 50.0 + i for i, c in enumerate(many)})
    fake.search(many)
    assert sorted(itertools.chain(*fake.prepared)) == many[1:]
    assert [len(batch) for batch in fake.prepared] == [8] * 12 + [3]
    assert fake.firsts() == [DEFAULT, *itertools.chain(*fake.prepared)]
    few = Fake(fake.times)
    few.search(many, limits=Limits(patience=1))
    assert len(few.prepared) == 1


def test_what_failed_to_compile_is_not_run(rng):
    fake = Fake(speeds(rng, (4, 3)))
    result = fake.search(prepare=lambda batch: [c for c in batch if c[1] == 3])
    assert result.failed == 5
    assert not any(c[1] == 3 for c in fake.runs)
    assert result.config != (4, 3)


def test_progress(rng):
    fake = Fake({c: 300.0 - i for i, c in enumerate(TABLE)})
    fake.times[2, 2] = None
    shuffled = SimpleNamespace(shuffle=lambda configs: configs.sort())
    fake.search(rng=shuffled)
    assert fake.lines[0] == "Solver: Searching the best solution among 20..."
    # Each takes more than 2 s: a line after the first, then after every second one.  #0 is the default.
    assert fake.lines[1].startswith("Solver: 2/0/20 299, best within recent 1: 299 #1 0,1, ETA: ")
    assert fake.lines[2].startswith("Solver: 4/0/20 297, best within recent 2: 297 #3 0,3, ETA: ")
    eta = float(fake.lines[2].split("ETA: ")[1].removesuffix(" sec."))
    assert 16 * 2 < eta < 16 * 4
    assert any("/1/20" in line for line in fake.lines[2:-2])
    assert fake.lines[-2] == "Solver: Done: 20/1/20, best #19 281 4,3"
    assert fake.lines[-1] == "Solver: ...Score: 1.07"
    assert all(math.isfinite(float(line.split("ETA: ")[1].removesuffix(" sec."))) for line in fake.lines[1:-2])


def test_no_line_within_three_seconds(rng):
    fake = Fake({c: 0.01 + i for i, c in enumerate(TABLE)})
    fake.search()
    assert len(fake.lines) == 3


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_go_to_a_terminal_else_to_the_log(terminal, monkeypatch, caplog):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with caplog.at_level(logging.INFO, logger="miopyx"):
        search("Solver", [(0, 1)], DEFAULT, lambda values: 1.0)
    level = logging.WARNING if terminal else logging.INFO
    logged = [r.getMessage() for r in caplog.records if r.levelno == level]
    assert "Solver: Searching the best solution among 2..." in logged


def test_interrupt_ends_the_search_with_what_it_has(rng, tmp_path):
    fake = Fake(speeds(rng))
    fake.times = {c: (10.0 if c in ((1, 0), (1, 1), (1, 2), (1, 3)) else t) for c, t in fake.times.items()}
    fake.interrupt_at = 60
    result = fake.search(tried=Tried.of(tmp_path, "x"), rng=SimpleNamespace(shuffle=lambda c: c.sort()))
    assert (result.ended_by, result.finished) == ("interrupted", False)
    assert 2 <= result.tried < 20
    assert result.config in ((1, 0), (1, 1), (1, 2), (1, 3))
    assert len(read(tmp_path)) == result.tried  # for the next one
    again = Fake(fake.times)
    end = again.search(tried=Tried.of(tmp_path, "x"))
    assert (end.tried, end.ended_by) == (20, "all")


def test_a_second_interrupt_passes(rng):
    def measure(values):
        raise KeyboardInterrupt

    assert search("Solver", TABLE, DEFAULT, measure, report=lambda line: None).tried == 0

    runs = []

    def later(values):
        runs.append(values)
        if len(runs) in (40, 45):
            raise KeyboardInterrupt
        return 10.0

    with pytest.raises(KeyboardInterrupt):
        search("Solver", TABLE, DEFAULT, later, report=lambda line: None)
    assert len(runs) == 45


# What was tried is kept.


def read(folder):
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def test_a_search_goes_on_where_it_stopped(rng, tmp_path):
    limit = Limits(time_ms=2500)
    times = {c: 50.0 + i for i, c in enumerate(TABLE)}
    seen, tried = [], 1
    for _ in range(30):
        fake = Fake(times)
        result = fake.search(limits=limit, tried=Tried.of(tmp_path, "x"), rng=random.Random())
        new = set(itertools.chain(*fake.prepared)) & set(fake.runs) - {DEFAULT}
        seen += [c for c in fake.firsts() if c != DEFAULT and c not in seen]
        assert result.tried >= tried
        tried = result.tried
        assert tried == 1 + len(seen), new
        if result.finished:
            break
    assert result.finished
    assert (result.tried, result.total, sorted(result.times)) == (20, 20, TABLE)
    assert list(tmp_path.iterdir()) == []


def test_patience_is_an_end(rng, tmp_path):
    result = Fake({c: 50.0 + i for i, c in enumerate(TABLE)}).search(limits=Limits(patience=3),
                                                                    tried=Tried.of(tmp_path, "x"))
    assert (result.ended_by, result.finished) == ("patience", True)
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_run_is_measured(rng, tmp_path):
    times = {c: 50.0 + i for i, c in enumerate(TABLE)}
    first = Fake(times).search(limits=Limits(time_ms=800), tried=Tried.of(tmp_path, "x"))
    second = Fake(times).search(tried=Tried.of(tmp_path, "x"))
    assert not first.finished
    assert set(first.measured) == set(first.times)
    assert set(second.measured) & set(first.measured) == {DEFAULT}
    assert set(second.measured) | set(first.measured) == set(TABLE)
    assert all(1 <= runs <= tuning.RUNS for _, runs in second.measured.values())


def test_what_was_tried_runs_again_only_in_the_final(rng, tmp_path):
    times = {**slow_speeds(), (3, 3): 10.0}
    partial = Fake(times).search(limits=Limits(time_ms=800), tried=Tried.of(tmp_path, "x"))
    assert not partial.finished
    second = Fake(times)
    result = second.search(tried=Tried.of(tmp_path, "x"))
    assert result.config == (3, 3)
    before_final = second.runs[:-FINAL_RUNS]
    assert not set(before_final) & set(partial.times) - {DEFAULT}


def test_failures_are_not_tried_again(rng, tmp_path):
    times = speeds(rng)
    times.update(dict.fromkeys([c for c in TABLE if c[0] == 2], None))
    with_all = Tried.of(tmp_path, "x")
    for c in [c for c in TABLE if c[0] == 2]:
        with_all.add(c, math.inf)
    fake = Fake(times)
    result = fake.search(tried=Tried.of(tmp_path, "x"))
    assert result.failed == 4
    assert not any(c[0] == 2 for c in fake.runs)


def test_the_iterations_limit_counts_earlier_searches(rng, tmp_path):
    fake = Fake(speeds(rng))
    fake.search(limits=Limits(iterations=10, time_ms=1500), tried=Tried.of(tmp_path, "x"))
    again = Fake(fake.times)
    result = again.search(limits=Limits(iterations=10), tried=Tried.of(tmp_path, "x"))
    assert (result.tried, result.ended_by) == (11, "iterations")
    assert list(tmp_path.iterdir()) == []


def test_a_busier_machine_does_not_make_earlier_times_look_good(rng, tmp_path):
    """All times are three times as long in the second search, in which the best is tried."""
    tried = Tried.of(tmp_path, "x")
    tried.add(DEFAULT, 50.0)
    tried.add((1, 1), 30.0)
    slow = {DEFAULT: 150.0, (1, 1): 90.0, (1, 2): 60.0}
    result = Fake(slow).search([(1, 1), (1, 2)], tried=Tried.of(tmp_path, "x"))
    assert (result.config, result.times[1, 1]) == ((1, 2), 90.0)


@pytest.mark.parametrize("other", [("y",), ("x", [1]), ("x", None)])
def test_searches_do_not_mix(rng, tmp_path, other):
    assert not Fake(slow_speeds()).search(limits=Limits(time_ms=800), tried=Tried.of(tmp_path, "x")).finished
    assert Tried.of(tmp_path, *other).load(DEFAULT, TABLE) == {}
    assert Tried.of(tmp_path, "x").load(DEFAULT, TABLE) != {}


def test_odd_lines_are_passed_over(tmp_path, rng):
    tried = Tried.of(tmp_path, "x")
    tried.add(DEFAULT, 10.0)
    tried.add((1, 1), 5.0)
    path, = tmp_path.iterdir()
    odd = [b"", b"\xff\xfe\x00", b"null", b"[]", b"{}", b'{"config": "1,2"}', b'{"config": [1, 2], "ms": 1}',
           b'{"config": "1,2", "ms": "soon"}', b'{"config": "1,2", "ms": -1}', b'{"config": "1,2", "ms": 0}',
           b'{"config": "1,2", "ms": NaN}', b'{"config": "1,2", "ms": 1e999}', b'{"config": "9,9", "ms": 1}',
           b'{"config": "1,2", "ms": 1' + b"0" * 400 + b"}", b"[" * 100_000, b'{"config": "1,2", "ms": {}}',
           rng.bytes(200).replace(b"\n", b"")]
    with path.open("ab") as file:
        file.write(b"\n".join(odd) + b"\n")
    tried.add((2, 2), 20.0)
    with path.open("ab") as file:
        file.write(b'{"config": "3,3", "m')  # killed while it wrote
    fresh = Tried.of(tmp_path, "x")
    assert fresh.load(DEFAULT, TABLE) == {(1, 1): 0.5, (2, 2): 2.0}
    fresh.add((3, 2), 10.0)
    assert Tried.of(tmp_path, "x").load(DEFAULT, TABLE) == {(1, 1): 0.5, (2, 2): 2.0, (3, 2): 1.0}


def test_every_truncation_of_the_file_can_be_continued(rng, tmp_path):
    tried = Tried.of(tmp_path, "x")
    tried.add(DEFAULT, 10.0)
    for c in TABLE[1:6]:
        tried.add(c, 20.0)
    path, = tmp_path.iterdir()
    data = path.read_bytes()
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        fresh = Tried.of(tmp_path, "x")
        whole = fresh.load(DEFAULT, TABLE)
        assert set(whole) <= set(TABLE[1:6])
        fresh.add((4, 3), 30.0)
        assert set(Tried.of(tmp_path, "x").load(DEFAULT, TABLE)) == set(whole) | {(4, 3)}


@pytest.mark.parametrize("why", ["a file in place of the folder", "full", "not writable"])
def test_without_a_place_for_the_file(rng, tmp_path, caplog, monkeypatch, why):
    folder = tmp_path / "searches"
    if why == "a file in place of the folder":
        folder.write_text("")
    elif why == "full":
        def full(*args):
            raise OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(tuning.os, "write", full)
    else:
        def refuse(*args, **options):
            raise PermissionError(errno.EACCES, "Permission denied")
        monkeypatch.setattr(tuning.os, "open", refuse)
    fake = Fake(speeds(rng, (1, 2)))
    with caplog.at_level(logging.WARNING, logger="miopyx"):
        assert fake.search(tried=Tried.of(folder, "x")).config == (1, 2)
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


def test_no_folder_no_file(rng):
    assert Fake(speeds(rng, (1, 2))).search(tried=Tried.of(None, "x")).config == (1, 2)


KILLED = """
import os, signal, sys
from pathlib import Path
from miopyx.choose.tuning import Tried, search

runs = 0
def measure(values):
    global runs
    runs += 1
    if runs == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return 50.0 + values[0]

search("Solver", [(i,) for i in range(20)], (0,), measure, tried=Tried.of(Path(sys.argv[1]), "x"))
"""


def test_a_killed_search_goes_on(tmp_path, rng):
    end = int(rng.integers(24, 60))  # the default and another may each run eleven times before one is known
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, str(tmp_path), str(end)], check=False)
    assert done.returncode == -signal.SIGKILL
    lines = read(tmp_path)
    runs = []

    def measure(values):
        runs.append(values)
        return 50.0 + values[0]

    result = search("Solver", [(i,) for i in range(20)], (0,), measure, tried=Tried.of(tmp_path, "x"),
                    report=lambda line: None)
    assert (result.tried, result.ended_by) == (20, "all")
    tried_before = {parse_config(line["config"]) for line in lines} - {(0,)}
    again = set(runs[:-FINAL_RUNS]) & tried_before
    assert tried_before
    assert not again


# Real solvers

DTYPE = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "half": np.dtype("f2"), "float": np.dtype("f4"),
         "double": np.dtype("f8"), "int8": np.dtype("i1")}
TYPES = {"half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16", "int8": "int8"}
# x, k, filter, pad, stride, groups: rest, 1x1, 1x1 with stride 2, one output pixel, groups, one spatial axis
SHAPES = [
    ((2, 9, 11, 13), 40, (3, 3), 1, 1, 1), ((3, 70, 6, 7), 37, (1, 1), 0, 1, 1), ((2, 34, 9, 8), 21, (1, 1), 0, 2, 1),
    ((2, 5, 3, 3), 12, (3, 3), 0, 1, 1), ((2, 12, 9, 10), 18, (2, 3), 1, 2, 3), ((1, 3, 700), 5, (5,), 2, 1, 1),
]


class Example:
    """A problem with exact data: small integers, whose sums every type but the narrow ones' outputs holds exactly."""

    def __init__(self, shape, dtype, direction, rng):
        x, k, filter, pad, stride, groups = shape
        spatial = len(filter)
        self.direction = direction
        self.conv = ConvolutionDescriptor((pad,) * spatial, (stride,) * spatial, groups=groups)
        name, out = TYPES[dtype], "int32" if dtype == "int8" else TYPES[dtype]
        self.x, self.w = TensorDescriptor(name, x), TensorDescriptor(name, (k, x[1] // groups, *filter))
        self.y = TensorDescriptor(out, self.conv.output_lens(self.x, self.w))
        types = [DTYPE[dtype], DTYPE[dtype], np.dtype("i4") if dtype == "int8" else DTYPE[dtype]]
        lens = (self.x.lens, self.w.lens, self.y.lens)
        self.data = [rng.integers(-2, 3, n).astype(t) for n, t in zip(lens, types, strict=True)]
        self.problem = ConvProblem(direction, self.x, self.w, self.y, self.conv)
        self.output = (2, 0, 1)[direction]

    def run(self, handle, solver, values):
        """The result of a solver under a configuration, with poison where it writes and in its workspace."""
        invoker = Invoker(handle, solver.offer(handle.device, self.problem), values)
        handle.register(invoker, solver.id)
        host = [a.copy() for a in self.data]
        host[self.output].reshape(-1).view("u1")[...] = 0xFF
        buffers = [handle.upload(a) for a in host]
        size = solver.workspace_size(handle.device, self.problem)
        assert invoker.solution.workspace == size, "the workspace depends on the configuration"
        space = handle.upload(np.full(size, 0xFF, np.uint8)) if size else None
        result = buffers[self.output]
        immediate(handle, self.direction, (self.x, self.w, self.y), self.conv,
                  arguments(self.direction, buffers, result), space, size, solver.id)
        return handle.download(result, np.empty_like(host[self.output]))

    def truth(self, of=np.positive):
        """The result in float64; with `of` abs, the sum of its products' sizes."""
        with miopyx.Handle("host") as host:
            wide = [TensorDescriptor("float64", d.lens) for d in (self.x, self.w, self.y)]
            out = np.full(wide[self.output].lens, np.nan)
            plan(host, self.direction, wide, self.conv)(
                *arguments(self.direction, [of(a.astype(np.float64)) for a in self.data], out))
        return out

    def transforming_bound(self):
        """What a solver that transforms tiles may err: the bound of all sums, by the largest in place of its own."""
        taps = np.prod(self.w.lens[2:])
        terms = (self.w.lens[1] * taps, self.w.lens[0] * self.w.lens[1] // self.x.lens[1] * taps,
                 self.y.lens[0] * np.prod(self.y.lens[2:]))[self.direction] + 32
        stored = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}[self.x.dtype]
        return (2 * stored + terms * min(stored, 2.0**-24)) * self.truth(of=np.abs).max()


def tunable(handle, problem):
    return [s for s in registry.CONV
            if s.why_not(handle.device, problem) is None and s.parameters(handle.device, problem)]


def all_configs(handle, problem, solver):
    dev = handle.device
    return configurations(solver.parameters(dev, problem), lambda c: solver.accepts(dev, problem, c))


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", DTYPE)
def test_any_configuration_computes_the_same(opencl_name, handles, dtype, rng, request):
    """Random ones of random solvers; --configurations 2000 takes ten times as many."""
    for _ in range(max(1, request.config.getoption("--configurations") // 200)):
        check_one_of_each_solver(handles(opencl_name), dtype, rng, lambda values: True)


@pytest.mark.parametrize("dtype", ["float", "int8"])
def test_tiles_for_gpus_compute_the_same(opencl_name, handles, as_gpu, dtype, rng, request):
    """On a CPU too, whose compilers take long for large tiles of work-items that wait for each other."""
    if not handles(opencl_name).device.is_gpu:
        for _ in range(max(1, request.config.getoption("--configurations") // 200)):
            check_one_of_each_solver(as_gpu(opencl_name), dtype, rng, few_sums)


def few_sums(values):
    """Of a work-item of a product for GPUs."""
    return values.get("EACH_M", 1) * values.get("EACH_N", 1) <= 8


def check_one_of_each_solver(handle, dtype, rng, wanted):
    """A random problem, and a random configuration of each solver that takes it and can be tuned.

    Solvers with the same table take the same one if they can: they share programs, and compiling those takes the time.
    """
    shape = SHAPES[rng.integers(len(SHAPES))]
    example = Example(shape, dtype, 0 if dtype == "int8" else int(rng.integers(3)), rng)
    drawn = {}
    for solver in tunable(handle, example.problem):
        table = solver.parameters(handle.device, example.problem)
        names = [name for name, _ in table]
        every = [c for c in all_configs(handle, example.problem, solver) if wanted(dict(zip(names, c, strict=True)))]
        if drawn.get(table) not in every:
            drawn[table] = every[rng.integers(len(every))]
        check(handle, example, solver, drawn[table])


def check(handle, example, solver, values):
    got = example.run(handle, solver, values)
    want = example.truth().astype(got.dtype)  # rounds once, as a kernel does; exact in all wider types
    again = example.run(handle, solver, values)
    note = f"{solver} {values} on {example.problem}"
    np.testing.assert_array_equal(got.view("u1"), again.view("u1"), f"not deterministic: {note}")
    bound = example.transforming_bound() if solver.mixes_tiles else 0.0
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=0, atol=bound, err_msg=note)


def test_tables_are_fit_to_be_searched(opencl_name, handles, as_gpu, rng):
    names = set()
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        for shape in [*SHAPES, ((8, 512, 28, 28), 1024, (3, 3), 1, 1, 1)]:
            for direction in range(3):
                problem = Example(shape, "float", direction, rng).problem
                for solver in tunable(handle, problem):
                    names.add(solver.name)
                    table = solver.parameters(handle.device, problem)
                    assert all(list(values) == sorted(set(values)) for _, values in table)
                    every = all_configs(handle, problem, solver)
                    assert 1 <= len(every) <= 200
                    assert solver.default_config(handle.device, problem) in every
    assert {"GemmFwd1x1_0_1", "GemmFwd1x1_0_2", "GemmFwdRest", "GemmFwdBatched",
            "GemmBwd1x1_stride1", "GemmBwd1x1_stride2", "GemmBwdRest", "GemmBwdBatched",
            "GemmWrw1x1_stride1", "GemmWrwUniversal", "GemmWrwBatched"} <= names


@pytest.mark.parametrize(("name", "registers"), [
    ("pocl-core-sandybridge-pthread_8", 16), ("pocl-epyc-haswell-pthread_8", 16),
    ("pocl-epyc-skylake-avx512-pthread_8", 32)])
def test_default_products_fit_the_registers(name, registers, rng):
    """A tile's sums, a row of one matrix and a vector of the other: what spills takes 1.5 times as long and more."""
    device, seen = Device(costs._pretended(name)), set()
    for shape in [*SHAPES, ((4, 64, 14, 14), 96, (1, 1), 0, 1, 1), ((4, 64, 14, 14), 96, (1, 1), 0, 2, 1)]:
        for direction in range(3):
            for solver in registry.CONV:
                offer = solver.offer(device, Example(shape, "float", direction, rng).problem)
                if isinstance(offer, str):
                    continue
                for step in offer.solution(offer.default_config()).steps:
                    defined = dict(option.split("=") for option in step.spec.options.split() if "=" in option)
                    if step.spec.entry == "gemm_nn":
                        rows, columns = int(defined["TILE_ROWS"]), int(defined["N_VECTORS"])
                    elif step.spec.entry == "gemm_nt":
                        rows, columns = 4, int(defined.get("NT_COLUMNS", 4))
                    else:
                        continue
                    seen.add(step.spec.entry)
                    assert rows * columns + columns + 1 <= registers, step.spec
    assert seen == {"gemm_nn", "gemm_nt"}


def test_configurations_that_do_not_belong_are_refused(opencl_name, handles, as_gpu, rng):
    for handle in (handles(opencl_name), as_gpu(opencl_name)):
        example = Example(SHAPES[0], "float", 0, rng)
        for solver in tunable(handle, example.problem):
            default = solver.default_config(handle.device, example.problem)
            assert solver.accepts(handle.device, example.problem, default)
            for wrong in [(), default[:-1], (*default, 1), tuple(-v for v in default), (7, *default[1:])]:
                assert not solver.accepts(handle.device, example.problem, wrong)


def test_tables_leave_out_what_makes_no_difference(opencl_handle, rng):
    if not opencl_handle.device.is_cpu:
        pytest.skip("tables for CPUs")
    small = Example(((1, 4, 5, 5), 8, (3, 3), 1, 1, 1), "float", 0, rng).problem
    large = Example(((1, 300, 5, 5), 600, (3, 3), 1, 1, 1), "float", 0, rng).problem
    solver = registry.BY_NAME["GemmFwdRest"]
    assert len(all_configs(opencl_handle, small, solver)) < len(all_configs(opencl_handle, large, solver)) / 4


def test_a_real_search(opencl_name, handles, rng, monkeypatch, tmp_path):
    """Through tune(): a few configurations of a real solver, the search stopped, continued, its result used."""
    handle = handles(opencl_name)
    p = Problem(handle, rng, x=(2, 32, 14, 14), k=64)
    problem = ConvProblem(0, p.x, p.w, p.y, p.conv)
    solver = next(s for s in tunable(handle, problem) if s.id in (91, 1011))
    offer = solver.offer(handle.device, problem)
    size = offer.workspace
    ran = []

    def run(invoker):
        ran.append(invoker.config)
        handle.register(invoker, solver.id)
        p.immediate(0, solver.id, size)
        p.close(0)
        return handle.last_kernel_time()

    batches = []

    def ahead(handle, specs):
        batches.append(list(specs))
        broken = next(s for s in specs if s.file == "conv/cpu/gemm.cl")
        return [SimpleNamespace(spec=broken, why="as if it did not build")]

    monkeypatch.setenv("MIOPEN_DEBUG_TUNING_ITERATIONS_MAX", "8")
    config.forget()
    with handle.timing():
        stopped = tuning.tune(handle, offer, run, ahead=ahead, folder=tmp_path, limits=Limits(8, 0.0))
        assert (stopped.ended_by, stopped.tried, batches) == ("time", 1, [])
        assert len(list(tmp_path.iterdir())) == 1
        result = tuning.tune(handle, offer, run, ahead=ahead, folder=tmp_path)
    assert (result.tried, result.failed, result.ended_by) == (9, 1, "iterations")
    assert list(tmp_path.iterdir()) == []
    assert len(batches) == 1
    assert set(ran) == set(result.times)
    assert solver.accepts(handle.device, problem, result.config)
    assert 0 < result.time <= result.default_time
    p.poison(0)
    handle.register(Invoker(handle, offer, result.config), solver.id)
    p.immediate(0, solver.id, size)
    p.close(0)
    handle.register(Invoker(handle, offer), solver.id)


def test_a_real_failure_does_not_end_a_search(opencl_handle, rng, monkeypatch):
    """A kernel that the compiler refuses under some configurations."""
    handle = opencl_handle
    p = Problem(handle, rng)
    problem = ConvProblem(0, p.x, p.w, p.y, p.conv)
    solver = next(s for s in tunable(handle, problem) if s.id in (91, 1011))
    default = solver.default_config(handle.device, problem)

    def run(invoker):
        if invoker.config != default:
            handle.program(miopyx._core.KernelSpec("conv/cpu/gemm.cl", "gemm_nn", N_VECTORS=9))
        return 1.0

    result = tuning.tune(handle, solver.offer(handle.device, problem), run, limits=Limits(iterations=3))
    assert (result.config, result.failed, result.tried) == (default, 3, 4)
