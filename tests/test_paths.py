"""Names and places of databases, and whose file a device takes."""

import bz2
import socket
from pathlib import Path

import pytest

import miopyx
from miopyx.database import paths, store
from miopyx.database._records import read_find
from miopyx.database._system_file import RecordFile
from miopyx.device import devices
from miopyx.problem._key import find_key, parse_find_key
from miopyx.solvers import registry


@pytest.fixture
def info():
    return devices.find("host")._replace(name="nv-sm90_132", kind="gpu", driver_version="1.2")


@pytest.fixture
def system(tmp_path, setting):
    """Return a function that puts files into the system's folder."""
    setting(MIOPEN_SYSTEM_DB_PATH=tmp_path / "system", MIOPEN_USER_DB_PATH=tmp_path / "user")
    store.forget()

    def put(*names):
        (tmp_path / "system").mkdir(exist_ok=True)
        for name in names:
            (tmp_path / "system" / name).write_bytes(b"")

    return put


def test_defaults(setting, info, tmp_path):
    setting(MIOPEN_SYSTEM_DB_PATH="", MIOPEN_USER_DB_PATH="", HOME=tmp_path)
    assert paths.system_folder() == paths.PACKAGE / "db"
    assert paths.system_folder().is_dir(), "the folder ships"
    assert paths.user_folder() == tmp_path / ".config" / "miopen"
    path = paths.user_file(info, "ufdb")
    assert path.parent == paths.user_folder()
    assert path.name == f"nv-sm90_132.OpenCL.{paths.build()}.ufdb.txt"
    assert paths.user_file(info._replace(kind="host", name="host-avx2_4"), "udb").name == (
        f"host-avx2_4.Host.{paths.build()}.udb.txt")


def test_build_names_version_and_kernels():
    parts = paths.build().split("_")
    assert len(parts) >= 4
    assert len(parts[-1]) == 8
    int(parts[-1], 16)


def test_folders_from_the_environment(setting, info, tmp_path):
    setting(MIOPEN_SYSTEM_DB_PATH="~/system", MIOPEN_USER_DB_PATH=tmp_path, HOME=tmp_path)
    assert paths.system_folder() == tmp_path / "system"
    assert paths.user_file(info, "ufdb").parent == tmp_path


@pytest.mark.parametrize(("files", "chosen"), [
    ((), None),
    (("nv-sm90_132.OpenCL.fdb.txt",), 0),
    (("nv-sm90_114.OpenCL.fdb.txt", "nv-sm90_132.OpenCL.fdb.txt.bz2"), 1),
    (("nv-sm90_132.OpenCL.fdb.txt.bz2", "nv-sm90_132.OpenCL.fdb.txt"), 1),
    (("nv-sm90_114.OpenCL.fdb.txt", "nv-sm90_152.OpenCL.fdb.txt"), 0),
    (("nv-sm90_100.OpenCL.fdb.txt", "nv-sm90_150.OpenCL.fdb.txt.bz2"), 1),
    (("nv-sm90_132.HIP.fdb.txt", "nv-sm90_132.Host.fdb.txt", "nv-sm90_132.OpenCL.ufdb.txt"), None),
    (("nv-sm80_132.OpenCL.fdb.txt", "nv-sm90-x_132.OpenCL.fdb.txt", "nv-sm90132.OpenCL.fdb.txt"), None),
    (("nv-sm90_.OpenCL.fdb.txt", "nv-sm90_0x84.OpenCL.fdb.txt", "nv-sm90_132.OpenCL.fdb.txt.gz"), None),
])
def test_nearest_device(system, info, files, chosen):
    system(*files)
    path = paths.system_file(info, "fdb")
    assert (path.name if path else None) == (None if chosen is None else files[chosen])


@pytest.mark.parametrize(("units", "files", "chosen"), [
    (104, ("gfx90a68.OpenCL.fdb.txt", "gfx90a6e.OpenCL.fdb.txt"), 0),
    (110, ("gfx90a68.OpenCL.fdb.txt", "gfx90a6e.OpenCL.fdb.txt.bz2"), 1),
    (60, ("gfx90a_60.OpenCL.fdb.txt", "gfx90a68.OpenCL.fdb.txt"), 0),
    (104, ("gfx90a68.OpenCL.fdb.txt", "amd-gfx90a_104.OpenCL.fdb.txt"), 1),
    (304, ("gfx942130.OpenCL.fdb.txt", "gfx90a68.OpenCL.fdb.txt"), 1),
])
def test_amds_names(system, info, units, files, chosen):
    system(*files)
    path = paths.system_file(info._replace(name=f"amd-gfx90a_{units}"), "fdb")
    assert path.name == files[chosen]


def test_amds_perf_db(system, info):
    system("gfx942130.db.txt", "gfx942130.OpenCL.fdb.txt", "gfx942_60.db.txt.bz2")
    assert paths.system_file(info._replace(name="amd-gfx942_304"), "db").name == "gfx942130.db.txt"
    assert paths.system_file(info._replace(name="amd-gfx942_64"), "db").name == "gfx942_60.db.txt.bz2"


def test_the_choice_is_each_devices_own(system, info):
    system("nv-sm90_132.OpenCL.fdb.txt", "nv-sm80_108.OpenCL.fdb.txt")
    one = store.of(info)
    other = store.of(info._replace(name="nv-sm80_100"))
    assert one.system_find.path.name == "nv-sm90_132.OpenCL.fdb.txt"
    assert other.system_find.path.name == "nv-sm80_108.OpenCL.fdb.txt"
    assert store.of(info) is one


MOUNTS = r"""
22 1 0:21 / / rw,relatime - ext4 /dev/vda1 rw
23 22 0:5 / /home rw,relatime shared:2 - nfs4 server:/home rw
24 23 0:6 / /home/local rw - xfs /dev/vdb rw
25 22 0:7 / /mnt/with\040space rw master:1 - fuse.sshfs me@there: rw
26 22 0:8 / /scratch rw - ext4 /dev/vdc rw
27 26 0:9 / /scratch rw - lustre mgs:/fs rw
broken line
"""


@pytest.mark.parametrize(("path", "network"), [
    ("/home/me/.config/miopen", True), ("/home", True), ("/homes/me", False), ("/home/local/me", False),
    ("/mnt/with space/db", True), ("/var/lib", False), ("/scratch/db", True),
])
def test_network_file_systems(path, network):
    assert paths.is_network(Path(path), MOUNTS) is network


def test_a_file_for_each_machine_on_a_network(setting, info, monkeypatch, tmp_path):
    setting(MIOPEN_USER_DB_PATH=tmp_path)
    monkeypatch.setattr(paths, "is_network", lambda _: True)
    monkeypatch.setattr(socket, "gethostname", lambda: "node7.cluster/x")
    assert paths.user_file(info, "ufdb").name == f"nv-sm90_132.OpenCL.{paths.build()}-node7-cluster-x.ufdb.txt"


def test_without_a_home(setting, info, monkeypatch, caplog):
    setting(MIOPEN_USER_DB_PATH="")
    monkeypatch.setattr(paths.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert paths.user_file(info, "ufdb") is None
    store.forget()
    databases = store.of(info._replace(name="homeless_1"))
    assert databases.user_find.get(b"key") is None
    assert databases.user_find.update(b"key", lambda old: b"") is False
    store.forget()


def test_every_record_of_an_h200_is_what_solvers_say(h200):
    file = RecordFile(Path(miopyx.__file__).parent / "db" / "nv-sm90_132.OpenCL.fdb.txt.bz2")
    assert file.problem == ""
    assert not file.skipped
    for key, value in file:
        problem, record = parse_find_key(key), read_find(value)
        assert find_key(problem) == key
        assert record.items
        assert not record.failed
        for item in record.items:
            solver = registry.BY_NAME[item.solver]
            assert solver.why_not(h200.device, problem) is None, (key, item.solver)
            assert solver.workspace_size(h200.device, problem) == item.workspace, (key, item.solver)


def test_an_h200_knows_resnet_without_a_search(h200):
    """The find-db that ships answers immediate mode."""
    conv = miopyx.ConvolutionDescriptor((1, 1))
    file = Path(miopyx.__file__).parent / "db" / "nv-sm90_132.OpenCL.fdb.txt.bz2"
    records = dict(line.split("=", 1) for line in bz2.decompress(file.read_bytes()).decode().splitlines())
    for dtype, layout, key, first in (("float16", miopyx.miopenTensorNHWC, "NHWC-NHWC-NHWC-FP16", "NvWgmmaFwd"),
                                      ("bfloat16", miopyx.miopenTensorNHWC, "NHWC-NHWC-NHWC-BF16", "NvWgmmaFwd"),
                                      ("float16", miopyx.miopenTensorNCHW, "NCHW-FP16", "NvWgmmaFwd"),
                                      ("float32", miopyx.miopenTensorNCHW, "NCHW-FP32", "NvPairsFwd")):
        x, w = (miopyx.TensorDescriptor(dtype, lens, layout=layout) for lens in ((256, 64, 56, 56), (64, 64, 3, 3)))
        found = miopyx.miopenConvolutionForwardGetSolution(h200, w, x, conv, x, 99)
        assert miopyx.solver_name(found[0].solution_id) == first
        record = records[f"64-56-56-3x3-64-56-56-256-1x1-1x1-1x1-0-{key}-F"]
        (time,) = (item.split(":")[1].split(",")[0] for item in record.split(";") if item.startswith(f"{first}:"))
        assert found[0].time == pytest.approx(float(time), rel=1e-5)
