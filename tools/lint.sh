#!/usr/bin/env bash
# lint.sh [--each | --part]: clang-format, clang-tidy (.clang-tidy; the options are those of tidy.py), ruff, mypy. Needs a
# configured build/lint.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
say() { printf '\033[1mcarya\033[0m  lint: %s\n' "$*"; }

say clang-format
git ls-files '*.cc' '*.h' | xargs clang-format-19 --dry-run -Werror || failed=1

say "clang-tidy (build/tidy.log)"
if ! .venv/bin/python tools/tidy.py "$@" > build/tidy.log 2>&1; then
  grep -E 'error:' build/tidy.log | sort -u | head -n 40 || true
  tail -n 3 build/tidy.log
  failed=1
else
  tail -n 1 build/tidy.log
fi

say ruff
.venv/bin/ruff check --quiet . || failed=1
.venv/bin/ruff format --check --quiet . || failed=1

say "mypy --strict"
.venv/bin/mypy --no-error-summary || failed=1

[[ $failed == 0 ]] && say clean
exit $failed
