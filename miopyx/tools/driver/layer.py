"""What the operations beside convolutions share: their flags, and how one is run, timed and verified.

A result is compared, every element, with NumPy's float64 by the definition: nothing of the package takes part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from math import prod
from time import perf_counter
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from miopyx.errors import MIOpenError

from . import data, verify
from .data import Array
from .options import Command, Flag, UsageError
from .problem import Sizes
from .problem import tensor as make_tensor
from .report import ERROR, FAILED, OK, Outcome
from .run import Emit, Session, average, exit_code, measure, require_memory

SWITCH = (0, 1)
LAYOUTS = ("", "NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")
DTYPES = {"": "float32", "fp16": "float16", "bfp16": "bfloat16", "fp64": "float64"}
_BLOCK = 1 << 21  # elements that a reference computes at a time


def operations(name: str) -> dict[str, str]:
    """Return an operation's spellings, each with what it computes in."""
    return {name + suffix: dtype for suffix, dtype in DTYPES.items()}


def run_flags(runs: int = 10) -> tuple[Flag, ...]:
    """Return the flags that say how to run."""
    return (
        Flag("iter", "i", runs, "runs of each direction", range(1, 2**31)),
        Flag("verify", "V", 1, "verify the results", SWITCH),
        Flag("time", "t", 0, "print kernel times", SWITCH),
        Flag("wall", "w", 0, "print wall-clock times; needs -t 1", (0, 1, 2)),
    )


def file_flags(*names: tuple[str, str]) -> tuple[Flag, ...]:
    """Return flags of files and of where results are written: accepted at their defaults alone."""
    return tuple(Flag(name, short, 0 if name == "dump_output" else "", "file or folder of tensors",
                      fixed="tensors are neither read from files nor written") for name, short in names)


def size_flags(batch: int) -> tuple[Flag, ...]:
    """Return the flags of a tensor; those without a letter are not MIOpenDriver's."""
    return (
        Flag("batchsize", "n", batch, "images"),
        Flag("in_channels", "c", 3, "channels"),
        Flag("in_h", "H", 32, "height"),
        Flag("in_w", "W", 32, "width"),
    )


MORE_SIZE_FLAGS = (
    Flag("in_d", "", 0, "depth; 0: two spatial axes"),
    Flag("layout", "", "", "layout of the tensors; empty: NCHW, with a depth NCDHW", LAYOUTS),
)
FORWARD_FLAG = Flag("forw", "F", 0, "directions: 1 forward, 2 backward, 0 both", (0, 1, 2))
PRINT_FLAG = Flag("printconv", "P", 1, "print the command line", SWITCH)


class Memory(NamedTuple):
    """How the elements of a tensor lie in memory."""

    dtype: str
    lens: Sizes
    strides: Sizes

    @property
    def span(self) -> int:
        """Elements from the first to the last."""
        return sum((n - 1) * s for n, s in zip(self.lens, self.strides, strict=True)) + 1

    @property
    def nbytes(self) -> int:
        return self.span * np.dtype(self.dtype).itemsize

    @property
    def moved(self) -> int:
        """Bytes of the elements, without gaps between them."""
        return prod(self.lens) * np.dtype(self.dtype).itemsize

    def view(self, flat: Array) -> Array:
        """Return memory as an array of `lens`."""
        return np.lib.stride_tricks.as_strided(flat, self.lens, [s * flat.itemsize for s in self.strides])


def packed(dtype: str, lens: Sizes) -> Memory:
    """Return how a packed array lies in memory."""
    return Memory(dtype, lens, tuple(prod(lens[i + 1:]) for i in range(len(lens))))


def described(desc: Any) -> Memory:
    """Return what a tensor descriptor says."""
    return Memory(desc.dtype, desc.lens, desc.strides)


class Pass(NamedTuple):
    """One direction of a layer.

    Attributes
    ----------
    short : str
        fwd or bwd, as in tables.
    title : str
        As in printed lines.
    inputs, outputs : tuple of str
        The names of what the call and the reference take, and of what is written; what is in both is brought up to
        date.
    read : tuple of str
        The inputs that have to be read, for the bandwidth; twice what has to be read twice.
    call : callable
        Runs it once, given the memory by name.
    plan : callable
        Returns the prepared plan of the same, which knows the solver; None where there is none.
    reference : callable
        From inputs in float64 to outputs in float64, by name.
    limit : float
        Of the error.
    axis : int
        Along this one the reference may be computed in blocks; below 0 along none.
    """

    short: str
    title: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    read: tuple[str, ...]
    call: Callable[[Any, Mapping[str, Any]], object]
    plan: Callable[[Any], Any]
    reference: Callable[[Mapping[str, Any]], Mapping[str, Array]]
    limit: float
    axis: int = 0


class Layer(ABC):
    """A command's layer.

    Attributes
    ----------
    memory : dict
        How each tensor lies in memory.  Workspaces that are no tensors are in `raw`.
    raw : dict
        The bytes of each workspace.
    """

    def __init__(self, command: Command) -> None:
        self.command = command
        self.dtype = command.dtype
        self.memory: dict[str, Memory] = {}
        self.raw: dict[str, int] = {}
        if command.number("wall") and not command.number("time"):
            raise UsageError("-w needs -t 1")

    @property
    @abstractmethod
    def layer(self) -> str:
        """The layer in short, for tables."""

    @abstractmethod
    def passes(self) -> list[Pass]:
        """Return all directions, in the order in which one needs what another left."""

    @abstractmethod
    def values(self, name: str, generator: data.Generator) -> Array:
        """Return the elements of an input."""

    def wanted(self, direction: Pass) -> bool:
        """Return whether -F asks for a direction."""
        forw = self.command.number("forw")
        return forw == 0 or forw == (1 if direction.short == "fwd" else 2)

    @property
    def spatial(self) -> int:
        """The number of spatial axes that the size flags name."""
        return 3 if self.command.number("in_d") else 2

    def lens(self) -> Sizes:
        """Return the lengths that the size flags name."""
        names = ["batchsize", "in_channels", *(["in_d"] if self.spatial == 3 else []), "in_h", "in_w"]
        return tuple(self.command.number(name) for name in names)

    def tensor(self, name: str, desc: Any) -> Any:
        """Take a descriptor for a tensor of this name, and return it."""
        self.memory[name] = described(desc)
        return desc

    def packed_tensor(self, *names: str) -> Any:
        """Return a descriptor of the size and layout flags, for tensors of these names."""
        desc = make_tensor(self.dtype, self.command.text("layout"), self.lens())
        for name in names:
            self.tensor(name, desc)
        return desc

    def uniform(self, name: str, generator: data.Generator, low: float, high: float) -> Array:
        """Return the elements of a tensor, uniform in [low, high)."""
        memory = self.memory[name]
        return data.uniform(generator, memory.dtype, memory.span, low, high)

    def facts(self) -> dict[str, Any]:
        """Return the layer as plain data, for JSON."""
        return {"dtype": self.dtype, "flags": dict(self.command.given),
                **{name: list(memory.lens) for name, memory in self.memory.items()},
                "bytes": {name: memory.nbytes for name, memory in self.memory.items()}}


def roundoff(dtype: str) -> float:
    """Return the distance from 1 to the next number of a type."""
    return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def elementwise_limit(dtype: str) -> float:
    """Return 80 epsilons, MIOpenDriver's limit, of float32 and float64.

    The 16-bit types are computed in float32 here and rounded once: 80 epsilons of float32 and one of their own.
    """
    if dtype in ("float32", "float64"):
        return 80 * roundoff(dtype)
    return 80 * roundoff("float32") + roundoff(dtype)


def limit(dtype: str, float32: float, float16: float) -> float:
    """Return MIOpenDriver's limit of a type where that is sharp enough, for float64 1e-12.

    A limit that a wrong element passes would say nothing: float32 gets at most 80 of its epsilons, and the 16-bit
    types, which are computed in float32 here and rounded once, four of theirs.
    """
    if dtype in ("float16", "bfloat16"):
        return min(float16 if dtype == "float16" else 8 * float16, 4 * roundoff(dtype))
    return 1e-12 if dtype == "float64" else min(float32, 80 * roundoff(dtype))


def _blocks(memory: Mapping[str, Memory], direction: Pass) -> Iterator[Callable[[str], tuple[slice, ...]]]:
    """Yield functions from a tensor's name to the part of it that belongs to one block."""
    axis = direction.axis
    if axis < 0:
        yield lambda name: ()
        return
    used = [memory[name] for name in (*direction.inputs, *direction.outputs) if name in memory]
    extent = max(m.lens[axis] for m in used)
    largest = max(prod(m.lens) for m in used)
    step = max(1, extent * _BLOCK // largest)
    for start in range(0, extent, step):
        def part(name: str, start: int = start) -> tuple[slice, ...]:
            whole = memory[name].lens[axis] != extent
            return (slice(None),) * axis + (slice(None) if whole else slice(start, start + step),)

        yield part


def check(layer: Layer, direction: Pass, host: Mapping[str, Array], before: Mapping[str, Array]) -> verify.Check:
    """Compare every output of a direction with its reference.

    Parameters
    ----------
    host : mapping
        Inputs and results, by name.
    before : mapping
        What was in the outputs that are inputs too.
    """
    inputs = {name: layer.memory[name].view(before.get(name, host[name])) for name in direction.inputs
              if name in layer.memory}
    expected = {name: np.empty(layer.memory[name].lens) for name in direction.outputs if name in layer.memory}
    for part in _blocks(layer.memory, direction):
        with np.errstate(all="ignore"):  # what is not finite fails below
            found = direction.reference({name: values[part(name)].astype(np.float64)
                                         for name, values in inputs.items()})
        for name, out in expected.items():
            out[part(name)] = found[name]
    worst = None
    for name, out in expected.items():
        memory = layer.memory[name]
        result = memory.view(host[name])
        if np.dtype(memory.dtype).kind in "iu":
            wrong = float(np.count_nonzero(result != out))
            if wrong:
                return verify.Check(False, wrong, 0.0, "CPU", f"wrong {name}")
            worst = worst or verify.Check(True, 0.0, direction.limit, "CPU")
            continue
        one = verify.compare(result.reshape(-1), out.reshape(-1), direction.limit, "CPU")
        if not one.ok:
            note = ", ".join(filter(None, [one.note, name if len(expected) > 1 else ""]))
            return one._replace(note=note)
        if worst is None or one.error > worst.error:
            worst = one
    assert worst is not None
    return worst


class LayerRun:
    """One command on one device; parameters as those of `run.Run`."""

    def __init__(self, session: Session, layer: Layer, emit: Emit, timed: bool, runs: int, careful: bool) -> None:
        self.session, self.layer, self.emit = session, layer, emit
        self.command = layer.command
        self.timed = timed or bool(self.command.number("time"))  # some layers' -w asks for times, too
        self.runs, self.careful = runs, careful
        self.host: dict[str, Array] = {}
        self.device: dict[str, Any] = {}

    def all(self) -> list[Outcome]:
        """Run every direction that was asked for, and what those need."""
        self.emit(f"PRNG seed: {self.session.seed}")
        outcomes: list[Outcome] = []
        passes = self.layer.passes()
        wanted = [direction for direction in passes if self.layer.wanted(direction)]
        try:
            require_memory(sum(memory.nbytes for memory in self.layer.memory.values()))
            self._make_inputs(passes)
        except MIOpenError as e:
            if not self.careful:
                raise
            return [self._could_not(direction, e) for direction in wanted]
        for i, direction in enumerate(passes):
            if not any(later in wanted for later in passes[i:]):
                break
            try:
                outcome = self._direction(direction, direction in wanted)
            except MIOpenError as e:
                if not self.careful:
                    raise
                return [*outcomes, *(self._could_not(later, e) for later in passes[i:] if later in wanted)]
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def _could_not(self, direction: Pass, e: MIOpenError) -> Outcome:
        return Outcome(direction.short, self.layer.layer, verdict=ERROR, message=str(e), code=exit_code(e))

    def _make_inputs(self, passes: list[Pass]) -> None:
        generator = data.Generator(self.session.seed)
        made = {name for direction in passes for name in direction.outputs if name not in direction.inputs}
        for name in self.layer.memory:
            if name not in made and any(name in direction.inputs for direction in passes):
                self.host[name] = self.layer.values(name, generator)
                self.device[name] = self.session.upload(self.host[name])

    def _fresh_outputs(self, direction: Pass, before: Mapping[str, Array]) -> None:
        """Give a direction outputs that nothing has written to: poison, or what is to be brought up to date."""
        for name in direction.outputs:
            if name in before:
                content = before[name].copy()
            elif name in self.layer.raw:
                content = np.full(max(1, self.layer.raw[name]), 0xA5, np.uint8)
            else:
                memory = self.layer.memory[name]
                content = (np.full(memory.nbytes, 0xA5, np.uint8).view(memory.dtype)
                           if np.dtype(memory.dtype).kind == "u" else data.poisoned(memory.dtype, memory.span))
            self.host[name] = content
            self.device[name] = self.session.upload(content)

    def _direction(self, direction: Pass, wanted: bool) -> Outcome | None:
        handle, layer = self.session.handle, self.layer
        before = {name: self.host[name] for name in direction.outputs if name in direction.inputs}
        outcome = Outcome(direction.short, layer.layer)
        if wanted:
            self._fresh_outputs(direction, before)
            began = perf_counter()
            plan = direction.plan(handle)
            if plan is not None:
                outcome.solution_id, outcome.solver = plan.solver.id, plan.solver.name
                outcome.workspace = plan.workspace
            auxiliary = (perf_counter() - began) * 1e3
            times, wall = measure(handle, lambda: direction.call(handle, self.device), self.timed, self.runs)
            outcome.time = average(times)
            self._print_times(direction, outcome, wall, auxiliary)
        # Runs after the first may have found what the first left; what is verified has run once.
        self._fresh_outputs(direction, before)
        direction.call(handle, self.device)
        for name in direction.outputs:
            if name in layer.memory:
                self.host[name] = self.session.download(self.device[name], np.empty_like(self.host[name]))
        handle.finish()
        if not wanted:
            return None
        if self.command.number("verify"):
            found = check(layer, direction, self.host, before)
            self.emit(found.line(direction.title))
            outcome.error, outcome.tolerance, outcome.reference = found.error, found.tolerance, found.reference
            outcome.verdict = OK if found.ok else FAILED
            outcome.message = "" if found.ok else found.note
        return outcome

    def _print_times(self, direction: Pass, outcome: Outcome, wall: float, auxiliary: float) -> None:
        memory, milliseconds = self.layer.memory, outcome.time or 0.0
        read, written = (sum(memory[name].moved for name in names if name in memory)
                         for names in (direction.read, direction.outputs))
        if milliseconds > 0:
            outcome.bandwidth = (read + written) / milliseconds / 1e6
        if not self.command.number("time"):
            return
        title = direction.title
        self.emit(f"MIOpen {title} Solution: {outcome.solution_id}/{outcome.solver}")
        if self.command.number("wall"):
            self.emit(f"Wall-clock Time {title} Elapsed: {wall:f} ms, Auxiliary API calls: {auxiliary:f} ms")
        self.emit(f"GPU Kernel Time {title} Elapsed: {milliseconds:f} ms (average)")
        if milliseconds > 0:
            self.emit("stats: name, tensor, bytesRead, bytesWritten, GB/s, timeMs")
            lens = "x".join(map(str, next(iter(memory.values())).lens))
            self.emit(f"stats: {direction.short}-{self.command.operation}, {lens}, {read}, {written}, "
                      f"{outcome.bandwidth:.1f}, {milliseconds:f}")
