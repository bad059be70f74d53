#!/bin/bash
# Norms on a GPU: the tests on it, then forward and backward beside PyTorch and a copy of as many bytes.
#
#   GPU=cuda:0 bash bench/norms_gpu.sh        (from the project's root; GPU: a device as `miopyx doctor` names it)
set -u
GPU=${GPU:-cuda:0}
timeout 40 python -P -m pytest -q --device "$GPU" tests/test_layernorm.py -k "not host" -x 2>&1 | tail -15
timeout 40 python -P bench/norms.py --device "$GPU"
