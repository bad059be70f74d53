"""API calls on stderr as MIOpen prints them: MIOPEN_ENABLE_LOGGING and MIOPEN_ENABLE_LOGGING_CMD.

The package puts these wrappers around its functions while it is imported, if one of the two is on then; otherwise this
module is not even loaded.  A call is printed before it runs, whatever comes of it.  Printing reads descriptors and
addresses, never contents, and asks nothing of kinds it does not know: it neither fails nor changes what a call does.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from miopyx.engine import _plan
from miopyx.engine._handle import Handle
from miopyx.engine._plan import Plan
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._ctc import CTCLossDescriptor
from miopyx.problem._descriptors import ConvolutionDescriptor, TensorDescriptor, get_attribute
from miopyx.problem._dropout import DropoutDescriptor
from miopyx.problem._lrn import LRNDescriptor
from miopyx.problem._mha import MhaDescriptor
from miopyx.problem._pooling import PoolingDescriptor
from miopyx.problem._reduce import ReduceTensorDescriptor
from miopyx.problem._rnn import RNNDescriptor, SeqTensorDescriptor
from miopyx.problem._softmax import SoftmaxDescriptor
from miopyx.values import logs
from miopyx.values.structs import miopenTensorArgument_t

from . import (
    _activation,
    _adam,
    _batchnorm,
    _cat,
    _convolution,
    _ctc,
    _dropout,
    _find2,
    _fusion,
    _getitem,
    _glu,
    _graph,
    _handle,
    _kthvalue,
    _layernorm,
    _losses,
    _lrn,
    _mha,
    _pooling,
    _prelu,
    _reduce,
    _rnn,
    _rope,
    _softmax,
    _tensor,
    _tensor_ops,
)
from .commands import as_in_the_header, beyond, braces, builder, commented, layout

if TYPE_CHECKING:
    from miopyx.runtime._buffers import _Data

# The modules whose functions are printed.
MODULES = (_convolution, _tensor, _tensor_ops, _pooling, _activation, _lrn, _batchnorm, _softmax, _layernorm,
           _reduce, _dropout, _cat, _ctc, _losses, _glu, _prelu, _kthvalue, _getitem, _rope, _adam,
           _rnn, _fusion, _mha, _graph, _find2)
# Arguments that are lists of numbers and those that are memory; an array could be either.
_LISTS = {"lens", "dimsA", "stridesA", "padA", "strideA", "dilationA", "adjA", "windowDimA", "labels", "labelLengths",
          "inputLengths", "dims", "slices", "sequenceLenArray"}
_MEMORY = {
    "x", "x2", "w", "y", "b", "weight", "mean", "rstd", "workspace", "dx", "dw", "dy", "db", "workSpace", "A", "B", "C",
    "indices", "indice", "states", "reserveSpace", "reserve",
    "src", "dst", "bnScale", "bnBias",
    "resultRunningMean", "resultRunningVariance", "resultSaveMean", "resultSaveInvVariance", "estimatedMean",
    "estimatedVariance", "estimatedInvVariance", "prevResultRunningMean", "prevResultRunningVariance",
    "nextResultRunningMean", "nextResultRunningVariance", "resultBnScaleDiff", "resultBnBiasDiff", "savedMean",
    "savedInvVariance", "scale", "bias", "running_mean", "running_var", "saved_mean", "saved_inv", "est_mean",
    "est_var", "dscale", "dbias",
    "input", "output", "outputGrad", "inputGrad", "doutput", "dinput", "dweight", "target", "error", "cos",
    "sin", "probs", "losses", "gradients", "param", "grad", "expAvg", "expAvgSq", "maxExpAvgSq", "stateStep", "paramIn",
    "paramOut", "paramOutFloat16", "gradIn", "expAvgIn", "expAvgOut", "expAvgSqIn", "expAvgSqOut", "maxExpAvgSqIn",
    "maxExpAvgSqOut", "stateStepIn", "stateStepOut", "gradScale", "foundInf", "z", "reserved",
    "hx", "cx", "hy", "cy", "dhx", "dcx", "dhy", "dcy", "layerParam", "layerBias", "table",
}
_BY_REPR = (_fusion.FusionPlanDescriptor, _fusion.FusionOperator, _fusion.OperatorArgs, _graph.BackendDescriptor,
            _find2.FindProblem, _find2.FindOptions, _find2.FindSolution)
_LONGEST_LIST, _LONGEST_TEXT = 16, 200

_LAYER = re.compile(r"miopen(?:Find)?Convolution(Forward|BackwardData|BackwardWeights|Backward(?=Bias))"
                    r"(|Algorithm|Immediate|CompileSolution|Bias)")
_DIRECTION_BIT = {"Forward": 1, "BackwardData": 2, "Backward": 2, "BackwardWeights": 4}
_PLANS_WITHOUT_COMMAND = {"transform_tensor", "copy_tensor", "cast_tensor", "ctc_loss"}
_PLANS = {"convolution_forward": 1, "convolution_backward_data": 2, "convolution_backward_weights": 4}

_OPERATION = {"float32": "conv", "float16": "convfp16", "bfloat16": "convbfp16", "int8": "convint8",
              "float64": "convfp64", "float8_e4m3fnuz": "convfp8", "float8_e5m2fnuz": "convbfp8",
              "float8_e4m3fn": "convfp8ocp", "float8_e5m2": "convbfp8ocp"}
_DETERMINISTIC, _ROUNDING, _MATH_TYPE = 1, 2, 3  # miopenConvolutionAttrib_t
_MATH_DEFAULT = _TO_NEAREST = 0


# Values


def _tensor_text(desc: TensorDescriptor) -> str:
    return f"{braces(desc.lens)}, {braces(desc.strides)}, {'packed, ' if desc.packed else ''}"


def _convolution_text(desc: ConvolutionDescriptor) -> str:
    return "".join([
        f"conv{desc.spatial_dim}d, {'miopenTranspose' if _transposed(desc) else 'miopenConvolution'}, ",
        f"miopenPaddingDefault, {braces(desc.pads)}, {braces(desc.strides)}, {braces(desc.dilations)}, ",
        f"{desc.group_count}, " if desc.group_count > 1 else "",
        f"{braces(desc.output_pads)}, " if _transposed(desc) else "",
        f"end pads {braces(desc.end_pads)}, " if desc.end_pads != desc.pads else "",
    ])


def _pooling_text(desc: PoolingDescriptor) -> str:
    numbers = ", ".join(map(str, (*desc.windows, *desc.pads, *desc.strides)))
    return f"{desc.pooling_mode.name}, {numbers}, {''.join(f'{word}, ' for word in beyond(desc))}"


def _activation_text(desc: ActivationDescriptor) -> str:
    return f"{desc.mode.name}, {', '.join(map(_scalar, (desc.alpha, desc.beta, desc.gamma)))}, "


def _lrn_text(desc: LRNDescriptor) -> str:
    mode = "" if desc.mode is None else desc.mode.name
    return f"{mode}, {desc.n}, {', '.join(map(_scalar, (desc.alpha, desc.beta, desc.k)))}, "


def _softmax_text(desc: SoftmaxDescriptor) -> str:
    return f"{desc.algorithm.name}, {desc.mode.name}, {_scalar(desc.alpha)}, {_scalar(desc.beta)}, "


def _mha_text(desc: MhaDescriptor) -> str:
    return f"{_scalar(desc.scale)}, "


def _reduce_text(desc: ReduceTensorDescriptor) -> str:
    if desc.op is None:
        return "never set, "
    return ", ".join([desc.op.name, desc.comp_type.name, desc.nan_propagation.name, desc.indices.name, ""])


def _dropout_text(desc: DropoutDescriptor) -> str:
    if desc.dropout is None:
        return "never set, "
    return ", ".join([*map(_scalar, (desc.dropout, desc.seed, desc.use_mask, desc.state_evo)), ""])


def _ctc_text(desc: CTCLossDescriptor) -> str:
    return f"{desc.data_type.name}, {desc.blank_label_id}, {_scalar(desc.apply_softmax_layer)}, "


def _rnn_text(desc: RNNDescriptor) -> str:
    if desc.hidden_size is None:
        return "never set, "
    words = [desc.hidden_size, desc.layer_count, desc.rnn_mode.name,
             f"miopenRNN{'bi' if desc.bidirectional else 'uni'}direction", desc.rnn_algorithm.name,
             f"miopenRNN{'skip' if desc.skips_input else 'linear'}",
             f"miopenRNN{'with' if desc.has_bias else 'No'}Bias"]
    dropout = desc.dropout_descriptor
    return ", ".join([*map(str, words), "nullptr, " if dropout is None else _dropout_text(dropout)])


def _sequences_text(desc: SeqTensorDescriptor) -> str:
    if desc.data_type is None:
        return "never set, "
    sizes = braces((desc.batch, desc.steps, desc.vector))
    return f"{sizes}, {desc.base_layout.name}, lengths {_list(desc.sequence_lengths)}, "


_DESCRIPTORS: tuple[tuple[type[Any], Callable[[Any], str]], ...] = (
    (PoolingDescriptor, _pooling_text), (ActivationDescriptor, _activation_text), (LRNDescriptor, _lrn_text),
    (SoftmaxDescriptor, _softmax_text), (ReduceTensorDescriptor, _reduce_text), (DropoutDescriptor, _dropout_text),
    (MhaDescriptor, _mha_text), (CTCLossDescriptor, _ctc_text), (RNNDescriptor, _rnn_text),
    (SeqTensorDescriptor, _sequences_text),
)


def _transposed(desc: ConvolutionDescriptor) -> bool:
    return int(desc.convolution_mode) == 1


def _scalar(value: Any) -> str:
    """Return a number or a text as C++ streams it, of an enumeration's member the number."""
    kind = type(value)
    if kind is int or kind is bool or issubclass(kind, IntEnum):
        return str(int(value))
    if kind is float:
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if kind is str:
        text: str = value[:_LONGEST_TEXT]
        return text if text.isprintable() else repr(text)
    return object.__repr__(value)


def _list(values: Any, name: str = "") -> str:
    """Return the elements, each as an argument of this name."""
    more = ["..."] if len(values) > _LONGEST_LIST else []
    return " ".join(["{", *(_value(name, value) for value in values[:_LONGEST_LIST]), *more, "}"])


def _memory(value: Any) -> str:
    """Return the address and the kind of a buffer."""
    kind = type(value)
    package = kind.__module__.split(".")[0]
    if kind is int and value.bit_length() <= 64:
        return hex(value)
    if package == "numpy":
        return f"{value.__array_interface__['data'][0]:#x} ({kind.__name__})"
    if package == "pyopencl":
        # Attributes that pyopencl answers itself: a driver must not be asked about a buffer that may be released.
        memory, offset = value, ""
        if hasattr(value, "base_data"):
            memory, offset = value.base_data, f" + {value.offset}" if value.offset else ""
        pointer = memory.int_ptr if hasattr(memory, "int_ptr") else memory.svm_ptr
        return f"{pointer:#x}{offset} ({kind.__name__})"
    return object.__repr__(value)


def _value(name: str, value: Any) -> str:
    kind = type(value)
    if value is None:
        return "nullptr"
    if issubclass(kind, TensorDescriptor):
        return _tensor_text(value)
    if issubclass(kind, ConvolutionDescriptor):
        return _convolution_text(value)
    for described, text in _DESCRIPTORS:
        if issubclass(kind, described):
            return text(value)
    if issubclass(kind, Handle):
        return f"stream: {value.queue.int_ptr if value.queue is not None else 0:#x}, device: {value.device.name}"
    if issubclass(kind, _BY_REPR):
        return repr(value)
    if issubclass(kind, Plan):
        return f"{value.solver.name} on {value.handle.device.name}"
    if name in _MEMORY:
        return _memory(value)
    if kind is list or kind is tuple or kind is miopenTensorArgument_t:
        return _list(value, {"xs": "x", "indexs": "indices"}.get(name, ""))
    if kind.__module__ == "numpy":
        if value.ndim == 0:
            return _scalar(value.item())
        return _list(value.tolist()) if name in _LISTS and value.ndim == 1 else _memory(value)
    return _scalar(value)


def _text(name: str, value: Any) -> str:
    try:
        return _value(name, value)
    except Exception:
        return object.__repr__(value)


def _arguments(parameters: Mapping[str, inspect.Parameter], args: tuple[Any, ...],
               kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was passed by name, in the function's order; too much or too little is the function's to refuse."""
    given = dict(zip(parameters, args, strict=False))
    given.update((f"argument {i + 1}", args[i]) for i in range(len(parameters), len(args)))
    given.update((name, kwargs[name]) for name in parameters if name in kwargs)
    return {**given, **kwargs}


def call_lines(signature: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the lines of one call: its signature, then each argument's name and value."""
    return [signature + "{", *(f"\t{name} = {_text(name, value)}" for name, value in arguments.items()), "}"]


# Driver commands


def driver_command(direction: int, x: TensorDescriptor, w: TensorDescriptor, y: TensorDescriptor,
                   conv: ConvolutionDescriptor, *, solution: str = "", search: bool = False,
                   bias: bool = False, rounds: bool = False) -> str:
    """Return the MIOpenDriver arguments that repeat a convolution.

    One axis, determinism and rounded factors have flags that MIOpenDriver lacks, so that it refuses such a command
    rather than run another one.  What no flag can say follows as a comment: strides of no layout, an unusual type, and
    that results of 8 bits are rounded to nearest.

    Parameters
    ----------
    direction : int
        1 forward, 2 backward data, 4 backward weights.
    x, w, y, conv
        Descriptors in the forward sense, of one convolution.
    solution : str
        A solver's id or name; without one the driver takes what Find returns.
    search, bias : bool
        Let Find search exhaustively; compute the bias functions too.
    rounds : bool
        The handle lets factors of float32 be rounded to 11 bits, whatever `conv` says.

    Raises
    ------
    KeyError
        For a type that the driver has no operation for.
    """
    def along(values: tuple[int, ...], *flags: str) -> str:
        return " ".join(f"{flag} {value}" for flag, value in zip(flags[-len(values):], values, strict=True))

    words = [
        _OPERATION[x.dtype], f"-n {x.lens[0]} -c {x.lens[1]}", along(x.lens[2:], "--in_d", "-H", "-W"),
        f"-k {w.lens[1] * conv.group_count if _transposed(conv) else w.lens[0]}",
        along(w.lens[2:], "--fil_d", "-y", "-x"), along(conv.pads, "--pad_d", "-p", "-q"),
        along(conv.strides, "--conv_stride_d", "-u", "-v"), along(conv.dilations, "--dilation_d", "-l", "-j"),
    ]
    if _transposed(conv) and any(conv.output_pads):
        words.append(along(conv.output_pads, "--trans_output_pad_d", "-Y", "-X"))
    if conv.spatial_dim != 2:
        words.append(f"--spatial_dim {conv.spatial_dim}")
    comments = []
    if conv.end_pads != conv.pads:
        comments.append(f"end pads {braces(conv.end_pads)}")
    for name, flag, desc in (("x", "--in_layout", x), ("w", "--fil_layout", w), ("y", "--out_layout", y)):
        found = layout(desc)
        if found is None:
            comments.append(f"strides of {name} {braces(desc.strides)}")
        elif found not in ("NCHW", "NCDHW"):
            words.append(f"{flag} {found}")
    words.append(f"-m {'trans' if _transposed(conv) else 'conv'} -g {conv.group_count} -F {direction} -t 1")
    if search:
        words.append("-s 1")
    if bias:
        words.append("-b 1")
    if solution:
        words.append(f"-S {solution}")
    if get_attribute(conv, _DETERMINISTIC):
        words.append("--deterministic 1")
    if (rounds or get_attribute(conv, _MATH_TYPE) == _MATH_DEFAULT) and x.dtype == w.dtype == "float32":
        words.append(f"--math_type {_MATH_DEFAULT}")
    comments += [f"{name} {desc.dtype}" for name, desc, usual in (
        ("w", w, x.dtype), ("y", y, "int32" if x.dtype == "int8" else x.dtype)) if desc.dtype != usual]
    if get_attribute(conv, _ROUNDING) == _TO_NEAREST and "float8" in {1: y, 2: x, 4: w}[direction].dtype:
        comments.append("MIOPEN_DEBUG_CONVOLUTION_ATTRIB_FP8_ROUNDING_MODE=0")
    return commented(" ".join(words), comments)


def bias_command(direction: int, b: TensorDescriptor, y: TensorDescriptor) -> str:
    """Return the MIOpenDriver arguments that repeat a bias function, beside the least convolution that has this y.

    Raises
    ------
    KeyError
        For a type that the driver has no operation for.
    """
    n, k, *size = y.lens
    ones = (1,) * len(size)
    command = driver_command(direction, TensorDescriptor(y.data_type, (n, 1, *size)),
                             TensorDescriptor(y.data_type, (k, 1, *ones)), y, ConvolutionDescriptor(strides=ones),
                             bias=True)
    return command if b.lens == (1, k, *ones) else commented(command, [f"b {braces(b.lens)}"])


def _scaled(command: str, alpha: Any, beta: Any) -> str:
    texts = _text("alpha", alpha), _text("beta", beta)
    return command if texts == ("1", "0") else commented(command, [f"alpha {texts[0]}", f"beta {texts[1]}"])


def _layer_command(match: re.Match[str], given: Mapping[str, Any]) -> str:
    """Return the driver's arguments for a call of a layer function, which `match` found by its name."""
    direction, form = _DIRECTION_BIT[match[1]], match[2]
    if form == "Bias":
        command = bias_command(direction, _role(given, "b", "Desc"), _role(given, "y", "Desc"))
    else:
        x, w, y = (_role(given, role, "Desc") for role in "xwy")
        command = driver_command(
            direction, x, w, y, given["convDesc"], solution=_text("", given["solution_id"]) if "solution_id" in given
            else "", search=form == "Algorithm" and _text("", given["exhaustiveSearch"]) == "1",
            rounds=_rounds(given.get("handle")))
    return _scaled(command, given.get("alpha", 1), given.get("beta", 0))


def _rounds(handle: Any) -> bool:
    """Whether a handle lets factors of float32 be rounded; what is none lets nothing."""
    return isinstance(handle, Handle) and handle.math_type == _MATH_DEFAULT


def _role(given: Mapping[str, Any], role: str, suffix: str) -> Any:
    """Return the descriptor of a tensor or of its gradient."""
    return given[role + suffix] if role + suffix in given else given[f"d{role}{suffix}"]


def _command_line(function: str, command: str) -> str:
    return f"Command [{function}] ./bin/MIOpenDriver {command}"


# Wrappers


def install(namespace: dict[str, Any]) -> None:
    """Replace the functions in a module's namespace by ones that print their calls, and let plans print theirs.

    As in MIOpen, calls that only create, change or destroy handles are not printed.
    """
    calls, commands = logs.setting("MIOPEN_ENABLE_LOGGING"), logs.setting("MIOPEN_ENABLE_LOGGING_CMD")
    for module in MODULES:
        for name in module.__all__:
            if not isinstance(namespace[name], type):  # fusion's objects stand among its functions
                namespace[name] = logged(namespace[name], calls, commands)
    for name, method in list(vars(_handle.Handle).items()):
        if name in _PLANS or builder(name) or name in _PLANS_WITHOUT_COMMAND:
            setattr(_handle.Handle, name, _planning(method, calls, commands))
    _plan.plan_type = LoggedPlan


def logged(function: Callable[..., Any], calls: bool, commands: bool, title: str = "",
           returns: str = "miopenStatus_t") -> Callable[..., Any]:
    """Return `function` with its calls printed: each one (`calls`), and as driver commands those of layers."""
    name = title or function.__name__
    parameters = inspect.signature(function).parameters
    signature = f"{returns} {name}({', '.join(parameters)})"
    layer = _LAYER.fullmatch(name) if commands else None
    build = builder(name) if commands else None
    if not calls and layer is None and build is None:
        return function

    def lines(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        given = _arguments(parameters, args, kwargs)
        printed = call_lines(signature, given) if calls else []
        if layer is not None:
            with contextlib.suppress(Exception):  # what makes no convolution has no command
                printed.append(_command_line(name, _layer_command(layer, given)))
        if build is not None:
            with contextlib.suppress(Exception):
                printed.append(_command_line(name, build(given)(given)))
        return printed

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            logs.write(lines(args, kwargs))
        return function(*args, **kwargs)

    return wrapper


def _planning(method: Callable[..., Any], calls: bool, commands: bool) -> Callable[..., Any]:
    """Return a method of Handle that tells its plans what to print."""
    build = builder(method.__name__)
    parameters = inspect.signature(method).parameters
    printing = logged(method, calls, False, f"Handle.{method.__name__}", "Plan")

    @functools.wraps(method)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        plan = printing(*args, **kwargs)
        with contextlib.suppress(Exception):
            plan.calls, plan.is_logged = calls, True
            if commands:  # now: descriptors may change later, the plan does not
                given = _arguments(parameters, args, kwargs)
                plan.command = (_plan_command(_PLANS[method.__name__], plan, given) if build is None
                                else build(as_in_the_header(given)))
        return plan

    return wrapper


def _plan_command(direction: int, plan: Plan, given: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], str]:
    """Return the command of a convolution's plan, which lacks its numbers."""
    x, w, y = (_role(given, role, "_desc") for role in "xwy")
    command = driver_command(direction, x, w, y, given["conv_desc"], solution=str(plan.solver.id),
                             rounds=_rounds(given["self"]))
    return lambda numbers: _scaled(command, numbers["alpha"], numbers["beta"])


class LoggedPlan(Plan):
    """A plan that prints its calls.

    Attributes
    ----------
    calls : bool
        Whether calls are printed with their arguments.
    command : callable or None
        From its numbers to the driver's arguments that repeat it; None: not printed.
    """

    calls = False
    command: Callable[[Mapping[str, Any]], str] | None = None

    def __call__(self, *args: _Data | float | None, **kwargs: float) -> None:
        with contextlib.suppress(Exception):
            logs.write(self._lines(args, kwargs))
        super().__call__(*args, **kwargs)

    def log_run(self, numbers: Mapping[str, float]) -> None:
        with contextlib.suppress(Exception):
            logs.write(self._printed({**self.numbers, **numbers}))

    def _lines(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        given = {**dict(zip((*self.buffers, *self.numbers), args, strict=False)), **kwargs}
        return self._printed({**{name: given[name] for name in self.buffers}, **self.numbers, **given})

    def _printed(self, given: Mapping[str, Any]) -> list[str]:
        printed = []
        if self.calls:
            printed += call_lines(f"void Plan.__call__({', '.join(['plan', *given])})", {"plan": self, **given})
        if self.command is not None:
            with contextlib.suppress(Exception):
                numbers = as_in_the_header({name: given[name] for name in self.numbers})
                printed.append(_command_line("Plan.__call__", self.command(numbers)))
        return printed
