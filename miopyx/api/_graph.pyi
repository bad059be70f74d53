from collections.abc import Sequence
from typing import Any

from miopyx.engine._handle import Handle
from miopyx.enums import (
    miopenBackendAttributeName_t,
    miopenBackendAttributeType_t,
    miopenBackendDescriptorType_t,
)
from miopyx.problem._descriptors import _Int

class BackendDescriptor:
    def __init__(self) -> None: ...
    @property
    def kind(self) -> str: ...
    @property
    def finalized(self) -> bool: ...
    @property
    def destroyed(self) -> bool: ...
    def value(self, name: str, i: int = 0) -> Any: ...
    def all_values(self, name: str) -> list[Any]: ...
    @property
    def uid(self) -> int: ...
    @property
    def virtual(self) -> bool: ...
    @property
    def desc(self) -> Any: ...

def miopenBackendCreateDescriptor(descriptorType: miopenBackendDescriptorType_t | _Int | str) -> BackendDescriptor: ...
def miopenBackendInitialize(
    descriptor: BackendDescriptor,
    descriptorType: miopenBackendDescriptorType_t | _Int | str,
    sizeInBytes: _Int,
) -> None: ...
def miopenBackendSetAttribute(
    descriptor: BackendDescriptor,
    attributeName: miopenBackendAttributeName_t | _Int | str,
    attributeType: miopenBackendAttributeType_t | _Int | str,
    elementCount: _Int,
    arrayOfElements: Sequence[Any] | Any,
) -> None: ...
def miopenBackendFinalize(descriptor: BackendDescriptor) -> None: ...
def miopenBackendGetAttribute(
    descriptor: BackendDescriptor,
    attributeName: miopenBackendAttributeName_t | _Int | str,
    attributeType: miopenBackendAttributeType_t | _Int | str,
    requestedElementCount: _Int,
) -> tuple[int, list[Any]]: ...
def miopenBackendExecute(handle: Handle, executionPlan: BackendDescriptor, variantPack: BackendDescriptor) -> None: ...
def miopenBackendDestroyDescriptor(descriptor: BackendDescriptor) -> None: ...

__all__ = [
    "BackendDescriptor", "miopenBackendCreateDescriptor", "miopenBackendDestroyDescriptor", "miopenBackendExecute",
    "miopenBackendFinalize", "miopenBackendGetAttribute", "miopenBackendInitialize", "miopenBackendSetAttribute",
]
