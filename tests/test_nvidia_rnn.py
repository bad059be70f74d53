"""Recurrent layers whose steps are one launch: every way to share a layer out, against float64.  Needs a Hopper GPU.

Bounds are those of test_rnn.py.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from test_rnn import GRU, LSTM, RELU, SEQUENCES, TANH, Case

import miopyx
from miopyx import RNNDescriptor, SeqTensorDescriptor, TensorDescriptor
from miopyx.database import paths, rates
from miopyx.solvers.layers import _rnn_nvidia as nv
from miopyx.tools import rates as tool

LENGTHS = (5, 5, 4, 4, 4, 3, 2, 2, 2, 1)
# Groups of a team, sequences, whether it is a cluster, units; of matrices, fragments in registers and in local memory.
TEAMS = {
    "one group": (1, 8, 1, 20), "one group, 16 sequences": (1, 16, 1, 24), "a cluster of 2": (2, 8, 1, 20),
    "a cluster of 4": (4, 16, 1, 60), "a cluster of 8": (8, 8, 1, 64), "a cluster of 16": (16, 8, 1, 128),
    "2 groups": (2, 8, 0, 16), "3 groups": (3, 16, 0, 24), "5 groups": (5, 8, 0, 40), "9 groups": (9, 8, 0, 72),
    "32 sequences": (4, 32, 0, 30), "a full cluster": (2, 8, 1, 64, 2, 99), "a fuller cluster": (2, 8, 1, 64, 2, 3),
    "too much": (3, 8, 0, 48, 1, 0),
}


@pytest.fixture
def teams():
    """Return a function that allows one way alone, until the end of the test."""
    yield nv.only_teams
    nv.only_teams()


@pytest.fixture
def hopper(opencl_name):
    """A handle that has prepared nothing yet."""
    with miopyx.Handle(opencl_name) as handle:
        if handle.device.info.isa != "sm90" or handle.device.info.cuda < 0:
            pytest.skip("needs a Hopper GPU and CUDA's driver")
        yield handle
    rates.forget()  # what a test found in other folders


def plans(case):
    """Return a case's plans of inference and of the inputs' gradients."""
    w = TensorDescriptor(case.dtype, case.host["w"].shape)
    return (case.handle.rnn_forward(case.rnn, case.x_desc, w, case.y_desc, False),
            case.handle.rnn_backward_data(case.rnn, case.y_desc, w, case.x_desc))


@pytest.mark.some(16)
@pytest.mark.parametrize("mode", [TANH, LSTM, GRU])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", TEAMS)
def test_every_way(hopper, rng, teams, name, dtype, mode):
    teams(*TEAMS[name][:3], *TEAMS[name][4:])
    case = Case(hopper, dtype, rng, mode, inputs=7, hidden=TEAMS[name][3], layers=2, dirs=2, lengths=LENGTHS,
                layout=SEQUENCES)
    assert {plan.solver.name for plan in plans(case)} == {"NvRNN"}
    case.check()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", range(4))
def test_what_is_taken(hopper, rng, mode, dtype):
    """No states given, none wanted, no biases, input as it is; one sequence, and more than fit at once."""
    for hidden, lengths in ((40, (4,)), (24, (2,) * 70)):
        case = Case(hopper, dtype, rng, mode, inputs=hidden, hidden=hidden, bias=int(mode == RELU), lengths=lengths,
                    states=False, skip=mode != RELU)
        assert {plan.solver.name for plan in plans(case)} == {"NvRNN"}
        case.check()


def test_infinite_weights_and_states(hopper):
    """Pairs of TF32 keep them."""
    n = 24
    x, y = SeqTensorDescriptor("float32", 1, 3, 2, n), SeqTensorDescriptor("float32", 1, 3, 2, n)
    w = np.full((2, n, n), 0.1, np.float32)
    w[1] *= np.where(np.arange(n) % 2, 1, 1 + 2.0**-12)  # low parts of either sign
    for row, value in ((None, np.inf), (3, 1.0)):
        given = w.copy()
        if row is not None:
            given[1, row] = np.inf  # of the state's matrix
        plan = hopper.rnn_forward(RNNDescriptor(n, 1, RELU, bias=0), x, TensorDescriptor("float32", (2 * n * n,)), y,
                                  hy=False)
        assert plan.solver.name == "NvRNN"
        out, ones = hopper.zeros(y.shape), hopper.upload(np.ones((1, 2, n), np.float32))
        plan(*[{"x": hopper.upload(np.full(x.shape, value, np.float32)), "hx": ones, "w": hopper.upload(given.ravel()),
                "y": out}[name] for name in plan.buffers])
        got = np.asarray(hopper.download(out)).reshape(3, 2, n)
        infinite = np.full(got.shape, value == np.inf)
        infinite[0, :, 3] = infinite[1:] = True
        np.testing.assert_array_equal(np.isinf(got), infinite)
        assert not np.isnan(got).any()


def test_what_no_team_takes(hopper, rng, teams):
    """Another solver runs it."""
    for dtype, team in (("float64", 0), ("float32", 128)):
        teams(team)
        case = Case(hopper, dtype, rng, LSTM, hidden=20, lengths=(3, 3))
        assert {plan.solver.name for plan in plans(case)} == {"OpenCLRNN"}
        case.check()


def test_a_device_without_room_for_a_cluster(hopper, rng, teams, monkeypatch):
    """What the driver says of clusters is asked when a program is loaded; the workspace is enough for others, too."""
    if "emulator" not in os.environ.get("MIOPYX_LIBCUDA", ""):
        pytest.skip("needs the stub of CUDA's driver")
    monkeypatch.setenv("STUB_CLUSTERS", "0")
    teams(2, 8, 1)
    case = Case(hopper, "float16", rng, LSTM, hidden=20, lengths=(3, 2))
    assert {plan.solver.name for plan in plans(case)} == {"OpenCLRNN"}
    case.check()


def test_without_rates(hopper, rng, monkeypatch, setting, tmp_path):
    """A file that is broken and no other: another solver runs it."""
    (tmp_path / "nv-sm90.rates.txt").write_text("miopyx rates 1\n")
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "nowhere")
    setting(MIOPEN_SYSTEM_DB_PATH=tmp_path)
    rates.forget()
    case = Case(hopper, "float16", rng, LSTM, hidden=20, lengths=(3, 2))
    assert {plan.solver.name for plan in plans(case)} == {"OpenCLRNN"}
    case.check()


def test_rates_are_measured(hopper, opencl_name):
    """A layer shared out in three ways, and a launch a step."""
    layers, ways = [("miopenLSTM", "float16", 32, 4)], [(1, 8, 1, False), (2, 8, 1, True), (2, 8, 0, False)]
    found = tool.measure(opencl_name, 8, None, (2, 4), layers, ways)
    teams = [one.team for one in found]
    assert sorted((team["team"], team["cluster"], team["counts"]["streamed"] > 0) for team in teams[:-1]) == [
        (1, True, False), (2, False, False), (2, True, True)]
    assert teams[-1] is None, "a launch a step"
    assert all(one.time > 0 for one in found)
    again = tool.measure(opencl_name, 1, None, (2, 4), layers, ways)
    assert [one.team for one in again] == [teams[0], None], "the same order each time"
