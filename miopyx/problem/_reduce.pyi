from miopyx.enums import (
    miopenDataType_t,
    miopenIndicesType_t,
    miopenNanPropagation_t,
    miopenReduceTensorIndices_t,
    miopenReduceTensorOp_t,
)

from ._descriptors import Descriptor, _DataType, _Int
from ._problem import Problem

class ReduceTensorDescriptor(Descriptor):
    def __init__(
        self,
        op: miopenReduceTensorOp_t | _Int | None = None,
        comp_type: _DataType = 1,
        nan_propagation: miopenNanPropagation_t | _Int = 0,
        indices: miopenReduceTensorIndices_t | _Int = 0,
        indices_type: miopenIndicesType_t | _Int = 0,
    ) -> None: ...
    @property
    def op(self) -> miopenReduceTensorOp_t | None: ...
    @property
    def comp_type(self) -> miopenDataType_t: ...
    @property
    def nan_propagation(self) -> miopenNanPropagation_t: ...
    @property
    def indices(self) -> miopenReduceTensorIndices_t: ...
    @property
    def indices_type(self) -> miopenIndicesType_t: ...

class ReduceProblem(Problem): ...
