"""The driver: flags, data, verification, printed lines, lists, exit codes."""

import json
import os
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from miopyx.tools.driver import data, families, listing, main, report, run, verify
from miopyx.tools.driver.options import ADDITIONS, FLAGS, OPERATIONS, Command, UsageError, parse_flags, parse_line
from miopyx.tools.driver.problem import DIRECTIONS, make

FORWARD, DATA, WEIGHTS = DIRECTIONS
SMALL = ["-n", "2", "-c", "6", "-k", "20", "-H", "9", "-W", "8", "-p", "1", "-q", "1"]


# ------------------------------------------------------------------------------------------------------------ flags


def a_value(flag):
    """Return a value that the flag takes, not its default where there is another."""
    if flag.fixed:
        return flag.default
    if flag.allowed is not None:
        return next(value for value in flag.allowed if value != flag.default)
    return 7 if isinstance(flag.default, int) else "text"


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_flag_long_short_and_glued(flag):
    value = a_value(flag)
    forms = [[f"--{flag.name}", str(value)], [f"--{flag.name}={value}"]]
    if flag.short:
        forms.append([f"-{flag.short}", str(value)])
    if flag.short and str(value):
        forms.append([f"-{flag.short}{value}"])
    for form in forms:
        assert parse_flags(form) == {flag.name: value}
    assert Command()[flag.name] == flag.default


def test_flag_names_are_unique():
    assert len({flag.name for flag in FLAGS + ADDITIONS}) == len(FLAGS + ADDITIONS)
    short = [flag.short for flag in FLAGS if flag.short]
    assert {flag.name for flag in FLAGS if not flag.short} == {"math_type", "deterministic"}  # not MIOpenDriver's
    assert len(set(short)) == len(short)
    assert all(len(letter) == 1 for letter in short)
    assert "h" not in short  # -h is help


def test_defaults_are_miopendrivers():
    command = Command()
    assert [command[name] for name in ("batchsize", "in_channels", "in_d", "in_h", "in_w", "out_channels")] == [
        100, 3, 32, 32, 32, 32]
    assert [command[name] for name in ("fil_d", "fil_h", "fil_w", "forw", "verify", "iter", "solution")] == [
        3, 3, 3, 0, 1, 10, "-1"]


@pytest.mark.parametrize("words", [
    "-n", "-n x", "-n 1.5", "--nope 1", "-K 1", "-F 8", "-F -1", "-i 0", "-g 0", "-_ 4", "-m group", "-z full", "-Z 1",
    "-L 4", "-r 1", "-G 1", "-U 1", "-C /tmp", "-V 2", "-I NCHWc4", "stray", "--file x", "-", "--",
])
def test_flags_that_do_not_parse(words):
    with pytest.raises(UsageError):
        parse_flags(words.split())


@pytest.mark.parametrize("line", [
    "conv -n 4 -# 2 -F 1", "./bin/MIOpenDriver conv --batchsize 4 --conv_stride_d 2 --forw 1",
    "/opt/rocm/bin/MIOpenDriver conv -n4 -#2 -F1\r", "-n 4 -# 2 -F 1", "miopyx-driver conv -n 4 -# 2 -F 1 # a remark",
    "  conv --batchsize=4 -# 2 --forw=1  ", "'conv' -n 4\t-\\# 2 \"-F\" 1",
])
def test_lines_of_lists(line):
    assert parse_line(line) == Command("conv", {"batchsize": 4, "conv_stride_d": 2, "forw": 1})


@pytest.mark.parametrize("line", ["", "  ", "# conv -n 4", "\r"])
def test_lines_without_a_command(line):
    assert parse_line(line) is None


@pytest.mark.parametrize("line", ["sums -n 4", "conv 4", "conv -n '4", "conv --device host", "MIOpenDriver convfp4"])
def test_lines_that_do_not_parse(line):
    with pytest.raises(UsageError):
        parse_line(line)


def test_a_command_prints_as_it_reads():
    command = parse_line("convfp16 -n 4 -$ 1 -m trans -S ConvDirectNaiveConvFwd")
    assert parse_line(str(command)) == command


def test_flags_beside_a_list_win():
    command = parse_line("conv -n 4 -F 1").overridden("conv", {"batchsize": 8})
    assert (command.operation, command["batchsize"], command["forw"]) == ("conv", 8, 1)
    assert command.overridden("convfp16", {}).operation == "convfp16"


# ---------------------------------------------------------------------------------------------------------- problems


def sizes(line):
    problem = make(parse_line(line))
    return problem.descriptors["w"].lens, problem.descriptors["y"].lens, problem.geometry.pad


@pytest.mark.parametrize(("line", "expected"), [
    ("conv -n 1 -c 4 -k 8 -g 2", ((8, 2, 3, 3), (1, 8, 30, 30), (0, 0))),
    ("conv -n 1 -c 4 -k 8 -g 2 -m trans -u 2 -v 2 -Y 1", ((4, 4, 3, 3), (1, 8, 66, 65), (0, 0))),
    ("conv -n 1 -z same -p 5", ((32, 3, 3, 3), (1, 32, 32, 32), (1, 1))),
    ("conv -n 1 -z same -H 33 -W 33 -u 2 -v 2", ((32, 3, 3, 3), (1, 32, 17, 17), (1, 1))),
    ("conv -n 1 -z valid -p 5 -u 2", ((32, 3, 3, 3), (1, 32, 15, 30), (0, 0))),
    ("conv -n 1 -_ 3 -! 8 -@ 2 -$ 1", ((32, 3, 2, 3, 3), (1, 32, 9, 30, 30), (1, 0, 0))),
])
def test_sizes(line, expected):
    assert sizes(line) == expected


@pytest.mark.parametrize("line", [
    "conv -z same -y 2", "conv -z same -l 2", "conv -z valid -m trans", "conv -c 5 -g 2", "convint8 -F 2",
    "conv -w 1", "convint8 -b 1",
])
def test_flags_that_contradict_each_other(line):
    with pytest.raises(UsageError):
        make(parse_line(line))


def test_directions():
    assert [d.short for d in make(parse_line("conv")).directions] == ["fwd", "bwd", "wrw"]
    assert [d.short for d in make(parse_line("conv -F 5")).directions] == ["fwd", "wrw"]
    assert [d.short for d in make(parse_line("convint8")).directions] == ["fwd"]


def test_views_follow_the_layout():
    problem = make(parse_line("conv -n 2 -c 3 -H 4 -W 5 -I NHWC"))
    flat = np.arange(2 * 3 * 4 * 5, dtype=np.float32)
    assert (problem.view("x", flat) == flat.reshape(2, 4, 5, 3).transpose(0, 3, 1, 2)).all()


# -------------------------------------------------------------------------------------------------------------- data


def sequential(seed, count):
    states = []
    for _ in range(count):
        seed = (1103515245 * seed + 12345) % 2**31
        states.append(seed)
    return states


@pytest.mark.parametrize("seed", [12345678, 0, 1, 2**31 - 1])
def test_generator_is_the_sequential_one(seed):
    count = 2 * 65536 + 77
    expected = sequential(seed, count)
    whole, parts, skipping = data.Generator(seed), data.Generator(seed), data.Generator(seed)
    assert whole.draw(count).tolist() == expected
    assert np.concatenate([parts.draw(n) for n in (1, 65535, 2, 65536, 75)]).tolist() == expected
    skipping.skip(100001)
    assert skipping.draw(3).tolist() == expected[100001:100004]
    whole.skip(0)
    assert whole.state == expected[-1]


@pytest.mark.parametrize(("dtype", "role", "low", "high"), [
    ("float32", "x", 0, 0.01), ("float64", "dy", 0, 0.01), ("float32", "w", -0.005, 0.005),
    ("float16", "w", -0.01 / 3, 0.005), ("bfloat16", "w", -0.005, 0.005), ("int8", "x", 0, 126), ("int8", "w", -127, 0),
])
def test_ranges(dtype, role, low, high):
    values = data.fill(data.Generator(12345678), role, dtype, 50000).astype(np.float64)
    slack = 1e-2 * (high - low)
    assert low - slack / 5 <= values.min() <= low + slack
    assert high - slack <= values.max() <= high + slack / 5
    if dtype == "int8":
        assert set(np.unique(values)) == ({-127.0, 0.0} if role == "w" else set(map(float, range(127))))


def test_values_do_not_depend_on_the_directions_asked_for():
    found = []
    for mask in (0, 4):
        made = run.Run(run.Session("host", 12345678), make(Command("conv", {**parse_flags(SMALL), "forw": mask})),
                       print, False, 1, False)
        made._make_inputs()
        found.append(made.host)
    assert set(found[0]) == {"x", "dy", "w"}
    assert set(found[1]) == {"x", "dy"}
    for name in found[1]:
        assert (found[0][name] == found[1][name]).all()


# ------------------------------------------------------------------------------------------------------ verification


def by_definition(g, a, w, b):
    """Return (a, w, b), each computed from the two others, one product at a time."""
    results = tuple(np.zeros(t.shape) for t in (a, w, b))
    for n, k, c, *rest in product(range(g.n), range(g.k), range(g.c // g.groups),
                                  *map(range, g.output), *map(range, g.filter)):
        o, tap = rest[:len(g.output)], rest[len(g.output):]
        i = [at * s - p + t * d for at, s, p, t, d in zip(o, g.stride, g.pad, tap, g.dilation, strict=True)]
        if all(0 <= at < size for at, size in zip(i, g.input, strict=True)):
            in_a = (n, k // (g.k // g.groups) * (g.c // g.groups) + c, *i)
            in_w, in_b = (k, c, *tap), (n, k, *o)
            results[0][in_a] += float(b[in_b]) * float(w[in_w])
            results[1][in_w] += float(b[in_b]) * float(a[in_a])
            results[2][in_b] += float(a[in_a]) * float(w[in_w])
    return results


CASES = [
    "conv -n 2 -c 4 -k 6 -g 2 -H 5 -W 4 -p 1 -q 2 -u 2 -l 2 -j 1",
    "conv -n 1 -c 3 -k 18 -H 4 -W 3 -y 2 -x 3",
    "conv -n 1 -c 20 -k 2 -H 2 -W 2 -y 5 -x 5 -u 2 -v 2",  # the filter is larger than the input: one output
    "conv -_ 3 -n 1 -c 2 -k 3 -! 3 -H 4 -W 3 -@ 2 -y 2 -x 2 -$ 1 -# 2 -O NDHWC",
    "conv -n 1 -c 4 -k 6 -g 2 -H 3 -W 4 -u 2 -v 3 -p 1 -X 1 -m trans",
    "convfp16 -n 1 -c 5 -k 4 -H 5 -W 4 -I NHWC",
    "convbfp16 -n 1 -c 5 -k 4 -H 5 -W 4 -f NHWC",
    "convfp64 -n 1 -c 5 -k 4 -H 5 -W 4",
    "conv -n 2 -c 4 -k 6 -W 19 -x 4 -q 1 -v 2 -j 2 -g 2 --spatial_dim 1 -I NHWC -O CHWN",
    "conv -n 2 -c 4 -k 6 -W 9 -x 3 -v 2 -X 1 --spatial_dim 1 -m trans",
    "convint8 -n 1 -c 5 -k 4 -H 5 -W 4",
]


def the_three(problem, direction):
    """Return inputs drawn anew, with the result of a direction by definition, as a, w and b."""
    rng = np.random.default_rng()
    views = {}
    for name in (*direction.inputs, direction.output):
        view = problem.view(name, np.empty(problem.elements(name), problem.descriptors[name].dtype))
        view[...] = rng.integers(-3, 4, view.shape) if problem.dtype == "int8" else rng.uniform(-1, 1, view.shape)
        views[problem.role(name)] = view
    exact = by_definition(problem.geometry, **views)["awb".index(problem.computes(direction))]
    views[problem.computes(direction)][...] = exact
    return views


def check(problem, direction, views):
    return verify.check_independently(problem.geometry, problem.computes(direction), **views,
                                      limit=verify.tolerance(problem.dtype, direction), seed=1)


@pytest.mark.parametrize("case", CASES)
def test_independent_check(case, monkeypatch):
    problem = make(parse_line(case))
    for direction in problem.directions:
        views = the_three(problem, direction)
        assert check(problem, direction, views).ok
        out = views[problem.computes(direction)]
        largest = np.abs(out.astype(np.float64)).max()
        at = tuple(np.random.default_rng().integers(out.shape))
        right = out[at]
        for wrong in (np.nan, np.inf, float(right) + largest / 2) if problem.dtype != "int8" else (int(right) + 1,):
            out[at] = wrong
            assert not check(problem, direction, views).ok
            # The projection alone must see it too, wherever it is.
            monkeypatch.setattr(verify, "compare", lambda *_: verify.Check(True, 0.0, 1.0, "CPU"))
            assert not check(problem, direction, views).ok
            monkeypatch.undo()
        out[at] = right
        assert check(problem, direction, views).ok


def test_samples_are_checked_against_the_definition():
    problem = make(parse_line("conv -n 2 -c 16 -k 33 -H 12 -W 12"))  # more than 4096 outputs
    views = {"a": np.ones((2, 16, 12, 12), np.float32), "w": np.ones((33, 16, 3, 3), np.float32),
             "b": np.full((2, 33, 10, 10), 144, np.float32)}
    assert check(problem, FORWARD, views).ok
    views["b"] *= np.float32(1 + 1e-5)
    verdict = check(problem, FORWARD, views)
    assert not verdict.ok
    assert verdict.error == pytest.approx(1e-5, rel=0.1)


def test_rms_error():
    a, b = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 3, 5])
    found = verify.compare(a, b, 0.2, "host")
    assert found.ok
    assert found.error == pytest.approx(1 / (2 * 5))
    assert verify.compare(a, b, 0.09, "host").line("Forward Convolution") == (
        "Forward Convolution FAILED: 0.1 > 0.09")
    assert found.line("Forward Convolution") == "Forward Convolution Verifies OK on host reference (0.1 < 0.2)"
    assert verify.compare(np.zeros(3), np.zeros(3), 1e-6, "host").ok


def test_one_wrong_element_among_many_fails():
    reference = np.random.default_rng().uniform(0.5, 1, 1 << 20).astype(np.float16)
    result = reference.copy()
    result[77777] = 0
    found = verify.compare(result, reference, verify.tolerance("float16", FORWARD), "host")
    assert not found.ok
    assert "one element" in found.note
    for value in (np.nan, np.inf):
        result[77777] = value
        assert not verify.compare(result, reference, 1.0, "host").ok
    integers = np.arange(1 << 20, dtype=np.int32)
    other = integers.copy()
    other[5] += 1
    assert not verify.compare(other, integers, 1.5e-6, "host").ok


@pytest.mark.parametrize(("arguments", "limit"), [
    (("float32", FORWARD), 1.5e-6), (("float32", DATA, True), 1.5e-5), (("float32", WEIGHTS), 3e-6),
    (("float32", WEIGHTS, False, True), 6e-6), (("float32", WEIGHTS, True), 3e-5), (("float16", FORWARD), 8.2e-3),
    (("float16", WEIGHTS, True), 1.64e-2), (("bfloat16", DATA), 6.56e-2), (("int8", FORWARD), 1.5e-6),
    (("float32",), 1.5e-6), (("float32", FORWARD, False, False, True), 2**-10),
    (("float16", FORWARD, False, False, True), 8.2e-3), (("float8_e4m3fn", FORWARD), 2**-6),
])
def test_tolerances(arguments, limit):
    assert verify.tolerance(*arguments) == pytest.approx(limit)


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("convint8")])
def test_magnitudes_bound_the_sums(case):
    """Of each element's products, and they are not many times more."""
    problem = make(parse_line(case))
    for direction in problem.directions:
        views, computed = the_three(problem, direction), problem.computes(direction)
        exact = by_definition(problem.geometry, **{role: np.abs(view) for role, view in views.items()})
        sums = verify.magnitudes(problem.geometry, computed, **views)
        largest = exact["awb".index(computed)]
        assert (largest <= np.broadcast_to(sums, largest.shape) * (1 + 1e-12)).all()
        assert sums.max() <= 64 * largest.max()


def test_an_element_beyond_its_bound_fails():
    """Where neither the RMS error nor the largest of all shows it: beside channels that are much larger."""
    reference = np.ones((2, 3, 64, 64), np.float32)
    reference[:, 2] = 1e4
    result, sums = reference.copy(), np.array([4, 4, 4e4]).reshape(1, 3, 1, 1)
    fine = verify.compare(result.reshape(-1), reference.reshape(-1), 1.5e-6, "host")
    assert verify.compare_elements(fine, result, reference, sums, 1e-5) == fine
    result[1, 1, 5, 6] += 3e-5
    assert verify.compare_elements(fine, result, reference, sums, 1e-5).ok
    for wrong in (1 + 5e-5, np.nan):
        result[1, 1, 5, 6] = wrong
        found = verify.compare_elements(fine, result, reference, sums, 1e-5)
        assert not found.ok
        assert "solver's bound" in found.note
    failed = verify.Check(False, 1.0, 0.5, "host")
    assert verify.compare_elements(failed, result, reference, sums, 1.0) is failed


def test_long_sums_of_one_sign(device_name, capsys):
    """A million terms, which a float32 accumulator alone gets wrong by more than any limit."""
    command = "conv -n 2 -c 1 -k 1 -H 512 -W 1024 -y 1 -x 1 -F 4 -i 1"
    assert main([*command.split(), "--device", device_name]) == 0
    assert "Verifies OK" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------------- printed lines


def test_stats_of_the_reference():
    header, row = report.stats(make(Command()), FORWARD, 0.123456)
    assert header == "stats: name, n, c, ho, wo, x, y, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs"
    assert row == ("stats: fwd-conv3x3u1, 100, 3, 30, 30, 3, 3, 32,  155520000, 1232256, 11520000, 1260, 103, "
                   "0.123456")


@pytest.mark.parametrize(("line", "direction", "expected"), [
    ("conv -n 2 -c 4 -k 8 -u 2", DATA,
     "bwdd-conv3x3u2, 2, 4, 15, 30, 3, 3, 8,  518400, 29952, 32768, 1, 0, 1.000000"),
    ("conv -n 2 -c 4 -k 8 -u 2", WEIGHTS, "bwdw-conv3x3u2, 2, 4, 15, 30, 3, 3, 8,  518400, 0, 0, 1, 0, 1.000000"),
    ("conv -_ 3 -n 1 -c 2 -k 4 -! 5 -@ 2", FORWARD,
     "fwd-conv2x3x3u1, 1, 2, 4, 30, 30, 2, 3, 3, 4,  1036800, 41536, 57600, 1, 0, 1.000000"),
    ("convfp16 -n 1 -c 4 -k 4 -g 2", FORWARD,
     "fwd-conv3x3u1, 1, 4, 30, 30, 3, 3, 4,  129600, 8336, 7200, 0, 0, 1.000000"),
])
def test_stats(line, direction, expected):
    header, row = report.stats(make(parse_line(line)), direction, 1.0)
    assert row == "stats: " + expected
    assert len(row.split(",")) == len(header.split(","))


def test_layer_names():
    assert report.layer(make(parse_line("conv -c 64 -H 56 -W 56 -k 256 -y 1 -x 1"))) == "64x56x56 -> 256 1x1 s1"
    assert report.layer(make(parse_line("conv -c 8 -k 8 -g 4 -u 2 -l 2 -m trans"))) == (
        "8x32x32 -> 8 3x3 s2x1 d2x1 g4 trans")


def test_lines_of_a_run(device_name, capsys):
    words = ["conv", *SMALL, "-t", "1", "-w", "1", "-i", "3", "-b", "1", "--device", device_name]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    reference = "CPU" if device_name == "host" else "host"
    number = r"[-+.0-9e]+"
    expected = [re.escape(" ".join(["miopyx-driver", *words])), "PRNG seed: 12345678"]
    for title, verdict in (("Forward", "Forward Convolution"), ("Backward Data", "Backward Convolution Data"),
                           ("Backward Weights", "Backward Convolution Weights")):
        expected += [
            rf"MIOpen {title} Conv\. Algorithm: \d+, Solution: [1-9]\d*/\w+",
            rf"Wall-clock Time {title} Conv\. Elapsed: {number} ms, "
            rf"Auxiliary API calls: {number} ms \(GWSS: {number}\)",
            rf"GPU Kernel Time {title} Conv\. Elapsed: {number} ms \(average\)",
            r"stats: name, .*", r"stats: \w+-conv3x3u1, .*",
        ]
        if title == "Forward":
            expected += [rf"{verdict} Verifies OK on {reference} reference \({number} < {number}\)",
                         rf"{verdict} Bias Verifies OK on CPU reference \({number}\)"]
    expected += [rf"Backward Convolution {what} Verifies OK on {reference} reference \({number} < {number}\)"
                 for what in ("Data", "Weights")]
    expected.append(rf"Backward Convolution Bias Verifies OK on CPU reference \({number}\)")
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line


@pytest.mark.some(1, host=15)
@pytest.mark.parametrize("more", [[], ["-m", "trans", "-u", "2", "-v", "2", "-Y", "1"],
                                  ["-g", "2", "-O", "NHWC", "-I", "NHWC"]], ids=["plain", "transposed", "groups"])
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_types_and_modes(operation, more, device_name):
    if operation == "convint8" and "-m" in more:
        more = []
    assert main([operation, *SMALL, *more, "-i", "1", "--device", device_name]) == 0


def test_three_dimensions(device_name):
    assert main(["conv", *SMALL, "-_", "3", "-!", "5", "-@", "2", "-$", "1", "-i", "1", "--device", device_name]) == 0


@pytest.mark.parametrize("more", [
    "", "-m trans", "-I NHWC -f NHWC -O NHWC --deterministic 1", "--math_type 0",
], ids=["plain", "transposed", "channels last", "TF32"])
def test_one_dimension(device_name, more, capsys):
    line = f"conv -n 2 -c 4 -W 9 -k 5 -x 3 -q 1 -v 2 --spatial_dim 1 -i 1 -t 1 {more}"
    assert main([*line.split(), "--device", device_name]) == 0
    said = capsys.readouterr().out
    assert "stats: name, n, c, wo, x, k, flopCnt" in said
    assert "stats: fwd-conv3u2, 2, 4, " in said


def test_one_dimension_has_no_layout_of_three():
    for flag in ("-I", "-f", "-O"):
        with pytest.raises(UsageError, match="layout NDHWC has three axes"):
            make(parse_line(f"conv --spatial_dim 1 {flag} NDHWC"))


def test_immediate_mode(device_name, capsys):
    assert main(["conv", *SMALL, "-F", "1", "-S", "0", "-t", "1", "--device", device_name]) == 0
    lines = capsys.readouterr().out.splitlines()
    count = int(re.fullmatch(r"Forward Conv solutions available: (\d+)", lines[2])[1])
    found = [re.fullmatch(r"- id: (\d+) algo: (\d), time: \S+ ms, ws: \d+, name: (\w+)", line)
             for line in lines[3:3 + count]]
    number, algorithm, name = found[-1].groups()
    for chosen in (number, name):
        assert main(["conv", *SMALL, "-F", "1", "-S", chosen, "-t", "1", "--device", device_name]) == 0
        assert (f"MIOpen Forward Conv. Algorithm: {algorithm}, Solution: {number}/{name}"
                in capsys.readouterr().out.splitlines())


def test_files_go_out_and_come_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["conv", *SMALL, "-F", "1", "-o", "1", "--device", "host"]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dump_fwd_out.bin", "dump_in.bin", "dump_wei.bin"]
    before = (tmp_path / "dump_fwd_out.bin").read_bytes()
    monkeypatch.setenv("MIOPEN_DEBUG_DRIVER_PRNG_SEED", "99")
    assert main(["conv", *SMALL, "-F", "1", "-o", "1", "-d", "dump_in.bin", "-e", "dump_wei.bin",
                 "--device", "host"]) == 0
    assert (tmp_path / "dump_fwd_out.bin").read_bytes() == before
    (tmp_path / "dump_in.bin").write_bytes(b"123")
    assert main(["conv", *SMALL, "-d", "dump_in.bin", "--device", "host"]) == 2


# ------------------------------------------------------------------------------------------------ wrong results, lists


@pytest.fixture
def one_wrong_element(monkeypatch):
    """Every result that comes back from the device has one wrong element."""
    download = run.Session.download

    def wrong(self, buffer, array):
        values = download(self, buffer, array)
        values[len(values) // 3] = 0.0 if abs(float(values[len(values) // 3])) > 1e-9 else 1.0
        return values

    monkeypatch.setattr(run.Session, "download", wrong)


LIST = """# three layers and a remark
./bin/MIOpenDriver conv --batchsize 9 --in_channels 6 --out_channels 20 --in_h 9 --in_w 8 --forw 1

conv -n 9 -c 6 -k 20 -H 9 -W 8 -F 2
convfp16 -n 9 -c 6 -k 20 -H 9 -W 8 -F 0  # all directions
"""


@pytest.fixture
def a_list(tmp_path):
    path = tmp_path / "a list.txt"
    path.write_bytes(LIST.replace("\n", "\r\n").encode())
    return path


def test_a_wrong_element_fails(device_name, one_wrong_element, capsys):
    assert main(["conv", *SMALL, "--device", device_name]) == 1
    out = capsys.readouterr().out
    for title in ("Forward Convolution", "Backward Convolution Data", "Backward Convolution Weights"):
        assert f"{title} FAILED: " in out
    assert "Verifies OK" not in out


def test_an_output_that_nothing_wrote_fails(device_name, monkeypatch, capsys):
    monkeypatch.setattr(run.Run, "_measure", lambda self, call, output: ([], 0.0))
    for operation in ("conv", "convint8"):
        assert main([operation, *SMALL, "-F", "1", "--device", device_name]) == 1
        assert "Forward Convolution FAILED: " in capsys.readouterr().out


def test_a_wrong_element_fails_in_a_list(a_list, one_wrong_element, capsys):
    assert main(["conv", "--file", str(a_list), "--device", "host", "-i", "1"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("0 of 3 lines verified on ")
    assert "fwd: 0 of 2 verified, 2 failed" in "\n".join(out)


def test_a_list(a_list, tmp_path, capsys):
    result = tmp_path / "out.json"
    assert main(["conv", "--file", str(a_list), "--batch", "2", "--device", "host", "--json", str(result)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""  # no progress bar where there is no terminal
    out = captured.out.splitlines()
    name = out[-1].removeprefix("3 of 3 lines verified on ")
    assert name != out[-1]
    assert sum("6x9x8 -> 20 3x3 s1" in line and line.endswith("ok") for line in out) == 5
    assert out[-2].startswith("wrw: 1 of 1 verified, 0 failed, geometric mean ")
    found = json.loads(result.read_text())
    assert found["device"]["name"] == name
    assert {"miopyx", "miopen", "numpy", "pyopencl", "python"} <= set(found["versions"])
    assert [(r["line"], r["direction"]) for r in found["results"]] == [
        (2, "fwd"), (4, "bwd"), (5, "fwd"), (5, "bwd"), (5, "wrw")]
    for entry in found["results"]:
        assert entry["problem"]["x"] == [2, 6, 9, 8]
        assert entry["verdict"] == "ok"
        assert entry["solution_id"] > 0
        assert entry["time_ms"] > 0
        assert entry["gflops"] == pytest.approx(entry["problem"]["flops"] / entry["time_ms"] / 1e6)
        assert 0 <= entry["error"] < entry["tolerance"]
    assert found["summary"]["lines_verified"] == found["summary"]["lines"] == 3
    assert list(tmp_path.iterdir()) in ([result, a_list], [a_list, result])  # no temporary file is left


def test_a_list_with_flags_beside_it(a_list, capsys):
    assert main(["convfp64", "--file", str(a_list), "--batch", "1", "-F", "4", "-i", "1", "--verbose", "--device",
                 "host"]) == 0
    out = capsys.readouterr().out
    assert out.count("Backward Convolution Weights Verifies OK on CPU reference") == 3
    assert "Forward" not in out
    assert "miopyx-driver convfp64 -n 1 -c 6 -k 20 -H 9 -W 8 -F 4 -i 1" in out


def test_an_error_does_not_stop_a_list(a_list, capsys):
    assert main(["conv", "--file", str(a_list), "--batch", "1", "-S", "999999", "--device", "host"]) == 2
    out = capsys.readouterr().out
    assert out.count("unknown solution id") == 5
    assert "0 of 3 lines verified" in out


def test_without_verification(a_list, capsys):
    assert main(["conv", "--file", str(a_list), "--batch", "1", "-V", "0", "--device", "host"]) == 0
    assert "0 of 3 lines verified" in capsys.readouterr().out


def test_the_shipped_list():
    lines = listing.read("resnet50", "conv", {"batchsize": 1})
    assert len(lines) == 23
    assert len({report.layer(line.work) for line in lines}) == 23
    assert all(line.work.geometry.n == 1 and len(line.work.directions) == 3 for line in lines)
    # Strides halve 224 five times on the way to 7, and a layer's input is what some layer puts out.
    outputs = {line.work.descriptors["y"].lens[1:] for line in lines} | {(3, 224, 224), (64, 56, 56)}
    assert {line.work.descriptors["x"].lens[1:] for line in lines} <= outputs


def test_rows_come_as_they_are_known_and_the_result_is_whole_at_any_time(a_list, tmp_path, monkeypatch, capsys):
    result, seen = tmp_path / "out.json", []
    ran, count = families.run, 0

    def stopped(*arguments):
        nonlocal count
        seen.append(sum(line.endswith("ok") for line in capsys.readouterr().out.splitlines()))
        if result.exists():
            found = json.loads(result.read_text())
            assert found["finished"] is False
            assert len(found["results"]) == sum(seen)
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return ran(*arguments)

    monkeypatch.setattr(families, "run", stopped)
    monkeypatch.setattr(listing, "_KEEP_SECONDS", 0.0)
    assert main(["conv", "--file", str(a_list), "--batch", "1", "--device", "host", "--json", str(result)]) == 130
    assert seen == [0, 1, 1]
    found = json.loads(result.read_text())
    assert (found["finished"], len(found["results"])) == (False, 2)


def test_refused_lines_are_skipped_and_counted(tmp_path, capsys):
    path, result = tmp_path / "some.txt", tmp_path / "out.json"
    small = "conv -n 1 -c 2 -k 3 -H 5 -W 5"
    path.write_text(f"{small} -F 1\nconv -c 5 -g 2\nsums -n 1\n{small} -F 4\n")
    assert main(["conv", "--file", str(path), "--device", "host", "--json", str(result)]) == 2
    captured = capsys.readouterr()
    assert [line.split(": ")[1] for line in captured.err.splitlines()] == [f"{path}, line 2", f"{path}, line 3"]
    assert captured.out.splitlines()[-1].startswith("2 of 2 lines verified on ")
    assert captured.out.splitlines()[-1].endswith(", 2 refused")
    found = json.loads(result.read_text())
    assert found["finished"]
    assert [r["line"] for r in found["refused"]] == [2, 3]
    assert [r["line"] for r in found["results"]] == [1, 4]


@pytest.mark.parametrize("program", ["driver", "driver list", "db", "doctor"])
def test_a_reader_that_leaves(program, a_list, tmp_path):
    database = tmp_path / "some.txt"
    database.write_text("".join(f"{n}-1-1-1x1-1-1-1-{n}-0x0-1x1-1x1-0-NCHW-FP32-F=\n" for n in range(1, 3)))
    words = {"driver": ["driver", "conv", *SMALL, "--device", "host"],
             "driver list": ["driver", "--file", str(a_list), "--batch", "1", "--device", "host"],
             "db": ["cli", "db", "verify", str(database)], "doctor": ["cli", "doctor", "--json"]}[program]
    code = f"import sys; from miopyx.tools.{words[0]} import main; sys.exit(main())"
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([sys.executable, "-P", "-c", code, *words[1:]], stdout=write, stderr=subprocess.PIPE,
                              text=True, check=False, timeout=120)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("program", ["driver", "db"])
@pytest.mark.parametrize("stream", ["full", "closed"])
def test_output_that_cannot_be_written(program, stream, tmp_path):
    database = tmp_path / "some.txt"
    database.write_text("1-1-1-1x1-1-1-1-1-0x0-1x1-1x1-0-NCHW-FP32-F=\n")
    words = {"driver": "driver conv --help", "db": f"cli db verify {database}"}[program].split()
    code = f"import sys; from miopyx.tools.{words[0]} import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, *words[1:]]
    with open("/dev/full", "w") as full:
        more = {"stdout": full} if stream == "full" else {"preexec_fn": lambda: os.close(1)}
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=120, **more)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("output cannot be written: ")


def test_a_comment_in_any_encoding(tmp_path, capsys):
    path = tmp_path / "list.txt"
    path.write_bytes("# mod\xe8le\n".encode("latin-1") + b"conv -n 1 -c 2 -k 3 -H 5 -W 5 -F 1\n")
    assert main(["conv", "--file", str(path), "--device", "host"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 of 1 lines verified")


def test_results_as_json_lines(a_list, tmp_path, monkeypatch):
    """A line for what is known before, then one a result, there as soon as it is printed."""
    result, ran, before = tmp_path / "out.jsonl", families.run, []

    def counted(*arguments):
        before.append(len(result.read_text().splitlines()) - 1)
        return ran(*arguments)

    monkeypatch.setattr(families, "run", counted)
    assert main(["conv", "--file", str(a_list), "--batch", "1", "--device", "host", "--json", str(result)]) == 0
    first, *rows = map(json.loads, result.read_text().splitlines())
    assert (first["program"], first["refused"], first["device"]["kind"]) == ("miopyx-driver", [], "host")
    assert [(r["line"], r["direction"], r["verdict"]) for r in rows] == [
        (2, "fwd", "ok"), (4, "bwd", "ok"), (5, "fwd", "ok"), (5, "bwd", "ok"), (5, "wrw", "ok")]
    assert before == [0, 1, 2]


def test_compilers_print_nothing(opencl_name, tmp_path):
    """PoCL says on stderr how many warnings there are; errors still come with the build log."""
    program = """
import sys
import miopyx as mi
from miopyx import errors
from miopyx.runtime import _opencl
handle = mi.Handle(sys.argv[1])
device = handle.device
source = b"kernel void k(global uint *x) { if (x[0] < 0) x[1] = 1; x[2] == 3; }"
made = lambda text: _opencl.program_from_source(device.context_address, device.device_address, text, b"")
made(source)
try:
    made(b"kernel void k(global int *x) { nonsense; }")
except errors.MIOpenError as e:
    print("nonsense" in str(e))
"""
    done = subprocess.run([sys.executable, "-P", "-c", program, opencl_name], capture_output=True, text=True,
                          check=False, timeout=120, env={**os.environ, "POCL_CACHE_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "generated" not in done.stderr.replace("error generated", "").replace("errors generated", "")


@pytest.mark.parametrize(("content", "where"), [
    (b"conv -n 1 -H 5 -W 5\nconv -n\n", "line 2"),
    (b"conv -n 1 -H 5 -W 5\n\nconv -c 5 -g 2\n", "line 3"), (b"conv -n 0\n", "line 1"),
    (b"", "no commands"), (b"\xff\xfe\x00", "not a text file"),
    (b"conv -n 1 -H 5 -W 5\xe9\n", "line 1"), (b"conv --file x", "line 1"),
])
def test_bad_lists(tmp_path, content, where, capsys):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert main(["conv", "--file", str(path), "--device", "host"]) == 2
    error = capsys.readouterr().err
    assert where in error
    assert str(path) in error


# ------------------------------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(("words", "code"), [
    ("", 2), ("sums", 2), ("-n 4", 2), ("conv -n", 2), ("conv -n 0", 2), ("conv -n -3", 2), ("conv -y 0", 2),
    ("conv -u 0", 2), ("conv -p -1", 2), ("conv -n 99999999999999999999", 2), ("conv -I NCDHW", 2),
    ("conv --batch 3", 2), ("conv --file /no/such/list", 2), ("conv --json /no/such/folder/x", 2),
    ("conv --device nonesuch", 3), ("conv -n 300000 -c 90000 --device host", 3), ("--help", 0), ("conv -h", 0),
    ("--version", 0), ("conv -n 1 -F 1 -H 5 -W 5 --device host", 0),
])
def test_exit_codes(words, code, capsys):
    assert main(words.split()) == code
    captured = capsys.readouterr()
    assert (captured.err == "") == (code == 0)
    assert "Traceback" not in captured.err
