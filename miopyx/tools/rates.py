"""`miopyx rates`: fit the rates by which recurrent layers are shared out to times of their own kernels on a device."""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miopyx import Handle, RNNDescriptor, SeqTensorDescriptor, TensorDescriptor, miopenGetRNNParamsDescriptor
from miopyx.database import rates as ratesfile
from miopyx.engine._plan import Plan
from miopyx.errors import MIOpenError, MIOpenNotImplementedError, UnknownError
from miopyx.problem._rnn import RNNProblem
from miopyx.solvers.layers import _rnn_nvidia

from .costs import fitted

SOLVER = "NvRNN"
SHAPES = 96                  # that are timed
STEPS = (32, 160)            # of a plan; the difference of their times is that of the steps alone
TURNS = 5
SECONDS = 0.02               # of a turn of a plan
FREE = 1e-3                  # of the least time, which a term that seems to take none takes in all
NOBODY = 1 << 40             # groups of a team that no layer has: each step is a launch
GATES = {"miopenRNNTANH": 1, "miopenGRU": 3, "miopenLSTM": 4}
TYPES = {"float16": 2, "float32": 4}
# Mode, type, units, sequences.
LAYERS = [*itertools.product(("miopenRNNTANH", "miopenLSTM"), TYPES, (128, 256, 512), (8, 32, 1024)),
          *itertools.product(("miopenGRU", "miopenLSTM"), TYPES, (1024,), (8, 32))]
# Groups of a team, sequences (0: any), whether it is a cluster; whether matrices are read in each step.
WAYS = [*itertools.product((1, 2, 4, 8, 16), (0, 8), (1,), (False, True)),
        *itertools.product((8, 16, 32, 64, 128), (0, 8), (0,), (False, True))]
# What takes time, in the order of _terms.
TERMS = ("step", "pair", "warp", "mma", "chain", "local_rate", "memory_rate", "cache_rate", "cluster_rate",
         "cluster_step", "memory_step")
ALONE = ("launch", "product_rate")

Layer = tuple[str, str, int, int]
Way = tuple[int, int, int, bool]


class Measured(NamedTuple):
    """A step's microseconds, and what it does: the team of `team_of`, None where it is a launch of its own."""

    layer: Layer
    team: dict[str, Any] | None
    units: int  # of the device
    time: float

    @property
    def products(self) -> float:
        """Return the products of a compute unit."""
        mode, _, hidden, batch = self.layer
        return float(batch * hidden * hidden * GATES[mode] / self.units)

    @property
    def moved(self) -> float:
        """Return the bytes of the gates' inputs, which are written before the steps: a part of the time of none."""
        mode, kind, hidden, batch = self.layer
        return float(batch * hidden * GATES[mode] * TYPES[kind])


def add_command(commands: Any) -> None:
    """Add `rates` to an argparse parser's commands."""
    parser = commands.add_parser(
        "rates", help="measure the rates by which recurrent layers are shared out on a device",
        description="Time recurrent layers that are shared out in many ways, fit the rates by which solvers choose "
        "among them, print how good the choices are, and write the file of the device's family.")
    parser.add_argument("-d", "--device", help="a device, as Handle takes it (default: MIOPYX_DEVICE, else the best)")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", help="write the rates, as FAMILY.rates.txt")
    parser.add_argument("--shapes", type=int, default=SHAPES, help="how many are timed (default: %(default)s)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry out a parsed `miopyx rates` command; return the exit code."""
    try:
        with Handle(arguments.device) as handle:
            info = handle.device.info
        before = ratesfile.known(info, SOLVER, _rnn_nvidia.RATES)
        found = measure(arguments.device, arguments.shapes, before)
        rates, spread = fit(found)
        about = f"device {info.name}, driver {info.driver_version}, {len(found)} times, in microseconds"
        if arguments.out is not None:
            ratesfile.write(arguments.out, about, {SOLVER: rates})
    except OSError as e:
        print(f"miopyx rates: {e.filename or ''}: {e.strerror or e}", file=sys.stderr)
        return 2
    except MIOpenError as e:
        print(f"miopyx rates: {e}", file=sys.stderr)
        return 2
    print(f"{about}; a prediction is off by {100 * spread:.0f} %")
    print("\n".join(f"{name:14}{value:12.6g}" for name, value in rates.items()))
    for name, some in (("these rates", rates), ("those before", before)):
        if some is not None:
            print(f"{name}: {judged(found, some)}")
    return 0


# Measuring


def measure(device: str | None, shapes: int, start: dict[str, float] | None = None, steps: tuple[int, int] = STEPS,
            layers: Sequence[Layer] = LAYERS, ways: Sequence[Way] = WAYS) -> list[Measured]:
    """Time so many ways to share layers out, and each of these layers with a launch a step.

    `start` decides what a way leaves open, the warps of a group; the largest launch lets every team be taken.

    Raises
    ------
    MIOpenNotImplementedError
        On a device that has none of these kernels.
    """
    given = {**(start or dict.fromkeys(_rnn_nvidia.RATES, 1.0)), "launch": 1e30}
    solver = _rnn_nvidia.NvRNN()
    found: list[Measured] = []
    with Handle(device) as handle:
        dev, units = handle.device, handle.device.compute_units
    _rnn_nvidia.use_rates(given)
    try:
        for layer, problem, team in possible(units, given, layers, ways):
            if len(found) >= shapes:
                break
            why = solver.why_not(dev, problem)
            if why is not None:
                raise MIOpenNotImplementedError(f"{SOLVER} does not run on this device: {why}")
            time = _step_time(device, layer, steps, SOLVER)
            found += [] if time is None else [Measured(layer, team, units, time)]
        _rnn_nvidia.only_teams(NOBODY)
        for layer in sorted({one.layer for one in found}):
            time = _step_time(device, layer, steps, "OpenCLRNN")
            found += [] if time is None else [Measured(layer, None, units, time)]
    finally:
        _rnn_nvidia.only_teams()
        _rnn_nvidia.use_rates()
    return found


def possible(units: int, given: dict[str, float], layers: Sequence[Layer] = LAYERS,
             ways: Sequence[Way] = WAYS) -> Iterator[tuple[Layer, RNNProblem, dict[str, Any]]]:
    """Yield layers with a team that is possible for them, in an order that is always the same.

    Until the next one solvers may take this team alone.
    """
    drawn, seen = [*itertools.product(layers, ways)], set()
    random.Random(1).shuffle(drawn)
    try:
        with Handle("host") as host:  # which prepares nothing, so that it is asked for problems
            for layer, (team, seqs, cluster, reads) in drawn:
                _rnn_nvidia.only_teams(team, seqs, cluster, **({"kept": 1, "stored": 0} if reads else {}))
                problem = _plan(host, layer, 1)[0].invoker.problem
                assert isinstance(problem, RNNProblem)
                shape = _rnn_nvidia.team_of(problem, units, given)
                if shape is not None and (key := (layer, repr(shape))) not in seen:
                    seen.add(key)
                    yield layer, problem, shape
    finally:
        _rnn_nvidia.only_teams()


def _plan(handle: Handle, layer: Layer, steps: int) -> tuple[Plan, TensorDescriptor]:
    """Return a plan whose input is added to the gates as it is, and the descriptor of its parameters."""
    mode, kind, hidden, batch = layer
    rnn = RNNDescriptor(hidden, 1, mode, bias=0, input_mode="miopenRNNskip", data_type=kind)
    sequences, w = SeqTensorDescriptor(kind, 1, steps, batch, hidden), TensorDescriptor()
    miopenGetRNNParamsDescriptor(handle, rnn, TensorDescriptor(kind, (batch, hidden)), w, kind)
    plan = handle.rnn_forward(rnn, sequences, w, sequences, False, hx=False, cx=False, hy=False, cy=False)
    return plan, w


def _step_time(device: str | None, layer: Layer, steps: tuple[int, int], solver: str) -> float | None:
    """Return the microseconds of a step, None where another solver takes the layer: not all clusters are possible.

    The handle is a new one: another would know the layer's last team.
    """
    _, kind, hidden, batch = layer
    calls = []
    with Handle(device) as handle:
        for count in steps:
            plan, w = _plan(handle, layer, count)
            if plan.solver.name != solver:
                return None
            memory = {"w": handle.zeros(w.lens, kind)}
            memory |= {name: handle.zeros((count, batch, hidden), kind) for name in "xy"}
            plan.pack(memory["w"])
            calls.append((plan, [memory[name] for name in plan.buffers]))
        turns = [[_microseconds(handle, *call) for call in calls] for _ in range(TURNS + 1)][1:]  # the first warms up
    least, most = (float(np.median(times)) for times in zip(*turns, strict=True))
    return max(most - least, 1e-3) / (steps[1] - steps[0])


def _microseconds(handle: Handle, plan: Plan, buffers: list[Any]) -> float:
    """Return the time of a call among others."""
    count, began = 0, perf_counter()
    while not count or perf_counter() - began < SECONDS:
        for _ in range(8):
            plan(*buffers)
        handle.finish()
        count += 8
    return (perf_counter() - began) / count * 1e6


# Fitting


def _terms(team: dict[str, Any], chained: bool, far: bool) -> list[float]:
    """Return what a step does, one number for each of TERMS, as `_time` of `_rnn_nvidia` has it.

    Of a product and the wait for the one before only the longer counts, and so of a group's bytes and all groups'.
    """
    n, apart = team["counts"], team["team"] > 1
    cluster, passed = apart and team["cluster"], apart and not team["cluster"]
    terms = (1, n["pairs"], n["warps"], n["mma"] * (not chained), n["chain"] * chained, n["local"],
             n["streamed"] * (not far) + n["sent"] * passed, n["all"] * far, n["sent"] * cluster, cluster, passed)
    return [n["waves"] * float(term) for term in terms]


def fit(measured: Sequence[Measured]) -> tuple[dict[str, float], float]:
    """Return the rates that explain times best, and the spread of the logarithm of predicted by measured times.

    Which of two things is the longer one depends on the quotient of their rates alone: each that makes a difference to
    these shapes is tried.

    Raises
    ------
    UnknownError
        Where the shapes do not show both of either two, or are too few.
    """
    teams = [one for one in measured if one.team is not None]
    counts = [one.team["counts"] for one in teams if one.team is not None]
    chains = [n["mma"] / n["chain"] for n in counts]
    groups = [n["all"] / n["streamed"] if n["streamed"] else 0.0 for n in counts]
    times = np.array([one.time for one in teams])
    moved = np.array([[one.moved] for one in teams])
    best: tuple[float, NDArray[np.float64]] | None = None
    for chain, many in itertools.product(sorted({*chains})[1:], sorted({*groups} - {0.0})[1:]):
        arms = [_terms(one.team, own < chain, all_of >= many) for one, own, all_of in
                zip(teams, chains, groups, strict=True) if one.team is not None]
        terms = np.hstack([np.array(arms), moved])
        if (terms == 0).all(axis=0).any() or len(terms) < terms.shape[1]:
            continue
        costs = fitted(terms, times, FREE * times.min() / terms.max(axis=0))[0]
        spread = _off(_predicted(teams, costs[:-1]) + moved[:, 0] * costs[-1], times)
        if best is None or spread < best[0]:
            best = spread, costs
    alone = [one for one in measured if one.team is None]
    if best is None or len(alone) <= len(ALONE):
        raise UnknownError("too few shapes could be timed", "shapes", len(measured), f"{SHAPES}")
    terms = np.array([[1, one.products, one.moved] for one in alone])
    times = np.array([one.time for one in alone])
    launches, _ = fitted(terms, times, FREE * times.min() / terms.max(axis=0))
    named = zip((*ALONE, *TERMS), (*launches[:-1], *best[1][:-1]), strict=True)
    return {name: float(1 / cost if name.endswith("_rate") else cost) for name, cost in named}, best[0]


def _predicted(teams: Iterable[Measured], costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the time of each team's step."""
    return np.array([max(float(np.dot(_terms(one.team, chained, far), costs))
                         for chained in (False, True) for far in (False, True)) for one in teams if one.team])


def _off(predicted: NDArray[np.float64], times: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.log(predicted / times) ** 2)))


def judged(measured: Iterable[Measured], rates: dict[str, float]) -> str:
    """Return how good choices by some rates are, among the ways to share a layer out that were timed."""
    costs = np.array([1 / rates[name] if name.endswith("_rate") else rates[name] for name in TERMS])
    layers: dict[Layer, list[Measured]] = defaultdict(list)
    for one in measured:
        if one.team is not None:
            layers[one.layer].append(one)
    regrets = []
    for ways in layers.values():
        if len(ways) > 1:
            chosen = ways[int(_predicted(ways, costs).argmin())]
            regrets.append(chosen.time / min(one.time for one in ways))
    if not regrets:
        return "no layer was timed in two ways"
    return (f"{sum(regret == 1 for regret in regrets)} of {len(regrets)} choices are the fastest of what was timed, "
            f"{statistics.mean(regrets):.3f} of its time in the mean, {max(regrets):.2f} at most")
