"""All operations of the driver, by name, and what is done with the commands of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import (
    activ,
    bnorm,
    dropout,
    elements,
    fusion,
    gemm,
    layernorm,
    lrn,
    pool,
    problem,
    reduce,
    report,
    rnn,
    softmax,
    tensorop,
)
from .layer import Layer, LayerRun
from .options import CONVOLUTION, Command, Family, UsageError, Value
from .problem import Problem
from .report import Outcome
from .run import Emit, Run, Session

LAYERS: dict[Family, type[Layer]] = {
    pool.FAMILY: pool.Pooling, activ.FAMILY: activ.Activation, lrn.FAMILY: lrn.LRN, bnorm.FAMILY: bnorm.BatchNorm,
    softmax.FAMILY: softmax.Softmax, tensorop.FAMILY: tensorop.TensorOp,
    layernorm.LAYER_FAMILY: layernorm.LayerNorm, layernorm.ADD_FAMILY: layernorm.AddLayerNorm,
    layernorm.T5_FAMILY: layernorm.T5LayerNorm, layernorm.GROUP_FAMILY: layernorm.GroupNorm,
    reduce.TENSOR_FAMILY: reduce.ReduceTensor, reduce.CALCULATION_FAMILY: reduce.ReduceCalculation,
    reduce.EXTREME_FAMILY: reduce.ReduceExtreme, dropout.FAMILY: dropout.Dropout,
    fusion.FAMILY: fusion.Fusion, gemm.FAMILY: gemm.Gemm, **elements.LAYERS, **rnn.LAYERS,
}
FAMILIES: dict[str, Family] = {
    operation: family for family in (CONVOLUTION, *LAYERS) for operation in family.operations}

Work = Problem | Layer


def make(command: Command) -> Work:
    """Return what a command asks for.  Raises UsageError and MIOpenError for what cannot be."""
    work = problem.make(command) if command.family is CONVOLUTION else LAYERS[command.family](command)
    tensors = work.descriptors if isinstance(work, Problem) else work.memory
    for name, tensor in tensors.items():
        if 0 in tensor.lens:
            raise UsageError(f"nothing to time or verify: {name} has no elements")
    return work


def name(work: Work) -> str:
    """Return the work in short, for tables."""
    return report.layer(work) if isinstance(work, Problem) else work.layer


def counts(work: Work) -> bool:
    """Return whether the work is measured in operations: convolutions, not what memory bounds."""
    return isinstance(work, Problem)


def facts(work: Work) -> dict[str, Any]:
    """Return the work's sizes as plain data."""
    return report.problem_facts(work) if isinstance(work, Problem) else work.facts()


def run(session: Session, work: Work, emit: Emit, timed: bool, runs: int, careful: bool) -> list[Outcome]:
    """Run a command; parameters as those of `run.Run`."""
    kind = Run if isinstance(work, Problem) else LayerRun
    return kind(session, work, emit, timed, runs, careful).all()  # type: ignore[arg-type]


def prints(command: Command) -> bool:
    """Return whether a command line shall be printed, as all are whose operation has no flag for that."""
    return all(command.number(flag) for flag in ("printconv", "print") if flag in command.family.long)


def overridden(command: Command, operation: str, flags: Mapping[str, Value], batch: Value | None) -> Command:
    """Return a command with `flags`, `operation` (unless that is plain conv) and a batch size in place of its own."""
    sizes: Mapping[str, Value] = {}
    if batch:
        sizes = (pool.with_batch(command, batch) if command.family is pool.FAMILY or (
            "input" in command.given and "batchsize" in command.family.long)
                 else {name: batch for name in ("batchsize", "batch_size") if name in command.family.long})
    return command.overridden(operation, {**flags, **sizes})
