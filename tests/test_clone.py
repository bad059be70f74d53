"""A Python started in a clone finds the sources first: it goes on with the installed package, or says why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import miopyx
from miopyx.values import compiled

INSTALLED = Path(miopyx.__file__).parents[1]


@pytest.fixture
def clone(tmp_path):
    """A folder with the package's sources alone; what is compiled stays away."""
    shutil.copytree(INSTALLED / "miopyx", tmp_path / "miopyx",
                    ignore=shutil.ignore_patterns("*.so", compiled.NAMES, "__pycache__", "db"))
    return tmp_path


def run(clone, *words, path=str(INSTALLED)):
    return subprocess.run([sys.executable, *words], cwd=clone, capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "PYTHONPATH": path})


def test_the_installed_package_is_taken(clone):
    (clone / "miopyx" / "errors.py").write_text("raise RuntimeError('a source that is not what is installed')\n")
    done = run(clone, "-c", "import miopyx as mi, miopyx.errors, miopyx._core\n"
               "with mi.Handle('host') as h: print(h, miopyx.errors.__file__, len(dir(mi)))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[2:3] == [str(INSTALLED / "miopyx" / "errors.py")]
    assert done.stdout.split()[3] == str(len(dir(miopyx)))
    done = run(clone, "-m", "miopyx", "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "miopyx"), done.stderr


def test_nothing_is_installed(clone):
    done = run(clone, "-S", "-c", "import miopyx", path="")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {clone / 'miopyx'} has the sources of miopyx, not its compiled modules, and no installed miopyx "
        f"is on sys.path: install these (pip install {clone}), or start Python in another folder, or with -P")


def test_something_else_is_installed(clone):
    with open(clone / "miopyx" / "__init__.py", "a") as file:
        file.write("# newer\n")
    done = run(clone, "-c", "import miopyx")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert f"{INSTALLED / 'miopyx'} was built of others: install these again" in done.stderr.splitlines()[-1]
