"""What an NVIDIA GPU reaches: large products by cuBLAS and a copy, both through PyTorch, and wgmma's products alone.

    python bench/limits.py [--json OUT]

Rates are operations a second of the best of several square products, bytes a second of a copy that reads half of them.
"wgmma TYPE" are products of operands that stay in local memory, two warpgroups of 64 x 256 a compute unit, by OpenCL on
a Hopper GPU: nothing is copied, no sum is stored, and of float8 none is promoted.
They are what `beside_cudnn.py --table` takes for the limits of convolutions: operations at the one rate, tensors, each
read or written once, at the other.  float32 counts as three products of halves, which is how it reaches more than the
device's float32 units give.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

SIZES = (4096, 8192)
COLUMNS, ROWS, ROW_WORDS = 256, 64, 32  # of the operands of wgmma: rows of 128 bytes
WARPGROUPS, ROUNDS, STEPS = 2, 4096, 4  # STEPS of 32 bytes along a row
# What the operands are to the kernel, and how many numbers a step has.
OPERANDS = {"float16": ("-D X_TYPE=half", 16), "bfloat16": ("-D X_TYPE=bfloat16", 16),
            "tf32": ("-D X_TYPE=float -D MX_TF32", 8),
            "float8": ("-D X_TYPE=e4m3 -D EIGHT_BITS=1 -D A_TYPE=e4m3 -D B_TYPE=e4m3", 32)}
PRODUCTS = """
#define SM_90A 1
#include "include/common.h"
#include "conv/nvidia/ptx.h"
#include "conv/nvidia/wgmma.h"
/* y[work-item] is the sum of its sums of ROUNDS products a b; x has 64 rows of a and 256 of b. */
__kernel __attribute__((reqd_work_group_size(128 * WARPGROUPS, 1, 1))) void products(__global float *y,
                                                                                     __global const uint *x)
{
    __local uint rows[(64 + 256) * 32] __attribute__((aligned(1024)));
    const int item = get_local_id(0);
    for (int i = item; i < (64 + 256) * 32; i += 128 * WARPGROUPS)
        rows[i / 32 * 32 + (i % 32 / 4 ^ i / 32 % 8) * 4 + i % 4] = x[i];
    MX_WG_PUBLISH();
    barrier(CLK_LOCAL_MEM_FENCE);
    const ulong a = mx_wg_matrix(mx_shared(rows), 0), b = mx_wg_matrix(mx_shared(rows + 64 * 32), 0);
    float sums[128];
#pragma unroll
    for (int j = 0; j < 128; j++)
        sums[j] = 0;
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++) {
        MX_WG_FENCE();
#pragma unroll
        for (int k = 0; k < 4; k++)
            MX_WGMMA_256(sums, a + 2 * k, b + 2 * k, "1", "0, 0");
        MX_WG_COMMIT();
        MX_WG_WAIT(1);
    }
    MX_WG_WAIT(0);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 128; j++) {
        MX_WG_HOLD(sums[j]);
        sum += sums[j];
    }
    y[get_global_id(0)] = sum;
}
"""
COPIED = 2 << 30  # bytes, half of them read
TURNS, CALLS = 5, 20
HALVES_A_FLOAT = 3


def seconds(torch, run: Callable[[], object]) -> float:
    """Return the time of a call among others, a median of turns."""
    found = []
    for _ in range(TURNS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e-3 / CALLS)
    return statistics.median(found[1:])  # the first turn warms up


def product(torch, name: str, size: int) -> Callable[[], object]:
    """Return a product of two square matrices of normal numbers."""
    wide = torch.float32 if name == "tf32" else torch.bfloat16 if name == "float8" else getattr(torch, name)
    a, b = (torch.randn(size, size, device="cuda").to(wide) for _ in range(2))
    if name != "float8":
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t()  # which takes the second one's columns in a row
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def program_of(text: str) -> str:
    """Return a program with the project's files that it includes."""
    from miopyx.runtime import programs

    return "\n".join(programs.source(line.split('"')[1]) if line.startswith('#include "') else line
                     for line in text.splitlines())


def operands(name: str, rng) -> object:
    """Return random bits of numbers from 1/4 to 4 of either sign, as words: 64 rows of a, 256 of b."""
    import ml_dtypes
    import numpy as np

    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "tf32": np.float32,
            "float8": ml_dtypes.float8_e4m3fn}[name]
    lens = ROWS + COLUMNS, ROW_WORDS * 4 // np.dtype(kind).itemsize
    return (rng.uniform(0.25, 4, lens) * rng.choice((-1, 1), lens)).astype(kind).view(np.uint32)


def wgmma_rates() -> dict[str, float]:
    """Return operations a second of wgmma alone, in each type."""
    import numpy as np
    import pyopencl as cl

    from miopyx.runtime import programs

    device = next(one for platform in cl.get_platforms() if "NVIDIA" in platform.name for one in platform.get_devices())
    context = cl.Context([device])
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    items = 128 * WARPGROUPS * device.max_compute_units
    y, found = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * items), {}
    for name, (options, depth) in OPERANDS.items():
        text = program_of(PRODUCTS)
        words = f"{options} -D WARPGROUPS={WARPGROUPS} -D ROUNDS={ROUNDS} -D MX_SM=90".split()
        ptx = cl.Program(context, text).build(options=words, cache_dir=False).get_info(cl.program_info.BINARIES)[0]
        ptx = programs._for_sm_90a(ptx)  # with what OpenCL's compiler does not assemble
        kernel = cl.Kernel(cl.Program(context, [device], [ptx]).build(), "products")
        x = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR,
                      hostbuf=operands(name, np.random.default_rng()))
        times = []
        for _ in range(TURNS + 1):
            event = kernel(queue, (items,), (128 * WARPGROUPS,), y, x)
            event.wait()
            times.append((event.profile.end - event.profile.start) * 1e-9)
        products = device.max_compute_units * WARPGROUPS * ROUNDS * STEPS * ROWS * COLUMNS * depth
        found[f"wgmma {name}"] = 2 * products / statistics.median(times[1:])
    return found


def measure() -> dict[str, float]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    found = {name: max(2 * size**3 / seconds(torch, product(torch, name, size)) for size in SIZES)
             for name in ("float16", "bfloat16", "tf32", "float8")}
    found["float32"] = found["float16"] / HALVES_A_FLOAT
    a, b = (torch.zeros(COPIED // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    found["copy"] = COPIED / seconds(torch, lambda: b.copy_(a))
    if torch.cuda.get_device_capability() == (9, 0):
        found.update(wgmma_rates())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="OUT", help="where rates go, operations and bytes a second")
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        parser.error("PyTorch finds no NVIDIA GPU")
    found = measure()
    for name, rate in found.items():
        print(f"{name:14} {rate * 1e-12:7.2f} {'TB/s' if name == 'copy' else 'TFLOP/s'}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
