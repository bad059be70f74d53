#!/usr/bin/env bash
# Builds the documentation into docs/_build/html, warnings being errors, and runs the code of its pages.
#
#     bash docs/build.sh            in .venv, which is made and filled if it is not there
#     PYTHON=python bash docs/build.sh    with an interpreter that has the package and its extras docs and test
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if [ -z "${PYTHON:-}" ]; then
  [ -x .venv/bin/python ] || python3 -m venv .venv
  "$python" -P -c "import miopyx, furo, matplotlib, myst_parser, onnx, pytest" 2>/dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check ".[docs,test]"
fi
# No -j: processes made by fork may not use OpenCL.
"$python" -P -m sphinx -b html -W --keep-going -n -q -d docs/_build/doctrees docs docs/_build/html
"$python" -P -m pytest -q -p no:cacheprovider tests/test_docs.py
echo "docs/_build/html/index.html"
