"""Learned models: files of any kind, trees as LightGBM has them, when a model is unsure, who ranks, what is learned."""

import bz2
import json
import logging
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from problems import Problem

import miopyx
from miopyx._core import Device
from miopyx.choose import _costs, _model, _ranking, preparing, tuning
from miopyx.choose._survey import Survey
from miopyx.database import store
from miopyx.errors import InvalidValueError
from miopyx.problem import _key
from miopyx.solvers import registry
from miopyx.tools import cli, costs, train

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
MEASUREMENTS = RESULTS / "h200-measurements.jsonl.bz2"
KEY = b"64-56-56-3x3-64-56-56-8-1x1-1x1-1x1-0-NCHW-FP32-F"
LEAF = 0xFFFF


@pytest.fixture(autouse=True)
def _anew():
    """Each test reads models and tables anew, and so do those after it."""
    _costs.forget()
    _model.forget()
    yield
    _costs.forget()
    _model.forget()


def tree(*nodes):
    return b"".join(struct.pack("<fHH", *node) for node in nodes)


def lines_of(solvers, trees=(), margin=0.0, low=-1e9, high=1e9, launch=10.0):
    """The text of a model: a launch of each solver costs as much; trees are their solver's name, number and nodes."""
    count = len(_model.OF_PROBLEM_NAMES)
    return [f"margin {margin}", " ".join(["low", *[repr(low)] * count]), " ".join(["high", *[repr(high)] * count]),
            *(f"cost {solver.name} 0 0.1 9 {solver.cost_names[0]}={launch}" for solver in solvers),
            *(f"trees {name} 0.1 {number} {size}" for name, number, size in trees)]


CONV = [solver for solver in registry.CONV if not solver.last_resort]
STUMP = tree((0.5, 0, 2), (-1.0, LEAF, 0), (2.0, LEAF, 0))


@pytest.fixture
def give(user_folder):
    """Return a function that gives a handle's device a model."""

    def give_model(handle, data):
        user_folder.mkdir(exist_ok=True)
        path = user_folder / _model.file_names(handle.device.info)[0]
        path.write_bytes(data)
        _model.forget()
        return path

    return give_model


def offers(handle, key=KEY):
    return [offer for offer in Survey(handle, _key.parse_find_key(key)).applicable() if offer.solver.dynamic]


# Files


def resealed(data):
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


GOOD = _model.sealed("made up", lines_of(CONV, [("NvPairsFwd", 1, 3)]), STUMP)


def test_a_good_file(h200):
    model = _model.Model(GOOD, "here")
    assert (model.about, model.path, model.margin) == ("made up", "here", 0)
    found = dict(zip([offer.solver.name for offer in offers(h200)], model.predict(offers(h200)), strict=True))
    launches = {offer.solver.name: offer.terms()["launch"] for offer in offers(h200) if not offer.solver.last_resort}
    for name, time in found.items():
        if name in launches:
            more = math.exp(2.0) if name == "NvPairsFwd" else 1  # n = 8: right of the stump
            assert time == pytest.approx(10 * launches[name] * more)
        else:
            assert time == -1


@pytest.mark.parametrize("data", [
    b"", b"\n", b"something else", GOOD[:-1], GOOD[:100], GOOD + b"\0", GOOD.replace(b"made", b"MADE"),
    GOOD.replace(b"miopyx model 2", b"miopyx model 1"), b"\xff" * 400, b"miopyx model 2\n",
    *(resealed(GOOD.replace(a, b)) for a, b in [
        (b"\nend\n", b"\nfin\n"), (b"margin 0.0", b"margin x"), (b"margin 0.0", b"margin -1"), (b"margin 0.0\n", b""),
        (b"low -1", b"low nan -1"), (b"low ", b"low 1 "), (b"high ", b"hi "), (b"0.1 9 launch", b"0.1 launch"),
        (b"launch=10.0", b"launch=-1"), (b"0.1 1 3", b"0.1 1 4"), (b"0.1 1 3", b"0.1 2 3"), (b"0.1 1 3", b"0.1 1 2"),
        (b"margin 0.0", b"margin"), (b"margin 0.0", b"margin 0 0"), (b" 0 0.1 9 launch", b" 99999999999 0.1 9 launch"),
        (b" 0 0.1 9 launch", b" 24 0.1 9 launch"), (b" 0 0.1 9 launch=10.0", b""), (b"trees", b"trees trees"),
        (b"0.1 1 3", b"0.1 -1 3"), (b"0.1 1 3", b"0.1 99999999999 3"), (b"0.1 1 3", b"inf 1 3"), (b"made up", b"\xff"),
    ]),
    resealed(b"miopyx model 2\nend\n0000"), resealed(b"miopyx model 2\n\nend\n0000"),
    *(_model.sealed("made up", lines_of(CONV, [("NvPairsFwd", 1, 3)]), nodes) for nodes in [
        STUMP[:-8], STUMP[:-16], STUMP + STUMP, b"", tree((0.5, 0, 2)),
        tree((2.0, LEAF, 0), (0.5, 0, 2), (2.0, LEAF, 0)),
        tree((0.5, len(_model.NAMES), 2), (-1.0, LEAF, 0), (2.0, LEAF, 0)),
        tree((math.nan, 0, 2), (-1.0, LEAF, 0), (2.0, LEAF, 0)), tree((0.5, 0, 2), (math.inf, LEAF, 0), (2.0, LEAF, 0)),
        tree((0.5, 0, 2), (0.5, 0, 2), (2.0, LEAF, 0)), tree((2.0, LEAF, 0), (2.0, LEAF, 0), (2.0, LEAF, 0)),
    ]),
    *(resealed(GOOD[:-4] + more + b"0000") for more in (b"0", b"00000", b"\xff0000")),
])
def test_a_broken_file_is_passed_over(h200, give, system_folder, data, caplog):
    path = give(h200, data)
    with pytest.raises(InvalidValueError, match="no model"):
        _model.read(path)
    problem = _key.parse_find_key(KEY)
    with caplog.at_level(logging.WARNING, "miopyx"):
        for _ in range(3):
            survey = Survey(h200, problem)
            assert _ranking.rank(survey) == _ranking.by_index(survey) != []
            assert _model.of(h200.device) is None
    warnings = [record.getMessage() for record in caplog.records if path.name in record.getMessage()]
    assert len(warnings) == 1, "one warning"
    assert "is passed over" in warnings[0]


def test_altered_files_never_crash(h200, rng, amount):
    """Bytes at random behind a checksum that is right: refused, or a model whose every way ends."""
    data, refused = shipped().read_bytes(), 0
    some = [offers(h200, key.encode()) for key in keys()[::97]]
    for _ in range(amount(60, 2000)):
        altered = bytearray(data)
        for place in rng.integers(len(data), size=int(rng.integers(1, 9))):
            altered[place] = int(rng.integers(256))
        try:
            model = _model.Model(resealed(bytes(altered)))
        except ValueError:
            refused += 1
            continue
        for each in some[:6]:
            assert model.predict(each) is None or len(model.predict(each)) == len(each)
    assert refused > 0


def shipped():
    return ROOT / "miopyx" / "db" / "nv-sm90.model"


def keys():
    return list(dict.fromkeys(json.loads(row)["key"] for row in bz2.decompress(
        MEASUREMENTS.read_bytes()).decode().splitlines()))


def test_a_lost_folder_is_no_reason_to_stop(h200, system_folder):
    assert _model.of(h200.device) is None
    assert _ranking.by_model(Survey(h200, _key.parse_find_key(KEY))) == []


# Trees


@pytest.fixture(scope="module")
def measured():
    """A fifth of the measured problems."""
    rows = [json.loads(line) for line in bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()]
    some = {row["key"] for row in rows[::40]}
    rows = [row for row in rows if row["key"] in some]
    (device,) = costs.devices_of(rows)[0].values()
    return costs.measured(rows, device), device


def test_trees_are_those_that_were_grown(measured, h200):
    """Every time that the file's trees predict is LightGBM's, and none is unsure without need.

    Thresholds are rounded as far as those that were grown from allow: of unseen problems a few get another leaf.
    """
    problems, device = measured
    grown = train.grow(problems[::2])
    assert grown.trees
    model, sure, others, unseen = _model.Model(train.encode("made up", grown)), 0, [], 0
    for i, (problem, want) in enumerate(zip(problems, train._model_times(grown, problems), strict=True)):
        some = [solver.offer(device, problem.problem) for solver in registry.CONV if solver.name in problem.terms]
        got = model.predict(some)
        assert (want is None) == (got is None)
        if want is not None:
            sure += 1
            # Leaves have 11 binary digits, and corrections are sums of a few dozens.
            expected = [want[0][offer.solver.name] for offer in some]
            unseen += i % 2
            if got != pytest.approx(expected, rel=1e-3):
                assert i % 2
                others.append(np.abs(np.log(np.divide(got, expected))).max())
    assert sure > len(problems) / 3
    assert len(others) < unseen / 4
    assert sum(other > 0.03 for other in others) < unseen / 16
    assert max(others, default=0) < 0.3


@pytest.mark.parametrize(("threshold", "seen", "want"), [
    (3.4999, [1, 3, 4, 9], 3.5), (1e-35, [0, 7], 2.0**-116), (-5.2, [-6, -5], -5.25), (100.49, [100, 101], 100.5),
    (1 + 2.0**-24, [1, 1 + 2.0**-23], 1.0), (0.1 + 2.0**-29, [0.1, 0.1 + 2.0**-27], 13421773 * 2.0**-27)])
def test_thresholds_have_few_digits(threshold, seen, want):
    """As few as keep what was seen on its side, and not much nearer to it."""
    assert train._short(threshold, np.array(seen, np.float32).astype(float)) == want


def test_what_trees_see_is_what_is_there(h200):
    """Lengths of a problem by their names, in logarithms to base 2."""
    offer = offers(h200, b"96-28-14-5x3-64-28-14-8-2x1-1x1-1x1-0-NCHW-FP16-W_g2")[0]
    seen = dict(zip(_model.OF_PROBLEM_NAMES, _model.numbers(offer), strict=True))
    f = offer.problem.features
    assert len(seen) == len(_model.OF_PROBLEM_NAMES)
    assert seen["n"] == 3
    assert seen["c"] == pytest.approx(math.log2(f["c"] / 2))
    assert seen["k"] == pytest.approx(math.log2(f["k"] / 2))
    assert seen["taps"] == pytest.approx(math.log2(15))
    assert (seen["r"], seen["s"], seen["groups"], seen["bits"]) == (f["r"], f["s"], 1, 16)
    assert seen["x_pixels"] == pytest.approx(math.log2(f["h"] * f["w"]))
    assert seen["x_bytes"] == pytest.approx(math.log2(2 * f["n"] * f["c"] * f["h"] * f["w"]))
    assert seen["products"] == pytest.approx(math.log2(f["n"] * f["ho"] * f["wo"] * f["k"] * f["c"] / 2 * 15))
    assert seen["deepest"] == 1
    assert seen["compute_units"] == pytest.approx(math.log2(132))
    assert seen["x_padded_4"] == pytest.approx(math.prod(math.ceil(f[a] / 4) * 4 / f[a] for a in "hw"))
    assert seen["k_padded"] == pytest.approx(math.ceil(f["k"] / 2 / 16) * 16 / (f["k"] / 2))


# Unsure


def test_unsure_outside_of_what_was_fitted(h200):
    some = offers(h200)
    numbers = _model.numbers(some[0])
    text = lines_of(CONV)
    for i, value in enumerate(numbers):
        for word, beyond in (("low", np.nextafter(np.float32(value), np.float32(np.inf))),
                             ("high", np.nextafter(np.float32(value), np.float32(-np.inf)))):
            bounds = {"low": list(numbers), "high": list(numbers)}
            row = [margin_or_cost for margin_or_cost in text if not margin_or_cost.startswith(("low", "high"))]

            def model(bounds, row=row):
                words = [" ".join([name, *(repr(float(v)) for v in bounds[name])]) for name in bounds]
                return _model.Model(_model.sealed("made up", [*row, *words], b""))

            assert model(bounds).predict(some) is not None
            bounds[word][i] = float(beyond)
            assert model(bounds).predict(some) is None, _model.OF_PROBLEM_NAMES[i]


def test_speeds_of_devices(h200):
    """Those that were fitted to have the speeds of then, by name; others those that a probe measured."""
    names = _model.OF_PROBLEM_NAMES
    problem = _key.parse_find_key(KEY)
    bounds = {"low": [-1e9] * len(names), "high": [1e9] * len(names)}
    for name, near in (("clock", 9.0), ("bandwidth", 12.0)):
        bounds["low"][names.index(name)], bounds["high"][names.index(name)] = near - 1, near + 1
    lines = [line for line in lines_of(CONV) if not line.startswith(("low", "high"))]
    lines += [" ".join([word, *map(repr, values)]) for word, values in bounds.items()]
    plain = _model.Model(_model.sealed("", lines, b""))
    model = _model.Model(_model.sealed("", ["card 500 4000 A fast card", *lines], b""))
    assert model.cards == {"A fast card": (500, 4000)}
    for name, speeds, by_name, measured in (
            ("A fast card", (0, 0), True, False), ("A fast card", (1, 1), True, False),
            ("another", (600, 2500), True, True), ("another", (0, 0), False, False),
            ("another", (200, 4000), False, False), ("another", (500, 400), False, False)):
        device = Device(h200.device.info._replace(device_name=name), speeds=speeds)
        some = [solver.offer(device, problem) for solver in CONV if solver.dynamic]
        some = [offer for offer in some if not isinstance(offer, str)]
        assert (model.predict(some) is not None, plain.predict(some) is not None) == (by_name, measured), (name, speeds)
        assert _model.numbers(some[0])[-2:] == pytest.approx([math.log2(max(speed, 1)) for speed in speeds])


def test_unsure_of_a_solver_that_is_not_known(h200):
    some = offers(h200)
    for left_out in some:
        if not left_out.solver.last_resort:
            model = _model.Model(_model.sealed("", lines_of([s for s in CONV if s is not left_out.solver]), b""))
            assert model.predict(some) is None
            assert model.predict([offer for offer in some if offer is not left_out]) is not None


def test_unsure_where_two_are_close(h200):
    """By the margin times both errors, 0.1 each."""
    some = [offer for offer in offers(h200) if offer.terms()["launch"] == 1 and not offer.solver.last_resort][:2]
    assert len(some) == 2
    for apart, margin, sure in ((0.1, 0.5, True), (0.1, 0.9, False), (0.0, 0.0, True), (0.0, 0.1, False)):
        leaf = tree((apart, LEAF, 0))
        model = _model.Model(_model.sealed("", lines_of(CONV, [(some[0].solver.name, 1, 1)], margin), leaf))
        assert (model.predict(some) is not None) == sure


# Configurations


IMPLICIT = "CpuImplicitGemmFwd"
BLOCK = len(_model.OF_PROBLEM_NAMES)  # what trees see of the first parameter, in logarithms
SMALL = b"16-9-9-3x3-24-9-9-1-1x1-1x1-1x1-0-NCHW-FP32-F"


def starting(gain, block, least=0.05, **bounds):
    """A model by which blocks of at most so many of a sum are faster, by a logarithm."""
    leaves = tree((math.log2(block) + 0.01, BLOCK, 2), (-gain, LEAF, 0), (0.0, LEAF, 0))
    return _model.sealed("made up", [*lines_of(CONV, **bounds), f"starts {IMPLICIT} {least} 1 3"], leaves)


def implicit(handle):
    return registry.BY_NAME[IMPLICIT].offer(handle.device, _key.parse_find_key(SMALL))


def test_a_predicted_configuration(cpu, give, setting, rng):
    """It is taken where nobody tuned, and runs; a search's comes first, a gain that is too small does not count."""
    usual = implicit(cpu).default_config()
    (_, blocks), (_, groups) = implicit(cpu).parameters()
    assert usual[0] == 256 > blocks[0]
    give(cpu, starting(0.2, blocks[0]))
    assert preparing.first_config(implicit(cpu)) == preparing.starting_config(implicit(cpu)) == (blocks[0], groups[0])
    assert preparing.tuned_config(implicit(cpu)) is None
    with miopyx.Handle(cpu.device.name) as handle:
        problem = Problem(handle, rng, x=(1, 16, 9, 9), k=24)
        plan = handle.convolution_forward(problem.x, problem.w, problem.conv, problem.y,
                                          solution_id=registry.BY_NAME[IMPLICIT].id)
        assert plan.invoker.config == (blocks[0], groups[0])
        assert f"config    {blocks[0]},{groups[0]}\n" in str(plan.explain())
        problem.poison(0)
        plan(*problem.data)
        problem.close(0)
    database = store.of(cpu.device.info)
    database.store_tuned(implicit(cpu).problem, IMPLICIT, f"{blocks[-1]},{groups[-1]}")
    assert preparing.first_config(implicit(cpu)) == (blocks[-1], groups[-1])
    database.drop_tuned(implicit(cpu).problem)
    setting(MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK="0")
    assert preparing.first_config(implicit(cpu)) is None


@pytest.mark.parametrize(("model", "why"), [
    (starting(0.04, 128), "gains less than 0.05"), (starting(-0.2, 128), "slower"),
    (starting(0.2, 8192), "all gain the same"), (starting(0.2, 128, low=500.0), "outside of what was fitted"),
])
def test_no_predicted_configuration(cpu, give, model, why):
    give(cpu, model)
    assert preparing.first_config(implicit(cpu)) is None, why


def test_a_search_begins_with_the_predicted_one(cpu, give, monkeypatch):
    give(cpu, starting(0.2, implicit(cpu).parameters()[0][1][0]))
    asked = []
    monkeypatch.setattr(tuning, "search", lambda *some, **named: asked.append((*some, named)))
    tuning.tune(cpu, implicit(cpu), lambda invoker: 1.0, preparing.starting_config(implicit(cpu)))
    (_, configs, usual, _, start, _), = asked
    assert start in configs
    assert start != usual == implicit(cpu).default_config()


@pytest.mark.parametrize("forest", ["starts CpuImplicitGemmFwd x 1 3", "starts CpuImplicitGemmFwd 0.1 2 3",
                                    "starts CpuImplicitGemmFwd 0.1 1 4", "starts CpuImplicitGemmFwd"])
def test_broken_trees_of_configurations(forest):
    lines = [*lines_of(CONV), forest]
    with pytest.raises(ValueError):  # noqa: PT011 (whatever is wrong)
        _model.Model(_model.sealed("made up", lines, STUMP))


def searched(rng, count, gain):
    """Problems whose fastest configuration depends on one of their numbers, or times that are noise alone."""
    found = []
    for i in range(count):
        numbers = rng.standard_normal(len(_model.OF_PROBLEM_NAMES))
        best = (64, 1) if numbers[3] > 0 else (512, 1)
        times = {(block, 1): 10 * float(np.exp(0.05 * rng.standard_normal()) / (1 + gain * ((block, 1) == best)))
                 for block in (64, 128, 256, 512)}
        found.append(train.Searched((i,), numbers, costs.Configs((256, 1), times)))
    return found


def test_configurations_are_learned_where_that_gains():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(4)
    judged = train.judge_starts(searched(rng, 120, 0.3))
    assert judged.least is not None
    assert judged.best.mean() <= judged.chosen.mean() < 0.85
    noise = train.judge_starts(searched(rng, 120, 0.0))
    assert noise.least is None
    assert noise.best.mean() < 0.97, "what a search finds in noise"


def test_configurations_of_one_of_two_devices_are_no_guess(measured):
    problems, _ = measured
    some = [p._replace(configs={IMPLICIT: costs.Configs((256, 6), {(256, 6): 2.0, (64, 6): 1.0})}) for p in problems]
    assert len(train._searched(some)[IMPLICIT]) == len(some)
    assert train._searched([*some, problems[0]._replace(device="another")]) == {}


def test_times_of_configurations(cpu):
    """The default's count, or those of the only one that ran; of several all are kept."""
    key, offer = SMALL.decode(), implicit(cpu)
    usual = list(offer.default_config())
    row = {"key": key, "solver": IMPLICIT, "device": cpu.device.name, "stamp": "a/b/c", "config": usual, "time_ms": 3.0}
    other = {**row, "config": [512, 2], "default": usual, "time_ms": 2.0}
    third = {**row, "config": [128, 2], "time_ms": 1.0}
    foreign = [{**row, "config": values} for values in ([1, 2, 3], [10**30, 2], [])]
    for rows, time, several in (([row], 3e3, 0), ([other], 2e3, 0), ([row, other], 3e3, 2),
                                ([other, row, third], 3e3, 3),
                                ([*foreign, row, third], 3e3, 2), ([other, third], None, 0)):
        problem, = costs.measured(rows, cpu.device)
        assert problem.times.get(IMPLICIT) == time
        assert len(problem.configs[IMPLICIT].times if IMPLICIT in problem.configs else ()) == several
    assert costs.measured([third], cpu.device) == []
    assert costs.measured([{**other, "default": [1, 1]}], cpu.device) == [], "another default"


# Ranking


def test_a_model_ranks_first(h200, give, setting, system_folder):
    slow = offers(h200)[0].solver
    path = give(h200, _model.sealed("made up", lines_of(CONV, [(slow.name, 1, 1)]), tree((5.0, LEAF, 0))))
    problem = _key.parse_find_key(KEY)
    ranked = _ranking.rank(Survey(h200, problem))
    assert ranked == _ranking.by_model(Survey(h200, problem))
    usual = [c for c in ranked if not c.solver.last_resort]
    assert usual[-1].solver is slow
    assert all(c.source == "model" and c.predicted and not c.measured for c in usual)
    assert [c.time for c in usual] == sorted(c.time for c in usual)
    times = _model.of(h200.device).predict([c.offer for c in usual])
    assert [c.time * 1e3 for c in usual] == pytest.approx(times)
    assert all(_ranking.spread(c) == 0.1 for c in usual)
    assert ranked[len(usual):] == [c for c in ranked if c.solver.last_resort]
    assert _ranking.ranked_by(Survey(h200, problem)) == f"the model {path} (made up)"
    setting(MIOPEN_DEBUG_ENABLE_AI_IMMED_MODE_FALLBACK="0")
    assert _ranking.by_model(Survey(h200, problem)) == []
    assert _ranking.rank(Survey(h200, problem)) == _ranking.by_index(Survey(h200, problem))
    assert _ranking.ranked_by(Survey(h200, problem)) == (
        "the throughput index (models are switched off, no cost table for this device)")


def test_who_ranks_where_a_model_is_unsure(h200, give, system_folder):
    path = give(h200, _model.sealed("made up", lines_of(CONV, high=-1.0), b""))
    survey = Survey(h200, _key.parse_find_key(KEY))
    doubt = _model.of(h200.device).doubt(offers(h200))
    assert doubt.startswith("n is 8, 0 to 0.5 were fitted; c is 64, ")
    assert doubt.count(";") == 2
    assert doubt.endswith(" more")
    assert _ranking.doubts(survey) == [(path, doubt)]
    assert _ranking.rank(survey) == _ranking.by_index(survey)
    assert _ranking.ranked_by(survey) == "the throughput index (no cost table for this device)"
    _costs.write(system_folder / _costs.file_names(h200.device.info)[-1], "a table",
                 [_costs.Line(s.name, 0, 0.1, 9, {s.cost_names[0]: 1.0}) for s in CONV])
    _costs.forget()
    assert _ranking.rank(survey) == _ranking.by_costs(survey) != []
    assert _ranking.ranked_by(survey).endswith(" (a table)")
    assert _ranking.doubts(survey) == [(path, doubt)]


def test_the_next_model_is_asked_where_one_is_unsure(h200, give, system_folder):
    """One's own of a few layers takes nothing from the one that ships, nor does a file of another device."""
    shipped_path = system_folder / _model.file_names(h200.device.info)[0]
    slow = offers(h200)[0].solver
    shipped_path.write_bytes(_model.sealed("ships", lines_of(CONV, [(slow.name, 1, 1)]), tree((5.0, LEAF, 0))))
    problem = _key.parse_find_key(KEY)
    for own, doubt in ((lines_of(CONV, high=-1.0), "n is 8, 0 to 0.5 were fitted; "),
                       (lines_of(CONV[-1:]), "no times of ")):
        path = give(h200, _model.sealed("mine", own, b""))
        survey = Survey(h200, problem)
        assert [model.about for model in _model.all_of(h200.device)] == ["mine", "ships"]
        ranked = [c for c in _ranking.rank(survey) if not c.solver.last_resort]
        assert ranked[-1].solver is slow
        assert all(c.source == "model" and _ranking.spread(c) == 0.1 for c in ranked)
        assert _ranking.ranked_by(survey) == f"the model {shipped_path} (ships)"
        (asked, why), = _ranking.doubts(survey)
        assert asked == path
        assert why.startswith(doubt)
    give(h200, _model.sealed("mine", lines_of(CONV), b""))
    assert _ranking.ranked_by(Survey(h200, problem)).endswith("(mine)")
    assert _ranking.doubts(Survey(h200, problem)) == []


def test_doubts(h200):
    some = [offer for offer in offers(h200) if offer.terms()["launch"] == 1 and not offer.solver.last_resort][:2]
    one = some[0].solver
    assert _model.Model(GOOD).doubt(some) is None
    assert _model.Model(_model.sealed("", lines_of([some[1].solver]), b"")).doubt(some) == f"no times of {one.name}"
    close = _model.Model(_model.sealed("", lines_of(CONV, [(one.name, 1, 1)], 0.9), tree((0.1, LEAF, 0))))
    assert close.doubt(some) == "its two best are as good as one another"


def test_immediate_mode_and_explanations(cpu, new_handle, rng, give, system_folder):
    from problems import Problem

    problem = Problem(new_handle, rng)
    path = give(new_handle, _model.sealed("made up", lines_of(CONV), b""))
    text = str(problem.plan(0).explain())
    assert f"chosen by the model {path} (made up)" in text
    assert "ms predicted" in text


def test_a_devices_files(cpu):
    assert _model.file_names(cpu.device.info) == [
        f"{cpu.device.name.rpartition('_')[0]}.model", f"{cpu.device.info.runtime}-cpu.model"]


# Learning


SHIPPED = {
    "nv-sm90": [f"{name}-measurements.jsonl.bz2" for name in (
        "h200", "h200-grouped", "h200-random", "h100-modern", "h100-taps-tf32", "h100-tf32-direct", "h100-float8",
        "h100-signals", "h200-tf32", "h200-winograd", "h200-depthwise")],
    "pocl-xeon-skylake-avx512-pthread": ["xeon-avx512-measurements.jsonl.bz2"],
    "pocl-epyc-skylake-avx512-pthread": [
        "epyc-avx512-measurements.jsonl.bz2", "epyc-avx512-searched-measurements.jsonl.bz2",
        "epyc-avx512-16-bits-measurements.jsonl.bz2"],
    "pocl-epyc-haswell-pthread": ["epyc-avx2-measurements.jsonl.bz2"],
}
SHIPPED["pocl-cpu"] = [file for name, files in SHIPPED.items() if name.startswith("pocl") for file in files
                       if "searched" not in file]
# No model has times of these yet: it is unsure of what they take, as of any solver that it does not know.
YOUNGER = {"CpuFewChannelsFwd"}


def test_all_shipped_models_are_tested():
    assert {path.stem for path in (ROOT / "miopyx" / "db").glob("*.model")} == set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_model(name):
    """Within its limits, of this build, and sure of what it was fitted to, on the device that was measured."""
    path = ROOT / "miopyx" / "db" / f"{name}.model"
    assert path.stat().st_size <= 300_000
    assert _model.read(path).margin in train.MARGINS
    data = path.read_bytes()
    text, end, nodes = data.partition(b"\nend\n")
    leaves = nodes[:len(nodes) // 5].count(0xFF)
    lowest, next_ones = nodes[-4 - 4 * leaves:][:leaves], nodes[-4 - 3 * leaves:][:leaves]
    assert leaves > 0
    assert not any([*lowest, *(byte & 0x1F for byte in next_ones)]), "digits that make a wheel larger for nothing"
    words = [b"margin 0" if line.startswith(b"margin ") else line for line in text.split(b"\n")]
    model, known = _model.Model(resealed(b"\n".join(words) + end + nodes)), 0
    for file in SHIPPED[name]:
        rows = [json.loads(line) for line in bz2.decompress((RESULTS / file).read_bytes()).decode().splitlines()]
        some = {*list(dict.fromkeys(row["key"] for row in rows))[::41]}
        rows = [row for row in rows if row["key"] in some]
        (device,) = costs.devices_of(rows)[0].values()
        assert name in {file.removesuffix(".model") for file in _model.file_names(device.info)}
        for problem in costs.measured(rows, device):
            offers = [registry.BY_NAME[solver].offer(device, problem.problem) for solver in problem.terms]
            if YOUNGER & set(problem.terms):
                assert model.predict(offers) is None
                continue
            assert not problem.times or model.predict(offers) is not None, problem.problem
            known += bool(problem.times)
    assert known > 50


@pytest.mark.parametrize("count", [1, 5])
def test_too_few_problems(capsys, tmp_path, count):
    path = tmp_path / "times"
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()
    some = keys()[:count]
    path.write_text("\n".join(row for row in rows if json.loads(row)["key"] in some) + "\n")
    assert cli.main(["train", str(path)]) == 2
    assert "too few problems" in capsys.readouterr().err


def test_lists_that_cannot_be_read(capsys, tmp_path):
    path = tmp_path / "times"
    path.write_bytes(bz2.decompress(MEASUREMENTS.read_bytes())[:100_000])
    for command in ("train", "costs"):
        assert cli.main([command, str(path), "--lists", str(tmp_path / "nothing")]) == 2
        said = capsys.readouterr().err
        assert "No such file" in said
        assert said.count("\n") <= 2  # one of a line that is not whole


@pytest.mark.long
def test_better_than_table_and_index_on_networks_apart(capsys, tmp_path):
    """A quarter of the problems, in five parts by layers: fewer wrong choices and a smaller mean than without trees."""
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()
    some = set(keys()[::3])
    path, out = tmp_path / "times", tmp_path / "nv-sm90.model"
    path.write_text("\n".join(row for row in rows if json.loads(row)["key"] in some) + "\n")
    assert cli.main(["train", str(path), "--json", "-o", str(out)]) == 0
    judged = json.loads(capsys.readouterr().out)["judged"]
    assert judged["model"]["problems"] + judged["model"]["not measured"] == len(some)
    assert judged["model"]["within 5 %"] > judged["cost table"]["within 5 %"] > judged["throughput index"]["within 5 %"]
    assert judged["model"]["mean"] < judged["cost table"]["mean"]
    assert _model.read(out).about.endswith(f", {len(some)} problems")


@pytest.mark.parametrize("name", [name for name in SHIPPED if name.startswith("pocl")])
@pytest.mark.parametrize("taps", ["1x1x1", "1x3x3", "3x3x3"])
def test_volumes_are_not_images(name, taps):
    """CPUs' were fitted to images alone: a volume is beyond them, whatever its filter."""
    model, family = _model.read(ROOT / "miopyx" / "db" / f"{name}.model"), name.replace("pocl-cpu", "pocl-a-haswell-b")
    with bz2.open(RESULTS / SHIPPED[name][0]) as file:
        row = json.loads(file.readline())
    speeds = {word: row[word] for word in ("clock", "bandwidth")}
    (device,) = costs.devices_of([{"device": f"{family}_2", "stamp": "a/b/c", **speeds}])[0].values()
    pads = "x".join(str(int(tap) // 2) for tap in taps.split("x"))
    keys = (f"16-8-28-28-{taps}-32-8-28-28-2-{pads}-1x1x1-1x1x1-0-NCDHW-FP32-F",
            "16-28-28-3x3-32-28-28-2-1x1-1x1-1x1-0-NCHW-FP32-F")
    for key, sure in zip(keys, (False, True), strict=True):
        problem = _key.parse_find_key(key.encode())
        found = [solver.offer(device, problem) for solver in registry.CONV if solver.dynamic]
        found = [offer for offer in found if not isinstance(offer, str)]
        assert found
        assert (model.predict(found) is not None) == sure, key


def test_the_command_refuses(capsys, tmp_path, monkeypatch):
    path = tmp_path / "times"
    path.write_text("no json\n")
    assert cli.main(["train", str(path)]) == 2
    assert capsys.readouterr().err.startswith("miopyx train: ")
    assert cli.main(["train", str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.startswith("miopyx train: ")
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()
    path.write_text("\n".join(rows[:1200]) + "\n")
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    assert cli.main(["train", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "pip install miopyx[train]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [
    {"time_ms": "abc"}, {"time_ms": 0}, {"time_ms": -1.0}, {"time_ms": float("nan")}, {"time_ms": 1e999},
    {"solver": ["a"]}, {"stamp": "nothing"}, {"stamp": 3}, {"device": None}, {"config": "8"}, {"config": [1.5]},
    {"default": [1.5]},
    {"device_name": "two\nlines"}, {"device_name": "\ud800"}, {"device_name": "x" * 1000}, {"device_name": 7},
    {"clock": "fast"}, {"clock": -1}, {"bandwidth": float("nan")}, {"bandwidth": 1e300},
    {"key": "no key"}, {"key": "\ud800"}, {"solver": "NoSuchSolver"}, {"device": "nobody"},
])
def test_a_row_that_cannot_be(change, capsys, tmp_path):
    """An error of one line, whatever a row holds; the file is not written."""
    rows = [json.loads(row) for row in bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()[:9]]
    path = tmp_path / "times"
    path.write_text("\n".join(json.dumps({**row, **change}) for row in rows) + "\n")
    assert cli.main(["train", str(path), "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("miopyx train: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_line_that_a_full_disk_cut(capsys, tmp_path):
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()[:300]
    path = tmp_path / "times"
    path.write_text("\n".join([*rows[:100], rows[100][:50], *rows[101:]]) + "\n")
    assert cli.main(["costs", str(path)]) == 0
    assert f"{path}: 1 lines are not whole" in capsys.readouterr().err


def test_another_file_to_judge_by(capsys, tmp_path):
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()[:300]
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("\n".join(rows) + "\n")
    other.write_text(rows[0].replace("-FP32-", "-FP16-").replace("-FP16-", "-BF16-") + "\n")
    assert cli.main(["train", str(one), "--judge", str(other)]) == 2
    assert "none of its problems" in capsys.readouterr().err


def networks_of(problems):
    layers = sorted({problem.layer for problem in problems})
    return {layer: frozenset(("A", "B", "AB", "C")[i % 4]) for i, layer in enumerate(layers)}


def test_folds_are_of_the_same_networks(measured):
    problems, _ = measured
    networks = networks_of(problems)
    folds = costs.folds(problems, networks)
    assert sorted(i for some, _ in folds for i in some) == list(range(len(problems)))
    for some, rest in folds:
        (names,) = {networks[problems[i].layer] for i in some}
        assert rest == [i for i, problem in enumerate(problems) if not networks[problem.layer] & names]


def test_layers_are_kept_apart_where_there_is_one_network(measured, capsys):
    problems, _ = measured
    for networks in (dict.fromkeys(networks_of(problems), frozenset("A")), {}):
        folds = costs.folds(problems, networks)
        assert sorted(i for some, _ in folds for i in some) == list(range(len(problems)))
        for some, rest in folds:
            assert rest
            assert not {problems[i].layer for i in some} & {problems[i].layer for i in rest}
        assert ("layers are kept apart" in capsys.readouterr().err) == bool(networks)


def some_rows(wanted):
    """Lines of the measurements of an H200 whose key is wanted."""
    rows = bz2.decompress(MEASUREMENTS.read_bytes()).decode().splitlines()
    return [row for row in map(json.loads, rows) if wanted(row["key"])]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_one_layer_is_too_few(capsys, tmp_path):
    rows = some_rows(lambda key: key.startswith("64-56-56-3x3-64-56-56-"))
    path = write_rows(tmp_path / "times", rows)
    assert cli.main(["train", str(path)]) == 2
    assert "too few" in capsys.readouterr().err
    assert cli.main(["costs", str(path)]) == 0


def test_a_model_without_trees_is_no_better(capsys, tmp_path, monkeypatch, user_folder):
    """Where it is alone, that is; the table of its times is not in the file that `costs` writes."""
    path = write_rows(tmp_path / "times", some_rows(set(keys()[::60]).__contains__))
    monkeypatch.setattr(train, "LEAST_TIMES", 10_000)
    monkeypatch.setattr(train, "MARGINS", (1e9,))
    assert cli.main(["train", str(path), "-o", str(tmp_path / "nv-sm90.model")]) == 0
    said = capsys.readouterr().err
    assert "measure more" in said
    assert "no trees" in said


def test_what_is_in_use_is_judged_too(capsys, tmp_path, system_folder):
    path = write_rows(tmp_path / "times", some_rows(set(keys()[::60]).__contains__))
    assert cli.main(["train", str(path), "--json"]) == 0
    assert "models in use now" not in json.loads(capsys.readouterr().out)["judged"]
    (system_folder / "nv-sm90.model").write_bytes(_model.sealed("", lines_of(CONV), b""))
    _model.forget()
    assert cli.main(["train", str(path), "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["judged"]
    assert judged["models in use now"]["problems"] + judged["models in use now"]["not measured"] == len(keys()[::60])


def test_solvers_of_another_kind_of_device_are_passed_over():
    """Nor asked what they would run with: a CPU's product has no tiles of a GPU's."""
    rows = some_rows(set(keys()[::90]).__contains__)
    there = {row["solver"] for row in rows}
    assert any(name.startswith("Gpu") for name in there)
    rows = [{**row, "device": "pocl-nowhere-skylake-avx512-pthread_2"} for row in rows]
    (device,) = costs.devices_of(rows)[0].values()
    for problem in costs.measured(rows, device):
        assert not any(name.startswith(("Gpu", "Nv")) for name in problem.terms)
    for row in rows:
        solver = registry.BY_NAME[row["solver"]]
        assert isinstance(solver.default_config(device, _key.parse_find_key(row["key"].encode())), tuple)


def test_one_speed_is_no_bound(measured):
    """Trees learn nothing of it, and a probe beside other work must not silence a model."""
    problems, _ = measured
    at = slice(len(_model.OF_PROBLEM_NAMES) - 2, None)
    same = [problem._replace(speeds=(900.0, 40.0)) for problem in problems[:40]]
    assert train.grow(same).high[at].min() > 1e8
    two = [problem._replace(speeds=((900.0, 40.0), (400.0, 20.0))[i % 2]) for i, problem in enumerate(problems[:40])]
    assert train.grow(two).high[at].max() < 1e8


def test_a_folder_that_is_not_there(capsys, tmp_path, user_folder):
    path = write_rows(tmp_path / "times", some_rows(set(keys()[::60]).__contains__))
    missing = tmp_path / "missing"
    assert cli.main(["costs", str(path), "-o", str(missing / "out")]) == 2
    assert f"miopyx costs: {missing}: no such folder" in capsys.readouterr().err
    assert not missing.exists()
    assert cli.main(["costs", str(path), "-o", str(user_folder / "nv-sm90.costs.txt")]) == 0
    assert f"nv-sm90.nvidia-h200.costs.txt in {user_folder} would be read" in capsys.readouterr().err


def test_no_model_that_judges_saw_a_network_of_the_problem(measured, monkeypatch):
    """Nor, of several devices, one of the problem's device where that is to be unseen."""
    problems, _ = measured
    problems = [problem._replace(device="xy"[i % 2]) for i, problem in enumerate(problems)]
    networks = networks_of(problems)
    seen, asked = [], []
    monkeypatch.setattr(train, "grow", lambda some: seen.append(some) or train.Grown([], {}, {}, 0, 0, 0, {}, {}))

    def times(grown, some):
        asked.extend((problem, seen[-1]) for problem in some)
        return [(dict(problem.times), np.inf) for problem in some]

    monkeypatch.setattr(train, "_model_times", times)
    monkeypatch.setattr(train, "_table_times", lambda lines: lambda problem: dict(problem.times))
    report, _ = train.judge(problems, costs.folds(problems, networks))
    assert len(asked) == 2 * len(problems)
    strangers = 0
    for problem, some in asked:
        assert not any(networks[other.layer] & networks[problem.layer] for other in some)
        assert len(some) > 0
        strangers += all(other.device != problem.device for other in some)
    assert strangers == len(problems)
    assert [way for way in report if "unseen" in way] == ["x, unseen", "y, unseen"]
    assert report["model"].regrets.max() == report["x, unseen"].regrets.max() == 1
