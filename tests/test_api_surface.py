"""The functions of miopen.h: all there, with the header's arguments, and every one of the convolution page at work."""

import ast
import inspect
import pydoc
from pathlib import Path

import numpy as np
import pytest

import miopyx
from miopyx import ConvolutionDescriptor, TensorDescriptor, functional
from miopyx.solvers import registry

TESTS = Path(__file__).resolve().parent


def listed():
    """Return {group: {function: parameters that are not outputs}} of data/miopen_api.txt."""
    groups = {}
    for line in (TESTS / "data" / "miopen_api.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            functions = groups.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            name, *parameters = line.split()
            assert name not in functions
            functions[name] = [p for p in parameters if not p.startswith(">")]
    return groups


FUNCTIONS = {name: parameters for group in listed().values() for name, parameters in group.items()}


def exported():
    return {name for name in dir(miopyx) if name.startswith("miopen") and callable(getattr(miopyx, name))
            and not isinstance(getattr(miopyx, name), type)}


def stub_of(kind):
    """The constructor's parameters in the stub of a class, names with whether they have a default, without self."""
    if kind is miopyx.Handle:
        kind = kind.__base__
    path = Path(inspect.getfile(miopyx)).parents[1] / (kind.__module__.replace(".", "/") + ".pyi")
    body = next(node for node in ast.parse(path.read_text(encoding="utf-8")).body
                if isinstance(node, ast.ClassDef) and node.name == kind.__name__).body
    made = [node.args for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    if not made:
        return []
    args = made[0]
    given = [False] * (len(args.args) - len(args.defaults)) + [True] * len(args.defaults)
    return [*[(one.arg, has) for one, has in zip(args.args, given, strict=True)][1:],
            *[(one.arg, default is not None) for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]]


CLASSES = [one for one in (getattr(miopyx, name) for name in dir(miopyx))
           if isinstance(one, type) and not issubclass(one, (Exception, int, tuple))
           and one.__module__.startswith("miopyx.")]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_classes_have_signatures(kind):
    """help() shows how a class is called, and what it says is so."""
    signature = inspect.signature(kind)
    assert [(p.name, p.default is not p.empty) for p in signature.parameters.values()] == stub_of(kind)
    assert pydoc.render_doc(kind, renderer=pydoc.plaintext).splitlines()[2].strip().startswith(
        f"class {kind.__name__}")
    assert f"{kind.__name__}(" in pydoc.render_doc(kind, renderer=pydoc.plaintext)
    assert inspect.getdoc(kind)
    assert "\n--\n" not in kind.__doc__
    if not signature.parameters:
        return
    # The same defaults, given and left out.
    required = [p for p in signature.parameters.values() if p.default is p.empty]
    if not required and kind is not miopyx.Solver and kind is not miopyx.Handle:
        assert kind(**{p.name: p.default for p in signature.parameters.values()}) == kind()


def test_there_are_classes():
    assert {miopyx.RNNDescriptor, miopyx.Handle, miopyx.Plan, miopyx.BackendDescriptor} <= set(CLASSES)
    assert len(CLASSES) >= 20


def test_the_convolution_page_is_complete():
    assert len(listed()["page"]) == 41
    assert set(listed()["page"]) <= exported()


def test_what_is_exported_is_listed():
    assert exported() == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_the_headers(name):
    function = getattr(miopyx, name)
    parameters = inspect.signature(function).parameters.values()
    ours = [p for p in parameters if p.kind is p.KEYWORD_ONLY]  # what the header does not have
    assert [p.name for p in parameters if p not in ours] == FUNCTIONS[name]
    assert all(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters if p not in ours)
    assert all(p.default in (None, False) for p in ours)
    assert function.__doc__


def test_the_header_says_the_same():
    """Of each function that both lists have: parameters in the same order, outputs left out."""
    header = {}
    for line in (TESTS / "data" / "miopen_h.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("miopen"):
            name, *parameters = line.split()
            header[name] = parameters
    assert len(header) == 256
    both = FUNCTIONS.keys() & header.keys()
    assert len(both) > 120
    for name in both:
        place = 0
        for parameter in FUNCTIONS[name]:
            assert parameter in header[name][place:], (name, parameter)
            place = header[name].index(parameter, place) + 1


def test_every_function_is_used_in_a_test():
    used = set()
    for file in TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
    assert not set(FUNCTIONS) - used


def test_public_names_are_meant():
    """`import *` must not hand on what modules import for themselves."""
    meant = {"ActivationDescriptor", "BackendDescriptor", "CTCLossDescriptor", "ConvolutionDescriptor",
             "DropoutDescriptor",
             "FindOptions", "FindProblem", "FindSolution", "FusionOperator", "FusionPlanDescriptor", "Handle",
             "LRNDescriptor",
             "MhaDescriptor", "OperatorArgs", "Plan", "PoolingDescriptor", "RNNDescriptor", "ReduceTensorDescriptor",
             "SeqTensorDescriptor", "SoftmaxDescriptor", "Solver", "TensorDescriptor", "cast_tensor", "copy_tensor",
             "solver_id", "solver_name"}
    errors = {error.__name__ for error in (miopyx.MIOpenError, *miopyx.errors.ERROR_OF_STATUS.values())}
    enums = set(miopyx.enums.__all__)
    structs = {"miopenConvAlgoPerf_t", "miopenConvSolution_t", "miopenTensorArgument_t"}
    modules = {name for name in dir(miopyx) if inspect.ismodule(getattr(miopyx, name))}
    public = {name for name in dir(miopyx) if not name.startswith("_")}
    assert meant | structs | errors <= public
    assert public - modules == meant | errors | enums | structs | set(FUNCTIONS) | set(functional.__all__)


# The convolution page at work.  Small integers make every sum exact, so results must be equal to the last bit.

CONV = ConvolutionDescriptor((1, 1), (1, 1), (1, 1))
X, W, Y = (2, 4, 7, 6), (5, 4, 3, 3), (2, 5, 7, 6)


def forward(x, w):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sum(np.einsum("nchw,kc->nkhw", padded[:, :, r:r + 7, s:s + 6], w[:, :, r, s])
               for r in range(3) for s in range(3))


def backward_data(dy, w):
    padded = np.pad(dy, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sum(np.einsum("nkhw,kc->nchw", padded[:, :, r:r + 7, s:s + 6], w[:, :, 2 - r, 2 - s])
               for r in range(3) for s in range(3))


def backward_weights(dy, x):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.stack([np.stack([np.einsum("nkhw,nchw->kc", dy, padded[:, :, r:r + 7, s:s + 6])
                               for s in range(3)], -1) for r in range(3)], -2)


# A direction: its functions, the lengths of its two inputs and its output, what it computes.
DIRECTIONS = {
    "forward": (
        (miopyx.miopenConvolutionForwardGetWorkSpaceSize, miopyx.miopenFindConvolutionForwardAlgorithm,
         miopyx.miopenConvolutionForward, miopyx.miopenConvolutionForwardGetSolutionCount,
         miopyx.miopenConvolutionForwardGetSolution, miopyx.miopenConvolutionForwardGetSolutionWorkspaceSize,
         miopyx.miopenConvolutionForwardCompileSolution, miopyx.miopenConvolutionForwardImmediate),
        (X, W, Y), forward, "fwd_algo"),
    "backward data": (
        (miopyx.miopenConvolutionBackwardDataGetWorkSpaceSize, miopyx.miopenFindConvolutionBackwardDataAlgorithm,
         miopyx.miopenConvolutionBackwardData, miopyx.miopenConvolutionBackwardDataGetSolutionCount,
         miopyx.miopenConvolutionBackwardDataGetSolution,
         miopyx.miopenConvolutionBackwardDataGetSolutionWorkspaceSize,
         miopyx.miopenConvolutionBackwardDataCompileSolution, miopyx.miopenConvolutionBackwardDataImmediate),
        (Y, W, X), backward_data, "bwd_data_algo"),
    "backward weights": (
        (miopyx.miopenConvolutionBackwardWeightsGetWorkSpaceSize,
         miopyx.miopenFindConvolutionBackwardWeightsAlgorithm,
         miopyx.miopenConvolutionBackwardWeights, miopyx.miopenConvolutionBackwardWeightsGetSolutionCount,
         miopyx.miopenConvolutionBackwardWeightsGetSolution,
         miopyx.miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize,
         miopyx.miopenConvolutionBackwardWeightsCompileSolution, miopyx.miopenConvolutionBackwardWeightsImmediate),
        (Y, X, W), backward_weights, "bwd_weights_algo"),
}


def integers(rng, lens):
    return rng.integers(-3, 4, lens).astype("f4")


def download(handle, buffer, lens):
    return handle.download(buffer, np.full(lens, np.nan, "f4"))


def same_integers(got, want, solver="any"):
    """Sums of integers, which all solvers compute exactly but those that transform: these are close to them."""
    close = 1e-3 if solver == "any" or registry.BY_NAME[solver].mixes_tiles else 0
    np.testing.assert_allclose(got, want, rtol=0, atol=close, err_msg=solver)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_functions_of_a_direction(new_handle, rng, direction):
    handle = new_handle
    functions, lens, reference, algo = DIRECTIONS[direction]
    workspace_size, find, run, solution_count, solutions, solution_workspace, compile_solution, immediate = functions
    a, b = integers(rng, lens[0]), integers(rng, lens[1])
    expected = reference(a.astype("f8"), b.astype("f8"))
    a_desc, b_desc, out_desc = (TensorDescriptor("float32", one) for one in lens)
    a_data, b_data = handle.upload(a), handle.upload(b)
    # Queries and immediate mode name the filter before x, Find and run the other way round; only forward tells.
    swapped = direction == "forward"
    query = (b_desc, a_desc, CONV, out_desc) if swapped else (a_desc, b_desc, CONV, out_desc)
    pairs = (b_desc, b_data, a_desc, a_data) if swapped else (a_desc, a_data, b_desc, b_data)

    size = workspace_size(handle, *query)
    workspace = handle.upload(np.zeros(size, "u1")) if size else None
    count = solution_count(handle, *query)
    found = solutions(handle, *query, count + 10)
    assert len(found) == count >= 1
    assert solutions(handle, *query, 0) == []
    assert solutions(handle, *query, 1) == found[:1]
    assert [s.time for s in found] == sorted(s.time for s in found)
    for solution in found:
        assert solution_workspace(handle, *query, solution.solution_id) == solution.workspace_size <= size
        assert compile_solution(handle, *query, solution.solution_id) is None
        out = handle.upload(np.full(lens[2], np.nan, "f4"))
        assert immediate(handle, *pairs, CONV, out_desc, out, workspace, size, solution.solution_id) is None
        same_integers(download(handle, out, lens[2]), expected, registry.solver_name(solution.solution_id))

    out = handle.upload(np.full(lens[2], np.nan, "f4"))
    perfs = find(handle, a_desc, a_data, b_desc, b_data, CONV, out_desc, out, 10, workspace, size, False)
    assert len({perf.algo for perf in perfs}) == len(perfs) >= 1
    assert [perf.time for perf in perfs] == sorted(perf.time for perf in perfs)
    for perf in perfs:
        assert perf.time > 0
        assert 0 <= perf.memory <= size
        old = integers(rng, lens[2])
        out = handle.upload(old)
        assert run(handle, 2, a_desc, a_data, b_desc, b_data, CONV, getattr(perf, algo), -3, out_desc, out, workspace,
                   size) is None
        same_integers(download(handle, out, lens[2]), 2 * expected - 3 * old)


def test_bias_functions(new_handle, rng):
    handle = new_handle
    y, b = integers(rng, Y), integers(rng, (1, 5, 1, 1))
    y_desc, b_desc = TensorDescriptor("float32", Y), TensorDescriptor("float32", b.shape)
    y_data, b_data = handle.upload(y), handle.upload(b)
    assert miopyx.miopenConvolutionForwardBias(handle, 1, b_desc, b_data, 0, y_desc, y_data) is None
    np.testing.assert_array_equal(download(handle, y_data, Y), y + b)
    db = handle.upload(np.full(b.shape, np.nan, "f4"))
    assert miopyx.miopenConvolutionBackwardBias(handle, 1, y_desc, handle.upload(y), 0, b_desc, db) is None
    np.testing.assert_array_equal(download(handle, db, b.shape), y.sum((0, 2, 3), keepdims=True))


# Handles


def test_handle_functions(new_handle, monkeypatch):
    handle = new_handle
    stream = miopyx.miopenGetStream(handle)
    assert (stream is None) == handle.device.is_host
    x, w = TensorDescriptor("float32", (1, 1, 4, 4)), TensorDescriptor("float32", (1, 1, 1, 1))
    assert miopyx.miopenEnableProfiling(handle, True) is None
    data = handle.upload(np.ones((1, 1, 4, 4), "f4"))
    miopyx.miopenConvolutionForwardBias(handle, 1, w, handle.upload(np.ones((1, 1, 1, 1), "f4")), 0, x, data)
    assert 0 < miopyx.miopenGetKernelTime(handle) < 10_000
    assert miopyx.miopenEnableProfiling(handle, False) is None
    if stream is not None:
        with miopyx.miopenCreateWithStream(stream) as other:
            assert miopyx.miopenGetStream(other) is stream
            assert miopyx.miopenSetStream(other, stream) is None
    assert miopyx.miopenDestroy(handle) is None
    for call in (miopyx.miopenGetStream, miopyx.miopenGetKernelTime, lambda h: miopyx.miopenEnableProfiling(h, True)):
        with pytest.raises(miopyx.BadParmError):
            call(handle)


def test_create():
    handle = miopyx.miopenCreate()
    assert isinstance(handle, miopyx.Handle)
    assert miopyx.miopenDestroy(handle) is None
    assert miopyx.miopenDestroy(None) is None


@pytest.mark.parametrize("handle", [None, 0, "host", TensorDescriptor(), object(), miopyx.Handle])
def test_no_handle(handle):
    x = TensorDescriptor("float32", (1, 1, 1, 1))
    for name, parameters in FUNCTIONS.items():
        if parameters[:1] == ["handle"] and not (handle is None and name == "miopenDestroy"):
            arguments = [CONV if p == "convDesc" else x if p.endswith("Desc") else 1 for p in parameters[1:]]
            with pytest.raises(miopyx.BadParmError) as raised:
                getattr(miopyx, name)(handle, *arguments)
            assert raised.value.parameter == "handle", name


def test_host_handle_has_no_stream():
    with miopyx.Handle("host") as handle, pytest.raises(miopyx.UnknownError):
        miopyx.miopenSetStream(handle, None)
    for stream in (None, 1, "host"):
        with pytest.raises(miopyx.BadParmError):
            miopyx.miopenCreateWithStream(stream)
