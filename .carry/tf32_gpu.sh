#!/bin/bash
# From the project's root on a machine with an H100: bench/tf32_gpu.sh [check] [times]; both without a word.
set -u
export MIOPEN_COMPILE_PARALLEL_LEVEL=12
what="${*:-check times}"
if [[ $what == *check* ]]; then
    timeout 400 python -P -m pytest -q -n 12 tests/test_nvidia_tf32.py --device cuda:0 --long 2>&1 | tail -15
fi
if [[ $what == *times* ]]; then
    timeout 280 python -P bench/tiles.py --json "${OUT:-/tmp}/tf32-tiles.json" 2>&1 | tail -110
fi
