"""Which of PoCL's devices take part: the one that runs in the calling thread, and its usual one.

A launch on PoCL's `basic` device costs half a microsecond, where others wake threads: what a call costs besides can be
seen there.  PoCL reads its choice from the environment before a process first asks for platforms.
"""

from __future__ import annotations

import os
import subprocess
import sys

_CHECK = "import pyopencl as cl; print(sum('Portable' in platform.name for platform in cl.get_platforms()))"


def choose(*kinds: str) -> None:
    """Set POCL_DEVICES to "basic", "pthread" or both by the names that this PoCL has, unless it is set already."""
    if "POCL_DEVICES" in os.environ:
        return
    newer = {"basic": "cpu-minimal", "pthread": "cpu"}
    for names in (kinds, [newer[kind] for kind in kinds]):
        value = " ".join(names)
        done = subprocess.run([sys.executable, "-P", "-c", _CHECK], env={**os.environ, "POCL_DEVICES": value},
                              capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() not in ("", "0"):
            os.environ["POCL_DEVICES"] = value
            return
