"""The documents say what is true: their examples run, their tables are those of the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from coverage_table import document, environment_table

ROOT = Path(__file__).parent.parent


def examples():
    for name in ("README.md", "docs/examples.md"):
        for i, block in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.S)):
            yield pytest.param(block, id=f"{name}-{i}")


@pytest.mark.parametrize("block", list(examples()))
def test_examples_run(block, tmp_path):
    done = subprocess.run([sys.executable, "-W", "error", "-c", block], cwd=tmp_path, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_coverage_table_is_that_of_the_code():
    assert document((ROOT / "README.md").read_text()) == (ROOT / "README.md").read_text(), \
        "run python tests/coverage_table.py"


def test_the_environment_table_is_that_of_the_code():
    assert (ROOT / "docs" / "environment.md").read_text() == environment_table(), "run python tests/coverage_table.py"
