"""tests/largest_errors.py: it runs, and it sees each kind of wrong result."""

from __future__ import annotations

import guarded
import largest_errors
import numpy as np
import pytest
import test_batchnorm
import test_lrn
from largest_errors import OPERATIONS, TYPES, Outcome, main, measure


def test_it_runs(device_name, seed, rng, amount, capsys):
    """Everything on the host; on devices what needs few programs, one of those without --long."""
    some = rng.permutation(["op_tensor add", "scale", "relu", "fast channel"])[:amount(1, 4)]
    few = [] if device_name == "host" else ["--op", *some]
    assert main(["--problems", "3", "--device", device_name, "--seed", str(seed), *few]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in OPERATIONS:
        if not few or any(text in name for text in few[1:]):
            assert any(line.startswith(name) for line in lines), name
    assert lines[-1].endswith("; 0 results beyond their bounds")


def test_a_seed_repeats_the_problems(handles):
    for dtype in TYPES:
        one, again, other = (measure("scale", handles("host"), dtype, seed, 5).worst for seed in (1, 1, 2))
        assert one == again != other


@pytest.fixture
def wrong_results(monkeypatch):
    """One element of whatever is read back is a little wrong."""
    def spoil(owner, name):
        read = getattr(owner, name)

        def spoilt(self, *arguments):
            values = read(self, *arguments).copy()
            last = (-1,) * values.ndim
            values[last] += 0.03 * values[last] + np.copysign(0.03, values[last])
            return values

        monkeypatch.setattr(owner, name, spoilt)

    spoil(guarded.Tensor, "values")
    spoil(test_lrn.Memory, "result")
    spoil(test_batchnorm.Tensor, "values")


@pytest.mark.parametrize("name", OPERATIONS)
def test_wrong_results_are_seen(handles, name, wrong_results, seed):
    for dtype in TYPES:
        outcome = measure(name, handles("host"), dtype, seed, 2)
        assert outcome.wrong, dtype
        assert all(f"{name}, {dtype}, " in line for line in outcome.wrong)


def test_wrong_results_end_with_an_error(wrong_results, capsys):
    assert main(["--problems", "1", "--device", "host", "--op", "scale"]) == 1
    assert "problem 0" in capsys.readouterr().out


def test_memory_that_must_not_change(handles, monkeypatch):
    def fetch(self):
        self.memory[0] += 1
        return original(self)

    original = guarded.Guarded.fetch
    monkeypatch.setattr(guarded.Guarded, "fetch", fetch)
    assert "wrote before a buffer" in measure("scale", handles("host"), "float32", 1, 1).wrong[0]


@pytest.mark.parametrize(("got", "want", "wrong"), [
    (np.nan, 1.0, True), (np.inf, 1.0, True), (1.0, np.inf, True), (np.inf, 7e4, False), (-np.inf, 7e4, True),
    (1.0, np.nan, True), (2.0, 2.0, False), (2.0, 2.001, False), (2.0, 2.1, True), (65504.0, 65530.0, False),
])
def test_record(got, want, wrong):
    outcome = Outcome()
    got, want = np.array([0.5, got]), np.array([0.5, want])
    outcome.record("y", got, want, 0, largest_errors.activation.bound_of(want, 0, "float16") * 2, "float16")
    assert bool(outcome.wrong) == wrong
    assert (outcome.worst["y"][1] > 1) == wrong


@pytest.mark.parametrize("arguments", [["--problems", "0"], ["--op", "nothing"], ["--dtype", "int8"]])
def test_nothing_to_do(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err
