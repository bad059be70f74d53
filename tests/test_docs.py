"""The documents say what is true: their code runs, their tables are those of the code, nothing is left out."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import floors
import pytest
from coverage_table import coverage, environment_table, with_functions

import miopyx

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(p for p in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")) if "_build" not in p.parts)


def blocks(language, pages=PAGES):
    """Yield the blocks of code of the pages, each with an id that says where it stands."""
    for page in pages:
        for i, block in enumerate(re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)):
            yield pytest.param(block, id=f"{page.relative_to(ROOT)}-{i}")


@pytest.mark.parametrize("block", list(blocks("python")))
def test_examples_run(block, tmp_path):
    if "import torch\n" in block:
        pytest.importorskip("torch", minversion="2.10")
    done = subprocess.run([sys.executable, "-P", "-W", "error", "-c", block], cwd=tmp_path, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("block", list(blocks("(?:sh|shell|bash)")))
def test_commands_are_ours(block):
    """Programs of the tree that a page names are there."""
    for path in re.findall(r"(?<![\w/.-])((?:bench|tests|docs|examples)/[\w./-]+\.(?:py|sh))", block):
        assert (ROOT / path).is_file(), path


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_paths_in_pages_exist(page):
    """`folder/file.ext` in a page is a file of the tree, unless a word in capitals stands for several."""
    # But for code, and the files that the tutorial writes, which stand above theirs.
    text = re.sub(r"^(`\S+`\n\n)?```.*?^```", "", page.read_text(), flags=re.S | re.M)
    for path in re.findall(r"`((?:miopyx|bench|tests|docs|examples)/[\w./-]+)`", text):
        if not re.search(r"[A-Z]{3}", path.rpartition("/")[2].partition(".")[0]):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md")], ids=lambda p: p.name)
def test_links_of_the_first_pages(page):
    """Sphinx checks the others."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link
        assert not link.startswith("docs/api/"), f"{link}: directives, which are a text on the built site alone"


def test_the_coverage_page_is_that_of_the_code():
    assert (DOCS / "coverage.md").read_text() == coverage(), "run python tests/coverage_table.py"


def test_the_functions_in_the_readme_are_those_of_the_code():
    text = (ROOT / "README.md").read_text()
    assert with_functions(text) == text, "run python tests/coverage_table.py"


def test_the_environment_table_is_that_of_the_code():
    assert (DOCS / "environment.md").read_text() == environment_table(), "run python tests/coverage_table.py"


def test_names_in_the_architecture_exist():
    """`folder/module` (`name`): the module has that name."""
    found = re.findall(r"`([\w/]+)`\s+\(`(\w+)`\)", (DOCS / "architecture.md").read_text())
    assert len(found) >= 9
    for module, name in found:
        path = next(p for end in ("pyx", "py") if (p := ROOT / "miopyx" / f"{module}.{end}").exists())
        assert re.search(rf"\b{name}\b", path.read_text()), f"{module} has no {name}"


def test_the_table_of_floors_is_that_of_the_list():
    text = (DOCS / "architecture.md").read_text()
    assert floors.written(text) == text, "run python tests/coverage_table.py"


@pytest.fixture(scope="module")
def stubs():
    """Return what makes the API pages."""
    spec = importlib.util.spec_from_file_location("stub_text", DOCS / "_ext" / "stub_text.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def described(stubs):
    found = {}
    for page in (DOCS / "api").glob("*.md"):
        for block in re.findall(r"^```{stubs}\n(?::without:(.*)\n\n)?(.*?)^```", page.read_text(), re.S | re.M):
            found.update(stubs.described(block[1].split(), set(re.split("[ ,]+", block[0]))))
    return found


def test_every_exported_name_is_described(described):
    """What is no enumeration and no exception, which pages list by themselves, stands on a page of the API."""
    listed = {*miopyx.enums.__all__, *miopyx.errors.__all__}
    assert {*miopyx.__all__} - listed - {*described} == set()
    assert "{enumerations}" in (DOCS / "api" / "enumerations.md").read_text()
    assert "{statuses}" in (DOCS / "api" / "errors.md").read_text()


def test_a_signature_is_that_of_the_stub(described):
    head = next(line for line in described["miopenPoolingForward"] if line.startswith(":::{py:function}"))
    stub = ast.parse((ROOT / "miopyx" / "api" / "_pooling.pyi").read_text())
    node = next(n for n in stub.body if getattr(n, "name", "") == "miopenPoolingForward")
    assert re.findall(r"(\w+):", head.partition("(")[2]) == [a.arg for a in node.args.args]


def test_charts_are_drawn():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import charts
    finally:
        sys.path.pop(0)
    used = {name for page in PAGES for name in re.findall(r"^```\{chart\} (\S+)", page.read_text(), re.M)}
    assert used == set(charts.CHARTS)
    for name in charts.CHARTS:
        text = charts.svg(name)
        assert text.count("currentColor") > 5
        assert not re.search(r"#010203|font-family|<style", text)
        assert charts.svg(name) == text
