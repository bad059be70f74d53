#!/usr/bin/env bash
# try_wheel.sh PYTHON    tries the miopyx that this Python has installed: import, doctor, verified convolutions, tests
#
# RUN is put before every command: an emulator of another processor.  TESTS: the files that pytest runs, empty for none.
# WHEEL: the file that was installed, whose size and contents test_wheel.py looks at.
# EXTRA=cpu: the wheel was installed as miopyx[cpu], so Intel's runtime must be found, and compute a convolution.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
python=$(command -v "$1")
files=${TESTS-test_wheel.py test_install.py test_enums.py test_errors.py test_args.py test_config.py test_logs.py
  test_tensor_descriptor.py test_convolution_descriptor.py test_reference_conv.py}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
cd "$room"
export MIOPYX_CACHE_DIR=$room/cache MIOPEN_USER_DB_PATH=$room/databases
try() { ${RUN:-} "$python" -P "$@"; }

try -c "import miopyx, sys; print('miopyx', miopyx.__version__, miopyx.__file__); print(sys.version)"
try -c "import sys; from miopyx.tools.cli import main; sys.exit(main())" doctor
verify() {
  MIOPYX_DEVICE=$1 try -c "import sys; from miopyx.tools.driver import main; sys.exit(main())" \
    conv -n 2 -c 8 -k 16 -H 14 -W 14 -y 3 -x 3 -p 1 -q 1 -F 0 -V 1
}
verify host
if [ "${EXTRA:-}" = cpu ]; then
  device=$(try -c "import sys; from miopyx.tools.cli import main; sys.exit(main())" doctor --json |
    "$python" -c "import json, sys
print(next(one['name'] for one in json.load(sys.stdin)['devices'] if one['runtime'] == 'intel' and one['verdict']['ok']))")
  verify "$device"
fi
# pyopencl switches the GIL on where there may be none, with a warning, which tests take for an error.
[ "$(try -c 'import sysconfig; print(sysconfig.get_config_var("Py_GIL_DISABLED") or 0)')" = 0 ] || export PYTHON_GIL=0
if [ -n "$files" ]; then
  try -c "import pytest, xdist, hypothesis" 2> /dev/null ||
    try -m pip install --quiet --disable-pip-version-check pytest pytest-xdist hypothesis
  # shellcheck disable=SC2086
  (cd "$tests" && try -m pytest -q -p no:cacheprovider --device host ${files})
fi
