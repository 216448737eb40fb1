#!/usr/bin/env bash
# Runs the release build on x86-64 processors that this machine need not have, by emulation: the command and the tests of
# attention, each processor with the SIMD target that it ought to get. Needs qemu-x86_64 (Debian: qemu-user).
#
#   tests/install/check_cpus.sh [BUILD]       BUILD: build/release unless given
#
# The fault it looks for: https://github.com/turboderp-org/exllamav2/issues/391.
set -euo pipefail
build=${1:-build/release}

command -v qemu-x86_64 >/dev/null || {
  echo "check_cpus: no qemu-x86_64; on Debian: apt-get install qemu-user" >&2
  exit 2
}

failed=0
check() {
  local cpu=$1 expected=$2 target result
  target=$(qemu-x86_64 -cpu "$cpu" "$build/qkv" info 2>/dev/null | sed -n 's/^SIMD target  *//p') || true
  if [[ $target != "$expected" ]]; then
    result="FAILED: qkv info says '$target', expected '$expected'"
  elif ! QKV_NUM_THREADS=2 qemu-x86_64 -cpu "$cpu" "$build/tests/attention_test" --gtest_brief=1 &>/dev/null; then
    result="FAILED: tests/attention_test"
  else
    result="passed with $target"
  fi
  [[ $result == passed* ]] || failed=1
  printf '%-18s %s\n' "$cpu" "$result"
}

check core2duo,-ssse3 portable # SSE2 and SSE3 only
check qemu64 portable          # the baseline of x86-64
check Nehalem portable         # SSE4.2, but no AES, which Highway's SSE4 target may use
check Westmere sse4
check SandyBridge sse4     # AVX, no AVX2
check Haswell,-fma sse4    # AVX2 without FMA
check Haswell avx2
exit "$failed"
