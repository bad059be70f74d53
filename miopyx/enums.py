"""The enumerations of miopen.h, with the header's names and numbers.

Each C enum is an `IntEnum` class of the same name; its members keep the header's spelling, so that
``miopenDataType_t.miopenFloat`` and ``miopyx.miopenFloat`` are the same object.  A class is made when it, or a member
of it, is first asked for: each takes a fifth of a millisecond, and a program needs few of them.  `enums.pyi` shows
type checkers the classes that they are.  Members are numbers that print as their names.

Where a function takes a member it takes the member's name, too, and what people call it: "miopenPoolingMax", "max".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

_SCALAR = 1 << 31

_MEMBERS: dict[str, dict[str, int]] = {
    "miopenStatus_t": {
        "miopenStatusSuccess": 0,
        "miopenStatusNotInitialized": 1,
        "miopenStatusInvalidValue": 2,
        "miopenStatusBadParm": 3,
        "miopenStatusAllocFailed": 4,
        "miopenStatusInternalError": 5,
        "miopenStatusNotImplemented": 6,
        "miopenStatusUnknownError": 7,
        "miopenStatusUnsupportedOp": 8,
        "miopenStatusGpuOperationsSkipped": 9,
        "miopenStatusVersionMismatch": 10,
    },
    "miopenDataType_t": {
        "miopenHalf": 0,
        "miopenFloat": 1,
        "miopenInt32": 2,
        "miopenInt8": 3,
        "miopenBFloat16": 5,
        "miopenDouble": 6,
        "miopenFloat8": 7,
        "miopenBFloat8": 8,
        "miopenInt64": 9,
        # OCP's, which miopen.h does not have: 7 and 8 are AMD's.
        "miopenFloat8_ocp": 1007,
        "miopenBFloat8_ocp": 1008,
    },
    "miopenTensorLayout_t": {
        "miopenTensorNCHW": 0,
        "miopenTensorNHWC": 1,
        "miopenTensorCHWN": 2,
        "miopenTensorNCHWc4": 3,
        "miopenTensorNCHWc8": 4,
        "miopenTensorCHWNc4": 5,
        "miopenTensorCHWNc8": 6,
        "miopenTensorNCDHW": 7,
        "miopenTensorNDHWC": 8,
    },
    "miopenIndexType_t": {
        "miopenIndexUint8": 0,
        "miopenIndexUint16": 1,
        "miopenIndexUint32": 2,
        "miopenIndexUint64": 3,
    },
    "miopenTensorOp_t": {
        "miopenTensorOpAdd": 0,
        "miopenTensorOpMul": 1,
        "miopenTensorOpMin": 2,
        "miopenTensorOpMax": 3,
    },
    "miopenConvolutionMode_t": {
        "miopenConvolution": 0,
        "miopenTranspose": 1,
        "miopenGroupConv": 2,
        "miopenDepthwise": 3,
    },
    "miopenPaddingMode_t": {
        "miopenPaddingDefault": 0,
        "miopenPaddingSame": 1,
        "miopenPaddingValid": 2,
    },
    "miopenConvolutionAttrib_t": {
        "MIOPEN_CONVOLUTION_ATTRIB_FP16_ALT_IMPL": 0,
        "MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC": 1,
        "MIOPEN_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE": 2,
        "MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE": 3,
    },
    "miopenMathType_t": {
        "miopenMathDefault": 0,
        "miopenMathPedantic": 1,
    },
    "miopenF8RoundingMode_t": {
        "miopenF8RoundingModeStandard": 0,
        "miopenF8RoundingModeStochastic": 1,
    },
    "miopenConvFwdAlgorithm_t": {
        "miopenConvolutionFwdAlgoGEMM": 0,
        "miopenConvolutionFwdAlgoDirect": 1,
        "miopenConvolutionFwdAlgoFFT": 2,
        "miopenConvolutionFwdAlgoWinograd": 3,
        "miopenConvolutionFwdAlgoImplicitGEMM": 5,
    },
    "miopenConvBwdDataAlgorithm_t": {
        "miopenConvolutionBwdDataAlgoGEMM": 0,
        "miopenConvolutionBwdDataAlgoDirect": 1,
        "miopenConvolutionBwdDataAlgoFFT": 2,
        "miopenConvolutionBwdDataAlgoWinograd": 3,
        "miopenTransposeBwdDataAlgoGEMM": 4,
        "miopenConvolutionBwdDataAlgoImplicitGEMM": 5,
    },
    "miopenConvBwdWeightsAlgorithm_t": {
        "miopenConvolutionBwdWeightsAlgoGEMM": 0,
        "miopenConvolutionBwdWeightsAlgoDirect": 1,
        "miopenConvolutionBwdWeightsAlgoWinograd": 3,
        "miopenConvolutionBwdWeightsAlgoImplicitGEMM": 5,
    },
    "miopenConvAlgorithm_t": {
        "miopenConvolutionAlgoGEMM": 0,
        "miopenConvolutionAlgoDirect": 1,
        "miopenConvolutionAlgoFFT": 2,
        "miopenConvolutionAlgoWinograd": 3,
        "miopenConvolutionAlgoImplicitGEMM": 5,
    },
    "miopenConvolutionFindMode_t": {
        "miopenConvolutionFindModeNormal": 1,
        "miopenConvolutionFindModeFast": 2,
        "miopenConvolutionFindModeHybrid": 3,
        "miopenConvolutionFindModeReserved_4": 4,
        "miopenConvolutionFindModeDynamicHybrid": 5,
    },
    "miopenPoolingMode_t": {
        "miopenPoolingMax": 0,
        "miopenPoolingAverage": 1,
        "miopenPoolingAverageInclusive": 2,
    },
    "miopenPoolingWorkspaceIndexMode_t": {
        "miopenPoolingWorkspaceIndexMask": 0,
        "miopenPoolingWorkspaceIndexImage": 1,
    },
    "miopenNanPropagation_t": {
        "MIOPEN_NOT_PROPAGATE_NAN": 0,
        "MIOPEN_PROPAGATE_NAN": 1,
    },
    "miopenLRNMode_t": {
        "miopenLRNWithinChannel": 0,
        "miopenLRNCrossChannel": 1,
    },
    "miopenBatchNormMode_t": {
        "miopenBNPerActivation": 0,
        "miopenBNSpatial": 1,
    },
    "miopenFusionDirection_t": {
        "miopenVerticalFusion": 0,
        "miopenHorizontalFusion": 1,
    },
    "miopenNormMode_t": {
        "MIOPEN_ELEMENTWISE_AFFINE": 0,
        "MIOPEN_WEIGHT_BIAS": 1,
        "MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD": 2,
        "MIOPEN_WEIGHT_BIAS_FUSED_ADD": 3,
        "MIOPEN_ELEMENTWISE_AFFINE_T5": 4,
        "MIOPEN_WEIGHT_BIAS_T5": 5,
    },
    "miopenCTCLossAlgo_t": {
        "MIOPEN_CTC_LOSS_ALGO_DETERMINISTIC": 0,
    },
    "miopenLossReductionMode_t": {
        "MIOPEN_LOSS_REDUCTION_NONE": 0,
        "MIOPEN_LOSS_REDUCTION_SUM": 1,
        "MIOPEN_LOSS_REDUCTION_MEAN": 2,
    },
    "miopenActivationMode_t": {
        "miopenActivationPASTHRU": 0,
        "miopenActivationLOGISTIC": 1,
        "miopenActivationTANH": 2,
        "miopenActivationRELU": 3,
        "miopenActivationSOFTRELU": 4,
        "miopenActivationABS": 5,
        "miopenActivationPOWER": 6,
        "miopenActivationCLIPPEDRELU": 7,
        "miopenActivationLEAKYRELU": 8,
        "miopenActivationELU": 9,
        "miopenActivationCLAMP": 10,
    },
    "miopenSoftmaxAlgorithm_t": {
        "MIOPEN_SOFTMAX_FAST": 0,
        "MIOPEN_SOFTMAX_ACCURATE": 1,
        "MIOPEN_SOFTMAX_LOG": 2,
    },
    "miopenSoftmaxMode_t": {
        "MIOPEN_SOFTMAX_MODE_INSTANCE": 0,
        "MIOPEN_SOFTMAX_MODE_CHANNEL": 1,
    },
    "miopenReduceTensorOp_t": {
        "MIOPEN_REDUCE_TENSOR_ADD": 0,
        "MIOPEN_REDUCE_TENSOR_MUL": 1,
        "MIOPEN_REDUCE_TENSOR_MIN": 2,
        "MIOPEN_REDUCE_TENSOR_MAX": 3,
        "MIOPEN_REDUCE_TENSOR_AMAX": 4,
        "MIOPEN_REDUCE_TENSOR_AVG": 5,
        "MIOPEN_REDUCE_TENSOR_NORM1": 6,
        "MIOPEN_REDUCE_TENSOR_NORM2": 7,
        # miopen.h has it in a comment.
        "MIOPEN_REDUCE_TENSOR_MUL_NO_ZEROS": 8,
    },
    "miopenReduceTensorIndices_t": {
        "MIOPEN_REDUCE_TENSOR_NO_INDICES": 0,
        "MIOPEN_REDUCE_TENSOR_FLATTENED_INDICES": 1,
    },
    "miopenIndicesType_t": {
        "MIOPEN_32BIT_INDICES": 0,
        "MIOPEN_64BIT_INDICES": 1,
        "MIOPEN_16BIT_INDICES": 2,
        "MIOPEN_8BIT_INDICES": 3,
    },
    "miopenReduceCalculationNanPropagation_t": {
        "MIOPEN_REDUCE_CALCULATION_NOT_PROPAGATE_NAN": 0,
        "MIOPEN_REDUCE_CALCULATION_PROPAGATE_NAN": 1,
    },
    "miopenReduceCalculationOp_t": {
        "MIOPEN_REDUCE_CALCULATION_PROD": 1,
        "MIOPEN_REDUCE_CALCULATION_SUM": 2,
    },
    "miopenReduceExtremeOp_t": {
        "MIOPEN_REDUCE_EXTREME_ARGMIN": 1,
        "MIOPEN_REDUCE_EXTREME_ARGMAX": 2,
        "MIOPEN_REDUCE_EXTREME_MIN": 3,
        "MIOPEN_REDUCE_EXTREME_MAX": 4,
    },
    "miopenRNGType_t": {
        "MIOPEN_RNG_PSEUDO_XORWOW": 0,
    },
    "miopenRNNMode_t": {
        "miopenRNNRELU": 0,
        "miopenRNNTANH": 1,
        "miopenLSTM": 2,
        "miopenGRU": 3,
    },
    "miopenRNNInputMode_t": {
        "miopenRNNlinear": 0,
        "miopenRNNskip": 1,
    },
    "miopenRNNAlgo_t": {
        "miopenRNNdefault": 0,
        "miopenRNNfundamental": 1,
    },
    "miopenRNNDirectionMode_t": {
        "miopenRNNunidirection": 0,
        "miopenRNNbidirection": 1,
    },
    "miopenRNNBiasMode_t": {
        "miopenRNNNoBias": 0,
        "miopenRNNwithBias": 1,
    },
    "miopenRNNGEMMalgoMode_t": {
        "miopenRNNAlgoGEMM": 0,
    },
    "miopenRNNPaddingMode_t": {
        "miopenRNNIONotPadded": 0,
        "miopenRNNIOWithPadding": 1,
    },
    "miopenRNNFWDMode_t": {
        "miopenRNNTraining": 0,
        "miopenRNNInference": 1,
    },
    "miopenRNNBaseLayout_t": {
        "miopenRNNDataUnknownLayout": 0,
        "miopenRNNDataSeqMajorNotPadded": 1,
        "miopenRNNDataSeqMajorPadded": 2,
        "miopenRNNDataBatchMajorPadded": 3,
    },
    "miopenProblemDirection_t": {
        "miopenProblemDirectionForward": 0,
        "miopenProblemDirectionBackward": 1,
        "miopenProblemDirectionBackwardWeights": 2,
        "miopenProblemDirectionInference": 4,
    },
    "miopenFindResultsOrder_t": {
        "miopenFindResultsOrderByTime": 0,
        "miopenFindResultsOrderByWorkspaceSize": 1,
    },
    "miopenTensorArgumentId_t": {
        "miopenTensorArgumentIdInvalid": 0,
        "miopenTensorConvolutionX": 1,
        "miopenTensorConvolutionW": 2,
        "miopenTensorConvolutionY": 3,
        "miopenTensorMhaK": 4,
        "miopenTensorMhaQ": 5,
        "miopenTensorMhaV": 6,
        "miopenTensorMhaDescaleK": 7,
        "miopenTensorMhaDescaleQ": 8,
        "miopenTensorMhaDescaleV": 9,
        "miopenTensorMhaDescaleS": 10,
        "miopenTensorMhaScaleS": 11,
        "miopenTensorMhaScaleO": 12,
        "miopenTensorMhaDropoutProbability": 13,
        "miopenTensorMhaDropoutSeed": 14,
        "miopenTensorMhaDropoutOffset": 15,
        "miopenTensorMhaO": 16,
        "miopenTensorMhaAmaxO": 17,
        "miopenTensorMhaAmaxS": 18,
        "miopenTensorMhaM": 19,
        "miopenTensorMhaZInv": 20,
        "miopenTensorMhaDO": 21,
        "miopenTensorMhaDescaleO": 22,
        "miopenTensorMhaDescaleDO": 23,
        "miopenTensorMhaDescaleDS": 24,
        "miopenTensorMhaScaleDS": 25,
        "miopenTensorMhaScaleDQ": 26,
        "miopenTensorMhaScaleDK": 27,
        "miopenTensorMhaScaleDV": 28,
        "miopenTensorMhaDQ": 29,
        "miopenTensorMhaDK": 30,
        "miopenTensorMhaDV": 31,
        "miopenTensorMhaAmaxDQ": 32,
        "miopenTensorMhaAmaxDK": 33,
        "miopenTensorMhaAmaxDV": 34,
        "miopenTensorMhaAmaxDS": 35,
        "miopenTensorMhaBias": 36,
        "miopenTensorActivationX": 37,
        "miopenTensorActivationY": 38,
        "miopenTensorActivationDX": 39,
        "miopenTensorActivationDY": 40,
        "miopenTensorBiasX": 41,
        "miopenTensorBiasY": 42,
        "miopenTensorBias": 43,
        "miopenTensorSoftmaxX": 44,
        "miopenTensorSoftmaxY": 45,
        "miopenTensorSoftmaxDX": 46,
        "miopenTensorSoftmaxDY": 47,
        "miopenTensorBatchnormX": 48,
        "miopenTensorBatchnormY": 49,
        "miopenTensorBatchnormRunningMean": 50,
        "miopenTensorBatchnormRunningVariance": 51,
        "miopenTensorBatchnormSavedMean": 52,
        "miopenTensorBatchnormSavedVariance": 53,
        "miopenTensorBatchnormScale": 54,
        "miopenTensorBatchnormScaleDiff": 55,
        "miopenTensorBatchnormEstimatedMean": 56,
        "miopenTensorBatchnormEstimatedVariance": 57,
        "miopenTensorBatchnormBias": 58,
        "miopenTensorBatchnormBiasDiff": 59,
        "miopenTensorBatchnormDX": 60,
        "miopenTensorBatchnormDY": 61,
        "miopenTensorArgumentIsScalar": _SCALAR,
        "miopenTensorMhaMask": _SCALAR + 1,
        "miopenScalarBatchnormExpAvgFactor": _SCALAR + 2,
        "miopenScalarBatchnormEpsilon": _SCALAR + 3,
    },
    "miopenMhaMask_t": {
        "miopenMhaMaskNone": 0,
        "miopenMhaMaskCausal": 1,
    },
    "miopenBackendDescriptorType_t": {
        "MIOPEN_BACKEND_CONVOLUTION_DESCRIPTOR": 0,
        "MIOPEN_BACKEND_ENGINE_DESCRIPTOR": 1,
        "MIOPEN_BACKEND_ENGINECFG_DESCRIPTOR": 2,
        "MIOPEN_BACKEND_ENGINEHEUR_DESCRIPTOR": 3,
        "MIOPEN_BACKEND_EXECUTION_PLAN_DESCRIPTOR": 4,
        "MIOPEN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR": 5,
        "MIOPEN_BACKEND_KNOB_CHOICE_DESCRIPTOR": 6,
        "MIOPEN_BACKEND_KNOB_INFO_DESCRIPTOR": 7,
        "MIOPEN_BACKEND_LAYOUT_INFO_DESCRIPTOR": 8,
        "MIOPEN_BACKEND_MATMUL_DESCRIPTOR": 9,
        "MIOPEN_BACKEND_OPERATION_CONCAT_DESCRIPTOR": 10,
        "MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR": 11,
        "MIOPEN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR": 12,
        "MIOPEN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR": 13,
        "MIOPEN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR": 14,
        "MIOPEN_BACKEND_OPERATION_MATMUL_DESCRIPTOR": 15,
        "MIOPEN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR": 16,
        "MIOPEN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR": 17,
        "MIOPEN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR": 18,
        "MIOPEN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR": 19,
        "MIOPEN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR": 20,
        "MIOPEN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR": 21,
        "MIOPEN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR": 22,
        "MIOPEN_BACKEND_OPERATION_RNG_DESCRIPTOR": 23,
        "MIOPEN_BACKEND_OPERATION_SIGNAL_DESCRIPTOR": 24,
        "MIOPEN_BACKEND_OPERATIONGRAPH_DESCRIPTOR": 25,
        "MIOPEN_BACKEND_POINTWISE_DESCRIPTOR": 26,
        "MIOPEN_BACKEND_REDUCTION_DESCRIPTOR": 27,
        "MIOPEN_BACKEND_RESAMPLE_DESCRIPTOR": 28,
        "MIOPEN_BACKEND_RNG_DESCRIPTOR": 29,
        "MIOPEN_BACKEND_TENSOR_DESCRIPTOR": 30,
        "MIOPEN_BACKEND_VARIANT_PACK_DESCRIPTOR": 31,
    },
    "miopenBackendAttributeName_t": {
        "MIOPEN_ATTR_POINTWISE_MODE": 0,
        "MIOPEN_ATTR_POINTWISE_MATH_PREC": 1,
        "MIOPEN_ATTR_POINTWISE_NAN_PROPAGATION": 2,
        "MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP": 3,
        "MIOPEN_ATTR_POINTWISE_RELU_UPPER_CLIP": 4,
        "MIOPEN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE": 5,
        "MIOPEN_ATTR_POINTWISE_ELU_ALPHA": 6,
        "MIOPEN_ATTR_POINTWISE_SOFTPLUS_BETA": 7,
        "MIOPEN_ATTR_POINTWISE_SWISH_BETA": 8,
        "MIOPEN_ATTR_POINTWISE_AXIS": 9,
        "MIOPEN_ATTR_CONVOLUTION_COMP_TYPE": 100,
        "MIOPEN_ATTR_CONVOLUTION_CONV_MODE": 101,
        "MIOPEN_ATTR_CONVOLUTION_DILATIONS": 102,
        "MIOPEN_ATTR_CONVOLUTION_FILTER_STRIDES": 103,
        "MIOPEN_ATTR_CONVOLUTION_POST_PADDINGS": 104,
        "MIOPEN_ATTR_CONVOLUTION_PRE_PADDINGS": 105,
        "MIOPEN_ATTR_CONVOLUTION_SPATIAL_DIMS": 106,
        "MIOPEN_ATTR_ENGINEHEUR_MODE": 200,
        "MIOPEN_ATTR_ENGINEHEUR_OPERATION_GRAPH": 201,
        "MIOPEN_ATTR_ENGINEHEUR_RESULTS": 202,
        "MIOPEN_ATTR_ENGINEHEUR_SM_COUNT_TARGET": 203,
        "MIOPEN_ATTR_ENGINECFG_ENGINE": 300,
        "MIOPEN_ATTR_ENGINECFG_INTERMEDIATE_INFO": 301,
        "MIOPEN_ATTR_ENGINECFG_KNOB_CHOICES": 302,
        "MIOPEN_ATTR_EXECUTION_PLAN_HANDLE": 400,
        "MIOPEN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG": 401,
        "MIOPEN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE": 402,
        "MIOPEN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS": 403,
        "MIOPEN_ATTR_EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS": 404,
        "MIOPEN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION": 405,
        "MIOPEN_ATTR_INTERMEDIATE_INFO_UNIQUE_ID": 500,
        "MIOPEN_ATTR_INTERMEDIATE_INFO_SIZE": 501,
        "MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS": 502,
        "MIOPEN_ATTR_INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES": 503,
        "MIOPEN_ATTR_KNOB_CHOICE_KNOB_TYPE": 600,
        "MIOPEN_ATTR_KNOB_CHOICE_KNOB_VALUE": 601,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA": 700,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA": 701,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC": 702,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_W": 703,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_X": 704,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y": 705,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA": 706,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA": 707,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC": 708,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W": 709,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX": 710,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY": 711,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA": 712,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA": 713,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC": 714,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW": 715,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X": 716,
        "MIOPEN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY": 717,
        "MIOPEN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR": 750,
        "MIOPEN_ATTR_OPERATION_POINTWISE_XDESC": 751,
        "MIOPEN_ATTR_OPERATION_POINTWISE_BDESC": 752,
        "MIOPEN_ATTR_OPERATION_POINTWISE_YDESC": 753,
        "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA1": 754,
        "MIOPEN_ATTR_OPERATION_POINTWISE_ALPHA2": 755,
        "MIOPEN_ATTR_OPERATION_POINTWISE_DXDESC": 756,
        "MIOPEN_ATTR_OPERATION_POINTWISE_DYDESC": 757,
        "MIOPEN_ATTR_OPERATION_POINTWISE_TDESC": 758,
        "MIOPEN_ATTR_OPERATION_GENSTATS_MODE": 770,
        "MIOPEN_ATTR_OPERATION_GENSTATS_MATH_PREC": 771,
        "MIOPEN_ATTR_OPERATION_GENSTATS_XDESC": 772,
        "MIOPEN_ATTR_OPERATION_GENSTATS_SUMDESC": 773,
        "MIOPEN_ATTR_OPERATION_GENSTATS_SQSUMDESC": 774,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE": 780,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC": 781,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC": 782,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC": 783,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC": 784,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC": 785,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC": 786,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC": 787,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC": 788,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC": 789,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC": 790,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC": 791,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC": 792,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC": 793,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC": 794,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC": 795,
        "MIOPEN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC": 796,
        "MIOPEN_ATTR_OPERATIONGRAPH_HANDLE": 800,
        "MIOPEN_ATTR_OPERATIONGRAPH_OPS": 801,
        "MIOPEN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT": 802,
        "MIOPEN_ATTR_TENSOR_BYTE_ALIGNMENT": 900,
        "MIOPEN_ATTR_TENSOR_DATA_TYPE": 901,
        "MIOPEN_ATTR_TENSOR_DIMENSIONS": 902,
        "MIOPEN_ATTR_TENSOR_STRIDES": 903,
        "MIOPEN_ATTR_TENSOR_VECTOR_COUNT": 904,
        "MIOPEN_ATTR_TENSOR_VECTORIZED_DIMENSION": 905,
        "MIOPEN_ATTR_TENSOR_UNIQUE_ID": 906,
        "MIOPEN_ATTR_TENSOR_IS_VIRTUAL": 907,
        "MIOPEN_ATTR_TENSOR_IS_BY_VALUE": 908,
        "MIOPEN_ATTR_TENSOR_REORDERING_MODE": 909,
        "MIOPEN_ATTR_TENSOR_RAGGED_OFFSET_DESC": 910,
        "MIOPEN_ATTR_VARIANT_PACK_UNIQUE_IDS": 1000,
        "MIOPEN_ATTR_VARIANT_PACK_DATA_POINTERS": 1001,
        "MIOPEN_ATTR_VARIANT_PACK_INTERMEDIATES": 1002,
        "MIOPEN_ATTR_VARIANT_PACK_WORKSPACE": 1003,
        "MIOPEN_ATTR_LAYOUT_INFO_TENSOR_UID": 1100,
        "MIOPEN_ATTR_LAYOUT_INFO_TYPES": 1101,
        "MIOPEN_ATTR_KNOB_INFO_TYPE": 1200,
        "MIOPEN_ATTR_KNOB_INFO_MAXIMUM_VALUE": 1201,
        "MIOPEN_ATTR_KNOB_INFO_MINIMUM_VALUE": 1202,
        "MIOPEN_ATTR_KNOB_INFO_STRIDE": 1203,
        "MIOPEN_ATTR_ENGINE_OPERATION_GRAPH": 1300,
        "MIOPEN_ATTR_ENGINE_GLOBAL_INDEX": 1301,
        "MIOPEN_ATTR_ENGINE_KNOB_INFO": 1302,
        "MIOPEN_ATTR_ENGINE_NUMERICAL_NOTE": 1303,
        "MIOPEN_ATTR_ENGINE_LAYOUT_INFO": 1304,
        "MIOPEN_ATTR_ENGINE_BEHAVIOR_NOTE": 1305,
        "MIOPEN_ATTR_ENGINE_SM_COUNT_TARGET": 1306,
        "MIOPEN_ATTR_MATMUL_COMP_TYPE": 1500,
        "MIOPEN_ATTR_MATMUL_PADDING_VALUE": 1501,
        "MIOPEN_ATTR_OPERATION_MATMUL_ADESC": 1520,
        "MIOPEN_ATTR_OPERATION_MATMUL_BDESC": 1521,
        "MIOPEN_ATTR_OPERATION_MATMUL_CDESC": 1522,
        "MIOPEN_ATTR_OPERATION_MATMUL_DESC": 1523,
        "MIOPEN_ATTR_OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT": 1524,
        "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC": 1525,
        "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC": 1526,
        "MIOPEN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC": 1527,
        "MIOPEN_ATTR_REDUCTION_OPERATOR": 1600,
        "MIOPEN_ATTR_REDUCTION_COMP_TYPE": 1601,
        "MIOPEN_ATTR_OPERATION_REDUCTION_XDESC": 1610,
        "MIOPEN_ATTR_OPERATION_REDUCTION_YDESC": 1611,
        "MIOPEN_ATTR_OPERATION_REDUCTION_DESC": 1612,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC": 1620,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC": 1621,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC": 1622,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC": 1623,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC": 1624,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC": 1625,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC": 1626,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC": 1627,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC": 1628,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC": 1629,
        "MIOPEN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS": 1630,
        "MIOPEN_ATTR_RESAMPLE_MODE": 1700,
        "MIOPEN_ATTR_RESAMPLE_COMP_TYPE": 1701,
        "MIOPEN_ATTR_RESAMPLE_SPATIAL_DIMS": 1702,
        "MIOPEN_ATTR_RESAMPLE_POST_PADDINGS": 1703,
        "MIOPEN_ATTR_RESAMPLE_PRE_PADDINGS": 1704,
        "MIOPEN_ATTR_RESAMPLE_STRIDES": 1705,
        "MIOPEN_ATTR_RESAMPLE_WINDOW_DIMS": 1706,
        "MIOPEN_ATTR_RESAMPLE_NAN_PROPAGATION": 1707,
        "MIOPEN_ATTR_RESAMPLE_PADDING_MODE": 1708,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_XDESC": 1710,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_YDESC": 1711,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC": 1712,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA": 1713,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_BETA": 1714,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_FWD_DESC": 1716,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC": 1720,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC": 1721,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC": 1722,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA": 1723,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_BETA": 1724,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_DESC": 1725,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_XDESC": 1726,
        "MIOPEN_ATTR_OPERATION_RESAMPLE_BWD_YDESC": 1727,
        "MIOPEN_ATTR_OPERATION_CONCAT_AXIS": 1800,
        "MIOPEN_ATTR_OPERATION_CONCAT_INPUT_DESCS": 1801,
        "MIOPEN_ATTR_OPERATION_CONCAT_INPLACE_INDEX": 1802,
        "MIOPEN_ATTR_OPERATION_CONCAT_OUTPUT_DESC": 1803,
        "MIOPEN_ATTR_OPERATION_SIGNAL_MODE": 1900,
        "MIOPEN_ATTR_OPERATION_SIGNAL_FLAGDESC": 1901,
        "MIOPEN_ATTR_OPERATION_SIGNAL_VALUE": 1902,
        "MIOPEN_ATTR_OPERATION_SIGNAL_XDESC": 1903,
        "MIOPEN_ATTR_OPERATION_SIGNAL_YDESC": 1904,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_MODE": 2000,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_PHASE": 2001,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_XDESC": 2002,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_MEAN_DESC": 2003,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC": 2004,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_SCALE_DESC": 2005,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_BIAS_DESC": 2006,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC": 2007,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC": 2008,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC": 2009,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC": 2010,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC": 2011,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC": 2012,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_YDESC": 2013,
        "MIOPEN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS": 2014,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_MODE": 2100,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_XDESC": 2101,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_MEAN_DESC": 2102,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC": 2103,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_DYDESC": 2104,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_SCALE_DESC": 2105,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC": 2106,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC": 2107,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC": 2108,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_DXDESC": 2109,
        "MIOPEN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS": 2110,
        "MIOPEN_ATTR_OPERATION_RESHAPE_XDESC": 2200,
        "MIOPEN_ATTR_OPERATION_RESHAPE_YDESC": 2201,
        "MIOPEN_ATTR_RNG_DISTRIBUTION": 2300,
        "MIOPEN_ATTR_RNG_NORMAL_DIST_MEAN": 2301,
        "MIOPEN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION": 2302,
        "MIOPEN_ATTR_RNG_UNIFORM_DIST_MAXIMUM": 2303,
        "MIOPEN_ATTR_RNG_UNIFORM_DIST_MINIMUM": 2304,
        "MIOPEN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY": 2305,
        "MIOPEN_ATTR_OPERATION_RNG_YDESC": 2310,
        "MIOPEN_ATTR_OPERATION_RNG_SEED": 2311,
        "MIOPEN_ATTR_OPERATION_RNG_DESC": 2312,
        "MIOPEN_ATTR_OPERATION_RNG_OFFSET_DESC": 2313,
    },
    "miopenBackendAttributeType_t": {
        "MIOPEN_TYPE_HANDLE": 0,
        "MIOPEN_TYPE_DATA_TYPE": 1,
        "MIOPEN_TYPE_BOOLEAN": 2,
        "MIOPEN_TYPE_INT64": 3,
        "MIOPEN_TYPE_FLOAT": 4,
        "MIOPEN_TYPE_DOUBLE": 5,
        "MIOPEN_TYPE_VOID_PTR": 6,
        "MIOPEN_TYPE_CONVOLUTION_MODE": 7,
        "MIOPEN_TYPE_HEUR_MODE": 8,
        "MIOPEN_TYPE_KNOB_TYPE": 9,
        "MIOPEN_TYPE_NAN_PROPOGATION": 10,
        "MIOPEN_TYPE_NUMERICAL_NOTE": 11,
        "MIOPEN_TYPE_LAYOUT_TYPE": 12,
        "MIOPEN_TYPE_ATTRIB_NAME": 13,
        "MIOPEN_TYPE_POINTWISE_MODE": 14,
        "MIOPEN_TYPE_BACKEND_DESCRIPTOR": 15,
        "MIOPEN_TYPE_GENSTATS_MODE": 16,
        "MIOPEN_TYPE_BN_FINALIZE_STATS_MODE": 17,
        "MIOPEN_TYPE_REDUCTION_OPERATOR_TYPE": 18,
        "MIOPEN_TYPE_BEHAVIOR_NOTE": 19,
        "MIOPEN_TYPE_TENSOR_REORDERING_MODE": 20,
        "MIOPEN_TYPE_RESAMPLE_MODE": 21,
        "MIOPEN_TYPE_PADDING_MODE": 22,
        "MIOPEN_TYPE_INT32": 23,
        "MIOPEN_TYPE_CHAR": 24,
        "MIOPEN_TYPE_SIGNAL_MODE": 25,
        "MIOPEN_TYPE_FRACTION": 26,
        "MIOPEN_TYPE_NORM_MODE": 27,
        "MIOPEN_TYPE_NORM_FWD_PHASE": 28,
        "MIOPEN_TYPE_RNG_DISTRIBUTION": 29,
    },
    "miopenPointwiseMode_t": {
        "MIOPEN_POINTWISE_ADD": 0,
        "MIOPEN_POINTWISE_ADD_SQUARE": 1,
        "MIOPEN_POINTWISE_DIV": 2,
        "MIOPEN_POINTWISE_MAX": 3,
        "MIOPEN_POINTWISE_MIN": 4,
        "MIOPEN_POINTWISE_MOD": 5,
        "MIOPEN_POINTWISE_MUL": 6,
        "MIOPEN_POINTWISE_POW": 7,
        "MIOPEN_POINTWISE_SUB": 8,
        "MIOPEN_POINTWISE_ABS": 9,
        "MIOPEN_POINTWISE_CEIL": 10,
        "MIOPEN_POINTWISE_COS": 11,
        "MIOPEN_POINTWISE_EXP": 12,
        "MIOPEN_POINTWISE_FLOOR": 13,
        "MIOPEN_POINTWISE_LOG": 14,
        "MIOPEN_POINTWISE_NEG": 15,
        "MIOPEN_POINTWISE_RSQRT": 16,
        "MIOPEN_POINTWISE_SIN": 17,
        "MIOPEN_POINTWISE_SQRT": 18,
        "MIOPEN_POINTWISE_TAN": 19,
        "MIOPEN_POINTWISE_ERF": 20,
        "MIOPEN_POINTWISE_IDENTITY": 21,
        "MIOPEN_POINTWISE_RELU_FWD": 22,
        "MIOPEN_POINTWISE_TANH_FWD": 23,
        "MIOPEN_POINTWISE_SIGMOID_FWD": 24,
        "MIOPEN_POINTWISE_ELU_FWD": 25,
        "MIOPEN_POINTWISE_GELU_FWD": 26,
        "MIOPEN_POINTWISE_SOFTPLUS_FWD": 27,
        "MIOPEN_POINTWISE_SWISH_FWD": 28,
        "MIOPEN_POINTWISE_GELU_APPROX_TANH_FWD": 29,
        "MIOPEN_POINTWISE_RELU_BWD": 30,
        "MIOPEN_POINTWISE_TANH_BWD": 31,
        "MIOPEN_POINTWISE_SIGMOID_BWD": 32,
        "MIOPEN_POINTWISE_ELU_BWD": 33,
        "MIOPEN_POINTWISE_GELU_BWD": 34,
        "MIOPEN_POINTWISE_SOFTPLUS_BWD": 35,
        "MIOPEN_POINTWISE_SWISH_BWD": 36,
        "MIOPEN_POINTWISE_GELU_APPROX_TANH_BWD": 37,
        "MIOPEN_POINTWISE_CMP_EQ": 38,
        "MIOPEN_POINTWISE_CMP_NEQ": 39,
        "MIOPEN_POINTWISE_CMP_GT": 40,
        "MIOPEN_POINTWISE_CMP_GE": 41,
        "MIOPEN_POINTWISE_CMP_LT": 42,
        "MIOPEN_POINTWISE_CMP_LE": 43,
        "MIOPEN_POINTWISE_LOGICAL_AND": 44,
        "MIOPEN_POINTWISE_LOGICAL_OR": 45,
        "MIOPEN_POINTWISE_LOGICAL_NOT": 46,
        "MIOPEN_POINTWISE_GEN_INDEX": 47,
        "MIOPEN_POINTWISE_BINARY_SELECT": 48,
        "MIOPEN_POINTWISE_RECIPROCAL": 49,
    },
    "miopenRngDistribution_t": {
        "MIOPEN_RNG_DISTRIBUTION_BERNOULLI": 0,
        "MIOPEN_RNG_DISTRIBUTION_UNIFORM": 1,
        "MIOPEN_RNG_DISTRIBUTION_NORMAL": 2,
    },
    "miopenBackendHeurMode_t": {
        "MIOPEN_HEUR_MODE_INSTANT": 0,
        "MIOPEN_HEUR_MODE_B": 1,
        "MIOPEN_HEUR_MODE_FALLBACK": 2,
        "MIOPEN_HEUR_MODE_A": 3,
        "MIOPEN_HEUR_MODES_COUNT": 4,
    },
    "miopenAlphaBetaCase_t": {
        "DEFAULT": 0,  # alpha 1, beta 0
        "SCALE": 1,  # alpha not 1, beta 0
        "BILINEAR": 2,  # neither 0
        "ERROR_STATE": 3,  # alpha 0, beta not 0
    },
}
# As in C, members stand beside their types; DEFAULT, SCALE ... are too general to be module-level names.
_TYPE_OF = {member: name for name, members in _MEMBERS.items() if name != "miopenAlphaBetaCase_t" for member in members}
__all__ = [*_MEMBERS, *_TYPE_OF]

# What the names of an enumeration's members begin with, and what else people call them.  Case, blanks, hyphens and
# underscores do not count.
_PREFIXES = {
    "miopenTensorLayout_t": "miopenTensor", "miopenIndexType_t": "miopenIndex", "miopenTensorOp_t": "miopenTensorOp",
    "miopenConvolutionMode_t": "miopen", "miopenConvolutionAttrib_t": "MIOPEN_CONVOLUTION_ATTRIB_",
    "miopenMathType_t": "miopenMath", "miopenF8RoundingMode_t": "miopenF8RoundingMode",
    "miopenConvFwdAlgorithm_t": "miopenConvolutionFwdAlgo",
    "miopenConvBwdDataAlgorithm_t": "miopenConvolutionBwdDataAlgo",
    "miopenConvBwdWeightsAlgorithm_t": "miopenConvolutionBwdWeightsAlgo",
    "miopenConvolutionFindMode_t": "miopenConvolutionFindMode", "miopenPoolingMode_t": "miopenPooling",
    "miopenPoolingWorkspaceIndexMode_t": "miopenPoolingWorkspaceIndex", "miopenNanPropagation_t": "MIOPEN_",
    "miopenLRNMode_t": "miopenLRN", "miopenBatchNormMode_t": "miopenBN", "miopenNormMode_t": "MIOPEN_",
    "miopenFusionDirection_t": "miopen",
    "miopenCTCLossAlgo_t": "MIOPEN_CTC_LOSS_ALGO_", "miopenLossReductionMode_t": "MIOPEN_LOSS_REDUCTION_",
    "miopenActivationMode_t": "miopenActivation",
    "miopenSoftmaxAlgorithm_t": "MIOPEN_SOFTMAX_", "miopenSoftmaxMode_t": "MIOPEN_SOFTMAX_MODE_",
    "miopenReduceTensorOp_t": "MIOPEN_REDUCE_TENSOR_",
    "miopenReduceTensorIndices_t": "MIOPEN_REDUCE_TENSOR_",
    "miopenIndicesType_t": "MIOPEN_",
    "miopenReduceCalculationNanPropagation_t": "MIOPEN_REDUCE_CALCULATION_",
    "miopenReduceCalculationOp_t": "MIOPEN_REDUCE_CALCULATION_",
    "miopenReduceExtremeOp_t": "MIOPEN_REDUCE_EXTREME_",
    "miopenRNGType_t": "MIOPEN_RNG_",
    "miopenRNNMode_t": "miopen", "miopenRNNInputMode_t": "miopenRNN", "miopenRNNAlgo_t": "miopenRNN",
    "miopenRNNDirectionMode_t": "miopenRNN", "miopenRNNBiasMode_t": "miopenRNN",
    "miopenRNNGEMMalgoMode_t": "miopenRNN", "miopenRNNPaddingMode_t": "miopenRNNIO",
    "miopenRNNFWDMode_t": "miopenRNN", "miopenRNNBaseLayout_t": "miopenRNNData",
    "miopenProblemDirection_t": "miopenProblemDirection", "miopenFindResultsOrder_t": "miopenFindResultsOrderBy",
    "miopenTensorArgumentId_t": "miopenTensor", "miopenMhaMask_t": "miopenMhaMask",
    "miopenBackendDescriptorType_t": "MIOPEN_BACKEND_", "miopenBackendAttributeName_t": "MIOPEN_ATTR_",
    "miopenBackendAttributeType_t": "MIOPEN_TYPE_", "miopenPointwiseMode_t": "MIOPEN_POINTWISE_",
    "miopenRngDistribution_t": "MIOPEN_RNG_DISTRIBUTION_", "miopenBackendHeurMode_t": "MIOPEN_HEUR_MODE_",
}
_ALSO = {
    "miopenConvolutionMode_t": {"conv": 0, "transposed": 1, "group": 2, "grouped": 2},
    "miopenF8RoundingMode_t": {"nearest": 0, "random": 1},
    "miopenPoolingMode_t": {"avg": 1, "mean": 1, "inclusive": 2},
    "miopenNanPropagation_t": {"not propagate": 0, "propagate": 1},
    "miopenReduceTensorOp_t": {"sum": 0, "prod": 1, "product": 1, "mean": 5},
    "miopenReduceTensorIndices_t": {"none": 0, "flattened": 1},
    "miopenReduceCalculationNanPropagation_t": {"not propagate": 0, "propagate": 1},
    "miopenReduceCalculationOp_t": {"product": 1, "add": 2},
    "miopenIndicesType_t": {"uint32": 0, "uint64": 1, "uint16": 2, "uint8": 3},
    "miopenRNGType_t": {"xorwow": 0},
    "miopenRNNMode_t": {"relu": 0, "tanh": 1, "rnn relu": 0, "rnn tanh": 1},
    "miopenRNNDirectionMode_t": {"unidirectional": 0, "bidirectional": 1},
    "miopenRNNBiasMode_t": {"bias": 1},
    "miopenLRNMode_t": {"within": 0, "cross": 1},
    "miopenActivationMode_t": {"identity": 0, "passthrough": 0, "sigmoid": 1, "softplus": 4, "leaky": 8},
    "miopenTensorOp_t": {"multiply": 1, "minimum": 2, "maximum": 3},
}
# Types by the names of NumPy and ml_dtypes, and what else they are called.
DATA_TYPES = {
    "float16": 0, "float32": 1, "int32": 2, "int8": 3, "bfloat16": 5, "float64": 6,
    "float8_e4m3fnuz": 7, "float8_e5m2fnuz": 8, "int64": 9, "float8_e4m3fn": 1007, "float8_e5m2": 1008,
}
_ALSO_TYPES = {
    "half": 0, "fp16": 0, "f16": 0, "f2": 0, "single": 1, "fp32": 1, "f32": 1, "f4": 1, "i32": 2, "i4": 2, "i8": 9,
    "i1": 3, "bf16": 5, "double": 6, "fp64": 6, "f64": 6, "f8": 6, "float8": 7, "bfloat8": 8, "i64": 9,
}
TYPE_NAMES = {number: name for name, number in DATA_TYPES.items()}
# Words that mean one type here and another one there, and what to say instead.
AMBIGUOUS_TYPES = {
    "float": "float32 (C's) or float64 (Python's and NumPy's)", "int": "int32 (C's) or int64 (NumPy's)",
    **dict.fromkeys(("fp8", "e4m3", "float8_e4m3"), "float8_e4m3fn (OCP's) or float8_e4m3fnuz (AMD's)"),
    **dict.fromkeys(("bf8", "e5m2"), "float8_e5m2 (OCP's) or float8_e5m2fnuz (AMD's)"),
}


# What `help` says of each enumeration.
_ABOUT = {
    "miopenStatus_t": "What a call ended with.  miopyx raises the exception of a status instead of returning it.",
    "miopenDataType_t": """The type of a tensor's elements.

    Functions take NumPy's name as well: "float16", "float32", "int32", "int8", "bfloat16", "float64",
    "float8_e4m3fnuz" (miopenFloat8), "float8_e5m2fnuz" (miopenBFloat8), "int64", "float8_e4m3fn" (miopenFloat8_ocp)
    and "float8_e5m2" (miopenBFloat8_ocp).""",
    "miopenTensorLayout_t": """The order of a tensor's axes in memory, the slowest first.

    n images, c channels, d, h, w the spatial axes; c4 and c8: channels in vectors of 4 or 8 that run fastest.""",
    "miopenIndexType_t": "The type of the indices that max pooling saves: 8, 16, 32 or 64 bits without a sign.",
    "miopenTensorOp_t": "What miopenOpTensor does with alpha1 a and alpha2 b: the sum, product, minimum or maximum.",
    "miopenConvolutionMode_t": """What a convolution computes.

    miopenTranspose: forward is what backward data of miopenConvolution is, and the other way round.  miopenGroupConv
    and miopenDepthwise: miopenConvolution; how many groups there are says the group count.""",
    "miopenPaddingMode_t": "How pads are meant; pads are always given as numbers (miopenPaddingDefault).",
    "miopenConvolutionAttrib_t": """What miopenSetConvolutionAttribute sets, an integer each.

    FP16_ALT_IMPL: -1 (the default), 0 or 1, kept and without effect.  DETERMINISTIC: 1 takes solvers alone whose
    results are the same bits in every run.  FP8_ROUNDING_MODE: a miopenF8RoundingMode_t.  MATH_TYPE: a
    miopenMathType_t; new descriptors have miopenMathPedantic.""",
    "miopenMathType_t": """How exactly float32 convolutions multiply.

    Default: factors may be rounded to 11 bits, as TF32 does, where the device is faster so.  Pedantic: as floats.""",
    "miopenF8RoundingMode_t": "How a float8 result is rounded: to the nearest, or up or down at random.",
    "miopenConvFwdAlgorithm_t": "How a forward convolution is computed; Find reports it of each solver.",
    "miopenConvBwdDataAlgorithm_t": "How backward data is computed; Find reports it of each solver.",
    "miopenConvBwdWeightsAlgorithm_t": "How backward weights is computed; Find reports it of each solver.",
    "miopenConvAlgorithm_t": "How a solution of immediate mode computes a convolution, in any direction.",
    "miopenConvolutionFindMode_t": """What Find does for a problem; MIOPEN_FIND_MODE sets it for a process.

    Normal: time every solver that applies, unless all is known.  Fast: take the find-db's best, else the first choice
    of immediate mode, and time nothing.  Hybrid: the find-db's best, else Normal.  DynamicHybrid (the default): the
    find-db's best, else Normal without solvers that need a program a problem.""",
    "miopenPoolingMode_t": """What a pooling window becomes.

    Max: its largest element.  Average: the mean of its elements inside the image.  AverageInclusive: their sum by the
    window's size.""",
    "miopenPoolingWorkspaceIndexMode_t": """What max pooling's indices count: places in the window (Mask) or in the
    image (Image).""",
    "miopenNanPropagation_t": """Whether a window of max pooling that has a NaN gives NaN, or the largest of its other
    elements.""",
    "miopenLRNMode_t": "Over what local response normalisation adds squares: a window of the plane, or channels.",
    "miopenBatchNormMode_t": """What has a mean and a variance of its own: each element of c h w (PerActivation), or
    each channel (Spatial).""",
    "miopenFusionDirection_t": """How operators are fused: one after the other (Vertical), or side by side
    (Horizontal), which nothing does.""",
    "miopenNormMode_t": """Whether a norm has weights: ELEMENTWISE_AFFINE: none, as if they were 1 and the biases 0;
    WEIGHT_BIAS: given ones.  FUSED_ADD: of miopenAddLayerNorm...; T5: of miopenT5LayerNorm..., which has no biases.""",
    "miopenCTCLossAlgo_t": "How a CTC loss is computed; the only algorithm gives the same bits every time.",
    "miopenLossReductionMode_t": "What becomes of the losses of all elements: NONE, their SUM, their MEAN.",
    "miopenActivationMode_t": "The activation function; miopenActivationForward has the formulas.",
    "miopenSoftmaxAlgorithm_t": """FAST: without subtracting the maximum, may overflow.  ACCURATE: with it.  LOG: the
    logarithm of the softmax.""",
    "miopenSoftmaxMode_t": "Over what a softmax sums up: each image's c h w (INSTANCE), or the channels of a pixel.",
    "miopenReduceTensorOp_t": "What miopenReduceTensor does; its documentation has the formulas.",
    "miopenReduceTensorIndices_t": "Whether miopenReduceTensor says, too, which element a minimum or maximum is.",
    "miopenIndicesType_t": "The type of miopenReduceTensor's indices; it takes 32 bits alone.",
    "miopenReduceCalculationNanPropagation_t": """Whether a sum or product that has a NaN is NaN, or that of the other
    elements.""",
    "miopenReduceCalculationOp_t": "What miopenReduceCalculationForward does.",
    "miopenReduceExtremeOp_t": """What miopenReduceExtremeForward finds: the index (ARG...), or the number and its
    index.""",
    "miopenRNGType_t": "What dropout's masks come from; the one member stands for Philox 4x32-10.",
    "miopenRNNMode_t": "The cell of a recurrent layer: a plain one with ReLU or tanh, LSTM, GRU.",
    "miopenRNNInputMode_t": "Whether the first layer multiplies its input by weights (linear) or takes it as it is.",
    "miopenRNNAlgo_t": "How MIOpen computes a recurrent layer; both mean the same here.",
    "miopenRNNDirectionMode_t": "Forward in time only, or forward and backward.",
    "miopenRNNBiasMode_t": "Whether biases are added to the products.",
    "miopenRNNGEMMalgoMode_t": "How recurrent layers multiply; there is one way.",
    "miopenRNNPaddingMode_t": "Whether sequences shorter than the longest one are padded in x and y.",
    "miopenRNNFWDMode_t": "Whether a forward pass keeps what gradients need.",
    "miopenRNNBaseLayout_t": """How the steps of several sequences lie in memory: the steps one behind the other, each
    with the sequences that are so long, or padded; or padded sequences one behind the other.""",
    "miopenProblemDirection_t": "The direction of a problem.",
    "miopenFindResultsOrder_t": "How Find's results are sorted.",
    "miopenTensorArgumentId_t": "Which argument of a problem a tensor or a number is.",
    "miopenMhaMask_t": "Which scores of an attention count: all, or those of keys up to the query's place (Causal).",
    "miopenBackendDescriptorType_t": "What a descriptor of the graph API is.",
    "miopenBackendAttributeName_t": "An attribute of a descriptor of the graph API.",
    "miopenBackendAttributeType_t": "The type of an attribute's elements.",
    "miopenPointwiseMode_t": "What an element-wise operation of a graph does.",
    "miopenRngDistribution_t": "The distribution of a graph's random numbers.",
    "miopenBackendHeurMode_t": "How engines of a graph are ranked; all modes do the same.",
    "miopenAlphaBetaCase_t": """Of alpha and beta: DEFAULT 1 and 0, SCALE another alpha and 0, BILINEAR neither 0,
    ERROR_STATE alpha 0 and beta not.""",
}


def _folded(text: str) -> str:
    return text.lower().translate({ord(c): None for c in " -_"})


def _spellings(name: str) -> dict[str, int]:
    """Return what the members of an enumeration may be called, folded."""
    made = globals().setdefault("_SPELLINGS", {})
    found: dict[str, int] | None = made.get(name)
    if found is None:
        prefix = _PREFIXES.get(name, "")
        found = {_folded(word): number for word, number in _ALSO.get(name, {}).items()}
        for member, number in _MEMBERS[name].items():
            found[_folded(member)] = number
            found[_folded(member.removeprefix(prefix))] = number
        if name == "miopenDataType_t":
            found |= {_folded(word): number for word, number in (DATA_TYPES | _ALSO_TYPES).items()}
        made[name] = found  # whole: other threads read it
    return found


def number_of(name: str, text: str) -> int | None:
    """Return the number of a member of an enumeration by its name or what it is called; None for no such name."""
    return _spellings(name).get(_folded(text))


def word_of(name: str, number: int) -> str:
    """Return what a member of an enumeration is called in messages: its name in lower case without the prefix."""
    for member, its in _MEMBERS[name].items():
        if its == number:
            return member.removeprefix(_PREFIXES.get(name, "")).lower()
    return str(number)


def allowed(name: str) -> str:
    """Return the names that an enumeration's members go by, for messages."""
    if name == "miopenDataType_t":
        return ", ".join(DATA_TYPES) + f", what these are called otherwise (half, bf16, f4, ...), or a {name}"
    prefix = _PREFIXES[name]
    words = [member.removeprefix(prefix).lower().replace("reserved_4", "") for member in _MEMBERS[name]]
    return ", ".join(filter(None, words)) + f", or a {name}"


class _Named(IntEnum):
    """An integer that prints as its name; a format for numbers, as in f"{x:d}", still gives the number."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec[-1:] in tuple("bcdeEfFgGnoxX%") else self.name, spec)


def __getattr__(name: str) -> Any:
    if name in _MEMBERS:
        # Of two threads the first one's class is the one: members are compared by identity.
        made = _Named(name, _MEMBERS[name], module=__name__)
        made.__doc__ = _ABOUT[name]
        return globals().setdefault(name, made)
    if name in _TYPE_OF:
        return globals().setdefault(name, _made(_TYPE_OF[name])[name])
    if name == "ENUMS":
        return tuple(map(_made, _MEMBERS))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)


def _made(name: str) -> type[IntEnum]:
    made: type[IntEnum] = globals().get(name) or __getattr__(name)
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
