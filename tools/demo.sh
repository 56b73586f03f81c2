#!/usr/bin/env bash
# demo.sh [FOLDER]: the demo on the user's photos, or on photos made once in build/demo/photos.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-}
if [[ -z $data ]]; then
  data=build/demo/photos
  .venv/bin/python tools/make_photos.py "$data"
elif [[ ! -d $data ]]; then
  echo "carya: DATA=$data is no folder. It should hold one folder of photos per class." >&2
  exit 1
fi
export PYTHONPATH="build/release/python${PYTHONPATH:+:$PYTHONPATH}"
exec .venv/bin/python examples/demo.py --data "$data" --out build/demo
