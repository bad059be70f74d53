"""Where databases lie and what their files are called: MIOpen's names and folders, and the nearest device's file."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from miopyx.values import config, kernels
from miopyx.values.digests import blake2b

if TYPE_CHECKING:
    from miopyx.device.info import DeviceInfo

PACKAGE = Path(__file__).parents[1]
# File systems on which locks and appends of several machines do not keep out of each other's way.
_NETWORK = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fhgfs", "fuse.glusterfs", "fuse.sshfs", "gfs", "gfs2",
    "glusterfs",
    "gpfs", "lustre", "mfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "wekafs",
}


def system_folder() -> Path:
    """Return the folder of the databases that ship: MIOPEN_SYSTEM_DB_PATH, else the package's own."""
    given: str = config.get("MIOPEN_SYSTEM_DB_PATH")
    return config.expanded(given) if given else PACKAGE / "db"


def user_folder() -> Path | None:
    """Return the folder of the user's databases: MIOPEN_USER_DB_PATH, else ~/.config/miopen; None without a home."""
    given: str = config.get("MIOPEN_USER_DB_PATH")
    try:
        return config.expanded(given) if given else Path.home() / ".config" / "miopen"
    except RuntimeError:
        return None


@cache
def build() -> str:
    """Return what tells this build's times from another's, ``0_1_0_1a2b3c4d``.

    That is the version and a digest of the kernels of convolutions, the only ones that are timed.  MIOpen puts version
    and source digest into the names of users' files for the same reason.
    """
    digest = blake2b(digest_size=4)
    for name in kernels.names("conv", "include"):
        digest.update(name.encode() + b"\0" + kernels.read(name))
    version = sys.modules["miopyx"].__version__
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{version}_{digest.hexdigest()}")


def backend(info: DeviceInfo) -> str:
    """Return the middle of a database's file name: OpenCL as MIOpen's, or Host."""
    return "Host" if info.kind == "host" else "OpenCL"


def user_file(info: DeviceInfo, ending: str) -> Path | None:
    """Return the user's database of a device, `ending` "ufdb" (find-db) or "udb" (perf-db); None without a home.

    On a network file system each machine has a file of its own.
    """
    folder = user_folder()
    if folder is None:
        return None
    return folder / f"{info.name}.{backend(info)}.{build()}{_machine_part(folder)}.{ending}.txt"


def system_file(info: DeviceInfo, ending: str) -> Path | None:
    """Return the system's database of a device, `ending` "fdb" or "db", plain or as .bz2; None where there is none.

    Where the device has no file of its own the one of the same kind of device with the nearest number of compute units
    is taken: what was fast there is the best guess here.
    """
    middle = "" if ending == "db" else f".{backend(info)}"
    stem, _, units = info.name.rpartition("_")
    found = []
    for name in _listing(system_folder()):
        for tail in (f"{middle}.{ending}.txt", f"{middle}.{ending}.txt.bz2"):
            if name.endswith(tail):
                count = _units(name[:-len(tail)], stem)
                if count is not None:
                    found.append((abs(count - int(units)), count, len(tail), name))
    return system_folder() / min(found)[-1] if found else None


def _units(base: str, stem: str) -> int | None:
    """Return the number of compute units in a file's base name if it is one of the devices called `stem`.

    AMD's own names join arch and number, in hexadecimal, where there are more than 64: gfx90a68 has 104.
    """
    if match := re.fullmatch(re.escape(stem) + r"_(\d{1,6})", base):
        return int(match[1])
    if stem.startswith("amd-"):
        arch = re.escape(stem[4:])
        if match := re.fullmatch(arch + r"_(\d{1,6})", base):
            return int(match[1])
        if match := re.fullmatch(arch + r"([0-9a-f]{2,3})", base):
            return int(match[1], 16)
    return None


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def is_network(path: Path, mounts: str | None = None) -> bool:
    """Whether a path lies on a network file system, by the longest mount point above it (Linux's mountinfo)."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return False
    target = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields, types = left.split(maxsplit=5), right.split(maxsplit=1)
        if len(fields) < 5 or not types:
            continue
        point = fields[4]
        if "\\" in point:
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point)
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two mounts at one place the later is seen
            best, kind = point, types[0]
    return kind in _NETWORK


@cache
def _machine_part(folder: Path) -> str:
    """Return what tells this machine's files in a folder from other machines', empty where they have none there."""
    if not is_network(folder):
        return ""
    import socket

    return "-" + (re.sub(r"[^A-Za-z0-9-]+", "-", socket.gethostname()) or "host")
