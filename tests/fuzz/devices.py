"""Targets: what is kept of devices and programs, what children answer, the environment, and states of generators."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import threading
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
from fuzz.targets import require, target

import miopyx
from miopyx import DropoutDescriptor, TensorDescriptor
from miopyx._core import Device
from miopyx.choose import compile_child, compiling, switches, tuning
from miopyx.device import cuda, devices, icd, info, probing
from miopyx.errors import InvalidValueError, MIOpenError, UnknownError
from miopyx.runtime import _cuda, programs
from miopyx.tools import costs
from miopyx.tools.driver import data as driver_data
from miopyx.values import config, logs

_IDENTITY = [4, "platform", "1.0", "device", "driver", ["", 1, 2], []]


@target(b"works 0.1 1e300 pointers\n", b"fails nan inf buffers\n", b"unfinished", repr(_IDENTITY).encode() + b"\n")
def verdict(data: bytes, folder: Path) -> bool:
    """What doctor keeps of a device; what is read is written and read again."""
    found = None
    with mock.patch.object(config, "cache_dir", return_value=folder):
        path = probing._verdict_path("a")
        path.parent.mkdir(exist_ok=True)
        for text in (data, ascii(_IDENTITY).encode() + b"\n" + data):
            path.write_bytes(text)
            found = probing._read_verdict("a", _IDENTITY) or found
        if found is None:
            return False
        probing._write_verdict("a", _IDENTITY, found)
        again = probing._read_verdict("a", _IDENTITY)
        require(again is not None and again.ok == found.ok and again.memory == found.memory
                and again.why == probing.one_line(found.why, probing._MAX_WHY), "another verdict", again)
    return True


@target(b'{"nonce": "1", "ok": true, "why": ""}', b"\r", b"\x1b[", b"[[[[")
def child_reply(data: bytes, _: Path) -> bool:
    """What a probe's child says among what its driver says."""
    text = probing._tail(io.BytesIO(data))
    for line in (probing.one_line(text), probing._last_lines(text)):
        require(len(line.splitlines()) <= 1, "several lines", line)
    return probing._reply(text, "1") is not None


@target(b"\0" * 7, b"\2\0\0\0\0\0\0\0" * 2, b"{}", b"\xff" * 8)
def frames(data: bytes, _: Path) -> bool:
    """Frames of a child that compiles."""
    stream, count = io.BytesIO(data), 0
    while (frame := compile_child.receive(stream)) is not None:
        count += 1
        out = io.BytesIO()
        compile_child.send(out, *frame)
        out.seek(0)
        again = compile_child.receive(out)
        require(again is not None and json.dumps(again[0]) == json.dumps(frame[0]) and again[1] == frame[1],
                "another frame", frame)
    return count > 0


@target(b"miopyx program 3\n", b"binary: ", b"\n\n")
def program_entry(data: bytes, folder: Path) -> bool:
    """An entry of the programs' cache: every byte as it was written, or nothing."""
    path, head = folder / "a.bin", b"miopyx program 3\nfile: 'a'\n"
    path.write_bytes(data)
    found = programs.read_entry(path, head)
    require(found is None or data == head + programs._payload_line(found) + found, "a damaged entry", data)
    path.write_bytes(head + programs._payload_line(data) + data)
    require(programs.read_entry(path, head) == data, "an entry that is not read")
    programs._for_sm_90a(data)
    return found is not None


@target(b".visible .entry ", b".func ", b".param .u64 a", b".param .align 8 .b8 a[16]", b".reqntid 32, 1, 1",
        b"%envreg0;", b"mov.b32 %r1, %envreg", b"//launch: cluster 8", b"//launch: cooperative", b"%ctaid.x")
def ptx(data: bytes, _: Path) -> bool:
    """What a compiler or a cache gives for CUDA's driver."""
    try:
        text, entries = _cuda.launchable(data)
    except UnknownError:
        return False
    require(text.endswith(b"\0") and b"%envreg" not in text, "what CUDA does not know", text)
    return bool(entries)


@target(b"/usr/lib/libpocl.so.2.10.0\n", b"libpocl.so", b"\0/etc/OpenCL/vendors\0", b"/OpenCL/vendors/")
def icd_files(data: bytes, folder: Path) -> bool:
    """Files that name OpenCL's runtimes, and the loader's own file."""
    place = icd._compiled_in(data)
    require("\0" not in place, "no folder", place)
    vendors = folder / "vendors"
    vendors.mkdir()
    for number, text in enumerate(data.split(b"\n--\n")[:3]):
        (vendors / f"{number}.icd").write_bytes(text)
    files = icd._icd_files(vendors)
    icd._offers_basic(files)
    icd._named_by("libpocl.so.2", files)
    with mock.patch.dict(os.environ, {"OCL_ICD_VENDORS": str(vendors)}):
        icd.fingerprint("/nowhere/extension.so")
    with mock.patch.object(config, "cache_dir", return_value=folder):
        own = icd._write_folder(["/a/b"], files)
        require(own is not None and len(icd._icd_files(own)) == len(files) + 1, "another folder")
    return bool(place)


@target(b"2\nUnified\n1024K\n", b"2\nData\n1M", b"Instruction")
def core_cache(data: bytes, folder: Path) -> bool:
    """Linux's words for a core's caches."""
    (folder / "index0").mkdir()
    for name, text in zip(("level", "type", "size"), data.split(b"\n"), strict=False):
        (folder / "index0" / name).write_bytes(text)
    size = info.core_cache.__wrapped__(str(folder))
    require(size > 0, "bytes of a cache", size)
    return size != info._USUAL


@target(b"model name\t: ", b"flags\t\t: fpu avx2 fma", b" @ 2.50GHz", b"NVRM version: NVIDIA UNIX  580.65.06  ", b"(R)")
def processor(data: bytes, folder: Path) -> bool:
    """What Linux says of the processor, and of NVIDIA's driver: names that may be those of files."""
    text = data.decode("utf-8", "replace")
    with mock.patch.object(devices, "_cpuinfo", return_value=text.split("\n\n", 1)[0]):
        model, isa = devices._cpu_model(), devices._cpuinfo_isa()
    for word in (devices._cpu_slug(model), isa):
        require(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", word) is not None and len(word) <= 40, "a name", word)
    version = folder / "version"
    version.write_bytes(data)
    driver = mock.Mock(cuDriverGetVersion=mock.Mock(return_value=0))
    with mock.patch.object(cuda, "_VERSION", version), mock.patch.object(cuda, "_file", return_value="libcuda.so.1"):
        found = cuda._driver_version(driver)
    require(len(found.splitlines()) == 1, "a version", found)
    return not found.startswith("CUDA")


@cache
def _listed() -> list[info.DeviceInfo]:
    return [*map(costs._pretended, ("nv-sm90_132", "amd-gfx90a_104", "pocl-epyc-haswell-pthread_8")),
            devices.find("host")]


@target(*b"gpu cpu host cuda:0 cuda: 0:0 nv-sm90 99999999999".split(), "cuda:\u0663".encode())
def device_name(data: bytes, _: Path) -> bool:
    """A device's name, as Handle and MIOPYX_DEVICE take it."""
    works = probing.Verdict(True, "", 0.0)
    with mock.patch.multiple(devices, candidates=_listed, probe=lambda _info: works), mock.patch.multiple(
            cuda, devices=lambda: _listed()[:1], _current=lambda: 0):
        try:
            found = devices.find(data.decode("utf-8", "surrogateescape"))
        except MIOpenError as e:
            str(e).encode("utf-8", "surrogateescape")
            return False
    require(found in _listed(), "no device of the list", found)
    return found.kind != "host"


# The environment


@target(*(name.encode() + b"=" for name in config.VARIABLES), b"0x", b"-1", b"on", b"1e9", b"999999999999999999999")
def environment(data: bytes, folder: Path) -> bool:
    """Variables, one a line, and all that they are read for."""
    given = {}
    for line in data.split(b"\n"):
        name, _, value = line.replace(b"\0", b"").decode("utf-8", "surrogateescape").partition("=")
        if name in config.VARIABLES and name not in ("MIOPYX_LIBCUDA", "MIOPYX_DEVICE"):
            given[name] = value
    kept = {"MIOPYX_CACHE_DIR": str(folder), "HOME": str(folder)}
    with mock.patch.dict(os.environ, {**kept, **given}, clear=True):
        config.forget()
        wrong = dict(config.wrong())
        for name in given:
            try:
                config.get(name)
            except InvalidValueError as e:
                require(name in wrong, "an error that nobody is told of", name)
                str(e).encode("utf-8", "surrogateescape")
            logs.setting(name)
        for use in (_review, tuning.Limits.from_environment, driver_data.seed, _limits, _device, switches.off,
                    switches.only, config.num_threads, config.cache_dir, _lookups, lambda: compiling._way("pocl", 9)):
            with contextlib.suppress(MIOpenError):
                use()
    for cached in (switches._only, switches._overrides):
        cached.cache_clear()
    config.forget()
    return bool(given) and not wrong.keys() & given.keys()


def _review() -> None:
    switches.review()
    logs.write(["a line"])


def _limits() -> None:
    limit = float(logs.setting("MIOPYX_PROBE_TIMEOUT"))
    require(limit <= threading.TIMEOUT_MAX, "longer than a process may wait", limit)
    logs.setting("MIOPYX_CACHE_MB") * 2**20 // 16


def _device() -> None:
    device = Device(devices.find("host"))
    require(0 < device.threads < 1 << 31 and -1 <= config.get("MIOPYX_STREAM_BYTES") < 1 << 63, "beyond C's integers")


def _lookups() -> None:
    from miopyx.database import paths

    host = devices.find("host")
    for ending in ("fdb", "db"):
        paths.system_file(host, ending)
        paths.user_file(host, "u" + ending)


# Dropout


@cache
def _host() -> miopyx.Handle:
    return miopyx.Handle("host")


@target(b"\xff" * 8, b"\0" * 8)
def dropout_states(data: bytes, _: Path) -> bool:
    """States of dropout's generator, which a user may have damaged: masks are masks all the same."""
    handle, size = _host(), miopyx.miopenDropoutGetStatesSize(_host())
    states = np.frombuffer(bytearray((data * (size // max(1, len(data)) + 1))[:size].ljust(size, b"\0")), np.uint8)
    desc = DropoutDescriptor()
    miopyx.miopenRestoreDropoutDescriptor(desc, handle, 0.5, states, size, 7, False, True, 0)
    x, y = np.ones((2, 3, 50), np.float32), np.full((2, 3, 50), np.nan, np.float32)
    shape = TensorDescriptor("float32", x.shape)
    reserve = np.zeros(miopyx.miopenDropoutGetReserveSpaceSize(shape), np.uint8)
    for _turn in range(2):
        miopyx.miopenDropoutForward(handle, desc, shape, shape, x, shape, y, reserve, reserve.size)
        require(bool(np.isin(y, (0, 2)).all()) and 0 < np.count_nonzero(y) < y.size, "no mask", y)
    return True
