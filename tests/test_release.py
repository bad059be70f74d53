"""docs/release.sh in a clone of its own: it sets the version in one place, and refuses what is not ready."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGES = "# Changelog\n\n## Unreleased\n\n### API\n\n- Something.\n"


@pytest.fixture
def clone(tmp_path):
    """Return a folder with what a release touches, as a repository."""
    if shutil.which("git") is None:
        pytest.skip("no git")
    for name in ("docs/release.sh", "miopyx/__init__.py", "tests/house_rules.py", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    for command in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"], ["add", "-A"],
                    ["commit", "-qm", "All"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def release(clone, *arguments):
    done = subprocess.run(["bash", "docs/release.sh", *arguments], cwd=clone, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_a_version_is_set_and_tagged(clone):
    assert release(clone, "tag")[0] == 1  # the changes are not of this version
    assert release(clone, "set", "7.8.9") == (0, "committed version 7.8.9; next: run the tests, then bash "
                                                 "docs/release.sh build and tag\n")
    assert (clone / "miopyx" / "__init__.py").read_text().count('__version__ = "7.8.9"\n') == 1
    assert (clone / "CHANGELOG.md").read_text().startswith("# Changelog\n\n## 7.8.9, 20")
    assert release(clone, "tag")[0] == 0
    tags = subprocess.run(["git", "tag"], cwd=clone, capture_output=True, text=True, check=True).stdout
    assert tags == "v7.8.9\n"
    assert "already" in release(clone, "set", "7.8.9")[1]


def test_a_long_list_of_changes(clone):
    """More than a pipe holds: what reads it must not end before what writes it."""
    (clone / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n" + "- A line of what is new.\n" * 20000)
    subprocess.run(["git", "commit", "-qam", "Change"], cwd=clone, check=True)
    assert release(clone, "set", "7.8.9")[0] == 0


@pytest.mark.parametrize(("change", "arguments", "why"), [
    ({}, ["set", "1.x"], "not a version"),
    ({"CHANGELOG.md": "# Changelog\n\n## Unreleased\n"}, ["set", "7.8.9"], "lists nothing"),
    ({"CHANGELOG.md": "# Changelog\n\n## 0.1.0, today\n\n- X.\n"}, ["set", "7.8.9"], "does not begin with Unreleased"),
    ({"miopyx/__init__.py": "x = 1 \n"}, ["check"], "__version__ once"),
    ({"miopyx/__init__.py": '__version__ = "1.0.0"\nx = 1 \n'}, ["check"], "house rules"),
])
def test_what_is_not_ready(clone, change, arguments, why):
    for name, text in change.items():
        (clone / name).write_text(text)
        subprocess.run(["git", "commit", "-qam", "Change"], cwd=clone, check=True)
    code, text = release(clone, *arguments)
    assert code == 1
    assert why in text


def test_changes_that_are_not_committed(clone):
    (clone / "CHANGELOG.md").write_text("")
    assert release(clone, "check") == (1, "release: there are changes that are not committed\n")


def test_the_version_stands_in_one_place():
    assert 'version = "' not in (ROOT / "pyproject.toml").read_text().partition("[tool.")[0]
