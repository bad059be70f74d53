"""Programs for GPUs that are not here: what solvers take, built by AMD's and Intel's compilers and for 32 bits.

`tests/gpu_programs.py` builds all of it, and writes bench/results/gpu-programs.txt.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import gpu_programs
import pytest
from gpu_programs import (
    NOT_FOR_ALL,
    TARGETS,
    Kernel,
    build,
    collect,
    compiler,
    complaints,
    convolutions,
    occupancy,
    others,
    some,
    unreached,
)
from solver_checks import descriptors, problem_of
from test_depthwise import TILES

import miopyx
from miopyx import ActivationDescriptor, TensorDescriptor
from miopyx.runtime import programs

AMD = {64: ("gfx906", "gfx90a", "gfx942"), 32: ("gfx1030", "gfx1100")}
INTEL = ("skl", "tgllp", "acm-g10", "pvc")
# What once was wrong: it did not build, or was in scratch.
ONCE = (
    ("layers/softmax_gpu.cl", "-D ACC=float -D ALONG=1 -D DEEP=512 -D HOLD=0 -D INDEX=long -D LOG=1 -D SCALAR=float "
     "-D SIDE=1 -D T=half -D VEC=8", "softmax_forward"),
    ("layers/softmax.cl", "-D ACC=float -D FORM=0 -D INDEX=long -D LOG=0 -D SCALAR=float -D T=float",
     "softmax_backward"),
    ("layers/activation.cl", "-D ACC=float -D ACTIVATION=1 -D INDEX=int -D LOCAL=256 -D ROWS=0 -D T=bfloat16",
     "activation_forward"),
)


def need(*names):
    """Skip the test where no compiler builds for these targets."""
    for name in names:
        if compiler(TARGETS[name]) is None:
            pytest.skip({"amd": "needs clang 17 or newer and ROCm's bitcode libraries", "intel": "needs Intel's ocloc",
                         "spir": "needs clang"}[TARGETS[name].runtime])


def build_some(name, problems, rng, most):
    """Build programs of each file, and return what is wrong with them, and the files."""
    target = TARGETS[name]
    wanted = collect(target, problems)
    order = some(wanted, int(rng.integers(1 << 31)), most)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda key: build(target, *key), order))
    wrong = [line for key, one in zip(order, built, strict=True) for line in complaints(target, *key, wanted[key], one)]
    return wrong, {file for file, _ in order}


@pytest.mark.parametrize("lanes", [64, 32])
def test_programs_build_for_amd(rng, amount, lanes):
    """One of each file's, drawn at random, for one of the GPUs with so many lanes; with --long all."""
    need(*AMD[lanes])
    name = AMD[lanes][int(rng.integers(len(AMD[lanes])))]
    problems = [*convolutions(lists=amount(0, 1)), *others(rng, amount(1, 10))]
    wrong, files = build_some(name, problems, rng, amount(1, 1 << 30))
    print(name, len(files), "files")
    assert not wrong, "\n".join(wrong)
    assert len(files) > 30
    assert {"conv/gpu/implicit.cl", "conv/gpu/winograd.cl", "layers/reduce_gpu.cl", "layers/mha_gpu.cl"} <= files


def test_programs_build_for_intel(rng, amount):
    need(*INTEL)
    name = INTEL[int(rng.integers(len(INTEL)))]
    wrong, files = build_some(name, [*convolutions(lists=amount(0, 1)), *others(rng, amount(1, 10))], rng,
                              amount(1, 1 << 30))
    assert not wrong, "\n".join(wrong)
    assert len(files) > 30


def test_programs_build_for_addresses_of_32_bits(rng, amount):
    """Three of each file's, which take less long without a maker's compiler; with --long all."""
    need("spir32")
    wrong, files = build_some("spir32", [*convolutions(lists=amount(0, 1)), *others(rng, amount(1, 10))], rng,
                              amount(3, 1 << 30))
    assert not wrong, "\n".join(wrong)
    assert len(files) > 30


@pytest.mark.parametrize("name", ["gfx90a", "spir32"])
def test_no_file_is_left_out(rng, name):
    """What a table is made of reaches every file of kernels that such a GPU can take; nothing is built."""
    target = TARGETS[name]
    files = {file for file, _ in collect(target, others(rng, 2))}
    problems = list(convolutions())
    for at in rng.permutation(range(0, len(problems), 500)):
        files |= {file for file, _ in collect(target, problems[at:at + 500])}
        if not any(file.startswith("conv/") for file in unreached(target, files)):
            break
    assert not unreached(target, files)
    assert not {file for file in files if NOT_FOR_ALL.match(file)}


def test_a_file_that_is_left_out_is_named():
    files = {file for file, _ in collect(TARGETS["gfx906"], convolutions(lists=False))}
    left = unreached(TARGETS["gfx906"], files)
    assert "layers/pooling_special.cl" in left
    assert not {"conv/gpu/winograd.cl", "conv/amd/matrix.cl", "conv/cpu/few.cl", "layers/mha_nvidia.cl"} & set(left)
    assert "conv/amd/matrix.cl" in unreached(TARGETS["gfx942"], {"layers/mha_gpu.cl"})


@pytest.mark.parametrize(("file", "options", "entry"), ONCE, ids=[case[0] for case in ONCE])
def test_what_once_was_wrong(file, options, entry):
    for name in ("gfx906", "gfx1030"):
        need(name)
        built = build(TARGETS[name], file, options)
        assert not complaints(TARGETS[name], file, options, {entry: 256}, built)


@pytest.mark.parametrize("name", ["gfx906", "gfx942", "gfx1030"])
def test_default_tiles_of_depthwise_convolutions_do_not_spill(name):
    """Those that differ from NVIDIA's, each with what takes most registers after it."""
    need(name)
    problems = []
    with miopyx.Handle("host") as host:
        for case, dtype, layout, direction, *_ in TILES.values():
            problems.append(problem_of(case, dtype, layout, direction))
            if direction == 0:
                x, w, y = descriptors(case, dtype, layout)
                channel = TensorDescriptor(dtype, (1, y.lens[1], 1, 1))
                problems.append(host.convolution_bias_activation_forward(
                    x, w, case.conv(), y, channel, ActivationDescriptor(9, 0.5, 1.0, 2.0), y,
                    norm_desc=channel).invoker.problem)
    target = TARGETS[name]
    wanted = {key: groups for key, groups in collect(target, problems).items()
              if key[0].startswith("conv/gpu/depthwise")}
    assert len(wanted) == 10
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = list(pool.map(lambda key: build(target, *key), wanted))
    wrong = [line for (key, groups), one in zip(wanted.items(), built, strict=True)
             for line in complaints(target, *key, groups, one)]
    assert not wrong, "\n".join(wrong)


# What is wrong where addresses have 32 bits alone, and what else compilers do not say.
NARROW = "shorten-64-to-32"
INTELS = "nobody defines", "warning:", "compiled for", NARROW
UNSAID = {"gfx906": (NARROW,), "gfx1100": (NARROW,), "acm-g10": INTELS, "pvc": INTELS,
          "spir32": ("spilled", "compiled for", "local memory")}
DEFECTS = {
    "fails": "__kernel void f(__global int *to) { to[0] = UNKNOWN; }",
    "nobody defines": "int g(int); __kernel void f(__global int *to) { to[0] = g(to[1]); }",
    "warning:": "#if UNKNOWN\n#endif\n__kernel void f(__global int *to) {}",
    "no kernel f": "__kernel void g(__global int *to) {}",
    "spilled": "__kernel void f(__global int *to) { int all[1000]; for (int i = 0; i < 1000; i++) all[i] = to[i]; "
               "for (int i = 0; i < to[0]; i++) all[to[i]] += all[to[2 * i]]; to[1] = all[to[3]]; }",
    "compiled for": "__kernel void f(__global int *to) { to[get_local_id(0)] = 1; }",
    "local memory": "__kernel void f(__global int *to) { __local int all[40000]; all[to[0]] = 1; to[1] = all[to[2]]; }",
    NARROW: "__kernel void f(__global int *to, long at) { size_t i = at; to[i] = 1; }",
}


@pytest.mark.parametrize(("name", "what"), [
    (name, what) for name in UNSAID for what in DEFECTS
    if what not in UNSAID[name]])
def test_a_defect_is_seen(monkeypatch, name, what):
    need(name)
    monkeypatch.setattr(programs, "source", lambda _: DEFECTS[what])
    target = TARGETS[name]
    said = "\n".join(complaints(target, "a.cl", "", {"f": 1024 if what == "compiled for" else 64},
                                build(target, "a.cl", "")))
    assert what in said or (what == "local memory" and "fails" in said)


@pytest.mark.parametrize("name", ["gfx906", "acm-g10"])
def test_the_table_lists_what_spills(monkeypatch, name):
    need(name)
    target = TARGETS[name]
    monkeypatch.setattr(programs, "source", lambda _: DEFECTS["spilled"])
    report = gpu_programs.Report(target)
    report.add("a.cl", "", {"f": 64}, build(target, "a.cl", ""))
    monkeypatch.setattr(gpu_programs, "KNOWN", [(name, "b.cl", "", 1 << 20)])
    report.add("b.cl", "", {"f": 64}, build(target, "b.cl", ""))
    parser = gpu_programs.arguments("What", TARGETS)
    text = gpu_programs.table(parser.parse_args([name, "--most", "1"]), [report.total()],
                              {file: [row] for file, row in report.rows()}, report.bad, report.known,
                              [f"not reached on {name}: c.cl"])
    wrong, _, spilling = text.partition("What is not as it should be:")[2].partition("What spills all the same")
    assert f"{name} a.cl : f of 64" in wrong
    assert "b.cl" not in wrong
    assert f"{name} b.cl : f" in spilling
    assert "2 programs, 2 kernels, 1 complaints, 2 kernels spill" in text
    assert f"tests/gpu_programs.py {name} --most 1\n" in text
    assert f"\nnot reached on {name}: c.cl\n" in text


def test_what_spills_has_a_bound():
    for name, file, options, most in (
            ("pvc", "conv/gpu/gemm.cl", "", gpu_programs.KEPT_PVC_ELSE),
            ("pvc", "conv/fft_inverse.cl", "-D ACC=double -D FFT_W=16", 2 * gpu_programs.KEPT_PVC["conv/fft_"]),
            ("pvc", "layers/mha_gpu.cl", "-D COLUMNS=8", 8192), ("acm-g10", "conv/gpu/gemm.cl", "", 128),
            ("skl", "conv/gpu/gemm.cl", "", 512), ("gfx906", "conv/gpu/gemm.cl", "", -1),
            ("gfx1030", "conv/fft_forward.cl", "-D ACC=double -D FFT_H=1 -D FFT_W=64", 1024),
            ("gfx942", "conv/fft_forward.cl", "-D ACC=double -D FFT_H=1 -D FFT_W=64", -1)):
        for scratch in (max(most, 0), most + 1):
            built = gpu_programs.Built({"f": Kernel("f", 128, scratch=scratch, lanes=32, accesses=1)}, "")
            assert bool(complaints(TARGETS[name], file, options, {"f": 64}, built)) == (scratch > most), (name, scratch)


def test_occupancy():
    def waves(name, vgprs, local=0, items=256, sgprs=0):
        return occupancy(TARGETS[name], Kernel("f", vgprs, 0, sgprs, local=local), items)

    assert [waves("gfx906", n) for n in (24, 25, 64, 65, 128, 256)] == [10, 9, 4, 3, 2, 1]
    assert [waves("gfx90a", n) for n in (8, 64, 72, 128, 256, 512)] == [8, 8, 7, 4, 2, 1]
    assert [waves("gfx1030", n) for n in (64, 65, 128, 256)] == [16, 12, 8, 4]
    assert [waves("gfx1100", n) for n in (96, 97, 192, 256)] == [16, 12, 8, 4]
    assert waves("gfx906", 24, 33 << 10) == 1  # one group of four waves
    assert waves("gfx1100", 24, 33 << 10) == 6  # three of eight waves for four SIMDs
    assert waves("gfx906", 24, 0, 64, 100) == 8
    assert waves("gfx906", 128, 0, 1024) == 0  # 16 waves, room for eight

    def threads(name, local=0, items=256, lanes=16, registers=128, barriers=0):
        kernel = Kernel("f", registers, local=local, lanes=lanes, barriers=barriers)
        return occupancy(TARGETS[name], kernel, items)

    assert [threads(name) for name in ("skl", "tgllp", "acm-g10", "pvc")] == [6, 7, 8, 8]  # skl: 3 groups of 16 threads
    assert threads("pvc", registers=256) == 4
    assert threads("acm-g10", 33 << 10) == 2  # two groups of 64 KB
    assert threads("pvc", 33 << 10) == 4  # two of 48 KB, 16 threads each
    assert [threads("skl", items=16, barriers=n) for n in (0, 1)] == [7, 2]
    assert threads("skl", 3 << 10, 32, 8) == 7  # fourteen groups of 4 threads would have room


def test_targets_are_told_apart():
    devices = [target.device() for target in TARGETS.values()]
    assert len({device.name for device in devices}) == len(devices)
    assert not any(device.is_host or device.is_cpu for device in devices)
    assert gpu_programs.shape_of("-D T=bfloat16 -D EPILOGUE=7") == gpu_programs.shape_of("-D T=half -D EPILOGUE=3")
    assert gpu_programs.shape_of("-D T=float -D EPILOGUE=0") != gpu_programs.shape_of("-D T=half -D EPILOGUE=0")
