#!/bin/sh
# build_stage.sh SOURCE OUT: Debian packages of the source tree in the folder OUT, in a fresh Debian 12.
set -eu
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ca-certificates make python3 python3-venv
make -C "$1" deb
mkdir -p "$2"
cp "$1"/dist/*.deb "$2"
