"""What type checkers make of the installed package; `mypy.stubtest` compares the stubs themselves with the modules."""

import subprocess
import sys
from inspect import ismodule
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parent / "data" / "typing_example.py"


def check(folder, *files):
    pytest.importorskip("mypy")
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file=", *map(str, files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_strict_example_and_star_import(tmp_path):
    """Names that the package makes while it is imported are known to type checkers as well (one run for both)."""
    namespace = {}
    exec("from miopyx import *", namespace)
    names = sorted(name for name, value in namespace.items() if not name.startswith("_") and not ismodule(value))
    lines = ["import miopyx", "from miopyx import *", *names, *(f"miopyx.{name}" for name in names)]
    (tmp_path / "star.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(names) > 200
    check(tmp_path, EXAMPLE, "star.py")
