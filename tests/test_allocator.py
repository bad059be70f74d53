"""miopenSetAllocator: the workspace that a handle manages, from the user's memory."""

import gc

import numpy as np
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.errors import AllocFailedError, BadParmError, UnknownError

CONTEXT = {"name": "what the allocator is told"}


class Memory:
    """An allocator that keeps account."""

    def __init__(self, handle):
        self.handle, self.taken, self.given_back = handle, [], []

    def allocate(self, context, size):
        import pyopencl as cl

        assert context is CONTEXT
        self.taken.append(cl.Buffer(self.handle.queue.context, cl.mem_flags.READ_WRITE, size))
        return self.taken[-1]

    def free(self, context, memory):
        assert context is CONTEXT
        self.given_back.append(memory)

    def install(self):
        miopyx.miopenSetAllocator(self.handle, self.allocate, self.free, CONTEXT)


class Layer:
    """A convolution whose solution needs workspace, checked each time it runs."""

    def __init__(self, handle, rng, size=9):
        self.handle = handle
        descs = (TensorDescriptor("float32", (2, 3, size, size)), TensorDescriptor("float32", (4, 3, 3, 3)),
                 TensorDescriptor("float32", (2, 4, size - 2, size - 2)))
        self.y = np.empty(descs[2].lens, np.float32)
        x, w = (rng.integers(-4, 5, d.lens).astype(np.float32) for d in descs[:2])
        self.want = sum(np.einsum("nchw,kc->nkhw", x[:, :, r:r + size - 2, s:s + size - 2], w[:, :, r, s])
                        for r in range(3) for s in range(3))
        self.plan = handle.convolution_forward(*descs[:2], ConvolutionDescriptor(), descs[2], 91)
        self.buffers = tuple(handle.upload(a) for a in (x, w, self.y))

    def check(self):
        self.plan(*self.buffers)
        self.handle.download(self.buffers[2], self.y)
        np.testing.assert_array_equal(self.y, self.want)
        self.handle.download(self.handle.upload(np.full_like(self.y, np.nan)), self.y)


@pytest.fixture
def memory(opencl_handle):
    yield Memory(opencl_handle)
    miopyx.miopenSetAllocator(opencl_handle, None, None, None)


def test_workspace_is_the_users(opencl_handle, rng, memory):
    layer = Layer(opencl_handle, rng)
    layer.check()
    memory.install()
    for _ in range(3):
        layer.check()
    assert [m.size >= layer.plan.workspace > 0 for m in memory.taken] == [True]
    assert memory.given_back == []


def test_it_grows_and_is_given_back(opencl_handle, rng, memory):
    memory.install()
    small, large = Layer(opencl_handle, rng), Layer(opencl_handle, rng, 30)
    small.check()
    large.check()
    small.check()
    assert len(memory.taken) == 2
    assert memory.given_back == memory.taken[:1]
    miopyx.miopenSetAllocator(opencl_handle, None, None, None)
    assert memory.given_back == memory.taken
    large.check()
    assert len(memory.taken) == 2


@pytest.mark.parametrize("end", ["destroy", "forget", "another queue"])
def test_given_back_when_the_handle_goes(rng, opencl_name, end):
    handle = miopyx.Handle(opencl_name)
    memory = Memory(handle)
    memory.install()
    layer = Layer(handle, rng)
    layer.check()
    if end == "destroy":
        miopyx.miopenDestroy(handle)
    elif end == "another queue":
        import pyopencl as cl

        miopyx.miopenSetStream(handle, cl.CommandQueue(cl.Context(handle.queue.context.devices)))
    else:
        memory.handle = None
        del handle, layer
        gc.collect()
    assert memory.given_back == memory.taken
    assert len(memory.taken) == 1


def test_an_allocator_that_calls_the_handle(opencl_handle, rng, memory):
    layer, other = Layer(opencl_handle, rng), Layer(opencl_handle, rng, 12)
    nested = []

    def allocate(context, size):
        if not nested:
            nested.append(True)
            other.check()
            layer.check()
        return memory.allocate(context, size)

    miopyx.miopenSetAllocator(opencl_handle, allocate, memory.free, CONTEXT)
    layer.check()
    other.check()
    miopyx.miopenSetAllocator(opencl_handle, None, None, None)
    assert len(memory.given_back) == len(memory.taken)


def test_what_an_allocator_may_not_return(opencl_handle, rng, memory):
    import pyopencl as cl

    layer = Layer(opencl_handle, rng)
    context, freed = opencl_handle.queue.context, []
    for error, answer in (
            (AllocFailedError, None), (BadParmError, cl.Buffer(context, cl.mem_flags.READ_WRITE, 1)),
            (BadParmError, cl.Buffer(context, cl.mem_flags.READ_ONLY, 1 << 20)),
            (BadParmError, cl.Buffer(cl.Context(context.devices), cl.mem_flags.READ_WRITE, 1 << 20)),
            (BadParmError, np.empty(1 << 20, np.uint8)), (BadParmError, "memory")):
        miopyx.miopenSetAllocator(opencl_handle, lambda _, size, answer=answer: answer, lambda _, m: freed.append(m),
                                  None)
        with pytest.raises(error, match="allocator"):
            layer.plan(*layer.buffers)
        assert freed == [] if answer is None else freed.pop() is answer
    miopyx.miopenSetAllocator(opencl_handle, lambda _, size: 1 / 0, lambda _, m: None, None)
    with pytest.raises(ZeroDivisionError):
        layer.plan(*layer.buffers)
    miopyx.miopenSetAllocator(opencl_handle, None, None, None)
    layer.check()


def test_a_deallocator_that_fails_stops_nothing(opencl_handle, rng, memory, caplog):
    def free(context, memory):
        raise OSError("no")

    layer = Layer(opencl_handle, rng)
    miopyx.miopenSetAllocator(opencl_handle, memory.allocate, free, CONTEXT)
    layer.check()
    miopyx.miopenSetAllocator(opencl_handle, None, None, None)
    layer.check()


def test_arguments(handle):
    with pytest.raises(UnknownError):
        miopyx.miopenSetAllocator(handle, None, None, CONTEXT)
    for allocator, deallocator in ((1, print), (print, 1), (print, None), (None, print)):
        with pytest.raises(BadParmError):
            miopyx.miopenSetAllocator(handle, allocator, deallocator, None)
    with pytest.raises(BadParmError):
        miopyx.miopenSetAllocator(None, None, None, None)
    miopyx.miopenSetAllocator(handle, None, None, None)
