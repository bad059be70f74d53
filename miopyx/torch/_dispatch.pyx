"""Operators' kernels above autograd."""

import torch

cdef object _listeners = torch._C._len_torch_dispatch_stack
cdef object _grad_enabled = torch.is_grad_enabled
cdef object _Tensor = torch.Tensor, _Parameter = torch.nn.Parameter


cdef class Differentiable:
    """Straight to the computation where no gradient is asked for, else a `torch.autograd.Function`.

    What only looks like a tensor, and whoever listens to operators, is left to PyTorch's dispatcher.

    Parameters
    ----------
    function : type of torch.autograd.Function
        Takes the operator's arguments; its `op` is the operator.
    compute : callable
        The operator's kernel on CPUs and CUDA.
    tensors : int
        How many of the first arguments are tensors; the others have no gradients.
    """

    cdef object function, compute, differentiate
    cdef int tensors
    cdef readonly str __name__

    def __init__(self, function, compute, int tensors):
        self.function, self.compute, self.differentiate = function, compute, function.apply
        self.tensors, self.__name__ = tensors, function.__name__

    def __call__(self, *args):
        cdef bint plain = not _listeners()
        cdef int i
        for i in range(self.tensors):
            t = args[i]
            if t is None:
                continue
            if t.requires_grad and _grad_enabled():
                return self.differentiate(*args)
            plain = plain and _is_plain(t)
        if plain:
            return self.compute(*args)
        with torch._C._AutoDispatchBelowAutograd():
            return self.function.op(*args)


cdef bint _is_plain(t) except -1:
    return (type(t) is _Tensor or type(t) is _Parameter) and (t.is_cpu or t.is_cuda)
