"""Convolutions beside PyTorch: what `versus.py conv` measures, on the layers of convolutions.txt.

    python bench/versus.py conv --list resnet50 [--directions FBW] [--batch 4] [--layout nhwc] [--only c=64 --only 3x3]
                                [--exhaustive] ...

For each layer and direction (F forward, B backward data, W backward weights), times of a call in turns with PyTorch:

- the solver that Find takes in its NORMAL mode, on a handle that knows nothing and with empty databases; with
  --exhaustive it searches for the solver's best configuration first;
- `packed`: the same with its weights prepared once (`plan.pack`), where the solver prepares any;
- `hybrid`: what DYNAMIC_HYBRID takes, on a handle of its own;
- `alone`: every solver that Find took for at most three times its winner's time.

With --beside TYPE the peer, called PyTorch in the columns, is our own convolution in that type on the same numbers, as
Find takes it: float32 for 16 bits, say.  So it is, in float16, for float8, which PyTorch's convolutions do not take.
Errors then hold the rounding of each side's results, at random in float8 as descriptors begin.

PyTorch allocates its results (its variants with `out` compute elsewhere and copy); versus.py's settings see to it that
the memory is not fresh.  On CUDA it may choose among all of cuDNN's algorithms, without TF32.

GFLOP/s are 2 n k ho wo (c / groups) r s, by medians.  `ratio` is PyTorch's time by ours, by medians and by each side's
best turn; `packed` the same for packed weights.  `hybrid` and `alone` are parts of the speed that there is: NORMAL's
time by DYNAMIC_HYBRID's (which times what NORMAL times where all solvers are dynamic), and the best single solver's by
that of Find's winner; `alone` names another solver if that was the best one.  Errors are norms, of the difference to
float64 by that of the true result.  Beside CUDA every element counts, against PyTorch's own float64.  Else the host
path computes the truth, above 2e9 operations for some images, the first and the last among them, or for backward
weights some filters and channels.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import miopyx

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from cases_reader import ConvCase, case_of_line

LAYERS = Path(__file__).parent / "convolutions.txt"
LISTS = ("resnet50", "vgg16", "googlenet", "densenet121", "inception3", "extra", "depthwise", "grouped", "fft", "small",
         "modern", "odd", "volumes", "signals", "sd-unet", "unet3d")
NAMES = {"F": "forward", "B": "data", "W": "weights"}
ROLES = {"F": ("xwy", "wxy"), "B": ("ywx", "ywx"), "W": ("yxw", "yxw")}  # as plans take tensors, and as queries do
OUTPUTS = {"F": "y", "B": "x", "W": "w"}
FUNCTIONS = {"F": "Forward", "B": "BackwardData", "W": "BackwardWeights"}
DYNAMIC_HYBRID = 5
WAITED_TURNS = 5       # of calls that are waited for
WAITED = 20            # in a turn, after as many that are not counted
SLOWEST = 3.0          # a solver that Find took for so many times the winner's time is not timed alone
CHECKED = 2e9          # operations of the part of a result that is checked
PIECE = 1 << 20        # random numbers that a thread makes at a time


def layers(network: str, batch: int, only: list[str]) -> Iterator[ConvCase]:
    """Yield a network's layers, those whose lines have all of `only` among their words or in one."""
    for line in LAYERS.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words and words[0] == network and all(any(part in word for word in words[1:]) for part in only):
            yield case_of_line(" ".join(words[1:]), n=batch)


def random_data(layer: ConvCase, numpy_type: np.dtype, layout: str) -> dict[str, np.ndarray]:
    """Return x, w and y, normal numbers of a type; channels lie closest in memory where the layout is nhwc."""
    def fill(rng: np.random.Generator, part: np.ndarray) -> None:
        part[:] = rng.standard_normal(part.size, dtype=np.float32)

    data = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for name, lens in zip("xwy", layer.all_lens, strict=True):
            flat = np.empty(math.prod(lens), numpy_type)
            parts = np.array_split(flat, -(-flat.size // PIECE))
            list(threads.map(fill, np.random.default_rng().spawn(len(parts)), parts))
            data[name] = (np.moveaxis(flat.reshape(lens[0], *lens[2:], lens[1]), -1, 1) if layout == "nhwc"
                          else flat.reshape(lens))
    return data


SPACE = 4 << 30  # bytes of workspace that Find is given at most


class Prepared:
    """A layer on one of miopyx's sides: descriptors, and memory with its inputs and for the results."""

    def __init__(self, side, layer: ConvCase, data: dict[str, np.ndarray]) -> None:
        self.side, self.layer = side, layer
        self.desc = {name: side.desc(values.shape) for name, values in data.items()}
        self.input = {name: side.array(values) for name, values in data.items()}
        self.output = {name: side.empty(values.shape, value=math.nan) for name, values in data.items()}

    def arguments(self, direction: str) -> tuple:
        """Return the descriptors as plans take them, and as queries do."""
        return tuple([self.desc[name] for name in order] for order in ROLES[direction])

    def buffers(self, direction: str) -> list:
        a, b, out = ROLES[direction][0]
        return [self.input[a][0], self.input[b][0], self.output[out][0]]

    def plan(self, direction: str, conv, **options):
        a, b, out = self.arguments(direction)[0]
        handle = self.side.handle
        make = {"F": handle.convolution_forward, "B": handle.convolution_backward_data,
                "W": handle.convolution_backward_weights}[direction]
        return make(a, b, conv, out, **options)

    def find(self, direction: str, conv, exhaustive: bool) -> list:
        """Run Find and return what it timed, fastest first."""
        handle, name = self.side.handle, FUNCTIONS[direction]
        a, b, out = self.arguments(direction)[1]
        size = min(getattr(miopyx, f"miopenConvolution{name}GetWorkSpaceSize")(handle, a, b, conv, out), SPACE)
        a, b, out = self.arguments(direction)[0]
        p, q, r = self.buffers(direction)
        getattr(miopyx, f"miopenFindConvolution{name}Algorithm")(
            handle, a, p, b, q, conv, out, r, 9, self.side.space(size), size, exhaustive)
        a, b, out = self.arguments(direction)[1]
        return list(getattr(miopyx, f"miopenConvolution{name}GetSolution")(handle, a, b, conv, out, 999))

    def run(self, direction: str, plan) -> Callable[[], object]:
        buffers = self.buffers(direction)
        return lambda: plan(*buffers)

    def result(self, direction: str):
        """Return what was computed last, in float64."""
        self.side.finish()
        return self.side.read(self.output[OUTPUTS[direction]])


def give_back(side) -> None:
    """Free what layers before left and PyTorch caches: its pool takes what our programs and workspaces need."""
    side.finish()
    gc.collect()
    side.torch.cuda.empty_cache()


class Peer:
    """A layer on PyTorch's side."""

    def __init__(self, side, layer: ConvCase, data: dict[str, np.ndarray]) -> None:
        x, w, y = (side.array(data[name]) for name in "xwy")
        aten, axes = side.torch.ops.aten, len(layer.lens)
        geometry = (layer.stride, layer.pad, layer.dilation, layer.transposed, (0,) * axes, layer.groups)
        self.side, self.kept = side, {}

        def forward() -> None:
            self.kept["F"] = aten.convolution(x, w, None, *geometry)

        def data_gradient() -> None:
            self.kept["B"] = aten.convolution_backward(y, x, w, None, *geometry, (True, False, False))[0]

        def weights_gradient() -> None:
            self.kept["W"] = aten.convolution_backward(y, x, w, None, *geometry, (False, True, False))[1]

        self.runs = {"F": forward, "B": data_gradient, "W": weights_gradient}

    def workspace(self, direction: str) -> int:
        """Return the bytes that a call takes on CUDA beside its result."""
        cuda = self.side.torch.cuda
        self.kept.pop(direction, None)
        give_back(self.side)
        before = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        self.runs[direction]()
        return cuda.max_memory_allocated() - before - self.kept[direction].nbytes

    def result(self, direction: str):
        """Compute it and return it in float64."""
        self.runs[direction]()
        self.side.finish()
        return self.side.read(self.kept[direction])


class OwnPeer:
    """A layer in another type on our own side, as Find takes it."""

    def __init__(self, side, layer: ConvCase, data: dict[str, np.ndarray]) -> None:
        self.mine, self.conv, self.runs = Prepared(side, layer, data), layer.conv(), {}

    def find(self, direction: str) -> None:
        self.mine.find(direction, self.conv, False)
        self.runs[direction] = self.mine.run(direction, self.mine.plan(direction, self.conv))

    def result(self, direction: str):
        """Compute it and return it in float64."""
        self.runs[direction]()
        return self.mine.result(direction)


class TruthOnDevice:
    """The results in float64 by PyTorch, of everything; the host path would take longer than all else."""

    def __init__(self, exact, layer: ConvCase, data: dict) -> None:
        self.torch, self.peer = exact.torch, Peer(exact, layer, data)

    def errors(self, direction: str, sides: list) -> list[float]:
        """Return each side's error in what it computed last."""
        with self.torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
            true = self.peer.result(direction)
        norm = self.torch.linalg.vector_norm
        return [float(norm(side.result(direction) - true) / norm(true)) for side in sides]


class Truth:
    """The results in float64 by the host path, of all or of a part."""

    def __init__(self, host, layer: ConvCase, data: dict[str, np.ndarray]) -> None:
        self.host, self.layer, self.data = host, layer, data

    def part(self, direction: str) -> tuple[np.ndarray, ...]:
        """Return which images are checked, or which filters and channels: the first, the last, some between."""
        def spread(count: int, share: float) -> np.ndarray:
            return np.unique(np.linspace(0, count - 1, max(2, int(count * share))).round().astype(int))

        layer, share = self.layer, CHECKED / (2 * self.layer.products)
        if share >= 1 or (direction == "W" and (layer.groups > 1 or layer.transposed)):
            return ()
        if direction == "W":
            return np.ix_(spread(layer.k, math.sqrt(share)), spread(layer.c, math.sqrt(share)))
        return (spread(layer.n, share),)

    def errors(self, direction: str, sides: list) -> list[float]:
        """Return each side's error in what it computed last."""
        data, part, name = dict(self.data), self.part(direction), OUTPUTS[direction]
        if part and direction != "W":
            data["x"], data["y"] = (data[i][part] for i in "xy")
        elif part:
            data["w"], data["x"], data["y"] = data["w"][part], data["x"][:, part[1][0]], data["y"][:, part[0][:, 0]]
        data = {i: np.full(values.shape, math.nan) if i == name else np.ascontiguousarray(values, np.float64)
                for i, values in data.items()}
        desc = {i: miopyx.TensorDescriptor("float64", values.shape) for i, values in data.items()}
        x, w, y, conv = desc["x"], desc["w"], desc["y"], self.layer.conv()
        if direction == "F":
            self.host.convolution_forward(x, w, conv, y)(data["x"], data["w"], data["y"])
        elif direction == "B":
            self.host.convolution_backward_data(y, w, conv, x)(data["y"], data["w"], data["x"])
        else:
            self.host.convolution_backward_weights(y, x, conv, w)(data["y"], data["x"], data["w"])
        true = data[name]
        return [float(np.linalg.norm(np.asarray(side.result(direction))[part] - true) / np.linalg.norm(true))
                for side in sides]


def seconds_of_calls(runs: list[tuple[Callable[[], object], Callable[[], None]]]) -> list[float]:
    """Return for each side the median time of a call that is waited for, sides in turns.

    A turn's first calls are not counted: a GPU takes a while to change to another library's context.
    """
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(WAITED_TURNS):
        for found, (run, finish) in zip(times, runs, strict=True):
            for call in range(2 * WAITED):
                start = time.perf_counter()
                run()
                finish()
                if call >= WAITED:
                    found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def measure(layer: ConvCase, directions: str, ours, hybrid, theirs, exact, in_turns, repeat: int,
            exhaustive: bool, sync: bool, tf32: bool = False) -> Iterator[dict]:
    """Yield a row for each direction.

    `tf32`: ours may round factors as PyTorch does where it is allowed to.
    `hybrid` is a side of ours with a handle that found nothing else; without it only Find's solver is measured.
    `exact` is the host's handle, or on CUDA PyTorch's side in float64.  `theirs` may be a side of ours in another type.
    """
    on_cuda = theirs.where != "cpu"
    if on_cuda:
        data = {name: theirs.torch.randn(lens, device=theirs.where).to(getattr(theirs.torch, ours.dtype))
                for name, lens in zip("xwy", layer.all_lens, strict=True)}
    else:
        data = random_data(layer, ours.numpy_type, ours.layout)
    own = isinstance(theirs, type(ours))
    mine, peer = Prepared(ours, layer, data), (OwnPeer if own else Peer)(theirs, layer, data)
    other = Prepared(hybrid, layer, data) if hybrid else None
    truth = TruthOnDevice(exact, layer, data) if on_cuda else Truth(exact, layer, data)
    conv, least = conv_of(layer, tf32), 20 if ours.handle.device.is_gpu else 1
    for direction in directions:
        if on_cuda:
            give_back(theirs)
        solutions = mine.find(direction, conv, exhaustive)
        if own:
            peer.find(direction)
        plan = mine.plan(direction, conv)
        mine.output[OUTPUTS[direction]] = ours.empty(mine.output[OUTPUTS[direction]][1], value=math.nan)
        mine.run(direction, plan)()
        errors = truth.errors(direction, [mine, peer])
        winner, extra = plan.solver.name, {}
        sides = {"miopyx": mine.run(direction, plan), "torch": peer.runs[direction]}
        if other:
            quickly = solver_of_hybrid(other, direction, conv_of(layer, tf32))
            sides.update(other_sides(mine, direction, conv, solutions, [plan.solver.id, quickly.id]))
        finish = {name: theirs.finish if name == "torch" else ours.finish for name in sides}
        times = in_turns([(run, finish[name]) for name, run in sides.items()], repeat, least, on_cuda)
        medians = {name: statistics.median(found) for name, found in zip(sides, times, strict=True)}
        if other:
            singles = {name: seconds for name, seconds in medians.items() if name not in ("miopyx", "torch", "packed")}
            best = min(singles, key=singles.__getitem__)
            extra = {"packed": medians.get("packed"), "hybrid_solver": quickly.name,
                     "hybrid": singles[winner] / singles[quickly.name], "alone_solver": best,
                     "alone": singles[best] / singles[winner], "solvers": singles}
        if sync:
            names = ("miopyx", "torch")
            waited = seconds_of_calls([(sides[name], finish[name]) for name in names])
            extra |= dict(zip((f"{name}_sync" for name in names), waited, strict=True))
        if on_cuda and isinstance(peer, Peer):
            extra["torch_workspace"] = peer.workspace(direction)
        yield {
            "layer": layer.text, "direction": NAMES[direction], "flops": 2 * layer.products,
            "bytes": moved(layer, direction) * ours.width, "solver": winner, "workspace": plan.workspace,
            "miopyx": medians["miopyx"], "torch": medians["torch"], "miopyx_best": min(times[0]),
            "torch_best": min(times[1]), "error": errors[0], "torch_error": errors[1], **extra,
        }


def moved(layer: ConvCase, direction: str) -> int:
    """Return the elements of a layer's three tensors, each once; of what is read only those that the filter meets."""
    image, pixels = (layer.y_lens, layer.lens) if layer.transposed else (layer.x_lens, layer.y_lens[2:])
    met = [min(length, out * taps) for length, out, taps in zip(image[2:], pixels, layer.filter, strict=True)]
    part = math.prod(image) - math.prod((*image[:2], *met))
    written = direction == ("F" if layer.transposed else "B")
    return sum(map(math.prod, layer.all_lens)) - (0 if written else part)


def conv_of(layer: ConvCase, tf32: bool) -> miopyx.ConvolutionDescriptor:
    conv = layer.conv()
    if tf32:
        miopyx.miopenSetConvolutionAttribute(conv, miopyx.MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, miopyx.miopenMathDefault)
    return conv


def solver_of_hybrid(other: Prepared, direction: str, quick: miopyx.ConvolutionDescriptor):
    """Return the solver that DYNAMIC_HYBRID takes."""
    miopyx.miopenSetConvolutionFindMode(quick, DYNAMIC_HYBRID)
    other.find(direction, quick, False)
    return other.plan(direction, quick).solver


def other_sides(mine: Prepared, direction: str, conv, solutions: list, also: list[int]) -> dict[str, Callable]:
    """Return what else is measured: weights packed once, and single solvers."""
    sides = {}
    if direction != "W":
        packed = mine.plan(direction, conv)
        packed.pack(mine.input["w"][0])
        if packed.packed:
            sides["packed"] = mine.run(direction, packed)
    least = min((s.time for s in solutions if s.time > 0), default=0.0)
    close = {s.solution_id for s in solutions if 0 < s.time <= SLOWEST * least}
    for number in sorted(close.union(also)):
        alone = mine.plan(direction, conv, solution_id=number)
        sides[alone.solver.name] = mine.run(direction, alone)
    return sides


HEADER = (f"{'layer':58} {'':7} {'GFLOP/s':>8} {'PyTorch':>8} {'ratio':>6} {'best':>6} {'packed':>6} {'hybrid':>6} "
          f"{'alone':>6} {'error':>8} {'PyTorch':>8} solver")


def line_of(row: dict) -> str:
    rate, peer = (row["flops"] / row[side] * 1e-9 for side in ("miopyx", "torch"))
    packed, hybrid, alone = (f"{value:6.2f}" if value else f"{'-':>6}" for value in (
        row["torch"] / row["packed"] if row.get("packed") else None, row.get("hybrid"), row.get("alone")))
    others = [f"{label} {row[f'{label}_solver']}" for label in ("hybrid", "alone")
              if row.get(f"{label}_solver", row["solver"]) != row["solver"]]
    waited = f" waited for {row['torch_sync'] / row['miopyx_sync']:.2f}" if "torch_sync" in row else ""
    return (f"{row['layer']:58} {row['direction']:7} {rate:8.1f} {peer:8.1f} {row['torch'] / row['miopyx']:6.2f} "
            f"{row['torch_best'] / row['miopyx_best']:6.2f} {packed} {hybrid} {alone} "
            f"{row['error']:8.1e} {row['torch_error']:8.1e} {', '.join([row['solver'], *others])}{waited}")


def summary(rows: list[dict]) -> Iterator[str]:
    """Yield for each direction geometric means over its layers."""
    mean = statistics.geometric_mean

    def parts(of: str, same: list[dict]) -> str:
        return f" {of} {mean([row[of] for row in same]):.2f}, least {min(row[of] for row in same):.2f};"

    for direction in dict.fromkeys(row["direction"] for row in rows):
        same = [row for row in rows if row["direction"] == direction]
        ratios = [row["torch"] / row["miopyx"] for row in same]
        rates = [mean([row["flops"] / row[side] * 1e-9 for row in same]) for side in ("miopyx", "torch")]
        best = mean([row["torch_best"] / row["miopyx_best"] for row in same])
        text = (f"{direction:8} {mean(ratios):.3f} times PyTorch's speed by medians ({rates[0]:.1f} and {rates[1]:.1f} "
                f"GFLOP/s), {best:.3f} by best turns, least {min(ratios):.2f};")
        if "alone" in same[0]:
            packed = mean([row["torch"] / (row["packed"] or row["miopyx"]) for row in same])
            text += f" {packed:.3f} with packed weights;{parts('hybrid', same)}{parts('alone', same)}"
        if "torch_sync" in same[0]:
            text += f" waited for {mean([row['torch_sync'] / row['miopyx_sync'] for row in same]):.3f};"
        yield (f"{text} largest error {max(r['error'] for r in same):.1e}, PyTorch's "
               f"{max(r['torch_error'] for r in same):.1e}; {len(same)} layers")
