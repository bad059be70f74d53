from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, SupportsFloat

import pyopencl

from miopyx.engine._handle import Handle as _Handle
from miopyx.engine._plan import Plan
from miopyx.enums import (
    miopenBatchNormMode_t,
    miopenLossReductionMode_t,
    miopenReduceCalculationNanPropagation_t,
    miopenReduceCalculationOp_t,
    miopenReduceExtremeOp_t,
    miopenSoftmaxAlgorithm_t,
    miopenSoftmaxMode_t,
    miopenTensorOp_t,
)
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._ctc import CTCLossDescriptor
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor, _Int
from miopyx.problem._dropout import DropoutDescriptor
from miopyx.problem._lrn import LRNDescriptor
from miopyx.problem._pooling import PoolingDescriptor
from miopyx.problem._reduce import ReduceTensorDescriptor
from miopyx.problem._rnn import RNNDescriptor, SeqTensorDescriptor

VERSION: Final[tuple[int, int, int]]

class Handle(_Handle):
    def convolution_forward(
        self,
        x_desc: TensorDescriptor,
        w_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        y_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...
    def convolution_backward_data(
        self,
        dy_desc: TensorDescriptor,
        w_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        dx_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...
    def convolution_backward_weights(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        dw_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
    ) -> Plan: ...
    def convolution_bias_activation_forward(
        self,
        x_desc: TensorDescriptor,
        w_desc: TensorDescriptor,
        conv_desc: ConvolutionDescriptor,
        z_desc: TensorDescriptor | None,
        bias_desc: TensorDescriptor | None,
        activation_desc: ActivationDescriptor,
        y_desc: TensorDescriptor,
        solution_id: int | None = None,
        workspace_limit: int | None = None,
        norm_desc: TensorDescriptor | None = None,
        epsilon: float = 1e-5,
    ) -> Plan: ...
    def build_ahead(self, calls: Iterable[tuple[Any, ...]]) -> None: ...
    def activation_forward(
        self, activ_desc: ActivationDescriptor, x_desc: TensorDescriptor, y_desc: TensorDescriptor
    ) -> Plan: ...
    def activation_backward(
        self,
        activ_desc: ActivationDescriptor,
        y_desc: TensorDescriptor,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
    ) -> Plan: ...
    def lrn_forward(
        self, lrn_desc: LRNDescriptor, x_desc: TensorDescriptor, y_desc: TensorDescriptor, do_backward: bool = False
    ) -> Plan: ...
    def lrn_backward(
        self,
        lrn_desc: LRNDescriptor,
        y_desc: TensorDescriptor,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
    ) -> Plan: ...
    def pooling_forward(
        self,
        pool_desc: PoolingDescriptor,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        do_backward: bool = False,
    ) -> Plan: ...
    def pooling_backward(
        self,
        pool_desc: PoolingDescriptor,
        y_desc: TensorDescriptor,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
    ) -> Plan: ...
    def op_tensor(
        self,
        tensor_op: miopenTensorOp_t | _Int,
        a_desc: TensorDescriptor,
        b_desc: TensorDescriptor,
        c_desc: TensorDescriptor,
    ) -> Plan: ...
    def set_tensor(self, y_desc: TensorDescriptor, alpha: SupportsFloat | _Int) -> Plan: ...
    def scale_tensor(self, y_desc: TensorDescriptor) -> Plan: ...
    def transform_tensor(self, x_desc: TensorDescriptor, y_desc: TensorDescriptor) -> Plan: ...
    def copy_tensor(self, src_desc: TensorDescriptor, dst_desc: TensorDescriptor) -> Plan: ...
    def cast_tensor(
        self, src_desc: TensorDescriptor, dst_desc: TensorDescriptor, clamping: bool = False
    ) -> Plan: ...
    def softmax_forward(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        algorithm: miopenSoftmaxAlgorithm_t | _Int = 1,
        mode: miopenSoftmaxMode_t | _Int = 1,
    ) -> Plan: ...
    def softmax_backward(
        self,
        y_desc: TensorDescriptor,
        dy_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        algorithm: miopenSoftmaxAlgorithm_t | _Int = 1,
        mode: miopenSoftmaxMode_t | _Int = 1,
    ) -> Plan: ...
    def reduce_tensor(
        self, reduce_desc: ReduceTensorDescriptor, a_desc: TensorDescriptor, c_desc: TensorDescriptor
    ) -> Plan: ...
    def reduce_calculation(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        dim: _Int,
        op: miopenReduceCalculationOp_t | _Int = 2,
        nan_propagation: miopenReduceCalculationNanPropagation_t | _Int = 1,
    ) -> Plan: ...
    def reduce_extreme(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor | None,
        index_desc: TensorDescriptor,
        dim: _Int,
        op: miopenReduceExtremeOp_t | _Int,
    ) -> Plan: ...
    def dropout_forward(
        self,
        dropout_desc: DropoutDescriptor,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        reserve: bool | _Int = True,
    ) -> Plan: ...
    def dropout_backward(
        self,
        dropout_desc: DropoutDescriptor,
        dy_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        reserve: bool | _Int = True,
    ) -> Plan: ...
    def rnn_forward(
        self,
        rnn_desc: RNNDescriptor,
        x_desc: SeqTensorDescriptor,
        w_desc: TensorDescriptor,
        y_desc: SeqTensorDescriptor,
        training: bool | _Int = False,
        hx: bool | _Int = True,
        cx: bool | _Int = True,
        hy: bool | _Int = True,
        cy: bool | _Int = True,
    ) -> Plan: ...
    def rnn_backward_data(
        self,
        rnn_desc: RNNDescriptor,
        y_desc: SeqTensorDescriptor,
        w_desc: TensorDescriptor,
        x_desc: SeqTensorDescriptor,
        hx: bool | _Int = True,
        cx: bool | _Int = True,
        dhy: bool | _Int = True,
        dcy: bool | _Int = True,
        dhx: bool | _Int = True,
        dcx: bool | _Int = True,
    ) -> Plan: ...
    def rnn_backward_weights(
        self,
        rnn_desc: RNNDescriptor,
        x_desc: SeqTensorDescriptor,
        y_desc: SeqTensorDescriptor,
        dw_desc: TensorDescriptor,
        hx: bool | _Int = True,
    ) -> Plan: ...
    def layer_norm_forward(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        normalized_dim: _Int,
        weight_desc: TensorDescriptor | None = None,
        bias_desc: TensorDescriptor | None = None,
        mean_desc: TensorDescriptor | None = None,
        rstd_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def layer_norm_backward(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        mean_desc: TensorDescriptor,
        rstd_desc: TensorDescriptor,
        normalized_dim: _Int,
        weight_desc: TensorDescriptor | None = None,
        dw_desc: TensorDescriptor | None = None,
        db_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def add_layer_norm_forward(
        self,
        x_desc: TensorDescriptor,
        x2_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        normalized_dim: _Int,
        weight_desc: TensorDescriptor | None = None,
        bias_desc: TensorDescriptor | None = None,
        mean_desc: TensorDescriptor | None = None,
        rstd_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def add_layer_norm_backward(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        x2_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        mean_desc: TensorDescriptor,
        rstd_desc: TensorDescriptor,
        normalized_dim: _Int,
        weight_desc: TensorDescriptor | None = None,
        dw_desc: TensorDescriptor | None = None,
        db_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def t5_layer_norm_forward(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        weight_desc: TensorDescriptor | None = None,
        rstd_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def t5_layer_norm_backward(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        rstd_desc: TensorDescriptor,
        weight_desc: TensorDescriptor | None = None,
        dw_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def group_norm_forward(
        self,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        num_groups: _Int,
        weight_desc: TensorDescriptor | None = None,
        bias_desc: TensorDescriptor | None = None,
        mean_desc: TensorDescriptor | None = None,
        rstd_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def group_norm_backward(
        self,
        dy_desc: TensorDescriptor,
        x_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        mean_desc: TensorDescriptor,
        rstd_desc: TensorDescriptor,
        num_groups: _Int,
        weight_desc: TensorDescriptor | None = None,
        dw_desc: TensorDescriptor | None = None,
        db_desc: TensorDescriptor | None = None,
    ) -> Plan: ...
    def batch_norm_training(
        self,
        mode: miopenBatchNormMode_t | _Int,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        bn_desc: TensorDescriptor,
        running: bool = True,
        save: bool = True,
        activ_desc: ActivationDescriptor | None = None,
    ) -> Plan: ...
    def batch_norm_inference(
        self,
        mode: miopenBatchNormMode_t | _Int,
        x_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
        bn_desc: TensorDescriptor,
        activ_desc: ActivationDescriptor | None = None,
    ) -> Plan: ...
    def batch_norm_backward(
        self,
        mode: miopenBatchNormMode_t | _Int,
        x_desc: TensorDescriptor,
        dy_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
        bn_desc: TensorDescriptor,
        saved: bool = True,
        activ_desc: ActivationDescriptor | None = None,
    ) -> Plan: ...
    def cat_forward(
        self,
        x_descs: Sequence[TensorDescriptor],
        y_desc: TensorDescriptor,
        dim: _Int,
    ) -> Plan: ...
    def glu_forward(
        self,
        input_desc: TensorDescriptor,
        output_desc: TensorDescriptor,
        dim: _Int,
    ) -> Plan: ...
    def glu_backward(
        self,
        input_desc: TensorDescriptor,
        output_grad_desc: TensorDescriptor,
        input_grad_desc: TensorDescriptor,
        dim: _Int,
    ) -> Plan: ...
    def prelu_backward(
        self,
        input_desc: TensorDescriptor,
        weight_desc: TensorDescriptor,
        doutput_desc: TensorDescriptor,
        dinput_desc: TensorDescriptor,
        dweight_desc: TensorDescriptor,
    ) -> Plan: ...
    def ctc_loss(
        self,
        probs_desc: TensorDescriptor,
        gradients_desc: TensorDescriptor,
        ctc_desc: CTCLossDescriptor,
        most_labels: _Int,
    ) -> Plan: ...
    def kthvalue_forward(
        self,
        input_desc: TensorDescriptor,
        output_desc: TensorDescriptor,
        indices_desc: TensorDescriptor,
        k: _Int,
        dim: _Int = -1,
        keep_dim: bool = False,
    ) -> Plan: ...
    def getitem_backward(
        self,
        dy_desc: TensorDescriptor,
        index_descs: Sequence[TensorDescriptor],
        dx_desc: TensorDescriptor,
        error_desc: TensorDescriptor | None,
        dims: Sequence[_Int],
        slices: Sequence[Sequence[_Int]] = (),
        offset: _Int = 0,
    ) -> Plan: ...
    def rope_forward(
        self,
        x_desc: TensorDescriptor,
        cos_desc: TensorDescriptor,
        sin_desc: TensorDescriptor,
        y_desc: TensorDescriptor,
    ) -> Plan: ...
    def rope_backward(
        self,
        dy_desc: TensorDescriptor,
        cos_desc: TensorDescriptor,
        sin_desc: TensorDescriptor,
        dx_desc: TensorDescriptor,
    ) -> Plan: ...
    def soft_margin_loss_forward(
        self,
        input_desc: TensorDescriptor,
        target_desc: TensorDescriptor,
        output_desc: TensorDescriptor,
        reduction: miopenLossReductionMode_t | _Int | str = 0,
    ) -> Plan: ...
    def soft_margin_loss_backward(
        self,
        input_desc: TensorDescriptor,
        target_desc: TensorDescriptor,
        doutput_desc: TensorDescriptor,
        dinput_desc: TensorDescriptor,
        reduction: miopenLossReductionMode_t | _Int | str = 0,
    ) -> Plan: ...
    def multi_margin_loss_forward(
        self,
        input_desc: TensorDescriptor,
        target_desc: TensorDescriptor,
        weight_desc: TensorDescriptor,
        output_desc: TensorDescriptor,
        p: _Int = 1,
        margin: SupportsFloat = 1.0,
        reduction: miopenLossReductionMode_t | _Int | str = 0,
    ) -> Plan: ...
    def fused_adam(
        self,
        param_desc: TensorDescriptor,
        grad_desc: TensorDescriptor,
        exp_avg_desc: TensorDescriptor,
        exp_avg_sq_desc: TensorDescriptor,
        state_step_desc: TensorDescriptor,
        max_exp_avg_sq_desc: TensorDescriptor | None = None,
        grad_scale_desc: TensorDescriptor | None = None,
        found_inf_desc: TensorDescriptor | None = None,
        lr: SupportsFloat = 0.001,
        beta1: SupportsFloat = 0.9,
        beta2: SupportsFloat = 0.999,
        weight_decay: SupportsFloat = 0.0,
        eps: SupportsFloat = 1e-08,
        maximize: bool = False,
        adamw: bool = False,
    ) -> Plan: ...
    def transformers_adam_w(
        self,
        param_desc: TensorDescriptor,
        grad_desc: TensorDescriptor,
        exp_avg_desc: TensorDescriptor,
        exp_avg_sq_desc: TensorDescriptor,
        state_step_desc: TensorDescriptor,
        grad_scale_desc: TensorDescriptor | None = None,
        found_inf_desc: TensorDescriptor | None = None,
        lr: SupportsFloat = 0.001,
        beta1: SupportsFloat = 0.9,
        beta2: SupportsFloat = 0.999,
        weight_decay: SupportsFloat = 0.0,
        eps: SupportsFloat = 1e-08,
        correct_bias: bool = True,
    ) -> Plan: ...

def miopenCreate() -> Handle: ...
def miopenCreateWithStream(stream: pyopencl.CommandQueue) -> Handle: ...
def miopenDestroy(handle: _Handle | None) -> None: ...
def miopenSetStream(handle: _Handle, streamID: pyopencl.CommandQueue) -> None: ...
def miopenGetStream(handle: _Handle) -> pyopencl.CommandQueue | None: ...
def miopenSetAllocator(
    handle: _Handle,
    allocator: Callable[[Any, int], Any] | None,
    deallocator: Callable[[Any, Any], object] | None,
    allocatorContext: Any,
) -> None: ...
def miopenEnableProfiling(handle: _Handle, enable: bool) -> None: ...
def miopenGetKernelTime(handle: _Handle) -> float: ...
def miopenGetVersion() -> tuple[int, int, int]: ...
def miopenGetErrorString(error: int) -> str: ...

__all__ = [  # noqa: RUF022 - in the order of the header
    "Handle", "miopenCreate", "miopenCreateWithStream", "miopenDestroy", "miopenSetStream", "miopenGetStream",
    "miopenSetAllocator", "miopenEnableProfiling", "miopenGetKernelTime", "miopenGetVersion", "miopenGetErrorString",
]
