from ._descriptors import TensorDescriptor
from ._problem import Problem

class BiasProblem(Problem):
    def __init__(self, b: TensorDescriptor, y: TensorDescriptor) -> None: ...
