"""Make C of every .pyx file: `python cmake/transpile.py BUILD_FOLDER JOBS NAME=VALUE...` with Cython's directives.

One process makes many modules, since the most of a short one's time is Cython's own start; a module is made again only
when it or what it cimports changed.  Each has its own copy of what Cython adds: shared, it costs each call time.
"""

import json
import os
import sys
from pathlib import Path

import Cython
from Cython.Build import cythonize
from setuptools import Extension


def main(build, jobs, *directives):
    os.chdir(Path(__file__).parent.parent)
    values = {"language_level": 3} | {name: value == "True" for name, value in (d.split("=") for d in directives)}
    sources = sorted(Path("miopyx").rglob("*.pyx"), key=lambda path: -path.stat().st_size)
    modules = [Extension(".".join(path.with_suffix("").parts), [str(path)]) for path in sources]
    made_with = json.dumps([Cython.__version__, values, Path(__file__).read_text()])
    stamp = Path(build, "transpiled.json")
    cythonize(modules, build_dir=build, nthreads=int(jobs) if int(jobs) > 1 else 0,
              force=not stamp.exists() or stamp.read_text() != made_with, quiet=True, include_path=["."],
              compiler_directives=values)
    stamp.write_text(made_with)


if __name__ == "__main__":
    main(*sys.argv[1:])
