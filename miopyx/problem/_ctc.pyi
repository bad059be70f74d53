import numpy as np
import numpy.typing as npt

from miopyx.enums import miopenDataType_t

from ._descriptors import Descriptor, TensorDescriptor, _DataType, _Int, _Ints
from ._slots import SlotsProblem

class CTCLossDescriptor(Descriptor):
    def __init__(
        self, data_type: _DataType = ..., blank_label_id: _Int = 0, apply_softmax_layer: bool = True
    ) -> None: ...
    def table(
        self,
        probs_desc: TensorDescriptor,
        labels: _Ints,
        label_lengths: _Ints,
        input_lengths: _Ints,
        most_labels: _Int,
    ) -> npt.NDArray[np.int32]: ...
    @property
    def data_type(self) -> miopenDataType_t: ...
    @property
    def blank_label_id(self) -> int: ...
    @property
    def apply_softmax_layer(self) -> bool: ...

class CTCProblem(SlotsProblem):
    def __init__(
        self, ctc: CTCLossDescriptor, probs: TensorDescriptor, gradients: TensorDescriptor, room: int = 0
    ) -> None: ...

class Labels:
    table: npt.NDArray[np.int32]
    room: int
    def __init__(
        self, problem: CTCProblem, labels: _Ints, label_lengths: _Ints, input_lengths: _Ints, most: int = -1
    ) -> None: ...
