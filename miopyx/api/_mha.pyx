"""The attention's descriptor of miopen.h, and plans; its problems are Find 2.0's (_find2).

Names and argument order are the header's; output pointers became return values and failures exceptions.
"""

from miopyx.engine._handle cimport Handle, as_handle
from miopyx.engine._invoker cimport Invoker
from miopyx.engine._plan cimport Plan, make_plan
from miopyx.problem._descriptors cimport check_descriptor
from miopyx.problem._mha cimport MhaDescriptor, as_mha
from miopyx.problem._problem cimport Problem
from ._operation cimport explaining_of, invoker_of

from miopyx.problem._mha import BACKWARD_SLOTS, FORWARD_SLOTS, MhaProblem


def miopenCreateMhaDescriptor():
    """Return a new MhaDescriptor: scale 1."""
    return MhaDescriptor()


def miopenSetMhaDescriptor(mhaDesc, scale):
    """Set the factor of the products of q and k.

    Parameters
    ----------
    mhaDesc : MhaDescriptor
    scale : float
        Most models take 1 / sqrt(d).

    Raises
    ------
    BadParmError
        For what is no real number; the descriptor stays as it was.
    """
    cdef MhaDescriptor desc = check_descriptor(mhaDesc, MhaDescriptor, "mhaDesc")
    desc.set(scale)


def miopenGetMhaDescriptor(mhaDesc):
    """Return the factor of the products of q and k.

    Parameters
    ----------
    mhaDesc : MhaDescriptor

    Returns
    -------
    float

    Raises
    ------
    BadParmError
        For anything but a MhaDescriptor that was not destroyed.
    """
    return as_mha(mhaDesc, "mhaDesc").scale


def plan_mha(handle, backward, scale, tensors):
    """Return the plan of an attention; its buffers stand in the order of FORWARD_SLOTS or BACKWARD_SLOTS.

    What Find 2.0 runs; `tensors` are descriptors by names, as in FORWARD_SLOTS, that nobody sets any more.
    """
    cdef Handle h = as_handle(handle)
    cdef Problem problem = MhaProblem(backward, tensors)
    cdef Invoker invoker = invoker_of(h, problem)
    cdef Plan plan
    cdef int i
    slots = BACKWARD_SLOTS if backward else FORWARD_SLOTS
    plan = make_plan(h, invoker, (*slots, "workSpace"), (), (), (), lambda now: problem.key,
                     explaining_of(h, problem, invoker), (("mask", 0.0), ("scale", scale)))
    plan.count = len(slots)
    for i, (name, slot) in enumerate(slots.items()):
        plan.order[i] = slot if name in tensors else -1
    return plan


__all__ = [_name for _name in globals() if _name.startswith("miopen") and not _name.endswith("_t")]
