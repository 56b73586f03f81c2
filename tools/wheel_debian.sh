#!/usr/bin/env bash
# wheel_debian.sh FOLDER: tries the wheel of Debian's own Python in a minimal Debian 12 with python3 and nothing else,
# which is made in FOLDER when it is not there. Needs root, or sudo.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$1
log=build/wheel/debian.log
sudo=()
[[ $(id -u) == 0 ]] || sudo=(sudo)
quietly() { "$@" >> "$log" 2>&1 || { tail -n 30 "$log" >&2; exit 1; }; }
: > "$log"

wheel=$(echo dist/carya-*-cp311-*.whl)
[[ -f $wheel ]] || { echo "carya: dist/ has no wheel of CPython 3.11, Debian 12's: PYTHONS=3.11 make wheel" >&2; exit 1; }
if [[ ! -e $root/.complete ]]; then
  "${sudo[@]}" rm -rf "$root"
  quietly "${sudo[@]}" debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root"
  "${sudo[@]}" touch "$root/.complete"
fi
"${sudo[@]}" rm -rf "$root/wheels" "$root/trial"
"${sudo[@]}" mkdir "$root/wheels"
# shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
quietly .venv/bin/python -m pip download --disable-pip-version-check ${PIP_ARGS:-} --only-binary :all: --python-version 3.11 \
  --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --dest build/wheel/numpy numpy
"${sudo[@]}" cp "$wheel" build/wheel/numpy/numpy-*.whl tools/wheel_trial.py "$root/wheels"
quietly "${sudo[@]}" chroot "$root" python3 -m venv /trial
quietly "${sudo[@]}" chroot "$root" sh -c '/trial/bin/pip install --no-index --no-deps /wheels/*.whl'
# The loader finds libraries beside a program by /proc/self/exe. The mount ends with its name space.
"${sudo[@]}" unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" env -i HOME=/root PATH=/usr/bin:/bin \
  /trial/bin/python /wheels/wheel_trial.py' sh "$root"
echo "wheel: works in a minimal Debian 12 with numpy only ($(basename "$wheel"))"
