#!/usr/bin/env bash
# wheel.sh: builds dist/carya-*.whl with the libraries that it needs, and tries it in a fresh environment that has numpy
# only: the package, caryad, a loader that starts it.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build dist
rm -rf dist/carya-*.whl build/wheel-plain
printf '\033[1mcarya\033[0m  building the wheel (log: build/wheel.log)\n'
quietly() { "$@" >> build/wheel.log 2>&1 || { tail -n 30 build/wheel.log >&2; exit 1; }; }
: > build/wheel.log
export CC=clang-19 CXX=clang++-19
quietly .venv/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir build/wheel-plain .
# Debian's liburing, libspng and others come along: the host of the wheel need not have them.
PATH=$PWD/.venv/bin:$PATH quietly .venv/bin/python -m auditwheel repair --wheel-dir dist build/wheel-plain/carya-*.whl

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
# shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
pip_install() { quietly "$place/venv/bin/python" -m pip install --disable-pip-version-check ${PIP_ARGS:-} "$@"; }
pip_install dist/carya-*.whl
cp tools/wheel_trial.py "$place"
(cd "$place" && env -i HOME="$place" PATH=/usr/bin:/bin venv/bin/python wheel_trial.py)
pip_install "$(echo dist/carya-*.whl)[cli]"
(cd "$place" && env -i HOME="$place" PATH=/usr/bin:/bin venv/bin/carya --help > /dev/null)
echo "wheel: package, caryad and a loader that starts it work with numpy only; carya with [cli]"
ls -sh dist/carya-*.whl
