#!/usr/bin/env bash
# deb_trial.sh FOLDER: installs, upgrades, removes and purges the packages of `make deb` in FOLDER in a Debian 12 tree of
# their own, and looks at what they do there and what they leave. Needs root, and a network for the first time.
#
# The tree (build/deb/root) is debootstrap's with what the packages depend on, kept for the next time. A trial works in a
# copy. MIRROR=url names another mirror of Debian; BOOT=no leaves out the part that boots the tree with systemd.
set -euo pipefail
if (($# != 1)); then
  echo "usage: deb_trial.sh FOLDER" >&2
  exit 2
fi
if [[ $(id -u) != 0 ]]; then
  echo "carya: a trial of packages needs root (debootstrap, dpkg): sudo make deb-trial" >&2
  exit 1
fi
debs=$(realpath "$1")
cd "$(dirname "$0")/.."
base=$PWD/build/deb/root
source packaging/trial.sh

carya=$(echo "$debs"/carya_*.deb) python=$(echo "$debs"/python3-carya_*.deb)
depends=$(for deb in "$carya" "$python"; do dpkg-deb -f "$deb" Depends; done | paste -sd, | sed -E 's/python3-carya \([^)]*\), *//')
make_base "$base" "systemd-sysv, $depends"

trial=$(mktemp -d "$PWD/build/deb/trial.XXXXXX")
trap 'rm -rf "$trial"' EXIT
root=$trial/root
cp -a "$base" "$root"
inside() { in_root "$root" "$@"; }

# Another version of the same packages, with a configuration that differs from the first one's.
upgraded() {
  local name
  name=$(basename "${1%%_*}")
  dpkg-deb -R "$1" "$trial/$name"
  sed -i -E 's/^(Version: .*|.*\(= [^)]*)-1(\)|$|\),)/\1-2\2/' "$trial/$name/DEBIAN/control"
  [[ $name != carya ]] || echo '# A later version says more.' >> "$trial/$name/etc/carya/caryad.toml"
  (cd "$trial/$name" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | xargs md5sum > DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Znone -b "$trial/$name" "$root/srv/${name}_2.deb" > "$trial/log" || cat "$trial/log"
}

everything() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./dev -prune -o -path ./tmp -prune -o -path ./srv -prune -o -print | sort); }
# What packages leave when they are purged: notes of dpkg, debconf and systemd, and the user (its number is given to
# nobody else).
known_remains='^\./(var/(lib/dpkg|lib/systemd/timers|log|cache/(ldconfig|debconf))|etc/(passwd|shadow|group|gshadow|subuid|subgid)-?$|etc/\.pwd\.lock|run)'
is_version() { [[ $(inside dpkg-query -W -f '${Version}' carya) == *"-$1" ]] || die "carya is not at the version *-$1"; }

say "install"
everything > "$trial/before"
cp "$carya" "$python" "$root/srv/"
inside sh -c 'dpkg -i /srv/*.deb' > "$trial/log" 2>&1 || die "$(cat "$trial/log")"
is_version 1
inside getent passwd carya > /dev/null || die "the package makes no user carya"
inside systemctl is-enabled caryad.socket carya-worker.service 2>&1 | grep -qx enabled && die "a unit is enabled"
try_package "$root"

say "upgrade: a changed configuration stays"
upgraded "$carya"
upgraded "$python"
echo '# mine' >> "$root/etc/carya/caryad.toml"
inside sh -c 'dpkg --force-confdef --force-confold -i /srv/*_2.deb' > "$trial/log" 2>&1 || die "$(cat "$trial/log")"
is_version 2
grep -qx '# mine' "$root/etc/carya/caryad.toml" || die "the upgrade has replaced a changed configuration"
[[ -f $root/etc/carya/caryad.toml.dpkg-dist ]] || die "the upgrade does not show the new configuration"
try_package "$root"

if [[ ${BOOT:-yes} == yes ]]; then
  say "boot: the system service, started by its socket, gives a loader the bits of embedded mode"
  try_service "$root"
fi

say "remove: the configuration stays; purge: nothing stays"
inside dpkg -r carya python3-carya > "$trial/log" 2>&1 || die "$(cat "$trial/log")"
grep -qx '# mine' "$root/etc/carya/caryad.toml" || die "removing has removed the configuration"
[[ ! -e $root/usr/bin/caryad && ! -e $root/usr/lib/python3/dist-packages/carya ]] || die "removing leaves programs"
mkdir -p "$root/var/cache/carya/indexes"
inside dpkg -P carya python3-carya > "$trial/log" 2>&1 || die "$(cat "$trial/log")"
everything > "$trial/after"
left=$(diff "$trial/before" "$trial/after" | sed -n 's/^[<>] //p' | grep -Ev "$known_remains" || true)
[[ -z $left ]] || die "purging leaves, or takes with it:" "$left"
echo "deb: installed, upgraded, removed and purged in Debian 12 ($(cat "$base/etc/debian_version")); nothing is left but the user carya"
