"""Recurrent layers of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._handle cimport Handle, as_handle
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._descriptors cimport (
    TensorDescriptor, as_tensor, check_descriptor, seen, stamp_of, the_tensor, to_data_type, type_size,
)
from miopyx.problem._dropout cimport DropoutDescriptor
from miopyx.problem._rnn cimport (
    RNN_CX, RNN_CY, RNN_DCX, RNN_DHX, RNN_DW, RNN_DX, RNN_DY, RNN_HX, RNN_HY, RNN_LSTM, RNN_RESERVE,
    RNN_STATES, RNN_TABLE, RNN_W, RNN_X, RNN_Y, RNNDescriptor, RNNProblem, SeqTensorDescriptor, as_rnn,
    as_sequences, parameter_problem, rnn_gates, rnn_problem, sequences_of,
)
from miopyx.values._args cimport checked_mul, raise_unknown, to_flag, to_int64, to_member
from miopyx.values._types cimport (
    MX_RNN_BACKWARD_DATA, MX_RNN_BACKWARD_WEIGHTS, MX_RNN_FORWARD, MX_RNN_GET, MX_RNN_SET,
)
from ._operation cimport arg_t, explaining_of, invoker_of, require_handle, run_problem

from miopyx.choose import preparing
from miopyx.errors import BadParmError, UnknownError
from miopyx.problem._descriptors import destroy
from miopyx.problem._rnn import RNNDescriptor, SeqTensorDescriptor

cdef enum:
    ALL_STATES = 1 << RNN_HX | 1 << RNN_CX | 1 << RNN_HY | 1 << RNN_CY | 1 << RNN_DHX | 1 << RNN_DCX
    # Bits of rnn_problem's `flat`.
    FLAT_X = 1
    FLAT_Y = 2
    FLAT_W = 4


def miopenCreateRNNDescriptor():
    """Return an empty RNNDescriptor."""
    return RNNDescriptor()


def miopenGetRNNDescriptor(rnnDesc):
    """Return what miopenSetRNNDescriptor set.

    Parameters
    ----------
    rnnDesc : RNNDescriptor

    Returns
    -------
    (rnnMode, algoMode, inputMode, dirMode, biasMode, hiddenSize, layer)

    Raises
    ------
    BadParmError
        For anything but an RNNDescriptor that was set and not destroyed.
    """
    mode, algo, skip, way, bias, hidden, layers, _, _ = _settings(rnnDesc)
    return mode, algo, skip, way, bias, hidden, layers


def miopenGetRNNDescriptor_V2(rnnDesc):
    """Return what miopenSetRNNDescriptor_V2 set.

    Parameters
    ----------
    rnnDesc : RNNDescriptor

    Returns
    -------
    (hiddenSize, layer, dropoutDesc, inputMode, dirMode, rnnMode, biasMode, algoMode, dataType)
        dropoutDesc is None where nothing is dropped.

    Raises
    ------
    BadParmError
        For anything but an RNNDescriptor that was set and not destroyed.
    """
    mode, algo, skip, way, bias, hidden, layers, dropout, kind = _settings(rnnDesc)
    return hidden, layers, dropout, skip, way, mode, bias, algo, kind


cdef tuple _settings(object rnnDesc):
    from miopyx import enums

    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    desc.require_set()
    return (desc.rnn_mode, desc.rnn_algorithm, enums.miopenRNNInputMode_t(desc.input_mode),
            enums.miopenRNNDirectionMode_t(desc.direction), enums.miopenRNNBiasMode_t(desc.bias_mode), desc.hidden,
            desc.layers, desc.dropout, desc.data_type)


def miopenDestroyRNNDescriptor(rnnDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.

    Parameters
    ----------
    rnnDesc : RNNDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(rnnDesc, RNNDescriptor, "rnnDesc")


def miopenSetRNNDescriptor(rnnDesc, hsize, nlayers, inMode, direction, rnnMode, biasMode, algo, dataType):
    """Set what a stack of recurrent layers is; nothing is dropped between them.

    Parameters
    ----------
    rnnDesc : RNNDescriptor
    hsize : int
        Length of a state, 1 or more.
    nlayers : int
        1 or more.
    inMode : miopenRNNInputMode_t
        With miopenRNNskip the first layer takes its input, of `hsize` numbers, as it is.
    direction : miopenRNNDirectionMode_t
    rnnMode : miopenRNNMode_t
    biasMode : miopenRNNBiasMode_t
    algo : miopenRNNAlgo_t
        Kept and given back.
    dataType : miopenDataType_t
        float16, bfloat16, float32 or float64, of everything.

    Raises
    ------
    BadParmError
        For sizes below 1 and unknown members; the descriptor stays as it was.
    MIOpenNotImplementedError
        For another type.
    """
    cdef RNNDescriptor desc = check_descriptor(rnnDesc, RNNDescriptor, "rnnDesc")
    desc.set(hsize, nlayers, None, inMode, direction, rnnMode, biasMode, algo, dataType)


def miopenSetRNNDescriptor_V2(rnnDesc, hsize, nlayers, dropoutDesc, inMode, direction, rnnMode, biasMode, algo,
                              dataType):
    """Set what a stack of recurrent layers is.

    Parameters
    ----------
    rnnDesc : RNNDescriptor
    hsize, nlayers : int
    dropoutDesc : DropoutDescriptor or None
        In training it drops elements of what goes from layer to layer.
    inMode, direction, rnnMode, biasMode, algo, dataType
        All as miopenSetRNNDescriptor takes them.

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenSetRNNDescriptor; and for a dropout descriptor that was never set.
    """
    cdef RNNDescriptor desc = check_descriptor(rnnDesc, RNNDescriptor, "rnnDesc")
    desc.set(hsize, nlayers, dropoutDesc, inMode, direction, rnnMode, biasMode, algo, dataType)


def miopenCreateSeqTensorDescriptor():
    """Return an empty SeqTensorDescriptor."""
    return SeqTensorDescriptor()


def miopenDestroySeqTensorDescriptor(tensorDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.

    Parameters
    ----------
    tensorDesc : SeqTensorDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(tensorDesc, SeqTensorDescriptor, "tensorDesc")


def miopenSetRNNDataSeqTensorDescriptor(seqTensorDesc, dataType, layout, maxSequenceLen, batchSize, vectorSize,
                                        sequenceLenArray, paddingMarker):
    """Set how the vectors of several sequences lie in memory.

    Parameters
    ----------
    seqTensorDesc : SeqTensorDescriptor
    dataType : miopenDataType_t
    layout : miopenRNNBaseLayout_t
        SeqMajorNotPadded: (rows, vectorSize), the steps one behind the other, each with those sequences that are so
        long; where all are equally long that is (steps, batchSize, vectorSize).  SeqMajorPadded: (maxSequenceLen,
        batchSize, vectorSize).  BatchMajorPadded: (batchSize, maxSequenceLen, vectorSize).
    maxSequenceLen, batchSize, vectorSize : int
        1 or more.
    sequenceLenArray : sequence of int
        The steps of each sequence, 0 ... maxSequenceLen, at least one of them above 0.  Without padding they must not
        increase.
    paddingMarker : None
        Results are padded with zeros.

    Raises
    ------
    BadParmError
        For sizes, lengths and members out of range, and a marker; the descriptor stays as it was.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """
    cdef SeqTensorDescriptor desc = check_descriptor(seqTensorDesc, SeqTensorDescriptor, "seqTensorDesc")
    if paddingMarker is not None:
        raise BadParmError("not used", "paddingMarker", paddingMarker, None)
    if sequenceLenArray is None:
        raise BadParmError("null", "sequenceLenArray", None, f"{batchSize} lengths")
    desc.set(dataType, layout, maxSequenceLen, batchSize, vectorSize, sequenceLenArray)


def miopenGetRNNDataSeqTensorDescriptor(seqTensorDesc, sequenceLenArrayLimit):
    """Return what miopenSetRNNDataSeqTensorDescriptor set.

    Parameters
    ----------
    seqTensorDesc : SeqTensorDescriptor
    sequenceLenArrayLimit : int or None
        How many lengths are wanted at most; None: all.

    Returns
    -------
    (dataType, layout, maxSequenceLen, batchSize, vectorSize, sequenceLenArray, paddingMarker)
        sequenceLenArray a list, paddingMarker None.

    Raises
    ------
    BadParmError
        For anything but a SeqTensorDescriptor that was set and not destroyed, and a limit below 0.
    """
    cdef SeqTensorDescriptor desc = as_sequences(seqTensorDesc, "seqTensorDesc").copied()  # of one moment
    cdef int64_t limit
    desc.require_set("seqTensorDesc")
    limit = desc.batch if sequenceLenArrayLimit is None else to_int64(sequenceLenArrayLimit, "sequenceLenArrayLimit")
    if limit < 0:
        raise BadParmError("number of lengths", "sequenceLenArrayLimit", limit, ">= 0")
    return (desc.data_type, desc.base_layout, desc.steps, desc.batch, desc.vector, desc.sequence_lengths[:limit], None)


def miopenSetRNNPaddingMode(rnnDesc, paddingMode):
    """Say whether functions that take a descriptor for each step have padded x and y.

    Parameters
    ----------
    rnnDesc : RNNDescriptor
    paddingMode : miopenRNNPaddingMode_t
        miopenRNNIOWithPadding: each step has as many vectors in memory as the first one.

    Raises
    ------
    BadParmError
        For an unknown member, and a descriptor that was never set.
    """
    (<RNNDescriptor> check_descriptor(rnnDesc, RNNDescriptor, "rnnDesc")).set_padding_mode(paddingMode)


def miopenGetRNNPaddingMode(rnnDesc):
    """Return whether functions that take a descriptor for each step have padded x and y.

    Parameters
    ----------
    rnnDesc : RNNDescriptor

    Raises
    ------
    BadParmError
        For anything but an RNNDescriptor that was set and not destroyed.
    """
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    desc.require_set()
    return desc.padding_mode


# Sizes


cdef SeqTensorDescriptor _outputs(RNNDescriptor desc, SeqTensorDescriptor x):
    """The output that belongs to an input."""
    cdef SeqTensorDescriptor y = SeqTensorDescriptor.__new__(SeqTensorDescriptor)
    y.take(desc.type, x.layout, x.steps, x.batch, (desc.direction + 1) * <int64_t> desc.hidden, x.lengths, "xDesc")
    return y


cdef int64_t _workspace(Handle handle, RNNDescriptor desc, SeqTensorDescriptor x, bint training) except -1:
    """The largest workspace of a function; training is followed by inference."""
    cdef SeqTensorDescriptor y = _outputs(desc, x)
    cdef int64_t most = 0
    cdef int what
    most = preparing.workspace(handle, rnn_problem(MX_RNN_FORWARD, desc, x, y, False, ALL_STATES, 0))
    if training:
        for what in range(MX_RNN_FORWARD, MX_RNN_BACKWARD_WEIGHTS + 1):
            problem = rnn_problem(what, desc, x, y, True, ALL_STATES, 0)
            most = max(most, preparing.workspace(handle, problem))
    return most


def miopenGetRNNWorkspaceSize(handle, rnnDesc, sequenceLen, xDesc):
    """Return the bytes of workspace that any function of these sequences needs.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
        Number of steps.
    xDesc : list of TensorDescriptor
        One for each step, of (sequences, vector); the sequences may become fewer, but not more.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenRNNForwardTraining.
    """
    cdef Handle h = as_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor x
    desc.require_set()
    x = sequences_of(xDesc, sequenceLen, desc.padding, "xDesc")
    return _workspace(h, desc, x, True)


def miopenGetRNNTrainingReserveSize(handle, rnnDesc, sequenceLen, xDesc):
    """Return the bytes that training keeps between its functions.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
    xDesc : list of TensorDescriptor
        As miopenGetRNNWorkspaceSize takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenRNNForwardTraining.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor x
    desc.require_set()
    x = sequences_of(xDesc, sequenceLen, desc.padding, "xDesc")
    return rnn_problem(MX_RNN_FORWARD, desc, x, _outputs(desc, x), True, 0, 0).raw[<int> RNN_RESERVE]


def miopenGetRNNTempSpaceSizes(handle, rnnDesc, xDesc, fwdMode):
    """Return the bytes of workspace and of the reserve space, for these sequences and for shorter ones.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    xDesc : SeqTensorDescriptor
    fwdMode : miopenRNNFWDMode_t
        Training, with all its functions and inference between them; or inference alone, which needs no reserve space.

    Returns
    -------
    (workSpaceSize, reserveSpaceSize)

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenRNNForward.
    """
    cdef Handle h = as_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor x = as_sequences(xDesc, "xDesc"), longest = x
    cdef bint training = _training(fwdMode)
    cdef int64_t space, kept = 0
    desc.require_set()
    x.require_set("xDesc")
    space = _workspace(h, desc, x, training)
    if x.uneven or x.rows < x.steps * x.batch:
        longest = SeqTensorDescriptor(x.type, x.layout, x.steps, x.batch, x.vector)
        space = max(space, _workspace(h, desc, longest, training))
    if x.batch > 1:
        # Padded sequences that differ are put in the order of steps, which takes space of its own.
        uneven = SeqTensorDescriptor(x.type, x.layout, x.steps, x.batch, x.vector,
                                     [x.steps] * (x.batch - 1) + [x.steps - 1])
        space = max(space, _workspace(h, desc, uneven, training))
    if training:
        kept = rnn_problem(MX_RNN_FORWARD, desc, longest, _outputs(desc, longest), True, 0, 0).raw[<int> RNN_RESERVE]
    return space, kept


cdef bint _training(object mode) except -1:
    cdef int number = to_member(mode, "miopenRNNFWDMode_t", "fwdMode")
    if not 0 <= number <= 1:
        raise_unknown(mode, "miopenRNNFWDMode_t", "fwdMode")
    return number == 0


cdef int64_t _vector(RNNDescriptor desc, object x, str name) except -1:
    """The numbers of a step, of a descriptor of one step or of sequences."""
    cdef TensorDescriptor tensor
    if isinstance(x, SeqTensorDescriptor):
        as_sequences(x, name).require_set(name)
        kind, vector = (<SeqTensorDescriptor> x).type, (<SeqTensorDescriptor> x).vector
    else:
        tensor = as_tensor(x, name)
        tensor.require_set(name)
        if tensor.ndim < 2 or tensor.len[1] < 1:
            raise BadParmError("lengths of a step", name, tensor.lens, "sequences, vector")
        kind, vector = tensor.type, tensor.len[1]
    desc.require_set()
    if kind != desc.type:
        raise BadParmError("Data type mismatch between descriptors", name, x, desc.data_type.name)
    return vector


def miopenGetRNNParamsSize(handle, rnnDesc, xDesc, dtype):
    """Return the bytes of all parameters.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    xDesc : TensorDescriptor
        A step of (sequences, vector).
    dtype : miopenDataType_t
        The descriptor's.

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        Where types differ, and for an input of another length than the state's where the first layer takes it as it is.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    return _parameters(desc, xDesc, dtype) * type_size(desc.type)


cdef int64_t _parameters(RNNDescriptor desc, object xDesc, object dtype) except -1:
    from miopyx.enums import miopenDataType_t

    cdef int64_t vector = _vector(desc, xDesc, "xDesc")
    if to_data_type(dtype, "dtype") != desc.type:
        raise BadParmError("Data type mismatch.", "dtype", dtype, miopenDataType_t(desc.type).name)
    return desc.parameters(vector, "xDesc")


def miopenGetRNNParamsDescriptor(handle, rnnDesc, xDesc, wDesc, dtype):
    """Set `wDesc` to all parameters: a tensor of two lengths, which say no more than how many numbers there are.

    The matrices come first, then the biases.  In both come the layers one behind the other, of each layer what belongs
    to the input, the directions one behind the other, then what belongs to the state likewise; of a direction the gates
    one behind the other.  A matrix is (hidden, input) or (hidden, hidden).

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    xDesc : TensorDescriptor
        A step of (sequences, vector).
    wDesc : TensorDescriptor
        Is set.
    dtype : miopenDataType_t
        The descriptor's.

    Raises
    ------
    BadParmError
        As miopenGetRNNParamsSize.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc").copied()  # of one moment
    cdef TensorDescriptor w = the_tensor(wDesc, "wDesc")
    cdef int64_t total, row = (desc.direction + 1) * rnn_gates(desc.mode) * <int64_t> desc.hidden
    total = _parameters(desc, xDesc, dtype)
    _set_matrix(w, desc.type, total // row, row)


def miopenGetRNNInputTensorSize(handle, rnnDesc, seqLen, xDesc):
    """Return the bytes of the input, or of the output, of all steps.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    seqLen : int
        Number of steps.
    xDesc : list of TensorDescriptor
        One for each step, of (sequences, vector).

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        As miopenGetRNNWorkspaceSize; and where the type is not the RNN descriptor's.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor x
    desc.require_set()
    x = sequences_of(xDesc, seqLen, desc.padding, "xDesc")
    if x.type != desc.type:
        raise BadParmError("Data type mismatch between descriptors", "xDesc", x.data_type.name, desc.data_type.name)
    return checked_mul(checked_mul(x.steps * x.batch if desc.padding else x.rows, x.vector, "xDesc"),
                       type_size(x.type), "xDesc")


def miopenGetRNNHiddenTensorSize(handle, rnnDesc, seqLen, xDesc):
    """Return the bytes of the states of all layers.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    seqLen : int
    xDesc : list of TensorDescriptor
        As miopenGetRNNInputTensorSize takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        As miopenGetRNNInputTensorSize.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor x
    desc.require_set()
    x = sequences_of(xDesc, seqLen, desc.padding, "xDesc")
    if x.type != desc.type:
        raise BadParmError("Data type mismatch between descriptors", "xDesc", x.data_type.name, desc.data_type.name)
    return checked_mul(checked_mul((desc.direction + 1) * <int64_t> desc.layers, desc.hidden, "nlayers"),
                       x.batch * type_size(x.type), "xDesc")


# Parameters


cdef int _set_matrix(TensorDescriptor desc, int type, int64_t rows, int64_t columns) except -1:
    cdef int64_t[2] lens, strides
    lens[0], lens[1], strides[0], strides[1] = rows, columns, max(columns, 1), 1
    return desc.set(type, 2 if columns else 1, lens, strides, 1)


def miopenGetRNNLayerParamSize(handle, rnnDesc, layer, xDesc, paramID):
    """Return the bytes of a matrix.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer : int
        The layers' number; of bidirectional ones layer l has the numbers 2 l, forward in time, and 2 l + 1.
    xDesc : TensorDescriptor
        A step of (sequences, vector).
    paramID : int
        LSTM: the gates of input, 0, forgetting, 1, output, 2, and the new memory, 3, for the layer's input, and 4 to 7
        for its state.  GRU: update, 0, reset, 1, new memory, 2, and 3 to 5.  Plain cells: 0 and 1.

    Returns
    -------
    int
        0 for the input of the first layer where that takes it as it is.

    Raises
    ------
    BadParmError
        For numbers out of range, and where types differ.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef int64_t vector, columns = 0, number = to_int64(paramID, "paramID"), place = to_int64(layer, "layer")
    vector = _vector(desc, xDesc, "xDesc")
    if desc.input_mode and 0 <= place <= desc.direction and 0 <= number < rnn_gates(desc.mode):
        return 0
    desc.matrix_offset(vector, place, number, &columns)
    return desc.hidden * columns * type_size(desc.type)


def miopenGetRNNLayerBiasSize(handle, rnnDesc, layer, biasID):
    """Return the bytes of a bias.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer, biasID : int
        As miopenGetRNNLayerParamSize's layer and paramID.

    Returns
    -------
    int

    Raises
    ------
    BadParmError
        For numbers out of range, and layers without biases.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    desc.require_set()
    desc.bias_offset(desc.hidden, to_int64(layer, "layer"), to_int64(biasID, "biasID"))
    return desc.hidden * type_size(desc.type)


cdef int _copy(object handle, int what, RNNDescriptor desc, int64_t vector, int64_t start, int64_t rows,
               int64_t columns, object w, object part, str name) except -1:
    cdef RNNProblem problem = parameter_problem(what, desc, vector, start, rows, columns, _flat(w, 1, FLAT_W))
    cdef arg_t[3] buffers = [<arg_t> w, <arg_t> part, <arg_t> None]
    cdef int[2] order = [RNN_W if what == MX_RNN_GET else RNN_DW, RNN_Y if what == MX_RNN_GET else RNN_X]
    return run_problem(as_handle(handle), problem, 2, order, buffers, ("w", name, "workSpace"), NULL, 0)


cdef int _require_parameters(RNNDescriptor desc, object wDesc, int64_t vector) except -1:
    """The descriptor of all parameters, where a caller has one."""
    cdef TensorDescriptor w
    cdef int64_t total
    if wDesc is None:
        return 0
    w = as_tensor(wDesc, "wDesc")
    w.require_set("wDesc")
    total = desc.parameters(vector, "xDesc")
    if w.type != desc.type or w.elements != total or w.space != total:
        raise BadParmError("not the descriptor of the parameters", "wDesc", w,
                           f"{total} of {desc.data_type.name}, packed")
    return 0


def miopenGetRNNLayerParam(handle, rnnDesc, layer, xDesc, wDesc, w, paramID, paramDesc, layerParam):
    """Set `paramDesc` to a matrix, and copy it out of the parameters.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer : int
    xDesc : TensorDescriptor
        As miopenGetRNNLayerParamSize takes them.
    wDesc : TensorDescriptor
        As miopenGetRNNParamsDescriptor sets it.
    w : memory of the handle's device
        All parameters.
    paramID : int
        As miopenGetRNNLayerParamSize takes it.
    paramDesc : TensorDescriptor
        Is set to (hidden, input) or (hidden, hidden).
    layerParam : memory of the handle's device, or None
        Where the matrix goes; None: only the descriptor is set.

    Raises
    ------
    BadParmError
        For numbers out of range, where types differ, for a matrix that a layer without weights does not have, and a
        buffer that does not fit.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef TensorDescriptor out = the_tensor(paramDesc, "paramDesc")
    cdef int64_t vector = _vector(desc, xDesc, "xDesc"), columns = 0, start
    _require_parameters(desc, wDesc, vector)
    start = desc.matrix_offset(vector, to_int64(layer, "layer"), to_int64(paramID, "paramID"), &columns)
    _set_matrix(out, desc.type, desc.hidden, columns)
    if layerParam is not None:
        _copy(handle, MX_RNN_GET, desc, vector, start, desc.hidden, columns, w, layerParam, "layerParam")


def miopenGetRNNLayerBias(handle, rnnDesc, layer, xDesc, wDesc, w, biasID, biasDesc, layerBias):
    """Set `biasDesc` to a bias, and copy it out of the parameters.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer : int
    xDesc, wDesc : TensorDescriptor
    w : memory of the handle's device
    biasID : int
        All as miopenGetRNNLayerParam takes them.
    biasDesc : TensorDescriptor
        Is set to (hidden,).
    layerBias : memory of the handle's device, or None

    Raises
    ------
    BadParmError
        As miopenGetRNNLayerParam; and for layers without biases.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef TensorDescriptor out = the_tensor(biasDesc, "biasDesc")
    cdef int64_t vector = _vector(desc, xDesc, "xDesc"), start
    _require_parameters(desc, wDesc, vector)
    start = desc.bias_offset(vector, to_int64(layer, "layer"), to_int64(biasID, "biasID"))
    _set_matrix(out, desc.type, desc.hidden, 0)
    if layerBias is not None:
        _copy(handle, MX_RNN_GET, desc, vector, start, desc.hidden, 0, w, layerBias, "layerBias")


def miopenGetRNNLayerParamOffset(rnnDesc, layer, xDesc, paramID, paramDesc):
    """Set `paramDesc` to a matrix, and return where it begins among the parameters.

    Parameters
    ----------
    rnnDesc : RNNDescriptor
    layer : int
    xDesc : TensorDescriptor
    paramID : int
    paramDesc : TensorDescriptor
        All as miopenGetRNNLayerParam takes them.

    Returns
    -------
    int
        In elements.

    Raises
    ------
    BadParmError
        As miopenGetRNNLayerParam.
    """
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef TensorDescriptor out = the_tensor(paramDesc, "paramDesc")
    cdef int64_t columns = 0
    start = desc.matrix_offset(_vector(desc, xDesc, "xDesc"), to_int64(layer, "layer"), to_int64(paramID, "paramID"),
                               &columns)
    _set_matrix(out, desc.type, desc.hidden, columns)
    return start


def miopenGetRNNLayerBiasOffset(rnnDesc, layer, xDesc, biasID, biasDesc):
    """Set `biasDesc` to a bias, and return where it begins among the parameters.

    Parameters
    ----------
    rnnDesc : RNNDescriptor
    layer : int
    xDesc : TensorDescriptor
    biasID : int
    biasDesc : TensorDescriptor
        All as miopenGetRNNLayerBias takes them.

    Returns
    -------
    int
        In elements.

    Raises
    ------
    BadParmError
        As miopenGetRNNLayerBias.
    """
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef TensorDescriptor out = the_tensor(biasDesc, "biasDesc")
    start = desc.bias_offset(_vector(desc, xDesc, "xDesc"), to_int64(layer, "layer"), to_int64(biasID, "biasID"))
    _set_matrix(out, desc.type, desc.hidden, 0)
    return start


cdef int _require_part(object partDesc, str name, RNNDescriptor desc, tuple lens) except -1:
    cdef TensorDescriptor part = as_tensor(partDesc, name)
    part.require_set(name)
    if part.type != desc.type or part.lens != lens or part.space != part.elements:
        raise BadParmError("mismatch between descriptors", name, part, f"{lens} of {desc.data_type.name}, packed")
    return 0


def miopenSetRNNLayerParam(handle, rnnDesc, layer, xDesc, wDesc, w, paramID, paramDesc, layerParam):
    """Copy a matrix to its place among the parameters.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer : int
    xDesc, wDesc : TensorDescriptor
    w : memory of the handle's device
        All parameters.
    paramID : int
        All as miopenGetRNNLayerParam takes them.
    paramDesc : TensorDescriptor
        As miopenGetRNNLayerParam sets it.
    layerParam : memory of the handle's device

    Raises
    ------
    BadParmError
        As miopenGetRNNLayerParam; and for another descriptor of the matrix.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef int64_t vector = _vector(desc, xDesc, "xDesc"), columns = 0, start
    _require_parameters(desc, wDesc, vector)
    start = desc.matrix_offset(vector, to_int64(layer, "layer"), to_int64(paramID, "paramID"), &columns)
    _require_part(paramDesc, "paramDesc", desc, (desc.hidden, columns))
    _copy(handle, MX_RNN_SET, desc, vector, start, desc.hidden, columns, w, layerParam, "layerParam")


def miopenSetRNNLayerBias(handle, rnnDesc, layer, xDesc, wDesc, w, biasID, biasDesc, layerBias):
    """Copy a bias to its place among the parameters.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    layer : int
    xDesc, wDesc : TensorDescriptor
    w : memory of the handle's device
    biasID : int
    biasDesc : TensorDescriptor
        All as miopenGetRNNLayerBias takes them.
    layerBias : memory of the handle's device

    Raises
    ------
    BadParmError
        As miopenGetRNNLayerBias; and for another descriptor of the bias.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef int64_t vector = _vector(desc, xDesc, "xDesc"), start
    _require_parameters(desc, wDesc, vector)
    start = desc.bias_offset(vector, to_int64(layer, "layer"), to_int64(biasID, "biasID"))
    _require_part(biasDesc, "biasDesc", desc, (desc.hidden,))
    _copy(handle, MX_RNN_SET, desc, vector, start, desc.hidden, 0, w, layerBias, "layerBias")


# Calls.  Buffers in the order of _FORWARD, _DATA or _WEIGHTS; the table and the states come from descriptors.

cdef tuple _FORWARD_NAMES = ("x", "w", "hx", "cx", "y", "hy", "cy", "reserveSpace", "xDesc",
                             "states of dropoutDesc", "workSpace", "workSpaceNumBytes")
cdef int[10] _FORWARD = [RNN_X, RNN_W, RNN_HX, RNN_CX, RNN_Y, RNN_HY, RNN_CY, RNN_RESERVE, RNN_TABLE, RNN_STATES]
cdef tuple _DATA_NAMES = ("y", "dy", "w", "hx", "cx", "dhy", "dcy", "dx", "dhx", "dcx", "reserveSpace", "xDesc",
                          "workSpace", "workSpaceNumBytes")
cdef int[12] _DATA = [RNN_Y, RNN_DY, RNN_W, RNN_HX, RNN_CX, RNN_HY, RNN_CY, RNN_DX, RNN_DHX, RNN_DCX, RNN_RESERVE,
                      RNN_TABLE]
cdef tuple _WEIGHTS_NAMES = ("x", "hx", "y", "dw", "reserveSpace", "xDesc", "workSpace",
                             "workSpaceNumBytes")
cdef int[6] _WEIGHTS = [RNN_X, RNN_HX, RNN_Y, RNN_DW, RNN_RESERVE, RNN_TABLE]


cdef unsigned _flat(object array, int rank, unsigned bit):
    """`bit` where an array has `rank` dimensions; what is no array has none."""
    try:
        return bit if array.ndim == rank else 0
    except Exception:  # whatever a strange object raises: who binds it says what is wrong
        return 0


cdef object _table(Handle handle, SeqTensorDescriptor x):
    """The table on the handle's device, which the descriptor keeps for the next call."""
    if x.table is None or handle.device.is_host:
        return x.table
    if x.device is not handle.device:
        x.on_device = handle.upload(x.table)
        x.device = handle.device
    return x.on_device


cdef int _require_reserve(RNNProblem problem, object size) except -1:
    """A reserve space as large as the caller says."""
    cdef int64_t given = to_int64(size, "reserveSpaceNumBytes"), need = problem.raw[<int> RNN_RESERVE]
    if given < need:
        raise UnknownError("Reservespace is required", "reserveSpaceNumBytes", given, f">= {need} bytes")
    return 0


cdef int _require_weights(RNNDescriptor desc, SeqTensorDescriptor x, object size) except -1:
    cdef int64_t given = to_int64(size, "weightSpaceSize"), need
    desc.require_set()
    x.require_set("xDesc")
    need = desc.parameters(x.vector, "xDesc") * type_size(desc.type)
    if given < need:
        raise UnknownError("WeightSpace is too small", "weightSpaceSize", given, f">= {need} bytes")
    return 0


cdef int _require_states(RNNDescriptor desc, int64_t batch, object stateDesc, str name) except -1:
    """The descriptor of states."""
    cdef TensorDescriptor state = as_tensor(stateDesc, name)
    cdef tuple lens = ((desc.direction + 1) * desc.layers, batch, desc.hidden)
    state.require_set(name)
    if state.type != desc.type or state.lens != lens or state.space != state.elements:
        raise BadParmError("states", name, state, f"{lens} of {desc.data_type.name}, packed")
    return 0


cdef unsigned _given(object hx, object cx, object hy, object cy, bint cells):
    cdef unsigned has = (hx is not None) << RNN_HX | (hy is not None) << RNN_HY
    return has | (cx is not None and cells) << RNN_CX | (cy is not None and cells) << RNN_CY


cdef int _forward(object handle, RNNDescriptor desc, bint training, SeqTensorDescriptor x_desc, object x,
                  SeqTensorDescriptor y_desc, object y, object w, object hx, object cx, object hy, object cy,
                  object space, object space_size, object kept, object kept_size) except -1:
    cdef Handle h = as_handle(handle)
    cdef RNNProblem problem = rnn_problem(
        MX_RNN_FORWARD, desc, x_desc, y_desc, training, _given(hx, cx, hy, cy, desc.mode == RNN_LSTM),
        _flat(x, 2, FLAT_X) | _flat(y, 2, FLAT_Y) | _flat(w, 1, FLAT_W))
    cdef DropoutDescriptor drop = <DropoutDescriptor> seen(desc.dropout)
    cdef object table = _table(h, x_desc), states = None if drop is None else drop.states_set
    cdef arg_t[11] buffers = [<arg_t> x, <arg_t> w, <arg_t> hx, <arg_t> cx, <arg_t> y, <arg_t> hy, <arg_t> cy,
                              <arg_t> kept, <arg_t> table, <arg_t> states, <arg_t> space]
    if training:
        _require_reserve(problem, kept_size)
    return run_problem(h, problem, 10, _FORWARD, buffers, _FORWARD_NAMES, NULL,
                       workspace_bytes(space_size, "workSpaceNumBytes"))


cdef int _backward_data(object handle, RNNDescriptor desc, SeqTensorDescriptor x_desc, object dx,
                        SeqTensorDescriptor y_desc, object y, object dy, object w, object hx, object cx, object dhy,
                        object dcy, object dhx, object dcx, object space, object space_size, object kept,
                        object kept_size) except -1:
    cdef Handle h = as_handle(handle)
    cdef bint cells = desc.mode == RNN_LSTM
    cdef unsigned has = _given(hx, cx, dhy, dcy, cells) | (dhx is not None) << RNN_DHX
    cdef RNNProblem problem = rnn_problem(
        MX_RNN_BACKWARD_DATA, desc, x_desc, y_desc, True, has | (dcx is not None and cells) << RNN_DCX,
        _flat(dx, 2, FLAT_X) | _flat(dy, 2, FLAT_Y) | _flat(w, 1, FLAT_W))
    cdef object table = _table(h, x_desc)
    cdef arg_t[13] buffers = [<arg_t> y, <arg_t> dy, <arg_t> w, <arg_t> hx, <arg_t> cx, <arg_t> dhy, <arg_t> dcy,
                              <arg_t> dx, <arg_t> dhx, <arg_t> dcx, <arg_t> kept, <arg_t> table, <arg_t> space]
    _require_reserve(problem, kept_size)
    return run_problem(h, problem, 12, _DATA, buffers, _DATA_NAMES, NULL,
                       workspace_bytes(space_size, "workSpaceNumBytes"))


cdef int _backward_weights(object handle, RNNDescriptor desc, SeqTensorDescriptor x_desc, object x,
                           SeqTensorDescriptor y_desc, object y, object hx, object dw, object space, object space_size,
                           object kept, object kept_size) except -1:
    cdef Handle h = as_handle(handle)
    cdef RNNProblem problem = rnn_problem(
        MX_RNN_BACKWARD_WEIGHTS, desc, x_desc, y_desc, True, (hx is not None) << RNN_HX,
        _flat(x, 2, FLAT_X) | _flat(y, 2, FLAT_Y) | _flat(dw, 1, FLAT_W))
    cdef object table = _table(h, x_desc)
    cdef arg_t[7] buffers = [<arg_t> x, <arg_t> hx, <arg_t> y, <arg_t> dw, <arg_t> kept, <arg_t> table, <arg_t> space]
    _require_reserve(problem, kept_size)
    return run_problem(h, problem, 6, _WEIGHTS, buffers, _WEIGHTS_NAMES, NULL,
                       workspace_bytes(space_size, "workSpaceNumBytes"))


def miopenRNNForward(handle, rnnDesc, fwdMode, xDesc, x, hDesc, hx, hy, cDesc, cx, cy, yDesc, y, w, weightSpaceSize,
                     workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes):
    """y, hy, cy = the outputs and last states of recurrent layers.

    With g(W, R) = W x + bW + R h + bR of the step's input x and the state h, and s the logistic function:

        plain cells  h' = relu(g) or tanh(g)
        LSTM         i, f, o = s(g), n = tanh(g), c' = f c + i n, h' = o tanh(c')
        GRU          z, r = s(g), n = tanh(W x + bW + r (R h + bR)), h' = (1 - z) n + z h

    as cuDNN and PyTorch have them.  A layer's output is h' of each step, of both directions one behind the other where
    there are two, and the next layer's input.  Backward in time a sequence begins at its own last step.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    fwdMode : miopenRNNFWDMode_t
        Whether what gradients need is kept in the reserve space; and whether elements are dropped between layers.
    xDesc : SeqTensorDescriptor
    x : memory of the handle's device
    hDesc : TensorDescriptor
        The states' (layers * directions, sequences, hidden): the directions of a layer follow each other.
    hx, hy : memory of the handle's device, or None
        States before the first and after the last step; None: zeros, or they are not wanted.  As all that is written,
        hy needs memory of its own: hx is refused, as is cx for cy.
    cDesc : TensorDescriptor
        As hDesc; used by LSTM.
    cx, cy : memory of the handle's device, or None
        Of cells, likewise.  Other cells than LSTM do not look at them.
    yDesc : SeqTensorDescriptor
        As xDesc, with directions * hidden numbers a step.
    y : memory of the handle's device
        Where sequences are padded y becomes 0.
    w : memory of the handle's device
        All parameters, as miopenGetRNNParamsDescriptor says.
    weightSpaceSize : int
        Bytes of w.
    workSpace, reserveSpace : memory of the handle's device, or None
    workSpaceNumBytes, reserveSpaceNumBytes : int
        What miopenGetRNNTempSpaceSizes says.

    Raises
    ------
    BadParmError
        For descriptors that do not fit each other, and for a buffer that does not fit, is missing or shares memory with
        what is written.
    UnknownError
        Where the weights, the workspace or the reserve space are too small.
    MIOpenNotImplementedError
        For another type than float16, bfloat16, float32 and float64.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor xs = as_sequences(xDesc, "xDesc"), ys = as_sequences(yDesc, "yDesc")
    _require_weights(desc, xs, weightSpaceSize)
    if hx is not None or hy is not None:
        _require_states(desc, xs.batch, hDesc, "hDesc")
    if desc.mode == RNN_LSTM and (cx is not None or cy is not None):
        _require_states(desc, xs.batch, cDesc, "cDesc")
    _forward(handle, desc, _training(fwdMode), xs, x, ys, y, w, hx, cx, hy, cy, workSpace, workSpaceNumBytes,
             reserveSpace, reserveSpaceNumBytes)


def miopenRNNBackwardSeqData(handle, rnnDesc, yDesc, y, dy, hDesc, hx, dhy, dhx, cDesc, cx, dcy, dcx, xDesc, dx, w,
                             weightSpaceSize, workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes):
    """dx, dhx, dcx = the gradients of the inputs and the first states; after miopenRNNForward in training.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    yDesc : SeqTensorDescriptor
    y, dy : memory of the handle's device
        What the forward pass computed, and its gradient.  What lies in dy where sequences are padded does not matter.
    hDesc : TensorDescriptor
    hx, dhy, dhx : memory of the handle's device, or None
        The first states, the gradients of the last ones, and those of the first; None: zeros, or not wanted.  dhx needs
        memory of its own, not dhy's, as does dcx.
    cDesc : TensorDescriptor
    cx, dcy, dcx : memory of the handle's device, or None
        Of cells, likewise.
    xDesc : SeqTensorDescriptor
    dx : memory of the handle's device
        Where sequences are padded dx becomes 0.
    w : memory of the handle's device
    weightSpaceSize : int
    workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
    reserveSpace : memory of the handle's device
        As the forward pass left it; what miopenRNNBackwardWeightsSeqTensor needs is added.  A second call is fine.
    reserveSpaceNumBytes : int
        All as miopenRNNForward takes them.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForward.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor xs = as_sequences(xDesc, "xDesc"), ys = as_sequences(yDesc, "yDesc")
    _require_weights(desc, xs, weightSpaceSize)
    if hx is not None or dhy is not None or dhx is not None:
        _require_states(desc, xs.batch, hDesc, "hDesc")
    if desc.mode == RNN_LSTM and (cx is not None or dcy is not None or dcx is not None):
        _require_states(desc, xs.batch, cDesc, "cDesc")
    _backward_data(handle, desc, xs, dx, ys, y, dy, w, hx, cx, dhy, dcy, dhx, dcx, workSpace, workSpaceNumBytes,
                   reserveSpace, reserveSpaceNumBytes)


def miopenRNNBackwardWeightsSeqTensor(handle, rnnDesc, xDesc, x, hDesc, hx, yDesc, y, dw, weightSpaceSize, workSpace,
                                      workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes):
    """dw = the gradients of all parameters; after miopenRNNBackwardSeqData.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    xDesc : SeqTensorDescriptor
    x : memory of the handle's device
    hDesc : TensorDescriptor
    hx : memory of the handle's device, or None
    yDesc : SeqTensorDescriptor
    y : memory of the handle's device
        What the forward pass computed.
    dw : memory of the handle's device
        Is overwritten.
    weightSpaceSize : int
        Bytes of dw.
    workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
    reserveSpace : memory of the handle's device
        As miopenRNNBackwardSeqData left it.
    reserveSpaceNumBytes : int
        All as miopenRNNForward takes them.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForward.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor xs = as_sequences(xDesc, "xDesc"), ys = as_sequences(yDesc, "yDesc")
    _require_weights(desc, xs, weightSpaceSize)
    if hx is not None:
        _require_states(desc, xs.batch, hDesc, "hDesc")
    _backward_weights(handle, desc, xs, x, ys, y, hx, dw, workSpace, workSpaceNumBytes, reserveSpace,
                      reserveSpaceNumBytes)


cdef tuple _of_steps(RNNDescriptor desc, object steps, object xDesc, str name, object yDesc):
    """What the descriptors of the steps of x and y say."""
    return sequences_of(xDesc, steps, desc.padding, name), sequences_of(yDesc, steps, desc.padding, "yDesc")


cdef int _steps_forward(object handle, RNNDescriptor desc, bint training, object steps, object xDesc, object x,
                        object hxDesc, object hx, object cxDesc, object cx, object wDesc, object w, object yDesc,
                        object y, object hyDesc, object hy, object cyDesc, object cy, object space, object space_size,
                        object kept, object kept_size) except -1:
    cdef SeqTensorDescriptor xs, ys
    require_handle(handle)
    desc.require_set()
    xs, ys = _of_steps(desc, steps, xDesc, "xDesc", yDesc)
    _require_parameters(desc, wDesc, xs.vector)
    for buffer, state, name in ((hx, hxDesc, "hxDesc"), (hy, hyDesc, "hyDesc")):
        if buffer is not None:
            _require_states(desc, xs.batch, state, name)
    if desc.mode == RNN_LSTM:
        for buffer, state, name in ((cx, cxDesc, "cxDesc"), (cy, cyDesc, "cyDesc")):
            if buffer is not None:
                _require_states(desc, xs.batch, state, name)
    return _forward(handle, desc, training, xs, x, ys, y, w, hx, cx, hy, cy, space, space_size, kept, kept_size)


def miopenRNNForwardTraining(handle, rnnDesc, sequenceLen, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w, yDesc, y, hyDesc,
                             hy, cyDesc, cy, workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes):
    """y, hy, cy = the outputs and last states of recurrent layers, with what gradients need kept.

    miopenRNNForward has the formulas.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
        Number of steps.
    xDesc, yDesc : lists of TensorDescriptor
        One for each step, of (sequences, vector), vector being directions * hidden of y; the sequences may become
        fewer, but not more.
    x, y : memory of the handle's device
        The steps one behind the other; with miopenRNNIOWithPadding each of as many sequences as the first.
    hxDesc, cxDesc, hyDesc, cyDesc : TensorDescriptor
        (layers * directions, sequences, hidden).
    hx, cx, hy, cy : memory of the handle's device, or None
        As miopenRNNForward takes them.
    wDesc : TensorDescriptor
        As miopenGetRNNParamsDescriptor sets it.
    w : memory of the handle's device
    workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
        What miopenGetRNNWorkspaceSize says.
    reserveSpace : memory of the handle's device
    reserveSpaceNumBytes : int
        What miopenGetRNNTrainingReserveSize says.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForward; and for steps with more sequences than the one before.
    """
    require_handle(handle)
    _steps_forward(handle, as_rnn(rnnDesc, "rnnDesc"), True, sequenceLen, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w,
                   yDesc, y, hyDesc, hy, cyDesc, cy, workSpace, workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes)


def miopenRNNForwardInference(handle, rnnDesc, sequenceLen, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w, yDesc, y,
                              hyDesc, hy, cyDesc, cy, workSpace, workSpaceNumBytes):
    """y, hy, cy = the outputs and last states of recurrent layers; nothing is dropped between them.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
    xDesc : list of TensorDescriptor
    x : memory of the handle's device
    hxDesc : TensorDescriptor
    hx : memory of the handle's device, or None
    cxDesc : TensorDescriptor
    cx : memory of the handle's device, or None
    wDesc : TensorDescriptor
    w : memory of the handle's device
    yDesc : list of TensorDescriptor
    y : memory of the handle's device
    hyDesc : TensorDescriptor
    hy : memory of the handle's device, or None
    cyDesc : TensorDescriptor
    cy, workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
        All as miopenRNNForwardTraining takes them.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForwardTraining.
    """
    require_handle(handle)
    _steps_forward(handle, as_rnn(rnnDesc, "rnnDesc"), False, sequenceLen, xDesc, x, hxDesc, hx, cxDesc, cx, wDesc, w,
                   yDesc, y, hyDesc, hy, cyDesc, cy, workSpace, workSpaceNumBytes, None, 0)


def miopenRNNBackwardData(handle, rnnDesc, sequenceLen, yDesc, y, dyDesc, dy, dhyDesc, dhy, dcyDesc, dcy, wDesc, w,
                          hxDesc, hx, cxDesc, cx, dxDesc, dx, dhxDesc, dhx, dcxDesc, dcx, workSpace, workSpaceNumBytes,
                          reserveSpace, reserveSpaceNumBytes):
    """dx, dhx, dcx = the gradients of the inputs and the first states; after miopenRNNForwardTraining.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
    yDesc, dyDesc, dxDesc : lists of TensorDescriptor
    y, dy, dx : memory of the handle's device
    dhyDesc, dcyDesc, hxDesc, cxDesc, dhxDesc, dcxDesc : TensorDescriptor
    dhy, dcy, hx, cx, dhx, dcx : memory of the handle's device, or None
    wDesc : TensorDescriptor
    w : memory of the handle's device
    workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
    reserveSpace : memory of the handle's device
    reserveSpaceNumBytes : int
        All as miopenRNNForwardTraining and miopenRNNBackwardSeqData take them.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForwardTraining.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor xs, ys, gradients
    desc.require_set()
    xs, ys = _of_steps(desc, sequenceLen, dxDesc, "dxDesc", yDesc)
    gradients = sequences_of(dyDesc, sequenceLen, desc.padding, "dyDesc")
    if gradients != ys:
        raise BadParmError("sequences differ from yDesc's", "dyDesc", gradients, ys)
    _require_parameters(desc, wDesc, xs.vector)
    for buffer, state, name in ((hx, hxDesc, "hxDesc"), (dhy, dhyDesc, "dhyDesc"), (dhx, dhxDesc, "dhxDesc")):
        if buffer is not None:
            _require_states(desc, xs.batch, state, name)
    if desc.mode == RNN_LSTM:
        for buffer, state, name in ((cx, cxDesc, "cxDesc"), (dcy, dcyDesc, "dcyDesc"), (dcx, dcxDesc, "dcxDesc")):
            if buffer is not None:
                _require_states(desc, xs.batch, state, name)
    _backward_data(handle, desc, xs, dx, ys, y, dy, w, hx, cx, dhy, dcy, dhx, dcx, workSpace, workSpaceNumBytes,
                   reserveSpace, reserveSpaceNumBytes)


def miopenRNNBackwardWeights(handle, rnnDesc, sequenceLen, xDesc, x, hxDesc, hx, yDesc, y, dwDesc, dw, workSpace,
                             workSpaceNumBytes, reserveSpace, reserveSpaceNumBytes):
    """dw = the gradients of all parameters; after miopenRNNBackwardData.

    Parameters
    ----------
    handle : Handle
    rnnDesc : RNNDescriptor
    sequenceLen : int
    xDesc : list of TensorDescriptor
    x : memory of the handle's device
    hxDesc : TensorDescriptor
    hx : memory of the handle's device, or None
    yDesc : list of TensorDescriptor
    y : memory of the handle's device
    dwDesc : TensorDescriptor
        As miopenGetRNNParamsDescriptor sets it.
    dw : memory of the handle's device
        Is overwritten.
    workSpace : memory of the handle's device, or None
    workSpaceNumBytes : int
    reserveSpace : memory of the handle's device
    reserveSpaceNumBytes : int
        All as miopenRNNForwardTraining takes them.

    Raises
    ------
    BadParmError, UnknownError, MIOpenNotImplementedError
        As miopenRNNForwardTraining.
    """
    require_handle(handle)
    cdef RNNDescriptor desc = as_rnn(rnnDesc, "rnnDesc")
    cdef SeqTensorDescriptor xs, ys
    desc.require_set()
    xs, ys = _of_steps(desc, sequenceLen, xDesc, "xDesc", yDesc)
    _require_parameters(desc, dwDesc, xs.vector)
    if hx is not None:
        _require_states(desc, xs.batch, hxDesc, "hxDesc")
    _backward_weights(handle, desc, xs, x, ys, y, hx, dw, workSpace, workSpaceNumBytes, reserveSpace,
                      reserveSpaceNumBytes)


# Plans


cdef unsigned _flat_w(RNNDescriptor desc, object w_desc, SeqTensorDescriptor x) except *:
    x.require_set("x_desc")
    desc.require_set()
    _require_parameters(desc, as_tensor(w_desc, "w_desc"), x.vector)
    return FLAT_W if as_tensor(w_desc, "w_desc").ndim == 1 else 0


cdef Plan _plan(object handle, int what, tuple given, RNNDescriptor desc, SeqTensorDescriptor x, SeqTensorDescriptor y,
                object w_desc, bint training, unsigned has, tuple names, const int* order):
    """`given` are the four descriptors themselves."""
    cdef Handle h = as_handle(handle)
    cdef tuple watched = (*given, *((desc.dropout,) if desc.dropout is not None else ()))
    cdef tuple now = (desc, x, y, *[seen(d) for d in watched[3:]])
    cdef unsigned flat = _flat_w(desc, w_desc, x)
    cdef RNNProblem problem = rnn_problem(what, desc, x, y, training, has, flat)
    cdef Invoker invoker = invoker_of(h, problem)
    cdef Plan plan
    cdef int i, slot
    cdef list taken = [], slots = []
    for i in range(len(names)):
        slot = order[i]
        if problem.tensor[slot] != NULL or problem.raw[slot]:
            taken.append(names[i])
            slots.append(slot)
    plan = make_plan(h, invoker, (*taken, "workSpace"), watched, now,
                     ("rnn_desc", "x_desc", "y_desc", "w_desc", "dropout_desc")[:len(watched)],
                     lambda now: rnn_problem(what, now[0], now[1], now[2], training, has, flat).key,
                     explaining_of(h, problem, invoker), ())
    if any([stamp_of(d) != stamp_of(seen_now) for d, seen_now in zip(watched[3:], now[3:])]):  # set meanwhile
        return _plan(handle, what, given, desc, x, y, w_desc, training, has, names, order)
    plan.count = len(slots)
    for i in range(plan.count):
        plan.order[i] = slots[i]
    return plan


def plan_rnn_forward(handle, rnn_desc, x_desc, w_desc, y_desc, training, hx, cx, hy, cy):
    """Body of Handle.rnn_forward."""
    cdef RNNDescriptor desc = as_rnn(rnn_desc, "rnn_desc")
    cdef unsigned has = _wanted(desc, (hx, cx, hy, cy), ("hx", "cx", "hy", "cy"), (RNN_HX, RNN_CX, RNN_HY, RNN_CY))
    return _plan(handle, MX_RNN_FORWARD, (rnn_desc, x_desc, y_desc, w_desc), desc,
                 as_sequences(x_desc, "x_desc"), as_sequences(y_desc, "y_desc"), w_desc,
                 to_flag(training, "training"), has,
                 ("x", "w", "hx", "cx", "y", "hy", "cy", "reserve", "table", "states"), _FORWARD)


def plan_rnn_backward_data(handle, rnn_desc, y_desc, w_desc, x_desc, hx, cx, dhy, dcy, dhx, dcx):
    """Body of Handle.rnn_backward_data."""
    cdef RNNDescriptor desc = as_rnn(rnn_desc, "rnn_desc")
    cdef unsigned has = _wanted(desc, (hx, cx, dhy, dcy, dhx, dcx), ("hx", "cx", "dhy", "dcy", "dhx", "dcx"),
                                (RNN_HX, RNN_CX, RNN_HY, RNN_CY, RNN_DHX, RNN_DCX))
    return _plan(handle, MX_RNN_BACKWARD_DATA, (rnn_desc, x_desc, y_desc, w_desc), desc,
                 as_sequences(x_desc, "x_desc"), as_sequences(y_desc, "y_desc"),
                 w_desc, True, has,
                 ("y", "dy", "w", "hx", "cx", "dhy", "dcy", "dx", "dhx", "dcx", "reserve", "table"), _DATA)


def plan_rnn_backward_weights(handle, rnn_desc, x_desc, y_desc, dw_desc, hx):
    """Body of Handle.rnn_backward_weights."""
    cdef RNNDescriptor desc = as_rnn(rnn_desc, "rnn_desc")
    return _plan(handle, MX_RNN_BACKWARD_WEIGHTS, (rnn_desc, x_desc, y_desc, dw_desc), desc,
                 as_sequences(x_desc, "x_desc"),
                 as_sequences(y_desc, "y_desc"), dw_desc, True, _wanted(desc, (hx,), ("hx",), (RNN_HX,)),
                 ("x", "hx", "y", "dw", "reserve", "table"), _WEIGHTS)


cdef unsigned _wanted(RNNDescriptor desc, tuple flags, tuple names, tuple slots) except *:
    """A bit for each state that a plan takes; cells are LSTM's."""
    cdef unsigned has = 0
    cdef int i
    for i in range(len(flags)):
        if to_flag(flags[i], names[i]) and (desc.mode == RNN_LSTM or "c" not in names[i]):
            has |= 1 << <int> slots[i]
    return has


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
