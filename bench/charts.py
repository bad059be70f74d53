"""Draws the figures of the documents from what is in bench/results.

    python bench/charts.py FOLDER       writes NAME.svg for every chart (needs matplotlib)

Text and lines of an SVG have the colour of the text around it (`currentColor`), so that one file is readable on light
and on dark pages; black where it is shown alone.
"""

from __future__ import annotations

import io
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RESULTS = Path(__file__).resolve().parent / "results"
DIRECTIONS = ("forward", "data", "weights")
NAMES = {"forward": "forward", "data": "backward data", "weights": "backward weights"}
# Told apart in both themes and by people who see no difference between red and green.
COLOURS = {"forward": "#2f7fd0", "data": "#e08a1e", "weights": "#2aa58a", "peer": "#9aa0a6"}
MARKS = {"forward": "o", "data": "s", "weights": "^"}
# A colour that nothing else has; it becomes currentColor.
INK = "#010203"
WIDTH = 5.0  # inches: 480 pixels, so that a phone shrinks it by a third at most

# Ceilings of an H200 in TFLOP/s and TB/s, measured by loops of our own: docs/h200/index.md.
COPY = 4.19
CEILINGS = {"float16": (("wgmma, products alone", 800), ("mma.sync", 638)),
            "float32": (("three products of halves", 267),)}


def load(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def mean(values: Iterable[float]) -> float:
    return statistics.geometric_mean(values)


def figure(height: float, **subplots: Any) -> tuple[Figure, Any]:
    made = Figure(figsize=(WIDTH, height), layout="constrained")
    return made, made.subplots(**subplots)


def plain(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_axisbelow(True)


def bars(ax: Axes, groups: list[str], series: dict[str, list[float]], text: Callable[[float], str]) -> None:
    """Draw horizontal bars, a group of `series` a row, the first group at the top."""
    height = 0.8 / len(series)
    for j, (name, values) in enumerate(series.items()):
        places = [i + (j - (len(series) - 1) / 2) * height for i in range(len(groups))]
        key = next((k for k, v in NAMES.items() if v == name), "peer" if j else "forward")
        drawn = ax.barh(places, values, height * 0.92, label=name, color=COLOURS[key])
        ax.bar_label(drawn, [text(v) for v in values], padding=2, fontsize=7)
    ax.set_yticks(range(len(groups)), groups)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(groups) - 0.4, -0.6)
    plain(ax)


def legend(made: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)


def ratio_by_mode() -> tuple[Figure, str]:
    """cuDNN's time by ours on an H200, a row a mode."""
    modes = {"float32 NCHW": "h200-float32-nchw", "float16 NCHW": "h200-float16-nchw",
             "float16 NHWC": "h200-float16-nhwc", "bfloat16 NHWC": "h200-bfloat16-nhwc",
             "TF32 NCHW": "h200-tf32-nchw", "TF32 NHWC": "h200-tf32-nhwc",
             "groups, float32 NCHW": "h200-grouped-float32-nchw", "groups, float16 NHWC": "h200-grouped-float16-nhwc",
             "small, float32 NCHW": "h200-small-float32-nchw", "small, float16 NHWC": "h200-small-float16-nhwc"}
    series: dict[str, list[float]] = {NAMES[d]: [] for d in DIRECTIONS}
    for file in modes.values():
        rows = load(file)["rows"]
        for d in DIRECTIONS:
            series[NAMES[d]].append(mean(statistics.median(r["ratios"]) for r in rows if r["direction"] == d))
    made, ax = figure(7)
    bars(ax, list(modes), series, lambda v: f"{v:.2f}")
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xlabel("cuDNN's time by miopyx's: above 1 miopyx is faster")
    legend(made, ax)
    return made, "Bars: cuDNN's time by miopyx's on an H200 for ten kinds of convolutions in three directions."


def short(layer: str) -> str:
    words = dict(word.split("=", 1) for word in layer.split() if "=" in word)
    stride = f" /{words['stride'].split('x')[0]}" if "stride" in words else ""
    return f"{words['filter']}{stride}  {words['c']} to {words['k']}, {words['in']}"


def layers_by_mode(mode: str) -> tuple[Figure, str]:
    """TFLOP/s of ResNet-50's layers, forward, beside cuDNN."""
    rows = [r for r in load(f"h200-{mode}")["rows"] if r["direction"] == "forward"]
    made, ax = figure(0.32 * len(rows) + 0.9)
    series = {"miopyx": [r["flops"] / r["miopyx"] / 1e12 for r in rows],
              "cuDNN": [r["flops"] / r["torch"] / 1e12 for r in rows]}
    bars(ax, [short(r["layer"]) for r in rows], series, lambda v: f"{v:.0f}")
    ax.set_xlabel("TFLOP/s, forward, batch 256")
    legend(made, ax)
    return made, f"Bars: TFLOP/s of miopyx and cuDNN for each layer of ResNet-50, {mode}, forward, on an H200."


def roofline(mode: str) -> tuple[Figure, str]:
    """What bounds each layer: its rate by the products that it makes of a byte."""
    found = load(f"h200-{mode}")
    made, ax = figure(4.4)
    ceilings = CEILINGS[found["dtype"]]
    roof, low, high, bottom = ceilings[0][1], 5.0, 5000.0, 10.0
    ax.plot([low, roof / COPY, high], [low * COPY, roof, roof], color=INK, linewidth=1.2)
    for name, ceiling in ceilings:
        if ceiling != roof:
            ax.plot([ceiling / COPY, high], [ceiling, ceiling], color=INK, linewidth=0.7, linestyle=(0, (4, 3)))
        ax.annotate(f"{name}: {ceiling}", (high, ceiling), (0, 3 if ceiling == roof else -9),
                    textcoords="offset points", ha="right", fontsize=7)
    # The slope's angle on paper: decades of y and x on axes of about 3.6 by 4.4 inches.
    angle = math.degrees(math.atan(3.6 / math.log10(roof * 1.5 / bottom) * math.log10(high / low) / 4.4))
    ax.annotate(f"a copy: {COPY} TB/s", (low * 1.3, low * 1.3 * COPY), (-5, 5), textcoords="offset points", fontsize=7,
                rotation=angle, rotation_mode="anchor")
    for d in DIRECTIONS:
        rows = [r for r in found["rows"] if r["direction"] == d]
        ax.scatter([r["flops"] / r["bytes"] for r in rows],
                   [r["flops"] / r["miopyx"] / 1e12 for r in rows], s=16, marker=MARKS[d], label=NAMES[d],
                   color=COLOURS[d], alpha=0.9, linewidths=0)
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(bottom, roof * 1.5),
           xlabel="operations by byte of x, w and y, each moved once", ylabel="TFLOP/s")
    for axis, ticks in ((ax.xaxis, (10, 100, 1000)), (ax.yaxis, (10, 20, 50, 100, 200, 500))):
        axis.set_ticks([t for t in ticks if t < (high if axis is ax.xaxis else roof * 1.5)])
        axis.set_major_formatter("{x:.0f}")
        axis.set_ticks([], minor=True)
    plain(ax)
    legend(made, ax)
    return made, f"Roofline of an H200 with the layers of ResNet-50, {mode}, in three directions."


def memory() -> tuple[Figure, str]:
    """PyTorch's time by ours for what is bound by memory."""
    names = {("bnorm", "training"): "batch norm, training", ("bnorm", "inference"): "batch norm, inference",
             ("bnorm", "backward"): "batch norm, backward", ("activ", "forward"): "ReLU",
             ("activ", "backward"): "ReLU, backward", ("pool", "forward"): "pooling",
             ("pool", "saving"): "max with indices", ("pool", "backward"): "pooling, backward",
             ("softmax", "forward"): "softmax", ("softmax", "backward"): "softmax, backward",
             ("bias", "forward"): "bias", ("bias", "backward"): "bias, backward",
             ("tensor", "add"): "sum", ("tensor", "multiply"): "product",
             ("lrn", "forward"): "LRN", ("lrn", "saving"): "LRN, training", ("lrn", "backward"): "LRN, backward"}
    made, ax = figure(5.0)
    modes = {"float32 NCHW": ("o", "forward"), "float16 NCHW": ("s", "data"), "float16 NHWC": ("^", "weights"),
             "bfloat16 NHWC": ("D", "peer")}
    for mode, (mark, colour) in modes.items():
        rows = load("h200-memory-" + mode.lower().replace(" ", "-"))["rows"]
        ratios = [mean(r["torch"] / r["miopyx"] for r in rows if (r["op"], r["direction"]) == key) for key in names]
        ax.scatter(ratios, range(len(names)), s=22, marker=mark, label=mode, color=COLOURS[colour], linewidths=0)
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_yticks(range(len(names)), list(names.values()))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xscale("log")
    ax.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    ax.set_xticks([], minor=True)
    ax.grid(axis="y", color=INK, alpha=0.12, linewidth=0.6)
    ax.set_xlabel("PyTorch's time by miopyx's: above 1 miopyx is faster")
    plain(ax)
    handles, labels = ax.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    return made, "Dots: PyTorch's time by miopyx's on an H200 for seventeen operations bound by memory, in four modes."


def cpu() -> tuple[Figure, str]:
    """PyTorch's (oneDNN's) time by ours on two cores of an EPYC."""
    lists = {("resnet50", "nchw"): "ResNet-50", ("resnet50", "nhwc"): "ResNet-50, NHWC", ("vgg16", "nchw"): "VGG16",
             ("googlenet", "nchw"): "GoogLeNet", ("inception3", "nchw"): "Inception v3",
             ("densenet121", "nchw"): "DenseNet-121", ("extra", "nchw"): "groups, dilated, 3-D"}
    rows = [r for r in load("conv-runs-epyc") if r["device"].startswith("pocl-")]
    series = {NAMES[d]: [statistics.median(r["ratio"] for r in rows
                                           if (r["list"], r["layout"]) == key and r["direction"] == d) for key in lists]
              for d in DIRECTIONS}
    made, ax = figure(4.8)
    bars(ax, list(lists.values()), series, lambda v: f"{v:.2f}")
    ax.axvline(1, color=INK, linewidth=0.8)
    ax.set_xlabel("PyTorch's (oneDNN's) time by miopyx's: above 1 miopyx is faster")
    legend(made, ax)
    return made, "Bars: PyTorch's time by miopyx's on two cores for the convolutions of seven lists, three directions."


def overhead() -> tuple[Figure, str]:
    """What a repeated call takes, beside the C calls that it makes."""
    rows = load("overhead-xeon-2500mhz")["rows"]
    here = next(r for r in rows if r["call"] == "plan(x, w, y)" and "basic" in r["section"] and "empty" in r["section"])
    immediate = next(r for r in rows if r["call"] == "ConvolutionForwardImmediate" and r["section"] == here["section"])
    peers = {p["name"]: p["time"] for p in (*immediate["peers"], *here["peers"])}
    values = {"the same calls in C": peers["raw C calls"], "a plan": here["ours"], "immediate mode": immediate["ours"],
              "pyopencl, typed arguments": peers["pyopencl, typed set_args and enqueue"],
              "PyTorch, F.conv2d 1x1x1x1": peers["torch F.conv2d 1x1x1x1"]}
    made, ax = figure(2.3)
    drawn = ax.barh(range(len(values)), [v * 1e6 for v in values.values()], 0.7,
                    color=[COLOURS["forward" if "plan" in n or "mode" in n else "peer"] for n in values])
    ax.bar_label(drawn, [f"{v * 1e6:.1f}" for v in values.values()], padding=2, fontsize=7)
    ax.set_yticks(range(len(values)), list(values))
    ax.tick_params(axis="y", length=0)
    ax.invert_yaxis()
    ax.set_xlabel("microseconds a call; the kernel does nothing")
    plain(ax)
    return made, "Bars: microseconds of a repeated call on a CPU device, in C, through miopyx, pyopencl and PyTorch."


CHARTS: dict[str, Callable[[], tuple[Figure, str]]] = {
    "h200-modes": ratio_by_mode,
    "h200-layers-float16-nhwc": lambda: layers_by_mode("float16-nhwc"),
    "h200-layers-float32-nchw": lambda: layers_by_mode("float32-nchw"),
    "h200-roofline-float16-nhwc": lambda: roofline("float16-nhwc"),
    "h200-roofline-float32-nchw": lambda: roofline("float32-nchw"),
    "h200-memory": memory,
    "cpu-lists": cpu,
    "overhead": overhead,
}


def svg(name: str) -> str:
    """Return a chart as an <svg> element that may stand in a page."""
    style = {"font.size": 8, "font.family": "sans-serif", "svg.fonttype": "none", "svg.hashsalt": name,
             "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK,
             "ytick.color": INK, "axes.facecolor": "none", "figure.facecolor": "none", "legend.fontsize": 8}
    with mpl.rc_context(style):
        made, title = CHARTS[name]()
        out = io.StringIO()
        made.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg"):].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # The page's font, and no rule that reaches beyond this element.
    text = re.sub(r"font-family: [^;]*; ", "", text)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL)
    # Ids of several charts on one page differ by their name.
    text = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    head = text.index(">")
    return f'{text[:head]} role="img" aria-label="{title}" class="chart">{text[head + 1:]}'


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in CHARTS:
        Path(folder, f"{name}.svg").write_text(svg(name))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])
