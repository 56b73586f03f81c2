#!/usr/bin/env bash
# bench.sh [name...]: runs every bench (or those named), one after the other, and keeps the JSON lines in build/bench.jsonl.
set -euo pipefail
cd "$(dirname "$0")/.."
: > build/bench.jsonl
export PYTHONPATH="build/release/python${PYTHONPATH:+:$PYTHONPATH}"
failed=0
run() {
  printf '\n\033[1m%s\033[0m\n' "$(basename "$1")"
  "${@:2}" | tee build/bench.out || failed=1
  grep -E '^\{' build/bench.out >> build/bench.jsonl || true
}
wanted() { [[ $# == 1 ]] || [[ " ${*:2} " == *" $1 "* ]]; }
for bench in build/release/bench/bench_*; do
  [[ -x $bench && -f $bench ]] || continue
  name=$(basename "$bench")
  if wanted "${name#bench_}" "$@"; then run "$bench" "$bench"; fi
done
for bench in bench/*.py; do
  [[ -f $bench ]] || continue
  if wanted "$(basename "$bench" .py)" "$@"; then run "$bench" .venv/bin/python "$bench"; fi
done
printf '\nJSON lines: build/bench.jsonl\n'
exit $failed
