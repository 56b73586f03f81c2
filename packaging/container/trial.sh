#!/usr/bin/env bash
# trial.sh FOLDER: what the Dockerfile and compose.yaml do, without Docker: the steps of the image in Debian 12 trees, its
# size, and a daemon and a trainer in two trees with namespaces of their own. FOLDER has the packages of `make deb`;
# BUILD=yes makes them in a tree of its own, as the build stage does (minutes). Needs root, and a network.
set -euo pipefail
if (($# != 1)) || [[ $(id -u) != 0 ]]; then
  echo "usage, as root: trial.sh FOLDER" >&2
  exit 2
fi
debs=$(realpath "$1")
cd "$(dirname "$0")/../.."
source packaging/trial.sh
work=$PWD/build/container
size_limit_mb=150
user=1000
mkdir -p "$work"
trial=$(mktemp -d "$work/trial.XXXXXX")
# The daemon is the child of unshare, which ignores TERM while that runs; a change of user has undone --kill-child.
stop() {
  [[ -z ${daemon:-} ]] || kill -KILL $(pgrep -P "$daemon") || true
  wait
  rm -rf "$trial"
}
trap stop EXIT

if [[ ${BUILD:-no} == yes ]]; then
  say "build stage (log: build/container/build.log)"
  make_base "$work/build-root" "ca-certificates"
  cp -a "$work/build-root" "$trial/build"
  grep -q security "$trial/build/etc/apt/sources.list" ||
    echo "deb http://deb.debian.org/debian-security bookworm-security main" >> "$trial/build/etc/apt/sources.list"
  mkdir "$trial/build/src"
  tar -c $(sed 's/^/--exclude=.\//' packaging/container/Dockerfile.dockerignore) . | tar -x -C "$trial/build/src"
  in_root "$trial/build" /src/packaging/container/build_stage.sh /src /dist > "$work/build.log" 2>&1 ||
    die "the build stage failed; the end of build/container/build.log says:" "$(tail -n 5 "$work/build.log")"
  debs=$trial/build/dist
fi

say "run stage (log: build/container/run.log)"
make_base "$work/python-root" "python3"
image=$trial/image
cp -a "$work/python-root" "$image"
rm -rf "$image"/var/lib/apt/lists/* "$image"/var/cache/apt/*
before_mb=$(du -sm "$image" | cut -f1)
mkdir "$image/dist" "$image/stage"
cp "$debs"/*.deb "$image/dist"
cp packaging/container/run_stage.sh "$image/stage"
in_root "$image" /stage/run_stage.sh /dist "$user" > "$work/run.log" 2>&1 ||
  die "the run stage failed; the end of build/container/run.log says:" "$(tail -n 5 "$work/run.log")"
rm -rf "$image/dist" "$image/stage"
size_mb=$(($(du -sm "$image" | cut -f1) - before_mb))
say "the image has $size_mb MB beyond Debian's Python (at most $size_limit_mb), of which Carya's own packages $(
  in_root "$image" dpkg-query -W -f '${Installed-Size}\n' carya python3-carya | awk '{ sum += $1 } END { print int(sum / 1024) }') MB"
((size_mb <= size_limit_mb)) || die "the image is too large"

# container NAME COMMAND...: the command in a copy of the image, as compose.yaml would run it: the volumes, the user, no
# /dev/shm, and namespaces of its own.
mkdir -p "$trial/socket" "$trial/cache" "$trial/data" "$trial/elsewhere"
chown "$user:$user" "$trial"/{socket,cache,data,elsewhere}
container() {
  local tree=$trial/$1
  shift
  [[ -d $tree ]] || { cp -a "$image" "$tree" && rm -rf "$tree/dev/shm" && mkdir -p "$tree"/{data,elsewhere,srv}; }
  cp packaging/trial_loader.py "$tree/srv/"
  # shellcheck disable=SC2016  # the inner shell's variables
  exec unshare --mount --pid --ipc --net --uts --fork --kill-child sh -euc '
    trial=$1 tree=$2 user=$3
    shift 3
    mount -t proc proc "$tree/proc"
    mount --bind "$trial/socket" "$tree/run/carya"
    mount --bind "$trial/cache" "$tree/var/cache/carya"
    mount --bind "$trial/data" "$tree/data"
    [ "${tree##*/}" = daemon ] || mount --bind "$trial/elsewhere" "$tree/elsewhere"
    exec chroot --userspec="$user:$user" "$tree" env -i PATH=/usr/bin:/bin CARYA_DAEMON_SOCKET=/run/carya/caryad.sock \
      CARYA_CACHE_DIR=/var/cache/carya "$@"' - "$trial" "$tree" "$user" "$@"
}

say "a daemon and a trainer in two trees"
(container daemon caryad) 2> "$trial/daemon.log" &
daemon=$!
for _ in $(seq 300); do
  [[ -S $trial/socket/caryad.sock ]] && break
  sleep 0.1
done
(container trainer carya status) > /dev/null || die "carya status finds no daemon" "$(cat "$trial/daemon.log")"
(container trainer python3 /srv/trial_loader.py required /data) || die "the trainer fails" "$(cat "$trial/daemon.log")"

say "data that only the trainer sees"
said=$( (container trainer python3 /srv/trial_loader.py required /elsewhere) 2>&1) && die "the daemon sees it: $said"
[[ $said == *"the daemon at /run/carya/caryad.sock (caryad, process 1, in another mount namespace"* ]] ||
  die "the error does not name the daemon:" "$said"
echo "${said##*carya.}" | tail -n 1
said=$( (container trainer python3 /srv/trial_loader.py auto /elsewhere) 2>&1) && die "auto has used the daemon: $said"
[[ $said == *"RuntimeWarning: carya: works without the daemon"*"were made in this process"* ]] ||
  die "auto does not go on by itself:" "$said"
echo "container: an image of $size_mb MB beyond Python; daemon and trainer in two trees give the batches of embedded mode"
