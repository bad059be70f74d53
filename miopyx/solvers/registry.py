"""All solvers, in the order of preference: the one place that lists them.

Ids and names are permanent.  MIOpen's are used where algorithm and workspace are the same as there (1 to 179 are all
its own); ours start at 1001.
"""

from __future__ import annotations

from .._core import Solver
from ..errors import BadParmError
from . import _activation, _batchnorm, _bias, _lrn, _pooling, _softmax, _tensor_ops
from .conv import (
    _depthwise,
    _fft,
    _gemm,
    _grouped_cpu,
    _host,
    _implicit_cpu,
    _implicit_cpu_nhwc,
    _implicit_cpu_weights,
    _implicit_gpu,
    _naive,
    _nvidia,
    _nvidia_few,
    _nvidia_grouped,
    _nvidia_int8,
    _nvidia_pairs,
    _nvidia_small,
    _nvidia_wgmma,
    _winograd_cpu,
    _winograd_gpu,
)

CONV: tuple[Solver, ...] = (
    _nvidia_wgmma.NvWgmmaFwd(), _nvidia_wgmma.NvWgmmaBwd(), _nvidia_wgmma.NvWgmmaWrw(),
    _nvidia_pairs.NvPairsFwd(), _nvidia_pairs.NvPairsBwd(), _nvidia_pairs.NvPairsWrw(),
    _nvidia.NvImplicitGemmFwd(), _nvidia.NvImplicitGemmBwd(), _nvidia.NvImplicitGemmWrw(),
    _nvidia_int8.NvInt8Fwd(), _nvidia_few.NvFewChannelsFwd(), _nvidia_few.NvFewChannelsWrw(),
    _nvidia_small.NvSmallFwd(), _nvidia_small.NvSmallBwd(), _nvidia_small.NvSmallWrw(),
    _nvidia_grouped.NvGroupedFwd(), _nvidia_grouped.NvGroupedBwd(), _nvidia_grouped.NvGroupedWrw(),
    _depthwise.DepthwiseFwd(), _depthwise.DepthwiseBwd(), _depthwise.DepthwiseWrw(),
    _grouped_cpu.CpuGroupedFwd(), _grouped_cpu.CpuGroupedBwd(), _grouped_cpu.CpuGroupedWrw(),
    _winograd_cpu.CpuWinogradF4Fwd(), _winograd_cpu.CpuWinogradF4Bwd(), _winograd_cpu.CpuWinogradF4Wrw(),
    _winograd_cpu.CpuWinogradF2Fwd(), _winograd_cpu.CpuWinogradF2Bwd(), _winograd_cpu.CpuWinogradF2Wrw(),
    _winograd_gpu.GpuWinogradF4Fwd(), _winograd_gpu.GpuWinogradF4Bwd(), _winograd_gpu.GpuWinogradF4Wrw(),
    _winograd_gpu.GpuWinogradF2Fwd(), _winograd_gpu.GpuWinogradF2Bwd(), _winograd_gpu.GpuWinogradF2Wrw(),
    _implicit_gpu.GpuImplicitGemmFwd(), _implicit_gpu.GpuImplicitGemmBwd(), _implicit_gpu.GpuImplicitGemmWrw(),
    _implicit_cpu.CpuImplicitGemmFwd(), _implicit_cpu.CpuImplicitGemmBwd(),
    _implicit_cpu_weights.CpuImplicitGemmWrw(),
    _implicit_cpu_nhwc.CpuImplicitGemmNhwcFwd(), _implicit_cpu_nhwc.CpuImplicitGemmNhwcBwd(),
    _implicit_cpu_nhwc.CpuImplicitGemmNhwcWrw(),
    _fft.FftFwd(), _fft.FftBwd(), _fft.FftWrw(),
    _gemm.GemmFwd1x1(), _gemm.GemmFwd1x1Stride2(), _gemm.GemmFwdBatched(), _gemm.GemmFwdRest(),
    _gemm.GemmBwd1x1(), _gemm.GemmBwd1x1Stride2(), _gemm.GemmBwdBatched(), _gemm.GemmBwdRest(),
    _gemm.GemmWrw1x1(), _gemm.GemmWrwBatched(), _gemm.GemmWrwUniversal(),
    _host.HostImplicitGemmFwd(), _host.HostImplicitGemmBwd(), _host.HostImplicitGemmWrw(),
    _naive.ConvDirectNaiveConvFwd(), _naive.ConvDirectNaiveConvBwd(), _naive.ConvDirectNaiveConvWrw(),
)

# The other operations, by the name of their problems' class.
OTHERS: dict[str, tuple[Solver, ...]] = {
    "ActivationProblem": (_activation.OpenCLActivation(), _activation.HostActivation()),
    "BatchNormProblem": (_batchnorm.OpenCLBatchNorm(), _batchnorm.HostBatchNorm()),
    "BiasProblem": (_bias.OpenCLBias(), _bias.HostBias()),
    "LRNProblem": (_lrn.OpenCLLRN(), _lrn.HostLRN()),
    "PoolingProblem": (_pooling.OpenCLPooling(), _pooling.HostPooling()),
    "SoftmaxProblem": (_softmax.OpenCLSoftmax(), _softmax.HostSoftmax()),
    "TensorProblem": (_tensor_ops.OpenCLTensor(), _tensor_ops.HostTensor()),
}

BY_ID: dict[int, Solver] = {solver.id: solver for solver in CONV}
BY_NAME: dict[str, Solver] = {solver.name: solver for solver in CONV}


def solver_name(solution_id: int) -> str:
    """Return the database name of a solution id."""
    if solution_id not in BY_ID:
        raise BadParmError("unknown solution id", "solution_id", solution_id, "an id that GetSolution returned")
    return BY_ID[solution_id].name


def solver_id(name: str) -> int:
    """Return the solution id of a solver's database name."""
    if name not in BY_NAME:
        raise BadParmError("unknown solver", "name", name, "a solver's database name")
    return BY_NAME[name].id
