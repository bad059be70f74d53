"""CTC loss of miopen.h.

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from libc.stdint cimport int64_t

from miopyx.engine._binding cimport workspace_bytes
from miopyx.engine._handle cimport Handle, as_handle
from miopyx.engine._invoker cimport Invoker
from miopyx.problem._descriptors cimport check_descriptor
from miopyx.problem._ctc cimport (
    CTC_GRADIENTS, CTC_LOSSES, CTC_PROBS, CTC_TABLE, CTCLossDescriptor, CTCProblem, Labels, as_ctc, most_of,
    room_for,
)
from miopyx.values._args cimport raise_unknown, to_member
from miopyx.values._types cimport MX_CTC
from ._operation cimport Signature, arg_t, invoker_of, run_problem

from miopyx.problem._ctc import CTCLossDescriptor, CTCProblem, Labels
from miopyx.problem._descriptors import destroy

cdef tuple _NAMES = ("probs", "labels", "losses", "gradients", "workSpace")
cdef int[4] _ORDER = [CTC_PROBS, CTC_TABLE, CTC_LOSSES, CTC_GRADIENTS]


def miopenCreateCTCLossDescriptor():
    """Return a CTCLossDescriptor: float32, blank is class 0, softmax applied."""
    return CTCLossDescriptor()


def miopenSetCTCLossDescriptor(ctcLossDesc, dataType, blank_label_id, apply_softmax_layer):
    """Set the type, the blank label, and what probs are.

    Parameters
    ----------
    ctcLossDesc : CTCLossDescriptor
    dataType : miopenDataType_t
        Kept and given back; a loss is computed in the type of its tensors.
    blank_label_id : int
        The class that is no label.  What lies beyond the classes of a call is the nearest one.
    apply_softmax_layer : bool
        Whether probabilities are the softmax of probs; else probs are their logarithms.

    Raises
    ------
    BadParmError
        For an unknown type, or what is no integer or no flag; the descriptor stays as it was.
    """
    cdef CTCLossDescriptor desc = check_descriptor(ctcLossDesc, CTCLossDescriptor, "ctcLossDesc")
    desc.set(dataType, blank_label_id, apply_softmax_layer)


def miopenGetCTCLossDescriptor(ctcLossDesc):
    """Return the type, the blank label, and whether softmax is applied.

    Parameters
    ----------
    ctcLossDesc : CTCLossDescriptor

    Returns
    -------
    (dataType, blank_label_id, apply_softmax_layer)
        As miopenSetCTCLossDescriptor took them.

    Raises
    ------
    BadParmError
        For anything but a CTCLossDescriptor that was not destroyed.
    """
    cdef CTCLossDescriptor desc = as_ctc(ctcLossDesc, "ctcLossDesc").copied()  # of one moment
    return desc.data_type, desc.blank_label_id, desc.apply_softmax_layer


def miopenDestroyCTCLossDescriptor(ctcLossDesc):
    """End the descriptor's life; using it afterwards is a BadParmError.

    Parameters
    ----------
    ctcLossDesc : CTCLossDescriptor or None
        One that was destroyed before, or None, is fine.

    Raises
    ------
    BadParmError
        For any other object.
    """
    destroy(ctcLossDesc, CTCLossDescriptor, "ctcLossDesc")


cdef CTCProblem _problem(object probs, object gradients, object algo, object ctc):
    cdef int number = to_member(algo, "miopenCTCLossAlgo_t", "algo")
    if number != 0:
        raise_unknown(algo, "miopenCTCLossAlgo_t", "algo")
    return CTCProblem(as_ctc(ctc, "ctcLossDesc"), probs, gradients)


def miopenGetCTCLossWorkspaceSize(handle, probsDesc, gradientsDesc, labels, labelLengths, inputLengths, algo,
                                  ctcLossDesc):
    """Return the bytes of workspace that miopenCTCLoss needs; it may be called with shorter labels, too.

    Parameters
    ----------
    handle : Handle
    probsDesc, gradientsDesc, labels, labelLengths, inputLengths, algo, ctcLossDesc
        As miopenCTCLoss takes them.

    Returns
    -------
    int

    Raises
    ------
    BadParmError, MIOpenNotImplementedError
        As miopenCTCLoss.
    """
    cdef Handle h = as_handle(handle)
    cdef CTCProblem problem = _problem(probsDesc, gradientsDesc, algo, ctcLossDesc)
    problem.set_room((<Labels> Labels(problem, labels, labelLengths, inputLengths)).room)
    return (<Invoker> invoker_of(h, problem)).solution.workspace


def miopenCTCLoss(handle, probsDesc, probs, labels, labelLengths, inputLengths, losses, gradientsDesc, gradients, algo,
                  ctcLossDesc, workSpace, workSpaceSize):
    """The loss of connectionist temporal classification of each sample, and its gradient for probs.

        loss = -log of the sum of the probabilities of all paths through the classes that are the labels once equal
               neighbours became one and blanks were taken out

    With the softmax applied the gradient is the one for probs.  Else probs are logarithms of probabilities y, and the
    gradient is the one for y, as MIOpen has it.  Arithmetic is float32 in logarithms, for float64 float64; it is
    deterministic.  Where no path leads to the labels the loss is infinite and the gradient NaN.

    Parameters
    ----------
    handle : Handle
    probsDesc, gradientsDesc : TensorDescriptor
        Steps, samples, classes: of equal lengths and types (float16, bfloat16, float32, float64), any strides.
    probs, gradients : memory of the handle's device
        Buffers, on the host arrays, that hold what their descriptors say.  Gradients of steps beyond a sample's are 0.
    labels : sequence of int
        On the host: the labels of all samples, one sample behind the other; classes other than blank.
    labelLengths, inputLengths : sequences of int
        On the host: for each sample how many labels and steps it has; 0 is fine.
    losses : memory of the handle's device
        A number of probs' type for each sample.
    algo : miopenCTCLossAlgo_t
    ctcLossDesc : CTCLossDescriptor
    workSpace : memory of the handle's device, or None
        Of what miopenGetCTCLossWorkspaceSize says; None where that is 0.
    workSpaceSize : int

    Raises
    ------
    BadParmError
        For lengths or types that do not fit each other, labels that are no classes, or a buffer that does not fit or
        is missing; nothing was run then.
    UnknownError
        For a workspace that is too small.
    MIOpenNotImplementedError
        For another type.
    """
    cdef Handle h = as_handle(handle)
    cdef CTCProblem problem = _problem(probsDesc, gradientsDesc, algo, ctcLossDesc)
    cdef int64_t size = workspace_bytes(workSpaceSize)
    cdef Labels known = Labels(problem, labels, labelLengths, inputLengths)
    problem.set_room(known.room)
    table = known.table if h.device.is_host or h.device.shares_memory else h.upload(known.table)
    cdef arg_t[5] buffers = [<arg_t> probs, <arg_t> table, <arg_t> losses, <arg_t> gradients, <arg_t> workSpace]
    run_problem(h, problem, 4, _ORDER, buffers, _NAMES, NULL, size)


def _of_plan(int64_t room, ctc, probs, gradients):
    return CTCProblem(ctc, probs, gradients, room)


cdef Signature _PLAN = Signature(MX_CTC, _of_plan, ("ctcDesc", "probsDesc", "gradientsDesc"), {
    "probs": CTC_PROBS, "table": CTC_TABLE, "losses": CTC_LOSSES, "gradients": CTC_GRADIENTS},
    first=CTCLossDescriptor)


def plan_ctc_loss(handle, probs_desc, gradients_desc, ctc_desc, most_labels):
    """Body of Handle.ctc_loss."""
    return _PLAN.plan(handle, (ctc_desc, probs_desc, gradients_desc), room_for(most_of(most_labels)), 0)


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
