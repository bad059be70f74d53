"""Imports point down only: the floors of the package, read off the sources."""

import ast
import re
from pathlib import Path

import pytest
from floors import FLOORS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "miopyx"

MAY_IMPORT_PYOPENCL = {"device.devices", "device.probe_child"}


def module_name(path):
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {}
for _path in sorted(p for suffix in ("py", "pyx", "pxd") for p in SOURCES.rglob(f"*.{suffix}")):
    MODULES.setdefault(module_name(_path), []).append(_path)


def floor_of(name):
    found = [i for i, floor in enumerate(FLOORS) if name.split(".")[0] in floor.names]
    assert len(found) == 1, f"miopyx.{name} stands on {len(found)} floors of tests/floors.py"
    return found[0]


def import_lines_of_cython(text):
    """Return (module, names) of every import and cimport line; names is None where the module itself is imported."""
    text = re.sub(r'("""|\'\'\').*?\1', "", text, flags=re.DOTALL)
    text = re.sub(r"#.*", "", text)
    text = re.sub(r"\(([^()]*)\)", lambda match: match[0].replace("\n", " "), text)
    for line in text.splitlines():
        if match := re.match(r"\s*from\s+(\S+)\s+c?import\s+\(?([^)]*)\)?\s*$", line):
            yield match[1], [word.split()[0] for word in match[2].split(",") if word.strip()]
        elif match := re.match(r"\s*c?import\s+(\w[\w., ]*)$", line):
            for word in match[1].split(","):
                yield word.split()[0], None


def import_lines_of_python(text):
    tree = ast.parse(text)
    for_checkers = {
        id(inner) for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None


def absolute(module, package):
    """Return an absolute name for one that starts with dots inside `package`."""
    dots = len(module) - len(module.lstrip("."))
    if not dots:
        return module
    base = package.split(".")[:len(package.split(".")) - dots + 1]
    return ".".join([*base, *filter(None, [module[dots:]])])


def imports(name):
    """Return the absolute names of all modules that a module of ours imports, anywhere in its sources."""
    found = set()
    for path in MODULES[name]:
        text = path.read_text(encoding="utf-8")
        lines = import_lines_of_python(text) if path.suffix == ".py" else import_lines_of_cython(text)
        folder = ".".join(path.relative_to(ROOT).parts[:-1])
        for module, names in lines:
            base = absolute(module, folder)
            inside = base.removeprefix("miopyx").lstrip(".")
            below = {f"{inside}.{word}".lstrip(".") for word in names or ()} & set(MODULES)
            if not base.startswith("miopyx"):
                found.add(base)
            elif below:
                found.update("miopyx." + word for word in below)
            else:
                found.add(base)
    return found - {f"miopyx.{name}".rstrip(".")}


def imports_of_ours(name):
    return {module.removeprefix("miopyx").lstrip(".") for module in imports(name) if module.split(".")[0] == "miopyx"}


def test_reader_of_import_lines():
    text = '''
"""from . import nothing"""
import os, sys
from libc.stdint cimport int64_t  # from . import nothing
from .._core cimport (
    A, B,
    C,
)
cimport cython
from . import config, find as other
def f():
    from .device import open_device
    return "x"
'''
    assert list(import_lines_of_cython(text)) == [
        ("os", None), ("sys", None), ("libc.stdint", ["int64_t"]), (".._core", ["A", "B", "C"]), ("cython", None),
        (".", ["config", "find"]), (".device", ["open_device"]),
    ]
    assert absolute("..enums", "miopyx.api") == "miopyx.enums"
    assert absolute(".", "miopyx") == "miopyx"
    assert absolute(".._core", "miopyx.solvers") == "miopyx._core"
    below = {"engine._invoker", "choose.find", "problem._descriptors", "enums", "errors"}
    assert below <= imports_of_ours("api._convolution")
    assert "problem._descriptors" in imports_of_ours("problem._problem")
    assert "numpy" in imports("engine._handle")


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "miopyx")
def test_imports_point_down(name):
    for other in imports_of_ours(name):
        assert other in MODULES, f"miopyx.{name} imports miopyx.{other}, which is not there"
        assert floor_of(other) <= floor_of(name), f"miopyx.{name} imports miopyx.{other} from a floor above"


def test_no_circles():
    graph = {name: {other for other in imports_of_ours(name) if other} for name in MODULES if name}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name):], name])
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            done.add(path.pop())

    for name in graph:
        visit(name)


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "miopyx")
def test_pyopencl_is_imported_in_two_places(name):
    opencl = {module for module in imports(name) if module.split(".")[0] == "pyopencl"}
    assert not opencl or name in MAY_IMPORT_PYOPENCL
