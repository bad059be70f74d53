"""`miopyx tune` on a fleet: workers and the scheduler may die, and nothing is lost or counted twice."""

import pytest

pytest.importorskip("distributed")

from tune_fleet import by_fleet, by_one_process

from miopyx import ConvolutionDescriptor, TensorDescriptor
from miopyx.database import records
from miopyx.problem import _key
from miopyx.problem._problem import ConvProblem
from miopyx.tools import cli, db


def drawn(rng, count):
    """Return the keys of small convolutions in random directions."""
    keys = {}
    while len(keys) < count:
        n, c, k, h, w = (int(rng.integers(1, most)) for most in (3, 17, 17, 15, 15))
        r, s = (int(rng.integers(1, min(4, size + 1))) for size in (h, w))
        conv = ConvolutionDescriptor((int(rng.integers(0, 2)), int(rng.integers(0, 2))))
        x, y = TensorDescriptor("float32", (n, c, h, w)), TensorDescriptor("float32", (k, c, r, s))
        problem = ConvProblem(int(rng.integers(0, 3)), x, y, TensorDescriptor("float32", conv.output_lens(x, y)), conv)
        keys[_key.find_key(problem).decode()] = None
    return list(keys)


def compare(folder, keys, machines, kinds, every, scheduler_after, seed):
    simulation, summary, ledger = by_fleet(folder, keys, machines, every, scheduler_after, seed, len(kinds))
    counts = ledger.counts()
    print(f"killed {simulation.killed} workers and {simulation.scheduler_killed} schedulers; {summary.lost} jobs lost, "
          f"{counts}")
    assert summary.ended_by == "all"
    assert not summary.failed
    assert not summary.left
    assert counts["task"] == counts["result"] == len(keys) * len(kinds)
    assert counts["attempt"] >= counts["result"]
    assert not ledger._rows(
        "SELECT task FROM attempt WHERE job = 'measure' GROUP BY task "
        "HAVING sum(outcome = 'done') > 1 AND NOT sum(outcome = 'lost') OR NOT sum(outcome = 'done')"), (
        "measured once, or again where somebody was lost")
    assert simulation.killed
    assert simulation.scheduler_killed == 1
    one = by_one_process(folder, keys, kinds)
    assert {device for device, _ in ledger.devices()} == {device for device, _ in one.devices()}
    for device, count in one.devices():
        assert count == len(keys)
        lines = ledger.find_lines(device)
        assert lines == one.find_lines(device)
        assert ledger.measurements(device) == one.measurements(device)
        # The machines' own databases say the same; killed ones may have lost what others measured again.
        files = [path for path in folder.glob(f"machine*/databases/{device.name}.*.ufdb.txt")]
        for key, line in db.winners(files)[0].items():
            mine = next(one for one in lines if records.split(one)[0] == key)
            assert records.read_find(records.split(mine)[1]).items == records.read_find(records.split(line)[1]).items
    ledger.close()
    one.close()


def test_a_fleet_under_attack(user_folder, keep_programs, tmp_path, rng, seed):
    """The short version: two machines with the host's device."""
    compare(tmp_path, drawn(rng, 80), ["host", "host"], ["host"], 2.5, 2.0, seed)


@pytest.mark.long
def test_a_fleet_of_two_kinds_under_attack(user_folder, keep_programs, tmp_path, rng, seed, opencl_name):
    """300 problems, four machines, a worker killed every five seconds and the scheduler once."""
    compare(tmp_path, drawn(rng, 300), ["host", "host", opencl_name, opencl_name], ["host", opencl_name], 5.0, 12.0,
            seed)


@pytest.mark.parametrize("address", ["foo", "", "tcp://", "tcp://127.0.0.1", "127.0.0.1:0", "tcp://127.0.0.1:99999"])
@pytest.mark.parametrize("command", ["worker", "tune"])
def test_what_is_no_address_is_said_at_once(tmp_path, capsys, command, address):
    path = tmp_path / "list.txt"
    path.write_text("conv -n 1 -c 2 -H 4 -W 4 -k 2 -y 1 -x 1 -F 1\n")
    if command == "worker":
        words = ["worker", address]
    elif address:
        words = ["tune", str(path), "--scheduler", address, "--ledger", str(tmp_path / "ledger")]
    else:
        pytest.skip("nothing is no scheduler")
    assert cli.main(words) == 2
    assert "no address" in capsys.readouterr().err


def test_a_worker_of_no_device(capsys):
    assert cli.main(["worker", "tcp://127.0.0.1:8786", "--device", "nobody's"]) == 2
    assert "nobody's" in capsys.readouterr().err
