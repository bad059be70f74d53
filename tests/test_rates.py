"""Files of rates, the choices by Hopper's, and `miopyx rates`: rates that are known come back from their times."""

from __future__ import annotations

import itertools
import logging
import os
import random
import zlib
from pathlib import Path

import pytest

import miopyx
from miopyx import RNNDescriptor, SeqTensorDescriptor, TensorDescriptor
from miopyx.choose import _costs, _model
from miopyx.database import paths, rates, tables
from miopyx.device import devices
from miopyx.errors import InvalidValueError, UnknownError
from miopyx.solvers.layers import _rnn_nvidia as nv
from miopyx.tools import cli
from miopyx.tools import rates as tool
from miopyx.tools.rates import Measured

TEAMS = Path(__file__).parent / "data" / "rnn_teams.txt"
SHIPPED = paths.PACKAGE / "db" / "nv-sm90.rates.txt"
HOPPER = rates.read(SHIPPED)[1]["NvRNN"]
SHAPE = ("team", "units", "seqs", "wm", "ks", "kept", "stored", "fragments", "cluster", "faster")
NAME = "nv-sm90_114"  # a family's file serves any number of units


@pytest.fixture(autouse=True)
def _files():
    """Each test reads files anew, and so do those after it."""
    rates.forget()
    yield
    rates.forget()
    nv.only_teams()
    nv.use_rates()


@pytest.fixture
def info():
    return devices.find("host")._replace(name=NAME)


@pytest.fixture
def folder(user_folder):
    user_folder.mkdir(exist_ok=True)
    return user_folder


def sealed(text):
    return text.encode() + b"#%08x\n" % zlib.crc32(text.encode())


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# Files


def test_a_file_says_what_was_written(tmp_path):
    path, given = tmp_path / "rates", {"NvRNN": {"launch": 3.5, "mma": 1e-3}, "Another": {"x": 2.0}}
    rates.write(path, "where from", given)
    assert rates.read(path) == ("where from", given)


GOOD = "miopyx rates 1\nmade up\n" + " ".join(["NvRNN", *(f"{name}=2" for name in nv.RATES)]) + "\n"


@pytest.mark.parametrize("data", [
    b"", b"\n", sealed("miopyx costs 1\nmade up\n"), sealed("miopyx rates 2\nmade up\n"), sealed(GOOD)[:-1],
    sealed(GOOD)[:40], sealed(GOOD).replace(b"launch=2", b"launch=3"), GOOD.encode(), sealed(GOOD) + b"\n",
    sealed(GOOD + "Another x\n"), sealed(GOOD + "Another x=0\n"), sealed(GOOD + "Another x=-1\n"),
    sealed(GOOD + "Another x=nan\n"), sealed(GOOD + "Another x=inf\n"), sealed(GOOD + "Another x=1=2\n"),
    b"\xff\xfe" * 50,
])
def test_a_broken_file_is_passed_over(folder, info, data, caplog):
    (folder / "nv-sm90.rates.txt").write_bytes(data)
    with pytest.raises(InvalidValueError, match="no rates"):
        rates.read(folder / "nv-sm90.rates.txt")
    with caplog.at_level(logging.WARNING, "miopyx"):
        for _ in range(3):
            assert rates.of(info, "NvRNN", nv.RATES) == HOPPER
            rates.forget()
    assert len(warnings(caplog)) == 1
    assert "nv-sm90.rates.txt is passed over" in warnings(caplog)[0]


def test_whose_file_comes_first(folder, info, setting, tmp_path):
    """The user's, the system's, the package's; a line that lacks a name is of another version of the solver."""
    twice = {name: 2.0 for name in nv.RATES}
    setting(MIOPEN_SYSTEM_DB_PATH=tmp_path)
    for where, given, found in ((tmp_path, twice, twice), (folder, {**twice, "later": 1.0, "launch": 9.0}, None),
                                (folder, {"launch": 1.0}, twice)):
        rates.write(where / "nv-sm90.rates.txt", "made up", {"NvRNN": given})
        rates.forget()
        assert rates.of(info, "NvRNN", nv.RATES) == (found or {**twice, "launch": 9.0})
    assert rates.of(info, "NvRNN", nv.RATES) is not None, "read once"
    (folder / "nv-sm90.rates.txt").unlink()
    (tmp_path / "nv-sm90.rates.txt").unlink()
    assert rates.of(info, "NvRNN", nv.RATES) == twice
    rates.forget()
    assert rates.of(info, "NvRNN", nv.RATES) == HOPPER


def test_a_family_without_a_file(info, caplog):
    """One warning a solver."""
    with caplog.at_level(logging.WARNING, "miopyx"):
        for _ in range(3):
            assert rates.of(info._replace(name="nv-sm999_10"), "NvRNN", nv.RATES) is None
    assert len(warnings(caplog)) == 1
    assert "NvRNN is left out" in warnings(caplog)[0]


@pytest.mark.parametrize("read", [rates.read, _costs.read, _model.read])
def test_what_is_no_file_of_ours(tmp_path, read):
    """Nobody waits for the other end of a pipe, or reads what has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(tables.MOST_BYTES + 1))
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="plain file"):
            read(path)
    with pytest.raises(InvalidValueError, match="more than"):
        read(tmp_path / "large")


# Choices


def problem_of(handle, mode, kind, hidden, batch, dirs, what):
    rnn = RNNDescriptor(hidden, 1, mode, dirs - 1, 0, 0, kind)
    x, y = (SeqTensorDescriptor(kind, 1, 4, batch, n) for n in (hidden, dirs * hidden))
    w = TensorDescriptor()
    miopyx.miopenGetRNNParamsDescriptor(handle, rnn, TensorDescriptor(kind, (batch, hidden)), w, kind)
    plan = handle.rnn_forward(rnn, x, w, y) if what == "forward" else handle.rnn_backward_data(rnn, y, w, x)
    return plan.invoker.problem


def test_teams_on_hopper_are_what_they_were(host, info):
    """Those that the rates gave as constants of the solver, before they were a file."""
    given, lines = rates.of(info, "NvRNN", nv.RATES), TEAMS.read_text().splitlines()[2:]
    assert len(lines) > 200
    for line in lines:
        asked, _, expected = line.partition(" = ")
        mode, kind, hidden, batch, dirs, what, cores, limits = asked.split()
        nv.only_teams(*([] if limits == "-" else map(int, limits.split(","))))
        team = nv.team_of(problem_of(host, mode, kind, int(hidden), int(batch), int(dirs), what), int(cores), given)
        assert " ".join(str(int(team[name])) for name in SHAPE) == expected, line


@pytest.mark.parametrize("name", nv.RATES)
def test_each_rate_counts(name):
    """A device that is slow at one thing alone gets other teams, or other layers get none."""
    slow = {**HOPPER, name: HOPPER[name] / 50 if name.endswith("_rate") else HOPPER[name] * 50}
    nv.only_teams()

    def choices(given):
        with miopyx.Handle("host") as host:
            return [{key: nv.team_of(problem_of(host, "miopenLSTM", kind, hidden, batch, 1, "forward"), 132, given)[key]
                     for key in SHAPE} for kind, hidden, batch in itertools.product(
                         ("float16", "float32"), (64, 256, 1024, 2048), (8, 32, 512))]

    assert choices(slow) != choices(HOPPER)


# The command


def times(truth, shapes, noise=0.0):
    """What would be measured on a device of these rates."""
    rng, found = random.Random(7), []
    for layer, _, team in itertools.islice(tool.possible(132, truth), shapes):
        found.append(Measured(layer, team, 132, team["time"]))
    for layer in sorted({one.layer for one in found}):
        alone = Measured(layer, None, 132, 0.0)
        found.append(alone._replace(time=truth["launch"] + alone.products / truth["product_rate"]))
    return [one._replace(time=(one.time + 1e-8 * truth["launch"] * one.moved) * 2 ** rng.uniform(-noise, noise))
            for one in found]


@pytest.fixture(params=range(4))
def truth(request):
    """Rates in microseconds: Hopper's, and others up to twice as large or small."""
    rng, most = random.Random(request.param), int(request.param > 0)
    return {name: value * (1750 if name.endswith("_rate") else 1 / 1750) * 2 ** rng.uniform(-most, most)
            for name, value in HOPPER.items()}


def test_rates_come_back_from_their_times(truth):
    found, spread = tool.fit(times(truth, tool.SHAPES))
    assert found == pytest.approx(truth, rel=0.02)
    assert tuple(found) == nv.RATES
    assert spread < 1e-3


def test_choices_by_noisy_times(truth):
    """Times are off by up to 7 %; single rates by more, but what is chosen is nearly the fastest."""
    exact = times(truth, tool.SHAPES)
    found, spread = tool.fit(times(truth, tool.SHAPES, 0.1))
    assert 0.01 < spread < 0.07
    right, _, rest = tool.judged(exact, found).partition(" of ")
    assert int(right) >= 0.8 * int(rest.split()[0])
    assert float(rest.rpartition(", ")[2].split()[0]) < 1.1


def test_too_few_shapes():
    for shapes in (0, 1, 10):
        with pytest.raises(UnknownError, match="too few shapes"):
            tool.fit(times(HOPPER, shapes))


def test_the_command(capsys, tmp_path, monkeypatch, info):
    out = tmp_path / "nv-sm90.rates.txt"
    monkeypatch.setattr(tool, "measure", lambda *_: times(HOPPER, tool.SHAPES))
    assert cli.main(["rates", "-d", "host", "-o", str(out)]) == 0
    about, found = rates.read(out)
    assert found["NvRNN"] == pytest.approx(HOPPER, rel=0.02)
    assert about.startswith(f"device {devices.find('host').name}, driver ")
    assert "these rates: " in capsys.readouterr().out
    assert cli.main(["rates", "-d", "host", "-o", str(out / "below a file")]) == 2


def test_a_device_without_these_kernels(device_name, capsys, tmp_path):
    if devices.find(device_name).isa == "sm90":
        pytest.skip("has them")
    assert cli.main(["rates", "-d", device_name, "-o", str(tmp_path / "out")]) == 2
    assert "NvRNN does not run on this device: needs clusters of Hopper's" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
