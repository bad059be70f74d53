"""Devices: what there is, whether it works, which one to take.

The only module of the package that imports pyopencl, and only inside functions: importing miopyx touches no device.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from miopyx.errors import AllocFailedError, BadParmError, MIOpenError, UnknownError, from_opencl
from miopyx.values import config, posix

from . import cuda, icd, libraries
from .info import DeviceInfo, Kind
from .probing import Verdict, forget_verdicts, one_line, probe, probe_platforms

if TYPE_CHECKING:
    import pyopencl
    from numpy.typing import NDArray

log = logging.getLogger("miopyx")
log.addHandler(logging.NullHandler())  # a library is quiet unless its user configures logging

__all__ = [
    "DeviceInfo", "Verdict", "best", "candidates", "discover", "download", "find", "forget_verdicts",
    "from_queue", "host_isa", "loader_library", "loader_path", "memory_types", "open_device", "probe", "problems",
    "queue_profiles", "ranked", "repeat", "timing_queue", "upload",
]

# ---------------------------------------------------------------------------------------------------- what there is

_lock = threading.RLock()
_found: list[DeviceInfo] | None = None
_problems: list[str] = []
_warned: set[tuple[str, str]] = set()


def discover() -> list[DeviceInfo]:
    """Return every OpenCL device of every platform, in the loader's order, and the host last.  Never raises.

    The first call queries the platforms and fixes the answer for the life of the process, as OpenCL loaders do.
    `problems()` says what went wrong on the way.
    """
    global _found
    with _lock:
        if _found is None:
            _problems.clear()
            _found = [*_query(), _host()]
        return list(_found)


def problems() -> list[str]:
    """Return why discovery saw less than it might have, one line each."""
    discover()
    return list(_problems)


def _opencl() -> Any:
    """Import pyopencl and set what its loader should see at the first platform query."""
    import pyopencl

    icd.prepare(pyopencl._cl.__file__)
    return pyopencl


def _query() -> list[DeviceInfo]:
    try:
        cl = _opencl()
    except Exception as e:  # ImportError, or whatever a broken installation raises
        _problems.append(f"pyopencl cannot be imported: {one_line(str(e))}")
        return []
    verdict = probe_platforms(cl._cl.__file__)
    if not verdict.ok and verdict.probed:
        _problems.append(f"OpenCL is left alone, since asking for its platforms is not safe: {verdict.why}")
        return []
    try:
        platforms = cl.get_platforms()
    except Exception as e:
        _problems.append("no OpenCL platform: no runtime is installed that the loader finds"
                         if "PLATFORM_NOT_FOUND" in str(e) else f"no OpenCL platform: {one_line(str(e))}")
        return []
    found = []
    for p, platform in enumerate(platforms):
        try:
            devices = platform.get_devices()
        except Exception as e:
            if "DEVICE_NOT_FOUND" not in str(e):
                _problems.append(f"platform {p} lists no devices: {one_line(str(e))}")
            continue
        for d, device in enumerate(devices):
            try:
                found.append(_describe(device, p, d))
            except Exception as e:
                _problems.append(f"device {p}:{d} cannot be described: {one_line(str(e))}")
    for runtime in icd.runtimes():
        if runtime.usable and not any(icd.same_library(runtime.library, info.library) for info in found):
            _problems.append(f"{runtime.name} ({runtime.state}) did not come up: it has no device here, or OpenCL was "
                             "in use in this process before miopyx")
    return found


def _describe(device: Any, platform_index: int, device_index: int) -> DeviceInfo:
    cl = _opencl()
    types = cl.device_type
    kind: Kind = "gpu" if device.type & types.GPU else "cpu" if device.type & types.CPU else "accelerator"
    platform = device.platform
    extensions = frozenset(device.extensions.split())
    device_name = device.name.strip()
    vendor = device.vendor.strip()
    runtime = _runtime(platform.name, platform.vendor)
    isa, stem = _isa_and_stem(runtime, kind, device, device_name, vendor)
    units = int(device.max_compute_units)
    return DeviceInfo(
        name=f"{stem}_{units}", kind=kind, runtime=runtime, isa=isa,
        platform_name=platform.name.strip(), platform_version=platform.version.strip(),
        device_name=device_name, vendor=vendor, driver_version=device.driver_version.strip(),
        opencl_c_version=device.opencl_c_version.strip(), compute_units=units,
        max_work_group_size=int(device.max_work_group_size), global_mem=int(device.global_mem_size),
        max_alloc=int(device.max_mem_alloc_size), local_mem=int(device.local_mem_size),
        mem_base_align=int(device.mem_base_addr_align) // 8,  # OpenCL counts it in bits
        host_unified=kind == "cpu" or bool(_optional(device, "host_unified_memory", False)),
        fp64="cl_khr_fp64" in extensions or bool(_optional(device, "double_fp_config", 0)),
        fp16="cl_khr_fp16" in extensions, extensions=extensions,
        platform_index=platform_index, device_index=device_index,
        library=_vendor_library(platform), handle=device,
    )


def _host() -> DeviceInfo:
    try:
        threads = config.num_threads()
    except MIOpenError:
        threads = len(posix.processors())
    memory = posix.memory()
    isa = host_isa()
    return DeviceInfo(
        name=f"host-{isa}_{threads}", kind="host", runtime="host", isa=isa, platform_name="host", platform_version="",
        device_name=_cpu_model(), vendor="", driver_version=str(getattr(sys.modules["miopyx"], "__version__", "")),
        opencl_c_version="", compute_units=threads, max_work_group_size=1, global_mem=memory, max_alloc=memory,
        local_mem=0, mem_base_align=64, host_unified=True, fp64=True, fp16=True, extensions=frozenset(),
        platform_index=-1, device_index=-1,
    )


def _optional(device: Any, attribute: str, default: Any) -> Any:
    """Read what OpenCL deprecates or gates behind an extension, so that some drivers answer with an error."""
    try:
        return getattr(device, attribute)
    except Exception:
        return default


# ------------------------------------------------------------------------------------------------------------ names


def _runtime(platform_name: str, platform_vendor: str) -> str:
    text = f"{platform_name} {platform_vendor}".lower()
    for word, runtime in (("portable computing language", "pocl"), ("pocl", "pocl"), ("nvidia", "nvidia"),
                          ("intel", "intel"), ("advanced micro devices", "amd")):
        if word in text:
            return runtime
    return "other"


def _isa_and_stem(runtime: str, kind: Kind, device: Any, device_name: str, vendor: str) -> tuple[str, str]:
    """Return what the device runs and its short name without the unit count."""
    if runtime == "nvidia":
        major = _optional(device, "compute_capability_major_nv", None)
        if major is not None:
            isa = f"sm{major}{device.compute_capability_minor_nv}"
            return isa, f"nv-{isa}"
    if runtime == "amd" and kind == "gpu":
        isa = _slug(device_name.split(":")[0])
        return isa, f"amd-{isa}"
    if runtime == "pocl" and kind == "cpu":
        driver, target, model = _pocl_parts(device_name, device.version)
        isa = _slug(target) or _cpuinfo_isa()
        return isa, "-".join(("pocl", _cpu_slug(model), isa, _slug(driver)))
    if kind == "cpu":
        isa = _cpuinfo_isa()
        prefix = runtime if runtime != "other" else _slug(vendor) or "cpu"
        return isa, f"{prefix}-{_cpu_slug(device_name)}-{isa}"
    prefix = runtime if runtime != "other" else _slug(vendor) or kind
    return "", f"{prefix}-{_slug(device_name) or kind}"


def _pocl_parts(device_name: str, device_version: str) -> tuple[str, str, str]:
    """Split PoCL's device name into driver device, LLVM's target CPU and the CPU's own name.

    The name reads ``<driver>-<target>-<model>`` where target and model may hold hyphens themselves; the version ends
    in ``HSTR: <driver>-<arch>-<vendor>-<os>-<abi>-<target>``, which tells where the target ends.
    """
    driver, _, rest = device_name.partition("-")
    parts = (device_version.partition("HSTR: ")[2].split() or [""])[0].split("-", 5)
    if len(parts) == 6 and all(parts):
        driver, target = parts[0], parts[5]
        if rest.startswith(target + "-"):
            rest = rest[len(target) + 1:]
        return driver, target, rest
    return driver, "", rest


def _slug(text: str) -> str:
    """Return `text` as lower-case letters, digits and single hyphens, at most 40 of them."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")


def _cpu_slug(model: str) -> str:
    """Return a CPU's marketing name without what all of them share: "xeon-gold-6248-2500mhz"."""
    text = model.lower().replace("(r)", " ").replace("(tm)", " ").replace("(c)", " ")
    text = re.sub(r"(\d+(?:\.\d+)?)\s*ghz", lambda m: f"{float(m[1]) * 1000:.0f}mhz", text)
    text = re.sub(r"\b(intel|amd|genuine|cpu|processor|\d+-core)\b", " ", text)
    return _slug(text) or "cpu"


@cache
def _cpuinfo() -> str:
    """Return what Linux says of the first core; it writes about all of them, so no more than a piece is read."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            return file.read(1 << 14).decode("utf-8", "replace").split("\n\n", 1)[0]
    except OSError:
        return ""


def _cpu_model() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return match[1].strip() if match else posix.machine()


def _cpuinfo_isa() -> str:
    match = re.search(r"^flags\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    flags = set(match[1].split()) if match else set()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return "avx512"
    return "avx2" if {"avx2", "fma"} <= flags else _slug(posix.machine())


def host_isa() -> str:
    """Return the instruction set of the host path: what its compiled module chose, else what the CPU offers."""
    try:
        from miopyx.host._kernels import isa
    except ImportError:  # sources imported unbuilt
        return _cpuinfo_isa()
    return _slug(str(isa()))


# ----------------------------------------------------------------------------------------------- OpenCL's own library


def loader_path() -> str:
    """Return the file of pyopencl's extension module.

    `dlopen` of it with RTLD_NOLOAD gives a handle on which `dlsym` finds the OpenCL entry points of the very loader
    that pyopencl uses, whether that is bundled with its wheel or the system's.

    Raises
    ------
    UnknownError
        If pyopencl cannot be imported.
    """
    try:
        cl = _opencl()
    except Exception as e:
        raise UnknownError(f"pyopencl cannot be imported: {one_line(str(e))}") from e
    return str(cl._cl.__file__)


def _vendor_library(platform: Any) -> str:
    """Return the file of the library that serves `platform`: two PoCLs differ in it where they differ in nothing else.

    Every runtime behind a loader must answer to this name, from its own code.
    """
    try:
        query = ctypes.CDLL(loader_path()).clGetExtensionFunctionAddressForPlatform
        query.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        query.restype = ctypes.c_void_p
        return libraries.file_of(query(platform.int_ptr, b"clIcdGetPlatformIDsKHR"))
    except (MIOpenError, OSError, AttributeError):
        return ""


def loader_library() -> str:
    """Return the file of the OpenCL loader that pyopencl is linked with, or an empty text."""
    try:
        return libraries.file_of_symbol(loader_path(), "clGetPlatformIDs")
    except MIOpenError:
        return ""


# ------------------------------------------------------------------------------------------------------ which to take

_KIND_ORDER = {"gpu": 0, "cpu": 1, "accelerator": 2, "host": 3}


def _rank(info: DeviceInfo) -> tuple[Any, ...]:
    """Sort key: GPUs (those with memory of their own first), CPUs, accelerators, host; more units; the runtime.

    A CPU has no more units than the system has processors, whatever its driver says (Rusticl's llvmpipe: 8).

    Among CPU runtimes, Intel's goes first on Intel's CPUs and PoCL elsewhere: on a Xeon both reached the same rate in
    kernels with explicit vectors, but Intel's took 12 µs for a launch and its completion where PoCL's threads took 45,
    and it has half precision.  Of one runtime the newer goes first.  PoCL's `basic` device, which runs in the calling
    thread, goes after its others, and before them where there is only one core.
    """
    preferred = "intel" if "intel" in _cpu_model().lower() else "pocl"
    runtime = 0 if info.runtime == preferred else 1 if info.runtime in ("intel", "pocl") else 2
    version = tuple(-int(part) for part in re.findall(r"\d+", info.driver_version)[:4])
    later = _in_calling_thread(info) == (info.compute_units > 1)
    units = min(info.compute_units, os.cpu_count() or 1) if info.kind == "cpu" else info.compute_units
    return (_KIND_ORDER[info.kind], info.host_unified, -units, later, runtime, version,
            info.platform_index, info.device_index)


def _in_calling_thread(info: DeviceInfo) -> bool:
    return info.runtime == "pocl" and any(driver in info.name for driver in ("-basic_", "-cpu-minimal_"))


def candidates() -> list[DeviceInfo]:
    """Return all devices, the one to try first first, without asking whether they work."""
    return sorted(discover(), key=_rank)


def _works(info: DeviceInfo) -> bool:
    verdict = probe(info)
    if not verdict.ok:
        with _lock:
            new = (info.name, verdict.why) not in _warned
            _warned.add((info.name, verdict.why))
        if new:
            log.warning("device %s is not used: %s", info.name, verdict.why)
    return verdict.ok


def ranked() -> list[DeviceInfo]:
    """Return the devices that work, best first; the host is always among them."""
    return [info for info in candidates() if _works(info)]


def best() -> DeviceInfo:
    """Return the device of ``Handle()``: the one MIOPYX_DEVICE names, else the first that works.

    Raises
    ------
    BadParmError, UnknownError
        From `find`, if MIOPYX_DEVICE names no device or one that does not work.
    """
    spec = config.get("MIOPYX_DEVICE")
    if spec:
        return find(spec)
    return next(info for info in candidates() if _works(info))


def find(spec: str | int | pyopencl.Device) -> DeviceInfo:
    """Return the device that `spec` names.

    Parameters
    ----------
    spec : str, int or pyopencl.Device
        A number is a place in the list that ``miopyx doctor`` prints, from 0 on.  A text is ``cuda`` or ``cuda:N`` for
        CUDA's driver, which is not probed, ``gpu``, the best GPU that works, ``cpu``, the best OpenCL CPU that works,
        else the host, ``host``, a short name, ``P:D`` (indices of
        platform and device), or a part of an OpenCL device's short name, own name or platform's name.  A part may fit
        several devices if only one of them works, if they have the same short name, or if all but one are PoCL's that
        run in the calling thread.

    Raises
    ------
    BadParmError
        If no device, or more than one, is meant; the message lists what there is.
    UnknownError
        If the device does not pass its probe; the message says why.
    """
    if not isinstance(spec, str):
        return _numbered(spec) if isinstance(spec, int) and not isinstance(spec, bool) else _of_pyopencl(spec)
    wanted = spec.strip().lower()
    if wanted == "host":
        return _host()
    if re.fullmatch(r"cuda(:[0-9]{1,9})?", wanted):
        return cuda.find(wanted)
    devices = candidates()
    if wanted in ("cpu", "gpu"):
        kind = next((info for info in devices if info.kind == wanted and _works(info)), None)
        if kind is None and wanted == "gpu":
            raise BadParmError("no GPU that works", "device", spec, ", ".join(info.name for info in devices))
        return kind or _host()
    if re.fullmatch(r"\d+:\d+", wanted):
        matches = [info for info in devices if wanted == f"{info.platform_index}:{info.device_index}"]
    else:
        matches = [info for info in devices if wanted == info.name]
    if not matches and wanted:
        matches = [info for info in devices if info.kind != "host" and
                   any(wanted in text.lower() for text in (info.name, info.device_name, info.platform_name))]
    listing = ", ".join(info.name for info in devices)
    if not matches:
        raise BadParmError("no such device", "device", spec,
                           f"gpu, cpu, host, cuda, cuda:N, P:D, or a part of a name of {listing}; see miopyx doctor")
    verdicts = [probe(info) for info in matches]
    # Asked for by name, a device that could not be probed is taken all the same.
    working = [info for info, v in zip(matches, verdicts, strict=True) if v.ok or not v.probed]
    if not working:
        raise UnknownError("device does not work: " + "; ".join(
            f"{info.name}: {v.why}" for info, v in zip(matches, verdicts, strict=True)), "device", spec)
    working = [info for info in working if not _in_calling_thread(info)] or working
    if len({info.name for info in working}) > 1:
        raise BadParmError("several devices fit", "device", spec, ", ".join(info.name for info in working))
    return working[0]


def _numbered(place: int) -> DeviceInfo:
    devices = candidates()
    if not 0 <= place < len(devices):
        raise BadParmError("no such device", "device", place, f"0 to {len(devices) - 1}: " + ", ".join(
            info.name for info in devices))
    verdict = probe(devices[place])
    if verdict.probed and not verdict.ok:
        raise UnknownError(f"device does not work: {devices[place].name}: {verdict.why}", "device", place)
    return devices[place]


def is_device(thing: Any) -> bool:
    """Return whether something is a pyopencl.Device."""
    cl = sys.modules.get("pyopencl")
    return cl is not None and isinstance(thing, cl.Device)


def _of_pyopencl(device: Any) -> DeviceInfo:
    if not is_device(device):
        raise BadParmError("not a device", "device", device, "a text, a number or a pyopencl.Device")
    found = next((info for info in discover() if info.handle == device), None)
    return found if found is not None else _describe(device, -1, -1)


# ------------------------------------------------------------------------------------------------------------- use it


@contextlib.contextmanager
def _translated(detail: str) -> Iterator[Any]:
    """Hand out pyopencl and turn its errors into ours."""
    cl = _opencl()
    try:
        yield cl
    except cl.Error as e:
        raise from_opencl(e.code, e.routine, detail) from e


def open_device(info: DeviceInfo) -> tuple[pyopencl.Context, pyopencl.CommandQueue]:
    """Return a new context with the device alone and an in-order queue, which profiles if the driver can.

    Raises
    ------
    BadParmError
        For the host, which has neither.
    AllocFailedError, UnknownError
        If OpenCL refuses.
    """
    if info.handle is None:
        raise BadParmError("the host has no OpenCL queue", "device", info.name)
    with _translated(info.name) as cl:
        context = cl.Context([info.handle])
        return context, _profiling_queue(cl, context, info.handle)


def _profiling_queue(cl: Any, context: Any, device: Any) -> Any:
    """Return a new in-order queue whose events carry times, where the driver has such queues."""
    try:
        return cl.CommandQueue(context, device, properties=cl.command_queue_properties.PROFILING_ENABLE)
    except cl.Error as e:
        if e.code not in (cl.status_code.INVALID_QUEUE_PROPERTIES, cl.status_code.INVALID_VALUE):
            raise
        return cl.CommandQueue(context, device)


_compilers: dict[int, tuple[pyopencl.Context, int]] = {}


def compiler(info: DeviceInfo) -> tuple[int, int]:
    """Return cl_context and cl_device_id of the OpenCL device that compiles for a CUDA device: the same by its UUID or
    its place on PCI, else one of the same instruction set, since PTX is the same for both.

    Raises
    ------
    UnknownError
        If there is none; programs that are in the cache do without.
    """
    with _lock:
        if info.cuda not in _compilers:
            twin = compiling_twin(info)
            if twin is None:
                raise UnknownError("CUDA needs NVIDIA's OpenCL to compile what is not in the cache, and finds none: "
                                   + ("; ".join([f"{r.name}: {r.state}" for r in icd.runtimes() if not r.usable]
                                                + problems()) or "no OpenCL device of its instruction set"),
                                   "device", info.name, "libnvidia-opencl.so.1")
            with _translated(twin.name) as cl:
                context = cl.Context([twin.handle])
            assert twin.handle is not None
            _compilers[info.cuda] = context, int(twin.handle.int_ptr)
        context, device = _compilers[info.cuda]
        return int(context.int_ptr), device


def compiling_twin(info: DeviceInfo) -> DeviceInfo | None:
    """Return the OpenCL device that compiles for a CUDA device, None where there is none."""
    twins = [other for other in discover() if other.runtime == "nvidia" and other.isa == info.isa]
    return min(twins, default=None, key=lambda other: 0 if _uuid(other.handle) == info.uuid else
               1 if _bus(other.handle) == info.bus else 2)


def _uuid(device: Any) -> str:
    uuid = _optional(device, "uuid_khr", b"")
    return bytes(uuid).hex() if isinstance(uuid, (bytes, bytearray, list, tuple)) else ""


def _bus(device: Any) -> str:
    bus, slot = _optional(device, "pci_bus_id_nv", -1), _optional(device, "pci_slot_id_nv", -1)
    domain = _optional(device, "pci_domain_id_nv", 0)
    return f"{domain:04x}:{bus:02x}:{slot >> 3 if slot > 31 else slot:02x}" if bus >= 0 and slot >= 0 else ""


def _require_queue(queue: Any) -> None:
    # Whoever holds a queue has imported pyopencl; no need to import it to refuse something else.
    cl = sys.modules.get("pyopencl")
    if cl is None or not isinstance(queue, cl.CommandQueue):
        raise BadParmError("not a command queue", "queue", queue, "pyopencl.CommandQueue")


def from_queue(queue: pyopencl.CommandQueue) -> DeviceInfo:
    """Return what is known of a queue's device, unprobed: its owner chose it.  Indices are -1 for a sub-device.

    Raises
    ------
    BadParmError
        If `queue` is no pyopencl.CommandQueue, or runs commands out of order: plans and the workspace they share rely
        on their order.
    """
    _require_queue(queue)
    with _translated("queue") as cl:
        if queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            raise BadParmError("the queue runs commands out of order", "queue", queue, "an in-order queue")
        for info in discover():
            if info.handle == queue.device:
                return info
        return _describe(queue.device, -1, -1)


def follow(queue: pyopencl.CommandQueue, before: pyopencl.CommandQueue) -> None:
    """Let what `queue` gets from now on wait for what `before` got until now, both of one context; return at once."""
    with _translated("queue") as cl:
        cl.enqueue_barrier(queue, wait_for=[cl.enqueue_marker(before)])
        before.flush()


def memory_types() -> tuple[type, type]:
    """Return pyopencl's Buffer, and the class of all its memory objects."""
    import pyopencl

    return pyopencl.Buffer, pyopencl.MemoryObjectHolder


def queue_profiles(queue: pyopencl.CommandQueue) -> bool:
    """Return whether a queue's events carry times."""
    _require_queue(queue)
    with _translated("queue") as cl:
        return bool(queue.properties & cl.command_queue_properties.PROFILING_ENABLE)


def _require_size(queue: pyopencl.CommandQueue, parameter: str, size: int) -> None:
    limit = int(queue.device.max_mem_alloc_size)
    if size > limit:
        raise AllocFailedError("larger than a buffer of the device may be", parameter, f"{size} bytes",
                               f"<= {limit} bytes")


def upload(queue: pyopencl.CommandQueue, array: NDArray[Any]) -> pyopencl.Buffer:
    """Return a new buffer on the queue's context with the bytes of a C-contiguous array of any dtype."""
    _require_queue(queue)
    if array.nbytes == 0:
        raise BadParmError("OpenCL has no empty buffers", "array", array.shape, "at least one element")
    _require_size(queue, "array", array.nbytes)
    with _translated(f"{array.nbytes} bytes") as cl:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer: pyopencl.Buffer = cl.Buffer(queue.context, flags, hostbuf=_as_bytes(array))
        return buffer


def allocate(queue: pyopencl.CommandQueue, size: int, clear: bool) -> pyopencl.Buffer:
    """Return a new buffer of `size` bytes on the queue's context, of zeros once the queue has run if `clear`."""
    _require_queue(queue)
    _require_size(queue, "desc", size)
    with _translated(f"{size} bytes") as cl:
        buffer: pyopencl.Buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
        if clear:
            cl.enqueue_fill_buffer(queue, buffer, bytes(1), 0, size)
        return buffer


def repeat(queue: pyopencl.CommandQueue, buffer: pyopencl.Buffer, array: NDArray[Any]) -> None:
    """Fill a buffer with the bytes of a C-contiguous array again and again, once the queue has run; it holds one."""
    _require_queue(queue)
    with _translated(f"{buffer.size} bytes") as cl:
        filled = array.nbytes
        cl.enqueue_copy(queue, buffer, _as_bytes(array))
        while 0 < filled < buffer.size:
            part = min(filled, buffer.size - filled)
            cl.enqueue_copy(queue, buffer, buffer, src_offset=0, dst_offset=filled, byte_count=part)
            filled += part


def download(queue: pyopencl.CommandQueue, buffer: pyopencl.Buffer, array: NDArray[Any]) -> None:
    """Fill a C-contiguous array from a buffer that is at least as long, after what the queue holds has run."""
    _require_queue(queue)
    with _translated(f"{array.nbytes} bytes") as cl:
        if not isinstance(buffer, cl.Buffer) or buffer.size < array.nbytes:
            raise BadParmError("not a buffer that holds the array", "buffer", getattr(buffer, "size", buffer),
                               f"a pyopencl.Buffer of at least {array.nbytes} bytes")
        if array.nbytes:
            cl.enqueue_copy(queue, _as_bytes(array), buffer, is_blocking=True)


def _as_bytes(array: NDArray[Any]) -> NDArray[Any]:
    # Arrays of ml_dtypes do not export a buffer; their bytes do.
    if not array.flags.c_contiguous:
        raise BadParmError("array is not C-contiguous", "array", array.strides, "C-contiguous")
    return array.reshape(-1).view("u1")


def timing_queue(queue: pyopencl.CommandQueue) -> pyopencl.CommandQueue:
    """Return an in-order queue beside `queue`, on its context and device, which profiles if the driver can."""
    _require_queue(queue)
    with _translated("queue") as cl:
        beside: pyopencl.CommandQueue = _profiling_queue(cl, queue.context, queue.device)
        return beside
