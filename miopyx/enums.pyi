from enum import IntEnum
from typing import Final

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
    miopenFloat8_ocp = 1007
    miopenBFloat8_ocp = 1008

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
    MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE = 3

class miopenMathType_t(IntEnum):
    miopenMathDefault = 0
    miopenMathPedantic = 1

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

class miopenNanPropagation_t(IntEnum):
    MIOPEN_NOT_PROPAGATE_NAN = 0
    MIOPEN_PROPAGATE_NAN = 1

class miopenLRNMode_t(IntEnum):
    miopenLRNWithinChannel = 0
    miopenLRNCrossChannel = 1

class miopenBatchNormMode_t(IntEnum):
    miopenBNPerActivation = 0
    miopenBNSpatial = 1

class miopenFusionDirection_t(IntEnum):
    miopenVerticalFusion = 0
    miopenHorizontalFusion = 1

class miopenNormMode_t(IntEnum):
    MIOPEN_ELEMENTWISE_AFFINE = 0
    MIOPEN_WEIGHT_BIAS = 1
    MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD = 2
    MIOPEN_WEIGHT_BIAS_FUSED_ADD = 3
    MIOPEN_ELEMENTWISE_AFFINE_T5 = 4
    MIOPEN_WEIGHT_BIAS_T5 = 5

class miopenCTCLossAlgo_t(IntEnum):
    MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC = 0

class miopenLossReductionMode_t(IntEnum):
    MIOPEN_LOSS_REDUCTION_NONE = 0
    MIOPEN_LOSS_REDUCTION_SUM = 1
    MIOPEN_LOSS_REDUCTION_MEAN = 2

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
    miopenActivationCLAMP = 10

class miopenSoftmaxAlgorithm_t(IntEnum):
    MIOPEN_SOFTMAX_FAST = 0
    MIOPEN_SOFTMAX_ACCURATE = 1
    MIOPEN_SOFTMAX_LOG = 2

class miopenSoftmaxMode_t(IntEnum):
    MIOPEN_SOFTMAX_MODE_INSTANCE = 0
    MIOPEN_SOFTMAX_MODE_CHANNEL = 1

class miopenReduceTensorOp_t(IntEnum):
    MIOPEN_REDUCE_TENSOR_ADD = 0
    MIOPEN_REDUCE_TENSOR_MUL = 1
    MIOPEN_REDUCE_TENSOR_MIN = 2
    MIOPEN_REDUCE_TENSOR_MAX = 3
    MIOPEN_REDUCE_TENSOR_AMAX = 4
    MIOPEN_REDUCE_TENSOR_AVG = 5
    MIOPEN_REDUCE_TENSOR_NORM1 = 6
    MIOPEN_REDUCE_TENSOR_NORM2 = 7
    MIOPEN_REDUCE_TENSOR_MUL_NO_ZEROS = 8

class miopenReduceTensorIndices_t(IntEnum):
    MIOPEN_REDUCE_TENSOR_NO_INDICES = 0
    MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES = 1

class miopenIndicesType_t(IntEnum):
    MIOPEN_32BIT_INDICES = 0
    MIOPEN_64BIT_INDICES = 1
    MIOPEN_16BIT_INDICES = 2
    MIOPEN_8BIT_INDICES = 3

class miopenReduceCalculationNanPropagation_t(IntEnum):
    MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN = 0
    MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN = 1

class miopenReduceCalculationOp_t(IntEnum):
    MIOPEN_REDUCE_CALCULATION_PROD = 1
    MIOPEN_REDUCE_CALCULATION_SUM = 2

class miopenReduceExtremeOp_t(IntEnum):
    MIOPEN_REDUCE_EXTREME_ARGMIN = 1
    MIOPEN_REDUCE_EXTREME_ARGMAX = 2
    MIOPEN_REDUCE_EXTREME_MIN = 3
    MIOPEN_REDUCE_EXTREME_MAX = 4

class miopenRNGType_t(IntEnum):
    MIOPEN_RNG_PSEUDO_XORWOW = 0

class miopenRNNMode_t(IntEnum):
    miopenRNNRELU = 0
    miopenRNNTANH = 1
    miopenLSTM = 2
    miopenGRU = 3

class miopenRNNInputMode_t(IntEnum):
    miopenRNNlinear = 0
    miopenRNNskip = 1

class miopenRNNAlgo_t(IntEnum):
    miopenRNNdefault = 0
    miopenRNNfundamental = 1

class miopenRNNDirectionMode_t(IntEnum):
    miopenRNNunidirection = 0
    miopenRNNbidirection = 1

class miopenRNNBiasMode_t(IntEnum):
    miopenRNNNoBias = 0
    miopenRNNwithBias = 1

class miopenRNNGEMMalgoMode_t(IntEnum):
    miopenRNNAlgoGEMM = 0

class miopenRNNPaddingMode_t(IntEnum):
    miopenRNNIONotPadded = 0
    miopenRNNIOWithPadding = 1

class miopenRNNFWDMode_t(IntEnum):
    miopenRNNTraining = 0
    miopenRNNInference = 1

class miopenRNNBaseLayout_t(IntEnum):
    miopenRNNDataUnknownLayout = 0
    miopenRNNDataSeqMajorNotPadded = 1
    miopenRNNDataSeqMajorPadded = 2
    miopenRNNDataBatchMajorPadded = 3

class miopenProblemDirection_t(IntEnum):
    miopenProblemDirectionForward = 0
    miopenProblemDirectionBackward = 1
    miopenProblemDirectionBackwardWeights = 2
    miopenProblemDirectionInference = 4

class miopenFindResultsOrder_t(IntEnum):
    miopenFindResultsOrderByTime = 0
    miopenFindResultsOrderByWorkspaceSize = 1

class miopenTensorArgumentId_t(IntEnum):
    miopenTensorArgumentIdInvalid = 0
    miopenTensorConvolutionX = 1
    miopenTensorConvolutionW = 2
    miopenTensorConvolutionY = 3
    miopenTensorMhaK = 4
    miopenTensorMhaQ = 5
    miopenTensorMhaV = 6
    miopenTensorMhaDescaleK = 7
    miopenTensorMhaDescaleQ = 8
    miopenTensorMhaDescaleV = 9
    miopenTensorMhaDescaleS = 10
    miopenTensorMhaScaleS = 11
    miopenTensorMhaScaleO = 12
    miopenTensorMhaDropoutProbability = 13
    miopenTensorMhaDropoutSeed = 14
    miopenTensorMhaDropoutOffset = 15
    miopenTensorMhaO = 16
    miopenTensorMhaAmaxO = 17
    miopenTensorMhaAmaxS = 18
    miopenTensorMhaM = 19
    miopenTensorMhaZInv = 20
    miopenTensorMhaDO = 21
    miopenTensorMhaDescaleO = 22
    miopenTensorMhaDescaleDO = 23
    miopenTensorMhaDescaleDS = 24
    miopenTensorMhaScaleDS = 25
    miopenTensorMhaScaleDQ = 26
    miopenTensorMhaScaleDK = 27
    miopenTensorMhaScaleDV = 28
    miopenTensorMhaDQ = 29
    miopenTensorMhaDK = 30
    miopenTensorMhaDV = 31
    miopenTensorMhaAmaxDQ = 32
    miopenTensorMhaAmaxDK = 33
    miopenTensorMhaAmaxDV = 34
    miopenTensorMhaAmaxDS = 35
    miopenTensorMhaBias = 36
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
    miopenTensorArgumentIsScalar = 2147483648
    miopenTensorMhaMask = 2147483649
    miopenScalarBatchnormExpAvgFactor = 2147483650
    miopenScalarBatchnormEpsilon = 2147483651

class miopenMhaMask_t(IntEnum):
    miopenMhaMaskNone = 0
    miopenMhaMaskCausal = 1

class miopenAlphaBetaCase_t(IntEnum):
    DEFAULT = 0
    SCALE = 1
    BILINEAR = 2
    ERROR_STATE = 3

ENUMS: Final[tuple[type[IntEnum], ...]]

miopenStatusSuccess: Final = miopenStatus_t.miopenStatusSuccess
miopenStatusNotInitialized: Final = miopenStatus_t.miopenStatusNotInitialized
miopenStatusInvalidValue: Final = miopenStatus_t.miopenStatusInvalidValue
miopenStatusBadParm: Final = miopenStatus_t.miopenStatusBadParm
miopenStatusAllocFailed: Final = miopenStatus_t.miopenStatusAllocFailed
miopenStatusInternalError: Final = miopenStatus_t.miopenStatusInternalError
miopenStatusNotImplemented: Final = miopenStatus_t.miopenStatusNotImplemented
miopenStatusUnknownError: Final = miopenStatus_t.miopenStatusUnknownError
miopenStatusUnsupportedOp: Final = miopenStatus_t.miopenStatusUnsupportedOp
miopenStatusGpuOperationsSkipped: Final = miopenStatus_t.miopenStatusGpuOperationsSkipped
miopenStatusVersionMismatch: Final = miopenStatus_t.miopenStatusVersionMismatch
miopenHalf: Final = miopenDataType_t.miopenHalf
miopenFloat: Final = miopenDataType_t.miopenFloat
miopenInt32: Final = miopenDataType_t.miopenInt32
miopenInt8: Final = miopenDataType_t.miopenInt8
miopenBFloat16: Final = miopenDataType_t.miopenBFloat16
miopenDouble: Final = miopenDataType_t.miopenDouble
miopenFloat8: Final = miopenDataType_t.miopenFloat8
miopenBFloat8: Final = miopenDataType_t.miopenBFloat8
miopenInt64: Final = miopenDataType_t.miopenInt64
miopenFloat8_ocp: Final = miopenDataType_t.miopenFloat8_ocp
miopenBFloat8_ocp: Final = miopenDataType_t.miopenBFloat8_ocp
miopenTensorNCHW: Final = miopenTensorLayout_t.miopenTensorNCHW
miopenTensorNHWC: Final = miopenTensorLayout_t.miopenTensorNHWC
miopenTensorCHWN: Final = miopenTensorLayout_t.miopenTensorCHWN
miopenTensorNCHWc4: Final = miopenTensorLayout_t.miopenTensorNCHWc4
miopenTensorNCHWc8: Final = miopenTensorLayout_t.miopenTensorNCHWc8
miopenTensorCHWNc4: Final = miopenTensorLayout_t.miopenTensorCHWNc4
miopenTensorCHWNc8: Final = miopenTensorLayout_t.miopenTensorCHWNc8
miopenTensorNCDHW: Final = miopenTensorLayout_t.miopenTensorNCDHW
miopenTensorNDHWC: Final = miopenTensorLayout_t.miopenTensorNDHWC
miopenIndexUint8: Final = miopenIndexType_t.miopenIndexUint8
miopenIndexUint16: Final = miopenIndexType_t.miopenIndexUint16
miopenIndexUint32: Final = miopenIndexType_t.miopenIndexUint32
miopenIndexUint64: Final = miopenIndexType_t.miopenIndexUint64
miopenTensorOpAdd: Final = miopenTensorOp_t.miopenTensorOpAdd
miopenTensorOpMul: Final = miopenTensorOp_t.miopenTensorOpMul
miopenTensorOpMin: Final = miopenTensorOp_t.miopenTensorOpMin
miopenTensorOpMax: Final = miopenTensorOp_t.miopenTensorOpMax
miopenConvolution: Final = miopenConvolutionMode_t.miopenConvolution
miopenTranspose: Final = miopenConvolutionMode_t.miopenTranspose
miopenGroupConv: Final = miopenConvolutionMode_t.miopenGroupConv
miopenDepthwise: Final = miopenConvolutionMode_t.miopenDepthwise
miopenPaddingDefault: Final = miopenPaddingMode_t.miopenPaddingDefault
miopenPaddingSame: Final = miopenPaddingMode_t.miopenPaddingSame
miopenPaddingValid: Final = miopenPaddingMode_t.miopenPaddingValid
MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL: Final = miopenConvolutionAttrib_t.MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL
MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC: Final = miopenConvolutionAttrib_t.MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC
MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE: Final = (
    miopenConvolutionAttrib_t.MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE
)
MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE: Final = miopenConvolutionAttrib_t.MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE
miopenMathDefault: Final = miopenMathType_t.miopenMathDefault
miopenMathPedantic: Final = miopenMathType_t.miopenMathPedantic
miopenF8RoundingModeStandard: Final = miopenF8RoundingMode_t.miopenF8RoundingModeStandard
miopenF8RoundingModeStochastic: Final = miopenF8RoundingMode_t.miopenF8RoundingModeStochastic
miopenConvolutionFwdAlgoGEMM: Final = miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoGEMM
miopenConvolutionFwdAlgoDirect: Final = miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoDirect
miopenConvolutionFwdAlgoFFT: Final = miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoFFT
miopenConvolutionFwdAlgoWinograd: Final = miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoWinograd
miopenConvolutionFwdAlgoImplicitGEMM: Final = miopenConvFwdAlgorithm_t.miopenConvolutionFwdAlgoImplicitGEMM
miopenConvolutionBwdDataAlgoGEMM: Final = miopenConvBwdDataAlgorithm_t.miopenConvolutionBwdDataAlgoGEMM
miopenConvolutionBwdDataAlgoDirect: Final = miopenConvBwdDataAlgorithm_t.miopenConvolutionBwdDataAlgoDirect
miopenConvolutionBwdDataAlgoFFT: Final = miopenConvBwdDataAlgorithm_t.miopenConvolutionBwdDataAlgoFFT
miopenConvolutionBwdDataAlgoWinograd: Final = miopenConvBwdDataAlgorithm_t.miopenConvolutionBwdDataAlgoWinograd
miopenTransposeBwdDataAlgoGEMM: Final = miopenConvBwdDataAlgorithm_t.miopenTransposeBwdDataAlgoGEMM
miopenConvolutionBwdDataAlgoImplicitGEMM: Final = miopenConvBwdDataAlgorithm_t.miopenConvolutionBwdDataAlgoImplicitGEMM
miopenConvolutionBwdWeightsAlgoGEMM: Final = miopenConvBwdWeightsAlgorithm_t.miopenConvolutionBwdWeightsAlgoGEMM
miopenConvolutionBwdWeightsAlgoDirect: Final = miopenConvBwdWeightsAlgorithm_t.miopenConvolutionBwdWeightsAlgoDirect
miopenConvolutionBwdWeightsAlgoWinograd: Final = miopenConvBwdWeightsAlgorithm_t.miopenConvolutionBwdWeightsAlgoWinograd
miopenConvolutionBwdWeightsAlgoImplicitGEMM: Final = (
    miopenConvBwdWeightsAlgorithm_t.miopenConvolutionBwdWeightsAlgoImplicitGEMM
)
miopenConvolutionAlgoGEMM: Final = miopenConvAlgorithm_t.miopenConvolutionAlgoGEMM
miopenConvolutionAlgoDirect: Final = miopenConvAlgorithm_t.miopenConvolutionAlgoDirect
miopenConvolutionAlgoFFT: Final = miopenConvAlgorithm_t.miopenConvolutionAlgoFFT
miopenConvolutionAlgoWinograd: Final = miopenConvAlgorithm_t.miopenConvolutionAlgoWinograd
miopenConvolutionAlgoImplicitGEMM: Final = miopenConvAlgorithm_t.miopenConvolutionAlgoImplicitGEMM
miopenConvolutionFindModeNormal: Final = miopenConvolutionFindMode_t.miopenConvolutionFindModeNormal
miopenConvolutionFindModeFast: Final = miopenConvolutionFindMode_t.miopenConvolutionFindModeFast
miopenConvolutionFindModeHybrid: Final = miopenConvolutionFindMode_t.miopenConvolutionFindModeHybrid
miopenConvolutionFindModeReserved_4: Final = miopenConvolutionFindMode_t.miopenConvolutionFindModeReserved_4
miopenConvolutionFindModeDynamicHybrid: Final = miopenConvolutionFindMode_t.miopenConvolutionFindModeDynamicHybrid
miopenPoolingMax: Final = miopenPoolingMode_t.miopenPoolingMax
miopenPoolingAverage: Final = miopenPoolingMode_t.miopenPoolingAverage
miopenPoolingAverageInclusive: Final = miopenPoolingMode_t.miopenPoolingAverageInclusive
miopenPoolingWorkspaceIndexMask: Final = miopenPoolingWorkspaceIndexMode_t.miopenPoolingWorkspaceIndexMask
miopenPoolingWorkspaceIndexImage: Final = miopenPoolingWorkspaceIndexMode_t.miopenPoolingWorkspaceIndexImage
MIOPEN_NOT_PROPAGATE_NAN: Final = miopenNanPropagation_t.MIOPEN_NOT_PROPAGATE_NAN
MIOPEN_PROPAGATE_NAN: Final = miopenNanPropagation_t.MIOPEN_PROPAGATE_NAN
miopenLRNWithinChannel: Final = miopenLRNMode_t.miopenLRNWithinChannel
miopenLRNCrossChannel: Final = miopenLRNMode_t.miopenLRNCrossChannel
miopenBNPerActivation: Final = miopenBatchNormMode_t.miopenBNPerActivation
miopenBNSpatial: Final = miopenBatchNormMode_t.miopenBNSpatial
miopenVerticalFusion: Final = miopenFusionDirection_t.miopenVerticalFusion
miopenHorizontalFusion: Final = miopenFusionDirection_t.miopenHorizontalFusion
MIOPEN_ELEMENTWISE_AFFINE: Final = miopenNormMode_t.MIOPEN_ELEMENTWISE_AFFINE
MIOPEN_WEIGHT_BIAS: Final = miopenNormMode_t.MIOPEN_WEIGHT_BIAS
MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD: Final = miopenNormMode_t.MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD
MIOPEN_WEIGHT_BIAS_FUSED_ADD: Final = miopenNormMode_t.MIOPEN_WEIGHT_BIAS_FUSED_ADD
MIOPEN_ELEMENTWISE_AFFINE_T5: Final = miopenNormMode_t.MIOPEN_ELEMENTWISE_AFFINE_T5
MIOPEN_WEIGHT_BIAS_T5: Final = miopenNormMode_t.MIOPEN_WEIGHT_BIAS_T5
MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC: Final = miopenCTCLossAlgo_t.MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC
MIOPEN_LOSS_REDUCTION_NONE: Final = miopenLossReductionMode_t.MIOPEN_LOSS_REDUCTION_NONE
MIOPEN_LOSS_REDUCTION_SUM: Final = miopenLossReductionMode_t.MIOPEN_LOSS_REDUCTION_SUM
MIOPEN_LOSS_REDUCTION_MEAN: Final = miopenLossReductionMode_t.MIOPEN_LOSS_REDUCTION_MEAN
miopenActivationPASTHRU: Final = miopenActivationMode_t.miopenActivationPASTHRU
miopenActivationLOGISTIC: Final = miopenActivationMode_t.miopenActivationLOGISTIC
miopenActivationTANH: Final = miopenActivationMode_t.miopenActivationTANH
miopenActivationRELU: Final = miopenActivationMode_t.miopenActivationRELU
miopenActivationSOFTRELU: Final = miopenActivationMode_t.miopenActivationSOFTRELU
miopenActivationABS: Final = miopenActivationMode_t.miopenActivationABS
miopenActivationPOWER: Final = miopenActivationMode_t.miopenActivationPOWER
miopenActivationCLIPPEDRELU: Final = miopenActivationMode_t.miopenActivationCLIPPEDRELU
miopenActivationLEAKYRELU: Final = miopenActivationMode_t.miopenActivationLEAKYRELU
miopenActivationELU: Final = miopenActivationMode_t.miopenActivationELU
miopenActivationCLAMP: Final = miopenActivationMode_t.miopenActivationCLAMP
MIOPEN_SOFTMAX_FAST: Final = miopenSoftmaxAlgorithm_t.MIOPEN_SOFTMAX_FAST
MIOPEN_SOFTMAX_ACCURATE: Final = miopenSoftmaxAlgorithm_t.MIOPEN_SOFTMAX_ACCURATE
MIOPEN_SOFTMAX_LOG: Final = miopenSoftmaxAlgorithm_t.MIOPEN_SOFTMAX_LOG
MIOPEN_SOFTMAX_MODE_INSTANCE: Final = miopenSoftmaxMode_t.MIOPEN_SOFTMAX_MODE_INSTANCE
MIOPEN_SOFTMAX_MODE_CHANNEL: Final = miopenSoftmaxMode_t.MIOPEN_SOFTMAX_MODE_CHANNEL
MIOPEN_REDUCE_TENSOR_ADD: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_ADD
MIOPEN_REDUCE_TENSOR_MUL: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_MUL
MIOPEN_REDUCE_TENSOR_MIN: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_MIN
MIOPEN_REDUCE_TENSOR_MAX: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_MAX
MIOPEN_REDUCE_TENSOR_AMAX: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_AMAX
MIOPEN_REDUCE_TENSOR_AVG: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_AVG
MIOPEN_REDUCE_TENSOR_NORM1: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_NORM1
MIOPEN_REDUCE_TENSOR_NORM2: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_NORM2
MIOPEN_REDUCE_TENSOR_MUL_NO_ZEROS: Final = miopenReduceTensorOp_t.MIOPEN_REDUCE_TENSOR_MUL_NO_ZEROS
MIOPEN_REDUCE_TENSOR_NO_INDICES: Final = miopenReduceTensorIndices_t.MIOPEN_REDUCE_TENSOR_NO_INDICES
MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES: Final = miopenReduceTensorIndices_t.MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES
MIOPEN_32BIT_INDICES: Final = miopenIndicesType_t.MIOPEN_32BIT_INDICES
MIOPEN_64BIT_INDICES: Final = miopenIndicesType_t.MIOPEN_64BIT_INDICES
MIOPEN_16BIT_INDICES: Final = miopenIndicesType_t.MIOPEN_16BIT_INDICES
MIOPEN_8BIT_INDICES: Final = miopenIndicesType_t.MIOPEN_8BIT_INDICES
MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN: Final = (
    miopenReduceCalculationNanPropagation_t.MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN
)
MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN: Final = (
    miopenReduceCalculationNanPropagation_t.MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN
)
MIOPEN_REDUCE_CALCULATION_PROD: Final = miopenReduceCalculationOp_t.MIOPEN_REDUCE_CALCULATION_PROD
MIOPEN_REDUCE_CALCULATION_SUM: Final = miopenReduceCalculationOp_t.MIOPEN_REDUCE_CALCULATION_SUM
MIOPEN_REDUCE_EXTREME_ARGMIN: Final = miopenReduceExtremeOp_t.MIOPEN_REDUCE_EXTREME_ARGMIN
MIOPEN_REDUCE_EXTREME_ARGMAX: Final = miopenReduceExtremeOp_t.MIOPEN_REDUCE_EXTREME_ARGMAX
MIOPEN_REDUCE_EXTREME_MIN: Final = miopenReduceExtremeOp_t.MIOPEN_REDUCE_EXTREME_MIN
MIOPEN_REDUCE_EXTREME_MAX: Final = miopenReduceExtremeOp_t.MIOPEN_REDUCE_EXTREME_MAX
MIOPEN_RNG_PSEUDO_XORWOW: Final = miopenRNGType_t.MIOPEN_RNG_PSEUDO_XORWOW
miopenRNNRELU: Final = miopenRNNMode_t.miopenRNNRELU
miopenRNNTANH: Final = miopenRNNMode_t.miopenRNNTANH
miopenLSTM: Final = miopenRNNMode_t.miopenLSTM
miopenGRU: Final = miopenRNNMode_t.miopenGRU
miopenRNNlinear: Final = miopenRNNInputMode_t.miopenRNNlinear
miopenRNNskip: Final = miopenRNNInputMode_t.miopenRNNskip
miopenRNNdefault: Final = miopenRNNAlgo_t.miopenRNNdefault
miopenRNNfundamental: Final = miopenRNNAlgo_t.miopenRNNfundamental
miopenRNNunidirection: Final = miopenRNNDirectionMode_t.miopenRNNunidirection
miopenRNNbidirection: Final = miopenRNNDirectionMode_t.miopenRNNbidirection
miopenRNNNoBias: Final = miopenRNNBiasMode_t.miopenRNNNoBias
miopenRNNwithBias: Final = miopenRNNBiasMode_t.miopenRNNwithBias
miopenRNNAlgoGEMM: Final = miopenRNNGEMMalgoMode_t.miopenRNNAlgoGEMM
miopenRNNIONotPadded: Final = miopenRNNPaddingMode_t.miopenRNNIONotPadded
miopenRNNIOWithPadding: Final = miopenRNNPaddingMode_t.miopenRNNIOWithPadding
miopenRNNTraining: Final = miopenRNNFWDMode_t.miopenRNNTraining
miopenRNNInference: Final = miopenRNNFWDMode_t.miopenRNNInference
miopenRNNDataUnknownLayout: Final = miopenRNNBaseLayout_t.miopenRNNDataUnknownLayout
miopenRNNDataSeqMajorNotPadded: Final = miopenRNNBaseLayout_t.miopenRNNDataSeqMajorNotPadded
miopenRNNDataSeqMajorPadded: Final = miopenRNNBaseLayout_t.miopenRNNDataSeqMajorPadded
miopenRNNDataBatchMajorPadded: Final = miopenRNNBaseLayout_t.miopenRNNDataBatchMajorPadded
miopenProblemDirectionForward: Final = miopenProblemDirection_t.miopenProblemDirectionForward
miopenProblemDirectionBackward: Final = miopenProblemDirection_t.miopenProblemDirectionBackward
miopenProblemDirectionBackwardWeights: Final = miopenProblemDirection_t.miopenProblemDirectionBackwardWeights
miopenProblemDirectionInference: Final = miopenProblemDirection_t.miopenProblemDirectionInference
miopenFindResultsOrderByTime: Final = miopenFindResultsOrder_t.miopenFindResultsOrderByTime
miopenFindResultsOrderByWorkspaceSize: Final = miopenFindResultsOrder_t.miopenFindResultsOrderByWorkspaceSize
miopenTensorArgumentIdInvalid: Final = miopenTensorArgumentId_t.miopenTensorArgumentIdInvalid
miopenTensorConvolutionX: Final = miopenTensorArgumentId_t.miopenTensorConvolutionX
miopenTensorConvolutionW: Final = miopenTensorArgumentId_t.miopenTensorConvolutionW
miopenTensorConvolutionY: Final = miopenTensorArgumentId_t.miopenTensorConvolutionY
miopenTensorMhaK: Final = miopenTensorArgumentId_t.miopenTensorMhaK
miopenTensorMhaQ: Final = miopenTensorArgumentId_t.miopenTensorMhaQ
miopenTensorMhaV: Final = miopenTensorArgumentId_t.miopenTensorMhaV
miopenTensorMhaDescaleK: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleK
miopenTensorMhaDescaleQ: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleQ
miopenTensorMhaDescaleV: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleV
miopenTensorMhaDescaleS: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleS
miopenTensorMhaScaleS: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleS
miopenTensorMhaScaleO: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleO
miopenTensorMhaDropoutProbability: Final = miopenTensorArgumentId_t.miopenTensorMhaDropoutProbability
miopenTensorMhaDropoutSeed: Final = miopenTensorArgumentId_t.miopenTensorMhaDropoutSeed
miopenTensorMhaDropoutOffset: Final = miopenTensorArgumentId_t.miopenTensorMhaDropoutOffset
miopenTensorMhaO: Final = miopenTensorArgumentId_t.miopenTensorMhaO
miopenTensorMhaAmaxO: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxO
miopenTensorMhaAmaxS: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxS
miopenTensorMhaM: Final = miopenTensorArgumentId_t.miopenTensorMhaM
miopenTensorMhaZInv: Final = miopenTensorArgumentId_t.miopenTensorMhaZInv
miopenTensorMhaDO: Final = miopenTensorArgumentId_t.miopenTensorMhaDO
miopenTensorMhaDescaleO: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleO
miopenTensorMhaDescaleDO: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleDO
miopenTensorMhaDescaleDS: Final = miopenTensorArgumentId_t.miopenTensorMhaDescaleDS
miopenTensorMhaScaleDS: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleDS
miopenTensorMhaScaleDQ: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleDQ
miopenTensorMhaScaleDK: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleDK
miopenTensorMhaScaleDV: Final = miopenTensorArgumentId_t.miopenTensorMhaScaleDV
miopenTensorMhaDQ: Final = miopenTensorArgumentId_t.miopenTensorMhaDQ
miopenTensorMhaDK: Final = miopenTensorArgumentId_t.miopenTensorMhaDK
miopenTensorMhaDV: Final = miopenTensorArgumentId_t.miopenTensorMhaDV
miopenTensorMhaAmaxDQ: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxDQ
miopenTensorMhaAmaxDK: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxDK
miopenTensorMhaAmaxDV: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxDV
miopenTensorMhaAmaxDS: Final = miopenTensorArgumentId_t.miopenTensorMhaAmaxDS
miopenTensorMhaBias: Final = miopenTensorArgumentId_t.miopenTensorMhaBias
miopenTensorActivationX: Final = miopenTensorArgumentId_t.miopenTensorActivationX
miopenTensorActivationY: Final = miopenTensorArgumentId_t.miopenTensorActivationY
miopenTensorActivationDX: Final = miopenTensorArgumentId_t.miopenTensorActivationDX
miopenTensorActivationDY: Final = miopenTensorArgumentId_t.miopenTensorActivationDY
miopenTensorBiasX: Final = miopenTensorArgumentId_t.miopenTensorBiasX
miopenTensorBiasY: Final = miopenTensorArgumentId_t.miopenTensorBiasY
miopenTensorBias: Final = miopenTensorArgumentId_t.miopenTensorBias
miopenTensorSoftmaxX: Final = miopenTensorArgumentId_t.miopenTensorSoftmaxX
miopenTensorSoftmaxY: Final = miopenTensorArgumentId_t.miopenTensorSoftmaxY
miopenTensorSoftmaxDX: Final = miopenTensorArgumentId_t.miopenTensorSoftmaxDX
miopenTensorSoftmaxDY: Final = miopenTensorArgumentId_t.miopenTensorSoftmaxDY
miopenTensorBatchnormX: Final = miopenTensorArgumentId_t.miopenTensorBatchnormX
miopenTensorBatchnormY: Final = miopenTensorArgumentId_t.miopenTensorBatchnormY
miopenTensorBatchnormRunningMean: Final = miopenTensorArgumentId_t.miopenTensorBatchnormRunningMean
miopenTensorBatchnormRunningVariance: Final = miopenTensorArgumentId_t.miopenTensorBatchnormRunningVariance
miopenTensorBatchnormSavedMean: Final = miopenTensorArgumentId_t.miopenTensorBatchnormSavedMean
miopenTensorBatchnormSavedVariance: Final = miopenTensorArgumentId_t.miopenTensorBatchnormSavedVariance
miopenTensorBatchnormScale: Final = miopenTensorArgumentId_t.miopenTensorBatchnormScale
miopenTensorBatchnormScaleDiff: Final = miopenTensorArgumentId_t.miopenTensorBatchnormScaleDiff
miopenTensorBatchnormEstimatedMean: Final = miopenTensorArgumentId_t.miopenTensorBatchnormEstimatedMean
miopenTensorBatchnormEstimatedVariance: Final = miopenTensorArgumentId_t.miopenTensorBatchnormEstimatedVariance
miopenTensorBatchnormBias: Final = miopenTensorArgumentId_t.miopenTensorBatchnormBias
miopenTensorBatchnormBiasDiff: Final = miopenTensorArgumentId_t.miopenTensorBatchnormBiasDiff
miopenTensorBatchnormDX: Final = miopenTensorArgumentId_t.miopenTensorBatchnormDX
miopenTensorBatchnormDY: Final = miopenTensorArgumentId_t.miopenTensorBatchnormDY
miopenTensorArgumentIsScalar: Final = miopenTensorArgumentId_t.miopenTensorArgumentIsScalar
miopenTensorMhaMask: Final = miopenTensorArgumentId_t.miopenTensorMhaMask
miopenScalarBatchnormExpAvgFactor: Final = miopenTensorArgumentId_t.miopenScalarBatchnormExpAvgFactor
miopenScalarBatchnormEpsilon: Final = miopenTensorArgumentId_t.miopenScalarBatchnormEpsilon
miopenMhaMaskNone: Final = miopenMhaMask_t.miopenMhaMaskNone
miopenMhaMaskCausal: Final = miopenMhaMask_t.miopenMhaMaskCausal

__all__ = [  # noqa: RUF022 - in the order of the header
    "miopenStatus_t", "miopenDataType_t", "miopenTensorLayout_t", "miopenIndexType_t", "miopenTensorOp_t",
    "miopenConvolutionMode_t", "miopenPaddingMode_t", "miopenConvolutionAttrib_t", "miopenMathType_t",
    "miopenF8RoundingMode_t", "miopenConvFwdAlgorithm_t", "miopenConvBwdDataAlgorithm_t",
    "miopenConvBwdWeightsAlgorithm_t", "miopenConvAlgorithm_t", "miopenConvolutionFindMode_t", "miopenPoolingMode_t",
    "miopenPoolingWorkspaceIndexMode_t", "miopenNanPropagation_t", "miopenLRNMode_t", "miopenBatchNormMode_t",
    "miopenFusionDirection_t", "miopenNormMode_t", "miopenCTCLossAlgo_t", "miopenLossReductionMode_t",
    "miopenActivationMode_t", "miopenSoftmaxAlgorithm_t", "miopenSoftmaxMode_t", "miopenReduceTensorOp_t",
    "miopenReduceTensorIndices_t", "miopenIndicesType_t", "miopenReduceCalculationNanPropagation_t",
    "miopenReduceCalculationOp_t", "miopenReduceExtremeOp_t", "miopenRNGType_t", "miopenRNNMode_t",
    "miopenRNNInputMode_t", "miopenRNNAlgo_t", "miopenRNNDirectionMode_t", "miopenRNNBiasMode_t",
    "miopenRNNGEMMalgoMode_t", "miopenRNNPaddingMode_t", "miopenRNNFWDMode_t", "miopenRNNBaseLayout_t",
    "miopenProblemDirection_t", "miopenFindResultsOrder_t", "miopenTensorArgumentId_t", "miopenMhaMask_t",
    "miopenAlphaBetaCase_t", "miopenStatusSuccess", "miopenStatusNotInitialized", "miopenStatusInvalidValue",
    "miopenStatusBadParm", "miopenStatusAllocFailed", "miopenStatusInternalError", "miopenStatusNotImplemented",
    "miopenStatusUnknownError", "miopenStatusUnsupportedOp", "miopenStatusGpuOperationsSkipped",
    "miopenStatusVersionMismatch", "miopenHalf", "miopenFloat", "miopenInt32", "miopenInt8", "miopenBFloat16",
    "miopenDouble", "miopenFloat8", "miopenBFloat8", "miopenInt64", "miopenFloat8_ocp", "miopenBFloat8_ocp",
    "miopenTensorNCHW", "miopenTensorNHWC", "miopenTensorCHWN", "miopenTensorNCHWc4", "miopenTensorNCHWc8",
    "miopenTensorCHWNc4", "miopenTensorCHWNc8", "miopenTensorNCDHW", "miopenTensorNDHWC", "miopenIndexUint8",
    "miopenIndexUint16", "miopenIndexUint32", "miopenIndexUint64", "miopenTensorOpAdd", "miopenTensorOpMul",
    "miopenTensorOpMin", "miopenTensorOpMax", "miopenConvolution", "miopenTranspose", "miopenGroupConv",
    "miopenDepthwise", "miopenPaddingDefault", "miopenPaddingSame", "miopenPaddingValid",
    "MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL", "MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC",
    "MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE", "MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE", "miopenMathDefault",
    "miopenMathPedantic", "miopenF8RoundingModeStandard", "miopenF8RoundingModeStochastic",
    "miopenConvolutionFwdAlgoGEMM", "miopenConvolutionFwdAlgoDirect", "miopenConvolutionFwdAlgoFFT",
    "miopenConvolutionFwdAlgoWinograd", "miopenConvolutionFwdAlgoImplicitGEMM", "miopenConvolutionBwdDataAlgoGEMM",
    "miopenConvolutionBwdDataAlgoDirect", "miopenConvolutionBwdDataAlgoFFT", "miopenConvolutionBwdDataAlgoWinograd",
    "miopenTransposeBwdDataAlgoGEMM", "miopenConvolutionBwdDataAlgoImplicitGEMM",
    "miopenConvolutionBwdWeightsAlgoGEMM", "miopenConvolutionBwdWeightsAlgoDirect",
    "miopenConvolutionBwdWeightsAlgoWinograd", "miopenConvolutionBwdWeightsAlgoImplicitGEMM",
    "miopenConvolutionAlgoGEMM", "miopenConvolutionAlgoDirect", "miopenConvolutionAlgoFFT",
    "miopenConvolutionAlgoWinograd", "miopenConvolutionAlgoImplicitGEMM", "miopenConvolutionFindModeNormal",
    "miopenConvolutionFindModeFast", "miopenConvolutionFindModeHybrid", "miopenConvolutionFindModeReserved_4",
    "miopenConvolutionFindModeDynamicHybrid", "miopenPoolingMax", "miopenPoolingAverage",
    "miopenPoolingAverageInclusive", "miopenPoolingWorkspaceIndexMask", "miopenPoolingWorkspaceIndexImage",
    "MIOPEN_NOT_PROPAGATE_NAN", "MIOPEN_PROPAGATE_NAN", "miopenLRNWithinChannel", "miopenLRNCrossChannel",
    "miopenBNPerActivation", "miopenBNSpatial", "miopenVerticalFusion", "miopenHorizontalFusion",
    "MIOPEN_ELEMENTWISE_AFFINE", "MIOPEN_WEIGHT_BIAS", "MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD",
    "MIOPEN_WEIGHT_BIAS_FUSED_ADD", "MIOPEN_ELEMENTWISE_AFFINE_T5", "MIOPEN_WEIGHT_BIAS_T5",
    "MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC", "MIOPEN_LOSS_REDUCTION_NONE", "MIOPEN_LOSS_REDUCTION_SUM",
    "MIOPEN_LOSS_REDUCTION_MEAN", "miopenActivationPASTHRU", "miopenActivationLOGISTIC", "miopenActivationTANH",
    "miopenActivationRELU", "miopenActivationSOFTRELU", "miopenActivationABS", "miopenActivationPOWER",
    "miopenActivationCLIPPEDRELU", "miopenActivationLEAKYRELU", "miopenActivationELU", "miopenActivationCLAMP",
    "MIOPEN_SOFTMAX_FAST", "MIOPEN_SOFTMAX_ACCURATE", "MIOPEN_SOFTMAX_LOG", "MIOPEN_SOFTMAX_MODE_INSTANCE",
    "MIOPEN_SOFTMAX_MODE_CHANNEL", "MIOPEN_REDUCE_TENSOR_ADD", "MIOPEN_REDUCE_TENSOR_MUL", "MIOPEN_REDUCE_TENSOR_MIN",
    "MIOPEN_REDUCE_TENSOR_MAX", "MIOPEN_REDUCE_TENSOR_AMAX", "MIOPEN_REDUCE_TENSOR_AVG", "MIOPEN_REDUCE_TENSOR_NORM1",
    "MIOPEN_REDUCE_TENSOR_NORM2", "MIOPEN_REDUCE_TENSOR_MUL_NO_ZEROS", "MIOPEN_REDUCE_TENSOR_NO_INDICES",
    "MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES", "MIOPEN_32BIT_INDICES", "MIOPEN_64BIT_INDICES", "MIOPEN_16BIT_INDICES",
    "MIOPEN_8BIT_INDICES", "MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN", "MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN",
    "MIOPEN_REDUCE_CALCULATION_PROD", "MIOPEN_REDUCE_CALCULATION_SUM", "MIOPEN_REDUCE_EXTREME_ARGMIN",
    "MIOPEN_REDUCE_EXTREME_ARGMAX", "MIOPEN_REDUCE_EXTREME_MIN", "MIOPEN_REDUCE_EXTREME_MAX",
    "MIOPEN_RNG_PSEUDO_XORWOW", "miopenRNNRELU", "miopenRNNTANH", "miopenLSTM", "miopenGRU", "miopenRNNlinear",
    "miopenRNNskip", "miopenRNNdefault", "miopenRNNfundamental", "miopenRNNunidirection", "miopenRNNbidirection",
    "miopenRNNNoBias", "miopenRNNwithBias", "miopenRNNAlgoGEMM", "miopenRNNIONotPadded", "miopenRNNIOWithPadding",
    "miopenRNNTraining", "miopenRNNInference", "miopenRNNDataUnknownLayout", "miopenRNNDataSeqMajorNotPadded",
    "miopenRNNDataSeqMajorPadded", "miopenRNNDataBatchMajorPadded", "miopenProblemDirectionForward",
    "miopenProblemDirectionBackward", "miopenProblemDirectionBackwardWeights", "miopenProblemDirectionInference",
    "miopenFindResultsOrderByTime", "miopenFindResultsOrderByWorkspaceSize", "miopenTensorArgumentIdInvalid",
    "miopenTensorConvolutionX", "miopenTensorConvolutionW", "miopenTensorConvolutionY", "miopenTensorMhaK",
    "miopenTensorMhaQ", "miopenTensorMhaV", "miopenTensorMhaDescaleK", "miopenTensorMhaDescaleQ",
    "miopenTensorMhaDescaleV", "miopenTensorMhaDescaleS", "miopenTensorMhaScaleS", "miopenTensorMhaScaleO",
    "miopenTensorMhaDropoutProbability", "miopenTensorMhaDropoutSeed", "miopenTensorMhaDropoutOffset",
    "miopenTensorMhaO", "miopenTensorMhaAmaxO", "miopenTensorMhaAmaxS", "miopenTensorMhaM", "miopenTensorMhaZInv",
    "miopenTensorMhaDO", "miopenTensorMhaDescaleO", "miopenTensorMhaDescaleDO", "miopenTensorMhaDescaleDS",
    "miopenTensorMhaScaleDS", "miopenTensorMhaScaleDQ", "miopenTensorMhaScaleDK", "miopenTensorMhaScaleDV",
    "miopenTensorMhaDQ", "miopenTensorMhaDK", "miopenTensorMhaDV", "miopenTensorMhaAmaxDQ", "miopenTensorMhaAmaxDK",
    "miopenTensorMhaAmaxDV", "miopenTensorMhaAmaxDS", "miopenTensorMhaBias", "miopenTensorActivationX",
    "miopenTensorActivationY", "miopenTensorActivationDX", "miopenTensorActivationDY", "miopenTensorBiasX",
    "miopenTensorBiasY", "miopenTensorBias", "miopenTensorSoftmaxX", "miopenTensorSoftmaxY", "miopenTensorSoftmaxDX",
    "miopenTensorSoftmaxDY", "miopenTensorBatchnormX", "miopenTensorBatchnormY", "miopenTensorBatchnormRunningMean",
    "miopenTensorBatchnormRunningVariance", "miopenTensorBatchnormSavedMean", "miopenTensorBatchnormSavedVariance",
    "miopenTensorBatchnormScale", "miopenTensorBatchnormScaleDiff", "miopenTensorBatchnormEstimatedMean",
    "miopenTensorBatchnormEstimatedVariance", "miopenTensorBatchnormBias", "miopenTensorBatchnormBiasDiff",
    "miopenTensorBatchnormDX", "miopenTensorBatchnormDY", "miopenTensorArgumentIsScalar", "miopenTensorMhaMask",
    "miopenScalarBatchnormExpAvgFactor", "miopenScalarBatchnormEpsilon", "miopenMhaMaskNone", "miopenMhaMaskCausal",
]
