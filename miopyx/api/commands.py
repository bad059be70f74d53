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
from miopyx.problem._activation import ActivationDescriptor
from miopyx.problem._descriptors import TensorDescriptor

from ._batchnorm import miopenDeriveBNTensorDescriptor
from ._fusion import commanded

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
    if kind == "groupnorm":
        n, c, *spatial = x.lens
        flags = zip(("-n", "-c", "-D", "-H", "-W"), (n, c, *(0,) * (3 - len(spatial)), *spatial), strict=True)
        words = " ".join([_operation(kind, x), *(f"{flag} {n}" for flag, n in flags)])
    else:
        words = f"{_operation(kind, x)} -X {_lens(x)}"
    comments = _strides(tensors)
    mode = int(given["mode"]) if "mode" in given else (given.get("weightDesc") is not None) + _NORM_BASE.get(kind, 0)
    number = next((given[key] for key in ("normalized_dim", "normalizedDim", "num_groups", "numGroups")
                   if key in given), None)
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
    comments = _strides({"A": a, "C": c})
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
    return lambda numbers: commented(f"{command} -t 1", _strides({"x": x}))


def _dense(desc: TensorDescriptor) -> bool:
    """Whether a tensor has no gaps and the last axis runs fastest."""
    step, dense = 1, True
    for n, stride in zip(reversed(desc.lens), reversed(desc.strides), strict=True):
        dense = dense and (n == 1 or stride == step)
        step *= n
    return dense


def _strides(tensors: Mapping[str, TensorDescriptor]) -> list[str]:
    """Return remarks about the tensors that do not lie as the driver's do."""
    return [f"strides of {role} {braces(desc.strides)}" for role, desc in tensors.items() if not _dense(desc)]


def _lens(desc: TensorDescriptor) -> str:
    return "x".join(map(str, desc.lens))


def _dropout(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    desc, roles = given["dropoutDesc"], ("x", "y") if forward else ("dy", "dx")
    tensors = _by_role(given, *roles)
    x = tensors[roles[0]]
    comments = _strides(tensors)
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


# What is tensors with lengths as flags


def _described(given: Given, **roles: str) -> dict[str, TensorDescriptor]:
    """Return descriptors by what remarks call them."""
    return {role: given[f"{name}Desc"] for role, name in roles.items()}


def _plainly(command: str, comments: list[str]) -> Finish:
    return lambda numbers: commented(f"{command} -t 1", comments)


def _cat(name: str, given: Given) -> Finish:
    descs: list[TensorDescriptor] = list(given["xDescs"])
    if not 1 <= len(descs) <= 8:
        raise KeyError(len(descs))
    words = [f"-{i + 1} {_lens(desc)}" for i, desc in enumerate(descs)] + (["-2 ''"] if len(descs) == 1 else [])
    tensors = {f"x{i + 1}": desc for i, desc in enumerate(descs)} | {"y": given["yDesc"]}
    return _plainly(f"{_operation('cat', descs[0])} {' '.join(words)} -d {int(given['dim'])}", _strides(tensors))


def _ctc(name: str, given: Given) -> Finish:
    tensors, desc = _described(given, probs="probs", gradients="gradients"), given["ctcLossDesc"]
    steps, samples, classes = tensors["probs"].lens
    lengths = [[int(n) for n in given[key]] for key in ("inputLengths", "labelLengths")]
    inputs, labels = (",".join(map(str, some)) for some in lengths)
    more = [] if max(lengths[0]) == steps else [f"{steps} steps"]
    return _plainly(f"{_operation('ctc', tensors['probs'])} -n {samples} -c {classes - 1} -k {inputs} -l {labels} "
                    f"-b {desc.blank_label_id} -m {int(desc.apply_softmax_layer)}", more + _strides(tensors))


def _glu(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    tensors = (_described(given, x="input", y="output") if forward else
               _described(given, x="input", dy="outputGrad", dx="inputGrad"))
    return _plainly(f"{_operation('glu', tensors['x'])} -D {_lens(tensors['x'])} -R {int(given['dim'])} "
                    f"-F {int(forward)}", _strides(tensors))


def _prelu(name: str, given: Given) -> Finish:
    tensors = _described(given, x="input", dy="doutput", dx="dinput")
    more = [] if tensors["dy"].dtype == tensors["x"].dtype else [f"dy {tensors['dy'].dtype}"]
    return _plainly(f"{_operation('prelu', tensors['x'])} -D {_lens(tensors['x'])} -P {given['weightDesc'].lens[0]}",
                    more + _strides(tensors))


def _gapped(tensors: Mapping[str, TensorDescriptor]) -> bool:
    """Whether all have a gap behind each element, as the driver's tensors that are not contiguous."""
    return all(desc.strides == tuple(2 * prod(desc.lens[i + 1:]) for i in range(len(desc.lens)))
               for desc in tensors.values())


def _kth(name: str, given: Given) -> Finish:
    tensors = _described(given, x="input", y="output", indices="indices")
    gapped = _gapped(tensors)
    return _plainly(
        f"{_operation('kthvalue', tensors['x'])} -D {_lens(tensors['x'])} -k {int(given['k'])} "
        f"-d {int(given.get('dim', -1))} -K {int(given.get('keepDim', False))}{' -c 0' if gapped else ''}",
        [] if gapped else _strides(tensors))


def _getitem(name: str, given: Given) -> Finish:
    tensors, indices = _described(given, dy="dy", dx="dx"), list(given.get("indexDescs") or ())
    dims = [int(dim) for dim in given.get("dims") or ()]
    slices = [int(n) for part in given.get("slices") or () for n in (
        part if isinstance(part, (list, tuple)) else (part,))]
    words = [f"-O {_lens(tensors['dy'])}", *([f"-D {','.join(map(_lens, indices))}"] if indices else []),
             f"-N {_lens(tensors['dx'])} -1 {len(indices)} -2 {len(dims)}",
             *([f"-3 {','.join(map(str, dims))}"] if dims else []),
             *([f"-4 {len(slices) // 4} -5 {','.join(map(str, slices))}"] if slices else []),
             f"-6 {int(given.get('offset', 0))}"]
    more = [f"{desc.dtype} indices" for desc in indices[:1] if desc.dtype != "int32"]
    return _plainly(f"{_operation('getitem', tensors['dx'])} {' '.join(words)}", more + _strides(tensors))


_REDUCTIONS = ("none", "sum", "mean")


def _reduction(given: Given) -> str:
    return _REDUCTIONS[_member("miopenLossReductionMode_t", given.get("reduction", 0))]


def _soft_margin(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    tensors = _described(given, x="input", t="target", **({} if forward else {"dy": "doutput", "dx": "dinput"}))
    x = tensors["x"]
    command = (f"{_operation('softmarginloss', x)} -D {_lens(x)} -R {_reduction(given)} -F {1 if forward else 2}")
    if _gapped(tensors):
        return _plainly(f"{command} -C 0", [])
    if not _dense(x):
        command += f" -S {'x'.join(map(str, x.strides))}"
    return _plainly(command, _strides({role: desc for role, desc in tensors.items() if role != "x"}))


def _multi_margin(name: str, given: Given) -> Finish:
    tensors = _described(given, x="input", t="target", w="weight")
    gapped = _gapped(tensors)
    command = (f"{_operation('multimarginloss', tensors['x'])} -D {_lens(tensors['x'])} -R {_reduction(given)} "
               f"--power {int(given.get('p', 1))}{' -C 0' if gapped else ''}")
    comments = [] if gapped else _strides(tensors)
    return lambda numbers: commented(
        f"{command} --margin {scalar(numbers.get('margin', given.get('margin', 1)))} -t 1", comments)


def _rope(name: str, given: Given) -> Finish:
    forward = _is_forward(name)
    tensors = _by_role(given, *(("x", "y") if forward else ("dy", "dx")), "cos", "sin")
    x = next(iter(tensors.values()))
    more = [] if tensors["cos"].lens == (x.lens[1:] or x.lens) else [f"cos {braces(tensors['cos'].lens)}"]
    return _plainly(f"{_operation('rope', x)} -X {_lens(x)} -F {int(forward)}", more + _strides(tensors))


def _adam(name: str, given: Given) -> Finish:
    transformers, p = "ransformers" in name, given["paramDesc" if "paramDesc" in given else "paramInDesc"]
    grad = given["gradDesc" if "gradDesc" in given else "gradInDesc"]
    amp = any(given.get(key) is not None for key in ("gradScaleDesc", "foundInfDesc"))
    amsgrad = bool(given["amsgrad"] if "amsgrad" in given else given.get("maxExpAvgSqDesc") is not None)
    if transformers:
        operation, words = "transformersadamw", f"-c {int(given.get('correct_bias', given.get('correctBias', True)))}"
        operation = "transformersampadamw" if amp else operation
    else:
        operation = f"{'amp' if amp else ''}adam{'w' if given.get('adamw', False) else ''}"
        words = f"-a {int(amsgrad)} -m {int(given.get('maximize', False))}"
    operation = operation if amp and p.dtype == "float32" else _operation(operation, p)
    comments = _strides({"param": p})
    if grad.dtype != ("float16" if amp else p.dtype):
        comments.append(f"grad {grad.dtype}")
    if "paramInDesc" in given:
        comments.append("outputs of their own")
    if "state_step" in given and given.get("stateStepDesc", given.get("stateStepInDesc")) is None and (
            int(given["state_step"]) != 1):
        comments.append(f"step {int(given['state_step'])}")
    if float(given.get("step_size", -1)) >= 0:
        comments.append(f"step_size {scalar(given['step_size'])}")

    def number(numbers: Given, key: str, usual: float) -> str:
        plain = key.replace("_d", "D")  # weight_decay of plans
        return scalar(float(numbers.get(key, given.get(key, given.get(plain, usual)))))

    return lambda numbers: commented(
        f"{operation} -d {_lens(p)} -l {number(numbers, 'lr', 1e-3)} -1 {number(numbers, 'beta1', 0.9)} "
        f"-2 {number(numbers, 'beta2', 0.999)} -e {number(numbers, 'eps', 1e-8)} "
        f"-W {number(numbers, 'weight_decay', 0)} {words} -t 1", comments)


# Recurrent layers


_RNN_TYPES = {"miopenFloat": "", "miopenHalf": "fp16", "miopenBFloat16": "bfp16", "miopenDouble": "fp64"}
_RNN_MODES = ("relu", "tanh", "lstm", "gru")
_RNN_STATES = {1: ("hx", "cx", "hy", "cy"), 2: ("hx", "cx", "dhy", "dcy", "dhx", "dcx"), 4: ("hx",)}


def _infers(name: str, given: Given) -> bool:
    """Whether a forward pass keeps nothing for gradients."""
    mode = given.get("fwdMode")
    if mode is None:
        return "Inference" in name or (name == "rnn_forward" and not given.get("training", False))
    return mode.lower().endswith("inference") if isinstance(mode, str) else int(mode) == 1


def _rnn(name: str, given: Given) -> Finish:
    desc, function = given["rnnDesc"], name.startswith("miopen")
    direction = 1 if _is_forward(name) else 2 if name.lower().endswith("data") else 4
    x = given["xDesc"] if "xDesc" in given else given["dxDesc"]
    cells = f"-l {desc.layer_count} -b {int(desc.has_bias)} -m {_RNN_MODES[int(desc.rnn_mode)]}"
    modes = f"-p {int(desc.skips_input)} -r {int(desc.bidirectional)}"
    comments = []
    if isinstance(x, (list, tuple)):
        steps = int(given["sequenceLen"])
        batches = [step.lens[0] for step in x[:steps]]
        counts = batches if batches[0] != batches[-1] else batches[:1]
        words = [f"rnn{_RNN_TYPES[desc.data_type.name]} -n {','.join(map(str, counts))} -W {x[0].lens[1]} "
                 f"-H {desc.hidden_size} {cells} {modes} -q {int(desc.padding_mode)} -k {steps}"]
        if int(desc.rnn_algorithm):
            words.append(f"-a {int(desc.rnn_algorithm)}")
    else:
        y = given["yDesc"]
        words = [f"rnn_seq{_RNN_TYPES[desc.data_type.name]} -n {x.batch} -W {x.vector} -H {desc.hidden_size} {cells} "
                 f"{modes} -k {x.steps} -K {','.join(map(str, x.sequence_lengths))} -a {int(desc.rnn_algorithm)} "
                 f"-I {int(x.base_layout)}"]
        if y.base_layout != x.base_layout:
            comments.append(f"y {y.base_layout.name}")
    if direction == 1:
        words.append(f"-c {int(_infers(name, given))}")
    words.append(f"-F {direction} -t 1 -w 1")
    drop = desc.dropout_descriptor
    if drop is not None and drop.dropout:
        words.append(f"-U 1 -P {scalar(drop.dropout)} -L {drop.seed & 0xFFFFFFFF} -M {drop.seed >> 32}")
        if drop.state_evo:
            comments.append("states go on")
    absent = [state for state in _RNN_STATES[direction] if "c" not in state or int(desc.rnn_mode) == 2
              if (given.get(state) is None if function else not given.get(state, True))]
    if absent:
        comments.append(f"without {' '.join(absent)}")
    return lambda numbers: commented(" ".join(words), comments)


# Fused work


_FUSED_MODES = ("cbna", "cna", "na", "cn", "cba", "ca", "cb")
_FUSED_EPSILON = 1e-6


def _fused(x: TensorDescriptor, y: TensorDescriptor, activ: Any, convolution: tuple[Any, Any] | None = None,
           bias: bool = False, norm: int | None = None) -> tuple[str, list[str]]:
    """Return the command of a fusion plan for inference, and remarks; `norm` is the mode of its batch norm."""
    letters = "".join(letter for letter, there in zip("cbna", (
        convolution is not None, bias, norm is not None, True), strict=True) if there)
    if activ is None or int(activ.mode) == 0:
        letters = letters[:-1] if letters[:-1] in _FUSED_MODES else letters
    if len(x.lens) > 4:
        raise KeyError(len(x.lens))
    words, comments = sizes(_operation("CBAInfer", x), {"x": x, "y": y})
    flags = [f"-F {_FUSED_MODES.index(letters)}"]
    if convolution is not None:
        conv, w = convolution
        if int(conv.convolution_mode) == 1:
            raise KeyError(conv.convolution_mode)

        def along(values: tuple[int, ...], filler: int, *names: str) -> str:
            both = (filler, *values) if len(values) == 1 else values
            return " ".join(f"{name} {value}" for name, value in zip(names, both, strict=True))

        flags += [f"-k {w.lens[0]} -g {conv.group_count}", along(w.lens[2:], 1, "-y", "-x"),
                  along(conv.pads, 0, "-p", "-q"), along(conv.strides, 1, "-u", "-v"),
                  along(conv.dilations, 1, "-l", "-j")]
        if layout(w) != layout(x):
            comments.append(f"strides of w {braces(w.strides)}")
        if conv.end_pads != conv.pads:
            comments.append(f"end pads {braces(conv.end_pads)}")
    if norm is not None:
        flags.append(f"-M {norm}")
    if letters[-1] == "a":
        numbers = ActivationDescriptor() if activ is None else activ
        flags.append(f"-m {int(numbers.mode)} -A {scalar(numbers.alpha)} -B {scalar(numbers.beta)} "
                     f"-G {scalar(numbers.gamma)}")
    return " ".join([words, *flags]), comments


def _convolution_bias_activation(name: str, given: Given) -> Finish:
    function = name.startswith("miopen")

    def has(role: str) -> bool:
        return given.get(role if function else f"{role}Desc") is not None

    norm = given.get("normDesc")
    command, comments = _fused(given["xDesc"], given["yDesc"], given["activationDesc"],
                               (given["convDesc"], given["wDesc"]), has("bias"), None if norm is None else 1)
    if norm is not None and float(given.get("epsilon", _EPSILON)) != _FUSED_EPSILON:
        comments.append(f"epsilon {scalar(float(given.get('epsilon', _EPSILON)))}")

    def finish(numbers: Given) -> str:
        first, second = (numbers.get(key) for key in ("alpha1", "alpha2"))
        more = [f"alpha1 {scalar(first)}"] if first is not None and first != 1 else []
        return commented(f"{command} -t 1", comments + more + (
            [f"z times {scalar(second)}"] if has("z") and second is not None and second != 0 else []))
    return finish


def _fusion_plan(name: str, given: Given) -> Finish:
    x, y = given["inputDesc"], given["outputDesc"]
    steps = {function: (taken, numbers) for function, taken, numbers in commanded(given["fusePlanDesc"], given["args"])}

    def step(kind: str) -> tuple[Any, Any]:
        return steps.get(f"miopenCreateOp{kind}", ((), None))

    activ = step("ActivationForward")[1] or step("ActivationBackward")[1]
    comments: list[str] = []
    convolution, alpha = step("ConvForward")
    taken, epsilon = step("BatchNormInference")
    if convolution or (taken and activ is not None):
        command, comments = _fused(x, y, activ, tuple(convolution) or None, bool(step("BiasForward")[0]),
                                   int(taken[0]) if taken else None)
        comments += [f"alpha {scalar(alpha)}"] if convolution and alpha != 1 else []
        comments += [f"epsilon {scalar(epsilon)}"] if taken and epsilon != _FUSED_EPSILON else []
        return _plainly(command, comments)
    parts: dict[str, Any] = {"xDesc": x, "yDesc": y, "dyDesc": x, "dxDesc": y, "activDesc": activ}
    if taken:
        parts |= {"bn_mode": taken[0], "scaleDesc": taken[1], "epsilon": epsilon}
        return _finished(_batchnorm("miopenBatchNormForwardInferenceActivation", parts), parts)
    norm = TensorDescriptor()
    for kind, function, names in (
            ("Forward", "miopenBatchNormForwardTrainingActivation",
             ("bnScale", "bnBias", "expAvgFactor", "resultRunningMean", "resultRunningVariance", "epsilon",
              "resultSaveMean", "resultSaveInvVariance")),
            ("Backward", "miopenBatchNormBackwardActivation",
             ("x", "bnScale", "bnBias", "resultBnScaleDiff", "resultBnBiasDiff", "savedMean", "savedInvVariance"))):
        taken, numbers = step(f"BatchNorm{kind}")
        if taken:
            miopenDeriveBNTensorDescriptor(norm, x, taken[0])
            parts |= {"bn_mode": taken[0], "scaleDesc": norm, **dict(zip(names, numbers, strict=True))}
            return _finished(_batchnorm(function, parts), parts)
    raise KeyError(name)


def _finished(finish: Finish, parts: Given) -> Finish:
    return lambda numbers: finish(parts)


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
        (r"miopenCatForward|cat_forward", _cat),
        (r"miopenCTCLoss", _ctc),
        (r"miopenGLU(Forward|Backward)|glu_(forward|backward)", _glu),
        (r"miopenPReLUBackward|prelu_backward", _prelu),
        (r"miopenKthvalueForward|kthvalue_forward", _kth),
        (r"miopenGetitemBackward|getitem_backward", _getitem),
        (r"miopenSoftMarginLoss(Forward|Backward)|soft_margin_loss_(forward|backward)", _soft_margin),
        (r"miopenMultiMarginLossForward|multi_margin_loss_forward", _multi_margin),
        (r"miopenRoPE(Forward|Backward)|rope_(forward|backward)", _rope),
        (r"miopen(FusedAdam|TransformersAdamW)(WithOutput)?|fused_adam|transformers_adam_w", _adam),
        (r"miopenRNN(Forward(Training|Inference)?|Backward(Data|SeqData|Weights|WeightsSeqTensor))|"
         r"rnn_(forward|backward_data|backward_weights)", _rnn),
        (r"miopenConvolutionBiasActivationForward|convolution_bias_activation_forward", _convolution_bias_activation),
        (r"miopenExecuteFusionPlan", _fusion_plan),
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
