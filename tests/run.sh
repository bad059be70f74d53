#!/usr/bin/env bash
# Installs the package with what its tests need into .venv (an OpenCL runtime for CPUs included) and runs the checks.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
. .venv/bin/activate
python -m pip install --quiet --disable-pip-version-check ".[test,lint]"
python tests/install_runtime.py
ruff check .
cython-lint miopyx
python -P -m mypy.stubtest miopyx --ignore-disjoint-bases --allowlist tests/data/stubtest-allow.txt \
  --mypy-config-file pyproject.toml
exec pytest "$@"
