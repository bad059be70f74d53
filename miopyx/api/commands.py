"""MIOpenDriver commands that repeat the calls of all operations but convolutions.

A builder takes a call's arguments by the names of miopen.h and returns a function that completes the command with the
call's numbers: a prepared plan describes its tensors when it is made and gets its numbers when it is called.  What no
flag can say follows as a comment.  Nothing here asks a device, and what makes no command raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from miopyx import enums
from miopyx.problem._descriptors import TensorDescriptor

_SUFFIX = {"float32": "", "float16": "fp16", "bfloat16": "bfp16", "float64": "fp64"}
# Axes from the outermost to the innermost in memory, the driver's default first.
LAYOUTS: dict[int, dict[str, tuple[int, ...]]] = {
    2: {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), "CHWN": (1, 2, 3, 0)},
    3: {"NCDHW": (0, 1, 2, 3, 4), "NDHWC": (0, 2, 3, 4, 1)},
}

Given = Mapping[str, Any]
Finish = Callable[[Given], str]


def braces(values: tuple[int, ...]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def scalar(value: float) -> str:
    """Return a number as C++ streams it, or as long as it must be."""
    text = f"{value:g}"
    return text if float(text) == value else repr(float(value))


def layout(desc: TensorDescriptor) -> str | None:
    """Return the layout that a descriptor's strides have, None for none of the driver's."""
    lens: tuple[int, ...] = desc.lens
    strides: tuple[int | None, ...] = desc.strides
    if len(lens) < 4:  # n, n c and n c w
        head, tail = min(len(lens), 2), 4 - len(lens)
        lens = (*lens[:head], *(1,) * tail, *lens[head:])
        strides = (*strides[:head], *(None,) * tail, *strides[head:])
    # Where a length is 1 its stride says nothing, but of two layouts the one that has it too was meant.
    for exactly in (True, False):
        for name, order in LAYOUTS[len(lens) - 2].items():
            step = 1
            for axis in reversed(order):
                if strides[axis] not in (step, None) and (exactly or lens[axis] > 1):
                    break
                step *= lens[axis]
            else:
                return name
    return None


def commented(command: str, comments: list[str]) -> str:
    """Return a command with remarks at its end, which shells and the driver's lists ignore."""
    return (command + (", " if " # " in command else " # ") + ", ".join(comments)) if comments else command


def sizes(operation: str, tensors: Mapping[str, TensorDescriptor], depth: str = "--in_d",
          layout_flag: str = "--layout") -> tuple[str, list[str]]:
    """Return an operation with the size flags of its tensors, all as large as the first, and what flags cannot say.

    Raises
    ------
    KeyError
        For a type that the driver has no operation for, or a rank that is no tensor of its.
    """
    first = next(iter(tensors.values()))
    lens: tuple[int, ...] = first.lens
    comments = []
    if not 1 <= len(lens) <= 5:
        raise KeyError(len(lens))
    if len(lens) < 4:
        comments.append(f"{len(lens)} dimension{'s' if len(lens) > 1 else ''}, written as four")
        head = min(len(lens), 2)
        lens = (*lens[:head], *(1,) * (4 - len(lens)), *lens[head:])
    flags = ("-n", "-c", depth, "-H", "-W") if len(lens) == 5 else ("-n", "-c", "-H", "-W")
    words = [operation, *(f"{flag} {n}" for flag, n in zip(flags, lens, strict=True))]
    common = layout(first)
    if common not in (None, "NCHW", "NCDHW"):
        words.append(f"{layout_flag} {common}")
    comments += [f"strides of {name} {braces(desc.strides)}" for name, desc in tensors.items()
                 if layout(desc) != common or common is None]
    return " ".join(words), comments


def _operation(name: str, desc: TensorDescriptor) -> str:
    return name + _SUFFIX[desc.dtype]


def _is_forward(name: str) -> bool:
    return "orward" in name


def _by_role(given: Given, *roles: str) -> dict[str, TensorDescriptor]:
    return {role: given[f"{role}Desc"] for role in roles}


# ------------------------------------------------------------------------------------------------------- operations


def _pooling(name: str, given: Given) -> Finish:
    pool, x, y = given["poolDesc"], given["xDesc"], given["yDesc"]
    dims = pool.spatial_dim

    def along(values: tuple[int, ...], *flags: str) -> str:
        return " ".join(f"{flag} {value}" for flag, value in zip(flags[3 - dims:], values, strict=True))

    words = [_operation("pool", x), f"-M {int(pool.workspace_index_mode)}", f"--input {_tensor_flag(x)}",
             *_other_tensors(pool, given),
             along(pool.windows, "-Z", "-y", "-x"), along(pool.pads, "-o", "-p", "-q"),
             along(pool.strides, "-s", "-v", "-u"), f"-m {('max', 'avg', 'avg_in')[int(pool.pooling_mode)]}"]
    index_type = pool.workspace_index_type
    if int(pool.pooling_mode) == 0 and int(index_type) != 0:
        words.append(f"-I {index_type.name}")
    # -F 0 runs both directions: backward has no run of its own without the indices that forward leaves.
    both = not _is_forward(name) or given.get("do_backward", False)
    words.append(f"-F {0 if both else 1} -t 1")
    assert y.dtype == x.dtype
    return lambda numbers: commented(" ".join(words), beyond(pool))


def beyond(pool: Any) -> list[str]:
    """Return what a pooling has that MIOpen's do not, and the driver has no flags for."""
    words = []
    if any(d != 1 for d in pool.dilations):
        words.append(f"dilations {braces(pool.dilations)}")
    if pool.end_pads != pool.pads:
        words.append(f"end pads {braces(pool.end_pads)}")
    if pool.ceil_mode:
        words.append("ceil_mode")
    if pool.divisor_override is not None:
        words.append(f"divisor {pool.divisor_override}")
    return words


def _tensor_flag(desc: TensorDescriptor) -> str:
    """Return lengths and strides as the driver's tensor flags take them."""
    return "x".join(map(str, desc.lens)) + "," + "x".join(map(str, desc.strides))


def _other_tensors(pool: Any, given: Given) -> list[str]:
    """Return the flags of the tensors that are not what the driver makes of the input."""
    x, y = given["xDesc"], given["yDesc"]
    words = []
    if layout(x) is None or layout(y) != layout(x) or y.lens != pool.output_lens(x):
        words.append(f"--output {_tensor_flag(y)}")
    for role, flag, like in (("dx", "--dinput", x), ("dy", "--doutput", y)):
        desc = given.get(f"{role}Desc")
        if desc is not None and (layout(like) is None or desc.strides != like.strides):
            words.append(f"{flag} {_tensor_flag(desc)}")
    return words


def _activation(name: str, given: Given) -> Finish:
    activ, forward = given["activDesc"], _is_forward(name)
    tensors = _by_role(given, *(("x", "y") if forward else ("x", "y", "dy", "dx")))
    words, comments = sizes(_operation("activ", tensors["x"]), tensors)
    parameters = f"-A {scalar(activ.alpha)} -B {scalar(activ.beta)} -G {scalar(activ.gamma)}"
    command = f"{words} -m {int(activ.mode)} {parameters} -F {1 if forward else 2} -t 1"
    return lambda numbers: commented(command, comments)


def _lrn(name: str, given: Given) -> Finish:
    lrn, forward = given["lrnDesc"], _is_forward(name)
    tensors = _by_role(given, *(("x", "y") if forward else ("x", "y", "dy", "dx")))
    words, comments = sizes(_operation("lrn", tensors["x"]), tensors)
    direction = (0 if given.get("do_backward", False) else 1) if forward else 2
    command = (f"{words} -N {lrn.n} -A {scalar(lrn.alpha)} -B {scalar(lrn.beta)} -K {scalar(lrn.k)} "
               f"-m {('within', 'cross')[int(lrn.mode)]} -F {direction} -t 1")
    return lambda numbers: commented(command, comments)


def _softmax(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    tensors = _by_role(given, *(("x", "y") if forward else ("y", "dy", "dx")))
    words, comments = sizes(_operation("softmax", next(iter(tensors.values()))), tensors)
    command = f"{words} -F {1 if forward else 2} -a {int(given.get('algorithm', 1))} -m {int(given.get('mode', 1))}"
    return lambda numbers: commented(
        f"{command} -A {scalar(numbers.get('alpha', 1))} -B {scalar(numbers.get('beta', 0))} -t 1", comments)


_NORMS = {"add": "addlayernorm", "t5": "t5layernorm", "group": "groupnorm"}
_NORM_BASE = {"addlayernorm": 2, "t5layernorm": 4}


def _norm(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    roles = ("x", *(("x2",) if "x2Desc" in given else ()), *(("y",) if forward else ("dy", "dx")))
    tensors = _by_role(given, *roles)
    x = tensors["x"]
    kind = next((kind for word, kind in _NORMS.items() if word in name.lower()), "layernorm")
    words, comments = sizes(_operation(kind, x), tensors)
    mode = int(given["mode"]) if "mode" in given else (given.get("weightDesc") is not None) + _NORM_BASE.get(kind, 0)
    number = next((given[key] for key in ("normalized_dim", "normalizedDim", "num_groups", "numGroups")
                   if key in given), None)
    if kind == "t5layernorm" and len(x.lens) < 3:
        raise KeyError(len(x.lens))  # written as four dimensions, the last one is another
    if number is not None and kind != "groupnorm" and int(number) >= len(x.lens):
        number = max(4, len(x.lens))
    flag = "" if number is None else f" -{'g' if kind == 'groupnorm' else 'o'} {int(number)}"
    command = f"{words} -F {1 if forward else 2} -m {mode}{flag}"
    return lambda numbers: commented(
        command + (f" -e {scalar(numbers['epsilon'])}" if numbers.get("epsilon", _EPSILON) != _EPSILON else "") +
        " -t 1", comments)


# What the driver passes.
_FACTOR, _EPSILON = 0.1, 1e-5
_SHARED_PARAMETERS = ("bnScaleBiasMeanVarDesc", "bnScaleBiasDiffDesc", "bnDesc", "scaleDesc")


def _batchnorm(name: str, given: Given) -> Finish:
    backward, inference = not _is_forward(name) and "raining" not in name and "nference" not in name, "nference" in name
    tensors = _by_role(given, *(("x", "dy", "dx") if backward else ("x", "y")))
    x = tensors["x"]
    parameters = next(given[key] for key in _SHARED_PARAMETERS if key in given)
    operation = _operation("bnorm", x)
    if x.dtype in ("float16", "bfloat16") and parameters.dtype == "float32":
        operation += "fp32"
    elif parameters.dtype != x.dtype:
        raise KeyError(parameters.dtype)
    words, comments = sizes(operation, tensors, "-D", "-L")
    mode = int(given["bn_mode"] if "bn_mode" in given else given["mode"])

    def has(buffer: str, said: str, otherwise: bool) -> int:
        return int(given[buffer] is not None if buffer in given else given.get(said, otherwise))

    words += f" -m {mode}"
    activ = given.get("activDesc")
    if activ is not None and int(activ.mode):
        words += f" -f {int(activ.mode)} -x {scalar(activ.alpha)} -y {scalar(activ.beta)} -z {scalar(activ.gamma)}"
    apart = given.get("prevResultRunningMean")
    if backward:
        words += f" --forw 0 -b 1 -s {has('savedMean', 'saved', True)}"
    elif inference:
        words += f" --forw 2 -b 0 -r {has('estimatedMean', 'estimated', True)}"
        words += " -I 1" if name.endswith("InvVariance") else ""
    elif "prevResultRunningMean" in given:
        words += f" --forw 1 -b 0 -s {has('resultSaveMean', 'save', True)} -r {int(apart is not None)}"
        words += " -Q 1" if apart is not None and apart is not given["nextResultRunningMean"] else ""
    else:
        words += (f" --forw 1 -b 0 -s {has('resultSaveMean', 'save', True)} "
                  f"-r {has('resultRunningMean', 'running', True)}")

    def finish(numbers: Given) -> str:
        others = [f"{key} {scalar(numbers[key])}" for key, usual in (("expAvgFactor", _FACTOR), ("epsilon", _EPSILON))
                  if key in numbers and numbers[key] != usual]
        return commented(f"{words} -t 1", comments + others)

    return finish


def _member(enumeration: str, value: Any) -> int:
    """Return the number of an enumeration's member, which plans take by the end of its name, too."""
    if not isinstance(value, str):
        return int(value)
    members: dict[str, int] = getattr(enums, enumeration).__members__
    return next(int(number) for member, number in members.items() if member.endswith(f"_{value.upper()}"))


def _reduce_tensor(name: str, given: Given) -> Finish:
    a, c = given["aDesc"], given["cDesc"]
    desc = given["reduceTensorDesc" if name.startswith("miopen") else "reduceDesc"]
    if c.dtype != a.dtype:
        raise KeyError(c.dtype)
    comments = [f"strides of {role} {braces(t.strides)}" for role, t in (("A", a), ("C", c)) if not _dense(t)]
    axes = ",".join(str(i) for i, n in enumerate(c.lens) if n == 1)
    command = (f"{_operation('reduce', a)} -D {','.join(map(str, a.lens))} -R {axes} -O {int(desc.op)} "
               f"-C {int(desc.comp_type)} -N {int(desc.nan_propagation)} -I {int(desc.indices)}")
    return lambda numbers: commented(
        f"{command} -A {scalar(numbers.get('alpha', 1))} -B {scalar(numbers.get('beta', 0))} -t 1", comments)


def _reduce_axis(name: str, given: Given) -> Finish:
    x, kind = given["xDesc"], "Calculation" if "alculation" in name else "Extreme"
    op = _member(f"miopenReduce{kind}Op_t", given[f"reduce{kind}Op" if name.startswith("miopen") else "op"])
    command = (f"{_operation(f'reduce{kind.lower()}', x)} -X {'x'.join(map(str, x.lens))} -R {int(given['dim'])} "
               f"-O {op}")
    if kind == "Calculation":
        command += f" -N {_member('miopenReduceCalculationNanPropagation_t', given['nanPropagation'])}"
    comments = [] if _dense(x) else [f"strides of x {braces(x.strides)}"]
    return lambda numbers: commented(f"{command} -t 1", comments)


def _dense(desc: TensorDescriptor) -> bool:
    """Whether a tensor has no gaps and the last axis runs fastest."""
    step, dense = 1, True
    for n, stride in zip(reversed(desc.lens), reversed(desc.strides), strict=True):
        dense = dense and (n == 1 or stride == step)
        step *= n
    return dense


def _dropout(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    desc, roles = given["dropoutDesc"], ("x", "y") if forward else ("dy", "dx")
    tensors = _by_role(given, *roles)
    x = tensors[roles[0]]
    comments = [f"strides of {role} {braces(t.strides)}" for role, t in tensors.items() if not _dense(t)]
    command = (f"{_operation('dropout', x)} -F {1 if forward else 2} -d {','.join(map(str, x.lens))} "
               f"-p {scalar(desc.dropout)} -l {desc.seed & 0xFFFFFFFF} -m {desc.seed >> 32} -e {int(desc.use_mask)}")
    return lambda numbers: commented(f"{command} -t 1", comments)


_TENSOR_OPS = {"miopenSetTensor": 0, "set_tensor": 0, "miopenScaleTensor": 1, "scale_tensor": 1}


def _tensor_op(name: str, given: Given) -> Finish:
    if name in _TENSOR_OPS:
        y = given["yDesc"]
        words, comments = sizes(_operation("tensorop", y), {"y": y})
        command = f"{words} -o {_TENSOR_OPS[name]}"
        return lambda numbers: commented(
            f"{command} -v {scalar(numbers['alpha'] if 'alpha' in numbers else given['alpha'])} -t 1", comments)
    a, b, c = given["aDesc"], given["bDesc"], given["cDesc"]
    words, comments = sizes(_operation("tensorop", c), {"C": c, "A": a})
    command = f"{words} -o {int(given['tensorOp']) + 2}"
    if b.lens != c.lens:
        lens = (*b.lens, *(1,) * (4 - len(b.lens))) if len(b.lens) < 3 else b.lens
        command += f" --b_lens {'x'.join(map(str, lens if len(lens) > 3 else (*lens[:2], 1, lens[2])))}"
    if b.dtype != c.dtype:
        raise KeyError(b.dtype)
    packed = tuple(prod(b.lens[i + 1:]) for i in range(len(b.lens)))
    if b.strides != (c.strides if b.lens == c.lens else packed):
        comments.append(f"strides of B {braces(b.strides)}")
    return lambda numbers: commented(
        f"{command} -A {scalar(numbers['alpha1'])} -B {scalar(numbers['alpha2'])} -G {scalar(numbers['beta'])} -t 1",
        comments)


_BUILDERS: tuple[tuple[re.Pattern[str], Callable[[str, Given], Finish]], ...] = tuple(
    (re.compile(pattern), builder) for pattern, builder in (
        (r"miopenPooling(Forward|Backward)|pooling_(forward|backward)", _pooling),
        (r"miopenActivation(Forward|Backward)|activation_(forward|backward)", _activation),
        (r"miopenLRN(Forward|Backward)|lrn_(forward|backward)", _lrn),
        (r"miopenReduceTensor|reduce_tensor", _reduce_tensor),
        (r"miopenReduce(Calculation|Extreme)Forward|reduce_(calculation|extreme)", _reduce_axis),
        (r"miopenDropout(Forward|Backward)|dropout_(forward|backward)", _dropout),
        (r"miopenSoftmax(Forward|Backward)(_V2)?|softmax_(forward|backward)", _softmax),
        (r"miopen((Add|T5)?Layer|Group)Norm(Forward|Backward)|((add_|t5_)?layer|group)_norm_(forward|backward)", _norm),
        (r"miopenBatchNorm(alization(Forward(Training|Inference|InferenceInvVariance)|Backward)(_V[23])?|"
         r"(ForwardTraining|ForwardInference|Backward)Activation(InvVariance|_V2)?)|"
         r"batch_norm_(training|inference|backward)", _batchnorm),
        (r"miopen(Op|Set|Scale)Tensor|(op|set|scale)_tensor", _tensor_op),
    ))


def builder(name: str) -> Callable[[Given], Finish] | None:
    """Return what makes commands of the calls of a function of miopen.h, or of a method that makes plans."""
    for pattern, build in _BUILDERS:
        if pattern.fullmatch(name):
            return lambda given: build(name, given)
    return None


def as_in_the_header(names: Given) -> dict[str, Any]:
    """Return arguments of plans under the names that miopen.h has for them: x_desc is xDesc."""
    return {name if name in ("do_backward", "bn_mode") else re.sub(r"_(\w)", lambda m: m[1].upper(), name): value
            for name, value in names.items()}
