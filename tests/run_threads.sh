#!/usr/bin/env bash
# Threads without the GIL under ThreadSanitizer, on the host path.  PYTHON is a CPython that was built with
# --disable-gil --with-thread-sanitizer: its own locks must be known to the sanitizer, else what they keep apart counts as
# a race.  CC is the compiler that it was built with.  Any report that tests/data/tsan.supp does not name fails.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:?a free-threaded Python with ThreadSanitizer}
export CC=${CC:-clang}
[ -x .venv-races/bin/python ] || "$python" -m venv .venv-races
. .venv-races/bin/activate
python -m pip install --quiet --disable-pip-version-check -C cmake.define.MIOPYX_RACES=ON -C build-dir=build/races .
export PYTHON_GIL=0 TSAN_OPTIONS="suppressions=$PWD/tests/data/tsan.supp exitcode=66 history_size=4"
for kind in problems settings records functions programs descriptors destroy; do
  python -P tests/endurance_threads.py fault --kind "$kind" --seconds "${SECONDS_A_KIND:-10}"
done
python -P tests/endurance_threads.py stress --threads 8 --calls "${CALLS:-300}"
