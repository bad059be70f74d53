#!/usr/bin/env bash
# Kernels without PTX on Oclgrind, which sees invalid accesses, races and what was not initialised.
#
#     tests/run_simulated.sh [TEXT...] [--view cpu|gpu|...] [--share 1/4] [--quick]     --help says more
set -euo pipefail
cd "$(dirname "$0")/.."
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
exec "${PYTHON:-$python}" -P tests/simulated.py "$@"
