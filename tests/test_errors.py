"""What failing calls raise, and the functions that name statuses and the version."""

import pickle

import pytest

import miopyx
from miopyx import errors
from miopyx.enums import miopenStatus_t

BUILTIN = {
    "miopenStatusNotInitialized": RuntimeError, "miopenStatusInvalidValue": ValueError,
    "miopenStatusBadParm": ValueError, "miopenStatusAllocFailed": MemoryError,
    "miopenStatusInternalError": RuntimeError, "miopenStatusNotImplemented": NotImplementedError,
    "miopenStatusUnknownError": RuntimeError, "miopenStatusUnsupportedOp": NotImplementedError,
    "miopenStatusGpuOperationsSkipped": RuntimeError, "miopenStatusVersionMismatch": ValueError,
}


def test_every_failing_status_has_a_class():
    assert set(errors.ERROR_OF_STATUS) == set(miopenStatus_t) - {miopenStatus_t.miopenStatusSuccess}
    assert len(set(errors.ERROR_OF_STATUS.values())) == len(errors.ERROR_OF_STATUS)


@pytest.mark.parametrize("status", errors.ERROR_OF_STATUS, ids=lambda s: s.name)
def test_error_carries_what_is_wrong(status):
    raised = errors.error(status, "too long", "n", 12, "1 ... 8")
    assert type(raised) is errors.ERROR_OF_STATUS[status]
    assert isinstance(raised, BUILTIN[status.name])
    assert (raised.status, raised.message) == (status, "too long")
    assert (raised.parameter, raised.value, raised.limit) == ("n", 12, "1 ... 8")
    assert str(raised) == f"{status.name}: too long [n = 12; allowed: 1 ... 8]"
    assert getattr(miopyx, type(raised).__name__) is type(raised)


def test_text_without_details():
    assert str(errors.BadParmError("wrong")) == "miopenStatusBadParm: wrong"
    assert str(errors.BadParmError("null", "x", None)) == "miopenStatusBadParm: null [x = None]"
    assert (errors.UnknownError("wrong").parameter, errors.UnknownError("wrong").limit) == (None, None)


def test_long_values_are_cut():
    text = str(errors.BadParmError("wrong", "x", list(range(1000)), "few"))
    assert len(text) < 160
    assert text.endswith("...; allowed: few]")


def test_errors_travel_between_processes():
    sent = errors.BadParmError("too long", "n", 12, 8)
    received = pickle.loads(pickle.dumps(sent))
    assert type(received) is type(sent)
    assert (received.args, str(received)) == (sent.args, str(sent))


def test_base_class_catches_all():
    for cls in errors.ERROR_OF_STATUS.values():
        with pytest.raises(miopyx.MIOpenError):
            raise cls("wrong")


@pytest.mark.parametrize(("code", "cls", "name"), [
    (-4, errors.AllocFailedError, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
    (-6, errors.AllocFailedError, "CL_OUT_OF_HOST_MEMORY"),
    (-5, errors.UnknownError, "CL_OUT_OF_RESOURCES"),
    (-11, errors.UnknownError, "CL_BUILD_PROGRAM_FAILURE"),
    (-9999, errors.UnknownError, "OpenCL error"),
])
def test_opencl_errors(code, cls, name):
    raised = errors.from_opencl(code, "clDoThings", "the log")
    assert type(raised) is cls
    assert raised.message == f"clDoThings failed with {name} ({code}): the log"


@pytest.mark.parametrize("status", miopenStatus_t, ids=lambda s: s.name)
def test_error_string(status):
    assert miopyx.miopenGetErrorString(status) == status.name
    assert miopyx.miopenGetErrorString(int(status)) == status.name


@pytest.mark.parametrize("value", [-1, 11, 1 << 40, None, "miopenStatusSuccess", 0.5, [], float("nan")])
def test_error_string_of_anything_else(value):
    assert miopyx.miopenGetErrorString(value) == "Unknown error status"


def test_version():
    version = miopyx.miopenGetVersion()
    assert version == (3, 3, 0)
    assert all(type(part) is int for part in version)
