"""The enumerations of miopen.h, with the header's names and numbers.

Each C enum is an `IntEnum` class of the same name; its members keep the header's spelling, so that
``miopenDataType_t.miopenFloat`` and ``miopyx.miopenFloat`` are the same object.
"""

from __future__ import annotations

from enum import IntEnum


class miopenStatus_t(IntEnum):
    miopenStatusSuccess = 0
    miopenStatusNotInitialized = 1
    miopenStatusInvalidValue = 2
    miopenStatusBadParm = 3
    miopenStatusAllocFailed = 4
    miopenStatusInternalError = 5
    miopenStatusNotImplemented = 6
    miopenStatusUnknownError = 7
    miopenStatusUnsupportedOp = 8
    miopenStatusGpuOperationsSkipped = 9
    miopenStatusVersionMismatch = 10


class miopenDataType_t(IntEnum):
    miopenHalf = 0
    miopenFloat = 1
    miopenInt32 = 2
    miopenInt8 = 3
    miopenBFloat16 = 5
    miopenDouble = 6
    miopenFloat8 = 7
    miopenBFloat8 = 8
    miopenInt64 = 9


class miopenTensorLayout_t(IntEnum):
    miopenTensorNCHW = 0
    miopenTensorNHWC = 1
    miopenTensorCHWN = 2
    miopenTensorNCHWc4 = 3
    miopenTensorNCHWc8 = 4
    miopenTensorCHWNc4 = 5
    miopenTensorCHWNc8 = 6
    miopenTensorNCDHW = 7
    miopenTensorNDHWC = 8


class miopenIndexType_t(IntEnum):
    miopenIndexUint8 = 0
    miopenIndexUint16 = 1
    miopenIndexUint32 = 2
    miopenIndexUint64 = 3


class miopenTensorOp_t(IntEnum):
    miopenTensorOpAdd = 0
    miopenTensorOpMul = 1
    miopenTensorOpMin = 2
    miopenTensorOpMax = 3


class miopenConvolutionMode_t(IntEnum):
    miopenConvolution = 0
    miopenTranspose = 1
    miopenGroupConv = 2
    miopenDepthwise = 3


class miopenPaddingMode_t(IntEnum):
    miopenPaddingDefault = 0
    miopenPaddingSame = 1
    miopenPaddingValid = 2


class miopenConvolutionAttrib_t(IntEnum):
    MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL = 0
    MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC = 1
    MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE = 2


class miopenF8RoundingMode_t(IntEnum):
    miopenF8RoundingModeStandard = 0
    miopenF8RoundingModeStochastic = 1


class miopenConvFwdAlgorithm_t(IntEnum):
    miopenConvolutionFwdAlgoGEMM = 0
    miopenConvolutionFwdAlgoDirect = 1
    miopenConvolutionFwdAlgoFFT = 2
    miopenConvolutionFwdAlgoWinograd = 3
    miopenConvolutionFwdAlgoImplicitGEMM = 5


class miopenConvBwdDataAlgorithm_t(IntEnum):
    miopenConvolutionBwdDataAlgoGEMM = 0
    miopenConvolutionBwdDataAlgoDirect = 1
    miopenConvolutionBwdDataAlgoFFT = 2
    miopenConvolutionBwdDataAlgoWinograd = 3
    miopenTransposeBwdDataAlgoGEMM = 4
    miopenConvolutionBwdDataAlgoImplicitGEMM = 5


class miopenConvBwdWeightsAlgorithm_t(IntEnum):
    miopenConvolutionBwdWeightsAlgoGEMM = 0
    miopenConvolutionBwdWeightsAlgoDirect = 1
    miopenConvolutionBwdWeightsAlgoWinograd = 3
    miopenConvolutionBwdWeightsAlgoImplicitGEMM = 5


class miopenConvAlgorithm_t(IntEnum):
    miopenConvolutionAlgoGEMM = 0
    miopenConvolutionAlgoDirect = 1
    miopenConvolutionAlgoFFT = 2
    miopenConvolutionAlgoWinograd = 3
    miopenConvolutionAlgoImplicitGEMM = 5


class miopenConvolutionFindMode_t(IntEnum):
    miopenConvolutionFindModeNormal = 1
    miopenConvolutionFindModeFast = 2
    miopenConvolutionFindModeHybrid = 3
    miopenConvolutionFindModeReserved_4 = 4
    miopenConvolutionFindModeDynamicHybrid = 5


class miopenPoolingMode_t(IntEnum):
    miopenPoolingMax = 0
    miopenPoolingAverage = 1
    miopenPoolingAverageInclusive = 2


class miopenPoolingWorkspaceIndexMode_t(IntEnum):
    miopenPoolingWorkspaceIndexMask = 0
    miopenPoolingWorkspaceIndexImage = 1


class miopenLRNMode_t(IntEnum):
    miopenLRNWithinChannel = 0
    miopenLRNCrossChannel = 1


class miopenBatchNormMode_t(IntEnum):
    miopenBNPerActivation = 0
    miopenBNSpatial = 1


class miopenActivationMode_t(IntEnum):
    miopenActivationPASTHRU = 0
    miopenActivationLOGISTIC = 1
    miopenActivationTANH = 2
    miopenActivationRELU = 3
    miopenActivationSOFTRELU = 4
    miopenActivationABS = 5
    miopenActivationPOWER = 6
    miopenActivationCLIPPEDRELU = 7
    miopenActivationLEAKYRELU = 8
    miopenActivationELU = 9


class miopenSoftmaxAlgorithm_t(IntEnum):
    MIOPEN_SOFTMAX_FAST = 0
    MIOPEN_SOFTMAX_ACCURATE = 1
    MIOPEN_SOFTMAX_LOG = 2


class miopenSoftmaxMode_t(IntEnum):
    MIOPEN_SOFTMAX_MODE_INSTANCE = 0
    MIOPEN_SOFTMAX_MODE_CHANNEL = 1


class miopenProblemDirection_t(IntEnum):
    miopenProblemDirectionForward = 0
    miopenProblemDirectionBackward = 1
    miopenProblemDirectionBackwardWeights = 2
    miopenProblemDirectionInference = 4


class miopenFindResultsOrder_t(IntEnum):
    miopenFindResultsOrderByTime = 0
    miopenFindResultsOrderByWorkspaceSize = 1


_SCALAR = 1 << 31


class miopenTensorArgumentId_t(IntEnum):
    miopenTensorArgumentIdInvalid = 0
    miopenTensorConvolutionX = 1
    miopenTensorConvolutionW = 2
    miopenTensorConvolutionY = 3
    # 4 to 36 belong to the attention problems.
    miopenTensorActivationX = 37
    miopenTensorActivationY = 38
    miopenTensorActivationDX = 39
    miopenTensorActivationDY = 40
    miopenTensorBiasX = 41
    miopenTensorBiasY = 42
    miopenTensorBias = 43
    miopenTensorSoftmaxX = 44
    miopenTensorSoftmaxY = 45
    miopenTensorSoftmaxDX = 46
    miopenTensorSoftmaxDY = 47
    miopenTensorBatchnormX = 48
    miopenTensorBatchnormY = 49
    miopenTensorBatchnormRunningMean = 50
    miopenTensorBatchnormRunningVariance = 51
    miopenTensorBatchnormSavedMean = 52
    miopenTensorBatchnormSavedVariance = 53
    miopenTensorBatchnormScale = 54
    miopenTensorBatchnormScaleDiff = 55
    miopenTensorBatchnormEstimatedMean = 56
    miopenTensorBatchnormEstimatedVariance = 57
    miopenTensorBatchnormBias = 58
    miopenTensorBatchnormBiasDiff = 59
    miopenTensorBatchnormDX = 60
    miopenTensorBatchnormDY = 61
    miopenTensorArgumentIsScalar = _SCALAR
    miopenScalarBatchnormExpAvgFactor = _SCALAR + 2
    miopenScalarBatchnormEpsilon = _SCALAR + 3


class miopenAlphaBetaCase_t(IntEnum):
    DEFAULT = 0  # alpha 1, beta 0
    SCALE = 1  # alpha not 1, beta 0
    BILINEAR = 2  # neither 0
    ERROR_STATE = 3  # alpha 0, beta not 0


ENUMS = tuple(
    value for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, IntEnum) and value is not IntEnum
)
# As in C, members stand beside their types; DEFAULT, SCALE ... are too general to be module-level names.
globals().update({m.name: m for e in ENUMS if e is not miopenAlphaBetaCase_t for m in e})
__all__ = [e.__name__ for e in ENUMS] + [m.name for e in ENUMS if e is not miopenAlphaBetaCase_t for m in e]
