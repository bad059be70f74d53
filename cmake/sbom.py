"""Write a wheel's bill of materials: `python cmake/sbom.py FILE VERSION NUMPY COMPILER COMPILER_VERSION`.

CycloneDX 1.6.  Components are what is compiled in, with its version, and what is needed to run, with the range that
pyproject.toml gives.  Neither a time nor a random number is in it: the same build makes the same bytes.
"""

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path

import Cython

COMPILERS = {"GNU": ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1"),
             "Clang": ("compiler-rt", "Apache-2.0 WITH LLVM-exception")}


def component(kind, reference, name, licence="", version="", part=""):
    """Return a component; a package of PyPI has its address there as its reference."""
    of_pypi = {"purl": reference} if reference.startswith("pkg:") else {}
    return {"type": kind, "bom-ref": reference, "name": name, **({"version": version} if version else {}), **of_pypi,
            **({"licenses": [{"expression": licence}]} if licence else {}),
            **({"properties": [{"name": "miopyx:part", "value": part}]} if part else {})}


def bill(version, numpy, compiler, compiler_version):
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    runtime, licence = COMPILERS.get(compiler, (f"runtime of {compiler}", ""))
    compiled = [
        component("library", f"pkg:pypi/cython@{Cython.__version__}", "Cython", "Apache-2.0", Cython.__version__,
                  "compiled in: the C that it adds to each module"),
        component("library", f"pkg:pypi/numpy@{numpy}", "numpy", "BSD-3-Clause", numpy,
                  "compiled in: functions of its headers"),
        component("library", f"compiler:{runtime}@{compiler_version}", runtime, licence, compiler_version,
                  "compiled in: what the compiler links into a module"),
    ]
    needed = [component("library", "needed:" + re.match(r"[\w.-]+", wanted)[0], re.match(r"[\w.-]+", wanted)[0],
                        part=f"needed to run: {wanted}") for wanted in project["dependencies"]]
    itself = component("library", f"pkg:pypi/{project['name']}@{version}", project["name"], project["license"], version)
    parts = compiled + needed
    found = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": itself},
             "components": parts,
             "dependencies": [{"ref": itself["bom-ref"], "dependsOn": sorted(part["bom-ref"] for part in parts)}]}
    return {**found, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found))}"}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(bill(*sys.argv[2:]), indent=1) + "\n", encoding="utf-8")
