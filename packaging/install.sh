#!/usr/bin/env bash
# install.sh CARYAD PREFIX [DESTDIR]: puts the built program CARYAD, its units, configuration and man pages in place.
# A configuration that exists is kept. systemd reads units in /usr and /usr/local; elsewhere they must be linked.
set -euo pipefail
cd "$(dirname "$0")"
if (($# < 2 || $# > 3)) || [[ $2 != /* ]]; then
  echo "usage: install.sh CARYAD PREFIX [DESTDIR], PREFIX an absolute path" >&2
  exit 2
fi
caryad=$1 prefix=${2%/} destdir=${3:-}
[[ $caryad == /* ]] || caryad=$OLDPWD/$caryad

install -D -m 755 "$caryad" "$destdir$prefix/bin/caryad"
for unit in caryad.service caryad.socket user/caryad.service user/caryad.socket; do
  folder=system
  [[ $unit == user/* ]] && folder=user
  target=$destdir$prefix/lib/systemd/$folder/${unit#user/}
  install -D -m 644 "systemd/$unit" "$target"
  text=$(< "$target")
  printf '%s\n' "${text//\/usr\/local\/bin\/caryad/"$prefix/bin/caryad"}" > "$target"
done
install -D -m 644 systemd/sysusers.conf "$destdir$prefix/lib/sysusers.d/carya.conf"
install -D -m 644 man/caryad.8 "$destdir$prefix/share/man/man8/caryad.8"
install -D -m 644 man/carya.1 "$destdir$prefix/share/man/man1/carya.1"
configuration=$destdir/etc/carya/caryad.toml
[[ -e $configuration ]] || install -D -m 644 caryad.toml "$configuration"

[[ -n $destdir ]] || cat << END
caryad is installed. As a system service, for the user \`carya\` (another one: see caryad(8)):
  systemd-sysusers && systemctl daemon-reload && systemctl enable --now caryad.socket
As a service of each user:
  systemctl --user daemon-reload && systemctl --user enable --now caryad.socket
END
