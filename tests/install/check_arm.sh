#!/usr/bin/env bash
# Runs the tests of the kernels and some of those of attention, cross-built for 64-bit Arm (preset arm), by emulation, and checks
# that NEON is what they run with and that its register tiles stay in registers. Needs qemu-aarch64 (Debian: qemu-user). About five minutes.
#
#   tests/install/check_arm.sh [BUILD]       BUILD: build/arm unless given
set -euo pipefail
build=${1:-build/arm}

command -v qemu-aarch64 >/dev/null || {
  echo "check_arm: no qemu-aarch64; on Debian: apt-get install qemu-user" >&2
  exit 2
}

failed=0
report() {
  [[ ${*: -1} != FAILED* ]] || failed=1
  printf '%-12s %-46s %s\n' "$@"
}

# check CPU PROGRAM [TESTS]
check() {
  local cpu=$1 program=$2 tests=${3:-*} run targets result
  run=(qemu-aarch64 -cpu "$cpu" "$build/tests/$program")
  # The program has each test once for every SIMD target of the processor, and a test whose target is not the one in use fails.
  targets=$("${run[@]}" --gtest_list_tests 2>/dev/null | sed -n 's/.*GetParam() = "\(.*\)"$/\1/p' | sort -u | xargs) || true
  if [[ $targets != neon ]]; then
    result="FAILED: has the SIMD targets '$targets', expected 'neon'"
  elif ! QKV_NUM_THREADS=2 "${run[@]}" --gtest_filter="$tests" --gtest_brief=1 &>/dev/null; then
    result="FAILED: ${run[*]} --gtest_filter='$tests'"
  else
    result="passed with $targets"
  fi
  report "$cpu" "$program ${3:-}" "$result"
}

# Stores and loads of vectors on the stack between the multiplications of the widest tiles' loops, and the number of those multiplications.
count_spills() {
  aarch64-linux-gnu-objdump -dC --no-show-raw-insn "$build/libqkv_attention.a" | awk '
    /^[0-9a-f]+ <.*>:$/ { in_tile = /contract_rows<(8, 0, 3|8, 0, 2|16, 0, 1),/; block = 0 }
    !in_tile { next }
    /\t(b|b\.[a-z]+|cbn?z|tbn?z|ret)\t/ { block = 0; next }
    /\tfmla\t/ { if (block) spills += pending; block = 1; pending = 0; ++products; next }
    block && /\t(ld|st)u?[rp]\t[qds][0-9].*\[sp/ { ++pending }
    END { print spills + 0, products + 0 }'
}

read -r spills products < <(count_spills)
if ((spills == 0 && products > 0)); then
  report "" "register tiles 8x3, 8x2, 16x1" "in registers"
else
  report "" "register tiles 8x3, 8x2, 16x1" "FAILED: $spills spills among $products products"
fi
# ARMv8.0 has NEON and nothing beyond. The sweep is cut, as the oracle takes its time, most of all in emulated long double.
check cortex-a72 kernels_test
check cortex-a72 attention_test
check cortex-a72 attention_sweep_test '*AttentionThreads*'
QKV_SWEEP_STEP=20 check cortex-a72 attention_sweep_test '*OnEveryTarget'
QKV_SWEEP_STEP=30 check cortex-a72 attention_sweep_test '*InDouble'
check max kernels_test '*Linear*' # a processor with SVE2, which qkv leaves alone
exit "$failed"
