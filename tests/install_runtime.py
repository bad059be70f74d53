"""Make sure that the tests have an OpenCL CPU device: `python tests/install_runtime.py` after installing miopyx.

Does nothing where one works.  Otherwise installs Debian's PoCL if this is root on a machine with apt-get, else Intel's
CPU runtime with pip, which miopyx finds by itself.  Never fails: without a device the tests run on the host alone.
Likewise clang, which builds NVIDIA's kernels in tests/test_nvidia_programs.py; that test is skipped without.
"""

import os
import platform
import shutil
import subprocess
import sys

LIMIT = 900  # seconds that one installation may take
CHECK = """
from miopyx.device import devices
print(*[i.name for i in devices.candidates() if i.kind == "cpu" and devices.probe(i).ok][:1])
"""


def working_device():
    """Return the name of an OpenCL CPU device that works, asked in a process that knows of nothing older."""
    done = subprocess.run([sys.executable, "-P", "-c", CHECK], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def run(*command):
    """Run a command quietly; return an empty text, or why it failed."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return f"{' '.join(command[:3])}: exit code {done.returncode}: {last}" if done.returncode else ""


def install_pocl():
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        return "apt-get cannot be used"
    return run("apt-get", "update") or run("apt-get", "install", "-y", "--no-install-recommends", "pocl-opencl-icd")


def install_intel():
    if platform.machine() not in ("x86_64", "AMD64"):
        return "Intel's runtime is for x86-64"
    return run(sys.executable, "-m", "pip", "install", "intel-opencl-rt", "intel-cmplr-lib-rt")


def install_clang():
    """Install Debian's clang where this can; return what became of it."""
    if any(shutil.which(name) for name in ("clang", *(f"clang-{version}" for version in range(21, 13, -1)))):
        return "clang is there"
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        return "no clang: NVIDIA's kernels will not be built"
    why = run("apt-get", "update") or run("apt-get", "install", "-y", "--no-install-recommends", "clang")
    return f"no clang: {why}" if why else "installed clang with apt-get"


def main():
    found = install_device()
    print(install_clang())  # PoCL may have brought one
    return found


def install_device():
    name = working_device()
    if name:
        print(f"OpenCL CPU device {name} works: nothing to install")
        return 0
    failures = []
    for what, install in (("pocl-opencl-icd with apt-get", install_pocl),
                          ("intel-opencl-rt and intel-cmplr-lib-rt with pip", install_intel)):
        why = install()
        if not why:
            name = working_device()
            if name:
                print(f"installed {what}: OpenCL CPU device {name} works")
                return 0
            why = "installed, but no device works; see `miopyx doctor`"
        failures.append(f"{what}: {why}")
    line = "*" * 80
    print("\n".join([line, "NO OPENCL CPU DEVICE: the tests will run on the host path alone.", *failures, line]),
          file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
