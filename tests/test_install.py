"""That what is tested is the installed package, whole, and not the sources beside the tests."""

import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy
import pytest

import miopyx
from miopyx.values import compiled, kernels

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "miopyx"
PACKAGE = Path(miopyx.__file__).resolve().parent
NUMPY = str(Path(numpy.__file__).parents[1])
MODULES = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES.rglob("*.pyx"))


def test_imported_from_the_installation():
    assert PACKAGE != SOURCES, "run `pytest` from anywhere, not `python -m pytest` at the project's root"
    assert metadata.version("miopyx") == miopyx.__version__


@pytest.mark.parametrize("name", MODULES)
def test_module_is_compiled(name):
    if name.startswith("miopyx.torch."):
        pytest.importorskip("torch", minversion="2.10")
    file = Path(importlib.import_module(name).__file__).resolve()
    assert file.is_relative_to(PACKAGE)
    assert file.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


@pytest.mark.parametrize("folder", sorted({name.rpartition(".")[0] for name in MODULES}))
def test_one_library(folder):
    """A folder's modules are found in the package's library, and no others are taken for such."""
    where = PACKAGE.joinpath(*folder.split(".")[1:])
    [file] = PACKAGE.rglob("*.so")
    finder = pkgutil.get_importer(str(where))
    assert isinstance(finder, compiled.Finder)
    for name in (name for name in MODULES if name.rpartition(".")[0] == folder):
        spec = finder.find_spec(name)
        assert (spec.name, spec.origin, spec.has_location) == (name, str(file), True)
    for name in ("_nothing", "_compiled", "nothing"):
        assert finder.find_spec(f"{folder}.{name}") is None


def test_what_python_asks_of_compiled_modules():
    """As of those that it finds by itself: where they are, whether they are, again, by name, not their text."""
    [name, other] = ["miopyx.engine._plan", "miopyx.engine._handle"]
    plan = importlib.import_module(name)
    spec = importlib.util.find_spec(name)
    assert spec.origin == plan.__file__ == plan.__spec__.origin == importlib.util.find_spec(other).origin
    assert importlib.util.find_spec("miopyx.engine._nothing") is None
    with pytest.raises(ImportError, match=r"cannot import name '_nothing' from 'miopyx\.engine'"):
        from miopyx.engine import _nothing  # noqa: F401
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'miopyx\.engine\._nothing'"):
        importlib.import_module("miopyx.engine._nothing")
    assert importlib.reload(plan) is plan
    assert plan.__name__ == name
    assert plan.Plan is miopyx.Plan
    for value in (miopyx.Plan, miopyx.miopenPoolingForward):
        assert pickle.loads(pickle.dumps(value)) is value
        assert inspect.getmodule(value).__name__ == value.__module__
        with pytest.raises((OSError, TypeError)):
            inspect.getsource(value)
    assert list(inspect.signature(miopyx.miopenSet4dTensorDescriptor).parameters) == [
        "tensorDesc", "dataType", "n", "c", "h", "w"]


def test_listed_modules():
    """pkgutil, and thus pydoc, lists what is compiled and no libraries."""
    found = [module.name for module in pkgutil.walk_packages(miopyx.__path__, "miopyx.", onerror=lambda name: None)]
    assert len(found) == len(set(found))
    assert not [name for name in found if name.endswith("_compiled")]
    with_torch = "miopyx.torch._layers" in found
    assert set(found) >= {name for name in MODULES if with_torch or not name.startswith("miopyx.torch.")}


def test_the_finder_is_there_once():
    before = list(sys.path_hooks)
    assert compiled.install(miopyx.__path__)
    assert sys.path_hooks == before
    assert [hook.__module__ for hook in before].count(compiled.__name__) == 1


def test_sources_in_another_folder_than_the_library(tmp_path, monkeypatch):
    """As those of an editable installation."""
    monkeypatch.setattr(compiled, "_folders", {})
    monkeypatch.setattr(sys, "path_hooks", list(sys.path_hooks))
    (tmp_path / "miopyx" / "engine").mkdir(parents=True)
    assert compiled.install([f"{tmp_path}/miopyx", str(PACKAGE)])
    finder = compiled.Finder(f"{tmp_path}/miopyx/engine")
    assert Path(finder.find_spec("miopyx.engine._plan").origin).parent == PACKAGE


def test_a_kernel_that_is_tried_comes_first(tmp_path, monkeypatch):
    before = kernels.names("conv")
    monkeypatch.setattr(kernels, "FOLDER", tmp_path)
    (tmp_path / "conv").mkdir()
    for name in ("naive", "another"):
        (tmp_path / "conv" / f"{name}.cl").write_text(name)
    assert (kernels.read("conv/naive.cl"), kernels.read("conv/another.cl")) == (b"naive", b"another")
    assert kernels.read("conv/im2col.cl")
    assert kernels.names("conv") == sorted([*before, "conv/another.cl"])
    with pytest.raises(OSError, match="none"):
        kernels.read("conv/none.cl")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Return a folder with the package, to be damaged."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copytree(PACKAGE, folder / "miopyx", ignore=shutil.ignore_patterns("__pycache__", "db", "kernels.txt"))
    return folder


def said(folder, *others):
    """Return what an import in a new process says, which finds modules in the folder and in others."""
    done = subprocess.run([sys.executable, "-S", "-P", "-c", "import miopyx; print(miopyx.__file__)"], cwd=folder,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *others])})
    return (done.stdout or done.stderr).splitlines()[-1]


def test_a_library_that_is_missing_or_broken(copied):
    [file] = (copied / "miopyx").glob("_compiled*")
    assert said(copied, NUMPY) == str(copied / "miopyx" / "__init__.py")
    whole = file.rename(file.with_name("whole"))
    named = f"ImportError: (Error loading shared library )?{re.escape(str(file))}: "  # by glibc, by musl
    assert re.match(named + ".*No such file", said(copied, NUMPY))
    for data in (b"", b"nothing that can be loaded" * 9):
        file.write_bytes(data)
        assert re.match(named, said(copied, NUMPY))
    whole.rename(file)


@pytest.mark.parametrize("text", ["", "\n", "_compiled.cpython-39-x86_64-linux-gnu.so\nmiopyx _core\n", "\xff", None])
def test_compiled_for_no_python_or_another(copied, text):
    names = copied / "miopyx" / compiled.NAMES
    whole = names.read_bytes()
    if text is None:
        names.unlink()
    else:
        names.write_text(text, encoding="latin-1")
    assert said(copied).startswith(f"ImportError: {copied / 'miopyx'} has the sources of miopyx, not its compiled")
    names.write_bytes(whole)
    assert said(copied, NUMPY) == str(copied / "miopyx" / "__init__.py")


def test_the_host_takes_the_widest_instructions_of_this_cpu():
    """Whatever compiler built it: a library of its own that knows no CPU would cost two thirds of the speed."""
    with open("/proc/cpuinfo") as file:
        flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    if not flags:
        pytest.skip("not x86-64")
    expected = "baseline"
    if {"avx2", "fma", "f16c"} <= flags:
        expected = "avx512" if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags else "avx2"
    code = "from miopyx.host._kernels import isa; print(isa())"
    environment = {name: value for name, value in os.environ.items() if name != "MIOPYX_HOST_ISA"}
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True,
                          env=environment)
    assert done.stdout.strip() == expected


def test_package_is_complete_and_holds_no_sources():
    def files(folder, *suffixes):
        return {path.relative_to(folder) for path in folder.rglob("*")
                if path.suffix in suffixes or path.name == "py.typed"}

    travelling = (".py", ".pyi", ".txt")
    found = files(PACKAGE, *travelling) - {Path(compiled.NAMES), Path(kernels.PACKED.name)}
    assert found == files(SOURCES, *travelling), "the installation is older than the sources"
    assert not [path for path in PACKAGE.rglob("*") if path.suffix in (".pyx", ".pxd", ".c")]
    assert not (PACKAGE / "kernels").exists()


def test_import_touches_no_device_and_nothing_large_but_numpy(tmp_path):
    code = "import sys, miopyx; print(*{'pyopencl', 'ml_dtypes', 'platformdirs'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={**os.environ, "MIOPYX_CACHE_DIR": str(tmp_path / "cache")})
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert not list(tmp_path.iterdir()), "importing miopyx made a file"
