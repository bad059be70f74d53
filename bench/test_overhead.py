"""What a call costs besides the work: descriptors, choosing, and launches beside the raw C calls that they make."""

from __future__ import annotations

import importlib.util
import sqlite3

import launching
import numpy as np
import pytest
from measuring import Loop, Native

import miopyx
from miopyx.choose._ranking import by_model
from miopyx.choose._survey import Survey
from miopyx.problem._key import find_key
from miopyx.problem._problem import ConvProblem
from miopyx.solvers import registry

NS = 1e-9
FLOAT = miopyx.miopenDataType_t.miopenFloat
SET_4D = miopyx.miopenSet4dTensorDescriptor
INIT = miopyx.miopenInitConvolutionDescriptor
COUNT = miopyx.miopenConvolutionForwardGetSolutionCount
SOLUTIONS = miopyx.miopenConvolutionForwardGetSolution
IMMEDIATE = miopyx.miopenConvolutionForwardImmediate
FORWARD = miopyx.miopenConvolutionForward
MANY = 1000

try:
    import torch
except ImportError:
    torch = None


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread():
    """One thread, as ours: a call without work is what is compared."""
    if torch is not None:
        torch.set_num_threads(1)
        torch.set_grad_enabled(False)


# Descriptors


@pytest.fixture(scope="session")
def makers():
    """Return what else makes something as small: an empty function of Cython, an empty tensor of PyTorch."""
    peers = {}
    try:
        empty = launching.cython_empty()
        peers["empty Cython def, 8 arguments"] = Loop("f(a, a, a, 1, 2, 3, 4, 1.0)", f=empty, a=FLOAT)
    except launching.NotHere as e:
        print(f"no empty Cython def: {e}")
    if torch is not None:
        peers["torch.empty"] = Loop("f(s)", f=torch.empty, s=(1, 1, 1, 1))
    return peers


@pytest.fixture
def descriptors():
    """Return x, w, conv, y of a 3x3 convolution."""
    conv = miopyx.ConvolutionDescriptor((1, 1))
    x, w = miopyx.TensorDescriptor("float32", (2, 16, 8, 8)), miopyx.TensorDescriptor("float32", (32, 16, 3, 3))
    return x, w, conv, miopyx.TensorDescriptor("float32", conv.output_lens(x, w))


def test_set_4d(row, makers):
    desc = miopyx.miopenCreateTensorDescriptor()
    row("descriptors", "Set4dTensorDescriptor", Loop("f(d, t, 1, 2, 3, 4)", f=SET_4D, d=desc, t=FLOAT), makers,
        goal=100 * NS)


def test_init_convolution(row, makers):
    conv = miopyx.miopenCreateConvolutionDescriptor()
    row("descriptors", "InitConvolutionDescriptor", Loop("f(c, 0, 1, 1, 1, 1, 1, 1)", f=INIT, c=conv), makers,
        goal=100 * NS)


def test_get_4d(row, descriptors, makers):
    row("descriptors", "Get4dTensorDescriptor",
        Loop("f(d)", f=miopyx.miopenGet4dTensorDescriptor, d=descriptors[0]), makers, goal=150 * NS)


def test_get_convolution(row, descriptors, makers):
    row("descriptors", "GetConvolutionDescriptor",
        Loop("f(c)", f=miopyx.miopenGetConvolutionDescriptor, c=descriptors[2]), makers, goal=150 * NS)


def test_output_dim(row, descriptors, makers):
    x, w, conv, _ = descriptors
    row("descriptors", "GetConvolutionForwardOutputDim",
        Loop("f(c, x, w)", f=miopyx.miopenGetConvolutionForwardOutputDim, c=conv, x=x, w=w), makers, goal=150 * NS)


def test_nd_output_dim(row, descriptors, makers):
    x, w, conv, _ = descriptors
    row("descriptors", "GetConvolutionNdForwardOutputDim",
        Loop("f(c, x, w)", f=miopyx.miopenGetConvolutionNdForwardOutputDim, c=conv, x=x, w=w), makers, goal=250 * NS)


# Choosing


@pytest.fixture(scope="session")
def problems():
    """Return 1,000 different convolutions as tuples of ready descriptors x, w, conv, y."""
    made = []
    for i in range(MANY):
        conv = miopyx.ConvolutionDescriptor((1, 1))
        x = miopyx.TensorDescriptor("float32", (1 + i % 4, 16, 8 + i // 4, 8 + i % 7))
        w = miopyx.TensorDescriptor("float32", (32, 16, 3, 3))
        made.append((x, w, conv, miopyx.TensorDescriptor("float32", conv.output_lens(x, w))))
    return made


@pytest.fixture(scope="session")
def stores(tmp_path_factory, problems):
    """Return look-ups of the same problems' records in a dictionary, sqlite3 and lmdb, their keys ready."""
    keys = [find_key(ConvProblem(0, x, w, y, conv)) for x, w, conv, y in problems]
    folder = tmp_path_factory.mktemp("stores")
    database = sqlite3.connect(":memory:")
    database.execute("create table records (key blob primary key, items blob) without rowid")
    database.executemany("insert into records values (?, ?)", [(key, b"v" * 200) for key in keys])
    database.commit()
    records = {bytes(key): b"v" * 200 for key in keys}
    sql = "select items from records where key = ?"
    peers = {
        "dict, key ready": lambda some: Loop("f(k)", each="k in some", f=records.get, some=some),
        "sqlite3, key ready": lambda some: Loop("f(s, (k,)).fetchone()", each="k in some", f=database.cursor().execute,
                                                s=sql, some=some),
    }
    if importlib.util.find_spec("lmdb"):
        import lmdb

        environment = lmdb.open(str(folder / "records.lmdb"), map_size=1 << 26)
        with environment.begin(write=True) as transaction:
            for key in keys:
                transaction.put(key, b"v" * 200)
        opened = environment.begin()
        peers["lmdb, key ready"] = lambda some: Loop("f(k)", each="k in some", f=opened.get, some=some)
    return {"one": {name: make(keys[:1] * 100) for name, make in peers.items()},
            "many": {name: make(keys) for name, make in peers.items()}}


QUERIES = {"GetSolutionCount": (COUNT, ""), "GetSolution": (SOLUTIONS, ", 4")}


@pytest.mark.parametrize("query", QUERIES)
def test_known_problem(row, handles, stores, problems, choosing_name, query):
    function, more = QUERIES[query]
    x, w, conv, y = problems[0]
    call = Loop(f"f(h, w, x, c, y{more})", f=function, h=handles(choosing_name), x=x, w=w, c=conv, y=y)
    row(f"choosing on {choosing_name}", f"{query}, one problem", call, stores["one"], goal=400 * NS)


@pytest.mark.parametrize("query", QUERIES)
def test_known_problems_in_rotation(row, handles, stores, problems, choosing_name, query):
    function, more = QUERIES[query]
    call = Loop(f"f(h, w, x, c, y{more})", each="x, w, c, y in problems", f=function, h=handles(choosing_name),
                problems=problems)
    row(f"choosing on {choosing_name}", f"{query}, {MANY} problems in rotation", call, stores["many"], goal=400 * NS)


SETTING = ("s(x, t, 2, 16, 8, 8); s(w, t, 32, 16, 3, 3); i(c, 0, 1, 1, 1, 1, 1, 1); s(y, t, 2, 32, 8, 8)")


@pytest.mark.parametrize("query", QUERIES)
def test_known_problem_set_anew(row, handles, stores, descriptors, choosing_name, query):
    function, more = QUERIES[query]
    x, w, conv, y = descriptors
    call = Loop(f"{SETTING}; f(h, w, x, c, y{more})", base=SETTING, s=SET_4D, i=INIT, t=FLOAT, f=function,
                h=handles(choosing_name), x=x, w=w, c=conv, y=y)
    row(f"choosing on {choosing_name}", f"{query}, descriptors set anew (not counted)", call, stores["one"],
        goal=400 * NS)


def test_applicability(row, handles, problems, choosing_name):
    """The whole registry asked about a problem, for each solver in it."""
    asked = [ConvProblem(0, x, w, y, conv) for x, w, conv, y in problems]
    call = Loop("f(h, p).applicable()", each="p in asked", f=Survey, h=handles(choosing_name), asked=asked)
    nothing = Loop("f(h, p)", each="p in asked", f=lambda h, p: None, h=None, asked=asked)
    row(f"choosing on {choosing_name}", f"applicability, each of {len(registry.CONV)} solvers", call,
        {"an empty Python function": nothing}, each=len(registry.CONV), goal=100 * NS)


def test_model(row, handles, problems, choosing_name):
    """What the learned model's answer takes on top of applicability; its file is read before."""
    handle = handles(choosing_name)
    surveys = [Survey(handle, ConvProblem(0, x, w, y, conv)) for x, w, conv, y in problems]
    if not all(map(by_model, surveys)):
        pytest.skip("the device has no model that knows these")
    row(f"choosing on {choosing_name}", "the model's answer beside applicability", Loop(
        "f(s)", each="s in surveys", f=by_model, surveys=surveys), {"applicability": Loop(
            "f(h, p).applicable()", each="p in asked", f=Survey, h=handle,
            asked=[ConvProblem(0, x, w, y, conv) for x, w, conv, y in problems])}, goal=20_000 * NS)


# Launches


@pytest.fixture
def raw(empty_kernels, device_name):
    """Return the raw C calls of a launch with as many changed buffers as asked for."""
    kernel = empty_kernels(device_name)

    def calls(changed=0):
        name = f"raw C calls, {changed} arguments set" if changed else "raw C calls"
        if kernel.handle.device.is_host:
            name = "the C function called"
        return {name: Native(kernel.raw(changed), kernel.handle.finish)}

    return calls


@pytest.fixture
def beyond(steady):
    """Return a function that makes nanoseconds a goal for the difference to the first peer."""
    return lambda ns: {"goal": ns * NS if steady else None, "beyond": True, "compared": steady}


@pytest.fixture
def through_pyopencl(empty_kernels, device_name):
    """Return pyopencl's launches of an empty kernel of eight arguments, typed and not."""
    kernel = empty_kernels(device_name)
    if kernel.handle.device.is_host:
        return {}
    import pyopencl as cl

    x, w, y = kernel.buffers[0]
    common = {"q": kernel.handle.queue, "g": (1,), "x": x, "w": w, "y": y, "after": kernel.handle.finish}
    return {
        "pyopencl, typed set_args and enqueue": Loop(
            "s(x, 0, w, 0, y, 0, 1.0, 0.0); e(q, k, g, None)", s=kernel.typed.set_args,
            e=cl.enqueue_nd_range_kernel, k=kernel.typed, **common),
        "pyopencl, kernel called, NumPy scalars": Loop(
            "k(q, g, None, x, z, w, z, y, z, a, b)", k=kernel.generic, z=np.int64(0), a=np.float32(1), b=np.float32(0),
            **common),
    }


@pytest.fixture
def call(empty_kernels, device_name):
    """Return a function that makes a loop of a statement in which the usual names of a call are known."""
    kernel = empty_kernels(device_name)
    x, w, y = kernel.buffers[0]

    def loop(statement, **more):
        names = {"h": kernel.handle, "p": kernel.plan, "xd": kernel.x_desc, "wd": kernel.w_desc, "yd": kernel.y_desc,
                 "c": kernel.conv, "x": x, "w": w, "y": y, "id": launching.SOLUTION, "algo": launching.ALGORITHM,
                 "now": IMMEDIATE, "forward": FORWARD, "s": SET_4D, "i": INIT, "t": FLOAT, **more}
        return Loop(statement, after=kernel.handle.finish, **names)

    return loop


@pytest.fixture
def smallest_of_torch():
    if torch is None:
        return {}
    x = torch.ones(1, 1, 1, 1)
    return {"torch F.conv2d 1x1x1x1": Loop("f(x, x)", f=torch.nn.functional.conv2d, x=x)}


PLAN = "p(x, w, y)"
NOW = "now(h, wd, w, xd, x, c, yd, y, None, 0, id)"
ALGO = "forward(h, 1.0, xd, x, wd, w, c, algo, 0.0, yd, y, None, 0)"
ANEW = "s(xd, t, 1, 1, 1, 1); s(wd, t, 1, 1, 1, 1); i(c, 0, 0, 0, 1, 1, 1, 1); s(yd, t, 1, 1, 1, 1)"


def launches(device_name):
    return f"an empty kernel on {device_name}"


def test_plan(row, call, raw, beyond, through_pyopencl, device_name):
    row(launches(device_name), "plan(x, w, y)", call(PLAN), raw() | through_pyopencl, **beyond(250))


def test_plan_buffers_by_turns(row, call, raw, beyond, empty_kernels, device_name):
    pairs = empty_kernels(device_name).buffers
    row(launches(device_name), "plan(x, w, y), other buffers each time",
        call(PLAN, each="x, w, y in pairs", pairs=pairs), raw(3), **beyond(250))


def test_plan_arrays(row, call, raw, beyond, handles, device_name):
    handle = handles(device_name)
    if handle.device.is_host:
        pytest.skip("the host has no pyopencl arrays")
    from pyopencl import array

    x, w, y = (array.zeros(handle.queue, (1, 1, 1, 1), np.float32) for _ in range(3))
    row(launches(device_name), "plan(x, w, y), pyopencl Arrays", call(PLAN, x=x, w=w, y=y), raw(), **beyond(250))


def test_immediate(row, call, raw, beyond, smallest_of_torch, device_name):
    row(launches(device_name), "ConvolutionForwardImmediate", call(NOW), raw() | smallest_of_torch, **beyond(600))


def test_immediate_set_anew(row, call, raw, beyond, device_name):
    row(launches(device_name), "ConvolutionForwardImmediate, descriptors set anew", call(f"{ANEW}; {NOW}", base=ANEW),
        raw(), **beyond(600))


def test_forward(row, call, raw, beyond, smallest_of_torch, device_name):
    row(launches(device_name), "ConvolutionForward (algo)", call(ALGO), raw() | smallest_of_torch, **beyond(700))


def test_forward_set_anew(row, call, raw, beyond, device_name):
    row(launches(device_name), "ConvolutionForward (algo), descriptors set anew", call(f"{ANEW}; {ALGO}", base=ANEW),
        raw(), **beyond(700))


@pytest.fixture
def smallest(handles, device_name):
    """Return the names of a 1x1x1x1 convolution with the solver that the device takes for it."""
    handle = handles(device_name)
    conv = miopyx.ConvolutionDescriptor((0, 0))
    x_desc, w_desc, y_desc = (miopyx.TensorDescriptor("float32", (1, 1, 1, 1)) for _ in range(3))
    x, w, y = (handle.upload(np.ones((1, 1, 1, 1), np.float32)) for _ in range(3))
    plan = handle.convolution_forward(x_desc, w_desc, conv, y_desc)
    return {"h": handle, "p": plan, "xd": x_desc, "wd": w_desc, "yd": y_desc, "c": conv, "x": x, "w": w, "y": y,
            "id": plan.solver.id, "now": IMMEDIATE, "after": handle.finish}


@pytest.mark.parametrize("how", ["plan(x, w, y)", "ConvolutionForwardImmediate"])
def test_smallest_convolution(row, smallest, smallest_of_torch, steady, device_name, how):
    statement = PLAN if how.startswith("plan") else NOW
    row(f"a convolution of 1x1x1x1 on {device_name}", how, Loop(statement, **smallest), smallest_of_torch,
        compared=steady)


