#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures build/PRESET (CMakePresets.json) and builds the targets; "configure": only that.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 targets=("${@:2}")
[[ ${#targets[@]} -gt 0 ]] || targets=(all)
log=build/$preset.log
mkdir -p build

fail() {
  grep -E 'error|Error|FAILED|undefined' "$log" | head -n 30 >&2 || tail -n 30 "$log" >&2
  echo "carya: the build of $preset failed; all of it is in $log" >&2
  exit 1
}

# On a terminal ninja's progress is one line that is overwritten; elsewhere it only goes to the log.
show() {
  if [[ -t 1 && -z ${CI:-} ]]; then
    tee -a "$log" | awk '/^\[/ { printf "\r\033[K%.100s", $0; fflush() } END { printf "\r\033[K" }'
  else
    cat >> "$log"
  fi
}

# The package as it will be installed: the extension of this build, and links to the Python files of the source tree.
link_package() {
  local package=build/$preset/python/carya entry
  [[ -d $package ]] || return 0
  find "$package" -xtype l -delete
  for entry in python/carya/*; do
    case $entry in */_core*.so | */__pycache__) continue ;; esac
    # One that is there is left alone: tests may be reading it.
    [[ $package/${entry##*/} -ef $entry ]] || ln -sfnr "$entry" "$package/"
  done
}

# Another checkout of the same files finds this one's objects.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
exec 9> "build/$preset.lock" # one build of a preset at a time: tools/ci.py runs two parts at once
flock 9
start=$SECONDS
cmake --preset "$preset" > "$log" 2>&1 || fail
[[ ${targets[0]} == configure ]] && exit 0
printf '\033[1mcarya\033[0m  building %s (log: %s)\n' "$preset" "$log"
cmake --build "build/$preset" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}" 2>&1 | show || fail
link_package
if [[ -n ${CARYA_PARTS:-} ]]; then # for tools/ci.py: wall seconds, and those that processors were busy for
  times > "build/$preset.times"
  awk -F '[ms ]+' -v name="build $preset" -v wall=$((SECONDS - start)) \
    'NR == 2 { printf "%s\t%d\t%.0f\n", name, wall, $1 * 60 + $2 + $3 * 60 + $4 }' "build/$preset.times" >> "$CARYA_PARTS"
fi
printf '\033[1mcarya\033[0m  built %s in %d s\n' "$preset" $((SECONDS - start))
