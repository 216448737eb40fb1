#!/usr/bin/env bash
# Installs what is missing: Debian packages by apt, Python packages into .venv.
#
#   tools/setup.sh model   what fetching the model needs (Python with venv)
#   tools/setup.sh build   also what building the command needs (the default)
#   tools/setup.sh test    also what `make test` needs
#   tools/setup.sh fuzz    what `make fuzz` needs
#   tools/setup.sh arm     what `make check-arm` needs; lets dpkg install packages of arm64 beside this machine's own
#   tools/setup.sh bench   what `make bench` needs: also PyTorch and whom qkv is measured beside
#
# QKV_NO_INSTALL=1   only reports what is missing; the exit code is 1 if anything is
# QKV_TEST_TORCH=1   with `test`: also PyTorch and transformers, for tests/parity
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly build_packages=(g++ cmake ninja-build pkg-config libhwy-dev libtbb-dev nlohmann-json3-dev libutf8proc-dev
  libcli11-dev)
readonly test_packages=(libgtest-dev libgmock-dev libeigen3-dev clang clang-format clang-tidy doxygen ccache)
readonly fuzz_packages=(clang libclang-rt-dev ccache)
readonly arm_packages=(g++-aarch64-linux-gnu qemu-user ccache libhwy-dev:arm64 libtbb-dev:arm64 libutf8proc-dev:arm64
  libgtest-dev:arm64 libgmock-dev:arm64)
readonly bench_packages=(libbenchmark-dev ccache)
readonly venv_python=.venv/bin/python
log=""
trap '[[ -z $log ]] || rm -f "$log"' EXIT

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

no_install() { [[ ${QKV_NO_INSTALL:-0} == 1 ]]; }

# Runs a command in silence; when it fails, shows the end of what it printed.
quietly() {
  [[ -n $log ]] || log=$(mktemp)
  if "$@" >"$log" 2>&1 </dev/null; then return 0; fi
  tail -n 25 "$log" >&2
  return 1
}

# A Python that can make a venv. The first python3 in PATH may be one that cannot (Debian's without python3-venv).
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

# The stamp is written last and holds the version: a venv half made or left by another Python is made anew.
venv_is_ready() {
  [[ -x $venv_python && -f .venv/.qkv-venv && $(<.venv/.qkv-venv) == "$("$venv_python" -V 2>&1)" ]]
}

missing_packages() {
  local installed package
  # dpkg-query fails when it does not know one of the names; those are missing as well.
  # A package of another architecture is asked for as NAME:ARCHITECTURE.
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n${db:Status-Status} ${Package}:${Architecture}\n' "$@" \
    2>/dev/null || true)
  for package in "$@"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

as_root() {
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "not root and no sudo: run as root: apt-get install ${missing[*]}"
    # The password is asked for here, not inside quietly, where nobody would see the question.
    sudo -v || fail "sudo said no: run as root: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  quietly "${sudo[@]}" "$@"
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 "$@"; }

# Package lists that were fetched before dpkg knew the architecture have none of its packages.
add_architecture_of() {
  local package architecture
  for package in "$@"; do
    [[ $package == *:* ]] || continue
    architecture=${package#*:}
    ! grep -qxF "$architecture" <<<"$(dpkg --print-architecture && dpkg --print-foreign-architectures)" || continue
    say "adding the architecture $architecture to dpkg's (back: dpkg --remove-architecture $architecture)"
    as_root dpkg --add-architecture "$architecture" || fail "dpkg --add-architecture failed"
    needs_update=1
  done
}

have_package_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

install_packages() {
  local missing=()
  if ! command -v dpkg-query >/dev/null; then
    say "no Debian packages on this machine; by hand it needs what Debian calls: $*"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  if no_install; then
    say "missing Debian packages: ${missing[*]}"
    something_is_missing=1
    return 0
  fi
  command -v apt-get >/dev/null || fail "no apt-get to install: ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  local just_updated=0 needs_update=0
  add_architecture_of "${missing[@]}"
  if ((needs_update)) || ! have_package_lists; then
    apt update || fail "apt-get update failed"
    just_updated=1
  fi
  if apt install --no-install-recommends "${missing[@]}"; then return 0; fi
  ((just_updated == 0)) || fail "apt-get install failed"
  say "once more with new package lists"
  apt update || fail "apt-get update failed"
  apt install --no-install-recommends "${missing[@]}" || fail "apt-get install failed"
}

make_venv() {
  venv_is_ready && return 0
  if no_install; then
    say "missing: the Python environment .venv"
    something_is_missing=1
    return 0
  fi
  local python
  python=$(find_python) || fail "no Python >= 3.11 that can make a venv (Debian: python3-venv)"
  say "making .venv with $("$python" -V 2>&1)"
  quietly "$python" -m venv --clear .venv || fail "python -m venv failed"
  "$venv_python" -V >.venv/.qkv-venv 2>&1
}

# Installs the packages of requirement files; a stamp with the file's checksum makes a repeat cost nothing.
install_requirements() {
  local name names=() file stamp sums=() arguments=()
  for name in "$@"; do
    file=tools/requirements-$name.txt
    stamp=.venv/.qkv-requirements-$name
    arguments+=(-r "$file")
    sums+=("$(sha256sum <"$file")")
    if [[ ! -f $stamp || $(<"$stamp") != "${sums[-1]}" ]]; then
      mapfile -t -O "${#names[@]}" names < <(grep -v -e '^#' -e '^$' "$file")
    fi
  done
  ((${#names[@]})) || return 0
  if no_install; then
    say "missing in .venv: ${names[*]}"
    something_is_missing=1
    return 0
  fi
  say "installing into .venv: ${names[*]}"
  quietly "$venv_python" -m pip install --quiet --disable-pip-version-check --no-input "${arguments[@]}" ||
    fail "pip install failed"
  local i=0
  for name in "$@"; do
    printf '%s\n' "${sums[i]}" >".venv/.qkv-requirements-$name"
    ((++i))
  done
}

mode=${1:-build}
packages=()
requirements=()
something_is_missing=0
case $mode in
  model) ;;
  build) packages+=("${build_packages[@]}") ;;
  test)
    packages+=("${build_packages[@]}" "${test_packages[@]}")
    requirements+=(test)
    [[ ${QKV_TEST_TORCH:-0} != 1 ]] || requirements+=(torch)
    ;;
  fuzz) packages+=("${build_packages[@]}" "${fuzz_packages[@]}") ;;
  arm) packages+=("${build_packages[@]}" "${arm_packages[@]}") ;;
  bench)
    packages+=("${build_packages[@]}" "${bench_packages[@]}")
    requirements+=(test torch bench)
    ;;
  *)
    say "unknown mode '$mode'; modes: model, build, test, fuzz, arm, bench"
    exit 2
    ;;
esac
if ! venv_is_ready && ! find_python >/dev/null; then packages+=(python3-venv); fi
((${#packages[@]} == 0)) || install_packages "${packages[@]}"
make_venv
((${#requirements[@]} == 0)) || install_requirements "${requirements[@]}"
exit "$something_is_missing"
