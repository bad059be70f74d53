"""Who does what next: problems that promise most first, compiled ahead, one measurement at a time on a device.

The scheduler knows lanes, not what is behind them: a lane is a device somewhere, whose jobs are futures.  `LocalLane`
runs them in child processes of this one; `fleet` in those of workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
import queue
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from miopyx.errors import MIOpenError, UnknownError
from miopyx.values import logs, posix

from .ledger import DONE, FAILED, Device, Ledger
from .station import Station

TRIES = 2             # of a problem that ends its child, before it is left alone
_LOOK = 100           # problems that are looked at in one job
_BATCH = 4            # programs' problems a compiler, on devices that compiling would disturb
_AHEAD = 2            # problems a compiler that may wait for the device, compiled
_POLL_SECONDS = 1.0
_COMPARE_MS = 50.0    # of the longest problem by which devices of one kind are compared
_COMPARE_SECONDS = 120.0
OUTLIER = 0.05        # off the median of the devices of its kind
_LAST_SECONDS = 30.0  # after the budget, for what is being measured to end
_GATHER_SECONDS = 30.0  # for the result of a job that is done to come from its worker
_FROM_THE_GONE_SECONDS = 2.0  # and from a lane that is gone
_LONGEST_REST = 60.0  # of a lane that breaks again and again
_ALONE_SECONDS = 10.0  # that a pool's problems wait for a lane before that is said
_log = logging.getLogger("miopyx")
_T = TypeVar("_T")


class Lane(Protocol):
    """A device, as the scheduler sees it."""

    name: str
    device: Device
    machine: str   # lanes of one disturb each other
    overlap: bool  # whether compiling leaves measurements alone
    compilers: int
    depth: int     # measurements that may be given to it at a time; it does one after the other
    rest: float | None  # seconds after which it is used again when it broke; None: it is closed then

    def submit(self, job: str, **arguments: Any) -> Future[dict[str, Any]]:
        """Do a job; the future has what `Station.run` returns, or the exception that ended the lane."""
        ...

    def close(self) -> None:
        """Give the lane up, for good where it has no `rest`."""
        ...


class Lanes(Protocol):
    """Where lanes come from, and who is gone."""

    def alive(self) -> list[Lane]: ...

    def close(self) -> None: ...


class LocalLane:
    """A device of this machine: one child process that measures, others that compile."""

    depth = 2  # so that the device need not wait while a result is written down
    rest: float | None = None
    machine = ""

    def __init__(self, device: str, compilers: int, limit: float, clock: str = "") -> None:
        self._measuring = Station(device, clock)
        self._compiling = [Station(device, alone=compilers < 2) for _ in range(compilers)]
        self._free: queue.SimpleQueue[Station] = queue.SimpleQueue()
        for station in self._compiling:
            self._free.put(station)
        self.limit = limit
        self._one = ThreadPoolExecutor(1, "miopyx-measure")
        self._many = ThreadPoolExecutor(max(compilers, 1), "miopyx-compile")
        about = self._measuring.run("describe", limit)
        if "done" not in about:
            self.close()
            raise UnknownError(str(about))
        self.name = f"{device or about['done']['device']}"
        self.device = Device(about["done"]["device"], about["done"]["stamp"])
        self.unkept: str = about["done"]["unkept"]  # why this machine's databases keep nothing
        self.overlap = about["done"]["kind"] == "gpu"
        self.compilers = 0 if about["done"]["kind"] == "host" else compilers

    def submit(self, job: str, **arguments: Any) -> Future[dict[str, Any]]:
        if job == "compile":
            return self._many.submit(self._compile, arguments)
        return self._one.submit(self._measure, job, arguments, time.monotonic())

    def _measure(self, job: str, arguments: dict[str, Any], given: float) -> dict[str, Any]:
        if arguments.get("budget_ms") is not None:  # what came before took of it
            arguments["budget_ms"] = max(1.0, arguments["budget_ms"] - (time.monotonic() - given) * 1e3)
        return self._measuring.run(job, self.limit, **arguments)

    def _compile(self, arguments: dict[str, Any]) -> dict[str, Any]:
        station = self._free.get()
        try:
            return station.run("compile", self.limit, **arguments)
        finally:
            self._free.put(station)

    def close(self) -> None:
        for executor in (self._one, self._many):
            executor.shutdown(wait=False, cancel_futures=True)
        for station in (self._measuring, *self._compiling):
            station.kill()
        for executor in (self._one, self._many):
            executor.shutdown()
        for station in (self._measuring, *self._compiling):
            station.close()


class LocalLanes:
    """The devices of this machine that were named."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self.lanes = list(lanes)

    def alive(self) -> list[Lane]:
        return self.lanes

    def close(self) -> None:
        side_by_side(lambda lane: lane.close(), self.lanes)


def side_by_side(do: Callable[[Any], _T], these: Iterable[Any]) -> list[_T | BaseException]:
    """Do the same with some things in threads, to the end of all; return what came out or was raised, in order."""
    found: dict[int, _T | BaseException] = {}

    def one(i: int, this: Any) -> None:
        try:
            found[i] = do(this)
        except BaseException as e:
            found[i] = e

    # Whom an interrupt leaves behind may not keep the process.
    threads = [threading.Thread(target=one, args=pair, daemon=True) for pair in enumerate(these)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[i] for i in range(len(threads))]


def local_compilers() -> int:
    """Return how many problems this machine compiles at a time."""
    return len(posix.processors())


# Scheduling


@dataclass
class Task:
    """A problem for one kind of device."""

    key: str
    weight: float
    gain: float = 0.0
    deaths: int = 0
    compiled: bool = False
    done: bool = False


@dataclass
class _Pool:
    """What is to be done for devices of one kind."""

    device: Device
    looks: deque[list[str]] = field(default_factory=deque)
    looking: int = 0
    # Heaps, the most promising first: what is to be compiled, and what needs no compiler.
    waiting: list[tuple[float, int, Task]] = field(default_factory=list)
    built: list[tuple[float, int, Task]] = field(default_factory=list)
    open: int = 0  # tasks that are neither done nor given up
    left: int = 0  # problems that nothing is known of, whether they were looked at or not


@dataclass
class _Hand:
    """What a lane holds."""

    lane: Lane
    pool: _Pool
    measuring: set[int] = field(default_factory=set)
    compiling: set[int] = field(default_factory=set)
    ready: deque[Task] = field(default_factory=deque)
    free: float = 0.0  # since when it has had no measurement, or the next one of those it was given


@dataclass
class _Flight:
    """A job that was given to a lane."""

    hand: _Hand
    job: str
    what: Any  # a Task, or the keys that are looked at
    began: float
    future: Any
    ended: float | None = None
    seconds: float | None = None  # that it took, once it has landed


@dataclass
class _Broken:
    """A lane a job of which raised."""

    lane: Lane  # whose identity stays its own while it is here
    pause: float
    until: float | None  # None: for good


@dataclass
class Summary:
    """What became of it all; `results` has (key, result) as they came."""

    results: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    known: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    left: int = 0
    lost: int = 0
    clocks: dict[Device, dict[str, float]] = field(default_factory=dict)  # milliseconds of the same, by worker
    ended_by: str = "all"  # or "budget", "interrupted"


class Watcher(Protocol):
    """Who wants to see how it goes."""

    def total(self, tasks: int) -> None: ...

    def done(self, device: Device, key: str, result: dict[str, Any] | None, why: str) -> None: ...


class Scheduler:
    """Measures problems on lanes until nothing is left, the budget is spent, or somebody interrupts.

    Parameters
    ----------
    lanes : Lanes
    ledger : Ledger
        Is told of everything as it happens.
    weights : dict
        How often each problem, by its key, occurs.
    search : bool
        Search for configurations, too.
    again : bool
        Measure what the databases know, too.
    retry : bool
        Try again what failed.
    budget : float or None
        Seconds.
    databases : bool
        Whether the databases of a lane's machine say what is known, as on one machine; else the ledger does, since
        each machine of a fleet has databases of its own.
    """

    def __init__(self, lanes: Lanes, ledger: Ledger, weights: dict[str, float], watcher: Watcher, *,
                 search: bool = False, again: bool = False, retry: bool = False, budget: float | None = None,
                 databases: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self.lanes, self.ledger, self.weights, self.watcher = lanes, ledger, weights, watcher
        self.search, self.again, self.retry, self.databases, self.clock = search, again, retry, databases, clock
        self.deadline = None if budget is None else clock() + budget
        self.pools: dict[Device, _Pool] = {}
        self.hands: dict[int, _Hand] = {}
        self.broken: dict[int, _Broken] = {}  # by the lanes' identity
        self.alone: dict[Device | None, float] = {}  # since when nobody is there for a pool, None: for any
        self.told: set[Device | None] = set()
        self.last: dict[str, str] = {}  # of "compile" and a CPU's "measure", what began last on a machine
        self.waits: set[tuple[str, str]] = set()   # machines and what could not begin there in this round
        self.waited: set[tuple[str, str]] = set()  # and in the one before
        self.flights: dict[int, _Flight] = {}
        self.events: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.numbers = itertools.count()
        self.summary = Summary()

    def run(self) -> Summary:
        """Work; every result is kept as it comes."""
        try:
            self._work()
            if self.summary.ended_by == "all":
                self._compare()
        except KeyboardInterrupt:
            self.summary.ended_by = "interrupted"
            self._land([number for number, flight in self.flights.items()
                        if flight.job == "measure" and flight.future is not None and flight.future.done()
                        and not flight.future.cancelled()])
        self.summary.left = sum(pool.left for pool in self.pools.values()) if self.pools else len(self.weights)
        return self.summary

    def _work(self) -> None:
        polled = -_POLL_SECONDS
        while True:
            now = self.clock()
            if now - polled >= _POLL_SECONDS:
                self._meet(self.lanes.alive())
                self._tell_of_waiting(now)
                polled = now
            late = self.deadline is not None and now >= self.deadline
            if late:
                self.summary.ended_by = "budget"
                for hand in self.hands.values():
                    while task := self._take_back(hand):
                        self._wait(hand.pool, task)
                if not any(hand.measuring for hand in self.hands.values()) or (
                        self.deadline is not None and now > self.deadline + _LAST_SECONDS):
                    return
            else:
                self.waited, self.waits = self.waits, set()
                for hand in list(self.hands.values()):
                    self._fill(hand)
                if self._is_finished():
                    return
            try:
                until = _POLL_SECONDS if late or self.deadline is None else min(_POLL_SECONDS, self.deadline - now)
                number = self.events.get(timeout=until)
            except queue.Empty:
                continue
            numbers = [number]
            while not self.events.empty():
                numbers.append(self.events.get())
            self._land(numbers)

    def _take_back(self, hand: _Hand) -> Task | None:
        """Take from a lane of this machine a problem that it has not begun; a worker may begin it any time."""
        for number in sorted(hand.measuring, reverse=True) if self.databases else ():
            flight = self.flights[number]
            if flight.job == "measure" and flight.future.cancel():
                hand.measuring.discard(number)
                del self.flights[number]
                task: Task = flight.what
                return task
        return None

    def _is_finished(self) -> bool:
        if not self.pools:
            return not self.weights
        return not any(self._has_work(pool) and not self._is_given_up(pool) for pool in self.pools.values())

    @staticmethod
    def _has_work(pool: _Pool) -> bool:
        return bool(pool.open or pool.looks or pool.looking)

    def _is_given_up(self, pool: _Pool) -> bool:
        """Whether all lanes of a pool broke for good; of a fleet others may come."""
        return self.databases and not any(hand.pool is pool for hand in self.hands.values()) and not any(
            broken.until is not None and broken.lane.device == pool.device for broken in self.broken.values())

    def _tell_of_waiting(self, now: float) -> None:
        """Warn, once for each kind of device, of problems that nobody is there for."""
        waiting: dict[Device | None, int] = {
            pool.device: pool.open + sum(map(len, pool.looks)) for pool in self.pools.values()
            if self._has_work(pool) and not any(hand.pool is pool for hand in self.hands.values())}
        if not self.pools:
            waiting[None] = len(self.weights)
        self.alone = {device: self.alone.get(device, now) for device in waiting}
        for device, since in self.alone.items():
            if now - since > _ALONE_SECONDS and device not in self.told:
                self.told.add(device)
                _log.warning("%d problems wait: there is no worker%s", waiting[device],
                             "" if device is None else f" for {device.name}")

    def _compare(self) -> None:
        """Let all devices of a kind time the same: one that is slower than its like spoils what it measured."""
        for pool in self.pools.values():
            lanes = [hand.lane for hand in self.hands.values() if hand.pool is pool]
            done = [(result["after"]["ms"], key, result["after"]["solver"]) for key, result in self.summary.results
                    if (result["device"], result["stamp"]) == pool.device]
            if len(lanes) < 2 or not done:
                continue
            _, key, solver = max([one for one in done if one[0] <= _COMPARE_MS], default=min(done))
            asked = [(lane, lane.submit("time", key=key, solver=solver)) for lane in lanes]
            times: dict[str, float] = {}
            for i, (lane, future) in enumerate(asked):
                with contextlib.suppress(Exception, asyncio.CancelledError):  # who is gone is not compared
                    times[f"{lane.name} #{i}"] = future.result(timeout=_COMPARE_SECONDS)["done"]["ms"]
            self.ledger.clock(pool.device, key, solver, times)
            self.summary.clocks[pool.device] = times

    # Lanes come and go

    def _meet(self, alive: list[Lane]) -> None:
        """Take lanes in that are new, and what those held that are gone back."""
        now, there = self.clock(), {id(lane) for lane in alive}
        self.broken = {number: broken for number, broken in self.broken.items() if number in there}
        resting = {number for number, broken in self.broken.items() if broken.until is None or now < broken.until}
        usable = {id(lane): lane for lane in alive if id(lane) not in resting}
        for number in [number for number in self.hands if number not in usable]:
            self._lose(self.hands[number], "the worker is gone")
        for number, lane in usable.items():
            if number not in self.hands:
                self.hands[number] = _Hand(lane, self._pool(lane.device))

    def _pool(self, device: Device) -> _Pool:
        if device not in self.pools:
            if self.retry:
                self.ledger.retry(device, self.weights, self.search)
            if self.again:
                self.ledger.again(device, self.weights, self.search)
            states = self.ledger.states(device, self.search)
            left = []
            for key in self.weights:
                state, why = states.get(key, ("", ""))
                if state == FAILED:
                    self.summary.failed.append((key, why))
                elif state == DONE and not self.databases:
                    self.summary.known += 1
                else:
                    left.append(key)
            looks = deque(left[i:i + _LOOK] for i in range(0, len(left), _LOOK))
            self.pools[device] = _Pool(device, looks, left=len(left))
        return self.pools[device]

    def _lose(self, hand: _Hand, why: str, cause: _Flight | None = None) -> None:
        """Give what a lane held to others: it was not the problems' fault.  What it has finished is taken still.

        `cause` is the job that gave nothing.
        """
        self.hands.pop(id(hand.lane), None)
        for number in [*hand.measuring, *hand.compiling]:
            flight = self.flights[number]
            if flight is not cause and flight.future.done():
                try:
                    answer = flight.future.result(timeout=_FROM_THE_GONE_SECONDS)
                except (Exception, asyncio.CancelledError):
                    pass  # it went with the lane
                else:
                    self._take(number, flight, answer)
                    continue
            del self.flights[number]
            waited = False  # on this machine: it was not begun
            with contextlib.suppress(Exception):  # there may be nobody to tell
                waited = flight.future.cancel() and self.databases
            if isinstance(flight.what, Task):
                if not waited:
                    self._note(flight, "lost", why)
                self._wait(hand.pool, flight.what)
            else:
                hand.pool.looks.appendleft(flight.what)
                hand.pool.looking -= 1
            self.summary.lost += not waited
        for task in hand.ready:
            self._wait(hand.pool, task)

    def _break(self, flight: _Flight, why: Exception | asyncio.CancelledError) -> None:
        """Leave a lane a job of which raised, for a while or for good."""
        lane, text = flight.hand.lane, str(why) or type(why).__name__
        before = self.broken.get(id(lane))
        pause = lane.rest or 0.0 if before is None else min(2 * before.pause, _LONGEST_REST)
        self._lose(flight.hand, text, flight)
        self.broken[id(lane)] = _Broken(lane, pause, None if lane.rest is None else self.clock() + pause)
        lane.close()
        if self.databases and all(id(one) in self.broken and self.broken[id(one)].until is None
                                  for one in self.lanes.alive()):
            raise why if isinstance(why, MIOpenError) else UnknownError(text) from None
        _log.warning("%s failed: %s; %s", lane.name, text,
                     f"it is used again in {pause:g} s" if lane.rest is not None else "it is not used any more")

    def _wait(self, pool: _Pool, task: Task) -> None:
        heapq.heappush(pool.built if task.compiled else pool.waiting, (-task.gain, next(self.numbers), task))

    # Jobs

    def _fill(self, hand: _Hand) -> None:
        """Give a lane all that it may have."""
        pool, lane = hand.pool, hand.lane
        while len(hand.measuring) < lane.depth:
            if pool.looks:
                if hand.measuring:
                    break  # others look, too
                keys = pool.looks.popleft()
                pool.looking += 1
                self._give(hand, "look", keys, keys=keys, search=self.search, again=self.again)
                continue
            task = None if pool.looking else self._next(hand)
            if task is None:
                break
            if not self._may(lane, "measure"):
                hand.ready.appendleft(task)
                break
            # A child that died may have written its result, which the ledger lacks.
            again = self.again or not self.databases or task.deaths > 0
            self._give(hand, "measure", task, key=task.key, search=self.search, budget_ms=self._left_ms(), again=again)
        if pool.looks or pool.looking or not lane.compilers:
            return
        if lane.overlap:
            room = _AHEAD * lane.compilers - len(hand.ready) - len(hand.compiling)
            room = min(room, lane.compilers - len(hand.compiling))
        else:  # a CPU does not measure and compile at a time
            room = 0 if hand.compiling or hand.ready or hand.measuring else _BATCH * lane.compilers
        room = min(room, len(pool.waiting))
        if room < 1 or not self._may(lane, "compile"):
            return
        for _ in range(room):
            task = heapq.heappop(pool.waiting)[-1]
            self._give(hand, "compile", task, key=task.key)

    def _may(self, lane: Lane, job: str) -> bool:
        """Whether a job may begin: on a machine nothing is compiled while a CPU measures, and the reverse.

        Who waits for that has the next turn.
        """
        here = [hand for hand in self.hands.values() if hand.lane.machine == lane.machine]
        alone = [hand for hand in here if not hand.lane.overlap]
        if not alone or (job == "measure" and lane.overlap):
            return True
        other = "measure" if job == "compile" else "compile"
        busy = any(hand.compiling for hand in here) if job == "measure" else any(
            self.flights[number].job == "measure" for hand in alone for number in hand.measuring)
        if busy or ((lane.machine, other) in self.waited and self.last.get(lane.machine) == job):
            self.waits.add((lane.machine, job))
            return False
        self.last[lane.machine] = job
        return True

    def _next(self, hand: _Hand) -> Task | None:
        """Return what a lane measures next: of what was compiled for it or needs no compiler the most promising."""
        pool = hand.pool
        if hand.compiling and not hand.lane.overlap:
            return None
        heaps = [heap for heap in (pool.built, () if hand.lane.compilers else pool.waiting) if heap]
        best = min(heaps, key=lambda heap: heap[0], default=None)
        if hand.ready and (best is None or hand.ready[0].gain >= best[0][-1].gain):
            return hand.ready.popleft()
        if best is not None:
            return heapq.heappop(best)[-1]
        if hand.compiling or pool.waiting:
            return None
        others = [other for other in self.hands.values() if other.pool is pool and other is not hand]
        most = max(others, key=lambda other: len(other.ready), default=None)
        if most is not None and most.ready:
            return most.ready.pop()
        idle = not hand.measuring
        waiting = (self._take_back(other) for other in others if idle and len(other.measuring) > 1)
        return next((task for task in waiting if task is not None), None)

    def _left_ms(self) -> float | None:
        return None if self.deadline is None else max(1.0, (self.deadline - self.clock()) * 1e3)

    def _give(self, hand: _Hand, job: str, what: Any, **arguments: Any) -> None:
        number = next(self.numbers)
        (hand.compiling if job == "compile" else hand.measuring).add(number)
        flight = self.flights[number] = _Flight(hand, job, what, self.clock(), None)
        try:
            flight.future = hand.lane.submit(job, **arguments)
        except Exception as e:  # of whatever is behind the lane
            flight.future = Future()
            flight.future.set_exception(e)

        def ended(_: Any) -> None:
            flight.ended = self.clock()
            self.events.put(number)

        flight.future.add_done_callback(ended)

    def _land(self, numbers: Iterable[int]) -> None:
        """Take what became of some jobs."""
        arrived = []
        for number in numbers:
            flight = self.flights.get(number)
            if flight is None:
                continue  # its lane was lost, and it was given to another
            try:
                # A worker may go between the end of a job and here; then nobody would ever answer.
                arrived.append((number, flight, flight.future.result(timeout=_GATHER_SECONDS)))
            except (Exception, asyncio.CancelledError) as e:  # the lane's end, whatever it was
                self._break(flight, e)
        arrived = [one for one in arrived if one[0] in self.flights]  # a lane that broke has had its own taken
        rows = []
        for _, flight, answer in arrived:
            flight.seconds = self._seconds(flight)
            if flight.job != "compile":
                flight.hand.free = max(flight.hand.free, flight.ended or self.clock())
            if _is_result(flight, answer):
                rows.append((flight.what.key, answer["done"], flight.hand.lane.name, flight.seconds))
        new = iter(self.ledger.record_all(rows, self.search))
        for number, flight, answer in arrived:
            self._take(number, flight, answer, next(new) if _is_result(flight, answer) else None)

    def _take(self, number: int, flight: _Flight, answer: dict[str, Any], new: bool | None = None) -> None:
        """Do what an answer asks for; `new` says of a result that the ledger has whether it was new there."""
        hand = flight.hand
        (hand.compiling if flight.job == "compile" else hand.measuring).discard(number)
        if flight.job == "look":
            self._looked(hand.pool, flight.what, answer)
        elif flight.job == "compile":
            flight.what.compiled = True
            if "done" not in answer:
                self._note(flight, *_outcome(answer))
            hand.ready.append(flight.what)
        else:
            self.broken.pop(id(hand.lane), None)
            self._measured(flight, answer, new)
        if flight.job != "compile":
            hand.free = max(hand.free, flight.ended or self.clock())
        del self.flights[number]  # an interrupt before this takes it again

    def _looked(self, pool: _Pool, keys: list[str], answer: dict[str, Any]) -> None:
        pool.looking -= 1
        # Where looking itself ends the child there is no order, and measuring will say which problem it was.
        found = answer.get("done") or [{"known": False, "gain_ms": 0.0}] * len(keys)
        opened = []
        for key, one in zip(keys, found, strict=True):
            if "why" in one:
                self.ledger.open(pool.device, [key], self.search)
                self.ledger.fail(pool.device, key, self.search, one["why"])
                self.summary.failed.append((key, one["why"]))
                pool.left -= 1
            elif one["known"] and self.databases:
                self.summary.known += 1
                pool.left -= 1
            else:
                weight = self.weights[key]
                # Another machine's cache says nothing of this one's.
                built = self.databases and one.get("built", False)
                task = Task(key, weight, weight * one["gain_ms"], compiled=built)
                self._wait(pool, task)
                opened.append(key)
        pool.open += len(opened)
        self.ledger.open(pool.device, opened, self.search)
        self.watcher.total(len(opened))

    def _measured(self, flight: _Flight, answer: dict[str, Any], new: bool | None) -> None:
        task, pool = flight.what, flight.hand.pool
        outcome, why = _outcome(answer)
        if outcome == "done":
            result = answer["done"]
            if result.get("known"):
                self.summary.known += not task.done
                self._end(pool, task, None, "")
                return
            if self.databases and result.get("unkept"):
                logs.warn_once(("unkept", pool.device), "results are not in the user's databases: %s", result["unkept"])
            if new is None:
                new = self.ledger.record(task.key, self.search, result, flight.hand.lane.name, self._seconds(flight))
            if new or not task.done:
                self.summary.results.append((task.key, result))
            self._end(pool, task, result, "")
            return
        self._note(flight, outcome, why)
        task.deaths += outcome == "died"
        if outcome == "died" and task.deaths < TRIES:
            self._wait(pool, task)
            return
        self.ledger.fail(pool.device, task.key, self.search, why)
        self.summary.failed.append((task.key, why))
        self._end(pool, task, None, why)

    def _end(self, pool: _Pool, task: Task, result: dict[str, Any] | None, why: str) -> None:
        if not task.done:
            task.done = True
            pool.open -= 1
            pool.left -= 1
            self.watcher.done(pool.device, task.key, result, why)

    def _note(self, flight: _Flight, outcome: str, why: str) -> None:
        self.ledger.attempt(flight.hand.pool.device, flight.what.key, self.search, flight.job, flight.hand.lane.name,
                            self._seconds(flight), outcome, why)

    def _seconds(self, flight: _Flight) -> float:
        """Return how long a job took, without the time that it waited for the measurement before."""
        if flight.seconds is not None:
            return flight.seconds
        began = flight.began if flight.job == "compile" else max(flight.began, flight.hand.free)
        return max(0.0, (flight.ended or self.clock()) - began)


def outliers(times: dict[str, float]) -> list[str]:
    """Return, in words, which of some devices of a kind are off the median of their times; of two, who is slower.

    Of two nobody knows who is right.
    """
    if len(times) == 2:
        (fast, least), (slow, most) = sorted(times.items(), key=lambda one: one[1])
        return [f"{slow}: {most / least - 1:.0%} slower than {fast}"] if most > (1 + OUTLIER) * least > 0 else []
    middle = statistics.median(times.values()) if times else 0.0
    return [f"{worker}: {abs(ms / middle - 1):.0%} {'slower' if ms > middle else 'faster'} than the median of "
            f"{len(times)} devices" for worker, ms in times.items() if abs(ms - middle) > OUTLIER * middle]


def _is_result(flight: _Flight, answer: dict[str, Any]) -> bool:
    """Whether a measurement's answer belongs into the ledger."""
    return flight.job == "measure" and "done" in answer and not answer["done"].get("known")


def _outcome(answer: dict[str, Any]) -> tuple[str, str]:
    if "done" in answer:
        return "done", ""
    return ("died", str(answer["died"])) if "died" in answer else ("failed", str(answer.get("why", "no answer")))
