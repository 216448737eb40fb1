# What a person types. CMake does the building (CMakePresets.json); here the steps are put in order.
# Only results go to stdout; what the builds say goes to stderr.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: bench check-threads fuzz help demo command model build test lint check check-arm check-cpus format

QKV := build/release/qkv
PYTHON := .venv/bin/python
PYTEST := QKV_BINARY="$(CURDIR)/$(QKV)" $(PYTHON) -B -m pytest -q -rs -p no:cacheprovider --import-mode=importlib
# Asked in the recipe, since the recipe's first line may be what installs ccache.
CCACHE := $$(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
# ccache caches files with a precompiled header only if told that their macros and times may differ.
export CCACHE_SLOPPINESS := pch_defines,time_macros
EACH_CPP_FILE := find qkv viewer cli tests fuzz bench examples \( -name '*.h' -o -name '*.cc' \) -print0 | xargs -0 -r
SENTENCE := The animal didn't cross the street because it was too

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*##  */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: command  ## build the command, fetch the model, show where "it" looks
	@tools/fetch_model.sh >/dev/null
	@$(QKV) look "$(SENTENCE) tired." --from it --to animal
	@$(QKV) look "$(SENTENCE) wide." --from it --to animal

# A new build folder gets no tests, so that GoogleTest is not needed; one that is there keeps its options.
command:  ## build only the command, build/release/qkv
	@tools/setup.sh build
	@[[ -f build/release/build.ninja ]] || cmake --preset release -DQKV_BUILD_TESTS=OFF $(CCACHE) >&2
	@cmake --build --preset release --target qkv >&2

model:  ## fetch the default model into the cache and print its folder
	@tools/fetch_model.sh

build:  ## build everything, tests too
	@tools/setup.sh test
	@cmake --preset release -DQKV_BUILD_TESTS=ON $(CCACHE) >&2
	@cmake --build --preset release >&2

test: lint build model  ## run every test, also with sanitizers (QKV_TEST_TORCH=1: and compare with PyTorch)
	@ctest --preset release -j "$$(nproc)"
	@$(PYTEST) tests --ignore=tests/parity
	@echo "left out: clang-tidy; make check runs it"
ifeq ($(QKV_TEST_TORCH),1)
	@$(PYTEST) tests/parity
else
	@echo "left out: tests/parity, the comparison with PyTorch; QKV_TEST_TORCH=1 makes it run"
endif
	@cmake --preset asan-ubsan -DQKV_BUILD_TESTS=ON $(CCACHE) >&2
	@cmake --build --preset asan-ubsan >&2
	@ctest --preset asan-ubsan -j "$$(nproc)"

check-threads:  ## run the tests that use threads under ThreadSanitizer
	@tools/setup.sh test
	@cmake --preset tsan -DQKV_BUILD_TESTS=ON $(CCACHE) >&2
	@cmake --build --preset tsan >&2
	@ctest --preset tsan

lint:  ## check include levels, house rules, formatting and that public headers are documented (seconds)
	@tools/setup.sh test
	@$(PYTHON) -B tools/check_layers.py
	@$(EACH_CPP_FILE) clang-format --dry-run -Werror
	@tools/check_docs.sh

check: lint  ## the same, and clang-tidy (minutes the first time, then only what has changed)
	@cmake --preset tidy >&2
	@$(PYTHON) -B tools/check_tidy.py build/tidy

fuzz:  ## look for inputs that break the readers of files, FUZZ_SECONDS (60) for each reader
	@tools/setup.sh fuzz
	@cmake --preset fuzz $(CCACHE) >&2
	@cmake --build --preset fuzz >&2
	@fuzz/run.sh

bench:  ## time qkv beside PyTorch, ONNX Runtime and JAX, under three minutes (bench/README.md)
	@tools/setup.sh bench
	@cmake --preset bench $(CCACHE) >&2
	@cmake --build --preset bench >&2
	@model=$$(tools/fetch_model.sh) || model=; $(PYTHON) -B bench/peers.py --quick $${model:+--model "$$model"}

check-arm:  ## cross-build for 64-bit Arm, run kernels and attention with NEON by emulation (minutes)
	@tools/setup.sh arm
	@cmake --preset arm $(CCACHE) >&2
	@cmake --build --preset arm >&2
	@tests/install/check_arm.sh

check-cpus: build  ## run on older x86-64 processors by emulation (needs qemu-user)
	@tests/install/check_cpus.sh

format:  ## format the C++ files
	@tools/setup.sh test
	@$(EACH_CPP_FILE) clang-format -i
