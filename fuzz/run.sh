#!/usr/bin/env bash
# Lets libFuzzer look for inputs that break the readers of files, target by target. `make fuzz` builds them first.
#
#   fuzz/run.sh [TARGET...]     such as npy or config; default: all
#
# FUZZ_SECONDS=60   how long each target runs
#
# Inputs that it makes up stay in build/fuzz/corpus and are where the next run begins; those that break something are
# build/fuzz/found/TARGET-*. Once mended, such a file belongs in fuzz/corpus/TARGET, where `make test` runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly build=build/fuzz
readonly seconds=${FUZZ_SECONDS:-60}

# Prints one line, and what libFuzzer said if it found something.
run_target() {
  local target=$1 program=$build/fuzz/$1_fuzz log=$build/$1.log dictionary=()
  [[ -x $program ]] || { echo "fuzz: no $program; run make fuzz" >&2; return 2; }
  mkdir -p "$build/corpus/$target" "$build/found"
  case $target in safetensors | config | tokenizer_json | vocab_txt) dictionary=(-dict=fuzz/json.dict) ;; esac
  echo "fuzz: $target for $seconds s" >&2
  if "$program" "${dictionary[@]}" -max_total_time="$seconds" -max_len=4096 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/found/$target-" "$build/corpus/$target" "fuzz/corpus/$target" >"$log" 2>&1; then
    echo "$target: nothing found by $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
    return 0
  fi
  tail -n 40 "$log" >&2
  echo "$target: FOUND a fault; see it again: $program $(sed -n 's/.*Test unit written to //p' "$log")"
  return 1
}

targets=("$@")
if ((${#targets[@]} == 0)); then
  for source in fuzz/*_fuzz.cc; do
    source=${source##*/}
    targets+=("${source%_fuzz.cc}")
  done
fi
status=0
for target in "${targets[@]}"; do run_target "$target" || status=1; done
exit "$status"
