# The commands of the project. `make` alone explains them. Each installs what it is missing and can be repeated.
#
#   DATA=folder     demo: your own photos, one folder per class (default: photos made once from a Debian package)
#   JOBS=n          build jobs (default: one per core)
#   PIP_ARGS=...    extra arguments of pip, such as --extra-index-url https://download.pytorch.org/whl/cpu
#   FUZZ_SECONDS=n  seconds per fuzz target in `make fuzz` (default 30); FUZZ_TARGETS="tar manifest": only these
#   PREFIX=folder   install, uninstall: where to (default /usr/local); DESTDIR=folder is put before all paths
#   PYTHONS="3.11"  wheel: of these CPython versions (default: all that are here)
#   N=n, SEED=n     faults, function-faults: how many, and the seed (default: 1000, and one that is printed)
#   REPEATS=n       stress: how many rounds (default: 200)
#   MUTANTS=...     mutants: arguments of tools/mutants.py (--tenth, --only PATTERN, --list)
#   TESTS=pattern   test, asan, tsan, gcc: only the C++ tests whose name matches
#   LINT=--each     lint: clang-tidy looks at each source by itself (default: in batches, for a seventh of the time)
#   FOLDERS="io"    asan, tsan: only the C++ tests of these folders below tests

SHELL := /bin/bash
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 30
TESTS ?= .
FOLDERS ?=
N ?= 1000
SEED ?=
REPEATS ?= 200
MUTANTS ?=
LINT ?=
DATA ?=
PREFIX ?= /usr/local
DESTDIR ?=
PY := .venv/bin/python
TEST_PROGRAMS := $(filter-out faults_test fuzz_test,$(patsubst tests/%/CMakeLists.txt,%_test,$(wildcard tests/*/CMakeLists.txt)))
export JOBS FUZZ_SECONDS FUZZ_TARGETS PIP_ARGS PYTHONS

.DEFAULT_GOAL := help
.PHONY: help setup demo test gcc gccbits arm armbits asan tsan lint fuzz faults function-faults long mutants stress bench wheel wheel-trial deb deb-trial container-trial install uninstall docs format all-checks clean

help:  ## this text
	@echo "Carya: a shared-memory data loader. Start with one of the first two."
	@echo
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'
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
	@$(PY) tools/test.py --build build/release --python --architecture --bench --tests '$(TESTS)'

gcc:  ## the same C++ tests built by GCC, and the same digests of the stream
	@tools/setup.sh test
	@tools/build.sh release
	@tools/build.sh gcc
	@$(PY) tools/test.py --build build/gcc --tests '$(TESTS)'
	@$(PY) tools/digests.py build/release build/gcc

gccbits:  ## the part of gcc that CI runs: GCC builds all that ships, and what decides bits is tested
	@tools/setup.sh test
	@tools/build.sh release
	@tools/build.sh gccbits bits caryad carya-worker
	@$(PY) tools/test.py --build build/gccbits --folders "jpeg coefficients transforms"
	@$(PY) tools/digests.py build/release build/gccbits

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
	@tools/build.sh armbits bits
	@env -u CARYA_TEST_DATA $(PY) tools/test.py --build build/armbits --leave-out tests/qemu_leaves_out.txt \
	  --tests '^(Targets/Kernel|Kernel(Idct|Jpeg\.|Resize\.[^I]|Store|Pad)|BlurTaps|WarpGrid|EveryTarget/(Damage|Decoder|Index))'
	@$(PY) tools/digests.py --made build/release build/armbits

asan:  ## the C++ tests under the address and undefined-behaviour sanitizers
	@tools/setup.sh test
	@tools/build.sh asan $(or $(FOLDERS:%=%_test),all)
	@$(PY) tools/test.py --build build/asan --tests '$(TESTS)' --folders '$(FOLDERS)'

tsan:  ## the C++ tests under the thread sanitizer
	@tools/setup.sh test
	@tools/build.sh tsan $(or $(FOLDERS:%=%_test),all)
	@$(PY) tools/test.py --build build/tsan --tests '$(TESTS)' --folders '$(FOLDERS)'

lint:  ## clang-format, clang-tidy (short list), ruff, mypy --strict
	@tools/setup.sh test
	@tools/build.sh lint configure
	@tools/lint.sh $(LINT)

fuzz:  ## libFuzzer on every parser, FUZZ_SECONDS each
	@tools/setup.sh test
	@tools/build.sh asan fuzzers
	@tools/fuzz.sh

faults:  ## N random faults under running jobs (default 1000), each followed by a look at the stream and at leaks
	@tools/setup.sh test
	@tools/build.sh release faults
	@build/release/tests/faults/faults -n $(N) --seed '$(SEED)'

function-faults:  ## N random kills under a stream of Python functions: workers, their host, the trainer
	@tools/setup.sh test
	@tools/build.sh release carya_core
	@PYTHONPATH=build/release/python $(PY) tests/faults/functions.py -n $(N) --seed '$(SEED)'

long:  ## the long forms of the decoder's tests (TESTS=/AVX2: those of one SIMD target)
	@tools/setup.sh test
	@tools/build.sh release jpeg_test
	@CARYA_LONG=1 $(PY) tools/test.py --build build/release --folders jpeg --tests '$(TESTS)'

mutants:  ## small mistakes put into the code, one at a time: which tests notice each (MUTANTS=--tenth: a tenth)
	@tools/setup.sh test
	@tools/build.sh release $(TEST_PROGRAMS) carya_core caryad carya-worker
	@$(PY) tools/mutants.py $(MUTANTS)

stress:  ## the tests of what has states and threads, REPEATS times on a busy machine
	@tools/setup.sh test
	@tools/build.sh release $(TEST_PROGRAMS) carya_core caryad carya-worker
	@$(PY) tools/stress.py --repeats $(REPEATS)

bench:  ## every bench, and one table of all their cases
	@tools/setup.sh test
	@tools/build.sh release
	@$(PY) tools/bench.py

wheel:  ## a wheel in dist/ for each CPython that is here, tried in fresh environments
	@tools/setup.sh wheel
	@tools/wheel.sh

wheel-trial: wheel  ## the wheel of CPython 3.11 in a minimal Debian tree (root, network once)
	@tools/setup.sh deb
	@packaging/wheel_trial.sh dist

deb:  ## Debian packages carya and python3-carya in dist/, with a silent lintian
	@tools/setup.sh deb
	@for target in caryad carya-worker carya_core; do tools/build.sh release $$target || exit; done
	@packaging/deb.sh build/release dist

deb-trial: deb  ## the packages installed, upgraded, booted, removed and purged in a Debian tree (root, network once)
	@packaging/deb_trial.sh dist

container-trial: deb  ## the image's run stage and compose.yaml's containers, in trees and namespaces (root, network)
	@packaging/container/trial.sh dist

install:  ## caryad and carya-worker, systemd units, configuration and man pages into PREFIX
	@tools/setup.sh test
	@tools/build.sh release caryad
	@tools/build.sh release carya-worker
	@packaging/install.sh build/release/python/carya/bin "$(PREFIX)" "$(DESTDIR)"

uninstall:  ## what `make install` put there, with the same PREFIX and DESTDIR; a changed configuration stays
	@packaging/uninstall.sh "$(PREFIX)" "$(DESTDIR)"

docs:  ## the documentation site in build/site, warnings are errors
	@tools/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet --site-dir build/site
	@tools/build.sh release carya_core
	@PYTHONPATH=build/release/python $(PY) tools/docs/check_site.py build/site && echo "docs: build/site/index.html"

format:  ## clang-format and ruff format on all files, Markdown at 120 columns
	@tools/setup.sh test
	@git ls-files '*.cc' '*.h' | xargs clang-format-19 -i
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --quiet --fix .
	@.venv/bin/python tools/docs/wrap.py --all

all-checks:  ## the full thing: every test under every build, long forms, fuzzing for hours; .ci/run is the part for each change
	@python3 tools/ci.py --all

clean:  ## remove build/ and dist/ (keeps .venv)
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache
