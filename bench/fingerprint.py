"""What figures depend on besides the code: results of different fingerprints are not compared."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def fingerprint() -> dict[str, Any]:
    """Return machine, interpreter, libraries, OpenCL devices and how miopyx was built."""
    from miopyx import _core
    from miopyx.device import devices

    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": next(info.device_name for info in devices.discover() if info.kind == "host"),
        "cores": len(os.sched_getaffinity(0)),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": _has_gil(),
        "numpy": metadata.version("numpy"),
        "pyopencl": metadata.version("pyopencl"),
        "opencl": [f"{info.name}: {info.device_name}, driver {info.driver_version}, {info.platform_version}"
                   for info in devices.discover() if info.kind != "host"],
        "build": {
            "compiler": _compiler(_core.__file__),
            "host path": devices.host_isa(),
            "models": _core.MODELS_BUILT,
            "sanitizers": sanitized(),
        },
    }


def sanitized() -> bool:
    """Whether the address sanitizer is loaded, as the `checked` build has it: times mean nothing there."""
    return "libasan" in Path("/proc/self/maps").read_text()


def _has_gil() -> bool:
    check = getattr(sys, "_is_gil_enabled", None)
    return check is None or bool(check())


def _compiler(extension: str) -> str:
    """Return what compiled an extension module, as its .comment section has it."""
    match = re.search(rb"(?:GCC: \([^)]*\) [\d.]+|clang version [\d.]+)", Path(extension).read_bytes())
    return match[0].decode() if match else "unknown"


def differences(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """Return a line for each item in which two fingerprints differ."""
    return [f"{name}: now {now.get(name)!r}, then {then.get(name)!r}"
            for name in sorted(now.keys() | then.keys()) if now.get(name) != then.get(name)]
