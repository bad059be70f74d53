"""What type checkers make of the installed package; `mypy.stubtest` compares the stubs themselves with the modules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parent / "data" / "typing_example.py"


def mypy(folder, *files):
    pytest.importorskip("mypy")
    command = [sys.executable, "-P", "-m", "mypy", "--strict", "--config-file", os.devnull, *map(str, files)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_strict_example(tmp_path):
    assert "Success" in mypy(tmp_path, EXAMPLE)


def test_star_import_names_what_it_does_at_run_time(tmp_path):
    """Names that the package makes while it is imported are known to type checkers as well."""
    namespace = {}
    exec("from miopyx import *", namespace)
    names = sorted(name for name in namespace if not name.startswith("_") and name != "annotations")
    lines = ["import miopyx", "from miopyx import *", *names, *(f"miopyx.{name}" for name in names)]
    (tmp_path / "star.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert len(names) > 250
    assert "Success" in mypy(tmp_path, "star.py")
