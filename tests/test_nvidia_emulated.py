"""NVIDIA's kernels on machines without a GPU, through handles and plans as users have them, and what runs them there.

`nvidia_emulator.py` says how.  The tests of these kernels are the ones that run on a GPU: each file's are run once more
in a process of its own in which CUDA's driver is a stub that computes.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import nvidia_emulator
import pytest

from miopyx.runtime import programs

HERE = Path(__file__).parent
# Not test_nvidia_pack, which runs on OpenCL's CPUs as it is.
FILES = [f"test_nvidia_{name}.py" for name in (
    "depthwise", "few", "float8", "grouped", "large", "mha", "pairs", "patches", "rnn", "signals", "small", "tf32",
    "wgmma")]
OTHERS = [f"test_{name}.py" for name in (
    "arrays", "batchnorm", "batchnorm_activation", "depthwise", "float8", "functional", "fusion", "implicit_gpu",
    "int8", "lrn", "pooling", "pooling_beyond", "softmax", "solvers", "tensor_ops", "winograd_gpu")]
CACHE = Path(os.environ["TESTS_FOLDER"]) / "emulated"


@pytest.fixture(scope="module")
def programs_folder():
    if nvidia_emulator.why_not():
        pytest.skip(nvidia_emulator.why_not())
    CACHE.mkdir(exist_ok=True)
    return CACHE


@pytest.fixture
def run_tests(programs_folder):
    """Return a function that runs pytest with NVIDIA's kernels emulated, and what it printed."""

    def run(*arguments):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("PYTEST_", "TESTS_FOLDER"))}
        environment["NVIDIA_EMULATOR_CACHE"] = str(programs_folder)
        done = subprocess.run([sys.executable, "-P", "-m", "pytest", "-q", "--emulated", "-p", "no:cacheprovider",
                               "--tb=short", *arguments], env=environment, cwd=HERE.parent, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
        return done.stdout

    return run


@pytest.mark.parametrize("file", FILES)
def test_the_tests_of_a_file(run_tests, request, file):
    """Problems of many pixels or filters, which take half a minute each, are left to GPUs."""
    long = ["--long"] if request.config.getoption("--long") else []
    said = run_tests(str(HERE / file), "-k", "not many", *long)
    assert re.search(r"\b[1-9]\d* passed", said), said


@pytest.mark.long
@pytest.mark.parametrize("file", OTHERS)
def test_the_tests_of_other_files(run_tests, file):
    assert " passed" in run_tests(str(HERE / file))


# What the emulator sees.  Each kernel writes a number for each work-item of a group of 128.

HEAD = """
#define X_TYPE half
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void f(__global float *y, __global const float *x)
{
    __local float all[256] __attribute__((aligned(1024)));
    __local ulong barriers[2];
    const int item = get_local_id(0);
    const uint at = mx_shared(all), barrier_at = mx_shared(barriers);
    uint word = item;
    %s
}
"""
KERNELS = {  # what a kernel does, and what is said of it; an empty text: it is right
    "all[item] = x[item]; barrier(CLK_LOCAL_MEM_FENCE); y[item] = all[127 - item];": "",
    "MX_COPY4(at + 4 * item, x + item, true); MX_COMMIT(); MX_WAIT(0); barrier(CLK_LOCAL_MEM_FENCE);"
    "y[item] = all[127 - item];": "",
    "MX_COPY4(at + 4 * item, x + item, true); MX_COMMIT(); barrier(CLK_LOCAL_MEM_FENCE);"
    "y[item] = all[127 - item];": "differs",  # copies are as late as they may be
    "all[item] = x[item]; y[item] = all[127 - item];": "differs",
    "if (item < 64) barrier(CLK_LOCAL_MEM_FENCE); y[item] = x[127 - item];": "64 of 128 work-items cannot go on",
    "MX_COPY4(at + 4096 + 4 * item, x + item, true); MX_COMMIT(); MX_WAIT(0); y[item] = x[127 - item];":
        "4 bytes at 4096 of",
    "MX_COPY4(at + 4 * item, x + item + 64, true); MX_COMMIT(); MX_WAIT(0); y[item] = x[127 - item];":
        "which no buffer has",
    "MX_COPY16(at + 4 * item, x + 4 * (item / 4), true); MX_COMMIT(); MX_WAIT(0); y[item] = x[127 - item];":
        "16 bytes of local memory at",
    "y[item + 64] = x[127 - item];": "which no buffer has",
    "y[item] = x[127 - item] + x[item - 1000] * 0;": "which no buffer has",
    "y[item] = vload_half(2 * item + 1, (__global const half *)x + 200);": "which no buffer has",
    "*(__global float *)((__global char *)y + 2) = x[item];": "no multiple of 4",
    "all[item + 200] = x[item]; y[item] = x[127 - item];": "bytes at 1040 of local memory",
    "if (item == 0) mx_barrier_begin(barrier_at, 128); barrier(CLK_LOCAL_MEM_FENCE); mx_barrier_arrive(barrier_at);"
    "mx_barrier_wait(barrier_at, 0); y[item] = x[127 - item];": "",
    "if (item == 0) mx_barrier_begin(barrier_at, 129); barrier(CLK_LOCAL_MEM_FENCE); mx_barrier_arrive(barrier_at);"
    "mx_barrier_wait(barrier_at, 0); y[item] = x[127 - item];": "is at mbarrier.try_wait",
    "mx_barrier_arrive(barrier_at); y[item] = x[127 - item];": "a barrier that was not begun",
    "if (item & 1) asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;\" : \"=r\"(word) : \"r\"(word),"
    "\"r\"(1)); else asm volatile(\"bar.warp.sync 0xffffffff;\" ::: \"memory\"); y[item] = x[127 - item];":
        "while others of its warp are at",
    "float power, part; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(power) : \"f\"(3.0f));"
    "asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(part) : \"f\"(power)); y[item] = x[127 - item] * (8 * part);": "",
    "asm volatile(\"shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;\" : \"=r\"(word) : \"r\"(word), \"r\"(31));"
    "y[item] = x[96 - item / 32 * 32 + word % 32];": "",
}


def expanded(text):
    """Return a program with the files that it includes."""
    return "\n".join(programs.source(line.split('"')[1]) if line.startswith('#include "') else line
                     for line in text.splitlines())


def launch(text, y, x, items=128):
    """Run a program's kernel f(y, x) by one group, by the library alone, as the stub calls it; return what is said."""
    path = nvidia_emulator.library(expanded(text).encode(), [])
    ranges = [(a.ctypes.data, a.nbytes) for a in (x, y)]
    mapped = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t)(
        lambda at, size: any(begin <= at and at + size <= begin + length for begin, length in ranges))
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (y, x)]
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(p) for p in pointers])
    said = ctypes.create_string_buffer(512)
    sizes = (ctypes.c_uint * 3)(1, 1, 1), (ctypes.c_uint * 3)(items, 1, 1)
    wrong = ctypes.CDLL(str(path)).mx_emulate(b"f", *sizes, arguments, mapped, said, len(said), 1)
    return said.value.decode() if wrong else ""


@pytest.mark.parametrize("text", KERNELS)
def test_what_is_wrong_is_seen(programs_folder, monkeypatch, text):
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: programs_folder)
    x, y = np.arange(128, dtype=np.float32), np.full(128, -1, np.float32)
    found = launch(HEAD % text, y, x) or ("" if (y == x[::-1]).all() else "differs")
    assert (KERNELS[text] in found) if KERNELS[text] else not found, found


# y (64 x 64) = a b over 16 channels of rows of CHANNELS that begin at any row; b (64 x 16) is behind the 80 rows of a.
ROWS = """
#define X_TYPE bfloat16
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#define CHANNELS %d
#define FIRST %d
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void f(__global float *y, __global const float *x)
{
    __local ushort a[80 * CHANNELS] __attribute__((aligned(1024)));
    __local ushort b[64 * 64] __attribute__((aligned(1024)));
    const int item = get_local_id(0), lane = item & 31, row = item / 32 * 16 + lane / 4;
    for (int i = item; i < 80 * CHANNELS; i += 128) {
        const int own = i / CHANNELS, chunk = i %% CHANNELS / 8;
        a[own * CHANNELS + (chunk ^ (SWIZZLED(own))) * 8 + i %% 8] = as_uint(x[i]) >> 16;
    }
    for (int i = item; i < 64 * 16; i += 128)
        b[i / 16 * 64 + (i %% 16 / 8 ^ i / 16 %% 8) * 8 + i %% 8] = as_uint(x[80 * CHANNELS + i]) >> 16;
    float sums[32];
    for (int i = 0; i < 32; i++)
        sums[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint at = mx_shared(a);
    const ulong of_b = mx_wg_matrix(mx_shared(b), 0);
    %s
    for (int i = 0; i < 32; i++)
        y[(row + i %% 4 / 2 * 8) * 64 + i / 4 * 8 + item %% 4 * 2 + i %% 2] = sums[i];
}
"""
AS_MATRIX = "MX_WGMMA_64(sums, mx_wg_narrow(at + (FIRST * CHANNELS + LAST) * 2, CHANNELS * 2), of_b, \"0\", \"0, 0\");"
IN_REGISTERS = """
    uint own[4];
    const int from = FIRST + item / 32 * 16 + lane % 16;
    const uint chunk = (LAST / 8 + lane / 16) ^ (SWIZZLED(from));
    MX_LDMATRIX(own[0], own[1], own[2], own[3], at + from * CHANNELS * 2 + chunk * 16);
    MX_WGMMA_REGISTERS_64(sums, own, of_b, "0");
"""


@pytest.mark.parametrize("way", [AS_MATRIX, IN_REGISTERS], ids=["matrix", "registers"])
@pytest.mark.parametrize("channels", [16, 32, 64])
def test_rows_that_begin_anywhere(programs_folder, monkeypatch, channels, way):
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: programs_folder)
    x = np.random.default_rng().integers(-8, 9, 80 * channels + 64 * 16).astype(np.float32)
    rows, b = x[:80 * channels].reshape(80, channels), x[80 * channels:].reshape(64, 16)
    right = f"((o) * {channels} * 2 >> 7 & {channels // 8 - 1})"
    for first, last, swizzled in ((0, 0, right), (5, channels - 16, right), (8, 0, right), (5, 0, "0 * (o)")):
        y = np.full((64, 64), -1, np.float32)
        text = f"#define SWIZZLED(o) {swizzled}\n#define LAST {last}\n" + ROWS % (channels, first, way)
        assert not launch(text, y, x)
        same = (y == rows[first:first + 64, last:last + 16] @ b.T).all()
        assert same == (swizzled == right or way == IN_REGISTERS), (first, last)


# y (64 x 64) = a b of floats, x[0..511] and rows of eight from there on.
FLOATS = """
#define X_TYPE float
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/wgmma_tf32.h"
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void f(__global float *y, __global const float *x)
{
    __local float b[64 * 32] __attribute__((aligned(1024)));
    const int item = get_local_id(0), row = item / 32 * 16 + item %% 32 / 4;
    for (int i = item; i < 64 * 8; i += 128)
        b[i / 8 * 32 + (i %% 8 / 4 ^ i / 8 %% 8) * 4 + i %% 4] = x[512 + i];
    uint a[4];
    float sums[32];
    for (int i = 0; i < 4; i++)
        a[i] = %s(as_uint(x[(row + i %% 2 * 8) * 8 + item %% 4 + i / 2 * 4]));
    for (int i = 0; i < 32; i++)
        sums[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    MX_TF32_64(sums, a, mx_wg_matrix(mx_shared(b), 0));
    for (int i = 0; i < 32; i++)
        y[(row + i %% 4 / 2 * 8) * 64 + i / 4 * 8 + item %% 4 * 2 + i %% 2] = sums[i];
}
"""


@pytest.mark.parametrize("rounds", [True, False])
def test_wgmma_of_floats_cuts_them(programs_folder, monkeypatch, rounds):
    """As the hardware does, from registers and from local memory: a kernel that does not round is seen by its error."""
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: programs_folder)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(1024).astype(np.float32), np.full((64, 64), np.nan, np.float32)
    x[:4] = (1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12, np.float32(np.inf))
    x[4] = 3e38
    assert not launch(FLOATS % ("mx_nearest" if rounds else ""), y, x)
    bits = x.view(np.uint32)
    cut = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    nearest = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    a, b = (nearest if rounds else cut)[:512].reshape(64, 8), cut[512:].reshape(64, 8)
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(y, want.astype(np.float32), rtol=1e-6, atol=1e-6)


# Another warpgroup changes what wgmma reads, once it may.
HURRIED = """
#define X_TYPE float
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
#include "conv/nvidia/wgmma_tf32.h"
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void f(__global float *y, __global const float *x)
{
    __local float b[2][64 * 32] __attribute__((aligned(1024)));
    __local ulong barriers[1];
    const int item = get_local_id(0);
    const uint at = mx_shared(barriers);
    for (int i = item; i < 2 * 64 * 32; i += 256)
        b[0][i] = x[i %% 128];
    if (item == 0)
        mx_barrier_begin(at, 128);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item >= 128) {
        mx_barrier_wait(at, 0);
        for (int i = item - 128; i < 64 * 32; i += 128)
            b[0][i] = 0;
    } else {
        uint a[4] = {item, item, item, item};
        float sums[32];
        for (int i = 0; i < 32; i++)
            sums[i] = 0;
        for (int i = 0; i < 2; i++) {
            MX_TF32_64(sums, a, mx_wg_matrix(mx_shared(b[i]), 0));
            MX_WG_COMMIT();
        }
        %s
        MX_WG_WAIT(0);
        y[item] = sums[0];
    }
}
"""


@pytest.mark.parametrize(("text", "right"), [
    ("mx_barrier_arrive(at);", False), ("MX_WG_WAIT(2); mx_barrier_arrive(at);", False),
    ("MX_WG_WAIT(1); mx_barrier_arrive(at);", True), ("MX_WG_WAIT(0); mx_barrier_arrive(at);", True)])
def test_what_wgmma_reads_stays_until_it_is_waited_for(programs_folder, monkeypatch, text, right):
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: programs_folder)
    x, y = np.ones(128, np.float32), np.full(128, -1, np.float32)
    found = launch(HURRIED % text, y, x, 256)
    assert not found if right else "changes before it is waited for" in found, found


def test_an_instruction_that_is_not_known_is_named():
    with pytest.raises(nvidia_emulator.Unknown, match=r"sin\.approx\.f32"):
        nvidia_emulator.instruction("sin.approx.f32 $0, $1")


# Eight bits: one product of 64 x 64, 32 deep, of which column 0 of b is ones where a row of a has its numbers, and the
# conversion of pairs.

EIGHT = """
#define X_TYPE %(a)s
#define A_TYPE %(a)s
#define B_TYPE %(b)s
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void f(
    __global float *y, __global const float *x, __global const uchar *codes, __global ushort *pairs)
{
    __local uchar a[8192] __attribute__((aligned(1024)));
    __local uchar b[8192] __attribute__((aligned(1024)));
    const int item = get_local_id(0);
    for (int i = item; i < 8192; i += 128) {
        const int row = i / 128, at = row * 128 + (i %% 128 / 16 ^ row %% 8) * 16 + i %% 16;
        a[at] = i %% 128 < 32 ? codes[row * 32 + i %% 128] : 0;
        b[at] = i %% 128 < 32 ? %(one)s : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    float sums[32];
    for (int i = 0; i < 32; i++)
        sums[i] = 1e6f;
    MX_WGMMA_64(sums, mx_wg_matrix(mx_shared(a), 8192), mx_wg_matrix(mx_shared(b), 8192), "0", "0, 0");
    MX_WG_COMMIT();
    MX_WG_WAIT(0);
    y[item] = sums[0];
    ushort two;
    asm("cvt.rn.satfinite.%(a)sx2.f32 %%0, %%1, %%2;" : "=h"(two) : "f"(x[item]), "f"(-x[item]));
    pairs[item] = two;
}
"""
OCP = {"e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2)}
ONE = {"e4m3": "0x38", "e5m2": "0x3c"}


def eight_bits(folder, monkeypatch, a, b, codes, x):
    """Return the sums of 64 rows of 32 codes, and codes of x and -x."""
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: folder)
    path = nvidia_emulator.library(expanded(EIGHT % {"a": a, "b": b, "one": ONE[b]}).encode(), [])
    y, pairs = np.zeros(128, np.float32), np.zeros(128, np.uint16)
    pointers = [ctypes.c_void_p(data.ctypes.data) for data in (y, x, codes, pairs)]
    arguments = (ctypes.c_void_p * 4)(*[ctypes.addressof(p) for p in pointers])
    said, mapped = ctypes.create_string_buffer(512), ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t)(lambda at, size: True)
    sizes = (ctypes.c_uint * 3)(1, 1, 1), (ctypes.c_uint * 3)(128, 1, 1)
    assert not ctypes.CDLL(str(path)).mx_emulate(b"f", *sizes, arguments, mapped, said, len(said), 1), said.value
    return y.reshape(4, 8, 4)[:, :, 0].ravel(), pairs.view(np.uint8).reshape(128, 2)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "tf32", "float8"])
def test_products_of_the_bench(programs_folder, monkeypatch, name):
    """What bench/limits.py times: each work-item has its sums of all rounds."""
    monkeypatch.setattr(nvidia_emulator, "_folder", lambda: programs_folder)
    monkeypatch.syspath_prepend(str(HERE.parent / "bench"))
    import limits

    options, depth = limits.OPERANDS[name]
    x = limits.operands(name, np.random.default_rng())
    assert x.shape == (320, 32)
    defines = [option for option in options.split() if option != "-D"]
    text = "".join(f"#define {one.replace('=', ' ', 1)}\n" for one in (*defines, "WARPGROUPS 1", "ROUNDS 2"))
    y = np.full(128, np.nan, np.float32)
    assert not launch(text + limits.PRODUCTS.replace(" products(", " f("), y, x)
    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "tf32": np.float32}.get(name, OCP["e4m3"])
    numbers = x.view(kind).astype(np.float64).reshape(320, limits.STEPS * depth)
    a, b = numbers[:64], numbers[64:]

    def of_work_items(product):
        """The sum of what each has of 64 x 256 numbers."""
        lane, row = np.arange(128) % 32, np.arange(128) // 32 * 16 + np.arange(128) % 32 // 4
        pairs = (product[row] + product[row + 8]).reshape(128, 32, 4, 2)
        return pairs[np.arange(128), :, lane % 4].sum((1, 2))

    error = np.abs(y - of_work_items(2 * a @ b.T))
    lost = {"tf32": 2.0**-9, "float8": 2e-2}.get(name, 1e-5)
    assert (error <= lost * of_work_items(2 * np.abs(a) @ np.abs(b.T))).all()


@pytest.mark.parametrize("b", OCP)
@pytest.mark.parametrize("a", OCP)
def test_eight_bits_by_their_codes(programs_folder, monkeypatch, a, b):
    """Rows of the lower halves of warps: four launches see every code; conversions to nearest, saturated."""
    rng, top = np.random.default_rng(), float(ml_dtypes.finfo(OCP[a]).max)
    for first in range(0, 256, 32):
        codes, x = np.zeros((64, 32), np.uint8), (rng.standard_normal(128) * 2.0**rng.integers(-20, 20, 128))
        x = x.astype(np.float32)
        x[:4] = [np.inf, 1e30, np.nan, 0]
        rows = np.arange(64).reshape(4, 16)[:, :8].ravel()  # those that the first sum of each work-item is of
        codes[rows, 0] = np.arange(first, first + 32)
        got, pairs = eight_bits(programs_folder, monkeypatch, a, b, codes, x)
        want = np.arange(first, first + 32, dtype=np.uint8).view(OCP[a]).astype(np.float32)
        np.testing.assert_array_equal(got, want)
        for column, sign in ((0, -1), (1, 1)):
            found = pairs[:, column].copy().view(OCP[a]).astype(np.float32)
            expected = np.clip(sign * x, -top, top).astype(OCP[a]).astype(np.float32)
            np.testing.assert_array_equal(found, expected)


def test_sums_of_eight_bits_keep_fourteen(programs_folder, monkeypatch):
    """1 and 31 times 2^-13 is that, 2^-14 is nothing; of 2 the former is nothing, too."""
    powers = {exponent: int(np.array(2.0**exponent, OCP["e5m2"]).view(np.uint8)) for exponent in (0, 1, -13, -14)}
    codes, x = np.zeros((64, 32), np.uint8), np.zeros(128, np.float32)
    for row, (large, small) in enumerate(((0, -13), (0, -14), (1, -13), (-13, -14))):
        codes[row] = powers[small]
        codes[row, 7] = powers[large]
    got, _ = eight_bits(programs_folder, monkeypatch, "e5m2", "e4m3", codes, x)
    assert got[:4].tolist() == [1 + 31 * 2.0**-13, 1, 2, 2.0**-13 + 31 * 2.0**-14]
