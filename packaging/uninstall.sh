#!/usr/bin/env bash
# uninstall.sh PREFIX [DESTDIR]: takes away what install.sh put there with the same arguments. A configuration that
# differs from the one that came with it stays. On the running system (no DESTDIR) caryad and carya-worker are stopped and
# disabled first.
set -euo pipefail
cd "$(dirname "$0")"
if (($# < 1 || $# > 2)) || [[ $1 != /* ]]; then
  echo "usage: uninstall.sh PREFIX [DESTDIR], PREFIX an absolute path" >&2
  exit 2
fi
prefix=${1%/} destdir=${2:-}

units=(caryad.socket caryad.service carya-worker.service)
if [[ -z $destdir && -d /run/systemd/system ]]; then
  for unit in "${units[@]}"; do
    # Only units of this prefix: a package or `carya service` may have others of the same name.
    [[ $(systemctl show -P FragmentPath "$unit") != "$prefix"/* ]] || systemctl disable --quiet --now "$unit"
  done
fi

# Exactly what install.sh makes there.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/bin"
touch "$made/bin/caryad" "$made/bin/carya-worker"
./install.sh "$made/bin" "$prefix" "$made/root"

configuration=/etc/carya/caryad.toml
while read -r file; do
  [[ -e $destdir/$file ]] || continue
  if [[ /$file == "$configuration" ]] && ! cmp -s "$destdir$configuration" caryad.toml; then
    echo "kept, because it was changed: $destdir$configuration"
    continue
  fi
  rm -f "$destdir/$file"
done < <(cd "$made/root" && find . -type f -printf '%P\n')
rmdir --ignore-fail-on-non-empty "$destdir/etc/carya" 2> /dev/null || true

[[ -n $destdir ]] || cat << END
caryad is taken away. What stays: the user \`carya\`, /var/cache/carya, and links by which users had enabled their own unit.
  systemctl daemon-reload
END
