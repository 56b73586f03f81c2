#!/usr/bin/env bash
# fuzz.sh: each libFuzzer target for FUZZ_SECONDS, JOBS at a time, starting from its seeds in tests/fuzz/corpus/<target>
# and, when CARYA_TEST_DATA is set, from the real data's malformed files. FUZZ_TARGETS: names (default: all).
# A finding is left in build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-30}
names=(${FUZZ_TARGETS:-})
[[ ${#names[@]} -gt 0 ]] || for source in tests/fuzz/*_fuzz.cc; do names+=("$(basename "$source" _fuzz.cc)"); done
mkdir -p build/fuzz/crashes

fuzz_one() {
  local name=$1 target=build/asan/tests/fuzz/fuzz_$1 work=build/fuzz/corpus/$1 seeds=() folder
  [[ -x $target ]] || { echo "carya: $target was not built" >&2; return 1; }
  mkdir -p "$work"
  [[ -d tests/fuzz/corpus/$name ]] && seeds+=("tests/fuzz/corpus/$name")
  [[ $name == jpeg_* || $name == image_* ]] && seeds+=(tests/fuzz/corpus/image)
  if [[ -n ${CARYA_TEST_DATA:-} && ($name == image* || $name == jpeg*) ]]; then
    for folder in malformed images/exif_orientation images/libjpeg_turbo; do
      [[ -d $CARYA_TEST_DATA/$folder ]] && seeds+=("$CARYA_TEST_DATA/$folder")
    done
  fi
  if [[ -n ${CARYA_TEST_DATA:-} && $name == audio ]]; then
    for folder in malformed/fuzzing_corpus/{flac,mp3,wav} speech/minimp3; do
      [[ -d $CARYA_TEST_DATA/$folder ]] && seeds+=("$CARYA_TEST_DATA/$folder")
    done
  fi
  if "$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/crashes/$name-" "$work" "${seeds[@]}" > "build/fuzz/$name.log" 2>&1; then
    printf '%s: %s runs in %s s\n' "$name" "$(sed -n 's/.*number_of_executed_units: *//p' "build/fuzz/$name.log")" "$seconds"
    return 0
  fi
  printf '%s: FAILED\n' "$name"
  grep -E 'ERROR|SUMMARY|Test unit' "build/fuzz/$name.log" | head -n 5
  return 1
}
export -f fuzz_one
export seconds

printf '\033[1mcarya\033[0m  fuzzing %s targets for %s s each\n' "${#names[@]}" "$seconds"
printf '%s\n' "${names[@]}" | xargs -P "${JOBS:-$(nproc)}" -I{} bash -c 'fuzz_one {}' || {
  echo "fuzz: findings are in build/fuzz/crashes, logs in build/fuzz" >&2
  exit 1
}
echo "fuzz: ${#names[@]} targets clean"
