#!/usr/bin/env bash
# arm_root.sh: makes build/arm64-root, the part of an arm64 Debian 12 that the preset `arm` is built against and that
# qemu-aarch64-static runs its programs in. Needs no root and leaves the machine's own packages alone: apt works on lists
# and a cache of its own below build/, and what it loads is unpacked, not installed. Says nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."
root=build/arm64-root
work=build/arm64-root.work
log=build/arm64-root.log

say() { printf '\033[1mcarya\033[0m  %s\n' "$*"; }
die() {
  printf 'carya: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# What the package and `carya doctor` need, of the same versions as in .venv.
mapfile -t wheels < <(grep -hE '^(numpy|typer)' tools/requirements/{demo,test}.txt)
wanted=$(cat tools/packages_arm.txt tools/arm_root.sh; printf '%s\n' "${wheels[@]}")
[[ -f $root/carya.stamp && $(< $root/carya.stamp) == "$wanted" ]] && exit 0

[[ $(. /etc/os-release 2> /dev/null && echo "${VERSION_CODENAME:-}") == bookworm ]] ||
  die "make arm takes its arm64 libraries from Debian 12, and this is another system." \
    "Run it on Debian 12, for example in the container debian:12."
command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || die "apt-get or dpkg-deb is not in PATH."
[[ -x .venv/bin/python ]] || die ".venv is not there." "Run:  tools/setup.sh test"

say "loading the arm64 packages of tools/packages_arm.txt into $root (log: $log)"
rm -rf "$root" "$work"
mkdir -p "$work"/{lists/partial,cache/archives/partial} "$root"/usr/{bin,sbin,lib}
: > "$work/status"
# The machine's own sources and keys, with lists, a cache and a set of installed packages (none) that are ours alone.
cat > "$work/apt.conf" << END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
APT::Update::Post-Invoke "";
Dir::State "$PWD/$work";
Dir::State::lists "$PWD/$work/lists";
Dir::State::status "$PWD/$work/status";
Dir::Cache "$PWD/$work/cache";
Acquire::Languages "none";
Acquire::Retries "3";
END
export APT_CONFIG=$PWD/$work/apt.conf
apt-get update -q > "$log" 2>&1 ||
  die "apt-get update for arm64 failed; the end of $log says:" "$(tail -n 3 "$log")" \
    "Check the network and /etc/apt/sources.list; its mirror must have arm64 (deb.debian.org has)."
mapfile -t packages < <(grep -vE '^(#|$)' tools/packages_arm.txt)
apt-get install -y -q --download-only --no-install-recommends "${packages[@]}" >> "$log" 2>&1 ||
  die "loading the arm64 packages failed; the end of $log says:" "$(tail -n 3 "$log")" \
    "Debian 12 (bookworm, with its security updates) has all of them for arm64: check /etc/apt/sources.list."

for name in bin sbin lib; do ln -s "usr/$name" "$root/$name"; done
for package in "$work"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --no-same-owner --keep-directory-symlink -C "$root" \
    --exclude './usr/share/doc' --exclude './usr/share/man' --exclude './var' >> "$log" 2>&1 ||
    die "unpacking $package failed; the end of $log says:" "$(tail -n 3 "$log")"
done
# Links of libraries to absolute paths would leave the folder.
find "$root" -type l -lname '/*' -printf '%P\t%l\n' | while IFS=$'\t' read -r link target; do
  [[ -e $root$target ]] && ln -sfnr "$root$target" "$root/$link"
done

# shellcheck disable=SC2086  # PIP_ARGS is a list of arguments
.venv/bin/python -m pip install --disable-pip-version-check --quiet ${PIP_ARGS:-} --target "$root/python" \
  --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
  --python-version 3.11 --implementation cp --only-binary=:all: "${wheels[@]}" >> "$log" 2>&1 ||
  die "pip found no ${wheels[*]} for aarch64; the end of $log says:" "$(tail -n 3 "$log")" \
    "Without a network: PIP_ARGS='--no-index --find-links folder-of-wheels'."
rm -rf "$work"
printf '%s\n' "$wanted" > "$root/carya.stamp"
