"""Prepared plans, explanations, the memory that calls accept, and the life of a handle."""

import contextlib
import copy
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
import weakref

import ml_dtypes
import numpy as np
import pytest
from problems import DIRECTIONS, NAMES, Problem

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx._core import Offer
from miopyx.device import probing
from miopyx.engine._invoker import Invoker
from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry


@pytest.mark.parametrize("direction", DIRECTIONS, ids=NAMES)
def test_a_plan_computes_again_and_again(handle, rng, direction):
    problem = Problem(handle, rng)
    plan = problem.plan(direction)
    for alpha, beta in ((1.0, 0.0), (0.5, 0.0), (1.0, 1.0), (1.0, 0.0)):
        problem.reset()
        if beta == 0:
            problem.poison(direction)
        plan(*problem.buffers(direction), alpha=alpha, beta=beta)
        problem.close(direction, alpha, beta)


def test_a_plan_survives_its_descriptors(handle, rng):
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    want = problem.truth(0)
    for desc in (problem.x, problem.w, problem.y):
        miopyx.miopenDestroyTensorDescriptor(desc)
    miopyx.miopenDestroyConvolutionDescriptor(problem.conv)
    plan(*problem.buffers(0))
    np.testing.assert_allclose(problem.result(0), want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("direction", [0, 1, 2])
def test_a_descriptor_that_was_changed_is_found(handle, rng, direction):
    problem = Problem(handle, rng)
    plan = problem.plan(direction)
    names = (("xDesc", "wDesc", "yDesc"), ("dxDesc", "wDesc", "dyDesc"), ("xDesc", "dwDesc", "dyDesc"))[direction]
    buffers = problem.buffers(direction)
    want = problem.truth(direction)
    for desc, name in zip((problem.x, problem.w, problem.y), names, strict=True):
        lens, strides = desc.lens, desc.strides
        miopyx.miopenSetTensorDescriptor(desc, "float32", len(lens), [2 * lens[0], *lens[1:]], None)
        with pytest.raises(BadParmError, match="changed after the plan was made") as caught:
            plan(*buffers)
        assert caught.value.parameter == name
        miopyx.miopenSetTensorDescriptor(desc, "float32", len(lens), lens, strides)
        plan(*buffers)
    groups = problem.conv.group_count
    miopyx.miopenSetConvolutionGroupCount(problem.conv, groups + 1)
    with pytest.raises(BadParmError, match="convDesc"):
        plan(*buffers)
    miopyx.miopenSetConvolutionGroupCount(problem.conv, groups)
    plan(*buffers)
    np.testing.assert_allclose(problem.result(direction), want, rtol=1e-5, atol=1e-4)


def test_a_changed_descriptor_is_another_problem_for_immediate_mode(handle, rng):
    """Stamps, not objects, are what a handle remembers calls by."""
    problem = Problem(handle, rng)
    call = problem.call("GetSolutionCount", 0)
    assert call > 0
    miopyx.miopenSet4dTensorDescriptor(problem.x, "float32", 1, 1, 1, 1)
    with pytest.raises(BadParmError):
        problem.call("GetSolutionCount", 0)


def test_changed_back_and_destroyed_descriptors_together(handle, rng):
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    want = problem.truth(0)
    lens = problem.w.lens
    miopyx.miopenSetTensorDescriptor(problem.w, "float32", len(lens), lens, None)
    miopyx.miopenDestroyTensorDescriptor(problem.x)
    miopyx.miopenDestroyConvolutionDescriptor(problem.conv)
    plan(*problem.buffers(0))
    np.testing.assert_allclose(problem.result(0), want, rtol=1e-5, atol=1e-4)


def test_zero_and_minus_zero_are_two_alphas(opencl_handle, rng):
    problem = Problem(opencl_handle, rng)
    plan = problem.plan(0)
    signs = []
    for alpha in (0.0, -0.0, 0.0):
        plan(*problem.buffers(0), alpha=alpha)
        signs.append(np.signbit(problem.result(0)))
    np.testing.assert_array_equal(signs[2], signs[0])
    assert (signs[1] != signs[0]).any()


@pytest.mark.parametrize("number", [2**31, 2**62 + 1001, 2**62 - 1001, 2**62 - 1100, 2**63 - 1])
def test_solution_ids_do_not_wrap(handle, rng, number):
    problem = Problem(handle, rng)
    for _ in range(2):
        problem.call("GetSolutionCount", 0)
        with pytest.raises(BadParmError, match="unknown solution id"):
            problem.immediate(0, number, 0)


def test_bytes_stay_while_a_call_computes(rng):
    """A bytearray that is resized under a call: Python refuses while somebody holds its memory."""
    with miopyx.Handle("host") as host:
        x, w = TensorDescriptor("float64", (8, 64, 64, 64)), TensorDescriptor("float64", (64, 64, 3, 3))
        conv = ConvolutionDescriptor((1, 1))
        y = TensorDescriptor("float64", conv.output_lens(x, w))
        plan = host.convolution_forward(x, w, conv, y)
        raw, out = bytearray(rng.standard_normal(x.lens).tobytes()), np.empty(y.lens)
        filters, refused, begun = rng.standard_normal(w.lens), [], threading.Event()

        def resize():
            begun.wait()
            while not refused and thread_is_running[0]:
                with contextlib.suppress(BufferError):
                    raw.append(0)
                    raw.pop()
                    continue
                refused.append(True)

        thread_is_running = [True]
        thread = threading.Thread(target=resize)
        thread.start()
        begun.set()
        with contextlib.suppress(BadParmError):  # between two steps of the other thread it is a byte too long
            plan(raw, filters, out)
        thread_is_running[0] = False
        thread.join()
        assert refused


def test_other_objects_of_pyopencl_are_no_memory(opencl_handle, rng):
    import pyopencl as cl

    problem = Problem(opencl_handle, rng)
    plan, (_, w, y) = problem.plan(0), problem.buffers(0)
    context = opencl_handle.queue.context
    with warnings.catch_warnings(action="ignore"):  # some compilers have something to say
        program = cl.Program(context, "__kernel void k(void) {}").build()
    kernel = cl.Kernel(program, "k")
    device = opencl_handle.queue.device
    for thing in (context, opencl_handle.queue, device, device.platform, program, kernel):
        with pytest.raises(BadParmError, match="not memory"):
            plan(thing, w, y)
    if device.image_support:
        image = cl.create_image(context, cl.mem_flags.READ_WRITE,
                                cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT), shape=(64, 64))
        with pytest.raises(BadParmError, match="no buffer"):
            plan(image, w, y)
    for number in (-1, 2**70, "a", 1.5j):
        class Odd:
            int_ptr = number

        with pytest.raises(BadParmError):
            plan(Odd(), w, y)


def problem_of(filters, rest):
    """Return a problem with the filters of one and everything else of another."""
    mixed = copy.copy(rest)
    mixed.host = [rest.host[0], filters.host[1], rest.host[2]]
    return mixed


def test_a_call_inside_a_call_disturbs_nothing(opencl_handle, rng):
    problem, other = Problem(opencl_handle, rng), Problem(opencl_handle, rng)
    plan, (x, w, y) = problem.plan(0), problem.buffers(0)
    x2, _, y2 = other.buffers(0)

    elsewhere = opencl_handle.upload(2 * problem.host[1])  # twice the filters

    class Duck:
        @property
        def int_ptr(self):
            plan(x2, w, y2)
            return elsewhere.int_ptr

    for _ in range(3):
        plan(x, Duck(), y)
        np.testing.assert_allclose(problem.result(0), 2 * problem.truth(0), rtol=1e-5, atol=1e-4)
        plan(x, w, y)
        problem.close(0)
        plan(x2, w, y2)
        problem_of(problem, other).close(0)


def test_profiling_needs_a_queue_that_profiles(opencl_handle):
    import pyopencl as cl

    context = opencl_handle.queue.context
    profiling = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    with miopyx.Handle(profiling) as handle:
        miopyx.miopenEnableProfiling(handle, True)
        with pytest.raises(BadParmError, match="CL_QUEUE_PROFILING_ENABLE"):
            miopyx.miopenSetStream(handle, cl.CommandQueue(context))
        assert miopyx.miopenGetStream(handle) == profiling


def test_an_invoker_in_a_cycle_is_collected(handle, rng):
    """The collector empties objects of a cycle before it frees them: nothing of them may be needed then."""
    problem = Problem(handle, rng)
    plan = problem.plan(0)

    class Borrower(miopyx.Solver):
        def solution(self, dev, problem, config=None):
            return plan.solver.solution(dev, problem, plan.invoker.config)

    solver = Borrower()
    solver.invoker = Invoker(handle, Offer(solver, handle.device, plan.invoker.problem))
    gone = weakref.ref(solver)
    del solver
    gc.collect()
    assert gone() is None


def test_explain_names_every_solver_of_the_direction(handle, rng):
    problem = Problem(handle, rng)
    last = problem.call("GetSolution", 0, 9)[-1].solution_id
    forced = problem.plan(0, solution_id=last)
    limited = problem.plan(0, workspace_limit=0)
    for plan in (problem.plan(0), forced, limited):
        lines = [line for line in plan.explain().splitlines() if line.startswith("not ")]
        named = [word for line in lines for word in re.findall(r"\b\d+/\w+", line)]
        counted = sum(int(count) for line in lines for count in re.findall(r"^not (\d+) solvers ", line))
        assert len(set(named)) == len(named)
        assert len(named) + counted == len(miopyx.solvers.registry.CONV) - 1
        assert str(plan.solver)[1:-1] not in named
    assert "asked for" in forced.explain()
    if not handle.device.is_host:
        assert "another was asked for" in forced.explain()
        assert "the limit is 0" in limited.explain()


@pytest.mark.parametrize("after_find", [False, True])
def test_workspace_limit(new_handle, rng, after_find):
    handle = new_handle
    problem = Problem(handle, rng)
    if after_find:  # which times no naive solver, the only one without workspace on OpenCL devices
        problem.find(0)
    plan = problem.plan(0, workspace_limit=0)
    assert plan.workspace == 0
    plan(*problem.buffers(0))
    problem.close(0)
    with pytest.raises(BadParmError):
        problem.plan(0, workspace_limit=-1)
    greedy = max(problem.call("GetSolution", 0, 9), key=lambda s: s.workspace_size)
    if greedy.workspace_size:
        with pytest.raises(BadParmError, match="workspace"):
            problem.plan(0, solution_id=greedy.solution_id, workspace_limit=greedy.workspace_size - 1)


def test_solutions_by_index_never_run_anything(handle, rng, monkeypatch):
    problem = Problem(handle, rng)
    monkeypatch.setattr(miopyx.choose.find, "find", lambda *a: pytest.fail("a search nobody asked for"))
    problem.call("GetSolution", 0, 9)
    problem.plan(0)


def test_numpy_arrays_in_place(handle, rng):
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    x, w, _ = problem.host
    y = np.full(problem.y.lens, np.nan, np.float32)
    if handle.device.is_host or handle.device.shares_memory:
        plan(x, w, y)
        np.testing.assert_allclose(y, problem.truth(0), rtol=1e-5, atol=1e-4)
        odd = np.zeros(y.nbytes + 4, np.uint8)[4:].view(np.float32).reshape(y.shape)  # aligned to an element only
        plan(x, w, odd)
        np.testing.assert_array_equal(odd, y)
    else:
        with pytest.raises(BadParmError, match="upload"):
            plan(x, w, y)


@pytest.mark.parametrize("pointers", [False, True])
def test_host_memory_by_address_or_in_buffers(cpu, rng, monkeypatch, pointers):
    if pointers and not probing.takes_pointers(cpu.device.info):
        pytest.skip("kernels take buffers alone")
    monkeypatch.setattr(probing, "takes_pointers", lambda info: pointers)
    with miopyx.Handle(cpu.device.name) as handle:
        problem = Problem(handle, rng)
        plan = problem.plan(0)
        x, w, _ = problem.host
        for mixed in (w, handle.upload(w), w):
            y = np.full(problem.y.lens, np.nan, np.float32)
            plan(x, mixed, y)
            np.testing.assert_allclose(y, problem.truth(0), rtol=1e-5, atol=1e-4)
        memory = np.zeros(x.size + y.size, np.float32)  # y begins where x ends, but for one element
        with pytest.raises(BadParmError, match="shares memory"):
            plan(memory[:x.size].reshape(x.shape), w, memory[x.size - 1:-1].reshape(y.shape))


def test_arrays_that_contradict_their_descriptor(rng):
    with miopyx.Handle("host") as host:
        problem = Problem(host, rng, x=(2, 6, 9, 9))
        plan = problem.plan(0)
        x, w, y = problem.host
        readonly = y.copy()
        readonly.flags.writeable = False
        bad = {
            "another type": (x.astype(np.float64), w, y),
            "another layout": (np.asfortranarray(x), w, y),
            "not contiguous": (np.zeros((4, 6, 9, 9), np.float32)[::2].reshape(2, 6, 81)[:, :, ::1][:, ::-1], w, y),
            "read-only": (x, w, readonly),
            "a bare address": (x.ctypes.data, w, y),
            "not an array": ([1.0, 2.0], w, y),
            "a class": (np.float32, w, y),
            "another byte order": (x.astype(">f4"), w, y),
            "lengths in an order that contradicts the strides": (
                np.ascontiguousarray(x.transpose(0, 2, 3, 1)), w, y),
            "misaligned": (np.zeros(x.nbytes + 1, np.uint8)[1:], w, y),
            "shares memory": (y[:1], w, y),
            "empty": (np.zeros((0, 3), np.float32), w, y),
        }
        for name, arguments in bad.items():
            with pytest.raises(BadParmError) as caught:
                plan(*arguments)
            assert caught.value.parameter is not None, name
        view = np.ascontiguousarray(x.transpose(1, 0, 2, 3)).transpose(1, 0, 2, 3)  # c outermost in memory
        strides = tuple(s // 4 for s in view.strides)
        desc = TensorDescriptor("float32", view.shape, strides)
        host.convolution_forward(desc, problem.w, problem.conv, problem.y)(view, w, y)
        np.testing.assert_allclose(y, problem.truth(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("axis", range(4))
def test_an_array_that_is_part_of_a_larger_one(handle, rng, axis):
    """Its steps are larger than the descriptor's, and so is what it spans."""
    if not (handle.device.is_host or handle.device.shares_memory):
        pytest.skip("needs NumPy arrays as the device's memory")
    problem = Problem(handle, rng)
    x, w, y = problem.host
    larger = np.ones([n + (i == axis) for i, n in enumerate(x.shape)], np.float32)
    part = larger[tuple(slice(n) for n in x.shape)]
    if part.flags.c_contiguous:  # the first axis changes no step
        problem.plan(0)(part, w, y)
    else:
        with pytest.raises(BadParmError):
            problem.plan(0)(part, w, y)


def test_output_and_workspace_overlap_nothing(handle, rng):
    if not (handle.device.is_host or handle.device.shares_memory):
        pytest.skip("needs NumPy arrays as the device's memory")
    problem = Problem(handle, rng)
    x, w, y = problem.host
    large = np.zeros(4 * x.size, np.float32)
    for a, b, c in ((y, w, y), (x, y, y), (large[:x.size], w, large[10:])):
        with pytest.raises(BadParmError, match="shares memory"):
            problem.plan(0)(a, b, c)
    for solution in problem.call("GetSolution", 0, 9):
        if solution.workspace_size:
            scratch = np.zeros(solution.workspace_size + y.nbytes, np.uint8)
            for workspace in (scratch[8:], scratch):
                with pytest.raises(BadParmError, match="shares memory"):
                    miopyx.miopenConvolutionForwardImmediate(
                        handle, problem.w, w, problem.x, scratch, problem.conv, problem.y, y, workspace,
                        solution.workspace_size, solution.solution_id)


def test_plans_are_made_by_handles():
    with pytest.raises(TypeError, match="Handle"):
        miopyx.Plan()
    empty = miopyx.Plan.__new__(miopyx.Plan)
    assert (empty.workspace, empty.solver) == (0, None)
    assert repr(empty)
    with pytest.raises(BadParmError):
        empty(1, 2, 3)


def test_scalars_of_a_plan(handle, rng):
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    for bad in ("a", None, [1.0]):
        with pytest.raises(BadParmError, match="alpha"):
            plan(*problem.buffers(0), alpha=bad)
    plan(*problem.buffers(0), alpha=np.float32(1), beta=0)
    problem.close(0)


def test_sizes_beyond_64_bits(handle):
    x = TensorDescriptor("int8", (1, 1, 2**30, 2**30))
    w = TensorDescriptor("int8", (1, 1, 2**15, 2**15))
    conv = ConvolutionDescriptor((2**14, 2**14))
    y = TensorDescriptor("int8", conv.output_lens(x, w))
    solutions = miopyx.miopenConvolutionForwardGetSolution(handle, w, x, conv, y, 99)
    assert all(s.workspace_size >= 0 for s in solutions)
    assert {miopyx.solver_name(s.solution_id) for s in solutions} <= {"ConvDirectNaiveConvFwd", "HostImplicitGemmFwd"}


def test_a_plan_of_a_context_that_the_handle_left(opencl_name, rng):
    import pyopencl as cl

    with miopyx.Handle(opencl_name) as handle:
        problem = Problem(handle, rng)
        plan = problem.plan(0)
        context = cl.Context([handle.device.info.handle])
        miopyx.miopenSetStream(handle, cl.CommandQueue(context))
        with pytest.raises(BadParmError, match="has left"):
            plan(*problem.buffers(0))
        problem.reset()
        problem.plan(0)(*problem.buffers(0))
        problem.close(0)


@pytest.mark.parametrize("packed", [False, True])
def test_calls_on_several_queues(opencl_name, rng, packed):
    """The workspace is one, so calls on another queue of the context wait for those before."""
    import pyopencl as cl

    with miopyx.Handle(opencl_name) as handle:
        problem = Problem(handle, rng, x=(2, 48, 40, 40), k=48)
        shapes = ConvProblem(0, problem.x, problem.w, problem.y, problem.conv)
        usable = [s for s in registry.CONV if s.why_not(handle.device, shapes) is None
                  and s.workspace_size(handle.device, shapes) > 1 << 16]
        assert usable
        queues = [cl.CommandQueue(handle.queue.context) for _ in range(2)]
        sources = [handle.upload(rng.standard_normal(problem.x.lens).astype("f4")) for _ in range(4)]
        for solver in usable:
            plan = problem.plan(0, solution_id=solver.id)
            if packed:
                plan.pack(problem.data[1])
            wants = []
            for x in sources:
                plan(x, problem.data[1], problem.data[2])
                wants.append(problem.result(0))
            results = [handle.upload(np.full_like(want, np.nan)) for want in wants]
            for _ in range(3):
                for i, (x, y) in enumerate(zip(sources, results, strict=True)):
                    miopyx.miopenSetStream(handle, queues[i % 2])
                    plan(x, problem.data[1], y)
                    handle.queue.flush()
            for queue in queues:
                queue.finish()
            for y, want in zip(results, wants, strict=True):
                np.testing.assert_array_equal(handle.download(y, np.empty_like(want)), want, err_msg=repr(solver))


def test_bytes_like_memory(rng):
    with miopyx.Handle("host") as host:
        problem = Problem(host, rng)
        x, w, _ = problem.host
        out = bytearray(problem.y.nbytes)
        problem.plan(0)(x.tobytes(), memoryview(w.tobytes()), out)
        got = np.frombuffer(out, np.float32).reshape(problem.y.lens)
        np.testing.assert_allclose(got, problem.truth(0), rtol=1e-5, atol=1e-4)
        with pytest.raises(BadParmError, match="read-only"):
            problem.plan(0)(x, w, bytes(problem.y.nbytes))


def test_bfloat16_arrays(handle, rng):
    x = TensorDescriptor("bfloat16", (2, 3, 5, 5))
    w = TensorDescriptor(ml_dtypes.bfloat16, (4, 3, 1, 1))
    y = TensorDescriptor(np.dtype(ml_dtypes.bfloat16), (2, 4, 5, 5))
    xs, ws = (rng.standard_normal(d.lens).astype(ml_dtypes.bfloat16) for d in (x, w))
    out = handle.upload(np.zeros(y.lens, ml_dtypes.bfloat16))
    handle.convolution_forward(x, w, ConvolutionDescriptor(), y)(handle.upload(xs), handle.upload(ws), out)
    got = handle.download(out, np.empty(y.lens, ml_dtypes.bfloat16)).astype(np.float64)
    want = np.einsum("nchw,kc->nkhw", xs.astype(np.float64), ws[:, :, 0, 0].astype(np.float64))
    np.testing.assert_allclose(got, want, rtol=2**-7, atol=2**-7)


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")  # of pyopencl's own kernels, on some drivers
def test_opencl_memory(opencl_handle, rng):
    handle = opencl_handle
    import pyopencl as cl
    import pyopencl.array as cl_array

    problem = Problem(handle, rng)
    plan = problem.plan(0)
    x, w, y = problem.data
    plan(x.int_ptr, w.int_ptr, y.int_ptr)
    problem.close(0)
    problem.poison(0)
    arrays = [cl_array.to_device(handle.queue, a) for a in problem.host]
    plan(*arrays)
    np.testing.assert_allclose(arrays[2].get(), problem.truth(0), rtol=1e-5, atol=1e-4)
    large = cl_array.zeros(handle.queue, problem.host[0].size + 48, np.float32)
    inner = large[48:]
    inner.set(problem.host[0].reshape(-1))
    arrays[2].fill(np.nan)
    plan(inner, arrays[1], arrays[2])  # an array with an offset into its buffer
    np.testing.assert_allclose(arrays[2].get(), problem.truth(0), rtol=1e-5, atol=1e-4)
    with pytest.raises(BadParmError, match="type"):
        plan(cl_array.empty(handle.queue, problem.host[0].shape, np.float64), arrays[1], arrays[2])
    with pytest.raises(BadParmError, match="too small"):
        plan(large[large.size - 10:], arrays[1], arrays[2])
    with pytest.raises(BadParmError, match="shares memory"):
        plan(arrays[2], arrays[1], arrays[2])
    flags = cl.mem_flags
    whole = cl.Buffer(handle.queue.context, flags.READ_WRITE, 1 << 20)
    align = handle.device.info.mem_base_align
    low, high = whole.get_sub_region(0, 1 << 19), whole.get_sub_region(align, 1 << 19)
    for a, b in ((low, high), (whole, high), (low, whole)):
        with pytest.raises(BadParmError, match="shares memory"):
            plan(a, w, b)
    plan(whole.get_sub_region(0, 1 << 16), w, whole.get_sub_region(1 << 16, 1 << 16))
    with pytest.raises(BadParmError, match="read-only"):
        plan(x, w, cl.Buffer(handle.queue.context, flags.READ_ONLY, 1 << 20))
    other = cl.Context([handle.device.info.handle])
    with pytest.raises(BadParmError, match="another context"):
        plan(x, w, cl.Buffer(other, flags.READ_WRITE, 1 << 20))
    svm = [cl.csvm_empty(handle.queue.context, a.shape, a.dtype) for a in problem.host] \
        if handle.device.shares_memory and _has_svm(handle) else None
    if svm is not None:
        for target, source in zip(svm, problem.host, strict=True):
            with cl.SVM(target).map_rw(handle.queue) as mapped:
                mapped[...] = source
        plan(*(cl.SVM(a) for a in svm))
        handle.finish()
        with cl.SVM(svm[2]).map_ro(handle.queue) as mapped:
            np.testing.assert_allclose(mapped, problem.truth(0), rtol=1e-5, atol=1e-4)
    plan(x, w, y)
    y.release()
    # Our own reference keeps the memory alive; whether the release shows depends on the driver's own references.
    with contextlib.suppress(BadParmError):
        plan(x, w, y)
    handle.finish()


def _has_svm(handle):
    import pyopencl as cl

    device = handle.queue.device
    try:
        return bool(device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER)
    except cl.Error:
        return False


@pytest.mark.parametrize("direction", [0, 1], ids=["ForwardBias", "BackwardBias"])
@pytest.mark.parametrize("lens", [(3, 5, 7, 6), (2, 3, 4, 5, 3)], ids=["2-D", "3-D"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_bias(handle, rng, direction, lens, dtype):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    flat = (1, lens[1], *(1,) * (len(lens) - 2))
    axes = (0, *range(2, len(lens)))
    for strides, order in ((None, None), ("last", (0, *range(2, len(lens)), 1))):
        y = rng.standard_normal(lens).astype(kind)
        b = rng.standard_normal(flat).astype(kind)
        stored = np.ascontiguousarray(y.transpose(order)) if order else y
        back = stored.transpose(np.argsort(order)) if order else stored
        y_desc = TensorDescriptor(dtype, lens, [s // kind.itemsize for s in back.strides] if strides else None)
        b_desc = TensorDescriptor(dtype, flat)
        for alpha, beta in ((1.0, 0.0), (0.5, 0.25)):
            y_data, b_data = handle.upload(stored), handle.upload(b)
            wide_y, wide_b = y.astype(np.float64), b.astype(np.float64)
            if direction == 0:
                miopyx.miopenConvolutionForwardBias(handle, alpha, b_desc, b_data, beta, y_desc, y_data)
                got = handle.download(y_data, np.empty_like(stored))
                got = got.transpose(np.argsort(order)) if order else got
                want = alpha * (wide_y + wide_b) + beta * wide_y
                size = abs(alpha) * (abs(wide_y) + abs(wide_b)) + abs(beta * wide_y)
            else:
                if beta == 0:
                    b_data = handle.upload(np.full(flat, np.nan).astype(kind))
                miopyx.miopenConvolutionBackwardBias(handle, alpha, y_desc, y_data, beta, b_desc, b_data)
                got = handle.download(b_data, np.empty_like(b))
                want = alpha * wide_y.sum(axes, keepdims=True) + beta * wide_b
                size = abs(alpha) * abs(wide_y).sum(axes, keepdims=True) + abs(beta * wide_b)
            unit = {"float64": 2.0**-50, "float32": 2.0**-22, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
            assert (abs(got.astype(np.float64) - want) <= unit * size + 2.0**-25).all()


def test_bias_errors(handle, rng):
    y, b = TensorDescriptor("float32", (2, 3, 4, 4)), TensorDescriptor("float32", (1, 3, 1, 1))
    ys, bs = handle.upload(np.zeros(y.lens, np.float32)), handle.upload(np.zeros(b.lens, np.float32))
    forward, backward = miopyx.miopenConvolutionForwardBias, miopyx.miopenConvolutionBackwardBias
    for bad in (TensorDescriptor("float32", (1, 3, 1)), TensorDescriptor("float16", (1, 3, 1, 1)),
                TensorDescriptor("float32", (1, 2, 1, 1))):
        with pytest.raises(UnknownError):
            forward(handle, 1.0, bad, bs, 0.0, y, ys)
    with pytest.raises(BadParmError, match="channels"):
        backward(handle, 1.0, y, ys, 0.0, TensorDescriptor("float32", (1, 2, 1, 1)), bs)
    for arguments in ((1.0, b, None, 0.0, y, ys), (1.0, b, bs, 0.0, y, None), ("x", b, bs, 0.0, y, ys),
                      (1.0, b, bs, None, y, ys), (1.0, None, bs, 0.0, y, ys)):
        with pytest.raises(BadParmError):
            forward(handle, *arguments)
    integers = [TensorDescriptor("int32", lens) for lens in ((1, 3, 1, 1), (2, 3, 4, 4))]
    with pytest.raises(miopyx.MIOpenNotImplementedError):
        forward(handle, 1.0, integers[0], bs, 0.0, integers[1], ys)


def test_destroyed_handles(device_name, rng):
    handle = miopyx.Handle(device_name)
    problem = Problem(handle, rng)
    plan = problem.plan(0)
    miopyx.miopenDestroy(handle)
    miopyx.miopenDestroy(handle)
    miopyx.miopenDestroy(None)
    for use in (lambda: plan(*problem.buffers(0)), lambda: problem.call("GetSolution", 0, 1), lambda: problem.plan(0),
                handle.finish, lambda: miopyx.miopenGetKernelTime(handle), lambda: handle.upload(problem.host[0])):
        with pytest.raises(BadParmError, match="destroyed"):
            use()


def test_handle_arguments(device_name):
    with miopyx.Handle(device_name) as handle:
        assert handle.device.name == device_name or device_name == "host"
        assert device_name.split("_")[0] in repr(handle)
    for bad in (5, 1.5, object(), b"host"):
        with pytest.raises(BadParmError):
            miopyx.Handle(bad)
    with pytest.raises(BadParmError) as raised:
        miopyx.Handle("no such device")
    words = str(raised.value.limit).replace(",", " ").split()
    assert {"gpu", "cpu", "host", "cuda"} <= set(words)
    with pytest.raises(BadParmError):
        miopyx.miopenCreateWithStream(None)
    with miopyx.miopenCreate() as handle:
        assert handle.device is not None


def test_threads_share_a_handle_and_plans(handle, rng):
    problems = [Problem(handle, rng, x=(1, 4, 6 + i, 7)) for i in range(4)]
    plans = [p.plan(0) for p in problems]
    truths = [p.truth(0) for p in problems]
    failures = []

    def work(seed):
        order = np.random.default_rng(seed)
        for _ in range(100):
            i = int(order.integers(4))
            x, w, _ = problems[i].data
            y = handle.upload(np.full(problems[i].y.lens, np.nan, np.float32))
            plans[i](x, w, y)
            got = handle.download(y, np.empty(problems[i].y.lens, np.float32))
            if not np.allclose(got, truths[i], rtol=1e-5, atol=1e-4):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_threads_find_and_run_plans_at_once(new_handle, rng):
    """Kernel times are waited for without the GIL, and the shared workspace grows meanwhile."""
    handle = new_handle
    problems = [Problem(handle, rng, x=(2, 4 + 3 * i, 9 + 4 * i, 8)) for i in range(5)]
    plans = [p.plan(0) for p in problems]
    truths = [p.truth(0) for p in problems]
    failures = []

    def run(i):
        for _ in range(30):
            x, w, _ = problems[i].data
            y = handle.upload(np.full(problems[i].y.lens, np.nan, np.float32))
            plans[i](x, w, y)
            got = handle.download(y, np.empty(problems[i].y.lens, np.float32))
            if not np.allclose(got, truths[i], rtol=1e-5, atol=1e-4):
                failures.append(i)

    def search():
        for _ in range(3):
            Problem(handle, np.random.default_rng(), x=(3, 16, 20, 20), k=16).find(0)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(5)] + [threading.Thread(target=search)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork_while_another_thread_holds_the_handle(rng):
    with miopyx.Handle("host") as handle:
        problem = Problem(handle, rng)
        inside, done = threading.Event(), threading.Event()

        def hold():
            with handle.timing():
                inside.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(20)
                problem.plan(0)(*problem.buffers(0))
                os._exit(0)
            except BaseException:
                os._exit(1)
        done.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def in_child(function):
    """Run `function` after fork and return whether it returned True."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_fork(handle, rng):
    problem = Problem(handle, rng)
    plan = problem.plan(0)

    def use():
        try:
            plan(*problem.buffers(0))
        except UnknownError as e:
            return "fork" in str(e) and not handle.device.is_host
        return handle.device.is_host

    assert in_child(use)
    assert in_child(lambda: miopyx.Handle("host").device.is_host)
    plan(*problem.buffers(0))
    problem.close(0)


CHILD = """
import multiprocessing, sys, numpy as np, miopyx as mi

handle = mi.Handle(sys.argv[1])
desc = mi.TensorDescriptor("float32", (1, 1, 64, 64))
weights = mi.TensorDescriptor("float32", (1, 1, 1, 1))
plan = handle.convolution_forward(desc, weights, mi.ConvolutionDescriptor(), desc)
x, w, y = (handle.upload(np.ones(d.lens, np.float32)) for d in (desc, weights, desc))
plan(x, w, y)

def work():
    global handle, plan
    del handle, plan

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(30)
print("ended" if child.exitcode == 0 else child.exitcode)
child.kill()
"""


def test_a_forked_child_ends(device_name):
    """It finalises objects that the parent made; giving them back to a driver without its threads would hang."""
    done = subprocess.run([sys.executable, "-P", "-c", CHILD, device_name], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.stdout.strip() == "ended", done.stderr


def test_many_handles_leave_nothing_behind(device_name, rng):
    seen = []
    for _ in range(3):
        with miopyx.Handle(device_name) as handle:
            Problem(handle, rng).plan(0)
            seen.append(weakref.ref(handle))
    del handle
    gc.collect()
    assert [ref() for ref in seen] == [None] * 3
