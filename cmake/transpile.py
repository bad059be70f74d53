"""Make C of every .pyx file: `python cmake/transpile.py BUILD_FOLDER JOBS NAME=VALUE...` with Cython's directives.

One process makes many modules, since the most of a short one's time is Cython's own start; a module is made again only
when it or what it cimports changed.
"""

import json
import os
import sys
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension

# What Cython adds to every module is compiled once, as a module of its own.
SHARED = "miopyx._cython"
# Functions of these show their parameters (`help`, `inspect.signature`), which takes bytes and time.
PUBLIC = ("_core", "api", "engine", "functional", "problem", "torch")
# What imports a module begins here.  An error there says where the module begins: lines would be a tenth of that code.
IMPORTING = "/* #### Code section: module_exttypes ### */"
ONE_LINE = """
#undef __PYX_ERR
#define __PYX_ERR(file, line, label) { __PYX_MARK_ERR_POS(0, 1) goto label; }
"""


def shorten(path):
    text = path.read_text(encoding="utf-8")
    if IMPORTING in text and ONE_LINE not in text:
        path.write_text(text.replace(IMPORTING, IMPORTING + ONE_LINE), encoding="utf-8")


def main(build, jobs, *directives):
    os.chdir(Path(__file__).parent.parent)
    values = {"language_level": 3} | {name: value == "True" for name, value in (d.split("=") for d in directives)}
    sources = sorted(Path("miopyx").rglob("*.pyx"), key=lambda path: -path.stat().st_size)
    made_with = json.dumps([Cython.__version__, values, Path(__file__).read_text()])
    stamp = Path(build, "transpiled.json")
    force = not stamp.exists() or stamp.read_text() != made_with
    for public in (False, True):
        modules = [Extension(".".join(path.with_suffix("").parts), [str(path)]) for path in sources
                   if (path.with_suffix("").parts[1] in PUBLIC) == public]
        cythonize(modules + [Extension(SHARED, [SHARED.replace(".", "/") + ".c"])] * public, build_dir=build,
                  nthreads=int(jobs) if int(jobs) > 1 else 0, force=force, quiet=True, include_path=["."],
                  compiler_directives=values | {"binding": public}, shared_utility_qualified_name=SHARED)
    for path in sources:
        shorten(Path(build, path).with_suffix(".c"))
    stamp.write_text(made_with)


if __name__ == "__main__":
    main(*sys.argv[1:])
