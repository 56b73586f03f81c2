#!/usr/bin/env bash
# wheel_trial.sh FOLDER: tries the wheel of CPython 3.11 in FOLDER in a Debian 12 tree with that Python, the wheel, numpy and
# nothing else. Needs root, and a network for the first time.
set -euo pipefail
if (($# != 1)); then
  echo "usage: wheel_trial.sh FOLDER" >&2
  exit 2
fi
if [[ $(id -u) != 0 ]]; then
  echo "carya: a trial of a wheel needs root (debootstrap, chroot): sudo make wheel-trial" >&2
  exit 1
fi
wheel=$(realpath "$(echo "$1"/carya-*-cp311-*.whl)")
cd "$(dirname "$0")/.."
source packaging/trial.sh
[[ -f $wheel ]] || die "$1 has no wheel of CPython 3.11, which Debian 12 has: PYTHONS=3.11 make wheel"
mkdir -p build/wheel
root=$PWD/build/wheel/root
make_base "$root" "python3, python3-venv"

rm -rf "$root/srv/wheels" "$root/srv/trial"
mkdir -p "$root/srv/wheels"
# shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
.venv/bin/python -m pip download --disable-pip-version-check --quiet ${PIP_ARGS:-} --only-binary :all: --python-version 3.11 \
  --platform "manylinux_2_28_$(uname -m)" --platform "manylinux2014_$(uname -m)" --dest "$root/srv/wheels" numpy
cp "$wheel" tools/wheel_trial.py "$root/srv/wheels"
in_root "$root" python3 -m venv /srv/trial
in_root "$root" sh -c '/srv/trial/bin/pip install --quiet --no-index --no-deps /srv/wheels/*.whl'
in_root "$root" /srv/trial/bin/python /srv/wheels/wheel_trial.py
say "$(basename "$wheel") works in a minimal Debian 12 with numpy only"
