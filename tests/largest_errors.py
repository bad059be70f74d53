"""The largest error of each operation beside convolution, against float64, over random problems.

    python -P tests/largest_errors.py                                        all, 500 problems of each type (minutes)
    python -P tests/largest_errors.py --op softmax lrn --dtype float16 --device host --problems 2000 --seed 7

Shapes of 1 to 4000 elements, ranks, layouts (packed, channels last, axes in any order with gaps) and parameters are
drawn anew for each problem; all devices get the same ones.  Outputs are poisoned, memory around and between their
elements must stay as it is.  The truth is the NumPy formula of the operation's own tests (test_tensor_ops, test_pooling
...) on the numbers that the device was given, in float64; of float64 tensors in long double, where that holds more.
(Else, and for pooling's sums, errors of float64 tensors contain the formula's own.)  What a device computes from its
own results, as gradients from y, indices, scales or saved statistics, is compared with the formula on those results.

A figure is the largest |error| of any element, in units of

    roundoff of the type that is stored * magnitude        (at least the type's smallest normal number, float16's 2^-24)

where the magnitude is that of the result or, if more, of the sum of |terms| that it is made of (Outcome.record is told
which).  Rounding a result once, to the nearest, costs at most 1.  Behind it stands how much of the bound of those tests
the worst element takes; more than 1.00 is an error, and the exit status is 1.  Gradients of a bias, which have no
tests of their own on devices, get the bound of pooling's sums.

On devices each operation, type and form of a kernel is a program of its own: the first run builds some hundreds.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
import zlib
from functools import partial
from unittest import mock

import ml_dtypes
import numpy as np

import miopyx
from miopyx import ActivationDescriptor, LRNDescriptor, PoolingDescriptor, TensorDescriptor, enums
from miopyx.device import devices

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import test_activation as activation
import test_batchnorm as batchnorm
import test_lrn as lrn
import test_pooling as pooling
import test_softmax as softmax
import test_tensor_ops as tensor_ops
from guarded import DTYPE, ROUNDOFF, Guarded, Tensor

TYPES = ("float32", "float16", "bfloat16", "float64")
SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126, "float64": 2.0**-1022}
MOST = 4000  # elements


class Outcome:
    """The worst of an operation on a type and a device: for each part (y, dx ...) an error, its share of the bound."""

    def __init__(self) -> None:
        self.worst: dict[str, tuple[float, float]] = {}
        self.wrong: list[str] = []

    def record(self, part, got, want, magnitude, bound, stored):
        """`magnitude`, where it is more than |want|; `stored` is the type that was rounded to."""
        with np.errstate(all="ignore"):
            error = np.abs(got - want)
            overflows = np.isinf(got) & (np.sign(got) == np.sign(want)) & (
                np.abs(want) + bound >= activation.LARGEST[stored])
            free = overflows | (got == want) | (np.isinf(bound) & np.isfinite(got) & np.isfinite(want))
            unit = np.maximum(ROUNDOFF[stored] * np.maximum(np.abs(want), magnitude), SMALLEST[stored])
            units, share = (np.nan_to_num(np.where(free, 0, error / of), nan=np.inf) for of in (unit, bound))
            new = float(np.max(units)), float(np.max(share))
        old = self.worst.get(part, (0.0, 0.0))
        self.worst[part] = max(old[0], new[0]), max(old[1], new[1])
        if new[1] > 1:
            at = np.unravel_index(np.argmax(share), share.shape)
            self.wrong.append(f"{part}{[int(i) for i in at]} is {got[at]!r}, not {want[at]!r}: {new[1]:.3g} times the "
                              "bound")


# Random problems


def random_lens(rng, low=1, high=5):
    """A rank from `low` to `high`, and lengths of at most MOST elements together; all sizes are as likely."""
    rank = int(rng.integers(low, high + 1))
    left, lens = MOST ** rng.random(), [1] * rank
    for axis in rng.permutation(rank):
        lens[axis] = int(max(1, left ** (rng.random() if axis else 0.5 * rng.random())))
        left /= lens[axis]
    lens[int(rng.integers(rank))] *= max(1, int(left))
    return tuple(lens)


def random_layout(dtype, lens, rng):
    """Half of all tensors are packed, a quarter channels last; others have gaps, and their axes any order."""
    kind, order, gaps = rng.integers(4), range(len(lens)), 0
    if kind == 2 and len(lens) > 2:
        order = (0, *range(2, len(lens)), 1)
    elif kind == 3:
        order, gaps = rng.permutation(len(lens)), 3
    strides, step = [0] * len(lens), int(rng.integers(1, 3)) if gaps else 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * lens[axis] + (int(rng.integers(0, gaps)) if gaps else 0)
    return TensorDescriptor(dtype, lens, strides)


def random_values(lens, rng):
    return rng.standard_normal(lens) * 10 ** rng.uniform(-1, 1)


def random_tensor(handle, dtype, lens, rng, values="random"):
    """A tensor of a random layout; without values, poison."""
    if isinstance(values, str):
        values = random_values(lens, rng).astype(DTYPE[dtype])
    return Tensor(handle, random_layout(dtype, lens, rng), values)


def random_numbers(rng, count):
    """As float32 holds them."""
    return [float(np.float32(v)) for v in rng.uniform(-2, 2, count)]


def exact(values):
    """In a type with room for what rounding costs."""
    return values.astype(np.longdouble if values.dtype == np.float64 else np.float64)


def wide(tensor):
    return exact(tensor.view())


def old_result(handle, dtype, lens, rng):
    """A tensor to write, beta, and beta times what is there: half of the time poison."""
    if rng.integers(2):
        return random_tensor(handle, dtype, lens, rng, None), 0.0, 0.0
    tensor, (beta,) = random_tensor(handle, dtype, lens, rng), random_numbers(rng, 1)
    return tensor, beta, beta * wide(tensor)


# One problem of each operation


def run_op_tensor(name, outcome, handle, dtype, rng):
    lens = random_lens(rng)
    a = random_tensor(handle, dtype, lens, rng)
    b = random_tensor(handle, dtype, tuple(n if rng.integers(2) else 1 for n in lens), rng)
    c, beta, old = old_result(handle, dtype, lens, rng)
    alpha1, alpha2 = random_numbers(rng, 2)
    miopyx.miopenOpTensor(handle, getattr(enums, f"miopenTensorOp{name}"), alpha1, a.desc, a.argument(), alpha2, b.desc,
                          b.argument(), beta, c.desc, c.argument())
    x, y = alpha1 * wide(a), alpha2 * wide(b)
    want = tensor_ops.OPS[name](x, y) + old
    terms = (np.abs(x * y) if name == "Mul" else np.abs(x) + np.abs(y)) + np.abs(old)
    outcome.record("c", c.values(), want, terms, tensor_ops.bound_of(want, terms, dtype), dtype)


def run_scale(outcome, handle, dtype, rng):
    y, (alpha,) = random_tensor(handle, dtype, random_lens(rng), rng), random_numbers(rng, 1)
    want = alpha * wide(y)
    miopyx.miopenScaleTensor(handle, y.desc, y.argument(), alpha)
    outcome.record("y", y.values(), want, 0, tensor_ops.bound_of(want, np.abs(want), dtype, 1), dtype)


def run_transform(outcome, handle, dtype, rng):
    lens, (alpha,) = random_lens(rng), random_numbers(rng, 1)
    x = random_tensor(handle, dtype, lens, rng)
    y, beta, old = old_result(handle, dtype, lens, rng)
    miopyx.miopenTransformTensor(handle, alpha, x.desc, x.argument(), beta, y.desc, y.argument())
    want, terms = alpha * wide(x) + old, np.abs(alpha * wide(x)) + np.abs(old)
    outcome.record("y", y.values(), want, terms, tensor_ops.bound_of(want, terms, dtype, 3), dtype)


def run_cast(outcome, handle, dtype, rng):
    """To this type from another one."""
    source = str(rng.choice([t for t in TYPES if t != dtype and (handle.device.is_host or handle.device.fp64
                                                                  or t != "float64")]))
    lens, (alpha,), clamping = random_lens(rng), random_numbers(rng, 1), bool(rng.integers(2))
    most = activation.LARGEST[source]
    values = np.clip(rng.standard_normal(lens) * 10 ** rng.uniform(-3, 5), -most, most).astype(DTYPE[source])
    x, y = random_tensor(handle, source, lens, rng, values), random_tensor(handle, dtype, lens, rng, None)
    miopyx.cast_tensor(handle, alpha, clamping, x.desc, x.argument(), y.desc, y.argument())
    want = alpha * wide(x)
    if clamping:
        highest = float(ml_dtypes.finfo(DTYPE[dtype]).max)
        want = np.clip(want, -highest, highest)
    outcome.record("y", y.values(), want, 0, tensor_ops.bound_of(want, np.abs(want), dtype, 1, ROUNDOFF[dtype]), dtype)


def run_bias(outcome, handle, dtype, rng):
    lens, (alpha, beta) = random_lens(rng, 4), random_numbers(rng, 2)
    y = random_tensor(handle, dtype, lens, rng)
    b = random_tensor(handle, dtype, (1, lens[1], *[1] * (len(lens) - 2)), rng)
    want, terms = (alpha * (f(wide(y)) + f(wide(b))) for f in (lambda v: v, np.abs))
    want, terms = want + beta * wide(y), np.abs(terms) + np.abs(beta * wide(y))
    miopyx.miopenConvolutionForwardBias(handle, alpha, b.desc, b.argument(), beta, y.desc, y.argument())
    outcome.record("y", y.values(), want, terms, tensor_ops.bound_of(want, terms, dtype), dtype)

    dy, axes = random_tensor(handle, dtype, lens, rng), (0, *range(2, len(lens)))
    db, beta, old = old_result(handle, dtype, b.desc.lens, rng)
    miopyx.miopenConvolutionBackwardBias(handle, alpha, dy.desc, dy.argument(), beta, db.desc, db.argument())
    want = alpha * wide(dy).sum(axes, keepdims=True) + old
    terms = np.abs(alpha * wide(dy)).sum(axes, keepdims=True) + np.abs(old)
    bound = pooling.bound_of(want, terms, wide(dy).size // want.size, dtype)
    outcome.record("db", db.values(), want, terms, bound, dtype)


def random_pooling(mode, dtype, rng):
    """Problems that all kernels of a CPU compute, but few programs of each."""
    kinds = ("rows", "channels", "elements", "planes", *(("apart", "flat") if dtype == "float32" else ()))
    kind, spatial = str(rng.choice(kinds)), int(rng.choice([2, 2, 3]))
    n, c = int(rng.integers(1, 4)), int(rng.integers(1, 8))
    windows, strides = ([int(v) for v in rng.integers(1, high, spatial)] for high in (4, 4))
    lens = [int(v) for v in rng.integers(3, 10 if spatial == 2 else 6, spatial)]
    if kind in ("rows", "apart", "flat"):
        lens[-1], n, c = int(rng.integers(19, 37)), int(rng.integers(1, 3)), int(rng.integers(1, 5))
        windows[-1], strides[-1] = {"rows": (3, 2), "apart": (4, 3), "flat": (3, 1)}[kind]
    elif kind == "channels":
        c, n, windows[-1] = int(rng.integers(16, 40)), 1, 4
    elif kind == "planes":
        windows = lens
    pads = [int(rng.integers(0, w)) if rng.integers(2) and kind != "planes" else 0 for w in windows]
    if kind == "flat":
        windows, strides, pads = [3, 3], [1, 1], [1, 1]
        lens = lens[-2:]
    elif kind == "channels":
        pads[-1] = max(pads[-1], 1)  # an image may be narrower than the window
    # Images are small, but not always as small as one byte counts.
    index = (2, 1) if kind == "elements" else (0, 0)
    pool, x = PoolingDescriptor(mode, windows, pads, strides, *index), (n, c, *lens)
    y = pool.output_lens(TensorDescriptor(dtype, x))
    if kind == "elements":
        return pool, *(TensorDescriptor(dtype, shape, pooling.random_strides(shape, rng)) for shape in (x, y))
    layout = "channels last" if kind == "channels" else "packed"
    return pool, *(TensorDescriptor(dtype, shape, pooling.strides_of(shape, layout)) for shape in (x, y))


def run_pooling(mode, outcome, handle, dtype, rng):
    pool, x_desc, y_desc = random_pooling(mode, dtype, rng)
    maximum, taps = mode == pooling.MAX, int(np.prod(pool.windows))
    x = Tensor(handle, x_desc, random_values(x_desc.lens, rng).astype(DTYPE[dtype]))
    y = Tensor(handle, y_desc, None)
    nbytes = miopyx.miopenPoolingGetWorkSpaceSizeV2(pool, y_desc)
    space = Guarded(handle, nbytes, 0xFF)
    room = space.argument() if nbytes else None
    miopyx.miopenPoolingForward(handle, pool, 1, x_desc, x.argument(), 0, y_desc, y.argument(), True, room, nbytes)
    want, indices = pooling.forward_reference(pool, wide(x), y_desc.lens)
    if maximum:
        outcome.record("y", y.values(), want, 0, 0.0, dtype)
        found = space.fetch().view(pooling.INDEX[pool.workspace_index_type]).reshape(want.shape).astype(np.float64)
        outcome.record("indices", found, indices.astype(np.float64), 0, 0.0, dtype)
    else:
        size = pooling.forward_reference(pool, np.abs(wide(x)), y_desc.lens)[0]
        outcome.record("y", y.values(), want, size, pooling.bound_of(want, size, taps, dtype), dtype)

    dy = Tensor(handle, y_desc, random_values(y_desc.lens, rng).astype(DTYPE[dtype]))
    dx = Tensor(handle, x_desc, None)
    miopyx.miopenPoolingBackward(handle, pool, 1, y_desc, None, y_desc, dy.argument(), x_desc, None, 0, x_desc,
                                 dx.argument(), room)
    want, size = (pooling.backward_reference(pool, f(wide(dy)), indices, x_desc.lens) for f in (lambda v: v, np.abs))
    outcome.record("dx", dx.values(), want, size, pooling.bound_of(want, size, taps, dtype), dtype)


def run_activation(mode, outcome, handle, dtype, rng):
    lens, abg, eps = random_lens(rng), activation.parameters(mode, rng), activation.eps_of(dtype)
    activ = ActivationDescriptor(mode, *abg)
    x = random_tensor(handle, dtype, lens, rng, activation.values(dtype, lens, rng))
    y = random_tensor(handle, dtype, lens, rng, None)
    given, result = x.argument(), y.argument()
    miopyx.miopenActivationForward(handle, activ, 1, x.desc, given, 0, y.desc, result)
    want, size = activation.forward(mode, wide(x), *abg, eps)
    outcome.record("y", y.values(), want, size, activation.bound_of(want, size, dtype), dtype)

    dy = random_tensor(handle, dtype, lens, rng, activation.values(dtype, lens, rng))
    dx = random_tensor(handle, dtype, lens, rng, None)
    miopyx.miopenActivationBackward(handle, activ, 1, y.desc, result, dy.desc, dy.argument(), x.desc, given, 0, dx.desc,
                                    dx.argument())
    want, size = activation.backward(mode, wide(dy), wide(x), wide(y), *abg, eps)
    outcome.record("dx", dx.values(), want, size, activation.bound_of(want, size, dtype), dtype)


def random_lrn(mode, dtype, rng):
    """Powers of 3/4, for which kernels have programs of their own, and others: each where it costs few programs."""
    others = rng.integers(2) if dtype in ("float32", "float64") else mode == lrn.WITHIN
    kinds = ("NCHW", "NHWC", "CHWN", "gaps")
    layouts = [str(rng.choice(kinds))] * 4 if rng.integers(2) else [str(kind) for kind in rng.choice(kinds, 4)]
    lens = random_lens(rng, 4, 5 if mode == lrn.CROSS else 4)
    n = int(rng.integers(1, 10) if rng.integers(4) else rng.integers(10, 30))
    return lrn.Case(lens, mode, n, *(float(np.float32(v)) for v in (
        rng.uniform(0.1, 2), rng.uniform(-0.5, 2) if others else 0.75, rng.uniform(0.5, 3))), dtype, tuple(layouts))


def run_lrn(mode, outcome, handle, dtype, rng):
    case = random_lrn(mode, dtype, rng)
    unit, kind, kept = lrn.arithmetic(handle, case), DTYPE[dtype], "float64" if dtype == "float64" else "float32"
    op = LRNDescriptor(mode, case.n, case.alpha, case.beta, case.k)
    x = lrn.Memory(case.lens, case.layouts[0], kind, rng, 2 * rng.standard_normal(case.lens))
    y = lrn.Memory(case.lens, case.layouts[1], kind, rng)
    scales = Guarded(handle, miopyx.miopenLRNGetWorkSpaceSize(y.desc), 0xFF)
    space = scales.argument()
    miopyx.miopenLRNForward(handle, op, 1, x.desc, x.upload(handle), 0, y.desc, y.upload(handle), True, space)
    s, want = lrn.exact_forward(exact(x.view), mode, case.n, case.alpha, case.beta, case.k)
    bound, scale_bound = lrn.forward_bounds(case, s, want, unit)
    result = y.result(handle)
    outcome.record("y", result, want, 0, bound, dtype)
    found = lrn.as_strided(scales.fetch().view(DTYPE[kept]), case.lens,
                           [stride * DTYPE[kept].itemsize for stride in y.strides]).astype(np.float64)
    outcome.record("scales", found, s, 0, scale_bound, kept)

    dx = lrn.Memory(case.lens, case.layouts[2], kind, rng)
    dy = lrn.Memory(case.lens, case.layouts[3], kind, rng, rng.standard_normal(case.lens))
    miopyx.miopenLRNBackward(handle, op, 1, y.desc, y.buffer, dy.desc, dy.upload(handle), x.desc, x.buffer, 0, dx.desc,
                             dx.upload(handle), space)
    given = exact(x.view), result, exact(dy.view), found
    want = lrn.exact_backward(*given, mode, case.n, case.alpha, case.beta)
    sizes = lrn.backward_sizes(case, *given)
    bound = lrn.backward_bound(case, want, found, *sizes, unit)
    outcome.record("dx", dx.result(handle), want, sum(sizes), bound, dtype)


class Example(batchnorm.Example):
    """Tells the magnitude and the type of what is compared next."""

    def bound(self, handle, desc, want, rest):
        self.compared = rest, desc.dtype
        return super().bound(handle, desc, want, rest)


def run_batch_norm(mode, outcome, handle, dtype, rng):
    """Training, inference and the gradients, with what training saved and without."""
    layout = str(rng.choice(["packed", "packed", "last", "last", "gaps", "rows", "mixed"]))
    # As float32 holds them: next to a factor that is nearly 1, what rounding it costs would count most.
    epsilon, factor = (float(np.float32(v)) for v in (10 ** rng.uniform(-6, -1), rng.choice([0.1, rng.random(), 1.0])))
    example = Example(mode, random_lens(rng, 3), dtype, rng, layout, mean=rng.normal(), deviation=rng.uniform(0.1, 3),
                      epsilon=epsilon, factor=factor)

    def record(got, want, bound, note):
        """Notes begin with what is compared."""
        outcome.record(note.split(",")[0], got, want, example.compared[0], bound, example.compared[1])

    with mock.patch.object(batchnorm, "assert_close", record):
        example.check(handle)


def run_softmax(algorithm, mode, outcome, handle, dtype, rng):
    lens, logarithm = random_lens(rng, 2), algorithm == softmax.LOG
    axes, (alpha,) = softmax.axes_of(mode, lens), (1.0,) if rng.integers(2) else random_numbers(rng, 1)
    x = random_tensor(handle, dtype, lens, rng)
    y, beta, old = old_result(handle, dtype, lens, rng)
    miopyx.miopenSoftmaxForward_V2(handle, alpha, x.desc, x.argument(), beta, y.desc, y.argument(), algorithm, mode)
    result, size = softmax.forward(wide(x), algorithm, axes)
    want, terms = alpha * result + old, np.abs(alpha) * (np.abs(result) + logarithm) + np.abs(old)
    outcome.record("y", y.values(), want, terms, softmax.bound_of(want, result, size, dtype, alpha), dtype)

    y_desc = random_layout(dtype, lens, rng)
    y = Tensor(handle, y_desc, softmax.forward(wide(x), algorithm, axes)[0])
    dy = Tensor(handle, y_desc, random_values(lens, rng).astype(DTYPE[dtype]))
    dx, beta, old = old_result(handle, dtype, lens, rng)
    miopyx.miopenSoftmaxBackward_V2(handle, alpha, y_desc, y.argument(), y_desc, dy.argument(), beta, dx.desc,
                                    dx.argument(), algorithm, mode)
    result, size = softmax.backward(wide(y), wide(dy), algorithm, axes)
    factor, each = np.exp(wide(y)) if logarithm else wide(y), np.abs(wide(dy))
    terms = each + factor * each.sum(axes, keepdims=True) if logarithm else (
        factor * (each + (factor * each).sum(axes, keepdims=True)))
    want, terms = alpha * result + old, np.abs(alpha) * terms + np.abs(old)
    outcome.record("dx", dx.values(), want, terms, softmax.bound_of(want, result, size, dtype, alpha), dtype)


OPERATIONS = {
    **{f"op_tensor {name.lower()}": partial(run_op_tensor, name) for name in tensor_ops.OPS},
    "scale": run_scale, "transform": run_transform, "cast": run_cast, "bias": run_bias,
    **{f"pooling {name}": partial(run_pooling, mode) for mode, name in enumerate(("max", "average", "inclusive"))},
    **{f"activation {name.lower()}": partial(run_activation, mode) for name, mode in activation.MODES.items()},
    **{f"lrn {name}": partial(run_lrn, mode) for mode, name in enumerate(("within", "cross"))},
    **{f"batch norm {name}": partial(run_batch_norm, mode) for mode, name in enumerate(("per activation", "spatial"))},
    **{f"softmax {name} {place}": partial(run_softmax, algorithm, mode)
       for algorithm, name in enumerate(("fast", "accurate", "log"))
       for mode, place in enumerate(("instance", "channel"))},
}


# All of them


def measure(name, handle, dtype, seed, problems) -> Outcome:
    """Run an operation's problems; problem i is the same on every device, and whichever other ones are run."""
    outcome = Outcome()
    for number in range(problems):
        rng = np.random.default_rng([seed, zlib.crc32(name.encode()), TYPES.index(dtype), number])
        seen = len(outcome.wrong)
        try:
            OPERATIONS[name](outcome, handle, dtype, rng)
        except AssertionError as error:  # memory changed that should not
            outcome.wrong.append(str(error).strip())
        outcome.wrong[seen:] = [f"{name}, {dtype}, {handle.device.name}, problem {number}: {text}"
                                for text in outcome.wrong[seen:]]
    return outcome


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=500, help="of each operation and type (default: 500)")
    parser.add_argument("--device", nargs="+", metavar="NAME",
                        help="as `miopyx doctor` names them (default: host and every OpenCL device that works)")
    parser.add_argument("--dtype", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--op", nargs="+", metavar="TEXT", help="operations whose names hold one of these texts")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="repeats the problems of a run")
    given = parser.parse_args(arguments)
    names = [name for name in OPERATIONS if not given.op or any(text in name for text in given.op)]
    if not names or given.problems < 1:
        parser.error(f"nothing to do; operations: {', '.join(OPERATIONS)}")
    places = given.device or ["host", *dict.fromkeys(i.name for i in devices.ranked() if i.kind != "host")]
    handles, wrong, start = {name: miopyx.Handle(name) for name in places}, [], time.perf_counter()
    print(f"{given.problems} problems of each operation and type, --seed {given.seed}\n"
          "largest error in roundoffs of the type x magnitude, and its part of the bound of the operation's tests\n"
          "truth: the formulas of the tests in NumPy, float64, for float64 long double\n")
    for number, name in enumerate(places):
        print(f"device {number}: {name}")
    print(f"\n{'':36}" + "".join(f"{dtype:>19}" for dtype in given.dtype))
    for name in names:
        for number, handle in enumerate(handles.values()):
            able = [t for t in given.dtype if t != "float64" or handle.device.is_host or handle.device.fp64]
            found = {dtype: measure(name, handle, dtype, given.seed, given.problems) for dtype in able}
            for part in dict.fromkeys(part for outcome in found.values() for part in outcome.worst):
                cells = ["{:10.3g} ({:6.2f})".format(*found[t].worst[part]) if t in found and part in found[t].worst
                         else "-" for t in given.dtype]
                print(f"{name:26}{part:>9} {number}" + "".join(f"{cell:>19}" for cell in cells), flush=True)
            for outcome in found.values():
                wrong += outcome.wrong
    print(f"\n{time.perf_counter() - start:.0f} s; {len(wrong)} results beyond their bounds")
    for line in wrong[:20]:
        print(line)
    for handle in handles.values():
        miopyx.miopenDestroy(handle)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
