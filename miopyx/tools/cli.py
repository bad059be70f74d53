"""The `miopyx` command: `doctor` says which devices there are and work; the others are about what is known of them."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from miopyx.device import cuda, devices, icd
from miopyx.errors import MIOpenError
from miopyx.values import config, posix

from . import costs as coststool
from . import db, pipes, train, tune
from . import rates as ratestool

_GET_A_CPU_RUNTIME = ("apt-get install pocl-opencl-icd (Debian, Ubuntu), "
                      "or pip install 'miopyx[cpu]' (x86-64)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's arguments); return its exit code."""
    try:
        return pipes.quietly(lambda: _main(argv))
    except KeyboardInterrupt:  # who has something to keep takes it before
        print("miopyx: interrupted", file=sys.stderr)
        return 130


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="miopyx", description="MIOpen's API on OpenCL devices and plain CPUs")
    parser.add_argument("--version", action="version", version=f"miopyx {_version('miopyx')}")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor = commands.add_parser(
        "doctor", help="show devices, whether they work, caches and versions",
        description="Show every device, whether it works and why not, and which one Handle() takes.  A device that "
        "no process has tried before is tried now, in a child process.  Exits with 0 even if only the host works.")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--forget", action="store_true", help="drop the cached verdicts first and try each device anew")
    db.add_commands(commands)
    coststool.add_command(commands)
    ratestool.add_command(commands)
    train.add_command(commands)
    tune.add_commands(commands)
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command == "tune" and not any(word.startswith("-") for word in rest):
        arguments.source += rest  # sources behind an option, which argparse leaves
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _main(argv: Sequence[str] | None) -> int:
    arguments = _parsed(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # drivers may report names the terminal cannot show
    if arguments.command == "db":
        return db.run(arguments)
    if arguments.command != "doctor":
        code: int = arguments.run(arguments)
        return code
    try:
        if arguments.forget:
            count = devices.forget_verdicts()
            print(f"dropped {count} cached verdict{'' if count == 1 else 's'}", file=sys.stderr)
        found = report()
    except MIOpenError as e:
        print(f"miopyx: {e}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2) if arguments.json else text(found))
    return 0


def report() -> dict[str, Any]:
    """Return what `miopyx doctor` shows, as plain data."""
    environment = {name: os.environ[name] for name in sorted(os.environ)
                   if name in config.VARIABLES or name.startswith(("OCL_ICD_", "OPENCL_", "POCL_", "RUSTICL_"))}
    taken, why = _taken()
    found = [{**_plain(info), "taken": info == taken, "verdict": devices.probe(info)._asdict()}
               for info in devices.candidates()]
    return {
        "versions": {"miopyx": _version("miopyx"), "python": platform.python_version(), "numpy": _version("numpy"),
                     "pyopencl": _version("pyopencl")},
        "host": {"isa": devices.host_isa(), "threads": config.num_threads()},
        "loader": devices.loader_library(),
        "devices": found,
        "cuda": _cuda(),
        "taken": taken.name if taken else None,
        "taken_why": why,
        "runtimes": [runtime._asdict() for runtime in icd.runtimes()],
        "problems": devices.problems(),
        "remedies": _remedies(found),
        "cache": _cache(),
        "databases": db.report(),
        "environment": environment,
    }


def _cuda() -> dict[str, Any]:
    """Return what CUDA's driver has, or why it has nothing."""
    problem = cuda.problem()
    found = [] if problem else cuda.devices()
    rows = []
    for info in found:
        twin = devices.compiling_twin(info)
        rows.append({**_plain(info), "compiler": twin.name if twin else None})
    return {"library": cuda.library(), "problem": problem, "devices": rows}


def _plain(info: devices.DeviceInfo) -> dict[str, Any]:
    """Return a device as plain data; its handle is a live object that can be neither copied nor printed."""
    fields = {name: value for name, value in info._asdict().items() if name != "handle"}
    fields["extensions"] = sorted(info.extensions)
    return fields


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _taken() -> tuple[devices.DeviceInfo | None, str]:
    named = config.get("MIOPYX_DEVICE")
    try:
        info = devices.best()
    except MIOpenError as e:
        return None, f"MIOPYX_DEVICE={named}: {e}"
    if named:
        return info, f"MIOPYX_DEVICE={named}"
    if info.kind == "host":
        return info, "no OpenCL device works"
    return info, "the first that works, in the order GPUs, CPUs (most compute units first), host"


def _remedies(found: list[dict[str, Any]]) -> list[str]:
    remedies = [f"{runtime.name}: {runtime.remedy}" for runtime in icd.runtimes() if runtime.remedy]
    for entry in found:
        if "unknown target CPU" in entry["verdict"]["why"]:
            remedies.append(f"{entry['name']}: this PoCL's compiler is older than the CPU; use another runtime: "
                            f"{_GET_A_CPU_RUNTIME}")
        if entry["verdict"]["cached"] and not entry["verdict"]["ok"]:
            remedies.append(f"{entry['name']}: tried again a day after it failed, or now: miopyx doctor --forget")
    if not any(d["kind"] in ("gpu", "cpu") and d["verdict"]["ok"] for d in found):
        remedies.append(f"for an OpenCL device on this CPU: {_GET_A_CPU_RUNTIME}")
    return remedies


def _cache() -> dict[str, Any]:
    """Return the cache folder and why it is not used, if it is not."""
    if not config.get("MIOPYX_CACHE"):
        return {"folder": None, "used": False, "why": "switched off by MIOPYX_CACHE"}
    folder = config.cache_place()
    why = ""
    if config.cache_dir() is None:
        try:
            status = folder.stat()
        except OSError as e:
            why = f"cannot be made or read: {e.strerror}"
        else:
            if not folder.is_dir():
                why = "not a folder"
            elif not posix.is_ours(status):
                why = f"belongs to user {status.st_uid}, not to you"
            elif posix.others_write(status):
                why = f"others may write to it (mode {status.st_mode & 0o777:o}); chmod 700 it"
            else:
                why = "not writable"
    return {"folder": str(folder), "used": not why, "why": why or "writable"}


def text(found: dict[str, Any]) -> str:
    """Return a report as the text of `miopyx doctor`."""
    versions, cache = found["versions"], found["cache"]
    lines = [
        f"miopyx {versions['miopyx']}, Python {versions['python']}, numpy {versions['numpy']}, "
        f"pyopencl {versions['pyopencl']}",
        f"host       {found['host']['isa']}, {found['host']['threads']} threads",
        f"loader     {found['loader'] or 'none'}",
        f"cache      {cache['folder'] or 'none'}: {cache['why']}{'' if cache['used'] else '; nothing is kept'}",
        *(f"{name:<15} {place}" for name, place in found["databases"].get(found["taken"], {}).items()),
        "",
    ]
    rows = [("", "P:D", "name", "platform", "device", "driver", "verdict", "why")]
    for entry in found["devices"]:
        verdict = entry["verdict"]
        place = f"{entry['platform_index']}:{entry['device_index']}" if entry["platform_index"] >= 0 else "-"
        state = "works" if verdict["ok"] else "fails" if verdict["probed"] else "not probed"
        tried = f" ({'cached, ' if verdict['cached'] else ''}{verdict['seconds']:.1f} s)" if verdict["seconds"] else ""
        rows.append(("*" if entry["taken"] else "", place, entry["name"], _cut(entry["platform_name"], 28),
                     _cut(entry["device_name"], 40), _cut(entry["driver_version"], 24), state, verdict["why"] + tried))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines += ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
              for row in rows]
    lines += ["", f"* Handle() takes {found['taken']}: {found['taken_why']}" if found["taken"]
              else f"Handle() fails: {found['taken_why']}"]
    if found["cuda"]["problem"]:
        lines.append(f"no CUDA: {found['cuda']['problem']}")
    for entry in found["cuda"]["devices"]:
        lines.append(f"cuda:{entry['cuda']}: {entry['name']}, {entry['device_name']}, driver {entry['driver_version']}"
                     "; " + ("OpenCL compiles for it" if entry["compiler"] else
                        "no OpenCL device compiles for it: it runs what the cache of programs has"))
    for runtime in found["runtimes"]:
        name = f"{runtime['name']} {runtime['version']}".rstrip()
        lines.append(f"{name}: {'' if runtime['usable'] else 'not usable: '}{runtime['state']}")
    lines += [f"note: {line}" for line in found["problems"]]
    lines += [f"remedy: {line}" for line in found["remedies"]]
    lines += [f"set: {name}={value}" for name, value in found["environment"].items()]
    return "\n".join(lines)


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[:width - 3] + "..."
