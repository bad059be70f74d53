"""That what is tested is the installed package, whole, and not the sources beside the tests."""

import importlib
import importlib.machinery
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import miopyx
from miopyx.values import compiled

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "miopyx"
PACKAGE = Path(miopyx.__file__).resolve().parent
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
def test_one_library_a_folder(folder):
    """The modules of a folder are its library's, and no others are taken for such."""
    where = [str(PACKAGE.joinpath(*folder.split(".")[1:]))]
    (file,) = (path for path in Path(where[0]).iterdir() if path.suffix == ".so")
    assert compiled.library(where[0]) == str(file)
    for name in (name for name in MODULES if name.rpartition(".")[0] == folder):
        spec = compiled.Finder.find_spec(name, where)
        assert (spec.name, spec.origin, spec.has_location) == (name, str(file), True)
        assert compiled.Finder.find_spec(name.partition(".")[2], where) is None
        assert compiled.Finder.find_spec(name, [str(ROOT / "docs")]) is None
    for name in ("__main__", "x"):
        assert compiled.Finder.find_spec(f"{folder}.{name}", where) is None


def test_the_finder_is_there_once():
    compiled.install()
    assert [finder for finder in sys.meta_path if getattr(finder, "__module__", "") == compiled.__name__] == [
        compiled.Finder]


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

    travelling = (".py", ".pyi", ".cl", ".txt")
    assert files(PACKAGE, *travelling) == files(SOURCES, *travelling), "the installation is older than the sources"
    assert not [path for path in PACKAGE.rglob("*") if path.suffix in (".pyx", ".pxd", ".c")]
    assert (PACKAGE / "kernels" / "include/common.h").exists()


def test_import_touches_no_device_and_nothing_large_but_numpy(tmp_path):
    code = "import sys, miopyx; print(*{'pyopencl', 'ml_dtypes', 'platformdirs'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
                          env={**os.environ, "MIOPYX_CACHE_DIR": str(tmp_path / "cache")})
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert not list(tmp_path.iterdir()), "importing miopyx made a file"
