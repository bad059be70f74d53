"""Arrays of other libraries: DLPack as Python objects and as C functions, interfaces, and what is wrong with them."""

import ctypes

import numpy as np
import pytest

import miopyx
from miopyx import BadParmError, TensorDescriptor

LENS = (2, 3, 4, 5)
ONE = 1.0


class Lent:
    """Lends an array by `__dlpack__`, as a library of its own."""

    def __init__(self, array, versions=True):
        self.array, self.versions = array, versions

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **how):
        if not self.versions and how:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**how)


class Described:
    """Has an `__array_interface__` and nothing else."""

    def __init__(self, array, **changes):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", _Type), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
def _tensor_of(lender, out):
    out[0] = lender.tensor
    return 0


class _Functions(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("before", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("managed_of", ctypes.c_void_p), ("array_of", ctypes.c_void_p),
                ("tensor_of", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


def capsule(functions):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(functions), b"dlpack_exchange_api", None)


FUNCTIONS = _Functions(1, 3, tensor_of=ctypes.cast(_tensor_of, ctypes.c_void_p).value)
OTHERS = _Functions(2, 0, before=ctypes.addressof(FUNCTIONS))
UNKNOWN = _Functions(3, 0)
# Returns -1 with an error set.
FAILING = _Functions(1, 3, tensor_of=ctypes.cast(ctypes.pythonapi.PyObject_Size, ctypes.c_void_p).value)


class Exchanged:
    """Lends an array by DLPack's C functions, as PyTorch does."""

    __dlpack_c_exchange_api__ = capsule(FUNCTIONS)
    turned = False

    def __init__(self, array, **changes):
        self.array, self.dtype = array, array.dtype
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        self.strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
        kind = _Type("iuf  c".index(array.dtype.kind), array.itemsize * 8, 1)
        self.tensor = _Tensor(array.ctypes.data, 1, 0, array.ndim, kind, self.shape, self.strides, 0)
        for name, value in changes.items():
            setattr(self.tensor, name, value)

    def is_neg(self):
        return self.turned


class Newer(Exchanged):
    __dlpack_c_exchange_api__ = capsule(OTHERS)


class Failing:
    __dlpack_c_exchange_api__ = capsule(FAILING)


class Unknown:
    __dlpack_c_exchange_api__ = capsule(UNKNOWN)


def torch_tensor(array):
    return pytest.importorskip("torch").from_numpy(array)


LENDERS = [Lent, lambda array: Lent(array, False), Described, Exchanged, Newer, torch_tensor]
IDS = ["dlpack", "old dlpack", "interface", "functions", "newer functions", "torch"]


@pytest.fixture(params=["host", "device"])
def on(request, host, handle):
    """What computes in host memory."""
    if request.param == "host":
        return host
    if not handle.device.shares_memory:
        pytest.skip("a device with memory of its own")
    return handle


def relu(handle, desc, x, y):
    miopyx.miopenActivationForward(handle, miopyx.ActivationDescriptor("relu"), 1, desc, x, 0, desc, y)


@pytest.mark.parametrize("lend", LENDERS, ids=IDS)
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "gaps"])
def test_memory_is_used_where_it_is(on, rng, lend, layout):
    x, y = np.full((2, *LENS), np.nan, np.float32)
    if layout == "nhwc":
        x, y = (v.reshape(2, 4, 5, 3).transpose(0, 3, 1, 2) for v in (x, y))
    if layout == "gaps":
        x, y = (np.full((2, 3, 8, 10), np.nan, np.float32)[:, :, ::2, ::2] for _ in range(2))
    x[...] = rng.standard_normal(LENS)
    desc = TensorDescriptor("float32", LENS, [s // 4 for s in x.strides])
    relu(on, desc, lend(x), lend(y))
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    plan = on.activation_forward(miopyx.ActivationDescriptor("abs"), desc, desc)
    for turn in range(3):
        y[...] = np.nan
        x[...] = turn - x
        plan(lend(x), lend(y))
        np.testing.assert_array_equal(y, np.abs(x))


@pytest.mark.parametrize("lend", LENDERS, ids=IDS)
def test_what_is_wrong_is_said(host, lend):
    desc = TensorDescriptor("float32", LENS)
    good, y = np.ones(LENS, np.float32), np.ones(LENS, np.float32)
    for bad, why in [
        (np.ones(LENS, np.float64), "another type"), (np.ones((2, 3, 4, 4), np.float32), "too small"),
        (np.ones((2, 3, 5, 4), np.float32).transpose(0, 1, 3, 2), "another layout"),
        (np.ones((2, 3, 8, 5), np.float32)[:, :, ::2], None),
        (np.ones((0, 3, 4, 5), np.float32), "too small"), (np.ones((3, 2, 4, 5), np.float32), "order that contradicts"),
    ]:
        if why is None:  # the descriptor's lengths, not its strides
            why = "another layout"
        with pytest.raises(BadParmError, match=why):
            relu(host, desc, lend(bad), y)
    relu(host, desc, lend(good), y)


def test_overlap_is_seen(host):
    both = np.ones((2, *LENS), np.float32).reshape(4, 3, 4, 5)
    desc = TensorDescriptor("float32", LENS)
    with pytest.raises(BadParmError, match="shares memory"):
        relu(host, desc, Exchanged(both[:2]), Lent(both[1:3]))


@pytest.mark.parametrize(("lender", "why"), [
    (Exchanged(np.ones(LENS, np.float32), data=None), "without memory"),
    (Exchanged(np.ones(LENS, np.float32), device=2, device_id=3), "memory of another device.*cuda:3"),
    (Exchanged(np.ones(LENS, np.float32), device=99), "DLPack device 99"),
    (Exchanged(np.ones(LENS, np.float32), ndim=-1), "without a shape"),
    (Exchanged(np.ones(LENS, np.float32), ndim=1000), "without a shape"),
    (Exchanged(np.ones(LENS, np.float32), dtype=_Type(2, 4, 1)), "parts of a byte"),
    (Exchanged(np.ones(LENS, np.float32), dtype=_Type(2, 32, 4)), "another type"),
    (Exchanged(np.ones(LENS, np.float32), offset=1), "misaligned"),
    (Exchanged(np.ones(LENS, np.complex64)), "another type"),
    (Described(np.ones(LENS, np.float32), typestr="?what"), "not an array"),
    (Unknown(), "not an array"), (object(), "not an array"), ([1.0, 2.0], "not an array"),
], ids=lambda v: type(v).__name__ if not isinstance(v, str) else v[:12])
def test_broken_lenders(host, lender, why):
    desc = TensorDescriptor("float32", LENS)
    with pytest.raises(BadParmError, match=why):
        relu(host, desc, lender, np.ones(LENS, np.float32))


def test_a_library_that_refuses(host):
    desc, y = TensorDescriptor("float32", LENS), np.ones(LENS, np.float32)
    with pytest.raises(BadParmError, match=r"does not lend it: .*Failing"):
        relu(host, desc, Failing(), y)
    lender = Exchanged(np.ones(LENS, np.float32))
    lender.turned = True
    with pytest.raises(BadParmError, match="sign turned"):
        relu(host, desc, lender, y)

    class Refusing:
        def __dlpack__(self, **how):
            raise BufferError("not today")

    class Odd:
        def __dlpack__(self, **how):
            return 5

    for lender, why in ((Refusing(), "not today"), (Odd(), "no capsule")):
        with pytest.raises(BadParmError, match=why):
            relu(host, desc, lender, y)


def test_read_only_memory_is_not_written(host):
    desc, x = TensorDescriptor("float32", LENS), np.ones(LENS, np.float32)
    y = np.zeros(LENS, np.float32)
    y.flags.writeable = False
    for lend in (Lent, Described):
        try:
            lent = lend(y)
            lent.array.__dlpack__(max_version=(1, 0))
        except BufferError:
            continue  # a NumPy that lends no such memory
        with pytest.raises(BadParmError, match="read-only"):
            relu(host, desc, x, lent)
        relu(host, desc, lent, x.copy())


def test_lent_memory_is_given_back(host):
    import gc
    import weakref

    class Array(np.ndarray):
        pass

    desc, y = TensorDescriptor("float32", LENS), np.ones(LENS, np.float32)
    for versions in (True, False):
        x = np.ones(LENS, np.float32).view(Array)
        gone = weakref.ref(x)
        relu(host, desc, Lent(x, versions), y)
        del x
        gc.collect()
        assert gone() is None


def test_tensors_of_torch(host):
    torch = pytest.importorskip("torch")
    desc, y = TensorDescriptor("float32", LENS), torch.empty(LENS)
    x = torch.randn(LENS)
    relu(host, desc, torch.nn.Parameter(x), y)
    torch.testing.assert_close(y, x.clamp(min=0), rtol=0, atol=0)
    turned = torch.randn(LENS, dtype=torch.complex64).conj().imag
    gone = torch.randn(LENS)
    gone.untyped_storage().resize_(0)
    for bad, why in ((x.to("meta"), "meta"), (x.to_sparse(), "storage"), (gone, "without memory"),
                     (turned, "sign turned"), (x.double(), "float64"), (x > 0, "bool")):
        with pytest.raises(BadParmError, match=why):
            relu(host, desc, bad, y)
    for name in ("bfloat16", "float16", "float64"):
        a = x.to(getattr(torch, name))
        out, d = torch.empty_like(a), TensorDescriptor(a.dtype, LENS)
        relu(host, d, a, out)
        torch.testing.assert_close(out, a.clamp(min=0), rtol=0, atol=0)
