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

class miopenBackendDescriptorType_t(IntEnum):
    MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR = 0
    MIOPEN_BACKEND_ENGINE_DESCRIPTOR = 1
    MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR = 2
    MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR = 3
    MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 4
    MIOPEN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR = 5
    MIOPEN_BACKEND_KNOB_CHOICE_DESCRIPTOR = 6
    MIOPEN_BACKEND_KNOB_INFO_DESCRIPTOR = 7
    MIOPEN_BACKEND_LAYOUT_INFO_DESCRIPTOR = 8
    MIOPEN_BACKEND_MATMUL_DESCRIPTOR = 9
    MIOPEN_BACKEND_OPERATION_CONCAT_DESCRIPTOR = 10
    MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR = 11
    MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR = 12
    MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 13
    MIOPEN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR = 14
    MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 15
    MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR = 16
    MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR = 17
    MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 18
    MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR = 19
    MIOPEN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR = 20
    MIOPEN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR = 21
    MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR = 22
    MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR = 23
    MIOPEN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR = 24
    MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 25
    MIOPEN_BACKEND_POINTWISE_DESCRIPTOR = 26
    MIOPEN_BACKEND_REDUCTION_DESCRIPTOR = 27
    MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR = 28
    MIOPEN_BACKEND_RNG_DESCRIPTOR = 29
    MIOPEN_BACKEND_TENSOR_DESCRIPTOR = 30
    MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR = 31

class miopenBackendAttributeName_t(IntEnum):
    MIOPEN_ATTR_POINTWISE_MODE = 0
    MIOPEN_ATTR_POINTWISE_MATH_PREC = 1
    MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION = 2
    MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP = 3
    MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP = 4
    MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE = 5
    MIOPEN_ATTR_POINTWISE_ELU_ALPHA = 6
    MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA = 7
    MIOPEN_ATTR_POINTWISE_SWISH_BETA = 8
    MIOPEN_ATTR_POINTWISE_AXIS = 9
    MIOPEN_ATTR_CONVOLUTION_COMP_TYPE = 100
    MIOPEN_ATTR_CONVOLUTION_CONV_MODE = 101
    MIOPEN_ATTR_CONVOLUTION_DILATIONS = 102
    MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES = 103
    MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS = 104
    MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS = 105
    MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106
    MIOPEN_ATTR_ENGINEHEUR_MODE = 200
    MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201
    MIOPEN_ATTR_ENGINEHEUR_RESULTS = 202
    MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET = 203
    MIOPEN_ATTR_ENGINECFG_ENGINE = 300
    MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO = 301
    MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES = 302
    MIOPEN_ATTR_EXECUTION_PLAN_HANDLE = 400
    MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401
    MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402
    MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS = 403
    MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS = 404
    MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION = 405
    MIOPEN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID = 500
    MIOPEN_ATTR_INTERMEDIATE_INFO_SIZE = 501
    MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS = 502
    MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES = 503
    MIOPEN_ATTR_KNOB_CHOICE_KNOB_TYPE = 600
    MIOPEN_ATTR_KNOB_CHOICE_KNOB_VALUE = 601
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704
    MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA = 706
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA = 707
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC = 708
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W = 709
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX = 710
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY = 711
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA = 712
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA = 713
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC = 714
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW = 715
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X = 716
    MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY = 717
    MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750
    MIOPEN_ATTR_OPERATION_POINTWISE_XDESC = 751
    MIOPEN_ATTR_OPERATION_POINTWISE_BDESC = 752
    MIOPEN_ATTR_OPERATION_POINTWISE_YDESC = 753
    MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1 = 754
    MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2 = 755
    MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC = 756
    MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC = 757
    MIOPEN_ATTR_OPERATION_POINTWISE_TDESC = 758
    MIOPEN_ATTR_OPERATION_GENSTATS_MODE = 770
    MIOPEN_ATTR_OPERATION_GENSTATS_MATH_PREC = 771
    MIOPEN_ATTR_OPERATION_GENSTATS_XDESC = 772
    MIOPEN_ATTR_OPERATION_GENSTATS_SUMDESC = 773
    MIOPEN_ATTR_OPERATION_GENSTATS_SQSUMDESC = 774
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE = 780
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC = 781
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC = 782
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC = 783
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC = 784
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC = 785
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC = 786
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC = 787
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC = 788
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC = 789
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC = 790
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC = 791
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC = 792
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC = 793
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC = 794
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC = 795
    MIOPEN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC = 796
    MIOPEN_ATTR_OPERATIONGRAPH_HANDLE = 800
    MIOPEN_ATTR_OPERATIONGRAPH_OPS = 801
    MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT = 802
    MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT = 900
    MIOPEN_ATTR_TENSOR_DATA_TYPE = 901
    MIOPEN_ATTR_TENSOR_DIMENSIONS = 902
    MIOPEN_ATTR_TENSOR_STRIDES = 903
    MIOPEN_ATTR_TENSOR_VECTOR_COUNT = 904
    MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION = 905
    MIOPEN_ATTR_TENSOR_UNIQUE_ID = 906
    MIOPEN_ATTR_TENSOR_IS_VIRTUAL = 907
    MIOPEN_ATTR_TENSOR_IS_BY_VALUE = 908
    MIOPEN_ATTR_TENSOR_REORDERING_MODE = 909
    MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC = 910
    MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000
    MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001
    MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES = 1002
    MIOPEN_ATTR_VARIANT_PACK_WORKSPACE = 1003
    MIOPEN_ATTR_LAYOUT_INFO_TENSOR_UID = 1100
    MIOPEN_ATTR_LAYOUT_INFO_TYPES = 1101
    MIOPEN_ATTR_KNOB_INFO_TYPE = 1200
    MIOPEN_ATTR_KNOB_INFO_MAXIMUM_VALUE = 1201
    MIOPEN_ATTR_KNOB_INFO_MINIMUM_VALUE = 1202
    MIOPEN_ATTR_KNOB_INFO_STRIDE = 1203
    MIOPEN_ATTR_ENGINE_OPERATION_GRAPH = 1300
    MIOPEN_ATTR_ENGINE_GLOBAL_INDEX = 1301
    MIOPEN_ATTR_ENGINE_KNOB_INFO = 1302
    MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE = 1303
    MIOPEN_ATTR_ENGINE_LAYOUT_INFO = 1304
    MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE = 1305
    MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET = 1306
    MIOPEN_ATTR_MATMUL_COMP_TYPE = 1500
    MIOPEN_ATTR_MATMUL_PADDING_VALUE = 1501
    MIOPEN_ATTR_OPERATION_MATMUL_ADESC = 1520
    MIOPEN_ATTR_OPERATION_MATMUL_BDESC = 1521
    MIOPEN_ATTR_OPERATION_MATMUL_CDESC = 1522
    MIOPEN_ATTR_OPERATION_MATMUL_DESC = 1523
    MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT = 1524
    MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC = 1525
    MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC = 1526
    MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC = 1527
    MIOPEN_ATTR_REDUCTION_OPERATOR = 1600
    MIOPEN_ATTR_REDUCTION_COMP_TYPE = 1601
    MIOPEN_ATTR_OPERATION_REDUCTION_XDESC = 1610
    MIOPEN_ATTR_OPERATION_REDUCTION_YDESC = 1611
    MIOPEN_ATTR_OPERATION_REDUCTION_DESC = 1612
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC = 1620
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC = 1621
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC = 1622
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC = 1623
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC = 1624
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC = 1625
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC = 1626
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC = 1627
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC = 1628
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC = 1629
    MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS = 1630
    MIOPEN_ATTR_RESAMPLE_MODE = 1700
    MIOPEN_ATTR_RESAMPLE_COMP_TYPE = 1701
    MIOPEN_ATTR_RESAMPLE_SPATIAL_DIMS = 1702
    MIOPEN_ATTR_RESAMPLE_POST_PADDINGS = 1703
    MIOPEN_ATTR_RESAMPLE_PRE_PADDINGS = 1704
    MIOPEN_ATTR_RESAMPLE_STRIDES = 1705
    MIOPEN_ATTR_RESAMPLE_WINDOW_DIMS = 1706
    MIOPEN_ATTR_RESAMPLE_NAN_PROPAGATION = 1707
    MIOPEN_ATTR_RESAMPLE_PADDING_MODE = 1708
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_XDESC = 1710
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_YDESC = 1711
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC = 1712
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA = 1713
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_BETA = 1714
    MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_DESC = 1716
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC = 1720
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC = 1721
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC = 1722
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA = 1723
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_BETA = 1724
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DESC = 1725
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_XDESC = 1726
    MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_YDESC = 1727
    MIOPEN_ATTR_OPERATION_CONCAT_AXIS = 1800
    MIOPEN_ATTR_OPERATION_CONCAT_INPUT_DESCS = 1801
    MIOPEN_ATTR_OPERATION_CONCAT_INPLACE_INDEX = 1802
    MIOPEN_ATTR_OPERATION_CONCAT_OUTPUT_DESC = 1803
    MIOPEN_ATTR_OPERATION_SIGNAL_MODE = 1900
    MIOPEN_ATTR_OPERATION_SIGNAL_FLAGDESC = 1901
    MIOPEN_ATTR_OPERATION_SIGNAL_VALUE = 1902
    MIOPEN_ATTR_OPERATION_SIGNAL_XDESC = 1903
    MIOPEN_ATTR_OPERATION_SIGNAL_YDESC = 1904
    MIOPEN_ATTR_OPERATION_NORM_FWD_MODE = 2000
    MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE = 2001
    MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC = 2002
    MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC = 2003
    MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC = 2004
    MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC = 2005
    MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC = 2006
    MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC = 2007
    MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC = 2008
    MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC = 2009
    MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC = 2010
    MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC = 2011
    MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC = 2012
    MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC = 2013
    MIOPEN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS = 2014
    MIOPEN_ATTR_OPERATION_NORM_BWD_MODE = 2100
    MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC = 2101
    MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC = 2102
    MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC = 2103
    MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC = 2104
    MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC = 2105
    MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC = 2106
    MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC = 2107
    MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC = 2108
    MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC = 2109
    MIOPEN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS = 2110
    MIOPEN_ATTR_OPERATION_RESHAPE_XDESC = 2200
    MIOPEN_ATTR_OPERATION_RESHAPE_YDESC = 2201
    MIOPEN_ATTR_RNG_DISTRIBUTION = 2300
    MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN = 2301
    MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION = 2302
    MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM = 2303
    MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM = 2304
    MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY = 2305
    MIOPEN_ATTR_OPERATION_RNG_YDESC = 2310
    MIOPEN_ATTR_OPERATION_RNG_SEED = 2311
    MIOPEN_ATTR_OPERATION_RNG_DESC = 2312
    MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC = 2313

class miopenBackendAttributeType_t(IntEnum):
    MIOPEN_TYPE_HANDLE = 0
    MIOPEN_TYPE_DATA_TYPE = 1
    MIOPEN_TYPE_BOOLEAN = 2
    MIOPEN_TYPE_INT64 = 3
    MIOPEN_TYPE_FLOAT = 4
    MIOPEN_TYPE_DOUBLE = 5
    MIOPEN_TYPE_VOID_PTR = 6
    MIOPEN_TYPE_CONVOLUTION_MODE = 7
    MIOPEN_TYPE_HEUR_MODE = 8
    MIOPEN_TYPE_KNOB_TYPE = 9
    MIOPEN_TYPE_NAN_PROPOGATION = 10
    MIOPEN_TYPE_NUMERICAL_NOTE = 11
    MIOPEN_TYPE_LAYOUT_TYPE = 12
    MIOPEN_TYPE_ATTRIB_NAME = 13
    MIOPEN_TYPE_POINTWISE_MODE = 14
    MIOPEN_TYPE_BACKEND_DESCRIPTOR = 15
    MIOPEN_TYPE_GENSTATS_MODE = 16
    MIOPEN_TYPE_BN_FINALIZE_STATS_MODE = 17
    MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE = 18
    MIOPEN_TYPE_BEHAVIOR_NOTE = 19
    MIOPEN_TYPE_TENSOR_REORDERING_MODE = 20
    MIOPEN_TYPE_RESAMPLE_MODE = 21
    MIOPEN_TYPE_PADDING_MODE = 22
    MIOPEN_TYPE_INT32 = 23
    MIOPEN_TYPE_CHAR = 24
    MIOPEN_TYPE_SIGNAL_MODE = 25
    MIOPEN_TYPE_FRACTION = 26
    MIOPEN_TYPE_NORM_MODE = 27
    MIOPEN_TYPE_NORM_FWD_PHASE = 28
    MIOPEN_TYPE_RNG_DISTRIBUTION = 29

class miopenPointwiseMode_t(IntEnum):
    MIOPEN_POINTWISE_ADD = 0
    MIOPEN_POINTWISE_ADD_SQUARE = 1
    MIOPEN_POINTWISE_DIV = 2
    MIOPEN_POINTWISE_MAX = 3
    MIOPEN_POINTWISE_MIN = 4
    MIOPEN_POINTWISE_MOD = 5
    MIOPEN_POINTWISE_MUL = 6
    MIOPEN_POINTWISE_POW = 7
    MIOPEN_POINTWISE_SUB = 8
    MIOPEN_POINTWISE_ABS = 9
    MIOPEN_POINTWISE_CEIL = 10
    MIOPEN_POINTWISE_COS = 11
    MIOPEN_POINTWISE_EXP = 12
    MIOPEN_POINTWISE_FLOOR = 13
    MIOPEN_POINTWISE_LOG = 14
    MIOPEN_POINTWISE_NEG = 15
    MIOPEN_POINTWISE_RSQRT = 16
    MIOPEN_POINTWISE_SIN = 17
    MIOPEN_POINTWISE_SQRT = 18
    MIOPEN_POINTWISE_TAN = 19
    MIOPEN_POINTWISE_ERF = 20
    MIOPEN_POINTWISE_IDENTITY = 21
    MIOPEN_POINTWISE_RELU_FWD = 22
    MIOPEN_POINTWISE_TANH_FWD = 23
    MIOPEN_POINTWISE_SIGMOID_FWD = 24
    MIOPEN_POINTWISE_ELU_FWD = 25
    MIOPEN_POINTWISE_GELU_FWD = 26
    MIOPEN_POINTWISE_SOFTPLUS_FWD = 27
    MIOPEN_POINTWISE_SWISH_FWD = 28
    MIOPEN_POINTWISE_GELU_APPROX_TANH_FWD = 29
    MIOPEN_POINTWISE_RELU_BWD = 30
    MIOPEN_POINTWISE_TANH_BWD = 31
    MIOPEN_POINTWISE_SIGMOID_BWD = 32
    MIOPEN_POINTWISE_ELU_BWD = 33
    MIOPEN_POINTWISE_GELU_BWD = 34
    MIOPEN_POINTWISE_SOFTPLUS_BWD = 35
    MIOPEN_POINTWISE_SWISH_BWD = 36
    MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD = 37
    MIOPEN_POINTWISE_CMP_EQ = 38
    MIOPEN_POINTWISE_CMP_NEQ = 39
    MIOPEN_POINTWISE_CMP_GT = 40
    MIOPEN_POINTWISE_CMP_GE = 41
    MIOPEN_POINTWISE_CMP_LT = 42
    MIOPEN_POINTWISE_CMP_LE = 43
    MIOPEN_POINTWISE_LOGICAL_AND = 44
    MIOPEN_POINTWISE_LOGICAL_OR = 45
    MIOPEN_POINTWISE_LOGICAL_NOT = 46
    MIOPEN_POINTWISE_GEN_INDEX = 47
    MIOPEN_POINTWISE_BINARY_SELECT = 48
    MIOPEN_POINTWISE_RECIPROCAL = 49

class miopenRngDistribution_t(IntEnum):
    MIOPEN_RNG_DISTRIBUTION_BERNOULLI = 0
    MIOPEN_RNG_DISTRIBUTION_UNIFORM = 1
    MIOPEN_RNG_DISTRIBUTION_NORMAL = 2

class miopenBackendHeurMode_t(IntEnum):
    MIOPEN_HEUR_MODE_INSTANT = 0
    MIOPEN_HEUR_MODE_B = 1
    MIOPEN_HEUR_MODE_FALLBACK = 2
    MIOPEN_HEUR_MODE_A = 3
    MIOPEN_HEUR_MODES_COUNT = 4

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
MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR
MIOPEN_BACKEND_ENGINE_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_ENGINE_DESCRIPTOR
MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR
MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR
MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
MIOPEN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR
)
MIOPEN_BACKEND_KNOB_CHOICE_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_KNOB_CHOICE_DESCRIPTOR
MIOPEN_BACKEND_KNOB_INFO_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_KNOB_INFO_DESCRIPTOR
MIOPEN_BACKEND_LAYOUT_INFO_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_LAYOUT_INFO_DESCRIPTOR
MIOPEN_BACKEND_MATMUL_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_MATMUL_DESCRIPTOR
MIOPEN_BACKEND_OPERATION_CONCAT_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_CONCAT_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR
MIOPEN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR: Final = (
    miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR
)
MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
MIOPEN_BACKEND_POINTWISE_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_POINTWISE_DESCRIPTOR
MIOPEN_BACKEND_REDUCTION_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_REDUCTION_DESCRIPTOR
MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR
MIOPEN_BACKEND_RNG_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_RNG_DESCRIPTOR
MIOPEN_BACKEND_TENSOR_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_TENSOR_DESCRIPTOR
MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR: Final = miopenBackendDescriptorType_t.MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR
MIOPEN_ATTR_POINTWISE_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_MODE
MIOPEN_ATTR_POINTWISE_MATH_PREC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_MATH_PREC
MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION
MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP
MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP
MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE
)
MIOPEN_ATTR_POINTWISE_ELU_ALPHA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_ELU_ALPHA
MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA
MIOPEN_ATTR_POINTWISE_SWISH_BETA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_SWISH_BETA
MIOPEN_ATTR_POINTWISE_AXIS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_POINTWISE_AXIS
MIOPEN_ATTR_CONVOLUTION_COMP_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_COMP_TYPE
MIOPEN_ATTR_CONVOLUTION_CONV_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_CONV_MODE
MIOPEN_ATTR_CONVOLUTION_DILATIONS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_DILATIONS
MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES
MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS
MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS
MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS
MIOPEN_ATTR_ENGINEHEUR_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINEHEUR_MODE
MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH
MIOPEN_ATTR_ENGINEHEUR_RESULTS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINEHEUR_RESULTS
MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET
MIOPEN_ATTR_ENGINECFG_ENGINE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINECFG_ENGINE
MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO
MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES
MIOPEN_ATTR_EXECUTION_PLAN_HANDLE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_HANDLE
MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG
MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE
)
MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS
)
MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS
)
MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION
)
MIOPEN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID
MIOPEN_ATTR_INTERMEDIATE_INFO_SIZE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_INTERMEDIATE_INFO_SIZE
MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS
)
MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES
)
MIOPEN_ATTR_KNOB_CHOICE_KNOB_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_CHOICE_KNOB_TYPE
MIOPEN_ATTR_KNOB_CHOICE_KNOB_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_CHOICE_KNOB_VALUE
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X
)
MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY
)
MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR
)
MIOPEN_ATTR_OPERATION_POINTWISE_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_XDESC
MIOPEN_ATTR_OPERATION_POINTWISE_BDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_BDESC
MIOPEN_ATTR_OPERATION_POINTWISE_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_YDESC
MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1
MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2
MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC
MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC
MIOPEN_ATTR_OPERATION_POINTWISE_TDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_POINTWISE_TDESC
MIOPEN_ATTR_OPERATION_GENSTATS_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_GENSTATS_MODE
MIOPEN_ATTR_OPERATION_GENSTATS_MATH_PREC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_GENSTATS_MATH_PREC
MIOPEN_ATTR_OPERATION_GENSTATS_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_GENSTATS_XDESC
MIOPEN_ATTR_OPERATION_GENSTATS_SUMDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_GENSTATS_SUMDESC
MIOPEN_ATTR_OPERATION_GENSTATS_SQSUMDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_GENSTATS_SQSUMDESC
MIOPEN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC
)
MIOPEN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC
)
MIOPEN_ATTR_OPERATIONGRAPH_HANDLE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATIONGRAPH_HANDLE
MIOPEN_ATTR_OPERATIONGRAPH_OPS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATIONGRAPH_OPS
MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT
)
MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT
MIOPEN_ATTR_TENSOR_DATA_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_DATA_TYPE
MIOPEN_ATTR_TENSOR_DIMENSIONS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_DIMENSIONS
MIOPEN_ATTR_TENSOR_STRIDES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_STRIDES
MIOPEN_ATTR_TENSOR_VECTOR_COUNT: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_VECTOR_COUNT
MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION
MIOPEN_ATTR_TENSOR_UNIQUE_ID: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_UNIQUE_ID
MIOPEN_ATTR_TENSOR_IS_VIRTUAL: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_IS_VIRTUAL
MIOPEN_ATTR_TENSOR_IS_BY_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_IS_BY_VALUE
MIOPEN_ATTR_TENSOR_REORDERING_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_REORDERING_MODE
MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC
MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS
MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS
MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES
MIOPEN_ATTR_VARIANT_PACK_WORKSPACE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_VARIANT_PACK_WORKSPACE
MIOPEN_ATTR_LAYOUT_INFO_TENSOR_UID: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_LAYOUT_INFO_TENSOR_UID
MIOPEN_ATTR_LAYOUT_INFO_TYPES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_LAYOUT_INFO_TYPES
MIOPEN_ATTR_KNOB_INFO_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_INFO_TYPE
MIOPEN_ATTR_KNOB_INFO_MAXIMUM_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_INFO_MAXIMUM_VALUE
MIOPEN_ATTR_KNOB_INFO_MINIMUM_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_INFO_MINIMUM_VALUE
MIOPEN_ATTR_KNOB_INFO_STRIDE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_KNOB_INFO_STRIDE
MIOPEN_ATTR_ENGINE_OPERATION_GRAPH: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_OPERATION_GRAPH
MIOPEN_ATTR_ENGINE_GLOBAL_INDEX: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_GLOBAL_INDEX
MIOPEN_ATTR_ENGINE_KNOB_INFO: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_KNOB_INFO
MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE
MIOPEN_ATTR_ENGINE_LAYOUT_INFO: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_LAYOUT_INFO
MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE
MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET
MIOPEN_ATTR_MATMUL_COMP_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_MATMUL_COMP_TYPE
MIOPEN_ATTR_MATMUL_PADDING_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_MATMUL_PADDING_VALUE
MIOPEN_ATTR_OPERATION_MATMUL_ADESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_ADESC
MIOPEN_ATTR_OPERATION_MATMUL_BDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_BDESC
MIOPEN_ATTR_OPERATION_MATMUL_CDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_CDESC
MIOPEN_ATTR_OPERATION_MATMUL_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_DESC
MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT
)
MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC
)
MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC
)
MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC
)
MIOPEN_ATTR_REDUCTION_OPERATOR: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_REDUCTION_OPERATOR
MIOPEN_ATTR_REDUCTION_COMP_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_REDUCTION_COMP_TYPE
MIOPEN_ATTR_OPERATION_REDUCTION_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_REDUCTION_XDESC
MIOPEN_ATTR_OPERATION_REDUCTION_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_REDUCTION_YDESC
MIOPEN_ATTR_OPERATION_REDUCTION_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_REDUCTION_DESC
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS
)
MIOPEN_ATTR_RESAMPLE_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_MODE
MIOPEN_ATTR_RESAMPLE_COMP_TYPE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_COMP_TYPE
MIOPEN_ATTR_RESAMPLE_SPATIAL_DIMS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_SPATIAL_DIMS
MIOPEN_ATTR_RESAMPLE_POST_PADDINGS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_POST_PADDINGS
MIOPEN_ATTR_RESAMPLE_PRE_PADDINGS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_PRE_PADDINGS
MIOPEN_ATTR_RESAMPLE_STRIDES: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_STRIDES
MIOPEN_ATTR_RESAMPLE_WINDOW_DIMS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_WINDOW_DIMS
MIOPEN_ATTR_RESAMPLE_NAN_PROPAGATION: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_NAN_PROPAGATION
MIOPEN_ATTR_RESAMPLE_PADDING_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RESAMPLE_PADDING_MODE
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_XDESC
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_YDESC
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC
)
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_BETA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_BETA
MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_DESC
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC
)
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC
)
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC
)
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_BETA: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_BETA
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DESC
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_XDESC
MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_YDESC
MIOPEN_ATTR_OPERATION_CONCAT_AXIS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONCAT_AXIS
MIOPEN_ATTR_OPERATION_CONCAT_INPUT_DESCS: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONCAT_INPUT_DESCS
MIOPEN_ATTR_OPERATION_CONCAT_INPLACE_INDEX: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONCAT_INPLACE_INDEX
)
MIOPEN_ATTR_OPERATION_CONCAT_OUTPUT_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_CONCAT_OUTPUT_DESC
MIOPEN_ATTR_OPERATION_SIGNAL_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_SIGNAL_MODE
MIOPEN_ATTR_OPERATION_SIGNAL_FLAGDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_SIGNAL_FLAGDESC
MIOPEN_ATTR_OPERATION_SIGNAL_VALUE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_SIGNAL_VALUE
MIOPEN_ATTR_OPERATION_SIGNAL_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_SIGNAL_XDESC
MIOPEN_ATTR_OPERATION_SIGNAL_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_SIGNAL_YDESC
MIOPEN_ATTR_OPERATION_NORM_FWD_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_MODE
MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE
MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC
MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC
MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC
MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC
)
MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC
MIOPEN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS
)
MIOPEN_ATTR_OPERATION_NORM_BWD_MODE: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_MODE
MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC
MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC
MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC
)
MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC
MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC
)
MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC
)
MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC
)
MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC
)
MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC
MIOPEN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS
)
MIOPEN_ATTR_OPERATION_RESHAPE_XDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESHAPE_XDESC
MIOPEN_ATTR_OPERATION_RESHAPE_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RESHAPE_YDESC
MIOPEN_ATTR_RNG_DISTRIBUTION: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_DISTRIBUTION
MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN
MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION
)
MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM
MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM
MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY: Final = (
    miopenBackendAttributeName_t.MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY
)
MIOPEN_ATTR_OPERATION_RNG_YDESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RNG_YDESC
MIOPEN_ATTR_OPERATION_RNG_SEED: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RNG_SEED
MIOPEN_ATTR_OPERATION_RNG_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RNG_DESC
MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC: Final = miopenBackendAttributeName_t.MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC
MIOPEN_TYPE_HANDLE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_HANDLE
MIOPEN_TYPE_DATA_TYPE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_DATA_TYPE
MIOPEN_TYPE_BOOLEAN: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_BOOLEAN
MIOPEN_TYPE_INT64: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_INT64
MIOPEN_TYPE_FLOAT: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_FLOAT
MIOPEN_TYPE_DOUBLE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_DOUBLE
MIOPEN_TYPE_VOID_PTR: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_VOID_PTR
MIOPEN_TYPE_CONVOLUTION_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_CONVOLUTION_MODE
MIOPEN_TYPE_HEUR_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_HEUR_MODE
MIOPEN_TYPE_KNOB_TYPE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_KNOB_TYPE
MIOPEN_TYPE_NAN_PROPOGATION: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_NAN_PROPOGATION
MIOPEN_TYPE_NUMERICAL_NOTE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_NUMERICAL_NOTE
MIOPEN_TYPE_LAYOUT_TYPE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_LAYOUT_TYPE
MIOPEN_TYPE_ATTRIB_NAME: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_ATTRIB_NAME
MIOPEN_TYPE_POINTWISE_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_POINTWISE_MODE
MIOPEN_TYPE_BACKEND_DESCRIPTOR: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_BACKEND_DESCRIPTOR
MIOPEN_TYPE_GENSTATS_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_GENSTATS_MODE
MIOPEN_TYPE_BN_FINALIZE_STATS_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_BN_FINALIZE_STATS_MODE
MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE
MIOPEN_TYPE_BEHAVIOR_NOTE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_BEHAVIOR_NOTE
MIOPEN_TYPE_TENSOR_REORDERING_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_TENSOR_REORDERING_MODE
MIOPEN_TYPE_RESAMPLE_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_RESAMPLE_MODE
MIOPEN_TYPE_PADDING_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_PADDING_MODE
MIOPEN_TYPE_INT32: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_INT32
MIOPEN_TYPE_CHAR: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_CHAR
MIOPEN_TYPE_SIGNAL_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_SIGNAL_MODE
MIOPEN_TYPE_FRACTION: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_FRACTION
MIOPEN_TYPE_NORM_MODE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_NORM_MODE
MIOPEN_TYPE_NORM_FWD_PHASE: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_NORM_FWD_PHASE
MIOPEN_TYPE_RNG_DISTRIBUTION: Final = miopenBackendAttributeType_t.MIOPEN_TYPE_RNG_DISTRIBUTION
MIOPEN_POINTWISE_ADD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ADD
MIOPEN_POINTWISE_ADD_SQUARE: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ADD_SQUARE
MIOPEN_POINTWISE_DIV: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_DIV
MIOPEN_POINTWISE_MAX: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_MAX
MIOPEN_POINTWISE_MIN: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_MIN
MIOPEN_POINTWISE_MOD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_MOD
MIOPEN_POINTWISE_MUL: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_MUL
MIOPEN_POINTWISE_POW: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_POW
MIOPEN_POINTWISE_SUB: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SUB
MIOPEN_POINTWISE_ABS: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ABS
MIOPEN_POINTWISE_CEIL: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CEIL
MIOPEN_POINTWISE_COS: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_COS
MIOPEN_POINTWISE_EXP: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_EXP
MIOPEN_POINTWISE_FLOOR: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_FLOOR
MIOPEN_POINTWISE_LOG: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_LOG
MIOPEN_POINTWISE_NEG: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_NEG
MIOPEN_POINTWISE_RSQRT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_RSQRT
MIOPEN_POINTWISE_SIN: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SIN
MIOPEN_POINTWISE_SQRT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SQRT
MIOPEN_POINTWISE_TAN: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_TAN
MIOPEN_POINTWISE_ERF: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ERF
MIOPEN_POINTWISE_IDENTITY: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_IDENTITY
MIOPEN_POINTWISE_RELU_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_RELU_FWD
MIOPEN_POINTWISE_TANH_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_TANH_FWD
MIOPEN_POINTWISE_SIGMOID_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SIGMOID_FWD
MIOPEN_POINTWISE_ELU_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ELU_FWD
MIOPEN_POINTWISE_GELU_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_GELU_FWD
MIOPEN_POINTWISE_SOFTPLUS_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SOFTPLUS_FWD
MIOPEN_POINTWISE_SWISH_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SWISH_FWD
MIOPEN_POINTWISE_GELU_APPROX_TANH_FWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_GELU_APPROX_TANH_FWD
MIOPEN_POINTWISE_RELU_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_RELU_BWD
MIOPEN_POINTWISE_TANH_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_TANH_BWD
MIOPEN_POINTWISE_SIGMOID_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SIGMOID_BWD
MIOPEN_POINTWISE_ELU_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_ELU_BWD
MIOPEN_POINTWISE_GELU_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_GELU_BWD
MIOPEN_POINTWISE_SOFTPLUS_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SOFTPLUS_BWD
MIOPEN_POINTWISE_SWISH_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_SWISH_BWD
MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD
MIOPEN_POINTWISE_CMP_EQ: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_EQ
MIOPEN_POINTWISE_CMP_NEQ: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_NEQ
MIOPEN_POINTWISE_CMP_GT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_GT
MIOPEN_POINTWISE_CMP_GE: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_GE
MIOPEN_POINTWISE_CMP_LT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_LT
MIOPEN_POINTWISE_CMP_LE: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_CMP_LE
MIOPEN_POINTWISE_LOGICAL_AND: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_LOGICAL_AND
MIOPEN_POINTWISE_LOGICAL_OR: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_LOGICAL_OR
MIOPEN_POINTWISE_LOGICAL_NOT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_LOGICAL_NOT
MIOPEN_POINTWISE_GEN_INDEX: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_GEN_INDEX
MIOPEN_POINTWISE_BINARY_SELECT: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_BINARY_SELECT
MIOPEN_POINTWISE_RECIPROCAL: Final = miopenPointwiseMode_t.MIOPEN_POINTWISE_RECIPROCAL
MIOPEN_RNG_DISTRIBUTION_BERNOULLI: Final = miopenRngDistribution_t.MIOPEN_RNG_DISTRIBUTION_BERNOULLI
MIOPEN_RNG_DISTRIBUTION_UNIFORM: Final = miopenRngDistribution_t.MIOPEN_RNG_DISTRIBUTION_UNIFORM
MIOPEN_RNG_DISTRIBUTION_NORMAL: Final = miopenRngDistribution_t.MIOPEN_RNG_DISTRIBUTION_NORMAL
MIOPEN_HEUR_MODE_INSTANT: Final = miopenBackendHeurMode_t.MIOPEN_HEUR_MODE_INSTANT
MIOPEN_HEUR_MODE_B: Final = miopenBackendHeurMode_t.MIOPEN_HEUR_MODE_B
MIOPEN_HEUR_MODE_FALLBACK: Final = miopenBackendHeurMode_t.MIOPEN_HEUR_MODE_FALLBACK
MIOPEN_HEUR_MODE_A: Final = miopenBackendHeurMode_t.MIOPEN_HEUR_MODE_A
MIOPEN_HEUR_MODES_COUNT: Final = miopenBackendHeurMode_t.MIOPEN_HEUR_MODES_COUNT

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
    "miopenBackendDescriptorType_t", "miopenBackendAttributeName_t", "miopenBackendAttributeType_t",
    "miopenPointwiseMode_t", "miopenRngDistribution_t", "miopenBackendHeurMode_t", "miopenAlphaBetaCase_t",
    "miopenStatusSuccess", "miopenStatusNotInitialized", "miopenStatusInvalidValue", "miopenStatusBadParm",
    "miopenStatusAllocFailed", "miopenStatusInternalError", "miopenStatusNotImplemented", "miopenStatusUnknownError",
    "miopenStatusUnsupportedOp", "miopenStatusGpuOperationsSkipped", "miopenStatusVersionMismatch", "miopenHalf",
    "miopenFloat", "miopenInt32", "miopenInt8", "miopenBFloat16", "miopenDouble", "miopenFloat8", "miopenBFloat8",
    "miopenInt64", "miopenFloat8_ocp", "miopenBFloat8_ocp", "miopenTensorNCHW", "miopenTensorNHWC", "miopenTensorCHWN",
    "miopenTensorNCHWc4", "miopenTensorNCHWc8", "miopenTensorCHWNc4", "miopenTensorCHWNc8", "miopenTensorNCDHW",
    "miopenTensorNDHWC", "miopenIndexUint8", "miopenIndexUint16", "miopenIndexUint32", "miopenIndexUint64",
    "miopenTensorOpAdd", "miopenTensorOpMul", "miopenTensorOpMin", "miopenTensorOpMax", "miopenConvolution",
    "miopenTranspose", "miopenGroupConv", "miopenDepthwise", "miopenPaddingDefault", "miopenPaddingSame",
    "miopenPaddingValid", "MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL", "MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC",
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
    "MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR", "MIOPEN_BACKEND_ENGINE_DESCRIPTOR", "MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR",
    "MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR", "MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR",
    "MIOPEN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR", "MIOPEN_BACKEND_KNOB_CHOICE_DESCRIPTOR",
    "MIOPEN_BACKEND_KNOB_INFO_DESCRIPTOR", "MIOPEN_BACKEND_LAYOUT_INFO_DESCRIPTOR", "MIOPEN_BACKEND_MATMUL_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_CONCAT_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR", "MIOPEN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR",
    "MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR", "MIOPEN_BACKEND_POINTWISE_DESCRIPTOR",
    "MIOPEN_BACKEND_REDUCTION_DESCRIPTOR", "MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR", "MIOPEN_BACKEND_RNG_DESCRIPTOR",
    "MIOPEN_BACKEND_TENSOR_DESCRIPTOR", "MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR", "MIOPEN_ATTR_POINTWISE_MODE",
    "MIOPEN_ATTR_POINTWISE_MATH_PREC", "MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION",
    "MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP", "MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP",
    "MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE", "MIOPEN_ATTR_POINTWISE_ELU_ALPHA",
    "MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA", "MIOPEN_ATTR_POINTWISE_SWISH_BETA", "MIOPEN_ATTR_POINTWISE_AXIS",
    "MIOPEN_ATTR_CONVOLUTION_COMP_TYPE", "MIOPEN_ATTR_CONVOLUTION_CONV_MODE", "MIOPEN_ATTR_CONVOLUTION_DILATIONS",
    "MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES", "MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS",
    "MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS", "MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS", "MIOPEN_ATTR_ENGINEHEUR_MODE",
    "MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH", "MIOPEN_ATTR_ENGINEHEUR_RESULTS",
    "MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET", "MIOPEN_ATTR_ENGINECFG_ENGINE",
    "MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO", "MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES",
    "MIOPEN_ATTR_EXECUTION_PLAN_HANDLE", "MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG",
    "MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE", "MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS",
    "MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS", "MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION",
    "MIOPEN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID", "MIOPEN_ATTR_INTERMEDIATE_INFO_SIZE",
    "MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS", "MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES",
    "MIOPEN_ATTR_KNOB_CHOICE_KNOB_TYPE", "MIOPEN_ATTR_KNOB_CHOICE_KNOB_VALUE",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA", "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC", "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X", "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW",
    "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X", "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY",
    "MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR", "MIOPEN_ATTR_OPERATION_POINTWISE_XDESC",
    "MIOPEN_ATTR_OPERATION_POINTWISE_BDESC", "MIOPEN_ATTR_OPERATION_POINTWISE_YDESC",
    "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1", "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2",
    "MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC", "MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC",
    "MIOPEN_ATTR_OPERATION_POINTWISE_TDESC", "MIOPEN_ATTR_OPERATION_GENSTATS_MODE",
    "MIOPEN_ATTR_OPERATION_GENSTATS_MATH_PREC", "MIOPEN_ATTR_OPERATION_GENSTATS_XDESC",
    "MIOPEN_ATTR_OPERATION_GENSTATS_SUMDESC", "MIOPEN_ATTR_OPERATION_GENSTATS_SQSUMDESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC",
    "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC", "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC",
    "MIOPEN_ATTR_OPERATIONGRAPH_HANDLE", "MIOPEN_ATTR_OPERATIONGRAPH_OPS",
    "MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT", "MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT",
    "MIOPEN_ATTR_TENSOR_DATA_TYPE", "MIOPEN_ATTR_TENSOR_DIMENSIONS", "MIOPEN_ATTR_TENSOR_STRIDES",
    "MIOPEN_ATTR_TENSOR_VECTOR_COUNT", "MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION", "MIOPEN_ATTR_TENSOR_UNIQUE_ID",
    "MIOPEN_ATTR_TENSOR_IS_VIRTUAL", "MIOPEN_ATTR_TENSOR_IS_BY_VALUE", "MIOPEN_ATTR_TENSOR_REORDERING_MODE",
    "MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC", "MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS",
    "MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS", "MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES",
    "MIOPEN_ATTR_VARIANT_PACK_WORKSPACE", "MIOPEN_ATTR_LAYOUT_INFO_TENSOR_UID", "MIOPEN_ATTR_LAYOUT_INFO_TYPES",
    "MIOPEN_ATTR_KNOB_INFO_TYPE", "MIOPEN_ATTR_KNOB_INFO_MAXIMUM_VALUE", "MIOPEN_ATTR_KNOB_INFO_MINIMUM_VALUE",
    "MIOPEN_ATTR_KNOB_INFO_STRIDE", "MIOPEN_ATTR_ENGINE_OPERATION_GRAPH", "MIOPEN_ATTR_ENGINE_GLOBAL_INDEX",
    "MIOPEN_ATTR_ENGINE_KNOB_INFO", "MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE", "MIOPEN_ATTR_ENGINE_LAYOUT_INFO",
    "MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE", "MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET", "MIOPEN_ATTR_MATMUL_COMP_TYPE",
    "MIOPEN_ATTR_MATMUL_PADDING_VALUE", "MIOPEN_ATTR_OPERATION_MATMUL_ADESC", "MIOPEN_ATTR_OPERATION_MATMUL_BDESC",
    "MIOPEN_ATTR_OPERATION_MATMUL_CDESC", "MIOPEN_ATTR_OPERATION_MATMUL_DESC",
    "MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT",
    "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC", "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC",
    "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC", "MIOPEN_ATTR_REDUCTION_OPERATOR",
    "MIOPEN_ATTR_REDUCTION_COMP_TYPE", "MIOPEN_ATTR_OPERATION_REDUCTION_XDESC",
    "MIOPEN_ATTR_OPERATION_REDUCTION_YDESC", "MIOPEN_ATTR_OPERATION_REDUCTION_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC", "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC", "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC", "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC", "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC", "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC",
    "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS", "MIOPEN_ATTR_RESAMPLE_MODE", "MIOPEN_ATTR_RESAMPLE_COMP_TYPE",
    "MIOPEN_ATTR_RESAMPLE_SPATIAL_DIMS", "MIOPEN_ATTR_RESAMPLE_POST_PADDINGS", "MIOPEN_ATTR_RESAMPLE_PRE_PADDINGS",
    "MIOPEN_ATTR_RESAMPLE_STRIDES", "MIOPEN_ATTR_RESAMPLE_WINDOW_DIMS", "MIOPEN_ATTR_RESAMPLE_NAN_PROPAGATION",
    "MIOPEN_ATTR_RESAMPLE_PADDING_MODE", "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_XDESC",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_YDESC", "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA", "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_BETA",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_DESC", "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC", "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA", "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_BETA",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DESC", "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_XDESC",
    "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_YDESC", "MIOPEN_ATTR_OPERATION_CONCAT_AXIS",
    "MIOPEN_ATTR_OPERATION_CONCAT_INPUT_DESCS", "MIOPEN_ATTR_OPERATION_CONCAT_INPLACE_INDEX",
    "MIOPEN_ATTR_OPERATION_CONCAT_OUTPUT_DESC", "MIOPEN_ATTR_OPERATION_SIGNAL_MODE",
    "MIOPEN_ATTR_OPERATION_SIGNAL_FLAGDESC", "MIOPEN_ATTR_OPERATION_SIGNAL_VALUE",
    "MIOPEN_ATTR_OPERATION_SIGNAL_XDESC", "MIOPEN_ATTR_OPERATION_SIGNAL_YDESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_MODE",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE", "MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC", "MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC",
    "MIOPEN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS", "MIOPEN_ATTR_OPERATION_NORM_BWD_MODE",
    "MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC", "MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC", "MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC",
    "MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC", "MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC", "MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC",
    "MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC", "MIOPEN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS",
    "MIOPEN_ATTR_OPERATION_RESHAPE_XDESC", "MIOPEN_ATTR_OPERATION_RESHAPE_YDESC", "MIOPEN_ATTR_RNG_DISTRIBUTION",
    "MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN", "MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION",
    "MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM", "MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM",
    "MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY", "MIOPEN_ATTR_OPERATION_RNG_YDESC", "MIOPEN_ATTR_OPERATION_RNG_SEED",
    "MIOPEN_ATTR_OPERATION_RNG_DESC", "MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC", "MIOPEN_TYPE_HANDLE",
    "MIOPEN_TYPE_DATA_TYPE", "MIOPEN_TYPE_BOOLEAN", "MIOPEN_TYPE_INT64", "MIOPEN_TYPE_FLOAT", "MIOPEN_TYPE_DOUBLE",
    "MIOPEN_TYPE_VOID_PTR", "MIOPEN_TYPE_CONVOLUTION_MODE", "MIOPEN_TYPE_HEUR_MODE", "MIOPEN_TYPE_KNOB_TYPE",
    "MIOPEN_TYPE_NAN_PROPOGATION", "MIOPEN_TYPE_NUMERICAL_NOTE", "MIOPEN_TYPE_LAYOUT_TYPE", "MIOPEN_TYPE_ATTRIB_NAME",
    "MIOPEN_TYPE_POINTWISE_MODE", "MIOPEN_TYPE_BACKEND_DESCRIPTOR", "MIOPEN_TYPE_GENSTATS_MODE",
    "MIOPEN_TYPE_BN_FINALIZE_STATS_MODE", "MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE", "MIOPEN_TYPE_BEHAVIOR_NOTE",
    "MIOPEN_TYPE_TENSOR_REORDERING_MODE", "MIOPEN_TYPE_RESAMPLE_MODE", "MIOPEN_TYPE_PADDING_MODE", "MIOPEN_TYPE_INT32",
    "MIOPEN_TYPE_CHAR", "MIOPEN_TYPE_SIGNAL_MODE", "MIOPEN_TYPE_FRACTION", "MIOPEN_TYPE_NORM_MODE",
    "MIOPEN_TYPE_NORM_FWD_PHASE", "MIOPEN_TYPE_RNG_DISTRIBUTION", "MIOPEN_POINTWISE_ADD",
    "MIOPEN_POINTWISE_ADD_SQUARE", "MIOPEN_POINTWISE_DIV", "MIOPEN_POINTWISE_MAX", "MIOPEN_POINTWISE_MIN",
    "MIOPEN_POINTWISE_MOD", "MIOPEN_POINTWISE_MUL", "MIOPEN_POINTWISE_POW", "MIOPEN_POINTWISE_SUB",
    "MIOPEN_POINTWISE_ABS", "MIOPEN_POINTWISE_CEIL", "MIOPEN_POINTWISE_COS", "MIOPEN_POINTWISE_EXP",
    "MIOPEN_POINTWISE_FLOOR", "MIOPEN_POINTWISE_LOG", "MIOPEN_POINTWISE_NEG", "MIOPEN_POINTWISE_RSQRT",
    "MIOPEN_POINTWISE_SIN", "MIOPEN_POINTWISE_SQRT", "MIOPEN_POINTWISE_TAN", "MIOPEN_POINTWISE_ERF",
    "MIOPEN_POINTWISE_IDENTITY", "MIOPEN_POINTWISE_RELU_FWD", "MIOPEN_POINTWISE_TANH_FWD",
    "MIOPEN_POINTWISE_SIGMOID_FWD", "MIOPEN_POINTWISE_ELU_FWD", "MIOPEN_POINTWISE_GELU_FWD",
    "MIOPEN_POINTWISE_SOFTPLUS_FWD", "MIOPEN_POINTWISE_SWISH_FWD", "MIOPEN_POINTWISE_GELU_APPROX_TANH_FWD",
    "MIOPEN_POINTWISE_RELU_BWD", "MIOPEN_POINTWISE_TANH_BWD", "MIOPEN_POINTWISE_SIGMOID_BWD",
    "MIOPEN_POINTWISE_ELU_BWD", "MIOPEN_POINTWISE_GELU_BWD", "MIOPEN_POINTWISE_SOFTPLUS_BWD",
    "MIOPEN_POINTWISE_SWISH_BWD", "MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD", "MIOPEN_POINTWISE_CMP_EQ",
    "MIOPEN_POINTWISE_CMP_NEQ", "MIOPEN_POINTWISE_CMP_GT", "MIOPEN_POINTWISE_CMP_GE", "MIOPEN_POINTWISE_CMP_LT",
    "MIOPEN_POINTWISE_CMP_LE", "MIOPEN_POINTWISE_LOGICAL_AND", "MIOPEN_POINTWISE_LOGICAL_OR",
    "MIOPEN_POINTWISE_LOGICAL_NOT", "MIOPEN_POINTWISE_GEN_INDEX", "MIOPEN_POINTWISE_BINARY_SELECT",
    "MIOPEN_POINTWISE_RECIPROCAL", "MIOPEN_RNG_DISTRIBUTION_BERNOULLI", "MIOPEN_RNG_DISTRIBUTION_UNIFORM",
    "MIOPEN_RNG_DISTRIBUTION_NORMAL", "MIOPEN_HEUR_MODE_INSTANT", "MIOPEN_HEUR_MODE_B", "MIOPEN_HEUR_MODE_FALLBACK",
    "MIOPEN_HEUR_MODE_A", "MIOPEN_HEUR_MODES_COUNT",
]
