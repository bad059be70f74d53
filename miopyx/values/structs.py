"""The result structs of miopen.h."""

from __future__ import annotations

from typing import NamedTuple

from miopyx import enums


class miopenConvAlgoPerf_t(NamedTuple):
    """One result of a miopenFindConvolution...Algorithm function.

    In C the first member is a union of three enums; `algo` is the one of the direction that was searched.
    """

    algo: enums.miopenConvFwdAlgorithm_t | enums.miopenConvBwdDataAlgorithm_t | enums.miopenConvBwdWeightsAlgorithm_t
    time: float  # milliseconds
    memory: int  # bytes of workspace

    @property
    def fwd_algo(self) -> enums.miopenConvFwdAlgorithm_t:
        return enums.miopenConvFwdAlgorithm_t(self.algo)

    @property
    def bwd_data_algo(self) -> enums.miopenConvBwdDataAlgorithm_t:
        return enums.miopenConvBwdDataAlgorithm_t(self.algo)

    @property
    def bwd_weights_algo(self) -> enums.miopenConvBwdWeightsAlgorithm_t:
        return enums.miopenConvBwdWeightsAlgorithm_t(self.algo)


class miopenConvSolution_t(NamedTuple):
    """One way to compute a convolution in immediate mode."""

    time: float  # milliseconds, measured or estimated; negative: unknown
    workspace_size: int  # bytes
    solution_id: int
    algorithm: enums.miopenConvAlgorithm_t


class miopenTensorArgument_t(NamedTuple):
    """One argument of miopenRunSolution: a tensor's memory, or a number where the id is a scalar's."""

    id: enums.miopenTensorArgumentId_t | int
    descriptor: object  # None, or the TensorDescriptor that the problem has
    buffer: object
