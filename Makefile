# The commands of the project. `make` alone explains them. Each installs what it is missing and can be repeated.
#
#   DATA=folder     demo: your own photos, one folder per class (default: photos made once from a Debian package)
#   JOBS=n          build jobs (default: one per core)
#   PIP_ARGS=...    extra arguments of pip, such as --extra-index-url https://download.pytorch.org/whl/cpu
#   FUZZ_SECONDS=n  seconds per fuzz target in `make fuzz` (default 30); FUZZ_TARGETS="tar manifest": only these
#   PREFIX=folder   install: where to (default /usr/local); DESTDIR=folder is put before all paths
#   N=n, SEED=n     faults: how many, and the seed (default: 1000, and one that is printed)
#   TESTS=pattern   test, asan, tsan, gcc: only the C++ tests whose name matches

SHELL := /bin/bash
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 30
TESTS ?= .
N ?= 1000
SEED ?=
DATA ?=
PREFIX ?= /usr/local
DESTDIR ?=
PY := .venv/bin/python
export JOBS FUZZ_SECONDS FUZZ_TARGETS PIP_ARGS

.DEFAULT_GOAL := help
.PHONY: help setup demo test gcc arm armbits asan tsan lint fuzz faults bench wheel install docs format clean

help:  ## this text
	@echo "Carya: a shared-memory data loader. Start with one of the first two."
	@echo
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'
	@echo
	@echo "Variables (make demo DATA=photos JOBS=4):"
	@sed -n 's/^#   \([A-Z_]*=.*\)/  \1/p' $(MAKEFILE_LIST)

demo:  ## train a small model on real photos, stop and resume it, beside torch's own DataLoader
	@tools/setup.sh demo
	@tools/build.sh release carya_core
	@tools/demo.sh "$(DATA)"

test:  ## build, all tests, layers, formatting, bench smoke runs; ends with one summary line
	@tools/setup.sh test
	@tools/build.sh release
	@$(PY) tools/test.py --build build/release --python --house --bench --tests '$(TESTS)'

gcc:  ## the same C++ tests built by GCC, and the same digests of the stream
	@tools/setup.sh test
	@tools/build.sh release
	@tools/build.sh gcc
	@$(PY) tools/test.py --build build/gcc --tests '$(TESTS)'
	@$(PY) tools/digests.py build/release build/gcc

arm:  ## aarch64: cross build, its C++ tests in qemu, the same digests of the stream, hosts and workers of both
	@tools/setup.sh test
	@tools/build.sh release
	@tools/arm_root.sh
	@tools/build.sh arm
	@env -u CARYA_TEST_DATA $(PY) tools/test.py --build build/arm --tests '$(TESTS)' --leave-out tests/qemu_leaves_out.txt
	@$(PY) tools/digests.py build/release build/arm
	@CARYA_ARM=1 PYTHONPATH=build/release/python $(PY) -m pytest -q tests/python/test_arm.py

armbits:  ## the part of arm that CI runs: its kernels and decoder, and the digests of the pictures made here
	@tools/setup.sh test
	@tools/build.sh release
	@tools/arm_root.sh
	@tools/build.sh arm bits
	@env -u CARYA_TEST_DATA $(PY) tools/test.py --build build/arm --leave-out tests/qemu_leaves_out.txt \
	  --tests '^(Targets/Kernel|Kernel(Idct|Jpeg\.|Resize\.[^I]|Store|Pad)|BlurTaps|WarpGrid|EveryTarget/(Damage|Decoder|Index))'
	@$(PY) tools/digests.py --made build/release build/arm

asan:  ## the C++ tests under the address and undefined-behaviour sanitizers
	@tools/setup.sh test
	@tools/build.sh asan
	@$(PY) tools/test.py --build build/asan --tests '$(TESTS)'

tsan:  ## the C++ tests under the thread sanitizer
	@tools/setup.sh test
	@tools/build.sh tsan
	@$(PY) tools/test.py --build build/tsan --tests '$(TESTS)'

lint:  ## clang-format, clang-tidy (short list), ruff, mypy --strict
	@tools/setup.sh test
	@tools/build.sh release configure
	@tools/lint.sh

fuzz:  ## libFuzzer on every parser, FUZZ_SECONDS each
	@tools/setup.sh test
	@tools/build.sh fuzz fuzzers
	@tools/fuzz.sh

faults:  ## N random faults under running jobs (default 1000), each followed by a look at the stream and at leaks
	@tools/setup.sh test
	@tools/build.sh release faults
	@build/release/tests/faults/faults -n $(N) --seed '$(SEED)'

bench:  ## every bench, with its table and one JSON line
	@tools/setup.sh test
	@tools/build.sh release
	@tools/bench.sh

wheel:  ## a wheel in dist/, tried in a fresh environment
	@tools/setup.sh wheel
	@tools/wheel.sh

install:  ## caryad and carya-worker, systemd units, configuration and man pages into PREFIX
	@tools/setup.sh test
	@tools/build.sh release caryad
	@tools/build.sh release carya-worker
	@packaging/install.sh build/release/python/carya/bin "$(PREFIX)" "$(DESTDIR)"

docs:  ## the documentation site in build/site, warnings are errors
	@tools/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet --site-dir build/site && echo "docs: build/site/index.html"

format:  ## clang-format and ruff format on all files
	@tools/setup.sh test
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --quiet --fix .

clean:  ## remove build/ and dist/ (keeps .venv)
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache
