"""CUDA's devices as its driver describes them, without linking to it and without a context.

A device has the name and the facts that NVIDIA's OpenCL gives it: solvers, databases and the cache of programs do not
tell the two apart.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from pathlib import Path
from typing import Any

from miopyx.errors import BadParmError, UnknownError, from_cuda
from miopyx.values import config

from .info import DeviceInfo
from .libraries import file_of

LIBRARY = "libcuda.so.1"
_FUNCTIONS = ("cuInit", "cuGetErrorName", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem_v2",
              "cuDeviceGetUuid", "cuDeviceGetAttribute", "cuDriverGetVersion", "cuCtxGetCurrent", "cuCtxGetDevice")
_VERSION = Path("/proc/driver/nvidia/version")
_ATTRIBUTES = {"max_work_group_size": 1, "local_mem": 8, "compute_units": 16, "bus": 33, "slot": 34, "domain": 50,
               "major": 75, "minor": 76}
# What solvers ask for, and NVIDIA's OpenCL has on every device that CUDA still knows.
_EXTENSIONS = frozenset({"cl_khr_fp64", "cl_nv_device_attribute_query"})

_lock = threading.Lock()
_driver: Any = None
_devices: list[DeviceInfo] | None = None


def library() -> str:
    """Return the name under which CUDA's driver is loaded: MIOPYX_LIBCUDA, else the system's."""
    return str(config.get("MIOPYX_LIBCUDA") or LIBRARY)


def _opened() -> Any:
    """Return the driver, initialised.

    Raises
    ------
    UnknownError
        Where there is none, or it has no device that it can use.
    """
    global _driver
    if _driver is None:
        try:
            driver = ctypes.CDLL(library())
        except OSError as e:
            raise UnknownError(f"CUDA's driver cannot be loaded: {e}", "device", "cuda",
                               "NVIDIA's driver, or MIOPYX_LIBCUDA") from None
        missing = [name for name in _FUNCTIONS if not hasattr(driver, name)]
        if missing:
            raise UnknownError(f"CUDA's driver has no {missing[0]}: it is too old, or another library", "library",
                               library(), "CUDA 12")
        _check(driver, driver.cuInit(0), "cuInit")
        _driver = driver
    return _driver


def _check(driver: Any, code: int, call: str) -> None:
    if code != 0:
        name = ctypes.c_char_p()
        if driver.cuGetErrorName(code, ctypes.byref(name)) != 0 or not name.value:
            name.value = b"an unknown CUDA error"
        raise from_cuda(code, (name.value or b"").decode(), call)


def devices() -> list[DeviceInfo]:
    """Return CUDA's devices in its order; the first call asks, and fixes the answer for the life of the process.

    Raises
    ------
    UnknownError
        As `problem` says.
    """
    global _devices
    with _lock:
        if _devices is None:
            driver = _opened()
            count = ctypes.c_int()
            _check(driver, driver.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
            _devices = [_describe(driver, ordinal) for ordinal in range(count.value)]
        return list(_devices)


def problem() -> str:
    """Return why there is no CUDA device here, or an empty text."""
    try:
        return "" if devices() else "CUDA's driver sees no device: is CUDA_VISIBLE_DEVICES set?"
    except UnknownError as e:
        return str(e)


def _describe(driver: Any, ordinal: int) -> DeviceInfo:
    device, total, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    _check(driver, driver.cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
    _check(driver, driver.cuDeviceGetName(name, len(name), device), "cuDeviceGetName")
    _check(driver, driver.cuDeviceTotalMem_v2(ctypes.byref(total), device), "cuDeviceTotalMem")
    uuid = ctypes.create_string_buffer(16)
    _check(driver, driver.cuDeviceGetUuid(uuid, device), "cuDeviceGetUuid")
    facts = {}
    for fact, attribute in _ATTRIBUTES.items():
        value = ctypes.c_int()
        _check(driver, driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device), "cuDeviceGetAttribute")
        facts[fact] = value.value
    isa = f"sm{facts['major']}{facts['minor']}"
    return DeviceInfo(
        name=f"nv-{isa}_{facts['compute_units']}", kind="gpu", runtime="nvidia", isa=isa, platform_name="NVIDIA CUDA",
        platform_version="", device_name=name.value.decode(errors="replace").strip(), vendor="NVIDIA Corporation",
        driver_version=_driver_version(driver), opencl_c_version="", compute_units=facts["compute_units"],
        max_work_group_size=facts["max_work_group_size"], global_mem=total.value, max_alloc=total.value // 4,
        local_mem=facts["local_mem"], mem_base_align=512, host_unified=False, fp64=True, fp16=False,
        extensions=_EXTENSIONS, platform_index=-1, device_index=ordinal,
        library=_file(driver), cuda=ordinal, uuid=uuid.raw.hex(),
        bus=f"{facts['domain']:04x}:{facts['bus']:02x}:{facts['slot']:02x}",
    )


def _file(driver: Any) -> str:
    """Return the file of the driver that was loaded."""
    return file_of(ctypes.cast(driver.cuInit, ctypes.c_void_p).value)


def _driver_version(driver: Any) -> str:
    """Return the driver's version as OpenCL reports it: 580.65.06, which its library's name ends with."""
    match = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)?)$", _file(driver))
    if match:
        return match[1]
    try:
        match = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", _VERSION.read_text(encoding="ascii", errors="replace"))
    except OSError:
        match = None
    if match:
        return match[1]
    version = ctypes.c_int()
    _check(driver, driver.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def folder() -> str:
    """Return the folder of CUDA's driver, empty where it cannot be loaded; nothing is initialised."""
    try:
        return os.path.dirname(_file(ctypes.CDLL(library())))
    except (OSError, AttributeError):
        return ""


def find(spec: str) -> DeviceInfo:
    """Return the device that ``cuda`` (the current one, else the first) or ``cuda:N`` names.

    Raises
    ------
    BadParmError
        If there is no such number.
    UnknownError
        If there is no driver, or it does not work.
    """
    found = devices()
    number = spec.partition(":")[2]
    ordinal = int(number) if number else _current()
    if not 0 <= ordinal < len(found):
        raise BadParmError("no such device", "device", spec, ", ".join(f"cuda:{info.cuda}" for info in found)
                           or problem())
    return found[ordinal]


def _current() -> int:
    driver, context, device = _opened(), ctypes.c_void_p(), ctypes.c_int()
    if driver.cuCtxGetCurrent(ctypes.byref(context)) != 0 or not context.value:
        return 0
    return device.value if driver.cuCtxGetDevice(ctypes.byref(device)) == 0 else 0
