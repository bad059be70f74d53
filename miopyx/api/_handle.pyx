"""Handle functions of miopen.h, library version and error strings."""

from miopyx.values._args cimport to_flag

from miopyx.choose import switches
from miopyx.engine._handle import Handle as _Handle
from miopyx.enums import miopenStatus_t
from miopyx.errors import BadParmError

from ._activation import plan_activation_backward, plan_activation_forward
from ._adam import plan_fused_adam, plan_transformers_adam_w
from ._batchnorm import plan_batch_norm_backward, plan_batch_norm_inference, plan_batch_norm_training
from ._cat import plan_cat_forward
from ._convolution import build_ahead, plan_backward_data, plan_backward_weights, plan_forward
from ._ctc import plan_ctc_loss
from ._fusion import plan_bias_activation
from ._getitem import plan_getitem_backward
from ._glu import plan_glu_backward, plan_glu_forward
from ._kthvalue import plan_kthvalue_forward
from ._losses import (
    plan_multi_margin_loss_forward, plan_soft_margin_loss_backward, plan_soft_margin_loss_forward,
)
from ._lrn import plan_lrn_backward, plan_lrn_forward
from ._pooling import plan_pooling_backward, plan_pooling_forward
from ._layernorm import (
    plan_add_layer_norm_backward, plan_add_layer_norm_forward, plan_group_norm_backward, plan_group_norm_forward,
    plan_layer_norm_backward, plan_layer_norm_forward, plan_t5_layer_norm_backward, plan_t5_layer_norm_forward,
)
from ._dropout import plan_dropout_backward, plan_dropout_forward
from ._prelu import plan_prelu_backward
from ._reduce import plan_reduce_calculation, plan_reduce_extreme, plan_reduce_tensor
from ._rnn import plan_rnn_backward_data, plan_rnn_backward_weights, plan_rnn_forward
from ._rope import plan_rope_backward, plan_rope_forward
from ._softmax import plan_softmax_backward, plan_softmax_forward
from ._tensor_ops import (
    plan_cast_tensor, plan_copy_tensor, plan_op_tensor, plan_scale_tensor, plan_set_tensor, plan_transform_tensor,
)

VERSION = (3, 3, 0)


class Handle(_Handle):
    __doc__ = _Handle.__doc__

    def __init__(self, device=None, stream=None):
        switches.review()
        super().__init__(device, stream)

    def convolution_forward(self, x_desc, w_desc, conv_desc, y_desc, solution_id=None, workspace_limit=None):
        """Return a prepared plan: ``plan(x, w, y)`` computes y.

        Parameters
        ----------
        x_desc, w_desc, y_desc : TensorDescriptor
        conv_desc : ConvolutionDescriptor
        solution_id : int, optional
            A solver to take; default: the fastest that this handle's Finds or the databases know, else the best by
            index.
        workspace_limit : int, optional
            Bytes that the plan may use.
        """
        return plan_forward(self, x_desc, w_desc, conv_desc, y_desc, solution_id, workspace_limit)

    def convolution_backward_data(self, dy_desc, w_desc, conv_desc, dx_desc, solution_id=None, workspace_limit=None):
        """Return a prepared plan: ``plan(dy, w, dx)`` computes dx.  Parameters as for convolution_forward."""
        return plan_backward_data(self, dy_desc, w_desc, conv_desc, dx_desc, solution_id, workspace_limit)

    def convolution_backward_weights(self, dy_desc, x_desc, conv_desc, dw_desc, solution_id=None,
                                     workspace_limit=None):
        """Return a prepared plan: ``plan(dy, x, dw)`` computes dw.  Parameters as for convolution_forward."""
        return plan_backward_weights(self, dy_desc, x_desc, conv_desc, dw_desc, solution_id, workspace_limit)

    def convolution_bias_activation_forward(self, x_desc, w_desc, conv_desc, z_desc, bias_desc, activation_desc,
                                            y_desc, solution_id=None, workspace_limit=None, norm_desc=None,
                                            epsilon=1e-5):
        """Return a prepared plan: ``plan(x, w, z, bias, y)`` computes y = act(alpha1 conv(x, w) + alpha2 z + bias).

        It takes no z, or no bias, where that has no descriptor.  With `norm_desc` it takes scale, shift, mean and
        variance before y, and computes act((alpha1 conv(x, w) + bias - mean) scale / sqrt(variance + epsilon) + shift +
        alpha2 z).  alpha1 and alpha2 may follow y; they are 1.

        Parameters
        ----------
        x_desc, w_desc, y_desc : TensorDescriptor
        conv_desc : ConvolutionDescriptor
        z_desc : TensorDescriptor or None
            With the lengths, strides and type of y; z may be y.
        bias_desc : TensorDescriptor or None
            1, k, 1, 1.
        activation_desc : ActivationDescriptor
        solution_id, workspace_limit : int, optional
            As for convolution_forward.
        norm_desc : TensorDescriptor, optional
            1, k, 1, 1: of batch norm's four tensors.
        epsilon : float, >= 0
            Batch norm's.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenConvolutionBiasActivationForward raises for descriptors that do not fit each other.
        """
        return plan_bias_activation(self, x_desc, w_desc, conv_desc, z_desc, bias_desc, activation_desc, y_desc,
                                    solution_id, workspace_limit, norm_desc, epsilon)

    def build_ahead(self, calls):
        """Build the programs of many convolutions at once, on several cores; their plans are made quickly after that.

        Parameters
        ----------
        calls : iterable of tuples
            ``("forward", x_desc, w_desc, conv_desc, y_desc)``, ``("backward_data", dy_desc, w_desc, conv_desc,
            dx_desc)`` or ``("backward_weights", dy_desc, x_desc, conv_desc, dw_desc)``, as the methods of these names
            take descriptors.

        Raises
        ------
        BadParmError
            For anything else, and for descriptors that do not fit each other.  A program that does not build is no
            error here: a plan takes the next solver, or says why there is none.
        """
        build_ahead(self, calls)

    def activation_forward(self, activ_desc, x_desc, y_desc):
        """Return a prepared plan: ``plan(x, y)`` computes y, which may be x.

        Parameters
        ----------
        activ_desc : ActivationDescriptor
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenActivationForward raises for descriptors that do not fit each other.
        """
        return plan_activation_forward(self, activ_desc, x_desc, y_desc)

    def activation_backward(self, activ_desc, y_desc, dy_desc, x_desc, dx_desc):
        """Return a prepared plan: ``plan(y, dy, x, dx)`` computes dx, which may be dy; what the mode does not read may
        be None (see miopenActivationBackward).

        Parameters
        ----------
        activ_desc : ActivationDescriptor
        y_desc, dy_desc, x_desc, dx_desc : TensorDescriptor
            Equal lengths and types, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenActivationBackward raises for descriptors that do not fit each other.
        """
        return plan_activation_backward(self, activ_desc, y_desc, dy_desc, x_desc, dx_desc)

    def lrn_forward(self, lrn_desc, x_desc, y_desc, do_backward=False):
        """Return a prepared plan: ``plan(x, y)`` computes y; with `do_backward`, ``plan(x, y, workSpace)``.

        Parameters
        ----------
        lrn_desc : LRNDescriptor
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, any strides.
        do_backward : bool
            Whether the scales are stored in a workspace of miopenLRNGetWorkSpaceSize(y_desc) bytes.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenLRNForward raises for descriptors that do not fit each other.
        """
        return plan_lrn_forward(self, lrn_desc, x_desc, y_desc, do_backward)

    def lrn_backward(self, lrn_desc, y_desc, dy_desc, x_desc, dx_desc):
        """Return a prepared plan: ``plan(y, dy, x, dx, workSpace)`` computes dx (see miopenLRNBackward).

        Parameters
        ----------
        lrn_desc : LRNDescriptor
        y_desc, dy_desc, x_desc, dx_desc : TensorDescriptor
            Equal lengths and types, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenLRNBackward raises for descriptors that do not fit each other.
        """
        return plan_lrn_backward(self, lrn_desc, y_desc, dy_desc, x_desc, dx_desc)

    def batch_norm_training(self, mode, x_desc, y_desc, bn_desc, running=True, save=True, activ_desc=None):
        """Return a prepared plan: ``plan(x, y, scale, bias, running_mean, running_var, saved_mean, saved_inv)``.

        It computes y and the statistics (see miopenBatchNormalizationForwardTraining).

        exp_avg_factor=0.1 and epsilon=1e-5 may follow by position or name.

        Parameters
        ----------
        mode : miopenBatchNormMode_t
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, any strides; y may be x.
        bn_desc : TensorDescriptor
            Of all parameters and statistics, see miopenDeriveBNTensorDescriptor.
        running, save : bool
            Whether the running and the saved statistics are wanted; a call passes None for what is not.
        activ_desc : ActivationDescriptor, optional
            What follows (see miopenBatchNormForwardTrainingActivation).

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenBatchNormalizationForwardTraining raises for descriptors that do not fit each other.
        """
        return plan_batch_norm_training(self, mode, x_desc, y_desc, bn_desc, running, save, activ_desc)

    def batch_norm_inference(self, mode, x_desc, y_desc, bn_desc, activ_desc=None):
        """Return a prepared plan: ``plan(x, y, scale, bias, est_mean, est_var, epsilon=1e-5)`` computes y.

        Parameters and errors as for batch_norm_training (see miopenBatchNormalizationForwardInference).  A call takes
        both estimates.
        """
        return plan_batch_norm_inference(self, mode, x_desc, y_desc, bn_desc, activ_desc)

    def batch_norm_backward(self, mode, x_desc, dy_desc, dx_desc, bn_desc, saved=True, activ_desc=None):
        """Return a prepared plan: ``plan(x, dy, dx, scale, dscale, dbias, saved_mean, saved_inv, epsilon=1e-5)``
        computes dx, dscale and dbias.  With an activation the bias stands behind saved_inv.

        Parameters
        ----------
        mode, x_desc, dy_desc, dx_desc, bn_desc
            As for batch_norm_training; dx may be x or dy.
        saved : bool
            Whether a call passes the saved statistics; without them it passes None and they are computed from x.
        activ_desc : ActivationDescriptor, optional
            What followed the batch normalisation (see miopenBatchNormBackwardActivation).

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenBatchNormalizationBackward raises for descriptors that do not fit each other.
        """
        return plan_batch_norm_backward(self, mode, x_desc, dy_desc, dx_desc, bn_desc, saved, activ_desc)

    def pooling_forward(self, pool_desc, x_desc, y_desc, do_backward=False):
        """Return a prepared plan: ``plan(x, y)`` computes y; for max with `do_backward`, ``plan(x, y, workSpace)``.

        Parameters
        ----------
        pool_desc : PoolingDescriptor
        x_desc, y_desc : TensorDescriptor
            Equal types, any strides; y's lengths are pool_desc.output_lens(x_desc).
        do_backward : bool
            Whether the places of maxima are stored, in a workspace of miopenPoolingGetWorkSpaceSizeV2(pool_desc,
            y_desc) bytes; averages need none.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenPoolingForward raises for descriptors that do not fit each other.
        """
        return plan_pooling_forward(self, pool_desc, x_desc, y_desc, do_backward)

    def pooling_backward(self, pool_desc, y_desc, dy_desc, x_desc, dx_desc):
        """Return a prepared plan: ``plan(dy, dx, workSpace)`` computes dx of max pooling, ``plan(dy, dx)`` of averages.

        Parameters
        ----------
        pool_desc : PoolingDescriptor
        y_desc, dy_desc, x_desc, dx_desc : TensorDescriptor
            dy of y's lengths, dx of x's; equal types, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenPoolingBackward raises for descriptors that do not fit each other.
        """
        return plan_pooling_backward(self, pool_desc, y_desc, dy_desc, x_desc, dx_desc)

    def op_tensor(self, tensor_op, a_desc, b_desc, c_desc):
        """Return a prepared plan: ``plan(A, B, C, alpha1=1, alpha2=1, beta=0)`` computes C (see miopenOpTensor).

        Parameters
        ----------
        tensor_op : miopenTensorOp_t
        a_desc, b_desc, c_desc : TensorDescriptor
            A of C's lengths, B of C's lengths or 1; one type, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenOpTensor raises for descriptors that do not fit each other.
        """
        return plan_op_tensor(self, tensor_op, a_desc, b_desc, c_desc)

    def set_tensor(self, y_desc, alpha):
        """Return a prepared plan: ``plan(y)`` sets every element of y to alpha (see miopenSetTensor).

        Parameters
        ----------
        y_desc : TensorDescriptor
        alpha : float or int
            A number that y's type can hold, else BadParmError.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenSetTensor raises for descriptors that do not fit each other.
        """
        return plan_set_tensor(self, y_desc, alpha)

    def scale_tensor(self, y_desc):
        """Return a prepared plan: ``plan(y, alpha)`` computes y = alpha y (see miopenScaleTensor).

        Parameters
        ----------
        y_desc : TensorDescriptor
            A floating-point type, int8 or int32; any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenScaleTensor raises for descriptors that do not fit each other.
        """
        return plan_scale_tensor(self, y_desc)

    def transform_tensor(self, x_desc, y_desc):
        """Return a prepared plan: ``plan(x, y, alpha=1, beta=0)`` computes y (see miopenTransformTensor).

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, any strides.  Plans of int8 and int64 tensors take no alpha and beta.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenTransformTensor raises for descriptors that do not fit each other.
        """
        return plan_transform_tensor(self, x_desc, y_desc)

    def copy_tensor(self, src_desc, dst_desc):
        """Return a prepared plan: ``plan(src, dst)`` copies src (see miopyx.copy_tensor).

        Parameters
        ----------
        src_desc, dst_desc : TensorDescriptor
            Equal lengths and types, any strides.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopyx.copy_tensor raises for descriptors that do not fit each other.
        """
        return plan_copy_tensor(self, src_desc, dst_desc)

    def cast_tensor(self, src_desc, dst_desc, clamping=False):
        """Return a prepared plan: ``plan(src, dst, alpha=1)`` converts src (see miopyx.cast_tensor).

        Parameters
        ----------
        src_desc, dst_desc : TensorDescriptor
            Equal lengths, any strides.
        clamping : bool
            Whether what is beyond dst's type becomes its nearest finite number.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopyx.cast_tensor raises for descriptors that do not fit each other.
        """
        return plan_cast_tensor(self, src_desc, dst_desc, clamping)

    def softmax_forward(self, x_desc, y_desc, algorithm=1, mode=1):
        """Return a prepared plan: ``plan(x, y, alpha=1.0, beta=0.0)`` computes y, which may be x.

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, any strides.
        algorithm : miopenSoftmaxAlgorithm_t, optional
            Default: MIOPEN_SOFTMAX_ACCURATE.
        mode : miopenSoftmaxMode_t, optional
            Default: MIOPEN_SOFTMAX_MODE_CHANNEL.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenSoftmaxForward_V2 raises for descriptors that do not fit each other.
        """
        return plan_softmax_forward(self, x_desc, y_desc, algorithm, mode)

    def softmax_backward(self, y_desc, dy_desc, dx_desc, algorithm=1, mode=1):
        """Return a prepared plan: ``plan(y, dy, dx, alpha=1.0, beta=0.0)`` computes dx, which may be dy or y.

        Parameters
        ----------
        y_desc, dy_desc, dx_desc : TensorDescriptor
            Equal lengths and types; y and dy have the same strides.
        algorithm, mode : int, optional
            As for softmax_forward.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenSoftmaxBackward_V2 raises for descriptors that do not fit each other.
        """
        return plan_softmax_backward(self, y_desc, dy_desc, dx_desc, algorithm, mode)

    def reduce_tensor(self, reduce_desc, a_desc, c_desc):
        """Return a prepared plan: ``plan(a, c, indices, alpha=1, beta=0)`` computes c = alpha * op(a) + beta * c.

        Where reduce_desc wants no indices the plan takes no buffer for them.

        Parameters
        ----------
        reduce_desc : ReduceTensorDescriptor
        a_desc, c_desc : TensorDescriptor
            c has length 1 along the axes that are reduced.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenReduceTensor raises for descriptors that do not fit each other.
        """
        return plan_reduce_tensor(self, reduce_desc, a_desc, c_desc)

    def reduce_calculation(self, x_desc, y_desc, dim, op=2, nan_propagation=1):
        """Return a prepared plan: ``plan(x, y)`` computes the sums or products of x along one axis.

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            y lacks the axis.
        dim : int
        op : miopenReduceCalculationOp_t, optional
            Default: the sum.
        nan_propagation : miopenReduceCalculationNanPropagation_t, optional
            Default: a NaN makes a result NaN.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenReduceCalculationForward raises for descriptors that do not fit each other.
        """
        return plan_reduce_calculation(self, x_desc, y_desc, dim, op, nan_propagation)

    def reduce_extreme(self, x_desc, y_desc, index_desc, dim, op):
        """Return a prepared plan: ``plan(x, y, index)`` finds the least or largest elements of x along one axis.

        For ARGMIN and ARGMAX y_desc is not looked at and the plan is ``plan(x, index)``.

        Parameters
        ----------
        x_desc, y_desc, index_desc : TensorDescriptor
            y and the int32 index lack the axis.
        dim : int
        op : miopenReduceExtremeOp_t

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenReduceExtremeForward raises for descriptors that do not fit each other.
        """
        return plan_reduce_extreme(self, x_desc, y_desc, index_desc, dim, op)

    def dropout_forward(self, dropout_desc, x_desc, y_desc, reserve=True):
        """Return a prepared plan: ``plan(x, y, reserve, states)`` drops elements of x.

        The states are the plan's last buffer.

        Parameters
        ----------
        dropout_desc : DropoutDescriptor
            With use_mask the mask is read from `reserve`, and the plan takes no states.
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types; y may be x.
        reserve : bool
            Whether the mask is kept; otherwise None stands for it among the buffers.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenDropoutForward raises for descriptors that do not fit each other.
        """
        return plan_dropout_forward(self, dropout_desc, x_desc, y_desc, reserve)

    def dropout_backward(self, dropout_desc, dy_desc, dx_desc, reserve=True):
        """Return a prepared plan: ``plan(dy, dx, reserve)`` computes dx from the mask of the forward pass.

        Parameters
        ----------
        dropout_desc : DropoutDescriptor
        dy_desc, dx_desc : TensorDescriptor
            Equal lengths and types; dx may be dy.
        reserve : bool
            False: the mask is drawn again, from states that stayed as they were: ``plan(dy, dx, None, states)``.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenDropoutBackward raises for descriptors that do not fit each other.
        """
        return plan_dropout_backward(self, dropout_desc, dy_desc, dx_desc, reserve)

    def rnn_forward(self, rnn_desc, x_desc, w_desc, y_desc, training=False, hx=True, cx=True, hy=True, cy=True):
        """Return a prepared plan: ``plan(x, w, hx, cx, y, hy, cy)`` computes recurrent layers.

        Behind those buffers comes `reserve` in training, then `table`, which x_desc.table or its copy on the device is,
        where sequences differ in length, then `states` where elements are dropped.  ``plan.buffers`` has the names.

        Parameters
        ----------
        rnn_desc : RNNDescriptor
        x_desc, y_desc : SeqTensorDescriptor
        w_desc : TensorDescriptor
            As miopenGetRNNParamsDescriptor sets it, or of one length.
        training : bool
            Whether what gradients need is kept.
        hx, cx, hy, cy : bool
            Whether first states are given and last ones are wanted; those of cells are LSTM's.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenRNNForward raises for descriptors that do not fit each other.
        """
        return plan_rnn_forward(self, rnn_desc, x_desc, w_desc, y_desc, training, hx, cx, hy, cy)

    def rnn_backward_data(self, rnn_desc, y_desc, w_desc, x_desc, hx=True, cx=True, dhy=True, dcy=True, dhx=True,
                          dcx=True):
        """Return a prepared plan: ``plan(y, dy, w, hx, cx, dhy, dcy, dx, dhx, dcx, reserve)`` computes dx, dhx and dcx.

        Behind those buffers comes `table`, as of rnn_forward.

        Parameters
        ----------
        rnn_desc : RNNDescriptor
        y_desc, x_desc : SeqTensorDescriptor
        w_desc : TensorDescriptor
        hx, cx, dhy, dcy, dhx, dcx : bool
            Whether they are given, or wanted.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenRNNBackwardSeqData raises for descriptors that do not fit each other.
        """
        return plan_rnn_backward_data(self, rnn_desc, y_desc, w_desc, x_desc, hx, cx, dhy, dcy, dhx, dcx)

    def rnn_backward_weights(self, rnn_desc, x_desc, y_desc, dw_desc, hx=True):
        """Return a prepared plan: ``plan(x, hx, y, dw, reserve)`` computes dw.

        Behind those buffers comes `table`, as of rnn_forward.

        Parameters
        ----------
        rnn_desc : RNNDescriptor
        x_desc, y_desc : SeqTensorDescriptor
        dw_desc : TensorDescriptor
        hx : bool
            Whether the first states are given.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenRNNBackwardWeightsSeqTensor raises for descriptors that do not fit each other.
        """
        return plan_rnn_backward_weights(self, rnn_desc, x_desc, y_desc, dw_desc, hx)

    def layer_norm_forward(self, x_desc, y_desc, normalized_dim, weight_desc=None, bias_desc=None, mean_desc=None,
                           rstd_desc=None):
        """Return a prepared plan: ``plan(x, weight, bias, y, mean, rstd, epsilon=1e-5)`` computes y.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, packed; y may be x.
        normalized_dim : int
            The first axis that is normalised.
        weight_desc, bias_desc, mean_desc, rstd_desc : TensorDescriptor, optional
            Weights and biases, and the statistics that are written.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenLayerNormForward raises for descriptors that do not fit each other.
        """
        return plan_layer_norm_forward(self, x_desc, y_desc, normalized_dim, weight_desc, bias_desc, mean_desc,
                                       rstd_desc)

    def layer_norm_backward(self, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, normalized_dim, weight_desc=None,
                            dw_desc=None, db_desc=None):
        """Return a prepared plan: ``plan(dy, x, weight, mean, rstd, dx, dw, db)`` computes dx.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        dy_desc, x_desc, dx_desc : TensorDescriptor
            Equal lengths and types, packed; dx may be dy or x.
        mean_desc, rstd_desc : TensorDescriptor
            What the forward pass wrote.
        normalized_dim : int
            The first axis that is normalised.
        weight_desc, dw_desc, db_desc : TensorDescriptor, optional
            Weights, and the gradients that are written beside dx.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenLayerNormBackward raises for descriptors that do not fit each other.
        """
        return plan_layer_norm_backward(self, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, normalized_dim,
                                        weight_desc,
                                        dw_desc, db_desc)

    def add_layer_norm_forward(self, x_desc, x2_desc, y_desc, normalized_dim, weight_desc=None, bias_desc=None,
                               mean_desc=None, rstd_desc=None):
        """Return a prepared plan: ``plan(x, x2, weight, bias, y, mean, rstd, epsilon=1e-5)`` computes y of x + x2.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        x_desc, x2_desc, y_desc : TensorDescriptor
            Equal lengths and types, packed; y may be x or x2.
        normalized_dim : int
            The first axis that is normalised.
        weight_desc, bias_desc, mean_desc, rstd_desc : TensorDescriptor, optional
            Weights and biases, and the statistics that are written.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenAddLayerNormForward raises for descriptors that do not fit each other.
        """
        return plan_add_layer_norm_forward(self, x_desc, x2_desc, y_desc, normalized_dim, weight_desc, bias_desc,
                                           mean_desc,
                                           rstd_desc)

    def add_layer_norm_backward(self, dy_desc, x_desc, x2_desc, dx_desc, mean_desc, rstd_desc, normalized_dim,
                                weight_desc=None, dw_desc=None, db_desc=None):
        """Return a prepared plan: ``plan(dy, x, x2, weight, mean, rstd, dx, dw, db)`` computes dx.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        dy_desc, x_desc, x2_desc, dx_desc : TensorDescriptor
            Equal lengths and types, packed; dx may be one of the others.
        mean_desc, rstd_desc : TensorDescriptor
            What the forward pass wrote.
        normalized_dim : int
            The first axis that is normalised.
        weight_desc, dw_desc, db_desc : TensorDescriptor, optional
            Weights, and the gradients that are written beside dx.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenAddLayerNormBackward raises for descriptors that do not fit each other.
        """
        return plan_add_layer_norm_backward(self, dy_desc, x_desc, x2_desc, dx_desc, mean_desc, rstd_desc,
                                            normalized_dim,
                                            weight_desc, dw_desc, db_desc)

    def t5_layer_norm_forward(self, x_desc, y_desc, weight_desc=None, rstd_desc=None):
        """Return a prepared plan: ``plan(x, weight, y, rstd, epsilon=1e-5)`` computes y, the RMS norm of x.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, packed; y may be x.
        weight_desc, rstd_desc : TensorDescriptor, optional
            Weights, and the statistics that are written.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenT5LayerNormForward raises for descriptors that do not fit each other.
        """
        return plan_t5_layer_norm_forward(self, x_desc, y_desc, weight_desc, rstd_desc)

    def t5_layer_norm_backward(self, dy_desc, x_desc, dx_desc, rstd_desc, weight_desc=None, dw_desc=None):
        """Return a prepared plan: ``plan(dy, x, weight, rstd, dx, dw)`` computes dx.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        dy_desc, x_desc, dx_desc : TensorDescriptor
            Equal lengths and types, packed; dx may be dy or x.
        rstd_desc : TensorDescriptor
            What the forward pass wrote.
        weight_desc, dw_desc : TensorDescriptor, optional
            Weights, and their gradient.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenT5LayerNormBackward raises for descriptors that do not fit each other.
        """
        return plan_t5_layer_norm_backward(self, dy_desc, x_desc, dx_desc, rstd_desc, weight_desc, dw_desc)

    def group_norm_forward(self, x_desc, y_desc, num_groups, weight_desc=None, bias_desc=None, mean_desc=None,
                           rstd_desc=None):
        """Return a prepared plan: ``plan(x, weight, bias, y, mean, rstd, epsilon=1e-5)`` computes y.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        x_desc, y_desc : TensorDescriptor
            Equal lengths and types, packed; y may be x.
        num_groups : int
            A divisor of the channels.
        weight_desc, bias_desc, mean_desc, rstd_desc : TensorDescriptor, optional
            Weights and biases, and the statistics that are written.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenGroupNormForward raises for descriptors that do not fit each other.
        """
        return plan_group_norm_forward(self, x_desc, y_desc, num_groups, weight_desc, bias_desc, mean_desc, rstd_desc)

    def group_norm_backward(self, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, num_groups, weight_desc=None,
                            dw_desc=None, db_desc=None):
        """Return a prepared plan: ``plan(dy, x, weight, mean, rstd, dx, dw, db)`` computes dx.

        What is None here is left out: no weights, no biases, not wanted; the plan takes no buffer for it.

        Parameters
        ----------
        dy_desc, x_desc, dx_desc : TensorDescriptor
            Equal lengths and types, packed; dx may be dy or x.
        mean_desc, rstd_desc : TensorDescriptor
            What the forward pass wrote.
        num_groups : int
            A divisor of the channels.
        weight_desc, dw_desc, db_desc : TensorDescriptor, optional
            Weights, and the gradients that are written beside dx.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenGroupNormBackward raises for descriptors that do not fit each other.
        """
        return plan_group_norm_backward(self, dy_desc, x_desc, dx_desc, mean_desc, rstd_desc, num_groups, weight_desc,
                                        dw_desc,
                                        db_desc)

    def cat_forward(self, x_descs, y_desc, dim):
        """Return a prepared plan: ``plan(*xs, y)`` puts the tensors of xs one behind the other along axis `dim`.

        Parameters
        ----------
        x_descs : list of TensorDescriptor
            1 to 15.
        y_desc : TensorDescriptor
        dim : int

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenCatForward raises for descriptors that do not fit each other.
        """
        return plan_cat_forward(self, x_descs, y_desc, dim)

    def glu_forward(self, input_desc, output_desc, dim):
        """Return a prepared plan: ``plan(input, output)`` computes a / (1 + e^-b) of the halves a, b along axis `dim`.

        Parameters
        ----------
        input_desc, output_desc : TensorDescriptor
            output has half of input's length along dim.
        dim : int

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenGLUForward raises for descriptors that do not fit each other.
        """
        return plan_glu_forward(self, input_desc, output_desc, dim)

    def glu_backward(self, input_desc, output_grad_desc, input_grad_desc, dim):
        """Return a prepared plan: ``plan(input, outputGrad, inputGrad)`` computes inputGrad, which may be input.

        Parameters
        ----------
        input_desc, output_grad_desc, input_grad_desc : TensorDescriptor
        dim : int

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenGLUBackward raises for descriptors that do not fit each other.
        """
        return plan_glu_backward(self, input_desc, output_grad_desc, input_grad_desc, dim)

    def prelu_backward(self, input_desc, weight_desc, doutput_desc, dinput_desc, dweight_desc):
        """Return a prepared plan: ``plan(input, weight, doutput, dinput, dweight)`` computes dinput and dweight.

        Parameters
        ----------
        input_desc, weight_desc, doutput_desc, dinput_desc, dweight_desc : TensorDescriptor

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenPReLUBackward raises for descriptors that do not fit each other.
        """
        return plan_prelu_backward(self, input_desc, weight_desc, doutput_desc, dinput_desc, dweight_desc)

    def kthvalue_forward(self, input_desc, output_desc, indices_desc, k, dim=-1, keep_dim=False):
        """Return a prepared plan: ``plan(input, output, indices)`` finds the k-th smallest number of each row.

        Parameters
        ----------
        input_desc, output_desc, indices_desc : TensorDescriptor
            output and the int64 indices lack the axis, with keep_dim it has length 1.
        k : int
            From 1 on.
        dim : int
            The axis of the rows, below 0 counted from the end.
        keep_dim : bool

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenKthvalueForward raises for descriptors that do not fit each other.
        """
        return plan_kthvalue_forward(self, input_desc, output_desc, indices_desc, k, dim, keep_dim)

    def ctc_loss(self, probs_desc, gradients_desc, ctc_desc, most_labels):
        """Return a prepared plan: ``plan(probs, table, losses, gradients)`` computes miopenCTCLoss.

        `table` is what ctc_desc.table says of a batch's labels, on a device its copy there: it changes from call to
        call.  What it holds is not looked at again: one of another plan gives wrong numbers, within the tensors.

        Parameters
        ----------
        probs_desc, gradients_desc : TensorDescriptor
        ctc_desc : CTCLossDescriptor
        most_labels : int
            How many labels a sample has at most.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenCTCLoss raises for descriptors that do not fit each other.
        """
        return plan_ctc_loss(self, probs_desc, gradients_desc, ctc_desc, most_labels)

    def getitem_backward(self, dy_desc, index_descs, dx_desc, error_desc, dims, slices=(), offset=0):
        """Return a prepared plan: ``plan(dy, *indexs, dx, error)`` adds dy to the places of dx that the indices name.

        Without indices it takes no error.

        Parameters
        ----------
        dy_desc, dx_desc : TensorDescriptor
        index_descs : list of TensorDescriptor
            0 to 5.
        error_desc : TensorDescriptor or None
        dims : list of int
            The axes of dx that are indexed, as many as there are indices.
        slices : list of (axis, start, end, step), optional
            At most 16.
        offset : int
            Places that dx's first axis begins later.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenGetitemBackward raises for descriptors that do not fit each other.
        """
        return plan_getitem_backward(self, dy_desc, index_descs, dx_desc, error_desc, dims, slices, offset)

    def rope_forward(self, x_desc, cos_desc, sin_desc, y_desc):
        """Return a prepared plan: ``plan(x, cos, sin, y)`` rotates pairs of neighbours; y may be x.

        Parameters
        ----------
        x_desc, cos_desc, sin_desc, y_desc : TensorDescriptor

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenRoPEForward raises for descriptors that do not fit each other.
        """
        return plan_rope_forward(self, x_desc, cos_desc, sin_desc, y_desc)

    def rope_backward(self, dy_desc, cos_desc, sin_desc, dx_desc):
        """Return a prepared plan: ``plan(dy, cos, sin, dx)`` computes dx, which may be dy.

        Parameters
        ----------
        dy_desc, cos_desc, sin_desc, dx_desc : TensorDescriptor

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenRoPEBackward raises for descriptors that do not fit each other.
        """
        return plan_rope_backward(self, dy_desc, cos_desc, sin_desc, dx_desc)

    def soft_margin_loss_forward(self, input_desc, target_desc, output_desc, reduction=0):
        """Return a prepared plan: ``plan(input, target, output)`` computes log(1 + e^(-input target)).

        Parameters
        ----------
        input_desc, target_desc, output_desc : TensorDescriptor
        reduction : miopenLossReductionMode_t, optional
            Default: none.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenSoftMarginLossForward raises for descriptors that do not fit each other.
        """
        return plan_soft_margin_loss_forward(self, input_desc, target_desc, output_desc, reduction)

    def soft_margin_loss_backward(self, input_desc, target_desc, doutput_desc, dinput_desc, reduction=0):
        """Return a prepared plan: ``plan(input, target, doutput, dinput)`` computes dinput.

        Parameters
        ----------
        input_desc, target_desc, doutput_desc, dinput_desc : TensorDescriptor
        reduction : miopenLossReductionMode_t, optional
            Default: none.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenSoftMarginLossBackward raises for descriptors that do not fit each other.
        """
        return plan_soft_margin_loss_backward(self, input_desc, target_desc, doutput_desc, dinput_desc, reduction)

    def multi_margin_loss_forward(self, input_desc, target_desc, weight_desc, output_desc, p=1, margin=1.0,
                                  reduction=0):
        """Return a prepared plan: ``plan(input, target, weight, output, margin)`` computes losses of rows.

        Parameters
        ----------
        input_desc, target_desc, weight_desc, output_desc : TensorDescriptor
        p : int
            1 or 2.
        margin : float
            What a call takes that passes none.
        reduction : miopenLossReductionMode_t, optional
            Default: none.

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenMultiMarginLossForward raises for descriptors that do not fit each other.
        """
        return plan_multi_margin_loss_forward(self, input_desc, target_desc, weight_desc, output_desc, p, margin,
                                              reduction)

    def fused_adam(self, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                   max_exp_avg_sq_desc=None, grad_scale_desc=None, found_inf_desc=None, lr=1e-3, beta1=0.9, beta2=0.999,
                   weight_decay=0.0, eps=1e-8, maximize=False, adamw=False):
        """Return a prepared plan: ``plan(param, grad, expAvg, expAvgSq, stateStep, lr)`` takes a step of Adam.

        The number of the step is counted in stateStep, on the device.  With `max_exp_avg_sq_desc` it is AMSGrad, and
        the plan takes maxExpAvgSq before stateStep; gradScale and foundInf stand behind that where they have a
        descriptor.

        Parameters
        ----------
        param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc : TensorDescriptor
        max_exp_avg_sq_desc, grad_scale_desc, found_inf_desc : TensorDescriptor, optional
        lr : float
            What a call takes that passes none.
        beta1, beta2, weight_decay, eps : float
        maximize, adamw : bool

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenFusedAdam raises for descriptors that do not fit each other.
        """
        return plan_fused_adam(self, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                               max_exp_avg_sq_desc, grad_scale_desc, found_inf_desc, lr, beta1, beta2, weight_decay,
                               eps, maximize, adamw)

    def transformers_adam_w(self, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                            grad_scale_desc=None, found_inf_desc=None, lr=1e-3, beta1=0.9, beta2=0.999,
                            weight_decay=0.0, eps=1e-8, correct_bias=True):
        """Return a prepared plan: ``plan(param, grad, expAvg, expAvgSq, stateStep, lr)`` takes a step of AdamW.

        It is that of Hugging Face's Transformers.

        Parameters
        ----------
        param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc : TensorDescriptor
        grad_scale_desc, found_inf_desc : TensorDescriptor, optional
            As for fused_adam.
        lr, beta1, beta2, weight_decay, eps : float
            As for fused_adam.
        correct_bias : bool

        Returns
        -------
        Plan

        Raises
        ------
        MIOpenError
            As miopenTransformersAdamW raises for descriptors that do not fit each other.
        """
        return plan_transformers_adam_w(self, param_desc, grad_desc, exp_avg_desc, exp_avg_sq_desc, state_step_desc,
                                        grad_scale_desc, found_inf_desc, lr, beta1, beta2, weight_decay, eps,
                                        correct_bias)


def _handle(handle):
    if not isinstance(handle, _Handle):
        raise BadParmError("not a handle", "handle", handle, "a Handle")
    return handle


def miopenCreate():
    """Return a handle on the best device that works (see Handle)."""
    return Handle()


def miopenCreateWithStream(stream):
    """Return a handle on a pyopencl.CommandQueue or a CUDA stream.

    Parameters
    ----------
    stream : pyopencl.CommandQueue, int or CUDA stream
        In-order; a number is a CUstream, and any object with `cuda_stream` or `__cuda_stream__` names one.

    Raises
    ------
    BadParmError
        For anything else.
    """
    if stream is None or isinstance(stream, (str, int)):  # those name devices
        raise BadParmError("not a command queue", "stream", stream, "a pyopencl.CommandQueue")
    return Handle(stream=stream)


def miopenDestroy(handle):
    """End the handle's life: wait for its calls, and let go of its programs and of the memory that it manages.

    Using it, or a plan of it, afterwards is a BadParmError.

    Parameters
    ----------
    handle : Handle or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    if handle is not None:
        _handle(handle).destroy()


def miopenSetStream(handle, streamID):
    """Let the handle use another pyopencl.CommandQueue or CUDA stream.

    On another device or context everything that the handle prepared is left behind, plans included.

    Parameters
    ----------
    handle : Handle
    streamID : pyopencl.CommandQueue, int or CUDA stream
        In-order, see miopenCreateWithStream.

    Raises
    ------
    UnknownError
        For None, as in MIOpen.
    BadParmError
        On the host, and while profiling is on for a queue without CL_QUEUE_PROFILING_ENABLE.
    """
    _handle(handle).set_queue(streamID)


def miopenGetStream(handle):
    """Return the handle's queue.

    Parameters
    ----------
    handle : Handle

    Returns
    -------
    pyopencl.CommandQueue, CUDA stream (its `cuda_stream` is the address) or None
        None on the host path.

    Raises
    ------
    BadParmError
        For anything but a Handle that was not destroyed.
    """
    return _handle(handle).stream()


def miopenSetAllocator(handle, allocator, deallocator, allocatorContext):
    """Take the workspace that the handle manages from the caller.

    A host handle manages none, so nothing is called there.

    Parameters
    ----------
    handle : Handle
    allocator : callable or None
        allocator(allocatorContext, size) returns a pyopencl.Buffer (or a cl_mem as an integer) of at least `size` bytes
        on the handle's context.
    deallocator : callable or None
        deallocator(allocatorContext, memory) gets it back once no kernel uses it any more.  None for both goes back to
        OpenCL's own memory.
    allocatorContext : object
        Handed on as it is.

    Raises
    ------
    UnknownError
        For a context without an allocator.
    BadParmError
        For what cannot be called.
    """
    _handle(handle).set_allocator(allocator, deallocator, allocatorContext)


def miopenEnableProfiling(handle, enable):
    """Measure the kernels of each call from now on (calls then wait for them), or stop doing so.

    Parameters
    ----------
    handle : Handle
    enable : bool

    Raises
    ------
    BadParmError
        Where the handle's queue was made without CL_QUEUE_PROFILING_ENABLE.
    """
    _handle(handle).set_profiling(to_flag(enable, "enable"))


def miopenGetKernelTime(handle):
    """Return the time of the last call's kernels, 0 while profiling is off (miopenEnableProfiling).

    Parameters
    ----------
    handle : Handle

    Returns
    -------
    float
        Milliseconds.

    Raises
    ------
    BadParmError
        For anything but a Handle that was not destroyed.
    """
    return _handle(handle).last_kernel_time()


def miopenGetVersion():
    """Return (major, minor, patch) of the MIOpen whose API this is."""
    return VERSION


def miopenGetErrorString(error):
    """Return the name of a status.

    Parameters
    ----------
    error : miopenStatus_t or int
        "Unknown error status" is said of any number that is none.
    """
    try:
        return miopenStatus_t(error).name
    except Exception:  # ValueError, or what a strange object raises when the enumeration prints it
        return "Unknown error status"


__all__ = ["Handle"] + [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
