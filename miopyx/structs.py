"""The result structs of miopen.h."""

from __future__ import annotations

from typing import NamedTuple

from .enums import (
    miopenConvAlgorithm_t,
    miopenConvBwdDataAlgorithm_t,
    miopenConvBwdWeightsAlgorithm_t,
    miopenConvFwdAlgorithm_t,
)


class miopenConvAlgoPerf_t(NamedTuple):
    """One result of a miopenFindConvolution...Algorithm function.

    In C the first member is a union of three enums; `algo` is the one of the direction that was searched.
    """

    algo: miopenConvFwdAlgorithm_t | miopenConvBwdDataAlgorithm_t | miopenConvBwdWeightsAlgorithm_t
    time: float  # milliseconds
    memory: int  # bytes of workspace

    @property
    def fwd_algo(self) -> miopenConvFwdAlgorithm_t:
        return miopenConvFwdAlgorithm_t(self.algo)

    @property
    def bwd_data_algo(self) -> miopenConvBwdDataAlgorithm_t:
        return miopenConvBwdDataAlgorithm_t(self.algo)

    @property
    def bwd_weights_algo(self) -> miopenConvBwdWeightsAlgorithm_t:
        return miopenConvBwdWeightsAlgorithm_t(self.algo)


class miopenConvSolution_t(NamedTuple):
    """One way to compute a convolution in immediate mode."""

    time: float  # milliseconds, measured or estimated; negative: unknown
    workspace_size: int  # bytes
    solution_id: int
    algorithm: miopenConvAlgorithm_t
