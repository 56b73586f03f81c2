#!/bin/sh
# run_stage.sh PACKAGES UID: makes a Debian 12 the image: the packages of the folder, and folders for the socket and the
# cache that belong to the user. A volume that is mounted there for the first time takes over their owner.
set -eu
apt-get update -qq
# One small program for the package's user, where apt would take systemd.
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd-standalone-sysusers "$1"/*.deb
rm -rf /var/lib/apt/lists/* /var/cache/apt/*
install -d -o "$2" -g "$2" -m 700 /run/carya /var/cache/carya
