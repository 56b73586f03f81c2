#!/usr/bin/env bash
# install.sh BIN PREFIX [DESTDIR]: puts the programs caryad and carya-worker, built in the folder BIN, their units,
# configuration and man pages in place.
# A configuration that exists is kept. systemd reads units in /usr and /usr/local; elsewhere they must be linked.
# uninstall.sh takes away the same files.
set -euo pipefail
cd "$(dirname "$0")"
if (($# < 2 || $# > 3)) || [[ $2 != /* ]]; then
  echo "usage: install.sh BIN PREFIX [DESTDIR], PREFIX an absolute path" >&2
  exit 2
fi
bin=$1 prefix=${2%/} destdir=${3:-}
[[ $bin == /* ]] || bin=$OLDPWD/$bin

for program in caryad carya-worker; do install -D -m 755 "$bin/$program" "$destdir$prefix/bin/$program"; done
for unit in caryad.service caryad.socket carya-worker.service user/caryad.service user/caryad.socket; do
  folder=system
  [[ $unit == user/* ]] && folder=user
  target=$destdir$prefix/lib/systemd/$folder/${unit#user/}
  install -D -m 644 "systemd/$unit" "$target"
  text=$(< "$target")
  printf '%s\n' "${text//\/usr\/local\/bin\/carya/"$prefix/bin/carya"}" > "$target"
done
for unit in caryad.service caryad.socket; do  # the same names: they are copied to /etc/systemd/system by who wants them
  target=$destdir$prefix/share/carya/all-users/$unit
  install -D -m 644 "systemd/all-users/$unit" "$target"
  text=$(< "$target")
  printf '%s\n' "${text//\/usr\/local\/bin\/carya/"$prefix/bin/carya"}" > "$target"
done
install -D -m 644 systemd/sysusers.conf "$destdir$prefix/lib/sysusers.d/carya.conf"
install -D -m 644 man/caryad.8 "$destdir$prefix/share/man/man8/caryad.8"
for page in carya carya-worker; do install -D -m 644 "man/$page.1" "$destdir$prefix/share/man/man1/$page.1"; done
configuration=$destdir/etc/carya/caryad.toml
[[ -e $configuration ]] || install -D -m 644 caryad.toml "$configuration"

[[ -n $destdir ]] || cat << END
caryad is installed. As a system service, for the user \`carya\` (another one: see caryad(8)):
  systemd-sysusers && systemctl daemon-reload && systemctl enable --now caryad.socket
As a system service for all users, each of whom gets a process of their own:
  cp $prefix/share/carya/all-users/* /etc/systemd/system && systemctl daemon-reload && systemctl enable --now caryad.socket
As a service of each user:
  systemctl --user daemon-reload && systemctl --user enable --now caryad.socket
A worker for other hosts wants certificates first (carya-worker(1)), then:
  systemctl daemon-reload && systemctl enable --now carya-worker.service
END
