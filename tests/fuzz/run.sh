#!/usr/bin/env bash
# Fuzzes what miopyx reads: `bash tests/fuzz/run.sh [TARGET [SECONDS]]`, each target 10 minutes unless told, in a venv
# of its own with Atheris and clang's build.  JOBS run at a time (default: one a core).  What is new in the corpora lies
# in build/fuzz/TARGET; what was found in build/fuzz/found, named after its target: it belongs into tests/fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
clang=${CC:-$(for name in clang clang-{22..15}; do command -v "$name" && break; done || true)}
[ -n "$clang" ] || { echo "needs clang, with its sanitizers" >&2; exit 2; }
[ -x .venv-fuzz/bin/python ] || "$python" -m venv .venv-fuzz
. .venv-fuzz/bin/activate
python -m pip install --quiet --disable-pip-version-check atheris==3.0.0
CC=$clang python -m pip install --quiet --disable-pip-version-check -C cmake.define.MIOPYX_FUZZED=ON \
  -C build-dir=build/fuzzed ".[onnx,tune]"
targets=${1:-all}
[ "$targets" != all ] || targets=$(ls tests/fuzz/corpus)
mkdir -p build/fuzz/found
# Each run makes files: in memory, where there is a place for that, it is faster.  libFuzzer ends without tidying up.
memory=$([ ! -d /dev/shm ] || echo /dev/shm)
FUZZ_SCRATCH=$(mktemp -d -p "${FUZZ_SCRATCH:-${memory:-${TMPDIR:-/tmp}}}") && export FUZZ_SCRATCH
trap 'rm -rf "$FUZZ_SCRATCH"' EXIT
# The interpreter is not instrumented: sanitizer and fuzzer must be there before it.
runtime=$(python -c "import atheris; print(atheris.path())")/asan_with_fuzzer.so
one() {
  mkdir -p "build/fuzz/$1"
  if LD_PRELOAD=$3 ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc \
     python -P tests/fuzz/fuzz.py "$1" -max_total_time="$2" -timeout=25 -rss_limit_mb=3000 -max_len=16384 \
     -print_final_stats=1 -artifact_prefix="build/fuzz/found/$1-" "build/fuzz/$1" "tests/fuzz/corpus/$1" \
     > "build/fuzz/$1.log" 2>&1; then
    echo "$1: $(grep -o 'executed_units: .*' "build/fuzz/$1.log"), $(grep -oE 'cov: [0-9]+' "build/fuzz/$1.log" | tail -1)"
  else
    echo "$1: FOUND SOMETHING, the end of build/fuzz/$1.log:" && tail -n 40 "build/fuzz/$1.log" && return 1
  fi
}
export -f one
printf '%s\n' $targets | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c "one {} ${2:-600} '$runtime'"
