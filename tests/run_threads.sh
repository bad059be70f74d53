#!/usr/bin/env bash
# Threads without the GIL: builds the package for a free-threaded Python and lets threads share all that they may.
#
#     PYTHON=python3.14t tests/run_threads.sh            on the host path and PoCL
#     PYTHON=... CC=clang tests/run_threads.sh --races   under ThreadSanitizer, on the host path
#
# For the second PYTHON is a CPython that was built with --disable-gil --with-thread-sanitizer by the same compiler: its
# own locks must be known to the sanitizer, else what they keep apart counts as a race.  Any report that
# tests/data/tsan.supp does not name fails.  SECONDS_A_KIND and CALLS (of each thread) say how long.
#
# pyopencl has no wheel for a free-threaded Python 3.13.  Its build wants OpenCL's headers and loader (Debian:
# ocl-icd-opencl-dev, opencl-headers), and it switches the GIL on unless nanobind is told so:
#
#     CXXFLAGS=-DNB_FREE_THREADED $PYTHON -m pip wheel --no-cache-dir --no-deps --no-binary pyopencl pyopencl -w \
#         build/wheels
#
# PIP_FIND_LINKS=$PWD/build/wheels then lets this script find it.  PIP_CONSTRAINT names a file with the newest versions
# that have wheels for 3.13t where later ones have none: numpy==2.4.6, siphash24==1.8.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:?a free-threaded Python}
devices=(host pocl) venv=.venv-threads
flags=()
export PYTHON_GIL=0
if [ "${1:-}" = --races ]; then
  devices=(host) venv=.venv-races
  flags=(-C cmake.define.MIOPYX_RACES=ON -C build-dir=build/races)
  export CC=${CC:-clang} TSAN_OPTIONS="suppressions=$PWD/tests/data/tsan.supp exitcode=66 history_size=4"
fi
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
. "$venv/bin/activate"
# What the problems are taken from, tests/problems.py, imports pytest.
python -m pip install --quiet --disable-pip-version-check "${flags[@]}" . pytest
for device in "${devices[@]}"; do
  kinds=(problems settings records functions programs descriptors destroy)
  [ "$device" = host ] || kinds+=(stream release repoint)
  [ "$device" = pocl ] || ! python -c "import torch" 2> /dev/null || kinds+=(torch)
  for kind in "${kinds[@]}"; do
    python -P tests/endurance_threads.py fault --device "$device" --kind "$kind" --seconds "${SECONDS_A_KIND:-10}"
  done
  python -P tests/endurance_threads.py stress --device "$device" --threads 8 --calls "${CALLS:-300}"
done
