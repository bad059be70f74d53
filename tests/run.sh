#!/usr/bin/env bash
# Installs the package with what its tests need into .venv (an OpenCL runtime for CPUs included) and runs the checks.
#
#     tests/run.sh             the fast suite: a random few of the cases of tests that have many
#     tests/run.sh -m quick    the quick part of it
#     tests/run.sh --long      every case, whole loops, and the tests that take long
#
# What follows is pytest's.  JOBS says how many processes (default: one a core, at most 8), WITH what pip installs beside
# it: PyTorch, whose tests are left out where it is not installed, comes in builds of very different sizes.
set -euo pipefail
cd "$(dirname "$0")/.."

names=() seconds=()
phase() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@" || { printf '\n== %s: FAILED after %d s\n' "$name" $((SECONDS - begin)); exit 1; }
  names+=("$name") seconds+=($((SECONDS - begin)))
}

environment() {
  [ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
}

lint() {
  ruff check . && cython-lint miopyx
}

stubs() {
  local -a without=()
  python -c "import torch" 2> /dev/null || without=(--allowlist tests/data/stubtest-allow-without-torch.txt)
  python -P -m mypy.stubtest miopyx --ignore-disjoint-bases --allowlist tests/data/stubtest-allow.txt \
    --mypy-config-file pyproject.toml "${without[@]}"
}

cores=$(python3 -c 'import os; print(min(8, len(os.sched_getaffinity(0))))')
phase "environment" environment
. .venv/bin/activate
phase "build and install, with what the tests need" python -m pip install --disable-pip-version-check ".[test,lint,docs]" ${WITH:-}
phase "OpenCL runtime" python tests/install_runtime.py
phase "lint" lint
phase "stubs" stubs
# The code in pages is run with the documents.
phase "tests" pytest -n "${JOBS:-$cores}" --dist worksteal --ignore tests/test_docs.py "$@"
phase "documents" env PYTHON=python bash docs/build.sh

printf '\n== seconds\n'
for i in "${!names[@]}"; do printf '%6d  %s\n' "${seconds[$i]}" "${names[$i]}"; done
printf '%6d  in all\n' "$SECONDS"
