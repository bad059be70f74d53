"""GPUs that are only pretended: small work-groups, little local memory, no fp64, small buffers.

What solvers launch there fits, uses no type that the device lacks, and is right on the CPU that plays it.  Kernels for
any GPU know nothing of wavefronts: those of 16, 32 and 64 work-items are the same to them.  The CPU runs the code all
the same: its addresses have 64 bits, and its order of work-items is its own.
"""

from __future__ import annotations

import re
import threading
import warnings
import zlib

import numpy as np
import pyopencl as cl
import pytest
import solver_checks
import test_cat
from cases_reader import conv_cases
from guarded import DTYPE, LAYOUTS
from random_operations import OPERATIONS
from solver_checks import Example, check, problem_of

from miopyx import ReduceTensorDescriptor, TensorDescriptor
from miopyx._core import KernelSpec, Solution, Step
from miopyx.choose import preparing
from miopyx.choose._survey import Survey
from miopyx.errors import AllocFailedError, MIOpenNotImplementedError
from miopyx.runtime import programs
from miopyx.solvers import registry
from miopyx.values import kernels

# Work-items of a group, bytes of local memory, fp64.
LIMITS = ((64, 16 << 10, False), (128, 32 << 10, False), (256, 48 << 10, True), (512, 64 << 10, False),
          (1024, 32 << 10, True))
EVERYWHERE = ("GemmFwdRest", "GpuImplicitGemmBwd", "GpuWinogradF2Wrw", "ConvDirectNaiveConvFwd")
# Doors to the same kernels, and what searches.
OTHER_DOORS = {"setters", "attributes", "find 2.0", "foreign solutions", "convolution by algorithm", "fused problems",
               "fused norms", "other problems", "graph", "graph of a convolution", "graph of attention", "other graphs"}
NO_DOUBLE = "#undef cl_khr_fp64\n" + "".join(f"#define double{n} no_type_of_this_device\n" for n in ("", 2, 4, 8, 16))


def played(limits):
    """The fields of a GPU: its limits, no half precision and no extension else, and buffers of 1 GiB of 4 at most.

    All else is the CPU's: compute units, alignment, and addresses, whose width no solver asks for.
    """
    items, local_mem, fp64 = limits
    return {"kind": "gpu", "runtime": "other", "isa": "", "max_work_group_size": items, "local_mem": local_mem,
            "fp64": fp64, "fp16": False, "global_mem": (4 << 30) - 1, "max_alloc": 1 << 30,
            "extensions": frozenset({"cl_khr_fp64"} if fp64 else ())}


@pytest.fixture(params=LIMITS, ids=lambda limits: f"{limits[0]} items")
def small_gpu(request, opencl_name, pretend):
    return pretend(opencl_name, **played(request.param))


def is_known(device, refusal):
    """Whether a device lacks what a refusal says: int32's alpha and beta are doubles, attention has groups of 256."""
    if "work-groups or local memory too small" in refusal:
        return device.max_work_group < 256 or device.local_mem < 32 << 10
    return "device has no double precision" in refusal and not device.fp64


class Launches:
    """What pretended devices build and launch, each checked against what they can."""

    def __init__(self, monkeypatch):
        self.programs = self.steps = 0
        self.build, self.source, self.without = programs.build, programs.source, threading.local()
        monkeypatch.setattr(programs, "build", self.built)
        monkeypatch.setattr(programs, "source", self.read)
        for module in (preparing, solver_checks):
            monkeypatch.setattr(module, "Invoker", self.prepared(module.Invoker))

    def read(self, file):
        text, self.without.text = getattr(self.without, "text", ""), ""  # not before what the file includes
        try:
            return text + self.source(file)
        finally:
            self.without.text = text

    def built(self, device, file, options):
        without = device.is_gpu and not device.fp64
        self.without.text = NO_DOUBLE * without  # of this thread: programs are built by several at once
        try:
            made = self.build(device, file, options + " -D WITHOUT_DOUBLE" * without)
            if device.is_gpu:
                self.check_local_memory(device, programs.source(file), options, file)
        finally:
            self.without.text = ""
        return made

    def check_local_memory(self, device, text, options, file):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            again = cl.Program(device.context, text).build([*options.split(), "-w", "-cl-opt-disable"])
        for kernel in again.all_kernels():
            used = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device.info.handle)
            assert used <= device.local_mem, f"{file}, {options}: {used} bytes of local memory"
        self.programs += 1

    def prepared(self, Invoker):
        def make(handle, offer, config=None):
            made = Invoker(handle, offer, config)
            self.check(handle.device, made.solution)
            return made
        return make

    def check(self, device, solution):
        assert solution.workspace <= device.max_alloc
        for step in solution.steps:
            if step.spec is not None:
                assert step.group <= device.max_work_group, step.spec
                self.steps += 1


@pytest.fixture
def launches(monkeypatch):
    return Launches(monkeypatch)


def test_groups_fit(small_gpu):
    """Every launch of every solver, and the families for any GPU are all there."""
    device, seen = small_gpu.device, set()
    for case in conv_cases():
        for dtype, layout in (("float32", "packed"), ("float16", "channels last")):
            for direction in range(3):
                problem = problem_of(case, dtype, layout, direction)
                for solver in registry.CONV:
                    if solver.why_not(device, problem) is None:
                        seen.add(solver.name)
                        groups = [step.group for step in solver.solution(device, problem).steps]
                        assert max(groups) <= device.max_work_group, (solver.name, case.text)
    assert seen.issuperset(EVERYWHERE)
    assert not any(name.startswith("Nv") for name in seen)
    assert device.max_work_group < 256 or {"DepthwiseFwd", "DepthwiseBwd", "DepthwiseWrw", "FFTConvFwd"} <= seen


def test_results(small_gpu, launches, host, rng, amount):
    cases = conv_cases("smoke")
    for case in (cases[int(i)] for i in rng.permutation(len(cases))[:amount(1, 4)]):
        example = Example(case, "float32", "packed", rng, host)
        for direction in range(3):
            able = [s for s in registry.CONV if not s.last_resort
                    and s.why_not(small_gpu.device, example.problem(direction)) is None]
            assert able
            for solver in able:
                launches.check(small_gpu.device, solver.solution(small_gpu.device, example.problem(direction)))
                check(small_gpu, example, direction, solver, rng)


@pytest.mark.some(8)
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in OTHER_DOORS])
def test_operations(small_gpu, launches, name, seed, amount):
    """Random problems of each operation, compared with NumPy's results in float64."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    for _ in range(amount(1, 10)):
        try:
            with np.errstate(all="ignore"):
                OPERATIONS[name](small_gpu, rng)
        except pytest.skip.Exception:  # nothing to compute, or no NumPy type for it
            continue
        except MIOpenNotImplementedError as error:
            if not is_known(small_gpu.device, str(error)):
                raise


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("limits", LIMITS[:2], ids=lambda limits: f"{limits[0]} items")
def test_transposed_copies_without_room_for_a_tile(opencl_name, pretend, rng, limits, dtype):
    """One row of several was copied."""
    DTYPE.setdefault("int64", np.dtype("i8"))
    handle = pretend(opencl_name, **played(limits))
    for layout in LAYOUTS:
        test_cat.check(handle, dtype, (3, 4, 2), 2, (1, 4, 3, 1), rng, ("packed", layout, "channels last"))


def test_a_launch_that_does_not_fit_is_seen(small_gpu, launches, rng):
    """Of the checks above: a group of one work-item more, local memory, a double."""
    device = small_gpu.device
    step = Step(KernelSpec("conv/naive.cl", "none"), (), (2 * device.max_work_group,), (2 * device.max_work_group,))
    with pytest.raises(AssertionError):
        launches.check(device, Solution([step]))
    text = f"kernel void k(global float *y) {{ local float a[{device.local_mem // 4 + 1}]; a[0] = y[0]; y[1] = a[0]; }}"
    with pytest.raises(AssertionError, match="local memory"):
        launches.check_local_memory(device, text, "", "")
    text = "kernel void k(global double *y) { y[0] = 1; }"
    if not device.fp64:
        with pytest.raises(cl.RuntimeError):
            launches.check_local_memory(device, NO_DOUBLE + text, "", "")


# What OpenCL C 1.2 has only with an extension, or not on each device.  Half precision is known by declarations, casts
# and constants; a type that a macro names is the compiler's matter: PoCL's refuses `half` but behind a pointer.
ASKED = re.compile(
    r"\bimage\dd\w*|\bsampler_t\b|\b(?:read|write)_image\w+|\bget_image_\w+"
    r"|\w*sub_?groups?\w*|\bwork_group_\w+|\bintel_\w+|\b__builtin_(?:amdgcn|IB|nvvm)_\w+|\b__spirv_\w+"
    r"|\batom_\w+|\batomic_u?long\w*|\bcl_(?!khr_fp64\b)[a-z]+_\w+"
    r"|\bhalf\d*\s+(?!const\b|volatile\b|restrict\b)\w+|\(\s*half\d*\s*\)|\bconvert_half\w*|\b\d+\.?\d*h\b")


def asked(text):
    """Return the words of a kernel, outside of comments and quotes, that not every GPU takes."""
    return ASKED.findall(re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", " ", text, flags=re.DOTALL))


def test_kernels_for_any_gpu_ask_for_no_extension():
    """No sub-groups, images, 64-bit atomics or arithmetic in half precision."""
    names = [name for name in kernels.names("conv", "include", "layers") if "nvidia" not in name and "amd" not in name]
    assert len(names) > 100
    for name in names:
        assert not asked(kernels.read(name).decode()), name


@pytest.mark.parametrize(("line", "word"), [
    ("kernel void f(write_only image2d_t a) {}", "image2d_t"),
    ("kernel void f(read_only image1d_buffer_t a) {}", "image1d_buffer_t"),
    ("constant sampler_t s = 0;", "sampler_t"),
    ("write_imagef(a, at, v);", "write_imagef"),
    ("v = read_imagef (a, at);", "read_imagef"),
    ("n = get_image_width(a);", "get_image_width"),
    ("n = get_sub_group_size();", "get_sub_group_size"),
    ("sub_group_barrier(0);", "sub_group_barrier"),
    ("v = intel_sub_group_shuffle(v, 1);", "intel_sub_group_shuffle"),
    ("__attribute__((intel_reqd_sub_group_size(8)))", "intel_reqd_sub_group_size"),
    ("#ifdef cl_khr_subgroups", "cl_khr_subgroups"),
    ("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable", "cl_khr_int64_base_atomics"),
    ("#pragma OPENCL EXTENSION cl_khr_fp16 : enable", "cl_khr_fp16"),
    ("v = work_group_reduce_add(v);", "work_group_reduce_add"),
    ("v = __builtin_amdgcn_ds_bpermute(at, v);", "__builtin_amdgcn_ds_bpermute"),
    ("atom_add(p, 1);", "atom_add"),
    ("global atomic_long *p;", "atomic_long"),
    ("global atomic_ulong *p;", "atomic_ulong"),
    ("half v = 0;", "half v"),
    ("local half4 tile[64];", "half4 tile"),
    ("y[0] = (half)x[0] * 2;", "(half)"),
    ("v = convert_half4_rte(x);", "convert_half4_rte"),
    ("v = 1.5h * x;", "1.5h"),
    ("/* a */ atom_inc(p); /* b */", "atom_inc"),
])
def test_what_is_asked_for_is_seen(line, word):
    assert asked(f"// {line}\n{line}\n// {line}") == [word]


@pytest.mark.parametrize("line", [
    "/* atom_add(p, 1) of an image2d_t\n   needs cl_khr_fp16 */", "// sub_group_barrier(0);",
    '#error "T must be half, float or image2d_t"', '#include "include/sub_group.h"', "#ifdef cl_khr_fp64",
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable", "atomic_add(p, 1u);", "atomic_cmpxchg(p, 0, 1);",
    "global const half *p = (global const half *)x;", "half const *q;", "v = vload_half4(0, p);",
    "vstore_half_rte(v, 0, p);", "__builtin_load_halff(p);", "const float v = half_exp(x) + half_sqrt(x);",
    "lower = half + (full).hi;", "const int image = image_of(row), group = get_group_id(0);", "subtract(group);",
    "y = 15 * h;", "event_t e = async_work_group_copy(a, b, 1, 0);", "#if defined(__SPIRV__)"])
def test_what_every_gpu_has_may_be_asked_for(line):
    assert not asked(line)


def test_one_place_prefetches():
    """What becomes SPIR-V must not: Mesa's translator ends the process, see MX_PREFETCH."""
    names = [name for name in kernels.names("conv", "include", "layers") if b"__builtin_prefetch" in kernels.read(name)]
    assert names == ["include/common.h"]


@pytest.fixture
def small_buffers(opencl_name, pretend):
    """Return a function from the bytes of a device's largest buffer to its handle."""
    return lambda size: pretend(opencl_name, **{**played(LIMITS[2]), "max_alloc": size})


def test_no_solver_with_a_larger_workspace(small_buffers):
    handle = small_buffers(64)
    refused = set()
    for case in conv_cases("smoke"):
        for direction in range(3):
            survey = Survey(handle, problem_of(case, "float32", "packed", direction))
            assert all(offer.workspace <= 64 for offer in survey.applicable())
            refused |= {r.solver.name for r in survey.refusals() if "buffers of the device have 64 at most" in r.why}
    assert refused


def test_the_limit_is_named(small_buffers):
    handle = small_buffers(32)
    x, y = TensorDescriptor("float32", (1 << 16,)), TensorDescriptor("float32", (1,))
    with pytest.raises(MIOpenNotImplementedError, match="<= 32 bytes"):
        handle.reduce_tensor(ReduceTensorDescriptor("add"), x, y)


def test_buffers_have_a_limit(opencl_handle):
    info = opencl_handle.device.info
    if info.max_alloc >= 1 << 46:
        pytest.skip("the device names no limit")
    desc = TensorDescriptor("int8", (info.max_alloc + 1,))
    with pytest.raises(AllocFailedError, match=rf"<= {info.max_alloc} bytes"):
        opencl_handle.empty(desc)
