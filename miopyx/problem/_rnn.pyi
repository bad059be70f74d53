import numpy as np
import numpy.typing as npt

from miopyx.enums import (
    miopenDataType_t,
    miopenRNNAlgo_t,
    miopenRNNBaseLayout_t,
    miopenRNNBiasMode_t,
    miopenRNNDirectionMode_t,
    miopenRNNInputMode_t,
    miopenRNNMode_t,
    miopenRNNPaddingMode_t,
)

from ._descriptors import Descriptor, _DataType, _Int, _Ints
from ._dropout import DropoutDescriptor
from ._problem import Problem

class RNNDescriptor(Descriptor):
    def __init__(
        self,
        hidden_size: _Int | None = None,
        layers: _Int = 1,
        mode: miopenRNNMode_t | _Int | str = ...,
        direction: miopenRNNDirectionMode_t | _Int | str = 0,
        bias: miopenRNNBiasMode_t | _Int | str = 1,
        input_mode: miopenRNNInputMode_t | _Int | str = 0,
        data_type: _DataType = ...,
        dropout: DropoutDescriptor | None = None,
        algorithm: miopenRNNAlgo_t | _Int | str = 0,
    ) -> None: ...
    @property
    def hidden_size(self) -> int | None: ...
    @property
    def layer_count(self) -> int: ...
    @property
    def rnn_mode(self) -> miopenRNNMode_t: ...
    @property
    def bidirectional(self) -> bool: ...
    @property
    def has_bias(self) -> bool: ...
    @property
    def skips_input(self) -> bool: ...
    @property
    def rnn_algorithm(self) -> miopenRNNAlgo_t: ...
    @property
    def data_type(self) -> miopenDataType_t: ...
    @property
    def dropout_descriptor(self) -> DropoutDescriptor | None: ...
    @property
    def padding_mode(self) -> miopenRNNPaddingMode_t: ...
    def set_padding_mode(self, mode: miopenRNNPaddingMode_t | _Int | str) -> None: ...

class SeqTensorDescriptor(Descriptor):
    steps: int
    batch: int
    vector: int
    rows: int
    table: npt.NDArray[np.int32] | None
    def __init__(
        self,
        data_type: _DataType | None = None,
        layout: miopenRNNBaseLayout_t | _Int | str = ...,
        max_length: _Int = 1,
        batch: _Int = 1,
        vector: _Int = 1,
        lengths: _Ints | None = None,
    ) -> None: ...
    @property
    def data_type(self) -> miopenDataType_t | None: ...
    @property
    def base_layout(self) -> miopenRNNBaseLayout_t: ...
    @property
    def sequence_lengths(self) -> list[int]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

class RNNProblem(Problem): ...
