"""PyTorch's own tests, plain and with miopyx.torch enabled: what passes without must pass with.

    python tests/pytorch_tests.py FILE... [--measured] [--device cuda] [-k EXPRESSION] [--first SCRIPT] [--jobs N]
                                  [--seconds N]

FILE is a test file of PyTorch's source tree, of the version that is installed; they need expecttest.  Each runs with
miopyx enabled on that device, and what did not pass once more without, by pytest in processes of their own.  Every
problem that miopyx can compute is given to it, whatever its time; `--measured` leaves the choice to times, as users
have it.  `--first` is a script that runs before either, for what another version's tests miss:
tests/data/pytorch-2.6-first.py for those of 2.6.  `--jobs` needs pytest-xdist.  After `--seconds` a run ends with the
tests that it reached.

Prints the counts, the slowest tests, and each test that passes without and not with, with the end of its traceback; the
exit status is 1 if there are any, or if a run ended early.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from miopyx.torch.choice import Times


def pytest_configure() -> None:
    """Set up a side: this file is pytest's plugin there."""
    if os.environ.get("PYTORCH_TESTS_FIRST"):
        runpy.run_path(os.environ["PYTORCH_TESTS_FIRST"])
    if os.environ.get("PYTORCH_TESTS_SIDE", "plain") == "plain":
        return
    import miopyx.torch
    from miopyx.torch import _layers, choice, override

    override.DEVICES = (os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"],)  # what CPUs compute is the tests' reference
    if os.environ["PYTORCH_TESTS_SIDE"] == "ours":
        _layers.open_accounts(lambda family, device: None, lambda: None)  # nothing is given back
        choice.recall = lambda info, key: None
        choice.measure = _said
    else:
        miopyx.torch.budget(1e6)
    miopyx.torch.enable()


def _said(info: object, key: bytes, ours: Callable[[], object], theirs: Callable[[], object],
          wait: object = None) -> Times:
    """Give a problem to miopyx that PyTorch's own kernel computes, too."""
    from miopyx.torch.choice import Times

    theirs()
    return Times(1.0, 2.0, "said")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the tests that were asked for."""
    if os.environ.get("PYTORCH_TESTS_ONLY"):
        only = set(Path(os.environ["PYTORCH_TESTS_ONLY"]).read_text().split("\n"))
        items[:] = [item for item in items if item.nodeid in only]


def pytest_runtest_logreport(report: Any) -> None:
    """Write down how a test ended, at once: a run may be stopped."""
    if "PYTEST_XDIST_WORKER" in os.environ or (report.when != "call" and report.passed):
        return
    why = str(report.longrepr).strip().splitlines()[-12:] if report.failed else []
    with Path(os.environ["PYTORCH_TESTS_REPORT"]).open("a") as lines:
        lines.write(json.dumps([report.nodeid, report.outcome, report.duration, why]) + "\n")


def pytest_sessionfinish() -> None:
    """Write down how much of it was ours, in this process."""
    layers = sys.modules.get("miopyx.torch._layers")
    if layers is not None:
        ours = [layer.runs for layer in layers.layers if layer.ours]
        with Path(os.environ["PYTORCH_TESTS_REPORT"]).open("a") as lines:
            lines.write(json.dumps([len(layers.layers), len(ours), sum(ours)]) + "\n")


Outcomes = dict[str, tuple[str, float, list[str]]]


def run(path: Path, side: str, options: argparse.Namespace, only: list[str] | None = None) -> tuple[Outcomes, str]:
    """Return each test's outcome, seconds and end of a traceback, and what pytest closed with."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        environment = {**os.environ, "PYTORCH_TESTS_SIDE": side, "MIOPEN_USER_DB_PATH": folder,
                       "PYTORCH_TESTS_REPORT": str(report),
                       "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.resolve()), str(path.parent.resolve()),
                                                      str(path.parent.parent.resolve()),
                                                      os.environ.get("PYTHONPATH", "")])}
        if options.first:
            environment["PYTORCH_TESTS_FIRST"] = str(options.first.resolve())
        if only is not None:
            environment["PYTORCH_TESTS_ONLY"] = f"{folder}/only"
            Path(folder, "only").write_text("\n".join(only))
        environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = options.device
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "pytorch_tests", "-p", "no:cacheprovider",
                   "--tb=short", "-rN", "-c", os.devnull, "--rootdir", str(path.parent),
                   *(["-k", options.k] if options.k else []), *(["-n", str(options.jobs)] if options.jobs else []),
                   str(path.resolve())]
        with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, start_new_session=True) as pytest:
            try:
                said = pytest.communicate(timeout=options.seconds)[0]
            except subprocess.TimeoutExpired:
                os.killpg(pytest.pid, signal.SIGKILL)
                said = "ended early"
        if said != "ended early" and pytest.returncode not in {0, 1, 5}:  # 5: no tests
            print(said[-3000:])
            said = "ended early"
        if not report.exists():
            sys.exit(f"{path.name}, {side}: pytest ended with {pytest.returncode}\n{said[-3000:]}")
        outcomes, problems = {}, [[0, 0, 0]]
        for line in report.read_text().splitlines():
            name, *outcome = json.loads(line)
            if isinstance(name, str):
                outcomes[name] = tuple(outcome)
            else:
                problems.append([name, *outcome])
        known, ours, runs = map(sum, zip(*problems, strict=True))
        closing = f"{ours} of {known} problems were miopyx's, {runs} runs" if side != "plain" else ""
        return outcomes, f"{closing}{'; ended early' if said == 'ended early' else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("-k", metavar="EXPRESSION", help="pytest's: which tests")
    parser.add_argument("--first", type=Path, metavar="SCRIPT")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    options = parser.parse_args()
    worse = 0
    for path in map(Path.resolve, options.files):
        enabled, closing = run(path, "measured" if options.measured else "ours", options)
        worse += "early" in closing
        counts = collections.Counter(outcome for outcome, *_ in enabled.values())
        print(f"{path.name}, enabled: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} "
              f"skipped  {closing}", flush=True)
        slow = sorted(enabled, key=lambda name: -enabled[name][1])[:5]
        print("  slowest:", ", ".join(f"{name.rpartition('::')[2]} {enabled[name][1]:.0f} s" for name in slow))
        again = [name for name, (outcome, *_) in enabled.items() if outcome != "passed"]
        plain, closing = run(path, "plain", options, again) if again else ({}, "")
        worse += "early" in closing
        counts = collections.Counter(outcome for outcome, *_ in plain.values())
        print(f"  these {len(again)} plain: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} "
              f"skipped  {closing}", flush=True)
        for name in [name for name, (outcome, *_) in plain.items() if outcome == "passed"]:
            outcome, _, why = enabled[name]
            print(f"  {outcome}: {name}", *(f"    {line}" for line in why), sep="\n", flush=True)
            worse += 1
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
