#!/usr/bin/env bash
# The tests on a build with bounds checks, AddressSanitizer and UndefinedBehaviorSanitizer, in a venv of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv-checked/bin/python ] || "$python" -m venv .venv-checked
. .venv-checked/bin/activate
python -m pip install --quiet --disable-pip-version-check -C cmake.define.MIOPYX_CHECKED=ON \
  -C build-dir=build/checked ".[test]"
# The interpreter is not instrumented, so the sanitizer's runtime must be there before it; Python's own leaks are its own.
export LD_PRELOAD=$(${CC:-cc} -print-file-name=libasan.so):$(${CC:-cc} -print-file-name=libubsan.so)
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
python tests/install_runtime.py
exec pytest "$@"
