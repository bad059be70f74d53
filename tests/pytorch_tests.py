"""PyTorch's own tests, plain and with miopyx.torch enabled: what passes without must pass with.

    python tests/pytorch_tests.py FILE... [--measured] [--device cuda] [-k EXPRESSION] [--first SCRIPT] [--jobs N]

FILE is a test file of PyTorch's source tree, of the version that is installed; they need expecttest.  Each runs twice,
by pytest in a process of its own.  Every problem that miopyx can compute is given to it, whatever its time;
`--measured` leaves the choice to times, as users have it.  `--first` is a script that runs before either, for what
another version's tests miss: tests/data/pytorch-2.6-first.py for those of 2.6.  `--jobs` needs pytest-xdist.

Prints the counts of both sides, and each test that passes without and not with, with the end of its traceback; the exit
status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import collections
import os
import runpy
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

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
    from miopyx.torch import _layers, choice

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


def pytest_sessionfinish() -> None:
    """Say how much of it was ours."""
    layers = sys.modules.get("miopyx.torch._layers")
    if layers is not None:
        ours = [layer for layer in layers.layers if layer.ours]
        print(f"\n{len(ours)} of {len(layers.layers)} problems were miopyx's, {sum(layer.runs for layer in ours)} runs")


def run(path: Path, side: str, options: argparse.Namespace) -> tuple[dict[str, str], dict[str, str], str]:
    """Return each test's outcome, the end of each failure's traceback, and what pytest closed with."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTORCH_TESTS_SIDE": side, "MIOPEN_USER_DB_PATH": folder,
                       "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.resolve()), str(path.parent.resolve()),
                                                      str(path.parent.parent.resolve()),
                                                      os.environ.get("PYTHONPATH", "")])}
        if options.first:
            environment["PYTORCH_TESTS_FIRST"] = str(options.first.resolve())
        environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = options.device
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "pytorch_tests", "-p", "no:cacheprovider",
                   "--junitxml", str(report), "--tb=short", "-rN", "-c", os.devnull, "--rootdir", str(path.parent),
                   *(["-k", options.k] if options.k else []), *(["-n", str(options.jobs)] if options.jobs else []),
                   str(path.resolve())]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"{path.name}, {side}: pytest ended with {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
        outcomes, why = {}, {}
        for case in ET.parse(report).iter("testcase"):
            kinds = {child.tag: child for child in case}
            name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
            failure = kinds.get("failure", kinds.get("error"))
            outcomes[name] = "failed" if failure is not None else "skipped" if "skipped" in kinds else "passed"
            if failure is not None:
                why[name] = "\n".join(f"    {line}" for line in (failure.text or "").strip().splitlines()[-12:])
        return outcomes, why, "".join(line for line in done.stdout.splitlines() if "problems were" in line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("-k", metavar="EXPRESSION", help="pytest's: which tests")
    parser.add_argument("--first", type=Path, metavar="SCRIPT")
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    worse = 0
    for path in options.files:
        sides = {}
        for side in ("plain", "measured" if options.measured else "ours"):
            sides[side], why, closing = run(path, side, options)
            counts = collections.Counter(sides[side].values())
            print(f"{path.name}, {side}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} "
                  f"skipped  {closing}", flush=True)
        plain, enabled = sides.values()
        for name in [name for name, outcome in plain.items() if outcome == "passed" and enabled.get(name) != "passed"]:
            print(f"  {enabled.get(name, 'gone')}: {name}", *filter(None, [why.get(name)]), sep="\n")
            worse += 1
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
