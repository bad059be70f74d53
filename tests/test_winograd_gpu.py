"""Winograd for any GPU, on every OpenCL device as if it were one; GPUs run it in test_solvers, too."""

from __future__ import annotations

import numpy as np
import pytest
from cases_reader import ConvCase
from test_solvers import LAYOUTS, Example, Tensor, arguments, check

import miopyx
from miopyx import device
from miopyx._problem import ConvProblem
from miopyx.solvers.conv import _winograd_gpu as winograd

SOLVERS = {
    2: (winograd.GpuWinogradF2Fwd(), winograd.GpuWinogradF2Bwd(), winograd.GpuWinogradF2Wrw()),
    4: (winograd.GpuWinogradF4Fwd(), winograd.GpuWinogradF4Bwd(), winograd.GpuWinogradF4Wrw()),
}
# Norm-wise errors, in units of a direct float32 sum's, that each tile may have.
SHARE = {2: 2.0, 4: 5.0}


@pytest.fixture(scope="module")
def small():
    """Return a function from a device's name to a handle on a GPU with little memory: batches go in parts."""
    made = {}

    def handle_of(name):
        if name not in made:
            info = device.find(name)._replace(kind="gpu", max_alloc=1 << 20)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(device, "find", lambda _: info)
                made[name] = miopyx.Handle(name)
        return made[name]

    yield handle_of
    for handle in made.values():
        handle.destroy()


def random_case(rng, channels=(1, 3, 5, 17, 65)) -> ConvCase:
    pad = tuple(int(v) for v in rng.integers(0, 5, 2))
    lens = tuple(int(v) for v in rng.integers(3, 20, 2))
    groups = int(rng.integers(1, 4))
    c, k = (groups * int(rng.choice(channels)) for _ in range(2))
    return ConvCase("random", int(rng.integers(1, 4)), c, k, lens, (3, 3), pad, (1, 1), (1, 1), groups,
                    bool(rng.integers(4) == 0) and max(pad) < 3, (0, 0), "ci")


@pytest.mark.parametrize("direction", range(3))
@pytest.mark.parametrize("tile", [2, 4])
def test_random_problems(opencl_name, as_gpu, handles, rng, tile, direction):
    gpu = as_gpu(opencl_name)
    for number in range(9):
        example = Example(random_case(rng), "float32", LAYOUTS[number % 3], rng, handles("host"))
        problem = ConvProblem(direction, *example.desc, example.conv)
        solver = SOLVERS[tile][problem.direction]
        assert solver.why_not(gpu.device, problem) is None, problem
        check(gpu, example, problem, direction, (2, 0, 1)[direction], solver, rng, "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(opencl_name, as_gpu, handles, rng, dtype):
    gpu = as_gpu(opencl_name)
    direction, tile = int(rng.integers(3)), int(rng.choice([2, 4]))
    for layout in LAYOUTS[:2]:
        example = Example(random_case(rng), dtype, layout, rng, handles("host"))
        problem = ConvProblem(direction, *example.desc, example.conv)
        solver = SOLVERS[tile][problem.direction]
        if solver.why_not(gpu.device, problem) is None:
            check(gpu, example, problem, direction, (2, 0, 1)[direction], solver, rng, dtype)


@pytest.mark.parametrize("direction", range(3))
def test_batches_in_parts(opencl_name, small, handles, rng, direction):
    gpu = small(opencl_name)
    case = ConvCase("parts", 7, 9, 11, (13, 14), (3, 3), (1, 1), (1, 1), (1, 1), 1, False, (0, 0), "ci")
    for layout in LAYOUTS[:2]:
        example = Example(case, "float32", layout, rng, handles("host"))
        problem = ConvProblem(direction, *example.desc, example.conv)
        solver = SOLVERS[4][direction]
        assert len(solver.solution(gpu.device, problem).steps) > 4
        check(gpu, example, problem, direction, (2, 0, 1)[direction], solver, rng, "float32")


@pytest.mark.parametrize("tile", [2, 4])
def test_errors_beside_a_direct_sum(opencl_name, as_gpu, handles, rng, tile):
    """Norm-wise, on standard normal data, the tile may cost a few times what one float32 sum after the other does."""
    gpu, host = as_gpu(opencl_name), handles("host")
    case = ConvCase("error", 2, 64, 32, (17, 18), (3, 3), (1, 1), (1, 1), (1, 1), 1, False, (0, 0), "ci")
    example = Example(case, "float32", "packed", rng, host)
    for direction in range(3):
        inputs = [Tensor(gpu, d, v) for d, v in zip(example.desc, example.data, strict=True)]
        out = Tensor(gpu, example.desc[(2, 0, 1)[direction]], None)
        problem = ConvProblem(direction, *example.desc, example.conv)
        x, w, y = example.desc
        data = arguments(direction, [t.argument() for t in inputs], out.argument())
        made = ((gpu.convolution_forward, (x, w, example.conv, y)),
                (gpu.convolution_backward_data, (y, w, example.conv, x)),
                (gpu.convolution_backward_weights, (y, x, example.conv, w)))[direction]
        made[0](*made[1], SOLVERS[tile][direction].id)(*data)
        gpu.finish()
        truth = example.truth[direction]
        error = np.linalg.norm(out.values() - truth) / np.linalg.norm(truth)
        assert error < 2e-6, problem
        # A sum of K float32 products in a row errs by some sqrt(K) / 2 roundoffs of its random terms.
        direct = 2.0**-24 * np.sqrt(example.terms[direction]) / 2
        assert error < SHARE[tile] * max(direct, 2.0**-23), (problem, error / direct)


def test_what_is_refused(opencl_name, as_gpu, rng):
    gpu = as_gpu(opencl_name)
    for change in ({"filter": (5, 3)}, {"stride": (1, 2)}, {"dilation": (2, 2)}):
        fields = {**random_case(rng).__dict__, "pad": (2, 2), "transposed": False, **change}
        case = ConvCase(**fields)
        conv = miopyx.ConvolutionDescriptor(case.pad, case.stride, case.dilation, groups=case.groups)
        x, w = (miopyx.TensorDescriptor("float32", lens) for lens in (case.x_lens, case.w_lens))
        problem = ConvProblem(0, x, w, miopyx.TensorDescriptor("float32", conv.output_lens(x, w)), conv)
        assert all(SOLVERS[tile][0].why_not(gpu.device, problem) is not None for tile in SOLVERS)
