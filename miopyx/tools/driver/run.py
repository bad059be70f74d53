"""Run one command on a device: find or take a solution, run it, time it, verify it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import miopyx
from miopyx._core import Solver
from miopyx.errors import AllocFailedError, BadParmError, InvalidValueError, MIOpenError
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry
from miopyx.solvers.registry import solver_id, solver_name
from miopyx.values import posix

from . import data, verify
from .data import Array
from .options import UsageError
from .problem import Direction, Problem
from .report import ERROR, FAILED, OK, Outcome, layer, stats

Emit = Callable[[str], None]
# In the order that MIOpenDriver draws them.
_DRAWN = ("x", "dy", "w", "b")
_FILES = {"x": "in_data", "w": "weights", "dy": "dout_data", "b": "in_bias"}
_DUMPS = {"x": "in", "w": "wei", "dy": "dout", "b": "bias", "y": "fwd_out", "dx": "bwd_din", "dw": "bwd_dwei"}


def _on_host(handle: Any, problem: ConvProblem) -> Solver:
    return next(s for s in registry.CONV if s.why_not(handle.device, problem) is None)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error: 2 for what the caller asked for, 3 for what the device could not do."""
    return 2 if isinstance(error, UsageError | BadParmError | InvalidValueError) else 3


class Session:
    """A device, the host to compare it with, and the seed: what all commands of a process share."""

    def __init__(self, device: str | None, seed: int) -> None:
        self.handle: Any = miopyx.Handle(device)
        self.seed = seed
        self._reference: Any = None

    @property
    def reference(self) -> Any:
        """A handle on the host path, whose results are right."""
        if self._reference is None:
            self._reference = miopyx.Handle("host")
        return self._reference

    def close(self) -> None:
        self.handle.destroy()
        if self._reference is not None:
            self._reference.destroy()

    def upload(self, array: Array) -> Any:
        """Return memory of the device with an array's content; on the host, the array itself."""
        return array if self.handle.device.is_host else self.handle.upload(array)

    def download(self, buffer: Any, array: Array) -> Array:
        """Return what is in memory of the device, in `array` unless that is on the host anyway."""
        if self.handle.device.is_host:
            self.handle.finish()
            return buffer  # type: ignore[no-any-return]
        self.handle.download(buffer, array)
        return array


def measure(handle: Any, call: Callable[[], object], timed: bool, runs: int) -> tuple[list[float], float]:
    """Return the kernel time of each run, none if that was not asked for, and the mean wall-clock time, in ms."""
    times = []
    miopyx.miopenEnableProfiling(handle, timed)
    try:
        handle.finish()
        began = perf_counter()
        for _ in range(runs):
            call()
            if timed:
                times.append(miopyx.miopenGetKernelTime(handle))
        handle.finish()
        wall = (perf_counter() - began) * 1e3 / runs
    finally:
        miopyx.miopenEnableProfiling(handle, False)
    return times, wall


def require_memory(need: int) -> None:
    """Raise AllocFailedError for tensors of more bytes than this machine has."""
    have = posix.memory()
    if need > have:
        raise AllocFailedError(f"the tensors need {need} bytes, this machine has {have}")


def average(times: Sequence[float]) -> float | None:
    """Return MIOpenDriver's average, which leaves the first of several runs out; None where nothing was timed."""
    if not times:
        return None
    return times[0] if len(times) == 1 else (sum(times) - times[0]) / (len(times) - 1)


class Run:
    """One command on one device; `outcomes` has an entry for each direction once `all` has returned.

    Parameters
    ----------
    timed : bool
        Measure kernel times; they are printed with -t 1 only.
    runs : int
        How often to run each convolution.
    careful : bool
        Turn errors of the library into outcomes, for lists, instead of raising them.
    """

    def __init__(self, session: Session, problem: Problem, emit: Emit, timed: bool, runs: int, careful: bool) -> None:
        self.session, self.problem, self.emit = session, problem, emit
        self.command = problem.command
        self.timed, self.runs, self.careful = timed, runs, careful
        self.outcomes: list[Outcome] = []
        self.host: dict[str, Array] = {}
        self.device: dict[str, Any] = {}

    def all(self) -> list[Outcome]:
        """Run every direction that -F names.  Verdicts of the backward ones are printed together, as there."""
        self.emit(f"PRNG seed: {self.session.seed}")
        verdicts: list[str] = []
        try:
            self._require_memory()
            self._make_inputs()
        except MIOpenError as e:
            if not self.careful:
                raise
            return [self._could_not(direction, e) for direction in self.problem.directions]
        for direction in self.problem.directions:
            try:
                self.outcomes.append(self._direction(direction, verdicts))
            except MIOpenError as e:
                if not self.careful:
                    raise
                self.outcomes.append(self._could_not(direction, e))
            if direction.short == "fwd":
                self._emit_all(verdicts)
        if "b" in self.problem.descriptors and any(d.short != "fwd" for d in self.problem.directions):
            self._backward_bias(verdicts)
        self._emit_all(verdicts)
        return self.outcomes

    def _emit_all(self, lines: list[str]) -> None:
        for line in lines:
            self.emit(line)
        lines.clear()

    def _could_not(self, direction: Direction, e: MIOpenError) -> Outcome:
        return Outcome(direction.short, layer(self.problem), verdict=ERROR, message=str(e), code=exit_code(e))

    def _require_memory(self) -> None:
        require_memory(sum(self.problem.descriptors[name].nbytes for name in ("x", "w", "y")))

    def _make_inputs(self) -> None:
        """Fill what the directions read.  Values do not depend on which directions run: unused ones are skipped."""
        used = {name for direction in self.problem.directions for name in direction.inputs}
        if "b" in self.problem.descriptors:
            used |= {"b", "dy"} if any(d.short != "fwd" for d in self.problem.directions) else {"b"}
        generator = data.Generator(self.session.seed)
        for name in _DRAWN:
            if name not in self.problem.descriptors:
                continue
            dtype, count = self.problem.descriptors[name].dtype, self.problem.elements(name)
            path = self.command.text(_FILES[name])
            if name not in used or path:
                generator.skip(count)
            if name in used:
                self.host[name] = (data.read(path, _FILES[name], dtype, count) if path
                                   else data.fill(generator, name, dtype, count))
                self.device[name] = self.session.upload(self.host[name])
                self._dump(name, self.host[name])

    def _dump(self, name: str, values: Array) -> None:
        if self.command.number("dump_output"):
            path = Path(f"dump_{_DUMPS[name]}.bin")
            try:
                path.write_bytes(values.tobytes())
            except OSError as e:
                raise UsageError(f"cannot write {path}: {e.strerror}") from None

    # ------------------------------------------------------------------------------------------------ one direction

    def _direction(self, direction: Direction, verdicts: list[str]) -> Outcome:
        desc = self.problem.descriptors[direction.output]
        count = self.problem.elements(direction.output)
        outcome = Outcome(direction.short, layer(self.problem))
        chosen = self.command.text("solution")
        began = perf_counter()
        if chosen.startswith("-"):
            call, query = self._find(direction, outcome)
        else:
            call, query = self._immediate(direction, outcome, chosen)
        auxiliary = (perf_counter() - began) * 1e3

        output = self.session.upload(data.poisoned(desc.dtype, count))  # Find has written to its own
        times, wall = self._measure(call, output)
        outcome.time = average(times)
        if outcome.time:
            outcome.gflops = self.problem.geometry.flops / outcome.time / 1e6
        if self.command.number("time"):
            self.emit(f"MIOpen {direction.title} Algorithm: {outcome.algorithm}, "
                      f"Solution: {outcome.solution_id}/{outcome.solver}")
            if self.command.number("wall"):
                self.emit(f"Wall-clock Time {direction.title} Elapsed: {wall:f} ms, "
                          f"Auxiliary API calls: {auxiliary:f} ms (GWSS: {query:f})")
            self._print_time(direction, outcome.time or 0.0)

        if self.command.number("verify") or self.command.number("dump_output") or "b" in self.problem.descriptors:
            result = self.session.download(output, np.empty(count, desc.dtype))
            self._dump(direction.output, result)
            if self.command.number("verify"):
                self._judge(self._verify(direction, result, outcome.solver), direction.verdict, outcome,
                            verdicts)
            if direction.short == "fwd" and "b" in self.problem.descriptors:
                self._forward_bias(result, output, outcome, verdicts)
        return outcome

    def _judge(self, check: verify.Check, title: str, outcome: Outcome, verdicts: list[str]) -> None:
        verdicts.append(check.line(title))
        outcome.error, outcome.tolerance, outcome.reference = check.error, check.tolerance, check.reference
        outcome.verdict = OK if check.ok else FAILED
        outcome.message = "" if check.ok else check.note

    def _print_time(self, direction: Direction, milliseconds: float) -> None:
        self.emit(f"GPU Kernel Time {direction.title} Elapsed: {milliseconds:f} ms (average)")
        if milliseconds > 0:
            for line in stats(self.problem, direction, milliseconds):
                self.emit(line)

    def _measure(self, call: Callable[[Any], None], output: Any) -> tuple[list[float], float]:
        return measure(self.session.handle, lambda: call(output), self.timed, self.runs)

    def _functions(self, direction: Direction) -> Callable[[str], Callable[..., Any]]:
        return lambda rest: getattr(miopyx, f"miopenConvolution{direction.function}{rest}")

    def _described(self, direction: Direction) -> tuple[Any, ...]:
        """Return the descriptors as the queries and immediate mode take them."""
        first, second = direction.descriptors
        d = self.problem.descriptors
        return d[first], d[second], self.problem.conv, d[direction.output]

    def _workspace(self, size: int) -> Any:
        return self.session.upload(np.zeros(size, np.uint8)) if size else None

    def _find(self, direction: Direction, outcome: Outcome) -> tuple[Callable[[Any], None], float]:
        """Let Find choose; return the call that runs its choice and the milliseconds of the workspace query.

        Find names algorithms, not solvers: as MIOpenDriver does, ask immediate mode for the name afterwards.
        """
        handle, function, d = self.session.handle, self._functions(direction), self.problem.descriptors
        began = perf_counter()
        size = function("GetWorkSpaceSize")(handle, *self._described(direction))
        query = (perf_counter() - began) * 1e3
        first, second = direction.inputs
        inputs = (d[first], self.device[first], d[second], self.device[second])
        scratch = self.session.upload(data.poisoned(d[direction.output].dtype, self.problem.elements(direction.output)))
        found = getattr(miopyx, f"miopenFindConvolution{direction.function}Algorithm")(
            handle, *inputs, self.problem.conv, d[direction.output], scratch, 2, self._workspace(size), size,
            bool(self.command.number("search")))
        best = found[0]
        outcome.algorithm, outcome.workspace = int(best.algo), best.memory
        described = self._described(direction)
        count = function("GetSolutionCount")(handle, *described)
        for solution in function("GetSolution")(handle, *described, count):
            if int(solution.algorithm) == outcome.algorithm:
                outcome.solution_id = solution.solution_id
                outcome.solver = solver_name(solution.solution_id)
                break
        workspace = self._workspace(best.memory)

        def call(output: Any) -> None:
            function("")(handle, 1.0, *inputs, self.problem.conv, best.algo, 0.0, d[direction.output], output,
                         workspace, best.memory)

        return call, query

    def _immediate(self, direction: Direction, outcome: Outcome, chosen: str) -> tuple[Callable[[Any], None], float]:
        """Take a solution of immediate mode, the best where `chosen` is 0; list them all."""
        handle, function, d = self.session.handle, self._functions(direction), self.problem.descriptors
        described = self._described(direction)
        count = function("GetSolutionCount")(handle, *described)
        solutions = function("GetSolution")(handle, *described, count)
        self.emit(f"{direction.title[:-1]} solutions available: {len(solutions)}")
        for s in solutions:
            self.emit(f"- id: {s.solution_id} algo: {int(s.algorithm)}, time: {s.time:g} ms, "
                      f"ws: {s.workspace_size}, name: {solver_name(s.solution_id)}")
        number = int(chosen) if chosen.isascii() and chosen.isdigit() else solver_id(chosen)
        number = number or solutions[0].solution_id
        began = perf_counter()
        size = function("GetSolutionWorkspaceSize")(handle, *described, number)
        query = (perf_counter() - began) * 1e3
        function("CompileSolution")(handle, *described, number)
        outcome.solution_id, outcome.solver, outcome.workspace = number, solver_name(number), size
        outcome.algorithm = int(registry.BY_ID[number].algorithm)
        workspace = self._workspace(size)
        first, second = direction.descriptors
        inputs = (d[first], self.device[first], d[second], self.device[second])

        def call(output: Any) -> None:
            function("Immediate")(handle, *inputs, self.problem.conv, d[direction.output], output, workspace, size,
                                  number)

        return call, query

    # ------------------------------------------------------------------------------------------------- verification

    def _verify(self, direction: Direction, result: Array, name: str) -> verify.Check:
        solver = registry.BY_NAME[name]
        limit = verify.tolerance(self.problem.dtype, direction, solver.mixes_tiles, self.problem.transpose,
                                 not self.session.handle.device.is_host and not self.command.number("math_type"))
        first, second = direction.inputs
        tensors = {first: self.host[first], second: self.host[second], direction.output: result}
        views = {self.problem.role(name): self.problem.view(name, flat) for name, flat in tensors.items()}
        if self.session.handle.device.is_host:
            return verify.check_independently(self.problem.geometry, self.problem.computes(direction), **views,
                                              limit=limit, seed=self.session.seed)
        d = self.problem.descriptors
        plan = getattr(self.session.reference, {
            "fwd": "convolution_forward", "bwd": "convolution_backward_data", "wrw": "convolution_backward_weights",
        }[direction.short])(d[first], d[second], self.problem.conv, d[direction.output])
        expected = data.poisoned(d[direction.output].dtype, result.size)
        plan(self.host[first], self.host[second], expected)
        check = verify.compare(result, expected, limit, "host")
        computed = self.problem.computes(direction)
        problem = ConvProblem(("fwd", "bwd", "wrw").index(direction.short), d["x"], d["w"], d["y"], self.problem.conv)
        # The reference is rounded to the result's type, too.
        bound = sum(s.error_bound(h.device, problem) for h, s in (
            (self.session.handle, solver), (self.session.reference, _on_host(self.session.reference, problem))))
        return verify.compare_elements(check, views[computed], self.problem.view(direction.output, expected),
                                       verify.magnitudes(self.problem.geometry, computed, **views), bound)

    def _forward_bias(self, before: Array, output: Any, outcome: Outcome, verdicts: list[str]) -> None:
        """y += b, after the convolution's own verdict."""
        d = self.problem.descriptors
        expected = verify.bias_added(self.problem.view("y", before), self.problem.view("b", self.host["b"]))
        miopyx.miopenConvolutionForwardBias(self.session.handle, 1.0, d["b"], self.device["b"], 0.0, d["y"], output)
        after = self.session.download(output, np.empty(before.size, before.dtype))
        if self.command.number("verify"):
            check = verify.compare(self.problem.view("y", after).reshape(-1), expected.reshape(-1),
                                   verify.tolerance(self.problem.dtype), "CPU")
            self._judge_bias(check, "Forward Convolution Bias", outcome, verdicts)

    def _backward_bias(self, verdicts: list[str]) -> None:
        """db = sums of dy, beside the last backward direction."""
        d, outcome = self.problem.descriptors, self.outcomes[-1]
        gradient = data.poisoned(d["b"].dtype, self.problem.elements("b"))
        output = self.session.upload(gradient)
        try:
            miopyx.miopenConvolutionBackwardBias(self.session.handle, 1.0, d["dy"], self.device["dy"], 0.0, d["b"],
                                                 output)
            result = self.session.download(output, np.empty_like(gradient))
        except MIOpenError as e:
            if not self.careful:
                raise
            outcome.verdict, outcome.message, outcome.code = ERROR, str(e), exit_code(e)
            return
        if self.command.number("verify"):
            expected = verify.bias_gradient(self.problem.view("dy", self.host["dy"]))
            check = verify.compare(result, expected, verify.tolerance(self.problem.dtype), "CPU")
            self._judge_bias(check, "Backward Convolution Bias", outcome, verdicts)

    def _judge_bias(self, check: verify.Check, title: str, outcome: Outcome, verdicts: list[str]) -> None:
        if check.ok:
            verdicts.append(f"{title} Verifies OK on {check.reference} reference ({check.error:g})")
        else:
            verdicts.append(check.line(title))
            if outcome.verdict == OK:
                outcome.verdict, outcome.message = FAILED, "bias"
                outcome.error, outcome.tolerance = check.error, check.tolerance
