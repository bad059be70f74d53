"""The enumerations of miopen.h: names and numbers, which are ABI, here written down a second time."""

import ast
import re
from enum import IntEnum
from pathlib import Path

import pytest

import miopyx
from miopyx import enums

SOURCES = Path(__file__).resolve().parents[1] / "miopyx"

# Type: member prefix, then members, each with its number where that is not the one before plus 1.
HEADER = """
miopenStatus_t: miopenStatus, Success NotInitialized InvalidValue BadParm AllocFailed InternalError NotImplemented
    UnknownError UnsupportedOp GpuOperationsSkipped VersionMismatch
miopenDataType_t: miopen, Half Float Int32 Int8 BFloat16=5 Double Float8 BFloat8 Int64
    Float8_ocp=1007 BFloat8_ocp
miopenTensorLayout_t: miopenTensor, NCHW NHWC CHWN NCHWc4 NCHWc8 CHWNc4 CHWNc8 NCDHW NDHWC
miopenIndexType_t: miopenIndex, Uint8 Uint16 Uint32 Uint64
miopenTensorOp_t: miopenTensorOp, Add Mul Min Max
miopenConvolutionMode_t: miopen, Convolution Transpose GroupConv Depthwise
miopenPaddingMode_t: miopenPadding, Default Same Valid
miopenConvolutionAttrib_t: MIOPEN_CONVOLUTION_ATTRIB_, FP16_ALT_IMPL DETERMINISTIC FP8_ROUNDING_MODE MATH_TYPE
miopenMathType_t: miopenMath, Default Pedantic
miopenF8RoundingMode_t: miopenF8RoundingMode, Standard Stochastic
miopenConvFwdAlgorithm_t: miopenConvolutionFwdAlgo, GEMM Direct FFT Winograd ImplicitGEMM=5
miopenConvBwdDataAlgorithm_t: miopen, ConvolutionBwdDataAlgoGEMM ConvolutionBwdDataAlgoDirect
    ConvolutionBwdDataAlgoFFT ConvolutionBwdDataAlgoWinograd TransposeBwdDataAlgoGEMM
    ConvolutionBwdDataAlgoImplicitGEMM
miopenConvBwdWeightsAlgorithm_t: miopenConvolutionBwdWeightsAlgo, GEMM Direct Winograd=3 ImplicitGEMM=5
miopenConvAlgorithm_t: miopenConvolutionAlgo, GEMM Direct FFT Winograd ImplicitGEMM=5
miopenConvolutionFindMode_t: miopenConvolutionFindMode, Normal=1 Fast Hybrid Reserved_4 DynamicHybrid
miopenPoolingMode_t: miopenPooling, Max Average AverageInclusive
miopenPoolingWorkspaceIndexMode_t: miopenPoolingWorkspaceIndex, Mask Image
miopenNanPropagation_t: MIOPEN_, NOT_PROPAGATE_NAN PROPAGATE_NAN
miopenLRNMode_t: miopenLRN, WithinChannel CrossChannel
miopenBatchNormMode_t: miopenBN, PerActivation Spatial
miopenFusionDirection_t: miopen, VerticalFusion HorizontalFusion
miopenNormMode_t: MIOPEN_, ELEMENTWISE_AFFINE WEIGHT_BIAS ELEMENTWISE_AFFINE_FUSED_ADD WEIGHT_BIAS_FUSED_ADD
    ELEMENTWISE_AFFINE_T5 WEIGHT_BIAS_T5
miopenCTCLossAlgo_t: MIOPEN_CTC_LOSS_ALGO_, DETERMINISTIC
miopenLossReductionMode_t: MIOPEN_LOSS_REDUCTION_, NONE SUM MEAN
miopenActivationMode_t: miopenActivation, PASTHRU LOGISTIC TANH RELU SOFTRELU ABS POWER CLIPPEDRELU LEAKYRELU ELU
    CLAMP
miopenSoftmaxAlgorithm_t: MIOPEN_SOFTMAX_, FAST ACCURATE LOG
miopenSoftmaxMode_t: MIOPEN_SOFTMAX_MODE_, INSTANCE CHANNEL
miopenReduceTensorOp_t: MIOPEN_REDUCE_TENSOR_, ADD MUL MIN MAX AMAX AVG NORM1 NORM2 MUL_NO_ZEROS
miopenReduceTensorIndices_t: MIOPEN_REDUCE_TENSOR_, NO_INDICES FLATTENED_INDICES
miopenIndicesType_t: MIOPEN_, 32BIT_INDICES 64BIT_INDICES 16BIT_INDICES 8BIT_INDICES
miopenReduceCalculationNanPropagation_t: MIOPEN_REDUCE_CALCULATION_, NOT_PROPAGATE_NAN PROPAGATE_NAN
miopenReduceCalculationOp_t: MIOPEN_REDUCE_CALCULATION_, PROD=1 SUM
miopenReduceExtremeOp_t: MIOPEN_REDUCE_EXTREME_, ARGMIN=1 ARGMAX MIN MAX
miopenRNGType_t: MIOPEN_RNG_, PSEUDO_XORWOW
miopenRNNMode_t: miopen, RNNRELU RNNTANH LSTM GRU
miopenRNNInputMode_t: miopenRNN, linear skip
miopenRNNAlgo_t: miopenRNN, default fundamental
miopenRNNDirectionMode_t: miopenRNN, unidirection bidirection
miopenRNNBiasMode_t: miopenRNN, NoBias withBias
miopenRNNGEMMalgoMode_t: miopenRNNAlgo, GEMM
miopenRNNPaddingMode_t: miopenRNNIO, NotPadded WithPadding
miopenRNNFWDMode_t: miopenRNN, Training Inference
miopenRNNBaseLayout_t: miopenRNNData, UnknownLayout SeqMajorNotPadded SeqMajorPadded BatchMajorPadded
miopenProblemDirection_t: miopenProblemDirection, Forward Backward BackwardWeights Inference=4
miopenFindResultsOrder_t: miopenFindResultsOrder, ByTime ByWorkspaceSize
miopenTensorArgumentId_t: miopen, TensorArgumentIdInvalid TensorConvolutionX TensorConvolutionW TensorConvolutionY
    TensorMhaK TensorMhaQ TensorMhaV TensorMhaDescaleK TensorMhaDescaleQ TensorMhaDescaleV TensorMhaDescaleS
    TensorMhaScaleS TensorMhaScaleO TensorMhaDropoutProbability TensorMhaDropoutSeed TensorMhaDropoutOffset TensorMhaO
    TensorMhaAmaxO TensorMhaAmaxS TensorMhaM TensorMhaZInv TensorMhaDO TensorMhaDescaleO TensorMhaDescaleDO
    TensorMhaDescaleDS TensorMhaScaleDS TensorMhaScaleDQ TensorMhaScaleDK TensorMhaScaleDV TensorMhaDQ TensorMhaDK
    TensorMhaDV TensorMhaAmaxDQ TensorMhaAmaxDK TensorMhaAmaxDV TensorMhaAmaxDS TensorMhaBias
    TensorActivationX=37 TensorActivationY TensorActivationDX TensorActivationDY TensorBiasX TensorBiasY TensorBias
    TensorSoftmaxX TensorSoftmaxY TensorSoftmaxDX TensorSoftmaxDY TensorBatchnormX TensorBatchnormY
    TensorBatchnormRunningMean TensorBatchnormRunningVariance TensorBatchnormSavedMean TensorBatchnormSavedVariance
    TensorBatchnormScale TensorBatchnormScaleDiff TensorBatchnormEstimatedMean TensorBatchnormEstimatedVariance
    TensorBatchnormBias TensorBatchnormBiasDiff TensorBatchnormDX TensorBatchnormDY
    TensorArgumentIsScalar=2147483648 TensorMhaMask ScalarBatchnormExpAvgFactor=2147483650 ScalarBatchnormEpsilon
miopenMhaMask_t: miopenMhaMask, None Causal
miopenAlphaBetaCase_t: , DEFAULT SCALE BILINEAR ERROR_STATE
"""


def header():
    """Return {type: {member: number}}."""
    table = {}
    for line in re.sub(r"\n +", " ", HEADER).strip().splitlines():
        name, rest = line.split(":")
        prefix, members = (part.strip() for part in rest.split(","))
        number = -1
        table[name] = {}
        for member in members.split():
            word, _, given = member.partition("=")
            number = int(given) if given else number + 1
            table[name][prefix + word] = number
    return table


@pytest.mark.parametrize(("name", "members"), header().items())
def test_names_and_numbers(name, members):
    enum = getattr(miopyx, name)
    assert issubclass(enum, IntEnum)
    assert {word: int(member) for word, member in enum.__members__.items()} == members


def test_there_are_no_other_enums():
    assert [enum.__name__ for enum in enums.ENUMS] == list(header())


def test_members_stand_beside_their_types():
    for name, members in header().items():
        for member in members:
            if name == "miopenAlphaBetaCase_t":
                assert not hasattr(miopyx, member), "too general a name for the package's name space"
            else:
                assert getattr(miopyx, member) is getattr(enums, name)[member]


def test_unknown_numbers_are_refused():
    with pytest.raises(ValueError, match="4 is not a valid miopenDataType_t"):
        enums.miopenDataType_t(4)


def test_c_constants_have_the_same_numbers():
    text = (SOURCES / "values" / "_types.h").read_text(encoding="utf-8")
    constants = {name: int(number) for name, number in re.findall(r"\bMX_(\w+) = (\d+)", text)}
    of_c = {"HALF": "Half", "FLOAT": "Float", "INT32": "Int32", "INT8": "Int8", "BFLOAT16": "BFloat16",
            "DOUBLE": "Double", "FLOAT8": "Float8", "BFLOAT8": "BFloat8", "INT64": "Int64",
            "E4M3": "Float8_ocp", "E5M2": "BFloat8_ocp"}
    assert {f"miopen{word}": constants[name] for name, word in of_c.items()} == header()["miopenDataType_t"]
    directions = header()["miopenProblemDirection_t"]
    assert constants["FORWARD"] == directions["miopenProblemDirectionForward"]
    assert constants["BACKWARD_DATA"] == directions["miopenProblemDirectionBackward"]
    assert constants["BACKWARD_WEIGHTS"] == directions["miopenProblemDirectionBackwardWeights"]


def test_stub_says_what_the_module_has():
    """enums.pyi lists what the module makes with globals().update, which type checkers cannot see."""
    tree = ast.parse((SOURCES / "enums.pyi").read_text(encoding="utf-8"))
    classes = {node.name: {item.targets[0].id: ast.literal_eval(item.value) for item in node.body}
               for node in tree.body if isinstance(node, ast.ClassDef)}
    assert classes == {enum.__name__: {m.name: int(m) for m in enum} for enum in enums.ENUMS}
    values = {node.target.id: ast.unparse(node.value) for node in tree.body
              if isinstance(node, ast.AnnAssign) and node.value is not None}
    assert values == {m.name: f"{type(m).__name__}.{m.name}" for enum in enums.ENUMS for m in enum
                      if enum is not enums.miopenAlphaBetaCase_t}
    exported = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert ast.literal_eval(exported) == enums.__all__
