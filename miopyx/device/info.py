"""What is known of a device before anything runs on it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pyopencl

Kind = Literal["gpu", "cpu", "accelerator", "host"]


_CACHES = "/sys/devices/system/cpu/cpu0/cache"
_MOST = 1 << 30
_USUAL = 2 << 20  # bytes of a second-level cache, where nothing says how many there are


@cache
def core_cache(folder: str = _CACHES) -> int:
    """Return the bytes of the second-level cache that a core of this machine's CPU has."""
    for index in sorted(Path(folder).glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if level == "2" and kind != "Instruction":
                found = int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1:], 0)
                return found if 0 < found <= _MOST else _USUAL
        except (OSError, ValueError):
            continue
    return _USUAL


class DeviceInfo(NamedTuple):
    """What is known of a device without running anything on it.  Sizes are in bytes.

    Attributes
    ----------
    name : str
        Short name for command lines and file names: ``[a-z0-9-]+_<compute units>``.  Devices of one name are
        interchangeable as far as timings go.
    isa : str
        What its code is compiled for: ``sm90``, ``gfx90a``, ``skylake-avx512``, ``avx2``; empty if unknown.
    runtime : str
        ``pocl``, ``intel``, ``nvidia``, ``amd``, ``other`` or ``host``.
    host_unified : bool
        Whether the device works in the host's own memory.
    handle : pyopencl.Device or None
        None for the host, and for what CUDA's driver found.
    cuda : int
        CUDA's number of the device; -1 for what CUDA did not find.
    uuid, bus : str
        Of a CUDA device: its UUID in hexadecimal digits, and where it is on PCI (domain:bus:slot).
    """

    name: str
    kind: Kind
    runtime: str
    isa: str
    platform_name: str
    platform_version: str
    device_name: str
    vendor: str
    driver_version: str
    opencl_c_version: str
    compute_units: int
    max_work_group_size: int
    global_mem: int
    max_alloc: int
    local_mem: int
    mem_base_align: int
    host_unified: bool
    fp64: bool
    fp16: bool
    extensions: frozenset[str]
    platform_index: int
    device_index: int
    library: str = ""
    handle: pyopencl.Device | None = None
    cuda: int = -1
    uuid: str = ""
    bus: str = ""
