#!/usr/bin/env bash
# Tests on OpenCL drivers that other runs leave out: Mesa's Rusticl on llvmpipe, and PoCL's `basic` device.
#
#     tests/run_drivers.sh                                    doctor and the files below, on both
#     tests/run_drivers.sh rusticl [FILE...] [-- OPTION...]   on one; these files; options of pytest
#     tests/run_drivers.sh basic test_lrn.py -- --long
#
# Each file has a process of its own, so that a driver that ends it costs that file alone.  Without --long a random
# tenth of the cases runs, and none on the host path.  SECONDS_A_TEST (300) ends a file in whose test that much passed:
# llvmpipe did not compile one shape of pooling by indices of 8 bits in that time.
#
# Debian: pocl-opencl-icd; mesa-opencl-icd of Mesa 25.0 or newer (Debian 13; that of Debian 12, 22.3, does not pass the
# doctor's probe).  Only the driver in question is seen: its .icd file is looked for in OCL_ICD_VENDORS, else in
# /etc/OpenCL/vendors.
set -uo pipefail
cd "$(dirname "$0")/.."
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
python=${PYTHON:-$python}
solvers=(test_solvers test_implicit_cpu test_implicit_cpu_nhwc test_implicit_cpu_weights test_winograd_cpu
         test_grouped_cpu test_few_cpu test_fft test_depthwise)
choices=(test_find test_find2 test_find_modes test_immediate test_plans)
layers=(test_mha test_rnn test_pooling test_activation test_softmax test_lrn test_reduce test_tensor_ops test_layernorm
        test_batchnorm test_cat test_getitem test_kthvalue test_multimargin test_adam test_ctc test_dropout test_fusion)
drivers=(rusticl basic)
case "${1:-}" in rusticl | basic) drivers=("$1") && shift ;; esac
named=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do named+=("$(basename "$1" .py)") && shift; done
[ "${1:-}" = -- ] && shift

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
vendors=${OCL_ICD_VENDORS:-/etc/OpenCL/vendors}
export MIOPYX_CACHE_DIR=$folder/cache
failed=0 lines=()

try() { # DRIVER ICD FILE...
  local driver=$1 icd=$vendors/$2 file said status
  shift 2
  if [ ! -e "$icd" ]; then
    lines+=("$driver: no $icd") failed=1
    return
  fi
  mkdir "$folder/$driver"
  cp "$icd" "$folder/$driver"
  export OCL_ICD_VENDORS=$folder/$driver
  said=$("$python" -P -m miopyx doctor)
  echo "$said"
  if ! grep -Eq '^\*? +[0-9]+:[0-9]+ .* works ' <<< "$said"; then
    lines+=("$driver: doctor finds no device that works") failed=1
    return
  fi
  for file in "${tests[@]}"; do
    "$python" -P -m pytest -q -p no:cacheprovider -k 'not [host' -o faulthandler_timeout="${SECONDS_A_TEST:-300}" \
      -o faulthandler_exit_on_timeout=true "tests/$file.py" "$@" 2>&1 | tee "$folder/said"
    status=$?
    said=$(grep -E '^(=+ )?[0-9]+ (passed|failed|skipped|deselected|error).* in ' "$folder/said" | tail -n 1)
    [ "$status" = 0 ] || failed=1
    lines+=("$(printf '%-8s %-26s %3d  %s' "$driver" "$file" "$status" "${said:-ended before its end}")")
  done
}

for driver in "${drivers[@]}"; do
  tests=("${solvers[@]}" "${choices[@]}" "${layers[@]}")
  [ ${#named[@]} = 0 ] || tests=("${named[@]}")
  case $driver in
    rusticl) RUSTICL_ENABLE=llvmpipe try rusticl rusticl.icd "$@" ;;
    basic) POCL_DEVICES=basic try basic pocl.icd "$@" ;;
  esac
done
printf '\n%-8s %-26s %s\n' driver file 'exit status, counts'
printf '%s\n' "${lines[@]}"
exit $failed
