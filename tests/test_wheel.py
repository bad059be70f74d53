"""What is packed: the installed package's list of files, the source archive, and the wheel that WHEEL names."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest

from miopyx.values import kernels

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKED = {".py", ".pyi", ".so", ".txt", ".model", ".bz2", ".md", ".typed"}
OF_KERNELS = {".cl", ".h"}
# Without the GIL there is more code.
MOST_BYTES = 4 << 20 if sysconfig.get_config_var("Py_GIL_DISABLED") else 4_000_000
BILL = "sboms/miopyx.cdx.json"


@pytest.fixture(scope="module")
def installed():
    """Return the files of the installed package by their names, those apart that installing adds."""
    files = metadata.files("miopyx")
    if not any(file.suffix == ".so" for file in files):
        pytest.skip("an editable installation")
    return {file.as_posix(): file.locate() for file in files
            if file.suffix != ".pyc" and not file.as_posix().startswith("..")
            and file.name not in ("INSTALLER", "REQUESTED", "direct_url.json")}


@pytest.fixture(scope="module")
def wheel():
    name = os.environ.get("WHEEL", "")
    if not name:
        pytest.skip("WHEEL names no wheel")
    return Path(name)


def not_wanted(names):
    """Return the names that have no place in a wheel."""
    return [name for name in names if not re.fullmatch(r"miopyx-[\w.]+\.dist-info/.+", name) and (
        not name.startswith("miopyx/") or PurePosixPath(name).suffix not in PACKED or "test" in name.split("/")[1])]


def test_not_wanted():
    bad = ["tests/test_a.py", "miopyx/_core.pyx", "miopyx/host/pool.c", "miopyx/host/pool.h", "miopyx/host/a.cmake",
           "miopyx/kernels/include/common.h", "docs/a.md", "miopyx.libs/libgcc_s.so", "miopyx/__pycache__/a.pyc",
           "miopyx/tests/a.py"]
    good = ["miopyx/__init__.py", "miopyx/kernels.txt", "miopyx-0.2.0.dist-info/METADATA"]
    assert not_wanted(bad + good) == bad


def test_the_installation_holds_nothing_else(installed):
    assert not not_wanted(installed)
    [folder] = {name.split("/")[0] for name in installed if ".dist-info/" in name}
    assert {name.removeprefix(folder + "/") for name in installed if name.startswith(folder)} >= {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", BILL}


def test_kernels_without_comments(installed):
    """Their lines are where they are in the sources; strings are as they were, which for PTX may look like comments."""
    word = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    folder = ROOT / "miopyx" / "kernels"
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.suffix in OF_KERNELS]
    assert kernels.names("conv", "include", "layers") == sorted(names)
    assert "miopyx/kernels.txt" in installed
    for name in names:
        source = (folder / name).read_text(encoding="utf-8")
        text = kernels.read(name).decode()
        assert text.count("\n") == source.count("\n"), name
        assert [found for found in word.findall(text) if not found.startswith('"')] == [], name
        assert [line.split() for line in word.sub(lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[
            0].count("\n"), source).split("\n")] == [line.split() for line in text.split("\n")], name


def test_extras():
    wanted = metadata.requires("miopyx")
    assert set(metadata.metadata("miopyx").get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    for extra, name in (("cpu", "intel-opencl-rt"), ("cpu", "intel-cmplr-lib-rt"), ("torch", "torch"), ("onnx", "onnx"),
                        ("tune", "distributed")):
        [line] = [line for line in wanted if re.match(rf"{name}\b.*extra == .{extra}\b", line)]
        # Intel has wheels for nothing else, and an extra that cannot be installed would fail the whole command.
        assert (extra == "cpu") == bool(re.search("platform_machine == .x86_64.*sys_platform == .linux", line))
    assert not [line for line in wanted if "torch" in line and "extra == 'torch'" not in line.replace('"', "'")]


def test_bill_of_materials(installed):
    [file] = [file for name, file in installed.items() if name.endswith(BILL)]
    bill = json.loads(Path(file).read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["version"] == metadata.version("miopyx")
    needed = {part["name"] for part in bill["components"] if part["bom-ref"].startswith("needed:")}
    assert needed == {re.match(r"[\w.-]+", line)[0] for line in PROJECT["dependencies"]}
    compiled = {part["name"]: part["version"] for part in bill["components"] if "version" in part}
    assert {"Cython", "numpy"} < set(compiled)
    assert re.match(r"\d+\.\d+", compiled["Cython"])
    assert re.match(r"\d+\.\d+", compiled["numpy"])
    assert {ref for entry in bill["dependencies"] for ref in entry["dependsOn"]} == {
        part["bom-ref"] for part in bill["components"]}


def test_source_archive(tmp_path):
    """It holds every source of the package and what building needs, and neither tests nor pages."""
    pytest.importorskip("scikit_build_core")
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone: there is no list of files")
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [file] = tmp_path.iterdir()
    with tarfile.open(file) as archive:
        found = {PurePosixPath(*PurePosixPath(member.name).parts[1:]).as_posix()
                 for member in archive.getmembers() if member.isfile()}
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.splitlines()
    assert found == {name for name in listed if name.startswith("miopyx/")} | {
        "pyproject.toml", "CMakeLists.txt", "cmake/transpile.py", "cmake/kernels.py", "cmake/sbom.py", "LICENSE",
        "README.md", "PKG-INFO"}


def test_wheel_is_small_and_whole(wheel, installed):
    assert wheel.stat().st_size <= MOST_BYTES
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
    assert not not_wanted(names)
    assert set(names) == set(installed)


def test_wheel_has_the_tag(wheel):
    name, version, python, abi, platforms = wheel.stem.split("-")
    assert (name, version) == ("miopyx", metadata.version("miopyx"))
    assert python == "cp{}{}".format(*sys.version_info)
    assert abi == python + getattr(sys, "abiflags", "")
    assert {re.sub("_(x86_64|aarch64)$", "", each) for each in platforms.split(".")} & {"manylinux_2_28",
                                                                                      "musllinux_1_2"}


def test_wheel_says_nothing_of_where_it_was_made(wheel):
    """Nor when: the same sources make the same bytes in any folder."""
    with zipfile.ZipFile(wheel) as file:
        assert len({entry.date_time for entry in file.infolist()}) == 1
        for name in file.namelist():
            assert not re.search(rb"/(tmp|home|root|project|work)/[\w.-]+/", file.read(name)), name
