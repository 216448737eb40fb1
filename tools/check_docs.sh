#!/usr/bin/env bash
# Checks with Doxygen that every public declaration has its comment. The pages it makes on the way lie in
# build/docs/html.
#
#   tools/check_docs.sh [ROOT]
set -euo pipefail
cd "${1:-"$(dirname "${BASH_SOURCE[0]}")/.."}"
doxyfile=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/Doxyfile

# As in CMakeLists.txt, find_public_headers.
public_headers() {
  local kernels
  read -ra kernels < <(sed -n 's/^set(public_kernel_headers \(.*\))$/\1/p' CMakeLists.txt)
  find qkv -name '*.h' -not -path 'qkv/kernels/*' -exec grep -L 'visibility push(hidden)' {} +
  printf 'qkv/kernels/%s\n' "${kernels[@]}"
}

mkdir -p build/docs
{
  cat "$doxyfile"
  printf 'OUTPUT_DIRECTORY = build/docs\nINPUT = %s\n' "$(public_headers | sort | tr '\n' ' ')"
} | doxygen -
