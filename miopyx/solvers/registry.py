"""All solvers, in the order of preference: the one place that lists them.

Ids and names are permanent.  MIOpen's are used where algorithm and workspace are the same as there (1 to 179 are all
its own); ours start at 1001.
"""

from __future__ import annotations

from miopyx._core import Solver
from miopyx.errors import BadParmError
from miopyx.problem._problem import Problem

from .conv import _fft, _gemm, _host, _naive
from .conv.amd import _matrix as _amd_matrix
from .conv.cpu import _few as _cpu_few
from .conv.cpu import _grouped as _cpu_grouped
from .conv.cpu import _implicit as _cpu_implicit
from .conv.cpu import _implicit_nhwc, _implicit_weights
from .conv.cpu import _winograd as _cpu_winograd
from .conv.gpu import _depthwise, _signals
from .conv.gpu import _implicit as _gpu_implicit
from .conv.gpu import _winograd as _gpu_winograd
from .conv.nvidia import _depthwise as _nv_depthwise
from .conv.nvidia import (
    _few,
    _float8,
    _grouped,
    _int8,
    _mma,
    _pairs,
    _pairs_taps,
    _pairs_winograd,
    _patches,
    _small,
    _taps,
    _tf32,
    _tf32_direct,
    _wgmma,
)
from .layers import (
    _activation,
    _batchnorm,
    _bias,
    _cat,
    _ctc,
    _dropout,
    _elements,
    _empty,
    _getitem,
    _kthvalue,
    _layernorm,
    _lrn,
    _mha,
    _mha_nvidia,
    _multimargin,
    _pooling,
    _reduce,
    _rnn,
    _rnn_nvidia,
    _softmax,
    _tensor_ops,
)

CONV: tuple[Solver, ...] = (
    _wgmma.NvWgmmaFwd(), _wgmma.NvWgmmaBwd(), _wgmma.NvWgmmaWrw(), _taps.NvTapsWrw(),
    _tf32.NvTf32Fwd(), _tf32.NvTf32Bwd(), _tf32.NvTf32Wrw(),
    _tf32_direct.NvWgmmaTf32Fwd(), _tf32_direct.NvWgmmaTf32Bwd(), _tf32_direct.NvWgmmaTf32Wrw(),
    _tf32_direct.NvMmaTf32Wrw(), _tf32_direct.NvWgmmaTf32NhwcWrw(),
    _pairs.NvHalvesFwd(), _pairs.NvHalvesBwd(), _pairs.NvHalvesWrw(),
    _pairs.NvPairsFwd(), _pairs.NvPairsBwd(), _pairs.NvPairsWrw(), _pairs_taps.NvPairTapsWrw(),
    _pairs_winograd.NvPairWinogradWrw(),
    _patches.NvPatchesFwd(), _patches.NvPatchesBwd(), _patches.NvPatchesWrw(),
    _mma.NvImplicitGemmFwd(), _mma.NvImplicitGemmBwd(), _mma.NvImplicitGemmWrw(),
    _float8.NvFloat8Fwd(), _float8.NvFloat8Bwd(),
    _int8.NvInt8Fwd(), _few.NvFewChannelsFwd(), _few.NvFewChannelsWrw(),
    _small.NvSmallFwd(), _small.NvSmallBwd(), _small.NvSmallWrw(),
    _grouped.NvGroupedFwd(), _grouped.NvGroupedBwd(), _grouped.NvGroupedWrw(),
    _nv_depthwise.NvDepthwiseWrw(),
    _amd_matrix.AmdMatrixFwd(), _amd_matrix.AmdMatrixBwd(), _amd_matrix.AmdMatrixWrw(),
    _signals.SignalFwd(), _signals.SignalBwd(), _signals.SignalWrw(),
    _depthwise.DepthwiseFwd(), _depthwise.DepthwiseBwd(), _depthwise.DepthwiseWrw(),
    _cpu_grouped.CpuGroupedFwd(), _cpu_grouped.CpuGroupedBwd(), _cpu_grouped.CpuGroupedWrw(),
    _cpu_winograd.CpuWinogradF4Fwd(), _cpu_winograd.CpuWinogradF4Bwd(), _cpu_winograd.CpuWinogradF4Wrw(),
    _cpu_winograd.CpuWinogradF2Fwd(), _cpu_winograd.CpuWinogradF2Bwd(), _cpu_winograd.CpuWinogradF2Wrw(),
    _gpu_winograd.GpuWinogradF4Fwd(), _gpu_winograd.GpuWinogradF4Bwd(), _gpu_winograd.GpuWinogradF4Wrw(),
    _gpu_winograd.GpuWinogradF2Fwd(), _gpu_winograd.GpuWinogradF2Bwd(), _gpu_winograd.GpuWinogradF2Wrw(),
    _gpu_implicit.GpuImplicitGemmFwd(), _gpu_implicit.GpuImplicitGemmBwd(), _gpu_implicit.GpuImplicitGemmWrw(),
    _cpu_few.CpuFewChannelsFwd(), _cpu_implicit.CpuImplicitGemmFwd(), _cpu_implicit.CpuImplicitGemmBwd(),
    _implicit_weights.CpuImplicitGemmWrw(),
    _implicit_nhwc.CpuImplicitGemmNhwcFwd(), _implicit_nhwc.CpuImplicitGemmNhwcBwd(),
    _implicit_nhwc.CpuImplicitGemmNhwcWrw(),
    _fft.FftFwd(), _fft.FftBwd(), _fft.FftWrw(),
    _gemm.GemmFwd1x1(), _gemm.GemmFwd1x1Stride2(), _gemm.GemmFwdBatched(), _gemm.GemmFwdRest(),
    _gemm.GemmBwd1x1(), _gemm.GemmBwd1x1Stride2(), _gemm.GemmBwdBatched(), _gemm.GemmBwdRest(),
    _gemm.GemmWrw1x1(), _gemm.GemmWrwBatched(), _gemm.GemmWrwUniversal(),
    _host.HostImplicitGemmFwd(), _host.HostImplicitGemmBwd(), _host.HostImplicitGemmWrw(),
    _naive.ConvDirectNaiveConvFwd(), _naive.ConvDirectNaiveConvBwd(), _naive.ConvDirectNaiveConvWrw(),
)

_ELEMENTS = (_elements.OpenCLElements(), _elements.HostElements())

# The other operations, by the name of their problems' class.
OTHERS: dict[str, tuple[Solver, ...]] = {
    **dict.fromkeys(("AdamProblem", "GLUProblem", "PReLUProblem", "RoPEProblem", "SoftMarginProblem"), _ELEMENTS),
    "ActivationProblem": (_activation.OpenCLActivation(), _activation.HostActivation()),
    "BatchNormProblem": (_batchnorm.OpenCLBatchNorm(), _batchnorm.HostBatchNorm()),
    "BiasProblem": (_bias.OpenCLBias(), _bias.HostBias()),
    "CTCProblem": (_ctc.OpenCLCTC(), _ctc.HostCTC()),
    "CatProblem": (_cat.OpenCLCat(), _cat.HostCat()),
    "DropoutProblem": (_dropout.OpenCLDropout(), _dropout.HostDropout()),
    "GetitemProblem": (_getitem.OpenCLGetitem(), _getitem.HostGetitem()),
    "KthProblem": (_kthvalue.OpenCLKth(), _kthvalue.HostKth()),
    "LayerNormProblem": (_layernorm.OpenCLLayerNorm(), _layernorm.HostLayerNorm()),
    "LRNProblem": (_lrn.OpenCLLRN(), _lrn.HostLRN()),
    "MhaProblem": (_mha_nvidia.NvMha(), _mha.OpenCLMha(), _mha.HostMha()),
    "MultiMarginProblem": (_multimargin.OpenCLMultiMargin(), _multimargin.HostMultiMargin()),
    "PoolingProblem": (_pooling.OpenCLPooling(), _pooling.HostPooling()),
    "RNNProblem": (_rnn_nvidia.NvRNN(), _rnn.OpenCLRNN(), _rnn.HostRNN()),
    "ReduceProblem": (_reduce.OpenCLReduce(), _reduce.HostReduce()),
    "SoftmaxProblem": (_softmax.OpenCLSoftmax(), _softmax.HostSoftmax()),
    "TensorProblem": (_tensor_ops.OpenCLTensor(), _tensor_ops.HostTensor()),
}

# What takes the place of all of these where tensors have no elements.
EMPTY: Solver = _empty.Empty()

BY_ID: dict[int, Solver] = {solver.id: solver for solver in CONV}
BY_NAME: dict[str, Solver] = {solver.name: solver for solver in CONV}


def others(problem: Problem) -> tuple[Solver, ...]:
    """Return the solvers of a problem that is no convolution, in the order of preference."""
    return (EMPTY,) if problem.empty else OTHERS[type(problem).__name__]


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
