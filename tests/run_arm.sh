#!/usr/bin/env bash
# Tests on AArch64 without such a processor: Debian 12 with its PoCL in a folder, under qemu's user emulation.
#
#     tests/run_arm.sh WHEEL [FILE...] [-- OPTION...]     a wheel of CPython 3.11 for aarch64; these files of tests
#
# Wants root, and Debian's debootstrap and qemu-user-static.  ROOT (build/arm64) is the folder, made where it is not there.
# Emulated tests take some fifty times as long, so SECONDS_A_FILE (600) end a file's: what passed until then counts, the
# rest is "not run", and a file of which nothing passed fails.  A random tenth of the cases is drawn, with `-- --long` all
# are; cases on the host path are left out, with `-- -k '[host'` they alone run.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${INSIDE:-}" ] || INSIDE=1 exec unshare --mount bash tests/run_arm.sh "$@"  # what is mounted below ends with it
wheel=$(realpath "${1:?a wheel of CPython 3.11 for aarch64}")
root=${ROOT:-build/arm64} python=${PYTHON:-python3}
shift
files=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do files+=("$(basename "$1" .py)") && shift; done
[ "${1:-}" = -- ] && shift
[ ${#files[@]} -gt 0 ] || files=(test_implicit_cpu test_implicit_cpu_nhwc test_winograd_cpu test_few_cpu test_grouped_cpu
  test_int8 test_solvers test_activation test_softmax test_lrn test_reduce test_tensor_ops test_pooling test_layernorm)

if [ ! -x "$root/usr/bin/python3" ]; then
  mkdir -p "$root"
  debootstrap --variant=minbase --arch=arm64 --include=python3,pocl-opencl-icd bookworm "$root"
fi
rm -rf "$root/opt/site" "$root/opt/tests" "$root/root/.cache"
mkdir -p "$root/opt/site" "$root/opt/tests"
"$python" -m pip install --quiet --disable-pip-version-check --target "$root/opt/site" --python-version 3.11 \
  --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 \
  --only-binary :all: "$wheel" pytest pytest-xdist pytest-benchmark hypothesis
cp -r pyproject.toml tests bench "$root/opt/tests"
mount -t proc proc "$root/proc"
for each in sys dev; do mount --rbind "/$each" "$root/$each"; done  # PoCL asks for the processors

failed=0 lines=()
for file in "${files[@]}"; do
  said=$(mktemp)
  status=0
  timeout "${SECONDS_A_FILE:-600}" chroot "$root" \
    env -i PATH=/usr/bin:/bin HOME=/root PYTHONPATH=/opt/site MIOPYX_PROBE_TIMEOUT=600 \
    bash -c 'cd /opt/tests && exec python3 -P -m pytest -v -p no:cacheprovider -k "not [host" "$@"' - "tests/$file.py" "$@" \
    > "$said" 2>&1 || status=$?
  passed=$(grep -cE '^tests/.* PASSED' "$said" || true) wrong=$(grep -cE '^tests/.* (FAILED|ERROR)' "$said" || true)
  all=$(grep -oE 'collected [0-9]+|[0-9]+ selected' "$said" | grep -oE '[0-9]+' | tail -n 1 || true)
  skipped=$(grep -cE '^tests/.* (SKIPPED|XFAIL)' "$said" || true)
  lines+=("$(printf '%-26s %6d %6d %7d %8d' "$file" "$passed" "$wrong" "$skipped" \
    $((${all:-0} - passed - wrong - skipped)))")
  echo "${lines[-1]}"
  [ "$status" = 0 ] || { [ "$status" = 124 ] && [ "$passed" -gt 0 ]; } || failed=1
  [ "$wrong" = 0 ] && [ "$status" != 1 ] || { tail -n 40 "$said" && failed=1; }
  rm "$said"
done
printf '\n%-26s %6s %6s %7s %8s\n' file passed failed skipped 'not run'
printf '%s\n' "${lines[@]}"
exit $failed
