#!/usr/bin/env bash
# Threads without the GIL: builds the package for a free-threaded Python and lets threads share all that they may.
#
#     PYTHON=python3.14t tests/run_threads.sh            on the host path and PoCL
#     PYTHON=... CC=clang tests/run_threads.sh --races   under ThreadSanitizer, on the host path
#
# For the second PYTHON is a CPython that was built with --disable-gil --with-thread-sanitizer by the same compiler: its
# own locks must be known to the sanitizer, else what they keep apart counts as a race.  Any report that
# tests/data/tsan.supp does not name fails.  SECONDS_A_KIND and CALLS (of each thread) say how long.
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
python -m pip install --quiet --disable-pip-version-check "${flags[@]}" .
for device in "${devices[@]}"; do
  kinds=(problems settings records functions programs descriptors destroy)
  [ "$device" = host ] || kinds+=(stream release repoint)
  for kind in "${kinds[@]}"; do
    python -P tests/endurance_threads.py fault --device "$device" --kind "$kind" --seconds "${SECONDS_A_KIND:-10}"
  done
  python -P tests/endurance_threads.py stress --device "$device" --threads 8 --calls "${CALLS:-300}"
done
