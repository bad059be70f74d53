"""Finding, probing, naming, ranking and opening devices; the doctor; runtimes that no loader finds."""

import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ids import shown

from miopyx import Handle
from miopyx.device import devices, icd, info, probing
from miopyx.errors import BadParmError, UnknownError
from miopyx.tools import cli
from miopyx.values import config

GPU, CPU, ACCELERATOR = 4, 2, 8
POCL_VERSION = "OpenCL 3.0 PoCL HSTR: {}-x86_64-pc-linux-gnu-{}"


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    """Give every test an empty cache folder and a process that has not looked at any device yet."""
    monkeypatch.setenv("MIOPYX_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("MIOPYX_CACHE", "MIOPYX_DEVICE", "MIOPYX_PROBE_TIMEOUT", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(devices, "_found", None)
    monkeypatch.setattr(devices, "_problems", [])
    monkeypatch.setattr(devices, "_warned", set())
    monkeypatch.setattr(probing, "_verdicts", {})
    config.forget()
    yield
    config.forget()


@pytest.fixture(scope="session")
def opencl_device(tmp_path_factory):
    """Return a real OpenCL device that works."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIOPYX_CACHE_DIR", str(tmp_path_factory.mktemp("devices") / "cache"))
        config.forget()
        info = next((info for info in devices.candidates() if info.kind != "host" and devices.probe(info).ok), None)
    config.forget()
    return info or pytest.skip("no OpenCL device works here")


def fake_device(name, kind=CPU, units=4, vendor="Vendor", driver="1.0", version="OpenCL 3.0", platform=None, **more):
    platform = platform or SimpleNamespace(name="A platform", vendor="Vendor", version="OpenCL 3.0")
    return SimpleNamespace(
        name=name, type=kind, max_compute_units=units, vendor=vendor, driver_version=driver, version=version,
        opencl_c_version="OpenCL C 1.2", extensions="cl_khr_fp64 cl_khr_icd", max_work_group_size=1024,
        global_mem_size=1 << 30, max_mem_alloc_size=1 << 28, local_mem_size=1 << 15, mem_base_addr_align=1024,
        host_unified_memory=int(kind == CPU), platform=platform, **more)


POCL = SimpleNamespace(name="Portable Computing Language", vendor="The pocl project", version="OpenCL 3.0 PoCL 3.1")
NVIDIA = SimpleNamespace(name="NVIDIA CUDA", vendor="NVIDIA Corporation", version="OpenCL 3.0 CUDA 12.4")
AMD = SimpleNamespace(name="AMD Accelerated Parallel Processing", vendor="Advanced Micro Devices, Inc.", version="2.1")
INTEL = SimpleNamespace(name="Intel(R) OpenCL", vendor="Intel(R) Corporation", version="OpenCL 3.1 LINUX")
XEON = "Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz"


def pocl_device(driver="pthread", target="skylake-avx512", release="3.1+debian", units=4):
    return fake_device(f"{driver}-{target}-{XEON}", units=units, driver=release, platform=POCL,
                       version=POCL_VERSION.format(driver, target))


H200 = fake_device("NVIDIA H200", GPU, 132, platform=NVIDIA, compute_capability_major_nv=9,
                   compute_capability_minor_nv=0)


@pytest.fixture
def install(monkeypatch):
    """Return a function that makes discovery see the given fake devices, one platform each, and set their verdicts."""
    monkeypatch.setattr(devices, "_vendor_library", lambda platform: "")
    monkeypatch.setattr(icd, "_runtimes", [])
    monkeypatch.setattr(devices, "probe_platforms", lambda extension: probing.Verdict(True, "", 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 256)

    def see(*fakes, failing=()):
        platforms = [SimpleNamespace(**{**vars(d.platform), "get_devices": lambda d=d: [d]}) for d in fakes]
        opencl = SimpleNamespace(get_platforms=lambda: platforms, _cl=SimpleNamespace(__file__="/nowhere/_cl.so"),
                                 device_type=SimpleNamespace(GPU=GPU, CPU=CPU, ACCELERATOR=ACCELERATOR))
        monkeypatch.setattr(devices, "_opencl", lambda: opencl)
        monkeypatch.setattr(devices, "_found", None)

        def probe(info):
            bad = any(word in f"{info.name} {info.driver_version}" for word in failing)
            return probing.Verdict(not bad, "unknown target CPU 'generic'" if bad else "right results", 0.1)

        monkeypatch.setattr(devices, "probe", probe)

    return see


def fake_child(monkeypatch, code):
    monkeypatch.setattr(probing, "_command", lambda request: [sys.executable, "-c", code, request])


ANSWER = ("import json, sys; r = json.loads(sys.argv[1]); print('chatter'); "
          "print(json.dumps({{'nonce': r['nonce'], {}}}))")
RIGHT = ANSWER.format("'ok': True, 'why': ''")
WRONG = ANSWER.format("'ok': False, 'why': 'wrong results'")


def info_of(name="pocl-some-cpu-pthread_4", **more):
    told = {"kind": "cpu", "name": name, "platform_index": 0, "device_index": 0}
    return devices.find("host")._replace(**{**told, **more})


# ------------------------------------------------------------------------------------------------------- discovery


def test_importing_touches_no_device():
    code = "import sys, miopyx.device.devices, miopyx.tools.cli; sys.exit('pyopencl' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0


def test_host_is_always_there_and_last():
    host = devices.discover()[-1]
    assert host.kind == "host"
    assert host.handle is None
    assert re.fullmatch(r"host-[a-z0-9-]+_\d+", host.name)
    assert host.compute_units == config.num_threads()


def test_no_pyopencl(monkeypatch):
    def missing():
        raise ImportError("No module named 'pyopencl'")

    monkeypatch.setattr(devices, "_opencl", missing)
    assert [info.kind for info in devices.discover()] == ["host"]
    assert "pyopencl" in devices.problems()[0]
    assert devices.best().kind == "host"
    with pytest.raises(UnknownError, match="pyopencl"):
        devices.loader_path()
    assert devices.loader_library() == ""


def test_no_runtime(tmp_path):
    (tmp_path / "empty").mkdir()
    environment = {**os.environ, "OCL_ICD_VENDORS": str(tmp_path / "empty")}
    code = ("from miopyx.device import devices; "
            "print([i.name for i in devices.discover() if 'pyopencl' not in i.library], "
            "devices.problems(), devices.ranked()[-1].kind)")
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True,
                          check=True)
    assert done.stdout.startswith("['host-")
    assert done.stdout.rstrip().endswith("host")


def test_broken_platforms_cost_only_themselves(install, monkeypatch):
    def broken():
        raise RuntimeError("the platform's driver\nfell over")

    install(H200, pocl_device(), pocl_device("basic"))
    platforms = devices._opencl().get_platforms()
    platforms[1].get_devices = broken
    del platforms[2].get_devices()[0].extensions
    assert [info.name for info in devices.discover()[:-1]] == ["nv-sm90_132"]
    assert len(devices.problems()) == 2
    assert "fell over" in devices.problems()[0]
    assert all("\n" not in line for line in devices.problems())


def test_platforms_that_end_the_process_are_not_asked(install, monkeypatch):
    install(H200)
    monkeypatch.setattr(devices, "probe_platforms", probing.probe_platforms)
    fake_child(monkeypatch, "import os, sys; print('Not enough memory', file=sys.stderr); os.abort()")
    assert [info.kind for info in devices.discover()] == ["host"]
    assert "SIGABRT: Not enough memory" in devices.problems()[0]
    forget_in_process(monkeypatch)
    monkeypatch.setattr(devices, "_found", None)
    monkeypatch.setattr(sys, "executable", "")  # nothing is asked anew while the verdict is young
    assert "SIGABRT: Not enough memory" in devices.problems()[0]


def test_real_devices_are_described(opencl_device):
    info = opencl_device
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+_[1-9]\d*", info.name)
    assert info.name.endswith(f"_{info.compute_units}")
    assert info.max_alloc <= info.global_mem
    assert info.mem_base_align in (16, 32, 64, 128, 256, 512)
    assert Path(info.library).is_file()
    assert Path(devices.loader_path()).is_file()
    assert Path(devices.loader_library()).is_file()


# ----------------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(("fake", "name", "kind"), [
    (H200, "nv-sm90_132", "gpu"),
    (pocl_device(), "pocl-xeon-gold-6248-2500mhz-skylake-avx512-pthread_4", "cpu"),
    (pocl_device("basic", units=1), "pocl-xeon-gold-6248-2500mhz-skylake-avx512-basic_1", "cpu"),
    (fake_device(f"pthread-{XEON}", platform=POCL, version=POCL_VERSION.format("pthread", "cascadelake")),
     "pocl-xeon-gold-6248-2500mhz-cascadelake-pthread_4", "cpu"),
    (fake_device("cpu-znver4-AMD EPYC 9654 96-Core Processor", units=192, platform=POCL,
                 version=POCL_VERSION.format("cpu", "znver4")), "pocl-epyc-9654-znver4-cpu_192", "cpu"),
    (fake_device("gfx90a:sramecc+:xnack-", GPU, 104, platform=AMD), "amd-gfx90a_104", "gpu"),
    (fake_device("Intel(R) Arc(TM) A770 Graphics", GPU, 512, platform=INTEL), "intel-intel-r-arc-tm-a770-graphics_512",
     "gpu"),
    (fake_device("Some/Board: 7 (b) ñ", ACCELERATOR, 2, vendor="ACME, Inc."), "acme-inc-some-board-7-b_2",
     "accelerator"),
    (fake_device("///", GPU, 2, vendor="..."), "gpu-gpu_2", "gpu"),
])
def test_names(install, fake, name, kind):
    install(fake)
    info = devices.discover()[0]
    assert (info.name, info.kind) == (name, kind)
    assert info.mem_base_align == 128
    assert info.fp64
    assert not info.fp16


def test_intel_cpu_name(install):
    install(fake_device(XEON, units=8, platform=INTEL))
    assert re.fullmatch(r"intel-xeon-gold-6248-2500mhz-[a-z0-9-]+_8", devices.discover()[0].name)


# ----------------------------------------------------------------------------------------------------------- probe


def test_real_probe_and_its_cache(opencl_device, monkeypatch):
    first = devices.probe(opencl_device)
    assert first.ok
    assert first.probed
    assert not first.cached
    monkeypatch.setattr(subprocess, "Popen", None)  # from here on a child would be a TypeError
    assert devices.probe(opencl_device) is first
    monkeypatch.setattr(probing, "_verdicts", {})
    again = devices.probe(opencl_device)
    assert again == first._replace(cached=True)
    assert devices.forget_verdicts() == 1
    assert list((config.cache_dir() / "probe").iterdir()) == []


def test_real_child_does_not_find_another_device(opencl_device):
    verdict = devices.probe(opencl_device._replace(device_name="something else"))
    assert not verdict.ok
    assert "does not see" in verdict.why


def test_real_build_failure(opencl_device, monkeypatch):
    if opencl_device.runtime != "pocl":
        pytest.skip("needs PoCL's switch to make every build fail")
    monkeypatch.setenv("POCL_EXTRA_BUILD_FLAGS", "-march=none")
    verdict = devices.probe(opencl_device)
    assert not verdict.ok
    assert "building a kernel failed" in verdict.why
    assert "-march=none" in verdict.why
    monkeypatch.delenv("POCL_EXTRA_BUILD_FLAGS")
    assert devices.probe(opencl_device).ok  # the failure belongs to that setting


def test_host_needs_no_probe(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    assert devices.probe(devices.find("host")).ok


@pytest.mark.parametrize(("code", "expected"), [
    (RIGHT, "right results"),
    (WRONG, "wrong results"),
    ("import os; os.abort()", "died in the driver with SIGABRT"),
    # A sanitizer's handler, which turns the signal into an exit code, must not stand in between.
    ("import os, signal; signal.signal(signal.SIGSEGV, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGSEGV)",
     "died in the driver with SIGSEGV"),
    ("import sys; sys.stderr.write('error: unknown target CPU \\'generic\\'\\n'); sys.exit(3)",
     "exit code 3: error: unknown target CPU 'generic'"),
    (RIGHT + "; import os; sys.stdout.flush(); os.abort()", "after right results, at exit with SIGABRT"),
    ("print('{\"ok\": true}')", "no answer that makes sense"),
    ("print('{\"nonce\": \"0\", \"ok\": true, \"why\": \"\"}')", "no answer that makes sense"),
    ("import os; os.write(1, os.urandom(1 << 20))", "no answer that makes sense"),
    ("print('[' * 100000)", "no answer that makes sense"),
    ("", "no answer that makes sense"),
])
def test_children_of_all_kinds(monkeypatch, code, expected):
    fake_child(monkeypatch, code)
    verdict = devices.probe(info_of())
    assert verdict.ok is (code == RIGHT)
    assert verdict.probed
    assert expected in verdict.why
    assert "\n" not in verdict.why
    assert len(verdict.why) < 700


TRYING = ANSWER.format("'ok': True, 'why': '', 'trying': True") + "; sys.stdout.flush()"


@pytest.mark.parametrize(("then", "memory"), [
    (RIGHT.replace("'why': ''", "'why': '', 'pointers': True"), "pointers"),
    (RIGHT.replace("'why': ''", "'why': '', 'pointers': False"), "buffers"),
    (RIGHT.replace("'why': ''", "'why': '', 'pointers': 1"), "buffers"),
    ("import os; os.abort()", "unfinished"),
    ("import time; time.sleep(60)", "unfinished"),
    ("", "unfinished"),
])
def test_what_is_tried_beyond_right_results(monkeypatch, then, memory):
    """Memory by its address is one thing more: whatever becomes of it, the device works."""
    monkeypatch.setenv("MIOPYX_PROBE_TIMEOUT", "2")
    fake_child(monkeypatch, f"{TRYING}; {then}")
    assert not probing.takes_pointers(info_of())  # nothing is known yet
    verdict = devices.probe(info_of())
    assert (verdict.ok, verdict.memory) == (True, memory)
    assert probing.takes_pointers(info_of()) is (memory == "pointers")
    forget_in_process(monkeypatch)
    assert probing.takes_pointers(info_of()) is (memory == "pointers")  # from the disk
    forget_in_process(monkeypatch)
    monkeypatch.setattr(probing, "_FAILURE_LIFETIME", -1.0)
    assert devices.probe(info_of()).cached is (memory != "unfinished")


@pytest.mark.parametrize(("says", "speeds"), [
    ("'clock': 900.5, 'bandwidth': 30", (900.5, 30)), ("'clock': 900.5", (900.5, 0)), ("'clock': 'fast'", (0, 0)),
    ("'clock': -1, 'bandwidth': 1e300", (0, 0)), ("'clock': None, 'bandwidth': [1]", (0, 0)),
    ("'pointers': True", (0, 0)),
])
def test_speeds(monkeypatch, says, speeds):
    """What the child measured, now and from the disk; nonsense is nothing."""
    fake_child(monkeypatch, f"{TRYING}; " + RIGHT.replace("'why': ''", f"'why': '', {says}"))
    assert probing.speeds(info_of()) == (0, 0)  # nothing is known yet
    assert devices.probe(info_of()).ok
    assert probing.speeds(info_of()) == speeds
    forget_in_process(monkeypatch)
    assert probing.speeds(info_of()) == speeds


def test_speeds_that_were_measured_stand_whatever_comes_then(monkeypatch):
    fast = TRYING.replace("'why': ''", "'why': '', 'clock': 2.5, 'bandwidth': 3.5")
    fake_child(monkeypatch, f"{fast}; import os; os.abort()")
    assert devices.probe(info_of()).memory == "unfinished"
    assert probing.speeds(info_of()) == (2.5, 3.5)


@pytest.mark.parametrize(("says", "expected"), [(7, True), (4, True), (11, False), (0, False), (None, False)])
def test_drivers_that_say_what_they_take(says, expected):
    class Told:
        @property
        def svm_capabilities(self):
            if says is None:
                raise RuntimeError("an older OpenCL")
            return says

    assert probing.takes_pointers(info_of(handle=Told())) is expected


def test_child_that_hangs_is_ended_with_its_compilers(monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPYX_PROBE_TIMEOUT", "1")
    mark = tmp_path / "pid"
    fake_child(monkeypatch, f"import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); "
                            f"open({str(mark)!r}, 'w').write(str(p.pid)); time.sleep(60)")
    start = time.monotonic()
    verdict = devices.probe(info_of())
    assert time.monotonic() - start < 10
    assert not verdict.ok
    assert "no answer within 1 s" in verdict.why
    time.sleep(0.2)
    state = Path(f"/proc/{mark.read_text()}/stat")
    assert not state.exists() or " Z " in state.read_text()


def test_child_that_cannot_start(monkeypatch):
    monkeypatch.setattr(probing, "_command", lambda request: ["/nonexistent/python", request])
    verdict = devices.probe(info_of())
    assert not verdict.ok
    assert not verdict.probed
    assert not (config.cache_dir() / "probe").exists()  # says nothing about the device, so nothing is kept


@pytest.mark.parametrize("executable", ["", None, "/nonexistent/python3", "/bin/true"])
def test_embedded_python(install, monkeypatch, executable):
    real = probing.probe
    install(pocl_device())
    monkeypatch.setattr(devices, "probe", real)
    monkeypatch.setattr(sys, "executable", executable)
    verdict = devices.probe(devices.discover()[0])
    assert not verdict.ok
    assert not verdict.probed
    assert "MIOPYX_DEVICE" in verdict.why
    assert devices.best().kind == "host"
    monkeypatch.setenv("MIOPYX_DEVICE", "pocl")
    config.forget()
    assert devices.best().runtime == "pocl"


def test_child_sees_the_parents_path_and_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("POCL_SOMETHING", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    fake_child(monkeypatch, "import json, os, sys; r = json.loads(sys.argv[1]); print(json.dumps({'nonce': r['nonce'], "
                            "'ok': False, 'why': os.environ['POCL_SOMETHING'] + r['path'][0]}))")
    assert devices.probe(info_of()).why == "1" + str(tmp_path)


# --------------------------------------------------------------------------------------------------- verdicts on disk


def verdict_file():
    (path,) = (config.cache_dir() / "probe").iterdir()
    return path


def forget_in_process(monkeypatch):
    monkeypatch.setattr(probing, "_verdicts", {})


def test_verdict_belongs_to_the_driver(monkeypatch, tmp_path):
    library = tmp_path / "libdriver.so"
    library.write_bytes(b"1")
    info = info_of(library=str(library))
    fake_child(monkeypatch, RIGHT)
    assert devices.probe(info).ok
    fake_child(monkeypatch, WRONG)
    forget_in_process(monkeypatch)
    assert devices.probe(info).ok
    for other in (info._replace(driver_version="2"), info._replace(platform_version="2"), info._replace(library="")):
        assert not devices.probe(other).ok
    library.write_bytes(b"22")
    assert not devices.probe(info).ok


def test_verdict_file_is_plain_and_private(monkeypatch):
    fake_child(monkeypatch, RIGHT)
    devices.probe(info_of())
    path = verdict_file()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    identity, result, why, end = path.read_text().split("\n")
    assert "pthread_4" not in identity  # a short name, which says less than what the driver says
    assert re.fullmatch(r"works \d+\.\d+ \d+\.\d+ buffers 0\.0 0\.0", result)
    assert (why, end) == ("right results", "")


def spoil(old, new):
    def apply(path):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    return apply


def as_link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


def as_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("change", [
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"\x80\x04garbage"),
    lambda path: path.write_bytes(path.read_bytes()[:-5]),
    lambda path: path.write_bytes(path.read_bytes() + b" " * (1 << 17)),
    lambda path: path.write_bytes(b"\n" * 50000),
    lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    lambda path: path.write_bytes(b"[]" + path.read_bytes()[path.read_bytes().index(b"\n"):]),
    lambda path: path.write_bytes(path.read_bytes().replace(b"right", b"r\xff")),
    spoil("works ", "worked "),
    spoil("works ", "True "),
    spoil("works ", "works one "),
    spoil("works ", "works  "),
    spoil("works ", ""),
    spoil(" buffers", ""),
    spoil(" buffers", " memory"),
    spoil("right results\n", ""),
    spoil("\nright", "right"),
    as_link, as_pipe, as_folder,
], ids=shown)
def test_unsound_verdict_files_are_not_believed(monkeypatch, change):
    fake_child(monkeypatch, RIGHT)
    info = info_of()
    assert devices.probe(info).ok
    change(verdict_file())
    forget_in_process(monkeypatch)
    fake_child(monkeypatch, WRONG)
    verdict = devices.probe(info)
    assert not verdict.ok
    assert not verdict.cached


def test_failures_are_tried_again_after_a_day(monkeypatch):
    fake_child(monkeypatch, WRONG)
    info = info_of()
    assert not devices.probe(info).ok
    fake_child(monkeypatch, RIGHT)
    forget_in_process(monkeypatch)
    assert devices.probe(info).cached
    for when in (time.time() - 25 * 3600, time.time() + 3600, float("nan")):
        identity, _, why, end = verdict_file().read_text().split("\n")
        verdict_file().write_text("\n".join((identity, f"fails 0.5 {when!r}", why, end)))
        forget_in_process(monkeypatch)
        assert devices.probe(info).ok


def read_only(path):
    if os.getuid() == 0:
        pytest.skip("root may write anywhere")
    path.mkdir()
    path.chmod(0o500)


def of_somebody_else(path):
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    path.mkdir(mode=0o700)
    os.chown(path, 12345, -1)


def writable_by_others(path):
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.parametrize("spoil_folder", [
    lambda path: path.write_text("a file"), lambda path: path.symlink_to("/proc/self/nowhere"), read_only,
    of_somebody_else, writable_by_others,
], ids=["file", "dangling", "read-only", "foreign", "world-writable"])
def test_unusable_cache_folders_cost_the_cache_only(monkeypatch, tmp_path, spoil_folder):
    spoil_folder(tmp_path / "cache")
    fake_child(monkeypatch, RIGHT)
    assert devices.probe(info_of()).ok
    assert devices.forget_verdicts() == 0
    cache = cli._cache()
    assert not cache["used"]
    assert cache["why"] not in ("", "writable")


def test_no_cache_at_all(monkeypatch, tmp_path):
    monkeypatch.setenv("MIOPYX_CACHE", "0")
    fake_child(monkeypatch, RIGHT)
    assert devices.probe(info_of()).ok
    assert not (tmp_path / "cache").exists()
    assert cli._cache() == {"folder": None, "used": False, "why": "switched off by MIOPYX_CACHE"}


# ----------------------------------------------------------------------------------------------- ranking and choosing


def test_order(install):
    small = fake_device("GeForce", GPU, 20, platform=NVIDIA, compute_capability_major_nv=7,
                        compute_capability_minor_nv=5)
    shared = fake_device("UHD", GPU, 900, platform=INTEL)
    shared.host_unified_memory = 1
    install(pocl_device("basic"), pocl_device(release="3.0"), pocl_device(release="3.10"), pocl_device(units=8),
            fake_device("board", ACCELERATOR, 999), shared, small, H200)
    found = [(info.name.rsplit("-", 1)[-1], info.driver_version) for info in devices.ranked()]
    assert [name for name, _ in found] == [
        "sm90_132", "sm75_20", "uhd_900", "pthread_8", "pthread_4", "pthread_4", "basic_4", "board_999",
        devices.find("host").name.rsplit("-", 1)[-1]]
    assert [driver for _, driver in found][4:6] == ["3.10", "3.0"]


def test_pocls_basic_device_goes_first_where_there_is_one_core(install):
    install(pocl_device(units=1), pocl_device("basic", units=1))
    assert "-basic_" in devices.best().name


def test_units_that_a_cpu_cannot_have_do_not_count(install, monkeypatch):
    """Rusticl's llvmpipe has 8 on two processors."""
    install(fake_device("llvmpipe (LLVM 19.1.7, 256 bits)", units=8), pocl_device(units=2))
    assert devices.best().runtime == "other"
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert devices.best().runtime == "pocl"


def test_queues_of_drivers_that_do_not_profile():
    class Refused(Exception):
        code = -35

    def queue(context, device, properties=0):
        if properties:
            raise Refused
        return context, device

    opencl = SimpleNamespace(CommandQueue=queue, Error=Refused,
                             command_queue_properties=SimpleNamespace(PROFILING_ENABLE=2),
                             status_code=SimpleNamespace(INVALID_QUEUE_PROPERTIES=-35, INVALID_VALUE=-30))
    assert devices._profiling_queue(opencl, 1, 2) == (1, 2)
    Refused.code = -6  # no memory
    with pytest.raises(Refused):
        devices._profiling_queue(opencl, 1, 2)


@pytest.mark.parametrize(("model", "first"), [(XEON, "intel"), ("AMD EPYC 9654", "pocl")])
def test_intels_runtime_goes_first_on_intels_cpus(install, monkeypatch, model, first):
    monkeypatch.setattr(devices, "_cpu_model", lambda: model)
    install(pocl_device(), fake_device(XEON, platform=INTEL))
    assert devices.best().runtime == first


def test_broken_runtime_does_not_shadow_a_good_one(install, caplog):
    install(pocl_device(release="5.0"), pocl_device(release="3.1+debian"), failing=["5.0"])
    with caplog.at_level(logging.WARNING, "miopyx"):
        assert devices.best().driver_version == "3.1+debian"
        assert [info.driver_version for info in devices.ranked()][:-1] == ["3.1+debian"]
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == ["unknown target CPU 'generic'"]
    assert devices.find("pocl").driver_version == "3.1+debian"
    assert devices.find(devices.discover()[0].name).driver_version == "3.1+debian"
    with pytest.raises(UnknownError, match="unknown target CPU"):
        devices.find("0:0")


def test_host_when_nothing_works(install, capfd):
    install(pocl_device(), H200, failing=["pocl", "nv"])
    assert devices.best().kind == "host"
    assert [info.kind for info in devices.ranked()] == ["host"]
    assert capfd.readouterr() == ("", "")  # quiet unless asked


def test_find(install):
    install(H200, pocl_device(), pocl_device("basic"))
    for spec, name in (("nv", "nv-sm90_132"), (" H200 ", "nv-sm90_132"), ("NVIDIA CUDA", "nv-sm90_132"),
                       ("0:0", "nv-sm90_132"), ("nv-sm90_132", "nv-sm90_132"), ("2:0", "basic"), ("basic", "basic"),
                       ("pocl", "pthread"), ("xeon", "pthread"), ("host", "host-")):
        assert name in devices.find(spec).name
    assert devices.find(devices.discover()[-1].name).kind == "host"
    for spec in ("nothing", "", "  ", "3:0", "-1:-1", "1", None, 4, -1, True, 1.0, b"host", "x" * 10000, "\0"):
        with pytest.raises(BadParmError) as caught:
            devices.find(spec)
        assert caught.value.parameter == "device"
    with pytest.raises(BadParmError, match=r"nv-sm90_132, pocl-.*, host-"):
        devices.find("nothing")


def test_find_by_kind_or_number(install, monkeypatch):
    install(H200, pocl_device("basic"), pocl_device())
    listed = devices.candidates()
    assert [devices.find(i) for i in range(4)] == listed
    assert devices.find("gpu") == devices.find("GPU ") == listed[0]
    assert devices.find("cpu") == next(info for info in listed if info.kind == "cpu")
    monkeypatch.setenv("MIOPYX_DEVICE", "cpu")
    assert devices.best().kind == "cpu"
    install(H200, pocl_device(), failing=["nv", "pocl"])
    assert devices.find("cpu").kind == "host"
    with pytest.raises(BadParmError, match="no GPU that works"):
        devices.find("gpu")
    with pytest.raises(UnknownError, match="does not work"):
        devices.find(0)


def test_same_devices_are_interchangeable(install):
    install(H200, H200)
    assert devices.find(1).platform_index == 1
    assert devices.find("nv-sm90_132").platform_index == 0
    assert devices.find("h200").platform_index == 0
    assert devices.find("1:0").platform_index == 1


def test_host_by_name_asks_no_driver(monkeypatch):
    monkeypatch.setattr(devices, "discover", None)
    monkeypatch.setenv("MIOPYX_DEVICE", "host")
    assert devices.best().kind == "host"


def test_device_variable(install, monkeypatch):
    install(H200, pocl_device(), failing=["nv"])
    monkeypatch.setenv("MIOPYX_DEVICE", "pthread")
    assert devices.best().runtime == "pocl"
    for value, error in (("nv", UnknownError), ("nothing", BadParmError)):
        monkeypatch.setenv("MIOPYX_DEVICE", value)
        config.forget()
        with pytest.raises(error):
            devices.best()


# ------------------------------------------------------------------------------------------------------------- use


def test_memory_that_repeats(opencl_device):
    some = np.arange(7, dtype=np.int16)
    for name in (opencl_device.name, "host"):
        with Handle(name) as handle:
            for count in (1, 7, 8, 100):
                found = handle.download(handle.repeated(some, 2 * count))
                assert found.dtype == some.dtype
                assert found.tolist() == np.resize(some, count).tolist()


@pytest.mark.parametrize(("array", "size", "name"), [
    (np.zeros(4, np.float32), 0, "size"), (np.zeros(4, np.float32), 2, "size"), (np.zeros(4, np.float32), 18, "size"),
    (np.zeros(4, np.float32), -4, "size"), (np.zeros(0, np.float32), 16, "array"),
    (np.zeros((2, 2), np.float32), 16, "array"), (np.zeros(8, np.float32)[::2], 16, "array")])
def test_what_cannot_be_repeated(opencl_device, array, size, name):
    for device in ("host", opencl_device.name):
        with Handle(device) as handle, pytest.raises(BadParmError, match=name):
            handle.repeated(array, size)


def test_open_upload_download(opencl_device):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    cl = pytest.importorskip("pyopencl")
    context, queue = devices.open_device(opencl_device)
    assert queue.context == context
    assert not queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    assert devices.queue_profiles(queue)
    assert devices.from_queue(queue) == opencl_device
    plain = cl.CommandQueue(context)
    assert not devices.queue_profiles(plain)
    beside = devices.timing_queue(plain)
    assert devices.queue_profiles(beside)
    assert (beside.context, beside.device) == (context, plain.device)
    for dtype in (np.float64, np.float16, np.int8, ml_dtypes.bfloat16):
        array = np.random.default_rng(0).integers(-100, 100, (3, 5, 7)).astype(dtype)
        buffer = devices.upload(queue, array)
        back = np.zeros_like(array)
        devices.download(queue, buffer, back)
        assert back.tobytes() == array.tobytes()
    for bad in (lambda: devices.upload(queue, np.zeros((2, 0))),
                lambda: devices.upload(queue, np.zeros((4, 4))[:, ::2]),
                lambda: devices.download(queue, buffer, np.zeros(1000)), lambda: devices.download(queue, None, back),
                lambda: devices.download(queue, buffer, back[..., ::2]), lambda: devices.upload(None, array),
                lambda: devices.queue_profiles(context), lambda: devices.from_queue(None),
                lambda: devices.open_device(devices.find("host"))):
        with pytest.raises(BadParmError):
            bad()


def test_out_of_order_queue_is_refused(opencl_device):
    cl = pytest.importorskip("pyopencl")
    mode = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    context = cl.Context([opencl_device.handle])
    try:
        queue = cl.CommandQueue(context, properties=mode)
    except cl.Error:
        pytest.skip("the device has no such queues")
    with pytest.raises(BadParmError, match="out of order"):
        devices.from_queue(queue)


def test_queue_of_a_sub_device(opencl_device):
    cl = pytest.importorskip("pyopencl")
    try:
        parts = opencl_device.handle.create_sub_devices([cl.device_partition_property.EQUALLY, 1])
    except cl.Error:
        pytest.skip("the device cannot be divided")
    queue = cl.CommandQueue(cl.Context(parts[:1]))
    info = devices.from_queue(queue)
    assert info.handle == queue.device
    assert info in devices.discover() or info.platform_index == -1  # PoCL's queues report the whole device


# ------------------------------------------------------------------------------- runtimes that no .icd file names


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Return a function that installs a fake distribution: its files, made in lib/, and their list."""
    monkeypatch.setattr(icd, "_runtimes", None)
    monkeypatch.setattr(icd, "_preloads", [])
    monkeypatch.setattr(icd, "_NVIDIA_DEVICES", ())
    monkeypatch.setenv("OCL_ICD_VENDORS", "")  # so that it is put back after the test, whatever `prepare` does to it
    monkeypatch.delenv("OCL_ICD_VENDORS")
    vendors = tmp_path / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "other.icd").write_text("libother.so\n")
    monkeypatch.setattr(icd, "_loader_image", lambda extension: b"\0\0" + os.fsencode(vendors) + b"\0...")
    site = tmp_path / "site"
    site.mkdir()
    # Only what the test installs is seen, whatever the machine has.
    monkeypatch.setattr(sys, "path", [str(site), *(entry for entry in sys.path if "site-packages" not in entry)])

    def put(name, files, folder="lib"):
        record = site / f"{name.replace('-', '_')}-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (record / "RECORD").write_text("".join(f"../{folder}/{file},,\n" for file in files))
        (tmp_path / folder).mkdir(exist_ok=True)
        for file in files:
            (tmp_path / folder / file).write_bytes(Path(a_library()).read_bytes())
        return tmp_path / folder

    return put


def a_library():
    """Return the file of some shared library that loads: with musl there is no libm."""
    (path, *_) = re.findall(r"\s(/\S+/lib(?:m|gcc_s)[.-]\S+)$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    return path


RUNTIME = ("libintelocl.so",)
COMPANIONS = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")


def prepare():
    icd.prepare("/nowhere/pyopencl/_cl.so")
    (runtime,) = icd.runtimes()
    return runtime


def test_nothing_to_add(wheel, monkeypatch):
    icd.prepare("/nowhere/pyopencl/_cl.so")
    assert icd.runtimes() == []
    assert "OCL_ICD_VENDORS" not in os.environ


def test_intel_wheel_without_its_companion(wheel, monkeypatch):
    # Names that nothing in this process can have loaded, as a real runtime loads the real ones.
    monkeypatch.setattr(icd, "_COMPANION_LIBRARIES", ("libmiopyx-none-1.so", "libmiopyx-none-2.so"))
    wheel("intel-opencl-rt", RUNTIME)
    runtime = prepare()
    assert not runtime.usable
    assert "libmiopyx-none-1.so, libmiopyx-none-2.so missing" in runtime.state
    assert runtime.remedy == "pip install intel-cmplr-lib-rt"
    assert "OCL_ICD_VENDORS" not in os.environ


def test_intel_wheels_are_named(wheel, monkeypatch, tmp_path):
    folder = wheel("intel-opencl-rt", RUNTIME)
    wheel("intel-cmplr-lib-rt", COMPANIONS)
    runtime = prepare()
    assert runtime.usable
    assert icd.preloads() == []
    own = Path(os.environ["OCL_ICD_VENDORS"])
    assert own.is_relative_to(tmp_path / "cache")
    assert own.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.read_text() for path in own.iterdir()} == {
        "other.icd": "libother.so\n", "miopyx-0.icd": f"{folder / 'libintelocl.so'}\n"}

    # A process started from this one finds the runtime named already.
    monkeypatch.setattr(icd, "_runtimes", None)
    assert "named by" in prepare().state

    # What went wrong in our own folder is mended.
    monkeypatch.delenv("OCL_ICD_VENDORS")
    (own / "other.icd").write_text("nonsense")
    (own / "miopyx-0.icd").unlink()
    monkeypatch.setattr(icd, "_runtimes", None)
    assert prepare().usable
    assert os.environ["OCL_ICD_VENDORS"] == str(own)
    assert (own / "other.icd").read_text() == "libother.so\n"


def test_companion_in_another_folder_is_loaded_first(wheel, monkeypatch):
    wheel("intel-opencl-rt", RUNTIME)
    elsewhere = wheel("intel-cmplr-lib-rt", COMPANIONS, "lib2")
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    assert prepare().usable
    assert icd.preloads() == [str(elsewhere / name) for name in COMPANIONS]


def test_loaders_that_take_additional_files(wheel, monkeypatch):
    monkeypatch.setattr(icd, "_loader_image", lambda extension: b"OCL_ICD_VENDORS\0OCL_ICD_FILENAMES\0")
    monkeypatch.setattr(icd, "_DEFAULT_FOLDER", "/nowhere")
    folder = wheel("intel-opencl-rt", RUNTIME)
    wheel("intel-cmplr-lib-rt", COMPANIONS)
    monkeypatch.setenv("OCL_ICD_FILENAMES", "")
    assert prepare().usable
    assert os.environ["OCL_ICD_FILENAMES"] == str(folder / "libintelocl.so")
    assert "OCL_ICD_VENDORS" not in os.environ


@pytest.mark.parametrize("variable", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"])
def test_the_users_variables_are_left_alone(wheel, monkeypatch, variable):
    if variable == "OCL_ICD_FILENAMES":
        monkeypatch.setattr(icd, "_loader_image", lambda extension: b"OCL_ICD_FILENAMES\0")
    wheel("intel-opencl-rt", RUNTIME)
    wheel("intel-cmplr-lib-rt", COMPANIONS)
    monkeypatch.setenv(variable, "/of/the/user")
    runtime = prepare()
    assert not runtime.usable
    assert variable in runtime.state
    assert os.environ[variable] == "/of/the/user"


def test_listed_libraries_that_the_loader_ignores(wheel, monkeypatch):
    # "libother.so" is named by an .icd file; the loader of this test does not know the variable.
    monkeypatch.setenv("OCL_ICD_FILENAMES", "libother.so.2:/opt/some/libmine.so:")
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    runtime = prepare()
    assert runtime.usable
    assert runtime.library == "/opt/some/libmine.so"
    own = Path(os.environ["OCL_ICD_VENDORS"])
    assert sorted(path.read_text() for path in own.iterdir()) == ["/opt/some/libmine.so\n", "libother.so\n"]


@pytest.mark.parametrize("listed", [False, True])
def test_mounted_nvidia_driver(wheel, monkeypatch, tmp_path, listed):
    driver = tmp_path / "driver"
    driver.mkdir()
    (driver / "libnvidia-opencl.so.1").touch()
    monkeypatch.setattr(icd, "_NVIDIA_DEVICES", ("/dev/null",))
    monkeypatch.setenv("LD_LIBRARY_PATH", f":relative:{driver}")
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    if listed:
        monkeypatch.setenv("OCL_ICD_FILENAMES", "libnvidia-opencl.so.1")
    runtime = prepare()
    assert runtime.usable
    assert runtime.library == str(driver / "libnvidia-opencl.so.1")

    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    (tmp_path / "OpenCL" / "vendors" / "nvidia.icd").write_text("libnvidia-opencl.so.1")
    monkeypatch.setattr(icd, "_runtimes", None)
    icd.prepare("/nowhere/pyopencl/_cl.so")
    assert icd.runtimes() == []
    assert os.environ["OCL_ICD_VENDORS"] == ""


@pytest.mark.parametrize(("one", "other", "same"), [
    ("libnvidia-opencl.so.1", "/usr/lib64/libnvidia-opencl.so.580.159.04", True), ("libpocl.so.2", "libpocl.so", True),
    ("libpocl.so", "libpocl-21062cec.so", False), ("libintelocl.so", "libintelocl_emu.so", False),
    ("libpocl.so", "", False),
])
def test_same_library(one, other, same):
    assert icd.same_library(one, other) is same


def test_runtime_that_does_not_come_up_is_a_note(install, monkeypatch):
    install(H200)
    runtime = icd.Runtime("some runtime", "1", "/opt/libsome.so.1", True, "added")
    monkeypatch.setattr(icd, "_runtimes", [runtime])
    assert "some runtime (added) did not come up" in devices.problems()[0]
    monkeypatch.setattr(devices, "_found", None)
    monkeypatch.setattr(devices, "_vendor_library", lambda platform: "/opt/libsome.so.1.2.3")
    assert devices.problems() == []


def test_no_folder_to_write_to(wheel, monkeypatch):
    wheel("intel-opencl-rt", RUNTIME)
    wheel("intel-cmplr-lib-rt", COMPANIONS)
    monkeypatch.setenv("MIOPYX_CACHE", "0")
    runtime = prepare()
    assert not runtime.usable
    assert "MIOPYX_CACHE_DIR" in runtime.remedy


def test_a_system_wide_instance_is_not_doubled(wheel, tmp_path):
    folder = wheel("intel-opencl-rt", RUNTIME)
    wheel("intel-cmplr-lib-rt", COMPANIONS)
    (tmp_path / "OpenCL" / "vendors" / "intel.icd").write_text(f"{folder / 'libintelocl.so'}\n")
    assert prepare().state.startswith("named by")
    assert "OCL_ICD_VENDORS" not in os.environ


def test_files_that_are_gone(wheel):
    folder = wheel("intel-opencl-rt", RUNTIME)
    (folder / "libintelocl.so").unlink()
    assert "force-reinstall" in prepare().remedy


def test_affinity_only_with_all_cores(monkeypatch, wheel):
    monkeypatch.delenv("POCL_AFFINITY", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    icd.prepare("/nowhere/_cl.so")
    assert "POCL_AFFINITY" not in os.environ
    monkeypatch.setattr(icd, "_runtimes", None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(os.cpu_count())))
    icd.prepare("/nowhere/_cl.so")
    assert os.environ.pop("POCL_AFFINITY") == "1"
    monkeypatch.setattr(icd, "_runtimes", None)
    monkeypatch.setenv("POCL_AFFINITY", "0")
    icd.prepare("/nowhere/_cl.so")
    assert os.environ["POCL_AFFINITY"] == "0"


# ---------------------------------------------------------------------------------------------------------- doctor


def test_doctor_table(install, capsys):
    install(pocl_device(release="5.0"), pocl_device(), H200, failing=["5.0", "nv"])
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    (taken,) = [line for line in text.splitlines() if line.startswith("*  ")]
    assert taken.split()[1] == "1:0"
    assert "* Handle() takes pocl-xeon-gold-6248-2500mhz-skylake-avx512-pthread_4: the first that works" in text
    assert text.count("fails") == 2
    assert "compiler is older than the CPU" in text
    for word in ("cache ", "user find-db", "system perf-db", "loader", "numpy", "pyopencl", "Python"):
        assert word in text


def test_doctor_with_the_host_alone(install, capsys):
    install()
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "no OpenCL device works" in text
    assert "apt-get install pocl-opencl-icd" in text


def test_doctor_json(install, capsys):
    install(H200, pocl_device())
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found["devices"] if entry["taken"]] == ["nv-sm90_132"]
    assert found["taken"] == "nv-sm90_132"
    assert found["devices"][0]["verdict"]["ok"] is True
    assert found["devices"][0]["extensions"] == ["cl_khr_fp64", "cl_khr_icd"]


def test_doctor_says_what_is_wrong_with_the_variable(install, monkeypatch, capsys):
    install(H200, failing=["nv"])
    monkeypatch.setenv("MIOPYX_DEVICE", "nv")
    assert cli.main(["doctor"]) == 0
    assert "Handle() fails: MIOPYX_DEVICE=nv: miopenStatusUnknownError" in capsys.readouterr().out
    monkeypatch.setenv("MIOPYX_CACHE", "perhaps")
    config.forget()
    assert cli.main(["doctor"]) == 2
    assert "MIOPYX_CACHE" in capsys.readouterr().err


def test_doctor_forgets(monkeypatch, install, capsys):
    fake_child(monkeypatch, RIGHT)
    devices.probe(info_of())
    install()
    assert cli.main(["doctor", "--forget"]) == 0
    assert "dropped 1 cached verdict\n" in capsys.readouterr().err


def test_command_line():
    for arguments, code in ((["doctor"], 0), (["--version"], 0), ([], 2), (["nothing"], 2), (["doctor", "--no"], 2)):
        done = subprocess.run([sys.executable, "-P", "-m", "miopyx", *arguments], capture_output=True, text=True,
                              check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr


# --------------------------------------------------------------------------------------- the tests' own installation


@pytest.mark.parametrize(("working", "failing", "ran", "said"), [
    (["pocl"], (), [], "nothing to install"),
    (["", "pocl"], (), ["apt"], "installed pocl-opencl-icd"),
    (["", "intel"], ("apt",), ["apt", "pip"], "installed intel-opencl-rt"),
    (["", "", "intel"], (), ["apt", "pip"], "installed intel-opencl-rt"),
    ([""], ("apt", "pip"), ["apt", "pip"], "NO OPENCL CPU DEVICE"),
    (["", "", ""], (), ["apt", "pip"], "no device works"),
])
def test_install_runtime(monkeypatch, capsys, working, failing, ran, said):
    spec = importlib.util.spec_from_file_location("install_runtime", Path(__file__).with_name("install_runtime.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    calls = []

    def installer(name):
        def install():
            calls.append(name)
            return f"{name} failed" if name in failing else ""
        return install

    monkeypatch.setattr(script, "working_device", iter(working).__next__)
    monkeypatch.setattr(script, "install_clang", lambda: "clang is there")
    monkeypatch.setattr(script, "install_pocl", installer("apt"))
    monkeypatch.setattr(script, "install_intel", installer("pip"))
    assert script.main() == 0
    assert calls == ran
    assert said in "".join(capsys.readouterr())


def test_no_temporary_folder(monkeypatch):
    """What cannot be probed is not taken, and nothing is raised."""
    def nowhere(*args, **options):
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", nowhere)
    verdict = probing._run_child({})
    assert not verdict.ok
    assert not verdict.probed
    assert "no temporary file" in verdict.why


def test_the_cache_of_a_core(tmp_path):
    """Linux says it by level and kind, in any order; elsewhere a usual size is taken."""
    def index(i, level, kind, size):
        folder = tmp_path / f"index{i}"
        folder.mkdir(exist_ok=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")

    usual = info.core_cache(str(tmp_path / "nowhere"))
    assert usual > 0
    index(0, 1, "Data", "48K")
    index(1, 2, "Instruction", "64K")
    index(2, 3, "Unified", "32M")
    index(3, 2, "Unified", "1280K")
    info.core_cache.cache_clear()
    assert info.core_cache(str(tmp_path)) == 1280 << 10
    for text, wanted in (("3M", 3 << 20), ("65536", 65536), ("many", usual), ("", usual)):
        index(3, 2, "Unified", text)
        info.core_cache.cache_clear()
        assert info.core_cache(str(tmp_path)) == wanted
    info.core_cache.cache_clear()
